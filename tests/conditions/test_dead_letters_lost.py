"""`dead_letters_lost`: killed and nowhere; purges, and dead letters that arrive, are healthy."""

from typing import Any

import pytest

from account.world import Broker, queue
from conditions.things import Numbers
from penstock.model import QueueKind


def killed(
    broker: Broker,
    n: float,
    delivered: float = 1.0,
    *,
    more: Numbers | None = None,
    **texts: Any,
) -> None:
    """Two more at each poll, each of which was delivered so many times."""
    said = {
        "q": {
            **queue(100 + 2.0 * n, 100, X=2.0 * n),
            "has_dead_letter_address": 0.0,
            **texts,
        },
        **(more or {}),
    }
    taker = {"c": {"queue": "q", "client": "t", "N": 2 * delivered * n, "C": 2.0 * n}}
    broker.see(said, consumers=taker)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [2.0, 10.0])
def test_a_queue_without_a_dead_letter_address(step: float) -> None:
    broker = Broker(step=step)
    for n in range(40):
        killed(broker, n)
    found = broker.one("dead_letters_lost")
    assert (found.why, found.evidence["lost"] >= 20) == (
        "the queue has no dead-letter address",
        True,
    )


@pytest.mark.slow  # many polls
def test_a_dead_letter_address_without_a_queue() -> None:
    broker = Broker()
    for n in range(40):
        killed(broker, n, has_dead_letter_address=1.0, dead_letter_address="nowhere")
    assert (
        broker.one("dead_letters_lost").why
        == "its dead-letter address nowhere has no queue"
    )


@pytest.mark.slow  # many polls
def test_dead_letters_that_arrive_are_healthy() -> None:
    broker = Broker()
    for n in range(40):
        more = {"dlq": {**queue(2.0 * n, 2.0 * n), "kind": QueueKind.DEAD_LETTER}}
        killed(
            broker, n, has_dead_letter_address=1.0, dead_letter_address="dlq", more=more
        )
    assert "dead_letters_lost" not in broker.names


@pytest.mark.slow  # many polls
def test_purges_are_healthy_however_often() -> None:
    """No message was delivered; or one consumer works, and what others sent is removed."""
    for delivered in (0.0, 0.2):
        broker = Broker()
        for n in range(60):
            killed(broker, n, delivered)
        assert "dead_letters_lost" not in broker.names


@pytest.mark.slow  # many polls
def test_a_few_at_once_are_no_rule() -> None:
    broker = Broker()
    for n in range(60):
        killed(broker, 0 if n < 20 else 5)
    assert "dead_letters_lost" not in broker.names


@pytest.mark.slow  # many polls
def test_an_address_of_dead_letters_that_drops() -> None:
    """DROP, full: R rises and A does not."""
    broker = Broker()
    for n in range(60):
        said = {"dlq": {**queue(50, 50), "kind": QueueKind.DEAD_LETTER}}
        place = {"messages_added": 50.0 + 3 * n, "messages_unrouted": 0.0, "policy": "drop", "limit_percent": 100.0,
                 "paging": 1.0, "pages": 0.0}  # fmt: skip
        broker.see(said, {"dlq": place})
    assert "policy is DROP" in broker.one("dead_letters_lost").why
