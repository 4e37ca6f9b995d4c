"""`producer_rolls_back`, a notice: who, how many; and rollbacks that are usual."""

from typing import Any

import pytest

from account.world import Broker, queue

BOTH = {"producer_rolls_back", "purged"}


def sent(broker: Broker, committed: float, rolled_back: float, **said: Any) -> None:
    routed = {
        "q": {
            "messages_added": committed + rolled_back,
            "messages_unrouted": 0.0,
            "policy": "page",
        }
    }
    rows = {"q": queue(committed, committed, **said)}
    broker.see(rows, routed, senders={"p": ("q", committed + rolled_back)})


def raised(broker: Broker) -> set[str]:
    assert not BOTH & broker.names
    return BOTH & broker.notices


@pytest.mark.slow  # many polls
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


@pytest.mark.slow  # many polls
def test_a_rollback_now_and_then_is_healthy() -> None:
    """One transaction of 25 is sent again."""
    broker = Broker()
    for n in range(120):
        sent(broker, 20.0 * n, 10.0 * (n // 12))
        assert not raised(broker)
    assert broker.fate("rolled_back")[0] > 40


@pytest.mark.slow  # many polls
def test_a_burst_of_rollbacks_is_healthy() -> None:
    """A database that is away for 10 s."""
    broker = Broker()
    for n in range(90):
        sent(broker, 20.0 * n, 20.0 * min(max(n - 40, 0), 5))
        assert not raised(broker)


@pytest.mark.slow  # many polls
def test_an_open_transaction_is_not_rolled_back() -> None:
    broker = Broker()
    for n in range(60):
        sent(broker, 20.0 * n, 200.0 * (n > 20))
        assert not raised(broker)


@pytest.mark.slow  # many polls
def test_it_ends_with_the_rollbacks() -> None:
    broker = Broker()
    for n in range(40):
        sent(broker, 20.0 * n, 10.0 * n)
    for n in range(40, 100):
        sent(broker, 20.0 * n, 10.0 * 39)
    assert not raised(broker)
