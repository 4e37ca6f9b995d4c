"""The answers to the list operations: by far the largest of all, and mostly as they were at the poll before.

A page is cut into rows by their bytes, and only rows that read otherwise than before are unquoted and decoded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from penstock.brokers.artemis import answers as wire
from penstock.brokers.budget import Budget
from penstock.brokers.rows import (
    ROW,
    UNREADABLE,
    RowByRow,
    Rows,
    RowT,
    Unread,
    decoded,
    octets,
)
from penstock.brokers.sight import Values
from penstock.core.errors import BadAnswer
from penstock.core.table import Keys, Positions, pieces

_FIRST = b'"value":"{\\"data\\":['
_LAST = b'],\\"count\\":'
"""The text before and behind the rows of a listing: JSON inside JSON, so that quotes are escaped."""
_BEGIN, _COMMA, _END = b"{,}"

WORTH = 0.25
"""Share of the rows of a poll that must be found again in the next, or to look for them costs more than it saves."""
RESTING = 20
"""Polls for which none are looked for then."""
SLOTS = 8
"""Places in the table of hashes for each row that is remembered; twice as many at most."""

TEXT_BYTES = 128 * 1024
"""Bytes of a listing that are decoded in one go."""

_text = msgspec.json.Decoder(str)
ItemT = TypeVar("ItemT")


@dataclass(eq=False)
class ListingPage:
    """A page of a listing as it was answered. Where it can be cut, `reply` is without its rows, `span` is where these
    are in `body`, and `total` is the rows of all pages; else they are empty.
    """

    reply: wire.TextReply
    body: bytes = b""
    span: tuple[int, int] = (0, 0)
    total: int = 0

    @cached_property
    def rows(self) -> Sequence[memoryview]:
        """The rows as they are in the answer, each with the comma behind it; none where the page cannot be cut."""
        first, last = self.span
        if first == last:
            return ()
        starts = self._row_starts()
        if not self._are_rows(starts):
            return ()
        body = memoryview(self.body)
        ends = np.append(starts[1:], last)
        return [
            body[start:end]
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _row_starts(self) -> Positions:
        """Places in `body` where a row may begin: each begins as the first one does.

        In a text within a row the quotes of the field's name would be escaped twice.
        """
        first, last = self.span
        octets = np.frombuffer(self.body, np.uint8)
        begin = octets[first : self.body.find(b":", first, last) + 1]
        braces = octets[first : last - len(begin)]
        places = (
            np.flatnonzero(braces[some] == _BEGIN) + some.start
            for some in pieces(len(braces), 8 * TEXT_BYTES)
        )
        starts = first + np.concatenate([np.empty(0, np.intp), *places])
        for offset in range(1, len(begin)):
            starts = starts[octets[starts + offset] == begin[offset]]
        return starts

    def _are_rows(self, starts: Positions) -> bool:
        """Whether the page is rows that begin at these places: a row ends before each, with a comma but at the last."""
        first, last = self.span
        if not len(starts) or starts[0] != first:
            return False
        octets = np.frombuffer(self.body, np.uint8)
        commas = starts[1:] - 1
        ends = np.append(commas, last) - 1
        return bool((octets[ends] == _END).all() and (octets[commas] == _COMMA).all())

    def texts(self) -> Iterator[str]:
        """The JSON texts of listings that are the page behind each other; none where the page cannot be cut."""
        first, last = self.span
        begin = self.body[first : self.body.find(b":", first, last) + 1]
        while first < last:
            end = self.body.find(begin, first + TEXT_BYTES, last)
            end = last + 1 if end < 0 else end
            yield _listing(
                self.body[first : end - 1]
            )  # without the comma; with anything else there it is none
            first = end

    def whole(self) -> wire.TextReply:
        """The response with the JSON text of the whole page; `BadAnswer` when it is none of Jolokia."""
        return wire.text_replies(self.body, 1)[0] if self.body else self.reply

    def some(self, positions: Positions) -> str:
        """The JSON text of a listing of the rows at these positions, ascending; `msgspec.DecodeError` if it is none."""
        return _listing(
            b"".join([self.rows[i] for i in positions.tolist()]).rstrip(b",")
        )

    def hashes(self) -> Keys:
        """64 bits of each row: another one has the same once in 10¹⁰ polls of 50,000 rows."""
        hashes = np.empty(len(self.rows), np.uint64)
        for some in pieces(len(hashes)):
            hashes[some] = np.fromiter(
                map(xxh3_64_intdigest, self.rows[some]), np.uint64
            )
        return hashes.view(np.int64)


def _listing(rows: bytes) -> str:
    """The JSON text of a listing of rows as they are in an answer; `msgspec.DecodeError` if it is none."""
    return _text.decode(b'"{\\"data\\":[' + rows + b']}"')


def listing_page(body: bytes) -> ListingPage:
    """The answer to one list operation; `BadAnswer` when it is none of Jolokia."""
    first = body.find(_FIRST) + len(_FIRST)
    last = body.rfind(_LAST)
    if len(_FIRST) <= first < last:
        (reply,) = wire.text_replies(body[:first] + body[last:], 1)
        with suppress(*UNREADABLE):
            total = _raw.decode(reply.value or "").count
            return ListingPage(reply, body, (first, last), total)
    return ListingPage(wire.text_replies(body, 1)[0])


class _Listing(msgspec.Struct, Generic[ItemT]):
    data: list[ItemT]
    count: int = 0


_raw = msgspec.json.Decoder(_Listing[msgspec.Raw])


class ListingDecoder(Generic[RowT]):
    """Reads the answers of the list operations into rows of one type; other fields are passed over."""

    def __init__(self, row: type[RowT], operation: str) -> None:
        """operation: its name in errors."""
        self._what = operation
        self._strict = msgspec.json.Decoder(_Listing[row], strict=False)  # type: ignore[valid-type]
        self._each = RowByRow(row)

    def __call__(self, page: ListingPage) -> Rows[RowT]:
        """All rows of a page; `SourceError` when the request was refused or the answer is no listing."""
        page.reply.raise_for_status(self._what)
        try:
            if decoded := self._read(page.texts()):
                return Rows(decoded, page.total, octets(page.reply.damaged))
        except UNREADABLE:
            pass  # read as a whole, it may be
        reply = page.whole()
        if reply.value is None:
            raise BadAnswer(
                f"{self._what}: a text with JSON in it was expected, there is none"
            )
        try:
            listing = self._strict.decode(reply.value)
            rows = Rows(listing.data, listing.count)
        except UNREADABLE:
            rows = self._apart(reply.value)
        rows.unread += octets(reply.damaged)
        return rows

    def _read(self, texts: Iterable[str]) -> list[RowT]:
        rows: list[RowT] = []
        for text in texts:
            rows += self._strict.decode(text).data
        return rows

    def exactly(self, page: ListingPage, positions: Positions) -> list[RowT] | None:
        """The rows at these positions of `page.rows`; None where one of them cannot be read, or is not one row."""
        if not len(positions):
            return []
        try:
            rows = self._read(
                page.some(positions[some]) for some in pieces(len(positions))
            )
        except UNREADABLE:
            return None
        return rows if len(rows) == len(positions) else None

    def at_least(
        self, page: ListingPage, positions: Positions, size: int
    ) -> list[RowT]:
        """The rows at these positions of the `size` that were read of the page; others may come with them."""
        if not len(positions):
            return []
        rows = self.exactly(page, positions) if size == len(page.rows) else None
        return self(page).rows if rows is None else rows

    def _apart(self, text: str) -> Rows[RowT]:
        """The rows, each read by itself."""
        try:
            page, _ = decoded(_raw, text.encode())
        except msgspec.ValidationError as error:
            raise BadAnswer(f"{self._what}: not a listing: {error}") from error
        except UNREADABLE as error:
            raise BadAnswer(f"{self._what}: broken JSON: {error}") from error
        rows = self._each(page.data)
        if rows is None:
            raise BadAnswer(f"{self._what}: not a listing of objects")
        rows[1].total = page.count
        return rows[1]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a page. keys: (rows,) integers or texts. values: (fields, rows).
    hashes: (rows,), or empty where these rows are to be read again at the next poll. total: rows of all pages.
    unread, lost: as in `Rows`. found: rows that were not read again. fresh: texts of rows that are new, by key.
    """

    keys: Values
    values: NDArray[np.float64]
    hashes: Keys
    total: int
    unread: Unread = field(default_factory=Counter)
    lost: int = 0
    found: int = 0
    fresh: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(
        cls,
        listed: Rows[Any],
        keys: Values,
        values: NDArray[np.float64],
        fresh: Mapping[int, Any] | None = None,
    ) -> "Numbers":
        """The numbers of rows that are to be read again at the next poll."""
        return cls(
            keys,
            values,
            NO_HASHES,
            listed.total,
            listed.unread,
            listed.lost,
            fresh=fresh or {},
        )

    def without(self, positions: Sequence[int]) -> "Numbers":
        """The page without the rows at these positions, which could not be read after all."""
        if not len(positions):
            return self
        keys = np.delete(self.keys, positions)
        values = np.delete(self.values, positions, axis=1)
        unread = self.unread + Counter({ROW: len(positions)})
        return Numbers(
            keys, values, NO_HASHES, self.total, unread, self.lost + len(positions)
        )

    def largest(self, budget: Budget, field: int) -> "Numbers":
        """The rows that the budget allows, of all that there are: the largest by their value `field`."""
        positions = budget.largest(self.values[field])
        if len(positions) == len(self):
            return self
        keys = self.keys[positions]
        kept = set(self.keys[positions].tolist()) if self.fresh else ()
        fresh = {key: texts for key, texts in self.fresh.items() if key in kept}
        return replace(
            self,
            keys=keys,
            values=self.values[:, positions],
            hashes=NO_HASHES,
            found=0,
            fresh=fresh,
        )


NO_HASHES: Keys = np.empty(0, np.int64)


class _Remembered:
    """The rows of a poll, to be found by their hashes."""

    def __init__(self, hashes: Keys, keys: Values, values: NDArray[np.float64]) -> None:
        self.hashes = hashes
        self.keys = keys
        self.values = values
        # By the low bits of a hash. Of two rows with the same bits one is not found, and read again.
        self._slots = np.full(SLOTS << len(hashes).bit_length(), -1, np.int32)
        self._slots[self._slot(hashes)] = np.arange(len(hashes), dtype=np.int32)

    def __len__(self) -> int:
        return len(self.hashes)

    def positions(self, hashes: Keys) -> Positions:
        """Positions of the rows with these hashes, -1 where there is none."""
        positions = self._slots[self._slot(hashes)].astype(np.intp)
        if len(self):
            positions[self.hashes[positions] != hashes] = -1
        return positions

    def _slot(self, hashes: Keys) -> Positions:
        return hashes & (len(self._slots) - 1)


_NOTHING = _Remembered(NO_HASHES, np.empty(0), np.empty((0, 0)))


class NumbersReader(Generic[RowT]):
    """Reads the pages of a listing as numbers; a row that reads as it did at the poll before is not read again."""

    def __init__(
        self,
        decoder: ListingDecoder[RowT],
        keys: Callable[[Sequence[RowT]], Values],
        values: Callable[[Sequence[RowT]], NDArray[np.float64]],
    ) -> None:
        """keys, values: of rows, in the shapes of `Numbers`; they must hold for as long as a row reads the same."""
        self._decoder = decoder
        self._keys = keys
        self._values = values
        self._before = _NOTHING
        self._resting = 0

    def __call__(self, page: ListingPage) -> Numbers:
        """The numbers of a page; `SourceError` when the request was refused or the answer is no listing."""
        if page.reply.status == 200 and not self._resting and page.rows:
            numbers = self._compared(page)
            if numbers is not None:
                return numbers
        listed = self._decoder(page)
        return Numbers.of(listed, self._keys(listed.rows), self._values(listed.rows))

    def _compared(self, page: ListingPage) -> Numbers | None:
        """The numbers of a page, of which only changed rows are decoded; None where one of these cannot be read."""
        hashes = page.hashes()
        before = self._before.positions(hashes)
        changed = np.flatnonzero(before < 0)
        rows = self._decoder.exactly(page, changed)
        if rows is None:
            return None
        keys = self._keys(rows)
        values = self._values(rows)
        unchanged = len(hashes) - len(changed)
        if unchanged:
            changed_keys = keys
            changed_values = values
            keys = self._before.keys[before]
            values = self._before.values[:, before]
            keys[changed] = changed_keys
            values[:, changed] = changed_values
        return Numbers(keys, values, hashes, page.total, found=unchanged)

    def together(self, pages: Sequence[Numbers]) -> tuple[Values, NDArray[np.float64]]:
        """Keys and values of all pages of a poll, read-only; rows with hashes are remembered for the next poll."""
        keys, values = _joined(pages)
        compared = [page for page in pages if len(page.hashes)]
        unchanged = sum(page.found for page in compared)
        if self._resting:
            self._resting -= 1
        elif compared and unchanged < WORTH * len(self._before):
            self._resting = RESTING
        self._before = _NOTHING
        if compared and not self._resting:
            hashes = np.concatenate([page.hashes for page in compared])
            if len(compared) == len(pages):
                self._before = _Remembered(hashes, keys, values)
            else:
                self._before = _Remembered(hashes, *_joined(compared))
        return keys, values


def _joined(pages: Sequence[Numbers]) -> tuple[Values, NDArray[np.float64]]:
    keys = np.concatenate([page.keys for page in pages])
    values = np.empty((len(pages[0].values), len(keys)))
    np.concatenate(
        [page.values for page in pages], axis=1, out=values
    )  # each column in one piece
    keys.flags.writeable = values.flags.writeable = False
    return keys, values
