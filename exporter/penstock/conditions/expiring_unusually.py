"""`expiring_unusually`: more of a queue's messages expire than in the last 28 days."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, declared
from penstock.conditions.evidence import trend
from penstock.conditions.unusual_shares import against_usual, unusual
from penstock.observation.activity import TREND_EXPIRED
from penstock.observation.usual import EXPIRED

EXPIRING_UNUSUALLY = Condition(
    rule=lambda poll: unusual(poll, EXPIRED, TREND_EXPIRED),
    evidence=against_usual(EXPIRED, TREND_EXPIRED),
    window=trend,
    decide=failures.expires,
    **declared("expiring_unusually"),
)
