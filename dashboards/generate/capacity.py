"""Capacity: how far from the limits, and when they are reached."""

from dashboards.generate.common import BY_QUEUE, QUEUE, QUEUE_LINE_LINK, queue_line
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    Query,
    Row,
    Scope,
    above,
    graph,
    largest,
    least_of,
    stat,
)

from penstock.assets.thresholds import THRESHOLDS as T

S = Scope(QUEUE)
_DAY = 24 * 3600
_NO_JOB = "Nothing foreseen, or no trend job has run"
_BY_ADDRESS = "broker, address"


def _headroom(used: str, limit: str) -> str:
    return largest("broker", f"{S(used)} / {S(limit)}")


_LIMITS = Row(
    "Limits",
    (
        graph(
            "Message memory, of the limit",
            "Memory of all messages over what they may take. A trend towards 100 % over days calls for more memory, or"
            " for consumers that keep up.",
            Query(
                _headroom(
                    "mq_broker_memory_used_bytes", "mq_broker_memory_limit_bytes"
                ),
                "{{broker}}",
            ),
            unit="percentunit",
            steps=above(T.memory_of_limit_ratio),
        ),
        graph(
            "Disk, of the limit",
            "Used share of the disk over the share at which the broker blocks every producer. Make room, or a larger"
            " disk, before a trend over days meets 100 %.",
            Query(
                _headroom("mq_broker_disk_used_ratio", "mq_broker_disk_limit_ratio"),
                "{{broker}}",
            ),
            unit="percentunit",
            steps=above(T.disk_of_limit_ratio),
        ),
        graph(
            "Fill of addresses",
            "Used share of the memory limit of each address. The steady climbers are the ones to plan for.",
            Query(
                largest(_BY_ADDRESS, S("mq_address_memory_used_ratio")),
                "{{broker}} {{address}}",
            ),
            unit="percentunit",
            steps=above(T.address_used_ratio),
            empty="No address has a limit",
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
            queue_line(S, "mq_queue_ready_messages"),
            unit="locale",
            width=12,
            links=(QUEUE_LINE_LINK,),
        ),
        graph(
            "Time to drain",
            "How long each backlog lasts at the rates of the last five minutes. Longer than the quiet hours of the"
            " day: it is never fully processed.",
            queue_line(S, "mq_queue_drain_seconds"),
            unit="s",
            empty="No backlog shrinks",
            width=12,
            links=(QUEUE_LINE_LINK,),
        ),
    ),
)

_FORECASTS = Row(
    "Forecasts of the trend job",
    (
        graph(
            "Messages expected",
            "The largest hourly backlog expected within a day and a week: the mean, and between low and high what holds"
            " 95 % of what comes. Only queues whose forecast did better than repeating last week.",
            Query(
                largest(f"{BY_QUEUE}, horizon, bound", S("mq_forecast_messages")),
                "{{broker}} {{queue}} {{horizon}} {{bound}}",
            ),
            unit="locale",
            empty=_NO_JOB,
            width=12,
        ),
        graph(
            "Time to a limit",
            "When memory or disk of a broker, or an address, meets its limit if it grows on: low is the earliest, high"
            " the latest. Nothing here means no clear trend.",
            Query(
                largest("broker, limit, bound", S("mq_forecast_limit_seconds")),
                "{{broker}} {{limit}} {{bound}}",
            ),
            Query(
                largest(
                    "broker, address, limit, bound",
                    S("mq_forecast_address_limit_seconds"),
                ),
                "{{broker}} {{address}} {{limit}} {{bound}}",
            ),
            ranked=least_of,
            unit="s",
            empty=_NO_JOB,
            width=12,
        ),
        graph(
            "Growth of traffic",
            "Growth a week of what is added to each queue, relative to the last week. Steady growth of a few per cent"
            " doubles the traffic within months.",
            queue_line(S, "mq_trend_traffic_growth_ratio"),
            unit="percentunit",
            empty=_NO_JOB,
            decimals=1,
        ),
        graph(
            "Loss of rings",
            "Share of the messages added to each ring that it evicted unread, over the window of the trend job. More"
            " than its readers can do without calls for a larger ring or earlier reading.",
            queue_line(S, "mq_trend_ring_loss_ratio"),
            unit="percentunit",
            empty=_NO_JOB,
            decimals=2,
        ),
        stat(
            "Age of the forecasts",
            "Time since the trend job last ran. It should run each day: after two days without a run look at the job's"
            " log.",
            f"time() - max({S('mq_trend_timestamp_seconds')})",
            unit="s",
            empty=_NO_JOB,
            steps=above(_DAY + 3600, T.trend_stale_seconds),
            width=8,
            height=8,
        ),
    ),
)

CAPACITY = Dashboard(
    "penstock-capacity",
    "Penstock / Capacity and forecasts",
    "How far brokers and addresses are from their limits.",
    QUEUE,
    (_LIMITS, _TIMES, _FORECASTS),
    since="now-7d",
)
