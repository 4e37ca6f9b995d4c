"""
One boundary for what comes from a broker: a number that is none of its kind is missing, a row that cannot be read is
lost alone, both are counted, and all else is as if it had not been there.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from history.polls import judged, recorded
from penstock.agent import Poller
from penstock.brokers.artemis import answers as artemis
from penstock.brokers.engine import ReaderOptions, ValuesLeftOut, unreadable
from penstock.brokers.openmq import answers as openmq
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import MOST_REPAIRS, repaired
from penstock.insight.events import Change, Event
from penstock.insight.formatting import UNKNOWN, duration, moment
from penstock.insight.text import event_line
from penstock.model import Collector
from penstock.transports.recording import RecordingTransport
from trust.mutation import fold, unfold
from trust.test_fuzz import Mutating, plain, polled, watched

Answers = list[Any]


def found_in(answers: Answers, wanted: str) -> list[dict[str, Any]]:
    """All objects in the answers, opened, that have this field."""

    def objects(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, dict):
            return ([value] if wanted in value else []) + [
                o for inner in value.values() for o in objects(inner)
            ]
        return (
            [o for inner in value for o in objects(inner)]
            if isinstance(value, list)
            else []
        )

    return objects(answers)


def with_value(
    field: str, value: object, *, of: Callable[[dict[str, Any]], bool] = lambda _: True
) -> Any:
    """Answers in which the first object with this field has this value in it."""

    def change(answers: Answers) -> bytes:
        opened = [unfold(one) for one in answers]
        for one in [one for one in found_in(opened, field) if of(one)][:1]:
            one[field] = value
        return plain([fold(one) for one in opened])

    return change


async def read(poller: Poller, transport: Mutating, change: Any) -> str:
    """One poll, and its error. `polled` also looks at all that people are shown of it, which takes much longer."""
    transport.change = change
    return (await poller.poll()).error


def tables(poller: Poller) -> dict[str, dict[str, Any]]:
    """Every series of the agent, by table: index and columns."""
    assert poller.assessor.view is not None
    return {
        name: {
            "rows": list(table.index),
            **{c: v.tolist() for c, v in table.columns.items()},
        }
        for name, table in poller.assessor.view.tables.items()
    }


NUMBERS: tuple[object, ...] = (
    -1,
    "-7",
    "NaN",
    "Infinity",
    1e308,
    "1e23",
    10**40,
    2**64,
    -(2**63),
    "9" * 400,
    {},
    [],
    None,
    "ERROR: no",
)


def every_pair(fields: Sequence[str], values: Sequence[object]) -> list[Any]:
    """All values of the first field, and two of each other one; the rest at night."""
    few = (values[0], values[-1])

    def case(field: str, value: object) -> Any:
        by_day = field == fields[0] or value in few
        return pytest.param(
            field,
            value,
            id=f"{field}-{value}"[:40],
            marks=() if by_day else pytest.mark.nightly,
        )

    return [case(field, value) for field in fields for value in values]


@pytest.mark.slow  # polls for each value
@pytest.mark.parametrize(
    ("field", "value"),
    every_pair(
        [
            "messageCount",
            "messagesInTransit",
            "UptimeMillis",
            "DeliveringSize",
            "msgSent",
        ],
        NUMBERS,
    ),
)
def test_a_number_that_is_none_of_its_kind_is_missing_and_counted(
    field: str, value: object
) -> None:
    async def play() -> None:
        poller, transport = watched()
        assert await read(poller, transport, plain) == ""
        transport.stamp += 600  # what is not read at each poll is read again
        error = await polled(poller, transport, with_value(field, value))
        assert "1 values could not be read and are left out" in error
        for table in tables(poller).values():
            for name, column in table.items():
                if name != "rows":
                    assert (
                        np.nanmax(np.abs(np.array(column, np.float64)), initial=0.0)
                        < 1e19
                    ), name

    asyncio.run(play())


@pytest.mark.slow  # polls for each value
@pytest.mark.parametrize("value", [-1, 1e308, "NaN"])
def test_an_uptime_out_of_range_is_no_restart_and_no_condition(value: object) -> None:
    async def play() -> None:
        poller, transport = watched()
        for _ in range(3):
            assert await read(poller, transport, plain) == ""
        assert poller.assessor.view is not None
        process = poller.assessor.view.snapshot.observation.process
        before = poller.assessor.state.judgement.conditions
        for _ in range(3):
            await read(poller, transport, with_value("UptimeMillis", value))
            snapshot = poller.assessor.view.snapshot
            assert not snapshot.observation.process.replaces(process)
            assert snapshot.broker is not None
            assert np.isnan(snapshot.broker.uptime)
            assert {c.name for c in poller.assessor.state.judgement.conditions} <= {
                c.name for c in before
            }

    asyncio.run(play())


@pytest.mark.parametrize("bad", ["x", "1e23", 10**30, None, -(2**63) - 1, {}], ids=str)
@pytest.mark.parametrize(
    "field", ["messageCount", "messagesInTransit"], ids=["a queue", "a consumer"]
)
def test_a_row_whose_id_cannot_be_read_is_lost_alone(field: str, bad: object) -> None:
    async def play() -> None:
        whole, transport = watched()
        await read(whole, transport, plain)
        poller, transport = watched()

        def change(answers: Answers) -> bytes:
            opened = [unfold(one) for one in answers]
            for one in found_in(opened, field)[:1]:
                one["id"] = bad
            return plain([fold(one) for one in opened])

        error = await read(poller, transport, change)
        assert "1 values could not be read" in error
        kind = "queues" if field == "messageCount" else "consumers"
        assert poller.assessor.view is not None
        assert whole.assessor.view is not None
        rest = getattr(poller.assessor.view.snapshot, kind)
        all_rows = getattr(whole.assessor.view.snapshot, kind)
        assert len(rest) == len(all_rows) - 1
        assert set(rest.index.keys) < set(all_rows.index.keys)

    asyncio.run(play())


@pytest.mark.parametrize("bad", [5, None, [], {}], ids=str)
def test_a_queue_whose_name_cannot_be_read_is_lost_alone(bad: object) -> None:
    async def play() -> None:
        poller, transport = watched()
        change = with_value(
            "name", bad, of=lambda one: "messageCount" in one and "routingType" in one
        )
        for _ in range(2):
            assert "queues: 1 values could not be read" in await read(
                poller, transport, change
            )
            assert poller.assessor.view is not None
            assert poller.assessor.view.snapshot.queues
        assert await read(poller, transport, plain) == ""

    asyncio.run(play())


def test_settings_of_which_one_cannot_be_read_keep_the_others() -> None:
    text = (
        '{"addressFullMessagePolicy":"BLOCK","maxSizeBytes":"1e40","defaultRingSize":7}'
    )
    reply = artemis.replies(json.dumps([{"status": 200, "value": text}]).encode(), 1)[0]
    settings, missing = artemis.settings(reply, "s")
    assert (settings.address_full_message_policy, settings.default_ring_size) == (
        "BLOCK",
        7,
    )
    assert settings.max_size_bytes == -1
    assert missing == {"maxSizeBytes": 1}


# --- what brokers say rightly is kept


REAL = {
    artemis.QueueNumbers: {
        "id": "-5",
        "maxConsumers": "-1",
        "ringSize": "-1",
        "messageCount": "0",
    },
    artemis.AddressNumbers: {
        "name": "a",
        "maxPageReadBytes": str(2**63 - 1),
        "addressLimitPercent": "146",
    },
    artemis.ConsumerNumbers: {
        "id": 2**63 - 1,
        "lastDeliveredTime": 0,
        "lastAcknowledgedTime": 1_795_216_678_203,
    },
    openmq.Consumer: {
        "ConsumerID": str(2**63 - 1),
        "NumMsgs": -(2**31),
        "LastAckTime": 0,
        "AcknowledgeMode": 32768,
    },
    openmq.Settings: {
        "Name": "q",
        "Type": "q",
        "MaxNumMsgs": -1,
        "ConsumerFlowLimit": -1,
        "MaxTotalMsgBytes": -1,
    },
    openmq.About: {"MaxMemory": 2**63 - 1, "TotalMemory": 1, "FreeMemory": 0},
}


@pytest.mark.parametrize("row", REAL, ids=lambda row: row.__name__)
def test_what_brokers_say_in_place_of_a_number_is_kept(
    row: type[msgspec.Struct],
) -> None:
    _, missing = Decoder(row).counted(
        openmq.replies(json.dumps([{"status": 200, "value": REAL[row]}]).encode(), 1)[
            0
        ],
        "x",
    )
    assert not missing


# --- a broker that has such a number for good is judged all the same


@pytest.mark.slow  # polls for each value
def test_a_value_that_is_missing_keeps_no_queue_from_being_judged() -> None:
    polls = recorded("stuck-listener")

    def told(*, all_rows: bool) -> list[set[str]]:
        part = {
            "queues": Collector(
                0.1, polls[0].stamp, "1 values could not be read", all_rows=all_rows
            )
        }
        return [
            {c.name for c in one.conditions}
            for one in judged([replace(one, collectors=part) for one in polls])
        ]

    whole = [{c.name for c in one.conditions} for one in judged(polls)]
    assert told(all_rows=True) == whole
    assert "stalled" in set().union(*whole)
    assert set().union(*told(all_rows=False)) == set(), (
        "where rows are missing nothing is concluded"
    )


def test_only_values_or_rows_too() -> None:
    rows = Decoder(artemis.QueueSizes)

    def error(value: Any) -> str:
        reply = artemis.replies(
            json.dumps([{"status": 200, "value": value}]).encode(), 1
        )[0]
        return unreadable([rows.many(reply, "sizes")[1]])

    assert error({"a": {"PersistentSize": 1}}) == ""
    assert isinstance(error({"a": {"PersistentSize": -1}}), ValuesLeftOut)
    lost = error({"a": {"PersistentSize": 1}, "b": 5})
    assert lost.startswith("1 values")
    assert not isinstance(lost, ValuesLeftOut)


# --- JSON that is none


def of_jolokia(text: str) -> str:
    """As Jolokia 2 writes control characters."""
    return "".join(
        f"\\u{ord(c) >> 4:03x}{chr(ord('0') + (ord(c) & 15))}" if c < " " else c
        for c in text
    )


CONTROLS = "".join(map(chr, (0x0B, 0x0E, 0x0F, *range(0x1A, 0x20))))
"""Those whose last digit Jolokia 2 writes as a sign that JSON has not."""


@pytest.mark.parametrize(
    "control", [CONTROLS[0], CONTROLS[-1]], ids=lambda one: f"x{ord(one):02x}"
)
def test_names_with_control_characters_keep_their_numbers_and_lose_no_others(
    control: str,
) -> None:
    name = f"a{control}b"

    async def play() -> None:
        poller, transport = watched()

        def change(answers: Answers) -> bytes:
            # In listings Artemis writes it as JSON has it; in names of MBeans and echoed requests Jolokia does.
            text = (
                plain(answers)
                .decode()
                .replace('=\\"orders\\"', f'=\\"a{of_jolokia(control)}b\\"')
            )
            text = text.replace('\\"orders\\"', f'\\"a\\\\u{ord(control):04x}b\\"')
            return text.replace('"orders"', f'"a{of_jolokia(control)}b"').encode()

        assert await read(poller, transport, change) == ""
        assert poller.assessor.view is not None
        queues = poller.assessor.view.snapshot.queues
        assert queues is not None
        assert name in [row.name for row in queues.index]
        assert not np.isnan(queues["bytes"]).any()
        assert not np.isnan(queues["has_dead_letter_address"]).any()

    asyncio.run(play())


@pytest.mark.slow  # polls for each value
def test_an_octet_that_is_no_utf_8_costs_its_row_alone() -> None:
    async def play() -> None:
        whole, transport = watched()
        await read(whole, transport, plain)
        for place in (b'=\\"orders', b'\\"name\\":\\"orders', b'\\"queue\\":\\"orders'):
            poller, transport = watched()

            def change(answers: Answers, place: bytes = place) -> bytes:
                body = plain(answers)
                at = body.find(place)
                return (
                    body
                    if at < 0
                    else body[: at + len(place)] + b"\xff" + body[at + len(place) :]
                )

            error = await read(poller, transport, change)
            assert "1 values could not be read" in error, place
            assert poller.assessor.view is not None
            assert whole.assessor.view is not None
            for kind in ("queues", "consumers", "addresses"):
                rows = getattr(poller.assessor.view.snapshot, kind)
                assert rows is not None, (place, kind)
                assert len(rows) >= len(getattr(whole.assessor.view.snapshot, kind)) - 1
            assert not np.isnan(poller.assessor.view.snapshot.queues["bytes"]).sum() > 1  # type: ignore[index]

    asyncio.run(play())


def test_only_what_is_broken_is_put_right() -> None:
    assert repaired(rb'"\u001;\\u001;\\\u001?"') == (rb'"\u001b\\u001;\\\u001f"', 0)
    assert repaired(b'"a\xff\xef\xbf\xbd"') == ('"a\ufffd\ufffd"'.encode(), 1)
    assert repaired(rb'"\u0041\u001b"') == (rb'"\u0041\u001b"', 0)
    for control in CONTROLS:
        assert repaired(of_jolokia(control).encode().join((b'"', b'"'))) == (
            b'"\\u%04x"' % ord(control),
            0,
        )


def test_what_is_broken_everywhere_takes_no_more_than_moments() -> None:
    body = (
        b'[{"status":200,"value":"'
        + rb"\u001;" * (5 * MOST_REPAIRS)
        + b"\\" * 2_000_000
        + b'"}]'
    )
    began = time.process_time()
    repaired(body)
    assert time.process_time() - began < 2.0


# --- whatever is shown


@pytest.mark.parametrize("seconds", [1e308, -1e308, float("inf"), float("nan"), 1e15])
def test_a_time_that_no_calendar_has_is_told_as_unknown(seconds: float) -> None:
    assert moment(seconds) == UNKNOWN
    assert UNKNOWN in event_line(
        Event(seconds, Change.CONDITION_ON, "b", since=seconds, condition="stalled")
    )


@pytest.mark.parametrize("seconds", [float("inf"), float("-inf"), float("nan")])
def test_a_duration_without_end_is_told_as_unknown(seconds: float) -> None:
    assert duration(seconds) == UNKNOWN


# --- OpenMQ


@pytest.mark.parametrize(
    ("field", "value"),
    every_pair(
        [
            "Uptime",
            "NumMsgs",
            "NumMsgsIn",
            "NumMsgsPendingAcks",
            "TotalMemory",
            "CreationTime",
        ],
        [-1, "NaN", 1e308, "1e23", 10**40, None, {}],
    ),
)
def test_of_openmq_too(field: str, value: object) -> None:
    class Changed(RecordingTransport):
        async def ask(self, requests: Any, timeout: float) -> Any:
            answer = await super().ask(requests, timeout)
            found = json.loads(answer.body)
            for one in found_in(found, field)[:1]:
                one[field] = value
                self.changed = True
            return replace(answer, body=json.dumps(found).encode())

        changed = False

    async def play() -> None:
        transport = Changed(
            next(
                iter(
                    sorted(
                        Path(__file__).parents[1].glob("recordings/*openmq*.jsonl.gz")
                    )
                )
            )
        )
        reader = OpenMQReader(transport, ReaderOptions(name="b"))
        snapshot = await reader.poll(5.0)
        assert transport.changed == any(
            one.error for one in snapshot.collectors.values()
        )

    if value == -1 and field == "TotalMemory":
        return  # "not known" of a JVM
    asyncio.run(play())


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "x", ""])
def test_ids_that_are_none_are_passed_over(text: str) -> None:
    reply = openmq.replies(
        json.dumps([{"status": 200, "value": ["7", text]}]).encode(), 1
    )[0]
    assert openmq.numbers(reply, "ids") == {7}
    assert (
        openmq.Transaction(
            transaction_id=1, connection_string=f"u@h:{text}->jms:1"
        ).remote
        is None
    )
