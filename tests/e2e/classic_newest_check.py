"""The newest ActiveMQ Classic, embedded: numbers are its clients' own, a stuck one is named. `make test-classic`."""

import time
from pathlib import Path

import pytest

from flowbench.observer import Observer
from rig.classic import Clients
from rig.embedded import embedded_classic

pytestmark = pytest.mark.broker


def test_the_newest_is_read_as_5_18_is(tmp_path: Path) -> None:
    broker = embedded_classic(tmp_path / "c6")
    broker.start()
    entry = {
        "name": "c6",
        "kind": "classic",
        "url": broker.jolokia_url,
        "username": "admin",
    }
    entry["password"] = broker.admin.password
    does = [
        ("fill", "backlog", 50),
        ("visit", "backlog", 20),
        ("send", "stuck", 5),
        ("hang", "stuck", 3),
    ]
    does += [
        ("send", "fine", 5),
        ("read", "fine", 5),
        ("fill", "tx", 30),
        ("hold", "tx", 10),
        ("durable", "news", 0),
    ]
    does += [("publish", "news", 5)]
    try:
        judgement = {"cold": "20s"}
        with (
            Clients(broker, does) as clients,
            Observer(
                tmp_path / "agent", brokers=[entry], interval="2s", judgement=judgement
            ) as observer,
        ):
            deadline = time.monotonic() + 90
            wanted = {
                ("stuck", "stalled"),
                ("tx", "open_transaction"),
                ("durable-news.sub", "no_consumer"),
            }
            while not wanted <= {(one.queue, one.condition) for one in observer.events}:
                assert time.monotonic() < deadline, [
                    (one.queue, one.condition) for one in observer.events
                ]
                time.sleep(1)
            assessor = observer.pollers["c6"].assessor
            assert assessor.snapshot is not None
            queues = assessor.snapshot.queues
            counts = clients.counts
    finally:
        broker.kill()
    assert {one.error for one in assessor.snapshot.collectors.values()} == {""}
    assert queues is not None
    row = {one.name: i for i, one in enumerate(queues.index)}
    sent = counts["fill-backlog"][0]
    received = counts["visit-backlog"][1]
    numbers = [
        float(queues[name][row["backlog"]]) for name in ("added", "removed", "messages")
    ]
    assert numbers == [sent, received, sent - received] == [50, 20, 30]
    assert {one.queue for one in observer.events if one.condition and one.severity != "info"} == {
        "backlog", "stuck", "tx", "durable-news.sub",
    }  # fmt: skip
