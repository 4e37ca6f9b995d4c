"""How long is normal, per (queue, client) or per queue: timeouts learned from gaps, and since when queues wait.

A *gap* is a time without progress that has ended. Gaps go into a histogram with bins that grow by the square root of
two; older gaps fade. Little evidence leads to a long timeout, much of it to three times the 98th percentile. A gap that
is longer than the timeout was when it ended counted as unhealthy and teaches nothing, until the third such gap that
ends by itself: then this is how the client works.

The *cold* timeout is the one of a row that has learned nothing. The *weight* of a row is the number of its gaps, of
which older ones count less. A row is *dormant* while its client or queue is not there; most rows have learned nothing,
so that only those that have get a *slot*, a place for a histogram.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Positions, put
from penstock.core.windows import since
from penstock.model import QueueRow
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
"""Gaps that counted as unhealthy, of which the median is learned."""
FEW = 50.0
"""Below this weight the longest gap decides, not the percentile."""
MANY = 500.0
"""Below this weight no timeout is below the cold one."""
QUANTILE = 0.98
EDGES: Column = FIRST_EDGE * 2.0 ** (np.arange(BINS) / 2)
"""Upper edges of the bins, seconds."""

LONG = 5.0
"""Seconds; shorter gaps leave the timeout of a row with few gaps as it is."""

Histogram = NDArray[np.float32]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Learned:
    """All that was learned about one thing: its row of a `LearnedTimeout`."""

    weights: Histogram
    weight: float
    longest: float
    q98: float
    long_gaps: Column


@dataclass(frozen=True, slots=True)
class LearnedTimeout(RowState):
    """The gaps that were learned, a row for each row of `index`."""

    weight: Column = column(0.0, saved=False)
    """Sum of the row's histogram."""
    longest: Column = column(0.0, saved=False)
    """Longest gap, which fades, seconds."""
    q98: Column = column(0.0, saved=False)
    """98th percentile of the gaps, seconds; computed when the row learns a gap."""
    long_gaps: NDArray[np.float64] = column(lines=LONG_GAPS, saved=False)
    """(LONG_GAPS, rows) Gaps that were longer than the timeout when they ended, seconds; NaN where there is none."""
    slot: Slots = column(-1, dtype=np.int32, saved=False)
    """The place of each row's histogram in `weights`, -1 where it has none."""
    weights: Histogram = unindexed(lambda: np.empty((0, 0), np.float32))
    """(slots, bins) Histograms of the rows that have learned something, as most clients of a large broker are idle. The
    last bins, which are 0 in all, are left out.
    """
    dormant: dict[Hashable, "Learned"] = unindexed(dict)
    """Things that are not there now, by their row: a client that reconnects is the same."""
    capacity: int = unindexed(int)
    """How many of them are kept at most."""

    def advance(
        self, index: Index[object], *, renumbered: bool = False
    ) -> "LearnedTimeout":
        """Return the state by the rows of `index`; a new row has learned nothing, unless it was there before.

        What is known about rows that are gone is laid aside, and given back to rows that return.

        renumbered: Rows that are not in `index` are not gone, they are about to get new keys.
        """
        if index is self.index:
            return self
        moved = self.reindexed(index)
        # Slots of rows that are gone are given up: the others are numbered from 0.
        in_use = np.flatnonzero(moved.slot >= 0)
        weights = self.weights[moved.slot[in_use]]
        moved.slot[in_use] = np.arange(len(in_use))
        dormant = self.dormant | self._departed(index, renumbered=renumbered)
        returned: dict[int, Learned] = {}
        if dormant:
            returned = take_returned(
                dormant,
                index,
                index.new_since(self.index),
            )
        moved.restore(returned, first_slot=len(weights))
        capacity = dormant_capacity(self.capacity, len(index))
        # Rows that get new keys take theirs back at the next poll: until then nothing is forgotten.
        if len(index):
            forget_oldest(dormant, capacity)
        weights = with_histograms(weights, [*returned.values()])
        return replace(
            moved,
            weights=without_empty_bins(weights),
            dormant=dormant,
            capacity=capacity,
        )

    def _departed(
        self, index: Index[object], *, renumbered: bool
    ) -> dict[Hashable, "Learned"]:
        """Return what was learned about rows that are not in `index`, if it makes another timeout than the cold one.

        Other rows are not worth keeping, as many names never return. Where rows are only renumbered all are kept.
        """
        has_long_gap = ~np.isnan(self.long_gaps).all(axis=0)
        is_kept = (self.weight >= FEW) | (self.longest >= LONG) | has_long_gap
        if renumbered:
            is_kept |= self.weight > 0
        is_absent = index.positions(self.index.keys) < 0
        rows = np.flatnonzero(is_absent & is_kept)
        names = self.index.rows
        return {names[row]: self.learned(row) for row in rows.tolist()}

    def restore(self, returned: dict[int, "Learned"], first_slot: int) -> None:
        """Write what is known about the rows that return; their histograms get the slots from `first_slot` on.

        returned: By position of the row.
        """
        for slot, (row, learned) in enumerate(returned.items(), first_slot):
            self.slot[row] = slot
            self.long_gaps[:, row] = learned.long_gaps
            self.longest[row] = learned.longest
            self.weight[row] = learned.weight
            self.q98[row] = learned.q98

    def histograms(self, rows: Positions) -> Histogram:
        """(rows, BINS) The histograms of some rows with all bins; 0 for a row that has none."""
        slot = self.slot[rows]
        has_slot = slot >= 0
        bins_in_use = self.weights.shape[1]
        histograms = np.zeros((len(rows), BINS), np.float32)
        histograms[has_slot, :bins_in_use] = self.weights[slot[has_slot]]
        return histograms

    def laid_aside(self) -> "LearnedTimeout":
        """Return the state with all rows dormant: they are about to get new keys."""
        without_rows = self.advance(Index.empty(), renumbered=True)
        return replace(without_rows, index=Index.empty())

    def learned(self, row: int) -> "Learned":
        """Return what was learned about one row."""
        rows = np.array([row])
        return Learned(
            weights=self.histograms(rows)[0],
            weight=float(self.weight[row]),
            longest=float(self.longest[row]),
            q98=float(self.q98[row]),
            long_gaps=self.long_gaps[:, row].copy(),
        )

    def seconds(
        self,
        constants: Constants,
        interval: float,
        configured: Column | None = None,
        rows: Positions | slice = slice(None),
    ) -> Column:
        """(rows,) Seconds that a gap may last; a configured number has priority.

        With few gaps the longest one counts, with more the 98th percentile, each times the factor. Until there are many
        the timeout is not below the cold one.

        Args:
            constants: Of the judgement.
            interval: Of the polls, seconds.
            configured: (all rows,) Seconds that operators gave, NaN where they gave none.
            rows: The rows that are asked for.
        """
        weight = self.weight[rows]
        cold = constants.cold
        longest_usual = np.where(
            weight < FEW,
            self.longest[rows],
            self.q98[rows],
        )
        by_gaps = constants.factor * longest_usual
        learned = np.where(
            weight < MANY,
            np.maximum(cold, by_gaps),
            by_gaps,
        )
        # A cold timeout below the floor or above the cap is what an operator asked for, as for short recordings.
        floor = min(constants.floor_seconds(interval), cold)
        cap = max(constants.cap, cold)
        timeout: Column = np.clip(learned, floor, cap)
        if configured is None:
            return timeout
        configured = configured[rows]
        return put(timeout, ~np.isnan(configured), configured)

    def learn(
        self, rows: Positions, gaps: Column, timeouts: Column, constants: Constants
    ) -> "LearnedTimeout":
        """Return the state with these gaps: the usual ones are learned at once, long ones only when there are three.

        Args:
            rows: (gaps,) The row of each gap; a row may have several.
            gaps: (gaps,) Seconds.
            timeouts: (gaps,) The timeout of the row when the gap ended; a longer gap is a long one.
            constants: Of the judgement.
        """
        is_usual = gaps <= timeouts
        learned = self.add(
            rows[is_usual],
            gaps[is_usual],
            constants,
        )
        return learned.learn_long(
            rows[~is_usual],
            gaps[~is_usual],
            constants,
        )

    def add(
        self, rows: Positions, gaps: Column, constants: Constants
    ) -> "LearnedTimeout":
        """Return the state with `gaps` (seconds) in the histograms of their rows.

        Each gap lets the older ones of its row fade: all weights of the row are multiplied by the decay, once a gap.
        """
        if not len(rows):
            return self
        counts = np.bincount(rows)
        touched = np.flatnonzero(counts > 0)
        gaps_of_touched = counts[touched]
        fading = constants.decay**gaps_of_touched
        state = self._with_room_for(touched, bins(gaps))
        slots = state.slot[touched]
        histograms = state.weights.take(slots, axis=0)
        histograms *= fading[:, None].astype(np.float32)
        # For each row with a gap its position among `touched`.
        position_in_touched = np.cumsum(counts > 0) - 1
        add_gaps(histograms, position_in_touched[rows], bins(gaps))
        state.weights[slots] = histograms
        state.weight[touched] = state.weight[touched] * fading + gaps_of_touched
        state.longest[touched] *= fading
        np.maximum.at(state.longest, rows, gaps)
        # The percentile is the upper edge of its bin, which may be above the longest gap.
        percentile = quantile(histograms, QUANTILE)
        state.q98[touched] = np.minimum(percentile, state.longest[touched])
        return state

    def _with_room_for(
        self, rows: Positions, bins_of_gaps: Positions
    ) -> "LearnedTimeout":
        """Return a copy that may be written to, with a histogram for each of these rows and a place for these bins."""
        slot = self.slot.copy()
        first_time = rows[slot[rows] < 0]
        used = len(self.weights)
        size = used + len(first_time)
        slot[first_time] = np.arange(used, size)
        highest_bin = int(bins_of_gaps.max())
        width = max(self.weights.shape[1], highest_bin + 1)
        return replace(
            self,
            weights=widened(self.weights, size, width),
            slot=slot,
            weight=self.weight.copy(),
            longest=self.longest.copy(),
            q98=self.q98.copy(),
        )

    def learn_long(
        self, rows: Positions, gaps: Column, constants: Constants
    ) -> "LearnedTimeout":
        """Return the state with gaps that counted as unhealthy; each three of a row are learned as their median.

        Args:
            rows: (gaps,) The row of each gap.
            gaps: (gaps,) Seconds.
            constants: Of the judgement.
        """
        if not len(rows):
            return self
        long_gaps = self.long_gaps.copy()
        full_rows: list[int] = []
        medians: list[float] = []
        for row, gap in zip(rows.tolist(), gaps.tolist(), strict=True):
            # A view: what is written to it is written to `long_gaps`.
            gaps_of_row = long_gaps[:, row]
            free = np.flatnonzero(np.isnan(gaps_of_row))
            gaps_of_row[free[0]] = gap
            is_full = len(free) == 1
            if is_full:
                full_rows.append(row)
                medians.append(float(np.median(gaps_of_row)))
                gaps_of_row[:] = np.nan
        state = replace(self, long_gaps=long_gaps)
        return state.add(
            np.array(full_rows, np.intp),
            np.array(medians),
            constants,
        )


def take_returned(
    dormant: dict[Hashable, Learned], index: Index[object], new_rows: Positions
) -> dict[int, Learned]:
    """Return what is known about the new rows of `index`, by their positions; it is removed from `dormant`."""
    returned = {}
    for row in new_rows.tolist():
        learned = dormant.pop(index.rows[row], None)
        if learned is not None:
            returned[row] = learned
    return returned


def forget_oldest(dormant: dict[Hashable, Learned], capacity: int) -> None:
    """Remove the things that have been gone longest, until `capacity` are left."""
    # A dictionary has them in the order in which they went.
    while len(dormant) > capacity:
        oldest = next(iter(dormant))
        del dormant[oldest]


def with_histograms(weights: Histogram, learned: Sequence[Learned]) -> Histogram:
    """(slots, bins) The histograms `weights`, and behind them those in `learned`."""
    if not learned:
        return weights
    wide = widened(weights, len(weights), BINS)
    return np.concatenate([wide, [row.weights for row in learned]])


def without_empty_bins(weights: Histogram) -> Histogram:
    """(slots, bins) A copy of the histograms without the last bins, which are 0 in all."""
    used = np.flatnonzero(weights.any(axis=0))
    width = int(used.max(initial=-1)) + 1
    return weights[:, :width].copy()


def widened(weights: Histogram, rows: int, columns: int) -> Histogram:
    """(rows, columns) A copy of the histograms, 0 where there was none."""
    wider = np.zeros((rows, columns), np.float32)
    wider[: len(weights), : weights.shape[1]] = weights
    return wider


def add_gaps(histograms: Histogram, rows: Positions, bins_of_gaps: Positions) -> None:
    """Add 1 to the bin of each gap in the histogram of its row; a bin may get several.

    Args:
        histograms: (rows, bins) Written to.
        rows: (gaps,) The row of each gap.
        bins_of_gaps: (gaps,) The bin of each.
    """
    # `np.add.at` is faster with one position than with row and bin.
    width = histograms.shape[1]
    flat = histograms.reshape(-1)
    np.add.at(
        flat,
        rows * width + bins_of_gaps,
        np.float32(1),
    )


def bins(gaps: Column) -> Positions:
    """Return the bin of each gap: the first whose upper edge is not below it."""
    return np.minimum(np.searchsorted(EDGES, gaps), BINS - 1)


def quantile(weights: Histogram, share: float) -> Column:
    """(rows,) Upper edge of the bin in which the row's cumulative weight reaches `share` of its sum.

    The bins are added one after another, for all rows at once, until each row has reached it: low bins are enough for
    most rows.

    weights: (rows, bins)
    """
    by_bin = np.ascontiguousarray(weights.T)
    cumulative = np.zeros(len(weights), np.float32)
    weight_to_reach = np.float32(share) * by_bin.sum(axis=0)
    bin_of_row = np.zeros(len(weights), np.intp)
    for weight in by_bin:
        cumulative += weight
        is_below = cumulative < weight_to_reach
        if not is_below.any():
            break
        bin_of_row += is_below
    return EDGES[np.minimum(bin_of_row, BINS - 1)]


# --- since when queues wait


def advance_timers(
    timers: QueueTimers,
    dispatch: LearnedTimeout,
    facts: Facts,
    previous: float,
    constants: Constants,
) -> tuple[QueueTimers, LearnedTimeout, Column]:
    """Return the timers after a poll, the timeouts with the waits that ended, and (queues,) the absences that ended.

    Args:
        timers: After the poll before.
        dispatch: For how long a queue usually waits until it delivers.
        facts: The numbers of this poll.
        previous: When the poll before was, NaN where there was none. A counter that has not risen since then stands
            still from then on.
        constants: Of the judgement.
    """
    before = timers.reindexed(facts.queues, facts.known)
    read = timers.read
    has_new_listing = facts.queues is not timers.index
    if has_new_listing:
        read = read_queues(timers, facts.queues)
        mark_read_before(before, facts.queues, timers.index, read)
    if np.isnan(previous):
        previous = facts.now
    dispatch = dispatch.advance(facts.queues)
    dispatch = learn_waits(dispatch, before, facts, constants)
    absences = ended_absences(before, facts, previous)
    after = timers_after(before, facts, previous, constants)
    return replace(after, read=read), dispatch, absences


def timers_after(
    before: QueueTimers, facts: Facts, previous: float, constants: Constants
) -> QueueTimers:
    """Return since when each queue is as it is now.

    Something that can only be seen as no change of a counter is so since the poll before, everything else since now.

    Args:
        before: After the poll before, by the queues of this poll.
        facts: The numbers of this poll.
        previous: When the poll before was.
        constants: Of the judgement.
    """
    expired = last_expiry(before, facts)
    ready = ready_since(before, facts, expired, constants)
    is_present = has_due_messages(before, facts, ready)
    is_idle = ~(facts.d_settled > 0)
    is_without_input = facts.known & (facts.address.d_added == 0)
    idle_from = np.where(facts.known, previous, facts.now)
    return QueueTimers(
        index=facts.queues,
        still=since(stands_still(facts), before.still, previous),
        ready=ready,
        absent=absent_since(before, facts),
        unsettled=since(is_idle, before.unsettled, idle_from),
        present=since(is_present, before.present, facts.now),
        blocked=since(is_without_input, before.blocked, previous),
        expired=expired,
        had_consumer=had_consumer(before, facts),
    )


def read_queues(
    timers: QueueTimers, queues: Index[QueueRow]
) -> dict[tuple[str, str], None]:
    """Return address and name of the queues that are gone and had a consumer, with those that are gone since this poll.

    The dictionary is a set that keeps the order: where there are too many, the oldest are forgotten.
    """
    is_gone = queues.positions(timers.index.keys) < 0
    names = timers.were_read(is_gone)
    if len(names) <= len(timers.read):
        return dict(timers.read)
    capacity = dormant_capacity(0, len(queues))
    return dict.fromkeys(names[-capacity:])


def mark_read_before(
    timers: QueueTimers,
    queues: Index[QueueRow],
    previous: Index[QueueRow],
    read: dict[tuple[str, str], None],
) -> None:
    """Write into `timers`, for the new queues, whether an earlier queue of the same name had a consumer.

    Args:
        timers: By `queues`.
        queues: The queues of this poll.
        previous: The queues of the poll before.
        read: Address and name of the queues that are gone and had a consumer.
    """
    fresh = queues.new_since(previous)
    rows = queues.rows[fresh]
    was_read = [(row.address, row.name) in read for row in rows]
    timers.had_consumer[fresh] = was_read


def is_paused(facts: Facts) -> Mask:
    """(queues,) Whether the queue or its address is paused."""
    return (facts.paused > 0) | (facts.address.paused > 0)


def stands_still(facts: Facts) -> Mask:
    """(queues,) Whether nothing was delivered and settled since the poll before, although it might have been.

    It might where the queue is not paused and has a consumer, and was there at the poll before.
    """
    has_moved = (facts.d_settled > 0) | (facts.d_delivered > 0)
    could_move = ~(facts.consumers == 0) & ~is_paused(facts)
    return facts.known & could_move & ~has_moved


def is_served(facts: Facts) -> Mask:
    """(queues,) Whether a consumer is there, or came and went since the poll before: messages were settled."""
    return (facts.consumers > 0) | (facts.d_settled > 0)


def learn_waits(
    dispatch: LearnedTimeout, before: QueueTimers, facts: Facts, constants: Constants
) -> LearnedTimeout:
    """Return the timeouts of queues with the waits for a delivery that ended at this poll.

    A queue waited if it stood still and had ready messages; it did so since the later one of the two began.
    """
    delivers = facts.d_delivered > 0
    stood_still = ~np.isnan(before.still)
    had_ready = ~np.isnan(before.ready)
    waited_from = np.fmax(before.still, before.ready)
    seconds = facts.now - waited_from
    waited = stood_still & had_ready & (seconds > 0)
    queues = np.flatnonzero(delivers & waited)
    timeouts = dispatch.seconds(constants, facts.interval, rows=queues)
    return dispatch.learn(queues, seconds[queues], timeouts, constants)


def ended_absences(before: QueueTimers, facts: Facts, previous: float) -> Column:
    """(queues,) Seconds of the absence of consumers that ended at this poll; NaN where none did.

    An absence begins when messages wait and no consumer is there, and ends with a consumer, or with a settled message.
    """
    # The poll before must have seen the absence: a time between two polls is none.
    was_absent = (before.absent < previous) & ~np.isnan(before.ready)
    # Before the first consumer of all came, the queue was not without one: it was new.
    has_ended = is_served(facts) & was_absent & before.had_consumer
    absent_from = np.fmax(before.absent, before.ready)
    return np.where(
        has_ended,
        facts.now - absent_from,
        np.nan,
    )


def last_expiry(before: QueueTimers, facts: Facts) -> Column:
    """(queues,) When messages last expired while no consumer was there; NaN where none did, or where one is there."""
    expired = np.where(
        facts.d_expired > 0,
        facts.now,
        before.expired,
    )
    return np.where(is_served(facts), np.nan, expired)


def ready_since(
    before: QueueTimers, facts: Facts, expired: Column, constants: Constants
) -> Column:
    """(queues,) Since when messages are ready; NaN where none is.

    Messages that expired without a consumer count as ready for `cap` seconds more: they show that messages come.
    """
    expired_lately = facts.now - expired <= constants.cap
    counts_as_ready = expired_lately & ~facts.keeps
    is_ready = (facts.ready > 0) | counts_as_ready
    return since(is_ready, before.ready, facts.now)


def has_due_messages(before: QueueTimers, facts: Facts, ready: Column) -> Mask:
    """(queues,) Whether messages are there that are due, also in the buffers of consumers.

    Messages that were due and are scheduled now wait for another delivery: they count as due until one is settled.
    """
    is_due = (facts.messages > facts.scheduled) | (facts.delivering > 0)
    had_due = (facts.messages > 0) & ~np.isnan(before.present)
    waits_for_redelivery = had_due & ~(facts.d_settled > 0)
    return waits_for_redelivery | is_due | ~np.isnan(ready)


def absent_since(before: QueueTimers, facts: Facts) -> Column:
    """(queues,) Since when no consumer is there; NaN where one is.

    A consumer that came and went since the poll before ends an absence, and another one begins now. Where the number of
    consumers is missing and nothing is settled, the absence goes on.
    """
    settles = facts.d_settled > 0
    is_attended = facts.consumers > 0
    is_unknown = np.isnan(facts.consumers)
    absent = put(before.absent, settles, np.nan)
    absent = since(
        ~is_attended & ~is_unknown,
        absent,
        facts.now,
    )
    stays = is_unknown & ~is_served(facts)
    return put(absent, stays, before.absent)


def had_consumer(before: QueueTimers, facts: Facts) -> Mask:
    """(queues,) Whether a consumer was there at a poll before this one, or has settled messages before it.

    One that is there only now does not count: it ends an absence as the first consumer of all.
    """
    settled_before = facts.settled > facts.d_settled
    was_there = np.isnan(before.absent) | settled_before
    # Of a queue that is new nothing is known but what it settled in all.
    settled_ever = facts.settled > 0
    return before.had_consumer | np.where(facts.known, was_there, settled_ever)


# --- stall thresholds


def advance_patience(
    before: LearnedTimeout,
    unacked: Unacked,
    clients: Grouping[ClientSeries],
    facts: Facts,
    constants: Constants,
) -> tuple[LearnedTimeout, Column]:
    """Return the timeouts with the gaps that ended at this poll, and (clients,) the stall threshold in seconds.

    A client is all consumers of one application on one queue: each gap of one of them is a gap of the client, measured
    against the threshold that was learned up to now. Consumers of hidden clients (-1) teach nothing.
    """
    learned = before.advance(clients.index)
    configured = configured_patience(clients)
    has_gap = ~np.isnan(unacked.gaps)
    consumers = np.flatnonzero(has_gap & (clients.member >= 0))
    members = clients.member[consumers]
    gaps = unacked.gaps[consumers]
    thresholds = learned.seconds(constants, facts.interval, configured, members)
    learned = learned.learn(members, gaps, thresholds, constants)
    return learned, learned.seconds(constants, facts.interval, configured)


def configured_patience(clients: Grouping[ClientSeries]) -> Column:
    """(clients,) The stall threshold that operators gave, seconds; NaN where they gave none."""
    return clients.index.column(
        "patience", lambda series: number_or_nan(series.said.patience)
    )


def eager_patience(
    patience: LearnedTimeout,
    groups: Groups,
    usual: Column,
    full: Mask,
    interval: float,
    constants: Constants,
) -> Column:
    """(consumers,) The stall thresholds in seconds, shorter where a buffer is full.

    A client whose buffer is full and does not get emptier shows more than silence: for one with few gaps the longest
    counts twice there, not three times.

    Args:
        patience: The gaps that were learned about the clients.
        groups: The client of each consumer.
        usual: (consumers,) The stall thresholds otherwise; NaN for a consumer that is not judged.
        full: (consumers,) Whether the buffer is full.
        interval: Of the polls, seconds.
        constants: Of the judgement.
    """
    consumers = np.flatnonzero(full)
    consumers = consumers[~np.isnan(usual[consumers])]
    clients = groups.clients.member[consumers]
    configured = configured_patience(groups.clients)
    thrice = patience.seconds(constants, interval, configured, clients)
    constants = replace(constants, factor=min(constants.factor, 2.0))
    twice = patience.seconds(constants, interval, configured, clients)
    shorter = usual.copy()
    shorter[consumers] = np.where(
        patience.weight[clients] < FEW,
        twice,
        thrice,
    )
    return shorter


def consumer_patience(groups: Groups, facts: Facts, of_clients: Column) -> Column:
    """(consumers,) The stall threshold of its client, seconds; NaN for a hidden one, and on queues of the broker.

    of_clients: (clients,) The stall thresholds.
    """
    queues = facts.queues
    is_judged_queue = queues.column("consumers judged", lambda row: row.kind in JUDGED)
    is_judged = facts.consumer.at_queue(is_judged_queue > 0, np.False_)
    # A hidden consumer has the client -1, and takes the NaN at the end.
    with_hidden = np.append(of_clients, np.nan)
    thresholds = with_hidden[groups.clients.member]
    return np.where(is_judged, thresholds, np.nan)


def queue_patience(facts: Facts, per_consumer: Column, constants: Constants) -> Column:
    """(queues,) The longest stall threshold of the queue's consumers, seconds; the cold one where none is judged."""
    thresholds = put(
        per_consumer,
        np.isnan(per_consumer),
        -np.inf,
    )
    # The last place is for consumers whose queue is not known, at -1.
    longest = np.full(len(facts.queues) + 1, -np.inf)
    np.maximum.at(longest, facts.consumer.queue, thresholds)
    of_queues = longest[:-1]
    return np.where(np.isinf(of_queues), constants.cold, of_queues)
