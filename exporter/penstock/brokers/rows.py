"""Rows of typed values out of the answers of all kinds of brokers: read leniently, and as columns."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from penstock.columns.spec import Kind
from penstock.core.table import EXACT, Column, Positions, pieces

RowT = TypeVar("RowT", bound=msgspec.Struct)
ValueT = TypeVar("ValueT")

NAN = math.nan
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors that msgspec raises for text that is broken, no UTF-8, or nested without end."""

LONG = 2.0**63
"""Java's largest long, by which some say "without limit"."""
FOR_EVER = 1e13
"""Milliseconds: 317 years; as a clock the year 2286."""

# What a number from a broker may be, by its kind. Any other is no number of this kind: it is missing, and counted.
Flag = bool | Annotated[float, Meta(ge=0, le=1)]
"""A boolean, also as a text; NaN = missing."""
Count = Annotated[float, Meta(ge=0, lt=EXACT)]
"""A count of messages, bytes or consumers. A larger one is a broker's mistake: 0 - 1 in 64 bits without a sign."""
Setting = Annotated[float, Meta(ge=-1, le=LONG)]
"""A count that an operator sets, or a limit: -1 is "not set" or "without limit", and so is any from EXACT on."""
Wrapping = Annotated[float, Meta(ge=-(2.0**31), lt=EXACT)]
"""A count kept in 32 bits, which goes on with negative numbers."""
Ratio = Annotated[float, Meta(ge=0, le=1)]
Millis = Annotated[float, Meta(ge=0, le=FOR_EVER)]
"""Milliseconds, of a duration or since 1970; 0 often means never."""
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An id, and other whole numbers."""
Code = Annotated[float, Meta(ge=0, le=127)]
"""The number of a state."""
Text = Annotated[str, Meta(pattern="^(?!ERROR: )")]
"""An attribute that is a text. Jolokia writes `ERROR: …` in place of one that a broker that stops could not read."""
Port = Annotated[int, Meta(ge=0, le=65535)]
WIRE_TYPES: Mapping[Kind | None, Any] = {
    Kind.COUNT: Count,
    Kind.PERCENT: Count,
    Kind.SETTING: Setting,
    Kind.FLAG: Flag,
    Kind.TIME: Millis,
    Kind.STATE: Code,
}
"""The type to which the values of a declared column are decoded, by its kind."""


def named(name: str, default: Any = NAN) -> Any:
    """A field that the broker calls `name`."""
    return msgspec.field(name=name, default=default)


Unread = Counter[str]
"""How many values could not be read, or are none of their kind, by the broker's name of their field."""
ROW = "a whole row"
NO_UTF_8 = "text that is no UTF-8"
"""The name in `Unread` where a field's name is not known."""


@dataclass(slots=True)
class Rows(Generic[RowT]):
    """Rows of one type out of an answer. unread: values and rows that could not be read; lost: rows of these."""

    rows: list[RowT]
    total: int
    unread: Unread = field(default_factory=Counter)
    lost: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def unreadable(self) -> int:
        """Values and rows."""
        return self.unread.total()


def octets(damaged: int) -> Unread:
    """The count of the octets of a text that are no UTF-8 and could not be read."""
    return Counter({NO_UTF_8: damaged} if damaged else {})


def together(unread: Iterable[Unread]) -> Unread:
    """The sum of these counts."""
    return sum(unread, Counter())


def lost_rows(pages: Iterable["Paged"]) -> int:
    """How many rows could not be read: which ones is not known."""
    return sum(page.lost for page in pages)


class Paged(Protocol):
    """A page of a listing: how many rows it has, how many there are in all, what could not be read as `Rows` has it."""

    @property
    def total(self) -> int: ...
    @property
    def unread(self) -> Unread: ...
    @property
    def lost(self) -> int: ...
    def __len__(self) -> int: ...


class RowByRow(Generic[RowT]):
    """Reads rows each by itself: of one that is not as it should be, what can be read."""

    def __init__(self, row: type[RowT]) -> None:
        self._row = row
        self._strict = msgspec.json.Decoder(row, strict=False)

    def __call__(
        self, values: Iterable[msgspec.Raw]
    ) -> tuple[list[int], Rows[RowT]] | None:
        """Positions of the rows that could be read, and those rows; None where nothing among `values` is a row."""
        read = [self._read(raw) for raw in values]
        if read and not any(value.is_object for value in read):
            return None
        positions: list[int] = []
        rows: list[RowT] = []
        for position, value in enumerate(read):
            if value.row is not None:
                positions.append(position)
                rows.append(value.row)
        unread = together(value.unread for value in read if value.unread)
        return positions, Rows(rows, len(read), unread, len(read) - len(rows))

    def _read(self, value: msgspec.Raw) -> "_ReadRow[RowT]":
        with suppress(*UNREADABLE):
            return _ReadRow(self._strict.decode(value))
        with suppress(*UNREADABLE):
            fields, damaged = decoded(_ANY, bytes(value))
            if not isinstance(fields, dict):
                return _ReadRow(None, Counter({ROW: 1}), is_object=False)
            row, unread = lenient(self._row, fields)
            if row is None:
                return _ReadRow(None, Counter({ROW: 1}))
            return _ReadRow(row, unread + octets(damaged))
        return _ReadRow(None, Counter({ROW: 1}), is_object=False)


@dataclass(frozen=True, slots=True)
class _ReadRow(Generic[RowT]):
    """One value of a listing, as far as it could be read."""

    row: RowT | None
    """None: it is no row."""
    unread: Unread = field(default_factory=Counter)
    """Its missing values; where it is no row: one row."""
    is_object: bool = True


_ANY = msgspec.json.Decoder(Any)
MOST_REPAIRS = 100_000
"""Escapes that are put right in one text; a broker that breaks more of them is not read."""
_BAD_ESCAPE = re.compile(rb"\\u00[01]([:-?])")
"""Jolokia 2 writes the digits a to f of a control character as those behind 9 in ASCII: `\\u001;` for `\\u001b`."""


def decoded(decoder: msgspec.json.Decoder[ValueT], text: bytes) -> tuple[ValueT, int]:
    """The value of JSON text, `repaired` where it is broken, and how many octets were no UTF-8. Raises UNREADABLE."""
    try:
        return decoder.decode(text), 0
    except msgspec.ValidationError:
        raise
    except UNREADABLE:
        text, damaged = repaired(text)
    return decoder.decode(text), damaged


def repaired(text: bytes) -> tuple[bytes, int]:
    """JSON text with what brokers are known to break in it put right, and how many octets were no UTF-8. Of those each
    becomes U+FFFD. To be called only where reading failed: it looks at all of the text.
    """
    damaged = 0
    try:
        text.decode()
    except UnicodeDecodeError:
        before = text.count(_REPLACEMENT)
        text = text.decode(errors="replace").encode()
        damaged = text.count(_REPLACEMENT) - before
    return with_right_escapes(text), damaged


def with_right_escapes(text: bytes) -> bytes:
    """JSON text with the escapes put right that Jolokia 2 writes wrongly."""
    right = bytearray(text)
    for escape in islice(_BAD_ESCAPE.finditer(text), MOST_REPAIRS):
        # After an odd number of backslashes this one is itself escaped.
        if _backslashes_before(text, escape.start()) % 2 == 0:
            right[escape.start(1)] += ord("a") - ord(":")
    return bytes(right)


def _backslashes_before(text: bytes, end: int) -> int:
    """How many backslashes are right before this place."""
    start = end
    while start and text[start - 1] == _BACKSLASH:
        start -= 1
    return end - start


_BACKSLASH = ord("\\")
_REPLACEMENT = "\ufffd".encode()


def lenient(row: type[RowT], values: dict[str, Any]) -> tuple[RowT | None, Unread]:
    """A row of the values that can be read, the rest missing; None when a field is bad that every row needs."""
    kept: dict[str, Any] = {}
    unread: Unread = Counter()
    for column in msgspec.structs.fields(row):
        if column.encode_name not in values:
            continue
        try:
            kept[column.name] = msgspec.convert(
                values[column.encode_name], column.type, strict=False
            )
        except msgspec.ValidationError:
            unread[column.encode_name] += 1
    try:
        return row(**kept), unread
    except TypeError:
        return None, unread


def matrix(
    rows: Sequence[msgspec.Struct], fields: Sequence[str]
) -> NDArray[np.float64]:
    """(fields, rows) The fields of the rows as columns, float64."""
    if not rows or not fields:
        return np.empty((len(fields), len(rows)))
    table = np.empty((len(fields), len(rows)))
    get = attrgetter(*fields)
    for some in pieces(len(rows)):
        values = map(get, rows[some])
        flat = np.fromiter(
            chain.from_iterable(values) if len(fields) > 1 else values, np.float64
        )
        table[:, some] = flat.reshape(-1, len(fields)).T
    return table


def columns(rows: Sequence[msgspec.Struct], *fields: str) -> dict[str, Column]:
    return dict(zip(fields, matrix(rows, fields), strict=True))


def integers(rows: Sequence[msgspec.Struct], field: str) -> NDArray[np.int64]:
    return np.fromiter(map(attrgetter(field), rows), np.int64, len(rows))


def positive(values: Sequence[float] | Column) -> Column:
    """NaN in place of 0 and less, which a broker returns where there is none, and of "without limit"."""
    numbers = np.asarray(values, np.float64)
    return np.where((numbers > 0) & (numbers < EXACT), numbers, np.nan)


def limit(value: float) -> float:
    """The same for one value."""
    return value if 0 < value < EXACT else NAN


def seconds(milliseconds: Column) -> Column:
    """Broker's clock in seconds; 0 means never."""
    return positive(milliseconds) / 1000


def columns_of(
    names: Iterable[str], numbers: NDArray[np.float64], order: Positions
) -> dict[str, Column]:
    """Columns by the model's names in the order of the index; one that is missing for every row is left out."""
    # No copy where they are in order already: the array is kept for the next poll anyway.
    in_order = len(order) == numbers.shape[1] and bool((order[1:] > order[:-1]).all())
    if not in_order:
        numbers = numbers[:, order]
    return present(dict(zip(names, numbers, strict=True)))


def present(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns that are not missing for every row."""
    return {
        name: column
        for name, column in columns.items()
        if not len(column) or not np.isnan(column).all()
    }
