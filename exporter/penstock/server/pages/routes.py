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
"""Browsers may keep a file: one with another content has another link."""
TITLES = {400: "Bad request", 404: "Not found", 503: "Too many requests"}


def page_routes(agent: AgentView, look_ups: RequestLimit) -> list[web.RouteDef]:
    """The routes of all pages and of the files that they need.

    Any other path is answered by a page; deeper ones are not, as relative links would fail there.
    """
    pages = [
        web.get(path, partial(_page, agent, look_ups, view))
        for path, view in VIEWS.items()
    ]
    files = [
        web.get(f"/static/{name}", partial(_static, name)) for name in render.STATIC
    ]
    other_paths = web.get("/{page:[^/]+}", partial(_nowhere, agent, look_ups))
    return [*pages, other_paths, *files]


async def _page(
    agent: AgentView, look_ups: RequestLimit, view: View, request: web.Request
) -> web.Response:
    """A page, or the page that says why there is none."""
    status = 200
    try:
        async with look_ups.turn(line_of(request.query)):
            body = await asyncio.to_thread(
                lambda: render.page(*view(agent, request.query))
            )
    except Hinted as error:
        status = status_of(error)
        body = _error_page(request, error, TITLES[status])
    response = web.Response(
        body=body,
        status=status,
        content_type="text/html",
        charset="utf-8",
        headers=RETRY.get(status),
    )
    response.enable_compression()
    return response


def _error_page(request: web.Request, error: Hinted, title: str) -> bytes:
    """The page that says what is wrong with a request, and what to do."""
    context = {
        "title": title,
        "error": str(error),
        "hint": error.hint,
        "reloads": False,
        "given": known_of(request.query),
        "path": request.path.lstrip("/"),
    }
    return render.page("error.html", context)


async def _nowhere(
    agent: AgentView, look_ups: RequestLimit, request: web.Request
) -> web.Response:
    """The answer to a path that is no page: a page for browsers, an empty answer for others."""
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        raise web.HTTPNotFound
    return await _page(agent, look_ups, nowhere, request)


async def _static(name: str, _: web.Request) -> web.Response:
    """A file that pages need; browsers may keep it."""
    kind = render.STATIC[name]
    headers = {hdrs.CACHE_CONTROL: KEPT}
    return web.Response(
        body=render.static(name), content_type=kind, charset="utf-8", headers=headers
    )
