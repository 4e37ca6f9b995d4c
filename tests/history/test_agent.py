"""The agent with history: on a real broker's recording, ended and started again; bad places for it are told."""

import asyncio
from pathlib import Path

import pytest

from history.polls import rows
from penstock.agent import Agent, Result
from penstock.core.errors import ConfigError
from penstock.exposition.syntax import Format
from penstock.history.store import Store
from penstock.insight.lists import ListQuery

RECORDING = Path(__file__).parents[1] / "recordings" / "artemis-2.44.0.jsonl.gz"


def configured(directory: Path, history: str) -> Path:
    file = directory / "p.yml"
    file.write_text(
        f"interval: 1s\nbrokers:\n- {{name: b1, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}\n"
        f"history: {history}\n"
    )
    return file


async def polled(agent: Agent, polls: int) -> str:
    """The agent's own metrics after so many polls."""
    await agent.start()
    try:
        (poller,) = agent.pollers()
        for _ in range(200):
            if sum(poller.polls.values()) >= polls:
                break
            await asyncio.sleep(0.05)
        return b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
    finally:
        await agent.stop()


@pytest.mark.slow  # takes a second
async def test_each_poll_is_published_when_the_agent_ends(tmp_path: Path) -> None:
    file = configured(tmp_path, "{enabled: true, agent: one}")
    shown = await polled(Agent(file, tmp_path / "data"), 2)
    assert "penstock_history_polls_dropped_total 0" in shown
    store = Store(str(tmp_path / "data" / "history"))
    polls = rows(store, "broker")
    assert 1 <= len(polls) <= 3
    assert {row["broker"] for row in polls} == {"b1"}
    assert len(rows(store, "queue")) == 6 * len(polls)
    assert list((tmp_path / "data" / "spool").glob("*-*")) == []


@pytest.mark.slow  # some seconds of polls
async def test_a_reload_of_the_history_loses_no_poll(tmp_path: Path) -> None:
    """The writer before publishes what it has, the new one goes on behind it; polls that come meanwhile wait."""
    file = configured(tmp_path, "{enabled: true, agent: one}")
    agent = Agent(file, tmp_path / "data")
    await agent.start()
    try:
        (poller,) = agent.pollers()
        for number in range(1, 4):
            while poller.polls[Result.OK] < number:  # noqa: ASYNC110 - polls set no event
                await asyncio.sleep(0.02)
            configured(tmp_path, f"{{enabled: true, agent: a{number}}}")
            await agent.reload()
        queue = agent.lookups.queues("b1", ListQuery()).rows[0].queue
        assert agent.lookups.recent("b1", queue, None, 3600.0).source == "history"
        assert agent.lookups.recent("b1", queue, None).source == "memory"
        configured(tmp_path, "{}")
        await agent.reload()
        assert agent.lookups.recent("b1", queue, None, 3600.0).source == "memory"
        polls = sum(poller.polls.values())
        assert (
            "penstock_history"
            not in b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
        )
    finally:
        await agent.stop()
    assert len(rows(Store(str(tmp_path / "data" / "history")), "broker")) == polls
    assert list((tmp_path / "data" / "spool").glob("*-*")) == []


@pytest.mark.slow  # two agents, one after the other
async def test_counters_live_on_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    file = configured(tmp_path, "{enabled: true}")
    for _ in range(2):
        await polled(Agent(file, tmp_path / "data"), 2)
    found = rows(Store(str(tmp_path / "data" / "history")), "queue")
    assert len({(row["sid"], row["inc"]) for row in found}) == 6, (
        "one life each: the broker went on"
    )


async def test_nothing_is_written_unless_asked_for(tmp_path: Path) -> None:
    shown = await polled(Agent(configured(tmp_path, "{}"), tmp_path / "data"), 1)
    assert "penstock_history" not in shown
    assert not (tmp_path / "data" / "spool").exists()


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (
            "{enabled: true, url: 'foo://x'}",
            "foo://x: cannot be used as a place for history",
        ),
        (
            "{enabled: true, url: 's3://key:secret@bucket/x'}",
            "must hold no credentials",
        ),
        ("{agent: ../x}", "must be 1 to 100 letters"),
    ],
)
async def test_what_cannot_be_used_is_refused(
    history: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as told:
        await Agent(configured(tmp_path, history), tmp_path / "data").start()
    assert said in str(told.value)
    assert "secret" not in str(told.value)
