"""Pairs of the rules of messages that are lost or refused, of transactions, and of the whole broker."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from conditions.pairs import (
    LONG,
    LONG_AGO,
    NEVER,
    NOW,
    UNKNOWN,
    Pairs,
    lines,
    openmq,
    plain,
)
from penstock.conditions.in_doubt import LASTING
from penstock.model import LeftOut
from penstock.observation.losses import (
    DUPLICATE,
    LINES,
    PLACELESS,
    PURGED,
    ROLLED_BACK,
    TARGET,
    UNEXPLAINED,
    UNWANTED,
)


def goes_on(line: int) -> dict[Any, Any]:
    """A loss of ten messages, at three polls."""
    return {
        "losses.since": lines(LINES, {line: NOW - 100}),
        "losses.last": lines(LINES, {line: NOW}),
        "losses.polls": lines(LINES, {line: 3}),
        "losses.began": lines(LINES, {line: 0}),
        "losses.amount": lines(LINES, {line: 10}),
        "losses.came": 0,
        "losses.came0": lines(LINES, {line: 0}),
    }


def ended(line: int) -> dict[Any, Any]:
    """What each column says of a loss that does not go on."""
    return {
        "losses.since": lines(LINES, {line: NOW}),
        "losses.last": lines(LINES, {line: NOW - 1000}),
        "losses.polls": lines(LINES, {line: 2}),
        "found.judged": False,
    }


KILLED = {"returns.delivered": 10, "returns.settled": 0, "returns.killed": 10}
"""Each after a delivery that settled nothing."""
REFUSED = {
    "found.address.limit_percent": 100,
    "found.address.paging": 1,
    "found.address.pages": 0,
}
FULL = {
    "found.parked": True,
    "found.address.limit_percent": 100,
    "snapshot.addresses": None,
}
PREPARED = SimpleNamespace(listed=[SimpleNamespace(since=NOW - LASTING)])
JUST_PREPARED = SimpleNamespace(listed=[SimpleNamespace(since=NOW - LASTING + 1)])
WITH_NOBODY = {
    "openmq.queues.unheld": 2,
    "openmq.prepared.received": 0,
    "found.consumers": 0,
}
YES = np.array([1.0])
NO = np.array([0.0])

CASES = [
    Pairs("rejecting", plain, REFUSED, {
        "found.judged": False,
        "found.address.limit_percent": 99,
        "found.address.paging": 0,
        "found.address.pages": 1,
    }),
    Pairs("openmq/rejecting", openmq, {"accounted.refuses": YES}, {
        "accounted.refuses": NO,
        "found.judged": False,
    }, only_since=["accounted.refuses_since"]),
    Pairs("removed_unsettled", openmq, {"accounted.leaves_unread": YES}, {
        "accounted.leaves_unread": NO,
        "openmq.said.removes": True,
        "found.judged": False,
    }, only_since=["accounted.leaves_unread_since"]),
    Pairs("limit_losing", openmq, {"openmq.queues.removing_at": NOW}, {
        "openmq.queues.removing_at": NOW - 100,
        "found.judged": False,
        "found.parked": True,
    }),
    Pairs("unheld", plain, {"losses.unheld_since": LONG_AGO}, {"losses.unheld_since": NEVER, "found.judged": False}),
    Pairs("dead_letters_full", plain, FULL, {
        "found.parked": False,
        "found.address.limit_percent": 99,
        "found.judged": False,
    }),
    Pairs("dead_letters_lost", plain, goes_on(PLACELESS) | KILLED, ended(PLACELESS) | {
        "returns.delivered": 4,
        "returns.settled": 6,
        "returns.killed": 0,
    }),
    Pairs("dead_letters_lost", plain, goes_on(TARGET), ended(TARGET)),
    Pairs("duplicates_dropped", plain, goes_on(DUPLICATE), ended(DUPLICATE)),
    Pairs("unwanted", plain, goes_on(UNWANTED), ended(UNWANTED)),
    Pairs("producer_rolls_back", plain, goes_on(ROLLED_BACK) | {"losses.came": 50}, ended(ROLLED_BACK) | {
        "losses.came": 101,
        "losses.began": lines(LINES, {ROLLED_BACK: 9}),
        "losses.amount": lines(LINES, {ROLLED_BACK: 1}),
        "losses.came0": lines(LINES, {ROLLED_BACK: -100}),
    }),
    Pairs("purged", plain, goes_on(PURGED), {
        "losses.last": lines(LINES, {PURGED: NOW - 1000}),
        "found.judged": False,
    }, only_since=["losses.since"]),
    Pairs("unaccounted", plain, goes_on(UNEXPLAINED), {
        "losses.last": lines(LINES, {UNEXPLAINED: NOW - 1}),
        "found.judged": False,
        "found.keeps": True,
    }),
    Pairs("ring_losing", plain, {"evictions.grew": 1}, {"evictions.grew": 0, "found.judged": False}),
    Pairs("ring_lost_by_consumer", plain, {"evictions.low": 1}, {"evictions.low": 0, "found.judged": False}),
    Pairs("producer_transaction_open", openmq, {
        "openmq.queues.held_since": LONG_AGO,
        "timers.unsettled": LONG_AGO,
    }, {
        "openmq.queues.held_since": NEVER,
        "timers.unsettled": NEVER,
        "queue_patience": LONG,
        "found.judged": False,
    }),
    Pairs("producer_transaction_open", openmq, {"openmq.said.transaction_since": LONG_AGO}, {
        "openmq.said.transaction_since": NEVER,
    }),
    Pairs("in_doubt", plain, {"losses.prepared": {"xid": NOW - LASTING}}, {
        "losses.prepared": {"xid": NOW - LASTING + 1},
    }),
    Pairs("openmq/in_doubt", openmq, {"openmq.prepared": PREPARED}, {"openmq.prepared": JUST_PREPARED}),
    Pairs("delivered_to_none", openmq, WITH_NOBODY, {
        "openmq.queues.unheld": 1,
        "openmq.prepared.received": UNKNOWN,
        "found.consumers": 1,
    }),
    Pairs("delivered_to_none", openmq, {
        "openmq.prepared.received": 0,
        "openmq.prepared.stuck": {"t": (2.0, NOW - 15)},
    }, {
        "openmq.prepared.stuck": {"t": (2.0, NOW - 14)},
    }),
    Pairs("two_actives", plain, {"rivals": ("other",)}, {"rivals": ()}),
    Pairs("over_budget", plain, {"left_out": (LeftOut("queues", 1, 2),)}, {"left_out": ()}),
]  # fmt: skip
