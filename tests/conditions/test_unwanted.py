"""`unwanted`: no filter of a queue's address wants what comes; subscribers of a topic may well want nothing."""

import pytest

from account.world import Broker, queue


def came(broker: Broker, n: float, **queues: dict[str, str]) -> None:
    """Twenty at each poll, of which a fifth is red."""
    said = {
        name: {**queue(4.0 * n, 4.0 * n), "address": "a", **texts}
        for name, texts in queues.items()
    }
    broker.see(said, {"a": {"messages_added": 20.0 * n, "messages_unrouted": 0.0}})


RED = {"filter": "colour='red'"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [2.0, 10.0])
def test_messages_that_no_queue_wants(step: float) -> None:
    broker = Broker(step=step)
    for n in range(30):
        came(broker, n, red=RED)
    found = broker.one("unwanted")
    assert found.why == "the filter of the queue is colour='red'"
    assert found.evidence["share"] == pytest.approx(80, abs=5)
    assert "unwanted" in broker.names


@pytest.mark.slow  # many polls
def test_a_topic_whose_subscribers_choose_is_healthy() -> None:
    broker = Broker()
    for n in range(60):
        came(broker, n, red={**RED, "routing_type": "multicast"})
    assert broker.fate("unwanted", "red")[0] > 0
    assert "unwanted" not in broker.names | broker.notices


@pytest.mark.slow  # many polls
def test_red_and_blue_and_all_is_healthy() -> None:
    broker = Broker()
    for n in range(60):
        said = {
            name: {
                **queue(part * n, part * n),
                "address": "a",
                "routing_type": "multicast",
                "filter": filter_,
            }
            for name, part, filter_ in (
                ("red", 4.0, "red"),
                ("blue", 4.0, "blue"),
                ("all", 20.0, ""),
            )
        }
        broker.see(said, {"a": {"messages_added": 20.0 * n, "messages_unrouted": 0.0}})
    assert "unwanted" not in broker.names | broker.notices


@pytest.mark.slow  # many polls
def test_a_single_transaction_that_was_rolled_back_is_no_surprise() -> None:
    broker = Broker()
    for n in range(60):
        said = {"red": {**queue(4.0 * n, 4.0 * n), "address": "a", **RED}}
        lost = 100.0 if n > 20 else 0.0
        broker.see(
            said, {"a": {"messages_added": 4.0 * n + lost, "messages_unrouted": 0.0}}
        )
    assert "unwanted" not in broker.names | broker.notices
