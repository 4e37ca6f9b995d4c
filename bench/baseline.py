"""
The obvious way to do the same job: json, a dictionary a row, prometheus_client, gzip level 9.

It gets the answers that the agent got, and gives the same samples; the tests compare them one by one.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Row = dict[str, Any]
_QUEUE = ("broker", "address", "queue")
_CLIENT = (*_QUEUE, "client")


class Baseline:
    """Keeps the counters of clients from poll to poll, as the agent does."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._last: dict[str, tuple[float, float]] = {}
        self._totals: dict[tuple[str, ...], list[float]] = defaultdict(
            lambda: [0.0, 0.0]
        )
        self._settings: dict[str, Row] = {}
        self._dead_letters: dict[str, tuple[str, str]] = {}
        self._consumers: list[Row] = []
        self._queues: list[Row] = []
        self._addresses: list[Row] = []
        self._sizes: dict[str, Row] = {}
        self._producers: list[Row] = []

    def body(
        self, asked: Sequence[Sequence[Mapping[str, Any]]], answers: Iterable[bytes]
    ) -> bytes:
        """The body of `/metrics`, compressed, from the bulks of one poll and their answers."""
        self._read(asked, answers)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return gzip.compress(generate_latest(registry), 9)

    def collect(self) -> Iterator[Metric]:
        yield from self._queue_families()
        yield from self._address_families()
        yield from self._consumer_families()
        yield from self._client_families()
        yield from self._producer_families()

    def _read(
        self, asked: Sequence[Sequence[Mapping[str, Any]]], answers: Iterable[bytes]
    ) -> None:
        pages: dict[str, list[Row]] = defaultdict(list)
        for requests, body in zip(asked, answers, strict=True):
            for request, reply in zip(requests, json.loads(body), strict=True):
                if request["type"] == "exec" and request["arguments"]:
                    self._called(request, json.loads(reply["value"]), pages)
                elif "AcknowledgeAttempts" in request.get("attribute", ()):
                    rows = (
                        reply["value"]
                        if "*" in request["mbean"]
                        else {request["mbean"]: reply["value"]}
                    )
                    self._sizes |= {
                        _properties(name)["queue"]: row for name, row in rows.items()
                    }
                elif "DeadLetterAddress" in request.get("attribute", ()):
                    self._dead_letters = {
                        _properties(name)["queue"]: (
                            row["DeadLetterAddress"] or "",
                            row["ExpiryAddress"] or "",
                        )
                        for name, row in reply["value"].items()
                    }
        self._consumers = pages["listConsumers"]
        self._queues = pages["listQueues"]
        self._addresses = pages["listAddresses"]
        self._producers = pages.get("listProducers", self._producers)
        self._add_up()

    def _called(
        self, request: Mapping[str, Any], value: Any, pages: dict[str, list[Row]]
    ) -> None:
        operation = request["operation"].partition("(")[0]
        if operation == "getAddressSettingsAsJSON":
            self._settings[request["arguments"][0]] = value
        else:
            if request["arguments"][1] == 1:  # a first listing is read twice
                pages[operation].clear()
            pages[operation].extend(value["data"])

    def _add_up(self) -> None:
        last: dict[str, tuple[float, float]] = {}
        for row in self._consumers:
            now = float(row["messagesDelivered"]), float(row["messagesAcknowledged"])
            before = self._last.get(row["id"], (0.0, 0.0))
            total = self._totals[
                self._broker, row["address"], row["queue"], row["clientID"]
            ]
            for n in (0, 1):
                total[n] += now[n] - before[n] if now[n] >= before[n] else now[n]
            last[row["id"]] = now
        self._last = last

    def _queue_families(self) -> Iterator[Metric]:
        fields = {
            "mq_queue_messages": "messageCount",
            "mq_queue_delivering_messages": "deliveringCount",
            "mq_queue_scheduled_messages": "scheduledCount",
            "mq_queue_consumers": "consumerCount",
        }
        counters = {
            "mq_queue_messages_added": "messagesAdded",
            "mq_queue_messages_acknowledged": "messagesAcked",
            "mq_queue_messages_expired": "messagesExpired",
            "mq_queue_messages_killed": "messagesKilled",
        }
        labels = [(self._broker, row["address"], row["name"]) for row in self._queues]
        for name, field in fields.items():
            gauge = GaugeMetricFamily(name, name, labels=_QUEUE)
            for at, row in zip(labels, self._queues, strict=True):
                gauge.add_metric(at, float(row[field]))
            yield gauge
        for name, field in counters.items():
            counter = CounterMetricFamily(name, name, labels=_QUEUE)
            for at, row in zip(labels, self._queues, strict=True):
                counter.add_metric(at, float(row[field]))
            yield counter
        size, paused = _gauges(_QUEUE, "mq_queue_bytes", "mq_queue_paused")
        waiting, limit, used = _gauges(
            _QUEUE,
            "mq_queue_ready_messages",
            "mq_queue_ring_limit_messages",
            "mq_queue_ring_used_ratio",
        )
        info = GaugeMetricFamily(
            "mq_queue_info",
            "info",
            labels=(
                *_QUEUE,
                "routing_type",
                "durable",
                "kind",
                "ring_source",
                "owner",
                "team",
            ),
        )
        dead = GaugeMetricFamily(
            "mq_queue_dead_letter_info",
            "info",
            labels=(*_QUEUE, "dead_letter_address", "expiry_address"),
        )
        for at, row in zip(labels, self._queues, strict=True):
            ready = max(
                float(row["messageCount"])
                - float(row["deliveringCount"])
                - float(row["scheduledCount"]),
                0,
            )
            ring = float(row["ringSize"])
            size.add_metric(at, float(self._sizes[row["name"]]["PersistentSize"]))
            paused.add_metric(at, float(row["paused"] == "true"))
            waiting.add_metric(at, ready)
            if ring >= 0:
                limit.add_metric(at, ring)
                used.add_metric(at, ready / ring)
            source = "queue" if ring >= 0 else "none"
            info.add_metric(
                (
                    *at,
                    row["routingType"].lower(),
                    row["durable"],
                    "user",
                    source,
                    "",
                    "",
                ),
                1,
            )
            if (found := self._dead_letters.get(row["name"])) and any(found):
                dead.add_metric((*at, *found), 1)
        yield from (size, paused, waiting, limit, used, info, dead)

    def _address_families(self) -> Iterator[Metric]:
        names = ("broker", "address")
        fields = {
            "mq_address_memory_bytes": "addressSize",
            "mq_address_pages": "numberOfPages",
        }
        counters = {
            "mq_address_messages_added": "routedMessageCount",
            "mq_address_messages_unrouted": "unroutedMessageCount",
        }
        labels = [(self._broker, row["name"]) for row in self._addresses]
        for name, field in fields.items():
            gauge = GaugeMetricFamily(name, name, labels=names)
            for at, row in zip(labels, self._addresses, strict=True):
                gauge.add_metric(at, float(row[field]))
            yield gauge
        for name, field in counters.items():
            counter = CounterMetricFamily(name, name, labels=names)
            for at, row in zip(labels, self._addresses, strict=True):
                counter.add_metric(at, float(row[field]))
            yield counter
        messages: dict[str, float] = defaultdict(float)
        for row in self._queues:
            messages[row["address"]] += float(row["messageCount"])
        producers: dict[str, int] = defaultdict(int)
        for row in self._producers:
            producers[row["address"]] += 1
        paging, paused, used, limit = _gauges(
            names,
            "mq_address_paging",
            "mq_address_paused",
            "mq_address_memory_used_ratio",
            "mq_address_limit_bytes",
        )
        held, senders = _gauges(names, "mq_address_messages", "mq_address_producers")
        info = GaugeMetricFamily("mq_address_info", "info", labels=(*names, "policy"))
        for at, row in zip(labels, self._addresses, strict=True):
            paging.add_metric(at, float(row["paging"] == "true"))
            paused.add_metric(at, float(row["paused"] == "true"))
            held.add_metric(at, messages[row["name"]])
            senders.add_metric(at, producers[row["name"]])
            settings = self._settings.get(row["name"])
            if settings:
                used.add_metric(at, float(row["addressLimitPercent"]) / 100)
                limit.add_metric(at, settings["maxSizeBytes"])
                info.add_metric((*at, settings["addressFullMessagePolicy"].lower()), 1)
        yield from (paging, paused, used, limit, held, senders, info)

    def _consumer_families(self) -> Iterator[Metric]:
        names = (*_CLIENT, "consumer")
        held, size, delivery, settled = _gauges(
            names,
            "mq_consumer_buffered_messages",
            "mq_consumer_buffered_bytes",
            "mq_consumer_last_delivery_timestamp_seconds",
            "mq_consumer_last_acknowledgement_timestamp_seconds",
        )
        for row in self._consumers:
            at = (
                self._broker,
                row["address"],
                row["queue"],
                row["clientID"],
                row["id"],
            )
            held.add_metric(at, float(row["messagesInTransit"]))
            size.add_metric(at, float(row["messagesInTransitSize"]))
            delivery.add_metric(at, row["lastDeliveredTime"] / 1000)
            settled.add_metric(at, row["lastAcknowledgedTime"] / 1000)
        yield from (held, size, delivery, settled)

    def _client_families(self) -> Iterator[Metric]:
        sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0] * 4)
        for row in self._consumers:
            of = sums[self._broker, row["address"], row["queue"], row["clientID"]]
            of[0] += 1
            of[1] += float(row["messagesInTransit"])
            of[2] += float(row["messagesInTransitSize"])
            of[3] += float(row["messagesAcknowledgedAwaitingCommit"])
        gauges = _gauges(
            _CLIENT,
            "mq_client_consumers",
            "mq_client_buffered_messages",
            "mq_client_buffered_bytes",
            "mq_client_uncommitted_messages",
        )
        for n, gauge in enumerate(gauges):
            for at, of in sums.items():
                gauge.add_metric(at, of[n])
            yield gauge
        for n, name in enumerate(
            ("mq_client_delivered_messages", "mq_client_acknowledged_messages")
        ):
            counter = CounterMetricFamily(name, name, labels=_CLIENT)
            for at in sums:
                counter.add_metric(at, self._totals[at][n])
            yield counter

    def _producer_families(self) -> Iterator[Metric]:
        counter = CounterMetricFamily(
            "mq_client_produced_messages",
            "sent",
            labels=("broker", "address", "client"),
        )
        for row in self._producers:
            counter.add_metric(
                (self._broker, row["address"], row["clientID"]), row["msgSent"]
            )
        yield counter


def _gauges(labels: Sequence[str], *names: str) -> list[GaugeMetricFamily]:
    return [GaugeMetricFamily(name, name, labels=labels) for name in names]


def _properties(mbean: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in mbean.partition(":")[2].split(","))
    return {key: value.strip('"') for key, _, value in pairs}
