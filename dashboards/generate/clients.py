"""Clients and flow control."""

from dashboards.generate.common import (
    BY_CLIENT,
    CLIENT,
    NOTHING_WRONG,
    QUEUE_LINE_LINK,
    client_line,
    queue_line,
    seen_by,
)
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    OK,
    WARNING,
    Column,
    Query,
    Row,
    Scope,
    above,
    graph,
    largest,
    number_of,
    rate,
    stat,
    table,
    timeline,
    total,
)

S = Scope(CLIENT)
_BY_CONSUMER = f"{BY_CLIENT}, consumer"
_BY_CONNECTION = "broker, connection, client"
_BLOCKED = (
    f"time() - {largest(BY_CLIENT, S('mq_client_blocked_since_timestamp_seconds'))}"
)
_PATIENCE = largest(BY_CLIENT, S("mq_client_patience_seconds"))

_NOW = Row(
    "Now",
    (
        stat(
            "Clients with a condition",
            "Clients of queues that are stalled, keep a transaction open, or reconnect without progress. The panel"
            " below names them.",
            number_of(
                largest(BY_CLIENT, S("mq_client_unhealthy_consumers")), S("mq_up")
            ),
            steps=above(1),
            width=12,
        ),
        stat(
            "Longest stall",
            "How long the longest stalled client has buffered messages and acknowledged none. Compare it with its"
            " stall threshold.",
            f"time() - min({S('mq_client_blocked_since_timestamp_seconds')})",
            unit="s",
            width=12,
        ),
    ),
)

_PROGRESS = Row(
    "Progress",
    (
        timeline(
            "Conditions of clients",
            "Active conditions by client, and of how many of its consumers. Empty: no active conditions.",
            Query(
                largest(f"{BY_CLIENT}, cause", S("mq_client_unhealthy_consumers")),
                "{{client}} on {{broker}} {{queue}}: {{cause}}",
            ),
            Query(
                largest(f"{BY_CLIENT}, cause", f"{S('mq_client_notice')} * 0"),
                "{{client}} on {{broker}} {{queue}}: {{cause}} (notice)",
            ),
            mappings={"0": ("notice", OK)},
            steps=above(1),
            empty=NOTHING_WRONG,
            width=24,
            height=7,
        ),
        graph(
            "Buffered messages",
            "What each client buffers. At a healthy client it goes up and down; a flat line above 0 is a client"
            " without acknowledgements.",
            client_line(S, "mq_client_buffered_messages"),
            unit="locale",
            links=(QUEUE_LINE_LINK,),
            width=24,
        ),
        graph(
            "Acknowledged",
            "Messages a second that each client acknowledges. 0 while it buffers messages: it is stalled.",
            client_line(S, "mq_client_acknowledged_messages_total"),
            unit="mps",
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Delivered",
            "Messages a second that the broker sends to each client. Far above acknowledged for long means"
            " redeliveries: look for rollbacks.",
            client_line(S, "mq_client_delivered_messages_total"),
            unit="mps",
            width=12,
        ),
        graph(
            "No acks for, in stall thresholds",
            "How long each client has had no acknowledgements, as a multiple of its stall threshold. Above the"
            " dashed line, at 1, the condition stalled is raised. The threshold is learned; a rule in the configuration"
            " can set it.",
            Query(f"({_BLOCKED}) / {_PATIENCE}", "{{client}} on {{broker}} {{queue}}"),
            unit="none",
            decimals=1,
            steps=above(1),
            width=12,
        ),
        graph(
            "Stall threshold",
            "How long each client may buffer messages and acknowledge none before it counts as stalled. A fall shows"
            " that Penstock has learned a quicker rhythm.",
            Query(_PATIENCE, "{{client}} on {{broker}} {{queue}}"),
            unit="s",
            width=12,
        ),
        graph(
            "Starved",
            "Share of the last five minutes of polls at which a client buffered nothing while messages were ready."
            " High while other clients of the queue buffer many: their prefetch takes all messages; make it smaller.",
            client_line(S, "mq_client_starved_ratio"),
            unit="percentunit",
            largest=1,
            width=6,
        ),
        graph(
            "At the limit",
            "Share of the last five minutes of polls at which a client's buffer was full. Near 100 % the client is the"
            " slow part; near 0 % with a backlog the broker or the network is.",
            client_line(S, "mq_client_at_limit_ratio"),
            unit="percentunit",
            largest=1,
            width=6,
        ),
        graph(
            "Consumer capacity",
            "Share of polls at which a consumer of the queue could take messages, or none were ready. Below 100 %"
            " while messages are ready: add consumers.",
            queue_line(S, "mq_queue_consumer_capacity_ratio"),
            unit="percentunit",
            largest=1,
            width=6,
        ),
        graph(
            "Imbalance",
            "How unevenly the consumers of a queue share the buffered messages: 0 % is even, near 100 % is all at"
            " one. High for long, with idle peers, calls for a smaller prefetch or consumer window.",
            queue_line(S, "mq_queue_buffer_imbalance_ratio"),
            unit="percentunit",
            largest=1,
            width=6,
        ),
    ),
)

_BUFFERS = Row(
    "Buffers and connections",
    (
        stat(
            "Consumers",
            "Consumers of the chosen clients. Fewer than you run: an instance is missing or cannot connect.",
            total(S("mq_client_consumers")),
            width=6,
        ),
        stat(
            "Buffered messages",
            "Messages delivered to the clients and not yet acknowledged: they keep them in memory. More than they can"
            " process in a few seconds calls for a smaller prefetch or window.",
            total(S("mq_client_buffered_messages")),
            width=6,
        ),
        stat(
            "Buffered bytes",
            "Their size. Divide by the number of processes to see how much memory each needs.",
            total(S("mq_client_buffered_bytes")),
            unit="bytes",
            width=6,
        ),
        stat(
            "Uncommitted",
            "Messages acknowledged in transactions that are still open. They are redelivered when the transaction is"
            " rolled back.",
            total(S("mq_client_uncommitted_messages")),
            width=6,
        ),
        graph(
            "Buffered by the worst consumers",
            "Single consumers, the worst only. One that stays at the same height while others move is the one to close"
            " or to look into.",
            Query(
                largest(_BY_CONSUMER, S("mq_consumer_buffered_messages")),
                "{{client}} #{{consumer}} on {{broker}} {{queue}}",
            ),
            Query(
                largest(_BY_CONSUMER, S("mq_consumer_flow_limit_messages")),
                "#{{consumer}} on {{broker}} {{queue}} stops at",
            ),
            Query(
                largest(_BY_CONSUMER, S("mq_consumer_flow_resume_messages")),
                "#{{consumer}} on {{broker}} {{queue}} goes on at",
            ),
            unit="locale",
            width=12,
        ),
        graph(
            "Since the last acknowledgement",
            "Time since each of the worst consumers acknowledged last. It climbs while a consumer is idle too: read"
            " it together with what the consumer buffers.",
            Query(
                f"time() - {largest(_BY_CONSUMER, S('mq_consumer_last_acknowledgement_timestamp_seconds'))}",
                "{{client}} #{{consumer}} on {{broker}} {{queue}}",
            ),
            unit="s",
            width=12,
        ),
        table(
            "Worst consumers",
            "Single consumers that have buffered messages longest. One that buffers many and whose last delivery is"
            " long ago has stalled: look into its process, or close it.",
            (*CLIENT, "consumer"),
            Column(
                "Buffered", largest(_BY_CONSUMER, S("mq_consumer_buffered_messages"))
            ),
            Column(
                "Buffered bytes",
                largest(_BY_CONSUMER, S("mq_consumer_buffered_bytes")),
                "bytes",
            ),
            Column(
                "Last delivery",
                f"time() - {largest(_BY_CONSUMER, S('mq_consumer_last_delivery_timestamp_seconds'))}",
                "s",
                1,
            ),
        ),
        timeline(
            "Connections with a condition",
            "Connections whose flow limit one client has used up, so that all other consumers on them wait. Give that"
            " client a connection of its own.",
            Query(
                largest(f"{_BY_CONNECTION}, cause", S("mq_connection_unhealthy")),
                "{{client}} on {{broker}} {{connection}}: {{cause}}",
            ),
            mappings={"1": ("at its limit", WARNING)},
            empty=NOTHING_WRONG,
            width=24,
            height=5,
        ),
        timeline(
            "Flow control of consumers",
            "When the broker waited for a consumer to ask for more. Usual under load and no fault by itself; paused"
            " for long with ready messages means that the application does not process what it has.",
            Query(
                largest(_BY_CONSUMER, S("mq_consumer_flow_paused")),
                "{{client}} #{{consumer}} on {{broker}} {{queue}}",
            ),
            mappings={"0": ("flows", OK), "1": ("paused", WARNING)},
            empty="No flow control is reported: only OpenMQ does",
            width=24,
            height=5,
        ),
        graph(
            "Buffered by connection",
            "What all consumers of a connection buffer together. Where the broker limits a connection, one slow"
            " consumer can use up the limit for all: give it a connection of its own.",
            Query(
                largest(_BY_CONNECTION, S("mq_connection_buffered_messages")),
                "{{client}} on {{broker}} {{connection}}",
            ),
            unit="locale",
            width=12,
        ),
        table(
            "Connections",
            "Consumers, producers and sessions of the worst connections. Many consumers in few sessions are served one"
            " after another: spread them.",
            ("broker", "connection", "client"),
            Column("Sessions", largest(_BY_CONNECTION, S("mq_connection_sessions"))),
            Column("Consumers", largest(_BY_CONNECTION, S("mq_connection_consumers"))),
            Column("Producers", largest(_BY_CONNECTION, S("mq_connection_producers"))),
            Column(
                "Buffered",
                largest(_BY_CONNECTION, S("mq_connection_buffered_messages")),
            ),
            width=12,
            height=8,
        ),
        graph(
            "Sent by clients",
            "Messages a second that each client sends. Compare with the acknowledgements of the queues.",
            Query(
                rate("broker, address, client", S("mq_client_produced_messages_total")),
                "{{client}} to {{broker}} {{address}}",
            ),
            unit="mps",
            width=12,
        ),
        table(
            "Who is connected",
            "Protocol, user and host of the worst connections: whom to call.",
            ("broker", "connection", "client", "protocol", "user", "remote_host"),
            seen_by(
                f"{_BY_CONNECTION}, protocol, user, remote_host",
                S("mq_connection_info"),
            ),
            width=12,
            height=8,
        ),
    ),
)

CLIENTS = Dashboard(
    "penstock-clients",
    "Penstock / Clients and flow control",
    "Which clients buffer messages, acknowledge them, or have stalled.",
    CLIENT,
    (_NOW, _PROGRESS, _BUFFERS),
    single=("broker",),
)
