"""The report: one HTML file that needs nothing else. The same facts give the same bytes."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from penstock.conditions.catalogue import CONDITIONS
from penstock.insight.formatting import duration
from penstock.trends import charts
from penstock.trends.advice import BACKLOG
from penstock.trends.analysis import cleaned
from penstock.trends.fates import totals, went

Plain = dict[str, Any]
TOP: Final = 10
IDLE_HOURS: Final = 14 * 24
SOON_DAYS: Final = 90
FAR: Final = 4
"""Of a range of days wider than this factor only the begin is told, once that is a week."""
ADVICE: Final = 20
GONE: Final = 40
LIMITS: Final = 5
URGENT: Final = ("too little in the buffer", "too few consumers")
"""What of the advice belongs on the first page: it costs throughput now."""
UNKNOWN: Final = "\N{EN DASH}"


def render(facts: Plain) -> str:
    import jinja2  # noqa: PLC0415 - a Spark worker needs no templates

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("penstock.trends"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: UNKNOWN if value is None else charts.short_number(value),
        "percent": lambda value: UNKNOWN if value is None else f"{100 * value:.1f} %",
        "signed": lambda value: UNKNOWN if value is None else f"{100 * value:+.1f} %",
        "duration": lasted,
        "moment": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"),
        "days": days_text,
    }
    return environment.get_template("report.html").render(view(facts))


def lasted(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def days_text(low: Any, high: Any) -> str:
    """A range of days until a limit, in words."""
    if low is None:
        return "no clear trend"
    if low == "never":
        return "not at the present trend"
    if high == 0:
        return "reached"
    if high == "never" or (low >= 7 and high > FAR * low):
        return f"{counted(low)} at the earliest"
    if high < 1:
        return "less than a day"
    return f"about {counted(low)}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {counted(high)}"


def counted(days: float) -> str:
    return "1 day" if f"{days:.0f}" == "1" else f"{days:.0f} days"


def met_text(low: Any, high: Any) -> str:
    """The same as what is said of a limit."""
    text = days_text(low, high)
    return f"limit met in {text}" if "day" in text else f"limit {text}" if text == "reached" else text


def view(facts: Plain) -> Plain:
    """What the page shows, in the order of its sections."""
    queues: Sequence[Plain] = facts["queues"]
    busy = sorted((q for q in queues if q["added"]), key=lambda q: -q["added"])
    stopped = [row | {"client": row["client"] or "(the queue itself)"} for row in facts["stalls"]]
    advice = shown_advice(facts.get("advice", []))
    gone = went(facts)
    by_hour: list[float | None] = facts["fleet"]["profile"]
    seen = [(value, hour) for hour, value in enumerate(by_hour) if value is not None]
    quiet = min(seen)[1] if seen else None
    return {
        "window": facts["window"],
        "brokers": [broker | {"chart": limit_charts(broker)} for broker in facts["brokers"]],
        "queues": queues,
        "actions": actions(facts),
        "busy": [queue | {"chart": traffic_chart(queue)} for queue in busy[:TOP]],
        "growing": sorted(
            (q for q in queues if q["traffic"]["clear"] and q["traffic"]["relative"] is not None),
            key=lambda q: -q["traffic"]["relative"],
        )[:TOP],
        "unclear": facts["fleet"]["unclear"],
        "fleet": facts["fleet"],
        "unread": sorted(
            [*facts["damaged"].items(), *((path, "came late, when other files were gone") for path in facts["refused"])]
        ),
        "backlogs": sorted((q for q in queues if q["messages"]["peak"]), key=depth, reverse=True)[:TOP],
        "heat": charts.heat_map(by_hour, "Messages an hour by hour of the week, all queues, UTC"),
        "quiet_hour": UNKNOWN if quiet is None else f"{charts.DAYS[quiet // 24]} {quiet % 24:02d}:00 UTC",
        "stalls": stopped,
        "behind": [
            (name, tuple(CONDITIONS[name].causes.values()))
            for name in sorted({row["condition"] for row in stopped[:20]} & CONDITIONS.keys())
        ],
        "rings": [q for q in queues if q["ring"] is not None],
        "advice": advice,
        "more_advice": len(facts.get("advice", [])) - len(advice),
        "clients": sorted(
            (c for c in facts.get("clients", []) if c["settled"]), key=lambda c: -(c["utilisation"] or 0)
        )[:TOP],
        "went": gone[:GONE],
        "more_went": max(len(gone) - GONE, 0),
        "went_totals": totals(gone),
        "counted_from": min((one["first"] for one in facts.get("fates", [])), default=None),
        "idle": sorted((q for q in queues if q["idle_hours"] >= IDLE_HOURS), key=lambda q: -q["idle_hours"]),
        "models": models(queues),
        "data": json.dumps(cleaned(facts), sort_keys=True, separators=(",", ":")).replace("</", "<\\/"),
    }


def depth(queue: Plain) -> tuple[float, float]:
    """By what the deepest backlog is found."""
    return queue["messages"]["p95"] or 0, queue["messages"]["peak"]


def actions(facts: Plain) -> list[Plain]:
    """What to do, the most urgent first. weight: only to sort."""
    found: list[tuple[float, Plain]] = []
    for broker in facts["brokers"]:
        for name, limit in sorted(broker["limits"].items()):
            low, high = limit["days_low"], limit["days_high"]
            if isinstance(low, float | int) and low < SOON_DAYS:
                meets = "has met its limit" if high == 0 else f"meets its limit in {days_text(low, high)}"
                text = f"The {name} of {broker['broker']} {meets}."
                found.append((low, {"what": text, "do": f"Give it more {name}, or find what grows (section 3)."}))
    rings = {(q["broker"], q["address"], q["queue"]): q["ring_advice"] for q in facts["queues"]}
    for one in went(facts):
        if one["lost"]:
            ring = rings.get((one["broker"], one["address"], one["queue"])) if one["fate"] == "evicted" else None
            text = f"{one['queue'] or one['address']} on {one['broker']}: {one['amount']} messages {one['fate']}."
            wanted = f"If they were wanted: a ring of {charts.short_number(ring['size'])}." if ring else ""
            found.append((100, {"what": text, "do": wanted or f"By {one['who']}; see section 10."}))
    for one in facts.get("advice", []):
        if one["subject"] in URGENT:
            where = f"{one['client']} on {one['queue']} ({one['broker']}): {one['subject']}."
            found.append((150, {"what": where, "do": f"{one['do']} Why: section 9."}))
    for row in facts["stalls"][:3]:
        where, total = f"{row['queue']} ({row['broker']})", duration(row["total"])
        often = "once" if row["count"] == 1 else f"{row['count']} times"
        text = f"{row['client'] or '(the queue itself)'} stopped on {where} {often}, for {total} in all."
        found.append((200, {"what": text, "do": "Look at what that client waits for (section 6)."}))
    return [action for _, action in sorted(found, key=lambda one: one[0])]


def shown_advice(advice: Sequence[Plain]) -> list[Plain]:
    """Of what any queue has, the backlog's limit, only the first ones."""
    limits = [one for one in advice if one["subject"] == BACKLOG]
    return [one for one in advice if one["subject"] != BACKLOG][:ADVICE] + limits[:LIMITS]


def traffic_chart(queue: Plain) -> str:
    daily = queue["daily"] if queue["last"] % 86400 == 0 else queue["daily"][:-1]  # a day under way is less
    past = [(day * 86400.0, value) for day, value in daily]
    made = queue["forecasts"]["added"]
    series, band = [("past", past)], []
    if made and made["shown"]:
        days = range(7)
        begin = queue["last"]
        sums = {name: [sum(made[name][24 * d : 24 * d + 24]) for d in days] for name in ("values", "low", "high")}
        series.append(("coming", [(begin + 86400.0 * d, sums["values"][d]) for d in days]))
        band = [(begin + 86400.0 * d, sums["low"][d], sums["high"][d]) for d in days]
    return charts.lines(series, f"Messages a day through {queue['queue']} on {queue['broker']}", band) if past else ""


def limit_charts(broker: Plain) -> list[Plain]:
    out = []
    for name, limit in sorted(broker["limits"].items()):
        if limit["limit"] and limit["daily"]:
            unit = {"memory": 2.0**20, "disk": 0.01}[name]
            line = [(day * 86400.0, value / unit) for day, value in limit["daily"]]
            title = f"{name.capitalize()} of {broker['broker']}, {'MiB' if name == 'memory' else '% of the disk'}"
            chart = charts.lines([("past", line)], title, limit=limit["limit"] / unit)
            out.append(
                {"name": name, "title": title, "svg": chart, "when": met_text(limit["days_low"], limit["days_high"])}
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
