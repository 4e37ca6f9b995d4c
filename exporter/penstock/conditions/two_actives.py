"""`two_actives`: another broker is active with the same node id."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, Scope
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.rivals)]), np.array([np.nan]))


def why(poll: RuleInputs, _: int) -> str:
    return (
        f"also active with its node id: {', '.join(poll.rivals)}; a copy of a data directory was started, or a pair"
        " lost sight of each other"
    )


TWO_ACTIVES = Condition(
    name="two_actives",
    scope=Scope.BROKER,
    title="Another broker is active with the same node id.",
    rule=rule,
    when="another broker of this agent was seen active with the same node id between two polls at which this one was,"
    " as one and the same process",
    quiet_on="failovers, in which the one is passive, gone or another process when it is seen again; one broker that is"
    " watched under two names",
    causes={
        "copied": "a copy of its data directory was started as another broker",
        "split": "the two brokers of a pair lost sight of each other, and share no lock",
    },
    why=why,
    action="Decide which of the two is right and stop the other, keeping its data: each accepts messages that the other"
    " never sees, and neither goes on with what is known of the other",
)
