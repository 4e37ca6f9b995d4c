"""A reload is planned, then done: one that is refused, for whatever reason, has changed nothing and is told."""

import asyncio
import gc
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.interleavings import Reader, World, world
from penstock.agent import Agent, supervisor
from penstock.core.errors import ConfigError
from penstock.core.tasks import Stopped
from penstock.exposition.syntax import Format
from penstock.insight.events import Change
from rig.waiting import until

__all__ = ["world"]

BROKER = "{name: one, kind: artemis, url: 'http://127.0.0.1:1/'}"
CONFIG = f"interval: 60s\nbrokers: [{BROKER}]\nhistory: {{enabled: true}}\n"
OTHER = CONFIG.replace("one", "two").replace("enabled: true", "enabled: false")
"""Another broker, and no history."""


@pytest.fixture
async def running(world: World) -> AsyncIterator[Agent]:
    world.file.write_text(CONFIG)
    agent = world.agent()
    await agent.start()
    await until(
        lambda: (
            agent.lookups.ready()[0] and "penstock_state_save_success 1" in body(agent)
        )
    )
    yield agent
    await agent.stop()


def body(agent: Agent) -> str:
    return b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()


def shown(agent: Agent) -> list[str]:
    """What of `/metrics` a reload that is refused must leave."""
    own = ("process_", "penstock_config_last_reload", "penstock_config_reload")
    return [
        line
        for line in body(agent).splitlines()
        if not line.startswith("#") and not line.startswith(own)
    ]


def changes(agent: Agent) -> list[Change]:
    return [
        event.change
        for event in agent.lookups.events(since=0.0, limit=1000, broker="", queue="")
    ]


def fails(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("the secret is hunter2")


@pytest.mark.parametrize(
    "broken",
    [
        "supervisor.load",
        "fleet.policy_of",
        "supervisor.open_reader",
        "history.open_writer",
    ],
)
async def test_an_unexpected_error_has_changed_nothing(
    running: Agent,
    world: World,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = shown(running)
    config = running.lookups.masked_config()
    world.file.write_text(OTHER.replace("enabled: false", "enabled: true, agent: a2"))
    if broken == "fleet.policy_of":  # of a broker that goes on
        world.file.write_text(
            CONFIG.replace("enabled: true", "enabled: false") + "rules: [{owner: me}]\n"
        )
    with monkeypatch.context() as patched:
        patched.setattr(f"penstock.agent.{broken}", fails)
        with pytest.raises(
            ConfigError, match="unexpected ZeroDivisionError; the log has the details"
        ):
            await running.reload()
    assert "failed unexpectedly; please report this" in caplog.text
    assert changes(running)[-1] is Change.CONFIG_REFUSED
    assert "penstock_config_last_reload_successful 0" in body(running)
    assert "penstock_config_reload_failures_total 1" in body(running)
    assert (shown(running), running.lookups.masked_config()) == (before, config)
    world.hold(running)
    await running.reload()
    world.hold(running)
    assert "\npenstock_config_last_reload_successful 1\n" in body(running)


async def test_history_goes_on_when_a_broker_is_refused(
    running: Agent, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise ConfigError("no such certificate")

    world.file.write_text(OTHER)
    with monkeypatch.context() as patched:
        patched.setattr(supervisor, "open_reader", refused)
        with pytest.raises(ConfigError, match="no such certificate"):
            await running.reload()
    world.hold(running)
    assert [writer.live for writer in world.writers] == [True]


async def test_a_reload_that_is_asked_for_before_the_start_comes_after_it(
    world: World,
) -> None:
    world.file.write_text(CONFIG)
    agent = world.agent()
    reloading = asyncio.create_task(agent.reload())
    await asyncio.sleep(0)
    world.file.write_text(OTHER)
    await agent.start()
    await reloading
    assert changes(agent) == [Change.AGENT_START, Change.CONFIG_RELOAD]
    assert [poller.name for poller in agent.pollers()] == ["two"]
    await agent.stop()


async def test_a_reload_of_an_agent_that_never_starts_ends_with_it(
    world: World,
) -> None:
    world.file.write_text(CONFIG)
    agent = world.agent()
    reloading = asyncio.create_task(agent.reload())
    await asyncio.sleep(0)
    await agent.stop()
    with pytest.raises(Stopped):
        await reloading


@pytest.mark.slow  # many reloads
async def test_many_broken_reloads_change_nothing(
    running: Agent, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fails as far on its way as it can: three new brokers are open when the fourth is refused."""
    opened: list[Reader] = []

    def open_some(*given: Any) -> Reader:
        if given[1].name == "four":
            raise (
                ConfigError("no such certificate")
                if len(opened) % 2
                else ZeroDivisionError
            )
        opened.append(reader := world.open_reader(*given))
        return reader

    def held() -> tuple[list[str], set[str], int]:
        tasks = sorted(
            task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}
        )
        threads = {
            thread.name
            for thread in threading.enumerate()
            if not thread.name.startswith("asyncio")
        }
        return tasks, threads, len(list(Path("/proc/self/fd").iterdir()))

    monkeypatch.setattr(supervisor, "open_reader", open_some)
    more = ", ".join(BROKER.replace("one", name) for name in ("two", "three", "four"))
    world.file.write_text(
        OTHER.replace("two", "one").replace(BROKER, f"{BROKER}, {more}")
        + "rules: [{owner: me}]\n"
    )
    await running._workers.idle()  # from now on there are both threads
    gc.collect()  # databases that other tests have left open
    before = shown(running), held(), running.lookups.masked_config()
    for _ in range(20):
        with pytest.raises(ConfigError):
            await running.reload()
    await until(lambda: all(reader.closed for reader in opened))
    assert len(opened) == 40
    await until(
        lambda: (shown(running), held(), running.lookups.masked_config()) == before
    )  # it may be saving
    assert "penstock_config_reload_failures_total 20" in body(running)
    world.hold(running)


@pytest.mark.slow  # many polls
async def test_a_refused_reload_forgets_no_broker_of_discovery(
    running: Agent, world: World
) -> None:
    found = "brokers: [{name: gone, host: gone}]\n"
    profiles = "{p: {kind: artemis, url: 'http://{host}/'}}"
    discovery = f"discovery: {{profiles: {profiles}, files: [{{files: [found.yml], profiles: [p]}}], forget: 1h}}\n"
    world.file.write_text(CONFIG + discovery)
    (world.folder / "found.yml").write_text(found)
    await running.reload()
    (world.folder / "found.yml").write_text("brokers: []\n")
    world.file.write_text(
        OTHER.replace("enabled: false", "enabled: true, url: 'foo://x'")
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.agent.history.open_writer", fails)
        with pytest.raises(ConfigError):
            await running.reload()
    assert "penstock_brokers 2" in body(running)
    await asyncio.sleep(0.1)  # discovery looks each 10 ms
    assert [poller.name for poller in running.pollers()] == ["one", "gone"]


async def test_another_place_of_trends_leaves_the_writer_of_history(
    running: Agent, world: World
) -> None:
    world.file.write_text(
        CONFIG.replace("enabled: true", "enabled: true, trends: elsewhere.json")
    )
    await running.reload()
    assert [writer.live for writer in world.writers] == [True]


# --- what the trend job wrote


LIMIT = {
    "table": "trend_limit",
    "labels": {"broker": "b", "limit": "l"},
    "values": {"seconds": 60.5},
}
SHOWN = 'mq_forecast_limit_seconds{broker="b",limit="l",bound=""} 60.5'


def write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 1, "rows": [LIMIT]}))


@pytest.mark.slow  # takes a second
async def test_what_the_trend_job_wrote_goes_with_its_file(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.file.write_text(CONFIG.replace("60s", "1s"))
    write(file := world.folder / "data" / "trends" / "gauges.json")
    agent = world.agent()
    await agent.start()
    try:
        await until(lambda: SHOWN in body(agent))
        file.unlink()
        await until(lambda: SHOWN not in body(agent))
        write(file)
        await until(lambda: SHOWN in body(agent))
    finally:
        await agent.stop()
    assert "cannot be shown" not in caplog.text


async def test_trends_of_no_file_any_more_are_not_shown(world: World) -> None:
    """An agent without storage, whose configuration names the file no longer."""
    write(file := world.folder / "gauges.json")
    world.file.write_text(CONFIG.replace("enabled: true", f"trends: '{file}'"))
    agent = Agent(world.file)
    await agent.start()
    try:
        await until(lambda: SHOWN in body(agent))
        world.file.write_text(CONFIG.replace("enabled: true", ""))
        await agent.reload()
        assert SHOWN not in body(agent)
    finally:
        await agent.stop()


async def test_other_budgets_of_rows_need_another_reader_one_of_series_does_not(
    running: Agent, world: World
) -> None:
    (first,) = running.pollers()
    world.file.write_text(CONFIG + "budgets: {series: 1000, label_length: 100}\n")
    await running.reload()
    (same,) = running.pollers()
    assert same is first
    assert (
        same.assessor.next_policy.limits.series,
        same.assessor.next_policy.limits.label_length,
    ) == (1000, 100)
    world.file.write_text(CONFIG + "budgets: {queues: 5}\n")
    await running.reload()
    (another,) = running.pollers()
    assert another is not first
