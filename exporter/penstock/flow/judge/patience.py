"""
How long is normal: learned from gaps, per (queue, client) or per queue.

Gaps go into a histogram with bins that grow by the square root of two; older ones fade. Little evidence asks for a
long patience, much of it for three times the 98th percentile. A gap longer than the patience of its time was judged
unhealthy and teaches nothing, until the third such spell that ends by itself: then this is how the client works.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.spans import T, moved
from penstock.flow.totals import room_for
from penstock.table import Column, Index, Positions

BINS = 48
FIRST_EDGE = 0.25
SPELLS = 3
FEW, MANY = 50.0, 500.0
"""Weights below which the longest gap decides, and below which the cold patience is the least."""
EDGES: Column = FIRST_EDGE * 2.0 ** (np.arange(BINS) / 2)

LONG = 5.0
"""Seconds; gaps below it leave the patience of something little known as it is."""

Histogram = NDArray[np.float32]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned of one thing: its row of a `Patience`."""

    weights: Histogram
    weight: float
    longest: float
    q98: float
    spells: Column


@dataclass(frozen=True, slots=True)
class Patience:
    """
    What was learned, a row for each row of `index`.

    weights (slots, BINS), the histograms of those that have learned something: most clients of a large broker have
    nothing to do. weight: their sums; longest: the longest gap, decayed; spells (rows, SPELLS): gaps that were longer
    than the patience of their time, NaN where none; q98: derived when a row learns something.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    weights: Histogram = field(default_factory=lambda: np.empty((0, BINS), np.float32))
    weight: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    q98: Column = field(default_factory=lambda: np.empty(0))
    spells: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, SPELLS)))
    slot: Slots = field(default_factory=lambda: np.empty(0, np.int32))
    """Where each row's histogram stands in `weights`, -1 where it has none."""
    parked: dict[Any, "Learned"] = field(default_factory=dict)
    """What was learned of things that are not there now, by their row: a client that reconnects is the same."""
    room: int = 0
    """As many of them as may be."""
    used: int = BINS
    """The first so many bins; the others have no weight in any row."""

    def follow(self, index: Index[Any], *, renumbered: bool = False) -> "Patience":
        """
        The same by the rows of `index`; a new row has learned nothing, unless it was there before.

        renumbered: what is not in `index` is not gone, its rows are only about to come anew.
        """
        if index is self.index:
            return self
        origin = index.located(self.index)
        kept = origin >= 0
        slot, spells = moved(index, self.index, self.slot, -1).copy(), rows_of(self.spells, origin, np.nan)
        in_use = np.flatnonzero(slot >= 0)
        weights = self.weights[slot[in_use]]
        slot[in_use] = np.arange(len(in_use))
        numbers = {
            name: moved(index, self.index, getattr(self, name), 0.0).copy() for name in ("weight", "longest", "q98")
        }
        parked = dict(self.parked)
        for row in np.flatnonzero(index.positions(self.index.keys) < 0).tolist():
            if (renumbered and self.weight[row] > 0) or self._worth_keeping(row):
                parked[self.index.rows[row]] = self.learned(row)
        back: list[Histogram] = []
        for row in np.flatnonzero(~kept).tolist() if parked else ():
            known = parked.pop(index.rows[row], None)
            if known is not None:
                slot[row] = len(weights) + len(back)
                back.append(known.weights)
                spells[row] = known.spells
                numbers["longest"][row] = known.longest
                numbers["weight"][row] = known.weight
                numbers["q98"][row] = known.q98
        # Rows that are numbered anew take theirs back at the next poll: nothing is forgotten in between.
        room = room_for(self.room, len(index))
        while len(index) and len(parked) > room:
            del parked[next(iter(parked))]
        weights = np.concatenate([weights, back]) if back else weights
        used = int(np.flatnonzero(weights.any(axis=0)).max(initial=-1)) + 1
        return Patience(index, weights, spells=spells, slot=slot, parked=parked, room=room, used=used, **numbers)

    def histograms(self, rows: Positions) -> Histogram:
        """(rows, BINS): the weights of some rows."""
        return rows_of(self.weights, self.slot[rows], 0.0)

    def _worth_keeping(self, row: int) -> bool:
        """Whether a thing that is gone has taught what would make its patience another than that of an unknown one."""
        return bool(
            self.weight[row] >= FEW or self.longest[row] >= LONG or not np.isnan(self.spells[row]).all()
        )  # names that never come again are many

    def laid_aside(self) -> "Patience":
        """All as of things that are not there now: their rows are about to be numbered anew."""
        return replace(self.follow(Index.empty(), renumbered=True), index=Index.empty())

    def learned(self, row: int) -> "Learned":
        weight, longest, q98 = (float(column[row]) for column in (self.weight, self.longest, self.q98))
        return Learned(self.histograms(np.array([row]))[0], weight, longest, q98, self.spells[row].copy())

    def seconds(self, constants: Constants, interval: float, configured: Column | None = None) -> Column:
        """The patience of each row; a configured one (not NaN) wins."""
        return self.seconds_of(slice(None), constants, interval, configured)

    def seconds_of(
        self, rows: Positions | slice, constants: Constants, interval: float, configured: Column | None = None
    ) -> Column:
        """The same of some rows; `configured` is of all."""
        weight = self.weight[rows]
        factor, cold = constants.factor, constants.cold
        usual = factor * np.where(weight < FEW, self.longest[rows], self.q98[rows])
        learned = np.where(weight < MANY, np.maximum(cold, usual), usual)
        floor = constants.floor_seconds(interval)
        # A cold patience below the floor was asked for, as in short recordings.
        patience = np.clip(learned, min(floor, cold), max(constants.cap, cold))
        if configured is None:
            return patience
        said = configured[rows]
        return np.where(np.isnan(said), patience, said)

    def learn(self, at: Positions, gaps: Column, patience: Column, constants: Constants) -> "Patience":
        """
        With `gaps` (seconds) of the rows `at`, which may name a row several times.

        patience: of each gap's row, as it was while the gap lasted.
        """
        usual = gaps <= patience
        return self.add(at[usual], gaps[usual], constants).spelled(at[~usual], gaps[~usual], constants)

    def add(self, at: Positions, gaps: Column, constants: Constants) -> "Patience":
        if not len(at):
            return self
        counts = np.bincount(at)
        touched = np.flatnonzero(counts)
        place = np.empty(len(counts), np.intp)
        place[touched] = np.arange(len(touched))
        fading = (constants.decay ** np.arange(counts.max() + 1))[counts[touched]]
        into = bins(gaps)
        used = max(self.used, int(into.max()) + 1)
        taught = rows_of(self.weights[:, :used], self.slot[touched], 0.0)
        taught *= fading[:, None].astype(np.float32)
        np.add.at(taught.reshape(-1), place[at] * used + into, np.float32(1))
        slot, weight, longest, q98 = self.slot.copy(), self.weight.copy(), self.longest.copy(), self.q98.copy()
        first = touched[slot[touched] < 0]
        slot[first] = len(self.weights) + np.arange(len(first))
        weights = np.concatenate([self.weights, np.zeros((len(first), BINS), np.float32)])
        weights[slot[touched], :used] = taught
        weight[touched] = weight[touched] * fading + counts[touched]
        longest[touched] *= fading
        np.maximum.at(longest, at, gaps)
        q98[touched] = np.minimum(quantile(taught, 0.98), longest[touched])
        return replace(self, weights=weights, slot=slot, weight=weight, longest=longest, q98=q98, used=used)

    def spelled(self, at: Positions, gaps: Column, constants: Constants) -> "Patience":
        """With gaps that were judged unhealthy; of three of a row their median is learned."""
        if not len(at):
            return self
        spells, medians = self.spells.copy(), []
        for row, gap in zip(at.tolist(), gaps.tolist(), strict=True):
            free = np.flatnonzero(np.isnan(spells[row]))
            spells[row, free[0]] = gap
            if len(free) == 1:
                medians.append((row, float(np.median(spells[row]))))
                spells[row] = np.nan
        rows = np.array([row for row, _ in medians], np.intp)
        return replace(self, spells=spells).add(rows, np.array([median for _, median in medians]), constants)


def rows_of(values: NDArray[T], origin: Positions | Slots, fill: float) -> NDArray[T]:
    """The rows `origin` of a matrix, `fill` where that is -1."""
    if not len(values):
        return np.full((len(origin), *values.shape[1:]), fill, values.dtype)
    moved = values[origin]
    moved[np.flatnonzero(origin < 0)] = fill
    return moved


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
