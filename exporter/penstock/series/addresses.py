"""Addresses as they are shown: memory and its limits, paging, who sends, what goes nowhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Keys, Positions, Table, looked_up
from penstock.model import AddressRow, ProducerRow
from penstock.series.labels import HIDDEN, TEMPORARY, AddressSeries, Grouping, QueueSeries, sum_by
from penstock.settings.policy import Policy

_SHOWN, _SUMMED, _NOT_SHOWN = 0, 1, 2
GAUGES = (
    "memory_bytes", "memory_used_ratio", "limit_bytes", "limit_messages", "messages_added", "messages_unrouted",
    "pages",
)  # fmt: skip
FLAGS = ("paging", "paused", "producers_paused")


@dataclass(frozen=True, slots=True)
class Addresses:
    """
    What is carried from poll to poll.

    by: the queues by which it was told which addresses are shown. of_queue: per queue series the position of its
    address. position: of the addresses by name.
    """

    grouping: Grouping[AddressSeries] = field(default_factory=Grouping)
    by: Grouping[QueueSeries] | None = None
    of_queue: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    position: Mapping[str, int] = field(default_factory=dict)

    def advance(self, addresses: Table[AddressRow], queues: Grouping[QueueSeries], policy: Policy) -> "Addresses":
        if addresses.index is self.grouping.source and queues is self.by:
            return self
        rows = addresses.index.rows
        context = address_context(queues, addresses, policy)

        def label(new: list[int]) -> list[AddressSeries | None]:
            return [address_series(rows[i], context[i], policy) for i in new]

        grouping = self.grouping.advance(addresses.index, label, context)
        position = self.position
        if grouping.index is not self.grouping.index:
            position = {series.address: i for i, series in enumerate(grouping.index)}
        return Addresses(grouping, queues, looked_up(position, [row.address for row in queues.index]), position)


def address_series(row: AddressRow, context: int, policy: Policy) -> AddressSeries | None:
    if context == _NOT_SHOWN:
        return None
    if context == _SUMMED:
        return AddressSeries(policy.broker, TEMPORARY, "")
    return AddressSeries(policy.broker, row.name, row.policy)


def address_context(queues: Grouping[QueueSeries], addresses: Table[AddressRow], policy: Policy) -> Keys:
    """Per address whether it is shown: not when all its queues are hidden, summed when it is temporary."""
    of_queue: dict[str, int] = {}
    for row, member in zip(queues.source, queues.member.tolist(), strict=True):
        if member == HIDDEN:
            of_queue.setdefault(row.address, _NOT_SHOWN)
        else:
            of_queue[row.address] = _SUMMED if queues.index.rows[member].address == TEMPORARY else _SHOWN
    temporary = addresses["temporary"] > 0 if policy.sum_temporary else np.zeros(len(addresses), np.bool_)

    def alone(row: AddressRow, *, temporary: bool) -> int:
        if temporary:
            return _SUMMED
        return _SHOWN if policy.selection(row.name, "") else _NOT_SHOWN

    return np.array(
        [
            of_queue[row.name] if row.name in of_queue else alone(row, temporary=on)
            for row, on in zip(addresses.index, temporary.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def address_table(
    state: Addresses,
    addresses: Table[AddressRow],
    messages: Column | None,
    producers: Table[ProducerRow] | None,
) -> Table[AddressSeries]:
    """`messages`: of each queue series, None while the queues are not known."""
    grouping, size = state.grouping, len(state.grouping.index)
    columns = {name: grouping.sum(addresses[name]) for name in GAUGES if name in addresses}
    columns |= {name: grouping.max(addresses[name]) for name in FLAGS if name in addresses}
    if "messages" in addresses:
        columns["messages"] = grouping.sum(addresses["messages"])
    elif messages is not None:
        columns["messages"] = sum_by(state.of_queue, messages, size)
    if producers is not None:
        at = looked_up(state.position, [row.address for row in producers.index])
        columns["producers"] = sum_by(at, np.ones(len(at)), size)
    columns["info"] = grouping.index.column("info", lambda series: 1.0 if series.policy else np.nan)
    return Table(grouping.index, columns)
