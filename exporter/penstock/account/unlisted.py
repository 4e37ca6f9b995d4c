"""Books of queues that a listing lacked, for their return: a row that is missing once is no queue that was destroyed.

A broker or a proxy in front of it may leave rows out of an answer. A queue that comes back under the broker's id of it
is the same one, and its counters have gone on; so its account goes on, too. It comes back as after a restart of the
agent: with what is saved, and without what rests on the polls just before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from penstock.core.state import RowState, declared
from penstock.core.table import Index, Keys, Mask, Positions
from penstock.model import AddressRow, QueueRow

StateT = TypeVar("StateT", bound=RowState)

MOST_LISTINGS = 20
"""A queue that so many other listings lacked does not come back."""


@dataclass(frozen=True, slots=True)
class UnlistedRows:
    """index: the queues that are kept. parts: their books, by the field of the account. listings: how many changes of
    the listing each has been away for.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    parts: Mapping[str, RowState] = field(default_factory=dict)
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))

    def returning(self, queues: Index[Any], known: Index[Any]) -> Positions:
        """Positions in `index` of those that are listed again. known: the queues of the poll before."""
        if not len(self.index) or queues is known:
            return np.empty(0, np.intp)
        places = queues.positions(self.index.keys)
        was_absent = known.positions(self.index.keys) < 0
        candidates = np.flatnonzero((places >= 0) & was_absent)
        is_back = [
            is_same(self.index.rows[i], queues.rows[places[i]])
            for i in candidates.tolist()
        ]
        return candidates[np.array(is_back, np.bool_)]

    def after(
        self, parts: Mapping[str, RowState], known: Index[Any], queues: Index[Any]
    ) -> "UnlistedRows":
        """With those of `known` that `queues` lack, and without those that came back. parts: by the rows of `known`."""
        if queues is known:
            return self
        lacking = np.flatnonzero(queues.positions(known.keys) < 0)
        is_absent = queues.positions(self.index.keys) < 0
        stay = np.flatnonzero(is_absent & (self.listings < MOST_LISTINGS))
        if not len(lacking) and len(stay) == len(self.index):
            return replace(self, listings=self.listings + 1)
        index = with_rows(self.index, stay, known, lacking)
        listings = np.zeros(len(index), np.int64)
        stay_at = index.positions(self.index.keys[stay])
        listings[stay_at] = self.listings[stay] + 1
        kept: dict[str, RowState] = {}
        for name, part in parts.items():
            before = self.parts.get(name)
            kept[name] = (
                part.reindexed(index) if before is None else joined(before, part, index)
            )
        return UnlistedRows(index, kept, listings)


def is_same(before: QueueRow | AddressRow, now: QueueRow | AddressRow) -> bool:
    return (before.name, getattr(before, "address", "")) == (
        now.name,
        getattr(now, "address", ""),
    )


def with_rows(
    first: Index[Any], of_first: Positions, second: Index[Any], of_second: Positions
) -> Index[Any]:
    """An index of its own, of some rows of two that have no key in common."""
    keys = np.append(first.keys[of_first], second.keys[of_second])
    rows = np.append(first.rows[of_first], second.rows[of_second])
    index, _ = Index[Any].empty().advance(keys, lambda new: [rows[i] for i in new])
    return index


def joined(
    first: StateT, second: StateT, index: Index[Any], *, saved_only: bool = False
) -> StateT:
    """`second` by the rows of `index`, with the numbers of `first` in the rows that only `first` knows. saved_only: no
    others of `first` than outlive the agent.
    """
    moved = second.reindexed(index)
    places = first.index.positions(index.keys)
    only_first = (places >= 0) & (second.index.positions(index.keys) < 0)
    if not only_first.any():
        return moved
    columns: dict[str, Any] = {}
    for name, declaration in declared(type(moved)).items():
        if saved_only and not declaration.names:
            continue
        of_first = getattr(first, name)
        values = np.array(getattr(moved, name))
        values[..., only_first] = of_first[..., places[only_first]]
        columns[name] = values
    return replace(moved, **columns)


def came_back(queues: Index[Any], returned: Keys) -> Mask:
    """Per queue, whether it is one of those that came back."""
    return np.isin(queues.keys, returned)
