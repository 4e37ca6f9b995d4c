"""Clients that come and go without getting anything done, number by number."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.learned import churn
from penstock.learned.churn import (
    KEEP,
    LONG,
    OLD,
    SECONDS,
    SHOWN,
    Churn,
    CrashLoop,
    CrashLoops,
    Departed,
    Departure,
    Streak,
    Vanished,
)
from penstock.series.labels import HIDDEN, ClientSeries, Grouping

NOW = 10_000.0
STEP = 15.0
QUEUE_KEY = 40
OTHER_KEY = 41


# --- in a row


@pytest.mark.parametrize(
    ("run", "on", "holds", "expected"),
    [
        (0, False, True, (1, False)),
        (1, False, True, (2, True)),
        (2, True, True, (3, True)),
        (3, True, False, (-1, True)),
        (-1, True, False, (-2, False)),
        (-1, True, True, (1, True)),
        (0, False, False, (-1, False)),
        (-1, False, True, (1, False)),
    ],
)
def test_two_polls_to_enter_two_to_leave(
    run: int, on: bool, holds: bool, expected: tuple[int, bool]
) -> None:
    assert churn.next_run(run, on=on, holds=holds) == expected


def test_it_comes_only_when_it_may() -> None:
    assert churn.next_run(5, on=False, holds=True, may_come=False) == (6, False)
    assert churn.next_run(5, on=True, holds=True, may_come=False) == (6, True)


# --- who went


def client(number: int) -> ClientSeries:
    return ClientSeries("broker", "address", "queue", f"client {number}")


C0, C1, C2 = map(client, range(3))


def grouping(*member: int, clients: int = 3) -> Any:
    """Three clients, and the place of each consumer among them."""
    index = Index.of([client(number) for number in range(clients)])
    return Grouping(index=index, member=np.array(member, np.intp))


def numbers_of(held: list[float], settled: list[float]) -> Any:
    """At the poll before."""
    numbers = np.zeros((4, len(held)))
    numbers[churn.HELD] = held
    numbers[churn.SETTLED] = settled
    return SimpleNamespace(consumers=SimpleNamespace(numbers=numbers))


def gone(
    at: list[int], queue: list[int], judged: tuple[bool, bool] = (True, True)
) -> Any:
    """Consumers by their place at the poll before, and their queue now."""
    went = SimpleNamespace(at=np.array(at), queue=np.array(queue))
    return SimpleNamespace(consumer=SimpleNamespace(gone=went), judged=np.array(judged))


def test_who_went_with_messages() -> None:
    before = numbers_of([5.0, 0.5, 0.0, 7.0, np.nan], [1.0, np.nan, 0.0, 4.0, 0.0])
    went = churn.departed_consumers(
        gone([0, 1, 2, 3, 4], [1, 0, 0, 1, 0]), grouping(0, 1, 1, 2, 2), before
    )
    assert went.client.tolist() == [0, 1, 2]
    assert went.at.tolist() == [0, 1, 3]
    assert went.queue.tolist() == [1, 0, 1]
    assert went.held.tolist() == [5, 0.5, 7]
    assert went.settled.tolist() == [1, 0, 4]


@pytest.mark.parametrize(
    ("expected", "clients"),
    [
        (gone([0], [-1]), grouping(0)),
        (gone([0], [0]), grouping(HIDDEN)),
        (gone([0], [0]), grouping()),
        (gone([0], [1], judged=(True, False)), grouping(0)),
    ],
)
def test_not_from_a_queue_that_went_nor_one_that_is_hidden_or_not_judged(
    expected: Any, clients: Any
) -> None:
    assert (
        len(
            churn.departed_consumers(expected, clients, numbers_of([5.0], [0.0])).client
        )
        == 0
    )


# --- crash loops


def crashed(*polls: tuple[float, float, float], step: float = 60.0) -> CrashLoop:
    """At each poll so many went that had settled nothing, and that had; and what was settled unseen before."""
    first = NOW - step * (len(polls) - 1)
    vanished = []
    for number, (gone, settled, unseen) in enumerate(polls):
        one = Vanished(first + step * number, gone, settled, held=10.0, unseen=unseen)
        vanished.append(one)
    return CrashLoop(QUEUE_KEY, tuple(vanished), run=1)


@pytest.mark.parametrize(
    ("polls", "unseen", "expected"),
    [
        ([(2, 0, 0), (2, 0, 0), (1, 0, 0)], 0.0, True),
        ([(2, 0, 0), (1, 0, 0), (1, 0, 0)], 0.0, False),
        ([(9, 0, 0), (9, 0, 0)], 0.0, False),
        ([(9, 0, 0), (9, 0, 0), (0, 0, 0)], 0.0, False),
        ([(3, 1, 0), (2, 0, 0), (2, 0, 0)], 0.0, True),
        ([(2, 1, 0), (2, 0, 0), (2, 0, 0)], 0.0, False),
        ([(2, 0, 0), (2, 0, 0), (1, 0, 0)], 3.9, True),
        ([(2, 0, 0), (2, 0, 0), (1, 0, 0)], 4.0, False),
        ([(4, 0, 0), (4, 0, 0), (4, 0, 4)], 5.4, False),
        ([(9, 0, 0), (9, 0, 0), (9, 0, 0)], 8.4, False),
        ([(9, 0, 0), (9, 0, 9), (9, 0, 9)], 9.0, False),
    ],
)
def test_five_that_settled_nothing_went_at_three_polls(
    polls: list[tuple[float, float, float]], unseen: float, expected: bool
) -> None:
    """And two more for each that had settled something, or may have unseen."""
    after = crashed(*polls).advance(NOW, unseen, served=True)
    assert after.run == (2 if expected else -1)
    assert after.on is expected


def test_where_nobody_else_settles_it_is_no_loop() -> None:
    loop = crashed((9, 0, 0), (9, 0, 0), (9, 0, 0))
    assert loop.advance(NOW, 0.0, served=False).run == -1


def test_what_went_ten_minutes_ago_does_not_count() -> None:
    loop = crashed((9, 0, 0), (9, 0, 0), (9, 0, 0), (9, 0, 0), step=SECONDS / 3)
    assert len(loop.advance(NOW, 0.0, served=True).vanished) == 4
    later = loop.advance(NOW + 1, 0.0, served=True)
    assert len(later.vanished) == 3
    assert later.begin == NOW - 2 * SECONDS / 3


def test_a_loop_ends_when_all_is_forgotten() -> None:
    loop = replace(crashed((9, 0, 0)), on=True)
    ended = loop.advance(NOW + SECONDS + 1, 0.0, served=True)
    assert (ended.vanished, ended.on) == ((), False)


def test_its_numbers_are_sums() -> None:
    loop = crashed((2, 1, 0), (3, 0, 0))
    assert (loop.consumers, loop.held, loop.begin) == (5, 20, NOW - 60)


QUEUES = (
    Index[Any]
    .empty()
    .advance(np.array([QUEUE_KEY, OTHER_KEY]), lambda _: ["q", "r"])[0]
)
CLIENTS = grouping(0, 1, 1)


def poll(*, now: float = NOW, **said: Any) -> Any:
    plain = {
        "d_settled": [0.0, 0.0],
        "d_left": [0.0, 0.0],
        "d_uncommitted": [0.0, 0.0],
        "keeps": [False, False],
    }
    columns = {
        name: np.array(values)
        for name, values in (plain | said).items()
        if name != "settling"
    }
    return SimpleNamespace(
        now=now, queues=QUEUES, settling=said.get("settling", False), **columns
    )


def went(*rows: tuple[int, int, float, float]) -> Departed:
    """Client, queue, what it held and settled; at the poll before each was at its place in this list."""
    columns = [np.array(one) for one in zip(*rows, strict=True)] or [np.empty(0)] * 4
    client, queue, held, settled = columns
    return Departed(
        client.astype(np.intp),
        np.arange(len(rows)),
        queue.astype(np.intp),
        held,
        settled,
    )


def lost(
    found: Any, *rows: tuple[int, int, float, float]
) -> dict[Any, tuple[int, Vanished]]:
    return churn.vanished_by_client(found, went(*rows), CLIENTS, np.array([3.0, 4.0]))


def test_what_vanished_by_client() -> None:
    """Two of the first client on the second queue, of which one had settled something; one of the second client."""
    assert lost(poll(), (0, 1, 5.0, 0.0), (0, 1, 7.0, 0.5), (1, 0, 2.0, 0.0)) == {
        C0: (OTHER_KEY, Vanished(NOW, 1, 1, 5, 4)),
        C1: (QUEUE_KEY, Vanished(NOW, 1, 0, 2, 3)),
    }


@pytest.mark.parametrize("expected", [poll(settling=True), poll(keeps=[True, False])])
def test_nothing_vanishes_after_a_start_or_from_a_queue_that_keeps_all(
    expected: Any,
) -> None:
    assert lost(expected, (0, 0, 5.0, 0.0)) == {}
    assert lost(poll()) == {}


SETTLED = np.array([np.nan, np.nan])
"""Something is settled at both queues."""
STARVES = np.array([0.0, 0.0])


def loops(
    before: CrashLoops,
    found: Any,
    *rows: tuple[int, int, float, float],
    unsettled: Any = SETTLED,
) -> CrashLoops:
    return before.advance(found, went(*rows), CLIENTS, unsettled)


def test_what_is_settled_unseen_is_summed_up() -> None:
    result = poll(d_settled=[9.0, np.nan], d_left=[4.0, 2.0], d_uncommitted=[1.0, 0.0])
    once = loops(CrashLoops(), result)
    assert once.unseen.tolist() == [6, -2]
    assert loops(once, result).unseen.tolist() == [12, -4]


def test_a_client_is_followed_from_the_first_that_settled_nothing() -> None:
    assert loops(CrashLoops(), poll(), (0, 0, 5.0, 1.0)).loops == {}
    once = loops(CrashLoops(), poll(), (0, 0, 5.0, 0.0))
    assert [*once.loops] == [C0]
    again = loops(once, poll(now=NOW + STEP), (0, 0, 5.0, 1.0))
    vanished = again.loops[C0].vanished
    assert [(one.consumers, one.settled) for one in vanished] == [(1, 0), (0, 1)]
    assert again.loops[C0].queue == QUEUE_KEY


def looping(polls: int, unsettled: Any = SETTLED) -> CrashLoops:
    """Two crash at each poll."""
    result = CrashLoops()
    for number in range(polls):
        rows = [(0, 0, 5.0, 0.0), (0, 0, 5.0, 0.0)]
        result = loops(result, poll(now=NOW + 70 * number), *rows, unsettled=unsettled)
    return result


@pytest.mark.parametrize(
    ("polls", "run", "pending"), [(2, -2, ()), (3, 1, (C0,)), (4, 2, (C0,))]
)
def test_who_loops_is_asked_at_each_poll(
    polls: int, run: int, pending: tuple[ClientSeries, ...]
) -> None:
    result = looping(polls)
    assert result.loops[C0].run == run
    assert result.loops[C0].on is (run == 2)
    assert result.pending == pending


def test_where_nothing_is_settled_nobody_loops() -> None:
    assert looping(5, STARVES).pending == ()


def test_loops_of_a_queue_that_went_are_forgotten() -> None:
    fewer = QUEUES.advance(np.array([OTHER_KEY]), lambda _: [])[0]
    result = poll(
        now=NOW + 1000,
        d_settled=[0.0],
        d_left=[0.0],
        d_uncommitted=[0.0],
        keeps=[False],
    )
    result.queues = fewer
    assert loops(looping(4), result, unsettled=np.array([np.nan])).loops == {}


@pytest.mark.parametrize(("seconds", "kept"), [(60.0, True), (61.0, False)])
def test_from_time_to_time_those_in_which_nothing_happens_are_forgotten(
    seconds: float, kept: bool
) -> None:
    old = CrashLoops(QUEUES, np.zeros(2), {C0: crashed((1, 0, 0))}, swept=NOW + 1000)
    after = loops(old, poll(now=NOW + 1000 + seconds))
    assert (C0 in after.loops) is kept
    assert after.swept == NOW + 1000 + (0 if kept else seconds)


def test_the_next_agent_begins_with_nothing_settled_unseen() -> None:
    here = crashed((2, 0, 5), (3, 0, 7))
    of_other = replace(here, queue=99)
    kept = dict(
        CrashLoops(QUEUES, np.array([4.0, 0.0]), {C0: here, C1: of_other}).kept()
    )
    assert [one.unseen for one in kept[C0].vanished] == [1, 3]
    assert [one.unseen for one in kept[C1].vanished] == [5, 7]


# --- streaks


def holders(**said: Any) -> list[bool]:
    """Of a consumer that holds something from a queue that settles nothing."""
    queue = {"d_settled": 0.0, "known": True} | {
        k: said[k] for k in ("d_settled", "known") if k in said
    }
    consumer = {"held": 1.0, "delivered": 0.0} | {
        k: said[k] for k in ("held", "delivered") if k in said
    }
    place = said.get("place", 0)
    result: Any = SimpleNamespace(
        **{name: np.array([value]) for name, value in queue.items()}
    )
    result.consumer = SimpleNamespace(
        **{name: np.array([value]) for name, value in consumer.items()}
    )
    result.consumer.at_queue = lambda values, unknown: np.append(values, unknown)[
        [place]
    ]
    came = np.array([said.get("came", True)])
    holds: list[bool] = churn.idle_holders(
        result, grouping(said.get("member", 0)), came
    ).tolist()
    return holds


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, True),
        ({"held": 0.5}, True),
        ({"held": 0.0}, False),
        ({"held": 0.0, "delivered": 0.5}, True),
        ({"held": 0.0, "delivered": 5.0, "came": False}, False),
        ({"d_settled": 1.0}, False),
        ({"d_settled": np.nan}, False),
        ({"known": False}, False),
        ({"member": HIDDEN}, False),
        ({"place": -1}, False),
    ],
)
def test_who_holds_something_of_a_queue_that_settles_nothing(
    said: dict[str, Any], expected: bool
) -> None:
    assert holders(**said) == [expected]


@pytest.mark.parametrize(
    ("hold_since", "interval", "begin"),
    [
        ([NOW - 5], 15.0, NOW - 5),
        ([NOW - 5, NOW - 9, np.nan], 15.0, NOW - 9),
        ([NOW - 99], 15.0, NOW - 15),
        ([NOW + 5], 15.0, NOW),
        ([np.nan], 15.0, NOW),
        ([NOW - 5], np.nan, NOW),
    ],
)
def test_a_streak_begins_when_its_first_got_what_it_holds(
    hold_since: list[float], interval: float, begin: float
) -> None:
    """Not before the poll before."""
    result: Any = SimpleNamespace(now=NOW, interval=interval)
    assert churn.begin_of(result, np.array(hold_since)) == begin


def joined(before: dict[Any, Streak], *came: int) -> dict[Any, Streak]:
    rows = np.array([SimpleNamespace(queue=name) for name in "qrs"], object)
    result: Any = SimpleNamespace(
        now=NOW,
        interval=STEP,
        consumer=SimpleNamespace(index=SimpleNamespace(rows=rows)),
    )
    inputs: Any = SimpleNamespace(
        found=result,
        groups=SimpleNamespace(clients=CLIENTS),
        unacked=SimpleNamespace(hold_since=np.array([NOW - 1, NOW - 2, NOW - 3])),
        client_patience=np.array([100.0, 200.0, 300.0]),
    )
    return churn.with_new_consumers(before, np.array(came, np.intp), inputs)


def test_each_client_has_a_streak_of_those_that_came() -> None:
    assert joined({}, 0, 1, 2) == {
        C0: Streak(NOW - 1, "q", ids=1, polls=1, last=NOW, patience=100),
        C1: Streak(NOW - 3, "r", ids=2, polls=1, last=NOW, patience=200),
    }


def test_a_streak_goes_on() -> None:
    before: Any = {
        C1: Streak(5.0, "x", ids=4, polls=2, last=7.0, patience=1.0, run=3, on=True)
    }
    assert joined(before, 2) == {
        C1: Streak(5.0, "x", ids=5, polls=3, last=NOW, patience=300, run=3, on=True)
    }


YOUNG = Streak(NOW - 300, "q", ids=7, polls=OLD, last=NOW, patience=300.0, run=1)


@pytest.mark.parametrize(
    ("streak", "present", "run", "on"),
    [
        (YOUNG, 3, 2, True),
        (YOUNG, 3.5, -1, False),
        (replace(YOUNG, ids=4), 0, 2, True),
        (replace(YOUNG, ids=3), 0, -1, False),
        (replace(YOUNG, polls=OLD - 1), 0, -1, False),
        (replace(YOUNG, patience=300.0 + STEP), 0, 2, False),
        (replace(YOUNG, patience=300.0 + STEP + 1), 0, -1, False),
        (replace(YOUNG, patience=np.nan), 0, -1, False),
        (replace(YOUNG, on=True, ids=0), 0, -1, True),
    ],
)
def test_a_streak_is_active_once_enough_came_in_longer_than_their_patience(
    streak: Streak, present: float, run: int, on: bool
) -> None:
    result: Any = SimpleNamespace(now=NOW, interval=STEP, settling=False)
    after = churn.advance_streak(streak, result, present, 4)
    assert (after.run, after.on) == (run, on)


def test_after_a_start_no_streak_is() -> None:
    result: Any = SimpleNamespace(now=NOW, interval=STEP, settling=True)
    assert churn.advance_streak(YOUNG, result, 0, 4).run == -1


ACTIVE = replace(YOUNG, on=True)


@pytest.mark.parametrize(
    ("streak", "d_settled", "known", "lasts"),
    [
        (ACTIVE, 0.0, True, True),
        (ACTIVE, np.nan, True, True),
        (ACTIVE, 0.5, True, False),
        (ACTIVE, 0.0, False, False),
        (replace(ACTIVE, queue="other"), 0.0, True, False),
        (replace(ACTIVE, last=NOW - KEEP), 0.0, True, True),
        (replace(ACTIVE, last=NOW - KEEP - 1), 0.0, True, False),
    ],
)
def test_a_streak_ends_when_its_queue_settles_or_nobody_comes(
    streak: Streak, d_settled: float, known: bool, lasts: bool
) -> None:
    index: Any = Index.of([SimpleNamespace(name="q")])
    result: Any = SimpleNamespace(
        now=NOW, queues=index, d_settled=np.array([d_settled]), known=np.array([known])
    )
    quiet = replace(streak, on=False)
    before = Churn(streaks={C0: streak, C1: quiet})
    lasting, ended = before._lasting(result)
    assert lasting == ({C0: streak, C1: quiet} if lasts else {})
    assert ended == ({} if lasts else {C0: streak})


def test_without_streaks_none_lasts() -> None:
    result: Any = None
    assert Churn()._lasting(result) == ({}, {})


def test_active_ones_stand_and_those_that_have_just_ended() -> None:
    active: Any = {C0: ACTIVE, C1: YOUNG}
    ended: Any = {C2: ACTIVE}
    assert Churn(streaks=active, ended=ended).standing() == {C0: ACTIVE, C2: ACTIVE}


# --- holders that left


@pytest.mark.parametrize(
    ("age", "d_settled", "expected"),
    [
        (LONG, 0.0, Departure(NOW, NOW - STEP - LONG, 5.0, LONG, 5.0)),
        (LONG - 1, 0.0, None),
        (LONG, 4.5, Departure(NOW, NOW - STEP - LONG, 5.0, LONG, 0.5)),
        (LONG, 5.0, None),
        (np.nan, 0.0, None),
    ],
)
def test_who_left_with_messages_that_it_had_for_long(
    age: float, d_settled: float, expected: Departure | None
) -> None:
    before_that = NOW - STEP
    unacked: Any = SimpleNamespace(unacked_since=np.array([before_that - age]))
    poll_now = poll(d_settled=[d_settled, 0.0])
    left = Churn(clients=CLIENTS)._left(
        poll_now, went((1, 0, 5.0, 0.0)), before_that, unacked
    )
    assert left == ({} if expected is None else {C1: expected})


@pytest.mark.parametrize(("seconds", "kept"), [(SHOWN, True), (SHOWN + 1, False)])
def test_that_one_left_is_kept_for_a_while(seconds: float, kept: bool) -> None:
    event = Departure(NOW - seconds, 0.0, 5.0, 50.0, 5.0)
    unacked: Any = SimpleNamespace(unacked_since=np.empty(0))
    before = Churn(left={C0: event}, clients=CLIENTS)
    assert before._left(poll(), went(), NOW - STEP, unacked) == (
        {C0: event} if kept else {}
    )
