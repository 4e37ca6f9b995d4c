"""The tables `event` and `agent_event` of the state database, as SQL. Each function raises sqlite3.Error.

Events of the agent have a table of their own: what operators and clients of the server cause pushes no condition out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection

import msgspec

from penstock.agent.packed import checksummed
from penstock.insight.events import Event

KEPT = 10_000
"""Events of brokers that are kept."""
AGENT_KEPT = 1_000
"""Events of the agent itself that are kept."""


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The newest events, at most `limit`, that happened at `since` or later; an empty text means any."""

    limit: int
    since: float = 0.0
    broker: str = ""
    queue: str = ""


def insert_events(connection: Connection, events: Iterable[Event]) -> None:
    """Add the events, and delete the oldest beyond the limits."""
    for event in events:
        _insert_event(connection, event)
    # The ids have no gaps: events are deleted from the oldest on, and a new one gets the next id.
    connection.execute(
        "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (KEPT,)
    )
    connection.execute(
        "DELETE FROM agent_event WHERE id <= (SELECT max(id) FROM agent_event) - ?",
        (AGENT_KEPT,),
    )


def insert_missing_events(connection: Connection, events: Iterable[Event]) -> None:
    """Add the events that are not there yet."""
    missing = [event for event in events if not _has_event(connection, event)]
    insert_events(connection, missing)


def broker_event_bodies(connection: Connection, query: EventQuery) -> list[bytes]:
    """Return the bodies of events of brokers, the oldest first."""
    rows = connection.execute(
        "SELECT body FROM event WHERE time >= :since"
        " AND (:broker = '' OR broker = :broker)"
        " AND (:queue = '' OR queue = :queue)"
        " ORDER BY time DESC, id DESC LIMIT :limit",
        {
            "since": query.since,
            "broker": query.broker,
            "queue": query.queue,
            "limit": query.limit,
        },
    ).fetchall()
    return [body for (body,) in reversed(rows)]


def agent_event_bodies(connection: Connection, query: EventQuery) -> list[bytes]:
    """Return the bodies of events of the agent, the oldest first; none where a broker or queue is asked for."""
    if query.broker or query.queue:
        return []
    rows = connection.execute(
        "SELECT body FROM agent_event WHERE time >= ? ORDER BY time DESC, id DESC LIMIT ?",
        (query.since, query.limit),
    ).fetchall()
    return [body for (body,) in reversed(rows)]


def _insert_event(connection: Connection, event: Event) -> None:
    body = _body_of(event)
    if event.broker:
        connection.execute(
            "INSERT INTO event(time, broker, queue, body) VALUES (?, ?, ?, ?)",
            (event.time, event.broker, event.queue, body),
        )
    else:
        connection.execute(
            "INSERT INTO agent_event(time, body) VALUES (?, ?)", (event.time, body)
        )


def _has_event(connection: Connection, event: Event) -> bool:
    table = "event" if event.broker else "agent_event"
    row = connection.execute(
        f"SELECT 1 FROM {table} WHERE time = ? AND body = ?",  # noqa: S608 - one of two names
        (event.time, _body_of(event)),
    ).fetchone()
    return row is not None


def _body_of(event: Event) -> bytes:
    return checksummed(msgspec.json.encode(event))
