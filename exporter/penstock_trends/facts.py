"""From the tiers to one row of facts a series, and to all that is known of those that lead: Spark's part of it.

A unit of work is a bucket of series over the days of the window, read by the names of its files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, partial, reduce
from operator import getitem
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.history.compact import DAY
from penstock.history.schema import HOUR
from penstock.history.store import Store
from penstock.settings.business_hours import time_zone
from penstock.settings.calendar import Calendar
from penstock_trends import tables
from penstock_trends.analysis import COUNTED, DETAILED, FACTS, cleaned, split
from penstock_trends.days import Pointers
from penstock_trends.kernel import TIERS
from penstock_trends.session import spread

LIMIT: Final = pa.struct([
    *((name, pa.string()) for name in ("limit_name", "state")),
    *((name, pa.float64()) for name in ("limit", "level", "peak", "days", "low", "high", "slope", "window", "now")),
])  # fmt: skip
"""Of the table limits, as `limits.Outlook` has it: days from `now` until it is met, from low to high; slope: a day."""
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "queue": {
        **{name: name for name in (
            "first", "last", "coverage", "consumers", "added", "acknowledged", "expired", "killed", "evicted",
            "ring", "busiest_rate", "backlog_share", "idle_hours",
        )},
        "mean": "messages.mean", "p95": "messages.p95", "peak": "messages.peak", "growth": "traffic.per_week",
        "growth_low": "traffic.low", "growth_high": "traffic.high", "growth_clear": "traffic.clear",
        "week_ratio": "week.ratio", "week_clear": "week.clear", "pace": "pace.rate", "pace_change": "pace.change",
    },
    "broker": {name: name for name in ("first", "last", "coverage", "missing_hours", "restarts")},
    "address": {name: name for name in ("first", "last")},
}  # fmt: skip
"""Kind → column of its table of facts → where in the facts it is."""
FLAGS: Final = ("growth_clear", "week_clear")


WEEK: Final = pa.struct(
    [
        ("back", pa.int64()),
        ("hours", pa.int64()),
        *((name, pa.float64()) for name in COUNTED),
    ]
)
"""Of the table weeks, see `analysis.weeks`."""
LISTS: Final = {
    "limits": pa.list_(LIMIT),
    "weeks": pa.list_(WEEK),
    "profile": pa.list_(pa.float64()),
}
"""Columns that become tables of their own; profiles (by hour of the week) become one sum."""


def schema_of(kind: str) -> Any:
    """Of what makes the table of a kind."""
    numbers = [
        (name, pa.bool_() if name in FLAGS else pa.float64()) for name in COLUMNS[kind]
    ]
    return pa.schema([("sid", pa.int64()), *numbers, *LISTS.items()])


EPOCH: Final = date(1970, 1, 1).toordinal()
ROWS_AT_ONCE: Final = 1000
"""That a worker returns."""
DETAILS: Final = pa.schema([("sid", pa.int64()), ("details", pa.string())])


@dataclass(frozen=True, slots=True)
class Source:
    """The tiers of the days of `window`. calendars: of brokers by name, "" of any other."""

    out: Store
    window: Pointers
    calendars: Mapping[str, Calendar]
    bins: bool = True
    """Whether the bins of the days are wanted, where a kind has some."""

    def rows(
        self,
        session: Any,
        kind: str,
        sids: Sequence[int] | None,
        work: Any,
        schema: Any,
    ) -> Any:
        """A DataFrame: what `work` makes of each series of a kind, or of some."""
        return spread(
            session,
            self.units(kind, sids),
            partial(work, self.out.url, kind, dict(self.calendars)),
            schema,
        )

    def units(self, kind: str, sids: Sequence[int] | None = None) -> list[str]:
        """A unit names its bucket, and of each day the files that hold it."""
        hours = f"i1/kind={kind}" if TIERS[kind].counters else f"h1/kind={kind}"
        names = {"hours": hours}
        if self.bins and TIERS[kind].histogram:
            names["days"] = f"d1/kind={kind}"
        if (
            len(set(self.calendars.values())) > 1
        ):  # only then it matters whose a series is
            names["labels"] = f"series/kind={kind}"
        pointers = self.window.values()
        of = max(
            (one.buckets.get(name, 1) for one in pointers for name in names.values()),
            default=1,
        )
        span = {
            "first": min(one.start for one in pointers),
            "until": max(one.end for one in pointers),
        }
        units = []
        for bucket in range(of) if sids is None else sorted({sid % of for sid in sids}):
            paths = {
                key: [path for one in pointers for path in one.part(name, bucket)]
                for key, name in names.items()
            }
            mine = None if sids is None else [sid for sid in sids if sid % of == bucket]
            if paths["hours"]:
                units.append(
                    json.dumps(
                        span | paths | {"bucket": bucket, "of": of, "sids": mine}
                    )
                )
        return units


def facts(session: Any, source: Source, kind: str) -> Any:
    """A DataFrame with a row for each series of a kind."""
    return source.rows(session, kind, None, facts_of_units, schema_of(kind))


def details(
    session: Any, source: Source, kind: str, sids: Sequence[int]
) -> list[dict[str, Any]]:
    """All that is known of some series, by sid."""
    rows = source.rows(session, kind, sids, details_of_units, DETAILS).collect()
    return [
        json.loads(row.details) | {"sid": row.sid}
        for row in sorted(rows, key=lambda row: row.sid)
    ]


Calendars = Mapping[str, Calendar]


def facts_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker."""
    schema = schema_of(kind)
    rows: list[dict[str, Any]] = []
    for sid, series in series_of_units(url, kind, calendars, batches):
        found = FACTS[kind](*series)
        row = {column: value_at(found, path) for column, path in COLUMNS[kind].items()}
        lists = {name: cleaned(found.get(name)) for name in ("weeks", "profile")}
        rows.append(row | lists | {"sid": sid, "limits": limits_of(found)})
        if len(rows) == ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def details_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker."""
    for sid, series in series_of_units(url, kind, calendars, batches):
        found = FACTS[kind](*series) | (
            DETAILED[kind](*series) if kind in DETAILED else {}
        )
        yield pa.RecordBatch.from_pylist(
            [{"sid": sid, "details": json.dumps(cleaned(found))}], DETAILS
        )


def value_at(found: Mapping[str, Any], path: str) -> Any:
    """NaN is null: not known."""
    value: Any = reduce(getitem, path.split("."), found)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return None if value is None or np.isnan(value) else float(value)


def limits_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbers = [field.name for field in LIMIT if pa.types.is_floating(field.type)]
    return [
        {"limit_name": name, "state": one["state"]}
        | {number: value_at(one, number) for number in numbers}
        for name, one in found.get("limits", {}).items()
    ]


def series_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]]:
    """Of each series in the units: its sid, and its rows, ascending by life and hour, with the bins of its days; up to
    when all is known, and holidays (days since 1970). Times are those of the wall clock of its broker.
    """
    store = Store(url)
    of = tables.TierTables(kind)
    schema = of.increases if of.tier.counters else of.rows
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            hours = columns_of(bucket_rows(store, unit["hours"], unit, schema))
            bins = (
                bins_of(bucket_rows(store, unit["days"], unit, tables.BINNED))
                if "days" in unit
                else {}
            )
            labels = bucket_rows(store, unit.get("labels", []), unit, of.labels)
            broker = dict(
                zip(
                    labels["sid"].to_pylist(), labels["broker"].to_pylist(), strict=True
                )
            )
            for one in split(hours):
                sid = int(one["sid"][0])
                calendar = calendars.get(broker.get(sid, ""), calendars[""])
                ahead = hours_ahead(calendar.zone, unit["first"], unit["until"])
                offset = ahead[(one["start"] - unit["first"]) // HOUR]
                clock = {
                    "start": (one["start"] + offset) // HOUR * HOUR,
                    "offset": offset,
                }
                holidays = frozenset(
                    day.toordinal() - EPOCH for day in calendar.holidays
                )
                until = unit["until"] + float(
                    ahead[(unit["until"] - unit["first"]) // HOUR]
                )
                yield sid, (one | clock | bins.get(sid, {}), until, holidays)


@cache
def hours_ahead(zone: str, first: int, until: int) -> NDArray[np.int64]:
    """By hour from the first to a day after `until`, in seconds: what a wall clock there is ahead of UTC."""
    there = time_zone(zone)
    moments = (
        datetime.fromtimestamp(hour, there)
        for hour in range(first, until + DAY + HOUR, HOUR)
    )
    return np.array([int(one.utcoffset().total_seconds()) for one in moments])  # type: ignore[union-attr]


def bucket_rows(
    store: Store, paths: Sequence[str], unit: Mapping[str, Any], schema: Any
) -> Any:
    """The unit's series out of some files."""
    found = [schema.empty_table()]
    for path in paths:
        table = tables.read(store, path, schema)
        sid = table["sid"].to_numpy()
        mine = (
            sid % unit["of"] == unit["bucket"]
            if unit["sids"] is None
            else np.isin(sid, unit["sids"])
        )
        found.append(table if mine.all() else table.filter(pa.array(mine)))
    return pa.concat_tables(found)


def columns_of(table: Any) -> dict[str, Any]:
    """By name, ascending by series, life and hour; NaN is missing."""
    order = np.lexsort([table[name].to_numpy() for name in reversed(tables.KEYS)])
    found = {}
    for name in table.column_names:
        if name in tables.KEYS or name == "n":
            found[name] = table[name].to_numpy()[order]
        elif name != "bins":
            # Not `safe`: what grew in a gap may be more than a float64 holds exactly, which is no error.
            found[name] = pc.fill_null(
                table[name].cast(pa.float64(), safe=False), np.nan
            ).to_numpy()[order]
    return found


def bins_of(table: Any) -> dict[int, dict[str, Any]]:
    """Bins and counts by series."""
    lists = table["bins"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    sid = np.repeat(table["sid"].to_numpy(), np.diff(lists.offsets.to_numpy()))
    at = lists.keys.to_numpy()
    counts = lists.items.to_numpy()
    order = np.argsort(sid, kind="stable")
    ids, begins = np.unique(sid[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    return {
        int(one): {"hist_at": at[order[begin:end]], "hist_n": counts[order[begin:end]]}
        for one, begin, end in zip(ids, begins, ends, strict=True)
    }
