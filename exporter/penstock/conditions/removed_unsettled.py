"""`removed_unsettled`: messages leave that no consumer settled. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.evidence import numbers, window
from penstock.observation.activity import PERSISTENT_POLLS
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Expired or purged."""
    removes = openmq.facts(poll).removes
    mask = poll.found.judged & ~removes & openmq.accounted(poll, "leaves_unread")
    return Raised(mask, openmq.accounted_since(poll, "leaves_unread"))


evidence = numbers(
    rate=lambda poll: (
        np.maximum(poll.found.d_settled - poll.found.d_left, 0.0)
        / max(poll.found.interval, 1e-9)
    )
)
REMOVED_UNSETTLED = Condition(
    rule=rule,
    evidence=evidence,
    notice=always,
    window=window,
    **declared("removed_unsettled", polls=PERSISTENT_POLLS),
)
