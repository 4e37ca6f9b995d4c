"""The report: one HTML file that needs nothing else. The same facts give the same bytes."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from penstock.conditions.catalogue import CONDITIONS
from penstock.insight.formatting import duration
from penstock_trends import charts
from penstock_trends.analysis import cleaned
from penstock_trends.fates import totals, went

Plain = dict[str, Any]
TOP: Final = 10
IDLE_HOURS: Final = 14 * 24
ADVICE: Final = 20
GONE: Final = 40
NEEDED: Final = {
    "sudden changes": 9,
    "queues that are not used": 14,
    "growth": 21,
    "forecasts": 21,
    "the last week": 35,
}
"""What a report says, and the days that it takes at least."""
UNKNOWN: Final = "\N{EN DASH}"


def render(facts: Plain) -> str:
    import jinja2  # noqa: PLC0415 - a Spark worker needs no templates

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("penstock_trends"),
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
        "day": day_text,
    }
    return environment.get_template("report.html").render(view(facts))


def lasted(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def day_text(day: float) -> str:
    """Of a number of days since 1970."""
    return datetime.fromtimestamp(86400.0 * day, UTC).strftime("%d %b %Y").removeprefix("0")


MET: Final = {
    "met": "at its limit now",
    "far": "not within 90 days at the present rate",
    "falls back": "no date: it fell back from this level before",
    "unknown": "unknown: too little was seen of late",
}


def met_text(limit: Plain, now: float) -> str:
    """When the limit is met; now: seconds since 1970 from which its days count."""
    if limit["state"] != "rising":
        return MET[limit["state"]]
    today = now / 86400
    days, low = (day_text(today + limit[name]) for name in ("days", "low"))
    bounded = isinstance(limit["high"], float | int)
    span = f"between {low} and {day_text(today + limit['high'])}" if bounded else f"at the earliest {low}"
    return f"limit met about {days} ({span})"


def view(facts: Plain) -> Plain:
    """What the page shows, in the order of its sections."""
    queues: Sequence[Plain] = facts["queues"]
    busy = sorted((q for q in queues if q["added"]), key=lambda q: -q["added"])
    stopped = [row | {"client": row["client"] or "(the queue itself)"} for row in facts["stalls"]]
    advice = facts.get("advice", [])
    by_queue = {named(one): one for one in advice}
    gone = went(facts)
    by_hour: list[float | None] = facts["fleet"]["profile"]
    quiet = min(((total, hour) for hour, total in enumerate(by_hour) if total is not None), default=None)
    return {
        "window": facts["window"],
        "brokers": [broker | {"chart": limit_charts(broker)} for broker in facts["brokers"]],
        "queues": queues,
        "actions": actions(facts),
        "busy": [queue | {"chart": traffic_chart(queue)} for queue in busy[:TOP]],
        "growing": sorted((q for q in queues if q["traffic"]["clear"]), key=lambda q: -q["traffic"]["per_week"])[:TOP],
        "jumps": jumps(queues)[:TOP],
        "weeks": sorted((q for q in queues if q["week"]["clear"]), key=lambda q: -abs(q["week"]["ratio"] or 0.0))[:TOP],
        "fleet": facts["fleet"],
        "unknown": not_known(facts),
        "unclear": facts["fleet"]["unclear"],
        "unread": sorted(
            [*facts["damaged"].items(), *((path, "came late, when other files were gone") for path in facts["refused"])]
        ),
        "backlogs": sorted((q for q in queues if q["messages"]["peak"]), key=depth, reverse=True)[:TOP],
        "heat": charts.heat_map(by_hour, "Messages an hour by hour of the week, all queues, UTC"),
        "seen_hours": sum(value is not None for value in by_hour),
        "quiet_hour": "unknown" if quiet is None else f"{charts.DAYS[quiet[1] // 24]} {quiet[1] % 24:02d}:00 UTC",
        "stalls": stopped,
        "incidents": facts.get("incidents", []),
        "behind": [
            (name, tuple(CONDITIONS[name].causes.values()))
            for name in sorted({row["condition"] for row in stopped[:20]} & CONDITIONS.keys())
        ],
        "rings": [q | {"advice": by_queue.get(named(q))} for q in queues if q["ring"] is not None],
        "advice": advice,
        "clients": sorted(
            (c for c in facts.get("clients", []) if c["settled"]), key=lambda c: -(c["utilisation"] or 0)
        )[:TOP],
        "went": gone[:GONE],
        "more_went": max(len(gone) - GONE, 0),
        "went_totals": totals(gone),
        "counted_from": min((one["first"] for one in facts.get("fates", [])), default=None),
        "idle": sorted((q for q in queues if (q["idle_hours"] or 0) >= IDLE_HOURS), key=lambda q: -q["idle_hours"]),
        "models": models(queues),
        "data": json.dumps(cleaned(facts), sort_keys=True, separators=(",", ":")).replace("<", r"\u003c"),
    }


def not_known(facts: Plain) -> list[str]:
    """What a reader would else take for well."""
    days = facts["window"]["days"]
    limits = [
        f"{name} of {broker['broker']}"
        for broker in facts["brokers"]
        for name, limit in sorted(broker["limits"].items())
        if limit["state"] == "unknown"
    ]
    more = f" and {len(limits) - TOP} more" if len(limits) > TOP else ""
    found = [f"when these limits are met: {', '.join(limits[:TOP])}{more}"] if limits else []
    return found + [f"{what} (from {least} days on)" for what, least in NEEDED.items() if days < least]


def depth(queue: Plain) -> tuple[float, float]:
    """By what the deepest backlog is found."""
    return queue["messages"]["p95"] or 0, queue["messages"]["peak"]


def actions(facts: Plain) -> list[Plain]:
    """What to do, the most urgent first. weight: only to sort."""
    found: list[tuple[float, Plain]] = []
    for broker in facts["brokers"]:
        for name, limit in sorted(broker["limits"].items()):
            if limit["state"] in ("met", "rising"):
                text = f"The {name} of {broker['broker']}: {met_text(limit, broker['last'])}."
                do = f"Give it more {name}, or find what grows (section 3)."
                found.append((limit["low"], {"what": text, "do": do}))
    by_queue = {named(one): one for one in facts.get("advice", [])}
    for one in went(facts):
        if one["lost"]:
            advice = by_queue.pop(named(one), None) if one["fate"] == "evicted" else None
            text = f"{one['queue'] or one['address']} on {one['broker']}: {one['amount']} messages {one['fate']}."
            found.append((100, {"what": text, "do": advice["do"] if advice else f"By {one['who']}; see section 10."}))
    found += [
        (150, {"what": f"{one['queue']} on {one['broker']}: {one['evidence']}", "do": one["do"]})
        for one in by_queue.values()
    ]
    for row in facts["stalls"][:3]:
        where, total = f"{row['queue']} ({row['broker']})", duration(row["total"])
        often = "once" if row["count"] == 1 else f"{row['count']} times"
        text = f"{row['client'] or '(the queue itself)'} stopped on {where} {often}, for {total} in all."
        found.append((200, {"what": text, "do": "Look at what that client waits for (section 6)."}))
    return [action for _, action in sorted(found, key=lambda one: one[0])]


def named(one: Plain) -> tuple[str, str, str]:
    return one["broker"], one["address"], one["queue"]


def jumps(queues: Sequence[Plain]) -> list[Plain]:
    """The lasting changes of level, the latest first."""
    found = [queue | change for queue in queues for change in queue["changes"]]
    return sorted(found, key=lambda one: (-one["day"], -abs(one["ratio"]), *named(one)))


def traffic_chart(queue: Plain) -> str:
    past = [(day * 86400.0, value) for day, value in queue["daily"]]
    made = queue["forecasts"]["added"]
    series, band = [("past", past)], []
    if made and made["shown"]:
        days = range(7)
        begin = queue["last"]
        sums = [sum(made["values"][24 * d : 24 * d + 24]) for d in days]
        series.append(("coming", [(begin + 86400.0 * d, sums[d]) for d in days]))
        band = [(begin + 86400.0 * d, max(sums[d] - made["daily"][d], 0.0), sums[d] + made["daily"][d]) for d in days]
    return charts.lines(series, f"Messages a day through {queue['queue']} on {queue['broker']}", band) if past else ""


def limit_charts(broker: Plain) -> list[Plain]:
    out = []
    for name, limit in sorted(broker["limits"].items()):
        if limit["limit"] and limit["daily"]:
            unit = {"memory": 2.0**20, "disk": 0.01}[name]
            line = [(day * 86400.0, value / unit) for day, value in limit["daily"]]
            title = f"{name.capitalize()} of {broker['broker']}, {'MiB' if name == 'memory' else '% of the disk'}"
            chart = charts.lines([("past", line)], title, limit=limit["limit"] / unit)
            out.append({"name": name, "title": title, "svg": chart, "when": met_text(limit, broker["last"])})
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
