"""
The catalogue: every metric, once.

HELP and TYPE lines, the renderer, `docs/metrics.md` and the lint of dashboards and alerts all read it. A new metric is
one entry, and a column of that name in the table it names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

FamilyType = Literal["counter", "gauge", "info"]

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "broker": ("broker",),
    "broker_cause": ("broker", "cause"),
    "address": ("broker", "address"),
    "address_cause": ("broker", "address", "cause"),
    "queue": ("broker", "address", "queue"),
    "queue_cause": ("broker", "address", "queue", "cause"),
    "eviction": ("broker", "address", "queue", "reason"),
    "ring_loser": ("broker", "address", "queue", "client"),
    "oldest": ("broker", "address", "queue", "bound"),
    "account": ("broker", "address", "queue", "fate"),
    "client": ("broker", "address", "queue", "client"),
    "client_cause": ("broker", "address", "queue", "client", "cause"),
    "producer": ("broker", "address", "client"),
    "consumer": ("broker", "address", "queue", "client", "consumer"),
    "connection": ("broker", "connection", "client"),
    "connection_cause": ("broker", "connection", "client", "cause"),
    "link": ("broker", "link", "kind"),
    "finding": ("broker", "scope", "object", "rule"),
    "collector": ("broker", "collector"),
    "poll": ("broker", "result"),
    "trend_run": (),
    "trend_forecast": ("broker", "address", "queue", "horizon", "bound"),
    "trend_queue": ("broker", "address", "queue"),
    "trend_limit": ("broker", "limit", "bound"),
    "agent": (),
}
"""Table → the labels of each of its families: attributes of its row objects, by the same name, in this order."""


@dataclass(frozen=True, slots=True)
class Family:
    """
    One metric.

    name: as in the text format, `_total` and `_info` included.
    help: what it is and in which unit, as sentences.
    column: where its values stand in `table`; NaN = no sample. An info family has 1 where it applies.
    labels: attributes of the row objects that become labels beside the table's own.
    source: where the broker shows it, in words.
    unbounded: +Inf is a value of it; of any other family it is none, as NaN.
    """

    name: str
    type: FamilyType
    help: str
    table: str
    column: str
    labels: tuple[str, ...] = ()
    source: str = field(kw_only=True)
    unbounded: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels of a sample, in their order."""
        return TABLES[self.table] + self.labels

    @property
    def documentation(self) -> str:
        """The text of HELP."""
        return f"{self.help} Source: {self.source}."


BROKER: Final = (
    Family(
        "mq_up",
        "gauge",
        "1 when the last poll reached the broker, else 0.",
        "broker",
        "up",
        source="Penstock: the poll",
    ),
    Family(
        "mq_broker_info",
        "info",
        "Identity of the broker; always 1. kind: artemis or openmq; product_version: its name in the vendor's product"
        " line; node_id: the same for both brokers of a failover pair; role: active or passive.",
        "broker",
        "info",
        ("kind", "version", "product_version", "node_id", "role"),
        source="Artemis: Version, NodeID, Active; OpenMQ: Broker Version, host and port of the port mapper",
    ),
    Family(
        "mq_broker_start_timestamp_seconds",
        "gauge",
        "Start of the broker, which is the epoch of its counters, in seconds since 1970.",
        "broker",
        "start",
        source="Artemis: UptimeMillis; OpenMQ: StartTime of the Java runtime",
    ),
    Family(
        "mq_broker_clock_skew_seconds",
        "gauge",
        "Clock of the broker minus clock of the agent, smoothed, in seconds; other times are already corrected by it.",
        "broker",
        "clock_skew",
        source="Artemis: CurrentTimeMillis; OpenMQ: time of the answer",
    ),
    Family(
        "mq_broker_connections",
        "gauge",
        "Number of client connections.",
        "broker",
        "connections",
        source="Artemis: ConnectionCount; OpenMQ: ConnectionManager NumConnections",
    ),
    Family(
        "mq_broker_memory_used_bytes",
        "gauge",
        "Memory taken by messages, in bytes.",
        "broker",
        "memory_used_bytes",
        source="Artemis: AddressMemoryUsage; OpenMQ: DestinationManager TotalMsgBytes",
    ),
    Family(
        "mq_broker_memory_limit_bytes",
        "gauge",
        "Memory that messages may take, in bytes; absent when unlimited.",
        "broker",
        "memory_limit_bytes",
        source="Artemis: GlobalMaxSize; OpenMQ: DestinationManager MaxTotalMsgBytes",
    ),
    Family(
        "mq_broker_disk_used_ratio",
        "gauge",
        "Used share of the disk that holds the journal, 0 to 1.",
        "broker",
        "disk_used_ratio",
        source="Artemis: DiskStoreUsage",
    ),
    Family(
        "mq_broker_disk_limit_ratio",
        "gauge",
        "Share of the disk, 0 to 1, at which the broker blocks every producer.",
        "broker",
        "disk_limit_ratio",
        source="Artemis: MaxDiskUsage",
    ),
    Family(
        "mq_broker_authentication_failures_total",
        "counter",
        "Refused logins of clients since the start of the broker.",
        "broker",
        "authentication_failures",
        source="Artemis: AuthenticationFailureCount",
    ),
    Family(
        "mq_broker_prepared_transactions",
        "gauge",
        "Distributed (XA) transactions that are prepared and not decided; at most 1,000 are read.",
        "broker",
        "prepared_transactions",
        source="Artemis: listPreparedTransactions; OpenMQ: getTransactionInfo",
    ),
    Family(
        "mq_broker_heap_used_bytes",
        "gauge",
        "Java heap in use, in bytes, what is not collected yet included.",
        "broker",
        "heap_used_bytes",
        source="OpenMQ: JVM TotalMemory less FreeMemory",
    ),
    Family(
        "mq_broker_heap_limit_bytes",
        "gauge",
        "Largest Java heap, in bytes.",
        "broker",
        "heap_limit_bytes",
        source="OpenMQ: JVM MaxMemory",
    ),
    Family(
        "mq_broker_resource_state",
        "gauge",
        "How short of heap the broker says it is: 0 green, 1 yellow, 2 orange, 3 red; it slows producers down from 1 on"
        " and refuses them at 3.",
        "broker",
        "resource_state",
        source="OpenMQ: Broker ResourceState",
    ),
)

ADDRESS: Final = (
    Family(
        "mq_address_info",
        "info",
        "What the address does when it is full; always 1. policy: page, block, drop, fail, flow_control, remove_oldest,"
        " remove_low_priority or reject_newest.",
        "address",
        "info",
        ("policy",),
        source="Artemis: addressFullMessagePolicy of its settings; OpenMQ: LimitBehavior",
    ),
    Family(
        "mq_address_memory_bytes",
        "gauge",
        "Memory taken by the messages of the address, in bytes.",
        "address",
        "memory_bytes",
        source="Artemis: AddressSize; OpenMQ: TotalMsgBytes",
    ),
    Family(
        "mq_address_memory_used_ratio",
        "gauge",
        "Used share of the memory limit of the address; 1 is full, more is possible.",
        "address",
        "memory_used_ratio",
        source="Artemis: AddressLimitPercent; OpenMQ: TotalMsgBytes over MaxTotalMsgBytes",
    ),
    Family(
        "mq_address_limit_bytes",
        "gauge",
        "Limit of the address, in bytes; absent when unlimited.",
        "address",
        "limit_bytes",
        source="Artemis: maxSizeBytes of its settings; OpenMQ: MaxTotalMsgBytes",
    ),
    Family(
        "mq_address_limit_messages",
        "gauge",
        "Limit of the address, in messages; absent when unlimited.",
        "address",
        "limit_messages",
        source="Artemis: maxSizeMessages of its settings; OpenMQ: MaxNumMsgs",
    ),
    Family(
        "mq_address_messages",
        "gauge",
        "Messages in the address: of an OpenMQ topic its own count, elsewhere the sum over its queues.",
        "address",
        "messages",
        source="Artemis: listQueues messageCount; OpenMQ: NumMsgs",
    ),
    Family(
        "mq_address_messages_added_total",
        "counter",
        "Messages routed in since the start of the broker.",
        "address",
        "messages_added",
        source="Artemis: RoutedMessageCount; OpenMQ: NumMsgsIn",
    ),
    Family(
        "mq_address_messages_rejected_total",
        "counter",
        "Messages that a full address, or one that takes none so large, refused since the agent watches; on Artemis of"
        " an address with policy fail and one queue, at least so many.",
        "address",
        "messages_rejected",
        source="Artemis: RoutedMessageCount less messagesAdded while full; OpenMQ: NumMsgsIn less NumMsgsOut, NumMsgs"
        " and NumMsgsHeldInTransaction",
    ),
    Family(
        "mq_address_messages_dropped_total",
        "counter",
        "Messages that a full address with policy drop and one queue threw away since the agent watches, at least so"
        " many.",
        "address",
        "messages_dropped",
        source="Artemis: RoutedMessageCount less messagesAdded while full",
    ),
    Family(
        "mq_address_messages_unrouted_total",
        "counter",
        "Messages accepted and given to no queue since the start of the broker.",
        "address",
        "messages_unrouted",
        source="Artemis: UnRoutedMessageCount",
    ),
    Family(
        "mq_address_paging",
        "gauge",
        "1 while the address is in the paging state, which a full address with policy drop or fail shows too.",
        "address",
        "paging",
        source="Artemis: Paging",
    ),
    Family(
        "mq_address_paused",
        "gauge",
        "1 while an operator holds the consumers of the whole address.",
        "address",
        "paused",
        source="Artemis: Paused; OpenMQ: State 1 or 3",
    ),
    Family(
        "mq_address_producers_paused",
        "gauge",
        "1 while an operator holds the producers of the address.",
        "address",
        "producers_paused",
        source="Artemis: BlockedViaManagement; OpenMQ: State 2 or 3",
    ),
    Family(
        "mq_address_producers_blocked",
        "gauge",
        "1 while producers wait for a limit: that of the address, or memory or disk of the broker; 0 while an operator"
        " holds them.",
        "address",
        "producers_blocked",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_address_pages",
        "gauge",
        "Number of page files of the address.",
        "address",
        "pages",
        source="Artemis: NumberOfPages",
    ),
    Family(
        "mq_address_producers",
        "gauge",
        "Number of producers on the address.",
        "address",
        "producers",
        source="Artemis: listProducers; OpenMQ: NumProducers",
    ),
)

QUEUE: Final = (
    Family(
        "mq_queue_info",
        "info",
        "What the queue is; always 1. kind: user, dead_letter, expiry, temporary, subscription, internal, link or"
        " retroactive; ring_source, where its ring size is set: queue, address, none or ambiguous; owner and team: from"
        " the rules of the configuration.",
        "queue",
        "info",
        ("routing_type", "durable", "kind", "ring_source", "owner", "team"),
        source="Artemis: listQueues, address settings; OpenMQ: Type, Temporary; Penstock: configuration",
    ),
    Family(
        "mq_queue_dead_letter_info",
        "info",
        "Where dead letters and expired messages of the queue go; always 1.",
        "queue",
        "dead_letter_info",
        ("dead_letter_address", "expiry_address"),
        source="Artemis: DeadLetterAddress, ExpiryAddress; OpenMQ: UseDMQ",
    ),
    Family(
        "mq_queue_messages",
        "gauge",
        "Messages in the queue, as the broker itself counts them.",
        "queue",
        "messages",
        source="Artemis: listQueues messageCount; OpenMQ: NumMsgs",
    ),
    Family(
        "mq_queue_ready_messages",
        "gauge",
        "Messages that wait for a consumer, page files included; absent for non-destructive queues.",
        "queue",
        "ready",
        source="Artemis: messageCount - deliveringCount - scheduledCount, for a last-value queue messageCount -"
        " scheduledCount; OpenMQ: NumMsgs + NumMsgsHeldInTransaction - NumMsgsPendingAcks",
    ),
    Family(
        "mq_queue_delivering_messages",
        "gauge",
        "Messages in the hands of consumers and not yet settled.",
        "queue",
        "delivering",
        source="Artemis: listQueues deliveringCount; OpenMQ: NumMsgsPendingAcks - NumMsgsInDelayDelivery -"
        " NumMsgsHeldInTransaction",
    ),
    Family(
        "mq_queue_scheduled_messages",
        "gauge",
        "Messages whose delivery time has not come.",
        "queue",
        "scheduled",
        source="Artemis: listQueues scheduledCount; OpenMQ: NumMsgsInDelayDelivery",
    ),
    Family(
        "mq_queue_bytes",
        "gauge",
        "Size of the messages in the queue, in bytes.",
        "queue",
        "bytes",
        source="Artemis: PersistentSize; OpenMQ: TotalMsgBytes",
    ),
    Family(
        "mq_queue_consumers",
        "gauge",
        "Number of consumers of the queue; browsers are none.",
        "queue",
        "consumers",
        source="Artemis: listQueues consumerCount; OpenMQ: NumConsumers",
    ),
    Family(
        "mq_queue_paused",
        "gauge",
        "1 while an operator holds the consumers of the queue.",
        "queue",
        "paused",
        source="Artemis: listQueues paused; OpenMQ: State 1 or 3",
    ),
    Family(
        "mq_queue_messages_added_total",
        "counter",
        "Messages added since the start of the broker; those reloaded at a start that the agent saw are not counted.",
        "queue",
        "added",
        source="Artemis: listQueues messagesAdded; OpenMQ: NumMsgsIn",
    ),
    Family(
        "mq_queue_messages_acknowledged_total",
        "counter",
        "Messages acknowledged since the start of the broker; moved and single removed ones count.",
        "queue",
        "acknowledged",
        source="Artemis: listQueues messagesAcked",
    ),
    Family(
        "mq_queue_messages_expired_total",
        "counter",
        "Messages expired since the start of the broker.",
        "queue",
        "expired",
        source="Artemis: listQueues messagesExpired",
    ),
    Family(
        "mq_queue_messages_killed_total",
        "counter",
        "Messages given up since the start of the broker: delivered too often, rejected or purged.",
        "queue",
        "killed",
        source="Artemis: listQueues messagesKilled",
    ),
    Family(
        "mq_queue_messages_removed_total",
        "counter",
        "Messages that left the queue for whatever reason since the start of the broker; of a topic's subscription what"
        " its consumers settled.",
        "queue",
        "removed",
        source="OpenMQ: Destination NumMsgsOut, getConsumerInfo NumMsgs less NumMsgsPendingAcks",
    ),
    Family(
        "mq_queue_uncommitted_messages",
        "gauge",
        "Messages sent in transactions that are still open; in no other count.",
        "queue",
        "uncommitted",
        source="OpenMQ: Destination NumMsgsHeldInTransaction",
    ),
    Family(
        "mq_queue_ring_limit_messages",
        "gauge",
        "Ring size of the queue, in messages; absent when unlimited.",
        "queue",
        "ring_limit",
        source="Artemis: listQueues ringSize",
    ),
    Family(
        "mq_queue_ring_used_ratio",
        "gauge",
        "Ready messages over ring size; above 1 after the ring was made smaller; absent when unlimited or paging.",
        "queue",
        "ring_used_ratio",
        source="Artemis: messageCount, deliveringCount, scheduledCount, ringSize",
    ),
    Family(
        "mq_queue_expected_consumers",
        "gauge",
        "Consumers that the operator expects; absent when nothing is said.",
        "queue",
        "expected_consumers",
        source="rules of the configuration: expected_consumers",
    ),
    Family(
        "mq_queue_ring_retention_target_seconds",
        "gauge",
        "Time span that the ring should cover, in seconds; absent when nothing is said.",
        "queue",
        "ring_retention_target",
        source="rules of the configuration: ring_retention",
    ),
    Family(
        "mq_queue_drain_target_seconds",
        "gauge",
        "Time in which a backlog should be worked off, in seconds; absent when nothing is said.",
        "queue",
        "drain_target",
        source="rules of the configuration: drain_target",
    ),
)

HEALTH: Final = (
    Family(
        "mq_broker_unhealthy",
        "gauge",
        "Conditions of the broker itself, by cause: 1 warning, 2 critical.",
        "broker_cause",
        "unhealthy",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_address_unhealthy",
        "gauge",
        "Conditions of the address itself, by cause: 1 warning, 2 critical. mq_queue_unhealthy tells them too, of its"
        " queues.",
        "address_cause",
        "unhealthy",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_queue_unhealthy",
        "gauge",
        "Conditions that hold on the queue or its clients, by cause: 1 warning, 2 critical.",
        "queue_cause",
        "unhealthy",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_queue_notice",
        "gauge",
        "Conditions of the queue that only inform, by cause; always 1.",
        "queue_cause",
        "notice",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_queue_unhealthy_consumers",
        "gauge",
        "Number of its consumers with a condition.",
        "queue",
        "unhealthy_consumers",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_client_unhealthy_consumers",
        "gauge",
        "How many of the client's consumers are in the condition, by cause; at least 1.",
        "client_cause",
        "unhealthy_consumers",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_client_notice",
        "gauge",
        "Conditions of the client that only inform, by cause; always 1.",
        "client_cause",
        "notice",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_client_blocked_since_timestamp_seconds",
        "gauge",
        "Since when the longest blocked consumer of the client holds messages and settles none, in seconds since 1970;"
        " absent while none does.",
        "client",
        "blocked_since",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_client_patience_seconds",
        "gauge",
        "How long without progress is still normal for the client, learned from its gaps, in seconds.",
        "client",
        "patience",
        source="Penstock: its judgement",
    ),
    Family(
        "mq_client_starved_ratio",
        "gauge",
        "Share of the polls of the last five minutes, 0 to 1, at which messages waited and the client held none; absent"
        " for clients with selectors only.",
        "client",
        "starved",
        source="Penstock: ready messages, listConsumers messagesInTransit",
    ),
    Family(
        "mq_client_at_limit_ratio",
        "gauge",
        "Share of the polls of the last five minutes, 0 to 1, at which messages waited and every consumer of the client"
        " held some: none took more. Absent for clients with selectors only.",
        "client",
        "at_limit",
        source="Penstock: ready messages, listConsumers messagesInTransit",
    ),
    Family(
        "mq_queue_messages_evicted_total",
        "counter",
        "Messages removed unread to keep a limit, since the start of the broker, by reason: ring or last_value; on"
        " OpenMQ since the agent watches, at least so many.",
        "eviction",
        "evicted",
        source="Penstock: its account of messagesAdded, messagesAcked, messagesExpired, messagesKilled, messageCount",
    ),
    Family(
        "mq_account_messages_total",
        "counter",
        "Messages that left or never reached a queue, by fate, since the agent first polled the queue; the lower bound"
        " where only bounds are known. The label queue is empty for fates before any queue.",
        "account",
        "messages",
        source="Penstock: its account of listAddresses, listProducers and listQueues; OpenMQ: of NumMsgsIn, NumMsgsOut,"
        " NumMsgs, NumMsgsHeldInTransaction and getConsumerInfo",
    ),
    Family(
        "mq_account_uncertain_messages",
        "gauge",
        "By how many messages a fate may be above mq_account_messages_total; absent where that is exact, and where no"
        " upper bound is known.",
        "account",
        "uncertain",
        source="Penstock: its account",
    ),
    Family(
        "mq_account_unexplained_messages",
        "gauge",
        "Messages that no fate of the account explains at three polls; absent while there are none.",
        "queue",
        "unexplained",
        source="Penstock: its account",
    ),
    Family(
        "mq_queue_messages_lost_by_consumer_total",
        "counter",
        "Evicted messages that a client gave back by a close or a rollback, at least; the label client is empty for"
        " those of which only the sum over clients is known.",
        "ring_loser",
        "lost",
        source="Penstock: its account, listConsumers messagesInTransit",
    ),
    Family(
        "mq_queue_ring_oversize_since_timestamp_seconds",
        "gauge",
        "Since when more messages are ready than the ring allows, in seconds since 1970; else absent.",
        "queue",
        "ring_oversize_since",
        source="Penstock: ready messages, ringSize",
    ),
    Family(
        "mq_queue_ring_at_risk_messages",
        "gauge",
        "Messages that would be lost if every consumer went away now without acknowledging; absent while paging.",
        "queue",
        "ring_at_risk",
        source="Penstock: messageCount, scheduledCount, ringSize",
    ),
    Family(
        "mq_queue_ring_scheduled_at_risk_messages",
        "gauge",
        "Scheduled messages that would find no room if they fell due now; absent while paging.",
        "queue",
        "ring_scheduled_at_risk",
        source="Penstock: scheduledCount, ready messages, ringSize",
    ),
    Family(
        "mq_queue_ring_retention_seconds",
        "gauge",
        "Time span that the ring covers at the present rate of arrivals, in seconds; absent without arrivals.",
        "queue",
        "ring_retention",
        source="Penstock: ringSize, messagesAdded",
    ),
    Family(
        "mq_queue_ring_overflow_seconds",
        "gauge",
        "Time until the ring starts to evict at the present rates, in seconds; absent while it does not grow.",
        "queue",
        "ring_overflow",
        source="Penstock: ringSize, messagesAdded, messagesAcked",
    ),
    Family(
        "mq_queue_oldest_message_timestamp_seconds",
        "gauge",
        "When the oldest message came that is still there, in seconds since 1970. bound: not before earliest (the queue"
        " was empty then), not after latest (by order of arrival, or buffered since then; on OpenMQ also when the next"
        " one was sent, by its sender's clock); a bound that is not known is absent.",
        "oldest",
        "at",
        source="Penstock: history of messagesAdded, messageCount, listConsumers messagesInTransit; OpenMQ:"
        " NextMessageID",
    ),
    Family(
        "mq_queue_drain_seconds",
        "gauge",
        "Time to empty at the rates of the last five minutes, in seconds; absent while nothing is ready, nothing is"
        " taken, or the backlog grows, and while the rates are unknown.",
        "queue",
        "drain",
        source="Penstock: messagesAdded, messagesAcked",
    ),
    Family(
        "mq_queue_consumer_capacity_ratio",
        "gauge",
        "Share of the polls of the last five minutes, 0 to 1, at which a consumer had room or nothing waited; absent"
        " without consumers.",
        "queue",
        "capacity",
        source="Penstock: ready messages, listConsumers messagesInTransit",
    ),
    Family(
        "mq_queue_buffer_imbalance_ratio",
        "gauge",
        "Gini coefficient of what its consumers hold, 0 to 1; absent below two consumers.",
        "queue",
        "imbalance",
        source="Penstock: listConsumers messagesInTransit",
    ),
)

CLIENT: Final = (
    Family(
        "mq_client_consumers",
        "gauge",
        "Number of consumers that the client has on the queue.",
        "client",
        "consumers",
        source="Artemis: listConsumers; OpenMQ: getConsumerInfo",
    ),
    Family(
        "mq_client_buffered_messages",
        "gauge",
        "Messages delivered to the client and not yet acknowledged.",
        "client",
        "buffered",
        source="Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks",
    ),
    Family(
        "mq_client_buffered_bytes",
        "gauge",
        "Size of the messages delivered to the client and not yet acknowledged, in bytes.",
        "client",
        "buffered_bytes",
        source="Artemis: listConsumers messagesInTransitSize",
    ),
    Family(
        "mq_client_uncommitted_messages",
        "gauge",
        "Messages that the client acknowledged in a transaction not yet committed.",
        "client",
        "uncommitted",
        source="Artemis: listConsumers messagesAcknowledgedAwaitingCommit",
    ),
    Family(
        "mq_client_delivered_messages_total",
        "counter",
        "Messages delivered to the client, over all its consumers ever polled.",
        "client",
        "delivered",
        source="Artemis: listConsumers messagesDelivered; OpenMQ: getConsumerInfo NumMsgs",
    ),
    Family(
        "mq_client_acknowledged_messages_total",
        "counter",
        "Messages that left the hands of the client, over all its consumers ever polled.",
        "client",
        "acknowledged",
        source="Artemis: listConsumers messagesAcknowledged; OpenMQ: getConsumerInfo NumMsgs - NumMsgsPendingAcks",
    ),
)

PRODUCER: Final = (
    Family(
        "mq_client_produced_messages_total",
        "counter",
        "Messages that the client sent to the address, over all its producers ever polled.",
        "producer",
        "produced",
        source="Artemis: listProducers msgSent; OpenMQ: getProducerInfo NumMsgs",
    ),
)

CONSUMER: Final = (
    Family(
        "mq_consumer_buffered_messages",
        "gauge",
        "Messages delivered to the consumer and not yet acknowledged; for the worst consumers only.",
        "consumer",
        "buffered",
        source="Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks",
    ),
    Family(
        "mq_consumer_buffered_bytes",
        "gauge",
        "Size of the messages delivered to the consumer and not yet acknowledged, in bytes; for the worst consumers"
        " only.",
        "consumer",
        "buffered_bytes",
        source="Artemis: listConsumers messagesInTransitSize",
    ),
    Family(
        "mq_consumer_last_delivery_timestamp_seconds",
        "gauge",
        "Last delivery to the consumer, in seconds since 1970, corrected for skew; absent when never.",
        "consumer",
        "last_delivery",
        source="Artemis: listConsumers lastDeliveredTime",
    ),
    Family(
        "mq_consumer_last_acknowledgement_timestamp_seconds",
        "gauge",
        "Last acknowledgement of the consumer, in seconds since 1970, corrected for skew; absent when never.",
        "consumer",
        "last_acknowledgement",
        source="Artemis: listConsumers lastAcknowledgedTime; OpenMQ: getConsumerInfo LastAckTime",
    ),
    Family(
        "mq_consumer_flow_paused",
        "gauge",
        "1 while the broker waits for this consumer to ask for more messages; usual under load, no alarm by itself.",
        "consumer",
        "flow_paused",
        source="OpenMQ: getConsumerInfo FlowPaused",
    ),
    Family(
        "mq_consumer_flow_limit_messages",
        "gauge",
        "Messages at which delivery to the consumer stops, as measured from outside; absent until known.",
        "consumer",
        "flow_limit",
        source="OpenMQ: getConsumerInfo NumMsgs at each pause",
    ),
    Family(
        "mq_consumer_flow_resume_messages",
        "gauge",
        "Messages in the client at which it asks for more, as measured from outside; absent until known.",
        "consumer",
        "flow_resume",
        source="OpenMQ: getConsumerInfo NumMsgs at each pause",
    ),
)

CONNECTION: Final = (
    Family(
        "mq_connection_info",
        "info",
        "Whose connection it is; always 1; for the worst connections only.",
        "connection",
        "info",
        ("protocol", "user", "remote_host"),
        source="Artemis: listConnections; OpenMQ: Connection User, Host",
    ),
    Family(
        "mq_connection_buffered_messages",
        "gauge",
        "Messages delivered over the connection and not yet acknowledged; for the worst connections only.",
        "connection",
        "buffered",
        source="Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks",
    ),
    Family(
        "mq_connection_buffered_bytes",
        "gauge",
        "Size of the messages delivered over the connection and not yet acknowledged, in bytes; for the worst"
        " connections only.",
        "connection",
        "buffered_bytes",
        source="Artemis: listConsumers messagesInTransitSize",
    ),
    Family(
        "mq_connection_consumers",
        "gauge",
        "Number of consumers on the connection; for the worst connections only.",
        "connection",
        "consumers",
        source="Artemis: listSessions consumerCount; OpenMQ: Connection NumConsumers",
    ),
    Family(
        "mq_connection_producers",
        "gauge",
        "Number of producers on the connection; for the worst connections only.",
        "connection",
        "producers",
        source="Artemis: listSessions producerCount; OpenMQ: Connection NumProducers",
    ),
    Family(
        "mq_connection_sessions",
        "gauge",
        "Number of sessions on the connection; for the worst connections only.",
        "connection",
        "sessions",
        source="Artemis: listConnections sessionCount",
    ),
    Family(
        "mq_connection_unhealthy",
        "gauge",
        "Conditions of the connection, by cause; always 1. connection_paused: the client uses up its flow limit.",
        "connection_cause",
        "unhealthy",
        source="Penstock: its judgement",
    ),
)

LINK: Final = (
    Family(
        "mq_link_up",
        "gauge",
        "1 while the bridge, cluster connection, mirror or federation is connected, else 0.",
        "link",
        "up",
        source="Artemis: Connected, Started, consumerCount of its queue",
    ),
    Family(
        "mq_link_pending_messages",
        "gauge",
        "Messages that wait to cross the link.",
        "link",
        "pending",
        source="Artemis: messageCount of its queue",
    ),
)

TREND: Final = (
    Family(
        "mq_trend_timestamp_seconds",
        "gauge",
        "When the trend job last ran, in seconds since 1970; all mq_trend_ and mq_forecast_ metrics are as of then.",
        "trend_run",
        "timestamp",
        source="the trend job",
    ),
    Family(
        "mq_forecast_messages",
        "gauge",
        "Largest hourly mean of messages expected within the horizon (1d, 7d); bound: mean, or low and high"
        " of what holds 95 % of what comes. Only where the forecast did better than repeating last week.",
        "trend_forecast",
        "messages",
        source="the trend job",
    ),
    Family(
        "mq_trend_traffic_growth_ratio",
        "gauge",
        "Growth of what is added to the queue per week, relative to the last week; absent without a clear trend.",
        "trend_queue",
        "growth",
        source="the trend job",
    ),
    Family(
        "mq_trend_ring_loss_ratio",
        "gauge",
        "Share of the messages added to the ring that it threw away unread, over the window of the trend job.",
        "trend_queue",
        "ring_loss",
        source="the trend job",
    ),
    Family(
        "mq_forecast_limit_seconds",
        "gauge",
        "Time until the broker meets its limit (memory, disk) if it grows on, in seconds. bound: low is the earliest,"
        " high the latest; +Inf when it will not; absent without a clear trend.",
        "trend_limit",
        "seconds",
        source="the trend job",
        unbounded=True,
    ),
)

FINDING: Final = (
    Family(
        "mq_config_finding",
        "gauge",
        "What in settings or use will hurt; always 1. scope: broker, address, queue, client or connection; object: its"
        " name, of a client QUEUE/CLIENT; rule: which one, see docs/findings.md.",
        "finding",
        "finding",
        source="Penstock: its rules over settings and use",
    ),
)

POLLING: Final = (
    Family(
        "penstock_poll_duration_seconds",
        "gauge",
        "How long the last poll of the broker took, in seconds.",
        "broker",
        "poll_duration",
        source="Penstock",
    ),
    Family(
        "penstock_poll_timestamp_seconds",
        "gauge",
        "When the data shown was read, in seconds since 1970 by the clock of the agent.",
        "broker",
        "poll_timestamp",
        source="Penstock",
    ),
    Family(
        "penstock_polls_total",
        "counter",
        "Polls of the broker by result: ok, partial, failed or skipped.",
        "poll",
        "polls",
        source="Penstock",
    ),
    Family(
        "penstock_collector_success",
        "gauge",
        "1 when the collector, one part of a poll, succeeded at the last poll, else 0.",
        "collector",
        "success",
        source="Penstock",
    ),
    Family(
        "penstock_collector_duration_seconds",
        "gauge",
        "How long the collector took at the last poll, in seconds.",
        "collector",
        "duration",
        source="Penstock",
    ),
    Family(
        "penstock_undecided_clients",
        "gauge",
        "Clients of the broker of which nothing can be said yet: seen at fewer than three polls, or what the rules"
        " need was not read.",
        "broker",
        "undecided_clients",
        source="Penstock: its judgement",
    ),
    Family("penstock_series", "gauge", "Series shown for the broker.", "broker", "series", source="Penstock"),
    Family(
        "penstock_series_dropped",
        "gauge",
        "Series of the broker held back by the series budget.",
        "broker",
        "series_dropped",
        source="Penstock",
    ),
    Family(
        "penstock_rows_dropped",
        "gauge",
        "Queues, addresses, consumers, connections, sessions and producers of the broker that are not read, as there"
        " are more than its budgets allow.",
        "broker",
        "rows_dropped",
        source="Penstock",
    ),
)

AGENT: Final = (
    Family(
        "penstock_build_info",
        "info",
        "Which Penstock this is; always 1.",
        "agent",
        "build_info",
        ("version", "revision", "pythonversion"),
        source="Penstock",
    ),
    Family(
        "penstock_config_last_reload_successful",
        "gauge",
        "1 when the last (re)load of the configuration succeeded, else 0.",
        "agent",
        "config_last_reload_successful",
        source="Penstock",
    ),
    Family(
        "penstock_config_last_reload_success_timestamp_seconds",
        "gauge",
        "Last successful (re)load of the configuration, in seconds since 1970.",
        "agent",
        "config_last_reload_success_timestamp",
        source="Penstock",
    ),
    Family(
        "penstock_config_reload_failures_total",
        "counter",
        "Reloads of the configuration that failed; the old one stayed in force.",
        "agent",
        "config_reload_failures",
        source="Penstock",
    ),
    Family(
        "penstock_logins_refused_total",
        "counter",
        "Requests to Penstock that came with a wrong user or password.",
        "agent",
        "logins_refused",
        source="Penstock",
    ),
    Family(
        "penstock_logins_unchecked_total",
        "counter",
        "Requests to Penstock that were answered 429, as too many passwords waited to be checked.",
        "agent",
        "logins_unchecked",
        source="Penstock",
    ),
    Family(
        "penstock_state_save_success",
        "gauge",
        "1 when state file, journal and log of changes were last read and written, else 0; absent before a save.",
        "agent",
        "state_save_success",
        source="Penstock",
    ),
    Family(
        "penstock_brokers",
        "gauge",
        "Brokers that this agent watches: those configured and those found, of its shard.",
        "agent",
        "brokers",
        source="Penstock",
    ),
    Family(
        "penstock_discovery_failures_total",
        "counter",
        "How often a source of brokers (a name in DNS, a file) could not be used; what was known before stays.",
        "agent",
        "discovery_failures",
        source="Penstock",
    ),
    Family(
        "penstock_discovery_faults",
        "gauge",
        "Sources of brokers (a name in DNS, a file) that cannot be used now; the log and `penstock check` name them.",
        "agent",
        "discovery_faults",
        source="Penstock",
    ),
    Family(
        "penstock_history_success",
        "gauge",
        "1 when the history could be spooled and published at the last try, else 0; absent without history.",
        "agent",
        "history_success",
        source="Penstock",
    ),
    Family(
        "penstock_history_publish_timestamp_seconds",
        "gauge",
        "Last successful publication of the history, in seconds since 1970; absent before the first.",
        "agent",
        "history_publish_timestamp",
        source="Penstock",
    ),
    Family(
        "penstock_history_polls_dropped_total",
        "counter",
        "Polls that the history lost: its writer was behind, or its spool could not be written.",
        "agent",
        "history_dropped_polls",
        source="Penstock",
    ),
    Family(
        "penstock_history_segments_dropped_total",
        "counter",
        "Parts of the spool, some minutes of polls each, thrown away unpublished to stay below its limit.",
        "agent",
        "history_dropped_segments",
        source="Penstock",
    ),
    Family(
        "penstock_history_segments_damaged_total",
        "counter",
        "Parts of the spool of which some polls could not be read, nor published; they are kept in spool/_damaged.",
        "agent",
        "history_damaged_segments",
        source="Penstock",
    ),
    Family(
        "mq_broker_labels",
        "gauge",
        "The labels of the broker's configuration or target, each as `label_NAME`; always 1, absent without labels.",
        "agent",
        "broker_labels",
        ("broker",),
        source="Penstock",
    ),
)

CATALOGUE: Final[tuple[Family, ...]] = (
    *BROKER,
    *ADDRESS,
    *QUEUE,
    *HEALTH,
    *CLIENT,
    *PRODUCER,
    *CONSUMER,
    *CONNECTION,
    *LINK,
    *TREND,
    *FINDING,
    *POLLING,
    *AGENT,
)
"""All families, in the order in which a body shows them."""
