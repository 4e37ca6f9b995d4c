"""The broker itself: the numbers that it sends, which are fields of `model.Broker`."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, Metric, RowT, Unit, measured


class BrokerColumns(Frame[RowT], Generic[RowT]):
    """One number each, in the order of the fields. The history stores them as real numbers.

    Memory is that of messages.
    """

    THING = "broker"

    clock = measured(
        Kind.REAL,
        Unit.TIMESTAMP,
        "The broker's clock at the poll; NaN when it shows none.",
        artemis="CurrentTimeMillis",
        openmq="time of the answer",
        classic="StartTime and Uptime of the Java runtime",
    )
    uptime = measured(
        Kind.REAL,
        Unit.SECONDS,
        "Time since the start of the broker's process; it falls only with a restart.",
        artemis="UptimeMillis",
        openmq="Uptime of the Java runtime",
        classic="Uptime of the Java runtime",
    )
    connections = measured(
        Kind.COUNT,
        Unit.CONNECTIONS,
        "Number of client connections.",
        artemis="ConnectionCount",
        openmq="ConnectionManager NumConnections",
        classic="CurrentConnectionsCount",
        metric=Metric("mq_broker_connections", omits="classic"),
    )
    memory_used_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Memory taken by messages, in bytes.",
        artemis="AddressMemoryUsage",
        openmq="DestinationManager TotalMsgBytes",
        classic="MemoryPercentUsage of MemoryLimit",
        metric=Metric("mq_broker_memory_used_bytes", omits="classic"),
    )
    memory_limit_bytes = measured(
        Kind.SETTING,
        Unit.BYTES,
        "Memory that messages may take, in bytes; absent when unlimited.",
        artemis="GlobalMaxSize",
        openmq="DestinationManager MaxTotalMsgBytes",
        classic="MemoryLimit",
        metric=Metric("mq_broker_memory_limit_bytes", omits="classic"),
    )
    disk_used_ratio = measured(
        Kind.REAL,
        Unit.RATIO,
        "Used share of the disk that holds the journal, 0 to 1.",
        artemis="DiskStoreUsage",
        classic="StorePercentUsage",
        metric=Metric("mq_broker_disk_used_ratio", omits="classic"),
    )
    disk_limit_ratio = measured(
        Kind.REAL,
        Unit.RATIO,
        "Share of the disk, 0 to 1, at which the broker blocks every producer.",
        artemis="MaxDiskUsage",
        metric="mq_broker_disk_limit_ratio",
    )
    authentication_failures = measured(
        Kind.COUNT,
        Unit.NONE,
        "Refused logins of clients since the start of the broker.",
        artemis="AuthenticationFailureCount",
        metric="mq_broker_authentication_failures_total",
    )
    sessions_made = measured(
        Kind.COUNT,
        Unit.SESSIONS,
        "Sessions that were created since the start of the broker.",
        artemis="TotalSessionCount",
    )
    unguarded = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether the account may read messages, which an exporter must not; NaN until tried.",
        artemis="FirstMessageAge of an empty queue",
    )
    heap_used_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Java heap in use, in bytes, what is not collected yet included.",
        openmq="JVM TotalMemory less FreeMemory",
        metric="mq_broker_heap_used_bytes",
    )
    heap_limit_bytes = measured(
        Kind.SETTING,
        Unit.BYTES,
        "Largest Java heap, in bytes.",
        openmq="JVM MaxMemory",
        metric="mq_broker_heap_limit_bytes",
    )
    resource_state = measured(
        Kind.STATE,
        Unit.NONE,
        "How short of heap the broker says it is: 0 green, 1 yellow, 2 orange, 3 red; it"
        " slows producers down from 1 on and refuses them at 3.",
        openmq="Broker ResourceState",
        metric="mq_broker_resource_state",
    )
