"""`in_doubt`: transactions are prepared, and no one commits them or rolls them back."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.core.formatting import duration, some
from penstock.observation.poll import RuleInputs

LASTING = 180.0
"""Seconds: transaction managers look for what they have to recover each minute or two."""


def old(poll: RuleInputs) -> dict[str, float]:
    """First sight of each transaction that has been prepared for so long, by its Xid, the oldest first."""
    found = {
        xid: at
        for xid, at in poll.losses.prepared.items()
        if poll.found.now - at >= LASTING
    }
    return dict(sorted(found.items(), key=lambda one: one[1]))


def rule(poll: RuleInputs) -> Raised:
    return Raised(
        np.array([bool(poll.of(old))]),
        np.array([min(poll.of(old).values(), default=np.nan)]),
    )


def why(poll: RuleInputs, _: int) -> str:
    xids = list(poll.of(old))
    messages = poll.losses.in_doubt
    at = np.flatnonzero(messages > 0)
    at = at[np.argsort(-messages[at], kind="stable")]
    names = [
        f"{messages[i]:.0f} of {poll.found.queues.rows[i].name}" for i in at.tolist()
    ]
    if len(at) < np.count_nonzero(~(messages == 0)):
        names.append("an unknown number")
    return f"Xids {some([short(xid) for xid in xids])}; messages in doubt: {some(names) or 'none that was taken'}"


def short(xid: str) -> str:
    """Both ends: they begin and end alike."""
    return xid if len(xid) <= 32 else f"{xid[:8]}...{xid[-20:]}"


# --- on OpenMQ, which shows who began each, and when


def openmq_rule(poll: RuleInputs) -> Raised:
    """The one that has been prepared longest."""
    begun = min(
        (one.since for one in openmq.of(poll)[0].prepared.listed), default=np.nan
    )
    return Raised(np.array([poll.found.now - begun >= LASTING]), np.array([begun]))


def openmq_why(poll: RuleInputs, _: int) -> str:
    listed = openmq.of(poll)[0].prepared.listed
    now = poll.found.now
    return some(
        [
            f"{one.transaction.client} has sent {one.sent:.0f} and received {one.received:.0f} in transaction"
            f" {one.transaction.id}, begun {duration(now - one.created)} ago"
            for one in listed
            if now - one.since >= LASTING
        ]
    )


IN_DOUBT = Condition(
    rule=rule,
    why=why,
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            why=openmq_why,
            **declared("in_doubt", "openmq", minutes=LASTING / 60),
        )
    },
    **declared("in_doubt", minutes=LASTING / 60),
)
