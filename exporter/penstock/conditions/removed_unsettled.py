"""`removed_unsettled`: messages leave that no consumer settled. OpenMQ only."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Condition, Raised, Scope, always
from penstock.conditions.evidence import window, window_begin
from penstock.core.table import Column, Positions
from penstock.observation.activity import PERSISTENT_POLLS
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Expired or purged."""
    removes = openmq.facts(poll).removes
    return Raised(poll.found.judged & ~removes & openmq.accounted(poll, "leaves_unread"), window_begin(poll))


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    changed = (poll.found.d_settled - poll.found.d_left)[at]
    return {"rate": np.maximum(changed, 0.0) / max(poll.found.interval, 1e-9)}


REMOVED_UNSETTLED = Condition(
    name="removed_unsettled",
    scope=Scope.QUEUE,
    title="Messages leave that no consumer has settled.",
    rule=rule,
    when=f"messages leave that no consumer let go: in both halves of the window, at {PERSISTENT_POLLS} polls or more,"
    " and more than the noise of reading",
    quiet_on="reads that are not atomic, short-lived consumers; destinations whose limit removes (that is"
    " `limit_losing`)",
    evidence=evidence,
    causes={
        "time_to_live": "messages expire before they are read",
        "purged": "an operator purges",
        "attempts_used_up": "messages are dead after failed deliveries",
    },
    action="{rate:.2f} messages a second leave unread: hold their time to live against the time to drain. With UseDMQ"
    " those that expired or failed are in mq.sys.dmq, until that has more than its limit (1,000)",
    notice=always,
    may_be_critical=False,
    window=window,
    brokers=OPENMQ,
)
