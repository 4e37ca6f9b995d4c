"""`producer_rolls_back` and `purged`, notices: who, how many; and rollbacks and removals that are usual."""

from typing import Any

import pytest

from account.world import Broker, queue

BOTH = {"producer_rolls_back", "purged"}


def sent(broker: Broker, committed: float, rolled_back: float, **said: Any) -> None:
    routed = {"q": {"messages_added": committed + rolled_back, "messages_unrouted": 0.0, "policy": "page"}}
    rows = {"q": queue(committed, committed, **said)}
    broker.see(rows, routed, senders={"p": ("q", committed + rolled_back)})


def raised(broker: Broker) -> set[str]:
    assert not BOTH & broker.names
    return BOTH & broker.notices


@pytest.mark.parametrize("step", [2.0, 10.0])
def test_a_producer_that_rolls_back_a_third(step: float) -> None:
    broker = Broker(step=step)
    for n in range(40):
        sent(broker, 20.0 * n, 10.0 * n)
    assert raised(broker) == {"producer_rolls_back"}
    found = broker.one("producer_rolls_back")
    assert found.why == "producers of the address: app"
    assert 30 <= found.evidence["share"] <= 35
    assert 300 <= found.evidence["lost"] <= 390


def test_a_rollback_now_and_then_is_healthy() -> None:
    """One transaction of 25 is sent again."""
    broker = Broker()
    for n in range(120):
        sent(broker, 20.0 * n, 10.0 * (n // 12))
        assert not raised(broker)
    assert broker.fate("rolled_back")[0] > 40


def test_a_burst_of_rollbacks_is_healthy() -> None:
    """A database that is away for 10 s."""
    broker = Broker()
    for n in range(90):
        sent(broker, 20.0 * n, 20.0 * min(max(n - 40, 0), 5))
        assert not raised(broker)


def test_an_open_transaction_is_not_rolled_back() -> None:
    broker = Broker()
    for n in range(60):
        sent(broker, 20.0 * n, 200.0 * (n > 20))
        assert not raised(broker)


def test_it_ends_with_the_rollbacks() -> None:
    broker = Broker()
    for n in range(40):
        sent(broker, 20.0 * n, 10.0 * n)
    for n in range(40, 100):
        sent(broker, 20.0 * n, 10.0 * 39)
    assert not raised(broker)


def killed(broker: Broker, purged: float, dead: float = 0.0, polls: int = 1) -> None:
    """Of a thousand, so many; the others went to the dead-letter address."""
    gone = {"dead_letter_address": "dlq", "has_dead_letter_address": 1.0}
    rows = {"q": queue(1000, 1000 - purged - dead, X=purged + dead, **gone), "dlq": queue(dead, dead)}
    broker.see(rows, senders={"p": ("q", 0.0)}, polls=polls)


def test_a_purge_is_told_for_a_while() -> None:
    broker = Broker(step=10.0)
    killed(broker, 0, polls=4)
    killed(broker, 300, polls=3)
    assert raised(broker) == {"purged"}
    assert broker.one("purged").evidence["lost"] == 300
    assert broker.one("purged").queue == "q"
    killed(broker, 300, polls=62)
    assert not raised(broker)


def test_dead_letters_and_what_was_purged_before_are_none() -> None:
    broker = Broker()
    killed(broker, 300, polls=4)
    for n in range(20):
        killed(broker, 300, dead=float(n))
        assert not raised(broker)
