"""`expiring`: messages keep expiring."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Raised, Variant, always, declared
from penstock.conditions.evidence import rate, window, window_begin
from penstock.conditions.expiring_unusually import EXPIRING_UNUSUALLY
from penstock.observation.activity import EXPIRED, moved_in_both_halves
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    moves = moved_in_both_halves(poll.activity, EXPIRED, poll.constants, poll.found.interval)
    return Raised(poll.found.judged & moves, window_begin(poll))


EXPIRING = Condition(
    rule=rule,
    evidence=rate(EXPIRED),
    notice=always,
    window=window,
    decide=failures.expires,
    silenced_by=(EXPIRING_UNUSUALLY,),
    variants={"classic": Variant(**declared("expiring", "classic"))},
    **declared("expiring"),
)
