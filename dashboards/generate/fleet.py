"""All brokers at a glance."""

from dashboards.generate.common import (
    BROKER_LINK,
    BY_QUEUE,
    NOTHING_WRONG,
    QUEUE,
    QUEUE_LINK,
    UP,
    WARN,
    WORST_FIRST,
    active_conditions,
    added,
    consumers,
    incidents,
    out,
    out_rate,
    ready,
    seen_by,
    worst,
)
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    CRITICAL,
    MOST_ROWS,
    OK,
    Column,
    Query,
    Row,
    Scope,
    Step,
    above,
    apart,
    graph,
    largest,
    number_of,
    rate,
    stat,
    table,
    total,
)

from penstock.assets.thresholds import THRESHOLDS as T

S = Scope(("broker",))
_UNHEALTHY = S("mq_queue_unhealthy")
_SHOWN = S("mq_up")
_EXPECTED = largest("broker", S("penstock_broker_expected"))
_WATCHED = largest("broker", _SHOWN)

_NOW = Row(
    "Now",
    (
        stat(
            "Brokers down",
            "Brokers that no poll reaches. Nothing is known of their queues meanwhile: look at the broker's process"
            " and log, then at the network and the account.",
            number_of(largest("broker", _SHOWN) + " == 0", _SHOWN),
            steps=(Step(None, OK), Step(1, CRITICAL)),
            width=3,
        ),
        stat(
            "Brokers unwatched",
            "Brokers that are configured or were found and that no agent polls: nothing is known of them. Look for the"
            " agent, or the shard, that should.",
            f"count({_EXPECTED} unless {_WATCHED}) or 0 * count({_EXPECTED})",
            steps=(Step(None, OK), Step(1, CRITICAL)),
            width=4,
        ),
        stat(
            "Stalled queues",
            "Queues with a critical condition: no acknowledgements while messages are ready or arrive. Start with"
            " these; the table below names them.",
            number_of(f"{largest(BY_QUEUE, _UNHEALTHY)} >= 2", _SHOWN),
            steps=(Step(None, OK), Step(1, CRITICAL)),
            width=3,
        ),
        stat(
            "Queues with a warning",
            "Queues with a condition that still work. Look at them in the order of their backlog.",
            number_of(f"{largest(BY_QUEUE, _UNHEALTHY)} == 1", _SHOWN),
            steps=above(1),
            width=5,
        ),
        stat(
            "Ready messages",
            "Messages that wait for a consumer, in all queues of the chosen brokers. High is not bad by itself: see"
            " whether it grows, and the drain time of the queues.",
            total(S("mq_queue_ready_messages")),
            width=3,
        ),
        stat(
            "In",
            "Messages that come into queues each second. Above what goes out for long, backlogs grow.",
            total(f"rate({S('mq_queue_messages_added_total')}[$__rate_interval])"),
            unit="mps",
            width=3,
        ),
        stat(
            "Evicted unread",
            "Messages that rings and full destinations evict each second. For a ring that is its purpose; the"
            " dashboard on rings shows which part was not wanted.",
            f"sum({rate(BY_QUEUE + ', reason', S('mq_queue_messages_evicted_total'))})",
            unit="mps",
            width=3,
        ),
    ),
)

_WRONG = Row(
    "Incidents and conditions",
    (
        incidents(S, links={"broker": BROKER_LINK}),
        active_conditions(S, links={"queue": QUEUE_LINK, "broker": BROKER_LINK}),
        graph(
            "Conditions over time",
            "Number of queues by cause. A step for many queues at once points at something that they share: a client,"
            " an address, the broker.",
            Query(
                f"count by (cause) ({largest(BY_QUEUE + ', cause', _UNHEALTHY)})",
                "{{cause}}",
            ),
            unit="locale",
            empty=NOTHING_WRONG,
            width=12,
            stacked=True,
        ),
        graph(
            "In and out",
            "Messages a second that come and that consumers acknowledge, by broker (where a broker does not say why"
            " messages go: all that go). Out below in for long means that backlogs grow.",
            Query(
                f"sum by ({apart('broker')}) ({rate(BY_QUEUE, S('mq_queue_messages_added_total'))})",
                "{{broker}} in",
            ),
            Query(
                f"sum by ({apart('broker')}) ({out_rate(S, BY_QUEUE)})",
                "{{broker}} out",
            ),
            unit="mps",
            width=12,
        ),
    ),
)

_INVENTORY = Row(
    "Brokers and queues",
    (
        table(
            "Brokers",
            "Every broker with its load. Click one for its details. Findings: settings that will do harm; the broker's"
            " dashboard lists them. A disk near its limit blocks every producer.",
            ("broker",),
            Column("Up", largest("broker", _SHOWN), "none", mappings=UP),
            Column("Connections", largest("broker", S("mq_broker_connections"))),
            Column(
                "Queues",
                f"count by ({apart('broker')}) ({largest(BY_QUEUE, S('mq_queue_messages'))})",
            ),
            Column(
                "Ready",
                f"sum by ({apart('broker')}) ({largest(BY_QUEUE, S('mq_queue_ready_messages'))})",
            ),
            Column(
                "Disk",
                largest("broker", S("mq_broker_disk_used_ratio")),
                "percentunit",
                steps=above(WARN, T.disk_of_limit_ratio),
            ),
            Column(
                "Findings",
                f"count by ({apart('broker')}) ({largest('broker, scope, object, rule', S('mq_config_finding'))})",
            ),
            Column(
                "Running for",
                f"time() - {largest('broker', S('mq_broker_start_timestamp_seconds'))}",
                "s",
            ),
            least=True,
            links={"broker": BROKER_LINK},
            height=6,
        ),
        table(
            "Identity",
            "Version, node and role of every broker. Both brokers of a failover pair have the same node id, and only"
            " one of them may be active.",
            ("broker", "kind", "version", "product_version", "node_id", "role"),
            seen_by(
                "broker, kind, version, product_version, node_id, role",
                S("mq_broker_info"),
            ),
            links={"broker": BROKER_LINK},
            height=6,
        ),
        table(
            "Queues",
            f"The {MOST_ROWS} queues with the worst conditions and the {MOST_ROWS} with most ready messages, worst"
            " first; with the messages a second that come (in) and that consumers acknowledge (out; all that go, where"
            " the broker does not say why). Click the head of a column to sort by it, a queue for its history.",
            QUEUE,
            ready(S, BY_QUEUE),
            added(S, BY_QUEUE),
            out(S, BY_QUEUE),
            consumers(S, BY_QUEUE),
            Column("Drain time", largest(BY_QUEUE, S("mq_queue_drain_seconds")), "s"),
            worst(S, BY_QUEUE),
            sort=WORST_FIRST,
            links={"queue": QUEUE_LINK},
            height=12,
        ),
    ),
)

FLEET = Dashboard(
    "penstock-fleet",
    "Penstock / Fleet",
    "Which brokers and queues need attention now.",
    ("broker",),
    (_NOW, _WRONG, _INVENTORY),
)
