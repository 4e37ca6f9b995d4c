"""The answers of ActiveMQ Classic, typed. A thing is known by its attributes and by the name of its MBean.

Columns have the model's names. What is read is asked for all fields of its type. A value that is none of its kind is
missing, never 0; `Rows` counts them.
"""

import msgspec

from penstock.brokers import replies as shared
from penstock.brokers.rows import NAN, Count, Flag, Millis, Setting, Text, named


class ClassicReply(shared.Reply):
    timestamp: Count = NAN

    def remedy(self) -> str:
        if "rigin" in (self.error or ""):
            return "give origin: as conf/jolokia-access.xml of the broker allows it"
        return (
            "conf/jolokia-access.xml of the broker must allow it, see docs/classic.md"
        )


replies = shared.Replies(ClassicReply, "The console serves it at /api/jolokia/")


class About(msgspec.Struct, rename="pascal"):
    """The attributes of the broker itself. Shares are percents."""

    broker_id: Text = ""
    broker_version: Text = ""
    slave: Flag = NAN
    uptime_millis: Millis = NAN
    current_connections_count: Count = NAN
    memory_limit: Setting = NAN
    memory_percent_usage: Count = NAN
    store_percent_usage: Count = NAN


class Machine(msgspec.Struct, rename="pascal"):
    """The Java runtime, whose clock is the broker's."""

    start_time: Millis = NAN
    uptime: Millis = NAN


class Connection(msgspec.Struct, rename="pascal", gc=False):
    client_id: str | None = None
    remote_address: str | None = None
    user_name: str | None = None
    transaction_age: Millis | None = named("OldestActiveTransactionDuration", None)


class Destination(msgspec.Struct, rename="pascal", gc=False):
    """The numbers of each poll."""

    messages: Count = named("QueueSize")
    delivering: Count = named("InFlightCount")
    added: Count = named("EnqueueCount")
    removed: Count = named("DequeueCount")
    expired: Count = named("ExpiredCount")
    consumers: Count = named("ConsumerCount")
    paused: Flag = NAN


class Settings(msgspec.Struct, rename="pascal", gc=False, frozen=True):
    """Attributes that change seldom, and numbers that may be a minute old. name: as clients write it; the name of the
    MBean has other characters in place of some.
    """

    name: str = ""
    bytes: Count = named("StoreMessageSize")
    memory_bytes: Count = named("MemoryUsageByteCount")
    limit_bytes: Setting = named("MemoryLimit")
    limit_percent: Count = named("MemoryPercentUsage")
    producers: Count = named("ProducerCount")
    producer_flow_control: Flag = NAN
    dead_letter: Flag = named("DLQ")


class Topic(msgspec.Struct, rename="pascal", gc=False):
    name: str = ""


class Consumer(msgspec.Struct, rename="pascal", gc=False):
    connection_id: str | None = None
    selector: str | None = None
    buffered: Count = named("DispatchedQueueSize")
    delivered: Count = named("DispatchedCounter")
    acknowledged: Count = named("DequeueCounter")


class Subscriber(Consumer, rename="pascal", gc=False, kw_only=True):
    """A consumer of a topic, which is a subscription as well; a durable one is there without a consumer, too."""

    active: Flag = NAN
    subscription_name: str | None = None
    pending: Count = named("PendingQueueSize")
    added: Count = named("EnqueueCounter")


class Producer(msgspec.Struct, rename="pascal", gc=False):
    """dynamicProducer: destination_name is that of its last message."""

    destination_name: str | None = None
    produced: Count = named("SentCount")
    blocked: Flag = named("ProducerBlocked")
