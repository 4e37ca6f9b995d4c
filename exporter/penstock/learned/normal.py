"""What is normal for a queue at this hour of the week: rates, pauses, absences; and the highest of the last 28 days.

The agent learns it hour by hour, one byte a number (`byte_tables`), or history has it (`profile`): the better founded
of the two counts. Once three weeks are known, a number beyond its limit is learned as the limit: a fault raises a limit
once by its factor, and a lasting change is learned in some weeks. A gap in the polls, maintenance and holidays teach
nothing.

A *pause* of a queue is a time without new messages, an *absence* one without consumers while messages wait. The numbers
of the present hour are collected in arrays by queue, and written into the byte tables when the hour ends. There the
*place* of a queue is its column, which it keeps by its name when the broker numbers its queues anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Matrix, Positions
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
"""Kinds of numbers of an hour: messages + 1 that came and left, and the longest pause in seconds. A pause belongs to
the hours in which it goes on, as long as it is by then.
"""
FLOWS = ByteTables.of(3, HIGHS)
ABSENCES = ByteTables.of(1, 0)
GAP = 60.0
GAP_POLLS = 3
"""A time between two polls is a gap if it is longer than these seconds and than so many polls."""
LEAST_OF_HOUR = 1800.0
"""Seconds of an hour that the polls must cover before the hour teaches anything."""
LONG_ABSENCE = 300.0
"""Seconds; queues that never had a longer absence have no table of absences."""
FEWEST = 10
"""Messages that left in five minutes, below which their shares are not computed."""
BETTER = 0.8
LEAST_HOURS = 72
"""After so many hours the learned rates replace those of history, if their error is below so many times the error of
history.
"""
LONG = 7200.0
MARGIN = 5400.0
"""Seconds: a pause or an absence longer than LONG may last MARGIN longer: jobs are late, and clocks are set."""
LEAST_MARGIN = 0.15
SPREADS = 3
MOST_OF_PAUSE = 2
MOST_OF_ABSENCE = 0.5
"""A pause or an absence may last longer than the longest one by so many times the difference between the weeks, but at
least by the first of these shares of the longest one, and at most by the last ones.
"""
REGULAR = 0.1
REGULAR_PAUSE = 1800.0
"""A queue has a regular rhythm if the longest pauses of all weeks differ by less than this share, and if they are
longer than so many seconds.
"""
ALIKE = 0.7
"""Where the longest pauses are no longer than LONG, each single hour must have a pause of this share of the longest:
those of some hours are alike by chance.
"""
NO_WEEK = 255
"""Replaces 0 (not known) in bytes, so that it is never the lowest."""


class Profile(NamedTuple):
    """What is normal for the queues of a broker by its history; `penstock.learned.profile` makes it.

    Attributes:
        flows: By hour the rates and pauses, by day the highest numbers.
        absences: By hour the longest absences.
        service: (2, columns of flows) The usual service seconds, and the number of windows that they rest on.
        weeks: How many weeks of history there were.
    """

    flows: ByteTables
    absences: ByteTables
    service: NDArray[np.float64]
    weeks: int

    def by_wall_clock(self, now: float, calendar: Calendar) -> "Profile":
        """Return the last weeks before `now` by the clock of the calendar's zone; history has them by UTC.

        An hour by UTC becomes the hour of the wall clock that it has most of. In a zone that is half an hour off it has
        half of each of two: a pause in it belongs to both. Holidays are left out.

        now: seconds since 1970.
        """
        middles = self._moved(now, 1799.0, calendar)
        starts = self._moved(now, 0.0, calendar)
        ends = self._moved(now, 3599.0, calendar)
        pauses = starts.flows.hours[PAUSE]
        pauses = np.maximum(pauses, ends.flows.hours[PAUSE])
        absences = np.maximum(starts.absences.hours, ends.absences.hours)
        middles.flows.hours[PAUSE] = pauses
        middles.absences.hours[:] = absences
        return middles

    def _moved(self, now: float, second: float, calendar: Calendar) -> "Profile":
        """Return the numbers of each hour by UTC at the hour of the wall clock in which its `second` lies."""
        hours_ago = np.arange(WEEKS * HOURS, 0, -1)
        # A calendar without settings is by UTC.
        hours = Calendar().hour(now) - hours_ago
        hours_since_1970 = hours - Calendar().hour(0)
        stamps = 3600.0 * hours_since_1970 + second
        wall_clock = np.array([calendar.hour(stamp) for stamp in stamps.tolist()])
        holiday = [calendar.is_holiday(hour) for hour in wall_clock.tolist()]
        is_work = ~np.array(holiday, np.bool_)
        before = hours[is_work]
        after = wall_clock[is_work]
        return self._replace(
            flows=self.flows.with_hours_moved(before, after),
            absences=self.absences.with_hours_moved(before, after),
        )


@dataclass(frozen=True, slots=True)
class Normal(RowState):
    """What is normal for each queue, and what this hour and this day will teach. Times by the broker's clock."""

    BY = By.QUEUE
    STORED_AS = "normal_"
    began: Column = column(outlives=True)
    """When the first message of the queue came."""
    arrival: Column = column(outlives=True)
    """When the last message came, or when the last gap in the polls ended, if that is later."""
    clock: Column = column(0.0)
    """Messages that should have come since the last one."""
    counts: NDArray[np.float64] = column(0.0, lines=2, saved=False)
    """(2, queues) Messages that came and left in this hour."""
    pause: Column = column(saved=False)
    """Longest pause of this hour, seconds."""
    absent: Column = column(1.0, saved=False)
    """Longest absence of consumers in this hour, seconds."""
    longest: Column = column(outlives=True)
    """Longest pause that ended, or that a gap in the polls cut short, seconds."""
    today: NDArray[np.float64] = column(lines=HIGHS, outlives=True)
    """(HIGHS, queues) The highest numbers of this day."""
    errors: NDArray[np.float64] = column(lines=2, outlives=True)
    """(2, queues) Mean error of the learned rates, and of those of history: |log(rate / expected rate)|."""
    hours: Column = column(0.0, outlives=True)
    """How many hours the errors rest on."""
    shares: NDArray[np.float64] = column(lines=2, saved=False, carried=False)
    """(2, queues) Shares that expired and were killed, of all that left in five minutes."""
    place: NDArray[np.intp] = column(-1, dtype=np.intp, outlives=True, saved=False)
    """Column of the queue in `flows`; -1 where it has none."""
    flows: ByteTables = unindexed(lambda: FLOWS)
    absences: ByteTables = unindexed(lambda: ABSENCES)
    history: Profile | None = unindexed(lambda: None)
    past: Profile | None = unindexed(lambda: None)
    """The history by the wall clock of the broker's zone."""
    expected: Expected = unindexed(Expected)
    hour: int = unindexed(lambda: -1)
    """The present hour, by `Calendar.hour`; -1 before the first poll."""
    told: int = unindexed(lambda: -1)
    """The last hour that was learned; -1 before the first one."""
    seconds: float = unindexed(float)
    """Seconds of this hour that the polls cover."""
    gap: float = unindexed(lambda: -np.inf)
    """When the last gap in the polls ended."""
    holiday_end: float = unindexed(lambda: -np.inf)
    """End of the last holiday that has begun: a pause with a holiday in it breaks no rhythm."""
    capacity: int = unindexed(int)
    """How many queues that are gone are remembered at most."""

    def advance(
        self,
        facts: Facts,
        step: float,
        timers: QueueTimers,
        activity: Activity,
        trend: Trend,
        service: ServiceTime,
        calendar: Calendar,
    ) -> "Normal":
        """Return the state after a poll. step: seconds since the poll before, NaN where there was none.

        At the first poll of an hour the last one is learned. After a gap in the polls nothing is counted.
        """
        hour = calendar.hour(facts.now)
        fresh = facts.queues.new_since(self.index)
        normal = self.reindexed(facts.queues, facts.known)
        normal = normal.with_places(facts, fresh)
        if hour > normal.hour:
            normal = normal.in_new_hour(facts.now, hour, calendar)
        normal = normal.with_expected_of(facts.queues, fresh, hour, calendar)
        if is_gap(facts, step, calendar):
            return normal.after_gap(facts.now, step)
        counted = normal.with_counts(facts, step)
        return counted.with_highest_numbers(facts, timers, activity, trend, service)

    def in_new_hour(self, now: float, hour: int, calendar: Calendar) -> "Normal":
        """Return the state at the first poll of an hour; at the first of all, with the history by the wall clock."""
        normal = self
        if self.hour < 0:
            history = self.history
            past = None if history is None else history.by_wall_clock(now, calendar)
            normal = replace(self, past=past)
        holiday_end = calendar.last_holiday(now)
        normal = replace(normal, holiday_end=holiday_end)
        return normal.with_hour_closed(hour, calendar)

    def with_expected_of(
        self, queues: Index[QueueRow], fresh: Positions, hour: int, calendar: Calendar
    ) -> "Normal":
        """Return the state with `expected` by the queues of this poll.

        It is computed once an hour, and again where a `fresh` queue has a place: it is known from before.
        """
        expected = self.expected.reindexed(queues)
        normal = replace(self, expected=expected)
        is_known = self.place[fresh] >= 0
        if not is_known.any():
            return normal
        return replace(normal, expected=normal.expected_at(hour, calendar))

    def after_gap(self, now: float, step: float) -> "Normal":
        """Return the state after a gap in the polls, in which messages may have come at any time.

        A pause that went on before the gap counts as it was at the poll before, and the next one begins now.
        """
        gap_seconds = 0.0 if np.isnan(step) else step
        pause_before = now - gap_seconds - self.arrival
        return replace(
            self,
            arrival=np.where(self.place < 0, np.nan, now),
            longest=np.fmax(self.longest, pause_before),
            gap=now,
        )

    def with_places(self, facts: Facts, fresh: Positions) -> "Normal":
        """Return the state with places in the tables for the queues that need one.

        These are followed queues that get their first message, and `fresh` ones that are known from before. Queues that
        never get a message need none, and those of the broker and of single clients are not followed.
        """
        known_by_name = self.known_by_name(facts.queues, fresh)
        is_followed_queue = facts.queues.column("followed", is_followed) > 0
        is_active = facts.known & (facts.d_added > 0) & is_followed_queue
        active = np.flatnonzero(is_active & (self.place < 0))
        if not known_by_name and not len(active):
            return self
        new = np.union1d(active, np.array(known_by_name, np.intp))
        names = [name_of(row) for row in facts.queues.rows[new]]
        flows = self.flows.with_columns_for(names)
        place = self.place.copy()
        arrival = self.arrival.copy()
        place[new] = flows.places(names)
        arrival[new] = np.where(
            np.isnan(arrival[new]),
            facts.now,
            arrival[new],
        )
        return replace(self, flows=flows, place=place, arrival=arrival)

    def known_by_name(self, queues: Index[QueueRow], fresh: Positions) -> list[int]:
        """Return the positions of the queues without a place that the tables or history know by name.

        Only `fresh` queues are looked up; at the first poll, and after a new history, all queues are.
        """
        rows = queues.rows
        candidates = np.arange(len(rows)) if self.hour < 0 else fresh
        learned_names = self.flows.names
        history_names = self.history.flows.names if self.history else {}
        without_place = candidates[self.place[candidates] < 0]
        return [
            position
            for position in without_place.tolist()
            if name_of(rows[position]) in learned_names
            or name_of(rows[position]) in history_names
        ]

    def with_counts(self, facts: Facts, step: float) -> "Normal":
        """Return the state with the messages that came and left since the poll before, `step` seconds ago.

        A message that came ends the pause, and sets the clock of the missing messages back to 0. A message for another
        queue of the address ends it too: senders work, and this queue may have a filter.
        """
        pause = facts.now - self.arrival
        arrives = facts.known & (facts.address.d_added > 0)
        arrives_with_place = arrives & (self.place >= 0)
        clock = self.clock + step * or_zero(self.expected.low)
        added = or_zero(facts.d_added)
        settled = or_zero(facts.d_settled)
        first_arrival = np.fmin(self.began, facts.now)
        longest = np.fmax(self.longest, pause)
        return replace(
            self,
            began=np.where(arrives_with_place, first_arrival, self.began),
            arrival=np.where(arrives_with_place, facts.now, self.arrival),
            clock=np.where(arrives, 0.0, clock),
            counts=self.counts + np.stack([added, settled]),
            pause=np.fmax(self.pause, pause),
            longest=np.where(arrives, longest, self.longest),
            today=self.with_clock(arrives, clock),
            seconds=self.seconds + step,
        )

    def with_clock(self, arrives: Mask, clock: Column) -> Matrix:
        """(HIGHS, queues) `today` with the number of messages that were missing before one arrived.

        The highest of these numbers is normal for the queue. The limit is twice the highest of 28 days and three more:
        that is when a condition would be raised.

        Args:
            arrives: (queues,) Whether a message came; it ends the pause.
            clock: (queues,) Messages that should have come in the pause.
        """
        limit = 2 * self.expected.highs[CLOCK] + 3
        missed = self.learnable(clock + 1, limit)
        is_learned = arrives & (self.expected.weeks > 0)
        today = self.today.copy()
        missed = np.where(is_learned, missed, np.nan)
        today[CLOCK] = np.fmax(today[CLOCK], missed)
        return today

    def with_highest_numbers(
        self,
        facts: Facts,
        timers: QueueTimers,
        activity: Activity,
        trend: Trend,
        service: ServiceTime,
    ) -> "Normal":
        """Return the state with the numbers of the last five minutes, where they are the highest of today.

        None is learned as more than what raises a condition. The shares are not known until the trend window has no gap
        in it.
        """
        seconds_without_gap = facts.now - self.gap
        is_covered = seconds_without_gap >= trend.seconds + facts.interval
        shares = shares_of_five_minutes(activity, trend)
        shares = np.where(is_covered, shares, np.nan)
        today = self.today.copy()
        expired, killed = shares
        raise_share(today[EXPIRED], expired, self.expected.highs[EXPIRED])
        raise_share(today[KILLED], killed, self.expected.highs[KILLED])
        self.raise_highs(today, facts, trend, service)
        absent = np.maximum(self.absent, self.absence_seconds(facts.now, timers))
        return replace(self, today=today, shares=shares, absent=absent)

    def raise_highs(
        self, today: Matrix, facts: Facts, trend: Trend, service: ServiceTime
    ) -> None:
        """Raise the highest inflow, service time, pace and depth of today to those of the last five minutes.

        Only the service time has a limit, twice the usual one: with it a fault would become normal.
        """
        milliseconds = 1000 * service.now
        usual_milliseconds = self.expected.highs[SERVICE]
        numbers = (
            300 * trend.rate_in,
            limited(milliseconds, 2 * usual_milliseconds),
            3600 * service.pace,
            facts.messages - or_zero(facts.scheduled),
        )
        # The order is PEAK, SERVICE, PACE, BACKLOG.
        for highest, number in zip(today[PEAK:], numbers, strict=True):
            np.fmax(highest, number, out=highest)

    def absence_seconds(self, now: float, timers: QueueTimers) -> Column:
        """(queues,) For how long messages have waited without a consumer; 0 where they do not.

        NaN where a holiday began in that time, which is longer than usual by it.
        """
        since = np.maximum(timers.ready, timers.absent)
        seconds = or_zero(now - since)
        return np.where(
            since < self.holiday_end,
            np.nan,
            seconds,
        )

    def usual(self, service: ServiceTime) -> Usual:
        """Return what is normal in the form that rules read.

        Of the service times as learned and by history the one counts that rests on more windows.
        """
        highest_pace = self.expected.highs[PACE]
        highest_pace = np.fmax(highest_pace, self.today[PACE])
        # (2, queues) Seconds, and the windows that they rest on.
        learned = np.stack([service.usual, service.windows])
        service_time = learned
        if self.past is not None:
            history = self.expected.service
            _, windows_of_history = history
            service_time = np.where(
                windows_of_history > service.windows,
                history,
                learned,
            )
        usual_service, windows = service_time
        return Usual(
            expected=self.expected,
            began=self.began,
            arrival=self.arrival,
            longest=self.longest,
            clock=self.clock,
            shares=self.shares,
            holiday_end=self.holiday_end,
            service=service.now,
            usual_service=usual_service,
            windows=windows,
            pace=highest_pace,
        )

    def learnable(self, values: Column, limit: Column) -> Column:
        """Return the values, none above its limit where that rests on some weeks.

        Before that a number that looks unusual may be usual.
        """
        is_founded = self.expected.weeks >= SOME_WEEKS
        return limited(values, np.where(is_founded, limit, np.nan))

    # --- at the end of an hour

    def with_hour_closed(self, hour: int, calendar: Calendar) -> "Normal":
        """Return the state with the last hour learned, and with what is expected in the `hour` that begins.

        At the first poll of a day the highest numbers of the day begin again, and queues that are gone are forgotten.
        """
        normal = self.with_hour_learned() if self._teaches(calendar) else self
        day = hour // 24
        last_day = max(normal.hour, normal.told) // 24
        if day != last_day:
            normal = normal.without_unused_queues()
            normal = replace(normal, today=np.full_like(normal.today, np.nan))
        size = len(normal.index)
        return replace(
            normal,
            hour=hour,
            expected=normal.expected_at(hour, calendar),
            seconds=0.0,
            counts=np.zeros((2, size)),
            pause=np.full(size, np.nan),
            absent=np.ones(size),
        )

    def _teaches(self, calendar: Calendar) -> bool:
        """Return whether the last hour may be learned: polls cover enough of it, and it was no holiday."""
        is_covered = self.hour >= 0 and self.seconds >= LEAST_OF_HOUR
        return is_covered and not calendar.is_holiday(self.hour)

    def with_hour_learned(self) -> "Normal":
        """Return the state with the numbers of the last hour in the tables, and its errors in the mean errors."""
        # Messages an hour, although the polls may cover less.
        rates = self.counts * (3600 / self.seconds)
        since = self.told if self.told >= 0 else self.hour - 1
        error = self.errors_of_hour(rates[INFLOW])
        is_known = ~np.isnan(error[0])
        return replace(
            self,
            flows=self.flows_with(rates, since),
            absences=self.absences_with_hour(since),
            told=self.hour,
            errors=self.errors_with(error),
            hours=self.hours + is_known,
        )

    def flows_with(self, rates: Matrix, since: int) -> ByteTables:
        """Return the table of flows with the rates and pauses of this hour, and the highest numbers of this day.

        Args:
            rates: (2, queues) Messages that came and left, an hour.
            since: The last hour that was learned.
        """
        placed = np.flatnonzero(self.place >= 0)
        place = self.place[placed]
        pause = np.fmax(self.pause, 1.0)
        pause = self.learnable(pause, self.expected.silence)
        numbers = np.vstack([rates + 1, pause])
        hour_bytes = packed(numbers)[:, placed]
        day_bytes = packed(self.today)[:, placed]
        flows = self.flows.with_hour(
            self.hour,
            place,
            hour_bytes,
            since=since,
        )
        return flows.with_day(
            self.hour // 24,
            place,
            day_bytes,
            since=since // 24,
        )

    def absences_with_hour(self, since: int) -> ByteTables:
        """Return the table of absences with this hour.

        A queue gets a column with its first long absence: most never have one.

        since: The last hour that was learned.
        """
        long_absent = np.flatnonzero(self.absent > LONG_ABSENCE)
        names = [name_of(row) for row in self.index.rows[long_absent]]
        absences = self.absences.with_columns_for(names)
        if not absences.names:
            return absences
        places = absences.places(self.queue_names())
        placed = np.flatnonzero(places >= 0)
        seconds = limited(self.absent, self.expected.absence)
        # One kind of numbers: (1, queues).
        hour_bytes = packed(seconds[placed])[None]
        return absences.with_hour(
            self.hour,
            places[placed],
            hour_bytes,
            since=since,
        )

    def errors_of_hour(self, inflow: Column) -> Matrix:
        """(2, queues) By how much the learned inflow, and that of history, were wrong in this hour: |log of the ratio|.

        1 is added to both, so that an hour without messages has a ratio.
        """
        with np.errstate(invalid="ignore"):
            ratio = (inflow + 1) / (self.expected.guesses + 1)
            return np.abs(np.log(ratio))

    def errors_with(self, error: Matrix) -> Matrix:
        """(2, queues) The mean of the errors with the `error` of this hour; one of NaN changes nothing.

        It is a running mean: each error weighs 1 / hours, but never less than in the mean of a week.
        """
        hours = self.hours + 1
        weight = np.maximum(1 / HOURS, 1 / hours)
        mean = self.errors + weight * (error - self.errors)
        mean = np.where(
            np.isnan(self.errors),
            error,
            mean,
        )
        return np.where(
            np.isnan(error),
            self.errors,
            mean,
        )

    def without_unused_queues(self) -> "Normal":
        """Return the state without queues that are gone and have no numbers any more, or are too many."""
        names = self.queue_names()
        capacity = dormant_capacity(self.capacity, len(self.index))
        most = len(names) + capacity
        flows = self.flows.without_unused(names, most)
        absences = self.absences.without_unused(names, most)
        # The same table comes back where no queue was removed: the places stay.
        place = self.place if flows is self.flows else flows.places(names)
        return replace(
            self, flows=flows, absences=absences, place=place, capacity=capacity
        )

    def queue_names(self) -> list[QueueName]:
        """Return the name of each queue, by which the tables know it."""
        return [name_of(row) for row in self.index.rows]

    # --- what is expected in an hour

    def expected_at(self, hour: int, calendar: Calendar) -> Expected:
        """Return what is normal in this hour; on a holiday the more lenient one of this hour and that of a Sunday."""
        expected = self.expect(hour)
        if not calendar.is_holiday(hour):
            return expected
        on_sunday = self.expect(SUNDAY + hour % 24)
        return expected.more_lenient(on_sunday)

    def expect(self, hour: int) -> Expected:
        """Return what is normal in this hour of the week, as learned and by history."""
        numbers = self.learned_numbers(hour)
        if self.past is not None:
            numbers = self.with_history(numbers, self.past, hour)
        return numbers.expected(self.index)

    def learned_numbers(self, hour: int) -> "HourNumbers":
        """Return the numbers of this hour of the week that the agent has learned, without those of the hour before.

        A pause that goes on since then would allow itself: the hour before counts only in earlier weeks.
        """
        size = len(self.index)
        flows = self.flows.around(hour, self.place)
        absences = self.absences.around(hour, self.absence_places())
        week = (hour - 1) // HOURS % WEEKS
        flows[:, week, 0] = 0
        absences[:, week, 0] = 0
        # Of the three hours around it (before, this one, next) the rates are those of this hour.
        rates = flows[:PAUSE, :, 1]
        unknown = np.full(size, np.nan)
        return HourNumbers(
            rates=rates,
            pauses=flows[PAUSE],
            absences=absences[0],
            highs=self.flows.highest(hour // 24, self.place),
            weeks=np.count_nonzero(flows[PAUSE, :, 1], axis=0),
            guesses=np.stack([middle(rates[INFLOW]), unknown]),
            from_history=np.zeros(size, np.bool_),
            service=np.full((2, size), np.nan),
        )

    def absence_places(self) -> Positions:
        """(queues,) Column of each queue in the table of absences; -1 where it has none."""
        if not self.absences.names:
            return np.full(len(self.index), -1)
        return self.absences.places(self.queue_names())

    def with_history(
        self, learned: "HourNumbers", past: Profile, hour: int
    ) -> "HourNumbers":
        """Return for each queue the better founded numbers of the learned ones and those of history.

        The rates are those of history until the learned ones were nearer. Pauses, absences and highs are the higher
        ones of both until three weeks are learned: a limit that is too high costs time, one that is too low costs
        trust.
        """
        names = self.queue_names()
        places = past.flows.places(names)
        flows = past.flows.around(hour, places)
        (absences,) = around_by_name(past.absences, hour, names)
        highs = past.flows.highest(hour // 24, places)
        rates = flows[:PAUSE, :, 1]
        weeks = np.count_nonzero(flows[PAUSE, :, 1], axis=0)
        from_history = (weeks > 0) & ~self.is_better_than_history()
        is_young = learned.weeks < SOME_WEEKS
        return HourNumbers(
            rates=np.where(from_history, rates, learned.rates),
            pauses=raised_where(is_young, learned.pauses, flows[PAUSE]),
            absences=raised_where(is_young, learned.absences, absences),
            highs=raised_where(is_young, learned.highs, highs),
            weeks=np.maximum(learned.weeks, weeks),
            guesses=np.stack([learned.guesses[0], middle(rates[INFLOW])]),
            from_history=from_history,
            service=np.where(
                places < 0,
                np.nan,
                past.service[:, places],
            ),
        )

    def is_better_than_history(self) -> Mask:
        """(queues,) Whether the learned rates were clearly nearer to the true inflow, over enough hours."""
        learned, history = self.errors
        is_nearer = learned < BETTER * history
        return (self.hours >= LEAST_HOURS) & is_nearer


@dataclass(frozen=True, slots=True, kw_only=True)
class HourNumbers:
    """The numbers of one hour of the week, in each of the last weeks; bytes are packed, 0 where nothing is known.

    Attributes:
        rates: (2, WEEKS, queues) Messages + 1 that came and left, an hour.
        pauses: (WEEKS, 3, queues) Longest pause of the hour before, of this one and of the next, seconds.
        absences: (WEEKS, 3, queues) Longest absence of consumers, likewise.
        highs: (HIGHS, queues) The highest numbers of the days before.
        weeks: (queues,) In how many weeks this hour is known.
        guesses: (2, queues) Messages an hour that are most likely, as learned and by history.
        from_history: (queues,) Whether the rates are those of history.
        service: (2, queues) The usual service seconds by history, and on how many windows they rest.
    """

    rates: Bytes
    pauses: Bytes
    absences: Bytes
    highs: Bytes
    weeks: NDArray[np.int64]
    guesses: Matrix
    from_history: Mask
    service: Matrix

    def expected(self, index: Index[QueueRow]) -> Expected:
        """Return what is normal by these numbers: the limits that rules compare with.

        The lowest inflow is also the speed of the clock of missing messages.
        """
        # The tables have 1 more than the messages.
        low = unpacked(lowest(self.rates)) - 1
        high = unpacked(self.rates.max(axis=1)) - 1
        longest, spread = longest_and_spread(self.pauses)
        is_regular = self.is_regular(longest, spread)
        weeks_for_absence = np.where(self.from_history, 2, SOME_WEEKS)
        return Expected(
            index=index,
            weeks=self.weeks.astype(np.float64),
            pause=longest,
            silence=self.longest_silence(longest, spread, is_regular),
            regular=is_regular,
            low=low[INFLOW] / 3600,
            inflow=np.stack([low[INFLOW], high[INFLOW]]),
            outflow=np.stack([low[OUTFLOW], high[OUTFLOW]]),
            guesses=self.guesses,
            absence=absence_limit(self.absences, weeks_for_absence),
            highs=unpacked(self.highs),
            service=self.service,
            from_history=self.from_history,
        )

    def is_regular(self, longest: Column, spread: Column) -> Mask:
        """(queues,) Whether the pauses have a rhythm, which one missing message breaks: they are long, and alike.

        Args:
            longest: (queues,) Seconds of the longest pause of all weeks.
            spread: (queues,) By how much the longest pauses of the weeks differ, seconds.
        """
        shortest = shortest_of_hours(self.pauses)
        is_known = self.weeks >= SOME_WEEKS
        is_long = longest > REGULAR_PAUSE
        weeks_alike = spread < REGULAR * longest
        hours_alike = (longest > LONG) | (shortest > ALIKE * longest)
        return is_known & is_long & weeks_alike & hours_alike

    def longest_silence(
        self, longest: Column, spread: Column, is_regular: Mask
    ) -> Column:
        """(queues,) Seconds that a pause may last at this hour; NaN where no week is known.

        It may last longer than the longest one by three times the difference between the weeks, and three times as long
        as long as that difference is not known. A long pause with a rhythm may last an hour and a half longer.

        Args:
            longest: (queues,) Seconds of the longest pause of all weeks.
            spread: (queues,) By how much the longest pauses of the weeks differ, seconds.
            is_regular: (queues,) Whether the pauses have a rhythm.
        """
        most = MOST_OF_PAUSE * longest
        by_spread = np.clip(
            SPREADS * spread,
            LEAST_MARGIN * longest,
            most,
        )
        longer_by = np.where(
            self.weeks >= SOME_WEEKS,
            by_spread,
            most,
        )
        silence = longest + longer_by
        with_margin = np.maximum(silence, longest + MARGIN)
        silence = np.where(
            is_regular & (longest > LONG),
            with_margin,
            silence,
        )
        return np.where(
            self.weeks > 0,
            silence,
            np.nan,
        )


name_of: Callable[[QueueRow], QueueName] = attrgetter("address", "name")


def around_by_name(tables: ByteTables, hour: int, names: list[QueueName]) -> Bytes:
    """(kinds, WEEKS, 3, queues) The numbers around an hour of the queues with these names."""
    return tables.around(hour, tables.places(names))


def is_followed(row: QueueRow) -> bool:
    """Return whether it is learned what is normal for the queue: it outlives its client, and clients fill it."""
    is_durable_subscription = row.kind is QueueKind.SUBSCRIPTION and row.durable
    return row.kind is QueueKind.USER or is_durable_subscription


def is_gap(facts: Facts, step: float, calendar: Calendar) -> bool:
    """Return whether the time since the poll before teaches nothing: it is too long, or there is maintenance now."""
    longest_step = max(GAP, GAP_POLLS * facts.interval)
    is_regular_step = 0 < step <= longest_step
    return not is_regular_step or calendar.in_maintenance(facts.now)


def limited(
    values: NDArray[np.float64], limit: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values, none above its limit where both are known."""
    with np.errstate(invalid="ignore"):
        return np.where(values > limit, limit, values)


def raised_where(where: Mask, values: Bytes, others: Bytes) -> Bytes:
    """Return the higher ones of `values` and `others` for the queues in the mask, else the values.

    where: (queues,) which is the last axis of both.
    """
    return np.where(
        where,
        np.maximum(values, others),
        values,
    )


def raise_share(today: Column, share: Column, highest: Column) -> None:
    """Raise the highest share of today to this one where it is known, but not above an unusual share.

    Args:
        today: (queues,) Thousandths + 1, which are written to.
        share: (queues,) Share of the last five minutes, NaN where it is not known.
        highest: (queues,) The highest of 28 days, as in `today`.
    """
    queues = np.flatnonzero(~np.isnan(share))
    thousandths = 1000 * share[queues] + 1
    unusual = 1000 * unusual_share(highest[queues]) + 1
    learned = limited(thousandths, unusual)
    today[queues] = np.fmax(today[queues], learned)


def lowest(rates: Bytes) -> Bytes:
    """(kinds, queues) The lowest rate of the weeks; of three or four weeks the second lowest; 0: not known.

    One week with a fault must not make the lowest rate of it normal.

    rates: (kinds, WEEKS, queues)
    """
    without_unknown = np.where(rates == 0, NO_WEEK, rates)
    ordered = np.sort(without_unknown, axis=1)
    lowest_week = ordered[:, 0]
    second_lowest = ordered[:, 1]
    count = np.count_nonzero(rates, axis=1)
    low = np.where(
        count >= SOME_WEEKS,
        second_lowest,
        lowest_week,
    )
    low = np.where(count > 0, low, 0)
    return low.astype(np.uint8)


def middle(rates: Bytes) -> Column:
    """(queues,) Messages an hour in the middle week, the lower one of two; NaN where no week is known.

    rates: (WEEKS, queues) of one kind
    """
    without_unknown = np.where(rates == 0, NO_WEEK, rates)
    ordered = np.sort(without_unknown, axis=0)
    count = np.count_nonzero(rates, axis=0)
    middle_week = np.maximum(count - 1, 0) // 2
    # One week for each queue: (1, queues), as `take_along_axis` needs two axes.
    (rate,) = np.take_along_axis(ordered, middle_week[None], axis=0)
    rate = np.where(count > 0, rate, 0)
    return unpacked(rate.astype(np.uint8)) - 1


def longest_and_spread(pauses: Bytes) -> tuple[Column, Column]:
    """(queues,) Seconds of the longest pause of all weeks, and of how much the longest pauses of the weeks differ.

    A week of which some hours are not known may have had a longer pause in these. So the shortest week is looked for
    among the whole ones, if there are any.

    pauses: (WEEKS, hours, queues)
    """
    longest_of_weeks = pauses.max(axis=1)
    is_whole = (pauses > 0).all(axis=1)
    is_compared = np.where(
        is_whole.any(axis=0),
        is_whole,
        longest_of_weeks > 0,
    )
    compared = np.where(is_compared, longest_of_weeks, NO_WEEK)
    shortest_week = compared.min(axis=0)
    longest = unpacked(longest_of_weeks.max(axis=0))
    least = unpacked(shortest_week.astype(np.uint8))
    return longest, longest - least


def shortest_of_hours(pauses: Bytes) -> Column:
    """(queues,) Seconds of the pause of the hour whose longest pause is the shortest.

    pauses: (WEEKS, hours, queues) The longest pause of each hour.
    """
    without_unknown = np.where(pauses > 0, pauses, NO_WEEK)
    shortest = without_unknown.min(axis=(0, 1))
    return unpacked(shortest.astype(np.uint8))


def absence_limit(absences: Bytes, fewest: NDArray[np.int64]) -> Column:
    """(queues,) Seconds that consumers may be away at this hour; NaN where the weeks are too few or differ too much.

    They may be away longer than the longest absence by three times the difference between the weeks, within bounds.

    Args:
        absences: (WEEKS, 3, queues) Longest absences of the hour before, of this one and of the next.
        fewest: (queues,) In how many weeks this hour must be known.
    """
    longest, spread = longest_and_spread(absences)
    share = LEAST_MARGIN * longest
    least_margin = np.where(longest > LONG, MARGIN, share)
    margin = np.clip(
        SPREADS * spread,
        share,
        MOST_OF_ABSENCE * longest,
    )
    limit = longest + np.maximum(margin, least_margin)
    this_hour = absences[:, 1]
    is_known = np.count_nonzero(this_hour, axis=0) >= fewest
    is_alike = spread <= np.maximum(share, LONG_ABSENCE)
    return np.where(is_known & is_alike, limit, np.nan)


def shares_of_five_minutes(activity: Activity, trend: Trend) -> Matrix:
    """(2, queues) Shares of the messages that left over the trend window that expired and were killed; NaN: too few."""
    expired = activity.trend.sum(TREND_EXPIRED)
    killed = activity.trend.sum(TREND_KILLED)
    settled = or_zero(trend.rate_out) * trend.seconds
    left = expired + killed + settled
    divisor = np.where(left > 0, left, 1.0)
    shares = np.stack([expired, killed]) / divisor
    return np.where(left >= FEWEST, shares, np.nan)
