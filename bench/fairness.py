"""
`make bench-fairness`: one broker of 100,000 queues beside nine of 100, all polled by one real agent: which polls of the
nine are missed, and how long scrapes and health take, against an agent that has the nine alone; memory; how long it
takes from SIGTERM to the exit at random moments of the large broker's poll. The last line is JSON.

The agent with the nine alone is measured in the same run, before and after the other one: the machine drifts.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import click
from bench.agent import Agent, Load, processes
from bench.broker import Broker, running
from bench.harness import facts, print_table

SMALL = 9
SMALL_QUEUES = 100
SMALL_INTERVAL = 2
LARGE = "large"
LOOK = "/metrics?name[]=penstock_polls_total&name[]=penstock_poll_timestamp_seconds"
"""What the probe itself looks at; also the scrape that is timed: a few lines of each broker, large or small."""
_POLLS = re.compile(
    r'^penstock_polls_total\{broker="([^"]+)",result="(\w+)"\} (\S+)$', re.MULTILINE
)
_STAMPS = re.compile(
    r'^penstock_poll_timestamp_seconds\{broker="([^"]+)"\} (\S+)$', re.MULTILINE
)
_LISTENS = re.compile(r"serving /metrics on \S*:(\d+)")


@click.command()
@click.option(
    "--queues", default=100_000, show_default=True, help="Of the large broker."
)
@click.option(
    "--consumers", type=int, help="Of the large broker; without it one for each queue."
)
@click.option(
    "--interval",
    default=15,
    show_default=True,
    help="Seconds between two polls of the large broker.",
)
@click.option(
    "--seconds",
    default=300.0,
    show_default=True,
    help="For which the large one is polled beside the nine.",
)
@click.option(
    "--stops", default=8, show_default=True, help="How often the agent is stopped."
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="Of the moments at which it is stopped.",
)
def main(
    *,
    queues: int,
    consumers: int | None,
    interval: int,
    seconds: float,
    stops: int,
    seed: int,
) -> None:
    with ExitStack() as stack:
        small = {f"small-{n}": stack.enter_context(_small()) for n in range(SMALL)}
        large = stack.enter_context(
            running(queues, queues if consumers is None else consumers, live=True)
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone = [part(folder / "before", config(small), small, seconds / 2)]
        both = config(small, large, interval)
        beside = part(folder / "beside", both, small, seconds)
        alone.append(part(folder / "after", config(small), small, seconds / 2))
        exits = stopped(folder / "stops", both, interval, stops, random.Random(seed))  # noqa: S311 - moments
    parts = {"alone, before": alone[0], "beside": beside, "alone, after": alone[1]}
    print_table(
        {name: [f"{value:g}" for value in one.values()] for name, one in parts.items()},
        ["", *beside],
    )
    quiet = sum(one["scrape_p99_ms"] for one in alone) / len(alone)
    result = {
        "queues": queues,
        "consumers": queues if consumers is None else consumers,
        **beside,
        "scrape_p99_alone_ms": round(quiet, 1),
        "scrape_p99_ratio": round(beside["scrape_p99_ms"] / quiet, 2),
        "health_p99_alone_ms": round(
            sum(one["health_p99_ms"] for one in alone) / len(alone), 1
        ),
        "missed_alone_pct": max(one["missed_pct"] for one in alone),
        "exit_s": [round(one, 2) for one in exits],
        "exit_max_s": round(max(exits), 2) if exits else None,
    }
    print(json.dumps({"bench": "fairness", **result, **facts()}))


def _small() -> Any:
    return running(SMALL_QUEUES, SMALL_QUEUES, live=True)


def config(
    small: Mapping[str, Broker], large: Broker | None = None, interval: int = 0
) -> str:
    lines = [f"interval: {SMALL_INTERVAL}s", "brokers:"]
    lines += [
        f'  - {{name: {name}, kind: artemis, url: "{one.url}"}}'
        for name, one in small.items()
    ]
    if large is not None:
        lines.append(
            f'  - {{name: {LARGE}, kind: artemis, url: "{large.url}", interval: {interval}s}}'
        )
    return "\n".join(lines) + "\n"


@contextmanager
def started(folder: Path, text: str) -> Iterator[tuple[Agent, subprocess.Popen[bytes]]]:
    """`penstock run` in `folder`, its state beside its configuration; killed at the end where it still runs."""
    folder.mkdir(exist_ok=True)
    file = folder / "penstock.yaml"
    log = folder / "log"
    file.write_text(text)
    command = [
        str(Path(sys.executable).with_name("penstock")),
        "run",
        "--config.file",
        str(file),
    ]
    command += [
        "--web.listen-address",
        "127.0.0.1:0",
        "--storage.path",
        str(folder / "data"),
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, stdout=out, stderr=out, env=dict(os.environ)
        ) as process,
    ):
        try:
            while (found := _LISTENS.search(log.read_text())) is None:
                if process.poll() is not None:
                    raise SystemExit(f"the agent did not start:\n{log.read_text()}")
                time.sleep(0.1)
            yield Agent(int(found[1]), process.pid), process
        finally:
            process.kill()


@dataclass(slots=True)
class Seen:
    """Of each broker: its polls by result, when each poll was read."""

    polls: dict[str, dict[str, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    stamps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, body: str) -> None:
        for broker, result, count in _POLLS.findall(body):
            self.polls[broker][result] = float(count)
        for broker, stamp in _STAMPS.findall(body):
            if self.stamps[broker][-1:] != [float(stamp)]:
                self.stamps[broker].append(float(stamp))


def part(
    folder: Path, text: str, small: Mapping[str, Broker], seconds: float
) -> dict[str, float]:
    """How the nine fare for so many seconds, from when every broker was polled."""
    with started(folder, text) as (agent, _):
        wait_for_ready(agent, text.count("name:"))
        first = Seen()
        last = Seen()
        first.note(look(agent))
        began = time.monotonic()
        used = cpu(agent.pid)

        def scrape() -> float:
            before = time.perf_counter()
            last.note(look(agent))
            return time.perf_counter() - before

        health = Load(lambda: agent.get("/-/healthy")[0], pause=0.02)
        with (
            Load(scrape, pause=0.1) as scrapes,
            health,
            Load(lambda: agent.get("/metrics")[0], pause=5.0) as whole,
        ):
            time.sleep(seconds)
        lasted = time.monotonic() - began
        due = lasted / SMALL_INTERVAL * SMALL
        made = sum(
            last.polls[name].get("ok", 0) - first.polls[name].get("ok", 0)
            for name in small
        )
        skipped = sum(
            last.polls[name].get("skipped", 0) - first.polls[name].get("skipped", 0)
            for name in small
        )
        gaps = [
            b - a
            for name in small
            for a, b in zip(last.stamps[name], last.stamps[name][1:], strict=False)
        ]
        return {
            "due": round(due),
            "made": made,
            "skipped": skipped,
            # the last poll of each may be under way
            "missed_pct": round(100 * max(due - made - SMALL, skipped) / due, 2),
            "gap_max_s": round(max(gaps), 2),
            "scrape_p50_ms": round(scrapes.quantile_ms(0.5), 1),
            "scrape_p99_ms": round(scrapes.quantile_ms(0.99), 1),
            "scrape_max_ms": round(scrapes.quantile_ms(1.0), 1),
            "health_p50_ms": round(health.quantile_ms(0.5), 1),
            "health_p99_ms": round(health.quantile_ms(0.99), 1),
            "health_max_ms": round(health.quantile_ms(1.0), 1),
            "whole_p50_ms": round(whole.quantile_ms(0.5), 1),
            "large_made": last.polls[LARGE].get("ok", 0)
            - first.polls[LARGE].get("ok", 0),
            "large_partial": last.polls[LARGE].get("partial", 0)
            - first.polls[LARGE].get("partial", 0),
            "cpu_cores": round((cpu(agent.pid) - used) / lasted, 2),
            "rss_mb": round(agent.memory_mb(), 1),
            "peak_mb": round(agent.peak_mb(), 1),
        }


def stopped(
    folder: Path, text: str, interval: float, times: int, moments: random.Random
) -> Sequence[float]:
    """Seconds from SIGTERM to the exit, each time at another moment; each start goes on with what the last one kept."""
    found = []
    for _ in range(times):
        with started(folder, text) as (agent, process):
            wait_for_ready(agent, text.count("name:"))
            time.sleep(moments.uniform(0, interval))
            began = time.monotonic()
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                print("the agent did not end within 120 s", file=sys.stderr)
            found.append(time.monotonic() - began)
            if process.returncode != 0:
                raise SystemExit(
                    f"the agent ended with {process.returncode}:\n{Path(folder, 'log').read_text()}"
                )
    return found


def wait_for_ready(agent: Agent, brokers: int) -> None:
    """Until every broker was polled."""
    until = time.monotonic() + 300
    while len(dict.fromkeys(_STAMPS.findall(look(agent)))) < brokers:
        if time.monotonic() > until:
            raise SystemExit(
                "not every broker was polled within five minutes; the machine is too busy"
            )
        time.sleep(0.5)


def look(agent: Agent) -> str:
    with urlopen(f"http://127.0.0.1:{agent.port}{LOOK}", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def cpu(pid: int) -> float:
    """Seconds of CPU that the agent has used, with its worker processes."""
    fields = [
        Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        for one in processes(pid)
    ]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
