"""
Every message that clients sent to a real OpenMQ balances in the account: faults, and what looks like them.

What clients logged is the truth. `PENSTOCK_ACCOUNT_SECONDS` makes the run longer: `make test-account-openmq`.
"""

import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from flowbench.openmq import (
    PACKAGE,
    Clients,
    Scenario,
    compiled,
    consume,
    create_queue,
    destination,
    entry,
    manage,
    produce,
    roles_of,
)
from penstock.agent import Poller
from penstock.cli.polling import open_poller
from penstock.conditions import in_doubt
from penstock.config import load
from penstock.insight.sheets import openmq_account_list
from penstock.model import TransactionState
from penstock_demo.cache import require_java
from penstock_demo.openmq import GUEST, OpenMQBroker

pytestmark = pytest.mark.broker

SECONDS = float(os.environ.get("PENSTOCK_ACCOUNT_SECONDS", "10"))
"""For which the clients send."""
POLL = float(os.environ.get("PENSTOCK_ACCOUNT_POLL", "0.5"))
QUIET = 5 * POLL
"""Before the clients send: what is usual is known."""
PREPARED = Path(__file__).parents[1] / "java" / "OpenMqPrepared.java"
LATER = int(1000 * (QUIET + 2))


def sends(rate: float, **more: Any) -> tuple[str, dict[str, Any]]:
    kind, options = produce(rate=rate, count=int(rate * SECONDS), wait=LATER, **more)
    return kind, dict(options)


SLOW: dict[str, Any] = {"listener": "true", "delay": 50, "imqConsumerFlowLimit": 10}
LEAVES: dict[str, Any] = {"shared": "s", "ack": "client", "acknowledge": 0, "leave": 5}
FULL: dict[str, Any] = {"MaxNumMsgs": 100}
SITUATIONS = (
    # The manual's four behaviours of a full destination.
    Scenario("removeoldest", [sends(60), consume(**SLOW)], settings={**FULL, "LimitBehavior": "REMOVE_OLDEST"}),
    Scenario("removelow", [sends(60), consume(**SLOW)], settings={**FULL, "LimitBehavior": "REMOVE_LOW_PRIORITY"}),
    Scenario("removegone", [sends(60), consume(**SLOW)],
             settings={**FULL, "LimitBehavior": "REMOVE_OLDEST", "UseDMQ": False}),
    Scenario("rejectsilent", [sends(40), consume(**SLOW)], settings={**FULL, "LimitBehavior": "REJECT_NEWEST"}),
    Scenario("rejectloud", [sends(40, persistent="true")], settings={**FULL, "LimitBehavior": "REJECT_NEWEST"}),
    Scenario("flowcontrol", [sends(60), consume(**SLOW)], settings={**FULL, "LimitBehavior": "FLOW_CONTROL"}),
    Scenario("toolarge", [sends(10, size=5000), consume()], settings={"MaxBytesPerMsg": 1000}),
    Scenario("arrivedlate", [sends(20, ttl=1)]),
    Scenario("unwanted", [sends(20)], topic=True),
    Scenario("purged", [sends(20), consume(receive="never", imqConsumerFlowLimit=10)]),
    Scenario("leftover", [consume(**LEAVES), consume(**LEAVES), produce(count=20, wait=LATER)], topic=True),
    # Healthy.
    Scenario("fast", [sends(100), consume()]),
    Scenario("batches", [sends(40, commit=10), consume(ack="transacted", commit=10)]),
    Scenario("pollers", [sends(20), consume(visit=700, take=1000)]),
    Scenario("delayed", [sends(20, later=2000), consume()]),
    Scenario("subscribed", [sends(20), consume(), consume(durable="d", clientid="durable")], topic=True),
)  # fmt: skip
ROLLED_BACK = 200


@dataclass
class Played:
    sheets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By queue, of topics by name."""
    counts: dict[str, int] = field(default_factory=dict)
    raised: dict[str, set[str]] = field(default_factory=dict)
    """Conditions by address; of the broker under an empty name, with why."""
    whys: set[str] = field(default_factory=set)
    shown: dict[tuple[str, str, str], float] = field(default_factory=dict)
    uneven: list[str] = field(default_factory=list)
    """Sheets of any poll that explain too little."""
    doubted: dict[str, Any] = field(default_factory=dict)
    """The sheet of what is in doubt, before it is rolled back, and what was said until then."""
    unsaid: set[str] = field(default_factory=set)

    def count(self, role: str) -> int:
        return self.counts[role]

    def left(self, name: str, fate: str) -> tuple[float, float]:
        return bounds(self.sheets[name]["left"][fate])


def bounds(value: Any) -> tuple[float, float]:
    if value is None:
        return 0.0, float("inf")
    low, high = value if isinstance(value, list | tuple) else (value, value)
    return low, float("inf") if high is None else high


class Watcher:
    """Polls in a thread of its own; a context manager."""

    def __init__(self, broker: OpenMQBroker, folder: Path) -> None:
        file = folder / "penstock.yaml"
        said = {
            "interval": f"{max(POLL, 1)}s",
            "judgement": {"cold": "45s", "proof": "5s"},
            "brokers": [entry(broker)],
        }
        file.write_text(json.dumps(said))
        self._config = load(file)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()))
        self.played = Played()
        self.polls = 0

    async def _watch(self) -> None:
        poller = open_poller(self._config, self._config.brokers[0])
        try:
            while not self._ended.is_set():
                began = time.monotonic()
                await poller.poll()
                self._take(poller)
                await asyncio.sleep(max(0.0, began + POLL - time.monotonic()))
        finally:
            await poller.close()

    def _take(self, poller: Poller) -> None:
        view = poller.assessor.view
        played = self.played
        if view is None or view.snapshot.queues is None:
            return
        for one in view.state.judgement.conditions:
            played.raised.setdefault(one.address, set()).add(one.name)
            played.whys |= {one.why} - {""}
        account = view.state.judgement.openmq_account
        queues = view.snapshot.queues
        if account.queues.index is not queues.index:
            return  # a listing broke as something in it went
        sheets: dict[str, dict[str, Any]] = {}
        topics = [
            row.name for row in account.topics.index if not row.name.startswith("mq.")
        ]
        for name in [row.name for row in queues.index] + topics:
            for sheet in openmq_account_list(view, queues, name).rows:
                sheets[sheet.queue or sheet.address] = msgspec.to_builtins(sheet)
        played.uneven += [
            str(sheet)
            for sheet in sheets.values()
            if sheet["unexplained"] not in (0, None)
        ]
        table = view.tables["account"]
        played.shown = {
            (row.address, row.queue, row.fate): float(value)
            for row, value in zip(table.index, table["messages"].tolist(), strict=True)
        }
        played.sheets = sheets
        self.polls = self.polls + 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def wait(self, polls: int) -> None:
        wanted = self.polls + polls
        end = time.monotonic() + 60
        while (
            self.polls < wanted and self._thread.is_alive() and time.monotonic() < end
        ):
            time.sleep(0.05)
        assert self.polls >= wanted

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)


@contextmanager
def prepared(
    broker: OpenMQBroker, queue: str, received: int, sent: int
) -> Iterator[None]:
    """A client that has prepared a transaction and is killed at the end."""
    jars = ":".join(map(str, broker.client_jars))
    command = [
        require_java(),
        "-cp",
        jars,
        str(PREPARED),
        f"mq://{broker.host}:{broker.port}/jms",
        GUEST.user,
    ]
    child = subprocess.Popen(
        [*command, queue, str(received), str(sent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with closing(child.stdin), closing(child.stdout):
            child.stdin.write(GUEST.password + "\n")
            child.stdin.flush()
            assert child.stdout.readline() == "prepared\n"
            yield
    finally:
        child.kill()
        child.wait()


def roll_back_prepared(broker: OpenMQBroker) -> None:
    """As an operator does."""
    manager = f"{PACKAGE}:type=TransactionManager,subtype="
    (one,) = [
        row["TransactionID"]
        for row in manage(
            broker,
            type="exec",
            mbean=manager + "Monitor",
            operation="getTransactionInfo()",
        )
        if row["State"] == TransactionState.PREPARED
    ]
    rollback = "rollback(java.lang.String)"
    manage(
        broker,
        type="exec",
        mbean=manager + "Config",
        operation=rollback,
        arguments=[one],
    )


def play(folder: Path) -> Played:
    with ExitStack() as stack:
        broker = OpenMQBroker.create(folder / "broker", read_only=False, heap_mb=512)
        stack.callback(broker.kill)
        broker.start()
        classes = compiled(broker, folder / "classes")
        log = folder / "clients.log"
        for one in SITUATIONS:
            if not one.topic:
                create_queue(broker, one.name, one.settings)
        for name in ("rolledback", "indoubt"):
            create_queue(broker, name, {})
        watcher = stack.enter_context(Watcher(broker, folder))
        roles = [role for one in SITUATIONS for role in roles_of(one)]
        roles += [
            produce(queue="indoubt", count=10, name="for-doubt", persistent="true")
        ]
        clients = stack.enter_context(Clients(broker, classes, roles, log))
        rollback = Clients(
            broker,
            classes,
            [produce(queue="rolledback", count=ROLLED_BACK, commit=0, wait=LATER)],
            log,
        )
        with rollback, prepared(broker, "indoubt", 4, 3):
            time.sleep(QUIET + 2 + SECONDS)
            watcher.wait(2)
            manage(
                broker, type="exec", mbean=destination("purged"), operation="purge()"
            )
        time.sleep(2)
        watcher.wait(6)
        watcher.played.doubted, watcher.played.unsaid = (
            watcher.played.sheets["indoubt"],
            set(watcher.played.whys),
        )
        roll_back_prepared(broker)
        watcher.wait(14)
        watcher.played.counts = clients.counts()
        if keep := os.environ.get("PENSTOCK_ACCOUNT_KEEP"):
            Path(keep).write_text(
                json.dumps([watcher.played.sheets, watcher.played.counts], indent=1)
            )
        return watcher.played


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_doubt, "LASTING", 5.0)  # seconds in place of minutes
        return play(tmp_path_factory.mktemp("account-openmq"))


def content(played: Played, name: str) -> float:
    return float(sum(played.sheets[name]["there"].values()))


@pytest.mark.parametrize("name", ["removeoldest", "removelow", "removegone"])
def test_what_a_limit_removes(played: Played, name: str) -> None:
    """Not handled by a client: at least what nobody acknowledged, at most what left."""
    never = (
        played.count(f"{name}-0.sent")
        - played.count(f"{name}-1.distinct")
        - content(played, name)
    )
    low, high = played.left(name, "removed")
    assert never > 100
    assert low <= never <= high
    assert low >= 0.7 * never
    assert "limit_losing" in played.raised[name]
    assert played.left(name, "acknowledged")[1] >= played.count(f"{name}-1.done") - 11


def test_what_is_refused(played: Played) -> None:
    silent = (
        played.count("rejectsilent-0.sent")
        - played.count("rejectsilent-1.got")
        - content(played, "rejectsilent")
    )
    low, high = played.left("rejectsilent", "rejected")
    in_buffer = bounds(played.sheets["rejectsilent"]["there"]["delivering"])[0]
    assert low <= silent + in_buffer <= high + 11
    assert high >= silent > 100
    low, high = played.left("rejectloud", "rejected")
    assert 0 < low <= played.count("rejectloud-0.failed") <= high
    assert SECONDS < 60 or "rejecting" in played.raised["rejectloud"]


def test_what_is_too_large_and_what_comes_too_late(played: Played) -> None:
    low, high = played.left("toolarge", "too_large")
    assert low <= played.count("toolarge-0.sent") <= high
    late = played.count("arrivedlate-0.sent") - content(played, "arrivedlate")
    expired = played.left("arrivedlate", "expired")
    dead = played.left("arrivedlate", "dead_lettered")
    assert expired[0] + dead[0] <= late <= expired[1] + dead[1]
    assert (
        played.left("arrivedlate", "rejected")
        == played.left("arrivedlate", "too_large")
        == (0, 0)
    )
    assert "rejecting" not in played.raised.get("arrivedlate", set())


def test_what_producers_roll_back_and_operators_purge(played: Played) -> None:
    assert played.left("rolledback", "rolled_back") == (ROLLED_BACK, ROLLED_BACK)
    low, high = played.left("purged", "purged")
    assert low <= played.count("purged-0.sent") - content(played, "purged") <= high


def test_what_no_subscription_wants(played: Played) -> None:
    sent = played.count("unwanted-0.sent")
    assert played.left("unwanted", "unwanted") == (sent, sent)
    assert played.shown["unwanted", "", "unwanted"] == sent


def test_what_is_in_doubt_and_with_nobody(played: Played) -> None:
    """What the topic has left may be in doubt as well, and is not to be purged while anything is."""
    sheet = played.doubted
    leftover = f"{content(played, 'leftover'):.0f} messages of leftover"
    assert sheet["there"]["uncommitted"] == 3
    assert sheet["delivering"]["in_doubt"] == (0, 4)
    assert "in_doubt" in sheet["reasons"]
    assert leftover not in played.unsaid
    # How many stay with nobody changes as the broker goes on.
    assert any(why.endswith(" messages of leftover") for why in played.whys)
    assert "in_doubt" not in played.sheets["indoubt"]["delivering"]
    assert content(played, "indoubt") == 10


@pytest.mark.parametrize(
    "name", ["fast", "batches", "pollers", "delayed", "subscribed", "flowcontrol"]
)
def test_healthy_ones_lose_nothing(played: Played, name: str) -> None:
    sheet = played.sheets[name]
    losses = {
        fate: value
        for fate, value in sheet["left"].items()
        if fate != "acknowledged" and bounds(value)[0]
    }
    assert not losses, sheet
    sent = played.count(f"{name}-0.sent")
    assert abs(bounds(sheet["came"]["added"])[0] - sent) <= 10
    raised = played.raised.get(name, set()) & {
        "limit_losing",
        "rejecting",
        "removed_unsettled",
    }
    assert not raised


def test_every_sum_closes_at_every_poll(played: Played) -> None:
    assert not played.uneven
    for name, sheet in played.sheets.items():
        came = sum(bounds(value)[0] for value in sheet["came"].values())
        low = sum(
            bounds(value)[0]
            for value in (*sheet["there"].values(), *sheet["left"].values())
        )
        high = sum(
            bounds(value)[1]
            for value in (*sheet["there"].values(), *sheet["left"].values())
        )
        assert low <= came <= high, (name, sheet)
