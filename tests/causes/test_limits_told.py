"""Why nothing comes in to an address, or what comes is refused: by the numbers of one poll, and by their bounds."""

from functools import cache
from math import inf, nan

import numpy as np
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
from conditions.pairs import polled
from conditions.world import Judged
from penstock.model import BrokerKind, ResourceState
from penstock.observation.poll import RuleInputs

QUEUES = {
    "q": {"A": 90.0, "M": 80.0},
    "r": {"A": 9.0, "M": 9.0},
    "s": {"A": 9.0, "M": 9.0},
}
PERCENT = "snapshot.addresses.limit_percent"
RATIO = "snapshot.addresses.memory_used_ratio"
PAGING = "snapshot.addresses.paging"
PAGES = "snapshot.addresses.pages"
MEMORY = "broker.memory_used_bytes"
DISK = "broker.disk_used_ratio"
STAMP = "snapshot.addresses.settings_stamp"
BYTES = "snapshot.addresses.limit_bytes"
MESSAGES = "snapshot.addresses.limit_messages"
DEPTH = "snapshot.queues.messages"
SIZE = "snapshot.queues.bytes"
CLOSED = "snapshot.addresses.producers_paused"
LARGEST = "snapshot.addresses.message_limit_bytes"
STATE = "broker.resource_state"
USES_DMQ = "snapshot.addresses.dead_letters"
PRODUCERS = "openmq.said.producers"
MAY_PRODUCE = "openmq.said.max_producers"
CAME = "trend.0"


def producers(*addresses: str) -> dict[str, dict[str, str]]:
    """One for each address."""
    return {
        f"p{at}": {"address": address, "connection": "one"}
        for at, address in enumerate(addresses)
    }


@cache
def blocked() -> RuleInputs:
    """The address is full by its own limit, the broker has room; three producers send, two of them there."""
    world = Judged()
    world.producers = producers("q", "r", "q")
    return poll_with(polled(world, QUEUES, {}), {
        PERCENT: [100, 0, 0], MESSAGES: 80,
        MEMORY: 1.0, "broker.memory_limit_bytes": 9.0, DISK: 0.1, "broker.disk_limit_ratio": 0.9,
    })  # fmt: skip


@cache
def refuses() -> RuleInputs:
    """An address with DROP is full, and says that it pages without a page."""
    poll = poll_with(polled(Judged(), QUEUES, {}), {PERCENT: 100, PAGING: 1, PAGES: 0})
    return poll_with(poll, {"address.policy": "drop"})


@cache
def refuses_on_openmq() -> RuleInputs:
    """A destination of 1,000 messages that rejects the newest is full; it limits the size of a message, too."""
    limits = {
        "limit_messages": 1000.0,
        "message_limit_bytes": 9000.0,
        "dead_letters": 1.0,
    }
    poll = polled(
        OpenmqJudged(), QUEUES, {}, addresses={"q": limits, "r": limits, "s": limits}
    )
    return poll_with(poll, {
        DEPTH: 1000, "found.messages": 1000, CLOSED: 0, STATE: float(ResourceState.GREEN),
        PRODUCERS: 2, MAY_PRODUCE: 100, "accounted": {},
    })  # fmt: skip


WHY_PRODUCERS_WAIT = {
    "address_full": "proven",
    "memory_full": "excluded",
    "disk_full": "excluded",
}
"""The address is full."""


@pytest.mark.parametrize(("values", "differs"), [
    # how full it is
    ({PERCENT: [99, 100, 100]}, "address_full possible"),
    ({PERCENT: 117}, ""),
    ({PERCENT: nan}, "address_full possible"),
    ({PERCENT: nan, RATIO: 0.99}, "address_full possible"),
    ({PERCENT: 0, RATIO: 0.5}, "address_full excluded"),
    ({"snapshot.addresses": None}, "address_full possible"),
    # its own limit
    ({MESSAGES: nan}, "address_full excluded"),
    ({MESSAGES: nan, BYTES: nan, RATIO: 0.5}, ""),
    ({MESSAGES: inf}, "address_full excluded"),
    ({MESSAGES: inf, BYTES: inf}, "address_full excluded"),
    ({MESSAGES: nan, PERCENT: 99}, "address_full excluded"),
    # the whole broker
    ({MEMORY: 9.0}, "memory_full proven"),
    ({MEMORY: nan}, "memory_full possible"),
    ({DISK: 0.9}, "disk_full proven"),
    ({DISK: nan}, "disk_full possible"),
    ({MEMORY: 9.0, MESSAGES: nan}, "address_full excluded, memory_full proven"),
    ({DISK: 0.9, MESSAGES: nan}, "address_full excluded, disk_full proven"),
    ({DISK: nan, MESSAGES: nan, STAMP: nan}, "address_full possible, disk_full possible"),
    ({DISK: 0.9, MESSAGES: nan, STAMP: nan}, "address_full possible, disk_full proven"),
    ({MEMORY: nan, MESSAGES: nan, STAMP: nan}, "address_full possible, memory_full possible"),
    # who sends there
    ({"snapshot.producers": None}, ""),
    ({"queue.address": "r"}, "address_full possible"),
    ({"queue.address": "s"}, "address_full possible"),
    # Classic shows it with the settings
    ({"broker.kind": BrokerKind.CLASSIC, STAMP: nan}, "address_full possible"),
])  # fmt: skip
def test_why_producers_wait(values: Values, differs: str) -> None:
    poll = poll_with(blocked(), values)
    assert judged("producers_blocked", poll) == with_states(WHY_PRODUCERS_WAIT, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "address_full": "it uses 100% of its limit; 2 producers send there",
        "memory_full": "the broker's memory is not full",
        "disk_full": "its disk is not full",
    }),
    ({PERCENT: [99, 100, 100]}, {
        "address_full": "it uses 99% of its limit; 2 producers send there; how full the address is was not read",
    }),
    ({PERCENT: 117}, {"address_full": "it uses 117% of its limit; 2 producers send there"}),
    ({PERCENT: nan}, {
        "address_full": (
            "it uses an unknown share of its limit; 2 producers send there; how full the address is was "
            "not read"
        ),
    }),
    ({PERCENT: nan, RATIO: 0.99}, {
        "address_full": "it uses 99% of its limit; 2 producers send there; how full the address is was not read",
    }),
    ({PERCENT: 0, RATIO: 0.5}, {"address_full": "it uses 50% of its limit; 2 producers send there"}),
    ({"snapshot.addresses": None}, {
        "address_full": (
            "it uses an unknown share of its limit; 2 producers send there; how full the address is was "
            "not read; max-size-bytes was not read; max-size-messages was not read"
        ),
    }),
    ({MESSAGES: nan}, {"address_full": "it has no limit of its own"}),
    ({MESSAGES: nan, BYTES: nan, RATIO: 0.5}, {"address_full": "it uses 50% of its limit; 2 producers send there"}),
    ({MESSAGES: inf}, {"address_full": "it has no limit of its own"}),
    ({MEMORY: 9.0}, {"memory_full": "2 producers send there"}),
    ({MEMORY: nan}, {"memory_full": "2 producers send there; the broker's memory use was not read"}),
    ({DISK: 0.9}, {"disk_full": "2 producers send there"}),
    ({DISK: nan}, {"disk_full": "2 producers send there; the disk use was not read"}),
    ({MEMORY: 9.0, MESSAGES: nan}, {"memory_full": "2 producers send there"}),
    ({DISK: 0.9, MESSAGES: nan}, {"disk_full": "2 producers send there"}),
    ({DISK: nan, MESSAGES: nan, STAMP: nan}, {
        "address_full": (
            "it uses 100% of its limit; 2 producers send there; max-size-bytes was not read; "
            "max-size-messages was not read; the disk use was not read"
        ),
        "disk_full": "2 producers send there; the disk use was not read",
    }),
    ({DISK: 0.9, MESSAGES: nan, STAMP: nan}, {
        "address_full": (
            "it uses 100% of its limit; 2 producers send there; max-size-bytes was not read; "
            "max-size-messages was not read"
        ),
    }),
    ({MEMORY: nan, MESSAGES: nan, STAMP: nan}, {
        "address_full": (
            "it uses 100% of its limit; 2 producers send there; max-size-bytes was not read; "
            "max-size-messages was not read; the broker's memory use was not read"
        ),
        "memory_full": "2 producers send there; the broker's memory use was not read",
    }),
    ({"snapshot.producers": None}, {"address_full": "it uses 100% of its limit; its producers were not read"}),
    ({"broker.kind": BrokerKind.CLASSIC, STAMP: nan}, {
        "address_full": (
            "it uses 100% of its limit; 2 producers send there; the settings of its address: last read "
            "at an unknown time; how full the address is was not read; max-size-bytes was not read"
        ),
    }),
])  # fmt: skip
def test_why_producers_wait_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(blocked(), values)
    found = told("producers_blocked", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {PERCENT: nan, RATIO: 1},
    {PERCENT: 0, RATIO: 1},
    {PERCENT: nan, RATIO: 1, MESSAGES: nan},
    {MESSAGES: nan, BYTES: 9},
    {MESSAGES: nan, STAMP: nan},
    {"broker.kind": BrokerKind.CLASSIC},
])  # fmt: skip
def test_why_producers_wait_is_the_same(values: Values) -> None:
    poll = poll_with(blocked(), values)
    assert verdicts_of("producers_blocked", poll) == verdicts_of(
        "producers_blocked", blocked()
    )


WHAT_AN_ADDRESS_REFUSES = {
    "address_full": "proven",
}
"""It is full and drops messages."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"address.policy": "fail"}, ""),
    ({"address.policy": "page"}, "address_full possible"),
    ({"address.policy": "block"}, "address_full possible"),
    ({PERCENT: 99}, "address_full possible"),
    ({PERCENT: nan}, "address_full possible"),
    ({PAGING: 0}, "address_full possible"),
    ({PAGING: nan}, "address_full possible"),
    ({PAGES: 1}, "address_full possible"),
    ({PAGES: nan}, "address_full possible"),
    ({"snapshot.addresses": None}, "address_full possible"),
    ({"address.policy": ["page", "drop", "drop"]}, "address_full possible"),
])  # fmt: skip
def test_what_an_address_refuses(values: Values, differs: str) -> None:
    poll = poll_with(refuses(), values)
    assert judged("rejecting", poll) == with_states(WHAT_AN_ADDRESS_REFUSES, differs)


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {"address_full": "DROP: messages vanish, producers see nothing"}),
    ({"address.policy": "fail"}, {"address_full": "FAIL: producers see an error"}),
    ({"address.policy": "page"}, {"address_full": "its policy was not read"}),
    ({"address.policy": "block"}, {"address_full": "its policy was not read"}),
    ({PERCENT: nan}, {
        "address_full": "DROP: messages vanish, producers see nothing; how full the address is was not read",
    }),
    ({PAGING: nan}, {"address_full": "DROP: messages vanish, producers see nothing; whether it pages was not read"}),
    ({PAGES: nan}, {
        "address_full": "DROP: messages vanish, producers see nothing; the number of its pages was not read",
    }),
    ({"snapshot.addresses": None}, {
        "address_full": (
            "how full the address is was not read; whether it pages was not read; the number of its "
            "pages was not read; its policy was not read"
        ),
    }),
])  # fmt: skip
def test_what_an_address_refuses_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(refuses(), values)
    found = told("rejecting", poll)
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {PAGING: 0.5},
])  # fmt: skip
def test_what_an_address_refuses_is_the_same(values: Values) -> None:
    poll = poll_with(refuses(), values)
    assert verdicts_of("rejecting", poll) == verdicts_of("rejecting", refuses())


WHY_PRODUCERS_OF_OPENMQ_WAIT = {
    "address_full": "proven",
    "operator": "excluded",
}
"""The destination is full."""


@pytest.mark.parametrize(("values", "differs"), [
    ({DEPTH: 999}, "address_full possible"),
    ({DEPTH: 900, "found.messages": 900}, "address_full possible"),
    ({DEPTH: 899, "found.messages": 899}, "address_full excluded"),
    ({DEPTH: 899, "found.messages": 980}, "address_full possible"),
    ({DEPTH: 899, "found.messages": 979}, "address_full excluded"),
    ({DEPTH: nan, "found.messages": 900}, "address_full possible"),
    ({MESSAGES: nan}, "address_full possible"),
    ({MESSAGES: inf}, "address_full possible"),
    ({MESSAGES: nan, STAMP: nan}, "address_full possible"),
    ({DEPTH: 899, SIZE: 500, BYTES: 500}, ""),
    ({DEPTH: 899, "found.messages": 899, SIZE: 499, BYTES: 500}, "address_full excluded"),
    ({DEPTH: 899, "found.messages": 899, SIZE: nan, BYTES: 500}, "address_full possible"),
    ({MESSAGES: nan, BYTES: 500, SIZE: 500}, ""),
    ({DEPTH: 899, "openmq": None}, "address_full possible"),
    ({"openmq.said": None, DEPTH: 899}, "address_full possible"),
    ({CLOSED: 1}, "operator proven"),
    ({CLOSED: nan}, "operator possible"),
    ({DEPTH: 1234567}, ""),
    ({MESSAGES: 1234567}, "address_full possible"),
    ({DEPTH: 899, "found.messages": [899, 1000, 1000]}, "address_full excluded"),
    ({DEPTH: 899, "found.messages": [980, 0, 0]}, "address_full possible"),
])  # fmt: skip
def test_why_producers_of_openmq_wait(values: Values, differs: str) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    assert judged("producers_blocked", poll, kind="openmq") == with_states(
        WHY_PRODUCERS_OF_OPENMQ_WAIT, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "address_full": "1,000 messages, its limit is 1,000",
        "operator": "it accepts producers",
    }),
    ({DEPTH: 999}, {"address_full": "999 messages, its limit is 1,000"}),
    ({DEPTH: 900, "found.messages": 900}, {"address_full": "900 messages, its limit is 1,000"}),
    ({MESSAGES: nan}, {"address_full": "1,000 messages"}),
    ({MESSAGES: inf}, {"address_full": "1,000 messages"}),
    ({MESSAGES: nan, STAMP: nan}, {
        "address_full": (
            "1,000 messages; maxNumMsgs was not read; its bytes was not read; maxTotalMsgBytes was not "
            "read"
        ),
    }),
    ({DEPTH: 899, SIZE: 500, BYTES: 500}, {"address_full": "899 messages, its limit is 1,000"}),
    ({DEPTH: 899, "found.messages": 899, SIZE: nan, BYTES: 500}, {
        "address_full": "899 messages, its limit is 1,000; its bytes was not read",
    }),
    ({MESSAGES: nan, BYTES: 500, SIZE: 500}, {"address_full": "1,000 messages"}),
    ({DEPTH: 899, "openmq": None}, {"address_full": "899 messages, its limit is 1,000; its limits was not read"}),
    ({"openmq.said": None, DEPTH: 899}, {
        "address_full": "899 messages, its limit is 1,000; its limits was not read",
    }),
    ({CLOSED: 1}, {"operator": "its producers are paused"}),
    ({CLOSED: nan}, {"operator": "its producers are paused; whether an operator paused its producers was not read"}),
    ({DEPTH: 1234567}, {"address_full": "1,234,567 messages, its limit is 1,000"}),
    ({MESSAGES: 1234567}, {"address_full": "1,000 messages, its limit is 1,234,567"}),
])  # fmt: skip
def test_why_producers_of_openmq_wait_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    found = told("producers_blocked", poll, kind="openmq")
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"openmq": None},
])  # fmt: skip
def test_why_producers_of_openmq_wait_is_the_same(values: Values) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    assert verdicts_of("producers_blocked", poll, kind="openmq") == verdicts_of(
        "producers_blocked", refuses_on_openmq(), kind="openmq"
    )


WHAT_A_DESTINATION_REFUSES = {
    "address_full": "proven",
    "too_large": "possible",
    "broker_full": "possible",
    "memory_low": "excluded",
    "expired_on_arrival": "excluded",
}
"""It is full and rejects the newest."""


@pytest.mark.parametrize(("values", "differs"), [
    ({"address.policy": "flow_control"}, "address_full possible"),
    ({"address.policy": ["flow_control", "reject_newest", "reject_newest"]}, "address_full possible"),
    ({"snapshot.addresses": None}, "address_full possible, expired_on_arrival possible"),
    ({DEPTH: 900, "found.messages": 900}, ""),
    ({DEPTH: 899, "found.messages": 899}, "address_full excluded, too_large proven"),
    ({MESSAGES: nan, STAMP: nan}, "address_full possible, expired_on_arrival possible"),
    ({MESSAGES: nan}, ""),
    ({DEPTH: 899, "found.messages": 899, LARGEST: inf}, "address_full excluded, too_large excluded"),
    ({LARGEST: nan}, "too_large excluded"),
    ({LARGEST: 1234567}, ""),
    ({LARGEST: nan, STAMP: nan}, "address_full possible, expired_on_arrival possible"),
    ({DEPTH: 899, "found.messages": 899, STATE: float(ResourceState.YELLOW)},
     "address_full excluded, memory_low possible"),
    ({DEPTH: 899, "found.messages": 899, STATE: nan}, "address_full excluded, memory_low possible"),
    ({STATE: float(ResourceState.RED)}, "memory_low possible"),
    ({USES_DMQ: 0}, "expired_on_arrival possible"),
    ({USES_DMQ: nan}, "expired_on_arrival possible"),
    # the limit of the whole broker
    ({"accounted": {"refuses": np.array([True, True, False])}}, "broker_full possible*"),
    ({"accounted": {"refuses": np.array([True, True, True])}}, "broker_full possible*"),
    ({"accounted": {"refuses": np.array([False, False, True])}}, "broker_full possible*"),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 20, 0]}, "broker_full excluded"),
    ({"accounted": {"refused": np.array([3.0, 1.0, 0.0])}, CAME: [0, 30, 30]}, "broker_full excluded"),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 30, 30]}, "broker_full excluded"),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 30, 30], "queue.name": ["q", "mq.sys.dmq", "s"]},
     "broker_full excluded"),
])  # fmt: skip
def test_what_a_destination_refuses(values: Values, differs: str) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    assert judged("rejecting", poll, kind="openmq") == with_states(
        WHAT_A_DESTINATION_REFUSES, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {
        "address_full": "1,000 messages, its limit is 1,000",
        "too_large": "a message may have 9,000 bytes; 1,000 messages, its limit is 1,000",
        "broker_full": (
            "imq.system.max_count was not read; compare it with the messages of the broker (`imqcmd "
            "query bkr`)"
        ),
        "memory_low": "the broker has memory",
        "expired_on_arrival": "the dead message queue took none of these in",
    }),
    ({"address.policy": "flow_control"}, {
        "address_full": "1,000 messages, its limit is 1,000; its policy was not read",
    }),
    ({"address.policy": ["flow_control", "reject_newest", "reject_newest"]}, {
        "address_full": "1,000 messages, its limit is 1,000; its policy was not read",
    }),
    ({"snapshot.addresses": None}, {
        "address_full": (
            "1,000 messages; maxNumMsgs was not read; its bytes was not read; maxTotalMsgBytes was not "
            "read; its policy was not read"
        ),
        "too_large": (
            "maxBytesPerMsg was not read; maxNumMsgs was not read; its bytes was not read; "
            "maxTotalMsgBytes was not read"
        ),
        "expired_on_arrival": "compare the clocks of its producers with the broker's; useDMQ was not read",
    }),
    ({DEPTH: 900, "found.messages": 900}, {
        "address_full": "900 messages, its limit is 1,000",
        "too_large": "a message may have 9,000 bytes; 900 messages, its limit is 1,000",
    }),
    ({DEPTH: 899, "found.messages": 899}, {
        "address_full": "899 messages, its limit is 1,000",
        "too_large": "a message may have 9,000 bytes; 899 messages, its limit is 1,000",
    }),
    ({MESSAGES: nan, STAMP: nan}, {
        "address_full": (
            "1,000 messages; maxNumMsgs was not read; its bytes was not read; maxTotalMsgBytes was not "
            "read"
        ),
        "too_large": (
            "the settings of its address: last read at an unknown time; maxNumMsgs was not read; its "
            "bytes was not read; maxTotalMsgBytes was not read"
        ),
        "expired_on_arrival": (
            "compare the clocks of its producers with the broker's; the settings of its address: last "
            "read at an unknown time"
        ),
    }),
    ({MESSAGES: nan}, {
        "address_full": "1,000 messages",
        "too_large": "a message may have 9,000 bytes; 1,000 messages",
    }),
    ({DEPTH: 899, "found.messages": 899, LARGEST: inf}, {"too_large": "it limits no message's size"}),
    ({LARGEST: nan}, {"too_large": "it limits no message's size"}),
    ({LARGEST: 1234567}, {"too_large": "a message may have 1,234,567 bytes; 1,000 messages, its limit is 1,000"}),
    ({LARGEST: nan, STAMP: nan}, {
        "address_full": (
            "1,000 messages, its limit is 1,000; the settings of its address: last read at an unknown "
            "time; its bytes was not read; maxTotalMsgBytes was not read"
        ),
        "too_large": (
            "maxBytesPerMsg was not read; the settings of its address: last read at an unknown time; "
            "its bytes was not read; maxTotalMsgBytes was not read"
        ),
        "expired_on_arrival": (
            "compare the clocks of its producers with the broker's; the settings of its address: last "
            "read at an unknown time"
        ),
    }),
    ({DEPTH: 899, "found.messages": 899, STATE: float(ResourceState.YELLOW)}, {
        "memory_low": "the broker refuses messages while its heap is nearly full",
    }),
    ({DEPTH: 899, "found.messages": 899, STATE: nan}, {
        "too_large": (
            "a message may have 9,000 bytes; 899 messages, its limit is 1,000; the broker's memory "
            "state was not read"
        ),
        "memory_low": (
            "the broker refuses messages while its heap is nearly full; the broker's memory state was "
            "not read"
        ),
    }),
    ({STATE: float(ResourceState.RED)}, {"memory_low": "the broker refuses messages while its heap is nearly full"}),
    ({USES_DMQ: 0}, {"expired_on_arrival": "compare the clocks of its producers with the broker's"}),
    ({USES_DMQ: nan}, {
        "expired_on_arrival": "compare the clocks of its producers with the broker's; useDMQ was not read",
    }),
    ({"accounted": {"refuses": np.array([True, True, False])}}, {
        "broker_full": (
            "1 other destinations refuse messages, too; imq.system.max_count was not read; compare it "
            "with the messages of the broker (`imqcmd query bkr`)"
        ),
    }),
    ({"accounted": {"refuses": np.array([True, True, True])}}, {
        "broker_full": (
            "2 other destinations refuse messages, too; imq.system.max_count was not read; compare it "
            "with the messages of the broker (`imqcmd query bkr`)"
        ),
    }),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 20, 0]}, {
        "broker_full": "meanwhile r took all that was sent there",
    }),
    ({"accounted": {"refused": np.array([3.0, 1.0, 0.0])}, CAME: [0, 30, 30]}, {
        "broker_full": "meanwhile s took all that was sent there",
    }),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 30, 30]}, {
        "broker_full": "meanwhile r took all that was sent there",
    }),
    ({"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 30, 30], "queue.name": ["q",
      "mq.sys.dmq", "s"]}, {
        "broker_full": "meanwhile s took all that was sent there",
    }),
])  # fmt: skip
def test_what_a_destination_refuses_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    found = told("rejecting", poll, kind="openmq")
    assert found == found | facts


@pytest.mark.parametrize("values", [
    {"accounted": {"refuses": np.array([True, False, False])}},
    {"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 19, 0]},
    {"accounted": {"refused": np.array([0.0, 1.0, 0.0])}, CAME: [90, 0, 0]},
    {"accounted": {"refused": np.array([3.0, 0.0, 0.0])}, CAME: [0, 30, 0], "queue.name": ["q", "mq.sys.dmq", "s"]},
    {CAME: [0, 30, 30]},
])  # fmt: skip
def test_what_a_destination_refuses_is_the_same(values: Values) -> None:
    poll = poll_with(refuses_on_openmq(), values)
    assert verdicts_of("rejecting", poll, kind="openmq") == verdicts_of(
        "rejecting", refuses_on_openmq(), kind="openmq"
    )
