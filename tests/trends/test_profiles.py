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
from penstock_trends import job
from penstock_trends.profiles import absences

FIRST, DAYS, EVERY = int(START) // DAY * DAY - 22 * DAY, 22, 1200
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
    """What the job makes of three weeks."""
    history, out = (tmp_path_factory.mktemp(name) for name in ("history", "out"))
    for number in range(DAYS):
        day = str(np.datetime64(FIRST + number * DAY, "s").astype("datetime64[D]"))
        path = f"{RAW}/kind=queue/dt={day}/hour={ALL_DAY}/part.parquet"
        Store(str(history)).write_table(path, in_order(day_of(number), QUEUE))
    job.run(str(history), str(out), session=spark)
    return out / "profiles.parquet"


def noon(profile: Any, **rates: float) -> Judged:
    """An agent that starts at two o'clock in the afternoon, and its first hour."""
    judged = Judged(step=30.0)
    judged.state = type(judged.state)(judgement=judged.state.judgement.with_profile(profile))
    judged.now = START // DAY * DAY + 14 * 3600
    came = dict.fromkeys(QUEUES, 1000.0)
    worst: set[str] = set()
    for _ in range(120):
        came = {name: count + round(30 * rates.get(name, RATE)) for name, count in came.items()}
        worked = {"A": came["steady"], "K": came["steady"], "M": 0.0, "D": 0.0}
        waits = {"A": came["nightly"], "K": 0.0, "M": came["nightly"], "D": 0.0}
        reader = {"queue": "steady", "T": 0, "N": came["steady"], "C": came["steady"]}
        judged.poll({"steady": worked, "nightly": waits}, {"c": reader})
        worst |= {f"{one.queue}: {one.name}" for one in judged.conditions if one.severity is not Severity.INFO}
    return worst


def test_a_batch_is_quiet_from_the_first_day_on_and_a_silence_is_told(made: Path) -> None:
    profile = ProfileFile(made).of("b")
    assert profile is not None
    assert noon(None) == {"nightly: no_consumer"}, "without a profile"
    assert noon(profile) == set()
    assert "steady: producer_silent" in noon(profile, steady=0.0)


def test_it_says_on_how_many_weeks_it_rests_and_may_be_read_by_an_agent(made: Path) -> None:
    assert {row["queue"]: row["weeks"] for row in pq.read_table(made).to_pylist()} == {"steady": 4, "nightly": 4}
    assert made.stat().st_mode & 0o044 == 0o044


def test_an_absence_goes_on_over_hours_and_not_over_what_was_not_seen() -> None:
    start = 3600 * np.array([0, 1, 2, 3, 4, 9])
    found = absences(start, np.array([1, 0.5, 0, 0, 1, 0]), np.array([5.0, 5, 5, 5, 5, 5]))
    assert found.tolist() == [1, 1800, 3600, 7200, 7200, 3600]
