"""Charts of a queue, or of a whole broker, over the last hours or days: rows of published history."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.table import Column, Positions
from penstock.history.compact import DAY, current, partition, start_of
from penstock.history.listing import GAP_POLLS
from penstock.history.publish import ALL_DAY, RAW
from penstock.history.schema import (
    BROKER,
    HOUR,
    QUEUE,
    RowType,
    as_dictionary,
    series_id,
)
from penstock.history.snapshots import column_of
from penstock.history.store import Store, StoredFile, StoreError

READ_SECONDS = 3.0
"""For one chart; older rows that are not read by then are left out."""
KEPT_SECONDS = 60.0
"""A chart is kept for so long, or for a part of its span if that is longer."""
KEPT_PARTS = 240
"""The span of a chart over the seconds that it is kept."""
SOON = 5.0
"""A chart with a note is kept for so many seconds only."""
MOST_KEPT = 16
"""Charts that are kept at once."""
DEPTHS = ("stamp", "messages", "delivering", "scheduled", "last_value")
COUNTED = ("inc", "interval", "added", "acknowledged", "removed")
ABOUT_BROKER = ("stamp", "connections", "memory_used_bytes", "memory_limit_bytes")

Shown = Callable[[str, str], object]
"""Address and queue → None where the configuration hides it."""
Key = tuple[str, str, str, float]
"""Broker, address, queue and seconds of a chart."""
Rows = Mapping[str, Column]
FileRows = Mapping[str, pa.Array]
"""Columns of one file: numbers as numpy has them, texts as DictionaryArrays."""
Samples = tuple[Column, Column]
"""Times ascending, seconds since 1970, and the values then; NaN where missing."""


@dataclass(frozen=True, slots=True)
class Past:
    """A chart. samples: by name; messages, messages a second. note: which part is missing, and why."""

    samples: Mapping[str, Samples]
    note: str = ""


@dataclass(slots=True)
class HistoryReader:
    """Reads raw history as it was published, from any thread, and keeps charts for a while."""

    store: Store
    _kept: dict[Key, tuple[float, Past]] = field(default_factory=dict)
    """Until when a chart is kept, by the steady clock, and the chart."""

    def past(
        self,
        broker: str,
        address: str,
        queue: str,
        end: float,
        seconds: float,
        shown: Shown = lambda *_: True,
    ) -> Past:
        """Returns the chart of a queue; without its name that of all shown queues of the broker.

        end: seconds since 1970. seconds: the span before it. Files that cannot be read are gaps.
        """
        key = (broker, address, queue, seconds)
        now = time.monotonic()
        until, past = self._kept.get(key, (now, Past({})))
        if now < until:
            return past
        files = _Files(self.store, end - seconds, end, now + READ_SECONDS)
        try:
            samples = (
                of_queue(files, broker, address, queue)
                if queue
                else of_broker(files, broker, shown)
            )
            past = Past(samples, files.note)
        except StoreError as error:
            past = Past({}, f"the history cannot be read: {error}")
        self._keep(key, seconds, past)
        return past

    def _keep(self, key: Key, seconds: float, past: Past) -> None:
        """Keep a chart as the newest of MOST_KEPT. seconds: its span."""
        serves = SOON if past.note else max(KEPT_SECONDS, seconds / KEPT_PARTS)
        kept = {other: entry for other, entry in self._kept.items() if other != key}
        kept[key] = (time.monotonic() + serves, past)
        self._kept = dict([*kept.items()][-MOST_KEPT:])


@dataclass(slots=True)
class _Files:
    """The files of a span, the newest first, until the time is up. note: which part could not be read, and why."""

    store: Store
    begin: float
    end: float
    until: float
    note: str = ""

    def rows(
        self,
        kind: RowType,
        names: Sequence[str],
        condition: pc.Expression,
        texts: Sequence[str] = (),
    ) -> Iterator[FileRows]:
        """Yields the rows of each file for which the condition holds, as columns, texts as dictionaries.

        Row groups that cannot have any are not read.
        """
        for file in self._files(kind):
            if time.monotonic() > self.until:
                self.note = "what is older takes too long to read"
                return
            try:
                table = self._read(file, kind, [*names, *texts], condition)
            except StoreError as error:
                self.note = f"a part cannot be read: {error}"
                continue
            columns = {name: column_of(table[name]) for name in names}
            dictionaries = {name: as_dictionary(table[name]) for name in texts}
            yield columns | dictionaries

    def _files(self, kind: RowType) -> Iterator[StoredFile]:
        """Yields the files of the span, the newest first."""
        first = datetime.fromtimestamp(self.begin, UTC).date()
        count = int((self.end - self.begin) // DAY) + 2
        days = [first + timedelta(number) for number in range(count)]
        folders = [f"{RAW}/kind={kind.name}/dt={day}" for day in days]
        for file in reversed(current(self.store, folders)):
            _, day, hour = partition(file)
            begin = start_of(day, hour)
            end = begin + (DAY if hour == ALL_DAY else HOUR)
            if begin <= self.end and end >= self.begin:
                yield file

    def _read(
        self,
        file: StoredFile,
        kind: RowType,
        columns: list[str],
        condition: pc.Expression,
    ) -> pa.Table:
        """Returns the rows of a file for which the condition holds. Raises StoreError."""
        with self.store.errors(file.path):
            return pq.read_table(
                self.store.path(file.path),
                columns=columns,
                filters=condition,
                filesystem=self.store.fs,
                schema=kind.schema,
                partitioning=None,
                use_threads=False,
            )


def of_queue(
    files: _Files, broker: str, address: str, queue: str
) -> dict[str, Samples]:
    """Returns depths and rates of a queue."""
    names = (*DEPTHS, *COUNTED)
    is_queue = pc.field("sid") == series_id(broker, address, queue)
    rows = _joined(names, files.rows(QUEUE, names, is_queue))
    return _series(rows["stamp"], depths(rows) | rates(rows))


def of_broker(files: _Files, broker: str, visible: Shown) -> dict[str, Samples]:
    """Returns the sums over the shown queues of a broker, as `agent.recent` has them, and its own numbers."""
    is_broker = pc.field("broker") == broker
    about = _joined(ABOUT_BROKER, files.rows(BROKER, ABOUT_BROKER, is_broker))
    limit = about["memory_limit_bytes"]
    own = {
        "connections": about["connections"],
        "memory_used_ratio": about["memory_used_bytes"]
        / np.where(limit > 0, limit, np.nan),
    }
    names = (*DEPTHS, "sid")
    parts = files.rows(QUEUE, names, is_broker, ("address", "queue"))
    sums = sums_over_queues(parts, cache(visible))
    return _series(sums.pop("stamp"), sums) | _series(about["stamp"], own)


def sums_over_queues(parts: Iterator[FileRows], visible: Shown) -> dict[str, Column]:
    """Returns the sums of depths by time. parts: rows of files, each summed alone: all rows would be many."""
    sums = (
        summed(of_shown({"stamp": rows["stamp"]} | depths(rows), rows, visible))
        for rows in parts
    )
    return summed(_joined(("stamp", "ready", "delivering"), sums))


def of_shown(values: Rows, rows: FileRows, visible: Shown) -> dict[str, Column]:
    """Returns the values of shown queues.

    Rows of one queue are neighbours, so `visible` is called once for each run of them.
    """
    begins = np.flatnonzero(np.diff(rows["sid"], prepend=-1))
    lengths = np.diff(begins, append=len(rows["sid"]))
    addresses = rows["address"].take(begins).to_pylist()
    queues = rows["queue"].take(begins).to_pylist()
    is_shown = [
        visible(address, queue) is not None
        for address, queue in zip(addresses, queues, strict=True)
    ]
    kept = np.repeat(is_shown, lengths).astype(bool)
    return {name: column[kept] for name, column in values.items()}


def _joined(names: Sequence[str], parts: Iterator[Rows]) -> dict[str, Column]:
    """Returns the columns of all parts, one after another."""
    rows = list(parts)
    return {
        name: np.concatenate([np.empty(0), *(part[name] for part in rows)])
        for name in names
    }


def _series(stamps: Column, values: Rows) -> dict[str, Samples]:
    """Returns the values by time; a column that is never known is left out."""
    order = np.argsort(stamps, kind="stable")
    return {
        name: (stamps[order], column[order])
        for name, column in values.items()
        if not np.isnan(column).all()
    }


def depths(rows: Rows) -> dict[str, Column]:
    """(rows,) Ready and delivering messages, as `series.queues.ready` has them."""
    # In a last-value queue the message count leaves out those that are delivering.
    delivering = np.where(rows["last_value"] > 0, 0.0, rows["delivering"])
    not_ready = delivering + np.nan_to_num(rows["scheduled"])
    ready = np.maximum(rows["messages"] - not_ready, 0.0)
    return {"ready": ready, "delivering": rows["delivering"]}


def summed(rows: Rows) -> dict[str, Column]:
    """(polls,) Sums over the rows of each poll, by its stamp; NaN where no row knows the number."""
    stamps, poll_of_row = np.unique(rows["stamp"], return_inverse=True)
    sums = {"stamp": stamps}
    for name in rows.keys() - {"stamp"}:
        column = rows[name]
        total = np.bincount(poll_of_row, np.nan_to_num(column), len(stamps))
        rows_with_number = np.bincount(poll_of_row, ~np.isnan(column), len(stamps))
        sums[name] = np.where(rows_with_number > 0, total, np.nan)
    return sums


def rates(rows: Rows) -> dict[str, Column]:
    """(rows,) Messages a second since the poll before, in one life of the counters; NaN after a gap."""
    order = np.lexsort((rows["stamp"], rows["inc"]))
    has_acknowledged = not np.isnan(rows["acknowledged"]).all()
    return {
        "rate_in": rate(rows, "added", order),
        "rate_out": rate(
            rows, "acknowledged" if has_acknowledged else "removed", order
        ),
    }


def rate(rows: Rows, counter: str, order: Positions) -> Column:
    """(rows,) What a counter grew a second. order: of the rows by life and time."""
    seconds = np.diff(rows["stamp"][order])
    is_same_life = np.diff(rows["inc"][order]) == 0
    longest_step = GAP_POLLS * rows["interval"][order][1:]
    usual = is_same_life & (seconds > 0) & (seconds <= longest_step)
    growth = np.diff(rows[counter][order])
    per_second = np.full(len(order), np.nan)
    per_second[order[1:][usual]] = growth[usual] / seconds[usual]
    return per_second
