"""
What connections and sessions do from one evaluation to the next: how many consumers they have, how fast they are fed,
whether all of their consumers stay behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.table import Column, Index, Keys, Table
from penstock.core.windows import Mask, reindex
from penstock.model import ConsumerRow, QueueRow, Snapshot

CHANGES = 3
"""Evaluations at which the number of consumers had changed: fewer is a start or a reconnect."""
VARIES = 2
"""The most consumers are so many times the fewest."""


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """
    Columns by `keys`, ascending: consumers now, the fewest and the most of them; evaluations at which their number had
    changed; consumers that came after the first one; messages a second since the one before (NaN at first).
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumers: Column = field(default_factory=lambda: np.empty(0))
    fewest: Column = field(default_factory=lambda: np.empty(0))
    most: Column = field(default_factory=lambda: np.empty(0))
    changes: Column = field(default_factory=lambda: np.empty(0))
    came: Column = field(default_factory=lambda: np.empty(0))
    rate: Column = field(default_factory=lambda: np.empty(0))

    @property
    def varies(self) -> Mask:
        """The number of consumers is not known in advance."""
        return (self.changes >= CHANGES) & (self.most >= VARIES * self.fewest)

    def advance(self, of: Keys, new: Mask, sent: Column, seconds: float) -> "ConnectionCounts":
        """of: connection of each consumer, -1 where unknown. sent: to each in the last `seconds`."""
        here = of >= 0
        keys, at = np.unique(of[here], return_inverse=True)
        place = np.searchsorted(self.keys, keys)
        known = np.append(self.keys, -1)[place] == keys

        def carried(values: Column, fill: float) -> Column:
            return np.where(known, np.append(values, np.nan)[place], fill)

        now = np.bincount(at, minlength=len(keys)).astype(np.float64)
        came = np.bincount(at, weights=new[here], minlength=len(keys))
        fed = np.bincount(at, weights=np.maximum(np.nan_to_num(sent[here]), 0), minlength=len(keys))
        before = carried(self.consumers, np.nan)
        return ConnectionCounts(
            keys=keys,
            consumers=now,
            fewest=np.fmin(carried(self.fewest, np.nan), now),
            most=np.fmax(carried(self.most, np.nan), now),
            changes=carried(self.changes, 0.0) + (known & (before != now)),
            came=carried(self.came, 0.0) + np.where(known, came, 0.0),
            rate=np.where(known, fed / seconds if seconds > 0 else np.nan, np.nan),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """
    Carried from one evaluation to the next. delivered: by the rows of `consumers`, at the last one.

    behind: sessions (OpenMQ: connections) of which all consumers held messages while more waited, and took some;
    evaluations in a row.
    """

    consumers: Index[Any] = field(default_factory=Index.empty)
    delivered: Column = field(default_factory=lambda: np.empty(0))
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    behind: Mapping[int, int] = field(default_factory=dict)

    def advance(self, snapshot: Snapshot, seconds: float) -> "Usage":
        """seconds: since the evaluation before."""
        consumers = snapshot.consumers
        if consumers is None or "delivered" not in consumers or snapshot.broker is None:
            return self
        before = reindex(consumers.index, self.consumers, self.delivered, np.nan)
        new = consumers.index.positions_in(self.consumers) < 0
        sent = consumers["delivered"] - np.nan_to_num(before)
        connections = self.connections
        if snapshot.broker.kind.counted_flow:
            connections = connections.advance(snapshot.consumer_connection, new, sent, seconds)
        return Usage(consumers.index, consumers["delivered"], connections, self._behind(snapshot, consumers, new, sent))

    def _behind(self, snapshot: Snapshot, consumers: Table[ConsumerRow], new: Mask, sent: Column) -> dict[int, int]:
        of = sessions(snapshot, consumers)
        full = occupied(snapshot, consumers) & ~new & (of >= 0)
        groups, counts = np.unique(of[full], return_counts=True)
        groups = groups[counts >= 2]
        members = np.isin(of, groups)
        at = np.searchsorted(groups, of[members])
        size = len(groups)
        all_full = np.bincount(at, weights=full[members], minlength=size) == np.bincount(at, minlength=size)
        fed = np.bincount(at, weights=np.maximum(np.nan_to_num(sent[members]), 0), minlength=size) > 0
        return {one: self.behind.get(one, 0) + 1 for one in groups[all_full & fed].tolist()}


def sessions(snapshot: Snapshot, consumers: Table[ConsumerRow]) -> Keys:
    """Of each consumer its session as a number; its connection where the broker shows no sessions; -1: unknown."""
    if snapshot.broker is not None and not snapshot.broker.kind.shows_sessions:
        return snapshot.consumer_connection
    # Of a hash so many bits as a float keeps.
    hashes = consumers.index.column("session", lambda row: float(abs(hash(row.session)) >> 11) if row.session else -1.0)
    return hashes.astype(np.int64)


def occupied(snapshot: Snapshot, consumers: Table[ConsumerRow]) -> Mask:
    """Consumers that hold something while more waits that they would get."""
    if (queues := snapshot.queues) is None:
        return np.zeros(len(consumers), np.bool_)
    waiting = (ready(queues) > 0) & ~(queues["paused"] > 0)
    at = queues.index.positions(snapshot.consumer_queue)
    selective = consumers.index.column("selective", lambda row: float(bool(row.filter))) > 0
    return (consumers["buffered"] > 0) & ~selective & (at >= 0) & np.append(waiting, False)[at]


def ready(queues: Table[QueueRow]) -> Column:
    return queues["messages"] - queues["delivering"] - np.nan_to_num(queues["scheduled"])
