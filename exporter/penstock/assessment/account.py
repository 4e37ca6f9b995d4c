"""The account as series: by fate of a queue's messages, and of those that came to no queue of an address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penstock.account.account import MessageAccount
from penstock.account.bare_addresses import BareAddresses
from penstock.account.fates import (
    ADDRESS_FATES,
    FATES,
    QUEUE_FATES,
    Bounds,
    address_fates,
    queue_fates,
)
from penstock.account.openmq_books import DestinationBooks
from penstock.account.queue_books import QueueBooks
from penstock.core.table import Column, Index, Keys, Positions, Table
from penstock.model import QueueRow
from penstock.observation.facts import JUDGED, AddressJoin
from penstock.series.labels import TEMPORARY, AddressSeries, Grouping
from penstock.series.queues import Queues


@dataclass(frozen=True, slots=True)
class MessageFate:
    """queue: empty for what came to no queue of the address."""

    broker: str
    address: str
    queue: str
    fate: str


OfFate: TypeAlias = tuple[int, Positions, Column, Column]
"""A fate, rows that have it, messages at least and at most."""


def fate_table(
    account: MessageAccount,
    queues: Queues,
    rows: Table[QueueRow],
    join: AddressJoin,
    addresses: Grouping[AddressSeries],
    before: Index[MessageFate],
) -> Table[MessageFate]:
    """Only fates that messages have. messages: at least so many. uncertain: may be so many more; NaN where it is exact
    and where no most is known. before: of the last poll.
    """
    grouping = queues.grouping
    if not (
        account.watched
        and account.books.index is rows.index is join.queues is grouping.source
    ):
        return Table(Index.empty())
    alone = grouping.index.column("alone", lambda series: not series.summed) > 0
    judged = rows.index.column("judged", lambda row: row.kind in JUDGED) > 0
    shown = np.flatnonzero(np.append(alone, np.False_)[grouping.member] & judged)
    found = [
        some(fate, shown, bounds)
        for fate, bounds in enumerate(queue_fates(account, rows).values())
    ]
    if account.address_books.index is grouping.source:
        first = shown[np.unique(join.at[shown], return_index=True)[1]]
        by_fate = address_fates(account)
        lacks = account.rollbacks.reindexed(grouping.source).unsettled > 0
        for fate, name in enumerate(ADDRESS_FATES, len(QUEUE_FATES)):
            low, high = by_fate[name]
            if name in {"rolled_back", "missing"}:
                # What was sent between two reads may be; it is no news of each busy address.
                high = np.where((low > 0) | lacks, high, 0.0)
            found.append(some(fate, first, (low, high)))

    of_bare = unrouted_at_bare_addresses(account.bare, addresses)

    def label(fate: int, at: int) -> MessageFate:
        """Those of addresses without a queue are numbered below 0."""
        if fate < 0:
            address = addresses.index.rows[addresses.member[at]]
            return MessageFate(address.broker, address.address, "", FATES[fate])
        series = grouping.index.rows[grouping.member[at]]
        name = FATES[fate]
        return MessageFate(
            series.broker,
            series.address,
            series.queue if name in QUEUE_FATES else "",
            name,
        )

    keys = [len(FATES) * grouping.keys[at] + fate for fate, at, _, _ in found]
    keys += [-1 - len(FATES) * addresses.keys[at] + fate for fate, at, _, _ in of_bare]
    return as_table(found + of_bare, np.concatenate(keys), label, before)


def unrouted_at_bare_addresses(
    bare: BareAddresses, addresses: Grouping[AddressSeries]
) -> list[OfFate]:
    """Of addresses without a queue that are shown as they are: what reached no queue."""
    if bare.index is not addresses.source:
        return []
    alone = (
        addresses.index.column("alone", lambda series: series.address != TEMPORARY) > 0
    )
    shown = np.flatnonzero(np.append(alone, np.False_)[addresses.member] & bare.bare)
    return [
        some(
            FATES.index("unrouted") - len(FATES), shown, (bare.unrouted, bare.unrouted)
        )
    ]


def as_table(
    found: Sequence[OfFate],
    keys: Keys,
    label: Callable[[int, int], MessageFate],
    before: Index[MessageFate],
) -> Table[MessageFate]:
    """What `some` found of each fate. keys: of all its rows; label: of a fate and a row."""
    fates = np.concatenate([np.full(len(at), fate) for fate, at, _, _ in found])
    at, low, high = (np.concatenate([one[part] for one in found]) for part in (1, 2, 3))
    index, order = before.advance(
        keys, lambda new: [label(fates[i], at[i]) for i in new]
    )
    uncertain = np.where(np.isfinite(high) & (high > low), high - low, np.nan)
    return Table(
        index,
        {
            "messages": np.where(low > 0, low, np.nan)[order],
            "uncertain": uncertain[order],
        },
    )


def some(fate: int, rows: Positions, bounds: Bounds) -> OfFate:
    """Of these rows those with messages of that fate, or possibly so."""
    low = bounds[0][rows]
    high = bounds[1][rows]
    has = np.flatnonzero((low > 0) | ((high > 0) & np.isfinite(high)))
    return fate, rows[has], low[has], high[has]


def unexplained(
    books: QueueBooks | DestinationBooks, queues: Queues
) -> dict[str, Column]:
    """Columns of the queues' series: what no reason explains; what others of the cluster got. NaN: none."""
    if books.index is not queues.grouping.source:
        return {}
    amounts = {"unexplained": np.abs(books.unexplained)}
    if isinstance(books, QueueBooks):
        amounts["redistributed"] = books.passed_on
    return {
        name: queues.grouping.sum(np.where(one > 0, one, np.nan))
        for name, one in amounts.items()
    }


def in_doubt(account: MessageAccount, queues: Queues) -> dict[str, Column]:
    """A column of the queues' series: messages of prepared transactions that no client has, at least; NaN: none."""
    if account.in_doubt.index is not queues.grouping.source:
        return {}
    least, most = account.in_doubt.bounds
    return {
        "in_doubt": queues.grouping.sum(
            np.where((least > 0) & ~np.isnan(most), least, np.nan)
        )
    }
