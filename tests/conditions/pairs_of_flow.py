"""Pairs of the rules that compare what comes and goes: with what is usual, and over the last polls."""

from conditions import test_falling_behind_edges, test_redelivery_loop_edges
from conditions.inputs import positions
from conditions.pairs import (
    LONG,
    LONG_AGO,
    NEVER,
    NOW,
    Pairs,
    lines,
    openmq,
    openmq_two_queues,
    plain,
    recent,
    two_queues,
)
from penstock.conditions import falling_behind, redelivery_loop, stalled
from penstock.observation.activity import EXPIRED, KILLED, TREND_EXPIRED, TREND_KILLED
from penstock.observation.buffers import RISES
from penstock.observation.buffers import START as FIELDS
from penstock.observation.usual import EXPIRED as USUAL_EXPIRED
from penstock.observation.usual import HIGHS, PEAK, SERVICE
from penstock.observation.usual import KILLED as USUAL_KILLED

WINDOW = 5
TREND = 6
"""Variables of the two windows."""
AGAIN_AND_AGAIN = [1.0] * 6
ONCE = [0.0] * 5 + [9.0]


def goes_on(condition: str, variable: int) -> Pairs:
    return Pairs(condition, plain, {"activity.window": recent(WINDOW, {variable: AGAIN_AND_AGAIN})}, {
        "activity.window": recent(WINDOW, {variable: ONCE}),
        "found.judged": False,
    })  # fmt: skip


def unusually(condition: str, kind: int, variable: int) -> list[Pairs]:
    """Half of what leaves the queue, and none in 28 days."""
    highs = lines(HIGHS, {kind: 1})
    line = kind - USUAL_EXPIRED
    half = {
        "usual.shares": lines(2, {line: 0.5}),
        "usual.began": LONG_AGO,
        "usual.expected.highs": highs,
        "activity.trend": recent(TREND, {variable: [6, 6]}),
    }
    return [
        Pairs(condition, plain, half, {
            "usual.shares": lines(2, {line: 0.01}),
            "usual.began": NOW,
            "usual.expected.highs": lines(HIGHS, {kind: 901}),
            "activity.trend": recent(TREND, {variable: [0, 12]}),
            "found.judged": False,
            "found.parked": True,
        }),
        Pairs(condition, plain, half | {"usual.began": NOW, "usual.expected.weeks": 1}, {"usual.expected.weeks": 0}),
    ]  # fmt: skip


SLOW = {
    "usual.service": 10,
    "usual.usual_service": 1,
    "usual.windows": 20,
    "usual.expected.highs": lines(HIGHS, {}),
    "unacked.unacked_since": NOW,
}
SLOW_AGAINST_BOUND = SLOW | {
    "usual.windows": 0,
    "usual.pace": 3600,
    "trend.comes": 2,
    "trend.rate_out": 1,
}
HELD_UP = SLOW | {
    "unacked.unacked_since": LONG_AGO,
    "found.consumers": 2,
    "found.messages": 10,
    "found.consumer.held": 10,
    stalled.rule: False,
}
"""One of two consumers settles nothing, and holds all messages: the other one is not slow."""
NOBODY_LEAKS = lines(len(FIELDS), {RISES: 0})
LEAKS = lines(len(FIELDS), {RISES: 1})
SLOW_BESIDE_LEAK = SLOW | {
    "usual.service": [10, NEVER],
    "buffers.at": positions(1),
    "buffers.rows": LEAKS,
    "found.consumer.queue": [0, 1],
}
"""The consumer of the other queue leaks."""

SURGES = {
    "trend.rate_in": 10,
    "usual.expected.highs": lines(HIGHS, {PEAK: 300}),
    "usual.began": LONG_AGO,
}
GIVES_BACK = {
    "openmq.said.balanced": [True, False],
    "found.consumer.queue": 1,
    "openmq.consumers.returning_since": LONG_AGO,
}

CASES = [
    goes_on("dead_lettering", KILLED),
    goes_on("expiring", EXPIRED),
    *unusually("dead_lettering_unusually", USUAL_KILLED, TREND_KILLED),
    *unusually("expiring_unusually", USUAL_EXPIRED, TREND_EXPIRED),
    Pairs("surge", plain, SURGES, {
        "trend.rate_in": 1,
        "usual.expected.highs": lines(HIGHS, {PEAK: 3000}),
        "usual.began": NOW,
        "found.judged": False,
        "found.parked": True,
    }, only_since=["activity.trend"]),
    Pairs("surge", plain, SURGES | {"usual.began": NOW, "usual.expected.weeks": 1}, {"usual.expected.weeks": 0}),
    Pairs("slowed", plain, SLOW, {
        "usual.service": 2,
        "usual.usual_service": 5,
        "usual.windows": 19,
        "usual.expected.highs": lines(HIGHS, {SERVICE: 10_000}),
        "found.judged": False,
        "found.parked": True,
        redelivery_loop.rule: True,
        stalled.rule: True,
    }, only_since=["service_window"]),
    Pairs("slowed", openmq, SLOW, {stalled.openmq_rule: True}),
    Pairs("slowed", plain, SLOW_AGAINST_BOUND, {
        "usual.pace": 360,
        "trend.comes": 0,
        "trend.rate_out": 3,
    }),
    Pairs("slowed", plain, HELD_UP | {"unacked.unacked_since": NOW}, {"unacked.unacked_since": LONG_AGO}),
    Pairs("slowed", plain, HELD_UP | {"found.consumers": 1}, {"found.consumers": 2}),
    Pairs("slowed", plain, HELD_UP | {"found.messages": 100}, {"found.messages": 10}),
    Pairs("slowed", plain, HELD_UP | {"found.consumer.held": 0}, {"found.consumer.held": 10}),
    Pairs("slowed", plain, HELD_UP | {"found.consumer.queue": -1}, {"found.consumer.queue": 0}),
    Pairs("slowed", plain, SLOW | {"buffers.at": positions(0), "buffers.rows": NOBODY_LEAKS}, {"buffers.rows": LEAKS}),
    Pairs("slowed", two_queues, SLOW_BESIDE_LEAK, {"buffers.at": positions(0)}),
    Pairs("falling_behind", test_falling_behind_edges.polled, {}, {
        "found.judged": False,
        "trend.behind": False,
        "found.ring": 10,
    }, only_since=["activity.trend", "trend.growth"]),
    Pairs("openmq/falling_behind", openmq, {"trend.behind": True, "trend.growth": 10, "found.consumer.held": 10}, {
        stalled.openmq_rule: True,
    }, parts=[falling_behind.rule]),
    Pairs("openmq/falling_behind", openmq, {
        stalled.openmq_rule: True,
        "trend.behind": True,
        "trend.growth": 20,
        "found.consumer.held": 10,
    }, {
        "trend.growth": 10,
        "found.consumer.held": 20,
    }),
    Pairs("openmq/falling_behind", openmq, {
        stalled.openmq_rule: True,
        "trend.behind": True,
        "trend.growth": 10,
        "found.consumer.queue": -1,
    }, {
        "found.consumer.queue": 0,
    }),
    Pairs("redelivery_loop", test_redelivery_loop_edges.polled, {}, {
        "found.settling": True,
    }, only_since=["activity.window"], parts=[redelivery_loop.loops]),
    Pairs(redelivery_loop.loops, test_redelivery_loop_edges.polled, {}, {
        "found.judged": False,
        "returns.persistent": False,
        "returns.delivered": 0,
    }),
    Pairs(redelivery_loop.loops, test_redelivery_loop_edges.polled, {
        "found.attempts": 0,
        "found.consumer.delivered": 0,
    }, {
        "found.settled": 0,
    }),
    Pairs(redelivery_loop.loops, test_redelivery_loop_edges.polled, {
        "found.settled": 0,
        "found.attempts": 1,
        "found.consumer.delivered": 0,
    }, {
        "found.attempts": 0,
    }),
    Pairs(redelivery_loop.loops, test_redelivery_loop_edges.polled, {
        "found.settled": 0,
        "found.attempts": 0,
        "found.consumer.delivered": 101,
    }, {
        "found.consumer.delivered": 0,
        "found.added": 200,
        "found.consumer.queue": 0,
    }),
    Pairs("openmq/redelivery_loop", openmq_two_queues, GIVES_BACK, {
        "openmq.said.balanced": True,
        "openmq.consumers.returning_since": NEVER,
        "client_patience": LONG,
        "found.judged": False,
        "found.consumer.queue": 0,
    }, only_since=["activity.window"], parts=[redelivery_loop.loops]),
]  # fmt: skip
