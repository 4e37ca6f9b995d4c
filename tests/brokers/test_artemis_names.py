"""What is asked of Artemis, and what its names and versions mean: tables of the names that brokers really use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.brokers.artemis import requests, versions
from penstock.brokers.artemis.kinds import Roles, ordinary_kind, queue_kind, ring_source
from penstock.brokers.artemis.tables import mirror_of
from penstock.brokers.clients import client_name, remote_host
from penstock.brokers.requests import key_of, quote, unquote
from penstock.core.errors import BadAnswer, Unsupported
from penstock.core.table import Index, Table
from penstock.model import LinkRow, ProducerRow, QueueKind, RingSource

# --- mirrors


def sent_to(*addresses: str) -> Table[ProducerRow]:
    return Table(
        Index.of(
            [ProducerRow("1", address, "the-source", "s") for address in addresses]
        ),
        {},
    )


def test_a_mirror_is_known_by_the_connection_of_its_source() -> None:
    there = sent_to("orders", "$ACTIVEMQ_ARTEMIS_MIRROR_dr")
    assert mirror_of(there, None) == "the-source"
    assert mirror_of(sent_to("orders"), None) == mirror_of(None, None) == ""
    both = Table(Index.of([LinkRow("dr", "mirror", "$ACTIVEMQ_ARTEMIS_MIRROR_dr")]), {})
    assert mirror_of(there, both) == "", (
        "who mirrors is none: else of two that mirror each other neither would count"
    )


# --- names of MBeans


@given(st.text())
def test_quoting_is_undone_by_unquoting(text: str) -> None:
    assert unquote(quote(text)) == text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("orders", '"orders"'),
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ("a*b?", r'"a\*b\?"'),
        ("a\nb", r'"a\nb"'),
        ("a,b=c", '"a,b=c"'),
        ("a\r\t b ", '"a\r\t b "'),
        ("\\n", r'"\\n"'),
    ],
)
def test_quoting_is_that_of_object_names(text: str, quoted: str) -> None:
    assert quote(text) == quoted


key = st.text("abc-", min_size=1)


@given(st.dictionaries(key, st.text()))
def test_properties_of_a_name_come_back(values: dict[str, str]) -> None:
    name = "d:" + ",".join(f"{key}={quote(value)}" for key, value in values.items())
    assert {key: key_of(name, key) for key in values} == values


def test_properties_without_quotes() -> None:
    name = (
        'org.apache.activemq.artemis:address="a,\\"b",component=addresses,broker="b=1"'
    )
    expected = {"address": 'a,"b', "component": "addresses", "broker": "b=1"}
    assert {key: key_of(name, key) for key in expected} == expected


@pytest.mark.parametrize(
    "name", ["d:", "d:address=a", "", "d:=,", 'd:broke"r=x', 'd:a="b']
)
def test_a_name_without_the_key_is_no_answer(name: str) -> None:
    with pytest.raises(BadAnswer, match="without broker in its name"):
        key_of(name, "broker")


def test_only_listings_can_be_asked() -> None:
    with pytest.raises(ValueError, match="removeAllMessages"):
        requests.listing("b", "removeAllMessages")


# --- kinds

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize(
    ("name", "address", "routing_type", "flags", "kind"),
    [
        ("orders", "orders", "anycast", "", None),
        ("$.artemis.internal.sf.my-cluster.61250f3e", "$.artemis.internal.sf.my-cluster.61250f3e", "multicast", "I",
         QueueKind.LINK),
        ("$.artemis.internal.sf.my-cluster.61250f3e", "$.artemis.internal.sf.my-cluster.61250f3e", "multicast", "",
         QueueKind.LINK),
        (f"notif.{UUID}.ActiveMQServerImpl_name=b2", "activemq.notifications", "multicast", "IT", QueueKind.INTERNAL),
        (f"notif.{UUID}.ActiveMQServerImpl_name=b2", "activemq.notifications", "multicast", "T", QueueKind.INTERNAL),
        ("$ACTIVEMQ_ARTEMIS_MIRROR_dr", "$ACTIVEMQ_ARTEMIS_MIRROR_dr", "anycast", "I", QueueKind.LINK),
        ("$ACTIVEMQ_ARTEMIS_FEDERATION.control.x", "$ACTIVEMQ_ARTEMIS_FEDERATION.control.x", "anycast", "IT",
         QueueKind.LINK),
        ("$ACTIVEMQ_ARTEMIS_FEDERATION.events.x", "$ACTIVEMQ_ARTEMIS_FEDERATION.events.x", "anycast", "IT",
         QueueKind.LINK),
        (f"federation.f.policy.p.address.events.node.{UUID}", "events", "multicast", "", QueueKind.LINK),
        ("federated.f.up.events.multicast", "events", "multicast", "", QueueKind.LINK),
        ("$.artemis.internal.events.queue.anycast.retro", "$.artemis.internal.events.queue.anycast.retro", "anycast",
         "", QueueKind.RETROACTIVE),
        ("$.artemis.internal.events.multicast.retro", "$.artemis.internal.events", "multicast", "",
         QueueKind.RETROACTIVE),
        ("anything", "anything", "multicast", "R", QueueKind.RETROACTIVE),
        ("$sys.mqtt.sessions", "$sys.mqtt.sessions", "anycast", "I", QueueKind.INTERNAL),
        ("$sys.mqtt.retain.prices", "$sys.mqtt.retain.prices", "anycast", "", QueueKind.INTERNAL),
        (UUID, "ActiveMQ.Advisory.TempQueue_ActiveMQ.Advisory.TempTopic", "multicast", "IT", QueueKind.INTERNAL),
        (UUID, "ActiveMQ.Advisory.Connection", "multicast", "T", QueueKind.INTERNAL),
        (UUID, UUID, "anycast", "T", QueueKind.TEMPORARY),
        ("ID:host-4711-1-1:1:1", "ID:host-4711-1-1:1:1", "anycast", "T", QueueKind.TEMPORARY),
        (UUID, "events", "multicast", "T", None),  # a non-durable subscription
        ("nonDurable.shop.news", "events", "multicast", "T", None),
        ("shop.news", "events", "multicast", "", None),
        ("federated", "federated", "anycast", "", None),
        ("notification", "notification", "anycast", "", None),
    ],
)  # fmt: skip
def test_kinds(
    name: str, address: str, routing_type: str, flags: str, kind: QueueKind | None
) -> None:
    found = queue_kind(
        name,
        address,
        routing_type,
        temporary="T" in flags,
        internal="I" in flags,
        retroactive="R" in flags,
    )
    assert found is kind


@pytest.mark.parametrize(
    ("address", "routing_type", "kind"),
    [
        ("DLQ", "anycast", QueueKind.DEAD_LETTER),
        ("DLQ.orders", "multicast", QueueKind.DEAD_LETTER),
        ("ExpiryQueue", "anycast", QueueKind.EXPIRY),
        ("events", "multicast", QueueKind.SUBSCRIPTION),
        ("orders", "anycast", QueueKind.USER),
    ],
)
def test_ordinary_kinds(address: str, routing_type: str, kind: QueueKind) -> None:
    roles = Roles({"a": ("DLQ", "ExpiryQueue"), "b": ("DLQ.orders", ""), "c": ("", "")})
    assert (
        ordinary_kind(
            address,
            routing_type,
            roles.dead_letter_addresses(),
            roles.expiry_addresses(),
        )
        is kind
    )


@pytest.mark.parametrize(
    ("size", "default", "auto_created", "source"),
    [
        (-1, -1, False, RingSource.NONE),
        (-1, 5, True, RingSource.NONE),
        (5, None, True, RingSource.QUEUE),
        (5, -1, False, RingSource.QUEUE),
        (5, 6, True, RingSource.QUEUE),
        (5, 5, True, RingSource.ADDRESS),
        (5, 5, False, RingSource.AMBIGUOUS),
    ],
)
def test_ring_sources(
    size: int, default: int | None, auto_created: bool, source: RingSource
) -> None:
    assert ring_source(size, default, auto_created=auto_created) is source


# --- versions


@pytest.mark.parametrize(
    ("text", "version", "product"),
    [
        ("2.21.0", (2, 21, 0), ""),
        ("2.56.0", (2, 56, 0), ""),
        ("2.44.0-SNAPSHOT", (2, 44, 0), ""),
        ("2.45", (2, 45, 0), ""),
        ("3.0.1", (3, 0, 1), ""),
        ("2.21.0.redhat-00025", (2, 21, 0), "AMQ Broker 7.10"),
        ("2.28.0.redhat-00003", (2, 28, 0), "AMQ Broker 7.11"),
        ("2.33.0.redhat-00010", (2, 33, 0), "AMQ Broker 7.12"),
        ("2.40.0.redhat-00004", (2, 40, 0), "AMQ Broker 7.13"),
        ("2.52.0.redhat-00001", (2, 52, 0), "AMQ Broker"),
    ],
)
def test_versions(text: str, version: versions.Version, product: str) -> None:
    assert versions.parse(text) == version
    assert versions.product_version(text) == product


def test_every_version_from_the_oldest_on_is_read() -> None:
    for minor in range(21, 57):
        assert versions.parse(f"2.{minor}.0") == (2, minor, 0)


@pytest.mark.parametrize("text", ["2.20.0", "2.16.0.redhat-00007", "1.5.6"])
def test_other_versions_are_refused_with_what_can_be_read(text: str) -> None:
    with pytest.raises(Unsupported, match=r"2\.21"):
        versions.parse(text)


@pytest.mark.parametrize("text", ["", "latest", "x2.44.0", "null"])
def test_a_text_that_is_no_version_says_nothing_about_the_version(text: str) -> None:
    with pytest.raises(BadAnswer, match="starting or stopping"):
        versions.parse(text)


# --- clients


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:41226", "127.0.0.1"),
        ("/127.0.0.1:41226", "127.0.0.1"),
        ("tcp://shop.example:1", "shop.example"),
        ("[::1]:41226", "::1"),
        ("0:0:0:0:0:0:0:1:41226", "0:0:0:0:0:0:0:1"),
        ("invm:0", ""),
        ("invm", ""),
        ("", ""),
        ("shop", "shop"),
    ],
)
def test_remote_hosts(address: str, host: str) -> None:
    assert remote_host(address) == host


@pytest.mark.parametrize(
    ("client_id", "user", "address", "name"),
    [
        ("shop", "u", "/10.0.0.1:5", "shop"),
        (UUID, "u", "/10.0.0.1:5", "u@10.0.0.1"),
        (UUID.upper(), "u", "", "u"),
        (f"ID:{UUID}:1", "u", "10.0.0.1:5", "u@10.0.0.1"),
        ("ID:host-40001-1795216145868-0:1", "", "10.0.0.1:5", "10.0.0.1"),
        ("", "", "", "AMQP"),
        ("IDs", "u", "10.0.0.1:5", "IDs"),
        ("pod-" + UUID, "u", "10.0.0.1:5", "pod-" + UUID),
    ],
)
def test_client_names(client_id: str, user: str, address: str, name: str) -> None:
    assert client_name(client_id, user, address, "AMQP") == name


def test_names_are_mapped_in_order_and_never_to_nothing() -> None:
    names = (
        (re.compile(r"-\w{5}$"), ""),
        (re.compile("^shop$"), "store"),
        (re.compile(".*x.*"), ""),
    )
    assert client_name("shop-ab12c", "", "", "AMQP", names) == "store"
    assert client_name("axe", "", "", "AMQP", names) == "axe"
    assert client_name("", "", "", "", names) == "unknown"
