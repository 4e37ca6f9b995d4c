"""Causes of `not_dispatching`: what the queue waits for, and what its idle consumers lack."""

from collections.abc import Mapping
from typing import Any

import pytest

from causes.world import excluded, possible, proven, states, verdicts
from conditions.openmq_world import openmq, openmq_polls
from penstock.causes.verdict import CauseState, Verdict

WAIT = {"A": 50.0, "M": 50.0, "K": 5.0}
IDLE = {"T": 0.0, "N": 0.0, "C": 0.0, "connection": 7}


def found(
    *idle: dict[str, Any], comes: float = 1.0, **queue: float
) -> Mapping[str, Verdict]:
    rows = {f"c{n}": {**IDLE, "connection": n, **one} for n, one in enumerate(idle)}

    def said(i: int, _: float) -> dict[str, Any]:
        more = comes * i
        return {
            "queues": {"q": {**WAIT, "A": 50.0 + more, "M": 50.0 + more, **queue}},
            "consumers": rows,
        }

    return verdicts("not_dispatching", said)


def by_state(*idle: dict[str, Any], **queue: float) -> dict[CauseState, set[str]]:
    return states(found(*idle, **queue))


OF_QUEUE = {"consumers_before_dispatch", "exclusive", "groups", "browser"}
BROKEN = {"socket_full"}


def test_an_amqp_consumer_without_a_selector_has_no_credit() -> None:
    assert by_state({"protocol": "AMQP"}) == {
        proven: {"no_credit"}, possible: set(),
        excluded: {*OF_QUEUE, *BROKEN, "selector", "not_started", "never_receives", "undeliverable_here"},
    }  # fmt: skip


@pytest.mark.slow  # many polls
def test_what_it_set_down_waits_as_if_there_were_no_credit() -> None:
    """modified(undeliverable-here): each message was delivered once, and is never given to it again."""
    one = found({"protocol": "AMQP", "N": 90.0, "C": 90.0})
    assert states(one)[possible] == {"no_credit", "undeliverable_here"}
    assert (
        "it may as well be AMQP modified(undeliverable-here)" in one["no_credit"].fact
    )


@pytest.mark.slow  # many polls
def test_a_consumer_that_is_not_listed_may_have_a_filter() -> None:
    """A bridge: the broker counts it and does not list it."""
    one = found({"T": 0.0}, consumers=2.0)
    assert one["selector"].state is possible
    assert (
        "what consumers want that are not listed, as those of a bridge, was not read"
        in one["selector"].fact
    )


@pytest.mark.slow  # many polls
def test_with_a_selector_it_may_be_that_or_credit_and_its_text_is_said() -> None:
    one = found({"protocol": "AMQP", "filter": "k = '1'"})
    assert states(one)[possible] == {"selector", "no_credit"}
    assert one["selector"].fact == "all idle consumers have one: k = '1'"


def test_a_stomp_consumer_always_has_credit_and_nothing_to_start() -> None:
    assert by_state({"protocol": "STOMP", "filter": "k = '1'"})[proven] == {"selector"}


def test_a_selector_of_some_explains_only_these() -> None:
    one = found({"protocol": "STOMP", "filter": "k = '1'"}, {"protocol": "AMQP"})
    assert states(one)[possible] == {"selector", "no_credit"}
    assert one["selector"].fact.startswith("some idle consumers have one")


@pytest.mark.parametrize("protocol", ["CORE", "OPENWIRE"])
def test_core_and_openwire_show_a_connection_that_is_not_started_and_no_receive_alike(
    protocol: str,
) -> None:
    assert by_state({"protocol": protocol})[possible] == {
        "not_started",
        "never_receives",
    }


@pytest.mark.parametrize(("connection", "known"), [(0, True), (1, False)])
def test_deliveries_beside_them_on_the_connection_show_that_it_is_started(
    connection: int, known: bool
) -> None:
    def said(i: int, now: float) -> dict[str, Any]:
        busy = {
            "queue": "r",
            "T": 0.0,
            "C": 9.0 * i,
            "N": 9.0 * i,
            "L": now - 1,
            "Ld": now - 1,
        }
        queues = {
            "q": {**WAIT, "A": 50.0 + i, "M": 50.0 + i},
            "r": {"A": 9.0 * i, "K": 9.0 * i, "M": 0.0},
        }
        return {
            "queues": queues,
            "consumers": {
                "c": {**IDLE, "connection": 0},
                "d": {**busy, "connection": connection},
            },
        }

    one = verdicts("not_dispatching", said)
    assert (one["never_receives"].state, one["not_started"].state) == (
        (proven, excluded) if known else (possible, possible)
    )


def test_a_queue_that_waits_for_more_consumers_says_how_many() -> None:
    one = found({"protocol": "AMQP"}, consumers_before_dispatch=3.0)
    assert one["consumers_before_dispatch"][:2] == (
        proven,
        "1 of the 3 consumers that it waits for are there",
    )
    assert one["no_credit"].state is possible


def test_one_that_has_delivered_to_those_that_are_there_does_dispatch() -> None:
    one = found({"N": 4.0, "C": 4.0, "protocol": "AMQP"}, consumers_before_dispatch=3.0)
    assert one["consumers_before_dispatch"].state is possible


@pytest.mark.slow  # many polls
def test_a_browser_is_listed_and_not_counted() -> None:
    holds = {"T": 5.0, "N": 5.0, "Ld": 0.0}
    one = found(holds, {}, consumers=1.0, D=5.0)
    assert one["browser"][:2] == (
        possible,
        "1 of 2 that are listed are not counted as consumers",
    )
    assert found(holds, {}, consumers=2.0, D=5.0)["browser"].state is excluded


@pytest.mark.slow  # many polls
def test_an_exclusive_queue_gives_to_one_alone() -> None:
    assert by_state({"protocol": "AMQP"}, exclusive=1.0)[possible] == {
        "exclusive",
        "no_credit",
    }


@pytest.mark.slow  # many polls
def test_groups_need_another_consumer() -> None:
    assert found({}, {}, groups=float("nan"))["groups"].state is possible
    assert found({})["groups"].state is excluded
    assert found({}, {}, groups=0.0)["groups"].state is excluded
    assert found({}, {}, groups=20.0)["groups"].fact.startswith(
        "it has 20 message groups"
    )


def test_what_is_under_way_on_the_connection_may_fill_its_socket() -> None:
    def said(i: int, now: float) -> dict[str, Any]:
        queues = {
            "q": {**WAIT, "A": 50.0 + i, "M": 50.0 + i},
            "r": {"A": 9.0, "M": 9.0, "D": 9.0},
        }
        other = {"queue": "r", "T": 9.0, "N": 9.0, "Ld": now - 1, "connection": 7}
        return {"queues": queues, "consumers": {"c": IDLE, "d": other}}

    assert verdicts("not_dispatching", said)["socket_full"][:2] == (
        possible, "9 messages are under way on the same connections",
    )  # fmt: skip


@pytest.mark.slow  # many polls
def test_openmq_shows_who_asks_for_nothing_and_who_shares_a_connection() -> None:
    world = openmq_polls(openmq(), 12, lambda i: {
        "queues": {"q": {"A": 50.0 + i, "M": 50.0 + i, "K": 0}},
        "consumers": {"c": {"T": 0.0, "N": 0.0, "flow_paused": 1.0, "connection": 7}},
    })  # fmt: skip
    one = world.one("not_dispatching").verdicts
    assert one["never_receives"][:2] == (
        possible,
        "the idle consumers ask for no messages",
    )
    assert {name for name, said in one.items() if said.state is excluded} == {
        "selector",
        "connection_limit",
    }
