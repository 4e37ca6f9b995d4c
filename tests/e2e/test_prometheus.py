"""A real Prometheus, and promtool."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.agent import Scrape
from e2e.conftest import Observer
from rig.drivers import AmqpHolder, AmqpProducer
from rig.prometheus import Prometheus, check_metrics, text_only
from rig.proxy import Proxy
from rig.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.prometheus]

OWN_LABELS = {"__name__", "job", "instance"}


def of_queue(
    scrape: Scrape, name: str
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (
            family,
            frozenset((k, v) for k, v in labels.items() if v),
        ): value  # an empty label is none to Prometheus
        for family, labels, value in scrape.samples
        if labels.get("queue") == name
    }


@pytest.mark.parametrize("alter", [bytes, text_only], ids=["openmetrics", "text"])
def test_prometheus_says_what_we_say(
    main_observer: Observer,
    unique: Callable[[str], str],
    tmp_path: Path,
    alter: Callable[[bytes], bytes],
) -> None:
    broker = main_observer.broker
    agent = main_observer.agent
    name = unique('q"\\')
    other = unique("other")
    broker.manage.create_queues([name, other])
    target = ("127.0.0.1", agent.port)
    with (
        AmqpProducer(broker.endpoint(), name) as producer,
        AmqpHolder(broker.endpoint(), name, credit=7, client_id=name) as holder,
        Proxy(target, alter=alter) as proxy,
        Prometheus(tmp_path, f"{proxy.host}:{proxy.port}") as prometheus,
    ):
        producer.send(20)
        eventually(lambda: holder.counts.received, 7)
        holder.acknowledge(3)
        matcher = name.replace("\\", "\\\\").replace('"', '\\"')
        prometheus.wait_for(
            f'mq_client_acknowledged_messages_total{{queue="{matcher}"}} == 3'
        )

        def theirs() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
            return {
                (
                    labels["__name__"],
                    frozenset((k, v) for k, v in labels.items() if k not in OWN_LABELS),
                ): value
                for labels, value in prometheus.query(f'{{queue="{matcher}"}}')
            }

        # Which dead-letter address a new queue has comes seconds later: both are asked until they agree.
        eventually(
            lambda: bool(theirs().items() ^ of_queue(agent.scrape(), name).items()),
            expected=False,
        )
        assert len(theirs()) >= 20
        ((_, up),) = prometheus.query("up")
        assert up == 1
        assert {
            target["lastError"] for target in prometheus.api("targets")["activeTargets"]
        } == {""}
        prometheus.wait_for(f'mq_queue_messages{{queue="{other}"}}')
        broker.manage.destroy_queue(other)
        prometheus.wait_for(f'{{queue="{other}"}}', lambda series: not series)


def test_promtool_has_no_complaint(
    main_observer: Observer, unique: Callable[[str], str]
) -> None:
    broker = main_observer.broker
    name = unique("q")
    broker.manage.create_queue(name, ring_size=9)
    with (
        AmqpProducer(broker.endpoint(), name),
        AmqpHolder(broker.endpoint(), name, credit=1),
    ):
        main_observer.until(
            lambda scrape: scrape.numbers("mq_client_", ["consumers"], queue=name),
            {"consumers": 1},
        )
        assert check_metrics(main_observer.agent.body()) == []
