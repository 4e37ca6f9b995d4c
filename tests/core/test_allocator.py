"""What is free goes back to the system."""

import os
import platform

import pytest

from penstock.core import allocator
from trust.inside import sample


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_goes_back() -> None:
    pieces = [bytes(2_000) for _ in range(50_000)]
    held = sample(os.getpid()).rss_mb
    last = pieces[-1]
    del (
        pieces
    )  # the last one keeps the end of the heap in use: by itself nothing goes back
    allocator.give_back()
    assert sample(os.getpid()).rss_mb < held - 50
    assert len(last) == 2_000
