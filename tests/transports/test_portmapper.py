"""What an OpenMQ port mapper says, and what is no port mapper."""

import asyncio

import pytest

from penstock.core.errors import BadAnswer, Unreachable
from penstock.transports.portmapper import ask_port_mapper, parse

SAID = """101 t1 301
portmapper tcp PORTMAPPER 7676 [sessionid=3056996346929801216]
jmxrmi rmi JMX 7100 [url=service:jmx:rmi://HOST:7100/jndi/rmi://localhost:7099/localhost/7676/jmxrmi]
jms tcp NORMAL 45167
stomp[bridge] stomp[TCP] stomp[bridge] 7672
.
"""


def test_services_and_the_session() -> None:
    found = parse(SAID)
    assert found.session == "3056996346929801216"
    assert (
        found.jmx_url
        == "service:jmx:rmi://HOST:7100/jndi/rmi://localhost:7099/localhost/7676/jmxrmi"
    )


def test_a_broker_that_is_starting_names_no_connector() -> None:
    found = parse(
        "101 t1 301\nportmapper tcp PORTMAPPER 7676 [sessionid=1, imqhome=/a=b]\n.\n"
    )
    assert (found.session, found.jmx_url) == ("1", "")


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\xff\xfe\n.\n", b"101\n.\n"]
)
async def test_what_is_no_port_mapper_is_said(said: bytes) -> None:
    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readline()
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BadAnswer, match="not an OpenMQ port mapper"):
            await ask_port_mapper("127.0.0.1", port, 5)


@pytest.mark.parametrize(
    "size", [len("101 t1 301\n"), SAID.index("929801216"), len(SAID) - 2]
)
async def test_an_answer_that_breaks_off_names_no_other_session(size: int) -> None:
    """Half a session would be another one, and so a restart of the broker."""

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readline()
        writer.write(SAID[:size].encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match="breaks off"):
            await ask_port_mapper("127.0.0.1", port, 5)


async def test_nobody_there_is_said() -> None:
    async with await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0
    ) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(Unreachable, match="is the broker up"):
        await ask_port_mapper("127.0.0.1", port, 5)
