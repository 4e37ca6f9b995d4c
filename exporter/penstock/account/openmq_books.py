"""The account of an OpenMQ broker's destinations: what came is there, or left, and by which reason.

Each counts what came (I) and what left for whatever reason (O): I = content + O + X; X never was in it: refused, too
large, or expired on arrival. Of O the consumers let go of R; they are read later, so that O - R is never too much. It
is booked to a reason where something proves one; else clients settled it that no poll saw.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from penstock.account.openmq_arrivals import Explanations, Matching
from penstock.core.counters import SMALL_FALL
from penstock.core.state import By, RowState, column, counter, declared, mask
from penstock.core.table import Column, Index, Keys, Mask, Matrix
from penstock.observation.facts import or_zero
from penstock.observation.openmq import MARGIN

LEFT = ("removed", "dead_lettered", "rolled_back", "purged")
"""Of what was in a destination."""
REFUSED = ("rejected", "too_large", "expired")
"""Of what never was in it; expired: when it came."""
UNTRACED = "expired_untraced"
"""What left a destination without a dead message queue: it expired or was acknowledged, and no number shows which."""
UNACKNOWLEDGED = "left_unacknowledged"
"""What left a destination, while no consumer that was listed let go of as much."""
REASONS = (*LEFT, *REFUSED, UNTRACED, UNACKNOWLEDGED)
"""A checkpoint has these by their numbers: new ones come last."""
OF_GONE = tuple(REASONS.index(name) for name in (*LEFT, UNTRACED, UNACKNOWLEDGED))
"""Lines of the reasons for which a message leaves that was in a destination."""
SAMPLES = 8
"""Polls whose highest O - R is what the next one is compared with: a batch may fall between two reads."""
CONFIRMED = 3
"""Polls without a coming or going of consumers after which O - R is conclusive."""
RECENT = 3
"""Polls, this one too, in which it was what X came from: X is sure one poll late."""
SHORT_LIVED = 600.0
"""Seconds since clients settled something and no poll saw them, for which others may have done the same."""


@dataclass(frozen=True, slots=True)
class DestinationPoll:
    """One poll of destinations, by the rows of `index`.

    Counters and levels:
        entered, left, content: I, O, and what is there with what is uncommitted.
        entered_bytes: of all messages that came, also of those that were refused.
        released: what its consumers no longer buffer since the poll before; NaN where that does not add up to O.
        stale: what consumers hold and the limit has removed.
        limit: of messages. largest: bytes that a single message may have, NaN: any.
        skew: messages that may have left between the read of the destination and that of its consumers.

    States:
        carried: the depth was not read in this poll, but worked out of the others.
        moved: consumers came or went, or their numbers do not add up to O.
        full: nearly at its limit.
        dead_letters: what it discards goes to the dead message queue. silent: it is known that this goes nowhere.
        unset: its settings are not known yet.
        is_dead: it is the dead message queue.
        watched_by: it has a consumer that takes any message, and none that acknowledges more than its numbers show.
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
    entered_bytes: Column
    largest: Column
    dead_letters: Mask
    silent: Mask
    unset: Mask
    is_dead: Mask
    watched_by: Mask
    skew: Column


@dataclass(frozen=True, slots=True)
class DeadLetterPoll:
    """What the dead message queue took in since the poll before, infinite where it is not known. unclaimed: at the poll
    before, without a known source: only now all have been read since. low, high: of all sources, at least and at most.
    unexplained: of those that arrived, more than left destinations without an acknowledgement. They expired in buffers
    of clients, which let go of them as of acknowledged ones: any destination may have been their source. share_late:
    of the messages that have left by now, the part that may be such dead letters of the next poll.
    """

    arrived: float
    unclaimed: float
    low: float
    high: float
    unexplained: float = 0.0
    share_late: float = 0.0


@dataclass(frozen=True, slots=True)
class DestinationBooks(RowState):
    """Per destination, messages since `since` (broker's clock), over restarts of the broker.

    entered0, left0: its counters when the process was first polled, less what was counted before. opening: content at
    `since`. adjusted: what restarts added to it, or took. apart: X, as sighted at two polls. low, more: a line for each
    of `REASONS`, at least so many, and how many more at most. acknowledged: at least. undecided: what left before it
    was known whether its expired messages go anywhere. not_acknowledged: at least so many of those that left, for
    whatever reason. sends_dead: it once had dead letters.

    came_before: what came at the poll before.

    Of this poll: raw, X as it has it; d_raw, by how much that rose; left_alone, left without a client's acknowledge;
    seen_alone, a few more by this poll alone: the next one shows whether a row was read while it changed; dead_early,
    dead letters, at least and at most, of which only the next poll may show that they left alone;
    letters_waiting, left_waiting, letters and messages that `out_of_buffers` has not matched; letters_to_come, that
    left, and may arrive at the next poll;
    left_unseen, the same while consumers came and went, one of which may have acknowledged it; passed_by, while there
    were consumers; alone_before, `left_alone` where no limit removes; unread, left, and no consumer had it; other_dead,
    dead letters that no other destination surely sent.

    At the last polls: gaps, what no reason explains; levels, O - R since consumers came or went; peak, the highest of
    these; full, filled, as its depth was read, and in between perhaps; unwatched, not `watched_by` a consumer; lately,
    what left at the two before, and was apart at the one before; bytes_in, bytes that had come.
    """

    BY: ClassVar[By | None] = By.QUEUE
    STORED_AS = "account_openmq_"
    since: Column = counter(outlives=True)
    entered0: Column = counter()
    left0: Column = counter()
    opening: Column = counter(outlives=True)
    adjusted: Column = counter(0.0, outlives=True)
    apart: Column = counter(0.0, outlives=True)
    low: Matrix = counter(0.0, lines=len(REASONS), outlives=True)
    more: Matrix = counter(0.0, lines=len(REASONS), outlives=True)
    acknowledged: Column = counter(0.0, outlives=True)
    undecided: Column = counter(0.0, outlives=True)
    not_acknowledged: Column = counter(0.0, outlives=True)
    unseen_at: Column = column(-np.inf, outlives=True, saved=False)
    sends_dead: Mask = mask(outlives=True)
    came: Column = column(outlives=True)
    gone: Column = column(outlives=True)
    content: Column = column(outlives=True, saved=False)
    raw: Column = column(saved=False)
    d_raw: Column = column(0.0, saved=False)
    gaps: Matrix = column(lines=3, saved=False)
    levels: Matrix = column(lines=SAMPLES, saved=False)
    peak: Column = column(saved=False)
    d_came: Column = column(0.0, saved=False)
    d_gone: Column = column(0.0, saved=False)
    came_before: Column = column(0.0, saved=False)
    lately: Matrix = column(0.0, lines=3, saved=False)
    d_apart: Column = column(0.0, saved=False)
    left_alone: Column = column(0.0, saved=False)
    left_unseen: Column = column(0.0, saved=False)
    seen_alone: Column = column(0.0, saved=False)
    dead_early: Matrix = column(0.0, lines=2, saved=False)
    letters_waiting: Column = column(0.0, saved=False)
    left_waiting: Column = column(0.0, saved=False)
    letters_to_come: Column = column(0.0, saved=False)
    alone_before: Column = column(0.0, saved=False)
    refused_now: Column = column(0.0, saved=False)
    unread: Column = column(0.0, saved=False)
    passed_by: Column = column(0.0, saved=False)
    moved: Mask = mask(saved=False)
    moved_at: Column = column(-np.inf, outlives=True, saved=False)
    full: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    filled: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    carried: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    unwatched: Mask = column(1.0, dtype=np.bool_, lines=RECENT, saved=False)
    bytes_in: Matrix = column(lines=3, saved=False)
    uncommitted: Column = column(0.0, saved=False)
    ready: Column = column(0.0, saved=False)
    stale: Column = column(0.0, saved=False)
    other_dead: Column = column(0.0, saved=False)

    @property
    def unexplained(self) -> Column:
        """More left than came, at three polls; NaN before."""
        return np.fmin(np.max(self.gaps, axis=0), 0.0)

    @property
    def refused(self) -> Column:
        """At least."""
        total: Column = self.low[
            [REASONS.index("rejected"), REASONS.index("too_large")]
        ].sum(axis=0)
        return total

    @property
    def seen_once(self) -> Column:
        """What came and never was in it by the last poll alone: for which reason shows at the next."""
        once = or_zero(self.raw - self.apart)
        return np.where(once > MARGIN, once, 0.0)

    def bounds(self) -> dict[str, tuple[Column, Column]]:
        """By fate: at least and at most so many."""
        found = {
            name: (low, low + more)
            for name, low, more in zip(REASONS, self.low, self.more, strict=True)
        }
        least_untraced, most_untraced = found.pop(UNTRACED)
        least_expired, most_expired = found["expired"]
        found["expired"] = (
            least_expired + least_untraced,
            most_expired + most_untraced + self.undecided,
        )
        for name in REFUSED:
            least, most = found[name]
            found[name] = least, most + self.seen_once
        least, most = found["dead_lettered"]
        found["dead_lettered"] = least, most + self.letters_to_come
        least, most = found[UNACKNOWLEDGED]
        found[UNACKNOWLEDGED] = least, most + self.seen_alone
        others = np.fmax(self.low[list(OF_GONE)].sum(axis=0), self.not_acknowledged)
        most = np.fmax(self.gone - others, self.acknowledged)
        return {"acknowledged": (self.acknowledged, most), **found}

    def counted(
        self, polled: DestinationPoll, now: float, *, watched: bool, restarted: bool
    ) -> Self:
        """With the sums of this poll. watched: what was not there at the poll before was made since."""
        before = self.reindexed(polled.index)
        came_before = or_zero(before.came)
        gone_before = or_zero(before.gone)
        readable = (
            np.isfinite(polled.entered)
            & np.isfinite(polled.left)
            & np.isfinite(polled.content)
        )
        first = np.isnan(before.opening) & readable
        fell = (polled.entered - before.entered0 < came_before) | (
            polled.left - before.left0 < gone_before
        )
        begins = (np.isnan(before.entered0) | fell) & readable
        own = ~first | watched | restarted  # its counters began with it
        entered0 = np.where(
            begins, np.where(own, 0.0, polled.entered) - came_before, before.entered0
        )
        left0 = np.where(
            begins, np.where(own, 0.0, polled.left) - gone_before, before.left0
        )
        came = np.fmax(came_before, polled.entered - entered0)
        gone = np.fmax(gone_before, polled.left - left0)
        content = np.where(readable, polled.content, before.content)
        opening = np.where(
            first, np.where(watched and not restarted, 0.0, content), before.opening
        )
        closing = content + gone + before.apart - opening - came
        adjusted = np.where(begins & ~(first & watched), closing, before.adjusted)
        raw = opening + adjusted + came - gone - content
        # The row that all rests on may have been read while it changed.
        short = np.where(
            np.isnan(before.gaps[0]), np.fmin(or_zero(raw - before.apart), 0.0), 0.0
        )
        opening = opening - short
        raw = raw - short
        # Only what came can be apart: else the row was read while it changed.
        most = before.apart + or_zero(came - came_before) + before.d_came
        surely = np.minimum(before.raw, raw)
        apart = np.fmax(
            before.apart,
            np.where((surely > most) & ~np.isnan(before.gaps[0]), most, surely),
        )
        goes_on = (~np.isnan(before.gone) & ~begins) | first
        d_came, d_gone = np.where(
            goes_on, [came - came_before, gone - gone_before], 0.0
        )
        # What happened while the agent was away may have been at the limit.
        fills = (
            polled.full
            | (or_zero(before.content) + d_came >= polled.limit)
            | (~first & (not watched))
        )
        read = ~polled.carried & ~before.carried[-1]
        level = (
            before.levels[-1] + d_gone - polled.released - (polled.stale - before.stale)
        )
        moved = polled.moved | before.moved | begins
        conclusive = ~moved & (
            np.count_nonzero(np.isfinite(before.levels), axis=0) >= CONFIRMED
        )
        noise = np.fmax(MARGIN, polled.skew)
        reached = before.level_reached(noise)
        rose = np.fmax(or_zero(level - reached), 0.0)
        # A row that was read while it changed lacks a few that its consumer acknowledged: the next poll has them.
        may_be_torn = conclusive & (rose <= SMALL_FALL)
        grew = np.where(
            may_be_torn, np.clip(or_zero(before.levels[-1] - reached), 0.0, rose), rose
        )
        certain = grew > np.where(moved, polled.skew, noise)
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
            d_raw=np.fmax(or_zero(raw - before.raw), 0.0),
            gaps=np.vstack([before.gaps[1:], raw - apart]),
            levels=np.vstack(
                [
                    np.where(moved, np.nan, before.levels[1:]),
                    np.where(np.isnan(level), 0.0, level),
                ]
            ),
            stale=polled.stale,
            d_came=d_came,
            d_gone=d_gone,
            came_before=before.d_came,
            lately=np.stack([before.lately[1], before.d_gone, before.d_apart]),
            d_apart=apart - before.apart,
            left_alone=np.where(conclusive, grew, 0.0),
            seen_alone=rose - grew,
            left_unseen=np.where(~conclusive & certain, grew, 0.0),
            peak=np.where(
                moved,
                or_zero(level),
                np.where(may_be_torn, or_zero(reached) + grew, np.fmax(reached, level)),
            ),
            unseen_at=np.where(moved & (grew >= MARGIN), now, before.unseen_at),
            moved=polled.moved & ~begins,
            moved_at=np.where(polled.moved & ~begins, now, before.moved_at),
            full=recent(before.full, polled.full, read),
            filled=recent(before.filled, fills, read),
            carried=np.vstack([before.carried[1:], polled.carried]),
            unwatched=np.vstack([before.unwatched[1:], ~polled.watched_by]),
            bytes_in=np.vstack([before.bytes_in[1:], polled.entered_bytes]),
        )

    def with_returned(self, returned: Keys, now: float) -> Self:
        """With these, by their keys, as after a time in which they were not seen: nothing is known that rests on the
        polls just before, their consumers may have come and gone, and their limits may have been reached.
        """
        at = np.flatnonzero(np.isin(self.index.keys, returned))
        changed: dict[str, Any] = {}
        for name, one in declared(type(self)).items():
            if one.counter or one.outlives:
                continue
            values = np.array(getattr(self, name))
            values[..., at] = one.fill
            changed[name] = values
        for name in ("moved", "filled", "carried"):
            changed[name][..., at] = True
        moved_at = self.moved_at.copy()
        moved_at[at] = now
        return replace(self, moved_at=moved_at, **changed)

    def level_reached(self, noise: Column) -> Column:
        """What O - R has reached, of which only more is news: its peak, but for what a rollback has taken off for good.

        R is read later, so that O - R is too low by what is acknowledged between the reads, at some polls or at all of
        the last ones. noise: as much as that may be.
        """
        lately = np.fmax.reduce(self.levels, axis=0)
        return np.where(self.peak - lately <= noise, self.peak, lately)

    def sources(self, polled: DestinationPoll) -> tuple[Column, Column]:
        """What each may have sent to the dead message queue: at least and at most, of three polls, as that may be read
        before or after it; also what may be apart, which is sure one poll late.
        """
        sends = polled.dead_letters & ~polled.is_dead
        surely = sends & self.limited(polled) & ~self.transacted(polled)
        most = (
            self.d_gone
            + self.d_apart
            + self.lately.sum(axis=0)
            + np.fmax(self.gaps[-1], 0.0)
        )
        return np.where(surely, self.left_alone, 0.0), np.where(sends, most, 0.0)

    def explanations(self, polled: DestinationPoll, now: float) -> Explanations:
        """Messages of this poll that may have become dead letters, or did."""
        sends = polled.dead_letters & ~polled.is_dead
        return Explanations(
            sure=self.surely_dead_now(polled, now),
            alone=float(self.left_alone[sends].sum()),
            refused=float(self.d_raw[sends].sum()),
        )

    def surely_dead_now(self, polled: DestinationPoll, now: float) -> float:
        """Messages of this poll that no client, sender or operator took, and that no limit refused."""
        sends = polled.dead_letters & ~polled.is_dead & ~self.transacted(polled)
        # A full store and a rollback move both counters, so that what is more than came had been there before. A row
        # that was read while it changed shows some of what left at the poll before.
        of_backlog = np.fmax(self.left_alone - self.d_came - self.came_before, 0.0)
        nobody_came = (now - self.moved_at > SHORT_LIVED) & (
            now - self.unseen_at > SHORT_LIVED
        )
        is_purge = polled.ready <= self.d_came
        expired = np.where(nobody_came & ~is_purge, of_backlog, 0.0)
        left = np.where(self.limited(polled), self.left_alone, expired)
        expired_on_arrival = np.where(
            self.takes_any(polled, self.bytes_in[-2]), self.d_raw, 0.0
        )
        return float((left + expired_on_arrival)[sends].sum())

    def limited(self, polled: DestinationPoll) -> Mask:
        """Its limit may have removed messages."""
        return polled.removes & self.full.any(axis=0)

    def transacted(self, polled: DestinationPoll) -> Mask:
        """Sends were open at this poll or at the one before."""
        return (polled.uncommitted > 0) | (self.uncommitted > 0)

    def booked(
        self, polled: DestinationPoll, dead: DeadLetterPoll, now: float
    ) -> tuple[Self, float]:
        """With the counts of this poll by reason, and how many dead letters are surely of these."""
        low, high = self.sources(polled)
        known = dead.arrived if np.isfinite(dead.arrived) else 0.0
        least, maybe = (
            np.clip(of - (dead.high - high), low, np.fmax(low, high))
            for of in (dead.unclaimed, known)
        )
        most = np.clip(
            dead.arrived + dead.unclaimed - (dead.low - low),
            least,
            np.fmax(least, high),
        )
        others = dead.arrived - (dead.low - low)
        refused = self.of_refused(polled, least, others + self.other_dead)
        left = self.d_gone
        x = self.d_apart
        lately = self.d_gone + self.lately[:2].sum(axis=0)
        limited = self.limited(polled)
        transacted = self.transacted(polled)
        # Of what a limit removes a client may buffer some, and process it all the same.
        removed = np.where(
            limited & ~polled.is_dead & ~transacted, self.left_alone, 0.0
        )
        may = polled.removes & self.filled.any(axis=0)
        out_most = np.where(
            polled.dead_letters & ~polled.is_dead, np.fmin(left, most), left
        )
        alone = np.where(limited, 0.0, self.left_alone)
        dead_low, new = np.where(may, 0.0, np.clip([least - x, maybe - x], 0.0, lately))
        whole = (
            (alone >= np.fmax(MARGIN, 0.5 * self.ready))
            & (self.ready > 0)
            & (polled.ready <= self.d_came)
        )
        # Where consumers come and go one that no poll saw may have taken all.
        whole &= ~transacted & (
            (polled.consumers > 0) | (now - self.moved_at > SHORT_LIVED)
        )
        sends_dead = self.sends_dead | (dead_low > 0)
        sends_dead |= (
            polled.dead_letters
            & (alone > 0)
            & ~transacted
            & ~whole
            & (dead.arrived > 0)
        )
        dead_most = np.where(
            sends_dead & ~limited, np.fmax(np.fmin(left, most), new), new
        )
        rest_least = np.fmax(alone - dead_most - self.dead_early[1], 0.0)
        # Clients that no poll saw may have settled it where some have done so before.
        sure = now - self.unseen_at > SHORT_LIVED
        settled = np.where(transacted | whole, 0.0, rest_least)
        undecided = np.where(polled.unset & ~polled.is_dead, self.undecided + left, 0.0)
        untraced = np.where(polled.silent & ~polled.is_dead, self.undecided + left, 0.0)
        # What leaves the dead message queue unread has a bound of its own.
        plain = ~(transacted | whole | polled.is_dead)
        unexplained_least = np.where(plain & self.surely_alone(now), rest_least, 0.0)
        # That it was a dead letter shows a poll later.
        proven_dead = np.fmin(dead_low + self.dead_early[0], alone + self.alone_before)
        # Each dead letter explains one message that left alone: what explains none yet may do so at the next poll.
        not_matched = (
            dead_low + self.dead_early[0] - proven_dead,
            dead_most + self.dead_early[1] - alone,
        )
        later = np.clip(not_matched, 0.0, self.seen_alone)
        unexplained_most = np.where(plain, alone, 0.0) - proven_dead
        unseen = np.where(polled.is_dead, 0.0, self.left_unseen)
        out_of_buffers = self.out_of_buffers(polled, dead)
        possible_letters = np.where(
            may, dead_most, np.fmax(dead_most, out_of_buffers.matched)
        )
        letters_to_come = np.fmin(
            out_of_buffers.messages, np.ceil(self.d_gone * dead.share_late)
        )
        letters_to_come = np.where(may, 0.0, letters_to_come)
        reasons = (
            (removed, np.where(may, np.fmax(out_most, removed), 0.0)),
            (dead_low, possible_letters),
            (
                np.where(transacted & sure, rest_least, 0.0),
                np.where(transacted, alone, 0.0),
            ),
            # Also what clients buffered, which then leaves their buffers.
            (
                np.where(whole & sure & (polled.consumers > 0), rest_least, 0.0),
                np.where(whole, left, 0.0),
            ),
            *refused,
            (np.zeros_like(untraced), untraced),
            (unexplained_least, unexplained_most + unseen),
        )
        lows, highs = np.array(reasons).swapaxes(0, 1)
        # it was possible before it was sure
        total = self.low + lows
        more = np.fmax(self.more + highs - lows, 0.0)
        surely = (
            self.gone
            - (total + more)[list(OF_GONE)].sum(axis=0)
            - undecided
            - self.seen_alone
            - letters_to_come
        )
        (rejected, rejected_most), (large, _), (expired, _) = refused
        passed_by = np.where(
            polled.consumers > 0, self.left_alone, 0.0
        )  # its dead letters may show a poll later
        books = replace(
            self,
            low=total,
            more=more,
            acknowledged=np.fmax(self.acknowledged, surely),
            undecided=undecided,
            not_acknowledged=self.not_acknowledged
            + np.where(self.surely_alone(now), alone, 0.0),
            unseen_at=np.where(settled >= MARGIN, now, self.unseen_at),
            sends_dead=sends_dead,
            other_dead=others,
            alone_before=alone,
            dead_early=later,
            letters_waiting=out_of_buffers.letters,
            left_waiting=out_of_buffers.messages,
            letters_to_come=letters_to_come,
            unread=np.fmax(dead_low - self.passed_by, passed_by),
            passed_by=passed_by,
            uncommitted=polled.uncommitted,
            ready=polled.ready,
            refused_now=np.where(
                polled.rejects & self.full.any(axis=0), rejected_most, rejected + large
            ),
        )
        return books, float(
            np.where(polled.dead_letters, expired + removed + dead_low, 0.0).sum()
        )

    def out_of_buffers(self, polled: DestinationPoll, dead: DeadLetterPoll) -> Matching:
        """What left, against the dead letters that may have come out of the buffers of clients."""
        sends = polled.dead_letters & ~polled.is_dead
        nothing = np.zeros_like(self.d_gone)
        before = Matching(
            self.letters_waiting, self.left_waiting, matched=nothing, overdue=nothing
        )
        return before.after(
            np.where(sends, dead.unexplained, 0.0), np.where(sends, self.d_gone, 0.0)
        )

    def surely_alone(self, now: float) -> Mask:
        """Where no client can have acknowledged what left alone: its consumers stay, take any message, and say how many
        they acknowledge.
        """
        stay = now - self.moved_at > SHORT_LIVED
        return stay & ~self.unwatched.any(axis=0)

    def takes_any(self, polled: DestinationPoll, bytes_before: Column) -> Mask:
        """No limit can have refused what came since `bytes_before`: what never was in it had expired as it came."""
        refuses = polled.rejects & self.full.any(axis=0)
        sized = self.most_too_large(polled, bytes_before) > 0
        return (
            ~refuses & ~self.filled.any(axis=0) & ~sized & ~self.hides_expired(polled)
        )

    def hides_expired(self, polled: DestinationPoll) -> Mask:
        """Nothing shows what expired on arrival, or it may have come at an earlier poll."""
        return ~polled.is_dead & (~polled.dead_letters | self.carried.any(axis=0))

    def most_too_large(self, polled: DestinationPoll, bytes_before: Column) -> Column:
        """At most so many of the messages that came since `bytes_before`: their bytes are not enough for more."""
        came = polled.entered_bytes - bytes_before
        # Where its depth is not read at each poll, they may have come at an earlier one.
        known = (came >= 0) & ~self.carried.any(axis=0)
        most = np.where(known, np.floor(came / polled.largest), np.inf)
        return np.where(np.isnan(polled.largest), 0.0, most)

    def of_refused(
        self, polled: DestinationPoll, dead_least: Column, dead_most: Column
    ) -> list[tuple[Column, Column]]:
        """Of `REFUSED`: at least and at most so many of X. dead_least, dead_most: dead letters that may be of it."""
        x = self.d_apart
        full = self.full.any(axis=0)
        filled = self.filled.any(axis=0)
        bytes_before = self.bytes_in[0]  # what came at the last two polls
        sized = self.most_too_large(polled, bytes_before) > 0
        refuses = polled.rejects & full
        either = polled.rejects & ~refuses & filled
        expired_most = np.where(
            self.hides_expired(polled) & ~refuses, x, np.clip(dead_most, 0.0, x)
        )
        # Full all the time: a limit that refuses is reached before anything else.
        expired_most = np.where(refuses & self.full.all(axis=0), 0.0, expired_most)
        least = np.clip(
            dead_least - self.d_gone - self.lately[:2].sum(axis=0), 0.0, expired_most
        )
        expired = np.where(self.takes_any(polled, bytes_before), expired_most, least)
        surely = x - expired_most
        maybe = x - expired
        as_rejected = refuses | ~sized & ~either
        return [
            (
                np.where(as_rejected, surely, 0.0),
                np.where(as_rejected | either, maybe, 0.0),
            ),
            (
                np.where(as_rejected | either, 0.0, surely),
                np.where(as_rejected | ~sized, 0.0, maybe),
            ),
            (expired, expired_most),
        ]


def recent(before: Mask, now: Mask, read: Mask) -> Mask:
    """With another poll, in a line of its own where the depth was read."""
    moved = np.where(read, np.vstack([before[1:], now]), before)
    return np.vstack([moved[:-1], moved[-1] | now])


@dataclass(frozen=True, slots=True)
class TopicBooks(DestinationBooks):
    """Per topic; it ends with the agent. unwanted: what no subscription wanted, which the topic does not count."""

    BY: ClassVar[By | None] = None
    unwanted: Column = column(0.0, outlives=True, saved=False)
    unsent: Matrix = column(lines=SAMPLES, saved=False)
    """Sent less what came, at the last polls: too low by what producers sent unseen before they went."""
    partly: Mask = mask(outlives=True, saved=False)
    """Producers went, or could not be read: it may be more."""

    def with_returned(self, returned: Keys, now: float) -> Self:
        books = super(TopicBooks, self).with_returned(returned, now)
        return replace(books, partly=books.partly | np.isin(books.index.keys, returned))

    def with_sent(self, sent: Column, gone: Mask, *, watched: bool) -> Self:
        """sent: by the producers that are listed, since the poll before. gone: topics that a producer has left."""
        before = self.unsent_before(watched=watched)
        level = before[-1] + sent - self.d_came
        grew = np.fmax(or_zero(level - np.fmax.reduce(before, axis=0)), 0.0)
        unsent = np.vstack([before[1:], np.where(np.isnan(level), 0.0, level)])
        return replace(
            self,
            unwanted=self.unwanted + grew,
            unsent=unsent,
            partly=self.partly | gone,
        )

    def without_sent(self, *, watched: bool) -> Self:
        """What came is compared when producers are read again, with the levels up to now."""
        before = self.unsent_before(watched=watched)
        unsent = np.vstack(
            [before[:-2], np.fmax(before[-2], before[-1]), before[-1] - self.d_came]
        )
        return replace(self, unsent=unsent, partly=np.ones_like(self.partly))

    def unsent_before(self, *, watched: bool) -> Matrix:
        return np.where(
            np.isnan(self.unsent) & watched, 0.0, self.unsent
        )  # a topic that was made since
