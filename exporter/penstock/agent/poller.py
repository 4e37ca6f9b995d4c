"""The poll loop of one broker: never two polls at once, none longer than allowed."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.core.errors import PenstockError, Refused
from penstock.model import Snapshot
from penstock.transports.transport import Reader

log = logging.getLogger(__name__)

AFTER_REFUSAL = 60.0
"""Seconds without a poll after the broker refused us: more failed logins would lock the account."""

GLANCE = 0.5
"""Seconds between polls while clients buffer more than a ring has room for: arrivals meanwhile are indistinct."""
SHARE = 0.1
"""Of that time a poll may take, else there are none in between."""

Publish = Callable[[PollResult, Mapping[Result, int]], None]


class Poller:
    """Polls one broker when it is due, gives what was read to the assessor, and logs how it went.

    Its own fields belong to the event loop; the assessor works in `executor`. timeout: seconds of a poll.
    """

    def __init__(
        self,
        reader: Reader,
        assessor: Assessor,
        timeout: float,
        executor: Executor | None = None,
    ) -> None:
        self.assessor = assessor
        self.timeout = timeout
        self.last: PollResult | None = None
        """How the last poll went; None before the first."""
        self.polls = dict.fromkeys(Result, 0)
        self.glances = 0
        """Polls in between, of which only the losses of rings are reported."""
        self._reader = reader
        self._executor = executor
        self._seconds = np.nan

    @property
    def name(self) -> str:
        return self.assessor.name

    @property
    def interval(self) -> float:
        return self.assessor.interval

    async def run(
        self, first: float = 0.0, after: Collection[asyncio.Task[None]] = ()
    ) -> None:
        """Poll for ever, the first time `first` seconds after these tasks; ends by cancellation."""
        if after:
            await asyncio.wait(after)
        await asyncio.sleep(first)
        due = time.monotonic()
        while True:
            began = time.monotonic()
            poll = await self.poll()
            now = time.monotonic()
            # A slow broker gets as long a rest as it took to answer.
            rest = max(
                poll.pause, now - began if now - began > self.interval / 2 else 0.0
            )
            due += self.interval
            while due < now + rest:
                due += self.interval
                self.polls[Result.SKIPPED] += 1
            await self._rest(due, poll)

    async def _rest(self, until: float, poll: PollResult) -> None:
        """Sleep `until` then (monotonic); what is shown and becomes too old meanwhile is withdrawn in time."""
        if poll.result is not Result.FAILED:
            await self._glance(until - GLANCE)
        if self.assessor.fresh_until < until:
            await asyncio.sleep(max(self.assessor.fresh_until - time.monotonic(), 0.0))
            await self._show(self.assessor.withdraw, poll)
        await asyncio.sleep(max(until - time.monotonic(), 0.0))

    async def poll(self) -> PollResult:
        """One poll, from the broker to what is published. Raises only when it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            snapshot = await self._read()
            await loop.run_in_executor(self._executor, self.assessor.take, snapshot)
            errors = [
                f"{name}: {one.error}"
                for name, one in snapshot.collectors.items()
                if one.error
            ]
            poll = (
                PollResult(Result.PARTIAL, "; ".join(errors))
                if errors
                else PollResult(Result.OK)
            )
        except Refused as error:
            poll = PollResult(
                Result.FAILED,
                str(error),
                pause=max(AFTER_REFUSAL, error.retry_after or 0.0),
            )
        except PenstockError as error:
            poll = PollResult(Result.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - one broker's surprise must not end its loop
            poll = self._unexpected(error)
        self.polls[poll.result] += 1
        poll = await self._show(
            self.assessor.publish, replace(poll, seconds=self._seconds)
        )
        self._log_change(poll)
        self.last = poll
        return poll

    async def _glance(self, until: float) -> None:
        """Poll in between, as long as a ring is held; what fails shows at the next poll."""
        try:
            while (
                self.assessor.state.judgement.rings_held
                and self._seconds <= SHARE * GLANCE
            ):
                if time.monotonic() + GLANCE > until:
                    return
                await asyncio.sleep(GLANCE)
                snapshot = await self._read()
                await asyncio.get_running_loop().run_in_executor(
                    self._executor, self.assessor.glance, snapshot
                )
                self.glances += 1
        except PenstockError:
            return
        except Exception as error:  # noqa: BLE001 - as in `poll`
            self._unexpected(error)

    async def close(self) -> None:
        await self._reader.close()

    async def _read(self) -> Snapshot:
        began = time.monotonic()
        try:
            return await self._reader.poll(self.timeout)
        finally:
            self._seconds = time.monotonic() - began

    async def _show(self, publish: Publish, poll: PollResult) -> PollResult:
        """`publish` in a worker thread; a failed poll when that goes wrong."""
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._executor, publish, poll, self.polls
            )
        except Exception as error:  # noqa: BLE001 - as in `poll`
            return replace(self._unexpected(error), seconds=poll.seconds)
        return poll

    def _unexpected(self, error: Exception) -> PollResult:
        """Return the result of a poll with an unexpected error; it is logged in full when it is a new one."""
        poll = PollResult(
            Result.FAILED, f"unexpected {type(error).__name__}; the log has the details"
        )
        if self.last is None or self.last.error != poll.error:
            log.error(
                "broker %s: the poll failed unexpectedly; please report this",
                self.name,
                exc_info=error,
            )
        return poll

    def _log_change(self, poll: PollResult) -> None:
        before = self.last
        if before is not None and (before.result, before.error) == (
            poll.result,
            poll.error,
        ):
            return
        if poll.result is Result.OK:
            log.info(
                "broker %s: polled%s",
                self.name,
                "" if before is None else ", all parts again",
            )
        else:
            log.warning("broker %s: poll %s: %s", self.name, poll.result, poll.error)
