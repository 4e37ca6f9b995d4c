"""Why deliveries come back, end in the dead letters or expire: by the numbers of one poll, and by their bounds."""

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
from conditions.pairs import NOW, polled, two_consumers
from conditions.world import Judged
from penstock.model import AcknowledgeMode, LeftOut
from penstock.observation.poll import RuleInputs

ATTEMPTS = "snapshot.addresses.max_delivery_attempts"
KILLS = "snapshot.addresses.slow_consumer_kills"
SLOW = "snapshot.addresses.slow_consumer_rate"
FULL = "snapshot.addresses.limit_percent"
MODE = "snapshot.consumers.acknowledge_mode"
TRANSACTED, AUTO, CLIENT = (
    AcknowledgeMode.TRANSACTED,
    AcknowledgeMode.AUTO,
    AcknowledgeMode.CLIENT,
)
LEFT_OUT = (LeftOut("queues", 1, 2),)


# --- deliveries that come back


@cache
def releases() -> RuleInputs:
    """Two consumers of AMQP, which stayed, release messages: more than the queue has."""
    return poll_with(two_consumers(), {
        "consumer.protocol": "AMQP", "unacked.seen_since": NOW - 100,
        "returns.returned": 40, "returns.delivered": 50, "returns.settled": 4,
        "snapshot.queues.messages": 10, "snapshot.queues.added": 100,
        "snapshot.queues.acknowledge_attempts": 4, "found.settled": 4,
        "found.consumer.held": 0, "found.ready": 5, "found.consumer.delivered": 9,
    })  # fmt: skip


def went(given: float, began: float, last: float = NOW - 10) -> dict[str, float]:
    """Consumers went with so many messages in hand; the first of them so many seconds ago."""
    return {
        "lost.amount": given + 7,
        "lost.began": 7,
        "lost.since": NOW - began,
        "lost.last": last,
    }


# --- what was killed


QUEUES = {
    "q": {"A": 100.0, "M": 20.0, "D": 10.0, "dead_letter_address": "dead"},
    "dead": {"A": 40.0, "M": 40.0},
    "r": {"A": 9.0, "M": 9.0, "dead_letter_address": "dead"},
    "s": {"A": 9.0, "M": 9.0},
}
IN = "trend.0"
EXPIRED = "trend.3"
KILLED = "trend.4"


@cache
def dies() -> RuleInputs:
    """40 were killed and came to the dead letters, after ten deliveries each."""
    consumers = {"c": {"T": 10.0, "N": 10.0}}
    addresses = {
        "q": {"max_delivery_attempts": 10.0, "slow_consumer_kills": 0.0},
        "dead": {"limit_percent": 99.0},
    }
    poll = polled(Judged(), QUEUES, consumers, addresses=addresses)
    return poll_with(poll, {
        "queue.purge_on_no_consumers": False, "queue.auto_delete": False,
        "unacked.seen_since": NOW - 100,
        "returns.killed": 40, "returns.delivered": 404, "returns.settled": 4, "returns.returned": 400,
        KILLED: [40, 0, 0, 0], IN: [0, 40, 0, 0],
    })  # fmt: skip


@cache
def purges() -> RuleInputs:
    """40 were killed of which none was delivered, and no dead letter came."""
    return poll_with(dies(), {"returns.delivered": 4, "returns.returned": 0, IN: 0})


@cache
def loses_some() -> RuleInputs:
    """40 were killed; too few dead letters came for all of them, and too many for none."""
    return poll_with(dies(), {IN: [0, 30, 0, 0], "consumer.protocol": "AMQP"})


# --- what expires


@cache
def expires() -> RuleInputs:
    """40 expired of 100 that wait for 100 s each; no expiry-delay is set."""
    return poll_with(dies(), {
        EXPIRED: [40, 0, 0, 0],
        "found.added": 1000, "found.messages": 100, "found.settled": 400, "found.killed": 100, "found.expired": 400,
        "snapshot.queues.messages": 100, "trend.rate_in": 1, "found.ready": 100,
    })  # fmt: skip


@cache
def openmq_loop() -> RuleInputs:
    """Of two transacted sessions."""
    modes = {"acknowledge_mode": TRANSACTED}
    consumers = {"c": {"T": 10.0, "N": 10.0} | modes, "d": {"T": 0.0, "N": 0.0} | modes}
    poll = polled(OpenmqJudged(), {"q": {"A": 20.0, "M": 20.0, "D": 10.0}}, consumers)
    return poll_with(poll, {"returns.returned": 40, "returns.settled": 4})


WHAT_COMES_BACK = {
    "releases": "proven",
    "undeliverable_here": "excluded",
    "rolls_back": "excluded",
    "recovers": "excluded",
    "listener_fails": "excluded",
    "reconnects": "excluded",
}
"""All of it is released."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"consumer.protocol": ["AMQP", "CORE"]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": ["AMQP", ""]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": ""}, "releases possible, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": "CORE"},
     "releases excluded, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": ["CORE", ""]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": "STOMP"}, "releases excluded, rolls_back possible, listener_fails possible"),
    ({"consumer.protocol": "MQTT5"}, "releases excluded, listener_fails possible"),
    ({"consumer.protocol": "OPENWIRE"},
     "releases excluded, rolls_back possible, recovers possible, listener_fails possible"),
    ({"consumer.protocol": ["STOMP", "MQTT"]}, "releases excluded, rolls_back possible, listener_fails possible"),
    ({"consumer.protocol": ["AMQP", "MQTT"]}, "releases possible, rolls_back possible, listener_fails possible"),
    # no attempt to acknowledge failed
    ({"snapshot.queues.acknowledge_attempts": 5}, "releases possible, rolls_back possible, listener_fails possible"),
    ({"snapshot.queues.acknowledge_attempts": nan},
     "releases possible, rolls_back possible, listener_fails possible"),
    ({"found.settled": nan}, "releases possible, rolls_back possible, listener_fails possible"),
    # the consumers are others than those of the whole window
    ({"unacked.seen_since": [NOW - 89, NOW - 100]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 200, NOW - 89]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 100, nan]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"snapshot.queues.consumers": 3},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"found.counted": False},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"left_out": LEFT_OUT},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 100, nan], "consumer.protocol": "CORE"},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 89, NOW - 100], "consumer.protocol": "CORE"},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 89, NOW - 100], "consumer.protocol": "MQTT"},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"found.consumer.queue": -1},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"found.consumer.queue": [0, -1], "consumer.protocol": ["AMQP", "CORE"]},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"unacked.seen_since": [NOW - 89, NOW - 100], "snapshot.queues.acknowledge_attempts": nan},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    # a consumer gets a message that it set down no more
    ({"returns.returned": 14, "found.consumer.queue": -1, "snapshot.queues.added": 0.5},
     ("releases possible, undeliverable_here possible, rolls_back possible, recovers possible, "
      "listener_fails possible, reconnects possible")),
    ({"returns.returned": 29}, ""),
    ({"returns.returned": 28}, "undeliverable_here possible*"),
    ({"returns.returned": 28, "consumer.protocol": "CORE"},
     "releases excluded, rolls_back possible, recovers possible, listener_fails possible"),
    ({"returns.returned": 28, "found.ready": 1}, "undeliverable_here possible*"),
    ({"returns.returned": 28, "found.ready": 0}, "undeliverable_here possible"),
    ({"returns.returned": 28, "found.consumer.held": [0, 1]}, "undeliverable_here possible"),
    ({"returns.returned": 28, "found.consumer.delivered": [3, 200]}, ""),
    ({"returns.returned": 28, "found.consumer.delivered": [3, 199]}, "undeliverable_here possible*"),
    ({"returns.returned": 28, "found.consumer.delivered": [3, 150], "snapshot.queues.added": 75}, ""),
    ({"returns.returned": 28, "snapshot.queues.added": nan}, "undeliverable_here possible*"),
    ({"returns.returned": 28, "snapshot.queues.messages": nan}, "undeliverable_here possible*"),
    ({"snapshot.queues.messages": nan}, "undeliverable_here possible*"),
    ({"returns.returned": 14, "found.consumer.queue": -1},
     ("releases possible, undeliverable_here possible, rolls_back possible, recovers possible, "
      "listener_fails possible, reconnects possible")),
    ({"returns.returned": 15, "found.consumer.queue": -1},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    ({"returns.returned": 14, "found.consumer.queue": -1, "snapshot.queues.added": 0},
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    # they gave back as many themselves
    ({"returns.delivered": 43}, "reconnects possible"),
    ({"returns.returned": 0}, "undeliverable_here possible*, reconnects possible"),
    ({"returns.returned": 1}, "undeliverable_here possible*"),
    # consumers went with messages in hand
    (went(23, 45),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(22, 45),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    (went(46, 180),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(45, 180),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible"),
    (went(46, 90),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(46, 0),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(46, 15),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(46, 16),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
    (went(46, 45, NOW - 90),
     "releases possible, rolls_back possible, recovers possible, listener_fails possible, reconnects possible*"),
])  # fmt: skip
def test_what_comes_back(values: Values, differs: str) -> None:
    poll = poll_with(releases(), values)
    assert judged("redelivery_loop", poll) == with_states(WHAT_COMES_BACK, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "releases": "40 came back, 4 were settled",
        "undeliverable_here": "the same messages came back more than once",
        "rolls_back": "no attempt to acknowledge failed",
        "recovers": "they know no recover()",
        "listener_fails": "no attempt to acknowledge failed",
        "reconnects": "its consumers stayed, and gave back as many themselves",
    }),
    ({"consumer.protocol": ["AMQP", "CORE"]}, {
        "rolls_back": "40 came back, 4 were settled",
        "recovers": "40 came back, 4 were settled",
        "listener_fails": "40 came back, 4 were settled",
    }),
    ({"consumer.protocol": ["AMQP", ""]}, {
        "releases": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "rolls_back": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "recovers": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "listener_fails": "40 came back, 4 were settled; the protocol of its consumers was not read",
    }),
    ({"consumer.protocol": ""}, {
        "releases": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "rolls_back": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "recovers": "40 came back, 4 were settled; the protocol of its consumers was not read",
        "listener_fails": "40 came back, 4 were settled; the protocol of its consumers was not read",
    }),
    ({"consumer.protocol": "CORE"}, {
        "releases": "no consumer speaks AMQP",
        "undeliverable_here": "no consumer speaks AMQP",
        "rolls_back": "40 came back, 4 were settled",
        "recovers": "40 came back, 4 were settled",
        "listener_fails": "40 came back, 4 were settled",
    }),
    ({"consumer.protocol": "STOMP"}, {
        "releases": "no consumer speaks AMQP",
        "undeliverable_here": "no consumer speaks AMQP",
    }),
    ({"consumer.protocol": "MQTT5"}, {"rolls_back": "they speak MQTT"}),
    ({"snapshot.queues.acknowledge_attempts": nan}, {
        "releases": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
        "rolls_back": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
        "listener_fails": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
    }),
    ({"found.settled": nan}, {
        "releases": "40 came back, 4 were settled; what AcknowledgeAttempts is compared with was not read",
        "rolls_back": "40 came back, 4 were settled; what AcknowledgeAttempts is compared with was not read",
        "listener_fails": "40 came back, 4 were settled; what AcknowledgeAttempts is compared with was not read",
    }),
    ({"unacked.seen_since": [NOW - 89, NOW - 100]}, {"reconnects": ""}),
    ({"unacked.seen_since": [NOW - 200, NOW - 89]}, {"reconnects": ""}),
    ({"unacked.seen_since": [NOW - 100, nan]}, {
        "reconnects": "since when each of its consumers is there was not read",
    }),
    ({"snapshot.queues.consumers": 3}, {
        "reconnects": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"found.counted": False}, {"reconnects": "what each consumer buffers was not read"}),
    ({"left_out": LEFT_OUT}, {
        "reconnects": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"unacked.seen_since": [NOW - 100, nan], "consumer.protocol": "CORE"}, {
        "reconnects": "since when each of its consumers is there was not read",
    }),
    ({"unacked.seen_since": [NOW - 89, NOW - 100], "snapshot.queues.acknowledge_attempts": nan}, {
        "releases": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
        "rolls_back": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
        "recovers": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
        "listener_fails": "40 came back, 4 were settled; AcknowledgeAttempts was not read",
    }),
    ({"returns.returned": 14, "found.consumer.queue": -1, "snapshot.queues.added": 0.5}, {
        "undeliverable_here": (
            "14 came back, and 5 wait that may have been refused; the protocol of its consumers was not "
            "read"
        ),
    }),
    ({"returns.returned": 29}, {"releases": "29 came back, 4 were settled"}),
    ({"returns.returned": 28}, {
        "releases": "28 came back, 4 were settled",
        "undeliverable_here": "28 came back, and 5 wait that may have been refused",
    }),
    ({"returns.returned": 28, "found.ready": 1}, {
        "undeliverable_here": "28 came back, and 1 wait that may have been refused",
    }),
    ({"returns.returned": 28, "found.consumer.delivered": [3, 200]}, {"releases": "28 came back, 4 were settled"}),
    ({"returns.returned": 28, "found.consumer.delivered": [3, 150], "snapshot.queues.added": 75}, {
        "releases": "28 came back, 4 were settled",
    }),
    ({"returns.returned": 28, "snapshot.queues.added": nan}, {
        "undeliverable_here": (
            "28 came back, and 5 wait that may have been refused; what ever came to the queue was not "
            "read"
        ),
    }),
    ({"returns.returned": 28, "snapshot.queues.messages": nan}, {
        "undeliverable_here": (
            "28 came back, and 5 wait that may have been refused; the number of its messages was not "
            "read"
        ),
    }),
    ({"snapshot.queues.messages": nan}, {
        "undeliverable_here": (
            "40 came back, and 5 wait that may have been refused; the number of its messages was not "
            "read"
        ),
    }),
    ({"returns.returned": 14, "found.consumer.queue": -1}, {
        "undeliverable_here": (
            "14 came back, and 5 wait that may have been refused; the protocol of its consumers was not "
            "read"
        ),
    }),
    (went(23, 45), {"reconnects": "within 45 s consumers went with 23 unacknowledged messages"}),
    (went(22, 45), {"reconnects": "within 45 s consumers went with 22 unacknowledged messages"}),
    (went(46, 180), {"reconnects": "within 3 min consumers went with 46 unacknowledged messages"}),
    (went(45, 180), {"reconnects": "within 3 min consumers went with 45 unacknowledged messages"}),
    (went(46, 90), {"reconnects": "within 1 min 30 s consumers went with 46 unacknowledged messages"}),
])  # fmt: skip
def test_what_comes_back_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(releases(), values)
    found = told("redelivery_loop", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"unacked.seen_since": [NOW - 90, NOW - 100]},
    {"unacked.seen_since": NOW - 50},
    {"snapshot.queues.added": nan},
    {"returns.delivered": 44},
    went(46, 45, NOW - 91),
    went(46, 45, nan),
])  # fmt: skip
def test_what_comes_back_is_the_same(values: Values) -> None:
    poll = poll_with(releases(), values)
    assert verdicts_of("redelivery_loop", poll) == verdicts_of(
        "redelivery_loop", releases()
    )


WHAT_COMES_BACK_ON_OPENMQ = {
    "rolls_back": "possible",
    "recovers": "excluded",
    "listener_fails": "possible",
}
"""All of it is rolled back."""


@pytest.mark.parametrize(("values", "differs"), [
    ({MODE: CLIENT}, "rolls_back excluded, recovers possible"),
    ({MODE: [TRANSACTED, AUTO]}, "recovers possible"),
    ({MODE: [TRANSACTED, nan]}, "recovers possible"),
    ({MODE: [nan, CLIENT]}, "recovers possible"),
    ({"snapshot.queues.consumers": 3}, "recovers possible"),
    ({"found.consumer.queue": -1}, "recovers possible"),
    ({"snapshot.consumers": None}, "recovers possible"),
    ({"returns.returned": 5, "returns.settled": 2}, ""),
    ({"found.consumer.queue": [0, -1], MODE: [TRANSACTED, AUTO]}, "recovers possible"),
    ({"found.consumer.queue": [-1, 0], MODE: [TRANSACTED, AUTO], "snapshot.queues.consumers": 1},
     "rolls_back excluded, recovers possible"),
])  # fmt: skip
def test_what_comes_back_on_openmq(values: Values, differs: str) -> None:
    poll = poll_with(openmq_loop(), values)
    assert judged("redelivery_loop", poll, kind="openmq") == with_states(
        WHAT_COMES_BACK_ON_OPENMQ, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "rolls_back": "40 came back, 4 were settled",
        "recovers": "all sessions are transacted, which have no recover()",
        "listener_fails": "40 came back, 4 were settled",
    }),
    ({MODE: CLIENT}, {
        "rolls_back": "no session is transacted",
        "recovers": "40 came back, 4 were settled",
    }),
    ({MODE: [TRANSACTED, AUTO]}, {"recovers": "40 came back, 4 were settled"}),
    ({MODE: [TRANSACTED, nan]}, {
        "rolls_back": "40 came back, 4 were settled; the acknowledge mode of its sessions was not read",
        "recovers": "40 came back, 4 were settled; the acknowledge mode of its sessions was not read",
    }),
    ({MODE: [nan, CLIENT]}, {
        "rolls_back": "40 came back, 4 were settled; the acknowledge mode of its sessions was not read",
        "recovers": "40 came back, 4 were settled; the acknowledge mode of its sessions was not read",
    }),
    ({"returns.returned": 5, "returns.settled": 2}, {
        "rolls_back": "5 came back, 2 were settled",
        "listener_fails": "5 came back, 2 were settled",
    }),
    ({"found.consumer.queue": [-1, 0], MODE: [TRANSACTED, AUTO], "snapshot.queues.consumers": 1}, {
        "rolls_back": "no session is transacted",
    }),
])  # fmt: skip
def test_what_comes_back_on_openmq_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(openmq_loop(), values)
    found = told("redelivery_loop", poll, kind="openmq")
    assert found == found | facts


WHAT_WAS_KILLED = {
    "attempts_used_up": "proven",
    "rejected": "excluded",
    "slow_consumer_killed": "excluded",
    "purged": "excluded",
    "purge_on_no_consumers": "excluded",
    "reconnects": "excluded",
}
"""All attempts were used up."""


@pytest.mark.parametrize(("values", "differs"), [
    # as many came to the dead letters
    ({IN: [0, 39, 0, 0]}, "attempts_used_up possible, purged possible"),
    ({IN: [0, 20, 0, 0]}, "attempts_used_up possible, purged possible"),
    ({IN: [0, 19, 0, 0]}, "attempts_used_up excluded, purged proven"),
    ({IN: [0, 41, 0, 0]}, ""),
    ({IN: [0, 0, 90, 90]}, "attempts_used_up excluded, purged proven"),
    ({KILLED: [40, 0, 1, 0]}, "attempts_used_up possible, purged possible"),
    ({KILLED: [40, 0, 1, 0], IN: [0, 41, 0, 0]}, ""),
    ({KILLED: [41, 0, 0, 0]}, "attempts_used_up possible, purged possible"),
    ({KILLED: [80, 0, 0, 0]}, "attempts_used_up possible, purged possible"),
    ({KILLED: [81, 0, 0, 0]}, "attempts_used_up excluded, purged proven"),
    ({"left_out": LEFT_OUT}, "attempts_used_up possible, purged possible, reconnects possible"),
    ({"queue.dead_letter_address": ""}, "attempts_used_up possible, purged possible"),
    ({"queue.dead_letter_address": "other"}, "attempts_used_up possible, purged possible"),
    ({IN: [0, 19, 0, 0], FULL: 100}, "attempts_used_up possible, purged possible"),
    ({IN: [0, 19, 0, 0], FULL: 99.5}, "attempts_used_up excluded, purged proven"),
    ({IN: [0, 19, 0, 0], FULL: nan}, "attempts_used_up possible, purged possible"),
    ({IN: [0, 19, 0, 0], "snapshot.addresses": None},
     "attempts_used_up possible, slow_consumer_killed possible, purged possible, reconnects possible"),
    # after all attempts
    ({"returns.delivered": 403}, "attempts_used_up possible, reconnects possible"),
    ({"returns.delivered": 3, "returns.settled": 4}, "attempts_used_up possible, reconnects possible"),
    ({"returns.killed": 41}, "attempts_used_up possible, reconnects possible"),
    ({"returns.delivered": 405}, ""),
    ({ATTEMPTS: nan}, "attempts_used_up possible, reconnects possible"),
    ({ATTEMPTS: -1}, "attempts_used_up possible, reconnects possible"),
    ({ATTEMPTS: 0}, "attempts_used_up possible, reconnects possible"),
    # by clients that reject
    ({"returns.delivered": 44}, "attempts_used_up possible, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP"},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 43, "consumer.protocol": "AMQP"},
     "attempts_used_up possible, rejected possible, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "STOMP"},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "OPENWIRE"},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "MQTT"}, "attempts_used_up possible, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": ""},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 403, "consumer.protocol": "AMQP"},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP", ATTEMPTS: 1}, "rejected possible"),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP", ATTEMPTS: 2},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP", ATTEMPTS: -1},
     "attempts_used_up possible, rejected possible, reconnects possible"),
    ({"returns.delivered": 6, "returns.killed": 1, "consumer.protocol": "AMQP"},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"returns.delivered": 44, "returns.killed": 0, "consumer.protocol": "AMQP"}, ""),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP", IN: [0, 39, 0, 0]},
     "attempts_used_up possible, rejected possible, purged possible, reconnects possible"),
    # by a broker that closes slow consumers
    ({KILLS: 1, SLOW: 5.125}, "slow_consumer_killed possible*"),
    ({KILLS: nan, SLOW: 5}, "slow_consumer_killed possible"),
    ({KILLS: 1, SLOW: nan, "snapshot.addresses.settings_stamp": nan},
     "attempts_used_up possible, slow_consumer_killed possible, reconnects possible"),
    ({KILLS: 1, SLOW: 5, IN: [0, 19, 0, 0]}, "attempts_used_up excluded, purged proven"),
    # by consumers that went
    (went(200, 45), "reconnects possible*"),
    (went(199, 45), "reconnects possible"),
    (went(1, 45), "reconnects possible"),
    ({"unacked.seen_since": nan}, "reconnects possible"),
    ({"snapshot.queues.consumers": 2}, "reconnects possible"),
    ({"snapshot.queues.consumers": 2, "returns.delivered": 403},
     "attempts_used_up possible, rejected possible*, reconnects possible"),
    ({"found.consumer.queue": -1}, "reconnects possible"),
    # by a purge of its own setting
    ({"queue.purge_on_no_consumers": True}, ""),
    ({"queue.auto_delete": True}, ""),
    ({"queue.purge_on_no_consumers": None}, ""),
])  # fmt: skip
def test_what_was_killed(values: Values, differs: str) -> None:
    poll = poll_with(dies(), values)
    assert judged("dead_lettering", poll) == with_states(WHAT_WAS_KILLED, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 40 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 40 dead letters came",
        "slow_consumer_killed": "the broker closes no slow consumer",
        "purged": (
            "as many went to the dead letters: 40 were killed, 400 deliveries were not settled, 40 dead "
            "letters came"
        ),
        "purge_on_no_consumers": "neither purge-on-no-consumers nor auto-delete is set",
        "reconnects": "its consumers stayed, and used up all attempts themselves",
    }),
    ({IN: [0, 39, 0, 0]}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 39 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 39 dead letters came",
        "purged": "40 were killed, 400 deliveries were not settled, 39 dead letters came",
    }),
    ({IN: [0, 20, 0, 0]}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 20 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 20 dead letters came",
        "purged": "40 were killed, 400 deliveries were not settled, 20 dead letters came",
    }),
    ({IN: [0, 19, 0, 0]}, {"reconnects": "40 were killed, 400 deliveries were not settled, 19 dead letters came"}),
    ({IN: [0, 41, 0, 0]}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 41 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 41 dead letters came",
        "purged": (
            "as many went to the dead letters: 40 were killed, 400 deliveries were not settled, 41 dead "
            "letters came"
        ),
    }),
    ({IN: [0, 0, 90, 90]}, {"reconnects": "40 were killed, 400 deliveries were not settled, 0 dead letters came"}),
    ({KILLED: [40, 0, 1, 0], IN: [0, 41, 0, 0]}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 41 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 41 dead letters came",
        "purged": (
            "as many went to the dead letters: 40 were killed, 400 deliveries were not settled, 41 dead "
            "letters came"
        ),
    }),
    ({"left_out": LEFT_OUT}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read"
        ),
        "rejected": "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came",
        "purged": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read"
        ),
        "reconnects": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"queue.dead_letter_address": ""}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
        "rejected": "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came",
        "purged": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
    }),
    ({"queue.dead_letter_address": "other"}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
        "purged": (
            "40 were killed, 400 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
    }),
    ({IN: [0, 19, 0, 0], FULL: nan}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, 19 dead letters came; how full the "
            "dead-letter address is was not read"
        ),
        "purged": (
            "40 were killed, 400 deliveries were not settled, 19 dead letters came; how full the "
            "dead-letter address is was not read"
        ),
    }),
    ({IN: [0, 19, 0, 0], "snapshot.addresses": None}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, 19 dead letters came; how full the "
            "dead-letter address is was not read"
        ),
        "slow_consumer_killed": (
            "slow-consumer-policy was not read; slow-consumer-threshold was not read; how full the "
            "dead-letter address is was not read"
        ),
        "purged": (
            "40 were killed, 400 deliveries were not settled, 19 dead letters came; how full the "
            "dead-letter address is was not read"
        ),
        "reconnects": "how full the dead-letter address is was not read; max-delivery-attempts was not read",
    }),
    ({"returns.delivered": 403}, {"reconnects": ""}),
    ({"returns.delivered": 3, "returns.settled": 4}, {"reconnects": ""}),
    ({"returns.delivered": 405}, {
        "attempts_used_up": "40 were killed, 401 deliveries were not settled, 40 dead letters came",
        "rejected": "40 were killed, 401 deliveries were not settled, 40 dead letters came",
        "purged": (
            "as many went to the dead letters: 40 were killed, 401 deliveries were not settled, 40 dead "
            "letters came"
        ),
    }),
    ({ATTEMPTS: nan}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, 40 dead letters came; "
            "max-delivery-attempts was not read"
        ),
        "reconnects": "max-delivery-attempts was not read",
    }),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP"}, {"rejected": "40 deliveries for 40 dead letters"}),
    ({"returns.delivered": 43, "consumer.protocol": "AMQP"}, {"rejected": ""}),
    ({"returns.delivered": 44, "consumer.protocol": "STOMP"}, {"rejected": "40 deliveries for 40 dead letters"}),
    ({"returns.delivered": 44, "consumer.protocol": ""}, {
        "rejected": "40 deliveries for 40 dead letters; the protocol of its consumers was not read",
    }),
    ({"returns.delivered": 44, "consumer.protocol": "AMQP", ATTEMPTS: 1}, {"rejected": ""}),
    ({"returns.delivered": 44, "returns.killed": 0, "consumer.protocol": "AMQP"}, {
        "attempts_used_up": "0 were killed, 40 deliveries were not settled, 40 dead letters came",
        "rejected": "0 were killed, 40 deliveries were not settled, 40 dead letters came",
        "purged": (
            "as many went to the dead letters: 0 were killed, 40 deliveries were not settled, 40 dead "
            "letters came"
        ),
    }),
    ({KILLS: 1, SLOW: 5.125}, {"slow_consumer_killed": "the broker closes consumers below 5.12 messages a second"}),
    ({KILLS: nan, SLOW: 5}, {"slow_consumer_killed": "slow-consumer-policy was not read"}),
    ({KILLS: 1, SLOW: nan, "snapshot.addresses.settings_stamp": nan}, {
        "attempts_used_up": (
            "40 were killed, 400 deliveries were not settled, 40 dead letters came; the settings of its "
            "address: last read at an unknown time"
        ),
        "slow_consumer_killed": (
            "the settings of its address: last read at an unknown time; slow-consumer-threshold was not "
            "read"
        ),
        "reconnects": "the settings of its address: last read at an unknown time",
    }),
    ({KILLS: 1, SLOW: 5, IN: [0, 19, 0, 0]}, {
        "slow_consumer_killed": "40 were killed, 400 deliveries were not settled, 19 dead letters came",
    }),
    (went(200, 45), {"reconnects": "within 45 s consumers went with 200 unacknowledged messages"}),
    (went(199, 45), {"reconnects": "within 45 s consumers went with 199 unacknowledged messages"}),
    ({"unacked.seen_since": nan}, {"reconnects": "since when each of its consumers is there was not read"}),
    ({"snapshot.queues.consumers": 2}, {
        "reconnects": "what consumers want that are not listed, as those of a bridge, was not read",
    }),
    ({"queue.purge_on_no_consumers": True}, {
        "purge_on_no_consumers": "40 were killed, 400 deliveries were not settled, 40 dead letters came",
    }),
    ({"queue.auto_delete": True}, {
        "purge_on_no_consumers": "40 were killed, 400 deliveries were not settled, 40 dead letters came",
    }),
    ({"queue.purge_on_no_consumers": None}, {
        "purge_on_no_consumers": "40 were killed, 400 deliveries were not settled, 40 dead letters came",
    }),
])  # fmt: skip
def test_what_was_killed_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(dies(), values)
    found = told("dead_lettering", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {KILLED: [40, 9, 0, 9]},
    {KILLED: [nan, 0, 0, 0]},
    {"queue.address": ["q", "dead", "dead", "s"], IN: [0, 20, 20, 0]},
    {ATTEMPTS: 1},
    {ATTEMPTS: 2},
    {"consumer.protocol": "AMQP"},
    {KILLS: 1},
])  # fmt: skip
def test_what_was_killed_is_the_same(values: Values) -> None:
    poll = poll_with(dies(), values)
    assert verdicts_of("dead_lettering", poll) == verdicts_of("dead_lettering", dies())


WHAT_WAS_KILLED_WITHOUT_A_DELIVERY = {
    "attempts_used_up": "excluded",
    "rejected": "excluded",
    "slow_consumer_killed": "excluded",
    "purged": "proven",
    "purge_on_no_consumers": "excluded",
    "reconnects": "excluded",
}
"""It was purged."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"queue.purge_on_no_consumers": True}, "purge_on_no_consumers possible*"),
    ({"queue.auto_delete": True}, "purge_on_no_consumers possible"),
    ({"queue.purge_on_no_consumers": None}, "purge_on_no_consumers possible"),
    ({"queue.auto_delete": None}, "purge_on_no_consumers possible"),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": True}, "purge_on_no_consumers possible"),
    ({"queue.purge_on_no_consumers": True, "queue.auto_delete": True}, "purge_on_no_consumers possible*"),
    ({FULL: 100}, "attempts_used_up possible, purged possible, reconnects possible"),
    ({FULL: 100, "queue.purge_on_no_consumers": True},
     "attempts_used_up possible, purged possible, purge_on_no_consumers possible*, reconnects possible"),
    ({"queue.dead_letter_address": ""}, "attempts_used_up possible, purged possible, reconnects possible"),
    ({FULL: 100, "consumer.protocol": "AMQP"},
     "attempts_used_up possible, rejected possible, purged possible, reconnects possible"),
    ({KILLS: 1, SLOW: 5}, ""),
    ({FULL: 100, KILLS: 1, SLOW: 5},
     "attempts_used_up possible, slow_consumer_killed possible*, purged possible, reconnects possible"),
    (went(9, 45), "reconnects possible*"),
    ({FULL: 100, KILLS: nan}, "attempts_used_up possible, purged possible, reconnects possible"),
])  # fmt: skip
def test_what_was_killed_without_a_delivery(values: Values, differs: str) -> None:
    poll = poll_with(purges(), values)
    assert judged("dead_lettering", poll) == with_states(
        WHAT_WAS_KILLED_WITHOUT_A_DELIVERY, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "attempts_used_up": "40 were killed, 0 deliveries were not settled, 0 dead letters came",
        "rejected": "40 were killed, 0 deliveries were not settled, 0 dead letters came",
        "slow_consumer_killed": "the broker closes no slow consumer",
        "purged": "40 were killed, 0 deliveries were not settled, 0 dead letters came",
        "purge_on_no_consumers": "neither purge-on-no-consumers nor auto-delete is set",
        "reconnects": "40 were killed, 0 deliveries were not settled, 0 dead letters came",
    }),
    ({"queue.purge_on_no_consumers": True}, {
        "purge_on_no_consumers": "the queue has purge-on-no-consumers: it is purged when its last consumer goes",
    }),
    ({"queue.auto_delete": True}, {
        "purge_on_no_consumers": "the queue has auto-delete: it may be deleted when its last consumer goes",
    }),
    ({"queue.purge_on_no_consumers": None}, {"purge_on_no_consumers": "purge-on-no-consumers was not read"}),
    ({"queue.auto_delete": None}, {"purge_on_no_consumers": "auto-delete was not read"}),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": True}, {
        "purge_on_no_consumers": "the queue has auto-delete: it may be deleted when its last consumer goes",
    }),
    ({"queue.purge_on_no_consumers": True, "queue.auto_delete": True}, {
        "purge_on_no_consumers": "the queue has purge-on-no-consumers: it is purged when its last consumer goes",
    }),
    ({FULL: 100}, {"reconnects": ""}),
    ({FULL: 100, "queue.purge_on_no_consumers": True}, {"reconnects": ""}),
    ({"queue.dead_letter_address": ""}, {
        "attempts_used_up": (
            "40 were killed, 0 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
        "rejected": "40 were killed, 0 deliveries were not settled, an unknown number of dead letters came",
        "purged": (
            "40 were killed, 0 deliveries were not settled, an unknown number of dead letters came; "
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
        "reconnects": (
            "what came to its dead-letter address was not read; how full the dead-letter address is was "
            "not read"
        ),
    }),
    ({FULL: 100, "consumer.protocol": "AMQP"}, {"rejected": ""}),
    ({KILLS: 1, SLOW: 5}, {
        "slow_consumer_killed": "40 were killed, 0 deliveries were not settled, 0 dead letters came",
    }),
    ({FULL: 100, KILLS: 1, SLOW: 5}, {
        "slow_consumer_killed": "the broker closes consumers below 5 messages a second",
    }),
    (went(9, 45), {"reconnects": "within 45 s consumers went with 9 unacknowledged messages"}),
])  # fmt: skip
def test_what_was_killed_without_a_delivery_is_told(
    values: Values, facts: Facts
) -> None:
    poll = poll_with(purges(), values)
    found = told("dead_lettering", poll)
    assert found == found | facts


OF_WHAT_WAS_KILLED_SOME_CAME_TO_THE_DEAD_LETTERS = {
    "attempts_used_up": "possible",
    "rejected": "excluded",
    "slow_consumer_killed": "excluded",
    "purged": "possible",
    "purge_on_no_consumers": "excluded",
    "reconnects": "excluded",
}
"""Attempts may have been used up."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"returns.delivered": 44}, "rejected possible, reconnects possible"),
    ({KILLS: 1, SLOW: 5}, "slow_consumer_killed possible*"),
    ({"queue.purge_on_no_consumers": True}, "purge_on_no_consumers possible*"),
    ({"queue.purge_on_no_consumers": None}, "purge_on_no_consumers possible"),
    ({"queue.auto_delete": True}, "purge_on_no_consumers possible"),
    ({"found.counted": False}, "reconnects possible"),
    (went(9, 45), "reconnects possible"),
    ({ATTEMPTS: nan}, "rejected possible, reconnects possible"),
    ({ATTEMPTS: 1, "returns.delivered": 44}, "rejected possible"),
    ({"unacked.seen_since": nan, ATTEMPTS: nan}, "rejected possible, reconnects possible"),
])  # fmt: skip
def test_of_what_was_killed_some_came_to_the_dead_letters(
    values: Values, differs: str
) -> None:
    poll = poll_with(loses_some(), values)
    assert judged("dead_lettering", poll) == with_states(
        OF_WHAT_WAS_KILLED_SOME_CAME_TO_THE_DEAD_LETTERS, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "attempts_used_up": "40 were killed, 400 deliveries were not settled, 30 dead letters came",
        "rejected": "40 were killed, 400 deliveries were not settled, 30 dead letters came",
        "slow_consumer_killed": "the broker closes no slow consumer",
        "purged": "40 were killed, 400 deliveries were not settled, 30 dead letters came",
        "purge_on_no_consumers": "neither purge-on-no-consumers nor auto-delete is set",
        "reconnects": "its consumers stayed, and used up all attempts themselves",
    }),
    ({"returns.delivered": 44}, {
        "attempts_used_up": "40 were killed, 40 deliveries were not settled, 30 dead letters came",
        "rejected": "",
        "purged": "40 were killed, 40 deliveries were not settled, 30 dead letters came",
        "reconnects": "",
    }),
    ({KILLS: 1, SLOW: 5}, {"slow_consumer_killed": "the broker closes consumers below 5 messages a second"}),
    ({"queue.purge_on_no_consumers": True}, {
        "purge_on_no_consumers": "the queue has purge-on-no-consumers: it is purged when its last consumer goes",
    }),
    ({"queue.purge_on_no_consumers": None}, {"purge_on_no_consumers": "purge-on-no-consumers was not read"}),
    ({"queue.auto_delete": True}, {
        "purge_on_no_consumers": "the queue has auto-delete: it may be deleted when its last consumer goes",
    }),
    ({"found.counted": False}, {"reconnects": "what each consumer buffers was not read"}),
    (went(9, 45), {"reconnects": "within 45 s consumers went with 9 unacknowledged messages"}),
    ({ATTEMPTS: nan}, {
        "rejected": "max-delivery-attempts was not read",
        "reconnects": "max-delivery-attempts was not read",
    }),
    ({ATTEMPTS: 1, "returns.delivered": 44}, {
        "attempts_used_up": "40 were killed, 40 deliveries were not settled, 30 dead letters came",
        "rejected": "",
        "purged": "40 were killed, 40 deliveries were not settled, 30 dead letters came",
    }),
    ({"unacked.seen_since": nan, ATTEMPTS: nan}, {
        "rejected": "max-delivery-attempts was not read",
        "reconnects": "since when each of its consumers is there was not read",
    }),
])  # fmt: skip
def test_of_what_was_killed_some_came_to_the_dead_letters_is_told(
    values: Values, facts: Facts
) -> None:
    poll = poll_with(loses_some(), values)
    found = told("dead_lettering", poll)
    assert found == found | facts


WHO_PURGED_A_QUEUE = {
    "operator": "proven",
    "no_consumers": "excluded",
}
"""An operator."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"queue.purge_on_no_consumers": True}, "operator possible, no_consumers possible*"),
    ({"queue.auto_delete": True}, "operator possible, no_consumers possible"),
    ({"queue.purge_on_no_consumers": None}, "operator possible, no_consumers possible"),
    ({"queue.auto_delete": None}, "operator possible, no_consumers possible"),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": None}, "operator possible, no_consumers possible"),
    ({"queue.purge_on_no_consumers": True, "queue.auto_delete": True}, "operator possible, no_consumers possible*"),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": True}, "operator possible, no_consumers possible"),
])  # fmt: skip
def test_who_purged_a_queue(values: Values, differs: str) -> None:
    poll = poll_with(dies(), values)
    assert judged("purged", poll) == with_states(WHO_PURGED_A_QUEUE, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "operator": "neither purge-on-no-consumers nor auto-delete is set",
        "no_consumers": "neither purge-on-no-consumers nor auto-delete is set",
    }),
    ({"queue.purge_on_no_consumers": True}, {
        "operator": "",
        "no_consumers": "the queue has purge-on-no-consumers: it is purged when its last consumer goes",
    }),
    ({"queue.auto_delete": True}, {
        "operator": "",
        "no_consumers": "the queue has auto-delete: it may be deleted when its last consumer goes",
    }),
    ({"queue.purge_on_no_consumers": None}, {
        "operator": "neither purge-on-no-consumers nor auto-delete is set; purge-on-no-consumers was not read",
        "no_consumers": "purge-on-no-consumers was not read",
    }),
    ({"queue.auto_delete": None}, {
        "operator": "neither purge-on-no-consumers nor auto-delete is set; auto-delete was not read",
        "no_consumers": "auto-delete was not read",
    }),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": None}, {
        "operator": (
            "neither purge-on-no-consumers nor auto-delete is set; purge-on-no-consumers was not read; "
            "auto-delete was not read"
        ),
        "no_consumers": "purge-on-no-consumers was not read; auto-delete was not read",
    }),
    ({"queue.purge_on_no_consumers": True, "queue.auto_delete": True}, {
        "no_consumers": "the queue has purge-on-no-consumers: it is purged when its last consumer goes",
    }),
    ({"queue.purge_on_no_consumers": None, "queue.auto_delete": True}, {
        "no_consumers": "the queue has auto-delete: it may be deleted when its last consumer goes",
    }),
])  # fmt: skip
def test_who_purged_a_queue_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(dies(), values)
    found = told("purged", poll)
    assert found == found | facts


WHAT_EXPIRES = {
    "expiry_delay": "excluded",
    "time_to_live": "proven",
    "expired_on_arrival": "excluded",
    "scheduled_too_long": "excluded",
}
"""By its time to live."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"snapshot.addresses.expiry_delay": 0}, "expiry_delay possible, time_to_live possible"),
    ({"snapshot.addresses.expiry_delay": 1}, "expiry_delay possible, time_to_live possible"),
    ({"snapshot.addresses.expiry_delay": 5000}, "expiry_delay possible, time_to_live possible"),
    ({"snapshot.addresses.expiry_delay": nan}, "expiry_delay possible, time_to_live possible"),
    # it had expired when it came
    ({"found.expired": 421}, "expired_on_arrival possible*"),
    ({"found.expired": 440}, "expired_on_arrival possible*"),
    ({"found.settled": 421}, "expired_on_arrival possible*"),
    ({"found.killed": 121}, "expired_on_arrival possible*"),
    ({"found.messages": 121}, "expired_on_arrival possible*"),
    ({"found.added": 979}, "expired_on_arrival possible*"),
    ({"found.expired": nan}, "expired_on_arrival possible"),
    ({EXPIRED: [6, 0, 0, 0], "found.expired": 404}, "expired_on_arrival possible*"),
    ({EXPIRED: [8, 0, 0, 0], "found.expired": 405}, "expired_on_arrival possible*"),
    ({"snapshot.queues.messages": 89}, "expired_on_arrival possible"),
    ({"snapshot.queues.messages": nan}, "expired_on_arrival possible"),
    ({"trend.rate_in": 0}, "expired_on_arrival possible"),
    ({"trend.rate_in": nan}, "expired_on_arrival possible"),
    ({"trend.rate_in": 2}, "expired_on_arrival possible"),
    ({"found.expired": 421, "snapshot.queues.messages": 9}, "expired_on_arrival possible*"),
    ({"found.expired": nan, "snapshot.queues.messages": 9}, "expired_on_arrival possible"),
    ({"trend.rate_in": 0, "found.expired": 421}, "expired_on_arrival possible*"),
    # a delay keeps it for longer than it lives
    ({"snapshot.queues.scheduled": 1, "found.ready": 0}, "scheduled_too_long possible*"),
    ({"snapshot.queues.scheduled": 7, "found.ready": 1}, "scheduled_too_long possible"),
    ({"snapshot.queues.scheduled": 7, "found.ready": nan}, "scheduled_too_long possible*"),
    ({"snapshot.queues.scheduled": nan}, "scheduled_too_long possible"),
    ({"snapshot.queues.scheduled": nan, "found.ready": 0}, "scheduled_too_long possible"),
])  # fmt: skip
def test_what_expires(values: Values, differs: str) -> None:
    poll = poll_with(expires(), values)
    assert judged("expiring", poll) == with_states(WHAT_EXPIRES, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "expiry_delay": "the address settings have none",
        "time_to_live": "expiry-delay: the address settings have none",
        "expired_on_arrival": "messages wait for longer than 1 min 30 s before they expire",
        "scheduled_too_long": "no message is scheduled",
    }),
    ({"snapshot.addresses.expiry_delay": 0}, {
        "expiry_delay": "it is 0 s",
        "time_to_live": "expiry-delay: it is 0 s",
    }),
    ({"snapshot.addresses.expiry_delay": 1}, {
        "expiry_delay": "it is 0.001 s",
        "time_to_live": "expiry-delay: it is 0.001 s",
    }),
    ({"snapshot.addresses.expiry_delay": nan}, {
        "expiry_delay": "expiry-delay was not read",
        "time_to_live": "expiry-delay was not read",
    }),
    ({"found.expired": 421}, {
        "expired_on_arrival": (
            "21 left that were never added: compare the clocks of its producers with the broker's"
        ),
    }),
    ({"found.expired": 440}, {
        "expired_on_arrival": (
            "40 left that were never added: compare the clocks of its producers with the broker's"
        ),
    }),
    ({"found.expired": nan}, {"expired_on_arrival": "what left without being added was not read"}),
    ({"snapshot.queues.messages": 89}, {"expired_on_arrival": ""}),
    ({"snapshot.queues.messages": nan}, {"expired_on_arrival": "the number of its messages was not read"}),
    ({"trend.rate_in": 0}, {"expired_on_arrival": ""}),
    ({"trend.rate_in": nan}, {
        "expired_on_arrival": (
            "what comes to it was not read; what the number of its messages is compared with was not "
            "read"
        ),
    }),
    ({"snapshot.queues.scheduled": 1, "found.ready": 0}, {
        "scheduled_too_long": "1 messages are scheduled: compare their delay with their time to live",
    }),
    ({"snapshot.queues.scheduled": 7, "found.ready": 1}, {
        "scheduled_too_long": "7 messages are scheduled: compare their delay with their time to live",
    }),
    ({"snapshot.queues.scheduled": nan}, {"scheduled_too_long": "the number of scheduled messages was not read"}),
    ({"snapshot.queues.scheduled": nan, "found.ready": 0}, {
        "scheduled_too_long": "the number of scheduled messages was not read",
    }),
])  # fmt: skip
def test_what_expires_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(expires(), values)
    found = told("expiring", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"found.expired": 420},
    {EXPIRED: nan},
    {EXPIRED: [6, 0, 0, 0], "found.expired": 403},
    {EXPIRED: [8, 0, 0, 0], "found.expired": 404},
    {"snapshot.queues.messages": 90},
    {"trend.rate_in": 0.5},
    {"found.ready": 0},
])  # fmt: skip
def test_what_expires_is_the_same(values: Values) -> None:
    poll = poll_with(expires(), values)
    assert verdicts_of("expiring", poll) == verdicts_of("expiring", expires())
