"""Messages that vanish are never called safe: addresses without a queue, wrong routing types, page limits, wildcards,
restarts; and the sentence of a broker follows from all fates.
"""

from typing import Any

import pytest

from account.world import Broker, queue
from penstock.account.fates import UNCOMMITTED
from penstock.insight.text import account_lines

QUIET_POLLS = 18
"""In 30 s, and three more."""
PAGED: dict[str, Any] = {
    "policy": "page",
    "paging": 1.0,
    "page_limit_pages": 5.0,
    "page_limit_messages": -1.0,
}
SAFE = "no message was lost"


def sentence(broker: Broker) -> str:
    """All lines of `penstock account BROKER`."""
    return "\n".join(account_lines(broker.sheets("")))


# --- (a) an address that has no queue


def bare(
    unrouted: float, routed: float = 0.0, **said: Any
) -> dict[str, dict[str, Any]]:
    return {"none": {"messages_added": routed, "messages_unrouted": unrouted, **said}}


def test_an_address_without_a_queue_has_a_sheet() -> None:
    broker = Broker().see({"q": queue(0, 0)}, polls=3)
    broker.see({"q": queue(0, 0)}, bare(3237), polls=3)
    (sheet,) = broker.sheets("none").rows
    assert (sheet.address, sheet.queue, sheet.left["unrouted"]) == ("none", "", 3237)
    assert broker.shown() == {("(none)", "unrouted"): 3237}
    assert SAFE not in sentence(broker)
    assert "3,237  unrouted" in sentence(broker)


def test_what_was_unrouted_before_the_first_poll_is_not_counted() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0)}, bare(40), polls=3)
        .see({"q": queue(0, 0)}, bare(45), polls=2)
    )
    assert broker.shown() == {("(none)", "unrouted"): 5}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("restart", ["", "agent", "broker"])
def test_its_account_goes_on_when_it_gets_a_queue_and_loses_it(restart: str) -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0)}, polls=3)
        .see({"q": queue(0, 0)}, bare(30), polls=3)
    )
    base = 0.0
    if restart == "agent":
        broker.restart_agent()
    if restart == "broker":
        broker.restart()
        base = 30.0
    broker.see({"q": queue(0, 0)}, bare(50 - base), polls=3)
    assert broker.shown()["(none)", "unrouted"] == 50
    rows = {"q": queue(0, 0), "own": queue(0, 0, address="none")}
    broker.see(rows, bare(50 - base), polls=3)
    broker.see(
        {**rows, "own": queue(7, 7, address="none")}, bare(50 - base, 7), polls=3
    )
    assert broker.shown()["(none)", "unrouted"] == 50
    broker.see({"q": queue(0, 0)}, bare(62 - base, 7), polls=3)
    assert broker.shown()["(none)", "unrouted"] == 62


@pytest.mark.parametrize(
    "name", ["activemq.notifications", "$sys.mqtt.x", "ActiveMQ.Advisory.Connection"]
)
def test_what_the_broker_sends_itself_is_no_loss(name: str) -> None:
    broker = Broker().see({"q": queue(0, 0)}, polls=3)
    broker.see(
        {"q": queue(0, 0)},
        {name: {"messages_added": 0.0, "messages_unrouted": 99.0}},
        senders={},
        polls=3,
    )
    assert broker.shown() == {}
    assert SAFE in sentence(broker)


# --- (b) sent with a routing type that no queue of the address has


def topic_sender(r: float, a: float = 0.0) -> dict[str, Any]:
    return {
        "queues": {"q": queue(a, 0, K=a)},
        "addresses": {
            "q": {"messages_added": r, "messages_unrouted": 0.0, "policy": "page"}
        },
        "senders": {"p": ("q", r)},
    }


def misrouted() -> Broker:
    broker = Broker().see(**topic_sender(0), polls=3)
    for n in range(1, 30):
        broker.see(**topic_sender(170.0 * n))
    return broker.see(**topic_sender(170.0 * 29), polls=3)


@pytest.mark.slow  # many polls
def test_what_reaches_no_queue_is_possibly_lost_while_its_producer_is_there() -> None:
    broker = misrouted()
    sheet = broker.sheet(address=True)
    assert sheet.left["missing"] == (0, 4930)
    assert sheet.there[UNCOMMITTED] == (0, 4930)
    assert sheet.left["rolled_back"] == (0, 4930)  # nothing excludes it
    assert SAFE not in sentence(broker)
    assert "none of it is lost" not in sentence(broker)
    assert "possibly lost" in sentence(broker)


@pytest.mark.slow  # many polls
def test_and_missing_for_good_when_it_is_gone() -> None:
    broker = misrouted()
    last = topic_sender(4930.0)
    broker.see(last["queues"], last["addresses"], senders={}, polls=QUIET_POLLS)
    assert broker.sheet(address=True).left["missing"] == 4930
    assert broker.sheet(address=True).there[UNCOMMITTED] == 0
    assert broker.shown() == {("(q)", "missing"): 4930}
    assert SAFE not in sentence(broker)


@pytest.mark.slow  # many polls
def test_what_others_lost_before_is_no_rollback_of_the_next_producer() -> None:
    """A topic sender leaves; then a single producer commits, which used to prove all before it rolled back."""
    broker = misrouted()
    for n in range(1, 20):
        now = topic_sender(4930.0 + 100 * n, 100.0 * n)
        broker.see(now["queues"], now["addresses"], senders={"other": ("q", 100.0 * n)})
    assert broker.fate("rolled_back")[0] == 0
    assert SAFE not in sentence(broker)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("r", [(100.0, 40.0), (50.0, 30.0)])
def test_no_bound_is_below_zero(r: tuple[float, float]) -> None:
    """A transaction that was open at the first poll is committed: more comes to the queue than is routed since."""
    first, second = r
    broker = Broker().see(
        {"q": queue(0, 0)},
        {"q": {"messages_added": first, "policy": "page"}},
        senders={},
    )
    for n in range(5):
        came = first + n * second
        broker.see(
            {"q": queue(came, came)},
            {"q": {"messages_added": came + 3, "policy": "page"}},
            senders={},
        )
        assert "-" not in broker.sheet(address=True).sums


# --- (c) a page limit, and a wildcard subscription that is full


@pytest.mark.parametrize(
    ("policy", "fate"), [("drop", "dropped"), ("fail", "rejected")]
)
def test_what_a_page_limit_takes(policy: str, fate: str) -> None:
    said = {**PAGED, "page_full_policy": policy}
    broker = Broker().see(
        {"q": queue(0, 0)},
        {"q": {"messages_added": 0.0, **said, "pages": 0.0}},
        polls=3,
    )
    broker.see(
        {"q": queue(224, 38, K=186)},
        {"q": {"messages_added": 983.0, **said, "pages": 6.0}},
        polls=3,
    )
    low, high = broker.fate(fate)
    assert low == 759 <= high
    assert broker.fate("missing")[0] == broker.fate("rolled_back")[0] == 0
    assert SAFE not in sentence(broker)


def test_an_address_that_pages_below_its_limit_drops_nothing() -> None:
    """200 are in a transaction that is open."""
    said = {**PAGED, "page_full_policy": "drop", "pages": 2.0}
    broker = Broker().see(
        {"q": queue(0, 0)}, {"q": {"messages_added": 0.0, **said}}, polls=3
    )
    broker.see(
        {"q": queue(100, 100)}, {"q": {"messages_added": 300.0, **said}}, polls=3
    )
    assert broker.fate("dropped") == (0, 200)


def test_a_limit_in_messages() -> None:
    said = {
        **PAGED,
        "page_full_policy": "drop",
        "pages": 2.0,
        "page_limit_messages": 100.0,
    }
    broker = Broker().see(
        {"q": queue(0, 0)}, {"q": {"messages_added": 0.0, **said}}, polls=3
    )
    broker.see(
        {"q": queue(100, 100)}, {"q": {"messages_added": 300.0, **said}}, polls=3
    )
    assert broker.fate("dropped") == (200, 200)


def wildcard(
    kept: float, sent: float, own: dict[str, Any] | None = None, **said: Any
) -> dict[str, Any]:
    """A subscription of all topics below `w`, and two of these."""
    of_topic = {"messages_added": sent, "messages_unrouted": 0.0}
    full = {
        "messages_added": 0.0,
        "messages_unrouted": 0.0,
        "policy": "drop",
        "limit_percent": 100.0,
        **said,
    }
    return {
        "queues": {
            "sub": queue(kept, kept, address="w.#", routing_type="multicast"),
            **(own or {}),
        },
        "addresses": {"w.#": full, "w.a": of_topic, "w.b.c": of_topic, "wa": of_topic},
    }


def test_a_wildcard_subscription_that_is_full() -> None:
    broker = Broker().see(**wildcard(0, 0), polls=3).see(**wildcard(695, 3900), polls=3)
    assert broker.fate("dropped", "sub") == (7105, 7105)
    assert broker.shown()["(w.#)", "dropped"] == 7105
    (of_address, of_queue) = broker.sheets("w.#").rows
    assert of_address.sums == "7,800 routed = 695 to its queues + 7,105 to no queue"
    assert of_queue.unexplained == 0
    assert SAFE not in sentence(broker)


def test_one_that_gets_all_lost_nothing() -> None:
    broker = Broker().see(**wildcard(0, 0), senders={}, polls=3)
    broker.see(**wildcard(400, 200), senders={}, polls=3)
    assert broker.fate("dropped", "sub") == (0, 0)


def test_what_another_queue_may_have_got_is_no_proof() -> None:
    """`w.a` has an anycast queue of its own that took what was sent to it."""

    def own(n: float) -> dict[str, Any]:
        return {"own": queue(n, n, address="w.a")}

    broker = (
        Broker()
        .see(**wildcard(0, 0, own(0)), polls=3)
        .see(**wildcard(200, 200, own(200)), polls=3)
    )
    assert broker.fate("dropped", "sub") == (0, 200)


# --- (d) restarts


def test_what_a_restart_loses() -> None:
    """100 messages that are not persistent, and no consumer that could have taken them."""
    broker = Broker().see({"q": queue(100, 100)}, senders={}, polls=3)
    broker.restart()
    broker.see({"q": queue(0, 0)}, {"q": {"messages_added": 0.0}}, senders={}, polls=3)
    assert broker.fate("lost_at_restart") == (100, float("inf"))
    assert broker.sheet().sums == "100 at start = 100 lost at restart"
    assert broker.shown() == {("q", "lost_at_restart"): 100}
    assert SAFE not in sentence(broker)


def test_what_is_reloaded_is_not_lost() -> None:
    broker = Broker().see({"q": queue(100, 100)}, senders={}, polls=3)
    broker.restart()
    broker.see(
        {"q": queue(100, 100)}, {"q": {"messages_added": 0.0}}, senders={}, polls=3
    )
    assert broker.fate("lost_at_restart")[0] == 0
    assert broker.shown() == {}
    assert SAFE not in sentence(
        broker
    )  # what came and left after the last poll is not known


def test_what_a_consumer_may_have_taken_before_it_is_not_known() -> None:
    broker = Broker().see(
        {"q": queue(100, 100)}, consumers={"c": {}}, senders={}, polls=3
    )
    broker.restart()
    broker.see({"q": queue(0, 0)}, {"q": {"messages_added": 0.0}}, senders={}, polls=3)
    assert broker.fate("lost_at_restart") == (0, float("inf"))


# --- the sentence


def test_nothing_is_lost_where_all_is_known() -> None:
    broker = Broker().see({"q": queue(0, 0)}, senders={}, polls=3)
    broker.see({"q": queue(40, 5, K=35.0)}, senders={"p": ("q", 40.0)}, polls=3)
    assert (
        sentence(broker)
        == "b: no message was lost in the time that the account covers."
    )


def test_what_was_not_read_is_not_known() -> None:
    broker = Broker().see(
        {"q": queue(5, 5)}, {"q": {"messages_added": float("nan")}}, senders={}, polls=3
    )
    assert SAFE not in sentence(broker)
    assert "the address could not be read" in sentence(broker)


@pytest.mark.slow  # many polls
def test_what_a_queue_expired_is_lost_unless_it_has_an_expiry_address() -> None:
    said = expiring()
    assert "5  expired" in said
    assert SAFE in expiring(has_expiry_address=1.0)


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ({}, False),  # no queue, and no address
        ({"late": queue(5, 5)}, True),
        ({"all": queue(5, 5, address="#")}, True),  # of a wildcard address
        ({"other": queue(0, 0)}, False),
    ],
    ids=["no queue", "queue", "wildcard", "another queue"],
)
def test_what_expires_to_an_address_without_a_queue_is_lost(
    others: dict[str, Any], kept: bool
) -> None:
    said: dict[str, Any] = {"has_expiry_address": 1.0, "expiry_address": "late"}
    lines = expiring(others, **said)
    assert ("5  expired" not in lines) is kept


def test_an_expiry_address_that_routed_all_had_a_queue() -> None:
    """Its queue was removed when its reader was done."""
    said: dict[str, Any] = {"has_expiry_address": 1.0, "expiry_address": "late"}
    late = {"late": {"messages_added": 5.0, "messages_unrouted": 0.0}}
    assert "5  expired" not in expiring(addresses=late, **said)


def expiring(
    others: dict[str, Any] | None = None,
    addresses: dict[str, Any] | None = None,
    **said: Any,
) -> str:
    others = others or {}
    broker = Broker().see(
        {"q": queue(0, 0, **said), **others}, addresses or {}, senders={}, polls=3
    )
    rows = {"q": queue(5, 0, E=5.0, **said), **others}
    return sentence(
        broker.see(rows, addresses or {}, senders={"p": ("q", 5.0)}, polls=3)
    )
