"""Why nothing comes in to an address, or what comes is refused: its own limit, the whole broker, an operator."""

from collections import Counter
from math import isinf

import numpy as np

from penstock.causes.case import Case
from penstock.causes.evidence import (
    UNKNOWN,
    Claim,
    NumberRead,
    all_of,
    any_of,
    known,
    negated,
    unread,
)
from penstock.causes.verdict import Verdict, Verdicts, concluded
from penstock.model import ResourceState
from penstock.observation.activity import FLOW_IN
from penstock.observation.openmq import DEAD_MESSAGES, near_limit
from penstock.observation.poll import RuleInputs

DISCARDS = {
    "drop": "DROP: messages vanish, producers see nothing",
    "fail": "FAIL: producers see an error",
}
"""What becomes of messages that a full address does not take, by its policy."""
ENOUGH = 20.0
"""Messages that another destination took without refusing one, which a broker at its own limit would not do."""


def producers_by_address(poll: RuleInputs) -> Counter[str]:
    return (
        Counter(row.address for row in poll.snapshot.producers.index)
        if poll.snapshot.producers
        else Counter()
    )


def who_sends(case: Case) -> str:
    if case.snapshot.producers is None:
        return "its producers were not read"
    return f"{case.poll.of(producers_by_address)[case.queue_row.address]} producers send there"


# --- Artemis and Classic


def blocked(case: Case) -> Verdicts:
    """An address without a limit of its own shows the percentage of the whole broker."""
    percent = case.fullness("limit_percent", "how full the address is")
    ratio = case.fullness("memory_used_ratio", "how full the address is")
    full = any_of(percent.at_least(100), ratio.at_least(1))
    own_limit = has_own_limit(case)
    # With room in the broker, only a limit of its own can be full.
    proof = all_of(full, any_of(own_limit, negated(case.broker_is_full)))
    who = who_sends(case)
    has_none = "it has no limit of its own"
    own = (
        has_none
        if own_limit.is_not_so
        else f"it uses {share_of_limit(ratio, percent)}; {who}"
    )
    return {
        "address_full": concluded(
            own,
            excluded_by=negated(all_of(full, own_limit)),
            proof=proof,
            otherwise=own,
        ),
        "memory_full": concluded(
            who,
            excluded_by=negated(case.memory_is_full),
            proof=case.memory_is_full,
            otherwise="the broker's memory is not full",
        ),
        "disk_full": concluded(
            who,
            excluded_by=negated(case.disk_is_full),
            proof=case.disk_is_full,
            otherwise="its disk is not full",
        ),
    }


def has_own_limit(case: Case) -> Claim:
    ratio = case.address("memory_used_ratio", "the address's limit")
    if ratio.is_known:
        return known(True)
    limits = (
        case.limit("limit_bytes", "max-size-bytes"),
        case.limit("limit_messages", "max-size-messages"),
    )
    return any_of(
        *(limit.satisfies(lambda value: not isinf(value)) for limit in limits)
    )


def share_of_limit(ratio: NumberRead, percent: NumberRead) -> str:
    share = ratio.value if ratio.is_known else percent.value / 100
    return (
        "an unknown share of its limit"
        if np.isnan(share)
        else f"{share:.0%} of its limit"
    )


def refused(case: Case) -> Verdicts:
    """A full address that says that it pages and has no pages drops or refuses. Which of the two, its policy says."""
    policy = case.address_row.policy if case.address_row else ""
    discards = known(True) if policy in DISCARDS else unread("its policy")
    shows_it = all_of(
        case.address("limit_percent", "how full the address is").at_least(100),
        case.address("paging", "whether it pages").above(0),
        case.address("pages", "the number of its pages").equals(0),
        discards,
    )
    return {"address_full": concluded(DISCARDS.get(policy, ""), proof=shows_it)}


# --- OpenMQ


def room(messages: float, limit: float) -> str:
    """Say how many messages there are, and the limit where there is one."""
    text = f"{messages:,.0f} messages"
    if np.isnan(messages):
        text = "an unknown number of messages"
    if np.isnan(limit) or isinf(limit):
        return text
    return f"{text}, its limit is {limit:,.0f}"


class DestinationRoom:
    """How much of its own limits a destination of OpenMQ has used."""

    def __init__(self, case: Case) -> None:
        self.messages = case.queue("messages", "the number of its messages")
        self.limit = case.limit("limit_messages", "maxNumMsgs")
        used = case.queue("bytes", "its bytes")
        limit_bytes = case.limit("limit_bytes", "maxTotalMsgBytes")
        by_count = self.messages.reaches(self.limit)
        by_bytes = used.reaches(limit_bytes)
        self.at_limit = any_of(by_count, by_bytes)
        self.near_limit = any_of(self.at_limit, self._within_a_batch(case))
        self.room = room(self.messages.value, self.limit.value)

    def _within_a_batch(self, case: Case) -> Claim:
        """Whether its producers may still have a part of their last batch, which they send before they wait."""
        said = case.poll.openmq.said if case.poll.openmq else None
        if said is None:
            return unread("its limits")
        is_near = bool(near_limit(case.poll.found, said)[case.queue_at])
        is_nearly_full = self.messages.value >= 0.9 * self.limit.value
        return self.limit.satisfies(lambda _: is_near or is_nearly_full)


def blocked_openmq(case: Case) -> Verdicts:
    """Producers that still have a part of their last batch must wait before the limit is reached."""
    closed = case.address(
        "producers_paused", "whether an operator paused its producers"
    ).above(0)
    destination = DestinationRoom(case)
    return {
        "address_full": concluded(
            destination.room,
            excluded_by=negated(destination.near_limit),
            proof=destination.at_limit,
            otherwise=destination.room,
        ),
        "operator": concluded(
            "its producers are paused",
            excluded_by=negated(closed),
            proof=closed,
            otherwise="it accepts producers",
        ),
    }


def refused_openmq(case: Case) -> Verdicts:
    """What is refused below the limit is refused one by one, by the whole broker, or had expired when it came."""
    destination = DestinationRoom(case)
    rejects = (
        known(True)
        if case.address_row and case.address_row.policy == "reject_newest"
        else unread("its policy")
    )
    largest = case.limit("message_limit_bytes", "maxBytesPerMsg")
    limits_size = largest.satisfies(lambda value: not isinf(value))
    has_memory = case.broker_number(
        "resource_state", "the broker's memory state"
    ).equals(ResourceState.GREEN)
    refused_one_by_one = all_of(
        limits_size, has_memory, negated(destination.near_limit)
    )
    sizes = (
        f"a message may have {largest.value:,.0f} bytes; {destination.room}"
        if limits_size.is_so
        else ""
    )
    return {
        "address_full": concluded(
            destination.room,
            excluded_by=negated(destination.near_limit),
            proof=all_of(rejects, destination.near_limit),
            otherwise=destination.room,
        ),
        "too_large": concluded(
            sizes,
            excluded_by=negated(limits_size),
            proof=refused_one_by_one,
            otherwise="it limits no message's size",
        ),
        "broker_full": broker_full(case),
        "memory_low": concluded(
            "the broker refuses messages while its heap is nearly full",
            excluded_by=has_memory,
            otherwise="the broker has memory",
        ),
        "expired_on_arrival": concluded(
            "compare the clocks of its producers with the broker's",
            excluded_by=case.setting("dead_letters", "useDMQ").above(0),
            otherwise="the dead message queue took none of these in",
        ),
    }


def broker_full(case: Case) -> Verdict:
    """The limits of the whole broker refuse messages of all destinations alike."""
    taking = other_that_takes_all(case)
    refusing = others_that_refuse(case)
    also = f"{refusing} other destinations refuse messages, too; " if refusing else ""
    compare = "imq.system.max_count was not read; compare it with the messages of the broker (`imqcmd query bkr`)"
    return concluded(
        also + compare,
        excluded_by=known(True) if taking else UNKNOWN,
        otherwise=f"meanwhile {taking} took all that was sent there",
        likely=refusing > 0,
    )


def others_that_refuse(case: Case) -> int:
    refuses = case.poll.accounted.get("refuses")
    if refuses is None:
        return 0
    return int(np.count_nonzero(refuses)) - int(refuses[case.queue_at])


def other_that_takes_all(case: Case) -> str:
    """Another destination that took messages all the time and refused none; empty where none is known."""
    refuses = case.poll.accounted.get("refused")
    if refuses is None:
        return ""
    came = case.poll.activity.trend.sum(FLOW_IN)
    took_all = (came >= ENOUGH) & (np.asarray(refuses, np.float64) == 0)
    took_all[case.queue_at] = False
    rows = case.poll.found.queues.rows[np.flatnonzero(took_all)]
    return next((row.name for row in rows if row.name != DEAD_MESSAGES), "")
