"""No counter of an OpenMQ broker falls, and none counts twice, when each second listing lacks half of the rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from account.openmq_world import DMQ, SETTINGS, Openmq, openmq_broker
from account.test_counters_never_fall import Highest, counters, half_of
from penstock.model import QueueKind

POLLS = 60
BEFORE = 25
"""The broker had made so many steps when it was first polled."""
STEP = 40
"""Messages a poll."""
LISTINGS = ("queues", "consumers", "addresses")
Rows = dict[str, Any]


def listings(n: int) -> dict[str, Rows]:
    """At poll `n`: queues whose messages are acknowledged, removed by a limit, refused, and kept."""
    came = float(STEP * (n + BEFORE))
    half = came // 2
    plain = {"A": came, "K": came, "M": 0.0, "D": 0.0, "uncommitted": 0.0}
    queues: dict[str, Rows] = {
        **{f"plain{i}": {**plain} for i in range(4)},
        "removes": {**plain, "M": 1000.0, "A": came + 1000.0, "K": came},
        "kept": {**plain, "K": 0.0, "M": came},
        "halves": {**plain, "K": half, "M": came - half},
        DMQ: {**plain, "A": 0.0, "K": 0.0, "kind": QueueKind.DEAD_LETTER},
    }
    addresses = {name: {**SETTINGS, "limit_messages": 1e6} for name in queues}
    addresses["removes"] = {**SETTINGS, "policy": "remove_oldest"}
    addresses["topic"] = {
        **SETTINGS,
        "topic": 1,
        "messages_added": came,
        "removed": came,
        "messages": 0.0,
        "uncommitted": 0.0,
        "exact": 1.0,
    }
    queues["sub"] = {
        "A": float("nan"),
        "K": float("nan"),
        "M": 0.0,
        "D": 0.0,
        "kind": QueueKind.SUBSCRIPTION,
        "address": "topic",
        "routing_type": "multicast",
    }
    consumers = {
        f"c.{name}": {
            "queue": name,
            "client": f"reader of {name}",
            "N": said["K"],
            "T": 0.0,
        }
        for name, said in queues.items()
        if said["K"] and name != "removes" and said["K"] == said["K"]
    }
    return {"queues": queues, "consumers": consumers, "addresses": addresses}


def watched(
    broker: Openmq, missing: Sequence[str], polls: int = POLLS
) -> tuple[list[str], dict[tuple[Any, ...], float]]:
    """What fell, and all counters in the end. missing: listings of which half is missing at each second poll."""
    highest = Highest()
    for n in [*range(polls), *[polls - 1] * 4]:
        said = listings(n)
        if n % 2 and n < polls - 1:
            said |= {name: half_of(said[name], n // 2 % 2) for name in missing}
            said["consumers"] = {
                k: v
                for k, v in said["consumers"].items()
                if v["queue"] in said["queues"]
            }
        for one in said["consumers"].values():
            one["L"] = broker.now
        broker.poll(said["queues"], said["consumers"], said["addresses"])
        highest.see(n, broker.tables)
    return highest.fell, counters(broker.tables)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("missing", [(), LISTINGS, *((name,) for name in LISTINGS)])
def test_no_counter_falls(missing: Sequence[str]) -> None:
    found, _ = watched(openmq_broker(), missing)
    assert not found


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("missing", [(), LISTINGS, ("queues",)])
def test_what_was_acknowledged_is_counted_once(missing: Sequence[str]) -> None:
    _, now = watched(openmq_broker(), missing)
    polled = STEP * (POLLS - 1)
    told = {
        name[2:]: value
        for name, value in now.items()
        if name[0] == "mq_account_messages_total"
    }
    assert told["plain0", "plain0", "acknowledged"] == polled
