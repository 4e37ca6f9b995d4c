"""`over_budget`: the broker has more than its budgets allow, and part of it is left out."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, declared
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.left_out)]))


def why(poll: RuleInputs, _: int) -> str:
    return f"left out: {', '.join(map(str, poll.left_out))}"


OVER_BUDGET = Condition(rule=rule, why=why, **declared("over_budget"))
