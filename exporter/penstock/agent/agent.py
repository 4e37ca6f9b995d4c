"""All brokers of a configuration, watched; the configuration read anew without losing what is known."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.agent import interpreter
from penstock.agent.discovery import FILE_SECONDS, Discovery
from penstock.agent.history import Past
from penstock.agent.journal import Journal
from penstock.agent.opening import open_reader, policy_of
from penstock.agent.recent import HOUR, Recent, course_values, queue_recent
from penstock.agent.shard import Shard
from penstock.agent.state import StateFile
from penstock.agent.tables import Result
from penstock.agent.trends import Trends
from penstock.agent.watch import Watch
from penstock.config import Broker, Config, History, load
from penstock.errors import ConfigError
from penstock.exposition.body import Exposition
from penstock.exposition.self_metrics import SelfMetrics
from penstock.flow import lists
from penstock.flow.client_view import client_view
from penstock.flow.events import Change, Event
from penstock.flow.explain import NotFound, Plain, Sight, explain, finding_list, near
from penstock.flow.lists import Listed, Wanted
from penstock.server.view import BrokerState

log = logging.getLogger(__name__)

SPREAD_SECONDS = 5.0
"""Within this time after the start all brokers are polled for the first time, one after the other."""

SAVE_SECONDS = 60.0
"""Between two saves of the state, when no condition changes."""
MAX_EVENTS = 2_000
"""Of one queue within an hour that are looked at."""
SAVE_PAUSE = 5.0
"""Between two saves at least, however often conditions change."""


@dataclass(frozen=True, slots=True)
class _Watched:
    config: Broker
    watch: Watch
    task: asyncio.Task[None]


class Agent:
    """
    The running agent, as `penstock.server` sees it (`AgentView`).

    storage: the directory of the state file and the log of changes; None keeps nothing over a restart.
    shard: the part of the brokers that is this agent's to watch; None: all.
    """

    def __init__(self, config_file: Path, storage: Path | None = None, shard: Shard | None = None) -> None:
        self._file = config_file
        self._written = self._config = load(config_file)
        """As the file has it, and with the brokers that are watched."""
        self._shard = shard
        self._discovery = Discovery(config_file.parent)
        self._self_metrics = SelfMetrics(__version__)
        self._exposition = Exposition(self._self_metrics.render)
        self._watched: dict[str, _Watched] = {}
        self._reloading = asyncio.Lock()
        self._storage = storage
        self._past = Past()
        self._trends: Trends | None = None
        self._state_file = None if storage is None else StateFile(storage)
        self._journal = Journal(storage)
        self._changed = asyncio.Event()
        self._saving: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        # One worker: decoding, assessing and rendering take turns, so that requests are answered in between.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-work")

    async def start(self) -> None:
        """Start to poll. Raises ConfigError when a broker's transport cannot be made, and watches none then."""
        interpreter.tune()
        self._journal.load()
        if self._state_file is not None:
            self._state_file.load()
        self._loop = asyncio.get_running_loop()
        self._config = await self._with_found(self._written)
        await self._apply(self._config)
        self._looking = asyncio.create_task(self._look_regularly(), name="discovery")
        self._self_metrics.config_loaded(success=True, timestamp=time.time())
        await self._tell(Change.AGENT_START, f"version {__version__}")
        if self._state_file is not None:
            self._saving = asyncio.create_task(self._save_regularly(self._state_file), name="save state")

    async def stop(self) -> None:
        """End all polling, save what is known and give everything back."""
        for task in (self._looking, self._saving):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._saving is not None and self._state_file is not None:
            await self._save(self._state_file)
        for name in list(self._watched):
            await self._drop(name)
        await asyncio.to_thread(self._past.stop)
        self._executor.shutdown(cancel_futures=True)

    async def reload(self) -> None:
        """As `AgentView.reload`: all of the new configuration, or none of it."""
        async with self._reloading:
            try:
                written = await asyncio.to_thread(load, self._file)
                config = await self._with_found(written)
                await self._apply(config)
            except ConfigError as error:
                self._self_metrics.config_loaded(success=False, timestamp=time.time())
                await self._tell(Change.CONFIG_REFUSED, str(error))
                raise
            self._written, self._config = written, config
            self._self_metrics.config_loaded(success=True, timestamp=time.time())
            await self._tell(Change.CONFIG_RELOAD, f"{len(config.brokers)} brokers, {len(config.rules)} rules")
            log.info("configuration read anew from %s: %d brokers", self._file, len(config.brokers))

    async def _with_found(self, config: Config) -> Config:
        """`config` with the brokers that are this agent's to watch, those of discovery among them."""
        brokers = await self._discovery.brokers(config, time.monotonic())
        shard = self._shard
        own = brokers if shard is None else tuple(broker for broker in brokers if shard.owns(broker.name))
        self._self_metrics.discovered(len(own), self._discovery.failures)
        return config.model_copy(update={"brokers": own})

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(FILE_SECONDS)
            async with self._reloading:
                try:
                    await self._look()
                except ConfigError as error:
                    log.error("what discovery found cannot be watched: %s", error)  # noqa: TRY400 - expected
                except Exception:  # one bad look must not be the last
                    log.exception("discovery failed unexpectedly; please report this")

    async def _look(self) -> None:
        config = await self._with_found(self._written)
        if config.brokers != self._config.brokers:
            await self._apply(config)
            self._config = config
            await self._tell(Change.CONFIG_RELOAD, f"discovery: {len(config.brokers)} brokers")
            log.info("discovery: %d brokers are watched now", len(config.brokers))

    async def _apply(self, config: Config) -> None:
        """Watch what `config` says; a broker for which nothing changed goes on undisturbed."""
        changed = [broker for broker in config.brokers if self._differs(config, broker)]
        # Everything that can be refused is made first.
        async with contextlib.AsyncExitStack() as unused:
            opened = []
            await asyncio.to_thread(self._past.apply, config.history, self._storage)
            self._show_trends(config.history)
            for broker in changed:
                watch = self._open(config, broker)
                unused.push_async_callback(watch.close)
                opened.append((broker, watch))
            unused.pop_all()
        for name in set(self._watched) - {broker.name for broker in config.brokers}:
            await self._drop(name)
        for broker, _ in opened:
            await self._drop(broker.name)
        for broker in config.brokers:
            if broker.name in self._watched:
                policy = policy_of(config, broker)
                if policy != self._watched[broker.name].watch.wanted:
                    self._watched[broker.name].watch.set_policy(policy)
        for number, (broker, watch) in enumerate(opened):
            first = SPREAD_SECONDS * number / len(opened)
            task = asyncio.create_task(watch.run(first), name=f"watch {broker.name}")
            self._watched[broker.name] = _Watched(broker, watch, task)
            self._exposition.set_broker(broker.name, watch.blocks)

    def _differs(self, config: Config, broker: Broker) -> bool:
        """Whether the broker must be opened anew; a new policy alone does not need that."""
        watched = self._watched.get(broker.name)
        return (
            watched is None
            or watched.config != broker
            or config.clients != self._config.clients
            or watched.watch.interval != config.interval_of(broker)
            or watched.watch.timeout != config.timeout_of(broker)
        )

    def _open(self, config: Config, broker: Broker) -> Watch:
        reader = open_reader(config, broker, self._executor)
        policy = policy_of(config, broker)
        return Watch(
            reader,
            policy,
            config.interval_of(broker),
            config.timeout_of(broker),
            self._executor,
            remembered=lambda node_id: self._state_file.memory(node_id) if self._state_file else None,
            on_change=self._on_change,
            on_poll=self._past.offer(broker.name, config.interval_of(broker)),
        )

    def _show_trends(self, config: History) -> None:
        """What the trend job wrote, beside the brokers; a broker's name is never empty."""
        file = Path(config.trends) if config.trends else self._storage and self._storage / "trends" / "gauges.json"
        if file and (self._trends is None or self._trends.file != file):
            self._trends = Trends(file)
            self._exposition.set_broker("", self._trends.blocks)

    async def _drop(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched is None:
            return
        self._exposition.remove_broker(name)
        watched.task.cancel()
        with _logged(name), contextlib.suppress(asyncio.CancelledError):
            await watched.task
        if self._state_file is not None:
            with _logged(name):
                await self._in_worker(self._keep, self._state_file, [watched.watch])
        with _logged(name):
            await watched.watch.close()

    # --- what outlives the agent, and what changed; in the worker thread, as the polls are

    async def _in_worker(self, work: Callable[..., Any], *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def _save_regularly(self, file: StateFile) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            await self._save(file)
            await asyncio.sleep(SAVE_PAUSE)

    async def _save(self, file: StateFile) -> None:
        try:
            await self._in_worker(self._keep, file, [watched.watch for watched in self._watched.values()])
            await self._in_worker(file.save)
        except Exception:  # what is kept for later must not end what is now
            log.exception("the state could not be saved; please report this")
            file.success = False
        self._self_metrics.state_saved(success=file.success)

    @staticmethod
    def _keep(file: StateFile, watches: Sequence[Watch]) -> None:
        file.keep([memory for watch in watches if (memory := watch.memory()) is not None], time.time())

    def _on_change(self, events: Iterable[Event]) -> None:
        self._self_metrics.history_written(self._past.numbers())
        if self._trends is not None:
            self._trends.refresh()
        if self._journal.add(events):
            self._loop.call_soon_threadsafe(self._changed.set)

    async def _tell(self, change: Change, detail: str) -> None:
        await self._in_worker(self._journal.add, [Event(time.time(), change, detail=detail)])

    def watches(self) -> list[Watch]:
        """The watches of all brokers, in the configuration's order."""
        watched = dict(self._watched)  # look-ups run in threads, a reload changes it
        return [watched[broker.name].watch for broker in self._config.brokers if broker.name in watched]

    # --- AgentView

    @property
    def exposition(self) -> Exposition:
        return self._exposition

    def ready(self) -> tuple[bool, str]:
        waiting = [name for name, watched in self._watched.items() if watched.watch.outcome is None]
        return (False, f"waiting for the first poll of {', '.join(sorted(waiting))}") if waiting else (True, "ready")

    def masked_config(self) -> str:
        return self._config.masked_yaml()

    def brokers(self) -> Sequence[BrokerState]:
        watched = dict(self._watched)
        return [_state(broker, watched[broker.name].watch) for broker in self._config.brokers if broker.name in watched]

    def queues(self, broker: str, wanted: Wanted, points: int = 0) -> Listed:
        return lists.queue_list(self._sights(broker), wanted, self._courses("queue", points))

    def clients(self, broker: str, wanted: Wanted, points: int = 0) -> Listed:
        return lists.client_list(self._sights(broker), wanted, self._courses("client", points))

    def conditions(self, broker: str, wanted: Wanted) -> Listed:
        return lists.condition_list(self._sights(broker), wanted)

    def consumers(self, broker: str, wanted: Wanted) -> Listed:
        return lists.consumer_list(self._sights(broker), wanted)

    def _courses(self, table: str, points: int) -> lists.More:
        """Tells the last `points` values that are kept of a row; none at 0."""
        if not points:
            return lists.nothing_more
        recents = {watch.name: watch.recent for watch in self.watches()}

        def course(sight: Sight, i: int) -> Plain:
            recent = recents.get(sight.policy.broker, Recent())
            of = recent.of_queues if table == "queue" else recent.of_clients
            return {"recent": course_values(of([i], sight.tables[table].index, points), 0)}

        return course

    def _sights(self, broker: str) -> list[Sight]:
        if broker:
            return [self._sight(broker)]
        return [sight for watch in self.watches() if (sight := watch.sight) is not None]

    def explain(self, broker: str, queue: str, address: str | None, client: str | None) -> Plain:
        return explain(self._sight(broker), queue, address=address, client=client)

    def client(self, broker: str, client: str) -> Plain:
        return client_view(self._sight(broker), client)

    def recent(self, broker: str, queue: str, address: str | None) -> Plain:
        watch = next((watch for watch in self.watches() if watch.name == broker), None)
        sight = self._sight(broker)
        events = self._journal.last(MAX_EVENTS, since=sight.snapshot.stamp - HOUR, broker=broker, queue=queue)
        return queue_recent(watch.recent if watch else Recent(), sight, queue, address, events)

    def events(self, *, since: float, limit: int, broker: str, queue: str) -> Sequence[Event]:
        return self._journal.last(limit, since=since, broker=broker, queue=queue)

    def _sight(self, broker: str) -> Sight:
        watched = self._watched.get(broker)
        if watched is None:
            raise NotFound(f"there is no broker {broker!r}", near(broker, list(self._watched), "brokers"))
        sight = watched.watch.sight
        if sight is None:
            error = watched.watch.outcome.error if watched.watch.outcome else "it was not asked yet"
            raise NotFound(f"nothing is known of broker {broker} now", error)
        return sight


@contextlib.contextmanager
def _logged(broker: str) -> Iterator[None]:
    """An error at the end of one broker is told, and does not hinder the others."""
    try:
        yield
    except Exception:
        log.exception("broker %s: its polling did not end as it should; please report this", broker)


def _state(broker: Broker, watch: Watch) -> BrokerState:
    snapshot, outcome = watch.snapshot, watch.outcome
    about = snapshot.broker if snapshot else None
    return BrokerState(
        name=broker.name,
        kind=broker.kind,
        version=about.product_version or about.version if about else "",
        role=about.role if about else "",
        up=None if outcome is None else outcome.result is not Result.FAILED,
        age=None if snapshot is None else max(time.time() - snapshot.stamp, 0.0),
        error=outcome.error if outcome else "",
        notes=snapshot.notes if snapshot else (),
        findings=finding_list(sight) if (sight := watch.sight) is not None else (),
        numbers=lists.broker_numbers(sight) if sight is not None else {},
    )
