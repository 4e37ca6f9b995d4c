"""The worker processes of an agent: which brokers are large, and which process has them."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from penstock.agent import tables as own
from penstock.agent.assessor import Result
from penstock.agent.checkpoint import Checkpoint, node_of
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.fleet import Polled
from penstock.agent.history import PUBLISHED
from penstock.agent.journal import Journal
from penstock.agent.processes.handle import GIVE_SECONDS, HUNG_SECONDS, WorkerProcess
from penstock.agent.processes.wire import RemoteBlocks
from penstock.agent.recent import HOUR
from penstock.agent.workers import Lane
from penstock.config import Config
from penstock.config.discovery import Discovery
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.table import Index, Table
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks, Published
from penstock.insight.answers import BrokerState
from penstock.insight.events import Event
from penstock.series.last_good import keep_seconds

log = logging.getLogger(__name__)

LARGE = 0.03
"""CPU seconds of work a second of its interval: a broker that takes more is polled by a worker process."""
ROW_SECONDS = 9e-6
"""CPU that a poll takes for a queue or a consumer, where only a state file says how many there are."""
POLLS = 3
"""Over which a broker is measured; the first, which reads every text, is none of them."""
LOOK_SECONDS = 2.0
MOST_EVENTS = 2_000
"""Of a broker that moves: of its last hour."""
DIRECTORY = "worker-{}"
SHOWN = "\0workers"
"""Name of their metrics beside those of brokers, none of which has it."""


@dataclass(frozen=True, slots=True)
class Processes:
    """command: starts one, to which a descriptor and a directory are added. most: of them."""

    command: Sequence[str] = ()
    most: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSeries:
    worker: str


@dataclass(slots=True)
class Measured:
    """What the jobs of a broker took up to a poll."""

    lane: Lane
    polls: int
    used: float


@dataclass(slots=True)
class WorkerPool:
    """Belongs to the event loop; `workers` and `assigned` are replaced, so that any thread may read them.

    record: notes as an event of the agent that a process ended.
    """

    storage: Path | None
    processes: Processes
    exposition: Exposition
    checkpoints: Checkpoints
    journal: Journal
    record: Callable[[str], object]
    assigned: Mapping[str, WorkerProcess] = field(default_factory=dict)
    """By the broker's name; of brokers that are no longer there, too."""
    workers: Sequence[WorkerProcess] = ()
    _shares: dict[str, float] = field(default_factory=dict)
    """What each broker takes of a processor."""
    _nodes: dict[str, str] = field(default_factory=dict)
    """The node id of each, as it was last known."""
    _measured: dict[str, Measured] = field(default_factory=dict)
    _metrics: BrokerBlocks = field(default_factory=BrokerBlocks)

    @property
    def most(self) -> int:
        """Of processes; none where nothing is kept: a broker could not take its state along."""
        return 0 if self.storage is None else self.processes.most

    def directories(self) -> list[Path]:
        return [] if self.storage is None else sorted(self.storage.glob(DIRECTORY.format("*")))

    # --- which are large

    def large_at_start(self, known: Iterable[Checkpoint], config: Config) -> list[str]:
        """Those of the configuration that are large by what an earlier agent left, the largest first."""
        brokers = {broker.name: broker for broker in config.brokers}
        for one in known:
            if one.broker in brokers:
                rows = len(one.queue_keys) + len(one.consumer_keys)
                self._shares[one.broker] = rows * ROW_SECONDS / config.interval_of(brokers[one.broker])
                self._nodes[one.broker] = one.node
        return self._large(brokers)

    def large_now(self, polled: Iterable[Polled]) -> list[str]:
        """Those that have turned out to be."""
        here = {one.broker.name: one.poller for one in polled}
        for name, poller in here.items():
            done = poller.polls[Result.OK] + poller.polls[Result.PARTIAL]
            lane, snapshot = poller.assessor.lane, poller.assessor.snapshot
            if snapshot is None or snapshot.broker is None or lane is None:
                continue
            self._nodes[name] = node_of(snapshot.broker, name)
            before = self._measured.get(name)
            if before is not None and before.lane is lane and done - before.polls >= POLLS:
                self._shares[name] = (lane.used - before.used) / (done - before.polls) / poller.interval
            if before is None or before.lane is not lane or done - before.polls >= POLLS:
                self._measured[name] = Measured(lane, done, lane.used)
        return self._large(here)

    def _large(self, names: Collection[str]) -> list[str]:
        """Of these, and those that serve a node id with one of them, or with one that has a process: they are judged
        together.
        """
        if not self.most:
            return []
        found = {name for name in names if self._shares.get(name, 0.0) > LARGE} | self.assigned.keys()
        nodes = {self._nodes[name] for name in found if name in self._nodes}
        found |= {name for name in names if self._nodes.get(name) in nodes}
        return sorted(found.intersection(names) - self.assigned.keys(), key=lambda name: -self._shares.get(name, 0.0))

    def assign(self, names: Iterable[str]) -> None:
        """To the process that has least to do, or a new one, to be polled there from the next `commit` on."""
        for name in names:
            node = self._nodes.get(name, name)
            mates = (worker for other, worker in self.assigned.items() if self._nodes.get(other, other) == node)
            worker = next(mates, None) or self._least()
            self.assigned = {**self.assigned, name: worker}
            log.info("broker %s is large (%.0f %% of a processor): %s polls it from now on", name,
                     100 * self._shares.get(name, 0.0), worker.name)  # fmt: skip

    def _least(self) -> WorkerProcess:
        if len(self.workers) < self.most and self.storage is not None:
            directory = self.storage / DIRECTORY.format(len(self.workers) + 1)
            worker = WorkerProcess(directory, self.processes.command, self._give, self._take_events, self._ended)
            self.workers = [*self.workers, worker]
            return worker
        return min(
            self.workers, key=lambda one: sum(self._shares.get(n, 0.0) for n, w in self.assigned.items() if w is one)
        )

    def unassign(self, names: Collection[str]) -> None:
        self.assigned = {name: worker for name, worker in self.assigned.items() if name not in names}

    # --- what they poll

    def commit(self, config: Config, shown: Mapping[str, Published]) -> None:
        """Of `config` its own brokers to each, sent by `send`. shown: of brokers that come here, what they show now."""
        history = config.history
        for worker in self.workers:
            brokers = tuple(broker for broker in config.brokers if self.assigned.get(broker.name) is worker)
            names = {broker.name for broker in brokers}
            for name in worker.blocks.keys() - names:
                self.exposition.remove_broker(name)
            for name in names:
                blocks = worker.blocks.setdefault(name, RemoteBlocks())
                blocks.published = shown.get(name, blocks.published)
                self.exposition.set_broker(name, blocks)
            url = history.url or str(self.storage and self.storage / PUBLISHED)
            own_history = {"url": url, "agent": f"{history.agent}-{worker.name}", "trends": None}
            worker.config = config.model_copy(
                update={
                    "brokers": brokers, "discovery": Discovery(), "history": history.model_copy(update=own_history)
                }
            )  # fmt: skip

    async def send(self) -> None:
        """Let each process poll so. Raises ConfigError: one cannot; another that is not there gets it when it is."""
        for found in await asyncio.gather(*map(self._give, self.workers), return_exceptions=True):
            if isinstance(found, ConfigError):
                raise ConfigError("the configuration is in force, but not in every worker process", *found.args)

    async def _give(self, worker: WorkerProcess) -> None:
        """Its configuration, and what is known here of its brokers, which is its own from then on."""
        if worker.config is None:
            return
        names = [broker.name for broker in worker.config.brokers]
        known = self.checkpoints.of(names)
        events = [
            one for name in names for one in self.journal.last(MOST_EVENTS, since=time.time() - HOUR, broker=name)
        ]
        try:
            await worker.asked("give", worker.config, known, events if known else (), seconds=GIVE_SECONDS)
        except PenstockError as error:
            log.warning("%s did not take its brokers: %s", worker.name, error)
            raise
        await self.checkpoints.drop(known)

    def _take_events(self, events: Sequence[Event]) -> None:
        asyncio.get_running_loop().run_in_executor(None, self.journal.add_missing, events)

    def _ended(self, worker: WorkerProcess, why: str) -> None:
        names = [broker.name for broker in worker.config.brokers] if worker.config else []
        for name in names:  # what it showed last stays for a while, as after a poll that failed
            blocks = worker.blocks[name]
            blocks.published = Published({**blocks.published.families, **down(name).families})
        self.record(f"{worker.name} ended ({why}): {', '.join(names)}")

    # --- how they are

    async def look(self) -> None:
        """Ask each how it is; end what hangs, withdraw what is too old, and show all of it."""
        await asyncio.gather(*map(self._look, self.workers))
        columns: dict[str, list[float]] = {
            name: [] for name in ("up", "brokers", "starts", "unanswered", "cpu", "memory")
        }
        for worker in self.workers:
            brokers = len(worker.config.brokers) if worker.config else 0
            up = worker.ended is None and not worker.silent
            for name, value in zip(
                columns, (up, brokers, worker.starts, worker.unanswered, *worker.used()), strict=True
            ):
                columns[name].append(float(value))
        index = Index.of([WorkerSeries(worker.name) for worker in self.workers])
        if self.workers:
            self._metrics.update({"worker": Table(index, {name: np.array(of) for name, of in columns.items()})})
            self.exposition.set_broker(SHOWN, self._metrics)

    async def _look(self, worker: WorkerProcess) -> None:
        if worker.ended is None:
            try:
                status = await worker.asked("status")
            except PenstockError:
                if worker.ended is None and time.monotonic() - worker.answered > HUNG_SECONDS:
                    log.error("%s hangs: it has answered nothing for %g s", worker.name, HUNG_SECONDS)
                    worker.kill()
                return
            worker.states = {state.name: (time.monotonic(), state) for state in status.brokers}
            worker.nodes, worker.numbers = status.nodes, status.numbers
            self._nodes |= status.nodes
        elif worker.config is not None:
            for broker in worker.config.brokers:
                if time.monotonic() - worker.ended > keep_seconds(worker.config.interval_of(broker)):
                    worker.blocks[broker.name].published = down(broker.name)

    def states(self) -> list[BrokerState]:
        """Of the brokers that are polled elsewhere."""
        found = []
        now = time.monotonic()
        for worker in self.workers:
            gone = (
                "ended and is started again" if worker.ended is not None else "does not answer" if worker.silent else ""
            )
            for broker in worker.config.brokers if worker.config else ():
                at, state = worker.states.get(broker.name) or (now, BrokerState(
                    name=broker.name, kind=broker.kind, version="", role="", up=None, age=None))  # fmt: skip
                age = None if state.age is None else state.age + now - at
                state = replace(state, age=age)
                if gone:
                    state = replace(state, up=False, error=f"its process, {worker.name}, {gone}")
                found.append(state)
        return found

    def numbers(self, here: Mapping[str, float]) -> Mapping[str, float]:
        """The agent's own metrics with what the processes count: of what succeeded, or was last, the least; sums of all else."""
        found = dict(here)
        for worker in self.workers:
            for name, value in worker.numbers.items():
                least = name.endswith(("success", "timestamp"))
                found[name] = min(found.get(name, value), value) if least else found.get(name, 0.0) + value
        return found

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.workers))


def down(broker: str) -> Published:
    """What is shown of a broker whose process ended."""
    blocks = BrokerBlocks()
    blocks.update({"broker": own.with_poll({}, broker, {"up": 0.0})})
    return blocks.published
