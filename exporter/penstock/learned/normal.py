"""
What is normal for a queue at this hour of the week: rates, pauses, absences; and the highest of the last 28 days.

Learned hour by hour in a byte a number (`byte_tables`), or made from history; the better founded of both counts. Once
three weeks are known, what went beyond what was expected is learned as that: a fault raises a limit once by its factor,
a change in some weeks. A gap in the polls, maintenance and holidays teach nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Positions
from penstock.learned.byte_tables import (
    WEEKS,
    Bytes,
    ByteTables,
    QueueName,
    packed,
    unpacked,
)
from penstock.learned.service import ServiceTime
from penstock.model import QueueKind, QueueRow
from penstock.observation.activity import TREND_EXPIRED, TREND_KILLED, Activity, Trend
from penstock.observation.facts import Facts, or_zero
from penstock.observation.unacked import QueueTimers
from penstock.observation.usual import (
    CLOCK,
    EXPIRED,
    HIGHS,
    KILLED,
    PACE,
    PEAK,
    SERVICE,
    SOME_WEEKS,
    Expected,
    Usual,
    unusual_share,
)
from penstock.series.totals import dormant_capacity
from penstock.settings.calendar import HOURS, SUNDAY, Calendar

INFLOW, OUTFLOW, PAUSE = range(3)
"""By hour: messages + 1, and the longest pause in seconds (how long nothing had come, not where that began)."""
FLOWS = ByteTables.of(3, HIGHS)
ABSENCES = ByteTables.of(1, 0)
GAP = 60.0
GAP_POLLS = 3
"""A longer time between two polls is a gap, seconds and polls."""
LEAST_OF_HOUR = 1800.0
"""Seconds of an hour that must have been seen."""
LONG_ABSENCE = 300.0
"""Seconds; queues that never had a longer absence have no table of them."""
FEWEST = 10
"""Messages that left in five minutes, before a share of them is looked at."""
BETTER = 0.8
LEAST_HOURS = 72
"""What was learned replaces a profile from history when its error is so many times that one's, after so many hours."""
LONG = 7200.0
MARGIN = 5400.0
"""Seconds: what usually lasts so long may last so much longer: late jobs, and clocks that are set."""
REGULAR = 0.1
REGULAR_PAUSE = 1800.0
"""The longest pauses of all weeks are alike by this share, and longer than this: a regular rhythm."""
ALIKE = 0.7
"""Where they are no longer than LONG, each hour has one of this share: the longest of some are alike by chance."""


class Profile(NamedTuple):
    """What is normal, from history: see `penstock.learned.profile`. service: (2, columns of flows), the usual service
    time and its windows. weeks: on how many it rests.
    """

    flows: ByteTables
    absences: ByteTables
    service: NDArray[np.float64]
    weeks: int

    def by_wall_clock(self, now: float, calendar: Calendar) -> "Profile":
        """Of the last weeks before now (seconds since 1970), which are by UTC; without holidays."""
        utc = Calendar().hour(now) - np.arange(WEEKS * HOURS, 0, -1)
        flows = []
        absences = []
        for second in (
            1799.0,
            0.0,
            3599.0,
        ):  # where zones are half an hour off, a pause is one of both hours
            local = np.array(
                [
                    calendar.hour(3600.0 * one + second)
                    for one in (utc - Calendar().hour(0)).tolist()
                ]
            )
            works = np.array([not calendar.is_holiday(one) for one in local.tolist()])
            flows.append(self.flows.moved(utc[works], local[works]))
            absences.append(self.absences.moved(utc[works], local[works]))
        flows[0].hours[PAUSE] = np.maximum(*(one.hours[PAUSE] for one in flows[1:]))
        absences[0].hours[:] = np.maximum(*(one.hours for one in absences[1:]))
        return self._replace(flows=flows[0], absences=absences[0])


@dataclass(frozen=True, slots=True)
class Normal(RowState):
    """Per queue. began: when its first message was seen; arrival: the last one, or the end of a gap since. clock: the
    messages that should have come since. counts, pause, absent: of this hour. today: the highest, as in `highs`.
    errors: mean of |log| of what was learned and of history against what came; hours: of how many.
    """

    BY = By.QUEUE
    STORED_AS = "normal_"
    began: Column = column(outlives=True)
    arrival: Column = column(outlives=True)
    clock: Column = column(0.0)
    counts: NDArray[np.float64] = column(0.0, lines=2, saved=False)
    pause: Column = column(saved=False)
    absent: Column = column(1.0, saved=False)
    longest: Column = column(outlives=True)
    """Pause that ended, or that a gap cut, of all."""
    today: NDArray[np.float64] = column(lines=HIGHS, outlives=True)
    errors: NDArray[np.float64] = column(lines=2, outlives=True)
    hours: Column = column(0.0, outlives=True)
    shares: NDArray[np.float64] = column(lines=2, saved=False, carried=False)
    """Of what left in five minutes: expired, killed."""
    place: NDArray[np.intp] = column(-1, dtype=np.intp, outlives=True, saved=False)
    """Of the queue in `flows`."""
    flows: ByteTables = unindexed(lambda: FLOWS)
    absences: ByteTables = unindexed(lambda: ABSENCES)
    history: Profile | None = unindexed(lambda: None)
    past: Profile | None = unindexed(lambda: None)
    """That history by the wall clock of the zone."""
    expected: Expected = unindexed(Expected)
    hour: int = unindexed(lambda: -1)
    """The present one, and the last one that was learned, by `Calendar.hour`."""
    told: int = unindexed(lambda: -1)
    seconds: float = unindexed(float)
    """Of this hour, that were seen."""
    gap: float = unindexed(lambda: -np.inf)
    """When the last gap in the polls ended."""
    holiday_end: float = unindexed(lambda: -np.inf)
    """Of the last one that has begun: a pause that it lies in breaks no rhythm."""
    capacity: int = unindexed(int)

    def advance(
        self, found: Facts, step: float, timers: QueueTimers, activity: Activity, trend: Trend, service: ServiceTime,
        calendar: Calendar,
    ) -> "Normal":  # fmt: skip
        """step: seconds since the poll before, NaN where there was none."""
        fresh = found.queues.new_since(self.index)
        one = self.reindexed(found.queues, found.known).placed(found, fresh)
        hour = calendar.hour(found.now)
        if hour > one.hour:
            if one.hour < 0:
                one = replace(
                    one,
                    past=one.history and one.history.by_wall_clock(found.now, calendar),
                )
            one = replace(one, holiday_end=calendar.last_holiday(found.now)).closed(
                hour, calendar
            )
        one = replace(one, expected=one.expected.reindexed(found.queues))
        if (one.place[fresh] >= 0).any():  # known from before, or from history
            one = replace(one, expected=one.expected_at(hour, calendar))
        watched = 0 < step <= max(
            GAP, GAP_POLLS * found.interval
        ) and not calendar.in_maintenance(found.now)
        if (
            not watched
        ):  # what came, and when, is not known: the pause was as long as it was before
            longest = np.fmax(
                one.longest, found.now - (0 if np.isnan(step) else step) - one.arrival
            )
            return replace(
                one,
                arrival=np.where(one.place < 0, np.nan, found.now),
                longest=longest,
                gap=found.now,
            )
        return one.counted(found, step).measured(
            found, timers, activity, trend, service
        )

    def placed(self, found: Facts, fresh: Positions) -> "Normal":
        """With places for the queues that get messages and have none yet, and for `fresh` ones that are known."""
        rows = found.queues.rows
        known = (self.flows.names, self.history.flows.names if self.history else {})
        fresh = np.arange(len(rows)) if self.hour < 0 else fresh
        back = [
            i
            for i in fresh.tolist()
            if self.place[i] < 0 and any(name_of(rows[i]) in names for names in known)
        ]
        followed = found.queues.column("followed", is_followed) > 0
        comes = np.flatnonzero(
            found.known & (found.d_added > 0) & followed & (self.place < 0)
        )
        if not back and not len(comes):
            return self
        new = np.union1d(comes, np.array(back, np.intp))
        joined = [name_of(row) for row in rows[new]]
        flows = self.flows.joined_by(joined)
        place = self.place.copy()
        arrival = self.arrival.copy()
        place[new] = flows.places(joined)
        arrival[new] = np.where(np.isnan(arrival[new]), found.now, arrival[new])
        return replace(self, flows=flows, place=place, arrival=arrival)

    def counted(self, found: Facts, step: float) -> "Normal":
        """With what came and went since the poll before, `step` seconds ago."""
        age = found.now - self.arrival
        arrives = found.known & (found.address.d_added > 0)
        clock = self.clock + step * or_zero(self.expected.low)
        today = self.today.copy()
        missed = self.learnable(clock + 1, self.expected.highs[CLOCK] * 2 + 3)
        today[CLOCK] = np.fmax(
            today[CLOCK], np.where(arrives & (self.expected.weeks > 0), missed, np.nan)
        )
        placed = arrives & (self.place >= 0)
        return replace(
            self,
            began=np.where(placed, np.fmin(self.began, found.now), self.began),
            arrival=np.where(placed, found.now, self.arrival),
            clock=np.where(arrives, 0.0, clock),
            counts=self.counts
            + np.stack([or_zero(found.d_added), or_zero(found.d_settled)]),
            pause=np.fmax(self.pause, age),
            longest=np.where(arrives, np.fmax(self.longest, age), self.longest),
            today=today,
            seconds=self.seconds + step,
        )

    def measured(
        self,
        found: Facts,
        timers: QueueTimers,
        activity: Activity,
        trend: Trend,
        service: ServiceTime,
    ) -> "Normal":
        """With the highest of what five minutes say; no more than what raises a condition."""
        limits = self.expected.highs
        today = self.today.copy()
        whole = found.now - self.gap >= trend.seconds + found.interval
        shares = np.where(whole, shares_of_five_minutes(activity, trend), np.nan)
        at = np.flatnonzero(~np.isnan(shares[0]))
        for line, share in zip((EXPIRED, KILLED), shares[:, at], strict=True):
            unusual = 1000 * unusual_share(limits[line, at]) + 1
            today[line, at] = np.fmax(
                today[line, at], limited(1000 * share + 1, unusual)
            )
        slow = limited(1000 * service.now, 2 * limits[SERVICE])
        most = (
            300 * trend.rate_in,
            slow,
            3600 * service.pace,
            found.messages - or_zero(found.scheduled),
        )
        for line, values in zip(today[PEAK:], most, strict=True):
            np.fmax(line, values, out=line)
        since = np.maximum(timers.ready, timers.absent)
        away = np.where(
            since < self.holiday_end, np.nan, or_zero(found.now - since)
        )  # longer by it than usual
        return replace(
            self, today=today, shares=shares, absent=np.maximum(self.absent, away)
        )

    def usual(self, service: ServiceTime) -> Usual:
        """As the rules read it."""
        numbers = (
            self.began,
            self.arrival,
            self.longest,
            self.clock,
            self.shares,
            self.holiday_end,
        )
        pace = np.fmax(self.expected.highs[PACE], self.today[PACE])
        usual = service.usual
        windows = service.windows
        if self.past is not None:
            past = self.expected.service
            usual, windows = np.where(
                past[1] > windows, past, np.stack([usual, windows])
            )
        return Usual(self.expected, *numbers, service.now, usual, windows, pace)

    def learnable(self, values: Column, limit: Column) -> Column:
        """No more than the limit, once that rests on some weeks: before, what looks unusual may be usual."""
        return limited(
            values, np.where(self.expected.weeks >= SOME_WEEKS, limit, np.nan)
        )

    # --- at the end of an hour

    def closed(self, hour: int, calendar: Calendar) -> "Normal":
        """With what the last hour taught, and what is expected in the one that begins."""
        one = self
        if (
            self.hour >= 0
            and self.seconds >= LEAST_OF_HOUR
            and not calendar.is_holiday(self.hour)
        ):
            one = self.taught()
        if hour // 24 != max(one.hour, one.told) // 24:
            one = replace(one.forgetting(), today=np.full_like(one.today, np.nan))
        size = len(one.index)
        begun: dict[str, Any] = {
            "counts": np.zeros((2, size)),
            "pause": np.full(size, np.nan),
            "absent": np.ones(size),
        }
        return replace(
            one,
            hour=hour,
            expected=one.expected_at(hour, calendar),
            seconds=0.0,
            **begun,
        )

    def taught(self) -> "Normal":
        at = np.flatnonzero(self.place >= 0)
        expected = self.expected
        rates = self.counts * (3600 / self.seconds)
        pause = self.learnable(np.fmax(self.pause, 1.0), expected.silence)
        values = packed(np.stack([*(rates + 1), pause]))[:, at]
        place = self.place[at]
        since = self.told if self.told >= 0 else self.hour - 1
        flows = self.flows.with_hour(self.hour, place, values, since=since)
        flows = flows.with_day(
            self.hour // 24, place, packed(self.today)[:, at], since=since // 24
        )
        away = limited(self.absent, expected.absence)
        names = [
            name_of(row)
            for row in self.index.rows[np.flatnonzero(self.absent > LONG_ABSENCE)]
        ]
        absences = self.absences.joined_by(names)
        if absences.names:
            there = absences.places(map(name_of, self.index.rows))
            has = np.flatnonzero(there >= 0)
            absences = absences.with_hour(
                self.hour, there[has], packed(away[has])[None], since=since
            )
        with np.errstate(invalid="ignore"):
            error = np.abs(np.log((rates[INFLOW] + 1) / (expected.guesses + 1)))
        known = ~np.isnan(error[0])
        weight = np.maximum(1 / HOURS, 1 / (self.hours + 1))
        mean = np.where(
            np.isnan(self.errors), error, self.errors + weight * (error - self.errors)
        )
        errors = np.where(np.isnan(error), self.errors, mean)
        return replace(
            self,
            flows=flows,
            absences=absences,
            told=self.hour,
            errors=errors,
            hours=self.hours + known,
        )

    def forgetting(self) -> "Normal":
        """Without queues that are gone for long, or are too many."""
        here = [name_of(row) for row in self.index.rows]
        capacity = dormant_capacity(self.capacity, len(self.index))
        most = len(here) + capacity
        flows = self.flows.without_unused(here, most)
        absences = self.absences.without_unused(here, most)
        place = self.place if flows is self.flows else flows.places(here)
        return replace(
            self, flows=flows, absences=absences, place=place, capacity=capacity
        )

    def expected_at(self, hour: int, calendar: Calendar) -> Expected:
        """In this hour, which may be one of a holiday."""
        expected = self.expect(hour)
        return (
            expected.more_lenient(self.expect(SUNDAY + hour % 24))
            if calendar.is_holiday(hour)
            else expected
        )

    def expect(self, hour: int) -> Expected:
        """In this hour of the week."""
        size = len(self.index)
        day = hour // 24
        own = self.flows.around(hour, self.place)
        days = self.flows.highest(day, self.place)
        names = (
            [name_of(row) for row in self.index.rows]
            if self.past or self.absences.names
            else []
        )
        away = self.absences.around(
            hour, self.absences.places(names) if names else np.full(size, -1)
        )
        for one in (own, away):  # what goes on since an hour is no excuse for itself
            one[:, (hour - 1) // HOURS % WEEKS, 0] = 0
        known = np.count_nonzero(own[PAUSE, :, 1], axis=0)
        pauses = own[PAUSE]
        rates = own[:PAUSE, :, 1]
        from_history = np.zeros(size, np.bool_)
        guesses = np.stack([middle(own[INFLOW, :, 1]), np.full(size, np.nan)])
        weeks = known
        service = np.full((2, size), np.nan)
        if self.past is not None:
            at = self.past.flows.places(names)
            past_away = self.past.absences
            past = self.past.flows.around(hour, at)
            young = (
                known < SOME_WEEKS
            )  # of limits the higher one: one that is too high costs time, not trust
            pauses = np.where(young, np.maximum(pauses, past[PAUSE]), pauses)
            away = np.where(
                young,
                np.maximum(away, past_away.around(hour, past_away.places(names))),
                away,
            )
            days = np.where(
                young, np.maximum(days, self.past.flows.highest(day, at)), days
            )
            guesses[1] = middle(past[INFLOW, :, 1])
            better = (self.hours >= LEAST_HOURS) & (
                self.errors[0] < BETTER * self.errors[1]
            )
            from_history = (np.count_nonzero(past[PAUSE, :, 1], axis=0) > 0) & ~better
            rates = np.where(from_history, past[:PAUSE, :, 1], rates)
            weeks = np.maximum(known, np.count_nonzero(past[PAUSE, :, 1], axis=0))
            service = np.where(at < 0, np.nan, self.past.service[:, at])
        low = unpacked(lowest(rates)) - 1
        high = unpacked(rates.max(axis=1)) - 1
        longest, spread = longest_and_spread(pauses)
        silence = longest + np.where(
            weeks >= SOME_WEEKS,
            np.clip(3 * spread, 0.15 * longest, 2 * longest),
            2 * longest,
        )
        shortest = unpacked(
            np.where(pauses > 0, pauses, 255).min(axis=(0, 1)).astype(np.uint8)
        )  # of a single hour
        regular = (
            (weeks >= SOME_WEEKS)
            & (longest > REGULAR_PAUSE)
            & (spread < REGULAR * longest)
        )
        regular &= (longest > LONG) | (shortest > ALIKE * longest)
        silence = np.where(
            regular & (longest > LONG), np.maximum(silence, longest + MARGIN), silence
        )
        return Expected(
            index=self.index,
            weeks=weeks.astype(np.float64),
            pause=longest,
            silence=np.where(weeks > 0, silence, np.nan),
            regular=regular,
            low=low[INFLOW] / 3600,
            inflow=np.stack([low[INFLOW], high[INFLOW]]),
            outflow=np.stack([low[OUTFLOW], high[OUTFLOW]]),
            guesses=guesses,
            absence=absence_limit(away[0], np.where(from_history, 2, SOME_WEEKS)),
            highs=unpacked(days),
            service=service,
            from_history=from_history,
        )


name_of: Callable[[QueueRow], QueueName] = attrgetter("address", "name")


def is_followed(row: QueueRow) -> bool:
    """Not what ends with its client, or is filled by the broker."""
    return row.kind is QueueKind.USER or (
        row.kind is QueueKind.SUBSCRIPTION and row.durable
    )


def limited(
    values: NDArray[np.float64], limit: NDArray[np.float64]
) -> NDArray[np.float64]:
    """No more than the limit, where both are known."""
    with np.errstate(invalid="ignore"):
        return np.where(values > limit, limit, values)


def lowest(rates: Bytes) -> Bytes:
    """(kinds, WEEKS, rows) → of each the lowest week; of three or four the second lowest."""
    ordered = np.sort(np.where(rates == 0, 255, rates), axis=1)
    count = np.count_nonzero(rates, axis=1)
    low = np.where(count >= SOME_WEEKS, ordered[:, 1], ordered[:, 0])
    return np.where(count > 0, low, 0).astype(np.uint8)


def middle(rates: Bytes) -> Column:
    """Of the weeks (axis 0) of one kind: the lower of the two in the middle."""
    ordered = np.sort(np.where(rates == 0, 255, rates), axis=0)
    count = np.count_nonzero(rates, axis=0)
    at = np.take_along_axis(ordered, np.maximum(count - 1, 0)[None] // 2, axis=0)[0]
    return unpacked(np.where(count > 0, at, 0).astype(np.uint8)) - 1


def longest_and_spread(pauses: Bytes) -> tuple[Column, Column]:
    """(WEEKS, hours, rows) → seconds: the longest, and by how much the weeks differ."""
    of_weeks = pauses.max(axis=1)
    whole = (pauses > 0).all(axis=1)
    of_whole = np.where(
        whole.any(axis=0), whole, of_weeks > 0
    )  # of a week in part the longest may not be known
    least = np.where(of_whole, of_weeks, 255).min(axis=0).astype(np.uint8)
    longest = unpacked(of_weeks.max(axis=0))
    return longest, longest - unpacked(least)


def absence_limit(away: Bytes, fewest: NDArray[np.int64]) -> Column:
    """(WEEKS, hours, rows) → seconds that consumers may be away at this hour; NaN where fewer weeks are known."""
    longest, spread = longest_and_spread(away)
    least = np.where(longest > LONG, MARGIN, 0.15 * longest)
    limit = longest + np.maximum(
        np.clip(3 * spread, 0.15 * longest, 0.5 * longest), least
    )
    known = np.count_nonzero(away[:, 1], axis=0) >= fewest
    return np.where(
        known & (spread <= np.maximum(0.15 * longest, LONG_ABSENCE)), limit, np.nan
    )


def shares_of_five_minutes(activity: Activity, trend: Trend) -> NDArray[np.float64]:
    """(expired and killed, queues): of what left over the trend window, NaN where that is little."""
    gone = np.stack([activity.trend.sum(one) for one in (TREND_EXPIRED, TREND_KILLED)])
    left = gone.sum(axis=0) + or_zero(trend.rate_out) * trend.seconds
    return np.where(left >= FEWEST, gone / np.where(left > 0, left, 1.0), np.nan)
