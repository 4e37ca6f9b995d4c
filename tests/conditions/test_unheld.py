"""`unheld`: in delivery, and with no consumer; not what is prepared, sent by links, or read at two moments."""

from typing import Any

import pytest

from account.world import Broker, queue
from conditions.things import Numbers

STUCK = queue(400, 331, K=69.0, D=331.0)


@pytest.mark.parametrize(
    "step", [pytest.param(2.0, marks=pytest.mark.slow), 15.0]
)  # many polls
def test_messages_of_nobody(step: float) -> None:
    broker = Broker(step=step)
    broker.see({"q": STUCK}, polls=int(24 / step) + 1)
    assert "unheld" not in broker.names
    found = broker.see({"q": STUCK}, polls=int(60 / step)).one("unheld")
    assert found.evidence["unheld"] == 331


TAKER: Numbers = {"queue": "q", "client": "t", "N": 331, "T": 331}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("said", "consumers", "options"),
    [
        ({}, {"c": TAKER}, {}),
        (
            {"D": 334.0, "M": 334.0, "A": 403.0},
            {"c": TAKER},
            {},
        ),  # apart by the moments of reading
        ({"in_doubt": 331.0}, {}, {"prepared": ["xid"]}),
        ({}, {}, {"prepared": None}),  # it may not be asked
        ({"consumers": 1.0}, {}, {}),  # a link, which is not listed
    ],
)
def test_what_somebody_has_or_may_have(
    said: Numbers, consumers: dict[str, Numbers], options: dict[str, Any]
) -> None:
    broker = Broker().see(
        {"q": {**STUCK, **said}}, consumers=consumers, polls=60, **options
    )
    assert "unheld" not in broker.names


@pytest.mark.slow  # many polls
def test_under_load_reads_are_apart_by_what_moves() -> None:
    """2,000 a second; the queue is read 20 ms after its consumers."""
    broker = Broker()
    for n in range(60):
        a = 4000.0 * n
        broker.see(
            {"q": queue(a + 200, 130, K=a + 70, D=85.0)},
            consumers={"c": {**TAKER, "N": a, "T": 50}},
        )
    assert "unheld" not in broker.names


@pytest.mark.slow  # many polls
def test_it_ends_with_the_restart_of_the_broker() -> None:
    broker = Broker().see({"q": STUCK}, polls=40)
    broker.restart()
    broker.see({"q": queue(331, 331)}, polls=3)
    assert "unheld" not in broker.names
