"""Why a consumer buffers messages and settles none: by the numbers of one poll, and by their bounds."""

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
from penstock.model import AcknowledgeMode, LeftOut
from penstock.observation.poll import RuleInputs

LEFT_OUT = (LeftOut("queues", 1, 2),)
MIB = 2.0**20
LISTED = "found.consumer."
SETTLED = "unacked.settled"
STOPPED = "unacked.unacked_since"
SEEN = "unacked.seen_since"
BYTES = "snapshot.consumers.buffered_bytes"
MODE = "snapshot.consumers.acknowledge_mode"
PERCENT = "snapshot.addresses.limit_percent"
PAGING = "snapshot.addresses.paging"
PAGE_READ = "snapshot.addresses.page_read_limit_bytes"
IN_BYTES = "snapshot.queues.delivering_bytes"
HAS_ROOM = {
    "broker.memory_used_bytes": 1.0,
    "broker.memory_limit_bytes": 9.0,
    "broker.disk_used_ratio": 0.1,
    "broker.disk_limit_ratio": 0.9,
}


def texts(name: str, *of: str) -> dict[str, list[str]]:
    """Of each consumer."""
    return {f"consumer.{name}": [*of]}


# --- a consumer that holds messages


QUEUES = {
    "q": {"A": 90.0, "M": 80.0, "D": 40.0, "groups": 0.0},
    "r": {"A": 9.0, "M": 9.0, "D": 1.0},
}
CONSUMERS = {
    "c": {"T": 40.0, "N": 40.0, "connection": "one"},
    "d": {"T": 10.0, "N": 10.0, "connection": "one", "queue": "r"},
    "e": {"T": 10.0, "N": 10.0, "connection": "one", "queue": "r"},
    "f": {"T": 10.0, "N": 10.0, "connection": "two", "queue": "r"},
}


@cache
def stalled() -> RuleInputs:
    """One of Core took 200 messages while it was watched, and has none for 300 s while 30 wait."""
    return poll_with(polled(Judged(), QUEUES, CONSUMERS), {
        **HAS_ROOM, PERCENT: 0,
        SEEN: [NOW - 505, NOW - 900, NOW - 900, NOW - 900], STOPPED: [NOW - 320, NOW - 900, NOW - 900, NOW - 900],
        LISTED + "left": 200, LISTED + "last_delivery": NOW - 310, LISTED + "held": [40, 10, 10, 10],
        LISTED + "last_acknowledgement": NOW - 900, SETTLED: [NOW - 320, nan, nan, nan],
        "timers.ready": NOW - 300, "found.ready": 30, "consumer.client": ["app", "b", "c", "d"],
    })  # fmt: skip


@cache
def sending(session: str = "sc", address: str = "r") -> RuleInputs:
    """The same, whose session has sent to the other address, which closed as it stopped."""
    world = Judged()
    world.producers = {
        "p": {"session": session, "address": address, "produced": 5.0},
        "x": {"session": "sx", "address": "q", "produced": 5.0},
    }
    values = {
        **HAS_ROOM, PERCENT: [0, 100], STOPPED: [NOW - 320, NOW - 900, NOW - 900, NOW - 900],
        "timers.blocked": [nan, NOW - 320],
    }  # fmt: skip
    return poll_with(polled(world, QUEUES, CONSUMERS), values)


# --- messages that are acknowledged and uncommitted


@cache
def uncommitted() -> RuleInputs:
    """One of AMQP has 40 acknowledged and uncommitted, the last ones now."""
    return poll_with(polled(Judged(), QUEUES, CONSUMERS), {
        "consumer.protocol": "AMQP", LISTED + "uncommitted": [40, 0, 0, 0], LISTED + "d_uncommitted": [5, 0, 0, 0],
        LISTED + "last_acknowledgement": NOW - 2, "snapshot.consumers.last_acknowledgement": NOW - 2,
        STOPPED: NOW - 300, "snapshot.queues.delivering_bytes": [40 * 1024.0, 0], "snapshot.queues.delivering": 40,
    })  # fmt: skip


@cache
def uncommitted_on_openmq() -> RuleInputs:
    """No transaction of it has failed, as was read now."""
    world = OpenmqJudged()
    return poll_with(polled(world, QUEUES, CONSUMERS), {})


@cache
def stalled_on_openmq() -> RuleInputs:
    """Its session acknowledges by the client."""
    modes = {"acknowledge_mode": AcknowledgeMode.CLIENT}
    consumers = {name: said | modes for name, said in CONSUMERS.items()}
    return poll_with(polled(OpenmqJudged(), QUEUES, consumers), {LISTED + "left": 20})


WHY_IT_SETTLES_NOTHING = {
    "listener_hangs": "possible",
    "long_job": "possible",
    "never_receives": "possible",
    "never_acknowledges": "excluded",
    "never_commits": "excluded",
    "puback_missing": "excluded",
    "blocked_in_send": "excluded",
    "outside": "possible",
    "frozen": "possible",
}
"""It may be the listener; it would go on taking messages otherwise."""


@pytest.mark.parametrize(("values", "differs"), [
    # it took so many before
    ({LISTED + "left": 0}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "left": 1}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "left": 27}, ""),
    ({LISTED + "left": 26}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "left": 20}, "never_acknowledges possible, never_commits possible"),
    ({SEEN: [NOW - 900, NOW - 900, NOW - 900, NOW - 900]}, "never_acknowledges possible, never_commits possible"),
    ({SEEN: [NOW - 305, NOW - 900, NOW - 900, NOW - 900], LISTED + "left": 2000},
     "never_acknowledges possible, never_commits possible"),
    ({SEEN: [NOW - 306, NOW - 900, NOW - 900, NOW - 900], LISTED + "left": 20}, ""),
    ({"left_out": LEFT_OUT}, "never_acknowledges possible, never_commits possible, blocked_in_send possible"),
    ({LISTED + "held": [301, 10, 10, 10]}, "never_acknowledges possible, never_commits possible"),
    # nothing was delivered to it while messages wait
    ({"timers.ready": NOW - 30}, "never_acknowledges possible, never_commits possible"),
    ({"timers.ready": NOW - 29}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "last_delivery": NOW - 29}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "last_delivery": NOW - 200}, ""),
    ({"found.interval": 5, "timers.ready": NOW - 15}, "never_acknowledges possible, never_commits possible"),
    ({"found.interval": 5, "timers.ready": NOW - 14}, "never_acknowledges possible, never_commits possible"),
    ({"found.interval": 9, "timers.ready": NOW - 18}, "never_acknowledges possible, never_commits possible"),
    ({"found.interval": 9, "timers.ready": NOW - 17}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "selective": [True, False, False, False]}, "never_acknowledges possible, never_commits possible"),
    ({LISTED + "queue": [-1, 1, 1, 1]}, "never_acknowledges possible, never_commits possible"),
    ({"timers.ready": nan}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.paused": [1, 0]}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.paused": [nan, 0]}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.addresses.paused": [1, 0]}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.addresses.paused": nan}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.exclusive": 1, "snapshot.queues.consumers": 2},
     "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.groups": 1, "snapshot.queues.consumers": 2},
     "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.groups": nan, "snapshot.queues.consumers": 2},
     "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.groups": 1, "snapshot.queues.consumers": 0},
     "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.consumers_before_dispatch": 2}, "never_acknowledges possible, never_commits possible"),
    ({"snapshot.queues.consumers_before_dispatch": nan}, "never_acknowledges possible, never_commits possible"),
    ({PAGING: 1}, "never_acknowledges possible, never_commits possible"),
    ({PAGING: 1, IN_BYTES: 50, PAGE_READ: 100}, "never_acknowledges possible, never_commits possible"),
    ({PAGING: 1, IN_BYTES: 49}, "never_acknowledges possible, never_commits possible"),
    ({PAGING: nan}, "never_acknowledges possible, never_commits possible"),
    ({PAGING: 1, PAGE_READ: 100}, "never_acknowledges possible, never_commits possible"),
    # its window
    ({"timers.ready": nan, BYTES: 1.2 * MIB}, "never_acknowledges possible, never_commits possible"),
    ({"timers.ready": nan, BYTES: 1.25 * MIB}, "never_acknowledges possible, never_commits possible"),
    ({"timers.ready": nan, BYTES: 0.98 * MIB}, "never_acknowledges possible, never_commits possible"),
    # its protocol
    ({"consumer.protocol": "AMQP"}, "never_acknowledges possible"),
    ({"consumer.protocol": "STOMP"}, "never_receives excluded, never_acknowledges possible"),
    ({"consumer.protocol": "MQTT5"}, "never_receives excluded, puback_missing proven"),
    ({"consumer.protocol": "OPENWIRE"}, "never_acknowledges possible, never_commits possible"),
    ({"consumer.protocol": ""}, "never_acknowledges possible, never_commits possible, puback_missing possible"),
    ({"consumer.protocol": "MQTT", "snapshot.consumers.buffered": [0, 1, 1, 1]},
     "never_receives excluded, puback_missing possible"),
    ({"consumer.protocol": "MQTT", "snapshot.consumers.buffered": [1, 0, 0, 0]},
     "never_receives excluded, puback_missing proven"),
    ({"consumer.protocol": "MQTT", "snapshot.consumers.buffered": nan},
     "never_receives excluded, puback_missing possible"),
    ({"consumer.protocol": "MQTT", "timers.ready": nan}, "never_receives excluded, puback_missing proven"),
    # others that stopped with it
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 900, NOW - 900]}, ""),
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 318, NOW - 900]}, "outside possible*"),
    ({STOPPED: NOW - 320}, "outside possible*"),
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 318, NOW - 900], "consumer.client": ["app", "b", "b", "d"]}, ""),
    ({STOPPED: NOW - 320, "consumer.client": ["app", "b", "b", "d"]}, "outside possible*"),
    # other consumers of its connection
    ({SETTLED: [NOW - 320, NOW - 30, nan, nan]}, "frozen excluded"),
    ({LISTED + "last_acknowledgement": [nan, nan, NOW - 30, nan]}, "frozen excluded"),
    ({SETTLED: [NOW - 320, NOW - 335, NOW - 305, nan]}, "frozen possible*"),
    ({SETTLED: [NOW - 320, NOW - 336, NOW - 305, nan]}, ""),
    ({SETTLED: [NOW - 320, NOW - 304, NOW - 305, nan]}, ""),
    ({SETTLED: [NOW - 320, NOW - 320, NOW - 320, nan], LISTED + "held": [40, 1, 0, 10]}, ""),
    ({SETTLED: [NOW - 320, NOW - 320, NOW - 320, nan], LISTED + "held": [40, 0, 0, 10]}, ""),
    ({SETTLED: [NOW - 320, NOW - 320, NOW - 320, nan], LISTED + "held": [40, 1, 1, 0]}, "frozen possible*"),
    ({SETTLED: [NOW - 320, NOW - 321, NOW - 319, nan], "found.interval": 0.5}, "frozen possible*"),
    ({SETTLED: [NOW - 320, NOW - 321.5, NOW - 319, nan], "found.interval": 0.5}, ""),
    ({"snapshot.consumer_connection": [7, 8, 9, 9]}, ""),
    ({"snapshot.consumer_connection": -1}, ""),
    ({SETTLED: NOW - 1, "snapshot.consumer_connection": [7, 7, 7, 7], "consumer.queue": ["q", "s", "r", "r"]},
     "frozen excluded"),
])  # fmt: skip
def test_why_it_settles_nothing(values: Values, differs: str) -> None:
    poll = poll_with(stalled(), values)
    assert judged("stalled", poll) == with_states(WHY_IT_SETTLES_NOTHING, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "listener_hangs": "it took 200 messages; nothing was delivered to it for 5 min while 30 wait",
        "long_job": "the broker shows it as it shows a hang: compare two thread dumps of the client",
        "never_receives": "it has taken 200 messages before, and may ask for no more since",
        "never_acknowledges": (
            "it would go on taking messages, 1.0 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "never_commits": (
            "it would go on taking messages, 1.0 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "puback_missing": "it speaks CORE",
        "blocked_in_send": "no address of this broker is full",
        "outside": "against it: no other client stopped within 2 s of it",
        "frozen": "against it: none of 2 other consumers of its connection stopped with it",
    }),
    ({LISTED + "left": 0}, {
        "listener_hangs": "it took 0 messages; nothing was delivered to it for 5 min while 30 wait",
        "never_receives": "it took none yet",
        "never_acknowledges": (
            "only if it receives less than 0.067 messages each second: nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "never_commits": (
            "only if it receives less than 0.067 messages each second: nothing was delivered to it for "
            "5 min while 30 wait"
        ),
    }),
    ({LISTED + "left": 1}, {
        "listener_hangs": "it took 1 messages; nothing was delivered to it for 5 min while 30 wait",
        "never_receives": "it has taken 1 messages before, and may ask for no more since",
        "never_acknowledges": (
            "only if it receives less than 0.067 messages each second: nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "never_commits": (
            "only if it receives less than 0.067 messages each second: nothing was delivered to it for "
            "5 min while 30 wait"
        ),
    }),
    ({LISTED + "left": 27}, {
        "listener_hangs": "it took 27 messages; nothing was delivered to it for 5 min while 30 wait",
        "never_receives": "it has taken 27 messages before, and may ask for no more since",
        "never_acknowledges": (
            "it would go on taking messages, 0.1 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "never_commits": (
            "it would go on taking messages, 0.1 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
    }),
    ({SEEN: [NOW - 306, NOW - 900, NOW - 900, NOW - 900], LISTED + "left": 20}, {
        "listener_hangs": "it took 20 messages; nothing was delivered to it for 5 min while 30 wait",
        "never_receives": "it has taken 20 messages before, and may ask for no more since",
        "never_acknowledges": (
            "it would go on taking messages, 20.0 each second as before; nothing was delivered to it "
            "for 5 min while 30 wait"
        ),
        "never_commits": (
            "it would go on taking messages, 20.0 each second as before; nothing was delivered to it "
            "for 5 min while 30 wait"
        ),
    }),
    ({"left_out": LEFT_OUT}, {"blocked_in_send": "no producer of its session is known to send to a full address"}),
    ({"timers.ready": NOW - 30}, {
        "listener_hangs": "it took 200 messages; nothing was delivered to it for 30 s while 30 wait",
        "never_acknowledges": (
            "only if it receives less than 0.67 messages each second: nothing was delivered to it for "
            "30 s while 30 wait"
        ),
        "never_commits": (
            "only if it receives less than 0.67 messages each second: nothing was delivered to it for "
            "30 s while 30 wait"
        ),
    }),
    ({"timers.ready": NOW - 29}, {
        "listener_hangs": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "never_acknowledges": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "never_commits": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
    }),
    ({LISTED + "last_delivery": NOW - 29}, {
        "listener_hangs": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "never_acknowledges": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "never_commits": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
    }),
    ({LISTED + "last_delivery": NOW - 200}, {
        "listener_hangs": "it took 200 messages; nothing was delivered to it for 3 min 20 s while 30 wait",
        "never_acknowledges": (
            "it would go on taking messages, 1.0 each second as before; nothing was delivered to it for "
            "3 min 20 s while 30 wait"
        ),
        "never_commits": (
            "it would go on taking messages, 1.0 each second as before; nothing was delivered to it for "
            "3 min 20 s while 30 wait"
        ),
    }),
    ({"found.interval": 5, "timers.ready": NOW - 15}, {
        "listener_hangs": "it took 200 messages; nothing was delivered to it for 15 s while 30 wait",
        "never_acknowledges": (
            "only if it receives less than 1.3 messages each second: nothing was delivered to it for 15 "
            "s while 30 wait"
        ),
        "never_commits": (
            "only if it receives less than 1.3 messages each second: nothing was delivered to it for 15 "
            "s while 30 wait"
        ),
    }),
    ({"timers.ready": nan, BYTES: 1.2 * MIB}, {
        "listener_hangs": "decidable when 1 MiB has been received or messages wait; 1.20 MiB are buffered",
        "never_acknowledges": "decidable when 1 MiB has been received or messages wait; 1.20 MiB are buffered",
        "never_commits": "decidable when 1 MiB has been received or messages wait; 1.20 MiB are buffered",
    }),
    ({"timers.ready": nan, BYTES: 1.25 * MIB}, {
        "listener_hangs": "1.2 MiB are buffered: it receives, unless its consumerWindowSize is above 1 MiB",
        "never_acknowledges": "1.2 MiB are buffered: it receives, unless its consumerWindowSize is above 1 MiB",
        "never_commits": "1.2 MiB are buffered: it receives, unless its consumerWindowSize is above 1 MiB",
    }),
    ({"timers.ready": nan, BYTES: 0.98 * MIB}, {
        "listener_hangs": "decidable when 1 MiB has been received or messages wait; 0.98 MiB are buffered",
        "never_acknowledges": "decidable when 1 MiB has been received or messages wait; 0.98 MiB are buffered",
        "never_commits": "decidable when 1 MiB has been received or messages wait; 0.98 MiB are buffered",
    }),
    ({"consumer.protocol": "AMQP"}, {
        "never_acknowledges": "",
        "never_commits": "it speaks AMQP",
        "puback_missing": "it speaks AMQP",
    }),
    ({"consumer.protocol": "STOMP"}, {
        "never_receives": "it speaks STOMP",
        "never_acknowledges": "",
        "never_commits": "it speaks STOMP",
        "puback_missing": "it speaks STOMP",
    }),
    ({"consumer.protocol": "MQTT5"}, {
        "never_receives": "it speaks MQTT",
        "never_acknowledges": "it speaks MQTT",
        "never_commits": "it speaks MQTT",
        "puback_missing": "40 were delivered and have no PUBACK",
    }),
    ({"consumer.protocol": "OPENWIRE"}, {
        "never_commits": "",
        "puback_missing": "it speaks OPENWIRE",
    }),
    ({"consumer.protocol": ""}, {
        "never_commits": "",
        "puback_missing": "40 were delivered and have no PUBACK; its protocol was not read",
    }),
    ({"consumer.protocol": "MQTT", "snapshot.consumers.buffered": [0, 1, 1, 1]}, {
        "never_receives": "it speaks MQTT",
        "never_acknowledges": "it speaks MQTT",
        "never_commits": "it speaks MQTT",
        "puback_missing": "40 were delivered and have no PUBACK",
    }),
    ({"consumer.protocol": "MQTT", "snapshot.consumers.buffered": nan}, {
        "puback_missing": "40 were delivered and have no PUBACK; what it buffers was not read",
    }),
    ({"consumer.protocol": "MQTT", "timers.ready": nan}, {"listener_hangs": ""}),
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 900, NOW - 900]}, {
        "outside": "b stopped within 2 s of it, which may be chance",
    }),
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 318, NOW - 900]}, {"outside": "b, c stopped within 2 s of it"}),
    ({STOPPED: NOW - 320}, {"outside": "b, c, d stopped within 2 s of it"}),
    ({STOPPED: [NOW - 320, NOW - 322, NOW - 318, NOW - 900], "consumer.client": ["app", "b", "b", "d"]}, {
        "outside": "b stopped within 2 s of it, which may be chance",
    }),
    ({STOPPED: NOW - 320, "consumer.client": ["app", "b", "b", "d"]}, {"outside": "b, d stopped within 2 s of it"}),
    ({SETTLED: [NOW - 320, NOW - 30, nan, nan]}, {"frozen": "another consumer of its connection works on r"}),
    ({LISTED + "last_acknowledgement": [nan, nan, NOW - 30, nan]}, {
        "frozen": "another consumer of its connection works on r",
    }),
    ({SETTLED: [NOW - 320, NOW - 335, NOW - 305, nan]}, {
        "frozen": "2 of 2 other consumers of its connection stopped with it",
    }),
    ({SETTLED: [NOW - 320, NOW - 336, NOW - 305, nan]}, {
        "frozen": "1 of 2 other consumers of its connection stopped with it",
    }),
    ({SETTLED: [NOW - 320, NOW - 304, NOW - 305, nan]}, {
        "frozen": "1 of 2 other consumers of its connection stopped with it",
    }),
    ({SETTLED: [NOW - 320, NOW - 320, NOW - 320, nan], LISTED + "held": [40, 1, 0, 10]}, {
        "frozen": "1 of 2 other consumers of its connection stopped with it",
    }),
    ({SETTLED: [NOW - 320, NOW - 320, NOW - 320, nan], LISTED + "held": [40, 0, 0, 10]}, {
        "frozen": "no other consumer of its connection shows whether the process works",
    }),
    ({SETTLED: [NOW - 320, NOW - 321.5, NOW - 319, nan], "found.interval": 0.5}, {
        "never_acknowledges": (
            "it would go on taking messages, 1.1 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "never_commits": (
            "it would go on taking messages, 1.1 each second as before; nothing was delivered to it for "
            "5 min while 30 wait"
        ),
        "frozen": "1 of 2 other consumers of its connection stopped with it",
    }),
    ({"snapshot.consumer_connection": [7, 8, 9, 9]}, {
        "frozen": "no other consumer of its connection shows whether the process works",
    }),
    ({"snapshot.consumer_connection": -1}, {
        "frozen": "no other consumer of its connection shows whether the process works",
    }),
    ({SETTLED: NOW - 1, "snapshot.consumer_connection": [7, 7, 7, 7], "consumer.queue": ["q", "s", "r", "r"]}, {
        "frozen": "another consumer of its connection works on s",
    }),
])  # fmt: skip
def test_why_it_settles_nothing_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(stalled(), values)
    found = told("stalled", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {LISTED + "held": [201, 10, 10, 10]},
    {LISTED + "held": [300, 10, 10, 10]},
    {"snapshot.queues.exclusive": 1},
    {"snapshot.queues.consumers": 2},
    {"snapshot.queues.groups": 1},
    {"snapshot.queues.consumers_before_dispatch": 1},
    {PAGING: 1, IN_BYTES: 49, PAGE_READ: 100},
    {PAGING: 0, IN_BYTES: 50, PAGE_READ: 100},
    {SETTLED: [NOW - 320, NOW - 31, nan, nan]},
    {SETTLED: [NOW - 320, nan, nan, NOW - 3]},
])  # fmt: skip
def test_why_it_settles_nothing_is_the_same(values: Values) -> None:
    poll = poll_with(stalled(), values)
    assert verdicts_of("stalled", poll) == verdicts_of("stalled", stalled())


IT_MAY_WAIT_IN_A_SEND = {
    "listener_hangs": "possible",
    "long_job": "possible",
    "never_receives": "possible",
    "never_acknowledges": "possible",
    "never_commits": "possible",
    "puback_missing": "excluded",
    "blocked_in_send": "proven",
    "outside": "possible",
    "frozen": "possible",
}
"""Its session sends to an address that closed as it stopped."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"timers.blocked": [nan, NOW - 350]}, ""),
    ({"timers.blocked": [nan, NOW - 351]}, "blocked_in_send possible"),
    ({"timers.blocked": [nan, NOW - 305]}, ""),
    ({"timers.blocked": [nan, NOW - 304]}, "blocked_in_send possible"),
    ({"timers.blocked": nan}, "blocked_in_send possible"),
    ({"timers.blocked": [nan, NOW - 330], "found.interval": 4}, ""),
    ({"timers.blocked": [nan, NOW - 331], "found.interval": 4}, "blocked_in_send possible"),
    ({"timers.blocked": [nan, NOW - 315], "found.interval": 4}, ""),
    ({"timers.blocked": [nan, NOW - 314], "found.interval": 4}, "blocked_in_send possible"),
    ({PERCENT: 0}, "blocked_in_send excluded"),
    ({PERCENT: nan}, "blocked_in_send possible"),
    ({PERCENT: [100, 0]}, "blocked_in_send possible"),
    ({"snapshot.producers": None}, "blocked_in_send possible"),
    ({**texts("session", "one", "se", "se", "sc")}, "blocked_in_send possible"),
    ({**texts("session", "sx", "se", "se", "sc")}, "blocked_in_send possible"),
    ({PERCENT: [0, nan]}, "blocked_in_send possible"),
])  # fmt: skip
def test_it_may_wait_in_a_send(values: Values, differs: str) -> None:
    poll = poll_with(sending(), values)
    assert judged("stalled", poll) == with_states(IT_MAY_WAIT_IN_A_SEND, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "listener_hangs": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "long_job": "the broker shows it as it shows a hang: compare two thread dumps of the client",
        "never_receives": "it took none yet",
        "never_acknowledges": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "never_commits": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "puback_missing": "it speaks CORE",
        "blocked_in_send": (
            "its session sends to r (full at 100 %); nothing has come in there for 5 min 20 s, since it "
            "stopped"
        ),
        "outside": "against it: no other client stopped within 2 s of it",
        "frozen": "against it: none of 2 other consumers of its connection stopped with it",
    }),
    ({"timers.blocked": [nan, NOW - 350]}, {
        "blocked_in_send": (
            "its session sends to r (full at 100 %); nothing has come in there for 5 min 50 s, since it "
            "stopped"
        ),
    }),
    ({"timers.blocked": [nan, NOW - 351]}, {
        "blocked_in_send": "its session sends to r (full at 100 %); nothing has come in there for 5 min 51 s",
    }),
    ({"timers.blocked": [nan, NOW - 305]}, {
        "blocked_in_send": (
            "its session sends to r (full at 100 %); nothing has come in there for 5 min 5 s, since it "
            "stopped"
        ),
    }),
    ({"timers.blocked": [nan, NOW - 304]}, {
        "blocked_in_send": "its session sends to r (full at 100 %); nothing has come in there for 5 min 4 s",
    }),
    ({"timers.blocked": nan}, {
        "blocked_in_send": "its session sends to r (full at 100 %); nothing has come in there for unknown",
    }),
    ({"timers.blocked": [nan, NOW - 330], "found.interval": 4}, {
        "blocked_in_send": (
            "its session sends to r (full at 100 %); nothing has come in there for 5 min 30 s, since it "
            "stopped"
        ),
    }),
    ({"timers.blocked": [nan, NOW - 315], "found.interval": 4}, {
        "blocked_in_send": (
            "its session sends to r (full at 100 %); nothing has come in there for 5 min 15 s, since it "
            "stopped"
        ),
    }),
    ({PERCENT: 0}, {"blocked_in_send": "no address of this broker is full"}),
    ({PERCENT: nan}, {"blocked_in_send": "no producer of its session is known to send to a full address"}),
    ({PERCENT: [100, 0]}, {
        "blocked_in_send": "against it: no producer of its session is known to send to a full address",
    }),
    ({"snapshot.producers": None}, {
        "blocked_in_send": "no producer of its session is known to send to a full address",
    }),
    ({**texts("session", "one", "se", "se", "sc")}, {
        "blocked_in_send": "against it: no producer of its session is known to send to a full address",
    }),
])  # fmt: skip
def test_it_may_wait_in_a_send_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(sending(), values)
    found = told("stalled", poll)
    assert found == found | facts


WHY_IT_COMMITS_NOTHING = {
    "never_commits": "proven",
    "never_acknowledges": "excluded",
    "acknowledges_one_by_one": "excluded",
    "listener_hangs": "excluded",
}
"""It goes on acknowledging."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"consumer.protocol": "CORE"},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": ""},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
    ({"consumer.protocol": "OPENWIRE"}, ""),
    # it has ceased to acknowledge
    ({"snapshot.consumers.last_acknowledgement": NOW - 46}, "never_commits possible, listener_hangs possible"),
    ({"snapshot.consumers.last_acknowledgement": nan}, "never_commits possible, listener_hangs possible"),
    ({LISTED + "last_acknowledgement": nan}, ""),
    ({LISTED + "last_acknowledgement": NOW - 0.25}, ""),
    ({LISTED + "last_acknowledgement": NOW + 9}, ""),
    ({LISTED + "last_acknowledgement": NOW - 90}, ""),
    ({STOPPED: NOW - 17}, "never_commits possible, listener_hangs possible"),
    ({STOPPED: nan}, "never_commits possible, listener_hangs possible"),
    # what Core sends together
    ({"consumer.protocol": "CORE", IN_BYTES: 40 * MIB / 10},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
    ({"consumer.protocol": "CORE", IN_BYTES: 40 * MIB / 8},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
    ({"consumer.protocol": "CORE", IN_BYTES: nan},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
    ({"consumer.protocol": "CORE", "snapshot.queues.delivering": nan},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
    ({"consumer.protocol": "CORE", "snapshot.queues.delivering": 0},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": "CORE", "snapshot.queues.delivering": 1},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": "CORE", "snapshot.queues.delivering": 2},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": "CORE", LISTED + "d_uncommitted": 0},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": "CORE", LISTED + "d_uncommitted": 1},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one proven"),
    ({"consumer.protocol": "CORE", LISTED + "queue": [-1, 1, 1, 1]},
     "never_commits possible, never_acknowledges possible, acknowledges_one_by_one possible"),
])  # fmt: skip
def test_why_it_commits_nothing(values: Values, differs: str) -> None:
    poll = poll_with(uncommitted(), values)
    assert judged("open_transaction", poll) == with_states(
        WHY_IT_COMMITS_NOTHING, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "never_commits": "40 are acknowledged and uncommitted, the last 2 s ago",
        "never_acknowledges": "AMQP has transactions only",
        "acknowledges_one_by_one": "it speaks AMQP",
        "listener_hangs": "it goes on: 40 are acknowledged and uncommitted, the last 2 s ago",
    }),
    ({"consumer.protocol": "CORE"}, {
        "never_acknowledges": "Core shows it as a missing commit",
        "acknowledges_one_by_one": (
            "acknowledgements of at most 0.01 MiB were sent; by default they are sent at 1 MiB"
        ),
    }),
    ({"consumer.protocol": ""}, {
        "never_commits": "40 are acknowledged and uncommitted, the last 2 s ago; its protocol was not read",
        "never_acknowledges": "Core shows it as a missing commit; its protocol was not read",
        "acknowledges_one_by_one": (
            "acknowledgements of at most 0.01 MiB were sent; by default they are sent at 1 MiB; its "
            "protocol was not read"
        ),
    }),
    ({"consumer.protocol": "OPENWIRE"}, {
        "never_acknowledges": "OPENWIRE has transactions only",
        "acknowledges_one_by_one": "it speaks OPENWIRE",
    }),
    ({"snapshot.consumers.last_acknowledgement": NOW - 46}, {
        "listener_hangs": "40 are acknowledged and uncommitted, the last 2 s ago",
    }),
    ({"snapshot.consumers.last_acknowledgement": nan}, {
        "never_commits": (
            "40 are acknowledged and uncommitted, the last 2 s ago; when it acknowledged last was not "
            "read"
        ),
        "listener_hangs": (
            "40 are acknowledged and uncommitted, the last 2 s ago; when it acknowledged last was not "
            "read"
        ),
    }),
    ({LISTED + "last_acknowledgement": nan}, {
        "never_commits": "40 are acknowledged and uncommitted, the last at an unknown time",
        "listener_hangs": "it goes on: 40 are acknowledged and uncommitted, the last at an unknown time",
    }),
    ({LISTED + "last_acknowledgement": NOW - 0.25}, {
        "never_commits": "40 are acknowledged and uncommitted, the last 1 s ago",
        "listener_hangs": "it goes on: 40 are acknowledged and uncommitted, the last 1 s ago",
    }),
    ({LISTED + "last_acknowledgement": NOW + 9}, {
        "never_commits": "40 are acknowledged and uncommitted, the last 1 s ago",
        "listener_hangs": "it goes on: 40 are acknowledged and uncommitted, the last 1 s ago",
    }),
    ({LISTED + "last_acknowledgement": NOW - 90}, {
        "never_commits": "40 are acknowledged and uncommitted, the last 1 min 30 s ago",
        "listener_hangs": "it goes on: 40 are acknowledged and uncommitted, the last 1 min 30 s ago",
    }),
    ({STOPPED: NOW - 17}, {"listener_hangs": "40 are acknowledged and uncommitted, the last 2 s ago"}),
    ({"consumer.protocol": "CORE", IN_BYTES: 40 * MIB / 10}, {
        "never_acknowledges": "Core shows it as a missing commit",
        "acknowledges_one_by_one": (
            "acknowledgements of at most 0.50 MiB were sent; by default they are sent at 1 MiB"
        ),
    }),
    ({"consumer.protocol": "CORE", IN_BYTES: nan}, {
        "acknowledges_one_by_one": (
            "acknowledgements of at most an unknown number of bytes were sent; by default they are sent "
            "at 1 MiB; the bytes in delivery was not read"
        ),
    }),
    ({"consumer.protocol": "CORE", "snapshot.queues.delivering": nan}, {
        "acknowledges_one_by_one": (
            "acknowledgements of at most an unknown number of bytes were sent; by default they are sent "
            "at 1 MiB; the bytes in delivery was not read"
        ),
    }),
])  # fmt: skip
def test_why_it_commits_nothing_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(uncommitted(), values)
    found = told("open_transaction", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"snapshot.consumers.last_acknowledgement": NOW - 45},
    {LISTED + "last_acknowledgement": NOW - 2.5},
    {STOPPED: NOW - 18},
])  # fmt: skip
def test_why_it_commits_nothing_is_the_same(values: Values) -> None:
    poll = poll_with(uncommitted(), values)
    assert verdicts_of("open_transaction", poll) == verdicts_of(
        "open_transaction", uncommitted()
    )


WHY_IT_SETTLES_NOTHING_ON_OPENMQ = {
    "listener_hangs": "possible",
    "long_job": "possible",
    "never_receives": "possible",
    "never_acknowledges": "possible",
    "never_commits": "possible",
    "puback_missing": "excluded",
    "blocked_in_send": "possible",
    "outside": "possible",
    "frozen": "possible",
    "stomp_reader": "possible",
}
"""Its session acknowledges by the client."""


@pytest.mark.parametrize(("values", "differs"), [
    ({MODE: AcknowledgeMode.AUTO}, "never_acknowledges excluded"),
    ({MODE: AcknowledgeMode.DUPS_OK}, "never_acknowledges excluded"),
    ({MODE: AcknowledgeMode.TRANSACTED}, "never_acknowledges excluded"),
    ({MODE: AcknowledgeMode.NONE}, ""),
    ({MODE: nan}, ""),
    ({LISTED + "left": 7}, ""),
    ({"snapshot.consumers.flow_paused": 1}, ""),
    ({"consumer.remote_host": "h2"}, ""),
])  # fmt: skip
def test_why_it_settles_nothing_on_openmq(values: Values, differs: str) -> None:
    poll = poll_with(stalled_on_openmq(), values)
    assert judged("stalled", poll, kind="openmq") == with_states(
        WHY_IT_SETTLES_NOTHING_ON_OPENMQ, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "listener_hangs": "it took 20 messages and may ask for more; a thread dump shows whether it hangs",
        "long_job": "the broker shows it as it shows a hang: compare two thread dumps of the client",
        "never_receives": "it has taken 20 messages before, and may ask for no more since",
        "never_acknowledges": "its session acknowledges by the client",
        "never_commits": (
            "decidable when 1 MiB has been received or messages wait; an unknown number of bytes are "
            "buffered"
        ),
        "puback_missing": "it speaks CORE",
        "blocked_in_send": "no producer of its session is known to send to a full address",
        "outside": "against it: no other client stopped within 2 s of it",
        "frozen": "against it: none of 2 other consumers of its connection stopped with it",
        "stomp_reader": "the broker shows one as a JMS client of its own host; this one is on h",
    }),
    ({MODE: AcknowledgeMode.AUTO}, {"never_acknowledges": "its session does not acknowledge by the client"}),
    ({MODE: AcknowledgeMode.DUPS_OK}, {"never_acknowledges": "its session does not acknowledge by the client"}),
    ({MODE: AcknowledgeMode.NONE}, {"never_acknowledges": "its session has a mode that is not known"}),
    ({MODE: nan}, {
        "never_acknowledges": (
            "its session has a mode that is not known; the acknowledge mode of its session was not read"
        ),
    }),
    ({LISTED + "left": 7}, {
        "listener_hangs": "it took 7 messages and may ask for more; a thread dump shows whether it hangs",
        "never_receives": "it has taken 7 messages before, and may ask for no more since",
    }),
    ({"snapshot.consumers.flow_paused": 1}, {
        "listener_hangs": (
            "it took 20 messages and has asked for no more since it stopped; a thread dump shows "
            "whether it hangs"
        ),
    }),
    ({"consumer.remote_host": "h2"}, {
        "stomp_reader": "the broker shows one as a JMS client of its own host; this one is on h2",
    }),
])  # fmt: skip
def test_why_it_settles_nothing_on_openmq_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(stalled_on_openmq(), values)
    found = told("stalled", poll, kind="openmq")
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"snapshot.consumers.flow_paused": nan},
])  # fmt: skip
def test_why_it_settles_nothing_on_openmq_is_the_same(values: Values) -> None:
    poll = poll_with(stalled_on_openmq(), values)
    assert verdicts_of("stalled", poll, kind="openmq") == verdicts_of(
        "stalled", stalled_on_openmq(), kind="openmq"
    )


def test_at_most_three_clients_are_named() -> None:
    consumers = CONSUMERS | {"g": {"T": 1.0, "N": 1.0, "queue": "r"}}
    poll = polled(Judged(), QUEUES, consumers)
    stopped = poll_with(
        poll, {STOPPED: NOW - 320, "consumer.client": ["app", "b", "c", "d", "e"]}
    )
    assert told("stalled", stopped)["outside"] == "b, c, d stopped within 2 s of it"
