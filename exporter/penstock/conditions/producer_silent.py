"""`producer_silent`: nothing comes, for longer than ever at this hour of the week."""

import numpy as np

from penstock.causes import silence
from penstock.conditions.blocked_by_operator import BLOCKED_BY_OPERATOR
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.disabled import DISABLED
from penstock.conditions.evidence import nearly, numbers
from penstock.conditions.producers_blocked import PRODUCERS_BLOCKED
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import CLOCK

FAST = 60.0
SOON = 90.0
FLOOR = 300.0
"""Seconds: queues that never pause so long get a notice so soon; all others, and warnings, take so long at least."""
TIMES = 2.0
MORE = 3.0
"""As many messages as ever were missing in a pause must be missing, and some more."""
FIRST = 2 * 86400.0
TIMES_FIRST = 5.0
"""In the first two weeks: seconds for which a queue must be known; the longest pause of all must be exceeded so often,
as what was missing in pauses is known for the second week only.
"""


def rule(poll: RuleInputs) -> Raised:
    """Both against the pauses of this hour and against the messages that should have come: either alone is wrong often.

    A missed message of a regular rhythm is reported by the pause alone, unless a holiday lies within it.
    """
    found = poll.found
    usual = poll.usual
    expected = poll.usual.expected
    limit = threshold(poll)
    most = TIMES * np.fmax(expected.highs[CLOCK] - 1, 0.0)
    with np.errstate(invalid="ignore"):
        overdue = expected.regular & (usual.arrival > usual.holiday_end)
        missing = overdue | (usual.clock > most + MORE)
        known = (expected.weeks >= 2) | (usual.arrival - usual.began >= FIRST)
    mask = (
        known
        & (missing | (expected.weeks == 0))
        & longer(usual.arrival, found.now, nearly(poll, limit))
    )
    return Raised(
        found.judged & ~found.parked & mask & (not found.settling), usual.arrival, limit
    )


def threshold(poll: RuleInputs) -> Column:
    """Per queue, seconds; two polls may lie between two messages at any time."""
    expected = poll.usual.expected
    early = np.where(expected.weeks < 2, TIMES_FIRST * poll.usual.longest, np.nan)
    silence = np.fmax(expected.silence, early)
    return np.maximum(
        silence + 2 * poll.found.interval, np.where(expected.pause < FAST, SOON, FLOOR)
    )


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """Not yet for long, or what came comes to another address since."""
    short = ~longer(poll.usual.arrival, poll.found.now, FLOOR)[queues]
    return short | np.array(
        [bool(silence.moved(poll, queue)) for queue in queues.tolist()], np.bool_
    )


PRODUCER_SILENT = Condition(
    rule=rule,
    evidence=numbers(
        usual_pause="usual.pause",
        missing="usual.clock",
        usual_low="usual.expected.low",
        weeks="usual.expected.weeks",
    ),
    notice=notice,
    decide=silence.silent,
    silenced_by=(PRODUCERS_BLOCKED, BLOCKED_BY_OPERATOR, DISABLED),
    **declared("producer_silent"),
)
