"""Addresses (OpenMQ: destinations): the numbers that brokers send for each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, Metric, RowT, Unit, imported, measured


class AddressColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (addresses,), in the order of the stored history.

    A new column goes to the end. On Artemis settings are those of the queues on the address;
    they are read one by one, seldom (`settings_stamp`). On Classic limit_percent and
    memory_bytes are read as seldom.
    """

    THING = "address"

    delivering = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages with a consumer and not acknowledged; a topic's message counts once"
        " however many consumers have it.",
        openmq="NumMsgsPendingAcks - NumMsgsInDelayDelivery - NumMsgsHeldInTransaction",
    )
    scheduled = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages whose delivery time has not come.",
        openmq="NumMsgsInDelayDelivery",
    )
    uncommitted = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages sent in open transactions; messages does not count them.",
        openmq="NumMsgsHeldInTransaction",
    )
    removed = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that left for whatever reason since the start of the broker.",
        openmq="NumMsgsOut",
    )
    added_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages routed in since the start of the broker.",
        openmq="MsgBytesIn",
    )
    removed_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages that left since the start of the broker.",
        openmq="MsgBytesOut",
    )
    message_limit_bytes = measured(
        Kind.SETTING,
        Unit.BYTES,
        "The largest message that is accepted; NaN for no limit.",
        openmq="MaxBytesPerMsg",
    )
    max_producers = measured(
        Kind.SETTING,
        Unit.PRODUCERS,
        "The most producers that are accepted; NaN for no limit.",
        openmq="MaxNumProducers",
    )
    consumer_flow_limit = measured(
        Kind.SETTING,
        Unit.MESSAGES,
        "Messages sent to a consumer ahead of its acknowledgements; NaN for no limit.",
        openmq="ConsumerFlowLimit",
    )
    topic = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it is a topic.",
        openmq="Type",
        classic="destinationType of the MBean's name",
    )
    dead_letters = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether messages that are discarded go to the dead message queue.",
        openmq="UseDMQ",
    )
    exact = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the depths were read at this poll. Else messages is carried on from added"
        " and removed, delivering from the consumers, and the others are as last read.",
        openmq="the interval at which Penstock reads depths",
    )
    memory_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Memory taken by the messages of the address, in bytes.",
        artemis="AddressSize",
        openmq="TotalMsgBytes",
        request="listAddresses addressSize",
        classic="MemoryUsageByteCount",
        metric=Metric("mq_address_memory_bytes", omits="classic"),
    )
    limit_bytes = measured(
        Kind.SETTING,
        Unit.BYTES,
        "Limit of the address, in bytes; absent when unlimited.",
        artemis="maxSizeBytes of its settings",
        openmq="MaxTotalMsgBytes",
        classic="MemoryLimit",
        metric=Metric("mq_address_limit_bytes", omits="classic"),
    )
    limit_messages = measured(
        Kind.SETTING,
        Unit.MESSAGES,
        "Limit of the address, in messages; absent when unlimited.",
        artemis="maxSizeMessages of its settings",
        openmq="MaxNumMsgs",
        metric="mq_address_limit_messages",
    )
    messages_added = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages routed in since the start of the broker.",
        artemis="RoutedMessageCount",
        openmq="NumMsgsIn",
        request="listAddresses routedMessageCount",
        classic="EnqueueCount",
        metric=Metric("mq_address_messages_added_total", omits="classic"),
    )
    messages_unrouted = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages accepted and given to no queue since the start of the broker.",
        artemis="UnRoutedMessageCount",
        request="listAddresses unroutedMessageCount",
        metric="mq_address_messages_unrouted_total",
    )
    pages = measured(
        Kind.COUNT,
        Unit.PAGES,
        "Number of page files of the address.",
        artemis="NumberOfPages",
        request="listAddresses numberOfPages",
        metric="mq_address_pages",
    )
    page_read_limit_bytes = measured(
        Kind.SETTING,
        Unit.BYTES,
        "Size of the messages of page files that are read ahead of their delivery at most.",
        artemis="MaxPageReadBytes",
        request="listAddresses maxPageReadBytes",
    )
    page_read_limit_messages = measured(
        Kind.SETTING,
        Unit.MESSAGES,
        "Messages of page files that are read ahead of their delivery at most.",
        artemis="MaxPageReadMessages",
        request="listAddresses maxPageReadMessages",
    )
    messages_dropped = imported(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that a full address dropped.",
    )
    messages_rejected = imported(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that a full address refused.",
    )
    messages = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages in the address: of an OpenMQ topic its own count, elsewhere the sum over"
        " its queues.",
        artemis="listQueues messageCount",
        openmq="NumMsgs",
        metric="mq_address_messages",
    )
    producers = measured(
        Kind.COUNT,
        Unit.PRODUCERS,
        "Number of producers on the address.",
        artemis="listProducers",
        openmq="NumProducers",
        classic="ProducerCount",
        metric=Metric("mq_address_producers", omits="classic"),
    )
    consumers = measured(
        Kind.COUNT,
        Unit.CONSUMERS,
        "Number of consumers on the address.",
        openmq="NumConsumers",
        classic="ConsumerCount",
    )
    max_delivery_attempts = measured(
        Kind.SETTING,
        Unit.TIMES,
        "Deliveries of a message before it is a dead letter; -1 for any number.",
        artemis="maxDeliveryAttempts of its settings",
        request="getAddressSettingsAsJSON maxDeliveryAttempts",
    )
    non_destructive = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether new queues on it keep what is acknowledged.",
        artemis="defaultNonDestructive of its settings",
        request="getAddressSettingsAsJSON defaultNonDestructive",
    )
    makes_dead_letter_queues = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the broker creates a queue for its dead letters when the first one comes.",
        artemis="autoCreateDeadLetterResources of its settings",
        request="getAddressSettingsAsJSON autoCreateDeadLetterResources",
    )
    makes_expiry_queues = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the broker creates a queue for its expired messages when the first one"
        " comes.",
        artemis="autoCreateExpiryResources of its settings",
        request="getAddressSettingsAsJSON autoCreateExpiryResources",
    )
    slow_consumer_kills = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the broker closes the connection of a slow consumer.",
        artemis="slowConsumerPolicy of its settings",
        request="getAddressSettingsAsJSON slowConsumerPolicy",
    )
    slow_consumer_rate = measured(
        Kind.REAL,
        Unit.MESSAGES_PER_SECOND,
        "Rate below which a consumer is slow; NaN where the broker does not watch.",
        artemis="slowConsumerThreshold of its settings",
        request="getAddressSettingsAsJSON slowConsumerThreshold",
    )
    slow_consumer_period = measured(
        Kind.REAL,
        Unit.SECONDS,
        "Time between two checks for slow consumers.",
        artemis="slowConsumerCheckPeriod of its settings",
        request="getAddressSettingsAsJSON slowConsumerCheckPeriod",
    )
    expiry_delay = measured(
        Kind.REAL,
        Unit.MILLISECONDS,
        "Time after which a message without a time to live expires; negative for never.",
        artemis="expiryDelay of its settings",
        request="getAddressSettingsAsJSON expiryDelay",
    )
    memory_used_ratio = measured(
        Kind.REAL,
        Unit.RATIO,
        "Used share of the memory limit of the address; 1 is full, more is possible.",
        artemis="AddressLimitPercent",
        openmq="TotalMsgBytes over MaxTotalMsgBytes",
        classic="MemoryUsageByteCount over MemoryLimit",
        metric=Metric("mq_address_memory_used_ratio", omits="classic"),
    )
    limit_percent = measured(
        Kind.PERCENT,
        Unit.PERCENT,
        "The broker's own figure for how full it is, whichever limit is the nearest.",
        artemis="AddressLimitPercent",
        classic="MemoryPercentUsage",
        request="listAddresses addressLimitPercent",
    )
    paging = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while the address is in the paging state, which a full address with policy drop"
        " or fail shows too.",
        artemis="Paging",
        request="listAddresses paging",
        metric="mq_address_paging",
    )
    paused = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while an operator holds the consumers of the whole address.",
        artemis="Paused",
        openmq="State 1 or 3",
        request="listAddresses paused",
        classic="Paused",
        metric=Metric("mq_address_paused", omits="classic"),
    )
    producers_paused = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while an operator holds the producers of the address.",
        artemis="BlockedViaManagement",
        openmq="State 2 or 3",
        metric="mq_address_producers_paused",
    )
    producers_blocked = imported(
        Kind.FLAG,
        Unit.FLAG,
        "Whether producers waited for a limit.",
    )
    internal = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it belongs to the broker itself.",
        openmq="Name",
    )
    temporary = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it is temporary.",
        artemis="temporary of listAddresses",
        openmq="Temporary",
        classic="destinationType of the MBean's name",
    )
    retroactive = imported(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it keeps messages for queues that are created later.",
    )
    blocked_producers = measured(
        Kind.COUNT,
        Unit.PRODUCERS,
        "Producers that the broker makes wait now.",
        classic="ProducerBlocked of its producers",
    )
    page_limit_messages = measured(
        Kind.SETTING,
        Unit.MESSAGES,
        "Messages in page files beyond which page_full_policy applies; -1 for no limit.",
        artemis="pageLimitMessages of its settings",
        request="getAddressSettingsAsJSON pageLimitMessages",
    )
    page_limit_pages = measured(
        Kind.REAL,
        Unit.PAGES,
        "Page files beyond which page_full_policy applies; NaN for no limit.",
        artemis="pageLimitBytes over pageSizeBytes of its settings",
        request="getAddressSettingsAsJSON pageLimitBytes",
    )
    settings_stamp = measured(
        Kind.REAL,
        Unit.TIMESTAMP,
        "When its settings were last read, by the agent's clock; NaN where they never were.",
        artemis="the agent's clock",
        openmq="the agent's clock",
        classic="the agent's clock",
    )
