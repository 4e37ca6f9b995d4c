"""What is known of an object that is no queue: the broker, an address also over several brokers, a connection."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec.structs import asdict, replace

from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.core.table import Index, Table
from penstock.insight.actions import Actions
from penstock.insight.answers import Fact, Knowledge, ListedCondition, ObjectView, Related
from penstock.insight.explain import (
    WITH_ACTIONS,
    BrokerView,
    NotFound,
    condition_in_full,
    incidents_in_full,
    json_number,
    near,
)
from penstock.insight.knowledge import OF_BROKER, Failing, judged, knowledge, watched_of_broker
from penstock.insight.related import MOST, dead_letters, numbers_text, queues_with
from penstock.insight.sheets import sheets_of
from penstock.model import QueueKind

if TYPE_CHECKING:
    from penstock.series.labels import ProducerSeries, QueueSeries

BROKER_FACTS = {
    "connections": "", "memory_used_bytes": "bytes", "memory_limit_bytes": "bytes", "disk_used_ratio": "",
    "disk_limit_ratio": "", "heap_used_bytes": "bytes", "heap_limit_bytes": "bytes", "uptime": "seconds",
    "authentication_failures": "",
}  # fmt: skip
ADDRESS_FACTS = {
    "memory_bytes": "bytes", "limit_bytes": "bytes", "limit_messages": "messages", "limit_percent": "percent",
    "paging": "", "paused": "", "producers_paused": "", "messages_added": "messages", "messages_unrouted": "messages",
    "messages": "messages", "max_delivery_attempts": "", "max_producers": "", "slow_consumer_rate": "messages/second",
}  # fmt: skip
CONNECTION_FACTS = {"sessions": "", "consumers": "", "producers": ""}
SUMS = ("messages", "ready", "delivering", "consumers", "added", "acknowledged")


def explain_broker(view: BrokerView, failing: Failing | None, pair: Iterable[Related] = ()) -> ObjectView:
    """pair: other brokers that serve the same node id."""
    about, links = view.snapshot.broker, view.snapshot.links
    facts, related = [], list(pair)
    if about is not None:
        texts = {"version": about.product_version or about.version, "role": str(about.role), "node id": about.node_id}
        facts = [Fact(name, text) for name, text in texts.items()]
        facts += [Fact(name, json_number(getattr(about, name)), unit) for name, unit in BROKER_FACTS.items()]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        count = sum(one.severity is severity and not one.silenced for one in view.conditions)
        facts.append(Fact(f"{severity.name.lower()} conditions", count))
    if links is not None:
        states = {1.0: "up", 0.0: "down"}
        up = (states.get(one, "not known whether it is up") for one in links["up"].tolist())
        related += [
            Related("is linked by", row.kind, row.name, told) for row, told in zip(links.index, up, strict=True)
        ]
    own = [one for one in view.conditions if (one.address, one.queue) == OF_BROKER]
    return _made(view, "broker", view.policy.broker, facts, own, related, failing)


def explain_address(view: BrokerView, address: str, failing: Failing | None) -> ObjectView:
    """NotFound: the broker has no such address."""
    addresses = view.snapshot.addresses
    names = [] if addresses is None else [row.name for row in addresses.index]
    if addresses is None or address not in names:
        raise NotFound(f"broker {view.policy.broker} has no address {address!r}", near(address, names, "addresses"))
    i = names.index(address)
    producers: Table[ProducerSeries] = view.tables.get("producer", Table(Index.empty()))
    facts = [Fact("policy when full", addresses.index.rows[i].policy), *_facts(addresses, ADDRESS_FACTS, i)]
    sent = {j: producers["produced"][j] for j, row in enumerate(producers.index) if row.address == address}
    queues: Table[QueueSeries] = view.tables.get("queue", Table(Index.empty()))
    related = [
        *queues_with(queues, "has", lambda row: row.address == address, ("messages", "consumers")),
        *(
            Related("is sent to by", "client", producers.index.rows[j].client, f"{sent[j]:,.0f} messages")
            for j in sorted(sent, key=lambda j: -np.nan_to_num(sent[j]))
        ),
        *dead_letters(queues, address),
    ]
    told = [one for one in view.conditions if one.address == address]
    return replace(
        _made(view, "address", address, facts, told, related, failing), account=sheets_of(view, address, "")[:1]
    )


def explain_connection(view: BrokerView, connection: str, failing: Failing | None) -> ObjectView:
    """connection: the broker's id of it. NotFound: there is no such connection now."""
    connections, consumers = view.snapshot.connections, view.snapshot.consumers
    ids = [] if connections is None else [row.id for row in connections.index]
    if connections is None or connection not in ids:
        raise NotFound(
            f"broker {view.policy.broker} has no connection {connection!r}", near(connection, ids, "connections")
        )
    i = ids.index(connection)
    row, related, queues = (
        connections.index.rows[i],
        [Related("is of", "client", connections.index.rows[i].client, "")],
        set(),
    )
    texts = {"protocol": row.protocol, "user": row.user, "from": row.remote_host}
    if consumers is not None:
        for j in np.flatnonzero(view.snapshot.consumer_connection == connections.index.keys[i])[:MOST].tolist():
            of = consumers.index.rows[j]
            queues.add((of.address, of.queue, of.client))
            related.append(Related("consumes from", "queue", of.queue, numbers_text(consumers, HELD, j)))
    told = [one for one in view.conditions if (one.address, one.queue, one.client) in queues]
    facts = [*(Fact(name, text) for name, text in texts.items()), *_facts(connections, CONNECTION_FACTS, i)]
    return _made(view, "connection", connection, facts, told, related, failing)


HELD = ("buffered", "delivered", "acknowledged")


@dataclass(slots=True)
class AddressSums:
    """Of some brokers: of an address, and of what is on its way between them, which lies in queues of links."""

    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SUMS, 0.0))
    on_its_way: float = 0.0
    related: list[Related] = field(default_factory=list)
    told: list[ListedCondition] = field(default_factory=list)
    stamp: float = np.inf


def address_sums(views: Sequence[BrokerView], address: str) -> AddressSums:
    found = AddressSums()
    for view in views:
        found.stamp = min(found.stamp, view.snapshot.stamp)
        table: Table[QueueSeries] = view.tables.get("queue", Table(Index.empty()))
        at = np.flatnonzero([row.address == address for row in table.index])
        linked = np.flatnonzero([row.kind == QueueKind.LINK for row in table.index])
        found.on_its_way += float(np.nansum(table["messages"][linked])) if len(linked) else 0.0
        if not len(at):
            continue
        here = {name: float(np.nansum(table[name][at])) for name in SUMS if name in table}
        found.sums = {name: found.sums[name] + here.get(name, 0.0) for name in SUMS}
        numbers = ", ".join(f"{name} {here[name]:,.0f}" for name in SUMS[:4] if name in here)
        found.related.append(Related("is on", "broker", view.policy.broker, numbers))
        found.told += [_listed(one, view) for one in view.conditions if one.address == address and not one.silenced]
    return found


def sum_of_address(views: Sequence[BrokerView], address: str, others: Iterable[AddressSums] = ()) -> ObjectView:
    """Over the brokers of a cluster. others: of those that another process polls."""
    parts = [address_sums(views, address), *others]
    related = [one for part in parts for one in part.related]
    told = [one for part in parts for one in part.told]
    if not related:
        raise NotFound(f"no broker has queues on an address {address!r}", "GET /api/v1/queues has all")
    sums = {name: sum(part.sums[name] for part in parts) for name in SUMS}
    facts = [Fact(name, json_number(value), "messages" if name != "consumers" else "") for name, value in sums.items()]
    on_its_way = sum(part.on_its_way for part in parts)
    facts.append(Fact("on its way between the brokers, of all addresses", json_number(on_its_way), "messages"))
    bad = [one for one in told if one.severity != "info"]
    why = ", ".join(dict.fromkeys(one.condition for one in bad)) or f"no condition on {len(related)} brokers"
    known = Knowledge("unhealthy" if bad else "healthy", why, min((one.since for one in bad), default=None), [])
    stamp = min(part.stamp for part in parts)
    return ObjectView("", "address", address, round(stamp, 3), known, facts, told[:MOST], related, [])


def _facts(table: Table[Any], units: Mapping[str, str], i: int) -> Iterator[Fact]:
    for name, unit in units.items():
        if name in table and not np.isnan(table[name][i]):
            yield Fact(name.replace("_", " "), json_number(table[name][i]), unit)


def _listed(one: ActiveCondition, view: BrokerView, actions: Actions | None = None) -> ListedCondition:
    full = asdict(condition_in_full(one, view, actions))
    return ListedCondition(broker=one.broker, address=one.address, queue=one.queue, **full)


def _made(
    view: BrokerView,
    kind: Literal["broker", "address", "connection"],
    name: str,
    facts: list[Fact],
    told: Sequence[ActiveCondition],
    related: list[Related],
    failing: Failing | None,
) -> ObjectView:
    told = sorted(told, key=lambda one: (-one.severity, one.since))
    bad = [one for one in told if one.severity > Severity.INFO and not one.silenced]
    watched = [*watched_of_broker(view.state, view.policy, view.interval)]
    on = judged(view.state, view.kind.name, view.interval, *Scope)
    known = knowledge(told, bad, watched, on, failing)
    actions = Actions(view.snapshot, view.state)
    conditions = [_listed(one, view, actions if i < WITH_ACTIONS else None) for i, one in enumerate(told[:MOST])]
    stamp = round(view.snapshot.stamp, 3)
    of_it = [one for one in view.incidents.told if name in {one.object, *one.victims, *(key[1] for key in one.members)}]
    shown = incidents_in_full(view, of_it)
    return ObjectView(view.policy.broker, kind, name, stamp, known, facts, conditions, related, [], shown)
