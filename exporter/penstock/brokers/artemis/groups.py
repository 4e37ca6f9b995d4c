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
    """Positions of queues whose messages may have groups: a group goes to one consumer, whatever the others have."""
    positions = queues.index.positions(queue_of)
    buffered = consumers["buffered"]
    has_queue = positions >= 0
    positions = positions[has_queue]
    buffered = buffered[has_queue]
    most = np.zeros(len(queues))
    least = np.full(len(queues), np.inf)
    np.fmax.at(most, positions, buffered)
    np.fmin.at(least, positions, buffered)
    return np.flatnonzero((most >= MUCH) & (least == 0))
