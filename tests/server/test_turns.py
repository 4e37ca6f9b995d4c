"""Whoever writes bodies lets others go first: a crowd at every write, one that is alone by time."""

import asyncio
from typing import Any, cast

import pytest

from penstock.server import app


class Reader:
    """A request whose reader has not taken `waiting` bytes."""

    def __init__(self, waiting: int = 0) -> None:
        self.transport = self
        self.waiting = waiting

    def get_write_buffer_size(self) -> int:
        return self.waiting


class FairScheduler:
    def __init__(self) -> None:
        self.given = 0

    async def turn(self) -> None:
        self.given += 1


class Clocked(app.Metrics):
    def __init__(self, others: int = 0) -> None:
        super().__init__(cast("Any", None), 8, 10.0)
        self.turns = FairScheduler()
        self._turns = cast("Any", self.turns)
        self._scrapes = {number: cast("Any", None) for number in range(1 + others)}

    async def writes(self, count: int, reader: Reader) -> int:
        """Turns that others got before so many writes."""
        for _ in range(count):
            await self._let_others(cast("Any", reader))
        return self.turns.given


async def test_a_crowd_takes_turns_at_every_write() -> None:
    assert await Clocked(others=1).writes(10, Reader()) == 10


async def test_one_that_waits_for_its_reader_lets_others_go() -> None:
    assert await Clocked().writes(10, Reader(waiting=1)) == 10


async def test_one_that_is_alone_lets_others_go_by_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    alone = Clocked()
    assert await alone.writes(10, Reader()) == 1
    now += 1.1 * app.ALONE_SECONDS
    assert await alone.writes(10, Reader()) == 2
