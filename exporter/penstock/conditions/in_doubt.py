"""`in_doubt` on OpenMQ: a prepared transaction keeps messages out of reach."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Alert, Condition, Raised, Scope
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """The one that is prepared longest; who prepares commits within a moment."""
    listed = openmq.of(poll)[0].prepared.listed
    begun = min((one.since for one in listed), default=np.nan)
    return Raised(np.array([bool(listed)]), np.array([begun]), np.array([poll.constants.proof]))


def why(poll: RuleInputs) -> str:
    listed, now = openmq.of(poll)[0].prepared.listed, poll.found.now
    old = [one for one in listed if now - one.since >= poll.constants.proof] or listed
    return "; ".join(
        f"{one.transaction.client} has sent {one.sent:.0f} and received {one.received:.0f} in transaction"
        f" {one.transaction.id}, begun {max(now - one.created, 0):.0f} s ago"
        for one in old[:MOST]
    ) + (f"; and {len(old) - MOST} more" if len(old) > MOST else "")


MOST = 3
"""Transactions that are named."""

IN_DOUBT = Condition(
    name="in_doubt",
    scope=Scope.BROKER,
    title="Prepared transactions wait for a decision.",
    rule=rule,
    when="the same transaction is prepared for longer than {proof}",
    quiet_on="XA transactions that are committed a moment after they were prepared, and those that are only open",
    causes=("the client or its transaction manager went away between prepare and commit",),
    why=why,
    may_be_critical=False,
    action="Start its transaction manager, which decides; else imqcmd commit txn or imqcmd rollback txn: until then"
    " no client gets these messages, also after a restart of the broker",
    brokers=OPENMQ,
    alert=Alert(
        name="PenstockInDoubt",
        description="Prepared transactions on {{ $labels.broker }} keep messages out of reach; the status page says"
        " whose.",
        runbook="brokers",
        critical=False,
    ),
)
