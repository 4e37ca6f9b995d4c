"""The catalogue: every metric, once.

HELP and TYPE lines, the renderer, `docs/metrics.md` and the lint of dashboards and alerts all read it. A new metric is
one entry, and a column where its `place` says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
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
    "worker": ("worker",),
    "agent": (),
}
"""Table → the labels of each of its families: attributes of its row objects, by the same name, in this order."""


_UNIT: Final = re.compile("_((timestamp_)?seconds|messages)$")


@cache
def place_of(name: str) -> str:
    """As most names say it: `mq_TABLE_COLUMN`, of the agent `penstock_COLUMN`; a unit may stand behind."""
    stem = name.removesuffix("_total")
    if stem.startswith("penstock_"):
        return f"agent.{stem.removeprefix('penstock_')}"
    table, _, column = stem.removeprefix("mq_").partition("_")
    return f"{table}.{_UNIT.sub('', column)}"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    name: as in the text format, its type in it: `_total` is a counter, `_info` an info, any other a gauge.
    help: what it is and in which unit, as sentences.
    source: where the broker shows it, in words.
    at: its `place` where the name does not say it.
    labels: attributes of the row objects that become labels beside the table's own.
    unbounded: +Inf is a value of it; of any other family it is none, as NaN.
    """

    name: str
    help: str
    source: str = "Penstock"
    at: str = field(default="", kw_only=True)
    labels: tuple[str, ...] = field(default=(), kw_only=True)
    unbounded: bool = field(default=False, kw_only=True)

    @property
    def type(self) -> FamilyType:
        return "counter" if self.name.endswith("_total") else "info" if self.name.endswith("_info") else "gauge"

    @property
    def place(self) -> str:
        """`table.column` where its values stand; NaN = no sample. An info family has 1 where it applies."""
        return self.at or place_of(self.name)

    @property
    def table(self) -> str:
        return self.place.partition(".")[0]

    @property
    def column(self) -> str:
        return self.place.partition(".")[2]

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels of a sample, in their order."""
        return TABLES[self.table] + self.labels

    @property
    def documentation(self) -> str:
        """The text of HELP."""
        return f"{self.help} Source: {self.source}."


CATALOGUE: Final[tuple[Family, ...]] = (
    # --- broker
    Family("mq_up", "1 when the last poll reached the broker, else 0.", "Penstock: the poll", at="broker.up"),
    Family("mq_broker_info",
           "Identity of the broker; always 1. kind: artemis or openmq; product_version: its name in the vendor's"
           " product line; node_id: the same for both brokers of a failover pair; role: active or passive.",
           "Artemis: Version, NodeID, Active; OpenMQ: Broker Version, host and port of the port mapper",
           labels=("kind", "version", "product_version", "node_id", "role")),
    Family("mq_broker_start_timestamp_seconds",
           "Start of the broker, which is the epoch of its counters, in seconds since 1970.",
           "Artemis: UptimeMillis; OpenMQ: StartTime of the Java runtime"),
    Family("mq_broker_clock_skew_seconds",
           "Clock of the broker minus clock of the agent, smoothed, in seconds; other times are already corrected by"
           " it.", "Artemis: CurrentTimeMillis; OpenMQ: time of the answer"),
    Family("mq_broker_connections", "Number of client connections.",
           "Artemis: ConnectionCount; OpenMQ: ConnectionManager NumConnections"),
    Family("mq_broker_memory_used_bytes", "Memory taken by messages, in bytes.",
           "Artemis: AddressMemoryUsage; OpenMQ: DestinationManager TotalMsgBytes"),
    Family("mq_broker_memory_limit_bytes", "Memory that messages may take, in bytes; absent when unlimited.",
           "Artemis: GlobalMaxSize; OpenMQ: DestinationManager MaxTotalMsgBytes"),
    Family("mq_broker_disk_used_ratio", "Used share of the disk that holds the journal, 0 to 1.",
           "Artemis: DiskStoreUsage"),
    Family("mq_broker_disk_limit_ratio", "Share of the disk, 0 to 1, at which the broker blocks every producer.",
           "Artemis: MaxDiskUsage"),
    Family("mq_broker_authentication_failures_total", "Refused logins of clients since the start of the broker.",
           "Artemis: AuthenticationFailureCount"),
    Family("mq_broker_prepared_transactions",
           "Distributed (XA) transactions that are prepared and not decided; at most 1,000 are read.",
           "Artemis: listPreparedTransactions; OpenMQ: getTransactionInfo"),
    Family("mq_broker_heap_used_bytes", "Java heap in use, in bytes, what is not collected yet included.",
           "OpenMQ: JVM TotalMemory less FreeMemory"),
    Family("mq_broker_heap_limit_bytes", "Largest Java heap, in bytes.", "OpenMQ: JVM MaxMemory"),
    Family("mq_broker_resource_state",
           "How short of heap the broker says it is: 0 green, 1 yellow, 2 orange, 3 red; it slows producers down from"
           " 1 on and refuses them at 3.", "OpenMQ: Broker ResourceState"),
    # --- addresses
    Family("mq_address_info",
           "What the address does when it is full; always 1. policy: page, block, drop, fail, flow_control,"
           " remove_oldest, remove_low_priority or reject_newest.",
           "Artemis: addressFullMessagePolicy of its settings; OpenMQ: LimitBehavior", labels=("policy",)),
    Family("mq_address_memory_bytes", "Memory taken by the messages of the address, in bytes.",
           "Artemis: AddressSize; OpenMQ: TotalMsgBytes"),
    Family("mq_address_memory_used_ratio",
           "Used share of the memory limit of the address; 1 is full, more is possible.",
           "Artemis: AddressLimitPercent; OpenMQ: TotalMsgBytes over MaxTotalMsgBytes"),
    Family("mq_address_limit_bytes", "Limit of the address, in bytes; absent when unlimited.",
           "Artemis: maxSizeBytes of its settings; OpenMQ: MaxTotalMsgBytes"),
    Family("mq_address_limit_messages", "Limit of the address, in messages; absent when unlimited.",
           "Artemis: maxSizeMessages of its settings; OpenMQ: MaxNumMsgs", at="address.limit_messages"),
    Family("mq_address_messages",
           "Messages in the address: of an OpenMQ topic its own count, elsewhere the sum over its queues.",
           "Artemis: listQueues messageCount; OpenMQ: NumMsgs"),
    Family("mq_address_messages_added_total", "Messages routed in since the start of the broker.",
           "Artemis: RoutedMessageCount; OpenMQ: NumMsgsIn"),
    Family("mq_address_messages_rejected_total",
           "Messages that a full address, or one that takes none so large, refused since the agent watches; on"
           " Artemis of an address with policy fail and one queue, at least so many.",
           "Artemis: RoutedMessageCount less messagesAdded while full; OpenMQ: NumMsgsIn less NumMsgsOut, NumMsgs and"
           " NumMsgsHeldInTransaction"),
    Family("mq_address_messages_dropped_total",
           "Messages that a full address with policy drop and one queue threw away since the agent watches, at least"
           " so many.", "Artemis: RoutedMessageCount less messagesAdded while full"),
    Family("mq_address_messages_unrouted_total",
           "Messages accepted and given to no queue since the start of the broker.", "Artemis: UnRoutedMessageCount"),
    Family("mq_address_paging",
           "1 while the address is in the paging state, which a full address with policy drop or fail shows too.",
           "Artemis: Paging"),
    Family("mq_address_paused", "1 while an operator holds the consumers of the whole address.",
           "Artemis: Paused; OpenMQ: State 1 or 3"),
    Family("mq_address_producers_paused", "1 while an operator holds the producers of the address.",
           "Artemis: BlockedViaManagement; OpenMQ: State 2 or 3"),
    Family("mq_address_producers_blocked",
           "1 while producers wait for a limit: that of the address, or memory or disk of the broker; 0 while an"
           " operator holds them.", "Penstock: its judgement"),
    Family("mq_address_pages", "Number of page files of the address.", "Artemis: NumberOfPages"),
    Family("mq_address_producers", "Number of producers on the address.",
           "Artemis: listProducers; OpenMQ: NumProducers"),
    # --- queues
    Family("mq_queue_info",
           "What the queue is; always 1. kind: user, dead_letter, expiry, temporary, subscription, internal, link or"
           " retroactive; ring_source, where its ring size is set: queue, address, none or ambiguous; owner and team:"
           " from the rules of the configuration.",
           "Artemis: listQueues, address settings; OpenMQ: Type, Temporary; Penstock: configuration",
           labels=("routing_type", "durable", "kind", "ring_source", "owner", "team")),
    Family("mq_queue_dead_letter_info", "Where dead letters and expired messages of the queue go; always 1.",
           "Artemis: DeadLetterAddress, ExpiryAddress; OpenMQ: UseDMQ",
           labels=("dead_letter_address", "expiry_address")),
    Family("mq_queue_messages", "Messages in the queue, as the broker itself counts them.",
           "Artemis: listQueues messageCount; OpenMQ: NumMsgs"),
    Family("mq_queue_ready_messages",
           "Messages that wait for a consumer, page files included; absent for non-destructive queues.",
           "Artemis: messageCount - deliveringCount - scheduledCount, for a last-value queue messageCount -"
           " scheduledCount; OpenMQ: NumMsgs + NumMsgsHeldInTransaction - NumMsgsPendingAcks"),
    Family("mq_queue_delivering_messages", "Messages in the hands of consumers and not yet settled.",
           "Artemis: listQueues deliveringCount; OpenMQ: NumMsgsPendingAcks - NumMsgsInDelayDelivery -"
           " NumMsgsHeldInTransaction"),
    Family("mq_queue_scheduled_messages", "Messages whose delivery time has not come.",
           "Artemis: listQueues scheduledCount; OpenMQ: NumMsgsInDelayDelivery"),
    Family("mq_queue_bytes", "Size of the messages in the queue, in bytes.",
           "Artemis: PersistentSize; OpenMQ: TotalMsgBytes"),
    Family("mq_queue_consumers", "Number of consumers of the queue; browsers are none.",
           "Artemis: listQueues consumerCount; OpenMQ: NumConsumers"),
    Family("mq_queue_paused", "1 while an operator holds the consumers of the queue.",
           "Artemis: listQueues paused; OpenMQ: State 1 or 3"),
    Family("mq_queue_messages_added_total",
           "Messages added since the start of the broker; those reloaded at a start that the agent saw are not"
           " counted.", "Artemis: listQueues messagesAdded; OpenMQ: NumMsgsIn", at="queue.added"),
    Family("mq_queue_messages_acknowledged_total",
           "Messages acknowledged since the start of the broker; moved and single removed ones count.",
           "Artemis: listQueues messagesAcked", at="queue.acknowledged"),
    Family("mq_queue_messages_expired_total", "Messages expired since the start of the broker.",
           "Artemis: listQueues messagesExpired", at="queue.expired"),
    Family("mq_queue_messages_killed_total",
           "Messages given up since the start of the broker: delivered too often, rejected or purged.",
           "Artemis: listQueues messagesKilled", at="queue.killed"),
    Family("mq_queue_messages_removed_total",
           "Messages that left the queue for whatever reason since the start of the broker; of a topic's subscription"
           " what its consumers settled.",
           "OpenMQ: Destination NumMsgsOut, getConsumerInfo NumMsgs less NumMsgsPendingAcks", at="queue.removed"),
    Family("mq_queue_uncommitted_messages", "Messages sent in transactions that are still open; in no other count.",
           "OpenMQ: Destination NumMsgsHeldInTransaction"),
    Family("mq_queue_ring_limit_messages", "Ring size of the queue, in messages; absent when unlimited.",
           "Artemis: listQueues ringSize"),
    Family("mq_queue_ring_used_ratio",
           "Ready messages over ring size; above 1 after the ring was made smaller; absent when unlimited or paging.",
           "Artemis: messageCount, deliveringCount, scheduledCount, ringSize"),
    Family("mq_queue_expected_consumers", "Consumers that the operator expects; absent when nothing is said.",
           "rules of the configuration: expected_consumers"),
    Family("mq_queue_ring_retention_target_seconds",
           "Time span that the ring should cover, in seconds; absent when nothing is said.",
           "rules of the configuration: ring_retention"),
    Family("mq_queue_drain_target_seconds",
           "Time in which a backlog should be worked off, in seconds; absent when nothing is said.",
           "rules of the configuration: drain_target"),
    # --- health
    Family("mq_broker_unhealthy", "Conditions of the broker itself, by cause: 1 warning, 2 critical.",
           "Penstock: its judgement", at="broker_cause.unhealthy"),
    Family("mq_address_unhealthy",
           "Conditions of the address itself, by cause: 1 warning, 2 critical. mq_queue_unhealthy tells them too, of"
           " its queues.", "Penstock: its judgement", at="address_cause.unhealthy"),
    Family("mq_queue_unhealthy", "Conditions that hold on the queue or its clients, by cause: 1 warning, 2 critical.",
           "Penstock: its judgement", at="queue_cause.unhealthy"),
    Family("mq_queue_notice", "Conditions of the queue that only inform, by cause; always 1.",
           "Penstock: its judgement", at="queue_cause.notice"),
    Family("mq_queue_unhealthy_consumers", "Number of its consumers with a condition.", "Penstock: its judgement"),
    Family("mq_client_unhealthy_consumers",
           "How many of the client's consumers are in the condition, by cause; at least 1.", "Penstock: its judgement",
           at="client_cause.unhealthy_consumers"),
    Family("mq_client_notice", "Conditions of the client that only inform, by cause; always 1.",
           "Penstock: its judgement", at="client_cause.notice"),
    Family("mq_client_blocked_since_timestamp_seconds",
           "Since when the longest blocked consumer of the client holds messages and settles none, in seconds since"
           " 1970; absent while none does.", "Penstock: its judgement"),
    Family("mq_client_patience_seconds",
           "How long without progress is still normal for the client, learned from its gaps, in seconds.",
           "Penstock: its judgement"),
    Family("mq_client_starved_ratio",
           "Share of the polls of the last five minutes, 0 to 1, at which messages waited and the client held none;"
           " absent for clients with selectors only.", "Penstock: ready messages, listConsumers messagesInTransit",
           at="client.starved"),
    Family("mq_client_at_limit_ratio",
           "Share of the polls of the last five minutes, 0 to 1, at which messages waited and every consumer of the"
           " client held some: none took more. Absent for clients with selectors only.",
           "Penstock: ready messages, listConsumers messagesInTransit", at="client.at_limit"),
    Family("mq_queue_messages_evicted_total",
           "Messages removed unread to keep a limit, since the start of the broker, by reason: ring or last_value; on"
           " OpenMQ since the agent watches, at least so many.",
           "Penstock: its account of messagesAdded, messagesAcked, messagesExpired, messagesKilled, messageCount",
           at="eviction.evicted"),
    Family("mq_account_messages_total",
           "Messages that left or never reached a queue, by fate, since the agent first polled the queue; the lower"
           " bound where only bounds are known. The label queue is empty for fates before any queue.",
           "Penstock: its account of listAddresses, listProducers and listQueues; OpenMQ: of NumMsgsIn, NumMsgsOut,"
           " NumMsgs, NumMsgsHeldInTransaction and getConsumerInfo"),
    Family("mq_account_uncertain_messages",
           "By how many messages a fate may be above mq_account_messages_total; absent where that is exact, and where"
           " no upper bound is known.", "Penstock: its account"),
    Family("mq_account_unexplained_messages",
           "Messages that no fate of the account explains at three polls; absent while there are none.",
           "Penstock: its account", at="queue.unexplained"),
    Family("mq_queue_in_doubt_messages",
           "Messages of prepared transactions (XA) that no client has, at least: they wait for a commit or a"
           " rollback. Absent while there are none or it is not known.",
           "Penstock: its account of listPreparedTransactions, PreparedTransactionMessageCount, listConsumers"),
    Family("mq_queue_messages_lost_by_consumer_total",
           "Evicted messages that a client gave back by a close or a rollback, at least; the label client is empty"
           " for those of which only the sum over clients is known.",
           "Penstock: its account, listConsumers messagesInTransit", at="ring_loser.lost"),
    Family("mq_queue_ring_oversize_since_timestamp_seconds",
           "Since when more messages are ready than the ring allows, in seconds since 1970; else absent.",
           "Penstock: ready messages, ringSize"),
    Family("mq_queue_ring_at_risk_messages",
           "Messages that would be lost if every consumer went away now without acknowledging; absent while paging.",
           "Penstock: messageCount, scheduledCount, ringSize"),
    Family("mq_queue_ring_scheduled_at_risk_messages",
           "Scheduled messages that would find no room if they fell due now; absent while paging.",
           "Penstock: scheduledCount, ready messages, ringSize"),
    Family("mq_queue_ring_retention_seconds",
           "Time span that the ring covers at the present rate of arrivals, in seconds; absent without arrivals.",
           "Penstock: ringSize, messagesAdded"),
    Family("mq_queue_ring_overflow_seconds",
           "Time until the ring starts to evict at the present rates, in seconds; absent while it does not grow.",
           "Penstock: ringSize, messagesAdded, messagesAcked"),
    Family("mq_queue_oldest_message_timestamp_seconds",
           "When the oldest message came that is still there, in seconds since 1970. bound: not before earliest (the"
           " queue was empty then), not after latest (by order of arrival, or buffered since then; on OpenMQ also"
           " when the next one was sent, by its sender's clock); a bound that is not known is absent.",
           "Penstock: history of messagesAdded, messageCount, listConsumers messagesInTransit; OpenMQ: NextMessageID",
           at="oldest.at"),
    Family("mq_queue_drain_seconds",
           "Time to empty at the rates of the last five minutes, in seconds; absent while nothing is ready, nothing"
           " is taken, or the backlog grows, and while the rates are unknown.",
           "Penstock: messagesAdded, messagesAcked"),
    Family("mq_queue_consumer_capacity_ratio",
           "Share of the polls of the last five minutes, 0 to 1, at which a consumer had room or nothing waited;"
           " absent without consumers.", "Penstock: ready messages, listConsumers messagesInTransit",
           at="queue.capacity"),
    Family("mq_queue_buffer_imbalance_ratio",
           "Gini coefficient of what its consumers hold, 0 to 1; absent below two consumers.",
           "Penstock: listConsumers messagesInTransit", at="queue.imbalance"),
    # --- clients
    Family("mq_client_consumers", "Number of consumers that the client has on the queue.",
           "Artemis: listConsumers; OpenMQ: getConsumerInfo"),
    Family("mq_client_buffered_messages", "Messages delivered to the client and not yet acknowledged.",
           "Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks"),
    Family("mq_client_buffered_bytes",
           "Size of the messages delivered to the client and not yet acknowledged, in bytes.",
           "Artemis: listConsumers messagesInTransitSize"),
    Family("mq_client_uncommitted_messages",
           "Messages that the client acknowledged in a transaction not yet committed.",
           "Artemis: listConsumers messagesAcknowledgedAwaitingCommit"),
    Family("mq_client_delivered_messages_total",
           "Messages delivered to the client, over all its consumers ever polled.",
           "Artemis: listConsumers messagesDelivered; OpenMQ: getConsumerInfo NumMsgs"),
    Family("mq_client_acknowledged_messages_total",
           "Messages that left the hands of the client, over all its consumers ever polled.",
           "Artemis: listConsumers messagesAcknowledged; OpenMQ: getConsumerInfo NumMsgs - NumMsgsPendingAcks"),
    # --- producers
    Family("mq_client_produced_messages_total",
           "Messages that the client sent to the address, over all its producers ever polled.",
           "Artemis: listProducers msgSent; OpenMQ: getProducerInfo NumMsgs", at="producer.produced"),
    # --- consumers
    Family("mq_consumer_buffered_messages",
           "Messages delivered to the consumer and not yet acknowledged; for the worst consumers only.",
           "Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks"),
    Family("mq_consumer_buffered_bytes",
           "Size of the messages delivered to the consumer and not yet acknowledged, in bytes; for the worst"
           " consumers only.", "Artemis: listConsumers messagesInTransitSize"),
    Family("mq_consumer_last_delivery_timestamp_seconds",
           "Last delivery to the consumer, in seconds since 1970, corrected for skew; absent when never.",
           "Artemis: listConsumers lastDeliveredTime"),
    Family("mq_consumer_last_acknowledgement_timestamp_seconds",
           "Last acknowledgement of the consumer, in seconds since 1970, corrected for skew; absent when never.",
           "Artemis: listConsumers lastAcknowledgedTime; OpenMQ: getConsumerInfo LastAckTime"),
    Family("mq_consumer_flow_paused",
           "1 while the broker waits for this consumer to ask for more messages; usual under load, no alarm by"
           " itself.", "OpenMQ: getConsumerInfo FlowPaused"),
    Family("mq_consumer_flow_limit_messages",
           "Messages at which delivery to the consumer stops, as measured from outside; absent until known.",
           "OpenMQ: getConsumerInfo NumMsgs at each pause"),
    Family("mq_consumer_flow_resume_messages",
           "Messages in the client at which it asks for more, as measured from outside; absent until known.",
           "OpenMQ: getConsumerInfo NumMsgs at each pause"),
    # --- connections
    Family("mq_connection_info", "Whose connection it is; always 1; for the worst connections only.",
           "Artemis: listConnections; OpenMQ: Connection User, Host", labels=("protocol", "user", "remote_host")),
    Family("mq_connection_buffered_messages",
           "Messages delivered over the connection and not yet acknowledged; for the worst connections only.",
           "Artemis: listConsumers messagesInTransit; OpenMQ: getConsumerInfo NumMsgsPendingAcks"),
    Family("mq_connection_buffered_bytes",
           "Size of the messages delivered over the connection and not yet acknowledged, in bytes; for the worst"
           " connections only.", "Artemis: listConsumers messagesInTransitSize"),
    Family("mq_connection_consumers", "Number of consumers on the connection; for the worst connections only.",
           "Artemis: listSessions consumerCount; OpenMQ: Connection NumConsumers"),
    Family("mq_connection_producers", "Number of producers on the connection; for the worst connections only.",
           "Artemis: listSessions producerCount; OpenMQ: Connection NumProducers"),
    Family("mq_connection_sessions", "Number of sessions on the connection; for the worst connections only.",
           "Artemis: listConnections sessionCount"),
    Family("mq_connection_unhealthy",
           "Conditions of the connection, by cause; always 1. connection_paused: the client uses up its flow limit.",
           "Penstock: its judgement", at="connection_cause.unhealthy"),
    # --- links
    Family("mq_link_up", "1 while the bridge, cluster connection, mirror or federation is connected, else 0.",
           "Artemis: Connected, Started, consumerCount of its queue"),
    Family("mq_link_pending_messages", "Messages that wait to cross the link.", "Artemis: messageCount of its queue"),
    # --- trends
    Family("mq_trend_timestamp_seconds",
           "When the trend job last ran, in seconds since 1970; all mq_trend_ and mq_forecast_ metrics are as of"
           " then.", "the trend job", at="trend_run.timestamp"),
    Family("mq_forecast_messages",
           "Largest hourly mean of messages expected within the horizon (1d, 7d); bound: mean, or low and high of"
           " what holds 95 % of what comes. Only where the forecast did better than repeating last week.",
           "the trend job", at="trend_forecast.messages"),
    Family("mq_trend_traffic_growth_ratio",
           "Growth of what is added to the queue per week, relative to the last week; absent without a clear trend.",
           "the trend job", at="trend_queue.growth"),
    Family("mq_trend_ring_loss_ratio",
           "Share of the messages added to the ring that it threw away unread, over the window of the trend job.",
           "the trend job", at="trend_queue.ring_loss"),
    Family("mq_forecast_limit_seconds",
           "Time until the broker meets its limit (memory, disk) if it grows on, in seconds. bound: low is the"
           " earliest, high the latest; +Inf when it will not; absent without a clear trend.", "the trend job",
           at="trend_limit.seconds", unbounded=True),
    # --- findings
    Family("mq_config_finding",
           "What in settings or use will hurt; always 1. scope: broker, address, queue, client or connection; object:"
           " its name, of a client QUEUE/CLIENT; rule: which one, see docs/findings.md.",
           "Penstock: its rules over settings and use", at="finding.finding"),
    # --- polling
    Family("penstock_poll_duration_seconds", "How long the last poll of the broker took, in seconds.",
           at="broker.poll_duration"),
    Family("penstock_poll_timestamp_seconds",
           "When the data shown was read, in seconds since 1970 by the clock of the agent.",
           at="broker.poll_timestamp"),
    Family("penstock_polls_total", "Polls of the broker by result: ok, partial, failed or skipped.", at="poll.polls"),
    Family("penstock_collector_success",
           "1 when the collector, one part of a poll, succeeded at the last poll, else 0.", at="collector.success"),
    Family("penstock_collector_duration_seconds", "How long the collector took at the last poll, in seconds.",
           at="collector.duration"),
    Family("penstock_undecided_clients",
           "Clients of the broker of which nothing can be said yet: seen at fewer than three polls, or what the rules"
           " need was not read.", "Penstock: its judgement", at="broker.undecided_clients"),
    Family("penstock_series", "Series shown for the broker.", at="broker.series"),
    Family("penstock_series_dropped", "Series of the broker held back by the series budget.",
           at="broker.series_dropped"),
    Family("penstock_rows_dropped",
           "Queues, addresses, consumers, connections, sessions and producers of the broker that are not read, as"
           " there are more than its budgets allow.", at="broker.rows_dropped"),
    Family("penstock_worker_up", "1 while the worker process runs and answers, else 0.", at="worker.up"),
    Family("penstock_worker_starts_total", "How often the worker process was started: once, unless it ended.",
           at="worker.starts"),
    Family("penstock_worker_unanswered_total", "Questions to the worker process that it did not answer in time.",
           at="worker.unanswered"),
    Family("penstock_worker_cpu_seconds_total",
           "CPU of the worker process, in seconds, which process_* does not count.", at="worker.cpu"),
    Family("penstock_worker_resident_memory_bytes",
           "Memory of the worker process, in bytes, which process_* does not count.", at="worker.memory"),
    # --- the agent itself
    Family("penstock_build_info", "Which Penstock this is; always 1.", labels=("version", "revision", "pythonversion")),
    Family("penstock_config_last_reload_successful",
           "1 when the last (re)load of the configuration succeeded, else 0."),
    Family("penstock_config_last_reload_success_timestamp_seconds",
           "Last successful (re)load of the configuration, in seconds since 1970.",
           at="agent.config_last_reload_success_timestamp"),
    Family("penstock_config_reload_failures_total",
           "Reloads of the configuration that failed; the old one stayed in force."),
    Family("penstock_logins_refused_total", "Requests to Penstock that came with a wrong user or password."),
    Family("penstock_logins_unchecked_total",
           "Requests to Penstock that were answered 429, as too many passwords waited to be checked."),
    Family("penstock_state_save_success",
           "1 when state file, journal and log of changes were last read and written, else 0; absent before a save."),
    Family("penstock_brokers", "Brokers that this agent watches: those configured and those found, of its shard."),
    Family("penstock_discovery_failures_total",
           "How often a source of brokers (a name in DNS, a file) could not be used; what was known before stays."),
    Family("penstock_discovery_faults",
           "Sources of brokers (a name in DNS, a file) that cannot be used now; the log and `penstock check` name"
           " them."),
    Family("penstock_history_success",
           "1 when the history could be spooled and published at the last try, else 0; absent without history."),
    Family("penstock_history_publish_timestamp_seconds",
           "Last successful publication of the history, in seconds since 1970; absent before the first.",
           at="agent.history_publish_timestamp"),
    Family("penstock_history_polls_dropped_total",
           "Polls that the history lost: its writer was behind, or its spool could not be written.",
           at="agent.history_dropped_polls"),
    Family("penstock_history_segments_dropped_total",
           "Parts of the spool, some minutes of polls each, thrown away unpublished to stay below its limit.",
           at="agent.history_dropped_segments"),
    Family("penstock_history_segments_damaged_total",
           "Parts of the spool of which some polls could not be read, nor published; they are kept in spool/_damaged.",
           at="agent.history_damaged_segments"),
    Family("mq_broker_labels",
           "The labels of the broker's configuration or target, each as `label_NAME`; always 1, absent without"
           " labels.", at="agent.broker_labels", labels=("broker",)),
)  # fmt: skip
"""All families, in the order in which a body shows them."""
AGENT: Final = tuple(family for family in CATALOGUE if family.table == "agent")
