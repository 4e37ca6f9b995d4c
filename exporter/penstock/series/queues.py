"""Queues as they are shown: their labels, what waits, what has passed, how full a ring is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Kind
from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Mask, Table
from penstock.model import (
    AddressRow,
    Observation,
    Process,
    QueueKind,
    QueueRow,
    RingSource,
)
from penstock.series.labels import NON_DURABLE, TEMPORARY, Grouping, QueueSeries
from penstock.series.totals import Totals
from penstock.settings.policy import Policy
from penstock.settings.rules import RuleSettings

COUNTERS = QueueColumns.shown(counters=True)
GAUGES = QueueColumns.shown(Kind.COUNT)
FLAGS = QueueColumns.shown(Kind.FLAG)
SETTINGS = QueueColumns.shown(Kind.SETTING)
"""Columns with a metric of the queue itself."""


@dataclass(frozen=True, slots=True)
class Reloaded(RowState):
    """Messages that a queue counts as added though they were there before its broker started or took over.

    Attributes:
        messages: (queues,) How many.
        depth: (queues,) Messages in the queue at the last poll.
        process: The broker's process at that poll; None: the broker was passive.
    """

    BY = By.QUEUE
    messages: Column = column(0.0, stored_as="reloaded_messages")
    depth: Column = column(saved=False)
    process: Process | None = unindexed(Process)

    def advance(self, queues: Table[QueueRow], process: Process) -> "Reloaded":
        """Return the state after a poll of a broker whose kind counts reloaded messages as added."""
        before = self.reindexed(queues.index)
        added = np.nan_to_num(queues["added"])
        if self.process is None:
            # This broker has just taken over the queues of another: which messages it loaded is not known.
            messages = added
        elif process.replaces(self.process):
            # It loaded no more than were there, and counted no less than it loaded.
            messages = np.fmin(added, np.nan_to_num(before.depth))
        else:
            messages = before.messages
            if messages.any():
                # A counter below the messages that it once had was set back by an operator: they are no longer in it.
                messages = np.where(added < messages, 0.0, messages)
        return replace(
            before, messages=messages, depth=queues["messages"], process=process
        )


@dataclass(frozen=True, slots=True)
class Queues:
    """The series of the queues.

    Attributes:
        grouping: The series of each queue.
        totals: `COUNTERS` of series that sum several queues.
        reloaded: Messages that were there before the broker started.
    """

    grouping: Grouping[QueueSeries] = field(default_factory=Grouping)
    totals: Totals[QueueSeries] = field(default_factory=Totals)
    reloaded: Reloaded = field(default_factory=Reloaded)

    def advance(
        self,
        queues: Table[QueueRow],
        policy: Policy,
        observation: Observation,
        *,
        counts_reloaded: bool,
    ) -> "Queues":
        """Return the series after one more poll.

        Args:
            queues: The queues of the poll.
            policy: What the operator wants.
            observation: How the poll was made.
            counts_reloaded: Whether this kind of broker counts reloaded messages as added.
        """
        rows = queues.index.rows
        grouping = self.grouping.advance(
            queues.index, lambda new: [queue_series(rows[row], policy) for row in new]
        )
        totals = self.totals.advance(
            grouping,
            [queues[name] for name in COUNTERS],
            # A queue that is a series of its own shows the broker's counters: nothing is remembered when it goes.
            keeps=lambda series: series.summed,
            late=observation.late.get("queues"),
        )
        reloaded = self.reloaded
        if counts_reloaded:
            reloaded = reloaded.advance(queues, observation.process)
        return Queues(grouping, totals, reloaded)

    def passive(self) -> "Queues":
        """Return the series after a poll at which the broker was passive."""
        return replace(self, reloaded=replace(self.reloaded, process=None))

    def with_new_labels(self) -> "Queues":
        return Queues(totals=self.totals, reloaded=self.reloaded)


def queue_series(row: QueueRow, policy: Policy) -> QueueSeries | None:
    """Return the labels of a queue; None when the operator does not want it shown.

    Temporary queues, and non-durable subscriptions of an address, are many and short-lived: each kind is one sum.
    """
    settings = policy.of_queue(row.address, row.name)
    if settings is None:
        return None
    if policy.sum_temporary and row.kind is QueueKind.TEMPORARY:
        return sum_series(policy, TEMPORARY, TEMPORARY, row)
    if policy.sum_temporary and row.kind is QueueKind.SUBSCRIPTION and not row.durable:
        return sum_series(policy, row.address, NON_DURABLE, row)
    return _labelled(row, policy, settings)


def sum_series(policy: Policy, address: str, queue: str, row: QueueRow) -> QueueSeries:
    """Return the labels of a sum of queues, one of which is `row`.

    No label may differ from queue to queue, or one sum would be several series.
    """
    member = QueueRow(
        name=queue,
        address=address,
        routing_type="multicast" if queue == NON_DURABLE else "anycast",
        durable=False,
        temporary=True,
        filter="",
        kind=row.kind,
        ring_source=RingSource.NONE,
        dead_letter_address="",
        expiry_address="",
    )
    settings = policy.rules.resolve(policy.broker, address, queue)
    return replace(_labelled(member, policy, settings), summed=True)


def _labelled(row: QueueRow, policy: Policy, settings: RuleSettings) -> QueueSeries:
    """Return the labels of a queue, with the kind and the owners that the operator's settings give it."""
    return QueueSeries(
        broker=policy.broker,
        address=row.address,
        queue=row.name,
        routing_type=row.routing_type,
        durable=str(row.durable).lower(),
        kind=settings.kind or row.kind,
        ring_source=row.ring_source,
        owner=settings.owner or "",
        team=settings.team or "",
        dead_letter_address=row.dead_letter_address,
        expiry_address=row.expiry_address,
        said=settings,
    )


def number_or_nan(setting: float | None) -> float:
    """Return the value of a setting as a number; NaN where it has none."""
    return np.nan if setting is None else float(setting)


def expected_consumers(series: QueueSeries) -> float:
    return number_or_nan(series.said.expected_consumers)


def ring_retention(series: QueueSeries) -> float:
    return number_or_nan(series.said.ring_retention)


def drain_target(series: QueueSeries) -> float:
    return number_or_nan(series.said.drain_target)


TARGETS: Mapping[str, Callable[[QueueSeries], float]] = {
    "expected_consumers": expected_consumers,
    "ring_retention_target": ring_retention,
    "drain_target": drain_target,
}
"""Columns with what the operator wants."""


def scheduled(queues: Table[QueueRow]) -> Column:
    """(queues,) Messages that are not due; 0 where queues of this kind of broker hold none."""
    if "scheduled" in queues:
        return queues["scheduled"]
    return np.zeros(len(queues))


def ready(queues: Table[QueueRow]) -> Column:
    """(queues,) Messages that wait for a consumer."""
    # A last-value queue does not count those in delivery among its messages.
    is_last_value = queues["last_value"] > 0
    delivering = np.where(is_last_value, 0.0, queues["delivering"])
    return np.maximum(queues["messages"] - delivering - scheduled(queues), 0)


def queue_table(
    state: Queues, queues: Table[QueueRow], addresses: Table[AddressRow] | None
) -> Table[QueueSeries]:
    """Return the numbers of the queues, by series.

    Gauges are sums over the queues of a series, flags are 1 where any queue has it. Settings, and how full a ring is,
    say nothing about a sum: it has NaN.
    """
    grouping = state.grouping
    index = grouping.index
    columns = {name: grouping.sum(queues[name]) for name in GAUGES if name in queues}
    waiting = ready(queues)
    columns["ready"] = grouping.sum(waiting)
    columns |= {name: grouping.max(queues[name]) for name in FLAGS if name in queues}
    for counter, name in enumerate(COUNTERS):
        if name in queues:
            columns[name] = counter_column(state, queues, counter)
    for name in SETTINGS:
        if name in queues:
            setting = grouping.max(queues[name])
            columns[name] = np.where(is_alone(grouping), setting, np.nan)
    if "ring_limit" in queues:
        columns["ring_used_ratio"] = ring_used(grouping, queues, waiting, addresses)
    columns |= {name: index.column(name, target) for name, target in TARGETS.items()}
    columns["info"] = np.ones(len(index))
    columns["dead_letter_info"] = index.column("dead_letter_info", has_targets)
    return Table(index, columns)


def has_targets(series: QueueSeries) -> float:
    """Return 1 where the queue has a dead-letter or an expiry address, else NaN."""
    has_any = series.dead_letter_address or series.expiry_address
    return 1.0 if has_any else np.nan


def is_alone(grouping: Grouping[QueueSeries]) -> Mask:
    """(series,) Whether it is a series of one queue."""
    return grouping.index.column("alone", lambda series: not series.summed) > 0


def counter_column(state: Queues, queues: Table[QueueRow], counter: int) -> Column:
    """(series,) One of `COUNTERS`: the broker's own for a single queue, else a total.

    A total goes on when one of its queues goes away. It is NaN where no queue ever had the number.
    """
    grouping = state.grouping
    of_broker = grouping.max(counted(state, queues, COUNTERS[counter]))
    total = state.totals.sum_of(counter)
    never_counted = np.isnan(of_broker) & (total == 0)
    return np.where(is_alone(grouping) | never_counted, of_broker, total)


def ring_used(
    grouping: Grouping[QueueSeries],
    queues: Table[QueueRow],
    waiting: Column,
    addresses: Table[AddressRow] | None,
) -> Column:
    """(series,) Share of a ring that is used; NaN for sums, and for queues of an address that is paging.

    A ring is a queue with a limit: when it is full, it evicts its oldest message for each new one. While its address is
    paging it evicts nothing.

    waiting: (queues,) Messages that wait for a consumer.
    """
    limit = queues["ring_limit"]
    limit_applies = (limit > 0) & (paging_queues(queues, addresses) == 0)
    used_ratio = waiting / np.where(limit_applies, limit, np.nan)
    return np.where(is_alone(grouping), grouping.max(used_ratio), np.nan)


def counted(state: Queues, queues: Table[QueueRow], name: str) -> Column:
    """(queues,) A counter of the broker; `added` without the messages that the broker only reloaded at its start."""
    reloaded = state.reloaded
    is_current = (
        reloaded.index is queues.index
    )  # never for a kind of broker that does not count reloaded messages
    if name != "added" or not is_current:
        return queues[name]
    return queues[name] - reloaded.messages


def paging_queues(
    queues: Table[QueueRow], addresses: Table[AddressRow] | None
) -> Column:
    """(queues,) 1 for the queues of an address that is paging, else 0."""
    none = np.zeros(len(queues))
    if addresses is None or "paging" not in addresses:
        return none
    is_paging = addresses["paging"] > 0
    if not is_paging.any():
        return none
    paging = {address.name for address in addresses.index.rows[is_paging]}
    return np.array([float(queue.address in paging) for queue in queues.index])
