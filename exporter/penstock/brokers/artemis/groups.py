"""Message groups: GroupCount, which no listing has, of queues where one consumer has much and another nothing."""

import numpy as np

from penstock.brokers.artemis import answers as wire
from penstock.brokers.replies import Decoder
from penstock.core.table import Keys, Positions, Table
from penstock.model import ConsumerRow, QueueRow

MUCH = 10.0
"""Messages."""
AT_ONCE = 50
"""Queues that are asked in one poll."""

_COUNT = Decoder(wire.QueueGroups)


def uneven(queues: Table[QueueRow], consumers: Table[ConsumerRow], queue_of: Keys) -> Positions:
    """Queues whose messages may have groups: these go to one consumer each, whatever the others have."""
    at = queues.index.positions(queue_of)
    here, held = at >= 0, consumers["buffered"]
    most, least = np.zeros(len(queues)), np.full(len(queues), np.inf)
    np.fmax.at(most, at[here], held[here])
    np.fmin.at(least, at[here], held[here])
    return np.flatnonzero((most >= MUCH) & (least == 0))


def counted(reply: wire.Reply, queue: str) -> float | None:
    """How many groups the queue knows now; None where the queue is gone."""
    return None if reply.nothing_found else _COUNT.counted(reply, f"GroupCount of {queue!r}")[0].group_count
