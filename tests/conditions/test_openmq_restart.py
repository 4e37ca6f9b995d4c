"""A restart of the agent beside an OpenMQ: queues have other keys then, for those are the agent's own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from agent.stored import as_read
from conditions.openmq_world import OpenmqJudged
from conditions.things import Numbers
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State, assess
from penstock.settings.constants import Constants

Poll = tuple[Mapping[str, Numbers], Mapping[str, Numbers], Mapping[str, Numbers]]
"""Queues, consumers, addresses."""


def losing(i: int) -> Poll:
    """`full` loses 20 a poll unread, `stuck` stands still with a paused consumer, `slow` takes whole windows of 50."""
    queues: dict[str, Numbers] = {
        "full": {"A": 1000 + 30 * i, "K": 500 + 30 * i, "M": 500, "D": 10},
        "stuck": {"A": 100, "K": 0, "M": 100, "D": 60},
        "slow": {"A": 1e5, "K": 50 * i, "M": 1e5 - 50 * i, "D": 100},
    }
    consumers: dict[str, Numbers] = {
        "a": {"queue": "full", "N": 110 + 10 * i, "T": 10, "L": 1e9 + i},
        "b": {"queue": "stuck", "N": 60, "T": 60, "flow_paused": 1.0},
        "c": {
            "queue": "slow",
            "N": 100 + 50 * i,
            "T": 100,
            "L": 1e9 + i,
            "flow_paused": 1.0,
        },
    }
    limits = {"limit_messages": 500.0, "producers": 1.0, "policy": "remove_oldest"}
    return queues, consumers, {"full": limits}


def restarted(world: OpenmqJudged, poll: Poll, last: Poll) -> OpenmqJudged:
    """Another agent, whose first poll comes next; the broker lists its queues the other way round."""
    memory = checkpoint_of(world.state, world.snapshot(*last), world.policy)
    assert memory is not None
    memory = as_read(memory)
    queues, consumers, addresses = poll
    again = OpenmqJudged(constants=world.constants, now=world.now, uptime=world.uptime)
    again.now = again.now + again.step
    again.uptime = again.uptime + again.step
    snapshot = again.snapshot(
        dict(reversed(list(queues.items()))), consumers, addresses
    )
    state = restore(memory, State(), snapshot, again.policy)
    again.state, again.tables = assess(state, snapshot, again.policy)
    return again


def column(world: OpenmqJudged, name: str, queue: str) -> float:
    table = world.tables["consumer"]
    (value,) = [
        value
        for row, value in zip(table.index, table[name], strict=True)
        if row.queue == queue
    ]
    return float(value)


@pytest.mark.slow  # many polls
def test_what_is_known_goes_on_with_the_queue_of_the_same_name() -> None:
    world = OpenmqJudged(constants=Constants(cold=60.0))
    for i in range(10):
        world.poll(*losing(i))
    assert "stalled" in {one.name for one in world.conditions if one.queue == "stuck"}
    before = {one.queue: one.since for one in world.conditions if one.name == "stalled"}
    assert world.evicted("full") == 7 * 20
    again = restarted(world, losing(10), losing(9))
    assert {
        one.queue: one.since for one in again.conditions if one.name == "stalled"
    } == before
    # What went meanwhile is no more than a bound: clients may have come and gone.
    assert again.evicted("full") == 7 * 20
    assert (
        column(again, "flow_limit", "slow"),
        column(again, "flow_resume", "slow"),
    ) == (100, 50)
    assert np.isnan(column(again, "flow_limit", "full"))


def test_what_moved_while_the_agent_was_away_is_no_stop() -> None:
    """The stuck consumer settled all meanwhile, and hangs again: its new stop begins now."""
    world = OpenmqJudged(constants=Constants(cold=60.0))
    for i in range(10):
        world.poll(*losing(i))
    queues, consumers, addresses = losing(10)
    moved: dict[str, Any] = {**queues, "stuck": {"A": 200, "K": 60, "M": 140, "D": 60}}
    settled = {
        **consumers,
        "b": {
            "queue": "stuck",
            "N": 120,
            "T": 60,
            "L": world.now + 10,
            "flow_paused": 1.0,
        },
    }
    again = restarted(world, (moved, settled, addresses), losing(9))
    for _ in range(2):
        again.poll(moved, settled, addresses)
    assert not [one for one in again.conditions if one.name == "stalled"]


def left_alone(i: int, settled: int = 0) -> Poll:
    """A queue whose consumer went after the first poll."""
    consumers = {"c": {"N": 5, "T": 0, "L": 1e9}} if i == 0 else {}
    return {"q": {"A": 100 + i, "K": 5 + settled, "M": 95 + i - settled}}, consumers, {}


@pytest.mark.slow  # many polls
def test_somebody_who_came_while_the_agent_was_away_ends_an_absence() -> None:
    world = OpenmqJudged(constants=Constants(cold=60.0))
    for i in range(10):
        world.poll(*left_alone(i))
    assert world.names == {"no_consumer"}
    for settled, names in ((0, {"no_consumer"}), (50, set())):
        again = restarted(world, left_alone(10, settled), left_alone(9))
        for i in (11, 12):
            again.poll(*left_alone(i, settled))
        assert again.names == names, settled
