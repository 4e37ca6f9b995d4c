"""Books of queues that a listing lacked, for their return: a queue whose row is missing once was not destroyed.

A broker or a proxy in front of it may leave rows out of an answer. A queue that comes back with the same id is the same
queue, and its counters have gone on; so its account goes on, too. It comes back as after a restart of the agent: with
the numbers that are saved, and without those that rest on the polls just before.
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
    index: Index[Any] = field(default_factory=Index.empty)
    """The queues that are kept."""
    parts: Mapping[str, RowState] = field(default_factory=dict)
    """Their books, by the field of the account."""
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    """(queues,) Changes of the listing for which each has been away."""

    def returning(self, queues: Index[Any], before: Index[Any]) -> Positions:
        """Return positions in `index` of the queues that are listed again. before: the queues of the poll before."""
        if not len(self.index) or queues is before:
            return np.empty(0, np.intp)
        positions = queues.positions(self.index.keys)
        was_absent = before.positions(self.index.keys) < 0
        candidates = np.flatnonzero((positions >= 0) & was_absent)
        is_back = [
            is_same(self.index.rows[i], queues.rows[positions[i]])
            for i in candidates.tolist()
        ]
        return candidates[np.array(is_back, np.bool_)]

    def after(
        self, parts: Mapping[str, RowState], before: Index[Any], queues: Index[Any]
    ) -> "UnlistedRows":
        """Return the rows with the queues that the listing lacks now, and without those that came back.

        Args:
            parts: the books by the rows of `before`.
            before: the queues of the poll before.
            queues: of this poll.
        """
        if queues is before:
            return self
        lacking = np.flatnonzero(queues.positions(before.keys) < 0)
        is_absent = queues.positions(self.index.keys) < 0
        stay = np.flatnonzero(is_absent & (self.listings < MOST_LISTINGS))
        if not len(lacking) and len(stay) == len(self.index):
            return replace(self, listings=self.listings + 1)
        index = with_rows(self.index, stay, before, lacking)
        listings = np.zeros(len(index), np.int64)
        stay_positions = index.positions(self.index.keys[stay])
        listings[stay_positions] = self.listings[stay] + 1
        kept = {name: self.kept(name, part, index) for name, part in parts.items()}
        return UnlistedRows(index, kept, listings)

    def kept(self, name: str, part: RowState, index: Index[Any]) -> RowState:
        """Return a part of the books by the rows of `index`, with the numbers that are kept."""
        earlier = self.parts.get(name)
        if earlier is None:
            return part.reindexed(index)
        return joined(earlier, part, index)


def is_same(before: QueueRow | AddressRow, now: QueueRow | AddressRow) -> bool:
    """Return whether both are the same queue, or the same address."""
    address_before = getattr(before, "address", "")
    address_now = getattr(now, "address", "")
    return before.name == now.name and address_before == address_now


def with_rows(
    first: Index[Any], of_first: Positions, second: Index[Any], of_second: Positions
) -> Index[Any]:
    """Return a new index of some rows of two indexes that have no key in common."""
    keys = np.append(first.keys[of_first], second.keys[of_second])
    rows = np.append(first.rows[of_first], second.rows[of_second])
    index, _ = Index[Any].empty().advance(keys, lambda new: [rows[i] for i in new])
    return index


def joined(
    first: StateT, second: StateT, index: Index[Any], *, saved_only: bool = False
) -> StateT:
    """Return `second` by the rows of `index`, with the numbers of `first` in the rows that only `first` has.

    saved_only: only those numbers of `first` that outlive the agent.
    """
    moved = second.reindexed(index)
    positions = first.index.positions(index.keys)
    not_in_second = second.index.positions(index.keys) < 0
    only_first = (positions >= 0) & not_in_second
    if not only_first.any():
        return moved
    columns: dict[str, Any] = {}
    for name, declaration in declared(type(moved)).items():
        if saved_only and not declaration.names:
            continue
        earlier = getattr(first, name)
        values = np.array(getattr(moved, name))
        values[..., only_first] = earlier[..., positions[only_first]]
        columns[name] = values
    return replace(moved, **columns)


def came_back(queues: Index[Any], returned: Keys) -> Mask:
    """(queues,) True for those that came back."""
    return np.isin(queues.keys, returned)
