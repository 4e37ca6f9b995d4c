"""The routes. Nothing here waits for a broker: `/metrics` streams what the last polls published."""

import asyncio
import logging
import math
from collections.abc import Collection, Iterable
from functools import partial
from itertools import islice

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from penstock.core.errors import PenstockError
from penstock.exposition.negotiate import (
    FamilyFilter,
    UnknownFamily,
    accepts_gzip,
    answer,
)
from penstock.server.api import RETRY, STATUS, api_routes
from penstock.server.pages.routes import POLICY, page_routes
from penstock.server.refusals import Refusals
from penstock.server.request_limit import Busy, FairScheduler, RequestLimit
from penstock.server.view import AgentView

log = logging.getLogger(__name__)

WRITE_BYTES = 64 * 1024
"""One write; small, so that a reader counts as taking something at a few kB a second."""
OLD_SECONDS = 60.0
"""A scrape under way for so long makes room for another one when there is none left."""
KEEPS_UP_BYTES = 256 * 1024
"""A reader that took so much at once gets `AT_ONCE` pieces a write: each write waits for its turn with the worker."""
AT_ONCE = 4
ALONE_SECONDS = 0.005
"""For how long the only scrape under way goes on at once: a turn is two rounds of the loop, and each awaits the GIL."""
WRITES_AT_ONCE = 3
"""In one turn of the event loop, of all readers; with fewer, three scrapes at once take longer."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
}


def make_app(
    agent: AgentView,
    *,
    lifecycle: bool = False,
    allowed_hosts: Collection[str] = (),
    max_scrapes: int = 8,
    stall_seconds: float = 10.0,
) -> web.Application:
    """The application that serves `agent`.

    lifecycle: whether `POST /-/reload` reloads the configuration. allowed_hosts: see `penstock.server.refusals`.
    max_scrapes: bodies of `/metrics` under way at once; a further one is answered 503, or takes the place of one that
    has taken OLD_SECONDS. stall_seconds: a reader that takes nothing for so long is dropped.
    """
    look_ups = RequestLimit()
    return _app(
        [
            web.get("/metrics", Metrics(agent, max_scrapes, stall_seconds).answer),
            web.get("/config", partial(_config, agent)),
            web.post(
                "/-/reload",
                partial(_reload, agent, RequestLimit()) if lifecycle else _closed,
            ),
            *_probe_routes(agent),
            *page_routes(agent, look_ups),
            *api_routes(agent, look_ups),
        ],
        allowed_hosts,
    )


def make_probe_app(agent: AgentView) -> web.Application:
    """Health and readiness of `agent`, and nothing else."""
    return _app(_probe_routes(agent))


def _app(
    routes: Iterable[web.RouteDef], allowed_hosts: Collection[str] = ()
) -> web.Application:
    """Return an application with these routes, which refuses hosts that are not allowed."""
    app = web.Application(middlewares=[Refusals(allowed_hosts).middleware, _options])
    app.on_response_prepare.append(_set_headers)
    app.add_routes(routes)
    return app


@web.middleware
async def _options(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers OPTIONS with the methods that a path takes; users are checked before, as for other requests."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refused:
        if request.method != hdrs.METH_OPTIONS:
            raise
        methods = sorted({*refused.allowed_methods, hdrs.METH_OPTIONS})
        return web.Response(status=204, headers={hdrs.ALLOW: ",".join(methods)})


def _probe_routes(agent: AgentView) -> list[web.RouteDef]:
    return [
        web.get("/-/healthy", _healthy),
        web.get("/-/ready", partial(_ready, agent)),
    ]


async def _set_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.popall(hdrs.SERVER, None)


async def _config(agent: AgentView, _: web.Request) -> web.Response:
    return web.Response(text=agent.masked_config(), content_type="text/yaml")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="Penstock is healthy.\n")


async def _ready(agent: AgentView, _: web.Request) -> web.Response:
    ready, reason = agent.ready()
    text = "Penstock is ready.\n" if ready else f"Penstock is not ready: {reason}\n"
    return web.Response(status=200 if ready else 503, text=text)


async def _closed(_: web.Request) -> web.Response:
    text = "Reloading by request is switched off; send SIGHUP, or start Penstock with --web.enable-lifecycle.\n"
    return web.Response(status=403, text=text)


async def _reload(agent: AgentView, line: RequestLimit, _: web.Request) -> web.Response:
    """Reload the configuration; a refusal says why the old one stays in force."""
    try:
        async with line.turn():
            await agent.reload()
    except Busy as error:
        return web.Response(
            status=STATUS[Busy],
            headers=RETRY[STATUS[Busy]],
            text=f"{error}; {error.hint}.\n",
        )
    except PenstockError as error:
        text = (
            f"The old configuration stays in force; the new one is refused:\n{error}\n"
        )
        return web.Response(status=500, text=text)
    return web.Response(text="The configuration was reloaded.\n")


class Metrics:
    """`/metrics`: at most `max_scrapes` bodies at once, each as fast as its reader takes it."""

    def __init__(
        self, agent: AgentView, max_scrapes: int, stall_seconds: float
    ) -> None:
        self._agent = agent
        self._max_scrapes = max_scrapes
        self._stall_seconds = stall_seconds
        self._turns = FairScheduler(WRITES_AT_ONCE)
        self._turned = -math.inf
        """When others had their turn last, by the loop's clock."""
        self._scrapes: dict[int, tuple[web.Request, float]] = {}
        """Those under way and since when, the oldest first; by the request's identity."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Stream the metrics, unless too many scrapes are under way."""
        now = asyncio.get_running_loop().time()
        if len(self._scrapes) >= self._max_scrapes and not self._made_room(now):
            text = f"{len(self._scrapes)} scrapes are under way, the most allowed; try again in a second.\n"
            return web.Response(status=503, headers={hdrs.RETRY_AFTER: "1"}, text=text)
        self._scrapes[id(request)] = request, now
        try:
            return await self._stream(request)
        finally:
            self._scrapes.pop(id(request), None)

    def _made_room(self, now: float) -> bool:
        """Whether the oldest scrape was old enough to be dropped."""
        oldest, since = next(iter(self._scrapes.values()))
        if now - since < OLD_SECONDS:
            return False
        del self._scrapes[id(oldest)]
        _drop(oldest, f"its reader took {now - since:.0f} s and others wait")
        return True

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Stream the metrics in pieces; a reader that stops reading is dropped."""
        form = answer(_joined(request, hdrs.ACCEPT))
        gzip = accepts_gzip(_joined(request, hdrs.ACCEPT_ENCODING))
        choice = FamilyFilter(
            *(tuple(request.query.getall(name, ())) for name in ("name[]", "exclude[]"))
        )
        try:
            chunks = self._agent.exposition.chunks(
                form.format, gzip=gzip, choice=choice
            )
        except UnknownFamily as error:
            return web.Response(status=400, text=f"{error}\n")
        headers = {
            hdrs.CONTENT_TYPE: form.content_type,
            hdrs.VARY: f"{hdrs.ACCEPT}, {hdrs.ACCEPT_ENCODING}",
        }
        response = web.StreamResponse(headers=headers)
        if gzip:
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        sent = 0
        keeps_up = True
        for chunk in chunks:
            part = chunk
            size = WRITE_BYTES
            if keeps_up and sent >= KEEPS_UP_BYTES:
                part = b"".join((chunk, *islice(chunks, AT_ONCE - 1)))
                size = len(part)
            for start in range(0, len(part), size):
                await self._let_others(request)
                keeps_up &= not _buffered(request)
                try:
                    async with asyncio.timeout(self._stall_seconds):
                        await response.write(part[start : start + size])
                except TimeoutError:
                    _drop(request, "its reader stopped reading")
                    return response
            sent += len(part)
        return response

    async def _let_others(self, request: web.Request) -> None:
        """A fast reader must not keep others waiting; the only scrape that there is comes back soon enough."""
        clock = asyncio.get_running_loop().time
        if (
            len(self._scrapes) > 1
            or _buffered(request)
            or clock() - self._turned >= ALONE_SECONDS
        ):
            await self._turns.turn()
            self._turned = clock()


def _buffered(request: web.Request) -> bool:
    """Whether the reader has not taken all that was written, or is gone."""
    return request.transport is None or request.transport.get_write_buffer_size() > 0


def _drop(request: web.Request, why: str) -> None:
    log.warning("a scrape from %s was dropped: %s", request.remote, why)
    if request.transport is not None:
        request.transport.abort()


def _joined(request: web.Request, name: str) -> str | None:
    """The header as one value, however many lines it came in."""
    return ", ".join(request.headers.getall(name, [])) or None
