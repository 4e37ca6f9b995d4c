"""The account of an OpenMQ broker's destinations: what came is there, or left, and for which reason.

A destination counts what came (I) and what left for whatever reason (O). What came, is not there and has not left never
was in it (X, *apart*): it was refused, was too large, or had expired on arrival:

    opening + adjusted + I = content + O + X

R is what the consumers *released*: they no longer buffer it, so that they acknowledged it as far as their numbers show.
The rest of O *left alone*: O - R. Consumers are read later than destinations, so that this is never too high. What left
alone is booked to a reason where something proves one; else clients settled it that no poll saw.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from penstock.account.last_polls import shifted
from penstock.account.openmq_arrivals import Explanations
from penstock.core.counters import SMALL_FALL
from penstock.core.state import (
    By,
    RowState,
    column,
    counter,
    declared,
    mask,
    with_fields,
)
from penstock.core.table import Column, Index, Keys, Mask, Matrix
from penstock.observation.facts import or_zero
from penstock.observation.openmq import MARGIN

LEFT = ("removed", "dead_lettered", "rolled_back", "purged")
"""Reasons for which a message left that was in a destination; removed: by its limit."""
REFUSED = ("rejected", "too_large", "expired")
"""Reasons for which a message never was in a destination; expired: on arrival."""
UNTRACED = "expired_untraced"
"""What left a destination without a dead message queue: it expired or was acknowledged, and no number shows which."""
UNACKNOWLEDGED = "left_unacknowledged"
"""What left alone, for none of the other reasons."""
REASONS = (*LEFT, *REFUSED, UNTRACED, UNACKNOWLEDGED)
"""A checkpoint has these by their numbers: new ones come last."""
OF_GONE = tuple(REASONS.index(name) for name in (*LEFT, UNTRACED, UNACKNOWLEDGED))
"""The lines, in a matrix by reason, of all reasons for which a message leaves that was in a destination."""
SAMPLES = 8
"""Polls whose highest O - R is what the next one is compared with: a batch may fall between two reads."""
CONFIRMED = 3
"""Polls without a coming or going of consumers after which O - R is conclusive."""
RECENT = 3
"""Polls, this one too, whose states may be the cause of X: it is sure one poll late, and may have begun one before."""
SHORT_LIVED = 600.0
"""Seconds for which more clients may come and go between two polls, once one did: what leaves then may be theirs."""


class Range(NamedTuple):
    """(destinations,) Messages, at least and at most."""

    least: Column
    most: Column


@dataclass(frozen=True, slots=True)
class DestinationPoll:
    """One poll of destinations, by the rows of `index`.

    Counters and levels:
        entered, left, content: I, O, and what is there with what is uncommitted.
        entered_bytes: of all messages that came, also of those that were refused.
        released: what its consumers no longer buffer since the poll before; NaN where that does not add up to O.
        stale: messages that consumers still buffer and the limit has removed.
        limit: of messages. largest: bytes that a single message may have, NaN: any.
        skew: messages that may have left between the read of the destination and that of its consumers.

    States:
        carried: the depth was not read in this poll, but computed from other numbers.
        moved: consumers came or went, or their numbers do not add up to O.
        full: nearly at its limit.
        dead_letters: what it discards goes to the dead message queue. silent: it is known that this goes nowhere.
        unset: its settings are not known yet.
        is_dead: it is the dead message queue.
        watched_by: it has a consumer that takes any message, and none that acknowledges more than its numbers show.
    """

    index: Index[object]
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
    """The dead letters of one poll: those that arrived at the dead message queue, for all destinations together.

    Attributes:
        arrived: letters that arrived since the poll before; infinite where it is not known.
        unclaimed: letters of the poll before without a known source: all destinations have been read since only now.
        low, high: letters that all destinations sent by their own numbers, at least and at most.
        unexplained: the part of `arrived` that exceeds what left destinations without an acknowledgement. These expired
            in the buffers of clients, which release them like acknowledged ones: any destination may be their source.
        share_late: the part, from 0 to 1, of the messages that left at this poll that may show as such letters at the
            next one.
    """

    arrived: float
    unclaimed: float
    low: float
    high: float
    unexplained: float = 0.0
    share_late: float = 0.0


@dataclass(frozen=True, slots=True)
class DestinationBooks(RowState):
    """The sums of each destination since `since`, over restarts of the broker; all columns are by destination."""

    BY: ClassVar[By | None] = By.QUEUE
    STORED_AS = "account_openmq_"
    since: Column = counter(outlives=True)
    """When the sums began, by the broker's clock."""
    entered0: Column = counter()
    """I when the process was first polled, less what was counted before it."""
    left0: Column = counter()
    """O when the process was first polled, less what was counted before it."""
    opening: Column = counter(outlives=True)
    """The content at `since`."""
    adjusted: Column = counter(0.0, outlives=True)
    """Messages that restarts added to the content, or took."""
    apart: Column = counter(0.0, outlives=True)
    """X, as two polls have seen it."""
    low: Matrix = counter(0.0, lines=len(REASONS), outlives=True)
    """(reasons, destinations) Messages by each of `REASONS`, at least."""
    more: Matrix = counter(0.0, lines=len(REASONS), outlives=True)
    """(reasons, destinations) At most so many more than `low`."""
    acknowledged: Column = counter(0.0, outlives=True)
    """Messages that clients acknowledged, at least."""
    undecided: Column = counter(0.0, outlives=True)
    """Messages that left before it was known whether expired ones go anywhere."""
    not_acknowledged: Column = counter(0.0, outlives=True)
    """Messages, at least, that left and were not acknowledged, whatever the reason."""
    unseen_at: Column = column(-np.inf, outlives=True, saved=False)
    """When a client that no poll saw last settled messages."""
    sends_dead: Mask = mask(outlives=True)
    """True where it has once sent dead letters."""
    came: Column = column(outlives=True)
    """I since the sums began."""
    gone: Column = column(outlives=True)
    """O since the sums began."""
    content: Column = column(outlives=True, saved=False)
    raw: Column = column(saved=False)
    """X as this poll alone has it."""
    d_raw: Column = column(0.0, saved=False)
    """By how much `raw` rose at this poll."""
    gaps: Matrix = column(lines=3, saved=False)
    """(polls, destinations) `raw` less `apart`: messages that X does not explain yet."""
    levels: Matrix = column(lines=SAMPLES, saved=False)
    """(polls, destinations) O - R since consumers last joined or left."""
    peak: Column = column(saved=False)
    """The highest of these levels."""
    d_came: Column = column(0.0, saved=False)
    """Messages that came since the poll before."""
    d_gone: Column = column(0.0, saved=False)
    """Messages that left since the poll before."""
    came_before: Column = column(0.0, saved=False)
    """Messages that came at the poll before."""
    lately: Matrix = column(0.0, lines=3, saved=False)
    """(3, destinations) What left at each of the two polls before, and what was apart at the one before."""
    d_apart: Column = column(0.0, saved=False)
    """By how much X rose at this poll."""
    left_alone: Column = column(0.0, saved=False)
    """Messages of this poll that left without an acknowledgement by a client."""
    left_unseen: Column = column(0.0, saved=False)
    """Messages that left without one while consumers joined and left, one of which may have acknowledged them."""
    seen_alone: Column = column(0.0, saved=False)
    """A few more than `left_alone`, by this poll alone: the next one shows if a row was read while it changed."""
    dead_early: Matrix = column(0.0, lines=2, saved=False)
    """(2, destinations) Dead letters, at least and at most, whose messages only the next poll may show."""
    letters_waiting: Column = column(0.0, saved=False)
    """Dead letters that no message explains yet."""
    left_waiting: Column = column(0.0, saved=False)
    """Messages that explain no dead letter yet."""
    letters_to_come: Column = column(0.0, saved=False)
    """Messages that left and may arrive as dead letters at the next poll."""
    alone_before: Column = column(0.0, saved=False)
    """`left_alone` of the poll before, where no limit removes."""
    refused_now: Column = column(0.0, saved=False)
    """Messages that were refused at this poll."""
    unread: Column = column(0.0, saved=False)
    """Messages that left, and that no consumer had."""
    passed_by: Column = column(0.0, saved=False)
    """Messages of `left_alone` that left while there were consumers."""
    moved: Mask = mask(saved=False)
    """True where consumers joined or left at this poll."""
    moved_at: Column = column(-np.inf, outlives=True, saved=False)
    """When consumers last joined or left."""
    full: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    """(polls, destinations) True where it was full as its depth was read."""
    filled: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    """(polls, destinations) True where it was full then, or perhaps in between."""
    carried: Mask = column(0.0, dtype=np.bool_, lines=RECENT, saved=False)
    """(polls, destinations) True where the depth was not read."""
    unwatched: Mask = column(1.0, dtype=np.bool_, lines=RECENT, saved=False)
    """(polls, destinations) True where no consumer was as `watched_by` says."""
    bytes_in: Matrix = column(lines=3, saved=False)
    """(polls, destinations) Bytes that had come."""
    uncommitted: Column = column(0.0, saved=False)
    ready: Column = column(0.0, saved=False)
    stale: Column = column(0.0, saved=False)
    other_dead: Column = column(0.0, saved=False)
    """Dead letters that no other destination surely sent."""

    @property
    def unexplained(self) -> Column:
        """(destinations,) By how much more left than came, at three polls, as a negative number; NaN before."""
        return np.fmin(np.max(self.gaps, axis=0), 0.0)

    @property
    def refused(self) -> Column:
        """(destinations,) Messages that were refused by a limit or for their size, at least."""
        rejected: Column = self.low[REASONS.index("rejected")]
        too_large: Column = self.low[REASONS.index("too_large")]
        return rejected + too_large

    @property
    def seen_once(self) -> Column:
        """(destinations,) Messages that never were in it, by the last poll alone; the next one shows the reason."""
        unconfirmed = or_zero(self.raw - self.apart)
        return np.where(unconfirmed > MARGIN, unconfirmed, 0.0)

    def bounds(self) -> dict[str, tuple[Column, Column]]:
        """Return by fate at least and at most how many messages met it.

        What only one poll has seen, or what is not decided yet, is in the most of each fate that it may turn out to be.
        """
        least = dict(zip(REASONS, self.low, strict=True))
        most = dict(zip(REASONS, self.low + self.more, strict=True))
        # Messages that left without a trace may have expired.
        least["expired"] = least["expired"] + least.pop(UNTRACED)
        most["expired"] = most["expired"] + most.pop(UNTRACED) + self.undecided
        for name in REFUSED:
            most[name] = most[name] + self.seen_once
        most["dead_lettered"] = most["dead_lettered"] + self.letters_to_come
        most[UNACKNOWLEDGED] = most[UNACKNOWLEDGED] + self.seen_alone
        fates = {name: (least[name], most[name]) for name in least}
        return {"acknowledged": self.acknowledged_bounds, **fates}

    @property
    def acknowledged_bounds(self) -> tuple[Column, Column]:
        """(destinations,) Acknowledged messages at least and at most: O less what surely left for other reasons."""
        left_otherwise = self.low[list(OF_GONE)].sum(axis=0)
        others = np.fmax(left_otherwise, self.not_acknowledged)
        most = np.fmax(self.gone - others, self.acknowledged)
        return self.acknowledged, most

    def counted(
        self, polled: DestinationPoll, now: float, *, watched: bool, restarted: bool
    ) -> Self:
        """Return the books with the counters, levels and states of this poll; reasons follow in `openmq_booking`.

        watched: a destination that was not there at the poll before was made since.
        """
        before = self.reindexed(polled.index)
        lives = before.lives(polled)
        starts_empty = watched and not restarted
        starts_at_zero = ~lives.is_first | watched | restarted
        # What happened while the agent was away may have been at the limit.
        may_be_missed = ~lives.is_first & (not watched)
        books = before.with_counters(polled, lives, starts_at_zero, now)
        books = books.with_content(before, polled, lives, starts_empty=starts_empty)
        books = books.with_balance(before, lives, watched=watched)
        books = books.with_apart(before)
        books = books.with_changes(before, lives)
        books = books.with_left_alone(before, polled, lives.begins, now)
        return books.with_states(before, polled, may_be_missed)

    def lives(self, polled: DestinationPoll) -> "Lives":
        """Return which destinations are counted for the first time, or anew as a counter fell below its sum."""
        is_readable = (
            np.isfinite(polled.entered)
            & np.isfinite(polled.left)
            & np.isfinite(polled.content)
        )
        is_first = np.isnan(self.opening) & is_readable
        entered_fell = polled.entered - self.entered0 < or_zero(self.came)
        left_fell = polled.left - self.left0 < or_zero(self.gone)
        is_unknown = np.isnan(self.entered0)
        begins = (is_unknown | entered_fell | left_fell) & is_readable
        return Lives(is_readable, is_first, begins)

    def with_counters(
        self, polled: DestinationPoll, lives: "Lives", starts_at_zero: Mask, now: float
    ) -> Self:
        """Return the books with what came and left in all: I and O, continued over restarts.

        starts_at_zero: (destinations,) True where its counters began at 0 since the poll before, so that all that they
            show is new. Else they show an unknown past.
        """
        came_before = or_zero(self.came)
        gone_before = or_zero(self.gone)
        entered_at_start = np.where(starts_at_zero, 0.0, polled.entered)
        left_at_start = np.where(starts_at_zero, 0.0, polled.left)
        entered0 = np.where(lives.begins, entered_at_start - came_before, self.entered0)
        left0 = np.where(lives.begins, left_at_start - gone_before, self.left0)
        return replace(
            self,
            since=np.where(lives.is_first, now, self.since),
            entered0=entered0,
            left0=left0,
            came=np.fmax(came_before, polled.entered - entered0),
            gone=np.fmax(gone_before, polled.left - left0),
        )

    def with_content(
        self,
        before: Self,
        polled: DestinationPoll,
        lives: "Lives",
        *,
        starts_empty: bool,
    ) -> Self:
        """Return the books with the content of this poll, and that at the begin of the books.

        starts_empty: a destination that is polled first was made since the poll before, and was empty then.
        """
        content = np.where(lives.is_readable, polled.content, before.content)
        at_first = np.zeros_like(content) if starts_empty else content
        opening = np.where(lives.is_first, at_first, before.opening)
        return replace(self, content=content, opening=opening)

    def with_balance(self, before: Self, lives: "Lives", *, watched: bool) -> Self:
        """Return the books with `raw`: what came, and is neither there nor left.

        Where counters began again, `adjusted` takes what the restart changed, so that X stays what it was. If the first
        row was read while it changed, less than nothing is missing at the second poll: the opening takes that.
        """
        to_balance = self.content + self.gone + before.apart - self.opening - self.came
        is_made_now = lives.is_first & watched
        adjusted = np.where(lives.begins & ~is_made_now, to_balance, before.adjusted)
        raw = self.opening + adjusted + self.came - self.gone - self.content
        is_second_poll = np.isnan(before.gaps[0])
        below_nothing = np.fmin(or_zero(raw - before.apart), 0.0)
        torn = np.where(is_second_poll, below_nothing, 0.0)
        return replace(
            self,
            opening=self.opening - torn,
            adjusted=adjusted,
            raw=raw - torn,
            d_raw=np.fmax(or_zero(raw - torn - before.raw), 0.0),
        )

    def with_apart(self, before: Self) -> Self:
        """Return the books with X: the lower of its numbers at this poll and at the one before; it only grows."""
        surely = np.minimum(before.raw, self.raw)
        # Only messages that came can be apart: if it is more, the row was read while it changed.
        came_now = or_zero(self.came - or_zero(before.came))
        most = before.apart + came_now + before.d_came
        is_torn = (surely > most) & ~np.isnan(before.gaps[0])
        apart = np.fmax(before.apart, np.where(is_torn, most, surely))
        return replace(
            self,
            apart=apart,
            d_apart=apart - before.apart,
            gaps=shifted(before.gaps, self.raw - apart),
        )

    def with_changes(self, before: Self, lives: "Lives") -> Self:
        """Return the books with what came and left since the poll before; 0 where counters began again."""
        is_known = ~np.isnan(before.gone) & ~lives.begins
        # What a new destination shows at its first poll came since the poll before.
        goes_on = is_known | lives.is_first
        came_now = self.came - or_zero(before.came)
        left_now = self.gone - or_zero(before.gone)
        return replace(
            self,
            d_came=np.where(goes_on, came_now, 0.0),
            d_gone=np.where(goes_on, left_now, 0.0),
            came_before=before.d_came,
            lately=np.stack([before.lately[1], before.d_gone, before.d_apart]),
        )

    def with_left_alone(
        self, before: Self, polled: DestinationPoll, begins: Mask, now: float
    ) -> Self:
        """Return the books with the messages that left alone: those by which O - R rises above what it had reached.

        While consumers join or leave, and at the poll after, R lacks what those released that are gone: the levels
        begin again.
        """
        moved_now = polled.moved & ~begins
        moved = polled.moved | before.moved | begins
        # A message that the limit removes from under a consumer counts as released at once, and not a second time when
        # the consumer lets go of it.
        released = polled.released + (polled.stale - before.stale)
        level = before.levels[-1] + self.d_gone - released
        rise = before.rise_to(level, moved, polled.skew)
        # A client that no poll saw may have settled these.
        grew_while_moved = moved & (rise.sure >= MARGIN)
        kept_levels = np.where(moved, np.nan, before.levels)
        books = replace(
            self,
            stale=polled.stale,
            levels=shifted(kept_levels, or_zero(level)),
            peak=rise.peak,
            moved=moved_now,
            moved_at=np.where(moved_now, now, before.moved_at),
        )
        return replace(
            books,
            left_alone=np.where(rise.is_conclusive, rise.sure, 0.0),
            left_unseen=np.where(rise.is_unseen, rise.sure, 0.0),
            seen_alone=rise.seen_once,
            unseen_at=np.where(grew_while_moved, now, before.unseen_at),
        )

    def rise_to(self, level: Column, moved: Mask, skew: Column) -> "Rise":
        """Return how far O - R rises above what it had reached.

        A small rise may come from a row that was read while it changed: only what the poll before shows, too, is sure.
        While consumers joined or left, a rise proves nothing.

        Args:
            level: (destinations,) O - R at this poll.
            moved: (destinations,) True where consumers joined or left at this poll or at the one before.
            skew: messages that may have left between the read of the destination and that of its consumers.
        """
        noise = np.fmax(MARGIN, skew)
        reached = self.level_reached(noise)
        rose = np.fmax(or_zero(level - reached), 0.0)
        is_conclusive = ~moved & self.has_confirmed_level
        # A row that was read while it changed lacks a few that its consumer acknowledged: the next poll has them.
        may_be_torn = is_conclusive & (rose <= SMALL_FALL)
        rose_before = np.clip(or_zero(self.levels[-1] - reached), 0.0, rose)
        sure = np.where(may_be_torn, rose_before, rose)
        peak = np.where(may_be_torn, or_zero(reached) + sure, np.fmax(reached, level))
        is_certain = sure > np.where(moved, skew, noise)
        return Rise(
            sure=sure,
            seen_once=rose - sure,
            is_conclusive=is_conclusive,
            is_unseen=~is_conclusive & is_certain,
            peak=np.where(moved, or_zero(level), peak),
        )

    @property
    def has_confirmed_level(self) -> Mask:
        """(destinations,) True where consumers stayed at enough of the last polls."""
        polls = np.count_nonzero(np.isfinite(self.levels), axis=0)
        return np.asarray(polls >= CONFIRMED)

    def with_states(
        self, before: Self, polled: DestinationPoll, may_be_missed: Mask
    ) -> Self:
        """Return the books with the states of the last polls.

        may_be_missed: (destinations,) True where it may have been full while no poll saw it.
        """
        is_read = ~polled.carried & ~before.carried[-1]
        most_content = or_zero(before.content) + self.d_came
        may_be_full = polled.full | (most_content >= polled.limit) | may_be_missed
        is_full = recent(before.full, polled.full, is_read)
        return replace(
            self,
            full=is_full,
            filled=recent(before.filled, may_be_full, is_read),
            carried=shifted(before.carried, polled.carried),
            unwatched=shifted(before.unwatched, ~polled.watched_by),
            bytes_in=shifted(before.bytes_in, polled.entered_bytes),
        )

    def with_returned(self, returned: Keys, now: float) -> Self:
        """Return the books as they are after a time in which destinations with these keys were not seen.

        Nothing is known that rests on the polls just before. Their consumers may have come and gone, and their limits
        may have been reached.
        """
        rows = np.flatnonzero(np.isin(self.index.keys, returned))
        columns = {}
        for name, declaration in declared(type(self)).items():
            if declaration.counter or declaration.outlives:
                continue
            values = np.array(getattr(self, name))
            values[..., rows] = declaration.fill
            columns[name] = values
        for name in ("moved", "filled", "carried"):
            columns[name][..., rows] = True
        moved_at = self.moved_at.copy()
        moved_at[rows] = now
        return with_fields(self, {**columns, "moved_at": moved_at})

    def level_reached(self, noise: Column) -> Column:
        """(destinations,) The O - R that has been reached: its peak, unless it has stayed below for all the last polls.

        R is read later, so that O - R is too low by what is acknowledged between the reads, at some polls or at all of
        the last ones: a fall within this `noise` is none. A larger one is for good: a rollback, after which the highest
        level of the last polls counts.
        """
        lately = np.fmax.reduce(self.levels, axis=0)
        return np.where(self.peak - lately <= noise, self.peak, lately)

    def sources(self, polled: DestinationPoll) -> Range:
        """(destinations,) Messages that it sent to the dead message queue by its own numbers, at least and at most.

        At least: what its limit removed at this poll. At most: all that left or was apart at the last three polls, as
        the dead message queue may be read before or after it.
        """
        sends = polled.dead_letters & ~polled.is_dead
        surely = sends & self.limited(polled) & ~self.transacted(polled)
        # What is apart is sure one poll late.
        may_be_apart = np.fmax(self.gaps[-1], 0.0)
        most = self.d_gone + self.d_apart + self.lately.sum(axis=0) + may_be_apart
        return Range(
            np.where(surely, self.left_alone, 0.0),
            np.where(sends, most, 0.0),
        )

    def explanations(self, polled: DestinationPoll, now: float) -> Explanations:
        """Return the messages of this poll that became dead letters, or may have, of all destinations that send any."""
        sends = polled.dead_letters & ~polled.is_dead
        return Explanations(
            sure=self.surely_dead_now(polled, now),
            alone=float(self.left_alone[sends].sum()),
            refused=float(self.d_raw[sends].sum()),
        )

    def surely_dead_now(self, polled: DestinationPoll, now: float) -> float:
        """Count the messages of this poll that surely became dead letters.

        These are all that a limit removed; what expired in a backlog while no client can have taken it, no sender has
        open sends and no operator purged it; and what expired on arrival, where nothing can have refused it.
        """
        sends = polled.dead_letters & ~polled.is_dead & ~self.transacted(polled)
        # A full store and a rollback move both counters, so that what is more than came had been there before. A row
        # that was read while it changed shows some of what left at the poll before.
        of_backlog = np.fmax(self.left_alone - self.d_came - self.came_before, 0.0)
        consumers_stay = now - self.moved_at > SHORT_LIVED
        no_unseen_client = now - self.unseen_at > SHORT_LIVED
        is_purge = polled.ready <= self.d_came
        expires = consumers_stay & no_unseen_client & ~is_purge
        expired = np.where(expires, of_backlog, 0.0)
        left = np.where(self.limited(polled), self.left_alone, expired)
        takes_any = self.takes_any(polled, self.bytes_in[-2])
        left += np.where(takes_any, self.d_raw, 0.0)
        return float(left[sends].sum())

    def limited(self, polled: DestinationPoll) -> Mask:
        """(destinations,) True where its limit removes messages: it was full at one of the last polls."""
        return polled.removes & self.full.any(axis=0)

    def transacted(self, polled: DestinationPoll) -> Mask:
        """(destinations,) True where sends in a transaction were open at this poll or at the one before."""
        return (polled.uncommitted > 0) | (self.uncommitted > 0)

    def surely_alone(self, now: float) -> Mask:
        """(destinations,) True where no client can have acknowledged what left alone.

        For long no consumer has joined or left, and at all of the last polls one was there that takes any message,
        while all show how many they acknowledge.
        """
        stay = now - self.moved_at > SHORT_LIVED
        return stay & ~self.unwatched.any(axis=0)

    def takes_any(self, polled: DestinationPoll, bytes_before: Column) -> Mask:
        """(destinations,) True where no limit can have refused what came, so that what is apart expired on arrival.

        bytes_before: (destinations,) bytes that had come before; messages since then may have been too large.
        """
        limit_refuses = polled.rejects & self.full.any(axis=0)
        may_be_full = limit_refuses | self.filled.any(axis=0)
        may_be_too_large = self.most_too_large(polled, bytes_before) > 0
        return ~may_be_full & ~may_be_too_large & ~self.hides_expired(polled)

    def hides_expired(self, polled: DestinationPoll) -> Mask:
        """(destinations,) True where nothing shows what expired on arrival, or it may have come at an earlier poll."""
        hides = ~polled.dead_letters | self.carried.any(axis=0)
        return hides & ~polled.is_dead

    def most_too_large(self, polled: DestinationPoll, bytes_before: Column) -> Column:
        """(destinations,) Messages, at most, that came since `bytes_before` and were too large.

        Each has more bytes than the largest that the destination takes, so that all bytes divided by these limit them.
        """
        bytes_since = polled.entered_bytes - bytes_before
        # Where its depth is not read at each poll, they may have come at an earlier one.
        is_known = (bytes_since >= 0) & ~self.carried.any(axis=0)
        most = np.where(is_known, np.floor(bytes_since / polled.largest), np.inf)
        takes_any_size = np.isnan(polled.largest)
        return np.where(takes_any_size, 0.0, most)


@dataclass(frozen=True, slots=True)
class Lives:
    """Which destinations are counted for the first time, or anew.

    is_readable: all numbers that the sums need are there.
    is_first: it is counted for the first time.
    begins: its counters began again, or are not known yet.
    """

    is_readable: Mask
    is_first: Mask
    begins: Mask


@dataclass(frozen=True, slots=True)
class Rise:
    """By how much O - R rose at one poll.

    sure: messages that left alone.
    seen_once: a few more that the next poll may take back.
    is_conclusive: consumers stayed for long enough.
    is_unseen: they did not, and it rose by more than the reads may be apart: a client that no poll saw may have
        acknowledged these.
    peak: the highest O - R so far.
    """

    sure: Column
    seen_once: Column
    is_conclusive: Mask
    is_unseen: Mask
    peak: Column


def recent(before: Mask, now: Mask, read: Mask) -> Mask:
    """Return a state of the last polls with that of this poll.

    It gets a line of its own where the depth was read. Where it was not, it belongs to the same change of the depth as
    the last line: that one is True if either is.
    """
    lines = np.where(read, shifted(before, now), before)
    return np.vstack([lines[:-1], lines[-1] | now])


@dataclass(frozen=True, slots=True)
class TopicBooks(DestinationBooks):
    """The books of topics, which end with the agent.

    A topic does not count a message that none of its subscriptions wants: it is *unwanted*, sent and not in I.
    """

    BY: ClassVar[By | None] = None
    unwanted: Column = column(0.0, outlives=True, saved=False)
    """Messages that no subscription wanted, at least."""
    unsent: Matrix = column(lines=SAMPLES, saved=False)
    """(polls, topics) Messages that producers sent, less I: too low by what they sent unseen before they left."""
    partly: Mask = mask(outlives=True, saved=False)
    """True where producers left or could not be read, so that more may be unwanted."""

    def with_returned(self, returned: Keys, now: float) -> Self:
        """Return the books as in `DestinationBooks`; what producers sent meanwhile is not known."""
        books = super(TopicBooks, self).with_returned(returned, now)
        return replace(books, partly=books.partly | np.isin(books.index.keys, returned))

    def with_sent(self, sent: Column, left: Mask, *, watched: bool) -> Self:
        """Return the books with what no subscription wanted: sent, but not counted by the topic.

        Producers are read at another moment than topics: only what exceeds the highest level of the last polls is new.

        sent: (topics,) messages of the listed producers since the poll before. left: (topics,) True where one left.
        """
        before = self.unsent_before(watched=watched)
        level = before[-1] + sent - self.d_came
        reached = np.fmax.reduce(before, axis=0)
        grew = np.fmax(or_zero(level - reached), 0.0)
        known_level = np.where(np.isnan(level), 0.0, level)
        unsent = shifted(before, known_level)
        return replace(
            self,
            unwanted=self.unwanted + grew,
            unsent=unsent,
            partly=self.partly | left,
        )

    def without_sent(self, *, watched: bool) -> Self:
        """Return the books of a poll that did not read producers.

        The last level takes what came, to be held against what was sent once producers are read again. The line before
        it keeps the highest level up to now, which is to be exceeded then.
        """
        before = self.unsent_before(watched=watched)
        last = before[-1]
        highest = np.fmax(before[-2], last)
        unsent = np.vstack([before[:-2], highest, last - self.d_came])
        return replace(self, unsent=unsent, partly=np.ones_like(self.partly))

    def unsent_before(self, *, watched: bool) -> Matrix:
        """(polls, topics) The levels before this poll; 0 for a topic that was made since the poll before."""
        is_new = np.isnan(self.unsent) & watched
        return np.where(is_new, 0.0, self.unsent)
