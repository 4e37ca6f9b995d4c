"""What the judgement measures of OpenMQ beside its conditions, as columns of the tables that are shown."""

import numpy as np

from penstock.account.openmq import FATES, OpenmqAccount, queue_fates, topic_fates
from penstock.assessment.account import MessageFate, as_table, some
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
    """Limit and resume level of the consumers with these keys, as measured; none while OpenMQ is not judged."""
    windows = judgement.openmq.windows
    if not len(windows.index):
        return {}
    at = windows.index.positions(consumers)
    return {
        name: np.append(column, np.nan)[at]
        for name, column in zip(
            ("flow_limit", "flow_resume"), windows.limits(), strict=True
        )
    }


def rejected(
    judgement: Judgement,
    queues: Grouping[QueueSeries],
    of_queue: Positions,
    addresses: Index[AddressSeries],
) -> dict[str, Column]:
    """Messages that each destination refused since the agent started; NaN where that is not counted (topics)."""
    openmq = judgement.openmq
    books = judgement.openmq_account.queues
    if (
        openmq.said is None
        or books.index is not queues.source
        or len(of_queue) != len(queues.index)
    ):
        return {}
    counts = queues.max(np.where(openmq.said.balanced, books.refused, np.nan))
    column = np.full(len(addresses), np.nan)
    known = (of_queue >= 0) & ~np.isnan(counts)
    column[of_queue[known]] = counts[known]
    return {"messages_rejected": column}


def fate_table(
    account: OpenmqAccount,
    queues: Grouping[QueueSeries],
    rows: Table[QueueRow],
    addresses: Grouping[AddressSeries],
    before: Index[MessageFate],
) -> Table[MessageFate]:
    """As `account.fate_table`: fates of queues, and of topics with an empty queue."""
    if (
        not account.watched
        or account.queues.index is not rows.index
        or queues.source is not rows.index
    ):
        return Table(Index.empty())
    alone = queues.index.column("alone", lambda series: not series.summed) > 0
    judged = rows.index.column("judged", lambda row: row.kind in JUDGED) > 0
    shown = np.flatnonzero(np.append(alone, np.False_)[queues.member] & judged)
    found = [
        some(FATES.index(fate), shown, bounds)
        for fate, bounds in queue_fates(account, rows).items()
    ]
    keys = [len(FATES) * queues.keys[at] + fate for fate, at, _, _ in found]
    topics = account.topics.index
    place = addresses.source.positions(topics.keys)
    of = np.where(place >= 0, np.append(addresses.member, HIDDEN)[place], HIDDEN)
    own = addresses.index.column("own", lambda series: series.address != TEMPORARY) > 0
    shown = np.flatnonzero((of != HIDDEN) & np.append(own, np.False_)[of])
    of_topics = [
        some(FATES.index(fate) - len(FATES), shown, bounds)
        for fate, bounds in topic_fates(account).items()
    ]
    keys += [
        -1 - len(FATES) * (topics.keys[at] + 1) - fate for fate, at, _, _ in of_topics
    ]

    def label(fate: int, at: int) -> MessageFate:
        """Those of topics are numbered below 0."""
        if fate >= 0:
            queue = queues.index.rows[queues.member[at]]
            return MessageFate(queue.broker, queue.address, queue.queue, FATES[fate])
        address = addresses.index.rows[of[at]]
        return MessageFate(address.broker, address.address, "", FATES[fate])

    return as_table(found + of_topics, np.concatenate(keys), label, before)


def connection_causes(judgement: Judgement, broker: str) -> Table[CauseSeries]:
    """Connections whose limit one of their consumers uses up; always 1."""
    named = {"broker": broker, "cause": CONNECTION_PAUSED.name}
    rows = [
        CauseSeries(connection=str(key), client=client, **named)
        for key, client in judgement.openmq.blockers
    ]
    return Table(Index.of(rows), {"unhealthy": np.ones(len(rows))})
