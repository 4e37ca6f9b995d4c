"""
The Snapshot: what one poll of one broker said, in columns. It knows no broker's wire names and no metric names.

Columns are float64, NaN = missing; counts are messages, sizes bytes, flags 0 or 1, times seconds of the **broker's**
clock since 1970 unless a name says otherwise. A column that the broker's version lacks is not there at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np

from penstock.table import Keys, Table


class BrokerKind(StrEnum):
    ARTEMIS = "artemis"
    OPENMQ = "openmq"


class Role(StrEnum):
    ACTIVE = "active"
    PASSIVE = "passive"


class QueueKind(StrEnum):
    """What a queue is there for; rules treat all but `user` and `subscription` apart."""

    USER = "user"
    DEAD_LETTER = "dead_letter"
    EXPIRY = "expiry"
    TEMPORARY = "temporary"
    SUBSCRIPTION = "subscription"
    INTERNAL = "internal"
    LINK = "link"
    RETROACTIVE = "retroactive"


class RingSource(StrEnum):
    """Where the ring size in force comes from; `ambiguous`: queue and address setting say the same number."""

    QUEUE = "queue"
    ADDRESS = "address"
    NONE = "none"
    AMBIGUOUS = "ambiguous"


class ResourceState(IntEnum):
    """How short of heap OpenMQ says it is; from yellow on it slows producers down, at red it refuses them."""

    GREEN = 0
    YELLOW = 1
    ORANGE = 2
    RED = 3


class AcknowledgeMode(IntEnum):
    """Of a consumer's session, in the numbers of JMS and OpenMQ."""

    TRANSACTED = 0
    AUTO = 1
    CLIENT = 2
    DUPS_OK = 3
    NONE = 32768


class TransactionState(IntEnum):
    """Of an OpenMQ transaction, in the broker's numbers; those not named here are passing ones."""

    STARTED = 1
    FAILED = 2
    INCOMPLETE = 3
    COMPLETE = 4
    PREPARED = 5


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker itself. Numbers are NaN when missing; memory is message memory."""

    kind: BrokerKind
    version: str
    product_version: str
    """The name in the vendor's product line, for instance `AMQ Broker 7.12`; empty when there is none."""
    node_id: str
    role: Role
    clock: float = np.nan
    """Broker's clock at the poll, seconds since 1970; NaN when it shows none."""
    uptime: float = np.nan
    """Seconds since the start of the broker's process; falls only with a restart."""
    connections: float = np.nan
    memory_used_bytes: float = np.nan
    memory_limit_bytes: float = np.nan
    disk_used_ratio: float = np.nan
    disk_limit_ratio: float = np.nan
    authentication_failures: float = np.nan
    unguarded: float = np.nan
    """1: the account may read messages, which an exporter must not; NaN until tried."""
    heap_used_bytes: float = np.nan
    heap_limit_bytes: float = np.nan
    resource_state: float = np.nan
    """A `ResourceState` (OpenMQ)."""


@dataclass(frozen=True, slots=True)
class AddressRow:
    """
    An address (OpenMQ: destination). Columns: memory_bytes, memory_used_ratio (of its limit), limit_percent
    (the broker's own figure, whatever limits), limit_bytes,
    limit_messages, messages_added, messages_unrouted, paging, pages, page_read_limit_bytes,
    page_read_limit_messages, paused, producers_paused (by an operator), internal, temporary.

    Artemis' settings of the queues on it: max_delivery_attempts (-1: for ever), non_destructive (what new queues are),
    makes_dead_letter_queues, makes_expiry_queues (on the addresses they are sent to, when the first comes),
    slow_consumer_rate (messages per second below which a consumer is slow, NaN = not watched), slow_consumer_kills
    (whether it is then cut off), slow_consumer_period (seconds between two looks).

    OpenMQ only: messages (the destination's own count), delivering (with a consumer and not acknowledged; a topic's
    message counts once however many have it), scheduled, uncommitted (sent in open transactions, not in messages),
    removed (left for whatever reason, in all), added_bytes, removed_bytes, message_limit_bytes (of one message, NaN =
    no limit), producers, max_producers (NaN = no limit), consumer_flow_limit (messages sent to a consumer ahead of
    its acknowledgements, NaN = no limit), topic, dead_letters (what is discarded goes to the dead message queue),
    exact (1: depths were read in this poll, 0: messages carried on from added and removed, delivering from the
    consumers, scheduled, uncommitted and bytes as last read).
    """

    name: str
    policy: str
    """What a full address does, in the words of `mq_address_info`; empty while unknown."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """
    A queue. Columns: messages (the broker's own count), delivering, scheduled, bytes, delivering_bytes, consumers,
    paused, added, acknowledged, expired, killed, acknowledge_attempts, ring_limit (messages, NaN = no limit),
    last_value, exclusive, grouped, max_consumers, consumers_before_dispatch, has_dead_letter_address,
    has_expiry_address (Artemis; NaN until read).

    OpenMQ only: removed (left for whatever reason), uncommitted (sent in open transactions, in neither of the other
    counts), exact (as of its address). There a topic's subscription is a queue: messages is its backlog with what is
    in delivery, removed what its consumers settled (redeliveries count again), last_acknowledgement when one did last
    (NaN = never, and on queues); it has no added and no bytes.
    """

    name: str
    address: str
    routing_type: str
    durable: bool
    temporary: bool
    filter: str
    kind: QueueKind
    ring_source: RingSource
    dead_letter_address: str
    expiry_address: str


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """
    A consumer. Columns: buffered (delivered, not yet acknowledged), buffered_bytes, delivered, acknowledged,
    awaiting_commit, last_delivery, last_acknowledgement (NaN = never), orphaned (Artemis: its session is gone; there
    while any consumer is).

    OpenMQ only: flow_paused (the broker waits for the client to ask for more), waiting (taken for this consumer, not
    yet sent), acknowledge_mode (an `AcknowledgeMode`), created. acknowledged is there what left its hands in any way.
    """

    id: str
    """The broker's own id of it, unique on the broker."""
    queue: str
    address: str
    client: str
    """Stable name of the client, the same after a reconnect."""
    session: str
    protocol: str
    user: str
    remote_host: str
    filter: str


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection. Columns: sessions, consumers, producers."""

    id: str
    client: str
    protocol: str
    user: str
    remote_host: str


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A producer. Columns: produced (messages), produced_bytes, created (OpenMQ only)."""

    id: str
    address: str
    client: str
    session: str


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """
    A transaction that is under way (OpenMQ). Columns: state (a `TransactionState`), messages (sent in it),
    acknowledgements (in it), created, distributed (an XA branch).
    """

    id: str
    client: str
    user: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A bridge, cluster peer, mirror or federation. Columns: up, pending (messages)."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Collector:
    """How one part of a poll went. `stamp`: agent's clock when its answer came; `error`: empty on success."""

    seconds: float
    stamp: float
    error: str = ""

    @property
    def success(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    One poll. A table that is None was not read (its collector failed, or the broker is passive); an empty one was.

    stamp: agent's clock at the broker's own answer, seconds since 1970.
    consumer_queue, consumer_connection: per consumer the key of its queue or connection, -1 where unknown.
    producer_connection, transaction_connection: the same per producer and per transaction; empty on Artemis.
    notes: what this broker cannot give and why, for the operator.
    """

    stamp: float
    broker: Broker | None
    addresses: Table[AddressRow] | None = None
    queues: Table[QueueRow] | None = None
    consumers: Table[ConsumerRow] | None = None
    connections: Table[ConnectionRow] | None = None
    producers: Table[ProducerRow] | None = None
    links: Table[LinkRow] | None = None
    transactions: Table[TransactionRow] | None = None
    consumer_queue: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumer_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    producer_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    transaction_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    collectors: Mapping[str, Collector] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
