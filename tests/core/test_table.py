"""Index, Table, Serials against plain dicts."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import Source, patiently, queue
from penstock.core.table import (
    Index,
    KeyAllocator,
    Table,
    UnknownColumn,
    ascending,
    positions,
    put,
)

polls = st.lists(
    st.dictionaries(st.integers(0, 12), st.sampled_from("abc")), min_size=1, max_size=8
)
"""Key → text of the things of each poll; the order of a dict is the order in which they are listed."""


@given(polls)
@patiently
def test_an_index_holds_what_was_listed_and_knows_where_each_row_stood(
    polls: list[dict[int, str]],
) -> None:
    source: Source[str] = Source()
    before: dict[int, str] = {}
    for poll in polls:
        last = source.index
        table = source.table(poll, number={key: key + 0.5 for key in poll})
        index = table.index
        assert dict(zip(index.keys.tolist(), index, strict=True)) == poll
        assert index.keys.tolist() == sorted(poll)
        assert table["number"].tolist() == [key + 0.5 for key in sorted(poll)]
        assert (index is last) == (poll == before)
        if index is not last:
            assert index.follows(last)
            kept = {key for key in poll if before.get(key) == poll[key]}
            assert index.origin.tolist() == [
                sorted(before).index(k) if k in kept else -1 for k in sorted(poll)
            ]
        before = poll


@given(polls)
@patiently
def test_values_go_along_with_their_rows_and_with_no_other(
    polls: list[dict[int, str]],
) -> None:
    source: Source[str] = Source()
    values = np.empty(0)
    expected: dict[tuple[int, str], float] = {}
    for number, poll in enumerate(polls):
        last = source.index
        index = source.table(poll).index
        carried = index.carry(last, values, np.nan)
        assert dict(
            zip(
                zip(index.keys.tolist(), index, strict=True),
                carried.tolist(),
                strict=True,
            )
        ) == pytest.approx(
            {item: expected.get(item, np.nan) for item in poll.items()}, nan_ok=True
        )
        values = np.where(np.isnan(carried), index.keys + 100.0 * number, carried)
        expected = dict(
            zip(
                zip(index.keys.tolist(), index, strict=True),
                values.tolist(),
                strict=True,
            )
        )


@given(polls)
@patiently
def test_values_go_along_over_a_gap_and_to_an_index_that_began_anew(
    polls: list[dict[int, str]],
) -> None:
    """The same key may stand for another thing there: only the same row is the same thing."""
    first, *rest = polls
    source: Source[str] = Source()
    old = source.table(first).index
    values = old.keys + 0.5
    for poll in rest:
        source.table(poll)
    for index in (source.index, Source[str]().table(polls[-1]).index):
        carried = index.carry(old, values, -1.0).tolist()
        expected = [
            k + 0.5 if first.get(k) == polls[-1][k] else -1.0 for k in sorted(polls[-1])
        ]
        assert carried == (expected if index is not old else values.tolist())


def test_a_key_that_is_listed_twice_counts_once_the_first() -> None:
    made: list[list[int]] = []

    def make(new: list[int]) -> Sequence[str]:
        made.append(new)
        return ["abc"[i] for i in new]

    index, order = Index[str].empty().advance(np.array([7, 3, 7]), make)
    assert (index.keys.tolist(), list(index), order.tolist(), made) == (
        [3, 7],
        ["b", "a"],
        [1, 0],
        [[1, 0]],
    )


def test_a_changed_row_is_made_anew_and_the_others_stay_the_same_objects() -> None:
    rows = {1: ("a",), 2: ("b",)}
    source: Source[tuple[str]] = Source()
    before = source.table(rows).index
    after = source.table({1: ("a",), 2: ("c",)}).index
    assert list(after) == [("a",), ("c",)]
    assert after.rows[0] is before.rows[0]
    assert after.origin.tolist() == [0, -1]


def test_a_column_of_the_rows_is_computed_once() -> None:
    asked: list[str] = []
    index = Index.of(["a", "bb"])

    def length(row: str) -> float:
        asked.append(row)
        return len(row)

    assert index.column("length", length).tolist() == [1, 2]
    assert index.column("length", length).tolist() == [1, 2]
    assert asked == ["a", "bb"]


@given(st.sets(st.integers(-5, 20)), st.lists(st.integers(-5, 20)))
def test_positions(keys: set[int], asked: list[int]) -> None:
    ordered = sorted(keys)
    index = Source[int]().table({key: key for key in keys}).index
    expected = [ordered.index(key) if key in keys else -1 for key in asked]
    assert index.positions(np.array(asked, np.int64)).tolist() == expected


def test_a_column_that_is_not_there_is_missing_for_every_row() -> None:
    table = Table(Index.of(["a", "b"]), {"here": np.array([1.0, 2.0])})
    assert "here" in table
    assert "gone" not in table
    assert np.isnan(table["gone"]).tolist() == [True, True]


@given(st.lists(st.lists(st.text("abcd", max_size=2), unique=True), max_size=10))
def test_serials_give_a_text_one_key_and_a_key_one_text(polls: list[list[str]]) -> None:
    serials = KeyAllocator[str]()
    known: dict[str, int] = {}
    for texts in polls:
        keys = serials(texts).tolist()
        assert all(
            known.setdefault(text, key) == key
            for text, key in zip(texts, keys, strict=True)
        )
        assert serials.find([*texts, "never"]).tolist() == [*keys, -1]
    assert len(set(known.values())) == len(known)


def test_serials_forget_what_is_not_in_use_and_never_give_its_key_again() -> None:
    serials = KeyAllocator[str]()
    first = serials([f"a{n}" for n in range(3000)])
    second = serials(["a5", "b"])
    assert second[0] == first[5]
    assert serials.find(["a6"]).tolist() == [-1]
    assert second[1] > first.max()
    assert serials(["a6"])[0] > second[1]


def test_a_column_that_its_rows_do_not_declare_is_an_error() -> None:
    queues = Table(Index.of([queue("q")]), {"messages": np.ones(1)})
    assert np.isnan(queues["delivering"]).all()
    assert "delivering" not in queues
    with pytest.raises(
        UnknownColumn,
        match="QueueRow has no column 'delivring'; did you mean delivering",
    ):
        queues["delivring"]
    with pytest.raises(UnknownColumn):
        "mesages" in queues  # noqa: B015 - it raises


@pytest.mark.parametrize("seed", range(5))
def test_keys_in_any_order_and_in_order_are_found_alike(seed: int) -> None:
    keys = (
        np.random.default_rng(seed)
        .permutation(50)
        .astype(np.int64)[: 40 if seed else 50]
    )
    twice = np.append(keys, keys[:7])
    for asked in (keys, twice, np.sort(keys)):
        ordered, order = ascending(asked)
        assert ordered.tolist() == sorted({*asked.tolist()})
        assert order.tolist() == [asked.tolist().index(key) for key in ordered.tolist()]
    known = np.sort(keys)
    everything = known.tolist()
    for asked in (known, known.copy(), keys, np.arange(60)):
        assert positions(known, asked).tolist() == [
            everything.index(k) if k in everything else -1 for k in asked.tolist()
        ]


def test_numbers_are_put_where_they_belong_and_the_very_array_is_returned_where_that_is_nowhere() -> (
    None
):
    lines = np.arange(6.0).reshape(2, 3)
    nowhere = np.zeros(3, np.bool_)
    assert put(lines, nowhere, 9.0) is lines
    assert put(lines, np.array([True, False, False]), 9.0).tolist() == [
        [9.0, 1.0, 2.0],
        [9.0, 4.0, 5.0],
    ]
    assert put(lines[0], lines[0] > 1, lines[1]).tolist() == [0.0, 1.0, 5.0]
    assert lines[0].tolist() == [0.0, 1.0, 2.0]
