"""What OpenMQ shows otherwise than Artemis, brought to the facts that the rules work on; carried from poll to poll.

Letters as in `facts`. An OpenMQ queue counts what left it (K: acknowledged, discarded, expired, purged alike), a
consumer what was sent to it (N, redeliveries count again) and what of that is unacknowledged (T); C = N - T. A
subscription counts nothing at all: its consumers' acknowledgements are its progress.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.state import By, RowState, column
from penstock.core.table import Column, Index, Keys, Mask, Matrix
from penstock.core.windows import since
from penstock.model import (
    AcknowledgeMode,
    AddressRow,
    QueueKind,
    Snapshot,
    TransactionState,
)
from penstock.observation.facts import AddressJoin, ConsumerFacts, Facts, since_said
from penstock.observation.flow_window import WindowEstimate
from penstock.observation.prepared import Prepared
from penstock.observation.unacked import Progress

DEAD_MESSAGES = "mq.sys.dmq"
MARGIN = 3.0
"""Messages that reads which are not atomic may be apart."""
REMOVES = ("remove_oldest", "remove_low_priority")
OF_ADDRESS = (
    "producers",
    "limit_messages",
    "limit_bytes",
    "message_limit_bytes",
    "max_producers",
)
OF_QUEUE = ("removed", "last_acknowledgement", "bytes", "next_sent")
"""Columns of addresses, and of queues, that `OpenmqFacts` has by queue."""
OPEN = (
    TransactionState.STARTED,
    TransactionState.FAILED,
    TransactionState.INCOMPLETE,
    TransactionState.PREPARED,
)
"""States of transactions that wait for their client. A prepared one waits for its manager: the same to the queue."""


@dataclass(frozen=True, slots=True)
class OpenmqFacts:
    """What one poll has beside the facts.

    Per queue: removed (K, of subscriptions what their consumers no longer buffer), last_acknowledgement (of
    subscriptions), held (in open transactions of producers), transaction_since (begin of the oldest that may have sent
    here), what a full destination does, its limits and those of one message, entered_bytes (of all that came), bytes
    that count against its limits, dead_letters (whether what it discards goes to the dead message queue),
    discards_silently (it is known that this goes nowhere), uncounted (a consumer acknowledged, and its numbers do not
    show it). Per consumer: uncommitted (acknowledged in open transactions of its connection), flow_paused (by its own
    limit), unsent (taken for it), failed (a transaction of its connection), connection (key, -1: unknown). dead: what
    the dead message queue took in all, NaN: not read.
    """

    removed: Column
    last_acknowledgement: Column
    held: Column
    transaction_since: Column
    producers: Column
    flow_control: Mask
    removes: Mask
    rejects: Mask
    dead_letters: Mask
    discards_silently: Mask
    uncounted: Mask
    limit_messages: Column
    limit_bytes: Column
    message_limit_bytes: Column
    entered_bytes: Column
    bytes: Column
    max_producers: Column
    uncommitted: Column
    flow_paused: Mask
    unsent: Column
    failed: Mask
    connection: Keys
    next_sent: Column
    dead: float
    balanced: Mask
    """Queues: what came and went is counted. Not subscriptions."""


def said(snapshot: Snapshot, found: Facts, join: AddressJoin) -> OpenmqFacts:
    queues = snapshot.queues
    consumers = snapshot.consumers
    addresses = snapshot.addresses
    assert queues is not None and consumers is not None  # noqa: S101, PT018 - there are facts
    dead = np.flatnonzero(
        queues.index.column("dead messages", lambda row: row.name == DEAD_MESSAGES) > 0
    )
    acknowledged, failed = transactions_of(snapshot)
    transacted = (consumers["acknowledge_mode"] == AcknowledgeMode.TRANSACTED) & (
        found.consumer.held > 0
    )

    def does(*policies: str) -> Mask:
        of_address = (
            np.empty(0, np.bool_)
            if addresses is None
            else says(addresses.index, *policies)
        )
        return np.append(of_address, np.False_)[join.at]

    return OpenmqFacts(
        **{name: queues[name] for name in OF_QUEUE},
        held=np.nan_to_num(queues["uncommitted"]),
        transaction_since=producing_since(snapshot),
        flow_control=does("flow_control"),
        removes=does(*REMOVES),
        rejects=does("reject_newest"),
        dead_letters=join.by_queue(addresses, "dead_letters") > 0,
        discards_silently=join.by_queue(addresses, "dead_letters") == 0,
        uncounted=np.zeros(len(queues), np.bool_),
        **{name: join.by_queue(addresses, name) for name in OF_ADDRESS},
        entered_bytes=join.by_queue(addresses, "added_bytes"),
        uncommitted=np.where(transacted, acknowledged, 0.0),
        flow_paused=consumers["flow_paused"] > 0,
        unsent=np.nan_to_num(consumers["waiting"]),
        failed=failed & transacted,
        connection=snapshot.consumer_connection,
        dead=float(found.added[dead[0]]) if len(dead) else np.nan,
        balanced=queues.index.column(
            "balanced", lambda row: row.kind is not QueueKind.SUBSCRIPTION
        )
        > 0,
    )


def transactions_of(snapshot: Snapshot) -> tuple[Column, Mask]:
    """Per consumer: acknowledgements in open transactions of its connection, and whether one of those has failed."""
    assert snapshot.consumers is not None  # noqa: S101 - there are facts
    size = len(snapshot.consumers)
    transactions = snapshot.transactions
    acknowledged = np.zeros(size)
    failed = np.zeros(size, np.bool_)
    if transactions is None or not len(transactions):
        return acknowledged, failed
    open_ = np.isin(transactions["state"], OPEN) & (
        snapshot.transaction_connection >= 0
    )
    for i in np.flatnonzero(open_).tolist():
        of = snapshot.consumer_connection == snapshot.transaction_connection[i]
        acknowledged[of] += np.nan_to_num(transactions["acknowledgements"][i])
        failed[of] |= transactions["state"][i] == TransactionState.FAILED
    return acknowledged, failed


def producing_since(snapshot: Snapshot) -> Column:
    """Per queue: since when a connection that produces here has a transaction open in which it sent; NaN: none."""
    assert snapshot.queues is not None  # noqa: S101 - there are facts
    begin = np.full(len(snapshot.queues), np.nan)
    transactions = snapshot.transactions
    producers = snapshot.producers
    if transactions is None or producers is None:
        return begin
    open_ = np.isin(transactions["state"], OPEN) & (transactions["messages"] > 0)
    since_: dict[str, float] = {}
    for i in np.flatnonzero(open_ & (snapshot.transaction_connection >= 0)).tolist():
        for at in np.flatnonzero(
            snapshot.producer_connection == snapshot.transaction_connection[i]
        ).tolist():
            name = producers.index.rows[at].address
            since_[name] = min(
                since_.get(name, np.inf), float(transactions["created"][i])
            )
    return (
        np.array(
            [since_.get(row.address, np.nan) for row in snapshot.queues.index],
            np.float64,
        )
        if since_
        else begin
    )


def says(addresses: Index[AddressRow], *policies: str) -> Mask:
    """Whether each does one of these when it is full."""
    return (
        addresses.column(
            "policy " + " ".join(policies), lambda row: row.policy in policies
        )
        > 0
    )


@dataclass(frozen=True, slots=True)
class OpenmqConsumers(RowState):
    """Per consumer. last: acknowledgement. highest: C since the last settlement; returning_since: when C rose beyond it
    without one. still_since, failed_since: since when N has not changed, and a transaction has failed. released: C, as
    two polls in a row agree that it has been reached; released_once: what the last poll alone says, NaN where it said
    no more than before; polled_at: when that was.
    """

    BY = By.CONSUMER
    STORED_AS = "openmq_"
    last: Column = column()
    highest: Column = column()
    returning_since: Column = column()
    still_since: Column = column()
    failed_since: Column = column()
    released: Column = column(saved=False)
    released_once: Column = column(saved=False)
    polled_at: Column = column(saved=False)

    def with_released(
        self, consumer: ConsumerFacts, at_once: Mask, polled_at: float
    ) -> "OpenmqConsumers":
        """`self` is by the consumers of this poll. at_once: those whose C is believed at the first poll.

        C is the difference of two numbers that are not read at one moment. A message in between makes it rise, or fall,
        for one poll.
        """
        now = consumer.delivered - consumer.held
        agreed = np.minimum(now, self.released_once)
        known = np.fmax(self.released, np.where(at_once, now, agreed))
        released = np.where(np.isnan(known), now, known)
        return replace(
            self,
            released=released,
            released_once=np.where(now > released, now, np.nan),
            polled_at=np.full(len(now), polled_at),
        )

    def advance(
        self, found: Facts, reported: OpenmqFacts, progress: Progress, last: Column
    ) -> "OpenmqConsumers":
        """`self` is by the consumers of this poll."""
        consumer = found.consumer
        now = found.now
        left = consumer.delivered - consumer.held
        rises = (left - self.highest >= MARGIN) & ~progress.settles
        return replace(
            self,
            last=last,
            highest=np.where(progress.settles, left, np.fmax(self.highest, left)),
            returning_since=since(rises, self.returning_since, now),
            still_since=since(~(consumer.d_delivered > 0), self.still_since, now),
            failed_since=since(reported.failed, self.failed_since, now),
        )


@dataclass(frozen=True, slots=True)
class OpenmqQueues(RowState):
    """Per queue, the last known: removed, last acknowledgement. debt: removed by a limit and still buffered by
    clients. held_since: since when messages are in open transactions.
    """

    BY = By.QUEUE
    STORED_AS = "openmq_"
    removed: Column = column(outlives=True)
    acknowledged: Column = column(outlives=True)
    debt: Column = column(0.0)
    held_since: Column = column(outlives=True)
    removing_at: Column = column(-np.inf, outlives=True, saved=False)
    """When a full queue was last seen to remove messages."""
    unheld: Matrix = column(lines=4, saved=False)
    """In delivery to no consumer that is listed, at the last polls; negative: consumers hold what a limit removed."""

    @property
    def with_nobody(self) -> Column:
        """At least so many; NaN before the fourth poll."""
        return np.fmax(np.min(self.unheld, axis=0), 0.0)

    @property
    def stale(self) -> Column:
        """Removed by a limit while consumers hold them; NaN before the fourth poll."""
        return np.fmax(-np.max(self.unheld, axis=0), 0.0)

    def advance(
        self, found: Facts, reported: OpenmqFacts, debt: Column, *, dead: bool
    ) -> "OpenmqQueues":
        """`self` is by the queues of this poll. dead: the dead message queue took something in."""
        known = found.known & reported.balanced
        removes = known & (found.d_settled - found.d_left > MARGIN) | dead
        removing = reported.removes & at_limit(found, reported) & removes
        alone = np.where(reported.balanced, found.delivering - found.held, np.nan)
        unheld = np.where(reported.removes, alone, np.fmax(alone, 0.0))
        return OpenmqQueues(
            index=found.queues,
            removed=since_said(reported.removed, self.removed),
            acknowledged=since_said(reported.last_acknowledgement, self.acknowledged),
            debt=debt,
            held_since=since(reported.held > 0, self.held_since, found.now),
            unheld=np.vstack([self.unheld[1:], unheld]),
            removing_at=np.where(removing, found.now, self.removing_at),
        )


@dataclass(frozen=True, slots=True)
class Openmq:
    """By consumer and by queue: what is carried."""

    consumers: OpenmqConsumers = field(default_factory=OpenmqConsumers)
    windows: WindowEstimate = field(default_factory=WindowEstimate)
    queues: OpenmqQueues = field(default_factory=OpenmqQueues)
    prepared: Prepared = field(default_factory=Prepared)
    said: OpenmqFacts | None = None
    blockers: tuple[tuple[int, str], ...] = ()
    """Connections by key whose limit one consumer uses up while others starve, and its client."""

    def advance(
        self, found: Facts, snapshot: Snapshot, join: AddressJoin
    ) -> tuple["Openmq", Facts, Progress]:
        """The state after this poll, the facts as the rules expect them, and which consumers made progress."""
        reported = said(snapshot, found, join)
        consumer = found.consumer
        before = Openmq() if found.restarted else self
        present = found.queues.positions_in(before.queues.index) >= 0
        consumers = before.consumers.reindexed(consumer.index)
        queues = before.queues.reindexed(found.queues)
        moves, last = acknowledged(
            consumers.last, consumer, watched=len(before.queues.index) > 0
        )
        found = as_counted(queues, found, reported, moves, present)
        uncounted = found.of_queue(moves & ~(found.consumer.d_left > 0)) > 0
        reported = replace(reported, uncounted=uncounted)
        alike = moved_alike(found, reported)
        # What another number proves, and what is no progress, as a rollback, needs no second poll.
        agreed = consumers.with_released(found.consumer, moves | ~alike, found.now)
        released_at = np.where(
            alike & (agreed.released > consumers.released), consumers.polled_at, np.nan
        )
        progress = progress_of(found, moves, released_at, last)
        consumers = agreed
        queues = queues.reindexed(found.queues, found.known)
        debt, returned = owed(queues.debt, found, reported)
        dead = before.said is not None and reported.dead > before.said.dead
        state = Openmq(
            consumers=consumers.advance(found, reported, progress, last),
            windows=before.windows.advance(
                consumer.index, consumer.delivered, consumer.held, reported.flow_paused
            ),
            queues=queues.advance(found, reported, debt, dead=dead),
            prepared=self.prepared.advance(found, snapshot),
            said=reported,
        )
        return state, replace(found, returned=returned), progress


def as_counted(
    before: OpenmqQueues,
    found: Facts,
    reported: OpenmqFacts,
    moves: Mask,
    present: Mask,
) -> Facts:
    """The facts with K as OpenMQ counts it: with expired and killed; subscriptions are known without it. before: by the
    queues of this poll, which were `present` at the one before. moves: consumers that acknowledged.
    """
    known = np.where(reported.balanced, found.known, present)
    known &= ~(reported.balanced & (reported.removed < before.removed))
    none = np.zeros(len(known))
    consumer = found.consumer
    uncommitted = reported.uncommitted
    left = np.maximum(consumer.d_left, 0.0)
    by_members = found.of_queue(np.where(moves, left, 0.0))
    removed = np.nan_to_num(reported.removed - before.removed)
    d_removed = np.where(reported.balanced, removed, by_members)
    # Members that came and went between two polls are known by what they left behind.
    last = before.acknowledged
    unseen = ~reported.balanced & (by_members == 0) & present
    unseen &= (reported.last_acknowledgement > last) | (
        ~np.isnan(reported.last_acknowledgement) & np.isnan(last)
    )
    d_removed = np.where(unseen, np.maximum(removed, 0.0), d_removed)
    return replace(
        found,
        known=known,
        added=np.nan_to_num(found.added),
        d_added=np.where(known & reported.balanced, np.nan_to_num(found.d_added), 0.0),
        settled=np.nan_to_num(reported.removed),
        d_settled=np.where(known, d_removed, 0.0),
        expired=none,
        killed=none,
        d_expired=none,
        d_killed=none,
        # Acknowledgements in a transaction are still in T: nothing is to be taken off.
        d_uncommitted=none,
        uncommitted=found.of_queue(uncommitted),
        consumer=replace(
            consumer,
            uncommitted=uncommitted,
            d_left=left,
            holds=consumer.held + uncommitted > 0,
        ),
    )


def acknowledged(
    last: Column, consumer: ConsumerFacts, *, watched: bool
) -> tuple[Mask, Column]:
    """Whether each one's last acknowledgement has moved, and when it was; one not seen before has begun at none. last:
    up to the poll before; watched: there was one.
    """
    now = consumer.last_acknowledgement
    return (now > last) | (~np.isnan(now) & np.isnan(last) & watched), np.fmax(
        last, now
    )


def moved_alike(found: Facts, reported: OpenmqFacts) -> Mask:
    """Consumers of queues that messages left in the same measure as they left the queue's consumers."""
    matches = reported.balanced & (found.d_left <= 1.1 * found.d_settled + MARGIN)
    return np.append(matches, False)[found.consumer.queue]


def progress_of(
    found: Facts, moves: Mask, released_at: Column, last: Column
) -> Progress:
    """Rule of progress: the last acknowledgement moved; or it released messages, and its queue as many, as what a limit
    discards while a client holds it: its acknowledgement then moves nothing. released_at: when it did; NaN: it did not.
    """
    consumer = found.consumer
    released = ~np.isnan(released_at) & ~consumer.new
    of_release = np.where(released, released_at, found.now)
    at = np.where(
        moves & ~(consumer.uncommitted > 0), np.fmin(last, found.now), of_release
    )
    # It may be filled long after its last acknowledgement: what it holds it holds since it was seen to.
    return Progress(moves | released, at, np.full(len(consumer.index), found.now))


def owed(debt: Column, found: Facts, reported: OpenmqFacts) -> tuple[Column, Column]:
    """Debt and what came back, per queue; what a limit removes while clients buffer it leaves them later: owed, no
    more than they hold, and does not come back when it does. debt: at the poll before.
    """
    back = np.where(
        reported.balanced & found.known, found.d_left - found.d_settled, 0.0
    )
    paid = np.minimum(np.maximum(back, 0.0), debt)
    owes = np.minimum(debt - paid + np.maximum(-back, 0.0), np.nan_to_num(found.held))
    return owes, np.where(back > 0, back - paid, back)


def at_limit(found: Facts, reported: OpenmqFacts) -> Mask:
    """By count or by bytes."""
    return (found.messages >= reported.limit_messages) | (
        reported.bytes >= reported.limit_bytes
    )


def near_limit(found: Facts, reported: OpenmqFacts) -> Mask:
    """Within what its producers may still send before they have to wait: a batch for each of them, which is the
    limit shared by all producers that are allowed, 1 … 1000 messages.
    """
    allowed = np.where(reported.max_producers > 0, reported.max_producers, 100.0)
    batch = np.clip(reported.limit_messages / allowed, 1.0, 1000.0)
    return (
        reported.limit_messages - found.messages
        <= np.nan_to_num(reported.producers) * batch
    )
