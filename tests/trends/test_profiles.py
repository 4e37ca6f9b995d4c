"""What is normal, from history through the job to an agent: it is right from its first poll."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conditions.normal_world import Flow
from conditions.world import START, Judged
from penstock.agent.profiles import ProfileFile
from penstock.conditions.condition import Severity
from penstock.history.compact import DAY
from penstock.history.publish import ALL_DAY, RAW, in_order
from penstock.history.schema import QUEUE
from penstock.history.store import Store
from penstock.learned.byte_tables import packed, unpacked
from penstock.learned.normal import INFLOW
from penstock.learned.profile import by_broker
from penstock.settings.calendar import HOURS, Calendar
from penstock_trends.days import day_names, load
from penstock_trends.normal import hours_of, profile_of, raised_by_steps
from penstock_trends.profiles import PROFILES, write_profiles
from penstock_trends.results import Tables
from penstock_trends.tiers import roll_up
from trends.rows import polls_of, rows_of_hours

FIRST = int(START) // DAY * DAY - 21 * DAY
DAYS = (0, 7, 14)
EVERY = 1200
RATE = 0.5
QUEUES = ("steady", "nightly")


def bursts_of(number: int) -> Any:
    """Five messages a second, in five minutes of each hour thirty: one consumer needs 0.05 s for each."""
    stamp = FIRST + number * DAY + 30 * np.arange(DAY // 30)
    since = stamp - FIRST
    burst = np.clip(since % 3600 - 600, 0, 300) + since // 3600 * 300
    came = 5.0 * since + 25.0 * burst
    waits = np.interp(since % 3600, [600, 900, 1100, 3600], [0.0, 3000.0, 0.0, 0.0])
    return polls_of(
        "q",
        stamp,
        30.0,
        added=came,
        acknowledged=came - waits,
        messages=waits,
        consumers=np.ones(len(since)),
    )


def day_of(number: int) -> Any:
    """Messages come to both queues at all times; the second one is read for an hour each night from two o'clock."""
    stamp = FIRST + number * DAY + EVERY * np.arange(DAY // EVERY)
    since = stamp - FIRST
    here = since % DAY // 3600 == 2
    came = np.floor(RATE * since)
    left = np.where(
        here,
        came,
        np.floor(RATE * np.maximum(since - (since % DAY - 3 * 3600) % DAY, 0)),
    )
    rows = polls_of(
        "steady",
        stamp,
        EVERY,
        added=came,
        acknowledged=came,
        messages=0 * came,
        consumers=0 * came + 1,
    )
    waits = came - left
    here = here.astype(float)
    return pa.concat_tables(
        [
            rows,
            polls_of(
                "nightly",
                stamp,
                EVERY,
                added=came,
                acknowledged=left,
                messages=waits,
                consumers=here,
            ),
        ]
    ).unify_dictionaries()


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_of(spark, tmp_path_factory, day_of)


@pytest.fixture(scope="module")
def paced(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_of(spark, tmp_path_factory, bursts_of)


def made_of(
    spark: Any, folders: pytest.TempPathFactory, day_of: Callable[[int], Any]
) -> Path:
    """What the job makes of one weekday of three weeks, by its steps for this file (`test_job` has all of it)."""
    history, out = (folders.mktemp(name) for name in ("history", "out"))
    for number in DAYS:
        day = str(np.datetime64(FIRST + number * DAY, "s").astype("datetime64[D]"))
        path = f"{RAW}/kind=queue/dt={day}/hour={ALL_DAY}/part.parquet"
        Store(str(history)).write_table(path, in_order(day_of(number), QUEUE))
    source = Store(str(history))
    target = Store(str(out))
    roll_up(spark, source, target, lambda _: None)
    window = load(target, day_names(target))
    Tables(spark, target, window).write_accounts(window)
    write_profiles(spark, target, window)
    return out / PROFILES


def morning(profile: Any, **rates: float) -> set[str]:
    """What an agent says that starts at half past two: the reader of the one queue leaves at three."""
    judged = Judged(step=30.0)
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(profile)
    )
    judged.now = START // DAY * DAY + 2.5 * 3600
    came = dict.fromkeys(QUEUES, 1000.0)
    read = 1000.0
    worst: set[str] = set()
    for poll in range(120):
        came = {
            name: count + round(30 * rates.get(name, RATE))
            for name, count in came.items()
        }
        read = came["nightly"] if poll < 60 else read
        worked = {"A": came["steady"], "K": came["steady"], "M": 0.0, "D": 0.0}
        waits = {"A": came["nightly"], "K": read, "M": came["nightly"] - read, "D": 0.0}
        consumers = {
            "c": {"queue": "steady", "T": 0, "N": came["steady"], "C": came["steady"]}
        }
        if poll < 60:
            consumers["n"] = {"queue": "nightly", "T": 0, "N": read, "C": read}
        judged.poll({"steady": worked, "nightly": waits}, consumers)
        worst |= {
            f"{one.queue}: {one.name}"
            for one in judged.conditions
            if one.severity is not Severity.INFO
        }
    return worst


def test_a_batch_is_quiet_from_the_first_day_on(made: Path) -> None:
    profile = ProfileFile(made).of("b")
    assert profile is not None
    assert morning(None) == {"nightly: no_consumer"}, "without a profile"
    assert morning(profile) == set()


def test_it_says_on_how_many_weeks_it_rests_and_may_be_read_by_an_agent(
    made: Path,
) -> None:
    assert {row["queue"]: row["weeks"] for row in pq.read_table(made).to_pylist()} == {
        "steady": 3,
        "nightly": 3,
    }
    assert made.stat().st_mode & 0o044 == 0o044


def at_work(profile: Any) -> Flow:
    """The queue of `bursts_of`, ten minutes after its agent's first start."""
    judged = Judged(step=15.0)
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(profile)
    )
    return Flow(judged).run(600, 5.0)


def test_a_slowdown_and_a_surge_are_known_from_the_first_day(paced: Path) -> None:
    profile = ProfileFile(paced).of("b")
    for known, slowed, surge in (
        (None, set(), set()),
        (profile, {"slowed"}, {"surge"}),
    ):
        slow = at_work(known).run(240, 5.0, settles=4.0).judged
        assert slow.names & {"slowed"} == slowed, "five times as slow"
        if slowed:
            assert abs(slow.one("slowed").evidence["usual_service_time"] - 0.05) < 0.005
        assert at_work(known).run(420, 50.0).judged.notices == surge


def test_it_is_slow_also_while_less_comes_than_goes(paced: Path) -> None:
    """A bound would not do: the usual is known."""
    flow = at_work(ProfileFile(paced).of("b")).run(15, 200.0, settles=0.0)
    assert "slowed" in flow.run(300, 3.0, settles=4.0).judged.names


def test_what_history_knows_as_healthy_is_healthy_from_the_first_day(
    paced: Path,
) -> None:
    """Two bursts with a backlog, as in each hour."""
    flow = at_work(ProfileFile(paced).of("b"))
    for seconds, rate in 2 * ((300, 30.0), (900, 5.0)):
        for _ in range(seconds // 15):
            flow.run(15, rate, settles=20.0)
            assert not {one.name for one in flow.judged.conditions} & {
                "slowed",
                "surge",
            }


def test_consumers_that_leave_make_the_others_no_faster() -> None:
    """Of ten, each of which settles one message a second, nine leave at half past, just before a poll."""
    stamp = 30 * np.arange(120)
    left = np.where(stamp <= 1800, 10.0 * stamp, 18000 + (stamp - 1800.0))
    polls = {
        "stamp": stamp,
        "added": left + 5000,
        "acknowledged": left,
        "messages": 0 * stamp + 5000.0,
    }
    found = rows_of_hours(polls | {"consumers": np.where(stamp < 1800, 10.0, 1.0)}, 30)
    assert found["pace_max"] == pytest.approx([1.0])
    assert (found["service_max"], found["service_sum"] / found["busy_sum"]) == (
        pytest.approx([1]),
        pytest.approx([1]),
    )


@pytest.mark.parametrize("slow", [0, 1, 3])
def test_a_day_that_was_slow_once_is_not_usual_by_that(slow: int) -> None:
    days = np.where(np.arange(28) == slow, packed(20.0), packed(2.0)).astype(np.uint8)
    days[2] = 0
    assert np.nanmax(unpacked(raised_by_steps(days))) == pytest.approx(4.0, rel=0.1)


def test_a_day_that_was_idle_once_leaves_the_others_usual() -> None:
    days = np.where(np.arange(28) == 1, packed(0.5), packed(20.0)).astype(np.uint8)
    assert raised_by_steps(days).tolist() == days.tolist()


def test_bursts_are_measured_over_five_minutes_also_beside_a_gap_in_the_polls() -> None:
    stamp = np.delete(30 * np.arange(120), np.arange(60, 100))
    came = 2.0 * stamp + 20.0 * np.clip(stamp - 600, 0, 150)
    found = rows_of_hours({"stamp": stamp, "added": came, "acknowledged": came}, 30)
    assert found["peak_max"] == pytest.approx([300 * 2 + 20 * 150])
    assert np.isnan(found["service_max"][0]), "there was no backlog"


EVERY_MINUTE = 60 * np.arange(5 * 60)


def test_a_pause_is_known_to_a_poll_within_hours_and_over_them() -> None:
    """A message a minute until 01:20, then none until 03:50."""
    minutes = np.arange(len(EVERY_MINUTE))
    came = np.where(
        minutes < 80, minutes, np.where(minutes < 230, 80, minutes - 149)
    ).astype(float)
    hours, columns = hours_of(rows_of_hours({"stamp": EVERY_MINUTE, "added": came}))
    assert np.isnan(columns["pause"][0]), (
        "when the one before the first was is not known"
    )
    assert np.abs(columns["pause"][1:] / 60 - [40, 100, 150, 2]).max() <= 1
    assert columns["until"][3] == 50 * 60
    assert hours[0] == Calendar().hour(0)


def test_a_gap_in_the_polls_hides_no_pause_and_makes_none() -> None:
    """The agent is away from 01:10 to 03:10; messages come, or do not."""
    seen = (EVERY_MINUTE < 70 * 60) | (EVERY_MINUTE >= 190 * 60)
    for rate in (0, 1):
        came = rate * EVERY_MINUTE / 60.0 + np.minimum(EVERY_MINUTE, 600)
        _, columns = hours_of(
            rows_of_hours({"stamp": EVERY_MINUTE[seen], "added": came[seen]})
        )
        known = columns["pause"][~np.isnan(columns["pause"])]
        assert len(known) == (1 if rate else 0)
        assert (known <= 120).all()


def test_an_absence_ends_with_a_poll_that_sees_a_consumer() -> None:
    """A batch reads at 01:20 for five minutes, and each hour from then on; there is always work."""
    here = (EVERY_MINUTE % 3600 // 300 == 4) & (EVERY_MINUTE > 3600)
    polls = {
        "stamp": EVERY_MINUTE,
        "added": EVERY_MINUTE / 60.0,
        "messages": np.full(len(here), 9.0),
    }
    _, columns = hours_of(rows_of_hours(polls | {"consumers": here.astype(float)}))
    assert np.isnan(columns["absence"][:2]).all(), "it may have begun long before"
    assert np.abs(columns["absence"][2:] / 60 - 55).max() <= 1
    polls |= {"messages": np.where(here | (EVERY_MINUTE % 3600 < 600), 0.0, 9.0)}
    _, columns = hours_of(rows_of_hours(polls | {"consumers": here.astype(float)}))
    assert np.abs(columns["absence"][2:] / 60 - 35).max() <= 1, (
        "nothing waits in the first ten minutes"
    )


def test_days_of_an_older_kernel_say_as_much_as_whole_hours_can() -> None:
    """A message may have come at the begin of one hour and none until the end of the next."""
    start = 3600 * np.arange(6)
    nothing = np.full(6, np.nan)
    rows = {
        f"{name}_{what}": nothing
        for name in ("quiet", "away")
        for what in ("max", "last", "until_min")
    }
    rows |= {name: np.zeros(6) for name in ("acknowledged", "expired", "killed")}
    rows |= dict.fromkeys(
        ("peak_max", "pace_max", "service_max", "service_sum", "busy_sum"), nothing
    )
    rows |= {
        "start": start,
        "n": np.full(6, 60.0),
        "expected": np.full(6, 60.0),
        "complete": np.ones(6),
    }
    rows |= {
        "t0": start,
        "t1": start + 3599,
        "added": np.array([9.0, 9, 0, 0, 9, 9]),
        "messages_max": np.full(6, 5.0),
    }
    rows |= {"consumers_sum": 60 * np.array([1, 0.5, 0, 0, 1, 1])}
    _, columns = hours_of(rows)
    assert columns["pause"][1:].tolist() == [7200, 7200, 10800, 14400, 7200]
    assert columns["absence"][1:].tolist() == [1800, 5400, 9000, 9000, 1.0]


def test_a_profile_follows_the_wall_clock_of_each_of_its_weeks_and_leaves_out_holidays() -> (
    None
):
    """The clock was set to summer time in the last week; Friday was a holiday."""
    # Sunday, 5 April, 12:00 UTC
    zone = Calendar("Europe/Berlin", frozenset({date(2026, 4, 3)}))
    now = 1_775_390_400.0
    utc = Calendar().hour(now) - np.arange(4 * HOURS, 0, -1)
    local = np.array(
        [zone.hour(3600.0 * (one - Calendar().hour(0))) for one in utc.tolist()]
    )
    one = profile_of(utc, {"inflow": np.where(local % 24 == 9, 1000.0, 0.0)})
    flows = by_broker([("b", ("q", "q"), one)])["b"].by_wall_clock(now, zone).flows
    came = unpacked(flows.hours[INFLOW, ..., flows.names["q", "q"]]) - 1
    assert (
        (came > 900).sum(axis=0)
        == np.where(np.arange(HOURS) % 24 == 9, 4 - (np.arange(HOURS) // 24 == 4), 0)
    ).all()
    assert np.isnan(came).sum() == 24 + 1, "the holiday, and the hour that was skipped"


@pytest.mark.slow  # plays a night
@pytest.mark.parametrize(
    ("zone", "ahead"),
    [("Asia/Karachi", 5.0), ("Asia/Kolkata", 5.5), ("Asia/Kathmandu", 5.75)],
)
def test_a_missed_run_is_reported_as_late_in_any_zone(zone: str, ahead: float) -> None:
    """It comes each night at twenty past two by the wall clock; an hour late is not missed."""
    run = START // DAY * DAY + (26 - ahead) * 3600 + 20 * 60
    stamp = np.arange(run - 29 * DAY, run - DAY, 300)
    nights = (stamp - stamp[0]) // DAY
    came = np.floor(120 * nights + 0.2 * np.clip((stamp - stamp[0]) % DAY, 0, 600))
    rows = rows_of_hours({"stamp": stamp, "added": came, "acknowledged": came}, 300)
    profile = by_broker([("b", ("q", "q"), profile_of(*hours_of(rows)))])["b"]
    judged = Judged(step=300.0)
    judged.policy = replace(judged.policy, calendar=Calendar(zone))
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(profile)
    )
    judged.now = run - DAY - 3600
    flow = (
        Flow(judged)
        .run(3600, 0.0)
        .run(600, 0.2)
        .run(run - 600 + 70 * 60 - (run - DAY), 0.0)
    )
    assert not judged.conditions
    flow.run(2 * 3600, 0.0)
    assert judged.names == {"producer_silent"}
