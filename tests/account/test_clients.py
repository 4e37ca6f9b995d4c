"""The account of a client: what it took and what became of it, what it sent and where."""

from typing import Any

import pytest

from account.world import Broker, queue
from penstock.insight.answers import AccountList, AccountSheet
from penstock.insight.explain import NotFound
from penstock.insight.text import account_lines


def taker(**said: Any) -> dict[str, Any]:
    return {
        "queue": "q",
        "client": "taker",
        "T": 0.0,
        "N": 0.0,
        "C": 0.0,
        "W": 0.0,
        **said,
    }


def client(broker: Broker, name: str) -> AccountSheet:
    (found,) = broker.sheets(name).rows
    return found


def test_what_it_took() -> None:
    broker = Broker().see(
        {"q": queue(50, 50, Att=0.0)}, consumers={"c": taker()}, polls=3
    )
    rows = {"q": queue(50, 45, K=5.0, D=8.0, Att=7.0)}
    broker.see(rows, consumers={"c": taker(T=6.0, N=13.0, C=7.0, W=2.0)}, polls=3)
    sheet = client(broker, "taker")
    assert sheet.came == {"delivered": 13}
    assert sheet.there == {"buffered": 6, "uncommitted": 2}
    assert sheet.left == {"acknowledged": 5, "given_back": 0}
    assert sheet.sums == "13 delivered = 6 buffered + 2 uncommitted + 5 acknowledged"
    assert not sheet.sent


def test_what_it_rolled_back_has_bounds() -> None:
    broker = Broker().see(
        {"q": queue(50, 50, Att=0.0)}, consumers={"c": taker()}, polls=3
    )
    broker.see(
        {"q": queue(50, 45, K=5.0, Att=9.0)},
        consumers={"c": taker(N=9.0, C=9.0)},
        polls=3,
    )
    sheet = client(broker, "taker")
    assert sheet.left == {"acknowledged": (5, 9), "given_back": (0, 4)}
    assert sheet.sums == "9 delivered = 9 acknowledged or given back"
    assert "rolls back" in sheet.reasons["given_back"]


def test_what_a_ring_lost_as_it_closed() -> None:
    ring = {"ring": 3.0, "Att": 0.0}
    broker = Broker().see({"q": queue(3, 3, **ring)}, consumers={"c": taker()}, polls=3)
    broker.see(
        {"q": queue(4, 4, D=4.0, **ring)}, consumers={"c": taker(T=4.0, N=4.0)}, polls=2
    )
    broker.see({"q": queue(4, 3, **ring)}, consumers={"d": taker()}, polls=4)
    assert client(broker, "taker").lost_by == {"q": 1}


def test_what_it_sent() -> None:
    broker = Broker().see(
        {"q": queue(0, 0)}, senders={"p": ("q", 0), "any": ("(anonymous)", 0)}, polls=3
    )
    broker.see(
        {"q": queue(7, 7)}, senders={"p": ("q", 7), "any": ("(anonymous)", 90)}, polls=3
    )
    sheet = client(broker, "app")
    assert sheet.sent == {"q": 7, "(anonymous)": None}
    assert "no count" in sheet.reasons["(anonymous)"]
    lines = list(account_lines(AccountList("b", 0.0, [sheet], 1)))
    assert lines[:3] == ["b / app   client", "Sent to", f"{7:>18}  q"]
    assert lines[3] == f"{'unknown':>18}  (anonymous)   {sheet.reasons['(anonymous)']}"


def test_one_that_is_not_there() -> None:
    broker = Broker().see({"q": queue(0, 0)}, senders={}, polls=3)
    with pytest.raises(NotFound, match="no address, queue or client 'nobody'"):
        broker.sheets("nobody")
