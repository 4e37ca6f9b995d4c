"""On a real broker under load: at each poll the sizes of all queues are those that a read of everything gives."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import numpy as np
import pytest

from e2e.test_names import CONTROLS, NAMES
from penstock.brokers.artemis import answers, sizes
from penstock.brokers.artemis import requests as ask
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.replies import Decoder
from penstock.brokers.requests import attributes, key_of
from penstock.model import Snapshot
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.transport import Answer, Request
from penstock_demo.broker import Broker
from rig.day_and_night import versions
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, AmqpTransaction
from rig.waiting import eventually

pytestmark = pytest.mark.broker

Sizes = Mapping[str, tuple[float, ...]]
EVERY = 0.5
ROUNDS = 22
DELIVERIES = 9
"""Of a message; at the tenth it is a dead letter."""
LATE = 15
"""The round by which what does nothing has long not been asked, and in which it begins to work."""


class Watched(JolokiaTransport):
    """Notes which queues are asked for their sizes by name."""

    def __init__(self, target: JolokiaTarget) -> None:
        super().__init__(target)
        self.by_name: list[str] = []

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        asked = [
            r["mbean"]
            for r in requests
            if list(r.get("attribute", ())) == list(attributes(answers.QueueSizes))
        ]
        self.by_name += [
            key_of(mbean, "queue") for mbean in asked if "queue=*" not in mbean
        ]
        return await super().ask(requests, timeout)


def transport_to(broker: Broker) -> Watched:
    account = broker.accounts.get("exporter", broker.admin)
    return Watched(
        JolokiaTarget(
            broker.jolokia_url, account.user, lambda: account.password, broker.origin
        )
    )


async def all_sizes(transport: JolokiaTransport, broker: str) -> Sizes:
    """By queue, in the order of `QueueSizes`."""
    request = ask.queues(broker, answers.QueueSizes)
    (reply,) = answers.replies((await transport.ask([request], 30)).body, 1)
    mbeans, found = Decoder(answers.QueueSizes).many(reply, "sizes")
    return {
        key_of(mbean, "queue"): msgspec.structs.astuple(row)
        for mbean, row in zip(mbeans, found.rows, strict=True)
    }


def shown(snapshot: Snapshot) -> Sizes:
    table = snapshot.queues
    assert table is not None
    lines = np.vstack([table[name] for name in sizes.COLUMNS]).T.tolist()
    return {row.name: tuple(line) for row, line in zip(table.index, lines, strict=True)}


def wrong(found: Sizes, before: Sizes, after: Sizes, busy: set[str]) -> dict[str, Any]:
    """What is not as it was right before or right after the poll, or between the two while the queue works."""
    bad = {}
    for name in before.keys() & after.keys() & found.keys():
        low = before[name]
        value = found[name]
        high = after[name]
        same = (
            value == low == high
            if low == high and name not in busy
            else low[0] <= value[0] <= high[0]
        )
        if not same:
            bad[name] = low, value, high
    return bad


VERSIONS = pytest.mark.parametrize(
    "version", versions("artemis", "artemis_2_28", "artemis_newest")
)


@VERSIONS
async def test_each_queue_is_found_by_its_name(
    version: str, request: pytest.FixtureRequest, unique: Callable[[str], str]
) -> None:
    broker: Broker = request.getfixturevalue(version)
    prefix = unique("found")
    names = [f"{prefix}.{name}" for name in (*NAMES, *CONTROLS)]
    broker.manage.create_queues(names)
    broker.manage.create_queue(
        f"{prefix}.sub", address=f"{prefix}.topic", routing_type="multicast"
    )
    where = {name: (name, "anycast") for name in names} | {
        f"{prefix}.sub": (f"{prefix}.topic", "multicast")
    }
    transport = transport_to(broker)
    where["gone"] = "gone", "anycast"
    asked = [
        ask.of_queue(broker.name, at, name, kind.upper())
        for name, (at, kind) in where.items()
    ]
    replies = answers.replies((await transport.ask(asked, 30)).body, len(asked))
    await transport.close()
    assert [reply.status for reply in replies] == [200] * (len(asked) - 1) + [404]
    found = [Decoder(answers.QueueSizes).one(reply, "sizes") for reply in replies[:-1]]
    assert found == [answers.QueueSizes(0, 0, 0)] * len(found)


@VERSIONS
@pytest.mark.nightly  # many messages of each size
async def test_sizes_are_those_of_a_full_read(
    version: str, request: pytest.FixtureRequest, unique: Callable[[str], str]
) -> None:
    broker: Broker = request.getfixturevalue(version)
    prefix = unique("sizes")
    idle = [f"{prefix}.idle.{n}" for n in range(120)]
    odd = [f"{prefix}.{name}" for name in NAMES]
    flow, held, ring, late = (
        f"{prefix}.{name}" for name in ("flow", "held", "ring", "late")
    )
    rolled = [f"{prefix}.rolled.{n}" for n in range(-(-ROUNDS // DELIVERIES))]
    broker.manage.create_queues([*idle, *odd, *rolled, flow, held, late])
    broker.manage.create_queue(ring, ring_size=3)
    at = broker.endpoint()
    plain = [name for name in odd if not set(name) & set("\n\r*#?")]
    reading = transport_to(broker)
    checking = transport_to(broker)
    reader = ArtemisReader(reading)
    async with AsyncExitStack() as clients:
        clients.push_async_callback(reader.close)
        clients.push_async_callback(checking.close)
        clients.enter_context(AmqpProducer(at, flow).run(40))
        clients.enter_context(AmqpConsumer(at, flow))
        clients.enter_context(AmqpProducer(at, ring).run(5))
        clients.enter_context(AmqpProducer(at, held)).send(10)
        clients.enter_context(AmqpHolder(at, held, credit=4))
        for name in rolled:
            clients.enter_context(AmqpProducer(at, name)).send(2)
        busy = {flow, ring}
        when_named: set[str] = set()
        for number in range(ROUNDS):
            # A client that comes, takes and rolls back between two polls: the listing is as before.
            with AmqpTransaction(
                at, rolled[number // DELIVERIES], credit=2
            ) as transaction:
                eventually(lambda: transaction.counts.uncommitted, 2)
                transaction.abort()
            if number == LATE:
                for name in [late, *plain]:
                    clients.enter_context(AmqpProducer(at, name)).send()
            await asyncio.sleep(EVERY)
            reading.by_name.clear()
            before = await all_sizes(checking, broker.name)
            found = await reader.poll(30)
            after = await all_sizes(checking, broker.name)
            assert found.collectors["sizes"].success, found.collectors["sizes"].error
            assert not wrong(shown(found), before, after, busy), f"round {number}"
            # Once a minute all are read by pattern, which names none.
            if number >= LATE - 3 and (named := set(reading.by_name)):
                assert not named & set(idle), f"round {number}"
                assert {*rolled, held} <= named, f"round {number}"
                assert number < LATE or set(plain) <= named, f"round {number}"
                when_named.add("before" if number < LATE else "after")
    assert when_named == {"before", "after"}, "what does nothing is still asked"
