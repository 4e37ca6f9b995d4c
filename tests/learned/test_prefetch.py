"""What polls teach about windows and about consumers that are made for each message."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.learned import prefetch
from penstock.learned.prefetch import (
    MOST,
    SECONDS,
    SWEEP_SECONDS,
    ConsumerArrivals,
    PrefetchEstimate,
    halved,
)
from penstock.series.labels import HIDDEN, Grouping

NOW = 1000.0


def clients_of(member: list[int], count: int = 2) -> Grouping[Any]:
    """Clients c0, c1, ... with the keys 5, 6, ..., and the place of each consumer among them."""
    keys = np.arange(5, 5 + count)
    index = Index[Any].empty().advance(keys, lambda new: [f"c{at}" for at in new])[0]
    return Grouping(index=index, member=np.array(member, np.intp))


def consumers(held: list[float], **columns: list[Any]) -> Any:
    """All of the first queue; none is new, and nothing was delivered."""
    size = len(held)
    said = {
        "held": held,
        "queue": [0] * size,
        "new": [False] * size,
        "delivered": held,
        "d_delivered": [0.0] * size,
    } | columns
    made = SimpleNamespace(**{name: np.array(values) for name, values in said.items()})
    made.holding = np.flatnonzero((made.held > 0) & (made.queue >= 0))
    return made


def found(
    consumer: Any,
    *,
    now: float = NOW,
    ready: float = 5.0,
    known: bool = True,
    messages: float = 30.0,
) -> Any:
    """A queue that is read, and another one."""
    nothing = np.zeros(2)
    return SimpleNamespace(
        now=now,
        consumer=consumer,
        known=np.array([known, True]),
        ready=np.array([ready, 0.0]),
        messages=np.array([messages, 0.0]),
        paused=nothing,
        address=SimpleNamespace(paused=nothing),
        queues=QUEUES,
    )


QUEUES: Index[Any] = Index.of(["q", "r"])

# --- windows


def estimate(clients: Grouping[Any], *polls: Any) -> PrefetchEstimate:
    after = PrefetchEstimate()
    for poll in polls:
        after = after.advance(poll, clients)
    return after


def test_a_window_is_the_most_that_was_held_while_nothing_was_delivered() -> None:
    clients = clients_of([0, 0, 1])
    after = estimate(
        clients, found(consumers([7.0, 9.0, 3.0])), found(consumers([8.0, 1.0, 2.0]))
    )
    assert after.clients.window.tolist() == [9, 3]
    assert after.clients.largest.tolist() == [9, 3]


@pytest.mark.parametrize(
    "poll",
    [
        found(consumers([7.0], d_delivered=[1.0])),
        found(consumers([7.0], new=[True])),
        found(consumers([7.0]), ready=0.0),
    ],
)
def test_who_is_given_more_or_could_not_be_shows_no_window(poll: Any) -> None:
    after = estimate(clients_of([1]), poll)
    np.testing.assert_equal(after.clients.window, [np.nan, np.nan])
    assert after.clients.largest.tolist() == [0, 7]


def test_hidden_clients_and_unknown_queues_teach_nothing() -> None:
    poll = found(consumers([7.0, 9.0], queue=[0, -1]))
    after = estimate(clients_of([HIDDEN, 0]), poll)
    np.testing.assert_equal(after.clients.window, [np.nan, np.nan])
    assert after.clients.largest.tolist() == [0, 0]


def test_the_deepest_is_kept() -> None:
    polls = [
        found(consumers([0.0]), messages=messages) for messages in (30.0, 40.0, 10.0)
    ]
    assert estimate(clients_of([0]), *polls).queues.deepest.tolist() == [40, 0]


# --- arrivals


def arrivals(
    before: ConsumerArrivals, member: list[int], new: list[bool], **poll: Any
) -> ConsumerArrivals:
    """After a poll; each consumer that came had got two messages."""
    came = consumers([0.0] * len(member), new=new, delivered=[2.0] * len(member))
    return before.advance(found(came, **poll), clients_of(member))


def rows(one: ConsumerArrivals) -> dict[str, list[float]]:
    """By client what is counted: begin, seen, new, delivered, polls, last."""
    return dict(zip(one.clients.tolist(), one.numbers.T.tolist(), strict=True))


def test_clients_are_followed_once_half_of_their_consumers_are_new() -> None:
    once = arrivals(
        ConsumerArrivals(), [0, 0, 1, 1, 1], [True, False, True, False, False]
    )
    assert rows(once) == {"c0": [NOW, 2, 1, 2, 1, NOW]}
    assert once.keys.tolist() == [5]
    twice = arrivals(once, [0, 1], [True, True], now=NOW + 10)
    assert rows(twice) == {
        "c0": [NOW, 3, 2, 4, 2, NOW + 10],
        "c1": [NOW + 10, 1, 1, 2, 1, NOW + 10],
    }


def test_three_of_four_are_more_than_half() -> None:
    once = arrivals(ConsumerArrivals(), [0, 0, 0, 0], [True, True, True, False])
    assert rows(once) == {"c0": [NOW, 4, 3, 6, 1, NOW]}


def test_rows_are_by_key() -> None:
    later_first = arrivals(arrivals(ConsumerArrivals(), [1], [True]), [0], [True])
    assert later_first.keys.tolist() == [5, 6]
    assert later_first.clients.tolist() == ["c0", "c1"]
    assert later_first.numbers[prefetch.SEEN].tolist() == [1, 1]


@pytest.mark.parametrize(("member", "poll"), [([HIDDEN], {}), ([0], {"known": False})])
def test_who_is_hidden_or_on_a_queue_that_was_not_known_has_not_come(
    member: list[int], poll: dict[str, Any]
) -> None:
    assert rows(arrivals(ConsumerArrivals(), member, [True], **poll)) == {}


def test_whose_queue_is_not_known_has_not_come() -> None:
    came = consumers([0.0], new=[True], queue=[-1])
    assert rows(ConsumerArrivals().advance(found(came), clients_of([0]))) == {}


def test_hidden_consumers_are_not_of_the_first_client() -> None:
    once = arrivals(
        ConsumerArrivals(), [HIDDEN, HIDDEN, HIDDEN, 0], [False, False, False, True]
    )
    assert rows(once) == {"c0": [NOW, 1, 1, 2, 1, NOW]}


@pytest.mark.parametrize(("seconds", "kept"), [(SECONDS, True), (SECONDS + 1, False)])
def test_who_comes_no_more_is_forgotten(seconds: float, kept: bool) -> None:
    once = arrivals(ConsumerArrivals(), [0], [True])
    later = arrivals(once, [0], [False], now=NOW + seconds)
    assert ("c0" in rows(later)) is kept
    assert later.keys.tolist() == ([5] if kept else [])
    assert later.swept == NOW + seconds


@pytest.mark.parametrize(
    ("seconds", "swept"), [(SWEEP_SECONDS, False), (SWEEP_SECONDS + 1, True)]
)
def test_not_at_each_poll(seconds: float, swept: bool) -> None:
    once = arrivals(ConsumerArrivals(), [0], [True])
    assert once.swept == NOW
    later = once.without_idle_clients(NOW + seconds)
    assert (later is not once) is swept


@pytest.mark.parametrize(
    ("seconds", "begin", "seen"),
    [(2 * SECONDS, NOW, 6), (2 * SECONDS + 2, NOW + 301, 3)],
)
def test_what_is_older_counts_half(seconds: float, begin: float, seen: float) -> None:
    """Five were seen in ten minutes, all of them within the last one."""
    numbers = np.array([[NOW], [5.0], [4.0], [3.0], [2.0], [NOW + seconds]])
    before = ConsumerArrivals(
        np.array([5]), np.array(["c0"], object), numbers, NOW + seconds
    )
    after = arrivals(before, [0], [True], now=NOW + seconds)
    assert rows(after)["c0"][:2] == [begin, seen]


def test_half_of_each_number() -> None:
    numbers = np.array([[0.0], [7.0], [5.0], [7.0], [9.0], [80.0]])
    assert halved(numbers, 100.0).T.tolist() == [[50, 3, 2, 3.5, 4, 80]]


def test_no_more_clients_are_followed_than_there_is_room_for() -> None:
    full = ConsumerArrivals(
        np.arange(100, 99 + MOST),
        np.empty(MOST - 1, object),
        np.full((6, MOST - 1), NOW),
        NOW,
    )
    after = arrivals(full, [0, 1], [True, True])
    assert len(after.keys) == MOST
    assert after.keys[0] == 5
    assert after.swept == NOW
