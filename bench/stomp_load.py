"""A steady flow over STOMP on one event loop: many consumers on few connections, and the latency of every message."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from itertools import cycle

from penstock_demo.broker import Endpoint

SUBSCRIPTIONS = 50
"""Consumers on a connection."""
BEAT_SECONDS = 10
"""A connection that is silent for a minute is closed by the broker."""


class Load:
    """
    One producer at `rate` messages a second over the queues that work in turn, at first all; one consumer a queue.

    latencies: seconds from send to receipt, since the last `forget`.
    """

    def __init__(self, endpoint: Endpoint, queues: Sequence[str], rate: float) -> None:
        self._endpoint = endpoint
        self._queues = list(queues)
        self._working = cycle(self._queues)
        self._rate = rate
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.latencies: list[float] = []
        self.sent = 0

    async def start(self) -> None:
        for first in range(0, len(self._queues), SUBSCRIPTIONS):
            reader, writer = await self._connect()
            for number, queue in enumerate(self._queues[first : first + SUBSCRIPTIONS]):
                headers = {
                    "id": str(number),
                    "destination": queue,
                    "ack": "auto",
                    "subscription-type": "ANYCAST",
                }
                writer.write(frame("SUBSCRIBE", headers))
            await writer.drain()
            self._tasks.append(asyncio.create_task(self._receive(reader)))
        _, writer = await self._connect()
        self._tasks.append(asyncio.create_task(self._send(writer)))
        self._tasks.append(asyncio.create_task(self._beat()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for writer in self._writers:
            writer.close()

    def work_on(self, share: float) -> None:
        """From now on only so many of the queues get messages, spread over all."""
        self._working = cycle(self._queues[:: round(1 / share)])

    def forget(self) -> None:
        self.latencies = []

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        account = self._endpoint.account
        reader, writer = await asyncio.open_connection(
            self._endpoint.host, self._endpoint.port, limit=2**20
        )
        headers = {
            "accept-version": "1.2",
            "host": self._endpoint.host,
            "login": account.user,
            "passcode": account.password,
            "heart-beat": f"{1000 * BEAT_SECONDS},0",
        }
        writer.write(frame("CONNECT", headers))
        answer = await reader.readuntil(b"\0")
        if not answer.lstrip().startswith(b"CONNECTED"):
            raise RuntimeError(
                f"the broker refused the load's connection: {answer[:200]!r}"
            )
        self._writers.append(writer)
        return reader, writer

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        while True:
            message = await reader.readuntil(b"\0")
            sent = message[:-1].rpartition(b"\n\n")[2]
            with contextlib.suppress(ValueError):
                self.latencies.append(time.time() - float(sent))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS / 2)
            for writer in self._writers:
                writer.write(b"\n")

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        due = time.monotonic()
        while True:
            body = repr(time.time()).encode()
            headers = {
                "destination": next(self._working),
                "destination-type": "ANYCAST",
                "content-length": str(len(body)),
            }
            writer.write(frame("SEND", headers, body))
            await writer.drain()
            self.sent += 1
            due += 1 / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))


def frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"
