"""What one poll has read of a broker, and how far apart: bounds of what moved between two reads."""

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.core.table import Column, Mask, RowT, Table
from penstock.model import ANONYMOUS, ProducerRow, Snapshot
from penstock.observation.facts import Facts, Seen, or_zero

SPREAD = 2.0
"""By so much the rate between two reads may be above the mean of the interval."""


def read(
    snapshot: Snapshot, table: Table[RowT] | None, part: str
) -> Table[RowT] | None:
    """A table of the snapshot; None where the part of the poll that lists it failed."""
    collector = snapshot.collectors.get(part)
    return table if collector is None or collector.usable else None


def hides_consumers(snapshot: Snapshot) -> bool:
    """Whether some are over the budget: who is not listed is not gone, and who goes may not have been listed."""
    return any(one.what == "consumers" for one in snapshot.observation.left_out)


def seconds_between(snapshot: Snapshot, first: str, second: str) -> float:
    """From the begin of one collector to the end of another, at most; 0 where the poll does not say."""
    one = snapshot.collectors.get(first)
    other = snapshot.collectors.get(second)
    return (
        max(0.0, other.stamp - one.stamp + one.seconds + other.seconds)
        if one and other
        else 0.0
    )


def meanwhile(
    found: Facts, snapshot: Snapshot, moved: Column, first: str, second: str
) -> Column:
    """At most so many messages of those that moved since the poll before may have done so between two reads."""
    return np.ceil(
        moved
        * SPREAD
        * seconds_between(snapshot, first, second)
        / max(found.interval, 0.1)
    )


def anonymous(producers: Table[ProducerRow]) -> Mask:
    return producers.index.column("anonymous", lambda row: row.address == ANONYMOUS) > 0


def attempted_in_vain(found: Facts, snapshot: Snapshot, books: QueueBooks) -> Column:
    """Attempts to acknowledge that settled no message, and are not open with a consumer; NaN: not read."""
    attempts = (
        np.nan if read(snapshot, snapshot.queues, "sizes") is None else found.attempts
    )
    left = found.settled + found.expired + or_zero(books.lost)
    return attempts - left - found.uncommitted


def left_by(found: Facts, last: Seen) -> tuple[Mask, Column]:
    """Queues of which a consumer went, and what those had buffered at the poll before."""
    gone = found.consumer.gone
    held = np.zeros(len(found.queues))
    here = gone.queue >= 0
    went = np.zeros(len(held), np.bool_)
    went[gone.queue[here]] = True
    np.add.at(held, gone.queue[here], or_zero(last.consumers.numbers[3][gone.at[here]]))
    return went, held
