"""What the C library does with memory that Python and numpy have freed; nothing where it is not glibc."""

import ctypes

_M_ARENA_MAX = -8


def one_arena() -> None:
    """All threads share one heap, as what one frees no other could use; to be called before there are any."""
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """What is free goes back to the system: after work that needs much for a moment, and seldom comes."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
