"""Standard input, output and error of a command, also where they are closed, full, or have lost their reader.

As `grep` does: an output that cannot be written is one line on standard error and exit status 1. An output whose reader
has gone, as behind `| head`, is no error: the process ends silently, as SIGPIPE would have ended it.
"""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_INPUT = 0
_OUTPUT = 1
_ERRORS = 2


class OutputFailed(Exception):
    """Standard output cannot be written; the text says why. No PenstockError: no command may take it for its own."""


class ReaderGone(OutputFailed):
    """The process that read standard output has closed it."""


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Run a command in this context. Ends the process where standard output cannot be written.

    What the command has begun is ended first: its context managers see an OutputFailed. Streams that something else
    has put in the place of the process's own, as tests do, are left alone.
    """
    _fill(_INPUT, sys.stdin is None)
    if _fill(_ERRORS, sys.stderr is None) or sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Errors(_ERRORS, "w", closefd=False), sys.__stderr__)
    try:
        if sys.stdout is None:
            raise OutputFailed(  # noqa: TRY301
                "standard output is closed; give it a place, such as > /dev/null"
            )
        if sys.stdout is sys.__stdout__:
            sys.stdout = _text(_Output(_OUTPUT, "w", closefd=False), sys.__stdout__)
        try:
            yield
        finally:
            sys.stdout.flush()
    except ReaderGone:
        _end_as_by_sigpipe()
    except OutputFailed as error:
        _discard_output()
        sys.stderr.write(f"penstock: {error}\n")
        sys.stderr.flush()
        sys.exit(1)


class _Output(io.FileIO):
    """Standard output. Its failures have a type of their own, other than those of files and sockets."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Raises OutputFailed."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise ReaderGone("the reader of standard output has gone") from None
        except OSError as error:
            raise OutputFailed(
                f"cannot write to standard output: {error.strerror}"
            ) from None


class _Errors(io.FileIO):
    """Standard error. A text that it cannot take is lost: there is no other place for it, and the exit status stays."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(file: io.FileIO, like: TextIO | None) -> TextIO:
    """Return the file as a stream of text, with the encoding and the buffering of the stream `like`.

    A character that the encoding lacks is written as an escape.
    """
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=getattr(like, "encoding", None),
        errors="backslashreplace",
        line_buffering=getattr(like, "line_buffering", True),
        write_through=getattr(like, "write_through", False),
    )


def _fill(descriptor: int, missing: bool) -> bool:
    """Open /dev/null where a standard stream is missing, and return whether it is: Python has no object for it.

    Otherwise the next file or socket that Penstock opens would get its descriptor, and the texts for that stream.
    """
    if not missing:
        return False
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)
        if null != descriptor:
            os.close(null)
    return True


def _discard_output() -> None:
    """Let standard output go to /dev/null: as it ends, Python tries to write its buffer once more, and would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, _OUTPUT)


def _end_as_by_sigpipe() -> None:
    """End the process as SIGPIPE, which Python ignores, would have ended it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    os._exit(
        128 + signal.SIGPIPE
    )  # the first process of a container outlives the signal
