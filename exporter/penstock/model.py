"""The Snapshot: the answers of one poll of one broker, in columns. It knows no broker's wire names and no metric names.

Columns are float64, NaN = missing; counts are messages, sizes bytes, flags 0 or 1, times seconds of the **broker's**
clock since 1970 unless a name says otherwise. Counts and sizes are below `core.table.EXACT`: what reads a broker leaves
out a larger one (`brokers.rows.Count`). A column that the broker's version lacks is not there at all.
`penstock.columns` declares those that a kind of rows can have; another name is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import ClassVar

import numpy as np

from penstock.columns.addresses import AddressColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.links import LinkColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.transactions import TransactionColumns
from penstock.core.table import Keys, Table

CLOCK_NOISE = 2.0
"""Seconds by which clock - uptime of one process may differ between two polls."""


@dataclass(frozen=True, slots=True)
class BrokerKind:
    """A kind of broker: what rules must know of it. How it is read is a `brokers.registry.Kind`.

    name: in the configuration, in labels and files. product: whose it is and what it is called.
    shows_sessions: consumers name their session; else all of a connection count as one.
    counted_flow: delivery stops at a number of messages, of a consumer and of a connection, and goes on at a lower one.
    lasting_queue_keys: a queue's key is the broker's own id, the same after a restart of the agent.
    counts_reloaded: what a broker loads when it starts or takes over counts as added.
    fates: queues count apart what was acknowledged, expired and killed; else `removed` counts all of it in one.
    """

    ARTEMIS: ClassVar["BrokerKind"]
    OPENMQ: ClassVar["BrokerKind"]
    CLASSIC: ClassVar["BrokerKind"]

    name: str
    product: str = ""
    shows_sessions: bool = True
    counted_flow: bool = False
    lasting_queue_keys: bool = True
    counts_reloaded: bool = False
    fates: bool = True

    def __str__(self) -> str:
        return self.name


BrokerKind.ARTEMIS = BrokerKind("artemis", "Apache Artemis", counts_reloaded=True)
BrokerKind.OPENMQ = BrokerKind(
    "openmq",
    "Eclipse OpenMQ",
    shows_sessions=False,
    counted_flow=True,
    lasting_queue_keys=False,
    fates=False,
)
BrokerKind.CLASSIC = BrokerKind(
    "classic", "Apache ActiveMQ Classic", lasting_queue_keys=False, fates=False
)
_KINDS = BrokerKind.ARTEMIS, BrokerKind.OPENMQ, BrokerKind.CLASSIC
BROKER_KINDS: dict[str, BrokerKind] = {kind.name: kind for kind in _KINDS}
"""By name. `penstock.brokers.registry` adds those of its kinds that are not here."""


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
    sessions_made: float = np.nan
    """Since its start."""
    unguarded: float = np.nan
    """1: the account may read messages, which an exporter must not; NaN until tried."""
    heap_used_bytes: float = np.nan
    heap_limit_bytes: float = np.nan
    resource_state: float = np.nan
    """A `ResourceState` (OpenMQ)."""
    object_name: str = ""
    """Of its management (Artemis)."""
    mirror_of: str = ""
    """Node id of the broker that mirrors its messages to this one (Artemis)."""


@dataclass(frozen=True, slots=True)
class AddressRow:
    """The texts of an address (OpenMQ: destination). `columns.addresses` declares its numbers."""

    COLUMNS: ClassVar = AddressColumns.measured()

    name: str
    policy: str
    """What a full address does, in the words of `mq_address_info`; empty while unknown."""
    page_full_policy: str = ""
    """What an address that pages does beyond its page limit: `drop` or `fail`; empty without such a limit (Artemis)."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """The texts and settings of a queue. `columns.queues` declares its numbers.

    purge_on_no_consumers, auto_delete: whether messages, or the queue with them, go with the last consumer (Artemis);
    None where that was not read.
    """

    COLUMNS: ClassVar = QueueColumns.measured()

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
    purge_on_no_consumers: bool | None = None
    auto_delete: bool | None = None


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """The texts of a consumer. `columns.consumers` declares its numbers."""

    COLUMNS: ClassVar = ConsumerColumns.measured()

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
    """The texts of a connection. `columns.connections` declares its numbers."""

    COLUMNS: ClassVar = ConnectionColumns.measured()

    id: str
    client: str
    protocol: str
    user: str
    remote_host: str


ANONYMOUS = "(anonymous)"
"""The address of producers that name one with each message."""


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """The texts of a producer. `columns.producers` declares its numbers."""

    COLUMNS: ClassVar = ProducerColumns.measured()

    id: str
    address: str
    client: str
    session: str


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """The texts of a transaction that is under way (OpenMQ), or prepared (Artemis).

    `columns.transactions` declares its numbers.
    """

    COLUMNS: ClassVar = TransactionColumns.measured()

    id: str
    """Artemis: the base64 text of the Xid."""
    client: str
    user: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """The texts of a bridge, cluster peer, mirror or federation. `columns.links` declares its numbers."""

    COLUMNS: ClassVar = LinkColumns.measured()

    name: str
    kind: str
    queue: str = ""
    """That it reads, where that is known."""
    target: str = ""
    """The address to which a bridge sends."""


@dataclass(frozen=True, slots=True)
class Collector:
    """How one part of a poll went. `stamp`: agent's clock when its answer came; `error`: empty on success. all_rows:
    the error is no more than values that are missing: every row is there, as it is now. left_out: how many values could
    not be read, or are none that can be.
    """

    seconds: float
    stamp: float
    error: str = ""
    all_rows: bool = False
    left_out: int = 0

    @property
    def success(self) -> bool:
        return not self.error

    @property
    def usable(self) -> bool:
        """Whether its rows can be judged: a value that could not be read is missing to the rules, and no more."""
        return self.success or self.all_rows


@dataclass(frozen=True, slots=True)
class Process:
    """Which start of which broker answers; what an earlier one said may be about other things. who: whatever differs
    between two brokers at one address. clock, uptime: the broker's, seconds; NaN = not shown. session: where it is
    another one, so is the process; empty = not shown.
    """

    who: str = ""
    clock: float = np.nan
    uptime: float = np.nan
    session: str = ""

    @classmethod
    def of(cls, broker: Broker) -> "Process":
        """As far as the broker's own numbers show: for polls that no engine made."""
        return cls(clock=broker.clock, uptime=broker.uptime)

    def same_start(self, before: "Process", noise: float = CLOCK_NOISE) -> bool:
        """By clock - uptime: uptime alone also falls when the clock is set back, and not after a long gap."""
        moved = abs((self.clock - self.uptime) - (before.clock - before.uptime))
        return (
            not self.uptime < before.uptime if np.isnan(moved) else bool(moved <= noise)
        )

    def follows(self, before: "Process", noise: float = CLOCK_NOISE) -> bool:
        """Whether this is the process of the poll before. noise: seconds by which a start may seem to move."""
        renewed = self.session and before.session and self.session != before.session
        return self.who == before.who and not renewed and self.same_start(before, noise)

    @property
    def seen(self) -> bool:
        """Whether it says anything; NaN out of a file is no equal of NaN."""
        return bool(self.who or self.session) or not (
            np.isnan(self.clock) and np.isnan(self.uptime)
        )

    def replaces(self, before: "Process") -> bool:
        """Whether another process was there before: counters and ids start again. Not where none was seen."""
        return before.seen and not self.follows(before)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a budget leaves out: `count` of `of` things, or series; `what` is also the budget's name."""

    what: str
    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count:,} of {self.of:,} {self.what} (budgets.{self.what})"


@dataclass(frozen=True, slots=True)
class Takeover:
    """From the other broker of a pair. time: of the first poll at which this one was active. messages: in its queues
    then, NaN where they were not read. alone: the other one cannot be reached.
    """

    broker: str
    time: float
    messages: float
    alone: bool

    @property
    def text(self) -> str:
        reloaded = (
            ""
            if np.isnan(self.messages)
            else f"; {self.messages:,.0f} messages reloaded"
        )
        return f"took over from {self.broker}; counters begin again{reloaded}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What one poll is of, set once, by the poll engine.

    process: which start of which broker answered. Code that keeps something of a broker keeps its process, and
    asks `Process.replaces` at the next poll: that may be of another reader, or of another agent.
    rivals: other brokers of this agent that are active with the same node id at the same time; set by the agent.
    takeover: where another one served its node id before; set by the agent too.
    inconsistent: for information: the tables that were read in pages between which rows moved. What was there before
    and no page showed stays with its last numbers until it is proven gone; what had just come may be missing until
    the next poll.
    left_out: what is beyond the budgets of the broker. late: by table, keys of rows that were out of view until this
    poll: what their counters say came before it; at the agent's first poll all keys of a table that was cut before.
    """

    process: Process = field(default_factory=Process)
    rivals: tuple[str, ...] = ()
    takeover: Takeover | None = None
    inconsistent: frozenset[str] = frozenset()
    left_out: tuple[LeftOut, ...] = ()
    late: Mapping[str, Keys] = field(default_factory=dict)


READ_WITH: Mapping[str, str] = {"addresses": "queues", "producers": "connections"}
"""By part the one that it is read with, on the kinds of brokers on which no collector of its own reads it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One poll. A table that is None was not read (its collector failed, or the broker is passive); an empty one was.

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
    diverts: tuple[tuple[str, str], ...] = ()
    """Source and target of each, by their addresses."""
    transactions: Table[TransactionRow] | None = None
    consumer_queue: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumer_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    producer_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    transaction_connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    collectors: Mapping[str, Collector] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    read: Mapping[str, float] = field(default_factory=dict)
    """By part of the poll the agent's clock when it was last read; of a snapshot that was kept: when that was."""
    observation: Observation = field(default_factory=Observation)

    def read_at(self, part: str) -> float:
        """The agent's clock when this part was last read; NaN where it never was."""
        if getattr(self, part) is None:
            return np.nan
        for collector in (part, READ_WITH.get(part, part)):
            if collector in self.read:
                return self.read[collector]
            if collector in self.collectors:
                return (
                    self.collectors[collector].stamp
                    if self.collectors[collector].usable
                    else np.nan
                )
        # Made without a poll engine: what is there was read.
        return np.nan if self.read else self.stamp
