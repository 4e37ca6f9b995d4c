"""A real broker behind TLS whose authority, certificates and keys are renewed while the agent runs."""

import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from e2e.agent import PENSTOCK, Agent, Scrape, entry
from penstock_demo.broker import Broker
from rig.proxy import Proxy
from rig.waiting import eventually

pytestmark = pytest.mark.broker

EVENTS = "/api/v1/events?limit=100"
SECONDS = 120
"""Generous: the machine may be busy."""


class Issuer:
    """An authority of the broker and its clients."""

    def __init__(self) -> None:
        self.own = trustme.CA()
        self.pair = self.own.issue_cert("penstock.example")

    def broker_side(self) -> ssl.SSLContext:
        """A server with a certificate of this authority, which lets in only clients that have one, too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.own.issue_cert("127.0.0.1").configure_cert(context)
        self.own.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def write_ca(self, folder: Path) -> None:
        self.own.cert_pem.write_to_path(folder / "ca.pem")

    def write_certificate(self, folder: Path) -> None:
        self.pair.cert_chain_pems[0].write_to_path(folder / "tls.crt")

    def write_key(self, folder: Path) -> None:
        self.pair.private_key_pem.write_to_path(folder / "tls.key")


def is_up(scrape: Scrape) -> float | None:
    """None before the first poll."""
    return next((value for _, value in scrape.find("mq_up", broker="b1")), None)


def is_good(scrape: Scrape) -> float:
    return scrape.value("penstock_config_last_reload_successful")


def checked(agent: Agent) -> tuple[int, str]:
    """Exit status and words of `penstock check`, which has time enough for its poll also on a busy machine."""
    configuration = json.loads(agent.file.read_text()) | {
        "interval": "60s",
        "timeout": "50s",
    }
    for broker in configuration["brokers"]:
        broker.pop("timeout", None)
    file = agent.file.with_name("check.yaml")
    file.write_text(json.dumps(configuration))
    command = [str(PENSTOCK), "check", "--config.file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_renewal_needs_no_restart(
    artemis: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    queue = unique("q")
    artemis.manage.create_queue(queue)
    first = Issuer()
    second = Issuer()
    for write in (first.write_ca, first.write_certificate, first.write_key):
        write(tmp_path)
    place = (artemis.host, int(artemis.jolokia_url.split(":")[2].split("/")[0]))
    with Proxy(place, tls=first.broker_side()) as proxy:
        port = proxy.port
        url = f"https://127.0.0.1:{port}/{artemis.jolokia_url.split('/', 3)[3]}"
        tls = {
            "ca_file": "../ca.pem",
            "cert_file": "../tls.crt",
            "key_file": "../tls.key",
        }
        broker = entry(
            artemis,
            name="b1",
            url=url,
            tls=tls,
            include=[{"queue": queue}],
            timeout="900ms",
        )
        agent = Agent(tmp_path / "agent", brokers=[broker])
        agent.run()
        agent.until(is_up, 1.0, timeout=SECONDS)
        pid = agent.pid
    try:
        with Proxy(
            place, port=port, tls=second.broker_side()
        ):  # the broker comes back with its new certificate
            agent.until(is_up, 0.0, timeout=SECONDS)
            second.write_ca(tmp_path)
            second.write_key(
                tmp_path
            )  # the certificate that belongs to it is not there yet
            agent.until(is_good, 0.0, timeout=SECONDS)
            status, words = agent.request("/-/reload", method="POST")
            assert status == 500
            assert (
                "tls.crt: certificate and key cannot be used: the key is not that of the certificate"
                in words
            )
            status, words = checked(agent)
            assert status == 2
            assert "the key is not that of the certificate" in words
            assert is_up(agent.scrape()) == 0

            second.write_certificate(tmp_path)
            scrape = agent.until(is_up, 1.0, timeout=SECONDS)
            assert scrape.value("mq_queue_messages", broker="b1", queue=queue) == 0
            assert checked(agent)[0] == 0
            assert agent.request("/-/reload", method="POST")[0] == 200
            agent.until(is_good, 1.0, timeout=SECONDS)
            assert agent.pid == pid
        # The agent looks at its files every few seconds; the broker's reader takes them at its next poll.
        eventually(
            lambda: "files have changed: " in agent.request(EVENTS)[1], expected=True
        )
        assert "what was read before stays in use" in agent.request(EVENTS)[1]
    finally:
        agent.stop()
