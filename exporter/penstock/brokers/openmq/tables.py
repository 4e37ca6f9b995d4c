"""Answers → tables of the model. Each builder keeps the index of its kind from poll to poll.

A queue destination is an address and its queue; a topic is an address, each of its subscriptions a queue of it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import numpy as np

from penstock import model
from penstock.brokers.clients import NameMap, client_name
from penstock.brokers.destinations import DestinationNames
from penstock.brokers.openmq.answers import (
    Connection,
    Consumer,
    Destination,
    Producer,
    Settings,
    Transaction,
    sent_at,
)
from penstock.brokers.openmq.depths import Carried, Name
from penstock.brokers.rows import columns, integers, matrix, positive, present, seconds
from penstock.brokers.tables import TableBuilder, subscription_row
from penstock.core.table import SLACK, Column, KeyAllocator, Keys, Matrix, RowT, Table
from penstock.model import AddressRow, ConsumerRow, QueueKind, QueueRow, RingSource

DEAD_MESSAGES = "mq.sys.dmq"
ADMIN = "admin"
"""The service through which the broker's own bridges and its administrators connect."""
SHARED = "(shared)"
"""Queue of a member whose subscription the broker does not show: several shared ones of a topic without a name."""
CONSUMERS_PAUSED = 1
PRODUCERS_PAUSED = 2
BOTH_PAUSED = 3


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a subscription, the connection that listed it, and the subscription where that is known."""

    row: Consumer
    connection: Connection | None
    subscription: Consumer | None


@dataclass(frozen=True, slots=True)
class Listing:
    """All consumers of one poll: those on their own, the subscriptions, and their members. A subscription whose members
    could not be listed is among `single` too, in their place.
    """

    single: Sequence[Consumer] = ()
    subscriptions: Sequence[Consumer] = ()
    members: Sequence[Member] = ()


def subscription_of(
    member: Consumer, connection: Connection | None, rows: Sequence[Consumer]
) -> Consumer | None:
    """Whose member this is: by destination and name, then by client id; None where several would fit."""
    fitting = [
        row
        for row in rows
        if row.destination_name == member.destination_name
        and bool(row.durable) == bool(member.durable)
        and row.durable_name == member.durable_name
        and row.is_active
    ]
    if len(fitting) > 1 and connection is not None:
        fitting = [
            row for row in fitting if row.client_id == connection.client_id
        ] or fitting
    return fitting[0] if len(fitting) == 1 else None


def subscription_name(row: Consumer) -> str:
    """Client id and name as Artemis writes them, so that both brokers read alike; without a name its id."""
    if not row.durable_name:
        return str(row.consumer_id)
    return f"{row.client_id}.{row.durable_name}" if row.client_id else row.durable_name


class ConsumerBuilder:
    """Consumers → the consumer table, and what joins it to queues and connections."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._table: TableBuilder[ConsumerRow] = TableBuilder()
        self._called = DestinationNames()

    def table(
        self, listing: Listing, called: DestinationNames, queues: KeyAllocator[str]
    ) -> tuple[Table[ConsumerRow], Keys, Keys]:
        """The table, and per consumer the keys of its queue and its connection, -1 where unknown."""
        rows = [*listing.single, *(member.row for member in listing.members)]
        of: list[tuple[Connection | None, Consumer | None]] = [
            *(
                (None, None if row.destination_type == "q" else row)
                for row in listing.single
            ),
            *((member.connection, member.subscription) for member in listing.members),
        ]
        keys = integers(rows, "consumer_id")
        changed = keys if called.both != self._called.both else None
        self._called = called
        said = columns(
            rows,
            "buffered",
            "delivered",
            "waiting",
            "last_acknowledgement",
            *_AS_THEY_ARE,
            "created",
        )
        sent = unwrapped(said["delivered"])
        pending = said["buffered"]
        said |= {
            name: seconds(said[name]) for name in ("last_acknowledgement", "created")
        }
        waiting = np.maximum(said["waiting"] - pending, 0.0)
        said |= {
            "delivered": sent,
            "acknowledged": np.maximum(sent - pending, 0.0),
            "waiting": waiting,
        }
        table, order = self._table(
            keys, lambda i: self._row(rows[i], *of[i], called), said, changed
        )
        queue = queues.find(
            [
                queue_key(row, subscription)
                for row, (_, subscription) in zip(rows, of, strict=True)
            ]
        )
        connection = [
            (via or row).connection_id or -1
            for row, (via, _) in zip(rows, of, strict=True)
        ]
        return table, queue[order], np.array(connection, np.int64)[order]

    def _row(
        self,
        row: Consumer,
        via: Connection | None,
        subscription: Consumer | None,
        called: DestinationNames,
    ) -> ConsumerRow:
        origin = via or row
        host = origin.host or ""
        user = origin.user or ""
        service = origin.service_name or ""
        client_id = origin.client_id or (subscription.client_id if subscription else "")
        address = called.address(row.destination_type, row.destination_name)
        of_topic = subscription_name(subscription) if subscription else SHARED
        return ConsumerRow(
            id=str(row.consumer_id),
            queue=intern(address if row.destination_type == "q" else of_topic),
            address=intern(address),
            client=intern(client_name(client_id, user, host, service, self._names)),
            session="",
            protocol=intern(service),
            user=intern(user),
            remote_host=intern(host),
            filter=row.selector or "",
        )


def queue_key(row: Consumer, subscription: Consumer | None) -> str:
    """The text by which the key of a consumer's queue is found."""
    if row.destination_type == "q":
        return f"q {row.destination_name}"
    return f"s {subscription.consumer_id}" if subscription else ""


class ConnectionBuilder:
    """Connections, producers and transactions → their tables."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._connections: TableBuilder[model.ConnectionRow] = TableBuilder()
        self._producers: TableBuilder[model.ProducerRow] = TableBuilder()
        self._transactions: TableBuilder[model.TransactionRow] = TableBuilder()
        self._called = DestinationNames()

    def table(self, rows: Sequence[Connection]) -> Table[model.ConnectionRow]:
        said = columns(rows, "consumers", "producers")
        return self._connections(
            integers(rows, "connection_id"), lambda i: self._connection(rows[i]), said
        )[0]

    def producers(
        self,
        rows: Sequence[Producer],
        by_id: Mapping[int, Connection],
        called: DestinationNames,
    ) -> tuple[Table[model.ProducerRow], Keys]:
        """The table, and per producer the key of its connection, -1 where unknown."""
        keys = integers(rows, "producer_id")
        of = np.fromiter((row.connection_id or -1 for row in rows), np.int64, len(rows))
        produced, created = matrix(rows, ("produced", "created"))
        said = {"produced": unwrapped(produced), "created": seconds(created)}
        changed = keys if called.both != self._called.both else None
        self._called = called
        made, order = self._producers(
            keys,
            lambda i: self._producer(rows[i], by_id.get(int(of[i])), called),
            said,
            changed,
        )
        return made, of[order]

    def transactions(
        self, rows: Sequence[Transaction], by_end: Mapping[tuple[str, int], Connection]
    ) -> tuple[Table[model.TransactionRow], Keys]:
        """The table, and per transaction the key of its connection; by_end: connections by the client's host, port."""
        of = [by_end.get(row.remote or ("", 0)) for row in rows]
        said = columns(rows, "state", "messages", "acknowledgements", "created")
        said["created"] = seconds(said["created"])
        said["distributed"] = np.array([bool(row.xid) for row in rows], np.float64)
        keys = integers(rows, "transaction_id")
        made, order = self._transactions(
            keys, lambda i: self._transaction(rows[i], of[i]), said
        )
        connection = np.fromiter(
            (one.connection_id if one else -1 for one in of), np.int64, len(rows)
        )
        return made, connection[order]

    def _connection(self, row: Connection) -> model.ConnectionRow:
        user = row.user or ""
        host = row.host or ""
        service = row.service_name or ""
        client = client_name(row.client_id, user, host, service, self._names)
        return model.ConnectionRow(
            str(row.connection_id),
            intern(client),
            intern(service),
            intern(user),
            intern(host),
        )

    def _producer(
        self, row: Producer, via: Connection | None, called: DestinationNames
    ) -> model.ProducerRow:
        address = intern(called.address(row.destination_type, row.destination_name))
        client = client_name(
            via.client_id if via else "",
            row.user,
            row.host,
            row.service_name,
            self._names,
        )
        return model.ProducerRow(str(row.producer_id), address, intern(client), "")

    def _transaction(
        self, row: Transaction, via: Connection | None
    ) -> model.TransactionRow:
        host = row.remote[0] if row.remote else ""
        client_id = row.client_id or (via.client_id if via else "")
        client = client_name(
            client_id, row.user, host, via.service_name if via else "", self._names
        )
        return model.TransactionRow(
            str(row.transaction_id), intern(client), row.user or ""
        )


@dataclass(slots=True)
class Destinations:
    """Destinations and subscriptions → the tables of addresses and queues."""

    queue_keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    """Keys of queues, by `q NAME` and `s CONSUMER-ID`."""
    _addresses: TableBuilder[AddressRow] = field(default_factory=TableBuilder)
    _address_keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    _queues: TableBuilder[QueueRow] = field(default_factory=TableBuilder)
    _made: dict[tuple[object, ...], Any] = field(default_factory=dict)
    """Rows by what they are made of: nearly all of them are those of the poll before."""

    def tables(
        self,
        rows: Sequence[Destination],
        depths: Sequence[Carried],
        settings: Mapping[Name, Settings],
        settings_read: Mapping[Name, float],
        called: DestinationNames,
        listing: Listing,
        single: Sequence[Consumer] | None,
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """Addresses, and queue destinations with subscriptions. single: consumers on their own; None: not read.
        settings_read: the clock when each one's settings were read.
        """
        said = [settings.get(row.key) for row in rows]
        found = destination_columns(rows, depths, said, held(rows, depths, single))
        found["settings_stamp"] = np.array(
            [settings_read.get(row.key, np.nan) for row in rows], np.float64
        )
        addresses: list[AddressRow] = [
            self._once(
                AddressRow,
                called.address(row.type, row.name),
                one.limit_behavior.lower() if one else "",
            )
            for row, one in zip(rows, said, strict=True)
        ]
        at = [i for i, row in enumerate(rows) if row.type == "q"]
        subscriptions = [
            *listing.subscriptions,
            *(
                row
                for row in listing.single
                if row.destination_type != "q" and not row.is_subscription
            ),
        ]
        queues: list[QueueRow] = [
            self._once(_queue, rows[i].name, rows[i].temporary is True, said[i])
            for i in at
        ]
        for row in subscriptions:
            address = called.address("t", row.destination_name)
            name = subscription_name(row)
            durable = bool(row.durable)
            selector = row.selector or ""
            queues.append(
                self._once(subscription_row, name, address, durable, selector)
            )
        if len(self._made) > 4 * (len(rows) + len(queues)) + SLACK:
            self._made.clear()
        of_queues = {name: found[name][at] for name in _OF_BOTH} | {
            "bytes": found["memory_bytes"][at],
            "added": found["messages_added"][at],
            "scheduled": np.nan_to_num(found["scheduled"][at]),
            "last_acknowledgement": np.full(len(at), np.nan),
            "next_sent": next_sent([rows[i] for i in at]),
            "active_consumers": columns([rows[i] for i in at], "num_active_consumers")[
                "num_active_consumers"
            ],
        }
        behind = subscription_columns(subscriptions, listing)
        nothing = np.full(len(subscriptions), np.nan)
        joined = {
            name: np.concatenate([column, behind.get(name, nothing)])
            for name, column in of_queues.items()
        }
        keys = self._address_keys([f"{row.type} {row.name}" for row in rows])
        of = self.queue_keys(
            [f"q {rows[i].name}" for i in at]
            + [f"s {row.consumer_id}" for row in subscriptions]
        )
        return (
            self._addresses.of_made(keys, addresses, present(found))[0],
            self._queues.of_made(of, queues, present(joined))[0],
        )

    def _once(self, make: Callable[..., RowT], *texts: object) -> RowT:
        """What `make` makes of `texts`, made once."""
        key = make, *texts
        row: RowT | None = self._made.get(key)
        if row is None:
            row = self._made[key] = make(*texts)
        return row


_AS_THEY_ARE = ("flow_paused", "acknowledge_mode")
_LIMITS = (
    "limit_messages",
    "limit_bytes",
    "message_limit_bytes",
    "consumer_flow_limit",
    "max_producers",
)
_COUNTED = (
    "messages_added",
    "removed",
    "added_bytes",
    "removed_bytes",
    "producers",
    "consumers",
    "temporary",
)
_OF_BOTH = (
    "messages",
    "delivering",
    "uncommitted",
    "exact",
    "paused",
    "removed",
    "consumers",
)
"""Columns of a queue, as of its destination."""


def held(
    rows: Sequence[Destination],
    depths: Sequence[Carried],
    consumers: Sequence[Consumer] | None,
) -> dict[str, Column]:
    """delivering: buffered by consumers; scheduled: not due, and committed. NaN where unknown.

    As the broker reports where it was read in this poll, else what the consumers of a queue hold together; consumers:
    None = not read. An uncommitted message with a delay is in both of the broker's numbers and once in their sum: how
    many there are is what makes the rest fit best to what the consumers hold.
    """
    by_queue: dict[str, float] = {}
    for row in consumers or ():
        if row.destination_type == "q" and row.destination_name:
            by_queue[row.destination_name] = (
                by_queue.get(row.destination_name, 0.0) + row.buffered
            )

    def one(row: Destination, depth: Carried) -> tuple[float, float]:
        # Versions before 5 know no delayed delivery: there is none of it in the sum.
        delayed = depth.scheduled if depth.scheduled > 0 else 0.0
        held = by_queue.get(row.name, 0.0)
        if not depth.exact and row.type == "q" and consumers is not None:
            return held, depth.scheduled
        least = depth.pending - delayed - depth.uncommitted
        if np.isnan(least):
            return np.nan, depth.scheduled
        in_both = (
            min(max(held, 0.0) - least, delayed, depth.uncommitted)
            if least < held
            else 0.0
        )
        return max(least + in_both, 0.0), depth.scheduled - in_both

    found = np.array(
        [one(row, depth) for row, depth in zip(rows, depths, strict=True)], np.float64
    ).reshape(-1, 2)
    return {"delivering": found[:, 0], "scheduled": found[:, 1]}


def destination_columns(
    rows: Sequence[Destination],
    depths: Sequence[Carried],
    said: Sequence[Settings | None],
    held: Mapping[str, Column],
) -> dict[str, Column]:
    # The broker returns -1 where there is no limit, for some 0.
    limits = {
        name: positive([np.nan if one is None else getattr(one, name) for one in said])
        for name in _LIMITS
    }
    depth = columns(depths, "bytes", "messages", "uncommitted", "exact")
    used = depth.pop("bytes")
    return {
        "memory_bytes": used,
        "memory_used_ratio": used / limits["limit_bytes"],
        **limits,
        **depth,
        **held,
        "dead_letters": np.array(
            [np.nan if one is None else float(one.dead_letters) for one in said],
            np.float64,
        ),
        "topic": np.array([float(row.type == "t") for row in rows], np.float64),
        "internal": np.array(
            [float(row.name.startswith("mq.")) for row in rows], np.float64
        ),
        **_states(rows),
        **columns(rows, *_COUNTED),
    }


def subscription_columns(
    rows: Sequence[Consumer], listing: Listing
) -> dict[str, Column]:
    """Numbers of topic subscriptions: those of a shared or durable one come with its row, as a consumer's do."""
    members = Counter(
        one.subscription.consumer_id
        for one in listing.members
        if one.subscription is not None
    )
    members |= Counter(row.consumer_id for row in listing.single)
    sent, pending, taken, settled = matrix(
        rows, ("delivered", "buffered", "waiting", "last_acknowledgement")
    )
    # A subscription's backlog holds what is in delivery; so does a consumer's.
    return {
        "messages": np.maximum(taken, pending),
        "delivering": pending,
        "scheduled": np.zeros(len(rows)),
        "removed": np.maximum(unwrapped(sent) - pending, 0.0),
        "consumers": np.array(
            [float(members[row.consumer_id]) for row in rows], np.float64
        ),
        "exact": np.ones(len(rows)),
        "last_acknowledgement": seconds(settled),
        "next_sent": next_sent(rows),
    }


def next_sent(rows: Sequence[Destination] | Sequence[Consumer]) -> Column:
    return seconds(np.array([sent_at(row.next_message_id) for row in rows], np.float64))


def _queue(name: str, temporary: bool, said: Settings | None) -> QueueRow:
    if name == DEAD_MESSAGES:
        kind = QueueKind.DEAD_LETTER
    elif name.startswith("mq."):
        kind = QueueKind.INTERNAL
    else:
        kind = QueueKind.TEMPORARY if temporary else QueueKind.USER
    dead = (
        DEAD_MESSAGES
        if said and said.dead_letters is True and kind is not QueueKind.DEAD_LETTER
        else ""
    )
    return QueueRow(
        name,
        name,
        "anycast",
        not temporary,
        temporary,
        "",
        kind,
        RingSource.NONE,
        dead,
        dead,
    )


def unwrapped(counter: Column) -> Column:
    """The broker counts per consumer and producer in 32 bits with a sign."""
    return np.where(counter < 0, counter + 2.0**32, counter)


def _states(rows: Sequence[Destination]) -> dict[str, Column]:
    (state,) = matrix(rows, ("state",))

    def one_of(*states: int) -> Matrix:
        return np.where(np.isnan(state), np.nan, np.isin(state, states))

    return {
        "paused": one_of(CONSUMERS_PAUSED, BOTH_PAUSED),
        "producers_paused": one_of(PRODUCERS_PAUSED, BOTH_PAUSED),
    }
