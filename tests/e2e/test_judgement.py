"""What is derived, against what the clients know: exact losses of a ring, and what the rates say."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.conftest import Observer
from penstock_demo.broker import Broker
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker

Unique = Callable[[str], str]


LOST = "messages_lost_by_consumer_total"


def test_what_a_ring_lost(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    name = unique("ring")
    broker.manage.create_queue(name, ring_size=10)

    def losses(scrape: Scrape) -> dict[str, float]:
        wanted = ["messages_evicted_total", "ring_at_risk_messages"]
        by_client = scrape.find(f"mq_queue_{LOST}", queue=name)
        lost = {LOST: sum(value for _, value in by_client)} if by_client else {}
        return scrape.numbers("mq_queue_", wanted, queue=name) | lost

    with AmqpProducer(broker.endpoint(), name) as producer:
        holder = AmqpHolder(broker.endpoint(), name, credit=5)
        producer.send(5)
        eventually(lambda: holder.counts.received, 5)
        producer.send(35)
        # 40 sent, 5 in hand, 10 in the ring.
        full = {
            "messages_evicted_total": 25.0,
            "messages_lost_by_consumer_total": 0.0,
            "ring_at_risk_messages": 5.0,
        }
        observer.until(losses, full)
        holder.drop()
        gone = {
            "messages_evicted_total": 30.0,
            "messages_lost_by_consumer_total": 5.0,
            "ring_at_risk_messages": 0.0,
        }
        scrape = observer.until(losses, gone)
        assert scrape.find("mq_queue_messages_evicted_total", queue=name, reason="ring")
        producer.send(3, delay_ms=3_600_000)
        at_risk = ["ring_scheduled_at_risk_messages"]
        observer.until(
            lambda scrape: scrape.numbers("mq_queue_", at_risk, queue=name),
            {at_risk[0]: 3},
        )
        shrunk = time.time()
        broker.manage.update_queue(name, ring_size=4)
        observer.until(
            lambda scrape: scrape.value("mq_queue_ring_used_ratio", queue=name), 2.5
        )
        since = observer.fresh().value(
            "mq_queue_ring_oversize_since_timestamp_seconds", queue=name
        )
        assert shrunk - 1 < since < time.time()
    with AmqpConsumer(broker.endpoint(), name) as consumer:
        eventually(lambda: consumer.counts.acknowledged, 10)
    assert consumer.counts.numbers == list(range(30, 40))


def test_rates(artemis: Broker, unique: Unique, tmp_path: Path) -> None:
    """A ring that fills, a backlog that is worked off, and the age of what waits."""
    ring, backlog, waiting = names = [
        unique(name) for name in ("ring", "backlog", "waiting")
    ]
    artemis.manage.create_queue(ring, ring_size=10_000)
    artemis.manage.create_queues([backlog, waiting])
    with AmqpProducer(artemis.endpoint(), backlog) as producer:
        producer.send(1000)
    watched = entry(artemis, include=[{"queue": name} for name in names])
    with (
        Agent(tmp_path / "agent", brokers=[watched]) as agent,
        AmqpProducer(artemis.endpoint(), waiting) as sender,
        AmqpProducer(artemis.endpoint(), ring).run(50),
        AmqpConsumer(artemis.endpoint(), backlog, credit=10, work=0.02),
    ):
        agent.fresh(artemis.name)
        sent = time.time()
        sender.send()

        def derived(queue: str, *wanted: str) -> Callable[[Scrape], dict[str, float]]:
            return lambda scrape: scrape.numbers("mq_queue_", wanted, queue=queue)

        times = derived(ring, "ring_retention_seconds", "ring_overflow_seconds")
        numbers = times(agent.until(lambda scrape: len(times(scrape)), 2))
        assert (
            10_000 / 60
            < numbers["ring_overflow_seconds"]
            < numbers["ring_retention_seconds"]
        )

        def oldest(scrape: Scrape) -> dict[str, float]:
            found = scrape.find(
                "mq_queue_oldest_message_timestamp_seconds", queue=waiting
            )
            return {labels["bound"]: value for labels, value in found}

        bounds = oldest(agent.until(lambda scrape: len(oldest(scrape)), 2))
        assert sent - 3 < bounds["earliest"] < sent + 1
        assert sent - 1 < bounds["latest"] < sent + 3
        drain = derived(backlog, "drain_seconds")
        (left,) = drain(agent.until(lambda scrape: len(drain(scrape)), 1)).values()
        assert left > 5  # at 50 a second at most


def test_one_holds_all(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    name = unique("q")
    broker.manage.create_queue(name)
    with (
        AmqpProducer(broker.endpoint(), name) as producer,
        AmqpHolder(
            broker.endpoint(), name, credit=6, client_id=f"{name}.holds"
        ) as holder,
        AmqpHolder(broker.endpoint(), name, credit=0),
    ):
        producer.send(6)
        eventually(lambda: holder.counts.received, 6)
        scrape = observer.until(
            lambda scrape: scrape.numbers(
                "mq_queue_", ["buffer_imbalance_ratio"], queue=name
            ),
            {"buffer_imbalance_ratio": 0.5},
        )
        assert scrape.value("mq_queue_unhealthy_consumers", queue=name) == 0
        client = f"{name}.holds"
        observer.until(
            lambda scrape: len(
                scrape.find("mq_client_blocked_since_timestamp_seconds", client=client)
            ),
            1,
        )
        assert observer.fresh().value("mq_client_patience_seconds", client=client) >= 30


def test_paused_queues_are_told(main_observer: Observer, unique: Unique) -> None:
    """With messages that wait it is unhealthy, without it is a notice."""
    observer = main_observer
    broker = main_observer.broker
    waiting = unique("waiting")
    empty = unique("empty")
    broker.manage.create_queues([waiting, empty])
    with AmqpProducer(broker.endpoint(), waiting) as producer:
        producer.send(2)
    for name in (waiting, empty):
        broker.manage.pause_queue(name)

    def told(scrape: Scrape) -> dict[str, set[str]]:
        kinds = ("mq_queue_unhealthy", "mq_queue_notice")
        found = {kind: scrape.find(kind, cause="paused") for kind in kinds}
        return {
            kind: {labels["queue"] for labels, _ in series} & {waiting, empty}
            for kind, series in found.items()
        }

    observer.until(told, {"mq_queue_unhealthy": {waiting}, "mq_queue_notice": {empty}})
    for name in (waiting, empty):
        broker.manage.resume_queue(name)
    observer.until(told, {"mq_queue_unhealthy": set(), "mq_queue_notice": set()})


def test_what_a_full_address_drops(main_observer: Observer, unique: Unique) -> None:
    """Policy DROP: the producer is told nothing, the address is."""
    broker = main_observer.broker
    name = unique("full")
    endpoint = main_observer.broker.endpoint()
    broker.manage.add_settings(
        name, maxSizeBytes=50_000, pageSizeBytes=20_000, addressFullMessagePolicy="DROP"
    )
    broker.manage.create_queue(name)

    def dropped(scrape: Scrape) -> float:
        return sum(
            value
            for _, value in scrape.find(
                "mq_address_messages_dropped_total", address=name
            )
        )

    with AmqpProducer(endpoint, name, size=5_000) as producer:
        producer.send(20)
        causes = main_observer.until(
            lambda scrape: {
                labels["cause"]
                for labels, _ in scrape.find("mq_address_unhealthy", address=name)
            },
            {"rejecting"},
        )
        before = dropped(causes)
        producer.send(15)
        scrape = main_observer.until(lambda scrape: dropped(scrape) - before, 15)
        true = 35 - float(broker.manage.queue(name, "MessagesAdded"))
        assert dropped(scrape) <= true
        assert scrape.value("mq_address_producers_blocked", address=name) == 0
    broker.manage.destroy_queue(name)
