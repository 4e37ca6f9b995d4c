"""A connection is ours until its first head is whole, then a handler's; what it counts for in between."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from penstock.server import connection_limit, serve
from penstock.server.connection_limit import RESERVE, SILENT_SECONDS, ConnectionLimit
from server.sink import Sink

HEAD = b"GET /-/ready HTTP/1.1\r\n\r\n"


class Transport(Sink):
    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Handler(asyncio.Protocol):
    """Notes what it is called with, as aiohttp's would be."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: ARG002 - the protocol's
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.calls.append(data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return True

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(exc)


class World:
    """A limit of two connections, and what it made handlers of."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []
        self.limit = ConnectionLimit(self._new, most=2)

    def _new(self) -> Handler:
        self.handlers.append(Handler())
        return self.handlers[-1]

    def connect(self) -> tuple[asyncio.Protocol, Transport]:
        protocol = self.limit()
        transport = Transport()
        protocol.connection_made(transport)
        return protocol, transport

    async def handle(self, transport: Transport, answer: Any) -> web.StreamResponse:
        request = cast("web.Request", SimpleNamespace(transport=transport))
        return await self.limit.middleware(request, answer)

    async def let_in(self) -> tuple[asyncio.Protocol, Transport]:
        """One that has asked and was answered: idle since."""
        protocol, transport = self.connect()
        protocol.data_received(HEAD)

        async def answer(_: web.Request) -> web.Response:
            return web.Response()

        await self.handle(transport, answer)
        return protocol, transport


class Sending(Transport):
    """Of a connection whose request has come, and was not read yet."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.theirs = socket.socketpair()
        self.theirs.sendall(HEAD)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.ours if name == "socket" else default


@pytest.fixture
def sending() -> Iterator[Sending]:
    found = Sending()
    with found.ours, found.theirs:
        yield found


async def test_one_whose_request_was_not_read_yet_makes_no_room_for_others(
    sending: Sending,
) -> None:
    world = World()
    protocol = world.limit()
    protocol.connection_made(sending)
    _, silent = world.connect()
    world.connect()
    assert (sending.closed, silent.closed) == (False, True)
    protocol.data_received(sending.ours.recv(1000))
    assert world.handlers[0].calls == ["made", HEAD]


async def test_a_probe_that_was_not_read_yet_is_answered_among_many_that_are_refused(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limit, "RESERVE", 0)
    world = World()
    for _ in range(2):
        protocol, _ = world.connect()
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0)  # they get their handlers
    _, silent = world.connect()
    monkeypatch.setattr(ConnectionLimit, "probes_fit", True)
    probe = world.limit()
    probe.connection_made(sending)
    await asyncio.sleep(0.01)  # the others that are refused end at once
    assert (sending.closed, silent.closed) == (False, True)
    probe.data_received(sending.ours.recv(1000))
    assert world.handlers[-1].calls == ["made", HEAD]


async def test_the_handler_gets_everything_from_the_first_head_on() -> None:
    world = World()
    protocol, _ = world.connect()
    protocol.pause_writing()
    protocol.resume_writing()
    assert protocol.eof_received() is None
    protocol.data_received(b"\r\nGET /-/ready ")
    assert world.handlers == []
    protocol.data_received(b"HTTP/1.1\r\n\r\n")
    protocol.data_received(b"more")
    protocol.pause_writing()
    protocol.resume_writing()
    assert protocol.eof_received() is True
    lost = ConnectionResetError()
    protocol.connection_lost(lost)
    (handler,) = world.handlers
    assert handler.calls == ["made", HEAD, b"more", "pause", "resume", "eof", lost]


class Lingering(Transport):
    """Is closing until it is aborted, as one whose reader takes nothing, or says no farewell in TLS."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


async def test_one_that_makes_room_and_does_not_end_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "SILENT_SECONDS", 0.01)
    world = World()
    protocol = world.limit()
    lingering = Lingering()
    protocol.connection_made(lingering)
    protocol.data_received(HEAD)

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    await world.handle(lingering, answer)
    await world.let_in()
    world.limit()
    assert (lingering.closed, lingering.aborted) == (True, False)
    await asyncio.sleep(0.05)
    assert lingering.aborted


async def test_one_that_came_only_now_does_not_make_room_for_those_that_ask() -> None:
    """It may be a probe; a crowd with whole heads waits for its handlers."""
    world = World()
    for _ in range(RESERVE):
        protocol, _ = world.connect()
        protocol.data_received(HEAD.replace(b"/-/ready", b"/metrics"))
    _, new = world.connect()
    for _ in range(4):
        protocol = world.limit()
        refused = Transport()
        protocol.connection_made(refused)
    assert not new.closed
    protocol.data_received(HEAD.replace(b"/-/ready", b"/metrics"))
    assert refused.written.startswith(b"HTTP/1.1 503 ")


async def test_an_idle_connection_makes_room_and_a_busy_one_does_not() -> None:
    world = World()
    may_end = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await may_end.wait()
        return web.Response()

    protocol, busy = world.connect()
    protocol.data_received(HEAD)
    _, idle = await world.let_in()
    handling = asyncio.create_task(world.handle(busy, slow))
    await asyncio.sleep(0)
    world.limit()
    assert (busy.closed, idle.closed) == (False, True)
    may_end.set()
    await handling
    world.limit()
    assert busy.closed


async def test_a_lost_connection_counts_while_its_request_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    may_end = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await may_end.wait()
        return web.Response()

    handling = []
    for _ in range(2 + RESERVE):
        protocol, transport = world.connect()
        protocol.data_received(HEAD)
        handling.append(asyncio.create_task(world.handle(transport, slow)))
        await asyncio.sleep(0)
        protocol.connection_lost(None)
    refused, told = world.connect()
    refused.data_received(b"GET /metrics ")
    assert told.written.startswith(b"HTTP/1.1 503 ")
    may_end.set()
    await asyncio.gather(*handling)
    _, transport = world.connect()
    assert (transport.written, transport.closed) == (b"", False)


async def test_what_ends_before_its_request_is_handled_counts_no_longer() -> None:
    """As one that aiohttp answers 400 by itself."""
    world = World()
    for _ in range(3 * RESERVE):
        protocol, transport = world.connect()
        protocol.data_received(HEAD)
        protocol.connection_lost(None)
        await world.handle(transport, lambda _: asyncio.sleep(0, web.Response()))
    _, transport = await world.let_in()
    world.connect()
    assert not transport.closed


# --- with aiohttp behind it

MOST = 8
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class Client:
    """Connections that stay open at this end until the test ends."""

    def __init__(self, port: int, opened: AsyncExitStack) -> None:
        self._port = port
        self._opened = opened

    async def send(self, head: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._opened.callback(writer.close)
        writer.write(head)
        return reader

    async def ask(self, head: bytes) -> int:
        """The status of the answer."""
        async with asyncio.timeout(30):
            reader = await self.send(head)
            return int((await reader.readline()).split()[1])


Handles = Callable[[web.Request], Awaitable[web.Response]]


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def serving(answer: Handles = hello) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_get("/", answer)
    async with (
        serve(app, ["127.0.0.1:0"], grace_seconds=0.2, max_connections=MOST) as (
            address,
        ),
        AsyncExitStack() as opened,
    ):
        yield Client(address.port, opened)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nExpect: foo\r\n\r\n", 417),
        (b"GET /none HTTP/1.1\r\nHost: h\r\nExpect: foo\r\n\r\n", 417),
        (b"GET / HTTX/1.1\r\n\r\n", 400),
    ],
)
async def test_what_aiohttp_answers_by_itself_makes_room(
    head: bytes, status: int
) -> None:
    """No middleware sees these requests."""
    async with serving() as client:
        assert {await client.ask(head) for _ in range(MOST + RESERVE + 1)} == {status}
        assert await client.ask(GET) == 200


@pytest.mark.slow  # takes a second
async def test_what_never_becomes_a_request_makes_room() -> None:
    """Half a preface of HTTP/2 is a whole head, and nothing that aiohttp answers or limits in time."""
    async with serving() as client:
        for _ in range(MOST + RESERVE):
            await client.send(b"PRI * HTTP/2.0\r\n\r\n")
        await asyncio.sleep(SILENT_SECONDS * 1.1)
        await client.ask(GET)  # may be refused, and makes room then
        assert await client.ask(GET) == 200


async def test_after_a_crowd_of_slow_requests_there_is_room() -> None:
    """All were busy when the last one came, so that none was closed for it."""
    begun = asyncio.Semaphore(0)
    may_end = asyncio.Event()
    crowd = []

    async def slow(request: web.Request) -> web.Response:
        begun.release()
        await may_end.wait()
        return await hello(request)

    async with serving(slow) as client:
        for _ in range(MOST + RESERVE):
            crowd.append(await client.send(GET))
            await begun.acquire()
        assert await client.ask(GET) == 503
        may_end.set()
        for reader in crowd:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        await client.ask(GET)  # may be refused, and makes room then
        assert await client.ask(GET) == 200
