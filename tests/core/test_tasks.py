"""Tasks are ended without losing the caller's own cancellation; turns end for good."""

import asyncio
import contextlib
from functools import partial

import pytest

from penstock.core import tasks
from penstock.core.tasks import Stopped, Turns, end


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_ends_what_runs_and_what_has_not_begun() -> None:
    running = asyncio.create_task(for_ever())
    new = asyncio.create_task(for_ever())
    await asyncio.sleep(0)
    await end(running, new, asyncio.create_task(for_ever()))
    assert running.cancelled()
    assert new.cancelled()
    await end()


async def test_the_callers_own_cancellation_is_not_swallowed() -> None:
    """The task under way takes a while to end; whoever waits for that is cancelled too."""
    may_go = asyncio.Event()

    async def slow() -> None:
        try:
            await for_ever()
        finally:
            await may_go.wait()

    task = asyncio.create_task(slow())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(task))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    may_go.set()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_one_that_swallows_its_cancellation_is_told_again_and_then_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "END_SECONDS", 0.01)
    swallowed = 0

    async def stubborn(times: int) -> None:
        nonlocal swallowed
        while swallowed < times:
            try:
                await for_ever()
            except asyncio.CancelledError:
                swallowed += 1
        await for_ever()

    once = asyncio.create_task(stubborn(1))
    await asyncio.sleep(0)
    await end(once)
    assert once.cancelled()
    assert caplog.text == ""
    never = asyncio.create_task(stubborn(10), name="stubborn")
    await asyncio.sleep(0)
    await end(never)
    assert "does not end: stubborn" in caplog.text
    while not never.done():
        never.cancel()
        await asyncio.sleep(0)


async def test_turns_come_one_after_the_other() -> None:
    turns = Turns()
    done = []

    async def work(name: str) -> None:
        done.append(f"{name} begins")
        await asyncio.sleep(0)
        done.append(f"{name} ends")

    await asyncio.gather(*(turns.run(name, partial(work, name)) for name in "ab"))
    assert done == ["a begins", "a ends", "b begins", "b ends"]


async def test_an_error_is_the_callers_and_the_next_goes_on() -> None:
    turns = Turns()

    async def fails() -> None:
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await turns.run("fails", fails)
    await turns.run("goes", lambda: asyncio.sleep(0))


async def test_who_is_cancelled_cancels_the_work() -> None:
    turns = Turns()
    ended = asyncio.Event()

    async def work() -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(ended.set)
            await for_ever()

    asking = asyncio.create_task(turns.run("work", work))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await turns.run("next", lambda: asyncio.sleep(0))
    assert ended.is_set()


async def test_closing_ends_the_work_and_those_that_wait() -> None:
    turns = Turns()
    asking = [
        asyncio.create_task(turns.run(name, for_ever)) for name in ("first", "second")
    ]
    await asyncio.sleep(0.01)
    await turns.close()
    for one in asking:
        with pytest.raises(Stopped, match="is stopping"):
            await one
    with pytest.raises(Stopped, match="third"):
        await turns.run("third", for_ever)
