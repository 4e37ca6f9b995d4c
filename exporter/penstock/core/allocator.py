"""Settings of the C library's memory allocator, so that freed memory goes back to the system.

They are those of glibc; with another C library the functions do nothing.
"""

import ctypes

_M_ARENA_MAX = -8
"""The number of the setting in malloc.h: how many heaps there may be."""


def one_arena() -> None:
    """Let all threads share one heap: with several, a thread cannot use memory that another has freed.

    To be called before the first thread is started.
    """
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return free memory to the system: after rare work that needs much memory for a moment."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    """Return a function of the C library; None where it has none of that name."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
