"""Page 1 of the report: what is to be known at a glance, and what to do, with its owners."""

import math
from collections.abc import Sequence
from typing import Any, Final

from penstock.insight.formatting import duration
from penstock_trends.wording import day_text, met_text, named

Plain = dict[str, Any]
MOST: Final = 6
"""Rows of each table."""
SEVERITIES: Final = {"critical": 7.0, "warning": 30.0, "notice": 90.0}
"""By how many days there are at least until a limit is met."""
ALIKE: Final = 1.1
"""Times the hours, in which queues were seen, of the period before: with less, that is none to compare with."""
LONGEST: Final = 365.0
"""Days, beyond which no date is said."""
PARTS: Final = {
    "memory": "memory of",
    "disk": "disk of",
    "messages": "messages of",
    "bytes": "bytes of",
}
GROWS: Final = {
    "memory": "the queues with the deepest backlog (section 3)",
    "disk": "paged and durable messages, journal files",
    "messages": "the queues of this address that do not drain",
    "bytes": "the queues of this address that do not drain",
}
NEEDED: Final = {
    "sudden changes": 9,
    "what changed since last week": 14,
    "queues that are not used": 14,
    "growth": 21,
    "forecasts": 21,
    "the last seven days beside usual weeks": 35,
    "what changed since last month": 56,
}
"""What a report says, and the days that it takes at least."""


def summary(facts: Plain, gone: Sequence[Plain]) -> Plain:
    """gone: where messages went, losses first."""
    lost = [one for one in gone if one["lost"]]
    found = {
        "risks": risks(facts),
        "lost": lost,
        "flow": facts["flow"]["worst"],
        "actions": actions(facts, lost),
    }
    more: Plain = {
        f"more_{name}": max(len(rows) - MOST, 0) for name, rows in found.items()
    }
    found = {name: rows[:MOST] for name, rows in found.items()}
    more |= {
        "changes": changes(facts),
        "unknown": not_known(facts),
        "headline": headline(facts, found["risks"], lost),
    }
    return found | more | {"flow_counts": facts["flow"]}


def headline(facts: Plain, dated: Sequence[Plain], lost: Sequence[Plain]) -> str:
    """One sentence."""
    first = (
        f"the {dated[0]['what']} {dated[0]['when']}"
        if dated
        else "no limit is known to be met within 90 days"
    )
    week = facts["periods"].get("week")
    span = "in the last seven days" if week else "since the history begins"
    count = week["lost"] if week else sum(one["messages"] for one in lost)
    losses = (
        f"{count:,} messages were lost {span}"
        if count
        else f"no message is known to be lost {span}"
    )
    missed = facts["flow"]["missed"]
    of = facts["flow"]["queues"]
    target = f"the flow target of {100 * facts['flow']['target']:.6g} %"
    flows = (
        f"{missed} of {of} queues missed {target}"
        if missed
        else f"all {of} queues met {target}"
    )
    text = f"{first}; {losses}; {flows if of else 'flow is not known yet'}."
    return text[0].upper() + text[1:]


def changes(facts: Plain) -> list[Plain]:
    """Sums of the last seven and 28 days beside those before; None where the history does not reach back so far."""
    periods = facts["periods"]
    names = {
        "added": "Messages added",
        "lost": "Messages lost",
        "conditions": "Conditions raised",
    }
    rows = []
    for key, name in {**names, "seconds": "Time with an active condition"}.items():
        row: Plain = {"name": name, "is_time": key == "seconds"}
        for period in ("week", "month"):
            new, old = (periods.get(one, {}) for one in (period, f"{period} before"))
            now = new.get(key)
            before = old.get(key)
            alike = before and new.get("hours", 0) <= ALIKE * old.get("hours", 0)
            change = now / before - 1 if alike else None
            row[period] = {"now": now, "before": before, "change": change}
        rows.append(row)
    return rows if periods else []


# --- risks


def limits_of(brokers: Sequence[Plain]) -> list[tuple[Plain, str, Plain]]:
    """Broker, name of the limit, and what is known of it; those that are met first come first."""
    found = [
        (broker, name, limit)
        for broker in brokers
        for name, limit in sorted(broker["limits"].items())
    ]
    dated = {"met": 0, "rising": 1}
    return sorted(
        found, key=lambda one: (dated.get(one[2]["state"], 2), one[2]["low"] or 0.0)
    )


def risks(facts: Plain) -> list[Plain]:
    """Limits that are met or have a date, the earliest first; targets that are missed come with those of a month."""
    found = [
        (broker["broker"], broker["owner"], name, one)
        for broker, name, one in limits_of(facts["brokers"])
    ]
    found += [
        (f"{one['address']} on {one['broker']}", one["owner"], one["limit_name"], one)
        for one in facts["addresses"]
    ]
    rows = [
        {
            "severity": next(
                name for name, days in SEVERITIES.items() if limit["low"] <= days
            ),
            "what": f"{PARTS[name]} {where}",
            "when": f"is {met_text(limit, limit['now'])}".replace(
                "is limit met", "reaches its limit"
            ),
            "owner": owner,
            "do": more_room(name, limit),
            "low": limit["low"],
        }
        for where, owner, name, limit in found
        if limit["state"] in ("met", "rising")
    ]
    rows += [
        row
        for queue in facts["queues"]
        for row in (short_ring(queue), slow_drain(queue))
        if row
    ]
    return sorted(rows, key=lambda row: (row["low"], row["what"]))


def short_ring(queue: Plain) -> Plain | None:
    """A ring that covers less than its target in the busiest hours."""
    target = queue["targets"]["ring_retention"]
    rate = queue["busiest_rate"]
    ring = queue["ring"]
    if not (target and rate and ring) or ring / rate >= target:
        return None
    when = f"covers {duration(ring / rate)} in its busiest hours, {duration(target)} is the target"
    return missed(
        queue,
        f"ring of {place(queue)}",
        when,
        f"Give it a ring of {math.ceil(target * rate):,} messages.",
    )


def slow_drain(queue: Plain) -> Plain | None:
    """A usual high backlog that takes its consumers longer than the target, even if nothing more comes."""
    target = queue["targets"]["drain_target"]
    backlog = queue["messages"]["p95"]
    together = (queue["pace"]["rate"] or 0.0) * (queue["consumers"] or 0.0)
    if not (target and backlog and together) or backlog / together <= target:
        return None
    when = f"({backlog:,.0f} messages) takes {duration(backlog / together)} at least, {duration(target)} is the target"
    return missed(
        queue,
        f"backlog of {place(queue)}",
        when,
        "See whether its consumers can do more: section 8.",
    )


def missed(queue: Plain, what: str, when: str, do: str) -> Plain:
    dated = {"severity": "warning", "low": SEVERITIES["warning"]}
    return dated | {"what": what, "when": when, "owner": queue["owner"], "do": do}


def place(queue: Plain) -> str:
    return f"{queue['queue']} on {queue['broker']}"


def more_room(name: str, limit: Plain) -> str:
    """What to give, and how long it would last."""
    more = f"Find what grows: {GROWS[name]}; or give it more."
    if limit["state"] == "met" or not limit["slope"] or limit["slope"] <= 0:
        return more
    days = (1.5 * limit["limit"] - limit["level"]) / limit["slope"]
    until = (
        f"until about {day_text(limit['now'] / 86400 + days)}"
        if days < LONGEST
        else "for more than a year"
    )
    return f"{more} 50 % more would last {until} at the present rate."


# --- advice


def actions(facts: Plain, lost: Sequence[Plain]) -> list[Plain]:
    """What to set, with what it would have done to the polls of the last days; then clients to look at."""
    owners = {named(queue): queue["owner"] for queue in facts["queues"]}
    worst = {named(one): at for at, one in enumerate(lost)}
    advice = sorted(
        facts.get("advice", []), key=lambda one: worst.get(named(one), len(worst))
    )
    found = [
        {
            "what": f"{one['queue']} on {one['broker']}. {one['evidence']}",
            "owner": owners.get(named(one), ""),
            "do": one["do"][0].upper() + one["do"][1:],
        }
        for one in advice
    ]
    for row in facts["stalls"][:3]:
        who = row["client"] or "The queue itself"
        often = "once" if row["count"] == 1 else f"{row['count']} times"
        text = f"{who}: {row['condition'].replace('_', ' ')} {often} on {row['queue']} ({row['broker']}),"
        text += f" {duration(row['total'])} in all, {duration(row['longest'])} at the longest."
        found.append(
            {
                "what": text,
                "owner": row["owner"],
                "do": "See what it waits for: section 6.",
            }
        )
    return found


def not_known(facts: Plain) -> list[str]:
    """What a reader would else take for well."""
    days = facts["window"]["days"]
    limits = [
        f"{name} of {broker['broker']}"
        for broker in facts["brokers"]
        for name, limit in sorted(broker["limits"].items())
        if limit["state"] == "unknown"
    ]
    more = f" and {len(limits) - MOST} more" if len(limits) > MOST else ""
    found = (
        [f"when these limits are met: {', '.join(limits[:MOST])}{more}"]
        if limits
        else []
    )
    found += hours_without_counters(facts["queues"])
    for queue, why in facts.get("unadvised", {}).items():
        found.append(
            f"what to set for {queue}: its polls could not be replayed ({why})"
        )
    return found + [
        f"{what} (from {least} days on)"
        for what, least in NEEDED.items()
        if days < least
    ]


def hours_without_counters(queues: Sequence[Plain]) -> list[str]:
    """One line of the queues whose counters the broker did not report at all times; none where there is no such."""
    texts = []
    for queue in queues:
        hours = queue.get("blind_hours", 0)
        if hours:
            texts.append(f"{place(queue)} ({hours} h)")
    if not texts:
        return []
    line = f"when messages came in hours without counters: {', '.join(texts[:MOST])}"
    if len(texts) > MOST:
        line += f" and {len(texts) - MOST} more"
    return [line]
