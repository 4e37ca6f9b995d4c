"""
An Artemis whose listings move: between any two calls consumers, producers, sessions, connections and queues come and
go. It sorts and pages as the real one does, and keeps the truth.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from brokers.test_artemis_reader import Broker
from penstock.assessment.assess import State, Tables, assess
from penstock.brokers.artemis import reader
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.engine import ReaderOptions
from penstock.model import Snapshot
from penstock.series.totals import Totals
from penstock.settings.policy import Policy
from penstock.transports.transport import Answer, Request

ADDRESS = "orders"
CLIENTS = ("a", "b", "c")
CALM = 25
"""Polls after which what is gone is no longer shown: so small pages may end at the same place for some time."""


@dataclass
class Thing:
    """A client with a connection, a session, a consumer and a producer, and a temporary queue of its own."""

    number: int
    session: str
    client: str
    delivered: int
    sent: int
    added: int


class Moving(Broker):
    """
    `most`: so many things come, and so many go, behind each page.

    consumers_shown, producers_shown, queues_shown: by the number of a thing its counter as it was shown last.
    """

    def __init__(self, dice: Random, size: int, most: int) -> None:
        super().__init__(queues=(), consumers=0)
        self.dice = dice
        self.most = most
        self.next = 0
        self.things: dict[int, Thing] = {}
        self.consumers_shown: dict[int, int] = {}
        self.producers_shown: dict[int, int] = {}
        self.queues_shown: dict[int, int] = {}
        self.come(size)

    def come(self, number: int) -> None:
        for _ in range(number):
            self.next += 1
            session = f"{self.dice.getrandbits(48):012x}"
            numbers = (self.dice.randint(0, 9) for _ in range(3))
            self.things[self.next] = Thing(
                self.next, session, self.dice.choice(CLIENTS), *numbers
            )

    def move(self) -> None:
        going = min(
            self.dice.randint(0, self.most), len(self.things) - 1
        )  # a broker always has a queue
        for number in self.dice.sample(sorted(self.things), going):
            del self.things[number]
        self.come(self.dice.randint(0, self.most))

    def work(self) -> None:
        """Between two polls; within one, a row on two pages says the same."""
        for thing in self.things.values():
            thing.delivered += self.dice.randint(0, 5)
            thing.sent += self.dice.randint(0, 5)
            thing.added += self.dice.randint(0, 5)

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        answer = await super().ask(requests, timeout)
        if any("list" in str(request.get("operation")) for request in requests):
            self.move()
        return answer

    def text(self, operation: str, arguments: list[Any]) -> str | list[str]:
        if operation == "listPreparedTransactions":
            return []
        if operation == "getAddressSettingsAsJSON":
            return json.dumps({"addressFullMessagePolicy": "PAGE"})
        _, page, rows = arguments
        things = sorted(self.things.values(), key=SORTED[operation])
        of_page = things[(page - 1) * rows : page * rows]
        if operation == "listAddresses":
            of_page = of_page[:0]
            things = things[:0]
        return json.dumps(
            {
                "data": [getattr(self, operation)(one) for one in of_page],
                "count": len(things),
            }
        )

    def listConsumers(self, one: Thing) -> dict[str, Any]:  # noqa: N802 - the operation's name
        self.consumers_shown[one.number] = one.delivered
        return {
            "id": str(one.number), "session": one.session, "clientID": one.client, "queue": ADDRESS, "address": ADDRESS,
            "messagesDelivered": str(one.delivered), "messagesInTransit": "0",
        }  # fmt: skip

    def listProducers(self, one: Thing) -> dict[str, Any]:  # noqa: N802
        self.producers_shown[one.number] = one.sent
        return {
            "id": str(one.number), "session": one.session, "clientID": one.client, "address": ADDRESS,
            "msgSent": one.sent,
        }  # fmt: skip

    def listSessions(self, one: Thing) -> dict[str, Any]:  # noqa: N802
        return {
            "id": one.session,
            "connectionID": f"c{one.number}",
            "clientID": one.client,
            "consumerCount": 1,
        }

    def listConnections(self, one: Thing) -> dict[str, Any]:  # noqa: N802
        return {
            "connectionID": f"c{one.number}",
            "clientID": one.client,
            "sessionCount": 1,
        }

    def listQueues(self, one: Thing) -> dict[str, Any]:  # noqa: N802
        self.queues_shown[one.number] = one.added
        return self.queue_row(one.number, one.session) | {
            "temporary": "true",
            "messagesAdded": str(one.added),
        }

    def read(self, request: Request) -> dict[str, dict[str, Any]]:
        return (
            {} if "subcomponent=queues" in request["mbean"] else super().read(request)
        )


SORTED: dict[str, Any] = {
    "listConsumers": lambda one: one.number,
    "listProducers": lambda one: one.number,
    "listSessions": lambda one: one.session,
    "listQueues": lambda one: one.session,
    "listConnections": lambda one: str(one.number),
    "listAddresses": lambda one: one.number,
}


@dataclass
class Watched:
    """What Penstock makes of it, poll by poll."""

    broker: Moving
    reader: ArtemisReader
    state: State = field(default_factory=State)
    tables: Tables = field(default_factory=dict)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(0.0, None))

    @classmethod
    def of(cls, broker: Moving, rows: int, patch: pytest.MonkeyPatch) -> "Watched":
        patch.setattr(reader, "QUEUE_PAGE_ROWS", rows)
        return cls(broker, ArtemisReader(broker, ReaderOptions(page_rows=rows)))

    async def poll(self) -> None:
        self.broker.work()
        self.broker.stamp += 15.0
        self.broker.about["CurrentTimeMillis"] = self.broker.stamp * 1000
        self.broker.about["UptimeMillis"] = self.broker.stamp * 1000
        self.snapshot = await self.reader.poll(30)
        assert not {
            name: one.error
            for name, one in self.snapshot.collectors.items()
            if one.error
        }
        self.state, self.tables = assess(
            self.state, self.snapshot, Policy("b", sum_temporary=True)
        )

    def numbers(self, table: str) -> set[int]:
        """Of the things that are shown in a table of the snapshot."""
        found = getattr(self.snapshot, table)
        return (
            {NUMBER[table](row) for row in found.index}
            if table in NUMBER
            else set(found.index.keys.tolist())
        )


NUMBER: dict[str, Any] = {
    "consumers": lambda row: int(row.id),
    "producers": lambda row: int(row.id),
    "connections": lambda row: int(row.id[1:]),
}
TABLES = ("consumers", "producers", "connections", "queues")


async def play(
    seed: int, size: int, rows: int, most: int, polls: int, patch: pytest.MonkeyPatch
) -> None:
    """Each poll but the first is held to the truth; at the end nothing moves any more, and all is as it is."""
    broker = Moving(Random(seed), size, 0)  # noqa: S311 - repeatable
    watched = Watched.of(broker, rows, patch)
    await watched.poll()
    broker.most = most
    known: dict[str, set[int]] = {table: set() for table in TABLES}
    for _ in range(polls):
        there = set(broker.things)
        await watched.poll()
        lasting = there & set(broker.things)
        for table in TABLES:
            found = watched.numbers(table)
            assert known[table] & lasting <= found, (
                f"{table}: what is known and there stays"
            )
            known[table] = found
        check_totals(watched)
    broker.most = 0
    for _ in range(CALM):
        await watched.poll()
        if not watched.snapshot.observation.inconsistent:
            break
    for table in TABLES:
        assert watched.numbers(table) == set(broker.things), (
            f"{table}: what is gone goes"
        )
    check_totals(watched)
    assert not watched.snapshot.observation.inconsistent
    assert watched.tables["client"]["consumers"].sum() == len(broker.things)


def check_totals(watched: Watched) -> None:
    """What the broker has shown of each is counted once."""
    broker = watched.broker
    state = watched.state
    assert counted(state.consumers.totals, 0) == sum(broker.consumers_shown.values())
    assert counted(state.producers.totals, 0) == sum(broker.producers_shown.values())
    assert counted(state.queues.totals, 0) == sum(broker.queues_shown.values())


def counted(totals: Totals[Any], counter: int) -> float:
    """Over all series, those that have no row now included."""
    return float(totals.sum_of(counter).sum()) + sum(
        sums[counter] for sums in totals.dormant.values()
    )
