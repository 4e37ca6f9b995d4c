"""Which configured broker serves which node id, and who may go on with what is known of it.

What is known belongs to the configured name; another name goes on with it only where a failover is proven.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.agent.checkpoint import Checkpoint, node_of, same_process
from penstock.model import Process, Role, Snapshot, Takeover
from penstock.observation.facts import JUDGED

AT_ONCE = 0.25
"""Seconds within which two brokers that start count as one that is watched under two names."""


class Undecided(Exception):
    """Whether this broker took over cannot be said before the other one is polled."""


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A configured broker as its last poll left it; role: None where that did not reach it.

    first, last: of the polls at which this process was active, by the agent's clock; last stays when it is so no more.
    before: when it was active last before them; was_passive: whether it was passive. messages: in its queues at the
    first of them. process, begun: as it called itself at the last of them, and at the first.
    """

    role: Role | None = None
    node_id: str = ""
    process: Process = field(default_factory=Process)
    first: float = np.nan
    last: float = np.nan
    before: float = -np.inf
    messages: float = np.nan
    was_passive: bool = False
    begun: Process = field(default_factory=Process)

    def is_one_with(self, other: "SeenNode") -> bool:
        """Whether both are one process under two names: a clock that is set moves both, but not at one time."""
        return self.process.follows(other.process, AT_ONCE) or self.begun.follows(
            other.begun, AT_ONCE
        )


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
        broker = snapshot.broker
        process = snapshot.observation.process
        if broker is None:
            return
        before = self._seen.get(name, SeenNode())
        node_id = node_of(broker, name)
        if broker.role is Role.PASSIVE:
            self._seen[name] = SeenNode(
                Role.PASSIVE, node_id, process, last=before.last, was_passive=True
            )
            return
        goes_on = (
            before.node_id == node_id
            and not process.replaces(before.process)
            and not np.isnan(before.first)
        )
        if goes_on:
            self._seen[name] = replace(
                before, role=Role.ACTIVE, process=process, last=snapshot.stamp
            )
            return
        # A replica learns its node id with the first copy.
        was_passive = before.was_passive and before.node_id in (node_id, f"name:{name}")
        active_before = float(np.fmax(before.last, -np.inf))
        stamp = snapshot.stamp
        queues = snapshot.queues
        judged = [] if queues is None else [row.kind in JUDGED for row in queues.index]
        messages = (
            np.nan if queues is None else float(np.nansum(queues["messages"][judged]))
        )
        self._seen[name] = SeenNode(
            Role.ACTIVE,
            node_id,
            process,
            stamp,
            stamp,
            active_before,
            messages,
            was_passive,
            process,
        )

    def resumed(self, name: str, checkpoint: Checkpoint) -> Takeover | None:
        """From whom it took over as an earlier agent saw it; that goes on while the process is the same."""
        own = self._seen[name]
        took = checkpoint.snapshot.observation.takeover if checkpoint.snapshot else None
        if took and own.role is Role.ACTIVE and same_process(checkpoint, own.process):
            self._seen[name] = replace(own, first=took.time, messages=took.messages)
            unpolled = SeenNode(None if took.alone else Role.PASSIVE)
            other = self._seen.get(took.broker, unpolled)
            if other.node_id in ("", own.node_id) and np.isnan(other.last):
                self._seen[took.broker] = replace(
                    other, node_id=own.node_id, last=-np.inf
                )
        return took

    def failed(self, name: str) -> None:
        """Note a poll that did not reach it."""
        self._seen[name] = replace(self._seen.get(name, SeenNode()), role=None)

    def forget(self, name: str) -> None:
        """Forget a broker whose last poll is too old to be used."""
        before = self._seen.get(name, SeenNode())
        self._seen[name] = SeenNode(
            None, before.node_id, last=before.last, was_passive=before.was_passive
        )

    def rivals(self, name: str) -> tuple[str, ...]:
        """Who else was active with its node id while it was. In a failover neither is seen active after the other.

        One process that is watched under two names is no rival of itself.
        """
        own = self._seen.get(name)
        if own is None or own.role is Role.PASSIVE:
            return ()
        together = (
            other
            for other, seen in self._mates(name)
            if own.first < seen.last and seen.first < own.last
        )
        return tuple(sorted(together))

    def takeover(self, name: str) -> Takeover | None:
        """From whom it took over, where that one served the node until then and is seen to do so no more."""
        own = self._seen.get(name)
        if own is None or own.role is not Role.ACTIVE:
            return None
        mates = self._mates(name)
        before = [
            (seen.last, other, seen.role)
            for other, seen in mates
            if own.before <= seen.last < own.first
        ]
        if not before or any(seen.role is Role.ACTIVE for _, seen in mates):
            return None
        _, other, role = max(before)
        return Takeover(other, own.first, own.messages, alone=role is None)

    def is_succeeded(self, name: str) -> bool:
        """Whether another one serves its node by now."""
        own = self._seen.get(name, SeenNode())
        return any(
            seen.role is Role.ACTIVE and seen.first > own.last
            for _, seen in self._mates(name)
        )

    def _mates(self, name: str) -> list[tuple[str, SeenNode]]:
        """Other brokers that are watched and were seen with its node id, but for its own process by another name."""
        own = self._seen.get(name, SeenNode())
        watched = self.watched()
        mates = (
            (other, seen)
            for other, seen in self._seen.copy().items()
            if other != name and other in watched
        )
        return [
            (other, seen)
            for other, seen in mates
            if seen.node_id == own.node_id and not seen.is_one_with(own)
        ]

    def own(self, name: str, snapshot: Snapshot) -> Checkpoint | None:
        return next(
            (one for one in self._kept_of(name, snapshot) if one.broker == name), None
        )

    def recalled(self, name: str, snapshot: Snapshot) -> Checkpoint | None:
        """Return the checkpoint of its own name, else of the one that it took over from. Raises Undecided."""
        own = self.own(name, snapshot)
        if own is not None and own.was_active:
            return own
        for other in sorted(self._kept_of(name, snapshot), key=lambda one: -one.now):
            if (
                other.broker != name
                and other.was_active
                and self._follows(name, other, own is not None)
            ):
                return other
        return None

    def _kept_of(self, name: str, snapshot: Snapshot) -> Sequence[Checkpoint]:
        return (
            () if snapshot.broker is None else self.kept(node_of(snapshot.broker, name))
        )

    def _follows(self, name: str, checkpoint: Checkpoint, was_passive: bool) -> bool:
        """Whether `name`, which is active, took over from the name that `known` is of."""
        own = self._seen[name]
        others = (
            [checkpoint.broker]
            if checkpoint.broker
            else [candidate for candidate in self._seen.copy() if candidate != name]
        )
        watched = self.watched()
        for other in (candidate for candidate in others if candidate in watched):
            seen = self._seen.get(other)
            if seen is None:
                raise Undecided
            if seen.role is Role.ACTIVE and seen.node_id == own.node_id:
                if seen.last > own.first or not checkpoint.broker:
                    return False
                raise Undecided
        # An older file has no name: what it knows is of this one, or of its pair.
        begun = own.process.clock - own.process.uptime > checkpoint.now
        return (
            not checkpoint.broker
            or own.was_passive
            or was_passive
            or begun
            or same_process(checkpoint, own.process)
        )
