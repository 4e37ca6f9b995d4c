"""All that the rules of one poll read, gathered; and the frames that new rules read in place of it.

A frame (`Queues`, `Consumers`, …) has all numbers about one kind of thing, by name: those that the broker sent, and
those that Penstock adds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column, Index, Mask, Table
from penstock.core.windows import Window
from penstock.model import Broker, LeftOut, Snapshot
from penstock.observation.activity import Activity, Returns, Trend
from penstock.observation.buffers import Buffers
from penstock.observation.facts import Facts
from penstock.observation.frames import (
    Addresses,
    Clients,
    Connections,
    Consumers,
    Producers,
    Queues,
)
from penstock.observation.losses import Evictions, Losses
from penstock.observation.openmq import Openmq
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.observation.usual import SERVICE, WINDOWS, Usual
from penstock.series.labels import ClientSeries, Grouping, QueueSeries
from penstock.settings.constants import Constants

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Groups:
    """The queues' and the clients' series, and the broker's name."""

    queues: Grouping[QueueSeries]
    clients: Grouping[ClientSeries]
    broker: str = ""


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """All that the rules of one poll read.

    Attributes:
        snapshot: The answers of the broker.
        found: Its numbers, and what changed.
        client_patience: (consumers,) The stall threshold, seconds; NaN for a consumer that is not judged.
        queue_patience: (queues,) The longest stall threshold of its clients; the cold one where it has none.
        dispatch: (queues,) For how long ready messages may stay undelivered, seconds.
        absence: (queues,) For how long it may have no consumer, seconds.
        expected: (queues,) Consumers that the operator expects; NaN where the rules do not say.
        closed: (queues,) Whether it is outside of the business hours that the operator gave.
        at_risk: (queues,) Messages that its ring would evict if all its consumers left now.
        service_rate: (consumers,) The most messages a second that it settled at one of the last polls.
        works_since: (consumers,) Since when it settles without a longer pause; NaN while it does not.
        service_window: The last polls of the time that consumers need, as `learned.service` has it.
        rivals: Other brokers that are active with the same node id.
        left_out: What is beyond the broker's budgets.
        losses: By the account of an Artemis broker.
        openmq: What is known of an OpenMQ broker alone; None on another kind.
        accounted: The account of an OpenMQ broker, by queue.
        eager: Returns `client_patience`, shorter for the consumers in a mask, against which more speaks than the time
            without a settlement.
    """

    snapshot: Snapshot
    found: Facts
    unacked: Unacked
    timers: QueueTimers
    returns: Returns
    trend: Trend
    evictions: Evictions
    activity: Activity
    constants: Constants
    broker: Broker
    groups: Groups
    client_patience: Column
    queue_patience: Column
    dispatch: Column
    absence: Column
    usual: Usual
    """What is normal in this hour of the week."""
    expected: Column
    closed: Mask
    at_risk: Column
    service_rate: Column
    works_since: Column
    service_window: Window = field(default_factory=Window)
    buffers: Buffers = field(default_factory=Buffers)
    rivals: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    losses: Losses = field(default_factory=Losses)
    openmq: Openmq | None = None
    accounted: Mapping[str, Column | Mask] = field(default_factory=dict)
    eager: Callable[[Mask], Column] = lambda _: np.empty(0)
    _results: dict[Callable[["RuleInputs"], Any], Any] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return self.found.now

    @property
    def interval(self) -> float:
        return self.found.interval

    @property
    def queues(self) -> Queues:
        return self.of(queue_frame)

    @property
    def consumers(self) -> Consumers:
        return self.of(consumer_frame)

    @property
    def clients(self) -> Clients:
        return self.of(client_frame)

    @property
    def addresses(self) -> Addresses:
        return self.of(address_frame)

    @property
    def producers(self) -> Producers:
        return self.of(producer_frame)

    @property
    def connections(self) -> Connections:
        return self.of(connection_frame)

    def shorter_stall_threshold(self, consumers: Mask) -> Column:
        return self.eager(consumers)

    def of(self, function: Callable[["RuleInputs"], ResultT]) -> ResultT:
        """Return the function's result for this poll, computed once: rules ask for each other's results."""
        if function not in self._results:
            self._results[function] = function(self)
        result: ResultT = self._results[function]
        return result


# --- the frames, made of `Facts` and the other inputs: a line for each column


def queue_frame(poll: RuleInputs) -> Queues:
    """Return the queues as rules see them; a number that Penstock corrects replaces the one that the broker sent."""
    facts = poll.found
    timers = poll.timers
    usual = poll.usual
    kept = {
        "messages": facts.messages,
        "delivering": facts.delivering,
        "scheduled": facts.scheduled,
        "consumers": facts.consumers,
        "paused": facts.paused,
        "ring_limit": facts.ring,
        "consumers_before_dispatch": facts.dispatch_at,
        "added": facts.added,
        "settled": facts.settled,
        "expired": facts.expired,
        "killed": facts.killed,
        "ready": facts.ready,
        "added_delta": facts.d_added,
        "settled_delta": facts.d_settled,
        "expired_delta": facts.d_expired,
        "killed_delta": facts.d_killed,
        "scheduled_delta": facts.d_scheduled,
        "evicted_delta": poll.evictions.grew,
        "redelivered_delta": facts.returned,
        "is_known": facts.known,
        "is_set_back": facts.set_back,
        "is_judged": facts.judged,
        "is_parked": facts.parked,
        "is_non_destructive": facts.keeps,
        "is_for_one_consumer": facts.single,
        "is_closed": poll.closed,
        "consumers_listed": facts.listed,
        "consumer_joined": facts.came,
        "buffered": facts.held,
        "acknowledged_uncommitted": facts.uncommitted,
        "left_buffers_delta": facts.d_left,
        "delivered_delta": facts.d_delivered,
        "expected_consumers": poll.expected,
        "ready_since": timers.ready,
        "idle_since": timers.still,
        "unattended_since": timers.absent,
        "unsettled_since": timers.unsettled,
        "no_input_since": timers.blocked,
        "is_once_attended": timers.had_consumer,
        "longest_stall_threshold": poll.queue_patience,
        "delivery_timeout": poll.dispatch,
        "absence_timeout": poll.absence,
        "inflow": poll.trend.comes,
        "outflow": poll.trend.rate_out,
        "is_growing": poll.trend.behind,
        "messages_at_risk": poll.at_risk,
        "service_seconds": usual.service,
        "usual_service_seconds": usual.base,
        "learned_service_seconds": usual.usual_service,
        "longest_service_seconds": usual.expected.highs[SERVICE] / 1000,
        "is_service_learned": usual.windows >= WINDOWS,
        "expiry_delay_ms": facts.address.expiry_delay,
    }
    return Queues(facts.queues, sent(poll.snapshot.queues) | kept)


def consumer_frame(poll: RuleInputs) -> Consumers:
    """Return the consumers as rules see them, each with the positions of its queue and client."""
    facts = poll.found.consumer
    unacked = poll.unacked
    kept = {
        "buffered": facts.held,
        "delivered": facts.delivered,
        "left_buffer_delta": facts.d_left,
        "delivered_delta": facts.d_delivered,
        "uncommitted": facts.uncommitted,
        "is_new": facts.new,
        "is_selective": facts.selective,
        "unacknowledged_since": unacked.unacked_since,
        "settled_at": unacked.settled,
        "known_since": unacked.seen_since,
        "smallest_batch_bytes": unacked.least,
        "service_rate": poll.service_rate,
        "works_since": poll.works_since,
        "stall_threshold": poll.client_patience,
    }
    return Consumers(
        facts.index,
        sent(poll.snapshot.consumers) | kept,
        queue=facts.queue,
        client=poll.groups.clients.member,
        connection=poll.snapshot.consumer_connection,
    )


def client_frame(poll: RuleInputs) -> Clients:
    """Return the clients of each queue, with the sums over their consumers."""
    facts = poll.found.consumer
    clients = poll.groups.clients
    kept = {
        "consumers": clients.count(),
        "buffered": clients.sum(facts.held),
        "uncommitted": clients.sum(facts.uncommitted),
    }
    return Clients(clients.index, kept)


def address_frame(poll: RuleInputs) -> Addresses:
    """Return the addresses; none where the broker listed none."""
    addresses = poll.snapshot.addresses or Table(Index.empty())
    return Addresses(addresses.index, addresses.columns)


def producer_frame(poll: RuleInputs) -> Producers:
    """Return the producers, each with its connection; none where the broker listed none."""
    producers = poll.snapshot.producers or Table(Index.empty())
    return Producers(
        producers.index,
        producers.columns,
        connection=poll.snapshot.producer_connection,
    )


def connection_frame(poll: RuleInputs) -> Connections:
    """Return the connections; none where the broker listed none."""
    connections = poll.snapshot.connections or Table(Index.empty())
    return Connections(connections.index, connections.columns)


def sent(table: Table[object] | None) -> dict[str, NDArray[np.generic]]:
    """Return the columns that the broker sent for things of one kind, by name; none where it was not asked."""
    return {} if table is None else dict(table.columns)
