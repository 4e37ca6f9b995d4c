"""Pages of a listing, cut into rows: what is read of them is what reading them whole gives."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from bench.world import BROKER, World
from hypothesis import given
from hypothesis import strategies as st

from core.things import patiently
from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import listings, tables
from penstock.brokers.artemis import requests as ask
from penstock.brokers.artemis.connections import ConnectionBuilder
from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import (
    ListingDecoder,
    ListingPage,
    Numbers,
    NumbersReader,
    listing_page,
)
from penstock.brokers.rows import integers, matrix
from penstock.core.errors import BadAnswer, Refused
from penstock.core.table import Positions
from penstock.model import ANONYMOUS

FIELDS = ("buffered", "delivered")
Row = dict[str, Any]


def body(
    rows: Sequence[Row],
    total: int | None = None,
    *,
    separators: tuple[str, str] = (",", ":"),
) -> bytes:
    text = json.dumps(
        {"data": rows, "count": len(rows) if total is None else total},
        separators=separators,
    )
    return json.dumps(
        [{"request": {"type": "exec"}, "value": text, "status": 200}],
        separators=(",", ":"),
    ).encode()


def row(number: int, in_transit: object = 0, **more: object) -> Row:
    return {
        "id": str(number),
        "messagesInTransit": str(in_transit),
        "messagesDelivered": "7",
        **more,
    }


def reader() -> NumbersReader[wire.ListedConsumer]:
    return NumbersReader(
        ListingDecoder(wire.ConsumerNumbers, "listConsumers"),
        lambda rows: integers(rows, "id"),
        lambda rows: matrix(rows, FIELDS),
    )


def whole(page: bytes) -> Numbers:
    """What a reader that knows nothing makes of the text as a whole."""
    (reply,) = wire.text_replies(page, 1)
    return reader()(ListingPage(reply))


def same(one: Numbers, other: Numbers) -> None:
    np.testing.assert_array_equal(one.keys, other.keys)
    np.testing.assert_array_equal(one.values, other.values)
    assert (one.total, one.unread) == (other.total, other.unread)


class Counted:
    """How many rows were decoded by each kind of reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: Counter[str] = Counter()
        exactly = ListingDecoder.exactly
        everything = ListingDecoder.__call__

        def of_some(decoder: Any, page: ListingPage, at: Positions) -> Any:
            found = exactly(decoder, page, at)
            self.rows["some"] += len(found or ())
            return found

        def of_all(decoder: Any, page: ListingPage) -> Any:
            found = everything(decoder, page)
            self.rows["all"] += len(found)
            return found

        monkeypatch.setattr(ListingDecoder, "exactly", of_some)
        monkeypatch.setattr(ListingDecoder, "__call__", of_all)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture(
    autouse=True, params=[1, listings.TEXT_BYTES], ids=["row by row", "as it is"]
)
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever pieces a page is read, it reads the same."""
    monkeypatch.setattr(listings, "TEXT_BYTES", request.param)


# --- cutting


@pytest.mark.parametrize("operation", ask.LISTINGS)
def test_a_page_in_the_brokers_form_is_cut_into_its_rows(operation: str) -> None:
    page = listing_page(World(30, 70).answer([ask.listing(BROKER, operation, 1, 20)]))
    text = page.whole().value
    assert text is not None
    rows = json.loads(text)["data"]
    assert len(page.rows) == len(rows) > 0
    assert page.total == json.loads(text)["count"]
    assert json.loads(page.some(np.array([0, 2])))["data"] == [rows[0], rows[2]]


AWKWARD = st.text(
    alphabet=st.sampled_from('{}[],:"\\id\n\u00e9\U0001f600 '), max_size=12
)


@given(
    st.lists(
        st.builds(
            lambda a, b, n: row(n, n, clientID=a, filter=b),
            AWKWARD,
            AWKWARD,
            st.integers(0, 99),
        )
    )
)
@patiently
def test_what_clients_write_into_their_rows_cuts_none_of_them(rows: list[Row]) -> None:
    page = listing_page(body(rows))
    assert len(page.rows) == len(rows)
    same(reader()(page), whole(body(rows)))


@pytest.mark.parametrize(
    "page",
    [
        body([row(1), row(2)], separators=(", ", ": ")),
        body([row(1, inner={"id": "5"}), row(2)]),
        body([row(1, inner={"id": "5"}), row(2, inner={"id": "6"})]),
        body([row(1), {"status": "OK", **row(2)}, row(3)]),
        body([row(1), row(2)]).replace(b"},{", b"} ,{"),
        body([]),
        body([{"other": "x"}]),
    ],
    ids=[
        "spaces",
        "an object within a row",
        "objects within rows",
        "another order",
        "a space",
        "no rows",
        "no id",
    ],
)
def test_what_cannot_be_cut_or_not_be_read_in_parts_is_read_whole(page: bytes) -> None:
    read = reader()
    for _ in range(2):
        found = read(listing_page(page))
        same(found, whole(page))
        read.together([found])


def test_a_row_that_two_oddities_put_in_anothers_place_is_no_row_of_the_next_poll() -> (
    None
):
    """One row more by an object within a row, one less by another order of fields: the number of rows is right."""
    read = reader()
    nested = row(3, 30, inner={"id": "99"})
    first = body([row(1, 10), {"status": "OK", **row(2, 20)}, nested])
    second = body([row(1, 11), nested])
    for page in (first, second):
        found = read(listing_page(page))
        same(found, whole(page))
        read.together([found])


@pytest.mark.parametrize(
    ("there", "instead"),
    [(b"},{", b"}{"), (b'}],\\"count', b'},],\\"count'), (b'data\\":[', b'data\\":[:')],
)
def test_broken_json_between_rows_is_no_listing(there: bytes, instead: bytes) -> None:
    page = body([row(1), row(2)])
    assert there in page
    with pytest.raises(BadAnswer, match="broken JSON"):
        reader()(listing_page(page.replace(there, instead)))


def test_no_texts_are_read_where_none_are_wanted(counted: Counted) -> None:
    decoder = ListingDecoder(wire.ConsumerTexts, "listConsumers")
    assert (
        decoder.at_least(
            listing_page(body([row(1)], separators=(", ", ": "))),
            np.array([], np.intp),
            1,
        )
        == []
    )
    assert counted.rows["all"] == 0


def test_a_refusal_in_the_form_of_a_listing_is_a_refusal() -> None:
    page = body([row(1)]).replace(b'"status":200', b'"status":403,"error":"no"')
    with pytest.raises(Refused, match="listConsumers"):
        reader()(listing_page(page))


# --- from poll to poll


def test_only_rows_that_read_otherwise_are_decoded_again(counted: Counted) -> None:
    read = reader()
    rows = [row(n, n) for n in range(100)]
    read.together([read(listing_page(body(rows)))])
    counted.rows.clear()
    rows[7], rows[50:60] = row(7, 70), []
    found = read(listing_page(body([*rows, row(200, 1)])))
    assert found.values[0].tolist() == [int(r["messagesInTransit"]) for r in rows] + [1]
    assert found.keys.tolist() == [int(r["id"]) for r in rows] + [200]
    assert 2 <= counted.rows["some"] <= 12  # two rows may share a place in the table
    assert counted.rows["all"] == 0


def test_a_row_is_found_on_whatever_page_it_stands(counted: Counted) -> None:
    read = reader()
    rows = [row(n, n) for n in range(40)]
    read.together(
        [
            read(listing_page(body(rows[:20], 40))),
            read(listing_page(body(rows[20:], 40))),
        ]
    )
    counted.rows.clear()
    pages = [
        read(listing_page(body(rows[10:30], 40))),
        read(listing_page(body(rows[30:] + rows[:10], 40))),
    ]
    assert counted.rows["some"] <= 8
    keys, values = read.together(pages)
    assert keys.tolist() == values[0].tolist() == [*range(10, 40), *range(10)]


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 15), st.sampled_from([0, 1, "ERROR: denied"])),
            max_size=12,
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 5),
)
@patiently
def test_polls_read_as_if_each_were_the_first(
    polls: list[list[tuple[int, object]]], size: int
) -> None:
    read = reader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listings, "RESTING", 1)
        read_all(read, polls, size)


def read_all(
    read: NumbersReader[wire.ListedConsumer],
    polls: Sequence[Sequence[tuple[int, object]]],
    size: int,
) -> None:
    for poll in polls:
        rows = [row(n, value) for n, value in poll]
        bodies = [
            body(rows[at : at + size], len(rows))
            for at in range(0, max(len(rows), 1), size)
        ]
        pages = [read(listing_page(one)) for one in bodies]
        for page, one in zip(pages, bodies, strict=True):
            same(page, whole(one))
        read.together(pages)


def test_a_value_that_cannot_be_read_is_told_at_every_poll() -> None:
    read = reader()
    for _ in range(3):
        found = read(listing_page(body([row(1, "ERROR: denied"), row(2, 5)])))
        assert found.unread.total() == 1
        np.testing.assert_array_equal(found.values[0], [np.nan, 5])
        read.together([found])


def test_the_other_pages_of_a_poll_are_remembered_where_one_has_a_bad_value(
    counted: Counted,
) -> None:
    read = reader()
    good = body([row(1, 5), row(2, 6)], 3)
    bad = body([row(3, "ERROR: denied")], 3)
    for poll in range(3):
        read.together([read(listing_page(good)), read(listing_page(bad))])
        assert counted.rows["some"] == (2 if poll == 0 else 0)
        counted.rows.clear()


def test_after_pages_that_stood_in_rows_are_compared_again_at_once() -> None:
    read = reader()
    page = body([row(n, n) for n in range(10)])
    stood_in = Numbers(np.array([1]), np.zeros((2, 1)), listings.NO_HASHES, 1)
    for pages in ([read(listing_page(page))], [stood_in], [read(listing_page(page))]):
        read.together(pages)
    assert read(listing_page(page)).found >= 8


def test_where_nearly_all_rows_change_they_are_not_compared_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listings, "RESTING", 3)
    read = reader()
    compared = []
    for poll in range(12):
        found = read(listing_page(body([row(n, poll) for n in range(20)])))
        assert found.values[0].tolist() == [poll] * 20
        compared.append(len(found.hashes) > 0)
        read.together([found])
    # The first has nothing to compare with; the second shows that it is of no use; then three polls of rest.
    assert compared == [True, True, False, False, False] * 2 + [True, True]


def test_after_a_poll_that_broke_off_rows_are_compared_with_the_last_whole_one() -> (
    None
):
    read = reader()
    rows = [row(n, n) for n in range(10)]
    read.together([read(listing_page(body(rows)))])
    read(listing_page(body([row(n, 99) for n in range(5)])))
    found = read(listing_page(body(rows)))
    assert found.found >= 8
    same(found, whole(body(rows)))


# --- what is made of them


def sessions(connections: Sequence[str]) -> ListingPage:
    rows = [
        {
            "id": f"s{connection}",
            "user": "u",
            "consumerCount": 1,
            "producerCount": 0,
            "connectionID": connection,
        }
        for connection in connections
    ]
    return listing_page(body(rows))


@pytest.mark.slow  # a large broker
def test_sessions_keep_their_connection_whatever_came_and_went_meanwhile() -> None:
    made = ConnectionBuilder(())
    here = [f"c{n}" for n in range(20)]
    for poll in range(30):
        passing = [f"passing-{poll}-{n}" for n in range(60)]
        pages = [made.sessions(sessions(here + passing))]
        unknown = [
            {"connectionID": name, "remoteAddress": "h:1", "clientID": name}
            for name in here + passing
        ]
        table = made.table(pages, [made.connections(listing_page(body(unknown)))])
        assert {row.id for row in table.index} == {*here, *passing}
        assert (table["sessions"] == 1).all()
        keys = made.keys_of([f"s{name}" for name in here])
        at = table.index.positions(keys)
        assert [table.index.rows[i].id for i in at] == here


def test_a_producer_waits_once_for_an_address_that_was_created_after_the_addresses_were_listed() -> (
    None
):
    made = ConnectionBuilder(())

    def shown(addresses: Sequence[str], *producers: str) -> list[str]:
        rows = [
            {"id": "1", "session": f"s-{to}", "address": to, "msgSent": 3}
            for to in producers
        ]
        table = made.producer_table(
            [made.producers(listing_page(body(rows)))], addresses
        )
        assert table["produced"].tolist() == [3.0] * len(table)
        return [row.address for row in table.index]

    assert shown([], "unlisted") == ["unlisted"]  # no addresses could be read
    assert shown(["a"], "unlisted", "a", "new", "ANONYMOUS") == [
        "unlisted",
        "a",
        ANONYMOUS,
    ]
    assert shown(["a", "new"], "unlisted", "a", "new", "gone") == [
        "unlisted",
        "a",
        "new",
    ]
    assert shown(["a"], "gone") == ["gone"]


def test_what_an_operator_changed_of_a_queue_is_seen_when_texts_are_refreshed() -> None:
    made = tables.QueueBuilder()
    for poll, said in enumerate(["", "a = 1", "a = 1", "a = 1"]):
        queue = {
            "id": "1",
            "name": "q",
            "address": "q",
            "filter": said,
            "messageCount": "1",
        }
        table = made.table(
            [made.page(listing_page(body([queue])), refresh=poll == 3)],
            Roles(),
            from_attributes=False,
        )
        assert table.index.rows[0].filter == ("a = 1" if poll == 3 else "")


def test_an_id_on_two_pages_counts_once_with_rows_that_are_known() -> None:
    made = tables.ConsumerBuilder((), numbers=True)
    for _ in range(3):
        pages = [[row(1, 10), row(2, 20)], [row(2, 21), row(3, 30)]]
        table = made.table([made.page(listing_page(body(rows, 3))) for rows in pages])
        assert table["buffered"].tolist() == [10, 20, 30]


# --- how much is read in one go, for so long nobody else has his turn


class Seen:
    """A decoder of texts, and how long the texts were."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._inner = msgspec.json.Decoder(str)

    def decode(self, text: bytes) -> str:
        self.sizes.append(len(text))
        return self._inner.decode(text)


@pytest.mark.slow  # a large broker
def test_no_more_than_a_piece_of_a_page_is_decoded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Seen()
    monkeypatch.setattr(listings, "_text", seen)
    read = reader()
    first = body([row(n, n) for n in range(6000)])
    read.together([read(listing_page(first))])  # every row is new
    second = read(
        listing_page(body([row(n, n + 1) for n in range(6000)]))
    )  # and another one
    read.together([second])
    assert second.keys.tolist() == list(range(6000))
    assert second.values[0].tolist() == [n + 1 for n in range(6000)]
    all_texts = ListingDecoder(wire.ConsumerNumbers, "listConsumers")(
        listing_page(first)
    )
    assert len(all_texts) == all_texts.total == 6000
    assert len(first) > 3 * listings.TEXT_BYTES
    assert max(seen.sizes) < listings.TEXT_BYTES + len(first) / 10


@pytest.mark.parametrize(
    ("there", "instead"),
    [(b"},{", b"}{"), (b"},{", b"},,{"), (b"}],", b"},],"), (b'":[{', b'":[,{')],
    ids=["no comma", "two commas", "a comma at the end", "one at the begin"],
)
def test_pieces_of_what_is_no_listing_are_none(there: bytes, instead: bytes) -> None:
    page = listing_page(body([row(1), row(2), row(3)]).replace(there, instead))
    with pytest.raises(BadAnswer):
        ListingDecoder(wire.ConsumerNumbers, "listConsumers")(page)
