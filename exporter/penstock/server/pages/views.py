"""The contents of each page: look-ups in the agent."""

from collections.abc import Callable, Mapping, Sequence

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

Context = dict[str, object]
"""What a template shows."""
Page = tuple[str, Context]
"""The name of a template, and what it shows."""
View = Callable[[AgentView, Given], Page]
"""Makes a page of the parameters of a request."""


def overview(agent: AgentView, request: Given) -> Page:
    """The page with all that is wrong."""
    brokers = agent.brokers()
    query = list_query(request, (WORST,), CONDITIONS)
    name = request.get("broker", "")
    conditions = agent.conditions(name, query)
    incidents = agent.incidents(name, ListQuery(limit=CONDITIONS))
    headline = _headline(brokers)
    title = headline
    if incidents.rows:
        worst = incidents.rows[0]
        title = f"{headline}: {worst.title} ({worst.broker})"
    return "overview.html", {
        **_frame(request, agent, title, brokers),
        **_pages("./", request, query, conditions.total),
        "headline": headline,
        "state": _state_of(brokers),
        "incidents": incidents,
        "conditions": conditions.rows,
    }


def _state_of(brokers: Sequence[BrokerState]) -> ObjectState:
    """The worst state of the brokers; unknown where there is none."""
    if not brokers:
        return ObjectState.UNKNOWN
    return worst_of([ObjectState(broker.state) for broker in brokers])


def listed(name: str, sorts: Sequence[str]) -> View:
    """The page of queues or clients. name: of both the look-up and the template."""

    def page(agent: AgentView, request: Given) -> Page:
        query = list_query(request, sorts, ROWS)
        look_up = getattr(agent, name)
        answer = look_up(request.get("broker", ""), query, points=POINTS)
        return f"{name}.html", {
            **_frame(request, agent, name.capitalize()),
            **_pages(name, request, query, answer.total),
            "rows": answer.rows,
            "sort": query.sort,
        }

    return page


def queue(agent: AgentView, request: Given) -> Page:
    """The page of one queue."""
    broker_name, name = required(request, "broker", "queue")
    explanation = agent.explain(broker_name, name, request.get("address"), None)
    address = explanation.address
    of_queue = ListQuery(address=address, queue=name, limit=CONSUMERS)
    recent = agent.recent(broker_name, name, address, span(request))
    events = agent.events(since=0, limit=CONSUMERS, broker=broker_name, queue=name)
    newest_first = reversed(events)
    return "queue.html", {
        **_frame(request, agent, _titled(name, explanation.knowledge)),
        **_charts(request, recent),
        "found": explanation,
        "consumers": agent.consumers(broker_name, of_queue),
        "events": [event for event in newest_first if event.address == address],
    }


def _charts(request: Given, recent: Recent) -> Context:
    """The last values as charts. buffered_most: by any of the clients, so that their lines share a scale."""
    courses = [client.course for client in recent.clients if client.course]
    buffered = [
        value
        for course in courses
        for value in course.buffered or ()
        if value is not None
    ]
    return {
        "recent": recent,
        "range": request.get("range", "1h"),
        "ranges": list(RANGES),
        "buffered_most": max(buffered, default=0.0),
        "strips": last_hour.strips(recent.episodes, recent.begin, recent.end),
    }


def account(agent: AgentView, request: Given) -> Page:
    """The page of the account of a broker, or of one queue, address or client of it."""
    (broker_name,) = required(request, "broker")
    name = request.get("name", "")
    return "account.html", {
        **_frame(request, agent, f"Account of {name or broker_name}"),
        "found": agent.account(broker_name, name),
        "name": name,
    }


def client(agent: AgentView, request: Given) -> Page:
    """The page of one client over all its queues."""
    broker_name, name = required(request, "broker", "client")
    answer = agent.client(broker_name, name)
    queues = ListQuery(client=name, limit=ROWS)
    consumers = ListQuery(client=name, limit=CONSUMERS)
    return "client.html", {
        **_frame(request, agent, _titled(name, answer.knowledge)),
        "found": answer,
        "rows": agent.clients(broker_name, queues, points=POINTS).rows,
        "consumers": agent.consumers(broker_name, consumers),
    }


def thing(kind: str) -> View:
    """The page of an address, without a broker over all of them, of a connection, or of a broker's cluster."""
    needed = ("broker", kind) if kind == "connection" else (kind,)

    def page(agent: AgentView, request: Given) -> Page:
        name = required(request, *needed)[-1]
        answer = agent.thing(request.get("broker", ""), kind, name)
        title = _titled(answer.name, answer.knowledge)
        return "object.html", {**_frame(request, agent, title), "found": answer}

    return page


def broker(agent: AgentView, request: Given) -> Page:
    """The page of one broker; with its numbers once it has been read."""
    (name,) = required(request, "broker")
    brokers = agent.brokers()
    states = [state for state in brokers if state.name == name]
    was_read = not states or states[0].age is not None
    answer = agent.thing(name, "broker", name) if was_read else None
    state = states[0]
    title = _titled(name, answer.knowledge) if answer else name
    charts = (
        _charts(request, agent.recent(name, "", None, span(request))) if answer else {}
    )
    events = agent.events(since=0, limit=EVENTS, broker=name, queue="")
    return "broker.html", {
        **_frame(request, agent, title, brokers),
        **charts,
        "state": state,
        "found": answer,
        "findings": state.findings[:FINDINGS],
        "findings_total": len(state.findings),
        "events": events[::-1],
    }


def events(agent: AgentView, request: Given) -> Page:
    """The page of events, the newest first."""
    offset = whole(request, EVENTS_OFFSET)
    end = offset + EVENTS
    # One more than is shown says whether there are older ones.
    newest = agent.events(
        since=0,
        limit=end + 1,
        broker=request.get("broker", ""),
        queue=request.get("queue", ""),
    )
    return "events.html", {
        **_frame(request, agent, "Events"),
        "events": newest[::-1][offset:end],
        "newer": max(offset - EVENTS, 0) if offset else None,
        "older": end if len(newest) > end else None,
    }


def api(agent: AgentView, request: Given) -> Page:
    """The page that lists the routes of the API."""
    return "api.html", {**_frame(request, agent, "API"), "routes": ROUTES}


def nowhere(_: AgentView, __: Given) -> Page:
    """The answer to a path that is no page: always NotFound."""
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


# --- parts that pages share


def known_of(request: Given) -> Mapping[str, str]:
    """The parameters of a request that pages take and pass on."""
    return {name: request[name] for name in PARAMETERS if request.get(name)}


def _frame(
    request: Given,
    agent: AgentView,
    title: str,
    brokers: Sequence[BrokerState] | None = None,
) -> Context:
    """What the frame of each page needs. reloads: whether a browser without scripts loads it again by itself."""
    short_title = title if len(title) <= TITLE else f"{title[:TITLE]}…"
    return {
        "given": known_of(request),
        "brokers": agent.brokers() if brokers is None else brokers,
        "title": short_title,
        "reloads": request.get("reload") != "off",
        "urls": agent.links(),
    }


def _titled(name: str, knowledge: Knowledge) -> str:
    """The title of an object: its name with what is wrong with it, else with its state."""
    is_wrong = ObjectState(knowledge.state) in OF_SEVERITY.values()
    return f"{name}: {words(knowledge.why) if is_wrong else knowledge.state}"


def _headline(brokers: Sequence[BrokerState]) -> str:
    """How the brokers are, in a few words: for the title, which is what an operator sees of a tab."""
    down = sum(broker.up is False for broker in brokers)
    critical = sum(broker.numbers.get("critical", 0) for broker in brokers)
    warnings = sum(broker.numbers.get("warning", 0) for broker in brokers)
    counts = {
        f"broker{'s' if down > 1 else ''} down": down,
        "critical": critical,
        f"warning{'s' if warnings > 1 else ''}": warnings,
    }
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    if parts:
        return ", ".join(parts)
    read_brokers = [broker for broker in brokers if broker.up]
    if not read_brokers:
        return "Not polled yet"
    worst = _state_of(read_brokers)
    return CALM.get(worst, words(worst).capitalize())


def _pages(path: str, request: Given, query: ListQuery, total: int) -> Context:
    """Which rows of all these are, and the offsets of the pages before and after."""
    last = min(query.offset + query.limit, total)
    before = max(query.offset - query.limit, 0) if query.offset else None
    filters = ("text", "broker", "condition")
    return {
        "path": path,
        "total": total,
        "first": min(query.offset + 1, total),
        "last": last,
        "before": before,
        "after": last if last < total else None,
        "filtered": any(request.get(name) for name in filters),
    }
