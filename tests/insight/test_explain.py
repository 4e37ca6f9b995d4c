"""Explanations of queues that are large, and of brokers that say little."""

from dataclasses import replace

import numpy as np
import pytest

from account.world import Broker, queue
from agent.world import World
from conditions.normal_world import BEFORE, Flow, knowing, steady
from penstock.assessment.assess import State, assess
from penstock.core.table import Table
from penstock.insight import explain as explaining
from penstock.insight.answers import Completeness, Evidence, QueueClient
from penstock.insight.explain import MAX_CLIENTS, BrokerView, NotFound, explain
from penstock.insight.lists import ListQuery, queue_list
from penstock.insight.text import explanation
from penstock.model import QueueKind, Snapshot
from penstock.series.labels import ClientSeries
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings

LISTENER = {"queue": "q", "client": "taker", "T": 3.0, "N": 3.0, "C": 0.0}
MORE = MAX_CLIENTS + 50


def view(world: World) -> BrokerView:
    return BrokerView(world.state, world.tables, world.snapshot(), world.policy, 15.0)


@pytest.fixture
def crowded() -> World:
    """A queue with more clients than are told; the last of them holds messages and settles none."""
    world = World(Policy("b1", constants=Constants(cold=60.0)))
    world.queue(1, "q", messages=5, delivering=5, added=5)
    for key in range(1, MORE):
        world.consumer(key, 1, f"c{key:04}")
    world.consumer(MORE, 1, "z-stuck", buffered=5, delivered=5, last_delivery=world.now)
    for _ in range(10):
        world.poll()
    return world


@pytest.mark.slow  # many polls
def test_only_the_clients_that_are_told_are_worked_out(
    crowded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out: list[int] = []
    values = explaining.queue_client

    def counted(one: BrokerView, table: Table[ClientSeries], i: int) -> QueueClient:
        worked_out.append(i)
        return values(one, table, i)

    monkeypatch.setattr(explaining, "queue_client", counted)
    found = explain(view(crowded), "q")
    assert (len(worked_out), len(found.clients), found.clients_left_out) == (
        MAX_CLIENTS,
        MAX_CLIENTS,
        50,
    )
    first = found.clients[0]
    assert (first.client, first.numbers["buffered"]) == ("z-stuck", 5)
    one = explain(view(crowded), "q", client="c0249")
    assert ([client.client for client in one.clients], one.clients_left_out) == (
        ["c0249"],
        0,
    )
    assert len(worked_out) == MAX_CLIENTS + 1
    with pytest.raises(NotFound) as error:
        explain(view(crowded), "q", client="z-stck")
    assert error.value.hint == "did you mean z-stuck?"


def without_numbers(snapshot: Snapshot) -> Snapshot:
    """As of a broker that lists its consumers and tells nothing of them."""
    assert snapshot.consumers is not None
    return replace(snapshot, consumers=Table(snapshot.consumers.index, {}))


@pytest.mark.slow  # many polls
def test_of_a_version_without_numbers_per_consumer_queues_are_judged_and_clients_unknown(
    crowded: World,
) -> None:
    snapshot = without_numbers(crowded.snapshot())
    state, tables = assess(State(), snapshot, crowded.policy)
    for _ in range(3):
        snapshot = replace(snapshot, stamp=snapshot.stamp + 15)
        state, tables = assess(state, snapshot, crowded.policy)
    found = explain(BrokerView(state, tables, snapshot, crowded.policy, 15.0), "q")
    assert {(one.condition, bool(one.client)) for one in found.conditions} == {
        ("unknown", True)
    }
    assert "no numbers per consumer" in found.conditions[0].causes[0].text
    assert found.numbers["messages"] == 5
    assert "capacity" not in found.numbers
    assert "unhealthy_consumers" not in found.numbers
    assert tables["broker"]["undecided_clients"].tolist() == [MORE]
    assert all(
        "patience" not in one.numbers and one.patience is None for one in found.clients
    )


@pytest.mark.slow  # many polls
def test_a_part_that_was_not_read_is_said_to_be_missing(crowded: World) -> None:
    snapshot = replace(crowded.snapshot(), consumers=None)
    state, tables = assess(State(), snapshot, crowded.policy)
    found = explain(BrokerView(state, tables, snapshot, crowded.policy, 15.0), "q")
    assert "queues or consumers could not be read" in str(found.unknown)
    (one,) = found.conditions
    assert (one.condition, one.severity, found.healthy) == ("unknown", "info", False)


@pytest.mark.slow  # many polls
def test_queues_and_clients_are_unknown_for_two_polls(crowded: World) -> None:
    crowded.queue(2, "young", messages=1, added=1)
    crowded.consumer(9000, 1, "a-new-one")
    for polls in (1, 2, 3):
        crowded.poll()
        told = explain(view(crowded), "young").conditions
        of_client = explain(view(crowded), "q", client="a-new-one").conditions
        unknown = [one for one in of_client if one.condition == "unknown"]
        listed = queue_list([view(crowded)], ListQuery(condition="unknown")).rows
        if polls == 3:
            assert (told, unknown, listed) == ([], [], [])
            continue
        assert [one.condition for one in told] == ["unknown"]
        assert [one.text for one in told[0].causes] == [
            f"seen at {polls} of the 3 polls that it takes"
        ]
        assert told[0].evidence["polls"] == Evidence(polls, "polls")
        assert [one.client for one in unknown] == ["a-new-one"]
        assert [row.queue for row in listed] == ["young"]


def test_kinds_that_are_not_judged_say_so() -> None:
    world = World(
        Policy("b1", rules=Rules((Rule(Match(), RuleSettings(kind=QueueKind.LINK)),)))
    )
    world.queue(1, "sf", messages=5, added=5)
    for _ in range(4):
        world.poll()
    (one,) = explain(view(world), "sf").conditions
    assert [cause.text for cause in one.causes] == [
        "queues of kind link are not judged"
    ]


@pytest.mark.slow  # many polls
def test_completeness_is_the_share_of_the_polls_that_were_judged(
    crowded: World,
) -> None:
    """The stall began 15 s before the first poll; later every other poll is missed."""
    (one,) = [
        c for c in explain(view(crowded), "q").conditions if c.condition == "stalled"
    ]
    assert one.completeness == Completeness(10, 11, 0.909)
    for _ in range(5):
        crowded.poll(30)
    (one,) = [
        c for c in explain(view(crowded), "q").conditions if c.condition == "stalled"
    ]
    assert one.completeness == Completeness(15, 21, 0.714)


def test_a_queue_says_its_account_what_was_lost_and_by_whom() -> None:
    idle = {"c": {**LISTENER, "T": 0.0, "N": 0.0}}
    broker = Broker().see({"q": queue(0, 0, ring=3.0)}, consumers=idle, polls=2)
    broker.see(
        {"q": queue(9, 4, D=3.0, E=5.0, ring=3.0)}, consumers={"c": LISTENER}, polls=2
    )
    broker.see(
        {"q": queue(9, 3, E=5.0, ring=3.0)}, {"q": {"messages_unrouted": 2.0}}, polls=3
    )
    assert broker.last is not None
    lines = list(
        explanation(
            explain(
                BrokerView(
                    broker.state, broker.tables, broker.last, broker.policy, 2.0
                ),
                "q",
            )
        )
    )
    at = lines.index("Account")
    assert lines[at + 1 : at + 7] == [
        "  9 added = 3 ready + 5 expired + 1 evicted",
        "  expired  5",
        "  evicted, lost  1",
        "    by taker  1",
        "Account of address q, before its queues",
        "  9 routed = 9 to its queues + 0 to no queue",
    ]
    assert "  unrouted, lost  2" in lines


def test_a_calm_queue_says_its_sum_and_nothing_of_its_address() -> None:
    broker = Broker().see({"q": queue(9, 4, K=5.0)}, {"q": {"R": 9.0}}, polls=4)
    assert broker.last is not None
    lines = list(
        explanation(
            explain(
                BrokerView(
                    broker.state, broker.tables, broker.last, broker.policy, 2.0
                ),
                "q",
            )
        )
    )
    assert lines[lines.index("Account") + 1] == "  4 at start = 4 ready"
    assert not any("address q" in line for line in lines)


def test_without_an_account_there_is_no_word_of_it() -> None:
    broker = Broker().see({"q": queue(9, 4)})
    assert broker.last is not None
    view = BrokerView(
        broker.state,
        broker.tables,
        replace(broker.last, queues=None),
        broker.policy,
        2.0,
    )
    assert explain(view, "q").account == []


@pytest.mark.slow  # many polls
def test_the_usual_service_time_is_that_which_rests_on_more_windows_and_says_so() -> (
    None
):
    hours = {
        "mean_service": np.full(len(BEFORE), 0.05),
        "windows": np.full(len(BEFORE), 0.05),
    }
    judged = knowing(step=15.0, q={**steady(5.0), **hours})
    for seconds, said in (
        (600, "0.05 s a message, from history on 34 windows"),
        (5400, "0.1 s a message, learned by"),
    ):
        Flow(judged).run(seconds, 10.5, settles=10.0)
        snapshot = judged.snapshot({"q": {"A": 0.0, "K": 0.0, "M": 0.0}}, {}, {})
        usual = explain(
            BrokerView(judged.state, judged.tables, snapshot, judged.policy, 15.0), "q"
        ).usual
        assert usual.startswith("from history on 4 weeks")
        assert said in usual
