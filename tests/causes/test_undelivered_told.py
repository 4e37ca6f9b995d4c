"""Why a queue gives nothing to consumers that buffer nothing: by the numbers of one poll, and by their bounds."""

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
from conditions.openmq_world import OpenmqJudged
from conditions.pairs import NOW, polled
from conditions.world import Judged
from penstock.model import LeftOut
from penstock.observation.poll import RuleInputs

LEFT_OUT = (LeftOut("queues", 1, 2),)
QUEUES = {
    "q": {"A": 90.0, "M": 80.0, "groups": 0.0},
    "r": {"A": 9.0, "M": 9.0, "D": 2.0},
}
IDLE = {"T": 0.0, "N": 0.0}
BUSY = {"T": 1.0, "N": 1.0, "queue": "r"}
CONSUMERS = {
    "c": IDLE | {"connection": "one"},
    "d": IDLE | {"connection": "two"},
    "e": BUSY | {"connection": "one"},
    "f": BUSY | {"connection": "two"},
}
"""Two of the queue that are idle, and one of another queue on the connection of each."""
LAST = "found.consumer.last_delivery"
HELD = "found.consumer.held"
GOT = "found.consumer.delivered"
QUEUE = "found.consumer.queue"
KEYS = "snapshot.consumer_connection"
HOLD = "unacked.hold_since"
COUNT = "snapshot.queues.consumers"
NEEDED = "snapshot.queues.consumers_before_dispatch"
EXCLUSIVE = "snapshot.queues.exclusive"
GROUPS = "snapshot.queues.groups"
PROTOCOL = "consumer.protocol"
FILTER = "consumer.filter"
NUMBERS = {
    LAST: [nan, nan, NOW - 10, NOW - 10], HELD: [0, 0, 3, 4], GOT: [0, 0, 5, 5],
    HOLD: [nan, nan, NOW - 9, NOW - 9], KEYS: [1, 2, 1, 2], "timers.still": NOW - 100,
}  # fmt: skip


def speak(first: str, second: str = "") -> Values:
    """The two idle ones."""
    return {PROTOCOL: [first, second or first, "CORE", "CORE"]}


def have(first: str, second: str) -> Values:
    """Selectors of the two idle ones."""
    return {FILTER: [first, second, "z", "z"]}


@cache
def idle() -> RuleInputs:
    """They speak Core and have no selector; their connections are started."""
    return poll_with(polled(Judged(), QUEUES, CONSUMERS), NUMBERS)


@cache
def refusing() -> RuleInputs:
    """They speak AMQP, and were given all that waits."""
    return poll_with(idle(), {**speak("AMQP"), GOT: [50, 30, 5, 5]})


@cache
def idle_on_openmq() -> RuleInputs:
    """They have no selector, and share no connection with each other or others."""
    return poll_with(
        polled(OpenmqJudged(), QUEUES, CONSUMERS), NUMBERS | {KEYS: [1, 2, 3, 4]}
    )


WHY_CONSUMERS_GET_NOTHING = {
    "consumers_before_dispatch": "excluded",
    "exclusive": "excluded",
    "groups": "excluded",
    "browser": "excluded",
    "selector": "excluded",
    "no_credit": "excluded",
    "not_started": "excluded",
    "never_receives": "proven",
    "undeliverable_here": "excluded",
    "socket_full": "possible",
}
"""They ask for none; or data is under way to them."""


@pytest.mark.parametrize(("values", "differs"), [
    # protocols
    (speak("AMQP"), "no_credit proven, never_receives excluded"),
    (speak("CORE", "AMQP"), "no_credit possible, never_receives possible"),
    (speak("STOMP"), "never_receives excluded"),
    (speak("MQTT5"), "never_receives excluded"),
    (speak("AMQP", "STOMP"), "no_credit possible, never_receives excluded"),
    ({PROTOCOL: ["CORE", "", "CORE", "CORE"]}, "no_credit possible, never_receives possible"),
    ({PROTOCOL: ["STOMP", "", "CORE", "CORE"]}, "no_credit possible, never_receives possible"),
    ({PROTOCOL: ["AMQP", "", "CORE", "CORE"]}, "no_credit possible, never_receives possible"),
    ({PROTOCOL: ["", "", "CORE", "CORE"]}, "no_credit possible, never_receives possible"),
    (speak("CORE", "STOMP"), "never_receives possible"),
    # selectors
    (have("a", "b"), "selector possible, never_receives possible"),
    (have("a", ""), "selector possible, never_receives possible"),
    ({**have("b", "a"), **speak("STOMP")}, "selector proven, never_receives excluded"),
    ({**have("a", ""), **speak("STOMP")}, "selector possible, never_receives excluded"),
    ({**have("a", "b"), **speak("AMQP")}, "selector possible, no_credit possible, never_receives excluded"),
    ({**have("", "b"), **speak("AMQP")}, "selector possible, no_credit possible, never_receives excluded"),
    ({**have("a", "b"), **speak("STOMP", "AMQP")}, "selector possible, no_credit possible, never_receives excluded"),
    ({FILTER: ["e", "e", "z", "z"]}, "selector possible, never_receives possible"),
    # which are idle
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9]}, ""),
    ({HOLD: NOW - 9},
     ("selector possible, no_credit possible, not_started possible, never_receives possible, "
      "undeliverable_here possible")),
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9], **speak("CORE", "AMQP")}, "no_credit proven, never_receives excluded"),
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9], **have("a", "")}, ""),
    ({COUNT: 3}, "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({COUNT: nan},
     ("consumers_before_dispatch possible, browser possible, selector possible, no_credit possible, "
      "never_receives possible, undeliverable_here possible")),
    ({"left_out": LEFT_OUT},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({QUEUE: [-1, -1, 1, 1]},
     ("selector possible, no_credit possible, not_started possible, never_receives possible, "
      "undeliverable_here possible")),
    ({QUEUE: [0, -1, 1, 1]},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({COUNT: 3, **speak("AMQP")},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({COUNT: 3, **speak("STOMP")},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({COUNT: 3, **have("a", "b"), **speak("STOMP")},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    # their connections are started
    ({LAST: [nan, nan, NOW - 10, NOW - 100]}, "not_started possible, never_receives possible"),
    ({LAST: [nan, nan, NOW - 10, nan]}, "not_started possible, never_receives possible"),
    ({LAST: NOW - 200}, "not_started possible, never_receives possible"),
    ({KEYS: [1, 2, 1, 3]}, "not_started possible, never_receives possible"),
    ({KEYS: [1, 2, 3, 4]}, "not_started possible, never_receives possible, socket_full excluded"),
    ({KEYS: [1, 1, 1, 1]}, ""),
    ({KEYS: -1}, "not_started possible, never_receives possible"),
    ({KEYS: [1, -1, 1, 1]}, "not_started possible, never_receives possible"),
    ({LAST: NOW - 200, **speak("STOMP")}, "never_receives excluded"),
    ({LAST: NOW - 200, **speak("CORE", "AMQP")}, "no_credit possible, not_started possible, never_receives possible"),
    ({"timers.still": nan}, "not_started possible, never_receives possible"),
    # what is under way
    ({HELD: 0}, "socket_full excluded"),
    ({HELD: [9, 9, 0, 1]}, ""),
    ({HELD: [9, 9, 0, 0]}, "socket_full excluded"),
    ({HELD: 0, COUNT: 3},
     "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
    ({HELD: 0, "found.counted": False}, ""),
    ({HELD: 0, KEYS: [0, 2, 0, 2]}, "socket_full excluded"),
    ({HELD: 0, KEYS: [1, -1, 1, 1]}, "not_started possible, never_receives possible"),
    ({HELD: 0, KEYS: -1}, "not_started possible, never_receives possible"),
    ({HELD: 0, HOLD: NOW - 9},
     ("selector possible, no_credit possible, not_started possible, never_receives possible, "
      "undeliverable_here possible")),
    ({HELD: 0, QUEUE: [-1, -1, 1, 1]},
     ("selector possible, no_credit possible, not_started possible, never_receives possible, "
      "undeliverable_here possible")),
    ({KEYS: [1, 3, 1, 2]}, "not_started possible, never_receives possible"),
    # what the queue waits for
    ({NEEDED: 3}, "consumers_before_dispatch proven"),
    ({NEEDED: 3, GOT: [1, 0, 5, 5]}, "consumers_before_dispatch possible"),
    ({NEEDED: 3, GOT: [0, 0.5, 0, 0]}, "consumers_before_dispatch possible"),
    ({NEEDED: 3, "found.counted": False}, "consumers_before_dispatch possible"),
    ({NEEDED: nan}, "consumers_before_dispatch possible"),
    ({NEEDED: 1, COUNT: 0}, "consumers_before_dispatch proven, browser possible"),
    ({NEEDED: 5, COUNT: 4},
     ("consumers_before_dispatch proven, selector possible, no_credit possible, never_receives possible, "
      "undeliverable_here possible")),
    ({EXCLUSIVE: 1}, "exclusive possible"),
    ({EXCLUSIVE: nan}, "exclusive possible"),
    ({GROUPS: 7}, "groups possible"),
    ({GROUPS: 1}, "groups possible"),
    ({GROUPS: nan}, "groups possible"),
    ({GROUPS: 7, COUNT: 1}, "groups possible, browser possible"),
    ({GROUPS: 7, COUNT: 1, QUEUE: [0, -1, 1, 1]}, ""),
    ({GROUPS: 0, COUNT: 1, QUEUE: [0, -1, 1, 1]}, ""),
    ({GROUPS: nan, COUNT: 1, QUEUE: [0, -1, 1, 1]}, ""),
    ({GROUPS: 7, COUNT: nan, QUEUE: [0, -1, 1, 1]},
     ("consumers_before_dispatch possible, groups possible, browser possible, selector possible, no_credit "
      "possible, never_receives possible, undeliverable_here possible")),
    ({GROUPS: 7, COUNT: 1, QUEUE: [-1, -1, 1, 1]},
     ("selector possible, no_credit possible, not_started possible, never_receives possible, "
      "undeliverable_here possible")),
    ({GROUPS: 7, COUNT: 0, QUEUE: [0, -1, 1, 1]}, "groups possible, browser possible"),
    ({COUNT: 1}, "browser possible"),
    ({COUNT: 0}, "browser possible"),
    ({COUNT: 2.5}, "selector possible, no_credit possible, never_receives possible, undeliverable_here possible"),
])  # fmt: skip
def test_why_consumers_get_nothing(values: Values, differs: str) -> None:
    poll = poll_with(idle(), values)
    assert judged("not_dispatching", poll) == with_states(
        WHY_CONSUMERS_GET_NOTHING, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "consumers_before_dispatch": "it waits for no more consumers",
        "exclusive": "the queue is not exclusive",
        "groups": "it has 0 message groups",
        "browser": "every consumer that is listed is counted",
        "selector": "no idle consumer has a selector",
        "no_credit": "no idle consumer speaks AMQP",
        "not_started": "other consumers of the same connections got messages meanwhile",
        "never_receives": "other consumers of the same connections got messages meanwhile",
        "undeliverable_here": "no idle consumer speaks AMQP",
        "socket_full": "7 messages are under way on the same connections",
    }),
    (speak("AMQP"), {
        "no_credit": "all of this needs credit",
        "not_started": "no idle consumer speaks Core or OpenWire",
        "never_receives": "no idle consumer speaks Core or OpenWire",
        "undeliverable_here": "more wait than were ever delivered",
    }),
    (speak("CORE", "AMQP"), {
        "no_credit": "all of this needs credit",
        "undeliverable_here": "more wait than were ever delivered",
    }),
    (speak("STOMP"), {
        "not_started": "no idle consumer speaks Core or OpenWire",
        "never_receives": "no idle consumer speaks Core or OpenWire",
    }),
    ({PROTOCOL: ["CORE", "", "CORE", "CORE"]}, {
        "no_credit": "all of this needs credit; their protocol was not read",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; their protocol was not "
            "read"
        ),
    }),
    ({PROTOCOL: ["STOMP", "", "CORE", "CORE"]}, {
        "no_credit": "all of this needs credit; their protocol was not read",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; their protocol was not "
            "read"
        ),
    }),
    (have("a", "b"), {"selector": "all idle consumers have one: a, b"}),
    (have("a", ""), {"selector": "some idle consumers have one: a"}),
    ({**have("b", "a"), **speak("STOMP")}, {"selector": "all idle consumers have one: a, b"}),
    ({**have("a", ""), **speak("STOMP")}, {"selector": "some idle consumers have one: a"}),
    ({**have("", "b"), **speak("AMQP")}, {"selector": "some idle consumers have one: b"}),
    ({FILTER: ["e", "e", "z", "z"]}, {"selector": "all idle consumers have one: e"}),
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9]}, {"socket_full": "4 messages are under way on the same connections"}),
    ({HOLD: NOW - 9}, {
        "selector": "",
        "not_started": "not shown by the broker",
        "never_receives": "not shown by the broker",
        "undeliverable_here": "0 were delivered, and 80 wait, which it may have refused",
        "socket_full": "their connections was not read",
    }),
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9], **speak("CORE", "AMQP")}, {
        "socket_full": "4 messages are under way on the same connections",
    }),
    ({HOLD: [NOW - 9, nan, NOW - 9, NOW - 9], **have("a", "")}, {
        "socket_full": "4 messages are under way on the same connections",
    }),
    ({COUNT: 3}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
        "no_credit": (
            "all of this needs credit; what consumers want that are not listed, as those of a bridge, "
            "was not read"
        ),
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; what consumers want that "
            "are not listed, as those of a bridge, was not read"
        ),
        "undeliverable_here": (
            "0 were delivered, and 80 wait, which it may have refused; what consumers want that are not "
            "listed, as those of a bridge, was not read"
        ),
    }),
    ({COUNT: nan}, {
        "consumers_before_dispatch": "the number of consumers was not read",
        "browser": "the number of consumers was not read",
        "selector": "the number of consumers was not read",
        "no_credit": "all of this needs credit; the number of consumers was not read",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; the number of consumers "
            "was not read"
        ),
        "undeliverable_here": (
            "0 were delivered, and 80 wait, which it may have refused; the number of consumers was not "
            "read"
        ),
    }),
    ({"left_out": LEFT_OUT}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
        "no_credit": (
            "all of this needs credit; what consumers want that are not listed, as those of a bridge, "
            "was not read"
        ),
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; what consumers want that "
            "are not listed, as those of a bridge, was not read"
        ),
        "undeliverable_here": (
            "0 were delivered, and 80 wait, which it may have refused; what consumers want that are not "
            "listed, as those of a bridge, was not read"
        ),
    }),
    ({QUEUE: [-1, -1, 1, 1]}, {
        "selector": "",
        "not_started": "not shown by the broker",
        "never_receives": "not shown by the broker",
        "undeliverable_here": "0 were delivered, and 80 wait, which it may have refused",
        "socket_full": "their connections was not read",
    }),
    ({COUNT: 3, **have("a", "b"), **speak("STOMP")}, {
        "selector": (
            "some idle consumers have one: a, b; what consumers want that are not listed, as those of a "
            "bridge, was not read"
        ),
    }),
    ({KEYS: [1, 1, 1, 1]}, {"socket_full": "14 messages are under way on the same connections"}),
    ({HELD: [9, 9, 0, 1]}, {"socket_full": "1 messages are under way on the same connections"}),
    ({HELD: 0, COUNT: 3}, {
        "socket_full": (
            "0 messages are under way on the same connections; what consumers want that are not listed, "
            "as those of a bridge, was not read"
        ),
    }),
    ({HELD: 0, "found.counted": False}, {
        "socket_full": "0 messages are under way on the same connections; what each consumer buffers was not read",
    }),
    ({NEEDED: 3}, {"consumers_before_dispatch": "2 of the 3 consumers that it waits for are there"}),
    ({NEEDED: 3, GOT: [1, 0, 5, 5]}, {
        "consumers_before_dispatch": "2 of the 3 consumers that it waits for are there",
    }),
    ({NEEDED: 3, "found.counted": False}, {
        "consumers_before_dispatch": (
            "2 of the 3 consumers that it waits for are there; what each consumer buffers was not read"
        ),
    }),
    ({NEEDED: nan}, {"consumers_before_dispatch": "consumers-before-dispatch was not read"}),
    ({NEEDED: 1, COUNT: 0}, {"browser": "2 of 2 that are listed are not counted as consumers"}),
    ({EXCLUSIVE: 1}, {"exclusive": "one consumer gets all messages: look at the one that came first"}),
    ({EXCLUSIVE: nan}, {
        "exclusive": (
            "one consumer gets all messages: look at the one that came first; whether it is exclusive "
            "was not read"
        ),
    }),
    ({GROUPS: 7}, {"groups": "it has 7 message groups; listGroupsAsJSON shows their owners"}),
    ({GROUPS: 1}, {"groups": "it has 1 message groups; listGroupsAsJSON shows their owners"}),
    ({GROUPS: nan}, {
        "groups": (
            "it is not known whether messages have groups; listGroupsAsJSON shows their owners; the "
            "number of message groups was not read"
        ),
    }),
    ({GROUPS: 7, COUNT: 1}, {"browser": "1 of 2 that are listed are not counted as consumers"}),
    ({GROUPS: 7, COUNT: 1, QUEUE: [0, -1, 1, 1]}, {
        "groups": "no other consumer could own a group",
        "socket_full": "3 messages are under way on the same connections",
    }),
    ({GROUPS: 0, COUNT: 1, QUEUE: [0, -1, 1, 1]}, {
        "socket_full": "3 messages are under way on the same connections",
    }),
    ({GROUPS: nan, COUNT: 1, QUEUE: [0, -1, 1, 1]}, {
        "groups": "no other consumer could own a group",
        "socket_full": "3 messages are under way on the same connections",
    }),
    ({GROUPS: 7, COUNT: nan, QUEUE: [0, -1, 1, 1]}, {
        "consumers_before_dispatch": "the number of consumers was not read",
        "groups": (
            "it has 7 message groups; listGroupsAsJSON shows their owners; the number of consumers was "
            "not read"
        ),
        "browser": "the number of consumers was not read",
        "selector": "the number of consumers was not read",
        "no_credit": "all of this needs credit; the number of consumers was not read",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; the number of consumers "
            "was not read"
        ),
        "undeliverable_here": (
            "0 were delivered, and 80 wait, which it may have refused; the number of consumers was not "
            "read"
        ),
    }),
])  # fmt: skip
def test_why_consumers_get_nothing_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(idle(), values)
    found = told("not_dispatching", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    speak("OPENWIRE"),
    {LAST: [nan, nan, NOW - 10, NOW - 99]},
    {NEEDED: 2},
])  # fmt: skip
def test_why_consumers_get_nothing_is_the_same(values: Values) -> None:
    poll = poll_with(idle(), values)
    assert verdicts_of("not_dispatching", poll) == verdicts_of(
        "not_dispatching", idle()
    )


THEY_MAY_HAVE_REFUSED_WHAT_WAITS = {
    "consumers_before_dispatch": "excluded",
    "exclusive": "excluded",
    "groups": "excluded",
    "browser": "excluded",
    "selector": "excluded",
    "no_credit": "proven",
    "not_started": "excluded",
    "never_receives": "excluded",
    "undeliverable_here": "possible",
    "socket_full": "possible",
}
"""What they got first they may have set down."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"snapshot.queues.messages": 81}, "undeliverable_here excluded"),
    ({"snapshot.queues.messages": 79}, ""),
    ({GOT: [50, 29, 500, 500]}, "undeliverable_here excluded"),
    ({"snapshot.queues.messages": nan}, ""),
    ({"snapshot.queues.messages": 81, COUNT: 3}, "selector possible, no_credit possible, never_receives possible"),
    ({"snapshot.queues.messages": 81, "found.counted": False}, ""),
    ({"snapshot.queues.messages": 81, HOLD: NOW - 9},
     "selector possible, no_credit possible, not_started possible, never_receives possible"),
    (speak("AMQP", "CORE"), "no_credit possible, never_receives possible"),
    (speak("CORE"), "no_credit excluded, never_receives proven, undeliverable_here excluded"),
    ({PROTOCOL: ["STOMP", "", "CORE", "CORE"]}, "no_credit possible, never_receives possible"),
    ({**speak("CORE"), "snapshot.queues.messages": 81},
     "no_credit excluded, never_receives proven, undeliverable_here excluded"),
])  # fmt: skip
def test_they_may_have_refused_what_waits(values: Values, differs: str) -> None:
    poll = poll_with(refusing(), values)
    assert judged("not_dispatching", poll) == with_states(
        THEY_MAY_HAVE_REFUSED_WHAT_WAITS, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "consumers_before_dispatch": "it waits for no more consumers",
        "exclusive": "the queue is not exclusive",
        "groups": "it has 0 message groups",
        "browser": "every consumer that is listed is counted",
        "selector": "no idle consumer has a selector",
        "no_credit": "all of this needs credit",
        "not_started": "no idle consumer speaks Core or OpenWire",
        "never_receives": "no idle consumer speaks Core or OpenWire",
        "undeliverable_here": "80 were delivered, and 80 wait, which it may have refused",
        "socket_full": "7 messages are under way on the same connections",
    }),
    ({"snapshot.queues.messages": 81}, {"undeliverable_here": "more wait than were ever delivered"}),
    ({"snapshot.queues.messages": 79}, {
        "undeliverable_here": "80 were delivered, and 79 wait, which it may have refused",
    }),
    ({GOT: [50, 29, 500, 500]}, {"undeliverable_here": "more wait than were ever delivered"}),
    ({"snapshot.queues.messages": 81, COUNT: 3}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
        "no_credit": (
            "all of this needs credit; what consumers want that are not listed, as those of a bridge, "
            "was not read"
        ),
        "not_started": "other consumers of the same connections got messages meanwhile",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; what consumers want that "
            "are not listed, as those of a bridge, was not read"
        ),
        "undeliverable_here": (
            "80 were delivered, and 81 wait, which it may have refused; what consumers want that are "
            "not listed, as those of a bridge, was not read"
        ),
    }),
    ({"snapshot.queues.messages": 81, "found.counted": False}, {
        "undeliverable_here": (
            "80 were delivered, and 81 wait, which it may have refused; what each consumer buffers was "
            "not read"
        ),
    }),
    ({"snapshot.queues.messages": 81, HOLD: NOW - 9}, {
        "selector": "",
        "not_started": "not shown by the broker",
        "never_receives": "not shown by the broker",
        "undeliverable_here": "80 were delivered, and 81 wait, which it may have refused",
        "socket_full": "their connections was not read",
    }),
    (speak("AMQP", "CORE"), {
        "not_started": "other consumers of the same connections got messages meanwhile",
        "never_receives": "other consumers of the same connections got messages meanwhile",
    }),
    (speak("CORE"), {
        "no_credit": "no idle consumer speaks AMQP",
        "never_receives": "other consumers of the same connections got messages meanwhile",
        "undeliverable_here": "no idle consumer speaks AMQP",
    }),
    ({PROTOCOL: ["STOMP", "", "CORE", "CORE"]}, {
        "no_credit": "all of this needs credit; their protocol was not read",
        "never_receives": (
            "other consumers of the same connections got messages meanwhile; their protocol was not "
            "read"
        ),
        "undeliverable_here": (
            "80 were delivered, and 80 wait, which it may have refused; their protocol was not read"
        ),
    }),
    ({**speak("CORE"), "snapshot.queues.messages": 81}, {
        "no_credit": "no idle consumer speaks AMQP",
        "undeliverable_here": "no idle consumer speaks AMQP",
    }),
])  # fmt: skip
def test_they_may_have_refused_what_waits_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(refusing(), values)
    found = told("not_dispatching", poll)
    assert found == found | facts


WHY_CONSUMERS_OF_OPENMQ_GET_NOTHING = {
    "selector": "excluded",
    "not_started": "possible",
    "never_receives": "possible",
    "connection_limit": "excluded",
}
"""Their connections may not be started."""


@pytest.mark.parametrize(("values", "differs"), [
    (have("a", "b"), "selector possible"),
    (have("a", ""), "selector possible"),
    ({FILTER: ["d", "c", "z", "z"]}, "selector possible"),
    ({HOLD: NOW - 9}, "selector possible, connection_limit possible"),
    ({COUNT: 3}, "selector possible, connection_limit possible"),
    ({"openmq.said.flow_paused": True}, ""),
    ({"openmq.said.flow_paused": [True, True, False, False]}, ""),
    ({"openmq.said.flow_paused": True, HOLD: NOW - 9}, "selector possible, connection_limit possible"),
    ({KEYS: [1, 2, 3, 2]}, "connection_limit possible"),
    ({KEYS: [1, 1, 3, 4]}, "connection_limit possible"),
    ({KEYS: [1, -1, 3, 4]}, "connection_limit possible"),
    ({KEYS: -1}, "connection_limit possible"),
    ({KEYS: [1, 2, 3, 2], COUNT: 3}, "selector possible, connection_limit possible"),
    ({KEYS: [1, -1, 1, 4]}, "connection_limit possible"),
])  # fmt: skip
def test_why_consumers_of_openmq_get_nothing(values: Values, differs: str) -> None:
    poll = poll_with(idle_on_openmq(), values)
    assert judged("not_dispatching", poll, kind="openmq") == with_states(
        WHY_CONSUMERS_OF_OPENMQ_GET_NOTHING, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "selector": "no idle consumer has a selector",
        "not_started": "the broker does not show whether their connections are started",
        "never_receives": "the broker does not show who has prefetch off",
        "connection_limit": "no other consumer is on their connections",
    }),
    (have("a", "b"), {"selector": "a, b"}),
    (have("a", ""), {"selector": "a"}),
    ({FILTER: ["d", "c", "z", "z"]}, {"selector": "c, d"}),
    ({HOLD: NOW - 9}, {
        "selector": "",
        "connection_limit": "",
    }),
    ({COUNT: 3}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
        "connection_limit": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"openmq.said.flow_paused": True}, {"never_receives": "the idle consumers ask for no messages"}),
    ({"openmq.said.flow_paused": [True, True, False, False]}, {
        "never_receives": "the idle consumers ask for no messages",
    }),
    ({"openmq.said.flow_paused": True, HOLD: NOW - 9}, {
        "selector": "",
        "connection_limit": "",
    }),
    ({KEYS: [1, 2, 3, 2]}, {"connection_limit": "they share a connection"}),
    ({KEYS: [1, 1, 3, 4]}, {"connection_limit": "they share a connection"}),
    ({KEYS: [1, -1, 3, 4]}, {"connection_limit": "their connections was not read"}),
    ({KEYS: -1}, {"connection_limit": "their connections was not read"}),
    ({KEYS: [1, 2, 3, 2], COUNT: 3}, {
        "selector": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
])  # fmt: skip
def test_why_consumers_of_openmq_get_nothing_is_told(
    values: Values, facts: Facts
) -> None:
    poll = poll_with(idle_on_openmq(), values)
    found = told("not_dispatching", poll, kind="openmq")
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"openmq.said.flow_paused": [True, False, True, True]},
    {"openmq": None},
    {KEYS: [0, 2, 3, 4]},
])  # fmt: skip
def test_why_consumers_of_openmq_get_nothing_is_the_same(values: Values) -> None:
    poll = poll_with(idle_on_openmq(), values)
    assert verdicts_of("not_dispatching", poll, kind="openmq") == verdicts_of(
        "not_dispatching", idle_on_openmq(), kind="openmq"
    )


def test_at_most_three_selectors_are_named() -> None:
    consumers = dict.fromkeys(("c", "d", "e", "f"), IDLE)
    poll = polled(Judged(), QUEUES, consumers)
    selectors = {FILTER: ["d", "b", "a", "c"]}
    named = poll_with(poll, selectors)
    assert (
        told("not_dispatching", named)["selector"]
        == "all idle consumers have one: a, b, c"
    )
    on_openmq = poll_with(polled(OpenmqJudged(), QUEUES, consumers), selectors)
    assert told("not_dispatching", on_openmq, kind="openmq")["selector"] == "a, b, c"
