"""OpenMQ's answers, typed. Ids are texts of 63-bit numbers, times milliseconds, and nothing there is `null`, not `[]`.
Columns have the model's names. What is read by its attributes is asked for all fields of its type.

A value that is none of its kind is missing, never 0; `Rows` counts them.
"""

import re
from collections.abc import Sequence

import msgspec

from penstock.brokers import replies as shared
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import (
    NAN,
    UNREADABLE,
    Code,
    Count,
    Flag,
    Int64,
    Millis,
    Port,
    Setting,
    Text,
    Unread,
    Wrapping,
    named,
    together,
)
from penstock.core.errors import BadAnswer


class Reply(shared.Reply):
    timestamp: Count = NAN

    def remedy(self) -> str:
        return "the agent's policy file must allow it, see docs/openmq.md"


replies = shared.Replies(Reply, "Its agent: /jolokia/")


_texts = msgspec.json.Decoder(list[str] | None)
_NUMBER = re.compile("[0-9]{1,19}")
_SENT = re.compile("[0-9]{12,14}")
"""Milliseconds since 1970."""


def numbers(reply: Reply, operation: str) -> frozenset[int]:
    """The numbers among the texts that an operation returns; none: nothing."""
    reply.raise_for_status(operation)
    try:
        return frozenset(
            int(text)
            for text in _texts.decode(reply.value) or ()
            if _NUMBER.fullmatch(text)
        )
    except UNREADABLE as error:
        raise BadAnswer(f"{operation}: not a list of texts: {error}") from error


class About(msgspec.Struct, rename="pascal"):
    """The attributes of the broker itself, in several answers."""

    version: Text = ""
    host: Text | None = None
    port: Port = 0
    resource_state: object = (
        None  # an error, where the broker is in the JVM of an application server
    )
    start_time: Millis = NAN
    uptime: Millis = NAN
    total_memory: Setting = NAN
    free_memory: Setting = NAN
    max_memory: Setting = NAN
    num_msgs: Count = NAN
    num_msgs_in_dmq: Count = named("NumMsgsInDMQ")
    total_msg_bytes: Count = NAN
    max_total_msg_bytes: Setting = NAN
    num_connections: Count = NAN

    @property
    def process(self) -> tuple[float, float]:
        """Clock and uptime of its process, seconds."""
        return (self.start_time + self.uptime) / 1000, self.uptime / 1000


_ABOUT = Decoder(About)
_NOTHING = About()


def about(replies: Sequence[Reply]) -> tuple[About, Unread]:
    """All together, and which values are missing because they could not be read."""
    if replies[0].nothing_found:
        raise BadAnswer(
            "the JVM answers, but shows no OpenMQ broker: it is starting, stopping, or not an OpenMQ; in GlassFish and"
            " Payara it starts at first use: run `asadmin jms-ping`, or set lazy-init=false on the jms-host"
        )
    names = (
        "broker attributes",
        "runtime attributes",
        "heap",
        "totals",
        "limits",
        "number of connections",
    )
    parts = [
        _ABOUT.counted(reply, what) for reply, what in zip(replies, names, strict=True)
    ]
    values = {
        name: value
        for part, _ in parts
        for name in About.__struct_fields__
        if (value := getattr(part, name)) is not getattr(_NOTHING, name)
    }
    return About(**values), together(unread for _, unread in parts)


class Connection(msgspec.Struct, rename="pascal", gc=False):
    connection_id: Int64 = msgspec.field(name="ConnectionID")
    client_id: str | None = named("ClientID", None)
    host: str | None = None
    port: Int64 | None = None
    user: str | None = None
    service_name: str | None = None
    consumers: Count = named("NumConsumers")
    producers: Count = named("NumProducers")


class Depth(msgspec.Struct, rename="pascal", gc=False):
    """The expensive attributes of a destination. pending: with a consumer and not acknowledged, delayed, or in an open
    transaction.
    """

    messages: Count = named("NumMsgs")
    pending: Count = named("NumMsgsPendingAcks")
    uncommitted: Count = named("NumMsgsHeldInTransaction")
    scheduled: Count = named("NumMsgsInDelayDelivery")
    bytes: Count = named("TotalMsgBytes")


class Destination(Depth, rename="pascal", gc=False, kw_only=True):
    """A destination; the expensive attributes only where they were asked."""

    name: str
    type: str
    state: Code = NAN
    temporary: Flag = NAN
    connection_id: Int64 | None = named("ConnectionID", None)
    messages_added: Count = named("NumMsgsIn")
    removed: Count = named("NumMsgsOut")
    added_bytes: Count = named("MsgBytesIn")
    removed_bytes: Count = named("MsgBytesOut")
    consumers: Count = named("NumConsumers")
    num_active_consumers: Count = NAN  # asked, as recordings have it
    producers: Count = named("NumProducers")
    next_message_id: str | None = named("NextMessageID", None)

    @property
    def key(self) -> tuple[str, str]:
        """Type (q or t) and name."""
        return self.type, self.name


def sent_at(message_id: str | None) -> float:
    """When a message was sent, by its sender's clock in milliseconds: the end of the id that its client made."""
    end = (message_id or "").rpartition("-")[2]
    return float(end) if _SENT.fullmatch(end) else NAN


class Settings(msgspec.Struct, rename="pascal", gc=False, frozen=True):
    """-1 = unlimited."""

    name: str
    type: str
    consumer_flow_limit: Setting = NAN
    limit_behavior: str = ""
    limit_messages: Setting = named("MaxNumMsgs")
    limit_bytes: Setting = named("MaxTotalMsgBytes")
    message_limit_bytes: Setting = named("MaxBytesPerMsg")
    max_producers: Setting = named("MaxNumProducers")
    dead_letters: Flag = named("UseDMQ")


class Client(msgspec.Struct, rename="pascal", gc=False, kw_only=True):
    connection_id: Int64 | None = named("ConnectionID", None)
    user: str | None = None
    host: str | None = None
    service_name: str | None = None
    destination_name: str | None = None
    destination_type: str | None = None
    created: Millis = named("CreationTime")


class Consumer(Client, rename="pascal", gc=False, kw_only=True):
    """A consumer, a subscription in place of its members, or a member."""

    consumer_id: Int64 = msgspec.field(name="ConsumerID")
    client_id: str | None = named("ClientID", None)
    selector: str | None = None
    durable: bool | None = None
    durable_name: str | None = None
    durable_active: bool | None = None
    wildcard: bool | None = None
    acknowledge_mode: Setting = NAN
    flow_paused: Flag = NAN
    delivered: Wrapping = named("NumMsgs")
    waiting: Count = named("NumMsgsPending")
    buffered: Count = named("NumMsgsPendingAcks")
    last_acknowledgement: Millis = named("LastAckTime")
    next_message_id: str | None = named("NextMessageID", None)

    @property
    def is_subscription(self) -> bool:
        """Whether it is a durable or shared subscription, which hides its members."""
        return bool(self.durable) or (self.connection_id is None and not self.wildcard)

    @property
    def is_active(self) -> bool:
        return self.durable_active is not False


class Producer(Client, rename="pascal", gc=False, kw_only=True):
    producer_id: Int64 = msgspec.field(name="ProducerID")
    produced: Wrapping = named("NumMsgs")


class Transaction(msgspec.Struct, rename="pascal", gc=False):
    transaction_id: Int64 = msgspec.field(name="TransactionID")
    xid: str | None = named("XID", None)
    user: str | None = None
    client_id: str | None = named("ClientID", None)
    connection_string: str | None = None
    state: Code | None = NAN
    """None: it has ended while it was listed."""
    messages: Count = named("NumMsgs")
    acknowledgements: Count = named("NumAcks")
    created: Millis = named("CreationTime")

    @property
    def remote(self) -> tuple[str, int] | None:
        """Host and port of the client's end of its connection, `user@host:port->service:port`."""
        end = (self.connection_string or "").partition("->")[0].rpartition("@")[2]
        host, _, port = end.rpartition(":")
        return (host, int(port)) if host and _NUMBER.fullmatch(port) else None
