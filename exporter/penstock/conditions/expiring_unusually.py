"""`expiring_unusually`: more of a queue's messages expire than in the last 28 days."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import trend, window_begin
from penstock.conditions.unusual_shares import against_usual, unusual
from penstock.observation.activity import TREND_EXPIRED
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import EXPIRED


def rule(poll: RuleInputs) -> Raised:
    return Raised(unusual(poll, EXPIRED, TREND_EXPIRED), window_begin(poll))


EXPIRING_UNUSUALLY = Condition(
    rule=rule,
    evidence=against_usual(EXPIRED, TREND_EXPIRED),
    window=trend,
    decide=failures.expires,
    **declared("expiring_unusually"),
)
