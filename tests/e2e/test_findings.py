"""Findings of a real broker: what settings and clients' habits lead to, as series, in the API and in `explain`."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.agent import PENSTOCK, Agent, Scrape, entry
from penstock_demo.broker import Broker
from rig.drivers import AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker


def test_findings(
    artemis: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    ring, endless, doomed, shared = queues = [
        unique(name) for name in ("ring", "endless", "doomed", "shared")
    ]
    nowhere = unique("nowhere")
    endpoint = artemis.endpoint()
    manage = artemis.manage
    manage.add_settings(
        ring,
        addressFullMessagePolicy="PAGE",
        maxSizeBytes=1_000_000,
        pageSizeBytes=100_000,
    )
    manage.add_settings(endless, maxDeliveryAttempts=-1)
    manage.add_settings(doomed, deadLetterAddress=nowhere)
    manage.create_queue(ring, ring_size=10)
    manage.create_queues([endless, doomed, shared])
    watched = entry(artemis, include=[{"queue": name} for name in queues])
    rules = [{"match": {"queue": shared}, "silence": True}]
    with (
        AmqpProducer(endpoint, ring) as to_ring,
        AmqpProducer(endpoint, shared) as to_shared,
        AmqpHolder(endpoint, ring, credit=20, client_id=f"{ring}.greedy") as greedy,
        AmqpHolder(endpoint, shared, credit=50, client_id=f"{shared}.first") as first,
    ):
        to_ring.send(40)
        to_shared.send(12)
        eventually(lambda: (greedy.counts.received, first.counts.received), (20, 12))
        with (
            AmqpHolder(endpoint, shared, credit=50, client_id=f"{shared}.late"),
            Agent(tmp_path / "agent", brokers=[watched], rules=rules) as agent,
        ):
            found = {
                ("queue", ring, "ring_on_paging_address"),
                ("client", f"{ring}/{ring}.greedy", "window_exceeds_ring"),
                ("address", endless, "unlimited_delivery_attempts"),
                ("address", nowhere, "dead_letter_address_unbound"),
            }

            def findings(scrape: Scrape) -> set[tuple[str, str, str]]:
                series = scrape.find("mq_config_finding", broker=artemis.name)
                named = {
                    (labels["scope"], labels["object"], labels["rule"])
                    for labels, _ in series
                }
                return {one for one in named if one[0] != "broker"}

            agent.until(findings, found, timeout=40)
            window = told(agent, artemis, ring)["window_exceeds_ring"]
            assert window["evidence"]["window"] == {"value": 20, "unit": "messages"}
            assert "10" in f"{window['says']} {window['advice']}"
            # Silenced: no series, told when asked for.
            eventually(
                lambda: "prefetch_exceeds_queue" in told(agent, artemis, shared), True
            )
            url = f"http://127.0.0.1:{agent.port}"
            text = subprocess.run(
                [PENSTOCK, "explain", artemis.name, ring, "--url", url],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
            assert "ring_on_paging_address (queue" in text
            assert "window_exceeds_ring (client" in text


def told(
    agent: Agent, broker: Broker, queue: str
) -> dict[str, dict[str, dict[str, object]]]:
    """What the API tells of a queue, by rule."""
    status, body = agent.request(f"/api/v1/explain?broker={broker.name}&queue={queue}")
    assert status == 200
    return {one["rule"]: one for one in json.loads(body)["findings"]}
