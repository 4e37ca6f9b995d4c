"""The web configuration on a real server: TLS, client certificates, users, headers, rate limit, changes on disk."""

import asyncio
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import bcrypt
import pytest
import trustme
from aiohttp import ClientError, ClientSession, encode_basic_auth, web

from penstock.config.web import HEADERS, RateLimit, WebConfig
from penstock.core.errors import ConfigError
from penstock.server import authentication as authentication_module
from penstock.server import serve
from penstock.server.authentication import Authentication, Bucket
from rig import prometheus

PASSWORD = "correct horse"
CANARY = "canary-7f3a"


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def certificate(
    directory: Path,
    authority: trustme.CA,
    name: str = "localhost",
    stem: str = "server",
) -> None:
    made = authority.issue_cert(name)
    made.private_key_pem.write_to_path(directory / f"{stem}.key")
    made.cert_chain_pems[0].write_to_path(directory / f"{stem}.pem")


TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def home(tmp_path: Path, authority: trustme.CA) -> Path:
    certificate(tmp_path, authority)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path


def authentication(home: Path, text: str) -> Authentication:
    (home / "web.yml").write_text(text)
    return Authentication(home / "web.yml")


@asynccontextmanager
async def server(authentication: Authentication) -> AsyncIterator[int]:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.add_routes(
        [web.get(path, hello) for path in ("/metrics", "/-/healthy", "/-/ready")]
    )
    async with serve(app, ["127.0.0.1:0"], authentication=authentication) as (address,):
        yield address.port


def trusting(
    authority: trustme.CA, client: trustme.LeafCert | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


async def status(url: str, context: ssl.SSLContext | bool = True, **how: object) -> int:
    async with ClientSession() as client, client.get(url, ssl=context, **how) as answer:  # type: ignore[arg-type]
        await answer.read()
        return answer.status


def user(name: str, password: str) -> dict[str, str]:
    return {"Authorization": encode_basic_auth(name, password)}


async def until(met: asyncio.Task[None], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        await met


async def test_users_are_asked_for_a_password_but_probes_are_not(home: Path) -> None:
    async with server(
        authentication(home, f"basic_auth_users: {{prom: '{hashed(PASSWORD)}'}}\n")
    ) as port:
        url = f"http://127.0.0.1:{port}"
        assert await status(f"{url}/metrics") == 401
        assert await status(f"{url}/metrics", headers=user("prom", "wrong")) == 401
        assert await status(f"{url}/metrics", headers=user("nobody", PASSWORD)) == 401
        assert await status(f"{url}/metrics", headers=user("prom", "x" * 73)) == 401
        assert (
            await status(f"{url}/metrics", headers={"Authorization": "Basic %%%"})
            == 401
        )
        assert (
            await status(f"{url}/metrics", headers={"Authorization": "Bearer abc"})
            == 401
        )
        assert await status(f"{url}/nowhere") == 401
        for _ in range(2):  # checked, then remembered
            assert await status(f"{url}/metrics", headers=user("prom", PASSWORD)) == 200
        assert await status(f"{url}/-/healthy") == await status(f"{url}/-/ready") == 200


@pytest.mark.slow  # takes a second
async def test_users_changed_on_disk_take_effect(home: Path) -> None:
    one = authentication(home, f"basic_auth_users: {{prom: '{hashed(PASSWORD)}'}}\n")
    async with server(one) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        assert await status(url, headers=user("prom", PASSWORD)) == 200
        (home / "web.yml").write_text(
            f"basic_auth_users: {{prom: '{hashed('new')}'}}\n"
        )

        async def taken() -> None:
            while await status(url, headers=user("prom", "new")) != 200:  # noqa: ASYNC110 - files tell no event
                await asyncio.sleep(0.1)

        await until(asyncio.create_task(taken()))
        assert await status(url, headers=user("prom", PASSWORD)) == 401


async def test_a_change_that_cannot_be_taken_leaves_all_as_it_was(home: Path) -> None:
    one = authentication(home, f"basic_auth_users: {{prom: '{hashed(PASSWORD)}'}}\n")
    (home / "web.yml").write_text(f"basic_auth_users: {{prom: {CANARY}}}\n")
    (fault,) = await one.take_changes()
    assert fault.startswith(
        f"web configuration: {home}/web.yml:1: basic_auth_users: user 1 has no bcrypt hash"
    )
    assert CANARY not in fault
    async with server(one) as port:
        assert await status(f"http://127.0.0.1:{port}/metrics") == 401
        assert (
            await status(
                f"http://127.0.0.1:{port}/metrics", headers=user("prom", PASSWORD)
            )
            == 200
        )


@pytest.mark.parametrize("without_tls", ["", "rate_limit: {burst: 2}\n"])
async def test_tls_is_not_switched_off_while_running(
    home: Path, without_tls: str
) -> None:
    one = authentication(home, TLS)
    (home / "web.yml").write_text(without_tls)
    (fault,) = await one.take_changes()
    assert one.context is not None
    assert fault.endswith("the server goes on with TLS, restart it to serve plain HTTP")


async def test_tls_is_not_switched_on_while_running(home: Path) -> None:
    one = authentication(home, "")
    (home / "web.yml").write_text(TLS)
    (fault,) = await one.take_changes()
    assert one.context is None
    assert fault.endswith("the server goes on with plain HTTP, restart it to serve TLS")


async def test_what_is_read_while_it_is_written_is_no_fault(
    home: Path, authority: trustme.CA
) -> None:
    """A reload reports what the files hold now, whatever they may hold in a moment."""
    one = authentication(home, TLS)
    whole = (home / "server.pem").read_bytes()
    for written in (b"", whole[:100], whole[:200]):
        (home / "server.pem").write_bytes(written)
        (refusal,) = await one.take_changes()
        assert "server.pem" in refusal
        assert one.faults == ()
    assert await one.take_changes() == one.faults == (refusal,)
    certificate(home, authority)
    assert not await one.take_changes()
    assert not one.faults


@pytest.mark.parametrize("name", ["server.pem", "server.key", "web.yml"])
async def test_a_file_that_is_gone_is_a_fault_until_it_is_back(
    home: Path, name: str
) -> None:
    one = authentication(home, TLS)
    before = one.context
    (home / name).rename(home / "aside")
    for _ in range(2):
        (fault,) = await one.take_changes()
        assert name in fault
    assert one.faults == (fault,)
    assert one.context is before
    (home / "aside").rename(home / name)
    assert not await one.take_changes()
    assert not one.faults


async def test_a_change_while_the_files_are_read_is_taken_next(
    home: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = authentication(home, TLS)
    certificate(home, authority)
    make_context = authentication_module._context

    def renewed_meanwhile(config: WebConfig) -> ssl.SSLContext | None:
        context = make_context(config)
        certificate(home, authority)
        return context

    with monkeypatch.context() as patched:
        patched.setattr(authentication_module, "_context", renewed_meanwhile)
        assert one.reload_changed()
    assert one.reload_changed()
    assert not one.reload_changed()


async def test_between_a_key_and_its_certificate_the_old_pair_is_shown(
    home: Path, authority: trustme.CA
) -> None:
    one = authentication(home, TLS)
    before = one.context
    pair = authority.issue_cert("localhost")
    pair.private_key_pem.write_to_path(home / "server.key")
    for _ in range(3):
        assert not one.reload_changed()
    assert one.context is before
    (fault,) = one.faults
    assert "KEY_VALUES_MISMATCH" in fault
    pair.cert_chain_pems[0].write_to_path(home / "server.pem")
    assert one.reload_changed()
    assert one.context is not before


async def test_the_same_content_written_again_changes_nothing(home: Path) -> None:
    one = authentication(home, TLS)
    (home / "server.pem").write_bytes((home / "server.pem").read_bytes())
    assert not one.reload_changed()


@pytest.mark.slow  # takes a second
async def test_a_certificate_changed_on_disk_is_shown_to_new_connections(
    home: Path, authority: trustme.CA
) -> None:
    other = trustme.CA()
    first = trusting(authority)
    async with server(authentication(home, TLS)) as port, ClientSession() as lasting:
        url = f"https://localhost:{port}/metrics"
        async with lasting.get(url, ssl=first) as answer:
            assert await answer.text() == "hello"
        certificate(home, other)

        async def renewed() -> None:
            while True:
                try:
                    assert await status(url, trusting(other)) == 200
                except ClientError:
                    await asyncio.sleep(0.1)
                else:
                    return

        await until(asyncio.create_task(renewed()))
        with pytest.raises(ClientError):
            await status(url, trusting(authority))
        async with lasting.get(
            url, ssl=first
        ) as answer:  # its connection is still open
            assert answer.status == 200


async def test_a_silent_tls_client_delays_nobody(
    home: Path, authority: trustme.CA
) -> None:
    async with server(authentication(home, TLS)) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        try:
            async with asyncio.timeout(30):
                assert (
                    await status(
                        f"https://localhost:{port}/metrics", trusting(authority)
                    )
                    == 200
                )
        finally:
            for one in silent:
                one.close()


@pytest.mark.slow  # keys are made
async def test_client_certificates(home: Path, authority: trustme.CA) -> None:
    text = (
        "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem, "
        "client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [prometheus.test]}\n"
    )
    async with server(authentication(home, text)) as port:
        url = f"https://localhost:{port}/metrics"
        assert (
            await status(
                url, trusting(authority, authority.issue_cert("prometheus.test"))
            )
            == 200
        )
        assert (
            await status(url, trusting(authority, authority.issue_cert("other.test")))
            == 403
        )
        for stranger in (None, trustme.CA().issue_cert("prometheus.test")):
            with pytest.raises((ClientError, OSError)):
                await status(url, trusting(authority, stranger))


async def test_certificate_and_key_may_stand_in_the_file(
    home: Path, authority: trustme.CA
) -> None:
    indented = {
        stem: (home / stem).read_text().replace("\n", "\n    ")
        for stem in ("server.pem", "server.key")
    }
    text = f"tls_server_config:\n  cert: |\n    {indented['server.pem']}\n  key: |\n    {indented['server.key']}\n"
    async with server(authentication(home, text)) as port:
        assert (
            await status(f"https://localhost:{port}/metrics", trusting(authority))
            == 200
        )


async def test_headers_and_rate_limit(home: Path) -> None:
    text = "http_server_config: {headers: {X-Frame-Options: deny}}\nrate_limit: {interval: 1h, burst: 2}\n"
    async with server(authentication(home, text)) as port:
        url = f"http://127.0.0.1:{port}"
        async with ClientSession() as client:
            async with client.get(f"{url}/metrics") as answer:
                assert answer.headers["X-Frame-Options"] == "deny"
            assert [await status(f"{url}/metrics") for _ in range(2)] == [200, 429]
            assert await status(f"{url}/-/healthy") == 200


def test_the_bucket_fills_again() -> None:
    bucket = Bucket(RateLimit.model_validate({"interval": "10s", "burst": 2}))
    assert [bucket.take(at) for at in (0, 0, 0, 9, 10, 10, 100, 100, 100)] == [
        True, True, False, False, True, False, True, True, False
    ]  # fmt: skip


def with_tls(key: str) -> str:
    return TLS.replace("}", f", {key}}}")


REFUSED = {
    "unknown key": ("basic_auth_user: {}\n", r"web\.yml:1: basic_auth_user: unknown key; did you mean basic_auth_u"),
    "header": ("http_server_config: {headers: {Server: x}}\n", "may hold only Content-Security-Policy"),
    "no hash": (f"basic_auth_users: {{a: {CANARY}}}\n", "user 1 has no bcrypt hash; make one with"),
    "colon": (f"basic_auth_users: {{'a:b': '{'x' * 9}'}}\n", "user 1 has an empty name or one with a colon"),
    "no key": ("tls_server_config: {cert_file: server.pem}\n", "needs key_file or key"),
    "no such file": (TLS.replace("server.pem", "nowhere"), "cannot read .*nowhere"),
    "no pair": (TLS.replace("server.pem", "ca.pem"), "no matching PEM certificate and key"),
    "no authorities": (with_tls("client_auth_type: RequireAndVerifyClientCert"), "needs client_ca_file or client_ca"),
    "old TLS": (with_tls("min_version: TLS10"), "must be 'TLS12' or 'TLS13'"),
    "unchecked": (with_tls("client_auth_type: RequireAnyClientCert"), "protects nothing"),
    "suite": (with_tls("cipher_suites: [RC4]"), "no suite of that"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_and_why(home: Path, name: str) -> None:
    text, why = REFUSED[name]
    with pytest.raises(ConfigError, match=why) as refused:
        authentication(home, text)
    assert CANARY not in str(refused.value)


def of_cost(cost: int) -> str:
    """A user whose hash says this cost; nothing is hashed."""
    return f"basic_auth_users: {{prom: '{hashed(PASSWORD).replace('$04$', f'${cost:02}$')}'}}\n"


@pytest.mark.parametrize("cost", [17, 31])
def test_a_hash_that_takes_too_long_to_check_is_refused(home: Path, cost: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"user 1 has a bcrypt hash of cost {cost}, which takes too long to check",
    ):
        authentication(home, of_cost(cost))


@pytest.mark.parametrize(
    ("cost", "is_slow"), [(4, False), (14, False), (15, True), (16, True)]
)
def test_check_names_a_hash_that_takes_seconds(
    home: Path, cost: int, is_slow: bool
) -> None:
    sentences = list(authentication(home, of_cost(cost)).slow_users())
    assert [
        f"user 1 has a bcrypt hash of cost {cost}" in sentence for sentence in sentences
    ] == [True] * is_slow


def test_an_encrypted_key_is_refused(home: Path) -> None:
    (home / "server.key").write_bytes(
        subprocess.run(
            ["openssl", "pkey", "-in", str(home / "server.key"), "-aes256", "-passout", "pass:abcd"],
            check=True, capture_output=True,
        ).stdout
    )  # fmt: skip
    with pytest.raises(ConfigError, match="the key is encrypted"):
        authentication(home, TLS)


@pytest.mark.prometheus
def test_promtool_accepts_the_documented_example(
    home: Path, authority: trustme.CA
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "web.md").read_text()
    example = re.search(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert example
    for stem, name in (
        ("server.pem", "server.pem"),
        ("server.key", "server-key.pem"),
        ("ca.pem", "clients-ca.pem"),
    ):
        (home / name).write_bytes((home / stem).read_bytes())
    one = authentication(home, example[1])
    assert one.context is not None
    command = [
        str(prometheus.tool("promtool")),
        "check",
        "web-config",
        str(home / "web.yml"),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_every_header_of_the_example_is_one_that_is_allowed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "web.md").read_text()
    assert all(
        name in HEADERS
        for name in re.findall(r"^    ([A-Z][\w-]+):", page, re.MULTILINE)
    )
