"""Pairs of the rules of queues whose messages wait, or to which nothing comes."""

from conditions.pairs import (
    LONG,
    LONG_AGO,
    NEVER,
    NOW,
    UNKNOWN,
    Pairs,
    lines,
    one_connection,
    plain,
    two_consumers,
)
from penstock.conditions.openmq import filling
from penstock.conditions.starving import starving
from penstock.core.table import Mask
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import CLOCK, HIGHS

UNREAD = {
    "timers.ready": LONG_AGO,
    "timers.absent": LONG_AGO,
    "found.consumers": 0,
    "timers.had_consumer": True,
}
STARVES = {
    "timers.ready": LONG_AGO,
    "timers.still": LONG_AGO,
    "unacked.hold_since": [LONG_AGO, NEVER],
    "unacked.seen_since": LONG_AGO,
}
"""The second consumer is free, and gets nothing."""
LETS_GO = STARVES | {"found.settled": 0, "found.attempts": 0, "found.consumer.left": 5}
"""A consumer lets go of messages, and nothing shows that this counts: the queue may keep what is acknowledged."""
FROZEN = {
    "timers.still": LONG_AGO,
    "found.address.paging": 1,
    "found.address.page_read_limit_bytes": 100,
    "found.delivering_bytes": 90,
    "found.address.page_read_limit_messages": 0,
    "found.delivering": 10,
    "found.ready": 5,
}
FROZEN_BY_NUMBER = FROZEN | {
    "found.address.page_read_limit_bytes": 0,
    "found.address.page_read_limit_messages": 10,
}
FULL = {
    "timers.blocked": LONG_AGO,
    "found.address.d_added": 0,
    "found.address.limit_percent": 100,
    "found.address.paging": 0,
    "found.address.blocked_producers": UNKNOWN,
}
FULL_OPENMQ = {
    "timers.blocked": LONG_AGO,
    "openmq.said.flow_control": True,
    "openmq.said.producers": 1,
    "openmq.said.balanced": True,
    "openmq.said.limit_messages": 20,
    "openmq.said.limit_bytes": UNKNOWN,
    "found.messages": 20,
    "found.address.producers_paused": 0,
    "openmq.said.max_producers": UNKNOWN,
}
NEARLY_FULL = FULL_OPENMQ | {
    "found.messages": 19,
    "openmq.said.limit_messages": 24,
    "openmq.said.max_producers": 4,
}
"""Each of four producers may send six messages more."""
SILENT = {
    "usual.arrival": NOW - 1000,
    "usual.began": NEVER,
    "usual.clock": 10,
    "usual.longest": NEVER,
    "usual.expected.weeks": 2,
    "usual.expected.silence": 100,
    "usual.expected.pause": 100,
    "usual.expected.highs": lines(HIGHS, {CLOCK: 1}),
}
SILENT_IN_FIRST_WEEK = SILENT | {
    "usual.expected.weeks": 0,
    "usual.expected.silence": NEVER,
    "usual.began": LONG_AGO,
    "usual.longest": 10,
}
OFTEN = lines(HIGHS, {CLOCK: 11})
"""In a pause ten messages were missing before."""
FILLED = STARVES | {
    "timers.ready": NOW - 400,
    "timers.still": NOW - 400,
    "openmq.consumers.still_since": LONG_AGO,
    "found.ready": 5,
}
"""The first consumer may have filled the connection of both, though not yet for twice as long as is waited for."""
NOT_FILLED = {"openmq.said.flow_paused": True}


def fills(poll: RuleInputs) -> Mask:
    """Consumers that may use up the limit of their connection, by what they did for so many seconds."""
    return filling(poll, 15.0)


CASES = [
    Pairs("no_consumer", plain, UNREAD, {
        "timers.ready": NEVER,
        "timers.absent": NEVER,
        "absence": LONG,
        "found.judged": False,
        "found.parked": True,
        "found.consumers": 1,
        "found.settling": True,
        "closed": True,
        "expected": 0,
        "timers.had_consumer": False,
    }),
    Pairs("no_consumer", plain, UNREAD | {"timers.had_consumer": False, "trend.rate_in": 1, "trend.comes": 1}, {
        "trend.comes": 0,
    }),
    Pairs("too_few_consumers", plain, {"expected": 2, "found.ready": 5}, {
        "expected": 1,
        "found.judged": False,
        "found.consumers": 0,
        "found.ready": 0,
        "closed": True,
    }),
    Pairs("too_few_consumers", plain, {"expected": 2, "found.ready": 0, "found.d_added": 1}, {"found.d_added": 0}),
    Pairs("paused", plain, {"found.paused": 1}, {"found.paused": 0, "found.judged": False}),
    Pairs("paused", plain, {"found.address.paused": 1}, {"found.address.paused": 0}),
    Pairs("disabled", plain, {"snapshot.queues.enabled": 0}, {
        "snapshot.queues.enabled": 1,
        "found.judged": False,
    }),
    Pairs("blocked_by_operator", plain, {"found.address.producers_paused": 1}, {
        "found.address.producers_paused": 0,
        "found.judged": False,
    }),
    Pairs("depaging_frozen", plain, FROZEN, {
        "timers.still": NEVER,
        "found.judged": False,
        "found.address.paging": 0,
        "found.address.page_read_limit_bytes": 101,
        "found.delivering_bytes": 89,
        "found.ready": 0,
    }),
    Pairs("depaging_frozen", plain, FROZEN_BY_NUMBER, {
        "found.address.page_read_limit_messages": 11,
        "found.delivering": 9,
    }),
    Pairs("not_dispatching", two_consumers, STARVES, {
        "timers.ready": NEVER,
        "timers.still": NEVER,
        "queue_patience": LONG,
        "dispatch": LONG,
        "found.judged": False,
        "found.consumers": 0,
        "found.consumer.queue": -1,
        "found.consumer.selective": True,
        "unacked.hold_since": LONG_AGO,
        "unacked.seen_since": NOW,
    }),
    Pairs("not_dispatching", two_consumers, STARVES | {"found.exclusive": 0}, {"found.exclusive": 1}),
    Pairs("not_dispatching", two_consumers, STARVES | {"found.exclusive": 1, "found.held": 0}, {
        "found.held": 10,
        "found.uncommitted": 1,
    }),
    Pairs("not_dispatching", two_consumers, STARVES | {"found.consumer.selective": True, "found.d_added": 1}, {
        "found.d_added": 0,
    }),
    Pairs("not_dispatching", two_consumers, STARVES | {"found.consumer.selective": True, "trend.rate_in": 1}, {
        "trend.rate_in": 0,
    }),
    Pairs("not_dispatching", two_consumers, LETS_GO | {"found.consumer.left": 0}, {"found.consumer.left": 5}),
    Pairs("not_dispatching", two_consumers, LETS_GO | {"found.consumer.uncommitted": 5}, {
        "found.consumer.uncommitted": 0,
    }),
    Pairs("not_dispatching", two_consumers, LETS_GO | {"found.settled": 1}, {"found.settled": 0}),
    Pairs("not_dispatching", two_consumers, LETS_GO | {"found.attempts": 1}, {"found.attempts": 0}),
    Pairs("not_dispatching", two_consumers, LETS_GO | {"found.consumer.delivered": 30, "found.added": 20}, {
        "found.consumer.delivered": 20,
        "found.added": 30,
    }),
    Pairs("openmq/not_dispatching", one_connection, FILLED | NOT_FILLED, {
        "timers.ready": NEVER,
        "timers.still": NEVER,
        "openmq.said.flow_paused": False,
    }, parts=[starving, fills]),
    Pairs("openmq/not_dispatching", one_connection, FILLED | {"queue_patience": 100, "dispatch": 100}, {
        "queue_patience": 300,
        "dispatch": 300,
    }),
    Pairs("openmq/not_dispatching", one_connection, FILLED | {"openmq.said.connection": [1, 2]}, {
        "openmq.said.connection": [1, 1],
    }),
    Pairs(fills, one_connection, {"openmq.consumers.still_since": LONG_AGO, "found.ready": 5}, {
        "openmq.consumers.still_since": NEVER,
        "openmq.said.flow_paused": True,
        "openmq.said.connection": -1,
        "found.ready": 0,
        "found.consumer.held": 0,
        "found.consumer.queue": -1,
    }),
    Pairs(fills, one_connection, {
        "openmq.consumers.still_since": LONG_AGO,
        "found.ready": 0,
        "openmq.said.unsent": 1,
    }, {
        "openmq.said.unsent": 0,
    }),
    Pairs(fills, lambda: one_connection(limit=11), {
        "openmq.consumers.still_since": LONG_AGO,
        "groups.clients.member": -1,
    }, {
        "groups.clients.member": 0,
    }),
    Pairs("connection_paused", one_connection, STARVES | {"openmq.consumers.still_since": LONG_AGO}, {
        "timers.ready": NEVER,
        "timers.still": NEVER,
        "client_patience": LONG,
        "queue_patience": LONG,
        "dispatch": LONG,
        "unacked.hold_since": LONG_AGO,
        "openmq.said.connection": [1, 2],
        "openmq.consumers.still_since": NOW,
        "found.consumer.held": 0,
        "found.consumer.queue": -1,
    }, parts=[starving, fills]),
    Pairs("connection_paused", lambda: one_connection(limit=10), STARVES | {
        "openmq.consumers.still_since": LONG_AGO,
        "timers.ready": NOW - 20,
    }, {
        "groups.clients.member": -1,
    }),
    Pairs("producers_blocked", plain, FULL, {
        "timers.blocked": NEVER,
        "found.judged": False,
        "found.address.d_added": 1,
        "found.address.limit_percent": 99,
        "found.address.paging": 1,
        "found.address.blocked_producers": 0,
    }),
    Pairs("openmq/producers_blocked", one_connection, FULL_OPENMQ, {
        "timers.blocked": NEVER,
        "found.judged": False,
        "openmq.said.flow_control": False,
        "openmq.said.producers": 0,
        "openmq.said.balanced": False,
        "openmq.said.limit_messages": 200,
        "found.messages": 10,
    }),
    Pairs("openmq/producers_blocked", one_connection, FULL_OPENMQ | {
        "openmq.said.limit_messages": UNKNOWN,
        "openmq.said.limit_bytes": 100,
        "openmq.said.bytes": 100,
    }, {
        "openmq.said.limit_bytes": 101,
        "openmq.said.bytes": 99,
    }),
    Pairs("openmq/producers_blocked", one_connection, NEARLY_FULL, {
        "openmq.said.max_producers": 10,
        "queue_patience": LONG,
    }),
    Pairs("openmq/producers_blocked", one_connection, FULL_OPENMQ | {
        "openmq.said.balanced": False,
        "found.address.producers_paused": 1,
    }, {
        "found.address.producers_paused": 0,
    }),
    Pairs("producer_silent", plain, SILENT, {
        "usual.arrival": NOW,
        "usual.clock": 2,
        "usual.expected.highs": OFTEN,
        "usual.expected.silence": 3000,
        "usual.expected.weeks": 1,
        "found.judged": False,
        "found.parked": True,
        "found.settling": True,
    }),
    Pairs("producer_silent", plain, SILENT | {
        "usual.arrival": NOW - 200,
        "usual.expected.silence": 30,
        "usual.expected.pause": 30,
    }, {
        "usual.expected.pause": 100,
    }),
    Pairs("producer_silent", plain, SILENT | {"usual.clock": 0, "usual.expected.regular": True}, {
        "usual.expected.regular": False,
        "usual.holiday_end": NOW,
    }),
    Pairs("producer_silent", plain, SILENT_IN_FIRST_WEEK, {
        "usual.began": NOW - 2000,
        "usual.longest": 1000,
    }),
]  # fmt: skip
