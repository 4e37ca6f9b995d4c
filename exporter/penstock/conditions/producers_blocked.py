"""`producers_blocked`: nothing comes in, because the address is full, closed, or the whole broker is full."""

import numpy as np

from penstock.causes import limits
from penstock.causes.surroundings import full_broker
from penstock.conditions import openmq
from penstock.conditions.blocked_by_operator import BLOCKED_BY_OPERATOR
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.dead_letters_full import DEAD_LETTERS_FULL
from penstock.conditions.evidence import full_address, full_destination, nearly, proof
from penstock.core.table import Mask
from penstock.core.windows import longer
from penstock.observation.facts import Facts
from penstock.observation.openmq import at_limit, near_limit
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    lasts = longer(poll.timers.blocked, poll.found.now, nearly(poll, proof(poll)))
    return Raised(
        blocked(poll.found, bool(full_broker(poll.broker))) & lasts,
        poll.timers.blocked,
        proof(poll),
    )


def blocked(facts: Facts, broker_full: bool) -> Mask:
    """Nothing comes in, and the address is full under BLOCK, or the whole broker is full; or as many as the broker says
    wait, where it says so.

    To none of its queues: one whose filter wants nothing of it says nothing of the producers.
    """
    address = facts.address
    is_full = (address.limit_percent >= 100) & ~(address.paging > 0) | broker_full
    waits = np.where(
        np.isnan(address.blocked_producers), is_full, address.blocked_producers > 0
    )
    return facts.judged & (address.d_added == 0) & waits


def openmq_rule(poll: RuleInputs) -> Raised:
    """Nothing comes in to a full destination that makes its producers wait, or that an operator closed to them.

    Close to its limit the same proves it only after the timeout. What producers say of themselves proves nothing.
    """
    said = openmq.facts(poll)
    found = poll.found
    since = poll.timers.blocked
    waits = said.flow_control & (said.producers > 0) & said.balanced
    is_full = (
        waits & at_limit(found, said) & longer(since, found.now, poll.constants.proof)
    )
    nearly_full = (
        waits & near_limit(found, said) & longer(since, found.now, poll.queue_patience)
    )
    closed = (found.address.producers_paused > 0) & (said.producers > 0)
    mask = (
        is_full | nearly_full | closed & longer(since, found.now, poll.constants.proof)
    )
    return Raised(found.judged & mask, since)


PRODUCERS_BLOCKED = Condition(
    rule=rule,
    evidence=full_address,
    decide=limits.blocked,
    silenced_by=(BLOCKED_BY_OPERATOR, DEAD_LETTERS_FULL),
    variants={
        "classic": Variant(**declared("producers_blocked", "classic")),
        "openmq": Variant(
            rule=openmq_rule,
            evidence=full_destination,
            decide=limits.blocked_openmq,
            **declared("producers_blocked", "openmq"),
        ),
    },
    **declared("producers_blocked"),
)
