"""Rows of raw history → one row per series, life of its counters and hour.

Plain numpy, no Spark. Every aggregate merges: minimum, maximum, sum, and counts in logarithmic bins. Each row keeps the
lowest and the highest value of a counter in one life; the increase from one row to the next follows from both
(`sql/i1.sql`). Where a counter was not known at each poll of the hour, the row also keeps when it was known first and
last. So the hours of a day depend on its own files alone.

A series is one queue, client, address or broker; `sid` is its number. A life is the time from one restart of its
counters to the next, and `inc` names it; of a consumer `key` names it. `stamp` is the time of a poll. A group is the
rows of one series, life and hour: one hourly row is made of it. Rows that ascend by these three are in order.
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
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Positions of rows."""
Stamps = NDArray[np.int64]
"""Microseconds since 1970."""
VERSION: Final = 5
"""The form of the hourly rows: days that an older kernel made are made again while all of their raw files exist."""
MICRO: Final = 1_000_000
HOUR: Final = 3600
BINS_PER_OCTAVE: Final = 8
MAX_BINS: Final = 8 * 50
"""Bins of a histogram: up to 2 to the power of 50."""
PEAK_SECONDS: Final = 300
"""Of the window, over which the peak of the inflow is measured."""
PIECE: Final = 2**17
"""Rows that are worked on at once, about."""
NEVER: Final = 2**62
"""Microseconds, later than any poll."""
ALIKE: Final = 0.9
"""Share of the polls of an hour from which two agents saw it equally well."""


@dataclass(frozen=True, slots=True)
class Tier:
    """What the hourly rows of a kind have.

    Attributes:
        texts: Labels.
        gauges: Column → how it is summed up.
        counters: Columns that never fall in one life.
        histogram: Column that is counted in bins.
        inputs: Columns that are read to make others of them.
        before: Counter → column with its value before the row; without one the first
            value of a counter is no increase.
        make: Adds the gauges that are in no file. Its rows ascend by series, life and
            time; those of consumers need not.
    """

    texts: tuple[str, ...]
    gauges: Mapping[str, tuple[str, ...]]
    counters: tuple[str, ...] = ()
    histogram: str = ""
    inputs: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    make: Callable[[Columns], Columns] = lambda rows: rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read of the raw rows."""
        keys = ("stamp", "broker", "sid", "inc")
        return (
            *keys,
            *self.texts,
            *self.gauges,
            *self.counters,
            *self.before.values(),
            *self.inputs,
            "interval",
        )

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns of the gauges in hourly rows."""
        return tuple(
            f"{name}_{how}" for name, ways in self.gauges.items() for how in ways
        )

    @property
    def bounds(self) -> tuple[str, ...]:
        """The columns with the lowest and the highest value of each counter."""
        return tuple(f"{end}_{name}" for name in self.counters for end in ("lo", "hi"))

    @property
    def spans(self) -> tuple[str, ...]:
        """The columns with the times at which each counter was known first and last.

        Null where these are the first and the last poll of the row.
        """
        return tuple(
            f"{end}_{name}" for name in self.counters for end in ("first", "last")
        )


# --- groups of rows


def hour_number(stamp: Stamps) -> NDArray[np.int64]:
    """(rows,) Hours since 1970."""
    return stamp // (HOUR * MICRO)


def starts_of(*keys: NDArray[np.int64]) -> Rows:
    """(groups,) The row at which each group begins: where any key differs from the row before. keys: sorted by."""
    first_key = keys[0]
    if not len(first_key):
        return np.empty(0, np.intp)
    differs = np.zeros(len(first_key) - 1, np.bool_)
    for key in keys:
        differs |= key[1:] != key[:-1]
    later = np.flatnonzero(differs) + 1
    return np.concatenate([[0], later])


def starts_of_hours(rows: Columns) -> Rows:
    """(groups,) The row at which each series, life and hour begins, in rows that are sorted by these."""
    return starts_of(rows["sid"], rows["inc"], hour_number(rows["stamp"]))


def sizes_of(starts: Rows, size: int) -> Rows:
    """(groups,) How many rows each group has. size: number of all rows."""
    return np.diff(np.append(starts, size))


def group_of_rows(starts: Rows, size: int) -> Rows:
    """(rows,) The number of the group of each row."""
    numbers = np.arange(len(starts))
    return np.repeat(numbers, sizes_of(starts, size))


def is_first_of_hour(rows: Columns) -> Mask:
    """(rows,) True for the first row of each series, life and hour."""
    is_first = np.zeros(len(rows["stamp"]), np.bool_)
    is_first[starts_of_hours(rows)] = True
    return is_first


def last_true(mask: Mask) -> Rows:
    """(rows,) For each row the position of the last row, up to itself, where the mask is True; 0 before the first."""
    row = np.arange(len(mask))
    return np.maximum.accumulate(np.where(mask, row, 0))


def by_pieces(
    work: Callable[[Columns], dict[str, Column]], rows: Columns
) -> dict[str, Column]:
    """The columns that `work` makes of the rows, about PIECE rows at a time: it needs several times their memory.

    A piece has whole groups, so the result is that of all rows at once.
    """
    edges = edges_of_pieces(starts_of_hours(rows), len(rows["stamp"]))
    pieces = [
        work({name: column[begin:end] for name, column in rows.items()})
        for begin, end in pairwise(edges)
    ]
    if not pieces:
        return work(rows)
    names = list(pieces[0])
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


def edges_of_pieces(starts: Rows, size: int) -> list[int]:
    """The row at which each piece begins, and the end of the last one.

    Pieces have about PIECE rows, and each begins where a group begins.

    Args:
        starts: (groups,) The row at which each group begins.
        size: Number of all rows.
    """
    boundaries = np.append(starts, size)
    wished = np.arange(PIECE, size, PIECE)
    inner = boundaries[np.searchsorted(boundaries[:-1], wished)]
    edges: list[int] = np.unique([0, *inner, size]).tolist()
    return edges


# --- queues


def of_queues(rows: Columns) -> Columns:
    """The rows with the gauges of queues that are in no file.

    backlog: 1 where messages wait for consumers that the queue has; starved: 1 where
    these consumers also buffer none. quiet: seconds in this hour without a message that
    came; away: seconds in which messages have waited without a consumer (see `ages`);
    quiet_until, away_until: the second at which such a silence ended. For others see
    `paces`.
    """
    scheduled = np.nan_to_num(rows["scheduled"])
    has_ready = rows["messages"] - rows["delivering"] - scheduled > 0
    has_backlog = has_ready & (rows["consumers"] > 0)
    is_starved = has_backlog & (rows["delivering"] == 0)
    has_input = np.diff(last_known(rows, "added"), prepend=np.nan) > 0
    is_attended = ~(has_ready & (rows["consumers"] == 0))
    quiet, quiet_until = ages(rows, has_input, counts=True)
    away, away_until = ages(rows, is_attended, counts=False)
    made = {
        "backlog": has_backlog.astype(float),
        "starved": is_starved.astype(float),
        "quiet_until": quiet_until,
        "quiet": np.where(np.isnan(rows["added"]), np.nan, quiet),
        "away": away,
        "away_until": away_until,
    }
    return {**rows, **made, **by_pieces(paces, rows)}


def last_known(rows: Columns, counter: str) -> Column:
    """(rows,) A counter, with its last known value in the same hour and life at polls that do not report it."""
    values: Column = rows[counter]
    is_known = np.isfinite(values)
    if is_known.all():
        return values
    row_of_value = last_true(is_known | is_first_of_hour(rows))
    return values[row_of_value]


def ages(rows: Columns, ends: Mask, *, counts: bool) -> tuple[Column, Column]:
    """(rows,) How long a silence lasts at each row, and the second of the hour at which one ended there.

    A silence begins when the one before ended; in this hour and life not before the
    first poll. Where none ended the second is HOUR.

    Args:
        rows: In order.
        ends: (rows,) True where a silence ended.
        counts: Whether an end follows from a difference to the row before, as of a
            counter: then the first row of an hour and life shows none.
    """
    seconds = rows["stamp"] / MICRO
    hour_begin = np.floor(seconds / HOUR) * HOUR
    is_first = is_first_of_hour(rows)
    if counts:
        ends = ends & ~is_first
    last_end = last_true(ends | is_first)
    until = np.where(ends, seconds - hour_begin, HOUR)
    return seconds - seconds[last_end], until


def paces(rows: Columns) -> dict[str, Column]:
    """How fast messages come and consumers work, over the last minutes before each row, within its hour and life.

    (rows,) columns, NaN where that is not known. peak: messages that came in five
    minutes; pace: messages a second and consumer; service: seconds of a consumer for a
    message, as the agent measures both (`learned.service`), but over all consumers;
    busy: 1 where the service time is known.
    """
    polls = PollSteps.of_rows(rows)
    consumers = working_consumers(rows)
    is_step = polls.length > 0
    is_busy = has_deep_backlog(rows, consumers)[polls.before] & is_step
    settled = settled_messages(rows, polls) * is_step
    spent = np.nan_to_num(consumers * polls.length)
    window = KernelWindow(
        polls,
        polls.window_begin(SECONDS, same_consumers_since(rows, polls)),
    )
    service = service_seconds(window, settled, spent, is_busy)
    return {
        "peak": peak_inflow(rows, polls),
        "service": service,
        "pace": pace_of_consumer(window, settled, spent),
        "busy": (~np.isnan(service)).astype(float),
    }


@dataclass(frozen=True, slots=True)
class PollSteps:
    """The polls of queues with the steps between them, within series, life and hour.

    Attributes:
        seconds: (rows,) Since 1970.
        clock: (rows,) Microseconds that ascend from group to group, hours apart.
        first: (rows,) First row of the same group.
        before: (rows,) Row before, or itself for the first of a group.
        length: (rows,) Seconds since the row before; 0 for the first of a group, and
            after a gap.
    """

    seconds: Column
    clock: Stamps
    first: Rows
    before: Rows
    length: Column

    @classmethod
    def of_rows(cls, rows: Columns) -> "PollSteps":
        stamp = rows["stamp"]
        size = len(stamp)
        starts = starts_of_hours(rows)
        group = group_of_rows(starts, size)
        second_of_hour = stamp - hour_number(stamp) * HOUR * MICRO
        seconds = stamp / MICRO
        first = starts[group]
        before = np.maximum(np.arange(size) - 1, first)
        length = seconds - seconds[before]
        is_gap = ~(length <= GAP_POLLS * rows["interval"])
        return cls(
            seconds=seconds,
            clock=second_of_hour + group * (2 * HOUR * MICRO),
            first=first,
            before=before,
            length=np.where(is_gap, 0.0, length),
        )

    def window_begin(self, seconds: float, earliest: Rows) -> Rows:
        """(rows,) The last row that is at least so many seconds before; the row itself where `earliest` is later."""
        row = np.arange(len(self.clock))
        begin_clock = self.clock - int(seconds * MICRO)
        begin = np.searchsorted(self.clock, begin_clock, side="right") - 1
        return np.where(begin >= earliest, begin, row)

    def increase(self, counter: Column) -> Column:
        """(rows,) How much a counter grew since the row before; 0 where that is not known."""
        growth = counter - counter[self.before]
        return np.maximum(np.nan_to_num(growth), 0.0)


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """For each row the span of polls up to it, over which its pace is measured.

    Attributes:
        polls: All polls.
        begin: (rows,) The row with which the span begins; the row itself: it is empty.
    """

    polls: PollSteps
    begin: Rows

    @property
    def seconds(self) -> Column:
        """(rows,) How long the window is."""
        return self.polls.seconds - self.polls.seconds[self.begin]

    def total(self, values: Column) -> Column:
        """(rows,) The sum of the values of its steps."""
        sums = np.cumsum(values)
        return np.asarray(sums - sums[self.begin])

    def is_filled_by(self, seconds: Column) -> Mask:
        """(rows,) True where so many seconds of each step fill most of the window."""
        return self.total(seconds) >= BUSY * self.seconds


def working_consumers(rows: Columns) -> Column:
    """(rows,) Consumers that get messages: an exclusive queue delivers to one at most."""
    consumers = rows["consumers"]
    return np.where(
        rows["exclusive"] > 0,
        np.minimum(consumers, 1.0),
        consumers,
    )


def has_deep_backlog(rows: Columns, consumers: Column) -> Mask:
    """(rows,) True where the queue has DEEP messages for each working consumer, not counting scheduled ones."""
    due = rows["messages"] - np.nan_to_num(rows["scheduled"])
    is_deep: Mask = (due >= DEEP * consumers) & (consumers > 0)
    return is_deep


def settled_messages(rows: Columns, polls: PollSteps) -> Column:
    """(rows,) Messages that consumers settled since the row before.

    Where a broker does not count acknowledgements: those that left and did not expire.
    """
    acknowledged = rows["acknowledged"]
    removed = rows["removed"] - np.nan_to_num(rows["expired"])
    settled = np.where(np.isnan(acknowledged), removed, acknowledged)
    return polls.increase(settled)


def same_consumers_since(rows: Columns, polls: PollSteps) -> Rows:
    """(rows,) The first row since which the queue has the same number of consumers.

    A consumer that joined or left has another share of the time.
    """
    consumers = rows["consumers"]
    row = np.arange(len(consumers))
    is_same = (consumers == consumers[polls.before]) & (row > polls.first)
    return last_true(~is_same)


def service_seconds(
    window: KernelWindow, settled: Column, spent: Column, is_busy: Mask
) -> Column:
    """(rows,) Seconds that a consumer takes for a message, over the busy steps of the window.

    NaN where fewer than FEWEST messages were settled in them, and where they are not
    most of the window.

    Args:
        window: The steps before each row.
        settled: (rows,) Messages in each step.
        spent: (rows,) Seconds of all consumers in each step.
        is_busy: (rows,) True where consumers had enough to do in the step.
    """
    served = window.total(settled * is_busy)
    used = window.total(spent * is_busy)
    is_busy_window = window.is_filled_by(window.polls.length * is_busy)
    is_known = (served >= FEWEST) & is_busy_window & (window.seconds > 0)
    return np.where(is_known, ratio(used, served), np.nan)


def pace_of_consumer(window: KernelWindow, settled: Column, spent: Column) -> Column:
    """(rows,) Messages a second and consumer; NaN where too few are known. settled, spent: see `service_seconds`."""
    messages = window.total(settled)
    seconds = window.total(spent)
    is_seen = window.is_filled_by(window.polls.length)
    is_known = (messages >= FEWEST_PACE) & (seconds > 0) & is_seen
    return np.where(is_known, ratio(messages, seconds), np.nan)


def peak_inflow(rows: Columns, polls: PollSteps) -> Column:
    """(rows,) Messages that came in PEAK_SECONDS before each row; NaN where its group has no row so long before.

    The window may be a little longer than that: messages are scaled to PEAK_SECONDS.
    """
    begin = polls.window_begin(PEAK_SECONDS, polls.first)
    added = rows["added"] - rows["added"][begin]
    seconds = polls.seconds - polls.seconds[begin]
    return ratio(PEAK_SECONDS * added, seconds)


def ratio(part: Column, whole: Column) -> Column:
    """(rows,) The quotient; NaN or inf where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return part / whole


# --- consumers


def of_consumers(rows: Columns) -> Columns:
    """The rows of consumers, in order, with further gauges; each consumer (`key`) counts as a life of its client.

    settled: messages acknowledged since the last poll of the consumer, if that was in
    the same hour; steps: 1 if it was; empty: 1 where the consumer buffers none.
    """
    order = np.lexsort((rows["stamp"], rows["key"], rows["sid"]))
    ascending = {name: column[order] for name, column in rows.items()}
    ascending["inc"] = ascending["key"]
    is_step = ~is_first_of_hour(ascending)
    growth = np.diff(ascending["acknowledged"], prepend=np.nan)
    acknowledged = np.maximum(np.nan_to_num(growth), 0.0)
    return {
        **ascending,
        "settled": np.where(is_step, acknowledged, 0.0),
        "steps": is_step.astype(float),
        "empty": (ascending["buffered"] == 0).astype(float),
    }


QUEUE_GAUGES: Final[Mapping[str, tuple[str, ...]]] = {
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
    "quiet": ("max", "last"),
    "away": ("max", "last"),
    "quiet_until": ("min",),
    "away_until": ("min",),
}
QUEUE: Final = Tier(
    texts=("address", "queue", "queue_kind"),
    gauges=QUEUE_GAUGES,
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
"""How the values of a group are summed up → the function of two values; NaN is left out."""


# --- hourly rows


def hourly(tier: Tier, rows: Columns) -> dict[str, NDArray[Any]]:
    """The hourly rows, ascending by sid, inc and start (seconds).

    A row that occurs twice (series and stamp the same) counts once.

    Args:
        tier: The kind.
        rows: Raw columns of one length in any order; stamp in microseconds (int64),
            numbers float64, NaN = missing.
    """
    if tier is CLIENT:
        return by_client(hourly_rows(tier, distinct(tier.make(rows))))
    return hourly_rows(tier, tier.make(observed_once(rows)))


def hourly_rows(tier: Tier, rows: Columns) -> dict[str, NDArray[Any]]:
    """The hourly rows of raw rows that are in order: keys, gauges summed up, bounds of counters, and bins."""
    size = len(rows["stamp"])
    starts = starts_of_hours(rows)
    columns = keys_of_hours(tier, rows, starts)
    for name, ways in tier.gauges.items():
        for how in ways:
            columns[f"{name}_{how}"] = _aggregate(how, rows[name], starts)
    for name in tier.counters:
        counter = rows[name]
        before = rows[tier.before.get(name, name)]
        first, last = known_span(counter, rows["stamp"], starts)
        columns |= {
            f"lo_{name}": _aggregate("lo", before, starts),
            f"hi_{name}": _aggregate("hi", counter, starts),
            f"first_{name}": first,
            f"last_{name}": last,
        }
    if tier.histogram:
        columns |= histogram(rows[tier.histogram], starts, size)
    return columns


def keys_of_hours(tier: Tier, rows: Columns, starts: Rows) -> dict[str, NDArray[Any]]:
    """The labels of each hourly row, when it is, how many polls it has, and how many it should have."""
    labels = ("broker", "sid", "inc", *tier.texts)
    columns: dict[str, NDArray[Any]] = {name: rows[name][starts] for name in labels}
    stamp = rows["stamp"]
    polls = sizes_of(starts, len(stamp))
    first_stamp = stamp[starts]
    last_stamp = stamp[starts + polls - 1]
    return columns | {
        "start": hour_number(first_stamp) * HOUR,
        "n": polls,
        "hours": np.ones(len(starts), np.int64),
        "t0": first_stamp // MICRO,
        "t1": last_stamp // MICRO,
        "expected": expected_polls(rows, starts),
    }


def expected_polls(rows: Columns, starts: Rows) -> Column:
    """(groups,) How many polls an hour has by the longest interval in it; 0 where no interval is known."""
    longest_interval = _reduced(np.fmax, rows["interval"], starts)
    hour = np.full(len(starts), float(HOUR))
    polls = ratio(hour, longest_interval)
    return np.rint(np.nan_to_num(polls, posinf=0.0))


def known_span(counter: Column, stamp: Stamps, starts: Rows) -> tuple[Column, Column]:
    """(groups,) When a counter was known first and last, in seconds.

    NaN where that is the first, or the last, poll of the group, and where it was never
    known.
    """
    nowhere = np.full(len(starts), np.nan)
    is_known = np.isfinite(counter)
    if not len(starts) or is_known.all():
        return nowhere, nowhere
    last = np.append(starts[1:], len(counter)) - 1
    is_ever_known = np.logical_or.reduceat(is_known, starts)
    begins_late = is_ever_known & ~is_known[starts]
    ends_early = is_ever_known & ~is_known[last]
    earliest = np.minimum.reduceat(np.where(is_known, stamp, NEVER), starts)
    latest = np.maximum.reduceat(np.where(is_known, stamp, -NEVER), starts)
    return (
        np.where(begins_late, earliest // MICRO, np.nan),
        np.where(ends_early, latest // MICRO, np.nan),
    )


def by_client(rows: Columns) -> dict[str, NDArray[Any]]:
    """The hourly rows of consumers, put together for their clients, each of which has one life."""
    order = np.lexsort((rows["start"], rows["sid"]))
    ascending = {name: column[order] for name, column in rows.items()}
    starts = starts_of(ascending["sid"], ascending["start"])
    labels = ("broker", "sid", "start", *CLIENT.texts)
    clients: dict[str, NDArray[Any]] = {
        name: ascending[name][starts] for name in labels
    }
    clients["inc"] = np.zeros(len(starts), np.int64)
    for name, how in CLIENT_WAYS.items():
        clients[name] = _aggregate(how, ascending[name], starts)
    for name in CLIENT.summed:
        how = name.rpartition("_")[2]
        clients[name] = _aggregate(how, ascending[name], starts)
    return clients


CLIENT_WAYS: Final = {
    "n": "sum",
    "hours": "max",
    "t0": "min",
    "t1": "max",
    "expected": "max",
}
"""How the keys of hourly rows are put together for clients."""


def _reduced(how: np.ufunc, values: Column, starts: Rows) -> Column:
    """(groups,) All values of each group, merged."""
    if not len(starts):
        return np.empty(0)
    merged: Column = how.reduceat(values, starts)
    return merged


def _aggregate(how: str, values: Column, starts: Rows) -> Column:
    """(groups,) The values of each group summed up, by a key of REDUCE, "sum" or "last"."""
    if how == "sum":
        return _known_totals(values, starts)
    if how == "last":
        ends = np.append(starts[1:], len(values))[: len(starts)]
        last: Column = values[ends - 1]
        return last
    return _reduced(REDUCE[how], values, starts)


def _known_totals(values: Column, starts: Rows) -> Column:
    """(groups,) The sum of the known values of each group; NaN, not 0, where none is known."""
    totals = _reduced(np.add, np.nan_to_num(values), starts)
    is_missing = np.isnan(values)
    if not is_missing.any():
        return totals
    is_unknown = _reduced(np.logical_and, is_missing, starts)  # at all polls
    return np.where(is_unknown, np.nan, totals)


# --- rows once


def distinct(rows: Columns) -> Columns:
    """The rows, ascending by series, life and time, each once."""
    sid = rows["sid"]
    inc = rows["inc"]
    stamp = rows["stamp"]
    if is_strictly_ascending(sid, inc, stamp):
        return rows
    order = np.lexsort((stamp, inc, sid))
    starts = starts_of(sid[order], inc[order], stamp[order])
    order = order[starts]
    return {name: column[order] for name, column in rows.items()}


def is_strictly_ascending(
    sid: NDArray[np.int64], inc: NDArray[np.int64], stamp: Stamps
) -> bool:
    """Whether each row is after the one before it, by series, then by life, then by time."""
    series_step = np.diff(sid)
    life_step = np.diff(inc)
    is_later = (life_step > 0) | ((life_step == 0) & (np.diff(stamp) > 0))
    is_after = (series_step > 0) | ((series_step == 0) & is_later)
    return bool(is_after.all())


def observed_once(rows: Columns) -> Columns:
    """The rows, ascending by series, life and time, each poll once, also where several agents watched one broker."""
    rows = distinct(rows)
    is_kept = of_one_observer(rows, starts_of_hours(rows))
    if is_kept is None:
        return rows
    return {name: column[is_kept] for name, column in rows.items()}


def of_one_observer(rows: Columns, starts: Rows) -> Mask | None:
    """(rows,) Which rows to keep where several agents watched the same broker; None = all.

    True lives of one series never overlap in time: where they do within an hour, agents
    name the same life differently. The main life stays (see `main_of`). Of the others
    the polls before and after it stay, if these are more than a tenth of the polls of
    the hour: then an agent watched alone for a time. Fewer are only the edges.

    starts: the first row of each series, life and hour.
    """
    if not len(starts):
        return None
    lives = HourLives.of_rows(rows, starts)
    contested = lives.contested()
    if not contested:
        return None
    is_kept = np.ones(len(rows["sid"]), np.bool_)
    for rivals in contested:
        main = lives.main_of(rivals)
        edges = (1 - ALIKE) * lives.polls[rivals].max()
        for life in rivals[rivals != main].tolist():
            polls = slice(lives.start[life], lives.end[life])
            is_outside = lives.is_outside(rows["stamp"][polls], main)
            is_kept[polls] = is_outside & (is_outside.sum() > edges)
    return is_kept


@dataclass(frozen=True, slots=True)
class HourLives:
    """The lives of series in each hour, (lives,) columns.

    Attributes:
        sid: Its series.
        inc: Its name.
        start: Its first row.
        end: The row after its last.
        first: Its first stamp.
        last: Its last stamp.
    """

    sid: NDArray[np.int64]
    inc: NDArray[np.int64]
    start: Rows
    end: Rows
    first: Stamps
    last: Stamps

    @classmethod
    def of_rows(cls, rows: Columns, starts: Rows) -> "HourLives":
        ends = np.append(starts[1:], len(rows["sid"]))
        return cls(
            sid=rows["sid"][starts],
            inc=rows["inc"][starts],
            start=starts,
            end=ends,
            first=rows["stamp"][starts],
            last=rows["stamp"][ends - 1],
        )

    @property
    def polls(self) -> Rows:
        """(lives,) How many polls each has."""
        return self.end - self.start

    def contested(self) -> list[Rows]:
        """The positions of the lives of one series and hour, for each in which some overlap in time."""
        hour = hour_number(self.first)
        order = np.lexsort((self.first, hour, self.sid))
        before = order[:-1]
        after = order[1:]
        is_same = (self.sid[before] == self.sid[after]) & (hour[before] == hour[after])
        overlaps = is_same & (self.first[after] <= self.last[before])
        # Lives of one series and hour have one number: it rises by 1 where they differ.
        group = np.cumsum(~is_same)
        group_of_life = np.append(0, group)
        return [
            order[group_of_life == number]
            for number in np.unique(group[overlaps]).tolist()
        ]

    def main_of(self, rivals: Rows) -> int:
        """The life with most polls; of several about alike the earliest named, so that each hour has the same."""
        polls = self.polls[rivals]
        best = rivals[polls >= ALIKE * polls.max()]
        return int(best[np.argmin(self.inc[best])])

    def is_outside(self, stamp: Stamps, life: int) -> Mask:
        """(stamps,) True before the first poll of a life, and after its last."""
        is_before: Mask = stamp < self.first[life]
        is_after: Mask = stamp > self.last[life]
        return is_before | is_after


# --- histogram


def bins(values: Column) -> NDArray[np.int64]:
    """(values,) The bin of each value: 0 for less than 1, then eight for each doubling."""
    octaves = np.log2(np.maximum(values, 1.0))
    number = 1 + np.floor(BINS_PER_OCTAVE * octaves)
    is_positive = values >= 1
    limited = np.where(is_positive, np.minimum(number, MAX_BINS - 1), 0)
    return limited.astype(np.int64)


def histogram(values: Column, starts: Rows, size: int) -> dict[str, NDArray[Any]]:
    """The bins of each group that hold anything, one group after the other.

    hist_at: (bins of all groups,) the bin; hist_n: how many values it holds; hist_len:
    (groups,) how many bins each group has.
    """
    is_known = ~np.isnan(values)
    group = group_of_rows(starts, size)[is_known]
    # One number for group and bin: so both are counted at once.
    code, counts = np.unique(
        group * MAX_BINS + bins(values[is_known]),
        return_counts=True,
    )
    return {
        "hist_at": code % MAX_BINS,
        "hist_n": counts,
        "hist_len": np.bincount(code // MAX_BINS, minlength=len(starts)),
    }


def percentile(
    numbers: NDArray[np.int64], counts: NDArray[np.int64], share: float
) -> float:
    """The value below which a share of the counted values lies, to a twelfth of itself; NaN without any.

    Args:
        numbers: (bins,) Of bins, see `bins`; one may occur several times.
        counts: (bins,) How many values each holds.
        share: From 0 to 1.
    """
    if not len(numbers):
        return np.nan
    order = np.argsort(numbers)
    so_far = np.cumsum(counts[order])
    position = np.searchsorted(so_far, share * so_far[-1])
    number = float(numbers[order][position])
    if number <= 0:
        return 0.0
    middle = number - 0.5  # bin 1 is from 1 to 2 ** (1 / BINS_PER_OCTAVE)
    return float(2 ** (middle / BINS_PER_OCTAVE))
