"""
`/api/v1`: what is known, as JSON. Every answer is a look-up in what the last polls left; none waits for a broker.

Look-ups that may walk many rows run in a thread of their own, so that other requests are answered meanwhile: what they
read is a value that a poll replaces as a whole and never changes.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import msgspec
from aiohttp import hdrs, web

from penstock.errors import PenstockError
from penstock.flow.explain import NotFound
from penstock.flow.lists import CLIENT_SORTS, CONSUMER_SORTS, QUEUE_SORTS, WORST, Listed, Wanted
from penstock.server.openapi import OPENAPI
from penstock.server.page import STYLE
from penstock.server.view import AgentView

MAX_ROWS = 1000
DEFAULT_ROWS = 100
AT_ONCE = 2
WAITING = 32
"""Look-ups that run, and that wait in line."""
MAX_OFFSET = 9_999_999
MAX_POINTS = 240
_DIGITS = re.compile(r"[0-9]{1,7}")
LISTED = ("broker", "condition", "queue", "text", "limit", "offset")
OF = ("address", "client")
"""Parameters of lists."""

Handler = Callable[[AgentView, web.Request], Awaitable[Any]]


class BadRequest(PenstockError):
    """A parameter that cannot be used; `hint` says what is allowed."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def api_routes(agent: AgentView) -> list[web.RouteDef]:
    look_ups = LookUps(agent)
    return [
        web.get("/api", _page),
        *(web.get(path, partial(look_ups.answer, handler)) for path, handler in HANDLERS.items()),
    ]


class LookUps:
    """AT_ONCE at a time, WAITING more in line: polls need the threads, and the processor, too."""

    def __init__(self, agent: AgentView) -> None:
        self._agent = agent
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._asked = 0

    async def answer(self, handler: Handler, request: web.Request) -> web.Response:
        if self._asked >= AT_ONCE + WAITING:
            content = {"error": f"{self._asked} requests are under way", "hint": "try again in a second"}
            response = _json(content, status=503)
            response.headers[hdrs.RETRY_AFTER] = "1"
            return response
        self._asked += 1
        try:
            async with self._turns:
                return await _answer(handler, self._agent, request)
        finally:
            self._asked -= 1


async def _answer(handler: Handler, agent: AgentView, request: web.Request) -> web.Response:
    try:
        return _json(await handler(agent, request))
    except NotFound as error:
        return _json({"error": str(error), "hint": error.hint}, status=404)
    except BadRequest as error:
        return _json({"error": str(error), "hint": error.hint}, status=400)


def _json(content: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(content) + b"\n"
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


def wanted(given: Mapping[str, str], sorts: Sequence[str], default_rows: int = DEFAULT_ROWS) -> Wanted:
    """The rows that parameters ask for. BadRequest: one of them cannot be used."""
    sort = given.get("sort") or WORST
    if sort.removeprefix("-") not in sorts:
        raise BadRequest(f"sort {sort[:40]!r} is not known", f"one of {', '.join(sorts)}; -NAME is the other way round")
    texts = {key: given.get(key, "") for key in ("address", "queue", "client", "condition", "text")}
    limit = whole(given, "limit", default_rows, 1, MAX_ROWS)
    return Wanted(**texts, sort=sort, limit=limit, offset=whole(given, "offset", 0, 0, MAX_OFFSET))


async def _queue(agent: AgentView, request: web.Request) -> Any:
    given, names = _only(request, "client"), request.match_info
    return await asyncio.to_thread(
        agent.explain, names["broker"], names["queue"], names["address"], given.get("client")
    )


async def _client(agent: AgentView, request: web.Request) -> Any:
    given = _required(_only(request, "broker", "client"), "broker", "client")
    return await asyncio.to_thread(agent.client, given["broker"], given["client"])


async def _recent(agent: AgentView, request: web.Request) -> Any:
    given = _required(_only(request, "broker", "queue", "address"), "broker", "queue")
    return await asyncio.to_thread(agent.recent, given["broker"], given["queue"], given.get("address"))


async def _explain(agent: AgentView, request: web.Request) -> Any:
    given = _required(_only(request, "broker", "queue", "address", "client"), "broker", "queue")
    return await asyncio.to_thread(
        agent.explain, given["broker"], given["queue"], given.get("address"), given.get("client")
    )


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


def _required(given: Mapping[str, str], *names: str) -> Mapping[str, str]:
    for name in names:
        if not given.get(name):
            raise BadRequest(f"{name} is missing", "&".join(f"{one}=NAME" for one in names))
    return given


def _points(given: Mapping[str, str]) -> int:
    return whole(given, "points", 0, 0, MAX_POINTS)


def whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """The parameter as a number; BadRequest when it is none or out of bounds."""
    text = given.get(name, str(default))
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise BadRequest(f"{name} cannot be used", f"a whole number from {least} to {most}")
    return int(text)


async def _page(_: web.Request) -> web.Response:
    rows = "\n".join(
        f"<tr><th scope='row'><code>{escape(path)}</code></th><td>{escape(about['get']['summary'])}</td>"
        f"<td>{escape(', '.join(p['name'] for p in about['get'].get('parameters', ())))}</td></tr>"
        for path, about in OPENAPI["paths"].items()
    )
    return web.Response(text=_PAGE.format(style=STYLE, rows=rows), content_type="text/html")


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock API</title>
<style>{style}</style>
</head>
<body>
<h1>Penstock API</h1>
<p>JSON; times are seconds since 1970. Described for programs in <a href="api/v1/openapi.json">openapi.json</a>.</p>
<div class="wide"><table>
<thead><tr><th scope="col">GET</th><th scope="col">Gives</th><th scope="col">Parameters</th></tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p><a href="./">Brokers</a></p>
</body>
</html>
"""
