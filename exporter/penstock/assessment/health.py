"""The judgement as series: conditions by cause, and the measures of addresses, queues and clients."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.account.address_books import AddressBooks
from penstock.account.ring_losses import MOST_NAMES, RingLosses
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.paused import PAUSED
from penstock.conditions.producers_blocked import PRODUCERS_BLOCKED
from penstock.core.table import Column, Index, Mask, Positions, Table
from penstock.incidents.incident import Key, key_of
from penstock.rule_engine.judgement import Judgement
from penstock.series.clock import Clock
from penstock.series.labels import (
    QUEUE,
    AddressSeries,
    ClientSeries,
    Grouping,
    QueueSeries,
)
from penstock.series.queues import Queues

REASONS = ("last_value", "ring", "limit")
"""Why a queue evicts messages."""
LIMIT = REASONS.index("limit")
MOST_EXPECTED = 1000
"""So many queues at most show how many messages are expected."""
TIMES = ("ring_oversize_since", "oldest_message", "oldest_earliest", "oldest_latest")
"""Measures that are times: they are corrected to the agent's clock."""
BOUNDS = ("earliest", "latest")
"""Of the time at which the oldest message came."""


@dataclass(frozen=True, slots=True)
class CauseSeries:
    """The labels of a condition of a broker, address, queue, client or connection.

    A label that the series' table does not have is empty.
    """

    broker: str
    address: str = ""
    queue: str = ""
    client: str = ""
    connection: str = ""
    cause: str = ""


Labelled: TypeAlias = tuple[CauseSeries, ActiveCondition]
"""A condition and the labels that it is shown under."""


@dataclass(frozen=True, slots=True)
class Eviction:
    broker: str
    address: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class RingLoser:
    """The labels of lost messages: `client` is empty where no client is known."""

    broker: str
    address: str
    queue: str
    client: str


@dataclass(frozen=True, slots=True)
class ClientLoss:
    """Messages that a ring lost by one client.

    Attributes:
        queue: The position of the queue in its table.
        slot: The number of the client among those of the queue, from 1 on.
        client: Its name.
        messages: At least so many.
    """

    queue: int
    slot: int
    client: str
    messages: float


@dataclass(frozen=True, slots=True)
class LossRows:
    """The rows of the table of losses.

    Attributes:
        queues: (rows,) The position of each row's queue.
        slots: (rows,) The number of the client among those of its queue; 0 for the row without a client.
        clients: (rows,) The client's name; empty for the row without a client.
        messages: (rows,) Messages lost, at least.
    """

    queues: Positions
    slots: Positions
    clients: Sequence[str]
    messages: Column


@dataclass(frozen=True, slots=True)
class OldestMessage:
    broker: str
    address: str
    queue: str
    bound: str


# --- conditions


def broker_causes(conditions: Sequence[ActiveCondition]) -> Table[CauseSeries]:
    """Return the conditions of the broker itself; unhealthy: 1 for a warning, 2 for a critical one."""
    own = [
        condition
        for condition in conditions
        if CONDITIONS[condition.name].scope is Scope.BROKER
    ]
    rows = [CauseSeries(condition.broker, cause=condition.name) for condition in own]
    severities = np.array([float(condition.severity) for condition in own])
    return Table(Index.of(rows), {"unhealthy": severities})


def address_causes(
    conditions: Sequence[ActiveCondition],
    rolled_up: Collection[Key],
    addresses: Table[AddressSeries],
) -> Table[CauseSeries]:
    """Return the conditions of addresses; unhealthy: 1 for a warning, 2 for a critical one, the worst of its queues.

    in_incident: 1 where the alert on an incident covers all of them. A condition "paused" of a queue is one of its
    address only where the address itself is paused.
    """
    labelled = [
        (
            CauseSeries(condition.broker, condition.address, cause=condition.name),
            condition,
        )
        for condition in conditions
        if not condition.silenced and CONDITIONS[condition.name].of_address
    ]
    worst = worst_severities(labelled)
    if not worst:
        return sparse_table({"unhealthy": {}, "in_incident": {}})
    is_paused = addresses["paused"] > 0
    paused = {series.address for series in addresses.index.rows[is_paused]}
    unhealthy = {
        cause: severity
        for cause, severity in worst.items()
        if cause.cause != PAUSED.name or cause.address in paused
    }
    in_incident = covered_by_incidents(unhealthy, labelled, rolled_up)
    return sparse_table({"unhealthy": unhealthy, "in_incident": in_incident})


def queue_causes(
    conditions: Sequence[ActiveCondition], rolled_up: Collection[Key]
) -> Table[CauseSeries]:
    """Return the conditions of queues and their clients.

    unhealthy: 1 for a warning, 2 for a critical one; notice: 1 for a notice about the queue itself; in_incident: 1
    where the alert on an incident covers them. Several conditions with the same labels are one, the worst: a sum of
    queues may have a condition more than once.

    Args:
        conditions: All that are active.
        rolled_up: The conditions that the alert on their incident covers.
    """
    labelled = [
        (
            CauseSeries(
                condition.broker,
                condition.address,
                condition.queue,
                cause=condition.name,
            ),
            condition,
        )
        for condition in conditions
        if not condition.silenced
        and CONDITIONS[condition.name].scope is not Scope.BROKER
    ]
    notice = {
        cause: 1.0
        for cause, condition in labelled
        if condition.severity is Severity.INFO and not condition.client
    }
    unhealthy = worst_severities(labelled)
    in_incident = covered_by_incidents(unhealthy, labelled, rolled_up)
    return sparse_table(
        {"unhealthy": unhealthy, "notice": notice, "in_incident": in_incident}
    )


def client_causes(
    conditions: Sequence[ActiveCondition], rolled_up: Collection[Key]
) -> Table[CauseSeries]:
    """Return the conditions of clients.

    unhealthy_consumers: how many of the client's consumers have the condition, at least 1; notice: 1 for a notice;
    in_incident: 1 where the alert on an incident covers it.
    """
    labelled = [
        (
            CauseSeries(
                condition.broker,
                condition.address,
                condition.queue,
                condition.client,
                cause=condition.name,
            ),
            condition,
        )
        for condition in conditions
        if condition.client and not condition.silenced
    ]
    consumers: dict[CauseSeries, float] = {}
    notice: dict[CauseSeries, float] = {}
    for cause, condition in labelled:
        if condition.severity is Severity.INFO:
            notice[cause] = 1.0
        else:
            count = max(condition.consumers, 1)
            consumers[cause] = consumers.get(cause, 0.0) + count
    in_incident = covered_by_incidents(consumers, labelled, rolled_up)
    return sparse_table(
        {
            "unhealthy_consumers": consumers,
            "notice": notice,
            "in_incident": in_incident,
        }
    )


def covered_by_incidents(
    unhealthy: Iterable[CauseSeries],
    labelled: Iterable[Labelled],
    rolled_up: Collection[Key],
) -> dict[CauseSeries, float]:
    """Return 1 for each cause whose unhealthy conditions are all covered by the alert on an incident.

    Args:
        unhealthy: The causes to look at.
        labelled: All conditions; several may have the labels of one cause.
        rolled_up: The conditions that the alert on their incident covers.
    """
    with_own_alert = {
        cause
        for cause, condition in labelled
        if condition.severity is not Severity.INFO
        and key_of(condition) not in rolled_up
    }
    return {cause: 1.0 for cause in unhealthy if cause not in with_own_alert}


def worst_severities(labelled: Iterable[Labelled]) -> dict[CauseSeries, float]:
    """Return the worst severity of the conditions with the same labels; notices are left out."""
    worst: dict[CauseSeries, float] = {}
    for cause, condition in labelled:
        if condition.severity is not Severity.INFO:
            severity = float(condition.severity)
            worst[cause] = max(worst.get(cause, 0.0), severity)
    return worst


def sparse_table(
    columns: Mapping[str, Mapping[CauseSeries, float]],
) -> Table[CauseSeries]:
    """Return a table of all rows that any column has a number for, in the order of their labels."""
    causes = set().union(*columns.values())
    rows = sorted(causes, key=attrgetter(*CauseSeries.__slots__))
    arrays = {
        name: np.array([numbers.get(row, np.nan) for row in rows])
        for name, numbers in columns.items()
    }
    return Table(Index.of(rows), arrays)


# --- addresses


def address_measures(
    judgement: Judgement,
    queues: Grouping[QueueSeries],
    of_queue: Positions,
    addresses: Table[AddressSeries],
) -> dict[str, Column]:
    """Return columns by the addresses; none where the poll was not judged.

    Args:
        judgement: The state after this poll.
        queues: The series of the queues.
        of_queue: (queue series,) The position of each one's address in `addresses`.
        addresses: The series of the addresses.
    """
    blocked = judgement.debounced.get(PRODUCERS_BLOCKED.name)
    if blocked is None or blocked.index is not queues.source:
        return {}
    if len(of_queue) != len(queues.index):  # addresses were read at another poll
        return {}
    # By queue; -1 where its address is not known, and for queues that are not shown.
    address_of_queue = np.append(of_queue, -1)[queues.member]
    blocked_queues, _ = blocked.active()
    blocked_addresses = address_of_queue[blocked_queues]
    producers_blocked = np.zeros(len(addresses))
    producers_blocked[blocked_addresses[blocked_addresses >= 0]] = 1.0
    # Producers that an operator has paused are shown as that.
    producers_blocked[addresses["producers_paused"] > 0] = 0.0
    columns = {"producers_blocked": producers_blocked}
    books = judgement.account.address_books
    if books.index is queues.source:
        columns |= refused_messages(books, address_of_queue, addresses.index)
    return columns


def refused_messages(
    books: AddressBooks, address_of_queue: Positions, addresses: Index[AddressSeries]
) -> dict[str, Column]:
    """Return the messages that full addresses dropped or rejected; NaN for addresses with another policy.

    The account has each number at every queue of the address: they are the same, and one of them is taken.

    address_of_queue: (queues,) The position of each one's address, -1 where it has none.
    """
    has_address = address_of_queue >= 0
    positions = address_of_queue[has_address]
    is_read = ~np.isnan(books.routed0)
    columns: dict[str, Column] = {}
    for policy, column, numbers in (
        ("drop", "messages_dropped", books.dropped),
        ("fail", "messages_rejected", books.rejected),
    ):
        messages = np.full(len(addresses), np.nan)
        messages[positions] = np.where(is_read, numbers, np.nan)[has_address]
        columns[column] = np.where(has_policy(addresses, policy), messages, np.nan)
    return columns


def has_policy(addresses: Index[AddressSeries], policy: str) -> Mask:
    """(addresses,) Whether the address does this with messages when it is full."""
    return addresses.column(policy, lambda series: series.policy == policy) > 0


# --- queues


def is_alone(queues: Grouping[QueueSeries]) -> Mask:
    """(queues,) Whether the queue is shown as a series of its own."""
    return queues.by_source("alone", lambda series: not series.summed) > 0


def queue_measures(
    judgement: Judgement, queues: Queues, clock: Clock
) -> dict[str, Column]:
    """Return columns by the queues' series; a series that sums several queues has no numbers."""
    grouping = queues.grouping
    if judgement.measures.index is not grouping.source:
        return {}
    is_one_queue = grouping.index.column("alone", lambda series: not series.summed) > 0
    columns = {
        name: np.where(is_one_queue, grouping.max(column), np.nan)
        for name, column in measures_by_queue(judgement).items()
    }
    for name in TIMES:
        columns[name] = np.round(columns[name] - clock.applied, 3)
    if judgement.counted:
        columns["unhealthy_consumers"] = unhealthy_consumers(
            judgement.conditions, grouping.index
        )
    return columns


def measures_by_queue(judgement: Judgement) -> dict[str, Column]:
    """Return columns by the queues of the broker; times by the broker's clock."""
    oldest = judgement.oldest
    two_polls = 2 * judgement.seen.times.interval
    bounds_agree = np.abs(oldest.latest - oldest.earliest) <= two_polls
    low, high = expected_rates(judgement.normal.usual(judgement.service).band)
    return {
        **judgement.measures.columns,
        "oldest_message": np.where(bounds_agree, oldest.latest, np.nan),
        "oldest_earliest": oldest.earliest,
        "oldest_latest": oldest.latest,
        "ring_oversize_since": judgement.measures.oversize_since,
        "capacity": np.round(judgement.shares.capacity, 3),
        "expected_messages_per_second_low": low,
        "expected_messages_per_second_high": high,
    }


def expected_rates(band: NDArray[np.float64]) -> NDArray[np.float64]:
    """(low and high, queues) Expected messages per second of the queues that get most; NaN for the others.

    band: (low and high, queues) The expected rates of all queues; NaN where nothing was learned.
    """
    high = band[1]
    with_rate = np.flatnonzero(~np.isnan(high))
    largest_first = np.argsort(-high[with_rate], kind="stable")
    busiest = with_rate[largest_first[:MOST_EXPECTED]]
    rates = np.full(band.shape, np.nan)
    rates[:, busiest] = np.round(band[:, busiest], 3)
    return rates


def oldest_messages(
    queues: Table[QueueSeries], before: Index[OldestMessage]
) -> Table[OldestMessage]:
    """Return the earliest and the latest time at which the oldest message of each queue may have come.

    All queues have both rows, so that few rows come and go. before: the rows of this table at the last poll.
    """
    if "oldest_latest" not in queues:
        return Table(Index.empty())
    # Two rows for each queue, one after the other: the earliest time, then the latest.
    times = np.stack([queues[f"oldest_{bound}"] for bound in BOUNDS], axis=1).ravel()
    keys = 2 * queues.index.keys[:, None] + np.arange(2)

    def label(row: int) -> OldestMessage:
        queue = queues.index.rows[row // 2]
        bound = BOUNDS[row % 2]
        return OldestMessage(queue.broker, queue.address, queue.queue, bound)

    index, order = before.advance(keys.ravel(), lambda new: [label(row) for row in new])
    return Table(index, {"at": times[order]})


def without_kept(
    judgement: Judgement, queues: Queues, table: Table[QueueSeries]
) -> dict[str, Column]:
    """Return the columns of waiting messages, with NaN for non-destructive queues.

    Such a queue keeps its messages when they are acknowledged: nobody knows how many of them wait.
    """
    grouping = queues.grouping
    is_non_destructive = judgement.keeps
    if judgement.measures.index is not grouping.source or not is_non_destructive.any():
        return {}
    is_unknown = grouping.max(is_non_destructive.astype(np.float64)) > 0
    return {
        "ready": np.where(is_unknown, np.nan, table["ready"]),
        "ring_used_ratio": np.where(is_unknown, np.nan, table["ring_used_ratio"]),
    }


def unhealthy_consumers(
    conditions: Sequence[ActiveCondition], queues: Index[QueueSeries]
) -> Column:
    """(queue series,) How many consumers have a condition that is neither silenced nor a notice."""
    counts: dict[tuple[str, str], float] = {}
    for condition in conditions:
        is_alarming = not condition.silenced and condition.severity is not Severity.INFO
        if condition.client and is_alarming:
            queue = (condition.address, condition.queue)
            counts[queue] = counts.get(queue, 0.0) + condition.consumers
    unhealthy = np.zeros(len(queues))
    positions = queues.where("queue", QUEUE, counts.keys())
    unhealthy[positions] = [counts[QUEUE(series)] for series in queues.rows[positions]]
    return unhealthy


def evictions(
    judgement: Judgement, queues: Queues, before: Index[Eviction]
) -> Table[Eviction]:
    """Return the messages that queues evicted, by reason.

    A last-value queue with a ring limit evicts for two reasons; all its messages count under `ring`.

    before: the rows of this table at the last poll.
    """
    grouping = queues.grouping
    measures = judgement.measures
    if measures.index is not grouping.source:  # this poll was not judged
        return Table(Index.empty())
    evicted = measures.columns["evicted"]
    evicting = np.flatnonzero(~np.isnan(evicted) & is_alone(grouping))
    reasons = reasons_to_evict(judgement)[evicting]

    def label(row: int) -> Eviction:
        queue = grouping.index.rows[grouping.member[evicting[row]]]
        return Eviction(queue.broker, queue.address, queue.queue, REASONS[reasons[row]])

    keys = len(REASONS) * grouping.keys[evicting] + reasons
    index, order = before.advance(keys, lambda new: [label(row) for row in new])
    return Table(index, {"evicted": evicted[evicting][order]})


def reasons_to_evict(judgement: Judgement) -> NDArray[np.int64]:
    """(queues,) Why each queue evicts messages, if it does: the position in `REASONS`."""
    index = judgement.measures.index
    is_openmq = judgement.openmq.queues.index is index
    if is_openmq:
        return np.full(len(index), LIMIT)
    # True, a ring limit, is the position of `ring`; else only a last-value queue evicts, at position 0.
    return np.asarray(judgement.rings).astype(np.int64)


def losses_by_client(
    judgement: Judgement, queues: Queues, before: Index[RingLoser]
) -> Table[RingLoser]:
    """Return the messages that rings lost by consumers that left: by client, with an empty client where none is known.

    before: the rows of this table at the last poll.
    """
    grouping = queues.grouping
    losses = judgement.account.ring_losses
    if losses.index is not grouping.source:
        return Table(Index.empty())
    rows = loss_rows(losses, is_alone(grouping))

    def label(row: int) -> RingLoser:
        queue = grouping.index.rows[grouping.member[rows.queues[row]]]
        return RingLoser(queue.broker, queue.address, queue.queue, rows.clients[row])

    # A queue has at most `MOST_NAMES` clients, and a row without one.
    keys = (1 + MOST_NAMES) * grouping.keys[rows.queues] + rows.slots
    index, order = before.advance(keys, lambda new: [label(row) for row in new])
    return Table(index, {"lost": rows.messages[order]})


def loss_rows(losses: RingLosses, is_single: Mask) -> LossRows:
    """Return a row without a client for each queue with losses, and one for each client that is known.

    The row without a client has the losses that no known client is the reason for.

    is_single: (queues,) Whether the queue is a series of its own; the others are left out.
    """
    has_losses = ~np.isnan(losses.by_consumers) & is_single
    by_client = losses_of_known_clients(losses, has_losses)
    without_client = losses.by_consumers.copy()
    for loss in by_client:
        without_client[loss.queue] -= loss.messages
    queues = np.flatnonzero(has_losses)
    no_slots = np.zeros_like(queues)
    no_names = [""] * len(queues)
    messages = [loss.messages for loss in by_client]
    return LossRows(
        queues=np.append(queues, integers(loss.queue for loss in by_client)),
        slots=np.append(no_slots, integers(loss.slot for loss in by_client)),
        clients=no_names + [loss.client for loss in by_client],
        messages=np.append(without_client[queues], messages),
    )


def losses_of_known_clients(losses: RingLosses, has_losses: Mask) -> list[ClientLoss]:
    """Return the losses of each client with a name, for the queues with losses. has_losses: (queues,)."""
    keys = np.array([*losses.by_client], np.int64)
    positions = losses.index.positions(keys).tolist()
    by_client: list[ClientLoss] = []
    for queue, clients in zip(positions, losses.by_client.values(), strict=True):
        if queue >= 0 and has_losses[queue]:
            by_client += [
                ClientLoss(queue, slot, client, loss.sure)
                for slot, (client, loss) in enumerate(clients.items(), 1)
            ]
    return by_client


def integers(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.array([*numbers], np.int64)


# --- clients


def client_measures(
    judgement: Judgement, clients: Grouping[ClientSeries], clock: Clock
) -> dict[str, Column]:
    """Return columns by the clients' series; none where the poll was not judged."""
    if len(judgement.patience_of_clients) != len(clients.index):
        return {}
    return {
        "patience": np.round(judgement.patience_of_clients, 3),
        "blocked_since": np.round(judgement.blocked_since - clock.applied, 3),
        "starved": np.round(judgement.shares.starved, 3),
        "at_limit": np.round(judgement.shares.at_limit, 3),
    }


def undecided(judgement: Judgement, clients: int, *, judged: bool) -> float:
    """Return how many clients are in the state "unknown": seen at too few polls, and without a condition.

    All are where nothing was judged, or where the broker shows no numbers of consumers.

    Args:
        judgement: The state after this poll.
        clients: How many there are.
        judged: Whether the last poll was judged, or its verdicts still apply.
    """
    if not judged or not judgement.counted:
        return float(clients)
    with_condition = {
        (condition.address, condition.queue, condition.client)
        for condition in judgement.conditions
        if condition.client
    }
    young = judgement.warm_up.clients
    rows = young.index.rows[young.index.positions(young.keys)]
    without_condition = [
        row
        for row in rows
        if (row.address, row.queue, row.client) not in with_condition
    ]
    return float(len(without_condition))
