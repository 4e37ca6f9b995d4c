"""From what a rule says at each poll to a condition that stands: two polls to enter, two to leave."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.spans import Mask, moved
from penstock.table import Column, Index

POLLS = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One condition over the rows of `index`.

    run: polls in a row at which the rule said the same, negative for "does not hold". on: the condition stands.
    since: its beginning as the rule said when it began to hold, NaN where it neither holds nor stands.
    left_since, left_at: its last beginning and end, to go on from.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    run: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    on: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    since: Column = field(default_factory=lambda: np.empty(0))
    left_since: Column = field(default_factory=lambda: np.empty(0))
    left_at: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    """Of an event: when it last happened."""

    def follow(self, index: Index[Any]) -> "Standing":
        if index is self.index:
            return self
        if self.untouched:
            return Standing.new(index)
        return Standing(
            index,
            moved(index, self.index, self.run, 0),
            moved(index, self.index, self.on, False),
            moved(index, self.index, self.since, np.nan),
            moved(index, self.index, self.left_since, np.nan),
            moved(index, self.index, self.left_at, -np.inf),
            moved(index, self.index, self.last, -np.inf),
        )

    @classmethod
    def new(cls, index: Index[Any]) -> "Standing":
        """Nothing has held yet."""
        size = len(index)
        return cls(
            index,
            np.zeros(size, np.int64),
            np.zeros(size, np.bool_),
            np.full(size, np.nan),
            np.full(size, np.nan),
            np.full(size, -np.inf),
            np.full(size, -np.inf),
        )

    @property
    def quiet(self) -> bool:
        """It stands nowhere, and was not about to."""
        return not self.on.any() and not (self.run > 0).any()

    @property
    def untouched(self) -> bool:
        """Quiet, and nothing is remembered of an earlier time."""
        return self.quiet and bool(np.isneginf(self.left_at).all()) and bool(np.isneginf(self.last).all())

    def judge(self, holds: Mask, begins: Column, now: float, rejoin: float, *, at_once: bool = False) -> "Standing":
        """
        After a poll at which the rule says `holds`, with the beginning `begins` (NaN: this poll).

        rejoin: seconds within which a condition that comes back goes on from its earlier beginning.
        at_once: an event; it needs no second poll, neither to come nor to go.
        """
        if self.quiet and not holds.any():
            return self
        need = 1 if at_once else POLLS
        run = np.where(holds, np.maximum(self.run, 0) + 1, np.minimum(self.run, 0) - 1)
        on = (run >= need) | (self.on & (run > -need))
        came, went = on & ~self.on, self.on & ~on
        begin = np.where(np.isnan(begins), now, begins)
        back = now - self.left_at <= rejoin
        # Of the first of the polls that must agree: it did not begin with the last of them.
        begin = np.where(self.on | (run > 1), self.since, begin)
        begin = np.where(came & back, np.fmin(begin, self.left_since), begin)
        since = np.where(on | holds, begin, np.nan)
        return Standing(
            self.index,
            run,
            on,
            since,
            np.where(went, self.since, self.left_since),
            np.where(went, now, self.left_at),
            self.last,
        )
