"""Shares of polls, against the same counted poll by poll."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditions.things import Numbers
from conditions.world import Judged
from core.things import patiently

NONE = {"T": 0.0}
SOME = {"T": 5.0, "N": 5.0}


@pytest.mark.parametrize(
    ("queue", "consumers", "starved", "at_limit", "capacity"),
    [
        ({"A": 9.0, "M": 9.0, "D": 5.0}, {"c": SOME}, 0, 1, 0),
        ({"A": 9.0, "M": 9.0, "D": 0.0}, {"c": NONE}, 1, 0, 1),
        ({"A": 5.0, "M": 5.0, "D": 5.0}, {"c": SOME}, 0, 0, 1),
        ({"A": 9.0, "M": 9.0, "D": 5.0}, {"c": SOME, "d": NONE}, 0, 0, 1),
        ({"A": 9.0, "M": 9.0, "D": 0.0, "paused": 1.0}, {"c": NONE}, 0, 0, 1),
        ({"A": 9.0, "M": 9.0, "D": 0.0}, {"c": {**NONE, "filter": "x = 1"}}, np.nan, np.nan, np.nan),
        ({"A": 9.0, "M": 9.0, "D": 5.0}, {"c": SOME, "d": {**NONE, "filter": "x = 1"}}, 0, 1, 0),
        ({"A": 9.0, "M": 9.0, "D": 5.0}, {"c": {"T": 0.0, "W": 5.0, "N": 5.0, "C": 5.0}}, 0, 1, 0),
    ],
)
def test_of_one_poll(
    queue: Numbers, consumers: Mapping[str, Numbers], starved: float, at_limit: float, capacity: float
) -> None:
    judged = Judged().poll({"q": queue}, consumers)
    told = [judged.column("client", "starved"), judged.column("client", "at_limit"), judged.column("queue", "capacity")]
    assert told == pytest.approx([starved, at_limit, capacity], nan_ok=True)


@pytest.mark.parametrize("seed", range(6))
def test_of_many_clients_it_is_what_each_ones_consumers_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    waits = {f"q{n}": bool(random.random() < 0.6) for n in range(5)}
    consumers: dict[str, dict[str, Any]] = {
        f"c{n}": {
            "queue": f"q{random.integers(6)}",  # one of them is not listed
            "client": f"client-{random.integers(3)}",
            "T": float(random.random() < 0.5),
            "filter": "x = 1" if random.random() < 0.2 else "",
        }
        for n in range(40)
    }
    judged = Judged().poll({name: {"A": 9.0, "M": 9.0 * waiting} for name, waiting in waits.items()}, consumers)
    takers = [one for one in consumers.values() if not one["filter"] and one["queue"] in waits]
    clients, queues = judged.tables["client"], judged.tables["queue"]
    for row, starved, at_limit in zip(clients.index, clients["starved"], clients["at_limit"], strict=True):
        holds = [one["T"] > 0 for one in takers if (one["queue"], one["client"]) == (row.queue, row.client)]
        waiting = waits.get(row.queue, False)
        expected = [float(waiting and not any(holds)), float(waiting and all(holds))] if holds else [np.nan] * 2
        assert [starved, at_limit] == pytest.approx(expected, nan_ok=True)
    for row, capacity in zip(queues.index, queues["capacity"], strict=True):
        holds = [one["T"] > 0 for one in takers if one["queue"] == row.queue]
        has_room = float(not all(holds) or not waits[row.queue]) if holds else np.nan
        assert capacity == pytest.approx(has_room, nan_ok=True)


def test_a_queue_without_consumers_has_no_capacity() -> None:
    assert np.isnan(Judged().poll({"q": {"A": 1.0, "M": 1.0}}).column("queue", "capacity"))


@pytest.mark.slow  # takes a second
@patiently
@given(
    st.lists(st.sampled_from(["starved", "full", "idle"]), min_size=1, max_size=40), st.sampled_from([5.0, 15.0, 60.0])
)
def test_of_the_last_five_minutes(polls: list[str], step: float) -> None:
    judged = Judged(step=step)
    for kind in polls:
        waiting = 0.0 if kind == "idle" else 4.0
        held = 5.0 if kind == "full" else 0.0
        judged.poll({"q": {"A": 100.0, "M": waiting + held, "D": held}}, {"c": {"T": held, "N": 5.0}})
    last = polls[-int(300 / step) :]
    expected = [last.count("starved") / len(last), last.count("full") / len(last), 1 - last.count("full") / len(last)]
    told = [judged.column("client", "starved"), judged.column("client", "at_limit"), judged.column("queue", "capacity")]
    assert told == pytest.approx(expected, abs=0.001)


@pytest.mark.slow  # six hundred polls
def test_polls_that_come_fast_are_not_all_looked_at() -> None:
    """Five minutes are told at any rhythm: within one in 64 polls."""
    judged = Judged(step=1.0)
    for n in range(600):
        waits = 4.0 if n < 450 else 0.0
        judged.poll({"q": {"A": 100.0, "M": waits}}, {"c": {"T": 0.0}})
    assert judged.column("client", "starved") == pytest.approx(0.5, abs=0.03)


def test_a_rule_that_changes_takes_the_clients_shares_and_leaves_the_queues() -> None:
    judged = Judged().poll({"q": {"A": 9.0, "M": 9.0}}, {"c": NONE})
    judged.state = judged.state.with_new_labels()
    judged.poll({"q": {"A": 9.0, "M": 0.0, "K": 9.0}}, {"c": NONE})
    assert judged.column("client", "starved") == 0
    assert judged.column("queue", "capacity") == 1
