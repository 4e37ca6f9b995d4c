"""The extent of the history: days, polls, gaps, sizes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.table import Column
from penstock.history.compact import current, partition, read
from penstock.history.schema import BROKER
from penstock.history.store import Store

GAP_POLLS = 3.0
"""A pause longer than so many intervals is a gap."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Times in seconds since 1970."""

    broker: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Day:
    """The raw history of a day. polls: their number by broker. files, bytes: of all kinds."""

    day: str
    files: int
    bytes: int
    polls: dict[str, int]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A raw file and its bytes."""

    kind: str
    path: str
    size: int


def days(store: Store) -> list[Day]:
    """Returns each day of raw history, ascending. Raises StoreError."""
    files: dict[str, list[File]] = defaultdict(list)
    for entry in current(store):
        kind, day, _ = partition(entry)
        files[day].append(File(kind, entry.path, entry.size))
    return [one_day(store, day, files[day]) for day in sorted(files)]


def one_day(store: Store, day: str, files: Sequence[File]) -> Day:
    """Returns polls and gaps of a day. Raises StoreError."""
    paths = [file.path for file in files if file.kind == BROKER.name]
    rows = read(store, paths, BROKER, ["stamp", "broker", "interval"])
    brokers = rows["broker"].cast(pa.string()).to_numpy(zero_copy_only=False)
    polls = {}
    gaps = []
    for broker in sorted(set(brokers.tolist())):
        own_rows = rows.take(np.flatnonzero(brokers == broker))
        times, intervals = polls_of(own_rows)
        polls[broker] = len(times)
        gaps += gaps_of(broker, times, intervals)
    size = sum(file.size for file in files)
    return Day(day, len(files), size, polls, tuple(gaps))


def polls_of(rows: pa.Table) -> tuple[Column, Column]:
    """Returns time and interval of each poll of a broker, ascending, in seconds; one in two files counts once."""
    stamps = rows["stamp"].cast(pa.int64()).to_numpy() / 1e6
    times, first = np.unique(stamps, return_index=True)
    return times, rows["interval"].to_numpy()[first]


def gaps_of(broker: str, times: Column, intervals: Column) -> list[Gap]:
    """Returns the pauses between polls that are too long.

    times: (polls,) Seconds since 1970, ascending. intervals: (polls,) Seconds; one may have been changed.
    """
    longest_step = GAP_POLLS * np.maximum(intervals[1:], intervals[:-1])
    before_gap = np.flatnonzero(np.diff(times) > longest_step)
    return [
        Gap(broker, begin=float(times[poll]), end=float(times[poll + 1]))
        for poll in before_gap.tolist()
    ]
