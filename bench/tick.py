"""
`make bench-tick`: CPU time and memory of a whole tick at 750,000 series, beside the obvious way to do the same.

Both get the same answers over HTTP from a broker in another process, by turns in the same run, each in a process of its
own: neither looks for garbage among the other's objects. The last line is JSON.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import mean, median
from typing import Any, Final

import click
from bench import agent
from bench.baseline import Baseline
from bench.broker import Broker, running
from bench.harness import Polled, facts, medians, print_table
from bench.judge import timed

from penstock.assessment import assess
from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.learned.churn import CrashLoops
from penstock.observation.buffers import Buffers
from penstock.observation.oldest import Oldest
from penstock.rule_engine import judgement
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.transport import Request

IDLE_POLLS = 5
POLLS_TO_REST = 24
"""Rates look back on five minutes: what they give moves for so long after the last message."""
SCRAPED_POLLS = 6
INTERVAL = 5
"""Seconds between two polls while memory is measured."""
ACCOUNT: Final[Mapping[str, tuple[Any, str]]] = {
    "account": (judgement, "accounted"),
    "its series": (assess, "accounted"),
    "in doubt": (assess, "in_doubt"),
    "unexplained": (assess, "unexplained"),
    "oldest": (Oldest, "advance"),
    "buffers": (Buffers, "advance"),
    "crash loops": (CrashLoops, "advance"),
}
"""What the account adds to a tick, where it is looked up; and its one request."""
PREPARED: Final = "decode listPreparedTransactions"
_COMPARED = {
    family.name + "_total" * (family.type == "counter")
    for family in Baseline("").collect()
}
"""The families that the baseline makes too."""


@click.command()
@click.option(
    "--runs", default=7, show_default=True, help="Ticks of the agent that are measured."
)
@click.option(
    "--baseline-runs",
    default=7,
    show_default=True,
    help="Ticks of the baseline, each about 10 s.",
)
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
@click.option("--page-rows", default=5_000, show_default=True)
@click.option(
    "--same-series",
    is_flag=True,
    help="The agent shows the families of the baseline and no others.",
)
@click.option(
    "--memory/--no-memory",
    default=True,
    help="Whether to measure memory too, which takes a minute.",
)
def main(
    *,
    runs: int,
    baseline_runs: int,
    queues: int,
    consumers: int,
    page_rows: int,
    same_series: bool,
    memory: bool,
) -> None:
    shown = tuple(
        family for family in CATALOGUE if not same_series or family.name in _COMPARED
    )
    with running(queues, consumers) as broker:
        result = asyncio.run(
            _ticks(broker, runs, min(baseline_runs, runs), page_rows, shown)
        )
    if memory:
        with (
            running(queues, consumers, live=True) as broker,
            agent.running(broker, queues, INTERVAL) as scraped,
        ):
            result["rss_mb"] = _peak(broker, scraped)
    print(json.dumps({"bench": "tick", **result, **facts()}))


async def _ticks(
    broker: Broker,
    runs: int,
    baseline_runs: int,
    page_rows: int,
    families: Iterable[Family],
) -> dict[str, float | None]:
    polled = Polled(
        JolokiaTransport(JolokiaTarget(broker.url)),
        page_rows=page_rows,
        families=families,
    )
    asked = await polled.warm_up()
    seconds = []
    baseline_seconds = []
    stages = []
    account = []
    with other_process(broker.url) as other:
        # what later polls ask only of the queues that changed
        other.seconds([bulk for bulk in asked if bulk[0]["type"] == "read"])
        for run in range(runs):
            broker.step()
            parts: dict[str, float] = defaultdict(float)
            with timed(parts, ACCOUNT):
                seconds.append(await polled.poll())
            account.append(sum(parts.values()) + polled.stages.seconds[PREPARED])
            stages.append(dict(polled.stages.seconds))
            if run < baseline_runs:
                baseline_seconds.append(other.seconds(list(polled.transport.asked)))
    broker.rest()
    idle = []
    for _ in range(POLLS_TO_REST + IDLE_POLLS):
        broker.tick()
        await polled.poll()
        idle.append(polled.stages.seconds["render + compress"])
    shown = polled.blocks.published.families
    await polled.close()
    _print_breakdown(stages, seconds, baseline_seconds)
    return {
        "series": sum(samples.count for samples in shown.values()),
        "series_compared": sum(
            samples.count for name, samples in shown.items() if name in _COMPARED
        ),
        "cpu_s": round(median(seconds), 4),
        "cpu_mean_s": round(mean(seconds), 4),
        "account_ms": round(1000 * median(account), 1),
        "account_ratio": round(
            median(
                whole / (whole - part)
                for whole, part in zip(seconds, account, strict=True)
            ),
            3,
        ),
        "baseline_cpu_s": round(median(baseline_seconds), 3)
        if baseline_seconds
        else 0.0,
        "ratio": round(median(baseline_seconds) / median(seconds), 1)
        if baseline_seconds
        else 0.0,
        "idle_ms": round(1000 * median(idle[POLLS_TO_REST:]), 2),
        "runs": runs,
        "baseline_runs": baseline_runs,
    }


Asked = Sequence[Sequence[Request]]
"""The bulks of a poll."""


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """The baseline, in a process that waits to be asked."""

    connection: Connection

    def seconds(self, asked: Asked) -> float:
        """Its CPU seconds for the answers to what the agent asked in its last poll, from the request to the body."""
        self.connection.send(asked)
        seconds: float = self.connection.recv()
        return seconds


@contextmanager
def other_process(url: str) -> Iterator[OtherProcess]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(url, there))
    process.start()
    try:
        yield OtherProcess(here)
        here.send(None)
        process.join(60)
    finally:
        process.kill()


def _answer(url: str, connection: Connection) -> None:
    async def answer() -> None:
        transport = JolokiaTransport(JolokiaTarget(url))
        baseline = Baseline("bench")
        while (asked := connection.recv()) is not None:
            began = time.process_time()
            answers = [(await transport.ask(requests, 60)).body for requests in asked]
            baseline.body(asked, answers)
            connection.send(time.process_time() - began)
        await transport.close()

    asyncio.run(answer())


def _print_breakdown(
    stages: list[dict[str, float]], seconds: list[float], baseline: list[float]
) -> None:
    typical = medians(stages)
    rows = {name: [f"{1000 * typical[name]:.1f}"] for name in typical}
    rows["whole tick"] = [f"{1000 * median(seconds):.1f}"]
    if baseline:
        rows["baseline, whole tick"] = [f"{1000 * median(baseline):.1f}"]
    print_table(rows, ["stage (median of each)", "CPU ms"])


def _peak(broker: Broker, scraped: agent.Agent) -> float | None:
    """Peak of the agent's memory in MB with three scrapes at once all the time; None where it held a part only."""
    whole = scraped.whole_polls()
    with agent.scrapes(scraped, threads=3, pause=0.1):
        agent.wait_for_polls(broker, SCRAPED_POLLS)
    if scraped.whole_polls() == whole:
        # An agent that holds a part of the broker needs less.
        print(
            "no poll read the whole broker in its time: memory was not measured; the machine is too busy"
        )
        return None
    return round(scraped.peak_mb(), 1)


if __name__ == "__main__":
    main()
