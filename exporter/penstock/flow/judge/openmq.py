"""
What OpenMQ shows otherwise than Artemis, brought to the facts that the rules work on; carried from poll to poll.

Letters as in `facts`. An OpenMQ queue counts what left it (K: acknowledged, discarded, expired, purged alike), a
consumer what was sent to it (N, redeliveries count again) and what of that is unacknowledged (T); C = N - T. A
subscription counts nothing at all: its consumers' acknowledgements are its progress.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.facts import ConsumerFacts, Facts, since_said
from penstock.flow.judge.history import SAMPLES
from penstock.flow.judge.holds import Progress
from penstock.flow.judge.spans import Mask, Window, moved, since
from penstock.flow.judge.windows import WindowEstimate
from penstock.model import AcknowledgeMode, QueueKind, Snapshot, TransactionState
from penstock.table import Column, Index, Keys

DEAD_MESSAGES = "mq.sys.dmq"
MARGIN = 3.0
"""Messages that reads which are not atomic may be apart."""
REJECTED, REMOVED = range(2)
OPEN = (TransactionState.STARTED, TransactionState.FAILED, TransactionState.INCOMPLETE, TransactionState.PREPARED)
"""States of transactions that wait for their client. A prepared one waits for its manager: the same to the queue."""


@dataclass(frozen=True, slots=True)
class Said:
    """
    What one poll says beside the facts.

    Columns per queue: removed (K, of subscriptions what left their consumers' hands), last acknowledgement (of
    subscriptions), messages in open transactions of
    producers, begin of the oldest transaction that may have sent here, producers, what a full destination does, its
    limits and what counts against them. Per consumer: acknowledged in open transactions of its connection, paused by
    its own limit, messages taken for it and not sent yet, a transaction of its connection has failed, the key of its
    connection (-1: unknown). dead: what the dead message queue has taken in all, NaN where it is not read.
    """

    removed: Column
    acknowledged: Column
    held: Column
    transaction_since: Column
    producers: Column
    flow_control: Mask
    removes: Mask
    limit_messages: Column
    limit_bytes: Column
    bytes: Column
    max_producers: Column
    uncommitted: Column
    flow_paused: Mask
    unsent: Column
    failed: Mask
    connection: Keys
    dead: float
    balanced: Mask
    """Queues: what came and went is counted. Not subscriptions."""


def said(snapshot: Snapshot, found: Facts) -> Said:
    queues, consumers = snapshot.queues, snapshot.consumers
    assert queues is not None and consumers is not None  # noqa: S101, PT018 - there are facts
    policy = {} if snapshot.addresses is None else {row.name: row.policy for row in snapshot.addresses.index}
    of = [policy.get(row.address, "") for row in queues.index]
    dead = np.flatnonzero(queues.index.column("dead messages", lambda row: row.name == DEAD_MESSAGES) > 0)
    acknowledged, failed = transactions_of(snapshot)
    transacted = (consumers["acknowledge_mode"] == AcknowledgeMode.TRANSACTED) & (found.consumer.held > 0)
    return Said(
        removed=queues["removed"],
        acknowledged=queues["last_acknowledgement"],
        held=np.nan_to_num(queues["uncommitted"]),
        transaction_since=producing_since(snapshot),
        producers=of_address(snapshot, "producers"),
        flow_control=np.array([name == "flow_control" for name in of], np.bool_),
        removes=np.array([name in ("remove_oldest", "remove_low_priority") for name in of], np.bool_),
        limit_messages=of_address(snapshot, "limit_messages"),
        limit_bytes=of_address(snapshot, "limit_bytes"),
        bytes=queues["bytes"],
        max_producers=of_address(snapshot, "max_producers"),
        uncommitted=np.where(transacted, acknowledged, 0.0),
        flow_paused=consumers["flow_paused"] > 0,
        unsent=np.nan_to_num(consumers["waiting"]),
        failed=failed & transacted,
        connection=snapshot.consumer_connection,
        dead=float(found.added[dead[0]]) if len(dead) else np.nan,
        balanced=queues.index.column("balanced", lambda row: row.kind is not QueueKind.SUBSCRIPTION) > 0,
    )


def transactions_of(snapshot: Snapshot) -> tuple[Column, Mask]:
    """
    Per consumer: acknowledgements in the open transactions of its connection, and whether one of those has failed.

    The broker does not say which session of a connection a transaction belongs to.
    """
    assert snapshot.consumers is not None  # noqa: S101 - there are facts
    size, transactions = len(snapshot.consumers), snapshot.transactions
    acknowledged, failed = np.zeros(size), np.zeros(size, np.bool_)
    if transactions is None or not len(transactions):
        return acknowledged, failed
    open_ = np.isin(transactions["state"], OPEN) & (snapshot.transaction_connection >= 0)
    for i in np.flatnonzero(open_).tolist():
        of = snapshot.consumer_connection == snapshot.transaction_connection[i]
        acknowledged[of] += np.nan_to_num(transactions["acknowledgements"][i])
        failed[of] |= transactions["state"][i] == TransactionState.FAILED
    return acknowledged, failed


def producing_since(snapshot: Snapshot) -> Column:
    """Per queue: since when a connection that produces here has a transaction open in which it sent; NaN: none."""
    assert snapshot.queues is not None  # noqa: S101 - there are facts
    begin = np.full(len(snapshot.queues), np.nan)
    transactions, producers = snapshot.transactions, snapshot.producers
    if transactions is None or producers is None:
        return begin
    open_ = np.isin(transactions["state"], OPEN) & (transactions["messages"] > 0)
    since_: dict[str, float] = {}
    for i in np.flatnonzero(open_ & (snapshot.transaction_connection >= 0)).tolist():
        for at in np.flatnonzero(snapshot.producer_connection == snapshot.transaction_connection[i]).tolist():
            name = producers.index.rows[at].address
            since_[name] = min(since_.get(name, np.inf), float(transactions["created"][i]))
    return np.array([since_.get(row.address, np.nan) for row in snapshot.queues.index], np.float64) if since_ else begin


def of_address(snapshot: Snapshot, name: str) -> Column:
    """A column of the destinations by queue."""
    queues, addresses = snapshot.queues, snapshot.addresses
    assert queues is not None  # noqa: S101 - there are facts
    if addresses is None or name not in addresses:
        return np.full(len(queues), np.nan)
    values = dict(zip((row.name for row in addresses.index), addresses[name].tolist(), strict=True))
    return np.array([values.get(row.address, np.nan) for row in queues.index], np.float64)


@dataclass(frozen=True, slots=True)
class Sum:
    """A running sum that is published when it was seen twice, and never falls: reads are not atomic."""

    raw: Column
    shown: Column
    grew: Column

    @classmethod
    def new(cls, size: int) -> "Sum":
        return cls(np.zeros(size), np.zeros(size), np.zeros(size))

    def moved(self, index: Index[Any], before: Index[Any]) -> "Sum":
        return Sum(*(moved(index, before, values, 0.0) for values in (self.raw, self.shown, self.grew)))

    def add(self, change: Column, known: Mask) -> "Sum":
        """A queue in a new life begins anew."""
        raw = np.where(known, self.raw + np.nan_to_num(change), 0.0)
        before = np.where(known, self.shown, 0.0)
        shown = np.fmax(before, np.where(known, np.fmin(self.raw, raw), 0.0))
        return Sum(raw, shown, shown - before)


@dataclass(frozen=True, slots=True)
class Openmq:
    """
    By the rows of `consumers`: last acknowledgement, highest C since the last settlement, since when C rises beyond it
    without one, since when N stands still. By those of `queues`: the balances of the module's head.
    """

    consumers: Index[Any] = field(default_factory=Index.empty)
    last: Column = field(default_factory=lambda: np.empty(0))
    highest: Column = field(default_factory=lambda: np.empty(0))
    returning_since: Column = field(default_factory=lambda: np.empty(0))
    still_since: Column = field(default_factory=lambda: np.empty(0))
    failed_since: Column = field(default_factory=lambda: np.empty(0))
    windows: WindowEstimate = field(default_factory=WindowEstimate)
    queues: Index[Any] = field(default_factory=Index.empty)
    removed: Column = field(default_factory=lambda: np.empty(0))
    acknowledged: Column = field(default_factory=lambda: np.empty(0))
    debt: Column = field(default_factory=lambda: np.empty(0))
    held_since: Column = field(default_factory=lambda: np.empty(0))
    in_delivery: Column = field(default_factory=lambda: np.empty(0))
    messages: Column = field(default_factory=lambda: np.empty(0))
    lost: Sum = field(default_factory=lambda: Sum.new(0))
    rejected: Sum = field(default_factory=lambda: Sum.new(0))
    removing_at: Column = field(default_factory=lambda: np.empty(0))
    """When a full queue was last seen to remove messages."""
    balances: Window = field(default_factory=Window)
    dead: float = np.nan
    dead_at: float = -np.inf
    """When the dead message queue was last seen to take something in."""
    said: Said | None = None
    blockers: tuple[tuple[int, str], ...] = ()
    """Connections by key whose limit one consumer uses up while others starve, and its client."""

    def follow(self, found: Facts, snapshot: Snapshot, constants: Constants) -> tuple["Openmq", Facts, Progress]:
        """The state after this poll, the facts as the rules expect them, and which consumers made progress."""
        told = said(snapshot, found)
        before = Openmq() if found.restarted else self
        found = as_counted(before, found, told)
        progress, last = progress_of(before, found, told)
        consumers = before.follow_consumers(found, told, progress, last)
        queues = before.follow_queues(found, told, constants)
        returned = owed(before, found, told)
        found = replace(found, returned=returned[1])
        return replace(consumers, said=told, debt=returned[0], **queues), found, progress

    def follow_consumers(self, found: Facts, told: Said, progress: Progress, last: Column) -> "Openmq":
        consumer, now = found.consumer, found.now
        index = consumer.index
        left = consumer.delivered - consumer.held
        highest = moved(index, self.consumers, self.highest, np.nan)
        rises = (left - highest >= MARGIN) & ~progress.settles
        quiet = ~(consumer.d_delivered > 0)
        return Openmq(
            consumers=index,
            last=last,
            highest=np.where(progress.settles, left, np.fmax(highest, left)),
            returning_since=since(rises, moved(index, self.consumers, self.returning_since, np.nan), now),
            still_since=since(quiet, moved(index, self.consumers, self.still_since, np.nan), now),
            failed_since=since(told.failed, moved(index, self.consumers, self.failed_since, np.nan), now),
            windows=self.windows.follow(index, consumer.delivered, consumer.held, told.flow_paused),
        )

    def follow_queues(self, found: Facts, told: Said, constants: Constants) -> dict[str, Any]:
        index, now, known = found.queues, found.now, found.known & told.balanced
        in_delivery = np.where(known, moved(index, self.queues, self.in_delivery, np.nan), np.nan)
        depth = found.messages + told.held
        d_depth = depth - moved(index, self.queues, self.messages, np.nan)
        d_delivering = np.nan_to_num(found.delivering - in_delivery)
        removed = found.d_settled - found.d_left
        rejected = np.nan_to_num(found.d_added - found.d_settled - d_depth)
        lost = np.where(told.removes, found.d_settled - found.d_delivered + d_delivering, 0.0)
        grew = bool(told.dead > self.dead)
        dead = told.dead - self.dead if grew else 0.0
        removing = told.removes & at_limit(found, told) & (known & (removed > MARGIN) | grew)
        # What consumers that came and went between two polls settled is not known: then as many dead ones prove it.
        by_dead = grew & (removed <= dead + MARGIN)
        proven = np.where(same_consumers(found) | by_dead, removed, np.minimum(removed, 0.0))
        values = np.stack([np.minimum(rejected, np.nan_to_num(found.d_added)), proven]).astype(np.float32)
        values[:, ~known] = np.nan
        seconds = constants.window_seconds(found.interval)
        window = self.balances.moved(index, known).push(now, values, seconds, seconds / SAMPLES)
        return {
            "queues": index,
            "acknowledged": since_said(told.acknowledged, moved(index, self.queues, self.acknowledged, np.nan)),
            "removed": since_said(told.removed, moved(index, self.queues, self.removed, np.nan)),
            "held_since": since(told.held > 0, moved(index, self.queues, self.held_since, np.nan), now),
            "in_delivery": found.delivering,
            "messages": depth,
            "lost": self.lost.moved(index, self.queues).add(lost, known),
            "rejected": self.rejected.moved(index, self.queues).add(rejected, known),
            "removing_at": np.where(removing, now, moved(index, self.queues, self.removing_at, -np.inf)),
            "balances": window,
            "dead": told.dead,
            "dead_at": now if grew else self.dead_at,
        }


def same_consumers(found: Facts) -> Mask:
    """Queues whose consumers, one at least, are those of the poll before."""
    consumer = found.consumer
    came = found.of_queue(consumer.new.astype(np.float64)) > 0
    gone = consumer.gone.queue
    went = np.bincount(gone[gone >= 0], minlength=len(found.queues)) > 0
    return (found.consumers > 0) & ~came & ~went


def as_counted(before: Openmq, found: Facts, told: Said) -> Facts:
    """The facts with K as OpenMQ counts it; expired and killed are in it, and subscriptions are known without it."""
    present = moved(found.queues, before.queues, np.ones(len(before.queues)), 0.0) > 0
    past = moved(found.queues, before.queues, before.removed, np.nan)
    known = np.where(told.balanced, found.known, present)
    known &= ~(told.balanced & (told.removed < past))
    none = np.zeros(len(known))
    consumer = found.consumer
    left = np.maximum(consumer.d_left, 0.0)
    by_members = found.of_queue(np.where(acknowledged(before, consumer)[0], left, 0.0))
    d_removed = np.where(told.balanced, np.nan_to_num(told.removed - past), by_members)
    # Members that came and went between two polls are known by what they left behind.
    last = moved(found.queues, before.queues, before.acknowledged, np.nan)
    unseen = ~told.balanced & (by_members == 0) & present
    unseen &= (told.acknowledged > last) | (~np.isnan(told.acknowledged) & np.isnan(last))
    d_removed = np.where(unseen, np.maximum(np.nan_to_num(told.removed - past), 0.0), d_removed)
    return replace(
        found,
        known=known,
        added=np.nan_to_num(found.added),
        d_added=np.where(known & told.balanced, np.nan_to_num(found.d_added), 0.0),
        settled=np.nan_to_num(told.removed),
        d_settled=np.where(known, d_removed, 0.0),
        expired=none,
        killed=none,
        d_expired=none,
        d_killed=none,
        # Acknowledgements in a transaction still stand in T: nothing is to be taken off.
        d_uncommitted=none,
        consumer=replace(consumer, uncommitted=told.uncommitted, d_left=left),
    )


def acknowledged(before: Openmq, consumer: ConsumerFacts) -> tuple[Mask, Column]:
    """Whether each one's last acknowledgement has moved, and when it was; one not seen before has begun at none."""
    last = moved(consumer.index, before.consumers, before.last, np.nan)
    now = consumer.last_acknowledgement
    watched = len(before.queues) > 0
    return (now > last) | (~np.isnan(now) & np.isnan(last) & watched), np.fmax(last, now)


def progress_of(before: Openmq, found: Facts, told: Said) -> tuple[Progress, Column]:
    """
    Rule of progress: the last acknowledgement moved; or messages left its hands and the queue in the same measure.

    The second for what a limit discards while a client holds it: its acknowledgement then moves nothing.
    """
    consumer = found.consumer
    moves, last = acknowledged(before, consumer)
    matches = told.balanced & (found.d_left <= 1.1 * found.d_settled + MARGIN)
    by_queue = np.append(matches, False)[consumer.queue]
    left = (consumer.d_left > 0) & by_queue & ~consumer.new
    at = np.where(moves & ~(consumer.uncommitted > 0), np.fmin(last, found.now), found.now)
    # It may be filled long after its last acknowledgement: what it holds it holds since it was seen to.
    return Progress(moves | left, at, np.full(len(consumer.index), found.now)), last


def owed(before: Openmq, found: Facts, told: Said) -> tuple[Column, Column]:
    """
    Debt and what came back, per queue.

    What a limit removes from clients' hands leaves those later: it is owed, no more than they hold, and does not come
    back when it does.
    """
    back = np.where(told.balanced & found.known, found.d_left - found.d_settled, 0.0)
    debt = np.where(found.known, moved(found.queues, before.queues, before.debt, 0.0), 0.0)
    paid = np.minimum(np.maximum(back, 0.0), debt)
    owes = np.minimum(debt - paid + np.maximum(-back, 0.0), np.nan_to_num(found.held))
    return owes, np.where(back > 0, back - paid, back)


def at_limit(found: Facts, told: Said) -> Mask:
    """By count or by bytes."""
    return (found.messages >= told.limit_messages) | (told.bytes >= told.limit_bytes)


def near_limit(found: Facts, told: Said) -> Mask:
    """
    Within what its producers may still send before they are told to wait: a batch for each of them.

    A batch is the limit shared by all producers that are allowed, 1 … 1000 messages.
    """
    allowed = np.where(told.max_producers > 0, told.max_producers, 100.0)
    batch = np.clip(told.limit_messages / allowed, 1.0, 1000.0)
    return told.limit_messages - found.messages <= np.nan_to_num(told.producers) * batch
