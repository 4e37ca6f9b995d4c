"""
`make bench-growth`: CPU time of a poll by the number of queues, by the churn of consumers, by the number of brokers.

The last line is JSON; growth_exponent is the slope of log CPU over log queues from 1,000 queues on.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from statistics import median

import click
import numpy as np
from bench.broker import Broker, running
from bench.harness import Polled, facts, print_table

from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport


@click.command()
@click.option(
    "--runs", default=9, show_default=True, help="Polls of which the median is taken."
)
@click.option(
    "--queues",
    "sizes",
    default=[100, 1_000, 10_000, 100_000],
    show_default=True,
    multiple=True,
    type=int,
)
@click.option(
    "--churn",
    "churns",
    default=[0, 1, 10, 50],
    show_default=True,
    multiple=True,
    type=int,
)
@click.option(
    "--brokers", default=[1, 10, 50, 200], show_default=True, multiple=True, type=int
)
def main(
    *, runs: int, sizes: Sequence[int], churns: Sequence[int], brokers: Sequence[int]
) -> None:
    asyncio.run(_all(runs, sizes, churns, brokers))


async def _all(
    runs: int, sizes: Sequence[int], churns: Sequence[int], brokers: Sequence[int]
) -> None:
    by_queues = {}
    for queues in sizes:
        with running(queues, queues) as broker:
            by_queues[queues] = await _seconds(broker, runs)
    by_churn = await _by_churn(churns, runs)
    by_brokers = {}
    for count in brokers:
        with running(20, 50) as broker:
            by_brokers[count] = await _small_brokers(broker, count, runs)
    _print("queues, a consumer each", by_queues, per=True)
    _print("churn of 50,000 consumers, %", by_churn, per=False)
    _print("brokers of 20 queues, 50 consumers", by_brokers, per=True)
    result: dict[str, float] = {}
    large = {
        queues: seconds for queues, seconds in by_queues.items() if queues >= 1_000
    }
    if len(large) > 1:
        result["growth_exponent"] = round(_slope(list(large), list(large.values())), 3)
    if 0 in by_churn and 10 in by_churn:
        result["churn10_pct"] = round(100 * (by_churn[10] / by_churn[0] - 1), 1)
    result |= {
        f"queues{n}_cpu_s": round(seconds, 4) for n, seconds in by_queues.items()
    }
    result |= {f"churn{n}_cpu_s": round(seconds, 4) for n, seconds in by_churn.items()}
    result |= {
        f"brokers{n}_cpu_s": round(seconds, 4) for n, seconds in by_brokers.items()
    }
    print(json.dumps({"bench": "growth", **result, **facts()}))


async def _seconds(broker: Broker, runs: int) -> float:
    """CPU seconds of a poll, the median."""
    polled = Polled(JolokiaTransport(JolokiaTarget(broker.url)))
    await polled.warm_up()
    seconds = []
    for _ in range(runs):
        broker.step()
        seconds.append(await polled.poll())
    await polled.close()
    return median(seconds)


async def _by_churn(churns: Sequence[int], runs: int) -> dict[int, float]:
    """The same by churn in percent, of 50,000 consumers; polled by turns, as it is the ratio that counts."""
    async with AsyncExitStack() as closing:
        worlds = {}
        for percent in churns:
            broker = closing.enter_context(running(10_000, 50_000, churn=percent / 100))
            polled = Polled(JolokiaTransport(JolokiaTarget(broker.url)))
            closing.push_async_callback(polled.close)
            worlds[percent] = broker, polled
            await polled.warm_up()
        seconds: dict[int, list[float]] = {percent: [] for percent in churns}
        for _ in range(runs):
            for percent, (broker, polled) in worlds.items():
                broker.step()
                seconds[percent].append(await polled.poll())
    return {percent: median(found) for percent, found in seconds.items()}


async def _small_brokers(broker: Broker, count: int, runs: int) -> float:
    """CPU seconds in which all of `count` brokers are polled once, the median."""
    async with AsyncExitStack() as closing:
        all_of_them = [
            Polled(JolokiaTransport(JolokiaTarget(broker.url))) for _ in range(count)
        ]
        for polled in all_of_them:
            closing.push_async_callback(polled.close)
            await polled.warm_up()
        seconds = []
        for _ in range(runs):
            broker.step()
            seconds.append(sum([await polled.poll() for polled in all_of_them]))
    return median(seconds)


def _slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Of the line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _print(what: str, found: dict[int, float], *, per: bool) -> None:
    rows = {
        f"{n:,}": [
            f"{1000 * seconds:.1f}",
            *([f"{1e6 * seconds / n:.1f}"] if per else []),
        ]
        for n, seconds in found.items()
    }
    print_table(rows, [what, "CPU ms", *(["µs each"] if per else [])])


if __name__ == "__main__":
    main()
