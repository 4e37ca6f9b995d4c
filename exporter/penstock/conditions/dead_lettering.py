"""`dead_lettering`: messages keep going to the dead letters."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Variant, always, declared
from penstock.conditions.dead_lettering_unusually import DEAD_LETTERING_UNUSUALLY
from penstock.conditions.evidence import goes_on, rate, window
from penstock.observation.activity import KILLED

DEAD_LETTERING = Condition(
    rule=lambda poll: goes_on(poll, KILLED),
    evidence=rate(KILLED),
    notice=always,
    window=window,
    decide=failures.dies,
    silenced_by=(DEAD_LETTERING_UNUSUALLY,),
    variants={"classic": Variant(**declared("dead_lettering", "classic"))},
    **declared("dead_lettering"),
)
