"""Shares of polls, against the same counted poll by poll."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditions.things import Numbers
from conditions.world import START, Judged
from core.things import patiently
from penstock.core.table import Index
from penstock.learned.saturation import Bits64, Saturation, ServiceRate, polls_in
from penstock.series.labels import Grouping

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
        (
            {"A": 9.0, "M": 9.0, "D": 0.0},
            {"c": {**NONE, "filter": "x = 1"}},
            np.nan,
            np.nan,
            np.nan,
        ),
        (
            {"A": 9.0, "M": 9.0, "D": 5.0},
            {"c": SOME, "d": {**NONE, "filter": "x = 1"}},
            0,
            1,
            0,
        ),
        (
            {"A": 9.0, "M": 9.0, "D": 5.0},
            {"c": {"T": 0.0, "W": 5.0, "N": 5.0, "C": 5.0}},
            0,
            1,
            0,
        ),
    ],
)
def test_of_one_poll(
    queue: Numbers,
    consumers: Mapping[str, Numbers],
    starved: float,
    at_limit: float,
    capacity: float,
) -> None:
    judged = Judged().poll({"q": queue}, consumers)
    told = [
        judged.column("client", "starved"),
        judged.column("client", "at_limit"),
        judged.column("queue", "capacity"),
    ]
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
    judged = Judged().poll(
        {name: {"A": 9.0, "M": 9.0 * waiting} for name, waiting in waits.items()},
        consumers,
    )
    takers = [
        one for one in consumers.values() if not one["filter"] and one["queue"] in waits
    ]
    clients = judged.tables["client"]
    queues = judged.tables["queue"]
    for row, starved, at_limit in zip(
        clients.index, clients["starved"], clients["at_limit"], strict=True
    ):
        holds = [
            one["T"] > 0
            for one in takers
            if (one["queue"], one["client"]) == (row.queue, row.client)
        ]
        waiting = waits.get(row.queue, False)
        expected = (
            [float(waiting and not any(holds)), float(waiting and all(holds))]
            if holds
            else [np.nan] * 2
        )
        assert [starved, at_limit] == pytest.approx(expected, nan_ok=True)
    for row, capacity in zip(queues.index, queues["capacity"], strict=True):
        holds = [one["T"] > 0 for one in takers if one["queue"] == row.queue]
        has_room = float(not all(holds) or not waits[row.queue]) if holds else np.nan
        assert capacity == pytest.approx(has_room, nan_ok=True)


def test_a_queue_without_consumers_has_no_capacity() -> None:
    assert np.isnan(
        Judged().poll({"q": {"A": 1.0, "M": 1.0}}).column("queue", "capacity")
    )


@pytest.mark.slow  # takes a second
@patiently
@given(
    st.lists(st.sampled_from(["starved", "full", "idle"]), min_size=1, max_size=40),
    st.sampled_from([5.0, 15.0, 60.0]),
)
def test_of_the_last_five_minutes(polls: list[str], step: float) -> None:
    judged = Judged(step=step)
    for kind in polls:
        waiting = 0.0 if kind == "idle" else 4.0
        held = 5.0 if kind == "full" else 0.0
        judged.poll(
            {"q": {"A": 100.0, "M": waiting + held, "D": held}},
            {"c": {"T": held, "N": 5.0}},
        )
    last = polls[-int(300 / step) :]
    expected = [
        last.count("starved") / len(last),
        last.count("full") / len(last),
        1 - last.count("full") / len(last),
    ]
    told = [
        judged.column("client", "starved"),
        judged.column("client", "at_limit"),
        judged.column("queue", "capacity"),
    ]
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


# --- the last polls, a bit each


@pytest.mark.parametrize(
    ("interval", "polls"),
    [
        (np.nan, 1), (0.0, 1), (-1.0, 1), (1.0, 60), (2.0, 50), (4.0, 38), (4.6875, 64), (5.0, 60), (15.0, 20),
        (100.0, 3), (200.0, 2), (300.0, 1), (1000.0, 1),
    ],
)  # fmt: skip
def test_so_many_polls_make_five_minutes(interval: float, polls: int) -> None:
    assert polls_in(interval) == polls


ROWS: Index[Any] = Index.of([*"abc"])


def bits(*polls: tuple[list[bool], list[bool]]) -> Bits64:
    """Of three rows: at each poll which were looked at, and of which it was so."""
    made = Bits64()
    for seen, so in polls:
        made = made.push(ROWS, np.array(seen), np.array([so]))
    return made


T = True
F = False


def test_shares_are_of_the_polls_at_which_a_row_was_looked_at() -> None:
    made = bits(
        ([T, T, F], [T, F, T]),
        ([T, F, F], [F, T, T]),
        ([T, F, F], [F, T, T]),
        ([T, T, F], [T, T, F]),
    )
    np.testing.assert_equal(made.shares(4), [[0.5, 0.5, np.nan]])
    np.testing.assert_equal(made.shares(3), [[1 / 3, 1, np.nan]])
    np.testing.assert_equal(made.shares(1), [[1, 1, np.nan]])


def test_sixty_four_polls_are_kept() -> None:
    made = bits(([T, T, T], [T, T, T]), *[([T, T, T], [F, F, F])] * 63)
    assert made.shares(64).tolist() == [[1 / 64] * 3]
    one_more = made.push(ROWS, np.ones(3, np.bool_), np.zeros((1, 3), np.bool_))
    assert one_more.shares(64).tolist() == [[0.0] * 3]


# --- what each consumer settles


def rates(*d_left: float, step: float = 2.0) -> ServiceRate:
    made = ServiceRate()
    index = Index[Any].of(["c"])
    for number, left in enumerate(d_left):
        consumer = SimpleNamespace(index=index, d_left=np.array([left]))
        found: Any = SimpleNamespace(consumer=consumer, now=100.0 + number)
        made = made.advance(found, step)
    return made


@pytest.mark.parametrize(
    ("left", "best"),
    [
        ([6.0], 3),
        ([6.0, 2.0], 3),
        ([2.0, 6.0], 3),
        ([6.0, 0.0, 2.0], 3),
        ([6.0, 0.0, 2.0, 4.0], 2),
        ([0.0], 0),
    ],
)
def test_the_best_of_three_polls_counts(left: list[float], best: float) -> None:
    made = rates(*left)
    assert made.best.tolist() == [best]
    assert made.best.dtype == np.float64
    assert made.rates[0].tolist() == [left[-1] / 2]


@pytest.mark.parametrize(
    ("left", "since"),
    [
        ([0.0, 0.0], np.nan),
        ([0.0, 4.0, 4.0], 101),
        ([4.0, 0.0, 0.0], 100),
        ([4.0, 0.0, 0.0, 0.0], np.nan),
        ([4.0, 0.0, 0.0, 0.0, 4.0], 104),
    ],
)
def test_it_works_until_it_paused_for_three_polls(
    left: list[float], since: float
) -> None:
    np.testing.assert_equal(rates(*left).since, [since])


@pytest.mark.parametrize("step", [0.0, np.nan, -1.0])
def test_without_time_nothing_is_settled(step: float) -> None:
    assert rates(6.0, step=step).best.tolist() == [0]


def test_half_a_second_is_time_enough() -> None:
    assert rates(6.0, step=0.5).best.tolist() == [12]


# --- which polls are looked at


def looked_at(*seconds: float) -> list[float]:
    """When polls were looked at, of a queue whose consumer holds nothing."""
    judged = Judged()
    stamps = []
    for after in seconds:
        judged.poll({"q": {"A": 9.0, "M": 9.0}}, {"c": NONE}, after=after)
        stamps.append(judged.state.judgement.shares.stamp - START)
    return stamps


def test_polls_closer_than_a_sixty_fourth_of_five_minutes_are_left_out() -> None:
    assert looked_at(10.0, 4.5, 0.1875, 4.6875) == [10, 10, 14.6875, 19.375]


def test_where_consumers_are_not_counted_nothing_is_known() -> None:
    queues: Index[Any] = Index.of(["q"])
    clients: Grouping[Any] = Grouping(index=Index.of(["c", "d"]))
    found: Any = SimpleNamespace(counted=False, queues=queues)
    shares = Saturation().advance(found, clients)
    assert np.isnan([*shares.starved, *shares.at_limit, *shares.capacity]).all()
    assert [len(shares.starved), len(shares.at_limit), len(shares.capacity)] == [
        2,
        2,
        1,
    ]
