"""
What is usual of many queues in a byte a number: by hour of the week, each of the last four, and by day of the last 28.

Ten steps an octave, so a number is right within 3.5 %. A column for each queue by its name: what was learned outlives
the broker's numbering, the queue itself for a while, and the agent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.table import Column, Positions
from penstock.settings.calendar import HOURS

WEEKS = 4
DAYS = 28
STEPS = 10
Bytes = NDArray[np.uint8]
QueueName = tuple[str, str]
"""Address and queue."""
_VALUES = np.append(np.nan, 2.0 ** (np.arange(255) / STEPS))


def packed(values: ArrayLike) -> Bytes:
    """0 where it is NaN; what is below 1 is 1."""
    numbers = np.asarray(values, np.float64)
    steps = np.rint(STEPS * np.log2(np.fmax(numbers, 1.0))) + 1
    return np.where(np.isnan(numbers), 0.0, np.minimum(steps, 255)).astype(np.uint8)


def unpacked(values: Bytes) -> Column:
    """NaN where nothing is known."""
    found: Column = _VALUES[values]
    return found


@dataclass(frozen=True, slots=True)
class ByteTables:
    """hours: (kinds, WEEKS, HOURS, columns). days: (kinds, DAYS, columns). names: the column of each queue."""

    names: Mapping[QueueName, int] = field(default_factory=dict)
    hours: Bytes = field(
        default_factory=lambda: np.empty((0, WEEKS, HOURS, 0), np.uint8)
    )
    days: Bytes = field(default_factory=lambda: np.empty((0, DAYS, 0), np.uint8))

    @classmethod
    def of(cls, hours: int, days: int) -> "ByteTables":
        """For no queue yet; hours, days: how many kinds of each."""
        return cls(
            {},
            np.empty((hours, WEEKS, HOURS, 0), np.uint8),
            np.empty((days, DAYS, 0), np.uint8),
        )

    def places(self, names: Iterable[QueueName]) -> Positions:
        """The columns of these queues, -1 of those that have none."""
        return np.fromiter((self.names.get(name, -1) for name in names), np.intp)

    def joined_by(self, names: Sequence[QueueName]) -> "ByteTables":
        """With columns of their own for these, of which nothing is known yet."""
        missing = [name for name in dict.fromkeys(names) if name not in self.names]
        known = {
            **self.names,
            **{name: len(self.names) + i for i, name in enumerate(missing)},
        }
        width = self.hours.shape[-1]
        if len(known) > width:  # room for more: each new width copies all
            width = max(len(known), width + width // 8)
        return replace(
            self,
            names=known,
            hours=_widened(self.hours, width),
            days=_widened(self.days, width),
        )

    def without_unused(self, here: Iterable[QueueName], most: int) -> "ByteTables":
        """Without queues that are not here and of which all is forgotten, or which are more than `most` in all."""
        used = np.asarray(self.hours.any(axis=(0, 1, 2)))
        kept = self.names.keys() & set(here)
        gone = [
            name for name, at in self.names.items() if name not in kept and used[at]
        ]
        names = [*kept, *gone[::-1][: max(most - len(kept), 0)]]  # the youngest
        if len(names) == len(self.names):
            return self
        at = self.places(names)
        return ByteTables(
            dict(zip(names, range(len(names)), strict=True)),
            self.hours[..., at],
            self.days[..., at],
        )

    def with_hour(
        self, hour: int, at: Positions, values: Bytes, *, since: int
    ) -> "ByteTables":
        """values: (kinds, queues) of an hour of the queues with the columns `at`, nothing is known of the others.

        since: the hour recorded before; what was between is not known.
        """
        hours = self.hours.copy()
        for one in range(max(since + 1, hour - WEEKS * HOURS), hour + 1):
            hours[:, one // HOURS % WEEKS, one % HOURS] = 0
        hours[:, hour // HOURS % WEEKS, hour % HOURS, at] = values
        return replace(self, hours=hours)

    def with_day(
        self, day: int, at: Positions, values: Bytes, *, since: int
    ) -> "ByteTables":
        """The same of a day, which may be recorded several times: the last counts."""
        days = self.days.copy()
        for one in range(max(since + 1, day - DAYS), day + 1):
            days[:, one % DAYS] = 0
        days[:, day % DAYS, at] = values
        return replace(self, days=days)

    def moved(
        self, before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> "ByteTables":
        """With what is known of each hour of `before` at the one of `after`, and of no other hour."""
        hours = np.zeros_like(self.hours)
        hours[:, after // HOURS % WEEKS, after % HOURS] = self.hours[
            :, before // HOURS % WEEKS, before % HOURS
        ]
        return replace(self, hours=hours)

    def stored(self) -> tuple[list[QueueName], Bytes, Bytes]:
        """Names in the order of the columns, and the two tables, without room for more."""
        width = len(self.names)
        return [*self.names], self.hours[..., :width], self.days[..., :width]

    def restored(
        self, names: Sequence[QueueName], hours: Bytes, days: Bytes
    ) -> "ByteTables":
        """With as many kinds as this one, from what `stored` says. ValueError: it is not of that size."""
        width = len(names)
        return ByteTables(
            {tuple(name): at for at, name in enumerate(names)},  # type: ignore[misc]
            hours.reshape(*self.hours.shape[:-1], width),
            days.reshape(*self.days.shape[:-1], width),
        )

    def around(self, hour: int, at: Positions) -> Bytes:
        """(kinds, WEEKS, 3, queues): the hour before, this one, the next; of the columns `at`, 0 of those at -1."""
        return taken(self.hours[:, :, np.arange(hour - 1, hour + 2) % HOURS], at)

    def highest(self, day: int, at: Positions) -> Bytes:
        """(kinds, queues) of the days before this one."""
        return taken(
            np.delete(self.days, day % DAYS, axis=1).max(axis=1, initial=0), at
        )


def taken(values: Bytes, at: Positions) -> Bytes:
    """Along the last axis, 0 where `at` is -1."""
    return np.concatenate(
        [values, np.zeros((*values.shape[:-1], 1), np.uint8)], axis=-1
    )[..., at]


def _widened(values: Bytes, width: int) -> Bytes:
    more = width - values.shape[-1]
    return (
        np.concatenate(
            [values, np.zeros((*values.shape[:-1], more), np.uint8)], axis=-1
        )
        if more
        else values
    )
