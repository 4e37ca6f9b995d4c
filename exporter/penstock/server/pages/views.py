"""What each page shows: look-ups in the agent, nothing worked out anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.flow.explain import NotFound
from penstock.flow.lists import CLIENT_SORTS, QUEUE_SORTS, WORST, Wanted
from penstock.server.openapi import OPENAPI
from penstock.server.pages import charts
from penstock.server.parameters import required, wanted, whole
from penstock.server.view import AgentView, BrokerState

ROWS = 50
CONDITIONS = 20
EVENTS = 100
"""Rows of a page."""
PARAMETERS = ("text", "broker", "condition", "address", "queue", "client", "sort", "limit", "offset", "reload")
"""That pages take and pass on."""
MOST_EVENTS = 10_000
CONSUMERS = 50
FINDINGS = 100
POINTS = 240
"""Values from which a line in a table is drawn: the whole hour."""

Given = Mapping[str, str]
Context = dict[str, Any]
View = Callable[[AgentView, Given], tuple[str, Context]]
"""A template and what it shows."""


def overview(agent: AgentView, given: Given) -> tuple[str, Context]:
    brokers = agent.brokers()
    asked = wanted(given, (WORST,), CONDITIONS)
    conditions, total = agent.conditions(given.get("broker", ""), asked)
    return "overview.html", {
        **_frame(given, brokers),
        "title": _headline(brokers),
        "conditions": conditions,
        **_pages("./", given, asked, total),
    }


def queues(agent: AgentView, given: Given) -> tuple[str, Context]:
    return _listed(agent, given, "queues", QUEUE_SORTS)


def clients(agent: AgentView, given: Given) -> tuple[str, Context]:
    return _listed(agent, given, "clients", CLIENT_SORTS)


def _listed(agent: AgentView, given: Given, name: str, sorts: Sequence[str]) -> tuple[str, Context]:
    asked = wanted(given, sorts, ROWS)
    of = agent.queues if name == "queues" else agent.clients
    rows, total = of(given.get("broker", ""), asked, points=POINTS)
    return f"{name}.html", {
        **_frame(given, agent.brokers()),
        "title": name.capitalize(),
        "rows": rows,
        "sort": asked.sort,
        **_pages(name, given, asked, total),
    }


def queue(agent: AgentView, given: Given) -> tuple[str, Context]:
    broker, name = required(given, "broker", "queue")
    address = given.get("address")
    found = agent.explain(broker, name, address, None)
    of = Wanted(address=found["address"], queue=name, limit=CONSUMERS)
    consumers, consumers_total = agent.consumers(broker, of)
    recent = agent.recent(broker, name, found["address"])
    events = agent.events(since=0, limit=CONSUMERS, broker=broker, queue=name)
    return "queue.html", {
        **_frame(given, agent.brokers()),
        "title": name,
        "found": found,
        "consumers": consumers,
        "consumers_total": consumers_total,
        "recent": recent,
        "held_most": _most(recent["clients"]),
        "strips": charts.strips(recent["episodes"], recent["begin"], recent["end"]),
        "events": [one for one in reversed(events) if one.address == found["address"]],
    }


def _most(clients: Sequence[Mapping[str, Any]]) -> float:
    """The most that any of the clients held, so that their lines share a scale."""
    held = (value for one in clients if one["course"] for value in one["course"]["buffered"] if value is not None)
    return max(held, default=0.0)


def client(agent: AgentView, given: Given) -> tuple[str, Context]:
    broker, name = required(given, "broker", "client")
    found = agent.client(broker, name)
    rows, _ = agent.clients(broker, Wanted(client=name, limit=ROWS), points=POINTS)
    consumers, consumers_total = agent.consumers(broker, Wanted(client=name, limit=CONSUMERS))
    return "client.html", {
        **_frame(given, agent.brokers()),
        "title": name,
        "found": found,
        "rows": rows,
        "consumers": consumers,
        "consumers_total": consumers_total,
    }


def broker(agent: AgentView, given: Given) -> tuple[str, Context]:
    (name,) = required(given, "broker")
    brokers = agent.brokers()
    state = next((one for one in brokers if one.name == name), None)
    if state is None:
        raise NotFound(f"there is no broker {name!r}", f"brokers: {', '.join(one.name for one in brokers)}")
    return "broker.html", {
        **_frame(given, brokers),
        "title": name,
        "state": state,
        "findings": state.findings[:FINDINGS],
        "findings_total": len(state.findings),
        "events": agent.events(since=0, limit=EVENTS, broker=name, queue="")[::-1],
    }


def events(agent: AgentView, given: Given) -> tuple[str, Context]:
    asked = Wanted(limit=EVENTS, offset=whole(given, "offset", 0, 0, MOST_EVENTS))
    last = asked.offset + asked.limit
    found = agent.events(since=0, limit=last + 1, broker=given.get("broker", ""), queue=given.get("queue", ""))
    return "events.html", {
        **_frame(given, agent.brokers()),
        "title": "Events",
        "events": found[::-1][asked.offset : last],
        "newer": max(asked.offset - EVENTS, 0) if asked.offset else None,
        "older": last if len(found) > last else None,
    }


def api(_: AgentView, given: Given) -> tuple[str, Context]:
    rows = [
        (path, about["get"]["summary"], [one["name"] for one in about["get"]["parameters"]])
        for path, about in OPENAPI["paths"].items()
    ]
    return "api.html", {**_frame(given, ()), "title": "API", "paths": rows}


VIEWS: Mapping[str, View] = {
    "/": overview,
    "/queues": queues,
    "/clients": clients,
    "/queue": queue,
    "/client": client,
    "/broker": broker,
    "/events": events,
    "/api": api,
}


# --- what they share


def _frame(given: Given, brokers: Sequence[BrokerState]) -> Context:
    """What the frame of each page needs. reloads: whether a browser without scripts loads it again by itself."""
    known = {name: given[name] for name in PARAMETERS if given.get(name)}
    return {"given": known, "brokers": brokers, "reloads": given.get("reload") != "off"}


def _headline(brokers: Sequence[BrokerState]) -> str:
    """How it is, in a few words: for the title, which is what an operator sees of a tab."""
    down = sum(one.up is False for one in brokers)
    critical, warnings = (sum(one.numbers.get(name, 0) for one in brokers) for name in ("critical", "warning"))
    counts = {
        f"broker{'s' if down > 1 else ''} down": down,
        "critical": critical,
        f"warning{'s' if warnings > 1 else ''}": warnings,
    }
    told = [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join(told) or ("All well" if any(one.up for one in brokers) else "Nothing known yet")


def _pages(path: str, given: Given, asked: Wanted, total: int) -> Context:
    """Where the rows stand among all, and the offsets of the pages before and after."""
    last = min(asked.offset + asked.limit, total)
    return {
        "path": path,
        "total": total,
        "first": min(asked.offset + 1, total),
        "last": last,
        "before": max(asked.offset - asked.limit, 0) if asked.offset else None,
        "after": last if last < total else None,
        "filtered": any(given.get(name) for name in ("text", "broker", "condition")),
    }
