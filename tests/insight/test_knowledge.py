"""Healthy, watching, notice, warning, critical, unknown or stale: what may be said of a queue, and on what."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import UNSET

from agent.test_restart import busy, work, work_once
from agent.test_state_file import Reader
from agent.world import World
from pages.served import served, troubled
from penstock.agent import supervisor
from penstock.agent.checkpoint import checkpoint_of
from penstock.assessment.assess import assess
from penstock.core.errors import Unreachable
from penstock.core.formatting import duration
from penstock.core.table import Table
from penstock.insight.answers import Explanation
from penstock.insight.explain import BrokerView, explain, unknown_conditions
from penstock.insight.lists import ListQuery, client_list
from penstock.insight.text import explanation
from penstock.model import QueueKind, Snapshot
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy


def view_of(world: World) -> BrokerView:
    return BrokerView(world.state, world.tables, world.snapshot(), world.policy, 15.0)


def told(world: World, queue: str, client: str | None = None) -> Explanation:
    return explain(view_of(world), queue, client=client)


@pytest.fixture
def world() -> World:
    """A queue that works, for long enough to judge all of it."""
    world = World(Policy("b1", constants=Constants(cold=300.0)))
    world.queue(1, "q", messages=1, added=1)
    world.consumer(1, 1, "good")
    return world


def works(world: World, polls: int) -> None:
    for _ in range(polls):
        world.queues[1]["added"] += 10
        world.queues[1]["acknowledged"] += 10
        one = world.consumers[1]
        one["delivered"] += 10
        one["acknowledged"] += 10
        one["last_delivery"] = one["last_acknowledgement"] = world.now + 14
        world.poll()


@pytest.mark.slow  # many polls
def test_healthy_says_on_what(world: World) -> None:
    works(world, 25)
    found = told(world, "q")
    assert (found.knowledge.state, found.healthy, found.knowledge.watched) == (
        "healthy",
        True,
        [],
    )
    assert (
        "conditions, judged at 21 of the 21 polls in the last 5 min"
        in found.knowledge.why
    )
    assert "HEALTHY: " in "\n".join(explanation(found))


def test_a_young_agent_watches_until_it_has_seen_a_window(world: World) -> None:
    works(world, 5)
    known = told(world, "q").knowledge
    assert (known.state, [one.condition for one in known.watched]) == (
        "watching",
        ["window"],
    )
    assert (known.watched[0].seconds, known.watched[0].needed) == (60, 300)
    said = "Penstock has read this broker for 1 min and needs 5 min: growing backlogs and returning messages are found"
    assert f"  watching  {said} only over that time" in "\n".join(
        explanation(told(world, "q"))
    )


@pytest.mark.slow  # many polls
def test_a_client_that_settles_nothing_is_watched_until_its_patience_ends(
    world: World,
) -> None:
    works(world, 30)
    world.consumer(2, 1, "quiet", buffered=3, delivered=3, last_delivery=world.now + 1)
    states = []
    for _ in range(21):
        works(world, 1)
        found = told(world, "q")
        states.append(found.knowledge.state)
        if found.knowledge.watched:
            (one,) = found.knowledge.watched
            assert (one.condition, one.client, one.needed) == ("stalled", "quiet", 300)
            assert "buffers 3 messages" in one.proves
            lasts = f"for {duration(one.seconds)}, a condition after 5 min: it buffers 3 messages"
            assert f"  watching  stalled of client quiet: {lasts}" in "\n".join(
                explanation(found)
            )
    first = states.index("watching")
    assert states == ["healthy"] * first + ["watching"] * states.count("watching") + [
        "warning"
    ]
    assert 2 <= first <= 6  # a quarter of 300 s, at polls each 15 s


def test_what_is_shorter_than_an_interval_is_not_said(world: World) -> None:
    works(world, 3)
    world.consumer(
        2, 1, "quiet", buffered=3, delivered=3, last_delivery=world.now + 14.901
    )
    said = []
    for _ in range(3):
        works(world, 1)
        found = told(world, "q")
        (row,) = [
            one
            for one in client_list([view_of(world)], ListQuery()).rows
            if one.client == "quiet"
        ]
        (client,) = [one for one in found.clients if one.client == "quiet"]
        lines = "\n".join(explanation(found))
        said.append(
            [
                row.blocked_since is not UNSET,
                "blocked_since" in client.numbers,
                "no acknowledg" in lines,
            ]
        )
    assert said == [[False] * 3, [True] * 3, [True] * 3]


@pytest.mark.slow  # many polls
def test_what_waits_for_nobody_is_watched(world: World) -> None:
    works(world, 30)
    world.queue(2, "left", messages=4, added=4)
    world.queue(3, "dead", messages=4, added=4, row={"kind": QueueKind.DEAD_LETTER})
    for _ in range(9):
        works(world, 1)
    assert [one.condition for one in told(world, "left").knowledge.watched] == [
        "no_consumer"
    ]
    assert told(world, "dead").knowledge.state == "healthy"


def test_what_is_not_judged_is_unknown_and_not_healthy() -> None:
    world = World()
    world.queue(1, "link", messages=4, row={"kind": QueueKind.LINK})
    for _ in range(4):
        world.poll()
    found = told(world, "link")
    assert (found.knowledge.state, found.healthy) == ("unknown", False)
    assert found.knowledge.why == "queues of kind link are not judged"


@pytest.mark.slow  # many polls
def test_a_condition_makes_the_state_and_is_named() -> None:
    world = busy()
    work(world, 20)
    known = told(world, "orders").knowledge
    assert known.state == "warning"
    assert "stalled" in known.why


@pytest.mark.slow  # many polls
def test_a_client_that_is_not_judged_is_unknown_where_it_is_asked_for(
    world: World,
) -> None:
    works(world, 25)
    world.consumer(2, 1, "new")
    works(world, 1)
    assert (
        told(world, "q").knowledge.state,
        told(world, "q", "good").knowledge.state,
    ) == ("healthy", "healthy")
    found = told(world, "q", "new")
    assert (found.knowledge.state, found.healthy) == ("unknown", False)
    assert found.knowledge.why == "seen at 1 of the 3 polls that it takes"


@pytest.mark.slow  # many polls
async def test_what_is_known_of_a_dead_broker_is_stale_and_says_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also hours later; the explanation stays, with what was known last."""
    world = troubled()
    down = SimpleNamespace(on=False)

    async def poll(self: Reader, timeout: float) -> Snapshot:
        if down.on:
            raise Unreachable("connection refused")
        found: Snapshot = await read(self, timeout)
        return found

    read = Reader.poll
    monkeypatch.setattr(Reader, "poll", poll)
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(world))
    async with served(world, tmp_path, work_once) as page:
        (poller,) = page.agent.pollers()
        before = page.agent.lookups.explain("b1", "orders", None, None)
        down.on = True
        poller.assessor.withdraw(await poller.poll(), poller.polls)
        found = page.agent.lookups.explain("b1", "orders", None, None)
        lines = list(explanation(found))
        assert (found.knowledge.state, found.healthy) == ("stale", False)
        assert found.knowledge.since is not None
        assert found.knowledge.since > 0
        assert lines[2].startswith("Broker down since ")
        assert ", last seen 2026-11-21 " in lines[2]
        assert "connection refused" in lines[2]
        assert lines[3] == "What follows is what was last seen."
        assert [one.condition for one in found.conditions] == [
            one.condition for one in before.conditions
        ]
        assert "stale" in (await page.get("queue?broker=b1&queue=orders")).text
        assert page.agent.lookups.thing("b1", "broker", "b1").knowledge.state == "down"
        down.on = False
        await poller.poll()
        assert (
            page.agent.lookups.explain("b1", "orders", None, None).knowledge.state
            == before.knowledge.state
        )


@pytest.mark.parametrize(
    "kind",
    [QueueKind.LINK, QueueKind.INTERNAL, QueueKind.RETROACTIVE, QueueKind.TEMPORARY],
)
def test_what_is_never_judged_is_unknown_since_it_was_seen_first_and_not_worth_waiting_for(
    kind: QueueKind,
) -> None:
    world = World()
    world.queue(1, "q", messages=4)
    world.queue(
        2,
        "own",
        messages=4,
        row={"kind": kind, "temporary": kind is QueueKind.TEMPORARY},
    )
    world.poll()
    began = world.now
    (shown,) = [row.queue for row in world.tables["queue"].index if row.kind is kind]
    for _ in range(5):
        found = told(world, shown)
        (condition,) = found.conditions
        assert (found.knowledge.since, condition.since) == (began, began)
        assert condition.advice.startswith("do not wait")
        world.poll()


def test_where_no_poll_was_ever_judged_it_is_unknown_since_the_first_of_them() -> None:
    world = World()
    world.queue(1, "q", messages=4)
    began = world.now + 15
    for _ in range(3):
        world.now += 15
        snapshot = replace(world.snapshot(), consumers=None)
        world.state, world.tables = assess(world.state, snapshot, world.policy)
        view = BrokerView(world.state, world.tables, snapshot, world.policy, 15.0)
        (found,) = unknown_conditions(view, world.tables["queue"].index.rows[0])
        assert found.since == began
        assert "penstock check" in found.advice


def test_a_client_whose_broker_shows_no_numbers_is_unknown_since_it_was_seen_first() -> (
    None
):
    world = World()
    world.queue(1, "q", messages=4)
    world.consumer(1, 1, "c")
    for name in ("buffered", "delivered", "acknowledged"):
        world.consumers[1][name] = float("nan")
    began = world.now + 15
    for _ in range(5):
        world.now += 15
        read = world.snapshot()
        assert read.consumers is not None
        shown = ("buffered", "delivered", "acknowledged", "awaiting_commit")
        columns = {
            name: column
            for name, column in read.consumers.columns.items()
            if name not in shown
        }
        snapshot = replace(read, consumers=Table(read.consumers.index, columns))
        world.state, world.tables = assess(world.state, snapshot, world.policy)
        view = BrokerView(world.state, world.tables, snapshot, world.policy, 15.0)
        found = [
            one
            for one in unknown_conditions(
                view, world.tables["queue"].index.rows[0], ["c"]
            )
            if one.client
        ]
        assert [one.since for one in found] == [began]


def test_a_young_thing_is_worth_waiting_for() -> None:
    world = World()
    world.queue(1, "q", messages=4)
    world.poll()
    (condition,) = told(world, "q").conditions
    assert condition.advice == "wait for more polls"


def test_while_the_brokers_clock_stands_still_what_is_young_says_since_when() -> None:
    world = World()
    world.queue(1, "q", messages=4)
    world.poll()
    first_seen = world.now
    world.poll(0.0)
    (condition,) = told(world, "q").conditions
    assert condition.evidence["polls"].value == 2
    assert condition.since == first_seen


@pytest.mark.parametrize(
    ("polls", "seconds", "state"),
    [(6, 15, "watching"), (6, 900, "unknown"), (1, 15, "unknown")],
)
def test_what_was_seen_before_a_short_restart_of_the_agent_is_not_new(
    polls: int, seconds: float, state: str
) -> None:
    """Also where another process of the agent polls the broker from now on."""
    world = World()
    world.queue(1, "q", messages=1, added=1)
    world.consumer(1, 1, "good")
    works(world, polls)
    again = world.restarted_agent(
        seconds - 15, checkpoint_of(world.state, world.snapshot(), world.policy)
    )
    again.poll()
    assert (
        told(again, "q").knowledge.state,
        told(again, "q", "good").knowledge.state,
    ) == (state, state)
