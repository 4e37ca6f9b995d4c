"""Connections of clients: the numbers that brokers send for each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, RowT, Unit, measured


class ConnectionColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (connections,), in the order of the stored history."""

    THING = "connection"

    sessions = measured(
        Kind.COUNT,
        Unit.SESSIONS,
        "Number of sessions on the connection; for the worst connections only.",
        artemis="listConnections sessionCount",
        metric="mq_connection_sessions",
    )
    consumers = measured(
        Kind.COUNT,
        Unit.CONSUMERS,
        "Number of consumers on the connection; for the worst connections only.",
        artemis="listSessions consumerCount",
        openmq="Connection NumConsumers",
        metric="mq_connection_consumers",
    )
    producers = measured(
        Kind.COUNT,
        Unit.PRODUCERS,
        "Number of producers on the connection; for the worst connections only.",
        artemis="listSessions producerCount",
        openmq="Connection NumProducers",
        metric="mq_connection_producers",
    )
