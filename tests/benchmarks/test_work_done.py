"""What a poll costs, by counting: calls to the broker and of functions, bytes rendered, memory. Never by time."""

import sys
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from types import FrameType
from typing import Any, Self

import pytest
from bench.harness import Polled, subject
from bench.world import World, WorldTransport

from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis.listings import ListingDecoder, ListingPage
from penstock.core.table import Positions
from penstock.exposition.body import Exposition
from penstock.exposition.gzip_stream import Codec, Fragment
from penstock.exposition.render import BLOCK
from penstock.exposition.syntax import Format

pytestmark = pytest.mark.slow  # thousands of rows, polled until they are at rest

QUEUES = 3_000
CONSUMERS = 9_000
POLLS_TO_REST = 24
"""After these nothing within the five minutes that rates look back on has moved."""
EVERY_POLL = [
    *(
        "broker",
        "listConsumers",
        "listAddresses",
        "listQueues",
        "sizes",
        "listSessions",
        "listProducers",
    ),
    "listPreparedTransactions",
]


@pytest.fixture
async def world() -> World:
    return World(QUEUES, CONSUMERS, active=0.2)


@pytest.fixture
async def polled(world: World) -> AsyncIterator[Polled]:
    """At rest: everything that is read once was read."""
    made = Polled(WorldTransport(world), page_rows=10_000)
    for _ in range(6):
        world.step(churn=0)
        await made.warm_up(1)
    yield made
    await made.close()


class Calls:
    """Counts the Python functions that are called in this process' worker thread."""

    def __init__(self, polled: Polled) -> None:
        self._polled = polled
        self.count = 0

    def __enter__(self) -> Self:
        self._polled.executor.submit(sys.setprofile, self._called).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._polled.executor.submit(sys.setprofile, None).result()

    def _called(self, _frame: FrameType, event: str, _what: object) -> None:
        self.count += event == "call"


def asked(polled: Polled) -> list[str]:
    return [subject(request) for bulk in polled.transport.asked for request in bulk[:1]]


async def test_calls_to_the_broker_at_a_steady_state(
    world: World, polled: Polled
) -> None:
    bulks = []
    for _ in range(8):
        world.step(churn=0)
        await polled.poll()
        bulks.append(asked(polled))
        assert [
            what for what in bulks[-1] if what not in {"roles", "diverts", "groups"}
        ] == EVERY_POLL
    assert [sum(one in bulk for bulk in bulks) for one in ("roles", "diverts")] == [
        2,
        2,
    ]  # once a minute


async def test_connections_are_asked_again_only_for_new_ones(
    world: World, polled: Polled
) -> None:
    world.step(churn=0.01)
    await polled.poll()
    assert "listConnections" in asked(polled)


@pytest.mark.nightly  # many polls of a large broker
async def test_at_rest_no_block_of_what_is_large_is_rendered(
    world: World, polled: Polled
) -> None:
    world.rest()
    await polled.poll()
    for _ in range(POLLS_TO_REST):
        world.tick()
        await polled.poll()
    before = polled.blocks.published.families
    large = [name for name, samples in before.items() if samples.count > BLOCK]
    world.tick()
    await polled.poll()
    after = polled.blocks.published.families
    assert len(large) > 20
    assert [
        name
        for name in large
        if [*map(id, before[name].fragments)] != [*map(id, after[name].fragments)]
    ] == []
    assert polled.blocks.blocks_rendered <= len(after) - len(large)


async def test_one_queue_that_works_renders_its_own_blocks_only() -> None:
    world = World(QUEUES, 0, active=0)
    polled = Polled(WorldTransport(world))
    for _ in range(4):
        world.tick()
        await polled.warm_up(1)
    quiet = polled.blocks.blocks_rendered
    world.works[0] = True
    world.step(churn=0)
    await polled.poll()
    # Families of queues and addresses, one block each: what else the queue has stays as it is.
    assert 0 < polled.blocks.blocks_rendered - quiet <= 20
    await polled.close()


async def test_a_steady_poll_calls_no_python_function_per_row(
    world: World, polled: Polled
) -> None:
    small_world = World(QUEUES // 10, CONSUMERS // 10, active=0.2)
    small = Polled(WorldTransport(small_world))
    for _ in range(6):
        small_world.step(churn=0)
        await small.warm_up(1)
    growth = await steady_calls(world, polled) - await steady_calls(small_world, small)
    # What is unhealthy costs some calls each; nine rows of ten are not.
    assert growth < 0.85 * 0.9 * (QUEUES + CONSUMERS)
    await small.close()


async def steady_calls(world: World, polled: Polled) -> int:
    """Calls of the least of four polls: in one of them the roles are read again."""
    counted = []
    for _ in range(4):
        world.step(churn=0)
        with Calls(polled) as calls:
            await polled.poll()
        counted.append(calls.count)
    return min(counted)


@pytest.mark.nightly  # many polls of a large broker
async def test_churn_costs_calls_for_those_that_came_only(
    world: World, polled: Polled
) -> None:
    world.step(churn=0)
    with Calls(polled) as steady:
        await polled.poll()
    world.step(churn=0.01)
    with Calls(polled) as churning:
        await polled.poll()
    assert churning.count - steady.count < 60 * 0.01 * CONSUMERS


async def test_what_is_read_goes_by_the_rows_that_changed(
    world: World, polled: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[type, int] = defaultdict(int)
    whole = ListingDecoder.__call__
    exactly = ListingDecoder.exactly

    def count(rows: Sequence[object]) -> None:
        for row in rows[:1]:
            read[type(row)] += len(rows)

    def counting(decoder: Any, page: ListingPage) -> Any:
        rows = whole(decoder, page)
        count(rows.rows)
        return rows

    def counting_exactly(decoder: Any, page: ListingPage, at: Positions) -> Any:
        rows = exactly(decoder, page, at)
        count(rows or [])
        return rows

    monkeypatch.setattr(ListingDecoder, "__call__", counting)
    monkeypatch.setattr(ListingDecoder, "exactly", counting_exactly)
    world.step(churn=0.01)
    await polled.poll()
    # of what stayed some cannot be found again, and is read
    came = 0.01
    missed = 0.07
    assert read[wire.ConsumerTexts] == CONSUMERS // 100
    assert (
        0.19 * CONSUMERS
        <= read[wire.ConsumerNumbers]
        <= (0.2 + came + missed) * CONSUMERS
    )
    assert read[wire.QueueTexts] == 0
    assert read[wire.QueueNumbers] <= (0.2 + missed) * QUEUES
    assert read[wire.AddressNumbers] <= (0.2 + missed) * QUEUES
    assert read[wire.SessionListed] <= (2 * came + missed) * CONSUMERS


def lines(polled: Polled) -> set[bytes]:
    """The samples of the body."""
    exposition = Exposition(lambda _: b"")
    exposition.set_broker("bench", polled.blocks)
    return set(b"".join(exposition.chunks(Format.TEXT, gzip=False)).splitlines())


@pytest.mark.nightly  # many polls of a large broker
async def test_bytes_rendered_go_by_the_rows_that_changed(
    world: World, polled: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = 0
    compress = Codec.compress

    def counting(codec: Codec, raw: bytes) -> Fragment:
        nonlocal rendered
        rendered += len(raw)
        return compress(codec, raw)

    for _ in range(4):  # until those that work stand together
        world.step(churn=0)
        await polled.poll()
    before = lines(polled)
    monkeypatch.setattr(Codec, "compress", counting)
    world.step(churn=0)
    await polled.poll()
    monkeypatch.undo()
    changed = lines(polled) - before
    families = {line.partition(b"{")[0] for line in changed}
    most = max(map(len, changed)) + 1
    assert len(changed) > 10 * 0.2 * QUEUES
    # What changed stands together, so that each family renders at most two blocks in part for nothing.
    assert rendered <= most * (len(changed) + 2 * BLOCK * len(families))
    assert rendered < sum(map(len, before)) / 2


@pytest.mark.nightly  # many polls of a large broker
async def test_a_steady_poll_keeps_nothing_and_holds_one_page_at_a_time(
    world: World,
) -> None:
    polled = Polled(WorldTransport(world), page_rows=1_000)
    for _ in range(8):
        world.step(churn=0)
        await polled.warm_up(1)
    tracemalloc.start()
    try:
        for _ in range(2):
            world.step(churn=0)
            await polled.poll()
        polled.transport.asked.clear()  # the bench's own: reads by name are many more than one by pattern
        before = sys.getallocatedblocks()
        tracemalloc.reset_peak()
        held = tracemalloc.get_traced_memory()[0]
        world.step(churn=0)
        await polled.poll()
        peak = tracemalloc.get_traced_memory()[1]
        polled.transport.asked.clear()
        kept = sys.getallocatedblocks() - before
    finally:
        tracemalloc.stop()
    assert kept < 0.1 * (QUEUES + CONSUMERS)
    # The largest answers come whole, as that with all queues; nine pages of consumers at once would be 14 MB more.
    # What rules read is kept to the next poll: causes are worked out when someone looks.
    assert peak - held < 4_000 * QUEUES + 400 * CONSUMERS
    await polled.close()
