"""Requests that are refused before a password is checked: with a body, under a foreign host name, from another site."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from penstock.config.values import ascii_host
from penstock.core.errors import ConfigError
from penstock.server.connection_limit import PROBE_PATHS

EMPTY_BODY_SECONDS = 0.1
"""For the end of an empty body to arrive: some programs send one with every request, in chunks."""

_READS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_OWN_SITE = frozenset({"same-origin", "none"})
"""What a browser says of a request that a person or a page of this server caused."""
_PORT = re.compile(r":\d*$")


class Refusals:
    """Actions, which are all requests but GET, HEAD and OPTIONS, are refused where a page of another site caused them,
    or where the Host is foreign: none of this machine's, as a name is that an attacker lets point here (DNS rebinding).

    allowed_hosts: further names of this server; if there are any, reads under a foreign name are refused too.
    """

    def __init__(self, allowed_hosts: Collection[str] = ()) -> None:
        """Raises ConfigError where one of them is no host."""
        self._allowed = frozenset(map(_configured, allowed_hosts))
        self._own = self._allowed | {"localhost", _plain(socket.gethostname())}

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Lets a request through, or answers 403, 413 or 421."""
        if request.body_exists and not await _is_empty(request):
            refused = web.Response(status=413, text="No request takes a body here.\n")
            refused.force_close()
            return refused
        if request.path in PROBE_PATHS:
            return await handler(request)
        acts = request.method not in _READS
        host = request.headers.get(hdrs.HOST, "")
        if (acts or self._allowed) and not self._is_own(_name(host)):
            text = f"The host name {_name(host)[:100]!r} is foreign here; allow it with --web.allowed-host.\n"
            return web.Response(status=421, text=text)
        if acts and not self._same_site(request, host):
            return web.Response(
                status=403,
                text="Requests that another site's page causes are refused.\n",
            )
        return await handler(request)

    def _is_own(self, name: str) -> bool:
        """An address is: no name can be made to point to it. So is no name at all, as HTTP/1.0 may have it."""
        if name in self._own or not name:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _same_site(self, request: web.Request, host: str) -> bool:
        """Return whether a browser sent the request from a page of this server; programs count as such."""
        if request.headers.get("Sec-Fetch-Site", "none").lower() not in _OWN_SITE:
            return False
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None:  # as programs send none
            return True
        where = origin.partition("://")[2]
        return bool(where) and (
            where.lower() == host.lower() or _name(where) in self._allowed
        )


async def _is_empty(request: web.Request) -> bool:
    """Whether the body, which comes in chunks, has none. A body of a length is not waited for: it has something."""
    if request.content_length is not None:
        return False
    try:
        async with asyncio.timeout(EMPTY_BODY_SECONDS):
            return await request.content.readany() == b""
    except (TimeoutError, web.RequestPayloadError):
        return False


def _configured(name: str) -> str:
    """As browsers send it in the header Host."""
    try:
        return _plain(ascii_host(name))
    except ValueError:
        raise ConfigError(
            f"--web.allowed-host {name!r}: is no name of a host"
        ) from None


def _name(host: str) -> str:
    """Return the name of `name:port`."""
    return _plain(_PORT.sub("", host))


def _plain(name: str) -> str:
    """As names are compared."""
    return name.strip("[]").rstrip(".").lower()
