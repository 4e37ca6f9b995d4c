"""Charts over hours and days from what is published: true highest and mean values, gaps, no read without a bound."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.world import BEGIN, World
from history.polls import Clock, writer
from penstock.agent.recent import POINTS, with_history
from penstock.assessment.assess import State, assess
from penstock.history import ranges
from penstock.history.compact import Keep, current, read, tidy
from penstock.history.ranges import HistoryReader
from penstock.history.schema import QUEUE
from penstock.history.store import Store, StoreError
from penstock.history.writer import PollRecord
from penstock.insight.answers import Recent, TimeSeries
from penstock.model import QueueKind, Snapshot
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings, Selection

ALL = Policy("b1")
EVERY = 60.0
END = BEGIN + 6 * 3600
GAP = range(120, 180)
"""Polls of the third hour, which no agent made."""
SPIKE = 30


def polls() -> list[Snapshot]:
    """Six hours: `a` gets 2 messages a second, loses 1 to its consumers, and has a spike; the broker restarts once."""
    world = World()
    made = []
    world.queue(1, "a")
    world.queue(2, "b", messages=5.0, delivering=2.0)
    world.queue(3, "sf.cluster", {"kind": QueueKind.INTERNAL}, messages=900.0)
    for n in range(360):
        world.now = BEGIN + n * EVERY + 0.5
        if n == 240:
            world.started = world.now
        since = n % 240
        world.queues[1] |= {
            "messages": 7000.0 if n == SPIKE else 100.0 + n,
            "delivering": 10.0,
            "scheduled": 3.0,
        }
        world.queues[1] |= {"added": 120.0 * since, "acknowledged": 60.0 * since}
        if n not in GAP:
            found = world.snapshot()
            assert found.broker is not None
            about = replace(
                found.broker,
                connections=7.0,
                memory_used_bytes=3e6,
                memory_limit_bytes=12e6,
            )
            made.append(replace(found, broker=about))
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("ranges")
    clock = Clock()
    history = writer(folder, clock, publish=1800.0)
    for snapshot in polls():
        clock.now = snapshot.stamp
        history.step(PollRecord("b1", snapshot, interval=EVERY))
    history.finish()
    assert len(current(Store(str(folder / "history")), ["raw/kind=queue"])) > 9
    return Store(str(folder / "history"))


def recent(course: TimeSeries | None = None, seconds: float = 6 * 3600.0) -> Recent:
    return Recent("b1", "a", "a", END - seconds, END, course, [], 0, [])


def charted(
    store: Store,
    queue: str = "a",
    seconds: float = 6 * 3600.0,
    course: TimeSeries | None = None,
    policy: Policy = ALL,
) -> Recent:
    past = HistoryReader(store).past("b1", queue, queue, END, seconds, policy.of_queue)
    return with_history(recent(course, seconds), past)


@pytest.mark.slow  # writes and reads history
def test_the_highest_of_each_step_the_mean_of_rates_and_gaps(store: Store) -> None:
    found = charted(store).course
    assert found is not None
    assert (found.step, len(found.ready), found.end) == (120.0, 180, END)  # type: ignore[arg-type]
    ready = found.ready
    assert isinstance(ready, list)
    assert ready[SPIKE // 2] == 7000 - 13, "no peak is lost"
    assert ready[0] == 101 - 13
    assert ready[-1] == 459 - 13
    assert [n for n, value in enumerate(ready) if value is None] == list(range(60, 90))
    assert found.delivering[0] == 10  # type: ignore[index]
    assert isinstance(found.rate_in, list)
    known = {value for value in found.rate_in if value is not None}
    assert known == {2}, "neither the gap nor the broker's restart makes a rate"
    assert found.rate_out[5] == 1  # type: ignore[index]


@pytest.mark.slow  # writes and reads history
@pytest.mark.parametrize(
    "hides",
    [
        {},
        {"selection": Selection(exclude=(Match(queue="b"),))},
        {"rules": Rules((Rule(Match(queue="b"), RuleSettings(ignore=True)),))},
    ],
    ids=["all are shown", "excluded", "ignored"],
)
def test_of_the_broker_the_same_sums_as_memory_has(
    store: Store, hides: dict[str, Any]
) -> None:
    """Of all queues that are shown, internal ones too: else the chart has a step where memory goes on."""
    policy = Policy("b1", **hides)
    found = charted(store, "", policy=policy).course
    assert found is not None
    assert isinstance(found.ready, list)
    snapshot = polls()[1]
    _, tables = assess(State(), snapshot, policy)
    sums = {name: np.nansum(tables["queue"][name]) for name in ("ready", "delivering")}
    assert sums["ready"] == 101 - 13 + 900 + (0 if hides else 3)
    assert (found.ready[0], found.delivering[0]) == (sums["ready"], sums["delivering"])  # type: ignore[index]
    assert (found.connections[0], found.memory_used_ratio[0]) == (7, 0.25)  # type: ignore[index]


@pytest.mark.slow  # writes and reads history
def test_of_an_hour_each_poll_and_of_another_broker_nothing(store: Store) -> None:
    found = charted(store, seconds=3600.0).course
    assert found is not None
    assert found.ready == [value - 13 for value in range(401, 460, 2)], (
        "two polls a step: none is empty by chance"
    )
    past = HistoryReader(store).past("b2", "a", "a", END, 3600.0)
    assert past.samples == {}
    assert with_history(recent(), past).course is None


@pytest.mark.slow  # writes and reads history
def test_memory_goes_on_where_the_publication_ends(store: Store) -> None:
    later = END + 600
    course = TimeSeries(
        15, later, ready=[*[1] * 200, *[9000] * 40], delivering=[0] * 240
    )
    past = HistoryReader(store).past("b1", "a", "a", later, 6 * 3600.0)
    found = with_history(
        Recent("b1", "a", "a", later - 6 * 3600, later, course, [], 0, []), past
    ).course
    assert found is not None
    assert isinstance(found.ready, list)
    assert found.ready[-5:] == [9000] * 5
    assert 9000 not in found.ready[:-6], "where history has numbers they count"
    assert found.rate_in[-1] is None  # type: ignore[index]


@pytest.mark.slow  # writes and reads history
def test_a_week_is_no_more_than_the_points_of_a_chart(store: Store) -> None:
    found = charted(store, seconds=7 * 86400.0)
    assert found.course is not None
    assert isinstance(found.course.ready, list)
    assert len(found.course.ready) == POINTS
    assert max(value for value in found.course.ready if value is not None) == 7000 - 13
    assert found.source == "history"


@pytest.mark.slow  # writes and reads history
def test_joined_files_say_the_same_and_no_row_twice(store: Store) -> None:
    before = [
        charted(store, name, seconds).course
        for name in ("a", "")
        for seconds in (6 * 3600.0, 86400.0)
    ]
    tidy(store, Keep(days=100), END + 3 * 86400)
    (file,) = current(store, ["raw/kind=queue"])
    assert [
        charted(store, name, seconds).course
        for name in ("a", "")
        for seconds in (6 * 3600.0, 86400.0)
    ] == before
    rows = read(store, [file.path], QUEUE)
    for place, table in (
        (file.path, rows.slice(0, 200)),
        (file.path.replace("joined", "other"), rows.slice(200)),
    ):
        store.write_table(place, table)
    assert charted(store, "").course == before[2], "queues of one poll in several files"


@pytest.mark.slow  # writes and reads history
def test_what_takes_too_long_or_cannot_be_read_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "READ_SECONDS", -1.0)
    assert charted(store).note == "what is older takes too long to read"
    monkeypatch.undo()
    entry = Path(store.path("raw/kind=queue/dt=2026-11-21/hour=05/broken.parquet"))
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_bytes(b"PAR1 no more")
    try:
        found = charted(store)
    finally:
        entry.unlink()
    assert found.note.startswith("a part cannot be read: ")
    assert found.course is not None
    assert found.course.ready[-1] == 459 - 13  # type: ignore[index]

    def away(*_: object) -> None:
        raise StoreError("s3: does not answer")

    monkeypatch.setattr(ranges, "current", away)
    past = HistoryReader(store).past("b1", "a", "a", END, 3600.0)
    assert (past.samples, past.note) == (
        {},
        "the history cannot be read: s3: does not answer",
    )


@pytest.mark.slow  # writes and reads history
def test_what_was_read_is_kept_for_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = HistoryReader(store)
    read_ = []
    monkeypatch.setattr(ranges, "current", lambda *_: read_.append(1) or [])  # type: ignore[func-returns-value]
    for _ in range(3):
        reader.past("b1", "a", "a", END, 3600.0)
    assert len(read_) == 1
    for n in range(40):
        reader.past("b1", "a", f"q{n}", END, 3600.0)
    assert len(reader._kept) == ranges.MOST_KEPT
    assert np.isfinite(next(iter(reader._kept.values()))[0])


def test_what_no_queue_of_a_poll_is_known_to_have_is_not_zero() -> None:
    stamps = np.array([1.0, 1.0, 2.0])
    unknown = np.array([np.nan, np.nan, 3.0])
    sums = ranges.summed({"stamp": stamps, "delivering": unknown})
    assert np.isnan(sums["delivering"][0])
    assert sums["delivering"][1] == 3.0
