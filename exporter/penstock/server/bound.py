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
SILENT_SECONDS = 1.0
"""Who came only now may be about to ask."""
FAREWELL_SECONDS = 1.0
AT_ONCE = 2
"""Handlers that begin in one turn of the loop."""
_PROBES = (b"GET /-/healthy ", b"HEAD /-/healthy ", b"GET /-/ready ", b"HEAD /-/ready ")


def _last(status: bytes, text: bytes) -> bytes:
    """An answer after which the connection ends."""
    return (
        b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(text), text)
    )


_FULL = _last(b"503 Service Unavailable\r\nRetry-After: 1", b"Too many connections; try again in a second.\n")
_TOO_LONG = _last(b"431 Request Header Fields Too Large", b"The request line and headers are too long.\n")


def most_connections() -> int:
    """Half of the descriptors that the system allows, so that brokers and files never lack one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(min(MOST, soft // 2 - RESERVE), 8)


class Bounded:
    """
    Makes the protocols of new connections, as asyncio's servers ask for them.

    At `most` connections one that has been silent for SILENT_SECONDS is closed, else the oldest without a request under
    way, else the oldest silent one; RESERVE above it a new one is answered 503, unless it is a probe. One whose TLS
    handshake has not ended counts for HANDSHAKE_SECONDS. The head of a first request has `head_seconds`.
    """

    def __init__(self, server: web.Server, most: int, head_seconds: float = HEAD_SECONDS) -> None:
        self._server = server
        self._most = most
        self.head_seconds = head_seconds
        self.refused = 0
        """Connections that are being told that there is no room."""
        self._handshaking: dict[_Waiting, float] = {}
        """Accepted, and not connected yet: until when it counts."""
        self._silent: dict[_Waiting, float] = {}
        """Connected without a whole head, the oldest first: since when."""
        self._asking: deque[_Waiting] = deque()
        """With a whole head, waiting for a handler."""
        self._closed = False
        self._busy: set[RequestHandler] = set()
        self._handle = server.request_handler
        server.request_handler = self._handled  # there is no hook for it

    def __call__(self) -> asyncio.Protocol:
        now = asyncio.get_running_loop().time()
        while self._handshaking and next(iter(self._handshaking.values())) < now:
            self._handshaking.pop(next(iter(self._handshaking)))
        handlers = self._server.connections
        count = len(handlers) + len(self._handshaking) + len(self._silent) + len(self._asking)
        if count >= self._most + RESERVE and not self._silent:
            return _Full(self)
        if count >= self._most:
            self._make_room(handlers, now)
        waiting = _Waiting(self)
        self._handshaking[waiting] = now + HANDSHAKE_SECONDS
        return waiting

    @property
    def probes_fit(self) -> bool:
        """Whether one more probe gets a handler though all are taken."""
        return len(self._server.connections) < self._most + 2 * RESERVE

    def _make_room(self, handlers: Iterable[RequestHandler], now: float) -> None:
        oldest, since = next(iter(self._silent.items()), (None, now))
        if oldest is not None and (now - since >= SILENT_SECONDS or not self._close_idle(handlers)):
            oldest.drop()
        elif oldest is None:
            self._close_idle(handlers)

    def _close_idle(self, handlers: Iterable[RequestHandler]) -> bool:
        for handler in handlers:
            if handler not in self._busy and handler.transport is not None:
                handler.force_close()
                return True
        return False

    def close(self) -> None:
        """Drop who has no handler, now and from now on."""
        self._closed = True
        for waiting in (*self._silent, *self._asking):
            waiting.drop()

    # --- what happens to those that wait

    def connected(self, waiting: "_Waiting") -> None:
        self._handshaking.pop(waiting, None)
        self._silent[waiting] = asyncio.get_running_loop().time()
        if self._closed:
            waiting.drop()

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
        now = [self._asking.popleft() for _ in range(min(AT_ONCE, len(self._asking)))]
        if self._asking:
            asyncio.get_running_loop().call_soon(self._let_some_in)
        for waiting in now:
            if not waiting.transport.is_closing():  # its loss is told to who is there no more
                self.let_in(waiting.transport, waiting.head)
                waiting.transport.resume_reading()

    def let_in(self, transport: asyncio.Transport, head: bytes) -> None:
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        self._busy.add(handler)  # it gets to the request only in the next turn
        handlers = self._server.connections
        if len(self._busy) > len(handlers):  # some are gone without having come to one
            self._busy.intersection_update(handlers)
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
        self.head = (self.head + data).lstrip(b"\r\n")  # as they may stand before a request
        if _goes_on(self.head):
            self._end.cancel()
            self._bound.asks(self)
        elif len(self.head) > MAX_HEAD_BYTES:
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end.cancel()
        self._bound.left(self)

    def drop(self) -> None:
        self._end.cancel()
        self._bound.left(self)
        self.transport.abort()


def _goes_on(head: bytes) -> bool:
    """Whether aiohttp shall look at it: it is whole, or can be no request."""
    return b"\n\r\n" in head or b"\n\n" in head or not (head[:1] or b"G").isalpha()


class _Full(asyncio.Protocol):
    """Says that there is no room, once something was asked, and ends; at too many of these at once, without a word."""

    def __init__(self, bound: Bounded) -> None:
        self._bound = bound
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream server
        self._transport = transport
        self._bound.refused += 1
        wait = FAREWELL_SECONDS if self._bound.refused <= RESERVE else 0.0
        self._end = asyncio.get_running_loop().call_later(wait, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._head += data
        probe = self._head.startswith(_PROBES) and self._bound.probes_fit
        if probe and _goes_on(self._head):
            self.connection_lost(None)
            self._bound.let_in(self._transport, self._head)
        elif not (probe and len(self._head) <= MAX_HEAD_BYTES) and not self._transport.is_closing():
            self._transport.write(_FULL)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._bound.refused -= 1
        self._end.cancel()
