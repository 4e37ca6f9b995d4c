"""Message groups, of queues where one consumer has much and another nothing: no listing has how many there are."""

import numpy as np

from penstock.core.table import Keys, Positions, Table
from penstock.model import ConsumerRow, QueueRow

MUCH = 10.0
"""Messages."""
AT_ONCE = 50
"""Queues that are asked in one poll."""


def uneven(
    queues: Table[QueueRow], consumers: Table[ConsumerRow], queue_of: Keys
) -> Positions:
    """Queues whose messages may have groups: these go to one consumer each, whatever the others have."""
    at = queues.index.positions(queue_of)
    held = consumers["buffered"]
    most = np.zeros(len(queues))
    least = np.full(len(queues), np.inf)
    np.fmax.at(most, at[at >= 0], held[at >= 0])
    np.fmin.at(least, at[at >= 0], held[at >= 0])
    return np.flatnonzero((most >= MUCH) & (least == 0))
