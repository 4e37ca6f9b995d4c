"""A kind of broker of its own, whole: requests, answers, mapping, order of calls. JSON over HTTP."""

from collections.abc import Sequence

import msgspec
import numpy as np

from penstock import model
from penstock.brokers.cadence import Aged, read_each
from penstock.brokers.engine import BrokerReader, Poll, unreadable
from penstock.brokers.registry import RegisteredKind
from penstock.brokers.replies import Decoder, Replies, Reply
from penstock.brokers.rows import RowT, columns, integers, present
from penstock.brokers.tables import TableBuilder
from penstock.core.table import Table
from penstock.transports.transport import Hint, Request

ABOUT = model.BrokerKind("toy", "Toy Broker", shows_sessions=False)


class About(msgspec.Struct):
    node: str
    version: str
    clock: float
    uptime: float


class Queue(msgspec.Struct):
    id: int
    name: str
    messages: float = np.nan
    delivering: float = np.nan
    consumers: float = np.nan
    added: float = np.nan
    acknowledged: float = np.nan


class Consumer(msgspec.Struct):
    id: int
    queue: int
    connection: int
    client: str
    buffered: float = np.nan
    delivered: float = np.nan
    acknowledged: float = np.nan


class Connection(msgspec.Struct):
    id: int
    client: str


class Settings(msgspec.Struct):
    limit: float = np.nan


ABOUTS = Decoder(About)
QUEUES = Decoder(Queue)
CONSUMERS = Decoder(Consumer)
CONNECTIONS = Decoder(Connection)
SETTINGS = Decoder(Settings)
QUEUE_NUMBERS = ("messages", "delivering", "consumers", "added", "acknowledged")
CONSUMER_NUMBERS = ("buffered", "delivered", "acknowledged")


def ask(what: str, name: str = "") -> Request:
    return {"type": "read", "what": what, "name": name}


class ToyReader(BrokerReader[Reply]):
    replies = Replies(Reply, "The toy: /toy")

    def forget(self) -> None:
        self._addresses: TableBuilder[model.AddressRow] = TableBuilder()
        self._queues: TableBuilder[model.QueueRow] = TableBuilder()
        self._consumers: TableBuilder[model.ConsumerRow] = TableBuilder()
        self._connections: TableBuilder[model.ConnectionRow] = TableBuilder()
        self._settings: Aged[str, Settings] = Aged()

    async def read(self, poll: Poll[Reply]) -> model.Snapshot:
        (reply,) = await poll.begin([ask("about")])
        about = ABOUTS.one(reply, "about")
        self.begins(model.Process(about.node, about.clock, about.uptime))
        linked = await poll.collect(
            "connections", self._listed(poll, "connections", CONNECTIONS)
        )
        rows = await poll.collect(
            "consumers", self._listed(poll, "consumers", CONSUMERS)
        )
        queues = await poll.collect(
            "queues", self._listed(poll, "queues", QUEUES)
        )  # its counters last
        if queues is not None:
            await poll.collect("settings", self._read_settings(poll, queues))
        consumers = (
            None
            if rows is None
            else self._consumer_table(rows, {q.id: q.name for q in queues or ()})
        )
        return model.Snapshot(
            poll.now,
            model.Broker(
                ABOUT,
                about.version,
                "",
                about.node,
                model.Role.ACTIVE,
                about.clock,
                about.uptime,
            ),
            addresses=None if queues is None else self._address_table(queues),
            queues=None if queues is None else self._queue_table(queues),
            consumers=consumers,
            connections=None if linked is None else self._connection_table(linked),
            consumer_queue=integers(rows or (), "queue"),
            consumer_connection=integers(rows or (), "connection"),
            collectors=poll.collectors,
        )

    async def _listed(
        self, poll: Poll[Reply], what: str, rows: Decoder[RowT]
    ) -> tuple[list[RowT], str]:
        (reply,) = await poll.ask([ask(what)])
        found = await poll.work(rows.listed, reply, what)
        return found.rows, unreadable([found])

    async def _read_settings(
        self, poll: Poll[Reply], queues: Sequence[Queue]
    ) -> tuple[None, str]:
        due = self._settings.due([row.name for row in queues], poll.now)
        found = await poll.ask([ask("settings", name) for name in due]) if due else []
        read, error = read_each(
            due, found, lambda reply, name: SETTINGS.one(reply, f"settings of {name}")
        )
        self._settings.note(due, read, poll.now)
        return None, error

    def _address_table(self, rows: Sequence[Queue]) -> Table[model.AddressRow]:
        make = [model.AddressRow(row.name, "") for row in rows]
        limits = [self._settings.values.get(row.name, Settings()).limit for row in rows]
        return self._addresses(
            integers(rows, "id"), make.__getitem__, {"limit_messages": np.array(limits)}
        )[0]

    def _connection_table(
        self, rows: Sequence[Connection]
    ) -> Table[model.ConnectionRow]:
        make = [
            model.ConnectionRow(str(row.id), row.client, "TOY", "", "") for row in rows
        ]
        return self._connections(integers(rows, "id"), make.__getitem__, {})[0]

    def _queue_table(self, rows: Sequence[Queue]) -> Table[model.QueueRow]:
        kind = model.QueueKind.USER
        ring = model.RingSource.NONE
        make = [
            model.QueueRow(
                r.name, r.name, "ANYCAST", True, False, "", kind, ring, "", ""
            )
            for r in rows
        ]
        return self._queues(
            integers(rows, "id"),
            make.__getitem__,
            present(columns(rows, *QUEUE_NUMBERS)),
        )[0]

    def _consumer_table(
        self, rows: Sequence[Consumer], queues: dict[int, str]
    ) -> Table[model.ConsumerRow]:
        names = [queues.get(row.queue, "") for row in rows]
        make = [
            model.ConsumerRow(str(r.id), n, n, r.client, "", "TOY", "", "", "")
            for r, n in zip(rows, names, strict=True)
        ]
        return self._consumers(
            integers(rows, "id"),
            make.__getitem__,
            present(columns(rows, *CONSUMER_NUMBERS)),
        )[0]


KIND = RegisteredKind(
    about=ABOUT, reader=ToyReader, hint=Hint(path="the toy serves it at /toy")
)
