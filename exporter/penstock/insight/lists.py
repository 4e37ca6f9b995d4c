"""Queues, clients, consumers and conditions as lists: chosen, sorted and cut over all brokers first, then made; and one
client over all queues.

There may be tens of thousands of rows; only those that are shown are worked out.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType

from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.unknown import UNKNOWN
from penstock.core.table import Column, Mask, Positions, Table
from penstock.insight import answers, explain
from penstock.insight.answers import (
    Client,
    ClientConnection,
    ClientView,
    Consumer,
    Queue,
    Target,
    columns,
)
from penstock.insight.broker_view import BrokerView, json_number
from penstock.series.labels import (
    CLIENT,
    QUEUE,
    ClientSeries,
    ConnectionSeries,
    ProducerSeries,
    QueueSeries,
)

WORST: Final = "worst"
"""By severity, then by what is buffered: the order unless another is asked for."""
SUMS: Final = ("messages", "ready", "delivering", "consumers")
"""Columns of queues that a broker sums."""
TIMES: Final = ("last_delivery", "last_acknowledgement")
"""Columns of consumers by the broker's clock."""

MOST: Final = 200
"""Conditions, queues, addresses and connections of one client that are shown."""

CLIENT_NAMES: Final = ("address", "queue", "client")
OF_CONSUMER: Final = (
    "address",
    "queue",
    "protocol",
    "user",
    "remote_host",
    "session",
    "filter",
)
NAMES: Final = frozenset({"queue", "client", "consumer"})
QUEUE_SORTS: Final = (WORST, "queue", *SUMS, "scheduled", "rate_in", "rate_out")
CLIENT_SORTS: Final = (WORST, "client", "queue", *columns(Client))
CONSUMER_SORTS: Final = (WORST, "client", "queue", "consumer", *columns(Consumer))

RowT = TypeVar("RowT")
Conditions = Mapping[int, Sequence[ActiveCondition]]
SeriesOf = Callable[[BrokerView, int], answers.TimeSeries | UnsetType | None]
"""The last values of the row at a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which rows, and in which order; an empty text means any.

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
class RowSource(Generic[RowT]):
    """The rows of one broker as columns: there may be tens of thousands, and only those that are shown are worked out.

    labels: address, queue and client by which they are chosen. member: position of each row's label, HIDDEN where the
    row is not shown. conditions: by position of the label. label_names, row_names: fields of labels and of rows in
    which a text is looked for. columns: by the name of each sort. held: the column that counts after severity. row: of
    a position, with its conditions.
    """

    labels: Sequence[Any]
    member: Positions
    rows: Sequence[Any]
    conditions: Conditions
    label_names: tuple[str, ...]
    row_names: tuple[str, ...]
    columns: Mapping[str, Column]
    held: str
    row: Callable[[int, Sequence[ActiveCondition]], RowT]


def no_series(_: BrokerView, __: int) -> UnsetType:
    return UNSET


def queue_list(
    views: Sequence[BrokerView], query: ListQuery, recent: SeriesOf = no_series
) -> answers.QueueList:
    """At most `query.limit` queues."""
    sources = [
        _queues(view, recent, unknown=query.condition == UNKNOWN.name) for view in views
    ]
    return answers.QueueList(*_listed(sources, query))


def client_list(
    views: Sequence[BrokerView], query: ListQuery, recent: SeriesOf = no_series
) -> answers.ClientList:
    """At most `query.limit` clients, one row for each queue they consume from."""
    return answers.ClientList(
        *_listed([_clients(view, recent) for view in views], query)
    )


def consumer_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.ConsumerList:
    """At most `query.limit` of all consumers, also of those that /metrics sums."""
    return answers.ConsumerList(
        *_listed(
            [source for view in views if (source := _consumers(view)) is not None],
            query,
        )
    )


def condition_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.ConditionList:
    """At most `query.limit` active conditions, by severity, then the oldest first; silenced ones are left out.

    `query.text` is part of the name of address, queue, client or condition.
    """
    found = [
        (one, view)
        for view in views
        for one in view.conditions
        if not one.silenced and _fits(one, query)
    ]
    chosen = heapq.nsmallest(
        query.offset + query.limit,
        found,
        key=lambda pair: (-pair[0].severity, pair[0].since, pair[0].queue),
    )
    return answers.ConditionList(
        [explain.listed(one, view) for one, view in chosen[query.offset :]], len(found)
    )


def incident_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.IncidentList:
    """At most `query.limit`, the worst first. `query.text`: part of the name of the root, its kind or a victim."""
    found = [
        replace(one, stale=None if view.stale is UNSET else view.stale)
        for view in views
        for one in explain.incidents_in_full(view, view.incidents.told)
        if query.text.casefold()
        in " ".join((one.object, one.kind, *one.victims)).casefold()
    ]
    found.sort(key=lambda one: (-Severity[one.severity.upper()], one.begin))
    total = len(found) + sum(view.incidents.beyond for view in views)
    return answers.IncidentList(found[query.offset :][: query.limit], total)


def broker_numbers(view: BrokerView) -> dict[str, answers.Number]:
    """The sums of a broker's queues, and how many of its conditions are critical or warnings."""
    found: dict[str, answers.Number] = {
        f"{name}s": len(view.tables[name])
        for name in ("queue", "client")
        if name in view.tables
    }
    if "queue" in view.tables:
        queues = view.tables["queue"]
        found |= {
            name: json_number(np.nansum(queues.columns[name])) or 0
            for name in SUMS
            if name in queues
        }
    severities = [one.severity for one in view.conditions if not one.silenced]
    return found | {
        "critical": severities.count(Severity.CRITICAL),
        "warning": severities.count(Severity.WARNING),
    }


def _fits(one: ActiveCondition, query: ListQuery) -> bool:
    asked = {
        "address": one.address,
        "queue": one.queue,
        "client": one.client,
        "condition": one.name,
    }
    part = query.text.casefold()
    return all(getattr(query, name) in ("", is_) for name, is_ in asked.items()) and (
        not part or any(part in is_.casefold() for is_ in asked.values())
    )


# --- of several processes


def first_rows(query: ListQuery) -> ListQuery:
    """What each is asked of its brokers, so that `merged` can give what `query` asks of all."""
    return replace(query, offset=0, limit=query.offset + query.limit)


def _order_of(part: Any, query: ListQuery) -> tuple[Callable[[Any], Any], bool]:
    """The key by which the rows of a list like `part` are sorted, and whether it ascends."""
    name = query.sort.removeprefix("-")
    ascends = (name in NAMES) != query.sort.startswith("-")
    sign = 1.0 if ascends else -1.0
    size_field = "messages" if isinstance(part, answers.QueueList) else "buffered"

    def of_condition(row: Any) -> Any:
        return -Severity[row.severity.upper()], row.since, row.queue

    def of_incident(row: Any) -> Any:
        return -Severity[row.severity.upper()], row.begin

    def of_name(row: Any) -> Any:
        return getattr(row, name).casefold(), row.queue, getattr(row, "client", "")

    def of_worst(row: Any) -> Any:
        size = np.nan_to_num(_known(row, size_field))
        return sign * _worst(row.conditions, query), sign * size

    def of_number(row: Any) -> Any:
        number = _known(row, name)
        return np.isnan(number), np.nan_to_num(sign * number)

    if isinstance(part, answers.ConditionList):
        return of_condition, True
    if isinstance(part, answers.IncidentList):
        return of_incident, True
    if name in NAMES:
        return of_name, ascends
    if name == WORST:
        return of_worst, True
    return of_number, True


def merged(parts: Sequence[Any], query: ListQuery, brokers: Sequence[str]) -> Any:
    """One list of those that `first_rows` gave. brokers: all, in the order in which equal rows are."""
    key, ascends = _order_of(parts[0], query)
    place = {broker: n for n, broker in enumerate(brokers)}
    rows: list[Any] = [row for part in parts for row in part.rows]
    rows.sort(key=lambda row: place.get(row.broker, len(place)))
    rows.sort(key=key, reverse=not ascends)
    return type(parts[0])(
        rows[query.offset : query.offset + query.limit],
        sum(part.total for part in parts),
    )


def _worst(conditions: Sequence[answers.ConditionSummary], query: ListQuery) -> int:
    """As `_severity`; what is unknown of a queue counts only where it is looked for."""
    left_out = "" if query.condition == UNKNOWN.name else UNKNOWN.name
    counted = (
        one for one in conditions if not one.silenced and one.condition != left_out
    )
    return max((Severity[one.severity.upper()] + 1 for one in counted), default=0)


def _known(row: Any, column: str) -> float:
    value = getattr(row, column)
    return np.nan if value is None or value is UNSET else float(value)


# --- choosing and sorting


def _listed(
    sources: Sequence[RowSource[RowT]], query: ListQuery
) -> tuple[list[RowT], int]:
    """The rows, and how many fit."""
    chosen = [_chosen(source, query) for source in sources]
    of = np.repeat(np.arange(len(sources)), [len(at) for at in chosen])
    at = np.concatenate([np.empty(0, np.intp), *chosen])
    order = _order(sources, chosen, query.sort)[
        query.offset : query.offset + query.limit
    ]
    shown = [
        (sources[n], i)
        for n, i in zip(of[order].tolist(), at[order].tolist(), strict=True)
    ]
    return [
        source.row(i, source.conditions.get(int(source.member[i]), ()))
        for source, i in shown
    ], len(at)


def _chosen(source: RowSource[Any], query: ListQuery) -> Positions:
    """Positions of the rows that fit."""
    labels = source.labels
    size = len(source.labels)
    fits = np.ones(size, np.bool_)
    for name in ("address", "queue", "client"):
        if text := getattr(query, name):
            fits &= np.fromiter(
                (getattr(row, name, "") == text for row in labels), np.bool_, size
            )
    if query.condition:
        having = [
            i
            for i, here in source.conditions.items()
            if any(one.name == query.condition for one in here)
        ]
        fits &= _where(size, having)
    # One more, so that the last is for the rows that are not shown.
    rows = np.append(fits, np.False_)[source.member]
    if query.text:
        rows &= _named(source, query.text.casefold())
    return np.flatnonzero(rows)


def _named(source: RowSource[Any], part: str) -> Mask:
    """The rows in one of whose names `part` is, or in that of a condition."""
    size = len(source.labels)
    found = _where(
        size,
        [
            i
            for i, here in source.conditions.items()
            if any(part in one.name for one in here)
        ],
    )
    for name in source.label_names:
        found |= _containing(source.labels, name, part)
    rows: Mask = np.append(found, np.False_)[source.member]
    for name in source.row_names:
        rows |= _containing(source.rows, name, part)
    return rows


def _containing(rows: Sequence[Any], name: str, part: str) -> Mask:
    return np.fromiter(
        (part in text.casefold() for text in map(attrgetter(name), rows)),
        np.bool_,
        len(rows),
    )


def _where(size: int, at: Sequence[int]) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[list(at)] = True
    return mask


def _order(
    sources: Sequence[RowSource[Any]], chosen: Sequence[Positions], sort: str
) -> Positions:
    """The order of all chosen rows; what is not known comes last, equals stay as they are."""
    name = sort.removeprefix("-")
    sign = 1.0 if (name in NAMES) != sort.startswith("-") else -1.0
    pairs = list(zip(sources, chosen, strict=True))
    if name in NAMES:
        keys = [key for source, at in pairs for key in _names(source, name, at)]
        return np.array(
            sorted(range(len(keys)), key=keys.__getitem__, reverse=sign < 0), np.intp
        )
    if name == WORST:
        held = _joined(
            [np.nan_to_num(_column(source, source.held)[at]) for source, at in pairs]
        )
        return np.lexsort(
            (
                sign * held,
                sign * _joined([_severity(source)[at] for source, at in pairs]),
            )
        )
    values = _joined([_column(source, name)[at] for source, at in pairs])
    return np.lexsort((sign * values, np.isnan(values)))


def _names(
    source: RowSource[Any], name: str, at: Positions
) -> Iterator[tuple[str, str, str]]:
    for i in at.tolist():
        label = source.labels[source.member[i]]
        row = source.rows[i]
        first = row.id if name == "consumer" else getattr(label, name, "")
        yield first.casefold(), label.queue, getattr(label, "client", "")


def _column(source: RowSource[Any], name: str) -> Column:
    return source.columns.get(name, np.full(len(source.rows), np.nan))


def _severity(source: RowSource[Any]) -> Column:
    """Of each row the worst that holds: 0 nothing, 1 a notice, 2 a warning, 3 critical."""
    worst = np.zeros(len(source.labels) + 1)
    for i, here in source.conditions.items():
        worst[i] = max(
            (one.severity + 1 for one in here if not one.silenced), default=0
        )
    return worst[source.member]


def _joined(columns: Sequence[Column]) -> Column:
    return np.concatenate([np.empty(0), *columns])


# --- what there is


def _queues(view: BrokerView, recent: SeriesOf, *, unknown: bool) -> RowSource[Queue]:
    """unknown: rows carry this condition to be chosen by; else only those that are shown are asked for it."""
    table: Table[QueueSeries] = view.table("queue")
    read = {
        name: table.columns[name] for name in columns(Queue) if name in table.columns
    }
    read |= explain.rates(view) if len(table) else {}

    def queue(i: int, conditions: Sequence[ActiveCondition]) -> Queue:
        row: QueueSeries = table.index.rows[i]
        more = () if unknown else explain.unknown_conditions(view, row)
        return Queue(
            state=explain.state_of_row(view, table, i),
            kind=str(row.kind),
            **named(row, ("broker", "address", "queue", "owner", "team"))
            | {name: json_number(column[i]) for name, column in read.items()},
            conditions=explain.summaries([*conditions, *more]),
            stale=view.stale,
            recent=recent(view, i),
        )

    rows = table.index.rows.tolist()
    more = (
        [one for row in rows for one in explain.unknown_conditions(view, row)]
        if unknown
        else []
    )
    conditions = _by_label(rows, [*view.conditions, *more], QUEUE)
    names = ("address", "queue", "owner", "team")
    return RowSource(
        rows, np.arange(len(rows)), rows, conditions, names, (), read, "messages", queue
    )


def _clients(view: BrokerView, recent: SeriesOf) -> RowSource[Client]:
    table: Table[ClientSeries] = view.table("client")
    names = columns(Client)

    def client(i: int, conditions: Sequence[ActiveCondition]) -> Client:
        row: ClientSeries = table.index.rows[i]
        return Client(
            state=explain.state_of_row(view, table, i),
            **named(row, ("broker", *CLIENT_NAMES))
            | explain.client_numbers(view, table, names, i),
            conditions=explain.summaries(conditions),
            stale=view.stale,
            recent=recent(view, i),
        )

    rows = table.index.rows.tolist()
    read = {name: table.columns[name] for name in names if name in table}
    conditions = _by_label(rows, view.conditions, CLIENT)
    return RowSource(
        rows,
        np.arange(len(rows)),
        rows,
        conditions,
        CLIENT_NAMES,
        (),
        read,
        "buffered",
        client,
    )


def _consumers(view: BrokerView) -> RowSource[Consumer] | None:
    """Every consumer of the last poll, under the labels of its client; None where they were not read."""
    grouping = view.state.consumers.clients
    if (
        view.snapshot.consumers is None
        or grouping.source is not view.snapshot.consumers.index
    ):
        return None
    table = view.snapshot.consumers
    read = {name: table.columns[name] for name in columns(Consumer) if name in table}
    read |= {
        name: read[name] - view.state.clock.applied for name in TIMES if name in read
    }
    clients: Table[ClientSeries] = view.table("client")

    def consumer(i: int, conditions: Sequence[ActiveCondition]) -> Consumer:
        row = table.index.rows[i]
        series: ClientSeries = grouping.index.rows[grouping.member[i]]
        return Consumer(
            state=explain.state_of_row(view, clients, int(grouping.member[i])),
            broker=series.broker,
            client=series.client,
            consumer=row.id,
            **named(row, OF_CONSUMER) | explain.numbers_at(known, tuple(read), i),
            conditions=explain.summaries(conditions),
            stale=view.stale,
        )

    known = Table(table.index, read)
    labels = grouping.index.rows.tolist()
    rows = table.index.rows.tolist()
    conditions = _by_label(labels, view.conditions, CLIENT)
    own = ("id", "remote_host")
    return RowSource(
        labels,
        grouping.member,
        rows,
        conditions,
        CLIENT_NAMES,
        own,
        read,
        "buffered",
        consumer,
    )


def named(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Its texts that the answer has under the same names."""
    return {name: getattr(row, name) for name in names}


def _by_label(
    labels: Sequence[Any],
    conditions: Sequence[ActiveCondition],
    name: Callable[[Any], Any],
) -> Conditions:
    """Conditions by the position of the label that has the same name."""
    if not conditions:
        return {}
    given: dict[Any, list[ActiveCondition]] = {}
    for one in conditions:
        given.setdefault(name(one), []).append(one)
    queues = {one.queue for one in conditions}
    return {
        i: given[name(row)]
        for i, row in enumerate(labels)
        if row.queue in queues and name(row) in given
    }


# --- one client


def client_view(view: BrokerView, client: str, known: answers.Knowledge) -> ClientView:
    """All that is known of a client. NotFound: there is no such client; the hint names similar ones."""
    producers: Table[ProducerSeries] = view.table("producer")
    connections: Table[ConnectionSeries] = view.table("connection")
    queues = client_list([view], ListQuery(client=client, limit=MOST))
    conditions = [one for one in view.conditions if one.client == client]
    sends = [i for i, row in enumerate(producers.index) if row.client == client]
    through = [i for i, row in enumerate(connections.index) if row.client == client]
    if not (queues.total or conditions or sends or through):
        names = {
            row.client
            for table in ("client", "producer")
            for row in view.table(table).index
        }
        raise view.missing("client", client, sorted(names))
    return ClientView(
        broker=view.policy.broker,
        client=client,
        stamp=round(view.snapshot.stamp, 3),
        knowledge=known,
        conditions=explain.in_full(view, conditions, explain.listed, MOST),
        queues=queues.rows,
        queues_left_out=queues.total - len(queues.rows),
        sends_to=[
            Target(
                producers.index.rows[i].address, json_number(producers["produced"][i])
            )
            for i in sends[:MOST]
        ],
        connections=[
            ClientConnection(
                **named(
                    connections.index.rows[i],
                    ("connection", "protocol", "user", "remote_host"),
                )
                | explain.numbers_at(connections, columns(ClientConnection), i)
            )
            for i in through[:MOST]
        ],
    )
