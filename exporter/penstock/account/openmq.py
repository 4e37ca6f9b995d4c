"""`OpenmqAccount`: the account of an OpenMQ broker, continued from poll to poll."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from penstock.account.account import in_part
from penstock.account.duplicates import Sent
from penstock.account.fates import Bounds
from penstock.account.openmq_arrivals import DeadLetterArrivals
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
from penstock.account.reading import SPREAD, read, seconds_between
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


@dataclass(frozen=True, slots=True)
class OpenmqAccount:
    """watched: the process of the last poll is still the same. unclaimed: its dead letters without a known source.
    arrivals: its dead letters against what may explain them.
    hidden: for so many polls yet they may be of destinations that are not listed. sent: when producers were last read;
    None: never.
    """

    queues: DestinationBooks = field(default_factory=DestinationBooks)
    topics: TopicBooks = field(default_factory=TopicBooks)
    sent: Sent | None = None
    unclaimed: float = 0.0
    hidden: int = 0
    arrivals: DeadLetterArrivals = field(default_factory=DeadLetterArrivals)
    window: Window = field(default_factory=Window)
    """By queue: what was refused, and what left unread."""
    watched: bool = False
    unlisted: UnlistedRows = field(default_factory=UnlistedRows)
    unlisted_topics: UnlistedRows = field(default_factory=UnlistedRows)
    """Books of destinations that the last listings lacked."""

    def advance(
        self,
        found: Facts,
        reported: OpenmqFacts,
        snapshot: Snapshot,
        constants: Constants,
    ) -> "OpenmqAccount":
        """found: as OpenMQ counts."""
        addresses = snapshot.addresses
        if addresses is None:
            return self
        whole = not in_part(snapshot.observation)
        watched = self.watched and whole and not found.restarted
        restarted = found.restarted
        of_queues = polled_queues(found, reported, snapshot)
        of_topics, at = polled_topics(addresses, self.topics.index)
        known_queues, unlisted = with_returned(
            self.queues, self.unlisted, of_queues.index, found.now
        )
        known_topics, unlisted_topics = with_returned(
            self.topics, self.unlisted_topics, of_topics.index, found.now
        )
        queues = known_queues.counted(
            of_queues, found.now, watched=watched, restarted=restarted
        )
        topics = known_topics.counted(
            of_topics, found.now, watched=watched, restarted=restarted
        )
        sent = self.sent
        producers = read(snapshot, snapshot.producers, "producers")
        if producers is None:
            topics = topics.without_sent(watched=watched)
        else:
            before = sent or Sent()
            sent, rose = before.advance(
                producers, addresses.index, watched=sent is not None
            )
            gone = before.address[sent.index.positions(before.index.keys) < 0]
            topics = topics.with_sent(
                rose[at], np.isin(topics.index.keys, gone), watched=watched
            )
        sources = [
            books.sources(polled)
            for books, polled in ((queues, of_queues), (topics, of_topics))
        ]
        low, high = (
            sum(float(one[bound].sum()) for one in sources) for bound in (0, 1)
        )
        came = float(queues.d_came[of_queues.is_dead].sum())
        # What came while the agent was away, or out of view, is of unknown sources.
        arrived = came if self.watched else np.inf
        destroyed = any(
            gone_with_some(*pair)
            for pair in ((self.queues, of_queues), (self.topics, of_topics))
        )
        hidden = RECENT + 1 if destroyed or not whole else max(self.hidden - 1, 0)
        share_apart = share_between_reads(found, snapshot)
        explanations = queues.explanations(of_queues, found.now) + topics.explanations(
            of_topics, found.now
        )
        arrivals = self.arrivals.advance(came, explanations, share_apart)
        buffers_are_a_source = max(arrivals.unexplained, self.arrivals.unexplained) > 0
        dead = DeadLetterPoll(
            arrived=arrived,
            unclaimed=self.unclaimed,
            low=low,
            high=np.inf if hidden else high,
            unexplained=arrivals.unexplained,
            share_late=share_apart if buffers_are_a_source else 0.0,
        )
        queues, of_these = queues.booked(of_queues, dead, found.now)
        topics, of_those = topics.booked(of_topics, dead, found.now)
        unclaimed = (
            min(max(arrived + self.unclaimed - of_these - of_those, 0.0), arrived)
            if self.watched
            else 0.0
        )
        values = np.stack(
            [queues.refused_now, np.where(queues.unread > MARGIN, queues.unread, 0.0)]
        ).astype(np.float32)
        values[:, ~(found.known & reported.balanced)] = np.nan
        seconds = constants.window_seconds(found.interval)
        window = self.window.reindexed(found.queues, found.known & reported.balanced)
        window = window.push(found.now, values, seconds, seconds / SAMPLES)
        return OpenmqAccount(
            queues,
            topics,
            sent,
            unclaimed,
            hidden,
            arrivals,
            window,
            watched=True,
            unlisted=unlisted,
            unlisted_topics=unlisted_topics,
        )

    def begun_anew(self) -> "OpenmqAccount":
        """Another process counts from now on: what was counted stays."""
        return OpenmqAccount(self.queues.begun_anew(), self.topics.begun_anew())

    def of_queues(
        self, index: Index[Any], constants: Constants, interval: float
    ) -> Mapping[str, Column | Mask]:
        """What conditions and other counters rest on, by the queues."""
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
        """Where the variable of the window rose again and again."""
        return persistent(
            self.window, variable, self.window.sum(variable), constants, interval
        )

    def _began(self, variable: int, asked: Mask) -> Column:
        """When the variable first rose in the window; NaN of all but the queues that are `asked` for."""
        return where_asked(asked, partial(first_rise, self.window, variable))


def with_returned(
    books: BooksT, unlisted: UnlistedRows, listed: Index[Any], now: float
) -> tuple[BooksT, UnlistedRows]:
    """The books, also of destinations that are listed again, and what is kept of those that are not listed."""
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
    """Whether one that is there no more had messages, or may have had some."""
    gone = polled.index.positions(before.index.keys) < 0
    return bool((gone & ~np.isnan(before.opening) & (before.content != 0)).any())


def polled_queues(
    found: Facts, reported: OpenmqFacts, snapshot: Snapshot
) -> DestinationPoll:
    """Subscriptions are no destinations: nothing of them is read."""
    queues = snapshot.queues
    addresses = snapshot.addresses
    assert queues is not None and addresses is not None  # noqa: S101, PT018 - there are facts
    own = reported.balanced
    consumer = found.consumer
    count = len(found.queues)
    went = (
        np.bincount(consumer.gone.queue[consumer.gone.queue >= 0], minlength=count) > 0
    )
    uncommitted = queues["uncommitted"]
    known = (queues["exact"] != 0) | ~np.isnan(
        uncommitted
    )  # else its depth was never read
    kind = found.queues.column("dead messages", lambda row: row.name == DEAD_MESSAGES)
    return DestinationPoll(
        index=found.queues,
        entered=np.where(own, queues["added"], np.nan),
        left=np.where(own, queues["removed"], np.nan),
        content=np.where(
            own & known, queues["messages"] + or_zero(uncommitted), np.nan
        ),
        carried=queues["exact"] == 0,
        uncommitted=or_zero(uncommitted),
        ready=or_zero(found.ready),
        released=found.of_queue(np.fmax(or_zero(consumer.d_left), 0.0)),
        stale=np.where(
            reported.removes, np.fmax(or_zero(found.held - found.delivering), 0.0), 0.0
        ),
        moved=found.came | went,
        consumers=found.consumers,
        full=nearly_full(
            found.messages,
            reported.limit_messages,
            reported.bytes,
            reported.limit_bytes,
        ),
        limit=reported.limit_messages,
        removes=reported.removes & own,
        rejects=reported.rejects & own,
        entered_bytes=reported.entered_bytes,
        largest=reported.message_limit_bytes,
        dead_letters=reported.dead_letters & own,
        silent=reported.discards_silently & own,
        unset=~(reported.dead_letters | reported.discards_silently) & own,
        is_dead=kind > 0,
        watched_by=(found.of_queue(~consumer.selective) > 0) & ~reported.uncounted,
        skew=left_between_reads(found, snapshot),
    )


def left_between_reads(found: Facts, snapshot: Snapshot) -> Column:
    """At most so many messages that left a destination between its read and that of its consumers, by its pace."""
    share = (
        SPREAD
        * seconds_between(snapshot, "queues", "consumers")
        / max(found.interval, 0.1)
    )
    return or_zero(found.d_settled) * share


def share_between_reads(found: Facts, snapshot: Snapshot) -> float:
    """Of what moved since the poll before, the part that may have moved between the reads of two destinations."""
    collector = snapshot.collectors.get("queues")
    if collector is None:
        return 0.0
    return min(collector.seconds / max(found.interval, 0.1), 1.0)


def polled_topics(
    addresses: Table[AddressRow], before: Index[AddressRow]
) -> tuple[DestinationPoll, Positions]:
    """And where they are among the addresses; before: those of the last poll. What its subscriptions let go of is not
    comparable with what left a topic.
    """
    at = np.flatnonzero(addresses["topic"] > 0)
    keys = addresses.index.keys[at]
    size = len(at)
    same = np.array_equal(keys, before.keys)
    index = (
        before
        if same
        else before.advance(keys, lambda new: addresses.index.rows[at[new]].tolist())[0]
    )

    def of(name: str) -> Column:
        return addresses[name][at] if name in addresses else np.full(size, np.nan)

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
        removes=says(addresses.index, *REMOVES)[at],
        rejects=says(addresses.index, "reject_newest")[at],
        entered_bytes=of("added_bytes"),
        largest=of("message_limit_bytes"),
        dead_letters=of("dead_letters") > 0,
        silent=of("dead_letters") == 0,
        unset=np.isnan(of("dead_letters")),
        is_dead=no,
        watched_by=no,
        skew=nothing,
    )
    return poll, at


def nearly_full(
    messages: Column, limit: Column, size: Column, limit_bytes: Column
) -> Mask:
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
"""Without a client that handled them; as far as is known."""


def queue_fates(account: OpenmqAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """By the queues; of a subscription only what its consumers acknowledged is known."""
    fates = account.queues.bounds()
    known = ~np.isnan(account.queues.opening)
    low, high = (
        np.where(known, bound, queues["removed"]) for bound in fates["acknowledged"]
    )
    return {**fates, "acknowledged": (low, high)}


def topic_fates(account: OpenmqAccount) -> dict[str, Bounds]:
    """By the topics. What left a topic was acknowledged by all, or only its last subscription still had it."""
    topics = account.topics
    unwanted = topics.unwanted, np.where(topics.partly, np.inf, topics.unwanted)
    return {**topics.bounds(), "unwanted": unwanted}


def lost(fates: dict[str, Bounds]) -> Column:
    """By row: how many at least no client has handled."""
    total: Column = np.sum([fates[name][0] for name in LOST if name in fates], axis=0)
    return total


def possibly_lost(fates: dict[str, Bounds]) -> Mask:
    """By row: whether any message may be gone that no client has handled."""
    possible: Mask = np.any(
        [fates[name][1] > 0 for name in LOST if name in fates], axis=0
    )
    return possible
