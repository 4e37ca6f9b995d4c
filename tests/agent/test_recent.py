"""The last hour in memory: one value a step, gaps, rows that come and go, a bounded size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pytest

from penstock.agent.recent import (
    CLIENT_BYTES,
    HOUR,
    QUEUE_BYTES,
    QUEUE_COLUMNS,
    Recent,
    SeriesBuffer,
    time_series_values,
)
from penstock.core.table import Index, Table
from penstock.insight.answers import TimeSeries

NAME = attrgetter("name")
NOON = 1_795_219_200.0


@dataclass(frozen=True)
class Row:
    name: str

    @property
    def address(self) -> str:
        return self.name

    queue = client = address


def bytes_of(ring: SeriesBuffer) -> int:
    """Bytes."""
    return 0 if ring._values is None else ring._values.nbytes


def table(index: Index[Row], *values: float) -> Table[Row]:
    return Table(
        index,
        {"ready": np.array(values, np.float64), "delivering": np.zeros(len(values))},
    )


def ready(
    ring: SeriesBuffer, index: Index[Row], *at: int, points: int | None = None
) -> list[list[float | None]]:
    found = ring.course(list(at), index, points)
    assert found is not None
    return [
        [None if math.isnan(v) else v for v in row]
        for row in found.values["ready"].tolist()
    ]


def filled(
    stamps: Sequence[float], limit: int = QUEUE_BYTES
) -> tuple[SeriesBuffer, Index[Row]]:
    """A queue whose number is the seconds since noon."""
    ring = SeriesBuffer(QUEUE_COLUMNS, limit, NAME)
    index = Index.of([Row("a")])
    for stamp in stamps:
        ring.add(NOON + stamp, table(index, stamp))
    return ring, index


def test_nothing_was_polled() -> None:
    ring = SeriesBuffer(QUEUE_COLUMNS, QUEUE_BYTES, NAME)
    assert ring.course([0], Index.of([Row("a")])) is None
    assert time_series_values(None, 0) is None


def test_the_last_of_each_step_stays() -> None:
    ring, index = filled([0, 5, 10, 15, 20, 31])
    assert ready(ring, index, 0, points=3) == [[10, 20, 31]]


def test_a_missed_poll_is_a_gap() -> None:
    ring, index = filled([0, 15, 60])
    assert ready(ring, index, 0, points=5) == [[0, 15, None, None, 60]]


def test_no_more_than_an_hour() -> None:
    ring, index = filled(range(0, 2 * 3600, 15))
    (row,) = ready(ring, index, 0)
    assert row == list(range(3600, 7200, 15))


def test_a_pause_longer_than_the_hour_leaves_nothing_of_before() -> None:
    ring, index = filled([0, 15, 2 * HOUR])
    (row,) = ready(ring, index, 0)
    assert row == [None] * 239 + [2 * HOUR]


@pytest.mark.parametrize(("back", "left"), [(-10, 2), (-3000, 1)])
def test_a_clock_that_is_set_back(back: float, left: int) -> None:
    """Within a step it goes on; by more the hour begins anew, in place of values out of order."""
    ring, index = filled([0, 15, 15 + back])
    (row,) = ready(ring, index, 0)
    assert [value for value in row if value is not None][-1] == 15 + back
    assert len([value for value in row if value is not None]) == left


def test_rows_that_come_and_go() -> None:
    ring, before = filled([0, 15])
    after, _ = before.advance(np.array([0, 7]), lambda new: [Row("b") for _ in new])
    ring.add(NOON + 30, table(after, 30, 1))
    assert ready(ring, after, 0, 1, points=3) == [[0, 15, 30], [None, None, 1]]
    last, _ = after.advance(np.array([7]), lambda _: [])
    ring.add(NOON + 45, table(last, 2))
    assert ready(ring, last, 0, points=2) == [[1, 2]]
    assert ready(ring, after, 0, points=2) == [[None, None]], (
        "what has gone is forgotten"
    )


def test_another_thing_under_the_same_key_begins_anew() -> None:
    ring, _ = filled([0, 15])
    other = Index.of([Row("other")])
    ring.add(NOON + 30, table(other, 5))
    assert ready(ring, other, 0, points=3) == [[None, None, 5]]


def test_the_same_things_under_other_keys_go_on() -> None:
    """After a reload of the configuration labels are given anew."""
    ring, _ = filled([0, 15])
    again = Index.of([Row("new"), Row("a")])
    ring.add(NOON + 30, table(again, 5, 30))
    assert ready(ring, again, 0, 1, points=3) == [[None, None, 5], [0, 15, 30]]


def test_with_more_rows_fewer_moments_are_kept() -> None:
    limit = 2 * 240 * 4 * 3  # three queues each 15 s
    ring, few = filled(range(0, 3600, 15), limit)
    assert bytes_of(ring) == limit / 3
    many, _ = few.advance(np.arange(6), lambda new: [Row(str(n)) for n in new])
    ring.add(NOON + 3600, table(many, *range(6)))
    assert bytes_of(ring) <= limit
    course = ring.course([0, 5], many)
    assert course is not None
    assert course.step == 30
    kept = course.values["ready"].tolist()
    assert kept[0] == [*range(45, 3600, 30), 0]
    assert kept[1][-1] == 5
    assert all(math.isnan(value) for value in kept[1][:-1])


def test_too_many_rows_are_not_kept_at_all_and_come_back() -> None:
    ring, few = filled([0, 15], limit=2 * 6 * 4 * 10)
    many, _ = few.advance(np.arange(11), lambda new: [Row(str(n)) for n in new])
    ring.add(NOON + 30, table(many, *range(11)))
    assert bytes_of(ring) == 0
    assert ring.course([0], many) is None
    ring.add(NOON + 1200, table(few, 3))
    assert ready(ring, few, 0, points=1) == [[3]]


@pytest.mark.slow  # a large broker
def test_a_broker_of_the_design_size_stays_within_ten_megabytes() -> None:
    queues, clients = (
        Index.of([Row(str(n)) for n in range(size)]) for size in (10_000, 50_000)
    )
    recent = Recent()
    for n in range(300):
        tables = {
            "queue": table(queues, *np.full(10_000, n)),
            "client": Table(clients, {"buffered": np.full(50_000, float(n))}),
        }
        recent.add(NOON + 15 * n, tables)
    assert (
        bytes_of(recent.queues) + bytes_of(recent.clients)
        <= QUEUE_BYTES + CLIENT_BYTES
        < 10 * 2**20
    )
    course = recent.of("queue", [9_999], queues)
    assert course is not None
    assert course.step == 60
    assert course.values["ready"][0].tolist() == list(range(63, 300, 4))


def test_a_table_that_was_not_read_is_a_gap() -> None:
    recent = Recent()
    index = Index.of([Row("a")])
    recent.add(NOON, {"queue": table(index, 1)})
    recent.add(NOON + 15, {})
    recent.add(NOON + 30, {"queue": table(index, 3)})
    row = time_series_values(recent.of("queue", [0], index, 3), 0)
    assert row == TimeSeries(15, NOON + 30, ready=[1, None, 3], delivering=[0, None, 0])
