"""What an incident is, and a group of conditions that becomes one."""

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
"""Condition, address, queue, client."""
SHOWN = 5
"""Names of clients, victims and changes that are named; the rest is counted."""
some = partial(formatting.some, most=SHOWN)
key_of: Callable[[ActiveCondition], Key] = attrgetter(
    "name", "address", "queue", "client"
)


@dataclass(frozen=True, slots=True)
class Incident:
    """One root and all that comes of it. id: the same over polls, restarts of the agent and growth. kind: the condition
    that is the root, or what is full, paused or common to several. object: the broker, address, client or queue that
    is it. begin: seconds since 1970. messages: on the queues that it concerns; they grow by `rate` a second; oldest: at
    least so many seconds. who: clients, with host, connection, protocol, user. victims: the first of `victim_count`.
    changed: what changed shortly before it began, and when. root: the condition that began first; empty where
    it is none. members: its conditions: name, address, queue, client. places: queues that it concerns beside theirs, by
    address and name, the first 50. size: how many these are, those of an address
    once, and the clients that suffer without one. missed: polls since the root went. stale: when it was read
    last; null where the broker can be read now.
    """

    id: str
    kind: str
    broker: str
    object: str
    severity: str
    begin: float
    title: str
    impact: Sequence[str] = ()
    messages: float = 0.0
    rate: float = 0.0
    oldest: float | None = None
    who: Sequence[Mapping[str, str]] = ()
    causes: Sequence[Cause] = ()
    advice: Sequence[str] = ()
    victims: Sequence[str] = ()
    victim_count: int = 0
    changed: Sequence[tuple[float, str]] = ()
    root: Key = ("", "", "", "")
    members: Sequence[Key] = ()
    places: Sequence[tuple[str, str]] = ()
    size: int = 0
    missed: int = 0
    stale: float | None = None


@dataclass(slots=True)
class Group:
    """A root: of this kind, `what` it is. own: conditions that are it, or say why it is there; victims: those that come
    of it. blocked: clients that suffer without a condition. consumers: rows of those that are the root. places: queues
    that it concerns beside those of the conditions. facts: for its texts. measured: it is no condition, so that two
    polls must agree.
    """

    kind: str
    what: str
    begin: float
    own: list[ActiveCondition] = field(default_factory=list)
    victims: list[ActiveCondition] = field(default_factory=list)
    blocked: Collection[str] = ()
    consumers: Positions | tuple[()] = ()
    places: AbstractSet[tuple[str, str]] = frozenset()
    facts: Mapping[str, str] = field(default_factory=dict)
    measured: bool = False

    @property
    def severity(self) -> Severity:
        least = (
            Severity.CRITICAL
            if self.blocked
            else Severity.WARNING
            if self.measured
            else Severity.INFO
        )
        return max([least, *[one.severity for one in self.own + self.victims]])

    @property
    def members(self) -> list[Key]:
        return [*map(key_of, self.own), *map(key_of, self.victims)]
