"""How a queue, or a whole broker, went over the last hours or days: rows of published history for a chart."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.table import Column
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
from penstock.history.store import Store, StoreError

READ_SECONDS = 3.0
"""For one chart; what is older than could be read by then is left out."""
KEPT_SECONDS = 60.0
KEPT_PARTS = 240
MOST_KEPT = 16
SOON = 5.0
"""What was read serves for a minute at least, and for a 240th of its span; in part: 5 s. Of so many charts."""
DEPTHS = ("stamp", "messages", "delivering", "scheduled", "last_value")
COUNTED = ("inc", "interval", "added", "acknowledged", "removed")
ABOUT_BROKER = ("stamp", "connections", "memory_used_bytes", "memory_limit_bytes")

Shown = Callable[[str, str], object]
"""Of an address and a queue: None where the configuration hides it."""
Rows = Mapping[str, Column]
Samples = tuple[Column, Column]
"""Times ascending, seconds since 1970, and the values then; NaN where missing."""


@dataclass(frozen=True, slots=True)
class Past:
    """samples: by name; messages, messages per second. note: what is missing, and why."""

    samples: Mapping[str, Samples]
    note: str = ""


@dataclass(slots=True)
class HistoryReader:
    """Reads raw history as it was published; any thread may ask. What was read is kept for a while."""

    store: Store
    _kept: dict[tuple[str, str, str, float], tuple[float, Past]] = field(
        default_factory=dict
    )

    def past(
        self,
        broker: str,
        address: str,
        queue: str,
        end: float,
        seconds: float,
        shown: Shown = lambda *_: True,
    ) -> Past:
        """Of a queue, or without its name of all shown queues of the broker. Files that cannot be read are gaps."""
        key = (broker, address, queue, seconds)
        now = time.monotonic()
        until, found = self._kept.get(key, (now, Past({})))
        if now >= until:
            files = _Files(self.store, end - seconds, end, now + READ_SECONDS)
            try:
                samples = (
                    of_queue(files, broker, address, queue)
                    if queue
                    else of_broker(files, broker, shown)
                )
                found = Past(samples, files.note)
            except StoreError as error:
                found = Past({}, f"the history cannot be read: {error}")
            others = [one for one in self._kept.items() if one[0] != key]
            until = time.monotonic() + (
                SOON if found.note else max(KEPT_SECONDS, seconds / KEPT_PARTS)
            )
            self._kept = dict([*others, (key, (until, found))][-MOST_KEPT:])
        return found


@dataclass(slots=True)
class _Files:
    """The files of a span, the newest first, until the time is up. note: what could not be read, and why."""

    store: Store
    begin: float
    end: float
    until: float
    note: str = ""

    def rows(
        self, kind: RowType, names: Sequence[str], which: Any, texts: Sequence[str] = ()
    ) -> Iterator[Any]:
        """Of each file those rows as columns, texts as dictionaries; row groups that cannot have any are not read."""
        first = datetime.fromtimestamp(self.begin, UTC).date()
        days = [
            first + timedelta(n) for n in range(int((self.end - self.begin) // DAY) + 2)
        ]
        for file in reversed(
            current(self.store, [f"{RAW}/kind={kind.name}/dt={day}" for day in days])
        ):
            _, day, hour = partition(file)
            begins = start_of(day, hour)
            if (
                begins > self.end
                or begins + (DAY if hour == ALL_DAY else HOUR) < self.begin
            ):
                continue
            if time.monotonic() > self.until:
                self.note = "what is older takes too long to read"
                return
            given = {
                "filesystem": self.store.fs,
                "schema": kind.schema,
                "partitioning": None,
                "use_threads": False,
            }
            try:
                with self.store.errors(file.path):
                    table = pq.read_table(
                        self.store.path(file.path),
                        columns=[*names, *texts],
                        filters=which,
                        **given,
                    )
            except StoreError as error:
                self.note = f"a part cannot be read: {error}"
            else:
                text_columns = {name: as_dictionary(table[name]) for name in texts}
                yield {name: column_of(table[name]) for name in names} | text_columns


def of_queue(
    files: _Files, broker: str, address: str, queue: str
) -> dict[str, Samples]:
    names = (*DEPTHS, *COUNTED)
    rows = _joined(
        names,
        files.rows(QUEUE, names, pc.field("sid") == series_id(broker, address, queue)),
    )
    return _series(rows["stamp"], {**depths(rows), **rates(rows)})


def of_broker(files: _Files, broker: str, shown: Shown) -> dict[str, Samples]:
    """The sums of those of its queues that are shown, as `agent.recent` has them, and its own numbers."""
    which = pc.field("broker") == broker
    about = _joined(ABOUT_BROKER, files.rows(BROKER, ABOUT_BROKER, which))
    # Each file's sums first: all rows of all queues would be many.
    known = cache(shown)
    rows = files.rows(QUEUE, (*DEPTHS, "sid"), which, ("address", "queue"))
    parts = (
        summed(of_shown({"stamp": one["stamp"], **depths(one)}, one, known))
        for one in rows
    )
    sums = summed(_joined(("stamp", "ready", "delivering"), parts))
    limit = np.where(
        about["memory_limit_bytes"] > 0, about["memory_limit_bytes"], np.nan
    )
    own = {
        "connections": about["connections"],
        "memory_used_ratio": about["memory_used_bytes"] / limit,
    }
    return {**_series(sums.pop("stamp"), sums), **_series(about["stamp"], own)}


def of_shown(values: Rows, rows: Mapping[str, Any], shown: Shown) -> dict[str, Column]:
    """Those of shown queues. Rows of one queue are neighbours, so each run of them is asked for once."""
    begins = np.flatnonzero(np.diff(rows["sid"], prepend=-1))
    names = zip(
        *(rows[name].take(begins).to_pylist() for name in ("address", "queue")),
        strict=True,
    )
    kept = np.repeat(
        [shown(*one) is not None for one in names],
        np.diff(begins, append=len(rows["sid"])),
    )
    return {name: column[kept.astype(bool)] for name, column in values.items()}


def _joined(names: Sequence[str], parts: Iterator[Rows]) -> dict[str, Column]:
    found = list(parts)
    return {
        name: np.concatenate([np.empty(0), *(part[name] for part in found)])
        for name in names
    }


def _series(stamps: Column, values: Rows) -> dict[str, Samples]:
    """By time; a column that is never known is left out."""
    order = np.argsort(stamps, kind="stable")
    return {
        name: (stamps[order], of[order])
        for name, of in values.items()
        if not np.isnan(of).all()
    }


def depths(rows: Rows) -> dict[str, Column]:
    """As `series.queues.ready` has it."""
    among = np.where(rows["last_value"] > 0, 0.0, rows["delivering"])
    ready = np.maximum(rows["messages"] - among - np.nan_to_num(rows["scheduled"]), 0.0)
    return {"ready": ready, "delivering": rows["delivering"]}


def summed(rows: Rows) -> dict[str, Column]:
    """Over the rows of each poll."""
    stamps, at = np.unique(rows["stamp"], return_inverse=True)
    names = rows.keys() - {"stamp"}
    sums = {
        name: np.bincount(at, np.nan_to_num(rows[name]), len(stamps)) for name in names
    }
    known = {
        name: np.bincount(at, ~np.isnan(rows[name]), len(stamps)) > 0 for name in names
    }
    return {
        "stamp": stamps,
        **{name: np.where(known[name], sums[name], np.nan) for name in names},
    }


def rates(rows: Rows) -> dict[str, Column]:
    """Since the poll before, in one life of the counters; NaN after a gap."""
    gone = "removed" if np.isnan(rows["acknowledged"]).all() else "acknowledged"
    order = np.lexsort((rows["stamp"], rows["inc"]))
    seconds = np.diff(rows["stamp"][order])
    same = np.diff(rows["inc"][order]) == 0
    usual = same & (seconds > 0) & (seconds <= GAP_POLLS * rows["interval"][order][1:])
    found = {name: np.full(len(order), np.nan) for name in ("rate_in", "rate_out")}
    for name, counter in (("rate_in", "added"), ("rate_out", gone)):
        found[name][order[1:][usual]] = (
            np.diff(rows[counter][order])[usual] / seconds[usual]
        )
    return found
