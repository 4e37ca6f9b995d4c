"""Columnar tables with row identity that is stable from poll to poll."""

import difflib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

RowT = TypeVar("RowT")
CarriedT = TypeVar("CarriedT", bound=np.generic)
KnownT = TypeVar("KnownT", bound=Hashable)

EXACT = 2.0**53
"""Up to here a float64 holds every whole number; no count of messages or bytes gets there."""

Column = NDArray[np.float64]
"""One number per row; NaN = missing (the broker did not say, or its version lacks it). Never 0 for missing."""

Mask = NDArray[np.bool_]
"""Yes or no per row; or of shape (lines, rows)."""
Matrix = NDArray[np.float64]
"""Of shape (lines, rows)."""

SLACK = 64
"""By how much what is known by a name may be beyond a multiple of what is there, before what is gone is forgotten."""

BUCKETS = 2**16  # of hashes, by which rows are found before their texts are compared

ROWS_AT_ONCE = 5_000
"""Rows, as objects, that are moved in one go: half a millisecond."""

Keys = NDArray[np.int64]
Positions = NDArray[np.intp]

FEW = 10  # values: one in so many

PIECE = 250
"""Rows at which long work on texts and objects is cut: one call into C keeps Python's lock until it returns."""


def pieces(size: int, most: int = PIECE) -> Iterator[slice]:
    """The ranges of at most so many that are 0 to `size`."""
    return (slice(start, min(start + most, size)) for start in range(0, size, most))


def looked_up(
    known: Mapping[KnownT, int], texts: Sequence[KnownT]
) -> NDArray[np.int64]:
    """What is known by each of the texts, -1 where nothing is."""
    found = np.empty(len(texts), np.int64)
    for some in pieces(len(texts)):
        found[some] = np.fromiter(map(known.get, texts[some], repeat(-1)), np.int64)
    return found


class Index(Generic[RowT]):
    """The things of one kind seen in one poll, ascending by key.

    keys: int64, unique, ascending; the identity of a thing for as long as it lives.
    rows: object array, the identity values (names, texts) of each thing; the same object while nothing in it changes.
    origin: position of each row in the index that this one follows, -1 where the row is new or its text changed.
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
        self._of_rows: dict[str, tuple[Callable[[RowT], float], Column]] = {}
        self._located: tuple[object, Positions, Positions] | None = None

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Without what is computed of the rows: another process numbers texts otherwise."""
        kept = ("keys", "rows", "origin", "_parent", "_token")
        return None, {name: getattr(self, name) for name in kept} | {
            "_of_rows": {},
            "_located": None,
        }

    @classmethod
    def empty(cls) -> "Index[RowT]":
        return cls(
            np.empty(0, np.int64), np.empty(0, np.object_), np.empty(0, np.intp), None
        )

    @classmethod
    def of(cls, rows: Sequence[RowT]) -> "Index[RowT]":
        """An index of its own, keys 0…n-1; for tests and for tables too small to care."""
        return cls.empty().advance(
            np.arange(len(rows), dtype=np.int64), lambda new: [rows[i] for i in new]
        )[0]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows.tolist())

    def follows(self, other: "Index[RowT]") -> bool:
        """Whether `origin` speaks about positions in `other`."""
        return self._parent is other._token  # noqa: SLF001

    def advance(
        self,
        keys: Keys,
        make: Callable[[list[int]], Sequence[RowT]],
        *,
        changed: Keys | None = None,
    ) -> tuple["Index[RowT]", Positions]:
        """The index of the next poll, and the order that brings columns which are sorted as `keys` are into its order.

        keys: int64 in any order; a key that occurs twice counts once, the first.
        make: called once with the positions in `keys` of those that are new; returns their rows in that order.
        changed: keys whose rows must be made again, though known.
        Returns this very index when nothing came, went or changed.
        """
        ordered, order = ascending(keys)
        if (changed is None or not len(changed)) and np.array_equal(ordered, self.keys):
            return self, order
        origin = self.positions(ordered)
        if changed is not None and len(changed):
            origin[np.isin(ordered, changed)] = -1
        known = origin >= 0
        fresh = np.flatnonzero(origin < 0)
        if len(ordered) == len(self.keys) and not len(fresh):
            return self, order
        rows = np.empty(len(ordered), np.object_)
        for some in pieces(len(rows), ROWS_AT_ONCE):
            here = known[some]
            rows[some][here] = self.rows[origin[some][here]]
        for position, row in zip(fresh, make(order[fresh].tolist()), strict=True):
            rows[position] = row
        index: Index[RowT] = Index(ordered, rows, origin, self._token)
        for name, (number, column) in [
            *self._of_rows.items()
        ]:  # look-ups may add some meanwhile
            moved = take_or_fill(column, origin, np.nan, fresh)
            moved[fresh] = [number(row) for row in rows[fresh]]
            index._of_rows[name] = number, moved
        return index, order

    def column(self, name: str, number: Callable[[RowT], float]) -> Column:
        """`number` of each row, as a column; computed once in the life of a row, and kept under `name`."""
        if name not in self._of_rows:
            self._of_rows[name] = (
                number,
                np.fromiter(map(number, self.rows), np.float64, len(self.rows)),
            )
        return self._of_rows[name][1]

    def where(
        self, name: str, what: Callable[[RowT], Hashable], wanted: AbstractSet[Any]
    ) -> Positions:
        """Positions of the rows of which `what` is one of those `wanted`.

        Most are found apart by a bucket, which is computed once in the life of a row and kept under `name`.
        """
        if not wanted:
            return np.empty(0, np.intp)
        buckets = self.column(name, lambda row: hash(what(row)) % BUCKETS)
        sought = np.zeros(BUCKETS, np.bool_)
        sought[[hash(one) % BUCKETS for one in wanted]] = True
        at = np.flatnonzero(sought[buckets.astype(np.intp)])
        return at[np.array([what(row) in wanted for row in self.rows[at]], np.bool_)]

    def positions_in(self, before: "Index[RowT]") -> Positions:
        """Position of each key in `before`, -1 where it is new: who is the same thing, even if its text has changed."""
        return self._located_in(before)[1]

    def new_since(self, before: "Index[RowT]") -> Positions:
        """Where `positions_in` is -1."""
        return self._located_in(before)[2]

    def _located_in(self, before: "Index[RowT]") -> tuple[object, Positions, Positions]:
        if self._located is None or self._located[0] is not before._token:  # noqa: SLF001
            fresh = (
                np.flatnonzero(self.origin < 0)
                if self.follows(before)
                else np.arange(len(self))
            )
            at = self.origin.copy()
            at[fresh] = before.positions(self.keys[fresh])
            self._located = before._token, at, np.flatnonzero(at < 0)  # noqa: SLF001
        return self._located

    def positions(self, keys: Keys) -> Positions:
        """Position of each key, -1 where it is not here."""
        return positions(self.keys, keys)

    def unchanged_in(self, before: "Index[RowT]") -> Positions:
        """Position of each row in `before`, -1 where the row is new or its text another."""
        if self.follows(before):
            return self.origin
        at = before.positions(self.keys)
        known = np.flatnonzero(at >= 0)
        # An index that started again (another broker process) may use the same keys for other things.
        differs = [
            row != then
            for row, then in zip(self.rows[known], before.rows[at[known]], strict=True)
        ]
        at[known[np.array(differs, np.bool_)]] = -1
        return at

    def carry(
        self,
        before: "Index[RowT]",
        values: NDArray[CarriedT],
        fill: CarriedT | float | None,
    ) -> NDArray[CarriedT]:
        """`values`, in the order of the rows of `before`, in that of this index; `fill` where a row is new."""
        if before is self:
            return values
        return take_or_fill(values, self.unchanged_in(before), fill)


def positions(ascending: Keys, keys: Keys) -> Positions:
    """Position of each of `keys` in `ascending`, -1 where it is not there."""
    if not len(ascending):
        return np.full(len(keys), -1, np.intp)
    if np.array_equal(ascending, keys):
        return np.arange(len(keys))
    at = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    return np.where(ascending[at] == keys, at, -1)


def ascending(keys: Keys) -> tuple[Keys, Positions]:
    """`keys` in their order, each once, and where each occurred first."""
    if (keys[1:] > keys[:-1]).all():  # as a broker lists them
        return keys, np.arange(len(keys))
    order = np.argsort(keys)
    ordered = keys[order]
    # A sort that keeps the order of equals takes five times as long.
    return (
        (ordered, order)
        if (ordered[1:] > ordered[:-1]).all()
        else np.unique(keys, return_index=True)
    )


def take_or_fill(
    values: NDArray[CarriedT],
    origin: Positions,
    fill: Any,
    new: Positions | None = None,
) -> NDArray[CarriedT]:
    """`values` at the positions `origin` along the last axis, `fill` where that is -1 (`new`, if known)."""
    if not values.shape[-1]:
        return np.full((*values.shape[:-1], len(origin)), fill, values.dtype)
    # Nearly all rows are known: one take and a few corrections cost a third of two masks.
    moved = values.take(origin, axis=-1)
    moved[..., np.flatnonzero(origin < 0) if new is None else new] = fill
    return moved


def put(
    values: NDArray[CarriedT], where: Mask | np.bool_, numbers: Any
) -> NDArray[CarriedT]:
    """`values`, but `numbers` (one, or as many) `where` that is so; the very array where it never is."""
    if not (count := np.count_nonzero(where)):
        return values
    if FEW * count > values.size:
        return np.where(where, numbers, values)
    after = values.copy()  # for few it takes half the time
    np.copyto(after, numbers, where=where)
    return after


@dataclass(frozen=True, slots=True)
class Join:
    """`at`: position in `target` of what each row of `source` names by key, -1 where it is not there."""

    source: Index[Any] = field(default_factory=Index.empty)
    target: Index[Any] = field(default_factory=Index.empty)
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(self, source: Index[Any], target: Index[Any], keys: Keys) -> "Join":
        """The join of the next poll. keys: what each row of `source` names, by `target.keys`."""
        if not len(target):
            return Join(source, target, np.full(len(source), -1, np.intp))
        at = self.at
        if source is not self.source:
            at = take_or_fill(
                at, source.positions_in(self.source), -1, source.new_since(self.source)
            )
        if target is not self.target:
            at = np.append(target.positions(self.target.keys), -1)[at]
        # Nearly all name the same as before: to look is a tenth of searching.
        elsewhere = np.flatnonzero((target.keys[at] != keys) | (at < 0))
        if len(elsewhere):
            at = at.copy()
            at[elsewhere] = target.positions(keys[elsewhere])
        return Join(source, target, at)


def declared(names: str) -> frozenset[str]:
    """For `COLUMNS` of a type of rows: its columns' names, divided by blanks."""
    return frozenset(names.split())


class UnknownColumn(KeyError):
    """The rows of a table have no such column: `COLUMNS` of their type does not name it."""


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT]):
    """An index and its columns, each as long as the index. A column that is not there is missing as a whole; one that
    the rows' type does not declare in its `COLUMNS` raises UnknownColumn.
    """

    index: Index[RowT]
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, name: str) -> bool:
        if name in self.columns:
            return True
        self._check(name)
        return False

    def __getitem__(self, name: str) -> Column:
        """The column, all NaN when it is missing."""
        column = self.columns.get(name)
        if column is not None:
            return column
        self._check(name)
        return np.full(len(self.index), np.nan)

    def _check(self, name: str) -> None:
        """Raises UnknownColumn. Of an empty table, and of rows that declare nothing, any column may be missing."""
        if len(self.index):
            rows = type(self.index.rows[0])
            columns = getattr(rows, "COLUMNS", (name,))
            if name not in columns:
                near = " or ".join(difflib.get_close_matches(name, columns))
                hint = f"; did you mean {near}?" if near else ""
                raise UnknownColumn(f"{rows.__name__} has no column {name!r}{hint}")


class KeyAllocator(Generic[KnownT]):
    """Keys for things known by a text, or by labels: the same one has the same key for as long as it is in use."""

    def __init__(self) -> None:
        self._keys: dict[KnownT, int] = {}
        self._next = 0

    def __call__(self, texts: Sequence[KnownT]) -> Keys:
        """int64 keys of `texts`, which are all that are in use; one not seen before gets one higher than all so far."""
        keys = self.give(texts)
        self.keep(keys)
        return keys

    def give(self, texts: Sequence[KnownT]) -> Keys:
        """The same of some of the texts that are in use."""
        found = self.find(texts)
        for at in np.flatnonzero(found < 0).tolist():
            found[at] = key = self._keys.setdefault(texts[at], self._next)
            self._next += key == self._next
        return found

    def keep(self, keys: Keys) -> None:
        """Forget all but `keys`, once those are the lesser part."""
        if len(self._keys) > 2 * len(keys) + SLACK:
            in_use = set(keys.tolist())
            self._keys = {
                text: key for text, key in self._keys.items() if key in in_use
            }

    def find(self, texts: Sequence[KnownT]) -> Keys:
        """int64 keys of `texts`, -1 where a text has none."""
        return looked_up(self._keys, texts)
