"""Rows of made-up brokers that keep their identity from poll to poll, as a reader's do."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core.table import Index, Table

Numbers = Mapping[str, Any]


class Things:
    """Tables of one kind of thing by name, poll by poll, on an index that is followed as a reader does."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._index: Index[Any] = Index.empty()

    def key(self, name: str) -> int:
        return self._keys.setdefault(name, len(self._keys) + 1)

    def forget(self, name: str) -> None:
        """The next thing of this name is another one."""
        self._keys[name] = max(self._keys.values()) + 1

    def again(self) -> "Things":
        """As a reader has them of another process of the broker: with other keys."""
        other = Things()
        other._keys = dict(zip(self._keys, reversed(self._keys.values()), strict=True))
        return other

    def table(
        self, rows: Mapping[str, Any], numbers: Mapping[str, Numbers], zero: Numbers
    ) -> Table[Any]:
        names = list(rows)
        keys = np.array([self.key(name) for name in names], np.int64)
        at = self._index.positions(keys)
        changed = [
            k
            for k, name, i in zip(keys, names, at, strict=True)
            if i >= 0 and self._index.rows[i] != rows[name]
        ]
        self._index, order = self._index.advance(
            keys,
            lambda new: [rows[names[i]] for i in new],
            changed=np.array(changed, np.int64),
        )
        columns = dict.fromkeys(
            [*zero, *(column for said in numbers.values() for column in said)]
        )
        values = {
            column: np.array(
                [{**zero, **numbers[name]}.get(column, np.nan) for name in names],
                np.float64,
            )[order]
            for column in columns
        }
        return Table(self._index, values)
