"""Transactions that are prepared and wait for their manager, and messages that no consumer has (OpenMQ).

A transaction is prepared when its client has finished its part and only its manager may commit it. If the client is
gone, it keeps its messages out of everybody's reach, even over restarts of the broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Table
from penstock.core.windows import since
from penstock.model import AddressRow, Snapshot, TransactionRow, TransactionState
from penstock.observation.facts import Facts, or_zero

FEWEST = 2.0
"""Messages that no consumer has: a single one may be between two counters for good."""


class PreparedTransaction(NamedTuple):
    """A transaction that is prepared; times by the broker's clock.

    Attributes:
        transaction: Its identity.
        sent: Messages that were sent in it.
        received: Messages that were received in it.
        created: When it began.
        since: When it was first seen prepared.
    """

    transaction: TransactionRow
    sent: float
    received: float
    created: float
    since: float


@dataclass(frozen=True, slots=True)
class Prepared(RowState):
    """The transactions that are prepared, and the topics with messages that no consumer has."""

    since: Column = column(saved=False)
    """Per transaction since when it is prepared."""
    listed: Sequence[PreparedTransaction] = unindexed(tuple)
    """The oldest first."""
    stuck: dict[str, tuple[float, float]] = unindexed(dict)
    """By topic without consumers the messages that the broker counts as delivered to some, and since when it does."""
    received: float = unindexed(lambda: np.nan)
    """Messages received in transactions of any state, NaN: not known."""
    in_doubt: float = unindexed(float)
    """Messages received in prepared transactions."""
    abandoned: float = unindexed(float)
    """Those of them whose client is gone."""

    def advance(self, facts: Facts, snapshot: Snapshot) -> "Prepared":
        """Return the state after a poll; without a list of transactions only the topics are known."""
        stuck = self._stuck_since(topics_with_nobody(snapshot), facts.now)
        transactions = snapshot.transactions
        if transactions is None:
            return Prepared(stuck=stuck)
        is_prepared = transactions["state"] == TransactionState.PREPARED
        before = self.reindexed(transactions.index)
        prepared_since = since(is_prepared, before.since, facts.now)
        received = transactions["acknowledgements"]
        known_received = or_zero(received)
        is_abandoned = is_prepared & (snapshot.transaction_connection < 0)
        is_read = is_listing_of_this_poll(snapshot)
        return Prepared(
            index=transactions.index,
            since=prepared_since,
            listed=list_prepared(transactions, is_prepared, prepared_since),
            stuck=stuck,
            received=float(received.sum()) if is_read else np.nan,
            in_doubt=float(known_received[is_prepared].sum()),
            abandoned=float(known_received[is_abandoned].sum()),
        )

    def _stuck_since(
        self, topics: Mapping[str, float], now: float
    ) -> dict[str, tuple[float, float]]:
        """Return the messages of each of these topics, and since when it has been one of them."""
        stuck = {}
        for name, messages in topics.items():
            before = self.stuck.get(name)
            stuck[name] = (messages, now if before is None else before[1])
        return stuck


def is_listing_of_this_poll(snapshot: Snapshot) -> bool:
    """Return whether the transactions were listed at this poll; else they are those of an earlier one."""
    collector = snapshot.collectors.get("transactions")
    return collector is None or collector.usable


def list_prepared(
    transactions: Table[TransactionRow], is_prepared: Mask, prepared_since: Column
) -> list[PreparedTransaction]:
    """Return the prepared transactions, the one that began first at the front."""
    sent = or_zero(transactions["messages"])
    received = or_zero(transactions["acknowledgements"])
    created = transactions["created"]
    listed = [
        PreparedTransaction(
            transaction=transactions.index.rows[row],
            sent=float(sent[row]),
            received=float(received[row]),
            created=float(created[row]),
            since=float(prepared_since[row]),
        )
        for row in np.flatnonzero(is_prepared).tolist()
    ]
    return sorted(listed, key=lambda prepared: prepared.created)


def topics_with_nobody(snapshot: Snapshot) -> dict[str, float]:
    """Return by topic the messages that the broker counts as delivered, where no consumer and no subscription is."""
    addresses = snapshot.addresses
    queues = snapshot.queues
    consumers = snapshot.consumers
    if addresses is None or queues is None or consumers is None:
        return {}
    delivering = delivering_by_topic(addresses)
    if not delivering:
        return {}
    subscribed = {row.address for row in queues.index}
    consumed = {row.address for row in consumers.index}
    return {
        name: messages
        for name, messages in delivering.items()
        if name not in subscribed and name not in consumed
    }


def delivering_by_topic(addresses: Table[AddressRow]) -> dict[str, float]:
    """Return the messages in delivery of each topic that has some and counts them exactly."""
    if "topic" not in addresses:
        return {}
    is_topic = addresses["topic"] > 0
    is_exact = addresses["exact"] > 0
    delivering = addresses["delivering"]
    topics = np.flatnonzero(is_topic & is_exact & (delivering >= FEWEST))
    rows = addresses.index.rows
    return {rows[row].name: float(delivering[row]) for row in topics.tolist()}
