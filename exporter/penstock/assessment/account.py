"""The account as series: how many messages of a queue had which fate, and of an address those that came to no queue.

A *fate* is what became of a message: it was delivered, expired, evicted … An account may know only bounds of a number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from penstock.series.labels import (
    TEMPORARY,
    AddressSeries,
    Grouping,
    QueueSeries,
)
from penstock.series.queues import Queues

SHOWN_WHERE_PROBABLE = frozenset({"rolled_back", "missing"})
"""Fates that any message sent between two reads may have: that alone is no news about a busy address."""


@dataclass(frozen=True, slots=True)
class MessageFate:
    """The labels of a series: `queue` is empty for messages that came to no queue of the address."""

    broker: str
    address: str
    queue: str
    fate: str


@dataclass(frozen=True, slots=True)
class FateRows:
    """The rows of a table whose messages have one fate, or may have it.

    Attributes:
        keys: (rows,) One number for each row and its fate, the identity of its series: the key of the row times the
            number of all fates, and the fate's number.
        positions: (rows,) The position of each in the table.
        at_least: (rows,) Messages at least.
        at_most: (rows,) Messages at most; infinite where no bound is known.
        label: Makes the labels of the row at a position.
    """

    keys: Keys
    positions: Positions
    at_least: Column
    at_most: Column
    label: Callable[[int], MessageFate]


def fate_table(
    account: MessageAccount,
    queues: Queues,
    rows: Table[QueueRow],
    join: AddressJoin,
    addresses: Grouping[AddressSeries],
    before: Index[MessageFate],
) -> Table[MessageFate]:
    """Return a row for each queue or address and each fate that its messages have.

    Its columns: `messages`, at least so many; `uncertain`, so many more are possible, NaN where the number is exact and
    where no upper bound is known.

    Args:
        account: The account after this poll.
        queues: The series of the queues.
        rows: The queues of this poll.
        join: The address of each queue.
        addresses: The series of the addresses.
        before: The rows of this table at the last poll.
    """
    grouping = queues.grouping
    # All are by the same queues, those of this poll: not so where the poll was not judged.
    is_current = account.books.index is rows.index is join.queues is grouping.source
    if not (account.watched and is_current):
        return Table(Index.empty())
    accounted = queues_with_account(grouping, rows)
    parts = queue_fate_rows(account, grouping, rows, accounted)
    if account.address_books.index is grouping.source:
        _, first_queues = np.unique(join.at[accounted], return_index=True)
        one_per_address = accounted[first_queues]
        parts += address_fate_rows(account, grouping, one_per_address)
    parts += unrouted_at_bare_addresses(account.bare, addresses)
    return as_table(parts, before)


def queues_with_account(
    grouping: Grouping[QueueSeries], rows: Table[QueueRow]
) -> Positions:
    """Return the positions of the judged queues that are a series of their own."""
    is_alone = grouping.by_source("alone", lambda series: not series.summed) > 0
    is_judged = rows.index.column("judged", lambda row: row.kind in JUDGED) > 0
    return np.flatnonzero(is_alone & is_judged)


def queue_fate_rows(
    account: MessageAccount,
    grouping: Grouping[QueueSeries],
    rows: Table[QueueRow],
    accounted: Positions,
) -> list[FateRows]:
    """Return the rows of each fate of messages that came to a queue. accounted: positions of queues."""
    return [
        rows_of_queue_fate(number, bounds, grouping, accounted)
        for number, bounds in enumerate(queue_fates(account, rows).values())
    ]


def address_fate_rows(
    account: MessageAccount, grouping: Grouping[QueueSeries], queues: Positions
) -> list[FateRows]:
    """Return the rows of each fate of messages that came to no queue.

    The fates `SHOWN_WHERE_PROBABLE` are left out where nothing but the time between two reads makes them possible: they
    are probable where some are sure, or where messages of a rollback are still missing.

    queues: The position of one queue of each address, to stand for it.
    """
    bounds_by_fate = address_fates(account)
    lacks_messages = account.rollbacks.reindexed(grouping.source).unsettled > 0
    parts: list[FateRows] = []
    for number, fate in enumerate(ADDRESS_FATES, len(QUEUE_FATES)):
        low, high = bounds_by_fate[fate]
        if fate in SHOWN_WHERE_PROBABLE:
            is_probable = (low > 0) | lacks_messages
            high = np.where(is_probable, high, 0.0)
        parts.append(rows_of_queue_fate(number, (low, high), grouping, queues))
    return parts


def rows_of_queue_fate(
    number: int, bounds: Bounds, grouping: Grouping[QueueSeries], queues: Positions
) -> FateRows:
    """Return the rows of one fate in the account of Artemis. number: the fate's position in `FATES`."""
    fate = FATES[number]

    def keys(positions: Positions) -> Keys:
        return len(FATES) * grouping.keys[positions] + number

    def label(queue: int) -> MessageFate:
        series = grouping.index.rows[grouping.member[queue]]
        name = series.queue if fate in QUEUE_FATES else ""
        return MessageFate(series.broker, series.address, name, fate)

    return rows_with_messages(queues, bounds, keys, label)


def unrouted_at_bare_addresses(
    bare: BareAddresses, addresses: Grouping[AddressSeries]
) -> list[FateRows]:
    """Return the unrouted messages of addresses that have no queue and are a series of their own."""
    if bare.index is not addresses.source:
        return []
    is_alone = (
        addresses.by_source("alone", lambda series: series.address != TEMPORARY) > 0
    )
    bare_addresses = np.flatnonzero(is_alone & bare.bare)

    def keys(positions: Positions) -> Keys:
        """Return keys below 0, where no key of a queue is."""
        number = FATES.index("unrouted") - len(FATES)
        return -1 - len(FATES) * addresses.keys[positions] + number

    def label(position: int) -> MessageFate:
        series = addresses.index.rows[addresses.member[position]]
        return MessageFate(series.broker, series.address, "", "unrouted")

    bounds = (bare.unrouted, bare.unrouted)
    return [rows_with_messages(bare_addresses, bounds, keys, label)]


def rows_with_messages(
    rows: Positions,
    bounds: Bounds,
    keys: Callable[[Positions], Keys],
    label: Callable[[int], MessageFate],
) -> FateRows:
    """Return those of `rows` whose messages have a fate, or may have it up to a known bound.

    Args:
        rows: The positions of the rows to look at.
        bounds: (all rows,) Messages at least, and at most.
        keys: Makes the keys of the rows at some positions.
        label: Makes the labels of the row at a position.
    """
    at_least = bounds[0][rows]
    at_most = bounds[1][rows]
    is_possible = (at_most > 0) & np.isfinite(at_most)
    kept = np.flatnonzero((at_least > 0) | is_possible)
    positions = rows[kept]
    return FateRows(keys(positions), positions, at_least[kept], at_most[kept], label)


def as_table(
    parts: Sequence[FateRows], before: Index[MessageFate]
) -> Table[MessageFate]:
    """Return one table of the rows of all fates, with the columns that `fate_table` describes.

    before: the rows of that table at the last poll.
    """
    keys = np.concatenate([part.keys for part in parts])
    positions = np.concatenate([part.positions for part in parts])
    low = np.concatenate([part.at_least for part in parts])
    high = np.concatenate([part.at_most for part in parts])
    part_of_row = np.repeat(np.arange(len(parts)), [len(part.keys) for part in parts])

    def labels(new: list[int]) -> list[MessageFate]:
        return [parts[part_of_row[row]].label(positions[row]) for row in new]

    index, order = before.advance(keys, labels)
    messages = np.where(low > 0, low, np.nan)
    has_upper_bound = np.isfinite(high) & (high > low)
    uncertain = np.where(has_upper_bound, high - low, np.nan)
    return Table(index, {"messages": messages[order], "uncertain": uncertain[order]})


def unexplained(
    books: QueueBooks | DestinationBooks, queues: Queues
) -> dict[str, Column]:
    """Return columns by the queues' series, NaN where there are none.

    `unexplained`: messages whose change no reason explains. `redistributed`: messages that other brokers of the
    cluster got.
    """
    grouping = queues.grouping
    if books.index is not grouping.source:
        return {}
    columns = {"unexplained": positive_sums(grouping, np.abs(books.unexplained))}
    if isinstance(books, QueueBooks):
        columns["redistributed"] = positive_sums(grouping, books.passed_on)
    return columns


def in_doubt(account: MessageAccount, queues: Queues) -> dict[str, Column]:
    """Return a column by the queues' series: messages in prepared transactions that no client has; at least so many."""
    if account.in_doubt.index is not queues.grouping.source:
        return {}
    at_least, at_most = account.in_doubt.bounds
    messages = np.where(np.isnan(at_most), np.nan, at_least)
    return {"in_doubt": positive_sums(queues.grouping, messages)}


def positive_sums(grouping: Grouping[QueueSeries], amounts: Column) -> Column:
    """(series,) The sum of the positive amounts of its queues; NaN where there are none."""
    return grouping.sum(np.where(amounts > 0, amounts, np.nan))
