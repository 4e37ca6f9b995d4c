"""A transport that keeps what is written to it."""

import asyncio
from typing import Any


class Sink(asyncio.Transport):
    """It can be closed; nothing is ever sent."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close
