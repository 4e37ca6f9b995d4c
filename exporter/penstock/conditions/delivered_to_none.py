"""`delivered_to_none`: messages are with a consumer that is not there. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, declared
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
    return names | {
        name: number
        for name, (number, since) in state.prepared.stuck.items()
        if since <= old
    }


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.of(stuck))]))


def why(poll: RuleInputs, _: int) -> str:
    return ", ".join(
        f"{number:.0f} messages of {name}"
        for name, number in sorted(poll.of(stuck).items())
    )


DELIVERED_TO_NONE = Condition(rule=rule, why=why, **declared("delivered_to_none"))
