"""What is refused before anything looks at it: bodies, reloads unless enabled, foreign hosts, other sites' pages."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import pytest
from aiohttp import ClientSession

from penstock.core.errors import ConfigError
from penstock.core.tasks import Stopped
from penstock.server import make_probe_app, refusals, request_limit, serve
from server.test_http import Agent, Server, connect, received, request, running

pytestmark = pytest.mark.asyncio

LENGTH = b"Content-Length: 100000"
CHUNKED = b"Transfer-Encoding: chunked"
EXPECTED = b"Expect: 100-continue"
BODIES = {
    "a byte now and then": (b"POST /metrics", [LENGTH], b"y"),
    "a chunk now and then": (b"POST /-/reload", [CHUNKED], b"1\r\ny\r\n"),
    "never sent": (b"GET /-/healthy", [LENGTH], b""),
    "whole": (b"GET /", [b"Content-Length: 1"], b"y"),
    "after a question": (b"POST /-/reload", [EXPECTED, LENGTH], b""),
    "of another method": (b"PUT /api/v1/queues", [LENGTH], b"y"),
}


SECONDS = 30
"""Generous: the machine may be busy."""


def head(begin: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((begin + b" HTTP/1.1", b"Host: 127.0.0.1", *headers, b"", b""))


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_is_refused_and_not_waited_for(kind: str) -> None:
    """The connection ends with the answer, however slowly the body comes."""
    begin, headers, piece = BODIES[kind]
    agent = Agent()
    async with running(agent, lifecycle=True) as server:
        loop, raw = (
            asyncio.get_running_loop(),
            await connect(server, head(begin, *headers)),
        )

        async def drip() -> None:
            with suppress(OSError):
                while piece:
                    await loop.sock_sendall(raw, piece)
                    await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(SECONDS):
            told = await received(raw)
        dripping.cancel()
    assert told.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").startswith(
        b"HTTP/1.1 413 "
    )
    assert agent.reloads == 0


@pytest.mark.parametrize("headers", [(), (b"Content-Length: 0",)])
async def test_a_request_without_a_body_is_answered_and_its_connection_stays(
    headers: tuple[bytes, ...],
) -> None:
    agent = Agent()
    async with running(agent, lifecycle=True) as server:
        raw = await connect(server, head(b"POST /-/reload", *headers))
        for _ in range(2):
            assert (await asyncio.get_running_loop().sock_recv(raw, 4096)).startswith(
                b"HTTP/1.1 200 "
            )
            await asyncio.get_running_loop().sock_sendall(raw, head(b"GET /-/healthy"))
        raw.close()
    assert agent.reloads == 1


EMPTY = b"0\r\n\r\n"


@pytest.mark.parametrize(
    "pieces", [[EMPTY], [b"", EMPTY], [b"0\r\n", b"\r\n"], [b"0\r\na: b\r\n\r\n"]]
)
async def test_an_empty_body_in_chunks_is_answered_and_its_connection_stays(
    pieces: list[bytes],
) -> None:
    agent = Agent()
    async with running(agent, lifecycle=True) as server:
        loop = asyncio.get_running_loop()
        first, *others = pieces
        raw = await connect(server, head(b"POST /-/reload", CHUNKED) + first)
        for piece in others:
            await asyncio.sleep(0.02)
            await loop.sock_sendall(raw, piece)
        assert (await loop.sock_recv(raw, 4096)).startswith(b"HTTP/1.1 200 ")
        await loop.sock_sendall(raw, head(b"GET /-/healthy", CHUNKED) + EMPTY)
        assert (await loop.sock_recv(raw, 4096)).startswith(b"HTTP/1.1 200 ")
        raw.close()
    assert agent.reloads == 1


@pytest.mark.parametrize("body", [b"", b"0\r\n", b"z\r\n", b"1\r\ny\r\n0\r\n\r\n"])
async def test_one_that_does_not_end_or_is_not_empty_is_refused_soon(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(refusals, "EMPTY_BODY_SECONDS", 0.05)
    async with running(Agent()) as server:
        raw = await connect(server, head(b"GET /metrics", CHUNKED) + body)
        async with asyncio.timeout(SECONDS):
            answer = await received(raw)
    assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.0 400 "))


class Crowd:
    """Clients that send bodies byte by byte, and come again as soon as they are refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = 0
        """Connections that the server has ended so far."""
        self._one_more = asyncio.Condition()

    async def refused(self, times: int) -> None:
        """Until the server has ended so many more of their connections."""
        wanted = self._ended + times
        async with self._one_more, asyncio.timeout(SECONDS):
            await self._one_more.wait_for(lambda: self._ended >= wanted)

    async def send_bodies(self, number: int) -> None:
        """As the client of this number, for ever."""
        begin, headers, piece = SLOW_BODIES[number % len(SLOW_BODIES)]
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                with closing(writer):
                    writer.write(head(begin, *headers))
                    while not reader.at_eof():
                        writer.write(piece)
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.5):
                                await reader.read(1000)
            async with self._one_more:
                self._ended += 1
                self._one_more.notify_all()
            await asyncio.sleep(0.2)


SLOW_BODIES = [
    BODIES[kind]
    for kind in ("a byte now and then", "a chunk now and then", "never sent")
]


@asynccontextmanager
async def crowd(port: int, many: int) -> AsyncIterator[Crowd]:
    """So many clients, each a task."""
    found = Crowd(port)
    tasks = [asyncio.create_task(found.send_bodies(number)) for number in range(many)]
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def sent_at_once(port: int, request: bytes) -> socket.socket:
    """A connection whose request has come before the server can look at it: both have one event loop here."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(request)
    raw.setblocking(False)
    return raw


@pytest.mark.slow  # many connections
async def test_slow_bodies_take_no_place_of_a_probe_or_a_scrape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe sends its request with its connection; one that stays silent may be closed among so many."""
    monkeypatch.setattr("penstock.server.connection_limit.RESERVE", 5)
    async with (
        running(Agent(), max_connections=30) as server,
        crowd(server.port, 90) as others,
    ):
        await others.refused(180)
        statuses = []
        for path in [b"/-/healthy", b"/-/ready"] * 8:
            probe = sent_at_once(
                server.port, head(b"GET " + path, b"Connection: close")
            )
            async with asyncio.timeout(SECONDS):
                statuses.append((await received(probe)).partition(b"\r\n")[0])
            await others.refused(5)
        assert set(statuses) == {b"HTTP/1.1 200 OK"}


# --- the address for probes


@asynccontextmanager
async def probed(agent: Agent) -> AsyncIterator[Server]:
    async with (
        serve(make_probe_app(agent), ["127.0.0.1:0"]) as (address,),
        ClientSession() as client,
    ):
        yield Server(address.port, client)


async def test_the_address_for_probes_answers_these_and_nothing_else() -> None:
    agent = Agent(state=(False, "broker b1 was not asked yet"))
    async with probed(agent) as server:
        assert (
            (await request(server, "/-/healthy"))[0]
            == (await request(server, "/-/healthy", "HEAD"))[0]
            == 200
        )
        assert (await request(server, "/-/ready"))[0] == 503
        agent.state = (True, "")
        assert (await request(server, "/-/ready", Host="penstock.example"))[0] == 200
        for path in ("/", "/metrics", "/config", "/api/v1/brokers", "/-/reload"):
            assert (await request(server, path))[0] == 404
        assert (await request(server, "/-/reload", "POST"))[0] == 404
        assert (
            await received(await connect(server, head(b"GET /-/healthy", LENGTH)))
        ).startswith(b"HTTP/1.1 413 ")
    assert agent.reloads == 0


# --- reload


async def test_a_reload_by_request_is_refused_unless_enabled() -> None:
    agent = Agent()
    async with running(agent) as server:
        status, _, body = await request(server, "/-/reload", "POST")
    assert (status, agent.reloads) == (403, 0)
    assert b"--web.enable-lifecycle" in body


async def test_reload() -> None:
    agent = Agent(refusal="p.yml:3: brokers[0].url: is missing; it is required")
    async with running(agent, lifecycle=True) as server:
        status, _, body = await request(server, "/-/reload", "POST")
        assert (status, agent.reloads) == (500, 0)
        assert b"p.yml:3: brokers[0].url: is missing; it is required" in body
        agent.refusal = ""
        assert (await request(server, "/-/reload", "POST"))[0] == 200
        assert agent.reloads == 1


async def test_a_reload_while_the_agent_stops_is_answered() -> None:
    async with running(
        Agent(refusal="reload: Penstock is stopping", refuses=Stopped), lifecycle=True
    ) as server:
        status, _, body = await request(server, "/-/reload", "POST")
    assert (status, body.splitlines()[-1]) == (500, b"reload: Penstock is stopping")


async def test_reloads_wait_in_line_and_the_line_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_limit, "WAITING", 1)
    may_end = asyncio.Event()

    class Slow(Agent):
        async def reload(self) -> None:
            await may_end.wait()
            await super().reload()

    agent = Slow(refuses=ConfigError)
    async with running(agent, lifecycle=True) as server:
        asked = [
            asyncio.create_task(request(server, "/-/reload", "POST")) for _ in range(3)
        ]
        (one_too_many,), waiting = await asyncio.wait(
            asked, return_when=asyncio.FIRST_COMPLETED
        )
        status, headers, _ = one_too_many.result()
        assert (status, headers["Retry-After"]) == (503, "1")
        may_end.set()
        assert [status for status, *_ in await asyncio.gather(*waiting)] == [200, 200]
    assert agent.reloads == 2


# --- who causes it


OWN = socket.gethostname()
ALLOWED = [
    {},
    {"Sec-Fetch-Site": "none"},
    {
        "Sec-Fetch-Site": "same-origin",
        "Origin": "http://127.0.0.1:19771",
        "Host": "127.0.0.1:19771",
    },
    {"Origin": "http://[::1]:19771", "Host": "[::1]:19771"},
    {"Host": "localhost:19771"},
    {"Host": "10.1.2.3"},
    {"Host": OWN},
    {"Host": f"{OWN.upper()}.:19771", "Origin": f"http://{OWN.upper()}.:19771"},
]
CROSS_SITE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "odd"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:3000", "Host": "127.0.0.1:19771"},
    {"Origin": "http://localhost:3000", "Host": "localhost:19771"},
    {"Origin": "http://127.0.0.1:19771.evil.example", "Host": "127.0.0.1:19771"},
    {
        "Origin": "http://127.0.0.1:19771",
        "Host": "127.0.0.1:19771",
        "Sec-Fetch-Site": "cross-site",
    },
]
FOREIGN = [
    {"Host": "evil.example"},
    {
        "Host": "evil.example:19771",
        "Origin": "http://evil.example:19771",
        "Sec-Fetch-Site": "same-origin",
    },
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example"},
    {"Host": f"{OWN}.evil.example"},
    {"Host": "2130706433.nip.example:19771"},
]


async def asked(server: Server, method: str, path: str, headers: dict[str, str]) -> int:
    async with server.client.request(
        method, server.url(path), headers=headers
    ) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        *((200, one) for one in ALLOWED),
        *((403, one) for one in CROSS_SITE),
        *((421, one) for one in FOREIGN),
    ],
    ids=str,
)
async def test_a_page_of_another_site_causes_no_action(
    status: int, headers: dict[str, str]
) -> None:
    agent = Agent()
    async with running(agent, lifecycle=True) as server:
        assert await asked(server, "POST", "/-/reload", headers) == status
        assert agent.reloads == (status == 200)
        assert await asked(server, "GET", "/metrics", headers) == 200, (
            "reads are free: pages cannot read the answer"
        )


async def test_an_action_of_http_1_0_needs_no_host() -> None:
    async with running(Agent(), lifecycle=True) as server:
        assert (
            await received(await connect(server, b"POST /-/reload HTTP/1.0\r\n\r\n"))
        ).startswith(b"HTTP/1.0 200 ")


async def test_two_hosts_are_none() -> None:
    async with running(Agent(), lifecycle=True) as server:
        told = await received(
            await connect(server, head(b"POST /-/reload", b"Host: evil.example"))
        )
    assert told.partition(b"\r\n")[0].split()[1] in (b"400", b"421")


async def test_with_a_list_of_hosts_reads_under_another_are_refused_too() -> None:
    agent = Agent()
    async with running(
        agent, lifecycle=True, allowed_hosts=["Penstock.example"]
    ) as server:
        proxied = {"Host": "penstock.example", "Origin": "https://penstock.example"}
        for headers in (proxied, {**proxied, "Host": "127.0.0.1"}, {"Host": OWN}):
            assert await asked(server, "POST", "/-/reload", headers) == 200
            assert await asked(server, "GET", "/config", headers) == 200
        for path in ("/", "/metrics", "/config", "/api/v1/brokers"):
            assert await asked(server, "GET", path, {"Host": "evil.example"}) == 421
        assert await asked(server, "GET", "/-/ready", {"Host": "evil.example"}) == 200
        assert await asked(server, "POST", "/-/reload", {"Host": "evil.example"}) == 421
    assert agent.reloads == 3


async def test_a_host_that_is_allowed_may_be_international() -> None:
    """Browsers send its name in ASCII."""
    assert refusals.Refusals(["B\u00fccher.example"])._is_own("xn--bcher-kva.example")
    with pytest.raises(ConfigError, match="is no name of a host"):
        refusals.Refusals(["b\u00fc..cher"])
