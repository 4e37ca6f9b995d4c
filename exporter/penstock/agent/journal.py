"""The log of changes: the last events of brokers and of the agent, in the state database."""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from penstock.agent.packed import checksummed, decompressed
from penstock.agent.state_database import StateDatabase
from penstock.insight.events import Event

KEPT = 10_000
"""Events of brokers that are kept."""
AGENT_KEPT = 1_000
"""Events of the agent itself that are kept; operators and clients of the server cause them."""

_decode_json = msgspec.json.Decoder(Event).decode


class Journal:
    """Added to and read by any thread."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    def verify(self) -> None:
        """Read all events once; where one is damaged, the database is set aside."""
        self.last(KEPT + AGENT_KEPT)

    def add(self, events: Iterable[Event]) -> bool:
        """Whether there were any."""
        new = list(events)
        if new:
            self._database.write(lambda connection: insert_events(connection, new))
        return bool(new)

    def add_missing(self, events: Iterable[Event]) -> None:
        """Add those that are not in the log yet."""
        candidates = list(events)
        if candidates:
            self._database.write(lambda connection: insert_missing_events(connection, candidates))

    def last(self, limit: int, *, since: float = 0.0, broker: str = "", queue: str = "") -> list[Event]:
        """Return the newest events, oldest first: at most `limit` that happened at `since` or later.

        An empty `broker` or `queue` means any. Where an event is damaged, the database is set aside.
        """
        try:
            return self._last(limit, since, broker, queue)
        except ValueError as error:
            self._database.set_aside(f"has an event that {error}")
            return []

    def _last(self, limit: int, since: float, broker: str, queue: str) -> list[Event]:
        of_brokers = self._database.read(lambda connection: _broker_events(connection, limit, since, broker, queue))
        of_agent: list[bytes] = []
        if not broker and not queue:
            of_agent = self._database.read(lambda connection: _agent_events(connection, limit, since))
        # A broker's events are written when it has been rendered: later events of others may be written before.
        merged = heapq.merge(_decoded(of_brokers), _decoded(of_agent), key=attrgetter("time"))
        return list(merged)[-limit:]


def insert_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Add the events, and remove the oldest beyond the limits. Raises sqlite3.Error."""
    for event in events:
        body = checksummed(msgspec.json.encode(event))
        if event.broker:
            row = (event.time, event.broker, event.queue, body)
            connection.execute("INSERT INTO event(time, broker, queue, body) VALUES (?, ?, ?, ?)", row)
        else:
            connection.execute("INSERT INTO agent_event(time, body) VALUES (?, ?)", (event.time, body))
    # The ids have no gaps: events are removed from the oldest on, and a new one gets the next id.
    connection.execute("DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (KEPT,))
    connection.execute("DELETE FROM agent_event WHERE id <= (SELECT max(id) FROM agent_event) - ?", (AGENT_KEPT,))


def insert_missing_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Add those that are not there yet. Raises sqlite3.Error."""
    insert_events(connection, [event for event in events if not _has_event(connection, event)])


def _has_event(connection: sqlite3.Connection, event: Event) -> bool:
    table = "event" if event.broker else "agent_event"
    body = checksummed(msgspec.json.encode(event))
    query = f"SELECT 1 FROM {table} WHERE time = ? AND body = ?"  # noqa: S608 - one of two names
    return connection.execute(query, (event.time, body)).fetchone() is not None


def _broker_events(connection: sqlite3.Connection, limit: int, since: float, broker: str, queue: str) -> list[bytes]:
    """Return the newest bodies, oldest first."""
    rows = connection.execute(
        "SELECT body FROM event WHERE time >= :since"
        " AND (:broker = '' OR broker = :broker) AND (:queue = '' OR queue = :queue)"
        " ORDER BY time DESC, id DESC LIMIT :limit",
        {"since": since, "broker": broker, "queue": queue, "limit": limit},
    ).fetchall()
    return [body for (body,) in reversed(rows)]


def _agent_events(connection: sqlite3.Connection, limit: int, since: float) -> list[bytes]:
    """Return the newest bodies, oldest first."""
    rows = connection.execute(
        "SELECT body FROM agent_event WHERE time >= ? ORDER BY time DESC, id DESC LIMIT ?", (since, limit)
    ).fetchall()
    return [body for (body,) in reversed(rows)]


def _decoded(bodies: Iterable[bytes]) -> Iterator[Event]:
    for body in bodies:
        yield decode_event(decompressed(body))


def decode_event(content: bytes) -> Event:
    """Return the event that is written so as JSON. Raises ValueError: it is none."""
    # Of bytes that are no UTF-8 msgspec raises UnicodeDecodeError, which is a ValueError, as its own errors are.
    try:
        return _decode_json(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
