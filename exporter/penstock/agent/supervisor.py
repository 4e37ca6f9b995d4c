"""The agent's life: what is started, reloaded and stopped, and in which order."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from penstock import __version__
from penstock.agent.assessor import Assessor
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.discovery import FILE_SECONDS, Discovery, FoundBrokers
from penstock.agent.factory import open_reader, policy_of
from penstock.agent.fleet import Fleet
from penstock.agent.history import HistorySink, take_over
from penstock.agent.lookups import Lookups
from penstock.agent.named_files import FileNews, NamedFiles, file_faults
from penstock.agent.nodes import Nodes
from penstock.agent.poller import Poller
from penstock.agent.processes.pool import LOOK_SECONDS, WorkerPool
from penstock.agent.refused_logins import RefusedLogins
from penstock.agent.service_manager import ServiceManager
from penstock.agent.shard import Shard
from penstock.agent.state_database import StateDatabase
from penstock.agent.storage_lock import lock_storage
from penstock.agent.trends import StoredTrends, Trends
from penstock.agent.workers import Lane, Workers
from penstock.config import Broker, Config, load
from penstock.core.errors import ConfigError
from penstock.core.tasks import Stopped, Turns, end
from penstock.exposition.body import Exposition
from penstock.exposition.self_metrics import SelfMetrics
from penstock.insight.events import Change, Event

log = logging.getLogger(__name__)

MAX_DETAIL = 2_000
"""Characters of an event: a configuration may be refused for very many reasons."""
IN_FORCE = "The configuration is in force."
STOP_SECONDS = 2.5
"""A stop takes no longer, whatever is under way: what is shown is in the state database by then."""


class WebConfiguration(Protocol):
    """The web configuration of the server, which is taken with a reload and whose faults the agent reports."""

    @property
    def faults(self) -> Sequence[str]:
        """Why the files cannot be taken, a line for each fault; empty where they can, or are being written."""

    async def take_changes(self) -> Sequence[str]:
        """Take what the files hold now. Returns why that cannot be taken, a line for each fault."""


class Agent:
    """Polls the brokers of a configuration file; `lookups` answers requests about them.

    Its methods are called in the event loop; `reload` and `stop` at any time.

    storage: the directory of the state database; None keeps nothing over a restart.
    shard: the part of the brokers that is this agent's to poll; None: all.
    worker: the command of a worker process. processes: how many there may be for the large brokers.
    """

    def __init__(
        self,
        config_file: Path,
        storage: Path | None = None,
        shard: Shard | None = None,
        worker: Sequence[str] = (),
        processes: int = 0,
    ) -> None:
        self._file = config_file
        self._storage = storage
        self._shard = shard
        self._written = self._load()
        """The configuration as the file has it, without the brokers of discovery."""
        self._discovery = Discovery(
            config_file.parent, report=partial(self._record, Change.CONFIG_REFUSED)
        )
        self._history = HistorySink()
        self._trends = Trends(None)
        self.refused_logins = RefusedLogins(self._record_refused)
        self._self_metrics = SelfMetrics(__version__, asked=self._counted)
        self._workers = Workers()
        self._checkpoints = Checkpoints(
            StateDatabase(storage), self._workers, self._on_save
        )
        self._journal = self._checkpoints.journal
        self.exposition = Exposition(self._self_metrics.render)
        self._fleet = Fleet(
            self._written, self._open, self.exposition, self._checkpoints
        )
        self._nodes = Nodes(self._checkpoints.of_node, lambda: self._fleet.polled)
        most = (
            0 if storage is None else processes
        )  # a broker could not take along what is known of it
        self._pool = WorkerPool(
            storage, worker, most, self.exposition, self._checkpoints, self._journal
        )
        self._fleet.elsewhere = lambda: self._pool.assigned
        self.lookups = Lookups(
            self._fleet,
            self._journal,
            self.exposition,
            self.reload,
            lambda: self._pool.assigned,
            self._history.reader,
        )
        self._named_files = NamedFiles()
        self._file_faults: frozenset[str] = frozenset()
        """Those that were reported and last."""
        self._turns = Turns()
        """Whatever changes what is polled: start, reload, discovery."""
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = asyncio.Event()
        """The start has asked for its turn: what is asked for from now on comes after it."""
        self._stopping: asyncio.Task[None] | None = None
        self._lock: int | None = None
        self.service_manager = ServiceManager()
        self.web_configuration: WebConfiguration | None = None

    def pollers(self) -> list[Poller]:
        """Return the pollers of all brokers, in the configuration's order; may be called in any thread."""
        return [polled.poller for polled in self._fleet.in_order()]

    async def start(self) -> None:
        """ConfigError: the storage is in use, or a transport cannot be made; none is polled then. Stopped by `stop`."""
        self._loop = asyncio.get_running_loop()
        self._begun.set()  # nothing is awaited before the start has asked for its turn
        self._lock = None if self._storage is None else lock_storage(self._storage)
        try:
            await self._begin()
        except BaseException:
            self._release()
            raise

    async def _begin(self) -> None:
        self._checkpoints.load()
        if self._storage is not None:
            for place in sorted(self._storage.glob("worker-*")):
                self._checkpoints.take_over(place)
                take_over(place, self._storage)
        if not self._checkpoints.success:
            self._self_metrics.state_saved(success=False)
        await self._turns.run("start", self._start)  # a reload may be asked for by now
        if self._stopping is not None:
            raise Stopped("start: Penstock is stopping")
        lasting = {
            "discovery": self._discover_regularly(),
            "named files": self._look_at_files_regularly(),
        }
        if self._storage is not None:
            lasting["save state"] = self._checkpoints.run(self._assessors)
        if self._pool.most:
            lasting["worker processes"] = self._spread_regularly()
        self._tasks += [
            asyncio.create_task(work, name=name) for name, work in lasting.items()
        ]

    async def _start(self) -> None:
        brokers = await self._look(self._written)
        config = self._written.model_copy(update={"brokers": self._own(brokers)})
        self._pool.assign(self._pool.large_by(self._checkpoints.known(), config), {})
        await self._put_in_force(self._written, brokers)
        self._self_metrics.config_loaded(time.time())
        self._record(Change.AGENT_START, f"version {__version__}")
        self.service_manager.ready(IN_FORCE)

    async def stop(self) -> None:
        """At any time, more than once, also when cancelled. What does not end in STOP_SECONDS is left behind."""
        self._begun.set()  # a reload that waits for the start ends
        self.service_manager.stopping()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        ended = True
        unwritten = "what was learned since the last save is lost"
        try:
            async with asyncio.timeout(STOP_SECONDS):
                others = asyncio.create_task(asyncio.to_thread(self._pool.stop))
                await self._turns.close()
                await end(*self._tasks)
                self._fleet.drop_all()
                await self._fleet.settled()
                if (
                    self._tasks
                ):  # else nothing was begun: what an earlier agent saved must stay
                    await self._checkpoints.save(())
                    unwritten = "of the history what waits in its queue is lost"
                # In a worker: threads of other kinds may all wait for a name server.
                await asyncio.get_running_loop().run_in_executor(
                    self._workers.small, self._history.stop
                )
                await self._workers.idle()
                await others
        except TimeoutError:
            ended = False
            message = "the work under way did not end within %g s: %s; counters, conditions and events are saved"
            log.warning(message, STOP_SECONDS, unwritten)
        finally:
            self._workers.shutdown(wait=ended)
            if ended:  # else it may still write: the end of the process gives the directory back
                self._release()

    def _release(self) -> None:
        self._checkpoints.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def reload(self) -> None:
        """All of the configuration is taken, or ConfigError raised and nothing has changed; Stopped by `stop`.

        One that is asked for before the start comes after it.
        """
        await self._begun.wait()
        await self._turns.run("reload", self._reload)

    async def _reload(self) -> None:
        self.service_manager.reloading()
        status = (
            "The last reload did not end; the configuration before it stays in force."
        )
        try:
            await self._reload_all()
            status = IN_FORCE
        except ConfigError as error:
            status = f"The last reload was refused, the configuration before it stays in force: {error.args[0]}"
            raise
        finally:
            self.service_manager.ready(status)

    async def _reload_all(self) -> None:
        try:
            written = await asyncio.to_thread(self._load)
            discovered = await self._look(written)
            users = [*self._own(discovered), *written.discovery.profiles.values()]
            faults = [
                *await asyncio.to_thread(file_faults, users),
                *await self._take_web_configuration(),
            ]
            if faults:
                raise ConfigError(*faults)  # noqa: TRY301 - reported as any other refusal
            await self._put_in_force(written, discovered)
        except Exception as error:
            if not isinstance(error, ConfigError):
                log.exception("the reload failed unexpectedly; please report this")
                error = ConfigError(
                    f"unexpected {type(error).__name__}; the log has the details"
                )
            self._self_metrics.config_refused()
            await asyncio.wait([self._record(Change.CONFIG_REFUSED, str(error))])
            raise error from None
        self._written = written
        self._self_metrics.config_loaded(time.time())
        brokers = len(self._fleet.config.brokers)
        rules = len(written.rules)
        log.info("configuration reloaded from %s: %d brokers", self._file, brokers)
        recorded = self._record(
            Change.CONFIG_RELOAD, f"{brokers} brokers, {rules} rules"
        )
        await self._fleet.settled()
        await asyncio.wait([recorded])
        await asyncio.to_thread(self._pool.reload)

    async def _take_web_configuration(self) -> Sequence[str]:
        """Why it cannot be taken. It is also taken without a reload, so it does not wait for the other files."""
        if self.web_configuration is None:
            return ()
        return await self.web_configuration.take_changes()

    def _load(self) -> Config:
        return load(self._file)

    # --- the files that it names

    async def _look_at_files_regularly(self) -> None:
        """Report files that have changed; the readers of the brokers use them by themselves."""
        while True:
            try:
                news = await asyncio.to_thread(
                    self._named_files.look, self._fleet.config.brokers
                )
                web_faults = (
                    ()
                    if self.web_configuration is None
                    else self.web_configuration.faults
                )
                self._report(news, web_faults)
            except Exception:
                log.exception(
                    "the files that the configuration names could not be looked at; please report this"
                )
            await asyncio.sleep(FILE_SECONDS)

    def _report(self, news: FileNews, web_faults: Sequence[str]) -> None:
        faults = frozenset((*news.faults, *web_faults))
        for fault in sorted(faults - self._file_faults):
            log.error("%s; what was read before stays in use", fault)
            self._record(
                Change.CONFIG_REFUSED, f"{fault}; what was read before stays in use"
            )
            self._self_metrics.files_refused()
        if news.changed and not news.faults:
            names = ", ".join(map(str, news.changed))
            log.info(
                "files have changed, and are used from the next poll on: %s", names
            )
            self._record(Change.CONFIG_RELOAD, f"files have changed: {names}")
        elif self._file_faults and not faults:
            log.info("all files that the configuration names can be used again")
        self._file_faults = faults
        self._self_metrics.files_looked_at(usable=not faults)

    # --- which brokers

    async def _discover_regularly(self) -> None:
        while True:
            await asyncio.sleep(FILE_SECONDS)
            with contextlib.suppress(Stopped):
                await self._turns.run("discovery", self._discover)

    async def _discover(self) -> None:
        """Watch what is found now; one failed look must not be the last."""
        try:
            discovered = await self._look(self._written)
            if self._own(discovered) == self._fleet.config.brokers:
                self._discovery.keep(discovered)
                return
            await self._put_in_force(self._written, discovered)
        except ConfigError as error:
            if self._discovery.refused(str(error)):
                log.error("what discovery found cannot be watched: %s", error)  # noqa: TRY400 - expected
            return
        except Exception as error:
            if self._discovery.refused(repr(error)):
                log.exception("discovery failed unexpectedly; please report this")
            return
        brokers = len(self._fleet.config.brokers)
        log.info("discovery: %d brokers are watched now", brokers)
        await asyncio.wait(
            [self._record(Change.CONFIG_RELOAD, f"discovery: {brokers} brokers")]
        )

    async def _look(self, config: Config) -> FoundBrokers:
        return await self._discovery.look(config, time.monotonic())

    def _own(self, discovered: FoundBrokers) -> tuple[Broker, ...]:
        """Return the brokers that are this agent's to poll."""
        shard = self._shard
        return tuple(
            broker
            for broker in discovered.brokers
            if shard is None or shard.owns(broker.name)
        )

    async def _spread_regularly(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._pool.look)
                await asyncio.sleep(LOOK_SECONDS)
                if large := self._pool.large_of(self.pollers()):
                    await self._turns.run("move", partial(self._move, large))
            except Stopped:
                return
            except Exception:
                log.exception(
                    "the worker processes could not be looked after; please report this"
                )
                await asyncio.sleep(LOOK_SECONDS)

    async def _move(self, names: Sequence[str]) -> None:
        """Let worker processes poll these from now on; what they show stays until more is shown from there."""
        published = {
            name: polled.poller.assessor.blocks.published
            for name, polled in self._fleet.polled.items()
        }
        before = self._pool.assigned
        self._pool.assign(names, published)
        try:
            await self._put_in_force(self._written, await self._look(self._written))
        except Exception:
            self._pool.assigned = before
            raise
        await self._fleet.settled()

    # --- first planned, then done

    async def _put_in_force(self, config: Config, discovered: FoundBrokers) -> None:
        """Change to another configuration.

        A refusal comes while nothing has changed; the change itself is one step that no one can cancel.
        """
        switch_history = await asyncio.to_thread(
            self._history.plan, config.history, self._storage
        )
        trends = self._trends_of(config.history.trends or "")
        own = config.model_copy(update={"brokers": self._own(discovered)})
        switch_fleet = self._fleet.plan(
            own
        )  # the last, because it opens connections, which are in use from here on
        switch_history()
        switch_fleet()
        self._pool.show(own)
        self._discovery.keep(discovered)
        watched = {broker.name: broker.labels for broker in own.brokers}
        self._self_metrics.watched(
            watched, [broker.name for broker in discovered.brokers]
        )
        if trends.file != self._trends.file:
            self._trends = trends
            self.exposition.set_broker(
                "", trends.blocks
            )  # beside the brokers; a broker's name is never empty

    def _trends_of(self, named: str) -> Trends:
        """Return the reader of what the trend job wrote there. Raises ConfigError."""
        if "://" in named:
            return StoredTrends(named)
        file = (
            Path(named)
            if named
            else self._storage and self._storage / "trends" / "gauges.json"
        )
        return Trends(file)

    def _open(self, config: Config, broker: Broker) -> Poller:
        interval = config.interval_of(broker)
        lane = Lane(self._workers)
        offer = self._history.offer(broker.name, interval)
        record = self._checkpoints.record
        policy = policy_of(config, broker)
        change = self._on_change
        assessor = Assessor(
            policy, interval, self._nodes, offer, lane=lane, on_change=change, on_record=record,
            recall=self._checkpoints.of_name,
        )  # fmt: skip
        return Poller(
            open_reader(config, broker, lane), assessor, config.timeout_of(broker), lane
        )

    # --- what changed

    def _on_save(self, success: bool) -> None:
        self._self_metrics.state_saved(success=success)

    def _assessors(self) -> list[Assessor]:
        return [poller.assessor for poller in self.pollers()]

    def _on_change(self, events: Iterable[Event]) -> None:
        """After each poll, in a worker thread. The events are in the journal by then."""
        self._trends.refresh()
        if list(events):
            self._loop.call_soon_threadsafe(self._checkpoints.save_soon)

    def _counted(self) -> Mapping[str, float]:
        counts = {
            "failures": self._discovery.failures,
            "faults": len(self._discovery.faults),
        }
        discovery = {
            f"discovery_{name}": float(count) for name, count in counts.items()
        }
        return self._pool.numbers(
            {**discovery, **self._history.numbers(), **self.refused_logins.numbers()}
        )

    def _record(self, change: Change, detail: str) -> asyncio.Future[bool]:
        """Begin to write it down, behind what the worker has to do already; not to be cancelled, wait for it."""
        event = Event(time.time(), change, detail=detail[:MAX_DETAIL])
        return asyncio.get_running_loop().run_in_executor(
            self._workers.small, self._journal.add, [event]
        )

    def _record_refused(self, detail: str) -> bool:
        """The server serves before the agent has started, and until it has stopped."""
        if not self._tasks or self._stopping is not None:
            return False
        self._record(Change.LOGIN_REFUSED, detail)
        return True
