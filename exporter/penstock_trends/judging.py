"""One unit of a back-test, in a Spark worker: raw rows → polls → the live rules → reports of conditions.

A unit is a span of time of one broker, or of a part of its addresses, as JSON. The rules need some time before they say
what a live agent would: so each unit begins with a warm-up, whose polls are judged and whose reports are left out.
"""

import json
import pickle
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
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
from penstock_trends.untyped import ArrowBatch, ArrowTable
from penstock_trends.wanted import Policies, policy_of

ROWS: Final = 2_000_000
"""Rows of a kind that are in memory at once."""
MOST_WINDOWS: Final = 24
"""An hour or a day of files is read in so many spans at most."""
SPLIT_BY: Final = ("addresses", "queues", "consumers")
"""Tables of which a part of a broker has the rows of its own addresses; it has all rows of other tables."""

Files = dict[str, list[str]]
"""Kind → paths."""
Hours = dict[tuple[str, str], Files]
"""(dt, hour) → its files."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, in seconds since 1970; `end` is no longer in it."""

    begin: float
    end: float


SCHEMA: Final = pa.schema([*tables.REPORTS, ("polls", pa.int64())])
"""Reports of conditions; and of each hour, without a condition, its last poll and how many there were."""


def judge_units(
    url: str, policies: bytes, warm_up: float, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: units of work → rows of SCHEMA. policies: pickled, by broker. warm_up: seconds."""
    store = Store(url)
    by_broker: Policies = pickle.loads(policies)  # noqa: S301 - of this job's own driver
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            policy = policy_of(by_broker, unit["broker"])
            rows = judge_unit(store, policy, unit, warm_up)
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def judge_unit(
    store: Store, policy: Policy, unit: Mapping[str, Any], warm_up: float
) -> list[dict[str, Any]]:
    """Returns the rows of one unit: reports of conditions, then one row for each hour with polls (see `hour_row`)."""
    reports: list[dict[str, Any]] = []
    stamps_by_hour: dict[float, list[float]] = defaultdict(list)
    exported = Exported()
    for stamp, state in states_of(polls_of(store, unit, warm_up), policy):
        if micros(stamp) < micros(unit["begin"]):
            continue  # a poll of the warm-up
        events = exported.advance(stamp, state.judgement.conditions)
        reports += [row_of(policy.broker, stamp, event) for event in events]
        stamps_by_hour[stamp // HOUR].append(stamp)
    hours = [
        hour_row(policy.broker, stamps, is_first_part=not unit["part"])
        for stamps in stamps_by_hour.values()
    ]
    return reports + hours


def states_of(
    polls: Iterator[tuple[float, Snapshot]], policy: Policy
) -> Iterator[tuple[float, State]]:
    """Yields the stamp of each poll and the state after it, as a live agent would have it.

    polls: interval and snapshot of each. A live agent keeps the last good answer of a
    broker for some time, depending on the interval; so does this.
    """
    state = State()
    last_good = LastGood()
    for interval, snapshot in polls:
        keep = keep_seconds(interval)
        last_good, retained = keep_last_good(last_good, snapshot, keep)
        state = advance(state, retained, policy)
        yield snapshot.stamp, state


def hour_row(
    broker: str, stamps: Sequence[float], *, is_first_part: bool
) -> dict[str, Any]:
    """Returns the row of an hour: its last poll, and how many polls it has.

    Each part of a broker's addresses has the same polls: only the first counts them.
    """
    return {
        "broker": broker,
        "stamp": moment(stamps[-1]),
        "polls": len(stamps) if is_first_part else 0,
    }


def row_of(broker: str, stamp: float, event: Told) -> dict[str, Any]:
    """Returns a report of a condition as history keeps it."""
    condition = event.condition
    return {
        "stamp": moment(stamp),
        "since": in_millis(condition.since),
        "seen": in_millis(event.seen),
        "event": event.event,
        "broker": broker,
        "severity": condition.severity.name.lower(),
        "condition": condition.name,
        "address": condition.address,
        "queue": condition.queue,
        "client": condition.client,
    }


def moment(stamp: float) -> datetime:
    """Returns a time in microseconds. stamp: seconds since 1970."""
    return datetime.fromtimestamp(micros(stamp) / 1e6, UTC)


def in_millis(stamp: float) -> datetime:
    """Returns a time in milliseconds. stamp: seconds since 1970."""
    return datetime.fromtimestamp(round(stamp * 1e3) / 1e3, UTC)


def micros(stamp: float) -> int:
    """Returns a time as the column `stamp` has it, in microseconds since 1970."""
    return round(stamp * 1e6)


def polls_of(
    store: Store, unit: Mapping[str, Any], warm_up: float
) -> Iterator[tuple[float, Snapshot]]:
    """Yields interval and snapshot of each poll of the unit and its warm-up, oldest first."""
    reader = RowReader()
    span = Span(unit["begin"] - warm_up, unit["end"])
    for files, window in windows_within(store, span):
        rows = window_tables(store, files, unit, window)
        intervals = intervals_of(rows[BROKER.name])
        for snapshot in reader.snapshots(rows):
            yield intervals[snapshot.stamp], snapshot


def windows_within(store: Store, span: Span) -> Iterator[tuple[Files, Span]]:
    """Yields windows of a span with their files, ascending: each has few enough rows to be in memory at once."""
    for (day, hour), files in hours_of(store).items():
        begin = start_of(day, hour)
        length = DAY if hour == ALL_DAY else HOUR
        if not overlap(Span(begin, begin + length), span):
            continue
        # Rounded up; at least one also where no file has a row.
        count = min(-(-largest(store, files) // ROWS), MOST_WINDOWS) or 1
        edges = [begin + number * length / count for number in range(count + 1)]
        for window in (Span(*pair) for pair in pairwise(edges)):
            if overlap(window, span):
                start = max(window.begin, span.begin)
                yield files, Span(start, min(window.end, span.end))


def overlap(first: Span, second: Span) -> bool:
    """Returns whether two spans have some time in common."""
    return first.begin < second.end and second.begin < first.end


def largest(store: Store, files: Files) -> int:
    """Returns the number of rows of that kind which has most, over all of its files."""
    rows = [sum(rows_in(store, path) for path in paths) for paths in files.values()]
    return max(rows, default=0)


def intervals_of(polls: Any) -> dict[float, float]:
    """Returns the interval of each poll by its stamp, in seconds. polls: rows of the broker."""
    stamps = polls["agent_clock"].to_pylist()
    intervals = polls["interval"].to_pylist()
    return dict(zip(stamps, intervals, strict=True))


def window_tables(
    store: Store, files: Files, unit: Mapping[str, Any], window: Span
) -> dict[str, Any]:
    """Returns the rows of the unit within a window, by kind.

    Tables of SPLIT_BY have only the part of the addresses that the unit has.
    """
    everywhere = partial(is_of_unit, unit, window, False)
    in_part = partial(is_of_unit, unit, window, unit["parts"] > 1)
    masks = {BROKER.name: everywhere}
    for table, kind in TABLES.items():
        masks[kind.name] = in_part if table in SPLIT_BY else everywhere
    kinds = [BROKER, *TABLES.values()]
    return {
        kind.name: read(store, files.get(kind.name, []), kind, mask=masks[kind.name])
        for kind in kinds
    }


def is_of_unit(
    unit: Mapping[str, Any], window: Span, only_addresses: bool, table: ArrowTable
) -> Any:
    """(rows,) True where a row is of the unit's broker and within the window.

    only_addresses: and of the unit's part of the addresses.
    """
    stamp = table["stamp"].cast(pa.int64())
    broker = table["broker"].cast(pa.string())
    in_window = pc.and_(
        pc.greater_equal(stamp, micros(window.begin)),
        pc.less(stamp, micros(window.end)),
    )
    chosen = pc.and_(in_window, pc.equal(broker, unit["broker"]))
    if only_addresses:
        chosen = pc.and_(chosen, is_in_part(table["address"], unit))
    return chosen


def is_in_part(addresses: Any, unit: Mapping[str, Any]) -> Any:
    """(rows,) True where an address belongs to the unit's part of the addresses, by a checksum of its name."""
    column = as_dictionary(addresses)
    belongs = []
    for address in column.dictionary.to_pylist():
        number = zlib.crc32((address or "").encode())
        belongs.append(number % unit["parts"] == unit["part"])
    return pa.array(belongs, pa.bool_()).take(column.indices)


# --- files


def hours_of(history: Store) -> Hours:
    """Returns all raw files by day and hour, ascending.

    A day of which a part was joined already is one group: a file of it may be of any hour.
    """
    files_by_hour: dict[tuple[str, str], Files] = defaultdict(lambda: defaultdict(list))
    entries = [(entry.path, *partition(entry)) for entry in current(history)]
    joined_days = {day for _, _, day, hour in entries if hour == ALL_DAY}
    for path, kind, day, hour in entries:
        group = ALL_DAY if day in joined_days else hour
        files_by_hour[day, group][kind].append(path)
    return dict(sorted(files_by_hour.items()))
