"""Clients and flow control."""

from dashboards.generate.common import BY_CLIENT, BY_QUEUE, CLIENT, NOTHING_WRONG, QUEUE_LINE_LINK, seen_by
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
_BLOCKED = f"time() - {largest(BY_CLIENT, S('mq_client_blocked_since_timestamp_seconds'))}"
_PATIENCE = largest(BY_CLIENT, S("mq_client_patience_seconds"))

_NOW = Row(
    "Now",
    (
        stat(
            "Clients with a condition",
            "Clients of queues that are blocked, keep a transaction open, or come and go without progress. The panel"
            " below names them.",
            number_of(largest(BY_CLIENT, S("mq_client_unhealthy_consumers")), S("mq_up")),
            decimals=0,
            steps=above(1),
            width=12,
        ),
        stat(
            "Longest block",
            "How long the longest blocked client has held messages without settling any. Compare it with its patience.",
            f"time() - min({S('mq_client_blocked_since_timestamp_seconds')})",
            unit="s",
            decimals=1,
            width=12,
        ),
    ),
)

_PROGRESS = Row(
    "Progress",
    (
        timeline(
            "Conditions of clients",
            "What holds for which client, and of how many of its consumers. Nothing here means that nothing is known"
            " to be wrong.",
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
            "Held messages",
            "What each client holds. It saws up and down at a healthy client; a flat line above 0 is one that settles"
            " nothing.",
            Query(largest(BY_CLIENT, S("mq_client_buffered_messages")), "{{client}} on {{broker}} {{queue}}"),
            unit="locale",
            decimals=0,
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Settled",
            "Messages a second that leave the hands of each client. 0 while it holds messages is the sign of a block.",
            Query(rate(BY_CLIENT, S("mq_client_acknowledged_messages_total")), "{{client}} on {{broker}} {{queue}}"),
            unit="mps",
            decimals=1,
            links=(QUEUE_LINE_LINK,),
            width=12,
        ),
        graph(
            "Delivered",
            "Messages a second that the broker hands to each client. Far above settled for long means that the same"
            " messages come again: look for rollbacks.",
            Query(rate(BY_CLIENT, S("mq_client_delivered_messages_total")), "{{client}} on {{broker}} {{queue}}"),
            unit="mps",
            decimals=1,
        ),
        graph(
            "Blocked, as a share of patience",
            "How long each client has settled nothing, over how long that may usually be. Above the dashed line it is"
            " told as a condition. Patience is learned; a rule in the configuration can set it.",
            Query(f"({_BLOCKED}) / {_PATIENCE}", "{{client}} on {{broker}} {{queue}}"),
            unit="percentunit",
            decimals=0,
            steps=above(1),
        ),
        graph(
            "Patience",
            "How long each client may hold messages without settling any before that is unusual. A fall shows that"
            " Penstock has learned a quicker rhythm.",
            Query(_PATIENCE, "{{client}} on {{broker}} {{queue}}"),
            unit="s",
            decimals=1,
        ),
        graph(
            "Starved",
            "Share of the last five minutes of polls at which a client held nothing while messages waited. High while"
            " others of the queue hold much means that prefetch gives it all to them: make their window smaller.",
            Query(largest(BY_CLIENT, S("mq_client_starved_ratio")), "{{client}} on {{broker}} {{queue}}"),
            unit="percentunit",
            decimals=0,
            largest=1,
        ),
        graph(
            "At the limit",
            "Share of the last five minutes of polls at which a client's buffer was full. Near 100 % the client is the"
            " slow part; near 0 % with a backlog the broker or the network is.",
            Query(largest(BY_CLIENT, S("mq_client_at_limit_ratio")), "{{client}} on {{broker}} {{queue}}"),
            unit="percentunit",
            decimals=0,
            largest=1,
        ),
        graph(
            "Room at consumers",
            "Share of polls at which a consumer of the queue had room, or nothing waited. Below 100 % while messages"
            " wait it calls for more consumers.",
            Query(largest(BY_QUEUE, S("mq_queue_consumer_capacity_ratio")), "{{broker}} {{queue}}"),
            unit="percentunit",
            decimals=0,
            largest=1,
        ),
        graph(
            "Imbalance",
            "How unevenly consumers of a queue share what is held: 0 % is even, near 100 % is all with one. High for"
            " long, with idle peers, calls for a smaller prefetch or consumer window.",
            Query(largest(BY_QUEUE, S("mq_queue_buffer_imbalance_ratio")), "{{broker}} {{queue}}"),
            unit="percentunit",
            decimals=0,
            largest=1,
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
            decimals=0,
            width=6,
        ),
        stat(
            "Held messages",
            "Messages delivered to the clients and not yet settled: what they have to keep in memory."
            " More than they can work off in a few seconds calls for a smaller prefetch or window.",
            total(S("mq_client_buffered_messages")),
            decimals=0,
            width=6,
        ),
        stat(
            "Held bytes",
            "Size of the held messages. Divide by the number of processes to see what each must have room for.",
            total(S("mq_client_buffered_bytes")),
            unit="bytes",
            decimals=1,
            width=6,
        ),
        stat(
            "Uncommitted",
            "Messages acknowledged in transactions that are still open. They come back when the transaction ends"
            " badly.",
            total(S("mq_client_uncommitted_messages")),
            decimals=0,
            width=6,
        ),
        graph(
            "Held by the worst consumers",
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
            decimals=0,
            width=12,
        ),
        graph(
            "Since the last acknowledgement",
            "Time since each of the worst consumers acknowledged last. It climbs while a consumer is idle too: read it"
            " together with what the consumer holds.",
            Query(
                f"time() - {largest(_BY_CONSUMER, S('mq_consumer_last_acknowledgement_timestamp_seconds'))}",
                "{{client}} #{{consumer}} on {{broker}} {{queue}}",
            ),
            unit="s",
            decimals=1,
            width=12,
        ),
        table(
            "Worst consumers",
            "Single consumers that hold longest, with their sizes. One whose last delivery is long ago and that holds"
            " much has stopped: look into its process, or close it.",
            (*CLIENT, "consumer"),
            Column("Held", largest(_BY_CONSUMER, S("mq_consumer_buffered_messages"))),
            Column("Held bytes", largest(_BY_CONSUMER, S("mq_consumer_buffered_bytes")), "bytes", 1),
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
            mappings={"1": ("holds", WARNING)},
            empty=NOTHING_WRONG,
            width=24,
            height=5,
        ),
        timeline(
            "Flow control of consumers",
            "When the broker waited for a consumer to ask for more. Usual under load and no fault by itself; paused"
            " for long with messages waiting means that the application does not take what it has.",
            Query(
                largest(_BY_CONSUMER, S("mq_consumer_flow_paused")), "{{client}} #{{consumer}} on {{broker}} {{queue}}"
            ),
            mappings={"0": ("flows", OK), "1": ("paused", WARNING)},
            width=24,
            height=7,
        ),
        graph(
            "Held by connection",
            "What all consumers of a connection hold together. Where the broker limits a connection, one slow consumer"
            " can use it up for all: give it a connection of its own.",
            Query(
                largest(_BY_CONNECTION, S("mq_connection_buffered_messages")), "{{client}} on {{broker}} {{connection}}"
            ),
            unit="locale",
            decimals=0,
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
            Column("Held", largest(_BY_CONNECTION, S("mq_connection_buffered_messages"))),
            width=12,
            height=8,
        ),
        graph(
            "Sent by clients",
            "Messages a second that each client sends. Compare with what the queues settle.",
            Query(
                rate("broker, address, client", S("mq_client_produced_messages_total")),
                "{{client}} to {{broker}} {{address}}",
            ),
            unit="mps",
            decimals=1,
            width=12,
        ),
        table(
            "Who is connected",
            "Protocol, user and host of the worst connections: whom to call.",
            ("broker", "connection", "client", "protocol", "user", "remote_host"),
            seen_by(f"{_BY_CONNECTION}, protocol, user, remote_host", S("mq_connection_info")),
            width=12,
            height=8,
        ),
    ),
)

CLIENTS = Dashboard(
    "penstock-clients",
    "Penstock / Clients and flow control",
    "Who holds messages, who settles them, and who has stopped.",
    CLIENT,
    (_NOW, _PROGRESS, _BUFFERS),
    single=("broker",),
)
