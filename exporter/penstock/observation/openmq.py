"""OpenMQ counts otherwise than Artemis: its numbers are brought to the facts that the rules work on.

Letters as in `facts`. An OpenMQ queue counts the messages that left it (K: acknowledged, discarded, expired and purged
alike). A consumer counts the messages that were sent to it (N, a redelivery counts again), and those of them that are
unacknowledged (T); C = N - T are those that it *released*: acknowledged, or given back. A subscription counts nothing
at all: its consumers' acknowledgements are its progress.

N and T of one row are not read at one moment: a message in between makes C rise, or fall, for one poll. A *debt* is
messages that a limit removed from a queue while clients still buffer them: they leave the clients later.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.state import By, RowState, column
from penstock.core.table import Column, Index, Keys, Mask, Matrix, Table
from penstock.core.windows import since
from penstock.model import (
    AcknowledgeMode,
    AddressRow,
    ConsumerRow,
    QueueKind,
    QueueRow,
    Snapshot,
    TransactionState,
)
from penstock.observation.facts import AddressJoin, ConsumerFacts, Facts, since_said
from penstock.observation.flow_window import WindowEstimate
from penstock.observation.prepared import Prepared
from penstock.observation.unacked import Progress

DEAD_MESSAGES = "mq.sys.dmq"
MARGIN = 3.0
"""Messages by which two numbers may be apart that are not read at the same moment."""
REMOVES = ("remove_oldest", "remove_low_priority")
OPEN = (
    TransactionState.STARTED,
    TransactionState.FAILED,
    TransactionState.INCOMPLETE,
    TransactionState.PREPARED,
)
"""States of transactions that wait for their client, or for their manager, which is the same to a queue."""


@dataclass(frozen=True, slots=True)
class OpenmqFacts:
    """The numbers of one poll of an OpenMQ broker beside the facts; times by the broker's clock.

    Attributes:
        removed: Per queue K; for a subscription the messages that its consumers no longer buffer.
        last_acknowledgement: Per queue, of subscriptions alone.
        held: Per queue the messages in open transactions of producers.
        transaction_since: Per queue the begin of the oldest transaction that may have sent messages to it.
        producers: Per queue the producers of its destination.
        flow_control: Per queue whether the destination lets producers wait when it is full.
        removes: Whether it removes messages then.
        rejects: Whether it rejects messages then.
        dead_letters: Whether messages that it discards go to the dead message queue.
        discards_silently: Whether it is known that they do not.
        uncounted: Whether a consumer acknowledged, and the queue's numbers do not show it.
        limit_messages: Per queue the limit of its destination.
        limit_bytes: Likewise.
        message_limit_bytes: Per queue the limit of a single message.
        entered_bytes: Per queue the bytes of all messages that came.
        bytes: Per queue the bytes that count against its limit.
        max_producers: Per queue the producers that its destination may have.
        uncommitted: Per consumer the acknowledgements in open transactions of its connection.
        flow_paused: Per consumer whether its own limit pauses it.
        unsent: Per consumer the messages that the broker has taken for it and not sent yet.
        failed: Per consumer whether a transaction of its connection has failed.
        connection: Per consumer the key of its connection, -1: not known.
        next_sent: Per queue when the next message was sent, by its sender's clock.
        dead: Messages that came to the dead message queue, in all; NaN: not read.
        balanced: Per queue whether it counts messages that come and leave; subscriptions do not.
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


def openmq_facts(snapshot: Snapshot, facts: Facts, join: AddressJoin) -> OpenmqFacts:
    """Return the numbers of a poll that only OpenMQ has. join: the address of each queue."""
    queues = snapshot.queues
    consumers = snapshot.consumers
    addresses = snapshot.addresses
    assert queues is not None and consumers is not None  # noqa: S101, PT018 - there are facts
    acknowledged, failed = transactions_of(snapshot)
    is_transacted = in_transacted_session(consumers, facts)
    sends_dead_letters = join.by_queue(addresses, "dead_letters")
    return OpenmqFacts(
        removed=queues["removed"],
        last_acknowledgement=queues["last_acknowledgement"],
        bytes=queues["bytes"],
        next_sent=queues["next_sent"],
        held=np.nan_to_num(queues["uncommitted"]),
        transaction_since=producing_since(snapshot),
        flow_control=full_queues_do(addresses, join, "flow_control"),
        removes=full_queues_do(addresses, join, *REMOVES),
        rejects=full_queues_do(addresses, join, "reject_newest"),
        dead_letters=sends_dead_letters > 0,
        discards_silently=sends_dead_letters == 0,
        uncounted=np.zeros(len(queues), np.bool_),
        producers=join.by_queue(addresses, "producers"),
        limit_messages=join.by_queue(addresses, "limit_messages"),
        limit_bytes=join.by_queue(addresses, "limit_bytes"),
        message_limit_bytes=join.by_queue(addresses, "message_limit_bytes"),
        max_producers=join.by_queue(addresses, "max_producers"),
        entered_bytes=join.by_queue(addresses, "added_bytes"),
        uncommitted=np.where(is_transacted, acknowledged, 0.0),
        flow_paused=consumers["flow_paused"] > 0,
        unsent=np.nan_to_num(consumers["waiting"]),
        failed=failed & is_transacted,
        connection=snapshot.consumer_connection,
        dead=dead_messages(queues, facts),
        balanced=counts_messages(queues),
    )


def in_transacted_session(consumers: Table[ConsumerRow], facts: Facts) -> Mask:
    """(consumers,) Whether it buffers messages and acknowledges in transactions."""
    mode = consumers["acknowledge_mode"]
    return (mode == AcknowledgeMode.TRANSACTED) & (facts.consumer.held > 0)


def full_queues_do(
    addresses: Table[AddressRow] | None, join: AddressJoin, *policies: str
) -> Mask:
    """(queues,) Whether the queue's destination has one of these policies for when it is full; False: not known."""
    if addresses is None:
        return np.zeros(len(join.at), np.bool_)
    # A destination that is not known is at -1, and takes the last value.
    with_unknown = np.append(says(addresses.index, *policies), np.False_)
    return with_unknown[join.at]


def dead_messages(queues: Table[QueueRow], facts: Facts) -> float:
    """Return how many messages came to the dead message queue, in all; NaN where it is not listed."""
    is_dead = queues.index.column(
        "dead messages", lambda row: row.name == DEAD_MESSAGES
    )
    positions = np.flatnonzero(is_dead > 0)
    return float(facts.added[positions[0]]) if len(positions) else np.nan


def counts_messages(queues: Table[QueueRow]) -> Mask:
    """(queues,) Whether the queue counts messages that come and leave; subscriptions do not."""
    counts = queues.index.column(
        "balanced", lambda row: row.kind is not QueueKind.SUBSCRIPTION
    )
    return counts > 0


def transactions_of(snapshot: Snapshot) -> tuple[Column, Mask]:
    """(consumers,) Acknowledgements in open transactions of its connection, and whether one of these has failed.

    OpenMQ names the connection of a transaction, not the consumer: all consumers of the connection get the same.
    """
    assert snapshot.consumers is not None  # noqa: S101 - there are facts
    size = len(snapshot.consumers)
    acknowledged = np.zeros(size)
    failed = np.zeros(size, np.bool_)
    transactions = snapshot.transactions
    if transactions is None or not len(transactions):
        return acknowledged, failed
    state = transactions["state"]
    acknowledgements = np.nan_to_num(transactions["acknowledgements"])
    has_connection = snapshot.transaction_connection >= 0
    is_open = np.isin(state, OPEN) & has_connection
    for row in np.flatnonzero(is_open).tolist():
        connection = snapshot.transaction_connection[row]
        consumers = snapshot.consumer_connection == connection
        acknowledged[consumers] += acknowledgements[row]
        failed[consumers] |= state[row] == TransactionState.FAILED
    return acknowledged, failed


def producing_since(snapshot: Snapshot) -> Column:
    """(queues,) The begin of the oldest open transaction that may have sent messages to the queue; NaN: there is none.

    It may have if messages were sent in it, and if its connection has a producer of the queue's destination.
    """
    assert snapshot.queues is not None  # noqa: S101 - there are facts
    begins = begin_by_address(snapshot)
    if not begins:
        return np.full(len(snapshot.queues), np.nan)
    of_queues = [begins.get(row.address, np.nan) for row in snapshot.queues.index]
    return np.array(of_queues, np.float64)


def begin_by_address(snapshot: Snapshot) -> dict[str, float]:
    """Return `producing_since` by address, without those that have no such transaction."""
    transactions = snapshot.transactions
    producers = snapshot.producers
    if transactions is None or producers is None:
        return {}
    has_sent = transactions["messages"] > 0
    has_connection = snapshot.transaction_connection >= 0
    is_open = np.isin(transactions["state"], OPEN) & has_sent & has_connection
    begins: dict[str, float] = {}
    for row in np.flatnonzero(is_open).tolist():
        begin = float(transactions["created"][row])
        connection = snapshot.transaction_connection[row]
        is_of_connection = snapshot.producer_connection == connection
        for producer in producers.index.rows[is_of_connection]:
            earliest = begins.get(producer.address, np.inf)
            begins[producer.address] = min(earliest, begin)
    return begins


def says(addresses: Index[AddressRow], *policies: str) -> Mask:
    """(addresses,) Whether the destination has one of these policies for when it is full."""
    # The index keeps the column under this name for as long as its rows are the same.
    name = "policy " + " ".join(policies)
    is_one_of_these = addresses.column(name, lambda row: row.policy in policies)
    return is_one_of_these > 0


@dataclass(frozen=True, slots=True)
class OpenmqConsumers(RowState):
    """The last numbers of each consumer; times are by the broker's clock, NaN where the sentence is not true."""

    BY = By.CONSUMER
    STORED_AS = "openmq_"
    last: Column = column()
    """When it last acknowledged."""
    highest: Column = column()
    """The highest C since it last settled messages."""
    returning_since: Column = column()
    """Since when C rises beyond that although it settles none."""
    still_since: Column = column()
    """Since when N has not changed."""
    failed_since: Column = column()
    """Since when a transaction has failed."""
    released: Column = column(saved=False)
    """The highest C on which two polls in a row agree: so many messages were released for sure."""
    released_once: Column = column(saved=False)
    """The C of the last poll alone, which the next one must confirm; NaN where it is no higher than `released`."""
    polled_at: Column = column(saved=False)
    """When the last poll was."""

    def with_released(
        self, consumer: ConsumerFacts, at_once: Mask, polled_at: float
    ) -> "OpenmqConsumers":
        """Return the state, which is by the consumers of this poll, with the C of this poll.

        A C that rises counts only when a second poll confirms it: the lower one of both polls has been reached. A
        message between the reads of N and T makes it rise for one poll.

        Args:
            consumer: The numbers of the consumers.
            at_once: (consumers,) Whether C needs no second poll.
            polled_at: When the poll was.
        """
        left = consumer.delivered - consumer.held
        confirmed = np.minimum(left, self.released_once)
        reached = np.where(at_once, left, confirmed)
        released = np.fmax(self.released, reached)
        # A consumer that is new begins with what it shows.
        released = np.where(
            np.isnan(released),
            left,
            released,
        )
        return replace(
            self,
            released=released,
            released_once=np.where(left > released, left, np.nan),
            polled_at=np.full(len(left), polled_at),
        )

    def advance(
        self, facts: Facts, reported: OpenmqFacts, progress: Progress, last: Column
    ) -> "OpenmqConsumers":
        """Return the state, which is by the consumers of this poll, after it.

        A consumer gives messages back if C rises beyond the highest C although it settles none.

        Args:
            facts: As the rules expect them.
            reported: The numbers that only OpenMQ has.
            progress: Which consumers settled messages.
            last: (consumers,) When each last acknowledged.
        """
        consumer = facts.consumer
        left = consumer.delivered - consumer.held
        is_above_highest = left - self.highest >= MARGIN
        gives_back = is_above_highest & ~progress.settles
        stands_still = ~(consumer.d_delivered > 0)
        highest = np.fmax(self.highest, left)
        return replace(
            self,
            last=last,
            highest=np.where(progress.settles, left, highest),
            returning_since=since(gives_back, self.returning_since, facts.now),
            still_since=since(stands_still, self.still_since, facts.now),
            failed_since=since(reported.failed, self.failed_since, facts.now),
        )


@dataclass(frozen=True, slots=True)
class OpenmqQueues(RowState):
    """The last known numbers of each queue; times by the broker's clock."""

    BY = By.QUEUE
    STORED_AS = "openmq_"
    removed: Column = column(outlives=True)
    """K."""
    acknowledged: Column = column(outlives=True)
    """The last acknowledgement."""
    debt: Column = column(0.0)
    """Messages that a limit removed and that consumers still buffer."""
    held_since: Column = column(outlives=True)
    """Since when messages are in open transactions."""
    removing_at: Column = column(-np.inf, outlives=True, saved=False)
    """When a full queue was last seen to remove messages."""
    unheld: Matrix = column(lines=4, saved=False)
    """(4, queues) Messages in delivery to no listed consumer, at the last four polls; negative where consumers buffer
    messages that a limit removed. What all four polls show is no accident of when numbers were read.
    """

    @property
    def with_nobody(self) -> Column:
        """(queues,) Messages in delivery to no consumer, at least; NaN before the fourth poll."""
        return np.fmax(np.min(self.unheld, axis=0), 0.0)

    @property
    def stale(self) -> Column:
        """(queues,) Messages that a limit removed while consumers buffer them; NaN before the fourth poll."""
        return np.fmax(-np.max(self.unheld, axis=0), 0.0)

    def advance(
        self, facts: Facts, reported: OpenmqFacts, debt: Column, *, dead: bool
    ) -> "OpenmqQueues":
        """Return the state, which is by the queues of this poll, after it.

        Args:
            facts: As the rules expect them.
            reported: The numbers beside them.
            debt: (queues,) As in the state.
            dead: Whether messages came to the dead message queue.
        """
        # More messages left the queue than its consumers released: a limit removed them.
        left_otherwise = facts.d_settled - facts.d_left
        is_counted = facts.known & reported.balanced
        loses_messages = is_counted & (left_otherwise > MARGIN) | dead
        is_removing = reported.removes & at_limit(facts, reported) & loses_messages
        acknowledged = since_said(reported.last_acknowledgement, self.acknowledged)
        unheld = unheld_messages(facts, reported)
        return OpenmqQueues(
            index=facts.queues,
            removed=since_said(reported.removed, self.removed),
            acknowledged=acknowledged,
            debt=debt,
            held_since=since(reported.held > 0, self.held_since, facts.now),
            unheld=np.vstack([self.unheld[1:], unheld]),
            removing_at=np.where(is_removing, facts.now, self.removing_at),
        )


def unheld_messages(facts: Facts, reported: OpenmqFacts) -> Column:
    """(queues,) Messages in delivery to no listed consumer; NaN for subscriptions, which do not count them.

    Negative where consumers buffer more messages than are in delivery. Only a limit that removes messages explains
    that; on other queues it is an accident of when numbers were read, and 0.
    """
    unheld = facts.delivering - facts.held
    unheld = np.where(reported.balanced, unheld, np.nan)
    return np.where(
        reported.removes,
        unheld,
        np.fmax(unheld, 0.0),
    )


@dataclass(frozen=True, slots=True)
class Openmq:
    """What is carried from poll to poll for an OpenMQ broker.

    Attributes:
        consumers: The last numbers of each consumer.
        windows: The limits of the consumers.
        queues: The last numbers of each queue.
        prepared: The prepared transactions.
        said: The numbers of the last poll beside the facts.
        blockers: Connections, by key, whose limit one consumer uses up while others starve; and its client.
    """

    consumers: OpenmqConsumers = field(default_factory=OpenmqConsumers)
    windows: WindowEstimate = field(default_factory=WindowEstimate)
    queues: OpenmqQueues = field(default_factory=OpenmqQueues)
    prepared: Prepared = field(default_factory=Prepared)
    said: OpenmqFacts | None = None
    blockers: tuple[tuple[int, str], ...] = ()

    def advance(
        self, facts: Facts, snapshot: Snapshot, join: AddressJoin
    ) -> tuple["Openmq", Facts, Progress]:
        """Return the state after a poll, the facts as the rules expect them, and which consumers made progress.

        A broker that started again is compared with nothing; only prepared transactions outlive it.
        """
        reported = openmq_facts(snapshot, facts, join)
        before = Openmq() if facts.restarted else self
        consumers = before.consumers.reindexed(facts.consumer.index)
        has_acknowledged, last = new_acknowledgements(
            consumers.last,
            facts.consumer,
            watched=len(before.queues.index) > 0,
        )
        facts = as_counted(before.queues, facts, reported, has_acknowledged)
        reported = with_uncounted(reported, facts, has_acknowledged)
        consumers, progress = consumers_progress(
            consumers, facts, reported, has_acknowledged, last
        )
        queues = before.queues.reindexed(facts.queues, facts.known)
        debt, returned = debt_and_returned(queues.debt, facts, reported)
        is_dead = before.said is not None and reported.dead > before.said.dead
        state = Openmq(
            consumers=consumers.advance(facts, reported, progress, last),
            windows=before.windows.advance(
                facts.consumer.index,
                facts.consumer.delivered,
                facts.consumer.held,
                reported.flow_paused,
            ),
            queues=queues.advance(facts, reported, debt, dead=is_dead),
            prepared=self.prepared.advance(facts, snapshot),
            said=reported,
        )
        return state, replace(facts, returned=returned), progress


def with_uncounted(
    reported: OpenmqFacts, facts: Facts, has_acknowledged: Mask
) -> OpenmqFacts:
    """Return the numbers with the queues whose consumers acknowledged although no message left their buffers.

    has_acknowledged: (consumers,) Whether it acknowledged since the poll before.
    """
    is_uncounted = has_acknowledged & ~(facts.consumer.d_left > 0)
    return replace(reported, uncounted=facts.of_queue(is_uncounted) > 0)


def consumers_progress(
    before: OpenmqConsumers,
    facts: Facts,
    reported: OpenmqFacts,
    has_acknowledged: Mask,
    last: Column,
) -> tuple[OpenmqConsumers, Progress]:
    """Return the consumers with the C of this poll, and which of them made progress.

    Args:
        before: By the consumers of this poll.
        facts: As the rules expect them.
        reported: The numbers that only OpenMQ has.
        has_acknowledged: (consumers,) Whether it acknowledged since the poll before.
        last: (consumers,) When it last did.
    """
    left_queue_too = queue_released_as_many(facts, reported)
    # A new acknowledgement proves C without a second poll. A C that the queue does not confirm is no progress, as of a
    # rollback: it may be taken at once, too.
    at_once = has_acknowledged | ~left_queue_too
    consumers = before.with_released(facts.consumer, at_once, facts.now)
    has_released = left_queue_too & (consumers.released > before.released)
    released_at = np.where(has_released, before.polled_at, np.nan)
    return consumers, progress_of(facts, has_acknowledged, released_at, last)


def as_counted(
    before: OpenmqQueues, facts: Facts, reported: OpenmqFacts, has_acknowledged: Mask
) -> Facts:
    """Return the facts with K as the settled messages, as OpenMQ does not count expired and killed ones apart.

    Args:
        before: The queues at the poll before, in its order.
        facts: The numbers of this poll.
        reported: The numbers that only OpenMQ has.
        has_acknowledged: (consumers,) Whether it acknowledged since the poll before.
    """
    was_there = facts.queues.positions_in(before.index) >= 0
    before = before.reindexed(facts.queues)
    is_known = known_from_before(before, facts, reported, was_there)
    d_removed = removed_since(before, facts, reported, has_acknowledged, was_there)
    d_added = np.nan_to_num(facts.d_added)
    zeros = np.zeros(len(is_known))
    return replace(
        facts,
        known=is_known,
        added=np.nan_to_num(facts.added),
        d_added=np.where(is_known & reported.balanced, d_added, 0.0),
        settled=np.nan_to_num(reported.removed),
        d_settled=np.where(is_known, d_removed, 0.0),
        expired=zeros,
        killed=zeros,
        d_expired=zeros,
        d_killed=zeros,
        # Messages that were acknowledged in a transaction are still in T: nothing is to be taken off.
        d_uncommitted=zeros,
        uncommitted=facts.of_queue(reported.uncommitted),
        consumer=consumers_as_counted(facts.consumer, reported),
    )


def consumers_as_counted(
    consumer: ConsumerFacts, reported: OpenmqFacts
) -> ConsumerFacts:
    """Return the consumers' numbers with their uncommitted acknowledgements.

    A C that falls is an accident of reading: no message comes back into a buffer.
    """
    return replace(
        consumer,
        uncommitted=reported.uncommitted,
        d_left=np.maximum(consumer.d_left, 0.0),
        holds=consumer.held + reported.uncommitted > 0,
    )


def known_from_before(
    before: OpenmqQueues, facts: Facts, reported: OpenmqFacts, was_there: Mask
) -> Mask:
    """(queues,) Whether the queue is known from the poll before, and K has not fallen.

    A subscription has no K: it is known if it was listed.
    """
    has_fallen = reported.balanced & (reported.removed < before.removed)
    is_known = np.where(reported.balanced, facts.known, was_there)
    return is_known & ~has_fallen


def removed_since(
    before: OpenmqQueues,
    facts: Facts,
    reported: OpenmqFacts,
    has_acknowledged: Mask,
    was_there: Mask,
) -> Column:
    """(queues,) Messages that left since the poll before; for a subscription those that its consumers acknowledged.

    Args:
        before: The queues at the poll before, by the queues of this poll.
        facts: The numbers of this poll.
        reported: The numbers that only OpenMQ has.
        has_acknowledged: (consumers,) Whether it acknowledged since the poll before.
        was_there: (queues,) Whether the queue was listed at the poll before.
    """
    left = np.maximum(facts.consumer.d_left, 0.0)
    by_consumers = facts.of_queue(np.where(has_acknowledged, left, 0.0))
    removed = np.nan_to_num(reported.removed - before.removed)
    d_removed = np.where(reported.balanced, removed, by_consumers)
    # A consumer of a subscription may come, acknowledge and go between two polls. The subscription has a new last
    # acknowledgement then, and `removed` says by how many messages less all consumers buffer.
    nothing_seen = ~reported.balanced & (by_consumers == 0) & was_there
    is_acknowledged = is_newer(reported.last_acknowledgement, before.acknowledged)
    is_by_unseen_consumer = nothing_seen & is_acknowledged
    return np.where(
        is_by_unseen_consumer,
        np.maximum(removed, 0.0),
        d_removed,
    )


def is_newer(now: Column, before: Column) -> Mask:
    """(rows,) Whether a time is later than before, or is known for the first time."""
    is_first = ~np.isnan(now) & np.isnan(before)
    return (now > before) | is_first


def new_acknowledgements(
    last: Column, consumer: ConsumerFacts, *, watched: bool
) -> tuple[Mask, Column]:
    """(consumers,) Whether it acknowledged since the poll before, and when it last did.

    The first acknowledgement of a consumer counts, too: when it came it had none. At the first poll of all nobody knows
    how old it is.

    Args:
        last: (consumers,) The last acknowledgement up to the poll before.
        consumer: The numbers of this poll.
        watched: Whether there was a poll before.
    """
    now = consumer.last_acknowledgement
    has_acknowledged = is_newer(now, last) if watched else now > last
    return has_acknowledged, np.fmax(last, now)


def queue_released_as_many(facts: Facts, reported: OpenmqFacts) -> Mask:
    """(consumers,) Whether as many messages left its queue as left the buffers of the queue's consumers, or more.

    If not, consumers gave messages back. A tenth more, and MARGIN, is an accident of when numbers were read.
    """
    most_by_consumers = 1.1 * facts.d_settled + MARGIN
    matches = reported.balanced & (facts.d_left <= most_by_consumers)
    # A queue that is not known is at -1, and takes the last value.
    return np.append(matches, False)[facts.consumer.queue]


def progress_of(
    facts: Facts, has_acknowledged: Mask, released_at: Column, last: Column
) -> Progress:
    """Return which consumers made progress: they acknowledged, or they released messages, and their queue as many.

    An acknowledgement counts even if no message left: a limit may have removed the message while the client had it.

    Args:
        facts: As the rules expect them.
        has_acknowledged: (consumers,) Whether it acknowledged since the poll before.
        released_at: (consumers,) When it released messages; NaN: it did not.
        last: (consumers,) When its last acknowledgement was.
    """
    consumer = facts.consumer
    releases = ~np.isnan(released_at) & ~consumer.new
    release = np.where(releases, released_at, facts.now)
    is_committed = has_acknowledged & ~(consumer.uncommitted > 0)
    settled_at = np.where(
        is_committed,
        np.fmin(last, facts.now),
        release,
    )
    # Its buffer may have been filled long after its last acknowledgement: it counts from the poll that saw it.
    begun = np.full(len(consumer.index), facts.now)
    return Progress(has_acknowledged | releases, settled_at, begun)


def debt_and_returned(
    debt: Column, facts: Facts, reported: OpenmqFacts
) -> tuple[Column, Column]:
    """(queues,) The debt after a poll, and the messages that consumers gave back.

    Where more messages leave the queue than its consumers release, a limit removed the rest: a new debt. Where more
    leave the consumers than the queue, they pay the debt first, as those do not come back to the queue; the rest was
    given back. No more is owed than consumers buffer.

    debt: (queues,) At the poll before.
    """
    is_counted = reported.balanced & facts.known
    back = np.where(
        is_counted,
        facts.d_left - facts.d_settled,
        0.0,
    )
    paid = np.minimum(np.maximum(back, 0.0), debt)
    new_debt = np.maximum(-back, 0.0)
    debt = np.minimum(debt - paid + new_debt, np.nan_to_num(facts.held))
    returned = np.where(
        back > 0,
        back - paid,
        back,
    )
    return debt, returned


def at_limit(facts: Facts, reported: OpenmqFacts) -> Mask:
    """(queues,) Whether the destination is full, by messages or by bytes."""
    is_full_by_messages = facts.messages >= reported.limit_messages
    return is_full_by_messages | (reported.bytes >= reported.limit_bytes)


def near_limit(facts: Facts, reported: OpenmqFacts) -> Mask:
    """(queues,) Whether the destination has room for no more than its producers may send before they have to wait.

    Each may send a batch: OpenMQ divides the limit by the producers that are allowed, 100 where their number is not
    limited, and makes a batch of 1 … 1000 messages of it.
    """
    is_limited = reported.max_producers > 0
    allowed = np.where(is_limited, reported.max_producers, 100.0)
    batch = np.clip(
        reported.limit_messages / allowed,
        1.0,
        1000.0,
    )
    room = reported.limit_messages - facts.messages
    return room <= np.nan_to_num(reported.producers) * batch
