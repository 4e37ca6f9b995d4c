"""`unheld`: messages are in delivery, and no consumer has them: no one gets them before the broker restarts."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    since = poll.losses.unheld_since
    return Raised(
        poll.found.judged & ~np.isnan(since),
        since,
        np.full(len(since), poll.constants.persistent),
    )


UNHELD = Condition(
    rule=rule,
    evidence=numbers(unheld="losses.unheld", consumers="found.consumers"),
    **declared("unheld"),
)
