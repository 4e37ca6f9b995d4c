"""
`make bench-asked`: what each request of Penstock costs a real Artemis in CPU, under a small flow and with its guard.

The requests take turns until the JVM has compiled what it will; the last rounds count. The last line is JSON.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click
from bench.harm import cpu_seconds, running_broker
from bench.harness import facts, print_table
from bench.stomp_load import Load

from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import requests as ask
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.transport import Request, Transport
from penstock_demo.artemis import ArtemisBroker

BROKER = "asked"
RATE = 50.0
"""Messages a second."""
COUNTED = 5
"""Rounds of which the median is told."""
QUEUE_ROWS = 20_000


def asked(name: str, queues: Sequence[str]) -> dict[str, list[Request]]:
    """
    What a poll asks, by what it is about; of sizes either the pattern or names. Roles, sessions, connections and
    producers are not asked at every poll.
    """
    return {
        "broker, links": [ask.BROKERS, ask.BRIDGES, ask.BROKER_CONNECTIONS],
        "listConsumers": [ask.listing(name, "listConsumers", 1, 5_000)],
        "listAddresses": [ask.listing(name, "listAddresses", 1, QUEUE_ROWS)],
        "sizes": [ask.queues(name, wire.QueueSizes)],
        **{
            f"sizes of {share:.0%} by name": [
                ask.of_queue(name, q, q, "anycast") for q in queues[:: round(1 / share)]
            ]
            for share in (0.1, 0.5, 1)
        },
        "listQueues": [ask.listing(name, "listQueues", 1, QUEUE_ROWS)],
        "roles": [ask.queues(name, wire.QueueDeadLetters)],
        "listSessions": [ask.listing(name, "listSessions", 1, 5_000)],
        "listConnections": [ask.listing(name, "listConnections", 1, 5_000)],
        "listProducers": [ask.listing(name, "listProducers", 1, 5_000)],
        "listPreparedTransactions": [ask.prepared_transactions(name)],
    }


async def cpu_of(
    broker: ArtemisBroker, transport: Transport, requests: Sequence[Request], times: int
) -> float:
    """CPU seconds of the broker for asking once, with what it takes meanwhile for its messages."""
    began = cpu_seconds(broker.pid)
    for _ in range(times):
        if requests:
            await transport.ask(requests, 120)
        await asyncio.sleep(0.02)
    return (cpu_seconds(broker.pid) - began) / times


async def measured(
    broker: ArtemisBroker, queues: Sequence[str], rounds: int, times: int
) -> dict[str, float]:
    """Broker CPU in ms of each request, less what as much time with no request takes."""
    account = broker.accounts["exporter"]
    transport = JolokiaTransport(
        JolokiaTarget(
            broker.jolokia_url, account.user, lambda: account.password, broker.origin
        )
    )
    load = Load(broker.endpoint(), queues[:1_000], RATE)
    await load.start()
    found: dict[str, list[float]] = {}
    try:
        for _ in range(rounds):
            began = time.monotonic()
            idle = await cpu_of(broker, transport, [], times)
            idle /= (time.monotonic() - began) / times
            for name, requests in asked(BROKER, queues).items():
                began = time.monotonic()
                cpu = await cpu_of(broker, transport, requests, times)
                found.setdefault(name, []).append(
                    cpu - idle * (time.monotonic() - began) / times
                )
    finally:
        await load.stop()
        await transport.close()
    return {name: 1000 * median(seconds[-COUNTED:]) for name, seconds in found.items()}


@click.command()
@click.option("--queues", default=1_000, show_default=True)
@click.option("--rounds", default=15, show_default=True)
@click.option(
    "--times", default=20, show_default=True, help="How often a round asks each."
)
def main(*, queues: int, rounds: int, times: int) -> None:
    names = [f"queue.{number}" for number in range(queues)]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        running_broker(Path(folder), BROKER, names, None) as broker,
    ):
        found = asyncio.run(measured(broker, names, rounds, times))
    print_table(
        {name: [f"{ms:.1f}"] for name, ms in found.items()},
        ["request", "broker CPU ms"],
    )
    told = {name: round(ms, 1) for name, ms in found.items()}
    print(
        json.dumps(
            {"bench": "asked", "queues": queues, "broker_cpu_ms": told, **facts()}
        )
    )


if __name__ == "__main__":
    main()
