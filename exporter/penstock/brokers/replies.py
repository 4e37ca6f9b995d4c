"""The replies to a bulk of requests, in the form of Jolokia, which every transport gives them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from penstock.brokers.rows import (
    UNREADABLE,
    RowByRow,
    Rows,
    RowT,
    Unread,
    ValueT,
    decoded,
    octets,
    repaired,
    with_right_escapes,
)
from penstock.core.errors import BadAnswer, Refused

ResponseT = TypeVar("ResponseT", bound="Response")


class Response(msgspec.Struct):
    """One response, without its value. HTTP is 200 even for errors: `status` is the result."""

    status: int
    error: str | None = None
    error_type: str | None = None
    damaged: int = msgspec.field(name=".damaged", default=0)
    """Octets of it that were no UTF-8, where it could not be read with them. Set by `Replies`, never by a broker."""

    def raise_for_status(self, what: str) -> None:
        """A `SourceError` unless the request succeeded."""
        if self.status == 200:
            return
        text = (
            f"{what}: status {self.status}: {(self.error or 'no reason given')[:300]}"
        )
        if self.status == 403:
            raise Refused(f"{text}; {self.remedy()}")
        raise BadAnswer(text)

    def remedy(self) -> str:
        """What to do where it is refused."""
        return "the user lacks the right to read this"

    @property
    def nothing_found(self) -> bool:
        return self.status == 404


class Reply(Response):
    """A response with its value as it is in the answer."""

    value: msgspec.Raw = msgspec.Raw(b"null")


class Replies(Generic[ResponseT]):
    def __init__(self, response: type[ResponseT], path: str) -> None:
        """path: where the kind's Jolokia is, for the operator whose URL leads elsewhere."""
        self._decoder = msgspec.json.Decoder(list[response])  # type: ignore[valid-type]
        self._refusal = msgspec.json.Decoder(response)
        self._path = path

    def __call__(self, body: bytes, expected: int) -> list[ResponseT]:
        """The responses to a bulk of `expected` requests, in their order."""
        try:
            found = self._read(body)
        except UNREADABLE as error:
            found = self._read_repaired(body, error)
        if len(found) != expected:
            raise BadAnswer(
                f"{expected} requests were answered by {len(found)} responses"
            )
        return found

    def _read(self, body: bytes) -> list[ResponseT]:
        if (
            body.lstrip()[:1] == b"{"
        ):  # an agent that refuses the bulk as a whole answers with one object
            self._refusal.decode(body).raise_for_status("the request")
        found: list[ResponseT] = self._decoder.decode(body)
        return found

    def _read_repaired(self, body: bytes, error: Exception) -> list[ResponseT]:
        # What is no UTF-8 within a value is left to who reads the value: there it is counted.
        try:
            return self._read(with_right_escapes(body))
        except UNREADABLE:
            text, damaged = repaired(body)
        try:
            found = self._read(text)
        except UNREADABLE:
            start = body[:80].decode(errors="replace")
            raise BadAnswer(
                f"not an answer of Jolokia ({error}): {start!r}; is the URL's path right? {self._path}"
            ) from error
        if found:
            found[0].damaged = damaged
        return found


PIECE_BYTES = 64 * 1024
"""Of a pattern read that are decoded in one go."""
_NEXT_NAME = re.compile(rb'\},"')


def _in_pieces(value: memoryview) -> Iterator[bytes | memoryview]:
    """Objects that are the object `value` together. Cut between other names than its own they are no JSON."""
    first = 1
    while found := _NEXT_NAME.search(value, first + PIECE_BYTES):
        yield b"".join((b"{", value[first : found.start() + 1], b"}"))
        first = found.end() - 1
    yield value if first == 1 else b"".join((b"{", value[first:]))


class Decoder(Generic[RowT]):
    """Reads values of one type: of one MBean, of all that match a pattern, or of a listing. Raises SourceError. A value
    in them that is none of its kind (`"ERROR: …"`, an error object, a count of -1) is missing, never 0, and a row
    without what it needs is lost alone; `Rows` counts them.
    """

    def __init__(self, row: type[RowT]) -> None:
        self._one = msgspec.json.Decoder(row, strict=False)
        self._many = msgspec.json.Decoder(dict[str, row], strict=False)  # type: ignore[valid-type]
        self._list = msgspec.json.Decoder(list[row] | None, strict=False)  # type: ignore[valid-type]
        self._each = RowByRow(row)

    def one(self, reply: Reply, what: str) -> RowT:
        """The answer to a read of one MBean, or to an operation that returns one thing."""
        return self.counted(reply, what)[0]

    def counted(self, reply: Reply, what: str) -> tuple[RowT, Unread]:
        """The same, and which of its values are missing because they could not be read."""
        reply.raise_for_status(what)
        try:
            return self._one.decode(reply.value), Counter()
        except UNREADABLE:
            _, found = self._apart([reply.value], 0, what)
        if not found.rows:
            raise BadAnswer(f"{what}: what is needed cannot be read in the answer")
        return found.rows[0], found.unread

    def many(self, reply: Reply, what: str) -> tuple[list[str], Rows[RowT]]:
        """Names of the MBeans of a pattern read and, in the same order, their rows; none matched: none."""
        if reply.nothing_found:
            return [], Rows([], 0)
        reply.raise_for_status(what)
        try:
            found: dict[str, RowT] = {}
            for some in _in_pieces(memoryview(reply.value)):
                found |= self._many.decode(some)
        except UNREADABLE:
            values, damaged = _taken_apart(_NAMED, reply, what)
            at, rows = self._apart(values.values(), damaged, what)
            names = list(values)
            return [names[i] for i in at], rows
        return list(found), Rows(list(found.values()), len(found))

    def listed(self, reply: Reply, what: str) -> Rows[RowT]:
        """The rows of a listing; `null` is an empty one."""
        reply.raise_for_status(what)
        try:
            found = self._list.decode(reply.value) or []
        except UNREADABLE:
            return self._apart(*_taken_apart(_LISTED, reply, what), what)[1]
        return Rows(found, len(found))

    def _apart(
        self, values: Iterable[msgspec.Raw], damaged: int, what: str
    ) -> tuple[list[int], Rows[RowT]]:
        """Positions and rows, each read by itself."""
        found = self._each(values)
        if found is None:
            raise BadAnswer(f"{what}: the answer has another form than expected")
        found[1].unread += octets(damaged)
        return found


_NAMED = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LISTED = msgspec.json.Decoder(list[msgspec.Raw])


def _taken_apart(
    decoder: msgspec.json.Decoder[ValueT], reply: Reply, what: str
) -> tuple[ValueT, int]:
    """The rows of a value unread, and how many octets of what is around them were no UTF-8. Raises BadAnswer."""
    try:
        return decoded(decoder, bytes(reply.value))
    except msgspec.ValidationError as error:
        raise BadAnswer(f"{what}: the answer has another form than expected") from error
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: broken JSON: {error}") from error
