"""Rows that a broker listed before and does not list now.

A listing that is read while rows come and go may lack one that is still there. It comes back in the next one, with the
same key, and its counters go on from their last values. So these are remembered for some listings.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Index, Keys, Mask, Matrix, Positions, positions

FEW = 20_000
"""So many rows are remembered, however long they are away."""
MOST_LISTINGS = 20
"""Where more than `FEW` rows are remembered, a row is forgotten after so many other listings without it."""
MOST = 100_000
"""The most rows that are remembered; where more are away, those that left last."""
NO_VALUES: Matrix = np.empty((0, 0))


@dataclass(frozen=True, slots=True)
class GoneRows:
    """The rows that the last listing lacked.

    Attributes:
        keys: (rows,) ascending.
        listings: (rows,) for how many changes of the listing each has been away.
        values: (lines, rows) the last values of each; without lines where only the keys matter.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    values: Matrix = field(default_factory=lambda: NO_VALUES)

    def come_back(
        self, before: Index[object], now: Index[object]
    ) -> tuple[Positions, Positions]:
        """Return the rows that `now` lists again: their positions in `now`, and their positions in `keys`."""
        if now is before or not len(self.keys):
            return np.empty(0, np.intp), np.empty(0, np.intp)
        new = now.new_since(before)
        remembered = positions(self.keys, now.keys[new])
        is_back = remembered >= 0
        return new[is_back], remembered[is_back]

    def after(
        self, before: Index[object], now: Index[object], last_values: Matrix = NO_VALUES
    ) -> "GoneRows":
        """Return the rows that `now` lacks: those of these that did not come back, and those that left since `before`.

        Args:
            before: the last listing.
            now: the listing of this poll.
            last_values: (lines, rows of `before`) the values of each; as many lines at each call.
        """
        if now is before:
            return self
        stay = self._rows_to_keep(before, now)
        left = has_left(before, now)
        no_listings = np.zeros(np.count_nonzero(left), np.int64)
        values = NO_VALUES
        if len(last_values):
            values = last_values[:, left]
            if len(self.keys):
                values = np.concatenate([self.values[:, stay], values], axis=1)
        rows = GoneRows(
            np.concatenate([self.keys[stay], before.keys[left]]),
            np.concatenate([self.listings[stay] + 1, no_listings]),
            values,
        )
        return rows.in_order()

    def _rows_to_keep(self, before: Index[object], now: Index[object]) -> Mask:
        """(rows,) Whether the row is still away, and not for too long: that matters only where there are many."""
        are_few = len(self.keys) <= FEW
        stay = (self.listings < MOST_LISTINGS) | are_few
        _, returned = self.come_back(before, now)
        stay[returned] = False
        return stay

    def in_order(self) -> "GoneRows":
        """Return the rows in ascending order of their keys; where there are more than `MOST`, those that left last."""
        order = np.argsort(self.keys, kind="stable")  # quick with two ascending runs
        if len(self.keys) > MOST:
            latest = np.argsort(self.listings, kind="stable")[:MOST]
            order = latest[np.argsort(self.keys[latest])]
        values = self.values[:, order] if len(self.values) else NO_VALUES
        return GoneRows(self.keys[order], self.listings[order], values)


def has_left(before: Index[object], now: Index[object]) -> Mask:
    """(rows of `before`,) Whether `now` lacks it."""
    origin = now.positions_in(before)
    left = np.ones(len(before), np.bool_)
    left[origin[origin >= 0]] = False
    return left
