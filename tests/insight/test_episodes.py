"""When conditions held, from what was told."""

from dataclasses import replace

from penstock.agent.recent import episodes
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.insight.answers import SeverityEpisode
from penstock.insight.events import Change, Event

ON = Event(100.0, Change.CONDITION_ON, "b", "a", "q", "c", "stalled", "warning", 60.0)
WORSE = replace(
    ON,
    time=130.0,
    change=Change.SEVERITY,
    severity="critical",
    detail="warning to critical",
)
OFF = replace(ON, time=160.0, change=Change.CONDITION_OFF, severity="critical")
STALLED = ActiveCondition("stalled", "b", "a", "q", "c", Severity.CRITICAL, 60.0)


def test_one_that_came_became_worse_and_went() -> None:
    assert episodes([ON, WORSE, OFF], [], 0) == [
        SeverityEpisode("stalled", "c", "warning", 60.0, 130.0),
        SeverityEpisode("stalled", "c", "critical", 130.0, 160.0),
    ]


def test_one_that_holds_goes_on() -> None:
    assert episodes([ON, WORSE], [STALLED], 0)[1:] == [
        SeverityEpisode("stalled", "c", "critical", 130.0, None)
    ]


def test_what_began_before_the_events() -> None:
    assert episodes([WORSE, OFF], [], 0)[0] == SeverityEpisode(
        "stalled", "c", "warning", 60.0, 130.0
    )
    assert episodes([OFF], [], 0) == [
        SeverityEpisode("stalled", "c", "critical", 60.0, 160.0)
    ]
    assert episodes([], [STALLED], 0) == [
        SeverityEpisode("stalled", "c", "critical", 60.0, None)
    ]


def test_what_ended_before_is_left_out_and_so_is_what_is_silenced() -> None:
    assert episodes([ON, OFF], [STALLED._replace(silenced=True)], 160.0) == []


def test_clients_are_kept_apart() -> None:
    other = replace(ON, client="d", time=110.0, since=90.0)
    assert [
        one.client
        for one in episodes([ON, other, OFF, replace(OFF, client="d")], [], 0)
    ] == ["c", "d"]


def test_other_events_are_passed_over() -> None:
    assert episodes([Event(1.0, Change.BROKER_DOWN, "b")], [], 0) == []
