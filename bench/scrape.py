"""
`make bench-scrape`: the real agent's server at 10,000 queues and 50,000 consumers, all of them shown, while it polls:
latency of 1, 3 and 8 parallel scrapes, how long `/-/healthy` takes meanwhile, and memory without and with 8 slow
readers, by turns. The last line is JSON.
"""

import http.client
import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from statistics import median

import click
from bench import agent
from bench.agent import Agent, Load
from bench.broker import Broker, running
from bench.harness import facts, print_table

SLOW_READERS = 8
SLOW_BYTES = 65_536
SLOW_PAUSE = 0.1
"""A slow reader takes so many bytes, and waits for so many seconds: a body of 13 MB takes it 20 seconds."""
BODY_SECONDS = 20.0
"""The readers begin spread over this time, so that they hold bodies of different polls."""
ROUNDS = 7
"""How often memory is measured with slow readers, and without before and after: the peak of a poll moves by some MB."""


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
@click.option(
    "--polls",
    default=6,
    show_default=True,
    help="Polls of the agent for which each part lasts.",
)
@click.option(
    "--interval",
    default=2,
    show_default=True,
    help="Seconds between two polls of the agent.",
)
def main(*, queues: int, consumers: int, polls: int, interval: int) -> None:
    result: dict[str, float] = {"interval_s": interval}
    rows: dict[str, list[str]] = {}
    with (
        running(queues, consumers, live=True) as broker,
        agent.running(broker, queues, interval) as scraped,
    ):
        result["body_mb"] = round(scraped.get("/metrics")[1] / 1e6, 2)
        for parallel in (1, 3, 8):
            part, cells = _parallel(broker, scraped, parallel, polls)
            rows[f"{parallel} at once"] = cells
            result |= part
        added = _added_by_slow_readers(
            broker, scraped, max(polls, math.ceil(2 * BODY_SECONDS / interval))
        )
        result["slow_readers_mb"] = round(median(added), 1)
        result |= {
            "slow_readers_least_mb": round(min(added), 1),
            "slow_readers_most_mb": round(max(added), 1),
        }
        result["peak_mb"] = round(scraped.peak_mb(), 1)
    print_table(
        rows,
        [
            "scrapes",
            "n",
            "p50 ms",
            "p99 ms",
            "max ms",
            "health p50",
            "health p99",
            "health max",
        ],
    )
    result["scrape_p99_ms"] = result["scrape1_p99_ms"]
    result["health_p99_ms"] = max(
        result[f"health{parallel}_p99_ms"] for parallel in (1, 3, 8)
    )
    print(json.dumps({"bench": "scrape", **result, **facts()}))


def _parallel(
    broker: Broker, scraped: Agent, parallel: int, polls: int
) -> tuple[dict[str, float], list[str]]:
    scrapes = agent.scrapes(scraped, parallel, pause=0.3)
    health = Load(lambda: scraped.get("/-/healthy")[0], pause=0.02)
    with scrapes, health:
        agent.wait_for_polls(broker, polls)
    cells = [str(len(scrapes.seconds))]
    cells += [
        f"{load.quantile_ms(share):.1f}"
        for load in (scrapes, health)
        for share in (0.5, 0.99, 1.0)
    ]
    return {
        f"scrape{parallel}_p50_ms": round(scrapes.quantile_ms(0.5), 1),
        f"scrape{parallel}_p99_ms": round(scrapes.quantile_ms(0.99), 1),
        f"health{parallel}_p99_ms": round(health.quantile_ms(0.99), 1),
    }, cells


def _added_by_slow_readers(broker: Broker, scraped: Agent, polls: int) -> list[float]:
    """By how many MB the highest memory in `polls` polls is higher with them than right before and after."""
    without = [_highest(broker, scraped, polls)]
    during = []
    for _ in range(ROUNDS):
        with ExitStack() as stack:
            for number in range(SLOW_READERS):
                stack.enter_context(
                    _slow_reader(scraped.port, BODY_SECONDS * number / SLOW_READERS)
                )
            during.append(_highest(broker, scraped, polls))
        without.append(_highest(broker, scraped, polls))
    return [
        high - (before + after) / 2
        for high, before, after in zip(during, without, without[1:], strict=False)
    ]


def _highest(broker: Broker, scraped: Agent, polls: int) -> float:
    """The highest memory of the agent in so many polls, in MB."""
    with Load(scraped.memory_mb, pause=0.05) as looked:
        agent.wait_for_polls(broker, polls)
    return max(looked.seconds)


@contextmanager
def _slow_reader(port: int, begins: float) -> Iterator[None]:
    """Someone who scrapes again and again, after `begins` seconds, and takes each body in small sips."""
    stop = threading.Event()

    def read() -> int:
        """Bytes taken of bodies; fails where the server breaks one off."""
        stop.wait(begins)
        taken = 0
        while not stop.is_set():
            with closing(
                http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            ) as connection:
                connection.request(
                    "GET",
                    "/metrics",
                    headers={"Accept-Encoding": "gzip", "Connection": "close"},
                )
                response = connection.getresponse()
                while not stop.is_set() and (sip := response.read(SLOW_BYTES)):
                    taken += len(sip) if response.status == http.HTTPStatus.OK else 0
                    stop.wait(SLOW_PAUSE)
        return taken

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            yield
        finally:
            stop.set()
        if reading.result() == 0:
            raise SystemExit("a slow reader was given nothing; nothing was measured")


if __name__ == "__main__":
    main()
