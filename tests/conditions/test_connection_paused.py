"""`connection_paused`: a consumer gets nothing as another fills their connection."""

from dataclasses import replace
from typing import Any

import pytest

from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls
from penstock.settings.rules import Match, Rule, Rules
from penstock.settings.rules import RuleSettings as Says


def shared_connection(
    victim: int,
    *,
    paused: float = 0,
    waiting: float = 40,
    moves: int = 0,
    limit: int | None = None,
) -> OpenmqJudged:
    """A consumer that hangs on `hung`, connection 1, and one of `fed` on the connection `victim` that gets nothing."""
    world = openmq()
    world.policy = replace(
        world.policy, rules=Rules((Rule(Match(), Says(connection_flow_limit=limit)),))
    )
    return openmq_polls(world, 14, lambda i: {
        "queues": {"hung": {"A": 500, "K": 100, "M": 400, "D": 200}, "fed": {"A": 200 + i, "K": 50, "M": 150 + i}},
        "consumers": {
            "h": {"queue": "hung", "N": 300 + moves * i, "T": 200 + moves * i, "waiting": waiting, "connection": 1,
                  "flow_paused": paused},
            "v": {"queue": "fed", "N": 50, "T": 0, "connection": victim},
        },
    })  # fmt: skip


def test_connection_paused_names_the_queue_and_replaces_not_dispatching() -> None:
    world = shared_connection(1)
    assert world.names == {"connection_paused", "stalled"}
    assert world.one("connection_paused").queue == "fed"
    assert world.one("connection_paused").evidence["held"] == 200


@pytest.mark.slow  # many polls
def test_who_starves_is_a_victim_of_the_consumer_that_fills_the_connection() -> None:
    (found,) = shared_connection(1).state.judgement.incidents.told
    victim = "fed (one consumer uses up the flow limit of its connection)"
    assert (found.kind, found.object, found.victims) == ("stalled", "app", [victim])
    assert len(shared_connection(2).state.judgement.incidents.told) == 2


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "options", [{"victim": 2}, {"victim": 1, "paused": 1}, {"victim": 1, "moves": 5}]
)
def test_not_dispatching_without_a_blocker_on_its_connection(
    options: dict[str, Any],
) -> None:
    assert shared_connection(**options).names == {"not_dispatching", "stalled"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("limit", "names"),
    [
        (200, {"connection_paused"}),
        (201, {"not_dispatching"}),
        (0, {"not_dispatching"}),
    ],
)
def test_a_connection_limit_that_the_operator_gives_must_be_reached(
    limit: int, names: set[str]
) -> None:
    world = shared_connection(1, limit=limit)
    assert world.names == names | {"stalled"}
    if "connection_paused" in names:
        assert world.one("connection_paused").evidence["limit"] == limit


@pytest.mark.slow  # many polls
def test_the_connection_and_the_client_that_fill_it_are_named() -> None:
    world = shared_connection(1)
    (row,) = world.tables["connection_cause"].index
    assert (row.connection, row.client, row.cause) == ("1", "app", "connection_paused")
    assert len(shared_connection(2).tables["connection_cause"]) == 0


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("moves", range(4))
def test_a_consumer_that_stops_later_than_the_other_starves_raises_no_other_condition_first(
    moves: int,
) -> None:
    """Not for as long again as nothing may be delivered; then `not_dispatching` is what is known."""
    world = openmq()
    names = set[str]()
    for i in range(14):
        moved = 5 * min(i, moves)
        world.poll(
            queues={
                "hung": {"A": 500, "K": 100 + moved, "M": 400 - moved, "D": 200},
                "fed": {"A": 200 + i, "K": 50, "M": 150 + i},
            },
            consumers={
                "h": {
                    "queue": "hung",
                    "N": 300 + moved,
                    "T": 200,
                    "waiting": 40,
                    "connection": 1,
                    "flow_paused": 0,
                },
                "v": {"queue": "fed", "N": 50, "T": 0, "connection": 1},
            },
        )
        names |= world.names
    assert names - {"not_dispatching"} == {"connection_paused", "stalled"}
    assert ("not_dispatching" in names) == (moves > 2)
