"""State by row, declared once: from that follows how it goes on from poll to poll and over a restart of the agent.

Each field of a `RowState` is a `column`, a `mask`, or `unindexed`. A row is a thing with a key (see `core.table`). It
begins a new *life* when what was measured of it so far no longer applies, as after a restart of its broker. A
*checkpoint* is the file in which the state outlives the agent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from penstock.core.table import Column, Index, Mask, Positions
from penstock.core.windows import reindex

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


UnindexedT = TypeVar("UnindexedT")
DataT = TypeVar("DataT", bound="DataclassInstance")


class By(StrEnum):
    """The rows by which state outlives the agent; a checkpoint has a table for each."""

    QUEUE = "queue"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Declared:
    """How a field goes on.

    Attributes:
        fill: Its value where nothing is known.
        names: The names of its columns in a checkpoint; none where it ends with the agent.
        dtype: Its type.
        lines: It is a matrix (lines, rows); 0: one column.
        outlives: A row that begins a new life keeps the value; else it gets the fill value.
        carried: It is needed at the next poll; else it has the fill value until it is made again.
        saved: It is in checkpoints.
        counter: It is shown as a counter, or a counter depends on it.
    """

    fill: float
    names: tuple[str, ...]
    dtype: DTypeLike = np.float64
    lines: int = 0
    outlives: bool = False
    carried: bool = True
    saved: bool = True
    counter: bool = False

    def filled(self, rows: int) -> NDArray[np.generic]:
        """Return the fill value for so many rows; the array cannot be written to."""
        shape = (self.lines, rows) if self.lines else (rows,)
        return np.broadcast_to(np.array(self.fill, self.dtype), shape)

    def restored(self, columns: Mapping[str, Column], rows: int) -> NDArray[np.generic]:
        """Return the values from the columns of a checkpoint; the fill value where a number or a column is missing."""
        if not self.names:
            return self.filled(rows)
        missing = np.full(rows, np.nan)
        saved = np.stack([columns.get(name, missing) for name in self.names])
        values = np.where(np.isnan(saved), self.fill, saved).astype(self.dtype)
        is_matrix = self.lines > 0
        return values if is_matrix else values[0]


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
    """Declare one number per row, or `lines` of them; see `Declared`.

    stored_as: The names in a checkpoint; else these are `STORED_AS` and the field's name, with the number of the line.
    """
    names = (stored_as,) if isinstance(stored_as, str) else stored_as
    names = tuple(name for name in names if name)
    declared = Declared(fill, names, dtype, counter=counter, **how)
    empty = declared.filled(0).copy()
    made: NDArray[Any] = field(
        default_factory=lambda: empty, metadata={"declared": declared}
    )
    return made


def counter(
    fill: float = np.nan, *, stored_as: str | tuple[str, ...] = (), **how: Unpack[How]
) -> NDArray[np.float64]:
    """Declare a column that is shown as a counter, or on which one depends: each of its changes is saved at once."""
    return column(fill, stored_as=stored_as, counter=True, **how)


def mask(*, stored_as: str = "", **how: Unpack[How]) -> Mask:
    """Declare yes or no per row; no where nothing is known."""
    return column(0.0, np.bool_, stored_as=stored_as, **how)


def unindexed(made: Callable[[], UnindexedT]) -> UnindexedT:
    """Declare a field that is not by row: reindexing and restoring leave it as it is, and nothing saves it."""
    return field(default_factory=made, metadata={"declared": None})


def with_fields(whole: DataT, values: Mapping[str, Any]) -> DataT:
    """Return a dataclass with other values in some fields, whose names are known at run time only."""
    return replace(whole, **values)


@dataclass(frozen=True, slots=True)
class RowState:
    """What is known about each row of `index`."""

    index: Index[Any] = field(default_factory=Index.empty)

    BY: ClassVar[By | None] = None
    """What the rows are; None where the state ends with the agent."""
    STORED_AS: ClassVar[str] = ""
    """What the names of its columns in a checkpoint begin with."""

    def reindexed(self, index: Index[object], goes_on: Mask | None = None) -> Self:
        """Return the state by the rows of another index; a new row has the fill values.

        goes_on: (rows of `index`,) Whether the row is still in the life of before; else it keeps only the fields that
            outlive one. None: all are.
        """
        beginning = np.empty(0, np.intp)
        if goes_on is not None:
            beginning = np.flatnonzero(~goes_on)
        if index is self.index and not len(beginning):
            return self
        moved = {
            name: self._moved(name, declaration, index, beginning)
            for name, declaration in declared(type(self)).items()
        }
        return with_fields(self, {"index": index, **moved})

    def _moved(
        self,
        name: str,
        declaration: Declared,
        index: Index[object],
        beginning: Positions,
    ) -> NDArray[np.generic]:
        """Return a field by the rows of another index. beginning: positions of the rows that begin a new life."""
        if not declaration.carried:
            return declaration.filled(len(index))
        values = reindex(index, self.index, getattr(self, name), declaration.fill)
        if len(beginning) and not declaration.outlives:
            if index is self.index:
                values = values.copy()
            values[..., beginning] = declaration.fill
        return values

    def begun_anew(self) -> Self:
        """Return the state in which every row begins a new life."""
        return self.reindexed(self.index, np.zeros(len(self.index), np.bool_))

    def saved(self) -> dict[str, Column]:
        """Return the columns that outlive the agent, by their names in a checkpoint."""
        columns: dict[str, Column] = {}
        for name, declaration in declared(type(self)).items():
            if declaration.names:
                values = getattr(self, name).astype(np.float64, copy=False)
                lines = np.atleast_2d(values)
                columns |= dict(zip(declaration.names, lines, strict=True))
        return columns

    def restored(self, index: Index[object], columns: Mapping[str, Column]) -> Self:
        """Return the state from the columns of a checkpoint, by the rows of `index`.

        It stays as it is where the checkpoint has none of its columns, and so do fields that are not by row.
        """
        own = declared(type(self))
        names = {name for declaration in own.values() for name in declaration.names}
        if names.isdisjoint(columns):
            return self
        restored = {
            name: declaration.restored(columns, len(index))
            for name, declaration in own.items()
        }
        return with_fields(self, {"index": index, **restored})


_DECLARED: dict[type[RowState], Mapping[str, Declared]] = {}


def declared(kind: type[RowState]) -> Mapping[str, Declared]:
    """Return the fields of a kind of state that are by row; raise TypeError where a declaration is missing."""
    if kind not in _DECLARED:
        by_name = {
            part.name: part.metadata.get("declared", part)
            for part in fields(kind)
            if part.name != "index"
        }
        _DECLARED[kind] = {
            name: _named(kind, name, declaration)
            for name, declaration in by_name.items()
            if declaration is not None
        }
    return _DECLARED[kind]


def _named(kind: type[RowState], name: str, declaration: object) -> Declared:
    """Return the declaration of a field with the names of its columns in a checkpoint."""
    if not isinstance(declaration, Declared):
        raise TypeError(
            f"{kind.__name__}.{name} is neither column nor mask nor unindexed"
        )
    # A kind that itself sets BY = None is saved as part of another kind, whose rows are others.
    is_saved_elsewhere = kind.BY is None and "BY" in vars(kind)
    if not declaration.saved or is_saved_elsewhere:
        return replace(declaration, names=())
    if kind.BY is None:
        raise TypeError(
            f"{kind.__name__}.{name} is saved, but BY does not say by which rows"
        )
    if declaration.names:
        return declaration
    stored_as = kind.STORED_AS + name
    names = [f"{stored_as}_{line}" for line in range(declaration.lines)]
    return replace(declaration, names=tuple(names) or (stored_as,))


def row_states(value: object) -> Iterator[RowState]:
    """Yield each `RowState` in a dataclass and in the dataclasses that it is made of."""
    if isinstance(value, RowState):
        yield value
    elif is_dataclass(value):
        for part in fields(value):
            yield from row_states(getattr(value, part.name))


def with_restored(
    value: Any, tables: Mapping[By, tuple[Index[object], Mapping[str, Column]]]
) -> Any:
    """Return a dataclass in which each `RowState`, at any depth, is restored from a checkpoint.

    The same object is returned where nothing of it was in the checkpoint.

    tables: By what the rows are, the rows and the columns of the checkpoint.
    """
    if isinstance(value, RowState):
        return value if value.BY is None else value.restored(*tables[value.BY])
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {part.name: getattr(value, part.name) for part in fields(value)}
    restored = {name: with_restored(part, tables) for name, part in parts.items()}
    changed = {name: part for name, part in restored.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value
