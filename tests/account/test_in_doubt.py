"""What is in delivery to no consumer: prepared transactions, links, none known; and restarts with some in doubt."""

import numpy as np
import pytest

from account.world import Broker, queue
from penstock.model import LeftOut

XID = "dHhxdWV1ZTE3OTUzNzIyNzI4NDYtMAEAAAA"
TAKER = {"c": {"queue": "q", "client": "taker", "T": 3.0, "W": 6.0, "N": 9.0, "C": 6.0}}


def delivering(broker: Broker) -> dict[str, object]:
    return {
        name: value for name, value in broker.sheet().delivering.items() if value != 0
    }


def test_in_doubt_is_what_the_broker_counts() -> None:
    """Exact as soon as the same Xid was seen twice and its queue was asked twice."""
    broker = Broker().see({"q": queue(80, 80, D=50.0)}, prepared=[XID])
    assert broker.sheet().delivering["in_doubt"] is None
    assert "in_doubt" in broker.sheet().reasons
    broker.see({"q": queue(80, 80, D=50.0, in_doubt=50.0)}, prepared=[XID], polls=4)
    assert delivering(broker) == {"in_doubt": 50}
    assert set(broker.sheet().reasons) <= {"given_back"}


def test_a_transaction_whose_client_is_connected_is_uncommitted_and_not_in_doubt() -> (
    None
):
    said = {"q": queue(20, 20, D=9.0, in_doubt=6.0)}
    broker = Broker().see(said, consumers=TAKER, prepared=[XID], polls=4)
    assert delivering(broker) == {"buffered": 3, "uncommitted": 6}


def test_in_doubt_beside_a_client_that_has_prepared_too() -> None:
    """4 of the 10 that the broker counts are in nobody's hands."""
    said = {"q": queue(20, 20, D=13.0, in_doubt=10.0)}
    broker = Broker().see(said, consumers=TAKER, prepared=[XID, "other"], polls=5)
    assert delivering(broker) == {"buffered": 3, "uncommitted": 6, "in_doubt": (4, 10)}
    assert "prepared" in broker.sheet().reasons["in_doubt"]


def test_transactions_that_come_and_go_are_not_in_doubt() -> None:
    broker = Broker()
    for n in range(6):
        broker.see({"q": queue(20, 20, D=9.0)}, consumers=TAKER, prepared=[f"tx{n}"])
    assert delivering(broker) == {"buffered": 3, "uncommitted": 6}


def test_what_may_not_be_listed_is_unknown_and_never_0() -> None:
    broker = Broker().see({"q": queue(80, 80, D=50.0)}, prepared=None, polls=5)
    assert broker.sheet().delivering["in_doubt"] is None
    assert broker.sheet().delivering["unheld"] == (0, 50)
    assert "not granted" in broker.sheet().reasons["in_doubt"]


def test_a_link_has_a_consumer_that_is_not_listed() -> None:
    broker = Broker().see({"q": queue(80, 80, D=28.0, consumers=1.0)}, polls=5)
    assert delivering(broker) == {"by_link": 28}


def test_a_consumer_that_has_just_come_is_no_link() -> None:
    """It is counted with its queue and was not listed before; what it has is seen at the next poll."""
    broker = Broker().see({"q": queue(80, 80)}, polls=4)
    broker.see({"q": queue(80, 80, D=10.0, consumers=1.0)})
    assert delivering(broker) == {"unheld": (0, 10)}


def test_what_consumers_beyond_the_budget_have_is_not_known() -> None:
    """Neither by a link nor with nobody, and what they have prepared is not in doubt for sure."""
    over = [LeftOut("consumers", 2, 3)]
    said = {
        "q": queue(80, 80, D=28.0, in_doubt=10.0, consumers=3.0),
        "r": queue(5, 5, D=5.0, in_doubt=0.0),
    }
    broker = Broker().see(said, consumers=TAKER, prepared=[XID], polls=5, left_out=over)
    sheet = broker.sheet()
    assert (
        sheet.delivering["by_link"],
        sheet.delivering["unheld"],
        sheet.delivering["in_doubt"],
    ) == (
        None,
        None,
        (0, 10),
    )
    assert "budget" in sheet.reasons["by_link"]
    assert "budget" in sheet.reasons["unheld"]
    assert broker.sheet("r").delivering["unheld"] == 5


def test_held_by_none_known() -> None:
    broker = Broker().see({"q": queue(80, 80, D=7.0)}, polls=5)
    assert delivering(broker) == {"unheld": 7}


def test_what_comes_between_the_two_reads_is_no_ones() -> None:
    """1,000 messages a second, read 30 ms apart: up to 60 may be in delivery of which no consumer said anything."""
    broker = Broker()
    for n in range(1, 8):
        came = 2000.0 * n
        said = {
            "c": {"queue": "q", "client": "t", "T": 100.0, "N": came, "C": came - 100}
        }
        broker.see(
            {"q": queue(came, 120, K=came - 120, D=115.0 + n % 2)}, consumers=said
        )
    assert broker.sheet().delivering["unheld"] == (0, 16)


# --- over restarts


def test_the_first_sight_of_a_transaction_outlives_the_agent_and_the_broker() -> None:
    broker = Broker().see({"q": queue(80, 80, D=50.0)}, prepared=[XID])
    first = broker.now
    broker.restart_agent()
    broker.see({"q": queue(80, 80, D=50.0)}, prepared=[XID])
    broker.restart()
    broker.see({"q": queue(80, 80, D=50.0, K=50.0)}, prepared=None).see(
        {"q": queue(80, 80, K=50.0)}, prepared=[XID]
    )
    assert broker.account.in_doubt.since == {XID: first}
    broker.restart_agent()
    broker.restart()
    broker.see({"q": queue(80, 80, D=50.0, K=50.0)}, prepared=[XID, "new"])
    assert broker.account.in_doubt.since == {XID: first, "new": broker.now}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("decided_before", [False, True])
def test_messages_in_doubt_are_counted_twice_by_a_restart(
    *, decided_before: bool
) -> None:
    """Found on 2.44: K is 4 after the restart and 8 after the commit. A consumer is back before the first poll."""
    broker = (
        Broker()
        .see({"q": queue(0, 0)})
        .see({"q": queue(20, 20, D=4.0, in_doubt=4.0)}, prepared=[XID], polls=3)
    )
    broker.restart()
    back = {"c": {"queue": "q", "client": "t", "T": 2.0, "N": 7.0, "C": 5.0}}
    if decided_before:
        broker.see({"q": queue(20, 11, K=13.0, D=2.0)}, consumers=back, polls=4)
    else:
        broker.see({"q": queue(20, 15, K=9.0, D=6.0)}, consumers=back, prepared=[XID])
        broker.see(
            {"q": queue(20, 15, K=9.0, D=6.0, in_doubt=4.0)},
            consumers=back,
            prepared=[XID],
            polls=3,
        )
        assert (broker.left("acknowledged"), broker.sheet().unexplained) == (
            (5, None),
            0,
        )
        broker.see({"q": queue(20, 11, K=13.0, D=2.0)}, consumers=back, polls=4)
    assert (broker.left("acknowledged"), broker.sheet().unexplained) == ((9, None), 0)


@pytest.mark.parametrize(("messages", "settled", "left"), [(5, 3, 2), (5, 0, 5)])
def test_a_ring_loses_messages_in_doubt_at_a_restart(
    messages: float, settled: float, left: float
) -> None:
    """As found on 2.44: ring 5 with 5 in doubt, and 2 or 5 ready."""
    came = messages + left
    broker = Broker().see({"q": queue(0, 0, ring=5.0)})
    broker.see(
        {"q": queue(came, came, D=5.0, in_doubt=5.0, ring=5.0)}, prepared=[XID], polls=3
    )
    broker.restart()
    broker.see(
        {"q": queue(came, messages, K=settled, D=settled, ring=5.0)},
        prepared=[XID],
        polls=3,
    )
    assert {
        fate: number
        for fate, number in broker.sheet().left.items()
        if number is not None
    } == {"evicted": (left, None)}
    assert broker.sheet().unexplained == 0


def test_bridged_messages_are_no_restart_of_the_count() -> None:
    """What a link has in delivery after a restart was not counted as acknowledged by loading it."""
    broker = Broker().see({"q": queue(20, 20)}, polls=2)
    broker.restart()
    broker.see({"q": queue(20, 18, K=2.0, D=5.0, consumers=1.0)}, polls=4)
    assert (broker.left("acknowledged"), broker.sheet().unexplained) == ((2, None), 0)


@pytest.mark.slow  # many polls
def test_a_gauge_has_what_is_in_doubt_for_sure() -> None:
    broker = Broker().see(
        {"q": queue(20, 20, D=13.0, in_doubt=10.0)},
        consumers=TAKER,
        prepared=[XID, "b"],
        polls=5,
    )
    assert broker.column("queue", "in_doubt") == 4
    assert np.isnan(
        Broker().see({"q": queue(80, 80)}, polls=5).column("queue", "in_doubt")
    )
    unread = Broker().see({"q": queue(80, 80, D=50.0)}, prepared=None, polls=5)
    assert np.isnan(unread.column("queue", "in_doubt"))
