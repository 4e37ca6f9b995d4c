"""For which reasons messages left OpenMQ destinations at one poll, or never were in them.

The words are those of `openmq_books`: I came, O left, R was released by consumers, O - R left *alone*, X is *apart* and
never was in the destination. *Letters* are dead letters. Each number of messages is a `Range`: at least what is proven,
at most what is possible.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from penstock.account.openmq_arrivals import Matching
from penstock.account.openmq_books import (
    OF_GONE,
    REASONS,
    SHORT_LIVED,
    UNACKNOWLEDGED,
    UNTRACED,
    DeadLetterPoll,
    DestinationBooks,
    DestinationPoll,
    Range,
)
from penstock.core.table import Column, Mask, Matrix
from penstock.observation.openmq import MARGIN

BooksT = TypeVar("BooksT", bound=DestinationBooks)


def booked(
    books: BooksT, polled: DestinationPoll, dead: DeadLetterPoll, now: float
) -> tuple[BooksT, float]:
    """Return the books with the counts of this poll by reason, and how many dead letters are surely of these.

    books: with the counters of this poll.
    """
    booking = Booking(books, polled, dead, now)
    after = with_reasons(books, booking)
    after = with_letters(after, booking)
    return after, booking.own_letters


def with_reasons(books: BooksT, booking: "Booking") -> BooksT:
    """Return the books with the sums by reason; what left for none of these reasons was acknowledged, at least."""
    reasons = booking.reasons
    lows = np.stack([reasons[name].least for name in REASONS])
    highs = np.stack([reasons[name].most for name in REASONS])
    low = books.low + lows
    # What is sure at this poll may have been possible before: then it is no longer in the rest that is possible.
    more = np.fmax(books.more + highs - lows, 0.0)
    left_otherwise = (low + more)[list(OF_GONE)].sum(axis=0)
    unsure = booking.undecided + books.seen_alone + booking.letters_to_come
    acknowledged = books.gone - left_otherwise - unsure
    surely_alone = np.where(books.surely_alone(booking.now), booking.alone, 0.0)
    return replace(
        books,
        low=low,
        more=more,
        acknowledged=np.fmax(books.acknowledged, acknowledged),
        undecided=booking.undecided,
        not_acknowledged=books.not_acknowledged + surely_alone,
    )


def with_letters(books: BooksT, booking: "Booking") -> BooksT:
    """Return the books with the dead letters of this poll, and with what the next poll needs of it."""
    polled = booking.polled
    # Dead letters of what left while there were consumers may show a poll later.
    passed_by = np.where(polled.consumers > 0, books.left_alone, 0.0)
    unread = np.fmax(booking.dead_lettered.least - books.passed_by, passed_by)
    has_unseen_clients = booking.settled_unseen >= MARGIN
    books = replace(
        books,
        sends_dead=booking.has_sent_letters,
        other_dead=booking.own_letters_at_most,
        dead_early=booking.letters_of_next_poll,
        letters_waiting=booking.out_of_buffers.letters,
        left_waiting=booking.out_of_buffers.messages,
        letters_to_come=booking.letters_to_come,
    )
    return replace(
        books,
        unseen_at=np.where(has_unseen_clients, booking.now, books.unseen_at),
        alone_before=booking.alone,
        unread=unread,
        passed_by=passed_by,
        uncommitted=polled.uncommitted,
        ready=polled.ready,
        refused_now=booking.refused_now,
    )


@dataclass(frozen=True)
class Booking:
    """One poll of destinations, with each number that the books need, computed once."""

    books: DestinationBooks
    polled: DestinationPoll
    dead: DeadLetterPoll
    now: float

    @cached_property
    def reasons(self) -> dict[str, Range]:
        """Messages that left, or never came in, at this poll for each of `REASONS`."""
        return {
            "removed": self.removed,
            "dead_lettered": Range(self.dead_lettered.least, self.possible_letters),
            "rolled_back": self.rolled_back,
            "purged": self.purged,
            "rejected": self.rejected,
            "too_large": self.too_large,
            "expired": self.expired,
            UNTRACED: Range(np.zeros_like(self.untraced), self.untraced),
            UNACKNOWLEDGED: self.unacknowledged,
        }

    @cached_property
    def own_letters(self) -> float:
        """How many dead letters surely came from these destinations, all together."""
        surely = self.expired.least + self.removed.least + self.dead_lettered.least
        return float(np.where(self.polled.dead_letters, surely, 0.0).sum())

    # --- states of this poll

    @cached_property
    def sends_letters(self) -> Mask:
        """(destinations,) True where what it discards goes to the dead message queue."""
        return self.polled.dead_letters & ~self.polled.is_dead

    @cached_property
    def is_limited(self) -> Mask:
        """(destinations,) True where its limit removes messages."""
        return self.books.limited(self.polled)

    @cached_property
    def may_be_limited(self) -> Mask:
        """(destinations,) True where its limit removes messages, or may have done so between two polls."""
        return self.polled.removes & self.books.filled.any(axis=0)

    @cached_property
    def has_open_sends(self) -> Mask:
        """(destinations,) True where senders may have rolled back."""
        return self.books.transacted(self.polled)

    @cached_property
    def is_purged(self) -> Mask:
        """(destinations,) True where all that was ready left alone at once, as by an operator's purge.

        Neither a sender that rolled back nor a consumer that no poll saw can have done it.
        """
        alone = self.alone
        ready_before = self.books.ready
        # Consumers may have taken the other half meanwhile.
        most_left = alone >= np.fmax(MARGIN, 0.5 * ready_before)
        was_filled = ready_before > 0
        is_emptied = self.polled.ready <= self.books.d_came
        # Where consumers come and go, one that no poll saw may have taken all.
        stays = self.now - self.books.moved_at > SHORT_LIVED
        has_no_unseen_consumer = (self.polled.consumers > 0) | stays
        left_at_once = most_left & was_filled & is_emptied
        return left_at_once & ~self.has_open_sends & has_no_unseen_consumer

    @cached_property
    def has_no_other_cause(self) -> Mask:
        """(destinations,) True where messages that left alone were neither rolled back nor purged.

        What leaves the dead message queue unread has a bound of its own.
        """
        return ~(self.has_open_sends | self.is_purged | self.polled.is_dead)

    @cached_property
    def no_unseen_client(self) -> Mask:
        """(destinations,) True where no client that no poll saw has settled messages lately."""
        return self.now - self.books.unseen_at > SHORT_LIVED

    # --- what left and no client acknowledged

    @cached_property
    def alone(self) -> Column:
        """(destinations,) Messages that left alone; 0 where a limit removes, as these are `removed`."""
        return np.where(self.is_limited, 0.0, self.books.left_alone)

    @cached_property
    def left_lately(self) -> Column:
        """(destinations,) Messages that left at this poll and at the two before."""
        return self.books.d_gone + self.books.lately[:2].sum(axis=0)

    @cached_property
    def left_without_letter(self) -> Column:
        """(destinations,) Messages that left alone and cannot be dead letters, at least."""
        most_letters = self.dead_lettered.most + self.books.dead_early[1]
        return np.fmax(self.alone - most_letters, 0.0)

    @cached_property
    def settled_unseen(self) -> Column:
        """(destinations,) Messages that clients settled and no poll saw: else a rollback or a purge explains them."""
        return np.where(
            self.has_open_sends | self.is_purged, 0.0, self.left_without_letter
        )

    @cached_property
    def removed(self) -> Range:
        """Messages that a limit removed; a client may buffer some of these, and process them all the same.

        At least: what left alone while the destination was full. At most: all that left, but if what is removed is
        dead-lettered, no more than dead letters arrived.
        """
        left = self.books.d_gone
        is_certain = self.is_limited & ~self.polled.is_dead & ~self.has_open_sends
        least = np.where(is_certain, self.books.left_alone, 0.0)
        of_letters = np.fmin(left, self.most_letters)
        most = np.where(self.sends_letters, of_letters, left)
        return Range(
            least,
            np.where(self.may_be_limited, np.fmax(most, least), 0.0),
        )

    @cached_property
    def rolled_back(self) -> Range:
        """Messages that senders rolled back, while some had open sends: they had been counted as they came."""
        is_certain = self.has_open_sends & self.no_unseen_client
        return Range(
            np.where(is_certain, self.left_without_letter, 0.0),
            np.where(self.has_open_sends, self.alone, 0.0),
        )

    @cached_property
    def purged(self) -> Range:
        """Messages that an operator purged, also those that clients buffered: these leave their buffers then."""
        has_consumer = self.polled.consumers > 0
        is_certain = self.is_purged & self.no_unseen_client & has_consumer
        return Range(
            np.where(is_certain, self.left_without_letter, 0.0),
            np.where(self.is_purged, self.books.d_gone, 0.0),
        )

    @cached_property
    def undecided(self) -> Column:
        """(destinations,) All that left while the settings are not known: it may have expired without a trace."""
        is_unset = self.polled.unset & ~self.polled.is_dead
        return np.where(is_unset, self.books.undecided + self.books.d_gone, 0.0)

    @cached_property
    def untraced(self) -> Column:
        """(destinations,) All that left where expired messages go nowhere: any may have expired without a trace."""
        is_silent = self.polled.silent & ~self.polled.is_dead
        return np.where(is_silent, self.books.undecided + self.books.d_gone, 0.0)

    @cached_property
    def unacknowledged(self) -> Range:
        """Messages that left alone, for none of the other reasons: no consumer acknowledged them.

        At most also what left while consumers joined and left, one of which may have acknowledged it.
        """
        is_certain = self.has_no_other_cause & self.books.surely_alone(self.now)
        most = np.where(self.has_no_other_cause, self.alone, 0.0) - self.proven_letters
        unseen = np.where(self.polled.is_dead, 0.0, self.books.left_unseen)
        return Range(np.where(is_certain, self.left_without_letter, 0.0), most + unseen)

    # --- dead letters

    @cached_property
    def sources(self) -> Range:
        """Letters that each destination may have sent to the dead message queue, by its own numbers."""
        return self.books.sources(self.polled)

    def letters_of(self, arrived: float) -> Column:
        """(destinations,) Its own letters among those that arrived, at least: if others sent as many as they can.

        arrived: letters of all destinations. The result is within what the destination's own numbers allow.
        """
        most_by_others = self.dead.high - self.sources.most
        least = self.sources.least
        most = np.fmax(least, self.sources.most)
        return np.clip(arrived - most_by_others, least, most)

    @cached_property
    def least_letters(self) -> Column:
        """(destinations,) Letters of the poll before that are surely its own: since then all destinations were read."""
        return self.letters_of(self.dead.unclaimed)

    @cached_property
    def own_letters_at_most(self) -> Column:
        """(destinations,) Letters of this poll that may be its own: all but those that others surely sent."""
        least_by_others = self.dead.low - self.sources.least
        return self.dead.arrived - least_by_others

    @cached_property
    def most_letters(self) -> Column:
        """(destinations,) Letters of this poll and the one before that may be its own, within its own numbers."""
        least_by_others = self.dead.low - self.sources.least
        arrived = self.dead.arrived + self.dead.unclaimed
        least = self.least_letters
        return np.clip(
            arrived - least_by_others, least, np.fmax(least, self.sources.most)
        )

    def letters_that_left(self, letters: Column) -> Column:
        """(destinations,) Those of its dead letters that had been in it, and did not expire on arrival.

        It is 0 where its limit may have removed them: those are `removed`. letters: (destinations,) its dead letters.
        """
        left = np.clip(letters - self.books.d_apart, 0.0, self.left_lately)
        return np.where(self.may_be_limited, 0.0, left)

    @cached_property
    def letters_now(self) -> Column:
        """(destinations,) Letters of this poll that had been in it, at least; 0 if it is not known how many arrived."""
        arrived = self.dead.arrived if np.isfinite(self.dead.arrived) else 0.0
        return self.letters_that_left(self.letters_of(arrived))

    @cached_property
    def has_sent_letters(self) -> Mask:
        """(destinations,) True where it has sent dead letters, at this poll or before; at this one it may only seem so.

        Letters arrived, and messages left alone that neither a sender nor an operator took.
        """
        surely_sent = self.letters_that_left(self.least_letters) > 0
        left_alone = (self.alone > 0) & ~self.has_open_sends & ~self.is_purged
        may_have_sent = self.polled.dead_letters & left_alone & (self.dead.arrived > 0)
        return self.books.sends_dead | surely_sent | may_have_sent

    @cached_property
    def dead_lettered(self) -> Range:
        """Messages that left and became dead letters.

        More than those of this poll are possible only where letters were sent before and no limit removes.
        """
        least = self.letters_that_left(self.least_letters)
        may_be_more = self.has_sent_letters & ~self.is_limited
        possible = np.fmin(self.books.d_gone, self.most_letters)
        more = np.fmax(possible, self.letters_now)
        return Range(least, np.where(may_be_more, more, self.letters_now))

    @cached_property
    def proven_letters(self) -> Column:
        """(destinations,) Letters for which a message left alone, at this poll or the one before.

        A letter may show a poll later than its message.
        """
        letters = self.dead_lettered.least + self.books.dead_early[0]
        return np.fmin(letters, self.alone + self.books.alone_before)

    @cached_property
    def letters_of_next_poll(self) -> Matrix:
        """(2, destinations) Letters, at least and at most, that have no message that left alone yet.

        Its message may be one that only the next poll shows for sure: so no more than `seen_alone`.
        """
        early_least, early_most = self.books.dead_early
        least = self.dead_lettered.least + early_least - self.proven_letters
        most = self.dead_lettered.most + early_most - self.alone
        return np.clip(np.stack([least, most]), 0.0, self.books.seen_alone)

    @cached_property
    def out_of_buffers(self) -> Matching:
        """The messages that left, matched with the letters that may have come out of the buffers of clients.

        Clients release a message that expires in their buffer as one that they acknowledged.
        """
        left = self.books.d_gone
        nothing = np.zeros_like(left)
        before = Matching(
            self.books.letters_waiting,
            self.books.left_waiting,
            matched=nothing,
            overdue=nothing,
        )
        letters = np.where(self.sends_letters, self.dead.unexplained, 0.0)
        messages = np.where(self.sends_letters, left, 0.0)
        return before.after(letters, messages)

    @cached_property
    def possible_letters(self) -> Column:
        """(destinations,) Messages that became dead letters, at most, with those out of the buffers of clients."""
        most = self.dead_lettered.most
        with_buffered = np.fmax(most, self.out_of_buffers.matched)
        return np.where(self.may_be_limited, most, with_buffered)

    @cached_property
    def letters_to_come(self) -> Column:
        """(destinations,) Messages that left, and may arrive as letters out of buffers at the next poll, at most."""
        left_late = np.ceil(self.books.d_gone * self.dead.share_late)
        waiting = np.fmin(self.out_of_buffers.messages, left_late)
        return np.where(self.may_be_limited, 0.0, waiting)

    # --- what never was in a destination

    @cached_property
    def may_be_too_large(self) -> Mask:
        """(destinations,) True where a message of the last two polls may have been larger than is allowed."""
        bytes_before = self.books.bytes_in[0]
        return self.books.most_too_large(self.polled, bytes_before) > 0

    @cached_property
    def limit_refuses(self) -> Mask:
        """(destinations,) True where its limit refuses messages."""
        return self.polled.rejects & self.books.full.any(axis=0)

    @cached_property
    def limit_may_refuse(self) -> Mask:
        """(destinations,) True where its limit may have refused messages between two polls."""
        may_be_full = self.books.filled.any(axis=0)
        return self.polled.rejects & may_be_full & ~self.limit_refuses

    @cached_property
    def is_rejected(self) -> Mask:
        """(destinations,) True where only its limit can have refused messages: it does, or nothing else may have."""
        no_other_reason = ~self.may_be_too_large & ~self.limit_may_refuse
        return self.limit_refuses | no_other_reason

    @cached_property
    def expired(self) -> Range:
        """Messages that had expired when they came.

        At most: the letters that may be its own; or all that is apart, where expired ones leave no trace or the depth
        is not read at each poll. At least: letters of its own that are more than left lately; or all, where nothing
        can have refused a message.
        """
        books = self.books
        apart = books.d_apart
        is_hidden = books.hides_expired(self.polled) & ~self.limit_refuses
        letters = np.clip(self.own_letters_at_most + books.other_dead, 0.0, apart)
        most = np.where(is_hidden, apart, letters)
        # Full all the time: a limit that refuses is reached before anything else.
        always_refuses = self.limit_refuses & books.full.all(axis=0)
        most = np.where(always_refuses, 0.0, most)
        letters_apart = self.least_letters - self.left_lately
        least = np.clip(letters_apart, 0.0, most)
        takes_any = books.takes_any(self.polled, books.bytes_in[0])
        return Range(np.where(takes_any, most, least), most)

    @cached_property
    def refused(self) -> Range:
        """Messages that were refused: those apart that had not expired when they came."""
        apart = self.books.d_apart
        return Range(apart - self.expired.most, apart - self.expired.least)

    @cached_property
    def rejected(self) -> Range:
        """Messages that were refused by a limit."""
        may_be_rejected = self.is_rejected | self.limit_may_refuse
        return Range(
            np.where(self.is_rejected, self.refused.least, 0.0),
            np.where(may_be_rejected, self.refused.most, 0.0),
        )

    @cached_property
    def too_large(self) -> Range:
        """Messages that were refused for their size."""
        may_be_rejected = self.is_rejected | self.limit_may_refuse
        is_rejected = self.is_rejected | ~self.may_be_too_large
        return Range(
            np.where(may_be_rejected, 0.0, self.refused.least),
            np.where(is_rejected, 0.0, self.refused.most),
        )

    @cached_property
    def refused_now(self) -> Column:
        """(destinations,) Messages that were refused at this poll, by the limit or for their size.

        At least so many; at most where the limit refuses, as there nothing else is likely.
        """
        least = self.rejected.least + self.too_large.least
        return np.where(self.limit_refuses, self.rejected.most, least)
