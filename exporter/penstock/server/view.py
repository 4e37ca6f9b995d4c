"""The server's view of the agent, and nothing more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from penstock.exposition.negotiate import FamilyFilter
from penstock.exposition.syntax import Format
from penstock.insight import answers
from penstock.insight.events import Event
from penstock.insight.lists import ListQuery


class Body(Protocol):
    def chunks(
        self, form: Format, *, gzip: bool, choice: FamilyFilter
    ) -> Iterator[bytes]: ...


class AgentView(Protocol):
    """The agent as the server sees it; nothing here waits for a broker, `reload` excepted.

    `reload` and `exposition` are used in the event loop, everything else from any thread. An empty broker means all, as
    any empty text does; `points`: each row with so many of its last values. NotFound: there is no such thing.
    """

    @property
    def exposition(self) -> Body: ...
    def masked_config(self) -> str: ...

    def links(self) -> Mapping[str, str]:
        """URLs by their text, with {broker}, {address}, {queue}, {client} and {condition} for names."""

    def brokers(self) -> Sequence[answers.BrokerState]: ...

    def ready(self) -> tuple[bool, str]:
        """Whether the first poll of every broker was tried, and in words what is waited for."""

    async def reload(self) -> None:
        """Read the configuration again, the web configuration too. ConfigError: it is refused and the old one stays."""

    def queues(
        self, broker: str, query: ListQuery, points: int = 0
    ) -> answers.QueueList: ...
    def clients(
        self, broker: str, query: ListQuery, points: int = 0
    ) -> answers.ClientList: ...
    def conditions(self, broker: str, query: ListQuery) -> answers.ConditionList: ...
    def incidents(self, broker: str, query: ListQuery) -> answers.IncidentList: ...
    def consumers(self, broker: str, query: ListQuery) -> answers.ConsumerList: ...
    def explain(
        self, broker: str, queue: str, address: str | None, client: str | None
    ) -> answers.Explanation: ...
    def account(self, broker: str, name: str) -> answers.AccountList: ...
    def client(self, broker: str, client: str) -> answers.ClientView: ...
    def recent(
        self, broker: str, queue: str, address: str | None, seconds: float = 0.0
    ) -> answers.Recent:
        """Return the course of a queue; "": of the broker. seconds: from the history; 0: the last hour in memory."""

    def thing(self, broker: str, kind: str, name: str) -> answers.ObjectView:
        """All about a broker, or its address or connection (`kind`) of this name. No broker: the cluster of `name`."""

    def clusters(self) -> Sequence[answers.ObjectView]: ...
    def events(
        self, *, since: float, limit: int, broker: str, queue: str
    ) -> Sequence[Event]:
        """The newest changes, at most `limit`, oldest first."""
