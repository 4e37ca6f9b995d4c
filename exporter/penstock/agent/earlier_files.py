"""Files of versions before the state database are read here, and written no more.

`state.bin` has a checkpoint of each broker, `state.journal` what the polls after it changed, `events.jsonl` and
`agent-events.jsonl` (each with a full one before it, `….1`) the log of changes as JSON lines.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import decode_event
from penstock.agent.packed import decompressed, unpack
from penstock.agent.record import Record, applied
from penstock.core.safe_files import Unfit, read_file
from penstock.insight.events import Event

STATE_FILE = "state.bin"
STATE_JOURNAL = "state.journal"
EVENT_FILES = (
    "events.jsonl.1",
    "events.jsonl",
    "agent-events.jsonl.1",
    "agent-events.jsonl",
)
"""Within each pair the older one first."""
FILES = (STATE_FILE, STATE_JOURNAL, *EVENT_FILES)

STATE_MAGIC = b"penstock state "
STATE_FORMAT = b"2"
JOURNAL_MAGIC = b"penstock journal 1\n"
MAX_BYTES = 1 << 28
_FRAME_HEAD = struct.Struct("<II")
"""Length and CRC-32 of the record that follows."""


class StateFile(msgspec.Struct):
    """The content of `state.bin`. sequence: of the last record of the journal that is in it."""

    brokers: dict[str, Checkpoint] = {}
    sequence: int = 0


class RecordWithEvents(Record):
    """A record of the journal. events: of the poll; the log of changes may lack them."""

    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True)
class EarlierState:
    """The contents of all files together."""

    brokers: Sequence[Checkpoint]
    events: Sequence[Event]
    problems: Sequence[str]
    """A sentence for each file that could not be used."""
    is_complete: bool
    """Whether all files could be read, be it that what they say cannot be used."""


@dataclass(slots=True)
class Problems:
    """Why files could not be used."""

    texts: list[str] = field(default_factory=list)
    all_were_read: bool = True

    @contextlib.contextmanager
    def noting(self, path: Path) -> Iterator[None]:
        """Note an error that ends the block; a missing file is none."""
        try:
            yield
        except FileNotFoundError:
            pass
        except Unfit as error:
            self.texts.append(f"{path}: {error.strerror}")
        except OSError as error:
            self.texts.append(f"{path} cannot be read: {error.strerror}")
            self.all_were_read = False
        except ValueError as error:
            self.texts.append(f"{path} {error}")


def read_earlier_files(directory: Path) -> EarlierState:
    """Read all that is there; nothing is raised for what is damaged or missing."""
    problems = Problems()
    state = StateFile()
    records: list[RecordWithEvents] = []
    logged: list[Event] = []
    with problems.noting(directory / STATE_FILE):
        state = read_state_file(directory / STATE_FILE)
    with problems.noting(directory / STATE_JOURNAL):
        for record in read_journal(directory / STATE_JOURNAL):
            records.append(record)  # noqa: PERF402 - those before an error stay
    for name in EVENT_FILES:
        with problems.noting(directory / name):
            logged.extend(read_events(directory / name))
    logged_events = set(logged)
    published = [event for record in records for event in record.events]
    unlogged = [event for event in published if event not in logged_events]
    return EarlierState(
        with_records(state, records),
        logged + unlogged,
        problems.texts,
        problems.all_were_read,
    )


def read_state_file(path: Path) -> StateFile:
    """Raises OSError, ValueError: it cannot be used."""
    first_line, _, content = read_file(path, MAX_BYTES).partition(b"\n")
    if not first_line.startswith(STATE_MAGIC):
        raise ValueError("is no state file of Penstock")
    if first_line != STATE_MAGIC + STATE_FORMAT:
        raise ValueError("has a format that this version does not read")
    return unpack(decompressed(content), StateFile)


def read_journal(path: Path) -> Iterator[RecordWithEvents]:
    """Yield the records up to the first that is torn. Raises OSError, ValueError: it is no journal."""
    content = read_file(path, MAX_BYTES)
    if not content.startswith(JOURNAL_MAGIC):
        if JOURNAL_MAGIC.startswith(
            content
        ):  # the agent ended as it wrote the first line
            return
        raise ValueError("is no journal of Penstock")
    position = len(JOURNAL_MAGIC)
    while position + _FRAME_HEAD.size <= len(content):
        length, checksum = _FRAME_HEAD.unpack_from(content, position)
        begin = position + _FRAME_HEAD.size
        body = content[begin : begin + length]
        if len(body) < length or zlib.crc32(body) != checksum:
            return
        yield unpack(body, RecordWithEvents)
        position = begin + length


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of the lines that are whole. Raises OSError."""
    for line in read_file(path, MAX_BYTES).splitlines():
        with contextlib.suppress(ValueError):
            yield decode_event(line)


def with_records(state: StateFile, records: Sequence[Record]) -> list[Checkpoint]:
    """Return the brokers with what the records say that are newer than the state file."""
    brokers = dict(state.brokers)
    bases = dict.fromkeys(brokers, state.sequence)
    for record in records:
        if record.sequence <= state.sequence or not record.key:
            continue
        if record.whole is not None:
            bases[record.key] = record.sequence
        elif bases.get(record.key) != record.base:
            continue  # what it rests on is not known
        before = brokers.get(record.key) or Checkpoint(record.key, now=0.0)
        try:
            brokers[record.key] = applied(before, record)
        except (ValueError, LookupError, TypeError):
            del bases[record.key]  # neither it nor what follows can be used
    return list(brokers.values())
