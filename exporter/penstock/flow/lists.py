"""
Queues, clients, consumers and conditions as lists: chosen, sorted and cut over all brokers first, then told in plain
values.

There may be tens of thousands of rows; only those that are told are worked out.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.flow.explain import Plain, Sight, condition_values, number, numbers_at, rates, unknown_conditions
from penstock.flow.judge.conditions import Condition, Severity
from penstock.flow.judge.spans import Mask
from penstock.table import Column, Index, Positions, Table

if TYPE_CHECKING:
    from penstock.flow.series import ClientSeries, QueueSeries
    from penstock.model import ConsumerRow

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

CLIENT_NAMES: Final = ("address", "queue", "client")
CLIENT: Final = attrgetter(*CLIENT_NAMES)
"""What a client and a condition of it are known by."""
NAMES: Final = frozenset({"queue", "client", "consumer"})
QUEUE_SORTS: Final = (WORST, "queue", *QUEUE_NUMBERS, "scheduled", "rate_in", "rate_out")
CLIENT_SORTS: Final = (WORST, "client", "queue", *CLIENT_NUMBERS)
CONSUMER_SORTS: Final = (WORST, "client", "queue", "consumer", *CONSUMER_NUMBERS, *TIMES)

Conditions = Mapping[int, Sequence[Condition]]
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
class Source:
    """
    The rows of one broker as columns: there may be tens of thousands, and only those that are told are worked out.

    labels: address, queue and client by which they are chosen. member: position of each row's label, HIDDEN where the
    row is not shown. conditions: by position of the label. label_names, row_names: fields of labels and of rows in
    which a text is looked for. columns: by the name of each sort. held: the column that counts after severity. tell: a
    row, by its position.
    """

    labels: Sequence[Any]
    member: Positions
    rows: Sequence[Any]
    conditions: Conditions
    label_names: tuple[str, ...]
    row_names: tuple[str, ...]
    columns: Mapping[str, Column]
    held: str
    tell: Callable[[int, Sequence[Condition]], Plain]


def nothing_more(_: Sight, __: int) -> Plain:
    return {}


def queue_list(sights: Sequence[Sight], wanted: Wanted, more: More = nothing_more) -> Listed:
    """At most `wanted.limit` queues."""
    return _listed([_queues(sight, more, unknown=wanted.condition == "unknown") for sight in sights], wanted)


def client_list(sights: Sequence[Sight], wanted: Wanted, more: More = nothing_more) -> Listed:
    """At most `wanted.limit` clients, one row for each queue they consume from."""
    return _listed([_clients(sight, more) for sight in sights], wanted)


def consumer_list(sights: Sequence[Sight], wanted: Wanted) -> Listed:
    """At most `wanted.limit` of all consumers, also of those that /metrics sums."""
    return _listed([_consumers(sight) for sight in sights], wanted)


def condition_list(sights: Sequence[Sight], wanted: Wanted) -> Listed:
    """
    At most `wanted.limit` conditions that hold, by severity, then the oldest first; silenced ones are left out.

    `wanted.text` is part of the name of address, queue, client or condition.
    """
    found = [(one, sight) for sight in sights for one in sight.conditions if not one.silenced and _holds(one, wanted)]
    chosen = heapq.nsmallest(
        wanted.offset + wanted.limit, found, key=lambda pair: (-pair[0].severity, pair[0].since, pair[0].queue)
    )
    return [condition_row(sight, one) for one, sight in chosen[wanted.offset :]], len(found)


def condition_row(sight: Sight, one: Condition) -> Plain:
    """A condition with where it holds."""
    return {"broker": one.broker, "address": one.address, "queue": one.queue} | condition_values(one, sight)


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


def _holds(one: Condition, wanted: Wanted) -> bool:
    asked = {"address": one.address, "queue": one.queue, "client": one.client, "condition": one.name}
    part = wanted.text.casefold()
    return all(getattr(wanted, name) in ("", is_) for name, is_ in asked.items()) and (
        not part or any(part in is_.casefold() for is_ in asked.values())
    )


# --- choosing and sorting


def _listed(sources: Sequence[Source], wanted: Wanted) -> Listed:
    chosen = [_chosen(source, wanted) for source in sources]
    of = np.repeat(np.arange(len(sources)), [len(at) for at in chosen])
    at = np.concatenate([np.empty(0, np.intp), *chosen])
    order = _order(sources, chosen, wanted.sort)[wanted.offset : wanted.offset + wanted.limit]
    told = [(sources[n], i) for n, i in zip(of[order].tolist(), at[order].tolist(), strict=True)]
    return [source.tell(i, source.conditions.get(int(source.member[i]), ())) for source, i in told], len(at)


def _chosen(source: Source, wanted: Wanted) -> Positions:
    """Positions of the rows that fit."""
    labels, size = source.labels, len(source.labels)
    fits = np.ones(size, np.bool_)
    for name in ("address", "queue", "client"):
        if text := getattr(wanted, name):
            fits &= np.fromiter((getattr(row, name, "") == text for row in labels), np.bool_, size)
    if wanted.condition:
        fits &= _where(size, [i for i, here in source.conditions.items() if _any(here, wanted.condition)])
    # One more, so that the last stands for the rows that are not shown.
    rows = np.append(fits, np.False_)[source.member]
    if wanted.text:
        rows &= _named(source, wanted.text.casefold())
    return np.flatnonzero(rows)


def _any(conditions: Sequence[Condition], name: str) -> bool:
    return any(one.name == name for one in conditions)


def _named(source: Source, part: str) -> Mask:
    """The rows in one of whose names `part` is, or in that of a condition."""
    size = len(source.labels)
    found = _where(size, [i for i, here in source.conditions.items() if any(part in one.name for one in here)])
    for name in source.label_names:
        found |= _containing(source.labels, name, part)
    rows: Mask = np.append(found, np.False_)[source.member]
    for name in source.row_names:
        rows |= _containing(source.rows, name, part)
    return rows


def _containing(rows: Sequence[Any], name: str, part: str) -> Mask:
    return np.fromiter((part in text.casefold() for text in map(attrgetter(name), rows)), np.bool_, len(rows))


def _where(size: int, at: Sequence[int]) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[list(at)] = True
    return mask


def _order(sources: Sequence[Source], chosen: Sequence[Positions], sort: str) -> Positions:
    """The order of all chosen rows; what is not known comes last, equals stay as they are."""
    name = sort.removeprefix("-")
    sign = 1.0 if (name in NAMES) != sort.startswith("-") else -1.0
    pairs = list(zip(sources, chosen, strict=True))
    if name in NAMES:
        keys = [key for source, at in pairs for key in _names(source, name, at)]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__, reverse=sign < 0), np.intp)
    if name == WORST:
        held = _joined([np.nan_to_num(_column(source, source.held)[at]) for source, at in pairs])
        return np.lexsort((sign * held, sign * _joined([_severity(source)[at] for source, at in pairs])))
    values = _joined([_column(source, name)[at] for source, at in pairs])
    return np.lexsort((sign * values, np.isnan(values)))


def _names(source: Source, name: str, at: Positions) -> Iterator[tuple[str, str, str]]:
    for i in at.tolist():
        label, row = source.labels[source.member[i]], source.rows[i]
        first = row.id if name == "consumer" else getattr(label, name, "")
        yield first.casefold(), label.queue, getattr(label, "client", "")


def _column(source: Source, name: str) -> Column:
    return source.columns.get(name, np.full(len(source.rows), np.nan))


def _severity(source: Source) -> Column:
    """Of each row the worst that holds: 0 nothing, 1 a notice, 2 a warning, 3 critical."""
    worst = np.zeros(len(source.labels) + 1)
    for i, here in source.conditions.items():
        worst[i] = max((one.severity + 1 for one in here if not one.silenced), default=0)
    return worst[source.member]


def _joined(columns: Sequence[Column]) -> Column:
    return np.concatenate([np.empty(0), *columns])


# --- what there is


def _queues(sight: Sight, more: More, *, unknown: bool) -> Source:
    """unknown: rows carry this condition to be chosen by; else only those that are told are asked for it."""
    table: Table[QueueSeries] = sight.tables.get("queue", Table(Index.empty()))
    columns = {name: table.columns[name] for name in (*QUEUE_NUMBERS, *QUEUE_MORE) if name in table}
    columns |= rates(sight) if len(table) else {}

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
            "conditions": conditions_told(conditions if unknown else [*conditions, *unknown_conditions(sight, row)]),
            **more(sight, i),
        }

    rows = table.index.rows.tolist()
    given = [*sight.conditions, *(one for row in rows for one in unknown_conditions(sight, row))] if unknown else ()
    conditions = _by_label(rows, given or sight.conditions, attrgetter("address", "queue"))
    names = ("address", "queue", "owner", "team")
    return Source(rows, np.arange(len(rows)), rows, conditions, names, (), columns, "messages", tell)


def _clients(sight: Sight, more: More) -> Source:
    table: Table[ClientSeries] = sight.tables.get("client", Table(Index.empty()))
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

    rows = table.index.rows.tolist()
    conditions = _by_label(rows, sight.conditions, CLIENT)
    return Source(rows, np.arange(len(rows)), rows, conditions, CLIENT_NAMES, (), columns, "buffered", tell)


def _consumers(sight: Sight) -> Source:
    """Every consumer of the last poll, under the labels of its client."""
    grouping = sight.state.consumers.clients
    table: Table[ConsumerRow] | None = sight.snapshot.consumers
    if table is None or grouping.source is not table.index:
        return Source((), np.empty(0, np.intp), (), {}, (), (), {}, "", lambda *_: {})
    read = table
    columns = {name: read.columns[name] for name in CONSUMER_NUMBERS if name in read}
    columns |= {name: read.columns[name] - sight.state.clock.applied for name in TIMES if name in read}

    def tell(i: int, conditions: Sequence[Condition]) -> Plain:
        row: ConsumerRow = read.index.rows[i]
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

    labels, rows = grouping.index.rows.tolist(), read.index.rows.tolist()
    conditions = _by_label(labels, sight.conditions, CLIENT)
    own = ("id", "remote_host")
    return Source(labels, grouping.member, rows, conditions, CLIENT_NAMES, own, columns, "buffered", tell)


def _by_label(labels: Sequence[Any], conditions: Sequence[Condition], name: Callable[[Any], Any]) -> Conditions:
    """Conditions by the position of the label that has the same name."""
    if not conditions:
        return {}
    given: dict[Any, list[Condition]] = {}
    for one in conditions:
        given.setdefault(name(one), []).append(one)
    queues = {one.queue for one in conditions}
    return {i: given[name(row)] for i, row in enumerate(labels) if row.queue in queues and name(row) in given}


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
