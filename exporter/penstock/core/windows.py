"""Since when something is so, and what has happened in the last polls."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import (
    Column,
    Index,
    Mask,
    Matrix,
    Positions,
    put,
    take_or_fill,
)

T = TypeVar("T", bound=np.generic)


def since(holds: Mask, before: Column, now: Column | float) -> Column:
    """(rows,) Since when it holds; NaN where it does not hold.

    Args:
        holds: (rows,) Whether it holds at this poll.
        before: (rows,) Since when it held at the last poll; NaN where it did not.
        now: The time of this poll, of all rows or of each.
    """
    # It holds and did not, or does not and did: elsewhere the time stays.
    changed = np.flatnonzero(holds == np.isnan(before))
    begin = np.broadcast_to(now, before.shape)[changed]
    after = before.copy()
    after[changed] = np.where(holds[changed], begin, np.nan)
    return after


def reindex(
    index: Index[object],
    before: Index[object],
    values: NDArray[T],
    fill: T | float | bool | None,
) -> NDArray[T]:
    """(…, rows) Values by the rows of `before` in the order of `index`; `fill` where the thing itself is new.

    Unlike `Index.carry` it keeps the value of a thing whose text has changed.
    """
    if index is before:
        return values
    origin = index.positions_in(before)
    return take_or_fill(values, origin, fill, index.new_since(before))


def longer(start: Column, now: float, than: Column | float) -> Mask:
    """(rows,) Whether it has lasted for at least `than` seconds; never where `start` is NaN, as it does not hold."""
    with np.errstate(invalid="ignore"):
        return np.asarray(now - start >= than)


Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one poll, or of several that were joined.

    Attributes:
        begin: When the poll before the first one was; NaN where there was none.
        first: When the first poll was, in seconds.
        stamp: When the last poll was, in seconds.
        polls: How many there are.
        size: How many rows the index has.
        rows: The positions of the rows with anything but zeros, ascending: most rows have nothing to do.
        values: (variables, rows of `rows`) The changes, or the levels at the end; 0 where one is missing.
        missing: (variables, rows of `rows`) Whether the value is missing.
        gaps: Whether any value is missing.
    """

    begin: float
    first: float
    stamp: float
    polls: int
    size: int
    rows: NDArray[np.int32]
    values: Values
    missing: NDArray[np.bool_]
    gaps: bool

    @classmethod
    def of(
        cls,
        begin: float,
        first: float,
        stamp: float,
        polls: int,
        values: Values,
        missing: NDArray[np.bool_],
    ) -> "Sample":
        """Make a sample of values and whether they are missing, (variables, all rows) both."""
        has_some = (values != 0).any(axis=0)
        gaps = bool(missing.any())
        if gaps:
            has_some |= missing.any(axis=0)
        rows = np.flatnonzero(has_some)
        return cls(
            begin=begin,
            first=first,
            stamp=stamp,
            polls=polls,
            size=values.shape[1],
            rows=rows.astype(np.int32),
            values=values.take(rows, axis=1),
            missing=missing.take(rows, axis=1),
            gaps=gaps,
        )

    def filled(self, values: NDArray[T]) -> NDArray[T]:
        """(…, all rows) Values by `rows`, with 0 for the other rows."""
        filled = np.zeros((*values.shape[:-1], self.size), values.dtype)
        filled[..., self.rows] = values
        return filled

    def column(self, variable: int) -> tuple[Values, NDArray[np.bool_]]:
        """Return the values of a variable, and whether they are missing, (all rows,) both."""
        return self.filled(self.values[variable]), self.filled(self.missing[variable])

    def reindexed(self, index: Index[object], before: Index[object]) -> "Sample":
        """Return the sample by the rows of another index; all values of a new row are missing."""
        has_only_zeros = not len(self.rows)
        if has_only_zeros and not len(index.new_since(before)):
            return replace(self, size=len(index))
        values = reindex(index, before, self.filled(self.values), 0.0)
        missing = reindex(index, before, self.filled(self.missing), True)
        return self._with(values, missing)

    def without(self, rows: Positions) -> "Sample":
        """Return the sample with all values of these rows missing."""
        values = self.filled(self.values)
        values[:, rows] = 0.0
        missing = self.filled(self.missing)
        missing[:, rows] = True
        return self._with(values, missing)

    def _with(self, values: Values, missing: NDArray[np.bool_]) -> "Sample":
        """Return a sample of the same polls with other values, (variables, all rows)."""
        return Sample.of(
            self.begin, self.first, self.stamp, self.polls, values, missing
        )

    def joined(self, later: "Sample", levels: Sequence[int]) -> "Sample":
        """Return this sample and the next one as one: changes are added, of levels the later one counts.

        A value is missing only where it is missing in both. levels: the variables that are no changes but levels, such
        as the number of messages in a queue.
        """
        own_values = self.filled(self.values)
        later_values = later.filled(later.values)
        later_missing = later.filled(later.missing)
        values = own_values + later_values
        for level in levels:
            values[level] = np.where(
                later_missing[level], own_values[level], later_values[level]
            )
        return Sample.of(
            self.begin,
            self.first,
            later.stamp,
            self.polls + later.polls,
            values,
            self.filled(self.missing) & later_missing,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The values of the last polls.

    Attributes:
        index: The rows.
        samples: One or several polls each, the oldest first.
        totals: (variables, rows) The sums over all samples.
    """

    index: Index[object] = field(default_factory=Index.empty)
    samples: tuple[Sample, ...] = ()
    totals: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def seconds(self) -> float:
        """Return the seconds from the first sample to the last."""
        if not self.samples:
            return 0.0
        return self.samples[-1].stamp - self.samples[0].stamp

    @property
    def known_seconds(self) -> float:
        """Return for how many seconds changes are known.

        As soon as an older sample has been dropped this is never less than the time for which samples are kept,
        whatever the intervals of the polls are.
        """
        if not self.samples:
            return 0.0
        first = self.samples[0]
        begin = first.stamp if np.isnan(first.begin) else first.begin
        return self.samples[-1].stamp - begin

    @property
    def polls(self) -> int:
        return sum(sample.polls for sample in self.samples)

    def reindexed(self, index: Index[object], goes_on: Mask) -> "Window":
        """Return the window by the rows of another index.

        goes_on: (rows of `index`,) Whether the row is the same thing still; the others start again without values.
        """
        samples = self.samples
        totals = self.totals
        if index is not self.index:
            samples = tuple(sample.reindexed(index, self.index) for sample in samples)
            totals = reindex(index, self.index, totals, 0.0)
            # New rows have no values already.
            goes_on = goes_on | (index.positions_in(self.index) < 0)
        starting = np.flatnonzero(~goes_on)
        if len(starting):
            samples = tuple(sample.without(starting) for sample in samples)
            totals = totals.copy()
            totals[:, starting] = 0.0
        return Window(index, samples, totals)

    def push(
        self,
        stamp: float,
        values: NDArray[np.float32],
        seconds: float,
        resolution: float,
        levels: Sequence[int] = (),
    ) -> "Window":
        """Return the window with one more poll, and without samples that are too old.

        Args:
            stamp: When the poll was.
            values: (variables, rows) NaN where one is missing.
            seconds: Samples that are older are dropped.
            resolution: A poll is joined to the last sample where both together span no more seconds than this.
            levels: The variables that are no changes, as in `Sample.joined`.
        """
        sample = self._sample(stamp, values)
        oldest = stamp - seconds - 1e-6
        kept = [earlier for earlier in self.samples if earlier.stamp > oldest]
        dropped = [*self.samples[: len(self.samples) - len(kept)]]
        if kept and stamp - kept[-1].begin <= resolution:
            last = kept.pop()
            dropped.append(last)
            sample = last.joined(sample, levels)
        totals = self._totals_with(sample, dropped)
        return Window(self.index, (*kept, sample), totals)

    def _sample(self, stamp: float, values: NDArray[np.float32]) -> Sample:
        """Return the sample of one poll. values: (variables, rows) NaN where one is missing."""
        begin = self.samples[-1].stamp if self.samples else np.nan
        missing = np.isnan(values)
        present = put(values, missing, np.float32(0))
        return Sample.of(begin, stamp, stamp, 1, present, missing)

    def _totals_with(self, added: Sample, dropped: Sequence[Sample]) -> Matrix:
        """(variables, rows) The sums with one more sample and without others.

        They are exact: float64 has room for the sum of so many numbers with half as many digits.
        """
        values = added.filled(added.values)
        totals = values + (self.totals if self.samples else np.zeros(values.shape))
        for sample in dropped:
            totals[:, sample.rows] -= sample.values
        return totals

    def sum(self, variable: int) -> Column:
        """(rows,) The sum of a variable over all samples."""
        if not self.samples:
            return np.zeros(len(self.index))
        total: Column = self.totals[variable]
        return total

    def rate(self, variable: int) -> Column:
        """(rows,) The change of a variable per second, over the time for which it is known; NaN where that is none."""
        total = self.sum(variable)
        samples = self.samples
        if samples and np.isnan(samples[0].begin):
            # No poll was before the first one: the time of its changes is not known.
            total = total - samples[0].column(variable)[0]
            samples = samples[1:]
        unknown_seconds = np.zeros(len(self.index))
        for sample in samples:
            if sample.gaps:
                rows = sample.rows[sample.missing[variable]]
                unknown_seconds[rows] += sample.stamp - sample.begin
        all_seconds = sum(sample.stamp - sample.begin for sample in samples)
        seconds = all_seconds - unknown_seconds
        return total / np.where(seconds > 1e-3, seconds, np.nan)

    def rose(self, variable: int) -> Mask:
        """(rows,) Whether a level may have risen: its last value is above the first one, or one of them is missing."""
        if not self.samples:
            return np.zeros(len(self.index), np.bool_)
        first, first_missing = self.samples[0].column(variable)
        last, last_missing = self.samples[-1].column(variable)
        return (last > first) | first_missing | last_missing

    def of(self, variable: int, rows: Positions, missing: float = 0.0) -> Column:
        """(samples, rows) The values of a variable at these rows; `missing` in place of a value that is missing."""
        lines = np.zeros((len(self.samples), len(rows)))
        if not len(rows):
            return lines
        for line, sample in enumerate(self.samples):
            values = sample.values[variable]
            if sample.gaps:
                values = np.where(sample.missing[variable], missing, values)
            lines[line] = sample.filled(values)[rows]
        return lines

    def covers(
        self,
        rows: Positions,
        variable: int,
        seconds: float,
        interval: float,
        least: int = 3,
    ) -> Mask:
        """(rows,) Whether a variable has values for enough of the last `seconds` to prove something.

        That is so where three in five of the polls have a value, and the first of these is `seconds` ago, less 1.5
        intervals, as polls are not exactly on time.

        Args:
            rows: The rows to look at.
            variable: The variable.
            seconds: The time to cover.
            interval: Seconds between two polls.
            least: So many polls are needed in any case.
        """
        if not self.samples:
            return np.zeros(len(rows), np.bool_)
        expected_polls = max(seconds / max(interval, 1e-9), 1.0)
        present = self._present(rows, variable)
        polls = np.array([sample.polls for sample in self.samples])
        begins = np.array([sample.first for sample in self.samples])
        first_sample = np.argmax(present, axis=0)  # 0 also where no sample has a value
        first = np.where(present.any(axis=0), begins[first_sample], np.inf)
        is_long = self.samples[-1].stamp - first >= seconds - 1.5 * interval
        has_enough_polls = polls @ present >= max(least, 0.6 * expected_polls)
        return is_long & has_enough_polls

    def _present(self, rows: Positions, variable: int) -> Mask:
        """(samples, rows) Whether the value of a variable is there."""
        present = np.ones((len(self.samples), len(rows)), np.bool_)
        for line, sample in enumerate(self.samples):
            if sample.gaps:
                present[line] = ~sample.column(variable)[1][rows]
        return present


def halves(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and the second half of the polls. values: (polls, …)."""
    middle = len(values) // 2
    return values[:middle], values[middle:]
