"""`expiring`: messages keep expiring."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope, always
from penstock.conditions.evidence import rate, window, window_begin
from penstock.observation.activity import EXPIRED, moved_in_both_halves
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    moves = moved_in_both_halves(poll.activity, EXPIRED, poll.constants, poll.found.interval)
    return Raised(poll.found.judged & moves, window_begin(poll))


EXPIRING = Condition(
    name="expiring",
    scope=Scope.QUEUE,
    title="Messages expire before they are read.",
    rule=rule,
    when="messages expire in both halves of the window",
    quiet_on="one purge",
    evidence=rate("d_expired"),
    causes={"time_to_live": "messages outlive their time to live before they are read"},
    action="{rate:.2f} messages expire each second",
    notice=always,
    may_be_critical=False,
    window=window,
    brokers=ARTEMIS,
)
