"""The demo's scenario on a real broker: what it claims to inject is there, and it leaves nothing."""

import threading
from functools import partial
from pathlib import Path

import pytest
import yaml

from penstock_demo.run import EXPORTER, Scenario
from rig.processes import command_lines_with
from rig.waiting import eventually

pytestmark = pytest.mark.broker


def test_scenario() -> None:
    threads = threading.active_count()
    with Scenario() as scenario:
        broker = scenario.broker
        folder = scenario.directory
        assert folder is not None
        shown = {(sight.queue, sight.client) for sight in scenario.describe()}

        def consuming() -> set[tuple[str, str]]:
            return {
                (row["queue"], row["clientID"])
                for row in broker.manage.rows("listConsumers")
            }

        eventually(consuming, shown - {("audit.ring", "")})

        def number(queue: str, attribute: str) -> int:
            return int(broker.manage.queue(queue, attribute))

        def flows(queue: str) -> bool:
            return number(queue, "MessagesAcknowledged") > 10

        def awaiting_commit() -> list[bool]:
            rows = broker.manage.rows("listConsumers")
            return [
                int(row["messagesAcknowledgedAwaitingCommit"]) > 3
                for row in rows
                if row["queue"] == "invoices"
            ]

        eventually(awaiting_commit, [True])
        for healthy in ("orders", "payments", "shipments", "emails"):
            eventually(partial(flows, healthy), expected=True)
        eventually(lambda: number("audit.ring", "MessagesAdded") > 150, expected=True)
        # A message that was just sent may be counted before the one that it evicts is gone.
        eventually(lambda: number("audit.ring", "MessageCount"), 100)
        assert number("stock.updates", "DeliveringCount") > 0
        assert (
            number("stock.updates", "MessagesAcknowledged")
            == number("invoices", "MessagesAcknowledged")
            == 0
        )

        (configured,) = yaml.safe_load(scenario.config_yaml())["brokers"]
        assert configured["password"] == broker.accounts[EXPORTER].password
        assert (configured["name"], configured["url"]) == ("demo", broker.jolokia_url)
        assert not command_lines_with(
            [account.password for account in broker.accounts.values()]
        )
    assert not folder.exists()
    eventually(threading.active_count, threads)


@pytest.mark.nightly  # a demo of its own
def test_scenario_that_is_kept(tmp_path: Path) -> None:
    with Scenario(tmp_path) as scenario:
        pass
    assert scenario.broker.log.is_file()
    assert not scenario.broker.running
