"""`purged`, a notice: how many; and what is no purge."""

from account.world import Broker, queue
from conditions.test_producer_rolls_back import raised


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
