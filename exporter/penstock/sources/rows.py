"""What reading the answers of both brokers has in common: rows of typed values, read leniently, and as columns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import BadAnswer
from penstock.table import Column, Positions

RowT = TypeVar("RowT", bound=msgspec.Struct)

NAN = math.nan
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for text that is broken, no UTF-8, or nested without end."""
Flag = bool | float
"""A boolean, also as a text; NaN = missing."""


class Rows(Generic[RowT]):
    """Rows of one type out of an answer, and how many values in them could not be read."""

    __slots__ = ("rows", "total", "unreadable")

    def __init__(self, rows: list[RowT], total: int, unreadable: int = 0) -> None:
        self.rows = rows
        self.total = total
        self.unreadable = unreadable

    def __len__(self) -> int:
        return len(self.rows)


def lenient(row: type[RowT], values: dict[str, Any]) -> tuple[RowT | None, int]:
    """What can be read of `values`, the rest missing; None when a field is bad without which it is no row."""
    kept: dict[str, Any] = {}
    bad = 0
    for field in msgspec.structs.fields(row):
        if field.encode_name not in values:
            continue
        try:
            kept[field.name] = msgspec.convert(values[field.encode_name], field.type, strict=False)
        except msgspec.ValidationError:
            bad += 1
    try:
        return row(**kept), bad
    except TypeError:
        return None, bad


def matrix(rows: Sequence[msgspec.Struct], fields: Sequence[str]) -> NDArray[np.float64]:
    """float64 of shape (len(fields), len(rows)): the fields of the rows as columns."""
    if not rows or not fields:
        return np.empty((len(fields), len(rows)))
    values = map(attrgetter(*fields), rows)
    flat = chain.from_iterable(values) if len(fields) > 1 else values
    filled = np.fromiter(flat, np.float64, len(rows) * len(fields))
    return np.ascontiguousarray(filled.reshape(len(rows), len(fields)).T)


def integers(rows: Sequence[msgspec.Struct], field: str) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(attrgetter(field), rows), np.int64, len(rows))
    except OverflowError as error:
        raise BadAnswer(f"a number in {field} has more than 64 bits") from error


def columns_of(names: Iterable[str], numbers: NDArray[np.float64], order: Positions) -> dict[str, Column]:
    """Columns by the model's names in the order of the index; one that is missing for every row is left out."""
    columns = dict(zip(names, _ordered(numbers, order), strict=True))
    return present(columns)


def _ordered(numbers: NDArray[np.float64], order: Positions) -> NDArray[np.float64]:
    """The rows of `numbers` in this order; no copy where they stand in it, as it is kept for the next poll anyway."""
    in_order = len(order) == numbers.shape[1] and bool((order[1:] > order[:-1]).all())
    return numbers if in_order else numbers[:, order]


def present(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Those that are not missing for every row."""
    return {name: column for name, column in columns.items() if not len(column) or not np.isnan(column).all()}
