"""A real server on a free port and real clients."""

import asyncio
import gzip
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web

from exposition.tables import blocks, everything
from penstock.core.errors import ConfigError, PenstockError
from penstock.exposition.body import Exposition
from penstock.exposition.negotiate import FamilyFilter
from penstock.exposition.self_metrics import SelfMetrics
from penstock.exposition.syntax import Format
from penstock.insight.answers import BrokerState, QueueList
from penstock.insight.events import Event
from penstock.server import (
    AgentView,
    Body,
    app,
    connection_limit,
    make_app,
    request_limit,
    serve,
)
from server.sink import Sink

pytestmark = pytest.mark.asyncio

BIG = b"".join(b"metric_%07d 1\n" % number for number in range(2_000)) * 1_000
"""Above what all buffers between server and reader hold."""


@dataclass
class Chunks:
    """A body of fixed bytes."""

    body: bytes = b"a 1\n"
    size: int = 256 * 1024

    def chunks(
        self,
        form: Format,  # noqa: ARG002 - the protocol's
        *,
        gzip: bool,
        choice: FamilyFilter,  # noqa: ARG002 - the protocol's
    ) -> Iterator[bytes]:
        body = compress(self.body) if gzip else self.body
        return (
            body[start : start + self.size] for start in range(0, len(body), self.size)
        )


def compress(body: bytes) -> bytes:
    return gzip.compress(body, 1)


@dataclass
class Agent:
    exposition: Body = field(default_factory=Chunks)
    state: tuple[bool, str] = (True, "")
    refusal: str = ""
    refuses: type[PenstockError] = ConfigError
    reloads: int = 0
    states: Sequence[BrokerState] = ()
    asked_in: set[int] = field(default_factory=set)
    """Threads in which the API looked something up."""
    may_go: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_go.set()

    def ready(self) -> tuple[bool, str]:
        return self.state

    async def reload(self) -> None:
        if self.refusal:
            raise self.refuses(self.refusal)
        self.reloads += 1

    def links(self) -> dict[str, str]:
        return {}

    def masked_config(self) -> str:
        return "password: <secret>\n"

    def brokers(self) -> Sequence[BrokerState]:
        return self.states

    def queues(self, *_: object, **__: object) -> Any:
        self.asked_in.add(threading.get_ident())
        self.may_go.wait(10)
        return QueueList([], 0)

    clients = consumers = conditions = incidents = clusters = queues

    def explain(self, *_: object) -> Any:
        self.asked_in.add(threading.get_ident())
        return {}

    client = recent = account = thing = explain

    def events(self, **_: object) -> Sequence[Event]:
        self.asked_in.add(threading.get_ident())
        return ()


@dataclass
class Server:
    port: int
    client: ClientSession

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def running(
    agent: AgentView, idle_seconds: float = 75.0, max_connections: int = 0, **how: Any
) -> AsyncIterator[Server]:
    made = make_app(agent, **how)
    listening = ["127.0.0.1:0"]
    async with (
        serve(
            made,
            listening,
            idle_seconds=idle_seconds,
            grace_seconds=0.2,
            max_connections=max_connections,
        ) as (address,),
        ClientSession() as client,
    ):
        yield Server(address.port, client)


async def request(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.client.request(
        method, server.url(path), headers=named
    ) as response:
        return response.status, dict(response.headers), await response.read()


async def connect(server: Server, sent: bytes, buffer: int = 4096) -> socket.socket:
    """A reader of its own making, that takes nothing by itself."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, ("127.0.0.1", server.port))
    await loop.sock_sendall(raw, sent)
    return raw


async def received(raw: socket.socket) -> bytes:
    """All until the server closes or drops the connection."""
    parts = []
    with raw:
        try:
            while part := await asyncio.get_running_loop().sock_recv(raw, 2**20):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - what is waited for is in the server
            await asyncio.sleep(0.005)


async def answered(server: Server, status: int) -> bool:
    """Whether a look at `/metrics` gets this answer."""
    return (await request(server, "/metrics", "HEAD"))[0] == status


PLAIN = {"Accept_Encoding": "identity"}


async def test_metrics_in_both_formats_and_encodings() -> None:
    body: Body = Exposition(lambda form: f"# in {form.value}\n".encode())
    async with running(Agent(body)) as server:
        for accept, kind, end in (
            ("", "text/plain; version=0.0.4; charset=utf-8", b"# in text 0.0.4\n"),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
                "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
                b"# in OpenMetrics 1.0\n# EOF\n",
            ),
        ):
            plain = await request(
                server, "/metrics", Accept=accept, Accept_Encoding="identity"
            )
            packed = await request(
                server, "/metrics", Accept=accept, Accept_Encoding="gzip"
            )
            assert plain[0] == packed[0] == 200
            assert plain[1]["Content-Type"] == packed[1]["Content-Type"] == kind
            assert plain[1]["Vary"] == packed[1]["Vary"] == "Accept, Accept-Encoding"
            assert "Content-Encoding" not in plain[1]
            assert packed[1]["Content-Encoding"] == "gzip"
            assert plain[2] == packed[2] == end


async def test_a_request_may_ask_for_some_families_only() -> None:
    exposition = Exposition(SelfMetrics("1.0").render)
    exposition.set_broker("b", blocks(everything("b")))
    async with running(Agent(exposition)) as server:
        status, _, some = await request(
            server, "/metrics?name[]=mq_queue_*&exclude[]=mq_queue_messages", **PLAIN
        )
        wrong, _, why = await request(
            server, "/metrics?name[]=mq_queue_mesages", **PLAIN
        )
        _, _, whole = await request(server, "/metrics", **PLAIN)
    assert status == 200
    names = {
        line.partition(b"{")[0]
        for line in whole.splitlines()
        if not line.startswith(b"#")
    }
    wanted = {name for name in names if name.startswith(b"mq_queue_")} - {
        b"mq_queue_messages"
    }
    assert {
        line.partition(b"{")[0]
        for line in some.splitlines()
        if not line.startswith(b"#")
    } == wanted
    assert len(wanted) > 20
    assert wrong == 400
    assert b"mq_queue_mesages" in why


@pytest.mark.slow  # a large body or many connections
async def test_a_large_body_arrives_whole_plain_and_packed() -> None:
    async with running(Agent(Chunks(BIG))) as server:
        bodies = await asyncio.gather(
            *(
                request(server, "/metrics", Accept_Encoding=encoding)
                for encoding in ("identity", "gzip")
            )
        )
    assert [body == BIG for _, _, body in bodies] == [True, True]


async def test_head_has_the_headers_and_no_body() -> None:
    async with running(Agent()) as server:
        raw = await connect(
            server, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        head, _, body = (await received(raw)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    assert body == b""


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/metrics", "GET,HEAD,OPTIONS"),
        ("/", "GET,HEAD,OPTIONS"),
        ("/api/v1/brokers", "GET,HEAD,OPTIONS"),
        ("/-/healthy", "GET,HEAD,OPTIONS"),
        ("/-/reload", "OPTIONS,POST"),
    ],
)
async def test_options_names_the_methods_of_a_path(path: str, allow: str) -> None:
    agent = Agent()
    async with running(agent, lifecycle=True) as server:
        status, headers, body = await request(
            server, path, "OPTIONS", Host="penstock.example"
        )
        assert (await request(server, "/metrics/", "OPTIONS"))[0] == 404
    assert (status, headers["Allow"], body) == (204, allow, b"")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert agent.reloads == 0


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("POST", "/metrics", 405, "GET,HEAD"),
        ("GET", "/-/reload", 405, "POST"),
        ("DELETE", "/config", 405, "GET,HEAD"),
        ("PUT", "/", 405, "GET,HEAD"),
        ("GET", "/nope", 404, None),
        ("GET", "/metrics/", 404, None),
    ],
)
async def test_what_is_not_there(
    method: str, path: str, status: int, allow: str | None
) -> None:
    async with running(Agent()) as server:
        got, headers, body = await request(server, path, method)
    assert (got, headers.get("Allow")) == (status, allow)
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert len(body) < 100


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/queues",
        "/api/v1/queues/b/a/q",
        "/api/v1/explain?broker=b&queue=q",
        "/api/v1/recent?broker=b&queue=q",
        "/api/v1/clients",
        "/api/v1/client?broker=b&client=c",
        "/api/v1/conditions",
        "/api/v1/events",
    ],
)
async def test_look_ups_do_not_hold_up_the_loop(path: str) -> None:
    agent = Agent()
    async with running(agent) as server:
        assert (await request(server, path))[0] == 200
    assert len(agent.asked_in) == 1
    assert threading.get_ident() not in agent.asked_in


async def test_every_answer_has_the_headers_and_no_banner() -> None:
    async with running(Agent()) as server:
        for path in ("/", "/metrics", "/config", "/-/healthy", "/nope"):
            _, headers, _ = await request(server, path)
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"].startswith(
                "default-src 'none'; style-src 'self'; script-src 'self'"
            )
            assert "Server" not in headers
        garbage = await received(await connect(server, b"no http\x01 at all\r\n\r\n"))
    assert garbage.startswith(b"HTTP/1.0 400")
    assert b"aiohttp" not in garbage.lower()
    assert b"python" not in garbage.lower()


async def test_health_and_readiness() -> None:
    agent = Agent(state=(False, "broker b1 was not asked yet"))
    async with running(agent) as server:
        assert (await request(server, "/-/healthy"))[0] == 200
        status, _, body = await request(server, "/-/ready")
        assert (status, body) == (
            503,
            b"Penstock is not ready: broker b1 was not asked yet\n",
        )
        agent.state = (True, "")
        assert (await request(server, "/-/ready"))[0] == 200


async def test_config_is_what_the_agent_masked() -> None:
    async with running(Agent()) as server:
        status, headers, body = await request(server, "/config")
    assert (status, headers["Content-Type"], body) == (
        200,
        "text/yaml; charset=utf-8",
        b"password: <secret>\n",
    )


@pytest.mark.slow  # takes a second
async def test_a_scrape_too_many_is_refused_and_its_slot_comes_back() -> None:
    async with running(Agent(Chunks(BIG)), max_scrapes=2) as server:
        held = [await server.client.get(server.url("/metrics")) for _ in range(2)]
        status, headers, body = await request(server, "/metrics")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert (
            body
            == b"2 scrapes are under way, the most allowed; try again in a second.\n"
        )
        held[0].close()  # a reader that goes away midway
        assert await held[1].read() == BIG

        async def two_are_accepted() -> bool:
            answers = await asyncio.gather(
                request(server, "/metrics"), request(server, "/metrics")
            )
            return [status for status, _, _ in answers] == [200, 200]

        await until(two_are_accepted)


@pytest.mark.slow  # takes a second
async def test_a_stuck_reader_holds_nobody_up_and_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(Agent(Chunks(BIG)), max_scrapes=1, stall_seconds=0.5) as server:
        stuck = await connect(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: answered(server, 503))
        assert (await request(server, "/-/healthy"))[0] == 200
        await until(lambda: answered(server, 200))
        assert (
            "a scrape from 127.0.0.1 was dropped: its reader stopped reading"
            in caplog.text
        )
        assert (await request(server, "/metrics"))[2] == BIG
        body = await received(stuck)
    assert len(body) < len(BIG)
    assert not body.endswith(b"0\r\n\r\n"), "what was cut off must not look whole"
    assert "Traceback" not in caplog.text


@pytest.mark.slow  # reads slowly
async def test_a_slow_but_steady_reader_is_not_dropped() -> None:
    """The whole takes longer than a reader may take nothing."""
    loop = asyncio.get_running_loop()
    async with running(Agent(Chunks(BIG)), stall_seconds=1.0) as server:
        raw = await connect(
            server, b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n", buffer=2**18
        )
        began = loop.time()
        parts = []
        while part := await loop.sock_recv(raw, 2**18):
            parts.append(part)
            await asyncio.sleep(0.015)
        raw.close()
    assert b"".join(parts).partition(b"\r\n\r\n")[2] == BIG
    assert loop.time() - began > 1.5


@pytest.mark.parametrize(
    "sent", [b"", b"GET /-/healthy HTT", b"GET /-/healthy HTTP/1.1\r\nX: y"]
)
async def test_whoever_does_not_finish_a_request_is_dropped(sent: bytes) -> None:
    async with running(Agent(), idle_seconds=0.2) as server:
        async with asyncio.timeout(30):
            assert await received(await connect(server, sent)) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    ],
)
async def test_large_requests_are_refused(sent: bytes) -> None:
    async with running(Agent()) as server:
        assert (await received(await connect(server, sent))).startswith(b"HTTP/1.0 400")


async def test_a_running_scrape_may_finish_when_the_server_stops() -> None:
    body = BIG[: 8 * 2**20]
    serving = serve(make_app(Agent(Chunks(body))), ["127.0.0.1:0"])
    async with ClientSession() as client:
        (address,) = await serving.__aenter__()
        response = await client.get(f"http://127.0.0.1:{address.port}/metrics")
        stop = asyncio.create_task(serving.__aexit__(None, None, None))
        assert await response.read() == body
        await stop
        with pytest.raises(OSError, match="Connect"):
            await client.get(f"http://127.0.0.1:{address.port}/-/healthy")


async def test_a_stuck_reader_does_not_keep_the_server_from_stopping() -> None:
    async with asyncio.timeout(30):
        async with running(Agent(Chunks(BIG))) as server:
            stuck = await connect(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.get_running_loop().sock_recv(stuck, 1)
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stuck.close()


async def test_the_oldest_silent_connection_makes_room() -> None:
    async with running(Agent(), max_connections=3) as server:
        silent = [await connect(server, b"GET / HTTP") for _ in range(6)]
        for _ in range(3):
            assert (await request(server, "/-/healthy"))[0] == 200
        async with asyncio.timeout(30):
            for one in silent[:3]:
                assert await received(one) == b""
        for one in silent[3:]:
            one.close()


@pytest.mark.slow  # a large body or many connections
async def test_where_all_are_busy_a_connection_too_many_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "RESERVE", 1)
    asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with running(Agent(Chunks(BIG[: 4 * 2**20])), max_connections=2) as server:
        busy = []
        for _ in range(3):
            busy.append(await connect(server, asked))
            await asyncio.get_running_loop().sock_recv(busy[-1], 1)
        told = await received(await connect(server, asked))
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in told
        assert told.endswith(b"Too many connections; try again in a second.\n")
        for probe in (b"/-/healthy", b"/-/ready"):
            asks = (
                b"GET " + probe + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            assert (await received(await connect(server, asks))).startswith(
                b"HTTP/1.1 200 "
            )
        for one in busy:
            assert (await received(one)).endswith(b"0\r\n\r\n")
        assert (await request(server, "/-/healthy"))[0] == 200


@pytest.mark.slow  # takes a second
async def test_half_a_probe_gets_nothing_where_all_are_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "RESERVE", 1)
    async with running(Agent(Chunks(BIG[: 4 * 2**20])), max_connections=2) as server:
        busy = []
        for _ in range(3):
            busy.append(
                await connect(
                    server,
                    b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                )
            )
            await asyncio.get_running_loop().sock_recv(busy[-1], 1)
        half = [await connect(server, b"GET /-/healthy HTTP/1.1\r\n") for _ in range(5)]
        for one in half:
            with suppress(ConnectionError):
                assert await received(one) == b""
        for one in busy:
            assert (await received(one)).endswith(b"0\r\n\r\n")


async def test_who_came_only_now_is_not_dropped_for_an_idle_one() -> None:
    async with running(Agent(), max_connections=2) as server:
        idle = [
            await connect(server, b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in range(2)
        ]
        for one in idle:
            await asyncio.get_running_loop().sock_recv(one, 1)
        new = [await connect(server, b"") for _ in range(2)]
        for one in new:
            one.send(b"GET /-/ready HTTP/1.0\r\n\r\n")
            assert b" 200 " in (await received(one)).partition(b"\r\n")[0]
        for one in idle:
            one.close()


async def test_who_has_asked_is_not_idle_before_its_handler_begins() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    limit = connection_limit.ConnectionLimit(web.Server(answer), most=1)
    asks = limit()
    comes = Sink()
    asks.connection_made(comes)
    asks.data_received(
        b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    limit()  # one too many comes in the same turn of the loop
    await until(lambda: asyncio.sleep(0, comes.closed))
    assert comes.written.endswith(b"here")


@pytest.mark.parametrize("head", [b"\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10])
async def test_a_first_request_that_never_ends_is_dropped(head: bytes) -> None:
    async with running(Agent(), idle_seconds=0.2) as server:
        assert await received(await connect(server, head)) == b""


async def test_a_head_that_is_too_long_is_refused() -> None:
    async with running(Agent()) as server:
        told = await received(
            await connect(server, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4000)
        )
        assert told.startswith(b"HTTP/1.1 431 ")


async def test_of_those_that_ask_at_once_a_probe_comes_first() -> None:
    order: list[str] = []

    class Noted(Agent):
        def ready(self) -> tuple[bool, str]:
            order.append("probe")
            return super().ready()

    @dataclass
    class Body(Chunks):
        def chunks(
            self, form: Format, *, gzip: bool, choice: FamilyFilter
        ) -> Iterator[bytes]:
            order.append("scrape")
            return super().chunks(form, gzip=gzip, choice=choice)

    async with running(Noted(Body()), max_scrapes=40) as server:
        crowd = [await connect(server, b"GET ") for _ in range(31)]
        await request(server, "/-/healthy")  # by then all are accepted
        for one, path in zip(crowd, [*[b"/metrics"] * 30, b"/-/ready"], strict=True):
            one.send(path + b" HTTP/1.0\r\n\r\n")
        for one in crowd:
            assert b" 200 " in (await received(one)).partition(b"\r\n")[0]
    assert sorted(order) == ["probe", *["scrape"] * 30]
    assert order[0] == "probe"


@pytest.mark.slow  # a large body or many connections
async def test_a_scrape_that_takes_too_long_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "OLD_SECONDS", 0.2)
    async with running(Agent(Chunks(BIG)), max_scrapes=1) as server:
        slow = await connect(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.get_running_loop().sock_recv(slow, 1)
        await asyncio.sleep(0.3)
        assert (await request(server, "/metrics"))[2] == BIG
        assert len(await received(slow)) < len(BIG)


async def test_who_reads_history_keeps_no_other_waiting() -> None:
    limit = request_limit.RequestLimit()
    line_of = request_limit.line_of
    async with limit.turn(line_of({"range": "7d"})), asyncio.timeout(30):
        async with limit.turn(line_of({"queue": "orders"})):
            pass
        other = asyncio.create_task(limit.turn(line_of({"range": "1h"})).__aenter__())
        await asyncio.sleep(0)
        assert not other.done()
        other.cancel()


async def test_look_ups_wait_in_line_and_the_line_is_bounded() -> None:
    agent = Agent()
    agent.may_go.clear()
    async with running(agent) as server:
        allowed = request_limit.AT_ONCE + request_limit.WAITING
        asked = [
            asyncio.create_task(request(server, "/api/v1/queues"))
            for _ in range(allowed + 1)
        ]
        (one_too_many,), waiting = await asyncio.wait(
            asked, return_when=asyncio.FIRST_COMPLETED
        )
        status, headers, body = one_too_many.result()
        assert (status, headers["Retry-After"]) == (503, "1")
        assert b"try again in a second" in body
        async with asyncio.timeout(30):
            while not agent.asked_in:  # noqa: ASYNC110 - a thread adds to it
                await asyncio.sleep(0.01)
        assert len(agent.asked_in) == request_limit.AT_ONCE
        assert (await request(server, "/-/healthy"))[0] == 200
        agent.may_go.set()
        assert {status for status, *_ in await asyncio.gather(*waiting)} == {200}
