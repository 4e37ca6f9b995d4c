from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from conditions.things import Numbers
from conditions.world import Judged
from findings.evaluated import Polls, by_rule, on_openmq, openmq
from penstock.findings.rules.clients import EVALUATIONS
from penstock.findings.usage import Usage

RULE = "session_overloaded"


def behind(consumers: int, *, waiting: int = 50, taken: int = 1) -> Polls:
    """All of them hold 10 messages and take `taken` a poll."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        numbers = {"N": 10 + taken * n, "T": 10, "C": taken * n, "connection": 7}
        held = 10 * consumers
        return {"A": 1e4, "M": held + waiting, "D": held}, {
            f"c{i}": numbers for i in range(consumers)
        }

    return play


@pytest.mark.parametrize(
    ("play", "evaluations", "holds"),
    [
        (behind(5), EVALUATIONS, True),
        (behind(5), EVALUATIONS - 1, False),
        (behind(4), EVALUATIONS, False),
        (behind(5, waiting=0), EVALUATIONS, False),
        (behind(5, taken=0), EVALUATIONS, False),  # that is `stalled`
    ],
)
def test_consumers_of_a_connection_that_wait_for_one_another(
    play: Polls, evaluations: int, holds: bool
) -> None:
    # At the first evaluation the consumers are new, which shows nothing yet.
    rules = on_openmq(play, evaluations + 1)
    assert (RULE in rules) is holds
    if holds:
        one = rules[RULE]
        numbers = {
            "consumers": 5.0,
            "producers": 0.0,
            "held": 50.0,
            "waiting": 50.0,
            "looks": EVALUATIONS,
        }
        assert one.evidence == numbers
        assert "an estimate" in one.advice


def test_one_that_has_nothing_to_do_ends_it() -> None:
    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        queue, consumers = behind(5)(n)
        return queue, {**consumers, "idle": {"connection": 7}}

    assert RULE not in on_openmq(play, EVALUATIONS + 1)


@pytest.mark.slow  # many polls
def test_sessions_of_artemis() -> None:
    """Those are shown: consumers of one session, not of one client, wait for one another."""
    world = Judged()
    apart = Judged()
    for n in range(EVALUATIONS + 1):
        queue, consumers = behind(2)(n)
        world.poll(
            {"q": queue},
            {name: {**numbers, "session": "s"} for name, numbers in consumers.items()},
        )
        apart.poll({"q": queue}, consumers)
    (one,) = [one for one in world.state.findings.found if one.rule.name == RULE]
    assert one.evidence["consumers"] == 2
    assert one.advice.endswith("over more connections")
    assert RULE not in by_rule(apart)


def test_what_each_consumer_was_given_holds_no_table_of_the_poll() -> None:
    snapshot = openmq(behind(5), 1).snapshot({"q": {}}, {"c": {"T": 7.0}}, {})
    assert snapshot.consumers is not None
    table = np.array([[7.0], [0.0]])
    consumers = replace(
        snapshot.consumers,
        columns={**snapshot.consumers.columns, "delivered": table[0]},
    )
    usage = Usage().advance(replace(snapshot, consumers=consumers), 15.0, np.array([0]))
    assert usage.delivered.tolist() == [7.0]
    assert not np.shares_memory(usage.delivered, table)
