"""Since when each queue is as it is, and each consumer has settled nothing: what conditions that last rest on."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, put
from penstock.core.windows import since
from penstock.observation.facts import JUDGED, ConsumerFacts, Facts

BATCH = 1.2 * 2**20
"""Bytes that a Core client may receive before it sends acknowledgements (DUPS_OK); it counts others than the broker."""
CONVERTED = 512.0
"""Bytes that it may count more of a message: one that was sent by AMQP has properties which the broker derives."""


@dataclass(frozen=True, slots=True)
class QueueTimers(RowState):
    """Per queue, times by the broker's clock: since when nothing moves, messages are ready, no consumer is there,
    nothing is settled, nothing comes in; NaN = not. present: since when it has messages that are due, in buffers too.
    had_consumer: one was seen at some poll, or something settled. expired: when messages did last since there is no
    consumer: they count as ready for `cap` from then on.
    """

    BY = By.QUEUE
    STORED_AS = "span_"
    still: Column = column()
    ready: Column = column()
    absent: Column = column()
    unsettled: Column = column()
    present: Column = column()
    blocked: Column = column()
    expired: Column = column()
    had_consumer: Mask = mask(outlives=True, stored_as="had_consumer")
    read: Mapping[tuple[str, str], None] = unindexed(dict)
    """Address and name of queues that are gone and had one: deleted once it is empty and made again, it is the same."""

    @property
    def stuck(self) -> Column:
        """Since when none of the messages that are there is settled; NaN = not."""
        return np.maximum(self.unsettled, self.present)

    def were_read(self, queues: Mask) -> list[tuple[str, str]]:
        """`read`, and those of these rows that had one."""
        rows = self.index.rows[queues & self.had_consumer]
        return [
            *self.read,
            *((row.address, row.name) for row in rows if row.kind in JUDGED),
        ]


@dataclass(frozen=True, slots=True)
class Progress:
    """Columns per consumer. settles: it made progress at this poll; at: when. begun: since when one that holds
    something now, and did not at the poll before, can be said to.
    """

    settles: Mask
    at: Column
    begun: Column


@dataclass(frozen=True, slots=True)
class Unacked(RowState):
    """Per consumer, times by the broker's clock, NaN = not. settled: its last settlement. hold_since, idle_since: since
    when it holds something without a break, or nothing. seen_since: since when it is known. least: bytes that it ever
    settled at one poll, at least, as a Core client may count; NaN: never, or not known. bytes: held at the poll before.
    """

    BY = By.CONSUMER
    STORED_AS = "hold_"
    settled: Column = column()
    hold_since: Column = column()
    idle_since: Column = column()
    seen_since: Column = column()
    least: Column = column()
    bytes: Column = column(saved=False)
    gaps: Column = column(carried=False, saved=False)
    """The gap that ended at this poll, NaN where none did."""
    unacked_since: Column = column(carried=False, stored_as="hold_mark")
    """Since when a holding consumer has settled nothing; NaN where it holds nothing. Deliveries do not move it."""

    def advance(self, facts: Facts, progress: Progress) -> "Unacked":
        consumers = facts.consumer
        now = facts.now
        before = self.reindexed(consumers.index)
        settles = progress.settles
        at = progress.at
        rows = np.flatnonzero(settles)
        gaps = np.full(len(at), np.nan)
        least = before.least.copy()
        ended = np.fmax(
            at[rows] - np.fmax(before.settled[rows], before.hold_since[rows]), 0.0
        )
        gaps[rows] = np.where(np.isnan(before.hold_since[rows]), np.nan, ended)
        hold_since = since(consumers.holds, before.hold_since, progress.begun)
        settled = before.settled.copy()
        settled[rows] = at[rows]
        seen = (
            2 * consumers.held + consumers.d_left - consumers.d_delivered
        )  # messages, at both polls
        of_one = (consumers.held_bytes + before.bytes)[rows] / np.fmax(
            seen[rows], 1.0
        ) + CONVERTED
        least[rows] = np.fmin(least[rows], consumers.d_left[rows] * of_one)
        return Unacked(
            index=consumers.index,
            settled=settled,
            hold_since=hold_since,
            idle_since=since(~consumers.holds, before.idle_since, now),
            seen_since=put(before.seen_since, np.isnan(before.seen_since), now),
            least=least,
            bytes=consumers.held_bytes,
            gaps=gaps,
            unacked_since=np.where(
                np.isnan(hold_since), np.nan, np.fmax(settled, hold_since)
            ),
        )


def progress_of(consumers: ConsumerFacts, now: float) -> Progress:
    """Rule of progress: more left its buffer than it acknowledged without committing."""
    settles = consumers.d_left - consumers.d_uncommitted > 0
    (at, begun) = np.full((2, len(consumers.held)), now)
    rows = np.flatnonzero(settles | consumers.holds)
    acknowledged = consumers.last_acknowledgement[rows]
    at[rows] = np.where(
        consumers.uncommitted[rows] > 0, now, np.fmin(acknowledged, now)
    )
    # Nothing happened since the later of the two: who holds now held then. A read may be older than the rows in it.
    begun[rows] = np.fmin(np.fmax(acknowledged, consumers.last_delivery[rows]), now)
    return Progress(settles, at, begun)
