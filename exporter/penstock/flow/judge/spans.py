"""Since when something is so, and what has happened in the last polls."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.table import Column, Index, taken

Mask = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


def since(holds: Mask, before: Column, now: float) -> Column:
    """Since when `holds`, NaN where it does not; before: the same at the poll before."""
    return np.where(holds, np.where(np.isnan(before), now, before), np.nan)


def moved(index: Index[Any], before: Index[Any], values: NDArray[T], fill: T | float | bool | None) -> NDArray[T]:
    """
    `values`, whose last axis stands by `before`, by the rows of `index`; `fill` where a thing is new.

    A thing stays the same when its text changes: what is known of it stays too.
    """
    if index is before:
        return values
    return taken(values, index.located(before), fill)


def longer(start: Column, now: float, than: Column | float) -> Mask:
    """Whether it has lasted for at least `than` seconds; never where it does not hold (NaN)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(now - start >= than)


@dataclass(frozen=True, slots=True)
class Window:
    """
    The last polls' values per row: values (polls, variables, rows), oldest first, NaN where a row was not there yet.

    stamps: of the polls, seconds.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    stamps: Column = field(default_factory=lambda: np.empty(0))
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0, 0)))

    def moved(self, index: Index[Any], known: Mask) -> "Window":
        """By the rows of `index`; those that are not `known` begin anew."""
        values = moved(index, self.index, self.values, np.nan) if len(self.stamps) else self.values
        if len(self.stamps) and not known.all():
            values = np.where(known, values, np.nan)
        return Window(index, self.stamps, values)

    def push(self, index: Index[Any], stamp: float, values: NDArray[np.float64], seconds: float) -> "Window":
        """With one more poll, without what is older than `seconds`. values: (variables, rows)."""
        kept = self.stamps > stamp - seconds - 1e-6
        past = moved(index, self.index, self.values, np.nan)[kept] if len(self.stamps) else np.empty((0, *values.shape))
        return Window(index, np.append(self.stamps[kept], stamp), np.concatenate([past, values[None]]))

    def last(self, seconds: float) -> "Window":
        """The polls of the last `seconds`."""
        if not len(self.stamps):
            return self
        first = int(np.searchsorted(self.stamps, self.stamps[-1] - seconds - 1e-6, side="right"))
        return Window(self.index, self.stamps[first:], self.values[first:])

    def seen(self) -> NDArray[np.intp]:
        """Of how many polls each row has values."""
        return np.count_nonzero(~np.isnan(self.values[:, 0, :]), axis=0)

    def covers(self, seconds: float, interval: float, least: int = 3) -> Mask:
        """
        Whether each row has values of enough of the polls that `seconds` should hold, since long enough.

        A window that misses two in five polls, or has only begun, proves nothing.
        """
        if not len(self.stamps):
            return np.zeros(len(self.index), np.bool_)
        expected = max(seconds / max(interval, 1e-9), 1.0)
        there = ~np.isnan(self.values[:, 0, :])
        first = np.where(there.any(axis=0), self.stamps[np.argmax(there, axis=0)], np.inf)
        spans = self.stamps[-1] - first >= seconds - 1.5 * interval
        return spans & (self.seen() >= max(least, 0.6 * expected))


def halves(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Polls (axis 0) of the first and of the second half."""
    middle = len(values) // 2
    return values[:middle], values[middle:]
