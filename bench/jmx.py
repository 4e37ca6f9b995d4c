"""
What asking an OpenMQ costs: a poll over Jolokia, and the JMX helper beside jmxquery for the same attributes.

`python -m bench.jmx [DESTINATIONS …]`; medians of interleaved runs on real brokers. Exit status 1 when a bar is missed.
"""

import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import jmxquery_peer

from penstock.agent.factory import jmx_target, open_reader, open_transport
from penstock.brokers.openmq import requests as ask
from penstock.config import Broker, load
from penstock.transports.jmx import JmxTransport, find_java
from penstock.transports.transport import Transport
from penstock_demo.openmq import OpenMQBroker
from rig.openmq import Load, configured

SIZES = (1_000, 10_000)
POLLS = 9
RUNS = 7
JMXQUERY_RUNS = {1_000: 7, 10_000: 3}
"""Of jmxquery at the larger sizes, where a run takes most of a minute."""
ATTRIBUTES = (
    *ask.CHEAP_ATTRIBUTES, *ask.DEPTH_ATTRIBUTES, "PeakNumMsgs", "NumBackupConsumers", "CreatedByAdmin",
)  # fmt: skip
MOST_CPU_MS = 25.0
MOST_MB = 128.0
LEAST_RATIO = {1_000: 10.0, 10_000: 15.0}
TIMEOUT = 300.0


@dataclass(slots=True)
class Result:
    """Seconds of each run, by transport; CPU of the polls in ms; MB that the helper held."""

    destinations: int
    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"jmx": [], "jmxquery": []}
    )
    cpu_ms: list[float] = field(default_factory=list)
    helper_mb: float = 0.0

    def ratio(self) -> float:
        return statistics.median(self.seconds["jmxquery"]) / statistics.median(
            self.seconds["jmx"]
        )

    def missed(self) -> list[str]:
        """The bars that were missed."""
        bars = {
            f"CPU of a poll over Jolokia ≤ {MOST_CPU_MS:g} ms": self.destinations
            > SIZES[0]
            or statistics.median(self.cpu_ms) <= MOST_CPU_MS,
            f"the helper's memory ≤ {MOST_MB:g} MB": self.helper_mb <= MOST_MB,
            "helper against jmxquery": self.ratio()
            >= LEAST_RATIO.get(self.destinations, 0.0),
        }
        return [
            f"{self.destinations} destinations: missed: {bar}"
            for bar, held in bars.items()
            if not held
        ]

    def line(self) -> str:
        jmx, query = (
            statistics.median(self.seconds[name]) for name in ("jmx", "jmxquery")
        )
        return (
            f"{self.destinations} destinations, {len(ATTRIBUTES)} attributes: a poll over Jolokia"
            f" {statistics.median(self.cpu_ms):.1f} ms CPU of the agent; helper {jmx * 1000:.0f} ms,"
            f" jmxquery {query * 1000:.0f} ms, ratio {self.ratio():.1f}; helper {self.helper_mb:.0f} MB at most"
        )


def brokers(broker: OpenMQBroker, folder: Path) -> dict[str, Broker]:
    file = folder / "penstock.yaml"
    file.write_text(
        json.dumps(
            {"brokers": [configured(broker, name) for name in ("jolokia", "jmx")]}
        )
    )
    return {one.name: one for one in load(file).brokers}


async def measured(broker: OpenMQBroker, folder: Path, destinations: int) -> Result:
    result = Result(destinations)
    by_name = brokers(broker, folder)
    await polls(folder, result)
    helper = open_transport(by_name["jmx"])
    try:
        await timed(helper, destinations)  # connects
        for run in range(RUNS):
            result.seconds["jmx"].append(await timed(helper, destinations))
            if run < JMXQUERY_RUNS.get(destinations, 1):
                result.seconds["jmxquery"].append(
                    await timed_peer(by_name["jmx"], destinations)
                )
        inner = helper._inner  # type: ignore[attr-defined]  # noqa: SLF001
        assert isinstance(inner, JmxTransport)
        result.helper_mb = peak_mb(inner.pid)
    finally:
        await helper.close()
    return result


async def polls(folder: Path, result: Result) -> None:
    """CPU of whole polls: asking, decoding, the Snapshot; the first ones, which read texts and settings, apart."""
    config = load(folder / "penstock.yaml")
    reader = open_reader(config, config.brokers[0])
    try:
        for number in range(3 + POLLS):
            before = cpu()
            snapshot = await reader.poll(TIMEOUT)
            spent = (cpu() - before) * 1000
            assert snapshot.addresses is not None
            assert len(snapshot.addresses) >= result.destinations
            assert snapshot.consumers is not None
            assert len(snapshot.consumers) >= result.destinations
            if number >= 3:
                result.cpu_ms.append(spent)
    finally:
        await reader.close()


async def timed(transport: Transport, destinations: int) -> float:
    """Seconds for all attributes of all destinations, which must be there."""
    began = time.monotonic()
    answer = await transport.ask([ask.destinations(ATTRIBUTES)], TIMEOUT)
    seconds = time.monotonic() - began
    (found,) = json.loads(answer.body)
    complete(found["value"], destinations)
    return seconds


async def timed_peer(broker: Broker, destinations: int) -> float:
    """The same with jmxquery."""
    target = jmx_target(broker)
    began = time.monotonic()
    (found,) = await jmxquery_peer.ask(
        target, find_java(target.java), [ask.destinations(ATTRIBUTES)], TIMEOUT
    )
    seconds = time.monotonic() - began
    complete(found, destinations)
    return seconds


def complete(found: Mapping[str, Mapping[str, Any]], destinations: int) -> None:
    assert len(found) >= destinations
    assert all(len(values) >= len(ATTRIBUTES) - 1 for values in found.values())


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb(pid: int | None) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(
        float(line.split()[1]) / 1024
        for line in status.splitlines()
        if line.startswith("VmHWM")
    )


def main(sizes: tuple[int, ...]) -> int:
    missed: list[str] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            broker = OpenMQBroker.create(folder / "broker", heap_mb=768, hostname=False)
            broker.start()
            try:
                with Load(broker, "consume", "bench", size, timeout=600):
                    result = asyncio.run(measured(broker, folder, size))
            finally:
                broker.kill()
        print(result.line(), flush=True)
        missed += result.missed()
    print("\n".join(missed) or "all bars held")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(tuple(int(size) for size in sys.argv[1:]) or SIZES))
