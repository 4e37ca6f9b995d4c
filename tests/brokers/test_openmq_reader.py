"""The reader of OpenMQ against a scripted broker: what is asked, and what becomes of parts that fail or are odd."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from penstock.brokers.budget import RowBudgets
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.core.errors import SourceError, Unreachable
from penstock.model import LeftOut, Snapshot, TransactionState
from penstock.transports.portmapper import request_epoch
from penstock.transports.transport import Answer, Request

OPERATIONS = {
    "getConsumerInfo",
    "getConsumerInfoByID",
    "getConsumerIDs",
    "getProducerInfo",
    "getTransactionInfo",
}
"""All of them reads."""
GONE = {
    "status": 500,
    "error": "x",
    "error_type": "java.lang.reflect.InvocationTargetException",
}
START = 1_795_000_000_000


def consumer(number: int, **said: Any) -> dict[str, Any]:
    row = {
        "ConsumerID": str(number), "ConnectionID": "7", "DestinationName": "q", "DestinationType": "q", "Host": "h",
        "User": "u", "ServiceName": "jms", "NumMsgs": 5, "NumMsgsPending": 3, "NumMsgsPendingAcks": 2,
        "LastAckTime": 0, "CreationTime": START, "FlowPaused": False, "AcknowledgeMode": 1, "Durable": False,
        "Wildcard": False, "Selector": None, "ClientID": None,
    }  # fmt: skip
    return row | said


class Broker:
    """Answers as OpenMQ does over Jolokia. wrong: what the next calls of an operation or type answer in its place."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.wrong: dict[str, list[Any]] = {}
        self.stamp = 1000.0
        self.start = START
        self.uptime = 60_000
        self.session: str | None = "1"
        self.lists: dict[str, Any] = dict.fromkeys(
            ("getProducerInfo", "getTransactionInfo")
        )
        self.lists["getConsumerInfo"] = [consumer(1)]
        self.of_connection: list[str] = ["1"]
        self.by_id: dict[str, Any] = {}
        self.more: dict[str, dict[str, Any]] = {}
        """What more destinations say, in place of the numbers of the first."""
        self.destination: dict[str, Any] = {
            "Name": "q", "Type": "q", "State": 0, "Temporary": False, "NumMsgsIn": 20, "NumMsgsOut": 8,
            "MsgBytesIn": 2000, "MsgBytesOut": 800, "NumConsumers": 1, "NumActiveConsumers": 1, "NumProducers": 0,
            "NumMsgs": 12,
            "NumMsgsPendingAcks": 2, "NumMsgsHeldInTransaction": 0, "NumMsgsInDelayDelivery": 0, "TotalMsgBytes": 1200,
        }  # fmt: skip

    async def begin_poll(self) -> None: ...
    async def close(self) -> None: ...

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        assert timeout > 0
        self.asked += requests
        body = [self.respond(request) for request in requests]
        return Answer(json.dumps(body).encode(), self.stamp, 0.001)

    def respond(self, request: Request) -> Any:
        what = str(
            request.get("operation")
            or request.get("mbean", "").partition("type=")[2].partition(",")[0]
        )
        if self.wrong.get(what):
            wrong = self.wrong[what].pop(0)
            if isinstance(wrong, SourceError):
                raise wrong
            return wrong
        if request == request_epoch(7676):
            return self.epoch()
        return {
            "status": 200,
            "value": self.value(request, what),
            "timestamp": (self.start + self.uptime) // 1000,
        }

    state: Any = " RED "
    service = "jms"

    def epoch(self) -> Any:
        if self.session is None:
            raise Unreachable("no port mapper")
        return {"status": 200, "value": {"session": self.session}}

    def value(self, request: Request, what: str) -> Any:
        if what == "getConsumerIDs":
            return self.of_connection
        if what == "getConsumerInfoByID":
            return self.by_id[request["arguments"][0]]
        if request["type"] == "exec":
            return self.lists[what]
        said: dict[str, Any] = {
            "Broker": {"Version": "6.5.1", "Host": "h", "Port": 7676, "ResourceState": self.state},
            "Runtime": {"StartTime": self.start, "Uptime": self.uptime},
            "JVM": {"TotalMemory": 2e6, "FreeMemory": 1e6, "MaxMemory": 4e6},
            "DestinationManager": {"NumMsgs": 12, "NumMsgsInDMQ": 0, "TotalMsgBytes": 1200, "MaxTotalMsgBytes": -1},
            "ConnectionManager": {"NumConnections": 1},
            "Connection": {
                "a": {
                    "ConnectionID": "7", "ClientID": None, "Host": "h", "Port": 5, "User": "u",
                    "ServiceName": self.service, "NumConsumers": len(self.of_connection), "NumProducers": 0,
                }
            },
        }  # fmt: skip
        if what != "Destination":
            return said[what]
        if "Config" in request["mbean"]:
            return {
                "Name": "q",
                "Type": "q",
                "LimitBehavior": "REJECT_NEWEST",
                "MaxNumMsgs": -1,
            }
        row = {
            name: value
            for name, value in self.destination.items()
            if name in request["attribute"]
        }
        others = {name: row | {"Name": name} | said for name, said in self.more.items()}
        return {"x": row} | others if "*" in request["mbean"] else row


def errors(snapshot: Snapshot) -> dict[str, str]:
    return {name: one.error for name, one in snapshot.collectors.items() if one.error}


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def reader(broker: Broker) -> OpenMQReader:
    return OpenMQReader(broker, ReaderOptions(name="o"))


def number(table: Any, name: str) -> float:
    (value,) = table[name].tolist()
    return float(value)


async def test_a_poll(broker: Broker, reader: OpenMQReader) -> None:
    snapshot = await reader.poll(10)
    assert errors(snapshot) == {}
    assert snapshot.broker is not None
    assert (snapshot.broker.node_id, snapshot.broker.resource_state) == ("h:7676", 3)
    assert np.isnan(snapshot.broker.memory_limit_bytes)  # -1 is no limit
    queues = snapshot.queues
    consumers = snapshot.consumers
    assert [
        number(queues, name) for name in ("messages", "delivering", "added", "removed")
    ] == [12, 2, 20, 8]
    assert [
        number(consumers, name)
        for name in ("buffered", "waiting", "delivered", "acknowledged")
    ] == [2, 1, 5, 3]
    assert np.isnan(number(consumers, "last_acknowledgement"))
    operations = {
        request["operation"] for request in broker.asked if request["type"] == "exec"
    }
    assert operations <= OPERATIONS
    assert {
        request["type"] for request in broker.asked if request != request_epoch(7676)
    } <= {"read", "exec"}


async def test_the_memory_state_is_unknown_in_an_application_server(
    broker: Broker, reader: OpenMQReader
) -> None:
    """There the attribute fails, at each poll, and all else can be read."""
    broker.state = {
        "error_type": "javax.management.MBeanException",
        "error": "no state",
    }
    snapshot = await reader.poll(10)
    assert errors(snapshot) == {}
    assert snapshot.broker is not None
    assert np.isnan(snapshot.broker.resource_state)


async def test_applications_of_a_server_are_explained(
    broker: Broker, reader: OpenMQReader
) -> None:
    assert not any("message-driven" in note for note in (await reader.poll(10)).notes)
    broker.service = "jmsdirect"
    notes = (await reader.poll(10)).notes
    assert any("message-driven bean" in note for note in notes)
    assert any("clientId" in note for note in notes)


async def test_of_more_than_may_be_read_the_deepest_destinations_and_the_oldest_consumers_are(
    broker: Broker,
) -> None:
    broker.more = {
        f"q{number}": {"NumMsgsIn": 100 * number, "NumMsgsOut": 50 * number}
        for number in range(5)
    }
    broker.lists["getConsumerInfo"] = [consumer(number) for number in (5, 3, 9, 4)]
    reader = OpenMQReader(
        broker, ReaderOptions(name="o", budgets=RowBudgets(queues=2, consumers=3))
    )
    for _ in range(2):
        found = await reader.poll(10)
        assert not errors(found)
        assert found.queues is not None
        assert found.consumers is not None
        assert {row.name for row in found.queues.index} == {"q3", "q4"}
        assert [row.id for row in found.consumers.index] == ["3", "4", "5"]
        assert found.observation.left_out == (
            LeftOut("queues", 4, 6),
            LeftOut("consumers", 1, 4),
        )
        assert "not read: 4 of 6 queues (budgets.queues)" in found.notes
        assert not found.observation.late
    del broker.more["q4"]
    found = await reader.poll(10)
    assert found.queues is not None
    assert {row.name for row in found.queues.index} == {"q2", "q3"}
    (late,) = found.observation.late["queues"]
    assert (
        found.queues.index.rows[found.queues.index.positions(np.array([late]))[0]].name
        == "q2"
    )


async def test_versions_without_delayed_delivery_have_none(
    broker: Broker, reader: OpenMQReader
) -> None:
    del broker.destination["NumMsgsInDelayDelivery"]
    snapshot = await reader.poll(10)
    assert (
        number(snapshot.queues, "scheduled"),
        number(snapshot.queues, "delivering"),
    ) == (0, 2)


async def test_messages_in_open_transactions_and_delayed_ones_are_in_nobodys_hands(
    broker: Broker, reader: OpenMQReader
) -> None:
    broker.destination |= {
        "NumMsgsPendingAcks": 9,
        "NumMsgsHeldInTransaction": 4,
        "NumMsgsInDelayDelivery": 3,
    }
    snapshot = await reader.poll(10)
    found = [
        number(snapshot.queues, name)
        for name in ("delivering", "scheduled", "uncommitted")
    ]
    assert found == [2, 3, 4]


async def test_the_brokers_own_consumers_are_left_out(
    broker: Broker, reader: OpenMQReader
) -> None:
    broker.lists["getConsumerInfo"] = [consumer(1), consumer(2, ServiceName="admin")]
    snapshot = await reader.poll(10)
    assert snapshot.consumers is not None
    assert len(snapshot.consumers) == 1


@pytest.mark.parametrize("times", [1, 2])
async def test_a_listing_that_breaks_is_asked_once_more(
    broker: Broker, reader: OpenMQReader, times: int
) -> None:
    """Broken twice it is missing, not empty: nobody may think that the consumers are gone."""
    broker.wrong["getConsumerInfo"] = [GONE] * times
    snapshot = await reader.poll(10)
    assert (snapshot.consumers is None) is (times == 2)
    assert set(errors(snapshot)) == ({"consumers"} if times == 2 else set())
    assert errors(await reader.poll(10)) == {}


async def test_what_the_policy_denies_names_the_policy(
    broker: Broker, reader: OpenMQReader
) -> None:
    broker.wrong["getTransactionInfo"] = [{"status": 403, "error": "no access"}]
    snapshot = await reader.poll(10)
    assert snapshot.transactions is None
    assert "policy file" in errors(snapshot)["transactions"]


async def test_a_transaction_that_ends_while_it_is_listed_is_none(
    broker: Broker, reader: OpenMQReader
) -> None:
    ended = {
        "TransactionID": "1",
        "State": None,
        "NumMsgs": 0,
        "NumAcks": 0,
        "CreationTime": START,
        "XID": None,
    }
    broker.lists["getTransactionInfo"] = [
        ended,
        {**ended, "TransactionID": "2", "State": 1, "NumAcks": 4},
    ]
    snapshot = await reader.poll(10)
    assert errors(snapshot) == {}
    assert number(snapshot.transactions, "state") == TransactionState.STARTED
    assert number(snapshot.transactions, "acknowledgements") == 4


async def test_a_number_that_is_none_is_missing_and_told(
    broker: Broker, reader: OpenMQReader
) -> None:
    broker.lists["getConsumerInfo"] = [consumer(1, NumMsgs="many")]
    snapshot = await reader.poll(10)
    assert np.isnan(number(snapshot.consumers, "delivered"))
    assert number(snapshot.consumers, "buffered") == 2
    assert "1 values" in errors(snapshot)["consumers"]


async def test_a_count_beyond_32_bits_goes_on(
    broker: Broker, reader: OpenMQReader
) -> None:
    """The broker counts a consumer's messages in 32 bits."""
    broker.lists["getConsumerInfo"] = [consumer(1, NumMsgs=-(2**31))]
    assert number((await reader.poll(10)).consumers, "delivered") == 2**31


async def test_members_behind_a_subscription(
    broker: Broker, reader: OpenMQReader
) -> None:
    topic: dict[str, Any] = {"DestinationName": "q", "DestinationType": "t"}
    row = consumer(
        1,
        **topic,
        ConnectionID=None,
        Durable=True,
        DurableName="d",
        DurableActive=True,
        ClientID="c",
    )
    member = consumer(
        2,
        **topic,
        ConnectionID=None,
        Host=None,
        User=None,
        ServiceName=None,
        NumMsgsPendingAcks=1,
    )
    broker.destination["Type"] = "t"
    broker.lists["getConsumerInfo"], broker.of_connection = [row], ["2"]
    broker.by_id["2"] = {**member, "Durable": True, "DurableName": "d", "ClientID": "c"}
    snapshot = await reader.poll(10)
    assert errors(snapshot) == {}
    assert snapshot.consumers is not None
    (found,) = snapshot.consumers.index
    assert (found.id, found.remote_host, found.user) == ("2", "h", "u")
    assert number(snapshot.consumers, "buffered") == 1
    assert list(snapshot.consumer_connection) == [7]


async def test_consumers_that_are_left_out_are_no_members_and_members_count_as_consumers(
    broker: Broker,
) -> None:
    topic: dict[str, Any] = {
        "DestinationName": "q",
        "DestinationType": "t",
        "ConnectionID": None,
    }
    named = {"Durable": True, "DurableName": "d", "ClientID": "c"}
    alone = [consumer(number) for number in range(10, 30)]
    broker.lists["getConsumerInfo"] = [
        consumer(5, **topic, **named, DurableActive=True),
        *alone,
    ]
    members = {
        str(number): consumer(number, **topic, **named) for number in (6, 90, 91)
    }
    broker.by_id = {row["ConsumerID"]: row for row in alone} | members
    broker.of_connection = list(broker.by_id)
    reader = OpenMQReader(
        broker, ReaderOptions(name="o", budgets=RowBudgets(consumers=5))
    )
    for _ in range(2):
        broker.asked.clear()
        found = await reader.poll(10)
        assert not errors(found)
        assert found.consumers is not None
        assert [row.id for row in found.consumers.index] == ["6", "10", "11", "12"], (
            "with the subscription, the oldest"
        )
        assert found.observation.left_out == (LeftOut("consumers", 19, 24),)
        by_id = [
            one["arguments"]
            for one in broker.asked
            if one.get("operation") == "getConsumerInfoByID"
        ]
        assert by_id == [["6"]]
    # Without the members there is still not more than that, and the subscription stands for its own.
    broker.wrong["getConsumerIDs"] = [Unreachable("no answer")]
    broker.of_connection.append("92")
    found = await reader.poll(10)
    assert "members of subscriptions: no answer" in errors(found)["consumers"]
    assert found.consumers is not None
    assert [row.id for row in found.consumers.index] == ["5", "10", "11", "12", "13"]
    assert found.observation.left_out == (LeftOut("consumers", 16, 21),)


async def test_a_destination_that_goes_between_two_calls_is_passed_over(
    broker: Broker, reader: OpenMQReader
) -> None:
    await reader.poll(10)
    broker.lists["getConsumerInfo"] = None
    broker.wrong["Destination"] = [
        {"status": 404, "error": "gone", "error_type": "InstanceNotFoundException"}
    ]
    snapshot = await reader.poll(10)
    assert errors(snapshot) == {}
    assert snapshot.queues is not None
    assert len(snapshot.queues) == 0


@pytest.mark.parametrize(
    ("session", "start", "anew"),
    [
        ("1", START, False),
        ("2", START, True),
        (None, START, False),
        ("1", START + 5000, True),
        (None, START + 5000, True),
    ],
)
async def test_a_new_session_or_start_is_a_new_epoch(
    broker: Broker, reader: OpenMQReader, session: str | None, start: int, anew: bool
) -> None:
    """A new epoch: the uptime begins anew."""
    before = (await reader.poll(10)).broker
    broker.session = session
    broker.start = start
    broker.stamp = broker.stamp + 15
    broker.uptime = 75_000 if start == START else 10_000
    after = (await reader.poll(10)).broker
    assert before is not None
    assert after is not None
    assert (after.uptime < before.uptime) is anew


async def test_what_is_compared_is_read_in_the_order_in_which_skew_tells_no_loss(
    broker: Broker, reader: OpenMQReader
) -> None:
    """Producers, destinations, consumers."""
    await reader.poll(10)
    asked = [
        str(request.get("operation") or request.get("mbean"))
        for request in broker.asked
    ]
    order = [
        next(i for i, one in enumerate(asked) if what in one)
        for what in ("getProducerInfo", "type=Destination,", "getConsumerInfo")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("pending", "held", "delayed", "uncommitted", "wanted"),
    [
        (9, 2, 5, 2, (2, 5)),  # none is in both
        (7, 2, 5, 2, (2, 3)),  # two sends are uncommitted, and delayed
        (5, 0, 5, 2, (0, 3)),
        (9, 0, 5, 0, (4, 5)),  # with nobody
        (7, 9, 5, 0, (2, 5)),  # a limit removed what clients hold
    ],
)
async def test_uncommitted_sends_with_a_delay_are_counted_once(
    broker: Broker,
    reader: OpenMQReader,
    pending: int,
    held: int,
    delayed: int,
    uncommitted: int,
    wanted: tuple[float, float],
) -> None:
    broker.destination |= {
        "NumMsgsPendingAcks": pending, "NumMsgsInDelayDelivery": delayed, "NumMsgsHeldInTransaction": uncommitted,
    }  # fmt: skip
    broker.lists["getConsumerInfo"] = [consumer(1, NumMsgsPendingAcks=held)]
    snapshot = await reader.poll(10)
    assert (
        number(snapshot.queues, "delivering"),
        number(snapshot.queues, "scheduled"),
    ) == wanted
    assert number(snapshot.addresses, "scheduled") == wanted[1]


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("ID:9-127.0.0.1(b2:1)-1-1795331096313", 1795331096.313),
        ("", np.nan),
        (None, np.nan),
        ("odd-id", np.nan),
    ],
)
async def test_when_the_next_message_was_sent(
    broker: Broker, reader: OpenMQReader, said: str | None, sent: float
) -> None:
    broker.destination["NextMessageID"] = said
    np.testing.assert_equal(number((await reader.poll(10)).queues, "next_sent"), sent)
