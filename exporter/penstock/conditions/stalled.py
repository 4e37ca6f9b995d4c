"""`stalled`: a consumer buffers messages and settles none for longer than its stall threshold."""

import numpy as np

from penstock.causes import stalled as deciding
from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import nearly
from penstock.conditions.leaking import LEAKING
from penstock.conditions.open_transaction import begun, proven_rule
from penstock.core.table import Column, Mask
from penstock.core.windows import longer
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import BATCH

MEANWHILE = 20
"""Messages that others settle while one hangs, at least, before that counts."""


def rule(poll: RuleInputs) -> Raised:
    hung = hangs(poll)
    threshold = np.where(hung, poll.eager, poll.client_patience)
    mask = overdue(poll, nearly(poll, threshold)) & (hung | ~poll.of(undecided))
    return Raised(mask, poll.unacked.unacked_since, threshold)


def hangs(poll: RuleInputs) -> Mask:
    """Messages wait and it gets none, while others of its client and connection work, or a full ring evicts them.

    The others must settle so many messages in the time that a job as long as any before explains no silence.
    """
    found, consumer, keys = poll.found, poll.found.consumer, poll.snapshot.consumer_connection
    flat = np.maximum(consumer.last_delivery, consumer.at_queue(poll.timers.ready, np.nan))
    mask = longer(np.maximum(flat, poll.unacked.unacked_since), found.now, nearly(poll, poll.constants.proof))
    if not mask.any() or len(keys) != len(mask):
        return mask & consumer.at_queue(poll.evictions.grew > 0, np.False_)
    together = np.where(keys >= 0, poll.groups.clients.member.astype(np.int64) << 32 | keys, -1)
    works = longer(poll.unacked.settled, found.now, 0.0) & ~longer(poll.unacked.settled, found.now, 2 * found.interval)
    works &= (poll.service_rate * poll.constants.proof >= MEANWHILE) & (together >= 0)
    evicts, at = consumer.at_queue(poll.evictions.grew > 0, np.False_), np.flatnonzero(mask)
    mask[at] = evicts[at] | np.isin(together[at], together[works])
    return mask


def undecided(poll: RuleInputs) -> Mask:
    """Core consumers that may be filling a batch: for `cap` where batches were settled, else twice the patience.

    One that was seen to settle whole batches keeps an open one for as long as nothing comes for it.
    """
    found, consumer = poll.found, poll.found.consumer
    core = consumer.index.column("core", lambda row: row.protocol == "CORE") > 0
    waits = consumer.at_queue(or_zero(found.ready), 0.0) > 0
    idle = ~waits | (consumer.at_queue(found.paused, 0.0) > 0)
    unacked, patience = poll.unacked, poll.client_patience
    gets = longer(-consumer.last_delivery, -found.now, -patience)  # the last came within its patience
    unseen = np.where(np.isnan(unacked.settled), 2 * patience, 0.0)
    bound = np.where(unacked.least > BATCH / 2, poll.constants.cap, unseen)
    young = longer(-unacked.unacked_since, -found.now, -bound)
    fills = (consumer.held_bytes < BATCH) & gets & ((consumer.d_delivered > 0) | ~waits)
    return core & (fills & young | (consumer.held_bytes < BATCH) & (unacked.least > BATCH / 2) & ~gets & idle)


def overdue(poll: RuleInputs, threshold: Column) -> Mask:
    """Consumers beyond their threshold (seconds) of which nothing is acknowledged and uncommitted."""
    return longer(poll.unacked.unacked_since, poll.found.now, threshold) & (poll.found.consumer.uncommitted == 0)


def openmq_rule(poll: RuleInputs) -> Raised:
    """Not while it gives back what it gets; sooner where its buffer is full and untouched and little is learned."""
    full = full_and_untouched(poll) & overdue(poll, poll.eager)
    mask = (overdue(poll, poll.client_patience) | full) & ~openmq.gives_back(poll)
    return Raised(mask, openmq.unacked_since(poll))


def outside_transactions(poll: RuleInputs) -> Raised:
    """Where a transaction has been open for as long as nothing was settled, that is `open_transaction`."""
    raised, at_once = poll.of(rule), poll.unacked.unacked_since + 2 * poll.found.interval
    return raised._replace(mask=raised.mask & ~(poll.of(proven_rule).mask | (begun(poll) <= at_once)))


def full_and_untouched(poll: RuleInputs) -> Mask:
    """Paused by its own limit, and asking for no more ever since it last made progress, while more waits."""
    state, said = openmq.of(poll)
    since_progress = state.consumers.still_since <= poll.unacked.unacked_since + 2 * poll.found.interval
    return said.flow_paused & since_progress & (np.append(poll.found.ready, 0.0)[poll.found.consumer.queue] > 0)


STALLED = Condition(
    rule=rule,
    evidence=evidence.buffered,
    decide=deciding.decide,
    silenced_by=(LEAKING,),
    variants={
        "openmq": Variant(rule=openmq_rule, decide=deciding.decide_openmq, **declared("stalled", "openmq")),
        "classic": Variant(rule=outside_transactions),
    },
    **declared("stalled"),
)
