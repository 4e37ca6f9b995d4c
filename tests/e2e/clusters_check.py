"""Clusters, bridges, mirrors and pairs of real brokers: one message counts once. `make test-clusters`; 6 min."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.test_failover import roles, told
from penstock_demo.artemis import ha_pair
from rig.clusters import Estate, estate
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    with estate(tmp_path_factory.mktemp("estate")) as found:
        for broker in (found.c1, found.c2):
            for queue in ("work", "rests"):
                broker.manage.create_queue(queue)
        for queue in ("in", "mirrored"):
            found.m1.manage.create_queue(queue)
        yield found


@pytest.fixture(scope="module")
def agent(brokers: Estate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    entries = [entry(one) for one in brokers.brokers]
    with Agent(
        tmp_path_factory.mktemp("agent"),
        brokers=entries,
        timeout="1800ms",
        interval="2s",
    ) as found:
        found.until(lambda scrape: len(scrape.find("mq_broker_info")), 4, timeout=60)
        yield found


def cluster(agent: Agent, *names: str) -> dict[str, Any]:
    found = json.loads(agent.request("/api/v1/clusters")[1])["clusters"]
    (one,) = [one for one in found if set(names) <= set(one["name"].split(", "))]
    return {
        **one,
        "sums": {
            fact["name"]: (fact["value"], fact.get("most", fact["value"]))
            for fact in one["facts"]
        },
    }


def bounds(
    agent: Agent, *names: str
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """The least and the most of messages, added and acknowledged; messages that are on their way between the brokers
    are there, too.
    """
    found = cluster(agent, *names)["sums"]
    way = found["on its way between the brokers, of all addresses"]
    each = [
        (found["messages"][i] + way[i], found["added"][i], found["acknowledged"][i])
        for i in (0, 1)
    ]
    return each[0], each[1]


def sums(agent: Agent, *names: str) -> tuple[float, float, float] | None:
    """None while they are not exact."""
    least, most = bounds(agent, *names)
    return least if least == most else None


def links(agent: Agent, *names: str) -> dict[tuple[str, str], str]:
    return {
        (one["role"], one["name"]): one["told"]
        for one in cluster(agent, *names)["related"]
    }


def recorded(scrape: Scrape, family: str, queue: str) -> float:
    """As the recording rules sum it: over the active brokers."""
    active = {
        labels["broker"] for labels, _ in scrape.find("mq_broker_info", role="active")
    }
    return sum(
        value
        for labels, value in scrape.find(family, queue=queue)
        if labels["broker"] in active
    )


def incidents(agent: Agent) -> dict[str, str]:
    """By kind, the title."""
    found = json.loads(agent.request("/api/v1/incidents")[1])["incidents"]
    return {one["kind"]: one["title"] for one in found}


def test_what_a_cluster_forwards_and_redistributes_counts_once(
    brokers: Estate, agent: Agent
) -> None:
    with AmqpConsumer(brokers.c2.endpoint(), "work", client_id="worker") as worker:
        eventually(
            lambda: links(agent, "c1", "c2").get(("links c1 to", "c2")),
            "up, 0 messages wait",
            timeout=30,
        )
        with AmqpProducer(brokers.c1.endpoint(), "work") as producer:
            producer.send(200)
        eventually(lambda: worker.counts.received, 200, timeout=20)
    eventually(lambda: sums(agent, "c1", "c2"), (0, 200, 200), timeout=30)
    with AmqpProducer(brokers.c1.endpoint(), "rests") as producer:
        producer.send(300)
    eventually(lambda: sums(agent, "c1", "c2"), (300, 500, 200), timeout=30)
    agent.next_poll("c1")  # the queue was seen without a consumer
    seen = set[tuple[tuple[float, float, float], tuple[float, float, float]]]()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.add(bounds(agent, "c1", "c2"))

    watching = threading.Thread(target=watch)
    watching.start()
    with AmqpConsumer(brokers.c2.endpoint(), "rests", client_id="reader") as reader:
        eventually(lambda: reader.counts.received, 300, timeout=20)
        eventually(lambda: sums(agent, "c1", "c2"), (0, 500, 500), timeout=30)
    over.set()
    watching.join()
    print(f"least and most while 300 messages were redistributed: {sorted(seen)}")  # noqa: T201 - for -s
    for (there, added, acknowledged), (_, most_added, _) in seen:
        assert there <= 300
        assert added <= 500 <= most_added
        assert acknowledged <= 500
    scrape = agent.fresh("c1")
    assert recorded(scrape, "mq_queue_messages_added_total", "rests") == 600, (
        "the brokers' own counters"
    )
    assert recorded(scrape, "mq_queue_messages_redistributed_total", "rests") == 300
    assert not told(agent, "moved"), "no operator did that"


def test_a_mirrors_copies_count_nowhere(brokers: Estate, agent: Agent) -> None:
    with AmqpProducer(brokers.m1.endpoint(), "mirrored") as producer:
        producer.send(50)
    with AmqpHolder(
        brokers.m1.endpoint(), "mirrored", credit=20, client_id="half"
    ) as reader:
        eventually(lambda: reader.counts.received, 20, timeout=20)
        reader.acknowledge(20)
    eventually(
        lambda: brokers.m2.manage.queue("mirrored", "MessageCount"), 30, timeout=20
    )

    def counted(scrape: Scrape) -> tuple[float, float]:
        """As recorded, and of the copy, which is polled at another time."""
        copy = scrape.value("mq_queue_messages", queue="mirrored", broker="m2")
        return recorded(scrape, "mq_queue_messages", "mirrored"), copy

    scrape = agent.until(counted, (30, 30), timeout=30)
    assert [
        labels["broker"] for labels, _ in scrape.find("mq_broker_info", role="mirror")
    ] == ["m2"]
    eventually(lambda: bounds(agent, "m1", "m2")[1][0], 30)
    assert links(agent, "m1", "m2")["mirrors", "m2"] == ""


def test_a_link_says_what_waits_for_it_and_that_it_is_stuck(
    brokers: Estate, agent: Agent
) -> None:
    with AmqpProducer(brokers.c1.endpoint(), "out") as producer:
        producer.send(100)
    eventually(lambda: brokers.m1.manage.queue("in", "MessageCount"), 100, timeout=30)
    brokers.m1.kill()
    with AmqpProducer(brokers.c1.endpoint(), "out") as producer:
        producer.send(40)
    stopped = "down, 40 messages wait; Link to-m1 forwards nothing from queue out"
    eventually(
        lambda: links(agent, "c1").get(("links c1 to", "to-m1")), stopped, timeout=90
    )


@pytest.mark.parametrize(
    "replicated", [False, True], ids=["shared store", "replicated"]
)
def test_a_pair_through_a_failover_and_a_split(
    tmp_path: Path, *, replicated: bool
) -> None:
    live, backup = ha_pair(tmp_path / "pair", replicated=replicated)
    settings = (
        live.directory / "etc" / "broker.xml"
    )  # as many run a pair: the live one goes on without its backup
    settings.write_text(
        settings.read_text().replace(
            "<vote-on-replication-failure>true", "<vote-on-replication-failure>false"
        )
    )
    with ExitStack() as stack:
        for broker in (live, backup):
            stack.callback(broker.kill)
            broker.start(timeout=240)
        live.manage.create_queue("rests")
        with AmqpProducer(live.endpoint(), "rests") as producer:
            producer.send(70)
        agent = stack.enter_context(
            Agent(tmp_path / "agent", brokers=[entry(live), entry(backup)])
        )
        agent.until(
            roles, {"live": (1, "active"), "backup": (1, "passive")}, timeout=60
        )
        assert bounds(agent, "live", "backup")[0][0] == 70
        if replicated:
            live.pause()
        else:
            live.kill()
        agent.until(lambda scrape: roles(scrape)["backup"], (1, "active"), timeout=180)
        assert bounds(agent, "live", "backup")[0][0] == 70
        text = "took over from live; counters begin again; 70 messages reloaded"
        eventually(
            lambda: told(agent, "failover"), [("failover", "backup", text)], timeout=20
        )
        agent.until(
            lambda one: [
                labels["broker"]
                for labels, _ in one.find("mq_broker_info", role="active")
            ],
            ["backup"],
        )
        eventually(
            lambda: incidents(agent).get("failover"), f"backup {text}", timeout=20
        )
        if replicated:  # it was frozen only: now both serve
            live.resume()
            eventually(
                lambda: "two_actives" in incidents(agent), expected=True, timeout=60
            )
            eventually(lambda: "failover" in incidents(agent), expected=False)
        assert len(told(agent, "failover")) == 1
