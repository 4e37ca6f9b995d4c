"""
Transactions that are prepared and wait for their manager, and messages that are with nobody (OpenMQ).

A healthy XA transaction is prepared for a moment. One whose client is gone keeps what it sent and received out of
everybody's reach, over restarts of the broker, until it is committed or rolled back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column
from penstock.core.windows import since
from penstock.model import Snapshot, TransactionRow, TransactionState
from penstock.observation.facts import Facts, or_zero

FEWEST = 2.0
"""Messages with nobody: one may be between two counters for good."""


class PreparedTransaction(NamedTuple):
    """One prepared transaction. created, since: when it began, and was first seen prepared, by the broker's clock."""

    transaction: TransactionRow
    sent: float
    received: float
    created: float
    since: float


@dataclass(frozen=True, slots=True)
class Prepared(RowState):
    """
    By transaction since when it is prepared. stuck: by topic without consumers, messages that some still have.
    received: in transactions of any state, NaN: not known. abandoned: the same in prepared ones without a client.
    """

    since: Column = column(saved=False)
    listed: Sequence[PreparedTransaction] = unindexed(tuple)
    """The oldest first."""
    stuck: dict[str, tuple[float, float]] = unindexed(dict)
    """How many, and since when."""
    received: float = unindexed(lambda: np.nan)
    abandoned: float = unindexed(float)

    def advance(self, found: Facts, snapshot: Snapshot) -> "Prepared":
        transactions = snapshot.transactions
        alone = {
            name: (number, self.stuck.get(name, (number, found.now))[1])
            for name, number in topics_with_nobody(snapshot).items()
        }
        if transactions is None or not len(transactions):
            return Prepared(stuck=alone, received=np.nan if transactions is None or not usable(snapshot) else 0.0)
        waits = transactions["state"] == TransactionState.PREPARED
        begun = since(waits, self.reindexed(transactions.index).since, found.now)
        sent, received = or_zero(transactions["messages"]), or_zero(transactions["acknowledgements"])
        listed = [
            PreparedTransaction(
                transactions.index.rows[i],
                float(sent[i]),
                float(received[i]),
                float(transactions["created"][i]),
                float(begun[i]),
            )
            for i in np.flatnonzero(~np.isnan(begun)).tolist()
        ]
        listed.sort(key=lambda one: one.created)
        total = float(transactions["acknowledgements"].sum()) if usable(snapshot) else np.nan
        abandoned = float(received[waits & (snapshot.transaction_connection < 0)].sum())
        return Prepared(transactions.index, begun, listed, alone, total, abandoned)

    @property
    def in_doubt(self) -> float:
        """Received in prepared transactions."""
        return sum(one.received for one in self.listed)


def usable(snapshot: Snapshot) -> bool:
    """Whether transactions were read at this poll: else those of an earlier one stand in."""
    collector = snapshot.collectors.get("transactions")
    return collector is None or collector.usable


def topics_with_nobody(snapshot: Snapshot) -> dict[str, float]:
    """Messages that a topic says consumers have, and nobody is there: neither a consumer nor a subscription."""
    addresses, queues, consumers = snapshot.addresses, snapshot.queues, snapshot.consumers
    if addresses is None or queues is None or consumers is None or "topic" not in addresses:
        return {}
    at = np.flatnonzero((addresses["topic"] > 0) & (addresses["delivering"] >= FEWEST) & (addresses["exact"] > 0))
    if not len(at):
        return {}
    attended = {row.address for row in queues.index} | {row.address for row in consumers.index}
    found = {addresses.index.rows[i].name: float(addresses["delivering"][i]) for i in at.tolist()}
    return {name: number for name, number in found.items() if name not in attended}
