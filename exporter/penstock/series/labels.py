"""From the rows of a broker to the series that are shown: one set of labels a row, or one for rows that are summed.

`Grouping` remembers from poll to poll which series each row of a table belongs to, so that only new and changed rows
are labelled again. A series is one set of labels of a metric. It has a key, which stays the same from poll to poll, and
a position among the series of this poll; `member` has the position for each row.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.columns.addresses import AddressColumns
from penstock.columns.broker import BrokerColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.links import LinkColumns
from penstock.columns.queues import QueueColumns
from penstock.core.table import (
    Column,
    Index,
    Join,
    KeyAllocator,
    Keys,
    Positions,
    declared,
    positions,
    take_or_fill,
)
from penstock.settings.rules import RuleSettings

SeriesT = TypeVar("SeriesT", bound=Hashable)

TEMPORARY = "(temporary)"
NON_DURABLE = "(non-durable)"
OTHER = "(other)"
HIDDEN = -1
QUEUE: Final = attrgetter("address", "queue")
CLIENT: Final = attrgetter("address", "queue", "client")
"""Return the name of a queue, and of a client on a queue, as a tuple."""


@dataclass(frozen=True, slots=True)
class BrokerSeries:
    COLUMNS: ClassVar = declared(
        "info up start clock_skew undecided_clients poll_duration poll_timestamp series"
        " series_dropped rows_dropped prepared_transactions"
    ).union(BrokerColumns.shown(), BrokerColumns.shown(counters=True))

    broker: str
    kind: str = ""
    version: str = ""
    product_version: str = ""
    node_id: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class AddressSeries:
    COLUMNS: ClassVar = declared(
        "info messages_dropped messages_rejected producers_blocked"
    ).union(AddressColumns.shown(), AddressColumns.shown(counters=True))

    broker: str
    address: str
    policy: str


@dataclass(frozen=True, slots=True)
class QueueSeries:
    COLUMNS: ClassVar = declared(
        "info dead_letter_info ready unhealthy_consumers evicted lost_by_consumer"
        " ring_used_ratio ring_at_risk ring_scheduled_at_risk ring_retention"
        " ring_overflow ring_oversize_since ring_retention_target drain drain_target"
        " oldest_message oldest_earliest oldest_latest expected_consumers imbalance"
        " capacity unexplained in_doubt redistributed expected_messages_per_second_low"
        " expected_messages_per_second_high state"
    ).union(QueueColumns.shown(), QueueColumns.shown(counters=True))

    broker: str
    address: str
    queue: str
    routing_type: str
    durable: str
    kind: str
    ring_source: str
    owner: str
    team: str
    dead_letter_address: str
    expiry_address: str
    summed: bool = False
    """Stands for several queues of the broker."""
    said: RuleSettings = field(default=RuleSettings(), compare=False)
    """What the rules say of it; no part of who it is."""


@dataclass(frozen=True, slots=True)
class ClientSeries:
    COLUMNS: ClassVar = declared(
        "consumers starved at_limit blocked_since patience state"
    ).union(
        ConsumerColumns.summed("client"),
        ConsumerColumns.summed("client", counters=True),
    )

    broker: str
    address: str
    queue: str
    client: str
    said: RuleSettings = field(default=RuleSettings(), compare=False)


@dataclass(frozen=True, slots=True)
class ProducerSeries:
    COLUMNS: ClassVar = declared("produced")

    broker: str
    address: str
    client: str


@dataclass(frozen=True, slots=True)
class ConsumerSeries:
    COLUMNS: ClassVar = declared("flow_limit flow_resume").union(
        ConsumerColumns.shown()
    )

    broker: str
    address: str
    queue: str
    client: str
    consumer: str


@dataclass(frozen=True, slots=True)
class ConnectionSeries:
    COLUMNS: ClassVar = declared("info").union(
        ConnectionColumns.shown(), ConsumerColumns.summed("connection")
    )

    broker: str
    connection: str
    client: str
    protocol: str
    user: str
    remote_host: str


@dataclass(frozen=True, slots=True)
class LinkSeries:
    COLUMNS: ClassVar = frozenset(LinkColumns.shown())

    broker: str
    link: str
    kind: str


@dataclass(frozen=True, slots=True)
class Grouping(Generic[SeriesT]):
    """Which series each row of a table belongs to.

    Attributes:
        source: The rows.
        keys: (rows,) The key of each row's series; HIDDEN where it has none.
        index: The series.
        member: (rows,) The position of each row's series in `index`; HIDDEN where it has none.
        context: (rows,) What besides its own text decides a row's labels, as one number; a change labels it again.
        one_to_one: Each row is a series of its own, in the same order.
        relabelled: (rows,) Whether the row was labelled when this grouping was made.
        book: Gives the keys.
    """

    source: Index[Any] = field(default_factory=Index.empty)
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    index: Index[SeriesT] = field(default_factory=Index.empty)
    member: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    context: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    one_to_one: bool = True
    relabelled: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    book: KeyAllocator[SeriesT] = field(default_factory=KeyAllocator)

    def advance(
        self,
        source: Index[object],
        label: Callable[[list[int]], Sequence[SeriesT | None]],
        context: Keys | None = None,
    ) -> "Grouping[SeriesT]":
        """Return the grouping after one more poll.

        Args:
            source: The rows of the poll.
            label: Returns the series of the rows at some positions in `source`; None hides a row.
            context: (rows,) See the attributes.
        """
        if context is None:
            context = np.zeros(len(source), np.int64)
        if source is self.source and np.array_equal(context, self.context):
            return self
        to_label = self._rows_to_label(source, context)
        rows = np.flatnonzero(to_label).tolist()
        series_by_row = {
            row: series
            for row, series in zip(rows, label(rows), strict=True)
            if series is not None
        }
        keys = source.carry(self.source, self.keys, HIDDEN).copy()
        new_keys = self.book.give([*series_by_row.values()])
        keys[rows] = HIDDEN
        keys[[*series_by_row]] = new_keys
        series_by_key = dict(
            zip(new_keys.tolist(), series_by_row.values(), strict=True)
        )
        index = self._index_of(keys, series_by_key)
        join = Join(self.source, self.index, self.member)
        member = join.advance(source, index, keys).at
        return Grouping(
            source=source,
            keys=keys,
            index=index,
            member=member,
            context=context,
            one_to_one=is_identity(member, len(index)),
            relabelled=to_label,
            book=self.book,
        )

    def _rows_to_label(self, source: Index[object], context: Keys) -> NDArray[np.bool_]:
        """(rows of `source`,) Whether the row is new, or its text or context has changed."""
        was_there = np.ones(len(self.source), np.bool_)
        is_known = source.carry(self.source, was_there, fill=False)
        context_before = source.carry(self.source, self.context, 0)
        has_changed: NDArray[np.bool_] = context_before != context
        return ~is_known | has_changed

    def _index_of(
        self, keys: Keys, series_by_key: Mapping[int, SeriesT]
    ) -> Index[SeriesT]:
        """Return the index of the series with these keys, and forget the keys of others.

        Args:
            keys: (rows,) The key of each row's series; HIDDEN where it has none.
            series_by_key: The series of the new keys.
        """
        not_hidden = keys[keys != HIDDEN]

        def series_of(new: list[int]) -> list[SeriesT]:
            return [series_by_key[int(not_hidden[position])] for position in new]

        index, _ = self.index.advance(not_hidden, series_of)
        self.book.keep(index.keys)
        return index

    def key_of(self, series: SeriesT) -> int | None:
        """Return the key of a series; None where it is not in use."""
        key = int(self.book.find([series])[0])
        return key if key >= 0 else None

    def number_of(self, series: SeriesT, numbers: Column) -> float:
        """Return the number of one series, 0 where it is not there now. numbers: (series,)."""
        key = self.book.find([series])
        position = int(self.index.positions(key)[0])
        return float(numbers[position]) if position >= 0 else 0.0

    def by_source(self, name: str, number: Callable[[SeriesT], float]) -> Column:
        """(rows,) The number of each row's series; NaN for hidden rows.

        `number` is called only once for each series; the result is remembered under `name`.
        """
        numbers = self.index.column(name, number)
        with_hidden = np.append(numbers, np.nan)  # HIDDEN, -1, is the last position
        return with_hidden[self.member]

    def sum(self, column: Column) -> Column:
        """(series,) The sum over the rows of each; NaN where all are missing. column: (rows,)."""
        if self.one_to_one:
            return column
        has_value = (self.member >= 0) & ~np.isnan(column)
        member = self.member[has_value]
        size = len(self.index)
        sums = np.bincount(member, weights=column[has_value], minlength=size)
        rows = np.bincount(member, minlength=size)
        return np.where(rows > 0, sums, np.nan)

    def max(self, column: Column) -> Column:
        """(series,) The largest value of the rows of each; NaN where all are missing. column: (rows,)."""
        if self.one_to_one:
            return column
        has_value = (self.member >= 0) & ~np.isnan(column)
        largest = np.full(len(self.index), -np.inf)
        np.maximum.at(largest, self.member[has_value], column[has_value])
        return np.where(np.isinf(largest), np.nan, largest)

    def count(self) -> Column:
        """(series,) The number of rows of each."""
        member = self.member[self.member >= 0]
        return np.bincount(member, minlength=len(self.index)).astype(np.float64)


def is_identity(member: Positions, size: int) -> bool:
    """Return whether each row is a series of its own, in the same order. size: the number of series."""
    return size == len(member) and bool((member == np.arange(size)).all())


def sum_by(positions: Positions, values: Column, size: int) -> Column:
    """(size,) The sum of the values at each position; positions of -1 and missing values are left out."""
    has_value = (positions >= 0) & ~np.isnan(values)
    sums = np.bincount(positions[has_value], weights=values[has_value], minlength=size)
    return sums.astype(np.float64)


POLLS_OUTSIDE = 3
"""A row is no longer shown from the poll on at which it has not been among the worst for so many."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The rows that are shown one by one.

    Attributes:
        keys: Their keys.
        outside: For how many polls each has not been among the worst.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    outside: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def advance(self, keys: Keys, is_worst: NDArray[np.bool_]) -> "TopK":
        """Return the rows that are shown after one more poll: the worst, and those that were so a short time ago.

        Otherwise rows of nearly the same rank would come and go at each poll.

        Args:
            keys: (rows,) The keys of all rows now.
            is_worst: (rows,) Whether the row is among the worst.
        """
        if is_worst.all():
            return TopK(keys, np.zeros(len(keys), np.int64))
        origin = positions(self.keys, keys)
        # A row that was not shown gets as many polls as a row that has just gone.
        outside = take_or_fill(self.outside + 1, origin, POLLS_OUTSIDE)
        outside[is_worst] = 0
        is_shown = outside < POLLS_OUTSIDE
        return TopK(keys[is_shown], outside[is_shown])


def top_k(
    first: Column, then: Column, groups: Positions | Keys, total: int, per_group: int
) -> NDArray[np.bool_]:
    """(rows,) Whether the row is one of the `total` with the largest values, at most `per_group` of each group.

    NaN counts as the smallest value; equal rows keep their order.

    Args:
        first: (rows,) By this the rows are compared.
        then: (rows,) By this, where the first is equal.
        groups: (rows,) The group of each.
        total: How many rows are wanted.
        per_group: How many at most of each group.
    """
    size = len(first)
    if total >= size and per_group >= size:
        return np.ones(size, np.bool_)
    first = np.nan_to_num(first, nan=-np.inf)
    then = np.nan_to_num(then, nan=-np.inf)
    largest_first = np.lexsort((-then, -first))  # the last key is the first criterion
    rank = rank_in_group(groups, largest_first)
    allowed = largest_first[rank[largest_first] < per_group]
    mask = np.zeros(size, np.bool_)
    mask[allowed[:total]] = True
    return mask


def rank_in_group(groups: Positions | Keys, order: Positions) -> Positions:
    """(rows,) How many rows of its group come before each row in this order. order: the positions of all rows.

    A stable sort by group makes one run of each group, in which the rows keep the order: the rank of a row is its
    distance from the start of its run.
    """
    size = len(groups)
    by_group = order[np.argsort(groups[order], kind="stable")]
    sorted_groups = groups[by_group]
    is_first = np.ones(size, np.bool_)
    is_first[1:] = sorted_groups[1:] != sorted_groups[:-1]
    starts = np.flatnonzero(is_first)
    lengths = np.diff(np.append(starts, size))
    start_of_run = np.repeat(starts, lengths)
    rank = np.empty(size, np.intp)
    rank[by_group] = np.arange(size) - start_of_run
    return rank
