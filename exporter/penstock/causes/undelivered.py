"""Why a queue gives nothing to consumers that buffer nothing: selector, credit, start, or what the queue waits for."""

from collections.abc import Collection

import numpy as np

from penstock.causes.case import Case, siblings_of
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
from penstock.causes.verdict import Verdict, Verdicts, concluded, possible

ASK = frozenset({"CORE", "OPENWIRE"})
"""Protocols whose connections are started, and whose consumers may ask for each message."""


class Idle:
    """The consumers of the queue that buffer nothing."""

    def __init__(self, case: Case) -> None:
        self.at = case.consumers[np.isnan(case.poll.unacked.hold_since[case.consumers])]
        self.rows = case.rows_of(self.at)
        self.protocols = {row.protocol.rstrip("5") for row in self.rows}
        self.selectors = sorted({row.filter for row in self.rows if row.filter})
        self.siblings = [siblings_of(case.snapshot, row) for row in self.at.tolist()]
        self.are_known = case.all_consumers_are_listed if len(self.at) else UNKNOWN
        """Whether these are all that get nothing: a bridge's consumer is in no list."""

    def all_speak(self, protocols: Collection[str]) -> Claim:
        if self.protocols - set(protocols) - {""}:
            return known(False)
        return all_of(
            self.are_known,
            unread("their protocol") if "" in self.protocols else known(True),
        )

    def none_speaks(self, protocols: Collection[str]) -> Claim:
        if self.protocols & set(protocols):
            return known(False)
        return all_of(
            self.are_known,
            unread("their protocol") if "" in self.protocols else known(True),
        )

    @property
    def all_have_selectors(self) -> Claim:
        return all_of(self.are_known, known(all(row.filter for row in self.rows)))

    @property
    def none_has_selector(self) -> Claim:
        return all_of(negated(known(bool(self.selectors))), self.are_known)


def decide(case: Case) -> Verdicts:
    """On Artemis: what the idle consumers lack, and what the queue waits for, which are rivals of each other."""
    idle = Idle(case)
    every = "all" if idle.all_have_selectors.is_so else "some"
    with_selector = f"{every} idle consumers have one: {', '.join(idle.selectors[:3])}"
    foreign = "no idle consumer speaks Core or OpenWire"
    asks = negated(idle.none_speaks(ASK))
    started = connections_started(case, idle)
    others_work = "other consumers of the same connections got messages meanwhile"
    shown = others_work if started.is_so else "not shown by the broker"
    none_asked = all_of(idle.none_has_selector, idle.all_speak(ASK), started)
    return of_the_queue(case) | {
        "selector": concluded(
            with_selector if idle.selectors else "",
            excluded_by=idle.none_has_selector,
            # A STOMP client always has credit, and nothing to start.
            proof=all_of(idle.all_have_selectors, idle.all_speak({"STOMP"})),
            otherwise="no idle consumer has a selector",
        ),
        "no_credit": concluded(
            "all of this needs credit",
            excluded_by=idle.none_speaks({"AMQP"}),
            proof=all_of(idle.none_has_selector, idle.all_speak({"AMQP"})),
            otherwise="no idle consumer speaks AMQP",
        ),
        "not_started": concluded(
            shown,
            excluded_by=any_of(idle.none_speaks(ASK), started),
            otherwise=foreign if asks.is_not_so else others_work,
        ),
        "never_receives": concluded(
            shown,
            excluded_by=idle.none_speaks(ASK),
            proof=none_asked,
            otherwise=foreign,
        ),
        "undeliverable_here": undeliverable_here(case, idle),
        "socket_full": socket_full(case, idle),
    }


def connections_started(case: Case, idle: Idle) -> Claim:
    """Whether another consumer of each one's connection got messages meanwhile; if none did, that shows nothing."""
    consumer = case.poll.found.consumer
    still = case.poll.timers.still[case.row]
    got_some = [
        bool((consumer.last_delivery[at] > still).any()) for at in idle.siblings
    ]
    return known(True) if got_some and all(got_some) else UNKNOWN


def undeliverable_here(case: Case, idle: Idle) -> Verdict:
    """AMQP modified(undeliverable-here): the queue keeps the message, and never gives it to this consumer again."""
    delivered = case.poll.found.consumer.delivered[case.consumers].sum()
    waits = case.queue("messages", "the number of its messages")
    more_wait = all_of(
        idle.are_known, case.consumers_show_numbers, waits.above(delivered)
    )
    not_amqp = idle.none_speaks({"AMQP"})
    how_many = "an unknown number" if np.isnan(waits.value) else f"{waits.value:.0f}"
    return concluded(
        f"{delivered:.0f} were delivered, and {how_many} wait, which it may have refused",
        excluded_by=any_of(not_amqp, more_wait),
        otherwise="no idle consumer speaks AMQP"
        if not_amqp.is_so
        else "more wait than were ever delivered",
    )


def socket_full(case: Case, idle: Idle) -> Verdict:
    keys = case.snapshot.consumer_connection
    connections_known = (
        len(idle.at) > 0 and len(keys) > 0 and bool((keys[idle.at] >= 0).all())
    )
    held = case.poll.found.consumer.held[
        np.concatenate([idle.at[:0], *idle.siblings])
    ].sum()
    sent = NumberRead("what is under way on the same connections", float(held))
    under_way = f"{held:.0f} messages are under way on the same connections"
    nothing_sent = sent.equals(0) if connections_known else unread("their connections")
    return concluded(
        under_way if connections_known else "",
        excluded_by=all_of(nothing_sent, idle.are_known, case.consumers_show_numbers),
        otherwise=under_way,
    )


# --- what the queue itself waits for


def of_the_queue(case: Case) -> dict[str, Verdict]:
    return {
        "consumers_before_dispatch": consumers_before_dispatch(case),
        "exclusive": exclusive(case),
        "groups": groups(case),
        "browser": browser(case),
    }


def consumers_before_dispatch(case: Case) -> Verdict:
    """A queue that has begun to dispatch goes on until all consumers are gone."""
    needed = case.queue("consumers_before_dispatch", "consumers-before-dispatch")
    present = case.queue("consumers", "the number of consumers")
    dispatched = bool(case.poll.found.consumer.delivered[case.consumers].any())
    waits = negated(present.reaches(needed))
    return concluded(
        f"{present.value:.0f} of the {needed.value:.0f} consumers that it waits for are there"
        if waits.is_so
        else "",
        excluded_by=negated(waits),
        proof=all_of(waits, case.consumers_show_numbers, known(not dispatched)),
        otherwise="it waits for no more consumers",
    )


def exclusive(case: Case) -> Verdict:
    is_exclusive = case.queue("exclusive", "whether it is exclusive").above(0)
    return concluded(
        "one consumer gets all messages: look at the one that came first",
        excluded_by=negated(is_exclusive),
        otherwise="the queue is not exclusive",
    )


def groups(case: Case) -> Verdict:
    """The groups of the only consumer are its own."""
    count = case.queue("groups", "the number of message groups")
    is_alone = all_of(
        case.queue("consumers", "the number of consumers").equals(1),
        known(len(case.consumers) <= 1),
    )
    how_many = f"it has {count.value:.0f} message groups"
    said = (
        how_many if count.is_known else "it is not known whether messages have groups"
    )
    return concluded(
        f"{said}; listGroupsAsJSON shows their owners",
        excluded_by=any_of(is_alone, count.equals(0)),
        otherwise=how_many
        if count.equals(0).is_so
        else "no other consumer could own a group",
    )


def browser(case: Case) -> Verdict:
    """A browser is listed and not counted, as a consumer that just closed."""
    counted = case.queue("consumers", "the number of consumers")
    more = len(case.consumers) - counted.value
    return concluded(
        f"{more:.0f} of {len(case.consumers)} that are listed are not counted as consumers"
        if more > 0
        else "",
        excluded_by=counted.at_least(len(case.consumers)),
        otherwise="every consumer that is listed is counted",
    )


# --- OpenMQ


def decide_openmq(case: Case) -> Verdicts:
    idle = Idle(case)
    said = case.poll.openmq.said if case.poll.openmq else None
    asks_none = (
        said is not None and len(idle.at) > 0 and bool(said.flow_paused[idle.at].all())
    )
    hidden = "the broker does not show who has prefetch off"
    return {
        "selector": concluded(
            ", ".join(idle.selectors[:3]),
            excluded_by=idle.none_has_selector,
            otherwise="no idle consumer has a selector",
        ),
        "not_started": possible(
            "the broker does not show whether their connections are started"
        ),
        "never_receives": possible(
            "the idle consumers ask for no messages" if asks_none else hidden
        ),
        "connection_limit": connection_limit(case, idle),
    }


def connection_limit(case: Case, idle: Idle) -> Verdict:
    keys = case.snapshot.consumer_connection
    connections_known = len(keys) > 0 and bool((keys[idle.at] >= 0).all())
    alone = known(not any(len(others) for others in idle.siblings))
    return concluded(
        "they share a connection" if alone.is_not_so else "",
        excluded_by=all_of(
            alone,
            idle.are_known,
            known(True) if connections_known else unread("their connections"),
        ),
        otherwise="no other consumer is on their connections",
    )
