"""Capacity: how far from the limits, and when they are reached."""

from penstock.assets.dashboards.common import BY_QUEUE, QUEUE, QUEUE_LINE_LINK
from penstock.assets.dashboards.frame import Dashboard
from penstock.assets.dashboards.panels import Query, Row, Scope, above, graph, largest

S = Scope(QUEUE)
_BY_ADDRESS = "broker, address"


def _headroom(used: str, limit: str) -> str:
    return largest("broker", f"{S(used)} / {S(limit)}")


_LIMITS = Row(
    "Limits",
    (
        graph(
            "Message memory, of the limit",
            "Memory of all messages over what they may take. A trend towards 1 over days calls for more memory, or for"
            " consumers that keep up.",
            Query(_headroom("mq_broker_memory_used_bytes", "mq_broker_memory_limit_bytes"), "{{broker}}"),
            unit="percentunit",
            decimals=0,
            steps=above(0.9),
        ),
        graph(
            "Disk, of the limit",
            "Used share of the disk over the share at which the broker blocks every producer.",
            Query(_headroom("mq_broker_disk_used_ratio", "mq_broker_disk_limit_ratio"), "{{broker}}"),
            unit="percentunit",
            decimals=0,
            steps=above(0.9),
        ),
        graph(
            "Fill of addresses",
            "Used share of the memory limit of each address. The steady climbers are the ones to plan for.",
            Query(largest(_BY_ADDRESS, S("mq_address_memory_used_ratio")), "{{address}}"),
            unit="percentunit",
            decimals=0,
            steps=above(0.9),
        ),
    ),
)

_TIMES = Row(
    "Times",
    (
        graph(
            "Backlog",
            "Messages that wait, by queue. Compare the same hour of several days: a level that rises from day to day"
            " is growth, not a peak.",
            Query(largest(BY_QUEUE, S("mq_queue_ready_messages")), "{{queue}}"),
            unit="locale",
            decimals=0,
            width=12,
            links=(QUEUE_LINE_LINK,),
        ),
        graph(
            "Time to drain",
            "How long each backlog lasts at the rates of the last five minutes. Longer than the quiet hours of the day"
            " means that it is never worked off.",
            Query(largest(BY_QUEUE, S("mq_queue_drain_seconds")), "{{queue}}"),
            unit="s",
            decimals=1,
            width=12,
            links=(QUEUE_LINE_LINK,),
        ),
    ),
)

CAPACITY = Dashboard(
    "penstock-capacity",
    "Penstock / Capacity and forecasts",
    "How far brokers and addresses are from their limits.",
    QUEUE,
    (_LIMITS, _TIMES),
    since="now-7d",
)
