"""
Jolokia's answers, typed. Numbers come as strings or numbers, listings as a JSON text inside JSON.

A value of an unexpected type (`"ERROR: …"`, an error object) is missing, never 0; how many there were is told.
"""

from typing import Any, Generic, TypeVar

import msgspec

from penstock.errors import BadAnswer, Refused
from penstock.sources.rows import NAN, UNREADABLE, Flag, Rows, RowT, lenient

ResponseT = TypeVar("ResponseT", bound="Response")


class Response(msgspec.Struct):
    """One Jolokia response. HTTP is 200 even for errors: `status` tells."""

    status: int
    error: str | None = None
    error_type: str | None = None

    def raise_for_status(self, what: str) -> None:
        """A `SourceError` unless the request succeeded."""
        if self.status == 200:
            return
        text = f"{what}: Jolokia status {self.status}: {(self.error or 'no reason given')[:300]}"
        if self.status != 403:
            raise BadAnswer(text)
        if "rigin" in (self.error or ""):
            raise Refused(f"{text}; set `origin` to http://HOST as etc/jolokia-access.xml allows it")
        raise Refused(f"{text}; the role needs list*, get* and is* in etc/management.xml")

    @property
    def vanished_meanwhile(self) -> bool:
        """A listing that broke because a session or queue went away while it ran; worth asking again at once."""
        return self.status == 500 and "NullPointer" in f"{self.error_type} {self.error}"

    @property
    def nothing_found(self) -> bool:
        return self.status == 404


class Reply(Response):
    """The value as it stands in the answer."""

    value: msgspec.Raw = msgspec.Raw(b"null")


class TextReply(Response):
    """The value of a list operation, unquoted while the answer is read: by far the largest of all."""

    value: str | None = None


_replies = msgspec.json.Decoder(list[Reply])
_text_replies = msgspec.json.Decoder(list[TextReply])
_refusal = msgspec.json.Decoder(Response)


def replies(body: bytes, expected: int) -> list[Reply]:
    """The responses to a bulk of `expected` requests, in their order."""
    return _responses(_replies, body, expected)


def text_replies(body: bytes, expected: int) -> list[TextReply]:
    """The responses to a bulk of `expected` list operations, in their order."""
    return _responses(_text_replies, body, expected)


def _responses(decoder: msgspec.json.Decoder[list[ResponseT]], body: bytes, expected: int) -> list[ResponseT]:
    try:
        if body.lstrip()[:1] == b"{":  # an agent that refuses the bulk as a whole answers with one object
            _refusal.decode(body).raise_for_status("the request")
        found = decoder.decode(body)
    except UNREADABLE as error:
        start = body[:80].decode(errors="replace")
        raise BadAnswer(
            f"not an answer of Jolokia ({error}): {start!r}; is the URL's path right? Artemis: /console/jolokia/"
        ) from error
    if len(found) != expected:
        raise BadAnswer(f"{expected} requests were answered by {len(found)} responses")
    return found


class ReadDecoder(Generic[RowT]):
    """Reads the answer of a pattern read: `{MBean: {attribute: value}}`."""

    def __init__(self, row: type[RowT]) -> None:
        self._row = row
        self._strict = msgspec.json.Decoder(dict[str, row], strict=False)  # type: ignore[valid-type]
        self._loose = msgspec.json.Decoder(dict[str, dict[str, Any]])

    def __call__(self, reply: Reply, what: str) -> tuple[list[str], Rows[RowT]]:
        """Names of the MBeans and, in the same order, their rows."""
        if reply.nothing_found:
            return [], Rows([], 0)
        reply.raise_for_status(what)
        try:
            found = self._strict.decode(reply.value)
        except msgspec.ValidationError:
            return self._leniently(reply, what)
        except UNREADABLE as error:
            raise BadAnswer(f"{what}: broken JSON: {error}") from error
        return list(found), Rows(list(found.values()), len(found))

    def _leniently(self, reply: Reply, what: str) -> tuple[list[str], Rows[RowT]]:
        try:
            found = self._loose.decode(reply.value)
        except UNREADABLE as error:
            raise BadAnswer(f"{what}: not the answer of a pattern read: {error}") from error
        loose = [(name, *lenient(self._row, row)) for name, row in found.items()]
        whole = [(name, row) for name, row, _ in loose if row is not None]
        return [name for name, _ in whole], Rows([row for _, row in whole], len(found), sum(bad for *_, bad in loose))


def readable(reply: Reply) -> bool:
    """Whether the one attribute of a read could be read: a refusal stands as a text or an object in its place."""
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
    uptime_millis: float = NAN
    current_time_millis: float = NAN
    connection_count: float = NAN
    address_memory_usage: float = NAN
    global_max_size: float = NAN
    disk_store_usage: float = NAN
    max_disk_usage: float = NAN
    authentication_failure_count: float = NAN


class BridgeAttributes(msgspec.Struct, rename="pascal"):
    started: bool = False
    connected: bool | None = None
    queue_name: str = ""


class ConsumerNumbers(msgspec.Struct, rename="camel", gc=False):
    id: int
    messages_in_transit: float = NAN
    messages_in_transit_size: float = NAN
    messages_delivered: float = NAN
    messages_acknowledged: float = NAN
    messages_acknowledged_awaiting_commit: float = NAN
    last_delivered_time: float = NAN
    last_acknowledged_time: float = NAN
    status: str = ""


class ConsumerTexts(msgspec.Struct, rename="camel", gc=False):
    id: int
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

    id: int
    paused: Flag = NAN
    consumer_count: float = NAN
    max_consumers: float = NAN
    messages_added: float = NAN
    message_count: float = NAN
    messages_acked: float = NAN
    messages_expired: float = NAN
    delivering_count: float = NAN
    messages_killed: float = NAN
    exclusive: Flag = NAN
    last_value: Flag = NAN
    scheduled_count: float = NAN
    ring_size: float = NAN
    consumers_before_dispatch: float = NAN
    group_rebalance: Flag = NAN


class QueueTexts(msgspec.Struct, rename="camel", gc=False):
    id: int
    name: str
    address: str = ""
    filter: str = ""
    routing_type: str = ""
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    internal_queue: bool = False
    ring_size: int = -1


class QueueAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same out of a pattern read; `Paused` is not asked."""

    id: int = msgspec.field(name="ID")
    name: str
    address: str = ""
    filter: str | None = ""
    routing_type: str = ""
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    internal_queue: bool = False
    ring_size: int = -1
    consumer_count: float = NAN
    max_consumers: float = NAN
    messages_added: float = NAN
    message_count: float = NAN
    messages_acknowledged: float = NAN
    messages_expired: float = NAN
    delivering_count: float = NAN
    messages_killed: float = NAN
    exclusive: Flag = NAN
    last_value: Flag = NAN
    scheduled_count: float = NAN
    consumers_before_dispatch: float = NAN
    group_rebalance: Flag = NAN


class QueueSizes(msgspec.Struct, rename="pascal", gc=False):
    acknowledge_attempts: float = NAN
    persistent_size: float = NAN
    delivering_size: float = NAN


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
    address_size: float = NAN
    address_limit_percent: float = NAN
    number_of_pages: float = NAN
    routed_message_count: float = NAN
    unrouted_message_count: float = NAN
    max_page_read_bytes: float = NAN
    max_page_read_messages: float = NAN
    message_count: float = NAN


class AddressAttributes(msgspec.Struct, rename="pascal", gc=False):
    """The same out of a pattern read, for older versions and while listAddresses waits for a lock."""

    address: str
    retroactive_resource: bool = False
    paused: Flag = NAN
    paging: Flag = NAN
    address_size: float = NAN
    address_limit_percent: float = NAN
    number_of_pages: float = NAN
    routed_message_count: float = NAN
    un_routed_message_count: float = NAN
    max_page_read_bytes: float = NAN
    max_page_read_messages: float = NAN


class AddressBlocked(msgspec.Struct, rename="pascal", gc=False):
    blocked_via_management: bool


class ConnectionListed(msgspec.Struct, rename="camel", gc=False):
    connection_id: str = msgspec.field(name="connectionID")
    remote_address: str = ""
    users: str = ""
    protocol: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    session_count: float = NAN


class SessionListed(msgspec.Struct, rename="camel", gc=False):
    id: str
    connection_id: str = msgspec.field(name="connectionID", default="")
    user: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    consumer_count: float = NAN
    producer_count: float = NAN


class ProducerListed(msgspec.Struct, rename="camel", gc=False):
    id: str
    session: str = ""
    client_id: str = msgspec.field(name="clientID", default="")
    user: str = ""
    validated_user: str = ""
    protocol: str = ""
    address: str | None = ""
    remote_address: str = ""
    msg_sent: float = NAN
    msg_size_sent: float = NAN


class AddressSettings(msgspec.Struct, rename="camel"):
    """From 2.32 on only the keys that were set are there; before, all, the dead-letter address as `DLA`."""

    address_full_message_policy: str = "PAGE"
    max_size_bytes: float = -1
    max_size_messages: float = -1
    default_ring_size: int = -1
    dead_letter_address: str | None = None
    old_dead_letter_address: str | None = msgspec.field(name="DLA", default=None)
    expiry_address: str | None = None
    max_delivery_attempts: float = 10
    default_non_destructive: bool = False
    auto_create_dead_letter_resources: bool = False
    auto_create_expiry_resources: bool = False
    slow_consumer_threshold: float = -1
    slow_consumer_threshold_measurement_unit: str = "MESSAGES_PER_SECOND"
    slow_consumer_check_period: float = 5
    """Seconds."""
    slow_consumer_policy: str = "NOTIFY"


_settings = msgspec.json.Decoder(AddressSettings, strict=False)


def settings(reply: Reply, what: str) -> AddressSettings:
    reply.raise_for_status(what)
    try:
        return _settings.decode(msgspec.json.decode(reply.value, type=str))
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: not address settings: {error}") from error
