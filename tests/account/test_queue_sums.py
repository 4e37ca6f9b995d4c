"""What came to a queue is there or left: the sums of one row, fault by fault and with what looks like it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from account.world import Broker, queue
from conditions.situations import ring
from conditions.world import World
from penstock.insight.explain import NotFound
from penstock.insight.text import account_lines
from penstock.model import QueueKind, Role

NOT_LOST = {"moved": 0, "expired": 0, "dead_lettered": 0, "purged": 0}


def test_an_account_begins_with_what_is_there() -> None:
    broker = (
        Broker()
        .see({"q": queue(500, 119, K=381.0)})
        .see({"q": queue(800, 73, K=727.0)}, polls=3)
    )
    sheet = broker.sheet()
    assert sheet.came == {"at_start": 119, "added": 300}
    assert sheet.there == {"ready": 73, "scheduled": 0, "delivering": 0}
    assert sheet.left == {"acknowledged": 346, **NOT_LOST}
    assert sheet.sums == "119 at start + 300 added = 73 ready + 346 acknowledged"
    assert sheet.unexplained == 0
    assert broker.shown() == {("q", "acknowledged"): 346}


def test_a_queue_made_since_counts_from_its_first_message() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0)})
        .see({"q": queue(0, 0), "new": queue(9, 4, K=5.0)}, polls=2)
    )
    assert broker.sheet("new").came == {"at_start": 0, "added": 9}
    assert broker.left("acknowledged", "new") == 5


def test_expired_and_killed() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0)})
        .see({"q": queue(10, 3, K=2.0, E=4.0, X=1.0)}, polls=3)
    )
    assert broker.sheet().left == {
        **NOT_LOST,
        "acknowledged": 2,
        "expired": 4,
        "dead_lettered": (0, 1),
        "purged": (0, 1),
    }
    assert broker.sheet().unexplained == 0


# --- rings and last values


def test_the_manuals_ring_loses_one_to_the_consumer_that_closed() -> None:
    """Three of three in delivery, one more: four of four; the close leaves three."""
    taker = {"c": {"queue": "q", "client": "taker", "T": 3.0, "N": 3.0, "C": 0.0}}
    broker = Broker().see(
        {"q": queue(0, 0, ring=3.0)},
        consumers={"c": {**taker["c"], "T": 0.0, "N": 0.0}},
        polls=2,
    )
    broker.see({"q": queue(3, 3, D=3.0, ring=3.0)}, consumers=taker)
    broker.see({"q": queue(4, 4, D=3.0, ring=3.0)}, consumers=taker, polls=2)
    broker.see({"q": queue(4, 3, ring=3.0)}, polls=2)
    sheet = broker.sheet()
    assert sheet.left["evicted"] == 1
    assert sheet.lost_by == {"arrivals": 0, "taker": 1}
    assert (sheet.sums, sheet.unexplained) == ("4 added = 3 ready + 1 evicted", 0)
    assert broker.shown() == {("q", "evicted"): 1}


def test_what_arrivals_evict_is_no_consumers() -> None:
    idle = {"c": {"queue": "q", "client": "idle", "T": 0.0, "N": 0.0, "C": 0.0}}
    broker = Broker().see({"q": queue(0, 0, ring=3.0)}, consumers=idle, polls=2)
    broker.see({"q": queue(8, 3, ring=3.0)}, consumers=idle, polls=2)
    assert broker.sheet().lost_by == {"arrivals": 5}


def test_a_close_among_arrivals_has_bounds() -> None:
    """Two were given back to a full ring while three came: who evicted is not known, the sum is."""
    taker = {"c": {"queue": "q", "client": "taker", "T": 2.0, "N": 2.0, "C": 0.0}}
    broker = Broker().see({"q": queue(5, 5, D=2.0, ring=3.0)}, consumers=taker, polls=2)
    broker.see({"q": queue(8, 3, ring=3.0)}, polls=2)
    sheet = broker.sheet()
    assert sheet.left["evicted"] == 5
    assert sheet.lost_by == {"arrivals": (0, 3), "taker": (2, 5)}
    assert "lost_by" in sheet.reasons


def test_an_eviction_counts_when_two_polls_have_seen_it() -> None:
    """What many consumers give back at once is in none of the queue's numbers for a moment."""
    broker = Broker().see({"q": queue(900, 900, D=900.0, ring=1000.0)}, polls=2)
    broker.see({"q": queue(900, 100, ring=1000.0)})
    assert broker.left("evicted") == (0, 800)
    assert broker.shown() == {}
    broker.see({"q": queue(900, 900, ring=1000.0)}, polls=2)
    assert broker.left("evicted") == 0


def test_a_last_value_is_replaced_and_not_lost() -> None:
    """M does not count what is in delivery."""
    broker = Broker().see({"q": queue(0, 0, last_value=1.0)})
    broker.see({"q": queue(14_519, 9, K=10.0, D=3.0, last_value=1.0)}, polls=3)
    sheet = broker.sheet()
    assert sheet.left == {"acknowledged": 10, **NOT_LOST, "replaced": 14_497}
    assert sheet.there == {"ready": 9, "scheduled": 0, "delivering": 3}
    assert (sheet.lost_by, sheet.unexplained) == ({}, 0)


def test_a_last_value_ring_says_what_either_may_be() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0, last_value=1.0, ring=5.0)})
        .see({"q": queue(20, 5, last_value=1.0, ring=5.0)}, polls=3)
    )
    assert (broker.left("evicted"), broker.left("replaced")) == ((0, 15), (0, 15))
    assert {"evicted", "replaced"} <= set(broker.sheet().reasons)


def test_a_queue_that_keeps_what_is_acknowledged() -> None:
    """Content is M - D there; what its ring loses is not known, which is no 0."""
    keeps = {"q": {"non_destructive": 1.0}}
    broker = (
        Broker()
        .see({"q": queue(0, 0)}, keeps)
        .see({"q": queue(700, 735, D=35.0)}, keeps, polls=3)
    )
    assert (broker.sheet().there, broker.sheet().unexplained) == ({"kept": 700}, 0)
    broker = (
        Broker()
        .see({"q": queue(0, 0, ring=3.0)}, keeps)
        .see({"q": queue(9, 3, ring=3.0)}, keeps, polls=3)
    )
    assert broker.left("evicted") is None
    assert "non-destructive" in broker.sheet().reasons["evicted"]


# --- expired on arrival


def test_what_expired_on_arrival_came_too() -> None:
    """It is in E and in R, never in A."""
    broker = (
        Broker()
        .see({"q": queue(0, 0)})
        .see(
            {"q": queue(956, 0, K=559.0, E=11_685.0)},
            {"q": {"messages_added": 12_244.0}},
            polls=3,
        )
    )
    sheet = broker.sheet()
    assert sheet.came == {"at_start": 0, "added": 956, "expired_on_arrival": 11_288}
    assert (sheet.left["expired"], sheet.unexplained) == (11_685, 0)
    assert broker.fate("uncommitted") == (0, 0)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("policy", ["page", "drop"])
def test_what_expires_on_arrival_all_the_time_is_explained_at_each_poll(
    policy: str,
) -> None:
    """60 a second with a time to live of 1 ms: what came since the last poll is no gap and no drop."""
    broker = Broker().see(
        {"q": queue(0, 0)},
        {"q": {"messages_added": 0.0, "policy": policy, "limit_percent": 95.0}},
    )
    for n in range(1, 12):
        came = 10.0 * n
        expired = 116.0 * n + 3 * (n % 2)
        said = {
            "messages_added": came + expired,
            "policy": policy,
            "limit_percent": 95.0,
        }
        broker.see({"q": queue(came, 0, K=came, E=expired)}, {"q": said})
        assert broker.sheet().unexplained in (0, None)
        assert not [one.name for one in broker.conditions if one.name == "unaccounted"]
        assert broker.fate("dropped")[0] == 0
    assert (
        broker.sheet().sums
        == "110 added + 1,160 to 1,279 expired on arrival = 110 acknowledged + 1,279 expired"
    )
    broker.see({"q": queue(came, 0, K=came, E=expired)}, {"q": said}, polls=2)
    assert (
        broker.sheet().sums
        == "110 added + 1,279 expired on arrival = 110 acknowledged + 1,279 expired"
    )


def test_in_a_ring_it_makes_bounds() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0, ring=5.0)})
        .see(
            {"q": queue(10, 5, E=4.0, ring=5.0)},
            {"q": {"messages_added": 12.0}},
            polls=3,
        )
    )
    low, high = broker.fate("evicted")
    assert low <= 3 <= high <= 5  # 12 came: 2 expired on arrival, 2 later, 5 are there
    assert broker.fate("dropped") == (0, 0)


# --- what no reason explains


def test_a_sum_that_does_not_close_is_unexplained_at_three_polls() -> None:
    broker = (
        Broker().see({"q": queue(10, 10)}, polls=3).see({"q": queue(10, 7)}, polls=2)
    )
    assert broker.sheet().unexplained == 0
    broker.see({"q": queue(10, 7)})
    assert broker.sheet().unexplained == 3
    assert "3 unexplained" in broker.sheet().sums
    assert broker.column("queue", "unexplained") == 3


def test_more_left_than_came_is_unexplained_without_expiry() -> None:
    broker = (
        Broker()
        .see({"q": queue(10, 10)}, polls=2)
        .see({"q": queue(10, 10, K=4.0)}, polls=3)
    )
    assert broker.sheet().unexplained == -4
    assert broker.column("queue", "unexplained") == 4


def test_a_single_poll_out_of_step_is_noise() -> None:
    broker = (
        Broker()
        .see({"q": queue(10, 10)}, polls=2)
        .see({"q": queue(10, 9)})
        .see({"q": queue(10, 10)}, polls=3)
    )
    assert broker.sheet().unexplained == 0
    assert np.isnan(broker.column("queue", "unexplained"))


# --- in delivery


def test_who_has_what_is_in_delivery() -> None:
    consumers = {
        "c1": {"queue": "q", "client": "a", "T": 5.0, "N": 5.0, "C": 0.0},
        "c2": {"queue": "q", "client": "b", "T": 2.0, "N": 5.0, "C": 3.0, "W": 3.0},
    }
    broker = Broker().see(
        {"q": queue(64, 64, D=14.0, S=4.0)}, consumers=consumers, polls=4
    )
    sheet = broker.sheet()
    assert sheet.there == {"ready": 46, "scheduled": 4, "delivering": 14}
    assert sheet.delivering == {
        "buffered": 7,
        "uncommitted": 3,
        "in_doubt": 0,
        "by_link": 0,
        "unheld": 4,
    }
    assert sheet.buffered == {"a": 5, "b": 2}


def test_in_delivery_to_none_is_what_four_polls_agree_on() -> None:
    """Consumers are read before their queue: under way is not in doubt."""
    broker = Broker()
    for held in (3.0, 0.0, 5.0, 1.0):
        broker.see(
            {"q": queue(10, 10, D=held)}, consumers={"c": {"queue": "q", "T": 0.0}}
        )
    assert broker.sheet().delivering["unheld"] == (0, 1)


# --- restarts


def test_a_restart_goes_on_where_it_was() -> None:
    """But for what came and left after the last poll before it: at least so many."""
    broker = (
        Broker()
        .see({"q": queue(100, 30, K=70.0)})
        .see({"q": queue(150, 30, K=120.0)}, polls=3)
    )
    broker.restart()
    broker.see({"q": queue(30, 30)}).see({"q": queue(40, 35, K=5.0)}, polls=3)
    sheet = broker.sheet()
    assert sheet.came == {"at_start": 30, "added": 60}
    assert (sheet.left["acknowledged"], sheet.unexplained) == ((55, None), 0)
    assert (sheet.left["expired"], sheet.sums) == (
        None,
        "30 at start + 60 added = 35 ready + 55 acknowledged",
    )
    assert "restarted" in sheet.reasons["acknowledged"]
    assert broker.shown() == {("q", "acknowledged"): 55}


def test_a_reason_that_many_amounts_share_is_said_once() -> None:
    broker = Broker().see({"q": queue(100, 30, K=70.0)}, polls=3)
    broker.restart()
    broker.see({"q": queue(30, 30)}, polls=3)
    lines = [line.strip() for line in account_lines(broker.sheets("q"))]
    assert "unknown  moved   as above" in lines
    assert sum("restarted, or a counter" in line for line in lines) == 1
    assert any(line.startswith("unknown   the broker counts none") for line in lines), (
        "given back"
    )


def test_what_had_expired_before_a_restart_had_not_expired_on_arrival() -> None:
    broker = (
        Broker()
        .see({"q": queue(100, 30, K=60.0, E=10.0)})
        .see({"q": queue(150, 30, K=80.0, E=40.0)}, polls=3)
    )
    broker.restart()
    broker.see({"q": queue(30, 30)}).see({"q": queue(40, 33, K=5.0, E=2.0)}, polls=3)
    sheet = broker.sheet()
    assert (sheet.came, sheet.unexplained) == ({"at_start": 30, "added": 60}, 0)
    assert sheet.left["expired"] == (32, None)


def test_what_a_restart_took_is_a_fate_of_its_own() -> None:
    """Messages that are not durable are gone: the sheet says so, and still closes."""
    broker = Broker().see({"q": queue(100, 100)}, polls=3)
    broker.restart()
    broker.see({"q": queue(40, 40)}, polls=4)
    sheet = broker.sheet()
    assert sheet.came == {"at_start": 100, "added": 0}
    assert broker.left("lost_at_restart") == (60, None)
    assert sheet.unexplained == 0


def test_messages_in_doubt_are_acknowledged_again_at_a_restart() -> None:
    """Four prepared before it: K begins at 4, and counts them a second time at the commit."""
    broker = Broker().see({"q": queue(10, 10, D=4.0)}, polls=3)
    broker.restart()
    broker.see({"q": queue(10, 10, K=4.0, D=4.0)}, polls=3)
    assert broker.sheet().unexplained == 0
    broker.see({"q": queue(10, 6, K=8.0)}, polls=3)
    assert (broker.left("acknowledged"), broker.sheet().unexplained) == ((4, None), 0)


def test_a_ring_forgets_what_is_in_doubt_at_a_restart() -> None:
    """Five in doubt and two ready in a ring of five; after the restart three in doubt of five."""
    broker = Broker().see({"q": queue(7, 7, D=5.0, ring=5.0)}, polls=3)
    broker.restart()
    broker.see({"q": queue(7, 5, K=3.0, D=3.0, ring=5.0)}, polls=3)
    assert broker.left("evicted") == (2, None)
    assert broker.sheet().unexplained == 0


def test_a_counter_that_an_operator_sets_back_begins_again() -> None:
    broker = Broker().see({"q": queue(0, 0)}).see({"q": queue(50, 10, K=40.0)}, polls=2)
    broker.see({"q": queue(0, 10, K=40.0)}, {"q": {"messages_added": 50.0}})
    broker.see({"q": queue(5, 12, K=43.0)}, {"q": {"messages_added": 55.0}}, polls=3)
    sheet = broker.sheet()
    assert sheet.left["acknowledged"] == (43, None)
    assert sheet.came["added"] == 55
    assert sheet.unexplained == 0


# --- any course of events


@pytest.mark.slow  # many polls
@given(st.data(), st.integers(1, 6), st.integers(3, 12))
def test_any_ring_balances_and_names_within_bounds(
    data: st.DataObject, size: int, rounds: int
) -> None:
    """Whatever comes, is taken, settled, rolled back or closed between two polls."""
    world, one, takers = ring(size, 2)
    world.run(30)
    for _ in range(rounds):
        for _ in range(data.draw(st.integers(1, 3))):
            what = data.draw(
                st.sampled_from(
                    ["come", "take", "settle", "roll_back", "close", "join"]
                )
            )
            taker = data.draw(st.sampled_from(takers)) if takers else None
            if what == "come":
                one.come(data.draw(st.integers(1, 6)))
            elif what == "join":
                takers.append(one.join())
            elif taker is not None:
                getattr(one, what)(taker)
                takers = [
                    other for other in takers if what != "close" or other is not taker
                ]
        world.run(15)
    world.run(30)
    books = world.state.judgement.account.books
    by = world.state.judgement.account.ring_losses
    assert books.lost[0] == one.lost
    assert not books.unexplained[0]
    assert by.least[0] <= one.lost_by_consumers <= by.most[0]


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_a_busy_healthy_queue_loses_nothing(apart: float) -> None:
    world = World(step=10.0, apart=apart)
    one = world.queue()
    taker = one.join(window=100)

    def live(seconds: float) -> None:
        one.come(round(200 * seconds))
        one.next(taker)

    world.run(200, live)
    account = world.state.judgement.account
    assert not account.books.unexplained[0]
    assert account.address_books.least[0] == 0
    assert {row.fate for row in world.tables["account"].index} <= {"acknowledged"}


def test_while_the_broker_is_passive_nothing_is_said() -> None:
    """It goes on when it is active again, with what was counted."""
    broker = Broker().see({"q": queue(0, 0)}).see({"q": queue(9, 4, K=5.0)}, polls=3)
    broker.role = Role.PASSIVE
    broker.see({"q": queue(9, 4, K=5.0)})
    assert "account" not in broker.tables or not len(broker.tables["account"])
    with pytest.raises(NotFound, match="no account"):
        broker.sheet()
    broker.role = Role.ACTIVE
    broker.see({"q": queue(9, 4, K=5.0)}).see({"q": queue(11, 5, K=6.0)}, polls=3)
    assert broker.shown() == {("q", "acknowledged"): 6}
    assert broker.sheet().unexplained == 0


def test_a_version_without_numbers_of_consumers_says_only_what_is_sure() -> None:
    """Before 2.28 any consumer may have rolled back any number."""
    broker = Broker(uncounted=True).see(
        {"q": queue(0, 0, ring=3.0)}, consumers={"c": {"queue": "q"}}, polls=2
    )
    broker.see({"q": queue(7, 3, ring=3.0)}, consumers={"c": {"queue": "q"}}, polls=2)
    assert broker.sheet().left["evicted"] == 4
    assert broker.sheet().lost_by == {"arrivals": (0, 4), "(not known)": (0, 4)}


# --- what a cluster passes on


def passed_on(broker: Broker) -> dict[str, float]:
    table = broker.tables["queue"]
    return {
        row.queue: float(table["redistributed"][i]) for i, row in enumerate(table.index)
    }


def clustered(
    k: float, forwarded: float, consumers: float = 0.0
) -> dict[str, dict[str, float]]:
    return {
        "q": queue(300, 300 - k, K=k, consumers=consumers),
        "sf.other": queue(
            forwarded, 0, K=forwarded, consumers=1.0, kind=QueueKind.LINK
        ),
    }


def test_what_a_cluster_redistributes_is_counted() -> None:
    broker = Broker().see(clustered(0, 200), polls=2).see(clustered(300, 500), polls=2)
    assert passed_on(broker)["q"] == 300


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (clustered(0, 200, consumers=1.0), clustered(300, 500, consumers=1.0)),
        (clustered(0, 200, consumers=1.0), clustered(300, 500)),
        (clustered(0, 200), clustered(300, 200)),
    ],
    ids=["a consumer took it", "a consumer took it and went", "an operator moved it"],
)
def test_what_leaves_by_other_ways_is_not_redistributed(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    broker = Broker().see(before, polls=2).see(after, polls=2)
    assert np.isnan(passed_on(broker)["q"])


def test_no_more_is_redistributed_than_came_to_links() -> None:
    broker = Broker().see(clustered(0, 200), polls=2).see(clustered(300, 250), polls=2)
    assert passed_on(broker)["q"] == 50
