"""State by row, declared once: how it goes on from poll to poll, and over a restart of the agent, follows from that.

Each field of a `RowState` is a `column`, a `mask`, or `unindexed`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from penstock.core.table import Column, Index, Mask
from penstock.core.windows import reindex


class By(StrEnum):
    """The rows by which state outlives the agent; a checkpoint has a table for each."""

    QUEUE = "queue"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Declared:
    """How a field goes on.

    fill: its value where nothing is known. lines: it is a matrix (lines, rows); 0: one column. outlives: a row that
    begins a new life keeps it. carried: it is needed at the next poll; else it is filled until it is made. names: of
    its columns in a checkpoint, none when it ends with the agent.
    """

    fill: float
    names: tuple[str, ...]
    dtype: DTypeLike = np.float64
    lines: int = 0
    outlives: bool = False
    carried: bool = True
    saved: bool = True
    counter: bool = False

    def filled(self, rows: int) -> NDArray[Any]:
        """For so many rows; cannot be written to."""
        return np.broadcast_to(
            np.array(self.fill, self.dtype),
            (self.lines, rows) if self.lines else (rows,),
        )

    def restored(self, columns: Mapping[str, Column], rows: int) -> NDArray[Any]:
        """Of columns of a checkpoint, by so many rows; the fill value where a number or a column is missing."""
        if not self.names:
            return self.filled(rows)
        nothing = np.full(rows, np.nan)
        values = np.stack([columns.get(name, nothing) for name in self.names])
        values = np.where(np.isnan(values), self.fill, values).astype(self.dtype)
        return values if self.lines else values[0]


class How(TypedDict, total=False):
    """Fields of `Declared` that a declaration may give."""

    lines: int
    outlives: bool
    carried: bool
    saved: bool


def column(
    fill: float = np.nan,
    dtype: DTypeLike = np.float64,
    *,
    stored_as: str | tuple[str, ...] = (),
    counter: bool = False,
    **how: Unpack[How],
) -> NDArray[Any]:
    """One number per row, or `lines` of them; see `Declared`.

    stored_as: the names in a checkpoint, else `STORED_AS` and the field's name, with the number of the line.
    """
    names = (
        ((stored_as,) if stored_as else ()) if isinstance(stored_as, str) else stored_as
    )
    declared = Declared(fill, names, dtype, counter=counter, **how)
    empty = declared.filled(0).copy()
    made: NDArray[Any] = field(
        default_factory=lambda: empty, metadata={"declared": declared}
    )
    return made


def counter(
    fill: float = np.nan, *, stored_as: str | tuple[str, ...] = (), **how: Unpack[How]
) -> NDArray[np.float64]:
    """A column that is shown as a counter, or that one rests on: each change is recorded at once."""
    return column(fill, stored_as=stored_as, counter=True, **how)


def mask(*, stored_as: str = "", **how: Unpack[How]) -> Mask:
    """Yes or no per row, no where nothing is known."""
    return column(0.0, np.bool_, stored_as=stored_as, **how)


def unindexed(made: Callable[[], Any]) -> Any:
    """What is not by row: reindexing and restoring leave it as it is, and nothing saves it."""
    return field(default_factory=made, metadata={"declared": None})


@dataclass(frozen=True, slots=True)
class RowState:
    """What is known of each row of `index`."""

    index: Index[Any] = field(default_factory=Index.empty)

    BY: ClassVar[By | None] = None
    """What the rows are; None where nothing of it outlives the agent."""
    STORED_AS: ClassVar[str] = ""
    """What the names of its columns in a checkpoint begin with."""

    def reindexed(self, index: Index[Any], known: Mask | None = None) -> Self:
        """A new row has the fill values. known: rows in the same life; the others keep only what outlives it."""
        begun = np.empty(0, np.intp) if known is None else np.flatnonzero(~known)
        if index is self.index and not len(begun):
            return self
        moved: dict[str, Any] = {}
        for name, one in declared(type(self)).items():
            if not one.carried:
                moved[name] = one.filled(len(index))
                continue
            values = reindex(index, self.index, getattr(self, name), one.fill)
            if len(begun) and not one.outlives:
                values = values.copy() if index is self.index else values
                values[..., begun] = one.fill
            moved[name] = values
        return replace(self, index=index, **moved)

    def begun_anew(self) -> Self:
        """Every row begins a new life."""
        return self.reindexed(self.index, np.zeros(len(self.index), np.bool_))

    def saved(self) -> dict[str, Column]:
        """What outlives the agent, by the names in a checkpoint."""
        found: dict[str, Column] = {}
        for name, one in declared(type(self)).items():
            if one.names:
                lines = np.atleast_2d(getattr(self, name)).astype(
                    np.float64, copy=False
                )
                found |= dict(zip(one.names, lines, strict=True))
        return found

    def restored(self, index: Index[Any], columns: Mapping[str, Column]) -> Self:
        """From columns by the rows of `index`, with what is not by row; as it is where none of them is its own."""
        own = declared(type(self))
        if not any(name in columns for one in own.values() for name in one.names):
            return self
        values: dict[str, Any] = {
            name: one.restored(columns, len(index)) for name, one in own.items()
        }
        return replace(self, index=index, **values)


_DECLARED: dict[type[RowState], Mapping[str, Declared]] = {}


def declared(kind: type[RowState]) -> Mapping[str, Declared]:
    """The fields of a kind of state that are by row; TypeError where a declaration is missing."""
    if kind not in _DECLARED:
        said = {
            one.name: one.metadata.get("declared", one)
            for one in fields(kind)
            if one.name != "index"
        }
        _DECLARED[kind] = {
            name: _named(kind, name, one)
            for name, one in said.items()
            if one is not None
        }
    return _DECLARED[kind]


def _named(kind: type[RowState], name: str, one: object) -> Declared:
    """With the names of its columns in a checkpoint."""
    if not isinstance(one, Declared):
        raise TypeError(
            f"{kind.__name__}.{name} is neither column nor mask nor unindexed"
        )
    if not one.saved or (
        kind.BY is None and "BY" in vars(kind)
    ):  # BY = None: saved where it is of other rows
        return replace(one, names=())
    if kind.BY is None:
        raise TypeError(
            f"{kind.__name__}.{name} is saved, but BY does not say by which rows"
        )
    if one.names:
        return one
    whole = kind.STORED_AS + name
    return replace(
        one,
        names=tuple(f"{whole}_{line}" for line in range(one.lines))
        if one.lines
        else (whole,),
    )


def row_states(value: Any) -> Iterator[RowState]:
    """All state by row that a dataclass is made of."""
    if isinstance(value, RowState):
        yield value
    elif is_dataclass(value):
        for one in fields(value):
            yield from row_states(getattr(value, one.name))


def with_restored(
    value: Any, tables: Mapping[By, tuple[Index[Any], Mapping[str, Column]]]
) -> Any:
    """A dataclass with all state by row that it is made of restored: by which rows, and from which columns."""
    if isinstance(value, RowState):
        return value if value.BY is None else value.restored(*tables[value.BY])
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {one.name: getattr(value, one.name) for one in fields(value)}
    again = {name: with_restored(part, tables) for name, part in parts.items()}
    changed = {name: part for name, part in again.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value
