"""
In which order the rows of a table stand in the text.

The text changes block by block, so rows that change often had better stand together. A row keeps its place as long as
the order stands, whatever comes or goes beside it: what goes leaves its place to what comes.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Index, Positions, take_or_fill

CellT = TypeVar("CellT", bound=np.generic)

EMPTY: Final = -1
ALL: Final = slice(None)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """
    The places of the rows of `index`.

    rows: by place the position of a row, or EMPTY. changed_at: by place the number of the update at which something
    last changed there. in_order: each row stands at its own position, none is empty.
    """

    index: Index[Any]
    rows: Positions
    changed_at: NDArray[np.int64]
    in_order: bool

    @classmethod
    def of(cls, index: Index[Any]) -> "Layout":
        """The rows in their own order."""
        return cls(index, np.arange(len(index)), np.zeros(len(index), np.int64), in_order=True)

    def __len__(self) -> int:
        """The number of places."""
        return len(self.rows)

    def advance(self, index: Index[Any]) -> tuple["Layout", Mask]:
        """The layout of an index that follows this one's, and by its places: whether another row stands there now."""
        position = np.full(len(self.index), EMPTY, np.intp)
        stays = np.flatnonzero(index.origin >= 0)
        position[index.origin[stays]] = stays
        rows = take_or_fill(position, self.rows, EMPTY)
        new = np.flatnonzero(index.origin < 0)
        changed = (rows < 0) & (self.rows >= 0)
        free = np.flatnonzero(rows < 0)[: len(new)]
        rows[free] = new[: len(free)]
        changed[free] = True
        behind = new[len(free) :]
        rows = np.concatenate([rows, behind])
        changed = np.concatenate([changed, np.ones(len(behind), np.bool_)])
        changed_at = np.concatenate([self.changed_at, np.zeros(len(behind), np.int64)])
        size = int(np.flatnonzero(rows >= 0)[-1]) + 1 if len(index) else 0
        in_order = size == len(index) and bool((rows[:size] == np.arange(size)).all())
        return Layout(index, rows[:size], changed_at[:size], in_order), changed[:size]

    def noting(self, changed: Mask, update: int) -> "Layout":
        """The same, with the places where something changed at this update."""
        return Layout(self.index, self.rows, np.where(changed, update, self.changed_at), self.in_order)

    def by_activity(self) -> tuple["Layout", Positions]:
        """The rows whose last change is youngest first, no place empty; and where each place was before."""
        at = np.flatnonzero(self.rows >= 0)
        at = at[np.argsort(-self.changed_at[at], kind="stable")]
        return Layout(self.index, self.rows[at], self.changed_at[at], in_order=False), at

    def place(self, values: NDArray[CellT], fill: float, places: slice = ALL) -> NDArray[CellT]:
        """`values`, which stand by row, by place; `fill` where it is empty."""
        return values[places] if self.in_order else take_or_fill(values, self.rows[places], fill)
