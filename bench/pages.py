"""
`make bench-pages`: the status page of the real agent at 10,000 queues and 50,000 consumers, while it polls every 15 s
and is scraped: how long each page takes, and what health and scrapes take beside it. The last line is JSON.
"""

import json
import statistics
import time
from urllib.parse import quote

import click
from bench import agent
from bench.agent import Agent, Load
from bench.broker import running
from bench.harness import facts, print_table

GOAL_MS = 100


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
@click.option(
    "--runs", default=21, show_default=True, help="How often each page is asked for."
)
@click.option(
    "--interval",
    default=15,
    show_default=True,
    help="Seconds between two polls of the agent.",
)
def main(*, queues: int, consumers: int, runs: int, interval: int) -> None:
    rows: dict[str, list[str]] = {}
    result: dict[str, float] = {}
    with (
        running(queues, consumers, live=True) as broker,
        agent.running(broker, queues, interval) as asked,
    ):
        name, client = broker_names(asked)
        pages = {
            "overview": "/",
            "queues": "/queues",
            "queues, last page": f"/queues?offset={queues - 50}",
            "queues, search": "/queues?text=step-0077",
            "clients": "/clients",
            "clients, search": "/clients?text=worker-0077",
            "queue": f"/queue?broker=bench&queue={quote(name)}",
            "client": f"/client?broker=bench&client={quote(client)}",
            "broker": "/broker?broker=bench",
            "events": "/events",
        }
        before = asked.memory_mb()
        for page, path in pages.items():
            asked.get(path)
            taken = [asked.get(path) for _ in range(runs)]
            times = sorted(1000 * seconds for seconds, _ in taken)
            size = taken[0][1]
            rows[page] = [
                f"{statistics.median(times):.1f}",
                f"{times[int(0.9 * len(times))]:.1f}",
                f"{size / 1000:.1f}",
            ]
            result[f"{page.replace(', ', '_').replace(' ', '_')}_ms"] = round(
                statistics.median(times), 1
            )
        result["worst_page_ms"] = max(result.values())
        result["rss_more_mb"] = round(asked.memory_mb() - before, 1)
        result |= beside(asked, list(pages.values()))
        result["peak_mb"] = round(asked.peak_mb(), 1)
    print_table(rows, ["page", "p50 ms", "p90 ms", "kB gzip"])
    print(json.dumps({"bench": "pages", "goal_ms": GOAL_MS, **result, **facts()}))


def broker_names(asked: Agent) -> tuple[str, str]:
    """A queue that works and one of its clients, as the API lists them."""
    client = asked.json("/api/v1/clients?limit=1")["clients"][0]
    return client["queue"], client["client"]


def beside(asked: Agent, pages: list[str]) -> dict[str, float]:
    """Health and scrapes alone, and with two readers of pages who never rest."""
    found: dict[str, float] = {}
    for label, readers in (("alone", 0), ("with_readers", 2)):
        paths = iter(pages * 10_000)
        with (
            Load(lambda: asked.get("/-/healthy")[0], pause=0.02) as health,
            agent.scrapes(asked, 1, pause=0.3) as scrapes,
            Load(lambda paths=paths: asked.get(next(paths))[0], readers),  # type: ignore[misc]
        ):
            time.sleep(20)
        found[f"health_p99_ms_{label}"] = round(health.quantile_ms(0.99), 1)
        found[f"scrape_p50_ms_{label}"] = round(scrapes.quantile_ms(0.5), 1)
    return found


if __name__ == "__main__":
    main()
