"""A listing in pages is no picture of one moment: when a row leaves, all behind it move up, and the first row of the
next page moves to one that was read already. It is out of sight and not gone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Positions, ascending, positions

MOST_ABSENCES = 20
"""Listings in a row after which a row is gone, proven or not: what stays is bounded."""

Values = NDArray[Any]
Rank = Callable[[Values, NDArray[np.float64]], Values]
"""Of rows, by keys and numbers, what the broker sorts the listing by."""


class Sight:
    """Which rows stay although no page showed them, with their last numbers. A page is a piece of the
    sorted listing as it was at one moment. So a row is gone when it should be within a page and is not; between two
    pages it may be hidden. Keys must never come again.
    """

    def __init__(self, rank: Rank, proofs: int = 1, most: int = MOST_ABSENCES) -> None:
        """proofs: how many listings must prove that a row is gone. most: absences in a row after which it is."""
        self._rank = rank
        self._proofs = proofs
        self._most = most
        self.began = False
        """Whether there was a listing."""
        self._never_read = 0
        """Rows that no listing could be read of: they hide nothing that is known."""
        self._keys: Values = np.empty(0, np.int64)
        self._listed = self._kept = np.empty((0, 0))
        """Numbers of those that the last listing showed, which others hold too, and of those that stay."""
        self.hidden = self._keys
        """Those of `_keys` that the last listing did not show, at the end."""
        self._counts = np.zeros((2, 0), np.intp)
        """By `_stay`: how many listings in a row did not show it, and how many of them proved it gone."""

    @property
    def stayed(self) -> bool:
        """Whether rows stay that the last listing did not show."""
        return bool(len(self.hidden))

    @property
    def leaving(self) -> Values:
        """Keys of those that stay although they were proven gone, until there is another proof."""
        leaving: Values = self.hidden[self._counts[1] > 0]
        return leaving

    def page_rows(self, rows: int) -> int:
        """How many rows to ask for in a page of the next listing, in place of `rows`: a few more while something was
        between two pages, so that it will be within one, and show whether it is gone.
        """
        unproven = self._counts[0][self._counts[0] > self._counts[1]]
        return rows + (rows // 8 + int(unproven.max()) if len(unproven) else 0)

    def whole(
        self,
        sizes: Sequence[int],
        keys: Values,
        numbers: NDArray[np.float64],
        gone: Sequence[Any] | Values = (),
        *,
        lost: int = 0,
        by_size: bool = False,
    ) -> tuple[Values, NDArray[np.float64]]:
        """`keys` and `numbers` (fields, rows) of all pages, each row once, and behind them those of the rows that stay.

        sizes: rows of each page. gone: keys that are known to be. lost: rows that could not be read; each that could be
        read before may be any of those that are missing. by_size: these are some pages of a listing that is sorted
        otherwise, and what they do not show does not stay.
        """
        torn = lost > self._never_read
        if by_size:
            self._none_stays()
            keys, numbers = _once(keys, numbers, ascending(keys)[1])
        elif (len(sizes) == 1 and not torn) or np.array_equal(keys, self._keys):
            self._none_stays()
        else:
            listed, first = ascending(keys)
            missing = np.flatnonzero(
                (positions(listed, self._keys) < 0) & ~np.isin(self._keys, gone)
            )
            ends = [] if torn else zip(np.cumsum(sizes).tolist(), sizes, strict=True)
            stay = self._staying(
                missing,
                [(keys[end - n : end], numbers[:, end - n : end]) for end, n in ends],
            )
            keys, numbers = _once(keys, numbers, first)
        kept = self._said(stay) if self.stayed else numbers[:, :0]
        if not self.stayed and not by_size:
            self._never_read = lost
        self._listed = numbers
        self._kept = kept
        self.began = True
        self._keys = np.append(keys, self.hidden) if self.stayed else keys
        return self._keys, np.hstack([numbers, kept]) if self.stayed else numbers

    def _none_stays(self) -> None:
        self.hidden = self._keys[:0]
        self._counts = np.zeros((2, 0), np.intp)

    def _said(self, at: Positions) -> NDArray[np.float64]:
        """The numbers of the rows at these positions of `_keys`, ascending."""
        size = self._listed.shape[1]
        return np.hstack(
            [self._listed[:, at[at < size]], self._kept[:, at[at >= size] - size]]
        )

    def _staying(
        self, missing: Positions, pages: Sequence[tuple[Values, NDArray[np.float64]]]
    ) -> Positions:
        """Which of the missing rows stay, and count that. pages: keys and numbers of each."""
        if not len(missing):
            self._none_stays()
            return missing
        counts = np.zeros((2, len(missing)), np.intp)
        before = missing - (len(self._keys) - len(self.hidden))
        counts[:, before >= 0] = self._counts[:, before[before >= 0]]
        ranks = self._rank(self._keys[missing], self._said(missing))
        counts[0] += 1
        counts[1] += within_a_page(ranks, [self._rank(*page) for page in pages])
        stays = (counts[1] < self._proofs) & (counts[0] < self._most)
        missing = np.compress(stays, missing)
        self.hidden = self._keys[missing]
        self._counts = counts[:, stays]
        return missing


def _once(
    keys: Values, numbers: NDArray[np.float64], first: Positions
) -> tuple[Values, NDArray[np.float64]]:
    """Of a row on two pages, the first. first: their positions, by key."""
    if len(first) == len(keys):
        return keys, numbers
    first = np.sort(first)
    return keys[first], numbers[:, first]


def within_a_page(ranks: Values, pages: Sequence[Values]) -> NDArray[np.bool_]:
    """Whether rows of these ranks would be within a page: the first begins the listing, the last ends it. None does,
    where a page is not sorted: a broker sorts wrongly while sessions are closed.
    """
    within = np.zeros(len(ranks), np.bool_)
    if not pages or not all(
        len(page) and (page[1:] >= page[:-1]).all() for page in pages
    ):
        return within
    for number, page in enumerate(pages):
        behind = ranks > page[0] if number else ~within
        before = ranks < page[-1] if number < len(pages) - 1 else True
        within |= behind & before
    return within
