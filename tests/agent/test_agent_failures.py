"""What goes wrong beside the polls: the disk, the state file, discovery, a refused configuration, a dropped broker."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.stored import known_in
from agent.test_restart import busy, known_of_busy, work
from core import things
from core.things import snapshot, table
from penstock.agent import Agent, Assessor, Poller, Result, checkpoints, supervisor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.discovery import Discovery, FoundBrokers
from penstock.agent.factory import open_transport
from penstock.agent.history import open_writer
from penstock.agent.nodes import Nodes
from penstock.agent.state_store import StateStore
from penstock.agent.trends import Trends
from penstock.config import Broker, Config, History, load
from penstock.core.errors import ConfigError
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format
from penstock.insight.events import Change
from penstock.insight.explain import NotFound
from penstock.insight.lists import ListQuery
from penstock.model import Role, Snapshot
from penstock.settings.policy import Policy
from rig.waiting import until

NOW = 1_795_219_200.0


@pytest.fixture
def checkpoint() -> Checkpoint:
    return known_of_busy()


def knowing(checkpoint: Checkpoint) -> Nodes:
    """An agent that has read this of its state file."""
    return Nodes(lambda _: [checkpoint])


# --- what is restored


class Answers:
    """A reader that gives one answer after the other, and the last for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.closed = False

    async def poll(self, timeout: float) -> Snapshot:  # noqa: ARG002 - the reader's
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        found: Snapshot = await answer() if callable(answer) else answer
        return found

    async def close(self) -> None:
        self.closed = True


def whole() -> Snapshot:
    return snapshot(
        NOW, queues=table([things.queue("orders")], messages=[7], added=[9])
    )


async def test_a_state_that_does_not_fit_is_not_used(
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unfit(*_: object) -> None:
        raise ValueError("columns of 3 and of 4 rows")

    monkeypatch.setattr("penstock.agent.assessor.restore", unfit)
    world = busy()
    assessor = Assessor(world.policy, 15.0, nodes=knowing(checkpoint))
    poller = Poller(Answers(world.snapshot()), assessor, 14.5)
    for _ in range(2):
        assert (await poller.poll()).result is Result.OK
    assert (
        caplog.text.count(
            "what was kept of it does not fit (columns of 3 and of 4 rows)"
        )
        == 1
    )
    assert assessor.checkpoint() is not None


async def test_a_first_poll_that_is_not_complete_does_not_count_consumers_twice(
    checkpoint: Checkpoint,
) -> None:
    world = busy()
    work(world, 3)
    assessor = Assessor(world.policy, 15.0, nodes=knowing(checkpoint))
    poller = Poller(
        Answers(replace(world.snapshot(), queues=None), world.snapshot()),
        assessor,
        14.5,
    )
    await poller.poll()
    assert "consumer" not in assessor.tables
    assert assessor.checkpoint() is None
    await poller.poll()
    assert "consumer" in assessor.tables
    kept = assessor.checkpoint()
    assert kept is not None
    assert kept.consumer_totals.names == checkpoint.consumer_totals.names
    assert [sums.tolist() for sums in kept.consumer_totals.sums] == [
        sums.tolist() for sums in checkpoint.consumer_totals.sums
    ]


async def test_nothing_is_restored_to_a_broker_that_is_passive(
    checkpoint: Checkpoint,
) -> None:
    passive = replace(whole(), broker=things.PASSIVE)
    assessor = Assessor(Policy("b"), 10.0, nodes=knowing(checkpoint))
    await Poller(Answers(passive), assessor, 9.5).poll()
    kept = assessor.checkpoint()
    assert kept is not None
    assert (kept.role, kept.clients.names, kept.queues) == (Role.PASSIVE, [], {})


# --- the agent


CONFIG = (
    "interval: 60s\nbrokers: [{name: one, kind: artemis, url: 'http://127.0.0.1:1/'}]\n"
)


class Running:
    """An agent of brokers that are all answered for by `readers`, by their name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "p.yml"
        self.storage = folder / "data"
        self.file.write_text(CONFIG)
        self.readers: dict[str, Any] = {}
        monkeypatch.setattr(supervisor, "open_reader", self._open)
        monkeypatch.setattr("penstock.agent.fleet.SPREAD_SECONDS", 0.0)
        self.agent = Agent(self.file, self.storage)

    def _open(self, _: Config, broker: Broker, *__: object) -> Any:
        return self.readers.setdefault(broker.name, Answers(whole()))

    @property
    def body(self) -> str:
        return b"".join(self.agent.exposition.chunks(Format.TEXT, gzip=False)).decode()

    async def polled(self) -> None:
        async with asyncio.timeout(30):
            while not self.agent.lookups.ready()[0]:  # noqa: ASYNC110 - polls set no event
                await asyncio.sleep(0.01)


@pytest.fixture
async def running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    one = Running(tmp_path, monkeypatch)
    yield one
    await one.agent.stop()


def changes(running: Running) -> list[Change]:
    return [
        event.change
        for event in running.agent.lookups.events(
            since=0.0, limit=100, broker="", queue=""
        )
    ]


async def test_a_refused_reload_leaves_everything(running: Running) -> None:
    await running.agent.start()
    await running.polled()
    before = running.agent.lookups.masked_config()
    running.file.write_text(CONFIG.replace("60s", "sometimes"))
    with pytest.raises(ConfigError, match="interval"):
        await running.agent.lookups.reload()
    assert running.agent.lookups.masked_config() == before
    assert changes(running) == [Change.AGENT_START, Change.CONFIG_REFUSED]
    assert "penstock_config_last_reload_successful 0" in running.body
    assert not running.readers["one"].closed


async def test_a_refused_history_leaves_brokers_and_history(running: Running) -> None:
    """The history is one of several things of which one may be refused: then none is taken."""
    await running.agent.start()
    await running.polled()
    two = "{name: two, kind: artemis, url: 'http://127.0.0.1:1/'}"
    running.file.write_text(
        f"interval: 60s\nbrokers: [{two}]\nhistory: {{enabled: true, url: 'foo://x'}}\n"
    )
    with pytest.raises(ConfigError, match="cannot be used as a place for history"):
        await running.agent.reload()
    assert [poller.name for poller in running.agent.pollers()] == ["one"]
    assert "two" not in running.readers or running.readers["two"].closed
    assert 'mq_up{broker="one"} 1' in running.body


async def test_a_refused_broker_leaves_the_history(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.agent.start()

    def refused(*_: object) -> None:
        raise ConfigError("no such certificate")

    monkeypatch.setattr(supervisor, "open_reader", refused)
    running.file.write_text(CONFIG.replace("one", "two") + "history: {enabled: true}\n")
    with pytest.raises(ConfigError, match="no such certificate"):
        await running.agent.reload()
    assert running.agent._history.numbers() == {}


async def test_a_reload_waits_for_the_start(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be asked for before the start has ended; the fleet would be changed by both at once."""
    begun = asyncio.Event()
    may_go = asyncio.Event()
    opened = []
    look = running.agent._discovery.look

    async def look_late(_: Discovery, config: Config, now: float) -> FoundBrokers:
        begun.set()
        await may_go.wait()
        return await look(config, now)

    def opens(*parts: Any) -> Any:
        opened.append(parts[1].name)
        return running._open(*parts)

    monkeypatch.setattr(Discovery, "look", look_late)
    monkeypatch.setattr(supervisor, "open_reader", opens)
    starting = asyncio.create_task(running.agent.start())
    await begun.wait()
    begun.clear()
    reloading = asyncio.create_task(running.agent.reload())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await begun.wait()
    may_go.set()
    await asyncio.gather(starting, reloading)
    assert opened == ["one"]
    assert changes(running)[:2] == [Change.AGENT_START, Change.CONFIG_RELOAD]


async def test_a_broker_is_dropped_while_it_is_polled(running: Running) -> None:
    hangs = asyncio.Event()

    async def hang() -> Snapshot:
        hangs.set()
        await asyncio.Event().wait()
        raise AssertionError

    running.readers["one"] = Answers(hang)
    await running.agent.start()
    await hangs.wait()
    assert running.agent.lookups.ready() == (False, "waiting for the first poll of one")
    running.file.write_text(CONFIG.replace("name: one", "name: two"))
    await running.agent.reload()
    await running.polled()
    assert running.readers["one"].closed
    assert [(state.name, state.up) for state in running.agent.lookups.brokers()] == [
        ("two", True)
    ]
    assert 'broker="one"' not in running.body


async def test_a_dropped_broker_is_saved_with_what_was_known(running: Running) -> None:
    await running.agent.start()
    await running.polled()
    running.file.write_text(
        "brokers: []\ndiscovery: {profiles: {p: {kind: artemis, url: 'http://{host}/'}},"
        " files: [{files: ['*.none'], profiles: [p]}]}\n"
    )
    await running.agent.reload()
    await running.agent.stop()
    assert [one.node_id for one in known_in(running.storage)] == [
        f"{things.ACTIVE.node_id} one"
    ]


async def test_a_broker_of_which_nothing_is_known_is_not_found(
    running: Running,
) -> None:
    running.readers["one"] = Answers(ConnectionError("nothing there"))
    await running.agent.start()
    lookups = running.agent.lookups
    with pytest.raises(NotFound, match="nothing is known of broker one now") as early:
        lookups.client("one", "c")
    assert early.value.hint == "it was not asked yet"
    await running.polled()
    with pytest.raises(NotFound) as failed:
        lookups.recent("one", "q", None)
    assert "unexpected ConnectionError" in failed.value.hint
    with pytest.raises(NotFound, match="there is no broker 'on'"):
        lookups.queues("on", ListQuery())
    assert lookups.queues("", ListQuery()).total == 0


async def test_discovery_goes_on_after_it_failed(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = [
        ConfigError("two brokers want one name"),
        ZeroDivisionError("odd"),
    ]
    looks = 0
    found = running.agent._discovery.look

    async def look(_: Discovery, config: Config, now: float) -> FoundBrokers:
        nonlocal looks
        looks += 1
        if looks > 1 and failures:
            raise failures.pop(0)
        return await found(config, now)

    monkeypatch.setattr(Discovery, "look", look)
    monkeypatch.setattr(supervisor, "FILE_SECONDS", 0.01)
    await running.agent.start()
    await until(lambda: looks > 4)
    assert (
        "what discovery found cannot be watched: two brokers want one name"
        in caplog.text
    )
    assert caplog.text.count("discovery failed unexpectedly; please report this") == 1
    assert [poller.name for poller in running.agent.pollers()] == ["one"]


async def test_an_unexpected_error_while_saving_ends_nothing(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.01)
    monkeypatch.setattr(checkpoints, "SAVE_PAUSE", 0.0)
    flush = StateStore.flush
    broken = True

    def flushes(store: StateStore, now: float) -> bool:
        if broken:
            raise TypeError("a column of nothing")
        return flush(store, now)

    monkeypatch.setattr(StateStore, "flush", flushes)
    await running.agent.start()
    await running.polled()
    await until(lambda: "penstock_state_save_success 0" in running.body)
    assert "the state could not be saved; please report this" in caplog.text
    broken = False
    await until(lambda: "penstock_state_save_success 1" in running.body)


# --- what is not there


def test_history_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.history.compact", None)
    with pytest.raises(
        ConfigError, match="history needs pyarrow, please: pip install 'pyarrow>=18'"
    ):
        open_writer(History(enabled=True), tmp_path)


def test_gauges_that_are_too_large_are_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.agent.trends.MAX_BYTES", 10)
    trends = Trends(tmp_path / "gauges.json")
    trends.refresh()
    assert caplog.text == ""
    (tmp_path / "gauges.json").write_text('{"version": 1, "rows": []}')
    trends.refresh()
    assert "is larger than 10 bytes" in caplog.text


@pytest.mark.parametrize(
    ("transport", "kind"), [("jmx", "JmxTransport"), ("jolokia", "JolokiaTransport")]
)
async def test_each_transport_is_opened_by_its_name(
    tmp_path: Path, transport: str, kind: str
) -> None:
    url = (
        "http://127.0.0.1:1/"
        if transport == "jolokia"
        else "service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi"
    )
    entry = f"{{name: b, kind: artemis, transport: {transport}, url: '{url}'}}"
    (tmp_path / "p.yml").write_text(f"brokers: [{entry}]\n")
    (broker,) = load(tmp_path / "p.yml").brokers
    opened = open_transport(broker)
    try:
        assert type(opened).__name__ == kind
    finally:
        await opened.close()


def test_gauges_are_shown_as_the_trend_job_wrote_them(tmp_path: Path) -> None:
    """Also beside a row that this version does not know."""
    rows = [
        {
            "table": "trend_limit",
            "labels": {"broker": "b", "limit": "l", "bound": bound},
            "values": {"seconds": seconds},
        }
        for bound, seconds in (("low", 60.5), ("high", "never"))
    ]
    other = {"table": "other", "labels": {}, "values": {"seconds": 1.0}}
    (tmp_path / "gauges.json").write_text(
        json.dumps({"version": 1, "rows": [*rows, other]})
    )
    trends = Trends(tmp_path / "gauges.json")
    trends.refresh()
    shown = Exposition(lambda _: b"")
    shown.set_broker("", trends.blocks)
    lines = b"".join(shown.chunks(Format.TEXT, gzip=False)).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'mq_forecast_limit_seconds{broker="b",limit="l",bound="low"} 60.5',
        'mq_forecast_limit_seconds{broker="b",limit="l",bound="high"} +Inf',
    ]
