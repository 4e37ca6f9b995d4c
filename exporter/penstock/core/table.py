"""Columnar tables with row identity that is stable from poll to poll.

A *thing* (a queue, a consumer …) has the same *key* at each poll. Its *position*, the place among the rows of one poll,
changes when others come and go: so numbers that are remembered by position must be moved to the positions of the next
poll. `origin` says from where: for each row its position before, -1 where it is new.
"""

import difflib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

RowT = TypeVar("RowT")
RowT_co = TypeVar("RowT_co", covariant=True)
"""The type of the rows: an index of queues is an index of objects, so nothing but `advance` takes rows."""
CarriedT = TypeVar("CarriedT", bound=np.generic)
KnownT = TypeVar("KnownT", bound=Hashable)

EXACT = 2.0**53
"""Up to here a float64 holds every whole number; no count of messages or bytes gets there."""

Column = NDArray[np.float64]
"""One number per row; NaN = missing (the broker did not say, or its version lacks it). Never 0 for missing."""

Mask = NDArray[np.bool_]
"""(rows,) or (lines, rows) Yes or no."""
Matrix = NDArray[np.float64]
"""(lines, rows) Numbers."""

SLACK = 64
"""A `KeyAllocator` forgets names only when it has so many more than twice those in use."""

BUCKETS = 2**16
"""Buckets of hashes: rows are found by them before their texts are compared."""

ROWS_AT_ONCE = 5_000
"""So many rows, as objects, are moved in one call, which takes half a millisecond: other threads wait meanwhile."""

Keys = NDArray[np.int64]
Positions = NDArray[np.intp]

FEW = 10
"""`put` corrects a copy where fewer than one value in so many changes."""

PIECE = 250
"""Long work on texts and objects is cut after so many rows: one call into C keeps Python's lock until it returns."""


def pieces(size: int, most: int = PIECE) -> Iterator[slice]:
    """Return the ranges that 0 to `size` is cut into, each of at most so many.

    For example `pieces(5, 2)`: 0 to 2, 2 to 4, 4 to 5.
    """
    return (slice(start, min(start + most, size)) for start in range(0, size, most))


def looked_up(
    numbers: Mapping[KnownT, int], texts: Sequence[KnownT]
) -> NDArray[np.int64]:
    """(texts,) The number of each text, -1 where it has none."""
    result = np.empty(len(texts), np.int64)
    for piece in pieces(len(texts)):
        values = map(numbers.get, texts[piece], repeat(-1))
        result[piece] = np.fromiter(values, np.int64)
    return result


class Index(Generic[RowT_co]):
    """The things of one kind at one poll, ascending by key.

    Attributes:
        keys: (rows,) unique, ascending: the identity of a thing for as long as it lives.
        rows: (rows,) The names and texts of each thing, as an object: the same object while nothing in it changes.
        origin: (rows,) The position of each row in the index that this one follows, -1 where the row is new or its text
            has changed.
    """

    __slots__ = ("_located", "_of_rows", "_parent", "_token", "keys", "origin", "rows")

    def __init__(
        self,
        keys: Keys,
        rows: NDArray[np.object_],
        origin: Positions,
        parent: object | None,
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.origin = origin
        self._parent = parent
        self._token = object()
        self._of_rows: dict[str, tuple[Callable[[RowT_co], float], Column]] = {}
        self._located: tuple[object, Positions, Positions] | None = None

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Return the state without the numbers of the rows: another process has other hashes of texts."""
        names = ("keys", "rows", "origin", "_parent", "_token")
        state = {name: getattr(self, name) for name in names}
        return None, state | {"_of_rows": {}, "_located": None}

    @classmethod
    def empty(cls) -> "Index[RowT_co]":
        return cls(
            np.empty(0, np.int64), np.empty(0, np.object_), np.empty(0, np.intp), None
        )

    @classmethod
    def of(cls, rows: Sequence[RowT_co]) -> "Index[RowT_co]":
        """Return an index that follows no other, with keys 0…n-1; for tests and for small tables."""
        keys = np.arange(len(rows), dtype=np.int64)
        index, _ = cls.empty().advance(keys, lambda new: [rows[row] for row in new])
        return index

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[RowT_co]:
        return iter(self.rows.tolist())

    def follows(self, other: "Index[object]") -> bool:
        """Return whether `origin` has positions in `other`."""
        return self._parent is other._token  # noqa: SLF001

    def advance(
        self: "Index[RowT]",
        keys: Keys,
        make: Callable[[list[int]], Sequence[RowT]],
        *,
        changed: Keys | None = None,
    ) -> tuple["Index[RowT]", Positions]:
        """Return the index of the next poll, and the order that brings columns from the order of `keys` into its own.

        Args:
            keys: The keys of the poll, in any order; a key that occurs twice counts once, the first.
            make: Called once with the positions in `keys` of those that are new; returns their rows in that order.
            changed: Keys whose rows must be made again, though they are known.

        Returns:
            This very index where no thing came, went or changed.
        """
        ordered, order = ascending(keys)
        changed_keys = np.empty(0, np.int64) if changed is None else changed
        if not len(changed_keys) and np.array_equal(ordered, self.keys):
            return self, order
        origin = self.positions(ordered)
        if len(changed_keys):
            origin[np.isin(ordered, changed_keys)] = -1
        fresh = np.flatnonzero(origin < 0)
        # No row is new and none is missing: the keys that changed are those of things that are not here.
        if len(ordered) == len(self.keys) and not len(fresh):
            return self, order
        rows = self._rows_at(origin)
        for position, row in zip(fresh, make(order[fresh].tolist()), strict=True):
            rows[position] = row
        index: Index[RowT] = Index(ordered, rows, origin, self._token)
        index._of_rows = self._numbers_at(origin, rows, fresh)
        return index, order

    def _rows_at(self, origin: Positions) -> NDArray[np.object_]:
        """Return the rows at these positions; None where the position is -1."""
        rows = np.empty(len(origin), np.object_)
        for piece in pieces(len(rows), ROWS_AT_ONCE):
            positions = origin[piece]
            is_known = positions >= 0
            rows[piece][is_known] = self.rows[positions[is_known]]
        return rows

    def _numbers_at(
        self, origin: Positions, rows: NDArray[np.object_], fresh: Positions
    ) -> dict[str, tuple[Callable[[RowT_co], float], Column]]:
        """Return the numbers that `column` has remembered, for the rows of the next index.

        Only those of new rows are computed.

        Args:
            origin: (next rows,) The position of each here, -1 where it is new.
            rows: (next rows,) Themselves.
            fresh: The positions of those that are new.
        """
        remembered = [*self._of_rows.items()]  # look-ups may add some meanwhile
        carried: dict[str, tuple[Callable[[RowT_co], float], Column]] = {}
        for name, (number, column) in remembered:
            values = take_or_fill(column, origin, np.nan, fresh)
            values[fresh] = [number(row) for row in rows[fresh]]
            carried[name] = number, values
        return carried

    def column(self, name: str, number: Callable[[RowT_co], float]) -> Column:
        """(rows,) The number of each row. It is computed once for each row object, and remembered under `name`."""
        if name not in self._of_rows:
            values = np.fromiter(map(number, self.rows), np.float64, len(self.rows))
            self._of_rows[name] = number, values
        return self._of_rows[name][1]

    def where(
        self: "Index[RowT]",
        name: str,
        value_of: Callable[[RowT], Hashable],
        wanted: AbstractSet[object],
    ) -> Positions:
        """Return the positions of the rows whose value is one of those that are wanted.

        Values are compared only for rows whose hash falls into the same bucket as that of a wanted one. The bucket of a
        row is computed once and remembered under `name`.
        """
        if not wanted:
            return np.empty(0, np.intp)
        buckets = self.column(name, lambda row: hash(value_of(row)) % BUCKETS)
        is_wanted_bucket = np.zeros(BUCKETS, np.bool_)
        is_wanted_bucket[[hash(value) % BUCKETS for value in wanted]] = True
        candidates = np.flatnonzero(is_wanted_bucket[buckets.astype(np.intp)])
        is_wanted = [value_of(row) in wanted for row in self.rows[candidates]]
        return candidates[np.array(is_wanted, np.bool_)]

    def positions_in(self, before: "Index[object]") -> Positions:
        """(rows,) The position of each thing in `before`, -1 where it is new; its text may have changed."""
        return self._located_in(before)[1]

    def new_since(self, before: "Index[object]") -> Positions:
        """Return the positions of the things that are not in `before`."""
        return self._located_in(before)[2]

    def _located_in(
        self, before: "Index[object]"
    ) -> tuple[object, Positions, Positions]:
        """Return the token of `before`, the positions of `positions_in` and those of `new_since`.

        Much state is moved from the same index to this one: the last result is remembered.
        """
        if self._located is None or self._located[0] is not before._token:  # noqa: SLF001
            positions = self._positions_by_key(before)
            new = np.flatnonzero(positions < 0)
            self._located = before._token, positions, new  # noqa: SLF001
        return self._located

    def _positions_by_key(self, before: "Index[object]") -> Positions:
        """(rows,) The position of each key in `before`, -1 where it is not there."""
        if not self.follows(before):
            return before.positions(self.keys)
        # A row without an origin is new, or a thing that was there with another text: only these need a search.
        searched = np.flatnonzero(self.origin < 0)
        positions = self.origin.copy()
        positions[searched] = before.positions(self.keys[searched])
        return positions

    def positions(self, keys: Keys) -> Positions:
        """(keys,) The position of each key, -1 where it is not here."""
        return positions(self.keys, keys)

    def unchanged_in(self, before: "Index[object]") -> Positions:
        """(rows,) The position of each row in `before`, -1 where it is new or has another text."""
        if self.follows(before):
            return self.origin
        positions = before.positions(self.keys)
        shared = np.flatnonzero(positions >= 0)
        # An index that started again (another broker process) may use the same keys for other things.
        pairs = zip(self.rows[shared], before.rows[positions[shared]], strict=True)
        differs = np.array([row != row_before for row, row_before in pairs], np.bool_)
        positions[shared[differs]] = -1
        return positions

    def carry(
        self,
        before: "Index[object]",
        values: NDArray[CarriedT],
        fill: CarriedT | float | None,
    ) -> NDArray[CarriedT]:
        """Return values by the rows of `before` in the order of this index; `fill` where a row is new."""
        if before is self:
            return values
        return take_or_fill(values, self.unchanged_in(before), fill)


def positions(ascending: Keys, keys: Keys) -> Positions:
    """(keys,) The position of each of `keys` in `ascending`, -1 where it is not there."""
    if not len(ascending):
        return np.full(len(keys), -1, np.intp)
    if np.array_equal(ascending, keys):
        return np.arange(len(keys))
    last = len(ascending) - 1
    candidates = np.minimum(np.searchsorted(ascending, keys), last)
    return np.where(ascending[candidates] == keys, candidates, -1)


def ascending(keys: Keys) -> tuple[Keys, Positions]:
    """Return the keys in ascending order, each once, and the position at which each occurs first."""
    if (keys[1:] > keys[:-1]).all():  # as a broker lists them
        return keys, np.arange(len(keys))
    order = np.argsort(keys)
    ordered = keys[order]
    if (ordered[1:] > ordered[:-1]).all():
        return ordered, order
    # A key occurs twice, and the first place counts: only a stable sort, which takes five times as long, finds it.
    return np.unique(keys, return_index=True)


def take_or_fill(
    values: NDArray[CarriedT],
    origin: Positions,
    fill: Any,  # None too, among objects
    new: Positions | None = None,
) -> NDArray[CarriedT]:
    """Return the values at the positions `origin` along the last axis; `fill` where the position is -1.

    For example `take_or_fill([5, 6], [1, -1, 0], 9)`: 6, 9, 5.

    Args:
        values: (…, rows before)
        origin: (rows,) The position of each row before, -1 where it is new.
        fill: The value of new rows.
        new: Where the origin is -1, if the caller knows.
    """
    if not values.shape[-1]:
        return np.full((*values.shape[:-1], len(origin)), fill, values.dtype)
    # Nearly all rows are known: one take and a few corrections cost a third of two masks. For -1 it takes the last
    # value, which `fill` replaces.
    moved = values.take(origin, axis=-1)
    if new is None:
        new = np.flatnonzero(origin < 0)
    moved[..., new] = fill
    return moved


def put(
    values: NDArray[CarriedT], where: Mask | np.bool_, numbers: ArrayLike
) -> NDArray[CarriedT]:
    """Return the values with `numbers` at the places `where`; the same array, not a copy, where there is no such place.

    For example `put([5, 6], [False, True], 9)`: 5, 9. numbers: one, or as many as values.
    """
    count = np.count_nonzero(where)
    if not count:
        return values
    if FEW * count > values.size:
        return np.where(where, numbers, values)
    after = values.copy()  # for few it takes half the time
    np.copyto(after, numbers, where=where)
    return after


@dataclass(frozen=True, slots=True)
class Join:
    """From the rows of one index to those of another that they name, as each consumer names its queue.

    Attributes:
        source: The rows that name others.
        target: The rows that are named.
        at: (source rows,) The position in `target` of the row that each names, -1 where it is not there.
    """

    source: Index[object] = field(default_factory=Index.empty)
    target: Index[object] = field(default_factory=Index.empty)
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(
        self, source: Index[object], target: Index[object], keys: Keys
    ) -> "Join":
        """Return the join of the next poll. keys: (source rows,) the key in `target` that each row names."""
        if not len(target):
            return Join(source, target, np.full(len(source), -1, np.intp))
        positions = self.at
        if source is not self.source:
            origin = source.positions_in(self.source)
            new = source.new_since(self.source)
            positions = take_or_fill(positions, origin, -1, new)
        if target is not self.target:
            # The element at the end, which the position -1 takes, is for rows that name none.
            positions_now = np.append(target.positions(self.target.keys), -1)
            positions = positions_now[positions]
        # Nearly all name the same row as before: to compare is a tenth of searching.
        is_wrong = (target.keys[positions] != keys) | (positions < 0)
        searched = np.flatnonzero(is_wrong)
        if len(searched):
            positions = positions.copy()
            positions[searched] = target.positions(keys[searched])
        return Join(source, target, positions)


def declared(names: str) -> frozenset[str]:
    """Return the names of columns, for `COLUMNS` of a type of rows. names: divided by blanks."""
    return frozenset(names.split())


class UnknownColumn(KeyError):
    """The rows of a table have no such column: `COLUMNS` of their type does not name it."""


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT_co]):
    """An index and its columns, each as long as the index.

    A column that is not there is missing as a whole; one that the rows' type does not declare in its `COLUMNS` raises
    UnknownColumn.
    """

    index: Index[RowT_co]
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, name: str) -> bool:
        if name in self.columns:
            return True
        self._check(name)
        return False

    def __getitem__(self, name: str) -> Column:
        """(rows,) The column; all NaN where it is missing."""
        column = self.columns.get(name)
        if column is not None:
            return column
        self._check(name)
        return np.full(len(self.index), np.nan)

    def _check(self, name: str) -> None:
        """Raise UnknownColumn where the rows do not declare the column; an empty table may lack any column."""
        if not len(self.index):
            return
        kind = type(self.index.rows[0])
        columns = getattr(kind, "COLUMNS", (name,))
        if name not in columns:
            similar = " or ".join(difflib.get_close_matches(name, columns))
            hint = f"; did you mean {similar}?" if similar else ""
            raise UnknownColumn(f"{kind.__name__} has no column {name!r}{hint}")


class KeyAllocator(Generic[KnownT]):
    """Keys for texts, or for labels: the same text has the same key for as long as it is in use."""

    def __init__(self) -> None:
        self._keys: dict[KnownT, int] = {}
        self._next = 0

    def __call__(self, texts: Sequence[KnownT]) -> Keys:
        """(texts,) The keys of all texts that are in use; a new text gets a key above all that were given so far."""
        keys = self.give(texts)
        self.keep(keys)
        return keys

    def give(self, texts: Sequence[KnownT]) -> Keys:
        """(texts,) The key of each text; a new text gets a key above all that were given so far.

        Unlike a call, it forgets no key: the texts may be only some of those in use.
        """
        keys = self.find(texts)
        for position in np.flatnonzero(keys < 0).tolist():
            key = self._keys.setdefault(texts[position], self._next)
            keys[position] = key
            is_new = key == self._next  # a new text may occur twice in `texts`
            self._next += is_new
        return keys

    def keep(self, keys: Keys) -> None:
        """Forget all keys but these, once they are less than half of those that are remembered: seldom, as it costs."""
        if len(self._keys) > 2 * len(keys) + SLACK:
            in_use = set(keys.tolist())
            self._keys = {
                text: key for text, key in self._keys.items() if key in in_use
            }

    def find(self, texts: Sequence[KnownT]) -> Keys:
        """(texts,) The key of each text, -1 where it has none."""
        return looked_up(self._keys, texts)
