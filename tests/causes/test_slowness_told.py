"""Who is slow: by the numbers of one poll, and by their bounds."""

from functools import cache
from math import nan

import pytest

from causes.table import (
    Facts,
    Values,
    judged,
    poll_with,
    told,
    verdicts_of,
    with_states,
)
from conditions.pairs import polled
from conditions.world import Judged
from penstock.observation.poll import RuleInputs

QUEUES = {name: {"A": 9.0, "M": 9.0} for name in ("q", "r", "s")}
CONSUMERS = {
    name: {"T": 0.0, "N": 0.0, "queue": queue}
    for name, queue in {"c": "q", "d": "q", "e": "r", "f": "s"}.items()
}
PACE = "usual.service"
USUAL = "usual.usual_service"
CLIENT = "consumer.client"
HOST = "consumer.remote_host"


@cache
def slow() -> RuleInputs:
    """One queue is slow, and both others are; its client consumes the second one, its host the third one, too."""
    return poll_with(polled(Judged(), QUEUES, CONSUMERS), {
        PACE: 2, USUAL: 1, CLIENT: ["a", "a", "a", "b"], HOST: ["h", "h", "x", "h"],
    })  # fmt: skip


WHO_IS_SLOW = {
    "client_slow": "possible",
    "host_slow": "possible",
    "broker_slow": "possible*",
}
"""All are."""


@pytest.mark.parametrize(("values", "differs"), [
    # the other queues
    ({PACE: [2, 1.9, 2]}, "client_slow excluded, broker_slow possible"),
    ({PACE: [2, 2, 1.9]}, "host_slow excluded, broker_slow possible"),
    ({PACE: [2, 1.9, 1.9]}, "client_slow excluded, host_slow excluded, broker_slow possible"),
    ({PACE: [2, nan, 2]}, "broker_slow possible"),
    ({PACE: [2, 2, nan]}, "broker_slow possible"),
    ({PACE: [2, nan, nan]}, "broker_slow possible"),
    ({USUAL: [1, nan, 1]}, "broker_slow possible"),
    ({USUAL: [1, 1, nan]}, "broker_slow possible"),
    ({USUAL: [1, 1, 1.1]}, "host_slow excluded, broker_slow possible"),
    ({PACE: [2, nan, 1.9]}, "host_slow excluded, broker_slow possible"),
    # who consumes them
    ({CLIENT: ["a", "b", "c", "d"]}, ""),
    ({CLIENT: "a"}, ""),
    ({HOST: "h"}, ""),
    ({HOST: ["h", "i", "x", "y"]}, ""),
    ({HOST: ["z", "y", "y", "z"]}, ""),
    ({CLIENT: "a", PACE: [2, 2, 1.9]}, "host_slow excluded, broker_slow possible"),
    ({HOST: "h", PACE: [2, 2, 1.9]}, "broker_slow possible"),
    ({CLIENT: "a", HOST: "h", PACE: [2, nan, 2]}, "broker_slow possible"),
    ({CLIENT: "a", HOST: "h", PACE: [2, 1.9, 1.9]}, "client_slow excluded, host_slow excluded, broker_slow possible"),
    ({"found.consumer.queue": [0, 0, -1, -1]}, ""),
    ({"found.consumer.queue": [0, 0, -1, 1]}, ""),
    ({"found.consumer.queue": -1}, ""),
    ({"found.consumer.queue": 0}, ""),
])  # fmt: skip
def test_who_is_slow(values: Values, differs: str) -> None:
    poll = poll_with(slow(), values)
    assert judged("slowed", poll) == with_states(WHO_IS_SLOW, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "client_slow": "its clients are slow on 1 more queues",
        "host_slow": "1 more queues with consumers on h are slow",
        "broker_slow": "2 of 2 other queues with a backlog are slow, too",
    }),
    ({PACE: [2, 1.9, 2]}, {
        "client_slow": "they are slow on no other queue",
        "broker_slow": "1 of 2 other queues with a backlog are slow, too",
    }),
    ({PACE: [2, 2, 1.9]}, {
        "host_slow": "nothing else on their hosts is slow",
        "broker_slow": "1 of 2 other queues with a backlog are slow, too",
    }),
    ({PACE: [2, 1.9, 1.9]}, {
        "client_slow": "they are slow on no other queue",
        "host_slow": "nothing else on their hosts is slow",
        "broker_slow": "against it: 0 of 2 other queues with a backlog are slow, too",
    }),
    ({PACE: [2, nan, 2]}, {"client_slow": "the pace of its clients on another queue is not known"}),
    ({PACE: [2, 2, nan]}, {"host_slow": "the pace of another queue on their hosts is not known"}),
    ({PACE: [2, nan, nan]}, {
        "client_slow": "the pace of its clients on another queue is not known",
        "host_slow": "the pace of another queue on their hosts is not known",
        "broker_slow": "the pace of no other queue is known; look at the disk of the broker",
    }),
    ({PACE: [2, nan, 1.9]}, {"broker_slow": "against it: 0 of 1 other queues with a backlog are slow, too"}),
    ({CLIENT: ["a", "b", "c", "d"]}, {"client_slow": "the pace of its clients on another queue is not known"}),
    ({CLIENT: "a"}, {"client_slow": "its clients are slow on 2 more queues"}),
    ({HOST: "h"}, {"host_slow": "2 more queues with consumers on h are slow"}),
    ({HOST: ["h", "i", "x", "y"]}, {"host_slow": "the pace of another queue on their hosts is not known"}),
    ({HOST: ["z", "y", "y", "z"]}, {"host_slow": "2 more queues with consumers on y, z are slow"}),
    ({"found.consumer.queue": [0, 0, -1, -1]}, {
        "client_slow": "the pace of its clients on another queue is not known",
        "host_slow": "the pace of another queue on their hosts is not known",
    }),
    ({"found.consumer.queue": [0, 0, -1, 1]}, {
        "client_slow": "the pace of its clients on another queue is not known",
    }),
    ({"found.consumer.queue": -1}, {
        "client_slow": "the pace of its clients on another queue is not known",
        "host_slow": "the pace of another queue on their hosts is not known",
    }),
    ({"found.consumer.queue": 0}, {
        "client_slow": "the pace of its clients on another queue is not known",
        "host_slow": "the pace of another queue on their hosts is not known",
    }),
])  # fmt: skip
def test_who_is_slow_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(slow(), values)
    found = told("slowed", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {PACE: [nan, 2, 2]},
    {CLIENT: ["a", "b", "c", "b"]},
])  # fmt: skip
def test_who_is_slow_is_the_same(values: Values) -> None:
    poll = poll_with(slow(), values)
    assert verdicts_of("slowed", poll) == verdicts_of("slowed", slow())


def test_at_most_three_hosts_are_named() -> None:
    consumers: dict[str, dict[str, float | str]] = {
        name: {"T": 0.0, "N": 0.0} for name in ("c", "d", "e", "f")
    }
    consumers["g"] = {"T": 0.0, "N": 0.0, "queue": "r"}
    poll = poll_with(
        polled(Judged(), QUEUES, consumers),
        {PACE: 2, USUAL: 1, HOST: ["d", "b", "a", "c", "a"]},
    )
    assert (
        told("slowed", poll)["host_slow"]
        == "1 more queues with consumers on a, b, c are slow"
    )
