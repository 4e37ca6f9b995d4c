"""Queues: the numbers that brokers send for each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, Metric, RowT, Unit, measured


class QueueColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (queues,), in the order of the stored history.

    A new column goes to the end. On OpenMQ a subscription of a topic is a queue, too: its
    messages hold those in delivery, and it has no added and no bytes.
    """

    THING = "queue"

    messages = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages in the queue, as the broker itself counts them.",
        artemis="listQueues messageCount",
        openmq="NumMsgs",
        classic="QueueSize",
        metric=Metric("mq_queue_messages", omits="classic"),
    )
    delivering = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages sent to consumers and not yet settled.",
        artemis="listQueues deliveringCount",
        openmq="NumMsgsPendingAcks - NumMsgsInDelayDelivery - NumMsgsHeldInTransaction",
        classic="InFlightCount",
        metric=Metric("mq_queue_delivering_messages", omits="classic"),
    )
    scheduled = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages whose delivery time has not come.",
        artemis="listQueues scheduledCount",
        openmq="NumMsgsInDelayDelivery",
        metric="mq_queue_scheduled_messages",
    )
    bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages in the queue, in bytes.",
        artemis="PersistentSize",
        openmq="TotalMsgBytes",
        classic="StoreMessageSize",
        metric=Metric("mq_queue_bytes", omits="classic"),
    )
    delivering_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages that are sent to consumers and not yet settled.",
        artemis="DeliveringSize",
    )
    consumers = measured(
        Kind.COUNT,
        Unit.CONSUMERS,
        "Number of consumers of the queue; browsers are none.",
        artemis="listQueues consumerCount",
        openmq="NumConsumers",
        classic="ConsumerCount",
        metric=Metric("mq_queue_consumers", omits="classic"),
    )
    added = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages added since the start of the broker; those reloaded at a start that the"
        " agent saw are not counted.",
        artemis="listQueues messagesAdded",
        openmq="NumMsgsIn",
        classic="EnqueueCount",
        metric="mq_queue_messages_added_total",
    )
    acknowledged = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages acknowledged since the start of the broker; moved and single removed ones"
        " count.",
        artemis="listQueues messagesAcked",
        metric="mq_queue_messages_acknowledged_total",
    )
    expired = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages expired since the start of the broker.",
        artemis="listQueues messagesExpired",
        classic="ExpiredCount",
        metric="mq_queue_messages_expired_total",
    )
    killed = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages killed since the start of the broker: delivered too often, rejected or"
        " purged.",
        artemis="listQueues messagesKilled",
        metric="mq_queue_messages_killed_total",
    )
    acknowledge_attempts = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Acknowledgements that consumers attempted since the start of the broker.",
        artemis="AcknowledgeAttempts",
    )
    ring_limit = measured(
        Kind.SETTING,
        Unit.MESSAGES,
        "Ring size of the queue, in messages; absent when unlimited.",
        artemis="listQueues ringSize",
        metric="mq_queue_ring_limit_messages",
    )
    max_consumers = measured(
        Kind.SETTING,
        Unit.CONSUMERS,
        "The most consumers that the queue accepts; -1 for any number.",
        artemis="listQueues maxConsumers",
    )
    consumers_before_dispatch = measured(
        Kind.SETTING,
        Unit.CONSUMERS,
        "Consumers that the queue waits for before it delivers.",
        artemis="listQueues consumersBeforeDispatch",
    )
    removed = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that left the queue for whatever reason since the start of the broker; of"
        " a topic's subscription what its consumers settled.",
        openmq="Destination NumMsgsOut, getConsumerInfo NumMsgs less NumMsgsPendingAcks",
        classic="DequeueCount",
        metric="mq_queue_messages_removed_total",
    )
    uncommitted = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages sent in transactions that are still open; in no other count.",
        openmq="Destination NumMsgsHeldInTransaction",
        metric="mq_queue_uncommitted_messages",
    )
    exact = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the depths were read at this poll; else they are carried on from the"
        " counters.",
        openmq="the interval at which Penstock reads depths",
    )
    paused = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while an operator holds the consumers of the queue.",
        artemis="listQueues paused",
        openmq="State 1 or 3",
        classic="Paused",
        metric=Metric("mq_queue_paused", omits="classic"),
    )
    last_value = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the queue keeps only the newest message of each key.",
        artemis="listQueues lastValue",
    )
    exclusive = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether one consumer gets all messages.",
        artemis="listQueues exclusive",
    )
    grouped = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether message groups are assigned again when a consumer joins.",
        artemis="listQueues groupRebalance",
    )
    enabled = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the queue accepts messages; an operator may disable it.",
        artemis="listQueues enabled",
    )
    has_dead_letter_address = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the queue has a dead-letter address; NaN until that is read.",
        artemis="DeadLetterAddress",
    )
    has_expiry_address = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the queue has an expiry address; NaN until that is read.",
        artemis="ExpiryAddress",
    )
    in_doubt = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that prepared transactions took; NaN where it was not asked.",
        artemis="PreparedTransactionMessageCount",
    )
    groups = measured(
        Kind.COUNT,
        Unit.GROUPS,
        "Message groups that the queue knows now; NaN where it was not asked.",
        artemis="GroupCount",
    )
    last_acknowledgement = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When a consumer of the subscription last acknowledged; NaN for never, and for"
        " queues.",
        openmq="getConsumerInfo LastAckTime",
    )
    next_sent = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When the message that is next in line was sent, by its sender's clock.",
        openmq="Destination NextMessageID, getConsumerInfo NextMessageID",
    )
    active_consumers = measured(
        Kind.COUNT,
        Unit.CONSUMERS,
        "Consumers that get messages; the others are backups. NaN for subscriptions.",
        openmq="NumActiveConsumers",
    )
