"""What is normal, from history through the job to an agent: it is right from its first poll."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conditions.world import START, Judged
from penstock.agent.profiles import ProfileFile
from penstock.conditions.condition import Severity
from penstock.history.compact import DAY
from penstock.history.publish import ALL_DAY, RAW, in_order
from penstock.history.schema import QUEUE, series_id
from penstock.history.store import Store
from penstock_demo.history import _table
from penstock_trends.days import day_names, load
from penstock_trends.profiles import PROFILES, absences, longest_pauses, write_profiles
from penstock_trends.results import Tables
from penstock_trends.tiers import roll_up

FIRST, DAYS, EVERY = int(START) // DAY * DAY - 21 * DAY, (0, 7, 14), 1200
RATE = 0.5
QUEUES = ("steady", "nightly")


def day_of(number: int) -> Any:
    """Messages come to both queues at all times; the second one is read for an hour each night from two o'clock."""
    stamp = FIRST + number * DAY + EVERY * np.arange(DAY // EVERY)
    since = stamp - FIRST
    here = since % DAY // 3600 == 2
    came, size = np.floor(RATE * since), len(stamp)
    left = np.where(here, came, np.floor(RATE * np.maximum(since - (since % DAY - 3 * 3600) % DAY, 0)))
    both = {"added": [came, came], "acknowledged": [came, left], "messages": [0 * came, came - left]}
    both |= {"consumers": [np.ones(size), here.astype(float)], "killed": [0 * came] * 2, "expired": [0 * came] * 2}
    numbers = {name: np.concatenate(parts) for name, parts in both.items()}
    numbers |= {"sid": np.repeat([series_id("b", name, name) for name in QUEUES], size)}
    numbers |= {"inc": np.full(2 * size, FIRST * 1000.0), "interval": np.full(2 * size, float(EVERY))}
    numbers |= {"delivering": np.zeros(2 * size), "scheduled": np.zeros(2 * size)}
    names = pa.array(np.repeat(QUEUES, size).tolist()).dictionary_encode()
    return _table(QUEUE, np.tile(stamp, 2), numbers, {"address": names, "queue": names},
                  {"broker": "b", "queue_kind": "user"})  # fmt: skip


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the job makes of one weekday of three weeks, by its steps for this file (`test_job` has all of it)."""
    history, out = (tmp_path_factory.mktemp(name) for name in ("history", "out"))
    for number in DAYS:
        day = str(np.datetime64(FIRST + number * DAY, "s").astype("datetime64[D]"))
        path = f"{RAW}/kind=queue/dt={day}/hour={ALL_DAY}/part.parquet"
        Store(str(history)).write_table(path, in_order(day_of(number), QUEUE))
    source, target = Store(str(history)), Store(str(out))
    roll_up(spark, source, target, lambda _: None)
    window = load(target, day_names(target))
    Tables(spark, target, window).write_accounts(window)
    write_profiles(spark, target, window)
    return out / PROFILES


def morning(profile: Any, **rates: float) -> set[str]:
    """What an agent says that starts at half past two: the reader of the one queue leaves at three."""
    judged = Judged(step=30.0)
    judged.state = type(judged.state)(judgement=judged.state.judgement.with_profile(profile))
    judged.now = START // DAY * DAY + 2.5 * 3600
    came, read = dict.fromkeys(QUEUES, 1000.0), 1000.0
    worst: set[str] = set()
    for poll in range(120):
        came = {name: count + round(30 * rates.get(name, RATE)) for name, count in came.items()}
        read = came["nightly"] if poll < 60 else read
        worked = {"A": came["steady"], "K": came["steady"], "M": 0.0, "D": 0.0}
        waits = {"A": came["nightly"], "K": read, "M": came["nightly"] - read, "D": 0.0}
        consumers = {"c": {"queue": "steady", "T": 0, "N": came["steady"], "C": came["steady"]}}
        if poll < 60:
            consumers["n"] = {"queue": "nightly", "T": 0, "N": read, "C": read}
        judged.poll({"steady": worked, "nightly": waits}, consumers)
        worst |= {f"{one.queue}: {one.name}" for one in judged.conditions if one.severity is not Severity.INFO}
    return worst


def test_a_batch_is_quiet_from_the_first_day_on(made: Path) -> None:
    profile = ProfileFile(made).of("b")
    assert profile is not None
    assert morning(None) == {"nightly: no_consumer"}, "without a profile"
    assert morning(profile) == set()


def test_it_says_on_how_many_weeks_it_rests_and_may_be_read_by_an_agent(made: Path) -> None:
    assert {row["queue"]: row["weeks"] for row in pq.read_table(made).to_pylist()} == {"steady": 3, "nightly": 3}
    assert made.stat().st_mode & 0o044 == 0o044


def test_a_pause_is_as_long_as_hours_can_hide() -> None:
    """A message may have come at the begin of one hour and none until the end of the next."""
    start = 3600 * np.arange(5)
    assert longest_pauses(start, np.array([9.0, 9, 0, 0, 9])).tolist() == [3600, 7200, 7200, 10800, 14400]


def test_an_absence_goes_on_over_hours_and_not_over_what_was_not_seen() -> None:
    start = 3600 * np.array([0, 1, 2, 3, 4, 9])
    found = absences(start, np.array([1, 0.5, 0, 0, 1, 0]), np.array([5.0, 5, 5, 5, 5, 5]))
    assert found.tolist() == [1, 1800, 3600, 7200, 7200, 3600]
