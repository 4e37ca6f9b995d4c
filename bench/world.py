"""
A large Artemis broker made up: its numbers, and its answers to Jolokia requests in their real form.

Listings are JSON texts inside JSON with numbers as strings, pattern reads name every MBean; keys, their order and the
size of the rows are those of Artemis 2.44. The text of a row is made again only when its numbers changed, so that
answering costs little more than joining.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.brokers.requests import key_of
from penstock.transports.transport import Answer

BROKER = "bench"
SECONDS_A_POLL = 15.0
EPOCH = 1_795_216_000.0
"""The broker's clock at its start, seconds since 1970."""

Numbers = NDArray[np.int64]
_DOMAIN = "org.apache.activemq.artemis"
_EARLIER = 3_600


def _listed(**fields: str | int) -> str:
    """A template for rows of a listing, quoted as they stand in the text; "%d" and "%s" are the places to fill."""
    return json.dumps(json.dumps(fields, separators=(",", ":")))[1:-1].replace(
        '\\"%n\\"', "%d"
    )


_CONSUMER = _listed(
    id="%d", session="%s", clientID="%s", user="app", validatedUser="app", protocol="CORE", queue="%s",
    queueType="anycast", filter="", address="%s", localAddress="tcp:///10.0.0.7:61616", remoteAddress="%s",
    creationTime="Fri Nov 20 23:09:05 UTC 2026", messagesInTransit="%d", messagesInTransitSize="%d",
    messagesDelivered="%d", messagesDeliveredSize="%d", messagesAcknowledged="%d",
    messagesAcknowledgedAwaitingCommit="%d", lastDeliveredTime="%n", lastAcknowledgedTime="%n", status="OK",
)  # fmt: skip
_QUEUE = _listed(
    id="%d", name="%s", address="%s", filter="", durable="true", paused="false", persistedPause="false",
    temporary="false", purgeOnNoConsumers="false", consumerCount="%d", maxConsumers="-1", autoCreated="false", user="",
    routingType="ANYCAST", messagesAdded="%d", messageCount="%d", messagesAcked="%d", messagesExpired="0",
    deliveringCount="%d", messagesKilled="0", directDeliver="false", exclusive="false", lastValue="false",
    lastValueKey="", scheduledCount="0", groupRebalance="false", groupRebalancePauseDispatch="false",
    groupBuckets="-1", groupFirstKey="", enabled="true", ringSize="%d", consumersBeforeDispatch="0",
    delayBeforeDispatch="-1", autoDelete="false", internalQueue="false",
)  # fmt: skip
_ADDRESS = _listed(
    id="%d", name="%s", routingTypes='["ANYCAST"]', queueCount="1", internal="false", temporary="false",
    autoCreated="false", paused="false", currentDuplicateIdCacheSize="0", retroactiveResource="false",
    unroutedMessageCount="0", routedMessageCount="%d", messageCount="%d", numberOfBytesPerPage="10485760",
    addressLimitPercent="%d", numberOfPages="0", addressSize="%d", maxPageReadBytes="20971520",
    maxPageReadMessages="-1", prefetchPageBytes="20971520", prefetchPageMessages="-1", paging="false",
)  # fmt: skip
_CONNECTION = _listed(
    connectionID="%s", remoteAddress="%s", users="app", creationTime="Fri Nov 20 23:09:05 UTC 2026",
    implementation="RemotingConnectionImpl", protocol="CORE", clientID="%s", localAddress="tcp:///10.0.0.7:61616",
    sessionCount=1, proxyAddress="", proxyProtocolVersion="",
)  # fmt: skip
_SESSION = _listed(
    id="%s", user="app", validatedUser="app", creationTime="Fri Nov 20 23:09:05 UTC 2026", consumerCount=1,
    producerCount="%n", connectionID="%s", clientID="%s",
)  # fmt: skip
_PRODUCER = _listed(
    id="%d", name="", session="%s", clientID="%s", user="app", validatedUser="app", protocol="CORE", address="%s",
    localAddress="tcp:///10.0.0.7:61616", remoteAddress="%s", creationTime="1795216145868", msgSent="%n",
    msgSizeSent="%n", lastProducedMessageID="",
)  # fmt: skip
_SETTINGS = json.dumps(
    json.dumps({"addressFullMessagePolicy": "PAGE", "maxSizeBytes": 104857600})
)


class World:
    """
    A broker with `queues` queues, each on an address of its own, and `consumers` consumers, each its own client with a
    connection and a session of its own. Half of the queues are rings, a tenth has a producer.

    active: share of queues that work, spread over all; their rows and their consumers' change at every step. The
    others are healthy and have nothing to do: empty, and no consumer of theirs holds a message.
    """

    def __init__(
        self, queues: int, consumers: int, *, active: float = 0.2, seed: int = 1
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._node_id = str(uuid.uuid4())
        self.steps = 0
        self.consumers = consumers
        self.names = [f"orders.region-{n % 40:02d}.step-{n:06d}" for n in range(queues)]
        self._numbered = {name: n for n, name in enumerate(self.names)}
        self.clients = [f"worker-{n:06d}.site-{n % 7}" for n in range(consumers)]
        self.works = self._random.permutation(queues) < round(active * queues)
        self._messages = np.where(
            self.works, self._random.integers(0, 1_000, queues), 0
        )
        self._added = self._random.integers(10_000, 9_000_000, queues)
        self._producers = np.arange(0, min(queues, consumers), 10)
        self.queue_of = np.arange(consumers) % max(queues, 1)
        self._ids = 500_000 + np.arange(consumers)
        self._next_id = 500_000 + consumers
        self._buffered = np.where(
            self._working(), self._random.integers(0, 200, consumers), 0
        )
        self._delivered = self._random.integers(1_000, 900_000, consumers)
        self._settled_at = np.full(consumers, int(EPOCH * 1000) - 60_000)
        self._texts: dict[str, list[str]] = {}
        self._rows: dict[str, list[str]] = {}
        self._sorted: dict[str, tuple[int, list[str]]] = {}
        self._render(np.arange(queues), np.arange(consumers))

    @property
    def now(self) -> float:
        """The broker's clock, seconds since 1970."""
        return EPOCH + self.steps * SECONDS_A_POLL

    def tick(self) -> None:
        """Time for one poll passes in which nothing happens."""
        self.steps += 1

    def rest(self) -> None:
        """Time for one poll passes, by the end of which everything is consumed and settled."""
        self.tick()
        queues = np.flatnonzero(self.works)
        consumers = np.flatnonzero(self._working())
        self._messages[queues] = 0
        self._buffered[consumers] = 0
        self._settled_at[consumers] = int(self.now * 1000)
        self._render(queues, consumers)

    def step(self, churn: float = 0.01) -> None:
        """Time for one poll passes: the active queues work, and the share `churn` of all consumers (none of those that
        also produce) reconnects.
        """
        self.tick()
        queues = np.flatnonzero(self.works)
        self._added[queues] += self._random.integers(1, 500, len(queues))
        self._messages[queues] = self._random.integers(0, 1_000, len(queues))
        consumers = np.flatnonzero(self._working())
        self._delivered[consumers] += self._random.integers(1, 300, len(consumers))
        self._buffered[consumers] = np.minimum(
            self._random.integers(0, 200, len(consumers)), self._delivered[consumers]
        )
        self._settled_at[consumers] = int(self.now * 1000) - self._random.integers(
            0, 5_000, len(consumers)
        )
        gone = self._random.permutation(
            np.setdiff1d(np.arange(len(self._ids)), self._producers)
        )
        gone = gone[: round(churn * len(self._ids))]
        self._ids[gone] = self._next_id + np.arange(len(gone))
        self._next_id += len(gone)
        self._delivered[gone] = self._buffered[gone]
        self._render(queues, np.union1d(consumers, gone))

    def _working(self) -> NDArray[np.bool_]:
        """The consumers of active queues."""
        return (
            self.works[self.queue_of]
            if len(self.works)
            else np.zeros(len(self.queue_of), np.bool_)
        )

    def answer(self, requests: Sequence[Mapping[str, Any]]) -> bytes:
        """The answer to a bulk of requests, in UTF-8."""
        return b"[" + b",".join(self._answer(request) for request in requests) + b"]"

    def _answer(self, request: Mapping[str, Any]) -> bytes:
        value = (
            self._called(request) if request["type"] == "exec" else self._read(request)
        )
        echo = json.dumps(dict(request), separators=(",", ":"))
        if value is None:
            return (
                f'{{"request":{echo},"error_type":"javax.management.InstanceNotFoundException",'.encode()
                + (
                    b'"error":"No MBean with pattern found for reading attributes","status":404}'
                )
            )
        return f'{{"request":{echo},"value":{value},"status":200}}'.encode()

    def _called(self, request: Mapping[str, Any]) -> str:
        operation = request["operation"].partition("(")[0]
        if operation == "getAddressSettingsAsJSON":
            return _SETTINGS
        if operation == "listPreparedTransactions":
            return "[]"
        options, page, rows = request["arguments"]
        listed = self._rows[operation]
        if "sortOrder" in options:
            listed = self._largest_first(operation)
        return f'"{{\\"data\\":[{",".join(listed[(page - 1) * rows : page * rows])}],\\"count\\":{len(listed)}}}"'

    def _largest_first(self, operation: str) -> list[str]:
        """The rows of listQueues or listAddresses, sorted by messages; made once a step."""
        known = self._sorted.get(operation)
        if known is None or known[0] != self.steps:
            rows = self._rows[operation]
            known = (
                self.steps,
                [rows[n] for n in np.argsort(-self._messages, kind="stable").tolist()],
            )
            self._sorted[operation] = known
        return known[1]

    def _read(self, request: Mapping[str, Any]) -> str | None:
        mbean = request["mbean"]
        first = request["attribute"][0]
        if mbean == f"{_DOMAIN}:broker=*":
            return json.dumps(
                {f'{_DOMAIN}:broker="{BROKER}"': self._broker()}, separators=(",", ":")
            )
        if "*" not in mbean and first in self._rows:
            row = self._numbered.get(key_of(mbean, "queue"))
            return (
                None
                if row is None
                else "{" + self._rows[first][row].partition('":{')[2]
            )
        if first in self._rows:
            return "{" + ",".join(self._rows[first]) + "}"
        return None

    def _broker(self) -> dict[str, Any]:
        return {
            "Version": "2.44.0",
            "Name": BROKER,
            "NodeID": self._node_id,
            "Started": True,
            "Active": True,
            "Backup": False,
            "UptimeMillis": int((self.now - EPOCH + _EARLIER) * 1000),
            "CurrentTimeMillis": int(self.now * 1000),
            "ConnectionCount": len(self._ids),
            "AddressMemoryUsage": 104857600,
            "GlobalMaxSize": 1073741824,
            "DiskStoreUsage": 0.5,
            "MaxDiskUsage": 90,
            "AuthenticationFailureCount": 0,
        }

    def _render(self, queues: Numbers, consumers: Numbers) -> None:
        """Make the texts of these queues and consumers anew, in all answers in which they stand."""
        per_queue = {
            "listQueues": self._queue,
            "listAddresses": self._address,
            "AcknowledgeAttempts": self._sizes,
            "DeadLetterAddress": self._dead_letters,
        }
        per_consumer = {
            "listConsumers": self._consumer,
            "listConnections": self._connection,
            "listSessions": self._session,
        }
        for kind, text in per_queue.items():
            self._rows[kind] = self._replace(kind, queues, len(self.names), text)
        by_id = np.argsort(self._ids).tolist()
        for kind, text in per_consumer.items():
            texts = self._replace(kind, consumers, len(self._ids), text)
            self._rows[kind] = [texts[n] for n in by_id]
        self._rows["listProducers"] = [
            self._producer(n) for n in self._producers.tolist()
        ]

    def _replace(
        self, kind: str, rows: Numbers, size: int, text: Callable[[int], str]
    ) -> list[str]:
        texts = self._texts.setdefault(kind, [""] * size)
        for row in rows.tolist():
            texts[row] = text(row)
        return texts

    def _consumer(self, n: int) -> str:
        name = self.names[self.queue_of[n]]
        held = self._buffered[n]
        delivered = self._delivered[n]
        settled = self._settled_at[n]
        return _CONSUMER % (
            self._ids[n], self._session_id(n), self.clients[n], name, name, self._remote(n),
            held, held * 1244, delivered, delivered * 1244, delivered - held, 0, settled - 20, settled,
        )  # fmt: skip

    def _queue(self, n: int) -> str:
        messages = self._messages[n]
        added = self._added[n]
        consumers = len(self._ids) // max(len(self.names), 1)
        ring = 1_000 if n % 2 else -1
        delivering = messages // 4
        return _QUEUE % (
            n + 1_000, self.names[n], self.names[n], consumers, added, messages, added - messages, delivering, ring,
        )  # fmt: skip

    def _address(self, n: int) -> str:
        messages = self._messages[n]
        return _ADDRESS % (
            n + 1_000,
            self.names[n],
            self._added[n],
            messages,
            messages // 50,
            messages * 1_500,
        )

    def _sizes(self, n: int) -> str:
        messages = self._messages[n]
        return (
            f'"{self._mbean(n)}":{{"PersistentSize":{messages * 1244},"DeliveringSize":{messages // 4 * 1244},'
            f'"AcknowledgeAttempts":{self._added[n] - messages}}}'
        )

    def _dead_letters(self, n: int) -> str:
        return f'"{self._mbean(n)}":{{"DeadLetterAddress":"DLQ","ExpiryAddress":null}}'

    def _mbean(self, n: int) -> str:
        name = f'{_DOMAIN}:address="{self.names[n]}",broker="{BROKER}",component=addresses,queue="{self.names[n]}"'
        return (name + ',routing-type="anycast",subcomponent=queues').replace(
            '"', '\\"'
        )

    def _connection(self, n: int) -> str:
        return _CONNECTION % (self._connection_id(n), self._remote(n), self.clients[n])

    def _session(self, n: int) -> str:
        return _SESSION % (
            self._session_id(n),
            n % 10 == 0,
            self._connection_id(n),
            self.clients[n],
        )

    def _producer(self, n: int) -> str:
        sent = self._added[n]
        return _PRODUCER % (
            n,
            self._session_id(n),
            self.clients[n],
            self.names[n],
            self._remote(n),
            sent,
            sent * 1244,
        )

    def _session_id(self, n: int) -> str:
        return f"{self._ids[n]:08x}-e537-11f1-ad37-02fc00000001"

    def _connection_id(self, n: int) -> str:
        return f"{self._ids[n]:08x}"

    def _remote(self, n: int) -> str:
        return f"10.{n // 60_000}.{n // 250 % 240}.{n % 250}:{20_000 + n % 40_000}"


class WorldTransport:
    """Asks a world in the same process."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def begin_poll(self) -> None:
        """Nothing to prepare."""

    async def ask(
        self,
        requests: Sequence[Mapping[str, Any]],
        timeout: float,  # noqa: ARG002
    ) -> Answer:
        return Answer(self._world.answer(requests), self._world.now, 0.0)

    async def close(self) -> None:
        """Nothing to give back."""
