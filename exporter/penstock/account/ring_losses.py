"""Who made a ring lose messages: those that arrive at a full ring, or the consumers that give back what has no room.

A loss is sure when two polls have seen it; it is held against what happened in the interval that it fell into.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import hides_consumers, left_by
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Index, Keys, Mask, put
from penstock.model import ConsumerRow, ProducerRow, QueueRow, Snapshot
from penstock.observation.facts import Facts, Seen, or_zero


class Loss(NamedTuple):
    """Messages that a ring lost by a client, at least and at most. sure: those since the broker's start."""

    least: float = 0.0
    most: float = 0.0
    sure: float = 0.0

    def __add__(self, other: "Loss") -> "Loss":  # type: ignore[override]
        return Loss(*(one + more for one, more in zip(self, other, strict=True)))


Moved = tuple[Keys, NDArray[np.object_]]
"""Consumers that went or rolled back: the keys of their queues, and their rows."""
Culprits = Mapping[int, Mapping[str, Loss]]
"""By the key of a queue and the name of a client."""

MOST_NAMES = 500
"""Clients of a broker that are kept by name; losses by others are in the sums only."""


@dataclass(frozen=True, slots=True)
class RingLosses(RowState):
    """Per queue. least, most: lost by consumers that went or rolled back; the others of `lost`, by arrivals.
    by_consumers: `least` since the broker's start. grew, low, high: what `lost`, `least` and `most` rose by at this
    poll; low_last, high_last: when they did last.

    arrived, returned, ready_before: of the interval before this poll: came or fell due, was given back, was ready at
    its begin. movers: a consumer came, went or rolled back; unlisted: some were never listed. moved: these. By the key
    of a queue: by_client, losses of all that are known by name, saved apart; latest, names of those that may have made
    it lose last, with their protocols.
    """

    BY = By.QUEUE
    STORED_AS = "account_by_consumers_"
    least: Column = counter(outlives=True)
    most: Column = counter(outlives=True)
    lost: Column = counter(outlives=True)
    by_consumers: Column = counter(stored_as="ledger_by_consumers")
    grew: Column = column(0.0, saved=False)
    low: Column = column(0.0, saved=False)
    high: Column = column(0.0, saved=False)
    low_last: Column = column(stored_as="ledger_lost_last")
    high_last: Column = column()
    arrived: Column = column(saved=False)
    returned: Column = column(saved=False)
    ready: Column = column(saved=False)
    ready_before: Column = column(saved=False)
    movers: Mask = mask(saved=False)
    moved: Moved = unindexed(lambda: (np.empty(0, np.int64), np.empty(0, np.object_)))
    unlisted: bool = unindexed(bool)
    by_client: Culprits = unindexed(dict)
    latest: Mapping[int, Mapping[str, str]] = unindexed(dict)
    sessions: float = unindexed(lambda: np.nan)
    producers: Index[ProducerRow] = unindexed(Index.empty)

    def advance(
        self, found: Facts, seen: Seen, books: QueueBooks, snapshot: Snapshot
    ) -> "RingLosses":
        """seen: the poll before, from which `found` has the changes."""
        before = self.reindexed(found.queues)
        # Of a ring that keeps last values it cannot be known what was evicted, and what replaced.
        loses = ~np.isnan(found.ring) & ~np.isnan(books.lost) & ~(found.last_value > 0)
        grew = np.where(loses, np.fmax(or_zero(books.lost - before.lost), 0.0), 0.0)
        rolled_back = np.fmax(found.d_left - found.d_uncommitted - found.d_settled, 0.0)
        went, held = left_by(found, seen)
        went = went | (rolled_back > 0)
        returned = held + rolled_back
        movers = went | found.came
        hidden = hides_consumers(snapshot)
        if hidden or not found.counted:  # any of them may have given back any number
            returned = np.full(len(movers), np.inf)
            movers = np.ones(len(movers), np.bool_)
        moved = moved_from(found, seen, loses, rolled_back)
        # Consumers are listed before their queues: who went in between is missing one poll later.
        before = before.with_late(went & found.known, returned, moved)
        low, high = shares(grew, before, found.ring)
        unseen = np.isnan(
            before.ready_before
        )  # no poll before that interval: who came and went in it is not known
        low = put(low, unseen, 0.0)
        high = put(high, unseen, grew)
        names = names_of(before.moved, found.queues.keys[high > 0])
        by_client = booked(self.by_client, before, names, low, high)
        by = np.where(
            loses & ~np.isnan(books.evicted), or_zero(before.by_consumers) + low, np.nan
        )
        latest = {**self.latest, **names}
        if latest and found.queues is not self.index:
            there = found.queues.positions(np.array([*latest], np.int64)) >= 0
            latest = {
                key: of
                for (key, of), known in zip(latest.items(), there, strict=True)
                if known
            }
        sessions = np.nan if snapshot.broker is None else snapshot.broker.sessions_made
        made = sessions - self.sessions
        producers = (
            Index[ProducerRow].empty()
            if snapshot.producers is None
            else snapshot.producers.index
        )
        return RingLosses(
            index=found.queues,
            least=np.where(loses, or_zero(before.least) + low, np.nan),
            most=np.where(loses, or_zero(before.most) + high, np.nan),
            lost=np.where(np.isnan(books.lost), before.lost, books.lost),
            by_consumers=by,
            grew=grew,
            low=low,
            high=high,
            low_last=put(before.low_last, high > 0, low),
            high_last=put(before.high_last, high > 0, high),
            arrived=found.d_added + np.fmax(-found.d_scheduled, 0.0),
            returned=returned,
            ready=found.ready,
            ready_before=before.ready,
            movers=movers & found.known,
            moved=moved,
            unlisted=hidden
            or (
                made > 0
                and made > sessions_seen(found, seen, producers, self.producers)
            ),
            by_client=with_holders(
                beginning(by_client, found.queues, np.isnan(by)), found, loses
            ),
            latest=latest,
            sessions=sessions,
            producers=producers,
        )

    def with_late(self, went: Mask, returned: Column, late: Moved) -> "RingLosses":
        """Of an interval, with those that may have gone at its end."""
        if not went.any():
            return self
        here = went[self.index.positions(late[0])]
        moved = (
            np.append(self.moved[0], late[0][here]),
            np.append(self.moved[1], late[1][here]),
        )
        returned = or_zero(self.returned) + np.where(went, returned, 0.0)
        return replace(self, movers=self.movers | went, returned=returned, moved=moved)

    def with_growth_of(self, before: "RingLosses") -> "RingLosses":
        """What grew at the poll before counts as of this one."""
        past = before.reindexed(self.index)
        return replace(
            self,
            grew=self.grew + past.grew,
            low=self.low + past.low,
            high=self.high + past.high,
        )

    def begun_anew(self) -> "RingLosses":
        by_client = beginning(
            self.by_client, self.index, np.ones(len(self.index), np.bool_)
        )
        return replace(
            super(RingLosses, self).begun_anew(), by_client=by_client, sessions=np.nan
        )


def shares(grew: Column, interval: RingLosses, ring: Column) -> tuple[Column, Column]:
    """Of what was lost in an interval, at least and at most so many by consumers. An arrival evicts at most one
    message, and none while there is room; who went may have been given what was ready or came meanwhile, and so may one
    that was never listed.
    """
    ready = or_zero(interval.ready_before)
    returned = or_zero(interval.returned)
    came = or_zero(interval.arrived)
    evicting = np.clip(came - np.fmax(or_zero(ring) - ready - returned, 0.0), 0.0, grew)
    low = np.where(interval.movers, grew - evicting, 0.0)
    high = np.where(
        interval.movers | interval.unlisted, np.fmin(grew, returned + ready + came), 0.0
    )
    return low, np.fmax(low, high)


def moved_from(found: Facts, seen: Seen, loses: Mask, rolled_back: Column) -> Moved:
    """The keys of queues that lose, and the rows of their consumers that went or rolled back."""
    consumer = found.consumer
    gone = found.consumer.gone
    went = np.append(loses, np.False_)[gone.queue]
    returned = consumer.of(loses & (rolled_back > 0))
    returned = returned[consumer.d_left[returned] > 0]
    rows = np.append(
        seen.consumers.index.rows[gone.at[went]], consumer.index.rows[returned]
    )
    return found.queues.keys[
        np.append(gone.queue[went], consumer.queue[returned])
    ], rows


def names_of(moved: Moved, queues: Keys) -> dict[int, dict[str, str]]:
    """By the key of each of these queues: the clients that did, with their protocols."""
    names: dict[int, dict[str, str]] = {key: {} for key in queues.tolist()}
    here = np.isin(moved[0], queues)
    for key, row in zip(moved[0][here].tolist(), moved[1][here], strict=True):
        names[key][row.client] = row.protocol
    return names


def sessions_seen(
    found: Facts, seen: Seen, producers: Index[ProducerRow], before: Index[ProducerRow]
) -> int:
    """How many sessions are listed that were not at the poll before, by their consumers and producers."""
    consumers = found.consumer.index
    past = seen.consumers.index
    now = np.concatenate(
        [
            of_sessions(consumers)[consumers.new_since(past)],
            of_sessions(producers)[producers.new_since(before)],
        ]
    )
    if not len(now):
        return 0
    known = np.concatenate([of_sessions(past), of_sessions(before)])
    return len(np.setdiff1d(now, known))


def of_sessions(rows: Index[ConsumerRow] | Index[ProducerRow]) -> Column:
    return rows.column("session", lambda row: float(hash(row.session)))


def beginning(before: Culprits, queues: Index[QueueRow], begin: Mask) -> Culprits:
    """With nothing sure of queues that count from 0 on, also of those that are not listed."""
    if not before:
        return before
    anew = np.append(begin, np.True_)[queues.positions(np.array([*before], np.int64))]
    return {
        key: {name: one._replace(sure=0.0) for name, one in of.items()}
        if begins
        else of
        for (key, of), begins in zip(before.items(), anew, strict=True)
    }


Names = Mapping[int, Mapping[str, str]]


def booked(
    before: Culprits, interval: RingLosses, moved: Names, low: Column, high: Column
) -> Culprits:
    """With the losses of an interval by those that moved: one client gets all, of several each nothing for sure."""
    if not moved:
        return before
    places = interval.index.positions(np.array([*before], np.int64)).tolist()
    culprits = {
        key: of for (key, of), at in zip(before.items(), places, strict=True) if at >= 0
    }
    room = MOST_NAMES - sum(map(len, culprits.values()))
    for (key, names), i in zip(
        moved.items(),
        interval.index.positions(np.array([*moved], np.int64)),
        strict=True,
    ):
        culprits[key] = known = {**culprits.get(key, {})}
        alone = len(names) == 1 and not interval.unlisted
        loss = Loss(low[i], high[i], low[i]) if alone else Loss(0.0, float(high[i]))
        for name in names:
            if name in known or room > 0:
                room -= name not in known
                known[name] = known.get(name, Loss()) + loss
    return culprits


def with_holders(before: Culprits, found: Facts, loses: Mask) -> Culprits:
    """With the clients that hold more than their ring has room for: their losses are counted from 0 on."""
    room = MOST_NAMES - sum(map(len, before.values()))
    holders = found.consumer.of(
        loses & (found.messages - found.scheduled > found.ring) & (room > 0)
    )
    holders = holders[found.consumer.held[holders] > 0][:MOST_NAMES]
    new: dict[int, dict[str, Loss]] = {}
    keys = found.queues.keys[found.consumer.queue[holders]].tolist()
    for key, row in zip(keys, found.consumer.index.rows[holders], strict=True):
        name = row.client
        if (
            name not in before.get(key, {})
            and name not in new.get(key, {})
            and room > 0
        ):
            new.setdefault(key, {})[name] = Loss()
            room -= 1
    return (
        {**before, **{key: {**before.get(key, {}), **of} for key, of in new.items()}}
        if new
        else before
    )
