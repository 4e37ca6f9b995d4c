from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposition.tables import (
    blocks,
    everything,
    expected,
    parse,
    patiently,
    queues,
    row,
    samples,
    table,
)
from penstock.core.table import Index, Keys, Table
from penstock.exposition.body import Exposition
from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.render import BLOCK, BrokerBlocks, sample_lines
from penstock.exposition.syntax import END, Format, openmetrics_name

NAN = float("nan")


def body(made: BrokerBlocks, form: Format = Format.TEXT) -> bytes:
    exposition = Exposition(lambda _: b"")
    exposition.set_broker("b", made)
    return b"".join(exposition.chunks(form, gzip=False))


def lines(made: BrokerBlocks) -> list[str]:
    return [
        line for line in body(made).decode().splitlines() if not line.startswith("#")
    ]


def numbers(*values: float) -> list[str]:
    labels = np.array([b" "] * len(values), np.object_)
    return (
        sample_lines("x", labels, np.array(values))[0]
        .decode()
        .replace("x ", "")
        .splitlines()
    )


@pytest.mark.parametrize("form", Format)
def test_everything_is_what_the_parser_reads(form: Format) -> None:
    tables = everything("b")
    text = body(blocks(tables), form)
    shown = [family for family in CATALOGUE if family.table in tables]
    assert samples(form, text) == expected(shown, tables)
    kinds = {metric.name: metric.type for metric in parse(form, text)}
    if form is Format.OPENMETRICS:
        assert kinds == {openmetrics_name(family): family.type for family in shown}
    else:
        plain = {"counter": "counter", "gauge": "gauge", "info": "gauge"}
        assert kinds == {
            family.name.removesuffix("_total"): plain[family.type] for family in shown
        }


def test_golden_text() -> None:
    made = blocks(GOLDEN)
    assert body(made) == (
        b"# HELP mq_up 1 when the last poll reached the broker, else 0. Source: Penstock: the poll.\n"
        b"# TYPE mq_up gauge\n"
        b'mq_up{broker="b"} 1\n'
        b"# HELP mq_address_info What the address does when it is full; always 1. policy: page, block, drop, fail,"
        b" flow_control, remove_oldest, remove_low_priority or reject_newest."
        b" Source: Artemis: addressFullMessagePolicy of its settings; OpenMQ: LimitBehavior.\n"
        b"# TYPE mq_address_info gauge\n"
        b'mq_address_info{broker="b",address="a\\"1\\"",policy="page"} 1\n'
        b"# HELP mq_address_memory_used_ratio Used share of the memory limit of the address; 1 is full, more is"
        b" possible. Source: Artemis: AddressLimitPercent; OpenMQ: TotalMsgBytes over MaxTotalMsgBytes.\n"
        b"# TYPE mq_address_memory_used_ratio gauge\n"
        b'mq_address_memory_used_ratio{broker="b",address="a\\"1\\""} 0.25\n'
        b"# HELP mq_address_messages_added_total Messages routed in since the start of the broker."
        b" Source: Artemis: RoutedMessageCount; OpenMQ: NumMsgsIn.\n"
        b"# TYPE mq_address_messages_added_total counter\n"
        b'mq_address_messages_added_total{broker="b",address="a\\"1\\""} 12000000\n'
    )


def test_golden_openmetrics() -> None:
    plain = body(blocks(GOLDEN)).decode().splitlines(keepends=True)
    text = body(blocks(GOLDEN), Format.OPENMETRICS).decode().splitlines(keepends=True)
    assert text[:3] == plain[:3]
    assert text[3].startswith("# HELP mq_address What the address does")
    assert text[4:6] == ["# TYPE mq_address info\n", plain[5]]
    assert text[6:9] == plain[6:9]
    assert text[9].startswith("# HELP mq_address_messages_added Messages routed in")
    assert text[10:] == [
        "# TYPE mq_address_messages_added counter\n",
        plain[11],
        "# EOF\n",
    ]


GOLDEN = {
    "broker": table([row(broker="b")], up=[1]),
    "address": table(
        [row(broker="b", address='a"1"', policy="page")],
        info=[1],
        memory_used_ratio=[0.25],
        messages_added=[12e6],
    ),
}


def test_whole_numbers_have_no_point_and_no_value_is_rounded() -> None:
    assert numbers(0, -0.0, 3, 2.0**53 - 1) == ["0", "0", "3", "9007199254740991"]
    assert [float(text) for text in numbers(1.5, 2)] == [1.5, 2]
    assert numbers(1795216145.868123) == ["1795216145.868123"]
    assert [float(text) for text in numbers(0.1 + 0.2, 1e300, 2.0**60, -5)] == [
        0.1 + 0.2,
        1e300,
        2.0**60,
        -5,
    ]
    assert [float(text) for text in numbers(-1e300, 2.0**70)] == [-1e300, 2.0**70]


def test_rows_without_a_number_are_left_out() -> None:
    made = blocks(queues("b", messages=[1, NAN, 3, float("inf"), -float("inf")]))
    assert lines(made) == [
        'mq_queue_messages{broker="b",address="a",queue="q0"} 1',
        'mq_queue_messages{broker="b",address="a",queue="q2"} 3',
    ]
    assert made.published.samples == 2


def test_a_family_without_any_number_leaves_no_trace() -> None:
    made = blocks(queues("b", messages=[NAN, NAN], ready=[1, 2]))
    assert set(made.published.families) == {"mq_queue_ready_messages"}
    assert b"mq_queue_messages" not in body(made)
    assert (
        body(blocks(queues("b", messages=[NAN])), Format.OPENMETRICS)
        == END[Format.OPENMETRICS]
    )


def test_an_empty_table() -> None:
    assert body(blocks({"queue": table([], messages=[])})) == b""


def test_a_block_without_numbers_between_others() -> None:
    values = np.arange(3 * BLOCK, dtype=np.float64)
    values[BLOCK : 2 * BLOCK] = NAN
    made = blocks(queues("b", messages=values.tolist()))
    assert (
        list(samples(Format.TEXT, body(made)).values())
        == values[np.isfinite(values)].tolist()
    )
    assert len(made.published.families["mq_queue_messages"].fragments) == 2


def test_columns_of_any_layout_and_type() -> None:
    index = queues("b", messages=[0, 0])["queue"].index
    flags: Any = np.array([True, False])
    made = BrokerBlocks()
    for first in (0.5, 1.5):
        strided = np.arange(first, first + 4)[::2]
        made.update({"queue": Table(index, {"messages": strided, "paused": flags})})
        assert list(samples(Format.TEXT, body(made)).values()) == [
            first,
            first + 2,
            1,
            0,
        ]


class Queues:
    """Queues that come, go and change over polls, with one column or more."""

    def __init__(self) -> None:
        self.index: Index[SimpleNamespace] = Index.empty()
        self.made: list[int] = []

    def poll(
        self, keys: Keys, values: np.ndarray[Any, Any], changed: Keys | None = None
    ) -> dict[str, Table[Any]]:
        suffix = "" if changed is None else " renamed"

        def make(new: list[int]) -> list[SimpleNamespace]:
            return [
                row(broker="b", address="a", queue=f"q{keys[n]}{suffix}") for n in new
            ]

        self.index, order = self.index.advance(keys, make, changed=changed)
        return {
            "queue": Table(
                self.index, {"messages": values[order], "ready": values[order] * 2}
            )
        }


@pytest.fixture
def many() -> tuple[Queues, BrokerBlocks, Keys, np.ndarray[Any, Any]]:
    """Five blocks, the last one short, of each of two families, rendered once."""
    source = Queues()
    made = BrokerBlocks()
    keys = np.arange(4 * BLOCK + 10)
    values = keys.astype(np.float64)
    made.update(source.poll(keys, values))
    assert made.blocks_rendered == 10
    return source, made, keys, values


Many = tuple[Queues, BrokerBlocks, Keys, np.ndarray[Any, Any]]


def check(made: BrokerBlocks, tables: dict[str, Table[Any]]) -> None:
    """What was put together from old and new blocks is, but for the order, what a renderer without a past makes."""
    assert sorted(body(made).splitlines()) == sorted(body(blocks(tables)).splitlines())


def test_nothing_changed_renders_nothing(many: Many) -> None:
    source, made, keys, values = many
    before = made.published
    made.update(source.poll(keys, values.copy()))
    assert made.blocks_rendered == 0
    assert made.published.families["mq_queue_messages"] is not None
    assert (
        made.published.families["mq_queue_messages"].fragments
        == before.families["mq_queue_messages"].fragments
    )


def test_the_same_arrays_render_nothing(many: Many) -> None:
    source, made, keys, values = many
    tables = source.poll(keys, values)
    made.update(tables)
    made.update(tables)
    assert made.blocks_rendered == 0


def test_missing_values_that_stay_missing_render_nothing(many: Many) -> None:
    source, made, keys, values = many
    values[5] = NAN
    made.update(source.poll(keys, values))
    made.update(source.poll(keys, values.copy()))
    assert made.blocks_rendered == 0


def test_one_value_renders_one_block_of_its_family(many: Many) -> None:
    source, made, keys, values = many
    tables = source.poll(keys, values)
    column = tables["queue"].columns["messages"].copy()
    column[BLOCK + 3] = 99
    changed = {
        "queue": Table(
            tables["queue"].index, {**tables["queue"].columns, "messages": column}
        )
    }
    made.update(changed)
    assert made.blocks_rendered == 1
    check(made, changed)


def test_a_new_last_row_renders_the_last_blocks(many: Many) -> None:
    source, made, keys, _ = many
    keys = np.append(keys, keys[-1] + 1)
    tables = source.poll(keys, keys.astype(np.float64))
    made.update(tables)
    assert made.blocks_rendered == 2
    check(made, tables)


def test_a_vanished_row_leaves(many: Many) -> None:
    source, made, keys, _ = many
    keys = np.delete(keys, 3 * BLOCK)
    tables = source.poll(keys, keys.astype(np.float64))
    made.update(tables)
    assert made.blocks_rendered == 2
    assert f'queue="q{3 * BLOCK}"'.encode() not in body(made)
    check(made, tables)


def test_the_last_rows_vanish(many: Many) -> None:
    source, made, keys, _ = many
    for length in (4 * BLOCK + 1, 4 * BLOCK, BLOCK):
        tables = source.poll(keys[:length], keys[:length].astype(np.float64))
        made.update(tables)
        check(made, tables)
    assert made.blocks_rendered == 0


def test_one_comes_as_another_goes(many: Many) -> None:
    source, made, keys, values = many
    keys = np.append(np.delete(keys, 7), keys[-1] + 1)
    tables = source.poll(keys, values)
    made.update(tables)
    check(made, tables)
    assert len(made.published.families["mq_queue_messages"].fragments) == 5


def test_what_comes_takes_the_place_of_what_went(many: Many) -> None:
    source, made, keys, _ = many
    keys = np.append(np.delete(keys, 7), keys[-1] + 1)
    tables = source.poll(keys, keys.astype(np.float64))
    made.update(tables)
    assert made.blocks_rendered == 2
    check(made, tables)


@pytest.mark.slow  # a large body
def test_rows_that_work_come_to_stand_together(many: Many) -> None:
    source, made, keys, values = many
    works = np.arange(0, len(keys), 11)
    rendered = []
    for _ in range(4):
        values = values.copy()
        values[works] += 1
        tables = source.poll(keys, values)
        made.update(tables)
        rendered.append(made.blocks_rendered)
        check(made, tables)
    # Two polls in which all ten blocks are rendered for want of a better order, and then one each.
    assert rendered == [10, 10, 2, 2]
    made.update(source.poll(keys, values.copy()))
    assert made.blocks_rendered == 0


@pytest.mark.slow  # random histories of tables
@patiently
@given(st.data())
def test_whatever_comes_goes_changes_and_works(data: st.DataObject) -> None:
    source = Queues()
    made = BrokerBlocks()
    keys = np.arange(2 * BLOCK + 5)
    for _ in range(5):
        seed, share, churn = data.draw(
            st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 9]), st.integers(0, 9))
        )
        random = np.random.default_rng(seed)
        stays = random.random(len(keys)) >= churn / 10
        came = random.integers(0, BLOCK * churn // 3 + 1)
        keys = np.concatenate(
            [keys[stays], (keys[-1] if len(keys) else 0) + 1 + np.arange(came)]
        )
        values = np.where(
            random.random(len(keys)) < share / 10,
            random.integers(0, 99, len(keys)),
            1.0,
        )
        changed = keys[random.random(len(keys)) < 0.01] if churn % 2 else None
        tables = source.poll(keys, values, changed=changed)
        made.update(tables)
        found = sorted(lines(made))
        wanted = sorted(lines(blocks(tables)))
        assert found == wanted


def test_a_changed_text_is_shown(many: Many) -> None:
    source, made, keys, values = many
    tables = source.poll(keys, values, changed=np.array([9]))
    made.update(tables)
    assert made.blocks_rendered == 2
    assert b'queue="q9 renamed"' in body(made)
    check(made, tables)


def test_a_changed_text_beside_the_same_numbers_is_shown() -> None:
    source = Queues()
    made = BrokerBlocks()
    keys = np.arange(3)
    column = np.ones(3)
    for changed in (None, np.array([1])):
        made.update(
            {
                "queue": Table(
                    source.poll(keys, column, changed=changed)["queue"].index,
                    {"messages": column},
                )
            }
        )
    assert b'queue="q1 renamed"' in body(made)


def test_a_poll_that_was_never_rendered_leaves_no_stale_text(many: Many) -> None:
    source, made, keys, values = many
    source.poll(keys, values, changed=np.array([9]))
    tables = source.poll(np.append(keys, 10**6), np.append(values, 1.0))
    made.update(tables)
    check(made, tables)


def test_label_texts_are_shared_and_kept_where_something_changes(many: Many) -> None:
    source, made, keys, values = many
    (texts,) = (section.texts.copy() for section in made._sections.values())
    made.update(source.poll(np.append(keys, 10**6), np.append(values, 1.0)))
    (after,) = (section.texts for section in made._sections.values())
    last = len(keys) // BLOCK * BLOCK
    assert len(after) == len(keys) + 1
    assert all(
        one is other for one, other in zip(texts[last:], after[last:], strict=False)
    )
    assert not after[:last].any()


def test_a_table_that_failed_goes_and_comes_back_whole() -> None:
    made = blocks(everything("b"))
    tables = everything("b")
    made.update({name: one for name, one in tables.items() if name != "queue"})
    of_queues = {family.name for family in CATALOGUE if family.table == "queue"}
    assert not of_queues & set(made.published.families)
    made.update(tables)
    check(made, tables)


def test_a_published_view_never_changes() -> None:
    made = blocks(queues("b", messages=[1, 2]))
    before = made.published
    fragments = before.families["mq_queue_messages"].fragments
    made.update(queues("b", messages=[3, 4]))
    assert made.published is not before
    assert before.families["mq_queue_messages"].fragments is fragments
