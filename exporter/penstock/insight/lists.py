"""Queues, clients, consumers and conditions as lists, and one client over all queues.

Rows are chosen, sorted and cut over all brokers first, then made: there may be tens of thousands, and only those that
are shown are worked out.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType

from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.unknown import UNKNOWN
from penstock.core.table import Column, Mask, Positions, Table
from penstock.incidents.incident import Incident
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
from penstock.model import ConsumerRow
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

QUEUE_NAMES: Final = ("broker", "address", "queue", "owner", "team")
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
RowT_co = TypeVar("RowT_co", covariant=True)
Sortable = Queue | Client | Consumer
Conditions = Mapping[int, Sequence[ActiveCondition]]
"""By the position of a label."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource(Generic[RowT_co]):
    """The rows of one broker as columns: there may be tens of thousands, and only those that are shown are worked out.

    Attributes:
        labels: address, queue and client by which rows are chosen.
        member: (rows,) position of the row's label; HIDDEN where the row is not shown.
        rows: the texts of each.
        conditions: by the position of the label.
        label_names: fields of labels in which a text is searched.
        row_names: fields of rows in which it is searched.
        columns: (rows,) numbers to sort by, by name.
        size_name: the column that sorts rows of the same severity.
        make: the answer for the row at a position, with its conditions.
    """

    labels: Sequence[Any]
    member: Positions
    rows: Sequence[Any]
    conditions: Conditions
    label_names: tuple[str, ...]
    row_names: tuple[str, ...] = ()
    columns: Mapping[str, Column]
    size_name: str
    make: Callable[[int, Sequence[ActiveCondition]], RowT_co]

    def column(self, name: str) -> Column:
        """(rows,) The numbers of this name; NaN where there is no such column."""
        if name in self.columns:
            return self.columns[name]
        return np.full(len(self.rows), np.nan)

    def severity(self) -> Column:
        """(rows,) The worst that is active: 0 nothing, 1 a notice, 2 a warning, 3 critical."""
        # One more, so that the last is for the rows that are not shown.
        worst = np.zeros(len(self.labels) + 1)
        for label, conditions in self.conditions.items():
            worst[label] = worst_of(conditions)
        return worst[self.member]

    def of_labels(self, mask: Mask) -> Mask:
        """(rows,) True where the row's label is one of these. mask: of the labels."""
        # One more, so that the last is for the rows that are not shown.
        with_hidden = np.append(mask, np.False_)
        return np.asarray(with_hidden[self.member])

    def answer(self, row: int) -> RowT_co:
        """The answer for the row at this position."""
        label = int(self.member[row])
        conditions = self.conditions.get(label, ())
        return self.make(row, conditions)


def worst_of(conditions: Sequence[ActiveCondition]) -> int:
    """The worst severity of these as a number from 1; 0 where none is active. Silenced ones do not count."""
    return max(
        (each.severity + 1 for each in conditions if not each.silenced), default=0
    )


class Listed(NamedTuple, Generic[RowT]):
    """Rows of a list, and how many there are beyond the limit too."""

    rows: list[RowT]
    total: int


def no_series(_: BrokerView, __: int) -> UnsetType:
    """No last values: they are not asked for."""
    return UNSET


# --- the lists


def queue_list(
    views: Sequence[BrokerView], query: ListQuery, recent: SeriesOf = no_series
) -> answers.QueueList:
    """At most `query.limit` queues."""
    with_unknown = query.condition == UNKNOWN.name
    sources = [_queues(view, recent, unknown=with_unknown) for view in views]
    return answers.QueueList(*_listed(sources, query))


def client_list(
    views: Sequence[BrokerView], query: ListQuery, recent: SeriesOf = no_series
) -> answers.ClientList:
    """At most `query.limit` clients, one row for each queue they consume from."""
    sources = [_clients(view, recent) for view in views]
    return answers.ClientList(*_listed(sources, query))


def consumer_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.ConsumerList:
    """At most `query.limit` of all consumers, also of those that /metrics sums."""
    sources = [_consumers(view) for view in views]
    read_sources = [source for source in sources if source is not None]
    return answers.ConsumerList(*_listed(read_sources, query))


def condition_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.ConditionList:
    """At most `query.limit` active conditions, by severity, then the oldest first; silenced ones are left out.

    `query.text` is part of the name of address, queue, client or condition.
    """
    fitting = [
        (condition, view)
        for view in views
        for condition in view.conditions
        if not condition.silenced and _fits(condition, query)
    ]

    def worst_first(pair: tuple[ActiveCondition, BrokerView]) -> tuple[int, float, str]:
        condition = pair[0]
        return -condition.severity, condition.since, condition.queue

    end = query.offset + query.limit
    chosen = heapq.nsmallest(end, fitting, key=worst_first)
    rows = [
        explain.listed(condition, view) for condition, view in chosen[query.offset :]
    ]
    return answers.ConditionList(rows, len(fitting))


def incident_list(
    views: Sequence[BrokerView], query: ListQuery
) -> answers.IncidentList:
    """At most `query.limit`, the worst first. `query.text`: part of the name of the root, its kind or a victim."""
    part = query.text.casefold()
    fitting = []
    for view in views:
        stale = None if view.stale is UNSET else view.stale
        for incident in explain.incidents_in_full(view, view.incidents.told):
            names = " ".join((incident.object, incident.kind, *incident.victims))
            if part in names.casefold():
                fitting.append(replace(incident, stale=stale))
    fitting.sort(key=by_severity_and_begin)
    total = len(fitting)
    for view in views:
        total += view.incidents.beyond
    end = query.offset + query.limit
    return answers.IncidentList(fitting[query.offset : end], total)


def by_severity_and_begin(incident: Incident) -> tuple[int, float]:
    """The key that sorts incidents: the worst first, then the oldest."""
    return -Severity[incident.severity.upper()], incident.begin


def broker_numbers(view: BrokerView) -> dict[str, answers.Number]:
    """The sums of a broker's queues, and how many of its conditions are critical or warnings."""
    numbers: dict[str, answers.Number] = {}
    for name in ("queue", "client"):
        if name in view.tables:
            numbers[f"{name}s"] = len(view.tables[name])
    if "queue" in view.tables:
        queues = view.tables["queue"]
        for name in SUMS:
            if name in queues:
                total = np.nansum(queues.columns[name])
                numbers[name] = json_number(total) or 0
    severities = [each.severity for each in view.conditions if not each.silenced]
    numbers["critical"] = severities.count(Severity.CRITICAL)
    numbers["warning"] = severities.count(Severity.WARNING)
    return numbers


def _fits(condition: ActiveCondition, query: ListQuery) -> bool:
    """Whether the condition is one of those that are asked for."""
    names = {
        "address": condition.address,
        "queue": condition.queue,
        "client": condition.client,
        "condition": condition.name,
    }
    for field, name in names.items():
        if getattr(query, field) not in ("", name):
            return False
    part = query.text.casefold()
    return any(part in name.casefold() for name in names.values())


# --- lists of several processes


def first_rows(query: ListQuery) -> ListQuery:
    """The query for each process, so that `merged` can give the rows that `query` asks of all of them."""
    return replace(query, offset=0, limit=query.offset + query.limit)


def merged(parts: Sequence[Any], query: ListQuery, brokers: Sequence[str]) -> Any:
    """One list of the lists that `first_rows` gave.

    Args:
        parts: at least one, all of the same type.
        query: what is asked of all.
        brokers: all, in the order in which equal rows are.
    """
    first_part = parts[0]
    rows: list[Any] = []
    total = 0
    for part in parts:
        rows += part.rows
        total += part.total
    place = {broker: i for i, broker in enumerate(brokers)}
    last_place = len(place)
    rows.sort(key=lambda row: place.get(row.broker, last_place))
    key, ascends = _order_of(first_part, query)
    rows.sort(key=key, reverse=not ascends)
    end = query.offset + query.limit
    return type(first_part)(rows[query.offset : end], total)


def _order_of(part: Any, query: ListQuery) -> tuple[Callable[[Any], Any], bool]:
    """The key by which the rows of a list like `part` are sorted, and whether it ascends."""
    name, ascends = sort_of(query.sort)
    sign = 1.0 if ascends else -1.0
    size_name = "messages" if isinstance(part, answers.QueueList) else "buffered"

    def of_condition(row: answers.ListedCondition) -> tuple[int, float, str]:
        return -Severity[row.severity.upper()], row.since, row.queue

    def of_name(row: Sortable) -> tuple[str, str, str]:
        own_name = getattr(row, name)
        client = getattr(row, "client", "")
        return own_name.casefold(), row.queue, client

    def of_worst(row: Sortable) -> tuple[float, float]:
        size = np.nan_to_num(_known(row, size_name))
        return sign * _worst(row.conditions, query), sign * size

    def of_number(row: Sortable) -> tuple[bool, float]:
        number = _known(row, name)
        return np.isnan(number), np.nan_to_num(sign * number)

    if isinstance(part, answers.ConditionList):
        return of_condition, True
    if isinstance(part, answers.IncidentList):
        return by_severity_and_begin, True
    if name in NAMES:
        return of_name, ascends
    return (of_worst if name == WORST else of_number), True


def sort_of(sort: str) -> tuple[str, bool]:
    """The name of a sort, and whether it ascends: names do, numbers do not; a minus turns that round."""
    name = sort.removeprefix("-")
    return name, (name in NAMES) != sort.startswith("-")


def _worst(conditions: Sequence[answers.ConditionSummary], query: ListQuery) -> int:
    """The worst severity as `worst_of`; `unknown` counts only where the query asks for it."""
    left_out = "" if query.condition == UNKNOWN.name else UNKNOWN.name
    severities = [
        Severity[each.severity.upper()] + 1
        for each in conditions
        if not each.silenced and each.condition != left_out
    ]
    return max(severities, default=0)


def _known(row: object, column: str) -> float:
    """The number of a row; NaN where it is not known or there is no such column."""
    value = getattr(row, column)
    if value is None or value is UNSET:
        return np.nan
    return float(value)


# --- choosing and sorting


def _listed(sources: Sequence[RowSource[RowT]], query: ListQuery) -> Listed[RowT]:
    """The rows of all brokers that fit, sorted and cut."""
    chosen = [_chosen(source, query) for source in sources]
    sizes = [len(rows) for rows in chosen]
    source_of = np.repeat(np.arange(len(sources)), sizes)
    rows = np.concatenate([np.empty(0, np.intp), *chosen])
    order = _order(sources, chosen, query.sort)
    end = query.offset + query.limit
    answers_in_order = []
    for i in order[query.offset : end].tolist():
        source = sources[source_of[i]]
        answers_in_order.append(source.answer(int(rows[i])))
    return Listed(answers_in_order, len(rows))


def _chosen(source: RowSource[object], query: ListQuery) -> Positions:
    """Positions of the rows that fit."""
    labels = source.labels
    fits = np.ones(len(labels), np.bool_)
    for field in ("address", "queue", "client"):
        name = getattr(query, field)
        if name:
            same = (getattr(row, field, "") == name for row in labels)
            fits &= np.fromiter(same, np.bool_, len(labels))
    if query.condition:
        fits &= _with_condition(source, lambda name: name == query.condition)
    rows = source.of_labels(fits)
    if query.text:
        rows &= _named(source, query.text.casefold())
    return np.flatnonzero(rows)


def _named(source: RowSource[object], part: str) -> Mask:
    """(rows,) True where the part is in a name of the row or of one of its conditions."""
    labels = _with_condition(source, lambda name: part in name)
    for field in source.label_names:
        labels |= _containing(source.labels, field, part)
    rows = source.of_labels(labels)
    for field in source.row_names:
        rows |= _containing(source.rows, field, part)
    return rows


def _with_condition(source: RowSource[object], is_named: Callable[[str], bool]) -> Mask:
    """(labels,) True where a condition is active whose name fits."""
    mask = np.zeros(len(source.labels), np.bool_)
    for label, conditions in source.conditions.items():
        mask[label] = any(is_named(condition.name) for condition in conditions)
    return mask


def _containing(rows: Sequence[object], field: str, part: str) -> Mask:
    """(rows,) True where the part is in this text of the row, in any case."""
    texts = map(attrgetter(field), rows)
    contains = (part in text.casefold() for text in texts)
    return np.fromiter(contains, np.bool_, len(rows))


def _order(
    sources: Sequence[RowSource[object]], chosen: Sequence[Positions], sort: str
) -> Positions:
    """The order of all chosen rows; unknown numbers come last, equal rows stay as they are.

    Args:
        sources: of each broker.
        chosen: positions of the chosen rows of each source.
        sort: the name of the sort, with a minus where it is turned round.
    """
    name, ascends = sort_of(sort)
    sign = 1.0 if ascends else -1.0
    pairs = list(zip(sources, chosen, strict=True))
    if name in NAMES:
        return _order_by_name(pairs, name, ascends=ascends)
    if name == WORST:
        severity = _joined([source.severity()[rows] for source, rows in pairs])
        sizes = [source.column(source.size_name)[rows] for source, rows in pairs]
        size = np.nan_to_num(_joined(sizes))
        return np.lexsort((sign * size, sign * severity))
    values = _joined([source.column(name)[rows] for source, rows in pairs])
    return np.lexsort((sign * values, np.isnan(values)))


def _order_by_name(
    pairs: Sequence[tuple[RowSource[object], Positions]], name: str, *, ascends: bool
) -> Positions:
    """The order of all chosen rows by a name. pairs: of each broker the rows, and the positions of the chosen ones."""
    keys = [key for source, rows in pairs for key in _names(source, name, rows)]
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=not ascends)
    return np.array(order, np.intp)


def _names(
    source: RowSource[object], name: str, rows: Positions
) -> Iterator[tuple[str, str, str]]:
    """The keys that sort these rows by a name; equal ones by queue and client."""
    for i in rows.tolist():
        label = source.labels[source.member[i]]
        first = getattr(label, name, "")
        if name == "consumer":
            first = source.rows[i].id
        client = getattr(label, "client", "")
        yield first.casefold(), label.queue, client


def _joined(columns: Sequence[Column]) -> Column:
    """The columns one after the other."""
    return np.concatenate([np.empty(0), *columns])


# --- the rows of each list


def _queues(view: BrokerView, recent: SeriesOf, *, unknown: bool) -> RowSource[Queue]:
    """The queues of a broker.

    Args:
        view: the broker.
        recent: the last values of a row.
        unknown: rows have the condition `unknown` to be chosen by; else it is made only for those that are shown.
    """
    table: Table[QueueSeries] = view.table("queue")
    rows = table.index.rows.tolist()
    numbers = {
        name: table.columns[name] for name in columns(Queue) if name in table.columns
    }
    if len(table):
        numbers |= explain.rates(view)

    def queue(i: int, conditions: Sequence[ActiveCondition]) -> Queue:
        row: QueueSeries = rows[i]
        more = () if unknown else explain.unknown_conditions(view, row)
        return Queue(
            state=explain.state_of_row(view, table, i),
            kind=str(row.kind),
            **named(row, QUEUE_NAMES)
            | {name: json_number(column[i]) for name, column in numbers.items()},
            conditions=explain.summaries([*conditions, *more]),
            stale=view.stale,
            recent=recent(view, i),
        )

    conditions = list(view.conditions)
    if unknown:
        for row in rows:
            conditions += explain.unknown_conditions(view, row)
    return RowSource(
        labels=rows,
        member=np.arange(len(rows)),
        rows=rows,
        conditions=_by_label(rows, conditions, QUEUE),
        label_names=QUEUE_NAMES[1:],
        columns=numbers,
        size_name="messages",
        make=queue,
    )


def _clients(view: BrokerView, recent: SeriesOf) -> RowSource[Client]:
    """The clients of a broker. recent: the last values of a row."""
    table: Table[ClientSeries] = view.table("client")
    rows = table.index.rows.tolist()
    names = columns(Client)

    def client(i: int, conditions: Sequence[ActiveCondition]) -> Client:
        return Client(
            state=explain.state_of_row(view, table, i),
            **named(rows[i], ("broker", *CLIENT_NAMES))
            | explain.client_numbers(view, table, names, i),
            conditions=explain.summaries(conditions),
            stale=view.stale,
            recent=recent(view, i),
        )

    return RowSource(
        labels=rows,
        member=np.arange(len(rows)),
        rows=rows,
        conditions=_by_label(rows, view.conditions, CLIENT),
        label_names=CLIENT_NAMES,
        columns={name: table.columns[name] for name in names if name in table},
        size_name="buffered",
        make=client,
    )


def _consumers(view: BrokerView) -> RowSource[Consumer] | None:
    """Every consumer of the last poll, under the labels of its client; None where they were not read."""
    grouping = view.state.consumers.clients
    consumers = view.snapshot.consumers
    if consumers is None or grouping.source is not consumers.index:
        return None
    rows = consumers.index.rows.tolist()
    labels = grouping.index.rows.tolist()
    numbers = _consumer_numbers(view, consumers)
    shown_numbers = Table(consumers.index, numbers)
    clients: Table[ClientSeries] = view.table("client")

    def consumer(i: int, conditions: Sequence[ActiveCondition]) -> Consumer:
        row = rows[i]
        member = int(grouping.member[i])
        series: ClientSeries = labels[member]
        return Consumer(
            state=explain.state_of_row(view, clients, member),
            broker=series.broker,
            client=series.client,
            consumer=row.id,
            **named(row, OF_CONSUMER)
            | explain.numbers_at(shown_numbers, tuple(numbers), i),
            conditions=explain.summaries(conditions),
            stale=view.stale,
        )

    return RowSource(
        labels=labels,
        member=grouping.member,
        rows=rows,
        conditions=_by_label(labels, view.conditions, CLIENT),
        label_names=CLIENT_NAMES,
        row_names=("id", "remote_host"),
        columns=numbers,
        size_name="buffered",
        make=consumer,
    )


def _consumer_numbers(
    view: BrokerView, consumers: Table[ConsumerRow]
) -> dict[str, Column]:
    """(consumers,) The columns that are shown of consumers; times by the agent's clock."""
    numbers = {
        name: consumers.columns[name] for name in columns(Consumer) if name in consumers
    }
    ahead = view.state.clock.applied
    for name in TIMES:
        if name in numbers:
            numbers[name] = numbers[name] - ahead
    return numbers


def named(row: object, names: Sequence[str]) -> dict[str, Any]:
    """The texts of a row that the answer has under the same names."""
    return {name: getattr(row, name) for name in names}


def _by_label(
    labels: Sequence[QueueSeries | ClientSeries],
    conditions: Sequence[ActiveCondition],
    name_of: Callable[[Any], tuple[str, ...]],
) -> Conditions:
    """Conditions by the position of the label that has the same name.

    Args:
        labels: of queues or clients.
        conditions: that are active.
        name_of: the name of a label, or of a condition.
    """
    if not conditions:
        return {}
    by_name: dict[tuple[str, ...], list[ActiveCondition]] = {}
    for condition in conditions:
        by_name.setdefault(name_of(condition), []).append(condition)
    queues = {condition.queue for condition in conditions}
    return {
        i: by_name[name_of(row)]
        for i, row in enumerate(labels)
        if row.queue in queues and name_of(row) in by_name
    }


# --- one client


def client_view(
    view: BrokerView, client: str, knowledge: answers.Knowledge
) -> ClientView:
    """All that is known of a client. NotFound: there is no such client; the hint names similar ones."""
    queues = client_list([view], ListQuery(client=client, limit=MOST))
    conditions = [each for each in view.conditions if each.client == client]
    targets = _targets(view, client)
    connections = _connections(view, client)
    if not (queues.total or conditions or targets or connections):
        raise view.missing("client", client, sorted(_client_names(view)))
    return ClientView(
        broker=view.policy.broker,
        client=client,
        stamp=round(view.snapshot.stamp, 3),
        knowledge=knowledge,
        conditions=explain.in_full(view, conditions, explain.listed, MOST),
        queues=queues.rows,
        queues_left_out=queues.total - len(queues.rows),
        sends_to=targets,
        connections=connections,
    )


def _targets(view: BrokerView, client: str) -> list[Target]:
    """The addresses that the client sends to, with the messages that it produced; at most `MOST`."""
    producers: Table[ProducerSeries] = view.table("producer")
    rows = _rows_of(producers, client)
    return [
        Target(
            producers.index.rows[i].address,
            json_number(producers["produced"][i]),
        )
        for i in rows[:MOST]
    ]


def _connections(view: BrokerView, client: str) -> list[ClientConnection]:
    """The connections of the client; at most `MOST`."""
    connections: Table[ConnectionSeries] = view.table("connection")
    names = ("connection", "protocol", "user", "remote_host")
    numbers = columns(ClientConnection)
    return [
        ClientConnection(
            **named(connections.index.rows[i], names)
            | explain.numbers_at(connections, numbers, i),
        )
        for i in _rows_of(connections, client)[:MOST]
    ]


def _rows_of(table: Table[ProducerSeries | ConnectionSeries], client: str) -> list[int]:
    """Positions of the rows of the client."""
    return [i for i, row in enumerate(table.index) if row.client == client]


def _client_names(view: BrokerView) -> set[str]:
    """The names of all clients that consume or produce."""
    return {
        row.client for name in ("client", "producer") for row in view.table(name).index
    }
