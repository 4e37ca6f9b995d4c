"""`dead_letters_lost`: messages are removed after failed deliveries, and no dead-letter queue gets them."""

import numpy as np

from penstock.causes.case import Case
from penstock.causes.evidence import known, negated
from penstock.causes.verdict import Verdicts, concluded
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import window
from penstock.core.table import Column, Positions
from penstock.observation.losses import PLACELESS, TARGET
from penstock.observation.poll import RuleInputs

DELIVERED = 0.5
"""Of what was killed, so many deliveries at least that settled nothing: a purge needs none."""


def rule(poll: RuleInputs) -> Raised:
    losses = poll.losses
    returned = poll.returns
    delivered = returned.delivered - returned.settled >= DELIVERED * returned.killed
    gone = (
        losses.go_on(PLACELESS, poll.found, poll.constants)
        & delivered
        & (returned.killed > 0)
    )
    drops = losses.go_on(TARGET, poll.found, poll.constants)
    return Raised(
        gone | drops, np.where(gone, losses.since[PLACELESS], losses.since[TARGET])
    )


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    in_all = poll.losses.amount
    return {"lost": np.where(poll.found.parked, in_all[TARGET], in_all[PLACELESS])[at]}


def why(poll: RuleInputs, queue: int) -> str:
    row = poll.found.queues.rows[queue]
    if poll.found.parked[queue]:
        return f"the address {row.address} is full and its policy is DROP: what is sent there is dropped"
    if row.dead_letter_address:
        return f"its dead-letter address {row.dead_letter_address} has no queue"
    return "the queue has no dead-letter address"


def decide(case: Case) -> Verdicts:
    """Only what keeps dead letters drops them because it is full."""
    fact = why(case.poll, case.row)
    is_parked = known(case.poll.found.parked[case.row])
    return {
        "no_dead_letter_queue": concluded(
            fact, excluded_by=is_parked, proof=negated(is_parked), otherwise=fact
        ),
        "dead_letter_address_full": concluded(
            fact, excluded_by=negated(is_parked), proof=is_parked, otherwise=fact
        ),
    }


DEAD_LETTERS_LOST = Condition(
    rule=rule,
    evidence=evidence,
    why=why,
    decide=decide,
    window=window,
    **declared("dead_letters_lost"),
)
