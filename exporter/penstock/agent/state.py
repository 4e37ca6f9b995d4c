"""
The state file: what is known of each broker, over restarts of the agent.

One line that names the format, then zlib over msgpack. Written whole beside the old one and renamed over it.
"""

import logging
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from penstock.flow.memory import Memory

log = logging.getLogger(__name__)

MAGIC = b"penstock state "
FORMAT = 2
FILE = "state.bin"
SET_ASIDE = ".unusable"
"""Suffix of a file that could not be read; a later one replaces it."""
FORGET_SECONDS = 30 * 86400.0
"""A broker that was not seen for so long is forgotten."""
MAX_BYTES = 1 << 30
"""Of the content, unpacked."""


class Saved(msgspec.Struct):
    """The file's content. By node id: what is kept, and the agent's time when it was seen last."""

    brokers: dict[str, Memory] = {}
    seen: dict[str, float] = {}


@dataclass(slots=True)
class StateFile:
    """The state of all brokers, in memory and in `directory`/state.bin. Not to be used by two threads at once."""

    directory: Path
    success: bool = True
    """Whether the last save succeeded."""
    _saved: Saved = field(default_factory=Saved)

    @property
    def path(self) -> Path:
        return self.directory / FILE

    def load(self) -> None:
        """Read it. A file that cannot be used is renamed, with a warning, and nothing is known then."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("%s cannot be read, patience and conditions begin anew: %s", self.path, error.strerror)
            return
        try:
            self._saved = decode(content)
        except ValueError as error:
            aside = self.path.with_name(FILE + SET_ASIDE)
            log.warning("%s %s; it is set aside as %s, patience and conditions begin anew", self.path, error, aside)
            try:
                self.path.replace(aside)
            except OSError as problem:
                log.warning("%s cannot be renamed: %s", self.path, problem.strerror)

    def memory(self, node_id: str) -> Memory | None:
        return self._saved.brokers.get(node_id)

    def keep(self, memories: Iterable[Memory], now: float) -> None:
        """Take these in; others stay as they are for a month. now: agent's clock."""
        brokers, seen = dict(self._saved.brokers), dict(self._saved.seen)
        for memory in memories:
            brokers[memory.node_id], seen[memory.node_id] = memory, now
        for node_id in [name for name in brokers if now - seen.get(name, 0.0) > FORGET_SECONDS]:
            del brokers[node_id]
            seen.pop(node_id, None)
        self._saved = Saved(brokers, seen)

    def save(self) -> bool:
        """Write it; False when that failed. The first failure in a row is told."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(self.path, encode(self._saved))
        except OSError as error:
            if self.success:
                log.warning(
                    "%s cannot be written (%s): patience and conditions will be lost when the agent ends; make the"
                    " directory writable or give another --storage.path",
                    self.path,
                    error.strerror or error,
                )
            self.success = False
        else:
            if not self.success:
                log.info("%s is written again", self.path)
            self.success = True
        return self.success


def write(path: Path, content: bytes) -> None:
    """Whole or not at all, and lasting; readable by its owner only: it holds names of queues, clients and users."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=_private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def encode(saved: Saved) -> bytes:
    packed = zlib.compress(msgspec.msgpack.encode(saved, enc_hook=_to_bytes), 1)
    return MAGIC + f"{FORMAT}\n".encode() + packed


def decode(content: bytes) -> Saved:
    """ValueError says why it cannot be used."""
    line, _, packed = content.partition(b"\n")
    if not line.startswith(MAGIC):
        raise ValueError("is no state file of Penstock")
    if line != MAGIC + str(FORMAT).encode():
        raise ValueError(f"has format {line[len(MAGIC) :][:10].decode(errors='replace')}, this version reads {FORMAT}")
    try:
        unpack = zlib.decompressobj()
        plain = unpack.decompress(packed, MAX_BYTES)
        if not unpack.eof:
            raise ValueError("is cut off")
        return msgspec.msgpack.decode(plain, type=Saved, dec_hook=_from_bytes)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"is damaged ({error})") from None


def _to_bytes(value: Any) -> Any:
    match value:
        case np.ndarray():
            return value.tobytes()
        case Mapping():
            return dict(value)
        case np.generic():
            return value.item()
    raise TypeError(f"{type(value)} has no place in the state file")


def _from_bytes(kind: Any, value: Any) -> Any:
    """Columns; their type says of what."""
    (of,) = get_args(get_args(kind)[1])
    return np.frombuffer(value, of)
