"""How long is normal, per (queue, client) or per queue: learned from waits and gaps; its thresholds.

Gaps go into a histogram with bins that grow by the square root of two; older ones fade. Little evidence asks for a
long patience, much of it for three times the 98th percentile. A gap longer than the patience of its time was judged
unhealthy and teaches nothing, until the third such gap that ends by itself: then this is how the client works.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Positions, put
from penstock.core.windows import longer, since
from penstock.observation.facts import JUDGED, Facts
from penstock.observation.poll import Groups
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.series.labels import ClientSeries, Grouping
from penstock.series.queues import number_or_nan
from penstock.series.totals import dormant_capacity
from penstock.settings.constants import Constants

BINS = 48
FIRST_EDGE = 0.25
LONG_GAPS = 3
FEW = 50.0
MANY = 500.0
"""Weights below which the longest gap decides, and below which the cold patience is the least."""
EDGES: Column = FIRST_EDGE * 2.0 ** (np.arange(BINS) / 2)

LONG = 5.0
"""Seconds; gaps below it leave the patience of something little known as it is."""

Histogram = NDArray[np.float32]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned of one thing: its row of a `LearnedTimeout`."""

    weights: Histogram
    weight: float
    longest: float
    q98: float
    long_gaps: Column


@dataclass(frozen=True, slots=True)
class LearnedTimeout(RowState):
    """What was learned, a row for each row of `index`.

    weights (slots, bins), the histograms of those that have learned something, as most clients of a large broker have
    nothing to do, without the last bins that are 0 in all. weight: their sums; longest: the longest gap, decayed; q98:
    derived when a row learns something; long_gaps (LONG_GAPS, rows): gaps that were longer than the timeout of their
    time, NaN where none.
    """

    weight: Column = column(0.0, saved=False)
    longest: Column = column(0.0, saved=False)
    q98: Column = column(0.0, saved=False)
    long_gaps: NDArray[np.float64] = column(lines=LONG_GAPS, saved=False)
    slot: Slots = column(-1, dtype=np.int32, saved=False)
    """The place of each row's histogram in `weights`, -1 where it has none."""
    weights: Histogram = unindexed(lambda: np.empty((0, 0), np.float32))
    dormant: dict[Any, "Learned"] = unindexed(dict)
    """What was learned of things that are not there now, by their row: a client that reconnects is the same."""
    capacity: int = unindexed(int)
    """How many of them are kept at most."""

    def advance(
        self, index: Index[Any], *, renumbered: bool = False
    ) -> "LearnedTimeout":
        """The same by the rows of `index`; a new row has learned nothing, unless it was there before.

        renumbered: what is not in `index` is not gone, its rows are only about to come again.
        """
        if index is self.index:
            return self
        moved = self.reindexed(index)
        dormant = dict(self.dormant)
        in_use = np.flatnonzero(moved.slot >= 0)
        weights = self.weights[moved.slot[in_use]]
        moved.slot[in_use] = np.arange(len(in_use))
        # What would make its timeout another than that of an unknown one: names that never come again are many.
        worth = (
            (self.weight >= FEW)
            | (self.longest >= LONG)
            | ~np.isnan(self.long_gaps).all(axis=0)
        )
        worth |= renumbered & (self.weight > 0)
        for row in np.flatnonzero(
            (index.positions(self.index.keys) < 0) & worth
        ).tolist():
            dormant[self.index.rows[row]] = self.learned(row)
        back: list[Histogram] = []
        for row in index.new_since(self.index).tolist() if dormant else ():
            known = dormant.pop(index.rows[row], None)
            if known is not None:
                moved.slot[row] = len(weights) + len(back)
                back.append(known.weights)
                moved.long_gaps[:, row] = known.long_gaps
                moved.longest[row], moved.weight[row], moved.q98[row] = (
                    known.longest,
                    known.weight,
                    known.q98,
                )
        # Rows that are numbered again take theirs back at the next poll: nothing is forgotten in between.
        capacity = dormant_capacity(self.capacity, len(index))
        while len(index) and len(dormant) > capacity:
            del dormant[next(iter(dormant))]
        weights = (
            np.concatenate([widened(weights, len(weights), BINS), back])
            if back
            else weights
        )
        used = int(np.flatnonzero(weights.any(axis=0)).max(initial=-1)) + 1
        return replace(
            moved, weights=weights[:, :used].copy(), dormant=dormant, capacity=capacity
        )

    def histograms(self, rows: Positions) -> Histogram:
        """(rows, BINS): the weights of some rows."""
        slot = self.slot[rows]
        found = np.zeros((len(rows), BINS), np.float32)
        found[slot >= 0, : self.weights.shape[1]] = self.weights[slot[slot >= 0]]
        return found

    def laid_aside(self) -> "LearnedTimeout":
        """All as of things that are not there now: their rows are about to be numbered again."""
        return replace(
            self.advance(Index.empty(), renumbered=True), index=Index.empty()
        )

    def learned(self, row: int) -> "Learned":
        weight, longest, q98 = (
            float(column[row]) for column in (self.weight, self.longest, self.q98)
        )
        return Learned(
            self.histograms(np.array([row]))[0],
            weight,
            longest,
            q98,
            self.long_gaps[:, row].copy(),
        )

    def seconds(
        self,
        constants: Constants,
        interval: float,
        configured: Column | None = None,
        rows: Positions | slice = slice(None),
    ) -> Column:
        """The patience of `rows`; a configured one (not NaN; of all rows) wins."""
        weight = self.weight[rows]
        cold = constants.cold
        usual = constants.factor * np.where(
            weight < FEW, self.longest[rows], self.q98[rows]
        )
        learned = np.where(weight < MANY, np.maximum(cold, usual), usual)
        # A cold patience below the floor was asked for, as in short recordings.
        patience: Column = np.clip(
            learned,
            min(constants.floor_seconds(interval), cold),
            max(constants.cap, cold),
        )
        return (
            patience
            if configured is None
            else put(patience, ~np.isnan(configured[rows]), configured[rows])
        )

    def learn(
        self, at: Positions, gaps: Column, patience: Column, constants: Constants
    ) -> "LearnedTimeout":
        """With `gaps` (seconds) of the rows `at`, each against the patience of its time; a row may come again."""
        usual = gaps <= patience
        return self.add(at[usual], gaps[usual], constants).learn_long(
            at[~usual], gaps[~usual], constants
        )

    def add(
        self, at: Positions, gaps: Column, constants: Constants
    ) -> "LearnedTimeout":
        if not len(at):
            return self
        counts = np.bincount(at)
        touched = np.flatnonzero(counts > 0)
        place = np.empty(len(counts), np.intp)
        place[touched] = np.arange(len(touched))
        fading = (constants.decay ** np.arange(counts.max() + 1))[counts[touched]]
        into = bins(gaps)
        used = max(self.weights.shape[1], int(into.max()) + 1)
        slot = self.slot.copy()
        weight = self.weight.copy()
        longest = self.longest.copy()
        q98 = self.q98.copy()
        first = touched[slot[touched] < 0]
        slot[first] = len(self.weights) + np.arange(len(first))
        weights = widened(self.weights, len(self.weights) + len(first), used)
        taught = weights.take(slot[touched], axis=0)
        taught *= fading[:, None].astype(np.float32)
        np.add.at(taught.reshape(-1), place[at] * used + into, np.float32(1))
        weights[slot[touched]] = taught
        weight[touched] = weight[touched] * fading + counts[touched]
        longest[touched] *= fading
        np.maximum.at(longest, at, gaps)
        q98[touched] = np.minimum(quantile(taught, 0.98), longest[touched])
        return replace(
            self, weights=weights, slot=slot, weight=weight, longest=longest, q98=q98
        )

    def learn_long(
        self, at: Positions, gaps: Column, constants: Constants
    ) -> "LearnedTimeout":
        """With gaps that were judged unhealthy; of three of a row their median is learned."""
        if not len(at):
            return self
        long_gaps = self.long_gaps.copy()
        medians = []
        for row, gap in zip(at.tolist(), gaps.tolist(), strict=True):
            free = np.flatnonzero(np.isnan(long_gaps[:, row]))
            long_gaps[free[0], row] = gap
            if len(free) == 1:
                medians.append((row, float(np.median(long_gaps[:, row]))))
                long_gaps[:, row] = np.nan
        rows = np.array([row for row, _ in medians], np.intp)
        return replace(self, long_gaps=long_gaps).add(
            rows, np.array([median for _, median in medians]), constants
        )


def widened(weights: Histogram, rows: int, columns: int) -> Histogram:
    """A copy with so many rows and columns, 0 where there was none."""
    wider = np.zeros((rows, columns), np.float32)
    wider[: len(weights), : weights.shape[1]] = weights
    return wider


def bins(gaps: Column) -> Positions:
    """The bin of each gap: the first whose upper edge is not below it."""
    return np.minimum(np.searchsorted(EDGES, gaps), BINS - 1)


def quantile(weights: Histogram, share: float) -> Column:
    """Upper edge of the bin in which each row's cumulative weight reaches `share` of its sum."""
    by_bin = np.ascontiguousarray(weights.T)
    reached = np.zeros(len(weights), np.float32)
    wanted = np.float32(share) * by_bin.sum(axis=0)
    at = np.zeros(len(weights), np.intp)
    for weight in by_bin:
        reached += weight
        below = reached < wanted
        if not below.any():
            break
        at += below
    return EDGES[np.minimum(at, BINS - 1)]


def advance_timers(
    timers: QueueTimers,
    dispatch: LearnedTimeout,
    found: Facts,
    then: float,
    constants: Constants,
) -> tuple[QueueTimers, LearnedTimeout, Column]:
    """The timers after this poll, what the ends of waits for a delivery teach about the queues, and how long absences
    were that ended, NaN where none did.

    then: the poll before, NaN where there was none. A counter that has not moved since has been still from then on, but
    not that of a queue that is paused or has no consumer.
    """
    before = timers.reindexed(found.queues, found.known)
    now = found.now
    read = timers.read
    if found.queues is not timers.index:
        kept = timers.were_read(found.queues.positions(timers.index.keys) < 0)
        if len(kept) > len(read):
            read = dict.fromkeys(kept[-dormant_capacity(0, len(found.queues)) :])
        fresh = found.queues.new_since(timers.index)
        before.had_consumer[fresh] = [
            (row.address, row.name) in read for row in found.queues.rows[fresh]
        ]
    then = now if np.isnan(then) else then
    shut = (found.consumers == 0) | (found.paused > 0) | (found.address.paused > 0)
    settles = found.d_settled > 0
    there = found.consumers > 0
    unread = np.isnan(found.consumers)
    served = there | settles
    moves = settles | (found.d_delivered > 0) | ~found.known | shut
    dispatch = dispatch.advance(found.queues)
    ended = (found.d_delivered > 0) & ~np.isnan(before.still) & ~np.isnan(before.ready)
    waits = now - np.fmax(before.still, before.ready)
    at = np.flatnonzero(ended & (waits > 0))
    dispatch = dispatch.learn(
        at, waits[at], dispatch.seconds(constants, found.interval, rows=at), constants
    )
    # Who came and went between two polls ended no absence: no one was gone for longer than that.
    ended = served & (before.absent < then) & ~np.isnan(before.ready)
    # Until the first consumer comes none is absent.
    absences = np.where(
        ended & before.had_consumer, now - np.fmax(before.absent, before.ready), np.nan
    )
    expired = np.where(
        served, np.nan, np.where(found.d_expired > 0, now, before.expired)
    )
    ready = since(
        (found.ready > 0) | (longer(-expired, -now, -constants.cap) & ~found.keeps),
        before.ready,
        now,
    )
    # What is delivered again after a delay is scheduled in between.
    later = ~settles & (found.messages > 0) & ~np.isnan(before.present)
    present = (
        later
        | (found.messages > found.scheduled)
        | (found.delivering > 0)
        | ~np.isnan(ready)
    )
    timers = QueueTimers(
        index=found.queues,
        still=since(~moves, before.still, then),
        ready=ready,
        # Where the number of consumers is missing no one came and no one went. Who came and went is absent from now on.
        absent=put(
            since(~there & ~unread, put(before.absent, settles, np.nan), now),
            unread & ~served,
            before.absent,
        ),
        unsettled=since(~settles, before.unsettled, np.where(found.known, then, now)),
        present=since(present, before.present, now),
        blocked=since(found.known & (found.address.d_added == 0), before.blocked, then),
        expired=expired,
        read=read,
        # Up to the poll before: the first consumer that ever comes ends an absence, it does not make it a worse one.
        had_consumer=before.had_consumer
        | np.where(
            found.known,
            np.isnan(before.absent) | (found.settled > found.d_settled),
            found.settled > 0,
        ),
    )
    return timers, dispatch, absences


def advance_patience(
    before: LearnedTimeout,
    unacked: Unacked,
    clients: Grouping[ClientSeries],
    found: Facts,
    constants: Constants,
) -> tuple[LearnedTimeout, Column]:
    """What the clients taught by this poll, and the patience of each of them."""
    patience = before.advance(clients.index)
    configured = clients.index.column(
        "patience", lambda series: number_or_nan(series.said.patience)
    )
    learns = np.flatnonzero(~np.isnan(unacked.gaps) & (clients.member >= 0))
    at = clients.member[learns]
    before_these = patience.seconds(constants, found.interval, configured, at)
    patience = patience.learn(at, unacked.gaps[learns], before_these, constants)
    return patience, patience.seconds(constants, found.interval, configured)


def eager_patience(
    patience: LearnedTimeout,
    groups: Groups,
    usual: Column,
    full: Mask,
    interval: float,
    constants: Constants,
) -> Column:
    """`usual`, per consumer, but where a buffer is seen to be full the longest of few gaps counts twice, not thrice."""
    at = np.flatnonzero(full)
    at = at[~np.isnan(usual[at])]
    sooner = usual.copy()
    rows = groups.clients.member[at]
    configured = groups.clients.index.column(
        "patience", lambda series: number_or_nan(series.said.patience)
    )
    thrice = patience.seconds(constants, interval, configured, rows)
    twice = patience.seconds(
        replace(constants, factor=min(constants.factor, 2.0)),
        interval,
        configured,
        rows,
    )
    sooner[at] = np.where(patience.weight[rows] < FEW, twice, thrice)
    return sooner


def consumer_patience(groups: Groups, found: Facts, of_clients: Column) -> Column:
    """Per consumer; NaN for those that are not judged: hidden ones, and those of queues that are the broker's own."""
    judged = found.queues.column("consumers judged", lambda row: row.kind in JUDGED) > 0
    patience = np.append(of_clients, np.nan)[groups.clients.member]
    return np.where(found.consumer.at_queue(judged, np.False_), patience, np.nan)


def queue_patience(found: Facts, per_consumer: Column, constants: Constants) -> Column:
    """Per queue the longest of its consumers', else cold."""
    longest = np.full(len(found.queues) + 1, -np.inf)
    np.maximum.at(
        longest,
        found.consumer.queue,
        put(per_consumer, np.isnan(per_consumer), -np.inf),
    )
    return np.where(np.isinf(longest), constants.cold, longest)[:-1]
