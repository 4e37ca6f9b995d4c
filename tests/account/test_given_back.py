"""What clients took and gave back; what only looks like it."""

from dataclasses import replace
from typing import Any

import pytest

from account.world import Broker, queue
from penstock.model import Collector, LeftOut, Snapshot

FOREVER = float("inf")


def core(**said: Any) -> dict[str, Any]:
    return {
        "queue": "q",
        "client": "app",
        "T": 0.0,
        "N": 0.0,
        "C": 0.0,
        "W": 0.0,
        **said,
    }


def see(
    broker: Broker,
    k: float,
    attempts: float,
    consumers: dict[str, dict[str, Any]],
    **said: float,
) -> Broker:
    """A queue of a hundred."""
    row = queue(
        100,
        100 - k,
        K=float(k),
        Att=float(attempts),
        **{k: v for k, v in said.items() if k != "paging"},
    )
    return broker.see(
        {"q": row}, {"q": {"paging": said.get("paging", 0.0)}}, consumers, polls=3
    )


def given_back(broker: Broker) -> tuple[float, float]:
    of = broker.account.returns
    return float(of.given_back[broker.at("q")]), float(of.most[broker.at("q")])


def idle(**said: float) -> Broker:
    return see(Broker(), 0, 0, {"c": core()}, **said)


def test_rollbacks_of_core_are_exact() -> None:
    broker = see(idle(), 10, 10, {"c": core(N=10.0, C=10.0)})
    assert given_back(broker) == (0, 0)
    see(broker, 10, 94, {"c": core(N=94.0, C=94.0)})
    assert given_back(broker) == (84, 84)
    assert broker.sheet().given_back == 84


@pytest.mark.slow  # many polls
def test_of_a_ring_that_never_had_a_consumer_nothing_was_delivered() -> None:
    """What it evicts counts as attempted, and is known as evicted a poll later."""
    broker = Broker()
    for came in range(0, 1000, 100):
        evicted = max(came - 50, 0)
        broker.see(
            {"q": queue(came, min(came, 50), Att=float(evicted), ring_limit=50.0)}
        )
        assert broker.sheet().given_back == 0
    broker.see(
        {"q": queue(1000, 50, Att=950.0, ring_limit=50.0)}, consumers={"c": core()}
    )
    broker.see(
        {"q": queue(1100, 50, Att=1050.0, ring_limit=50.0)}, consumers={"c": core()}
    )
    assert broker.sheet().given_back == (0, 100)


def test_a_client_that_no_poll_saw_may_have_given_back_what_was_attempted() -> None:
    broker = Broker().see({"q": queue(100, 100, Att=0.0)}, polls=3)
    broker.see({"q": queue(100, 100, Att=7.0)})
    assert given_back(broker)[1] == 7


def test_what_is_not_committed_yet_was_not_given_back() -> None:
    broker = see(idle(), 0, 20, {"c": core(N=20.0, C=20.0, W=20.0)}, D=20.0)
    assert given_back(broker) == (0, 0)
    assert given_back(see(broker, 20, 20, {"c": core(N=20.0, C=20.0)})) == (0, 0)


def test_nor_what_is_in_doubt() -> None:
    broker = see(idle(), 0, 20, {"c": core()}, D=20.0)
    assert given_back(broker)[0] == 0


def test_nor_what_a_client_prepared_before_it_went() -> None:
    rows = {"q": queue(80, 80, D=50.0, Att=0.0)}
    broker = Broker().see(rows, consumers={"c": core(T=50.0, N=50.0)}, polls=4)
    broker.see(
        {"q": queue(80, 80, D=50.0, Att=50.0, in_doubt=50.0)},
        consumers={},
        prepared=["xid"],
        polls=5,
    )
    assert given_back(broker)[0] == 0
    assert broker.sheet().delivering["in_doubt"] == 50


@pytest.mark.slow  # many polls
def test_nor_a_batch_that_is_acknowledged_between_two_reads() -> None:
    """Ten in each transaction, which no consumer had acknowledged yet and the attempts have, at three polls."""
    broker = idle()
    for n in range(1, 9):
        k = 20.0 * n
        late = 10 * (n % 4 > 0)
        row = queue(1000, 1000 - k, K=k, D=9.0, Att=k + late)
        broker.see({"q": row}, consumers={"c": core(T=9.0, N=k + 9, C=k)})
        assert given_back(broker)[0] == 0


@pytest.mark.slow  # many polls
def test_nor_what_is_delivered_between_two_reads_where_nothing_moves_otherwise() -> (
    None
):
    """Consumers, read before, had not heard of 3 to 40 that were delivered since."""
    broker = Broker().see(
        {"q": queue(100, 100, Att=0.0)}, consumers={"c": core()}, polls=5
    )
    for n, late in enumerate((3.0, 40.0, 15.0, 4.0, 4.0, 8.0, 8.0, 0.0), 1):
        row = queue(100 + 200 * n, 100 + 200 * n, D=200 * n + late, Att=0.0)
        broker.see({"q": row}, consumers={"c": core(T=200.0 * n, N=200.0 * n)})
    row = queue(1700, 100, K=1600.0, Att=1600.0)
    broker.see({"q": row}, consumers={"c": core(N=1600.0, C=1600.0)}, polls=4)
    assert given_back(broker) == (0, 0)


def test_nor_what_a_newer_last_value_replaced_between_two_reads() -> None:
    """Five of each ten were replaced when attempts were read, and not yet when the queue was."""
    broker = Broker().see(
        {"q": queue(0, 0, last_value=1.0, Att=0.0)}, consumers={"c": core()}, polls=2
    )
    for n in range(1, 8):
        broker.see(
            {"q": queue(10.0 * n, 0, last_value=1.0, Att=10.0 * n + 5)},
            consumers={"c": core()},
        )
        assert given_back(broker)[0] == 0


def test_nor_what_expires_while_one_message_is_with_nobody() -> None:
    broker = Broker().see({"q": queue(1, 1, Att=0.0)}, consumers={"c": core()}, polls=2)
    for n in range(1, 5):
        broker.see(
            {"q": queue(1, 1, D=1.0, E=20.0 * n, Att=20.0 * n)}, consumers={"c": core()}
        )
    broker.see({"q": queue(1, 1, E=100.0, Att=100.0)}, consumers={"c": core()}, polls=4)
    assert given_back(broker)[0] == 0


def test_purged_expired_and_moved_messages_were_attempted() -> None:
    assert given_back(see(idle(), 10, 25, {"c": core()}, M=75.0, X=8.0, E=7.0)) == (
        0,
        0,
    )


def test_a_client_that_went_gave_back_what_it_had() -> None:
    """Killed: the broker counts no attempt."""
    broker = see(idle(), 0, 0, {"c": core(T=30.0, N=30.0)}, D=30.0)
    see(broker, 0, 0, {})
    assert given_back(broker) == (30, FOREVER)
    assert broker.sheet().given_back == (30, None)


def test_what_it_settled_last_it_did_not_give_back() -> None:
    broker = see(idle(), 0, 0, {"c": core(T=30.0, N=30.0)}, D=30.0)
    see(broker, 25, 25, {})
    assert given_back(broker) == (5, FOREVER)


def test_an_orderly_close_counts_once() -> None:
    """30 attempts, and 30 that a consumer had when it went."""
    broker = see(idle(), 0, 0, {"c": core(T=30.0, N=30.0)}, D=30.0)
    assert given_back(see(broker, 0, 30, {})) == (30, FOREVER)


def test_other_protocols_count_no_attempts() -> None:
    broker = see(idle(), 10, 10, {"c": core(protocol="AMQP", N=10.0, C=10.0)})
    assert given_back(broker) == (0, FOREVER)


def test_a_queue_that_paged_has_attempted_too_few() -> None:
    broker = see(idle(), 50, 20, {"c": core(N=50.0, C=50.0)}, paging=1.0)
    assert given_back(broker) == (0, FOREVER)
    see(broker, 60, 130, {"c": core(N=60.0, C=60.0)})
    assert given_back(broker) == (0, FOREVER)
    assert "page" in broker.sheet().reasons["given_back"]


@pytest.mark.slow  # many polls
def test_attempts_are_read_after_the_counters() -> None:
    """A thousand a second: ahead by twenty at each poll."""
    broker = idle()
    for n in range(1, 40):
        k = 2000.0 * n
        row = queue(k, 0, K=k, Att=k + 20)
        broker.see({"q": row}, consumers={"c": core(N=k, C=k)})
        low, high = given_back(broker)
        assert low <= 20 <= high + 20
    broker.see({"q": queue(k, 0, K=k, Att=k)}, consumers={"c": core(N=k, C=k)}, polls=3)
    assert given_back(broker)[0] <= 20


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("kept", [True, False])
def test_restarts(kept: bool) -> None:
    broker = see(idle(), 10, 40, {"c": core(N=40.0, C=40.0)})
    if kept:
        broker.restart_agent()
        see(broker, 10, 50, {"c": core(N=50.0, C=50.0)})
        assert given_back(broker)[0] == 30  # what was given back meanwhile is not known
    else:
        broker.restart()
        broker.see({"q": queue(90, 90, Att=0.0)}, polls=3)
        broker.see(
            {"q": queue(90, 90, Att=5.0)}, consumers={"c": core(N=5.0, C=5.0)}, polls=3
        )
        assert given_back(broker)[0] == 35


@pytest.mark.slow  # many polls
def test_attempts_that_were_not_read_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last good ones stand in for them."""
    broker = see(idle(), 10, 10, {"c": core(N=10.0, C=10.0)})

    def without_sizes(snapshot: Snapshot) -> None:
        collectors = {
            **snapshot.collectors,
            "sizes": Collector(0.01, snapshot.stamp, "timeout"),
        }
        Broker.judge(broker, replace(snapshot, collectors=collectors))

    with monkeypatch.context() as patch:
        patch.setattr(broker, "judge", without_sizes)
        see(broker, 60, 10, {"c": core(N=60.0, C=60.0)})
    assert given_back(broker) == (0, FOREVER)
    assert given_back(see(broker, 60, 60, {"c": core(N=60.0, C=60.0)})) == (0, 0)
    assert given_back(see(broker, 60, 63, {"c": core(N=63.0, C=63.0)})) == (3, 3)


def test_attempts_before_the_agent_are_not_of_the_account() -> None:
    """Also where they are read later than the rest."""
    broker = Broker()
    one = {"c": core(N=90.0, C=90.0)}
    broker.see({"q": queue(100, 90, K=10.0)}, consumers=one, polls=2)
    see(broker, 10, 90, one)
    assert given_back(broker)[0] == 0


@pytest.mark.slow  # many polls
def test_a_consumer_beyond_the_budget_has_not_gone() -> None:
    broker = see(idle(), 0, 0, {"c": core(T=30.0, N=30.0)}, D=30.0)
    row = {"q": queue(100, 100, D=30.0, Att=0.0)}
    broker.see(row, consumers={}, polls=3, left_out=[LeftOut("consumers", 1, 1)])
    see(broker, 0, 0, {"c": core(T=30.0, N=30.0)}, D=30.0)
    assert given_back(broker) == (0, FOREVER)
    assert "poll" in broker.sheet().reasons["given_back"]


@pytest.mark.parametrize("of_agent", [True, False])
def test_what_is_given_back_between_two_processes_is_not_known(of_agent: bool) -> None:
    broker = see(idle(), 10, 40, {"c": core(N=40.0, C=40.0)})
    assert given_back(broker) == (30, 30)
    broker.restart_agent() if of_agent else broker.restart()
    see(
        broker,
        10 * of_agent,
        40 * of_agent,
        {"c": core(N=40.0 * of_agent, C=40.0 * of_agent)},
    )
    assert given_back(broker) == (30, FOREVER)
