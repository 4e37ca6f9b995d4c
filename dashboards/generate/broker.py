"""One broker: resources, addresses, links, connections."""

from dashboards.generate.common import (
    BY_QUEUE,
    NOTHING_WRONG,
    QUEUE,
    QUEUE_LINK,
    SEVERITIES,
    UP,
    WARN,
    WORST_FIRST,
    active_conditions,
    added,
    consumers,
    findings,
    incidents,
    out,
    ready,
    seen_by,
    where_they_are,
    worst,
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
    below,
    graph,
    largest,
    rate,
    stat,
    table,
    timeline,
    to_dashboard,
    total,
)

from penstock.assets.thresholds import BROKERS_OWN
from penstock.assets.thresholds import THRESHOLDS as T

S = Scope(("broker", "address"))
_OF_BROKER = Scope(("broker",))
_BY_ADDRESS = "broker, address"
_ADDRESS_LINE_LINK = to_dashboard(
    "Queues of this address", "penstock-queue", ("broker", "address")
)

_NOW = Row(
    "Now",
    (
        stat(
            "Up",
            "Whether the last poll reached the broker. While it is down the other panels show the last data for a"
            " minute, then nothing.",
            f"min({S('mq_up')})",
            unit="none",
            mappings=UP,
            steps=below(1),
        ),
        stat(
            "Version and role",
            "What runs here. A passive broker is the backup of a pair and is not judged.",
            largest("version, role", S("mq_broker_info")),
            unit="none",
            text="name",
            legend="{{version}} {{role}}",
        ),
        stat(
            "Running for",
            "Time since the broker started; its counters began then. A short time without a planned restart is a"
            " crash: see the broker's log.",
            f"time() - {largest('broker', S('mq_broker_start_timestamp_seconds'))}",
            unit="s",
        ),
        stat(
            "Connections",
            "Client connections. A sudden fall: an application or a network has failed. A steady climb: a client does"
            " not close its connections.",
            f"max({S('mq_broker_connections')})",
        ),
        stat(
            "Message memory",
            "Memory used by messages, as a share of its limit. At 100 % every address pages, blocks or rejects, by"
            " its policy.",
            f"max({S('mq_broker_memory_used_bytes')} / {S('mq_broker_memory_limit_bytes')})",
            unit="percentunit",
            decimals=1,
            steps=above(WARN, T.memory_of_limit_ratio),
        ),
        stat(
            "Disk, of its limit",
            "Used share of the disk, relative to the share at which the broker blocks every producer. Free space"
            " before it reaches 100 %.",
            f"max({S('mq_broker_disk_used_ratio')} / {S('mq_broker_disk_limit_ratio')})",
            unit="percentunit",
            decimals=1,
            steps=above(WARN, T.disk_of_limit_ratio),
        ),
    ),
)

_WRONG = Row(
    "Incidents and conditions",
    (
        incidents(_OF_BROKER, height=5),
        active_conditions(S, links={"queue": QUEUE_LINK}, height=6),
    ),
)

_LOAD = Row(
    "Load",
    (
        graph(
            "Messages in queues",
            "All messages of the broker: ready, delivering (sent to consumers and not acknowledged), and scheduled"
            " for later. Ready that grows while delivering is flat: consumers cannot keep up.",
            *where_they_are(S),
            unit="locale",
            stacked=True,
        ),
        graph(
            "Rates",
            "Messages a second that come in and that consumers acknowledge. More in than acknowledged for long:"
            " backlogs grow. Removed: all that left, where the broker does not say why.",
            Query(
                total(f"rate({S('mq_queue_messages_added_total')}[$__rate_interval])"),
                "in",
            ),
            Query(
                total(
                    f"rate({S('mq_queue_messages_acknowledged_total')}[$__rate_interval])"
                ),
                "acknowledged",
            ),
            Query(
                total(
                    f"rate({S('mq_queue_messages_removed_total')}[$__rate_interval])"
                ),
                "removed",
            ),
            unit="mps",
        ),
        graph(
            "Queues and clients by state",
            "How many queues and clients are in each state. Unknown: they could not be judged, see the panel Collectors"
            " of the board Penstock. Watching: something would be a condition if it lasted. Healthy is only what was"
            " read, judged and found without fault.",
            Query(largest("state", _OF_BROKER("mq_object_knowledge")), "{{state}}"),
            unit="locale",
            stacked=True,
        ),
        graph(
            "Memory",
            "Memory used by messages and its limit. When the line nears the limit, see below which address uses it.",
            Query(
                largest("broker", S("mq_broker_memory_used_bytes")), "{{broker}} used"
            ),
            Query(
                largest("broker", S("mq_broker_memory_limit_bytes")), "{{broker}} limit"
            ),
            unit="bytes",
        ),
        graph(
            "Disk",
            "Used share of the disk, and the share at which every producer is blocked. Free space, or move the"
            " journal, well before they meet.",
            Query(largest("broker", S("mq_broker_disk_used_ratio")), "{{broker}} used"),
            Query(
                largest("broker", S("mq_broker_disk_limit_ratio")),
                "{{broker}} blocks at",
            ),
            unit="percentunit",
            largest=1,
        ),
        graph(
            "Java heap",
            "Heap of the broker's JVM and its maximum size; it rises and falls as garbage is collected. A minimum"
            " that climbs towards the limit means that messages or clients need more than was planned.",
            Query(largest("broker", S("mq_broker_heap_used_bytes")), "{{broker}} used"),
            Query(
                largest("broker", S("mq_broker_heap_limit_bytes")), "{{broker}} limit"
            ),
            unit="bytes",
        ),
        timeline(
            "Shortage of heap",
            "How short of memory the broker says it is, where it says so. From yellow on it slows producers down:"
            " give it more heap, or process the largest queues.",
            Query(largest("broker", S("mq_broker_resource_state")), "{{broker}} heap"),
            mappings={
                "0": ("green", OK),
                "1": ("yellow", "#F0E442"),
                "2": ("orange", WARNING),
                "3": ("red", CRITICAL),
            },
            width=6,
        ),
        graph(
            "Connections",
            "Client connections over time. A line that goes up and down quickly is a client that connects for every"
            " message.",
            Query(
                largest("broker", S("mq_broker_connections")), "{{broker}} connections"
            ),
            unit="locale",
            width=6,
        ),
        graph(
            "Expired and dead-lettered",
            "Messages a second that no consumer read in time, or that went to the dead letters. Both should be flat"
            " at 0.",
            Query(
                total(
                    f"rate({S('mq_queue_messages_expired_total')}[$__rate_interval])"
                ),
                "expired",
            ),
            Query(
                total(f"rate({S('mq_queue_messages_killed_total')}[$__rate_interval])"),
                "dead-lettered",
            ),
            unit="mps",
            decimals=2,
            width=6,
        ),
        graph(
            "Refused logins",
            "Logins that the broker refused, each second. A steady rate is a client with a wrong or expired password.",
            Query(
                rate("broker", S("mq_broker_authentication_failures_total")),
                "{{broker}} refused",
            ),
            unit="cps",
            decimals=2,
            width=6,
        ),
    ),
)

_ADDRESSES = Row(
    "Addresses",
    (
        graph(
            "Fill of addresses",
            "Used share of the memory limit of each address. Above the dashed line an address that does not page is"
            " about to block or refuse its producers: look for the queue in it that is not read.",
            Query(
                largest(_BY_ADDRESS, S("mq_address_memory_used_ratio")),
                "{{broker}} {{address}}",
            ),
            unit="percentunit",
            steps=above(T.address_used_ratio),
            links=(_ADDRESS_LINE_LINK,),
            empty="No address has a limit",
        ),
        graph(
            "Unrouted messages",
            "Messages a second that an address accepted and routed to no queue: they are lost. Look for a missing"
            " subscription, or a filter that matches nothing.",
            Query(
                rate(
                    _BY_ADDRESS,
                    S(
                        "mq_address_messages_unrouted_total",
                        f'address!~"{BROKERS_OWN}"',
                    ),
                ),
                "{{broker}} {{address}}",
            ),
            unit="mps",
            decimals=2,
        ),
        graph(
            "Rejected and dropped messages",
            "Messages a second that a full address rejected or dropped, or that were too large for it. Raise the"
            " limit or repair the consumers; see which address is full.",
            Query(
                rate(_BY_ADDRESS, S("mq_address_messages_rejected_total")),
                "{{broker}} {{address}} rejected",
            ),
            Query(
                rate(_BY_ADDRESS, S("mq_address_messages_dropped_total")),
                "{{broker}} {{address}} dropped",
            ),
            unit="mps",
            decimals=2,
            empty="Nothing was rejected or dropped",
        ),
        timeline(
            "Paging",
            "Addresses that are full. With the policy page they write messages to page files, which is slow but loses"
            " nothing, and a ring on one evicts late; with drop or fail they drop or reject. The table of policies"
            " below shows which.",
            Query(
                f"{largest(_BY_ADDRESS, S('mq_address_paging'))} > 0",
                "{{broker}} {{address}}",
            ),
            mappings={"1": ("paging", "#E69F00")},
            empty="No address pages",
            height=5,
        ),
        timeline(
            "Paused or blocked addresses",
            "Addresses whose consumers or producers an operator paused (resume them when the work is done), or whose"
            " producers are blocked because a limit is reached (repair the consumers).",
            Query(
                f"{largest(_BY_ADDRESS, S('mq_address_paused'))} > 0",
                "{{broker}} {{address}} consumers",
            ),
            Query(
                f"{largest(_BY_ADDRESS, S('mq_address_producers_paused'))} > 0",
                "{{broker}} {{address}} producers",
            ),
            Query(
                f"{largest(_BY_ADDRESS, S('mq_address_producers_blocked'))} > 0",
                "{{broker}} {{address}} producers, by a limit",
            ),
            mappings={"1": ("paused or blocked", "#E69F00")},
            empty="No address is paused or blocked",
            height=5,
        ),
        timeline(
            "Links",
            "Bridges, cluster connections, mirrors and federation. A link that is down lets messages pile up on this"
            " side.",
            Query(
                largest("broker, link, kind", S("mq_link_up")),
                "{{broker}} {{link}} ({{kind}})",
            ),
            mappings=UP,
            steps=(Step(None, CRITICAL), Step(1, OK)),
            empty="The broker has no links",
            height=5,
        ),
        timeline(
            "Conditions of addresses",
            "Active conditions of whole addresses: producers blocked, messages rejected or removed to make room, an"
            " address that is paused. Red: its queues have no acknowledgements either. Repair the consumers first;"
            " the runbook of the alert of the same name says more.",
            Query(
                largest(f"{_BY_ADDRESS}, cause", S("mq_address_unhealthy")),
                "{{broker}} {{address}} {{cause}}",
            ),
            mappings=SEVERITIES,
            empty=NOTHING_WRONG,
            width=24,
            height=5,
        ),
        table(
            "Addresses",
            "Each address with its memory, producers and page files. Choose one above, and the table of queues below"
            " shows what fills it.",
            ("broker", "address"),
            Column(
                "Memory", largest(_BY_ADDRESS, S("mq_address_memory_bytes")), "bytes"
            ),
            Column("Limit", largest(_BY_ADDRESS, S("mq_address_limit_bytes")), "bytes"),
            Column(
                "Fill",
                largest(_BY_ADDRESS, S("mq_address_memory_used_ratio")),
                "percentunit",
                0,
                steps=above(WARN, T.address_used_ratio),
            ),
            Column("Messages", largest(_BY_ADDRESS, S("mq_address_messages"))),
            Column("Producers", largest(_BY_ADDRESS, S("mq_address_producers"))),
            Column("Page files", largest(_BY_ADDRESS, S("mq_address_pages"))),
            Column(
                "In", rate(_BY_ADDRESS, S("mq_address_messages_added_total")), "mps"
            ),
        ),
        table(
            "When an address is full",
            "What the broker does then: page writes to disk, block stops producers, drop and fail drop or reject"
            " messages, the others remove messages or slow producers down.",
            ("broker", "address", "policy"),
            seen_by(f"{_BY_ADDRESS}, policy", S("mq_address_info")),
            height=6,
        ),
    ),
)

_QUEUES = Row(
    "Queues and connections",
    (
        table(
            "Queues",
            f"The {MOST_ROWS} queues with the worst conditions and the {MOST_ROWS} with most ready messages, worst"
            " first; with the messages a second that come in and go out. Choose an address to see others."
            " Click one for its history.",
            QUEUE,
            ready(S, BY_QUEUE),
            added(S, BY_QUEUE),
            out(S, BY_QUEUE),
            consumers(S, BY_QUEUE),
            worst(S, BY_QUEUE),
            sort=WORST_FIRST,
            links={"queue": QUEUE_LINK},
        ),
        table(
            "Connections that buffer most",
            "The worst connections only: those whose consumers have buffered messages longest. Many consumers or"
            " sessions on"
            " one connection share its buffer; spread them when one of them is slow.",
            ("broker", "connection", "client"),
            Column(
                "Buffered",
                largest(
                    "broker, connection, client", S("mq_connection_buffered_messages")
                ),
            ),
            Column(
                "Buffered bytes",
                largest(
                    "broker, connection, client", S("mq_connection_buffered_bytes")
                ),
                "bytes",
                1,
            ),
            Column(
                "Sessions",
                largest("broker, connection, client", S("mq_connection_sessions")),
            ),
            Column(
                "Consumers",
                largest("broker, connection, client", S("mq_connection_consumers")),
            ),
            Column(
                "Producers",
                largest("broker, connection, client", S("mq_connection_producers")),
            ),
        ),
        graph(
            "Pending messages of links",
            "Messages that wait to be sent over each link. Growth while the link is up means that the other side is"
            " slower.",
            Query(
                largest("broker, link, kind", S("mq_link_pending_messages")),
                "{{broker}} {{link}} ({{kind}})",
            ),
            unit="locale",
            width=24,
            height=6,
        ),
        findings(S("mq_config_finding")),
    ),
)

BROKER = Dashboard(
    "penstock-broker",
    "Penstock / Broker",
    "What is wrong on one broker; its resources, addresses, links and connections.",
    ("broker", "address"),
    (_NOW, _WRONG, _LOAD, _ADDRESSES, _QUEUES),
    single=("broker",),
)
