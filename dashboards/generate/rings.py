"""Ring queues and loss."""

from dashboards.generate.common import (
    BY_QUEUE,
    QUEUE,
    QUEUE_LINE_LINK,
    QUEUE_LINK,
    queue_line,
)
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    CRITICAL,
    MOST_ROWS,
    OK,
    WARNING,
    Column,
    Query,
    Row,
    Scope,
    Step,
    above,
    graph,
    largest,
    number_of,
    rate,
    stat,
    table,
    total,
)

S = Scope(QUEUE)
OVERSIZE = 1.001
"""A full ring is lawful; more than its size is told."""
_LIMIT = S("mq_queue_ring_limit_messages")
_EVICTED = rate(f"{BY_QUEUE}, reason", S("mq_queue_messages_evicted_total"))
_LOST = S("mq_queue_messages_lost_by_consumer_total")

_NOW = Row(
    "Now",
    (
        stat(
            "Rings",
            "Queues with a ring size: each keeps that many ready messages and evicts the oldest.",
            total(_LIMIT, each="count"),
        ),
        stat(
            "Evicted",
            "Messages a second evicted unread, for all reasons. For a ring that is its purpose; it becomes an alert"
            " where the configuration says `ring_loss: alert` or sets a retention.",
            total(f"rate({S('mq_queue_messages_evicted_total')}[$__rate_interval])"),
            unit="mps",
        ),
        stat(
            "Lost by consumers, 1h",
            "Messages of the last hour that a consumer returned by closing or rolling back while the ring was full. A"
            " smaller consumer window leaves fewer at risk.",
            total(f"increase({_LOST}[1h])"),
            steps=(Step(None, OK), Step(1, CRITICAL)),
        ),
        stat(
            "At risk",
            "Messages that would be lost if every consumer disconnected now without acknowledging.",
            total(S("mq_queue_ring_at_risk_messages")),
            steps=above(1),
        ),
        stat(
            "Oversize rings",
            "Rings that were made smaller and still have more messages than the new size. They shrink only as"
            " consumers read; nothing is dropped at once.",
            number_of(
                largest(BY_QUEUE, S("mq_queue_ring_oversize_since_timestamp_seconds")),
                S("mq_up"),
            ),
            steps=above(1),
        ),
        stat(
            "Shortest retention",
            "The shortest time span that a ring covers at its present rate: how late a reader may be before it misses"
            " messages.",
            f"min({S('mq_queue_ring_retention_seconds')})",
            unit="s",
        ),
    ),
)

_RINGS = Row(
    "Rings",
    (
        graph(
            "Fill",
            "Ready messages relative to the ring size. At 100 % each new message evicts the oldest; above it the ring"
            " was made smaller. Messages that consumers buffer do not count, so the queue may have more.",
            queue_line(S, "mq_queue_ring_used_ratio"),
            unit="percentunit",
            steps=above(OVERSIZE),
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Evicted, by reason",
            "ring: evicted by newer ones; last_value: replaced by a newer value; limit: removed to make room in a"
            " full destination. Counted by Penstock; no broker counts rings.",
            Query(_EVICTED, "{{broker}} {{queue}} ({{reason}})"),
            unit="mps",
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Lost by consumers",
            "Messages lost because a consumer disconnected or rolled back while the ring was full. `penstock explain`"
            " and `penstock events` name it.",
            Query(
                rate(f"{BY_QUEUE}, client", _LOST), "{{broker}} {{queue}} {{client}}"
            ),
            unit="mps",
            decimals=2,
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "At risk",
            "Messages that would be lost if all consumers disconnected now. Reduce the risk with a smaller consumer"
            " window, or a larger ring.",
            queue_line(S, "mq_queue_ring_at_risk_messages"),
            unit="locale",
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Retention and target",
            "The time span that each ring covers at its present rate, and the target of the configuration. Ring size"
            " needed = target x messages a second.",
            queue_line(S, "mq_queue_ring_retention_seconds"),
            queue_line(S, "mq_queue_ring_retention_target_seconds", "target"),
            unit="s",
            width=12,
        ),
        graph(
            "Time to overflow",
            "How long until a ring that fills starts to evict. Absent when it does not grow or is full already.",
            queue_line(S, "mq_queue_ring_overflow_seconds"),
            unit="s",
            width=12,
        ),
        graph(
            "At risk when scheduled messages fall due",
            "Scheduled messages that would find no room if they fell due now. Spread their times, or make the ring"
            " larger.",
            queue_line(S, "mq_queue_ring_scheduled_at_risk_messages"),
            unit="locale",
            links=(QUEUE_LINE_LINK,),
            width=24,
        ),
        table(
            "Rings",
            f"The {MOST_ROWS} rings with most messages at risk and the {MOST_ROWS} largest. Oversize for: since it was"
            " made smaller and has more messages than its size.",
            QUEUE,
            Column("Size", largest(BY_QUEUE, _LIMIT)),
            Column(
                "Ready",
                largest(BY_QUEUE, f"{S('mq_queue_ready_messages')} and {_LIMIT}"),
            ),
            Column(
                "Fill",
                largest(BY_QUEUE, S("mq_queue_ring_used_ratio")),
                "percentunit",
                steps=above(OVERSIZE),
            ),
            Column(
                "Retention",
                largest(BY_QUEUE, S("mq_queue_ring_retention_seconds")),
                "s",
            ),
            Column(
                "Overflow in",
                largest(BY_QUEUE, S("mq_queue_ring_overflow_seconds")),
                "s",
            ),
            Column(
                "At risk",
                largest(BY_QUEUE, S("mq_queue_ring_at_risk_messages")),
                steps=(Step(None, OK), Step(1, WARNING)),
            ),
            Column(
                "Oversize for",
                f"time() - {largest(BY_QUEUE, S('mq_queue_ring_oversize_since_timestamp_seconds'))}",
                "s",
                1,
            ),
            sort=("At risk", "Size"),
            links={"queue": QUEUE_LINK},
        ),
    ),
)

RINGS = Dashboard(
    "penstock-rings",
    "Penstock / Ring queues and loss",
    "Evicted messages, messages at risk, and how far back each ring reaches.",
    QUEUE,
    (_NOW, _RINGS),
    single=("broker",),
)
