"""Listings that move while they are read, in pages of any size: totals are the truth, nothing is new that was not."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import patiently
from trust.moving import Moving, Watched, counted, play

DICE = Random(1)  # noqa: S311 - repeatable


@pytest.mark.slow  # takes a second
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 30),
    rows=st.integers(1, 9),
    most=st.integers(0, 4),
)
@patiently
async def test_totals_are_the_truth_and_what_is_known_and_there_stays(
    seed: int, size: int, rows: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        await play(seed, size, rows, most, 6, patch)


async def test_the_first_listing_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is known then that could be missed, but what an agent knew that ran before."""

    class Once(Moving):
        """A thing leaves behind the first page of the first reading."""

        def move(self) -> None:
            self.things.pop(1, None)

    watched = Watched.of(broker := Once(DICE, 6, 0), 2, monkeypatch)
    await watched.poll()
    assert watched.numbers("consumers") >= set(broker.things)
    assert watched.numbers("producers") >= set(broker.things)


async def test_a_page_that_is_short_does_not_end_the_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row that cannot be read, or that goes away while its page is written, is left out."""

    class Short(Moving):
        def text(self, operation: str, arguments: list[Any]) -> str | list[str]:
            text = super().text(operation, arguments)
            if not isinstance(text, str):
                return text
            found = json.loads(text)
            kept = [row for row in found["data"] if row.get("id") != "2"]
            return json.dumps({"data": kept, "count": found["count"]})

    watched = Watched.of(Short(DICE, 7, 0), 3, monkeypatch)
    await watched.poll()
    assert watched.numbers("consumers") == {1, 3, 4, 5, 6, 7}


async def test_clients_are_counted_without_those_that_are_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched.of(broker := Moving(DICE, 9, 0), 4, monkeypatch)
    await watched.poll()
    told = counted(watched.state.consumers.totals, 0)
    del broker.things[2]
    for thing in broker.things.values():
        thing.delivered += 1
    broker.work = lambda: None  # type: ignore[method-assign]
    await watched.poll()
    assert watched.tables["client"]["consumers"].sum() == 8
    assert watched.snapshot.observation.inconsistent == {"consumers", "producers"}
    assert 2 in watched.numbers("consumers"), (
        "it stays until it is proven gone once more: its state goes on"
    )
    assert counted(watched.state.consumers.totals, 0) == told + 8
    await watched.poll()
    assert watched.numbers("consumers") == set(broker.things)
    assert not watched.snapshot.observation.inconsistent
