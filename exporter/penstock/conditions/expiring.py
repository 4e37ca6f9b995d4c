"""`expiring`: messages keep expiring."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Variant, always, declared
from penstock.conditions.evidence import goes_on, rate, window
from penstock.conditions.expiring_unusually import EXPIRING_UNUSUALLY
from penstock.observation.activity import EXPIRED

EXPIRING = Condition(
    rule=lambda poll: goes_on(poll, EXPIRED),
    evidence=rate(EXPIRED),
    notice=always,
    window=window,
    decide=failures.expires,
    silenced_by=(EXPIRING_UNUSUALLY,),
    variants={"classic": Variant(**declared("expiring", "classic"))},
    **declared("expiring"),
)
