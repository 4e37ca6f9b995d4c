"""What was killed is dead-lettered or purged: by what came to the dead-letter address, and what looks like it."""

from collections.abc import Mapping
from typing import Any

import pytest

from account.world import Broker, queue

DLA = {"dead_letter_address": "dlq", "has_dead_letter_address": 1.0}
NO_DLA = {"has_dead_letter_address": 0.0, "consumers": 1.0}


def see(
    killed: Mapping[str, float],
    dead: float,
    broker: Broker | None = None,
    polls: int = 2,
    senders: Mapping[str, tuple[str, float]] | None = None,
    **said: Any,
) -> Broker:
    """Queues of which so many of a thousand were killed, and so many messages at the address of their dead letters."""
    broker = broker or see(
        dict.fromkeys(killed, 0.0),
        0.0,
        Broker(),
        senders=senders and dict.fromkeys(senders, ("dlq", 0.0)),
    )
    rows = {
        name: queue(1000, 1000 - x, X=float(x), **DLA) for name, x in killed.items()
    }
    rows["dlq"] = queue(
        min(dead, said.pop("taken", dead)),
        min(dead, 1e9),
        M=0.0,
        K=0.0,
        has_dead_letter_address=0.0,
    )
    rows["dlq"]["M"] = rows["dlq"]["A"]
    addresses = {
        "dlq": {"messages_added": float(dead), "messages_unrouted": 0.0, **said}
    }
    return broker.see(rows, addresses, senders=senders or {}, polls=polls)


def both(broker: Broker, name: str) -> tuple[object, object]:
    return broker.left("dead_lettered", name), broker.left("purged", name)


@pytest.mark.slow  # many polls
def test_a_dead_letter_and_a_purge() -> None:
    assert both(see({"a": 7.0}, 7.0), "a") == (7, 0)
    assert both(see({"a": 7.0}, 0.0), "a") == (0, 7)
    assert both(see({"a": 7.0}, 3.0), "a") == (3, 4)


def test_two_sources_of_one_target() -> None:
    broker = see({"a": 7.0, "b": 5.0}, 12.0)
    assert both(broker, "a") == (7, 0)
    assert both(broker, "b") == (5, 0)
    see({"a": 7.0, "b": 9.0}, 12.0, broker)
    assert both(broker, "b") == (5, 4)
    see({"a": 8.0, "b": 9.0}, 13.0, broker)
    assert both(broker, "a") == (8, 0)


def test_both_in_one_interval_have_bounds() -> None:
    """Of 7 and 5 five are dead letters: of the first at most 5, at least none."""
    broker = see({"a": 7.0, "b": 5.0}, 5.0)
    assert both(broker, "a") == ((0, 5), (2, 7))
    assert both(broker, "b") == ((0, 5), (0, 5))
    assert broker.shown()["a", "purged"] == 2
    assert (
        broker.sheet("a").sums
        == "1,000 at start = 993 ready + 7 dead lettered or purged"
    )
    see({"a": 7.0, "b": 8.0}, 8.0, broker)
    assert both(broker, "b") == ((3, 8), (0, 5))


def test_it_is_named_once_both_sides_are_read() -> None:
    """R is read before X: what is killed in between comes to the dead letters one poll later."""
    broker = see({"a": 7.0}, 5.0, polls=1)
    assert both(broker, "a") == ((5, 7), (0, 2))
    see({"a": 12.0}, 10.0, broker, polls=1)
    assert both(broker, "a") == ((10, 12), (0, 2))
    see({"a": 12.0}, 12.0, broker, polls=1)
    assert both(broker, "a") == (12, 0)


@pytest.mark.slow  # many polls
def test_a_producer_that_sends_there() -> None:
    """Its 4 are no dead letters, and neither is what one sends that is not listed."""
    assert both(see({"a": 7.0}, 4.0, senders={"p": ("dlq", 4.0)}), "a") == (0, 7)
    assert both(see({"a": 7.0}, 11.0, senders={"p": ("dlq", 4.0)}), "a") == (7, 0)
    broker = see({"a": 0.0}, 20.0)
    see({"a": 7.0}, 23.0, broker)
    assert both(broker, "a") == ((0, 3), (4, 7))
    see({"a": 9.0}, 25.0, broker)
    assert both(broker, "a") == ((2, 5), (4, 7))


def test_a_full_target_that_drops_them_had_them_all_the_same() -> None:
    broker = see({"a": 30.0}, 30.0, taken=3.0, policy="drop", limit_percent=100.0)
    assert both(broker, "a") == (30, 0)
    assert broker.fate("dropped", "dlq")[1] == 27


def test_one_that_refuses_counts_each_attempt() -> None:
    """As seen on 2.44: 3 were taken, 27 stay in delivery, R rises by 30."""
    assert both(
        see({"a": 3.0}, 30.0, taken=3.0, policy="fail", limit_percent=100.0), "a"
    ) == (3, 0)


@pytest.mark.parametrize(("said", "expected"), [
    ({}, ((0, 5), (0, 5))),
    ({"consumers": 0.0}, (0, 5)),
])  # fmt: skip
def test_without_a_place_only_who_was_there_may_tell(
    said: dict[str, float], expected: object
) -> None:
    rows = {**NO_DLA, **said}
    broker = (
        Broker()
        .see({"a": queue(9, 9, **rows)}, polls=3)
        .see({"a": queue(9, 4, X=5.0, **rows)}, polls=3)
    )
    assert both(broker, "a") == expected
    assert broker.account.dead_letters.placeless[broker.at("a")]


def test_attempts_without_end_make_no_dead_letter() -> None:
    forever = {"a": {"max_delivery_attempts": -1.0}}
    broker = Broker().see({"a": queue(9, 9, **NO_DLA)}, forever, polls=3)
    assert both(
        broker.see({"a": queue(9, 4, X=5.0, **NO_DLA)}, forever, polls=3), "a"
    ) == (0, 5)


def test_an_address_made_for_the_first_dead_letter() -> None:
    a = {"dead_letter_address": "dlq", "has_dead_letter_address": 1.0}
    broker = Broker().see({"a": queue(9, 9, **a)}, polls=3)
    made = {
        "a": queue(9, 7, X=2.0, **a),
        "DLQ.a": queue(2, 2, address="dlq", routing_type="multicast", filter="x"),
    }
    broker.see(
        made, {"dlq": {"messages_added": 2.0, "messages_unrouted": 0.0}}, polls=3
    )
    assert both(broker, "a") == (2, 0)


def test_expired_messages_may_go_to_the_same_address() -> None:
    both_there = {**DLA, "expiry_address": "dlq"}
    broker = Broker().see({"a": queue(9, 9, **both_there), "dlq": queue(0, 0)}, polls=3)
    broker.see(
        {"a": queue(9, 2, E=4.0, X=3.0, **both_there), "dlq": queue(4, 4)}, polls=3
    )
    assert both(broker, "a") == (0, 3)


@pytest.mark.slow  # many polls
def test_a_restart_of_the_agent_and_of_the_broker() -> None:
    broker = see({"a": 7.0}, 3.0)
    broker.restart_agent()
    see({"a": 9.0}, 5.0, broker)
    assert both(broker, "a") == (
        (3, 5),
        (4, 6),
    )  # who killed 2 while no agent looked is not known
    see({"a": 12.0}, 8.0, broker)
    assert both(broker, "a") == ((6, 8), (4, 6))
    broker.restart()
    rows = {"a": queue(991, 991, **DLA), "dlq": queue(8, 8)}
    broker.see(rows, {"dlq": {"messages_added": 0.0}}, senders={}, polls=2)
    rows = {"a": queue(991, 990, X=1.0, **DLA), "dlq": queue(9, 9)}
    broker.see(rows, {"dlq": {"messages_added": 1.0}}, senders={}, polls=2)
    assert both(broker, "a") == ((7, None), (4, None))


@pytest.mark.slow  # many polls
def test_a_restart_of_the_broker_forgets_no_target() -> None:
    """Its addresses have other keys: what came to the address of dead letters is looked for there, and nowhere else."""
    broker = see({"a": 7.0, "b": 0.0}, 7.0)
    broker.restart()
    see({"a": 0.0, "b": 0.0}, 0.0, broker)
    for n in range(1, 5):
        see({"a": 9.0 * n, "b": 0.0}, 9.0 * n, broker)
    assert both(broker, "a") == ((43, None), None)
    see({"a": 36.0, "b": 5.0}, 36.0, broker)
    assert both(broker, "b") == (None, (5, None))


@pytest.mark.slow  # many polls
def test_a_steady_stream_is_named_as_it_goes() -> None:
    """Ten a poll for both, R read some before X, and never at rest."""
    broker = see({"a": 0.0, "b": 0.0}, 0.0)
    for n in range(1, 50):
        see({"a": 10.0 * n, "b": 10.0 * n}, 20.0 * n - n % 3, broker, polls=1)
        low, high = broker.fate("dead_lettered", "a")
        assert low <= 10 * n <= high
        assert high - low <= 20
    assert broker.fate("purged", "a")[0] == 0
