"""
`make bench-broker`: what watching costs a real Artemis, beside the Prometheus JMX exporter's agent.

Two brokers with their shipped guard, the second with the exporter's jar loaded. A javaagent switches the guard off, so
the pair on the second broker compares like with like. On each, under a steady flow, windows alternate: nothing
attached, Penstock polling, on the second the exporter scraped. What the broker's CPU has more than in the window with
nothing attached, over the polls in it, is what a poll costs. Penstock is the real process, halted between its windows.

The exporter reads the attributes of queues and addresses that Penstock reads, as far as it can be told to
(`bench.jmx_exporter`).

All queues work, then, on the same brokers, a tenth of them (`--working`). With `--before CHECKOUT` the Penstock of
another checkout takes its turns beside this one's.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import click
from bench.jmx_exporter import Exporter
from bench.stomp_load import Load
from rich.console import Console
from rich.table import Table

from penstock_demo.artemis import ArtemisBroker
from penstock_demo.management import Management
from penstock_demo.ports import free_port

LARGE = 5_000
"""Queues from which on polls are further apart and the heap is larger."""
START_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")
_POLLS = re.compile(
    rb'^penstock_polls_total\{.*result="(?:ok|partial)".*\} (\d+)', re.MULTILINE
)
"""Those that were made: while it is halted others are skipped."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    queues: int
    consumers: int
    rate: float
    interval: float
    polls: int
    runs: int
    warm_up: int
    """Polls before the first window: of the first some read settings, and the JVM compiles."""
    exporter_warm_up: int
    """Scrapes of the exporter before the first window."""
    working: Sequence[float]
    """Shares of the queues that get messages, one after the other."""
    before: Path | None
    """Another checkout, whose Penstock takes turns with this one's."""


@dataclass(slots=True)
class Window:
    """
    What one window measured of the broker (and of Penstock, where it ran): it lasted `seconds`, in which `polls` were
    made, and took these CPU seconds. heap: bytes.
    """

    seconds: float
    polls: int
    broker_cpu: float
    agent_cpu: float
    heap: float
    latencies: list[float]


@dataclass(frozen=True, slots=True)
class Agent:
    """Penstock's process, halted until it is continued."""

    process: subprocess.Popen[bytes]
    port: int

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def halt(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wait_until_up(self, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.polls()
                return
            time.sleep(0.1)
        raise SystemExit(
            f"an agent did not start: {log.read_text(encoding='utf-8')[-400:]}"
        )

    def polls(self) -> int:
        """How many it has made; not to be asked while it is halted."""
        url = f"http://127.0.0.1:{self.port}/metrics?name[]=penstock_polls_total"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return sum(int(count) for count in _POLLS.findall(answer.read()))

    def polls_when_one_ends(self) -> int:
        """The same at the end of the next one."""
        before = self.polls()
        while (now := self.polls()) == before:
            time.sleep(0.1)
        return now


@dataclass(slots=True)
class Side:
    """One broker under load with what can be attached to it."""

    broker: ArtemisBroker
    load: Load
    agents: dict[str, Agent]
    exporter: Exporter | None = None
    exported: int = 0
    """Samples of queues and addresses in its last answer."""
    windows: dict[float, dict[str, list[Window]]] = field(default_factory=dict)
    """By the share that works and by what was attached."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def running_broker(
    folder: Path, name: str, queues: Sequence[str], exporter: Exporter | None
) -> Iterator[ArtemisBroker]:
    # In 1 GB the exporter's first scrape of 10,000 queues does not end.
    heap = 1024 if len(queues) < LARGE else 4096
    broker = ArtemisBroker.create(
        folder / name, name=name, heap_mb=heap, read_only_user="exporter"
    )
    profile = broker.directory / "etc" / "artemis.profile"
    text = re.sub(
        r"-XX:(TieredStopAtLevel=1|\+UseSerialGC)",
        "",
        profile.read_text(encoding="utf-8"),
    )
    if exporter:
        text += f'\nJAVA_ARGS="$JAVA_ARGS {exporter.option}"\n'
    profile.write_text(text, encoding="utf-8")
    broker.start(timeout=240)
    try:
        for first in range(0, len(queues), 200):
            broker.manage.create_queues(queues[first : first + 200])
        if exporter:
            exporter.show(name, queues, broker.manage)
        yield broker
    finally:
        broker.stop()


@contextlib.contextmanager
def running_agent(
    broker: ArtemisBroker,
    folder: Path,
    interval: float,
    name: str,
    checkout: Path | None,
) -> Iterator[Agent]:
    """The real agent, this one's or a checkout's, polling each `interval`."""
    config = folder / f"{broker.name}-{name}.yaml"
    config.touch(mode=0o600)
    account = broker.accounts["exporter"]
    about = {
        "name": broker.name,
        "kind": "artemis",
        "url": broker.jolokia_url,
        "username": account.user,
        "password": account.password,
        "origin": broker.origin,
    }
    config.write_text(
        json.dumps({"interval": interval, "brokers": [about]}), encoding="utf-8"
    )
    port = free_port()
    command = [sys.executable, "-m", "penstock", "run", "--config.file", str(config)]
    log = (folder / f"{broker.name}-{name}.log").open("wb")
    path = {"PYTHONPATH": str(checkout / "exporter")} if checkout else {}
    command += [
        "--web.listen-address",
        f"127.0.0.1:{port}",
        "--storage.path",
        str(folder / f"{broker.name}-{name}"),
    ]
    agent = Agent(
        subprocess.Popen(command, stderr=log, env={**os.environ, **path}), port
    )
    try:
        agent.wait_until_up(Path(log.name))
        yield agent
    finally:
        agent.go_on()
        agent.process.terminate()
        agent.process.wait(20)
        log.close()


def heap_bytes(manage: Management) -> float:
    return float(manage.read("java.lang:type=Memory", "HeapMemoryUsage")["used"])


async def measure(side: Side, attached: str, polls: int, interval: float) -> Window:
    """
    One window of `polls` intervals with `attached`: nothing, penstock, before or exporter.

    With Penstock it lasts to the end of a poll, and the polls in it are counted: one that is due comes at once, and
    asks what is asked once a minute, which counts more here than in an agent that is never halted.
    """
    side.load.forget()
    agent = side.agents.get(attached)
    if agent:
        agent.go_on()
        before = await asyncio.to_thread(agent.polls)
    cpu = cpu_seconds(side.broker.pid)
    agent_cpu = cpu_seconds(agent.process.pid) if agent else 0.0
    began = time.monotonic()
    for poll in range(polls):
        if attached == "exporter" and side.exporter:
            side.exported = await asyncio.to_thread(side.exporter.scrape)
        await asyncio.sleep(max(0.0, began + (poll + 1) * interval - time.monotonic()))
    made = polls
    if agent:
        made = await asyncio.to_thread(agent.polls_when_one_ends) - before
    window = Window(
        time.monotonic() - began,
        made,
        cpu_seconds(side.broker.pid) - cpu,
        (cpu_seconds(agent.process.pid) if agent else 0.0) - agent_cpu,
        await asyncio.to_thread(heap_bytes, side.broker.manage),
        side.load.latencies,
    )
    if agent:
        agent.halt()
    return window


@contextlib.asynccontextmanager
async def side_under_load(
    folder: Path, name: str, size: Size, *, with_exporter: bool
) -> AsyncIterator[Side]:
    queues = [f"queue.{number}" for number in range(size.queues)]
    exporter = (
        Exporter(free_port(), folder / "exporter.yaml") if with_exporter else None
    )
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(running_broker(folder, name, queues, exporter))
        load = Load(
            broker.endpoint(),
            [queues[i % size.queues] for i in range(size.consumers)],
            size.rate,
        )
        await load.start()
        try:
            trees = {
                "penstock": None,
                **({"before": size.before} if size.before else {}),
            }
            agents = {
                name: stack.enter_context(
                    running_agent(broker, folder, size.interval, name, tree)
                )
                for name, tree in trees.items()
            }
            side = Side(broker, load, agents, exporter)
            await asyncio.sleep(size.warm_up * size.interval)
            if exporter:
                for _ in range(size.exporter_warm_up):
                    await asyncio.to_thread(exporter.scrape)
            for agent in agents.values():
                agent.halt()
            yield side
        finally:
            await load.stop()


async def compare(size: Size) -> dict[float, dict[str, float]]:
    """
    By the share of queues that works the figures of all windows of both brokers, one broker after the other: both would
    not leave a core for either.
    """
    sides = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as text:
        for name, with_exporter in (("guarded", False), ("with-exporter", True)):
            async with side_under_load(
                Path(text), name, size, with_exporter=with_exporter
            ) as side:
                for share in size.working:
                    side.load.work_on(share)
                    windows = side.windows.setdefault(share, {})
                    for _ in range(size.runs):
                        for attached in (
                            "nothing",
                            *side.agents,
                            *(["exporter"] if with_exporter else []),
                        ):
                            window = await measure(
                                side, attached, size.polls, size.interval
                            )
                            windows.setdefault(attached, []).append(window)
            sides[name] = side.windows
            exported = side.exported
            unwanted = side.exporter.unwanted if side.exporter else 0
    about = {
        "jmx_exporter_samples": exported,
        "jmx_exporter_unwanted_attributes": unwanted,
    }
    return {
        share: {
            **figures(sides["guarded"][share], sides["with-exporter"][share]),
            **about,
        }
        for share in size.working
    }


def figures(
    guarded: dict[str, list[Window]], both: dict[str, list[Window]]
) -> dict[str, float]:
    penstock = added(guarded, "penstock")
    exporter = added(both, "exporter")
    same_guard = added(both, "penstock")
    agent = median(window.agent_cpu / window.polls for window in guarded["penstock"])
    p50 = {name: quantile(windows, 0.5) for name, windows in guarded.items()}
    p99 = {name: quantile(windows, 0.99) for name, windows in guarded.items()}
    before = {}
    if "before" in guarded:
        cpu = added(guarded, "before")
        before = {
            "before_broker_cpu_s_per_poll": cpu,
            "before_agent_cpu_s_per_poll": median(
                window.agent_cpu / window.polls for window in guarded["before"]
            ),
            "before_ratio": cpu / exporter,
            "before_ratio_same_guard": added(both, "before") / exporter,
        }
    return {
        **before,
        "broker_cpu_s_per_poll": penstock,
        "agent_cpu_s_per_poll": agent,
        "total_cpu_s_per_poll": penstock + agent,
        "jmx_exporter_cpu_s_per_scrape": exporter,
        "broker_cpu_s_per_poll_without_guard": same_guard,
        "ratio": penstock / exporter,
        "ratio_same_guard": same_guard / exporter,
        "ratio_total": (penstock + agent) / exporter,
        "p50_latency_ms": 1000 * p50["nothing"],
        "p99_latency_ms": 1000 * p99["nothing"],
        "p50_latency_ratio": p50["penstock"] / p50["nothing"],
        "p99_latency_ratio": p99["penstock"] / p99["nothing"],
        "p99_latency_ratio_exporter": quantile(both["exporter"], 0.99)
        / quantile(both["nothing"], 0.99),
        "heap_mb_nothing": median(window.heap for window in guarded["nothing"]) / 1e6,
        "heap_mb_penstock": median(window.heap for window in guarded["penstock"]) / 1e6,
        "heap_mb_exporter": median(window.heap for window in both["exporter"]) / 1e6,
    }


def added(windows: dict[str, list[Window]], attached: str) -> float:
    """
    Median over the runs of what the broker took more per poll than in as much time of the window beside it with nothing
    attached: a scrape that takes longer than an interval is not charged with the messages of that time.
    """
    pairs = zip(windows[attached], windows["nothing"], strict=True)
    return median(
        (window.broker_cpu - nothing.broker_cpu * window.seconds / nothing.seconds)
        / window.polls
        for window, nothing in pairs
    )


def quantile(windows: Sequence[Window], share: float) -> float:
    latencies = sorted(latency for window in windows for latency in window.latencies)
    return latencies[int(share * (len(latencies) - 1))]


@click.command()
@click.option(
    "--queues", multiple=True, type=int, default=(1_000, 10_000), show_default=True
)
@click.option("--consumers", default=1_000, show_default=True)
@click.option(
    "--rate", default=200.0, show_default=True, help="Messages a second in all."
)
@click.option("--runs", default=7, show_default=True, help="Windows of each kind.")
@click.option(
    "--interval",
    default=None,
    type=float,
    help="Seconds between polls; default 2, from 5,000 queues on 10.",
)
@click.option(
    "--working",
    multiple=True,
    type=float,
    default=(1.0, 0.1),
    show_default=True,
    help="Shares of queues with messages.",
)
@click.option(
    "--before",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Another checkout.",
)
def main(
    queues: tuple[int, ...],
    consumers: int,
    rate: float,
    runs: int,
    interval: float | None,
    working: tuple[float, ...],
    before: Path | None,
) -> None:
    """Measure and print a table, and as the last line one JSON object."""
    results = {}
    for count in queues:
        large = count >= LARGE
        pause = interval or (10.0 if large else 2.0)
        size = Size(
            count,
            consumers,
            rate,
            interval=pause,
            polls=1 if large else 5,
            runs=runs,
            warm_up=30 if large else 60,
            exporter_warm_up=6 if large else 60,  # of ten times as much each
            working=working,
            before=before,
        )
        for share, found in asyncio.run(compare(size)).items():
            results[count, share] = found
    grid = Table(
        "figure",
        *(f"{count:,} queues, {share:.0%} work" for count, share in results),
        box=None,
    )
    for name in next(iter(results.values())):
        grid.add_row(name, *(f"{result[name]:.4g}" for result in results.values()))
    Console(width=120).print(grid)
    # A comparison where the exporter reads what Penstock reads; it cannot be told so for the largest.
    fair = max(
        (
            scene
            for scene in results
            if not results[scene]["jmx_exporter_unwanted_attributes"]
        ),
        default=max(results),
    )
    told = {name: round(value, 4) for name, value in results[fair].items()}
    by_size = {
        f"{count}, {share} working": {
            name: round(value, 4) for name, value in result.items()
        }
        for (count, share), result in results.items()
    }
    machine = {"cores": os.cpu_count(), "python": sys.version.split()[0]}
    about = {
        "bench": "broker",
        "queues": fair[0],
        "working": fair[1],
        "consumers": consumers,
    }
    print(json.dumps({**about, **told, "sizes": by_size, **machine}))


if __name__ == "__main__":
    main()
