"""What the judgement measures of OpenMQ beside its conditions, as columns of the tables that are shown."""

import numpy as np

from penstock.account.fates import Bounds
from penstock.account.openmq import FATES, OpenmqAccount, queue_fates, topic_fates
from penstock.assessment.account import (
    FateRows,
    MessageFate,
    as_table,
    rows_with_messages,
)
from penstock.assessment.health import CauseSeries
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.core.table import Column, Index, Keys, Positions, Table
from penstock.model import QueueRow
from penstock.observation.facts import JUDGED
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import (
    HIDDEN,
    TEMPORARY,
    AddressSeries,
    Grouping,
    QueueSeries,
)


def consumer_limits(judgement: Judgement, consumers: Keys) -> dict[str, Column]:
    """Return the measured flow limit and resume level of each consumer; no columns while OpenMQ is not judged."""
    windows = judgement.openmq.windows
    if not len(windows.index):
        return {}
    limit, resume = windows.limits()
    positions = windows.index.positions(consumers)
    # A consumer without a window has the position -1: that of the NaN at the end.
    return {
        "flow_limit": np.append(limit, np.nan)[positions],
        "flow_resume": np.append(resume, np.nan)[positions],
    }


def rejected(
    judgement: Judgement,
    queues: Grouping[QueueSeries],
    of_queue: Positions,
    addresses: Index[AddressSeries],
) -> dict[str, Column]:
    """Return the messages that each destination refused since the agent started; NaN for topics, which count none.

    Args:
        judgement: The state after this poll.
        queues: The series of the queues.
        of_queue: (queue series,) The position of each one's address in `addresses`, -1 where it has none.
        addresses: The series of the addresses.
    """
    facts = judgement.openmq.said
    books = judgement.openmq_account.queues
    is_current = books.index is queues.source and len(of_queue) == len(queues.index)
    if facts is None or not is_current:
        return {}
    refused = queues.max(np.where(facts.balanced, books.refused, np.nan))
    column = np.full(len(addresses), np.nan)
    has_number = (of_queue >= 0) & ~np.isnan(refused)
    column[of_queue[has_number]] = refused[has_number]
    return {"messages_rejected": column}


def fate_table(
    account: OpenmqAccount,
    queues: Grouping[QueueSeries],
    rows: Table[QueueRow],
    addresses: Grouping[AddressSeries],
    before: Index[MessageFate],
) -> Table[MessageFate]:
    """Return the table of `account.fate_table` for OpenMQ: fates of queues, and those of topics with an empty queue."""
    # All are by the same queues, those of this poll: not so where the poll was not judged.
    is_current = account.queues.index is rows.index is queues.source
    if not (account.watched and is_current):
        return Table(Index.empty())
    parts = fates_of_queues(account, queues, rows)
    parts += fates_of_topics(account, addresses)
    return as_table(parts, before)


def fates_of_queues(
    account: OpenmqAccount, queues: Grouping[QueueSeries], rows: Table[QueueRow]
) -> list[FateRows]:
    """Return the rows of each fate of messages that came to a judged queue which is a series of its own."""
    is_alone = queues.by_source("alone", lambda series: not series.summed) > 0
    is_judged = rows.index.column("judged", lambda row: row.kind in JUDGED) > 0
    accounted = np.flatnonzero(is_alone & is_judged)

    def rows_of_fate(fate: str, bounds: Bounds) -> FateRows:
        def keys(positions: Positions) -> Keys:
            return len(FATES) * queues.keys[positions] + FATES.index(fate)

        def label(position: int) -> MessageFate:
            queue = queues.index.rows[queues.member[position]]
            return MessageFate(queue.broker, queue.address, queue.queue, fate)

        return rows_with_messages(accounted, bounds, keys, label)

    fates = queue_fates(account, rows)
    return [rows_of_fate(fate, bounds) for fate, bounds in fates.items()]


def fates_of_topics(
    account: OpenmqAccount, addresses: Grouping[AddressSeries]
) -> list[FateRows]:
    """Return the rows of each fate of messages that came to a topic which is a series of its own."""
    topics = account.topics.index
    series_of_topic = address_series(topics.keys, addresses)
    series_is_own = addresses.index.column(
        "own", lambda series: series.address != TEMPORARY
    )
    # HIDDEN, -1, takes the last element.
    is_own = np.append(series_is_own > 0, np.False_)[series_of_topic]
    accounted = np.flatnonzero((series_of_topic != HIDDEN) & is_own)

    def rows_of_fate(fate: str, bounds: Bounds) -> FateRows:
        def keys(positions: Positions) -> Keys:
            """Return keys below 0, where no key of a queue is."""
            return -1 - len(FATES) * topics.keys[positions] - FATES.index(fate)

        def label(position: int) -> MessageFate:
            address = addresses.index.rows[series_of_topic[position]]
            return MessageFate(address.broker, address.address, "", fate)

        return rows_with_messages(accounted, bounds, keys, label)

    fates = topic_fates(account)
    return [rows_of_fate(fate, bounds) for fate, bounds in fates.items()]


def address_series(keys: Keys, addresses: Grouping[AddressSeries]) -> Positions:
    """(keys,) The position of the series of the address with each key; HIDDEN where it has none."""
    positions = addresses.source.positions(keys)
    with_unknown = np.append(addresses.member, HIDDEN)  # for the position -1
    return with_unknown[positions]


def connection_causes(judgement: Judgement, broker: str) -> Table[CauseSeries]:
    """Return the connections whose limit one of their consumers uses up, each with the value 1."""
    rows = [
        CauseSeries(
            broker=broker,
            connection=str(key),
            client=client,
            cause=CONNECTION_PAUSED.name,
        )
        for key, client in judgement.openmq.blockers
    ]
    return Table(Index.of(rows), {"unhealthy": np.ones(len(rows))})
