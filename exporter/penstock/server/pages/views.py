"""What each page shows: look-ups in the agent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.assessment.object_state import OF_SEVERITY, ObjectState, worst_of
from penstock.insight.answers import BrokerState, Knowledge, Recent
from penstock.insight.explain import NotFound
from penstock.insight.lists import CLIENT_SORTS, QUEUE_SORTS, WORST, ListQuery
from penstock.server.api import ROUTES
from penstock.server.pages import last_hour
from penstock.server.pages.render import words
from penstock.server.parameters import (
    RANGES,
    Given,
    integer,
    list_query,
    required,
    span,
    whole,
)
from penstock.server.view import AgentView

ROWS = 50
CONDITIONS = 20
EVENTS = 100
CONSUMERS = 50
FINDINGS = 100
"""Rows of a page."""
PARAMETERS = ("text", "broker", "condition", "address", "queue", "client", "cluster", "connection", "sort", "limit",
              "name", "offset", "range", "reload")  # fmt: skip
"""That pages take and pass on."""
EVENTS_OFFSET = integer("offset", "Events to pass over.", 0, 10_000)
TITLE = 120
"""Characters of a title."""
CALM = {
    ObjectState.UNKNOWN: "Not judged",
    ObjectState.NOTICE: "Notices only",
    ObjectState.WATCHING: "No warnings so far",
    ObjectState.HEALTHY: "No active conditions",
}
"""The headline where nothing is critical, a warning or down, by the worst state of the brokers."""
POINTS = 240
"""Values from which a line in a table is drawn: the whole hour."""

Context = dict[str, Any]
View = Callable[[AgentView, Given], tuple[str, Context]]
"""A template and what it shows."""


def overview(agent: AgentView, given: Given) -> tuple[str, Context]:
    brokers = agent.brokers()
    query = list_query(given, (WORST,), CONDITIONS)
    found = agent.conditions(given.get("broker", ""), query)
    incidents = agent.incidents(given.get("broker", ""), ListQuery(limit=CONDITIONS))
    headline = _headline(brokers)
    told = incidents.rows
    return "overview.html", {
        **_frame(
            given,
            agent,
            f"{headline}: {told[0].title} ({told[0].broker})" if told else headline,
            brokers,
        ),
        "headline": headline,
        "state": worst_of([ObjectState(one.state) for one in brokers])
        if brokers
        else ObjectState.UNKNOWN,
        "incidents": incidents,
        "conditions": found.rows,
        **_pages("./", given, query, found.total),
    }


def listed(name: str, sorts: Sequence[str]) -> View:
    """The page of queues or clients."""

    def shown(agent: AgentView, given: Given) -> tuple[str, Context]:
        query = list_query(given, sorts, ROWS)
        found = getattr(agent, name)(given.get("broker", ""), query, points=POINTS)
        own = {
            "rows": found.rows,
            "sort": query.sort,
            **_pages(name, given, query, found.total),
        }
        return f"{name}.html", {**_frame(given, agent, name.capitalize()), **own}

    return shown


def queue(agent: AgentView, given: Given) -> tuple[str, Context]:
    broker, name = required(given, "broker", "queue")
    found = agent.explain(broker, name, given.get("address"), None)
    consumers = agent.consumers(
        broker, ListQuery(address=found.address, queue=name, limit=CONSUMERS)
    )
    recent = agent.recent(broker, name, found.address, span(given))
    events = agent.events(since=0, limit=CONSUMERS, broker=broker, queue=name)
    return "queue.html", {
        **_frame(given, agent, _titled(name, found.knowledge)),
        "found": found,
        "consumers": consumers,
        **_charts(given, recent),
        "events": [one for one in reversed(events) if one.address == found.address],
    }


def _charts(given: Given, recent: Recent) -> Context:
    """buffered_most: by any of the clients, so that their lines share a scale."""
    courses = [one.course.buffered or () for one in recent.clients if one.course]
    return {
        "recent": recent,
        "range": given.get("range", "1h"),
        "ranges": list(RANGES),
        "buffered_most": max(
            (value for one in courses for value in one if value is not None),
            default=0.0,
        ),
        "strips": last_hour.strips(recent.episodes, recent.begin, recent.end),
    }


def account(agent: AgentView, given: Given) -> tuple[str, Context]:
    (broker,), name = required(given, "broker"), given.get("name", "")
    return "account.html", {
        **_frame(given, agent, f"Account of {name or broker}"),
        "found": agent.account(broker, name),
        "name": name,
    }


def client(agent: AgentView, given: Given) -> tuple[str, Context]:
    broker, name = required(given, "broker", "client")
    found = agent.client(broker, name)
    return "client.html", {
        **_frame(given, agent, _titled(name, found.knowledge)),
        "found": found,
        "rows": agent.clients(
            broker, ListQuery(client=name, limit=ROWS), points=POINTS
        ).rows,
        "consumers": agent.consumers(broker, ListQuery(client=name, limit=CONSUMERS)),
    }


def thing(kind: str) -> View:
    """The page of an address, without a broker over all of them, of a connection, or of a broker's cluster."""

    def shown(agent: AgentView, given: Given) -> tuple[str, Context]:
        *_, name = required(given, *(["broker"] if kind == "connection" else []), kind)
        found = agent.thing(given.get("broker", ""), kind, name)
        return "object.html", {
            **_frame(given, agent, _titled(found.name, found.knowledge)),
            "found": found,
        }

    return shown


def broker(agent: AgentView, given: Given) -> tuple[str, Context]:
    (name,) = required(given, "broker")
    brokers = agent.brokers()
    states = [one for one in brokers if one.name == name]
    found = (
        None if states and states[0].age is None else agent.thing(name, "broker", name)
    )
    state = states[0]
    return "broker.html", {
        **_frame(
            given, agent, _titled(name, found.knowledge) if found else name, brokers
        ),
        **(_charts(given, agent.recent(name, "", None, span(given))) if found else {}),
        "state": state,
        "found": found,
        "findings": state.findings[:FINDINGS],
        "findings_total": len(state.findings),
        "events": agent.events(since=0, limit=EVENTS, broker=name, queue="")[::-1],
    }


def events(agent: AgentView, given: Given) -> tuple[str, Context]:
    offset = whole(given, EVENTS_OFFSET)
    last = offset + EVENTS
    found = agent.events(
        since=0,
        limit=last + 1,
        broker=given.get("broker", ""),
        queue=given.get("queue", ""),
    )
    return "events.html", {
        **_frame(given, agent, "Events"),
        "events": found[::-1][offset:last],
        "newer": max(offset - EVENTS, 0) if offset else None,
        "older": last if len(found) > last else None,
    }


def api(agent: AgentView, given: Given) -> tuple[str, Context]:
    return "api.html", {**_frame(given, agent, "API"), "routes": ROUTES}


def nowhere(_: AgentView, __: Given) -> tuple[str, Context]:
    raise NotFound(
        "there is no page here",
        "the link may be cut off, or of another version of Penstock",
    )


VIEWS: Mapping[str, View] = {
    "/": overview,
    "/queues": listed("queues", QUEUE_SORTS),
    "/clients": listed("clients", CLIENT_SORTS),
    "/queue": queue,
    "/client": client,
    "/broker": broker,
    "/cluster": thing("cluster"),
    "/address": thing("address"),
    "/connection": thing("connection"),
    "/account": account,
    "/events": events,
    "/api": api,
}


# --- what they share


def known_of(given: Given) -> Mapping[str, str]:
    return {name: given[name] for name in PARAMETERS if given.get(name)}


def _frame(
    given: Given,
    agent: AgentView,
    title: str,
    brokers: Sequence[BrokerState] | None = None,
) -> Context:
    """What the frame of each page needs. reloads: whether a browser without scripts loads it again by itself."""
    return {
        "given": known_of(given),
        "brokers": agent.brokers() if brokers is None else brokers,
        "title": title if len(title) <= TITLE else f"{title[:TITLE]}…",
        "reloads": given.get("reload") != "off",
        "urls": agent.links(),
    }


def _titled(name: str, known: Knowledge) -> str:
    """What is wrong with it, where something is."""
    return f"{name}: {words(known.why) if ObjectState(known.state) in OF_SEVERITY.values() else known.state}"


def _headline(brokers: Sequence[BrokerState]) -> str:
    """How it is, in a few words: for the title, which is what an operator sees of a tab."""
    down = sum(one.up is False for one in brokers)
    critical, warnings = (
        sum(one.numbers.get(name, 0) for one in brokers)
        for name in ("critical", "warning")
    )
    counts = {
        f"broker{'s' if down > 1 else ''} down": down,
        "critical": critical,
        f"warning{'s' if warnings > 1 else ''}": warnings,
    }
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    if parts:
        return ", ".join(parts)
    read = [ObjectState(one.state) for one in brokers if one.up]
    if not read:
        return "Not polled yet"
    worst = worst_of(read)
    return CALM.get(worst, words(worst).capitalize())


def _pages(path: str, given: Given, query: ListQuery, total: int) -> Context:
    """Which rows of all these are, and the offsets of the pages before and after."""
    last = min(query.offset + query.limit, total)
    return {
        "path": path,
        "total": total,
        "first": min(query.offset + 1, total),
        "last": last,
        "before": max(query.offset - query.limit, 0) if query.offset else None,
        "after": last if last < total else None,
        "filtered": any(given.get(name) for name in ("text", "broker", "condition")),
    }
