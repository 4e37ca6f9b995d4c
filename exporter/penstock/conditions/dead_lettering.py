"""`dead_lettering`: messages keep going to the dead letters."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Raised, Variant, always, declared
from penstock.conditions.dead_lettering_unusually import DEAD_LETTERING_UNUSUALLY
from penstock.conditions.evidence import rate, window, window_begin
from penstock.observation.activity import KILLED, moved_in_both_halves
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    moves = moved_in_both_halves(poll.activity, KILLED, poll.constants, poll.found.interval)
    return Raised(poll.found.judged & moves, window_begin(poll))


DEAD_LETTERING = Condition(
    rule=rule,
    evidence=rate(KILLED),
    notice=always,
    window=window,
    decide=failures.dies,
    silenced_by=(DEAD_LETTERING_UNUSUALLY,),
    variants={"classic": Variant(**declared("dead_lettering", "classic"))},
    **declared("dead_lettering"),
)
