"""Names that break naive exporters, from the broker to both parsers of prometheus_client and back."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from e2e.agent import OPENMETRICS, Scrape
from e2e.conftest import Observer
from rig.drivers import AmqpHolder, AmqpProducer, StompConsumer

pytestmark = pytest.mark.broker

NAMES = [
    'quo"te', '"', r"back\slash", "\\", r"back\nslash-n", "comma,comma", "a=b", "{a='b'}", "st*r", "wh?t", "a b",
    "trailing blank ", "new\nline", "tab\tbed", "carriage\rreturn", "ha#sh", "/slash/", "%41", "日本語", "😀",
    "x" * 300,
]  # fmt: skip


def test_names(observer: Observer, unique: Callable[[str], str]) -> None:
    broker = observer.broker
    prefix = unique("names")
    names = [f"{prefix}.{name}" for name in NAMES]
    broker.manage.create_queues([prefix, *names])
    # What clients cannot use as an address on every version they may still have as a name: a line's end and wildcards
    # break Artemis' matching, "?" begins options of an AMQP address.
    at = {name: prefix if set(name) & set("\n\r*#?") else name for name in names}
    with ExitStack() as clients:
        for name, queue in at.items():
            clients.enter_context(
                AmqpHolder(broker.endpoint(), queue, credit=1, client_id=name)
            )
            clients.enter_context(
                AmqpProducer(broker.endpoint(), queue, client_id=name)
            ).send()

        def shown(scrape: Scrape) -> set[tuple[str, str, str, float]]:
            found = scrape.find("mq_client_buffered_messages")
            every = [
                (labels["address"], labels["queue"], labels["client"], value)
                for labels, value in found
            ]
            return {one for one in every if one[0].startswith(prefix)}

        expected = {(queue, queue, name, 1.0) for name, queue in at.items()}
        scrape = observer.until(lambda scrape: shown(scrape) ^ expected, set())
        assert shown(observer.fresh(accept=OPENMETRICS)) == expected
        for name in names:
            assert scrape.value("mq_queue_messages", queue=name, address=name) == (
                at[name] == name
            )
            assert scrape.value("mq_queue_bytes", queue=name, address=name) >= (
                at[name] == name
            )
            assert scrape.value("mq_address_memory_bytes", address=name) >= (
                at[name] == name
            )


CONTROLS = "".join(map(chr, (0x01, 0x0B, 0x0E, 0x0F, *range(0x1A, 0x20), 0x7F)))


def test_names_with_control_characters(
    observer: Observer, unique: Callable[[str], str]
) -> None:
    """Jolokia 2 writes some of them as broken JSON; sizes, roles and settings of all queues are read all the same."""
    broker = observer.broker
    prefix = unique("controls")
    names = [prefix, *(f"{prefix}.{control}" for control in CONTROLS)]
    broker.manage.create_queues(names)
    with ExitStack() as clients:
        for name in names:
            clients.enter_context(AmqpProducer(broker.endpoint(), name)).send()

        def filled(scrape: Scrape) -> set[str]:
            found = scrape.find("mq_queue_bytes")
            return {
                labels["queue"]
                for labels, value in found
                if labels["queue"].startswith(prefix) and value > 0
            }

        observer.until(lambda scrape: filled(scrape) ^ set(names), set())
        scrape = observer.fresh(accept=OPENMETRICS)
        for name in names:
            assert scrape.value("mq_queue_messages", queue=name) == 1
            assert scrape.value("mq_address_memory_bytes", address=name) > 0
        for collector in ("sizes", "roles", "settings", "queues", "addresses"):
            assert (
                scrape.value(
                    "penstock_collector_success",
                    broker=broker.name,
                    collector=collector,
                )
                == 1
            )


def test_client_without_an_id(observer: Observer, unique: Callable[[str], str]) -> None:
    """It is named by user and host, whatever port or generated id it has."""
    broker = observer.broker
    name = unique("q")
    broker.manage.create_queue(name)
    client = f"admin@{broker.host}"
    with (
        AmqpHolder(broker.endpoint(), name, credit=0),
        StompConsumer(broker.endpoint(), name),
    ):
        observer.until(
            lambda scrape: scrape.numbers("mq_client_", ["consumers"], queue=name),
            {"consumers": 2},
        )
        assert (
            observer.fresh().value("mq_client_consumers", queue=name, client=client)
            == 2
        )
