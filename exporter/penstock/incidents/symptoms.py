"""The input of the rules for roots: free conditions, producers that stopped sending, clients that joined or left.

A condition is *free* until a rule finds the root that explains it. A root may also be *measured*: a number, such as a
full address, for which there is no condition.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from penstock.causes import surroundings
from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Column, Index, Positions, Table
from penstock.core.windows import reindex
from penstock.incidents.incident import Group, Key
from penstock.model import ConsumerRow, ProducerRow, QueueRow
from penstock.observation.facts import Facts, or_zero
from penstock.observation.poll import RuleInputs
from penstock.series.labels import ClientSeries

RECENT = 60.0
"""Seconds: a producer that sent nothing for so long before a root began is idle; a change earlier is no cause of it."""
AT_ONCE = 20
"""Changes of one kind that are noted at one poll."""
Place: TypeAlias = tuple[str, str]
"""Address and name of a queue."""
Predicate: TypeAlias = Callable[[ActiveCondition], bool]


@dataclass(frozen=True, slots=True)
class Sending:
    """When each producer sent last."""

    index: Index[ProducerRow] = field(default_factory=Index.empty)
    produced: Column = field(default_factory=lambda: np.empty(0))
    """(producers,) Messages that it had sent at the last poll."""
    last: Column = field(default_factory=lambda: np.empty(0))
    """(producers,) When it joined or sent last; NaN: not since the first poll."""
    since: float = np.nan
    """The first poll of the agent."""
    read: float = np.nan
    """The last poll at which producers were read."""

    def advance(self, producers: Table[ProducerRow] | None, now: float) -> "Sending":
        """Return the state after a poll at `now`, the same where producers were not read.

        A producer sent where its number of messages changed. At the first poll of the agent nobody knows when it did.
        """
        if producers is None or producers["produced"] is self.produced:
            return self
        index = producers.index
        produced = producers["produced"]
        is_first_poll = bool(np.isnan(self.since))
        produced_before = reindex(index, self.index, self.produced, np.nan)
        last = reindex(index, self.index, self.last, np.nan)
        if not is_first_poll:
            # A new producer, NaN before, counts as one that sent.
            last = np.where(produced != produced_before, now, last)
        since = now if is_first_poll else self.since
        return Sending(index, produced, last, since, now)

    def waiting(self, begin: float, quiet: float) -> list[ProducerRow]:
        """Return producers that seem to wait in sending since `begin`, when something became full or was paused.

        They sent until then, or joined later, and have sent nothing for `quiet` seconds.
        """
        # Shortly after the agent's start a producer that ever sent may have done so until `begin`, unseen.
        is_unsure = np.isnan(self.last) & (begin - self.since < RECENT)
        last_sent = np.where(is_unsure, begin, self.last)
        sent_until_begin = np.where(
            self.produced > 0,
            last_sent >= begin - RECENT,
            self.last > begin,
        )
        sends_now = self.read - self.last < quiet
        rows: list[ProducerRow] = self.index.rows[
            sent_until_begin & ~sends_now
        ].tolist()
        return rows


class Noted(NamedTuple):
    """A client that joined or left, or a change of the broker itself, which has no address, queue and client."""

    time: float
    text: str
    address: str = ""
    queue: str = ""
    client: str = ""
    went: bool = False
    logins: float = 0.0
    """Logins that were refused: they matter where a consumer is absent."""


def noticed(
    poll: RuleInputs, consumers: Index[ConsumerRow], sending: Sending, refused: float
) -> Iterator[Noted]:
    """Yield the changes of this poll.

    Args:
        poll: this poll.
        consumers: consumers of the poll before.
        sending: producers of the poll before.
        refused: logins that the broker had refused at the poll before.
    """
    now = poll.snapshot.stamp
    refused_now = poll.broker.authentication_failures - refused
    if poll.found.restarted:
        yield Noted(now, "the broker started")
    elif refused_now > 0:
        yield Noted(now, f"refused logins: {refused_now:.0f}", logins=refused_now)
    if not np.isnan(sending.since):
        yield from consumers_left(poll, consumers)
        yield from consumers_joined(poll)
        yield from producers_joined(poll, sending.index)


def consumers_left(poll: RuleInputs, consumers: Index[ConsumerRow]) -> Iterator[Noted]:
    """Yield the consumers of the poll before that are not there any more."""
    now = poll.snapshot.stamp
    positions = poll.found.consumer.gone.at
    for row in consumers.rows[positions[positions < len(consumers)]]:
        text = f"{row.client} left queue {row.queue}"
        yield Noted(now, text, row.address, row.queue, row.client, went=True)


def consumers_joined(poll: RuleInputs) -> Iterator[Noted]:
    """Yield new consumers, the first `AT_ONCE` of them."""
    now = poll.snapshot.stamp
    consumer = poll.found.consumer
    joined = np.flatnonzero(consumer.new)[:AT_ONCE]
    for row in consumer.index.rows[joined]:
        text = f"{row.client} began to consume queue {row.queue}"
        yield Noted(now, text, row.address, row.queue, row.client)


def producers_joined(poll: RuleInputs, before: Index[ProducerRow]) -> Iterator[Noted]:
    """Yield new producers, except those of a client that sent to the address before."""
    producers = poll.snapshot.producers
    index = Index[ProducerRow].empty() if producers is None else producers.index
    joined = index.rows[index.new_since(before)[:AT_ONCE]]
    if not len(joined):
        return
    now = poll.snapshot.stamp
    sent_before = {(row.client, row.address) for row in before}
    for row in joined:
        if (row.client, row.address) not in sent_before:
            text = f"{row.client} began to send to {row.address}"
            yield Noted(now, text, row.address, "", row.client)


def place_of(row: QueueRow) -> Place:
    return row.address, row.name


class AddressLimits(NamedTuple):
    """Columns of an address that have the same names in the snapshot."""

    policy: str = ""
    limit_percent: float = np.nan
    limit_bytes: float = np.nan
    memory_bytes: float = np.nan
    paused: float = np.nan
    producers_paused: float = np.nan
    settings_stamp: float = np.nan

    @property
    def full(self) -> bool:
        """Whether the address has reached a limit of its own.

        For an address without one the broker shows the percentage of its whole memory: that alone does not count.
        """
        return self.limit_percent >= 100 and self.limit_bytes > 0


class QueueNumbers(NamedTuple):
    messages: float
    growth: float
    """Messages since the poll before."""
    oldest_seconds: float
    """The oldest message has waited for at least so long; NaN: not known."""


@dataclass
class Symptoms:
    """The symptoms of one poll; the rules for roots take the conditions that they explain out of `free`."""

    poll: RuleInputs
    free: dict[Key, ActiveCondition]
    """Conditions without a root so far."""
    sending: Sending
    begun: Mapping[tuple[str, str], float]
    """When a measured root was seen first, by its kind and what it is."""
    changes: tuple[Noted, ...]
    oldest: Column
    """(queues,) When the oldest message was added, at the latest; by the broker's clock."""
    told: Sequence[Group] = ()
    """Groups that are reported at this poll."""

    @property
    def facts(self) -> Facts:
        return self.poll.found

    @property
    def broker_name(self) -> str:
        return self.poll.groups.broker

    @property
    def stamp(self) -> float:
        """When the agent polled, seconds since 1970."""
        return self.poll.snapshot.stamp

    def measured(self, kind: str, root: str) -> Group:
        """Return an empty group for a root that is no condition; it began when it was first seen."""
        begin = self.begun.get((kind, root), self.stamp)
        return Group(kind, root, begin, measured=True)

    def take(self, to: list[ActiveCondition], fits: Predicate) -> None:
        """Move the free conditions that fit to the list."""
        keys = [key for key, condition in self.free.items() if fits(condition)]
        to.extend(self.free.pop(key) for key in keys)

    def waiting(self, group: Group) -> list[ProducerRow]:
        """Return producers that sent until the root began, or joined later, and do not send any more."""
        # Silent for nearly a whole interval: no message since the last poll. At least some seconds, as senders pause.
        quiet = max(4.0, 0.9 * self.facts.interval)
        return self.sending.waiting(group.begin, quiet)

    @cached_property
    def addresses(self) -> Mapping[str, AddressLimits]:
        """The limits of addresses that are full, paused or blocked; of all while the broker is full."""
        table = self.poll.snapshot.addresses
        if table is None:
            return {}
        is_full = table["limit_percent"] >= 100
        is_stopped = (table["paused"] > 0) | (table["producers_paused"] > 0)
        broker_is_full = bool(surroundings.full_broker(self.poll.broker))
        positions = np.flatnonzero(is_full | is_stopped | broker_is_full)

        names = AddressLimits._fields[1:]  # `policy` is a text of the row
        columns = [table[name][positions].tolist() for name in names]
        rows = zip(table.index.rows[positions], *columns, strict=True)
        return {row.name: AddressLimits(row.policy, *limits) for row, *limits in rows}

    def limits_of(self, address: str) -> AddressLimits:
        """Return the limits in `addresses`; without numbers for an address that is not there."""
        return self.addresses.get(address, AddressLimits())

    @cached_property
    def reported_conditions(self) -> list[ActiveCondition]:
        return [condition for group in self.told for condition in group.conditions]

    @cached_property
    def queues(self) -> Mapping[Place, QueueNumbers]:
        """The numbers of the queues that the reported groups concern."""
        facts = self.facts
        places = {
            (condition.address, condition.queue)
            for condition in self.reported_conditions
        }
        places = places.union(*(group.places for group in self.told))
        positions = facts.queues.where("place", place_of, places)
        added = facts.d_added[positions]
        settled = facts.d_settled[positions]
        messages = or_zero(facts.messages[positions])
        growth = or_zero(added - settled)
        ages = facts.now - self.oldest[positions]
        columns = (messages.tolist(), growth.tolist(), ages.tolist())
        numbers = map(QueueNumbers, *columns)
        rows = facts.queues.rows[positions]
        return dict(zip(map(place_of, rows), numbers, strict=True))

    @cached_property
    def changes_about(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Positions in `changes` by address and by client, for all that the reported groups concern."""
        addresses = {condition.address for condition in self.reported_conditions}
        clients = {condition.client for condition in self.reported_conditions}
        for group in self.told:
            addresses.update(address for address, _ in group.places)
            clients.update(group.blocked)
        addresses.add("")  # a change of the broker
        clients.discard("")

        by_address = defaultdict[str, list[int]](list)
        by_client = defaultdict[str, list[int]](list)
        for position, change in enumerate(self.changes):
            if change.address in addresses:
                by_address[change.address].append(position)
            if change.client in clients:
                by_client[change.client].append(position)
        return by_address, by_client

    def queues_of(self, address: str) -> dict[Place, int]:
        """Return positions of the queues of an address, by address and name."""
        queues = self.facts.queues
        positions = queues.where("address", attrgetter("address"), {address})
        places = map(place_of, queues.rows[positions])
        return dict(zip(places, positions.tolist(), strict=True))

    def consumers_of(self, conditions: Iterable[ActiveCondition]) -> Positions:
        """Return positions of the consumers of the clients in these conditions.

        The one that has acknowledged nothing for longest comes first.
        """
        clients = self.poll.groups.clients
        labels = [series_of(condition) for condition in conditions if condition.client]
        positions = clients.index.positions(clients.book.find(labels))
        # The last element is for consumers of clients that are hidden: `member` is -1 there.
        is_wanted = np.zeros(len(clients.index) + 1, np.bool_)
        is_wanted[positions[positions >= 0]] = True
        consumers = np.flatnonzero(is_wanted[clients.member])
        unacknowledged_since = self.poll.unacked.unacked_since[consumers]
        return consumers[np.argsort(unacknowledged_since, kind="stable")]

    def of_sessions(self, rows: Iterable[ProducerRow]) -> Predicate:
        """Return a predicate: whether a condition is about a client that consumes in the session of such a producer.

        A session has one thread: while it waits in sending, its consumers acknowledge nothing.
        """
        sessions = {row.session for row in rows} - {""}
        if not sessions:
            return lambda _: False
        clients = self.poll.groups.clients
        consumers = self.facts.consumer.index.rows
        matching = {
            clients.index.rows[clients.member[position]]
            for position in self.consumers_of(self.free.values())
            if consumers[position].session in sessions
        }
        return lambda condition: series_of(condition) in matching


def series_of(condition: ActiveCondition) -> ClientSeries:
    """Return the series of the client that the condition is about."""
    return ClientSeries(
        condition.broker, condition.address, condition.queue, condition.client
    )
