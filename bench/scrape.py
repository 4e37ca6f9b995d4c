"""
`make bench-scrape`: the real agent's server at 750,000 series, while it polls every 2 s: latency with 1, 3 and 8
parallel scrapes, memory with 8 slow readers, and how long `/-/healthy` takes meanwhile. The last line is JSON.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import click
from bench import agent
from bench.agent import Agent, Load
from bench.broker import Broker, running
from bench.harness import facts, print_table

SLOW_READERS = 8
SLOW_BYTES = 65_536
"""What a slow reader takes each tenth of a second: 640 kB/s, so that a body takes it 20 seconds."""
ROUNDS = 3
"""Times that memory is measured without and with them, by turns: the peak of a poll alone moves by some MB."""


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
@click.option("--polls", default=6, show_default=True, help="Polls of the agent for which each part lasts.")
@click.option("--interval", default=2, show_default=True, help="Seconds between two polls of the agent.")
def main(*, queues: int, consumers: int, polls: int, interval: int) -> None:
    result: dict[str, float] = {"interval_s": interval}
    rows: dict[str, list[str]] = {}
    with running(queues, consumers, live=True) as broker, agent.running(broker, queues, interval) as scraped:
        result["body_mb"] = round(scraped.get("/metrics")[1] / 1e6, 2)
        for parallel in (1, 3, 8):
            part, cells = _parallel(broker, scraped, parallel, polls)
            rows[f"{parallel} at once"] = cells
            result |= part
        added = [_added_by_slow_readers(broker, scraped, polls) for _ in range(ROUNDS)]
        result["slow_readers_mb"] = round(median(added), 1)
        result |= {"slow_readers_least_mb": round(min(added), 1), "slow_readers_most_mb": round(max(added), 1)}
        result["peak_mb"] = round(scraped.peak_mb(), 1)
    print_table(rows, ["scrapes", "n", "p50 ms", "p99 ms", "max ms", "health p50", "health p99", "health max"])
    result["scrape_p99_ms"] = result["scrape1_p99_ms"]
    result["health_p99_ms"] = max(result[f"health{parallel}_p99_ms"] for parallel in (1, 3, 8))
    print(json.dumps({"bench": "scrape", **result, **facts()}))


def _parallel(broker: Broker, scraped: Agent, parallel: int, polls: int) -> tuple[dict[str, float], list[str]]:
    scrapes = agent.scrapes(scraped, parallel, pause=0.3)
    health = Load(lambda: scraped.get("/-/healthy")[0], pause=0.02)
    with scrapes, health:
        agent.wait_for_polls(broker, polls)
    cells = [str(len(scrapes.seconds))]
    cells += [f"{load.quantile_ms(share):.1f}" for load in (scrapes, health) for share in (0.5, 0.99, 1.0)]
    return {
        f"scrape{parallel}_p50_ms": round(scrapes.quantile_ms(0.5), 1),
        f"scrape{parallel}_p99_ms": round(scrapes.quantile_ms(0.99), 1),
        f"health{parallel}_p99_ms": round(health.quantile_ms(0.99), 1),
    }, cells


def _added_by_slow_readers(broker: Broker, scraped: Agent, polls: int) -> float:
    """By how many MB the highest memory is higher with them than right before."""
    before = _highest(scraped, lambda: agent.wait_for_polls(broker, polls))
    with ExitStack() as stack:
        for _ in range(SLOW_READERS):
            stack.enter_context(_slow_reader(scraped.port))
        return _highest(scraped, lambda: agent.wait_for_polls(broker, polls)) - before


def _highest(scraped: Agent, work: Callable[[], None]) -> float:
    """The highest memory of the agent while `work` is done, in MB."""

    def look() -> float:
        return scraped.memory_mb()

    with Load(look, pause=0.05) as looked:
        work()
    return max(looked.seconds)


@contextmanager
def _slow_reader(port: int) -> Iterator[None]:
    """Someone who scrapes again and again and takes each body in small sips."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n")
                while not stop.is_set() and connection.recv(SLOW_BYTES):
                    time.sleep(0.1)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
