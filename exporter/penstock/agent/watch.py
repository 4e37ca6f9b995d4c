"""One broker: poll it, assess what it says, publish what is shown; never twice at once, never longer than allowed."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.agent import tables as own
from penstock.agent.recent import Recent
from penstock.agent.tables import Result
from penstock.errors import PenstockError, Refused
from penstock.exposition.render import BrokerBlocks
from penstock.flow.assess import State, Tables, assess
from penstock.flow.events import Event, Picture, changes, pictured
from penstock.flow.explain import Sight
from penstock.flow.judge.judge import Judgement
from penstock.flow.memory import Memory, identity, recall, remember
from penstock.flow.policy import Policy
from penstock.flow.retention import Kept, keep_seconds, retain
from penstock.model import Collector, Role, Snapshot
from penstock.sources.transport import Reader

log = logging.getLogger(__name__)

AFTER_REFUSAL = 60.0
"""Seconds without a poll after the broker refused us: more failed logins would lock the account."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last poll went."""

    result: Result
    error: str = ""
    pause: float = 0.0
    """Seconds for which the broker is better left alone."""


@dataclass(slots=True)
class Watch:
    """The poll loop of one broker."""

    reader: Reader
    policy: Policy
    interval: float
    timeout: float
    executor: Executor | None = None
    blocks: BrokerBlocks = field(default_factory=BrokerBlocks)
    outcome: Outcome | None = None
    snapshot: Snapshot | None = None
    """The last snapshot that is in use, failed parts as they last were; None when there is none fresh enough."""
    remembered: Callable[[str], Memory | None] = lambda _: None
    """What an earlier agent, or another watch, knew of a node id."""
    on_change: Callable[[Iterable[Event]], None] = lambda _: None
    """Called in the worker thread with what changed at a poll."""
    on_poll: Callable[[Snapshot, Judgement], None] = lambda _, __: None
    """Called in the worker thread with each poll as it was read, and what it was judged to mean; must be quick."""
    sight: Sight | None = None
    """All that is known after the last poll, to be read by any thread; None while there is nothing fresh enough."""
    recent: Recent = field(default_factory=Recent)
    _wanted: Policy | None = None
    """What the policy is to be from the next poll on."""
    _state: State = field(default_factory=State)
    _recalled: bool = False
    _picture: Picture | None = None
    _kept: Kept = field(default_factory=Kept)
    _tables: Tables = field(default_factory=dict)
    _collectors: dict[str, Collector] = field(default_factory=dict)
    _polls: dict[Result, int] = field(default_factory=lambda: dict.fromkeys(Result, 0))
    _seconds: float = np.nan
    _fresh_until: float = np.inf
    """When what is shown becomes too old, by the monotonic clock; inf while nothing is."""

    @property
    def name(self) -> str:
        return self.policy.broker

    @property
    def tables(self) -> Tables:
        """The tables in use, of the assessment."""
        return self._tables

    def hidden(self) -> dict[str, int]:
        """How many rows are held back by the series limits, by table."""
        return self._state.hidden() if self._tables else {}

    @property
    def keep_seconds(self) -> float:
        """What could not be read anew stays visible for so long."""
        return keep_seconds(self.interval)

    @property
    def wanted(self) -> Policy:
        """The policy from the next poll on."""
        return self._wanted or self.policy

    def set_policy(self, policy: Policy) -> None:
        """From the next poll on other rules, selection or limits."""
        # The state belongs to the worker thread, which may be assessing: it takes the new policy itself.
        self._wanted = policy

    async def run(self, first: float = 0.0) -> None:
        """Poll for ever, the first time after `first` seconds; ends by cancellation."""
        await asyncio.sleep(first)
        due = time.monotonic()
        while True:
            began = time.monotonic()
            outcome = await self.poll()
            now = time.monotonic()
            # A slow broker gets as long a rest as it took to answer.
            rest = max(outcome.pause, now - began if now - began > self.interval / 2 else 0.0)
            due += self.interval
            while due < now + rest:
                due += self.interval
                self._polls[Result.SKIPPED] += 1
            await self._rest(due)

    async def _rest(self, until: float) -> None:
        """Sleep `until` then (monotonic); what is shown and becomes too old meanwhile is withdrawn in time."""
        if self._fresh_until < until:
            await asyncio.sleep(max(self._fresh_until - time.monotonic(), 0.0))
            await self._show(self._withdraw, self.outcome or Outcome(Result.FAILED))
        await asyncio.sleep(max(until - time.monotonic(), 0.0))

    async def poll(self) -> Outcome:
        """One poll, from the broker to what is published. Never raises but for cancellation."""
        loop = asyncio.get_running_loop()
        try:
            snapshot = await self._read()
            await loop.run_in_executor(self.executor, self._take, snapshot)
            outcome = _outcome(snapshot)
        except Refused as error:
            outcome = Outcome(Result.FAILED, str(error), max(AFTER_REFUSAL, error.retry_after or 0.0))
        except PenstockError as error:
            outcome = Outcome(Result.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - one broker's surprise must not end its loop
            outcome = self._surprise(error)
        self._polls[outcome.result] += 1
        outcome = await self._show(self._publish, outcome)
        self._tell(outcome)
        self.outcome = outcome
        return outcome

    async def _show(self, publish: Callable[[Outcome], None], outcome: Outcome) -> Outcome:
        """`publish` in the worker thread; a failed outcome when that goes wrong."""
        try:
            await asyncio.get_running_loop().run_in_executor(self.executor, publish, outcome)
        except Exception as error:  # noqa: BLE001 - as in `poll`
            return self._surprise(error)
        return outcome

    def _surprise(self, error: Exception) -> Outcome:
        """Of an error that nobody expected; it is logged in full when it is another than at the poll before."""
        outcome = Outcome(Result.FAILED, f"unexpected {type(error).__name__}; the log has the details")
        if self.outcome is None or self.outcome.error != outcome.error:
            log.error("broker %s: the poll failed unexpectedly; please report this", self.name, exc_info=error)
        return outcome

    async def close(self) -> None:
        await self.reader.close()

    async def _read(self) -> Snapshot:
        began = time.monotonic()
        try:
            return await self.reader.poll(self.timeout)
        finally:
            self._seconds = time.monotonic() - began

    def _take(self, snapshot: Snapshot) -> None:
        """Assess, in the worker thread."""
        if self.wanted is not self.policy:
            self.policy, self._state = self.wanted, self._state.with_new_labels()
        kept, retained = retain(self._kept, snapshot, self.keep_seconds)
        if not self._recalled:
            retained = self._recall(retained)
        self._state, self._tables = assess(self._state, retained, self.policy)
        self._kept, self.snapshot = kept, retained
        passive = snapshot.broker is not None and snapshot.broker.role is not Role.ACTIVE
        # Not every part is read at every poll: the others stay as they were last.
        self._collectors = {**({} if passive else self._collectors), **snapshot.collectors}
        self.recent.add(snapshot.stamp, self._tables)
        self.on_poll(snapshot, self._state.judgement)
        self.sight = Sight(self._state, self._tables, retained, self.policy, self.interval)

    def _recall(self, snapshot: Snapshot) -> Snapshot:
        """At the first complete poll; until then consumers are left out, lest they be counted twice."""
        broker = snapshot.broker
        if broker is None or broker.role is not Role.ACTIVE:
            return snapshot
        memory = self.remembered(identity(broker, self.name))
        if memory is None:
            self._recalled = True
            return snapshot
        if snapshot.queues is None or snapshot.consumers is None:
            return replace(snapshot, consumers=None)
        self._recalled = True
        try:
            self._state = recall(memory, self._state, snapshot, self.policy)
        except (ValueError, LookupError, TypeError) as error:
            log.warning("broker %s: the state file does not fit (%s), what it says is not used", self.name, error)
            return snapshot
        self._picture = Picture(self.name, conditions={name: (severity, at) for name, severity, at in memory.told})
        return snapshot

    def memory(self) -> Memory | None:
        """What to keep of this broker over a restart; to be called in the worker thread."""
        if not self._recalled or self.snapshot is None:
            return None
        return remember(self._state, self.snapshot, self.policy)

    def _changed(self, outcome: Outcome) -> Iterable[Event]:
        before = self._picture or Picture(self.name)
        about = self.snapshot.broker if self.snapshot else None
        up = outcome.result is not Result.FAILED
        self._picture = pictured(before, self._state, about, up=up, error=outcome.error)
        return changes(before, self._picture, time.time())

    def _publish(self, outcome: Outcome) -> None:
        """Render, in the worker thread; what was not read anew only while it is fresh enough."""
        failed = outcome.result is Result.FAILED
        if failed and time.monotonic() > self._fresh_until:
            self._forget()
        self.blocks.update(self._shown(outcome))
        if self.snapshot is None:
            self._fresh_until = np.inf
        elif not failed or np.isinf(self._fresh_until):
            self._fresh_until = time.monotonic() - self._seconds + self.keep_seconds
        self.on_change(self._changed(outcome))

    def _withdraw(self, outcome: Outcome) -> None:
        """Show only that the broker is down, in the worker thread."""
        self._fresh_until = np.inf
        self._forget()
        self._publish(replace(outcome, result=Result.FAILED))

    def _forget(self) -> None:
        self.snapshot, self._tables, self._kept, self.sight, self._collectors = None, {}, Kept(), None, {}

    def _shown(self, outcome: Outcome) -> Tables:
        tables = {
            **self._tables,
            "collector": own.collector_table(self.name, self._collectors),
            "poll": own.poll_table(self.name, self._polls),
        }
        numbers = {
            "up": float(outcome.result is not Result.FAILED),
            "poll_duration": round(self._seconds, 6),
            "poll_timestamp": np.nan if self.snapshot is None else round(self.snapshot.stamp, 3),
            "series_dropped": float(own.series_of_hidden(self.hidden())),
            "series": 0.0,
        }
        tables["broker"] = own.with_poll(tables, self.name, numbers)
        numbers["series"] = float(own.series(tables))
        tables["broker"] = own.with_poll(tables, self.name, numbers)
        return tables

    def _tell(self, outcome: Outcome) -> None:
        """Log changes of state, not every poll."""
        before = self.outcome
        if before is not None and (before.result, before.error) == (outcome.result, outcome.error):
            return
        if outcome.result is Result.OK:
            log.info("broker %s: polled%s", self.name, "" if before is None else ", all parts again")
        else:
            log.warning("broker %s: poll %s: %s", self.name, outcome.result, outcome.error)


def _outcome(snapshot: Snapshot) -> Outcome:
    errors = [f"{name}: {collector.error}" for name, collector in snapshot.collectors.items() if collector.error]
    return Outcome(Result.PARTIAL, "; ".join(errors)) if errors else Outcome(Result.OK)
