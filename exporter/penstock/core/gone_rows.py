"""Rows that were listed once and are not now: one that comes back has not begun again."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.table import Index, Keys, Mask, Matrix, Positions, positions

FEW = 20_000
"""So many rows are remembered however long they are gone."""
MOST_LISTINGS = 20
"""Where there are more, a row is forgotten that so many other listings lacked."""
MOST = 100_000
"""Rows that are remembered; where more are gone, the last ones."""
NO_VALUES: Matrix = np.empty((0, 0))


@dataclass(frozen=True, slots=True)
class GoneRows:
    """What is remembered of the rows that the last listing lacked.

    Attributes:
        keys: (rows,) ascending.
        listings: (rows,) how many changes of the listing each has been away for.
        values: (lines, rows) what each said last; without lines where only the keys matter.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    values: Matrix = field(default_factory=lambda: NO_VALUES)

    def come_back(
        self, before: Index[Any], now: Index[Any]
    ) -> tuple[Positions, Positions]:
        """Of those that the listing before lacked and `now` has: positions in `now`, and in what is remembered."""
        if now is before or not len(self.keys):
            return np.empty(0, np.intp), np.empty(0, np.intp)
        new = now.new_since(before)
        remembered = positions(self.keys, now.keys[new])
        is_back = remembered >= 0
        return new[is_back], remembered[is_back]

    def after(
        self, before: Index[Any], now: Index[Any], said: Matrix = NO_VALUES
    ) -> "GoneRows":
        """With the rows of `before` that `now` lacks, and without those that came back.

        Args:
            before: the listing before.
            now: the listing of this poll.
            said: (lines, rows of `before`) what each said last; as many lines at each call.
        """
        if now is before:
            return self
        stay = (self.listings < MOST_LISTINGS) | (len(self.keys) <= FEW)
        stay[self.come_back(before, now)[1]] = False
        left = has_left(before, now)
        keys = np.concatenate([self.keys[stay], before.keys[left]])
        listings = np.concatenate(
            [self.listings[stay] + 1, np.zeros(np.count_nonzero(left), np.int64)]
        )
        values = said[:, left] if len(said) else NO_VALUES
        if len(said) and len(self.keys):
            values = np.concatenate([self.values[:, stay], values], axis=1)
        order = np.argsort(
            keys, kind="stable"
        )  # two ascending runs, which that is quick with
        if len(keys) > MOST:
            latest = np.argsort(listings, kind="stable")[:MOST]
            order = latest[np.argsort(keys[latest])]
        return GoneRows(
            keys[order], listings[order], values[:, order] if len(said) else NO_VALUES
        )


def has_left(before: Index[Any], now: Index[Any]) -> Mask:
    """(rows of `before`,) Whether `now` lacks it."""
    known = now.positions_in(before)
    left = np.ones(len(before), np.bool_)
    left[known[known >= 0]] = False
    return left
