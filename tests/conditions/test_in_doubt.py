"""`in_doubt`: the same transaction prepared for minutes; those that come and go are healthy."""

from collections.abc import Sequence

import pytest

from account.world import Broker, queue
from penstock.conditions.condition import Severity

XID = "dHhxdWV1ZTE3OTUzNzIyNzI4NDYtMAEAAAA"
STUCK = {"q": queue(80, 80, D=50.0, in_doubt=50.0)}


def stuck(
    *, polls: int = 95, step: float = 2.0, xids: Sequence[str] = (XID,)
) -> Broker:
    return Broker(step=step).see(STUCK, prepared=xids, polls=polls)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [2.0, 10.0, 60.0])
def test_it_is_a_warning_of_the_broker_after_three_minutes(step: float) -> None:
    early = stuck(polls=int(170 / step), step=step)
    assert "in_doubt" not in early.names
    found = early.see(STUCK, prepared=[XID], polls=int(30 / step) + 3).one("in_doubt")
    assert (found.severity, found.queue) == (Severity.WARNING, "")
    assert (
        found.why == "Xids dHhxdWV1...zNzIyNzI4NDYtMAEAAAA; messages in doubt: 50 of q"
    )


@pytest.mark.slow  # many polls
def test_it_names_the_oldest_and_says_how_many_more() -> None:
    found = stuck(xids=["a", "b", "c", "d", "e"]).one("in_doubt")
    assert found.why.startswith("Xids a, b, c, 2 more;")


@pytest.mark.slow  # many polls
def test_transactions_that_come_and_go_are_healthy() -> None:
    """Each lives for 5 s; there is one at every poll."""
    broker = Broker()
    for n in range(150):
        broker.see(
            {"q": queue(900 + n, 20, K=880.0 + n, D=9.0)},
            prepared=[f"tx{n // 3}", f"tx{n // 3 + 1}"],
        )
    assert "in_doubt" not in broker.names


@pytest.mark.slow  # many polls
def test_a_transaction_without_messages_taken_is_told_too() -> None:
    """It only sent."""
    found = (
        Broker().see({"q": queue(80, 80)}, prepared=[XID], polls=100).one("in_doubt")
    )
    assert found.why.endswith("messages in doubt: none that was taken")


@pytest.mark.slow  # many polls
def test_how_many_is_unknown_where_the_count_is_refused() -> None:
    found = (
        Broker()
        .see({"q": queue(80, 80, D=50.0)}, prepared=[XID], polls=100)
        .one("in_doubt")
    )
    assert found.why.endswith("messages in doubt: an unknown number")


@pytest.mark.slow  # many polls
def test_it_goes_when_they_are_decided() -> None:
    broker = stuck()
    assert "in_doubt" in broker.names
    assert "in_doubt" not in broker.see({"q": queue(80, 30, K=50.0)}, polls=2).names


@pytest.mark.slow  # many polls
def test_it_goes_on_over_a_restart_of_the_broker_and_of_the_agent() -> None:
    """The broker shows its start as the transaction's time."""
    broker = stuck()
    since = broker.one("in_doubt").since
    broker.restart()
    broker.see(
        {"q": queue(80, 80, D=50.0, K=50.0, in_doubt=50.0)}, prepared=[XID], polls=3
    )
    assert broker.one("in_doubt").since == pytest.approx(since, abs=1)
    broker.restart_agent()
    broker.see(
        {"q": queue(80, 80, D=50.0, K=50.0, in_doubt=50.0)}, prepared=[XID], polls=3
    )
    assert broker.one("in_doubt").since == pytest.approx(since, abs=1)


@pytest.mark.slow  # many polls
def test_an_account_that_may_not_list_them_says_nothing() -> None:
    assert (
        "in_doubt"
        not in Broker()
        .see({"q": queue(80, 80, D=50.0)}, prepared=None, polls=100)
        .names
    )
