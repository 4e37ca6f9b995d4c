"""The last hour of a broker in memory: what waits and is delivering in each queue, what each client holds.

Of how many moments depends on how many rows there are: one value each 15 s of 2,000 queues, one each minute of 10,000.
"""

import math
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Column, Index, Positions, Table, take_or_fill
from penstock.insight import answers
from penstock.insight.answers import RecentClient, SeverityEpisode
from penstock.insight.events import Change, Event
from penstock.insight.explain import BrokerView, find_queue
from penstock.series.labels import CLIENT, QUEUE, ClientSeries, QueueSeries

if TYPE_CHECKING:
    from penstock.history.ranges import Past

HOUR = 3600.0
STEPS = (15, 30, 60, 120, 240, 600)
"""Seconds between two values that are kept, the finest first."""
QUEUE_BYTES = 5 * 2**20
CLIENT_BYTES = 4 * 2**20
"""What is kept of the queues and of the clients of one broker, at most."""

MAX_CLIENTS = 12
"""Clients of a queue whose last hour is shown."""

QUEUE_COLUMNS = ("ready", "delivering")
CLIENT_COLUMNS = ("buffered",)

Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RecentSamples:
    """How numbers went, the oldest first, evenly spaced.

    step: seconds between two. end: when the newest was read, seconds since 1970. values: by column; rows as asked,
    moments along the last axis; NaN where nothing was read.
    """

    step: float
    end: float
    values: Mapping[str, Values]


class SeriesBuffer:
    """Some columns of one table over the last hour, at most `limit` bytes of them; moments down, rows across."""

    def __init__(
        self, names: Sequence[str], limit: int, name: Callable[[Any], Hashable]
    ) -> None:
        """name: what a row is known by, also where its keys started again, as after a reload of the configuration."""
        self._names = names
        self._name = name
        self._limit = limit
        self._index: Index[object] = Index.empty()
        self._step = STEPS[0]
        self._slot = -1
        self._end = np.nan
        self._values: Values | None = None

    def add(self, stamp: float, table: Table[object]) -> None:
        """The values of a poll at `stamp` (seconds since 1970); of several within one step the last stays.

        A clock that was set back by more than a step begins the hour again.
        """
        self._advance(table.index)
        if self._values is None:
            return
        slot = int(stamp // self._step)
        kept = len(self._values[0])
        if slot < self._slot - 1:
            self._values[:] = np.nan
        elif self._slot >= 0:
            slot = max(slot, self._slot)
            skipped = np.arange(max(self._slot, slot - kept) + 1, slot + 1)
            self._values[:, skipped % kept] = np.nan
        self._slot = slot
        self._end = stamp
        for n, name in enumerate(self._names):
            if name in table:
                self._values[n, slot % kept] = table[name]

    def _advance(self, index: Index[object]) -> None:
        """Rows that went are forgotten; where there are too many for the step, fewer moments are kept from now on."""
        if index is self._index and self._values is not None:
            return
        bytes_of_moment = len(self._names) * len(index) * np.dtype(np.float32).itemsize
        fitting = (s for s in STEPS if int(HOUR / s) * bytes_of_moment <= self._limit)
        step = next(fitting, None)
        if step is None:
            self._values = None
        elif self._values is None:
            self._values = self._begin(step, len(index))
        else:
            values = self._values
            if step > self._step:
                values = self._coarsened(values, step)
            self._values = take_or_fill(values, self._origin(index), np.nan)
        self._index = index

    def _origin(self, index: Index[object]) -> Positions:
        if index.follows(self._index):
            return index.origin
        before = {name: i for i, name in enumerate(map(self._name, self._index))}
        return np.array(
            [before.get(name, -1) for name in map(self._name, index)], np.intp
        )

    def _begin(self, step: int, rows: int) -> Values:
        self._step = step
        self._slot = -1
        return np.full((len(self._names), int(HOUR / step), rows), np.nan, np.float32)

    def _coarsened(self, old: Values, step: int) -> Values:
        """The same hour in wider steps: of each the last that was read."""
        before = self._step
        last = self._slot
        kept = old.shape[1]
        values = self._begin(step, old.shape[2])
        for slot in range(max(last - kept, -1) + 1, last + 1):
            moment = old[:, slot % kept]
            self._slot = slot * before // step
            np.copyto(
                values[:, self._slot % values.shape[1]], moment, where=~np.isnan(moment)
            )
        return values

    def course(
        self,
        rows: Sequence[int] | Positions,
        index: Index[object],
        points: int | None = None,
    ) -> RecentSamples | None:
        """The last `points` moments of `rows`, which are positions in `index`; None while nothing is kept."""
        if self._values is None or self._slot < 0:
            return None
        own_rows = self._index.positions(index.keys[np.asarray(rows, np.intp)])
        kept = self._values.shape[1]
        first = self._slot - min(points or kept, kept) + 1
        moments = np.arange(first, self._slot + 1) % kept
        values = self._values[:, moments[:, None], own_rows[None, :]]
        values[:, :, own_rows < 0] = np.nan
        by_name = {name: values[n].T for n, name in enumerate(self._names)}
        return RecentSamples(self._step, self._end, by_name)


@dataclass(slots=True)
class Recent:
    """The last hour of one broker; written by the thread that polls, read by any."""

    queues: SeriesBuffer = field(
        default_factory=lambda: SeriesBuffer(QUEUE_COLUMNS, QUEUE_BYTES, QUEUE)
    )
    clients: SeriesBuffer = field(
        default_factory=lambda: SeriesBuffer(CLIENT_COLUMNS, CLIENT_BYTES, CLIENT)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, stamp: float, tables: Mapping[str, Table[object]]) -> None:
        """A poll; a table that was not read leaves a gap."""
        with self._lock:
            for name, buffer in (("queue", self.queues), ("client", self.clients)):
                if name in tables:
                    buffer.add(stamp, tables[name])

    def of_broker(self, index: Index[object]) -> RecentSamples | None:
        """The sums of all queues, as one row."""
        samples = self.of("queue", range(len(index)), index)
        if samples is None:
            return None
        sums: dict[str, Values] = {}
        for name, values in samples.values.items():
            was_read = ~np.isnan(values).all(axis=0)
            total = np.nansum(values, axis=0)
            sums[name] = np.where(was_read, total, np.nan)[None]
        return replace(samples, values=sums)

    def of(
        self,
        table: str,
        rows: Sequence[int] | Positions,
        index: Index[object],
        points: int | None = None,
    ) -> RecentSamples | None:
        """Return the last moments of queues or clients, as `SeriesBuffer.course`."""
        buffer = self.queues if table == "queue" else self.clients
        with self._lock:
            return buffer.course(rows, index, points)


# --- as answers


def numbers(values: Values | Column) -> list[float | int | None]:
    """As JSON shows them: None where nothing was read."""
    # Thousands a page: much quicker than `number`.
    shown: list[float | int | None] = []
    for value in values.tolist():
        if value != value:  # noqa: PLR0124 - NaN
            shown.append(None)
        elif value.is_integer():
            shown.append(int(value))
        else:
            shown.append(round(value, 3))
    return shown


def time_series_values(
    series: RecentSamples | None, row: int
) -> answers.TimeSeries | None:
    """The samples of one row."""
    if series is None:
        return None
    values = {name: numbers(rows[row]) for name, rows in series.values.items()}
    return answers.TimeSeries(series.step, round(series.end, 3), **values)


def queue_recent(
    recent: Recent,
    view: BrokerView,
    queue: str,
    address: str | None,
    events: Iterable[Event],
    seconds: float = HOUR,
) -> answers.Recent:
    """The last hour of a queue; without a name, of the broker.

    Of its clients, those with a condition come first, then those that buffered most.

    Args:
        recent: What is kept of the last hour.
        view: The last poll.
        queue: The name of the queue, or "".
        address: Its address where the name alone may not do.
        events: The log of changes.
        seconds: For how long conditions are shown.

    Raises:
        NotFound: There is no such queue.
    """
    index = view.table("queue").index
    if not queue:
        name = (view.policy.broker, "", "")
        course = recent.of_broker(index)
        return _recent_of(name, view, course, events, seconds)
    series, row = find_queue(view, queue, address)
    name = (series.broker, series.address, series.queue)
    answer = _recent_of(name, view, recent.of("queue", [row], index), events, seconds)
    with_condition = {
        condition.client
        for condition in view.conditions
        if (condition.address, condition.queue) == name[1:]
    }
    clients, left_out = clients_recent(recent, view, series, with_condition)
    return structs.replace(answer, clients=clients, clients_left_out=left_out)


def _recent_of(
    name: tuple[str, str, str],
    view: BrokerView,
    course: RecentSamples | None,
    events: Iterable[Event],
    seconds: float,
) -> answers.Recent:
    """The last hour of the broker, address and queue in `name`, without clients."""
    own_conditions = [
        condition
        for condition in view.conditions
        if (condition.address, condition.queue) == name[1:]
    ]
    own_events = (event for event in events if (event.address, event.queue) == name[1:])
    begin = view.snapshot.stamp - seconds
    return answers.Recent(
        *name,
        begin=round(begin, 3),
        end=round(view.snapshot.stamp, 3),
        course=time_series_values(course, 0),
        clients=[],
        clients_left_out=0,
        episodes=episodes(own_events, own_conditions, begin),
    )


# --- with what history has

POINTS = 240
"""Of a chart, at most."""
RATES = frozenset({"rate_in", "rate_out"})
"""Means; all else are the highest."""


def with_history(answer: answers.Recent, past: "Past") -> answers.Recent:
    """Return the answer with the samples of history, and behind them those of memory."""
    samples = {
        name: (stamps, values)
        for name, (stamps, values) in past.samples.items()
        if len(stamps)
    }
    step = _step_of_chart(answer, samples)
    if answer.course is not None:
        samples = _with_memory(samples, answer.course)
    points = math.ceil((answer.end - answer.begin) / step)
    begin = answer.end - points * step
    course = None
    if samples:
        series = {
            name: numbers(
                thinned(stamps, values, begin, step, points, mean=name in RATES)
            )
            for name, (stamps, values) in samples.items()
        }
        course = answers.TimeSeries(round(step, 3), answer.end, **series)
    return structs.replace(
        answer, begin=round(begin, 3), course=course, source="history", note=past.note
    )


Samples = dict[str, tuple[Column, Column]]
"""Stamps and values of each column."""


def _step_of_chart(answer: answers.Recent, samples: Samples) -> float:
    """Seconds between two points: two polls at least, so that each has a value."""
    intervals = [
        float(np.median(np.diff(stamps)))
        for stamps, _ in samples.values()
        if len(stamps) > 1
    ]
    of_polls = [2 * interval for interval in intervals]
    of_memory = [] if answer.course is None else [answer.course.step]
    return max([(answer.end - answer.begin) / POINTS, *of_polls, *of_memory])


def _with_memory(samples: Samples, course: answers.TimeSeries) -> Samples:
    """`samples` of history, and behind them those that memory has of later moments."""
    joined = dict(samples)
    for name in QUEUE_COLUMNS:
        values = np.array(getattr(course, name), np.float64)
        stamps = course.end - course.step * np.arange(len(values))[::-1]
        old_stamps, old_values = samples.get(name, (np.empty(0), np.empty(0)))
        newest = old_stamps[-1] if len(old_stamps) else -np.inf
        is_newer = stamps > newest
        joined[name] = (
            np.append(old_stamps, stamps[is_newer]),
            np.append(old_values, values[is_newer]),
        )
    return joined


def thinned(
    stamps: Column,
    values: Column,
    begin: float,
    step: float,
    points: int,
    *,
    mean: bool,
) -> Column:
    """(points,) One value a step, the highest or the mean of its samples; NaN where it has none."""
    end = begin + points * step
    usable = ~np.isnan(values) & (stamps > begin) & (stamps <= end)
    steps = ((stamps[usable] - begin) // step).astype(np.intp)
    steps = np.minimum(steps, points - 1)
    thin = np.full(points, np.nan)
    if not mean:
        np.fmax.at(thin, steps, values[usable])
        return thin
    counts = np.bincount(steps, minlength=points)
    sums = np.bincount(steps, values[usable], points)
    np.divide(sums, counts, out=thin, where=counts > 0)
    return thin


def clients_recent(
    recent: Recent,
    view: BrokerView,
    series: QueueSeries,
    with_condition: Collection[str],
) -> tuple[list[RecentClient], int]:
    """The last hour of the clients of a queue, the worst first; and how many are left out."""
    table: Table[ClientSeries] = view.tables.get("client", Table(Index.empty()))
    rows = [
        row
        for row, client in enumerate(table.index)
        if (client.address, client.queue) == (series.address, series.queue)
    ]
    names = [table.index.rows[row].client for row in rows]
    samples = recent.of("client", rows, table.index)
    most_buffered = np.zeros(len(rows))
    if samples is not None:
        buffered = np.nan_to_num(samples.values["buffered"])
        most_buffered = buffered.max(axis=1, initial=0)

    def order(n: int) -> tuple[bool, float]:
        return names[n] not in with_condition, -most_buffered[n]

    worst = sorted(range(len(rows)), key=order)[:MAX_CLIENTS]
    clients = [RecentClient(names[n], time_series_values(samples, n)) for n in worst]
    return clients, max(len(rows) - MAX_CLIENTS, 0)


def episodes(
    events: Iterable[Event], active: Sequence[ActiveCondition], begin: float
) -> list[SeverityEpisode]:
    """Return the conditions since `begin`, in the order of their beginnings, without silenced ones.

    Args:
        events: Of the queue, those since `begin` at least, oldest first.
        active: The conditions of the queue now.
        begin: Seconds since 1970.
    """
    under_way: dict[tuple[str, str], tuple[str, float]] = {}
    all_episodes: list[SeverityEpisode] = []
    for event in events:
        name = (event.condition, event.client)
        since = event.time if event.since is None else event.since
        if event.change is Change.CONDITION_ON:
            under_way[name] = event.severity, since
        elif event.change is Change.CONDITION_OFF:
            severity, since = under_way.pop(name, (event.severity, since))
            all_episodes.append(SeverityEpisode(*name, severity, since, event.time))
        elif event.change is Change.SEVERITY:
            severity_before = event.detail.partition(" ")[0]
            severity, since = under_way.pop(name, (severity_before, since))
            all_episodes.append(SeverityEpisode(*name, severity, since, event.time))
            under_way[name] = event.severity, event.time
    for condition in active:
        if condition.silenced:
            continue
        name = (condition.name, condition.client)
        now = (condition.severity.name.lower(), condition.since)
        severity, since = under_way.get(name, now)
        all_episodes.append(SeverityEpisode(*name, severity, round(since, 3), None))
    recent_episodes = [
        episode for episode in all_episodes if episode.to is None or episode.to > begin
    ]
    return sorted(recent_episodes, key=attrgetter("since"))
