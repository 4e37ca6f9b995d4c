"""What a reader gives beside queues and consumers: connections, producers, and the settings of addresses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conditions.things import Things
from penstock.core.table import Keys, Table
from penstock.model import ConnectionRow, ProducerRow

Said = Mapping[str, Any]

DEFAULT_SETTINGS = {
    "max_delivery_attempts": 10.0,
    "non_destructive": 0.0,
    "makes_dead_letter_queues": 0.0,
    "makes_expiry_queues": 0.0,
    "slow_consumer_kills": 0.0,
    "slow_consumer_period": 5.0,
    "expiry_delay": -1.0,
    "paused": 0.0,
    "paging": 0.0,
}
"""Of an address for which an Artemis broker has no settings of its own."""
UNKNOWN = "-1"
"""The connection of a consumer of which it was not read."""


@dataclass
class Connected:
    """The connections of consumers and producers, which keep their keys from poll to poll."""

    connections: Things = field(default_factory=Things)
    producers: Things = field(default_factory=Things)

    def again(self) -> "Connected":
        """As a reader has them of another process of the broker."""
        return Connected(self.connections.again(), self.producers.again())

    def key_of(self, connection: str) -> int:
        """-1 of one that is not known."""
        return -1 if connection == UNKNOWN else self.connections.key(connection)

    def connection_table(
        self, consumers: Said, producers: Said
    ) -> Table[ConnectionRow]:
        """One row for each connection that a consumer or a producer names."""
        rows: dict[str, ConnectionRow] = {}
        numbers: dict[str, dict[str, float]] = {}
        sessions: dict[str, set[str]] = {}
        for kind, things in (("consumers", consumers), ("producers", producers)):
            for name, said in things.items():
                connection = connection_of(name, said)
                if connection == UNKNOWN:
                    continue
                rows.setdefault(connection, connection_row(connection, said))
                counts = numbers.setdefault(
                    connection, {"consumers": 0.0, "producers": 0.0}
                )
                counts[kind] += 1
                sessions.setdefault(connection, set()).add(session_of(name, said))
        for connection, names in sessions.items():
            numbers[connection]["sessions"] = float(len(names))
        return self.connections.table(rows, numbers, {})

    def keys_of(self, things: Said, names: Iterable[str]) -> Keys:
        """Of the connections of these consumers or producers."""
        return np.array(
            [self.key_of(connection_of(name, things[name])) for name in names], np.int64
        )

    def producer_table(self, producers: Said) -> Table[ProducerRow]:
        rows = {name: producer_row(name, said) for name, said in producers.items()}
        numbers = {
            name: {"produced": float(said.get("produced", 0))}
            for name, said in producers.items()
        }
        return self.producers.table(rows, numbers, {})


def connection_of(name: str, said: Said) -> str:
    """Where nothing is said, each has a connection of its own; a number is a name, too."""
    return str(said.get("connection", f"connection of {name}"))


def session_of(name: str, said: Said) -> str:
    return str(said.get("session", f"s{name}"))


def connection_row(connection: str, said: Said) -> ConnectionRow:
    protocol = str(said.get("protocol", "CORE"))
    return ConnectionRow(
        connection, str(said.get("client", "app")), protocol, user="u", remote_host="h"
    )


def producer_row(name: str, said: Said) -> ProducerRow:
    return ProducerRow(
        name,
        str(said["address"]),
        str(said.get("client", "app")),
        session_of(name, said),
    )
