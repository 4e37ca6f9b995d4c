"""Recordings: the raw answers of each poll, written as they come and read back in place of a broker.

A file is gzip, a member for each poll, one JSON object a line:
    {"penstock": 1, "kind": "artemis", "broker": "b1"}                      the first line
    {"poll": 1}                                                             a poll starts
    {"stamp": 1795.2, "seconds": 0.1, "requests": […], "answer": […]}       one bulk and its raw answer
    {"stamp": 1795.2, "seconds": 9.0, "requests": […], "error": "…"}        one that failed
`stamp` is the agent's clock in seconds since 1970. Requests and answers are Jolokia's own; no credentials are in them.
"""

import gzip
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from penstock.core.errors import (
    BadAnswer,
    ConfigError,
    NotRecorded,
    PenstockError,
    SourceError,
    Unreachable,
)
from penstock.core.safe_files import Unfit, create_named
from penstock.transports.transport import Answer, PassingOn, Request, Transport

FORMAT = 1
MAX_LINE = 256 * 1024 * 1024
MAX_BYTES = 1 << 30
"""Of a recording, unless another limit is given."""
PIECE = 1 << 20
"""Bytes compressed between two looks at the limit."""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for text that is broken, no UTF-8, or nested without end."""


class RecordedCall(msgspec.Struct, omit_defaults=True):
    """One line of a recording: the start of a poll, or a call."""

    poll: int | None = None
    stamp: float = 0.0
    seconds: float = 0.0
    # Empty where it is not there: msgspec reads no `Raw | None`.
    requests: msgspec.Raw = msgspec.Raw()
    answer: msgspec.Raw = msgspec.Raw()
    error: str | None = None


class Header(msgspec.Struct):
    penstock: int
    kind: str
    broker: str


class RecordingFile:
    """Whole polls, as many as `limit` bytes have room for. Raises PenstockError when it cannot be written."""

    def __init__(self, path: Path, limit: int = MAX_BYTES) -> None:
        self.path = path
        self.limit = limit
        self.polls = 0
        """In the file, whole, and ended."""
        self.full = False
        """A poll had no room: neither it nor what comes after it is in the file."""
        self._size = 0
        self._in_poll = False
        self._member: gzip.GzipFile | None = None
        self._file: BinaryIO

    def open(self) -> None:
        """Make it, in place of an older one. Raises ConfigError."""
        try:
            self._file = create_named(self.path)
        except OSError as error:
            hint = "; name another file" if isinstance(error, Unfit) else ""
            raise ConfigError(
                f"{self.path}: cannot be written: {error.strerror}{hint}"
            ) from error

    def begin_poll(self) -> None:
        self.end_poll()
        self._in_poll = True

    def write(self, line: msgspec.Struct) -> None:
        """Write a line in pieces; a poll for which there is no room is cut off."""
        if self.full:
            return
        content = msgspec.json.encode(line) + b"\n"
        with self._writing():
            if self._member is None:
                self._member = gzip.GzipFile("", "wb", 6, self._file)
            for begin in range(0, len(content), PIECE):
                self._member.write(content[begin : begin + PIECE])
                if self._file.tell() > self.limit:
                    self._cut()
                    return

    def end_poll(self) -> None:
        """End a poll: what was written since the last one is whole."""
        if self._member is not None:
            with self._writing():
                self._member.close()
                self._member = None
                self._file.flush()
                if self._file.tell() > self.limit:
                    self._cut()
                self._size = self._file.tell()
        if not self.full:
            self.polls += self._in_poll
        self._in_poll = False

    def close(self) -> None:
        """Close the file; of a poll that has not ended, the part that there is stays."""
        self._in_poll = False
        try:
            self.end_poll()
        finally:
            with self._writing():
                self._file.close()

    def _cut(self) -> None:
        """Back to the end of the last whole poll."""
        self.full = True
        if self._member is not None:
            self._member.close()
            self._member = None
        self._file.truncate(self._size)
        self._file.seek(self._size)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn an error of the file into one that names it."""
        try:
            yield
        except OSError as error:
            raise PenstockError(
                f"{self.path}: cannot be written: {error.strerror or error}"
            ) from error


class Recorder(PassingOn):
    """Writes what another transport answers."""

    def __init__(
        self, inner: Transport, file: RecordingFile, kind: str, broker: str
    ) -> None:
        super().__init__(inner)
        self._file = file
        self._polls = 0
        self._file.open()
        self._file.write(Header(FORMAT, kind, broker))

    async def begin_poll(self) -> None:
        self._polls += 1
        self._file.begin_poll()
        self._file.write(RecordedCall(poll=self._polls))
        await super().begin_poll()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        began = time.monotonic()
        asked = msgspec.Raw(msgspec.json.encode(requests))
        try:
            answer = await self._inner.ask(requests, timeout)
        except SourceError as error:
            seconds = time.monotonic() - began
            self._file.write(
                RecordedCall(
                    stamp=time.time(), seconds=seconds, requests=asked, error=str(error)
                )
            )
            raise
        body = _one_line(answer.body)
        self._file.write(
            RecordedCall(
                stamp=answer.stamp, seconds=answer.seconds, requests=asked, answer=body
            )
        )
        return answer

    async def close(self) -> None:
        await super().close()
        self._file.close()


class RecordingTransport:
    """Answers from a recording: each poll of the reader gets one recorded poll, each request what was answered to it.

    Raises `ConfigError` for a file that is no recording, `Unreachable` when it has come to its end, `BadAnswer` where
    the rest of it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = gzip.open(path, "rb")  # noqa: SIM115 - closed in close()
            self.header = msgspec.json.decode(self._line(), type=Header)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be read as a recording: {error.strerror or error}"
            ) from error
        except (*UNREADABLE, EOFError, zlib.error) as error:
            raise ConfigError(
                f"{path}: not a recording: {error}; `penstock record` writes one"
            ) from error
        if self.header.penstock != FORMAT:
            raise ConfigError(
                f"{path}: recording format {self.header.penstock}; this version reads {FORMAT}"
            )
        self._polls = self._read_polls()
        self._calls: list[RecordedCall] = []
        self._whole_polls = 0
        """Read so far."""
        self.ended = False
        """Nothing more can be read: each poll from here on is an error."""
        self.damage = ""
        """Why the rest of the file cannot be read; empty where it was read to its end, or has not been read yet."""
        self.last_stamp = 0.0
        """Of the last answer."""

    async def begin_poll(self) -> None:
        """Take the calls of the next poll. Raises BadAnswer or Unreachable at the end of the file."""
        calls = next(self._polls, None)
        if calls is None:
            self.ended = True
            if self.damage:
                raise BadAnswer(self.damage)
            raise Unreachable(f"{self._path}: the recording has ended")
        self._whole_polls += 1
        self._calls = calls

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:  # noqa: ARG002
        asked = msgspec.json.encode(requests)
        same = (call for call in self._calls if bytes(call.requests) == asked)
        call = next(same, None) or next(
            (
                candidate
                for candidate in self._calls
                if asked_for_less(requests, candidate)
            ),
            None,
        )
        if call is not None:
            self._calls.remove(call)
            if not (answer := bytes(call.answer)):
                raise Unreachable(
                    call.error
                    or f"{self._path}: a failed call was recorded without its error"
                )
            return self._answer(answer, call)
        for call in self._calls:
            if (answer_by_pattern := by_pattern(requests, call)) is not None:
                return self._answer(answer_by_pattern, call)
        raise NotRecorded(
            f"{self._path}: this poll has no answer to {asked[:200].decode(errors='replace')}"
        )

    def _answer(self, content: bytes, call: RecordedCall) -> Answer:
        self.last_stamp = call.stamp
        return Answer(content, call.stamp, call.seconds)

    async def close(self) -> None:
        self._file.close()

    def _line(self) -> bytes:
        line = self._file.readline(MAX_LINE)
        if len(line) == MAX_LINE:
            raise BadAnswer(f"a line is longer than {MAX_LINE} bytes")
        return line

    def _read_polls(self) -> Iterator[list[RecordedCall]]:
        """The polls that are whole."""
        calls: list[RecordedCall] | None = None
        for call in self._read_calls():
            if call.poll is not None:
                if calls is not None:
                    yield calls
                calls = []
            elif calls is not None:
                calls.append(call)
        if calls is not None and not self.damage:
            yield calls

    def _read_calls(self) -> Iterator[RecordedCall]:
        """Up to the end of the file, or to where it is damaged, as one is that was not copied in full."""
        decode = msgspec.json.Decoder(RecordedCall).decode
        line = b""
        try:
            while line := self._line():
                yield decode(line)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self._is_damaged("the file is cut off, or was changed")
        except BadAnswer as error:
            self._is_damaged(str(error))
        except UNREADABLE as error:
            is_cut = not line.endswith(b"\n")
            self._is_damaged(
                "the file is cut off"
                if is_cut
                else f"a line is no recorded call: {error}"
            )

    def _is_damaged(self, why: str) -> None:
        polls = f"{self._whole_polls} whole poll{'' if self._whole_polls == 1 else 's'}"
        self.damage = f"{self._path}: the recording ends after {polls}: {why}; copy the file again, or record again"


class _Named(msgspec.Struct):
    """The response to a pattern read: values by the names of their MBeans."""

    status: int
    value: dict[str, msgspec.Raw] = {}


_REQUESTS = msgspec.json.Decoder(list[dict[str, Any]])
_NAMED = msgspec.json.Decoder(list[_Named])


def asked_for_less(requests: Sequence[Request], call: RecordedCall) -> bool:
    """Whether these are the requests of a call but for attributes that its version did not read: those are missing."""
    try:
        before = _REQUESTS.decode(call.requests)
    except UNREADABLE:
        return False
    return len(before) == len(requests) and all(
        {**was, "attribute": now.get("attribute")} == now
        and set(was.get("attribute", ())) <= set(now["attribute"])
        if "attribute" in now
        else was == now
        for was, now in zip(before, requests, strict=True)
    )


def by_pattern(requests: Sequence[Request], call: RecordedCall) -> bytes | None:
    """The answer to reads by name out of a recorded read of the same by one pattern; None where the call is none.

    For recordings of versions that read everything by pattern.
    """
    try:
        (pattern,) = _REQUESTS.decode(call.requests)
        same = all(
            {**pattern, "mbean": request.get("mbean")} == request
            for request in requests
        )
        if "*" not in pattern.get("mbean", "") or not requests or not same:
            return None
        (named,) = _NAMED.decode(call.answer)
    except (*UNREADABLE, ValueError):  # broken, or another number of them
        return None
    if named.status not in (200, 404):
        return None
    not_found = {
        "status": 404,
        "error_type": "javax.management.InstanceNotFoundException",
        "error": "not in the recording",
    }
    values = [named.value.get(request["mbean"]) for request in requests]
    return msgspec.json.encode(
        [
            not_found if value is None else {"status": 200, "value": value}
            for value in values
        ]
    )


def _one_line(body: bytes) -> msgspec.Raw:
    """The body as it fits into a line: as it is when it is JSON, else as a JSON text."""
    try:
        msgspec.json.decode(body)
    except UNREADABLE:
        return msgspec.Raw(msgspec.json.encode(body.decode(errors="replace")))
    return msgspec.Raw(body.replace(b"\r", b" ").replace(b"\n", b" "))
