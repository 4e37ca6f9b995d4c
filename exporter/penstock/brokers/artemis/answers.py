"""Jolokia's answers, typed. Numbers come as strings or numbers, listings as a JSON text inside JSON.

Fields have the model's names. What is read by its attributes is asked for all fields of its type, in their order.

A value that is none of its kind (`"ERROR: …"`, an error object, a count of -1) is missing, never 0; `Rows` counts them.
"""

from functools import lru_cache
from typing import Any, ClassVar, cast

import msgspec

from penstock.brokers import replies as shared
from penstock.brokers.rows import (
    NAN,
    UNREADABLE,
    WIRE_TYPES,
    Count,
    Flag,
    Int64,
    Millis,
    Ratio,
    RowByRow,
    RowT,
    Setting,
    Text,
    Unread,
    named,
)
from penstock.columns.addresses import AddressColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame
from penstock.core.errors import BadAnswer

BY_CERTIFICATE = "a certificate's user and role are those of etc/cert-users.properties and cert-roles.properties"


def _remedy(response: shared.Response) -> str:
    if "rigin" in (response.error or ""):
        return "set `origin` to http://HOST as etc/jolokia-access.xml allows it"
    return f"the role needs list*, get* and is* in etc/management.xml; {BY_CERTIFICATE}"


class Reply(shared.Reply):
    remedy = _remedy


class TextReply(shared.Response):
    """The value of a list operation, unquoted while the answer is read: by far the largest of all."""

    value: str | None = None

    remedy = _remedy

    @property
    def vanished_meanwhile(self) -> bool:
        """A listing that broke because a session or queue went away while it ran; worth asking again at once."""
        failure = f"{self.error_type} {self.error}"
        # The second: rows whose session is gone compare as equal to all others, which ends a sort; Jolokia says 400.
        return (
            self.status == 500 and "NullPointer" in failure
        ) or "Comparison method violates" in failure


_PATH = "Artemis: /console/jolokia/"
replies = shared.Replies(Reply, _PATH)
text_replies = shared.Replies(TextReply, _PATH)
"""Reads the answers to list operations."""


def readable(reply: Reply) -> bool:
    """Whether the one attribute of a read could be read: a refusal comes as a text or an object in its place."""
    if reply.status != 200:
        return False
    try:
        value = msgspec.json.decode(reply.value)
    except UNREADABLE:
        return False
    return isinstance(value, dict) and all(
        one is None or isinstance(one, int | float) for one in value.values()
    )


def with_numbers(row: type[RowT], frame: type[Frame[Any]], listing: str) -> type[RowT]:
    """The type of the rows of a listing: the fields of `row`, and the declared numbers.

    Args:
        row: What is read of a row beside its numbers.
        frame: Declares the columns, and where the broker shows them.
        listing: The operation whose answer has the rows.
    """
    specs = frame.specs()
    numbers: list[tuple[str, type, Any]] = []
    for column, attribute in frame.from_request(listing).items():
        kind = specs[column].kind
        numbers.append((column, WIRE_TYPES[kind], named(attribute)))
    made = msgspec.defstruct(
        row.__name__, numbers, bases=(row,), module=__name__, gc=False
    )
    return cast("type[RowT]", made)


class BrokerAttributes(msgspec.Struct, rename="pascal"):
    version: Text = ""
    name: Text = ""
    node_id: Text = named("NodeID", "")
    started: bool = False
    active: bool = False
    backup: bool = False
    uptime_millis: Millis = NAN
    current_time_millis: Millis = NAN
    connection_count: Count = NAN
    address_memory_usage: Count = NAN
    global_max_size: Setting = NAN
    disk_store_usage: Ratio = NAN
    max_disk_usage: Setting = NAN
    authentication_failure_count: Count = NAN
    total_session_count: Count = NAN


class BridgeAttributes(msgspec.Struct, rename="pascal"):
    started: bool = False
    connected: bool | None = None
    queue_name: Text = ""
    forwarding_address: Text | None = None


class DivertAttributes(msgspec.Struct, rename="pascal"):
    address: Text = ""
    forwarding_address: Text = ""


class ListedConsumer(msgspec.Struct, rename="camel", gc=False):
    """A row of listConsumers without its numbers."""

    id: Int64
    status: str = ""


ConsumerNumbers = with_numbers(ListedConsumer, ConsumerColumns, "listConsumers")
"""A row of listConsumers."""


class ConsumerTexts(msgspec.Struct, rename="camel", gc=False):
    id: Int64
    session: str = ""
    client_id: str = named("clientID", "")
    user: str = ""
    validated_user: str = ""
    protocol: str = ""
    queue: str = ""
    address: str = ""
    filter: str = ""
    remote_address: str = ""


class ListedQueue(msgspec.Struct, rename="camel", gc=False):
    """A row of listQueues without its numbers."""

    id: Int64


QueueNumbers = with_numbers(ListedQueue, QueueColumns, "listQueues")
"""A row of listQueues."""


class QueueTexts(msgspec.Struct, rename="camel", gc=False):
    id: Int64
    name: str
    address: str = ""
    filter: str = ""
    routing_type: str = ""
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    internal_queue: bool = False
    ring_limit: Int64 = named("ringSize", -1)
    purge_on_no_consumers: bool | None = None
    auto_delete: bool | None = None


class QueueAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same in place of listQueues when that fails or waits for a lock; without `Paused`, which would wait too."""

    id: Int64 = msgspec.field(name="ID")
    name: str
    address: str = ""
    routing_type: str = ""
    durable: bool = True
    temporary: bool = False
    internal_queue: bool = False
    exclusive: Flag = NAN
    last_value: Flag = NAN
    filter: str | None = ""
    ring_limit: Int64 = named("RingSize", -1)
    max_consumers: Setting = NAN
    consumers_before_dispatch: Setting = NAN
    grouped: Flag = named("GroupRebalance")
    messages: Count = named("MessageCount")
    added: Count = named("MessagesAdded")
    acknowledged: Count = named("MessagesAcknowledged")
    expired: Count = named("MessagesExpired")
    killed: Count = named("MessagesKilled")
    delivering: Count = named("DeliveringCount")
    scheduled: Count = named("ScheduledCount")
    consumers: Count = named("ConsumerCount")
    auto_created: ClassVar[bool] = False
    purge_on_no_consumers: ClassVar[bool | None] = None
    auto_delete: ClassVar[bool | None] = None


class QueueSizes(msgspec.Struct, rename="pascal", gc=False):
    acknowledge_attempts: Count = NAN
    bytes: Count = named("PersistentSize")
    delivering_bytes: Count = named("DeliveringSize")


class QueueInDoubt(msgspec.Struct, rename="pascal", gc=False):
    prepared_transaction_message_count: Count = NAN


class QueueGroups(msgspec.Struct, rename="pascal", gc=False):
    group_count: Count = NAN


class QueueDeadLetters(msgspec.Struct, rename="pascal", gc=False):
    dead_letter_address: str | None = None
    expiry_address: str | None = None


class ListedAddress(msgspec.Struct, rename="camel", gc=False):
    """A row of listAddresses without its numbers."""

    name: str
    retroactive: bool = named("retroactiveResource", default=False)
    temporary: bool = False


AddressNumbers = with_numbers(ListedAddress, AddressColumns, "listAddresses")
"""A row of listAddresses, from 2.41 on."""


class AddressAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same for older versions, and while listAddresses waits for a lock."""

    address: str
    paused: Flag = NAN
    paging: Flag = NAN
    memory_bytes: Count = named("AddressSize")
    limit_percent: Count = named("AddressLimitPercent")
    pages: Count = named("NumberOfPages")
    messages_added: Count = named("RoutedMessageCount")
    messages_unrouted: Count = named("UnRoutedMessageCount")
    page_read_limit_bytes: Setting = named("MaxPageReadBytes")
    page_read_limit_messages: Setting = named("MaxPageReadMessages")
    retroactive: bool = named("RetroactiveResource", default=False)


class AddressBlocked(msgspec.Struct, rename="pascal", gc=False):
    blocked_via_management: bool


class ConnectionListed(msgspec.Struct, rename="camel", gc=False):
    connection_id: str = msgspec.field(name="connectionID")
    remote_address: str = ""
    users: str = ""
    protocol: str = ""
    client_id: str = named("clientID", "")


class ListedSession(msgspec.Struct, rename="camel", gc=False):
    """A row of listSessions without its numbers."""

    id: str
    connection_id: str = named("connectionID", "")
    user: str = ""
    client_id: str = named("clientID", "")


SessionListed = with_numbers(ListedSession, ConnectionColumns, "listSessions")
"""A row of listSessions; the numbers of a connection are the sums over its sessions."""


class ListedProducer(msgspec.Struct, rename="camel", gc=False):
    """A row of listProducers without its numbers."""

    id: str
    session: str = ""
    client_id: str = named("clientID", "")
    user: str = ""
    validated_user: str = ""
    protocol: str = ""
    address: str | None = ""
    remote_address: str = ""


ProducerListed = with_numbers(ListedProducer, ProducerColumns, "listProducers")
"""A row of listProducers."""


class AddressSettings(msgspec.Struct, rename="camel", frozen=True):
    """From 2.32 on only the keys that were set are there; before, all, the dead-letter address as `DLA`."""

    address_full_message_policy: str = "PAGE"
    max_size_bytes: Setting = -1
    max_size_messages: Setting = -1
    page_size_bytes: Setting = 10_485_760
    page_limit_bytes: Setting = -1
    page_limit_messages: Setting = -1
    page_full_message_policy: str | None = None
    default_ring_size: Int64 = -1
    dead_letter_address: str | None = None
    old_dead_letter_address: str | None = named("DLA", None)
    expiry_address: str | None = None
    max_delivery_attempts: Setting = 10
    own_expiry_delay: Setting = named("expiryDelay", default=-1)
    max_expiry_delay: Setting = -1
    non_destructive: bool = named("defaultNonDestructive", default=False)
    makes_dead_letter_queues: bool = named(
        "autoCreateDeadLetterResources", default=False
    )
    makes_expiry_queues: bool = named("autoCreateExpiryResources", default=False)
    slow_consumer_threshold: Setting = -1
    slow_consumer_threshold_measurement_unit: str = "MESSAGES_PER_SECOND"
    slow_consumer_period: Setting = named("slowConsumerCheckPeriod", 5)
    """Seconds."""
    slow_consumer_policy: str = "NOTIFY"

    @property
    def page_full_policy(self) -> str:
        """How an address treats messages beyond its page limit, in lower case; empty where it has no such limit."""
        has_limit = self.page_limit_bytes >= 0 or self.page_limit_messages >= 0
        return (self.page_full_message_policy or "").lower() if has_limit else ""

    @property
    def page_limit_pages(self) -> float:
        """The number of page files that `page_limit_bytes` allows; NaN where there is no such limit."""
        if self.page_limit_bytes < 0 or self.page_size_bytes <= 0:
            return NAN
        return self.page_limit_bytes / self.page_size_bytes

    @property
    def expiry_delay(self) -> float:
        """Milliseconds of a message without a time to live, below 0 where none are set."""
        return (
            self.own_expiry_delay
            if self.own_expiry_delay >= 0
            else self.max_expiry_delay
        )

    @property
    def slow_consumer_kills(self) -> bool:
        return self.slow_consumer_policy == "KILL"

    @property
    def slow_consumer_rate(self) -> float:
        """Messages per second; NaN where consumers are not watched, or in a unit that is not known."""
        unit = _PER_SECOND.get(self.slow_consumer_threshold_measurement_unit, NAN)
        return (
            self.slow_consumer_threshold * unit
            if self.slow_consumer_threshold > 0
            else NAN
        )

    @property
    def dead_letters(self) -> str:
        """Address of dead letters, empty where there is none."""
        return self.dead_letter_address or self.old_dead_letter_address or ""


_PER_SECOND = {
    "MESSAGES_PER_SECOND": 1.0,
    "MESSAGES_PER_MINUTE": 1 / 60,
    "MESSAGES_PER_HOUR": 1 / 3600,
    "MESSAGES_PER_DAY": 1 / 86_400,
}
_read = RowByRow(AddressSettings)
_settings = lru_cache(1024)(
    lambda text: _read([msgspec.Raw(text.encode())])
)  # most addresses have the same


def settings(reply: Reply, request: str) -> tuple[AddressSettings, Unread]:
    """The settings of one address, and which of them are missing because they could not be read."""
    reply.raise_for_status(request)
    try:
        text = msgspec.json.decode(reply.value, type=str)
    except UNREADABLE as error:
        raise BadAnswer(f"{request}: not address settings: {error}") from error
    decoded = _settings(text)
    if decoded is None or not decoded[1].rows:
        raise BadAnswer(f"{request}: not address settings: {text[:80]!r}")
    return decoded[1].rows[0], decoded[1].unread
