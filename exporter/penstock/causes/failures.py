"""Why deliveries come back, end in the dead letters or expire."""

from collections.abc import Collection
from math import isinf
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
    unread,
)
from penstock.causes.verdict import CauseState, Verdict, Verdicts, concluded, possible
from penstock.core.formatting import duration
from penstock.core.table import Column
from penstock.model import AcknowledgeMode
from penstock.observation.activity import FLOW_IN, TREND_EXPIRED, TREND_KILLED
from penstock.observation.facts import SKEW
from penstock.observation.losses import IN_HAND
from penstock.observation.poll import RuleInputs

CAN_REJECT = ("AMQP", "STOMP", "OPENWIRE")
"""Protocols whose clients can send a message to the dead letters at its first delivery: reject, NACK, poison."""
WITHOUT_RECOVER = ("AMQP", "STOMP", "MQTT")
SEVERAL = 2.0
"""Deliveries of each message to one consumer, on average. Under load slightly more than one each was read of messages
that were set down."""
EXPIRY_SCAN = 90.0
"""Seconds in which the broker has surely looked for expired messages, which it does each 30 s by default."""
BY_SETTING = (
    "the queue has purge-on-no-consumers: it is purged when its last consumer goes"
)
BY_DELETION = "the queue has auto-delete: it may be deleted when its last consumer goes"
NOT_BY_SETTING = "neither purge-on-no-consumers nor auto-delete is set"


# --- who reads the queue


def protocols_of(case: Case) -> frozenset[str]:
    return frozenset(case.protocols(case.consumers))


def only_speak(case: Case, protocols: Collection[str]) -> Claim:
    """Whether all that consumed speak one of these. One that came and went is known by no protocol."""
    spoken = protocols_of(case)
    if spoken - set(protocols) - {""}:
        return known(False)
    if not spoken or "" in spoken:
        return unread("the protocol of its consumers")
    return known(True) if consumers_stay(case).is_so else UNKNOWN


def none_speaks(case: Case, protocols: Collection[str]) -> Claim:
    """Whether none that consumed speaks any of these."""
    spoken = protocols_of(case)
    if spoken & set(protocols):
        return known(False)
    if not spoken or "" in spoken:
        return unread("the protocol of its consumers")
    return known(True) if consumers_stay(case).is_so else UNKNOWN


def consumers_stay(case: Case) -> Claim:
    """Whether the consumers of the queue are those of the whole window, so that what they counted is all."""
    poll = case.poll
    window = poll.constants.window_seconds(poll.found.interval)
    if went_lately(case) or not len(case.consumers):
        return known(False)
    first_seen = poll.unacked.seen_since
    watched_since = first_seen.min() if len(first_seen) else poll.found.now
    came = first_seen[case.consumers]
    if np.isnan(came).any():
        return unread("since when each of its consumers is there")
    stayed = (poll.found.now - came >= window) | (came <= watched_since)
    return all_of(
        case.all_consumers_are_listed,
        case.consumers_show_numbers,
        known(bool(stayed.all())),
    )


def went_lately(case: Case) -> bool:
    """Whether consumers went with messages in hand within the window."""
    losses = case.poll.losses
    now = case.poll.found.now
    window = case.poll.constants.window_seconds(case.poll.found.interval)
    return bool(now - losses.last[IN_HAND][case.row] <= window)


def goes_away(case: Case) -> Verdict:
    """Whether consumers go with what they have buffered. One that comes and goes between two polls is not seen."""
    poll = case.poll
    queue = case.row
    losses = poll.losses
    now = poll.found.now
    window = poll.constants.window_seconds(poll.found.interval)
    if not went_lately(case):
        stay = consumers_stay(case)
        explained = all_of(stay, returns_of_those_there(case))
        return concluded(
            "",
            excluded_by=explained,
            otherwise="its consumers stayed, and gave back as many themselves",
        )
    given = losses.lost[IN_HAND][queue]
    lasts = now - losses.since[IN_HAND][queue]
    unsettled = poll.returns.delivered[queue] - poll.returns.settled[queue]
    said = f"within {duration(max(lasts, poll.found.interval))} consumers went with {given:.0f} unacknowledged messages"
    return possible(
        said, likely=bool(given * min(1.0, window / max(lasts, 1e-9)) >= unsettled / 2)
    )


def returns_of_those_there(case: Case) -> Claim:
    """Whether the consumers that are listed let go of what came back."""
    returns = case.poll.returns
    queue = case.row
    unsettled = returns.delivered[queue] - returns.settled[queue]
    came_back = NumberRead("what came back", float(returns.returned[queue]))
    let_go = NumberRead("what they did not settle", float(unsettled))
    return all_of(came_back.above(0), let_go.reaches(came_back))


# --- deliveries that come back


def comes_back(case: Case) -> Verdicts:
    """On Artemis. A release of AMQP is no attempt to acknowledge; rollback, recover and a failure are, all alike."""
    returns = case.poll.returns
    queue = case.row
    said = f"{returns.returned[queue]:.0f} came back, {returns.settled[queue]:.0f} were settled"
    no_amqp = none_speaks(case, ("AMQP",))
    released = all_of(only_speak(case, ("AMQP",)), negated(attempts_failed(case)))
    attempts_none = "no attempt to acknowledge failed"
    only_mqtt = only_speak(case, ("MQTT",))
    never_fails = any_of(released, only_mqtt)
    without = attempts_none if released.is_so else "they speak MQTT"
    recover_unknown = any_of(never_fails, only_speak(case, WITHOUT_RECOVER))
    return {
        "releases": concluded(
            said,
            excluded_by=no_amqp,
            proof=released,
            otherwise="no consumer speaks AMQP",
        ),
        "undeliverable_here": undeliverable_here(case, no_amqp),
        "rolls_back": concluded(said, excluded_by=never_fails, otherwise=without),
        "recovers": concluded(
            said, excluded_by=recover_unknown, otherwise="they know no recover()"
        ),
        "listener_fails": concluded(
            said, excluded_by=released, otherwise=attempts_none
        ),
        "reconnects": goes_away(case),
    }


def attempts_failed(case: Case) -> Claim:
    """Whether acknowledgements were tried that settled nothing."""
    attempts = case.queue("acknowledge_attempts", "AcknowledgeAttempts")
    return attempts.above(case.poll.found.settled[case.row])


def undeliverable_here(case: Case, no_amqp: Claim) -> Verdict:
    """Such a message comes back once from each consumer."""
    found = case.poll.found
    returns = case.poll.returns
    queue = case.row
    comes_again = same_messages_come_back(case)
    waits = found.ready[queue]
    idle = not found.consumer.held[case.consumers].any()
    return concluded(
        f"{returns.returned[queue]:.0f} came back, and {waits:.0f} wait that may have been refused",
        excluded_by=any_of(no_amqp, comes_again),
        otherwise="no consumer speaks AMQP"
        if no_amqp.is_so
        else "the same messages came back more than once",
        likely=bool(idle and waits > 0 and len(case.consumers)),
    )


def same_messages_come_back(case: Case) -> Claim:
    """Whether more came back than there were messages, or a consumer got each message that ever came several times."""
    found = case.poll.found
    returns = case.poll.returns
    queue = case.row
    messages = case.queue("messages", "the number of its messages")
    added = case.queue("added", "what ever came to the queue")
    most_returned = (messages.value + returns.settled[queue]) * max(
        len(case.consumers), 1
    )
    most_delivered = found.consumer.delivered[case.consumers].max(initial=0.0)
    more_than_there_are = messages.satisfies(
        lambda _: bool(returns.returned[queue] > most_returned)
    )
    each_several_times = added.satisfies(
        lambda count: bool(most_delivered >= SEVERAL * count)
    )
    return any_of(more_than_there_are, each_several_times)


def comes_back_openmq(case: Case) -> Verdicts:
    """By how the sessions of its consumers acknowledge: rollback is of transacted ones, the others' only recover."""
    returns = case.poll.returns
    queue = case.row
    said = f"{returns.returned[queue]:.0f} came back, {returns.settled[queue]:.0f} were settled"
    transacted = sessions_transacted(case)
    return {
        "rolls_back": concluded(
            said, excluded_by=transacted.equals(0), otherwise="no session is transacted"
        ),
        "recovers": concluded(
            said,
            excluded_by=transacted.equals(1),
            otherwise="all sessions are transacted, which have no recover()",
        ),
        "listener_fails": possible(said),
    }


def sessions_transacted(case: Case) -> NumberRead:
    """The share of its consumers whose session is transacted."""
    name = "the acknowledge mode of its sessions"
    consumers = case.snapshot.consumers
    if (
        consumers is None
        or not len(case.consumers)
        or not case.all_consumers_are_listed.is_so
    ):
        return NumberRead(name, np.nan)
    modes = consumers["acknowledge_mode"][case.consumers]
    share = np.where(
        np.isnan(modes), np.nan, modes == AcknowledgeMode.TRANSACTED
    ).mean()
    return NumberRead(name, float(share))


# --- dead letters


def came_in(poll: RuleInputs) -> Column:
    return poll.activity.trend.sum(FLOW_IN)


def were_killed(poll: RuleInputs) -> Column:
    return poll.activity.trend.sum(TREND_KILLED)


class Deaths:
    """What was killed, and what became of it. Counted over the window of trends, as the dead letters are."""

    def __init__(self, case: Case) -> None:
        returns = case.poll.returns
        queue = case.row
        self.killed = float(returns.killed[queue])
        self.tried = max(float(returns.delivered[queue] - returns.settled[queue]), 0.0)
        dead, others = dead_letters(case)
        killed = case.poll.of(were_killed)[queue]
        self.none_came = all_of(
            dead.satisfies(lambda count: count < killed / 2),
            has_room_for_dead_letters(case),
        )
        self.each_came = dead.satisfies(lambda count: count - others >= killed)
        self.attempts = case.setting("max_delivery_attempts", "max-delivery-attempts")
        self.had_all_attempts = self.attempts.satisfies(
            lambda most: most > 0 and self.tried >= most * self.killed
        )
        came = "an unknown number of" if np.isnan(dead.value) else f"{dead.value:.0f}"
        self.said = f"{self.killed:.0f} were killed, {self.tried:.0f} deliveries were not settled"
        self.said += f", {came} dead letters came"


def dies(case: Case) -> Verdicts:
    """A purge kills what was not delivered, and sends nothing to the dead letters; attempts that are used up are
    deliveries, and fill them. What consumers got that came and went between two polls is in no number.
    """
    deaths = Deaths(case)
    return {
        "attempts_used_up": concluded(
            deaths.said,
            excluded_by=deaths.none_came,
            proof=all_of(deaths.each_came, deaths.had_all_attempts),
            otherwise=deaths.said,
        ),
        "rejected": rejected(case, deaths),
        "slow_consumer_killed": slow_consumer_killed(case, deaths),
        "purged": concluded(
            deaths.said,
            excluded_by=deaths.each_came,
            proof=deaths.none_came,
            otherwise=f"as many went to the dead letters: {deaths.said}",
        ),
        "purge_on_no_consumers": purge_on_no_consumers(case, deaths),
        "reconnects": reconnected(case, deaths),
    }


def dead_letters(case: Case) -> tuple[NumberRead, float]:
    """Messages that came to the queues of its dead-letter address, not known where it has none; and how many of them
    may be of other queues.
    """
    name = "what came to its dead-letter address"
    address = case.queue_row.dead_letter_address
    queues = case.poll.found.queues
    wanted = {case.queue_row.dead_letter_address} - {""}
    at = queues.where("address", attrgetter("address"), wanted)
    if not len(at) or case.left_out:
        return NumberRead(name, np.nan), 0.0
    sources = queues.where(
        "dead-letter address", attrgetter("dead_letter_address"), {address}
    )
    others = case.poll.of(were_killed)[sources[sources != case.row]].sum()
    return NumberRead(name, float(case.poll.of(came_in)[at].sum())), float(others)


def has_room_for_dead_letters(case: Case) -> Claim:
    """Whether dead letters would come to their queue: not at a full address that drops them."""
    address = case.queue_row.dead_letter_address
    fullness = case.address_named(
        address, "limit_percent", "how full the dead-letter address is"
    )
    return negated(fullness.at_least(100))


def rejected(case: Case, deaths: Deaths) -> Verdict:
    """A client may send a message to the dead letters at its first delivery."""
    more_attempts = deaths.attempts.above(1)
    had_all = all_of(more_attempts, deaths.had_all_attempts)
    is_likely = (
        deaths.each_came.is_so
        and more_attempts.is_so
        and 0 < deaths.killed <= deaths.tried
    )
    is_likely = is_likely and not deaths.had_all_attempts.is_so
    return concluded(
        f"{deaths.tried:.0f} deliveries for {deaths.killed:.0f} dead letters"
        if is_likely
        else "",
        excluded_by=any_of(deaths.none_came, had_all, none_speaks(case, CAN_REJECT)),
        otherwise=deaths.said,
        likely=is_likely,
    )


def slow_consumer_killed(case: Case, deaths: Deaths) -> Verdict:
    """The broker closes a consumer that is slower than slow-consumer-threshold; what it had loses an attempt."""
    kills = case.setting("slow_consumer_kills", "slow-consumer-policy")
    rate = case.limit("slow_consumer_rate", "slow-consumer-threshold")
    may_kill = all_of(
        kills.above(0), rate.satisfies(lambda threshold: not isinf(threshold))
    )
    return concluded(
        f"the broker closes consumers below {rate.value:.3g} messages a second"
        if may_kill.is_so
        else "",
        excluded_by=any_of(negated(may_kill), deaths.none_came),
        otherwise="the broker closes no slow consumer"
        if may_kill.is_not_so
        else deaths.said,
        likely=may_kill.is_so,
    )


def purge_on_no_consumers(case: Case, deaths: Deaths) -> Verdict:
    """A purge by the queue's own setting: no counter distinguishes it from one by an operator."""
    purges = purges_by_itself(case)
    return concluded(
        how_it_purges(case),
        excluded_by=any_of(negated(purges), deaths.each_came),
        otherwise=NOT_BY_SETTING if purges.is_not_so else deaths.said,
        likely=case.queue_row.purge_on_no_consumers is True,
    )


def how_it_purges(case: Case) -> str:
    """The queue's setting that removes messages; empty where none is known."""
    if case.queue_row.purge_on_no_consumers:
        return BY_SETTING
    return BY_DELETION if case.queue_row.auto_delete else ""


def purges_by_itself(case: Case) -> Claim:
    """Whether the queue's own settings remove messages when its last consumer goes."""
    row = case.queue_row
    settings = {
        "purge-on-no-consumers": row.purge_on_no_consumers,
        "auto-delete": row.auto_delete,
    }
    return any_of(
        *(
            unread(name) if is_set is None else known(is_set)
            for name, is_set in settings.items()
        )
    )


def reconnected(case: Case, deaths: Deaths) -> Verdict:
    """Consumers that go with messages in hand cost each of these an attempt."""
    verdict = goes_away(case)
    if verdict.fact and verdict.state is CauseState.POSSIBLE:
        return verdict
    explained = all_of(consumers_stay(case), deaths.had_all_attempts)
    stayed = "its consumers stayed, and used up all attempts themselves"
    return concluded(
        "",
        excluded_by=any_of(deaths.none_came, explained),
        otherwise=deaths.said if deaths.none_came.is_so else stayed,
    )


def purged(case: Case) -> Verdicts:
    """Who purged a queue: its own setting when the last consumer goes, else an operator."""
    purges = purges_by_itself(case)
    return {
        "operator": concluded(
            "" if purges.is_so else NOT_BY_SETTING, proof=negated(purges)
        ),
        "no_consumers": concluded(
            how_it_purges(case),
            excluded_by=negated(purges),
            otherwise=NOT_BY_SETTING,
            likely=case.queue_row.purge_on_no_consumers is True,
        ),
    }


# --- expiry


def expires(case: Case) -> Verdicts:
    """Messages without a time to live get the expiry-delay of the address settings."""
    delay = case.setting("expiry_delay", "expiry-delay")
    none_set = delay.satisfies(lambda milliseconds: milliseconds < 0)
    said = expiry_delay_text(delay)
    on_arrival = expired_on_arrival(case)
    return {
        "expiry_delay": concluded(said, excluded_by=none_set, otherwise=said),
        "time_to_live": concluded(
            f"expiry-delay: {said}" if said else "", proof=none_set
        ),
        "expired_on_arrival": on_arrival,
        "scheduled_too_long": scheduled_too_long(case),
    }


def expiry_delay_text(delay: NumberRead) -> str:
    if not delay.is_known:
        return ""
    return (
        f"it is {duration(delay.value / 1000)}"
        if delay.value >= 0
        else "the address settings have none"
    )


def expired_on_arrival(case: Case) -> Verdict:
    """A message that has expired when it comes, while a consumer waits for it, counts as expired and never as added.
    Without one it waits for the broker's next look at the queue.
    """
    found = case.poll.found
    queue = case.row
    expired = case.poll.activity.trend.sum(TREND_EXPIRED)[queue]
    left = found.settled[queue] + found.expired[queue] + found.killed[queue]
    never_added = left + found.messages[queue] - found.added[queue]
    left_more = NumberRead("what left without being added", float(never_added))
    was_not_added = left_more.above(float(np.maximum(SKEW, expired / 2)))
    waits = case.queue("messages", "the number of its messages")
    rate_in = case.poll.trend.rate_in[queue]
    comes = NumberRead("what comes to it", float(rate_in))
    lives = all_of(comes.above(0), waits.at_least(EXPIRY_SCAN * rate_in))
    compare = "compare the clocks of its producers with the broker's"
    return concluded(
        f"{never_added:.0f} left that were never added: {compare}"
        if was_not_added.is_so
        else "",
        excluded_by=all_of(lives, negated(was_not_added)),
        otherwise=f"messages wait for longer than {duration(EXPIRY_SCAN)} before they expire",
        likely=was_not_added.is_so,
    )


def scheduled_too_long(case: Case) -> Verdict:
    """A delivery delay beyond the time to live: it expires before it is due."""
    scheduled = case.queue("scheduled", "the number of scheduled messages")
    return concluded(
        f"{scheduled.value:.0f} messages are scheduled: compare their delay with their time to live"
        if scheduled.value > 0
        else "",
        excluded_by=scheduled.equals(0),
        otherwise="no message is scheduled",
        likely=bool(scheduled.value > 0 and not case.poll.found.ready[case.row] > 0),
    )
