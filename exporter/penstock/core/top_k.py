"""Which of many are shown one by one: the worst N, with hysteresis so that series do not come and go."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column, Keys, Positions, positions, take_or_fill

POLLS_OUTSIDE = 3
"""Polls for which one that was shown stays when it is no longer among the worst."""


@dataclass(frozen=True, slots=True)
class TopK:
    """What is shown: keys, and for how many polls each has been outside the worst N."""

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    outside: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def advance(self, keys: Keys, top_k: NDArray[np.bool_]) -> "TopK":
        """`keys` of all there are now, `top_k` those among the worst N."""
        if top_k.all():
            return TopK(keys, np.zeros(len(keys), np.int64))
        outside = take_or_fill(self.outside + 1, positions(self.keys, keys), POLLS_OUTSIDE)
        outside[top_k] = 0
        shown = outside < POLLS_OUTSIDE
        return TopK(keys[shown], outside[shown])


def top_k(first: Column, then: Column, groups: Positions | Keys, total: int, per_group: int) -> NDArray[np.bool_]:
    """
    A mask of the `total` with the largest `first`, then the largest `then`, at most `per_group` of each group.

    NaN counts as smallest. Ties go to the one that stands first.
    """
    size = len(first)
    if total >= size and per_group >= size:
        return np.ones(size, np.bool_)
    first, then = np.nan_to_num(first, nan=-np.inf), np.nan_to_num(then, nan=-np.inf)
    order = np.lexsort((-then, -first))
    by_group = order[np.argsort(groups[order], kind="stable")]
    sorted_groups = groups[by_group]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(sorted_groups)) + 1)) if size else np.empty(0, np.intp)
    lengths = np.diff(np.append(starts, size))
    rank = np.empty(size, np.intp)
    rank[by_group] = np.arange(size) - np.repeat(starts, lengths)
    chosen = order[rank[order] < per_group][:total]
    mask = np.zeros(size, np.bool_)
    mask[chosen] = True
    return mask
