"""Consumers that leak: they work, and acknowledge all but a few messages, so that their buffer never gets empty.

A consumer is followed from a first poll on for as long as it buffers something. The time in which there is work is cut
into windows. Six windows whose least number of buffered messages never falls are a suspicion, as of a consumer that is
a little too slow, and so are four windows, each above the mean of the one before. Messages that it still buffers in a
*lull*, when nothing is left to do, are proof.

The numbers are by *place*: the followed consumers are numbered in the order of the listing. They are lines of one array
of floats, as a large broker has 50,000 consumers and a poll may take some milliseconds.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Positions, take_or_fill
from penstock.observation.facts import Facts

WINDOWS = 6
CLEAR = 4
"""Windows that are enough if the least of each is above the mean of the one before."""
PROVEN_WINDOWS = 3
"""Windows that are enough if a lull confirms them: messages are still buffered."""
SECONDS = 30.0
POLLS = 8
GAPS = 3
"""A window lasts for the longest of these: seconds, polls, times the longest gap between acknowledgements."""
WIDEST = 4
"""Windows become so many times as long, in two steps, while none rises: a slow leak shows over a longer time."""
STEADY = 0.8
"""Share of the polls with deliveries that also have acknowledgements; where they come in batches it is less."""
SHARE = 0.02
"""If a buffer grows by more than this share of the settled messages, the consumer does not leak, it is too slow."""
WHOLE = 0.75
"""Share of the width of a window that its seconds with work must cover before it is closed: a consumer that came since
windows were closed last has less.
"""
CHANCE = 3
"""A buffer must grow by so many times the square root of its messages: less is chance."""
LULL = 3
"""Polls without a new, ready, delivered or acknowledged message: nothing is left to do."""
MANY = 128
"""Polls with deliveries, after which both counts of polls are halved."""
FADING = np.float32(0.9)
"""Of the longest gap, with each window: one long gap is forgotten in time."""

LOW, MEAN, SETTLED = range(3)
"""Lines of a closed window: least and mean number of buffered messages, and settled messages."""

LEAST = 0
"""Open window: least number of buffered messages."""
SUM = 1
"""Open window: sum of the buffered messages of its polls."""
SEEN = 2
"""Open window: polls with work."""
LEFT = 3
"""Open window: messages that left the buffer because they were settled."""
ELAPSED = 4
"""Open window: seconds with work."""
SCALE = 5
"""How many times the usual width the windows have."""
CLOSED = 6
"""How many windows are closed."""
GAP = 7
"""Seconds with work since the last acknowledgement."""
LONGEST = 8
"""The longest of these gaps, which fades."""
MOVED = 9
"""Polls with deliveries."""
STEADILY = 10
"""Polls with deliveries and acknowledgements."""
QUIET = 11
"""Polls of the present lull."""
HELD = 12
"""Messages that were buffered at the poll before."""
RISES = 13
"""Whether the windows rise: 0 no, 1 yes, 2 so clearly that it is a suspicion."""
PROVEN = 14
"""Messages that were buffered in a lull: the proof; 0 where there is none."""

OPEN_WINDOW = slice(LEAST, ELAPSED + 1)
POLLS_WITH_DELIVERIES = slice(MOVED, STEADILY + 1)
START = np.zeros(PROVEN + 1, np.float32)
"""The numbers of a consumer that is new."""
START[[LEAST, HELD]] = np.nan
START[SCALE] = 1

Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Buffers(RowState):
    """The consumers that are followed. Each has a place among them, in the order of the rows of `index`."""

    place: NDArray[np.int32] = column(-1, dtype=np.int32, saved=False)
    """Per consumer its place, -1 where it is not followed; all else is by place."""
    now: float = unindexed(lambda: np.nan)
    turned: float = unindexed(lambda: np.nan)
    """When windows were closed last: all at once, so that most polls cost little."""
    at: Positions = unindexed(lambda: np.empty(0, np.intp))
    """The rows of the consumers that are followed."""
    began: Column = unindexed(lambda: np.empty(0))
    """Since when each is followed."""
    kept_since: Column = unindexed(lambda: np.empty(0))
    """The first poll since which no message has left the buffer."""
    then: Positions = unindexed(lambda: np.empty(0, np.intp))
    """The place in `windows`, which is that of the time when windows were closed last; -1: not followed then."""
    windows: Numbers = unindexed(lambda: np.empty((3, WINDOWS, 0), np.float32))
    """(LOW … SETTLED, WINDOWS, places then) The closed windows, NaN where there is none yet."""
    rows: Numbers = unindexed(lambda: np.empty((len(START), 0), np.float32))
    """(LEAST … PROVEN, places) The numbers of each."""

    def advance(self, facts: Facts) -> "Buffers":
        """Return the state after a poll; now and then it closes windows, for all consumers at once."""
        followed = self.following(facts, facts.consumer.holding)
        step = 0.0 if np.isnan(self.now) else facts.now - self.now
        message_left = count_poll(followed.rows, facts, followed.at, step)
        kept_since = np.where(message_left, facts.read, followed.kept_since)
        followed = replace(followed, now=facts.now, kept_since=kept_since)
        # Before windows were ever closed this is NaN, which is not less: they are at the first poll, where none is due.
        shortest = max(SECONDS, POLLS * facts.interval)
        seconds_since_turn = facts.now - self.turned
        if seconds_since_turn < shortest:
            return followed
        return followed.with_windows_closed(shortest)

    def following(self, facts: Facts, consumers: Positions) -> "Buffers":
        """Return the state that follows these consumers, with `rows` that may be written to.

        One that was followed before keeps its numbers at its new place; another one begins with START.
        """
        index = facts.consumer.index
        before = self.reindexed(index).place[consumers]
        # Most polls list the same consumers, and the same of them buffer messages: places stay.
        if index is self.index and np.array_equal(consumers, self.at):
            return replace(self, rows=self.rows.copy())
        place = np.full(
            len(index),
            -1,
            np.int32,
        )
        place[consumers] = np.arange(len(consumers), dtype=np.int32)
        # Consumers that were not followed, at -1, take the numbers of place 0 here, which START replaces below.
        source = self if len(self.at) else NOBODY
        began = source.began.take(before, mode="clip")
        kept_since = source.kept_since.take(before, mode="clip")
        then = source.then.take(before, mode="clip")
        rows = source.rows.take(before, axis=-1, mode="clip")
        new = np.flatnonzero(before < 0)
        began[new] = facts.now
        kept_since[new] = facts.read
        then[new] = -1
        rows[:, new] = START[:, None]
        return replace(
            self,
            index=index,
            place=place,
            at=consumers,
            began=began,
            kept_since=kept_since,
            then=then,
            rows=rows,
        )

    def with_windows_closed(self, shortest: float) -> "Buffers":
        """Return the state with the open windows closed that are long enough.

        shortest: Seconds of the shortest window. The one of a consumer that seldom acknowledges is longer.
        """
        rows = self.rows
        windows = take_or_fill(self.windows, self.then, np.nan)
        usual_width = np.maximum(shortest, GAPS * rows[LONGEST])
        width = usual_width * rows[SCALE]
        is_long_enough = rows[ELAPSED] >= WHOLE * width
        has_polls = rows[SEEN] >= POLLS - 1
        close(
            windows,
            rows,
            np.flatnonzero(is_long_enough & has_polls),
        )
        places = np.arange(len(self.at))
        return replace(self, turned=self.now, windows=windows, then=places)

    @property
    def proven(self) -> Mask:
        """(places,) Whether the consumer is proven to leak."""
        return self.rows[PROVEN] > 0

    @property
    def suspected(self) -> Mask:
        """(places,) Whether the consumer is proven or suspected to leak.

        It is not if it has stopped to acknowledge while messages come: then it stalls.
        """
        may_leak = (self.rows[RISES] > 1) | self.proven
        return may_leak & (self.rows[GAP] < SECONDS)

    def share(self, places: Positions) -> Column:
        """(places,) By how many messages the buffer grew for each that was settled; NaN where none was.

        Over the closed windows of the consumers at these places.
        """
        rise, settled = growth(self.windows[:, :, self.then[places]])
        unknown = np.full(len(rise), np.nan)
        return np.divide(rise, settled, out=unknown, where=settled > 0)


NOBODY = Buffers(
    began=np.empty(1),
    kept_since=np.empty(1),
    then=np.full(1, -1),
    rows=np.empty((len(START), 1), np.float32),
)
"""One place without meaning, to take from where all consumers are new."""


class BufferMoves(NamedTuple):
    """The followed consumers at one poll, by place.

    Attributes:
        buffered: Messages that each buffers.
        settled: Messages that it settled since the poll before.
        delivers: Whether messages were delivered to it.
        settles: Whether it settled any.
        rests: Whether there is nothing to do for it.
        message_left: Whether a message left its buffer, settled or not.
    """

    buffered: Numbers
    settled: Numbers
    delivers: Mask
    settles: Mask
    rests: Mask
    message_left: Mask


def count_poll(rows: Numbers, facts: Facts, consumers: Positions, step: float) -> Mask:
    """(consumers,) Whether a message left the buffer; adds the poll to the rows of these consumers.

    step: Seconds since the poll before.
    """
    moves = moves_of(rows, facts, consumers)
    works = (~moves.rests).astype(np.float32)
    seconds = works * np.float32(step)
    count_in_window(rows, moves, works, seconds)
    count_gap(rows, moves, seconds)
    count_steadiness(rows, moves)
    count_lull(rows, moves)
    return moves.message_left


def moves_of(rows: Numbers, facts: Facts, consumers: Positions) -> BufferMoves:
    """Return what these consumers did since the poll before. rows: their numbers up to then."""
    consumer = facts.consumer
    buffered = consumer.held[consumers].astype(np.float32)
    settled = consumer.d_left[consumers].astype(np.float32)
    delivered = consumer.d_delivered[consumers].astype(np.float32)
    delivers = delivered > 0
    settles = settled > 0
    is_idle_queue = (facts.d_added == 0) & (facts.ready == 0)
    is_idle = is_idle_queue[consumer.queue[consumers]]
    adds_up = delivered == buffered - rows[HELD]
    return BufferMoves(
        buffered=buffered,
        settled=settled,
        delivers=delivers,
        settles=settles,
        rests=~(delivers | settles) & is_idle,
        message_left=settles | ~adds_up,
    )


def count_in_window(
    rows: Numbers, moves: BufferMoves, works: Numbers, seconds: Numbers
) -> None:
    """Add the poll to the open windows of the consumers with work.

    Args:
        rows: The numbers, which are written to.
        moves: The consumers at this poll.
        works: (places,) 1 where there is work, else 0.
        seconds: (places,) Seconds since the poll before where there is work, else 0.
    """
    least = np.fmin(rows[LEAST], moves.buffered)
    rows[LEAST] = np.where(
        moves.rests,
        rows[LEAST],
        least,
    )
    rows[SUM] += works * moves.buffered
    rows[SEEN] += works
    rows[LEFT] += moves.settled
    rows[ELAPSED] += seconds


def count_gap(rows: Numbers, moves: BufferMoves, seconds: Numbers) -> None:
    """Add the seconds with work to the gaps between acknowledgements; an acknowledgement ends the gap."""
    rows[GAP] += seconds
    np.maximum(
        rows[LONGEST],
        rows[GAP],
        out=rows[LONGEST],
    )
    # Multiplied by False the gap is 0 again.
    rows[GAP] *= ~moves.settles


def count_steadiness(rows: Numbers, moves: BufferMoves) -> None:
    """Count the polls with deliveries, and those of them with acknowledgements; both are halved when they are many."""
    rows[MOVED] += moves.delivers
    rows[STEADILY] += moves.delivers & moves.settles
    many = np.flatnonzero(rows[MOVED] >= MANY)
    rows[POLLS_WITH_DELIVERIES, many] /= 2


def count_lull(rows: Numbers, moves: BufferMoves) -> None:
    """Count the polls of the lull; messages that are still buffered in it prove that windows which rise are a leak."""
    buffered = moves.buffered
    is_quiet = moves.rests & ~moves.message_left
    rows[QUIET] = (rows[QUIET] + 1) * is_quiet
    rows[HELD] = buffered
    # A proof fails when the messages leave after all.
    rows[PROVEN] *= buffered >= rows[PROVEN]
    is_proof = (rows[QUIET] >= LULL) & (rows[RISES] > 0)
    proof = np.flatnonzero(is_proof)
    rows[PROVEN, proof] = buffered[proof]


def close(windows: Numbers, rows: Numbers, places: Positions) -> None:
    """Close the open windows of these places.

    A consumer has room for six closed windows. Where all are used and they do not rise, two each become one of twice
    the width, and the open one goes on until it is as wide: a slow leak shows over a longer time. Where they rise, or
    are as wide as they may be, the oldest is removed.
    """
    is_full = rows[CLOSED, places] == WINDOWS
    may_widen = (rows[RISES, places] == 0) & (rows[SCALE, places] < WIDEST)
    widens = is_full & may_widen
    join_pairs(windows, rows, places[widens])
    drop_oldest(
        windows,
        rows,
        places[is_full & ~widens],
    )
    closing = places[~widens]
    write_closed(windows, rows, closing)
    # A column of START for each place.
    rows[OPEN_WINDOW, closing] = START[OPEN_WINDOW, None]
    rows[LONGEST, closing] *= FADING
    rows[RISES, closing] = rises(windows[:, :, closing], rows[:, closing])


def join_pairs(windows: Numbers, rows: Numbers, places: Positions) -> None:
    """Make three windows of the six closed ones at these places, each of twice the width."""
    half = WINDOWS // 2
    # (lines, windows, places) becomes (lines, pairs, 2, places): the two of a pair are neighbours.
    pairs = windows[:, :, places].reshape(
        3,
        half,
        2,
        len(places),
    )
    windows[:, :, places] = np.nan
    windows[LOW][:half, places] = pairs[LOW].min(axis=1)
    windows[MEAN][:half, places] = pairs[MEAN].mean(axis=1)
    windows[SETTLED][:half, places] = pairs[SETTLED].sum(axis=1)
    rows[CLOSED, places] = half
    rows[SCALE, places] *= 2


def drop_oldest(windows: Numbers, rows: Numbers, places: Positions) -> None:
    """Remove the oldest of the six closed windows at these places, which makes room for one."""
    windows[:, :-1, places] = windows[:, 1:, places]
    rows[CLOSED, places] = WINDOWS - 1


def write_closed(windows: Numbers, rows: Numbers, places: Positions) -> None:
    """Write the open windows of these places behind their closed ones."""
    window = rows[CLOSED, places].astype(np.intp)
    windows[LOW, window, places] = rows[LEAST, places]
    windows[MEAN, window, places] = rows[SUM, places] / rows[SEEN, places]
    windows[SETTLED, window, places] = rows[LEFT, places]
    rows[CLOSED, places] += 1


def rises(windows: Numbers, rows: Numbers) -> Numbers:
    """(places,) 1 where the windows rise as those of a leak do, 2 where they do so clearly, else 0.

    The least number of a window is never below that of the window before, rises twice, and ends above the mean of the
    first window. All in all it rises by little: the least of a number that goes up and down does so by chance once in
    many years.

    Args:
        windows: (LOW … SETTLED, WINDOWS, places) The closed windows, NaN where there is none yet.
        rows: (LEAST … PROVEN, places) The numbers of the same places.
    """
    first = windows[LOW, 0]
    steps = np.diff(windows[LOW], axis=0)
    rise, settled = growth(windows)
    # A comparison with NaN, a window that is not closed yet, is False.
    never_falls = ~(steps < 0).any(axis=0)
    grows_twice = (steps > 0).sum(axis=0) >= 2
    gets_above_mean = first + rise > windows[MEAN, 0]
    grows = never_falls & grows_twice & gets_above_mean
    grows &= is_little(rise, settled, first)
    has_windows = rows[CLOSED] >= PROVEN_WINDOWS
    is_suspicion = is_clear(windows, rows)
    return (has_windows & grows & is_steady(rows)) * (1 + is_suspicion)


def is_little(rise: Numbers, settled: Numbers, first: Numbers) -> Mask:
    """(places,) Whether a buffer grows by more than chance, but by a small share of the settled messages.

    A larger share shows a consumer that is too slow.
    """
    is_more_than_chance = rise >= CHANCE * np.sqrt(first + 1)
    is_little_of_settled = (settled > 0) & (rise <= SHARE * settled)
    return is_more_than_chance & is_little_of_settled


def is_steady(rows: Numbers) -> Mask:
    """(places,) Whether the consumer acknowledges at most polls at which it receives messages, in no large batches."""
    is_known = rows[MOVED] >= POLLS
    return is_known & (rows[STEADILY] >= STEADY * rows[MOVED])


def is_clear(windows: Numbers, rows: Numbers) -> Mask:
    """(places,) Whether windows that rise are a suspicion.

    Six of them are, or four, if the least of each is above the mean of the one before.
    """
    is_above_mean = ~(windows[LOW, 1:] <= windows[MEAN, :-1]).any(axis=0)
    four_are_enough = (rows[CLOSED] >= CLEAR) & is_above_mean
    return four_are_enough | (rows[CLOSED] == WINDOWS)


def growth(windows: Numbers) -> tuple[Numbers, Numbers]:
    """(places,) From the first closed window to the last: by how much the least rose, and messages settled after it."""
    low = windows[LOW]
    # NaN: the window is not closed yet. Where the growth counts no window falls, so that the highest is the last.
    last = np.fmax.reduce(low, axis=0)
    settled = np.nansum(windows[SETTLED, 1:], axis=0)
    return last - low[0], settled
