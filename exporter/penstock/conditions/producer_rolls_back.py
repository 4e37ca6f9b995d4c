"""`producer_rolls_back`: producers roll back much of what they send to an address."""

from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.duplicates_dropped import producers
from penstock.conditions.evidence import lost, window
from penstock.observation.losses import ROLLED_BACK
from penstock.observation.poll import RuleInputs

MANY = 0.1
"""Share of what was sent: to roll back and retry now and then is what transactions are for; no one retries each tenth
message without a cause that stays."""


def rule(poll: RuleInputs) -> Raised:
    losses = poll.losses
    many = losses.share(ROLLED_BACK) >= MANY
    return Raised(many & losses.go_on(ROLLED_BACK, poll.found, poll.constants), losses.since[ROLLED_BACK])


PRODUCER_ROLLS_BACK = Condition(
    rule=rule,
    evidence=lost(ROLLED_BACK, share=True),
    why=producers,
    notice=always,
    window=window,
    **declared("producer_rolls_back", share=100 * MANY),
)
