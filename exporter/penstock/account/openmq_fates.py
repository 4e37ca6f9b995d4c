"""What became of an OpenMQ broker's messages, by fate: at least and at most so many."""

import numpy as np

from penstock.account.fates import Bounds
from penstock.account.openmq import OpenmqAccount
from penstock.core.table import Column, Table
from penstock.model import QueueRow

LEFT = ("removed", "dead_lettered", "rolled_back", "purged")
"""Of what was in a destination."""
REFUSED = ("rejected", "too_large", "expired")
"""Of what never was in it; expired: when it came."""


def queue_fates(account: OpenmqAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """By the queues; of a subscription only what its consumers acknowledged is known."""
    books = account.queues
    fates = {name: books.bounds(name) for name in (*LEFT, *REFUSED)}
    low, high = books.acknowledged
    known = ~np.isnan(books.opening)
    settled = np.where(known, 0.0, queues["removed"])
    fates["acknowledged"] = np.where(known, low, settled), np.where(known, high, settled)
    return fates


def topic_fates(account: OpenmqAccount) -> dict[str, Bounds]:
    """By the topics. What left one was acknowledged by all, or only its last subscription still had it."""
    topics = account.topics
    fates = {name: topics.bounds(name) for name in (*LEFT, *REFUSED)}
    fates["acknowledged"] = topics.acknowledged
    fates["unwanted"] = topics.unwanted, np.where(topics.partly, np.inf, topics.unwanted)
    return fates


FATES = ("acknowledged", *LEFT, *REFUSED, "unwanted")
"""All of them."""


def lost(fates: dict[str, Bounds]) -> Column:
    """By row: how many at least no client has handled."""
    names = ("removed", "rejected", "too_large", "expired", "dead_lettered", "unwanted")
    total: Column = np.sum([fates[name][0] for name in names if name in fates], axis=0)
    return total
