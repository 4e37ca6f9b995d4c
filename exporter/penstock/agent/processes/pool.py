"""The worker processes of an agent: which brokers are large, and which process polls them."""

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.agent.assessor import Result
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.journal import Journal
from penstock.agent.poller import Poller
from penstock.agent.processes.blocks import NOTHING
from penstock.agent.processes.handle import HUNG_SECONDS, WorkerProcess
from penstock.agent.recent import HOUR
from penstock.config import Config
from penstock.config.discovery import Discovery
from penstock.core import allocator
from penstock.core.errors import PenstockError
from penstock.core.table import Index, Table
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks, Published
from penstock.model import Snapshot
from penstock.series.last_good import keep_seconds
from penstock.server.request_limit import Busy

log = logging.getLogger(__name__)

LARGE = 0.03
"""CPU seconds of work a second: a broker that takes more is polled by a worker process."""
ROW_SECONDS = 9e-6
"""CPU that a poll takes for a queue or a consumer, until it is measured."""
POLLS = 3
"""Over which a broker is measured; the first, which reads every text, is none of them."""
LOOK_SECONDS = 2.0
GIVE_SECONDS = 60.0
STOP_SECONDS = 2.0
MOST_EVENTS = 2_000
TIDY = 5
"""Looks after a move at which memory is given back."""
SHOWN = "\0workers"
"""Name of their metrics beside those of brokers, none of which has it."""


def share_of(rows: int, interval: float) -> float:
    """Estimate the share of a processor that a broker of so many queues and consumers takes."""
    return rows * ROW_SECONDS / interval


def rows(snapshot: Snapshot | None) -> int:
    tables = () if snapshot is None else (snapshot.queues, snapshot.consumers)
    return sum(len(table) for table in tables if table is not None)


@dataclass(frozen=True, slots=True)
class WorkerSeries:
    worker: str


@dataclass(slots=True)
class WorkerPool:
    """`look`, `reload` and `stop` run in a thread, everything else in the event loop; any thread may read `assigned`.

    storage: of the agent. command: starts a process. most: of them.
    """

    storage: Path | None
    command: Sequence[str]
    most: int
    exposition: Exposition
    checkpoints: Checkpoints
    journal: Journal
    assigned: Mapping[str, WorkerProcess] = field(default_factory=dict)
    """By the broker's name; also of brokers that are no longer there."""
    workers: Sequence[WorkerProcess] = ()
    _intervals: Mapping[str, float] = field(default_factory=dict)
    _config: Config | None = None
    """In force, with the brokers of discovery."""
    _given: dict[str, object] = field(default_factory=dict)
    """What each worker knows: which start of it, which configuration."""
    _giving: threading.Lock = field(default_factory=threading.Lock)
    _missing: dict[str, dict[str, float]] = field(default_factory=dict)
    """By worker: since when it does not poll a broker that it should; -inf: that was logged."""
    _shares: dict[str, float] = field(default_factory=dict)
    _measured: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Polls of each, and the CPU seconds they took, when it was measured last."""
    _nodes: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _tidy: int = 0
    """At so many looks more memory is given back."""
    _metrics: BrokerBlocks = field(default_factory=BrokerBlocks)

    # --- which are large

    def large_by(self, checkpoints: Iterable[Checkpoint], config: Config) -> list[str]:
        """Return the configured brokers that are large by what an earlier agent left."""
        self._intervals = intervals = {
            broker.name: config.interval_of(broker) for broker in config.brokers
        }
        for checkpoint in (
            checkpoint for checkpoint in checkpoints if checkpoint.broker in intervals
        ):
            self._shares[checkpoint.broker] = share_of(
                len(checkpoint.queue_keys) + len(checkpoint.consumer_keys),
                intervals[checkpoint.broker],
            )
            self._nodes[checkpoint.broker] = checkpoint.node
        return self._large(intervals)

    def large_of(self, pollers: Iterable[Poller]) -> list[str]:
        """Return the brokers that have turned out to be large."""
        read = {poller.name: poller for poller in pollers if poller.assessor.node}
        for name, poller in read.items():
            self._nodes[name] = poller.assessor.node
            by_rows = share_of(rows(poller.assessor.snapshot), poller.interval)
            self._shares[name] = max(self._shares.get(name, 0.0), by_rows)
            lane = poller.assessor.lane
            done = poller.polls[Result.OK] + poller.polls[Result.PARTIAL]
            used = lane.used if lane else 0.0
            polls, before = self._measured.setdefault(name, (done, used))
            if done - polls >= POLLS:
                self._shares[name] = (used - before) / (done - polls) / poller.interval
            if not 0 <= done - polls < POLLS:
                self._measured[name] = done, used
        return self._large(read)

    def _large(self, names: Collection[str]) -> list[str]:
        """Return the large ones of these brokers, the largest first.

        Those that serve the node id of one that is polled elsewhere count as large.

        One that is alone keeps none waiting but those who scrape it, and has no need of more memory.
        """
        if not self.most or len(self._intervals) < 2:
            return []
        large = {
            name for name in names if self._shares.get(name, 0.0) > LARGE
        } | self.assigned.keys()
        nodes = {self._nodes[name] for name in large if name in self._nodes}
        large |= {name for name in names if self._nodes.get(name) in nodes}
        return sorted(
            large.intersection(names) - self.assigned.keys(),
            key=lambda name: -self._shares.get(name, 0.0),
        )

    def assign(self, names: Iterable[str], shown: Mapping[str, Published]) -> None:
        """To the process that has least to do, or a new one. shown: stays shown until that one shows more."""
        for name in names:
            node = self._nodes.get(name)
            mates = (
                worker
                for other, worker in self.assigned.items()
                if node and self._nodes.get(other) == node
            )
            worker = next(mates, None) or self._least()
            worker.blocks[name].published = shown.get(name, NOTHING)
            self.assigned = {**self.assigned, name: worker}
            share = 100 * self._shares.get(name, 0.0)
            log.info(
                "broker %s takes %.0f %% of a processor: %s polls it from now on",
                name,
                share,
                worker.name,
            )

    def _least(self) -> WorkerProcess:
        if len(self.workers) < self.most and self.storage is not None:
            place = self.storage / f"worker-{len(self.workers) + 1}"
            self.workers = [
                *self.workers,
                WorkerProcess(place, self.command, self.journal),
            ]
            return self.workers[-1]
        shares = dict.fromkeys(self.workers, 0.0)
        for name, worker in self.assigned.items():
            shares[worker] += self._shares.get(name, 0.0)
        return min(shares, key=shares.__getitem__)

    # --- what they poll, and how they are

    def show(self, config: Config) -> None:
        """Give each worker process its part of these brokers."""
        self._config = config
        self._intervals = {
            broker.name: config.interval_of(broker) for broker in config.brokers
        }
        for name, worker in self.assigned.items():
            if name in self._intervals:
                self.exposition.set_broker(name, worker.blocks[name])
            else:
                self.exposition.remove_broker(name)
        if self.workers:
            self.exposition.set_broker(SHOWN, self._metrics)

    def reload(self) -> None:
        """Give each the configuration; one that is not there gets it when it starts. Raises ConfigError."""
        for worker in self.workers:
            with contextlib.suppress(Busy):
                self._give(worker)

    def look(self) -> None:
        """Give each what it does not have, ask how it is, end what hangs, withdraw what is too old."""
        if self._tidy:  # what a large broker took is the worker's to take now; a job of it may still be under way
            gc.collect()
            allocator.give_back()
            self._tidy -= 1
        rows = []
        for worker in self.workers:
            names = self._names_of(worker)
            used = (np.nan, np.nan)
            why = "it gives no reason"
            try:
                nodes, self._numbers[worker.name], *used = worker.ask("status")
                self._nodes |= {name: node for name, node in nodes.items() if node}
                now = time.monotonic()
                before = self._missing.get(worker.name, {})
                self._missing[worker.name] = {
                    one: before.get(one, now) for one in names if one not in nodes
                }
                self._give(worker)
            except PenstockError as error:
                why = str(error)
                log.debug("%s", error)
                if time.monotonic() - worker.answered > HUNG_SECONDS and np.isinf(
                    worker.ended
                ):
                    worker.kill()
            missing = self._missing.get(worker.name, {})
            for name in names:
                since = min(worker.ended, missing.get(name, np.inf))
                if time.monotonic() - since > keep_seconds(self._intervals[name]):
                    worker.withdraw(name)
                    if missing.get(name, -np.inf) > -np.inf:
                        log.error(
                            "%s does not poll broker %s (%s); please report this",
                            worker.name,
                            name,
                            why,
                        )
                        missing[name] = -np.inf
            rows.append(
                (
                    np.isinf(worker.ended) and not worker.silent,
                    worker.starts,
                    worker.unanswered,
                    *used,
                )
            )
        columns = zip(
            ("up", "starts", "unanswered", "cpu", "memory"),
            np.array(rows, np.float64).T,
            strict=False,
        )
        self._metrics.update(
            {
                "worker": Table(
                    Index.of([WorkerSeries(one.name) for one in self.workers]),
                    dict(columns),
                )
            }
        )

    def _names_of(self, worker: WorkerProcess) -> list[str]:
        return [
            name
            for name, other in self.assigned.items()
            if other is worker and name in self._intervals
        ]

    def _give(self, worker: WorkerProcess) -> None:
        """Its part of the configuration in force, over the private socket: secrets are in it."""
        with self._giving:
            names = self._names_of(worker)
            assert self._config is not None  # noqa: S101 - shown before the first look
            brokers = tuple(
                broker for broker in self._config.brokers if broker.name in names
            )
            config = self._config.model_copy(
                update={"brokers": brokers, "discovery": Discovery()}
            )
            if self._given.get(worker.name) == (wanted := (worker.starts, config)):
                return
            checkpoints = self.checkpoints.of(names)
            since = time.time() - HOUR
            events = [
                event
                for name in names
                for event in self.journal.last(MOST_EVENTS, since=since, broker=name)
            ]
            worker.ask("give", config, checkpoints, events, seconds=GIVE_SECONDS)
            self.checkpoints.drop(checkpoints)
            self._tidy = TIDY
            self._given[worker.name] = wanted

    def numbers(self, own_numbers: Mapping[str, float]) -> dict[str, float]:
        """The agent's own metrics with what they count: of what is a time or a success the least, of others the sum."""
        numbers_by_name = dict(own_numbers)
        for numbers in self._numbers.copy().values():
            for name, value in numbers.items():
                before = numbers_by_name.get(name)
                if before is None:
                    numbers_by_name[name] = value
                elif name.endswith(("success", "timestamp")):
                    numbers_by_name[name] = min(before, value)
                else:
                    numbers_by_name[name] = before + value
        return numbers_by_name

    def stop(self) -> None:
        if self.workers:
            with ThreadPoolExecutor(len(self.workers)) as threads:
                list(
                    threads.map(lambda worker: worker.stop(STOP_SECONDS), self.workers)
                )
