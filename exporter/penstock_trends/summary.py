"""Page 1 of the report: the state of the fleet at a glance, and actions with their owners."""

import math
from collections.abc import Sequence
from typing import Any, Final

from penstock.insight.formatting import duration
from penstock_trends.wording import day_text, met_text, named

Plain = dict[str, Any]
MOST: Final = 6
"""Rows of each table."""
SEVERITIES: Final = {"critical": 7.0, "warning": 30.0, "notice": 90.0}
"""Severity → the most days until a limit is met at the earliest."""
ALIKE: Final = 1.1
"""Two periods are compared if the later one has at most so many times the hours, in which queues were seen."""
LONGEST: Final = 365.0
"""Days, beyond which the text names no date."""
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
"""Statement of a report → the days of history that it needs."""
CHANGES: Final = {
    "added": "Messages added",
    "lost": "Messages lost",
    "conditions": "Conditions raised",
    "seconds": "Time with an active condition",
}
"""Sum of a period → its name in the table of changes."""


def summary(facts: Plain, fates: Sequence[Plain]) -> Plain:
    """Returns the content of page 1. fates: where messages went, losses first."""
    lost = [row for row in fates if row["lost"]]
    tables: dict[str, list[Plain]] = {
        "risks": risks(facts),
        "lost": lost,
        "flow": facts["flow"]["worst"],
        "actions": actions(facts, lost),
    }
    content: Plain = {}
    for name, rows in tables.items():
        content[name] = rows[:MOST]
        content[f"more_{name}"] = max(len(rows) - MOST, 0)
    return content | {
        "changes": changes(facts),
        "unknown": not_known(facts),
        "headline": headline(facts, content["risks"], lost),
        "flow_counts": facts["flow"],
    }


def headline(facts: Plain, dated: Sequence[Plain], lost: Sequence[Plain]) -> str:
    """Returns one sentence. dated: limits with a date, the earliest first. lost: rows of lost messages."""
    risk = "no limit is known to be met within 90 days"
    if dated:
        risk = f"the {dated[0]['what']} {dated[0]['when']}"
    losses = losses_text(facts["periods"].get("week"), lost)
    text = f"{risk}; {losses}; {flow_text(facts['flow'])}."
    return text[0].upper() + text[1:]


def losses_text(week: Plain | None, lost: Sequence[Plain]) -> str:
    """Returns a clause with how many messages were lost in the last week; in all of the history if that is shorter.

    week: sums of the last week; None without a whole week. lost: rows of lost messages.
    """
    if week:
        count = week["lost"]
        span = "in the last seven days"
    else:
        count = sum(row["messages"] for row in lost)
        span = "since the history begins"
    if not count:
        return f"no message is known to be lost {span}"
    return f"{count:,} messages were lost {span}"


def flow_text(flow: Plain) -> str:
    """Returns a clause with how many queues missed the flow target: the share of time in which messages get on."""
    queues = flow["queues"]
    target = f"the flow target of {100 * flow['target']:.6g} %"
    if not queues:
        return "flow is not known yet"
    if not flow["missed"]:
        return f"all {queues} queues met {target}"
    return f"{flow['missed']} of {queues} queues missed {target}"


def changes(facts: Plain) -> list[Plain]:
    """Returns a row for each sum of CHANGES: that of the last seven and 28 days, each beside the period before."""
    periods = facts["periods"]
    if not periods:
        return []
    return [
        {
            "name": name,
            "is_time": key == "seconds",
            "week": change(periods, "week", key),
            "month": change(periods, "month", key),
        }
        for key, name in CHANGES.items()
    ]


def change(periods: Plain, period: str, key: str) -> Plain:
    """Returns a sum of a period, the same of the period before, and the relative change.

    Each is None where the history does not reach back so far; the change also where the two cannot be compared.
    """
    new = periods.get(period, {})
    old = periods.get(f"{period} before", {})
    now = new.get(key)
    before = old.get(key)
    # Where queues were seen for longer, more is counted: that is no change.
    is_comparable = new.get("hours", 0) <= ALIKE * old.get("hours", 0)
    relative = None
    if before and is_comparable:
        relative = now / before - 1
    return {"now": now, "before": before, "change": relative}


# --- risks


def limits_of(brokers: Sequence[Plain]) -> list[tuple[Plain, str, Plain]]:
    """Returns broker, name and facts of each limit, those that are met first at the top."""
    limits = [
        (broker, name, limit)
        for broker in brokers
        for name, limit in sorted(broker["limits"].items())
    ]
    return sorted(limits, key=lambda entry: urgency(entry[2]))


def urgency(limit: Plain) -> tuple[int, float]:
    """Returns the key that sorts limits: those that are met, those with a date, the rest; within these the earliest."""
    ranks = {"met": 0, "rising": 1}
    rank = ranks.get(limit["state"], 2)
    return rank, limit["low"] or 0.0


def risks(facts: Plain) -> list[Plain]:
    """Returns the rows of the table of risks, the earliest first: limits that are met or dated, and missed targets.

    A target that is missed counts like a limit that is met in a month.
    """
    rows = [
        risk(broker["broker"], broker["owner"], name, limit)
        for broker, name, limit in limits_of(facts["brokers"])
        if is_dated(limit)
    ]
    for limit in facts["addresses"]:
        if is_dated(limit):
            where = f"{limit['address']} on {limit['broker']}"
            rows.append(risk(where, limit["owner"], limit["limit_name"], limit))
    for queue in facts["queues"]:
        missed_targets = [short_ring(queue), slow_drain(queue)]
        rows += [row for row in missed_targets if row is not None]
    return sorted(rows, key=lambda row: (row["low"], row["what"]))


def is_dated(limit: Plain) -> bool:
    """Returns whether it is known when a limit is met, or whether it is met now."""
    return limit["state"] in ("met", "rising")


def risk(where: str, owner: str, name: str, limit: Plain) -> Plain:
    """Returns the row for a limit that is met or has a date. name: key of PARTS. where: broker, or address on it."""
    earliest = limit["low"]
    severity = next(name for name, days in SEVERITIES.items() if earliest <= days)
    when = f"is {met_text(limit, limit['now'])}"
    return {
        "severity": severity,
        "what": f"{PARTS[name]} {where}",
        "when": when.replace("is limit met", "reaches its limit"),
        "owner": owner,
        "do": more_room(name, limit),
        "low": earliest,
    }


def short_ring(queue: Plain) -> Plain | None:
    """Returns the row for a ring that covers less than its target in the busiest hours; None for others."""
    target = queue["targets"]["ring_retention"]
    rate = queue["busiest_rate"]
    ring = queue["ring"]
    if not target or not rate or not ring:
        return None
    covered = ring / rate
    if covered >= target:
        return None
    return missed(
        queue,
        subject=f"ring of {place(queue)}",
        when=f"covers {duration(covered)} in its busiest hours, {duration(target)} is the target",
        do=f"Give it a ring of {math.ceil(target * rate):,} messages.",
    )


def slow_drain(queue: Plain) -> Plain | None:
    """Returns the row for a queue whose high backlog drains more slowly than its target; None for others.

    A high backlog is one that 95 % of the polls do not exceed. The time is the least
    one: that of a queue to which no message comes meanwhile.
    """
    target = queue["targets"]["drain_target"]
    backlog = queue["messages"]["p95"]
    rate = (queue["pace"]["rate"] or 0.0) * (queue["consumers"] or 0.0)
    if not target or not backlog or not rate:
        return None
    seconds = backlog / rate
    if seconds <= target:
        return None
    return missed(
        queue,
        subject=f"backlog of {place(queue)}",
        when=f"({backlog:,.0f} messages) takes {duration(seconds)} at least, {duration(target)} is the target",
        do="See whether its consumers can do more: section 8.",
    )


def missed(queue: Plain, subject: str, when: str, do: str) -> Plain:
    """Returns the row for a missed target, as urgent as a limit that is met within a month."""
    return {
        "severity": "warning",
        "low": SEVERITIES["warning"],
        "what": subject,
        "when": when,
        "owner": queue["owner"],
        "do": do,
    }


def place(queue: Plain) -> str:
    """Returns the name of a queue and of its broker, as texts have them."""
    return f"{queue['queue']} on {queue['broker']}"


def more_room(name: str, limit: Plain) -> str:
    """Returns the advice for a limit. If the level rises: also until when a limit half as large again would last."""
    advice = f"Find what grows: {GROWS[name]}; or give it more."
    slope = limit["slope"]
    if limit["state"] == "met" or not slope or slope <= 0:
        return advice
    larger = 1.5 * limit["limit"]
    days = (larger - limit["level"]) / slope
    until = "for more than a year"
    if days < LONGEST:
        today = limit["now"] / 86400
        until = f"until about {day_text(today + days)}"
    return f"{advice} 50 % more would last {until} at the present rate."


# --- advice


def actions(facts: Plain, lost: Sequence[Plain]) -> list[Plain]:
    """Returns the rows of the table of actions: settings to change, then the three leading stalls.

    The settings of the queues that lost most are first. lost: rows of lost messages,
    most first.
    """
    owners = {named(queue): queue["owner"] for queue in facts["queues"]}
    ranks = {named(row): rank for rank, row in enumerate(lost)}
    without_losses = len(ranks)
    advice = sorted(
        facts.get("advice", []),
        key=lambda row: ranks.get(named(row), without_losses),
    )
    settings = [setting_action(row, owners.get(named(row), "")) for row in advice]
    stalls = [stall_action(row) for row in facts["stalls"][:3]]
    return settings + stalls


def setting_action(row: Plain, owner: str) -> Plain:
    """Returns the action for a row of advice on the setting of a queue."""
    action = row["do"]
    return {
        "what": f"{place(row)}. {row['evidence']}",
        "owner": owner,
        "do": action[0].upper() + action[1:],
    }


def stall_action(row: Plain) -> Plain:
    """Returns the action for a row of stalls: conditions of a client or queue."""
    return {
        "what": stall_text(row),
        "owner": row["owner"],
        "do": "See what it waits for: section 6.",
    }


def stall_text(row: Plain) -> str:
    """Returns how often and how long a condition of a client or queue was active."""
    client = row["client"] or "The queue itself"
    condition = row["condition"].replace("_", " ")
    times = "once" if row["count"] == 1 else f"{row['count']} times"
    total = duration(row["total"])
    longest = duration(row["longest"])
    return (
        f"{client}: {condition} {times} on {row['queue']} ({row['broker']}),"
        f" {total} in all, {longest} at the longest."
    )


def not_known(facts: Plain) -> list[str]:
    """Returns statements about missing data: without them a reader would take silence for a good sign."""
    lines = unknown_limits(facts["brokers"])
    lines += hours_without_counters(facts["queues"])
    for queue, why in facts.get("unadvised", {}).items():
        lines.append(
            f"what to set for {queue}: its polls could not be replayed ({why})"
        )
    days = facts["window"]["days"]
    for statement, least in NEEDED.items():
        if days < least:
            lines.append(f"{statement} (from {least} days on)")
    return lines


def unknown_limits(brokers: Sequence[Plain]) -> list[str]:
    """Returns one line about the limits for which it is unknown when they are met; no line without any."""
    limits = [
        f"{name} of {broker['broker']}"
        for broker in brokers
        for name, limit in sorted(broker["limits"].items())
        if limit["state"] == "unknown"
    ]
    if not limits:
        return []
    return [f"when these limits are met: {first_of(limits)}"]


def first_of(texts: Sequence[str]) -> str:
    """Returns the first of the texts in one line, and how many more there are."""
    line = ", ".join(texts[:MOST])
    if len(texts) > MOST:
        line += f" and {len(texts) - MOST} more"
    return line


def hours_without_counters(queues: Sequence[Plain]) -> list[str]:
    """Returns one line about the queues whose counters the broker did not always report; no line without any."""
    texts = []
    for queue in queues:
        hours = queue.get("blind_hours", 0)
        if hours:
            texts.append(f"{place(queue)} ({hours} h)")
    if not texts:
        return []
    return [f"when messages came in hours without counters: {first_of(texts)}"]
