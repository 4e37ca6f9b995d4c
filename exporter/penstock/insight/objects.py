"""What is known of an object that is no queue: the broker, an address also over several brokers, a connection."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from penstock.assessment.object_state import ORDER, ObjectState, worst_of
from penstock.assessment.states import OF_BROKER, STATE, not_judged
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.stalled import STALLED
from penstock.core.table import Index, Positions, Table
from penstock.incidents.incident import Incident
from penstock.insight import explain
from penstock.insight import knowledge as sure
from penstock.insight.answers import (
    Fact,
    Knowledge,
    ListedCondition,
    ObjectView,
    Related,
    Watched,
)
from penstock.insight.broker_view import BrokerView, NotFound, json_number
from penstock.insight.explain import MOST_RELATED
from penstock.insight.formatting import NAMES, UNITS, counted, moment
from penstock.insight.knowledge import Concerning, Failing
from penstock.insight.sheets import sheets_of
from penstock.model import LinkRow, QueueKind, Role
from penstock.observation.facts import JUDGED
from penstock.series.labels import CLIENT, HIDDEN, QUEUE, ProducerSeries, QueueSeries

FACTS: Mapping[str, Sequence[str]] = {
    kind: names.split() for kind, names in NAMES["facts"].items()
}
"""What a table says of an object, by its kind."""
EARLY = [ORDER.index(ObjectState.WATCHING), ORDER.index(ObjectState.UNKNOWN)]
"""What is too early to call healthy, where something is judged at all."""
UNREAD = (ObjectState.DOWN, ObjectState.STALE)
NO_CONSUMERS = "it has no consumer, and only consumers are judged"
SUMS = (
    "messages",
    "ready",
    "delivering",
    "consumers",
    "added",
    "acknowledged",
    "redistributed",
)
MOVED = ("messages", "ready", "added")
"""What redistribution moves, so that it may be on two brokers by what was read of them at two moments."""


def explain_broker(
    view: BrokerView, failing: Failing | None, pair: Iterable[Related] = ()
) -> ObjectView:
    """pair: other brokers that serve the same node id."""
    about = view.snapshot.broker
    facts = []
    related = [*pair, *links_of(view)]
    if about is not None:
        role = next((row.role for row in view.table("broker").index), about.role)
        texts = {
            "version": about.product_version or about.version,
            "role": str(role),
            "node id": about.node_id,
        }
        facts = [Fact(name, text) for name, text in texts.items()]
        facts += [
            Fact(name, json_number(getattr(about, name)), UNITS.get(name, ""))
            for name in FACTS["broker"]
        ]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        count = sum(
            one.severity is severity and not one.silenced for one in view.conditions
        )
        facts.append(Fact(f"{severity.name.lower()} conditions", count))
    own = [one for one in view.conditions if (one.address, one.queue) == OF_BROKER]
    known = known_broker(view, failing)
    return _made(
        view,
        ("broker", view.policy.broker),
        facts,
        own,
        related,
        known,
        view.incidents.told,
    )


def known_broker(view: BrokerView, failing: Failing | None) -> Knowledge:
    """Of a broker with all that is on it: it is no better than the worst of its queues.

    A queue that was only just found makes it no worse than watched: it is judged at the next polls.
    """
    about = view.snapshot.broker
    if about is not None and about.role is Role.PASSIVE:
        on = f"it is passive and serves no client; last read at {moment(view.snapshot.stamp)}"
        return _known(
            view, Concerning(view.conditions, judged=on), failing, broker=True
        )
    index = view.table("queue").index
    judged = np.flatnonzero(index.column("judged", lambda row: row.kind in JUDGED) > 0)
    why = _not_judged(view, ((row, "") for row in index.rows[judged])) or not_read(view)
    parts = Concerning(
        view.conditions, view.incidents.told, why, watched_of(view), judged_on(view)
    )
    return _known(view, parts, failing, judged, broker=True)


def not_read(view: BrokerView) -> str:
    """The parts of the broker that could not be read at the last poll, and why; empty where all were."""
    failed = {
        name: one.error for name, one in view.snapshot.collectors.items() if one.error
    }
    return "; ".join(
        f"{name} could not be read: {error}" for name, error in failed.items()
    )


def explain_address(
    view: BrokerView, address: str, failing: Failing | None
) -> ObjectView:
    """NotFound: the broker has no such address."""
    addresses = view.snapshot.addresses
    names = None if addresses is None else [row.name for row in addresses.index]
    if addresses is None or names is None or address not in names:
        raise view.missing("address", address, names, "addresses")
    i = names.index(address)
    producers: Table[ProducerSeries] = view.table("producer")
    facts = [
        Fact("policy when full", addresses.index.rows[i].policy),
        *_facts(addresses, FACTS["address"], i),
    ]
    sent = {
        j: producers["produced"][j]
        for j, row in enumerate(producers.index)
        if row.address == address
    }
    queues = view.table("queue")
    related = [
        *explain.queues_with(
            queues, "has", lambda row: row.address == address, ("messages", "consumers")
        ),
        *(
            Related(
                "is sent to by",
                "client",
                producers.index.rows[j].client,
                f"{sent[j]:,.0f} messages",
            )
            for j in sorted(sent, key=lambda j: -np.nan_to_num(sent[j]))
        ),
        *(
            Related("is diverted to", "address", to, "")
            for of, to in view.snapshot.diverts
            if of == address
        ),
        *(
            Related("gets a copy of", "address", of, "")
            for of, to in view.snapshot.diverts
            if to == address
        ),
        *explain.dead_letters(queues, address),
    ]
    active = [
        one
        for one in view.conditions
        if one.address == address or (one.address, one.queue) == OF_BROKER
    ]
    incidents = _incidents_of(view, address)
    known = known_address(view, address, active, incidents, failing)
    found = _made(view, ("address", address), facts, active, related, known, incidents)
    return replace(found, account=sheets_of(view, address, "")[:1])


def known_address(
    view: BrokerView,
    address: str,
    active: Sequence[ActiveCondition],
    incidents: Sequence[Incident],
    failing: Failing | None,
) -> Knowledge:
    """Of an address on one broker, with its queues; empty: of all. active: on them and on the broker."""
    table = view.table("queue")
    at = [
        i
        for i, row in enumerate(table.index)
        if (row.address == address if address else row.kind in JUDGED)
    ]
    why = _not_judged(view, ((row, "") for row in table.index.rows[at]))
    if not at and not why:
        why = "it has no queue, and addresses are judged by their queues"
    conditions = [one for one in active if sure.concerns_queue(one)]
    about = Concerning(conditions, incidents, why, watched_of(view), judged_on(view))
    return _known(view, about, failing, np.array(at, np.intp))


def explain_connection(
    view: BrokerView, connection: str, failing: Failing | None
) -> ObjectView:
    """connection: the broker's id of it. NotFound: there is no such connection now."""
    connections = view.snapshot.connections
    consumers = view.snapshot.consumers
    ids = None if connections is None else [row.id for row in connections.index]
    if connections is None or ids is None or connection not in ids:
        raise view.missing("connection", connection, ids)
    i = ids.index(connection)
    row = connections.index.rows[i]
    related = [Related("belongs to", "client", row.client, "")]
    clients = dict[tuple[str, str, str], bool]()
    texts = {"protocol": row.protocol, "user": row.user, "from": row.remote_host}
    if consumers is not None:
        at = np.flatnonzero(
            view.snapshot.consumer_connection == connections.index.keys[i]
        )
        for j in at[:MOST_RELATED].tolist():
            queue = consumers.index.rows[j].queue
            related.append(
                Related(
                    "consumes from",
                    "queue",
                    queue,
                    explain.numbers_of_client(consumers, HELD, j),
                )
            )
        clients = _clients(view, at)
    active = [
        one
        for one in view.conditions
        if (one.address, one.queue) == OF_BROKER
        or (
            CLIENT(one) in clients
            and (clients[CLIENT(one)] or one.name != STALLED.name)
        )
    ]
    rows = {(row.address, row.queue): row for row in view.table("queue").index}
    asked = ((rows[name[:2]], name[2]) for name in clients if name[:2] in rows)
    why = _not_judged(view, asked) or (
        "" if consumers is not None else "its consumers could not be read"
    )
    if not clients and not why:
        why = NO_CONSUMERS
    facts = [
        *(Fact(name, text) for name, text in texts.items()),
        *_facts(connections, FACTS["connection"], i),
    ]
    incidents = _incidents_of(view, connection)
    conditions = [one for one in active if sure.concerns_queue(one)]
    about = Concerning(conditions, incidents, why, watched_of(view), judged_on(view))
    known = _known(view, about, failing, _client_rows(view, clients), table="client")
    return _made(
        view, ("connection", connection), facts, active, related, known, incidents
    )


def _client_rows(
    view: BrokerView, clients: Collection[tuple[str, str, str]]
) -> Positions:
    """Their places in the table of clients. clients: by address, queue and name."""
    return view.table("client").index.where("client", CLIENT, set(clients))


def known_client(view: BrokerView, client: str, failing: Failing | None) -> Knowledge:
    """Of a client on all its queues."""
    active = [one for one in view.conditions if one.client == client]
    table = view.table("client")
    at = np.array(
        [i for i, row in enumerate(table.index) if row.client == client], np.intp
    )
    queues = {QUEUE(row) for row in table.index.rows[at]}
    asked = ((row, client) for row in view.table("queue").index if QUEUE(row) in queues)
    why = _not_judged(view, asked) or ("" if len(at) else NO_CONSUMERS)
    incidents = [
        one
        for one in view.incidents.told
        if any(key[3] == client for key in one.members)
    ]
    about = Concerning(active, incidents, why, watched_of(view), judged_on(view))
    return _known(view, about, failing, at, table="client")


def linked(view: BrokerView) -> Table[LinkRow]:
    return view.snapshot.links or Table(
        Index.empty(), {"up": np.empty(0), "pending": np.empty(0)}
    )


def links_of(view: BrokerView) -> list[Related]:
    links = linked(view)
    states = {1.0: "up", 0.0: "down"}
    stopped = {
        one.object: f"; {one.title}"
        for one in view.incidents.told
        if one.kind == "bridge_stopped"
    }
    found = []
    for i, row in enumerate(links.index):
        up = states.get(links["up"][i], "not known whether it is up")
        waits = (
            f"{links['pending'][i]:,.0f}"
            if links["pending"][i] >= 0
            else "an unknown number of"
        )
        told = f"{up}, {waits} messages wait{stopped.get(row.name, '')}"
        found.append(Related("is linked by", row.kind, row.name, told))
    return found


def _clients(view: BrokerView, at: Positions) -> dict[tuple[str, str, str], bool]:
    """The clients, by their labels, whose consumers these are; and whether these may be the ones that are stalled."""
    grouping = view.state.consumers.clients
    judgement = view.state.judgement
    times = judgement.seen.times
    member = grouping.member
    still = (
        times.now - judgement.held_unsettled_since(grouping.source) > 2 * times.interval
    )
    return {
        CLIENT(grouping.index.rows[m]): bool(
            still[at][member[at] == m].any() or not still[member == m].any()
        )
        for m in np.unique(member[at]).tolist()
        if m != HIDDEN
    }


HELD = ("buffered", "delivered", "acknowledged")


@dataclass(frozen=True, slots=True)
class AddressSum:
    """Of an address on one broker, or of all, and of what is on its way from it to others, which lies in queues of
    links. mirror_of: the broker of which it has copies. stamp, read: when it began and ended to be read; before: when
    it was read before. movable: messages in queues that no consumer reads. Since `before`: came, passed_on to links,
    left those; 0 where it is in no cluster. sums: empty where it has no queue of the address.
    """

    broker: str
    node_id: str
    passive: bool
    mirror_of: str
    links: Sequence[Related]
    stamp: float
    read: float
    before: float
    movable: float
    came: float
    passed_on: float
    left: float
    on_its_way: float
    sums: Mapping[str, float]
    told: Sequence[ListedCondition]
    known: Knowledge
    counts: bool
    """It has queues of the address, or its queues could not be read."""


def address_sum(view: BrokerView, address: str, failing: Failing | None) -> AddressSum:
    """address: empty for all."""
    about = view.snapshot.broker
    table = view.table("queue")
    passive = about is not None and about.role is Role.PASSIVE
    at = np.flatnonzero(
        [
            row.address == address if address else row.kind in JUDGED
            for row in table.index
        ]
    )
    links = linked(view)
    forwards = [row.kind == "cluster" for row in links.index]
    active = [
        one
        for one in view.conditions
        if one.address == address or (one.address, one.queue) == OF_BROKER
    ]
    incidents = _incidents_of(view, address) if address else view.incidents.told
    known = (
        known_broker(view, failing)
        if passive
        else known_address(view, address, active, incidents, failing)
    )
    stamp = view.snapshot.stamp
    times = view.state.judgement.seen.times
    books = view.state.judgement.account.books
    own = np.array(
        [
            row.address == address if address else row.kind in JUDGED
            for row in books.index
        ],
        bool,
    )
    of_links = np.array([row.kind is QueueKind.LINK for row in books.index], bool)
    return AddressSum(
        broker=view.policy.broker,
        node_id=about.node_id if about else "",
        passive=passive,
        mirror_of=view.policy.mirror_of or (about.mirror_of if about else ""),
        links=links_of(view),
        stamp=stamp,
        read=stamp + max(times.read - times.now, 0.0),
        before=stamp - times.step,
        movable=any(forwards)
        * float(np.nansum(books.content[own & (books.consumers == 0)])),
        came=float(np.nansum(books.came_last[own])),
        passed_on=any(forwards) * float(np.nansum(books.passed_last[own])),
        left=any(forwards) * float(np.nansum(books.passed_last[of_links])),
        on_its_way=float(np.nansum(links["pending"][forwards])),
        sums={name: float(np.nansum(table[name][at])) for name in SUMS if name in table}
        if len(at)
        else {},
        told=[explain.listed(one, view) for one in active if not one.silenced],
        known=known,
        counts=len(at) > 0 or ("queue" not in view.tables and not passive),
    )


def sum_of_address(
    address: str, parts: Iterable[AddressSum], missing: Mapping[str, str]
) -> ObjectView:
    """Over the brokers of a cluster. missing: why nothing is known of a broker, by its name."""
    parts = serving(parts)
    if not any(one.sums for one in parts if one.counts):
        hint = "; ".join(f"{name} is not known: {why}" for name, why in missing.items())
        raise NotFound(
            f"no broker has queues on an address {address!r}",
            hint or "GET /api/v1/queues has all",
        )
    return _summed("address", address, parts, missing)


def clusters(parts: Iterable[AddressSum]) -> list[ObjectView]:
    """Brokers that serve one node id, are linked to each other, or mirror one another, with their sums and links."""
    groups: list[list[AddressSum]] = []
    for one in parts:
        near = [
            group
            for group in groups
            if any(joined(one, other) or joined(other, one) for other in group)
        ]
        groups = [
            *(group for group in groups if group not in near),
            [*(each for group in near for each in group), one],
        ]
    found = []
    for group in groups:
        if any(one.counts for one in serving(group)) and (
            len(group) > 1 or group[0].links
        ):
            view = _summed(
                "cluster", ", ".join(one.broker for one in group), serving(group), {}
            )
            for one in group:
                down = one.known.why if one.known.state in UNREAD else ""
                if one.passive or one.mirror_of or down:
                    role = (
                        "mirrors"
                        if one.mirror_of
                        else "has passive"
                        if one.passive
                        else "has"
                    )
                    view.related.append(Related(role, "broker", one.broker, down))
                for link in one.links:
                    ends = [
                        two.broker
                        for two in group
                        if two.node_id and link.name.endswith(two.node_id)
                    ]
                    end = " or ".join(ends) or link.name
                    view.related.append(
                        Related(f"links {one.broker} to", link.kind, end, link.told)
                    )
            found.append(view)
    return found


def joined(one: AddressSum, other: AddressSum) -> bool:
    """Whether they serve one node id, or the one is linked to the other or mirrors it."""
    linked = any(
        other.node_id and link.name.endswith(other.node_id) for link in one.links
    )
    return (
        linked
        or one.node_id == other.node_id != ""
        or one.mirror_of in (other.broker, other.node_id or None)
    )


def serving(parts: Iterable[AddressSum]) -> list[AddressSum]:
    """What each node has now: of a pair the one that was read last, as its messages have been reloaded there. A mirror
    has copies.
    """
    of_node = {
        one.node_id or one.broker: one
        for one in sorted(parts, key=lambda one: one.stamp)
        if not one.passive
    }
    return [one for one in of_node.values() if not one.mirror_of]


def _summed(
    kind: Literal["address", "cluster"],
    name: str,
    parts: list[AddressSum],
    missing: Mapping[str, str],
) -> ObjectView:
    way = sum(one.on_its_way for one in parts)
    arrived = sum(min(one.on_its_way, _came_after(one, parts)) for one in parts)
    parts = [one for one in parts if one.counts]
    sums = {name: sum(one.sums.get(name, 0.0) for one in parts) for name in SUMS}
    for once in ("added", "acknowledged"):
        sums[once] = max(sums[once] - sums["redistributed"], 0.0)
    bounds = {name: (value, value) for name, value in sums.items()}
    bounds |= {moved: _bounds(moved, sums[moved], parts) for moved in MOVED}
    bounds["on its way between the brokers, of all addresses"] = way - arrived, way
    facts = []
    for fact, (least, most) in bounds.items():
        bound = UNSET if most == least else json_number(most) or UNSET
        facts.append(
            Fact(
                fact,
                json_number(least),
                "messages" if fact != "consumers" else "",
                bound,
            )
        )
    related = []
    for one in parts:
        numbers = ", ".join(
            f"{name} {one.sums[name]:,.0f}" for name in SUMS[:4] if name in one.sums
        )
        related.append(
            Related(
                "is on" if numbers else "may be on",
                "broker",
                one.broker,
                numbers or one.known.why,
            )
        )
    related += [
        Related("may be on", "broker", name, f"not known: {why}")
        for name, why in missing.items()
    ]
    found = {one.broker: one.known for one in parts}
    found |= {
        name: Knowledge("unknown", f"not known: {why}", None, [])
        for name, why in missing.items()
    }
    state = worst_of([ObjectState(one.state) for one in found.values()])
    deciding = {name: one for name, one in found.items() if one.state == state}
    why = "; ".join(f"{name}: {one.why}" for name, one in deciding.items())
    since = min(
        (one.since for one in deciding.values() if one.since is not None), default=None
    )
    watched = {
        (each.condition, each.client): each
        for one in deciding.values()
        for each in one.watched
    }
    known = Knowledge(state, why, since, [*watched.values()])
    told = [one for part in parts for one in part.told]
    stamp = min(one.stamp for one in parts)
    return ObjectView(
        "", kind, name, round(stamp, 3), known, facts, told[:MOST_RELATED], related, []
    )


def _bounds(
    name: str, total: float, parts: Sequence[AddressSum]
) -> tuple[float, float]:
    """Of messages over brokers that were read one after the other. What one passed on after it was read, others that
    were read later may have, too; what it had passed on when it was read, others that were read before it may lack, and
    what is still on its way has been added nowhere else.
    """
    least = most = total
    for one in parts:
        least -= min(one.movable, _came_after(one, parts))
        if earlier := [
            other for other in parts if other is not one and other.stamp < one.read
        ]:
            came = sum(
                other.came if other.before <= one.before else np.inf
                for other in earlier
            )
            least += max(one.passed_on - one.on_its_way - came, 0.0)
            most += one.left
        if name == "added":
            most += min(one.on_its_way, one.sums.get("redistributed", 0.0))
    return max(least, 0.0), max(most, 0.0)


def _came_after(one: AddressSum, parts: Sequence[AddressSum]) -> float:
    """To others after it was read, at most."""
    later = [other for other in parts if other is not one and other.read > one.stamp]
    return sum(other.came if other.before <= one.stamp else np.inf for other in later)


def _facts(table: Table[Any], names: Sequence[str], i: int) -> Iterator[Fact]:
    for name in names:
        if name in table and not np.isnan(table[name][i]):
            yield Fact(
                name.replace("_", " "), json_number(table[name][i]), UNITS.get(name, "")
            )


def _made(
    view: BrokerView,
    thing: tuple[Literal["broker", "address", "connection"], str],
    facts: list[Fact],
    active: Sequence[ActiveCondition],
    related: list[Related],
    known: Knowledge,
    incidents: Sequence[Incident],
) -> ObjectView:
    """thing: its kind and name."""
    conditions = explain.in_full(view, active, explain.listed, MOST_RELATED)
    stamp = round(view.snapshot.stamp, 3)
    shown = explain.incidents_in_full(view, incidents)
    return ObjectView(
        view.policy.broker, *thing, stamp, known, facts, conditions, related, [], shown
    )


def _incidents_of(view: BrokerView, name: str) -> list[Incident]:
    """Those of which an address or a connection of this name is the root or a victim."""
    return [
        one
        for one in view.incidents.told
        if name
        in {
            one.object,
            *one.victims,
            *(key[1] for key in one.members),
            *(address for address, _ in one.places),
        }
    ]


def watched_of(view: BrokerView) -> list[Watched]:
    return [*sure.watched_of_broker(view.state, view.policy)]


def judged_on(view: BrokerView) -> str:
    """On what an object is called healthy."""
    return sure.judged(view.state, view.kind.name, view.interval, *Scope)


def _known(
    view: BrokerView,
    about: Concerning,
    failing: Failing | None,
    rows: Positions | None = None,
    *,
    table: str = "queue",
    broker: bool = False,
) -> Knowledge:
    """Of an object that is no better than its parts. rows: of these, in a table of the view. broker: it is one.

    What was active counts as long as it is judged: of what was not read for some polls nothing is known.
    """
    if not_judged(view.state.judgement, view.snapshot):
        about = dataclasses.replace(about, conditions=(), incidents=())
    codes = np.empty(0) if rows is None else view.table(table)[STATE][rows]
    early = int(np.count_nonzero(np.isin(codes, EARLY)))
    state = about.state(sure.unread_as(failing, broker=broker), watching=early > 0)
    if state is ObjectState.WATCHING and early:
        said = f"{early:,} of {counted(len(codes), table)} watched or too young to judge; {about.judged}"
        about = dataclasses.replace(about, judged=said)
    return sure.knowledge(state, about, failing)


def _not_judged(view: BrokerView, asked: Iterable[tuple[QueueSeries, str]]) -> str:
    """Why nothing is judged: of the broker, or of all these queues, or clients of them; empty where something is."""
    why = not_judged(view.state.judgement, view.snapshot)
    for row, client in () if why else asked:
        found = next(
            explain.unknown_conditions(view, row, [client] if client else []), None
        )
        if found is None:
            return ""
        why = why or found.why
    return why
