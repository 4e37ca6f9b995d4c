"""`delivered_to_none`: messages are with a consumer that is not there. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Alert, Condition, Raised, Scope
from penstock.observation.poll import RuleInputs
from penstock.observation.prepared import FEWEST


def stuck(poll: RuleInputs) -> dict[str, float]:
    """Messages by destination. A transaction does not say of which it has received: then it may be any of them."""
    state = openmq.of(poll)[0]
    alone = state.queues.with_nobody
    if state.prepared.received != 0:  # or not known
        return {}
    left = np.flatnonzero((alone >= FEWEST) & (poll.found.consumers == 0))
    names = {poll.found.queues.rows[i].name: float(alone[i]) for i in left.tolist()}
    old = poll.found.now - poll.constants.proof
    return names | {name: number for name, (number, since) in state.prepared.stuck.items() if since <= old}


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.of(stuck))]), np.array([np.nan]))


def why(poll: RuleInputs, _: int) -> str:
    return ", ".join(f"{number:.0f} messages of {name}" for name, number in sorted(poll.of(stuck).items()))


DELIVERED_TO_NONE = Condition(
    name="delivered_to_none",
    scope=Scope.BROKER,
    title="Messages are with a consumer that is gone.",
    rule=rule,
    when="for {proof} a destination counts messages as delivered and has no consumer and no subscription, and no"
    " transaction has received any",
    quiet_on="durable subscriptions without a consumer, consumers that went a moment ago, transactions that could not"
    " be read",
    causes={
        "left_in_buffers": "the members of a shared, non-durable subscription closed with messages in their buffers"
    },
    why=why,
    may_be_critical=False,
    action="No client gets these messages any more, not after a restart either: purge the destination when it holds"
    " nothing else that is needed; make the subscription durable, or drain it before its last member closes",
    brokers=OPENMQ,
    alert=Alert(
        name="PenstockDeliveredToNone",
        description="Messages on {{ $labels.broker }} are with a consumer that is gone; the status page says where.",
        runbook="brokers",
        critical=False,
    ),
)
