"""From the tiers to one row of facts a series, and to the details of series that lead: the part that Spark does.

The tiers are tables of hours and days, one file for each day and bucket. A bucket has the series whose sid (the number
of a series in the history) leaves the same remainder when it is divided by the number of buckets. A unit of work is one
bucket over all days of the window, as JSON: the names of its files, and the series that are wanted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from penstock_trends.untyped import ArrowBatch, ArrowSchema, ArrowTable, SparkSession

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
    """The schema of the rows that workers return for a kind: sid, the columns of its table of facts, and LISTS."""
    fields = [("sid", pa.int64())]
    for name in COLUMNS[kind]:
        type_ = pa.bool_() if name in FLAGS else pa.float64()
        fields.append((name, type_))
    return pa.schema([*fields, *LISTS.items()])


EPOCH: Final = date(1970, 1, 1).toordinal()
"""The number that Python gives to the first day of 1970."""
ROWS_AT_ONCE: Final = 1000
"""Rows that a worker returns in one batch."""
DETAILS: Final = pa.schema([("sid", pa.int64()), ("details", pa.string())])


@dataclass(frozen=True, slots=True)
class Source:
    """The tiers that facts are made of.

    Attributes:
        out: Store with the tiers.
        window: The days that are read.
        calendars: Time zone and holidays by name of the broker, "" for any other.
        bins: Whether the bins of the days are wanted, where a kind has some: they count
            how many polls had a message count of about so much.
    """

    out: Store
    window: Pointers
    calendars: Mapping[str, Calendar]
    bins: bool = True

    def rows(
        self,
        session: SparkSession,
        kind: str,
        sids: Sequence[int] | None,
        work: Any,
        schema: ArrowSchema,
    ) -> Any:
        """A DataFrame with the rows that `work` makes of each series of a kind, or of those in `sids`.

        Args:
            session: Of Spark.
            kind: Key of TIERS.
            sids: None: all series.
            work: Runs in a worker, as `facts_of_units` does.
            schema: Of its rows.
        """
        in_worker = partial(work, self.out.url, kind, dict(self.calendars))
        return spread(session, self.units(kind, sids), in_worker, schema)

    def tables_of(self, kind: str) -> dict[str, str]:
        """The tables that are read for a kind, by their keys in a unit.

        hours: the hourly rows, with increases where the kind has counters; days: the
        bins; labels: to which broker a series belongs.
        """
        tier = TIERS[kind]
        hours = "i1" if tier.counters else "h1"
        names = {"hours": f"{hours}/kind={kind}"}
        if self.bins and tier.histogram:
            names["days"] = f"d1/kind={kind}"
        # With one calendar for all it does not matter to which broker a series belongs.
        if len(set(self.calendars.values())) > 1:
            names["labels"] = f"series/kind={kind}"
        return names

    def units(self, kind: str, sids: Sequence[int] | None = None) -> list[str]:
        """The units as JSON, ascending by bucket; buckets without a file of hours are left out."""
        names = self.tables_of(kind)
        buckets = self._most_buckets(names.values())
        pointers = self.window.values()
        span = {
            "first": min(pointer.start for pointer in pointers),
            "until": max(pointer.end for pointer in pointers),
        }
        units = []
        for bucket, wanted in sids_by_bucket(sids, buckets).items():
            paths = {key: self._paths(name, bucket) for key, name in names.items()}
            place = {"bucket": bucket, "of": buckets, "sids": wanted}
            if paths["hours"]:
                units.append(json.dumps(span | paths | place))
        return units

    def _most_buckets(self, names: Iterable[str]) -> int:
        """The number of buckets of the day and table that has most; others have fewer, each a power of two."""
        pointers = self.window.values()
        buckets = [
            pointer.buckets.get(name, 1) for name in names for pointer in pointers
        ]
        return max(buckets, default=1)

    def _paths(self, name: str, bucket: int) -> list[str]:
        """The files of a table that have series of a bucket, day by day."""
        paths = []
        for pointer in self.window.values():
            paths += pointer.part(name, bucket)
        return paths


def sids_by_bucket(
    sids: Sequence[int] | None, buckets: int
) -> dict[int, list[int] | None]:
    """Bucket → the series of it that are wanted, ascending by bucket; None: all of its series.

    Where only some series are wanted, buckets without any of them are left out.
    """
    if sids is None:
        return dict.fromkeys(range(buckets))
    numbers = {sid % buckets for sid in sids}
    return {
        bucket: [sid for sid in sids if sid % buckets == bucket]
        for bucket in sorted(numbers)
    }


def facts(session: SparkSession, source: Source, kind: str) -> Any:
    """A DataFrame with a row for each series of a kind."""
    return source.rows(session, kind, None, facts_of_units, schema_of(kind))


def details(
    session: SparkSession, source: Source, kind: str, sids: Sequence[int]
) -> list[dict[str, Any]]:
    """The facts and details of some series, ascending by sid, each with its `sid`."""
    frame = source.rows(session, kind, sids, details_of_units, DETAILS)
    rows = frame.collect()
    rows.sort(key=lambda row: row.sid)
    return [json.loads(row.details) | {"sid": row.sid} for row in rows]


Calendars = Mapping[str, Calendar]


def facts_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: yields the facts of the series in the units, as batches of rows of `schema_of`."""
    schema = schema_of(kind)
    rows: list[dict[str, Any]] = []
    for sid, arguments in series_of_units(url, kind, calendars, batches):
        facts_ = FACTS[kind](*arguments)
        rows.append({"sid": sid} | row_of_facts(kind, facts_))
        if len(rows) == ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def row_of_facts(kind: str, facts_: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the facts of a series, without its sid: the columns of its kind, then those of LISTS."""
    row = {column: value_at(facts_, path) for column, path in COLUMNS[kind].items()}
    for name in ("weeks", "profile"):
        row[name] = cleaned(facts_.get(name))
    row["limits"] = limits_of(facts_)
    return row


def details_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: yields the facts and the details of each series in the units, as a row of DETAILS."""
    for sid, arguments in series_of_units(url, kind, calendars, batches):
        details_ = FACTS[kind](*arguments)
        if kind in DETAILED:
            details_ |= DETAILED[kind](*arguments)
        row = {"sid": sid, "details": json.dumps(cleaned(details_))}
        yield pa.RecordBatch.from_pylist([row], DETAILS)


def value_at(facts_: Mapping[str, Any], path: str) -> Any:
    """The value at a path of keys, as "messages.mean"; None where it is not known.

    Numbers become float and flags bool: Arrow does not take the types of numpy here.
    """
    value: Any = reduce(getitem, path.split("."), facts_)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if value is None or np.isnan(value):
        return None
    return float(value)


def limits_of(facts_: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of LIMIT, one for each limit in the facts of a series."""
    numbers = [field.name for field in LIMIT if pa.types.is_floating(field.type)]
    rows = []
    for name, limit in facts_.get("limits", {}).items():
        row = {"limit_name": name, "state": limit["state"]}
        row |= {number: value_at(limit, number) for number in numbers}
        rows.append(row)
    return rows


def series_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[ArrowBatch]
) -> Iterator[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]]:
    """Yields for each series in the units its sid, and the three arguments of the functions in FACTS.

    These are:
        the columns of its hourly rows, ascending by life (the time from one restart of
            the broker to the next) and hour, with the bins of its days;
        the time up to which all is known;
        the holidays, as days since 1970.
    Times are seconds by the wall clock of its broker: "Monday at 9" means its Monday.
    """
    store = Store(url)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield from series_of_unit(store, kind, calendars, json.loads(text))


def series_of_unit(
    store: Store, kind: str, calendars: Calendars, unit: Mapping[str, Any]
) -> Iterator[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]]:
    """Yields sid and arguments of each series in one unit, as `series_of_units` describes them."""
    parts = UnitTables(store, kind, unit)
    bins = parts.bins()
    own_calendars = parts.calendars(calendars)
    for rows in split(parts.hours()):
        sid = int(rows["sid"][0])
        calendar = own_calendars.get(sid, calendars[""])
        clock, until = by_wall_clock(rows, calendar, unit)
        yield (
            sid,
            (
                rows | clock | bins.get(sid, {}),
                until,
                days_since_1970(calendar.holidays),
            ),
        )


@dataclass(frozen=True, slots=True)
class UnitTables:
    """The tables of one unit, read from its files.

    Attributes:
        store: With the tiers.
        kind: Key of TIERS.
        unit: See `Source.units`.
    """

    store: Store
    kind: str
    unit: Mapping[str, Any]

    def hours(self) -> dict[str, Any]:
        """The columns of the hourly rows, see `columns_of`; those of a kind with counters have its increases."""
        schemas = tables.TierTables(self.kind)
        schema = schemas.increases if schemas.tier.counters else schemas.rows
        return columns_of(self._rows("hours", schema))

    def bins(self) -> dict[int, dict[str, Any]]:
        """The bins of each series, see `bins_of`; empty where the unit names no files of bins."""
        if "days" not in self.unit:
            return {}
        return bins_of(self._rows("days", tables.BINNED))

    def calendars(self, calendars: Calendars) -> dict[int, Calendar]:
        """The calendar of each series; empty where the unit names no files of labels, as all have the same."""
        schemas = tables.TierTables(self.kind)
        return calendars_by_sid(self._rows("labels", schemas.labels), calendars)

    def _rows(self, key: str, schema: ArrowSchema) -> Any:
        """The rows of the files that the unit names under a key."""
        paths = self.unit.get(key, [])
        return bucket_rows(self.store, paths, self.unit, schema)


def days_since_1970(dates: Iterable[date]) -> frozenset[int]:
    """The dates as numbers of days since 1970."""
    return frozenset(day.toordinal() - EPOCH for day in dates)


def calendars_by_sid(labels: Any, calendars: Calendars) -> dict[int, Calendar]:
    """The calendar of each series in `labels`, which has the columns `sid` and `broker`."""
    sids = labels["sid"].to_pylist()
    brokers = labels["broker"].to_pylist()
    return {
        sid: calendars.get(broker, calendars[""])
        for sid, broker in zip(sids, brokers, strict=True)
    }


def by_wall_clock(
    rows: Mapping[str, Any], calendar: Calendar, unit: Mapping[str, Any]
) -> tuple[dict[str, Any], float]:
    """The columns `start` and `offset` of a series by the wall clock of its broker; and the end of the unit by it.

    start: (rows,) begin of each hour, cut to a whole hour, as some zones are half an
    hour off; offset: (rows,) seconds that the clock is ahead of UTC in that hour.
    """
    first = unit["first"]
    until = unit["until"]
    ahead = hours_ahead(calendar.zone, first, until)
    start = rows["start"]
    offset = ahead[(start - first) // HOUR]
    clock = {
        "start": (start + offset) // HOUR * HOUR,
        "offset": offset,
    }
    ahead_at_end = float(ahead[(until - first) // HOUR])
    return clock, until + ahead_at_end


@cache
def hours_ahead(zone: str, first: int, until: int) -> NDArray[np.int64]:
    """(hours,) Seconds that a wall clock in a time zone is ahead of UTC, for each hour from `first` to after `until`.

    All series of a zone share it, so it is made once.
    """
    wall_clock = time_zone(zone)
    moments = (
        datetime.fromtimestamp(hour, wall_clock)
        for hour in range(first, until + DAY + HOUR, HOUR)
    )
    return np.array([int(moment.utcoffset().total_seconds()) for moment in moments])  # type: ignore[union-attr]


def bucket_rows(
    store: Store, paths: Sequence[str], unit: Mapping[str, Any], schema: ArrowSchema
) -> Any:
    """The rows of some files that belong to the series of a unit: a file may have series of other units, too."""
    parts = [schema.empty_table()]
    for path in paths:
        table = tables.read(store, path, schema)
        is_in_unit = rows_in_unit(table["sid"].to_numpy(), unit)
        if not is_in_unit.all():
            table = table.filter(pa.array(is_in_unit))
        parts.append(table)
    return pa.concat_tables(parts)


def rows_in_unit(sid: NDArray[np.int64], unit: Mapping[str, Any]) -> NDArray[np.bool_]:
    """(rows,) True for the series of the unit: those of its list, or without a list all of its bucket.

    sid: (rows,) Series of each row.
    """
    if unit["sids"] is not None:
        return np.isin(sid, unit["sids"])
    is_in_bucket: NDArray[np.bool_] = sid % unit["of"] == unit["bucket"]
    return is_in_bucket


def columns_of(table: ArrowTable) -> dict[str, Any]:
    """The columns of an Arrow table as arrays, ascending by series, life and hour; a missing number is NaN.

    Keys and the number of polls (`n`) keep their types, all others become float64.
    """
    keys = [table[name].to_numpy() for name in tables.KEYS]
    order = np.lexsort(keys[::-1])  # the last key sorts first
    columns = {}
    for name in table.column_names:
        if name == "bins":  # no number; see `bins_of`
            continue
        column = table[name]
        if name not in tables.KEYS and name != "n":
            # Not `safe`: growth in a gap may be more than a float64 holds exactly, which is no error.
            numbers = column.cast(pa.float64(), safe=False)
            column = pc.fill_null(numbers, np.nan)
        columns[name] = column.to_numpy()[order]
    return columns


def bins_of(table: ArrowTable) -> dict[int, dict[str, Any]]:
    """Series → its bins (`hist_at`) and how many polls each holds (`hist_n`), those of all its days together.

    Each row of the table has the bins of a series and day as one map from bin to count.
    """
    maps = table["bins"].combine_chunks()
    if isinstance(maps, pa.ChunkedArray):
        maps = maps.chunk(0)
    lengths = np.diff(maps.offsets.to_numpy())
    sid_of_row = table["sid"].to_numpy()
    sid = np.repeat(sid_of_row, lengths)
    order = np.argsort(sid, kind="stable")
    bins = maps.keys.to_numpy()[order]
    counts = maps.items.to_numpy()[order]
    sids, begins = np.unique(sid[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    return {
        int(series): {"hist_at": bins[begin:end], "hist_n": counts[begin:end]}
        for series, begin, end in zip(sids, begins, ends, strict=True)
    }
