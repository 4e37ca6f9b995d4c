"""Dead letters of OpenMQ that came out of clients' buffers were acknowledged by nobody, whatever else leaves.

Polls as those of a real broker under load, in smaller numbers: a client lets go of what expired in its buffer as of
what it acknowledged, and only the dead message queue shows it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from account.openmq_world import Openmq, openmq_broker
from account.test_openmq_not_acknowledged import bounds
from penstock.account.openmq_arrivals import AGREES, DeadLetterArrivals, Explanations

EXPIRED = 8
ACKNOWLEDGED = 2
"""Each poll, in and out of the buffer of the client of q."""
Numbers = Mapping[str, float]
OTHER: dict[str, float] = {"A": 0.0, "K": 0.0, "M": 0.0, "D": 0.0, "uncommitted": 0.0}


def expires_in_buffers(
    broker: Openmq,
    alone: Sequence[float],
    *,
    visits: bool = False,
    backlog: float = 0.0,
) -> dict[str, float]:
    """At each poll so many messages of another queue leave that no consumer acknowledged, and never expired.

    visits: the other queue has clients that come and go. backlog: what is always in it. Returns its last numbers.
    """
    other = {**OTHER, "A": backlog, "M": backlog}
    broker.see(consumers={"c": (0, 0)}, others={"other": other}, polls=5)
    for n, more in enumerate(alone, 1):
        other |= {"A": other["A"] + more, "K": other["K"] + more}
        if visits:
            other["consumers"] = float(n % 2)
        left = (EXPIRED + ACKNOWLEDGED) * n
        broker.see(
            left,
            left,
            dead=EXPIRED * n,
            consumers={"c": (left, 0.0)},
            others={"other": dict(other)},
        )
    return other


@pytest.mark.parametrize(
    "more",
    [{}, {"visits": True}, {"backlog": 500.0}],
    ids=["full store", "visits", "full store with a backlog"],
)
@pytest.mark.parametrize("alone", [(4, 4, 4), (30, 30, 30), (30, 0, 0), (2, 14, 8)])
def test_what_another_queue_loses_otherwise_explains_no_dead_letter(
    alone: tuple[float, ...], more: Mapping[str, Any]
) -> None:
    """More or less than arrives, or as much on the whole: as of a full store, which raises what came and what left."""
    broker = openmq_broker()
    expires_in_buffers(broker, alone, **more)
    assert bounds(broker.left()["acknowledged"])[0] <= ACKNOWLEDGED * len(alone)
    assert bounds(broker.left()["dead_lettered"])[1] >= EXPIRED * len(alone)


def test_what_leaves_a_backlog_that_a_client_has_visited_explains_no_dead_letter() -> (
    None
):
    """Another one may have come and taken it between two polls."""
    broker = openmq_broker()
    backlog = {**OTHER, "A": 500.0, "M": 500.0}
    for visitors in (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        broker.see(
            consumers={"c": (0, 0)},
            others={"other": {**backlog, "consumers": visitors}},
        )
    for n in (1, 2, 3):
        left = (EXPIRED + ACKNOWLEDGED) * n
        other = {**backlog, "K": 4.0 * n, "M": 500 - 4.0 * n}
        broker.see(
            left,
            left,
            dead=EXPIRED * n,
            consumers={"c": (left, 0.0)},
            others={"other": other},
        )
    assert bounds(broker.left()["acknowledged"])[0] <= ACKNOWLEDGED * 3


def test_what_producers_roll_back_explains_no_dead_letter() -> None:
    """It came long before, as what is in the backlog."""
    broker = openmq_broker()
    backlog = {**OTHER, "A": 600.0, "M": 500.0, "uncommitted": 100.0}
    broker.see(consumers={"c": (0, 0)}, others={"other": backlog}, polls=5)
    for n in (1, 2, 3):
        left = (EXPIRED + ACKNOWLEDGED) * n
        other = {**backlog, "K": 20.0 * n, "uncommitted": 100 - 20.0 * n}
        broker.see(
            left,
            left,
            dead=EXPIRED * n,
            consumers={"c": (left, 0.0)},
            others={"other": other},
        )
    assert bounds(broker.left()["acknowledged"])[0] <= ACKNOWLEDGED * 3


def test_beside_what_is_surely_a_dead_letter_all_was_acknowledged() -> None:
    """10 of a backlog expire at each poll, and nobody comes for it; a third queue loses some otherwise."""
    broker = openmq_broker()
    for n in (0, 0, 0, 0, 0, 1, 2, 3, 4):
        others = {
            "backlog": {**OTHER, "A": 500.0, "K": 10.0 * n, "M": 500 - 10.0 * n},
            "full store": {**OTHER, "A": 20.0 * n, "K": 20.0 * n},
        }
        broker.see(
            30 * n, 30 * n, dead=10 * n, consumers={"c": (30 * n, 0)}, others=others
        )
    assert broker.left() == {"acknowledged": 120}


def test_what_a_limit_has_removed_is_surely_a_dead_letter() -> None:
    """As in the buffers of q nothing expires."""
    ring: dict[str, Any] = {"limit_messages": 100, "policy": "remove_oldest"}
    broker = openmq_broker()
    for n in (0, 0, 0, 0, 0, 1, 2, 3, 4):
        others = {
            "settled": {**OTHER, "A": 30.0 * n, "K": 30.0 * n},
            "full store": {**OTHER, "A": 20.0 * n, "K": 20.0 * n},
        }
        broker.see(
            100 + 10 * n,
            10 * n,
            100,
            dead=10 * n,
            consumers={"c": (0, 10)},
            others=others,
            **ring,
        )
    assert bounds(broker.left()["removed"])[0] == 40
    assert float(broker.state.judgement.openmq_account.arrivals.unexplained) == 0


@pytest.mark.parametrize("letters", [0, 1])
@pytest.mark.parametrize("alone", [(0, 0, 0), (30, 30, 30)], ids=["one source", "two"])
def test_what_leaves_before_its_dead_letter_is_read_is_not_yet_acknowledged(
    letters: int, alone: tuple[float, ...]
) -> None:
    """Once clients' buffers are a source, of 10 that left one may be a dead letter that is read at the next poll."""
    broker = openmq_broker()
    others = {"other": expires_in_buffers(broker, alone)}
    dead = EXPIRED * 3
    broker.see(40, 40, dead=dead, consumers={"c": (40, 0)}, others=others)
    least = bounds(broker.left()["acknowledged"])[0]
    most = bounds(broker.left()["dead_lettered"])[1]
    assert least + most == 40
    broker.see(
        40, 40, dead=dead + letters, consumers={"c": (40, 0)}, others=others, polls=2
    )
    assert bounds(broker.left()["acknowledged"])[0] == least + 1 - letters
    assert bounds(broker.left()["dead_lettered"])[1] == most - 1 + letters


def test_what_left_while_the_agent_was_away_may_have_become_the_dead_letters_of_that_time() -> (
    None
):
    broker = (
        openmq_broker()
        .see(consumers={"c": (0, 0)}, polls=5)
        .see(20, 20, consumers={"c": (20, 0)}, polls=2)
    )
    broker.restart_agent()
    broker.see(120, 120, dead=30, consumers={"c": (120, 0)}, polls=4)
    assert broker.left() == {"acknowledged": (90, 120), "dead_lettered": (0, 30)}


# --- the numbers of a broker


def advanced(
    *polls: tuple[float, Explanations], share_apart: float = 0.0
) -> list[float]:
    """What is unexplained at each poll; polls: letters, and what may explain them."""
    arrivals = DeadLetterArrivals()
    found = []
    for letters, explanations in polls:
        arrivals = arrivals.advance(letters, explanations, share_apart)
        found.append(arrivals.unexplained)
    return found


def alone(messages: float, sure: float = 0.0) -> Explanations:
    return Explanations(alone=messages, sure=sure)


def test_as_much_as_may_explain_them_does() -> None:
    assert advanced((10, alone(10)), (0, alone(0)), (7, alone(7))) == [0, 0, 0]


def test_letters_and_their_messages_may_be_a_poll_apart() -> None:
    early = advanced((3, alone(0)), (10, alone(13)), (10, alone(10)))
    late = advanced((0, alone(3)), (13, alone(10)), (10, alone(10)))
    assert early == [3, 0, 0]
    assert late == [0, 0, 0]


def test_each_letter_is_matched_once() -> None:
    late = ((0, alone(3)), (3, alone(0)), (0, alone(0)))
    assert advanced(*late, *late, (10, alone(10))) == [0] * 7
    assert advanced((2, alone(2)), (0, alone(2)), (2, alone(0)), (2, alone(0))) == [
        0,
        0,
        0,
        2,
    ]


@pytest.mark.parametrize("messages", [0, 6, 14], ids=["none", "fewer", "more"])
def test_once_both_differ_only_what_is_sure_explains_letters(messages: float) -> None:
    assert advanced((10, alone(messages, sure=4)), (10, alone(10, sure=4))) == [6, 6]


def test_both_may_differ_by_as_much_as_reads_that_are_not_atomic() -> None:
    assert advanced((10, alone(13)), (10, alone(7)), (10, alone(10))) == [0, 0, 0]


def test_small_differences_add_up() -> None:
    """Two left at each second poll, and no letter came of them."""
    assert advanced(
        (0, alone(2)), (0, alone(0)), (0, alone(2)), (0, alone(0)), (10, alone(10))
    ) == [0, 0, 0, 0, 10]


def test_the_doubt_ends() -> None:
    agrees = [(10.0, alone(10))] * AGREES
    assert advanced((10, alone(0)), *agrees) == [10] * AGREES + [0]


@pytest.mark.parametrize("refused", [8.0, 10.0, 30.0])
def test_one_kind_that_agrees_explains_all_letters(refused: float) -> None:
    """Beside others that were too large, and have nothing to do with them."""
    assert advanced(*[(10.0, Explanations(alone=10, refused=refused))] * 4) == [0] * 4


@pytest.mark.parametrize("one", [{"refused": 10.0}, {"alone": 4.0, "refused": 6.0}])
def test_two_kinds_may_explain_them_together(one: dict[str, float]) -> None:
    assert advanced(*[(10.0, Explanations(**one))] * 4) == [0] * 4


def test_reads_that_were_far_apart_make_no_doubt() -> None:
    """Of 50 that left, 10 may have become dead letters after the dead message queue was read."""
    polls = (40, alone(50)), (60, alone(50)), (40, alone(40))
    assert advanced(*polls, share_apart=0.2) == [0, 0, 0]
    assert advanced(*polls, share_apart=0.1) == [40, 60, 40]
