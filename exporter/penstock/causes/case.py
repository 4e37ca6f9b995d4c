"""One condition that is active in one row of a poll, and what was read of it: all that a rule of causes looks at."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan

import numpy as np

from penstock.causes.evidence import Claim, NumberRead, any_of, known, unread
from penstock.core.table import Positions, Table
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    ConsumerRow,
    QueueRow,
    Snapshot,
)
from penstock.observation.poll import RuleInputs


@dataclass(frozen=True)
class Case:
    """row: the position of a queue or of a consumer, as the condition is about. since: when it began, broker's clock;
    NaN where that is not known, and then nothing that is read seldom is fresh.
    """

    poll: RuleInputs
    row: int
    since: float = nan

    # --- whose it is

    @property
    def queue_at(self) -> int:
        """The position of the queue, where the condition is one of a queue."""
        return self.row

    @cached_property
    def queue_row(self) -> QueueRow:
        row: QueueRow = self.poll.found.queues.rows[self.queue_at]
        return row

    @cached_property
    def consumers(self) -> Positions:
        """Positions of the queue's consumers that are listed."""
        return np.flatnonzero(self.poll.found.consumer.queue == self.queue_at)

    @property
    def snapshot(self) -> Snapshot:
        return self.poll.snapshot

    @property
    def broker(self) -> Broker:
        return self.poll.broker

    def rows_of(self, consumers: Positions) -> list[ConsumerRow]:
        rows: list[ConsumerRow] = self.poll.found.consumer.index.rows[
            consumers
        ].tolist()
        return rows

    # --- numbers

    def queue(self, column: str, name: str) -> NumberRead:
        """A number of the queue, which is read at every poll. name: what it is called, for people."""
        return NumberRead(
            name, self._value(self.snapshot.queues, column, self.queue_at)
        )

    def address(self, column: str, name: str) -> NumberRead:
        """A number of the queue's address, which is read at every poll."""
        return NumberRead(name, self._address_value(column), self.stale("addresses"))

    def fullness(self, column: str, name: str) -> NumberRead:
        """How full the address is, which Classic shows with its settings."""
        return (
            self.setting if self.broker.kind is BrokerKind.CLASSIC else self.address
        )(column, name)

    def setting(self, column: str, name: str) -> NumberRead:
        """A setting of the queue's address, which is read every few minutes."""
        return NumberRead(
            name,
            self._address_value(column),
            self.settings_stale,
            "the settings of its address",
        )

    def limit(self, column: str, name: str) -> NumberRead:
        """A setting that limits something: infinite where the settings were read and set none."""
        setting = self.setting(column, name)
        was_read = not isnan(self._address_value("settings_stamp"))
        return (
            setting._replace(value=inf)
            if isnan(setting.value) and was_read
            else setting
        )

    def broker_number(self, field: str, name: str) -> NumberRead:
        """A number of the broker itself, which is read first at every poll."""
        return NumberRead(name, float(getattr(self.broker, field)))

    @cached_property
    def address_row(self) -> AddressRow | None:
        addresses = self.snapshot.addresses
        return (
            None
            if addresses is None or self._address_at < 0
            else addresses.index.rows[self._address_at]
        )

    @cached_property
    def _address_at(self) -> int:
        return self.poll.of(positions_of_addresses).get(self.queue_row.address, -1)

    def address_named(self, address: str, column: str, name: str) -> NumberRead:
        """A number of another address, which is read at every poll."""
        at = self.poll.of(positions_of_addresses).get(address, -1)
        return NumberRead(
            name,
            self._value(self.snapshot.addresses, column, at),
            self.stale("addresses"),
        )

    def _address_value(self, column: str) -> float:
        return self._value(self.snapshot.addresses, column, self._address_at)

    @staticmethod
    def _value(table: Table[object] | None, column: str, at: int) -> float:
        return nan if table is None or at < 0 else float(table[column][at])

    # --- when something was read

    @property
    def age(self) -> float:
        """Seconds since the condition began; 0 where that is not known."""
        age = self.poll.found.now - self.since
        return 0.0 if isnan(age) else max(age, 0.0)

    def stale(self, part: str) -> float:
        """By how many seconds a part of the poll was read before the condition began; 0 where it was read since."""
        read_at = self.snapshot.read_at(part)
        return inf if isnan(read_at) else self._seconds_before(read_at)

    @property
    def settings_stale(self) -> float:
        """The same of the settings of the queue's address."""
        return self._seconds_before(self._address_value("settings_stamp"))

    def _seconds_before(self, stamp: float) -> float:
        """By how many seconds an answer came before the poll at which the condition began. stamp: agent's clock."""
        to_a_poll = max(float(np.nan_to_num(self.poll.found.interval)), 0.0)
        early = (self.snapshot.stamp - stamp) - self.age - to_a_poll
        return inf if isnan(early) else max(early, 0.0)

    def part_is_fresh(self, part: str, name: str) -> Claim:
        """Whether a part of the poll was read since the condition began; unknown where it was not."""
        reading = NumberRead(
            name, 0.0 if self.was_ever_read(part) else nan, self.stale(part)
        )
        return reading.satisfies(lambda _: True)

    def was_ever_read(self, part: str) -> bool:
        return getattr(self.snapshot, part) is not None

    # --- the whole broker

    @property
    def memory_is_full(self) -> Claim:
        limit = self.broker_number("memory_limit_bytes", "the broker's memory limit")
        return self.broker_number(
            "memory_used_bytes", "the broker's memory use"
        ).reaches(limit)

    @property
    def disk_is_full(self) -> Claim:
        limit = self.broker_number("disk_limit_ratio", "max-disk-usage")
        return self.broker_number("disk_used_ratio", "the disk use").reaches(limit)

    @property
    def broker_is_full(self) -> Claim:
        return any_of(self.memory_is_full, self.disk_is_full)

    # --- consumers

    @property
    def all_consumers_are_listed(self) -> Claim:
        """Those of bridges and links the broker counts and does not list: what these want is not known."""
        counted = self.queue("consumers", "the number of consumers")
        if not counted.is_known:
            return unread(counted.name)
        if self.left_out or counted.value > len(self.consumers):
            return unread(
                "what consumers want that are not listed, as those of a bridge,"
            )
        return known(True)

    @property
    def consumers_show_numbers(self) -> Claim:
        """Old versions list consumers without any number."""
        return (
            known(True)
            if self.poll.found.counted
            else unread("what each consumer buffers")
        )

    @property
    def left_out(self) -> bool:
        """Whether the budgets of the broker leave anything out."""
        return bool(self.poll.left_out)

    def protocols(self, consumers: Positions) -> Iterator[str]:
        """Without the version; empty where it was not read."""
        yield from (row.protocol.rstrip("5") for row in self.rows_of(consumers))


class ConsumerCase(Case):
    """Of a condition of clients: `row` is the position of a consumer."""

    @property
    def queue_at(self) -> int:
        return int(self.poll.found.consumer.queue[self.row])

    @cached_property
    def consumer_row(self) -> ConsumerRow:
        row: ConsumerRow = self.poll.found.consumer.index.rows[self.row]
        return row

    @property
    def protocol(self) -> str:
        """Without the version; empty where it was not read."""
        return self.consumer_row.protocol.rstrip("5")

    def consumer(self, column: str, name: str) -> NumberRead:
        return NumberRead(name, self._value(self.snapshot.consumers, column, self.row))

    @property
    def siblings(self) -> Positions:
        """The other consumers of its connection that are known to be."""
        return siblings_of(self.snapshot, self.row)

    @property
    def connection_is_known(self) -> Claim:
        keys = self.snapshot.consumer_connection
        is_known = len(keys) > 0 and keys[self.row] >= 0
        return known(True) if is_known else unread("its connection")


def positions_of_addresses(poll: RuleInputs) -> Mapping[str, int]:
    """By name, where each address is in its table."""
    addresses = poll.snapshot.addresses
    return (
        {}
        if addresses is None
        else {row.name: i for i, row in enumerate(addresses.index)}
    )


def siblings_of(snapshot: Snapshot, row: int) -> Positions:
    """The other consumers of a consumer's connection; none where that is not known."""
    keys = snapshot.consumer_connection
    if not len(keys) or keys[row] < 0:
        return np.empty(0, np.intp)
    of_connection: Positions = np.flatnonzero(keys == keys[row])
    others: Positions = of_connection[of_connection != row]
    return others
