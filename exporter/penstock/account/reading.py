"""What one poll has read of a broker, and how far apart: bounds of what moved between two reads."""

import numpy as np

from penstock.core.table import Column, Table
from penstock.model import Snapshot
from penstock.observation.facts import Facts

SPREAD = 2.0
"""By so much the rate between two reads may be above the mean of the interval."""
ANONYMOUS = "(anonymous)"
"""Address of a producer that names one with each message."""


def read(snapshot: Snapshot, part: str, table: str = "") -> Table | None:  # type: ignore[type-arg]
    """A table, by default of the part's name; None where the part was not read at this poll."""
    collector, found = snapshot.collectors.get(part), getattr(snapshot, table or part)
    return found if collector is None or collector.usable else None


def seconds_between(snapshot: Snapshot, first: str, second: str) -> float:
    """From the begin of one collector to the end of another, at most; 0 where the poll does not say."""
    one, other = snapshot.collectors.get(first), snapshot.collectors.get(second)
    return max(0.0, other.stamp - one.stamp + one.seconds + other.seconds) if one and other else 0.0


def meanwhile(found: Facts, snapshot: Snapshot, moved: Column, first: str, second: str) -> Column:
    """At most so many messages of those that moved since the poll before may have done so between two reads."""
    return np.ceil(moved * SPREAD * seconds_between(snapshot, first, second) / max(found.interval, 0.1))
