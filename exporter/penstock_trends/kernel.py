"""Rows of raw history → one row per series, life of its counters and hour.

Plain numpy, no Spark. Every aggregate merges: minimum, maximum, sum, and counts in logarithmic bins. Of a counter the
lowest and highest value of one life are kept; its increase from one row to the next follows from both (`sql/i1.sql`).
Where a counter was not known at each poll of the hour, it is also kept when it was known first and last. So the hours
of a day depend on its own files alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.history.listing import GAP_POLLS
from penstock.learned.service import BUSY, DEEP, FEWEST, FEWEST_PACE, SECONDS

Column = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
VERSION: Final = 5
"""Of the hourly rows: days that an older kernel made are made again while all of their raw files are there."""
MICRO: Final = 1_000_000
HOUR: Final = 3600
BINS_PER_OCTAVE: Final = 8
MAX_BINS: Final = 8 * 50
PEAK_SECONDS: Final = 300
PIECE: Final = 2**17
"""Rows."""
NEVER: Final = 2**62
"""Microseconds, later than any poll."""
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
    """Adds the gauges that are in no file. Its rows ascend by series, life and time, those of consumers need not."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of the raw rows."""
        numbers = (
            *self.gauges,
            *self.counters,
            *self.before.values(),
            *self.inputs,
            "interval",
        )
        return ("stamp", "broker", "sid", "inc", *self.texts, *numbers)

    @property
    def summed(self) -> tuple[str, ...]:
        return tuple(
            f"{name}_{how}" for name, ways in self.gauges.items() for how in ways
        )

    @property
    def bounds(self) -> tuple[str, ...]:
        return tuple(f"{end}_{name}" for name in self.counters for end in ("lo", "hi"))

    @property
    def spans(self) -> tuple[str, ...]:
        """When each counter was known first and last, null where that is the first and the last poll of the row."""
        return tuple(
            f"{end}_{name}" for name in self.counters for end in ("first", "last")
        )


def of_queues(rows: Columns) -> Columns:
    """backlog: 1 where messages wait; starved: 1 where they do and the consumers that are there hold none. quiet, away:
    for how long in this hour nothing has come, and messages have waited without a consumer (`ages`). And `paces`.
    """
    ready = rows["messages"] - rows["delivering"] - np.nan_to_num(rows["scheduled"])
    waiting = (ready > 0) & (rows["consumers"] > 0)
    found = {
        **rows,
        "backlog": waiting.astype(float),
        "starved": (waiting & (rows["delivering"] == 0)).astype(float),
    }
    came = np.diff(last_known(rows, "added"), prepend=np.nan) > 0
    quiet, found["quiet_until"] = ages(rows, came, counts=True)
    found["quiet"] = np.where(np.isnan(rows["added"]), np.nan, quiet)
    found["away"], found["away_until"] = ages(
        rows, ~((ready > 0) & (rows["consumers"] == 0)), counts=False
    )
    return found | by_pieces(paces, rows)


def last_known(rows: Columns, counter: str) -> Column:
    """A counter, at polls that do not say it as it was known last in the same hour and life."""
    values: Column = rows[counter]
    taken = np.isfinite(values)
    if taken.all():
        return values
    hour = rows["stamp"] // (HOUR * MICRO)
    begins = starts_of(rows["sid"], rows["inc"], hour)
    taken[begins] = True
    row = np.arange(len(values))
    row_taken = np.maximum.accumulate(np.where(taken, row, 0))
    return values[row_taken]


def ages(
    rows: Columns, ends: NDArray[np.bool_], *, counts: bool
) -> tuple[Column, Column]:
    """Seconds since a silence ended last in this hour, or since its first poll; and when in the hour one ended first.

    ends: by row; counts: it is seen by the row before, which must be of the same hour and life.
    """
    stamp = rows["stamp"] / MICRO
    hour = np.floor(stamp / HOUR) * HOUR
    first = np.zeros(len(stamp), np.bool_)
    first[starts_of(rows["sid"], rows["inc"], hour.astype(np.int64))] = True
    ends = ends & ~first if counts else ends
    last = np.maximum.accumulate(np.where(ends | first, np.arange(len(stamp)), 0))
    return stamp - stamp[last], np.where(ends, stamp - hour, HOUR)


def by_pieces(
    work: Callable[[Columns], dict[str, Column]], rows: Columns
) -> dict[str, Column]:
    """What `work` makes of rows, whole hours of a life at a time: it needs several times their memory."""
    size = len(rows["stamp"])
    edges = starts_of(rows["sid"], rows["inc"], rows["stamp"] // (HOUR * MICRO))
    at = np.unique(
        [
            0,
            *np.append(edges, size)[
                np.searchsorted(edges, np.arange(PIECE, size, PIECE))
            ],
            size,
        ]
    )
    made = [
        work({name: rows[name][a:b] for name in rows}) for a, b in pairwise(at.tolist())
    ] or [work(rows)]
    return {name: np.concatenate([one[name] for one in made]) for name in made[0]}


def paces(rows: Columns) -> dict[str, Column]:
    """Over the last minutes before each row, as far as they are of its hour and life; NaN where that is not known.

    peak: messages that came in five minutes. pace: messages a second and consumer; service: seconds of a consumer for a
    message, as the agent measures both (`learned.service`), but by all consumers that are there; busy: 1 where it is
    known.
    """
    hour = rows["stamp"] // (HOUR * MICRO)
    row = np.arange(len(rows["stamp"]))
    seconds = rows["stamp"] / MICRO
    edges = starts_of(rows["sid"], rows["inc"], hour)
    group = np.repeat(np.arange(len(edges)), np.diff(np.append(edges, len(row))))
    first = edges[group]
    time = rows["stamp"] - hour * HOUR * MICRO + group * (2 * HOUR * MICRO)
    before = np.maximum(row - 1, first)
    same = (
        rows["consumers"] == rows["consumers"][before]
    )  # who came or went has another share of the time
    alike = np.maximum.accumulate(np.where(same & (row > first), 0, row))

    def begin(window: float, earliest: NDArray[np.intp]) -> NDArray[np.intp]:
        at = np.searchsorted(time, time - int(window * MICRO), side="right") - 1
        return np.where(at >= earliest, at, row)

    def grown(values: Column) -> Column:
        return np.maximum(np.nan_to_num(values - values[before]), 0.0)

    def summed(values: Column) -> Column:
        total = np.cumsum(values)
        return np.asarray(total - total[since])

    left = np.where(
        np.isnan(rows["acknowledged"]),
        rows["removed"] - np.nan_to_num(rows["expired"]),
        rows["acknowledged"],
    )
    works = np.where(
        rows["exclusive"] > 0, np.minimum(rows["consumers"], 1.0), rows["consumers"]
    )
    step = seconds - seconds[before]
    step = np.where(step <= GAP_POLLS * rows["interval"], step, 0.0)
    deep = (rows["messages"] - np.nan_to_num(rows["scheduled"]) >= DEEP * works) & (
        works > 0
    )
    busy = deep[before] & (step > 0)
    spent = np.nan_to_num(works * step)
    settled = grown(left) * (step > 0)
    since = begin(SECONDS, alike)
    window = seconds - seconds[since]
    served = summed(settled * busy)
    used = summed(spent * busy)
    known = (served >= FEWEST) & (summed(step * busy) >= BUSY * window) & (window > 0)
    everything = summed(settled)
    all_used = summed(spent)
    fast = (
        (everything >= FEWEST_PACE) & (all_used > 0) & (summed(step) >= BUSY * window)
    )
    early = begin(PEAK_SECONDS, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "peak": PEAK_SECONDS
            * (rows["added"] - rows["added"][early])
            / (seconds - seconds[early]),
            "service": np.where(known, used / served, np.nan),
            "pace": np.where(fast, everything / all_used, np.nan),
            "busy": known.astype(float),
        }


def of_consumers(rows: Columns) -> Columns:
    """Each consumer a life of its own. settled: acknowledged since its poll before, where there is one in the same hour
    (steps: 1); empty: 1 where it holds none.
    """
    order = np.lexsort((rows["stamp"], rows["key"], rows["sid"]))
    rows = {name: column[order] for name, column in rows.items()} | {
        "inc": rows["key"][order]
    }
    hour = rows["stamp"] // (HOUR * MICRO)
    alike = (
        (np.diff(rows["sid"]) == 0) & (np.diff(rows["inc"]) == 0) & (np.diff(hour) == 0)
    )
    same = np.concatenate([[False], alike])[: len(order)]
    grown = np.concatenate([[0.0], np.diff(rows["acknowledged"])])[: len(order)]
    settled = np.where(same, np.maximum(np.nan_to_num(grown), 0.0), 0.0)
    return {
        **rows,
        "settled": settled,
        "steps": same.astype(float),
        "empty": (rows["buffered"] == 0).astype(float),
    }


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
        "peak": ("max",),
        "pace": ("max",),
        "service": ("max", "sum"),
        "busy": ("sum",),
        **dict.fromkeys(("quiet", "away"), ("max", "last")),
        **dict.fromkeys(("quiet_until", "away_until"), ("min",)),
    },
    counters=("added", "acknowledged", "expired", "killed", "removed", "evicted"),
    histogram="messages",
    inputs=("scheduled", "exclusive"),
    make=of_queues,
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
ADDRESS: Final = Tier(
    texts=("address",),
    gauges={
        "messages": ("max", "sum"),
        "memory_bytes": ("max", "sum"),
        "limit_messages": ("max",),
        "limit_bytes": ("max",),
        "producers": ("max",),
        "paging": ("max",),
    },
    counters=(
        "messages_added",
        "messages_unrouted",
        "messages_dropped",
        "messages_rejected",
        "removed",
    ),
)
FATE: Final = Tier(
    texts=("address", "queue", "fate", "client"),
    gauges={"most": ("last",)},
    counters=("messages",),
    before={"messages": "before"},
)
TIERS: Final[Mapping[str, Tier]] = {
    "queue": QUEUE, "broker": BROKER, "consumer": CLIENT, "address": ADDRESS, "fate": FATE,
}  # fmt: skip
REDUCE: Final = {"min": np.fmin, "max": np.fmax, "lo": np.fmin, "hi": np.fmax}


def bins(values: Column) -> NDArray[np.int64]:
    """Bin of each value: 0 for nothing, then eight for each doubling."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at = 1 + np.floor(BINS_PER_OCTAVE * np.log2(np.maximum(values, 1.0)))
    found: NDArray[np.int64] = np.where(
        values >= 1, np.minimum(at, MAX_BINS - 1), 0
    ).astype(np.int64)
    return found


def hourly(tier: Tier, rows: Columns) -> dict[str, NDArray[Any]]:
    """
    rows: raw columns as long as each other in any order; stamp in microseconds (int64), numbers float64, NaN = missing.

    A row that occurs twice (series and stamp the same) counts once. Ascending by sid, inc, start (seconds).
    """
    rows = (
        distinct(tier.make(rows)) if tier is CLIENT else tier.make(observed_once(rows))
    )
    start = rows["stamp"] // (HOUR * MICRO) * HOUR
    edges = starts_of(rows["sid"], rows["inc"], start)
    size = len(start)
    found: dict[str, NDArray[Any]] = {
        name: rows[name][edges] for name in ("broker", "sid", "inc", *tier.texts)
    }
    found["start"] = start[edges]
    found["n"], found["hours"] = (
        np.diff(np.append(edges, size)),
        np.ones(len(edges), np.int64),
    )
    found["t0"], found["t1"] = (
        rows["stamp"][edges] // MICRO,
        rows["stamp"][edges + found["n"] - 1] // MICRO,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = HOUR / _reduced(np.fmax, rows["interval"], edges)
    found["expected"] = np.rint(np.nan_to_num(expected, posinf=0.0))
    for name, ways in tier.gauges.items():
        for how in ways:
            found[f"{name}_{how}"] = _aggregate(how, rows[name], edges)
    for name in tier.counters:
        found[f"lo_{name}"] = _aggregate("lo", rows[tier.before.get(name, name)], edges)
        found[f"hi_{name}"] = _aggregate("hi", rows[name], edges)
        found[f"first_{name}"], found[f"last_{name}"] = known_span(
            rows[name], rows["stamp"], edges
        )
    if tier.histogram:
        found |= histogram(rows[tier.histogram], edges, size)
    return by_client(found) if tier is CLIENT else found


def known_span(
    counter: Column, stamp: NDArray[np.int64], edges: NDArray[np.intp]
) -> tuple[Column, Column]:
    """When a counter was known first and last in each group, in seconds; NaN where it was known at the first, or at the
    last poll, or never.
    """
    nowhere = np.full(len(edges), np.nan)
    reported = np.isfinite(counter)
    if not len(edges) or reported.all():
        return nowhere, nowhere
    ends = np.append(edges[1:], len(counter)) - 1
    ever = np.logical_or.reduceat(reported, edges)
    begins_late = ever & ~reported[edges]
    ends_early = ever & ~reported[ends]
    earliest = np.minimum.reduceat(np.where(reported, stamp, NEVER), edges)
    latest = np.maximum.reduceat(np.where(reported, stamp, -NEVER), edges)
    first = np.where(begins_late, earliest // MICRO, np.nan)
    last = np.where(ends_early, latest // MICRO, np.nan)
    return first, last


def by_client(rows: Columns) -> dict[str, NDArray[Any]]:
    """Hourly rows of consumers → those of their clients, each of which has one life."""
    order = np.lexsort((rows["start"], rows["sid"]))
    rows = {name: column[order] for name, column in rows.items()}
    edges = starts_of(rows["sid"], rows["start"])
    found: dict[str, NDArray[Any]] = {
        name: rows[name][edges] for name in ("broker", "sid", "start", *CLIENT.texts)
    }
    found["inc"] = np.zeros(len(edges), np.int64)
    ways = {"n": "sum", "hours": "max", "t0": "min", "t1": "max", "expected": "max"}
    for name, how in {
        **ways,
        **{name: name.rpartition("_")[2] for name in CLIENT.summed},
    }.items():
        found[name] = _aggregate(how, rows[name], edges)
    return found


def distinct(rows: Columns) -> Columns:
    """Ascending by series, life and time, each once."""
    sid = rows["sid"]
    inc = rows["inc"]
    stamp = rows["stamp"]
    if len(sid) < 2:
        return rows
    step_sid = np.diff(sid)
    step_inc = np.diff(inc)
    step = np.diff(stamp)
    ordered = (step_sid > 0) | (
        (step_sid == 0) & ((step_inc > 0) | ((step_inc == 0) & (step > 0)))
    )
    if ordered.all():
        return rows
    order = np.lexsort((stamp, inc, sid))
    sid = sid[order]
    stamp = stamp[order]
    inc = inc[order]
    same = (np.diff(sid) == 0) & (np.diff(inc) == 0) & (np.diff(stamp) == 0)
    order = order[np.concatenate([[True], ~same])]
    return {name: column[order] for name, column in rows.items()}


def observed_once(rows: Columns) -> Columns:
    """Ascending by series, life and time, each poll once, also where several agents watched the same broker."""
    rows = distinct(rows)
    keep = of_one_observer(
        rows, starts_of(rows["sid"], rows["inc"], rows["stamp"] // (HOUR * MICRO))
    )
    return (
        rows if keep is None else {name: column[keep] for name, column in rows.items()}
    )


def of_one_observer(rows: Columns, edges: NDArray[np.intp]) -> NDArray[np.bool_] | None:
    """
    Which rows to keep where several agents watched the same broker; None = all. edges: of each series, life and hour.

    True lives of one series never overlap in time: where they do within an hour, agents name the same life
    differently. That of most polls stays, the earlier named where they are about alike (so that it stays the same from
    hour to hour), and of the others what lies outside of its time, if it is more than the edges.
    """
    if not len(edges):
        return None
    ends = np.append(edges[1:], len(rows["sid"])) - 1
    sid = rows["sid"][edges]
    inc = rows["inc"][edges]
    first = rows["stamp"][edges]
    last = rows["stamp"][ends]
    hour = first // (HOUR * MICRO)
    order = np.lexsort((first, hour, sid))
    before = order[:-1]
    after = order[1:]
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
            keep[edges[life] : ends[life] + 1] = outside & (
                outside.sum() > (1 - ALIKE) * polls.max()
            )
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
    if how == "sum":  # of nothing known it is unknown, not 0
        total = _reduced(np.add, np.nan_to_num(values), edges)
        missing = np.isnan(values)
        return (
            np.where(_reduced(np.logical_and, missing, edges), np.nan, total)
            if missing.any()
            else total
        )
    if how == "last":
        last: Column = values[np.append(edges[1:], len(values))[: len(edges)] - 1]
        return last
    return _reduced(REDUCE[how], values, edges)


def histogram(
    values: Column, edges: NDArray[np.intp], size: int
) -> dict[str, NDArray[Any]]:
    """Per group the bins that hold anything and how much: `hist_at`, `hist_n`, and `hist_len` of each group."""
    group = np.repeat(np.arange(len(edges)), np.diff(np.append(edges, size)))
    here = ~np.isnan(values)
    code, counts = np.unique(
        group[here] * MAX_BINS + bins(values[here]), return_counts=True
    )
    lengths = np.bincount(code // MAX_BINS, minlength=len(edges))
    return {"hist_at": code % MAX_BINS, "hist_n": counts, "hist_len": lengths}


def percentile(at: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> float:
    """The value below which `share` of the counted lie, to a twelfth of itself; NaN of nothing."""
    if not len(at):
        return np.nan
    order = np.argsort(at)
    reached = np.cumsum(counts[order])
    found = float(at[order][np.searchsorted(reached, share * reached[-1])])
    return (
        2 ** ((found - 0.5) / BINS_PER_OCTAVE) if found > 0 else 0.0
    )  # the middle of its bin
