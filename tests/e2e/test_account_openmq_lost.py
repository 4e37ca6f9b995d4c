"""
What leaves a destination of a real OpenMQ without a client that handled it is not acknowledged in the account: a store
that is full, time to live without a dead message queue, clocks that are wrong. What clients logged is the truth.
"""

import json
import os
import resource
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.test_account_openmq import POLL, Played, Watcher, content, sends
from flowbench.openmq import (
    Clients,
    Scenario,
    compiled,
    consume,
    create_queue,
    produce,
    roles_of,
)
from penstock_demo.openmq import OpenMQBroker

pytestmark = pytest.mark.broker

SECONDS = float(os.environ.get("PENSTOCK_ACCOUNT_SECONDS", "10"))
"""For which the store is full; the clients send for as long before it, and a while after."""
LARGE = 1_200_000
"""Bytes of a message that the store keeps in a file of its own."""
STORE_FULL = 600_000
"""Bytes of a file that the broker may write at most: as if its disk had no more room for a large message."""
LIMITS_OF_FILES = resource.RLIMIT_FSIZE

SITUATIONS = (
    Scenario("storefull", [produce(rate=4, count=64, size=LARGE, persistent="true"), consume()]),
    Scenario("withoutdmq", [sends(40, ttl=500), consume(listener="true", delay=100, imqConsumerFlowLimit=10)],
             settings={"UseDMQ": False}),
    # An expiry time that is over as the message comes, as of a producer whose clock is slow; others make dead letters.
    Scenario("wrongclock", [sends(20, ttl=1), consume()]),
    Scenario("deadbeside", [sends(40, ttl=500), consume(listener="true", delay=100, imqConsumerFlowLimit=10)]),
    # Healthy.
    Scenario("settled", [sends(40), consume()]),
    Scenario("prefetchoff", [sends(20), consume(imqConsumerFlowLimitPrefetch="false")]),
    Scenario("visited", [sends(20), consume(visit=700, take=1000)]),
)  # fmt: skip
LOSSES = (
    "left_unacknowledged",
    "expired",
    "dead_lettered",
    "removed",
    "purged",
    "rolled_back",
    "too_large",
    "rejected",
)


def play(folder: Path) -> Played:
    with ExitStack() as stack:
        broker = OpenMQBroker.create(folder / "broker", read_only=False, heap_mb=512)
        stack.callback(broker.kill)
        broker.start()
        classes = compiled(broker, folder / "classes")
        for one in SITUATIONS:
            create_queue(broker, one.name, one.settings)
        roles = [role for one in SITUATIONS for role in roles_of(one)]
        clients = stack.enter_context(
            Clients(broker, classes, roles, folder / "clients.log")
        )
        # The agent finds them running: it has seen no consumer come.
        watcher = stack.enter_context(Watcher(broker, folder))
        watcher.wait(8)
        before = resource.prlimit(broker.pid, LIMITS_OF_FILES)
        resource.prlimit(broker.pid, LIMITS_OF_FILES, (STORE_FULL, before[1]))
        time.sleep(SECONDS)
        resource.prlimit(broker.pid, LIMITS_OF_FILES, before)
        watcher.wait(round(6 / POLL))
        counts = clients.counts()
        watcher.wait(6)
        watcher.played.counts = counts
        if keep := os.environ.get("PENSTOCK_ACCOUNT_KEEP"):
            Path(keep).write_text(json.dumps([watcher.played.sheets, counts], indent=1))
        return watcher.played


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("account-openmq-lost"))


def at_start(played: Played, name: str) -> float:
    """Messages that came before the agent did, at most."""
    return float(played.counts[f"{name}-0.sent"]) - float(
        played.sheets[name]["came"]["added"]
    )


def lost_at_most(played: Played, name: str) -> float:
    return sum(played.left(name, fate)[1] for fate in LOSSES)


def test_what_a_full_store_refuses_is_not_acknowledged(played: Played) -> None:
    refused = played.count("storefull-0.failed")
    assert refused >= 10, "the store was not full"
    low, high = played.left("storefull", "left_unacknowledged")
    assert low <= refused <= high
    assert (
        played.left("storefull", "acknowledged")[1]
        <= played.count("storefull-1.done") + 2
    )


def test_without_a_dead_message_queue_what_expired_is_within_the_bounds(
    played: Played,
) -> None:
    name = "withoutdmq"
    sheet = played.sheets[name]
    done = played.count(f"{name}-1.done")
    gone = (
        played.count(f"{name}-0.sent")
        - at_start(played, name)
        - done
        - content(played, name)
    )
    assert gone >= 50, "nothing expired"
    low, high = played.left(name, "expired")
    assert low <= gone <= high
    low, high = played.left(name, "acknowledged")
    assert low <= done
    assert low < sheet["came"]["added"], "it is not known that all were acknowledged"


def test_what_a_wrong_clock_expires_is_neither_acknowledged_nor_too_large(
    played: Played,
) -> None:
    late = played.sheets["wrongclock"]["came"]["added"] - played.count(
        "wrongclock-1.done"
    )
    on_arrival = played.left("wrongclock", "expired")
    a_moment_later = played.left("wrongclock", "dead_lettered")
    assert (
        on_arrival[0] + a_moment_later[0] <= late <= on_arrival[1] + a_moment_later[1]
    )
    assert on_arrival[0] > 0
    assert played.left("wrongclock", "too_large")[0] == 0
    low, high = played.left("wrongclock", "acknowledged")
    assert (
        low
        <= played.count("wrongclock-1.done")
        <= high
        < played.sheets["wrongclock"]["came"]["added"]
    )


def test_what_expires_in_a_buffer_with_a_dead_message_queue_may_be_a_dead_letter(
    played: Played,
) -> None:
    expired = (
        played.sheets["deadbeside"]["came"]["added"]
        - played.count("deadbeside-1.done")
        - content(played, "deadbeside")
    )
    assert expired >= 50, "nothing expired"
    assert (
        played.left("deadbeside", "acknowledged")[0]
        <= played.count("deadbeside-1.done") + 2
    )
    assert lost_at_most(played, "deadbeside") >= expired - at_start(
        played, "deadbeside"
    )


@pytest.mark.parametrize("name", ["settled", "prefetchoff", "visited"])
def test_healthy_ones_lose_nothing_for_sure(played: Played, name: str) -> None:
    sheet = played.sheets[name]
    assert not any(played.left(name, fate)[0] for fate in LOSSES), sheet
    low, high = played.left(name, "acknowledged")
    settled = played.count(f"{name}-1.got") - at_start(played, name)
    assert low <= settled + 2
    assert settled <= high + 2
