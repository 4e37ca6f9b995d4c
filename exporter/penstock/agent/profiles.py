"""What history says is normal: the file of profiles, read again when it has changed."""

import logging
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from penstock.learned.normal import Profile

log = logging.getLogger(__name__)


class ProfileFile:
    """In any of the worker threads. A file that cannot be used is told once, and what was read before stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._profiles: Mapping[str, Profile] = {}
        self._lock = threading.Lock()

    def of(self, broker: str) -> Profile | None:
        """As the file says now."""
        with self._lock:
            try:
                stat = self._path.stat()
                if (stat.st_mtime_ns, stat.st_size) != self._seen:
                    self._seen = stat.st_mtime_ns, stat.st_size
                    self._profiles = read(self._path)
                    log.info("%s says what is normal on %d brokers", self._path, len(self._profiles))
            except FileNotFoundError:
                self._seen, self._profiles = None, {}
            except (OSError, ValueError) as error:
                log.warning("%s cannot be used: %s; what is normal is learned by the agent alone", self._path, error)
            return self._profiles.get(broker)


def read(path: Path) -> Mapping[str, Profile]:
    """As `read_profiles`; ValueError also where Parquet cannot be read."""
    try:
        from penstock.history.profiles import read_profiles  # noqa: PLC0415 - the agent runs without pyarrow
    except ImportError:
        raise ValueError("pyarrow is not installed: pip install 'penstock[history]'") from None
    return read_profiles(path)


@cache
def profile_file(path: str) -> ProfileFile:
    """One for all brokers."""
    return ProfileFile(Path(path))
