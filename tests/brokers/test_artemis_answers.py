"""Jolokia's answers: whatever comes gives rows, or a SourceError that says what was wrong."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import patiently
from penstock.brokers import replies
from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import sizes, tables
from penstock.brokers.artemis.connections import ConnectionBuilder
from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import ListingDecoder, ListingPage, listing_page
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import matrix
from penstock.core.errors import BadAnswer, Refused, SourceError

NO_ROLES = Roles()


def bulk(*responses: dict[str, Any]) -> bytes:
    return json.dumps(responses).encode()


def reply(value: Any, status: int = 200, **more: Any) -> wire.Reply:
    return wire.replies(bulk({"value": value, "status": status, **more}), 1)[0]


def page(value: Any, status: int = 200) -> ListingPage:
    return listing_page(bulk({"value": value, "status": status}))


def listing(rows: list[Any], count: int | None = None) -> ListingPage:
    return page(
        json.dumps({"data": rows, "count": len(rows) if count is None else count})
    )


# --- the bulk


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>login</html>",
        b"[",
        b"null",
        b"12",
        b'"text"',
        b'[{"value":1}]',
        b"[null]",
        b"\xff\xfe",
        b"{}",
    ],
)
def test_what_is_no_answer_of_jolokia(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        wire.replies(body, 1)


def test_a_wrong_number_of_responses() -> None:
    with pytest.raises(BadAnswer, match="2 requests were answered by 1"):
        wire.replies(bulk({"status": 200}), 2)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        ("Origin null is not allowed to call this agent", Refused, "set `origin`"),
        (
            "User not authorized to access operation: listQueues",
            Refused,
            "management.xml",
        ),
    ],
)
def test_refusals(error: str, kind: type[SourceError], told: str) -> None:
    with pytest.raises(kind, match=told):
        reply(None, 403, error=error).raise_for_status("listQueues")
    with pytest.raises(kind, match=told):
        wire.replies(json.dumps({"status": 403, "error": error}).encode(), 3)


def test_other_errors_carry_what_the_broker_said() -> None:
    with pytest.raises(BadAnswer, match=r"listQueues: status 500: java\.lang\.X"):
        reply(None, 500, error="java.lang.X").raise_for_status("listQueues")


@pytest.mark.parametrize(
    ("status", "error_type", "again"),
    [
        (500, "java.lang.NullPointerException", True),
        (500, "x", False),
        (404, "java.lang.NullPointerException", False),
    ],
)
def test_what_is_worth_asking_again(status: int, error_type: str, again: bool) -> None:
    (one,) = wire.text_replies(bulk({"status": status, "error_type": error_type}), 1)
    assert one.vanished_meanwhile is again


# --- listings and reads


@pytest.mark.parametrize(
    ("value", "number"),
    [("12", 12.0), (12, 12.0), ("1.5", 1.5), (0, 0.0), ("true", None), ("ERROR: denied", None), (None, None),
     ({".error": True, "error": "denied"}, None), ([1], None)],
)  # fmt: skip
def test_numbers_in_every_form_and_what_is_none_is_missing_and_counted(
    value: Any, number: float | None
) -> None:
    rows = ListingDecoder(wire.ConsumerNumbers, "x")(
        listing(
            [
                {"id": "1", "messagesInTransit": value},
                {"id": 2, "messagesInTransit": "7"},
            ]
        )
    )
    buffered = matrix(rows.rows, ["buffered"])
    expected = np.nan if number is None else number
    np.testing.assert_array_equal(buffered, [[expected, 7.0]])
    assert rows.unreadable == (number is None)


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        ("true", 1.0),
        ("false", 0.0),
        (True, 1.0),
        (False, 0.0),
        (None, np.nan),
        ("ERROR: x", np.nan),
    ],
)
def test_flags(value: Any, flag: float) -> None:
    rows = ListingDecoder(wire.QueueNumbers, "x")(
        listing([{"id": "1", "paused": value}])
    )
    np.testing.assert_array_equal(matrix(rows.rows, ["paused"]), [[flag]])


def test_fields_that_are_not_there_are_missing_and_not_counted() -> None:
    rows = ListingDecoder(wire.QueueNumbers, "x")(listing([{"id": "1", "other": "x"}]))
    assert np.isnan(matrix(rows.rows, ["messages"])).all()
    assert rows.unreadable == 0


def test_a_row_without_its_id_is_no_row() -> None:
    rows = ListingDecoder(wire.ConsumerNumbers, "x")(
        listing([{"id": "one"}, {"id": "2"}])
    )
    assert [row.id for row in rows.rows] == [2]
    assert rows.unreadable == 1


@pytest.mark.parametrize("value", [3, {"data": []}, [], True])
def test_a_listing_that_is_no_text(value: Any) -> None:
    with pytest.raises(BadAnswer, match="not an answer of Jolokia"):
        page(value)


@pytest.mark.parametrize(
    "value", [None, "", "[]", "{}", '{"data":3}', '{"data":[3]}', "{"]
)
def test_what_is_no_listing(value: Any) -> None:
    with pytest.raises(BadAnswer, match="listConsumers"):
        ListingDecoder(wire.ConsumerNumbers, "listConsumers")(page(value))


def test_a_pattern_read_with_one_attribute_denied() -> None:
    decode = Decoder(wire.QueueSizes).many
    names, rows = decode(
        reply(
            {
                "a": {
                    "PersistentSize": 5,
                    "DeliveringSize": "ERROR: User not authorized",
                },
                "b": {"PersistentSize": 6},
            }
        ),
        "sizes",
    )
    assert names == ["a", "b"]
    np.testing.assert_array_equal(
        matrix(rows.rows, sizes.COLUMNS)[1:], [[5, 6], [np.nan, np.nan]]
    )
    assert rows.unreadable == 1


@pytest.mark.parametrize("size", [1, 100, replies.PIECE_BYTES])
@pytest.mark.parametrize(
    "value",
    [
        {f"m{n}": {"PersistentSize": n} for n in range(20)},
        {
            "a": {"PersistentSize": 1},
            'b},"c\\': {"PersistentSize": 2},
            "": {"PersistentSize": 3},
        },
        {
            "a": {
                "PersistentSize": 1,
                "Other": {"x": {"y": 1}, "z": {"u": 3}},
                "More": 3,
            },
            "b": {"PersistentSize": 2},
        },
        {
            "a": {"PersistentSize": 1, "Other": '"},"'},
            "b": {"PersistentSize": "ERROR"},
            "c": {"PersistentSize": 4},
        },
        {"a": {}, "b": {}},
    ],
)
def test_a_pattern_read_in_pieces_is_what_it_is_as_a_whole(
    size: int, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "PIECE_BYTES", size)
    body = json.dumps([{"value": value, "status": 200}], separators=(",", ":")).encode()
    names, rows = Decoder(wire.QueueSizes).many(wire.replies(body, 1)[0], "sizes")
    assert names == list(value)
    told = [one.get("PersistentSize", np.nan) for one in value.values()]
    expected = [np.nan if one == "ERROR" else one for one in told]
    np.testing.assert_array_equal(matrix(rows.rows, sizes.COLUMNS)[1], expected)
    assert rows.unreadable == told.count("ERROR")


def test_a_pattern_that_matches_nothing_is_empty_and_no_error() -> None:
    assert (
        Decoder(wire.QueueSizes).many(reply(None, 404, error="No MBean"), "sizes")[0]
        == []
    )


@pytest.mark.parametrize("value", [None, 3, [], "x", {"a": 3}, {"a": None}])
def test_what_is_no_pattern_read(value: Any) -> None:
    with pytest.raises(BadAnswer, match="sizes"):
        Decoder(wire.QueueSizes).many(reply(value), "sizes")


def test_settings_of_every_version() -> None:
    new, _ = wire.settings(
        reply(
            '{"addressFullMessagePolicy":"DROP","maxSizeBytes":10,"deadLetterAddress":"D"}'
        ),
        "s",
    )
    old, _ = wire.settings(
        reply('{"DLA":"D","maxSizeMessages":-1,"defaultRingSize":7}'), "s"
    )
    assert (
        new.address_full_message_policy,
        new.max_size_bytes,
        new.dead_letter_address,
    ) == ("DROP", 10, "D")
    assert (old.old_dead_letter_address, old.default_ring_size) == ("D", 7)
    with pytest.raises(BadAnswer):
        wire.settings(reply("not JSON"), "s")
    # Thousands of addresses have the same: they are kept once.
    same = [
        wire.settings(reply('{"DLA":"D","maxSizeMessages":9}'), name)
        for name in ("s", "t")
    ]
    assert same[0][0] is same[1][0]
    assert same[0][0].max_size_messages == 9


@pytest.mark.parametrize(
    ("value", "status", "yes"),
    [
        ({"FirstMessageAge": 5}, 200, True),
        ({"FirstMessageAge": None}, 200, True),
        ({"FirstMessageAge": "ERROR: User not authorized"}, 200, False),
        ({"FirstMessageAge": {".error": True}}, 200, False),
        (None, 403, False),
    ],
)
def test_whether_an_attribute_could_be_read(value: Any, status: int, yes: bool) -> None:
    assert wire.readable(reply(value, status)) is yes


# --- tables


def test_an_id_that_stands_on_two_pages_counts_once() -> None:
    consumers = tables.ConsumerBuilder((), numbers=True)
    pages = [
        consumers.page(
            listing(
                [
                    {"id": str(i), "queue": f"q{i}", "messagesInTransit": str(n)}
                    for i, n in rows
                ],
                3,
            )
        )
        for rows in ([(2, 20), (1, 10)], [(1, 99), (3, 30)])
    ]
    table = consumers.table(pages)
    assert [(row.id, row.queue) for row in table.index] == [
        ("1", "q1"),
        ("2", "q2"),
        ("3", "q3"),
    ]
    assert table["buffered"].tolist() == [10, 20, 30]


def test_times_are_seconds_and_0_is_never() -> None:
    consumers = tables.ConsumerBuilder((), numbers=True)
    one = consumers.page(
        listing(
            [{"id": 1, "lastDeliveredTime": 1795216145868, "lastAcknowledgedTime": 0}]
        )
    )
    table = consumers.table([one])
    np.testing.assert_array_equal(table["last_delivery"], [1795216145.868])
    assert np.isnan(table["last_acknowledgement"]).all()


# --- fuzz

FIELDS = [
    "id", "name", "address", "queue", "paused", "messageCount", "ringSize", "durable", "users", "connectionID",
    "session", "messagesInTransit", "lastDeliveredTime", "Name", "ID", "Address", "MessageCount",
    "BlockedViaManagement",
]  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(["1", "-1", "true", "ERROR: x"]),
)
row_like = st.dictionaries(st.sampled_from(FIELDS), scalars)
listing_like = st.builds(
    lambda rows, n: json.dumps({"data": rows, "count": n}),
    st.lists(row_like),
    st.integers(0, 9),
)
any_value = st.one_of(
    listing_like,
    st.dictionaries(st.text(max_size=3), row_like),
    st.recursive(scalars, st.lists),
)


def suppressed(function: Callable[[], object]) -> None:
    with contextlib.suppress(SourceError):
        function()


def decode_listings(body: bytes) -> None:
    """Everything that reads the answer of a listing."""
    one = listing_page(body)
    consumers = tables.ConsumerBuilder((), numbers=True)
    queues = tables.QueueBuilder()
    addresses = tables.AddressBuilder()
    connections = ConnectionBuilder(())
    for _ in range(2):  # what was there at the poll before is read otherwise
        suppressed(lambda: consumers.table([consumers.page(one)]))
        suppressed(
            lambda: queues.table(
                [queues.page(one, refresh=True)], NO_ROLES, from_attributes=False
            )
        )
        suppressed(lambda: addresses.table([addresses.page(one)], {}, None))
        suppressed(
            lambda: connections.table(
                [connections.sessions(one)], [connections.connections(one)]
            )
        )
    suppressed(lambda: connections.producer_table([connections.producers(one)], ["a"]))


def decode_reads(body: bytes) -> None:
    """Everything that reads another answer."""
    one = wire.replies(body, 1)[0]
    queues = tables.QueueBuilder()
    addresses = tables.AddressBuilder()
    suppressed(
        lambda: queues.table([queues.attributes(one)], NO_ROLES, from_attributes=True)
    )
    suppressed(lambda: addresses.table([addresses.attributes(one)], {}, None))
    suppressed(lambda: Decoder(wire.BrokerAttributes).many(one, "broker"))
    suppressed(lambda: Decoder(wire.AddressBlocked).many(one, "blocked"))
    suppressed(lambda: wire.settings(one, "settings"))
    suppressed(lambda: wire.readable(one))


def decode_all(body: bytes) -> None:
    suppressed(lambda: decode_listings(body))
    suppressed(lambda: decode_reads(body))


@pytest.mark.slow  # a property of any answer
@given(any_value, st.sampled_from([200, 403, 404, 500]))
@patiently
def test_any_value_gives_a_table_or_a_source_error(value: Any, status: int) -> None:
    decode_all(bulk({"value": value, "status": status}))


@pytest.mark.slow  # a large broker
@given(
    st.lists(
        row_like.map(
            lambda row: {
                **row,
                "id": row.get("id", 1),
                "name": str(row.get("name", "n")),
            }
        )
    )
)
@patiently
def test_any_rows_give_a_table_or_a_source_error(rows: list[dict[str, Any]]) -> None:
    decode_all(
        bulk({"value": json.dumps({"data": rows, "count": len(rows)}), "status": 200})
    )
    decode_all(
        bulk({"value": {str(n): row for n, row in enumerate(rows)}, "status": 200})
    )


@given(st.binary())
@patiently
def test_any_bytes_give_an_answer_or_a_source_error(body: bytes) -> None:
    decode_all(body)
    decode_all(b'[{"status":200,"value":"' + body + b'"}]')
    decode_all(b'[{"status":200,"value":{"a":{"Name":1,"ID":"' + body + b'"}}}]')


@pytest.mark.parametrize(
    "around", [b"%s", b'[{"status":200,"value":%s', b'[{"status":200,"value":"%s"}]']
)
@pytest.mark.parametrize("inside", [b"[", b'{\\"data\\":'])
def test_nesting_without_end_is_a_bad_answer(around: bytes, inside: bytes) -> None:
    decode_all(around % (inside * 50_000))


def test_an_id_that_is_no_64_bit_number_is_a_bad_answer() -> None:
    decode_all(
        bulk(
            {
                "value": json.dumps(
                    {"data": [{"id": str(2**70), "name": "q"}], "count": 1}
                ),
                "status": 200,
            }
        )
    )
