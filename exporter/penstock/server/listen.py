"""Listening: addresses as Prometheus writes them, sockets, orderly stop."""

import asyncio
import errno
import re
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web, web_response

from penstock.config.values import plain_zone
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.tasks import end
from penstock.server.connection_limit import (
    HANDSHAKE_SECONDS,
    HEAD_SECONDS,
    ConnectionLimit,
    most_connections,
)

if TYPE_CHECKING:  # without it its libraries are not needed
    from penstock.server.authentication import Authentication

DEFAULT_PORT = 19771
"""Outside those that the Prometheus project lists; below the ephemeral ports; none of the brokers' own."""
DEFAULT_ADDRESS = f":{DEFAULT_PORT}"

GRACE_SECONDS = 5.0
IDLE_SECONDS = 75.0
"""Longest silence between requests: above the usual scrape intervals, so that Prometheus keeps its connection."""

BACKLOG = 1024
"""Connections that may wait to be accepted: one too many would try again after a second only."""
ACCEPTED_AT_ONCE = 8
"""Connections accepted in one turn of the event loop."""

SEND_BUFFER_BYTES = 256 * 1024
"""The kernel's buffer to one reader: of one that grows to megabytes it would not be seen that a slow one took some."""

_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s\[\]:/]*)):(?P<port>[0-9]{1,5})"
)
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_HINTS = {
    errno.EADDRINUSE: "; another process listens there (another Penstock?): give another address",
    errno.EACCES: "; ports below 1024 need a privilege: give a higher one",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host is every address of the machine, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return (
            f"[{self.host}]:{self.port}"
            if ":" in self.host
            else f"{self.host}:{self.port}"
        )


def parse_address(text: str) -> Address:
    """`:19771`, `host:19771`, `[::1]:19771`, `[fe80::1%eth0]:19771`. ConfigError says what is allowed."""
    match = _ADDRESS.fullmatch(plain_zone(text))
    if not match or int(match["port"]) > 65535:
        raise ConfigError(
            f"listen address {text!r} is none; write :{DEFAULT_PORT}, host:port or [::1]:port"
        )
    return Address(match["v6"] or match["host"] or "", int(match["port"]))


@asynccontextmanager
async def serve(
    app: web.Application,
    listen_addresses: Sequence[str] = (DEFAULT_ADDRESS,),
    *,
    authentication: "Authentication | None" = None,
    idle_seconds: float = IDLE_SECONDS,
    grace_seconds: float = GRACE_SECONDS,
    max_connections: int = 0,
) -> AsyncIterator[tuple[Address, ...]]:
    """Serve `app` while the context lasts; gives the addresses. PenstockError: one cannot be understood or is taken.

    At the end no request is accepted any more, and those under way get `grace_seconds` to finish.
    max_connections: see `penstock.server.connection_limit`; 0: as many as the system's limits allow.
    """
    hide_versions()
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=idle_seconds,
        shutdown_timeout=grace_seconds
        / 2,  # waited once for the handler, once more after it was cancelled
        lingering_time=0.0,  # a body that no one reads ends with the answer
    )
    if authentication is not None:
        authentication.guard(app)
    head_seconds = min(HEAD_SECONDS, idle_seconds)
    limit = ConnectionLimit(
        partial(_handler, runner), max_connections or most_connections(), head_seconds
    )
    app.middlewares.insert(0, limit.middleware)
    app.on_response_prepare.append(limit.answers)
    with ExitStack() as opened:
        sockets = [
            opened.enter_context(opened_socket)
            for text in listen_addresses
            for opened_socket in open_sockets(parse_address(text))
        ]
        for opened_socket in sockets:
            opened_socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES
            )  # accepted ones inherit it
        await runner.setup()
        async with AsyncExitStack() as closing:
            closing.push_async_callback(runner.cleanup)
            closing.callback(limit.close)
            sites = _Sites(limit, sockets, authentication)
            await sites.renew()
            closing.callback(sites.close)
            if authentication is not None:
                closing.callback(authentication.close)
                await closing.enter_async_context(
                    _running(authentication.watch(sites.renew))
                )
            yield tuple(
                Address(*opened_socket.getsockname()[:2]) for opened_socket in sockets
            )


def hide_versions() -> None:
    """Answers to what is no HTTP pass no hook of the application, and would bear aiohttp's version and Python's."""
    web_response.SERVER_SOFTWARE = "penstock"  # type: ignore[attr-defined]


def _handler(runner: web.AppRunner) -> asyncio.Protocol:
    assert runner.server is not None  # noqa: S101 - made by setup
    return runner.server()


class _Sites:
    """Accepts connections on the sockets. Connections that are open are left alone when it is renewed."""

    def __init__(
        self,
        limit: ConnectionLimit,
        sockets: Sequence[socket.socket],
        guard: "Authentication | None",
    ) -> None:
        self._limit = limit
        self._sockets = sockets
        self._guard = guard
        self._servers: list[asyncio.Server] = []

    async def renew(self) -> None:
        """Accept with the guard's present TLS. The sockets stay open throughout, so that no connection is refused."""
        context = None if self._guard is None else self._guard.context
        loop = asyncio.get_running_loop()
        begun = []
        handshake = None if context is None else HANDSHAKE_SECONDS
        try:
            for listening in self._sockets:
                accepting = loop.create_server(
                    self._limit,
                    sock=listening.dup(),
                    ssl=context,
                    ssl_handshake_timeout=handshake,
                    backlog=ACCEPTED_AT_ONCE,
                )
                begun.append(await accepting)
                listening.listen(
                    BACKLOG
                )  # asyncio takes as many at once as may wait: the one few, the other many
        except OSError:
            for server in begun:
                server.close()
            raise
        self.close()
        self._servers = begun

    def close(self) -> None:
        """Accept no more."""
        for server in self._servers:
            server.close()
        self._servers = []


@asynccontextmanager
async def _running(forever: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a task while the context lasts; its error is raised at the end."""
    task = asyncio.create_task(forever, name="web configuration")
    try:
        yield
    finally:
        await end(task)
        if not task.cancelled():
            task.result()


def open_sockets(address: Address) -> list[socket.socket]:
    """Bound sockets, one for each network address that the host resolves to. PenstockError when there is none."""
    try:
        if not address.host:
            return [_everywhere(address.port)]
        resolved = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise _cannot_listen(address, error) from None
    sockets: list[socket.socket] = []
    for family, name in dict.fromkeys(
        (family, name) for family, _, _, _, name in resolved
    ):
        try:
            sockets.append(socket.create_server(name, family=family))
        except OSError as error:
            # A host may stand for addresses of both families on a machine that has only one.
            if error.errno in _NO_SUCH_ADDRESS and len(resolved) > 1:
                continue
            for opened in sockets:
                opened.close()
            raise _cannot_listen(address, error) from None
    if not sockets:
        raise PenstockError(
            f"cannot listen on {address}: this machine has no such address"
        )
    return sockets


def _everywhere(port: int) -> socket.socket:
    """Return a socket on all addresses, of both families where the machine has both."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                raise
    return socket.create_server(("", port))


def _cannot_listen(address: Address, error: OSError) -> PenstockError:
    hint = _HINTS.get(error.errno or 0, "")
    return PenstockError(f"cannot listen on {address}: {error.strerror or error}{hint}")
