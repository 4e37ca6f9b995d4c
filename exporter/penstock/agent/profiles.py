"""Profiles say what is normal by the history; their file is read again when it has changed."""

import logging
import threading
from functools import cache
from pathlib import Path

from penstock.learned.normal import Profile

log = logging.getLogger(__name__)


class ProfileFile:
    """In any of the worker threads. A file that cannot be used is logged once, and what was read before stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._fault = ""
        self._profiles: dict[str, Profile] = {}
        self._lock = threading.Lock()

    def of(self, broker: str) -> Profile | None:
        """The content of the file now."""
        with self._lock:
            try:
                stat = self._path.stat()
                if (stat.st_mtime_ns, stat.st_size) != self._seen:
                    self._seen = stat.st_mtime_ns, stat.st_size
                    from penstock.history.profiles import read_profiles  # noqa: PLC0415 - agents run without pyarrow

                    self._profiles = read_profiles(self._path)
                    log.info(
                        "%s says what is normal on %d brokers",
                        self._path,
                        len(self._profiles),
                    )
            except FileNotFoundError:
                self._seen = None
                self._profiles = {}
            except (OSError, ValueError, ImportError) as error:
                if str(error) != self._fault:
                    self._fault = str(error)
                    log.warning(
                        "%s cannot be used: %s; what is normal is learned by the agent alone",
                        self._path,
                        error,
                    )
            return self._profiles.get(broker)


@cache
def profile_file(path: str) -> ProfileFile:
    """One for all brokers."""
    return ProfileFile(Path(path))
