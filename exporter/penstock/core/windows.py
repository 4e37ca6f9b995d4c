"""Since when something is so, and what has happened in the last polls."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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
    """Since when `holds`, NaN where it does not; before: the same at the poll before."""
    changed = np.flatnonzero(holds == np.isnan(before))
    after = before.copy()
    after[changed] = np.where(
        holds[changed], np.broadcast_to(now, after.shape)[changed], np.nan
    )
    return after


def reindex(
    index: Index[Any],
    before: Index[Any],
    values: NDArray[T],
    fill: T | float | bool | None,
) -> NDArray[T]:
    """`values`, whose last axis follows `before`, by `index`; `fill` where a thing, not only its text, is new."""
    if index is before:
        return values
    return take_or_fill(
        values, index.positions_in(before), fill, index.new_since(before)
    )


def longer(start: Column, now: float, than: Column | float) -> Mask:
    """Whether it has lasted for at least `than` seconds; never where it does not hold (NaN)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(now - start >= than)


Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sample:
    """One poll, or several: `first` and `stamp` are the first and the last of them, `begin` is the one before; seconds,
    NaN where there was none.

    size: how many rows there are. rows: ascending, those with anything but zeros, as most have nothing to do.
    values, missing: (variables, rows of these); 0 where the value is missing: what changed, or what was so at the end.
    gaps: anything is missing.
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
        missing: NDArray[Any],
    ) -> "Sample":
        """values, missing: (variables, all rows)."""
        some = (values != 0).any(axis=0)
        gaps = bool(missing.any())
        rows = np.flatnonzero(some | missing.any(axis=0) if gaps else some)
        size = values.shape[1]
        few = values.take(rows, axis=1)
        return cls(
            begin,
            first,
            stamp,
            polls,
            size,
            rows.astype(np.int32),
            few,
            missing.take(rows, axis=1),
            gaps,
        )

    def filled(self, values: NDArray[T]) -> NDArray[T]:
        """Of values by `rows` those at all rows."""
        filled = np.zeros((*values.shape[:-1], self.size), values.dtype)
        filled[..., self.rows] = values
        return filled

    def column(self, variable: int) -> tuple[Values, NDArray[np.bool_]]:
        """The variable's values at all rows, and where they are missing."""
        return self.filled(self.values[variable]), self.filled(self.missing[variable])

    def reindexed(self, index: Index[Any], before: Index[Any]) -> "Sample":
        if not len(self.rows) and not len(index.new_since(before)):
            return replace(self, size=len(index))
        values = reindex(index, before, self.filled(self.values), 0.0)
        missing = reindex(index, before, self.filled(self.missing), True)
        return Sample.of(
            self.begin, self.first, self.stamp, self.polls, values, missing
        )

    def without(self, rows: Positions) -> "Sample":
        values = self.filled(self.values)
        missing = self.filled(self.missing)
        values[:, rows], missing[:, rows] = 0.0, True
        return Sample.of(
            self.begin, self.first, self.stamp, self.polls, values, missing
        )

    def joined(self, later: "Sample", levels: Sequence[int]) -> "Sample":
        """With the next one as one sample. levels: variables that are no changes."""
        mine = self.filled(self.values)
        others = later.filled(later.values)
        unknown = later.filled(later.missing)
        values = mine + others
        for level in levels:
            values[level] = np.where(unknown[level], mine[level], others[level])
        missing = self.filled(self.missing) & unknown
        return Sample.of(
            self.begin,
            self.first,
            later.stamp,
            self.polls + later.polls,
            values,
            missing,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The last polls' values by the rows of `index`, oldest first. totals: (variables, rows), their sums."""

    index: Index[Any] = field(default_factory=Index.empty)
    samples: tuple[Sample, ...] = ()
    totals: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return self.samples[-1].stamp - self.samples[0].stamp if self.samples else 0.0

    @property
    def known_seconds(self) -> float:
        """For how long it knows what changed. As soon as an older sample has gone this is never less than the time for
        which samples are kept, whatever the intervals of the polls are.
        """
        if not self.samples:
            return 0.0
        first = self.samples[0]
        begin = first.stamp if np.isnan(first.begin) else first.begin
        return self.samples[-1].stamp - begin

    @property
    def polls(self) -> int:
        return sum(sample.polls for sample in self.samples)

    def reindexed(self, index: Index[Any], known: Mask) -> "Window":
        """By the rows of `index`; those that are not `known` start again."""
        samples = self.samples
        totals = self.totals
        if index is not self.index:
            samples = tuple(sample.reindexed(index, self.index) for sample in samples)
            totals = reindex(index, self.index, totals, 0.0)
            known = known | (index.positions_in(self.index) < 0)
        if len(anew := np.flatnonzero(~known)):
            samples = tuple(sample.without(anew) for sample in samples)
            totals = totals.copy()
            totals[:, anew] = 0.0
        return Window(index, samples, totals)

    def push(
        self,
        stamp: float,
        values: NDArray[np.float32],
        seconds: float,
        resolution: float,
        levels: Sequence[int] = (),
    ) -> "Window":
        """With one more poll, without what is older than `seconds`. values: (variables, rows), NaN = missing.

        What does not go beyond `resolution` (seconds) with the last sample is joined to it.
        """
        missing = np.isnan(values)
        last = self.samples[-1] if self.samples else None
        begin = last.stamp if last else np.nan
        sample = Sample.of(
            begin, stamp, stamp, 1, put(values, missing, np.float32(0)), missing
        )
        kept = [one for one in self.samples if one.stamp > stamp - seconds - 1e-6]
        gone = [*self.samples[: len(self.samples) - len(kept)]]
        if kept and stamp - kept[-1].begin <= resolution:
            gone.append(kept.pop())
            sample = gone[-1].joined(sample, levels)
        # Exact: float64 has room for the sum of so many numbers of half its digits.
        totals = sample.filled(sample.values) + (
            self.totals if self.samples else np.zeros(values.shape)
        )
        for one in gone:
            totals[:, one.rows] -= one.values
        return Window(self.index, (*kept, sample), totals)

    def sum(self, variable: int) -> Column:
        """Per row over all samples."""
        return self.totals[variable] if self.samples else np.zeros(len(self.index))

    def rate(self, variable: int) -> Column:
        """Change per second over the time for which it is known, NaN where that is none."""
        total = self.sum(variable)
        samples = self.samples
        unknown = np.zeros(len(self.index))
        if samples and np.isnan(samples[0].begin):
            total = total - samples[0].column(variable)[0]
            samples = samples[1:]
        for sample in samples:
            if sample.gaps:
                unknown[sample.rows[sample.missing[variable]]] += (
                    sample.stamp - sample.begin
                )
        seconds = sum(sample.stamp - sample.begin for sample in samples) - unknown
        return total / np.where(seconds > 1e-3, seconds, np.nan)

    def rose(self, variable: int) -> Mask:
        """Where the last sample's value is above the first one's, or one of them is missing."""
        if not self.samples:
            return np.zeros(len(self.index), np.bool_)
        first, unknown = self.samples[0].column(variable)
        last, gone = self.samples[-1].column(variable)
        return (last > first) | unknown | gone

    def of(self, variable: int, rows: Positions, missing: float = 0.0) -> Column:
        """(samples, rows) of some rows; `missing` where a value is."""
        found = np.zeros((len(self.samples), len(rows)))
        for line, sample in enumerate(self.samples if len(rows) else ()):
            values = sample.values[variable]
            unknown = sample.missing[variable]
            found[line] = sample.filled(
                np.where(unknown, missing, values) if sample.gaps else values
            )[rows]
        return found

    def covers(
        self,
        rows: Positions,
        variable: int,
        seconds: float,
        interval: float,
        least: int = 3,
    ) -> Mask:
        """Whether these rows have values of enough of the polls that `seconds` should hold, since long enough.

        A window that misses two in five polls, or has only begun, proves nothing.
        """
        if not self.samples:
            return np.zeros(len(rows), np.bool_)
        expected = max(seconds / max(interval, 1e-9), 1.0)
        there = np.ones((len(self.samples), len(rows)), np.bool_)
        for line, sample in enumerate(self.samples):
            there[line] = not sample.gaps or ~sample.column(variable)[1][rows]
        polls, begins = (
            np.array([getattr(sample, name) for sample in self.samples])
            for name in ("polls", "first")
        )
        first = np.where(there.any(axis=0), begins[np.argmax(there, axis=0)], np.inf)
        spans = self.samples[-1].stamp - first >= seconds - 1.5 * interval
        return spans & (polls @ there >= max(least, 0.6 * expected))


def halves(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Polls (axis 0) of the first and of the second half."""
    middle = len(values) // 2
    return values[:middle], values[middle:]
