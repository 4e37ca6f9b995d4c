"""Transactions that are prepared and wait for their manager, and messages that are with no one (OpenMQ).

One whose client is gone keeps what it sent and received out of everybody's reach, over restarts of the broker.
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
"""Messages with no one: one may be between two counters for good."""


class PreparedTransaction(NamedTuple):
    """created, since: when it began, and was first seen prepared, by the broker's clock."""

    transaction: TransactionRow
    sent: float
    received: float
    created: float
    since: float


@dataclass(frozen=True, slots=True)
class Prepared(RowState):
    """By transaction since when it is prepared. stuck: by topic without consumers, messages that some still have.
    received: in transactions of any state, NaN: not known; in_doubt: in prepared ones; abandoned: whose client is gone.
    """

    since: Column = column(saved=False)
    listed: Sequence[PreparedTransaction] = unindexed(tuple)
    """The oldest first."""
    stuck: dict[str, tuple[float, float]] = unindexed(dict)
    """How many, and since when."""
    received: float = unindexed(lambda: np.nan)
    in_doubt: float = unindexed(float)
    abandoned: float = unindexed(float)

    def advance(self, found: Facts, snapshot: Snapshot) -> "Prepared":
        transactions = snapshot.transactions
        collector = snapshot.collectors.get("transactions")
        stuck = topics_with_nobody(snapshot).items()
        alone = {
            name: (number, self.stuck.get(name, (number, found.now))[1])
            for name, number in stuck
        }
        if transactions is None:
            return Prepared(stuck=alone)
        waits = transactions["state"] == TransactionState.PREPARED
        received = transactions["acknowledgements"]
        begun = since(waits, self.reindexed(transactions.index).since, found.now)
        columns = (
            or_zero(transactions["messages"]),
            or_zero(received),
            transactions["created"],
            begun,
        )
        rows = zip(
            transactions.index.rows[waits],
            np.stack(columns)[:, waits].T.tolist(),
            strict=True,
        )
        listed = sorted(
            (PreparedTransaction(row, *said) for row, said in rows),
            key=lambda one: one.created,
        )
        read = (
            collector is None or collector.usable
        )  # else those of an earlier poll are used
        taken = (
            columns[1][waits],
            columns[1][waits & (snapshot.transaction_connection < 0)],
        )
        total = float(received.sum()) if read else np.nan
        return Prepared(
            transactions.index,
            begun,
            listed,
            alone,
            total,
            *(float(one.sum()) for one in taken),
        )


def topics_with_nobody(snapshot: Snapshot) -> dict[str, float]:
    """Messages that a topic says consumers have, and no one is there: neither a consumer nor a subscription."""
    addresses = snapshot.addresses
    queues = snapshot.queues
    consumers = snapshot.consumers
    if (
        addresses is None
        or queues is None
        or consumers is None
        or "topic" not in addresses
    ):
        return {}
    at = np.flatnonzero(
        (addresses["topic"] > 0)
        & (addresses["delivering"] >= FEWEST)
        & (addresses["exact"] > 0)
    )
    if not len(at):
        return {}
    attended = {row.address for row in queues.index} | {
        row.address for row in consumers.index
    }
    found = {
        addresses.index.rows[i].name: float(addresses["delivering"][i])
        for i in at.tolist()
    }
    return {name: number for name, number in found.items() if name not in attended}
