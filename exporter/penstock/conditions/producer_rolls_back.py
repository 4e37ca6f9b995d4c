"""`producer_rolls_back`: producers roll back much of what they send to an address."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope, always
from penstock.conditions.duplicates_dropped import senders
from penstock.conditions.evidence import lost, window
from penstock.conditions.in_doubt import some
from penstock.conditions.texts import texts
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
    name="producer_rolls_back",
    scope=Scope.QUEUE,
    rule=rule,
    when=f"at least {MANY:.0%} of what came to the address was rolled back by its producers, which grew at three polls"
    " or more, over {persistent} or longer, the last of them within the window",
    evidence=lost(ROLLED_BACK, share=True),
    why=why,
    notice=always,
    may_be_critical=False,
    of_address=True,
    window=window,
    brokers=ARTEMIS,
    **texts("producer_rolls_back"),
)
