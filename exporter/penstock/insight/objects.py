"""What is known of an object that is no queue: the broker, an address also over several brokers, a connection."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.stalled import STALLED
from penstock.core.table import Index, Positions, Table
from penstock.insight import explain
from penstock.insight import knowledge as sure
from penstock.insight.answers import Fact, Knowledge, ListedCondition, ObjectView, Related
from penstock.insight.explain import MOST_RELATED, BrokerView, NotFound, json_number
from penstock.insight.formatting import NAMES, UNITS, moment
from penstock.insight.knowledge import OF_BROKER, Failing
from penstock.insight.sheets import sheets_of
from penstock.model import LinkRow, QueueKind, Role
from penstock.observation.facts import JUDGED
from penstock.series.labels import CLIENT, HIDDEN, QUEUE, ProducerSeries, QueueSeries

FACTS: Mapping[str, Sequence[str]] = {kind: names.split() for kind, names in NAMES["facts"].items()}
"""What a table says of an object, by its kind."""
SUMS = ("messages", "ready", "delivering", "consumers", "added", "acknowledged", "redistributed")
MOVED = ("messages", "ready", "added")
"""What redistribution moves, so that it may be on two brokers by what was read of them at two moments."""


def explain_broker(view: BrokerView, failing: Failing | None, pair: Iterable[Related] = ()) -> ObjectView:
    """pair: other brokers that serve the same node id."""
    about = view.snapshot.broker
    facts, related = [], [*pair, *links_of(view)]
    if about is not None:
        role = next((row.role for row in view.table("broker").index), about.role)
        texts = {"version": about.product_version or about.version, "role": str(role), "node id": about.node_id}
        facts = [Fact(name, text) for name, text in texts.items()]
        facts += [Fact(name, json_number(getattr(about, name)), UNITS.get(name, "")) for name in FACTS["broker"]]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        count = sum(one.severity is severity and not one.silenced for one in view.conditions)
        facts.append(Fact(f"{severity.name.lower()} conditions", count))
    own = [one for one in view.conditions if (one.address, one.queue) == OF_BROKER]
    why = _not_judged(view, ((row, "") for row in view.table("queue").index if row.kind in JUDGED))
    return _made(view, "broker", view.policy.broker, facts, own, related, _known(view, "broker", own, failing, why))


def explain_address(view: BrokerView, address: str, failing: Failing | None) -> ObjectView:
    """NotFound: the broker has no such address."""
    addresses = view.snapshot.addresses
    names = None if addresses is None else [row.name for row in addresses.index]
    if addresses is None or names is None or address not in names:
        raise view.missing("address", address, names, "addresses")
    i = names.index(address)
    producers: Table[ProducerSeries] = view.table("producer")
    facts = [Fact("policy when full", addresses.index.rows[i].policy), *_facts(addresses, FACTS["address"], i)]
    sent = {j: producers["produced"][j] for j, row in enumerate(producers.index) if row.address == address}
    queues = view.table("queue")
    related = [
        *explain.queues_with(queues, "has", lambda row: row.address == address, ("messages", "consumers")),
        *(
            Related("is sent to by", "client", producers.index.rows[j].client, f"{sent[j]:,.0f} messages")
            for j in sorted(sent, key=lambda j: -np.nan_to_num(sent[j]))
        ),
        *(Related("is diverted to", "address", to, "") for of, to in view.snapshot.diverts if of == address),
        *(Related("gets a copy of", "address", of, "") for of, to in view.snapshot.diverts if to == address),
        *explain.dead_letters(queues, address),
    ]
    told = [one for one in view.conditions if one.address == address or (one.address, one.queue) == OF_BROKER]
    why = _not_judged(view, ((row, "") for row in queues.index if row.address == address))
    found = _made(view, "address", address, facts, told, related, _known(view, "address", told, failing, why))
    return replace(found, account=sheets_of(view, address, "")[:1])


def explain_connection(view: BrokerView, connection: str, failing: Failing | None) -> ObjectView:
    """connection: the broker's id of it. NotFound: there is no such connection now."""
    connections, consumers = view.snapshot.connections, view.snapshot.consumers
    ids = None if connections is None else [row.id for row in connections.index]
    if connections is None or ids is None or connection not in ids:
        raise view.missing("connection", connection, ids)
    i = ids.index(connection)
    row = connections.index.rows[i]
    related, clients = [Related("belongs to", "client", row.client, "")], dict[tuple[str, str, str], bool]()
    texts = {"protocol": row.protocol, "user": row.user, "from": row.remote_host}
    if consumers is not None:
        at = np.flatnonzero(view.snapshot.consumer_connection == connections.index.keys[i])
        for j in at[:MOST_RELATED].tolist():
            queue = consumers.index.rows[j].queue
            related.append(Related("consumes from", "queue", queue, explain.numbers_of_client(consumers, HELD, j)))
        clients = _clients(view, at)
    told = [
        one
        for one in view.conditions
        if (one.address, one.queue) == OF_BROKER
        or (CLIENT(one) in clients and (clients[CLIENT(one)] or one.name != STALLED.name))
    ]
    rows = {(row.address, row.queue): row for row in view.table("queue").index}
    asked = ((rows[name[:2]], name[2]) for name in clients if name[:2] in rows)
    why = _not_judged(view, asked) or ("" if consumers is not None else "its consumers could not be read")
    facts = [*(Fact(name, text) for name, text in texts.items()), *_facts(connections, FACTS["connection"], i)]
    return _made(view, "connection", connection, facts, told, related, _known(view, "connection", told, failing, why))


def known_client(view: BrokerView, client: str, failing: Failing | None) -> Knowledge:
    """Of a client on all its queues."""
    told = [one for one in view.conditions if one.client == client]
    queues = {QUEUE(row) for row in view.table("client").index if row.client == client}
    asked = ((row, client) for row in view.table("queue").index if QUEUE(row) in queues)
    return _known(view, "client", told, failing, _not_judged(view, asked))


def linked(view: BrokerView) -> Table[LinkRow]:
    return view.snapshot.links or Table(Index.empty(), {"up": np.empty(0), "pending": np.empty(0)})


def links_of(view: BrokerView) -> list[Related]:
    links, states = linked(view), {1.0: "up", 0.0: "down"}
    stopped = {one.object: f"; {one.title}" for one in view.incidents.told if one.kind == "bridge_stopped"}
    found = []
    for i, row in enumerate(links.index):
        up = states.get(links["up"][i], "not known whether it is up")
        waits = f"{links['pending'][i]:,.0f}" if links["pending"][i] >= 0 else "an unknown number of"
        told = f"{up}, {waits} messages wait{stopped.get(row.name, '')}"
        found.append(Related("is linked by", row.kind, row.name, told))
    return found


def _clients(view: BrokerView, at: Positions) -> dict[tuple[str, str, str], bool]:
    """The clients, by their labels, whose consumers these are; and whether these may be the ones that are stalled."""
    grouping, judgement = view.state.consumers.clients, view.state.judgement
    times, member = judgement.seen.times, grouping.member
    still = times.now - judgement.held_unsettled_since(grouping.source) > 2 * times.interval
    return {
        CLIENT(grouping.index.rows[m]): bool(still[at][member[at] == m].any() or not still[member == m].any())
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
    about, table = view.snapshot.broker, view.table("queue")
    passive = about is not None and about.role is Role.PASSIVE
    at = np.flatnonzero([row.address == address if address else row.kind in JUDGED for row in table.index])
    links = linked(view)
    forwards = [row.kind == "cluster" for row in links.index]
    told = [one for one in view.conditions if one.address == address or (one.address, one.queue) == OF_BROKER]
    why = _not_judged(view, ((row, "") for row in table.index.rows[at]))
    stamp, times = view.snapshot.stamp, view.state.judgement.seen.times
    books = view.state.judgement.account.books
    own = np.array([row.address == address if address else row.kind in JUDGED for row in books.index], bool)
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
        movable=any(forwards) * float(np.nansum(books.content[own & (books.consumers == 0)])),
        came=float(np.nansum(books.came_last[own])),
        passed_on=any(forwards) * float(np.nansum(books.passed_last[own])),
        left=any(forwards) * float(np.nansum(books.passed_last[of_links])),
        on_its_way=float(np.nansum(links["pending"][forwards])),
        sums={name: float(np.nansum(table[name][at])) for name in SUMS if name in table} if len(at) else {},
        told=[explain.listed(one, view) for one in told if not one.silenced],
        known=_known(view, "address", told, failing, why),
        counts=len(at) > 0 or ("queue" not in view.tables and not passive),
    )


WORST = ("unhealthy", "stale", "unknown", "watching", "healthy")
"""What decides over several brokers, first."""


def sum_of_address(address: str, parts: Iterable[AddressSum], missing: Mapping[str, str]) -> ObjectView:
    """Over the brokers of a cluster. missing: why nothing is known of a broker, by its name."""
    parts = serving(parts)
    if not any(one.sums for one in parts if one.counts):
        hint = "; ".join(f"{name} is not known: {why}" for name, why in missing.items())
        raise NotFound(f"no broker has queues on an address {address!r}", hint or "GET /api/v1/queues has all")
    return _summed("address", address, parts, missing)


def clusters(parts: Iterable[AddressSum]) -> list[ObjectView]:
    """Brokers that serve one node id, are linked to each other, or mirror one another, with their sums and links."""
    groups: list[list[AddressSum]] = []
    for one in parts:
        near = [group for group in groups if any(joined(one, other) or joined(other, one) for other in group)]
        groups = [*(group for group in groups if group not in near), [*(each for group in near for each in group), one]]
    found = []
    for group in groups:
        if any(one.counts for one in serving(group)) and (len(group) > 1 or group[0].links):
            view = _summed("cluster", ", ".join(one.broker for one in group), serving(group), {})
            for one in group:
                down = one.known.why if one.known.state == "stale" else ""
                if one.passive or one.mirror_of or down:
                    role = "mirrors" if one.mirror_of else "has passive" if one.passive else "has"
                    view.related.append(Related(role, "broker", one.broker, down))
                for link in one.links:
                    ends = [two.broker for two in group if two.node_id and link.name.endswith(two.node_id)]
                    end = " or ".join(ends) or link.name
                    view.related.append(Related(f"links {one.broker} to", link.kind, end, link.told))
            found.append(view)
    return found


def joined(one: AddressSum, other: AddressSum) -> bool:
    """Whether they serve one node id, or the one is linked to the other or mirrors it."""
    linked = any(other.node_id and link.name.endswith(other.node_id) for link in one.links)
    return linked or one.node_id == other.node_id != "" or one.mirror_of in (other.broker, other.node_id or None)


def serving(parts: Iterable[AddressSum]) -> list[AddressSum]:
    """What each node has now: of a pair the one that was read last, as its messages have been reloaded there. A mirror
    has copies.
    """
    of_node = {one.node_id or one.broker: one for one in sorted(parts, key=lambda one: one.stamp) if not one.passive}
    return [one for one in of_node.values() if not one.mirror_of]


def _summed(
    kind: Literal["address", "cluster"], name: str, parts: list[AddressSum], missing: Mapping[str, str]
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
        facts.append(Fact(fact, json_number(least), "messages" if fact != "consumers" else "", bound))
    related = []
    for one in parts:
        numbers = ", ".join(f"{name} {one.sums[name]:,.0f}" for name in SUMS[:4] if name in one.sums)
        related.append(Related("is on" if numbers else "may be on", "broker", one.broker, numbers or one.known.why))
    related += [Related("may be on", "broker", name, f"not known: {why}") for name, why in missing.items()]
    found = {one.broker: one.known for one in parts}
    found |= {name: Knowledge("unknown", f"not known: {why}", None, []) for name, why in missing.items()}
    state = min((one.state for one in found.values()), key=WORST.index)
    deciding = {name: one for name, one in found.items() if one.state == state}
    why = "; ".join(f"{name}: {one.why}" for name, one in deciding.items())
    since = min((one.since for one in deciding.values() if one.since is not None), default=None)
    watched = {(each.condition, each.client): each for one in deciding.values() for each in one.watched}
    known = Knowledge(state, why, since, [*watched.values()])
    told = [one for part in parts for one in part.told]
    stamp = min(one.stamp for one in parts)
    return ObjectView("", kind, name, round(stamp, 3), known, facts, told[:MOST_RELATED], related, [])


def _bounds(name: str, total: float, parts: Sequence[AddressSum]) -> tuple[float, float]:
    """Of messages over brokers that were read one after the other. What one passed on after it was read, others that
    were read later may have, too; what it had passed on when it was read, others that were read before it may lack, and
    what is still on its way has been added nowhere else.
    """
    least = most = total
    for one in parts:
        least -= min(one.movable, _came_after(one, parts))
        if earlier := [other for other in parts if other is not one and other.stamp < one.read]:
            came = sum(other.came if other.before <= one.before else np.inf for other in earlier)
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
            yield Fact(name.replace("_", " "), json_number(table[name][i]), UNITS.get(name, ""))


def _made(
    view: BrokerView,
    kind: Literal["broker", "address", "connection"],
    name: str,
    facts: list[Fact],
    told: Sequence[ActiveCondition],
    related: list[Related],
    known: Knowledge,
) -> ObjectView:
    conditions = explain.in_full(view, told, explain.listed, MOST_RELATED)
    stamp = round(view.snapshot.stamp, 3)
    of_it = [
        one
        for one in view.incidents.told
        if kind == "broker"
        or name in {one.object, *one.victims, *(key[1] for key in one.members), *(address for address, _ in one.places)}
    ]
    shown = explain.incidents_in_full(view, of_it)
    known = sure.with_incidents(known, of_it)
    return ObjectView(view.policy.broker, kind, name, stamp, known, facts, conditions, related, [], shown)


def _known(
    view: BrokerView, kind: str, told: Sequence[ActiveCondition], failing: Failing | None, why: str
) -> Knowledge:
    """why: nothing is judged of it; empty where something is."""
    about, own = view.snapshot.broker, kind == "broker"
    bad = [
        one for one in told if sure.speaks_of_queue(one) or (own and one.severity > Severity.INFO and not one.silenced)
    ]
    if own and about is not None and about.role is Role.PASSIVE:
        on = f"it is passive and serves no client; last read at {moment(view.snapshot.stamp)}"
        return sure.knowledge(told, bad, [], on, failing)
    watched = [*sure.watched_of_broker(view.state, view.policy, view.interval)]
    on = sure.judged(view.state, view.kind.name, view.interval, *Scope)
    return sure.knowledge(told, bad, watched, on, failing, why)


def _not_judged(view: BrokerView, asked: Iterable[tuple[QueueSeries, str]]) -> str:
    """Why nothing is judged: of the broker, or of all these queues, or clients of them; empty where something is."""
    why = sure.not_judged(view.state, view.snapshot)
    for row, client in () if why else asked:
        found = next(explain.unknown_conditions(view, row, [client] if client else []), None)
        if found is None:
            return ""
        why = why or found.why
    return why
