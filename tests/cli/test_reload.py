"""`POST /-/reload` of the agent as the command serves it: the web configuration is part of what is reloaded."""

import logging
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from aiohttp import ClientSession

from penstock.agent import Agent
from penstock.cli import run
from penstock.server import authentication

RECORDING = Path(__file__).parent.parent / "recordings" / "demo-artemis.jsonl.gz"
CONFIGURATION = f"""
interval: 1h
brokers: [{{name: one, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}]
"""
TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"


@dataclass
class Served:
    """The agent's server, and the folder of its files."""

    folder: Path
    url: str
    trust: ssl.SSLContext

    async def reload(self) -> tuple[int, str]:
        """Status and text of the answer."""
        async with (
            ClientSession() as client,
            client.post(f"{self.url}/-/reload", ssl=self.trust) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    monkeypatch.setattr(
        authentication, "CHECK_SECONDS", 3600.0
    )  # only the reload takes a changed file
    authority = trustme.CA()
    pair = authority.issue_cert("localhost")
    pair.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    pair.private_key_pem.write_to_path(tmp_path / "server.key")
    (tmp_path / "web.yml").write_text(TLS)
    (tmp_path / "p.yml").write_text(CONFIGURATION)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    caplog.set_level(logging.INFO)
    agent = Agent(tmp_path / "p.yml")
    serving = run._served(
        agent,
        listen_addresses=["127.0.0.1:0"],
        probe_listen_address=None,
        web_config_file=tmp_path / "web.yml",
        lifecycle=True,
    )
    async with serving:
        (port,) = re.findall(r"serving /metrics on 127\.0\.0\.1:(\d+)", caplog.text)
        await agent.start()
        yield Served(tmp_path, f"https://localhost:{port}", trust)
        await agent.stop()


@pytest.mark.slow  # a third of a second: keys are made
@pytest.mark.parametrize("name", ["server.pem", "server.key", "web.yml"])
async def test_a_file_of_the_web_configuration_that_cannot_be_used_fails_the_reload(
    served: Served, name: str
) -> None:
    assert (await served.reload())[0] == 200
    file = served.folder / name
    whole = file.read_bytes()
    for broken in (
        b"nothing: of use",
        trustme.CA().issue_cert("localhost").private_key_pem.bytes(),
    ):
        file.write_bytes(broken)
        status, text = await served.reload()
        assert status == 500
        assert "The old configuration stays in force" in text
        assert name in text
        assert "PRIVATE KEY" not in text
    file.write_bytes(whole)
    assert (await served.reload())[0] == 200


async def test_an_emptied_web_configuration_fails_the_reload(served: Served) -> None:
    (served.folder / "web.yml").write_text("")
    status, text = await served.reload()
    assert status == 500
    assert "the server goes on with TLS, restart it to serve plain HTTP" in text


async def test_a_change_of_the_web_configuration_is_in_force_when_the_reload_is_answered(
    served: Served,
) -> None:
    (served.folder / "web.yml").write_text(TLS + "rate_limit: {interval: 1h}\n")
    assert [(await served.reload())[0] for _ in range(3)] == [200, 200, 429]
