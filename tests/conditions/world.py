"""
A broker in a few lines: queues whose messages come, are taken, settled, rolled back and lost, polled by a clock of its
own and judged as the agent does. Letters as in the rules: A added, K acknowledged, E expired, X killed, M depth,
D in delivery, S scheduled; of a consumer T held, W uncommitted, N delivered, C left its hands, L and Ld last times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from conditions.connected import DEFAULT_SETTINGS, Connected, Said
from conditions.things import Numbers, Things
from penstock.assessment.assess import State, Tables, advanced, shown, with_findings
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Collector,
    ConsumerRow,
    Observation,
    Process,
    QueueKind,
    QueueRow,
    RingSource,
    Role,
    Snapshot,
)
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy

START = 1_700_000_000.0

QUEUE_COLUMNS = {
    "A": "added", "K": "acknowledged", "E": "expired", "X": "killed", "M": "messages", "D": "delivering",
    "S": "scheduled", "Att": "acknowledge_attempts", "ring": "ring_limit",
}  # fmt: skip
CONSUMER_COLUMNS = {
    "T": "buffered", "W": "awaiting_commit", "N": "delivered", "C": "acknowledged", "L": "last_acknowledgement",
    "Ld": "last_delivery",
}  # fmt: skip
ZERO = dict.fromkeys(
    ("added", "acknowledged", "expired", "killed", "messages", "delivering", "scheduled", "consumers", "paused",
     "last_value", "exclusive", "grouped", "consumers_before_dispatch"), 0.0,
)  # fmt: skip
QUEUE = QueueRow(
    name="",
    address="",
    routing_type="anycast",
    durable=True,
    temporary=False,
    filter="",
    kind=QueueKind.USER,
    ring_source=RingSource.NONE,
    dead_letter_address="",
    expiry_address="",
)
TEXTS = {spec.name for spec in fields(QueueRow)}
CONSUMER_TEXTS = ("client", "session", "protocol", "connection")
ADDRESS_TEXTS = {spec.name for spec in fields(AddressRow)}


def address_numbers(said: Said) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in ADDRESS_TEXTS}


def _columns(said: Numbers, letters: Mapping[str, str]) -> dict[str, float]:
    return {
        letters.get(name, name): value
        for name, value in said.items()
        if name not in TEXTS and name != "queue"
    }


@dataclass
class Judged:
    """What is judged, poll by poll, from plain dicts. `now` is the broker's clock; `skew` it minus the agent's."""

    constants: Constants = field(default_factory=Constants)
    now: float = START
    uptime: float = 1e6
    skew: float = 0.0
    step: float = 15.0
    role: Role = Role.ACTIVE
    about: dict[str, Any] = field(default_factory=dict)
    """Further numbers of the broker: disk, memory."""
    state: State = field(default_factory=State)
    producers: dict[str, dict[str, Any]] | None = field(default_factory=dict)
    """By id `address`, `session`, `connection`, `client` and `produced`; None: they are not read."""
    settings_age: float | None = 0.0
    """Seconds since the settings of addresses were read; None: they never were."""
    default_settings: ClassVar[Numbers] = DEFAULT_SETTINGS
    policy: Policy = field(init=False)
    WITH_FINDINGS: ClassVar[bool] = False
    """They take a third of the time of a poll; the rooms whose tests look at them set it."""

    def __post_init__(self) -> None:
        self._tables: Tables | None = {}
        self.policy = Policy("b", constants=self.constants)
        self._queues = Things()
        self._addresses = Things()
        self._consumers = Things()
        self._connected = Connected()

    def poll(
        self,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers] | None = None,
        addresses: Mapping[str, Numbers] | None = None,
        *,
        after: float | None = None,
        failed: Sequence[str] = (),
        apart: float = 0.0,
    ) -> "Judged":
        """
        One poll, `after` seconds (default: the step) after the one before.

        queues: letters, columns and texts by name; consumers: letters, `queue`, `client`, `session` and `connection`
        by id; addresses: columns and `policy` by name. failed: tables that were not read. apart: seconds between two
        reads.
        """
        after = self.step if after is None else after
        self.now = self.now + after
        self.uptime = self.uptime + after
        snapshot = self.snapshot(queues, consumers or {}, addresses or {})
        reads = {
            "broker": 0.0,
            "consumers": 0.0,
            "addresses": apart,
            "queues": 2 * apart,
        }
        unread: dict[str, Any] = dict.fromkeys(failed)
        snapshot = replace(
            snapshot,
            collectors={
                n: Collector(
                    0.1, snapshot.stamp + at, "no answer" if n in failed else ""
                )
                for n, at in reads.items()
            }
            | dict(snapshot.collectors),
            **unread,
        )
        self.judge(snapshot)
        return self

    def judge(self, snapshot: Snapshot) -> None:
        """The poll that gave this snapshot."""
        self.state, connections = advanced(self.state, snapshot, self.policy)
        if self.WITH_FINDINGS:
            self.state = with_findings(self.state, snapshot, self.policy)
        self._judged = self.state, snapshot, connections
        self._tables = None

    @property
    def tables(self) -> Tables:
        """Of the last poll; made when a test looks, for most look at the conditions alone."""
        if self._tables is None:
            state, snapshot, connections = self._judged
            if not self.WITH_FINDINGS:
                state = with_findings(state, snapshot, self.policy)
            self._tables = shown(state, snapshot, connections, self.policy)
        return self._tables

    @tables.setter
    def tables(self, tables: Tables) -> None:
        self._tables = tables

    def snapshot(
        self,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers],
        addresses: Mapping[str, Numbers],
    ) -> Snapshot:
        rows = {
            name: replace(
                QUEUE,
                **{
                    "name": name,
                    "address": name,
                    **{k: v for k, v in said.items() if k in TEXTS},
                },
            )
            for name, said in queues.items()
        }
        present = {
            name: sum(c.get("queue", "q") == name for c in consumers.values())
            for name in queues
        }
        numbers = {
            name: {"consumers": present[name], **_columns(said, QUEUE_COLUMNS)}
            for name, said in queues.items()
        }
        clients = {
            name: _consumer(name, said, rows) for name, said in consumers.items()
        }
        counted = {
            name: {
                k: v
                for k, v in _columns(said, CONSUMER_COLUMNS).items()
                if k not in CONSUMER_TEXTS
            }
            for name, said in consumers.items()
        }
        policies = {
            name: said.get("policy", "page") for name, said in addresses.items()
        }
        beyond = {
            name: said.get("page_full_policy", "") for name, said in addresses.items()
        }
        names = [*dict.fromkeys([*(row.address for row in rows.values()), *addresses])]
        places = {
            name: AddressRow(
                name, policies.get(name, "page"), *filter(None, [beyond.get(name)])
            )
            for name in names
        }
        of_places = {
            name: self._settings() | address_numbers(addresses.get(name, {}))
            for name in places
        }
        consumer_table = self._consumers.table(
            clients, counted, dict.fromkeys(("buffered", "awaiting_commit"), 0.0)
        )
        queue_table = self._queues.table(rows, numbers, ZERO)
        at = {
            row.name: int(key)
            for key, row in zip(queue_table.index.keys, queue_table.index, strict=True)
        }
        broker = Broker(
            BrokerKind.ARTEMIS,
            "2.44.0",
            "",
            "node",
            self.role,
            clock=self.now,
            uptime=self.uptime,
            **self.about,
        )
        return Snapshot(
            stamp=self.now - self.skew,
            broker=broker,
            observation=Observation(Process.of(broker)),
            queues=queue_table,
            consumers=consumer_table,
            addresses=self._addresses.table(places, of_places, {}),
            consumer_queue=np.array(
                [at.get(row.queue, -1) for row in consumer_table.index], np.int64
            ),
            consumer_connection=self._connected.keys_of(
                consumers, [row.id for row in consumer_table.index]
            ),
            connections=self._connected.connection_table(
                consumers, self.producers or {}
            ),
            producers=None
            if self.producers is None
            else self._connected.producer_table(self.producers),
        )

    def _settings(self) -> dict[str, float]:
        """Of an address that the operator has set nothing for."""
        if self.settings_age is None:
            return {"settings_stamp": np.nan}
        return {
            **self.default_settings,
            "settings_stamp": self.now - self.skew - self.settings_age,
        }

    # --- what is told

    @property
    def conditions(self) -> tuple[ActiveCondition, ...]:
        return self.state.judgement.conditions

    @property
    def names(self) -> set[str]:
        """Conditions that warn."""
        return {c.name for c in self.conditions if c.severity is not Severity.INFO}

    @property
    def notices(self) -> set[str]:
        return {c.name for c in self.conditions if c.severity is Severity.INFO}

    def names_of(self, queue: str) -> set[str]:
        """Conditions of this queue and its clients that warn."""
        return {
            c.name
            for c in self.conditions
            if c.queue == queue and c.severity is not Severity.INFO
        }

    def notices_of(self, queue: str) -> set[str]:
        return {
            c.name
            for c in self.conditions
            if c.queue == queue and c.severity is Severity.INFO
        }

    def one(self, name: str) -> ActiveCondition:
        (found,) = [c for c in self.conditions if c.name == name]
        return found

    def column(self, table: str, name: str, thing: str = "q") -> float:
        """A number as it is shown of a queue (or, in the table of clients, of the only client of it)."""
        (value,) = [
            value
            for row, value in zip(
                self.tables[table].index, self.tables[table][name].tolist(), strict=True
            )
            if row.queue == thing
        ]
        return float(value)

    def evicted(self, queue: str = "q") -> float:
        """As it is shown; NaN where it is absent."""
        if "eviction" not in self.tables:
            return np.nan
        found = [
            v for row, v in zip(self.tables["eviction"].index, self.tables["eviction"]["evicted"], strict=True)
            if row.queue == queue
        ]  # fmt: skip
        return float(found[0]) if found else np.nan


def _consumer(name: str, said: Numbers, queues: Mapping[str, QueueRow]) -> ConsumerRow:
    queue = said.get("queue", "q")
    address = queues[queue].address if queue in queues else queue
    return ConsumerRow(
        id=name,
        queue=queue,
        address=address,
        client=said.get("client", "app"),
        session=said.get("session", "s" + name),
        protocol=said.get("protocol", "CORE"),
        user="u",
        remote_host="h",
        filter=said.get("filter", ""),
    )


# --- queues that live


@dataclass
class Consumer:
    """Of one queue. window: how many it holds at most."""

    client: str = "app"
    window: float = 1000
    filter: str = ""
    T: int = 0
    W: int = 0
    N: int = 0
    C: int = 0
    L: float = np.nan
    Ld: float = np.nan

    def said(self, queue: str) -> dict[str, Any]:
        return {
            "queue": queue, "client": self.client, "filter": self.filter,
            "T": self.T, "W": self.W, "N": self.N, "C": self.C, "L": self.L, "Ld": self.Ld,
        }  # fmt: skip


@dataclass
class Queue:
    """One queue, message by message, in numbers. ring: None = no limit. lost: truly; lost_by_consumers: of these."""

    broker: "World"
    name: str
    ring: float | None = None
    said: dict[str, Any] = field(default_factory=dict)
    address: dict[str, float] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    A: int = 0
    K: int = 0
    E: int = 0
    X: int = 0
    waiting: int = 0
    scheduled: int = 0
    late: int = 0
    lost: int = 0
    lost_by_consumers: int = 0
    _ids: int = 0

    def join(self, client: str = "app", **options: Any) -> Consumer:
        self._ids += 1
        consumer = Consumer(client, **options)
        self.consumers[f"{self.name}.{self._ids}"] = consumer
        return consumer

    def come(self, n: int = 1) -> None:
        self.A += n
        self._put(n)

    def schedule(self, n: int = 1) -> None:
        self.A += n
        self.scheduled += n

    def due(self, n: int = 1) -> None:
        """Scheduled messages fall due: into a full ring one is lost each."""
        self.scheduled -= n
        self._put(n)

    def expire_on_arrival(self, n: int = 1) -> None:
        """Counted as expired, and by the address as routed, never as added."""
        self.late += n
        self.E += n

    def _put(self, n: int) -> None:
        room = n if self.ring is None else int(min(n, max(0, self.ring - self.waiting)))
        self.waiting += room
        self.lost += n - room

    def take(self, consumer: Consumer, n: float = np.inf) -> None:
        n = int(min(n, self.waiting, consumer.window - consumer.T))
        if n > 0:
            self.waiting -= n
            consumer.T += n
            consumer.N += n
            consumer.Ld = self.broker.now

    def settle(self, consumer: Consumer, n: float = np.inf) -> None:
        self.acknowledge(consumer, n)
        self.commit(consumer)

    def next(self, consumer: Consumer) -> None:
        """Its job is done, and the next begins."""
        self.settle(consumer)
        self.take(consumer)

    def acknowledge(self, consumer: Consumer, n: float = np.inf) -> None:
        """In a transaction: counted as acknowledged, and in delivery until the commit."""
        n = int(min(n, consumer.T))
        if n > 0:
            consumer.T -= n
            consumer.C += n
            consumer.W += n
            consumer.L = self.broker.now

    def commit(self, consumer: Consumer) -> None:
        self.K += consumer.W
        consumer.W = 0

    def roll_back(self, consumer: Consumer) -> None:
        """Returns what is uncommitted and all that is prefetched, which counts as acknowledged."""
        consumer.C += consumer.T
        consumer.L = self.broker.now
        back = consumer.T + consumer.W
        consumer.T = 0
        consumer.W = 0
        self._return(back)

    def close(self, consumer: Consumer) -> None:
        self.consumers = {
            name: c for name, c in self.consumers.items() if c is not consumer
        }
        self._return(consumer.T + consumer.W)

    def _return(self, n: int) -> None:
        before = self.lost
        self._put(n)
        self.lost_by_consumers += self.lost - before

    def queue_said(self) -> dict[str, Any]:
        delivering = sum(c.T + c.W for c in self.consumers.values())
        numbers: dict[str, Any] = {
            "A": self.A,
            "K": self.K,
            "E": self.E,
            "X": self.X,
            "S": self.scheduled,
        }
        numbers |= {"D": delivering, "M": self.waiting + self.scheduled + delivering}
        numbers["Att"] = self.K
        if self.ring is not None:
            numbers["ring"] = self.ring
        return {**numbers, "consumers": len(self.consumers), **self.said}

    def consumers_said(self) -> dict[str, Numbers]:
        return {
            name: consumer.said(self.name) for name, consumer in self.consumers.items()
        }


class Rate:
    """So many messages per second, whole ones."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._due = 0.0

    def __call__(self, seconds: float) -> int:
        self._due += self._per_second * seconds
        whole = int(self._due + 1e-9)
        self._due -= whole
        return whole


Live = Callable[[float], None]
"""What happens in so many seconds."""


class World(Judged):
    """
    Queues that live, polled every `step` seconds.

    apart: seconds between the reading of the consumers, of the addresses and of the queues. blind: every n-th poll has
    no consumers. missed: (from, to) seconds since the begin without any poll.
    """

    def __init__(
        self,
        step: float = 15.0,
        *,
        apart: float = 0.0,
        blind: int = 0,
        missed: tuple[float, float] = (0.0, 0.0),
        constants: Constants | None = None,
    ) -> None:
        super().__init__(constants=constants or Constants(), step=step)
        self.apart = apart
        self.blind = blind
        self.missed = missed
        self.queues: dict[str, Queue] = {}
        self.polls = 0
        self.begin = self.now
        self.first: dict[str, float] = {}
        """Condition → seconds from the begin to when it was first told, notices with a `?` behind the name."""
        self.last: dict[str, float] = {}

    def queue(self, name: str = "q", **options: Any) -> Queue:
        said = {
            key: options.pop(key)
            for key in [*options]
            if key not in ("ring", "address")
        }
        self.queues[name] = Queue(self, name, said=said, **options)
        return self.queues[name]

    @property
    def seconds(self) -> float:
        return self.now - self.begin

    def run(
        self, seconds: float, live: Live = lambda _: None, *, tick: float = 1.0
    ) -> "World":
        """Let `live` happen in ticks for so long, and poll."""
        for _ in range(round(seconds / tick)):
            self._pass(tick, live)
            if round(self.seconds / tick) % round(self.step / tick) == 0:
                self.look(live)
        return self

    def _pass(self, seconds: float, live: Live) -> None:
        self.now += seconds
        self.uptime += seconds
        live(seconds)

    def look(self, live: Live = lambda _: None) -> None:
        """A poll in the reader's order: consumers, addresses, then the queues."""
        now = self.now
        uptime = self.uptime
        consumers = {
            name: said
            for queue in self.queues.values()
            for name, said in queue.consumers_said().items()
        }
        if self.apart:
            self._pass(self.apart, live)
        addresses = {
            name: {"messages_added": queue.A + queue.late, **queue.address}
            for name, queue in self.queues.items()
        }
        if self.apart:
            self._pass(self.apart, live)
        queues = {name: queue.queue_said() for name, queue in self.queues.items()}
        self.now = now
        self.uptime = uptime
        if self.missed[0] < self.seconds <= self.missed[1]:
            return
        self.polls += 1
        blind = self.blind and self.polls % self.blind == 0
        self.poll(
            queues,
            consumers,
            addresses,
            after=0.0,
            failed=("consumers",) if blind else (),
            apart=self.apart,
        )
        for condition in self.conditions:
            name = condition.name + ("?" if condition.severity is Severity.INFO else "")
            self.first.setdefault(name, self.seconds)
            self.last[name] = self.seconds

    @property
    def alarms(self) -> set[str]:
        """Conditions that warned at any time."""
        return {name for name in self.first if not name.endswith("?")}

    def restart(self, seconds: float = 10.0) -> None:
        """The broker's process starts anew: counters begin again, what waits is reloaded, consumers are gone."""
        self.now += seconds
        self.uptime = seconds
        for queue in self.queues.values():
            for consumer in [*queue.consumers.values()]:
                queue.close(consumer)
            queue.A = queue.waiting + queue.scheduled
            queue.K = 0
            queue.E = 0
            queue.X = 0
