"""What producers rolled back, apart from what is still open, and from what looks like it."""

import pytest

from account.world import Broker, queue

PAGE = {"policy": "page", "messages_unrouted": 0.0}
LONG = 18
"""Polls in 30 s, and three more."""


def see(
    broker: Broker,
    a: float,
    r: float,
    producers: int = 1,
    polls: int = 1,
    other: float = 0.0,
) -> Broker:
    """A queue that got `a` of `r` routed messages; so many producers are listed, and sent them."""
    rows = {"q": queue(a, a), "other": queue(other, other)}
    senders = {f"p{n}": ("q", r / producers) for n in range(producers)}
    return broker.see(
        rows, {"q": {"messages_added": float(r), **PAGE}}, senders=senders, polls=polls
    )


def both(broker: Broker) -> tuple[object, object]:
    sheet = broker.sheet(address=True)
    return sheet.left["rolled_back"], sheet.there["uncommitted"]


def begun() -> Broker:
    return see(see(Broker(), 0, 0, polls=3), 10, 10, polls=3)


@pytest.mark.slow  # many polls
def test_while_the_producer_is_there_it_may_still_commit() -> None:
    broker = see(begun(), 10, 210, polls=20)
    assert both(broker) == ((0, 200), (0, 200))
    assert (
        broker.sheet(address=True).sums
        == "210 routed = 10 to its queues + 200 to no queue"
    )
    assert broker.shown() == {}
    assert both(see(broker, 210, 210, polls=3)) == (0, 0)


@pytest.mark.slow  # many polls
def test_when_the_producer_is_gone_it_is_rolled_back() -> None:
    broker = see(begun(), 10, 210, polls=3)
    see(broker, 10, 210, polls=1)
    broker.see(
        {"q": queue(10, 10), "other": queue(0, 0)},
        {"q": {"messages_added": 210.0, **PAGE}},
        senders={},
        polls=LONG,
    )
    assert both(broker) == (200, 0)
    assert broker.shown() == {("(q)", "rolled_back"): 200}


def producer_gone(*, came: float, there: float) -> Broker:
    """It had sent 20 when it was last seen; so many came to the address in all, and are in its queue."""
    broker = see(see(Broker(), 0, 0, polls=3), 0, 20)
    rows = {"q": queue(there, there), "other": queue(0, 0)}
    return broker.see(
        rows, {"q": {"messages_added": came, **PAGE}}, senders={}, polls=LONG
    )


@pytest.mark.slow  # many polls
def test_a_producer_that_was_last_seen_before_its_first_commit_may_have_rolled_back() -> (
    None
):
    """It sends 20, rolls back, commits 5 and goes, all between two polls."""
    broker = producer_gone(came=25, there=5)
    assert broker.fate("missing") == (0, 20)
    assert broker.fate("rolled_back") == (0, 20)


@pytest.mark.slow  # many polls
def test_of_a_producer_of_which_nothing_ever_came_it_is_lost() -> None:
    broker = producer_gone(came=20, there=0)
    assert broker.fate("missing") == (20, 20)


@pytest.mark.slow  # many polls
def test_a_single_producer_decides_all_before_its_commit() -> None:
    """One of three transactions of 100 is rolled back, at each poll."""
    broker = begun()
    for n in range(1, 30):
        see(broker, 10 + 200 * n, 10 + 300 * n)
        low, high = broker.fate("rolled_back")
        assert low <= 100 * n <= high
    assert broker.fate("rolled_back")[0] >= 2400
    see(broker, 10 + 200 * 29, 10 + 300 * 29 + 50, polls=5)  # 50 are open
    low, high = broker.fate("rolled_back")
    assert low <= 2900 <= high == 2950


@pytest.mark.slow  # many polls
def test_of_two_one_may_have_been_open_all_the_time() -> None:
    broker = begun()
    for n in range(1, 30):
        see(broker, 10 + 200 * n, 10 + 300 * n, producers=2)
    assert broker.fate("rolled_back")[0] == 0


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [1.0, 20.0])
def test_it_takes_three_polls_and_half_a_minute(step: float) -> None:
    """A session may commit what it sent by a producer that it has closed."""
    broker = see(begun(), 10, 210, polls=3)
    rows = {"q": queue(10, 10), "other": queue(0, 0)}
    sent = {"q": {"messages_added": 210.0, **PAGE}}
    broker.step = step
    waits = max(2, round(30 / step))
    broker.see(rows, sent, senders={}, polls=waits)
    assert broker.fate("rolled_back") == (0, 200)
    assert broker.see(rows, sent, senders={}).fate("rolled_back") == (200, 200)


@pytest.mark.slow  # many polls
def test_what_comes_from_nobody_is_no_proof_that_nobody_is_there() -> None:
    """A transaction is open for a minute while others commit, each by a producer that no poll sees."""
    broker = begun()
    for n in range(40):
        sent = {"q": {"messages_added": 60.0 + n, **PAGE}}
        broker.see({"q": queue(10 + n, 10 + n), "other": queue(0, 0)}, sent, senders={})
    assert broker.fate("rolled_back")[0] == 0


@pytest.mark.slow  # many polls
def test_a_producer_without_an_address_may_be_behind_it() -> None:
    broker = begun()
    rows = {"q": queue(10, 10), "other": queue(0, 0)}
    broker.see(
        rows,
        {"q": {"messages_added": 60.0, **PAGE}},
        senders={"p": ("(anonymous)", 50.0)},
        polls=10,
    )
    assert both(broker) == ((0, 50), (0, 50))


@pytest.mark.slow  # many polls
def test_an_exclusive_divert_is_no_rollback() -> None:
    """As many came to another address."""
    broker = begun()
    for n in range(1, 5):
        rows = {"q": queue(10, 10), "other": queue(50 * n, 50 * n)}
        broker.see(
            rows,
            {"q": {"messages_added": 10.0 + 50 * n, **PAGE}},
            senders={},
            polls=LONG,
        )
    assert both(broker)[0] == (0, 200)


@pytest.mark.slow  # many polls
def test_it_outlives_the_agent_and_the_broker() -> None:
    broker = begun()
    gone = {"q": {"messages_added": 210.0, **PAGE}}
    rows = {"q": queue(10, 10), "other": queue(0, 0)}
    broker.see(rows, gone, senders={}, polls=LONG)
    broker.restart_agent()
    broker.see(rows, gone, senders={}, polls=LONG)
    assert broker.fate("rolled_back") == (
        200,
        float("inf"),
    )  # what was open meanwhile is not known
    broker.restart()
    broker.see(rows, {"q": {"messages_added": 0.0, **PAGE}}, senders={}, polls=LONG)
    broker.see(rows, {"q": {"messages_added": 7.0, **PAGE}}, senders={}, polls=LONG)
    assert broker.fate("rolled_back")[0] == 200
    assert broker.fate("missing") == (
        0,
        float("inf"),
    )  # no poll saw who sent 7: they may be rolled back, too


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("prepared", [("xid",), None])
def test_what_is_prepared_is_not_rolled_back(prepared: tuple[str, ...] | None) -> None:
    """Its producer is gone, and who knows the Xid may commit it; None: the account may not list them."""
    broker = begun()
    rows = {"q": queue(10, 10), "other": queue(0, 0)}
    sent = {"q": {"messages_added": 210.0, **PAGE}}
    broker.see(rows, sent, senders={}, prepared=prepared, polls=LONG)
    assert both(broker) == ((0, 200), (0, 200))
    assert broker.shown() == {}
    broker.see(
        {**rows, "q": queue(160, 160)}, sent, senders={}, polls=LONG
    )  # committed, but for 50
    assert both(broker) == (50, 0)


def test_a_single_producer_has_not_decided_what_another_has_prepared() -> None:
    broker = see(begun(), 10, 60)
    broker.see({"q": queue(20, 20), "other": queue(0, 0)}, {"q": {"messages_added": 70.0, **PAGE}},
               senders={"p0": ("q", 70.0)}, prepared=("xid",), polls=5)  # fmt: skip
    assert both(broker) == ((0, 50), (0, 50))
