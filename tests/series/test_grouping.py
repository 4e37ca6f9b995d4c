"""Grouping and Totals against plain dicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import Source, by_row, patiently, table
from penstock.core.table import Index, Table
from penstock.series import totals as totals_module
from penstock.series.labels import HIDDEN, Grouping, sum_by
from penstock.series.totals import Totals

number = st.one_of(st.just(float("nan")), st.integers(0, 9).map(float))
keys = st.integers(0, 8)
labels = st.fixed_dictionaries(
    dict.fromkeys("abcd", st.sampled_from(["x", "y", "z", None]))
)
"""What a row's text is shown as; None: not at all."""


@dataclass
class Poll:
    rows: dict[int, str]
    values: dict[int, float]
    labels: dict[str, str | None]
    """In force from this poll on when `reload`, else those of before stay."""
    reload: bool
    restart: bool
    """The reader began anew: an index that follows nothing."""


@st.composite
def poll(draw: st.DrawFn) -> Poll:
    rows = draw(st.dictionaries(keys, st.sampled_from("abcd")))
    return Poll(
        rows,
        {key: draw(number) for key in rows},
        draw(labels),
        draw(st.booleans()),
        draw(st.booleans()),
    )


polls = st.lists(poll(), min_size=1, max_size=8)


def no_grouping() -> Grouping[str]:
    return Grouping()


def no_totals() -> Totals[str]:
    return Totals()


def labelling(
    rows: Sequence[str], names: dict[str, str | None]
) -> Sequence[str | None]:
    return [names.get(row) for row in rows]


def label(
    rows: Index[str], names: dict[str, str | None]
) -> Callable[[list[int]], Sequence[str | None]]:
    return lambda new: labelling([rows.rows[i] for i in new], names)


@pytest.mark.slow  # many polls
@given(polls)
@patiently
def test_every_row_belongs_to_the_series_that_its_text_says(polls: list[Poll]) -> None:
    source = Source[str]()
    grouping = no_grouping()
    names = polls[0].labels
    for now in polls:
        if now.restart:
            source = Source()
        if now.reload:
            grouping = no_grouping()
            names = now.labels
        rows = source.table(now.rows, value=now.values)
        texts = list(rows.index)
        grouping = grouping.advance(rows.index, label(rows.index, names))
        shown = [
            None if at == HIDDEN else grouping.index.rows[at] for at in grouping.member
        ]
        assert shown == labelling(texts, names)
        assert sorted(grouping.index) == sorted(
            {name for name in shown if name is not None}
        )
        check_sums(grouping, shown, rows["value"].tolist())


def check_sums(
    grouping: Grouping[str], shown: list[str | None], values: list[float]
) -> None:
    of = {
        name: [
            v
            for s, v in zip(shown, values, strict=True)
            if s == name and not np.isnan(v)
        ]
        for name in grouping.index
    }
    for how, naive in ((grouping.sum, sum), (grouping.max, max)):
        assert by_row(Table(grouping.index, {"it": how(np.array(values))}), "it") == {
            name: naive(vs) for name, vs in of.items() if vs
        }
    assert grouping.count().tolist() == [shown.count(name) for name in grouping.index]


def test_a_change_of_context_labels_that_row_anew_and_no_other() -> None:
    asked: list[list[int]] = []

    def label(new: list[int]) -> list[str | None]:
        asked.append(new)
        return [f"{context[i]}" for i in new]

    rows = table(["a", "b"]).index
    context = [5, 6]
    before = no_grouping().advance(rows, label, np.array(context))
    assert before.advance(rows, label, np.array(context)) is before
    context = [5, 7]
    after = before.advance(rows, label, np.array(context))
    assert asked == [[0, 1], [1]]
    assert list(after.index) == ["5", "7"]
    assert after.relabelled.tolist() == [False, True]


def test_label_sets_out_of_use_are_forgotten_and_their_keys_never_given_again() -> None:
    source = Source[str]()
    grouping = no_grouping()
    seen: dict[int, str] = {}
    for start in range(0, 6000, 1000):
        rows = source.table(
            {key: f"q{key}" for key in range(start, start + 1000)}
        ).index
        grouping = grouping.advance(rows, label(rows, {name: name for name in rows}))
        for key, name in zip(grouping.index.keys.tolist(), grouping.index, strict=True):
            assert seen.setdefault(key, name) == name
    assert len(seen) == 6000
    assert len(grouping.book._keys) <= 2 * 1000 + 1024


@pytest.mark.slow  # many polls
@given(polls)
@patiently
def test_totals_are_the_sum_of_all_growth_whoever_comes_or_goes(
    polls: list[Poll],
) -> None:
    """Per series, through rows that vanish and come back, counters that fall, values that are missing, rules and broker
    anew.
    """
    source = Source[str]()
    grouping = no_grouping()
    totals = no_totals()
    names = polls[0].labels
    expected: dict[str, float] = {}
    last: dict[int, tuple[str, float]] = {}
    listed: set[int] = set()
    for now in polls:
        if now.restart:
            source = Source()
            last = {
                key: last[key] for key in listed & now.rows.keys()
            }  # another process gives the keys of others again
        if now.reload:
            grouping = no_grouping()
            names = now.labels
        rows = source.table(now.rows, value=now.values)
        grouping = grouping.advance(rows.index, label(rows.index, names))
        totals = totals.advance(grouping, [rows["value"], 2 * rows["value"]])
        for key, text in now.rows.items():
            then, before = last.get(key, (text, 0.0))
            if (
                now.restart and then != text
            ):  # only of one broker process is a row with another text the same
                before = 0.0
            value = now.values[key]
            last[key] = (text, before)
            name = names.get(text)
            if name is not None:
                expected.setdefault(name, 0.0)
                if not np.isnan(value):
                    expected[name] += value - before if value >= before else value
            if not np.isnan(value):
                last[key] = text, value
        listed = {*now.rows}
        living = dict(zip(totals.index, totals.sum_of(0).tolist(), strict=True))
        assert living == {name: expected[name] for name in living}
        assert totals.sum_of(1).tolist() == [2 * value for value in living.values()]
        dormant = {name: sums[0] for name, sums in totals.dormant.items()}
        assert not living.keys() & dormant.keys()
        assert living | dormant == expected


def test_no_more_than_a_bounded_number_is_kept_and_the_longest_gone_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(totals_module, "LEAST_DORMANT", 3)
    source = Source[str]()
    grouping = no_grouping()
    totals = no_totals()

    def poll(*names: str, value: float = 1.0) -> None:
        nonlocal grouping, totals
        rows = source.table(
            {ord(name): name for name in names},
            value={ord(name): value for name in names},
        )
        grouping = grouping.advance(
            rows.index, lambda new: [rows.index.rows[i] for i in new]
        )
        totals = totals.advance(grouping, [rows["value"]])

    for name in "abcde":
        poll(name)
    assert list(totals.dormant) == ["b", "c", "d"]
    poll("b", "a", value=2.0)
    assert dict(zip(totals.index, totals.sum_of(0).tolist(), strict=True)) == {
        "a": 1,
        "b": 2,
    }
    assert list(totals.dormant) == ["c", "d", "e"]


def test_sum_by_leaves_out_what_has_no_place_or_no_value() -> None:
    at = np.array([0, 2, -1, 2, 0])
    assert sum_by(at, np.array([1.0, 2.0, 4.0, 8.0, np.nan]), 3).tolist() == [1, 0, 10]


def test_what_is_not_to_be_kept_leaves_nothing_when_it_goes() -> None:
    source = Source[str]()
    grouping = no_grouping()
    totals = no_totals()
    for name in "abc":
        rows = source.table({ord(name): name}, value={ord(name): 1.0})
        grouping = grouping.advance(
            rows.index,
            lambda new: [rows.index.rows[i] for i in new],  # noqa: B023 - at once
        )
        totals = totals.advance(grouping, [rows["value"]], lambda series: series == "b")
    assert list(totals.dormant) == ["b"]
