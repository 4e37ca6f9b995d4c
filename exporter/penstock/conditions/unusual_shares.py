"""Whether more of what leaves a queue is lost than in the last 28 days: common to expiry and dead letters."""

from functools import partial

import numpy as np

from penstock.conditions.condition import Evidence, Raised
from penstock.core.table import Column, Positions
from penstock.observation.activity import FLOW_OUT, TREND_EXPIRED, TREND_KILLED
from penstock.observation.onset import onset, where_asked
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import EXPIRED, unusual_share

FEWEST = 10
POLLS = 2
"""Messages in five minutes, at polls: what an operator removes goes at one poll."""
KNOWN = 86400.0
"""Seconds for which a queue must be known."""


def unusual(poll: RuleInputs, kind: int, variable: int) -> Raised:
    """kind: of the days and shares; variable: of the trend."""
    usual = poll.usual
    shares = poll.usual.shares[kind - EXPIRED]
    mask = (
        poll.found.judged
        & ~poll.found.parked
        & (shares > 0)
        & usual.known_for(poll.found.now, KNOWN)
    )
    mask[mask] = shares[mask] > unusual_share(usual.expected.highs[kind, mask])
    at = np.flatnonzero(mask)
    lost = poll.activity.trend.of(variable, at)
    mask[at] = (lost.sum(axis=0) >= FEWEST) & (
        np.count_nonzero(lost > 0, axis=0) >= POLLS
    )
    return Raised(mask, where_asked(mask, partial(unusual_since, poll, kind, variable)))


def unusual_since(
    poll: RuleInputs, kind: int, variable: int, queues: Positions
) -> Column:
    """When more of what left these queues began to be lost than is usual. kind, variable: as above."""
    flow = poll.activity.trend
    lost = flow.of(variable, queues)
    left = sum(
        flow.of(each, queues) for each in (FLOW_OUT, TREND_EXPIRED, TREND_KILLED)
    )
    usual_most = unusual_share(poll.usual.expected.highs[kind, queues])
    return onset(flow, lost - usual_most * left)


def against_usual(kind: int, variable: int) -> Evidence:
    """The share now and the highest of 28 days, in percent; messages in five minutes."""
    return lambda poll, at: {
        "share": 100 * poll.usual.shares[kind - EXPIRED][at],
        "usual_share": (poll.usual.expected.highs[kind][at] - 1) / 10,
        "lost": poll.activity.trend.of(variable, at).sum(axis=0),
    }
