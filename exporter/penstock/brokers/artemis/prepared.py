"""Prepared (XA) transactions, by listPreparedTransactions: no details, which would show properties of users' messages.

How many messages of a queue are in them is asked of queues that deliver more than their consumers have.
"""

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from penstock.brokers.artemis import answers as wire
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import UNREADABLE, Unread
from penstock.core.errors import BadAnswer
from penstock.core.table import Column, Index, KeyAllocator, Keys, Positions, Table
from penstock.model import ConsumerRow, QueueRow, TransactionRow, TransactionState

MOST = 1_000
"""Transactions that are kept of a listing, which has the oldest first."""
MOST_QUEUES = 500
"""Queues that are asked in one poll."""

_TEXTS = msgspec.json.Decoder(list[str])
_XID = re.compile(
    r"base64: ?(\S+)"
)  # before it is a time in the form of the broker's country
_COUNT = Decoder(wire.QueueInDoubt)


class PreparedBuilder:
    """The transactions by the base64 text of their Xids, by which the broker's own operations name them."""

    def __init__(self) -> None:
        self._keys = KeyAllocator[str]()
        self._index: Index[TransactionRow] = Index.empty()

    def suspects(
        self, queues: Table[QueueRow], consumers: Table[ConsumerRow], queue_of: Keys
    ) -> Positions:
        """Queues that deliver more than their consumers have; none while nothing was prepared at the poll before."""
        if not len(self._index):
            return np.empty(0, np.intp)
        positions = queues.index.positions(queue_of)
        buffered = np.nan_to_num(consumers["buffered"]) + np.nan_to_num(
            consumers["awaiting_commit"]
        )
        has_queue = positions >= 0
        beyond = queues["delivering"] - np.bincount(
            positions[has_queue], weights=buffered[has_queue], minlength=len(queues)
        )
        suspects = np.flatnonzero(beyond > 0)
        return suspects[np.argsort(-beyond[suspects], kind="stable")[:MOST_QUEUES]]

    def table(self, reply: wire.Reply) -> Table[TransactionRow]:
        reply.raise_for_status("listPreparedTransactions")
        try:
            texts = _TEXTS.decode(reply.value)
        except UNREADABLE as error:
            raise BadAnswer(
                "listPreparedTransactions: the answer has another form than expected"
            ) from error
        xids = [xid[1] for text in texts[:MOST] if (xid := _XID.search(text))]
        if len(xids) < min(len(texts), MOST):
            raise BadAnswer("listPreparedTransactions: a transaction without an Xid")
        xids = list(dict.fromkeys(xids))
        keys = self._keys(xids)
        self._index, _ = self._index.advance(
            keys, lambda new: [TransactionRow(xids[i], "", "") for i in new]
        )
        same = np.ones(len(self._index))
        return Table(
            self._index,
            {"state": TransactionState.PREPARED * same, "distributed": same},
        )


def in_doubt(
    replies: Sequence[wire.Reply], positions: Positions, size: int
) -> tuple[Column, Unread]:
    """(queues,) How many messages are in prepared transactions, NaN where it was not asked; and which values could not
    be read. positions: of the queues that were asked. size: the number of queues.
    """
    messages = np.full(size, np.nan)
    unread: Unread = Counter()
    for position, reply in zip(positions.tolist(), replies, strict=True):
        if reply.nothing_found:  # it was deleted since it was listed
            continue
        row, missing = _COUNT.counted(reply, "PreparedTransactionMessageCount")
        messages[position] = row.prepared_transaction_message_count
        unread += missing
    return messages, unread
