"""Why messages wait: who would read them, and whether more consumers would get any, by the kind of queue."""

from collections.abc import Mapping
from operator import attrgetter

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
)
from penstock.causes.slowness import ALIKE
from penstock.causes.verdict import (
    AGAINST,
    CauseState,
    Verdict,
    Verdicts,
    concluded,
    excluded,
    possible,
)
from penstock.core.table import Positions
from penstock.core.windows import halves
from penstock.model import QueueKind
from penstock.observation.activity import FLOW_OUT
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import DAY, WINDOWS

STUCK = 60.0
"""Seconds without an acknowledgement, after which a consumer that buffers messages has no share in the pace."""
NOT_SO = "it is not so"


# --- backlogs that grow


def grows(case: Case) -> Verdicts:
    """More consumers help where those that are there work, and each gets whatever comes."""
    settings = {
        "exclusive": exclusive(case),
        "max_consumers": max_consumers(case),
        "groups": groups(case),
    }
    found = {
        **settings,
        "selector": selector(case),
        "holders": holders(case),
        "became_slower": became_slower(case),
    }
    return {**found, "too_few_consumers": too_few_consumers(case, found)}


def grows_openmq(case: Case) -> Verdicts:
    """OpenMQ has neither exclusive queues nor message groups."""
    found = {
        "max_consumers": max_active_consumers(case),
        "selector": selector(case),
        "holders": holders(case),
        "became_slower": became_slower(case),
    }
    return {**found, "too_few_consumers": too_few_consumers(case, found)}


def setting_of_queue(fact: str, claim: Claim) -> Verdict:
    """A setting that is itself the cause: proven where it is so, excluded where it is not."""
    return concluded(
        fact if claim.is_so else "",
        excluded_by=negated(claim),
        proof=claim,
        otherwise=NOT_SO,
    )


def exclusive(case: Case) -> Verdict:
    return setting_of_queue(
        "further consumers stand by",
        case.queue("exclusive", "whether it is exclusive").above(0),
    )


def max_consumers(case: Case) -> Verdict:
    most = case.queue("max_consumers", "max-consumers")
    count = case.queue("consumers", "the number of consumers")
    is_reached = all_of(most.above(0), count.reaches(most))
    return setting_of_queue(f"{count.value:.0f} are there", is_reached)


def max_active_consumers(case: Case) -> Verdict:
    """A consumer beyond maxNumActiveConsumers is a backup that gets none, or is refused, which no number shows."""
    count = case.queue("consumers", "the number of consumers")
    active = case.queue("active_consumers", "the number of active consumers")
    name = "maxNumActiveConsumers"
    has_backups = active.satisfies(lambda number: number < count.value)
    lacks = (
        ""
        if has_backups.is_so
        else f"{name} was not read: `imqcmd query dst -t q -n {case.queue_row.name}`"
    )
    fact = (
        f"{active.value:.0f} of {count.value:.0f} are active"
        if has_backups.is_so
        else lacks
    )
    return concluded(fact, proof=has_backups)


def groups(case: Case) -> Verdict:
    count = case.queue("groups", "the number of message groups")
    rebalanced = case.queue("grouped", "group-rebalance")
    stays = all_of(count.above(0), negated(rebalanced.above(0)))
    return setting_of_queue(
        f"it has {count.value:.0f} message groups, which stay with the consumers that they have",
        stays,
    )


def selector(case: Case) -> Verdict:
    """What is not selected is in no number: consumers that buffer nothing while it grows make it likely."""
    chosen = {row.filter for row in case.rows_of(case.consumers)}
    all_have = all_have_selectors(case, chosen)
    held = case.poll.found.consumer.held[case.consumers]
    are_idle = case.consumers_show_numbers.is_so and not held.any()
    return concluded(
        f"their selectors: {', '.join(sorted(chosen)[:3])}" if all_have.is_so else "",
        excluded_by=negated(all_have),
        otherwise="a consumer has none" if chosen else "it has no consumer",
        likely=all_have.is_so and are_idle,
    )


def all_have_selectors(case: Case, chosen: set[str]) -> Claim:
    """One consumer without a selector takes what the others leave. chosen: the selectors of those that are listed."""
    has_none = case.queue("consumers", "the number of consumers").equals(0)
    if "" in chosen or has_none.is_so:
        return known(False)
    return case.all_consumers_are_listed if chosen else UNKNOWN


def holders(case: Case) -> Verdict:
    found = case.poll.found
    unacked = case.poll.unacked
    there = case.consumers
    stuck = there[found.now - unacked.unacked_since[there] >= STUCK]
    count = found.consumers[case.row]
    held = found.consumer.held[stuck].sum()
    some_hold = known(len(stuck) > 0)
    are_seen = all_of(case.all_consumers_are_listed, case.consumers_show_numbers)
    return concluded(
        f"{len(stuck)} of {count:.0f} consumers buffer {held:.0f} messages"
        if len(stuck)
        else "",
        excluded_by=all_of(are_seen, negated(some_hold)),
        proof=all_of(case.consumers_show_numbers, some_hold),
        otherwise="all acknowledge",
    )


def became_slower(case: Case) -> Verdict:
    """Against the usual, where that is known; else one half of the window against the other."""
    times = NumberRead(
        "how long a message takes against the usual",
        float(case.poll.usual.times[case.row]),
    )
    if usual_is_known(case):
        said = f"a message takes {times.value:.1f} times as long as usual"
        return concluded(
            said,
            excluded_by=times.below(ALIKE),
            proof=times.at_least(ALIKE),
            otherwise=said,
        )
    first, second = acknowledged_by_halves(case)
    return possible(
        f"{first:.0f} were acknowledged in the first half of the time, {second:.0f} in the second"
    )


def usual_is_known(case: Case) -> bool:
    usual = case.poll.usual
    row = case.row
    times = usual.times[row]
    is_founded = (
        usual.windows[row] >= WINDOWS or usual.known_for(case.poll.found.now, DAY)[row]
    )
    return bool(times >= ALIKE or (is_founded and not np.isnan(times)))


def acknowledged_by_halves(case: Case) -> tuple[float, float]:
    first, second = halves(case.poll.activity.trend.of(FLOW_OUT, np.array([case.row])))
    return float(first.sum()), float(second.sum())


def too_few_consumers(case: Case, others: Mapping[str, Verdict]) -> Verdict:
    """Excluded where a further consumer would get nothing; where a limit was not read, that may be so."""
    limits = [
        others[name]
        for name in ("exclusive", "max_consumers", "groups")
        if name in others
    ]
    would_get_none = any(limit.state is CauseState.PROVEN for limit in limits)
    if would_get_none:
        return excluded("more would get none")
    not_read = [
        limit.fact
        for limit in limits
        if limit.state is CauseState.POSSIBLE and limit.fact
    ]
    return possible("; ".join([advice_on_number(case, others), *not_read]))


def advice_on_number(case: Case, others: Mapping[str, Verdict]) -> str:
    """How many consumers would keep up, or what has to be mended before."""
    poll = case.poll
    queue = case.row
    returned = poll.returns.returned[queue]
    settled = poll.returns.settled[queue]
    first, second = acknowledged_by_halves(case)
    slower = others["became_slower"]
    is_slower = slower.state is CauseState.PROVEN or (
        not usual_is_known(case) and second < first / 2
    )
    if others["holders"].state is CauseState.PROVEN:
        return f"first fix these: {others['holders'].fact}"
    if poll.returns.persistent[queue] and returned > settled:
        return f"first fix these: {returned:.0f} messages came back, {settled:.0f} were settled"
    if is_slower:
        return f"first fix these: {slower.fact}"
    needed = np.ceil(
        poll.found.consumers[queue]
        * poll.trend.comes[queue]
        / poll.trend.rate_out[queue]
    )
    is_subscription = case.queue_row.kind is QueueKind.SUBSCRIPTION
    where = (
        "that share this subscription"
        if is_subscription
        else "without message groups, or with as many groups"
    )
    return f"{needed:.0f} at this pace keep up, {where}"


# --- queues without a reader


def unread_queue(case: Case) -> Verdicts:
    """Who was refused is only in the broker's log."""
    failures = case.broker_number(
        "authentication_failures", "the number of refused logins"
    )
    refused = failures.above(0)
    was_read = case.poll.timers.had_consumer[case.row]
    is_expected = case.poll.expected[case.row] > 0
    return {
        "login_refused": concluded(
            f"{failures.value:.0f} logins were refused since the broker's start"
            if refused.is_so
            else "",
            excluded_by=failures.equals(0),
            otherwise="no login was refused since the broker's start",
            likely=refused.is_so,
        ),
        "other_queue": possible(
            f"{AGAINST}a consumer read this queue before" if was_read else ""
        ),
        "meant_for_nobody": concluded(
            "no consumer was ever seen, and none is expected",
            excluded_by=known(was_read or is_expected),
            otherwise="consumers read it before"
            if was_read
            else "consumers are expected",
        ),
    }


def gone(poll: RuleInputs, client: str, left_at: float) -> Verdicts:
    """Of a consumer that went: what ended it, an operator, the network or its process, no broker shows.

    left_at: when it was first missed, broker's clock.
    """
    case = Case(poll, -1, left_at)
    connections = poll.snapshot.connections
    read_since = case.part_is_fresh("connections", "the list of connections")
    listed = (
        connections is not None
        and len(connections.index.where("client", attrgetter("client"), {client})) > 0
    )
    is_there = known(listed) if read_since.is_so else read_since
    kept = "a connection of the client is listed: it kept that, or has come back since"
    lost = "no connection of the client is listed: it closed it, lost it, or an operator closed it"
    is_gone = any_of(negated(is_there), UNKNOWN)
    return {
        "connection_died": possible(
            kept if is_there.is_so else lost if is_gone.is_so else ""
        ),
        "consumer_closed": concluded(
            kept if is_there.is_so else "",
            excluded_by=negated(is_there),
            otherwise=lost,
        ),
    }


# --- pauses


def paused(case: Case) -> Verdicts:
    address = case.address("paused", "whether the address is paused").above(0)
    queue = case.queue("paused", "whether the queue is paused").above(0)
    count = len(queues_of_address(case))
    what = ["the queue itself"] if queue.is_so else []
    if address.is_so:
        what.append(f"its address, which stops {count} queues")
    return {"paused": concluded(" and ".join(what), proof=any_of(queue, address))}


def queues_of_address(case: Case) -> Positions:
    return case.poll.found.queues.where(
        "address", attrgetter("address"), {case.queue_row.address}
    )
