"""What is known of a broker, an address, a connection; and of an address over the brokers of a cluster."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec import UNSET

from account.world import Broker, queue
from agent.test_restart import ORDERS, busy, work, work_once
from agent.world import World
from penstock.assessment.assess import assess
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.core.table import Index, Table
from penstock.insight.answers import ObjectView
from penstock.insight.explain import BrokerView, NotFound, explain
from penstock.insight.knowledge import Failing
from penstock.insight.objects import (
    address_sum,
    clusters,
    explain_address,
    explain_broker,
    explain_connection,
    sum_of_address,
)
from penstock.insight.text import object_lines
from penstock.model import (
    AddressRow,
    Collector,
    ConnectionRow,
    LinkRow,
    QueueKind,
    Role,
    Snapshot,
)

if TYPE_CHECKING:
    from penstock.series.labels import QueueSeries


def view(broker: Broker) -> BrokerView:
    assert broker.last is not None
    return BrokerView(
        broker.state, broker.tables, broker.last, broker.policy, broker.step
    )


@pytest.fixture
def broker() -> Broker:
    queues = {
        "orders": queue(90, 40, K=50, X=7, dead_letter_address="dead"),
        "billing": queue(90, 2, K=88, X=1, dead_letter_address="dead"),
        "dead": queue(8, 8),
    }
    senders = {"p1": ("orders", 60.0), "p2": ("orders", 30.0)}
    return Broker().see(
        queues,
        {"orders": {"policy": "BLOCK", "limit_percent": 20.0}},
        senders=senders,
        polls=5,
    )


def told(found: ObjectView) -> dict[tuple[str, str, str], str]:
    return {(one.role, one.kind, one.name): one.told for one in found.related}


def test_an_address_with_its_queues_producers_and_settings(broker: Broker) -> None:
    found = explain_address(view(broker), "orders", None)
    facts = {one.name: one.value for one in found.facts}
    assert (
        facts["policy when full"],
        facts["limit percent"],
        facts["messages added"],
    ) == ("BLOCK", 20, 90)
    assert told(found)["has", "queue", "orders"] == "messages 40, consumers 0"
    assert told(found)["is sent to by", "client", "app"] == "90 messages"
    assert any(
        line.startswith("  used of its limit") and line.endswith("20 %")
        for line in object_lines(found)
    )
    with pytest.raises(NotFound) as error:
        explain_address(view(broker), "order", None)
    assert error.value.hint == "did you mean orders?"


def test_dead_letters_both_ways(broker: Broker) -> None:
    found = told(explain_address(view(broker), "dead", None))
    sources = [name for role, _, name in found if role == "gets dead letters of"]
    assert sources == ["orders", "billing"]  # the most first
    assert found["gets dead letters of", "queue", "orders"] == "killed 7"
    related = {
        (one.role, one.name): one.told
        for one in explain(view(broker), "orders").related
    }
    assert related == {("sends dead letters to", "dead"): ""}


def test_dead_letters_without_a_queue_are_said_to_be_lost() -> None:
    broker = Broker().see(
        {"orders": queue(9, 1, K=1, X=7, dead_letter_address="nowhere")}, polls=5
    )
    (one,) = explain(view(broker), "orders").related
    assert one.told == "it has no queue: dead letters are lost"


def test_a_broker(broker: Broker) -> None:
    found = explain_broker(view(broker), None)
    facts = {one.name: one.value for one in found.facts}
    assert (facts["role"], facts["critical conditions"]) == ("active", 0)
    assert found.knowledge.state == "watching"


def test_a_broker_that_is_a_mirror_says_so() -> None:
    """Where its metrics do."""
    copies = Broker()
    copies.policy = replace(copies.policy, mirror_of="b0")
    facts = {
        one.name: one.value
        for one in explain_broker(view(copies.see({"orders": queue(9, 9)})), None).facts
    }
    assert facts["role"] == "mirror"


def test_a_connection_with_what_its_consumers_hold() -> None:
    broker = Broker().see(
        {"q": queue(9, 9, D=5)},
        consumers={"c1": {"queue": "q", "client": "app", "T": 5.0, "N": 5.0}},
    )
    assert broker.last is not None
    assert broker.last.consumers is not None
    row = ConnectionRow("abc123", "app", "CORE", "u", "10.0.0.7:5")
    connections = Table(Index.of([row]), {"sessions": np.array([2.0])})
    keys = np.full(len(broker.last.consumers), connections.index.keys[0])
    broker.last = replace(
        broker.last, connections=connections, consumer_connection=keys
    )
    found = explain_connection(view(broker), "abc123", None)
    assert {one.name: one.value for one in found.facts}["from"] == "10.0.0.7:5"
    assert told(found)["belongs to", "client", "app"] == ""
    assert told(found)["consumes from", "queue", "q"] == "5 buffered; 5 delivered"
    with pytest.raises(NotFound):
        explain_connection(view(broker), "zzz", None)


def as_link(broker: Broker, name: str) -> BrokerView:
    """Its queue of this name stores messages for another broker of its cluster."""
    found = view(broker)
    queues = found.snapshot.queues
    assert queues is not None
    waits = queues["messages"][[row.name == name for row in queues.index]]
    links = Table(
        Index.of([LinkRow(name, "cluster", name)]), {"up": np.ones(1), "pending": waits}
    )
    table: Table[QueueSeries] = found.tables["queue"]
    rows = [
        replace(row, kind=QueueKind.LINK) if row.queue == name else row
        for row in table.index
    ]
    tables = {**found.tables, "queue": Table(Index.of(rows), table.columns)}
    return replace(found, tables=tables, snapshot=replace(found.snapshot, links=links))


def at_node(
    found: BrokerView, name: str, node_id: str, *, mirror_of: str = ""
) -> BrokerView:
    about = found.snapshot.broker
    assert about is not None
    about = replace(about, node_id=node_id, mirror_of=mirror_of)
    return replace(
        found,
        snapshot=replace(found.snapshot, broker=about),
        policy=replace(found.policy, broker=name),
    )


def over(
    *views: BrokerView, failing: Failing | None = None, **missing: str
) -> ObjectView:
    """The address orders; failing: of the first broker."""
    parts = [
        address_sum(one, "orders", None if i else failing)
        for i, one in enumerate(views)
    ]
    return sum_of_address("orders", parts, missing)


def test_an_address_over_a_cluster_counts_nothing_twice() -> None:
    one = Broker().see(
        {"orders": queue(90, 40, K=50), "sf.two": queue(10, 3, K=7)}, polls=4
    )
    two = Broker().see({"orders": queue(7, 2, K=5)}, polls=4)
    found = over(
        at_node(as_link(one, "sf.two"), "one", "n1"), at_node(view(two), "two", "n2")
    )
    facts = {one.name: one.value for one in found.facts}
    assert (facts["messages"], facts["added"]) == (42, 97)
    assert facts["on its way between the brokers, of all addresses"] == 3
    assert len(found.related) == 2
    with pytest.raises(NotFound):
        sum_of_address("nothing", [address_sum(view(two), "nothing", None)], {})


@pytest.mark.slow  # many polls
def test_conditions_of_the_address_make_it_unhealthy(broker: Broker) -> None:
    assert broker.last is not None
    for _ in range(60):
        stamp = broker.last.stamp + 15
        about = broker.last.broker
        assert about is not None
        broker.last = replace(
            broker.last,
            stamp=stamp,
            broker=replace(about, clock=stamp, uptime=about.uptime + 15),
        )
        broker.state, broker.tables = assess(broker.state, broker.last, broker.policy)
    found = explain_address(view(broker), "orders", None)
    assert [one.condition for one in found.conditions] == ["no_consumer"]


# --- what was not judged is not called healthy


def of_world(
    world: World, connections: dict[str, str], snapshot: Snapshot | None = None
) -> BrokerView:
    """connections: the connection of each consumer, by its id; of the rest there is none."""
    snapshot = snapshot or world.snapshot()
    assert snapshot.consumers is not None
    ids = sorted({*connections.values()})
    table = Table(
        Index.of([ConnectionRow(one, "app", "CORE", "u", "h") for one in ids]), {}
    )
    keys = np.array(
        [
            ids.index(connections[row.id]) if row.id in connections else -1
            for row in snapshot.consumers.index
        ]
    )
    snapshot = replace(snapshot, connections=table, consumer_connection=keys)
    return BrokerView(world.state, world.tables, snapshot, world.policy, 15.0)


def not_readable(world: World, polls: int) -> BrokerView:
    snapshot = world.snapshot()
    refused = Collector(0.1, world.now, "status 403")
    for _ in range(polls):
        assert snapshot.broker is not None
        stamp = snapshot.stamp + 15
        snapshot = replace(
            snapshot,
            stamp=stamp,
            broker=replace(
                snapshot.broker, clock=stamp, uptime=snapshot.broker.uptime + 15
            ),
            queues=None,
            consumers=None,
            consumer_queue=np.empty(0, np.int64),
            consumer_connection=np.empty(0, np.int64),
            collectors={
                "broker": Collector(0.1, stamp),
                "queues": refused,
                "consumers": refused,
            },
            addresses=Table(Index.of([AddressRow("orders", "BLOCK")]), {}),
            connections=Table(
                Index.of([ConnectionRow("C1", "stuck", "CORE", "u", "h")]), {}
            ),
        )
        world.state, world.tables = assess(world.state, snapshot, world.policy)
    return BrokerView(world.state, world.tables, snapshot, world.policy, 15.0)


@pytest.mark.slow  # many polls
def test_what_cannot_be_read_is_unknown_and_says_why() -> None:
    world = busy()
    work(world, 30)
    assert (
        explain_broker(of_world(world, {}), None).knowledge.state == "critical"
    )  # a client of it is stuck
    found = not_readable(world, 80)
    views = [
        explain_broker(found, None),
        explain_address(found, "orders", None),
        explain_connection(found, "C1", None),
        over(view(Broker().see({"orders": queue(9, 2, K=5)}, polls=4)), found),
    ]
    assert {one.knowledge.state for one in views} == {"unknown"}
    assert all(
        "queues and consumers could not be read" in one.knowledge.why for one in views
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("polls", "state"), [(3, "critical"), (4, "unknown")])
def test_a_hiccup_leaves_what_was_judged_and_more_is_unknown(
    polls: int, state: str
) -> None:
    world = busy()
    work(world, 30)
    found = not_readable(world, polls)
    assert explain_broker(found, None).knowledge.state == state


def test_what_could_not_be_read_is_not_told_as_there_being_none() -> None:
    world = busy()
    work(world, 5)
    found = not_readable(world, 4)
    found = replace(
        found,
        snapshot=replace(found.snapshot, addresses=None, connections=None),
        tables={},
    )
    with pytest.raises(
        NotFound, match=r"the addresses of broker b1 could not be read$"
    ):
        explain_address(found, "orders", None)
    with pytest.raises(
        NotFound, match=r"the connections of broker b1 could not be read$"
    ):
        explain_connection(found, "C1", None)
    with pytest.raises(NotFound, match=r"the queues of broker b1 could not be read$"):
        explain(found, "q")


def test_a_passive_broker_is_healthy_as_one_that_serves_nobody() -> None:
    world = busy()
    work(world, 5)
    snapshot = world.snapshot()
    assert snapshot.broker is not None
    none = np.empty(0, np.int64)
    passive = replace(
        snapshot,
        broker=replace(snapshot.broker, role=Role.PASSIVE),
        queues=None,
        consumers=None,
        consumer_queue=none,
        consumer_connection=none,
    )
    state, tables = assess(world.state, passive, world.policy)
    known = explain_broker(
        BrokerView(state, tables, passive, world.policy, 15.0), None
    ).knowledge
    assert (known.state, known.watched) == ("healthy", [])
    assert known.why.startswith("it is passive and serves no client; last read at ")


def test_what_is_too_young_is_unknown_and_one_new_queue_makes_nothing_so() -> None:
    broker = Broker().see(
        {"orders": queue(90, 40, K=50)}, {"orders": {"policy": "BLOCK"}}
    )
    young = view(broker)
    assert explain_broker(young, None).knowledge.state == "unknown"
    assert (
        explain_address(young, "orders", None).knowledge.why
        == "seen at 1 of the 3 polls that it takes"
    )
    assert over(young).knowledge.state == "unknown"
    queues = {"orders": queue(90, 40, K=50)}
    broker.see(queues, polls=4).see({**queues, "new": queue(1, 1)})
    assert explain_broker(view(broker), None).knowledge.state == "watching"
    assert explain_address(view(broker), "new", None).knowledge.state == "unknown"


def test_what_is_critical_of_the_broker_concerns_its_addresses(broker: Broker) -> None:
    for severity, state in (
        (Severity.WARNING, "watching"),
        (Severity.CRITICAL, "critical"),
    ):
        one = ActiveCondition("two_actives", "b1", "", "", "", severity, 0.0, {})
        broker.state = replace(
            broker.state, judgement=replace(broker.state.judgement, conditions=(one,))
        )
        assert explain_address(view(broker), "orders", None).knowledge.state == state
        assert over(view(broker)).knowledge.state == state


def clusters_of(*views: BrokerView) -> dict[str, ObjectView]:
    return {
        one.name: one
        for one in clusters([address_sum(view, "", None) for view in views])
    }


@pytest.mark.slow  # many polls
def test_clusters_are_told_by_links_node_ids_and_mirrors() -> None:
    queues = {"orders": queue(90, 40, K=50), "sf.n2": queue(10, 3, K=7)}
    one = at_node(as_link(Broker().see(queues, polls=4), "sf.n2"), "one", "n1")
    two, copy = (Broker().see({"orders": queue(7, 2, K=5)}, polls=4) for _ in "ab")
    alone = at_node(view(two), "alone", "n9")
    mirror = at_node(view(copy), "mirror", "n3", mirror_of="n1")
    found = clusters_of(alone, one, at_node(view(two), "two", "n2"), mirror)
    assert list(found) == ["one, two, mirror"]
    (cluster,) = found.values()
    assert [one.value for one in cluster.facts[:2]] == [42, 42], (
        "the mirror's two are copies"
    )
    assert told(cluster)["links one to", "cluster", "two"] == "up, 3 messages wait"
    assert ("mirrors", "broker", "mirror") in told(cluster)


class Moving:
    """Two brokers of a cluster, one of which passes what nobody reads there on to the other. later: how many seconds
    after the one the other is read.
    """

    def __init__(self, later: float) -> None:
        self.one = Broker()
        self.two = Broker()
        self.two.now += later
        self.sent = self.passed = self.arrived = self.own = self.acknowledged = 0

    @property
    def total(self) -> int:
        return self.sent + self.own

    def send(self, messages: int) -> None:
        self.sent += messages

    def send_other(self, messages: int) -> None:
        self.own += messages

    def move(self, messages: int) -> None:
        """Out of the queue, half to the other broker."""
        self.passed = min(self.passed + messages, self.sent)
        self.arrived += (self.passed - self.arrived + 1) // 2

    def arrive(self, messages: int) -> None:
        """With all others that are on their way."""
        self.move(messages)
        self.arrived = self.passed

    def read_one(self) -> None:
        sf = queue(
            self.passed,
            self.passed - self.arrived,
            K=self.arrived,
            consumers=1.0,
            kind=QueueKind.LINK,
        )
        self.one.see(
            {"q": queue(self.sent, self.sent - self.passed, K=self.passed), "sf.n2": sf}
        )

    def read_two(self) -> None:
        came = self.arrived + self.own
        self.two.see(
            {
                "q": queue(
                    came, came - self.acknowledged, K=self.acknowledged, consumers=1.0
                )
            }
        )

    def sums(self) -> dict[str, tuple[Any, Any]]:
        """Of each sum the least and the most."""
        found = [
            at_node(as_link(self.one, "sf.n2"), "one", "n1"),
            at_node(view(self.two), "two", "n2"),
        ]
        (cluster,) = clusters_of(*found).values()
        return {
            one.name: (one.value, one.value if one.most is UNSET else one.most)
            for one in cluster.facts
        }


@pytest.mark.parametrize(
    ("later", "between"),
    [
        (
            1.0,
            {"messages": (300, 600), "added": (500, 800), "acknowledged": (200, 200)},
        ),
        (
            -1.0,
            {"messages": (300, 300), "added": (500, 500), "acknowledged": (200, 200)},
        ),
    ],
    ids=["counted by both", "lacked by both"],
)
def test_what_moves_between_two_polls_counts_once(
    later: float, between: dict[str, tuple[int, int]]
) -> None:
    both = Moving(later)
    both.sent = 300
    both.own = 200
    both.acknowledged = 200
    order = (
        (both.read_one, both.read_two) if later > 0 else (both.read_two, both.read_one)
    )
    for read in order * 3:
        read()
    settled = {"messages": (300, 300), "added": (500, 500), "acknowledged": (200, 200)}
    assert settled.items() <= both.sums().items()
    order[0]()
    both.move(300)
    both.arrive(0)
    order[1]()
    assert between.items() <= both.sums().items()
    for read in order:
        read()
    assert settled.items() <= both.sums().items()


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "missed", [0, 3], ids=["", "the one is read at each fourth turn only"]
)
@pytest.mark.parametrize("seed", range(4))
def test_no_interleaving_of_polls_and_messages_gives_a_sum_above_the_truth(
    seed: int, missed: int
) -> None:
    luck, both = random.Random(seed), Moving(1.0)  # noqa: S311
    both.sent = 100
    both.own = 50
    for read in (both.read_one, both.read_two) * 2:
        read()
    at = {"one": both.total, "two": both.total}
    for turn in range(24):
        for name, read in (("one", both.read_one), ("two", both.read_two)):
            for _ in range(luck.randrange(4)):
                luck.choice([both.send, both.send_other, both.move, both.arrive])(
                    luck.randrange(60)
                )
            if name == "one" and turn % (missed + 1):
                both.one.now = both.one.now + both.one.step
                both.one.uptime = both.one.uptime + both.one.step
                continue
            read()
            at[name] = both.total
            sums = both.sums()
            way = sums["on its way between the brokers, of all addresses"]
            assert sums["messages"][0] + way[0] <= both.total, turn
            assert sums["added"][0] <= both.total, turn
            assert min(sums["added"][1], sums["messages"][1] + way[1]) >= min(
                at.values()
            ), turn
    both.arrive(0)
    for read in (both.read_one, both.read_two) * 2:
        read()
    assert both.sums()["messages"] == both.sums()["added"] == (both.total, both.total)


def test_of_a_pair_what_was_read_last_counts_even_before_the_other_is_known_to_be_dead() -> (
    None
):
    dead = at_node(view(Broker().see({"orders": queue(70, 70)}, polls=4)), "r1", "n1")
    serves = at_node(view(Broker().see({"orders": queue(70, 70)}, polls=5)), "r2", "n1")
    (cluster,) = clusters_of(dead, serves).values()
    assert (cluster.name, cluster.facts[0].value) == ("r1, r2", 70)


def test_a_pair_is_one_while_its_backup_is_passive() -> None:
    serves = Broker().see({"orders": queue(70, 70)}, polls=4)
    waits = Broker()
    waits.role = Role.PASSIVE
    (cluster,) = clusters_of(
        at_node(view(serves), "r1", "n1"), at_node(view(waits.see({})), "r2", "n1")
    ).values()
    assert (cluster.name, cluster.facts[0].value) == ("r1, r2", 70)
    assert ("has passive", "broker", "r2") in told(cluster)


def test_of_a_pair_the_broker_that_is_down_is_named() -> None:
    pair = [
        at_node(view(Broker().see({"orders": queue(70, 70)}, polls=n)), f"r{n}", "n1")
        for n in (4, 5)
    ]
    down = [
        address_sum(one, "", failing)
        for one, failing in zip(pair, (Failing(9.0, "refused", 8.0), None), strict=True)
    ]
    (cluster,) = clusters(down)
    assert "refused" in told(cluster)["has", "broker", "r4"]


def test_what_is_watched_on_each_broker_of_a_cluster_is_named_once() -> None:
    one, two = (view(Broker().see({"orders": queue(70, 70)}, polls=4)) for _ in "12")
    found = over(one, replace(two, policy=replace(two.policy, broker="b2")))
    assert [each.condition for each in found.knowledge.watched] == ["window"]


def test_a_sum_names_the_brokers_that_it_lacks() -> None:
    one = view(Broker().see({"orders": queue(90, 40, K=50)}, polls=4))
    found = over(one, two="connection refused")
    assert (found.knowledge.state, found.knowledge.why) == (
        "unknown",
        "two: not known: connection refused",
    )
    assert told(found)["may be on", "broker", "two"] == "not known: connection refused"
    with pytest.raises(NotFound) as error:
        sum_of_address("nothing", [], {"two": "connection refused"})
    assert error.value.hint == "two is not known: connection refused"


def test_a_sum_with_what_was_read_before_is_stale_unless_another_serves_the_node() -> (
    None
):
    old, other = (Broker().see({"orders": queue(90, 40, K=50)}, polls=4) for _ in "ab")
    assert other.last is not None
    assert other.last.broker is not None
    assert old.last is not None
    assert old.last.broker is not None
    old.last = replace(old.last, broker=replace(old.last.broker, node_id="n1"))
    down = Failing(1.0, "refused", 0.5)
    for node, state, messages in (("n2", "stale", 80), ("n1", "watching", 40)):
        other.last = replace(
            other.last, broker=replace(other.last.broker, node_id=node)
        )
        found = over(
            view(old),
            replace(view(other), policy=replace(other.policy, broker="b2")),
            failing=down,
        )
        assert (found.knowledge.state, found.facts[0].value) == (state, messages)


# --- a connection and the conditions of its clients


@pytest.mark.slow  # many polls
def test_a_sibling_that_works_is_not_unhealthy() -> None:
    world = busy()
    world.consumer(13, ORDERS, "stuck")
    for _ in range(25):
        work_once(world)
        one = world.consumers[13]
        one["delivered"] += 600
        one["acknowledged"] += 600 if one["buffered"] else 450
        one["buffered"] = 150
        one["last_delivery"] = one["last_acknowledgement"] = world.now + 14
        world.queues[ORDERS]["acknowledged"] += 600
        world.queues[ORDERS]["added"] += 600
        world.poll()
    assert "stalled" in world.names()
    found = of_world(world, {"10": "HUNG", "13": "WORKS"})
    states = {
        name: explain_connection(found, name, None).knowledge.state
        for name in ("HUNG", "WORKS")
    }
    assert states == {"HUNG": "warning", "WORKS": "healthy"}
    both = of_world(world, {"10": "BOTH", "13": "BOTH"})
    assert explain_connection(both, "BOTH", None).knowledge.state == "warning"


@pytest.mark.slow  # many polls
def test_all_consumers_of_a_connection_count_and_under_the_names_that_are_shown() -> (
    None
):
    world = busy()
    for i in range(60):
        world.queue(100 + i, f"q{i:02}", messages=10, delivering=5, added=10)
        stuck = (
            {"buffered": 5.0, "delivered": 5.0, "last_delivery": world.now}
            if i == 59
            else {}
        )
        world.consumer(200 + i, 100 + i, "multi", **stuck)
    world.consumer(
        300, ORDERS, "zz", buffered=50, delivered=50, last_delivery=world.now
    )
    world.policy = replace(world.policy, limits=replace(world.policy.limits, clients=2))
    work(world, 40)
    assert "(other)" in {
        one.client for one in world.conditions if one.name == "stalled"
    }
    found = of_world(
        world, {str(200 + i): "MANY" for i in range(60)} | {"300": "OTHER"}
    )
    for name, state in (("MANY", "critical"), ("OTHER", "warning")):
        known = explain_connection(found, name, None)
        assert (known.knowledge.state, len(known.related) <= 51) == (state, True)
