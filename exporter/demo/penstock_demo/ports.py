"""Free TCP ports that stay ours while a server is down between two starts."""

import random
import socket
import threading

from penstock_demo.errors import DemoError

LOOPBACK = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections, so that no client grabs one meanwhile.
_RANGE = range(20_000, 32_000)
_shares = [_RANGE]
_given: set[int] = set()
_lock = threading.Lock()


def divide(share: int, shares: int) -> None:
    """Take ports of this share (from 0) of all alone: other processes take theirs of the others."""
    _shares[:] = [_RANGE[share::shares]]


def free_port() -> int:
    """A port of the loopback that nothing listens on and that was not given out before by this process."""
    with _lock:
        for port in random.sample(_shares[0], 200):
            if port not in _given and _bindable(port):
                _given.add(port)
                return port
    raise DemoError(f"no free port found between {_RANGE.start} and {_RANGE.stop}")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
