"""`stalled`: a consumer buffers messages and settles none for longer than its stall threshold."""

import numpy as np

from penstock.causes import stalled as deciding
from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import nearly
from penstock.conditions.leaking import LEAKING
from penstock.conditions.open_transaction import begun, proven_rule
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import BATCH

MEANWHILE = 20
"""Messages that others settle while one hangs, at least, before that counts."""


def rule(poll: RuleInputs) -> Raised:
    hung = hangs(poll)
    threshold = poll.eager(hung)
    mask = overdue(poll, nearly(poll, threshold))
    at = np.flatnonzero(mask & ~hung)
    mask[at] = ~undecided(poll, at)
    return Raised(mask, poll.unacked.unacked_since, threshold)


def hangs(poll: RuleInputs) -> Mask:
    """Messages wait and it gets none, while others of its client and connection work, or a full ring evicts them.

    The others must settle so many messages in the time that a job as long as any before explains no silence.
    """
    found = poll.found
    consumer = poll.found.consumer
    keys = poll.snapshot.consumer_connection
    mask = longer(
        poll.unacked.unacked_since, found.now, nearly(poll, poll.constants.proof)
    )
    at = np.flatnonzero(mask)
    member = poll.groups.clients.member
    flat = np.maximum(
        consumer.last_delivery[at],
        np.append(poll.timers.ready, np.nan)[consumer.queue[at]],
    )
    mask[at] = longer(flat, found.now, nearly(poll, poll.constants.proof))
    at = at[mask[at]]
    if not len(at) or len(keys) != len(mask):
        return mask & consumer.at_queue(poll.evictions.grew > 0, np.False_)
    theirs = np.zeros(
        len(poll.groups.clients.index) + 1, np.bool_
    )  # the last one: hidden
    theirs[member[at]], theirs[-1] = True, False
    beside = np.flatnonzero(theirs[member] & (keys >= 0))
    settled = poll.unacked.settled[beside]
    rate = poll.service_rate[beside]
    works = longer(settled, found.now, 0.0) & ~longer(
        settled, found.now, 2 * found.interval
    )
    beside = beside[works & (rate * poll.constants.proof >= MEANWHILE)]
    pairs, others = (
        member[rows].astype(np.int64) << 32 | keys[rows] for rows in (at, beside)
    )
    together = np.isin(pairs, others)
    mask[at] = (poll.evictions.grew > 0)[consumer.queue[at]] & (
        consumer.queue[at] >= 0
    ) | together & (keys[at] >= 0)
    return mask


def undecided(poll: RuleInputs, at: Positions) -> Mask:
    """Of consumers, Core ones that may be filling a batch: for `cap` where batches were settled, else twice the
    patience. One that was seen to settle whole batches keeps an open one for as long as nothing comes for it.
    """
    found = poll.found
    consumer = poll.found.consumer
    unacked = poll.unacked
    patience = poll.client_patience[at]
    core = consumer.index.column("core", lambda row: row.protocol == "CORE")[at] > 0
    waits, paused = (
        np.append(one, 0.0)[consumer.queue[at]] > 0
        for one in (or_zero(found.ready), found.paused)
    )
    idle = ~waits | paused
    gets = longer(
        -consumer.last_delivery[at], -found.now, -patience
    )  # the last came within its patience
    unseen = np.where(np.isnan(unacked.settled[at]), 2 * patience, 0.0)
    batches = unacked.least[at] > BATCH / 2
    open_batch = consumer.held_bytes[at] < BATCH
    young = longer(
        -unacked.unacked_since[at],
        -found.now,
        -np.where(batches, poll.constants.cap, unseen),
    )
    fills = gets & ((consumer.d_delivered[at] > 0) | ~waits)
    return core & open_batch & (fills & young | batches & ~gets & idle)


def overdue(poll: RuleInputs, threshold: Column) -> Mask:
    """Consumers beyond their threshold (seconds) of which nothing is acknowledged and uncommitted."""
    return longer(poll.unacked.unacked_since, poll.found.now, threshold) & (
        poll.found.consumer.uncommitted == 0
    )


def openmq_rule(poll: RuleInputs) -> Raised:
    """Not while it gives back what it gets; sooner where its buffer is full and untouched and little is learned."""
    full = full_and_untouched(poll)
    mask = (
        overdue(poll, poll.client_patience) | full & overdue(poll, poll.eager(full))
    ) & ~openmq.gives_back(poll)
    return Raised(mask, openmq.unacked_since(poll))


def outside_transactions(poll: RuleInputs) -> Raised:
    """Where a transaction has been open for as long as nothing was settled, that is `open_transaction`."""
    raised = poll.of(rule)
    at_once = poll.unacked.unacked_since + 2 * poll.found.interval
    return raised._replace(
        mask=raised.mask & ~(poll.of(proven_rule).mask | (begun(poll) <= at_once))
    )


def full_and_untouched(poll: RuleInputs) -> Mask:
    """Paused by its own limit, and asking for no more ever since it last made progress, while more waits."""
    state, said = openmq.of(poll)
    since_progress = (
        state.consumers.still_since
        <= poll.unacked.unacked_since + 2 * poll.found.interval
    )
    return (
        said.flow_paused
        & since_progress
        & (np.append(poll.found.ready, 0.0)[poll.found.consumer.queue] > 0)
    )


STALLED = Condition(
    rule=rule,
    evidence=evidence.buffered,
    decide=deciding.decide,
    silenced_by=(LEAKING,),
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            decide=deciding.decide_openmq,
            **declared("stalled", "openmq"),
        ),
        "classic": Variant(rule=outside_transactions),
    },
    **declared("stalled"),
)
