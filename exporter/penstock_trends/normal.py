"""What is normal for a queue, out of its hours: the longest silences, and its byte tables. Plain numpy."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column
from penstock.history.listing import GAP_POLLS
from penstock.learned.byte_tables import DAYS, WEEKS, Bytes, packed, unpacked
from penstock.learned.normal import INFLOW, OUTFLOW, lowest
from penstock.learned.profile import COLUMNS, UNKNOWN, QueueProfile
from penstock.learned.service import LOW, SECONDS
from penstock.observation.usual import (
    BACKLOG,
    CLOCK,
    EXPIRED,
    HIGHS,
    KILLED,
    PACE,
    PEAK,
    SERVICE,
)
from penstock.settings.calendar import HOURS, Calendar
from penstock_trends.kernel import HOUR

FEWEST: Final = 10
"""Messages that left in an hour, before a share of them says something."""
SILENCES: Final = ("quiet", "away")
INPUTS: Final = (
    "start", "n", "t0", "t1", "expected", "added", "acknowledged", "expired", "killed", "messages_max", "consumers_sum",
    "peak_max", "pace_max", "service_max", "service_sum", "busy_sum",
    *(f"{name}_{what}" for name in SILENCES for what in ("max", "last", "until_min")),
)  # fmt: skip
Columns = dict[str, NDArray[np.float64]]
HIGHEST: Final = {
    "peak": PEAK, "backlog": BACKLOG, "service": SERVICE, "pace": PACE, "expired": EXPIRED, "killed": KILLED,
}  # fmt: skip
"""Of an hour the highest, as a day has them: see `observation.usual`; shares as 0 to 1."""
SHARES: Final = ("expired", "killed")
ONCE: Final = 2.0
"""Times the service time of the days before, which a day counts at most: what was slow once is not usual by that."""


def profile_of(hour: NDArray[np.int64], columns: Mapping[str, Column]) -> QueueProfile:
    """What is normal by the last four weeks of `hour`: ascending numbers by `Calendar.hour` in UTC.

    columns: those of COLUMNS and HIGHEST that are known, by hour, NaN where an hour is not; until: the seconds of the
    hour when its pause ended; mean_service, windows: seconds of a consumer for a message with a backlog, and how many
    windows had one. A pause that is not given is as long as whole hours show it.
    """
    found = np.zeros((len(COLUMNS), WEEKS, HOURS), np.uint8)
    days = np.zeros((HIGHS, DAYS), np.uint8)
    if not len(hour):
        return QueueProfile(found, days, 0, UNKNOWN)
    last = hour > hour[-1] - WEEKS * HOURS
    hour = hour[last]
    columns = {name: column[last] for name, column in columns.items()}
    pause = columns["pause"] if "pause" in columns else pauses(hour, columns["inflow"])
    for at, name in enumerate(COLUMNS):
        column = pause if name == "pause" else columns.get(name)
        if column is not None:
            found[at, hour // HOURS % WEEKS, hour % HOURS] = packed(
                column + (at in (INFLOW, OUTFLOW))
            )
    day = hour // 24 % DAYS
    of_days = {at: columns[name] for name, at in HIGHEST.items() if name in columns}
    of_days |= {
        HIGHEST[name]: 1000 * columns[name] + 1 for name in SHARES if name in columns
    }
    least = unpacked(lowest(found[INFLOW : INFLOW + 1])[0]) - 1
    until = columns.get("until", np.full(len(hour), 3600.0))
    of_days[CLOCK] = missing(hour, np.nan_to_num(least), pause, until) + 1
    for at, column in of_days.items():
        np.maximum.at(days[at], day, packed(column))
    in_order = np.arange(hour[-1] // 24 - DAYS + 1, hour[-1] // 24 + 1) % DAYS
    days[SERVICE, in_order] = raised_by_steps(days[SERVICE, in_order])
    service = usual_service(
        *(
            columns.get(name, np.zeros(len(hour)))
            for name in ("mean_service", "windows")
        )
    )
    return QueueProfile(found, days, len({*(hour // HOURS).tolist()}), service)


def raised_by_steps(days: Bytes) -> Bytes:
    """Ascending days, each no more than ONCE the highest of those before; the first one than the usual of three."""
    found = days.copy()
    step = int(packed(ONCE)) - 1
    known = np.flatnonzero(days)
    for n, at in enumerate(known):
        highest = (
            found[known[:n]].max()
            if n
            else np.percentile(days[known[:3]], 50, method="lower")
        )
        found[at] = min(int(days[at]), int(highest) + step)
    return found


def usual_service(mean: Column, windows: Column) -> tuple[float, float]:
    """Seconds, the low quantile as the agent learns it of windows, and on how many windows of all hours it rests."""
    order = np.argsort(np.where(windows > 0, mean, np.inf))
    reached = np.cumsum(windows[order])
    if not reached[-1] > 0:
        return UNKNOWN
    return float(mean[order][np.searchsorted(reached, LOW * reached[-1])]), float(
        reached[-1]
    )


def pauses(hour: NDArray[np.int64], inflow: Column) -> Column:
    """Seconds without a message by the end of each hour, as far as whole hours show it."""
    came = np.maximum.accumulate(np.where(inflow > 0, hour, -1))
    known = np.where(came >= 0, (hour - came) * 3600.0, np.nan)
    return np.where(
        inflow > 0, np.minimum(60.0, 7200.0 / np.maximum(inflow, 1.0)), known
    )


def missing(
    hour: NDArray[np.int64], least: Column, pause: Column, until: Column
) -> Column:
    """Messages that should have come in the longest pause of each hour. least: come in each hour of the week."""
    numbers = np.arange(hour[0] - WEEKS * HOURS, hour[-1] + 1)
    came = np.concatenate([[0.0], np.cumsum(least[numbers % HOURS])])
    end = hour - numbers[0] + until / 3600
    begin = np.clip(end - np.nan_to_num(pause) / 3600, 0.0, None)
    grid = np.arange(len(came), dtype=np.float64)
    return np.where(
        np.isnan(pause),
        np.nan,
        np.interp(end, grid, came) - np.interp(begin, grid, came),
    )


def hours_of(rows: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], Columns]:
    """Of a queue's rows: the numbers of the hours that were seen, in UTC, and what `profile_of` takes.

    Lives of its counters within an hour are put together. What came in a gap is left out, as its hour is not known.
    """
    seen = rows["complete"] > 0
    rows = {name: rows[name][seen] for name in INPUTS}
    start, at = np.unique(rows["start"], return_inverse=True)

    def together(how: Any, values: NDArray[Any], begin: float) -> NDArray[np.float64]:
        found = np.full(len(start), begin)
        how.at(found, at, values.astype(np.float64))
        return found

    added, settled, expired, killed, polls, consumers = (
        together(np.add, rows[name], 0.0)
        for name in ("added", "acknowledged", "expired", "killed", "n", "consumers_sum")
    )
    depth, expected = (
        together(np.fmax, rows[name], np.nan) for name in ("messages_max", "expected")
    )
    first = together(np.fmin, rows["t0"], np.nan)
    last = together(np.fmax, rows["t1"], np.nan)
    longest_step = GAP_POLLS * HOUR / np.maximum(expected, 1.0)
    new = ~(first - np.append(np.nan, last[:-1]) <= longest_step)[: len(start)]

    def silences(
        name: str, ended: NDArray[np.bool_], hidden: Any, new: NDArray[np.bool_]
    ) -> tuple[Column, Column]:
        until = together(np.fmin, rows[f"{name}_until_min"], np.nan)
        until = np.where(
            ended & (until >= HOUR), 0.0, until
        )  # between two hours: it is seen by the count alone
        most = together(np.fmax, rows[f"{name}_max"], np.nan)
        since = together(np.fmax, rows["t1"] - rows[f"{name}_last"], np.nan) - start
        return longest(
            start,
            new,
            ended | (until < HOUR),
            Silences(until, most, since).or_hidden(HOUR * hidden),
        )

    unknown = np.isnan(
        added
    )  # whether a silence ended in them is not known, nor what was before the next hour
    after_unknown = np.append(False, unknown[:-1])[: len(start)]

    absent = np.where(
        depth > 0, np.maximum(1 - consumers / np.maximum(polls, 1.0), 0.0), 0.0
    )
    starts_unknown = new | unknown | after_unknown
    pause, until = silences("quiet", added > 0, 1.0, starts_unknown)
    absence, _ = silences("away", absent < 1, absent, new)
    left = settled + expired + killed
    enough = np.where(left >= FEWEST, left, np.nan)
    peak, pace, slowest = (
        together(np.fmax, rows[f"{name}_max"], np.nan)
        for name in ("peak", "pace", "service")
    )
    spent, busy = (
        together(np.add, np.nan_to_num(rows[name]), 0.0)
        for name in ("service_sum", "busy_sum")
    )
    columns = {
        "inflow": added,
        "outflow": settled,
        "pause": pause,
        "until": until,
        "absence": np.maximum(absence, 1.0),
        "backlog": depth,
        # All of an hour may have gone within five minutes.
        "expired": np.fmin(12 * expired / enough, 1.0),
        "killed": np.fmin(12 * killed / enough, 1.0),
        "peak": peak,
        "pace": HOUR * pace,
        "service": 1000 * slowest,
        "mean_service": spent / np.where(busy > 0, busy, np.nan),
        "windows": busy * HOUR / SECONDS / np.maximum(expected, 1.0),
    }
    return start.astype(np.int64) // HOUR + Calendar().hour(0), columns


class Silences(NamedTuple):
    """Of each hour, in seconds of it: until when the first silence lasted (HOUR: no end was seen), how long the longest
    was, and when the last one began. NaN in days that an older kernel made.
    """

    until: Column
    most: Column
    since: Column

    def or_hidden(self, seconds: Any) -> "Silences":
        """Where they are not known as long as so many seconds of the hour allow."""
        missing = np.isnan(self.until)
        guesses = zip(self, (seconds, seconds, HOUR - seconds), strict=True)
        return Silences(*(np.where(missing, guess, known) for known, guess in guesses))


def longest(
    start: NDArray[Any], new: NDArray[np.bool_], ended: NDArray[np.bool_], of: Silences
) -> tuple[Column, Column]:
    """The longest silence of each hour, which may have begun in hours before, and until when in the hour it lasted; in
    seconds, NaN where it began before what was seen. new: nothing is known of what was before; ended: one ended in it.
    """
    row = np.arange(len(start))
    run = np.maximum.accumulate(np.where(new, row, 0))
    known = np.append(-1, np.maximum.accumulate(np.where(ended, row, -1)))[: len(start)]
    begin = np.where(known >= run, (start + of.since)[known], np.nan) - start
    found = np.where(ended, np.maximum(of.most, of.until - begin), HOUR - begin)
    return found, np.where(ended & (of.until - begin >= of.most), of.until, HOUR)
