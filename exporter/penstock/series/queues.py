"""Queues as they are shown: their labels, what waits, what has passed, how full a ring is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Table
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

COUNTERS = ("added", "acknowledged", "expired", "killed", "removed")
GAUGES = ("messages", "delivering", "scheduled", "bytes", "consumers", "uncommitted")


@dataclass(frozen=True, slots=True)
class Reloaded(RowState):
    """messages: of those that a queue counts as added, how many were there before its broker started or took over.
    depth: messages in the queue at the poll before. process: of that poll; None: the broker was passive.
    """

    BY = By.QUEUE
    messages: Column = column(0.0, stored_as="reloaded_messages")
    depth: Column = column(saved=False)
    process: Process | None = unindexed(Process)

    def advance(self, queues: Table[QueueRow], process: Process) -> "Reloaded":
        """After a poll of a broker whose kind counts them."""
        before = self.reindexed(queues.index)
        added = np.nan_to_num(queues["added"])
        if self.process is None:
            # Of another broker's queues: what came since it took over cannot be distinguished from what it loaded.
            messages = added
        elif process.replaces(self.process):
            messages = np.fmin(added, np.nan_to_num(before.depth))
        else:
            messages = before.messages
            if messages.any():  # an operator may have set the counter back
                messages = np.where(added < messages, 0.0, messages)
        return replace(
            before, messages=messages, depth=queues["messages"], process=process
        )


@dataclass(frozen=True, slots=True)
class Queues:
    """grouping: which series each queue belongs to. totals: COUNTERS of series that sum several queues."""

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
        rows = queues.index.rows
        grouping = self.grouping.advance(
            queues.index, lambda new: [queue_series(rows[i], policy) for i in new]
        )
        # A queue that is a series of its own shows the broker's counters: there is nothing to keep when it goes.
        counters = [queues[name] for name in COUNTERS]
        totals = self.totals.advance(
            grouping,
            counters,
            lambda series: series.summed,
            observation.late.get("queues"),
        )
        reloaded = (
            self.reloaded.advance(queues, observation.process)
            if counts_reloaded
            else self.reloaded
        )
        return Queues(grouping, totals, reloaded)

    def passive(self) -> "Queues":
        """After a poll at which the broker was passive."""
        return replace(self, reloaded=replace(self.reloaded, process=None))

    def with_new_labels(self) -> "Queues":
        return Queues(totals=self.totals, reloaded=self.reloaded)


def queue_series(row: QueueRow, policy: Policy) -> QueueSeries | None:
    """The labels of a queue; None when the operator does not want it shown."""
    if (said := policy.of_queue(row.address, row.name)) is None:
        return None
    if policy.sum_temporary and row.kind is QueueKind.TEMPORARY:
        return sum_series(policy, TEMPORARY, TEMPORARY, row)
    if policy.sum_temporary and row.kind is QueueKind.SUBSCRIPTION and not row.durable:
        return sum_series(policy, row.address, NON_DURABLE, row)
    return _labelled(row, policy, said)


def sum_series(policy: Policy, address: str, queue: str, row: QueueRow) -> QueueSeries:
    """The labels of a sum: nothing in them may differ from member to member, or one sum would be several series."""
    routing = "multicast" if queue == NON_DURABLE else "anycast"
    member = QueueRow(
        queue, address, routing, False, True, "", row.kind, RingSource.NONE, "", ""
    )
    return replace(
        _labelled(member, policy, policy.rules.resolve(policy.broker, address, queue)),
        summed=True,
    )


def _labelled(row: QueueRow, policy: Policy, said: RuleSettings) -> QueueSeries:
    return QueueSeries(
        broker=policy.broker,
        address=row.address,
        queue=row.name,
        routing_type=row.routing_type,
        durable=str(row.durable).lower(),
        kind=said.kind or row.kind,
        ring_source=row.ring_source,
        owner=said.owner or "",
        team=said.team or "",
        dead_letter_address=row.dead_letter_address,
        expiry_address=row.expiry_address,
        said=said,
    )


def number_or_nan(said: float | None) -> float:
    """A rule's value as a number; NaN where it has none."""
    return np.nan if said is None else float(said)


TARGETS: Mapping[str, Callable[[QueueSeries], float]] = {
    "expected_consumers": lambda series: number_or_nan(series.said.expected_consumers),
    "ring_retention_target": lambda series: number_or_nan(series.said.ring_retention),
    "drain_target": lambda series: number_or_nan(series.said.drain_target),
}
"""Columns of what the operator wants."""


def scheduled(queues: Table[QueueRow]) -> Column:
    """Messages that are not due; none where queues of the kind hold no such."""
    return queues["scheduled"] if "scheduled" in queues else np.zeros(len(queues))


def ready(queues: Table[QueueRow]) -> Column:
    """Messages that wait for a consumer. A last-value queue does not count those in delivery among its messages."""
    delivering = np.where(queues["last_value"] > 0, 0.0, queues["delivering"])
    return np.maximum(queues["messages"] - delivering - scheduled(queues), 0)


def queue_table(
    state: Queues, queues: Table[QueueRow], addresses: Table[AddressRow] | None
) -> Table[QueueSeries]:
    grouping = state.grouping
    waiting = ready(queues)
    columns = {name: grouping.sum(queues[name]) for name in GAUGES if name in queues}
    columns["ready"] = grouping.sum(waiting)
    if "paused" in queues:
        columns["paused"] = grouping.max(queues["paused"])
    alone = grouping.index.column("alone", lambda series: not series.summed) > 0
    for number, name in enumerate(COUNTERS):
        if name in queues:
            # What is summed goes on when one of its queues goes away; a single queue's counter is the broker's own.
            last = grouping.max(counted(state, queues, name))
            total = state.totals.sum_of(number)
            columns[name] = np.where(
                alone | (np.isnan(last) & (total == 0)), last, total
            )
    if "ring_limit" in queues:
        limit = queues["ring_limit"]
        used = waiting / np.where(
            (limit > 0) & (paging_queues(queues, addresses) == 0), limit, np.nan
        )
        columns["ring_limit"] = np.where(alone, grouping.max(limit), np.nan)
        columns["ring_used_ratio"] = np.where(alone, grouping.max(used), np.nan)
    columns |= {name: grouping.index.column(name, of) for name, of in TARGETS.items()}
    columns["info"] = np.ones(len(grouping.index))
    columns["dead_letter_info"] = grouping.index.column(
        "dead_letter_info",
        lambda series: (
            1.0 if series.dead_letter_address or series.expiry_address else np.nan
        ),
    )
    return Table(grouping.index, columns)


def counted(state: Queues, queues: Table[QueueRow], name: str) -> Column:
    """A counter of the broker's, without what was only reloaded."""
    reloaded = state.reloaded
    if name != "added" or reloaded.index is not queues.index:
        return queues[name]
    return queues[name] - reloaded.messages


def paging_queues(
    queues: Table[QueueRow], addresses: Table[AddressRow] | None
) -> Column:
    """1 for the queues of an address that is paging."""
    if (
        addresses is None
        or "paging" not in addresses
        or not np.nansum(addresses["paging"])
    ):
        return np.zeros(len(queues))
    paging = {
        row.name
        for row, on in zip(addresses.index, addresses["paging"], strict=True)
        if on > 0
    }
    return np.array([float(row.address in paging) for row in queues.index])
