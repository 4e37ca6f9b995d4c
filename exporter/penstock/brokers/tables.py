"""From rows that were read to tables, as all kinds of brokers make them: what is known keeps its row, and its key."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

import numpy as np

from penstock.core.table import Column, Index, Keys, Positions, RowT, Table
from penstock.model import ConsumerRow, QueueKind, QueueRow, RingSource


class TableBuilder(Generic[RowT]):
    """Makes the table of one kind of thing at each poll."""

    def __init__(self) -> None:
        self.index: Index[RowT] = Index.empty()

    def __call__(
        self,
        keys: Keys,
        make: Callable[[int], RowT],
        columns: Mapping[str, Column],
        changed: Keys | None = None,
    ) -> tuple[Table[RowT], Positions]:
        """The table, and the order that brings what is sorted as `keys` into its order. make: the row of the thing
        at a position; asked for those that are new, or among the keys `changed`.
        """
        self.index, order = self.index.advance(
            keys, lambda new: [make(i) for i in new], changed=changed
        )
        return Table(
            self.index, {name: column[order] for name, column in columns.items()}
        ), order

    def of_made(
        self, keys: Keys, made: Sequence[RowT], columns: Mapping[str, Column]
    ) -> tuple[Table[RowT], Positions]:
        """The same where all rows are made already, whether or not they read as before."""
        rows_before = self.index.rows
        positions = self.index.positions(keys).tolist()
        stale = [
            number
            for number, (position, row) in enumerate(zip(positions, made, strict=True))
            if position >= 0
            and rows_before[position] is not row
            and rows_before[position] != row
        ]
        return self(keys, made.__getitem__, columns, keys[stale])


class NameJoin:
    """Keys of what consumers belong to by its name. Each is looked up once in a consumer's life, until it is found."""

    def __init__(self) -> None:
        self._index: Index[ConsumerRow] = Index.empty()
        self._against: object = None
        self._keys: Keys = np.empty(0, np.int64)

    def __call__(
        self,
        consumers: Table[ConsumerRow] | None,
        against: object,
        name: Callable[[ConsumerRow], str],
        keys_of: Callable[[Sequence[str]], Keys],
    ) -> Keys:
        """(consumers,) The key that each consumer names, -1 where there is none. against: the owner of the keys."""
        if consumers is None:
            return np.empty(0, np.int64)
        index = consumers.index
        if index is not self._index or against is not self._against:
            keys = index.carry(self._index, self._keys, -1)
            unknown = np.flatnonzero(keys < 0)
            if len(unknown):
                keys = keys.copy()
                keys[unknown] = keys_of([name(row) for row in index.rows[unknown]])
            self._index = index
            self._against = against
            self._keys = keys
        return self._keys


def subscription_row(name: str, address: str, durable: bool, selector: str) -> QueueRow:
    """A subscription of a topic as a queue of its address."""
    kind = QueueKind.SUBSCRIPTION
    ring = RingSource.NONE
    return QueueRow(
        name, address, "multicast", durable, not durable, selector, kind, ring, "", ""
    )
