"""Books of queues that a listing lacked, for their return: a queue whose row is missing once was not destroyed.

A broker or a proxy in front of it may leave rows out of an answer. A queue that comes back with the same id is the same
queue, and its counters have gone on; so its account goes on, too. It comes back as after a restart of the agent: with
the numbers that are saved in checkpoints, and without those that rest on the polls just before. *Unlisted* are the
queues that an earlier poll listed and this one does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from penstock.core.state import RowState, declared, with_fields
from penstock.core.table import Index, Keys, Mask, Positions
from penstock.model import AddressRow, QueueRow

StateT = TypeVar("StateT", bound=RowState)

MOST_LISTINGS = 20
"""Changes of the listing after which the books of an unlisted queue are given up: it does not come back."""


@dataclass(frozen=True, slots=True)
class UnlistedRows:
    """The books of unlisted queues, as the last poll that listed each has left them."""

    index: Index[object] = field(default_factory=Index.empty)
    """The queues that are kept."""
    parts: Mapping[str, RowState] = field(default_factory=dict)
    """Their books, by the field of the account."""
    listings: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    """(queues,) How many times the listing has changed since each was listed."""

    def returning(self, queues: Index[object], before: Index[object]) -> Positions:
        """Return positions in `index` of the queues that are listed again.

        These are listed now, were not at the poll before, and are the same queue, not another one with the same key.
        queues, before: the queues of this poll and of the poll before; one object while the listing stays the same.
        """
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
        self,
        parts: Mapping[str, RowState],
        before: Index[object],
        queues: Index[object],
    ) -> "UnlistedRows":
        """Return the rows with the queues that the listing lacks now, and without those that came back.

        A queue that has been away for `MOST_LISTINGS` changes of the listing is dropped.

        Args:
            parts: the books by the rows of `before`.
            before: the queues of the poll before.
            queues: the queues of this poll; the same object while the listing stays the same.
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

    def kept(self, name: str, part: RowState, index: Index[object]) -> RowState:
        """Return one part of the books for the unlisted queues, by the rows of `index`.

        name: its field in the account. part: with the numbers of queues that the poll before listed; those of queues
        that were unlisted already are in `parts`.
        """
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
    first: Index[object],
    of_first: Positions,
    second: Index[object],
    of_second: Positions,
) -> Index[object]:
    """Return a new index: of the first its rows at `of_first`, then of the second those at `of_second`.

    The two have no key in common.
    """
    keys = np.append(first.keys[of_first], second.keys[of_second])
    rows = np.append(first.rows[of_first], second.rows[of_second])
    index, _ = Index[object].empty().advance(keys, lambda new: [rows[i] for i in new])
    return index


def joined(
    first: StateT, second: StateT, index: Index[object], *, saved_only: bool = False
) -> StateT:
    """Return `second` by the rows of `index`; rows that only `first` has get their numbers from there.

    saved_only: from `first` only the numbers that are saved in checkpoints; the others begin with their fill value.
    """
    moved = second.reindexed(index)
    positions = first.index.positions(index.keys)
    not_in_second = second.index.positions(index.keys) < 0
    only_first = (positions >= 0) & not_in_second
    if not only_first.any():
        return moved
    columns = {}
    for name, declaration in declared(type(moved)).items():
        is_saved = bool(declaration.names)  # by these names it is in a checkpoint
        if saved_only and not is_saved:
            continue
        earlier = getattr(first, name)
        values = np.array(getattr(moved, name))
        values[..., only_first] = earlier[..., positions[only_first]]
        columns[name] = values
    return with_fields(moved, columns)


def came_back(queues: Index[object], returned: Keys) -> Mask:
    """(queues,) True where the queue came back. returned: the keys of those."""
    return np.isin(queues.keys, returned)
