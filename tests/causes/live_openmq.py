"""
The same as `causes.live` on a real OpenMQ: `make test-causes-openmq` plays all situations at once and prints the table.
"""

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from causes.live import Found, conclude, run, take
from causes.situations.register import COLD, INTERVAL, Truth
from flowbench.openmq import (
    LIMITED,
    Options,
    Scenario,
    clients_of,
    consume,
    observed,
    prepared,
    produce,
)
from penstock.agent import Poller

SECONDS = 130.0
Roles = Sequence[tuple[str, Options]]

SITUATIONS: dict[str, tuple[Truth, Scenario]] = {}


def situation(
    name: str,
    condition: str,
    roles: Roles,
    *true: str,
    proves: tuple[str, ...] = (),
    **more: object,
) -> None:
    truth = Truth(condition, frozenset(true), frozenset(proves))
    SITUATIONS[name] = truth, Scenario(name.replace("-", "_"), roles, **more)  # type: ignore[arg-type]


TRANSACTED = {"ack": "transacted"}

situation(
    "listener-hangs",
    "stalled",
    [consume(listener="true", hang=20), produce(rate=20)],
    "listener_hangs",
)
situation(
    "listener-hangs-at-once",
    "stalled",
    [consume(listener="true", hang=1), produce(rate=20)],
    "listener_hangs",
)
situation(
    "hangs-beside-one-that-works", "stalled",
    [
        consume(hang=20, connection="shared"), produce(rate=20), produce(queue="fed", rate=5),
        consume(connection="shared", queue="fed"),
    ], "listener_hangs",
)  # fmt: skip
situation("long-job", "stalled", [consume(delay=200_000), produce(rate=20)], "long_job")
situation(
    "never-receives",
    "stalled",
    [consume(receive="never"), produce(rate=20)],
    "never_receives",
)
situation(
    "never-acknowledges",
    "stalled",
    [consume(ack="client", acknowledge=0), produce(rate=20)],
    "never_acknowledges",
)
situation("frozen", "stalled", [consume(delay=5), produce(rate=20)], "frozen", own=True)
situation(
    "stomp-never-acknowledges", "stalled", [produce(rate=5)], "stomp_reader", stomp=True
)
situation(
    "never-commits",
    "open_transaction",
    [consume(commit=0, **TRANSACTED), produce(count=50)],
    "never_commits",
)
situation(
    "hangs-within-a-transaction", "open_transaction", [consume(commit=0, hang=20, **TRANSACTED), produce(count=200)],
    "listener_hangs", "never_commits",
)  # fmt: skip
situation(
    "transaction-fails", "open_transaction", [consume(commit=0, **TRANSACTED), produce(count=500)],
    "transaction_failed", "never_commits", proves=("transaction_failed",),
)  # fmt: skip
situation(
    "rolls-back", "redelivery_loop", [consume(rollback=1, delay=5, **TRANSACTED), produce(rate=2)], "rolls_back",
)  # fmt: skip
situation(
    "recovers", "redelivery_loop", [consume(ack="client", returns=1000, delay=5), produce(rate=2)], "recovers",
)  # fmt: skip
situation(
    "not-started",
    "not_dispatching",
    [consume(start="false"), produce(rate=5)],
    "not_started",
)
situation(
    "selector",
    "not_dispatching",
    [consume(selector="colour='red'"), produce(rate=5)],
    "selector",
)
situation(
    "asks-for-none", "stalled", [consume(receive="never", imqConsumerFlowLimitPrefetch="false"), produce(rate=5)],
    "never_receives",
)  # fmt: skip
situation(
    "destination-full", "producers_blocked", [produce(rate=100)], "address_full", proves=("address_full",),
    settings={"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": 500},
)  # fmt: skip
situation(
    "closed-by-an-operator", "producers_blocked", [produce(rate=20)], "operator", proves=("operator",),
    pauses="PRODUCERS",
)  # fmt: skip
situation(
    "refuses-the-newest", "rejecting", [produce(rate=30), consume(delay=100)], "address_full",
    proves=("address_full",), settings={"LimitBehavior": "REJECT_NEWEST", "MaxNumMsgs": 200},
)  # fmt: skip
situation(
    "messages-too-large", "rejecting", [produce(rate=20, size=5000), consume()], "too_large", proves=("too_large",),
    settings={"MaxBytesPerMsg": 1000},
)  # fmt: skip
situation(
    "limit-of-active-consumers", "falling_behind", [produce(rate=20), consume(delay=200)], "max_consumers",
    settings={"MaxNumActiveConsumers": 1},
)  # fmt: skip
situation(
    "backups-stand-by", "falling_behind", [produce(rate=20), consume(delay=200), consume(delay=200)], "max_consumers",
    proves=("max_consumers",), settings={"MaxNumActiveConsumers": 1, "MaxNumBackupConsumers": 3},
)  # fmt: skip
situation(
    "paused",
    "paused",
    [produce(rate=5), consume()],
    "paused",
    proves=("paused",),
    pauses="CONSUMERS",
)
situation(
    "nobody-reads",
    "no_consumer",
    [produce(rate=5), consume(leave=50)],
    "application_down",
)
situation(
    "limit-of-the-connection", "connection_paused",
    [
        produce(count=2000), produce(queue="limit_fed", rate=5), consume(connection="limited", hang=10, **LIMITED),
        consume(connection="limited", queue="limit_fed", **LIMITED),
    ], "connection_limit", queues=("limit_fed",),
)  # fmt: skip


def played(only: str, seconds: float, folder: Path) -> dict[str, Found]:
    chosen = {
        name: one
        for name, one in SITUATIONS.items()
        if any(part in name for part in only.split(","))
    }
    known = {name: Found() for name in chosen}
    scenarios = [scenario for _, scenario in chosen.values()]

    def each(poller: Poller) -> None:
        for name, (truth, scenario) in chosen.items():
            take(known[name], truth, poller, {scenario.name, *scenario.queues})

    with ExitStack() as stack:
        broker, classes = stack.enter_context(prepared(folder, scenarios))
        watching = threading.Thread(
            target=observed, args=(broker, folder, each, INTERVAL, seconds, COLD)
        )
        watching.start()
        stack.enter_context(
            clients_of(broker, scenarios, classes, folder / "clients.log")
        )
        watching.join()
    for name, (truth, _) in chosen.items():
        conclude(known[name], truth)
    return known


def main() -> int:
    truths = {name: truth for name, (truth, _) in SITUATIONS.items()}
    return run("causes.live_openmq", played, truths, SECONDS)


if __name__ == "__main__":
    sys.exit(main())
