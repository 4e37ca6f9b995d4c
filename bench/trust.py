"""
`make bench-trust`: 100 scrapers at once, 1,000 slow connections (heads, and bodies of three kinds), look-ups and wrong
passwords, all together, at 75,000 series: whether polls go on as before, how long `/-/healthy` takes (`health`: at the
address of all, `probe`: at the address for probes), what the scrapers are answered, and whether users get in: `known`
logged in before, and `late` never. In the midst of it the web configuration changes. The last line is JSON.

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
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import bcrypt
import click
from bench import agent
from bench.agent import Agent, Load
from bench.broker import running
from bench.harness import facts, print_table

SCRAPERS = 100
SLOW = 1_000
LOOKERS = 4
GUESSERS = 100
KNOWN = "prometheus"
LATE = "grafana"
PASSWORD = "correct horse"  # noqa: S105 - of the bench
EVERY = 5.0
"""Seconds between two scrapes of each scraper; all begin at the same moment."""
DRIP = 2.0
"""Seconds between two bytes of a slow connection."""
_HEAD = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLOWLY = {
    "head": (b"GET /" + _HEAD + b"X: ", b"y"),
    "body": (b"POST /-/reload" + _HEAD + b"Content-Length: 100000\r\n\r\n", b"y"),
    "chunks": (
        b"POST /metrics" + _HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\ny\r\n",
    ),
    "no body": (b"GET /-/healthy" + _HEAD + b"Content-Length: 100000\r\n\r\n", b""),
}
"""By kind, how a slow connection begins and what it then sends now and then."""
LOOK_UPS = (
    "/api/v1/queues?limit=1000",
    "/api/v1/events?limit=1000",
    "/api/v1/explain?broker=bench&queue=none",
)
LOOK = "/metrics?name[]=penstock_polls_total&name[]=penstock_poll_duration_seconds&name[]=penstock_logins_*"
"""What the probe itself looks at: the whole body would keep the process that measures busy."""
_POLLS = re.compile(
    rb'^penstock_polls_total\{broker="bench",result="(\w+)"\} (\S+)$', re.MULTILINE
)
_SECONDS = re.compile(
    rb'^penstock_poll_duration_seconds\{broker="bench"\} (\S+)$', re.MULTILINE
)

_LOGINS = re.compile(rb"^penstock_(logins_\w+)_total (\S+)$", re.MULTILINE)


@click.group()
def main() -> None:
    pass


@main.command()
@click.option("--queues", default=1_000, show_default=True)
@click.option("--consumers", default=5_000, show_default=True)
@click.option(
    "--seconds",
    default=40.0,
    show_default=True,
    help="How long each of the two parts lasts.",
)
@click.option(
    "--nicer",
    default=10,
    show_default=True,
    help="Steps by which the attack is nicer than the agent.",
)
@click.option(
    "--interval",
    default=2,
    show_default=True,
    help="Seconds between two polls of the agent.",
)
def measure(
    *, queues: int, consumers: int, seconds: float, nicer: int, interval: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(queues, consumers, live=True) as broker,
        agent.running(
            broker,
            queues,
            interval,
            options=["--web.config.file", str(users(Path(folder)))],
        ) as one,
    ):
        quiet = part(one, seconds, interval)
        with attacked(one.port, seconds + 15, nicer) as attack:
            time.sleep(5)
            changed = "http_server_config: {headers: {X-Frame-Options: deny}}\n"
            renewal = threading.Timer(seconds / 2, users, (Path(folder), changed))
            renewal.start()
            known = Logins(one.port, KNOWN)
            late = Logins(
                one.port, LATE, first_at=time.monotonic() + seconds * 0.75
            )  # after the change
            with Load(known.again, pause=0.2), Load(late.again, pause=0.2):
                busy = part(one, seconds, interval)
            told, _ = attack.communicate(timeout=60)
        after = part(one, 4 * interval, interval)
        refused = {
            name.decode(): int(float(count))
            for name, count in _LOGINS.findall(metrics(one))
        }
    answers = json.loads(told)
    rows = {
        name: [str(one[key]) for key in quiet]
        for name, one in (("quiet", quiet), ("attacked", busy))
    }
    print_table(rows, ["", *quiet])
    result = {
        **{f"quiet_{name}": value for name, value in quiet.items()},
        **busy,
        "polls_missed": busy["due"] - busy["ok"],
        "polls_missed_after": after["due"] - after["ok"],
        **known.result(),
        **late.result(),
        **refused,
        **answers,
        "load": os.getloadavg()[0],
    }
    print(json.dumps({"bench": "trust", **result, **facts()}))


def users(folder: Path, more: str = "") -> Path:
    """The web configuration in this folder, with so much more."""
    if not (file := folder / "web.yml").exists():
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
        file.write_text(
            f"basic_auth_users: {{{KNOWN}: {hashed!r}, {LATE}: {hashed!r}}}\n"
        )
    file.write_text(file.read_text() + more)
    return file


@dataclass(slots=True)
class Logins:
    """A user with the right password, who comes again and again from a certain moment on."""

    port: int
    user: str
    first_at: float = 0.0
    answers: Counter[int] = field(default_factory=Counter)
    in_after: float | None = None
    """Seconds from the first request to the first that was answered 200."""
    longest: float = 0.0
    _out_since: float | None = None

    def again(self) -> float:
        if (began := time.monotonic()) < self.first_at:
            return 0.0
        seconds, status = asked(self.port, "/config", self.user)
        self.answers[status] += 1
        self._out_since = self._out_since or began
        if status == 200:
            taken = time.monotonic() - self._out_since
            self._out_since = None
            self.in_after = taken if self.in_after is None else self.in_after
            self.longest = max(self.longest, taken)
        return seconds

    def result(self) -> dict[str, Any]:
        name = "known" if self.user == KNOWN else "late"
        return {
            f"{name}_answers": dict(sorted(self.answers.items())),
            f"{name}_in_after_s": None
            if self.in_after is None
            else round(self.in_after, 2),
            f"{name}_longest_s": round(self.longest, 2),
        }


def part(one: Agent, seconds: float, interval: int) -> dict[str, Any]:
    """Polls due and made, their median duration, latency of the health page."""
    durations: list[float] = []
    own: list[float] = []
    failed: Counter[int] = Counter()
    probe_failed: Counter[int] = Counter()
    used = Used.by(one.pid)
    threads = Path(f"/proc/{one.pid}/task/{one.pid}"), Path("/proc/thread-self")

    def health() -> float:
        waited = sum(_schedstat(thread)[1] for thread in threads)
        seconds, status = asked(one.port, "/-/healthy")
        failed.update([status] if status != 200 else [])
        own.append(
            max(
                seconds - sum(_schedstat(thread)[1] for thread in threads) + waited, 0.0
            )
        )
        return seconds

    def probe() -> float:
        seconds, status = asked(one.probe_port, "/-/healthy")
        probe_failed.update([status] if status != 200 else [])
        return seconds

    began = time.monotonic()
    before = polls(one)
    with Load(health, pause=0.02) as healths, Load(probe, pause=0.02) as probes:
        while time.monotonic() < began + seconds:
            time.sleep(1)
            if body := metrics(one):
                durations += map(float, _SECONDS.findall(body))
    made = polls(one) - before
    lasted = time.monotonic() - began
    return {
        "due": round(lasted / interval),
        "ok": made["ok"],
        "not_ok": made.total() - made["ok"],
        "poll_s": round(median(durations), 3) if durations else None,
        "health_p50_ms": round(healths.quantile_ms(0.5), 1),
        "health_p99_ms": round(healths.quantile_ms(0.99), 1),
        "health_max_ms": round(healths.quantile_ms(1.0), 1),
        "own_p99_ms": round(1000 * sorted(own)[int(len(own) * 0.99)], 1),
        "health_asked": len(own),
        "health_failed": failed.total(),
        "probe_p99_ms": round(probes.quantile_ms(0.99), 1),
        "probe_max_ms": round(probes.quantile_ms(1.0), 1),
        "probe_failed": probe_failed.total(),
        "rss_mb": round(one.memory_mb(), 1),
        **Used.by(one.pid).since(used, lasted),
    }


def asked(
    port: int, path: str, user: str = "", timeout: float = 60
) -> tuple[float, int]:
    """Seconds until a new connection had its answer, and the status; 0 when there was none."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers=login(user) if user else {})
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    except (OSError, http.client.HTTPException):
        status = 0
    finally:
        connection.close()
    return time.perf_counter() - began, status


def login(user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": aiohttp.encode_basic_auth(user, password)}


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
        return {
            name: round((getattr(self, name) - getattr(before, name)) / seconds, 2)
            for name in names
        }


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
    return Counter(
        {result.decode(): int(float(value)) for result, value in _POLLS.findall(body)}
    )


def metrics(one: Agent) -> bytes:
    """The body, nothing when it was refused."""
    try:
        with urlopen(
            Request(f"http://127.0.0.1:{one.port}{LOOK}", headers=login(KNOWN)),
            timeout=30,
        ) as answer:
            body: bytes = answer.read()
            return body
    except OSError:
        return b""


@contextlib.contextmanager
def attacked(port: int, seconds: float, nicer: int) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "bench.trust",
        "attack",
        str(port),
        str(seconds),
        str(nicer),
    ]
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
        aiohttp.ClientSession(
            f"http://127.0.0.1:{port}", connector=connector, headers=login(KNOWN)
        ) as session,
        asyncio.TaskGroup() as all_of_them,
    ):
        for number in range(SLOW):
            all_of_them.create_task(
                _drip(port, end, answers, [*SLOWLY][number % len(SLOWLY)])
            )
        for _ in range(SCRAPERS):
            all_of_them.create_task(_scrape(session, end, answers, taken))
        for number in range(LOOKERS):
            all_of_them.create_task(
                _look_up(session, end, answers, LOOK_UPS[number % len(LOOK_UPS)])
            )
        for number in range(GUESSERS):
            all_of_them.create_task(
                _guess(session, end, answers, (KNOWN, LATE, "nobody")[number % 3])
            )
    return {
        "answers": dict(sorted(answers.items())),
        "scrape_p99_s": round(sorted(taken)[int(len(taken) * 0.99)], 2),
    }


async def _drip(port: int, end: float, answers: Counter[str], kind: str) -> None:
    """A request that never gets whole; one that is dropped comes again."""
    begin, piece = SLOWLY[kind]
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begin)
            while time.monotonic() < end and not reader.at_eof():
                writer.write(piece)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DRIP):
                        if (said := await reader.read(100)) or reader.at_eof():
                            answers[
                                f"slow {kind}: {said[9:12].decode() or 'dropped'}"
                            ] += 1
                            break
            writer.close()
        except OSError:
            answers[f"slow {kind}: dropped"] += 1
        await asyncio.sleep(DRIP)


async def _guess(
    session: aiohttp.ClientSession, end: float, answers: Counter[str], user: str
) -> None:
    """Ever new passwords, each as soon as the one before is answered; from the address of all others."""
    while time.monotonic() < end:
        guess = login(user, secrets.token_hex(8))
        await _asked(session, "/config", answers, f"guess for {user}", guess)


async def _scrape(
    session: aiohttp.ClientSession,
    end: float,
    answers: Counter[str],
    taken: list[float],
) -> None:
    """As a Prometheus does; one that is refused tries again after a second, as it was told."""
    while (began := time.monotonic()) < end:
        status = await _asked(session, "/metrics", answers, "scrape")
        while status == 503 and time.monotonic() < began + EVERY:
            await asyncio.sleep(1)
            status = await _asked(session, "/metrics", answers, "scrape")
        if status == 200:
            taken.append(time.monotonic() - began)
        await asyncio.sleep(max(began + EVERY - time.monotonic(), 0))


async def _look_up(
    session: aiohttp.ClientSession, end: float, answers: Counter[str], path: str
) -> None:
    while time.monotonic() < end:
        await _asked(session, path, answers, "look-up")
        await asyncio.sleep(0.2)


async def _asked(
    session: aiohttp.ClientSession,
    path: str,
    answers: Counter[str],
    what: str,
    headers: Mapping[str, str] | None = None,
) -> int:
    try:
        async with session.get(path, headers=headers) as answer:
            await answer.read()
            answers[f"{what}: {answer.status}"] += 1
            return answer.status
    except (aiohttp.ClientError, OSError):
        answers[f"{what}: failed"] += 1
        return 0


if __name__ == "__main__":
    main()
