"""One poll of a broker of any kind: its deadline, its parts that succeed or fail alone, its pages.

A kind decides on the requests and their order; nothing here knows a request or an answer by its content.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

import numpy as np

from penstock.brokers.budget import Budget, RowBudgets
from penstock.brokers.clients import NameMap
from penstock.brokers.replies import Replies, Response
from penstock.brokers.rows import Paged, Unread, lost_rows, together
from penstock.brokers.sight import Sight
from penstock.core.errors import NotRecorded, SourceError, Unreachable
from penstock.model import Collector, Observation, Process, Snapshot
from penstock.transports.transport import Answer, Request, Transport

ResultT = TypeVar("ResultT")
ReplyT = TypeVar("ReplyT", bound=Response)

PageT = TypeVar("PageT", bound=Paged)

SHARE = 0.6
"""Share of the time left that a part of a poll gets: it may wait for a lock or for a disk, and others come after it."""
MOST = 0.8
"""Share of the time left for a part that nothing replaces, where those after it need little."""
FIELDS_NAMED = 5
"""Fields that an error names of those with unread values, the most frequent first."""


class PartlyRead(str):
    """Why a part is not whole: so many values, or rows, could not be read."""

    __slots__ = ("values",)
    values: int
    """How many."""

    def __new__(cls, unread: Unread) -> Self:
        fields = [name for name, _ in unread.most_common(FIELDS_NAMED)]
        more = (
            f" and {len(unread) - len(fields)} more"
            if len(unread) > len(fields)
            else ""
        )
        text = f"{unread.total()} values could not be read and are left out: {', '.join(fields)}{more}"
        made = super().__new__(cls, text)
        made.values = unread.total()
        return made


class ValuesLeftOut(PartlyRead):
    """The same where all rows are there and only values of them are missing."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    page_rows: int = 5_000
    """Rows of a listing in one answer, where the broker has pages."""
    names: NameMap = ()
    name: str = ""
    """The broker's name in the configuration: its identity where it shows none of its own."""
    budgets: RowBudgets = field(default_factory=RowBudgets)


class Poll(Generic[ReplyT]):
    """A poll under way. now: agent's clock at the broker's own answer; answered: at the last answer; asked: seconds
    spent waiting so far. collectors: how each part went, in the order of the parts. inconsistent: as in `Observation`.
    """

    def __init__(
        self,
        transport: Transport,
        executor: Executor | None,
        timeout: float,
        replies: Replies[ReplyT],
    ) -> None:
        self.now = self.answered = np.nan
        self.asked = 0.0
        self.collectors: dict[str, Collector] = {}
        self.inconsistent: set[str] = set()
        self._transport = transport
        self._executor = executor
        self._replies = replies
        self._deadline = time.monotonic() + timeout

    def left(self) -> float:
        """Seconds to the deadline, of the part that is under way. Raises Unreachable when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unreachable(
                "the time for this poll was used up before this call; raise timeout or interval"
            )
        return left

    def share_leaving(self, seconds: float) -> float:
        """The share of the time left that leaves so many seconds, from SHARE to MOST."""
        return float(
            np.clip(
                1 - seconds / max(self._deadline - time.monotonic(), 1e-3), SHARE, MOST
            )
        )

    @contextmanager
    def share(self, share: float = SHARE) -> Iterator[None]:
        """However many calls are made within, they have this share of the time left."""
        whole = self._deadline
        self._deadline = whole - (1 - share) * max(whole - time.monotonic(), 0.0)
        try:
            yield
        finally:
            self._deadline = whole

    async def begin(self, requests: Sequence[Request]) -> list[ReplyT]:
        """The attributes of the broker itself, read first: without them there is no poll."""
        await self._transport.begin_poll()
        answer = await self.call(requests)
        self.now = answer.stamp
        self.collectors["broker"] = Collector(answer.seconds, answer.stamp)
        return self._replies(answer.body, len(requests))

    async def call(self, requests: Sequence[Request], most: float = np.inf) -> Answer:
        """The raw answer, within the time left and at most so many seconds. Raises SourceError."""
        answer = await self._transport.ask(requests, min(self.left(), most))
        self.asked += answer.seconds
        self.answered = answer.stamp
        return answer

    async def ask(self, requests: Sequence[Request]) -> list[ReplyT]:
        """The replies to a bulk. Raises SourceError."""
        answer = await self.call(requests)
        return await self.work(self._replies, answer.body, len(requests))

    async def work(
        self, function: Callable[..., ResultT], *arguments: object
    ) -> ResultT:
        """`function(*arguments)` on the executor: decoding never runs on the event loop."""
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, function, *arguments
        )

    async def collect(
        self, name: str, part: Awaitable[tuple[ResultT, str]], share: float = SHARE
    ) -> ResultT | None:
        """The result of a part, None when it failed. The part returns with it what it had to leave out, as text. What
        an older version did not record is no part of the poll.
        """
        began = time.monotonic()
        result: ResultT | None = None
        try:
            with self.share(share):
                result, error = await part
        except NotRecorded:
            return None
        except SourceError as failed:
            error = str(failed)
        self.collectors[name] = Collector(
            time.monotonic() - began,
            self.answered,
            str(error),
            all_rows=isinstance(error, ValuesLeftOut),
            left_out=error.values if isinstance(error, PartlyRead) else 0,
        )
        return result

    def leave_out(self, unread: Unread) -> None:
        """Note which of the broker's own values could not be read."""
        if unread:
            error = ValuesLeftOut(unread)
            own = self.collectors["broker"]
            self.collectors["broker"] = replace(
                own, error=str(error), all_rows=True, left_out=error.values
            )

    def note(self, table: str, sight: Sight) -> None:
        """Say in the observation whether rows of a table that was read in pages were out of sight."""
        if sight.stayed:
            self.inconsistent.add(table)

    @staticmethod
    async def pages(
        page: Callable[[int, int], Awaitable[PageT]],
        rows: int,
        budget: Budget,
        sight: Sight | None = None,
    ) -> list[PageT]:
        """The pages of a listing, each by its number, from 1, and its rows, about `rows`: all, or what the budget
        allows. One that turns out to have more rows than that is begun again, in other pages, the same at each poll.
        """
        pages: list[PageT] = []
        while True:
            size, most = (
                budget.pages(rows)
                if budget.over
                else (sight.page_rows(rows) if sight else rows, 0)
            )
            pages.append(await page(len(pages) + 1, size))
            total = pages[-1].total
            if total > budget.most and not budget.over:
                budget.over = True
                pages = []
            # By the total alone: a page may be short of rows that went away while it was written, or are unreadable.
            elif not len(pages[-1]) or len(pages) * size >= total or len(pages) == most:
                budget.read(sum(map(len, pages)), total)
                return pages


class BrokerReader(ABC, Generic[ReplyT]):
    """Reads one broker through a transport; decoding runs on `executor`, never on the event loop."""

    replies: Replies[ReplyT]

    def __init__(
        self,
        transport: Transport,
        options: ReaderOptions | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.options = options or ReaderOptions()
        self._transport = transport
        self._executor = executor
        self.process = Process()
        self.start_again()

    async def close(self) -> None:
        await self._transport.close()

    async def poll(self, timeout: float) -> Snapshot:
        """A snapshot within `timeout` seconds. Raises SourceError when the broker itself could not be read; each other
        part fails alone, with its error in `Snapshot.collectors`.
        """
        poll = Poll(self._transport, self._executor, timeout, self.replies)
        for budget in self.budgets.values():
            budget.begin_poll()
        snapshot = await self.read(poll)
        left_out = tuple(
            found for budget in self.budgets.values() if (found := budget.left_out())
        )
        late = {
            budget.what: budget.late
            for budget in self.budgets.values()
            if len(budget.late)
        }
        observation = Observation(
            self.process,
            inconsistent=frozenset(poll.inconsistent),
            left_out=left_out,
            late=late,
        )
        notes = (*snapshot.notes, *(f"not read: {one}" for one in left_out))
        return replace(snapshot, observation=observation, notes=notes)

    def begins(self, process: Process) -> bool:
        """Note which process answers; True, and everything learned is forgotten, when it is not that of before."""
        before = self.process
        self.process = process
        new = not process.follows(before)
        if new:
            self.start_again()
        return new

    def start_again(self) -> None:
        """Nothing of before is used, nor listed as left out: another process answers, or this one shows no rows."""
        self.budgets = self.options.budgets.listings()
        self.forget()

    @abstractmethod
    async def read(self, poll: Poll[ReplyT]) -> Snapshot:
        """The kind's own calls, in its order."""

    @abstractmethod
    def forget(self) -> None:
        """Start again: nothing of an earlier broker process is used. Called once at the start, too."""


def unreadable(pages: Iterable[Paged]) -> str:
    """The values and rows that had to be left out of these pages, as text."""
    pages = list(pages)
    return left_out(
        together(page.unread for page in pages), all_rows=not lost_rows(pages)
    )


def left_out(unread: Unread, *, all_rows: bool = True) -> str:
    """The same of these values, empty where there are none. all_rows: the rows that they are of can be judged."""
    if not unread:
        return ""
    return ValuesLeftOut(unread) if all_rows else PartlyRead(unread)
