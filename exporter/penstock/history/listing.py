"""What history there is: days, polls, gaps, sizes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

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
    """polls: broker → how many; files and bytes of all kinds."""

    day: str
    files: int
    bytes: int
    polls: dict[str, int]
    gaps: tuple[Gap, ...]


def days(store: Store) -> list[Day]:
    """Each day of raw history, ascending. Raises StoreError."""
    files: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for entry in current(store):
        kind, day, _ = partition(entry)
        files[day].append((kind, entry.path, entry.size))
    return [one_day(store, day, files[day]) for day in sorted(files)]


def one_day(store: Store, day: str, files: Sequence[tuple[str, str, int]]) -> Day:
    paths = [path for kind, path, _ in files if kind == BROKER.name]
    rows = read(store, paths, BROKER, ["stamp", "broker", "interval"])
    names = rows["broker"].cast(pa.string()).to_numpy(zero_copy_only=False)
    stamps = rows["stamp"].cast(pa.int64()).to_numpy() / 1e6
    every = rows["interval"].to_numpy()
    polls = {}
    gaps = []
    for name in sorted(set(names.tolist())):
        mine = np.flatnonzero(names == name)
        at, first = np.unique(stamps[mine], return_index=True)
        polls[name] = len(at)
        interval = every[mine][first]
        longest_step = GAP_POLLS * np.maximum(
            interval[1:], interval[:-1]
        )  # it may have been set to another
        for number in np.flatnonzero(np.diff(at) > longest_step).tolist():
            begin = float(at[number])
            end = float(at[number + 1])
            gaps.append(Gap(name, begin, end))
    return Day(day, len(files), sum(size for *_, size in files), polls, tuple(gaps))
