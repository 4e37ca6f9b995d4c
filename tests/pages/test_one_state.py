"""One state for one object: lists, pages, the API, `top`, `explain`, `check` and the metrics say the same of it.

A broker has a queue in each state. The test walks all places that show a state.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.test_state_file import Reader
from agent.world import World
from pages.served import Connected, Served, served
from penstock.cli.check import found_of
from penstock.core.errors import Unreachable
from penstock.insight.lists import ListQuery
from penstock.insight.text import explanation, object_lines, text_lines
from penstock.model import QueueKind
from penstock.tui import screens
from penstock.tui.sparkline import RecentValues

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKS, RING, WAITS, HOLDS, LINK, STALLS, UNREAD = range(1, 8)
STATES = {
    "works": "healthy",
    "ring": "notice",
    "holds": "watching",
    "waits": "watching",
    "link": "unknown",
    "stalls": "warning",
    "unread": "critical",
}
"""By queue, at the last poll."""
CLIENTS = {("works", "good"): "healthy", ("holds", "slow"): "watching", ("stalls", "hung"): "warning",
           ("stalls", "fine"): "healthy"}  # fmt: skip
POLLS = 24
SECONDS = 15.0
WAIT_BEGINS = 21
HOLD_BEGINS = 22
"""The polls at which messages begin to wait, and a client to hold some: for long enough to be watched, and not to be a
condition.
"""


def broker() -> World:
    world = Connected()
    world.queue(WORKS, "works", messages=1, added=1)
    world.queue(RING, "ring", messages=100, added=100, ring_limit=100)
    world.queue(WAITS, "waits")
    world.queue(HOLDS, "holds")
    world.queue(LINK, "link", messages=4, row={"kind": QueueKind.LINK})
    world.queue(STALLS, "stalls")
    world.queue(UNREAD, "unread", messages=9, added=9, acknowledged=4)
    world.consumer(10, WORKS, "good")
    world.consumer(20, HOLDS, "slow")
    world.consumer(
        30, STALLS, "hung", buffered=20, delivered=20, last_delivery=world.now
    )
    world.consumer(31, STALLS, "fine")
    world.queues[STALLS] |= {"messages": 20, "added": 20, "delivering": 20}
    return world


def lives(world: World) -> None:
    """What happens between two polls."""
    for queue, consumer in ((WORKS, 10), (STALLS, 31)):
        settles(world, queue, consumer)
    world.queues[RING]["added"] += 300  # 20 a second, and each evicts one
    world.queues[UNREAD]["added"] += 5
    world.queues[UNREAD]["messages"] += 5
    seconds = world.now - world.__dict__.setdefault("begin", world.now)
    if seconds >= WAIT_BEGINS * SECONDS:
        world.queues[WAITS] |= {"messages": 3.0, "added": 3.0}
    if seconds >= HOLD_BEGINS * SECONDS:
        world.queues[HOLDS] |= {"messages": 4.0, "added": 4.0, "delivering": 4.0}
        world.consumers[20] |= {"buffered": 4.0, "delivered": 4.0}
        world.consumers[20].setdefault("last_delivery", world.now + 1)


def settles(world: World, queue: int, consumer: int) -> None:
    world.queues[queue]["added"] += 10
    world.queues[queue]["acknowledged"] += 10
    one = world.consumers[consumer]
    one["delivered"] += 10
    one["acknowledged"] += 10
    one["last_delivery"] = one["last_acknowledgement"] = world.now + 14


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(
        broker(), tmp_path_factory.mktemp("states"), lives, polls=POLLS, interval="1h"
    ) as running:
        yield running


# --- what each place shows


async def raw(page: Served, path: str) -> str:
    async with page.client.get(page.url + path) as response:
        assert response.status == 200
        return await response.text()


async def answer(page: Served, path: str) -> Any:
    async with page.client.get(page.url + path) as response:
        assert response.status == 200
        return await response.json()


def badges(html: str) -> list[str]:
    return re.findall(r'class="badge (\w+)"', html)


def row_of(html: str, name: str) -> str:
    """The row of a table whose heading is a link with this name."""
    (found,) = [
        row
        for row in html.split("<tr")
        if re.search(rf'<th scope="row">.*?<bdi>{name}</bdi>', row, re.DOTALL)
    ]
    return found


def in_terminal(show: Any, row: Any) -> str:
    return str(show(screens.CellContext(row, 0, RecentValues(), 0.0, 40)))


def assert_cell(cell: str, state: str) -> None:
    assert cell.startswith(screens.MARKS[state])
    assert ("healthy" in cell) == (state == "healthy")


# --- queues


@pytest.mark.slow  # many pages
@pytest.mark.parametrize(("queue", "state"), STATES.items())
async def test_of_a_queue(page: Served, queue: str, state: str) -> None:
    list_row = row_of(await raw(page, "queues"), queue)
    assert badges(list_row)[0] == state
    assert ("healthy" in badges(list_row)) == (state == "healthy")
    own = await raw(page, f"queue?broker=b1&queue={queue}")
    assert badges(own)[0] == state
    (listed,) = [
        one
        for one in (await answer(page, "api/v1/queues"))["queues"]
        if one["queue"] == queue
    ]
    assert listed["state"] == state
    explained = await answer(page, f"api/v1/explain?broker=b1&queue={queue}")
    assert (explained["knowledge"]["state"], explained["healthy"]) == (
        state,
        state == "healthy",
    )
    (row,) = page.agent.lookups.queues("b1", ListQuery(queue=queue)).rows
    assert_cell(in_terminal(screens.state, row), state)
    lines = list(explanation(page.agent.lookups.explain("b1", queue, None, None)))
    assert lines[2].startswith(state.upper())


@pytest.mark.slow  # asks for all pages of a broker in each state
async def test_a_queue_with_a_state_is_in_no_sentence_called_healthy(
    page: Served,
) -> None:
    for queue, state in STATES.items():
        text = (await page.get(f"queue?broker=b1&queue={queue}")).text.partition(
            "Footer"
        )[0]
        said = re.findall(
            r"\bhealthy\b",
            text.replace("/-/healthy", "").rpartition("· ready · healthy")[0].lower(),
        )
        assert bool(said) == (state == "healthy"), queue


# --- clients


@pytest.mark.parametrize(("name", "state"), CLIENTS.items())
async def test_of_a_client(page: Served, name: tuple[str, str], state: str) -> None:
    queue, client = name
    list_row = row_of(await raw(page, "clients"), client)
    assert badges(list_row)[0] == state
    assert badges(await raw(page, f"client?broker=b1&client={client}"))[0] == state
    (row,) = page.agent.lookups.clients("b1", ListQuery(client=client)).rows
    (consumer,) = page.agent.lookups.consumers("b1", ListQuery(client=client)).rows
    assert (row.state, consumer.state) == (state, state)
    assert_cell(in_terminal(screens.state, row), state)
    assert page.agent.lookups.client("b1", client).knowledge.state == state
    found = page.agent.lookups.explain("b1", queue, None, client)
    assert (found.knowledge.state, found.healthy) == (state, state == "healthy")
    assert [one.state for one in found.clients] == [state]


# --- addresses and the broker


async def test_an_address_is_no_better_than_its_queue(page: Served) -> None:
    for queue, state in STATES.items():
        here = page.agent.lookups.thing("b1", "address", queue)
        everywhere = page.agent.lookups.thing("", "address", queue)
        assert (here.knowledge.state, everywhere.knowledge.state) == (state, state), (
            queue
        )
        assert badges(await raw(page, f"address?broker=b1&address={queue}"))[0] == state
        assert list(object_lines(here))[2].startswith(state.upper())


async def test_of_the_broker(page: Served) -> None:
    (row,) = page.agent.lookups.brokers()
    assert row.state == "critical"
    assert (await answer(page, "api/v1/brokers"))["brokers"][0]["state"] == "critical"
    assert (await answer(page, "api/v1/broker?broker=b1"))["knowledge"][
        "state"
    ] == "critical"
    assert badges(await raw(page, "broker?broker=b1"))[0] == "critical"
    assert badges(row_of(await raw(page, ""), "b1"))[0] == "critical"
    assert_cell(in_terminal(screens.broker_state, row), "critical")
    (poller,) = page.agent.pollers()
    checked = found_of("http://127.0.0.1:1/", poller)
    assert checked["state"] == "critical"
    assert any(
        line.startswith("state     critical: ")
        for line in text_lines("penstock.cli", "check", checked)
    )


# --- metrics


async def test_the_metric_counts_what_the_lists_show(page: Served) -> None:
    shown = counts(await raw(page, "metrics"))
    queues = page.agent.lookups.queues("b1", ListQuery()).rows
    clients = page.agent.lookups.clients("b1", ListQuery()).rows
    listed = [one.state for one in (*queues, *clients)]
    assert shown == {
        state: listed.count(state) for state in ("stale", *{*STATES.values()})
    }
    assert {state for state, count in shown.items() if count} == {*STATES.values()}


def counts(metrics: str) -> dict[str, int]:
    found = re.findall(
        r'^mq_object_knowledge\{broker="b1",state="(\w+)"\} (\d+)',
        metrics,
        re.MULTILINE,
    )
    return {state: int(count) for state, count in found}


# --- while the broker cannot be read; the last test, as the broker stays so


async def test_of_a_broker_that_cannot_be_read(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (poller,) = page.agent.pollers()

    async def gone(_: Reader, timeout: float) -> None:
        raise Unreachable("connection refused")

    monkeypatch.setattr(Reader, "poll", gone)
    await poller.poll()
    lookups = page.agent.lookups
    assert {one.state for one in lookups.queues("", ListQuery()).rows} == {"stale"}
    assert {one.state for one in lookups.clients("", ListQuery()).rows} == {"stale"}
    assert {
        badges(row_of(await raw(page, "queues"), queue))[0] for queue in STATES
    } == {"stale"}
    assert [one.state for one in lookups.brokers()] == ["down"]
    assert lookups.thing("b1", "broker", "b1").knowledge.state == "down"
    assert badges(await raw(page, "broker?broker=b1"))[0] == "down"
    assert badges(row_of(await raw(page, ""), "b1"))[0] == "down"
    assert_cell(in_terminal(screens.broker_state, lookups.brokers()[0]), "down")
    assert list(explanation(lookups.explain("b1", "works", None, None)))[2].startswith(
        "Broker down since "
    )
    assert counts(await raw(page, "metrics"))["stale"] == len(STATES) + len(CLIENTS)
