"""Which tables one poll has read, and how many messages may have moved between two of its reads."""

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.core.table import Column, Mask, RowT, Table
from penstock.model import ANONYMOUS, ProducerRow, Snapshot
from penstock.observation.facts import Facts, Seen, or_zero

SPREAD = 2.0
"""The rate between two reads may be so many times the mean rate of the interval."""
MIN_INTERVAL = 0.1
"""Seconds between polls, at least, so that none divides by 0."""
BUFFERED = 3
"""The line of `CONSUMER_NUMBERS` with the messages that a consumer buffers."""


def read(
    snapshot: Snapshot, table: Table[RowT] | None, part: str
) -> Table[RowT] | None:
    """Return a table of the snapshot; None where the part of the poll that lists it failed."""
    collector = snapshot.collectors.get(part)
    return table if collector is None or collector.usable else None


def hides_consumers(snapshot: Snapshot) -> bool:
    """Return whether some consumers are over the budget.

    A consumer that is not listed may still be there then, and one that goes may not have been listed.
    """
    return any(part.what == "consumers" for part in snapshot.observation.left_out)


def seconds_between(snapshot: Snapshot, first: str, second: str) -> float:
    """Return the seconds from the begin of one collector to the end of another, at most; 0 where the poll lacks one."""
    begin = snapshot.collectors.get(first)
    end = snapshot.collectors.get(second)
    if not begin or not end:
        return 0.0
    return max(0.0, end.stamp - begin.stamp + begin.seconds + end.seconds)


def meanwhile(
    facts: Facts, snapshot: Snapshot, moved: Column, first: str, second: str
) -> Column:
    """(queues,) Messages, at most, that moved between two reads of one poll, so that the numbers differ by them.

    It is the share of the messages since the poll before that falls between the reads, at up to `SPREAD` times the
    mean rate.

    moved: messages since the poll before. first, second: names of the two collectors.
    """
    seconds = seconds_between(snapshot, first, second)
    share = SPREAD * seconds / max(facts.interval, MIN_INTERVAL)
    return np.ceil(moved * share)


def anonymous(producers: Table[ProducerRow]) -> Mask:
    """(producers,) True where a producer has no address of its own, but names one with each message."""
    return producers.index.column("anonymous", is_anonymous) > 0


def is_anonymous(row: ProducerRow) -> bool:
    return row.address == ANONYMOUS


def attempted_in_vain(facts: Facts, snapshot: Snapshot, books: QueueBooks) -> Column:
    """(queues,) Attempts to acknowledge that settled no message and are not open; NaN where they were not read.

    The broker counts an attempt for each message that is acknowledged, expired or evicted, and for each
    acknowledgement that is rolled back. What remains without the first three and the uncommitted ones came to nothing.
    """
    is_read = read(snapshot, snapshot.queues, "sizes") is not None
    attempts = facts.attempts if is_read else np.nan
    left = facts.settled + facts.expired + or_zero(books.lost)
    return attempts - left - facts.uncommitted


def left_by(facts: Facts, last: Seen) -> tuple[Mask, Column]:
    """Return two columns by queue: True where a consumer left, and how many messages those had buffered.

    These are the numbers of the poll before: a consumer that left has none now.
    """
    consumers = facts.consumer.gone
    has_queue = consumers.queue >= 0
    queues = consumers.queue[has_queue]
    buffered_before = last.consumers.numbers[BUFFERED]
    buffered = or_zero(buffered_before[consumers.at[has_queue]])
    is_left = np.zeros(len(facts.queues), np.bool_)
    is_left[queues] = True
    returned = np.zeros(len(facts.queues))
    np.add.at(returned, queues, buffered)
    return is_left, returned
