"""
The collector configuration on a real OpenTelemetry collector: what leaves it by OTLP is what the agent shows.

Run by `make test-collector`, which builds the collector with Go; not part of `make test`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.storm_check import Page, served
from e2e.agent import OPENMETRICS, Agent, entry
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process
from rig.drivers import AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "plain" / "otel-collector.yaml"
Points = dict[tuple[str, frozenset[tuple[str, str]]], float]


def configurations(folder: Path, scraped: int, grpc: int, http: int) -> Iterator[str]:
    """The page's own with the two addresses that a reader sets, and one that takes what it sends and hands it on as
    JSON.
    """
    text = CONFIG.read_text()
    for placeholder, port in (
        ("penstock.example:19771", scraped),
        ("otlp.example:4317", grpc),
    ):
        assert placeholder in text
        text = text.replace(placeholder, f"{LOOPBACK}:{port}")
    received = {
        "receivers": {
            "otlp": {"protocols": {"grpc": {"endpoint": f"{LOOPBACK}:{grpc}"}}}
        },
        "exporters": {
            "otlp_grpc": {"tls": {"insecure": True}},
            "otlp_http": {
                "endpoint": f"http://{LOOPBACK}:{http}",
                "encoding": "json",
                "compression": "none",
            },
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "metrics/received": {"receivers": ["otlp"], "exporters": ["otlp_http"]}
            },
        },
    }
    for name, one in (("shipped", text), ("received", yaml.safe_dump(received))):
        (folder / f"{name}.yaml").write_text(one)
        yield f"--config={folder / name}.yaml"


@contextmanager
def collector(folder: Path, scraped: int, http: int) -> Iterator[None]:
    """It runs, and has nothing to complain about."""
    files = configurations(folder, scraped, free_port(), http)
    log = folder / "collector.log"
    process = Process("collector", [str(ROOT / ".tools" / "collector"), *files], log)
    process.start("Everything is ready", timeout=60)
    try:
        yield
    finally:
        process.stop()
    assert "deprecated" not in log.read_text()
    assert "\terror\t" not in log.read_text()


def attributes(of: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in of.get("attributes", [])}


def resources(pages: list[Page]) -> list[dict[str, Any]]:
    return [one for page in pages for one in page.get("resourceMetrics", [])]


def metrics(pages: list[Page]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and gauge or sum with its points, in the order in which they were sent, in several parts."""
    for resource in resources(pages):
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                yield metric["name"], metric.get("gauge") or metric.get("sum") or {}


def points(pages: list[Page]) -> Points:
    """Of the broker's own families, the numbers that were sent last."""
    found: Points = {}
    for name, metric in metrics(pages):
        for point in metric.get("dataPoints", []):
            key = name, frozenset(attributes(point).items())
            if point.get("flags"):  # 1: the series has ended
                found.pop(key, None)
            elif name.startswith("mq_"):
                found[key] = float(point.get("asDouble", point.get("asInt")))
    return found


def shown(agent: Agent) -> Points:
    """As the receiver names it: families of type info lose their suffix, labels without a value are left out."""
    samples = agent.scrape(OPENMETRICS).samples
    return {
        (
            name.removesuffix("_info"),
            frozenset((label, text) for label, text in labels.items() if text),
        ): value
        for name, labels, value in samples
        if name.startswith("mq_")
    }


def steady(found: Points) -> Points:
    """Without what changes while nothing happens."""
    return {
        key: value
        for key, value in found.items()
        if not any(part in key[0] for part in ("seconds", "memory", "disk"))
    }


def test_what_leaves_the_collector_is_what_the_agent_shows(
    artemis: ArtemisBroker, tmp_path: Path
) -> None:
    queue = "collected"
    pages = list[Page]()
    artemis.manage.create_queue(queue)
    with AmqpProducer(artemis.endpoint(), queue) as producer:
        producer.send(40)
    with (
        served(b"", pages) as http,
        Agent(tmp_path / "agent", brokers=[entry(artemis)]) as agent,
        AmqpHolder(artemis.endpoint(), queue, credit=10, client_id="holder") as holder,
    ):
        eventually(lambda: holder.counts.received, 10, timeout=20)
        agent.until(
            lambda scrape: scrape.find("mq_queue_delivering_messages", queue=queue)[0][
                1
            ],
            10,
            timeout=30,
        )
        with collector(tmp_path, agent.port, http):
            eventually(
                lambda: steady(points(pages)) == steady(shown(agent)),
                expected=True,
                timeout=90,
            )
    (resource,) = {
        json.dumps(attributes(one["resource"]), sort_keys=True)
        for one in resources(pages)
    }
    named = json.loads(resource)
    assert named["service.name"] == "penstock"
    assert named["service.namespace"] == "messaging"
    assert named["service.instance.id"] == f"{LOOPBACK}:{agent.port}"
    found = dict(metrics(pages))
    assert found["mq_queue_messages_added_total"]["isMonotonic"]
    assert found["mq_queue_messages_added_total"]["aggregationTemporality"] == 2, (
        "cumulative"
    )
    assert "isMonotonic" not in found["mq_queue_messages"]


def test_a_large_body_goes_in_parts_that_a_receiver_takes(tmp_path: Path) -> None:
    """A receiver takes 4 MiB in one message, unless its configuration allows more."""
    count = 60_000
    pages = list[Page]()
    lines = (
        f'mq_queue_messages{{address="{"a" * 60}",queue="{"q" * 60}{i}"}} {i}'
        for i in range(count)
    )
    body = "\n".join(("# TYPE mq_queue_messages gauge", *lines, ""))
    with served(body.encode(), pages) as http, collector(tmp_path, http, http):
        eventually(lambda: sum(points(pages).values()), sum(range(count)), timeout=90)
