"""Why messages wait, and whether more consumers would get any: by the numbers of one poll, and by their bounds."""

from functools import cache
from math import nan
from typing import Any

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
from conditions.openmq_world import OpenmqJudged
from conditions.pairs import NOW, polled
from conditions.world import Judged
from penstock.causes.backlog import gone
from penstock.model import Collector, LeftOut, QueueKind
from penstock.observation.poll import RuleInputs

LEFT_OUT = (LeftOut("queues", 1, 2),)
QUEUES = {"q": {"A": 90.0, "M": 80.0, "D": 15.0}, "r": {"A": 9.0, "M": 9.0}}
CONSUMERS = {"c": {"T": 10.0, "N": 10.0}, "d": {"T": 5.0, "N": 5.0}}
EXCLUSIVE = "snapshot.queues.exclusive"
MOST = "snapshot.queues.max_consumers"
COUNT = "snapshot.queues.consumers"
GROUPS = "snapshot.queues.groups"
SHARED_ANEW = "snapshot.queues.grouped"
STOPPED = "unacked.unacked_since"
NO_LIMITS = {EXCLUSIVE: 0, MOST: -1, GROUPS: 0, SHARED_ANEW: 0}
WORK = {
    STOPPED: NOW - 10, "trend.comes": 6, "trend.rate_out": 4, "acknowledged": (50, 40), "returns.settled": 4,
    "usual.service": nan, "usual.usual_service": 1, "usual.windows": 20,
}  # fmt: skip
"""Consumers that work; whether they are slower than usual is not known."""


def slower(times: float, windows: float = 20.0, **more: Any) -> Values:
    """A message takes so many times as long as usual, which rests on so many windows with a backlog."""
    return {
        "usual.service": times,
        "usual.usual_service": 1,
        "usual.pace": 3600,
        "usual.windows": windows,
        **more,
    }


@cache
def grows() -> RuleInputs:
    """Two consumers of a queue without any limit work."""
    return poll_with(polled(Judged(), QUEUES, CONSUMERS), {**NO_LIMITS, **WORK})


@cache
def grows_on_openmq() -> RuleInputs:
    """Both consumers are active and work."""
    return poll_with(
        polled(OpenmqJudged(), QUEUES, CONSUMERS),
        {**WORK, "snapshot.queues.active_consumers": 2},
    )


@cache
def unread() -> RuleInputs:
    """No consumer was ever seen, and none is expected."""
    return poll_with(polled(Judged(), QUEUES, {}), {
        "broker.authentication_failures": 0.0, "timers.had_consumer": False, "expected": nan,
    })  # fmt: skip


@cache
def paused() -> RuleInputs:
    """The address is paused, which has two queues; the queue itself is not."""
    queues = QUEUES | {"s": {"A": 9.0, "M": 9.0, "address": "q"}}
    return poll_with(
        polled(Judged(), queues, {}),
        {"snapshot.addresses.paused": [1, 0], "snapshot.queues.paused": 0},
    )


WHY_A_BACKLOG_GROWS = {
    "exclusive": "excluded",
    "max_consumers": "excluded",
    "groups": "excluded",
    "selector": "excluded",
    "holders": "excluded",
    "became_slower": "possible",
    "too_few_consumers": "possible",
}
"""There are too few consumers, or a selector, or they became slower."""


@pytest.mark.parametrize(("values", "differs"), [
    # settings of the queue
    ({EXCLUSIVE: 1}, "exclusive proven, too_few_consumers excluded"),
    ({EXCLUSIVE: nan}, "exclusive possible"),
    ({MOST: 2}, "max_consumers proven, too_few_consumers excluded"),
    ({MOST: 1}, "max_consumers proven, too_few_consumers excluded"),
    ({MOST: nan}, "max_consumers possible"),
    ({COUNT: nan}, "holders possible"),
    ({MOST: 2, COUNT: nan}, "max_consumers possible, holders possible"),
    ({MOST: nan, EXCLUSIVE: nan, GROUPS: nan}, "exclusive possible, max_consumers possible, groups possible"),
    ({MOST: 5, COUNT: 5}, "max_consumers proven, holders possible, too_few_consumers excluded"),
    ({GROUPS: 7}, "groups proven, too_few_consumers excluded"),
    ({GROUPS: 1}, "groups proven, too_few_consumers excluded"),
    ({GROUPS: 7, SHARED_ANEW: nan}, "groups possible"),
    ({GROUPS: nan}, "groups possible"),
    ({EXCLUSIVE: 1, GROUPS: nan}, "exclusive proven, groups possible, too_few_consumers excluded"),
    # selectors
    ({"consumer.filter": ["a", "b"]}, "selector possible"),
    ({"consumer.filter": "a"}, "selector possible"),
    ({"consumer.filter": "a", "found.consumer.held": 0}, "selector possible*"),
    ({"consumer.filter": "a", "found.consumer.held": [0, 1]}, "selector possible"),
    ({"consumer.filter": "a", "found.consumer.held": 0, "found.counted": False},
     "selector possible, holders possible"),
    ({"consumer.filter": "a", COUNT: 3}, "selector possible, holders possible"),
    ({"found.consumer.queue": -1}, "selector possible, holders possible"),
    ({"found.consumer.queue": -1, COUNT: 0}, ""),
    ({"found.consumer.queue": [0, -1], "consumer.filter": ["a", ""], COUNT: 1}, "selector possible"),
    # consumers that settle nothing
    ({STOPPED: [NOW - 60, nan]}, "holders proven"),
    ({STOPPED: NOW - 70}, "holders proven"),
    ({STOPPED: NOW - 70, "found.consumers": 3}, "holders proven"),
    ({STOPPED: NOW - 70, "found.counted": False}, "holders possible"),
    ({"found.counted": False}, "holders possible"),
    ({COUNT: 3}, "holders possible"),
    ({"left_out": LEFT_OUT}, "holders possible"),
    ({STOPPED: [NOW - 70, NOW - 70], "found.consumer.queue": [0, 1]}, "holders proven"),
    ({STOPPED: NOW - 70, "returns.returned": 9, "returns.persistent": True}, "holders proven"),
    # slower than usual
    (slower(2), "became_slower proven"),
    (slower(1.75), "became_slower excluded"),
    (slower(2, 19), "became_slower proven"),
    (slower(1.75, 19, **{"usual.began": NOW - 86400}), "became_slower excluded"),
    (slower(1.75, 19, **{"usual.expected.weeks": [1, 0]}), "became_slower excluded"),
    ({"acknowledged": (50, 25)}, ""),
    ({"acknowledged": (50, 24)}, ""),
    ({"acknowledged": (50, 24), **slower(1.75)}, "became_slower excluded"),
    ({"acknowledged": (0, 0)}, ""),
    # what comes back
    ({"returns.returned": 9, "returns.persistent": True}, ""),
    ({"returns.returned": 5, "returns.persistent": True}, ""),
    ({"returns.returned": 9, "returns.persistent": True, "acknowledged": (50, 24)}, ""),
    # so many keep up
    ({"trend.comes": 8}, ""),
    ({"trend.comes": 8.1}, ""),
    ({"trend.rate_out": 3}, ""),
    ({"found.consumers": 3}, ""),
    ({"queue.kind": [QueueKind.SUBSCRIPTION, QueueKind.USER]}, ""),
])  # fmt: skip
def test_why_a_backlog_grows(values: Values, differs: str) -> None:
    poll = poll_with(grows(), values)
    assert judged("falling_behind", poll) == with_states(WHY_A_BACKLOG_GROWS, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "exclusive": "it is not so",
        "max_consumers": "it is not so",
        "groups": "it is not so",
        "selector": "a consumer has none",
        "holders": "all acknowledge",
        "became_slower": "50 were acknowledged in the first half of the time, 40 in the second",
        "too_few_consumers": "3 at this pace keep up, without message groups, or with as many groups",
    }),
    ({EXCLUSIVE: 1}, {
        "exclusive": "further consumers stand by",
        "too_few_consumers": "more would get none",
    }),
    ({EXCLUSIVE: nan}, {
        "exclusive": "whether it is exclusive was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; whether it is "
            "exclusive was not read"
        ),
    }),
    ({MOST: 2}, {
        "max_consumers": "2 are there",
        "too_few_consumers": "more would get none",
    }),
    ({MOST: 1}, {"max_consumers": "2 are there"}),
    ({MOST: nan}, {
        "max_consumers": "max-consumers was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; max-consumers was "
            "not read"
        ),
    }),
    ({COUNT: nan}, {"holders": "the number of consumers was not read"}),
    ({MOST: 2, COUNT: nan}, {
        "max_consumers": "the number of consumers was not read",
        "holders": "the number of consumers was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; the number of "
            "consumers was not read"
        ),
    }),
    ({MOST: nan, EXCLUSIVE: nan, GROUPS: nan}, {
        "exclusive": "whether it is exclusive was not read",
        "max_consumers": "max-consumers was not read",
        "groups": "the number of message groups was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; whether it is "
            "exclusive was not read; max-consumers was not read; the number of message groups was not "
            "read"
        ),
    }),
    ({MOST: 5, COUNT: 5}, {"holders": "what consumers want that are not listed, as those of a bridge, was not read"}),
    ({GROUPS: 7}, {"groups": "it has 7 message groups, which stay with the consumers that they have"}),
    ({GROUPS: 1}, {"groups": "it has 1 message groups, which stay with the consumers that they have"}),
    ({GROUPS: 7, SHARED_ANEW: nan}, {
        "groups": "group-rebalance was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; group-rebalance "
            "was not read"
        ),
    }),
    ({GROUPS: nan}, {
        "groups": "the number of message groups was not read",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; the number of "
            "message groups was not read"
        ),
    }),
    ({EXCLUSIVE: 1, GROUPS: nan}, {"exclusive": "further consumers stand by"}),
    ({"consumer.filter": ["a", "b"]}, {"selector": "their selectors: a, b"}),
    ({"consumer.filter": "a"}, {"selector": "their selectors: a"}),
    ({"consumer.filter": "a", "found.consumer.held": 0}, {"selector": "their selectors: a"}),
    ({"consumer.filter": "a", "found.consumer.held": 0, "found.counted": False}, {
        "holders": "what each consumer buffers was not read",
    }),
    ({"consumer.filter": "a", COUNT: 3}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
        "holders": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"found.consumer.queue": -1}, {"selector": ""}),
    ({"found.consumer.queue": -1, COUNT: 0}, {"selector": "it has no consumer"}),
    ({STOPPED: [NOW - 60, nan]}, {
        "holders": "1 of 2 consumers buffer 10 messages",
        "too_few_consumers": "first fix these: 1 of 2 consumers buffer 10 messages",
    }),
    ({STOPPED: NOW - 70}, {
        "holders": "2 of 2 consumers buffer 15 messages",
        "too_few_consumers": "first fix these: 2 of 2 consumers buffer 15 messages",
    }),
    ({STOPPED: NOW - 70, "found.counted": False}, {
        "holders": "2 of 2 consumers buffer 15 messages; what each consumer buffers was not read",
    }),
    ({"found.counted": False}, {"holders": "what each consumer buffers was not read"}),
    (slower(2), {
        "became_slower": "a message takes 2.0 times as long as usual",
        "too_few_consumers": "first fix these: a message takes 2.0 times as long as usual",
    }),
    (slower(1.75), {"became_slower": "a message takes 1.8 times as long as usual"}),
    (slower(2, 19), {"too_few_consumers": "first fix these: a message takes 2.0 times as long as usual"}),
    ({"acknowledged": (50, 25)}, {
        "became_slower": "50 were acknowledged in the first half of the time, 25 in the second",
    }),
    ({"acknowledged": (50, 24)}, {
        "became_slower": "50 were acknowledged in the first half of the time, 24 in the second",
        "too_few_consumers": (
            "first fix these: 50 were acknowledged in the first half of the time, 24 in the second"
        ),
    }),
    ({"acknowledged": (0, 0)}, {
        "became_slower": "0 were acknowledged in the first half of the time, 0 in the second",
    }),
    ({"returns.returned": 9, "returns.persistent": True}, {
        "too_few_consumers": "first fix these: 9 messages came back, 4 were settled",
    }),
    ({"returns.returned": 5, "returns.persistent": True}, {
        "too_few_consumers": "first fix these: 5 messages came back, 4 were settled",
    }),
    ({"returns.returned": 9, "returns.persistent": True, "acknowledged": (50, 24)}, {
        "became_slower": "50 were acknowledged in the first half of the time, 24 in the second",
        "too_few_consumers": "first fix these: 9 messages came back, 4 were settled",
    }),
    ({"trend.comes": 8}, {
        "too_few_consumers": "4 at this pace keep up, without message groups, or with as many groups",
    }),
    ({"trend.comes": 8.1}, {
        "too_few_consumers": "5 at this pace keep up, without message groups, or with as many groups",
    }),
    ({"trend.rate_out": 3}, {
        "too_few_consumers": "4 at this pace keep up, without message groups, or with as many groups",
    }),
    ({"found.consumers": 3}, {
        "too_few_consumers": "5 at this pace keep up, without message groups, or with as many groups",
    }),
    ({"queue.kind": [QueueKind.SUBSCRIPTION, QueueKind.USER]}, {
        "too_few_consumers": "3 at this pace keep up, that share this subscription",
    }),
])  # fmt: skip
def test_why_a_backlog_grows_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(grows(), values)
    found = told("falling_behind", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {EXCLUSIVE: [0, 1]},
    {MOST: 3},
    {MOST: 0},
    {GROUPS: 7, SHARED_ANEW: 1},
    {"consumer.filter": ["a", ""]},
    {"consumer.filter": "a", COUNT: 0},
    {"found.consumer.held": 0},
    {STOPPED: [NOW - 59, nan]},
    slower(1.75, 19),
    slower(1.75, 19, **{"usual.began": NOW - 86399}),
    slower(nan),
    slower(3, 0, **{"usual.pace": 1800}),
    {"returns.returned": 4, "returns.persistent": True},
    {"returns.returned": 9},
])  # fmt: skip
def test_why_a_backlog_grows_is_the_same(values: Values) -> None:
    poll = poll_with(grows(), values)
    assert verdicts_of("falling_behind", poll) == verdicts_of("falling_behind", grows())


WHY_A_BACKLOG_GROWS_ON_OPENMQ = {
    "max_consumers": "possible",
    "selector": "excluded",
    "holders": "excluded",
    "became_slower": "possible",
    "too_few_consumers": "possible",
}
"""There are too few consumers, or a selector, or they became slower."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"snapshot.queues.active_consumers": 1}, "max_consumers proven, too_few_consumers excluded"),
    ({"snapshot.queues.active_consumers": nan}, ""),
    ({COUNT: nan}, "holders possible"),
    ({STOPPED: NOW - 70}, "holders proven"),
    (slower(2), "became_slower proven"),
    ({"consumer.filter": "a"}, "selector possible"),
    ({"snapshot.queues.active_consumers": 1, COUNT: 5},
     "max_consumers proven, holders possible, too_few_consumers excluded"),
    ({"trend.comes": 8.1}, ""),
])  # fmt: skip
def test_why_a_backlog_grows_on_openmq(values: Values, differs: str) -> None:
    poll = poll_with(grows_on_openmq(), values)
    assert judged("falling_behind", poll, kind="openmq") == with_states(
        WHY_A_BACKLOG_GROWS_ON_OPENMQ, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "max_consumers": "maxNumActiveConsumers was not read: `imqcmd query dst -t q -n q`",
        "selector": "a consumer has none",
        "holders": "all acknowledge",
        "became_slower": "50 were acknowledged in the first half of the time, 40 in the second",
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; "
            "maxNumActiveConsumers was not read: `imqcmd query dst -t q -n q`"
        ),
    }),
    ({"snapshot.queues.active_consumers": 1}, {
        "max_consumers": "1 of 2 are active",
        "too_few_consumers": "more would get none",
    }),
    ({"snapshot.queues.active_consumers": nan}, {
        "max_consumers": (
            "maxNumActiveConsumers was not read: `imqcmd query dst -t q -n q`; the number of active "
            "consumers was not read"
        ),
        "too_few_consumers": (
            "3 at this pace keep up, without message groups, or with as many groups; "
            "maxNumActiveConsumers was not read: `imqcmd query dst -t q -n q`; the number of active "
            "consumers was not read"
        ),
    }),
    ({COUNT: nan}, {"holders": "the number of consumers was not read"}),
    ({STOPPED: NOW - 70}, {
        "holders": "2 of 2 consumers buffer 15 messages",
        "too_few_consumers": (
            "first fix these: 2 of 2 consumers buffer 15 messages; maxNumActiveConsumers was not read: "
            "`imqcmd query dst -t q -n q`"
        ),
    }),
    (slower(2), {
        "became_slower": "a message takes 2.0 times as long as usual",
        "too_few_consumers": (
            "first fix these: a message takes 2.0 times as long as usual; maxNumActiveConsumers was not "
            "read: `imqcmd query dst -t q -n q`"
        ),
    }),
    ({"consumer.filter": "a"}, {"selector": "their selectors: a"}),
    ({"snapshot.queues.active_consumers": 1, COUNT: 5}, {
        "max_consumers": "1 of 5 are active",
        "holders": "what consumers want that are not listed, as those of a bridge, was not read",
        "too_few_consumers": "more would get none",
    }),
    ({"trend.comes": 8.1}, {
        "too_few_consumers": (
            "5 at this pace keep up, without message groups, or with as many groups; "
            "maxNumActiveConsumers was not read: `imqcmd query dst -t q -n q`"
        ),
    }),
])  # fmt: skip
def test_why_a_backlog_grows_on_openmq_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(grows_on_openmq(), values)
    found = told("falling_behind", poll, kind="openmq")
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"snapshot.queues.active_consumers": 3},
    {EXCLUSIVE: 1, GROUPS: 7},
])  # fmt: skip
def test_why_a_backlog_grows_on_openmq_is_the_same(values: Values) -> None:
    poll = poll_with(grows_on_openmq(), values)
    assert verdicts_of("falling_behind", poll, kind="openmq") == verdicts_of(
        "falling_behind", grows_on_openmq(), kind="openmq"
    )


WHO_WOULD_READ_A_QUEUE = {
    "login_refused": "excluded",
    "other_queue": "possible",
    "meant_for_nobody": "possible",
}
"""Nobody is meant to."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"broker.authentication_failures": 1.0}, "login_refused possible*"),
    ({"broker.authentication_failures": 7.0}, "login_refused possible*"),
    ({"broker.authentication_failures": nan}, "login_refused possible"),
    ({"timers.had_consumer": [True, False]}, "meant_for_nobody excluded"),
    ({"expected": [1, 0]}, "meant_for_nobody excluded"),
    ({"expected": [2, 0], "timers.had_consumer": True}, "meant_for_nobody excluded"),
])  # fmt: skip
def test_who_would_read_a_queue(values: Values, differs: str) -> None:
    poll = poll_with(unread(), values)
    assert judged("no_consumer", poll) == with_states(WHO_WOULD_READ_A_QUEUE, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "login_refused": "no login was refused since the broker's start",
        "other_queue": "",
        "meant_for_nobody": "no consumer was ever seen, and none is expected",
    }),
    ({"broker.authentication_failures": 1.0}, {"login_refused": "1 logins were refused since the broker's start"}),
    ({"broker.authentication_failures": 7.0}, {"login_refused": "7 logins were refused since the broker's start"}),
    ({"broker.authentication_failures": nan}, {"login_refused": "the number of refused logins was not read"}),
    ({"timers.had_consumer": [True, False]}, {
        "other_queue": "against it: a consumer read this queue before",
        "meant_for_nobody": "consumers read it before",
    }),
    ({"expected": [1, 0]}, {"meant_for_nobody": "consumers are expected"}),
    ({"expected": [2, 0], "timers.had_consumer": True}, {
        "other_queue": "against it: a consumer read this queue before",
        "meant_for_nobody": "consumers read it before",
    }),
])  # fmt: skip
def test_who_would_read_a_queue_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(unread(), values)
    found = told("no_consumer", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"timers.had_consumer": [False, True]},
    {"expected": [0, 1]},
])  # fmt: skip
def test_who_would_read_a_queue_is_the_same(values: Values) -> None:
    poll = poll_with(unread(), values)
    assert verdicts_of("no_consumer", poll) == verdicts_of("no_consumer", unread())


WHAT_IS_PAUSED = {
    "paused": "proven",
}
"""Its address."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"snapshot.queues.paused": [1, 0, 0]}, ""),
    ({"snapshot.addresses.paused": 0}, "paused possible"),
    ({"snapshot.addresses.paused": 0, "snapshot.queues.paused": [1, 0, 0]}, ""),
    ({"snapshot.addresses.paused": 0, "snapshot.queues.paused": [0, 1, 1]}, "paused possible"),
    ({"snapshot.addresses.paused": nan}, "paused possible"),
    ({"snapshot.addresses.paused": nan, "snapshot.queues.paused": [1, 0, 0]}, ""),
    ({"snapshot.addresses.paused": nan, "snapshot.queues.paused": nan}, "paused possible"),
    ({"queue.address": ["q", "q", "q"]}, ""),
])  # fmt: skip
def test_what_is_paused(values: Values, differs: str) -> None:
    poll = poll_with(paused(), values)
    assert judged("paused", poll) == with_states(WHAT_IS_PAUSED, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {"paused": "its address, which stops 2 queues"}),
    ({"snapshot.queues.paused": [1, 0, 0]}, {"paused": "the queue itself and its address, which stops 2 queues"}),
    ({"snapshot.addresses.paused": 0}, {"paused": ""}),
    ({"snapshot.addresses.paused": 0, "snapshot.queues.paused": [1, 0, 0]}, {"paused": "the queue itself"}),
    ({"snapshot.addresses.paused": 0, "snapshot.queues.paused": [0, 1, 1]}, {"paused": ""}),
    ({"snapshot.addresses.paused": nan}, {"paused": "whether the address is paused was not read"}),
    ({"snapshot.addresses.paused": nan, "snapshot.queues.paused": [1, 0, 0]}, {"paused": "the queue itself"}),
    ({"snapshot.addresses.paused": nan, "snapshot.queues.paused": nan}, {
        "paused": "whether the queue is paused was not read; whether the address is paused was not read",
    }),
    ({"queue.address": ["q", "q", "q"]}, {"paused": "its address, which stops 3 queues"}),
])  # fmt: skip
def test_what_is_paused_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(paused(), values)
    found = told("paused", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"snapshot.queues.paused": nan},
])  # fmt: skip
def test_what_is_paused_is_the_same(values: Values) -> None:
    poll = poll_with(paused(), values)
    assert verdicts_of("paused", poll) == verdicts_of("paused", paused())


def test_at_most_three_selectors_are_named() -> None:
    consumers = {name: {"T": 1.0, "N": 1.0} for name in ("c", "d", "e", "f")}
    poll = poll_with(
        polled(Judged(), QUEUES, consumers),
        WORK | {"consumer.filter": ["d", "b", "a", "c"]},
    )
    assert told("falling_behind", poll)["selector"] == "their selectors: a, b, c"


# --- a consumer that went

KEPT = "a connection of the client is listed: it kept that, or has come back since"
LOST = "no connection of the client is listed: it closed it, lost it, or an operator closed it"
NOT_READ = "the list of connections was not read"


@pytest.mark.parametrize(("client", "values", "left", "died", "closed"), [
    ("app", {}, 30, ("possible", KEPT), ("possible", KEPT)),
    ("other", {}, 30, ("possible", LOST), ("excluded", LOST)),
    ("app", {"snapshot.connections": None}, 30, ("possible", ""), ("possible", NOT_READ)),
])  # fmt: skip
def test_what_became_of_a_consumer_that_went(
    client: str,
    values: Values,
    left: float,
    died: tuple[str, str],
    closed: tuple[str, str],
) -> None:
    verdicts = gone(poll_with(grows(), values), client, NOW - left)
    assert verdicts["connection_died"][:2] == died
    assert verdicts["consumer_closed"][:2] == closed
    assert not any(verdict.likely for verdict in verdicts.values())


@pytest.mark.parametrize(("read", "left", "is_known"), [
    (0, 0, True), (45, 30, True), (46, 30, False), (15, 0, True), (16, 0, False),
])  # fmt: skip
def test_connections_that_were_read_before_it_went_show_nothing(
    read: float, left: float, is_known: bool
) -> None:
    """A poll before, it may have been there."""
    poll = grows()
    collectors = {"connections": Collector(0.1, poll.snapshot.stamp - read, "")}
    verdicts = gone(
        poll_with(poll, {"snapshot.collectors": collectors}), "app", NOW - left
    )
    assert (verdicts["connection_died"].fact == KEPT) is is_known


def test_one_connection_is_enough() -> None:
    poll = polled(Judged(), QUEUES, {"c": {"T": 1.0, "N": 1.0}})
    assert gone(poll, "app", NOW - 30)["connection_died"].fact == KEPT
