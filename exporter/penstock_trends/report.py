"""The report: a page of the fleet and one of each broker, without scripts. The same facts give the same bytes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from penstock.conditions.catalogue import CONDITIONS
from penstock.core.errors import PenstockError
from penstock_trends import charts
from penstock_trends.fates import totals, went
from penstock_trends.summary import is_dated, limits_of, place, summary
from penstock_trends.wording import UNKNOWN, day_text, lasted, met_text, named, signed

Plain = dict[str, Any]
VERSION: Final = 3
"""Version of the facts: those of another version are made again."""
REPORT: Final = "report.html"
PAGES: Final = "brokers"
"""Directory of the pages of the brokers."""
TOP: Final = 10
"""Rows of a table."""
FEW: Final = 3
"""Up to so many brokers, the page of the fleet shows every limit."""
CHARTS: Final = 6
IDLE_HOURS: Final = 14 * 24
"""Without traffic for so long, a queue is listed as unused."""
GONE: Final = 40
"""Rows in the table of where messages went."""
STALLS_SHOWN: Final = 20
DAY: Final = 86400.0
UNITS: Final = {"memory": 2.0**20, "disk": 0.01}
"""Limit → the unit in which its chart shows it."""


def pages(facts: Plain, name: str = REPORT) -> dict[str, str]:
    """Path → page: that of the fleet first, then one for each broker. Raises PenstockError for older facts."""
    if facts.get("version") != VERSION:
        raise PenstockError(
            "the facts were made by another version of Penstock; run `penstock trends run` again"
        )
    environment = templates()
    fleet_page = environment.get_template("report.html").render(view(facts))
    texts = {name: fleet_page}
    template = environment.get_template("broker.html")
    for broker in facts["brokers"]:
        content = broker_view(facts, broker) | {"home": name}
        texts[page_of(broker)] = template.render(content)
    return texts


def templates() -> Any:
    """Returns the environment of the templates, with the filters that they use."""
    import jinja2  # noqa: PLC0415 - a Spark worker needs no templates

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("penstock_trends"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number_text,
        "percent": percent_text,
        "signed": signed,
        "duration": lasted,
        "moment": moment_text,
        "day": day_text,
    }
    return environment


def number_text(value: float | None) -> str:
    """Returns a number as text, short; UNKNOWN for None."""
    return UNKNOWN if value is None else charts.short_number(value)


def percent_text(share: float | None) -> str:
    """Returns a share as percent; UNKNOWN for None."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def moment_text(seconds: float) -> str:
    """Returns date and time in UTC. seconds: since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def page_of(broker: Plain) -> str:
    """Returns the path of a broker's page."""
    return f"{PAGES}/{broker['sid']:x}.html"


# --- the page of the fleet


def view(facts: Plain) -> Plain:
    """Returns the content of the page of the fleet, in the order of its sections."""
    queues: Sequence[Plain] = facts["queues"]
    fates = went(facts)
    content = {
        "window": facts["window"],
        "fleet": facts["fleet"],
        "brokers": facts["brokers"],
        "links": {broker["broker"]: page_of(broker) for broker in facts["brokers"]},
        "summary": summary(facts, fates),
        "unread": sorted(facts["unread"].items()),
    }
    content |= capacity_view(facts)
    content |= traffic_view(queues)
    content |= week_view(facts)
    content |= condition_view(facts)
    content |= advice_view(facts)
    content |= fate_view(facts, fates)
    content["idle"] = idle(queues)
    content["models"] = models(queues)
    return content


def capacity_view(facts: Plain) -> Plain:
    """Returns the limits that are met first, and the queues with most messages."""
    limits = limit_charts(facts["brokers"])
    urgent = [chart for chart in limits if chart["urgent"]]
    return {
        "urgent": urgent[:CHARTS],
        "few": FEW,
        "backlogs": deepest(facts["queues"]),
    }


def traffic_view(queues: Sequence[Plain]) -> Plain:
    """Returns how the traffic of queues grows and changes."""
    return {
        "growing": fastest_growing(queues),
        "jumps": jumps(queues)[:TOP],
        "weeks": unusual_weeks(queues),
        "busy": [queue | {"chart": traffic_chart(queue)} for queue in busiest(queues)],
    }


def week_view(facts: Plain) -> Plain:
    """Returns the traffic by hour of the week, and the quietest hour."""
    by_hour: list[float | None] = facts["fleet"]["profile"]
    clock = zone_text(facts)
    title = f"Messages an hour by hour of the week, all queues, {clock}"
    return {
        "clock": clock,
        "heat": charts.heat_map(by_hour, title),
        "seen_hours": sum(value is not None for value in by_hour),
        "quiet_hour": quiet_hour(by_hour, clock),
    }


def condition_view(facts: Plain) -> Plain:
    """Returns the conditions of clients and queues with their causes, and incidents."""
    stalls = stalls_with_clients(facts["stalls"])
    return {
        "stalls": stalls,
        "behind": causes_of(stalls[:STALLS_SHOWN]),
        "incidents": facts.get("incidents", []),
    }


def advice_view(facts: Plain) -> Plain:
    """Returns rings, clients, and settings that would do better."""
    advice = advised(facts)
    return {
        "rings": rings(facts["queues"], advice),
        "clients": most_used(facts.get("clients", [])),
        "advice": advice,
    }


def fate_view(facts: Plain, fates: Sequence[Plain]) -> Plain:
    """Returns where messages went."""
    return {
        "went": fates[:GONE],
        "more_went": max(len(fates) - GONE, 0),
        "went_totals": totals(fates),
        "counted_from": counted_from(facts.get("fates", [])),
    }


def zone_text(facts: Plain) -> str:
    """Returns the time zone of all brokers, or that each has its own."""
    zones = facts["zones"] or ["UTC"]
    return zones[0] if len(zones) == 1 else "by each broker's clock"


def quiet_hour(by_hour: Sequence[float | None], clock: str) -> str:
    """Returns the hour of the week with the fewest messages. by_hour: (168,) from Monday on, None where unknown."""
    totals_and_hours = [
        (messages, hour)
        for hour, messages in enumerate(by_hour)
        if messages is not None
    ]
    if not totals_and_hours:
        return "unknown"
    _, quietest = min(totals_and_hours)
    day = charts.DAYS[quietest // 24]
    return f"{day} {quietest % 24:02d}:00 {clock}"


def deepest(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the queues with the most messages, by how many they usually have at most."""
    used = [queue for queue in queues if queue["messages"]["peak"]]
    return sorted(used, key=depth, reverse=True)[:TOP]


def depth(queue: Plain) -> tuple[float, float]:
    """Returns the key that sorts queues by depth: the count that 95 % of polls do not exceed, then the highest."""
    messages = queue["messages"]
    return messages["p95"] or 0, messages["peak"]


def fastest_growing(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the queues whose traffic clearly grows or shrinks, the fastest growing first."""
    growing = [queue for queue in queues if queue["traffic"]["clear"]]
    return sorted(growing, key=lambda queue: -queue["traffic"]["per_week"])[:TOP]


def jumps(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the lasting changes of level, the latest first."""
    rows = [queue | change for queue in queues for change in queue["changes"]]
    return sorted(
        rows,
        key=lambda row: (-row["day"], -abs(row["ratio"]), *named(row)),
    )


def unusual_weeks(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the queues whose last week differs from the weeks before, the largest difference first."""
    unusual = [queue for queue in queues if queue["week"]["clear"]]
    return sorted(unusual, key=lambda queue: -abs(queue["week"]["ratio"] or 0.0))[:TOP]


def busiest(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the queues with the most messages added."""
    used = [queue for queue in queues if queue["added"]]
    return sorted(used, key=lambda queue: -queue["added"])[:TOP]


def stalls_with_clients(stalls: Sequence[Plain]) -> list[Plain]:
    """Returns the rows of conditions; those of a queue say so in place of a client."""
    return [row | {"client": row["client"] or "(the queue itself)"} for row in stalls]


def causes_of(stalls: Sequence[Plain]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns each condition and its possible causes, by name."""
    names = {row["condition"] for row in stalls} & CONDITIONS.keys()
    return [(name, tuple(CONDITIONS[name].causes.values())) for name in sorted(names)]


def rings(queues: Sequence[Plain], advice: Sequence[Plain]) -> list[Plain]:
    """Returns the ring queues, each with its advice or None."""
    advice_by_queue = {named(row): row for row in advice}
    return [
        queue | {"advice": advice_by_queue.get(named(queue))}
        for queue in queues
        if queue["ring"] is not None
    ]


def most_used(clients: Sequence[Plain]) -> list[Plain]:
    """Returns the clients with the least reserve for a peak."""
    active = [client for client in clients if client["settled"]]
    return sorted(active, key=lambda client: -(client["utilisation"] or 0))[:TOP]


def counted_from(fates: Sequence[Plain]) -> float | None:
    """Returns since when messages are counted by fate, in seconds since 1970."""
    return min((row["first"] for row in fates), default=None)


def idle(queues: Sequence[Plain]) -> list[Plain]:
    """Returns the unused queues, the longest first."""
    unused = [queue for queue in queues if (queue["idle_hours"] or 0) >= IDLE_HOURS]
    return sorted(unused, key=lambda queue: -queue["idle_hours"])


def models(queues: Sequence[Plain]) -> Plain:
    """Returns how many forecasts were made and are shown, and how good the shown ones were in their back-test.

    mase, naive: medians of the errors of the forecast, and of the seasonal naive.
    """
    made = [
        forecast
        for queue in queues
        for forecast in queue["forecasts"].values()
        if forecast
    ]
    good = [forecast for forecast in made if forecast["shown"]]
    return {
        "made": len(made),
        "shown": len(good),
        "mase": median_of(good, "mase"),
        "naive": median_of(good, "naive"),
    }


def median_of(rows: Sequence[Plain], column: str) -> float | None:
    """Returns the median of a column; None without rows."""
    if not rows:
        return None
    return float(median(row[column] for row in rows))


# --- the page of a broker


def broker_view(facts: Plain, broker: Plain) -> Plain:
    """Returns the content of the page of one broker."""
    name = broker["broker"]
    advice = advised(facts)
    queues = []
    for queue in of_broker(facts["queues"], name):
        own_advice = [row for row in advice if named(row) == named(queue)]
        queues.append(queue | {"chart": traffic_chart(queue), "advice": own_advice})
    return {
        "window": facts["window"],
        "broker": broker,
        "charts": limit_charts([broker]),
        "queues": queues,
        "went": of_broker(went(facts), name)[:GONE],
        "stalls": of_broker(facts["stalls"], name)[:GONE],
    }


def of_broker(rows: Sequence[Plain], broker: str) -> list[Plain]:
    """Returns the rows about one broker."""
    return [row for row in rows if row["broker"] == broker]


def advised(facts: Plain) -> list[Plain]:
    """Returns the advice with the owners of its queues."""
    owners = {named(queue): queue["owner"] for queue in facts["queues"]}
    return [
        row | {"owner": owners.get(named(row), "")} for row in facts.get("advice", [])
    ]


# --- charts


def traffic_chart(queue: Plain) -> str:
    """Returns the chart of the messages a day, with the forecast if it is good enough; empty without any day."""
    past = [(day * DAY, messages) for day, messages in queue["daily"]]
    if not past:
        return ""
    series = [("past", past)]
    band: list[tuple[float, float, float]] = []
    forecast = queue["forecasts"]["added"]
    if forecast and forecast["shown"]:
        series.append(("coming", daily_sums(forecast, queue["last"])))
        band = daily_band(forecast, queue["last"])
    marks = [
        (DAY * change["day"], f"{100 * change['ratio']:+.0f} %")
        for change in queue["changes"]
    ]
    title = f"Messages a day through {place(queue)}"
    return charts.lines(series, title, band, marks=marks)


def daily_sums(forecast: Plain, begin: float) -> list[tuple[float, float]]:
    """Returns time and messages for each of the next seven days. begin: of the first, in seconds since 1970."""
    hourly = forecast["values"]
    return [
        (begin + DAY * day, sum(hourly[24 * day : 24 * day + 24])) for day in range(7)
    ]


def daily_band(forecast: Plain, begin: float) -> list[tuple[float, float, float]]:
    """Returns time, lowest and highest number of messages for each of the next seven days."""
    days = zip(daily_sums(forecast, begin), forecast["daily"], strict=False)
    return [
        (time, max(messages - margin, 0.0), messages + margin)
        for (time, messages), margin in days
    ]


def limit_charts(brokers: Sequence[Plain]) -> list[Plain]:
    """Returns the charts of limits with their texts, the most urgent first.

    `urgent` is True where the page of the fleet shows the chart: the limit is met or has
    a date, or there are FEW brokers at most.
    """
    return [
        limit_chart(broker, name, limit)
        | {"urgent": is_dated(limit) or len(brokers) <= FEW}
        for broker, name, limit in limits_of(brokers)
        if limit["limit"] and limit["daily"]
    ]


def limit_chart(broker: Plain, name: str, limit: Plain) -> Plain:
    """Returns the chart of one limit, its title, and when the limit is met."""
    unit = UNITS[name]
    line = [(day * DAY, value / unit) for day, value in limit["daily"]]
    unit_text = "MiB" if name == "memory" else "% of the disk"
    title = f"{name.capitalize()} of {broker['broker']}, {unit_text}"
    return {
        "title": title,
        "svg": charts.lines([("past", line)], title, limit=limit["limit"] / unit),
        "when": met_text(limit, limit["now"]),
    }
