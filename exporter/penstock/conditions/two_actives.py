"""`two_actives`: another broker is active with the same node id."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, declared
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.rivals)]))


def why(poll: RuleInputs, _: int) -> str:
    return (
        f"also active with its node id: {', '.join(poll.rivals)}; a copy of a data directory was started, or a pair"
        " lost sight of each other"
    )


TWO_ACTIVES = Condition(rule=rule, why=why, **declared("two_actives"))
