"""Pages of a listing, cut into rows: what is read of them is what reading them whole gives."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bench.world import BROKER, World
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Refused
from penstock.sources.artemis import answers as wire
from penstock.sources.artemis import listings
from penstock.sources.artemis import requests as ask
from penstock.sources.artemis.listings import Listed, ListingDecoder, Numbers, NumbersReader, listed
from penstock.sources.rows import integers, matrix
from penstock.table import Positions
from unit.things import patiently

FIELDS = ("messages_in_transit", "messages_delivered")
Row = dict[str, Any]


def body(rows: Sequence[Row], total: int | None = None, *, separators: tuple[str, str] = (",", ":")) -> bytes:
    text = json.dumps({"data": rows, "count": len(rows) if total is None else total}, separators=separators)
    return json.dumps([{"request": {"type": "exec"}, "value": text, "status": 200}], separators=(",", ":")).encode()


def row(number: int, in_transit: object = 0, **more: object) -> Row:
    return {"id": str(number), "messagesInTransit": str(in_transit), "messagesDelivered": "7", **more}


def reader() -> NumbersReader[wire.ConsumerNumbers]:
    return NumbersReader(
        ListingDecoder(wire.ConsumerNumbers, "listConsumers"),
        lambda rows: integers(rows, "id"),
        lambda rows: matrix(rows, FIELDS),
    )


def whole(page: bytes) -> Numbers:
    """What a reader that knows nothing makes of the text as a whole."""
    (reply,) = wire.text_replies(page, 1)
    return reader()(Listed(reply))


def same(one: Numbers, other: Numbers) -> None:
    np.testing.assert_array_equal(one.keys, other.keys)
    np.testing.assert_array_equal(one.values, other.values)
    assert (one.total, one.unreadable) == (other.total, other.unreadable)


class Counted:
    """How many rows were decoded by each kind of reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: Counter[str] = Counter()
        exactly, everything = ListingDecoder.exactly, ListingDecoder.__call__

        def of_some(decoder: Any, page: Listed, at: Positions) -> Any:
            found = exactly(decoder, page, at)
            self.rows["some"] += len(found or ())
            return found

        def of_all(decoder: Any, page: Listed) -> Any:
            found = everything(decoder, page)
            self.rows["all"] += len(found)
            return found

        monkeypatch.setattr(ListingDecoder, "exactly", of_some)
        monkeypatch.setattr(ListingDecoder, "__call__", of_all)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


# --- cutting


@pytest.mark.parametrize("operation", ask.LISTINGS)
def test_a_page_in_the_brokers_form_is_cut_into_its_rows(operation: str) -> None:
    page = listed(World(30, 70).answer([ask.listing(BROKER, operation, 1, 20)]))
    text = page.text()
    assert text is not None
    rows = json.loads(text)["data"]
    assert len(page.rows) == len(rows) > 0
    assert page.total == json.loads(text)["count"]
    assert json.loads(page.some(np.array([0, 2])))["data"] == [rows[0], rows[2]]


AWKWARD = st.text(alphabet=st.sampled_from('{}[],:"\\id\n\u00e9\U0001f600 '), max_size=12)


@given(st.lists(st.builds(lambda a, b, n: row(n, n, clientID=a, filter=b), AWKWARD, AWKWARD, st.integers(0, 99))))
@patiently
def test_what_clients_write_into_their_rows_cuts_none_of_them(rows: list[Row]) -> None:
    page = listed(body(rows))
    assert len(page.rows) == len(rows)
    same(reader()(page), whole(body(rows)))


@pytest.mark.parametrize(
    "page",
    [
        body([row(1), row(2)], separators=(", ", ": ")),
        body([row(1, inner={"id": "5"}), row(2)]),
        body([row(1, inner={"id": "5"}), row(2, inner={"id": "6"})]),
        body([]),
        body([{"other": "x"}]),
    ],
    ids=["spaces", "an object within a row", "objects within rows", "no rows", "no id"],
)
def test_what_cannot_be_cut_or_not_be_read_in_parts_is_read_whole(page: bytes) -> None:
    read = reader()
    for _ in range(2):
        found = read(listed(page))
        same(found, whole(page))
        read.together([found])


def test_a_refusal_in_the_form_of_a_listing_is_a_refusal() -> None:
    page = body([row(1)]).replace(b'"status":200', b'"status":403,"error":"no"')
    with pytest.raises(Refused, match="listConsumers"):
        reader()(listed(page))


# --- from poll to poll


def test_only_rows_that_read_otherwise_are_decoded_again(counted: Counted) -> None:
    read, rows = reader(), [row(n, n) for n in range(100)]
    read.together([read(listed(body(rows)))])
    counted.rows.clear()
    rows[7], rows[50:60] = row(7, 70), []
    found = read(listed(body([*rows, row(200, 1)])))
    assert found.values[0].tolist() == [int(r["messagesInTransit"]) for r in rows] + [1]
    assert found.keys.tolist() == [int(r["id"]) for r in rows] + [200]
    assert 2 <= counted.rows["some"] <= 12  # two slots may be shared
    assert counted.rows["all"] == 0


def test_a_row_is_found_on_whatever_page_it_stands(counted: Counted) -> None:
    read, rows = reader(), [row(n, n) for n in range(40)]
    read.together([read(listed(body(rows[:20], 40))), read(listed(body(rows[20:], 40)))])
    counted.rows.clear()
    pages = [read(listed(body(rows[10:30], 40))), read(listed(body(rows[30:] + rows[:10], 40)))]
    assert counted.rows["some"] <= 8
    keys, values = read.together(pages)
    assert keys.tolist() == values[0].tolist() == [*range(10, 40), *range(10)]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 15), st.sampled_from([0, 1, "ERROR: denied"])), max_size=12),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 5),
)
@patiently
def test_polls_read_as_if_each_were_the_first(polls: list[list[tuple[int, object]]], size: int) -> None:
    read = reader()
    for poll in polls:
        rows = [row(n, value) for n, value in poll]
        bodies = [body(rows[at : at + size], len(rows)) for at in range(0, max(len(rows), 1), size)]
        pages = [read(listed(one)) for one in bodies]
        for page, one in zip(pages, bodies, strict=True):
            same(page, whole(one))
        read.together(pages)


def test_a_value_that_cannot_be_read_is_told_at_every_poll() -> None:
    read = reader()
    for _ in range(3):
        found = read(listed(body([row(1, "ERROR: denied"), row(2, 5)])))
        assert found.unreadable == 1
        np.testing.assert_array_equal(found.values[0], [np.nan, 5])
        read.together([found])


def test_where_nearly_all_rows_change_they_are_not_compared_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "RESTING", 3)
    read, compared = reader(), []
    for poll in range(12):
        found = read(listed(body([row(n, poll) for n in range(20)])))
        assert found.values[0].tolist() == [poll] * 20
        compared.append(len(found.hashes) > 0)
        read.together([found])
    # The first has nothing to compare with; the second shows that it is of no use; then three polls of rest.
    assert compared == [True, True, False, False, False] * 2 + [True, True]


def test_after_a_poll_that_broke_off_rows_are_compared_with_the_last_whole_one() -> None:
    read, rows = reader(), [row(n, n) for n in range(10)]
    read.together([read(listed(body(rows)))])
    read(listed(body([row(n, 99) for n in range(5)])))
    same(read(listed(body(rows))), whole(body(rows)))
