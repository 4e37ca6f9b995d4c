"""The roots that are more than one condition, in the order in which they take what they explain out of `free`."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from operator import attrgetter

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
from penstock.core.table import Table
from penstock.incidents.incident import Group, key_of, some
from penstock.incidents.links import BACKLOG, BRINGS, FAILING, LOOPS, STOPS
from penstock.incidents.symptoms import AddressLimits, Symptoms, place_of
from penstock.model import LinkRow, ProducerRow

SILENT = PRODUCER_SILENT.name
FEWEST_SILENT = 5
TOGETHER = 2.0
FEWEST = 3
"""Seconds within which so many clients stop, where something common to them is the cause."""
UNHELD = 3.0
"""Messages in delivery beyond those of consumers: rows of one poll are not read at the same moment."""
MOST_ADDRESSES = 50
"""Full ones that are looked at; of more each is a root by its condition."""
BLOCKED = PRODUCERS_BLOCKED.name
STARVED = frozenset({CONNECTION_PAUSED.name})
FILL = BACKLOG.union(name for name, brought in BRINGS.items() if brought & BACKLOG)
"""Messages that are not taken, and the reasons for that."""
STOPPED = STOPS | LOOPS


def full_broker(symptoms: Symptoms) -> Iterator[Group]:
    """Memory or disk is full. Who fills it and who suffers differ; who sent nothing shortly before suffers nothing."""
    broker = symptoms.poll.broker
    addresses = symptoms.addresses
    if not surroundings.full_broker(broker):
        return
    memory = broker.memory_used_bytes >= broker.memory_limit_bytes
    group = symptoms.measured(
        "broker_memory_full" if memory else "broker_disk_full",
        symptoms.poll.groups.broker,
    )
    pages = {name for name, one in addresses.items() if memory and one.policy == "page"}
    waits = [row for row in symptoms.waiting(group) if row.address not in pages]
    filler = (
        max(
            addresses,
            key=lambda name: np.nan_to_num(addresses[name].memory_bytes),
            default="",
        )
        if memory
        else ""
    )
    about = addresses.get(filler, AddressLimits())
    where = sorted({row.address for row in waits} | {filler} - {""})
    group.facts = producers(waits) | address_facts(symptoms, filler) | {
        "filler": filler,
        "share": f"{about.memory_bytes / broker.memory_limit_bytes:.0%} of {in_bytes(broker.memory_limit_bytes)}",
        "unlimited": "" if about.full or np.isnan(about.settings_stamp) else "it is below it, or has none",
        "addresses": some(where),
        "idle": str(len({row.address for row in symptoms.poll.found.queues}) - len(where)),
    }  # fmt: skip
    blocked_in_send = symptoms.of_sessions(waits)
    symptoms.take(
        group.own,
        lambda one: one.name == BLOCKED and not addresses.get(one.address, about).full,
    )
    symptoms.take(group.own, lambda one: one.address == filler and one.name in FILL)
    symptoms.take(group.victims, blocked_in_send)
    group.blocked = sorted({row.client for row in waits if row.address != filler})
    group.places = {place for address in where for place in symptoms.queues_of(address)}
    yield group


def failed_over(symptoms: Symptoms) -> Iterator[Group]:
    """It serves for the other one of its pair, which cannot be reached: nothing takes over from it."""
    took = symptoms.poll.snapshot.observation.takeover
    if took is not None and took.alone:
        group = symptoms.measured("failover", symptoms.poll.groups.broker)
        group.begin = took.time
        group.facts = {"took": took.text, "other": took.broker}
        yield group


def producers(rows: list[ProducerRow]) -> dict[str, str]:
    """How many wait, and who."""
    clients = sorted({row.client for row in rows})
    count = len(rows)
    said = f"{count} producer{'s are' if count > 1 else ' is'}" if rows else ""
    return {
        "producers": said,
        "clients": some(clients),
        "client": clients[0] if len(clients) == 1 else "",
    }


def address_facts(symptoms: Symptoms, address: str) -> dict[str, str]:
    """How full it is, who sends to it, and what is known of its consumers."""
    about = symptoms.addresses.get(address, AddressLimits())
    found = symptoms.poll.found
    at = [*symptoms.queues_of(address).values()]
    messages = np.nansum(found.messages[at])
    count = np.nansum(found.consumers[at])
    stopped = [
        one
        for one in symptoms.free.values()
        if one.address == address and one.name in STOPPED
    ]
    how = f"{count:.0f} consumer{'s' if count != 1 else ''}" if count else "no consumer"
    return {
        "limit": f"{about.limit_percent:.0f} % of {in_bytes(about.limit_bytes)}"
        if about.full
        else "at its limit",
        "readers": f"{messages:,.0f} messages, {how}"
        + "".join(f", {one.client} {one.name}" for one in stopped[:1]),
        "senders": some(
            sorted(
                {row.client for row in symptoms.sending.index if row.address == address}
            )
        ),
        "used": f"{about.memory_bytes:,.0f} bytes"
        if about.memory_bytes > 0
        else "bytes",
    }


def stopped_bridges(symptoms: Symptoms) -> Iterator[Group]:
    """A bridge that takes nothing of what waits for it: its target is full, its peer frozen or gone."""
    links = symptoms.poll.snapshot.links
    found = symptoms.poll.found
    stopped = symptoms.poll.timers.stuck
    read = (
        {} if links is None else {state[0].queue: state for state in states_of(links)}
    )
    for at in found.queues.where(
        "name", attrgetter("name"), read.keys() - {""}
    ).tolist():
        place = place_of(found.queues.rows[at])
        row, up, started = read[place[1]]
        if (
            found.messages[at] > 0
            and found.now - stopped[at] >= symptoms.poll.constants.proof
        ):
            group = symptoms.measured("bridge_stopped", row.name)
            how = how_it_stopped(up, started, found.delivering[at])
            group.places = {place}
            group.facts = {
                "queues": row.queue,
                how: f"{found.messages[at]:,.0f} messages wait",
            }
            sends_on = row.kind == "bridge" and how != "stopped"
            group.facts |= {"target": row.target if sends_on else ""}
            symptoms.take(group.victims, on({place}, BACKLOG))
            yield group


def states_of(links: Table[LinkRow]) -> Iterator[tuple[LinkRow, float, float]]:
    """Each link with whether it is up and whether it is started."""
    return zip(
        links.index, links["up"].tolist(), links["started"].tolist(), strict=True
    )


def how_it_stopped(up: float, started: float, delivering: float) -> str:
    """The name of the fact that says it. A bridge whose sends are refused is not connected either for most of the time:
    only that it was stopped is certain.
    """
    if started == 0:
        return "stopped"
    if up == 0:
        return "down"
    if np.isnan(up) or np.isnan(delivering):
        return "not_read"
    return "frozen" if delivering > 0 else "full"


def on(
    places: Iterable[tuple[str, str]], names: frozenset[str]
) -> Callable[[ActiveCondition], bool]:
    """Whether a condition has one of these names and is on one of these queues."""
    return lambda one: one.name in names and (one.address, one.queue) in places


def dead_letters_refused(symptoms: Symptoms) -> Iterator[Group]:
    """A dead-letter address is full under FAIL: what should go there stays in delivery, with no consumer."""
    found = symptoms.poll.found
    in_doubt = symptoms.poll.losses.in_doubt
    targets = [
        name
        for name, one in symptoms.addresses.items()
        if one.full and one.policy == "fail"
    ]
    if not targets:
        return
    doubt_is_read = len(in_doubt) == len(found.held)
    doubt = np.nan_to_num(in_doubt) if doubt_is_read else 0.0
    unheld = found.delivering - found.held - found.uncommitted - doubt
    for target in targets:
        at = [
            i
            for i in np.flatnonzero(unheld >= UNHELD)
            if found.queues.rows[i].dead_letter_address == target
        ]
        if at:
            group = symptoms.measured("dead_letter_address_full", target)
            group.places = {(row.address, row.name) for row in found.queues.rows[at]}
            group.blocked = sorted(name for _, name in group.places)
            stuck = {"stuck": f"{unheld[at].sum():,.0f}", "queues": some(group.blocked)}
            group.facts = stuck | address_facts(symptoms, target)
            if doubt_is_read and (in_doubt[at] == 0).all():
                group.facts |= {"not_in_doubt": "none has these messages"}
            symptoms.take(
                group.own,
                on(symptoms.queues_of(target), FILL | {DEAD_LETTERS_FULL.name}),
            )
            symptoms.take(
                group.victims,
                on(group.places, BACKLOG | FAILING | {HELD_BY_NO_CONSUMER.name}),
            )
            yield group


def full_addresses(symptoms: Symptoms) -> Iterator[Group]:
    """A full or closed address whose producers wait, with the consumers that are blocked in sending to it; also one
    that refuses what is diverted to it, and so what is sent to the sources.
    """
    told = {
        one.address
        for one in symptoms.free.values()
        if one.name in (BLOCKED, BLOCKED_BY_OPERATOR.name)
    }
    reached = {
        name
        for name, one in symptoms.addresses.items()
        if one.full and one.policy == "block"
    }
    sources: dict[str, set[str]] = {}
    for source, target in symptoms.poll.snapshot.diverts:
        if (
            (about := symptoms.addresses.get(target)) is not None
            and about.full
            and about.policy == "fail"
        ):
            sources.setdefault(target, set()).add(source)
    for address in sorted(told | reached | sources.keys())[:MOST_ADDRESSES]:
        closed = symptoms.addresses.get(address, AddressLimits()).producers_paused > 0
        of = sources.get(address, ())
        kind = (
            "address_blocked"
            if closed
            else "divert_target_full"
            if of
            else "address_full"
        )
        group = symptoms.measured(kind, address)
        waits = [
            row
            for row in symptoms.waiting(group)
            if row.address == address or row.address in of
        ]
        if waits or address in told:
            group.places = {*symptoms.queues_of(address)}
            group.blocked = sorted({row.client for row in waits})
            group.facts = address_facts(symptoms, address)
            blocked_in_send = symptoms.of_sessions(waits)
            symptoms.take(group.own, on(group.places, FILL))
            symptoms.take(group.victims, blocked_in_send)
            group.consumers = symptoms.consumers_of(group.victims)
            stands = sorted({one.queue for one in group.victims})
            group.facts = {
                **group.facts,
                **producers(waits),
                "stands": some(stands),
                "sources": some(sorted(of)),
            }
            yield group


def paused_addresses(symptoms: Symptoms) -> Iterator[Group]:
    """The address itself is paused: its queues have one root, also where no one read them before."""
    paused = {name for name, one in symptoms.addresses.items() if one.paused > 0}
    conditions: list[ActiveCondition] = []
    symptoms.take(
        conditions, lambda one: one.name == "paused" and one.address in paused
    )
    for group in together("address_paused", conditions, lambda one: one.address):
        queues = symptoms.queues_of(group.what)
        unread = some(
            name
            for (_, name), i in queues.items()
            if symptoms.poll.found.consumers[i] == 0
        )
        group.facts = {**group.facts, "unread": unread}
        symptoms.take(group.victims, on(queues, BRINGS["paused"]))
        yield group


def together(
    kind: str, conditions: list[ActiveCondition], what: Callable[[ActiveCondition], str]
) -> list[Group]:
    """One group for each of what they are about; without a kind each is of that of its first condition."""
    groups: dict[str, Group] = {}
    for one in sorted(conditions, key=lambda one: (one.since, one.queue)):
        groups.setdefault(
            what(one), Group(kind or one.name, what(one), one.since)
        ).own.append(one)
    for group in groups.values():
        group.facts = {"queues": some(sorted(one.queue for one in group.own))}
    return [*groups.values()]


def common_causes(symptoms: Symptoms) -> Iterator[Group]:
    """Three clients or more that stop, each within two seconds of another."""
    stopped = sorted(
        (one for one in symptoms.free.values() if one.name in STOPS),
        key=lambda one: one.since,
    )
    gaps = [
        i
        for i in range(1, len(stopped))
        if stopped[i].since - stopped[i - 1].since > TOGETHER
    ]
    for first, last in pairwise([0, *gaps, len(stopped)]):
        if len({one.client for one in stopped[first:last]}) >= FEWEST:
            yield common_cause(symptoms, stopped[first:last])


def common_cause(symptoms: Symptoms, at_once: list[ActiveCondition]) -> Group:
    """What their consumers share, and who works all the same."""
    first = at_once[0]
    clients = sorted({one.client for one in at_once})
    keys = {*map(key_of, at_once)}
    group = Group(
        "common_cause",
        first.client,
        first.since,
        own=at_once,
        blocked=dict.fromkeys(clients),
    )
    consumer = symptoms.poll.found.consumer
    symptoms.free = {key: one for key, one in symptoms.free.items() if key not in keys}
    group.consumers = symptoms.consumers_of(group.own)
    hosts = {row.remote_host for row in consumer.index.rows[group.consumers]}
    # What a consumer lets go may have come back: only where its queue settled some, it works.
    settled = consumer.at_queue(symptoms.poll.found.d_settled, 0.0)
    rows = consumer.index.rows
    work = np.flatnonzero((consumer.d_left > 0) & (settled > 0))
    others = (rows[i] for i in work if rows[i].client not in group.blocked)
    works = next(others, None)
    beside = next(
        (row for row in chain([works], others) if row and row.remote_host in hosts),
        None,
    )
    group.facts = {
        "count": str(len(clients)),
        "names": some(clients),
        "queues": some(sorted(one.queue for one in at_once)),
        "within": duration(max(at_once[-1].since - first.since, 0.1)),
        "stopped": moment(first.since, "%H:%M:%S UTC"),
        "shared_host" if beside else "host": min(hosts) if len(hosts) == 1 else "",
        "works": works.client if (works := beside or works) else "",
    }
    return group


def silent_broker(symptoms: Symptoms) -> Iterator[Group]:
    """More than half of the queues that get messages, of five or more, fall silent within two polls."""
    silent = sorted(
        (one for one in symptoms.free.values() if one.name == SILENT),
        key=lambda one: one.since,
    )
    arrival = symptoms.poll.usual.arrival
    near = 2 * symptoms.poll.found.interval
    gaps = [
        i for i in range(1, len(silent)) if silent[i].since - silent[i - 1].since > near
    ]
    for first, last in pairwise([0, *gaps, len(silent)]):
        begin = silent[first].since if silent else 0.0
        active = np.count_nonzero(arrival >= begin - near)
        if last - first >= FEWEST_SILENT and 2 * (last - first) > active:
            group = Group("traffic_stopped", symptoms.poll.groups.broker, begin)
            group.facts = {"count": str(last - first), "active": str(active)}
            group.own = [symptoms.free.pop(key_of(one)) for one in silent[first:last]]
            yield group


def clients(symptoms: Symptoms) -> Iterator[Group]:
    """All that one client does wrong, on whatever queues, and who gets nothing on the connections that it fills."""
    stopped = list[ActiveCondition]()
    rows = symptoms.poll.found.consumer.index.rows
    keys = symptoms.poll.snapshot.consumer_connection
    symptoms.take(stopped, lambda one: bool(one.client) and one.name in STOPPED)
    for group in together("", stopped, lambda one: one.client):
        group.consumers = symptoms.consumers_of(group.own)
        if any(one.name in STARVED for one in symptoms.free.values()):
            beside = rows[np.isin(keys, keys[group.consumers])]
            symptoms.take(
                group.victims, on({(row.address, row.queue) for row in beside}, STARVED)
            )
        yield group


Rules = tuple[Callable[[Symptoms], Iterator[Group]], ...]
RESOURCES: Rules = (
    failed_over,
    full_broker,
    stopped_bridges,
    dead_letters_refused,
    full_addresses,
    paused_addresses,
)
CLIENTS: Rules = silent_broker, common_causes, clients
"""After those."""
