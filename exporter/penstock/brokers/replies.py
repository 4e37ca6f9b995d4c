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

    def raise_for_status(self, request: str) -> None:
        """A `SourceError` unless the request succeeded."""
        if self.status == 200:
            return
        text = f"{request}: status {self.status}: {(self.error or 'no reason given')[:300]}"
        if self.status == 403:
            raise Refused(f"{text}; {self.remedy()}")
        raise BadAnswer(text)

    def remedy(self) -> str:
        """The action for an operator whose broker refuses a request."""
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
            responses = self._read(body)
        except UNREADABLE as error:
            responses = self._read_repaired(body, error)
        if len(responses) != expected:
            raise BadAnswer(
                f"{expected} requests were answered by {len(responses)} responses"
            )
        return responses

    def _read(self, body: bytes) -> list[ResponseT]:
        # An agent that refuses the bulk as a whole answers with one object.
        if body.lstrip()[:1] == b"{":
            self._refusal.decode(body).raise_for_status("the request")
        responses: list[ResponseT] = self._decoder.decode(body)
        return responses

    def _read_repaired(self, body: bytes, error: Exception) -> list[ResponseT]:
        # Octets within a value that are no UTF-8 stay: the reader of the value counts them.
        try:
            return self._read(with_right_escapes(body))
        except UNREADABLE:
            text, damaged = repaired(body)
        try:
            responses = self._read(text)
        except UNREADABLE:
            start = body[:80].decode(errors="replace")
            raise BadAnswer(
                f"not an answer of Jolokia ({error}): {start!r}; is the URL's path right? {self._path}"
            ) from error
        if responses:
            responses[0].damaged = damaged
        return responses


PIECE_BYTES = 64 * 1024
"""Bytes of a pattern read that are decoded in one go."""
_NEXT_NAME = re.compile(rb'\},"')


def _in_pieces(value: memoryview) -> Iterator[bytes | memoryview]:
    """Objects that are the object `value` together. Cut between other names than its own they are no JSON."""
    first = 1
    while border := _NEXT_NAME.search(value, first + PIECE_BYTES):
        yield b"".join((b"{", value[first : border.start() + 1], b"}"))
        first = border.end() - 1
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

    def one(self, reply: Reply, request: str) -> RowT:
        """The answer to a read of one MBean, or to an operation that returns one thing."""
        return self.counted(reply, request)[0]

    def counted(self, reply: Reply, request: str) -> tuple[RowT, Unread]:
        """The same, and which of its values are missing because they could not be read."""
        reply.raise_for_status(request)
        try:
            return self._one.decode(reply.value), Counter()
        except UNREADABLE:
            _, rows = self._apart([reply.value], 0, request)
        if not rows.rows:
            raise BadAnswer(f"{request}: what is needed cannot be read in the answer")
        return rows.rows[0], rows.unread

    def many(self, reply: Reply, request: str) -> tuple[list[str], Rows[RowT]]:
        """Names of the MBeans of a pattern read and, in the same order, their rows; none matched: none."""
        if reply.nothing_found:
            return [], Rows([], 0)
        reply.raise_for_status(request)
        try:
            rows_by_mbean: dict[str, RowT] = {}
            for some in _in_pieces(memoryview(reply.value)):
                rows_by_mbean |= self._many.decode(some)
        except UNREADABLE:
            values, damaged = _taken_apart(_NAMED, reply, request)
            positions, rows = self._apart(values.values(), damaged, request)
            names = list(values)
            return [names[position] for position in positions], rows
        return list(rows_by_mbean), Rows(
            list(rows_by_mbean.values()), len(rows_by_mbean)
        )

    def listed(self, reply: Reply, request: str) -> Rows[RowT]:
        """The rows of a listing; `null` is an empty one."""
        reply.raise_for_status(request)
        try:
            rows = self._list.decode(reply.value) or []
        except UNREADABLE:
            return self._apart(*_taken_apart(_LISTED, reply, request), request)[1]
        return Rows(rows, len(rows))

    def _apart(
        self, values: Iterable[msgspec.Raw], damaged: int, request: str
    ) -> tuple[list[int], Rows[RowT]]:
        """Positions and rows, each read by itself."""
        listed = self._each(values)
        if listed is None:
            raise BadAnswer(f"{request}: the answer has another form than expected")
        listed[1].unread += octets(damaged)
        return listed


_NAMED = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LISTED = msgspec.json.Decoder(list[msgspec.Raw])


def _taken_apart(
    decoder: msgspec.json.Decoder[ValueT], reply: Reply, request: str
) -> tuple[ValueT, int]:
    """The rows of a value unread, and how many octets of what is around them were no UTF-8. Raises BadAnswer."""
    try:
        return decoded(decoder, bytes(reply.value))
    except msgspec.ValidationError as error:
        raise BadAnswer(
            f"{request}: the answer has another form than expected"
        ) from error
    except UNREADABLE as error:
        raise BadAnswer(f"{request}: broken JSON: {error}") from error
