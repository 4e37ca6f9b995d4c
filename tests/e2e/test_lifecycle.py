"""Start, reload, stop; and what is never told."""

import gzip
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest

from e2e.agent import PENSTOCK, Agent, Scrape, entry
from penstock_demo.broker import Broker
from penstock_demo.ports import free_port
from rig.processes import alive, command_lines_with
from rig.waiting import eventually

pytestmark = pytest.mark.broker

STOPPED = 15.0
"""Seconds, the grace of a scrape under way included; generous, the machine may be busy."""


def names(scrape: Scrape) -> set[str]:
    """The brokers that are up."""
    return {labels["broker"] for labels, value in scrape.find("mq_up") if value}


def test_reload(artemis: Broker, unique: Callable[[str], str], tmp_path: Path) -> None:
    queue = unique("q")
    artemis.manage.create_queue(queue)
    first, second = (
        entry(artemis, name=name, include=[{"queue": queue}])
        for name in ("first", "second")
    )

    def owner(scrape: Scrape) -> set[str]:
        return {
            labels["owner"]
            for labels, _ in scrape.find("mq_queue_info", broker="first", queue=queue)
        }

    def good(scrape: Scrape) -> float:
        return scrape.value("penstock_config_last_reload_successful")

    with Agent(tmp_path / "agent", brokers=[first]) as agent:
        scrape = agent.until(names, {"first"})
        assert owner(scrape) == {""}
        began = scrape.value("penstock_polls_total", broker="first", result="ok")

        agent.configure(brokers=[first, second])
        agent.signal(signal.SIGHUP)
        agent.until(names, {"first", "second"})

        rules = [{"match": {"queue": queue}, "owner": "payments"}]
        agent.configure(brokers=[first, second], rules=rules)
        assert agent.request("/-/reload")[0] == 405
        assert agent.request("/-/reload", method="POST")[0] == 200
        scrape = agent.until(owner, {"payments"})
        assert scrape.value("mq_queue_messages", broker="first", queue=queue) == 0

        agent.configure(brokers=[{**first, "intervall": "1s"}])
        status, text = agent.request("/-/reload", method="POST")
        assert status == 500
        assert "intervall" in text
        scrape = agent.until(good, 0.0)
        assert (names(scrape), owner(scrape)) == ({"first", "second"}, {"payments"})
        told = agent.log.read_text().count("the old one stays")
        agent.signal(signal.SIGHUP)
        eventually(lambda: agent.log.read_text().count("the old one stays"), told + 1)

        agent.configure(brokers=[first])
        agent.signal(signal.SIGHUP)
        scrape = agent.until(good, 1.0)
        scrape = agent.until(lambda scrape: scrape.names("broker", ""), {"first"})
        agent.until(owner, {""})
        # What did not change was not disturbed: its counters went on.
        assert scrape.value("penstock_polls_total", broker="first", result="ok") > began


@pytest.fixture
def many_queues(artemis: Broker, unique: Callable[[str], str]) -> Iterator[list[str]]:
    """So many that no buffer between server and reader holds a body."""
    queues = [f"{unique('many')}.{number}" for number in range(200)]
    artemis.manage.create_queues(queues)
    yield queues
    for queue in queues:
        artemis.manage.destroy_queue(queue)


@contextmanager
def scrape_under_way(agent: Agent) -> Iterator[socket.socket]:
    """A reader that has read the beginning and takes no more."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", agent.port))
        reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: penstock\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        yield reader


def test_stop_in_good_order(
    artemis: Broker, many_queues: list[str], tmp_path: Path
) -> None:
    brokers = [entry(artemis, name=f"b{number}") for number in range(4)]
    with Agent(tmp_path / "agent", brokers=brokers) as agent:
        agent.until(names, {one["name"] for one in brokers})
        assert len(agent.body()) > 1_000_000
        pid = agent.pid
        with scrape_under_way(agent):
            assert agent.terminate(timeout=STOPPED) == 0
        assert not alive(pid)
        assert [path.name for path in agent.work.iterdir()] == ["data"]
        files = {path.name for path in (agent.work / "data").iterdir()}
        files.discard("worker-1")  # of a busy machine, on which a broker takes long
        assert files == {"state.db", "lock"}
        log = agent.log.read_text()
        assert "msg=stopping" in log
        assert "Traceback" not in log
        assert "level=error" not in log


def test_stop_while_a_broker_is_polled(artemis: Broker, tmp_path: Path) -> None:
    with Agent(tmp_path / "agent", brokers=[entry(artemis)]) as agent:
        assert agent.terminate(timeout=STOPPED) == 0
        assert "Traceback" not in agent.log.read_text()


def test_start_that_fails_says_why(artemis: Broker, tmp_path: Path) -> None:
    def run(file: Path, address: str) -> tuple[int, str]:
        options = ["--config.file", str(file), "--web.listen-address", address]
        done = subprocess.run(
            [PENSTOCK, "run", *options],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    good = Agent(tmp_path / "good", brokers=[entry(artemis)]).file
    status, said = run(tmp_path / "missing.yaml", "127.0.0.1:0")
    assert status == 2
    assert "missing.yaml" in said
    assert "Traceback" not in said
    with socket.create_server(("127.0.0.1", port := free_port())):
        status, said = run(good, f"127.0.0.1:{port}")
    assert status == 1
    assert "another process listens there" in said
    assert "Traceback" not in said


def test_passwords_are_told_nowhere(
    artemis: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the configuration, a password file and the environment; while all goes well and while it does not."""
    own = artemis.accounts["exporter"].password
    secrets = [own, "canary-inline-€\"'", "canary-file", "canary-environment"]
    _, inline, filed, environment = secrets
    (tmp_path / "secret").write_text(f"{filed}\n")
    monkeypatch.setenv("PENSTOCK_CANARY", environment)
    dead = f"http://{artemis.host}:{free_port()}/console/jolokia/"
    by_file = entry(
        artemis, name="file", url=dead, password_file=str(tmp_path / "secret")
    )
    del by_file["password"]
    brokers = [
        entry(artemis, name="good"),
        entry(artemis, name="inline", url=dead, password=inline),
        by_file,
        entry(artemis, name="environment", url=dead, password="${PENSTOCK_CANARY}"),
    ]
    with Agent(tmp_path / "agent", log_level="debug", brokers=brokers) as agent:
        agent.until(names, {"good"})
        agent.until(lambda scrape: len(scrape.find("mq_up")), 4)
        agent.configure(
            brokers=[
                *brokers,
                entry(artemis, name="bad", url="ftp://nowhere", password=inline),
            ]
        )
        answers = [
            agent.request("/-/reload", method="POST")[1],
            *(
                agent.request(path)[1]
                for path in ("/", "/config", "/metrics", "/-/ready", "/nothing")
            ),
        ]
        assert answers[2].count("<secret>") == 3
        assert not command_lines_with([one for one in secrets if '"' not in one])
        agent.signal(signal.SIGTERM)
    agent.configure(brokers=brokers)
    recording = tmp_path / "recording.jsonl.gz"
    options = [
        "--config.file",
        str(agent.file),
        "--broker",
        "good",
        "--polls",
        "2",
        "--output",
        str(recording),
    ]
    done = subprocess.run(
        [PENSTOCK, "record", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts = [
        *answers,
        agent.log.read_text(),
        done.stdout,
        done.stderr,
        gzip.decompress(recording.read_bytes()).decode(),
    ]
    for secret in secrets:
        assert not [text for text in map(unescape, texts) if secret in text]
    assert os.environ["PENSTOCK_CANARY"] == environment
