"""The books of each queue: what was there at first and what came is there now, or left for a reason.

*Books* are sums of messages since the queue was first polled. They go on over restarts of the broker, whose counters
begin at 0 again, and of the agent. The letters are the counters of the broker's row for the queue: A added,
K acknowledged, E expired, X killed (dead-lettered or purged), M message count, D in delivery. The content is M (see
`contents`). All numbers come from one row of one listing, so the sum is exact:

    opening + adjusted + A = K + E + X + content + lost - on_arrival

`lost` is what a ring evicted or a newer last value replaced, which no counter shows; `on_arrival` is the part of E that
was never in A, as these messages had expired when they came. What the sum *lacks* is therefore `lost - on_arrival`. One
row may be read while it changes: only an amount that two polls in a row show is sure.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.last_polls import shifted
from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column, Mask, Matrix, put
from penstock.model import QueueKind, QueueRow
from penstock.observation.facts import Facts, or_zero

BASE = ("account_a0", "account_k0", "account_e0", "account_x0")


@dataclass(frozen=True, slots=True)
class QueueBooks(RowState):
    """The sums of each queue since `since`, over restarts of the broker; all columns are by queue."""

    BY = By.QUEUE
    STORED_AS = "account_"
    since: Column = counter(outlives=True)
    """When the sums began, by the broker's clock."""
    base: Matrix = counter(lines=4, stored_as=BASE)
    """(4, queues) A, K, E, X when the process was first polled, less the sums until then.

    So each sum is the broker's counter less this number, also after a restart.
    """
    opening: Column = counter(outlives=True)
    """The content at `since`."""
    adjusted: Column = counter(outlives=True)
    """Messages that restarts and counters set back added to the content, or took."""
    partly: Column = counter(0.0, outlives=True, stored_as="account_begun_anew")
    """1 where counters began again: what came and left between the last poll and that moment was not polled."""
    lost_at_restart: Column = counter(0.0, outlives=True)
    """Messages, at least, that were lost with the broker's process, as messages that are not persistent are."""
    on_arrival: Column = counter(outlives=True)
    """Messages that expired before they were added, at least."""
    late: Column = column(0.0, outlives=True, saved=False)
    """`on_arrival`, at most."""
    lost: Column = counter(outlives=True)
    """Messages that were evicted or replaced, as two polls have seen it; NaN where it cannot be known."""
    lost0: Column = counter()
    """`lost`, less `evicted`: the part of `lost` that the present process of the broker has not counted."""
    evicted: Column = counter(stored_as="ledger_evicted")
    """The part of `lost` since the start of the process, with what it had lost before it was polled."""
    added: Column = column(0.0, outlives=True, saved=False)
    acknowledged: Column = column(0.0, outlives=True, saved=False)
    expired: Column = column(0.0, outlives=True, saved=False)
    killed: Column = column(0.0, outlives=True, saved=False)
    content: Column = column(outlives=True, saved=False)
    lacking: Column = column()
    """Messages that the sum of this poll lacks; negative: more left than came."""
    gaps: Matrix = column(lines=3, saved=False)
    """(polls, queues) Messages that no reason explains."""
    unheld: Matrix = column(lines=4, saved=False)
    """(polls, queues) Messages in delivery to no consumer that is listed; see `unheld`."""
    passed_on: Column = counter(0.0, outlives=True)
    """Messages that went to other brokers of the cluster."""
    consumers: Column = column(outlives=True, saved=False)
    """Consumers at the poll before."""
    came_last: Column = column(0.0, saved=False)
    """Messages that came between the poll before and the one before that."""
    passed_last: Column = column(0.0, saved=False)
    """Messages that were passed on between this poll and the one before; for a link those that left it."""

    def advance(self, facts: Facts, *, watched: bool) -> "QueueBooks":
        """Return the books after one more poll.

        watched: the same process was polled before, so that a queue that it did not have then was created since: all
        that its counters show has happened in between.
        """
        before = self.reindexed(facts.queues)
        row = Row.of(facts)
        is_first = np.isnan(before.opening) & row.is_readable
        begins = before.begins(row)
        # Where the start of the counters was seen, all that they show belongs into the books: the broker has
        # restarted, or the queue is new. Counters of a queue that was found running show an unknown past, too.
        at_start = begins & (is_first & watched | facts.restarted)
        start = started(facts, row, before.content, is_first, at_start)

        books = before.with_counters(row, start.counters, begins)
        books = books.with_opening(before, start.content, is_first, begins, facts)
        loses = ledgered(facts)
        books = books.with_lacking(before, row, loses, facts)
        books = books.with_gaps(before, loses)
        books = books.with_evictions(before, row, at_start, loses)
        books = books.with_passed_on(before, facts)
        return replace(
            books,
            since=put(before.since, is_first, facts.now),
            content=put(row.content, ~row.is_readable, before.content),
            unheld=shifted(before.unheld, row.unheld),
            consumers=facts.consumers,
            came_last=facts.d_added,
        )

    def begins(self, row: "Row") -> Mask:
        """(queues,) True where the broker's counters began again, or where it is not known when they began.

        They began again where a counter, as `base` continues the sums, is below the sum that it had reached.
        """
        # For a new queue these columns are NaN, and for a queue whose checkpoint lacks one of them.
        is_incomplete = np.isnan(self.base).any(axis=0) | np.isnan(self.adjusted)
        fell = (row.counters - self.base < self.totals).any(axis=0)
        return (is_incomplete | fell) & row.is_readable

    def with_counters(self, row: "Row", start: Matrix, begins: Mask) -> "QueueBooks":
        """Return the books with the sums of the broker's counters: the counter less `base`, and never less than before.

        start: (4, queues) the counters at their begin. What came and left after that is added to the sums.
        """
        before = self.totals
        base = put(self.base, begins, start - before)
        totals = np.fmax(before, row.counters - base)
        return replace(
            self,
            base=base,
            added=totals[0],
            acknowledged=totals[1],
            expired=totals[2],
            killed=totals[3],
        )

    def with_opening(
        self,
        before: "QueueBooks",
        content_at_start: Column,
        is_first: Mask,
        begins: Mask,
        facts: Facts,
    ) -> "QueueBooks":
        """Return the books with the content at the begin, and what restarts added to it or took.

        A restart changes the content by what the broker loaded less what the sums expect. Messages that are fewer after
        it than before are lost if no consumer was there that could have settled them as the broker went down.
        """
        change = content_at_start - before.expected_content
        adjusted = put(before.adjusted, begins, change)
        not_reloaded = np.fmax(or_zero(before.adjusted) - change, 0.0)
        restarted = begins & ~is_first & facts.restarted
        is_lost = restarted & (before.consumers == 0)
        lost_now = or_zero(np.where(is_lost, not_reloaded, 0.0))
        books = replace(
            self,
            opening=put(before.opening, is_first, content_at_start),
            on_arrival=put(or_zero(before.on_arrival), is_first, 0.0),
            lost=put(before.lost, is_first, 0.0),
        )
        return replace(
            books,
            adjusted=put(adjusted, is_first, 0.0),
            partly=put(before.partly, begins & ~is_first, 1.0),
            lost_at_restart=before.lost_at_restart + lost_now,
        )

    @property
    def expected_content(self) -> Column:
        """(queues,) The content by the sums: opening + A + on_arrival - K - E - X - lost, without `adjusted`."""
        added = self.opening + self.added + self.on_arrival
        left = self.acknowledged + self.expired + self.killed
        return added - left - or_zero(self.lost)

    def with_lacking(
        self, before: "QueueBooks", row: "Row", loses: Mask, facts: Facts
    ) -> "QueueBooks":
        """Return the books with what the sum lacks, and with what explains it: lacking = lost - on_arrival.

        Both parts only grow. Where the sum lacks more than ever, messages were lost; where it lacks less than were
        lost, messages expired on arrival. Of two polls the one that shows less counts.
        """
        left = self.acknowledged + self.expired + self.killed
        lacking = self.opening + self.adjusted + self.added - left - row.content
        # The first poll of a process has none before it: what was lost at its start shows at the second.
        most_lacking = np.maximum(before.lacking, lacking)
        expired_early = np.minimum(or_zero(self.lost) - most_lacking, self.expired)
        on_arrival = np.fmax(self.on_arrival, expired_early)
        seen_twice = np.minimum(before.lacking, lacking) + on_arrival
        lost = np.where(loses, np.fmax(self.lost, seen_twice), self.lost)
        # A ring whose messages stay when they are acknowledged evicts, too, but its sum cannot show how many.
        keeps_ring = facts.keeps & ~np.isnan(facts.ring)
        return replace(
            self,
            lacking=lacking,
            on_arrival=on_arrival,
            lost=put(lost, keeps_ring, np.nan),
        )

    def with_gaps(self, before: "QueueBooks", loses: Mask) -> "QueueBooks":
        """Return the books with what no reason explains, and with what expired on arrival, at most.

        More left than came, even if all that expired had expired on arrival: unexplained. Less left than came, and
        nothing can have been evicted: unexplained, too.
        """
        too_much_left = np.minimum(self.lacking + self.expired, 0.0)
        too_little_left = np.maximum(self.lacking + self.on_arrival, 0.0)
        gap = too_much_left + np.where(loses, 0.0, too_little_left)
        never_added = np.fmin(-self.lacking, self.expired)
        late = np.fmax(self.on_arrival, never_added)
        return replace(
            self,
            late=np.where(loses, self.expired, late),
            gaps=shifted(before.gaps, gap),
        )

    def with_evictions(
        self, before: "QueueBooks", row: "Row", at_start: Mask, loses: Mask
    ) -> "QueueBooks":
        """Return the books with what this process of the broker has evicted, also before it was polled.

        `lost0` is what earlier processes lost: so evicted = lost - lost0. For a process that was found running, what it
        had evicted by then is what its own counters lack.
        """
        own_lack = row.counters[0] - row.counters[1:].sum(axis=0) - row.content
        already = np.fmax(own_lack, np.fmax(before.evicted, 0.0))
        is_known = ~np.isnan(before.lost0)
        lost_before = or_zero(before.lost) - np.where(at_start, 0.0, already)
        lost0 = np.where(is_known, before.lost0, lost_before)
        lost0 = np.where(loses & (row.is_readable | is_known), lost0, np.nan)
        seen_twice = np.minimum(before.lacking, self.lacking) + self.on_arrival
        evicted = np.fmax(before.evicted, np.maximum(seen_twice - lost0, 0.0))
        return replace(
            self,
            lost0=lost0,
            evicted=np.where(loses, evicted, np.nan),
        )

    def with_passed_on(self, before: "QueueBooks", facts: Facts) -> "QueueBooks":
        """Return the books with what went to other brokers of the cluster.

        It is what a queue settled while it had no consumer: only links to other brokers can have taken that. All
        queues together cannot have passed on more than came to the links at this poll and at the one before; if they
        settled more, each gets its share of what came.
        """
        is_link = facts.queues.column("is_link", is_link_queue) > 0
        settled = or_zero(facts.d_settled)
        no_consumer = (facts.consumers == 0) & (before.consumers == 0)
        unattended = np.where(no_consumer & ~is_link, settled, 0.0)
        came_to_links = (facts.d_added + before.came_last)[is_link]
        share_of_links = float(came_to_links.sum()) / max(float(unattended.sum()), 1.0)
        passed = np.floor(unattended * min(1.0, share_of_links))
        return replace(
            self,
            passed_on=before.passed_on + passed,
            passed_last=np.where(is_link, settled, passed),
        )

    @property
    def totals(self) -> Matrix:
        """(4, queues) Messages that were added, acknowledged, expired, killed."""
        return np.stack([self.added, self.acknowledged, self.expired, self.killed])

    @property
    def came(self) -> Column:
        """(queues,) Messages that came, with those that expired on arrival."""
        return self.added + self.on_arrival

    @property
    def unexplained(self) -> Column:
        """(queues,) Messages that no reason explains at the last three polls; NaN before there are three.

        It is the smallest of their gaps, if all three have the same sign; positive: less left than came.
        """
        least = np.min(np.abs(self.gaps), axis=0)
        same_sign = (self.gaps > 0).all(axis=0) | (self.gaps < 0).all(axis=0)
        amount = np.where(same_sign, np.sign(self.gaps[2]) * least, 0.0)
        return np.where(np.isnan(least), np.nan, amount)


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one poll, from the row of each queue, of which the sums are made.

    counters: (4, queues) added, acknowledged, expired, killed.
    content: (queues,) messages that are there.
    unheld: (queues,) messages in delivery to no consumer that is listed; NaN where that is not known.
    is_readable: (queues,) True where no number is missing.
    """

    counters: Matrix
    content: Column
    unheld: Column
    is_readable: Mask

    @classmethod
    def of(cls, facts: Facts) -> "Row":
        counters = np.stack([facts.added, facts.settled, facts.expired, facts.killed])
        content = contents(facts)
        is_readable = np.isfinite(counters).all(axis=0) & np.isfinite(content)
        return cls(counters, content, unheld(facts), is_readable)


class Start(NamedTuple):
    """counters: (4, queues) as they were when they began. content: (queues,) the messages then."""

    counters: Matrix
    content: Column


def started(
    facts: Facts, row: Row, content_before: Column, is_first: Mask, at_start: Mask
) -> Start:
    """Return counters and content where they begin: at the start of the process, or as they are found.

    A process that starts counts the messages that it loads as added, and loaded messages in doubt as acknowledged at
    once. Neither came or left now: the counters begin after that.

    content_before: (queues,) at the poll before. is_first: True for a new queue, which had nothing to load.
    at_start: True where the start was seen; for the others all that this poll shows is the begin.
    """
    loaded = np.fmin(facts.added, or_zero(content_before))
    reloaded = put(loaded, is_first, 0.0)
    in_doubt = put(reloaded_in_doubt(facts, row), is_first, 0.0)
    none = 0 * reloaded
    counters = np.stack([reloaded, in_doubt, none, none])
    return Start(
        put(row.counters, at_start, counters),
        put(row.content, at_start, reloaded),
    )


def ledgered(facts: Facts) -> Mask:
    """(queues,) True where messages may be lost without a counter: a ring evicts, a last-value queue replaces.

    A queue that keeps what is acknowledged does not count: its sum shows no losses.
    """
    has_limit = ~np.isnan(facts.ring) | keeps_last_values(facts)
    return has_limit & ~facts.keeps


def reloaded_in_doubt(facts: Facts, row: Row) -> Column:
    """(queues,) Messages that the broker counted as acknowledged when it loaded them at its start: in doubt.

    The broker counts such a message as acknowledged though it is still there, so K + X + content exceeds A by it. In a
    queue that evicts, lost messages hide that: there all that was acknowledged is in doubt, if so many messages are in
    delivery to no consumer.
    """
    left_twice = facts.settled + facts.killed + row.content - facts.added
    all_unheld = np.where(facts.settled <= row.unheld, facts.settled, 0.0)
    in_doubt = np.where(ledgered(facts), all_unheld, left_twice)
    return np.clip(or_zero(in_doubt), 0.0, or_zero(facts.settled))


def contents(facts: Facts) -> Column:
    """(queues,) Messages in a queue: M, with two exceptions.

    It is M + D in a last-value queue, as M lacks the messages in delivery there. It is M - D in a
    non-destructive queue, where a message in delivery is still in the queue, too, and counts twice in M.
    """
    with_delivering = facts.messages + facts.delivering
    without_delivering = facts.messages - facts.delivering
    content = put(facts.messages, keeps_last_values(facts), with_delivering)
    return put(content, facts.keeps, without_delivering)


def keeps_last_values(facts: Facts) -> Mask:
    """(queues,) True where a message replaces the last one of the same key."""
    return facts.last_value > 0


def unheld(facts: Facts) -> Column:
    """(queues,) Unheld messages: in delivery, but with no listed consumer that could have them.

    D less the messages that consumers buffer or have not committed; NaN where the broker's version does not show these.
    """
    if not facts.counted:
        return np.full(len(facts.queues), np.nan)
    return facts.delivering - facts.held - facts.uncommitted


def is_link_queue(row: QueueRow) -> bool:
    return row.kind is QueueKind.LINK
