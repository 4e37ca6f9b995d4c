"""
A crowd of consumers on a real Artemis, a share of which leaves and comes while each poll lists them.

What Penstock counted for each client must be what its consumers themselves received. A consumer that is about to leave
gets nothing any more for some polls: what it does after it was listed last nobody can know. Prints one line of JSON.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.stomp_load import frame

from e2e.agent import Agent, entry
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker, Endpoint

SUBSCRIPTIONS = 20
"""Consumers on a connection: each session that ends takes so many rows out of the listing."""
QUIET = 4
"""Steps for which a group gets nothing before it leaves."""
BEAT_MS = 10_000
_CONDITION = re.compile(
    r'^mq_\w+_unhealthy\{(?=.*"crowd[.-]).*cause="(\w+)".*\} 1$', re.MULTILINE
)
"""Of the crowd's own: the broker may be shared."""
_METRIC = re.compile(
    r'^(mq_client_\w+)\{.*client="(crowd-\d+)".*\} (\S+)$', re.MULTILINE
)
METRICS = (
    "mq_client_delivered_messages_total",
    "mq_client_acknowledged_messages_total",
)


@dataclass
class Group:
    """Consumers of one queue under one client id, who come and leave together. received: their own log, for ever."""

    number: int
    received: int = 0
    sent: int = 0
    connections: list["Connection"] = field(default_factory=list)

    @property
    def queue(self) -> str:
        return f"crowd.{self.number}"

    @property
    def client(self) -> str:
        return f"crowd-{self.number}"


class Connection:
    """One STOMP connection; `group` counts what its consumers receive."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        group: Group | None,
    ) -> None:
        self.writer = writer
        self._tasks = [
            asyncio.create_task(self._receive(reader, group)),
            asyncio.create_task(self._beat()),
        ]

    @classmethod
    async def open(
        cls, endpoint: Endpoint, client: str, group: Group | None, consumers: int = 0
    ) -> "Connection":
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, limit=2**20
        )
        login = {
            "login": endpoint.account.user,
            "passcode": endpoint.account.password,
            "client-id": client,
        }
        writer.write(
            frame(
                "CONNECT",
                {
                    "accept-version": "1.2",
                    "host": "b",
                    "heart-beat": f"{BEAT_MS},0",
                    **login,
                },
            )
        )
        answer = await reader.readuntil(b"\0")
        if not answer.lstrip().startswith(b"CONNECTED"):
            raise RuntimeError(f"the broker refused a connection: {answer[:200]!r}")
        for number in range(consumers):
            assert group is not None
            subscription = {
                "id": str(number),
                "destination": group.queue,
                "ack": "auto",
            }
            last = {"receipt": "all"} if number == consumers - 1 else {}
            writer.write(
                frame(
                    "SUBSCRIBE",
                    {**subscription, "subscription-type": "ANYCAST", **last},
                )
            )
        if consumers:
            while b"RECEIPT" not in (answer := await reader.readuntil(b"\0")):
                assert group is not None
                group.received += b"MESSAGE" in answer[:10]
        return cls(reader, writer, group)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.writer.write(frame("DISCONNECT", {}))
        with contextlib.suppress(OSError):
            await self.writer.drain()
        self.writer.close()
        await asyncio.gather(
            *self._tasks, self.writer.wait_closed(), return_exceptions=True
        )

    async def _receive(self, reader: asyncio.StreamReader, group: Group | None) -> None:
        while True:
            answer = (await reader.readuntil(b"\0")).lstrip()
            if group is not None and answer.startswith(b"MESSAGE"):
                group.received += 1
            elif answer.startswith(b"ERROR"):
                raise RuntimeError(answer[:300])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_MS / 3000)
            self.writer.write(b"\n")


class Crowd:
    """`groups` of consumers; at each step one of them leaves and comes again, a connection at a time."""

    def __init__(
        self, endpoint: Endpoint, consumers: int, groups: int, seed: int
    ) -> None:
        self.groups = [Group(number) for number in range(groups)]
        self.dice = random.Random(seed)  # noqa: S311 - the same load for the same seed
        self.replaced = 0
        self._endpoint = endpoint
        self._connections = max(1, consumers // groups // SUBSCRIPTIONS)
        self._per_connection = consumers // groups // self._connections
        self._producer: Connection | None = None

    @property
    def consumers(self) -> int:
        return len(self.groups) * self._connections * self._per_connection

    async def come(self) -> None:
        self._producer = await Connection.open(self._endpoint, "crowd-producer", None)
        for group in self.groups:
            for _ in range(self._connections):
                group.connections.append(await self._join(group))

    async def step(self, number: int, seconds: float) -> None:
        """In so many seconds one group is replaced; all but those that leave soon are fed."""
        leaving = [
            self.groups[(number + ahead) % len(self.groups)]
            for ahead in range(QUIET + 1)
        ]
        began = time.monotonic()
        group = leaving[0]
        turns = self._connections
        fed = [one for one in self.groups if one not in leaving]
        for turn in range(turns):
            await group.connections.pop(0).close()
            group.connections.append(await self._join(group))
            self.replaced += self._per_connection
            for one in fed[turn::turns]:
                await self._feed(one)
            await asyncio.sleep(
                max(0.0, began + seconds * (turn + 1) / turns - time.monotonic())
            )

    async def leave(self) -> None:
        everyone = [one for group in self.groups for one in group.connections]
        await asyncio.gather(*(one.close() for one in everyone))
        if self._producer is not None:
            await self._producer.close()

    async def settled(self) -> None:
        """Wait until everything sent was received."""
        deadline = time.monotonic() + 60
        while any(one.received < one.sent for one in self.groups):
            assert time.monotonic() < deadline, [
                (one.sent, one.received) for one in self.groups
            ]
            await asyncio.sleep(0.2)

    async def _join(self, group: Group) -> Connection:
        return await Connection.open(
            self._endpoint, group.client, group, self._per_connection
        )

    async def _feed(self, group: Group) -> None:
        assert self._producer is not None
        count = self.dice.randint(
            1, 2 * self._connections * self._per_connection // 3 + 1
        )
        for _ in range(count):
            body = b"x" * 20
            headers = {
                "destination": group.queue,
                "destination-type": "ANYCAST",
                "content-length": str(len(body)),
            }
            self._producer.writer.write(frame("SEND", headers, body))
        group.sent += count
        await self._producer.writer.drain()


async def watched(
    broker: Broker,
    folder: Path,
    consumers: int,
    seconds: float,
    *,
    interval: float,
    page_rows: int,
    seed: int = 1,
) -> dict[str, object]:
    """The figures of a run: consumers of which a twentieth is replaced in each interval."""
    crowd = Crowd(broker.endpoint(), consumers, 20, seed)
    await crowd.come()
    found: dict[str, object] = {
        "consumers": crowd.consumers,
        "interval": interval,
        "page_rows": page_rows,
    }
    overcounted = 0.0
    polls_above = 0
    with Agent(
        folder,
        brokers=[entry(broker, page_rows=page_rows)],
        interval=f"{interval}s",
        timeout=f"{0.9 * interval}s",
    ) as agent:
        stamp = ""
        ending = asyncio.Event()

        async def watch() -> None:
            """No scrape says more than the clients have received by its end."""
            nonlocal overcounted, polls_above, stamp
            while not ending.is_set():
                body = await asyncio.to_thread(agent.body)
                said = totals(body)
                logs = {one.client: one.received for one in crowd.groups}
                above = max(
                    (
                        (said[METRICS[0]].get(client, 0.0) - log)
                        for client, log in logs.items()
                    ),
                    default=0.0,
                )
                overcounted = max(overcounted, above)
                polls_above += above > 0
                await asyncio.sleep(1)

        watching = asyncio.create_task(watch())
        began = time.monotonic()
        number = 0
        while time.monotonic() - began < seconds:
            await crowd.step(number, interval)
            number += 1
        await crowd.settled()
        ending.set()
        await watching
        await asyncio.sleep(6 * interval)
        body = await asyncio.to_thread(agent.body)
        results = dict(
            re.findall(
                r'^penstock_polls_total\{.*result="(\w+)".*\} (\S+)$',
                body,
                re.MULTILINE,
            )
        )
    await crowd.leave()
    said = totals(body)
    logs = {one.client: float(one.received) for one in crowd.groups}
    found |= {
        "seconds": round(time.monotonic() - began),
        "replaced": crowd.replaced,
        "received": sum(one.received for one in crowd.groups),
        **{
            name.removesuffix("_messages_total"): sum(said[name].values())
            for name in METRICS
        },
        "clients_wrong": sum(
            said[name].get(client) != log
            for name in METRICS
            for client, log in logs.items()
        ),
        "consumers_shown": sum(said["mq_client_consumers"].values()),
        "overcounted_in_a_scrape": overcounted,
        "scrapes_above": polls_above,
        "polls": {name: int(float(count)) for name, count in results.items()},
        "conditions": sorted(set(_CONDITION.findall(body))),
    }
    return found


def totals(body: str) -> dict[str, dict[str, float]]:
    """By metric and client."""
    found: dict[str, dict[str, float]] = {
        name: {} for name in (*METRICS, "mq_client_consumers")
    }
    for name, client, value in _METRIC.findall(body):
        if name in found:
            found[name][client] = found[name].get(client, 0.0) + float(value)
    return found


def right(found: dict[str, object]) -> bool:
    """Whether every client's totals are its own log, at the end and at each scrape."""
    return (
        not found["clients_wrong"]
        and not found["scrapes_above"]
        and found["consumers_shown"] == found["consumers"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, default=12_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--interval", type=float, default=10.0)
    parser.add_argument("--page-rows", type=int, default=5_000)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = ArtemisBroker.create(
            Path(folder) / "broker", read_only_user="exporter", heap_mb=1024
        )
        broker.start()
        try:
            found = asyncio.run(
                watched(
                    broker,
                    Path(folder) / "agent",
                    said.consumers,
                    said.seconds,
                    interval=said.interval,
                    page_rows=said.page_rows,
                )
            )
        finally:
            broker.kill()
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(not right(found))


if __name__ == "__main__":
    main()
