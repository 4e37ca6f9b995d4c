"""
`make bench-trust`: 100 scrapers at once, 1,000 connections that send a byte now and then, and look-ups, at 75,000
series: whether polls go on as before, how long `/-/healthy` takes, what the scrapers are answered. The last line is
JSON.

The attack is ten steps nicer than the agent (`--nicer`): in earnest scrapers and attackers have machines of their
own, here they would take the agent's cores. The simulated broker and the probe stay at the agent's priority. What the
machine adds all the same is told: `waited` is the share of the time in which the agent's loop was ready to run and
had no core, and the latencies called `own` are without what loop and probe waited so while the request was under way.
`loop` and `agent` are the CPU that the loop's thread and the whole agent used, in cores.
"""

import asyncio
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import aiohttp
import click
from bench import agent
from bench.agent import Agent, Load
from bench.broker import running
from bench.harness import facts, print_table

SCRAPERS, SLOW, LOOKERS = 100, 1_000, 4
EVERY = 5.0
"""Seconds between two scrapes of each scraper; all begin at the same moment."""
DRIP = 2.0
"""Seconds between two bytes of a slow connection."""
LOOK_UPS = ("/api/v1/queues?limit=1000", "/api/v1/events?limit=1000", "/api/v1/explain?broker=bench&queue=none")
LOOK = "/metrics?name[]=penstock_polls_total&name[]=penstock_poll_duration_seconds"
"""What the probe itself looks at: the whole body would keep the process that measures busy."""
_POLLS = re.compile(rb'^penstock_polls_total\{broker="bench",result="(\w+)"\} (\S+)$', re.MULTILINE)
_SECONDS = re.compile(rb'^penstock_poll_duration_seconds\{broker="bench"\} (\S+)$', re.MULTILINE)


@click.group()
def main() -> None:
    pass


@main.command()
@click.option("--queues", default=1_000, show_default=True)
@click.option("--consumers", default=5_000, show_default=True)
@click.option("--seconds", default=40.0, show_default=True, help="How long each of the two parts lasts.")
@click.option("--nicer", default=10, show_default=True, help="Steps by which the attack is nicer than the agent.")
@click.option("--interval", default=2, show_default=True, help="Seconds between two polls of the agent.")
def measure(*, queues: int, consumers: int, seconds: float, nicer: int, interval: int) -> None:
    with running(queues, consumers, live=True) as broker, agent.running(broker, queues, interval) as one:
        quiet = part(one, seconds, interval)
        with attacked(one.port, seconds + 15, nicer) as attack:
            time.sleep(5)
            busy = part(one, seconds, interval)
            told, _ = attack.communicate(timeout=60)
        after = part(one, 4 * interval, interval)
    answers = json.loads(told)
    rows = {name: [str(one[key]) for key in quiet] for name, one in (("quiet", quiet), ("attacked", busy))}
    print_table(rows, ["", *quiet])
    result = {
        **{f"quiet_{name}": value for name, value in quiet.items()},
        **busy,
        "polls_missed": busy["due"] - busy["ok"],
        "polls_missed_after": after["due"] - after["ok"],
        **answers,
    }
    print(json.dumps({"bench": "trust", **result, **facts()}))


def part(one: Agent, seconds: float, interval: int) -> dict[str, Any]:
    """Polls due and made, their median duration, latency of the health page."""
    durations: list[float] = []
    own: list[float] = []
    failed: Counter[int] = Counter()
    used = Used.by(one.pid)
    threads = Path(f"/proc/{one.pid}/task/{one.pid}"), Path("/proc/thread-self")

    def health() -> float:
        waited = sum(_schedstat(thread)[1] for thread in threads)
        seconds, status = healthy(one.port)
        failed.update([status] if status != 200 else [])
        own.append(max(seconds - sum(_schedstat(thread)[1] for thread in threads) + waited, 0.0))
        return seconds

    began, before = time.monotonic(), polls(one)
    with Load(health, pause=0.02) as asked:
        while time.monotonic() < began + seconds:
            time.sleep(1)
            if body := metrics(one):
                durations += map(float, _SECONDS.findall(body))
    made, lasted = polls(one) - before, time.monotonic() - began
    return {
        "due": round(lasted / interval),
        "ok": made["ok"],
        "not_ok": made.total() - made["ok"],
        "poll_s": round(median(durations), 3) if durations else None,
        "health_p50_ms": round(asked.quantile_ms(0.5), 1),
        "health_p99_ms": round(asked.quantile_ms(0.99), 1),
        "health_max_ms": round(asked.quantile_ms(1.0), 1),
        "own_p99_ms": round(1000 * sorted(own)[int(len(own) * 0.99)], 1),
        "health_asked": len(own),
        "health_failed": failed.total(),
        "rss_mb": round(one.memory_mb(), 1),
        **Used.by(one.pid).since(used, lasted),
    }


def healthy(port: int) -> tuple[float, int]:
    """Seconds until a new connection had its answer, and the status; 0 when there was none."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/-/healthy")
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    except (OSError, http.client.HTTPException):
        status = 0
    finally:
        connection.close()
    return time.perf_counter() - began, status


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds since a process began: CPU of its first thread and of all, and the first one's wait for a core."""

    loop: float
    agent: float
    waited: float

    @classmethod
    def by(cls, pid: int) -> "Used":
        threads = [_schedstat(task) for task in Path(f"/proc/{pid}/task").iterdir()]
        loop, waited = _schedstat(Path(f"/proc/{pid}/task/{pid}"))
        return cls(loop, sum(ran for ran, _ in threads), waited)

    def since(self, before: "Used", seconds: float) -> dict[str, float]:
        names = ("loop", "agent", "waited")
        return {name: round((getattr(self, name) - getattr(before, name)) / seconds, 2) for name in names}


def _schedstat(task: Path) -> tuple[float, float]:
    """Seconds that a thread ran, and that it was ready and had no core; nothing of one that has ended."""
    try:
        ran, waited, _ = (task / "schedstat").read_text().split()
    except OSError:
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def polls(one: Agent) -> Counter[str]:
    while not (body := metrics(one)):
        time.sleep(0.1)
    return Counter({result.decode(): int(float(value)) for result, value in _POLLS.findall(body)})


def metrics(one: Agent) -> bytes:
    """The body, nothing when it was refused."""
    try:
        with urlopen(f"http://127.0.0.1:{one.port}{LOOK}", timeout=30) as answer:
            body: bytes = answer.read()
            return body
    except OSError:
        return b""


@contextlib.contextmanager
def attacked(port: int, seconds: float, nicer: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.trust", "attack", str(port), str(seconds), str(nicer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@main.command()
@click.argument("port", type=int)
@click.argument("seconds", type=float)
@click.argument("nicer", type=int)
def attack(port: int, seconds: float, nicer: int) -> None:
    os.nice(nicer)
    print(json.dumps(asyncio.run(_attack(port, seconds))))


async def _attack(port: int, seconds: float) -> dict[str, Any]:
    answers: Counter[str] = Counter()
    taken: list[float] = []
    end = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector) as session,
        asyncio.TaskGroup() as all_of_them,
    ):
        for _ in range(SLOW):
            all_of_them.create_task(_drip(port, end, answers))
        for _ in range(SCRAPERS):
            all_of_them.create_task(_scrape(session, end, answers, taken))
        for number in range(LOOKERS):
            all_of_them.create_task(_look_up(session, end, answers, LOOK_UPS[number % len(LOOK_UPS)]))
    return {"answers": dict(sorted(answers.items())), "scrape_p99_s": round(sorted(taken)[int(len(taken) * 0.99)], 2)}


async def _drip(port: int, end: float, answers: Counter[str]) -> None:
    """A request that never gets whole; who is dropped comes again."""
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            while time.monotonic() < end and not reader.at_eof():
                writer.write(b"y")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DRIP):
                        if (said := await reader.read(100)) or reader.at_eof():
                            answers[f"slow: {said[9:12].decode() or 'dropped'}"] += 1
                            break
            writer.close()
        except OSError:
            answers["slow: dropped"] += 1
        await asyncio.sleep(DRIP)


async def _scrape(session: aiohttp.ClientSession, end: float, answers: Counter[str], taken: list[float]) -> None:
    """As a Prometheus does; one that is refused tries again after a second, as it was told."""
    while (began := time.monotonic()) < end:
        status = await _asked(session, "/metrics", answers, "scrape")
        while status == 503 and time.monotonic() < began + EVERY:
            await asyncio.sleep(1)
            status = await _asked(session, "/metrics", answers, "scrape")
        if status == 200:
            taken.append(time.monotonic() - began)
        await asyncio.sleep(max(began + EVERY - time.monotonic(), 0))


async def _look_up(session: aiohttp.ClientSession, end: float, answers: Counter[str], path: str) -> None:
    while time.monotonic() < end:
        await _asked(session, path, answers, "look-up")
        await asyncio.sleep(0.2)


async def _asked(session: aiohttp.ClientSession, path: str, answers: Counter[str], what: str) -> int:
    try:
        async with session.get(path) as answer:
            await answer.read()
            answers[f"{what}: {answer.status}"] += 1
            return answer.status
    except (aiohttp.ClientError, OSError):
        answers[f"{what}: failed"] += 1
        return 0


if __name__ == "__main__":
    main()
