"""One agent a directory: two that write to one would take each other's state."""

import contextlib
import errno
import fcntl
import logging
import os
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.core.safe_files import make_directory, open_to_append

log = logging.getLogger(__name__)

FILE = "lock"
_NOT_OFFERED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""By a file system that has no locks."""


def lock_storage(directory: Path) -> int | None:
    """Hold `directory` for this agent: until what is returned is closed, and no longer than the process lives.

    Raises ConfigError while another agent holds it. One that cannot be written is not held: None.
    """
    try:
        make_directory(directory)
        descriptor = open_to_append(directory / FILE)
    except OSError as error:
        log.warning(
            "%s cannot be locked (%s): see that no other agent uses it",
            directory,
            error.strerror or error,
        )
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise ConfigError(
            f"{directory} is in use by another agent{f' (process {holder})' if holder else ''}: stop that one, or"
            " give this one a directory of its own by --storage.path"
        ) from None
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            os.close(descriptor)
            raise ConfigError(
                f"{directory} cannot be locked: {error.strerror}; give another --storage.path"
            ) from None
        log.warning(
            "%s cannot be locked (%s): see that no other agent uses it",
            directory,
            error.strerror,
        )
    with contextlib.suppress(OSError):  # for the text of the other agent's error only
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor
