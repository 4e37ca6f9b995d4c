"""What a poll could not read, or no poll saw, is never counted as something else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from account.openmq_world import openmq_broker
from account.world import Broker, queue
from conditions.openmq_world import OpenmqJudged, openmq
from penstock.model import Collector, Snapshot, TransactionState


def consumer(**said: Any) -> dict[str, Any]:
    return {
        "queue": "q",
        "T": 0.0,
        "N": 0.0,
        "client": "c",
        "protocol": "CORE",
        "session": "s1",
        **said,
    }


# --- Artemis


class Sent(Broker):
    """A queue to which a client sends 100 messages between two polls, and nobody takes them."""

    sent = 0

    def send(self, polls: int = 1) -> None:
        for _ in range(polls):
            self.sent += 100
            self.see(
                {"q": queue(self.sent, self.sent)},
                senders={"p": ("q", float(self.sent))},
            )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("polls", [4, 29])
def test_addresses_that_cannot_be_read_are_no_duplicates(
    polls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good ones stand in for them, and what is sent goes on."""
    broker = Sent()
    broker.send(20)
    assert broker.last is not None
    kept = broker.last.addresses

    def without_addresses(snapshot: Snapshot) -> None:
        failed = Collector(0.01, snapshot.stamp, "timeout")
        collectors = {**snapshot.collectors, "addresses": failed}
        Broker.judge(broker, replace(snapshot, addresses=kept, collectors=collectors))

    with monkeypatch.context() as patch:
        patch.setattr(broker, "judge", without_addresses)
        broker.send(polls)
    assert "duplicates_dropped" not in broker.names | broker.notices
    broker.send(12)
    assert broker.fate("duplicate")[0] == 0
    assert "duplicates_dropped" not in broker.names | broker.notices


@pytest.mark.slow  # many polls
def test_no_duplicates_are_more_than_at_most() -> None:
    """Ten of a sender that is not listed come after 30 duplicates."""
    broker = Broker().see({"q": queue(0, 0)}, senders={}, polls=3)
    broker.see({"q": queue(0, 0)}, senders={"p": ("q", 0.0)}, polls=3)
    for came in (70, 80):
        broker.see({"q": queue(came, came)}, senders={"p": ("q", 100.0)}, polls=4)
        low, high = broker.fate("duplicate")
        assert (low, high >= low) == (30, True)


@pytest.mark.slow  # many polls
def test_unrouted_since_the_start_of_a_broker_counts() -> None:
    broker = Broker()
    queues = {"q": queue(10, 10)}
    broker.see(
        queues,
        {"q": {"messages_added": 10.0, "messages_unrouted": 5.0}},
        senders={},
        polls=4,
    )
    broker.see(
        queues,
        {"q": {"messages_added": 10.0, "messages_unrouted": 8.0}},
        senders={},
        polls=4,
    )
    assert broker.fate("unrouted")[0] == 3
    broker.restart()
    broker.see(
        queues,
        {"q": {"messages_added": 0.0, "messages_unrouted": 50.0}},
        senders={},
        polls=4,
    )
    assert broker.fate("unrouted")[0] == 53


@pytest.mark.slow  # many polls
def test_a_transaction_whose_producer_was_closed_is_not_rolled_back() -> None:
    """As Spring's JmsTemplate does in a session with transactions: each send has a producer of its own."""
    broker = Broker()
    broker.see(
        {"q": queue(100, 100)}, {"q": {"messages_added": 100.0}}, senders={}, polls=4
    )
    for came in range(100, 150, 10):
        broker.see(
            {"q": queue(came, came)},
            {"q": {"messages_added": came + 10.0}},
            senders={},
            polls=6,
        )
        broker.see(
            {"q": queue(came + 10, came + 10)},
            {"q": {"messages_added": came + 10.0}},
            senders={},
            polls=4,
        )
    assert broker.fate("rolled_back")[0] == 0


@pytest.mark.slow  # many polls
def test_what_clients_that_no_poll_lists_fail_to_take_is_not_surely_purged() -> None:
    broker = Broker()
    for poll in range(12):
        broker.about["sessions_made"] = 10.0 + 3 * poll
        killed = max(0, poll - 5) * 2.0
        rows = {"q": queue(100, 100 - killed, X=killed, has_dead_letter_address=0.0)}
        broker.see(rows, {"q": {"max_delivery_attempts": 10.0}}, senders={})
    left = broker.sheet().left
    assert least(left["purged"]) == 0
    assert left["dead_lettered"] != 0


@pytest.mark.slow  # many polls
def test_a_purge_with_nobody_there_is_still_a_purge() -> None:
    """A healthy look-alike: all sessions that are made are listed."""
    broker = Broker()
    for poll in range(12):
        broker.about["sessions_made"] = 10.0 + poll
        killed = 6.0 * (poll > 8)
        senders = {f"p{poll}": ("q", 0.0)}
        rows = {"q": queue(100, 100 - killed, X=killed, has_dead_letter_address=0.0)}
        broker.see(rows, {"q": {"max_delivery_attempts": 10.0}}, senders=senders)
    assert broker.sheet().left["purged"] == 6


def test_clients_that_go_while_addresses_cannot_be_read_may_have_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    limit = {"q": {"max_delivery_attempts": 10.0}}
    broker.see(
        {"q": queue(9, 9, has_dead_letter_address=0.0)}, limit, senders={}, polls=4
    )

    def without_addresses(snapshot: Snapshot) -> None:
        failed = {
            **snapshot.collectors,
            "addresses": Collector(0.01, snapshot.stamp, "timeout"),
        }
        Broker.judge(broker, replace(snapshot, collectors=failed))

    with monkeypatch.context() as patch:
        patch.setattr(broker, "judge", without_addresses)
        row = {"q": queue(9, 9, has_dead_letter_address=0.0, D=5.0)}
        broker.see(row, limit, {"k": consumer(T=5.0, N=5.0)}, senders={}, polls=2)
        broker.see(
            {"q": queue(9, 4, X=5.0, has_dead_letter_address=0.0)},
            limit,
            senders={},
            polls=2,
        )
    broker.see(
        {"q": queue(9, 4, X=5.0, has_dead_letter_address=0.0)},
        limit,
        senders={},
        polls=2,
    )
    assert least(broker.sheet().left["purged"]) == 0


@pytest.mark.slow  # many polls
def test_what_is_given_back_while_no_agent_looks_is_not_known() -> None:
    broker = Broker()
    for attempts, settled in ((0.0, 0.0), (10.0, 10.0)):
        one = consumer(T=5.0, N=5.0 + settled, C=settled)
        broker.see(
            {"q": {**queue(20, 20, D=5.0), "Att": attempts}},
            consumers={"k": one},
            polls=4,
        )
    broker.restart_agent()
    broker.now = broker.now + 3600
    broker.uptime = broker.uptime + 3600
    after = consumer(T=5.0, N=515.0, C=510.0)
    broker.see(
        {"q": {**queue(20, 20, D=5.0), "Att": 510.0}}, consumers={"k": after}, polls=4
    )
    assert not isinstance(broker.sheet().given_back, int)
    assert "given_back" in broker.sheet().reasons


@pytest.mark.slow  # many polls
def test_no_loss_by_a_client_is_negative_when_a_limit_goes_and_comes() -> None:
    broker = Broker()
    holding = {"a": consumer(T=4.0, N=4.0)}
    broker.see({"q": queue(4, 4, D=4.0, ring=3.0)}, consumers=holding, polls=3)
    for rows, polls in (
        ({"q": queue(4, 3, ring=3.0)}, 4),
        ({"q": queue(4, 3)}, 3),
        ({"q": queue(4, 3, ring=3.0)}, 3),
    ):
        broker.see(rows, polls=polls)
    assert min([0.0, *broker.tables["ring_loser"]["lost"].tolist()]) == 0


def test_the_losers_of_a_ring_that_is_gone_are_forgotten() -> None:
    broker = Broker()
    holding = {"a": consumer(T=4.0, N=4.0)}
    broker.see({"q": queue(4, 4, D=4.0, ring=3.0)}, consumers=holding, polls=3)
    broker.see({"q": queue(4, 3, ring=3.0)}, polls=4)
    assert broker.account.ring_losses.latest
    broker.see({"other": queue(4, 3)}, polls=2)
    assert not broker.account.ring_losses.latest


# --- OpenMQ

TOPIC = {
    "topic": 1.0,
    "messages": 0.0,
    "uncommitted": 0.0,
    "dead_letters": 1.0,
    "delivering": 0.0,
}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("kept", "polls"), [(False, 3), (True, 5), (True, 20)])
def test_producers_that_cannot_be_read_send_nothing_unwanted(
    kept: bool, polls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = openmq_broker()
    came = 0.0

    def see(times: int) -> None:
        nonlocal came
        for _ in range(times):
            came += 50
            broker.producers = {
                "p": {"address": "t", "connection": 1, "produced": came}
            }
            broker.see(others={"t": {**TOPIC, "messages_added": came, "removed": came}})

    see(12)
    assert broker.last is not None
    last = broker.last.producers
    snapshot = type(broker).snapshot

    def unread(self: Any, *arguments: Any) -> Snapshot:
        found = snapshot(self, *arguments)
        if not kept:
            return replace(found, producers=None)
        failed = Collector(0.01, found.stamp, "timeout")
        return replace(
            found, producers=last, collectors={**found.collectors, "producers": failed}
        )

    with monkeypatch.context() as patch:
        patch.setattr(type(broker), "snapshot", unread)
        see(polls)
    see(3)
    assert least(broker.left("t").get("unwanted", 0)) == 0


def prepared(
    received: float, state: TransactionState = TransactionState.PREPARED
) -> Mapping[str, Any]:
    return {
        "7": {
            "state": float(state),
            "messages": 0.0,
            "acknowledgements": received,
            "connection": -1,
        }
    }


@pytest.fixture
def delivered() -> OpenmqJudged:
    """A queue of which five messages are delivered to no consumer."""
    return openmq()


def see_delivered(broker: Any, polls: int = 15) -> None:
    for _ in range(polls):
        broker.poll(
            {
                "q": {
                    "A": 9,
                    "K": 0,
                    "M": 9,
                    "D": 5.0,
                    "uncommitted": 0.0,
                    "consumers": 0.0,
                }
            }
        )


@pytest.mark.slow  # many polls
def test_messages_of_transactions_that_cannot_be_read_are_not_said_to_be_lost(
    delivered: OpenmqJudged, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered.transactions = dict(prepared(5.0))
    see_delivered(delivered)
    assert delivered.names & {"in_doubt", "delivered_to_none"} == {"in_doubt"}
    snapshot = OpenmqJudged.snapshot
    monkeypatch.setattr(
        OpenmqJudged,
        "snapshot",
        lambda self, *a: replace(snapshot(self, *a), transactions=None),
    )
    see_delivered(delivered)
    assert "delivered_to_none" not in delivered.names


@pytest.mark.slow  # many polls
def test_messages_of_an_open_transaction_are_not_with_nobody(
    delivered: OpenmqJudged,
) -> None:
    """Its consumer was closed before the commit."""
    delivered.transactions = dict(prepared(5.0, TransactionState.STARTED))
    see_delivered(delivered)
    assert "delivered_to_none" not in delivered.names


def test_a_prepared_transaction_has_no_more_in_doubt_than_it_received() -> None:
    broker = openmq_broker()
    broker.transactions = dict(prepared(2.0))
    other = {"A": 10.0, "K": 0.0, "M": 10.0, "D": 2.0, "uncommitted": 0.0}
    for _ in range(8):
        broker.see(i=10, o=0, n=10, delivering=5, others={"x": other})
    for name, number in (("q", 5), ("x", 2)):
        delivering = broker.sheet(name).delivering
        assert least(delivering.get("in_doubt", 0)) <= 2
        assert delivering.get("in_doubt") != number


def test_a_sender_whose_clock_is_behind_makes_no_bounds_that_contradict() -> None:
    broker = openmq_broker()
    one = {"A": 10.0, "K": 10.0, "M": 0.0, "D": 0.0, "uncommitted": 0.0}
    for _ in range(6):
        broker.see(others={"x": one})
    for _ in range(3):
        broker.see(
            others={"x": {**one, "A": 11.0, "M": 1.0, "next_sent": broker.now - 3600}}
        )
    oldest = broker.tables["oldest"]
    bounds = {
        row.bound: float(oldest["at"][i])
        for i, row in enumerate(oldest.index)
        if row.queue == "x"
    }
    assert bounds.get("earliest", 0.0) <= bounds.get("latest", float("inf"))


def least(amount: Any) -> float:
    return (
        0.0
        if amount is None
        else float(amount[0] if isinstance(amount, list | tuple) else amount)
    )
