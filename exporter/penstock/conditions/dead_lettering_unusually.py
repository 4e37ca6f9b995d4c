"""`dead_lettering_unusually`: more of a queue's messages go to the dead letters than in the last 28 days."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, declared
from penstock.conditions.evidence import trend
from penstock.conditions.unusual_shares import against_usual, unusual
from penstock.observation.activity import TREND_KILLED
from penstock.observation.usual import KILLED

DEAD_LETTERING_UNUSUALLY = Condition(
    rule=lambda poll: unusual(poll, KILLED, TREND_KILLED),
    evidence=against_usual(KILLED, TREND_KILLED),
    window=trend,
    decide=failures.dies,
    **declared("dead_lettering_unusually"),
)
