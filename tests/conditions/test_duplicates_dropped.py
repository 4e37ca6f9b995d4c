"""`duplicates_dropped`: what producers sent and was not routed grows on; a few after a failover are healthy."""

import pytest

from account.world import Broker, queue


def sent(broker: Broker, n: float, dropped: float, **said: float) -> None:
    came = 20.0 * n
    broker.see(
        {"q": queue(came - dropped, came - dropped, **said)}, senders={"p": ("q", came)}
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [2.0, 10.0])
def test_a_producer_that_uses_ids_again(step: float) -> None:
    broker = Broker(step=step)
    for n in range(30):
        sent(broker, n, 15.0 * n)
    found = broker.one("duplicates_dropped")
    assert found.why == "producers of the address: app; one of them uses ids again"
    assert 70 <= found.evidence["share"] <= 80
    assert found.evidence["lost"] >= 300


@pytest.mark.slow  # many polls
def test_a_client_that_sends_again_after_a_failover_is_healthy() -> None:
    broker = Broker()
    for n in range(60):
        sent(broker, n, min(max(20.0 * (n - 20), 0.0), 40.0))
    low, high = broker.fate("duplicate")
    assert (
        20 <= low <= high == 40
    )  # what was sent since the poll before may be on its way
    assert not {"duplicates_dropped"} & (broker.names | broker.notices)


@pytest.mark.slow  # many polls
def test_a_trickle_is_a_notice() -> None:
    """One in fifty is sent again all the time."""
    broker = Broker()
    for n in range(60):
        sent(broker, n, n // 2)
    assert "duplicates_dropped" in broker.notices


@pytest.mark.slow  # many polls
def test_what_open_transactions_sent_is_no_duplicate() -> None:
    """R rises with what is sent."""
    broker = Broker()
    for n in range(60):
        said = {"q": {"messages_added": 20.0 * n, "messages_unrouted": 0.0}}
        broker.see({"q": queue(0, 0)}, said, senders={"p": ("q", 20.0 * n)})
    assert not {"duplicates_dropped"} & (broker.names | broker.notices)


@pytest.mark.slow  # many polls
def test_it_clears_when_no_more_are_dropped_and_stays_over_a_restart_of_the_agent() -> (
    None
):
    broker = Broker()
    for n in range(30):
        sent(broker, n, 15.0 * n)
    broker.restart_agent()
    for n in range(30, 34):
        sent(broker, n, 15.0 * n)
        assert "duplicates_dropped" in broker.names
    for n in range(34, 120):
        sent(broker, n, 15.0 * 33)
    assert "duplicates_dropped" not in broker.names
