"""`stalled.hangs`: of one consumer proof that it hangs, as others of its client and connection work beside it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, column, inputs_after, positions
from conditions.world import Judged
from penstock.conditions.stalled import MEANWHILE, hangs
from penstock.observation.poll import RuleInputs

STEP = 5.0
PROOF = 15.0
"""Seconds, of which one poll before the end is enough."""
NEARLY = PROOF - STEP


@cache
def polled(**beside: Any) -> RuleInputs:
    """A queue with a backlog, of which one consumer hangs and another one settles 10 a second.

    beside: what is said of the second one.
    """
    world = Judged(step=STEP)
    begin = world.now

    def said(poll: int) -> dict[str, Any]:
        now = begin + STEP * (poll + 1)
        settled = 50.0 * poll
        queue = {"A": 1000.0, "K": settled, "M": 1000.0 - settled, "D": 20.0}
        hung = {"T": 10.0, "N": 10.0, "C": 0.0, "Ld": begin, "connection": "one"}
        works = {
            "T": 10.0,
            "N": 10.0 + settled,
            "C": settled,
            "L": now,
            "Ld": now,
            "connection": "one",
        }
        return {
            "queues": {"q": queue},
            "consumers": {"hung": hung, "works": works | beside},
        }

    return inputs_after(world, 8, said)


def hung(poll: RuleInputs) -> set[str]:
    rows = poll.found.consumer.index.rows[hangs(poll)]
    return {row.id for row in rows}


def ago(seconds: float) -> float:
    """By the clock of the poll."""
    return polled().found.now - seconds


def test_one_hangs_while_another_of_its_client_and_connection_works() -> None:
    assert hung(polled()) == {"hung"}


@pytest.mark.parametrize(
    "beside", [{"connection": "other"}, {"connection": "-1"}, {"client": "other"}]
)
def test_only_those_of_its_own_client_and_connection_prove_it(
    beside: dict[str, Any],
) -> None:
    assert hung(polled(**beside)) == set()


def test_a_connection_that_is_not_known_is_no_common_one() -> None:
    assert (
        hung(changed(polled(), snapshot__consumer_connection=positions(-1, -1)))
        == set()
    )


def test_any_key_is_one_of_a_connection() -> None:
    assert hung(changed(polled(), snapshot__consumer_connection=positions(0, 0))) == {
        "hung"
    }


@pytest.mark.parametrize(
    ("seconds", "found"), [(NEARLY, {"hung"}), (NEARLY - 0.1, set())]
)
def test_it_must_hold_for_as_long_as_proof_takes(
    seconds: float, found: set[str]
) -> None:
    since = column(ago(seconds), ago(0))
    assert hung(changed(polled(), unacked__unacked_since=since)) == found


@pytest.mark.parametrize(
    ("seconds", "found"), [(NEARLY, {"hung"}), (NEARLY - 0.1, set())]
)
@pytest.mark.parametrize("what", ["delivered", "ready"])
def test_for_as_long_it_gets_none_and_messages_wait(
    what: str, seconds: float, found: set[str]
) -> None:
    poll = polled()
    if what == "ready":
        poll = changed(poll, timers__ready=column(ago(seconds)))
    else:
        poll = changed(
            poll, found__consumer__last_delivery=column(ago(seconds), ago(0))
        )
    assert hung(poll) == found


def test_nothing_is_proven_where_no_message_waits() -> None:
    assert hung(changed(polled(), timers__ready=column(np.nan))) == set()


def test_a_queue_that_is_not_known_has_no_waiting_messages() -> None:
    poll = changed(polled(), found__consumer__queue=positions(-1, 0))
    assert hung(poll) == set()


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        (0.0, {"hung"}),
        (0.5, {"hung"}),
        (2 * STEP - 0.1, {"hung"}),
        (2 * STEP, set()),
        (2.5 * STEP, set()),
        (np.nan, set()),
    ],
)
def test_the_others_settled_within_two_polls(seconds: float, found: set[str]) -> None:
    settled = column(np.nan, ago(seconds))
    assert hung(changed(polled(), unacked__settled=settled)) == found


@pytest.mark.parametrize(
    ("messages", "found"), [(MEANWHILE, {"hung"}), (MEANWHILE - 0.01, set())]
)
def test_the_others_settle_so_many_while_proof_takes(
    messages: float, found: set[str]
) -> None:
    rate = column(0.0, messages / PROOF)
    assert hung(changed(polled(), service_rate=rate)) == found


def test_a_client_that_is_not_shown_is_none() -> None:
    """Hidden clients have no series: whoever has none may be another one."""
    poll = polled()
    groups = changed(poll, groups__clients__member=positions(-1, -1))
    assert hung(groups) == set()


def two_clients(member: tuple[int, ...], keys: tuple[int, ...]) -> RuleInputs:
    """Consumers 0 and 1 hang, 2 works; by their clients and connections."""
    poll = polled()
    twice = {
        "unacked__unacked_since": column(ago(30), ago(30), ago(0)),
        "unacked__settled": column(np.nan, np.nan, ago(0)),
        "service_rate": column(0, 0, 10),
        "found__consumer__last_delivery": column(ago(30), ago(30), ago(0)),
        "found__consumer__queue": positions(0, 0, 0),
        "groups__clients__index": range(2),
        "groups__clients__member": positions(*member),
        "snapshot__consumer_connection": positions(*keys),
    }
    return changed(poll, **twice)


@pytest.mark.parametrize(
    ("member", "keys", "found"),
    [
        ((0, 1, 1), (7, 8, 8), [False, True, False]),
        (
            (0, 1, 1),
            (7, 8, 7),
            [False, False, False],
        ),  # the first is of the connection, of another client
        ((1, 0, 1), (7, 8, 7), [True, False, False]),
        ((1, 1, 1), (7, 7, 7), [True, True, False]),
        ((0, 0, 1), (7, 7, 7), [False, False, False]),
        ((-1, -1, -1), (7, 7, 7), [False, False, False]),
        ((-1, 0, 0), (7, 7, 7), [False, True, False]),
        ((0, -1, -1), (7, 7, 7), [False, False, False]),
    ],
)
def test_client_and_connection_are_looked_at_together(
    member: tuple[int, ...], keys: tuple[int, ...], found: list[bool]
) -> None:
    assert hangs(two_clients(member, keys)).tolist() == found


# --- a ring


def ring(grew: float, **values: Any) -> RuleInputs:
    """Nothing is proven by the others; the ring evicted so many."""
    alone = {
        "snapshot__consumer_connection": positions(-1, -1),
        "evictions__grew": column(grew),
    }
    return changed(polled(), **(alone | values))


@pytest.mark.parametrize(
    ("grew", "found"), [(1.0, {"hung"}), (0.0, set()), (np.nan, set())]
)
@pytest.mark.parametrize("keys", [(-1, -1), (3, 4), ()])
def test_a_full_ring_evicts_what_it_does_not_take(
    grew: float, found: set[str], keys: tuple[int, ...]
) -> None:
    """Also where no connections are known."""
    assert hung(ring(grew, snapshot__consumer_connection=positions(*keys))) == found


def test_the_evictions_of_another_queue_say_nothing() -> None:
    """The last row is what a place of -1 would find."""
    both = {
        "evictions__grew": column(0, 1),
        "timers__ready": column(ago(30), ago(30)),
        "found__consumer__queue": positions(0, 1),
    }
    assert hung(ring(0.0, **both)) == set()


@pytest.mark.parametrize("keys", [(-1, -1), ()])
def test_a_consumer_whose_queue_is_not_known_has_no_ring(keys: tuple[int, ...]) -> None:
    """Even were messages waiting for it."""
    poll = changed(
        polled(),
        evictions__grew=column(1),
        timers__ready=column(ago(30)),
        snapshot__consumer_connection=positions(*keys),
        found__consumer__queue=positions(-1, 0),
        found__consumer__unplaced=positions(0),
    )
    assert hung(poll) == set()
