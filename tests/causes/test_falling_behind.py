"""Advice on a growing backlog by the kind of queue: more consumers only where they would get any."""

from collections.abc import Mapping
from typing import Any

import pytest

from causes.world import excluded, possible, proven, states, verdicts
from conditions.openmq_world import openmq, openmq_polls
from penstock.actions.catalogue import ACTIONS
from penstock.causes.verdict import Verdict
from penstock.model import QueueKind


def grows(
    *consumers: dict[str, Any], pace: float = 50.0, later: float = 50.0, **queue: Any
) -> Mapping[str, Verdict]:
    """100 come at each poll; so many are acknowledged at each, `later` in the second half."""

    def said(i: int, now: float) -> dict[str, Any]:
        done = pace * min(i, 12) + later * max(i - 12, 0)
        works = {"T": 1.0, "C": done, "N": done + 1, "L": now - 1, "Ld": now - 1}
        rows = {f"c{n}": {**works, **one} for n, one in enumerate(consumers or ({},))}
        numbers = {
            "A": 100.0 * i,
            "K": done,
            "M": 100.0 * i - done,
            "D": 1.0,
            "max_consumers": -1.0,
            **queue,
        }
        return {"queues": {"q": numbers}, "consumers": rows}

    return verdicts("falling_behind", said, polls=24)


@pytest.mark.slow  # many polls
def test_a_pool_that_works_needs_more_consumers() -> None:
    found = grows({}, {})
    assert (states(found)[proven], states(found)[possible]) == (
        set(),
        {"too_few_consumers", "became_slower"},
    )
    assert found["too_few_consumers"].fact == (
        "4 at this pace keep up, without message groups, or with as many groups"
    )


@pytest.mark.slow  # many polls
def test_a_subscription_is_shared_and_not_doubled() -> None:
    found = grows(kind=QueueKind.SUBSCRIPTION, routing_type="multicast")
    assert found["too_few_consumers"].fact.endswith(
        "keep up, that share this subscription"
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("queue", [{"groups": 0.0}, {"groups": 20.0, "grouped": 1.0}])
def test_groups_that_are_shared_out_anew_gain_by_more_consumers(
    queue: dict[str, float],
) -> None:
    assert states(grows({}, {}, **queue))[possible] == {
        "too_few_consumers",
        "became_slower",
    }


@pytest.mark.slow  # many polls
def test_who_gives_back_more_than_it_settles_needs_no_company() -> None:
    """Of 16 messages 15 came back, and as many consumers were asked for as would fail alike."""

    def said(i: int, now: float) -> dict[str, Any]:
        row = {
            "T": 1.0,
            "C": 320.0 * i,
            "N": 320.0 * i + 1,
            "L": now - 1,
            "Ld": now - 1,
        }
        return {
            "queues": {"q": {"A": 100.0 * i, "K": 20.0 * i, "M": 80.0 * i, "D": 1.0}},
            "consumers": {"c": row},
        }

    found = verdicts("falling_behind", said, polls=24)
    assert found["too_few_consumers"].fact.startswith(
        "first fix these: 2100 messages came back, 140 were settled"
    )


HOLDS = {"T": 80.0, "C": 0.0, "L": float("nan"), "Ld": 1_700_000_000.0}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("cause", "consumers", "queue"),
    [
        ("exclusive", ({}, {}), {"exclusive": 1.0}),
        ("max_consumers", ({}, {}), {"max_consumers": 2.0}),
        ("groups", ({}, {}), {"groups": 20.0}),
    ],
)
def test_more_consumers_are_not_advised_where_they_get_none(
    cause: str, consumers: tuple[dict[str, Any], ...], queue: dict[str, float]
) -> None:
    found = grows(*consumers, **queue)
    assert states(found)[proven] == {cause}
    assert found["too_few_consumers"].state is excluded


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("cause", "consumers", "queue", "why"), [
    ("holders", ({}, HOLDS), {}, "1 of 2 consumers buffer 80 messages"),
    ("became_slower", ({}, {}), {"later": 20.0},
     "a message takes 2.5 times as long as usual"),
])  # fmt: skip
def test_nor_before_what_slows_those_that_are_there_is_mended(
    cause: str, consumers: tuple[dict[str, Any], ...], queue: dict[str, float], why: str
) -> None:
    found = grows(*consumers, **queue)
    assert found["too_few_consumers"][:2] == (possible, f"first fix these: {why}")
    assert found[cause].fact == why


def test_selectors_of_idle_consumers_are_likely_and_no_more() -> None:
    """A consumer that asks for each message is idle at each poll, too."""
    found = grows({"filter": "k = '1'", "T": 0.0}, {"filter": "k = '2'", "T": 0.0})
    assert found["selector"] == (possible, "their selectors: k = '1', k = '2'", True)
    assert found["too_few_consumers"].state is possible


@pytest.mark.slow  # many polls
def test_a_pool_with_selectors_that_buffers_messages_may_be_too_small_or_slow() -> None:
    """What a filtered queue gets is all selected: its consumers are busy, and what grows is theirs."""
    found = grows({"filter": "k = '1'", "T": 10.0}, {"filter": "k = '1'", "T": 10.0})
    assert (states(found)[proven], states(found)[possible]) == (
        set(),
        {"selector", "too_few_consumers", "became_slower"},
    )


@pytest.mark.slow  # many polls
def test_consumers_that_are_slower_than_usual_are_not_made_more() -> None:
    found = grows({}, {}, later=20.0)
    assert found["became_slower"].state is proven
    spoiled = next(
        action for action in ACTIONS if action.name == "add_consumers"
    ).spoiled
    assert {"became_slower", "holders"} <= spoiled


@pytest.mark.slow  # many polls
def test_a_selector_of_some_leaves_the_rest_to_the_others() -> None:
    assert states(grows({"filter": "k = '1'"}, {}))[proven] == set()


def openmq_grows(**queue: float) -> Mapping[str, Verdict]:
    """More comes than one consumer, or two, take."""
    world = openmq()

    def said(i: int) -> dict[str, Any]:
        done = 50.0 * i
        rows = {
            name: {"T": 1.0, "N": done / 2 + 1, "L": world.now + 14}
            for name in ("c", "d")
        }
        numbers = {"A": 100.0 * i, "K": done, "M": 100.0 * i - done, "D": 2.0, **queue}
        return {"queues": {"q": numbers}, "consumers": rows}

    return openmq_polls(world, 24, said).one("falling_behind").verdicts


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("active", [2.0, float("nan")])
def test_openmq_may_take_no_more_active_consumers_and_does_not_say_so(
    active: float,
) -> None:
    """maxNumActiveConsumers is not read, and a consumer beyond it is refused."""
    found = openmq_grows(active_consumers=active)
    assert found["max_consumers"].state is possible
    assert "maxNumActiveConsumers was not read" in found["max_consumers"].fact
    assert "maxNumActiveConsumers was not read" in found["too_few_consumers"].fact


@pytest.mark.slow  # many polls
def test_openmq_consumers_that_stand_by_show_that_no_more_are_taken() -> None:
    found = openmq_grows(active_consumers=1.0)
    assert found["max_consumers"][:2] == (proven, "1 of 2 are active")
    assert found["too_few_consumers"].state is excluded


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("setting", ["exclusive", "max_consumers", "groups"])
def test_a_setting_that_was_not_read_leaves_it_open_whether_more_would_help(
    setting: str,
) -> None:
    found = grows({}, {}, **{setting: float("nan")})
    assert found[setting].state is possible
    assert "was not read" in found["too_few_consumers"].fact
