"""What an agent keeps of a broker that it reads in part: over its own restart, and while a queue is out of view."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from brokers.test_artemis_reader import polled
from brokers.test_budgets import TEN, Fleet, reader
from penstock.account.account import in_part
from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.nodes import Nodes
from penstock.agent.state_database import StateDatabase
from penstock.insight.events import Change, Event
from penstock.model import Snapshot
from penstock.observation.activity import DELIVERED
from penstock.settings.policy import Policy
from penstock.transports.transport import Answer, Request


class Lasting(Fleet):
    """One process, whose uptime rises, until it starts anew; clients with names of their own, or all with one."""

    started = 900.0
    client = ""
    paused: Sequence[str] = ()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        self.about["UptimeMillis"] = (self.stamp - self.started) * 1000
        return await super().ask(requests, timeout)

    def consumer_row(self, number: int, queue: str) -> dict[str, Any]:
        return super().consumer_row(number, queue) | (
            {"clientID": self.client} if self.client else {}
        )

    def queue_row(self, number: int, name: str) -> dict[str, str]:
        return super().queue_row(number, name) | {
            "paused": str(name in self.paused).lower()
        }


class Agent:
    """One run of an agent; another in the same directory knows what it has kept."""

    def __init__(self, directory: Path, broker: Lasting, **most: int) -> None:
        self.broker = broker
        self.artemis = reader(broker, **most)
        self.kept = Checkpoints(StateDatabase(directory), None, lambda _: None)  # type: ignore[arg-type]
        self.kept.load()
        nodes = Nodes(self.kept.of_node, lambda: {"b"})
        self.assessor = Assessor(
            Policy("b"), 15.0, nodes, on_change=self._tell, on_record=self.kept.record
        )
        self.told: list[Event] = []

    def _tell(self, events: Iterable[Event]) -> None:
        self.told += events

    async def poll(self, times: int = 1) -> Snapshot:
        for _ in range(times):
            self.assessor.take(await polled(self.artemis, self.broker))
            self.assessor.publish(PollResult(Result.OK), dict.fromkeys(Result, 0))
        assert self.assessor.snapshot is not None
        return self.assessor.snapshot

    def save(self) -> None:
        self.kept.keep_now(self.assessor)
        self.kept.flush()

    def total(self, table: str, column: str) -> float:
        return float(self.assessor.tables[table][column].sum())

    def conditions(self) -> list[tuple[Change, str, str]]:
        of = (Change.CONDITION_ON, Change.CONDITION_OFF)
        found = [
            (one.change, one.condition, one.queue)
            for one in self.told
            if one.change in of and one.queue
        ]
        self.told.clear()
        return found


SAVES = pytest.mark.parametrize(
    "saves",
    [
        pytest.param(True, id="saved", marks=pytest.mark.slow),
        pytest.param(False, id="recorded"),
    ],
)
"""Whether the agent before it ended in order, which is the easier way, or was killed."""


@pytest.mark.slow  # many polls
@SAVES
async def test_what_was_out_of_view_is_not_counted_by_the_agent_that_reads_it_first(
    tmp_path: Path, saves: bool
) -> None:
    broker = Lasting(["q"], 3)
    broker.client = "worker"
    agent = Agent(tmp_path, broker, consumers=3)
    broker.work(500)
    await agent.poll()
    agent.save()
    for _ in range(5):
        broker.join()
        broker.settled[max(broker.settled)] = 500
    await agent.poll()
    assert agent.total("client", "acknowledged") == 1500
    if saves:
        agent.save()
    after = Agent(tmp_path, broker, consumers=100)
    broker.work(1)
    found = await after.poll()
    assert after.total("client", "acknowledged") == 1503, (
        "of the three that were in view"
    )
    assert after.assessor.state.judgement.activity.window.sum(DELIVERED).tolist() == [3]
    assert not in_part(found.observation), "all queues were read"
    broker.work(1)
    await after.poll()
    assert after.total("client", "acknowledged") == 1511
    broker.join()
    broker.work(10)
    await after.poll()
    assert after.total("client", "acknowledged") == 1511 + 90, (
        "one that came since counts in full"
    )


async def test_what_came_while_the_agent_was_away_counts_where_all_was_in_view(
    tmp_path: Path,
) -> None:
    broker = Lasting(["q"], 3)
    agent = Agent(tmp_path, broker, consumers=3)
    await agent.poll()
    agent.save()
    broker.join()
    broker.work(10)
    after = Agent(tmp_path, broker, consumers=100)
    await after.poll()
    assert after.total("client", "acknowledged") == 40


async def test_another_process_of_the_broker_hid_nothing(tmp_path: Path) -> None:
    broker = Lasting(["q"], 8)
    agent = Agent(tmp_path, broker, consumers=3)
    await agent.poll()
    agent.save()
    broker.started = broker.stamp + 5
    broker.work(10)
    after = Agent(tmp_path, broker, consumers=100)
    await after.poll()
    assert after.total("client", "acknowledged") == 80


@pytest.mark.slow  # many polls
@SAVES
async def test_summed_queues_that_were_out_of_view_add_nothing_and_their_account_begins(
    tmp_path: Path, saves: bool
) -> None:
    broker = Lasting(["t0", "t1", "t2"])
    broker.temporary = True
    broker.added = {"t0": 100, "t1": 200, "t2": 300}
    agent = Agent(tmp_path, broker, queues=2)
    await agent.poll(2)
    assert agent.total("queue", "added") == 500
    if saves:
        agent.save()
    after = Agent(tmp_path, broker, queues=100)
    broker.added["t0"] += 7
    broker.added["t2"] += 1
    found = await after.poll()
    assert after.total("queue", "added") == 501
    assert in_part(found.observation)
    broker.added["t0"] += 5
    found = await after.poll()
    assert after.total("queue", "added") == 506
    assert not in_part(found.observation)


# --- conditions


async def hidden(tmp_path: Path) -> Agent:
    """q7 is paused and in view, then out of it."""
    broker = Lasting(TEN)
    broker.paused = ["q7"]
    agent = Agent(tmp_path, broker, queues=3)
    await agent.poll(3)
    assert agent.conditions() == [(Change.CONDITION_ON, "paused", "q7")]
    broker.depth["q0"] = 100_000
    await agent.poll(3)
    assert "q7" not in {row.queue for row in agent.assessor.tables["queue"].index}
    assert agent.conditions() == [], "nobody knows that it has ended"
    return agent


@pytest.mark.slow  # many polls
async def test_a_condition_of_a_queue_that_is_out_of_view_and_returns_stands(
    tmp_path: Path,
) -> None:
    agent = await hidden(tmp_path)
    agent.broker.depth["q0"] = 0
    await agent.poll(3)
    assert agent.conditions() == []
    agent.broker.paused = []
    await agent.poll(3)
    assert agent.conditions() == [(Change.CONDITION_OFF, "paused", "q7")]


@pytest.mark.slow  # many polls
async def test_a_condition_that_ended_out_of_view_ends_when_the_queue_is_seen(
    tmp_path: Path,
) -> None:
    agent = await hidden(tmp_path)
    agent.broker.paused = []
    agent.broker.depth["q0"] = 0
    await agent.poll(3)
    assert agent.conditions() == [(Change.CONDITION_OFF, "paused", "q7")]


@pytest.mark.slow  # many polls
async def test_a_condition_of_a_queue_that_was_removed_out_of_view_ends_once_all_is_read(
    tmp_path: Path,
) -> None:
    agent = await hidden(tmp_path)
    for number in (17, *range(11, 17)):
        del agent.broker.queues[number]
    await agent.poll(2)
    assert agent.conditions() == [(Change.CONDITION_OFF, "paused", "q7")]


@pytest.mark.slow  # many polls
@SAVES
async def test_it_stands_over_a_restart_of_the_agent(
    tmp_path: Path, saves: bool
) -> None:
    before = await hidden(tmp_path)
    if saves:
        before.save()
    agent = Agent(tmp_path, before.broker, queues=3)
    await agent.poll(3)
    assert agent.conditions() == []
    larger = Agent(tmp_path, before.broker, queues=100)
    await larger.poll(3)
    assert larger.conditions() == []


@pytest.mark.slow  # many polls
async def test_another_process_of_the_broker_has_none_of_it(tmp_path: Path) -> None:
    agent = await hidden(tmp_path)
    agent.broker.started = agent.broker.stamp + 5
    await agent.poll()
    assert (Change.CONDITION_OFF, "paused", "q7") in agent.conditions()


async def test_so_many_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.insight.events.MOST_OUT_OF_VIEW", 1)
    broker = Lasting(TEN)
    broker.paused = ["q7", "q8"]
    agent = Agent(tmp_path, broker, queues=3)
    await agent.poll(3)
    assert len(agent.conditions()) == 2
    broker.depth |= {"q0": 100_000, "q1": 100_000}
    await agent.poll(3)
    assert len(agent.conditions()) == 1


@pytest.mark.slow  # many polls
async def test_of_a_queue_that_is_in_view_and_of_one_that_is_gone_they_end_as_ever(
    tmp_path: Path,
) -> None:
    broker = Lasting(TEN)
    broker.paused = ["q8"]
    agent = Agent(tmp_path, broker, queues=3)
    await agent.poll(3)
    broker.paused = []
    await agent.poll(3)
    assert agent.conditions() == [
        (Change.CONDITION_ON, "paused", "q8"),
        (Change.CONDITION_OFF, "paused", "q8"),
    ]
    broker.paused = ["q1"]
    whole = Agent(tmp_path / "whole", broker, queues=100)
    await whole.poll(3)
    del broker.queues[11]
    await whole.poll(2)
    assert whole.conditions() == [
        (Change.CONDITION_ON, "paused", "q1"),
        (Change.CONDITION_OFF, "paused", "q1"),
    ]
