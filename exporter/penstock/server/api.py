"""`/api/v1`: what is known, as JSON. Every answer is a look-up in what the last polls left; none waits for a broker."""

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial

import msgspec
from aiohttp import hdrs, web

from penstock.core.errors import Hinted
from penstock.insight import answers
from penstock.insight.explain import NotFound
from penstock.insight.lists import (
    CLIENT_SORTS,
    CONSUMER_SORTS,
    QUEUE_SORTS,
    WORST,
    ListQuery,
)
from penstock.server import parameters
from penstock.server.openapi import Route, Schema, described
from penstock.server.parameters import (
    DEFAULT_ROWS,
    LIMIT,
    POINTS,
    BadRequest,
    Given,
    Parameter,
    required,
    sort,
    whole,
)
from penstock.server.request_limit import Busy, RequestLimit, line_of
from penstock.server.view import AgentView

STATUS: Mapping[type[Hinted], int] = {NotFound: 404, Busy: 503, Hinted: 400}
"""The first that fits."""
RETRY: Mapping[int, Mapping[str, str]] = {503: {hdrs.RETRY_AFTER: "1"}}


def api_routes(agent: AgentView, look_ups: RequestLimit) -> list[web.RouteDef]:
    """Return the routes of the API; look-ups wait for their turn in `look_ups`."""
    # Names may hold anything; what is no slash once encoded is one name.
    return [
        web.get(
            re.sub(r"{(\w+)}", r"{\1:[^/]+}", route.path),
            partial(_answer, route, agent, look_ups),
        )
        for route in ROUTES
    ]


async def _answer(
    route: Route, agent: AgentView, look_ups: RequestLimit, request: web.Request
) -> web.Response:
    """Answer a request: its parameters are checked, and the look-up runs in a thread."""
    status = 200
    try:
        async with look_ups.turn(line_of(request.query)):
            arguments = _given(route, request)
            body = await asyncio.to_thread(
                lambda: msgspec.json.encode(route.look_up(agent, arguments))
            )
    except Hinted as error:
        status = status_of(error)
        body = msgspec.json.encode(answers.Error(str(error), error.hint))
    return web.Response(
        body=body + b"\n",
        status=status,
        headers=RETRY.get(status),
        content_type="application/json",
        charset="utf-8",
    )


def status_of(error: Hinted) -> int:
    """The status of an answer for `error`."""
    return next(status for kind, status in STATUS.items() if isinstance(error, kind))


def _given(route: Route, request: web.Request) -> Given:
    """The parameters, if they are known ones and none is missing. Raises BadRequest."""
    names = [
        parameter.name for parameter in route.parameters if parameter.place == "query"
    ]
    for name in request.query:
        if name not in names:
            allowed = f"allowed: {', '.join(names)}" if names else "there are none"
            raise BadRequest(f"unknown parameter {name[:40]!r}", allowed)
    arguments = {**request.query, **request.match_info}
    required(
        arguments,
        *(parameter.name for parameter in route.parameters if parameter.required),
    )
    return arguments


# --- look-ups


def _rows(arguments: Given, sorts: Sequence[str] = (WORST,)) -> tuple[str, ListQuery]:
    return arguments.get("broker", ""), parameters.list_query(arguments, sorts)


def _explain(agent: AgentView, arguments: Given) -> answers.Explanation:
    """Explain the queue or the client that is named."""
    return agent.explain(
        arguments["broker"],
        arguments["queue"],
        arguments.get("address"),
        arguments.get("client"),
    )


def _recent(agent: AgentView, arguments: Given) -> answers.Recent:
    """Return the last hour, or a longer range, of a queue or its broker. Raises BadRequest."""
    if "address" in arguments:
        required(arguments, "queue")
    return agent.recent(
        arguments["broker"],
        arguments.get("queue", ""),
        arguments.get("address"),
        parameters.span(arguments),
    )


def _events(agent: AgentView, arguments: Given) -> answers.EventList:
    """Return the events that the request asks for. Raises BadRequest."""
    try:
        since = float(arguments.get("since", "0"))
    except ValueError:
        since = math.nan
    if not math.isfinite(since):
        raise BadRequest(
            "since is no time", "seconds since 1970, as in since=1795219200"
        )
    limit = whole(arguments, LIMIT, DEFAULT_ROWS)
    broker = arguments.get("broker", "")
    queue = arguments.get("queue", "")
    return answers.EventList(
        agent.events(since=since, limit=limit, broker=broker, queue=queue)
    )


# --- routes


@cache
def openapi() -> Schema:
    return described(ROUTES)


IN_PATH = [
    Parameter(
        name, f"Name of the {name}, percent-encoded.", place="path", required=True
    )
    for name in ("broker", "address", "queue")
]
BROKER, QUEUE, CLIENT = (
    Parameter(name, f"Name of the {name}.", required=True)
    for name in ("broker", "queue", "client")
)
ADDRESS = Parameter("address", "Its address, where several queues have this name.")
NAME = Parameter("name", "An address or a queue; without it all that lost messages.")
ONLY = Parameter("client", "Only this client and the queue itself.")
OF_BROKER, OF_ADDRESS, OF_QUEUE, OF_CLIENT = (
    Parameter(name, f"Only of this {name}.")
    for name in ("broker", "address", "queue", "client")
)
CONDITION = Parameter("condition", "Only those that have this condition.")
TEXT = Parameter(
    "text",
    "Part of a name, in any case: of address, queue, client, owner, team or condition.",
)
SINCE = Parameter(
    "since",
    "Only what happened at this time or later, seconds since 1970.",
    {"type": "number"},
)
LISTED = (OF_BROKER, CONDITION, OF_QUEUE, TEXT, LIMIT, parameters.OFFSET)
OF_ONE = (*LISTED, OF_ADDRESS, OF_CLIENT)

ROUTES: Sequence[Route] = (
    Route("brokers", "The configured brokers and their state",
          answers.BrokerList, lambda agent, _: answers.BrokerList(agent.brokers())),
    Route("queues", "Queues, the worst first",
          answers.QueueList, lambda agent, given: agent.queues(*_rows(given, QUEUE_SORTS), whole(given, POINTS)),
          *LISTED, sort(QUEUE_SORTS), POINTS),
    Route("queues/{broker}/{address}/{queue}", "All that is known of one queue",
          answers.Explanation, _explain, *IN_PATH, ONLY),
    Route("clients", "Clients, the worst first",
          answers.ClientList, lambda agent, given: agent.clients(*_rows(given, CLIENT_SORTS), whole(given, POINTS)),
          *OF_ONE, sort(CLIENT_SORTS), POINTS),
    Route("consumers", "Consumers, the worst first",
          answers.ConsumerList, lambda agent, given: agent.consumers(*_rows(given, CONSUMER_SORTS)),
          *OF_ONE, sort(CONSUMER_SORTS)),
    Route("incidents", "Incidents, each a root with what comes of it, the worst first", answers.IncidentList,
          lambda agent, given: agent.incidents(*_rows(given)), OF_BROKER, TEXT, LIMIT, parameters.OFFSET),
    Route("conditions", "Conditions, the worst first",
          answers.ConditionList, lambda agent, given: agent.conditions(*_rows(given)), *OF_ONE),
    Route("explain", "The same as of one queue, with the names as parameters",
          answers.Explanation, _explain, BROKER, QUEUE, ADDRESS, ONLY),
    Route("broker", "All that is known of one broker",
          answers.ObjectView, lambda agent, given: agent.thing(given["broker"], "broker", given["broker"]), BROKER),
    Route("address", "All that is known of one address; its sums over all brokers where none is named",
          answers.ObjectView, lambda agent, given: agent.thing(given.get("broker", ""), "address", given["address"]),
          OF_BROKER, Parameter("address", "Name of the address.", required=True)),
    Route("clusters", "Pairs, clusters and mirrors, each with its sums, its brokers and its links",
          answers.ClusterList, lambda agent, _: answers.ClusterList(agent.clusters())),
    Route("connection", "All that is known of one connection",
          answers.ObjectView, lambda agent, given: agent.thing(given["broker"], "connection", given["connection"]),
          BROKER, Parameter("connection", "The broker's id of it.", required=True)),
    Route("account", "What became of messages: of a queue, of an address, or all that lost some",
          answers.AccountList, lambda agent, given: agent.account(given["broker"], given.get("name", "")),
          BROKER, NAME),
    Route("client", "All that is known of one client",
          answers.ClientView, lambda agent, given: agent.client(given["broker"], given["client"]), BROKER, CLIENT),
    Route("recent", "The last hour or days of one queue; of the whole broker where none is named", answers.Recent,
          _recent, BROKER, OF_QUEUE, ADDRESS, parameters.RANGE),
    Route("events", "What changed, oldest first", answers.EventList, _events, SINCE, LIMIT, OF_BROKER, OF_QUEUE),
    Route("openapi.json", "This description", dict, lambda *_: openapi()),
)  # fmt: skip
