"""What is normal for a queue, made of its hours: the longest silences, and its byte tables. Plain numpy.

A profile is two tables of bytes: one of the last four weeks by hour of the week, and one of the last days with the
highest value of each day. A byte holds a number by its logarithm (`byte_tables.packed`), and 0 where it is not known.

A silence is a time without an event: `quiet` is one without a message that comes (its length is a pause), `away` one in
which messages had no consumer (its length is an absence). A silence may have begun hours before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
WINDOWS_AN_HOUR: Final = 12
"""A share is judged over five minutes: all of an hour may have left within one such window."""
SILENCES: Final = ("quiet", "away")
INPUTS: Final = (
    "start", "n", "t0", "t1", "expected", "added", "acknowledged", "expired", "killed", "messages_max", "consumers_sum",
    "peak_max", "pace_max", "service_max", "service_sum", "busy_sum",
    *(f"{name}_{what}" for name in SILENCES for what in ("max", "last", "until_min")),
)  # fmt: skip
Columns = dict[str, NDArray[np.float64]]
Hours = NDArray[np.int64]
Mask = NDArray[np.bool_]
HIGHEST: Final = {
    "peak": PEAK, "backlog": BACKLOG, "service": SERVICE, "pace": PACE, "expired": EXPIRED, "killed": KILLED,
}  # fmt: skip
"""Column → its place in the table of days, which has the highest of each day (see `observation.usual`)."""
SHARES: Final = ("expired", "killed")
"""Columns from 0 to 1; the table of days has them in thousandths."""
ONCE: Final = 2.0
"""Times the service time of the days before, which a day counts at most: one slow day does not change the usual."""
FAST_PAUSE: Final = 60.0
"""Longest pause, in seconds, that is taken for granted in an hour with messages."""


def profile_of(hour: Hours, columns: Mapping[str, Column]) -> QueueProfile:
    """The profile of a queue, made of the last four weeks up to the last hour; empty without any hour.

    Args:
        hour: (hours,) Ascending numbers by `Calendar.hour` in UTC.
        columns: Those of COLUMNS and HIGHEST that are known, (hours,) each; NaN where
            an hour is not known. Further ones: `until`, the second of the hour at which
            its pause ended; `mean_service`, seconds of a consumer for a message with a
            backlog; `windows`, how many windows had a backlog. Without `pause` a pause
            is as long as whole hours show it.
    """
    by_hour = np.zeros((len(COLUMNS), WEEKS, HOURS), np.uint8)
    by_day = np.zeros((HIGHS, DAYS), np.uint8)
    if not len(hour):
        return QueueProfile(by_hour, by_day, weeks=0, service=UNKNOWN)
    is_recent = hour > hour[-1] - WEEKS * HOURS
    hour = hour[is_recent]
    columns = {name: column[is_recent] for name, column in columns.items()}
    if "pause" not in columns:
        columns["pause"] = pauses(hour, columns["inflow"])
    fill_hours(by_hour, hour, columns)
    fill_days(by_day, hour, columns, least_inflow(by_hour))
    nothing = np.zeros(len(hour))
    return QueueProfile(
        by_hour,
        by_day,
        weeks=len(np.unique(hour // HOURS)),
        service=usual_service(
            columns.get("mean_service", nothing),
            columns.get("windows", nothing),
        ),
    )


def fill_hours(by_hour: Bytes, hour: Hours, columns: Mapping[str, Column]) -> None:
    """Write each column into its table of hours, in place: one row for each of the four weeks, used in turn.

    A byte of 0 means "not known", so counts of messages are stored as 1 more.
    """
    week = hour // HOURS % WEEKS
    hour_of_week = hour % HOURS
    for number, name in enumerate(COLUMNS):
        if name in columns:
            offset = 1 if number in (INFLOW, OUTFLOW) else 0
            by_hour[number, week, hour_of_week] = packed(columns[name] + offset)


def least_inflow(by_hour: Bytes) -> Column:
    """(HOURS,) The fewest messages that came in each hour of the week; 0 where nothing is known."""
    inflow_alone = by_hour[INFLOW : INFLOW + 1]  # `lowest` takes several tables
    least = unpacked(lowest(inflow_alone)[0])
    return np.nan_to_num(least - 1)  # stored as 1 more


def fill_days(
    by_day: Bytes,
    hour: Hours,
    columns: Mapping[str, Column],
    least: Column,
) -> None:
    """Write the highest value of each day into the table of days, in place.

    CLOCK has the most messages that were missing in a pause, see `missing`. Service
    times rise by steps only, see `raised_by_steps`.

    least: see `least_inflow`.
    """
    end_of_hour = np.full(len(hour), float(HOUR))
    until = columns.get("until", end_of_hour)
    highest = highest_columns(columns)
    highest[CLOCK] = missing(hour, least, columns["pause"], until) + 1
    day = hour // 24
    for place, column in highest.items():
        np.maximum.at(by_day[place], day % DAYS, packed(column))
    # The table is used in turn: these places are its days from the oldest to the newest.
    first_day = day[-1] - DAYS + 1
    ascending = np.arange(first_day, day[-1] + 1) % DAYS
    by_day[SERVICE, ascending] = raised_by_steps(by_day[SERVICE, ascending])


def highest_columns(columns: Mapping[str, Column]) -> dict[int, Column]:
    """The columns by their place in the table of days; shares in thousandths and 1 more, as 0 means "not known"."""
    by_place = {}
    for name, place in HIGHEST.items():
        if name in columns:
            column = columns[name]
            by_place[place] = 1000 * column + 1 if name in SHARES else column
    return by_place


def raised_by_steps(days: Bytes) -> Bytes:
    """(days,) The days, each at most ONCE times as high as the highest day before it.

    So one slow day does not change what is usual. The first day is at most ONCE times
    as high as the median of the first three, as it has none before it.

    days: (days,) Ascending, packed; 0 where nothing is known.
    """
    raised = days.copy()
    with_number = np.flatnonzero(days).tolist()
    if not with_number:
        return raised
    # Bytes are logarithms: to add a step to a byte is to multiply its number by ONCE. 1 is the byte of the number 1.
    step = int(packed(ONCE)) - 1
    first, *later = with_number
    first_three = days[with_number[:3]]
    median = int(np.percentile(first_three, 50, method="lower"))
    raised[first] = min(int(days[first]), median + step)
    for day in later:
        highest = int(raised[:day].max())
        raised[day] = min(int(days[day]), highest + step)
    return raised


def usual_service(mean: Column, windows: Column) -> tuple[float, float]:
    """Seconds that a consumer usually takes for a message, and the number of windows that this rests on.

    A window is a span of SECONDS seconds in which consumers had enough to do. The usual
    time is the one that a share of LOW of all windows do not exceed, as the agent learns
    it; each window counts with the mean of its hour. UNKNOWN without windows.

    Args:
        mean: (hours,) Seconds in each hour.
        windows: (hours,) Windows with a backlog in each hour.
    """
    order = np.argsort(
        np.where(windows > 0, mean, np.inf)
    )  # hours without windows last
    windows_so_far = np.cumsum(windows[order])
    total = windows_so_far[-1]
    if not total > 0:
        return UNKNOWN
    quantile = np.searchsorted(windows_so_far, LOW * total)
    return float(mean[order][quantile]), float(total)


def pauses(hour: Hours, inflow: Column) -> Column:
    """(hours,) The longest pause of each hour, in seconds, as far as whole hours show it; NaN before the first message.

    In an hour without messages it is the time since the last hour with some. In an hour
    with messages it is twice their mean distance, but at most FAST_PAUSE.
    """
    has_inflow = inflow > 0
    last_inflow = np.maximum.accumulate(np.where(has_inflow, hour, -1))
    idle = np.where(
        last_inflow >= 0,
        (hour - last_inflow) * 3600.0,
        np.nan,
    )
    twice_the_mean = 7200.0 / np.maximum(inflow, 1.0)
    return np.where(
        has_inflow,
        np.minimum(FAST_PAUSE, twice_the_mean),
        idle,
    )


def missing(hour: Hours, least: Column, pause: Column, until: Column) -> Column:
    """(hours,) Messages that should have come in the longest pause of each hour; NaN where no pause is known.

    That is what at least comes in the hours of the week that the pause covers; of an
    hour that it covers in part, that part.

    Args:
        hour: (hours,) Ascending numbers.
        least: (HOURS,) Messages that come in each hour of the week at least.
        pause: (hours,) Seconds.
        until: (hours,) The second of the hour at which the pause ended.
    """
    first = (
        hour[0] - WEEKS * HOURS
    )  # a pause may have begun so long before the first hour
    numbers = np.arange(first, hour[-1] + 1)
    so_far = np.concatenate(
        [
            [0.0],
            np.cumsum(least[numbers % HOURS]),
        ]
    )
    hours_so_far = np.arange(len(so_far), dtype=np.float64)
    end = hour - first + until / 3600
    begin = np.clip(end - np.nan_to_num(pause) / 3600, 0.0, None)
    by_end = np.interp(end, hours_so_far, so_far)
    by_begin = np.interp(begin, hours_so_far, so_far)
    return np.where(np.isnan(pause), np.nan, by_end - by_begin)


# --- from hourly rows


def hours_of(rows: Mapping[str, NDArray[Any]]) -> tuple[Hours, Columns]:
    """(hours,) The numbers of the hours of a queue of which enough was seen; and the columns that `profile_of` takes.

    Several lives of its counters within an hour (the broker restarted) are put
    together. Messages that came in a gap are left out, as their hour is not known.

    rows: the columns of INPUTS and `complete`, (rows,) each.
    """
    hours = SeenHours.of_rows(rows)
    pause, until = hours.pauses()
    columns = {
        "inflow": hours.total("added"),
        "outflow": hours.total("acknowledged"),
        "pause": pause,
        "until": until,
        "absence": hours.absences(),
        "backlog": hours.highest("messages_max"),
    }
    columns |= failure_columns(hours)
    columns |= speed_columns(hours)
    number = hours.start.astype(np.int64) // HOUR
    return number + Calendar().hour(0), columns


def failure_columns(hours: "SeenHours") -> Columns:
    """(hours,) The highest shares of the messages that left which expired or were killed, see `highest_share`."""
    settled = hours.total("acknowledged")
    expired = hours.total("expired")
    killed = hours.total("killed")
    left = settled + expired + killed
    return {
        "expired": highest_share(expired, left),
        "killed": highest_share(killed, left),
    }


def speed_columns(hours: "SeenHours") -> Columns:
    """(hours,) How fast messages come and consumers settle them, as `profile_of` takes it."""
    spent = hours.known_total("service_sum")
    busy = hours.known_total("busy_sum")
    mean_service = spent / np.where(busy > 0, busy, np.nan)
    windows = busy * HOUR / SECONDS / hours.expected_polls()
    return {
        "peak": hours.highest("peak_max"),
        "pace": HOUR * hours.highest("pace_max"),
        "service": 1000 * hours.highest("service_max"),
        "mean_service": mean_service,
        "windows": windows,
    }


def highest_share(part: Column, left: Column) -> Column:
    """(hours,) The highest share that a part may have had within a window of five minutes, at most 1.

    All of the part may have left in one window of WINDOWS_AN_HOUR, and the rest evenly.
    NaN where fewer than FEWEST messages left.

    part, left: (hours,) messages of the part, and all that left.
    """
    enough = np.where(left >= FEWEST, left, np.nan)
    return np.fmin(WINDOWS_AN_HOUR * part / enough, 1.0)


def of_row_before(values: NDArray[Any], first: float) -> NDArray[Any]:
    """(rows,) The value of the row before each; `first` for the first row."""
    before = np.full_like(values, first)
    before[1:] = values[:-1]
    return before


@dataclass(frozen=True, slots=True)
class SeenHours:
    """The rows of a queue by hour, of hours of which enough was seen.

    Attributes:
        rows: The columns of INPUTS, (rows,) each.
        start: (hours,) Begin of each hour, ascending.
        hour_of_row: (rows,) Index of the hour of each row.
    """

    rows: Mapping[str, NDArray[Any]]
    start: NDArray[Any]
    hour_of_row: NDArray[np.intp]

    @classmethod
    def of_rows(cls, rows: Mapping[str, NDArray[Any]]) -> "SeenHours":
        """The hours of a queue. rows: the columns of INPUTS, and `complete`: above 0 where enough was seen."""
        is_seen = rows["complete"] > 0
        seen = {name: rows[name][is_seen] for name in INPUTS}
        start, hour_of_row = np.unique(seen["start"], return_inverse=True)
        return cls(seen, start, hour_of_row)

    def total(self, name: str) -> Column:
        """(hours,) The sum of a column; NaN where a row does not know it."""
        return self._by_hour(np.add, self.rows[name], 0.0)

    def known_total(self, name: str) -> Column:
        """(hours,) The sum of a column over the rows that know it."""
        return self._by_hour(np.add, np.nan_to_num(self.rows[name]), 0.0)

    def highest(self, name: str) -> Column:
        """(hours,) The highest known value of a column; NaN without any."""
        return self._by_hour(np.fmax, self.rows[name], np.nan)

    def lowest(self, name: str) -> Column:
        """(hours,) The lowest known value of a column; NaN without any."""
        return self._by_hour(np.fmin, self.rows[name], np.nan)

    def _by_hour(self, merge: np.ufunc, values: NDArray[Any], begin: float) -> Column:
        """(hours,) The values of the rows of each hour, merged one after the other, starting with `begin`."""
        merged = np.full(len(self.start), begin)
        merge.at(merged, self.hour_of_row, values.astype(np.float64))
        return merged

    def expected_polls(self) -> Column:
        """(hours,) Polls that an hour should have, at least 1."""
        return np.maximum(self.highest("expected"), 1.0)

    def follows_gap(self) -> Mask:
        """(hours,) True where the time just before the hour was not seen: the last poll was too long ago, or none."""
        first_poll = self.lowest("t0")
        last_poll_before = of_row_before(self.highest("t1"), np.nan)
        longest_step = GAP_POLLS * HOUR / self.expected_polls()
        is_near: Mask = first_poll - last_poll_before <= longest_step
        return ~is_near

    def pauses(self) -> tuple[Column, Column]:
        """(hours,) Seconds of the longest pause of input in each hour, and the second at which it ended.

        NaN where the pause may have begun before all that was seen. In an hour in which
        the counter is not known a pause may have ended, so the hour and the next one begin
        anew like the first.
        """
        added = self.total("added")
        is_unknown = np.isnan(added)
        is_first = self.follows_gap() | is_unknown | of_row_before(is_unknown, False)
        has_ended = added > 0
        whole_hour = np.full(len(added), float(HOUR))
        silences = self._silences("quiet", has_ended, whole_hour)
        return longest(self.start, is_first, silences)

    def absences(self) -> Column:
        """(hours,) Seconds of the longest time in each hour for which messages had no consumer; at least 1.

        For hours that do not know their silences, the share of the time without a consumer
        follows from the mean number of consumers.
        """
        consumers = self.total("consumers_sum") / np.maximum(self.total("n"), 1.0)
        absent_share = np.where(
            self.highest("messages_max") > 0,
            np.maximum(1 - consumers, 0.0),
            0.0,
        )
        has_ended = absent_share < 1
        silences = self._silences("away", has_ended, HOUR * absent_share)
        seconds, _ = longest(self.start, self.follows_gap(), silences)
        return np.maximum(seconds, 1.0)

    def _silences(self, name: str, has_ended: Mask, hidden: Column) -> "Silences":
        """The silences of one kind in each hour.

        Args:
            name: One of SILENCES.
            has_ended: (hours,) True where other columns show that a silence ended.
            hidden: (hours,) Seconds of silence that are assumed in an hour whose rows do
                not know their silences.
        """
        until = self.lowest(f"{name}_until_min")
        # Its end lay between the last poll before the hour and the first poll in it: only the counter shows it.
        until = np.where(has_ended & (until >= HOUR), 0.0, until)
        begin = self.rows["t1"] - self.rows[f"{name}_last"]
        last_begin = self._by_hour(np.fmax, begin, np.nan) - self.start
        is_unknown = np.isnan(until)
        most = self.highest(f"{name}_max")
        return Silences(
            has_ended=has_ended | (until < HOUR),
            until=np.where(is_unknown, hidden, until),
            longest=np.where(is_unknown, hidden, most),
            last_begin=np.where(is_unknown, HOUR - hidden, last_begin),
        )


@dataclass(frozen=True, slots=True)
class Silences:
    """The silences of each hour; (hours,) columns, times in seconds from the begin of the hour.

    Hours that an older kernel made do not know them: there they are as long as the rest
    of the hour allows.

    Attributes:
        has_ended: Whether a silence ended in the hour.
        until: When the first silence ended; HOUR: no end was seen.
        longest: Length of the longest silence that began and ended in the hour.
        last_begin: When the last silence began.
    """

    has_ended: Mask
    until: Column
    longest: Column
    last_begin: Column


def longest(
    start: NDArray[Any], is_first: Mask, silences: Silences
) -> tuple[Column, Column]:
    """(hours,) Seconds of the longest silence of each hour, and the second of the hour at which it ended.

    It is the silence with which the hour begins, which may have begun in hours before,
    or one within the hour. NaN where it began before all hours that were seen.

    Args:
        start: (hours,) Seconds since 1970.
        is_first: (hours,) True where nothing is known of the time before the hour.
        silences: Of each hour.
    """
    begin = begin_of_first(start, is_first, silences)
    length_of_first = silences.until - begin
    seconds = np.where(
        silences.has_ended,
        np.maximum(silences.longest, length_of_first),
        HOUR - begin,  # it goes on at the end of the hour
    )
    first_is_longest = silences.has_ended & (length_of_first >= silences.longest)
    return seconds, np.where(first_is_longest, silences.until, HOUR)


def begin_of_first(start: NDArray[Any], is_first: Mask, silences: Silences) -> Column:
    """(hours,) The begin of the silence that goes on when each hour begins, in seconds after that: 0 or negative.

    It is the last silence of the last hour before in which one ended. A run is a row of
    hours without a gap; NaN where the silence may have begun before the run.
    """
    hour = np.arange(len(start))
    first_of_run = np.maximum.accumulate(np.where(is_first, hour, 0))
    last_with_end = np.maximum.accumulate(np.where(silences.has_ended, hour, -1))
    begun_in = of_row_before(last_with_end, -1)  # the index of an hour, or -1
    last_begin = start + silences.last_begin
    begin = np.where(
        begun_in >= first_of_run,
        last_begin[begun_in],
        np.nan,
    )
    second: Column = begin - start
    return second
