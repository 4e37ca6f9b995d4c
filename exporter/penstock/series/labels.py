"""From the broker's things to the series that are shown: one label set a row, several rows where they are summed.
`Grouping` keeps from poll to poll which series each row of a table belongs to, so that only what came or changed is
looked at again.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

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
"""What a queue and a client of one are known by."""


@dataclass(frozen=True, slots=True)
class BrokerSeries:
    COLUMNS: ClassVar = declared(
        "info up start connections authentication_failures clock_skew memory_used_bytes memory_limit_bytes"
        " disk_used_ratio disk_limit_ratio heap_used_bytes heap_limit_bytes resource_state undecided_clients"
        " poll_duration poll_timestamp series series_dropped rows_dropped prepared_transactions"
    )

    broker: str
    kind: str = ""
    version: str = ""
    product_version: str = ""
    node_id: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class AddressSeries:
    COLUMNS: ClassVar = declared(
        "info messages messages_added messages_dropped messages_rejected messages_unrouted memory_bytes"
        " memory_used_ratio limit_bytes limit_messages paging pages paused producers producers_paused producers_blocked"
    )

    broker: str
    address: str
    policy: str


@dataclass(frozen=True, slots=True)
class QueueSeries:
    COLUMNS: ClassVar = declared(
        "info dead_letter_info messages ready delivering scheduled uncommitted bytes consumers unhealthy_consumers"
        " paused added acknowledged expired killed removed evicted lost_by_consumer ring_limit ring_used_ratio"
        " ring_at_risk ring_scheduled_at_risk ring_retention ring_overflow ring_oversize_since ring_retention_target"
        " drain drain_target oldest_message oldest_earliest oldest_latest expected_consumers imbalance capacity"
        " unexplained in_doubt redistributed expected_messages_per_second_low expected_messages_per_second_high state"
    )

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
        "consumers buffered buffered_bytes uncommitted delivered acknowledged starved at_limit blocked_since patience"
        " state"
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
    COLUMNS: ClassVar = declared(
        "buffered buffered_bytes last_delivery last_acknowledgement flow_limit flow_resume flow_paused"
    )

    broker: str
    address: str
    queue: str
    client: str
    consumer: str


@dataclass(frozen=True, slots=True)
class ConnectionSeries:
    COLUMNS: ClassVar = declared(
        "info sessions consumers producers buffered buffered_bytes"
    )

    broker: str
    connection: str
    client: str
    protocol: str
    user: str
    remote_host: str


@dataclass(frozen=True, slots=True)
class LinkSeries:
    COLUMNS: ClassVar = declared("up pending")

    broker: str
    link: str
    kind: str


@dataclass(frozen=True, slots=True)
class Grouping(Generic[SeriesT]):
    """Which series each row of a table belongs to. source: the rows. keys, member: the key of each row's series, and
    its position in `index`; HIDDEN where it has none. context: what besides its own text decides a row's labels, as one
    number; a change labels the row again.
    """

    source: Index[Any] = field(default_factory=Index.empty)
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    index: Index[SeriesT] = field(default_factory=Index.empty)
    member: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    context: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    one_to_one: bool = True
    """Each row is a series of its own, in the same order."""
    relabelled: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """The rows that were labelled when this grouping was made."""
    book: KeyAllocator[SeriesT] = field(default_factory=KeyAllocator)

    def advance(
        self,
        source: Index[Any],
        label: Callable[[list[int]], Sequence[SeriesT | None]],
        context: Keys | None = None,
    ) -> "Grouping[SeriesT]":
        """The grouping of the next poll. label: of positions in `source` gives the series, None to hide one."""
        context = np.zeros(len(source), np.int64) if context is None else context
        if source is self.source and np.array_equal(context, self.context):
            return self
        keys = source.carry(self.source, self.keys, HIDDEN).copy()
        known = source.carry(
            self.source, np.ones(len(self.source), np.bool_), fill=False
        )
        fresh = np.flatnonzero(
            ~known | (source.carry(self.source, self.context, 0) != context)
        ).tolist()
        labelled = dict(zip(fresh, label(fresh), strict=True))
        keys[fresh] = HIDDEN
        named = {
            position: series
            for position, series in labelled.items()
            if series is not None
        }
        keys[[*named]] = given = self.book.give([*named.values()])
        made = dict(zip(given.tolist(), named.values(), strict=True))
        shown = keys[keys != HIDDEN]
        index, _ = self.index.advance(
            shown, lambda new: [made[int(shown[i])] for i in new]
        )
        self.book.keep(index.keys)
        member = (
            Join(self.source, self.index, self.member).advance(source, index, keys).at
        )
        one_to_one = len(index) == len(source) and bool(
            (member == np.arange(len(member))).all()
        )
        relabelled = np.zeros(len(source), np.bool_)
        relabelled[fresh] = True
        return Grouping(
            source, keys, index, member, context, one_to_one, relabelled, self.book
        )

    def key_of(self, series: SeriesT) -> int | None:
        """None where it is not in use."""
        key = int(self.book.find([series])[0])
        return key if key >= 0 else None

    def number_of(self, series: SeriesT, numbers: Column) -> float:
        """The value of a column for one of the series, 0 where it is not there now."""
        at = int(self.index.positions(self.book.find([series]))[0])
        return float(numbers[at]) if at >= 0 else 0.0

    def by_source(self, name: str, number: Callable[[SeriesT], float]) -> Column:
        """A number of each series, by the rows of `source`; NaN for hidden ones. Asked once in a series' life."""
        return np.append(self.index.column(name, number), np.nan)[self.member]

    def sum(self, column: Column) -> Column:
        """Per series the sum over its rows, NaN where all are missing."""
        if self.one_to_one:
            return column
        here = (self.member >= 0) & ~np.isnan(column)
        sums = np.bincount(
            self.member[here], weights=column[here], minlength=len(self.index)
        )
        seen = np.bincount(self.member[here], minlength=len(self.index))
        return np.where(seen > 0, sums, np.nan)

    def max(self, column: Column) -> Column:
        """Per series the largest over its rows, NaN where all are missing."""
        if self.one_to_one:
            return column
        here = (self.member >= 0) & ~np.isnan(column)
        largest = np.full(len(self.index), -np.inf)
        np.maximum.at(largest, self.member[here], column[here])
        return np.where(np.isinf(largest), np.nan, largest)

    def count(self) -> Column:
        """Number of rows of each series."""
        return np.bincount(
            self.member[self.member >= 0], minlength=len(self.index)
        ).astype(np.float64)


def sum_by(at: Positions, values: Column, size: int) -> Column:
    """Sums of `values` by position, those at -1 and the missing ones left out."""
    here = (at >= 0) & ~np.isnan(values)
    return np.bincount(at[here], weights=values[here], minlength=size).astype(
        np.float64
    )


POLLS_OUTSIDE = 3
"""Polls for which one that was shown stays when it is no longer among the worst."""


@dataclass(frozen=True, slots=True)
class TopK:
    """What is shown: keys, and for how many polls each has been outside the worst N."""

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    outside: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def advance(self, keys: Keys, top_k: NDArray[np.bool_]) -> "TopK":
        """`keys` of all there are now, `top_k` those among the worst N."""
        if top_k.all():
            return TopK(keys, np.zeros(len(keys), np.int64))
        outside = take_or_fill(
            self.outside + 1, positions(self.keys, keys), POLLS_OUTSIDE
        )
        outside[top_k] = 0
        shown = outside < POLLS_OUTSIDE
        return TopK(keys[shown], outside[shown])


def top_k(
    first: Column, then: Column, groups: Positions | Keys, total: int, per_group: int
) -> NDArray[np.bool_]:
    """A mask of the `total` with the largest `first`, then the largest `then`, at most `per_group` of each group. NaN
    counts as smallest. Ties go to the first in order.
    """
    size = len(first)
    if total >= size and per_group >= size:
        return np.ones(size, np.bool_)
    first = np.nan_to_num(first, nan=-np.inf)
    then = np.nan_to_num(then, nan=-np.inf)
    order = np.lexsort((-then, -first))
    by_group = order[np.argsort(groups[order], kind="stable")]
    sorted_groups = groups[by_group]
    starts = (
        np.concatenate(([0], np.flatnonzero(np.diff(sorted_groups)) + 1))
        if size
        else np.empty(0, np.intp)
    )
    lengths = np.diff(np.append(starts, size))
    rank = np.empty(size, np.intp)
    rank[by_group] = np.arange(size) - np.repeat(starts, lengths)
    chosen = order[rank[order] < per_group][:total]
    mask = np.zeros(size, np.bool_)
    mask[chosen] = True
    return mask
