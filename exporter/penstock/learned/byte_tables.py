"""The usual numbers of many queues, one byte each: by hour of the last four weeks, and by day of the last 28.

A byte is a logarithm: ten steps double the number, so that it is right within 3.5 %. 0 is for a number that is not
known. Each queue has a column by its name: its numbers outlive the broker's numbering of queues, the agent, and for a
while the queue itself.

The tables are rings: an hour replaces the one of four weeks ago, a day the one of 28 days ago. An *hour of the week* is
one of 168; a *kind* is what a number says, such as the inflow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.table import Column, Positions
from penstock.settings.calendar import HOURS

WEEKS = 4
DAYS = 28
STEPS = 10
"""So many steps of a byte double its number."""
HIGHEST = 255
Bytes = NDArray[np.uint8]
"""Packed numbers; 0 where nothing is known. Bytes of two numbers compare as the numbers do."""
QueueName = tuple[str, str]
"""Address and queue."""
_OCTAVES = np.arange(HIGHEST) / STEPS
_VALUES = np.append(np.nan, 2.0**_OCTAVES)
"""The number of each byte: NaN, 1, 1.07, 1.15, …, 2 at byte 11, …"""


def packed(values: ArrayLike) -> Bytes:
    """Return a byte for each number: 0 for NaN, and 1 for all numbers up to 1."""
    numbers = np.asarray(values, np.float64)
    # `fmax` makes 1 of NaN, too, which has no logarithm.
    octaves = np.log2(np.fmax(numbers, 1.0))
    steps = np.rint(STEPS * octaves) + 1
    steps = np.minimum(steps, HIGHEST)
    steps = np.where(np.isnan(numbers), 0.0, steps)
    return steps.astype(np.uint8)


def unpacked(values: Bytes) -> Column:
    """Return the number of each byte, NaN for 0."""
    numbers: Column = _VALUES[values]
    return numbers


def no_hours(kinds: int) -> Bytes:
    """(kinds, WEEKS, HOURS, 0) Numbers by hour for no queue yet."""
    return np.empty((kinds, WEEKS, HOURS, 0), np.uint8)


def no_days(kinds: int) -> Bytes:
    """(kinds, DAYS, 0) Numbers by day for no queue yet."""
    return np.empty((kinds, DAYS, 0), np.uint8)


HourT = TypeVar("HourT", int, NDArray[np.int64])


def place_of(hour: HourT) -> tuple[HourT, HourT]:
    """Return the line of the week (0 … 3) and the hour of the week at which the tables have an hour, or many hours."""
    week = hour // HOURS
    return week % WEEKS, hour % HOURS


@dataclass(frozen=True, slots=True)
class ByteTables:
    """The packed numbers of many queues.

    Attributes:
        names: The column of each queue.
        hours: (kinds, WEEKS, HOURS, columns) Numbers by hour.
        days: (kinds, DAYS, columns) Numbers by day.
    """

    names: Mapping[QueueName, int] = field(default_factory=dict)
    hours: Bytes = field(default_factory=lambda: no_hours(0))
    days: Bytes = field(default_factory=lambda: no_days(0))

    @classmethod
    def of(cls, hours: int, days: int) -> "ByteTables":
        """Return tables without queues.

        Args:
            hours: How many kinds of numbers there are by hour.
            days: How many there are by day.
        """
        return cls({}, no_hours(hours), no_days(days))

    def places(self, names: Iterable[QueueName]) -> Positions:
        """Return the column of each queue, -1 where it has none."""
        columns = (self.names.get(name, -1) for name in names)
        return np.fromiter(columns, np.intp)

    def with_columns_for(self, names: Sequence[QueueName]) -> "ByteTables":
        """Return the tables with columns for these queues too; a new column knows nothing."""
        columns = dict(self.names)
        for name in names:
            columns.setdefault(name, len(columns))
        width = self.hours.shape[-1]
        if len(columns) > width:
            # An eighth of room for more queues, as each new width copies all.
            with_room = width + width // 8
            width = max(len(columns), with_room)
        hours = _widened(self.hours, width)
        days = _widened(self.days, width)
        return replace(self, names=columns, hours=hours, days=days)

    def without_unused(self, present: Iterable[QueueName], most: int) -> "ByteTables":
        """Return the tables without queues that are gone and have no numbers; these very tables where none is removed.

        Of the queues that are gone and have numbers, those stay that got their columns last, up to `most` in all.
        """
        has_numbers = np.asarray(self.hours.any(axis=(0, 1, 2)))
        stay = self.names.keys() & set(present)
        gone_with_numbers = [
            name
            for name, column in self.names.items()
            if name not in stay and has_numbers[column]
        ]
        youngest_first = gone_with_numbers[::-1]
        room = max(most - len(stay), 0)
        names = [*stay, *youngest_first[:room]]
        if len(names) == len(self.names):
            return self
        columns = self.places(names)
        return ByteTables(
            names=_numbered(names),
            hours=self.hours[..., columns],
            days=self.days[..., columns],
        )

    def with_hour(
        self, hour: int, columns: Positions, values: Bytes, *, since: int
    ) -> "ByteTables":
        """Return the tables with the numbers of an hour, and 0 for other queues and for hours that were not learned.

        The line of the hour still has the numbers of four weeks ago, and so have the hours since the last one.

        Args:
            hour: The hour, by `Calendar.hour`.
            columns: The columns of the queues whose numbers are known.
            values: (kinds, queues) Their numbers.
            since: The last hour that is in the tables.
        """
        hours = self.hours.copy()
        oldest = hour - WEEKS * HOURS
        first_unknown = max(since + 1, oldest)
        for unknown in range(first_unknown, hour + 1):
            week, hour_of_week = place_of(unknown)
            hours[:, week, hour_of_week] = 0
        week, hour_of_week = place_of(hour)
        hours[:, week, hour_of_week, columns] = values
        return replace(self, hours=hours)

    def with_day(
        self, day: int, columns: Positions, values: Bytes, *, since: int
    ) -> "ByteTables":
        """Return the tables with the numbers of a day, like `with_hour`; a second call for a day replaces the first."""
        days = self.days.copy()
        first_unknown = max(since + 1, day - DAYS)
        for unknown in range(first_unknown, day + 1):
            days[:, unknown % DAYS] = 0
        days[:, day % DAYS, columns] = values
        return replace(self, days=days)

    def with_hours_moved(
        self, before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> "ByteTables":
        """Return the tables with the numbers of the hours `before` at the hours `after`, and 0 at all others.

        Args:
            before: (hours,) Hours of these tables.
            after: (hours,) Where each of them is in the new ones.
        """
        hours = np.zeros_like(self.hours)
        week, hour_of_week = place_of(before)
        numbers = self.hours[:, week, hour_of_week]
        week, hour_of_week = place_of(after)
        hours[:, week, hour_of_week] = numbers
        return replace(self, hours=hours)

    def stored(self) -> tuple[list[QueueName], Bytes, Bytes]:
        """Return the names in the order of the columns, and the two tables without room for more."""
        names = [*self.names]
        used = slice(len(names))
        hours = self.hours[..., used]
        days = self.days[..., used]
        return names, hours, days

    def restored(
        self, names: Sequence[QueueName], hours: Bytes, days: Bytes
    ) -> "ByteTables":
        """Return tables from the three results of `stored`, with as many kinds of numbers as these tables.

        Raises:
            ValueError: The results have another size.
        """
        width = len(names)
        pairs = [(address, queue) for address, queue in names]
        return ByteTables(
            names=_numbered(pairs),
            hours=hours.reshape(*self.hours.shape[:-1], width),
            days=days.reshape(*self.days.shape[:-1], width),
        )

    def around(self, hour: int, columns: Positions) -> Bytes:
        """(kinds, WEEKS, 3, queues) The numbers of the hour before, this one and the next, in the weeks that are known.

        0 for a column of -1. Pauses and jobs come a little earlier or later than in other weeks.
        """
        three_hours = np.arange(hour - 1, hour + 2) % HOURS
        return columns_or_zero(self.hours[:, :, three_hours], columns)

    def highest(self, day: int, columns: Positions) -> Bytes:
        """(kinds, queues) The highest numbers of the 27 days before this one; 0 for a column of -1."""
        other_days = np.delete(
            self.days,
            day % DAYS,
            axis=1,
        )
        return columns_or_zero(other_days.max(axis=1, initial=0), columns)


def columns_or_zero(values: Bytes, columns: Positions) -> Bytes:
    """Return these columns (the last axis) of the values, 0 for a column of -1."""
    # The column -1 is the last one, which is 0.
    with_zeros = _widened(values, values.shape[-1] + 1)
    return with_zeros[..., columns]


def _numbered(names: Sequence[QueueName]) -> dict[QueueName, int]:
    """Return the column of each name: the columns are in the order of the names."""
    return {name: column for column, name in enumerate(names)}


def _widened(values: Bytes, width: int) -> Bytes:
    """Return the values with columns of 0 up to this width."""
    more = width - values.shape[-1]
    if not more:
        return values
    shape = (*values.shape[:-1], more)
    zeros = np.zeros(shape, np.uint8)
    return np.concatenate([values, zeros], axis=-1)
