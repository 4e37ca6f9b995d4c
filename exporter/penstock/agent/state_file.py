"""The state file: what is known of each broker, over restarts of the agent.

One line that names the format, then zlib over msgpack. Written whole beside the old one and renamed over it. What was
published since is in the journal beside it, which is read with it.
"""

import contextlib
import logging
import math
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.agent.checkpoint import Checkpoint
from penstock.agent.packed import Packed, compressed, pack, unpack
from penstock.agent.record import Record, applied
from penstock.agent.state_journal import FULL, StateJournal
from penstock.core.safe_files import Unfit, make_directory, read_file, replace_file
from penstock.insight.events import Event

log = logging.getLogger(__name__)

MAGIC = b"penstock state "
FORMAT = 2
FILE = "state.bin"
SET_ASIDE = ".unusable"
"""Suffix of a file that could not be read; a later one replaces it."""
FORGET_SECONDS = 30 * 86400.0
"""A broker that was not seen for so long is forgotten."""
MAX_BYTES = 1 << 28
PLAIN_BYTES, MOST_PACKED = 1 << 26, 200
"""So much content is taken, or so many times the file's size if that is more: beyond it is a bomb."""


class Saved(msgspec.Struct):
    """The file's content. By `identity`: what is kept, and the agent's time when it was seen last.

    sequence: of the last record of the journal that is in it.
    """

    brokers: dict[str, Checkpoint] = {}
    seen: dict[str, float] = {}
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class PackedBroker(Packed):
    """A checkpoint, as no value of it is needed."""

    node: str


@dataclass(slots=True)
class StateFile:
    """Polls are recorded and brokers kept in any thread; while `save` runs nothing else may be done."""

    directory: Path
    success: bool = True
    """Whether what was last saved or recorded is in the files, and they could be used."""
    sequence: int = 0
    _brokers: dict[str, Checkpoint | PackedBroker] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _journal: StateJournal = field(init=False)
    _recorded: set[str] = field(default_factory=set)
    """Brokers of which the journal has newer records than `_brokers`."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._journal = StateJournal(self.directory)

    @property
    def path(self) -> Path:
        return self.directory / FILE

    @property
    def journal_is_full(self) -> bool:
        return self._journal.size > FULL

    def load(self) -> list[Event]:
        """What cannot be used is renamed, with a warning. Returns the journal's events: the log may lack the last."""
        saved, records = self._of_file(), list(self._records())
        saved = replayed(saved, records, time.time())
        self._brokers, self._seen = {**saved.brokers}, saved.seen
        self.sequence = max([saved.sequence, *(record.sequence for record in records)])
        if records:
            self.save()
        return [event for record in records for event in record.events]

    def _of_file(self) -> Saved:
        try:
            return decode(read_file(self.path, MAX_BYTES))
        except FileNotFoundError:
            pass
        except (Unfit, ValueError) as error:
            self._set_aside(self.path, error)
        except OSError as error:
            log.warning("%s cannot be read, patience and conditions start again: %s", self.path, error.strerror)
        return Saved()

    def _records(self) -> Iterator[Record]:
        """As far as they can be read."""
        path = self._journal.path
        try:
            for packed in self._journal.read():
                yield unpack(packed, Record)
        except (Unfit, ValueError) as error:
            self._set_aside(path, error)
            self._journal.begin_anew()
        except OSError as error:
            log.warning("%s cannot be read, what was published last may be lost: %s", path, error.strerror)
        if torn := self._journal.torn:
            log.info("%s: its last %d bytes are no whole record: the agent was ended as it wrote them", path, torn)

    def record(self, record: Record) -> bool:
        """Write what a poll changed, before it is shown; False when that failed."""
        packed = pack(record)
        with self._lock:
            try:
                self._journal.append(packed)
            except OSError as error:
                self._failed(self._journal.path, error)
                return False
            self._recorded.add(record.key)
        return True

    def next_sequence(self) -> int:
        with self._lock:
            self.sequence += 1
            return self.sequence

    def of_node(self, node: str) -> list[Checkpoint]:
        """What is known of a node id, under any name."""
        return [_unpacked(one) for one in self._brokers.copy().values() if one.node == node]

    def of_name(self, name: str) -> Checkpoint | None:
        """What is known of a broker under its own name, the newest of it."""
        names = (f"name:{name}", f" {name}")
        known = (_unpacked(one) for key, one in self._brokers.copy().items() if key.endswith(names))
        return max((one for one in known if one.broker == name), key=_seen, default=None)

    def keep(self, checkpoints: Iterable[Checkpoint], now: float) -> None:
        """Take these in; others stay as they are for a month. now: agent's clock."""
        with self._lock:
            brokers, seen = self._brokers.copy(), self._seen.copy()
            for checkpoint in checkpoints:
                brokers[checkpoint.node_id], seen[checkpoint.node_id] = checkpoint, now
                if checkpoint.was_active and checkpoint.node != checkpoint.node_id:
                    brokers.pop(checkpoint.node, None)  # as an older file had it
                self._recorded.discard(checkpoint.node_id)
            for node_id in [name for name in brokers if now - seen.get(name, 0.0) > FORGET_SECONDS]:
                del brokers[node_id]
                seen.pop(node_id, None)
            self._brokers, self._seen = brokers, seen

    def newest(self, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Those of which nothing newer is known."""
        known = {one.node_id: _seen(one) for one in self.known()}
        return [one for one in checkpoints if known.get(one.node_id, -math.inf) < _seen(one)]

    def drop(self, checkpoints: Iterable[Checkpoint]) -> None:
        """They are another file's now, unless more is known of a broker since."""
        given = {one.node_id: _seen(one) for one in checkpoints}
        with self._lock:
            gone = {one.node_id for one in self.known() if _seen(one) <= given.get(one.node_id, -math.inf)}
            self._recorded -= gone
            self._brokers = {key: one for key, one in self._brokers.items() if key not in gone}
            self._seen = {key: at for key, at in self._seen.items() if key not in gone}

    def known(self) -> list[Checkpoint]:
        return [_unpacked(one) for one in self._brokers.copy().values()]

    def remove(self) -> None:
        """Another file has what they say."""
        for path in (self._journal.path, self.path):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def prepare(self) -> None:
        """Pack what is kept so far: `save` packs the rest. Beside it brokers may be recorded and kept."""
        for key, one in self._brokers.copy().items():
            packed = one if isinstance(one, Packed) else PackedBroker(compressed(one), one.node)
            with self._lock:
                if self._brokers.get(key) is one:
                    self._brokers[key] = packed

    def save(self) -> bool:
        """Write it, and begin the journal again; False when that failed. Only the first failure in a row is logged."""
        try:
            make_directory(self.directory)
            self._take_in_records()
            self.prepare()
            replace_file(self.path, encode(Saved(seen=self._seen, sequence=self.sequence), self._brokers))
        except OSError as error:
            self._failed(self.path, error)
        else:
            self._journal.begin_anew()
            self._recorded.clear()
            if not self.success:
                log.info("%s is written again", self.path)
            self.success = True
        return self.success

    def close(self) -> None:
        self._journal.close()

    def _take_in_records(self) -> None:
        """Of brokers that were recorded and not kept since, as they could not be read: what the files say."""
        if missing := self._recorded - {""}:
            now = replayed(self._of_file(), list(self._records()), time.time())
            found = missing & now.brokers.keys()
            self._brokers |= {key: now.brokers[key] for key in found}
            self._seen |= {key: now.seen[key] for key in found}

    def _set_aside(self, path: Path, error: Unfit | ValueError) -> None:
        self.success = False
        why = error.strerror if isinstance(error, Unfit) else error
        aside = path.with_name(path.name + SET_ASIDE)
        log.warning("%s %s; it is set aside as %s, patience and conditions start again", path, why, aside)
        try:
            path.replace(aside)
        except OSError as problem:
            log.warning("%s cannot be renamed: %s", path, problem.strerror)

    def _failed(self, path: Path, error: OSError) -> None:
        if self.success:
            what = "%s cannot be written (%s): patience and conditions will be lost when the agent ends; %s"
            hint = "make the directory writable or give another --storage.path"
            log.warning(what, path, error.strerror or error, hint)
        self.success = False


def _unpacked(one: "Checkpoint | PackedBroker") -> Checkpoint:
    return unpack(b"".join(one.pieces()), Checkpoint) if isinstance(one, Packed) else one


def _seen(one: Checkpoint) -> float:
    return max(one.now, one.recorded)  # which may be NaN


def replayed(saved: Saved, records: Sequence[Record], now: float) -> Saved:
    """With what the records say that is newer. now: agent's clock, the time of those that are new."""
    brokers, seen = dict(saved.brokers), dict(saved.seen)
    base = dict.fromkeys(brokers, saved.sequence)
    for record in records:
        if record.sequence <= saved.sequence or not record.key:
            continue
        if record.whole is not None:
            base[record.key] = record.sequence
        elif base.get(record.key) != record.base:
            continue  # of what it rests on nothing is known
        try:
            brokers[record.key] = applied(brokers.get(record.key) or Checkpoint(record.key, now=0.0), record)
        except (ValueError, LookupError, TypeError) as error:
            log.warning("a record of %s in the journal does not fit (%s), it and what follows is not used",
                        record.key, error)  # fmt: skip
            del base[record.key]
        seen[record.key] = now
    return Saved(brokers, seen, saved.sequence)


def encode(saved: Saved, others: Mapping[str, Checkpoint | Packed] | None = None) -> bytes:
    brokers: dict[str, Checkpoint | Packed] = {**saved.brokers, **(others or {})}
    content = {"brokers": brokers, "seen": saved.seen, "sequence": saved.sequence}
    return MAGIC + f"{FORMAT}\n".encode() + b"".join(compressed(content))


def decode(content: bytes) -> Saved:
    """ValueError says why it cannot be used."""
    line, _, packed = content.partition(b"\n")
    if not line.startswith(MAGIC):
        raise ValueError("is no state file of Penstock")
    if line != MAGIC + str(FORMAT).encode():
        raise ValueError(f"has format {line[len(MAGIC) :][:10].decode(errors='replace')}, this version reads {FORMAT}")
    try:
        return unpack(inflated(packed), Saved)
    except zlib.error as error:
        raise ValueError(f"is damaged ({error})") from None


def inflated(packed: bytes) -> bytes:
    """ValueError: it is cut off, or unpacks to more than any state has."""
    most = max(PLAIN_BYTES, MOST_PACKED * len(packed))
    inflate = zlib.decompressobj()
    plain = inflate.decompress(packed, most + 1)
    if len(plain) > most:
        raise ValueError(f"unpacks to more than {most:,} bytes")
    if not inflate.eof:
        raise ValueError("is cut off")
    return plain
