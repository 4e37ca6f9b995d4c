"""`producer_rolls_back`: producers roll back much of what they send to an address."""

from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.duplicates_dropped import senders
from penstock.conditions.evidence import lost, window
from penstock.conditions.in_doubt import some
from penstock.observation.losses import ROLLED_BACK
from penstock.observation.poll import RuleInputs

MANY = 0.1
"""Share of what was sent: to roll back and retry now and then is what transactions are for; nobody retries each tenth
message without a cause that stays."""


def rule(poll: RuleInputs) -> Raised:
    losses = poll.losses
    many = losses.share(ROLLED_BACK) >= MANY
    return Raised(many & losses.go_on(ROLLED_BACK, poll.found, poll.constants), losses.since[ROLLED_BACK])


def why(poll: RuleInputs, queue: int) -> str:
    clients = sorted(poll.of(senders).get(poll.found.queues.rows[queue].address, ()))
    return f"producers of the address: {some(clients)}" if clients else ""


PRODUCER_ROLLS_BACK = Condition(
    rule=rule,
    evidence=lost(ROLLED_BACK, share=True),
    why=why,
    notice=always,
    window=window,
    **declared("producer_rolls_back", share=100 * MANY),
)
