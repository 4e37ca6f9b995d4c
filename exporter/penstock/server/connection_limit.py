"""How many may be connected at once, and which come first: probes, then those with a request; silent ones make room.

A connection costs little until the head of its first request is there; only then it gets a handler of aiohttp.
"""

import asyncio
import resource
import select
from collections import deque
from collections.abc import Callable
from enum import Enum
from itertools import islice

from aiohttp import web
from aiohttp.typedefs import Handler

MOST = 500
RESERVE = 64
"""Connections above the limit, for those that are being closed and are not gone yet."""
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
"""For the head of a first request to be there whole."""
MAX_HEAD_BYTES = 16 * 1024
SILENT_SECONDS = 1.0
"""A new connection may be about to send its request, or what it sent may be about to be handled."""
REFUSE_SECONDS = 1.0
"""For a refused connection to send something: only then it can read the answer."""
LOOKED_AT = 64
"""Silent connections, the oldest, of which one may make room: each look is a call to the system."""
AT_ONCE = 2
"""Handlers that begin in one turn of the loop."""
PROBE_PATHS = ("/-/healthy", "/-/ready")
"""What probes ask: these answers hold no data, and need no user."""
_PROBES = tuple(
    f"{method} {path} ".encode() for method in ("GET", "HEAD") for path in PROBE_PATHS
)


def _last(status: bytes, text: bytes) -> bytes:
    """An answer after which the connection ends."""
    return (
        b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(text), text)
    )


_FULL = _last(
    b"503 Service Unavailable\r\nRetry-After: 1",
    b"Too many connections; try again in a second.\n",
)
_TOO_LONG = _last(
    b"431 Request Header Fields Too Large",
    b"The request line and headers are too long.\n",
)


def most_connections() -> int:
    """Half of the descriptors that the system allows, so that brokers and files never lack one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST
        if soft == resource.RLIM_INFINITY
        else max(min(MOST, soft // 2 - RESERVE), 8)
    )


class ConnectionLimit:
    """Makes the protocols of new connections, as asyncio's servers ask for them.

    At `most` connections one that has been silent for SILENT_SECONDS is closed, else the oldest without a request under
    way, else the oldest silent one where half of them are; RESERVE above it a new one is answered 503, unless it is a
    probe. new_handler: makes what answers a connection, as aiohttp's `web.Server`. `middleware` must be the outermost
    of the application behind it, and `answers` one of its `on_response_prepare`.
    """

    def __init__(
        self,
        new_handler: Callable[[], asyncio.Protocol],
        most: int,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        self._new_handler = new_handler
        self._most = most
        self.head_seconds = head_seconds
        self.refused = 0
        """Connections that are being answered that there is no room."""
        self._handshaking: dict[_Waiting, float] = {}
        """Accepted, and not connected yet: until when it counts."""
        self._silent: dict[_Waiting, float] = {}
        """Connected without a whole head, the oldest first: since when."""
        self._asking: deque[_Waiting] = deque()
        """With a whole head, waiting for a handler."""
        self._handled: dict[asyncio.BaseTransport, _Connection] = {}
        """With a handler, the oldest first."""
        self._closed = False

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a connection that was accepted: one that waits, or one that is refused."""
        now = asyncio.get_running_loop().time()
        while self._handshaking and next(iter(self._handshaking.values())) < now:
            self._handshaking.pop(next(iter(self._handshaking)))
        count = (
            len(self._handled)
            + len(self._handshaking)
            + len(self._silent)
            + len(self._asking)
        )
        if count >= self._most and not self._make_room(count, now):
            return _Refused(self)
        waiting = _Waiting(self)
        self._handshaking[waiting] = now + HANDSHAKE_SECONDS
        return waiting

    @property
    def probes_fit(self) -> bool:
        """Whether one more probe gets a handler though all are taken."""
        return len(self._handled) < self._most + 2 * RESERVE

    def _make_room(self, count: int, now: float) -> bool:
        """Whether one more of so many may come."""
        oldest, since = self._oldest_silent(now)
        if oldest is not None and now - since >= SILENT_SECONDS:
            oldest.drop()
            return True
        closed = self._close_idle(now)
        # One that came only now may be a probe: where those before it are not silent either, it is not to blame.
        if oldest is not None and not closed and 2 * len(self._silent) >= count:
            oldest.drop()
            return True
        return count < self._most + RESERVE

    def _oldest_silent(self, now: float) -> "tuple[_Waiting | None, float]":
        """And since when it is silent. One whose request is there and waits to be read, on a busy machine, is not."""
        for waiting, since in islice(self._silent.items(), LOOKED_AT):
            if not waiting.has_unread():
                return waiting, since
        return None, now

    def _close_idle(self, now: float) -> bool:
        """Close the oldest connection without a request, and say whether there was one."""
        for connection in self._handled.values():
            if connection.is_idle(now) and not connection.transport.is_closing():
                connection.transport.close()
                # It waits for its reader, and for the reader's farewell in TLS; some never take or send any.
                asyncio.get_running_loop().call_later(
                    SILENT_SECONDS, connection.transport.abort
                )
                return True
        return False

    def close(self) -> None:
        """Drop those without a handler, now and from now on."""
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
            self.let_in(waiting)
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
        """Give a few connections their handler, and leave the others to the next turn of the event loop."""
        now = [self._asking.popleft() for _ in range(min(AT_ONCE, len(self._asking)))]
        if self._asking:
            asyncio.get_running_loop().call_soon(self._let_some_in)
        for waiting in now:
            if not waiting.transport.is_closing():
                self.let_in(waiting)
                waiting.transport.resume_reading()

    # --- and to those with a handler

    def let_in(self, connection: "_Connection") -> None:
        self._handled[connection.transport] = connection
        connection.let_in_at = asyncio.get_running_loop().time()
        connection.hand_over(self._new_handler())

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Notes that a request of the connection is under way."""
        connection = (
            None if request.transport is None else self._handled.get(request.transport)
        )
        if connection is None:
            return await handler(request)
        connection.use = _Use.BUSY
        try:
            return await handler(request)
        finally:
            connection.use = _Use.IDLE
            if connection.lost:
                self._handled.pop(connection.transport, None)

    async def answers(self, request: web.Request, _: web.StreamResponse) -> None:
        """Notes an answer that is aiohttp's own and passes no middleware, as to an `Expect` that it does not know."""
        connection = (
            None if request.transport is None else self._handled.get(request.transport)
        )
        if connection is not None and connection.use is _Use.BEGINS:
            connection.use = _Use.IDLE

    def lost(self, connection: "_Connection") -> None:
        """One whose request is still under way counts until that ends: it takes memory and a turn as before."""
        if connection.use is not _Use.BUSY:
            self._handled.pop(connection.transport, None)


class _Use(Enum):
    BEGINS = "the first request is there, its handling has not begun"
    BUSY = "a request is under way"
    IDLE = "waits for the next request"


class _Connection(asyncio.Protocol):
    """Takes what comes until the limit gives the connection a handler; from then on the handler gets everything."""

    transport: asyncio.Transport

    def __init__(self, limit: ConnectionLimit) -> None:
        self._limit = limit
        self._handler: asyncio.Protocol | None = None
        self.head = b""
        """What came before there was a handler."""
        self.use = _Use.BEGINS
        self.let_in_at = 0.0
        """When it got a handler."""
        self.lost = False

    def is_idle(self, now: float) -> bool:
        """Whether no request is under way; one that has not begun in time is none, as half the preface of HTTP/2."""
        return self.use is _Use.IDLE or (
            self.use is _Use.BEGINS and now - self.let_in_at >= SILENT_SECONDS
        )

    def has_unread(self) -> bool:
        """Whether something came that was not read yet."""
        socket = self.transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return False
        ready = select.poll()
        ready.register(socket.fileno(), select.POLLIN)
        return bool(ready.poll(0))

    def hand_over(self, handler: asyncio.Protocol) -> None:
        """Pass the connection, and the bytes that have come, to `handler`."""
        self._handler = handler
        head = self.head
        self.head = b""
        handler.connection_made(self.transport)
        handler.data_received(head)

    def gathered(self) -> None:
        """There is more of the head."""

    def left(self) -> None:
        """The connection ended without a handler."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream server
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the handler; before there is one, gather them."""
        if self._handler is not None:
            self._handler.data_received(data)
        else:
            self.head += data
            self.gathered()

    def eof_received(self) -> bool | None:
        return None if self._handler is None else self._handler.eof_received()

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and let its handler know."""
        self.lost = True
        if self._handler is None:
            self.left()
        else:
            self._limit.lost(self)
            self._handler.connection_lost(exc)


class _Waiting(_Connection):
    """A connection that gets a handler when the head of its first request is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._end = asyncio.get_running_loop().call_later(
            self._limit.head_seconds, self.drop
        )
        self._limit.connected(self)

    def gathered(self) -> None:
        self.head = self.head.lstrip(b"\r\n")  # as they may stand before a request
        if _is_whole(self.head):
            self._end.cancel()
            self._limit.asks(self)
        elif len(self.head) > MAX_HEAD_BYTES:
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def left(self) -> None:
        self._end.cancel()
        self._limit.left(self)

    def drop(self) -> None:
        self.left()
        self.transport.abort()


class _Refused(_Connection):
    """Answers that there is no room once something was asked.

    When too many are refused, one that has asked nothing yet ends without an answer.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._limit.refused += 1
        may_wait = self._limit.refused <= RESERVE or self.has_unread()
        wait = REFUSE_SECONDS if may_wait else 0.0
        self._end = asyncio.get_running_loop().call_later(wait, self.transport.abort)

    def gathered(self) -> None:
        probe = self.head.startswith(_PROBES) and self._limit.probes_fit
        if probe and _is_whole(self.head):
            self.left()
            self._limit.let_in(self)
        elif (
            not (probe and len(self.head) <= MAX_HEAD_BYTES)
            and not self.transport.is_closing()
        ):
            self.transport.write(_FULL)
            self.transport.close()

    def left(self) -> None:
        self._limit.refused -= 1
        self._end.cancel()


def _is_whole(head: bytes) -> bool:
    """Whether aiohttp shall look at it: the head is whole, or can be no request."""
    return b"\n\r\n" in head or b"\n\n" in head or not (head[:1] or b"G").isalpha()
