"""Certificates that are renewed while a broker is asked over TLS, in each way in which files are replaced."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from penstock.cli.client import AgentClient
from penstock.core.errors import PenstockError, Unreachable
from penstock.insight.answers import EventList
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.tls import TlsFiles
from transports.test_jolokia import answering, serving


@dataclass
class Authority:
    """A certificate authority, with the files of one who trusts it and has a certificate of it."""

    folder: Path
    own: trustme.CA = field(default_factory=trustme.CA)

    def server(self, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
        """A server that shows a certificate of this authority and asks for one; new connections of `context` do."""
        context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.own.issue_cert("127.0.0.1").configure_cert(context)
        self.own.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def write_ca(self) -> None:
        self.own.cert_pem.write_to_path(self.folder / "ca.pem")

    def write_pair(self) -> None:
        pair = self.own.issue_cert("client")
        pair.private_key_pem.write_to_path(self.folder / "tls.key")
        pair.cert_chain_pems[0].write_to_path(self.folder / "tls.crt")

    def write(self) -> None:
        self.write_ca()
        self.write_pair()


def files(folder: Path) -> TlsFiles:
    return TlsFiles(folder / "ca.pem", folder / "tls.crt", folder / "tls.key")


@asynccontextmanager
async def polling(
    context: ssl.SSLContext, folder: Path
) -> AsyncIterator[JolokiaTransport]:
    """A transport that has asked once. It keeps no connection."""
    async with serving(answering(body=b"[1]"), context) as url:
        transport = JolokiaTransport(
            JolokiaTarget(url, tls=files(folder), reuse_connections=False)
        )
        try:
            assert await polled(transport) == b"[1]"
            yield transport
        finally:
            await transport.close()


async def polled(transport: JolokiaTransport) -> bytes:
    await transport.begin_poll()
    return (await transport.ask([{"type": "version"}], 5)).body


async def test_authority_certificate_and_key_are_renewed(tmp_path: Path) -> None:
    """The broker trusts the new authority alone, and so do we."""
    first = Authority(tmp_path)
    second = Authority(tmp_path)
    first.write()
    context = first.server()
    renewed = second.server()
    async with polling(context, tmp_path) as transport:
        context.sni_callback = lambda connection, *_: setattr(
            connection, "context", renewed
        )
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            await polled(transport)
        second.write()
        assert await polled(transport) == b"[1]"


async def test_between_a_new_key_and_its_certificate_the_old_pair_stays(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    authority.write()
    async with polling(authority.server(), tmp_path) as transport:
        pair = authority.own.issue_cert("client")
        pair.private_key_pem.write_to_path(tmp_path / "tls.key")
        assert await polled(transport) == b"[1]"
        assert transport._tls is not None
        assert transport._tls.fault.endswith(
            "certificate and key cannot be used: the key is not that of the certificate"
        )
        before = transport._tls.context
        pair.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
        assert await polled(transport) == b"[1]"
        assert transport._tls.context is not before
        assert transport._tls.fault == ""


@pytest.mark.parametrize("name", ["ca.pem", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nMIIB"])
async def test_a_file_that_is_gone_or_half_written_leaves_what_was_read(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    authority = Authority(tmp_path)
    authority.write()
    whole = (tmp_path / name).read_bytes()
    async with polling(authority.server(), tmp_path) as transport:
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)
        assert await polled(transport) == b"[1]"
        assert transport._tls is not None
        assert "tls." in transport._tls.fault
        (tmp_path / name).write_bytes(whole)
        assert await polled(transport) == b"[1]"
        assert transport._tls.fault == ""


async def test_an_error_of_tls_names_the_file_that_could_not_be_taken(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    authority.write()
    context = authority.server()
    async with polling(context, tmp_path) as transport:
        Authority(tmp_path).server(
            context
        )  # the broker has a new authority, whose file is not there yet
        (tmp_path / "ca.pem").write_bytes(b"")
        with pytest.raises(
            Unreachable,
            match=r"What was read before is in use, because tls.ca_file .*ca\.pem: no usable",
        ):
            await polled(transport)


async def test_a_secret_that_kubernetes_swaps(tmp_path: Path) -> None:
    """The names are links; one rename changes all of them at once."""
    versions = []
    for name in ("..one", "..two"):
        (tmp_path / name).mkdir()
        versions.append(Authority(tmp_path / name))
        versions[-1].write()
    for name in ("ca.pem", "tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    (tmp_path / "..data").symlink_to("..one")
    context = versions[0].server()
    async with polling(context, tmp_path) as transport:
        versions[1].server(context)
        (tmp_path / "..data_tmp").symlink_to("..two")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        assert await polled(transport) == b"[1]"


async def test_a_command_that_stays_follows_a_renewal(tmp_path: Path) -> None:
    """As `penstock top` does."""
    first = Authority(tmp_path)
    second = Authority(tmp_path)
    first.write()
    (tmp_path / "http.yml").write_text(
        "tls_config: {ca_file: ca.pem, cert_file: tls.crt, key_file: tls.key}\n"
    )
    context = first.server()

    async def events(_: web.Request) -> web.Response:
        answer = web.json_response({"events": []})
        answer.force_close()
        return answer

    app = web.Application()
    app.add_routes([web.get("/api/v1/events", events)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with AgentClient(url, tmp_path / "http.yml") as client:
        assert (await client.get("/api/v1/events", EventList)).events == []
        second.server(context)
        with pytest.raises(PenstockError, match="is not trusted"):
            await client.get("/api/v1/events", EventList)
        second.write()
        assert (await client.get("/api/v1/events", EventList)).events == []
    await runner.cleanup()
