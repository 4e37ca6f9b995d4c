"""Since when each queue is as it is, and since when each consumer has settled nothing: conditions that last need it.

A *gap* of a consumer is the time from one settlement to the next, or from when it got messages to the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, Positions, put
from penstock.core.windows import since
from penstock.observation.facts import JUDGED, ConsumerFacts, Facts

BATCH = 1.2 * 2**20
"""Bytes that a Core client may receive before it sends acknowledgements (DUPS_OK), with a fifth more than its window:
client and broker do not count the same bytes of a message.
"""
CONVERTED = 512.0
"""Bytes that it may count more for a message that was sent by AMQP: it has properties which the broker derives."""


@dataclass(frozen=True, slots=True)
class QueueTimers(RowState):
    """Times of each queue, by the broker's clock; NaN where the sentence is not true at the last poll."""

    BY = By.QUEUE
    STORED_AS = "span_"
    still: Column = column()
    """Since when nothing is delivered or settled, although the queue is not paused and has a consumer."""
    ready: Column = column()
    """Since when messages are ready."""
    absent: Column = column()
    """Since when no consumer is there."""
    unsettled: Column = column()
    """Since when nothing is settled."""
    present: Column = column()
    """Since when messages are there that are due, in buffers too."""
    blocked: Column = column()
    """Since when no message comes."""
    expired: Column = column()
    """When messages last expired since there is no consumer: they count as ready for `cap` seconds from then on."""
    had_consumer: Mask = mask(outlives=True, stored_as="had_consumer")
    """Whether a consumer was there at some poll, or messages were settled."""
    read: Mapping[tuple[str, str], None] = unindexed(dict)
    """Address and name of the queues that are gone and had a consumer: a queue that is deleted once it is empty, and
    made again, is the same.
    """

    @property
    def stuck(self) -> Column:
        """(queues,) Since when messages are there and none is settled; NaN where that is not so."""
        # The later time counts, and `maximum` is NaN where one of the two is.
        return np.maximum(self.unsettled, self.present)

    def were_read(self, queues: Mask) -> list[tuple[str, str]]:
        """Return address and name of the queues in `read`, and of these `queues` as far as they had a consumer."""
        rows = self.index.rows[queues & self.had_consumer]
        names = [(row.address, row.name) for row in rows if row.kind in JUDGED]
        return [*self.read, *names]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of each consumer at one poll.

    Attributes:
        settles: Whether it made progress.
        at: When it did.
        begun: Since when it has buffered messages, if it buffered none at the poll before.
    """

    settles: Mask
    at: Column
    begun: Column


@dataclass(frozen=True, slots=True)
class Unacked(RowState):
    """Times of each consumer, by the broker's clock; NaN where the sentence is not true at the last poll."""

    BY = By.CONSUMER
    STORED_AS = "hold_"
    settled: Column = column()
    """When it settled messages last."""
    hold_since: Column = column()
    """Since when it has always buffered messages."""
    idle_since: Column = column()
    """Since when it has buffered none."""
    seen_since: Column = column()
    """Since when it is known."""
    least: Column = column()
    """The fewest bytes that it ever settled at one poll, as a Core client may count them; NaN: none, or not known."""
    bytes: Column = column(saved=False)
    """Bytes that it buffered at the poll before."""
    gaps: Column = column(carried=False, saved=False)
    """Seconds of the gap that ended at this poll, NaN where none did."""
    unacked_since: Column = column(carried=False, stored_as="hold_mark")
    """Since when it buffers messages and has settled none; NaN where it buffers none. Deliveries do not move it."""

    def advance(self, facts: Facts, progress: Progress) -> "Unacked":
        """Return the state after a poll. What a consumer holds is not settled since it last settled, or got messages.

        progress: Which consumers settled messages at this poll, and when.
        """
        consumers = facts.consumer
        before = self.reindexed(consumers.index)
        settling = np.flatnonzero(progress.settles)
        hold_since = since(consumers.holds, before.hold_since, progress.begun)
        settled = before.settled.copy()
        settled[settling] = progress.at[settling]
        # A time that is missing does not count: a consumer that never settled anything waits since it has messages.
        unacked_since = np.fmax(settled, hold_since)
        is_new = np.isnan(before.seen_since)
        return Unacked(
            index=consumers.index,
            settled=settled,
            hold_since=hold_since,
            idle_since=since(~consumers.holds, before.idle_since, facts.now),
            seen_since=put(before.seen_since, is_new, facts.now),
            least=least_bytes(before, consumers, settling),
            bytes=consumers.held_bytes,
            gaps=gaps_of(before, progress, settling),
            unacked_since=np.where(np.isnan(hold_since), np.nan, unacked_since),
        )


def gaps_of(before: Unacked, progress: Progress, settling: Positions) -> Column:
    """(consumers,) Seconds of the gap without progress that ended at this poll; NaN where none did.

    Args:
        before: By the consumers of this poll.
        progress: At this poll.
        settling: The consumers that made progress.
    """
    gaps = np.full(len(progress.at), np.nan)
    hold_since = before.hold_since[settling]
    begin = np.fmax(before.settled[settling], hold_since)
    seconds = np.fmax(progress.at[settling] - begin, 0.0)
    gaps[settling] = np.where(
        np.isnan(hold_since),
        np.nan,
        seconds,
    )
    return gaps


def least_bytes(
    before: Unacked, consumers: ConsumerFacts, settling: Positions
) -> Column:
    """(consumers,) The fewest bytes that each ever settled at one poll, as a Core client may count them.

    These are the settled messages times their mean size, which is that of the messages buffered at this poll and at the
    one before. Of the poll before the number follows: what is buffered now, and what left, less what was delivered.
    """
    left = consumers.d_left[settling]
    twice_buffered = 2 * consumers.held[settling]
    buffered_at_both = twice_buffered + left - consumers.d_delivered[settling]
    bytes_at_both = consumers.held_bytes[settling] + before.bytes[settling]
    message_bytes = bytes_at_both / np.fmax(buffered_at_both, 1.0) + CONVERTED
    least = before.least.copy()
    least[settling] = np.fmin(least[settling], left * message_bytes)
    return least


def progress_of(consumers: ConsumerFacts, now: float) -> Progress:
    """Return which consumers made progress: more messages left the buffer than they acknowledged without a commit.

    The broker's time of the last acknowledgement says when. With uncommitted messages it may be one of a transaction
    that is open, so that the time of the poll counts.
    """
    settles = consumers.d_left - consumers.d_uncommitted > 0
    size = len(consumers.held)
    settled_at = np.full(size, now)
    begun = np.full(size, now)
    # Few consumers do something: only for these the times are computed.
    rows = np.flatnonzero(settles | consumers.holds)
    acknowledged = consumers.last_acknowledgement[rows]
    has_uncommitted = consumers.uncommitted[rows] > 0
    settled_at[rows] = np.where(
        has_uncommitted,
        now,
        np.fmin(acknowledged, now),
    )
    # Nothing happened since the later one of the two: a consumer that buffers messages now buffered them then. It is
    # not later than now, although the clock may have been read before the rows.
    last_event = np.fmax(acknowledged, consumers.last_delivery[rows])
    begun[rows] = np.fmin(last_event, now)
    return Progress(settles, settled_at, begun)
