"""What an operator reads when the port or the scheme of a URL is wrong: what is there, and no Python object."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from penstock.core.errors import SourceError
from penstock.transports.http_errors import reason
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.tls import TlsFiles
from transports.test_jolokia import server_side, serving

OBJECTS = re.compile(
    r"ssl:|<[\w.]+ object|Errno|Traceback|\(_ssl|Connect call failed|ClientConnector|b'"
)


@asynccontextmanager
async def answering(first: bytes) -> AsyncIterator[int]:
    """A port whose server writes these bytes to whatever connects, as brokers do; the port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(first)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def empty(_: web.Request) -> web.Response:
    return web.Response()


async def told(url: str, **more: Any) -> str:
    transport = JolokiaTransport(JolokiaTarget(url, max_answer_bytes=1000, **more))
    try:
        with pytest.raises(SourceError) as caught:
            await transport.ask([{"type": "version"}], 5)
    finally:
        await transport.close()
    return str(caught.value)


async def nothing_listens() -> str:
    return await told("http://127.0.0.1:1/jolokia/")


async def no_such_host() -> str:
    return await told("http://no-such-host.invalid/jolokia/")


async def https_on_a_port_of_http() -> str:
    async with serving(empty) as url:
        return await told(url.replace("http:", "https:"))


async def http_on_a_port_of_https() -> str:
    async with serving(empty, server_side(trustme.CA(), "127.0.0.1")) as url:
        return await told(url.replace("https:", "http:"))


async def a_certificate_of_another_authority() -> str:
    async with serving(empty, server_side(trustme.CA(), "127.0.0.1")) as url:
        return await told(url, tls=TlsFiles())


async def the_port_mapper_of_openmq() -> str:
    async with answering(
        b"101 imqbroker 6.5\nportmapper tcp PORTMAPPER 7676\n"
    ) as port:
        return await told(f"http://127.0.0.1:{port}/jolokia/")


async def an_acceptor_of_amqp() -> str:
    async with answering(b"AMQP\x00\x01\x00\x00") as port:
        return await told(f"http://127.0.0.1:{port}/jolokia/")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (nothing_listens, "connection refused"),
        (no_such_host, "no-such-host.invalid"),
        (https_on_a_port_of_http, "write http:// in place of https://"),
        (http_on_a_port_of_https, "is this port for https"),
        (a_certificate_of_another_authority, "its certificate is not trusted: "),
        (the_port_mapper_of_openmq, "port for messages"),
        (an_acceptor_of_amqp, "port for messages"),
    ],
)
async def test_it_is_said_without_python_objects(
    wrong: Callable[[], Coroutine[Any, Any, str]], says: str
) -> None:
    text = await wrong()
    assert says in text
    assert not OBJECTS.search(text), text


def test_an_error_without_a_text_has_a_reason() -> None:
    assert reason(ValueError()) == "no reason was given"
    assert reason(TimeoutError()) == "no answer in time"
    assert (
        reason(aiohttp.ClientPayloadError("<ContentLengthError: 400>"))
        == "the answer breaks off"
    )
    assert (
        reason(OSError(111, "Connect call failed ('127.0.0.1', 1)"))
        == "connection refused"
    )
