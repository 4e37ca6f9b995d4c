"""The transport against a real server on a free port: what each way to fail becomes, and that no secret is told."""

import asyncio
import gzip
import json
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from penstock.agent.factory import open_transport
from penstock.brokers.registry import ARTEMIS
from penstock.config import load
from penstock.core.errors import (
    BadAnswer,
    ConfigError,
    PenstockError,
    Refused,
    Unreachable,
)
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.tls import TlsFiles
from penstock.transports.transport import Answer

CANARY = "c4n4ry-p455w0rd"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    handler: Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/jolokia/", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/jolokia/"
    finally:
        await runner.cleanup()


def target(
    url: str, tls: TlsFiles | None = None, max_answer_bytes: int = 2**20
) -> JolokiaTarget:
    return JolokiaTarget(
        url,
        "exporter",
        lambda: CANARY,
        "http://broker",
        tls,
        max_answer_bytes=max_answer_bytes,
        hint=ARTEMIS.hint,
    )


@asynccontextmanager
async def asking(at: JolokiaTarget) -> AsyncIterator[JolokiaTransport]:
    transport = JolokiaTransport(at)
    try:
        yield transport
    finally:
        await transport.close()


async def ask(
    url: str,
    timeout: float = 5,
    tls: TlsFiles | None = None,
    max_answer_bytes: int = 2**20,
) -> Answer:
    async with asking(target(url, tls, max_answer_bytes)) as transport:
        return await transport.ask([{"type": "version"}], timeout)


async def failure(
    handler: Handler, timeout: float = 5, **options: Any
) -> PenstockError:
    async with serving(handler) as url:
        with pytest.raises(PenstockError) as caught:
            await ask(url, timeout, **options)
    assert CANARY not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    return caught.value


def answering(status: int = 200, body: bytes = b"[]", **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(
            status=status,
            body=body,
            headers={name.replace("_", "-"): v for name, v in headers.items()},
        )

    return handler


async def test_one_bulk_is_posted_with_credentials_and_origin() -> None:
    seen: list[tuple[str, str, str, object]] = []

    async def handler(request: web.Request) -> web.Response:
        headers = request.headers
        seen.append(
            (
                headers["Origin"],
                headers["Authorization"],
                headers["Content-Type"],
                json.loads(await request.read()),
            )
        )
        return web.Response(body=b"[1]")

    async with serving(handler) as url:
        answer = await ask(url)
    basic = "Basic ZXhwb3J0ZXI6YzRuNHJ5LXA0NTV3MHJk"
    assert seen == [("http://broker", basic, "application/json", [{"type": "version"}])]
    assert answer.body == b"[1]"
    assert 0 < answer.seconds < 5


async def test_a_rotated_password_is_picked_up() -> None:
    seen: list[str] = []
    passwords = iter(("one", "zwei ü"))

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(body=b"[]")

    async with (
        serving(handler) as url,
        asking(JolokiaTarget(url, "u", lambda: next(passwords))) as transport,
    ):
        await transport.ask([], 5)
        await transport.ask([], 5)
    assert seen == ["Basic dTpvbmU=", "Basic dTp6d2VpIMO8"]


@pytest.mark.parametrize(
    ("status", "headers", "kind", "told"),
    [
        (401, {}, Refused, "HTTP 401 for user 'exporter'"),
        (403, {}, Refused, "HAWTIO_ROLES"),
        (404, {}, BadAnswer, "/console/jolokia/"),
        (302, {"Location": "/login"}, BadAnswer, "HTTP 302 to '/login'"),
        (500, {}, BadAnswer, "HTTP 500"),
        (204, {}, BadAnswer, "HTTP 204"),
    ],
)
async def test_http_errors(
    status: int, headers: dict[str, str], kind: type[PenstockError], told: str
) -> None:
    error = await failure(answering(status, b"", **headers))
    assert type(error) is kind
    assert told in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({}, None),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "1e9"}, 3600.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
async def test_throttling_says_when_to_come_back(
    header: dict[str, str], seconds: float | None
) -> None:
    error = await failure(answering(429, b"", **header))
    assert isinstance(error, Refused)
    assert error.retry_after == seconds


@pytest.mark.parametrize("size", [0, 1, 1000, 2**20])
async def test_answers_come_whole_plain_and_as_gzip(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with serving(answering(body=body)) as url:
        assert (await ask(url)).body == body
    async with serving(
        answering(body=gzip.compress(body), Content_Encoding="gzip")
    ) as url:
        assert (await ask(url)).body == body


async def test_too_large_an_answer_is_refused() -> None:
    error = await failure(answering(body=b"x" * 70_001), max_answer_bytes=70_000)
    assert isinstance(error, BadAnswer)
    assert "larger than 70000 bytes" in str(error)


@pytest.mark.slow  # a large answer
async def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(200 * 2**20), 1)
    tracemalloc.start()
    try:
        error = await failure(
            answering(body=bomb, Content_Encoding="gzip"), max_answer_bytes=2**20
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "larger than 1048576 bytes" in str(error)
    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    "body", [b"not gzip at all", gzip.compress(b"[]", mtime=0)[:5] + b"\xff" * 30]
)
async def test_broken_gzip(body: bytes) -> None:
    error = await failure(answering(body=body, Content_Encoding="gzip"))
    assert isinstance(error, BadAnswer)
    assert "gzip" in str(error)


async def test_half_a_gzip_stream_is_no_answer() -> None:
    packed = gzip.compress(bytes(range(256)) * 100)
    error = await failure(
        answering(body=packed[: len(packed) // 2], Content_Encoding="gzip")
    )
    assert isinstance(error, BadAnswer)


async def test_a_body_that_breaks_off_is_no_answer() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"[")
        assert request.transport is not None
        request.transport.close()
        return response

    error = await failure(handler)
    assert isinstance(error, BadAnswer | Unreachable)


async def test_an_answer_slower_than_the_deadline_is_given_up() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    error = await failure(handler, timeout=0.2)
    assert isinstance(error, Unreachable)
    assert "no answer within 0.2 s" in str(error)


async def test_a_body_slower_than_the_deadline_is_given_up() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    assert isinstance(await failure(handler, timeout=0.3), Unreachable)


@pytest.mark.parametrize(("drops", "asked"), [(1, 2), (9, 2)])
async def test_a_lost_connection_is_opened_anew_once_and_only_once(
    drops: int, asked: int
) -> None:
    requests: list[bytes] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        requests.append(await request.read())
        if len(requests) <= drops:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=b"[2]")

    async with serving(handler) as url:
        if drops == 1:
            assert (await ask(url)).body == b"[2]"
        else:
            with pytest.raises(Unreachable, match="connection was lost"):
                await ask(url)
    assert len(requests) == asked


async def test_nobody_listens() -> None:
    async with serving(answering()) as url:
        pass
    with pytest.raises(
        Unreachable, match=r"cannot connect.*is the broker's web server up"
    ):
        await ask(url)


async def test_no_secret_in_a_repr() -> None:
    transport = JolokiaTransport(target("http://127.0.0.1:1/"))
    assert CANARY not in f"{target('http://127.0.0.1:1/')!r} {transport!r}"


# --- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """PEM files: the authority, a stranger's, and a client's certificate."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "stranger.pem"))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "client.pem")
    )
    return {
        name: str(tmp_path / f"{name}.pem") for name in ("ca", "stranger", "client")
    }


def server_side(
    authority: trustme.CA, *names: str, ask_client: bool = False
) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    if ask_client:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(
    ("names", "tls", "works"),
    [
        (("127.0.0.1",), {"ca_file": "ca"}, True),
        (("127.0.0.1",), {"ca_file": "stranger"}, False),
        (("127.0.0.1",), {}, False),
        (("broker.example",), {"ca_file": "ca"}, False),
        (("broker.example",), {"ca_file": "ca", "server_name": "broker.example"}, True),
        (("broker.example",), {"ca_file": "ca", "server_name": "other.example"}, False),
        (("broker.example",), {"insecure": True}, True),
    ],
)
async def test_whom_we_trust(
    authority: trustme.CA,
    files: dict[str, str],
    names: tuple[str, ...],
    tls: dict[str, Any],
    works: bool,
) -> None:
    options: dict[str, Any] = {
        key: files.get(str(value), value) for key, value in tls.items()
    }
    async with serving(answering(body=b"[3]"), server_side(authority, *names)) as url:
        if works:
            assert (await ask(url, tls=TlsFiles(**options))).body == b"[3]"
        else:
            with pytest.raises(Unreachable, match="TLS failed"):
                await ask(url, tls=TlsFiles(**options))


async def test_our_own_certificate_is_shown(
    authority: trustme.CA, files: dict[str, str]
) -> None:
    async with serving(
        answering(body=b"[4]"), server_side(authority, "127.0.0.1", ask_client=True)
    ) as url:
        assert (
            await ask(url, tls=TlsFiles(files["ca"], cert_file=files["client"]))
        ).body == b"[4]"
        with pytest.raises(Unreachable):
            await ask(url, tls=TlsFiles(files["ca"]))


async def test_a_certificate_that_is_refused_is_named(
    authority: trustme.CA, files: dict[str, str]
) -> None:
    """There is no user whose password could be wrong."""
    async with serving(
        answering(status=401), server_side(authority, "127.0.0.1", ask_client=True)
    ) as url:
        with pytest.raises(
            Refused, match=rf"certificate {files['client']}: .*caCert"
        ) as refused:
            async with asking(
                JolokiaTarget(url, tls=TlsFiles(files["ca"], cert_file=files["client"]))
            ) as transport:
                await transport.ask([{"type": "version"}], 5)
        assert "password" not in str(refused.value)
    async with serving(
        answering(status=401), server_side(authority, "127.0.0.1")
    ) as url:
        with pytest.raises(Refused, match=r"no user: .*tls\.cert_file"):
            async with asking(
                JolokiaTarget(url, tls=TlsFiles(files["ca"]))
            ) as transport:
                await transport.ask([{"type": "version"}], 5)


@pytest.mark.parametrize(
    ("option", "told"),
    [("ca_file", "no usable CA"), ("cert_file", "certificate and key")],
)
@pytest.mark.parametrize("content", [None, b"", b"no PEM"])
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, option: str, told: str, content: bytes | None
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"tls.{option} .*file\.pem: {told}"):
        JolokiaTransport(
            target(
                "https://127.0.0.1:1/", TlsFiles(**dict[str, Any]({option: str(path)}))
            )
        )


@pytest.mark.parametrize(("kind", "connections"), [("openmq", 3), ("artemis", 1)])
async def test_a_connection_is_kept_only_where_that_is_fast(
    tmp_path: Path, kind: str, connections: int
) -> None:
    """The JVM agent beside OpenMQ answers 40 ms later on a connection that is kept; Artemis' console does not."""
    seen: set[object] = set()

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        seen.add(request.transport.get_extra_info("peername"))
        return web.Response(body=b"[]")

    async with serving(handler) as url:
        file = tmp_path / "penstock.yaml"
        file.write_text(
            json.dumps({"brokers": [{"name": "b", "kind": kind, "url": url}]})
        )
        transport = open_transport(load(file).brokers[0])
        try:
            for _ in range(3):
                await transport.ask([{"type": "version"}], 5)
        finally:
            await transport.close()
    assert len(seen) == connections


def test_a_zone_holds_on_this_machine_only_and_is_not_sent() -> None:
    transport = JolokiaTransport(target("http://[fe80::1%eth0]:8161/jolokia/"))
    assert transport._headers()["Host"] == "[fe80::1]:8161"
    assert (
        "Host"
        not in JolokiaTransport(target("http://[fe80::1]:8161/jolokia/"))._headers()
    )
