"""What an operator moved is not acknowledged; what looks like a move, and is none."""

from typing import Any

from account.world import Broker, queue

LONG = 14


def see(broker: Broker, k: float, came: float, sent: float = 0.0, polls: int = 3, **said: Any) -> Broker:
    """A queue of a hundred of which `k` left, and one that `came` messages came to, `sent` of them by a producer."""
    rows = {"q": queue(100, 100 - k, K=float(k), **said), "to": queue(came, came)}
    return broker.see(rows, senders={"p": ("to", sent)}, polls=polls)


def idle() -> Broker:
    return see(Broker(), 0, 0, polls=LONG)


def test_a_move_is_proven_where_nothing_else_can_have_done_it() -> None:
    broker = see(idle(), 10, 10)
    assert (broker.left("moved"), broker.left("acknowledged")) == (10, 0)
    assert broker.shown() == {("q", "moved"): 10}
    see(broker, 30, 30)
    assert (broker.left("moved"), broker.left("acknowledged")) == (30, 0)
    assert broker.sheet().sums == "100 at start = 70 ready + 30 moved"


def test_it_is_told_once_with_the_address_that_has_them() -> None:
    broker = idle()
    told: list[tuple[int, int, tuple[str, ...]]] = []
    for _ in range(6):
        see(broker, 10, 10, polls=1)
        told += broker.account.moves.proven
    ((_, messages, to),) = told
    assert (messages, to) == (10, ("to",))


def test_nothing_that_came_elsewhere_is_no_move() -> None:
    """A client that is gone before a poll lists it; removeMessage, STOMP's NACK."""
    broker = see(idle(), 10, 0)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)
    see(broker, 10, 25, sent=25)
    see(broker, 20, 35, sent=35)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 20)


def test_what_consumers_settled_was_not_moved() -> None:
    broker = Broker()
    for n in range(LONG):
        k = max(0.0, n - 9.0)
        rows = {"q": queue(100, 100 - k, K=k, consumers=1.0), "to": queue(k, k)}
        taker = {"c": {"queue": "q", "T": 0.0, "N": k, "C": k, "W": 0.0}}
        broker.see(rows, consumers=taker, senders={})
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 4)


def test_other_numbers_than_left_have_bounds() -> None:
    """Ten left, and six came somewhere from none that is listed: up to six of them."""
    broker = see(idle(), 10, 6)
    assert (broker.left("moved"), broker.left("acknowledged")) == ((0, 6), (4, 10))
    see(broker, 10, 60)
    assert broker.left("moved") == (0, 6)


def test_a_client_that_came_and_went_in_the_interval_has_bounds() -> None:
    broker = idle()
    rows = {"q": queue(100, 90, K=10.0), "to": queue(10, 10)}
    broker.see(rows, senders={"p": ("to", 0.0), "new": ("other", 3.0)}, polls=3)
    assert (broker.left("moved"), broker.left("acknowledged")) == ((0, 10), (0, 10))


def test_a_queue_whose_consumers_come_and_go_has_none() -> None:
    """They settle after they were last seen."""
    broker = idle()
    for n in range(1, 8):
        rows = {"q": queue(100, 100 - n, K=float(n), consumers=1.0), "to": queue(n, n)}
        broker.see(rows, consumers={f"c{n}": {"queue": "q", "T": 1.0, "N": 1.0, "C": 0.0}}, senders={})
    assert broker.left("moved") == 0


def test_what_a_link_takes_is_not_listed() -> None:
    broker = see(Broker(), 0, 0, polls=LONG, consumers=1.0)
    see(broker, 10, 10, consumers=1.0)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)


def test_dead_letters_and_expired_messages_that_come_were_not_moved() -> None:
    gone: dict[str, Any] = {"dead_letter_address": "to", "has_dead_letter_address": 1.0, "expiry_address": "to"}
    broker = see(Broker(), 0, 0, polls=LONG, **gone)
    rows = {"q": queue(100, 80, K=10.0, X=4.0, E=6.0, **gone), "to": queue(10, 10)}
    broker.see(rows, senders={"p": ("to", 0.0)}, polls=4)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)


def test_no_counter_falls() -> None:
    broker = idle()
    before: dict[tuple[str, str], float] = {}
    for k, came, sent in [(3, 0, 0), (3, 3, 0), (9, 3, 0), (9, 9, 0), (20, 9, 0), (20, 30, 10), (40, 80, 60)]:
        see(broker, k, came, sent, polls=1)
        shown = broker.shown()
        assert all(shown.get(name, 0) >= value for name, value in before.items())
        before = shown
    low, high = broker.fate("moved")
    acknowledged = broker.fate("acknowledged")
    assert acknowledged == (40 - high, 40 - low)


def test_a_restart_of_the_agent_keeps_it() -> None:
    broker = see(idle(), 10, 10)
    broker.restart_agent()
    see(broker, 10, 10, polls=LONG)
    assert (broker.left("moved"), broker.left("acknowledged")) == (10, 0)
    see(broker, 15, 15)
    assert (broker.left("moved"), broker.left("acknowledged")) == (15, 0)
