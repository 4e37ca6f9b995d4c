"""Every number against what the clients themselves did, on the oldest, the usual and the newest version."""

import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.conftest import Observer
from penstock.brokers.artemis.answers import (
    AddressNumbers,
    ConnectionListed,
    ConsumerNumbers,
    ProducerListed,
    QueueNumbers,
    SessionListed,
)
from penstock.brokers.artemis.listings import ListingDecoder, listing_page
from penstock.brokers.artemis.requests import LISTINGS, listing
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock_demo.broker import Broker, Endpoint
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from rig.day_and_night import versions
from rig.drivers import (
    AmqpConsumer,
    AmqpHolder,
    AmqpProducer,
    AmqpTransaction,
    ClientError,
    OpenTransaction,
    StompConsumer,
    StompProducer,
)
from rig.waiting import eventually

pytestmark = pytest.mark.broker

Unique = Callable[[str], str]

AN_HOUR_MS = 3_600_000


def set_address(
    broker: Broker,
    match: str,
    *,
    dead: str = "",
    expiry: str = "",
    max_bytes: int = -1,
    policy: str = "PAGE",
) -> None:
    """Address settings, also on versions whose management does not take them as JSON."""
    if broker.version == "2.28.0":
        types = (
            "String,String,String,long,boolean,int,long,int,int,"
            "long,double,long,long,boolean,String,long,long,String"
        )
        signature = (types + ",boolean" * 4).replace("String", "java.lang.String")
        delivery = [-1, False, 10, max_bytes, 10_000, 5, 0, 1.0, 0, -1, False]
        rest = [policy, -1, 5, "NOTIFY", True, False, True, False]
        operation = f"addAddressSettings({signature})"
        broker.manage.call(
            broker.manage.broker, operation, match, dead, expiry, *delivery, *rest
        )
        return
    addresses = {"deadLetterAddress": dead, "expiryAddress": expiry}
    limits = {
        "maxSizeBytes": max_bytes,
        "pageSizeBytes": 10_000,
        "addressFullMessagePolicy": policy,
    }
    broker.manage.add_settings(
        match, **limits, **{name: to for name, to in addresses.items() if to}
    )


def of_queue(name: str, *wanted: str) -> Callable[[Scrape], dict[str, float]]:
    return lambda scrape: scrape.numbers("mq_queue_", wanted, queue=name)


def of_address(name: str, *wanted: str) -> Callable[[Scrape], dict[str, float]]:
    return lambda scrape: scrape.numbers("mq_address_", wanted, address=name)


def of_client(name: str, *wanted: str) -> Callable[[Scrape], dict[str, float]]:
    return lambda scrape: scrape.numbers("mq_client_", wanted, client=name)


ROW_TYPES: dict[str, type[Any]] = {
    "listConsumers": ConsumerNumbers, "listQueues": QueueNumbers, "listAddresses": AddressNumbers,
    "listConnections": ConnectionListed, "listSessions": SessionListed, "listProducers": ProducerListed,
}  # fmt: skip
AWKWARD = 'a {"id":"1"} and },{\\ of é'
"""Part of a client id that looks like a row of a listing."""


@pytest.mark.parametrize(
    "version", versions("artemis_2_21", "artemis_2_28", "artemis", "artemis_newest")
)
async def test_listings_of_every_version_can_be_cut_into_rows(
    version: str, request: pytest.FixtureRequest, unique: Unique
) -> None:
    """Or else unchanged rows are read at every poll, and nobody notices."""
    broker = request.getfixturevalue(version)
    name = unique("q")
    client = unique(AWKWARD)
    broker.manage.create_queue(name)
    target = JolokiaTarget(
        broker.jolokia_url,
        broker.admin.user,
        lambda: broker.admin.password,
        origin=broker.origin,
    )
    with (
        AmqpProducer(broker.endpoint(), name, client_id=unique("sender")),
        AmqpHolder(broker.endpoint(), name, credit=1, client_id=client),
    ):
        async with AsyncExitStack() as closing:
            transport = JolokiaTransport(target)
            closing.push_async_callback(transport.close)
            for operation in LISTINGS:
                page = listing_page(
                    (await transport.ask([listing(broker.name, operation)], 30)).body
                )
                text = page.whole().value
                assert text is not None
                rows = json.loads(text)["data"]
                assert len(page.rows) == len(rows) == page.total > 0, operation
                assert json.loads(page.some(np.arange(len(rows))))["data"] == rows
                decoder: ListingDecoder[Any] = ListingDecoder(
                    ROW_TYPES[operation], operation
                )
                assert decoder.exactly(page, np.arange(len(rows))) is not None
                assert operation != "listConsumers" or client in {
                    row["clientID"] for row in rows
                }


def test_amqp_client_that_holds_and_acknowledges(
    observer: Observer, unique: Unique
) -> None:
    broker = observer.broker
    name = unique("q")
    sender = unique("sender")
    reader = unique("reader")
    broker.manage.create_queue(name)
    with (
        AmqpProducer(broker.endpoint(), name, client_id=sender) as producer,
        AmqpHolder(broker.endpoint(), name, credit=7, client_id=reader) as holder,
    ):
        producer.send(20)
        producer.send(3, delay_ms=AN_HOUR_MS)
        eventually(lambda: holder.counts.received, 7)
        holder.acknowledge(3)
        queue = {
            "messages": 20, "ready_messages": 13, "delivering_messages": 4, "scheduled_messages": 3, "consumers": 1,
            "paused": 0, "messages_added_total": 23, "messages_acknowledged_total": 3, "messages_expired_total": 0,
            "messages_killed_total": 0,
        }  # fmt: skip
        client = {
            "consumers": 1, "buffered_messages": 4, "uncommitted_messages": 0, "delivered_messages_total": 7,
            "acknowledged_messages_total": 3,
        }  # fmt: skip
        observer.until(of_queue(name, *queue), queue)
        observer.until(of_client(reader, *client), client)
        produced = {"produced_messages_total": producer.counts.sent}
        observer.until(of_client(sender, *produced), produced)
        address = {
            "messages": 20,
            "messages_added_total": 23,
            "messages_unrouted_total": 0,
            "producers": 1,
            "pages": 0,
        }
        scrape = observer.until(of_address(name, *address), address)

        size = scrape.value("mq_queue_bytes", queue=name)
        assert 20 * 200 < size < 20 * 1000
        assert 0 < scrape.value("mq_client_buffered_bytes", client=reader) < size
        assert scrape.value("mq_address_memory_bytes", address=name) > 20 * 200
        consumer = scrape.numbers(
            "mq_consumer_", ["buffered_messages", "buffered_bytes"], client=reader
        )
        assert consumer == {
            "buffered_messages": 4,
            "buffered_bytes": scrape.value("mq_client_buffered_bytes", client=reader),
        }
        acknowledged = scrape.value(
            "mq_consumer_last_acknowledgement_timestamp_seconds", client=reader
        )
        assert abs(acknowledged - holder.counts.last_ack) < 1
        assert (
            abs(
                scrape.value(
                    "mq_consumer_last_delivery_timestamp_seconds", client=reader
                )
                - acknowledged
            )
            < 5
        )
        assert scrape.value("mq_connection_buffered_messages", client=reader) == 4
        assert (
            scrape.value("mq_connection_buffered_bytes", client=reader)
            == consumer["buffered_bytes"]
        )
        connection = {"consumers": 1, "producers": 0, "sessions": 1}
        assert scrape.numbers("mq_connection_", connection, client=reader) == connection
        labels, _ = scrape.find("mq_connection_info", client=reader)[0]
        assert (labels["protocol"], labels["user"], labels["remote_host"]) == (
            "AMQP",
            "admin",
            "127.0.0.1",
        )

        holder.acknowledge(4)
        observer.until(
            of_queue(name, "messages_acknowledged_total"),
            {"messages_acknowledged_total": 7},
        )
    gone = observer.fresh()
    assert {sender, reader}.isdisjoint(
        gone.names("client", "mq_consumer_") | gone.names("client", "mq_client_b")
    )
    assert gone.value("mq_queue_consumers", queue=name) == 0
    # Connections and producers are read less often where that takes the broker long.
    observer.until(lambda scrape: {sender, reader} & scrape.names("client"), set())


def test_stomp_client(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    name = unique("q")
    sender = unique("sender")
    reader = unique("reader")
    broker.manage.create_queue(name)
    with (
        StompProducer(broker.endpoint(), name, client_id=sender) as producer,
        StompConsumer(
            broker.endpoint(), name, acknowledge=False, client_id=reader
        ) as holder,
    ):
        producer.send(6)
        eventually(lambda: holder.counts.received, 6)
        holder.acknowledge(2)
        client = {
            "buffered_messages": 4,
            "delivered_messages_total": 6,
            "acknowledged_messages_total": 2,
        }
        observer.until(of_client(reader, *client), client)
        scrape = observer.until(
            of_client(sender, "produced_messages_total"), {"produced_messages_total": 6}
        )
        observer.until(
            lambda scrape: len(
                scrape.find("mq_connection_info", client=reader, protocol="STOMP")
            ),
            1,
        )
        acknowledged = scrape.value(
            "mq_consumer_last_acknowledgement_timestamp_seconds", client=reader
        )
        assert abs(acknowledged - holder.counts.last_ack) < 1


def test_open_transactions(observer: Observer, unique: Unique, tmp_path: Path) -> None:
    """AMQP, and Core (JMS)."""
    broker = observer.broker
    amqp = unique("amqp")
    core = unique("core")
    broker.manage.create_queues([amqp, core])
    for name in (amqp, core):
        with AmqpProducer(broker.endpoint(), name) as producer:
            producer.send(6)
    with (
        AmqpTransaction(broker.endpoint(), amqp, credit=5, client_id=amqp) as client,
        OpenTransaction(broker.endpoint(), core, tmp_path, client_id=core),
    ):
        uncommitted = {"uncommitted_messages": 5.0, "buffered_messages": 0.0}
        observer.until(of_client(amqp, *uncommitted), uncommitted)
        uncommitted = {"uncommitted_messages": 6.0, "buffered_messages": 0.0}
        scrape = observer.until(of_client(core, *uncommitted), uncommitted)
        observer.until(
            lambda scrape: len(
                scrape.find("mq_connection_info", client=core, protocol="CORE")
            ),
            1,
        )
        queue = {
            "messages": 6.0,
            "delivering_messages": 6.0,
            "messages_acknowledged_total": 0.0,
        }
        assert of_queue(core, *queue)(scrape) == queue
        client.commit()
        settled = {
            "messages": 1.0,
            "delivering_messages": 0.0,
            "messages_acknowledged_total": 5.0,
        }
        observer.until(of_queue(amqp, *settled), settled)


def test_counters_survive_a_reconnect(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    name = unique("q")
    reader = unique("reader")
    broker.manage.create_queue(name)
    with AmqpProducer(broker.endpoint(), name) as producer:
        for sent in (4, 8):
            with AmqpConsumer(broker.endpoint(), name, client_id=reader):
                producer.send(4)
                counters = {
                    "delivered_messages_total": float(sent),
                    "acknowledged_messages_total": float(sent),
                }
                observer.until(of_client(reader, *counters), counters)
            observer.until(of_client(reader, *counters), {})


def test_rings_expiry_and_purge(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    ring = unique("ring")
    expired = unique("expired")
    purged = unique("purged")
    broker.manage.create_queue(ring, ring_size=10)
    broker.manage.create_queues([expired, purged])
    with AmqpProducer(broker.endpoint(), ring) as producer:
        producer.send(25)
    with AmqpProducer(broker.endpoint(), expired) as producer:
        producer.send(5, ttl=0.001)
    with AmqpProducer(broker.endpoint(), purged) as producer:
        producer.send(4)
    assert broker.manage.purge(purged) == 4
    time.sleep(0.01)  # past the time to live; the first consumer finds them expired
    with AmqpConsumer(broker.endpoint(), expired, credit=10) as consumer:
        full = {
            "ring_limit_messages": 10.0,
            "ring_used_ratio": 1.0,
            "messages": 10.0,
            "messages_added_total": 25.0,
        }
        observer.until(of_queue(ring, *full), full)
        observer.until(
            of_queue(expired, "messages_expired_total"), {"messages_expired_total": 5}
        )
        assert consumer.counts.received == 0
    scrape = observer.until(
        of_queue(purged, "messages_killed_total"), {"messages_killed_total": 4}
    )
    assert of_queue(purged, "ring_limit_messages", "ring_used_ratio")(scrape) == {}
    broker.manage.update_queue(ring, ring_size=5)
    observer.until(of_queue(ring, "ring_used_ratio"), {"ring_used_ratio": 2})


def test_addresses(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    paging = unique("paging")
    full = unique("full")
    empty = unique("empty")
    set_address(broker, paging, max_bytes=20_000)
    set_address(broker, full, max_bytes=20_000, policy="FAIL")
    broker.manage.create_queues([paging, full])
    broker.manage.create_queue(f"{empty}.none", address=empty, routing_type="multicast")
    broker.manage.destroy_queue(f"{empty}.none")
    with (
        AmqpProducer(broker.endpoint(), paging) as pager,
        AmqpProducer(broker.endpoint(), full) as failing,
        AmqpProducer(broker.endpoint(), empty, topic=True) as unheard,
    ):
        pager.send(100, wait=True)
        failing.send(100)
        unheard.send(3)
        assert failing.counts.refused
        pages: dict[str, float] = {
            "messages": 100,
            "paging": 1,
            "limit_bytes": 20_000,
            "producers": 1,
        }
        scrape = observer.until(of_address(paging, *pages), pages)
        assert scrape.value("mq_address_pages", address=paging) >= 1
        assert scrape.value("mq_queue_ready_messages", queue=paging) == 100
        limited: dict[str, float] = {
            "messages": failing.counts.sent,
            "limit_bytes": 20_000,
        }
        observer.until(of_address(full, *limited), limited)
        ratio = "mq_address_memory_used_ratio"
        observer.until(
            lambda scrape: 1 <= scrape.value(ratio, address=full) < 1.5, expected=True
        )
        scrape = observer.until(
            of_address(empty, "messages_unrouted_total"), {"messages_unrouted_total": 3}
        )
        assert scrape.find("mq_address_info", address=paging, policy="page")
        assert scrape.find("mq_address_info", address=full, policy="fail")
        assert of_address(empty, "limit_bytes", "memory_used_ratio")(scrape) == {}
        if broker.version != "2.28.0":
            broker.manage.add_settings(
                counted := unique("counted"), maxSizeMessages=1000
            )
            broker.manage.create_queue(counted)
            observer.until(
                of_address(counted, "limit_messages"), {"limit_messages": 1000}
            )


def test_what_operators_pause(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    queue = unique("queue")
    address = unique("address")
    blocked = unique("blocked")
    broker.manage.create_queues([queue, address, blocked])
    broker.manage.pause_queue(queue)
    broker.manage.pause_address(address)
    # Addresses are read before queues: one made in between shows a poll later.
    observer.until(of_address(address, "paused"), {"paused": 1})
    scrape = observer.until(of_queue(queue, "paused"), {"paused": 1})
    scrape = observer.until(of_address(queue, "paused"), {"paused": 0})
    assert scrape.value("mq_queue_paused", queue=blocked) == 0
    if broker.version < "2.50":
        assert not scrape.find("mq_address_producers_paused")
    else:
        broker.manage.call(broker.manage.address_mbean(blocked), "block()")
        wanted = ("producers_paused",)
        scrape = observer.until(
            of_address(blocked, *wanted), {"producers_paused": 1}, timeout=90
        )
        assert scrape.value("mq_address_producers_paused", address=queue) == 0
        broker.manage.call(broker.manage.address_mbean(blocked), "unblock()")
    broker.manage.resume_queue(queue)
    broker.manage.resume_address(address)
    scrape = observer.until(of_queue(queue, "paused"), {"paused": 0})
    assert scrape.value("mq_address_paused", address=address) == 0


def test_what_the_operator_wants(main_observer: Observer, unique: Unique) -> None:
    queue = unique("targets")
    main_observer.broker.manage.create_queue(queue)
    wanted = {
        "expected_consumers": 1,
        "ring_retention_target_seconds": 60,
        "drain_target_seconds": 30,
    }
    main_observer.until(of_queue(queue, *wanted), wanted)


def test_kinds_and_temporary_queues(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    topic = unique("topic")
    work = unique("work")
    dead = unique("dead")
    expiry = unique("expiry")
    reader = unique("reader").replace(".", "_")
    set_address(broker, work, dead=dead, expiry=expiry)
    broker.manage.create_queues([work, dead, expiry])
    broker.manage.create_queue(f"{work}.late", address=work, durable=False)
    with (
        AmqpHolder(broker.endpoint(), temporary=True, credit=1) as reply,
        AmqpHolder(
            broker.endpoint(),
            topic,
            topic=True,
            durable="sub",
            client_id=reader,
            credit=1,
        ) as durable,
        AmqpHolder(
            broker.endpoint(),
            topic,
            topic=True,
            credit=2,
            client_id=f"{reader}.volatile",
        ),
        AmqpProducer(broker.endpoint(), topic, topic=True) as producer,
        AmqpProducer(
            broker.endpoint(), reply.address, client_id=f"{reader}.replier"
        ) as replier,
    ):
        producer.send(4)
        replier.send(3)

        def kinds(scrape: Scrape) -> set[tuple[str, ...]]:
            wanted = {"kind", "durable", "routing_type"}
            found = [
                labels
                for labels, _ in scrape.find("mq_queue_info")
                if labels["address"] in mine
            ]
            return {
                (
                    labels["queue"],
                    labels["address"],
                    *(labels[key] for key in sorted(wanted)),
                )
                for labels in found
            }

        mine = {topic, work, dead, expiry}
        observer.until(
            kinds,
            {
                (f"{reader}.sub", topic, "true", "subscription", "multicast"),
                ("(non-durable)", topic, "false", "subscription", "multicast"),
                (work, work, "true", "user", "anycast"),
                (f"{work}.late", work, "false", "user", "anycast"),
                (dead, dead, "true", "dead_letter", "anycast"),
                (expiry, expiry, "true", "expiry", "anycast"),
            },
        )
        scrape = (
            observer.fresh()
        )  # the kinds may be those of a poll that began before the messages were sent
        (to,) = scrape.find("mq_queue_dead_letter_info", queue=work)
        assert (to[0]["dead_letter_address"], to[0]["expiry_address"]) == (dead, expiry)
        assert scrape.value("mq_queue_messages", queue=f"{reader}.sub") == 4
        assert (
            scrape.value(
                "mq_queue_delivering_messages", queue="(non-durable)", address=topic
            )
            == 2
        )
        assert scrape.value("mq_queue_messages", queue="(temporary)") >= 3
        assert scrape.value("mq_address_messages", address=topic) == 8
        assert (
            scrape.value(
                "mq_client_buffered_messages",
                client=f"{reader}.volatile",
                queue="(non-durable)",
            )
            == 2
        )
        produced = {"produced_messages_total": 3.0}
        scrape = observer.until(of_client(f"{reader}.replier", *produced), produced)
        assert reply.address not in scrape.names("queue") | scrape.names("address")
        durable.unsubscribe()


def test_bridge(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    source = unique("source")
    target = unique("target")
    bridge = unique("bridge")
    manage = broker.manage
    manage.create_queues([source, target])
    manage.call(
        manage.broker,
        "addConnector(java.lang.String,java.lang.String)",
        bridge,
        f"tcp://{broker.host}:{broker.port}",
    )
    settings = {
        "name": bridge,
        "queue-name": source,
        "forwarding-address": target,
        "static-connectors": [bridge],
        "user": broker.admin.user,
        "password": broker.admin.password,
        "confirmation-window-size": 10_000,
    }
    manage.call(manage.broker, "createBridge(java.lang.String)", json.dumps(settings))

    def link(scrape: Scrape) -> dict[str, float]:
        return scrape.numbers(
            "mq_link_", ["up", "pending_messages"], link=bridge, kind="bridge"
        )

    with AmqpProducer(broker.endpoint(), source) as producer:
        producer.send(5)
        scrape = observer.until(link, {"up": 1, "pending_messages": 0})
        observer.until(of_queue(target, "messages"), {"messages": 5})
        manage.call(f'{manage.broker},component=bridges,name="{bridge}"', "stop()")
        producer.send(2)
        observer.until(link, {"up": 0, "pending_messages": 2})
    manage.call(manage.broker, "destroyBridge(java.lang.String)", bridge)
    scrape = observer.until(link, {})
    assert scrape.value("mq_queue_messages", queue=source) == 2


def test_broker_itself(observer: Observer, unique: Unique) -> None:
    broker = observer.broker
    name = unique("q")
    manage = broker.manage
    broker.manage.create_queue(name)
    uptime = manage.read(manage.broker, "UptimeMillis") / 1000
    scrape = observer.fresh()
    assert scrape.value("mq_up") == 1
    ((labels, _),) = scrape.find("mq_broker_info")
    assert labels == {
        "broker": broker.name, "kind": "artemis", "version": broker.version, "product_version": "",
        "node_id": manage.read(manage.broker, "NodeID"), "role": "active",
    }  # fmt: skip
    assert (
        abs(scrape.value("mq_broker_start_timestamp_seconds") - (time.time() - uptime))
        < 3
    )
    assert (
        0
        < scrape.value("mq_broker_disk_used_ratio")
        < scrape.value("mq_broker_disk_limit_ratio")
        <= 1
    )
    assert scrape.value("mq_broker_memory_limit_bytes") == manage.read(
        manage.broker, "GlobalMaxSize"
    )
    skew = scrape.numbers("mq_broker_clock_skew_", ["seconds"])
    if broker.version == "2.28.0":
        assert skew == {}
        assert not scrape.find("mq_broker_authentication_failures_total")
    else:
        assert abs(skew["seconds"]) < 0.2
        before = scrape.value("mq_broker_authentication_failures_total")
        with pytest.raises((DemoError, ClientError)):
            StompProducer(
                Endpoint(broker.host, broker.port, Account("admin", "wrong")), name
            )
        observer.until(
            lambda scrape: scrape.value("mq_broker_authentication_failures_total"),
            before + 1,
        )
    connections, used = (
        scrape.value(f"mq_broker_{what}")
        for what in ("connections", "memory_used_bytes")
    )
    with AmqpProducer(broker.endpoint(), name) as producer:
        producer.send(10, properties={"pad": "x" * 10_000})
        observer.until(
            lambda scrape: scrape.value("mq_broker_connections"), connections + 1
        )
        observer.until(
            lambda scrape: scrape.value("mq_broker_memory_used_bytes") > used + 100_000,
            expected=True,
        )


def test_agent_about_its_polls(observer: Observer) -> None:
    warm = 4  # the first polls of a broker that has just started may take longer than their interval
    first = observer.until(
        lambda scrape: _polls(scrape).get("ok", 0) >= warm, expected=True
    )
    later = observer.until(
        lambda scrape: _polls(scrape)["ok"] >= _polls(first)["ok"] + 2, expected=True
    )
    assert _polls(later).keys() == {"ok", "partial", "failed", "skipped"}
    rose = {
        result
        for result in _polls(later)
        if _polls(later)[result] > _polls(first)[result]
    }
    assert rose - {"skipped"} == {"ok"}, (
        "on a busy machine a poll may take longer than its second"
    )
    collectors = {
        labels["collector"]: value
        for labels, value in later.find("penstock_collector_success")
    }
    assert {
        "broker",
        "addresses",
        "queues",
        "sizes",
        "consumers",
        "links",
    } <= collectors.keys()
    assert set(collectors.values()) == {1}
    assert all(
        0 < value < 1 for _, value in later.find("penstock_collector_duration_seconds")
    )
    assert 0 < later.value("penstock_poll_duration_seconds") < 1
    of_the_agent = "penstock_broker_expected"
    shown = [
        one for one in later.samples if "broker" in one[1] and one[0] != of_the_agent
    ]
    assert later.value("penstock_series") == len(shown)
    assert later.value("penstock_config_last_reload_successful") == 1


def _polls(scrape: Scrape) -> dict[str, float]:
    return {
        labels["result"]: value for labels, value in scrape.find("penstock_polls_total")
    }


@pytest.mark.nightly  # a broker of its own version
def test_version_without_numbers_per_consumer(
    artemis_2_21: Broker, observe: Callable[[Broker], Observer], unique: Unique
) -> None:
    broker = artemis_2_21
    observer = observe(artemis_2_21)
    name = unique("q")
    reader = unique("reader")
    broker.manage.create_queue(name, ring_size=50)
    with (
        AmqpProducer(broker.endpoint(), name) as producer,
        AmqpHolder(broker.endpoint(), name, credit=7, client_id=reader) as holder,
    ):
        producer.send(20)
        eventually(lambda: holder.counts.received, 7)
        holder.acknowledge(3)
        queue: dict[str, float] = {
            "messages": 17, "ready_messages": 13, "delivering_messages": 4, "consumers": 1, "ring_limit_messages": 50,
            "messages_added_total": 20, "messages_acknowledged_total": 3,
        }  # fmt: skip
        observer.until(of_queue(name, *queue), queue)
        scrape = observer.until(of_client(reader, "consumers"), {"consumers": 1})
        per_consumer = {
            family
            for family, labels, _ in scrape.samples
            if labels.get("client") == reader
        }
        assert per_consumer <= {
            "mq_client_consumers", "mq_connection_info", "mq_connection_consumers", "mq_connection_producers",
            "mq_connection_sessions",
        }  # fmt: skip
    _, page = observer.agent.request("/")
    assert "no numbers per consumer" in page


def test_series_limits(artemis: Broker, unique: Unique, tmp_path: Path) -> None:
    """The worst consumers alone are shown one by one; the others are counted."""
    name = unique("q")
    artemis.manage.create_queue(name)
    only = entry(artemis, include=[{"queue": name}])
    with (
        AmqpProducer(artemis.endpoint(), name) as producer,
        AmqpHolder(artemis.endpoint(), name, credit=5, client_id=f"{name}.worst"),
        AmqpHolder(artemis.endpoint(), name, credit=0, client_id=f"{name}.idle"),
        Agent(
            tmp_path / "agent",
            brokers=[only],
            series={"consumers_per_queue": 1, "connections": 1},
        ) as agent,
    ):
        producer.send(5)
        scrape = agent.until(
            lambda scrape: scrape.names("client", "mq_consumer_"), {f"{name}.worst"}
        )
        assert scrape.names("client", "mq_client_consumers") == {
            f"{name}.worst",
            f"{name}.idle",
        }
        assert scrape.value("penstock_series_dropped") >= 4
        assert scrape.names("queue") == {name}


def test_a_consumer_that_was_among_the_worst_stays_shown_for_a_while(
    artemis: Broker, unique: Unique, tmp_path: Path
) -> None:
    """One alone is shown; when another takes its place both are, for three polls: series do not come and go."""
    name = unique("q")
    artemis.manage.create_queue(name)
    only = entry(artemis, include=[{"queue": name}])
    with (
        AmqpProducer(artemis.endpoint(), name) as producer,
        AmqpHolder(artemis.endpoint(), name, credit=5, client_id=f"{name}.a") as first,
        AmqpHolder(artemis.endpoint(), name, credit=0, client_id=f"{name}.b") as second,
        Agent(
            tmp_path / "agent", brokers=[only], series={"consumers_per_queue": 1}
        ) as agent,
    ):

        def shown(scrape: Scrape) -> set[str]:
            return {
                client.removeprefix(name)
                for client in scrape.names("client", "mq_consumer_")
            }

        producer.send(5)
        agent.until(shown, {".a"})
        first.acknowledge(5)
        second.flow(1)
        producer.send(1)
        agent.until(shown, {".a", ".b"})
        agent.until(shown, {".b"})
        assert agent.scrape().value("penstock_series_dropped") >= 2
