"""Advice: worked out on the workers, only where it was called for, and only with what it would have done."""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.history.compact import read
from penstock.history.schema import QUEUE, series_id
from penstock.history.store import Store
from penstock_demo.history import Truth
from penstock_trends.advice import (
    COLUMNS,
    advice_of,
    advise,
    last_days,
    more_are_idle,
    polls_of,
    replayed,
    steps_of,
    utilised,
)
from penstock_trends.summary import not_known

NAMES = {"broker": "b", "address": "a", "queue": "q"}


def polls(
    days: float, ring: float = np.nan, consumers: float = 2.0, short: float = 0.0
) -> dict[str, Any]:
    """A minute each; 60 come, 90 can be taken, in each tenth hour `short` of them less."""
    stamp = 60.0 * np.arange(int(days * 1440))
    depth = np.zeros(len(stamp))
    left = np.zeros(len(stamp))
    lost = 0.0
    for at in range(1, len(stamp)):
        able = 90 * (1 - short) if stamp[at] // 3600 % 10 == 0 else 90
        waiting = depth[at - 1] + 60
        taken = min(waiting, able)
        lost += max(waiting - taken - np.nan_to_num(ring, nan=np.inf), 0.0)
        depth[at] = min(waiting - taken, np.nan_to_num(ring, nan=np.inf))
        left[at] = left[at - 1] + taken
    same = np.ones(len(stamp))
    return {
        "stamp": stamp, "inc": same.astype(np.int64), "sid": same.astype(np.int64), "added": 60 * stamp / 60,
        "acknowledged": left, "expired": 0 * same, "killed": np.nan * same, "removed": np.nan * same,
        "messages": depth, "ring_limit": ring * same, "consumers": consumers * same,
        **dict.fromkeys(("scheduled", "delivering", "max_consumers", "exclusive", "groups", "grouped"), np.nan * same),
    }  # fmt: skip


@pytest.mark.slow  # replays polls
def test_a_ring_that_lost_gets_the_size_that_would_not_have() -> None:
    seen = polls(3, ring=500.0, short=1.0)
    (one,) = advice_of(seen)
    assert one["subject"] == "ring size"
    lost = seen["added"][-1] - seen["acknowledged"][-1] - seen["messages"][-1]
    said = re.fullmatch(
        r"In the 3 days seen a ring of 500 lost ([\d,]+) of 259,140 messages\.",
        one["evidence"],
    )
    assert said is not None
    assert int(said[1].replace(",", "")) == pytest.approx(lost, abs=1000)
    assert one["do"] == "ring-size 3900: it would have lost 0 of 259,140."


@pytest.mark.slow  # long courses
def test_a_backlog_that_lasts_gets_consumers() -> None:
    (one,) = advice_of(polls(3, short=0.5))
    assert one["subject"] == "too few consumers"
    assert one["do"].startswith("3 consumers: the backlog would have lasted")
    (none,) = advice_of(polls(3, short=1.0))
    assert none["do"].startswith("Three times the consumers do not help")


@pytest.mark.parametrize(
    ("said", "do"),
    [
        (
            {"exclusive": 1.0},
            "More consumers would stand by: the queue is exclusive. Make its one consumer faster.",
        ),
        (
            {"max_consumers": 2.0},
            "It takes 2 consumers and no more: raise max-consumers, or make them faster.",
        ),
        (
            {"groups": 7.0},
            "More consumers would get new message groups only: make those that are there faster.",
        ),
        (
            {"groups": 7.0, "grouped": 1.0},
            "3 consumers: the backlog would have lasted 0 s at most",
        ),
        (
            {"max_consumers": -1.0, "exclusive": 0.0, "groups": 0.0},
            "3 consumers: the backlog would have lasted 0 s",
        ),
    ],
)
def test_no_consumers_are_advised_that_would_get_nothing(
    said: dict[str, float], do: str
) -> None:
    seen = polls(3, short=0.5)
    (one,) = advice_of(
        seen
        | {name: np.full(len(seen["stamp"]), value) for name, value in said.items()}
    )
    assert one["do"].startswith(do)


def test_messages_that_are_not_due_are_no_backlog() -> None:
    """Three days of it and no help from three times the consumers, where all that was due was taken at once."""
    seen = polls(3)
    scheduled = np.full(len(seen["stamp"]), 10_000.0)
    assert (
        advice_of(
            seen | {"scheduled": scheduled, "messages": seen["messages"] + scheduled}
        )
        == []
    )


@pytest.mark.slow  # replays polls
def test_what_a_stalled_consumer_buffers_is_no_backlog() -> None:
    """For ten hours one holds what its buffer takes, while the other one keeps up; then it is given back."""
    seen = polls(3)
    at = np.arange(len(seen["stamp"]))
    held = np.where(at < 1200, np.clip(30.0 * (at - 600), 0, 1000), 0)
    given_back = np.where(at < 1200, 0, np.clip(1000 - 30.0 * (at - 1200), 0, 1000))
    stalled = {
        "acknowledged": seen["acknowledged"] - held - given_back,
        "messages": seen["messages"] + held + given_back,
        "delivering": held,
    }
    assert advice_of(seen | stalled) == []
    assert advice_of(seen | stalled | {"delivering": 0 * held}) != []


@pytest.mark.slow  # long courses
def test_nothing_is_said_of_what_is_well_or_young() -> None:
    assert advice_of(polls(3)) == []
    assert advice_of(polls(3, ring=500.0)) == []
    assert advice_of(polls(0.9, ring=500.0, short=1.0)) == []
    assert advice_of(polls(3, short=0.5, consumers=0.0)) == []


@pytest.mark.nightly  # a run of Spark
def test_the_workers_say_the_same(spark: Any, fleet: tuple[Store, Truth]) -> None:
    names = [
        (f"broker-{broker}", f"{queue}.0")
        for broker in (1, 2)
        for queue in ("orders", "invoices", "payments")
    ]
    facts = [
        {
            "broker": broker,
            "address": queue,
            "queue": queue,
            "ring": None,
            "consumers": 2.0,
            "backlog_share": 0.5,
        }
        for broker, queue in names
    ]
    found = {
        (one["broker"], one["queue"]): one["do"]
        for one in advise(spark, fleet[0], facts)
    }
    sids = {series_id(broker, queue, queue): (broker, queue) for broker, queue in names}
    every = polls_of(
        fleet[0], [path for day in last_days(fleet[0]) for path in day], list(sids)
    )
    alone = {
        name: one["do"]
        for sid, name in sids.items()
        for one in advice_of(
            {column: values[every["sid"] == sid] for column, values in every.items()}
        )
    }
    assert found == alone != {}
    assert advise(spark, fleet[0], [facts[0] | {"backlog_share": 0.01}]) == []


@pytest.mark.nightly  # a run of Spark
def test_a_damaged_file_stops_no_advice(spark: Any, own_fleet: Store) -> None:
    named = {"broker": "broker-1", "address": "orders.0", "queue": "orders.0"}
    facts = [named | {"ring": None, "consumers": 2.0, "backlog_share": 0.5}]
    paths = [entry.path for entry in own_fleet.files("raw/kind=queue")]
    whole = advice_of(
        polls_of(own_fleet, paths, [series_id("broker-1", "orders.0", "orders.0")])
    )
    own_fleet.write_bytes(paths[0], b"torn")
    found = advise(spark, own_fleet, facts)
    assert [one["subject"] for one in found] == [one["subject"] for one in whole] != []


@pytest.mark.slow  # reads an imagined history
def test_numbers_that_cannot_be_are_no_polls_of_any_queue(own_fleet: Store) -> None:
    paths = [entry.path for entry in own_fleet.files("raw/kind=queue")]
    sid = series_id("broker-1", "orders.0", "orders.0")
    whole = polls_of(own_fleet, paths, [sid])
    table = read(own_fleet, paths[:1], QUEUE)
    at = table.column_names.index("added")
    own_fleet.write_table(
        paths[0],
        table.set_column(
            at, "added", pa.array([2**63 - 1025] * len(table), pa.int64())
        ),
    )
    found = polls_of(own_fleet, paths, [sid])
    assert np.isnan(found["added"]).sum() > np.isnan(whole["added"]).sum()
    assert np.nanmax(found["added"]) == np.nanmax(whole["added"])


@pytest.mark.slow  # imports pandas
def test_a_queue_whose_polls_cannot_be_replayed_is_named_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: object) -> list[dict[str, str]]:
        raise ZeroDivisionError("float division by zero")

    import pandas as pd  # noqa: PLC0415 - a quarter of a second that all other tests of the file do without

    frame = pd.DataFrame({name: [1.0, 2.0] for name in COLUMNS})
    assert json.loads(replayed(frame)["result"][0]) == {"advice": [], "problem": ""}
    monkeypatch.setattr("penstock_trends.advice.advice_of", broken)
    found = json.loads(replayed(frame)["result"][0])
    assert found == {
        "advice": [],
        "problem": "ZeroDivisionError: float division by zero",
    }
    facts = {
        "unadvised": {"orders on b1": found["problem"]},
        "window": {"days": 100},
        "brokers": [],
        "queues": [],
    }
    assert not_known(facts) == [
        "what to set for orders on b1: its polls could not be replayed (ZeroDivisionError: float division by zero)"
    ]


@pytest.mark.slow  # reads an imagined history
def test_polls_of_two_agents_are_one_queue(own_fleet: Store) -> None:
    """Each names the life of the counters by itself."""
    files = [entry.path for entry in own_fleet.files("raw/kind=queue")]
    sid = series_id("broker-1", "orders.0", "orders.0")
    alone = steps_of(polls_of(own_fleet, files, [sid]))
    for path in files:
        table = read(own_fleet, [path], QUEUE)
        other = pc.add(table["inc"], 1)
        table = table.set_column(
            table.column_names.index("inc"),
            "inc",
            other.cast(table.schema.field("inc").type),
        )
        stamp = pc.add(table["stamp"].cast(pa.int64()), 7_000_000).cast(
            table.schema.field("stamp").type
        )
        own_fleet.write_table(
            path.replace("generated", "second"),
            table.set_column(table.column_names.index("stamp"), "stamp", stamp),
        )
    files = [entry.path for entry in own_fleet.files("raw/kind=queue")]
    both = steps_of(polls_of(own_fleet, files, [sid]))
    assert both.days == pytest.approx(alone.days, rel=0.02)
    assert both.came.sum() == pytest.approx(alone.came.sum(), rel=0.02)


@pytest.mark.slow  # long courses
def test_a_ring_that_was_changed_is_judged_since_then() -> None:
    """What a smaller one lost says nothing of the present one."""
    seen = polls(5, ring=500.0, short=1.0)
    seen["ring_limit"][: 3 * 1440] = 100.0
    (one,) = advice_of(seen)
    assert one["evidence"].startswith("In the 2 days seen a ring of 500 lost")
    seen["ring_limit"][: int(4.5 * 1440)] = 100.0
    assert advice_of(seen) == []
    seen["ring_limit"][:] = np.nan
    assert [one["subject"] for one in advice_of(seen)] == ["too few consumers"]


def test_use_is_what_comes_over_what_can_be_done() -> None:
    clients: list[dict[str, Any]] = [
        NAMES | {"consumers": 2.0},
        NAMES | {"consumers": 2.0, "queue": "gone"},
    ]
    utilised(clients, [NAMES | {"busiest_rate": 5.0, "pace": {"rate": 10.0}}])
    assert [(one["pace"], one["utilisation"]) for one in clients] == [
        (10.0, 0.25),
        (None, None),
    ]
    utilised(clients, [NAMES | {"busiest_rate": 5.0, "pace": {"rate": None}}])
    assert clients[0]["utilisation"] is None, "there was never enough to do"


@pytest.mark.parametrize(
    ("wanted", "said"), [(5, ""), (6, "It takes 5 consumers and no more")]
)
def test_no_more_consumers_than_the_queue_takes(wanted: int, said: str) -> None:
    """By the last poll that read it."""
    nothing = dict.fromkeys(
        ("exclusive", "groups", "grouped"), np.array([np.nan, np.nan])
    )
    assert (
        more_are_idle(
            {**nothing, "max_consumers": np.array([5.0, np.nan])}, wanted
        ).partition(":")[0]
        == said
    )
