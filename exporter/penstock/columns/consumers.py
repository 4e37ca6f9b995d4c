"""Consumers: the numbers that brokers send for each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, Metric, RowT, Unit, imported, measured


class ConsumerColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (consumers,), in the order of the stored history.

    A new column goes to the end.
    """

    THING = "consumer"

    buffered = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages delivered to the consumer and not yet acknowledged.",
        artemis="listConsumers messagesInTransit",
        openmq="getConsumerInfo NumMsgsPendingAcks",
        classic="DispatchedQueueSize",
        metric=(
            Metric(
                "mq_consumer_buffered_messages",
                help="Messages delivered to the consumer and not yet acknowledged; for the"
                " worst consumers only.",
            ),
            Metric(
                "mq_client_buffered_messages",
                help="Messages delivered to the client and not yet acknowledged.",
            ),
            Metric(
                "mq_connection_buffered_messages",
                help="Messages delivered over the connection and not yet acknowledged; for"
                " the worst connections only.",
            ),
        ),
    )
    buffered_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages delivered to the consumer and not yet acknowledged, in bytes.",
        artemis="listConsumers messagesInTransitSize",
        metric=(
            Metric(
                "mq_consumer_buffered_bytes",
                help="Size of the messages delivered to the consumer and not yet"
                " acknowledged, in bytes; for the worst consumers only.",
            ),
            Metric(
                "mq_client_buffered_bytes",
                help="Size of the messages delivered to the client and not yet"
                " acknowledged, in bytes.",
            ),
            Metric(
                "mq_connection_buffered_bytes",
                help="Size of the messages delivered over the connection and not yet"
                " acknowledged, in bytes; for the worst connections only.",
            ),
        ),
    )
    delivered = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages delivered to the consumer since it was created.",
        artemis="listConsumers messagesDelivered",
        openmq="getConsumerInfo NumMsgs",
        classic="DispatchedCounter",
        metric=Metric(
            "mq_client_delivered_messages_total",
            help="Messages delivered to the client, over all its consumers ever polled.",
        ),
    )
    acknowledged = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that left the consumer's buffer since it was created, for whatever reason.",
        artemis="listConsumers messagesAcknowledged",
        openmq="getConsumerInfo NumMsgs - NumMsgsPendingAcks",
        classic="DequeueCounter",
        metric=Metric(
            "mq_client_acknowledged_messages_total",
            help="Messages that the client acknowledged, also uncommitted and rolled back,"
            " over all its consumers ever polled: each acknowledgement counts when it is"
            " made. mq_queue_messages_acknowledged_total is true at commit.",
        ),
    )
    awaiting_commit = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages acknowledged in a transaction that is not committed.",
        artemis="listConsumers messagesAcknowledgedAwaitingCommit",
        metric=Metric(
            "mq_client_uncommitted_messages",
            help="Messages that the client acknowledged in a transaction not yet committed.",
        ),
    )
    flow_limit = imported(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages at which delivery to the consumer stops.",
    )
    flow_resume = imported(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages in the client at which it asks for more.",
    )
    waiting = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages taken for the consumer and not sent to it yet.",
        openmq="getConsumerInfo NumMsgsPending",
    )
    acknowledge_mode = measured(
        Kind.SETTING,
        Unit.NONE,
        "An `AcknowledgeMode`.",
        openmq="getConsumerInfo AcknowledgeMode",
    )
    created = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When the consumer was created.",
        openmq="getConsumerInfo CreationTime",
    )
    last_delivery = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When a message was last delivered to the consumer; NaN for never.",
        artemis="listConsumers lastDeliveredTime",
        metric=Metric(
            "mq_consumer_last_delivery_timestamp_seconds",
            help="Last delivery to the consumer, in seconds since 1970, corrected for skew;"
            " absent when never.",
        ),
    )
    last_acknowledgement = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When the consumer last acknowledged a message; NaN for never.",
        artemis="listConsumers lastAcknowledgedTime",
        openmq="getConsumerInfo LastAckTime",
        metric=Metric(
            "mq_consumer_last_acknowledgement_timestamp_seconds",
            help="Last acknowledgement of the consumer, in seconds since 1970, corrected for"
            " skew; absent when never.",
        ),
    )
    flow_paused = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while the broker waits for this consumer to ask for more messages; usual under"
        " load, no alarm by itself.",
        openmq="getConsumerInfo FlowPaused",
        metric="mq_consumer_flow_paused",
    )
    orphaned = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether its session is gone; the column is missing while no consumer is orphaned.",
        artemis="status of listConsumers is Orphaned",
    )
    leaving = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it is no longer listed, and the next listing must confirm that it is gone;"
        " the column is missing while no consumer is leaving.",
        artemis="absence from listConsumers",
    )
    transaction_begun = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "Begin of the oldest transaction that is open on its connection; NaN for none.",
        classic="the clock less OldestActiveTransactionDuration",
    )
