"""Explanations of queues that are large, and of brokers that say little."""

from dataclasses import replace

import pytest

from judgement_edges.world import World
from penstock.flow import explain as explaining
from penstock.flow.assess import State, assess
from penstock.flow.explain import MAX_CLIENTS, NotFound, Sight, explain
from penstock.flow.judge.constants import Constants
from penstock.flow.policy import Policy
from penstock.flow.series import ClientSeries
from penstock.model import Snapshot
from penstock.table import Table

MORE = MAX_CLIENTS + 50


def sight(world: World) -> Sight:
    return Sight(world.state, world.tables, world.snapshot(), world.policy, 15.0)


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


def test_only_the_clients_that_are_told_are_worked_out(crowded: World, monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[int] = []
    values = explaining.client_values

    def counted(one: Sight, table: Table[ClientSeries], i: int) -> explaining.Plain:
        worked_out.append(i)
        return values(one, table, i)

    monkeypatch.setattr(explaining, "client_values", counted)
    found = explain(sight(crowded), "q")
    assert (len(worked_out), len(found["clients"]), found["clients_left_out"]) == (MAX_CLIENTS, MAX_CLIENTS, 50)
    first = found["clients"][0]
    assert (first["client"], first["numbers"]["buffered"]) == ("z-stuck", 5)
    one = explain(sight(crowded), "q", client="c0249")
    assert ([client["client"] for client in one["clients"]], one["clients_left_out"]) == (["c0249"], 0)
    assert len(worked_out) == MAX_CLIENTS + 1
    with pytest.raises(NotFound) as error:
        explain(sight(crowded), "q", client="z-stck")
    assert error.value.hint == "did you mean z-stuck?"


def without_numbers(snapshot: Snapshot) -> Snapshot:
    """As of a broker that lists its consumers and tells nothing of them."""
    assert snapshot.consumers is not None
    return replace(snapshot, consumers=Table(snapshot.consumers.index, {}))


def test_a_version_without_numbers_per_consumer_is_said_to_be_the_reason(crowded: World) -> None:
    snapshot = without_numbers(crowded.snapshot())
    state, tables = assess(State(), snapshot, crowded.policy)
    found = explain(Sight(state, tables, snapshot, crowded.policy, 15.0), "q")
    (why,) = [one["why"] for one in found["unknown"] if one["what"] == "all conditions"]
    assert why.startswith("this version of the broker shows no numbers per consumer, therefore nothing is judged")
    assert found["numbers"]["messages"] == 5


def test_a_part_that_was_not_read_is_said_to_be_missing(crowded: World) -> None:
    snapshot = replace(crowded.snapshot(), consumers=None)
    state, tables = assess(State(), snapshot, crowded.policy)
    found = explain(Sight(state, tables, snapshot, crowded.policy, 15.0), "q")
    assert "queues or consumers are missing in it" in str(found["unknown"])
