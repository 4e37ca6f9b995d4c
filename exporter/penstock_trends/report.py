"""The report: a page of the fleet and one of each broker, without scripts. The same facts give the same bytes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from penstock.conditions.catalogue import CONDITIONS
from penstock.core.errors import PenstockError
from penstock_trends import charts
from penstock_trends.fates import totals, went
from penstock_trends.summary import limits_of, summary
from penstock_trends.wording import UNKNOWN, day_text, lasted, met_text, named, signed

Plain = dict[str, Any]
VERSION: Final = 3
"""Of the facts: of another one they are made again."""
REPORT: Final = "report.html"
PAGES: Final = "brokers"
"""Directory of the pages of the brokers."""
TOP: Final = 10
FEW: Final = 3
"""Brokers of which the page of the fleet shows every limit."""
CHARTS: Final = 6
IDLE_HOURS: Final = 14 * 24
GONE: Final = 40


def pages(facts: Plain, name: str = REPORT) -> dict[str, str]:
    """Path → page: that of the fleet first, then one for each broker. Raises PenstockError for older facts."""
    import jinja2  # noqa: PLC0415 - a Spark worker needs no templates

    if facts.get("version") != VERSION:
        raise PenstockError(
            "the facts were made by another version of Penstock; run `penstock trends run` again"
        )
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("penstock_trends"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: (
            UNKNOWN if value is None else charts.short_number(value)
        ),
        "percent": lambda value: UNKNOWN if value is None else f"{100 * value:.1f} %",
        "signed": signed,
        "duration": lasted,
        "moment": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime(
            "%Y-%m-%d %H:%M"
        ),
        "day": day_text,
    }
    page = environment.get_template("broker.html")
    of_brokers = {
        page_of(one): page.render(broker_view(facts, one) | {"home": name})
        for one in facts["brokers"]
    }
    return {
        name: environment.get_template("report.html").render(view(facts)),
        **of_brokers,
    }


def page_of(broker: Plain) -> str:
    return f"{PAGES}/{broker['sid']:x}.html"


def view(facts: Plain) -> Plain:
    """What the page of the fleet shows, in the order of its sections."""
    queues: Sequence[Plain] = facts["queues"]
    busy = sorted((q for q in queues if q["added"]), key=lambda q: -q["added"])
    stopped = [
        row | {"client": row["client"] or "(the queue itself)"}
        for row in facts["stalls"]
    ]
    advice = advised(facts)
    by_queue = {named(one): one for one in advice}
    gone = went(facts)
    by_hour: list[float | None] = facts["fleet"]["profile"]
    quiet = min(
        ((total, hour) for hour, total in enumerate(by_hour) if total is not None),
        default=None,
    )
    clock = zone_text(facts)
    return {
        "window": facts["window"],
        "brokers": facts["brokers"],
        "links": {one["broker"]: page_of(one) for one in facts["brokers"]},
        "summary": summary(facts, gone),
        "urgent": [
            chart for chart in limit_charts(facts["brokers"]) if chart["urgent"]
        ][:CHARTS],
        "busy": [queue | {"chart": traffic_chart(queue)} for queue in busy[:TOP]],
        "growing": sorted(
            (q for q in queues if q["traffic"]["clear"]),
            key=lambda q: -q["traffic"]["per_week"],
        )[:TOP],
        "jumps": jumps(queues)[:TOP],
        "weeks": sorted(
            (q for q in queues if q["week"]["clear"]),
            key=lambda q: -abs(q["week"]["ratio"] or 0.0),
        )[:TOP],
        "fleet": facts["fleet"],
        "unread": sorted(facts["unread"].items()),
        "backlogs": sorted(
            (q for q in queues if q["messages"]["peak"]), key=depth, reverse=True
        )[:TOP],
        "heat": charts.heat_map(
            by_hour, f"Messages an hour by hour of the week, all queues, {clock}"
        ),
        "clock": clock,
        "few": FEW,
        "seen_hours": sum(value is not None for value in by_hour),
        "quiet_hour": "unknown"
        if quiet is None
        else f"{charts.DAYS[quiet[1] // 24]} {quiet[1] % 24:02d}:00 {clock}",
        "stalls": stopped,
        "incidents": facts.get("incidents", []),
        "behind": [
            (name, tuple(CONDITIONS[name].causes.values()))
            for name in sorted(
                {row["condition"] for row in stopped[:20]} & CONDITIONS.keys()
            )
        ],
        "rings": [
            q | {"advice": by_queue.get(named(q))}
            for q in queues
            if q["ring"] is not None
        ],
        "advice": advice,
        "clients": sorted(
            (c for c in facts.get("clients", []) if c["settled"]),
            key=lambda c: -(c["utilisation"] or 0),
        )[:TOP],
        "went": gone[:GONE],
        "more_went": max(len(gone) - GONE, 0),
        "went_totals": totals(gone),
        "counted_from": min(
            (one["first"] for one in facts.get("fates", [])), default=None
        ),
        "idle": sorted(
            (q for q in queues if (q["idle_hours"] or 0) >= IDLE_HOURS),
            key=lambda q: -q["idle_hours"],
        ),
        "models": models(queues),
    }


def broker_view(facts: Plain, broker: Plain) -> Plain:
    """What the page of one broker shows."""
    mine = [one for one in facts["queues"] if one["broker"] == broker["broker"]]
    return {
        "window": facts["window"],
        "broker": broker,
        "charts": limit_charts([broker]),
        "queues": [
            queue
            | {
                "chart": traffic_chart(queue),
                "advice": [a for a in advised(facts) if named(a) == named(queue)],
            }
            for queue in mine
        ],
        "went": [one for one in went(facts) if one["broker"] == broker["broker"]][
            :GONE
        ],
        "stalls": [row for row in facts["stalls"] if row["broker"] == broker["broker"]][
            :GONE
        ],
    }


def zone_text(facts: Plain) -> str:
    zones = facts["zones"] or ["UTC"]
    return zones[0] if len(zones) == 1 else "by each broker's clock"


def advised(facts: Plain) -> list[Plain]:
    """The advice with the owners of its queues."""
    owners = {named(queue): queue["owner"] for queue in facts["queues"]}
    return [
        one | {"owner": owners.get(named(one), "")} for one in facts.get("advice", [])
    ]


def depth(queue: Plain) -> tuple[float, float]:
    """By what the deepest backlog is found."""
    return queue["messages"]["p95"] or 0, queue["messages"]["peak"]


def jumps(queues: Sequence[Plain]) -> list[Plain]:
    """The lasting changes of level, the latest first."""
    found = [queue | change for queue in queues for change in queue["changes"]]
    return sorted(found, key=lambda one: (-one["day"], -abs(one["ratio"]), *named(one)))


def traffic_chart(queue: Plain) -> str:
    past = [(day * 86400.0, value) for day, value in queue["daily"]]
    made = queue["forecasts"]["added"]
    series = [("past", past)]
    band = []
    if made and made["shown"]:
        days = range(7)
        begin = queue["last"]
        sums = [sum(made["values"][24 * d : 24 * d + 24]) for d in days]
        series.append(("coming", [(begin + 86400.0 * d, sums[d]) for d in days]))
        band = [
            (
                begin + 86400.0 * d,
                max(sums[d] - made["daily"][d], 0.0),
                sums[d] + made["daily"][d],
            )
            for d in days
        ]
    marks = [
        (86400.0 * one["day"], f"{100 * one['ratio']:+.0f} %")
        for one in queue["changes"]
    ]
    title = f"Messages a day through {queue['queue']} on {queue['broker']}"
    return charts.lines(series, title, band, marks=marks) if past else ""


def limit_charts(brokers: Sequence[Plain]) -> list[Plain]:
    """The most urgent limit first."""
    out = []
    for broker, name, limit in limits_of(brokers):
        if limit["limit"] and limit["daily"]:
            unit = {"memory": 2.0**20, "disk": 0.01}[name]
            line = [(day * 86400.0, value / unit) for day, value in limit["daily"]]
            title = f"{name.capitalize()} of {broker['broker']}, {'MiB' if name == 'memory' else '% of the disk'}"
            chart = charts.lines([("past", line)], title, limit=limit["limit"] / unit)
            urgent = limit["state"] in ("met", "rising") or len(brokers) <= FEW
            out.append(
                {
                    "title": title,
                    "svg": chart,
                    "when": met_text(limit, limit["now"]),
                    "urgent": urgent,
                }
            )
    return out


def models(queues: Sequence[Plain]) -> Plain:
    """How good the forecasts were in their back-test."""
    made = [one for queue in queues for one in queue["forecasts"].values() if one]
    shown = [one for one in made if one["shown"]]
    return {
        "made": len(made),
        "shown": len(shown),
        "mase": median(one["mase"] for one in shown) if shown else None,
        "naive": median(one["naive"] for one in shown) if shown else None,
    }
