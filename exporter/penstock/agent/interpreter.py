"""How Python is set for a process that works on large columns in one thread and answers requests in another."""

import ctypes
import gc
import sys

YOUNG = 50_000
"""New containers after which Python looks for cycles among them."""
SWITCH_SECONDS = 0.0002
"""For how long a thread that works may keep one waiting that has something to send."""
OWN_PAGES_BYTES = 1024 * 1024
"""Memory of this size and above is taken from the system for itself, and given back when it is free."""
KEPT_BYTES = OWN_PAGES_BYTES
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def tune() -> None:
    """
    Look for cyclic garbage less often, let the thread that answers in sooner, and give free memory back.

    What is known of a large broker is hundreds of thousands of objects in no cycle: to walk them takes 0.1 s, in which
    no request is answered. What requests leave behind in cycles is little.
    """
    gc.set_threshold(YOUNG, 20, 50)
    # A scrape of ten megabytes waits for its turn at every piece: with Python's usual 5 ms for half a second.
    sys.setswitchinterval(SWITCH_SECONDS)
    _give_memory_back()


def _give_memory_back() -> None:
    """
    Tell glibc's allocator not to raise its threshold for large pieces, as it does once one of them was freed.

    Columns and answers would stand among small things from then on: what a poll needs for a moment stayed in the
    process for ever, in holes too small for the next poll's.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # not glibc
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
