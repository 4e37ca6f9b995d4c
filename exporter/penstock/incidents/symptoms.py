"""What the rules for roots read: the conditions that have no root yet, who sends no more, what came and went."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from penstock.causes import surroundings
from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Column, Index, Positions, Table
from penstock.core.windows import reindex
from penstock.incidents.incident import Group, Key
from penstock.model import ConsumerRow, ProducerRow, QueueRow
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.series.labels import ClientSeries

RECENT = 60.0
"""Seconds: a producer that sent nothing for so long before a root began is idle; a change earlier is no cause of it."""
AT_ONCE = 20
"""Changes of one kind that are noted at one poll."""


@dataclass(frozen=True, slots=True)
class Sending:
    """Per producer what it had sent at the last poll, and when it came or sent last; NaN: not since the first poll."""

    index: Index[ProducerRow] = field(default_factory=Index.empty)
    produced: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    since: float = np.nan
    read: float = np.nan
    """The first poll of the agent, and the last at which producers were read."""

    def advance(self, producers: Table[ProducerRow] | None, now: float) -> "Sending":
        if producers is None or producers["produced"] is self.produced:
            return self
        index = producers.index
        produced = producers["produced"]
        known = not np.isnan(self.since)
        moved = produced != reindex(index, self.index, self.produced, np.nan)
        last = np.where(
            moved & known, now, reindex(index, self.index, self.last, np.nan)
        )
        return Sending(index, produced, last, self.since if known else now, now)

    def waiting(self, begin: float, quiet: float) -> list[ProducerRow]:
        """Those that sent until `begin`, or came later, and have sent nothing for `quiet` seconds."""
        unseen = np.isnan(self.last) & (begin - self.since < RECENT)
        sent = np.where(
            self.produced > 0,
            np.where(unseen, begin, self.last) >= begin - RECENT,
            self.last > begin,
        )
        rows: list[ProducerRow] = self.index.rows[
            sent & ~(self.read - self.last < quiet)
        ].tolist()
        return rows


class Noted(NamedTuple):
    """Something that came or went; address, queue and client are empty where it is the broker's."""

    time: float
    text: str
    address: str = ""
    queue: str = ""
    client: str = ""
    went: bool = False
    logins: float = 0.0
    """So many were refused: matters where a consumer is absent."""


def noticed(
    poll: RuleInputs, consumers: Index[ConsumerRow], sending: Sending, refused: float
) -> Iterable[Noted]:
    """At this poll. consumers, sending: of the poll before; refused: logins that were refused until then."""
    now = poll.snapshot.stamp
    found = poll.found.consumer
    producers = poll.snapshot.producers
    if poll.found.restarted:
        yield Noted(now, "the broker started")
    elif (count := poll.broker.authentication_failures - refused) > 0:
        yield Noted(now, f"refused logins: {count:.0f}", logins=count)
    if not np.isnan(sending.since):
        for row in consumers.rows[found.gone.at[found.gone.at < len(consumers)]]:
            yield Noted(
                now,
                f"{row.client} left queue {row.queue}",
                row.address,
                row.queue,
                row.client,
                True,
            )
        for row in found.index.rows[np.flatnonzero(found.new)[:AT_ONCE]]:
            yield Noted(
                now,
                f"{row.client} began to consume queue {row.queue}",
                row.address,
                row.queue,
                row.client,
            )
        senders = Index[ProducerRow].empty() if producers is None else producers.index
        new = senders.rows[senders.new_since(sending.index)[:AT_ONCE]]
        before = (
            {(row.client, row.address) for row in sending.index} if len(new) else ()
        )
        for row in (row for row in new if (row.client, row.address) not in before):
            yield Noted(
                now,
                f"{row.client} began to send to {row.address}",
                row.address,
                "",
                row.client,
            )


def place_of(row: QueueRow) -> tuple[str, str]:
    return row.address, row.name


class AddressLimits(NamedTuple):
    """As its columns of the snapshot."""

    policy: str = ""
    limit_percent: float = np.nan
    limit_bytes: float = np.nan
    memory_bytes: float = np.nan
    paused: float = np.nan
    producers_paused: float = np.nan
    settings_stamp: float = np.nan

    @property
    def full(self) -> bool:
        """By a limit of its own; without one the broker shows the percentage of its whole memory."""
        return self.limit_percent >= 100 and self.limit_bytes > 0


@dataclass
class Symptoms:
    """Of one poll. free: conditions without a root so far. begun: first sight of measured roots. oldest: by queue."""

    poll: RuleInputs
    free: dict[Key, ActiveCondition]
    sending: Sending
    begun: Mapping[tuple[str, str], float]
    changes: tuple[Noted, ...]
    oldest: Column
    told: Sequence[Group] = ()

    def measured(self, kind: str, what: str) -> Group:
        """A root that is no condition."""
        return Group(
            kind,
            what,
            self.begun.get((kind, what), self.poll.snapshot.stamp),
            measured=True,
        )

    def take(
        self, to: list[ActiveCondition], fits: Callable[[ActiveCondition], bool]
    ) -> None:
        """Moves the free conditions that fit to the list."""
        to.extend(
            self.free.pop(key)
            for key in [key for key, one in self.free.items() if fits(one)]
        )

    def waiting(self, group: Group) -> list[ProducerRow]:
        """Producers that sent until the root began, or came later, and send no more."""
        return self.sending.waiting(
            group.begin, max(4.0, 0.9 * self.poll.found.interval)
        )

    @cached_property
    def addresses(self) -> Mapping[str, AddressLimits]:
        """Those that are full, paused or blocked; all where the broker is full."""
        table = self.poll.snapshot.addresses
        if table is None:
            return {}
        held = (
            (table["limit_percent"] >= 100)
            | (table["paused"] > 0)
            | (table["producers_paused"] > 0)
        )
        at = np.flatnonzero(held | bool(surroundings.full_broker(self.poll.broker)))
        columns = [table[name][at].tolist() for name in AddressLimits._fields[1:]]
        rows = zip(table.index.rows[at], *columns, strict=True)
        return {row.name: AddressLimits(row.policy, *of) for row, *of in rows}

    @cached_property
    def queues(self) -> Mapping[tuple[str, str], list[float]]:
        """Of those that the reported conditions concern: messages, their growth, least age (NaN: not known)."""
        found = self.poll.found
        conditions = [one for of in self.told for one in of.own + of.victims]
        places = {(one.address, one.queue) for one in conditions}.union(
            *(of.places for of in self.told)
        )
        at = found.queues.where("place", place_of, places)
        growth = or_zero(found.d_added[at] - found.d_settled[at])
        numbers = np.stack(
            [or_zero(found.messages[at]), growth, found.now - self.oldest[at]], axis=1
        ).tolist()
        return dict(zip(map(place_of, found.queues.rows[at]), numbers, strict=True))

    @cached_property
    def changes_about(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Positions of changes about what is reported, by their address and by their client."""
        by_address = dict[str, list[int]]()
        by_client = dict[str, list[int]]()
        conditions = [one for of in self.told for one in of.own + of.victims]
        addresses = {address for of in self.told for address, _ in of.places}.union(
            one.address for one in conditions
        )
        clients = {name for of in self.told for name in of.blocked}.union(
            one.client for one in conditions
        ) - {""}
        for i, one in enumerate(self.changes):
            if not one.address or one.address in addresses:
                by_address.setdefault(one.address, []).append(i)
            if one.client in clients:
                by_client.setdefault(one.client, []).append(i)
        return by_address, by_client

    def queues_of(self, address: str) -> dict[tuple[str, str], int]:
        """Positions of the queues of an address, by address and name."""
        at = self.poll.found.queues.where("address", attrgetter("address"), {address})
        return {
            place_of(row): i
            for row, i in zip(self.poll.found.queues.rows[at], at.tolist(), strict=True)
        }

    def consumers_of(self, conditions: Iterable[ActiveCondition]) -> Positions:
        """The consumers of the clients in them, first the one that has acknowledged nothing for longest."""
        clients = self.poll.groups.clients
        named = [
            ClientSeries(one.broker, one.address, one.queue, one.client)
            for one in conditions
            if one.client
        ]
        positions = clients.index.positions(clients.book.find(named))
        theirs = np.zeros(len(clients.index) + 1, np.bool_)  # the last one: hidden
        theirs[positions[positions >= 0]] = True
        at = np.flatnonzero(theirs[clients.member])
        return at[np.argsort(self.poll.unacked.unacked_since[at], kind="stable")]

    def of_sessions(
        self, rows: Iterable[ProducerRow]
    ) -> Callable[[ActiveCondition], bool]:
        """Whether a condition is of a client that consumes in the session of one of these producers."""
        wanted = {row.session for row in rows} - {""}
        clients = self.poll.groups.clients
        at = self.consumers_of(self.free.values() if wanted else ())
        rows_of = self.poll.found.consumer.index.rows
        found = {
            clients.index.rows[clients.member[i]]
            for i in at
            if rows_of[i].session in wanted
        }
        return lambda one: (
            ClientSeries(one.broker, one.address, one.queue, one.client) in found
        )
