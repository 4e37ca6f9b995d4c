"""Why a queue gives nothing to consumers that buffer nothing: selector, credit, start, or what the queue waits for."""

import numpy as np

from penstock.causes.surroundings import consumers_of, siblings
from penstock.causes.verdict import CauseState, Verdict, Verdicts, judged
from penstock.core.table import Positions
from penstock.observation.poll import RuleInputs

ASK = frozenset({"CORE", "OPENWIRE"})
"""Protocols whose connections are started, and whose consumers may ask for each message."""


def idle_of(poll: RuleInputs, queue: int) -> Positions:
    """Those of its consumers that buffer nothing."""
    there = consumers_of(poll, queue)
    return there[np.isnan(poll.unacked.hold_since[there])]


def decide(poll: RuleInputs, queue: int) -> Verdicts:
    """On Artemis. Where nothing holds up the queue, what its idle consumers lack may be proven."""
    idle, consumer, keys = idle_of(poll, queue), poll.found.consumer, poll.snapshot.consumer_connection
    rows, others = consumer.index.rows[idle].tolist(), [siblings(poll, row) for row in idle.tolist()]
    speak, chosen = {row.protocol for row in rows}, sorted({row.filter for row in rows if row.filter})
    held_up = of_the_queue(poll, queue, consumers_of(poll, queue))
    free = all(one.state is CauseState.EXCLUDED for one in held_up.values())
    every = "all" if all(row.filter for row in rows) else "some"
    known = len(keys) > 0 and bool((keys[idle] >= 0).all())
    sent = consumer.held[np.concatenate([idle[:0], *others])].sum()
    started = all((consumer.last_delivery[at] > poll.timers.still[queue]).any() for at in others)
    beside = "other consumers of the same connections got messages meanwhile" if started else "not shown by the broker"
    asks, foreign = bool(speak & ASK), "no idle consumer speaks Core or OpenWire"
    only = free and every == "all" and speak == {"STOMP"}  # which always has credit, and nothing to start
    selectors = f"{every} idle consumers have one: {', '.join(chosen[:3])}"
    credit = free and not chosen and speak == {"AMQP"}
    none_asked = free and not chosen and speak <= ASK and started
    under_way = f"{sent:.0f} messages are under way on the same connections"
    return held_up | {
        "selector": judged(chosen, only, selectors, "no idle consumer has a selector"),
        "no_credit": judged("AMQP" in speak, credit, "all of this needs credit", "no idle consumer speaks AMQP"),
        "not_started": judged(asks and not started, False, beside, beside if asks else foreign),
        "never_receives": judged(asks, none_asked, beside, foreign),
        "socket_full": judged(sent > 0 or not known, False, under_way if known else "", under_way),
    }


def of_the_queue(poll: RuleInputs, queue: int, there: Positions) -> dict[str, Verdict]:
    """A browser is listed and not counted, as one that just closed. Who dispatches goes on until all are gone."""
    found, queues = poll.found, poll.snapshot.queues
    needed, present = found.dispatch_at[queue], found.consumers[queue]
    more, dispatches = len(there) - present, found.consumer.delivered[there].any()
    waits = f"{present:.0f} of the {needed:.0f} consumers that it waits for are there"
    first = "one consumer gets all messages: look at the one that came first"
    count = np.nan if queues is None else queues["groups"][queue]
    known = "it is not known whether messages have groups" if np.isnan(count) else f"it has {count:.0f} message groups"
    owners = f"{known}; listGroupsAsJSON shows their owners"
    owned = count != 0 and (len(there) > 1 or present != 1)
    browsers = f"{more:.0f} of {len(there)} that are listed are not counted as consumers"
    exclusive = queues is not None and queues["exclusive"][queue] != 0
    return {
        "consumers_before_dispatch": judged(needed > present, not dispatches, waits, "it waits for no more consumers"),
        "exclusive": judged(exclusive, False, first, "the queue is not exclusive"),
        "groups": judged(owned, False, owners, "no other consumer could own a group" if count else known),
        "browser": judged(more > 0, False, browsers, "every consumer that is listed is counted"),
    }


def decide_openmq(poll: RuleInputs, queue: int) -> Verdicts:
    idle = idle_of(poll, queue)
    said, shared = poll.openmq and poll.openmq.said, any(len(siblings(poll, row)) for row in idle.tolist())
    asks_none = "the idle consumers ask for no messages" if said and said.flow_paused[idle].all() else ""
    unseen = "the broker does not show whether their connections are started"
    filters = ", ".join(sorted({row.filter for row in poll.found.consumer.index.rows[idle] if row.filter})[:3])
    return {
        "selector": judged(filters, False, filters, "no idle consumer has a selector"),
        "not_started": judged(True, False, unseen, ""),
        "never_receives": judged(True, False, asks_none or "the broker does not show who has prefetch off", ""),
        "connection_limit": judged(
            shared, False, "they share a connection", "no other consumer is on their connections"
        ),
    }
