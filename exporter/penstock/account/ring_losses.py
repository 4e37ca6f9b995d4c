"""
Who made a ring lose messages: those that arrive at a full ring, or the consumers that give back what has no room.

A loss is sure when two polls have seen it; it is held against what happened in the interval that it fell into.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.observation.facts import Facts, Seen, or_zero

Culprits = Mapping[int, Mapping[str, tuple[float, float]]]
"""By the key of a queue and the name of a client: at least and at most so many messages."""


MOST_NAMES = 200
"""Clients of one queue that are kept by name."""


@dataclass(frozen=True, slots=True)
class RingLosses(RowState):
    """
    Per queue. least, most: lost by consumers that went or rolled back; the rest of `lost`, by arrivals.

    arrived, returned, ready_before: of the interval before this poll: came or fell due, was given back, was ready at
    its begin. movers: a consumer came, went or rolled back. names: by the key of a queue, the clients that went or
    rolled back.
    """

    BY = By.QUEUE
    STORED_AS = "account_by_consumers_"
    least: Column = counter(outlives=True)
    most: Column = counter(outlives=True)
    lost: Column = counter(outlives=True)
    arrived: Column = column(saved=False)
    returned: Column = column(saved=False)
    ready: Column = column(saved=False)
    ready_before: Column = column(saved=False)
    movers: Mask = mask(saved=False)
    names: Mapping[int, frozenset[str]] = unindexed(dict)
    by_client: Culprits = unindexed(dict)

    def advance(self, found: Facts, seen: Seen, books: QueueBooks) -> "RingLosses":
        """seen: the poll before, of which `found` says the changes."""
        before = self.reindexed(found.queues)
        loses = ~np.isnan(found.ring) & ~np.isnan(books.lost)
        grew = np.where(loses, np.fmax(or_zero(books.lost - before.lost), 0.0), 0.0)
        low, high = shares(grew, before, found.ring)
        unseen = np.isnan(before.ready_before)  # no poll before that interval: who came and went in it is not known
        low, high = np.where(unseen, 0.0, low), np.where(unseen, grew, high)
        consumer = found.consumer
        rolled_back = np.fmax(of_staying(found) - found.d_settled, 0.0)
        held_by_gone = np.zeros(len(found.queues))
        left = consumer.gone.queue >= 0
        held = or_zero(seen.consumers.numbers[3][consumer.gone.at[left]])
        np.add.at(held_by_gone, consumer.gone.queue[left], held)
        movers = (found.of_queue(consumer.new) > 0) | (rolled_back > 0)
        movers[consumer.gone.queue[left]] = True
        if not found.counted:  # this version shows no numbers of consumers: any of them may have given back any number
            held_by_gone, movers = np.full(len(movers), np.inf), np.ones(len(movers), np.bool_)
        return RingLosses(
            index=found.queues,
            least=np.where(loses, or_zero(before.least) + low, np.nan),
            most=np.where(loses, or_zero(before.most) + high, np.nan),
            lost=np.where(np.isnan(books.lost), before.lost, books.lost),
            arrived=found.d_added + np.fmax(-found.d_scheduled, 0.0),
            returned=held_by_gone + rolled_back,
            ready=found.ready,
            ready_before=before.ready,
            movers=movers & found.known,
            names=names_of_movers(found, seen, loses, rolled_back),
            by_client=booked(self.by_client, before, grew, low, high),
        )


def shares(grew: Column, interval: RingLosses, ring: Column) -> tuple[Column, Column]:
    """
    Of what was lost in an interval, at least and at most so many by consumers.

    An arrival evicts at most one message, and none while there is room; who went may have been given what was ready or
    came meanwhile.
    """
    ready, returned, came = or_zero(interval.ready_before), or_zero(interval.returned), or_zero(interval.arrived)
    evicting = np.clip(came - np.fmax(or_zero(ring) - ready - returned, 0.0), 0.0, grew)
    low = np.where(interval.movers, grew - evicting, 0.0)
    high = np.where(interval.movers, np.fmin(grew, returned + ready + came), 0.0)
    return low, np.fmax(low, high)


def of_staying(found: Facts) -> Column:
    """What left the hands of consumers that were there before; what is not committed yet has not."""
    consumer = found.consumer
    return found.of_queue(np.where(consumer.new, 0.0, consumer.d_left - consumer.d_uncommitted))


def names_of_movers(found: Facts, seen: Seen, loses: Mask, rolled_back: Column) -> dict[int, frozenset[str]]:
    """By the key of a queue that loses: the clients of consumers that went, and of those that rolled back."""
    keys, rows, consumer = found.queues.keys, seen.consumers.index.rows, found.consumer
    names: dict[int, set[str]] = {}
    for at, queue in zip(consumer.gone.at.tolist(), consumer.gone.queue.tolist(), strict=True):
        if queue >= 0 and loses[queue]:
            names.setdefault(int(keys[queue]), set()).add(rows[at].client)
    for at in consumer.of(loses & (rolled_back > 0)).tolist():
        if consumer.d_left[at] > 0:
            names.setdefault(int(keys[consumer.queue[at]]), set()).add(consumer.index.rows[at].client)
    return {key: frozenset(of) for key, of in names.items()}


def booked(before: Culprits, interval: RingLosses, grew: Column, low: Column, high: Column) -> Culprits:
    """With the losses of an interval: one client gets all, of several each nothing for sure."""
    at: Positions = np.flatnonzero((grew > 0) & (high > 0))
    if not len(at):
        return before
    culprits = {key: dict(of) for key, of in before.items() if interval.index.positions(np.array([key]))[0] >= 0}
    for i in at.tolist():
        key = int(interval.index.keys[i])
        names, known = interval.names.get(key, frozenset()), culprits.setdefault(key, {})
        for name in names if len(known) < MOST_NAMES else names & known.keys():
            least, most = known.get(name, (0.0, 0.0))
            sure = float(low[i]) if len(names) == 1 else 0.0
            known[name] = (least + sure, most + float(high[i]))
    return culprits
