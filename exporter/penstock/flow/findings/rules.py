"""
The rules of the findings: one small function each, the scene in, what it found out.

Each finds by whole columns which rows it holds on, and tells only those, at most `MOST` a rule.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.flow.findings.finding import Finding, Scope
from penstock.flow.judge import comings
from penstock.flow.judge.comings import Comings
from penstock.flow.judge.spans import Mask
from penstock.flow.series import ClientSeries, Grouping, QueueSeries
from penstock.model import AddressRow, Broker, QueueKind, QueueRow
from penstock.table import Column, Positions, Table

MOST = 100
"""Findings of one rule that are told one by one."""
APPLICATIONS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION})
"""Kinds of queue that the settings of applications speak about."""
FEW = 10.0
"""Messages or consumers: less is no habit."""
LEAST_POLLS = 5
PER_MESSAGE = 2.0
"""Messages that a consumer got when it was seen, at most, to be one for each message."""
PER_MESSAGE_NEW = 0.8
"""Share of the consumers seen that had just come."""

KNOBS: Mapping[str, str] = {
    "CORE": "a smaller consumerWindowSize",
    "AMQP": "a smaller prefetch (jms.prefetchPolicy.all, or the receiver's credit)",
    "STOMP": "a smaller consumer-window-size in the SUBSCRIBE frame",
    "OPENWIRE": "a smaller prefetch (jms.prefetchPolicy.all)",
    "MQTT": "a smaller receive maximum",
    "MQTT5": "a smaller receive maximum",
}
"""What sets the window, by protocol."""


@dataclass(frozen=True, slots=True)
class Clients:
    """
    What is known of the clients, columns by the rows of `grouping.index`.

    queue: position of its queue, -1 where that is not shown by itself. longest: longest gap that was learned, seconds.
    """

    grouping: Grouping[ClientSeries]
    queue: Positions
    consumers: Column
    window: Column
    largest: Column
    longest: Column
    protocol: Callable[[int], str]
    """By position."""
    comings: Comings
    now: float


@dataclass(frozen=True, slots=True)
class Scene:
    """
    All that the rules read. Columns of queues by the rows of `queues`.

    name: of the broker. address: position of each queue's address, -1 where unknown. clients: None where the
    broker shows none. deepest: the most messages that were ever seen in each queue.
    """

    name: str
    broker: Broker
    grouping: Grouping[QueueSeries]
    queues: Table[QueueRow]
    addresses: Table[AddressRow]
    address: Positions
    deepest: Column
    clients: Clients | None

    def of_address(self, name: str) -> Column:
        """A column of the addresses, by the queues."""
        column = np.full(len(self.queues), np.nan)
        here = self.address >= 0
        column[here] = self.addresses[name][self.address[here]]
        return column

    @property
    def applications(self) -> Mask:
        """Queues of applications that are shown one by one."""
        kind = self.grouping.index.column("of application", lambda s: float(s.kind in APPLICATIONS and not s.summed))
        mask = np.zeros(len(self.queues), np.bool_)
        shown = self.grouping.member >= 0
        mask[shown] = kind[self.grouping.member[shown]] > 0
        return mask

    @property
    def mean_bytes(self) -> Column:
        messages = self.queues["messages"]
        return np.where(messages > 0, self.queues["bytes"] / np.where(messages > 0, messages, 1), np.nan)


def of_queues(rule: str, scene: Scene, holds: Mask, **evidence: Column) -> Iterator[Finding]:
    for i in np.flatnonzero(holds)[:MOST].tolist():
        row: QueueRow = scene.queues.index.rows[i]
        yield Finding(rule, Scope.QUEUE, row.name, row.address, row.name, evidence=known(evidence, i))


def of_clients(rule: str, clients: Clients, holds: Mask, **evidence: Column) -> Iterator[Finding]:
    for i in np.flatnonzero(holds)[:MOST].tolist():
        row: ClientSeries = clients.grouping.index.rows[i]
        yield of_client(rule, row, known(evidence, i), clients.protocol(i))


def of_client(rule: str, row: ClientSeries, evidence: Mapping[str, float], protocol: str) -> Finding:
    texts = {"knob": KNOBS.get(protocol, "a smaller window or prefetch")}
    name = f"{row.queue}/{row.client}"
    return Finding(rule, Scope.CLIENT, name, row.address, row.queue, row.client, evidence, texts)


def known(evidence: Mapping[str, Column], i: int) -> dict[str, float]:
    numbers = {name: float(column[i]) for name, column in evidence.items()}
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


# --- settings of queues


def ring_on_paging_address(scene: Scene) -> Iterator[Finding]:
    """
    A ring queue whose address pages when full. All its rings full, in bytes, against the limit that makes it page.

    Where the address has no limit of its own the broker's memory is it.
    """
    ring = scene.queues["ring_limit"]
    at = scene.address
    # One more, so that the last stands for the address that is not known.
    paging = np.append(scene.addresses.index.column("pages when full", lambda row: row.policy == "page") > 0, False)
    holds = scene.applications & ~np.isnan(ring) & paging[at]
    here = ~np.isnan(ring) & (at >= 0)
    size = len(scene.addresses) + 1
    rings = np.bincount(at[here], minlength=size)[at].astype(np.float64)
    needed = np.bincount(at[here], weights=(ring * scene.mean_bytes)[here], minlength=size)[at].astype(np.float64)
    limit = np.fmin(scene.of_address("limit_bytes"), scene.broker.memory_limit_bytes)
    yield from of_queues(
        "ring_on_paging_address",
        scene,
        holds,
        ring=ring,
        rings=rings,
        mean_bytes=scene.mean_bytes,
        needed_bytes=needed,
        limit_bytes=limit,
    )


def no_dead_letter_address(scene: Scene) -> Iterator[Finding]:
    """Deliveries are limited, and nothing is there to take what fails too often."""
    attempts = scene.of_address("max_delivery_attempts")
    holds = scene.applications & (scene.queues["has_dead_letter_address"] == 0) & ~(attempts <= 0)
    yield from of_queues(
        "no_dead_letter_address", scene, holds, max_delivery_attempts=attempts, killed=scene.queues["killed"]
    )


def no_expiry_address(scene: Scene) -> Iterator[Finding]:
    """Messages have expired, and nothing is there to take them."""
    expired = scene.queues["expired"]
    holds = scene.applications & (scene.queues["has_expiry_address"] == 0) & (expired > 0)
    yield from of_queues("no_expiry_address", scene, holds, expired=expired)


def dead_letter_address_unbound(scene: Scene) -> Iterator[Finding]:
    """A dead-letter address without a queue, unless the broker makes one when the first dead letter comes."""
    made = scene.of_address("makes_dead_letter_queues") > 0
    yield from unbound("dead_letter_address_unbound", scene, "dead_letter_address", made, "killed")


def expiry_address_unbound(scene: Scene) -> Iterator[Finding]:
    """The same of an expiry address."""
    made = scene.of_address("makes_expiry_queues") > 0
    yield from unbound("expiry_address_unbound", scene, "expiry_address", made, "expired")


def code(text: str) -> float:
    """A number for a text, by which columns can be compared; 0 for none."""
    return float(hash(text) & (2**52 - 1)) if text else 0.0


def unbound(rule: str, scene: Scene, target: str, made: Mask, sent: str) -> Iterator[Finding]:
    """
    target: the field with where a queue sends to, empty where nowhere. made: the broker makes a queue there when it
    is needed. sent: the column that counts what was sent.
    """
    index = scene.queues.index
    to = index.column(f"code of {target}", lambda row: code(getattr(row, target)))
    own = index.column("code of address", lambda row: code(row.address))
    # Thousands of queues share a few of them: texts are looked at once in a row's life.
    at = np.flatnonzero((to > 0) & scene.applications & ~made)
    at = at[~np.isin(to[at], own)]
    _, first, shared = np.unique(to[at], return_index=True, return_inverse=True)
    for n in np.argsort(first)[:MOST].tolist():
        name, sources = getattr(index.rows[at[first[n]]], target), at[shared == n]
        evidence = {"sources": float(len(sources)), sent: float(np.nansum(scene.queues[sent][sources]))}
        yield Finding(rule, Scope.ADDRESS, name, name, evidence=evidence)


def unlimited_delivery_attempts(scene: Scene) -> Iterator[Finding]:
    """A poison message goes round for ever."""
    attempts = scene.addresses["max_delivery_attempts"]
    used = np.zeros(len(attempts), np.bool_)
    used[scene.address[scene.applications & (scene.address >= 0)]] = True
    for i in np.flatnonzero(used & (attempts <= 0))[:MOST].tolist():
        name = scene.addresses.index.rows[i].name
        evidence = {"max_delivery_attempts": float(attempts[i])}
        yield Finding("unlimited_delivery_attempts", Scope.ADDRESS, name, name, evidence=evidence)


# --- how clients use queues


def by_client(clients: Clients, of_queues: Column) -> Column:
    column = np.full(len(clients.queue), np.nan)
    here = clients.queue >= 0
    column[here] = of_queues[clients.queue[here]]
    return column


def window_exceeds_ring(scene: Scene) -> Iterator[Finding]:
    """All consumers of the queue with windows like this one's hold more than the ring takes back."""
    clients = scene.clients
    if clients is None:
        return
    ring = by_client(clients, scene.queues["ring_limit"])
    consumers = by_client(clients, scene.queues["consumers"])
    most = clients.window * consumers
    advised = np.maximum(np.floor(ring / np.maximum(consumers, 1)), 1)
    yield from of_clients(
        "window_exceeds_ring",
        clients,
        by_client(clients, scene.applications.astype(np.float64)) * (most > ring) > 0,
        window=clients.window,
        consumers=consumers,
        ring=ring,
        held_most=most,
        at_risk=most,
        advised=advised,
        advised_bytes=advised * by_client(clients, scene.mean_bytes),
    )


def slow_consumer_policy(scene: Scene) -> Iterator[Finding]:
    """The client's own longest gap, which is healthy, is slower than what the broker cuts off."""
    clients = scene.clients
    if clients is None:
        return
    kills = scene.of_address("slow_consumer_kills") > 0
    limit = by_client(clients, np.where(kills, scene.of_address("slow_consumer_rate"), np.nan))
    gap = np.where(clients.longest > 0, clients.longest, np.nan)
    yield from of_clients(
        "slow_consumer_policy",
        clients,
        gap * limit > 1,
        slow_rate=limit,
        gap=gap,
        rate=1 / gap,
        period=by_client(clients, scene.of_address("slow_consumer_period")),
    )


def consumer_per_message(scene: Scene) -> Iterator[Finding]:
    """At many polls, nearly all of the client's consumers had just come, and had got a message or two."""
    clients = scene.clients
    if clients is None:
        return
    came = clients.comings
    new, begin, last = came.of(comings.NEW), came.of(comings.BEGIN), came.of(comings.LAST)
    each = came.of(comings.DELIVERED) / np.maximum(new, 1)
    often = (new >= FEW) & (came.of(comings.POLLS) >= LEAST_POLLS) & (new >= PER_MESSAGE_NEW * came.of(comings.SEEN))
    for i in np.flatnonzero(often & (each <= PER_MESSAGE))[:MOST].tolist():
        evidence = {"new": float(new[i]), "seconds": float(last[i] - begin[i]), "each": float(each[i])}
        yield of_client("consumer_per_message", came.clients[i], evidence, "")


def prefetch_exceeds_queue(scene: Scene) -> Iterator[Finding]:
    """Several consumers share a queue of which the first to come can take everything."""
    clients = scene.clients
    if clients is None:
        return
    queues = scene.queues
    shared = scene.applications & ~(queues["exclusive"] > 0) & ~(queues["grouped"] > 0) & (queues["consumers"] >= 2)
    consumers = by_client(clients, np.where(shared, queues["consumers"], np.nan))
    deepest = by_client(clients, scene.deepest)
    prefetch = np.fmax(clients.window, clients.largest)
    yield from of_clients(
        "prefetch_exceeds_queue",
        clients,
        (prefetch >= FEW) & (prefetch * consumers > deepest),
        prefetch=prefetch,
        consumers=consumers,
        taken_most=prefetch * consumers,
        deepest=deepest,
        advised=np.maximum(np.floor(deepest / consumers), 1),
    )


# --- the broker


def management_guard_off(scene: Scene) -> Iterator[Finding]:
    """The broker lets this account read what an exporter must not."""
    if scene.broker.unguarded > 0:
        yield Finding("management_guard_off", Scope.BROKER, scene.name)


RULES: tuple[Callable[[Scene], Iterator[Finding]], ...] = (
    ring_on_paging_address,
    no_dead_letter_address,
    no_expiry_address,
    dead_letter_address_unbound,
    expiry_address_unbound,
    unlimited_delivery_attempts,
    window_exceeds_ring,
    slow_consumer_policy,
    consumer_per_message,
    prefetch_exceeds_queue,
    management_guard_off,
)
