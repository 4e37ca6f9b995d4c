"""From the tiers to one row of facts a series, and to all that is known of those that lead: Spark's part of it.

A unit of work is a bucket of series over the days of the window, read by the names of its files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.history.store import Store
from penstock_trends import tables
from penstock_trends.analysis import DETAILED, FACTS, cleaned, split
from penstock_trends.days import Pointers
from penstock_trends.kernel import TIERS
from penstock_trends.session import spread

LIMIT: Final = pa.struct([
    *((name, pa.string()) for name in ("limit_name", "state")),
    *((name, pa.float64()) for name in ("limit", "level", "peak", "days", "low", "high", "slope", "window")),
])  # fmt: skip
"""Of the table limits, as `limits.Outlook` has it: days until it is met, and the range of them; slope: a day."""
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
}  # fmt: skip
"""Kind → column of its table of facts → where in the facts it stands."""
FLAGS: Final = ("growth_clear", "week_clear")


def schema_of(kind: str) -> Any:
    """Of what makes the table facts-KIND; limits become a table of their own, profiles (by hour of the week) a sum."""
    numbers = [(name, pa.bool_() if name in FLAGS else pa.float64()) for name in COLUMNS[kind]]
    lists = [("limits", pa.list_(LIMIT)), ("profile", pa.list_(pa.float64()))]
    return pa.schema([("sid", pa.int64()), *numbers, *lists])


DETAILS: Final = pa.schema([("sid", pa.int64()), ("details", pa.string())])


def facts(session: Any, out: Store, window: Pointers, kind: str) -> Any:
    """A DataFrame with a row for each series of a kind."""
    return spread(session, units_of(window, kind), partial(facts_of_units, out.url, kind), schema_of(kind))


def details(session: Any, out: Store, window: Pointers, kind: str, sids: Sequence[int]) -> list[dict[str, Any]]:
    """All that is known of some series, by sid."""
    units = units_of(window, kind, sids)
    rows = spread(session, units, partial(details_of_units, out.url, kind), DETAILS).collect()
    return [json.loads(row.details) | {"sid": row.sid} for row in sorted(rows, key=lambda row: row.sid)]


def units_of(window: Pointers, kind: str, sids: Sequence[int] | None = None) -> list[str]:
    """A unit names its bucket, and of each day the files that hold it."""
    names = (f"i1/kind={kind}" if TIERS[kind].counters else f"h1/kind={kind}", f"d1/kind={kind}")
    of = max((one.buckets.get(name, 1) for one in window.values() for name in names), default=1)
    units, until = [], max(pointer.start for pointer in window.values())
    for bucket in range(of) if sids is None else sorted({sid % of for sid in sids}):
        paths = [
            [
                path
                for one in window.values()
                for path in one.files.get(name, ())
                if holds(path, bucket, one.buckets[name])
            ]
            for name in names
        ]
        mine = None if sids is None else [sid for sid in sids if sid % of == bucket]
        if paths[0]:
            unit = {"bucket": bucket, "of": of, "hours": paths[0], "days": paths[1], "sids": mine, "until": until}
            units.append(json.dumps(unit))
    return units


def holds(path: str, bucket: int, buckets: int) -> bool:
    return path.endswith(f"/part-{bucket % buckets:05d}.parquet")


def facts_of_units(url: str, kind: str, batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker."""
    schema = schema_of(kind)
    rows: list[dict[str, Any]] = []
    for sid, until, one in series_of_units(url, kind, batches):
        found = FACTS[kind](one, until)
        row = {column: value_at(found, path) for column, path in COLUMNS[kind].items()}
        rows.append(row | {"sid": sid, "limits": limits_of(found), "profile": cleaned(found.get("profile"))})
        if len(rows) == 1000:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def details_of_units(url: str, kind: str, batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker."""
    for sid, until, one in series_of_units(url, kind, batches):
        found = FACTS[kind](one, until) | (DETAILED[kind](one, until) if kind in DETAILED else {})
        yield pa.RecordBatch.from_pylist([{"sid": sid, "details": json.dumps(cleaned(found))}], DETAILS)


def value_at(found: Mapping[str, Any], path: str) -> Any:
    """NaN is null: not known."""
    value: Any = found
    for name in path.split("."):
        value = value[name]
    return (
        bool(value)
        if isinstance(value, bool | np.bool_)
        else None
        if value is None or np.isnan(value)
        else float(value)
    )


def limits_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbers = [field.name for field in LIMIT if pa.types.is_floating(field.type)]
    return [
        {"limit_name": name, "state": one["state"]} | {number: value_at(one, number) for number in numbers}
        for name, one in found.get("limits", {}).items()
    ]


def series_of_units(url: str, kind: str, batches: Iterator[Any]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Of each series in the units: its sid, the begin of the last day of all, and its rows, ascending by life and hour,
    with the bins of its days.
    """
    store, of = Store(url), tables.TierTables(kind)
    schema = of.increases if of.tier.counters else of.rows
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            hours = columns_of(bucket_rows(store, unit["hours"], unit, schema))
            days = bucket_rows(store, unit["days"], unit, of.rows) if of.tier.histogram else None
            bins = bins_of(days) if days is not None else {}
            for one in split(hours):
                sid = int(one["sid"][0])
                yield sid, unit["until"], one | bins.get(sid, {})


def bucket_rows(store: Store, paths: Sequence[str], unit: Mapping[str, Any], schema: Any) -> Any:
    """The unit's series out of some files."""
    found = [schema.empty_table()]
    for path in paths:
        table = tables.read(store, path, schema)
        sid = table["sid"].to_numpy()
        mine = sid % unit["of"] == unit["bucket"] if unit["sids"] is None else np.isin(sid, unit["sids"])
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
            found[name] = pc.fill_null(table[name].cast(pa.float64()), np.nan).to_numpy()[order]
    return found


def bins_of(table: Any) -> dict[int, dict[str, Any]]:
    """Bins and counts by series."""
    lists = table["bins"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    sid = np.repeat(table["sid"].to_numpy(), np.diff(lists.offsets.to_numpy()))
    at, counts = lists.keys.to_numpy(), lists.items.to_numpy()
    order = np.argsort(sid, kind="stable")
    ids, begins = np.unique(sid[order], return_index=True)
    ends = np.append(begins[1:], len(order))
    return {
        int(one): {"hist_at": at[order[begin:end]], "hist_n": counts[order[begin:end]]}
        for one, begin, end in zip(ids, begins, ends, strict=True)
    }
