"""
`/api/v1`: what is known, as JSON. Every answer is a look-up in what the last polls left; none waits for a broker.

Look-ups that may walk many rows run in a thread of their own, so that other requests are answered meanwhile: what they
read is a value that a poll replaces as a whole and never changes.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from aiohttp import hdrs, web

from penstock.flow.explain import NotFound
from penstock.flow.lists import CLIENT_SORTS, CONSUMER_SORTS, QUEUE_SORTS, WORST, Listed, Wanted
from penstock.server.look_ups import Busy, LookUps
from penstock.server.openapi import OPENAPI
from penstock.server.parameters import DEFAULT_ROWS, MAX_POINTS, MAX_ROWS, BadRequest, required, wanted, whole
from penstock.server.view import AgentView

LISTED = ("broker", "condition", "queue", "text", "limit", "offset")
OF = ("address", "client")
"""Parameters of lists."""

Handler = Callable[[AgentView, web.Request], Awaitable[Any]]


def api_routes(agent: AgentView, look_ups: LookUps) -> list[web.RouteDef]:
    return [web.get(path, partial(_answer, handler, agent, look_ups)) for path, handler in HANDLERS.items()]


async def _answer(handler: Handler, agent: AgentView, look_ups: LookUps, request: web.Request) -> web.Response:
    try:
        async with look_ups.turn():
            return _sent(await asyncio.to_thread(_encoded, await handler(agent, request)))
    except NotFound as error:
        return _json({"error": str(error), "hint": error.hint}, status=404)
    except BadRequest as error:
        return _json({"error": str(error), "hint": error.hint}, status=400)
    except Busy as error:
        response = _json({"error": str(error), "hint": error.hint}, status=503)
        response.headers[hdrs.RETRY_AFTER] = "1"
        return response


def _json(content: Any, status: int) -> web.Response:
    return _sent(_encoded(content), status)


def _encoded(content: Any) -> bytes:
    return msgspec.json.encode(content) + b"\n"


def _sent(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json", charset="utf-8")


async def _brokers(agent: AgentView, request: web.Request) -> Any:
    _only(request)
    return {"brokers": agent.brokers()}


async def _queues(agent: AgentView, request: web.Request) -> Any:
    given = _only(request, *LISTED, "sort", "points")
    return await _listed("queues", partial(agent.queues, points=_points(given)), given, QUEUE_SORTS)


async def _clients(agent: AgentView, request: web.Request) -> Any:
    given = _only(request, *LISTED, *OF, "sort", "points")
    return await _listed("clients", partial(agent.clients, points=_points(given)), given, CLIENT_SORTS)


async def _consumers(agent: AgentView, request: web.Request) -> Any:
    return await _listed("consumers", agent.consumers, _only(request, *LISTED, *OF, "sort"), CONSUMER_SORTS)


async def _conditions(agent: AgentView, request: web.Request) -> Any:
    return await _listed("conditions", agent.conditions, _only(request, *LISTED, *OF), (WORST,))


async def _listed(
    name: str, of: Callable[[str, Wanted], Listed], given: Mapping[str, str], sorts: Sequence[str]
) -> Any:
    rows, total = await asyncio.to_thread(of, given.get("broker", ""), wanted(given, sorts))
    return {name: rows, "total": total}


async def _queue(agent: AgentView, request: web.Request) -> Any:
    given, names = _only(request, "client"), request.match_info
    return await asyncio.to_thread(
        agent.explain, names["broker"], names["queue"], names["address"], given.get("client")
    )


async def _client(agent: AgentView, request: web.Request) -> Any:
    return await asyncio.to_thread(agent.client, *required(_only(request, "broker", "client"), "broker", "client"))


async def _recent(agent: AgentView, request: web.Request) -> Any:
    given = _only(request, "broker", "queue", "address")
    broker, queue = required(given, "broker", "queue")
    return await asyncio.to_thread(agent.recent, broker, queue, given.get("address"))


async def _explain(agent: AgentView, request: web.Request) -> Any:
    given = _only(request, "broker", "queue", "address", "client")
    broker, queue = required(given, "broker", "queue")
    return await asyncio.to_thread(agent.explain, broker, queue, given.get("address"), given.get("client"))


async def _events(agent: AgentView, request: web.Request) -> Any:
    given = _only(request, "since", "limit", "broker", "queue")
    try:
        since = float(given.get("since", "0"))
    except ValueError:
        since = math.nan
    if not math.isfinite(since):
        raise BadRequest("since is no time", "seconds since 1970, as in since=1795219200")
    found = await asyncio.to_thread(
        agent.events,
        since=since,
        limit=whole(given, "limit", DEFAULT_ROWS, 1, MAX_ROWS),
        broker=given.get("broker", ""),
        queue=given.get("queue", ""),
    )
    return {"events": found}


async def _openapi(_: AgentView, request: web.Request) -> Any:
    _only(request)
    return OPENAPI


HANDLERS: Mapping[str, Handler] = {
    "/api/v1/brokers": _brokers,
    "/api/v1/queues": _queues,
    # Names may hold anything; what is no slash once encoded is one name.
    "/api/v1/queues/{broker:[^/]+}/{address:[^/]+}/{queue:[^/]+}": _queue,
    "/api/v1/clients": _clients,
    "/api/v1/consumers": _consumers,
    "/api/v1/conditions": _conditions,
    "/api/v1/explain": _explain,
    "/api/v1/client": _client,
    "/api/v1/recent": _recent,
    "/api/v1/events": _events,
    "/api/v1/openapi.json": _openapi,
}


def _only(request: web.Request, *names: str) -> Mapping[str, str]:
    """The parameters, if they are known ones."""
    for name in request.query:
        if name not in names:
            raise BadRequest(
                f"unknown parameter {name[:40]!r}", f"allowed: {', '.join(names)}" if names else "there are none"
            )
    return request.query


def _points(given: Mapping[str, str]) -> int:
    return whole(given, "points", 0, 0, MAX_POINTS)
