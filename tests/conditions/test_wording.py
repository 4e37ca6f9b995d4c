"""Conditions in sentences: the order of causes."""

from penstock.causes.verdict import excluded, possible, proven
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.wording import causes


def test_what_is_proven_comes_first_then_what_is_likely() -> None:
    verdicts = {
        "listener_hangs": excluded("another works"),
        "long_job": possible("unknown"),
        "frozen": possible("3 of 3 stopped with it", likely=True),
        "outside": proven("so"),
    }
    one = ActiveCondition("stalled", "b", "q", "q", "c", Severity.CRITICAL, 0.0, verdicts=verdicts)
    named = [cause.name for cause in causes(CONDITIONS["stalled"], one)]
    assert (named[:3], named[-1]) == (["outside", "frozen", "long_job"], "listener_hangs")
