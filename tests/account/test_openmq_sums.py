"""What came to a destination of OpenMQ is there or left: reason by reason, with what looks like it."""

from dataclasses import replace
from typing import Any

import pytest

from account.openmq_world import DMQ, openmq_broker

FULL: dict[str, Any] = {"limit_messages": 100, "policy": "reject_newest"}
RING: dict[str, Any] = {"limit_messages": 100, "policy": "remove_oldest"}


def test_all_that_came_is_there_or_acknowledged() -> None:
    broker = openmq_broker().see(10, 4, 6, consumers={"c": (4, 2)}, polls=4)
    sheet = broker.see(60, 40, 20, h=0, consumers={"c": (40, 5)}, polls=2).sheet()
    assert sheet.came == {"at_start": 6, "added": 50}
    assert sheet.there == {
        "ready": 15,
        "scheduled": 0,
        "delivering": 5,
        "uncommitted": 0,
    }
    assert broker.left() == {"acknowledged": 36}
    assert (
        sheet.sums
        == "6 at start + 50 added = 15 ready + 5 delivering + 36 acknowledged"
    )
    assert (sheet.buffered, sheet.unexplained) == ({"c": 5}, 0)


def test_uncommitted_sends_are_there() -> None:
    broker = openmq_broker().see(polls=4).see(30, 0, 20, h=10, polls=2)
    assert broker.sheet().there == {
        "ready": 20,
        "scheduled": 0,
        "delivering": 0,
        "uncommitted": 10,
    }
    assert broker.left() == {}


def test_refused_at_the_limit() -> None:
    broker = (
        openmq_broker()
        .see(90, 0, 90, polls=4, **FULL)
        .see(150, 0, 100, polls=3, **FULL)
    )
    assert broker.left() == {"rejected": 50}


def test_one_poll_does_not_make_a_refusal() -> None:
    """I, O and N of one row may be one message apart while it works."""
    broker = (
        openmq_broker()
        .see(90, 0, 90, polls=4, **FULL)
        .see(150, 0, 149, **FULL)
        .see(170, 0, 170, polls=2, **FULL)
    )
    assert broker.left() == {}


def test_too_large_below_the_limit() -> None:
    assert openmq_broker().see(polls=4).see(7, 0, 0, polls=3).left() == {"too_large": 7}


@pytest.mark.slow  # many polls
def test_expired_on_arrival_where_no_other_moves() -> None:
    broker = (
        openmq_broker().see(polls=4).see(7, 0, 0, dead=7).see(7, 0, 0, dead=7, polls=2)
    )
    assert broker.left() == {"expired": 7}


@pytest.mark.slow  # many polls
def test_without_any_limit_it_had_expired_whatever_else_has_dead_letters() -> None:
    nothing: dict[str, Any] = {
        "limit_messages": float("nan"),
        "message_limit_bytes": float("nan"),
    }
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 50.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(others=other, polls=4, **nothing)
    other["busy"] |= {"K": 20.0, "M": 30.0}
    broker.see(7, 0, 0, dead=27, others=other, polls=3, **nothing)
    assert broker.left() == {"expired": 7}


def test_expired_or_too_large_while_another_queue_has_dead_letters() -> None:
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 50.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(polls=4, others=other)
    other["busy"]["K"], other["busy"]["M"] = 20.0, 30.0
    broker.see(7, 0, 0, dead=20, others=other, polls=3)
    assert broker.left() == {"too_large": (0, 7), "expired": (0, 7)}
    assert set(broker.sheet().reasons) == {"too_large", "expired"}


def test_a_limit_that_removes_what_nobody_has_seen() -> None:
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5, **RING)
    broker.see(160, 60, 100, dead=50, consumers={"c": (10, 10)}, polls=2, **RING)
    assert broker.left() == {"removed": 50, "acknowledged": 10}
    assert broker.evicted() == 50


def test_what_is_removed_in_a_clients_hands_may_still_be_handled() -> None:
    """10 of 20 removed are still with the client, which acknowledges them later: lost are 10 at least, 20 at most."""
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5, **RING)
    broker.see(120, 20, 100, dead=20, consumers={"c": (0, 10)}, delivering=0, **RING)
    broker.see(120, 20, 100, dead=20, consumers={"c": (10, 10)}, polls=2, **RING)
    assert broker.left() == {"acknowledged": (0, 10), "removed": (10, 20)}


def test_a_limit_that_removes_while_clients_come_and_go_has_only_bounds() -> None:
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5, **RING)
    broker.see(160, 60, 100, dead=50, consumers={"d": (3, 10)}, polls=2, **RING)
    low, high = broker.left()["removed"]
    assert low <= 50 <= high <= 60


def test_sends_that_are_rolled_back() -> None:
    broker = (
        openmq_broker()
        .see(polls=4)
        .see(50, 0, 0, h=50, polls=2)
        .see(50, 50, 0, polls=2)
    )
    assert broker.left() == {"rolled_back": 50}


def test_sends_that_are_committed() -> None:
    broker = (
        openmq_broker()
        .see(polls=4)
        .see(50, 0, 0, h=50, polls=2)
        .see(50, 0, 50, polls=2)
    )
    assert broker.left() == {}


def test_a_purge_under_a_consumer() -> None:
    broker = openmq_broker().see(50, 0, 50, consumers={"c": (0, 10)}, polls=5)
    broker.see(50, 40, 10, consumers={"c": (0, 10)}, polls=2)
    assert broker.left() == {"purged": 40}


def test_dead_letters_of_the_only_queue_that_moved() -> None:
    broker = openmq_broker().see(50, 0, 50, consumers={"c": (0, 10)}, polls=5)
    broker.see(50, 5, 45, dead=5, consumers={"c": (0, 10)}, polls=2)
    assert broker.left() == {"dead_lettered": 5}


LATE: tuple[dict[str, float], ...] = (
    {"A": 1.0, "K": 0.0, "M": 0.0},  # X, which is sure one poll late
    {"A": 1.0, "K": 0.0, "M": 1.0},  # the dead message queue was read after it
)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("first", LATE)
def test_a_dead_letter_whose_source_shows_a_poll_later_is_of_no_one_that_worked_meanwhile(
    first: dict[str, float],
) -> None:
    """As both begin: a client acknowledges fast, and elsewhere the first message expires."""
    others: dict[str, dict[str, Any]] = {
        "late": {"A": 0.0, "K": 0.0, "M": 0.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(consumers={"c": (0, 0)}, others=others, polls=5)
    others["late"] |= first
    broker.see(3, 3, 0, dead=1, consumers={"c": (3, 0)}, others=others)
    for n in range(1, 6):
        others["late"] |= {
            "A": 1.0 + 10 * n,
            "K": 1.0 + 10 * n if first["M"] else 0.0,
            "M": 0.0,
        }
        broker.see(
            3 + 50 * n,
            3 + 50 * n,
            0,
            dead=1 + 10 * n,
            consumers={"c": (3 + 50 * n, 0)},
            others=others,
        )
    assert broker.left().get("dead_lettered", (0, 0)) in ((0, 0), (0, 1))


def test_a_dead_letter_that_was_read_before_its_source_is_of_no_one_that_worked_meanwhile() -> (
    None
):
    """`busy` lost it while it was read, after the dead message queue was."""
    others: dict[str, dict[str, Any]] = {
        "busy": {"A": 9.0, "K": 0.0, "M": 9.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(consumers={"c": (0, 0)}, others=others, polls=5)
    others["busy"] |= {"K": 1.0, "M": 8.0}
    broker.see(3, 3, 0, consumers={"c": (3, 0)}, others=others)
    for n in (1, 2, 3):
        broker.see(
            3 + 50 * n,
            3 + 50 * n,
            0,
            dead=1,
            consumers={"c": (3 + 50 * n, 0)},
            others=others,
        )
    assert broker.left()["acknowledged"] == 153


QUEUE: dict[str, Any] = {"A": 30.0, "K": 0.0, "M": 30.0, "D": 0.0, "uncommitted": 0.0}
TOPIC: dict[str, Any] = {
    "topic": 1,
    "messages_added": 30.0,
    "removed": 0.0,
    "messages": 30.0,
    "uncommitted": 0.0,
}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("job", [QUEUE, TOPIC], ids=["queue", "topic"])
@pytest.mark.parametrize("seen", [(30, 0, 0), (0, 30, 0), (0, 0, 30), (10, 10, 10)])
def test_dead_letters_of_a_destination_that_was_destroyed_are_of_no_one_that_worked(
    seen: tuple[int, ...], job: dict[str, Any]
) -> None:
    """seen: how many of its 30 the dead message queue shows at each poll from then on."""
    broker = openmq_broker().see(consumers={"c": (0, 0)}, others={"job": job}, polls=5)
    dead = 0.0
    for n, more in enumerate((*seen, 0, 0, 0), 1):
        dead += more
        broker.see(50 * n, 50 * n, 0, dead=dead, consumers={"c": (50 * n, 0)})
    assert broker.left().get("dead_lettered", (0, 0))[0] == 0


@pytest.mark.slow  # many polls
def test_an_empty_queue_that_goes_hides_no_dead_letters() -> None:
    """As the queues for single replies do, again and again."""
    broker = openmq_broker().see(500, 0, 500, polls=5)
    for n in range(1, 31):
        reply = {} if n % 3 == 0 else {f"reply{n // 3}": {**QUEUE, "A": 0.0, "M": 0.0}}
        broker.see(500, 10 * n, 500 - 10 * n, dead=10 * n, others=reply)
    low = broker.left()["dead_lettered"]
    assert (low[0] if isinstance(low, tuple) else low) == 290, (
        "the last ones are booked a poll later"
    )
    assert "removed_unsettled" in broker.names | broker.notices


def test_expired_in_a_clients_buffer_shows_in_the_dead_letters_only() -> None:
    """The client gives them up as if it had acknowledged them."""
    broker = openmq_broker().see(50, 0, 50, consumers={"c": (0, 50)}, polls=5)
    broker.see(50, 20, 30, dead=12, consumers={"c": (20, 30)}, polls=2)
    assert broker.left() == {"dead_lettered": 12, "acknowledged": 8}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("consumers", [{}, {"c": (0.0, 0.0)}], ids=["none", "paused"])
def test_what_expires_unread_counts_at_each_poll(
    consumers: dict[str, tuple[float, float]],
) -> None:
    broker = openmq_broker().see(500, 0, 500, consumers=consumers, polls=5)
    unread = []
    for left in range(10, 90, 10):
        broker.see(500, left, 500 - left, dead=left, consumers=consumers)
        unread.append(float(broker.state.judgement.openmq_account.queues.unread[0]))
    assert unread[2:] == [10.0] * 6


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("transacted", [0, 10])
def test_clients_that_no_poll_saw_may_have_settled_it(transacted: float) -> None:
    """They come for a moment and take all: seen once in a while, with what they settled gone with them."""
    broker = openmq_broker().see(h=transacted, i=transacted, polls=5)
    came = transacted
    left = 0.0
    for i in range(30):
        came = came + 20
        left = left + 20
        seen = {f"p{i}": (5.0, 0.0)} if i % 8 == 0 else {}
        broker.see(came, left, 0, h=transacted, consumers=seen)
    losses = {
        fate: value for fate, value in broker.left().items() if fate != "acknowledged"
    }
    assert all(isinstance(value, tuple) and value[0] == 0 for value in losses.values())
    assert (
        "clients that no poll saw may have acknowledged them"
        in broker.sheet().reasons["left_unacknowledged"]
    )


@pytest.mark.slow  # many polls
def test_batches_that_fall_between_two_reads_are_no_loss() -> None:
    """O is read before the rows: R runs ahead of it by up to a batch."""
    broker = openmq_broker().see(
        1000, 0, 1000, consumers={"c": (0, 100)}, polls=5, **RING
    )
    ahead = [0, 50, 0, 0, 50, 50, 0, 50, 0, 0]
    for poll, skew in enumerate(ahead, 1):
        out = 100.0 * poll
        broker.see(
            1000 + out, out, 1000, consumers={"c": (out + skew, 100 - skew)}, **RING
        )
    assert broker.left() == {"acknowledged": 1000}


@pytest.mark.slow  # many polls
def test_what_a_consumer_rolls_back_hides_no_loss_for_ever() -> None:
    """It lets 100 go that come again: R runs ahead of O for good."""
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5, **RING)
    broker.see(100, 0, 100, consumers={"c": (100, 10)}, polls=9, **RING)
    broker.see(150, 50, 100, dead=50, consumers={"c": (100, 10)}, polls=2, **RING)
    assert broker.left() == {"removed": 50}


def test_the_dead_message_queue_overflows() -> None:
    broker = openmq_broker()
    full: dict[str, Any] = {
        "limit_messages": 1000,
        "policy": "remove_oldest",
        "dead_letters": 1,
        "message_limit_bytes": 1e7,
    }
    for dead in (900, 900, 900, 900, 1000, 1200, 1200):
        kept = min(dead, 1000)
        broker.poll(
            {DMQ: {"A": dead, "K": dead - kept, "M": kept, "D": 0, "uncommitted": 0}},
            {},
            {DMQ: full},
        )
    assert broker.left(DMQ) == {"acknowledged": (0, 200), "removed": (0, 200)}


def test_a_restart_keeps_the_account() -> None:
    """Prepared sends are counted again, what was not persistent is gone."""
    broker = openmq_broker().see(50, 10, 30, h=10, consumers={"c": (10, 0)}, polls=4)
    broker.uptime = 0
    broker.see(10, 0, 20, h=10, polls=3)
    sheet = broker.sheet()
    assert sheet.unexplained == 0
    assert sheet.came == {"at_start": 40, "added": 10, "restarts": -20}
    assert (
        broker.see(25, 5, 30, h=10, consumers={"c": (5, 0)}, polls=3)
        .sheet()
        .unexplained
        == 0
    )


@pytest.mark.slow  # many polls
def test_a_restart_of_the_agent_books_nothing_twice() -> None:
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5, **RING)
    broker.see(160, 60, 100, dead=60, consumers={"c": (0, 10)}, polls=2, **RING)
    broker.restart_agent()
    broker.see(160, 60, 100, dead=60, consumers={"c": (0, 10)}, polls=6, **RING)
    assert broker.left() == {"removed": 60}
    assert broker.see(
        170, 70, 100, dead=70, consumers={"c": (0, 10)}, polls=2, **RING
    ).left() == {"removed": 70}


@pytest.mark.slow  # many polls
def test_a_restart_of_the_agent_refuses_nothing_that_had_expired() -> None:
    """`mq_address_messages_rejected_total` rose by what had expired on arrival while no agent polled."""
    broker = (
        openmq_broker().see(polls=4).see(7, 0, 0, dead=7).see(7, 0, 0, dead=7, polls=2)
    )
    broker.restart_agent()
    broker.see(14, 0, 0, dead=14, polls=3)
    assert broker.tables["address"]["messages_rejected"].tolist()[0] == 0
    low, high = broker.left()["expired"]
    assert low <= 14 <= high
    assert broker.see(20, 0, 0, dead=20, polls=3).left()["expired"] == (
        low + 6,
        high + 6,
    )


@pytest.mark.slow  # many polls
def test_what_was_acknowledged_never_falls() -> None:
    """What may also have been purged, or have expired, is taken off by its bound: not what was sure before."""
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 500.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(
        300, 0, 300, consumers={"c": (0, 10)}, others=other, polls=5
    )
    for out, dead, by_other in ((60, 0, 0), (65, 5, 0), (290, 105, 200)):
        other["busy"] |= {"K": float(by_other), "M": 500.0 - by_other}
        broker.see(
            300,
            out,
            300 - out,
            dead=dead,
            consumers={"c": (60, 10)},
            others=other,
            polls=2,
        )
        value = broker.left()["acknowledged"]
        assert (value[0] if isinstance(value, tuple) else value) == 60


def test_more_left_than_came_is_unexplained() -> None:
    assert (
        openmq_broker()
        .see(10, 0, 10, polls=4)
        .see(10, 8, 10, polls=3)
        .sheet()
        .unexplained
        == -8
    )


# --- topics


def test_what_no_subscription_wants_is_what_the_topic_does_not_count() -> None:
    broker = openmq_broker()
    topic: dict[str, Any] = {
        "topic": 1.0,
        "removed": 0.0,
        "messages": 0.0,
        "uncommitted": 0.0,
        "dead_letters": 1.0,
        "delivering": 0.0,
    }
    for sent, came in ((0, 0), (0, 0), (100, 60), (100, 60)):
        broker.producers = {
            "p": {"address": "t", "connection": 1, "produced": float(sent)}
        }
        broker.see(
            others={
                "t": {**topic, "messages_added": float(came), "messages": float(came)}
            }
        )
    sheet = broker.sheet("t")
    assert sheet.queue == ""
    assert sheet.left["unwanted"] == 40
    assert sheet.sums == "60 added + 40 unwanted = 60 there + 40 unwanted"
    broker.producers = {}
    broker.see(others={"t": {**topic, "messages_added": 70.0, "messages": 70.0}})
    assert broker.sheet("t").left["unwanted"] == (40, None)


def test_what_was_refused_is_sure_a_poll_after_the_queue_was_full() -> None:
    """By then consumers have made room, and another queue has dead letters."""
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 50.0, "D": 0.0, "uncommitted": 0.0}
    }
    full: dict[str, Any] = {**FULL, "message_limit_bytes": float("nan")}
    broker = openmq_broker().see(
        100, 0, 100, consumers={"c": (0, 10)}, others=other, polls=5, **full
    )
    other["busy"] |= {"K": 40.0, "M": 10.0}
    broker.see(150, 30, 80, dead=40, consumers={"c": (30, 10)}, others=other, **full)
    broker.see(
        150, 50, 60, dead=40, consumers={"c": (50, 10)}, others=other, polls=2, **full
    )
    left = broker.left()
    assert left["rejected"] == (0, 40)
    assert left["expired"] == (0, 40)


def test_a_queue_that_may_have_been_full_between_two_polls() -> None:
    """All came and was worked off in between; another queue had dead letters meanwhile."""
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 500.0, "D": 0.0, "uncommitted": 0.0}
    }
    full: dict[str, Any] = {**FULL, "message_limit_bytes": float("nan")}
    broker = openmq_broker().see(consumers={"c": (0, 0)}, others=other, polls=5, **full)
    other["busy"] |= {"K": 400.0, "M": 100.0}
    broker.see(
        400, 130, 0, dead=400, consumers={"c": (130, 0)}, others=other, polls=4, **full
    )
    assert broker.left() == {
        "acknowledged": 130,
        "rejected": (0, 270),
        "expired": (0, 270),
    }


def test_a_first_row_that_was_read_while_it_changed_leaves_no_gap_for_ever() -> None:
    broker = openmq_broker().see(10, 0, 5).see(10, 0, 10, polls=4)
    assert broker.sheet().unexplained == 0
    assert broker.left() == {}


@pytest.mark.slow  # many polls
def test_a_queue_that_is_full_all_the_time_refuses_whatever_else_has_dead_letters() -> (
    None
):
    other: dict[str, dict[str, Any]] = {
        "busy": {"A": 0.0, "K": 0.0, "M": 500.0, "D": 0.0, "uncommitted": 0.0}
    }
    broker = openmq_broker().see(100, 0, 100, others=other, polls=5, **FULL)
    for i in range(1, 5):
        other["busy"] |= {"K": 40.0 * i, "M": 500 - 40.0 * i}
        broker.see(100 + 10 * i, 0, 100, dead=40 * i, others=other, **FULL)
    assert broker.see(140, 0, 100, dead=160, others=other, polls=2, **FULL).left() == {
        "rejected": 40
    }


# --- in delivery to no consumer that is listed

ALONE: dict[str, Any] = {"A": 10.0, "K": 0.0, "M": 10.0, "uncommitted": 0.0}
ABANDONED = {"state": 5.0, "messages": 0.0, "acknowledgements": 2.0, "connection": -1}
OPEN = {"state": 1.0, "messages": 0.0, "acknowledgements": 1.0, "connection": 1}


@pytest.mark.parametrize(
    ("transactions", "other", "in_doubt", "unheld"),
    [
        ([], 2, 0, 5),
        ([ABANDONED], 0, 2, 3),
        ([ABANDONED], 1, (1, 2), (3, 4)),
        ([ABANDONED], 2, (0, 2), (3, 5)),
        ([ABANDONED, ABANDONED, ABANDONED], 0, 5, 0),
        (
            [{**ABANDONED, "connection": 1}],
            0,
            (0, 2),
            (3, 5),
        ),  # its client is there, and has them in its buffer
        ([OPEN], 0, 0, None),
        ([ABANDONED, OPEN], 0, 2, None),
    ],
)
def test_what_is_in_doubt_is_no_more_than_transactions_received(
    transactions: list[dict[str, float]], other: float, in_doubt: Any, unheld: Any
) -> None:
    broker = openmq_broker()
    broker.transactions = {str(i): one for i, one in enumerate(transactions)}
    broker.see(i=10, n=10, delivering=5, others={"x": {**ALONE, "D": other}}, polls=8)
    sheet = broker.sheet()
    assert sheet.delivering.get("in_doubt", 0) == in_doubt
    assert sheet.delivering["unheld"] == unheld
    assert {name for name in ("in_doubt", "unheld") if name in sheet.reasons} == {
        name
        for name, value in (("in_doubt", in_doubt), ("unheld", unheld))
        if not isinstance(value, int)
    }


@pytest.mark.slow  # many polls
def test_what_is_unwanted_while_producers_cannot_be_read_counts_when_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no more than that, but one that went in between may have sent some, too."""
    broker = openmq_broker()
    topic: dict[str, Any] = {
        "topic": 1.0,
        "removed": 0.0,
        "uncommitted": 0.0,
        "dead_letters": 1.0,
        "delivering": 0.0,
    }
    snapshot = type(broker).snapshot

    def see(sent: float, came: float) -> None:
        broker.producers = {"p": {"address": "t", "connection": 1, "produced": sent}}
        broker.see(others={"t": {**topic, "messages_added": came, "messages": came}})

    for number in range(12):
        see(10 * number, 10 * number)
    with monkeypatch.context() as patch:
        patch.setattr(
            type(broker),
            "snapshot",
            lambda self, *a: replace(snapshot(self, *a), producers=None),
        )
        for number in range(12, 32):
            see(10 * number, 8 * number + 22)
    see(320, 278)
    assert broker.sheet("t").left["unwanted"] == (42, None)


def test_producers_that_were_never_read_have_a_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = openmq_broker()
    snapshot = type(openmq_broker()).snapshot
    topic: dict[str, Any] = {
        "topic": 1.0,
        "removed": 0.0,
        "uncommitted": 0.0,
        "dead_letters": 1.0,
        "delivering": 0.0,
    }
    broker.producers = {"p": {"address": "t", "connection": 1, "produced": 500.0}}
    others = {"t": {**topic, "messages_added": 20.0, "messages": 20.0}}
    with monkeypatch.context() as patch:
        patch.setattr(
            type(broker),
            "snapshot",
            lambda self, *a: replace(snapshot(self, *a), producers=None),
        )
        broker.see(others=others, polls=3)
    broker.see(others=others, polls=3)
    assert broker.sheet("t").left["unwanted"] is None
