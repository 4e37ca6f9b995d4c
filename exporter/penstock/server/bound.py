"""How many may be connected at once: the one that waits longest makes room, and who finds none is told so."""

import asyncio
import resource
from collections.abc import Iterable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MOST = 500
RESERVE = 64
"""Connections above the bound, for those that are told to leave and have not left."""
HANDSHAKE_SECONDS = 10.0
FAREWELL_SECONDS = 1.0
_TEXT = b"Too many connections; try again in a second.\n"
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_TEXT), _TEXT)
)


def most_connections() -> int:
    """Half of the descriptors that the system allows, so that brokers and files never lack one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(min(MOST, soft // 2 - RESERVE), 8)


class Bounded:
    """
    Makes the protocols of new connections, as asyncio's servers ask for them.

    At `most` connections the oldest without a request under way is closed; RESERVE above it a new one is answered 503.
    One whose TLS handshake has not ended counts for HANDSHAKE_SECONDS.
    """

    def __init__(self, server: web.Server, most: int) -> None:
        self._server = server
        self._most = most
        self.refused = 0
        """Connections that are being told that there is no room."""
        self._waiting: dict[RequestHandler, float] = {}
        """Accepted, and not known to the server yet: until when it counts."""
        self._busy: set[RequestHandler] = set()
        self._made, self._handle = server.connection_made, server.request_handler
        # There is no hook for either.
        server.connection_made = self._connection_made  # type: ignore[method-assign]
        server.request_handler = self._handled

    def __call__(self) -> asyncio.Protocol:
        now = asyncio.get_running_loop().time()
        while self._waiting and next(iter(self._waiting.values())) < now:
            self._waiting.pop(next(iter(self._waiting)))
        connected = self._server.connections
        count = len(connected) + len(self._waiting)
        if count >= self._most + RESERVE:
            return _Full(self)
        if count >= self._most:
            self._make_room(connected)
        handler = self._server()
        self._waiting[handler] = now + HANDSHAKE_SECONDS
        return handler

    def _make_room(self, connected: Iterable[RequestHandler]) -> None:
        for handler in connected:
            if handler not in self._busy and handler.transport is not None:
                handler.force_close()
                return

    def _connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._waiting.pop(handler, None)
        self._made(handler, transport)

    async def _handled(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await self._handle(request)
        finally:
            self._busy.discard(request.protocol)


class _Full(asyncio.Protocol):
    """Says that there is no room, once something was asked, and ends; at too many of these at once, without a word."""

    def __init__(self, bound: Bounded) -> None:
        self._bound = bound

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream server
        self._transport = transport
        self._bound.refused += 1
        wait = FAREWELL_SECONDS if self._bound.refused <= RESERVE else 0.0
        self._end = asyncio.get_running_loop().call_later(wait, transport.abort)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - whatever was asked
        if not self._transport.is_closing():
            self._transport.write(_FULL)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._bound.refused -= 1
        self._end.cancel()
