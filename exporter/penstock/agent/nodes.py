"""Which configured broker serves which node id, and who may go on with what is known of it.

What is known belongs to the configured name; another name goes on with it only where a failover is proven.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.agent.checkpoint import Checkpoint, node_of, same_process
from penstock.model import Process, Role, Snapshot

AT_ONCE = 0.25
"""Seconds within which two brokers that start count as one that is watched under two names."""


class Undecided(Exception):
    """Whether this broker took over cannot be said before the other one is polled."""


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A configured broker as its last poll left it; role: None where that did not reach it.

    first, last: of the polls at which this process was active, by the agent's clock. was_passive: before them.
    process, begun: as it called itself at the last of them, and at the first.
    """

    role: Role | None = None
    node_id: str = ""
    process: Process = field(default_factory=Process)
    first: float = np.nan
    last: float = np.nan
    was_passive: bool = False
    begun: Process = field(default_factory=Process)

    def is_one_with(self, other: "SeenNode") -> bool:
        """Whether both are one process under two names: a clock that is set moves both, but not at one time."""
        return self.process.follows(other.process, AT_ONCE) or self.begun.follows(other.begun, AT_ONCE)


@dataclass(slots=True)
class Nodes:
    """Each broker is noted by its own jobs, in any of the worker threads, and read by those of others.

    kept: what is known of a node id, by any name. watched: the names in force.
    """

    kept: Callable[[str], Sequence[Checkpoint]] = lambda _: ()
    watched: Callable[[], Container[str]] = frozenset
    _seen: dict[str, SeenNode] = field(default_factory=dict)

    def polled(self, name: str, snapshot: Snapshot) -> None:
        """Note a poll that reached the broker."""
        broker, process = snapshot.broker, snapshot.observation.process
        if broker is None:
            return
        before = self._seen.get(name, SeenNode())
        node_id = node_of(broker, name)
        if broker.role is Role.PASSIVE:
            self._seen[name] = SeenNode(Role.PASSIVE, node_id, process, was_passive=True)
            return
        goes_on = before.node_id == node_id and not process.replaces(before.process) and not np.isnan(before.first)
        first, begun = (before.first, before.begun) if goes_on else (snapshot.stamp, process)
        # A replica learns its node id with the first copy.
        was_passive = before.was_passive and before.node_id in (node_id, f"name:{name}")
        self._seen[name] = SeenNode(Role.ACTIVE, node_id, process, first, snapshot.stamp, was_passive, begun)

    def failed(self, name: str) -> None:
        """Note a poll that did not reach it."""
        self._seen[name] = replace(self._seen.get(name, SeenNode()), role=None)

    def forget(self, name: str) -> None:
        """What was seen of it is too old to be used."""
        before = self._seen.get(name, SeenNode())
        self._seen[name] = SeenNode(None, before.node_id, was_passive=before.was_passive)

    def rivals(self, name: str) -> tuple[str, ...]:
        """Who else was active with its node id while it was. In a failover neither is seen active after the other.

        One process that is watched under two names is no rival of itself.
        """
        own = self._seen.get(name)
        if own is None or own.role is Role.PASSIVE:
            return ()
        watched = self.watched()
        mates = ((other, seen) for other, seen in self._seen.copy().items() if seen.node_id == own.node_id)
        together = (
            other
            for other, seen in mates
            if other != name and own.first < seen.last and seen.first < own.last and not seen.is_one_with(own)
        )
        return tuple(sorted(other for other in together if other in watched))

    def own(self, name: str, snapshot: Snapshot) -> Checkpoint | None:
        return next((one for one in self._kept_of(name, snapshot) if one.broker == name), None)

    def recalled(self, name: str, snapshot: Snapshot) -> Checkpoint | None:
        """What is known of its own name, else of the one that it took over from. Raises Undecided."""
        own = self.own(name, snapshot)
        if own is not None and own.was_active:
            return own
        for other in sorted(self._kept_of(name, snapshot), key=lambda one: -one.now):
            if other.broker != name and other.was_active and self._follows(name, other, own is not None):
                return other
        return None

    def _kept_of(self, name: str, snapshot: Snapshot) -> Sequence[Checkpoint]:
        return () if snapshot.broker is None else self.kept(node_of(snapshot.broker, name))

    def _follows(self, name: str, known: Checkpoint, was_passive: bool) -> bool:
        """Whether `name`, which is active, took over from the name that `known` is of."""
        own = self._seen[name]
        others = [known.broker] if known.broker else [one for one in self._seen.copy() if one != name]
        watched = self.watched()
        for other in (one for one in others if one in watched):
            seen = self._seen.get(other)
            if seen is None:
                raise Undecided
            if seen.role is Role.ACTIVE and seen.node_id == own.node_id:
                if seen.last > own.first or not known.broker:
                    return False
                raise Undecided
        # What an older file knows says of no name: it is of this one, or of its pair.
        begun = own.process.clock - own.process.uptime > known.now
        return not known.broker or own.was_passive or was_passive or begun or same_process(known, own.process)
