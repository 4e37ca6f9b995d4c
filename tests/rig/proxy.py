"""A TCP proxy on the loopback that passes, hangs, resets, truncates, garbles or delays."""

import asyncio
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from enum import StrEnum
from socket import SO_LINGER, SOL_SOCKET
from typing import Self
from weakref import WeakSet

_CHUNK = 65536
_GARBAGE = b"\x00\xff<html>\r\n\r\n{]garbage\x80"


class Fault(StrEnum):
    """What the proxy does with the answers of its target, on old and new connections alike."""

    NONE = "none"
    HANG = "hang"
    """Takes everything, answers nothing; goes on when the fault ends."""
    RESET = "reset"
    """Cuts the connection at the first byte of an answer (TCP reset)."""
    TRUNCATE = "truncate"
    """Ends the connection in good order after `truncate_at` bytes of an answer."""
    GARBLE = "garble"
    """Answers bytes that are no protocol, then ends."""
    REPLACE = "replace"
    """Answers what `instead` gives, then ends."""


class Proxy:
    """
    Listens at `host:port` (0: a free one) for `target`, in a thread of its own; a context manager.

    Set `fault`, `delay` (s, before each chunk of an answer), `truncate_at` (bytes) at any time.
    `piece`: the most bytes of an answer that are passed on at once, as a network of small packets does.
    `tls`: what it shows to its clients; the target gets plain text.
    `alter` changes each chunk of a request, for instance a header; `instead`: the chunks of an answer that takes the
    place of the target's.
    """

    def __init__(
        self,
        target: tuple[str, int],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        alter: Callable[[bytes], bytes] = bytes,
        piece: int = _CHUNK,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.host = host
        self._tls = tls
        self._piece = piece
        self.fault = Fault.NONE
        self.delay = 0.0
        self.truncate_at = 100
        self.instead: Callable[[], Iterable[bytes]] = tuple
        self.connections = 0
        self.port = port
        self._target = target
        self._alter = alter
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="proxy", daemon=True
        )
        self._open: set[asyncio.Task[None]] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            self._listen(), self._loop
        ).result(5)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve, self.host, self.port, ssl=self._tls
        )

    async def _end(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()
        for _ in range(3):  # the last callbacks of the transports
            await asyncio.sleep(0)

    async def _serve(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        self._writers.add(to_client)
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._join(client, to_client)
        except (OSError, asyncio.CancelledError):
            pass  # one side has gone, or the proxy ends
        finally:
            to_client.close()
            self._open.discard(task)

    async def _join(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        server, to_server = await asyncio.open_connection(*self._target)
        self._writers.add(to_server)
        both = [
            asyncio.create_task(self._requests(client, to_server)),
            asyncio.create_task(self._answers(server, to_client)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_server.close()
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _requests(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        while chunk := await client.read(_CHUNK):
            to_server.write(self._alter(chunk))
            await to_server.drain()

    async def _answers(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        passed = 0
        while chunk := await server.read(self._piece):
            await asyncio.sleep(self.delay)
            while self.fault is Fault.HANG:  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.02)
            ends = self.fault is not Fault.NONE
            if self.fault is Fault.RESET:
                linger_nothing = struct.pack("ii", 1, 0)
                to_client.get_extra_info("socket").setsockopt(
                    SOL_SOCKET, SO_LINGER, linger_nothing
                )
                return
            if self.fault is Fault.TRUNCATE:
                chunk = chunk[: max(self.truncate_at - passed, 0)]
                ends = passed + len(chunk) >= self.truncate_at
            elif self.fault is Fault.GARBLE:
                chunk = _GARBAGE
            elif self.fault is Fault.REPLACE:
                for part in self.instead():
                    to_client.write(part)
                    await to_client.drain()
                return
            to_client.write(chunk)
            await to_client.drain()
            passed += len(chunk)
            if ends:
                return
