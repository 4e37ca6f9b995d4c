"""The tour of the demo: faults that come and go, one at a time, and where each shows, again and again."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Literal

from penstock_demo.load import OpenTransaction, StompConsumer
from penstock_demo.run import Flow, Highlight, Scenario

SETTLE = 60.0
"""Seconds without a fault, before the first chapter and after each."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """The consumer of one flow fails for so many seconds, and recovers.

    fault: `holds` acknowledges nothing, `absent` disconnects, `uncommitted` never commits. expect: which condition, and
    after which time.
    """

    queue: str
    client: str
    fault: Literal["holds", "absent", "uncommitted"]
    what: str
    expect: str
    seconds: float = 150.0


CHAPTERS: Sequence[Chapter] = (
    Chapter("stock.updates", "stock-service", "holds",
            "stock-service stops acknowledging; its messages stay in its buffer", "stalled, after about 1 min"),
    Chapter("audit.ring", "audit-service", "absent",
            "audit-service disconnects; the ring of 100 messages overflows", "ring_losing, after about 30 s"),
    Chapter("invoices", "ledger-service", "uncommitted",
            "ledger-service acknowledges in a transaction and never commits", "open_transaction, after about 1 min"),
    Chapter("emails", "mail-service", "absent",
            "mail-service disconnects; its messages wait", "no_consumer, after about 1 min"),
)  # fmt: skip
FLOWS = (
    Flow("stock.updates", "warehouse-service", 5, "stock-service", 1, 0.01),
    Flow("audit.ring", "web-shop", 20, "audit-service", 1, 0.01),
    Flow("invoices", "billing-service", 3, "ledger-service", 1, 0.01),
)


class TourScenario(Scenario):
    """Everything flows until `begin` of a chapter, and again after its `end`."""

    def describe(self) -> Sequence[Highlight]:
        """The timetable."""
        seconds = 0.0
        highlights = []
        for chapter in CHAPTERS:
            seconds += SETTLE
            text = f"minute {seconds / 60:g} to {(seconds + chapter.seconds) / 60:g}: {chapter.what}"
            highlights.append(
                Highlight(text, chapter.queue, chapter.client, chapter.expect)
            )
            seconds += chapter.seconds
        return highlights

    def begin(self, chapter: Chapter) -> None:
        """Replace the consumer of the chapter's queue by one that has the fault."""
        self._consumers[chapter.queue].close()
        if chapter.fault != "absent":
            self._consumers[chapter.queue] = self._consumer(chapter)

    def end(self, chapter: Chapter) -> None:
        """Put a healthy consumer back."""
        self._consumers[chapter.queue].close()
        self._consumers[chapter.queue] = self._consumer(chapter, healthy=True)

    def _healthy(self, flow: Flow, starting: ExitStack) -> None:
        own = flow.queue in {
            one.queue for one in CHAPTERS
        }  # its consumer is the chapter's
        super()._healthy(replace(flow, consumers=0) if own else flow, starting)

    def _faults(self, starting: ExitStack) -> None:
        self.broker.manage.create_queue("audit.ring", ring_size=100)
        self._consumers: dict[str, ExitStack] = {}
        for flow in FLOWS:
            if flow.queue != "audit.ring":
                self.broker.manage.create_queue(flow.queue)
            self._produce(flow.queue, flow.producer, flow.rate, starting)
        for chapter in CHAPTERS:
            self._consumers[chapter.queue] = self._consumer(chapter, healthy=True)
        starting.callback(self._close)

    def _close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def _consumer(self, chapter: Chapter, *, healthy: bool = False) -> ExitStack:
        endpoint = self.broker.endpoint(chapter.client)
        stack = ExitStack()
        if chapter.fault == "uncommitted" and not healthy:
            assert self.directory is not None  # noqa: S101 - it has started
            stack.enter_context(
                OpenTransaction(
                    endpoint, chapter.queue, self.directory, client_id=chapter.client
                )
            )
        else:
            stack.enter_context(
                StompConsumer(
                    endpoint,
                    chapter.queue,
                    client_id=chapter.client,
                    acknowledge=healthy,
                    work=0.01,
                )
            )
        return stack


async def tour(
    begin: Callable[[Chapter], None],
    end: Callable[[Chapter], None],
    say: Callable[[str], None],
    stopping: asyncio.Event,
    pause: float = SETTLE,
) -> None:
    """Chapter after chapter, again and again until `stopping`; the fault under way is ended first."""
    while True:
        for number, chapter in enumerate(CHAPTERS, 1):
            if await _waited(stopping, pause):
                return
            say(
                f"{number} of {len(CHAPTERS)}: {chapter.what}. Penstock will show {chapter.expect}:"
            )
            say(f"  penstock explain demo {chapter.queue}")
            await asyncio.to_thread(begin, chapter)
            stopped = await _waited(stopping, chapter.seconds * pause / SETTLE)
            await asyncio.to_thread(end, chapter)
            if stopped:
                return
            say(
                f"{number} of {len(CHAPTERS)}: {chapter.client} works again, and the condition clears"
            )


async def _waited(stopping: asyncio.Event, seconds: float) -> bool:
    """Whether it was to stop within this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()
