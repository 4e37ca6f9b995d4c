"""One matrix over the versions: the oldest in full, the usual, the newest. Collectors, conditions, guard.

`make test-versions` runs the numbers of test_numbers.py and the rights of test_rights.py with it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry
from penstock_demo.broker import Broker
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker

COLLECTORS = {
    *(
        "broker",
        "consumers",
        "addresses",
        "roles",
        "queues",
        "sizes",
        "settings",
        "connections",
        "links",
    ),
    "transactions",
}
SOON = {"match": {"queue": "#"}, "patience": "5s"}


@pytest.fixture(params=["artemis_2_28", "artemis", "artemis_newest"])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def agent(broker: Broker, tmp_path: Path) -> Iterator[Agent]:
    constants = {"cold": "10s", "floor": "5s"}
    with Agent(
        tmp_path / "agent",
        brokers=[entry(broker)],
        interval="5s",
        timeout="4500ms",
        rules=[SOON],
        judgement=constants,
    ) as found:
        yield found


def collectors(scrape: Scrape) -> dict[str, float]:
    return {
        labels["collector"]: value
        for labels, value in scrape.find("penstock_collector_success")
    }


def causes(scrape: Scrape, queue: str) -> set[str]:
    return {
        labels["cause"] for labels, _ in scrape.find("mq_queue_unhealthy", queue=queue)
    }


def test_collectors_and_conditions(
    broker: Broker, agent: Agent, unique: Callable[[str], str]
) -> None:
    hung, unread, healthy = (unique(name) for name in ("hung", "unread", "healthy"))
    for queue in (hung, unread, healthy):
        broker.manage.create_queue(queue)
    with (
        AmqpHolder(broker.endpoint(), hung, credit=5, client_id="hangs") as holder,
        AmqpConsumer(broker.endpoint(), healthy, client_id="works") as works,
    ):
        for queue in (hung, unread, healthy):
            with AmqpProducer(broker.endpoint(), queue) as producer:
                producer.send(20)
        eventually(lambda: holder.counts.received, 5)
        eventually(lambda: works.counts.received, 20)
        agent.until(lambda scrape: causes(scrape, hung), {"stalled"}, timeout=60)
        found = agent.until(collectors, dict.fromkeys(COLLECTORS, 1.0), timeout=60)
        assert not causes(found, healthy)
        assert [
            found.value("mq_queue_messages", queue=one)
            for one in (hung, unread, healthy)
        ] == [20, 20, 0]
        assert found.value("mq_client_buffered_messages", client="hangs") == 5
        print(  # noqa: T201
            f"{broker.version}: {len(COLLECTORS)} collectors, stalled; a healthy queue is quiet"
        )


def test_the_guard_is_known(
    broker: Broker, agent: Agent, unique: Callable[[str], str]
) -> None:
    """The newest is embedded: its Jolokia is a JVM agent, which switches the guard off."""
    broker.manage.create_queue(unique("empty"))
    off = 0 if "exporter" in broker.accounts else 1
    agent.until(
        lambda one: len(one.find("mq_config_finding", rule="management_guard_off")),
        off,
        timeout=30,
    )
