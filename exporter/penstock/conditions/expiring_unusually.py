"""`expiring_unusually`: more of a queue's messages expire than in the last 28 days."""

from penstock.causes import failures
from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.evidence import trend, window_begin
from penstock.conditions.texts import texts
from penstock.conditions.unusual_shares import against_usual, unusual
from penstock.observation.activity import TREND_EXPIRED
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import EXPIRED


def rule(poll: RuleInputs) -> Raised:
    return Raised(unusual(poll, EXPIRED, TREND_EXPIRED), window_begin(poll))


EXPIRING_UNUSUALLY = Condition(
    name="expiring_unusually",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=against_usual(EXPIRED, TREND_EXPIRED),
    may_be_critical=False,
    window=trend,
    decide=failures.expires,
    brokers=ARTEMIS,
    **texts("expiring_unusually"),
)
