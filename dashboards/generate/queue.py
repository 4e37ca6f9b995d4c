"""One queue in depth."""

from dashboards.generate.common import (
    BY_CLIENT,
    BY_QUEUE,
    CLIENT,
    CLIENT_LINE_LINK,
    CLIENT_LINK,
    QUEUE,
    client_line,
    conditions,
    findings,
    queue_line,
    seen_by,
)
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    Column,
    Query,
    Row,
    Scope,
    above,
    apart,
    graph,
    largest,
    rate,
    stat,
    table,
    value_of,
)

S = Scope(QUEUE)
_GROWS = "The backlog grows, or nothing waits"


def _age(by: str, family: str, *matchers: str) -> str:
    return f"time() - {largest(by, S(family, *matchers))}"


def _oldest(bound: str) -> str:
    """Age of the oldest message: at least that of its latest time, at most that of its earliest."""
    return _age(
        BY_QUEUE, "mq_queue_oldest_message_timestamp_seconds", f'bound="{bound}"'
    )


_FINDINGS = " or ".join(
    S("mq_config_finding", *matchers)
    for matchers in (
        ('scope="queue"', f"object=~`{value_of('queue')}`"),
        ('scope="address"', f"object=~`{value_of('address')}`"),
        ('scope="client"', f"object=~`{value_of('queue')}/.+`"),
    )
)

_NOW = Row(
    "Now",
    (
        stat(
            "Ready",
            "Messages that can be delivered now. What matters is whether they become fewer: see the drain time.",
            f"sum({largest(BY_QUEUE, S('mq_queue_ready_messages'))})",
            width=3,
        ),
        stat(
            "Delivering",
            "Messages sent to consumers and not acknowledged. They are redelivered when a consumer disconnects.",
            f"sum({largest(BY_QUEUE, S('mq_queue_delivering_messages'))})",
            width=3,
        ),
        stat(
            "Consumers",
            "Consumers of the queue, without browsers.",
            f"sum({largest(BY_QUEUE, S('mq_queue_consumers'))})",
            width=3,
        ),
        stat(
            "Consumers with a condition",
            "How many of them are stalled or otherwise unhealthy; the table of clients names them.",
            f"sum({largest(BY_QUEUE, S('mq_queue_unhealthy_consumers'))})",
            steps=above(1),
            width=6,
        ),
        stat(
            "Time to drain",
            "How long the backlog lasts at the rates of the last five minutes: longer than you can wait calls for more"
            " consumers. Nothing is shown while it grows.",
            f"max({S('mq_queue_drain_seconds')})",
            unit="s",
            empty=_GROWS,
        ),
        stat(
            "Oldest message, at least",
            "Age of the oldest message: at least so old, by order of arrival and by what consumers buffer. It grows"
            " second by second when nothing is taken.",
            f"max({_oldest('latest')})",
            unit="s",
            width=5,
        ),
    ),
)

_FLOW = Row(
    "Flow",
    (
        conditions(
            S,
            f"{BY_QUEUE}, cause",
            "{{broker}} {{queue}} {{cause}}",
            width=24,
            height=5,
        ),
        graph(
            "Messages",
            "Where the messages are. Ready that grows: too few or too slow consumers. Delivering that stays the same:"
            " a consumer that does not acknowledge.",
            queue_line(S, "mq_queue_ready_messages", "ready"),
            queue_line(S, "mq_queue_delivering_messages", "delivering"),
            queue_line(S, "mq_queue_scheduled_messages", "scheduled"),
            queue_line(S, "mq_queue_uncommitted_messages", "sent, not committed"),
            unit="locale",
        ),
        graph(
            "Rates",
            "In against acknowledged (removed, where the broker does not say why messages leave): the difference is"
            " how fast the backlog grows. Expired, dead-lettered and evicted messages were acknowledged by no"
            " consumer. Normal: what comes at this hour of the week, at least and at most, of the busiest queues.",
            queue_line(S, "mq_queue_messages_added_total", "in"),
            *(
                Query(
                    largest(
                        BY_QUEUE, S(f"mq_queue_expected_messages_per_second_{end}")
                    ),
                    f"{{{{broker}}}} {{{{queue}}}} normal, {end}",
                )
                for end in ("low", "high")
            ),
            queue_line(S, "mq_queue_messages_acknowledged_total", "acknowledged"),
            queue_line(S, "mq_queue_messages_removed_total", "removed"),
            queue_line(S, "mq_queue_messages_expired_total", "expired"),
            queue_line(S, "mq_queue_messages_killed_total", "dead-lettered"),
            Query(
                f"sum by ({apart(BY_QUEUE)}) ({rate(BY_QUEUE + ', reason', S('mq_queue_messages_evicted_total'))})",
                "{{broker}} {{queue}} evicted",
            ),
            unit="mps",
        ),
        graph(
            "Time to drain and target",
            "How long the backlog lasts at the present rates, and the target of the configuration where there is one."
            " Gaps: the backlog grows, or nothing waits.",
            queue_line(S, "mq_queue_drain_seconds", "drain time"),
            queue_line(S, "mq_queue_drain_target_seconds", "target"),
            unit="s",
            empty=_GROWS,
        ),
        graph(
            "Age of the oldest message",
            "Between two lines, which are one where messages leave in their order. A straight climb means that a"
            " message does not move. At least: absent for last values and scheduled messages. At most: since the queue"
            " was empty.",
            Query(_oldest("latest"), "{{broker}} {{queue}} at least"),
            Query(_oldest("earliest"), "{{broker}} {{queue}} at most"),
            unit="s",
        ),
        graph(
            "Consumers",
            "Consumers that are connected, and those that the configuration expects. A step down is an instance that"
            " disconnected.",
            queue_line(S, "mq_queue_consumers", "connected"),
            queue_line(S, "mq_queue_expected_consumers", "expected"),
            unit="locale",
        ),
        graph(
            "Size",
            "Bytes of all messages of the queue. Bytes that grow faster than messages mean that messages get larger.",
            queue_line(S, "mq_queue_bytes", "size"),
            unit="bytes",
        ),
    ),
)

_CLIENTS = Row(
    "Clients of the queue",
    (
        graph(
            "Buffered by clients",
            "Messages that each client has and has not acknowledged. A flat line above 0 with ready messages is a"
            " stalled client.",
            client_line(S, "mq_client_buffered_messages"),
            unit="locale",
            width=12,
            links=(CLIENT_LINE_LINK,),
        ),
        graph(
            "Acknowledged by clients",
            "Messages a second that each client acknowledges or returns. The one at 0 while its peers work is the one"
            " to look at.",
            client_line(S, "mq_client_acknowledged_messages_total"),
            unit="mps",
            width=12,
            links=(CLIENT_LINE_LINK,),
        ),
        table(
            "Clients",
            "Each client of the queue. One without acknowledgements for longer than its stall threshold is stalled."
            " Click a client for its flow control.",
            CLIENT,
            Column("Consumers", largest(BY_CLIENT, S("mq_client_consumers"))),
            Column("Buffered", largest(BY_CLIENT, S("mq_client_buffered_messages"))),
            Column(
                "Uncommitted", largest(BY_CLIENT, S("mq_client_uncommitted_messages"))
            ),
            Column(
                "No acks for",
                _age(BY_CLIENT, "mq_client_blocked_since_timestamp_seconds"),
                "s",
            ),
            Column(
                "Stall threshold",
                largest(BY_CLIENT, S("mq_client_patience_seconds")),
                "s",
            ),
            Column(
                "Acknowledged",
                rate(BY_CLIENT, S("mq_client_acknowledged_messages_total")),
                "mps",
            ),
            links={"client": CLIENT_LINK},
        ),
        table(
            "What the queue is",
            "Kind, durability, where its ring size is set, and who owns it by the rules of the configuration.",
            (*QUEUE, "kind", "routing_type", "durable", "ring_source", "owner", "team"),
            seen_by(
                f"{BY_QUEUE}, kind, routing_type, durable, ring_source, owner, team",
                S("mq_queue_info"),
            ),
            height=5,
        ),
        table(
            "Where its dead letters go",
            "Addresses for messages that are dead-lettered or expire. Empty: they are removed.",
            (*QUEUE, "dead_letter_address", "expiry_address"),
            seen_by(
                f"{BY_QUEUE}, dead_letter_address, expiry_address",
                S("mq_queue_dead_letter_info"),
            ),
            height=5,
        ),
        findings(_FINDINGS, height=6),
    ),
)

QUEUE_BOARD = Dashboard(
    "penstock-queue",
    "Penstock / Queue",
    "One queue: its conditions, message rates and clients.",
    QUEUE,
    (_NOW, _FLOW, _CLIENTS),
    single=QUEUE,
)
