"""
What operators moved: the broker counts it as acknowledged, and only the address that it went to shows that it was not.

A move raises K though no consumer that is listed settled anything, and R of other addresses though no listed producer
sent there. What consumers settled after they were last seen raises K alike, and so does STOMP's NACK; messages of
producers that are not listed, diverts and bridges raise R alike: these are bounds, save where one explanation is left.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import anonymous, meanwhile
from penstock.account.visits import Visits, movers
from penstock.core.state import By, RowState, column, counter, unindexed
from penstock.core.table import Column
from penstock.model import Snapshot
from penstock.observation.facts import Facts, or_zero

QUIET = 10
"""Polls without a consumer that comes or goes, after which none is expected that comes and goes between two polls."""
CALM = 2
"""Polls without any client that comes or goes, so that none can have brought what came."""


class Move(NamedTuple):
    """Proven at a poll. queue: its key; to: names of addresses."""

    queue: int
    messages: int
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moves(RowState):
    """
    Per queue, of what it counts as acknowledged. moved: so many for sure. acknowledged: at least; the rest is either.

    unseen: K less what the rows of its consumers settled, at the last polls; peak: the part that is accounted for.
    quiet: polls since a consumer came or went. calm: polls since any client came or went, or a producer that names an
    address with each message sent one.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    moved: Column = counter(0.0, outlives=True)
    acknowledged: Column = counter(0.0, outlives=True)
    either: Column = counter(0.0, outlives=True)
    unseen: NDArray[np.float64] = column(0.0, lines=3, saved=False)
    peak: Column = column(0.0, saved=False)
    quiet: Column = column(0.0, saved=False)
    calm: int = unindexed(int)
    clients: tuple[bytes, ...] = unindexed(tuple)
    proven: tuple[Move, ...] = unindexed(tuple)
    """At this poll."""

    def advance(self, found: Facts, snapshot: Snapshot, books: QueueBooks, visits: Visits | None) -> "Moves":
        """visits: None where addresses and producers were not both read: what is unseen waits for that."""
        before, settled = self.reindexed(found.queues), or_zero(found.d_settled)
        unseen = np.vstack([before.unseen[1:], before.unseen[2] + settled - found.d_left + found.d_uncommitted])
        quiet = np.where(movers(found), 0.0, before.quiet + 1)
        came = 0.0 if visits is None else float(visits.grew.sum())
        by_rows = (found.d_left == 0) & (found.d_uncommitted == 0)  # nothing of which a row could be behind
        rest = by_rows & (settled == 0)
        noise = meanwhile(found, snapshot, settled, "consumers", "queues")
        surely = np.where(rest, unseen[2], unseen.min(axis=0) - noise)
        peak = np.fmin(before.peak, np.where(rest, unseen[2], unseen.max(axis=0)))
        clients = present_clients(snapshot)
        unread = visits is None and bool(self.clients)
        rose = np.fmax(surely - peak, 0.0) if came else np.zeros(len(peak))
        if not (came or unread):  # addresses are read before their queues: what was moved shows one poll later at most
            rose = np.fmax(np.where(by_rows, unseen[1:].min(axis=0), surely) - peak, 0.0)
        peak = peak + rose
        # What a link takes is not listed at all.
        listed = found.consumers <= found.of_queue(np.ones(len(found.consumer.queue), np.bool_))
        rose = np.where(listed, rose, 0.0) if came else np.zeros(len(rose))
        moved, either = before.moved, before.either + np.fmin(rose, came)
        proven: tuple[Move, ...] = ()
        calm = self.calm + 1 if clients and clients == self.clients else 0
        (at,) = np.nonzero(rose)
        alone = len(at) == 1 and rose[at[0]] == came and rest[at[0]]
        # What clients that come and go settle is never seen whole.
        if visits is not None and alone and quiet[at[0]] >= QUIET and calm >= CALM:
            moved, either = moved.copy(), before.either
            moved[at] += came
            to = visits.index.rows[visits.grew.any(axis=0)]
            proven = (Move(int(found.queues.keys[at[0]]), int(came), tuple(row.name for row in to)),)
        # What no poll is sure of may have been moved.
        pending = np.fmax(unseen[2] - peak - (0.0 if came else np.where(by_rows, 0.0, noise)), 0.0)
        pending = np.where(listed & (unread | (visits is not None)), pending, 0.0)
        return Moves(
            index=found.queues,
            moved=moved,
            acknowledged=np.fmax(before.acknowledged, or_zero(books.acknowledged) - moved - either - pending),
            either=either,
            unseen=unseen,
            peak=peak,
            quiet=quiet,
            calm=calm,
            clients=clients or self.clients,
            proven=proven,
        )

    def begun_anew(self) -> "Moves":
        return replace(super(Moves, self).begun_anew(), calm=0, clients=(), proven=())


def present_clients(snapshot: Snapshot) -> tuple[bytes, ...]:
    """Which connections and producers there are, and what those without an address of their own have sent."""
    producers, connections = snapshot.producers, snapshot.connections
    if producers is None:
        return ()
    sent = or_zero(producers["produced"][anonymous(producers)])
    return producers.index.keys.tobytes(), connections.index.keys.tobytes() if connections else b"", sent.tobytes()
