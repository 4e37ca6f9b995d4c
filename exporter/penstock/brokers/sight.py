"""A listing in pages is no picture of one moment: when a row leaves, all behind it move up, and the first row of the
next page moves to one that was read already. It is out of sight and not gone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Positions, ascending, positions

MOST_ABSENCES = 20
"""Listings in a row after which a row is gone, proven or not: the number of rows that stay is bounded."""

Values = NDArray[Any]
Matrix = NDArray[np.float64]
Rank = Callable[[Values, Matrix], Values]
"""Makes, from the keys and numbers of rows, the values by which the broker sorts the listing."""
Page = tuple[Values, Matrix]
"""Keys (rows,) and numbers (fields, rows) of one page."""


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
        """Keys of all rows: those of the last listing, then those that stay."""
        self._listed = np.empty((0, 0))
        """Numbers of the rows in the last listing; callers hold the same array."""
        self._kept = np.empty((0, 0))
        """Numbers of the rows that stay."""
        self.hidden = self._keys
        """The end of `_keys`: rows that the last listing did not show."""
        self._absences = np.zeros(0, np.intp)
        """(hidden,) How many listings in a row did not show it."""
        self._proven = np.zeros(0, np.intp)
        """(hidden,) How many of these listings proved that it is gone."""

    @property
    def stayed(self) -> bool:
        """Whether rows stay that the last listing did not show."""
        return bool(len(self.hidden))

    @property
    def leaving(self) -> Values:
        """Keys of rows that stay until a second proof, although one listing proved that they are gone."""
        leaving: Values = self.hidden[self._proven > 0]
        return leaving

    def page_rows(self, rows: int) -> int:
        """How many rows to ask for in a page of the next listing, in place of `rows`: a few more while something was
        between two pages, so that it will be within one, and show whether it is gone.
        """
        unproven = self._absences[self._absences > self._proven]
        if not len(unproven):
            return rows
        return rows + rows // 8 + int(unproven.max())

    def whole(
        self,
        sizes: Sequence[int],
        keys: Values,
        numbers: Matrix,
        removed: Sequence[int] | Values = (),
        *,
        lost: int = 0,
        by_size: bool = False,
    ) -> Page:
        """`keys` and `numbers` (fields, rows) of all pages, each row once, and behind them those of the rows that stay.

        sizes: rows of each page. removed: keys of rows that are gone for certain. lost: rows that could not be read;
        any row of the listing before that is missing now may be one of them. by_size: the pages are some of a listing
        that is sorted by size, and a row that they do not show does not stay.
        """
        is_torn = lost > self._never_read
        is_one_page = len(sizes) == 1 and not is_torn
        stay: Positions | None = None
        if by_size:
            keys, numbers = _once(keys, numbers, ascending(keys)[1])
        elif not is_one_page and not np.array_equal(keys, self._keys):
            listed, first = ascending(keys)
            missing = self._missing(listed, removed)
            stay = self._staying(
                missing, [] if is_torn else _pages(sizes, keys, numbers)
            )
            keys, numbers = _once(keys, numbers, first)
        if stay is None:
            self._forget_hidden()
        if not self.stayed and not by_size:
            self._never_read = lost
        return self._remember(keys, numbers, stay)

    def _remember(self, keys: Values, numbers: Matrix, stay: Positions | None) -> Page:
        """Keys and numbers of the listed rows and of those that stay; kept for the next listing.

        stay: positions in the keys of the listing before.
        """
        kept = numbers[:, :0]
        if stay is not None and len(stay):
            kept = self._last_numbers(stay)
            keys = np.append(keys, self.hidden)
        self._listed = numbers
        self._kept = kept
        self.began = True
        self._keys = keys
        return keys, np.hstack([numbers, kept]) if self.stayed else numbers

    def _missing(self, listed: Values, removed: Sequence[int] | Values) -> Positions:
        """Positions of the rows of before that are not listed now, without those that were removed for certain.

        listed: keys, ascending.
        """
        is_absent = positions(listed, self._keys) < 0
        is_removed = np.isin(self._keys, removed)
        return np.flatnonzero(is_absent & ~is_removed)

    def _forget_hidden(self) -> None:
        """No row stays."""
        self.hidden = self._keys[:0]
        self._absences = np.zeros(0, np.intp)
        self._proven = np.zeros(0, np.intp)

    def _last_numbers(self, rows: Positions) -> Matrix:
        """(fields, rows) The last numbers of the rows at these positions of `_keys`, ascending."""
        size = self._listed.shape[1]
        listed = self._listed[:, rows[rows < size]]
        kept = self._kept[:, rows[rows >= size] - size]
        return np.hstack([listed, kept])

    def _staying(self, missing: Positions, pages: Sequence[Page]) -> Positions:
        """Which of the missing rows stay: neither proven to be gone nor absent for too long. Counts this absence."""
        if not len(missing):
            self._forget_hidden()
            return missing
        first_hidden = len(self._keys) - len(self.hidden)
        was_hidden = missing >= first_hidden
        hidden_before = missing[was_hidden] - first_hidden
        absences = np.ones(len(missing), np.intp)
        absences[was_hidden] += self._absences[hidden_before]
        proven = np.zeros(len(missing), np.intp)
        proven[was_hidden] = self._proven[hidden_before]
        proven += self._proves_gone(missing, pages)
        stays = (proven < self._proofs) & (absences < self._most)
        missing = np.compress(stays, missing)
        self.hidden = self._keys[missing]
        self._absences = absences[stays]
        self._proven = proven[stays]
        return missing

    def _proves_gone(
        self, missing: Positions, pages: Sequence[Page]
    ) -> NDArray[np.bool_]:
        """(missing,) True where these pages prove that a row is gone."""
        ranks = self._rank(self._keys[missing], self._last_numbers(missing))
        page_ranks = [self._rank(keys, numbers) for keys, numbers in pages]
        return within_a_page(ranks, page_ranks)


def _pages(sizes: Sequence[int], keys: Values, numbers: Matrix) -> list[Page]:
    """Keys and numbers of each page, where `keys` and `numbers` are those of all pages behind each other."""
    pages = []
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        pages.append((keys[rows], numbers[:, rows]))
        start += size
    return pages


def _once(keys: Values, numbers: Matrix, first: Positions) -> Page:
    """Keys and numbers without second copies: of a row on two pages the first stays.

    first: positions of the first copies, in the order of their keys.
    """
    if len(first) == len(keys):
        return keys, numbers
    first = np.sort(first)
    return keys[first], numbers[:, first]


def within_a_page(ranks: Values, pages: Sequence[Values]) -> NDArray[np.bool_]:
    """Whether rows of these ranks would be within a page: the first begins the listing, the last ends it. None does,
    where a page is not sorted: a broker sorts wrongly while sessions are closed.
    """
    within = np.zeros(len(ranks), np.bool_)
    if not pages or not all(map(_is_sorted, pages)):
        return within
    last = len(pages) - 1
    for number, page in enumerate(pages):
        behind_first = ranks > page[0] if number > 0 else ~within
        before_last = ranks < page[-1] if number < last else True
        within |= behind_first & before_last
    return within


def _is_sorted(page: Values) -> bool:
    """Whether a page has rows, and these ascend."""
    return bool(len(page)) and bool((page[1:] >= page[:-1]).all())
