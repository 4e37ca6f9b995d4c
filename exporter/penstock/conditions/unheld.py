"""`unheld`: messages are in delivery, and no consumer has them: no one gets them before the broker restarts."""

import numpy as np

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.texts import texts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    since = poll.losses.unheld_since
    return Raised(poll.found.judged & ~np.isnan(since), since, np.full(len(since), poll.constants.persistent))


UNHELD = Condition(
    name="unheld",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=lambda poll, at: {"unheld": poll.losses.unheld[at], "consumers": poll.found.consumers[at]},
    may_be_critical=False,
    by_consumer=True,
    brokers=ARTEMIS,
    **texts("unheld"),
)
