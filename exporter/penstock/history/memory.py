"""What the history leaves of memory: publishing and joining need much for a moment, and seldom come."""

import pyarrow as pa

from penstock.core import allocator


def give_back() -> None:
    """What is free goes back to the system, also what Arrow keeps."""
    pa.default_memory_pool().release_unused()
    allocator.give_back()
