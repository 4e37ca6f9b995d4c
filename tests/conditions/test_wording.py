"""Conditions in sentences: the order of causes."""

from penstock.causes.verdict import AGAINST, excluded, possible, proven
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.wording import causes
from penstock.insight.text import worth_telling


def test_what_is_proven_comes_first_then_what_is_likely() -> None:
    verdicts = {
        "listener_hangs": excluded("another works"),
        "long_job": possible("unknown"),
        "frozen": possible("3 of 3 stopped with it", likely=True),
        "outside": proven("so"),
    }
    one = ActiveCondition(
        "stalled", "b", "q", "q", "c", Severity.CRITICAL, 0.0, verdicts=verdicts
    )
    named = [cause.name for cause in causes(CONDITIONS["stalled"], one)]
    assert (named[:3], named[-1]) == (
        ["outside", "frozen", "long_job"],
        "listener_hangs",
    )


def test_a_cause_that_all_evidence_is_against_comes_last_of_the_possible_ones_and_in_one_line() -> (
    None
):
    verdicts = {
        "outside": possible(f"{AGAINST}no other client stopped within 2 s of it"),
        "blocked_in_send": possible(
            f"{AGAINST}no producer of its session is known to send to a full address"
        ),
        "frozen": possible("3 of 3 stopped with it", likely=True),
        "never_commits": excluded("it speaks AMQP"),
    }
    one = ActiveCondition(
        "stalled", "b", "q", "q", "c", Severity.CRITICAL, 0.0, verdicts=verdicts
    )
    found = causes(CONDITIONS["stalled"], one)
    assert [cause.name for cause in found][-3:] == [
        "blocked_in_send",
        "outside",
        "never_commits",
    ]
    lines = worth_telling(found)
    assert lines[0].startswith("possible: a process that is frozen")
    assert lines[-1].startswith("excluded:")
    assert lines[-2] == (
        "less likely: a send to a full address of this broker that does not return (no producer of its session is known"
        " to send to a full address); something outside that several clients wait for: a database, a service, a host"
        " (no other client stopped within 2 s of it)"
    )
