"""
How many may be connected at once, and who comes first: probes, then whoever asks, and whoever says nothing makes room.

A connection costs little until the head of its first request is there; only then it gets a handler of aiohttp, and
only a few do in one turn of the event loop, so that a crowd that comes at the same moment delays no probe.
"""

import asyncio
import resource
from collections import deque
from collections.abc import Iterable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MOST = 500
RESERVE = 64
"""Connections above the bound, for those that are told to leave and have not left."""
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
"""For the head of a first request to be there whole."""
MAX_HEAD_BYTES = 16 * 1024
"""What is longer goes on to aiohttp, which refuses it in its words."""
FAREWELL_SECONDS = 1.0
AT_ONCE = 2
"""Handlers that begin in one turn of the loop."""
_PROBES = (b"GET /-/healthy ", b"HEAD /-/healthy ", b"GET /-/ready ", b"HEAD /-/ready ")
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

    At `most` connections the one that has been silent longest is closed, else the oldest without a request under way;
    RESERVE above it a new one is answered 503, unless it is a probe. One whose TLS handshake has not ended counts for
    HANDSHAKE_SECONDS. The head of a first request has `head_seconds`.
    """

    def __init__(self, server: web.Server, most: int, head_seconds: float = HEAD_SECONDS) -> None:
        self._server = server
        self._most = most
        self.head_seconds = head_seconds
        self.refused = 0
        """Connections that are being told that there is no room."""
        self._handshaking: dict[_Waiting, float] = {}
        """Accepted, and not connected yet: until when it counts."""
        self._silent: dict[_Waiting, None] = {}
        """Connected without a whole head, the oldest first."""
        self._asking: deque[_Waiting] = deque()
        """With a whole head, waiting for a handler."""
        self._busy: set[RequestHandler] = set()
        self._handle = server.request_handler
        server.request_handler = self._handled  # there is no hook for it

    def __call__(self) -> asyncio.Protocol:
        now = asyncio.get_running_loop().time()
        while self._handshaking and next(iter(self._handshaking.values())) < now:
            self._handshaking.pop(next(iter(self._handshaking)))
        handlers = self._server.connections
        count = len(handlers) + len(self._handshaking) + len(self._silent) + len(self._asking)
        if count >= self._most and self._silent:
            next(iter(self._silent)).drop()
        elif count >= self._most + RESERVE:
            return _Full(self)
        elif count >= self._most:
            self._close_idle(handlers)
        waiting = _Waiting(self)
        self._handshaking[waiting] = now + HANDSHAKE_SECONDS
        return waiting

    def _close_idle(self, handlers: Iterable[RequestHandler]) -> None:
        for handler in handlers:
            if handler not in self._busy and handler.transport is not None:
                handler.force_close()
                return

    def close(self) -> None:
        """Drop who has no handler."""
        for waiting in (*self._silent, *self._asking):
            waiting.drop()

    # --- what happens to those that wait

    def connected(self, waiting: "_Waiting") -> None:
        self._handshaking.pop(waiting, None)
        self._silent[waiting] = None

    def asks(self, waiting: "_Waiting") -> None:
        """Its head is there."""
        del self._silent[waiting]
        if waiting.head.startswith(_PROBES):
            self.let_in(waiting.transport, waiting.head)
            return
        waiting.transport.pause_reading()
        if not self._asking:
            asyncio.get_running_loop().call_soon(self._let_some_in)
        self._asking.append(waiting)

    def left(self, waiting: "_Waiting") -> None:
        self._handshaking.pop(waiting, None)
        self._silent.pop(waiting, None)
        if waiting in self._asking:
            self._asking.remove(waiting)

    def _let_some_in(self) -> None:
        for _ in range(min(AT_ONCE, len(self._asking))):
            waiting = self._asking.popleft()
            self.let_in(waiting.transport, waiting.head)
            waiting.transport.resume_reading()
        if self._asking:
            asyncio.get_running_loop().call_soon(self._let_some_in)

    def let_in(self, transport: asyncio.Transport, head: bytes) -> None:
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        handler.data_received(head)

    async def _handled(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await self._handle(request)
        finally:
            self._busy.discard(request.protocol)


class _Waiting(asyncio.Protocol):
    """A connection until the head of its first request is there."""

    transport: asyncio.Transport

    def __init__(self, bound: Bounded) -> None:
        self._bound = bound
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream server
        self.transport = transport
        self._end = asyncio.get_running_loop().call_later(self._bound.head_seconds, self.drop)
        self._bound.connected(self)

    def data_received(self, data: bytes) -> None:
        self.head += data
        if _goes_on(self.head):
            self._end.cancel()
            self._bound.asks(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end.cancel()
        self._bound.left(self)

    def drop(self) -> None:
        self._end.cancel()
        self._bound.left(self)
        self.transport.abort()


def _goes_on(head: bytes) -> bool:
    """Whether aiohttp shall look at it: it is whole, or can be no request."""
    return b"\n\r\n" in head or b"\n\n" in head or len(head) > MAX_HEAD_BYTES or not head[:1].isalpha()


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

    def data_received(self, data: bytes) -> None:
        if data.startswith(_PROBES):
            self.connection_lost(None)
            self._bound.let_in(self._transport, data)
        elif not self._transport.is_closing():
            self._transport.write(_FULL)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._bound.refused -= 1
        self._end.cancel()
