"""What is known of an object that is no queue: the broker, an address, a connection, a client."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec.structs import replace

from penstock.assessment.object_state import ORDER, ObjectState
from penstock.assessment.states import OF_BROKER, STATE, not_judged
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.stalled import STALLED
from penstock.core.table import Index, Mask, Positions, Table
from penstock.incidents.incident import Incident
from penstock.insight import explain
from penstock.insight import knowledge as sure
from penstock.insight.address_sums import SUMS, AddressSum, clusters, sum_of_address
from penstock.insight.answers import Fact, Knowledge, ObjectView, Related, Watched
from penstock.insight.broker_view import BrokerView, json_number
from penstock.insight.explain import MOST_RELATED
from penstock.insight.formatting import NAMES, UNITS, counted, moment
from penstock.insight.knowledge import Concerning, Failing
from penstock.insight.sheets import sheets_of
from penstock.model import Broker, LinkRow, QueueKind, QueueRow, Role
from penstock.observation.facts import JUDGED
from penstock.series.labels import CLIENT, HIDDEN, QUEUE, ProducerSeries, QueueSeries

__all__ = [
    "AddressSum",
    "address_sum",
    "clusters",
    "explain_address",
    "explain_broker",
    "explain_connection",
    "known_broker",
    "known_client",
    "sum_of_address",
]

FACTS: Mapping[str, Sequence[str]] = {
    kind: names.split() for kind, names in NAMES["facts"].items()
}
"""The numbers that a table has of an object, by its kind."""
EARLY = [ORDER.index(ObjectState.WATCHING), ORDER.index(ObjectState.UNKNOWN)]
"""States that are too early to call healthy, where something is judged at all."""
NO_CONSUMERS = "it has no consumer, and only consumers are judged"
CONSUMER_NUMBERS = ("buffered", "delivered", "acknowledged")
"""Numbers that are shown of a connection's consumers."""

ClientName = tuple[str, str, str]
"""Address, queue and client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectParts:
    """What is known of an object.

    Attributes:
        kind: of the object.
        name: of the object.
        facts: numbers and texts of the broker.
        conditions: that are active on it.
        related: other objects.
        knowledge: its state.
        incidents: of which it is the root or a victim.
    """

    kind: Literal["broker", "address", "connection"]
    name: str
    facts: list[Fact]
    conditions: Sequence[ActiveCondition]
    related: list[Related]
    knowledge: Knowledge
    incidents: Sequence[Incident]


def object_view(view: BrokerView, parts: ObjectParts) -> ObjectView:
    """The answer about an object."""
    return ObjectView(
        broker=view.policy.broker,
        kind=parts.kind,
        name=parts.name,
        stamp=round(view.snapshot.stamp, 3),
        knowledge=parts.knowledge,
        facts=parts.facts,
        conditions=explain.in_full(
            view, parts.conditions, explain.listed, MOST_RELATED
        ),
        related=parts.related,
        account=[],
        incidents=explain.incidents_in_full(view, parts.incidents),
    )


# --- the broker


def explain_broker(
    view: BrokerView, failing: Failing | None, pair: Iterable[Related] = ()
) -> ObjectView:
    """All about the broker.

    Args:
        view: the broker.
        failing: why it cannot be read, where that is so.
        pair: other brokers that serve the same node id.
    """
    about = view.snapshot.broker
    facts = [] if about is None else facts_of_broker(view, about)
    return object_view(
        view,
        ObjectParts(
            kind="broker",
            name=view.policy.broker,
            facts=[*facts, *condition_counts(view)],
            conditions=[each for each in view.conditions if is_of_broker(each)],
            related=[*pair, *links_of(view)],
            knowledge=known_broker(view, failing),
            incidents=view.incidents.told,
        ),
    )


def facts_of_broker(view: BrokerView, about: Broker) -> list[Fact]:
    """Version, role, node id and numbers of the broker."""
    roles = [row.role for row in view.table("broker").index]
    role = roles[0] if roles else about.role
    facts = [
        Fact("version", about.product_version or about.version),
        Fact("role", str(role)),
        Fact("node id", about.node_id),
    ]
    for name in FACTS["broker"]:
        number = json_number(getattr(about, name))
        unit = UNITS.get(name, "")
        facts.append(Fact(name, number, unit))
    return facts


def condition_counts(view: BrokerView) -> Iterator[Fact]:
    """How many critical conditions and warnings are active, without silenced ones."""
    severities = [each.severity for each in view.conditions if not each.silenced]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        name = f"{severity.name.lower()} conditions"
        yield Fact(name, severities.count(severity))


def is_of_broker(condition: ActiveCondition) -> bool:
    """Whether the condition is of the broker itself."""
    return (condition.address, condition.queue) == OF_BROKER


def known_broker(view: BrokerView, failing: Failing | None) -> Knowledge:
    """The state of a broker with all that is on it: it is no better than the worst of its queues.

    A queue that was only just found makes it no worse than watched: it is judged at the next polls.
    """
    about = view.snapshot.broker
    if about is not None and about.role is Role.PASSIVE:
        stamp = moment(view.snapshot.stamp)
        judged = f"it is passive and serves no client; last read at {stamp}"
        concerning = Concerning(view.conditions, judged=judged)
        return _known(view, concerning, failing, broker=True)
    index = view.table("queue").index
    is_judged = index.column("judged", lambda row: row.kind in JUDGED)
    rows = np.flatnonzero(is_judged > 0)
    why = _not_judged(view, ((row, "") for row in index.rows[rows]))
    concerning = _concerning(
        view, view.conditions, view.incidents.told, why or not_read(view)
    )
    return _known(view, concerning, failing, rows, broker=True)


def not_read(view: BrokerView) -> str:
    """The parts of the broker that could not be read at the last poll, and why; empty where all were."""
    errors = [
        f"{name} could not be read: {collector.error}"
        for name, collector in view.snapshot.collectors.items()
        if collector.error
    ]
    return "; ".join(errors)


def linked(view: BrokerView) -> Table[LinkRow]:
    """The links to other brokers; without rows where there are none."""
    no_links = {"up": np.empty(0), "pending": np.empty(0)}
    return view.snapshot.links or Table(Index.empty(), no_links)


def links_of(view: BrokerView) -> list[Related]:
    """The links to other brokers, with their states and the messages that wait in them."""
    links = linked(view)
    stopped = {
        incident.object: f"; {incident.title}"
        for incident in view.incidents.told
        if incident.kind == "bridge_stopped"
    }
    related = []
    for i, row in enumerate(links.index):
        state = link_text(links["up"][i], links["pending"][i])
        text = state + stopped.get(row.name, "")
        related.append(Related("is linked by", row.kind, row.name, text))
    return related


def link_text(up: float, pending: float) -> str:
    """The state of a link in words.

    Args:
        up: 1 or 0; NaN where that is not known.
        pending: messages that wait in it; NaN where that is not known.
    """
    states = {1.0: "up", 0.0: "down"}
    state = states.get(up, "not known whether it is up")
    count = f"{pending:,.0f}" if pending >= 0 else "an unknown number of"
    return f"{state}, {count} messages wait"


# --- an address


def explain_address(
    view: BrokerView, address: str, failing: Failing | None
) -> ObjectView:
    """All about an address on one broker. NotFound: the broker has no such address."""
    addresses = view.snapshot.addresses
    names = None if addresses is None else [row.name for row in addresses.index]
    if addresses is None or names is None or address not in names:
        raise view.missing("address", address, names, "addresses")
    i = names.index(address)
    policy = Fact("policy when full", addresses.index.rows[i].policy)
    conditions = _conditions_on_address(view, address)
    incidents = _incidents_of(view, address)
    answer = object_view(
        view,
        ObjectParts(
            kind="address",
            name=address,
            facts=[policy, *_facts(addresses, FACTS["address"], i)],
            conditions=conditions,
            related=related_to_address(view, address),
            knowledge=known_address(view, address, conditions, incidents, failing),
            incidents=incidents,
        ),
    )
    return replace(answer, account=sheets_of(view, address, "")[:1])


def related_to_address(view: BrokerView, address: str) -> list[Related]:
    """The queues of the address, who sends to it, and the addresses that get its messages or give it theirs."""
    queues = view.table("queue")
    own_queues = explain.queues_with(
        queues, "has", lambda row: row.address == address, ("messages", "consumers")
    )
    diverts = view.snapshot.diverts
    targets = [target for source, target in diverts if source == address]
    sources = [source for source, target in diverts if target == address]
    return [
        *own_queues,
        *senders_to(view, address),
        *(Related("is diverted to", "address", target, "") for target in targets),
        *(Related("gets a copy of", "address", source, "") for source in sources),
        *explain.dead_letters(queues, address),
    ]


def senders_to(view: BrokerView, address: str) -> list[Related]:
    """The clients that send to the address, the one with the most messages first."""
    producers: Table[ProducerSeries] = view.table("producer")
    sent = {
        i: producers["produced"][i]
        for i, row in enumerate(producers.index)
        if row.address == address
    }
    most_first = sorted(sent, key=lambda i: -np.nan_to_num(sent[i]))
    return [
        Related(
            "is sent to by",
            "client",
            producers.index.rows[i].client,
            f"{sent[i]:,.0f} messages",
        )
        for i in most_first
    ]


def known_address(
    view: BrokerView,
    address: str,
    active: Sequence[ActiveCondition],
    incidents: Sequence[Incident],
    failing: Failing | None,
) -> Knowledge:
    """The state of an address on one broker with its queues.

    Args:
        view: the broker.
        address: its name; empty: all addresses.
        active: conditions on it and on the broker.
        incidents: of which it is the root or a victim.
        failing: why the broker cannot be read, where that is so.
    """
    index = view.table("queue").index
    rows = np.flatnonzero(_is_on(address, index))
    why = _not_judged(view, ((row, "") for row in index.rows[rows]))
    if not len(rows) and not why:
        why = "it has no queue, and addresses are judged by their queues"
    conditions = [each for each in active if sure.concerns_queue(each)]
    concerning = _concerning(view, conditions, incidents, why)
    return _known(view, concerning, failing, rows)


def _is_on(address: str, index: Index[QueueRow] | Index[QueueSeries]) -> Mask:
    """(rows,) True for the queues of the address; where it is empty, for all queues that are judged."""

    def is_chosen(row: QueueRow | QueueSeries) -> bool:
        return row.address == address if address else row.kind in JUDGED

    return np.array([is_chosen(row) for row in index], np.bool_)


def _conditions_on_address(view: BrokerView, address: str) -> list[ActiveCondition]:
    """The conditions on the address, its queues and the broker."""
    return [
        condition
        for condition in view.conditions
        if condition.address == address or is_of_broker(condition)
    ]


def address_sum(view: BrokerView, address: str, failing: Failing | None) -> AddressSum:
    """An address on one broker, for the sum over several; all addresses where it is empty."""
    about = view.snapshot.broker
    passive = about is not None and about.role is Role.PASSIVE
    links = linked(view)
    forwards = np.array([row.kind == "cluster" for row in links.index], np.bool_)
    active = _conditions_on_address(view, address)
    times = view.state.judgement.seen.times
    stamp = view.snapshot.stamp
    has_queues = bool(_is_on(address, view.table("queue").index).any())
    moved = _moved_of(view, address) if forwards.any() else NOTHING_MOVED
    return AddressSum(
        broker=view.policy.broker,
        node_id=about.node_id if about else "",
        passive=passive,
        mirror_of=view.policy.mirror_of or (about.mirror_of if about else ""),
        links=links_of(view),
        stamp=stamp,
        read=stamp + max(times.read - times.now, 0.0),
        before=stamp - times.step,
        movable=moved.movable,
        arrived=_arrived_at(view, address),
        passed_on=moved.passed_on,
        left=moved.left,
        on_its_way=float(np.nansum(links["pending"][forwards])),
        sums=_sums_of(view, address),
        conditions=[explain.listed(each, view) for each in active if not each.silenced],
        known=_known_of_sum(view, address, failing),
        counts=has_queues or ("queue" not in view.tables and not passive),
    )


@dataclass(frozen=True, slots=True)
class MovedMessages:
    """Messages that links move between brokers. left: that left the links since the poll before."""

    movable: float = 0.0
    passed_on: float = 0.0
    left: float = 0.0


NOTHING_MOVED = MovedMessages()


def _moved_of(view: BrokerView, address: str) -> MovedMessages:
    """Messages of the address that the links of the broker may move, and did since the poll before."""
    books = view.state.judgement.account.books
    own = _is_on(address, books.index)
    kinds = [row.kind for row in books.index]
    is_link = np.array([kind is QueueKind.LINK for kind in kinds], np.bool_)
    unread = own & (books.consumers == 0)
    return MovedMessages(
        movable=float(np.nansum(books.content[unread])),
        passed_on=float(np.nansum(books.passed_last[own])),
        left=float(np.nansum(books.passed_last[is_link])),
    )


def _arrived_at(view: BrokerView, address: str) -> float:
    """Messages that came to the queues of the address since the poll before."""
    books = view.state.judgement.account.books
    own = _is_on(address, books.index)
    return float(np.nansum(books.came_last[own]))


def _sums_of(view: BrokerView, address: str) -> dict[str, float]:
    """The sums over the queues of the address, by `SUMS`; empty where it has none."""
    table = view.table("queue")
    own = _is_on(address, table.index)
    if not own.any():
        return {}
    columns = {name: table[name][own] for name in SUMS if name in table}
    return {name: float(np.nansum(column)) for name, column in columns.items()}


def _known_of_sum(view: BrokerView, address: str, failing: Failing | None) -> Knowledge:
    """The state of an address, of all where it is empty; that of the broker where it is passive."""
    about = view.snapshot.broker
    if about is not None and about.role is Role.PASSIVE:
        return known_broker(view, failing)
    incidents = _incidents_of(view, address) if address else view.incidents.told
    active = _conditions_on_address(view, address)
    return known_address(view, address, active, incidents, failing)


# --- a connection


def explain_connection(
    view: BrokerView, connection: str, failing: Failing | None
) -> ObjectView:
    """All about a connection. connection: the broker's id of it. NotFound: there is no such connection now."""
    connections = view.snapshot.connections
    ids = None if connections is None else [row.id for row in connections.index]
    if connections is None or ids is None or connection not in ids:
        raise view.missing("connection", connection, ids)
    i = ids.index(connection)
    row = connections.index.rows[i]
    consumers = np.flatnonzero(
        view.snapshot.consumer_connection == connections.index.keys[i]
    )
    client = Related("belongs to", "client", row.client, "")
    conditions = _conditions_on_clients(view, _clients(view, consumers))
    incidents = _incidents_of(view, connection)
    return object_view(
        view,
        ObjectParts(
            kind="connection",
            name=connection,
            facts=[
                Fact("protocol", row.protocol),
                Fact("user", row.user),
                Fact("from", row.remote_host),
                *_facts(connections, FACTS["connection"], i),
            ],
            conditions=conditions,
            related=[client, *queues_read_by(view, consumers)],
            knowledge=known_consumers(view, consumers, conditions, incidents, failing),
            incidents=incidents,
        ),
    )


def queues_read_by(view: BrokerView, positions: Positions) -> list[Related]:
    """The queues of these consumers, with the numbers of each consumer."""
    consumers = view.snapshot.consumers
    if consumers is None:
        return []
    return [
        Related(
            "consumes from",
            "queue",
            consumers.index.rows[i].queue,
            explain.numbers_of_client(consumers, CONSUMER_NUMBERS, i),
        )
        for i in positions[:MOST_RELATED].tolist()
    ]


def known_consumers(
    view: BrokerView,
    positions: Positions,
    active: Sequence[ActiveCondition],
    incidents: Sequence[Incident],
    failing: Failing | None,
) -> Knowledge:
    """The state of the consumers of a connection.

    Args:
        view: the broker.
        positions: of the consumers in the snapshot.
        active: conditions on their clients and on the broker.
        incidents: of which the connection is the root or a victim.
        failing: why the broker cannot be read, where that is so.
    """
    clients = _clients(view, positions)
    asked = _clients_with_queues(view, clients)
    why = _not_judged(view, asked)
    if not why and view.snapshot.consumers is None:
        why = "its consumers could not be read"
    if not why and not clients:
        why = NO_CONSUMERS
    conditions = [each for each in active if sure.concerns_queue(each)]
    concerning = _concerning(view, conditions, incidents, why)
    rows = view.table("client").index.where("client", CLIENT, set(clients))
    return _known(view, concerning, failing, rows, table="client")


def _clients_with_queues(
    view: BrokerView, clients: Collection[ClientName]
) -> Iterator[tuple[QueueSeries, str]]:
    """The queues of these clients that are shown, each with the name of the client."""
    queues = {QUEUE(row): row for row in view.table("queue").index}
    for address, queue, client in clients:
        if (address, queue) in queues:
            yield queues[address, queue], client


def _conditions_on_clients(
    view: BrokerView, clients: Mapping[ClientName, bool]
) -> list[ActiveCondition]:
    """The conditions of the broker and of these clients.

    Args:
        view: the broker.
        clients: whether the consumers that are asked for may be the stalled ones of the client.
    """

    def concerns(condition: ActiveCondition) -> bool:
        if is_of_broker(condition):
            return True
        name = CLIENT(condition)
        if condition.name == STALLED.name:
            return clients.get(name, False)
        return name in clients

    return [condition for condition in view.conditions if concerns(condition)]


def _clients(view: BrokerView, positions: Positions) -> dict[ClientName, bool]:
    """The clients of these consumers, and whether these may be the ones that are stalled.

    They may be where one of them has settled nothing for two polls, or no consumer of the client has.
    """
    if view.snapshot.consumers is None:
        return {}
    grouping = view.state.consumers.clients
    is_still = _settles_nothing(view)
    members = grouping.member[positions]
    clients: dict[ClientName, bool] = {}
    for member in np.unique(members).tolist():
        if member != HIDDEN:
            own = positions[members == member]
            all_still = is_still[grouping.member == member]
            may_stall = is_still[own].any() or not all_still.any()
            name = CLIENT(grouping.index.rows[member])
            clients[name] = bool(may_stall)
    return clients


def _settles_nothing(view: BrokerView) -> Mask:
    """(consumers,) True where the consumer buffers messages and has settled none for more than two polls."""
    judgement = view.state.judgement
    times = judgement.seen.times
    consumers = view.state.consumers.clients.source
    unsettled_for = times.now - judgement.held_unsettled_since(consumers)
    return np.asarray(unsettled_for > 2 * times.interval)


# --- a client


def known_client(view: BrokerView, client: str, failing: Failing | None) -> Knowledge:
    """The state of a client on all its queues."""
    index = view.table("client").index
    rows = np.flatnonzero([row.client == client for row in index])
    queues = {QUEUE(row) for row in index.rows[rows]}
    asked = [row for row in view.table("queue").index if QUEUE(row) in queues]
    why = _not_judged(view, ((row, client) for row in asked))
    if not why and not len(rows):
        why = NO_CONSUMERS
    conditions = [each for each in view.conditions if each.client == client]
    incidents = [
        incident
        for incident in view.incidents.told
        if any(key[3] == client for key in incident.members)
    ]
    concerning = _concerning(view, conditions, incidents, why)
    return _known(view, concerning, failing, rows, table="client")


# --- what they share


def _facts(table: Table[object], names: Sequence[str], i: int) -> Iterator[Fact]:
    """The numbers of a row that are known."""
    for name in names:
        value = table[name][i] if name in table else np.nan
        if not np.isnan(value):
            title = name.replace("_", " ")
            yield Fact(title, json_number(value), UNITS.get(name, ""))


def _incidents_of(view: BrokerView, name: str) -> list[Incident]:
    """The incidents of which an address or a connection of this name is the root or a victim."""

    def concerns(incident: Incident) -> bool:
        """Whether the name is that of the root, of a victim, or of the address of one."""
        if name == incident.object or name in incident.victims:
            return True
        addresses = {address for address, _ in incident.places}
        addresses |= {key[1] for key in incident.members}
        return name in addresses

    return [incident for incident in view.incidents.told if concerns(incident)]


def watched_of(view: BrokerView) -> list[Watched]:
    """What may become a condition of any object of the broker."""
    return [*sure.watched_of_broker(view.state, view.policy)]


def judged_on(view: BrokerView) -> str:
    """The polls and conditions by which an object is called healthy, in words."""
    return sure.judged(view.state, view.kind.name, view.interval, *Scope)


def _concerning(
    view: BrokerView,
    conditions: Sequence[ActiveCondition],
    incidents: Sequence[Incident],
    why_unknown: str,
) -> Concerning:
    """All that decides the state of an object. why_unknown: why it is not judged; empty where it is."""
    return Concerning(
        conditions, incidents, why_unknown, watched_of(view), judged_on(view)
    )


def _known(
    view: BrokerView,
    about: Concerning,
    failing: Failing | None,
    rows: Positions | None = None,
    *,
    table: str = "queue",
    broker: bool = False,
) -> Knowledge:
    """The state of an object that is no better than its parts.

    A condition that was active counts as long as it is judged: of parts that were not read for some polls nothing is
    known.

    Args:
        view: the broker.
        about: what decides the state.
        failing: why the broker cannot be read, where that is so.
        rows: of the parts, in a table of the view.
        table: its name.
        broker: the object is the broker.
    """
    if not_judged(view.state.judgement, view.snapshot):
        about = dataclasses.replace(about, conditions=(), incidents=())
    states = np.empty(0)
    if rows is not None:
        states = view.table(table)[STATE][rows]
    early = int(np.count_nonzero(np.isin(states, EARLY)))
    unread = sure.unread_as(failing, broker=broker)
    state = about.state(unread, watching=early > 0)
    if state is ObjectState.WATCHING and early:
        total = counted(len(states), table)
        judged = f"{early:,} of {total} watched or too young to judge; {about.judged}"
        about = dataclasses.replace(about, judged=judged)
    return sure.knowledge(state, about, failing)


def _not_judged(view: BrokerView, asked: Iterable[tuple[QueueSeries, str]]) -> str:
    """Why nothing is judged: of the broker, or of all these queues and clients; empty where something is.

    Args:
        view: the broker.
        asked: queues, each with one of its clients; with an empty text for the queue itself.
    """
    why = not_judged(view.state.judgement, view.snapshot)
    if why:
        return why
    reasons = []
    for row, client in asked:
        clients = [client] if client else []
        unknown = next(explain.unknown_conditions(view, row, clients), None)
        if unknown is None:
            return ""
        reasons.append(unknown.why)
    return next(filter(None, reasons), "")
