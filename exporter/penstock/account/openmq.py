"""`OpenmqAccount`: the account of an OpenMQ broker, continued from poll to poll.

Its books are by *destination*, a queue or a topic; a subscription is a queue in the tables, but has no books of its
own. `openmq_books` explains the sums, `openmq_booking` the reasons, `openmq_arrivals` the dead letters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar, cast

import numpy as np

from penstock.account.account import in_part
from penstock.account.duplicates import Sent
from penstock.account.fates import Bounds
from penstock.account.openmq_arrivals import DeadLetterArrivals
from penstock.account.openmq_booking import booked
from penstock.account.openmq_books import (
    REASONS,
    RECENT,
    UNACKNOWLEDGED,
    UNTRACED,
    DeadLetterPoll,
    DestinationBooks,
    DestinationPoll,
    TopicBooks,
)
from penstock.account.reading import MIN_INTERVAL, SPREAD, read, seconds_between
from penstock.account.unlisted import UnlistedRows, joined, with_rows
from penstock.core.table import Column, Index, Mask, Positions, Table
from penstock.core.windows import Window
from penstock.model import AddressRow, QueueRow, Snapshot
from penstock.observation.activity import SAMPLES, persistent
from penstock.observation.facts import Facts, or_zero
from penstock.observation.onset import first_rise, where_asked
from penstock.observation.openmq import (
    DEAD_MESSAGES,
    MARGIN,
    REMOVES,
    OpenmqFacts,
    says,
)
from penstock.settings.constants import Constants

BooksT = TypeVar("BooksT", bound=DestinationBooks)
BOOKS = "books"
"""The one part of what is kept of an unlisted destination."""
REFUSED_NOW, LEFT_UNREAD = range(2)
"""Variables of the window."""
NEARLY_FULL = 0.9
"""Of a destination's limit, from which on it may have been full between two polls."""


class OpenmqPoll(NamedTuple):
    """The destinations of one poll."""

    queues: DestinationPoll
    topics: DestinationPoll
    topic_positions: Positions
    """Of the topics among the addresses."""


class Letters(NamedTuple):
    """Dead letters, at least and at most."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class OpenmqAccount:
    """The books of one broker's queues and topics, with their dead letters."""

    queues: DestinationBooks = field(default_factory=DestinationBooks)
    topics: TopicBooks = field(default_factory=TopicBooks)
    sent: Sent | None = None
    """What producers had sent when they were last read; None: they never were."""
    unclaimed: float = 0.0
    """Dead letters of the last poll without a known source."""
    hidden: int = 0
    """For so many more polls, dead letters may be from destinations that are no longer listed."""
    arrivals: DeadLetterArrivals = field(default_factory=DeadLetterArrivals)
    """The dead letters against what may explain them."""
    window: Window = field(default_factory=Window)
    """By queue: what was refused, and what left unread."""
    watched: bool = False
    """The broker's process was polled before, so that what is new was made since."""
    unlisted: UnlistedRows = field(default_factory=UnlistedRows)
    unlisted_topics: UnlistedRows = field(default_factory=UnlistedRows)
    """Books of destinations that the last listings lacked."""

    def advance(
        self,
        facts: Facts,
        reported: OpenmqFacts,
        snapshot: Snapshot,
        constants: Constants,
    ) -> "OpenmqAccount":
        """Return the account after one more poll. facts: as OpenMQ counts."""
        addresses = snapshot.addresses
        if addresses is None:
            return self
        is_whole = not in_part(snapshot.observation)
        watched = self.watched and is_whole and not facts.restarted
        polled = OpenmqPoll(
            polled_queues(facts, reported, snapshot),
            *polled_topics(addresses, self.topics.index),
        )
        account = self._with_returned(polled, facts.now)
        account = account.counted(polled, facts, watched=watched)
        account = account.with_sent(polled, snapshot, watched=watched)
        # By the books of the poll before, which still have the destinations that are gone.
        account = replace(account, hidden=self._hidden_after(polled, is_whole=is_whole))
        account = account.with_reasons(polled, facts, snapshot)
        is_known = facts.known & reported.balanced
        window = account.window_after(facts, is_known, constants)
        return replace(account, window=window, watched=True)

    def _with_returned(self, polled: "OpenmqPoll", now: float) -> "OpenmqAccount":
        """Return the account with the books of destinations that are listed again."""
        queues, unlisted = with_returned(
            self.queues,
            self.unlisted,
            polled.queues.index,
            now,
        )
        topics, unlisted_topics = with_returned(
            self.topics,
            self.unlisted_topics,
            polled.topics.index,
            now,
        )
        return replace(
            self,
            queues=queues,
            topics=topics,
            unlisted=unlisted,
            unlisted_topics=unlisted_topics,
        )

    def counted(
        self, polled: "OpenmqPoll", facts: Facts, *, watched: bool
    ) -> "OpenmqAccount":
        """Return the account with the counters of this poll."""
        queues = self.queues.counted(
            polled.queues,
            facts.now,
            watched=watched,
            restarted=facts.restarted,
        )
        topics = self.topics.counted(
            polled.topics,
            facts.now,
            watched=watched,
            restarted=facts.restarted,
        )
        return replace(self, queues=queues, topics=topics)

    def with_sent(
        self, polled: "OpenmqPoll", snapshot: Snapshot, *, watched: bool
    ) -> "OpenmqAccount":
        """Return the account with what producers sent to topics, if they were read."""
        addresses = snapshot.addresses
        producers = read(snapshot, snapshot.producers, "producers")
        if producers is None or addresses is None:
            topics = self.topics.without_sent(watched=watched)
            return replace(self, topics=topics)
        before = self.sent or Sent()
        sent, rose = before.advance(
            producers,
            addresses.index,
            watched=self.sent is not None,
        )
        has_gone = sent.index.positions(before.index.keys) < 0
        left = np.isin(self.topics.index.keys, before.address[has_gone])
        sent_to_topics = rose[polled.topic_positions]
        topics = self.topics.with_sent(sent_to_topics, left, watched=watched)
        return replace(self, topics=topics, sent=sent)

    def _hidden_after(self, polled: "OpenmqPoll", *, is_whole: bool) -> int:
        """Return for how many polls dead letters may be from destinations that are not listed.

        One with messages is gone, or a budget hides some: its letters may arrive as long as X rests on polls before.
        """
        queue_gone = gone_with_some(self.queues, polled.queues)
        topic_gone = gone_with_some(self.topics, polled.topics)
        if queue_gone or topic_gone or not is_whole:
            return RECENT + 1
        return max(self.hidden - 1, 0)

    def with_reasons(
        self, polled: "OpenmqPoll", facts: Facts, snapshot: Snapshot
    ) -> "OpenmqAccount":
        """Return the account with the reasons for which messages left at this poll.

        Dead letters come first, for queues and topics together: they share one dead message queue.
        """
        explanations = self.queues.explanations(polled.queues, facts.now)
        explanations += self.topics.explanations(polled.topics, facts.now)
        letters = float(self.queues.d_came[polled.queues.is_dead].sum())
        share_apart = share_between_reads(facts, snapshot)
        arrivals = self.arrivals.advance(letters, explanations, share_apart)
        dead = self._dead_letters(polled, letters, arrivals, share_apart)
        queues, of_queues = booked(self.queues, polled.queues, dead, facts.now)
        topics, of_topics = booked(self.topics, polled.topics, dead, facts.now)
        return replace(
            self,
            queues=queues,
            topics=topics,
            unclaimed=self._unclaimed_after(dead, of_queues + of_topics),
            arrivals=arrivals,
        )

    def _dead_letters(
        self,
        polled: "OpenmqPoll",
        letters: float,
        arrivals: DeadLetterArrivals,
        share_apart: float,
    ) -> DeadLetterPoll:
        """Return what is known of the dead letters that arrived at this poll, `letters` of them."""
        sources = self._sources(polled)
        unexplained = max(arrivals.unexplained, self.arrivals.unexplained)
        buffers_are_a_source = unexplained > 0
        return DeadLetterPoll(
            # Letters that arrived while the agent was away, or out of view, are of unknown sources.
            arrived=letters if self.watched else np.inf,
            unclaimed=self.unclaimed,
            low=sources.least,
            high=np.inf if self.hidden else sources.most,
            unexplained=arrivals.unexplained,
            share_late=share_apart if buffers_are_a_source else 0.0,
        )

    def _sources(self, polled: "OpenmqPoll") -> "Letters":
        """Return how many dead letters all destinations sent."""
        queues = self.queues.sources(polled.queues)
        topics = self.topics.sources(polled.topics)
        return Letters(
            float(queues.least.sum()) + float(topics.least.sum()),
            float(queues.most.sum()) + float(topics.most.sum()),
        )

    def _unclaimed_after(self, dead: DeadLetterPoll, claimed: float) -> float:
        """Return how many dead letters of this poll have no known source; the next poll may show it.

        claimed: letters of this poll and the one before that surely came from some destination.
        """
        if not self.watched:
            return 0.0
        left_over = max(dead.arrived + dead.unclaimed - claimed, 0.0)
        return min(left_over, dead.arrived)

    def window_after(
        self, facts: Facts, is_known: Mask, constants: Constants
    ) -> Window:
        """Return the last polls with what each queue refused at this one, and what left it unread."""
        unread = self.queues.unread
        left_unread = np.where(unread > MARGIN, unread, 0.0)
        values = np.stack([self.queues.refused_now, left_unread]).astype(np.float32)
        values[:, ~is_known] = np.nan
        seconds = constants.window_seconds(facts.interval)
        window = self.window.reindexed(facts.queues, is_known)
        return window.push(facts.now, values, seconds, seconds / SAMPLES)

    def begun_anew(self) -> "OpenmqAccount":
        """Return the account for another process, which counts from now on: all that was counted stays."""
        return OpenmqAccount(self.queues.begun_anew(), self.topics.begun_anew())

    def of_queues(
        self, index: Index[object], constants: Constants, interval: float
    ) -> Mapping[str, Column | Mask]:
        """Return the columns by queue that conditions and other counters need."""
        books = self.queues
        if books.index is not index:
            return {}
        refuses = self._went_on(REFUSED_NOW, constants, interval)
        leaves_unread = self._went_on(LEFT_UNREAD, constants, interval)
        return {
            "removed": books.low[REASONS.index("removed")],
            "refused": books.refused,
            "refuses": refuses,
            "refuses_since": self._began(REFUSED_NOW, refuses),
            "leaves_unread": leaves_unread,
            "leaves_unread_since": self._began(LEFT_UNREAD, leaves_unread),
        }

    def _went_on(self, variable: int, constants: Constants, interval: float) -> Mask:
        """(queues,) True where a variable of the window rose at several polls, as a condition needs it."""
        return persistent(
            self.window, variable, self.window.sum(variable), constants, interval
        )

    def _began(self, variable: int, asked: Mask) -> Column:
        """(queues,) When the variable first rose in the window; NaN for all but the queues that are `asked` for."""
        return where_asked(asked, partial(first_rise, self.window, variable))


def with_returned(
    books: BooksT, unlisted: UnlistedRows, listed: Index[object], now: float
) -> tuple[BooksT, UnlistedRows]:
    """Return the books with destinations that are listed again, and the books of those that are not listed.

    books, unlisted: of the poll before. listed: the destinations of this poll. now: by the broker's clock.
    """
    kept = unlisted.after({BOOKS: books}, books.index, listed)
    returning = unlisted.returning(listed, books.index)
    if not len(returning):
        return books, kept
    index = with_rows(
        unlisted.index, returning, books.index, np.arange(len(books.index))
    )
    again = joined(cast("BooksT", unlisted.parts[BOOKS]), books, index)
    return again.with_returned(unlisted.index.keys[returning], now), kept


def gone_with_some(before: DestinationBooks, polled: DestinationPoll) -> bool:
    """Return whether a destination is gone that had messages, or may have had some as its content is not known."""
    is_gone = polled.index.positions(before.index.keys) < 0
    had_messages = ~np.isnan(before.opening) & (before.content != 0)
    return bool((is_gone & had_messages).any())


def polled_queues(
    facts: Facts, reported: OpenmqFacts, snapshot: Snapshot
) -> DestinationPoll:
    """Return the numbers of the queues. Subscriptions are no destinations: their numbers are NaN.

    The content is the message count and what is uncommitted. It is NaN where the count is not exact and the uncommitted
    messages are not known.
    """
    queues = snapshot.queues
    assert queues is not None  # noqa: S101 - there are facts of them
    is_destination = reported.balanced
    uncommitted = queues["uncommitted"]
    is_depth_read = (queues["exact"] != 0) | ~np.isnan(uncommitted)
    content = queues["messages"] + or_zero(uncommitted)
    # Neither that expired messages are dead-lettered is known, nor that they are discarded.
    no_settings = ~(reported.dead_letters | reported.discards_silently)
    is_dead = facts.queues.column("dead messages", is_dead_message_queue)
    takes_any = facts.of_queue(~facts.consumer.selective) > 0
    return DestinationPoll(
        index=facts.queues,
        entered=np.where(is_destination, queues["added"], np.nan),
        left=np.where(is_destination, queues["removed"], np.nan),
        content=np.where(is_destination & is_depth_read, content, np.nan),
        carried=queues["exact"] == 0,
        uncommitted=or_zero(uncommitted),
        ready=or_zero(facts.ready),
        released=released_by_consumers(facts),
        stale=removed_but_buffered(facts, reported),
        moved=facts.came | lost_consumer(facts),
        consumers=facts.consumers,
        full=nearly_full(
            facts.messages,
            reported.limit_messages,
            reported.bytes,
            reported.limit_bytes,
        ),
        limit=reported.limit_messages,
        removes=reported.removes & is_destination,
        rejects=reported.rejects & is_destination,
        entered_bytes=reported.entered_bytes,
        largest=reported.message_limit_bytes,
        dead_letters=reported.dead_letters & is_destination,
        silent=reported.discards_silently & is_destination,
        unset=no_settings & is_destination,
        is_dead=is_dead > 0,
        watched_by=takes_any & ~reported.uncounted,
        skew=left_between_reads(facts, snapshot),
    )


def is_dead_message_queue(row: QueueRow) -> bool:
    return row.name == DEAD_MESSAGES


def released_by_consumers(facts: Facts) -> Column:
    """(queues,) Messages that the queue's consumers have released since the poll before: they buffer them no longer."""
    released = or_zero(facts.consumer.d_left)
    return facts.of_queue(np.fmax(released, 0.0))


def removed_but_buffered(facts: Facts, reported: OpenmqFacts) -> Column:
    """(queues,) Messages that consumers buffer although the limit has removed them: buffered less in delivery."""
    surplus = np.fmax(or_zero(facts.held - facts.delivering), 0.0)
    return np.where(reported.removes, surplus, 0.0)


def lost_consumer(facts: Facts) -> Mask:
    """(queues,) True where a consumer has left since the poll before."""
    queues = facts.consumer.gone.queue
    counts = np.bincount(queues[queues >= 0], minlength=len(facts.queues))
    return np.asarray(counts > 0)


def left_between_reads(facts: Facts, snapshot: Snapshot) -> Column:
    """(queues,) Messages, at most, that left between the read of the queue and that of its consumers.

    They are the share of the settled messages that falls into that time, at up to `SPREAD` times the mean rate.
    """
    seconds = SPREAD * seconds_between(snapshot, "queues", "consumers")
    share = seconds / max(facts.interval, MIN_INTERVAL)
    return or_zero(facts.d_settled) * share


def share_between_reads(facts: Facts, snapshot: Snapshot) -> float:
    """Return the part of a poll's messages that may have moved between the reads of two destinations; from 0 to 1."""
    collector = snapshot.collectors.get("queues")
    if collector is None:
        return 0.0
    return min(collector.seconds / max(facts.interval, MIN_INTERVAL), 1.0)


def polled_topics(
    addresses: Table[AddressRow], before: Index[AddressRow]
) -> tuple[DestinationPoll, Positions]:
    """Return the numbers of the topics, and their positions among the addresses.

    What its subscriptions release is not comparable with what left a topic: a message leaves with the last one of them.
    So nothing is conclusive there: `moved` is True for all.

    before: the topics of the last poll.
    """
    positions = np.flatnonzero(addresses["topic"] > 0)
    index = topic_index(addresses, positions, before)
    size = len(positions)

    def of(name: str) -> Column:
        """(topics,) A column of the addresses; NaN where the table has none of this name."""
        return (
            addresses[name][positions] if name in addresses else np.full(size, np.nan)
        )

    no = np.zeros(size, np.bool_)
    nothing = np.zeros(size)
    uncommitted = or_zero(of("uncommitted"))
    poll = DestinationPoll(
        index=index,
        entered=of("messages_added"),
        left=of("removed"),
        content=of("messages") + uncommitted,
        carried=of("exact") == 0,
        uncommitted=uncommitted,
        ready=nothing,
        released=np.full(size, np.nan),
        stale=nothing,
        moved=~no,
        consumers=nothing,
        full=nearly_full(
            of("messages"), of("limit_messages"), of("memory_bytes"), of("limit_bytes")
        ),
        limit=of("limit_messages"),
        removes=says(addresses.index, *REMOVES)[positions],
        rejects=says(addresses.index, "reject_newest")[positions],
        entered_bytes=of("added_bytes"),
        largest=of("message_limit_bytes"),
        dead_letters=of("dead_letters") > 0,
        silent=of("dead_letters") == 0,
        unset=np.isnan(of("dead_letters")),
        is_dead=no,
        watched_by=no,
        skew=nothing,
    )
    return poll, positions


def topic_index(
    addresses: Table[AddressRow], positions: Positions, before: Index[AddressRow]
) -> Index[AddressRow]:
    """Return the index of the topics at these positions; the very one of the last poll while they are the same."""
    keys = addresses.index.keys[positions]
    if np.array_equal(keys, before.keys):
        return before
    index, _ = before.advance(
        keys, lambda new: addresses.index.rows[positions[new]].tolist()
    )
    return index


def nearly_full(
    messages: Column, limit: Column, size: Column, limit_bytes: Column
) -> Mask:
    """(destinations,) True where messages or their bytes come near the limit; False for a limit that is NaN."""
    return (messages >= NEARLY_FULL * limit) | (size >= NEARLY_FULL * limit_bytes)


FATES = ("acknowledged", *(name for name in REASONS if name != UNTRACED), "unwanted")
LOST = (
    "removed",
    "rejected",
    "too_large",
    "expired",
    "dead_lettered",
    "unwanted",
    UNACKNOWLEDGED,
)
"""Fates of messages that no client handled, as far as is known."""


def queue_fates(account: OpenmqAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """Return the bounds of each fate by queue; for a subscription only what its consumers acknowledged is known."""
    fates = account.queues.bounds()
    is_destination = ~np.isnan(account.queues.opening)
    least, most = fates["acknowledged"]
    removed = queues["removed"]
    acknowledged = (
        np.where(is_destination, least, removed),
        np.where(is_destination, most, removed),
    )
    return {**fates, "acknowledged": acknowledged}


def topic_fates(account: OpenmqAccount) -> dict[str, Bounds]:
    """Return the bounds of each fate by topic.

    A message that left a topic was acknowledged by all its subscriptions, or only the last of these still had it.
    """
    topics = account.topics
    most_unwanted = np.where(topics.partly, np.inf, topics.unwanted)
    return {**topics.bounds(), "unwanted": (topics.unwanted, most_unwanted)}


def lost(fates: dict[str, Bounds]) -> Column:
    """(rows,) Messages, at least, that no client has handled."""
    least = [fates[name][0] for name in LOST if name in fates]
    total: Column = np.sum(least, axis=0)
    return total


def possibly_lost(fates: dict[str, Bounds]) -> Mask:
    """(rows,) True where a message may be gone that no client has handled."""
    is_possible = [fates[name][1] > 0 for name in LOST if name in fates]
    possible: Mask = np.any(is_possible, axis=0)
    return possible
