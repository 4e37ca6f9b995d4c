"""Consumers that work, and whose buffer never gets back to where it was: they acknowledge all but a few.

Followed are those that were never empty since a first poll. The time in which there is work is cut into windows, each
with the least that was buffered in it: six that never fall are a suspicion, as of a consumer that is a little too
slow, and so are four, each above the mean of the one before; what it still buffers when nothing is left to do is proof.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Positions, take_or_fill
from penstock.observation.facts import Facts

WINDOWS = 6
CLEAR = 4
PROVEN_WINDOWS = 3
"""The last are enough where what is buffered at rest bears them out."""
SECONDS = 30.0
POLLS = 8
GAPS = 3
"""A window is as long as the longest of: seconds, polls, times the longest gap between acknowledgements."""
WIDEST = 4
"""Times as long windows become, in two steps, while nothing is found: a slow leak shows over a longer time."""
STEADY = 0.8
"""Share of the polls with deliveries at which it also acknowledged: who acknowledges in batches does not at most."""
SHARE = 0.02
"""More than this of what it settles is no leak: it is too slow."""
LULL = 3
"""Polls at which nothing came, was delivered or acknowledged, and nothing was ready."""
MANY = 128
"""Polls with deliveries, after which both counts of them are halved."""

LOW, MEAN, SETTLED = range(3)
"""Of a closed window: the least and the mean that was buffered, how many were settled."""
(
    LEAST,
    SUM,
    SEEN,
    LEFT,
    ELAPSED,
    SCALE,
    CLOSED,
    GAP,
    LONGEST,
    MOVED,
    STEADILY,
    QUIET,
    HELD,
    RISES,
    PROVEN,
) = range(15)
"""Of the open window: least and sum of what was buffered, polls, settled, seconds. Of the row: times of the usual
width, closed windows, seconds since it acknowledged and the most of that, polls with deliveries and those of them with
acknowledgements, polls of the lull, buffered at the poll before, the windows rise (2: much), buffered in a lull then.
"""
START = np.array([np.nan, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, np.nan, 0, 0], np.float32)

Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Buffers(RowState):
    """Per consumer its place among those that are followed, -1 where it is not; the rest is by these places.
    kept_since: a poll since which it has all that it had then. windows: (3, WINDOWS, places then). rows: as above.
    """

    place: NDArray[np.int32] = column(-1, dtype=np.int32, saved=False)
    now: float = unindexed(lambda: np.nan)
    turned: float = unindexed(lambda: np.nan)
    """When windows were closed last: all at once, as most polls then cost little."""
    at: Positions = unindexed(lambda: np.empty(0, np.intp))
    """Of those that are followed, by the rows of `index`."""
    began: Column = unindexed(lambda: np.empty(0))
    kept_since: Column = unindexed(lambda: np.empty(0))
    then: Positions = unindexed(lambda: np.empty(0, np.intp))
    """Places at that time, in the order of the windows, -1 for those that were not followed."""
    windows: Numbers = unindexed(lambda: np.empty((3, WINDOWS, 0), np.float32))
    rows: Numbers = unindexed(lambda: np.empty((len(START), 0), np.float32))

    def advance(self, found: Facts) -> "Buffers":
        one = self.by(found, found.consumer.holding)
        step = 0.0 if np.isnan(self.now) else found.now - self.now
        parted = counted(one.rows, found, one.at, step)
        one = replace(
            one, now=found.now, kept_since=np.where(parted, found.read, one.kept_since)
        )
        least = max(SECONDS, POLLS * found.interval)
        return one if found.now - self.turned < least else one.closed(least)

    def by(self, found: Facts, at: Positions) -> "Buffers":
        """Of the consumers `at`, `rows` to be written to."""
        index = found.consumer.index
        before = self.reindexed(index).place[at]
        if index is self.index and len(at) == len(self.at) and (at == self.at).all():
            return replace(self, rows=self.rows.copy())
        place = np.full(len(index), -1, np.int32)
        place[at] = np.arange(len(at), dtype=np.int32)
        known = self if len(self.at) else NOBODY
        began, kept_since = (
            part.take(before, mode="clip") for part in (known.began, known.kept_since)
        )
        then = known.then.take(before, mode="clip")
        rows = known.rows.take(before, axis=-1, mode="clip")
        new = np.flatnonzero(before < 0)
        began[new], kept_since[new], then[new], rows[:, new] = (
            found.now,
            found.read,
            -1,
            START[:, None],
        )
        return Buffers(
            index,
            place,
            self.now,
            self.turned,
            at,
            began,
            kept_since,
            then,
            self.windows,
            rows,
        )

    def closed(self, least: float) -> "Buffers":
        """With the windows of all closed that are long enough; least: seconds."""
        rows = self.rows
        windows = take_or_fill(self.windows, self.then, np.nan)
        width = np.maximum(least, GAPS * rows[LONGEST]) * rows[SCALE]
        # Who came since the last time has less than a whole window.
        close(
            windows,
            rows,
            np.flatnonzero((rows[ELAPSED] >= 0.75 * width) & (rows[SEEN] >= POLLS - 1)),
        )
        return replace(
            self, turned=self.now, windows=windows, then=np.arange(len(self.at))
        )

    @property
    def proven(self) -> Mask:
        """By place: it is proven to leak."""
        return self.rows[PROVEN] > 0

    @property
    def suspected(self) -> Mask:
        """By place: proven or suspected to leak. Not who stopped to acknowledge while messages come: it stalls."""
        return ((self.rows[RISES] > 1) | self.proven) & (self.rows[GAP] < SECONDS)

    def share(self, places: Positions) -> Column:
        """Of what these settled in their windows, so much was added to their buffers."""
        rise, settled = grown(self.windows[:, :, self.then[places]])
        return np.divide(
            rise, settled, out=np.full(len(rise), np.nan), where=settled > 0
        )


NOBODY = Buffers(
    began=np.empty(1),
    kept_since=np.empty(1),
    then=np.full(1, -1),
    rows=np.empty((len(START), 1), np.float32),
)
"""To take from where all are new."""


def counted(rows: Numbers, found: Facts, at: Positions, step: float) -> Mask:
    """Adds a poll, `step` seconds after the one before, to the rows of the consumers `at`: whether something left."""
    consumer = found.consumer
    queue = found.consumer.queue[at]
    held, left, delivered = (
        values[at].astype(np.float32)
        for values in (consumer.held, consumer.d_left, consumer.d_delivered)
    )
    delivers = delivered > 0
    settles = left > 0
    idle = (found.d_added == 0) & (found.ready == 0)
    rests = ~(delivers | settles) & idle[queue]
    works = (~rests).astype(np.float32)
    seconds = works * np.float32(step)
    parted = settles | ~(delivered == held - rows[HELD])
    rows[LEAST] = np.where(rests, rows[LEAST], np.fmin(rows[LEAST], held))
    rows[SUM] += works * held
    rows[SEEN] += works
    rows[LEFT] += left
    rows[ELAPSED] += seconds
    rows[GAP] += seconds
    np.maximum(rows[LONGEST], rows[GAP], out=rows[LONGEST])
    rows[GAP] *= ~settles
    rows[MOVED] += delivers
    rows[STEADILY] += delivers & settles
    many = np.flatnonzero(rows[MOVED] >= MANY)
    rows[MOVED : STEADILY + 1, many] /= 2
    rows[QUIET] = (rows[QUIET] + 1) * (rests & ~parted)
    rows[HELD] = held
    rows[PROVEN] *= held >= rows[PROVEN]  # else they came out after all
    proof = np.flatnonzero((rows[QUIET] >= LULL) & (rows[RISES] > 0))
    rows[PROVEN, proof] = held[proof]
    return parted


def close(windows: Numbers, rows: Numbers, at: Positions) -> None:
    """Closes the open windows of these rows; of six in which nothing rises two each become one, of twice the width."""
    full = rows[CLOSED, at] == WINDOWS
    joined = at[full & (rows[RISES, at] == 0) & (rows[SCALE, at] < WIDEST)]
    pairs = windows[:, :, joined].reshape(3, WINDOWS // 2, 2, len(joined))
    windows[:, :, joined] = np.nan
    windows[LOW, : WINDOWS // 2, joined] = pairs[LOW].min(axis=1).T
    windows[MEAN, : WINDOWS // 2, joined] = pairs[MEAN].mean(axis=1).T
    windows[SETTLED, : WINDOWS // 2, joined] = pairs[SETTLED].sum(axis=1).T
    rows[CLOSED, joined], rows[SCALE, joined] = WINDOWS // 2, 2 * rows[SCALE, joined]
    slid = at[full & (rows[CLOSED, at] == WINDOWS)]
    windows[:, :-1, slid] = windows[:, 1:, slid]
    rows[CLOSED, slid] = WINDOWS - 1
    at = at[~np.isin(at, joined)]  # whose open window goes on
    place = rows[CLOSED, at].astype(np.intp)
    windows[LOW, place, at], windows[SETTLED, place, at] = (
        rows[LEAST, at],
        rows[LEFT, at],
    )
    windows[MEAN, place, at] = rows[SUM, at] / rows[SEEN, at]
    rows[CLOSED, at] += 1
    rows[LEAST : ELAPSED + 1, at] = START[LEAST : ELAPSED + 1, None]
    rows[LONGEST, at] *= 0.9  # one long gap is forgotten in time
    rows[RISES, at] = rises(windows[:, :, at], rows[:, at])


def rises(windows: Numbers, rows: Numbers) -> Numbers:
    """Whether the least of each window is never below the one before, and in the end a little above the first, and
    above its mean: the least of what goes up and down is so by chance once in many years.
    """
    low = windows[LOW]
    enough = rows[CLOSED] >= PROVEN_WINDOWS
    steps = np.diff(low, axis=0)
    first = low[0]
    (rise, settled) = grown(windows)
    grows = (
        ~(steps < 0).any(axis=0)
        & ((steps > 0).sum(axis=0) >= 2)
        & (first + rise > windows[MEAN, 0])
    )
    steady = (rows[MOVED] >= POLLS) & (rows[STEADILY] >= STEADY * rows[MOVED])
    little = (
        (rise >= 3 * np.sqrt(first + 1)) & (settled > 0) & (rise <= SHARE * settled)
    )
    clear = (rows[CLOSED] >= CLEAR) & ~(low[1:] <= windows[MEAN, :-1]).any(axis=0)
    return (enough & grows & little & steady) * (
        1 + (clear | (rows[CLOSED] == WINDOWS))
    )


def grown(windows: Numbers) -> tuple[Numbers, Numbers]:
    """From the first window to the last one closed: by how much the least rose, and what was settled."""
    low = windows[LOW]
    return np.fmax.reduce(low, axis=0) - low[0], np.nansum(windows[SETTLED, 1:], axis=0)
