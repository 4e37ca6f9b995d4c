"""`producer_silent`: when a steady queue is told, and everything that looks the same and is none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from causes.world import excluded
from conditions.normal_world import BEFORE, Flow, history, knowing, last, steady
from conditions.world import START, Judged
from incidents.world import Scene
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.wording import action
from penstock.model import ANONYMOUS
from penstock.settings.calendar import Calendar, Maintenance

NAME = "producer_silent"


@pytest.mark.slow  # many polls
def test_a_queue_that_never_pauses_a_minute_is_a_notice_at_90_s_and_a_warning_at_6_min() -> (
    None
):
    judged = knowing(q=steady(20.0))
    flow = Flow(judged).run(300, 20.0)
    assert not judged.conditions
    flow.run(75, 0.0)
    assert NAME not in judged.notices
    flow.run(45, 0.0)
    assert judged.notices == {NAME}
    flow.run(150, 0.0)
    assert NAME not in judged.names
    flow.run(90, 0.0)
    assert judged.names == {NAME}
    one = judged.one(NAME)
    assert one.evidence["weeks"] == 4
    assert one.evidence["usual_pause"] <= 60
    assert one.evidence["missing"] > 20 * 300
    flow.run(30, 20.0)
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_nothing_is_said_of_a_queue_of_which_nothing_is_known() -> None:
    judged = Judged()
    Flow(judged).run(300, 20.0).run(900, 0.0)
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_in_the_second_week_a_queue_is_known_after_two_days_of_it() -> None:
    """A weekly run: the hours of its first one say nothing of the pause until the next."""
    judged = knowing(step=1800.0, q=last(1, steady(2.0)))
    flow = Flow(judged).run(3600, 2.0).run(6 * 3600, 0.0)
    assert not judged.conditions
    flow.run(48 * 3600, 2.0).run(36 * 3600, 0.0)
    assert judged.names == {NAME}


@pytest.mark.slow  # many polls
def test_in_the_first_week_its_sentence_has_the_longest_pause_of_all() -> None:
    judged = Judged(step=1800.0)
    Flow(judged).run(49 * 3600, 2.0).run(4 * 3600, 0.0)
    assert judged.names == {NAME}
    one = judged.one(NAME)
    assert (one.evidence["weeks"], one.evidence["usual_pause"]) == (0, 1800)
    said = action(CONDITIONS[NAME], one.evidence)
    assert said.endswith(
        "the longest pause since it is known was 30 min, and this hour is not known yet: look at the producer"
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("uptime", [3 * 3600.0, -1e6])
def test_a_pause_that_a_gap_cuts_was_as_long_as_it_was_seen(uptime: float) -> None:
    """A weekly run, and two days later the agent is away for three hours, or the broker, which starts again."""
    judged = Judged(step=1800.0)
    flow = Flow(judged).run(3600, 2.0).run(50 * 3600, 0.0)
    judged.now = judged.now + 3 * 3600
    judged.uptime = judged.uptime + uptime
    flow.run(12 * 3600, 0.0)
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_a_queue_that_pauses_at_this_hour_is_quiet_until_it_pauses_longer() -> None:
    judged = knowing(
        step=60.0, q={**steady(0.1), "pause": np.full(len(BEFORE), 1200.0)}
    )
    flow = Flow(judged).run(600, 0.1).run(1200, 0.0)
    assert not judged.conditions
    flow.run(3600, 0.0)
    assert judged.names == {NAME}


@pytest.mark.slow  # many polls
def test_hours_at_which_nothing_comes_cost_nothing() -> None:
    """The clock of messages that should have come stands still: four weeks of nothing at this hour."""
    still = steady(20.0)
    quiet = np.isin(BEFORE % 24, [22, 23])
    still["inflow"] = np.where(quiet, 0.0, still["inflow"])
    judged = knowing(step=60.0, q=still)
    Flow(judged).run(300, 20.0).run(3600, 0.0)
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_while_the_agent_was_away_nothing_is_known_of_pauses() -> None:
    judged = knowing(q=steady(20.0))
    flow = Flow(judged).run(300, 20.0).run(60, 0.0)
    judged.now += 3600
    flow.run(60, 0.0)
    assert not judged.conditions
    flow.run(400, 0.0)
    assert judged.names == {NAME}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("address", "idle"), [(ANONYMOUS, True), ("q", True), ("other", False)]
)
def test_a_producer_that_names_an_address_with_each_message_may_be_idle(
    address: str, idle: bool
) -> None:
    """As one of STOMP."""
    scene = Scene()
    scene.step = 30.0
    scene.state = type(scene.state)(
        judgement=scene.state.judgement.with_profile(history(q=steady(5.0)))
    )
    scene.producers["p"] = {"address": address, "client": "app"}
    scene.queues["q"] = {"A": 0.0, "K": 0.0, "M": 0.0, "D": 0.0}
    scene.run(
        6,
        lambda one: one.queues.update(
            q={"A": 150.0 + one.queues["q"]["A"], "K": 0.0, "M": 0.0, "D": 0.0}
        ),
    )
    scene.run(14)
    assert (scene.one(NAME).verdicts["producer_idle"].state is not excluded) == idle


@pytest.mark.slow  # many polls
def test_a_queue_that_appears_within_an_hour_is_known_from_history() -> None:
    """The broker deletes queues that nothing uses, and makes them again; what is normal stays by name."""
    judged = knowing(q=steady(20.0))
    for _ in range(4):
        judged.poll({"other": {"A": 0, "K": 0, "M": 0, "D": 0}}, {})
    flow = Flow(judged).run(300, 20.0).run(60, 0.0)
    assert not judged.conditions
    flow.run(400, 0.0)
    assert judged.names == {NAME}


@pytest.mark.slow  # many polls
def test_history_is_in_utc_and_right_in_every_zone() -> None:
    """Silent from eight to twelve by UTC, in any of the weeks."""
    busy = steady(20.0)
    busy["inflow"] = np.where(
        BEFORE % 24 // 4 == START % 86400 // 3600 // 4, 0.0, 72000.0
    )
    for zone, hours in (("Asia/Tokyo", 0), ("America/New_York", 12)):
        judged = knowing(step=60.0, q=busy)
        judged.policy = replace(judged.policy, calendar=Calendar(zone))
        judged.now += hours * 3600
        Flow(judged).run(300, 20.0).run(600, 0.0)
        assert judged.names == ({NAME} if hours else set()), zone


@pytest.mark.slow  # many polls
def test_planned_maintenance_and_holidays_are_quiet() -> None:
    at = datetime.fromtimestamp(START, UTC).replace(tzinfo=None)
    for calendar in (
        Calendar(maintenance=(Maintenance("", at, at + timedelta(hours=2)),)),
        Calendar(holidays=frozenset({at.date()})),
    ):
        silent_on_sundays = steady(20.0)
        silent_on_sundays["inflow"] = np.where(
            BEFORE % 168 >= 144, 0.0, silent_on_sundays["inflow"]
        )
        judged = knowing(step=60.0, q=silent_on_sundays)
        judged.policy = replace(judged.policy, calendar=calendar)
        Flow(judged).run(300, 20.0).run(1800, 0.0)
        assert not judged.conditions, calendar


@pytest.mark.slow  # many polls
def test_a_producer_that_moved_is_a_notice_which_says_where_to() -> None:
    judged = knowing(q=steady(20.0))
    flow = Flow(judged).run(300, 20.0, new={"A": 0})
    for n in range(60):
        flow.run(15, 0.0, new={"A": 300.0 * (n + 1), "K": 300.0 * (n + 1)})
    assert judged.notices == {NAME}
    verdicts = judged.one(NAME).verdicts
    assert verdicts["moved"].fact == "new gets as much since"


@pytest.mark.slow  # many polls
def test_a_missed_run_of_a_regular_rhythm_is_told_by_its_time_alone() -> None:
    """Every night for four weeks: an hour and a half after it should have come, and not before."""
    rhythm = steady(0.0)
    rhythm["inflow"] = np.where(BEFORE % 24 == 22, 5.0, 0.0)
    rhythm["pause"] = 3600.0 * ((BEFORE - 23) % 24 + 1).astype(np.float64)
    judged = knowing(step=900.0, q=rhythm)
    flow = Flow(judged).run(3600, 0.01)
    flow.run(24 * 3600, 0.0)
    assert not judged.conditions
    flow.run(3 * 3600, 0.0)
    assert judged.names == {NAME}


@pytest.mark.slow  # many polls
def test_pauses_that_are_alike_by_chance_are_no_rhythm() -> None:
    """On and off: the longest pause at this hour is alike in four weeks, those of the hours beside it are not."""
    pauses = np.where(np.isin((BEFORE - BEFORE[-1]) % 24, [1, 2]), 2000.0, 600.0)
    pauses[50] = 4 * 3600.0
    judged = knowing(step=60.0, q={**steady(0.3), "pause": pauses})
    Flow(judged).run(600, 0.3).run(3000, 0.0)
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_a_blocked_producer_is_told_as_that() -> None:
    judged = knowing(q=steady(20.0))
    flow = Flow(judged).run(300, 20.0)
    said = {"A": flow.added, "K": flow.settled, "E": 1000.0, "X": 1000.0, "M": 0.0}
    for _ in range(30):
        judged.poll(
            {"q": said},
            {"c": {"queue": "q"}},
            {"q": {"limit_percent": 100.0, "paging": 0.0}},
        )
    assert judged.names == {"producers_blocked"}
