"""
`make bench-prometheus`: a real Prometheus scrapes the agent at 750,000 series and more, and has every sample of the
body. The last line is JSON.
"""

import gzip
import json
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import click
from bench import agent
from bench.broker import running
from bench.harness import facts, print_table

from rig.prometheus import Prometheus

EVERY: dict[str, Any] = {"scrape_interval": "15s", "scrape_timeout": "10s"}
"""At our own interval, and with the time that Prometheus gives when nothing else is said."""


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
def main(*, queues: int, consumers: int) -> None:
    with (
        running(queues, consumers, live=True) as broker,
        agent.running(broker, queues, interval=5) as scraped,
        tempfile.TemporaryDirectory() as folder,
    ):
        body = _body(scraped)
        with Prometheus(
            Path(folder), f"127.0.0.1:{scraped.port}", **EVERY
        ) as prometheus:
            prometheus.wait_for("scrape_samples_scraped > 0", timeout=60)
            ((_, taken),) = prometheus.query("scrape_samples_scraped")
            ((_, of_broker),) = prometheus.query("penstock_series")
            there = prometheus.api("status/tsdb")["headStats"]["numSeries"]
            ((_, seconds),) = prometheus.query("scrape_duration_seconds")
    # What the agent counts itself in the same scrape, and what it says about itself, which is the same in each.
    told = of_broker + _samples(body) - _value(body, b"penstock_series")
    print_table(
        {
            "samples in the body": [f"{told:.0f}"],
            "samples that Prometheus took": [f"{taken:.0f}"],
            "series in its database": [f"{there}"],
            "seconds of the scrape": [f"{seconds:.2f}"],
        },
        ["a real Prometheus", ""],
    )
    if told != taken or there < taken or taken < 20 * queues + 8 * consumers:
        raise SystemExit("Prometheus has other samples than the body")
    found = {
        "samples": int(taken),
        "body_mb": round(len(body) / 1e6, 1),
        "scrape_s": round(seconds, 3),
    }
    print(json.dumps({"bench": "prometheus", **found, **facts()}))


def _samples(body: bytes) -> int:
    return sum(not line.startswith(b"#") for line in body.splitlines())


def _value(body: bytes, family: bytes) -> float:
    return float(
        next(
            line for line in body.splitlines() if line.startswith(family + b"{")
        ).rpartition(b" ")[2]
    )


def _body(scraped: agent.Agent) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{scraped.port}/metrics", headers={"Accept-Encoding": "gzip"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return gzip.decompress(answer.read())


if __name__ == "__main__":
    main()
