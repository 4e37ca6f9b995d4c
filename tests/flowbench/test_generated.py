"""The grammar of generated situations, and what is counted of them."""

from collections import Counter

import pytest

from flowbench.generated.artemis import FAILURES as PLAYED
from flowbench.generated.grammar import FAILURES, choices, situations
from flowbench.generated.openmq import untrue
from flowbench.generated.score import Seen, bound_of, figures, outcome
from penstock.actions.catalogue import ACTIONS
from penstock.conditions.catalogue import CONDITIONS, for_kind
from penstock.conditions.condition import Severity


@pytest.mark.parametrize("failure", FAILURES)
def test_labels_are_words_of_the_product(failure: str) -> None:
    """Each client that can fail so has a true cause of each condition, and an action that helps."""
    made = FAILURES[failure]
    assert {*made.need.split(), *made.also.split()} <= CONDITIONS.keys()
    assert {*made.helps.split(), *made.harmless.split()} <= {
        action.name for action in ACTIONS
    }
    assert choices(failure)
    assert failure in PLAYED
    for client in made.clients if made.need else ():
        known = for_kind("openmq" if client == "openmq" else "artemis")
        assert any(
            made.causes_of(client) & known[name].causes.keys()
            for name in made.need.split()
            if name in known
        )


@pytest.mark.slow  # many polls
def test_a_seed_makes_the_same_situations_and_each_failure_as_often_as_another() -> (
    None
):
    made = situations(5, 120)
    assert made == situations(5, 120)
    assert made[0] != situations(6, 120)[0]
    assert sum(one.healthy for one in made) == 40
    counts = Counter(one.failure for one in made if not one.healthy)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len({one.name for one in made}) == 120


@pytest.mark.slow  # many situations
def test_what_is_told_is_held_to_the_label() -> None:
    hang = next(one for one in situations(5, 120) if one.failure == "hang")
    right = Seen(
        {"stalled": 110.0},
        {"stalled": Severity.WARNING},
        set(),
        {"stalled"},
        set(),
        {"thread_dump"},
    )
    bound = bound_of(hang, 4.0, 80.0)
    of = [
        outcome(hang, right, 20.0, bound, []),
        outcome(hang, right, 20.0, 50.0, []),
        outcome(
            hang, Seen({"stalled": 110.0}, {"stalled": Severity.INFO}), 20.0, bound, []
        ),
        outcome(hang, Seen(), 20.0, bound, []),
        outcome(
            hang, Seen({"paused": 90.0}, {"paused": Severity.WARNING}), 20.0, bound, []
        ),
    ]
    assert [(one.found, one.late, one.nothing, one.alarms) for one in of] == [
        (True, False, False, ()), (False, True, False, ()), (False, False, False, ()), (False, False, True, ()),
        (False, False, False, ("paused",)),
    ]  # fmt: skip
    told = figures(of)
    assert (
        told["faults"],
        told["right_condition"],
        told["late"],
        told["told_healthy"],
    ) == (5, 1, 1, 1)


@pytest.mark.slow  # many polls
def test_what_clients_of_openmq_count_proves_the_label() -> None:
    gone = next(
        one
        for one in situations(5, 400)
        if (one.client, one.failure) == ("openmq", "gone")
    )
    counts = {
        f"{gone.name}-0.sent": 900,
        f"{gone.name}-1.got": 100,
        f"{gone.name}-1.done": 100,
    }
    assert untrue(gone, counts) == []
    assert untrue(gone, {**counts, f"{gone.name}-1.done": 900}) != []
    assert untrue(gone, {}) != []
