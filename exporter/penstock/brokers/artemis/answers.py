"""
Jolokia's answers, typed. Numbers come as strings or numbers, listings as a JSON text inside JSON.

A value that is none of its kind (`"ERROR: …"`, an error object, a count of -1) is missing, never 0; `Rows` counts them.
"""

import msgspec

from penstock.brokers import replies as shared
from penstock.brokers.rows import NAN, UNREADABLE, Count, Flag, Int64, Millis, Ratio, RowByRow, Setting
from penstock.core.errors import BadAnswer


class Reply(shared.Reply):
    def remedy(self) -> str:
        return _remedy(self)


class TextReply(shared.Response):
    """The value of a list operation, unquoted while the answer is read: by far the largest of all."""

    value: str | None = None

    def remedy(self) -> str:
        return _remedy(self)

    @property
    def vanished_meanwhile(self) -> bool:
        """A listing that broke because a session or queue went away while it ran; worth asking again at once."""
        said = f"{self.error_type} {self.error}"
        # The second: rows whose session is gone compare as equal to all others, which ends a sort; Jolokia says 400.
        return (self.status == 500 and "NullPointer" in said) or "Comparison method violates" in said


def _remedy(response: shared.Response) -> str:
    if "rigin" in (response.error or ""):
        return "set `origin` to http://HOST as etc/jolokia-access.xml allows it"
    return "the role needs list*, get* and is* in etc/management.xml"


_PATH = "Artemis: /console/jolokia/"
replies = shared.Replies(Reply, _PATH)
text_replies = shared.Replies(TextReply, _PATH)
"""Of list operations."""


def readable(reply: Reply) -> bool:
    """Whether the one attribute of a read could be read: a refusal comes as a text or an object in its place."""
    if reply.status != 200:
        return False
    try:
        value = msgspec.json.decode(reply.value)
    except UNREADABLE:
        return False
    return isinstance(value, dict) and all(one is None or isinstance(one, int | float) for one in value.values())


class BrokerAttributes(msgspec.Struct, rename="pascal"):
    version: str = ""
    name: str = ""
    node_id: str = msgspec.field(name="NodeID", default="")
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
    queue_name: str = ""


class ConsumerNumbers(msgspec.Struct, rename="camel", gc=False):
    id: Int64
    messages_in_transit: Count = NAN
    messages_in_transit_size: Count = NAN
    messages_delivered: Count = NAN
    messages_acknowledged: Count = NAN
    messages_acknowledged_awaiting_commit: Count = NAN
    last_delivered_time: Millis = NAN
    last_acknowledged_time: Millis = NAN
    status: str = ""


class ConsumerTexts(msgspec.Struct, rename="camel", gc=False):
    id: Int64
    session: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    user: str = ""
    validated_user: str = ""
    protocol: str = ""
    queue: str = ""
    address: str = ""
    filter: str = ""
    remote_address: str = ""


class QueueNumbers(msgspec.Struct, rename="camel", gc=False):
    """A row of listQueues. What 2.21 lacks: persistedPause, autoDelete, internalQueue."""

    id: Int64
    paused: Flag = NAN
    consumer_count: Count = NAN
    max_consumers: Setting = NAN
    messages_added: Count = NAN
    message_count: Count = NAN
    messages_acked: Count = NAN
    messages_expired: Count = NAN
    delivering_count: Count = NAN
    messages_killed: Count = NAN
    exclusive: Flag = NAN
    last_value: Flag = NAN
    scheduled_count: Count = NAN
    ring_size: Setting = NAN
    consumers_before_dispatch: Setting = NAN
    group_rebalance: Flag = NAN


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
    ring_size: Int64 = -1


class QueueAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same out of a pattern read; `Paused` is not asked."""

    id: Int64 = msgspec.field(name="ID")
    name: str
    address: str = ""
    filter: str | None = ""
    routing_type: str = ""
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    internal_queue: bool = False
    ring_size: Int64 = -1
    consumer_count: Count = NAN
    max_consumers: Setting = NAN
    messages_added: Count = NAN
    message_count: Count = NAN
    messages_acknowledged: Count = NAN
    messages_expired: Count = NAN
    delivering_count: Count = NAN
    messages_killed: Count = NAN
    exclusive: Flag = NAN
    last_value: Flag = NAN
    scheduled_count: Count = NAN
    consumers_before_dispatch: Setting = NAN
    group_rebalance: Flag = NAN


class QueueSizes(msgspec.Struct, rename="pascal", gc=False):
    acknowledge_attempts: Count = NAN
    persistent_size: Count = NAN
    delivering_size: Count = NAN


class QueueInDoubt(msgspec.Struct, rename="pascal", gc=False):
    prepared_transaction_message_count: Count = NAN


class QueueDeadLetters(msgspec.Struct, rename="pascal", gc=False):
    dead_letter_address: str | None = None
    expiry_address: str | None = None


class AddressNumbers(msgspec.Struct, rename="camel", gc=False):
    """A row of listAddresses, from 2.41 on."""

    name: str
    internal: bool = False
    temporary: bool = False
    retroactive_resource: bool = False
    paused: Flag = NAN
    paging: Flag = NAN
    address_size: Count = NAN
    address_limit_percent: Count = NAN
    number_of_pages: Count = NAN
    routed_message_count: Count = NAN
    unrouted_message_count: Count = NAN
    max_page_read_bytes: Setting = NAN
    max_page_read_messages: Setting = NAN
    message_count: Count = NAN


class AddressAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same out of a pattern read, for older versions and while listAddresses waits for a lock."""

    address: str
    retroactive_resource: bool = False
    paused: Flag = NAN
    paging: Flag = NAN
    address_size: Count = NAN
    address_limit_percent: Count = NAN
    number_of_pages: Count = NAN
    routed_message_count: Count = NAN
    un_routed_message_count: Count = NAN
    max_page_read_bytes: Setting = NAN
    max_page_read_messages: Setting = NAN


class AddressBlocked(msgspec.Struct, rename="pascal", gc=False):
    blocked_via_management: bool


class ConnectionListed(msgspec.Struct, rename="camel", gc=False):
    connection_id: str = msgspec.field(name="connectionID")
    remote_address: str = ""
    users: str = ""
    protocol: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    session_count: Count = NAN


class SessionListed(msgspec.Struct, rename="camel", gc=False):
    id: str
    connection_id: str = msgspec.field(name="connectionID", default="")
    user: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    consumer_count: Count = NAN
    producer_count: Count = NAN


class ProducerListed(msgspec.Struct, rename="camel", gc=False):
    id: str
    session: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    user: str = ""
    validated_user: str = ""
    protocol: str = ""
    address: str | None = ""
    remote_address: str = ""
    msg_sent: Count = NAN
    msg_size_sent: Count = NAN


class AddressSettings(msgspec.Struct, rename="camel"):
    """From 2.32 on only the keys that were set are there; before, all, the dead-letter address as `DLA`."""

    address_full_message_policy: str = "PAGE"
    max_size_bytes: Setting = -1
    max_size_messages: Setting = -1
    default_ring_size: Int64 = -1
    dead_letter_address: str | None = None
    old_dead_letter_address: str | None = msgspec.field(name="DLA", default=None)
    expiry_address: str | None = None
    max_delivery_attempts: Setting = 10
    default_non_destructive: bool = False
    auto_create_dead_letter_resources: bool = False
    auto_create_expiry_resources: bool = False
    slow_consumer_threshold: Setting = -1
    slow_consumer_threshold_measurement_unit: str = "MESSAGES_PER_SECOND"
    slow_consumer_check_period: Setting = 5
    """Seconds."""
    slow_consumer_policy: str = "NOTIFY"

    @property
    def dead_letters(self) -> str:
        """Address of dead letters, empty where there is none."""
        return self.dead_letter_address or self.old_dead_letter_address or ""


_settings = RowByRow(AddressSettings)


def settings(reply: Reply, what: str) -> tuple[AddressSettings, int]:
    """Those of one address, and how many of them are missing because they could not be read."""
    reply.raise_for_status(what)
    try:
        text = msgspec.json.decode(reply.value, type=str)
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: not address settings: {error}") from error
    found = _settings([msgspec.Raw(text.encode())])
    if found is None or not found[1].rows:
        raise BadAnswer(f"{what}: not address settings: {text[:80]!r}")
    return found[1].rows[0], found[1].unreadable
