"""Pairs of the rules of consumers, and of queues by their consumers."""

from conditions import test_stalled_hangs
from conditions.inputs import column, positions
from conditions.pairs import (
    LONG,
    LONG_AGO,
    NEVER,
    NOW,
    UNKNOWN,
    Pairs,
    lines,
    openmq,
    openmq_two_queues,
    plain,
    two_consumers,
    two_queues,
)
from penstock.conditions import open_transaction, stalled
from penstock.observation.buffers import GAP, HELD, PROVEN, RISES, SECONDS
from penstock.observation.buffers import START as FIELDS
from penstock.observation.unacked import BATCH

LATE = NOW - 1000
"""Longer ago than the threshold of a new client, not as long as batches are waited for."""

STALLED = {"unacked.unacked_since": LATE}
OPEN_BATCH = STALLED | {
    "found.consumer.held_bytes": 0,
    "found.ready": 0,
    "unacked.least": BATCH,
    "found.consumer.last_delivery": LATE,
}
"""A client that settles in batches has an open one, and nothing comes: it is not stalled."""
GETS_MORE = STALLED | {
    "found.consumer.held_bytes": 0,
    "found.consumer.last_delivery": NOW,
    "found.consumer.d_delivered": 1,
    "found.ready": 0,
    "client_patience": 600,
}
"""A client that was never seen to settle, and is being given messages: it may be filling its first batch."""
HUNG = OPEN_BATCH | {"timers.ready": LONG_AGO, "evictions.grew": 1}

LEAKS = {
    "buffers.at": positions(0),
    "buffers.began": column(NOW),
    "buffers.rows": lines(len(FIELDS), {RISES: 2, GAP: 0, PROVEN: 0, HELD: 10}),
}
SETTLES_NONE = lines(len(FIELDS), {RISES: 2, GAP: SECONDS, PROVEN: 0, HELD: 10})
HOARDS = {
    "found.ready": 0,
    "found.held": 10,
    "found.consumer.held": [10, 0],
    "found.delivering": 10,
    "found.uncommitted": 0,
    "service_rate": 0.1,
    "unacked.idle_since": [NEVER, LONG_AGO],
}

CASES = [
    Pairs("stalled", plain, STALLED, {
        "unacked.unacked_since": NEVER,
        "eager": LONG,
        "found.consumer.uncommitted": 1,
    }, parts=[stalled.hangs]),
    Pairs("stalled", plain, OPEN_BATCH | {"found.consumer.held_bytes": BATCH}, {"found.consumer.held_bytes": 0}),
    Pairs("stalled", plain, OPEN_BATCH | {"found.ready": 5}, {
        "found.ready": 0,
        "found.paused": 1,
        "found.consumer.queue": -1,
    }),
    Pairs("stalled", plain, OPEN_BATCH | {"unacked.least": 0}, {"unacked.least": BATCH}),
    Pairs("stalled", plain, GETS_MORE | {"found.consumer.last_delivery": LONG_AGO}, {
        "found.consumer.last_delivery": NOW,
    }),
    Pairs("stalled", plain, GETS_MORE | {"unacked.settled": LATE}, {"unacked.settled": NEVER}),
    Pairs("stalled", plain, GETS_MORE | {"client_patience": 400}, {"client_patience": 600}),
    Pairs("stalled", plain, GETS_MORE | {"found.consumer.d_delivered": 0, "found.ready": 5}, {
        "found.consumer.d_delivered": 1,
    }),
    Pairs("stalled", plain, HUNG, {"evictions.grew": 0, "timers.ready": NEVER}),
    Pairs(stalled.hangs, test_stalled_hangs.polled, {}, {
        "unacked.unacked_since": NOW,
        "unacked.settled": NEVER,
        "service_rate": 0,
        "timers.ready": NEVER,
        "groups.clients.member": -1,
        "snapshot.consumer_connection": -1,
        "found.consumer.last_delivery": NOW,
        "found.consumer.queue": -1,
    }),
    Pairs(stalled.hangs, test_stalled_hangs.polled, {"evictions.grew": 1, "snapshot.consumer_connection": -1}, {
        "evictions.grew": 0,
    }),
    Pairs("openmq/stalled", openmq, {"unacked.unacked_since": LONG_AGO}, {
        "unacked.unacked_since": NEVER,
        "client_patience": LONG,
        "found.consumer.uncommitted": 1,
        "openmq.consumers.returning_since": LONG_AGO,
    }, only_since=["unacked.hold_since"]),
    Pairs("openmq/stalled", openmq, {
        "unacked.unacked_since": NOW - 100,
        "eager": 60,
        "openmq.said.flow_paused": True,
        "openmq.consumers.still_since": NOW - 100,
        "found.ready": 5,
    }, {
        "eager": 200,
        "openmq.said.flow_paused": False,
        "openmq.consumers.still_since": NEVER,
        "found.ready": 0,
        "found.consumer.queue": -1,
    }),
    Pairs("classic/stalled", plain, {stalled.rule: True}, {
        stalled.rule: False,
        open_transaction.proven_rule: True,
    }),
    Pairs("classic/stalled", plain, {
        stalled.rule: True,
        "snapshot.consumers.transaction_begun": NOW - 100,
        "unacked.unacked_since": NOW - 200,
    }, {
        "snapshot.consumers.transaction_begun": LONG_AGO,
        "unacked.unacked_since": NOW,
    }),
    Pairs("open_transaction", plain, {"unacked.unacked_since": LONG_AGO, "found.consumer.uncommitted": 1}, {
        "unacked.unacked_since": NEVER,
        "found.consumer.uncommitted": 0,
        "client_patience": LONG,
    }),
    Pairs("openmq/open_transaction", openmq, {"unacked.unacked_since": LONG_AGO, "found.consumer.uncommitted": 1}, {
        "unacked.unacked_since": NEVER,
        "found.consumer.uncommitted": 0,
        "client_patience": LONG,
        "openmq.consumers.returning_since": LONG_AGO,
    }, only_since=["unacked.hold_since"]),
    Pairs("openmq/open_transaction", openmq, {"openmq.consumers.failed_since": LONG_AGO}, {
        "openmq.consumers.failed_since": NEVER,
        "client_patience": UNKNOWN,
    }),
    Pairs("classic/open_transaction", plain, {
        "snapshot.consumers.transaction_begun": LONG_AGO,
        "unacked.unacked_since": LONG_AGO,
    }, {
        "snapshot.consumers.transaction_begun": NEVER,
        "unacked.unacked_since": NOW,
        "client_patience": LONG,
        "found.consumer.held": 0,
    }),
    Pairs("orphaned", plain, {"found.consumer.orphaned": True}, {
        "found.consumer.orphaned": False,
        "client_patience": UNKNOWN,
    }, only_since=["unacked.unacked_since"]),
    Pairs("orphaned", plain, {"found.consumer.orphaned": True, "found.consumer.delivered": 0}, {
        "found.consumer.held": 0,
    }),
    Pairs("orphaned", plain, {"found.consumer.orphaned": True, "found.consumer.held": 0}, {
        "found.consumer.delivered": 0,
    }),
    Pairs("leaking", plain, LEAKS, {
        "buffers.rows": SETTLES_NONE,
        "client_patience": UNKNOWN,
        "found.keeps": True,
    }, only_since=["buffers.began"]),
    Pairs("leaking", two_queues, LEAKS | {"found.keeps": [False, True]}, {"found.consumer.queue": [1, 0]}),
    Pairs("leaking", openmq_two_queues, LEAKS, {"openmq.said.removes": True}),
    Pairs("leaking", two_consumers, LEAKS | {"client_patience": [300, UNKNOWN]}, {"buffers.at": positions(1)}),
    Pairs("hoarding", two_consumers, HOARDS, {
        "found.judged": False,
        "found.exclusive": 1,
        "found.ready": 1,
        "found.held": 9,
        "found.consumer.held": [9, 0],
        "found.consumer.queue": -1,
        "found.consumer.selective": True,
        "found.delivering": 20,
        "service_rate": 0,
        "unacked.idle_since": NEVER,
        stalled.rule: True,
    }, only_since=["works_since"]),
    Pairs("hoarding", two_consumers, HOARDS | {"found.delivering": 20, "found.uncommitted": 10}, {
        "found.uncommitted": 0,
    }),
]  # fmt: skip
