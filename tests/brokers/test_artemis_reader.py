"""The reader of Artemis against a scripted broker: which calls, in which order, what happens when one fails."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from penstock.brokers import cadence, engine
from penstock.brokers.artemis import reader, requests
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.requests import quote
from penstock.core.errors import BadAnswer, SourceError, Unreachable, Unsupported
from penstock.model import Role, Snapshot
from penstock.transports.transport import Answer, Request

NAMES = ("orders", "bills")
NULL_POINTER = {
    "status": 500,
    "error": "java.lang.NullPointerException",
    "error_type": "java.lang.NullPointerException",
}
UNSORTABLE = {
    "status": 400,
    "error": "java.lang.IllegalArgumentException : Comparison method violates its general contract!",
    "error_type": "java.lang.IllegalArgumentException",
}
NOTHING = {"status": 404, "error": "No MBean with pattern"}
Wrong = dict[str, Any] | SourceError | Callable[[], dict[str, Any]]


def prefixed(broker: str) -> str:
    return f"org.apache.activemq.artemis:broker={quote(broker)}"


COUNTS = {"GroupCount": 20, "PreparedTransactionMessageCount": 4}
"""Of a queue that is asked by its name."""


class Broker:
    """Answers as Artemis does; `wrong`: what the next calls of an operation or attribute answer in its place."""

    def __init__(
        self, version: str = "2.44.0", queues: Sequence[str] = NAMES, consumers: int = 3
    ) -> None:
        self.about: dict[str, Any] = {
            "Version": version, "NodeID": "n1", "Active": True, "Started": True, "UptimeMillis": 5000,
        }  # fmt: skip
        self.queues = {10 + number: name for number, name in enumerate(queues)}
        self.consumers = {
            100 + number: queues[number % len(queues)] for number in range(consumers)
        }
        self.bridges: dict[str, dict[str, Any]] = {}
        self.prepared: list[str] = []
        self.delivering: dict[str, str] = {}
        self.buffered: dict[int, str] = {}
        self.wrong: dict[str, list[Wrong]] = {}
        self.takes: dict[str, float] = {}
        self.passed = 0.0
        self.asked: list[Request] = []
        self.calls: list[tuple[str, float]] = []
        self.stamp = 1000.0
        self.seconds = 0.001

    async def begin_poll(self) -> None: ...
    async def close(self) -> None: ...

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        self.asked += requests
        self.calls.append((self.what(requests[0]), timeout))
        takes = self.takes.get(self.what(requests[0]), 0.0)
        self.passed += min(takes, timeout)
        if takes > timeout:
            raise Unreachable(f"no answer within {timeout:.1f} s")
        responses = [self.respond(request) for request in requests]
        return Answer(json.dumps(responses).encode(), self.stamp, self.seconds)

    def what(self, request: Request) -> str:
        return str(
            request.get("operation", "").partition("(")[0] or request["attribute"][0]
        )

    def respond(self, request: Request) -> dict[str, Any]:
        what = self.what(request)
        if self.wrong.get(what):
            wrong = self.wrong[what].pop(0)
            if isinstance(wrong, SourceError):
                raise wrong
            return wrong() if callable(wrong) else wrong
        if request["type"] == "exec":
            return {"status": 200, "value": self.text(what, request["arguments"])}
        found = self.read(request)
        return {"status": 200, "value": found} if found else NOTHING

    def text(self, operation: str, arguments: list[Any]) -> str | list[str]:
        if operation == "listPreparedTransactions":
            return [
                f"11/22/26, 6:31\u202fPM base64: {xid} XidImpl (21 bq:116 base64:{xid}"
                for xid in self.prepared
            ]
        if operation == "getAddressSettingsAsJSON":
            return json.dumps(
                {
                    "addressFullMessagePolicy": "PAGE",
                    "maxSizeBytes": 1000,
                    "deadLetterAddress": "DLQ",
                }
            )
        options, page, rows = arguments
        of: dict[str, list[dict[str, Any]]] = {
            "listQueues": [self.queue_row(i, name) for i, name in self.queues.items()],
            "listAddresses": [
                {"name": name, "addressSize": "5"} for name in self.queues.values()
            ],
            "listConsumers": [
                self.consumer_row(i, q) for i, q in self.consumers.items()
            ],
            "listSessions": [
                {"id": f"s{i}", "connectionID": f"c{i}", "consumerCount": 1}
                for i in self.consumers
            ],
            "listConnections": [
                {"connectionID": f"c{i}", "clientID": f"client{i}"}
                for i in self.consumers
            ],
            "listProducers": [],
        }
        found = of[operation]
        wanted = json.loads(options)
        if "sortOrder" in wanted:
            found = sorted(found, key=lambda row: -int(row[wanted["sortField"]]))
        return json.dumps(
            {"data": found[(page - 1) * rows : page * rows], "count": len(found)}
        )

    def queue_row(self, number: int, name: str) -> dict[str, str]:
        row = {
            "id": str(number),
            "name": name,
            "address": name,
            "messageCount": str(number),
            "consumerCount": "1",
        }
        return row | {"deliveringCount": self.delivering.get(name, "0")}

    def consumer_row(self, number: int, queue: str) -> dict[str, Any]:
        row = {
            "id": str(number),
            "queue": queue,
            "address": queue,
            "session": f"s{number}",
        }
        return row | {"messagesInTransit": self.buffered.get(number, "2")}

    def read(self, request: Request) -> dict[str, Any]:
        mbean = request["mbean"]
        broker = prefixed("b")
        if "component=bridges" in mbean:
            return {
                f"{broker},component=bridges,name={quote(n)}": v
                for n, v in self.bridges.items()
            }
        if "broker-connections" in mbean:
            return {}
        if of_one := COUNTS.keys() & set(request["attribute"]):
            return {name: COUNTS[name] for name in of_one}
        if "subcomponent=queues" in mbean:
            return {
                self.mbean(name): self.attributes(number, name)
                for number, name in self.queues.items()
            }
        if "component=addresses" in mbean:
            return {
                f"{broker},component=addresses,address={quote(n)}": {
                    "Address": n,
                    "AddressSize": 6,
                }
                for n in self.queues.values()
            }
        return {broker: self.about}

    def mbean(self, name: str) -> str:
        quoted = quote(name)
        return f"{prefixed('b')},component=addresses,address={quoted},subcomponent=queues,queue={quoted}"

    def attributes(self, number: int, name: str) -> dict[str, Any]:
        return {
            "ID": number, "Name": name, "Address": name, "MessageCount": number + 0.5, "PersistentSize": 7,
            "DeadLetterAddress": "DLQ", "ConsumerCount": 1,
        }  # fmt: skip


async def poll(
    broker: Broker, times: int = 1, options: ReaderOptions | None = None
) -> Snapshot:
    return await polled(ArtemisReader(broker, options), broker, times)


async def polled(
    artemis: ArtemisReader, broker: Broker, times: int = 1, every: float = 15.0
) -> Snapshot:
    for _ in range(times):
        broker.stamp += every
        broker.calls.clear()
        found = await artemis.poll(30)
    return found


def errors(snapshot: Snapshot) -> dict[str, str]:
    return {
        name: collector.error
        for name, collector in snapshot.collectors.items()
        if collector.error
    }


def messages(snapshot: Snapshot) -> dict[str, float]:
    assert snapshot.queues is not None
    return dict(
        zip(
            [row.name for row in snapshot.queues.index],
            snapshot.queues["messages"].tolist(),
            strict=True,
        )
    )


def calls(broker: Broker) -> list[str]:
    return [what for what, _ in broker.calls]


PART_OF = {"listConsumers": "consumers", "listSessions": "connections"}
"""What fails where a listing does that nothing replaces."""

DIVERTS = "Address"
"""The first attribute that is asked of them, and of addresses where their listing fails."""

# --- what is asked

DENIED = {
    "FirstMessageAsJSON", "FirstMessageAge", "FirstMessageTimestamp",
    "NumberOfMessages", "QueueCount", "Paused", "MessageCount",
}  # fmt: skip


@pytest.mark.parametrize("version", ["2.21.0", "2.28.0", "2.40.0", "2.44.0", "2.56.0"])
async def test_everything_that_is_asked_is_a_named_read(version: str) -> None:
    broker = Broker(version)
    broker.wrong = {"listQueues": [BadAnswer("x")], "listAddresses": [BadAnswer("x")]}
    assert not errors(await poll(broker, 2))
    assert broker.asked
    for request in broker.asked:
        if request["type"] == "exec":
            operation = request["operation"].partition("(")[0]
            assert operation in (
                *requests.LISTINGS,
                "getAddressSettingsAsJSON",
                "listPreparedTransactions",
            )
            assert request["operation"].endswith(")")
            continue
        assert request["type"] == "read"
        assert request["attribute"]
        of_queue = "subcomponent=queues" in request["mbean"]
        of_address = "component=addresses" in request["mbean"]
        denied = DENIED - (
            {"MessageCount"} if of_queue else {"Paused"} if of_address else set()
        )
        assert not denied & set(request["attribute"])


async def test_counters_of_queues_are_read_after_what_they_are_compared_with() -> None:
    broker = Broker()
    await poll(broker)
    order = calls(broker)
    assert order[0] == "Version"
    assert (
        order.index("listConsumers")
        < order.index("listAddresses")
        < order.index("listQueues")
    )
    assert order.index("listQueues") < order.index("AcknowledgeAttempts"), (
        "the counters say which queues are asked"
    )


# --- listings


async def test_pages_are_put_together() -> None:
    broker = Broker(consumers=7)
    found = await poll(broker, options=ReaderOptions(page_rows=3))
    assert calls(broker).count("listConsumers") == 6, (
        "the first time twice: nothing is known yet that could be missed"
    )
    assert found.consumers is not None
    assert [row.id for row in found.consumers.index] == [
        str(i) for i in broker.consumers
    ]
    assert found.queues is not None
    at = found.queues.index.positions(found.consumer_queue)
    assert [found.queues.index.rows[i].name for i in at] == list(
        broker.consumers.values()
    )
    assert found.connections is not None
    at = found.connections.index.positions(found.consumer_connection)
    assert [found.connections.index.rows[i].id for i in at] == [
        f"c{i}" for i in broker.consumers
    ]


async def test_a_listing_that_something_vanished_from_is_asked_again_a_few_times() -> (
    None
):
    broker = Broker()
    broker.wrong = {"listConsumers": [NULL_POINTER, UNSORTABLE]}
    found = await poll(broker)
    assert not errors(found)
    assert calls(broker).count("listConsumers") == 3
    broker.wrong = {"listConsumers": [NULL_POINTER] * reader.TRIES}
    found = await poll(broker)
    assert list(errors(found)) == ["consumers"]
    assert found.consumers is None
    assert messages(found) == {"orders": 10, "bills": 11}


async def test_queues_vanishing_twice_are_read_by_pattern_and_listed_the_next_time() -> (
    None
):
    broker = Broker()
    artemis = None
    artemis = ArtemisReader(broker)
    broker.wrong = {"listQueues": [NULL_POINTER, NULL_POINTER]}
    assert messages(await polled(artemis, broker)) == {"orders": 10.5, "bills": 11.5}
    assert messages(await polled(artemis, broker)) == {"orders": 10, "bills": 11}


async def test_a_listing_that_waits_for_a_lock_is_left_alone_for_a_while() -> None:
    broker = Broker()
    artemis = ArtemisReader(broker)
    await polled(artemis, broker)
    broker.wrong = {"listQueues": [Unreachable("no answer")]}
    found = await polled(artemis, broker)
    assert not errors(found)
    assert messages(found) == {"orders": 10.5, "bills": 11.5}
    assert found.queues is not None
    assert "paused" not in found.queues
    (given,) = [seconds for what, seconds in broker.calls if what == "listQueues"]
    assert given <= 30 * engine.SHARE
    await polled(artemis, broker, every=reader.AFTER_LOCK - 1)
    assert "listQueues" not in calls(broker)
    assert messages(await polled(artemis, broker, every=1)) == {
        "orders": 10,
        "bills": 11,
    }


async def test_a_broker_that_stops_lists_no_queues_and_none_is_taken_for_deleted() -> (
    None
):
    """At a failback it still says that it is active."""
    broker = Broker()
    artemis = ArtemisReader(broker)
    await polled(artemis, broker)
    broker.queues, queues = {}, broker.queues
    found = await polled(artemis, broker)
    assert found.queues is None
    assert "the broker is stopping" in errors(found)["queues"]
    assert messages(await polled(artemis, broker)) == {}, "two polls agree"
    broker.queues = queues
    assert messages(await polled(artemis, broker)) == {"orders": 10, "bills": 11}


# --- prepared transactions


async def test_queues_are_asked_for_what_is_in_doubt_only_where_something_may_be() -> (
    None
):
    """Not before a transaction was there at the poll before; not where consumers have all that is in delivery."""
    broker = Broker()
    artemis = ArtemisReader(broker)
    broker.delivering = {"orders": "8", "bills": "2"}  # of which consumers have 4 and 2
    found = await polled(artemis, broker, 2)
    assert found.queues is not None
    assert found.transactions is not None
    assert (len(found.transactions), "in_doubt" in found.queues) == (0, False)
    broker.prepared = ["dHgx", "dHg_-2"]
    found = await polled(artemis, broker)
    assert found.transactions is not None
    assert [row.id for row in found.transactions.index] == ["dHgx", "dHg_-2"]
    assert found.queues is not None
    assert "in_doubt" not in found.queues
    broker.asked.clear()
    found = await polled(artemis, broker)
    assert found.queues is not None
    np.testing.assert_array_equal(found.queues["in_doubt"], [4, np.nan])
    asked = [
        one["mbean"]
        for one in broker.asked
        if "PreparedTransactionMessageCount" in one.get("attribute", ())
    ]
    assert len(asked) == 1
    assert 'queue="orders"' in asked[0]
    assert calls(broker)[-1] == "listPreparedTransactions", "one call"
    assert not any("Details" in one.get("operation", "") for one in broker.asked)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("[]", "another form"),
        (["11/22/26 XidImpl"], "without an Xid"),
        (None, "another form"),
    ],
)
async def test_a_list_of_transactions_in_another_form_is_not_taken_for_none(
    value: Any, told: str
) -> None:
    broker = Broker()
    broker.wrong = {"listPreparedTransactions": [{"status": 200, "value": value}]}
    found = await poll(broker)
    assert told in errors(found)["transactions"]
    assert found.transactions is None


async def test_a_count_that_is_refused_is_missing_and_said() -> None:
    """As 2.44 answers where the role may list and not read the attribute."""
    broker = Broker()
    broker.prepared = ["dHgx"]
    broker.delivering = {"orders": "8"}
    artemis = ArtemisReader(broker)
    await polled(artemis, broker)
    refused = {
        "PreparedTransactionMessageCount": "ERROR: User not authorized to access attribute"
    }
    broker.wrong = {
        "PreparedTransactionMessageCount": [{"status": 200, "value": refused}]
    }
    found = await polled(artemis, broker)
    assert "1 values" in errors(found)["transactions"]
    assert found.queues is not None
    assert np.isnan(found.queues["in_doubt"]).all()
    assert found.transactions is not None


# --- message groups


GROUPS = "GroupCount"


async def test_queues_are_asked_for_message_groups_where_one_consumer_has_all_and_another_nothing() -> (
    None
):
    """Once in a while, and not where all have some; one that cannot be asked is as one that has none."""
    broker = Broker()
    broker.consumers = {1: "orders", 2: "orders", 3: "bills", 4: "bills"}
    broker.buffered = {1: "12", 2: "0", 3: "12", 4: "1"}
    artemis = ArtemisReader(broker)
    broker.wrong = {GROUPS: [{"status": 403, "error": "not allowed"}]}
    found = await polled(artemis, broker)
    assert found.queues is not None
    assert "groups" not in found.queues
    assert not errors(found)
    found = await polled(artemis, broker, every=cadence.SETTINGS_AGE)
    assert found.queues is not None
    np.testing.assert_array_equal(found.queues["groups"], [20, np.nan])
    await polled(artemis, broker, 2)
    asked = [one["mbean"] for one in broker.asked if GROUPS in one.get("attribute", ())]
    assert len(asked) == 2
    assert all('queue="orders"' in one for one in asked)


# --- parts that fail


@pytest.mark.parametrize(
    ("what", "collector", "table"),
    [
        ("listConsumers", "consumers", "consumers"),
        ("listSessions", "connections", "connections"),
        ("listProducers", "connections", "producers"),
        ("AcknowledgeAttempts", "sizes", None),
        ("DeadLetterAddress", "roles", None),
        ("getAddressSettingsAsJSON", "settings", None),
        ("listPreparedTransactions", "transactions", "transactions"),
    ],
)
async def test_each_part_fails_alone(
    what: str, collector: str, table: str | None
) -> None:
    broker = Broker()
    broker.wrong = {what: [BadAnswer("broken")] * 3}
    found = await poll(broker)
    assert list(errors(found)) == [collector]
    assert "broken" in errors(found)[collector]
    if table:
        assert getattr(found, table) is None
    assert messages(found) == {"orders": 10, "bills": 11}


async def test_links_are_not_known_without_queues() -> None:
    broker = Broker()
    broker.bridges = {"to-b2": {"Started": True, "QueueName": "orders"}, "off": {"Started": False, "QueueName": "?"},
                      "odd": {"Started": True, "QueueName": "?"}}  # fmt: skip
    found = await poll(broker)
    assert found.links is not None
    assert [row.name for row in found.links.index] == ["to-b2", "off", "odd"]
    np.testing.assert_array_equal(found.links["up"], [1, 0, np.nan])
    np.testing.assert_array_equal(found.links["pending"], [10, np.nan, np.nan])
    broker.wrong = {"listQueues": [BadAnswer("x")], "ID": [BadAnswer("x")]}
    found = await poll(broker)
    assert list(errors(found)) == ["queues", "sizes", "links"]
    assert found.links is None


@pytest.mark.parametrize(
    "seconds", [3600, 9, 2], ids=["hangs", "too slow", "slow pages"]
)
@pytest.mark.parametrize(
    "listing", ["listConsumers", "listAddresses", "listQueues", "listSessions", DIVERTS]
)
async def test_a_slow_listing_leaves_time_for_all_that_is_read_after_it(
    listing: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(consumers=20)
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: broker.passed)
    broker.takes = {listing: seconds}
    found = await poll(broker, options=ReaderOptions(page_rows=1))
    assert errors(found).keys() <= {PART_OF.get(listing)}
    assert min(given for what, given in broker.calls if what != listing) > 1.5


async def test_consumers_whose_listing_takes_most_of_the_poll_are_read_where_the_rest_takes_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first poll shows what the rest takes; from then on the consumers have what it leaves."""
    broker = Broker()
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: broker.passed)
    broker.takes = {"listConsumers": 22.0}
    artemis = ArtemisReader(broker)
    assert list(errors(await polled(artemis, broker))) == ["consumers"]
    for _ in range(3):
        found = await polled(artemis, broker)
        assert not errors(found)
        assert found.consumers is not None
        assert messages(found) == {"orders": 10, "bills": 11}


async def test_consumers_whose_listing_hangs_are_asked_at_each_poll_and_cost_no_other_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: broker.passed)
    artemis = ArtemisReader(broker)
    given = []
    for takes in (1.0, 1.0, 3.0, 3.0):  # the rest begins to be slow
        broker.takes = {
            "listConsumers": 3600.0,
            "listQueues": takes,
            "listSessions": takes / 10,
        }
        found = await polled(artemis, broker)
        assert list(errors(found)) == ["consumers"]
        assert messages(found) == {"orders": 10, "bills": 11}
        given += [seconds for what, seconds in broker.calls if what == "listConsumers"]
    np.testing.assert_allclose(
        given,
        np.multiply(30, [engine.SHARE, engine.MOST, engine.MOST, 1 - 3 * 3.3 / 30]),
    )
    broker.takes = {}
    assert not errors(await polled(artemis, broker))


async def test_two_that_hang_leave_time_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: broker.passed)
    broker.takes = dict.fromkeys(["listConsumers", "listAddresses", DIVERTS], 60.0)
    found = await poll(broker)
    assert list(errors(found)) == ["consumers", "addresses"]
    assert messages(found) == {"orders": 10, "bills": 11}


async def test_a_used_up_deadline_fails_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    now = [time.monotonic()]
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: now[0])

    def late() -> dict[str, Any]:
        now[0] += 60
        return {"status": 200, "value": '{"data":[],"count":0}'}

    broker.wrong = {"listConsumers": [late]}
    found = await poll(broker)
    assert not found.collectors["consumers"].error
    assert set(errors(found)) >= {"addresses", "queues", "connections"}
    assert "raise timeout or interval" in errors(found)["queues"]


# --- the broker itself


async def test_a_passive_broker_has_nothing() -> None:
    broker = Broker()
    broker.about |= {"Active": False, "Backup": True, "DiskStoreUsage": 0}
    found = await poll(broker)
    assert found.broker is not None
    assert found.broker.role is Role.PASSIVE
    assert np.isnan(found.broker.disk_used_ratio)
    assert (found.queues, found.consumers, calls(broker)) == (None, None, ["Version"])


STOPPING = "ERROR: java.lang.IllegalStateException: AMQ229013: broker is not started (class java.lang.Exception)"
"""What Jolokia writes in place of an attribute that a broker that stops could not read."""


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (NOTHING, BadAnswer, "no Artemis broker"),
        (
            {"status": 200, "value": {prefixed("a"): {}, prefixed("b"): {}}},
            BadAnswer,
            "2 Artemis brokers",
        ),
        (
            {"status": 200, "value": {prefixed("a"): {"Version": None}}},
            BadAnswer,
            "did not return its version",
        ),
        (
            {"status": 200, "value": {prefixed("a"): {"Version": STOPPING}}},
            BadAnswer,
            "it is starting or stopping",
        ),
        (
            {"status": 200, "value": {prefixed("a"): {"Version": "?"}}},
            BadAnswer,
            "it is starting or stopping",
        ),
        (
            {"status": 200, "value": {prefixed("a"): {"Version": "2.20.0"}}},
            Unsupported,
            "too old",
        ),
        (
            {"status": 500, "error": "Broker is not started"},
            BadAnswer,
            "Broker is not started",
        ),
    ],
)
async def test_without_a_broker_there_is_no_poll(
    answer: dict[str, Any], kind: type[SourceError], told: str
) -> None:
    broker = Broker()
    broker.wrong = {"Version": [answer]}
    with pytest.raises(kind, match=told):
        await poll(broker)


async def test_an_attribute_that_could_not_be_read_is_no_other_broker() -> None:
    broker = Broker()
    artemis = ArtemisReader(broker)
    before = (await polled(artemis, broker)).observation.process
    broker.about |= {"NodeID": STOPPING, "UptimeMillis": broker.about["UptimeMillis"]}
    after = (await polled(artemis, broker)).observation.process
    assert after.follows(before)


@pytest.mark.parametrize(
    "change",
    [
        {"UptimeMillis": 100},
        {"NodeID": "n2", "UptimeMillis": 9000},
        {"Version": "2.45.0"},
    ],
)
async def test_after_a_restart_an_id_may_be_another_queue(
    change: dict[str, Any],
) -> None:
    broker = Broker()
    artemis = ArtemisReader(broker)
    await polled(artemis, broker)
    broker.queues = {10: "bills", 11: "orders"}
    broker.about |= change
    assert messages(await polled(artemis, broker)) == {"bills": 10, "orders": 11}


async def test_a_replica_that_learns_its_node_id_has_not_restarted() -> None:
    broker = Broker()
    broker.about |= {"Active": False, "NodeID": None}
    artemis = ArtemisReader(broker)
    first = await artemis.poll(10.0)
    broker.about |= {"NodeID": "n1"}
    second = await artemis.poll(10.0)
    assert not second.observation.process.replaces(first.observation.process)


# --- not at every poll


async def test_settings_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SETTINGS_AT_ONCE", 2)
    broker = Broker(queues=[f"q{n}" for n in range(5)])
    artemis = ArtemisReader(broker)
    for number in (2, 2, 1, 0):
        broker.asked.clear()
        found = await polled(artemis, broker)
        assert (
            sum("Settings" in request.get("operation", "") for request in broker.asked)
            == number
        )
    assert found.addresses is not None
    assert found.addresses["limit_bytes"].tolist() == [1000] * 5
    broker.asked.clear()
    await polled(artemis, broker, every=cadence.SETTINGS_AGE)
    assert (
        sum("Settings" in request.get("operation", "") for request in broker.asked) == 2
    )


async def test_roles_are_read_when_due_or_when_a_queue_is_new() -> None:
    broker = Broker()
    artemis = ArtemisReader(broker)
    read = []
    for every, new in (
        (10.0, ""),
        (10.0, ""),
        (10.0, "more"),
        (10.0, ""),
        (10.0, ""),
        (50.0, ""),
    ):
        if new:
            broker.queues[20] = new
        await polled(artemis, broker, every=every)
        read.append("DeadLetterAddress" in calls(broker))
    assert read == [True, False, False, True, False, True]


async def test_slow_connections_are_not_read_at_every_poll() -> None:
    broker = Broker()
    broker.seconds = 1.0
    artemis = ArtemisReader(broker)
    read = []
    for _ in range(6):
        found = await polled(artemis, broker, every=15)
        read.append("listSessions" in calls(broker))
        assert found.connections is not None
    # Three answers of a second each: at most every 60 s, but the first also asked for the connections' texts.
    assert read == [True, False, False, False, True, False]
