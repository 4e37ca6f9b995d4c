"""The log of changes: the last events of brokers and of the agent, in the state database."""

import heapq
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from penstock.agent.packed import decompressed
from penstock.agent.saved_events import (
    AGENT_KEPT,
    KEPT,
    EventQuery,
    agent_event_bodies,
    broker_event_bodies,
    insert_events,
    insert_missing_events,
)
from penstock.agent.state_database import StateDatabase
from penstock.insight.events import Event

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
            self._database.write(
                lambda connection: insert_missing_events(connection, candidates)
            )

    def last(
        self, limit: int, *, since: float = 0.0, broker: str = "", queue: str = ""
    ) -> list[Event]:
        """Return the newest events, oldest first: at most `limit` that happened at `since` or later.

        An empty `broker` or `queue` means any. Where an event is damaged, the database is set aside.
        """
        query = EventQuery(limit, since, broker, queue)
        try:
            return self._last(query)
        except (ValueError, TypeError) as error:
            self._database.set_aside(f"has an event that {error}")
            return []

    def _last(self, query: EventQuery) -> list[Event]:
        """Raises ValueError, TypeError: an event is damaged."""
        of_brokers = self._database.read(
            lambda connection: broker_event_bodies(connection, query)
        )
        of_agent = self._database.read(
            lambda connection: agent_event_bodies(connection, query)
        )
        # A broker's events are written when it has been rendered: later events of others may be written before.
        merged = heapq.merge(
            _decoded(of_brokers), _decoded(of_agent), key=attrgetter("time")
        )
        return list(merged)[-query.limit :]


def decode_event(content: bytes) -> Event:
    """Return the event that is written so as JSON. Raises ValueError: it is none."""
    # Of bytes that are no UTF-8 msgspec raises UnicodeDecodeError, which is a ValueError, as its own errors are.
    try:
        return _decode_json(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _decoded(bodies: Iterable[bytes]) -> Iterator[Event]:
    for body in bodies:
        yield decode_event(decompressed(body))
