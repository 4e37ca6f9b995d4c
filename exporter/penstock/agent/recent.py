"""The last hour of a broker in memory: what waits and is delivering in each queue, what each client holds.

Of how many moments depends on how many rows there are: one value each 15 s of 2,000 queues, one each minute of 10,000.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        self, names: Sequence[str], limit: int, name: Callable[[Any], Any]
    ) -> None:
        """name: what a row is known by, also where its keys started again, as after a reload of the configuration."""
        self._names = names
        self._name = name
        self._limit = limit
        self._index: Index[Any] = Index.empty()
        self._step = STEPS[0]
        self._slot = -1
        self._end = np.nan
        self._values: Values | None = None

    def add(self, stamp: float, table: Table[Any]) -> None:
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

    def _advance(self, index: Index[Any]) -> None:
        """Rows that went are forgotten; where there are too many for the step, fewer moments are kept from now on."""
        if index is self._index and self._values is not None:
            return
        rows = len(self._names) * len(index) * np.dtype(np.float32).itemsize
        step = next(
            (step for step in STEPS if int(HOUR / step) * rows <= self._limit), None
        )
        if step is None:
            self._values = None
        elif self._values is None:
            self._values = self._begin(step, len(index))
        else:
            values = (
                self._coarsened(self._values, step)
                if step > self._step
                else self._values
            )
            self._values = take_or_fill(values, self._origin(index), np.nan)
        self._index = index

    def _origin(self, index: Index[Any]) -> Positions:
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
        at: Sequence[int] | Positions,
        index: Index[Any],
        points: int | None = None,
    ) -> RecentSamples | None:
        """Of the rows `at` positions in `index`, the last `points` moments; None while nothing is kept."""
        if self._values is None or self._slot < 0:
            return None
        mine = self._index.positions(index.keys[np.asarray(at, np.intp)])
        kept = self._values.shape[1]
        wanted = (
            np.arange(self._slot - min(points or kept, kept) + 1, self._slot + 1) % kept
        )
        found = self._values[:, wanted[:, None], mine[None, :]]
        found[:, :, mine < 0] = np.nan
        return RecentSamples(
            self._step,
            self._end,
            {name: found[n].T for n, name in enumerate(self._names)},
        )


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

    def add(self, stamp: float, tables: Mapping[str, Table[Any]]) -> None:
        """A poll; a table that was not read leaves a gap."""
        with self._lock:
            for name, buffer in (("queue", self.queues), ("client", self.clients)):
                if name in tables:
                    buffer.add(stamp, tables[name])

    def of_broker(self, index: Index[Any]) -> RecentSamples | None:
        """The sums of all queues, as one row."""
        found = self.of("queue", range(len(index)), index)
        if found is None:
            return None
        sums = {name: np.nansum(of, axis=0) for name, of in found.values.items()}
        read = {name: ~np.isnan(of).all(axis=0) for name, of in found.values.items()}
        return replace(
            found,
            values={
                name: np.where(read[name], of, np.nan)[None]
                for name, of in sums.items()
            },
        )

    def of(
        self,
        table: str,
        at: Sequence[int] | Positions,
        index: Index[Any],
        points: int | None = None,
    ) -> RecentSamples | None:
        """Of queues or clients, as `SeriesBuffer.course`."""
        with self._lock:
            return (self.queues if table == "queue" else self.clients).course(
                at, index, points
            )


# --- as answers


def numbers(values: Values | Column) -> list[float | int | None]:
    """As JSON shows them: None where nothing was read."""
    # Thousands a page: much quicker than `number`.
    return [
        None if v != v else int(v) if v.is_integer() else round(v, 3)  # noqa: PLR0124
        for v in values.tolist()
    ]


def time_series_values(
    series: RecentSamples | None, row: int
) -> answers.TimeSeries | None:
    """Of one of its rows."""
    if series is None:
        return None
    values = {name: numbers(of[row]) for name, of in series.values.items()}
    return answers.TimeSeries(series.step, round(series.end, 3), **values)


def queue_recent(
    recent: Recent,
    view: BrokerView,
    queue: str,
    address: str | None,
    events: Iterable[Event],
    seconds: float = HOUR,
) -> answers.Recent:
    """Of its clients those with a condition first, then those that buffered most; without a name of the broker.
    seconds: of its conditions. NotFound: there is no such queue.
    """
    index = view.table("queue").index
    if queue:
        series, i = find_queue(view, queue, address)
        named = series.broker, series.address, series.queue
        course = recent.of("queue", [i], index)
    else:
        series = None
        named = (view.policy.broker, "", "")
        course = recent.of_broker(index)
    here = [one for one in view.conditions if (one.address, one.queue) == named[1:]]
    begin = view.snapshot.stamp - seconds
    own = (one for one in events if (one.address, one.queue) == named[1:])
    clients, left_out = (
        clients_recent(recent, view, series, {one.client for one in here})
        if series
        else ([], 0)
    )
    return answers.Recent(
        *named,
        begin=round(begin, 3),
        end=round(view.snapshot.stamp, 3),
        course=time_series_values(course, 0),
        clients=clients,
        clients_left_out=left_out,
        episodes=episodes(own, here, begin),
    )


# --- with what history has

POINTS = 240
"""Of a chart, at most."""
RATES = frozenset({"rate_in", "rate_out"})
"""Means; all else are the highest."""


def with_history(found: answers.Recent, past: "Past") -> answers.Recent:
    """What history has, and behind it what memory does. A step is two polls at least, so that each has a value."""
    samples = {
        name: (stamps, values)
        for name, (stamps, values) in past.samples.items()
        if len(stamps)
    }
    intervals = [
        float(np.median(np.diff(stamps)))
        for stamps, _ in samples.values()
        if len(stamps) > 1
    ]
    step = max(
        [(found.end - found.begin) / POINTS, *(2 * interval for interval in intervals)]
    )
    if (course := found.course) is not None:
        step = max(step, course.step)
        for name in QUEUE_COLUMNS:
            values = np.array(getattr(course, name), np.float64)
            stamps = course.end - course.step * np.arange(len(values))[::-1]
            old = samples.get(name, (np.empty(0), np.empty(0)))
            newer = stamps > (old[0][-1] if len(old[0]) else -np.inf)
            samples[name] = (
                np.append(old[0], stamps[newer]),
                np.append(old[1], values[newer]),
            )
    points = math.ceil((found.end - found.begin) / step)
    begin = found.end - points * step
    made = {
        name: numbers(thinned(*of, begin, step, points, mean=name in RATES))
        for name, of in samples.items()
    }
    course = answers.TimeSeries(round(step, 3), found.end, **made) if made else None
    return structs.replace(
        found, begin=round(begin, 3), course=course, source="history", note=past.note
    )


def thinned(
    stamps: Column,
    values: Column,
    begin: float,
    step: float,
    points: int,
    *,
    mean: bool,
) -> Column:
    """One value a step, the highest or the mean of those that are known."""
    known = ~np.isnan(values) & (stamps > begin) & (stamps <= begin + points * step)
    at = np.minimum(((stamps[known] - begin) // step).astype(np.intp), points - 1)
    found = np.full(points, np.nan)
    if mean:
        counts = np.bincount(at, minlength=points)
        np.divide(
            np.bincount(at, values[known], points), counts, out=found, where=counts > 0
        )
        return found
    np.fmax.at(found, at, values[known])
    return found


def clients_recent(
    recent: Recent, view: BrokerView, series: QueueSeries, troubled: Collection[str]
) -> tuple[list[RecentClient], int]:
    table: Table[ClientSeries] = view.tables.get("client", Table(Index.empty()))
    at = [
        i
        for i, row in enumerate(table.index)
        if (row.address, row.queue) == (series.address, series.queue)
    ]
    kept = recent.of("client", at, table.index)
    names = [table.index.rows[i].client for i in at]
    most = (
        np.zeros(len(at))
        if kept is None
        else np.nan_to_num(kept.values["buffered"]).max(axis=1, initial=0)
    )
    order = sorted(range(len(at)), key=lambda n: (names[n] not in troubled, -most[n]))
    shown = [
        RecentClient(names[n], time_series_values(kept, n)) for n in order[:MAX_CLIENTS]
    ]
    return shown, max(len(at) - MAX_CLIENTS, 0)


def episodes(
    events: Iterable[Event], active: Sequence[ActiveCondition], begin: float
) -> list[SeverityEpisode]:
    """What was active since `begin`, in the order of its beginnings; silenced conditions are left out.

    events: of the queue, those since `begin` at least, oldest first. active: its conditions now.
    """
    under_way: dict[tuple[str, str], tuple[str, float]] = {}
    found: list[SeverityEpisode] = []
    for event in events:
        name = (event.condition, event.client)
        since = event.time if event.since is None else event.since
        if event.change is Change.CONDITION_ON:
            under_way[name] = event.severity, since
        elif event.change is Change.CONDITION_OFF:
            severity, since = under_way.pop(name, (event.severity, since))
            found.append(SeverityEpisode(*name, severity, since, event.time))
        elif event.change is Change.SEVERITY:
            severity, since = under_way.pop(
                name, (event.detail.partition(" ")[0], since)
            )
            found.append(SeverityEpisode(*name, severity, since, event.time))
            under_way[name] = event.severity, event.time
    for one in active:
        if not one.silenced:
            severity, since = under_way.get(
                (one.name, one.client), (one.severity.name.lower(), one.since)
            )
            found.append(
                SeverityEpisode(one.name, one.client, severity, round(since, 3), None)
            )
    return sorted(
        (one for one in found if one.to is None or one.to > begin),
        key=lambda one: one.since,
    )
