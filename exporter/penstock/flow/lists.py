"""
Queues, clients, consumers and conditions as lists: chosen, sorted and cut over all brokers first, then told in plain
values.

There may be tens of thousands of rows; only those that are told are worked out.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import numpy as np

from penstock.flow.explain import Plain, Sight, condition_values, number, numbers_at, rates
from penstock.flow.judge.conditions import Condition, Severity
from penstock.flow.series import HIDDEN, ClientSeries, QueueSeries
from penstock.model import ConsumerRow
from penstock.table import Column, Index, Table

WORST: Final = "worst"
"""By severity, then by what is held: the order unless another is asked for."""
QUEUE_NUMBERS: Final = ("messages", "ready", "delivering", "consumers")
QUEUE_MORE: Final = ("scheduled", "ring_used_ratio", "oldest_message", "drain")
CLIENT_NUMBERS: Final = (
    "consumers", "buffered", "uncommitted", "delivered", "acknowledged", "blocked_since", "patience",
)  # fmt: skip
CONSUMER_NUMBERS: Final = (
    "buffered", "buffered_bytes", "awaiting_commit", "delivered", "acknowledged", "flow_paused",
)  # fmt: skip
TIMES: Final = ("last_delivery", "last_acknowledgement")

NAMES: Final = frozenset({"queue", "client", "consumer"})
QUEUE_SORTS: Final = (WORST, "queue", *QUEUE_NUMBERS, "scheduled", "rate_in", "rate_out")
CLIENT_SORTS: Final = (WORST, "client", "queue", *CLIENT_NUMBERS)
CONSUMER_SORTS: Final = (WORST, "client", "queue", "consumer", *CONSUMER_NUMBERS, *TIMES)

Given = Mapping[tuple[str, str], Sequence[Condition]]
Key = tuple[Any, ...]
More = Callable[[Sight, int], Plain]
"""What else is told of the row at a position."""
Listed = tuple[list[Plain], int]
"""The rows that are told, and how many there are of that kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """
    Which rows, and in which order; an empty text means any.

    text: part of a name, in any case: of address, queue, client, owner, team or condition.
    sort: one of the list's SORTS; numbers begin with the largest, names with A, a minus before it turns that round.
    """

    address: str = ""
    queue: str = ""
    client: str = ""
    condition: str = ""
    text: str = ""
    sort: str = WORST
    limit: int = 100
    offset: int = 0
    """Rows to pass over."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a row is chosen and sorted by, and where its values are."""

    names: tuple[str, ...]
    address: str
    queue: str
    client: str
    conditions: Sequence[Condition]
    at: int


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one broker, a column by the name of each sort, and how a row is told."""

    rows: Iterator[Row]
    columns: Mapping[str, Column]
    held: str
    tell: Callable[[int, Sequence[Condition]], Plain]


def nothing_more(_: Sight, __: int) -> Plain:
    return {}


def queue_list(sights: Sequence[Sight], wanted: Wanted, more: More = nothing_more) -> Listed:
    """At most `wanted.limit` queues."""
    return _listed([_queues(sight, more) for sight in sights], wanted)


def client_list(sights: Sequence[Sight], wanted: Wanted, more: More = nothing_more) -> Listed:
    """At most `wanted.limit` clients, one row for each queue they consume from."""
    return _listed([_clients(sight, more) for sight in sights], wanted)


def consumer_list(sights: Sequence[Sight], wanted: Wanted) -> Listed:
    """At most `wanted.limit` of all consumers, also of those that /metrics sums."""
    return _listed([_consumers(sight) for sight in sights], wanted)


def condition_list(sights: Sequence[Sight], wanted: Wanted) -> Listed:
    """
    At most `wanted.limit` conditions that hold, by severity, then the oldest first; silenced ones are left out.

    Of `wanted.text` parts of the names of address, queue, client or condition.
    """
    found = [(one, sight) for sight in sights for one in sight.conditions if not one.silenced and _holds(one, wanted)]
    chosen = heapq.nsmallest(
        wanted.offset + wanted.limit, found, key=lambda pair: (-pair[0].severity, pair[0].since, pair[0].queue)
    )
    return [condition_row(sight, one) for one, sight in chosen[wanted.offset :]], len(found)


def condition_row(sight: Sight, one: Condition) -> Plain:
    """A condition with where it holds."""
    return {"broker": one.broker, "address": one.address, "queue": one.queue} | condition_values(one, sight.kind)


def broker_numbers(sight: Sight) -> Plain:
    """What a broker holds in all, and how many of its conditions are critical or warnings."""
    numbers: Plain = {}
    for name, table in (("queue", "queues"), ("client", "clients")):
        if name in sight.tables:
            numbers[table] = len(sight.tables[name])
    if "queue" in sight.tables:
        queues = sight.tables["queue"]
        numbers |= {name: number(np.nansum(queues.columns[name])) for name in QUEUE_NUMBERS if name in queues}
    told = [one.severity for one in sight.conditions if not one.silenced]
    return numbers | {"critical": told.count(Severity.CRITICAL), "warning": told.count(Severity.WARNING)}


# --- choosing and sorting


def _listed(sources: Sequence[Source], wanted: Wanted) -> Listed:
    name = wanted.sort.removeprefix("-")
    largest_first = (name in NAMES) == wanted.sort.startswith("-")
    found = [
        (key(row), row, source)
        for source in sources
        for key in (_key(source, name, known=largest_first),)
        for row in source.rows
        if _fits(row, wanted)
    ]
    cut = heapq.nlargest if largest_first else heapq.nsmallest
    chosen = cut(wanted.offset + wanted.limit, found, key=itemgetter(0))[wanted.offset :]
    return [source.tell(row.at, row.conditions) for _, row, source in chosen], len(found)


def _holds(one: Condition, wanted: Wanted) -> bool:
    return _fits(Row((), one.address, one.queue, one.client, (one,), 0), wanted)


def _fits(row: Row, wanted: Wanted) -> bool:
    if wanted.address not in ("", row.address) or wanted.queue not in ("", row.queue):
        return False
    if wanted.client not in ("", row.client):
        return False
    if wanted.condition and all(one.name != wanted.condition for one in row.conditions):
        return False
    if not wanted.text:
        return True
    text = wanted.text.casefold()
    names = (row.address, row.queue, row.client, *row.names)
    return any(text in name.casefold() for name in names) or any(text in one.name for one in row.conditions)


def _key(source: Source, name: str, *, known: bool) -> Callable[[Row], Key]:
    """What a row is compared by. `known` is what a known number counts as, so that the unknown come last."""
    if name == WORST:
        held = _listing(source.columns.get(source.held))
        return lambda row: (_severity(row.conditions), _at(held, row.at) or 0.0)
    if name in NAMES:
        return lambda row: (_name(row, name).casefold(), row.queue, row.client)
    values = _listing(source.columns.get(name))

    def number_of(row: Row) -> Key:
        value = _at(values, row.at)
        return (not known, 0.0) if value is None else (known, value)

    return number_of


def _name(row: Row, name: str) -> str:
    return {"queue": row.queue, "client": row.client}.get(name) or row.names[0]


def _severity(conditions: Sequence[Condition]) -> int:
    return max((one.severity + 1 for one in conditions if not one.silenced), default=0)


def _listing(column: Column | None) -> list[float] | None:
    return None if column is None else column.tolist()


def _at(values: list[float] | None, i: int) -> float | None:
    return None if values is None or math.isnan(values[i]) else values[i]


# --- what there is


def _empty() -> Source:
    return Source(iter(()), {}, "", lambda *_: {})


def _queues(sight: Sight, more: More) -> Source:
    table: Table[QueueSeries] | None = sight.tables.get("queue")
    if table is None:
        return _empty()
    given = _given(sight)
    columns = {name: table.columns[name] for name in (*QUEUE_NUMBERS, *QUEUE_MORE) if name in table} | rates(sight)

    def tell(i: int, conditions: Sequence[Condition]) -> Plain:
        row: QueueSeries = table.index.rows[i]
        return {
            "broker": row.broker,
            "address": row.address,
            "queue": row.queue,
            "kind": str(row.kind),
            "owner": row.owner,
            "team": row.team,
            **{name: number(column[i]) for name, column in columns.items()},
            "conditions": conditions_told(conditions),
            **more(sight, i),
        }

    rows = (
        Row((row.owner, row.team), row.address, row.queue, "", given.get((row.address, row.queue), ()), i)
        for i, row in enumerate(table.index.rows.tolist())
    )
    return Source(rows, columns, "messages", tell)


def _clients(sight: Sight, more: More) -> Source:
    table: Table[ClientSeries] | None = sight.tables.get("client")
    if table is None:
        return _empty()
    given = _given(sight)
    columns = {name: table.columns[name] for name in CLIENT_NUMBERS if name in table}

    def tell(i: int, conditions: Sequence[Condition]) -> Plain:
        row: ClientSeries = table.index.rows[i]
        return {
            "broker": row.broker,
            "address": row.address,
            "queue": row.queue,
            "client": row.client,
            **numbers_at(table, CLIENT_NUMBERS, i),
            "conditions": conditions_told(conditions),
            **more(sight, i),
        }

    rows = (
        Row((), row.address, row.queue, row.client, _of_client(given, row), i)
        for i, row in enumerate(table.index.rows.tolist())
    )
    return Source(rows, columns, "buffered", tell)


def _consumers(sight: Sight) -> Source:
    """Every consumer of the last poll, under the labels of its client."""
    table, grouping = sight.snapshot.consumers, sight.state.consumers.clients
    if table is None or grouping.source is not table.index:
        return _empty()
    given = _given(sight)
    columns = {name: table.columns[name] for name in CONSUMER_NUMBERS if name in table}
    columns |= {name: table.columns[name] - sight.state.clock.applied for name in TIMES if name in table}

    def tell(i: int, conditions: Sequence[Condition]) -> Plain:
        row: ConsumerRow = table.index.rows[i]
        series: ClientSeries = grouping.index.rows[grouping.member[i]]
        known = {name: number(column[i]) for name, column in columns.items() if np.isfinite(column[i])}
        return {
            "broker": series.broker,
            "address": row.address,
            "queue": row.queue,
            "client": series.client,
            "consumer": row.id,
            "protocol": row.protocol,
            "user": row.user,
            "remote_host": row.remote_host,
            "session": row.session,
            "filter": row.filter,
            **known,
            "conditions": conditions_told(conditions),
        }

    return Source(_consumer_rows(table.index, grouping.index.rows, grouping.member, given), columns, "buffered", tell)


def _consumer_rows(index: Index[ConsumerRow], series: Any, member: Any, given: Given) -> Iterator[Row]:
    for i, (row, at) in enumerate(zip(index.rows.tolist(), member.tolist(), strict=True)):
        if at != HIDDEN:
            of: ClientSeries = series[at]
            yield Row((row.id, row.remote_host), of.address, of.queue, of.client, _of_client(given, of), i)


def _given(sight: Sight) -> Given:
    of: dict[tuple[str, str], list[Condition]] = {}
    for one in sight.conditions:
        of.setdefault((one.address, one.queue), []).append(one)
    return of


def _of_client(given: Given, row: ClientSeries) -> Sequence[Condition]:
    here = given.get((row.address, row.queue))
    return [one for one in here if one.client == row.client] if here else ()


def conditions_told(conditions: Sequence[Condition]) -> list[Plain]:
    """In short, the worst first."""
    return [
        {
            "condition": one.name,
            "severity": one.severity.name.lower(),
            "silenced": one.silenced,
            "client": one.client,
            "since": round(one.since, 3),
        }
        for one in sorted(conditions, key=lambda one: -one.severity)
    ]
