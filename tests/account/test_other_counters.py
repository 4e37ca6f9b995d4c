"""Counters that say the same as a fate of the account say the same number, on the recording of a real broker."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from account.recorded import Recorded
from penstock.account.fates import FATES
from penstock.assessment.assess import State, Tables, assess
from penstock.core.table import Table
from penstock.settings.policy import Policy

SAME: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("queue", "acknowledged"): ("acknowledged", "moved"),
    ("queue", "expired"): ("expired",),
    ("queue", "killed"): ("killed", "dead_lettered", "purged"),
    ("eviction", "ring"): ("evicted",),
    ("eviction", "last_value"): ("replaced",),
    ("address", "messages_dropped"): ("dropped",),
    ("address", "messages_rejected"): ("rejected",),
    ("address", "messages_unrouted"): ("unrouted",),
}
"""Table and column (of evictions the reason) of another counter → the fates that it is the sum of."""

Counts = Mapping[tuple[str, str], float]
"""By address and queue (empty: of the address)."""


def counted(tables: Tables, table: str, what: str) -> Counts:
    found: dict[tuple[str, str], float] = defaultdict(float)
    if table == "eviction":
        for row, value in zip(
            tables[table].index, tables[table]["evicted"], strict=True
        ):
            if row.reason == what:
                found[row.address, row.queue] += float(value)
    elif table in tables:
        column = tables[table].columns.get(what, ())
        for row, value in zip(tables[table].index, column, strict=bool(len(column))):
            found[row.address, getattr(row, "queue", "")] += float(value)
    return found


def fates(
    account: Table[Any], names: tuple[str, ...], column: str = "messages"
) -> Counts:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row, value in zip(account.index, account[column], strict=True):
        if row.fate in names and value == value:  # noqa: PLR0124 - NaN: uncertain only, or exact
            found[row.address, row.queue] += float(value)
    return found


def grown(before: Counts, now: Counts) -> dict[tuple[str, str], float]:
    """Only what has; of a counter that is not known (NaN) nothing."""
    found = {key: value - before.get(key, 0.0) for key, value in now.items()}
    return {key: value for key, value in found.items() if value > 0}


@pytest.fixture(scope="module")
def polls() -> list[Tables]:
    state = State()
    policy = Policy("b")
    found = []
    for snapshot in Recorded().snapshots():
        state, tables = assess(state, snapshot, policy)
        found.append(tables)
    return found


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("table", "what"), SAME)
def test_both_grow_alike(polls: list[Tables], table: str, what: str) -> None:
    """From the second poll on: the account begins with the first, other counters with the broker."""
    names = SAME[table, what]
    others = grown(*(counted(polls[at], table, what) for at in (1, -1)))
    mine = grown(*(fates(polls[at]["account"], names) for at in (1, -1)))
    more = fates(polls[-1]["account"], names, "uncertain")
    differ = {
        key: (counter, least)
        for key in others | mine
        if not (least := mine.get(key, 0.0))
        <= (counter := others.get(key, 0.0))
        <= least + more.get(key, 0.0)
    }
    assert differ == {}
    # Clients that come and go look like an operator.
    assert set(more) <= {(name, name) for name in ("g.pollb", "g.ring0", "g.ring1")}


@pytest.mark.slow  # many polls
def test_the_recording_has_some_of_each_that_it_compares(polls: list[Tables]) -> None:
    compared = {
        fate
        for names in SAME.values()
        for fate in names
        if sum(fates(polls[-1]["account"], (fate,)).values())
    }
    assert compared >= {"acknowledged", "expired", "evicted"}
    assert compared <= set(FATES)
