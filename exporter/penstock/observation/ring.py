"""What a ring lost, and what it would lose: columns in, messages out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.table import Column
from penstock.observation.facts import Facts


@dataclass(frozen=True, slots=True)
class Evictions:
    """
    What the account says of each queue; NaN where it cannot be known. evicted: since the broker's start. by_consumers:
    at least so many of them by consumers that went or rolled back. grew: at this poll, at least `low` by consumers;
    low_last, high_last: by them at least and at most when there were such last, by which clients of which protocols:
    `latest`, by the queue's key.
    """

    evicted: Column
    by_consumers: Column
    grew: Column
    low: Column
    low_last: Column
    high_last: Column
    latest: Mapping[int, Mapping[str, str]]


def at_risk(facts: Facts) -> Column:
    """Messages that a ring would lose if all its consumers went away now; NaN without a ring, while paging, and where
    it keeps what is acknowledged. Only what they give back finds no room.
    """
    risk = np.clip(facts.messages - facts.scheduled - facts.ring, 0.0, facts.delivering)
    return np.where((facts.address.paging > 0) | facts.keeps, np.nan, risk)


def scheduled_at_risk(facts: Facts) -> Column:
    """Scheduled messages that would find no room if they fell due now; NaN without a ring and while paging."""
    room = np.maximum(facts.ring - facts.ready, 0.0)
    return np.where(facts.address.paging > 0, np.nan, np.maximum(facts.scheduled - room, 0.0))
