"""Files of discovery: read when they have changed; what one gave before stays while it cannot be used."""

import contextlib
import glob
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penstock.config import Broker, Profile, Target, load_targets
from penstock.config.discovery import MAX_TARGETS
from penstock.core.errors import ConfigError

MAX_FILES = 1000
"""Of one pattern that are read."""
MAX_BYTES = 2**20
"""Of the files of one pattern that are read; a thousand brokers with 16 labels each are a sixth of it."""
RETRY_SECONDS = 60.0
"""Until a file that cannot be used is read again, though it has not changed: the fault may have been the disk's."""
SETTLED_SECONDS = 2.0
"""Age at which a file's times tell whether it has changed."""

Found = list[tuple[Profile, Broker]]


class ReadFile(NamedTuple):
    """What a file names. targets: as read last; found: the same as the profiles ask them; fault: why it is not used."""

    signature: tuple[int, ...]
    profiles: Mapping[str, Profile]
    at: float
    fault: str
    targets: tuple[Target, ...]
    found: Found


@dataclass(slots=True)
class TargetFiles:
    """Remembers files by their pattern. Its method blocks, for a thread."""

    _known: dict[str, Mapping[Path, ReadFile]] = field(default_factory=dict)

    def find(self, pattern: str, profiles: Mapping[str, Profile], now: float) -> tuple[Found, Mapping[str, str]]:
        """The brokers in the files that fit, and what is wrong, by file. now: of a clock that never goes back."""
        # Without a wildcard the file must be there.
        files = sorted(map(Path, glob.glob(pattern))) if glob.has_magic(pattern) else [Path(pattern)]  # noqa: PTH207
        faults = {}
        if len(files) > MAX_FILES:
            faults[pattern] = f"matches {len(files)} files, of which the first {MAX_FILES} are read"
        before, left = self._known.get(pattern, {}), MAX_BYTES
        known: dict[Path, ReadFile] = {}
        for file in files[:MAX_FILES]:
            signature = _signature(file)
            left -= signature[0]
            known[file] = one = _read(file, (*signature, left < 0), profiles, now, before.get(file))
            if one.fault:
                faults[str(file)] = one.fault
        self._known[pattern] = known
        found = [pair for one in known.values() for pair in one.found]
        if len(found) > MAX_TARGETS:
            faults[pattern] = f"names {len(found)} brokers, of which the first {MAX_TARGETS} are watched"
        return found[:MAX_TARGETS], faults


def _signature(file: Path) -> tuple[int, ...]:
    """Its size, and what is another when it has changed; never twice the same while it is young."""
    try:
        about = file.stat()
    except (OSError, ValueError):
        return (0,)
    young = time.time() - about.st_ctime < SETTLED_SECONDS
    return about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns, time.monotonic_ns() if young else 0


def _read(
    file: Path, signature: tuple[int, ...], profiles: Mapping[str, Profile], now: float, before: ReadFile | None
) -> ReadFile:
    """signature: its last part says whether there is no room for it."""
    same = before is not None and (before.signature, before.profiles) == (signature, profiles)
    if before is not None and same and (not before.fault or now - before.at < RETRY_SECONDS):
        return before
    targets, fault = () if before is None else before.targets, ""
    if signature[-1]:
        fault = f"is not read: the files of its pattern hold more than {MAX_BYTES} bytes"
    else:
        try:
            targets = load_targets(file, profiles)
        except ConfigError as error:
            fault = str(error)
    return ReadFile(signature, profiles, now, fault, targets, _asked(targets, profiles))


def _asked(targets: Iterable[Target], profiles: Mapping[str, Profile]) -> Found:
    """The brokers of a file as these profiles ask them, which may be others than when it was read."""
    found: Found = []
    for target in targets:
        with contextlib.suppress(ValueError):  # the file is refused for it
            found.append((target.profile_of(profiles), target.broker(profiles)))
    return found
