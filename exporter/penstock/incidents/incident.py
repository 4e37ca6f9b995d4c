"""What an incident is, and a group of conditions that becomes one.

The *root* is the condition, or the full, paused or common thing, from which the others follow. *Victims* are the
conditions that follow from it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeAlias

from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.wording import Cause
from penstock.core import formatting
from penstock.core.table import Positions

Key: TypeAlias = tuple[str, str, str, str]
"""Identifies a condition: its name, address, queue and client."""
SHOWN = 5
"""Clients, victims and changes that a text names; it counts the rest."""
some = partial(formatting.some, most=SHOWN)
key_of: Callable[[ActiveCondition], Key] = attrgetter(
    "name", "address", "queue", "client"
)


@dataclass(frozen=True, slots=True)
class Incident:
    """One root and everything that comes of it."""

    id: str
    """Stays the same over polls, over restarts of the agent and while the incident grows."""
    kind: str
    """The condition that is the root, or what is full, paused or common to several clients."""
    broker: str
    object: str
    """The broker, address, client or queue that is the root."""
    severity: str
    begin: float
    """Seconds since 1970."""
    title: str
    impact: Sequence[str] = ()
    messages: float = 0.0
    """On the queues that the incident concerns."""
    rate: float = 0.0
    """Growth of `messages` per second."""
    oldest: float | None = None
    """Seconds: the oldest message has waited for at least so long."""
    who: Sequence[Mapping[str, str]] = ()
    """Clients, each with its host, connection, protocol and user."""
    causes: Sequence[Cause] = ()
    advice: Sequence[str] = ()
    victims: Sequence[str] = ()
    """The first of `victim_count`."""
    victim_count: int = 0
    changed: Sequence[tuple[float, str]] = ()
    """What changed shortly before `begin`, and when."""
    root: Key = ("", "", "", "")
    """The condition that began first; empty where the root is no condition."""
    members: Sequence[Key] = ()
    """All conditions of the incident."""
    places: Sequence[tuple[str, str]] = ()
    """Address and name of the queues that it concerns beside those of its conditions, the first 50."""
    size: int = 0
    """Conditions, where those of an address count once, and clients that suffer without a condition."""
    missed: int = 0
    """Polls since the root went."""
    stale: float | None = None
    """When the broker was polled last; None while it can be polled."""


@dataclass(slots=True)
class Group:
    """A root with the conditions that belong to it; becomes an incident."""

    kind: str
    what: str
    """The broker, address, client or queue that is the root."""
    begin: float
    own: list[ActiveCondition] = field(default_factory=list)
    """Conditions that are the root, or that say why it is there."""
    victims: list[ActiveCondition] = field(default_factory=list)
    """Conditions that come of the root."""
    blocked: Collection[str] = ()
    """Clients that suffer without a condition."""
    consumers: Positions | tuple[()] = ()
    """Rows of the consumers that are the root."""
    places: AbstractSet[tuple[str, str]] = frozenset()
    """Address and name of the queues that it concerns beside those of its conditions."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """By the name under which the texts refer to them."""
    measured: bool = False
    """Whether the root is a number and no condition, so that two polls must agree on it."""

    @property
    def conditions(self) -> list[ActiveCondition]:
        return self.own + self.victims

    @property
    def severity(self) -> Severity:
        """Return the highest severity of the conditions.

        Clients that suffer without a condition make it critical, and a measured root makes it a warning at least.
        """
        severities = [condition.severity for condition in self.conditions]
        if self.blocked:
            severities.append(Severity.CRITICAL)
        if self.measured:
            severities.append(Severity.WARNING)
        return max(severities, default=Severity.INFO)

    @property
    def members(self) -> list[Key]:
        return [key_of(condition) for condition in self.conditions]
