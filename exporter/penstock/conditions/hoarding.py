"""`hoarding`: one consumer buffers nearly all messages while another has none."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import nearly, proof
from penstock.conditions.stalled import rule as stalled_rule
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs

MESSAGES = 10
SHARE = 0.8
"""Of the buffered messages of the queue: what one consumer must buffer at least, by count and as a share."""


def rule(poll: RuleInputs) -> Raised:
    hoards = hoarded(poll, float(nearly(poll, poll.constants.proof)))
    return Raised(hoards, uneven_since(poll, hoards), proof(poll))


def hoarded(poll: RuleInputs, idle: float) -> Mask:
    """Queues of which one consumer buffers nearly all that is left while another has had nothing for `idle` seconds.

    By the most that it settled per second over the last polls it needs more than `persistent` seconds for what it
    buffers, so waiting for it is worse than sharing would be. One that is stalled is reported as that: by the rule of
    Artemis on OpenMQ too, where the one of OpenMQ leaves out consumers that give back.
    """
    facts = poll.found
    consumer = poll.found.consumer
    shared = (
        facts.judged
        & (facts.exclusive == 0)
        & (facts.ready == 0)
        & (facts.held >= MESSAGES)
    )
    at = consumer.of(shared)
    held = consumer.held[at]
    all_held = np.fmax(
        facts.held, facts.delivering - facts.uncommitted
    )  # consumers beyond the budget hold some
    much = (held >= MESSAGES) & (held >= SHARE * all_held[consumer.queue[at]])
    at = at[much]
    held = held[much]
    pace = poll.service_rate[at]
    slow = (
        (pace > 0)
        & (held >= poll.constants.persistent * pace)
        & ~poll.of(stalled_rule).mask[at]
    )
    hoards = facts.queues_of(at[slow])
    peers = consumer.of(hoards)
    starving = facts.queues_of(
        peers[longer(poll.unacked.idle_since[peers], facts.now, idle)]
    )
    return hoards & starving & ~facts.queues_of(peers[consumer.selective[peers]])


def uneven_since(poll: RuleInputs, asked: Mask) -> Column:
    """Of the queues `asked`: since when the first of their consumers buffers nothing and the one with nearly all works:
    who stalled until just now has a pace that says little, and may soon be done.
    """
    found = poll.found
    at = poll.found.consumer.of(asked)
    queue = found.consumer.queue[at]
    (idle, works) = np.full((2, len(asked)), np.nan)
    most = found.consumer.held[at] >= SHARE * found.held[queue]
    np.fmin.at(idle, queue, poll.unacked.idle_since[at])
    np.fmax.at(works, queue[most], poll.works_since[at][most])
    return np.fmax(idle, works)


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    # the last one: of those whose queue is not known
    found = poll.found
    most = np.zeros(len(poll.found.queues) + 1)
    np.maximum.at(most, found.consumer.queue, found.consumer.held)
    return {"most": most[at], "held": found.held[at], "consumers": found.consumers[at]}


HOARDING = Condition(
    rule=rule,
    evidence=evidence,
    variants={"openmq": Variant(**declared("hoarding", "openmq"))},
    **declared("hoarding", messages=MESSAGES, share=100 * SHARE),
)
