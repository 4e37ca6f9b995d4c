"""What is normal, hour by hour: what is learned of healthy days, of faults, of gaps."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from conditions.normal_world import BEFORE, Flow, history, knowing, last, steady
from conditions.world import START, Judged
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.agent.packed import pack, unpack
from penstock.assessment.assess import State
from penstock.core.table import Index
from penstock.learned.byte_tables import ByteTables, packed, unpacked
from penstock.learned.normal import FLOWS, INFLOW, PAUSE, Normal
from penstock.model import QueueKind, QueueRow, RingSource
from penstock.observation.usual import CLOCK, EXPIRED
from penstock.settings.calendar import HOURS, Calendar, parse_maintenance

HOUR = 3600.0


def test_a_byte_is_right_within_four_percent_and_zero_is_not_known() -> None:
    values = np.geomspace(1.0, 4e7, 500)
    assert np.abs(unpacked(packed(values)) / values - 1).max() < 0.036
    assert np.isnan(unpacked(packed(np.nan)))
    assert unpacked(packed(0.2)) == 1


def test_hours_follow_the_wall_clock_also_when_it_is_set() -> None:
    berlin = Calendar("Europe/Berlin")
    hours = [
        berlin.hour(datetime(2026, 3, 29, at, tzinfo=UTC).timestamp()) % HOURS
        for at in range(4)
    ]
    assert [hour % 24 for hour in hours] == [1, 3, 4, 5]
    autumn = [
        berlin.hour(datetime(2026, 10, 25, at, tzinfo=UTC).timestamp()) % 24
        for at in range(3)
    ]
    assert autumn == [2, 2, 3]
    assert berlin.hour(datetime(2026, 3, 2, 23, tzinfo=UTC).timestamp()) % HOURS == 24


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-12-24 22:00", "2026-12-25 02:00 / 2026-12-24 22:00"]
)
def test_maintenance_that_is_none_says_how_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match="2026-12-24 22:00 / 2026-12-25 02:00"):
        parse_maintenance(text)


def table(judged: Judged, kind: int, hours_ago: int = 0) -> float:
    normal = judged.state.judgement.normal
    hour = normal.told - hours_ago
    place = normal.flows.names["q", "q"]
    return float(
        unpacked(normal.flows.hours[kind, hour // HOURS % 4, hour % HOURS, place])
    )


@pytest.mark.slow  # many polls
def test_an_hour_is_learned_when_it_ends_with_its_rate_and_its_longest_pause() -> None:
    judged = Judged(step=60.0)
    flow = Flow(judged).run(HOUR, 2.0)
    flow.run(600, 0.0).run(HOUR, 2.0)
    assert abs(table(judged, INFLOW) / 7200 - 1) < 0.2
    assert 540 < table(judged, PAUSE) < 700


@pytest.mark.slow  # many polls
def test_what_goes_beyond_the_expected_is_learned_as_that() -> None:
    """A silence of three hours does not become the normal of this hour."""
    judged = knowing(step=300.0, q=steady(2.0))
    flow = Flow(judged).run(HOUR, 2.0)
    flow.run(3 * HOUR, 0.0)
    assert table(judged, PAUSE) < 300
    judged = Judged(step=300.0)
    Flow(judged).run(HOUR, 2.0).run(3 * HOUR, 0.0)
    assert table(judged, PAUSE) > 2 * HOUR


@pytest.mark.slow  # many polls
def test_in_the_first_weeks_a_long_pause_is_learned_as_it_is() -> None:
    """It may be the rhythm of the queue: as a limit, that of the first week's hours would hold for ever."""
    judged = knowing(step=300.0, q=last(2, steady(2.0)))
    Flow(judged).run(HOUR, 2.0).run(3 * HOUR, 0.0).run(HOUR, 2.0)
    assert table(judged, PAUSE) > 2 * HOUR
    assert judged.state.judgement.normal.today[CLOCK][0] > 5 * HOUR


@pytest.mark.parametrize(
    ("weeks", "longest"), [(0, 6 * HOUR), (2, 6 * HOUR), (3, 60.0)]
)
def test_of_limits_history_counts_until_three_weeks_are_learned(
    weeks: int, longest: float
) -> None:
    """Its margin is that of four weeks: two weeks of the agent's own are no ground for it."""
    hour = int(BEFORE[-1]) + 1
    past = {
        **steady(1.0),
        "pause": np.where(hour - 4 * HOURS == BEFORE, 6 * HOUR, 60.0),
    }
    own = FLOWS.with_columns_for([("q", "q")])
    own.hours[:, (hour // HOURS - 1 - np.arange(weeks)) % 4] = packed(60.0)
    row = QueueRow(
        "q", "q", "anycast", True, False, "", QueueKind.USER, RingSource.NONE, "", ""
    )
    normal = Normal().reindexed(Index.of([row]))
    normal = replace(
        normal, place=np.zeros(1, np.intp), flows=own, past=history(q=past)
    )
    assert normal.expect(hour).pause == pytest.approx(longest, rel=0.04)


@pytest.mark.slow  # many polls
def test_before_rates_are_known_nothing_is_learned_of_messages_that_should_have_come() -> (
    None
):
    judged = Judged(step=1800.0)
    Flow(judged).run(48 * HOUR, 2.0)
    assert np.isnan(judged.state.judgement.normal.expected.highs[CLOCK][0])


@pytest.mark.slow  # many polls
def test_nothing_that_is_not_known_is_learned_as_the_limit() -> None:
    judged = knowing(
        step=900.0, q={**steady(2.0), "expired": np.full(len(BEFORE), 0.1)}
    )
    flow = Flow(judged).run(2 * HOUR, 2.0)
    flow.run(24 * HOUR, 0.0)
    highs = judged.state.judgement.normal.expected.highs
    assert highs[EXPIRED][0] < 110
    assert highs[CLOCK][0] < 2000


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("holiday", [True, False])
def test_an_absence_that_a_holiday_prolongs_is_not_learned(holiday: bool) -> None:
    """Else the day after is irregular for four weeks."""
    judged = Judged(step=600.0)
    day = datetime.fromtimestamp(START, UTC).date()
    judged.policy = replace(
        judged.policy, calendar=Calendar(holidays=frozenset({day} if holiday else {}))
    )
    Flow(judged).run(HOUR, 2.0)
    for _ in range(5 * 6):
        judged.poll({"q": {"A": 9000, "K": 8000, "M": 1000, "D": 0}}, {})
    assert judged.now // 86400 > START // 86400
    assert bool(judged.state.judgement.normal.absences.names) == (not holiday)


@pytest.mark.slow  # many polls
def test_a_gap_of_the_polls_teaches_nothing() -> None:
    judged = Judged(step=300.0)
    flow = Flow(judged).run(1.5 * HOUR, 2.0)
    told = judged.state.judgement.normal.told
    judged.now += 5 * HOUR
    flow.run(1200, 2.0)
    assert judged.state.judgement.normal.told == told + 1, "the hour in which it ended"
    assert table(judged, PAUSE) < 200


def test_a_queue_that_is_gone_keeps_its_column_and_one_that_is_forgotten_gives_it_back() -> (
    None
):
    tables = FLOWS.with_columns_for([("a", "a"), ("b", "b")])
    values = packed(np.full((3, 2), 100.0))
    tables = tables.with_hour(
        1000, tables.places([("a", "a"), ("b", "b")]), values, since=999
    )
    assert tables.without_unused([("a", "a")], 10).names.keys() == {
        ("a", "a"),
        ("b", "b"),
    }
    assert tables.without_unused([("a", "a")], 1).names.keys() == {("a", "a")}
    later = tables.with_hour(
        1000 + 4 * HOURS, tables.places([("a", "a")]), values[:, :1], since=1000
    )
    assert later.without_unused([("a", "a")], 10).names.keys() == {("a", "a")}
    assert ByteTables.of(3, 7).restored(*later.stored()).names == later.names


@pytest.mark.slow  # many polls
def test_known_from_history_and_never_a_message_since_is_silent_too() -> None:
    judged = knowing(step=15.0, q=steady(20.0))
    Flow(judged).run(600, 0.0)
    assert "producer_silent" in judged.names


@pytest.mark.slow  # many polls
def test_the_better_founded_rate_wins_after_three_days() -> None:
    """History says 2/s, 6/s come: at first the history is believed, then what was learned."""
    assert len(BEFORE) == 4 * HOURS
    judged = knowing(step=1800.0, q=steady(2.0))
    flow = Flow(judged).run(7.5 * 24 * HOUR, 6.0)
    normal = judged.state.judgement.normal
    assert normal.hours[0] < 72
    assert normal.expected.from_history[0]
    flow.run(3.5 * 24 * HOUR, 6.0)
    normal = judged.state.judgement.normal
    assert not normal.expected.from_history[0]
    assert abs(normal.expected.inflow[1][0] / 21600 - 1) < 0.1
    assert judged.now > START
    assert history(q=steady(1.0)).weeks >= 4


@pytest.mark.slow  # many polls
def test_what_was_learned_outlives_the_agent_also_where_the_broker_started_anew() -> (
    None
):
    judged = Judged(step=300.0)
    flow = Flow(judged).run(3 * HOUR, 2.0)
    said = {"A": flow.added, "K": flow.settled, "E": 1000.0, "X": 1000.0, "M": 0.0}
    snapshot = judged.snapshot({"q": said}, {"c": {"queue": "q"}}, {})
    kept = checkpoint_of(judged.state, snapshot, judged.policy)
    assert kept is not None
    again = unpack(pack(kept), Checkpoint)
    before = judged.state.judgement.normal
    for start in (snapshot.broker.uptime, 60.0) if snapshot.broker else ():
        judged.uptime = start
        restored = restore(
            again,
            State(),
            judged.snapshot({"q": said}, {"c": {"queue": "q"}}, {}),
            judged.policy,
        )
        normal = restored.judgement.normal
        assert normal.told == before.told
        assert normal.flows.names == before.flows.names
        assert (normal.flows.hours == before.flows.hours[..., :1]).all()
    judged.state = restored
    judged.uptime = 1e6
    flow.run(300, 2.0)
    assert table(judged, INFLOW) == pytest.approx(7201, rel=0.2)
