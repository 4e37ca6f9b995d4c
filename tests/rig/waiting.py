"""Waiting for what real parts do in their own time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(get: Callable[[], T], expected: T, *, timeout: float = 10.0) -> None:
    """Ask until `get` gives `expected`; fails with the last answer when it does not within `timeout` s."""
    deadline = time.monotonic() + timeout
    while (last := get()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert last == expected
