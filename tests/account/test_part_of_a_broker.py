"""A broker over its budget: what is out of view is in no account, and what comes into view brings no past with it."""

from dataclasses import replace

import pytest

from account.world import Broker, queue
from penstock.agent.checkpoint import checkpoint_of, restore, with_late
from penstock.assessment.assess import State, assess
from penstock.model import LeftOut

OVER = (LeftOut("queues", 1, 2),)


@pytest.mark.slow  # many polls
def test_what_a_queue_did_out_of_view_did_not_come() -> None:
    broker = Broker().see({"a": queue(10, 10)}, polls=3, left_out=OVER)
    broker.see({"a": queue(10, 10), "b": queue(1000, 200, K=800.0)}, late=["b"])
    assert broker.fate("acknowledged", "b") == (0, 0)
    broker.see({"a": queue(10, 10), "b": queue(1010, 200, K=810.0)}, polls=4)
    assert broker.fate("acknowledged", "b") == (10, 10)
    assert broker.sheet("b").unexplained == 0


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("after", [OVER, ()])
def test_a_queue_that_goes_out_of_view_lost_nothing(after: tuple[LeftOut, ...]) -> None:
    full = {"policy": "drop", "limit_percent": 100.0}
    both = {"a": queue(100, 100, address="x"), "b": queue(100, 100, address="x")}
    x = {"x": {"messages_added": 200.0, "messages_unrouted": 0.0, **full}}
    broker = Broker().see(both, x, polls=4)
    one = {"a": queue(100, 100, address="x")}
    broker.see(one, x, polls=4, left_out=OVER)
    broker.see(both, x, polls=1, late=["b"] if not after else [], left_out=after)
    broker.see(both, x, polls=4, left_out=after)
    assert broker.shown() == {}


def test_a_drop_is_told_again_once_all_is_in_view() -> None:
    full = {"policy": "drop", "limit_percent": 100.0}
    seen = {"q": queue(10, 10)}
    broker = Broker().see(
        seen, {"q": {"messages_added": 10.0, **full}}, polls=3, left_out=OVER
    )
    broker.see(seen, {"q": {"messages_added": 10.0, **full}}, polls=3)
    broker.see(seen, {"q": {"messages_added": 17.0, **full}}, polls=4)
    assert broker.shown() == {("(q)", "dropped"): 7}


@pytest.mark.slow  # many polls
def test_a_queue_that_was_made_out_of_view_is_no_drop_to_the_next_agent() -> None:
    """The state file has the books of before the broker was over its budget: the journal adds none of it."""
    full = {"policy": "drop", "limit_percent": 100.0, "messages_unrouted": 0.0}
    a = queue(10, 10, address="x")
    c = queue(50, 50, address="x")
    broker = Broker().see({"a": a}, {"x": {"messages_added": 10.0, **full}}, polls=4)
    assert broker.last is not None
    kept = checkpoint_of(broker.state, broker.last, broker.policy)
    assert kept is not None
    kept = replace(kept, cut=("queues",))
    x = {"x": {"messages_added": 60.0, **full}}
    broker.see({"a": a, "c": c}, x)
    first = with_late(kept, broker.last)
    broker.state, _ = assess(
        restore(kept, State(), first, broker.policy), first, broker.policy
    )
    broker.see({"a": a, "c": c}, x, polls=5)
    assert broker.shown() == {}
    assert broker.sheet("c").unexplained == 0


def test_a_queue_that_was_made_while_the_agent_was_away_is_no_drop() -> None:
    full = {"policy": "drop", "limit_percent": 100.0}
    a = queue(100, 100, address="x")
    b = queue(50, 50, address="x")
    broker = Broker().see(
        {"a": a},
        {"x": {"messages_added": 100.0, "messages_unrouted": 0.0, **full}},
        polls=4,
    )
    broker.restart_agent()
    broker.see(
        {"a": a, "b": b},
        {"x": {"messages_added": 150.0, "messages_unrouted": 0.0, **full}},
        polls=5,
    )
    assert broker.shown() == {}
