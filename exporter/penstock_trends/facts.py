"""From the tiers to one row of facts a series, and to the details of series that lead: the part that Spark does.

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
    """The tiers that facts are made of.

    Attributes:
        out: Store with the tiers.
        window: The days that are read.
        calendars: By name of the broker, "" for any other.
        bins: Whether the bins of the days are wanted, where a kind has some.
    """

    out: Store
    window: Pointers
    calendars: Mapping[str, Calendar]
    bins: bool = True

    def rows(
        self,
        session: Any,
        kind: str,
        sids: Sequence[int] | None,
        work: Any,
        schema: Any,
    ) -> Any:
        """A DataFrame: what `work` makes of each series of a kind, or of some."""
        in_worker = partial(work, self.out.url, kind, dict(self.calendars))
        return spread(session, self.units(kind, sids), in_worker, schema)

    def tables_of(self, kind: str) -> dict[str, str]:
        """The tables that are read for a kind, by the name that a unit has for them."""
        tier = TIERS[kind]
        hours = "i1" if tier.counters else "h1"
        names = {"hours": f"{hours}/kind={kind}"}
        if self.bins and tier.histogram:
            names["days"] = f"d1/kind={kind}"
        # Only of different calendars it matters whose a series is.
        if len(set(self.calendars.values())) > 1:
            names["labels"] = f"series/kind={kind}"
        return names

    def units(self, kind: str, sids: Sequence[int] | None = None) -> list[str]:
        """The units as JSON: each names its bucket, and for each day the files that hold it."""
        names = self.tables_of(kind)
        pointers = self.window.values()
        buckets = max(
            (
                pointer.buckets.get(name, 1)
                for pointer in pointers
                for name in names.values()
            ),
            default=1,
        )
        sids_of = sids_by_bucket(sids, buckets)
        span = {
            "first": min(pointer.start for pointer in pointers),
            "until": max(pointer.end for pointer in pointers),
        }
        units = []
        for bucket, sids_in_bucket in sids_of.items():
            paths = {
                key: [
                    path for pointer in pointers for path in pointer.part(name, bucket)
                ]
                for key, name in names.items()
            }
            place = {"bucket": bucket, "of": buckets, "sids": sids_in_bucket}
            if paths["hours"]:
                units.append(json.dumps(span | paths | place))
        return units


def sids_by_bucket(
    sids: Sequence[int] | None, buckets: int
) -> dict[int, list[int] | None]:
    """The series of each bucket, ascending by bucket; None: all of it."""
    if sids is None:
        return dict.fromkeys(range(buckets))
    return {
        bucket: [sid for sid in sids if sid % buckets == bucket]
        for bucket in sorted({sid % buckets for sid in sids})
    }


def facts(session: Any, source: Source, kind: str) -> Any:
    """A DataFrame with a row for each series of a kind."""
    return source.rows(session, kind, None, facts_of_units, schema_of(kind))


def details(
    session: Any, source: Source, kind: str, sids: Sequence[int]
) -> list[dict[str, Any]]:
    """The details of some series, ascending by sid."""
    rows = source.rows(session, kind, sids, details_of_units, DETAILS).collect()
    rows.sort(key=lambda row: row.sid)
    return [json.loads(row.details) | {"sid": row.sid} for row in rows]


Calendars = Mapping[str, Calendar]


def facts_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """The facts of the series in the units, as rows of `schema_of`; in a worker."""
    schema = schema_of(kind)
    rows: list[dict[str, Any]] = []
    for sid, arguments in series_of_units(url, kind, calendars, batches):
        rows.append({"sid": sid} | row_of_facts(kind, FACTS[kind](*arguments)))
        if len(rows) == ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def row_of_facts(kind: str, facts_: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the table of facts, without its sid."""
    row = {column: value_at(facts_, path) for column, path in COLUMNS[kind].items()}
    lists = {name: cleaned(facts_.get(name)) for name in ("weeks", "profile")}
    return row | lists | {"limits": limits_of(facts_)}


def details_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """The facts and the details of the series in the units, as JSON; in a worker."""
    for sid, arguments in series_of_units(url, kind, calendars, batches):
        details_ = FACTS[kind](*arguments)
        if kind in DETAILED:
            details_ |= DETAILED[kind](*arguments)
        row = {"sid": sid, "details": json.dumps(cleaned(details_))}
        yield pa.RecordBatch.from_pylist([row], DETAILS)


def value_at(facts_: Mapping[str, Any], path: str) -> Any:
    """The value at a path of keys; None where it is not known."""
    value: Any = reduce(getitem, path.split("."), facts_)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if value is None or np.isnan(value):
        return None
    return float(value)


def limits_of(facts_: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table of limits."""
    numbers = [field.name for field in LIMIT if pa.types.is_floating(field.type)]
    rows = []
    for name, limit in facts_.get("limits", {}).items():
        row = {"limit_name": name, "state": limit["state"]}
        row |= {number: value_at(limit, number) for number in numbers}
        rows.append(row)
    return rows


def series_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]]:
    """For each series in the units its sid, and the arguments of the functions in FACTS.

    These are its rows, ascending by life and hour, with the bins of its days; up to when
    all is known; and holidays (days since 1970). Times are those of the wall clock of
    its broker.
    """
    store = Store(url)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield from series_of_unit(store, kind, calendars, json.loads(text))


def series_of_unit(
    store: Store, kind: str, calendars: Calendars, unit: Mapping[str, Any]
) -> Iterator[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]]:
    """For each series in a unit the same as `series_of_units`."""
    schemas = tables.TierTables(kind)
    schema = schemas.increases if schemas.tier.counters else schemas.rows
    hours = columns_of(bucket_rows(store, unit["hours"], unit, schema))
    bins: dict[int, dict[str, Any]] = {}
    if "days" in unit:
        bins = bins_of(bucket_rows(store, unit["days"], unit, tables.BINNED))
    labels = bucket_rows(store, unit.get("labels", []), unit, schemas.labels)
    calendar_of = calendars_by_sid(labels, calendars)
    for rows in split(hours):
        sid = int(rows["sid"][0])
        calendar = calendar_of.get(sid, calendars[""])
        clock, until = by_wall_clock(rows, calendar, unit)
        holidays = frozenset(day.toordinal() - EPOCH for day in calendar.holidays)
        yield sid, (rows | clock | bins.get(sid, {}), until, holidays)


def calendars_by_sid(labels: Any, calendars: Calendars) -> dict[int, Calendar]:
    """The calendar of each series of which the broker is known."""
    sids = labels["sid"].to_pylist()
    brokers = labels["broker"].to_pylist()
    return {
        sid: calendars.get(broker, calendars[""])
        for sid, broker in zip(sids, brokers, strict=True)
    }


def by_wall_clock(
    rows: Mapping[str, Any], calendar: Calendar, unit: Mapping[str, Any]
) -> tuple[dict[str, Any], float]:
    """The columns `start` and `offset` of a series, and the end of its unit, by the clock of its broker."""
    first = unit["first"]
    until = unit["until"]
    ahead = hours_ahead(calendar.zone, first, until)
    offset = ahead[(rows["start"] - first) // HOUR]
    clock = {
        "start": (rows["start"] + offset) // HOUR * HOUR,
        "offset": offset,
    }
    return clock, until + float(ahead[(until - first) // HOUR])


@cache
def hours_ahead(zone: str, first: int, until: int) -> NDArray[np.int64]:
    """(hours,) Seconds that a wall clock in a time zone is ahead of UTC, from the first hour to a day after `until`."""
    wall_clock = time_zone(zone)
    moments = (
        datetime.fromtimestamp(hour, wall_clock)
        for hour in range(first, until + DAY + HOUR, HOUR)
    )
    return np.array([int(moment.utcoffset().total_seconds()) for moment in moments])  # type: ignore[union-attr]


def bucket_rows(
    store: Store, paths: Sequence[str], unit: Mapping[str, Any], schema: Any
) -> Any:
    """The rows of the series of a unit in some files."""
    parts = [schema.empty_table()]
    for path in paths:
        table = tables.read(store, path, schema)
        is_in_unit = rows_in_unit(table["sid"].to_numpy(), unit)
        if not is_in_unit.all():
            table = table.filter(pa.array(is_in_unit))
        parts.append(table)
    return pa.concat_tables(parts)


def rows_in_unit(sid: NDArray[np.int64], unit: Mapping[str, Any]) -> NDArray[np.bool_]:
    """(rows,) True for the series of the unit: those of its list, or all of its bucket. sid: (rows,)."""
    if unit["sids"] is not None:
        return np.isin(sid, unit["sids"])
    is_in_bucket: NDArray[np.bool_] = sid % unit["of"] == unit["bucket"]
    return is_in_bucket


def columns_of(table: Any) -> dict[str, Any]:
    """The columns by name, ascending by series, life and hour; NaN is missing."""
    order = np.lexsort([table[name].to_numpy() for name in reversed(tables.KEYS)])
    columns = {}
    for name in table.column_names:
        if name == "bins":
            continue
        column = table[name]
        if name not in tables.KEYS and name != "n":
            # Not `safe`: growth in a gap may be more than a float64 holds exactly, which is no error.
            numbers = column.cast(pa.float64(), safe=False)
            column = pc.fill_null(numbers, np.nan)
        columns[name] = column.to_numpy()[order]
    return columns


def bins_of(table: Any) -> dict[int, dict[str, Any]]:
    """The bins and their counts, by series."""
    lists = table["bins"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0)
    lengths = np.diff(lists.offsets.to_numpy())
    sid = np.repeat(table["sid"].to_numpy(), lengths)
    order = np.argsort(sid, kind="stable")
    bins = lists.keys.to_numpy()[order]
    counts = lists.items.to_numpy()[order]
    sids, begins = np.unique(sid[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    return {
        int(series): {"hist_at": bins[begin:end], "hist_n": counts[begin:end]}
        for series, begin, end in zip(sids, begins, ends, strict=True)
    }
