"""What became of an OpenMQ broker's messages, by fate: at least and at most so many."""

import numpy as np

from penstock.account.fates import Bounds
from penstock.account.openmq import OpenmqAccount
from penstock.account.openmq_books import REASONS
from penstock.core.table import Column, Table
from penstock.model import QueueRow

FATES = ("acknowledged", *REASONS, "unwanted")
LOST = ("removed", "rejected", "too_large", "expired", "dead_lettered", "unwanted")
"""Without a client that handled them."""


def queue_fates(account: OpenmqAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """By the queues; of a subscription only what its consumers acknowledged is known."""
    fates = account.queues.bounds()
    known = ~np.isnan(account.queues.opening)
    low, high = (np.where(known, bound, queues["removed"]) for bound in fates["acknowledged"])
    return {**fates, "acknowledged": (low, high)}


def topic_fates(account: OpenmqAccount) -> dict[str, Bounds]:
    """By the topics. What left a topic was acknowledged by all, or only its last subscription still had it."""
    topics = account.topics
    unwanted = topics.unwanted, np.where(topics.partly, np.inf, topics.unwanted)
    return {**topics.bounds(), "unwanted": unwanted}


def lost(fates: dict[str, Bounds]) -> Column:
    """By row: how many at least no client has handled."""
    total: Column = np.sum([fates[name][0] for name in LOST if name in fates], axis=0)
    return total
