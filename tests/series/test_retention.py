"""What of an earlier poll stays in use; what is cut off, held back or hidden."""

from dataclasses import replace

import numpy as np
import pytest

from core import things
from core.things import PASSIVE, Source, by, snapshot, table
from penstock.assessment.assess import State, assess
from penstock.core.table import Table
from penstock.series.labels import OTHER
from penstock.series.last_good import LastGood, keep_last_good, keep_seconds
from penstock.settings.policy import Limits, Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings, Selection

ORDERS = table(
    [things.queue("orders"), things.queue("bills")], messages=[5, 6], bytes=[50, 60]
)
HOLDER = table([things.consumer("1", "orders")], buffered=[3])


@pytest.mark.parametrize(
    ("interval", "seconds"), [(np.nan, 60), (1, 60), (20, 60), (30, 90), (300, 900)]
)
def test_for_three_polls_and_a_minute_at_least(interval: float, seconds: float) -> None:
    assert keep_seconds(interval) == seconds


def test_a_failed_part_stays_for_a_while_with_what_joins_it() -> None:
    first = snapshot(
        1000,
        queues=ORDERS,
        consumers=HOLDER,
        consumer_queue=[0],
        consumer_connection=[9],
    )
    kept, _ = keep_last_good(LastGood(), first, 60)
    kept, found = keep_last_good(
        kept, snapshot(1060, failed=("queues", "consumers")), 60
    )
    assert found.queues is ORDERS
    assert found.consumers is HOLDER
    assert (found.consumer_queue.tolist(), found.consumer_connection.tolist()) == (
        [0],
        [9],
    )
    kept, found = keep_last_good(
        kept, snapshot(1060.1, failed=("queues", "consumers")), 60
    )
    assert (found.queues, found.consumers, found.consumer_queue.tolist()) == (
        None,
        None,
        [],
    )
    _, found = keep_last_good(
        kept, snapshot(1061, queues=ORDERS, failed=("consumers",)), 60
    )
    assert (found.queues, found.consumers) == (ORDERS, None)


def test_a_part_that_was_never_read_is_missing() -> None:
    _, found = keep_last_good(LastGood(), snapshot(1000, failed=("queues",)), 60)
    assert found.queues is None


def test_sizes_that_failed_move_along_with_their_queues() -> None:
    source: Source[object] = Source()
    before = source.table({1: "a", 2: "b"}, bytes={1: 10, 2: 20})
    kept, _ = keep_last_good(LastGood(), snapshot(1000, queues=before), 60)
    kept = replace(kept, stamps={"sizes": 1000})
    now = source.table({2: "b", 3: "c"}, messages={2: 1, 3: 2})
    _, found = keep_last_good(kept, snapshot(1010, queues=now, failed=("sizes",)), 60)
    assert found.queues is not None
    np.testing.assert_array_equal(found.queues["bytes"], [20, np.nan])
    assert found.queues["messages"].tolist() == [1, 2]


def test_a_passive_broker_keeps_nothing_and_nothing_comes_back_from_before() -> None:
    kept, _ = keep_last_good(LastGood(), snapshot(1000, queues=ORDERS), 60)
    kept, found = keep_last_good(kept, snapshot(1010, PASSIVE, failed=("queues",)), 60)
    assert found.queues is None
    _, found = keep_last_good(kept, snapshot(1020, failed=("queues",)), 60)
    assert found.queues is None


# --- what is cut off or hidden


def test_clients_above_the_limit_are_shown_together() -> None:
    consumers = table(
        [things.consumer(c, "orders", c) for c in "abcd"], buffered=[1, 2, 4, 8]
    )
    policy = Policy("b", limits=Limits(clients=2))
    _, tables = assess(
        State(),
        snapshot(queues=ORDERS, consumers=consumers, consumer_queue=[0] * 4),
        policy,
    )
    assert by(tables["client"], "buffered", "client") == {"a": 1, "b": 2, OTHER: 12}


def test_a_place_that_gets_free_is_given_to_the_next_new_client() -> None:
    source = Source[object]()
    policy = Policy("b", limits=Limits(clients=2))
    state = State()
    for names in ("abc", "bc", "bcd"):
        rows = {ord(c): things.consumer(c, "orders", c) for c in names}
        found = source.table(rows, buffered=dict.fromkeys(rows, 1.0))
        state, tables = assess(state, snapshot(consumers=found), policy)
    assert by(tables["client"], "buffered", "client") == {"b": 1, "d": 1, OTHER: 1}


def test_the_worst_consumers_are_shown_and_the_others_counted() -> None:
    consumers = table(
        [things.consumer(str(n), "orders") for n in range(5)],
        buffered=[1, 5, 3, 0, 4],
        last_delivery=[10, 50, 30, 5, 40],
    )
    policy = Policy("b", limits=Limits(consumers_per_broker=10, consumers_per_queue=2))
    seen = snapshot(queues=ORDERS, consumers=consumers, consumer_queue=[0] * 5)
    state, tables = assess(State(), seen, policy)
    assert by(tables["consumer"], "buffered", "consumer") == {
        "0": 1,
        "2": 3,
    }  # held longest
    assert state.hidden()["consumer"] == 3


HIDE = {
    "ignore": Policy(
        "b", Rules((Rule(Match(address="orders"), RuleSettings(ignore=True)),))
    ),
    "exclude": Policy("b", selection=Selection(exclude=[Match(address="orders")])),
    "include": Policy("b", selection=Selection(include=[Match(address="bills")])),
}


@pytest.mark.parametrize("how", HIDE)
def test_a_hidden_queue_takes_its_consumers_producers_and_address_along(
    how: str,
) -> None:
    _, tables = assess(
        State(),
        snapshot(
            queues=ORDERS,
            addresses=table(
                [things.address("orders"), things.address("bills")], pages=[1, 2]
            ),
            consumers=table(
                [things.consumer("1", "orders"), things.consumer("2", "bills")],
                buffered=[3, 4],
            ),
            consumer_queue=[0, 1],
            producers=table(
                [things.producer("1", "orders"), things.producer("2", "bills")],
                produced=[5, 6],
            ),
        ),
        HIDE[how],
    )
    assert by(tables["queue"], "messages", "queue") == {"bills": 6}
    assert by(tables["address"], "pages", "address") == {"bills": 2}
    assert by(tables["client"], "buffered", "queue") == {"bills": 4}
    assert by(tables["consumer"], "buffered", "consumer") == {"2": 4}
    assert by(tables["producer"], "produced", "address") == {"bills": 6}


def test_a_consumer_whose_queue_appears_later_moves_to_where_that_is_shown() -> None:
    source: Source[object] = Source()
    rows = {1: things.consumer("1", "t1")}
    state, tables = assess(
        State(),
        snapshot(queues=table([]), consumers=source.table(rows, buffered={1: 3})),
        Policy("b"),
    )
    assert by(tables["client"], "buffered", "queue") == {"t1": 3}
    temporary = table([things.temporary("t1")], messages=[1])
    seen = snapshot(
        queues=temporary,
        consumers=source.table(rows, buffered={1: 4}),
        consumer_queue=[0],
    )
    _, tables = assess(state, seen, Policy("b"))
    assert by(tables["client"], "buffered", "queue") == {"(temporary)": 4}
    assert by(tables["consumer"], "buffered", "queue") == {"(temporary)": 4}


def ring(paging: float, limit: float = 10) -> Table[object]:
    queues = table(
        [things.queue("r")],
        messages=[15],
        delivering=[3],
        scheduled=[0],
        ring_limit=[limit],
    )
    addresses = table([things.address("r")], paging=[paging])
    return assess(State(), snapshot(queues=queues, addresses=addresses), Policy("b"))[
        1
    ]["queue"]


def test_how_full_a_ring_is_cannot_be_told_while_paging() -> None:
    assert by(ring(paging=0), "ring_used_ratio", "queue") == {"r": 1.2}
    assert by(ring(paging=1), "ring_used_ratio", "queue") == {}
    assert by(ring(paging=1), "ring_limit", "queue") == {"r": 10}
    assert by(ring(paging=0, limit=np.nan), "ring_used_ratio", "queue") == {}
