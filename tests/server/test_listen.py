"""Listen addresses: what is understood, what is refused, and that the sockets are there."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from penstock.core.errors import PenstockError
from penstock.server import DEFAULT_ADDRESS, DEFAULT_PORT, Address, parse_address, serve
from penstock.server.authentication import Authentication


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":19771", Address("", 19771)),
        (DEFAULT_ADDRESS, Address("", DEFAULT_PORT)),
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("broker-1.example:0", Address("broker-1.example", 0)),
        ("[::1]:9000", Address("::1", 9000)),
        ("[fe80::1%eth0]:9000", Address("fe80::1%eth0", 9000)),
        ("[fe80::1%br-4f.100]:9000", Address("fe80::1%br-4f.100", 9000)),
        ("[::]:65535", Address("::", 65535)),
    ],
)
def test_address(text: str, expected: Address) -> None:
    assert parse_address(text) == expected
    assert str(expected) == text


def test_the_zone_of_an_address_may_be_written_as_in_a_url() -> None:
    assert parse_address("[fe80::1%25eth0]:9000") == Address("fe80::1%eth0", 9000)
    assert parse_address("[fe80::1%25]:9000") == Address("fe80::1%25", 9000), (
        "the interface of this number"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "19771",
        "host",
        "host:",
        ":65536",
        ":-1",
        "::1:80",
        "[::1]",
        "a b:1",
        "http://h:1",
        ":1x",
    ],
)
def test_no_address(text: str) -> None:
    with pytest.raises(PenstockError, match=r"write :19771, host:port or \[::1\]:port"):
        parse_address(text)


def test_the_default_port_is_nobody_elses() -> None:
    taken = [
        *range(9090, 10_200),
        8161,
        61616,
        5672,
        61613,
        7676,
        8778,
        *range(32_768, 65_536),
    ]
    assert DEFAULT_PORT > 1024
    assert DEFAULT_PORT not in taken


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


def test_the_default_port_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert f"listens on port {DEFAULT_PORT}" in page.read_text()


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/", hello)
    return app


async def test_several_addresses_are_served() -> None:
    async with (
        serve(application(), ["127.0.0.1:0", ":0"]) as (one, two),
        ClientSession() as client,
    ):
        assert one.port != two.port
        for port in (one.port, two.port):
            async with client.get(f"http://127.0.0.1:{port}/") as response:
                assert await response.text() == "hello"


async def test_a_name_stands_for_all_its_addresses() -> None:
    async with serve(application(), ["localhost:0"]) as addresses:
        assert {address.host for address in addresses} <= {"127.0.0.1", "::1"}


async def test_a_taken_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            PenstockError,
            match=rf"cannot listen on 127\.0\.0\.1:{port}: .* another process listens",
        ):
            async with serve(application(), ["127.0.0.1:0", f"127.0.0.1:{port}"]):
                pass


async def test_an_address_of_another_machine_is_told() -> None:
    with pytest.raises(
        PenstockError,
        match=r"cannot listen on 192\.0\.2\.1:0: Cannot assign requested address",
    ):
        async with serve(application(), ["192.0.2.1:0"]):
            pass


async def test_a_name_that_does_not_resolve_is_told() -> None:
    with pytest.raises(
        PenstockError, match=r"cannot listen on no-such-host\.invalid:0: "
    ):
        async with serve(application(), ["no-such-host.invalid:0"]):
            pass


class Slow(Authentication):
    """One whose watch takes a while to end."""

    def __init__(self) -> None:
        self.context = None
        self.told = asyncio.Event()
        self.may_go = asyncio.Event()

    def guard(self, app: web.Application) -> None: ...

    async def watch(self, renew: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002 - the guard's
        try:
            await asyncio.Event().wait()
        finally:
            self.told.set()
            await self.may_go.wait()

    def close(self) -> None: ...


async def test_who_is_cancelled_while_the_server_ends_is_cancelled() -> None:
    guard = Slow()

    async def serving() -> None:
        async with serve(
            web.Application(), ["127.0.0.1:0"], authentication=guard, grace_seconds=0.2
        ):
            await asyncio.sleep(0)

    task = asyncio.create_task(serving())
    await guard.told.wait()
    task.cancel()
    await asyncio.sleep(0)
    guard.may_go.set()
    await asyncio.wait([task])
    assert task.cancelled()
