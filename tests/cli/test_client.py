"""Asking an agent behind TLS and users, as explain, events and top do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import bcrypt
import pytest
import trustme
from aiohttp import HttpVersion10, web
from aiohttp.typedefs import Handler
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.cli.client import AgentClient, checked
from penstock.core.errors import PenstockError
from penstock.insight.answers import EventList
from penstock.server.authentication import Authentication
from penstock.server.listen import serve

PASSWORD = "a secret of the test"


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """An agent that wants a user over TLS, and knows no event."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("localhost")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(
        f"tls_server_config: {{cert_file: server.pem, key_file: server.pem}}\nbasic_auth_users: {{me: '{hashed}'}}\n"
    )
    app = web.Application()
    app.add_routes([web.get("/api/v1/events", _events)])
    authentication = Authentication(tmp_path / "web.yml")
    async with serve(app, ["127.0.0.1:0"], authentication=authentication) as (address,):
        yield f"https://localhost:{address.port}"
    authentication.close()


async def _events(_: web.Request) -> web.Response:
    return web.json_response({"events": []})


async def events(tmp_path: Path, url: str, http: str) -> Result:
    (tmp_path / "http.yml").write_text(http)
    arguments = [
        "events",
        "--url",
        url,
        "--http.config.file",
        str(tmp_path / "http.yml"),
    ]
    return await asyncio.to_thread(CliRunner().invoke, main, arguments)


async def test_with_user_and_authority(tmp_path: Path, url: str) -> None:
    (tmp_path / "secret.txt").write_text(PASSWORD + "\n")
    login = "basic_auth: {username: me, password_file: secret.txt}\ntls_config: {ca_file: ca.pem}\n"
    result = await events(tmp_path, url, login)
    assert (result.exit_code, result.stderr) == (0, "penstock: no matching events\n")


async def test_a_password_file_that_is_gone_later_is_named(
    tmp_path: Path, url: str
) -> None:
    """As while `penstock top` runs; it is read again at the next look."""
    (tmp_path / "secret.txt").write_text(PASSWORD)
    login = "basic_auth: {username: me, password_file: secret.txt}\ntls_config: {ca_file: ca.pem}\n"
    (tmp_path / "http.yml").write_text(login)
    async with AgentClient(url, tmp_path / "http.yml") as client:
        assert (await client.get("/api/v1/events", EventList)).events == []
        (tmp_path / "secret.txt").unlink()
        with pytest.raises(PenstockError, match="password_file: cannot read"):
            await client.get("/api/v1/events", EventList)
        (tmp_path / "secret.txt").write_text(PASSWORD)
        assert (await client.get("/api/v1/events", EventList)).events == []


@pytest.mark.parametrize(
    ("http", "told"),
    [
        (
            "tls_config: {ca_file: ca.pem}",
            "asks for a user and password, or refuses those given",
        ),
        (
            "basic_auth: {username: me, password: hush-hush}\ntls_config: {ca_file: ca.pem}",
            "or refuses those given",
        ),
        ("basic_auth: {username: me, password: hush-hush}", "tls_config: ca_file"),
        (
            "basic_auth: {user: me}",
            "http.yml:1: basic_auth.user: unknown key; did you mean username?",
        ),
        ("tls_config: {ca_file: nope.pem}", "cannot read"),
        (
            "basic_auth: {username: me, password: '${PENSTOCK_NOT_SET}'}",
            "PENSTOCK_NOT_SET is not set",
        ),
    ],
)
async def test_what_is_wrong_is_told(
    tmp_path: Path, url: str, http: str, told: str
) -> None:
    result = await events(tmp_path, url, http)
    assert result.exit_code in (1, 2)
    assert told in result.stderr
    assert "hush-hush" not in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hush@127.0.0.1:1",
        "ftp://127.0.0.1",
        "127.0.0.1:19771",
        "http://",
        "http://[::",
    ],
)
def test_what_is_no_url_of_an_agent(url: str) -> None:
    result = CliRunner().invoke(main, ["events", "--url", url])
    assert result.exit_code == 2
    assert "hush" not in result.output
    assert "the default is http://127.0.0.1:19771" in result.stderr


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "[]"), (200, '{"other": 1}'), (404, "[1]"), (404, '"x"'), (200, "<p>")],
)
async def test_what_answers_is_something_else(status: int, body: str) -> None:
    async def other(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    app = web.Application()
    app.add_routes([web.get("/{any:.*}", other)])
    async with serve(app, ["127.0.0.1:0"]) as (address,):
        arguments = ["events", "--url", f"http://127.0.0.1:{address.port}"]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert result.exit_code == 1
    assert "is not a Penstock agent; give the URL of an agent" in result.stderr


@asynccontextmanager
async def answering(handler: Handler, description: str = "") -> AsyncIterator[str]:
    """The URL of a server whose API answers so; description: of the API, none where it is empty."""

    async def described(_: web.Request) -> web.Response:
        return web.Response(text=description, status=200 if description else 404)

    app = web.Application()
    app.add_routes(
        [web.get("/api/v1/openapi.json", described), web.get("/{any:.*}", handler)]
    )
    async with serve(app, ["127.0.0.1:0"]) as (address,):
        yield f"http://127.0.0.1:{address.port}"


async def asked(url: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["events", "--url", url])


MANY = [
    {"time": 1795219200.0 + second, "change": "agent_start", "detail": "x" * 100}
    for second in range(2000)
]


@pytest.mark.parametrize(
    "piece", [pytest.param(1400, marks=pytest.mark.slow), 2**20]
)  # many pieces
async def test_a_large_answer_is_read_to_its_end(piece: int) -> None:
    async def events(request: web.Request) -> web.StreamResponse:
        body = json.dumps({"events": MANY}).encode()
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        for start in range(0, len(body), piece):
            await response.write(body[start : start + piece])
            await asyncio.sleep(0)
        return response

    async with answering(events) as url:
        result = await asked(url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == len(MANY)


@pytest.mark.parametrize("said", ["length", "none"])
async def test_an_answer_that_breaks_off_is_no_fault_of_the_agent(said: str) -> None:
    """Where a proxy gives no length, the end of the connection looks like the end of the answer."""

    async def half(request: web.Request) -> web.StreamResponse:
        body = json.dumps({"events": MANY}).encode()
        response = web.StreamResponse(
            headers={"Content-Length": str(len(body))} if said == "length" else {}
        )
        response.force_close()
        if said == "none":
            request._version = HttpVersion10  # no chunks
        await response.prepare(request)
        await response.write(body[:5000])
        assert request.transport is not None
        request.transport.close()
        return response

    async with answering(half) as url:
        result = await asked(url)
    assert result.exit_code == 1
    assert "ends after 5000 bytes, before it is complete" in result.stderr
    assert "is not a Penstock" not in result.stderr


OLDER = '{"info": {"title": "Penstock", "version": "0.0.7"}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, '{"others": 1}'), (404, "404: Not Found"), (400, "[]"), (500, "oh")],
)
async def test_an_agent_of_another_version_is_named_so(status: int, body: str) -> None:
    async def other(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    async with answering(other, OLDER) as url:
        result = await asked(url)
    assert result.exit_code == 1
    assert "is a Penstock agent, but not of this version" in result.stderr
    assert "version 0.0.7, this command is" in result.stderr


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (
            302,
            {"Location": "https://login.example/"},
            "redirects to https://login.example/; give the agent's own",
        ),
        (421, {}, "does not take this host name"),
        (502, {}, "a proxy in front of it cannot reach it"),
        (503, {}, "has too many connections, or a proxy"),
        (504, {}, "has too many connections, or a proxy"),
    ],
)
async def test_what_a_proxy_says_is_not_said_of_the_agent(
    status: int, headers: dict[str, str], told: str
) -> None:
    async def refuses(_: web.Request) -> web.Response:
        return web.Response(status=status, text="<html>", headers=headers)

    async with answering(refuses) as url:
        result = await asked(url)
    assert result.exit_code == 1
    assert told in result.stderr
    assert "is not a Penstock" not in result.stderr


async def test_plain_http_where_tls_is_spoken(tmp_path: Path, url: str) -> None:
    result = await events(tmp_path, url.replace("https:", "http:"), "{}")
    assert result.exit_code == 1
    assert "no agent answers at http://localhost" in result.stderr


def test_top_needs_a_terminal() -> None:
    result = CliRunner().invoke(main, ["top"])
    assert (result.exit_code, result.stderr) == (
        1, "penstock: top needs a terminal; for a table: penstock once --format table\n",
    )  # fmt: skip


def test_the_zone_of_an_address_may_be_written_as_in_a_url() -> None:
    assert checked("http://[fe80::1%25eth0]:19771/") == "http://[fe80::1%eth0]:19771"
