"""Rows of raw history → one row per series, life of its counters and hour; and those → one per day.

Plain numpy, no Spark. Every aggregate merges: minimum, maximum, sum, and counts in logarithmic bins. Of a counter the
lowest and highest value of one life are kept; what it grew from one row to the next follows from both (`increases`).
So each day depends on its own files alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
MICRO: Final = 1_000_000
HOUR: Final = 3600
DAY: Final = 86400
BINS_PER_OCTAVE: Final = 8
MAX_BINS: Final = 8 * 50
ALIKE: Final = 0.9
"""Share of the polls of an hour from which two agents saw it equally well."""


@dataclass(frozen=True, slots=True)
class Tier:
    """What of a kind is kept. texts: labels. gauges: column → how it is summed up. counters: never fall in one life.
    inputs: columns that are read to make others of them.
    """

    texts: tuple[str, ...]
    gauges: Mapping[str, tuple[str, ...]]
    counters: tuple[str, ...] = ()
    histogram: str = ""
    inputs: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    """Counter → column of what it was before the row; without one a counter's first value is no increase."""
    make: Callable[[Columns], Columns] = lambda rows: rows
    """Adds the gauges that stand in no file."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of the raw rows."""
        numbers = (*self.gauges, *self.counters, *self.before.values(), *self.inputs, "interval")
        return ("stamp", "broker", "sid", "inc", *self.texts, *numbers)

    @property
    def summed(self) -> tuple[str, ...]:
        return tuple(f"{name}_{how}" for name, ways in self.gauges.items() for how in ways)

    @property
    def bounds(self) -> tuple[str, ...]:
        return tuple(f"{end}_{name}" for name in self.counters for end in ("lo", "hi"))


def with_backlog(rows: Columns) -> Columns:
    """backlog: 1 where messages wait; starved: 1 where they do and the consumers that are there hold none."""
    ready = rows["messages"] - rows["delivering"] - np.nan_to_num(rows["scheduled"])
    waiting = (ready > 0) & (rows["consumers"] > 0)
    return {**rows, "backlog": waiting.astype(float), "starved": (waiting & (rows["delivering"] == 0)).astype(float)}


def of_consumers(rows: Columns) -> Columns:
    """Each consumer a life of its own. settled: acknowledged since its poll before, where there is one in the same hour
    (steps: 1); empty: 1 where it holds none.
    """
    order = np.lexsort((rows["stamp"], rows["key"], rows["sid"]))
    rows = {name: column[order] for name, column in rows.items()} | {"inc": rows["key"][order]}
    hour = rows["stamp"] // (HOUR * MICRO)
    alike = (np.diff(rows["sid"]) == 0) & (np.diff(rows["inc"]) == 0) & (np.diff(hour) == 0)
    same = np.concatenate([[False], alike])[: len(order)]
    grown = np.concatenate([[0.0], np.diff(rows["acknowledged"])])[: len(order)]
    settled = np.where(same, np.maximum(np.nan_to_num(grown), 0.0), 0.0)
    return {**rows, "settled": settled, "steps": same.astype(float), "empty": (rows["buffered"] == 0).astype(float)}


QUEUE: Final = Tier(
    texts=("address", "queue", "queue_kind"),
    gauges={
        "messages": ("min", "max", "sum"),
        "delivering": ("max", "sum"),
        "consumers": ("min", "sum"),
        "bytes": ("max", "sum"),
        "ring_limit": ("max",),
        "backlog": ("sum",),
        "starved": ("sum",),
    },
    counters=("added", "acknowledged", "expired", "killed", "removed", "evicted"),
    histogram="messages",
    inputs=("scheduled",),
    make=with_backlog,
)
BROKER: Final = Tier(
    texts=(),
    gauges={
        "connections": ("max", "sum"),
        "memory_used_bytes": ("max", "sum"),
        "memory_limit_bytes": ("max",),
        "disk_used_ratio": ("max", "sum"),
        "disk_limit_ratio": ("max",),
        "uptime": ("min", "max"),
    },
)
CLIENT: Final = Tier(
    texts=("address", "queue", "client", "protocol"),
    gauges={
        "buffered": ("max", "sum"),
        "buffered_bytes": ("max", "sum"),
        "flow_limit": ("max",),
        "settled": ("sum", "max"),
        "steps": ("sum",),
        "empty": ("sum",),
    },
    inputs=("key", "acknowledged"),
    make=of_consumers,
)
"""All consumers of a client together: its n counts the polls of each of them."""
FATE: Final = Tier(
    texts=("address", "queue", "fate", "client"),
    gauges={"most": ("last",)},
    counters=("messages",),
    before={"messages": "before"},
)
TIERS: Final[Mapping[str, Tier]] = {"queue": QUEUE, "broker": BROKER, "consumer": CLIENT, "fate": FATE}
REDUCE: Final = {"min": np.fmin, "max": np.fmax, "lo": np.fmin, "hi": np.fmax}


def bins(values: Column) -> NDArray[np.int64]:
    """Bin of each value: 0 for nothing, then eight for each doubling."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at = 1 + np.floor(BINS_PER_OCTAVE * np.log2(np.maximum(values, 1.0)))
    found: NDArray[np.int64] = np.where(values >= 1, np.minimum(at, MAX_BINS - 1), 0).astype(np.int64)
    return found


def hourly(tier: Tier, rows: Columns) -> dict[str, NDArray[Any]]:
    """
    rows: raw columns as long as each other in any order; stamp in microseconds (int64), numbers float64, NaN = missing.

    A row that stands twice (series and stamp the same) counts once. Ascending by sid, inc, start (seconds).
    """
    rows = distinct(tier.make(rows))
    start = rows["stamp"] // (HOUR * MICRO) * HOUR
    edges = starts_of(rows["sid"], rows["inc"], start)
    keep = of_one_observer(rows, edges) if tier is not CLIENT else None
    if keep is not None:
        rows, start = {name: column[keep] for name, column in rows.items()}, start[keep]
        edges = starts_of(rows["sid"], rows["inc"], start)
    size = len(start)
    found: dict[str, NDArray[Any]] = {name: rows[name][edges] for name in ("broker", "sid", "inc", *tier.texts)}
    found["start"] = start[edges]
    found["n"] = np.diff(np.append(edges, size))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = HOUR / _reduced(np.fmax, rows["interval"], edges)
    found["expected"] = np.rint(np.nan_to_num(expected, posinf=0.0))
    for name, ways in tier.gauges.items():
        for how in ways:
            found[f"{name}_{how}"] = _aggregate(how, rows[name], edges)
    for name in tier.counters:
        found[f"lo_{name}"] = _aggregate("lo", rows[tier.before.get(name, name)], edges)
        found[f"hi_{name}"] = _aggregate("hi", rows[name], edges)
    if tier.histogram:
        found |= histogram(rows[tier.histogram], edges, size)
    return by_client(found) if tier is CLIENT else found


def by_client(rows: Columns) -> dict[str, NDArray[Any]]:
    """Hourly rows of consumers → those of their clients."""
    order = np.lexsort((rows["start"], rows["sid"]))
    return merged(
        CLIENT, {n: column[order] for n, column in rows.items()} | {"inc": np.zeros(len(order), np.int64)}, HOUR
    )


def distinct(rows: Columns) -> Columns:
    """Ascending by series, life and time, each once."""
    sid, inc, stamp = rows["sid"], rows["inc"], rows["stamp"]
    if len(sid) < 2:
        return rows
    step_sid, step_inc, step = np.diff(sid), np.diff(inc), np.diff(stamp)
    ordered = (step_sid > 0) | ((step_sid == 0) & ((step_inc > 0) | ((step_inc == 0) & (step > 0))))
    if ordered.all():
        return rows
    order = np.lexsort((stamp, inc, sid))
    sid, stamp, inc = sid[order], stamp[order], inc[order]
    same = (np.diff(sid) == 0) & (np.diff(inc) == 0) & (np.diff(stamp) == 0)
    order = order[np.concatenate([[True], ~same])]
    return {name: column[order] for name, column in rows.items()}


def of_one_observer(rows: Columns, edges: NDArray[np.intp]) -> NDArray[np.bool_] | None:
    """
    Which rows to keep where several agents watched the same broker; None = all. edges: of each series, life and hour.

    True lives of one series never overlap in time: where they do within an hour, agents name the same life
    differently. That of most polls stays, the earlier named where they are about alike (so that it stays the same from
    hour to hour), and of the others what lies outside of its time, if it is more than the edges.
    """
    ends = np.append(edges[1:], len(rows["sid"])) - 1
    sid, inc = rows["sid"][edges], rows["inc"][edges]
    first, last = rows["stamp"][edges], rows["stamp"][ends]
    hour = first // (HOUR * MICRO)
    order = np.lexsort((first, hour, sid))
    before, after = order[:-1], order[1:]
    same = (sid[before] == sid[after]) & (hour[before] == hour[after])
    overlap = same & (first[after] <= last[before])
    if not overlap.any():
        return None
    keep = np.ones(len(rows["sid"]), np.bool_)
    group = np.cumsum(np.concatenate([[True], ~same]))
    for number in np.unique(group[1:][overlap]).tolist():
        lives = order[group == number]
        polls = ends[lives] - edges[lives] + 1
        well = lives[polls >= ALIKE * polls.max()]
        main = well[np.argmin(inc[well])]
        for life in lives[lives != main].tolist():
            stamps = rows["stamp"][edges[life] : ends[life] + 1]
            outside = (stamps < first[main]) | (stamps > last[main])
            keep[edges[life] : ends[life] + 1] = outside & (outside.sum() > (1 - ALIKE) * polls.max())
    return keep


def starts_of(*keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where in rows that are sorted by `keys` each group begins."""
    if not len(keys[0]):
        return np.empty(0, np.intp)
    differs = np.zeros(len(keys[0]) - 1, np.bool_)
    for key in keys:
        differs |= key[1:] != key[:-1]
    return np.concatenate([[0], np.flatnonzero(differs) + 1])


def _reduced(how: np.ufunc, values: Column, edges: NDArray[np.intp]) -> Column:
    reduced: Column = how.reduceat(values, edges) if len(edges) else np.empty(0)
    return reduced


def _aggregate(how: str, values: Column, edges: NDArray[np.intp]) -> Column:
    if how == "sum":
        return _reduced(np.add, np.nan_to_num(values), edges)
    if how == "last":
        last: Column = values[np.append(edges[1:], len(values))[: len(edges)] - 1]
        return last
    return _reduced(REDUCE[how], values, edges)


def histogram(values: Column, edges: NDArray[np.intp], size: int) -> dict[str, NDArray[Any]]:
    """Per group the bins that hold anything and how much: `hist_at`, `hist_n`, and `hist_len` of each group."""
    group = np.repeat(np.arange(len(edges)), np.diff(np.append(edges, size)))
    here = ~np.isnan(values)
    code, count = np.unique(group[here] * MAX_BINS + bins(values[here]), return_counts=True)
    return binned(code, count, len(edges))


def binned(code: NDArray[np.int64], counts: NDArray[np.int64], groups: int) -> dict[str, NDArray[Any]]:
    """code: MAX_BINS times the group, and the bin."""
    lengths = np.bincount(code // MAX_BINS, minlength=groups)
    return {"hist_at": code % MAX_BINS, "hist_n": counts, "hist_len": lengths}


def merged(tier: Tier, rows: Columns, seconds: int = DAY) -> dict[str, NDArray[Any]]:
    """Rows of a finer tier → rows of a coarser one; `rows` ascending by sid, inc, start."""
    start = rows["start"] // seconds * seconds
    edges = starts_of(rows["sid"], rows["inc"], start)
    found: dict[str, NDArray[Any]] = {name: rows[name][edges] for name in ("broker", "sid", "inc", *tier.texts)}
    found["start"] = start[edges]
    found["n"] = _reduced(np.add, rows["n"], edges)
    found["expected"] = _reduced(np.fmax, rows["expected"], edges) * (seconds / HOUR)
    for column in (*tier.summed, *tier.bounds):
        how = column.rpartition("_")[2] if column in tier.summed else column[:2]
        found[column] = _aggregate(how, rows[column], edges)
    if tier.histogram:
        group = np.repeat(np.repeat(np.arange(len(edges)), np.diff(np.append(edges, len(start)))), rows["hist_len"])
        code, at = np.unique(group * MAX_BINS + rows["hist_at"], return_inverse=True)
        counts = np.bincount(at, weights=rows["hist_n"], minlength=len(code)).astype(np.int64)
        found |= binned(code, counts, len(edges))
    return found


def increases(rows: Columns, counter: str) -> Column:
    """How much a counter grew in each row, with the step from the row before where that is of the same life: a step
    over rows of another agent's life would count what those have counted.

    rows: ascending by sid, inc, start; NaN where the counter was not there.
    """
    low, high = rows[f"lo_{counter}"], rows[f"hi_{counter}"]
    if not len(low):
        return high - low
    order = np.lexsort((rows["inc"], rows["start"], rows["sid"]))
    before, after = order[:-1], order[1:]
    same = (rows["sid"][before] == rows["sid"][after]) & (rows["inc"][before] == rows["inc"][after])
    step = np.zeros(len(low))
    # Below 0 where an agent that was killed counted anew what it had counted.
    step[after] = np.where(same, low[after] - high[before], 0.0)
    grown: Column = np.maximum(high - low + np.nan_to_num(step), 0.0)
    return grown


def percentile(at: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> float:
    """The value below which `share` of the counted lie, to a twelfth of itself; NaN of nothing."""
    if not len(at):
        return np.nan
    order = np.argsort(at)
    reached = np.cumsum(counts[order])
    found = float(at[order][np.searchsorted(reached, share * reached[-1])])
    return 2 ** ((found - 0.5) / BINS_PER_OCTAVE) if found > 0 else 0.0  # the middle of its bin
