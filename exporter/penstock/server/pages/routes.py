"""The routes of the pages; look-ups and rendering run outside of the event loop."""

import asyncio
from functools import partial

from aiohttp import hdrs, web

from penstock.core.errors import Hinted
from penstock.server.api import RETRY, status_of
from penstock.server.pages import render
from penstock.server.pages.views import VIEWS, View, known_of, nowhere
from penstock.server.request_limit import RequestLimit, line_of
from penstock.server.view import AgentView

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""What a browser may load: the product's own files, and nothing written in a page."""
KEPT = "private, max-age=31536000, immutable"
"""A file of another content has another link."""
TITLES = {400: "Bad request", 404: "Not found", 503: "Too many requests"}


def page_routes(agent: AgentView, look_ups: RequestLimit) -> list[web.RouteDef]:
    return [
        *(
            web.get(path, partial(_page, agent, look_ups, view))
            for path, view in VIEWS.items()
        ),
        web.get(
            "/{page:[^/]+}", partial(_nowhere, agent, look_ups)
        ),  # relative links of deeper paths would fail
        *(web.get(f"/static/{name}", partial(_static, name)) for name in render.STATIC),
    ]


async def _page(
    agent: AgentView, look_ups: RequestLimit, view: View, request: web.Request
) -> web.Response:
    status = 200
    try:
        async with look_ups.turn(line_of(request.query)):
            body = await asyncio.to_thread(
                lambda: render.page(*view(agent, request.query))
            )
    except Hinted as error:
        status = status_of(error)
        shown = {
            "title": TITLES[status],
            "error": str(error),
            "hint": error.hint,
            "reloads": False,
        }
        shown |= {"given": known_of(request.query), "path": request.path.lstrip("/")}
        body = render.page("error.html", shown)
    headers = RETRY.get(status)
    response = web.Response(
        body=body,
        status=status,
        content_type="text/html",
        charset="utf-8",
        headers=headers,
    )
    response.enable_compression()
    return response


async def _nowhere(
    agent: AgentView, look_ups: RequestLimit, request: web.Request
) -> web.Response:
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        raise web.HTTPNotFound
    return await _page(agent, look_ups, nowhere, request)


async def _static(name: str, _: web.Request) -> web.Response:
    kind = render.STATIC[name]
    headers = {hdrs.CACHE_CONTROL: KEPT}
    return web.Response(
        body=render.static(name), content_type=kind, charset="utf-8", headers=headers
    )
