"""What the server must know of the agent, and nothing more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.exposition.choice import Choice
from penstock.exposition.syntax import Format
from penstock.flow.events import Event
from penstock.flow.lists import Listed, Wanted


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker as the status page shows it."""

    name: str
    kind: str
    version: str
    """Empty while unknown; so is the role."""
    role: str
    up: bool | None
    """Whether the last poll reached it; None before the first."""
    age: float | None
    """Seconds since the data shown; None while there is none."""
    error: str = ""
    """Why the last poll failed."""
    notes: tuple[str, ...] = ()
    """What this broker cannot give, and why."""
    findings: Sequence[Mapping[str, Any]] = ()
    """What in its settings and use will hurt, as plain values."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What it holds in all, and how many conditions are `critical` or `warning`; empty while nothing is known."""


class Body(Protocol):
    """The body of `/metrics`."""

    def chunks(self, form: Format, *, gzip: bool, choice: Choice) -> Iterator[bytes]: ...


class AgentView(Protocol):
    """
    The agent as the server sees it; nothing here waits for a broker, `reload` excepted.

    `reload` and `exposition` are used in the event loop, everything else is called from any thread.
    """

    @property
    def exposition(self) -> Body: ...

    def ready(self) -> tuple[bool, str]:
        """Whether the first poll of every broker was tried, and in words what is waited for."""

    async def reload(self) -> None:
        """Read the configuration anew. ConfigError: it is refused and the old one stays."""

    def masked_config(self) -> str:
        """The configuration in force as YAML without secrets."""

    def brokers(self) -> Sequence[BrokerState]:
        """The configured brokers, in the configuration's order."""

    def queues(self, broker: str, wanted: Wanted, points: int = 0) -> Listed:
        """
        Queues of this broker, of all when empty; with `points` each with so many of its last values.

        NotFound: there is no such broker.
        """

    def clients(self, broker: str, wanted: Wanted, points: int = 0) -> Listed:
        """As `queues`, the clients."""

    def conditions(self, broker: str, wanted: Wanted) -> Listed:
        """As `queues`, the conditions that hold, with evidence and advice."""

    def consumers(self, broker: str, wanted: Wanted) -> Listed:
        """As `queues`, the consumers."""

    def explain(self, broker: str, queue: str, address: str | None, client: str | None) -> dict[str, Any]:
        """All that is known of a queue as plain values. NotFound: no such broker, queue or client."""

    def client(self, broker: str, client: str) -> dict[str, Any]:
        """All that is known of a client over all queues. NotFound: no such broker or client."""

    def recent(self, broker: str, queue: str, address: str | None) -> dict[str, Any]:
        """The last hour of a queue, as it is kept in memory. NotFound: no such broker or queue."""

    def events(self, *, since: float, limit: int, broker: str, queue: str) -> Sequence[Event]:
        """The newest changes, at most `limit`, oldest first; an empty text means any."""
