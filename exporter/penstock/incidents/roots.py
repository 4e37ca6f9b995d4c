"""The rules for roots that are more than one condition, in the order in which they run.

Each yields groups (see `incident`), and takes the conditions that a group explains out of `symptoms.free`, so that no
later rule explains them once more.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from penstock.causes import surroundings
from penstock.conditions.blocked_by_operator import BLOCKED_BY_OPERATOR
from penstock.conditions.condition import ActiveCondition
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.dead_letters_full import DEAD_LETTERS_FULL
from penstock.conditions.producer_silent import PRODUCER_SILENT
from penstock.conditions.producers_blocked import PRODUCERS_BLOCKED
from penstock.conditions.unheld import UNHELD as HELD_BY_NO_CONSUMER
from penstock.core.formatting import duration, in_bytes, moment
from penstock.core.table import Column, Positions, Table
from penstock.incidents.incident import Group, key_of, some
from penstock.incidents.links import BACKLOG, BRINGS, FAILING, LOOPS, STOPS
from penstock.incidents.symptoms import (
    Place,
    Predicate,
    Symptoms,
    place_of,
)
from penstock.model import ConsumerRow, LinkRow, ProducerRow

SILENT = PRODUCER_SILENT.name
FEWEST_SILENT = 5
"""Queues that fall silent together, where the broker or something before it is the cause."""
TOGETHER = 2.0
"""Seconds: clients that stop so shortly after each other may have a common cause."""
FEWEST = 3
"""So many clients that stop together have one."""
UNHELD = 3.0
"""Messages in delivery that no consumer has; fewer may be a mere difference of rows that are not read at one moment."""
MOST_ADDRESSES = 50
"""So many full addresses are looked at; each further one is a root only by its condition."""
BLOCKED = PRODUCERS_BLOCKED.name
STARVED = frozenset({CONNECTION_PAUSED.name})
FILL = BACKLOG.union(name for name, brought in BRINGS.items() if brought & BACKLOG)
"""Conditions that fill a queue: messages that are not consumed, and the reasons for that."""
STOPPED = STOPS | LOOPS


def full_broker(symptoms: Symptoms) -> Iterator[Group]:
    """Yield the broker as a root where its memory or its disk is full.

    The *filler* is the address that uses most of the memory: its conditions are the root. The victims are the clients
    that wait in sending, to whatever address.
    """
    broker = symptoms.poll.broker
    if not surroundings.full_broker(broker):
        return
    memory_is_full = broker.memory_used_bytes >= broker.memory_limit_bytes
    kind = "broker_memory_full" if memory_is_full else "broker_disk_full"
    group = symptoms.measured(kind, symptoms.broker_name)

    # An address that pages writes its messages to the disk: who sends to it does not wait for memory.
    paging = paging_addresses(symptoms) if memory_is_full else set[str]()
    waiting = [row for row in symptoms.waiting(group) if row.address not in paging]
    filler = largest_address(symptoms) if memory_is_full else ""
    concerned = {row.address for row in waiting}
    if filler:
        concerned.add(filler)

    group.facts = {
        **producers(waiting),
        **address_facts(symptoms, filler),
        **filler_facts(symptoms, filler),
        "addresses": some(sorted(concerned)),
        "idle": idle_addresses(symptoms, concerned),
    }
    blocked_in_send = symptoms.of_sessions(waiting)
    take_conditions_of_full_broker(symptoms, group, filler)
    symptoms.take(group.victims, blocked_in_send)
    group.blocked = sorted({row.client for row in waiting if row.address != filler})
    group.places = {
        place for address in concerned for place in symptoms.queues_of(address)
    }
    yield group


def paging_addresses(symptoms: Symptoms) -> set[str]:
    return {
        name for name, limits in symptoms.addresses.items() if limits.policy == "page"
    }


def largest_address(symptoms: Symptoms) -> str:
    """Return the address that uses most memory, empty if no address is known."""
    addresses = symptoms.addresses
    return max(
        addresses,
        key=lambda name: np.nan_to_num(addresses[name].memory_bytes),
        default="",
    )


def filler_facts(symptoms: Symptoms, filler: str) -> dict[str, str]:
    """Return the share of the broker's memory that the address uses, and, if so, that no limit of its own stops it."""
    limits = symptoms.limits_of(filler)
    memory = symptoms.poll.broker.memory_limit_bytes
    share = limits.memory_bytes / memory
    has_unread_settings = np.isnan(limits.settings_stamp)
    may_have_reached_limit = limits.full or has_unread_settings
    return {
        "filler": filler,
        "share": f"{share:.0%} of {in_bytes(memory)}",
        "unlimited": "" if may_have_reached_limit else "it is below it, or has none",
    }


def idle_addresses(symptoms: Symptoms, concerned: Collection[str]) -> str:
    """Count the addresses that the full broker does not concern at present."""
    addresses = {row.address for row in symptoms.facts.queues}
    return str(len(addresses) - len(concerned))


def take_conditions_of_full_broker(
    symptoms: Symptoms, group: Group, filler: str
) -> None:
    """Take blocked producers of addresses below their own limits, and the backlog of the filler."""
    addresses = symptoms.addresses
    limits_of_filler = symptoms.limits_of(filler)

    def is_blocked_by_broker(condition: ActiveCondition) -> bool:
        """Producers of an address that is full itself would be blocked without the broker's limit, too."""
        limits = addresses.get(condition.address, limits_of_filler)
        return condition.name == BLOCKED and not limits.full

    def fills_broker(condition: ActiveCondition) -> bool:
        return condition.address == filler and condition.name in FILL

    symptoms.take(group.own, is_blocked_by_broker)
    symptoms.take(group.own, fills_broker)


def failed_over(symptoms: Symptoms) -> Iterator[Group]:
    """Yield the broker if it took over from its pair, which cannot be reached: then no other can take over from it."""
    takeover = symptoms.poll.snapshot.observation.takeover
    if takeover is None or not takeover.alone:
        return
    group = symptoms.measured("failover", symptoms.broker_name)
    group.begin = takeover.time
    group.facts = {"took": takeover.text, "other": takeover.broker}
    yield group


def producers(rows: list[ProducerRow]) -> dict[str, str]:
    """Return how many producers wait, and their clients."""
    clients = sorted({row.client for row in rows})
    count = len(rows)
    text = f"{count} producer{'s are' if count > 1 else ' is'}" if rows else ""
    return {
        "producers": text,
        "clients": some(clients),
        "client": clients[0] if len(clients) == 1 else "",
    }


def address_facts(symptoms: Symptoms, address: str) -> dict[str, str]:
    """Return how full the address is, its senders, and its messages and consumers."""
    limits = symptoms.limits_of(address)
    limit = "at its limit"
    if limits.full:
        limit = f"{limits.limit_percent:.0f} % of {in_bytes(limits.limit_bytes)}"
    used = "bytes"
    if limits.memory_bytes > 0:
        used = f"{limits.memory_bytes:,.0f} bytes"
    senders = {row.client for row in symptoms.sending.index if row.address == address}
    return {
        "limit": limit,
        "readers": readers(symptoms, address),
        "senders": some(sorted(senders)),
        "used": used,
    }


def readers(symptoms: Symptoms, address: str) -> str:
    """Return the messages and consumers of the address in words, with one client that stopped."""
    facts = symptoms.facts
    queues = [*symptoms.queues_of(address).values()]
    messages = np.nansum(facts.messages[queues])
    count = np.nansum(facts.consumers[queues])
    plural = "" if count == 1 else "s"
    consumers = f"{count:.0f} consumer{plural}" if count else "no consumer"
    parts = [f"{messages:,.0f} messages", consumers]
    for condition in symptoms.free.values():
        if condition.address == address and condition.name in STOPPED:
            parts.append(f"{condition.client} {condition.name}")
            break
    return ", ".join(parts)


class LinkState(NamedTuple):
    """A bridge or another link: whether it is connected, and whether it was started; 1, 0 or NaN for not known."""

    row: LinkRow
    up: float
    started: float


def stopped_bridges(symptoms: Symptoms) -> Iterator[Group]:
    """Yield bridges that take none of the messages that wait for them.

    The target of such a bridge is full, or its peer is frozen or cannot be reached.
    """
    facts = symptoms.facts
    stopped_since = symptoms.poll.timers.stuck
    links = links_by_queue(symptoms.poll.snapshot.links)
    queues = facts.queues.where("name", attrgetter("name"), links.keys() - {""})
    for position in queues.tolist():
        has_messages = facts.messages[position] > 0
        stopped_for = facts.now - stopped_since[position]
        if has_messages and stopped_for >= symptoms.poll.constants.proof:
            place = place_of(facts.queues.rows[position])
            yield stopped_bridge(symptoms, place, position, links[place[1]])


def links_by_queue(links: Table[LinkRow] | None) -> dict[str, LinkState]:
    """Return the links by the name of the queue that they read."""
    if links is None:
        return {}
    is_up = links["up"].tolist()
    is_started = links["started"].tolist()
    states = map(LinkState, links.index, is_up, is_started)
    return {state.row.queue: state for state in states}


def stopped_bridge(
    symptoms: Symptoms, place: Place, position: int, link: LinkState
) -> Group:
    """Return a bridge as a root. place, position: of the queue that it reads."""
    facts = symptoms.facts
    group = symptoms.measured("bridge_stopped", link.row.name)
    reason = how_it_stopped(link.up, link.started, facts.delivering[position])
    sends_on = link.row.kind == "bridge" and reason != "stopped"
    group.places = {place}
    group.facts = {
        "queues": link.row.queue,
        reason: f"{facts.messages[position]:,.0f} messages wait",
        "target": link.row.target if sends_on else "",
    }
    symptoms.take(group.victims, on(group.places, BACKLOG))
    return group


def how_it_stopped(up: float, started: float, delivering: float) -> str:
    """Return why a bridge takes no messages, as the name under which the texts have that reason.

    stopped: an operator stopped it. down: it is not connected, which may also be because its sends are refused. frozen:
    messages are in delivery, and its peer acknowledges none. full: it takes none, as its target has no room. not_read:
    the broker does not show which.
    """
    if started == 0:
        return "stopped"
    if up == 0:
        return "down"
    if np.isnan(up) or np.isnan(delivering):
        return "not_read"
    return "frozen" if delivering > 0 else "full"


def on(places: Collection[Place], names: frozenset[str]) -> Predicate:
    """Return a predicate: whether a condition has one of these names and is on one of these queues."""
    return lambda condition: (
        condition.name in names and (condition.address, condition.queue) in places
    )


def dead_letters_refused(symptoms: Symptoms) -> Iterator[Group]:
    """Yield full dead-letter addresses that refuse messages (policy FAIL).

    A queue cannot put its dead letters there: they stay in delivery, and no consumer buffers them.
    """
    targets = [
        name
        for name, limits in symptoms.addresses.items()
        if limits.full and limits.policy == "fail"
    ]
    if not targets:
        return
    unheld = messages_held_by_no_consumer(symptoms)
    suspects = np.flatnonzero(unheld >= UNHELD)
    rows = symptoms.facts.queues.rows
    for target in targets:
        queues = [i for i in suspects if rows[i].dead_letter_address == target]
        if queues:
            yield refusing_address(symptoms, target, np.array(queues), unheld)


def has_transactions(symptoms: Symptoms) -> bool:
    """Return whether the messages of prepared transactions are known by queue; else the column is empty."""
    return len(symptoms.poll.losses.in_doubt) == len(symptoms.facts.held)


def messages_held_by_no_consumer(symptoms: Symptoms) -> Column:
    """(queues,) Messages in delivery that neither a consumer nor a prepared transaction has."""
    facts = symptoms.facts
    unheld = facts.delivering - facts.held - facts.uncommitted
    if has_transactions(symptoms):
        unheld = unheld - np.nan_to_num(symptoms.poll.losses.in_doubt)
    return unheld


def refusing_address(
    symptoms: Symptoms, target: str, queues: Positions, unheld: Column
) -> Group:
    """Return a dead-letter address that refuses messages of these queues as a root."""
    rows = symptoms.facts.queues.rows[queues]
    group = symptoms.measured("dead_letter_address_full", target)
    group.places = {place_of(row) for row in rows}
    group.blocked = sorted(name for _, name in group.places)
    stuck = unheld[queues].sum()
    facts = {
        "stuck": f"{stuck:,.0f}",
        "queues": some(group.blocked),
        **address_facts(symptoms, target),
    }
    if has_transactions(symptoms):
        in_doubt = symptoms.poll.losses.in_doubt[queues]
        if (in_doubt == 0).all():
            facts["not_in_doubt"] = "none has these messages"
    group.facts = facts

    fills_target = FILL | {DEAD_LETTERS_FULL.name}
    waits_for_target = BACKLOG | FAILING | {HELD_BY_NO_CONSUMER.name}
    symptoms.take(group.own, on(symptoms.queues_of(target), fills_target))
    symptoms.take(group.victims, on(group.places, waits_for_target))
    return group


def full_addresses(symptoms: Symptoms) -> Iterator[Group]:
    """Yield full or closed addresses whose producers wait, and full targets of diverts.

    A *divert* of the broker sends messages for one address, its source, to another, its target. A target that refuses
    messages makes sends to the source fail, too. Consumers that wait in sending to such an address are victims.
    """
    reported = {
        condition.address
        for condition in symptoms.free.values()
        if condition.name in (BLOCKED, BLOCKED_BY_OPERATOR.name)
    }
    blocking = {
        name
        for name, limits in symptoms.addresses.items()
        if limits.full and limits.policy == "block"
    }
    sources = sources_of_full_targets(symptoms)
    addresses = sorted(reported | blocking | sources.keys())
    for address in addresses[:MOST_ADDRESSES]:
        senders_to = sources.get(address, set())
        group = symptoms.measured(kind_of_full(symptoms, address, senders_to), address)
        waiting = [
            row
            for row in symptoms.waiting(group)
            if row.address == address or row.address in senders_to
        ]
        if waiting or address in reported:
            fill_group_of_address(symptoms, group, waiting, senders_to)
            yield group


def sources_of_full_targets(symptoms: Symptoms) -> dict[str, set[str]]:
    """Return the sources of diverts by target, for full targets that refuse messages."""
    sources: dict[str, set[str]] = {}
    for source, target in symptoms.poll.snapshot.diverts:
        limits = symptoms.limits_of(target)
        if limits.full and limits.policy == "fail":
            sources.setdefault(target, set()).add(source)
    return sources


def kind_of_full(symptoms: Symptoms, address: str, sources: set[str]) -> str:
    """Return which kind of root the address is; where an operator blocked it, that comes before a limit."""
    limits = symptoms.limits_of(address)
    if limits.producers_paused > 0:
        return "address_blocked"
    return "divert_target_full" if sources else "address_full"


def fill_group_of_address(
    symptoms: Symptoms, group: Group, waiting: list[ProducerRow], sources: set[str]
) -> None:
    """Give the group of a full address its conditions and its facts."""
    facts = address_facts(symptoms, group.what)
    blocked_in_send = symptoms.of_sessions(waiting)
    group.places = {*symptoms.queues_of(group.what)}
    group.blocked = sorted({row.client for row in waiting})
    symptoms.take(group.own, on(group.places, FILL))
    symptoms.take(group.victims, blocked_in_send)
    group.consumers = symptoms.consumers_of(group.victims)
    stopped_queues = sorted({victim.queue for victim in group.victims})
    group.facts = {
        **facts,
        **producers(waiting),
        "stands": some(stopped_queues),
        "sources": some(sorted(sources)),
    }


def paused_addresses(symptoms: Symptoms) -> Iterator[Group]:
    """Yield paused addresses, each one root for all its queues. Also named are those queues that have no consumer."""
    paused = {name for name, limits in symptoms.addresses.items() if limits.paused > 0}
    conditions: list[ActiveCondition] = []
    symptoms.take(
        conditions,
        lambda condition: condition.name == "paused" and condition.address in paused,
    )
    for group in together("address_paused", conditions, attrgetter("address")):
        queues = symptoms.queues_of(group.what)
        consumers = symptoms.facts.consumers
        unread = [
            name for (_, name), position in queues.items() if consumers[position] == 0
        ]
        group.facts = {**group.facts, "unread": some(unread)}
        symptoms.take(group.victims, on(queues, BRINGS["paused"]))
        yield group


def together(
    kind: str,
    conditions: list[ActiveCondition],
    root_of: Callable[[ActiveCondition], str],
) -> list[Group]:
    """Return one group for each root of these conditions; the earliest condition of a group gives its begin.

    root_of returns the object that is the root of a condition. kind: of all groups; if empty, each group is of the kind
    of its first condition.
    """
    groups: dict[str, Group] = {}
    for condition in sorted(conditions, key=attrgetter("since", "queue")):
        root = root_of(condition)
        if root not in groups:
            groups[root] = Group(kind or condition.name, root, condition.since)
        groups[root].own.append(condition)
    for group in groups.values():
        queues = sorted(condition.queue for condition in group.own)
        group.facts = {"queues": some(queues)}
    return [*groups.values()]


def bursts(
    conditions: Iterable[ActiveCondition], seconds: float
) -> Iterator[list[ActiveCondition]]:
    """Yield the conditions in lists: each began within so many seconds of the one before it in the list."""
    ordered = sorted(conditions, key=attrgetter("since"))
    burst = ordered[:1]
    for before, condition in pairwise(ordered):
        if condition.since - before.since > seconds:
            yield burst
            burst = []
        burst.append(condition)
    if burst:
        yield burst


def common_causes(symptoms: Symptoms) -> Iterator[Group]:
    """Yield three clients or more that stop, each within two seconds of another."""
    stops = (
        condition for condition in symptoms.free.values() if condition.name in STOPS
    )
    for burst in bursts(stops, TOGETHER):
        clients = {condition.client for condition in burst}
        if len(clients) >= FEWEST:
            yield common_cause(symptoms, burst)


def common_cause(symptoms: Symptoms, stops: list[ActiveCondition]) -> Group:
    """Return clients that stopped together, with what they share and a client that works nevertheless."""
    first = stops[0]
    clients = sorted({condition.client for condition in stops})
    group = Group("common_cause", first.client, first.since, own=stops, blocked=clients)
    for condition in stops:
        del symptoms.free[key_of(condition)]
    group.consumers = symptoms.consumers_of(stops)
    queues = sorted(condition.queue for condition in stops)
    seconds = stops[-1].since - first.since
    group.facts = {
        "count": str(len(clients)),
        "names": some(clients),
        "queues": some(queues),
        "within": duration(max(seconds, 0.1)),  # not "within 0 s"
        "stopped": moment(first.since, "%H:%M:%S UTC"),
        **comparison(symptoms, group),
    }
    return group


def comparison(symptoms: Symptoms, group: Group) -> dict[str, str]:
    """Return as facts: the host that all consumers of the group share, and a client that works nevertheless.

    `shared_host` in place of `host`: that client is on the same host, which therefore is not the cause.
    """
    rows = symptoms.facts.consumer.index.rows[group.consumers]
    hosts = {row.remote_host for row in rows}
    host = min(hosts) if len(hosts) == 1 else ""
    worker = working_consumer(symptoms, {*group.blocked}, hosts)
    if worker is None:
        return {"host": host, "works": ""}
    if worker.remote_host in hosts:
        return {"shared_host": host, "works": worker.client}
    return {"host": host, "works": worker.client}


def working_consumer(
    symptoms: Symptoms, stopped: Collection[str], hosts: Collection[str]
) -> ConsumerRow | None:
    """Return a consumer of a client that did not stop and settles messages; one on these hosts is preferred."""
    facts = symptoms.facts
    consumer = facts.consumer
    # Messages that leave a consumer may have been given back: it works only if its queue settled some.
    queue_settled = consumer.at_queue(facts.d_settled, 0.0) > 0
    working = np.flatnonzero((consumer.d_left > 0) & queue_settled)
    elsewhere: ConsumerRow | None = None  # the first one on another host
    for position in working:
        row: ConsumerRow = consumer.index.rows[position]
        if row.client in stopped:
            continue
        if row.remote_host in hosts:
            return row
        elsewhere = elsewhere or row
    return elsewhere


def silent_broker(symptoms: Symptoms) -> Iterator[Group]:
    """Yield the broker where five queues or more fall silent within two polls, if most that got messages do."""
    arrival = symptoms.poll.usual.arrival  # (queues,) when the last message came
    two_polls = 2 * symptoms.facts.interval
    silent = (
        condition for condition in symptoms.free.values() if condition.name == SILENT
    )
    for burst in bursts(silent, two_polls):
        begin = burst[0].since
        active = np.count_nonzero(arrival >= begin - two_polls)
        count = len(burst)
        if count >= FEWEST_SILENT and 2 * count > active:
            group = Group("traffic_stopped", symptoms.broker_name, begin)
            group.facts = {"count": str(count), "active": str(active)}
            group.own = [symptoms.free.pop(key_of(condition)) for condition in burst]
            yield group


def clients(symptoms: Symptoms) -> Iterator[Group]:
    """Yield clients that stopped or fail, each with its conditions on all queues.

    A connection has one flow limit for all its consumers: the victims of such a client are the consumers that get
    nothing because its buffered messages fill their connection.
    """
    stopped: list[ActiveCondition] = []
    symptoms.take(
        stopped,
        lambda condition: bool(condition.client) and condition.name in STOPPED,
    )
    for group in together("", stopped, attrgetter("client")):
        group.consumers = symptoms.consumers_of(group.own)
        if any(condition.name in STARVED for condition in symptoms.free.values()):
            places = queues_of_connections(symptoms, group.consumers)
            symptoms.take(group.victims, on(places, STARVED))
        yield group


def queues_of_connections(symptoms: Symptoms, consumers: Positions) -> set[Place]:
    """Return the queues that the connections of these consumers read."""
    keys = symptoms.poll.snapshot.consumer_connection
    shares_connection = np.isin(keys, keys[consumers])
    rows = symptoms.facts.consumer.index.rows[shares_connection]
    return {(row.address, row.queue) for row in rows}


Rules = tuple[Callable[[Symptoms], Iterator[Group]], ...]
RESOURCES: Rules = (
    failed_over,
    full_broker,
    stopped_bridges,
    dead_letters_refused,
    full_addresses,
    paused_addresses,
)
CLIENTS: Rules = (
    silent_broker,
    common_causes,
    clients,
)
"""They run after those of `RESOURCES`."""
