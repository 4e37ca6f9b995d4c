"""The tour of the demo: every chapter begins and ends, it repeats, and a fault under way is ended at the stop."""

import asyncio
from functools import partial

import pytest

from penstock_demo.tour import CHAPTERS, FLOWS, TourScenario, tour
from penstock_demo.trends import Progress
from rig.waiting import eventually


class Played:
    """What `tour` did, in order; `stop_after`: so many beginnings."""

    def __init__(self, stop_after: int) -> None:
        self.done: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.stopping = asyncio.Event()
        self._left = stop_after
        self._loop = asyncio.get_running_loop()

    async def play(self) -> None:
        async with asyncio.timeout(30):
            await tour(
                lambda one: self._note("begin", one.queue),
                lambda one: self._note("end", one.queue),
                self.lines.append,
                self.stopping,
                pause=0.001,
            )

    def _note(self, what: str, queue: str) -> None:
        self.done.append((what, queue))
        self._left -= what == "begin"
        if not self._left:
            self._loop.call_soon_threadsafe(self.stopping.set)


async def test_it_repeats_and_ends_what_it_began() -> None:
    played = Played(stop_after=len(CHAPTERS) + 2)
    await played.play()
    queues = [one.queue for one in (*CHAPTERS, *CHAPTERS[:2])]
    assert played.done == [
        (what, queue) for queue in queues for what in ("begin", "end")
    ]
    assert sum("penstock explain demo" in line for line in played.lines) == len(queues)


async def test_a_stop_between_two_chapters_begins_no_other() -> None:
    played = Played(stop_after=-1)
    played.stopping.set()
    await played.play()
    assert played.done == []


def test_the_timetable_has_every_chapter() -> None:
    shown = TourScenario().describe()
    assert [one.queue for one in shown] == [one.queue for one in CHAPTERS]
    assert shown[0].what.startswith("minute 1 to 3.5: ")
    assert {one.queue for one in FLOWS} | {"emails"} == {one.queue for one in CHAPTERS}


@pytest.mark.broker
def test_each_chapter_replaces_the_consumer_of_a_real_broker() -> None:
    with TourScenario() as scenario:
        manage = scenario.broker.manage

        def consumers(queue: str) -> list[str]:
            return [
                row["clientID"]
                for row in manage.rows("listConsumers")
                if row["queue"] == queue
            ]

        for chapter in CHAPTERS:
            scenario.begin(chapter)
            eventually(
                partial(consumers, chapter.queue),
                [chapter.client] * (chapter.fault != "absent"),
                timeout=60,
            )
            scenario.end(chapter)
            eventually(partial(consumers, chapter.queue), [chapter.client])
        eventually(
            lambda: int(manage.queue("stock.updates", "DeliveringCount")) < 5,
            expected=True,
        )


def test_progress_says_how_long_it_has_taken_and_what_is_left() -> None:
    times = iter([0.0, 0.0, 30.0, 60.0, 90.0])
    lines = list[str]()
    progress = Progress(lines.append, lambda: next(times))
    for step in (
        "imagining 90 days",
        "rolling up, day 14 of 90",
        "rolling up, day 59 of 90",
        "analysing 90 days",
    ):
        progress(step)
    assert lines[0] == "[0 s] imagining 90 days"
    assert lines[1] == "[30 s, about 2 min 50 s left] rolling up, day 14 of 90"
    assert lines[3] == "[1 min 30 s, about 1 min left] analysing 90 days"
