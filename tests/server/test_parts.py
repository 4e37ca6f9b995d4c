"""A real Prometheus with a limit for bodies: the whole is refused, the parts together are the whole."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from exposition.tables import blocks, everything
from penstock.exposition.body import Exposition
from penstock.exposition.self_metrics import SelfMetrics
from rig.prometheus import Prometheus
from server.test_http import Agent, running

pytestmark = [pytest.mark.asyncio, pytest.mark.prometheus]

PARTS: Sequence[Mapping[str, list[str]]] = (
    {"name[]": ["mq_queue_*"]},
    {"exclude[]": ["mq_queue_*"]},
)


def scraped(
    folder: Path, port: int, limit: int, params: Mapping[str, list[str]]
) -> tuple[float, set[str]]:
    """Whether a scrape went well, and the broker's metrics that came of it."""
    target = f"127.0.0.1:{port}"
    with Prometheus(
        folder, target, body_size_limit=f"{limit}B", params=params
    ) as prometheus:
        ((_, up),) = prometheus.wait_for("up")
        return up, {
            labels["__name__"]
            for labels, _ in prometheus.query(
                'count by (__name__) ({__name__=~"mq_.+"})'
            )
        }


@pytest.mark.nightly  # many bodies
async def test_parts_below_a_limit_are_the_whole(tmp_path: Path) -> None:
    exposition = Exposition(SelfMetrics("1.0").render)
    exposition.set_broker("b", blocks(everything("b", 100)))
    async with running(Agent(exposition)) as server:
        sizes = []
        for params in ({}, *PARTS):
            query = [
                (name, value) for name, values in params.items() for value in values
            ]
            async with server.client.get(
                server.url("/metrics"), params=query
            ) as response:
                sizes.append(len(await response.read()))
        limit = (sizes[0] + max(sizes[1:])) // 2
        assert max(sizes[1:]) < limit < sizes[0]
        whole, *parts = [
            await asyncio.to_thread(
                scraped, tmp_path / str(n), server.port, limit, params
            )
            for n, params in enumerate(({}, *PARTS))
        ]
    assert whole == (0.0, set())
    assert [up for up, _ in parts] == [1.0, 1.0]
    of_queues, others = (names for _, names in parts)
    assert of_queues
    assert others
    assert all(name.startswith("mq_queue_") for name in of_queues)
    assert not any(name.startswith("mq_queue_") for name in others)
