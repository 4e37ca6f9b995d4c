"""One unit of a back-test, in a Spark worker: raw rows → polls → the live rules → episodes."""

import json
import pickle
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.assessment.assess import State, advance
from penstock.history.compact import DAY, current, partition, read, rows_in, start_of
from penstock.history.exported import Exported, Told
from penstock.history.publish import ALL_DAY
from penstock.history.schema import BROKER, HOUR, TABLES, as_dictionary
from penstock.history.store import Store
from penstock.model import Snapshot
from penstock.series.last_good import LastGood, keep_last_good, keep_seconds
from penstock.settings.policy import Policy
from penstock_trends import tables
from penstock_trends.snapshots import RowReader
from penstock_trends.wanted import Policies, policy_of

ROWS: Final = 2_000_000
"""Rows of a kind that are in memory at once."""
SPLIT_BY: Final = ("addresses", "queues", "consumers")
"""Tables of which a part has its addresses only; of the others each part has all."""

Files = dict[str, list[str]]
"""Kind → paths."""
Hours = dict[tuple[str, str], Files]
"""(dt, hour) → its files."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds since 1970; the end is not in it."""

    begin: float
    end: float


SCHEMA: Final = pa.schema([*tables.REPORTS, ("polls", pa.int64())])
"""Reports of conditions; and of each hour, without a condition, its last poll and how many there were."""


def judge_units(
    url: str, policies: bytes, warm_up: float, batches: Iterator[Any]
) -> Iterator[Any]:
    store = Store(url)
    by_broker: Policies = pickle.loads(policies)  # noqa: S301 - of this job's own driver
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            yield pa.RecordBatch.from_pylist(
                judge_unit(store, policy_of(by_broker, unit["broker"]), unit, warm_up),
                SCHEMA,
            )


def judge_unit(
    store: Store, policy: Policy, unit: Mapping[str, Any], warm_up: float
) -> list[dict[str, Any]]:
    """The rows of one unit."""
    state = State()
    kept = LastGood()
    told = Exported()
    rows: list[dict[str, Any]] = []
    hours: dict[float, list[float]] = defaultdict(list)
    for interval, snapshot in polls_of(store, unit, warm_up):
        kept, retained = keep_last_good(kept, snapshot, keep_seconds(interval))
        state = advance(state, retained, policy)
        if micros(snapshot.stamp) < micros(unit["begin"]):
            continue
        events = told.advance(snapshot.stamp, state.judgement.conditions)
        rows += [row_of(policy.broker, snapshot.stamp, one) for one in events]
        hours[snapshot.stamp // HOUR].append(snapshot.stamp)
    return rows + [
        {
            "broker": policy.broker,
            "stamp": moment(stamps[-1]),
            "polls": 0 if unit["part"] else len(stamps),
        }
        for stamps in hours.values()
    ]


def moment(stamp: float) -> datetime:
    return datetime.fromtimestamp(micros(stamp) / 1e6, UTC)


def row_of(broker: str, stamp: float, told: Told) -> dict[str, Any]:
    """As history keeps it."""
    condition = told.condition
    return {
        "stamp": moment(stamp),
        "since": datetime.fromtimestamp(round(condition.since * 1e3) / 1e3, UTC),
        "seen": datetime.fromtimestamp(round(told.seen * 1e3) / 1e3, UTC),
        "event": told.event,
        "broker": broker,
        "severity": condition.severity.name.lower(),
        "condition": condition.name,
        **{name: getattr(condition, name) for name in ("address", "queue", "client")},
    }


def micros(stamp: float) -> int:
    """As the column `stamp` holds it."""
    return round(stamp * 1e6)


def polls_of(
    store: Store, unit: Mapping[str, Any], warm_up: float
) -> Iterator[tuple[float, Snapshot]]:
    """Interval and snapshot of each poll of the unit and its warm-up, oldest first."""
    reader = RowReader()
    begin = unit["begin"] - warm_up
    for (dt, hour), files in hours_of(store).items():
        first = start_of(dt, hour)
        length = DAY if hour == ALL_DAY else HOUR
        if first + length <= begin or first >= unit["end"]:
            continue
        count = min(-(-largest(store, files) // ROWS), 24) or 1
        for number in range(count):
            window = Span(
                max(first + number * length / count, begin),
                first + (number + 1) * length / count,
            )
            tables = window_tables(
                store, files, unit, Span(window.begin, min(window.end, unit["end"]))
            )
            polls = (
                tables[BROKER.name][name].to_pylist()
                for name in ("agent_clock", "interval")
            )
            every = dict(zip(*polls, strict=True))
            for snapshot in reader.snapshots(tables):
                yield every[snapshot.stamp], snapshot


def largest(store: Store, files: Files) -> int:
    """Rows of the kind that has most."""
    return max(
        (sum(rows_in(store, path) for path in paths) for paths in files.values()),
        default=0,
    )


def window_tables(
    store: Store, files: Files, unit: Mapping[str, Any], window: Span
) -> dict[str, Any]:
    low = micros(window.begin)
    high = micros(window.end)

    def mask(split: bool, table: Any) -> Any:
        at = table["stamp"].cast(pa.int64())
        keep = pc.and_(pc.greater_equal(at, low), pc.less(at, high))
        keep = pc.and_(
            keep, pc.equal(table["broker"].cast(pa.string()), unit["broker"])
        )
        return (
            pc.and_(keep, mine(table["address"], unit))
            if split and unit["parts"] > 1
            else keep
        )

    kinds = [
        (BROKER, False),
        *((kind, name in SPLIT_BY) for name, kind in TABLES.items()),
    ]
    return {
        kind.name: read(
            store, files.get(kind.name, []), kind, mask=partial(mask, split)
        )
        for kind, split in kinds
    }


def mine(addresses: Any, unit: Mapping[str, Any]) -> Any:
    """Which rows are of the unit's part of the addresses."""
    column = as_dictionary(addresses)
    words = [
        zlib.crc32((word or "").encode()) % unit["parts"] == unit["part"]
        for word in column.dictionary.to_pylist()
    ]
    return pa.array(words, pa.bool_()).take(column.indices)


# --- files


def hours_of(history: Store) -> Hours:
    """All raw files, ascending.

    A day of which a part was joined already is read as a whole: a file of it may be of any hour.
    """
    found: dict[tuple[str, str], Files] = defaultdict(lambda: defaultdict(list))
    entries = [(*partition(entry), entry.path) for entry in current(history)]
    whole = {dt for _, dt, hour, _ in entries if hour == ALL_DAY}
    for kind, dt, hour, path in entries:
        found[dt, ALL_DAY if dt in whole else hour][kind].append(path)
    return dict(sorted(found.items()))
