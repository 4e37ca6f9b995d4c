"""What is shown of a broker that does not answer: how it was seen last, marked as such, also after a restart."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from agent.test_restart import busy, work
from agent.test_state_file import Reader, until_polled
from agent.world import World
from penstock.agent import Agent, supervisor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.packed import pack, unpack
from penstock.agent.poller import Poller
from penstock.core.errors import Unreachable
from penstock.insight.answers import ConditionList
from penstock.insight.events import Change, Event
from penstock.insight.lists import ListQuery
from penstock.model import Snapshot


class Gone(Reader):
    """Does not answer while `gone`."""

    gone = False

    async def poll(self, timeout: float) -> Snapshot:
        if self.gone:
            raise Unreachable("connection refused")
        found: Snapshot = await super().poll(timeout)
        return found


@asynccontextmanager
async def agent_of(
    storage: Path | None, monkeypatch: pytest.MonkeyPatch, **readers: Gone
) -> AsyncIterator[tuple[Agent, dict[str, Poller]]]:
    """An agent of these brokers, each polled once."""
    file = storage / "p.yml" if storage else Path("p.yml")
    brokers = ", ".join(
        f"{{name: {name}, kind: artemis, url: 'http://127.0.0.1:1/'}}"
        for name in readers
    )
    file.write_text(
        f"interval: 60s\nbrokers: [{brokers}]\njudgement: {{cold: 60s, trend: 120s}}\n"
    )
    monkeypatch.setattr(
        supervisor, "open_reader", lambda _, broker, __: readers[broker.name]
    )
    agent = Agent(file, storage=storage)
    await agent.start()
    try:
        pollers = {poller.name: poller for poller in agent.pollers()}
        for poller in pollers.values():
            await until_polled(poller)
        yield agent, pollers
    finally:
        await agent.stop()


def conditions(agent: Agent) -> ConditionList:
    return agent.lookups.conditions("", ListQuery())


def active(agent: Agent) -> list[tuple[str, str, str, float]]:
    return [
        (one.condition, one.queue, one.client, one.since)
        for one in conditions(agent).rows
    ]


async def seen(world: World, poller: Poller, polls: int = 12) -> None:
    """Polls with faults."""
    for _ in range(polls):
        work(world, 1)
        world.now -= 15
        await poller.poll()


@pytest.mark.slow  # many polls
async def test_queues_clients_and_conditions_stay_and_say_when_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Gone(busy())
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, pollers):
        await seen(reader.world, pollers["b1"])
        before = active(agent)
        ask = agent.lookups
        assert before
        assert ask.queues("", ListQuery()).rows[0].stale is UNSET
        reader.gone = True
        await pollers["b1"].poll()
        pollers["b1"].assessor.fresh_until = 0
        await pollers["b1"].poll()
        assert pollers["b1"].assessor.view is None, "metrics show nothing of it"
        read = reader.world.now
        assert active(agent) == before
        rows: list[Any] = [
            *ask.queues("b1", ListQuery()).rows, *ask.clients("b1", ListQuery()).rows,
            *ask.consumers("", ListQuery()).rows, *conditions(agent).rows, *ask.incidents("", ListQuery()).rows,
        ]  # fmt: skip
        assert {one.stale for one in rows} == {read}
        (state,) = ask.brokers()
        assert (state.up, state.numbers["queues"]) == (False, 4)
        assert ask.client("b1", "stuck").conditions
        explained = ask.explain("b1", "orders", None, None)
        assert explained.knowledge.state == "stale"
        assert not explained.healthy
        reader.gone = False
        await pollers["b1"].poll()
        assert ask.queues("", ListQuery()).rows[0].stale is UNSET


@pytest.mark.slow  # many polls
async def test_they_stay_over_restarts_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Gone(busy())
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, pollers):
        await seen(reader.world, pollers["b1"])
        before = active(agent)
        reader.gone = True
        await pollers["b1"].poll()
        since = agent.lookups.explain("b1", "orders", None, None).knowledge.since
    for _ in range(2):
        async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, _):
            assert active(agent) == before
            assert {one.stale for one in conditions(agent).rows} == {reader.world.now}
            found = agent.lookups.explain("b1", "orders", None, None)
            assert found.knowledge.since == since, "since when it is down is known"
            assert agent.lookups.brokers()[0].numbers["queues"] == 4
            assert found.numbers["messages"]
            assert agent.lookups.recent("b1", "orders", None).course is None
    reader.gone = False
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, _):
        assert conditions(agent).rows[0].stale is UNSET
        assert before[0] in active(agent), "and what stood goes on"


async def test_no_crowd_of_other_queues_hides_what_held_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with agent_of(tmp_path, monkeypatch, b1=Gone(busy())) as (agent, pollers):
        now = pollers["b1"].assessor.last_view.snapshot.stamp  # type: ignore[union-attr]
        own = [
            Event(
                now - 900,
                Change.CONDITION_ON,
                "b1",
                condition="slow_journal",
                severity="warning",
            )
        ]
        own += [
            Event(
                now - 600,
                Change.CONDITION_OFF,
                "b1",
                condition="slow_journal",
                severity="warning",
            )
        ]
        others = [
            Event(
                now - 300,
                Change.CONDITION_ON,
                "b1",
                f"q{n}",
                f"q{n}",
                condition="paused",
            )
            for n in range(5000)
        ]
        agent.lookups._journal.add([*own, *others])
        (found,) = agent.lookups.recent("b1", "", None).episodes
        assert (found.condition, found.since, found.to) == (
            "slow_journal",
            now - 900,
            now - 600,
        )


@pytest.mark.slow  # many polls
async def test_a_broker_that_went_while_the_agent_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Gone(busy())
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, pollers):
        await seen(reader.world, pollers["b1"])
        before = active(agent)
    reader.gone = True
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, _):
        assert active(agent) == before
        known = agent.lookups.explain("b1", "orders", None, None).knowledge
        assert known.since is not None
        assert known.since > reader.world.now, (
            "since it did not answer, which is later than it was read"
        )


async def test_nothing_is_made_up_of_a_broker_that_was_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Gone(busy())
    reader.gone = True
    async with agent_of(tmp_path, monkeypatch, b1=reader) as (agent, _):
        (state,) = agent.lookups.brokers()
        assert (state.up, state.age, state.numbers) == (False, None, {})
        assert conditions(agent).rows == []


@pytest.mark.slow  # many polls
async def test_what_another_broker_serves_now_is_not_shown_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover: the one that is down keeps its own page."""
    one = Gone(busy())
    other = Gone(busy())
    third = Gone(replace(busy(), node_id="another"))
    async with agent_of(tmp_path, monkeypatch, a=one, b=other, c=third) as (
        agent,
        pollers,
    ):
        one.gone = third.gone = True
        for poller in pollers.values():
            await poller.poll()
        rows = agent.lookups.queues("", ListQuery()).rows
        assert {row.broker for row in rows} == {"b", "c"}
        assert {row.stale is UNSET for row in rows if row.broker == "c"} == {False}
        assert {row.broker for row in agent.lookups.queues("a", ListQuery()).rows} == {
            "a"
        }


def test_a_snapshot_is_read_as_it_was_written() -> None:
    snapshot = busy().snapshot()
    found = unpack(
        pack(Checkpoint("n b1", 1.0, snapshot=snapshot)), Checkpoint
    ).snapshot
    assert found is not None
    assert snapshot.queues is not None
    assert found.queues is not None
    assert list(found.queues.index) == list(snapshot.queues.index)
    assert found.queues.columns.keys() == snapshot.queues.columns.keys()
    for name, column in snapshot.queues.columns.items():
        assert np.array_equal(found.queues[name], column, equal_nan=True)
    assert found.observation == snapshot.observation
