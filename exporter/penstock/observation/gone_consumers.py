"""Consumers that were listed once and are not now: one that comes back has not begun again."""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Index, Keys, Mask, positions
from penstock.model import ConsumerRow

MOST_LISTINGS = 20
"""A consumer that so many other listings lacked is forgotten."""
MOST = 100_000
"""Consumers that are remembered; where more are gone, the last ones."""


@dataclass(frozen=True, slots=True)
class GoneConsumers:
    """Keys of the consumers, ascending, and how many changes of the listing each has been away for."""

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))

    def come_back(self, before: Index[ConsumerRow], now: Index[ConsumerRow]) -> Mask:
        """(consumers of now,) Those that the listing before lacked, and an earlier one had."""
        is_back = np.zeros(len(now), np.bool_)
        if now is before or not len(self.keys):
            return is_back
        new = now.new_since(before)
        is_back[new] = positions(self.keys, now.keys[new]) >= 0
        return is_back

    def after(self, before: Index[ConsumerRow], now: Index[ConsumerRow]) -> "GoneConsumers":
        """With those of `before` that `now` lacks, and without those that came back."""
        if now is before:
            return self
        found = positions(self.keys, now.keys[now.new_since(before)])
        stay = self.listings < MOST_LISTINGS
        stay[found[found >= 0]] = False
        left = keys_that_left(before, now)
        keys = np.concatenate([self.keys[stay], left])
        listings = np.concatenate([self.listings[stay] + 1, np.zeros(len(left), np.int64)])
        if len(keys) > MOST:
            latest = np.argsort(listings, kind="stable")[:MOST]
            keys, listings = keys[latest], listings[latest]
        order = np.argsort(keys, kind="stable")  # two ascending runs, which that is quick with
        return GoneConsumers(keys[order], listings[order])


def keys_that_left(before: Index[ConsumerRow], now: Index[ConsumerRow]) -> Keys:
    """Keys of `before` that `now` lacks, ascending."""
    known = now.positions_in(before)
    left = np.ones(len(before), np.bool_)
    left[known[known >= 0]] = False
    return before.keys[left]
