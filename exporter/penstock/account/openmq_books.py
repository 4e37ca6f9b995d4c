"""
The account of an OpenMQ broker's destinations: what came is there, or left, and by which reason.

Each has one counter of what came (I, refused messages too) and one of what left for whatever reason (O): I = content +
O + X. X is what never was in it: refused, too large, or expired on arrival. Of O the consumers let go of R. Their rows
are read after O, so that O - R is never too much. What it has beyond that is booked to a reason where something proves
one: a limit that removes, sends rolled back, a purge, the dead message queue that grew. Else clients settled it that no
poll saw.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, counter, mask
from penstock.core.table import Column, Index
from penstock.core.windows import Mask
from penstock.observation.facts import or_zero
from penstock.observation.openmq import MARGIN

SAMPLES = 8
"""Polls whose highest O - R is what the next one is compared with: a batch may fall between two reads."""
CONFIRMED = 3
"""Polls without a coming or going of consumers after which O - R says something."""
LATE = 2
"""Polls after which X is sure."""
SHORT_LIVED = 600.0
"""Seconds since clients settled something and no poll saw them, for which others may have done the same."""


@dataclass(frozen=True, slots=True)
class DestinationPoll:
    """
    One poll of destinations, by the rows of `index`.

    entered, left, content: I, O, and what is there with what is uncommitted. carried: that was not read in this poll,
    but worked out of the others. released: what left its consumers' hands since the poll before. stale: what those
    hold and the limit has removed. moved: consumers came or went, or their numbers do not add up to O (topics). full:
    nearly at its limit, of which `limit` is that in messages. sized: single messages have a limit. dead_letters: what
    it discards goes to the dead message queue. is_dead: it is that queue.
    """

    index: Index[Any]
    entered: Column
    left: Column
    content: Column
    carried: Mask
    uncommitted: Column
    ready: Column
    released: Column
    stale: Column
    moved: Mask
    consumers: Column
    full: Mask
    limit: Column
    removes: Mask
    rejects: Mask
    sized: Mask
    dead_letters: Mask
    is_dead: Mask


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """
    What the dead message queue took in since the poll before; unclaimed: with what of the one before had no source yet.

    low, high: of all sources together, at least and at most.
    """

    grew: float = 0.0
    unclaimed: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, slots=True)
class DestinationBooks(RowState):
    """
    Per destination, messages since `since` (broker's clock), over restarts of the broker.

    entered0, left0: its counters when the process was first polled, less what was counted before. opening: content at
    `since`. adjusted: what restarts added to it, or took. apart: X, as sighted at two polls. A pair of columns for each
    reason: at least so many, and how many more at most.
    """

    BY: ClassVar[By | None] = By.QUEUE
    STORED_AS = "account_openmq_"
    since: Column = counter(outlives=True)
    entered0: Column = counter()
    left0: Column = counter()
    opening: Column = counter(outlives=True)
    adjusted: Column = counter(0.0, outlives=True)
    apart: Column = counter(0.0, outlives=True)
    rejected: Column = counter(0.0, outlives=True)
    rejected_more: Column = counter(0.0, outlives=True)
    too_large: Column = counter(0.0, outlives=True)
    too_large_more: Column = counter(0.0, outlives=True)
    expired: Column = counter(0.0, outlives=True)
    expired_more: Column = counter(0.0, outlives=True)
    removed: Column = counter(0.0, outlives=True)
    removed_more: Column = counter(0.0, outlives=True)
    rolled_back: Column = counter(0.0, outlives=True)
    rolled_back_more: Column = counter(0.0, outlives=True)
    purged: Column = counter(0.0, outlives=True)
    purged_more: Column = counter(0.0, outlives=True)
    dead_lettered: Column = counter(0.0, outlives=True)
    dead_lettered_more: Column = counter(0.0, outlives=True)
    unseen: Column = counter(0.0, outlives=True)
    """Settled by clients that no poll saw."""
    unseen_at: Column = column(-np.inf, outlives=True, saved=False)
    sends_dead: Mask = mask(outlives=True)
    """It once had dead letters."""
    was_full: Mask = mask(outlives=True)
    came: Column = column(outlives=True)
    gone: Column = column(outlives=True)
    content: Column = column(outlives=True, saved=False)
    raw: Column = column(saved=False)
    """X as this poll has it."""
    gaps: NDArray[np.float64] = column(lines=3, saved=False)
    """What no reason explains, at the last polls."""
    levels: NDArray[np.float64] = column(lines=SAMPLES, saved=False)
    """O - R at the last polls since consumers came or went."""
    d_came: Column = column(0.0, saved=False)
    d_gone: Column = column(0.0, saved=False)
    d_gone_before: Column = column(0.0, saved=False)
    d_apart: Column = column(0.0, saved=False)
    left_alone: Column = column(0.0, saved=False)
    """Of this poll: left without a client's acknowledge."""
    moved: Mask = mask(saved=False)
    moved_at: Column = column(-np.inf, outlives=True, saved=False)
    since_full: Column = column(np.inf, saved=False)
    """Polls, with its depth read, since it was nearly full."""
    full_polls: Column = column(0.0, saved=False)
    since_filled: Column = column(np.inf, saved=False)
    """Since so many came that it may have been full in between."""
    since_carried: Column = column(np.inf, saved=False)
    uncommitted: Column = column(0.0, saved=False)
    ready: Column = column(0.0, saved=False)
    stale: Column = column(0.0, saved=False)
    room: Column = column(0.0, saved=False)
    """So many dead letters no other destination surely sent while X grew: not more expired on arrival."""
    other_dead: Column = column(0.0, saved=False)
    x_before: Column = column(0.0, saved=False)
    refused_at: Column = column(saved=False)
    """When it was last seen to refuse something."""

    @property
    def unexplained(self) -> Column:
        """More left than came, at three polls; NaN before."""
        return np.fmin(np.max(self.gaps, axis=0), 0.0)

    @property
    def acknowledged(self) -> tuple[Column, Column]:
        """At least and at most."""
        surely = self.removed + self.rolled_back + self.purged + self.dead_lettered
        maybe = self.removed_more + self.rolled_back_more + self.purged_more + self.dead_lettered_more
        most = np.fmax(self.gone - surely, 0.0)
        return np.fmax(most - maybe, 0.0), most

    def bounds(self, fate: str) -> tuple[Column, Column]:
        low: Column = getattr(self, fate)
        return low, low + getattr(self, fate + "_more")

    def counted(self, polled: DestinationPoll, now: float, *, watched: bool, restarted: bool) -> Self:
        """With the sums of this poll. watched: what was not there at the poll before was made since."""
        before = self.reindexed(polled.index)
        came_before, gone_before = or_zero(before.came), or_zero(before.gone)
        readable = np.isfinite(polled.entered) & np.isfinite(polled.left) & np.isfinite(polled.content)
        first = np.isnan(before.opening) & readable
        fell = (polled.entered - before.entered0 < came_before) | (polled.left - before.left0 < gone_before)
        begins = (np.isnan(before.entered0) | fell) & readable
        own = ~first | watched | restarted  # its counters began with it
        entered0 = np.where(begins, np.where(own, 0.0, polled.entered) - came_before, before.entered0)
        left0 = np.where(begins, np.where(own, 0.0, polled.left) - gone_before, before.left0)
        came, gone = np.fmax(came_before, polled.entered - entered0), np.fmax(gone_before, polled.left - left0)
        content = np.where(readable, polled.content, before.content)
        opening = np.where(first, np.where(watched and not restarted, 0.0, content), before.opening)
        closing = content + gone + before.apart - opening - came
        adjusted = np.where(begins & ~(first & watched), closing, before.adjusted)
        raw = opening + adjusted + came - gone - content
        # The row that all rests on may have been read while it changed.
        short = np.where(np.isnan(before.gaps[0]), np.fmin(or_zero(raw - before.apart), 0.0), 0.0)
        opening, raw = opening - short, raw - short
        apart = np.fmax(before.apart, np.minimum(before.raw, raw))
        goes_on = ~np.isnan(before.gone) & ~begins
        d_came, d_gone = (
            np.where(goes_on | first, now_ - was, 0.0) for now_, was in ((came, came_before), (gone, gone_before))
        )
        fills = or_zero(before.content) + d_came >= polled.limit
        read = ~polled.carried & (before.since_carried > 0)
        level = before.levels[-1] + d_gone - polled.released - (polled.stale - before.stale)
        moved = polled.moved | before.moved | begins
        told = np.count_nonzero(np.isfinite(before.levels), axis=0) >= CONFIRMED
        grew = np.fmax(or_zero(level - np.fmax.reduce(before.levels, axis=0)), 0.0)
        level = np.where(np.isnan(level), 0.0, level)
        kept = np.where(moved, np.nan, before.levels[1:])
        return replace(
            before,
            since=np.where(first, now, before.since),
            entered0=entered0,
            left0=left0,
            opening=opening,
            adjusted=adjusted,
            apart=apart,
            came=came,
            gone=gone,
            content=content,
            raw=raw,
            gaps=np.vstack([before.gaps[1:], raw - apart]),
            levels=np.vstack([kept, level]),
            stale=polled.stale,
            x_before=before.d_apart,
            d_came=d_came,
            d_gone=d_gone,
            d_gone_before=before.d_gone,
            d_apart=apart - before.apart,
            left_alone=np.where(moved | ~told, 0.0, grew),
            unseen=before.unseen + np.where(moved | ~told, grew, 0.0),
            unseen_at=np.where(moved & (grew >= MARGIN), now, before.unseen_at),
            moved=polled.moved & ~begins,
            moved_at=np.where(polled.moved & ~begins, now, before.moved_at),
            since_full=np.where(polled.full, 0.0, before.since_full + read),
            full_polls=np.where(polled.full, before.full_polls + 1, 0.0),
            since_filled=np.where(polled.full | fills, 0.0, before.since_filled + read),
            since_carried=np.where(polled.carried, 0.0, before.since_carried + 1),
        )

    def sources(self, polled: DestinationPoll) -> tuple[Column, Column]:
        """What each may have sent to the dead message queue: at least and at most, of two polls."""
        sends = polled.dead_letters & ~polled.is_dead
        surely = sends & self.limited(polled) & ~self.transacted(polled)
        most = self.d_gone + self.d_gone_before + self.d_apart
        return np.where(surely, self.left_alone, 0.0), np.where(sends, most, 0.0)

    def limited(self, polled: DestinationPoll) -> Mask:
        """Its limit may have removed messages."""
        return polled.removes & (self.since_full <= LATE)

    def transacted(self, polled: DestinationPoll) -> Mask:
        """Sends were open at this poll or at the one before."""
        return (polled.uncommitted > 0) | (self.uncommitted > 0)

    def booked(self, polled: DestinationPoll, dead: DeadLetters, now: float) -> tuple[Self, float]:
        """With what this poll says by reason, and how many dead letters are surely of these."""
        low, high = self.sources(polled)
        least = np.clip(dead.unclaimed - (dead.high - high), low, np.fmax(low, high))
        most = np.clip(dead.unclaimed - (dead.low - low), least, np.fmax(least, high))
        other_dead = dead.grew - (dead.low - low)
        # Nothing shows what expired on arrival, or it may have come at an earlier poll.
        unknown = ~polled.is_dead & (~polled.dead_letters | (self.since_carried <= LATE))
        two, left, x = self.d_gone + self.d_gone_before, self.d_gone, self.d_apart
        refuses = polled.rejects & (self.since_full <= LATE)
        either = polled.rejects & ~refuses & self.was_full
        # X is sure one poll late: then what was dead at the poll before counts, too.
        late = np.where(self.x_before > 0, 0.0, self.other_dead)
        room = self.room + np.where(x > 0, other_dead + late, 0.0)
        expired_most = np.where(unknown & ~refuses, x, np.clip(room - self.expired - self.expired_more, 0.0, x))
        # Full all the time: a limit that refuses is reached before anything else.
        expired_most = np.where(refuses & (self.full_polls > LATE), 0.0, expired_most)
        only = ~refuses & ~self.was_full & ~polled.sized & ~unknown  # it has no limit that could have refused them
        expired = np.where(only, expired_most, np.clip(least - two, 0.0, expired_most))
        surely, maybe = x - expired_most, x - expired
        as_rejected = refuses | ~polled.sized & ~either
        refused, refused_most = np.where(as_rejected, surely, 0.0), np.where(as_rejected | either, maybe, 0.0)
        large, large_most = (
            np.where(as_rejected | either, 0.0, surely),
            np.where(as_rejected | ~polled.sized, 0.0, maybe),
        )
        limited, transacted = self.limited(polled), self.transacted(polled)
        of_queue = np.fmax(np.fmin(least - x, two), 0.0)
        out_most = np.where(polled.dead_letters & ~polled.is_dead, np.fmin(left, most), left)
        # Of what a limit removes some is in a client's hands, which may handle it all the same.
        removed = np.where(limited & ~polled.is_dead & ~transacted, self.left_alone, 0.0)
        may = polled.removes & (self.since_filled <= LATE)
        removed_most = np.where(may, np.fmax(out_most, removed), 0.0)
        alone = np.where(limited, 0.0, self.left_alone)
        dead_low = np.where(may, 0.0, of_queue)
        whole = (alone >= np.fmax(MARGIN, 0.5 * self.ready)) & (self.ready > 0) & (polled.ready <= self.d_came)
        # Where consumers come and go one that no poll saw may have taken all.
        whole &= ~transacted & ((polled.consumers > 0) | (now - self.moved_at > SHORT_LIVED))
        sends_dead = self.sends_dead | (dead_low > 0)
        sends_dead |= polled.dead_letters & (alone > 0) & ~transacted & ~whole & (dead.grew > 0)
        dead_most = np.where(sends_dead & ~limited, np.fmax(np.fmin(left, most), dead_low), dead_low)
        rest, rest_least = np.fmax(alone - dead_low, 0.0), np.fmax(alone - dead_most, 0.0)
        # Clients that no poll saw may have settled it where some have done so before.
        sure = now - self.unseen_at > SHORT_LIVED
        settled = np.where(transacted | whole, 0.0, rest_least)
        purged = np.where(whole & sure & (polled.consumers > 0), rest_least, 0.0)
        reasons = {
            "rejected": (refused, refused_most),
            "too_large": (large, large_most),
            "expired": (expired, expired_most),
            "removed": (removed, removed_most),
            "rolled_back": (np.where(transacted & sure, rest_least, 0.0), np.where(transacted, rest, 0.0)),
            "purged": (purged, np.where(whole, left, 0.0)),  # also what clients held, which then leaves their hands
            "dead_lettered": (dead_low, dead_most),
        }
        totals = {name: getattr(self, name) + bounds[0] for name, bounds in reasons.items()}
        more = {name + "_more": getattr(self, name + "_more") + np.fmax(b[1] - b[0], 0) for name, b in reasons.items()}
        now_refused = np.where(refuses, refused_most, refused + large) > 0
        books = replace(
            self,
            **totals,
            **more,
            unseen=self.unseen + settled,
            unseen_at=np.where(settled >= MARGIN, now, self.unseen_at),
            sends_dead=sends_dead,
            room=room,
            other_dead=other_dead,
            was_full=self.was_full | (self.since_filled <= LATE),
            uncommitted=or_zero(polled.uncommitted),
            ready=or_zero(polled.ready),
            refused_at=np.where(now_refused, now, self.refused_at),
        )
        return books, float(np.where(polled.dead_letters, expired + removed + dead_low, 0.0).sum())


@dataclass(frozen=True, slots=True)
class TopicBooks(DestinationBooks):
    """Per topic; it ends with the agent. unwanted: what no subscription wanted, which the topic does not count."""

    BY: ClassVar[By | None] = None
    unwanted: Column = column(0.0, saved=False)
    unsent: NDArray[np.float64] = column(lines=SAMPLES, saved=False)
    """Sent less what came, at the last polls: too low by what producers sent unseen before they went."""
    partly: Mask = mask(saved=False)
    """Producers went: it may be more."""

    def with_sent(self, sent: Column, gone: Mask, *, watched: bool) -> Self:
        """sent: by the producers that are listed, since the poll before. gone: topics that a producer has left."""
        before = np.where(np.isnan(self.unsent) & watched, 0.0, self.unsent)  # a topic that was made since
        level = before[-1] + sent - self.d_came
        grew = np.fmax(or_zero(level - np.fmax.reduce(before, axis=0)), 0.0)
        level = np.where(np.isnan(level), 0.0, level)
        return replace(
            self,
            unwanted=self.unwanted + grew,
            unsent=np.vstack([before[1:], level]),
            partly=self.partly | gone,
        )
