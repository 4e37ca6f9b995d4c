"""The states of all queues and clients of a broker after a poll, as columns, and how many are in each."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.assessment.object_state import (
    NOTHING,
    ORDER,
    Codes,
    ObjectState,
    Severities,
    object_states,
)
from penstock.assessment.watching import (
    WAITING,
    holding_clients,
    interval_of,
    waiting_queues,
    window_is_young,
)
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.core.table import Column, Index, Mask, Table
from penstock.incidents.incident import Incident
from penstock.incidents.incidents import Incidents
from penstock.learned.warm_up import POLLS, SeenPolls
from penstock.model import Snapshot
from penstock.observation.facts import JUDGED, NEEDED, time_of
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import CLIENT, QUEUE, ClientSeries, QueueSeries
from penstock.settings.policy import Policy

if TYPE_CHECKING:
    from penstock.assessment.assess import State

STATE = "state"
"""The column of codes in the tables of queues and clients."""
OF_BROKER = ("", "")
"""Address and queue of a condition of the broker itself: it concerns every queue."""
OF_OBJECTS = tuple(one for one in ORDER if one is not ObjectState.DOWN)
"""The states of what is on a broker."""
BY_NAME = {one.name.lower(): one for one in Severity}


@dataclass(frozen=True, slots=True)
class KnownObjects:
    """How many objects of a broker are in a state."""

    broker: str
    state: str


def with_states(
    state: "State", snapshot: Snapshot, tables: Mapping[str, Table[Any]], policy: Policy
) -> dict[str, Any]:
    """The tables of queues and clients with a column of their states, and that of how many are in each."""
    if "queue" not in tables:
        return {}
    judgement = state.judgement
    was_judged = not not_judged(judgement, snapshot)
    queues: Table[QueueSeries] = tables["queue"]
    no_clients: Table[ClientSeries] = Table(Index.empty())
    clients: Table[ClientSeries] = tables.get("client", no_clients)
    of_other_kinds = kind_not_judged(queues.index)
    watched_clients = holding(judgement, clients, snapshot.stamp)
    unknown_queues = of_other_kinds | young(judgement.warm_up.queues, queues.index)
    unknown_clients = unknown_among(
        judgement, clients, {QUEUE(row) for row in queues.index.rows[of_other_kinds]}
    )
    watched_queues = waiting(
        state, policy, queues, clients.index.rows[watched_clients].tolist()
    )
    if not was_judged:
        unknown_queues[:] = True
        unknown_clients[:] = True
        judgement = replace(
            judgement, conditions=(), incidents=Incidents()
        )  # what was active may be over, or worse
    if window_is_young(judgement, policy.constants):
        watched_clients[:] = True
    of_queues = object_states(
        queue_severities(judgement, queues.index), unknown_queues, watched_queues
    )
    of_clients = object_states(
        client_severities(judgement, clients.index), unknown_clients, watched_clients
    )
    shown = {
        "queue": with_column(queues, of_queues),
        "known": counted(policy.broker, (of_queues, of_clients)),
    }
    if "client" in tables:
        shown["client"] = with_column(clients, of_clients)
    return shown


def state_at(table: Table[Any], row: int) -> ObjectState:
    """Of a queue or a client, as its broker was read."""
    code = table[STATE][row]
    return ObjectState.UNKNOWN if np.isnan(code) else ORDER[int(code)]


def not_judged(judgement: Judgement, snapshot: Snapshot) -> str:
    """Why nothing is judged; empty where it was at one of the last polls."""
    since_judged = time_of(snapshot) - judgement.seen.times.now
    if since_judged <= POLLS * interval_of(judgement):
        return ""
    asked = [name for name in NEEDED if name in snapshot.collectors]
    missing = [name for name in asked if not snapshot.collectors[name].usable]
    parts = " and ".join(missing) or "queues or consumers"
    return f"the last polls could not be judged: {parts} could not be read"


# --- queues


def kind_not_judged(index: Index[QueueSeries]) -> Mask:
    """Queues that the rules leave out: links, internal and temporary ones."""
    column = index.column("kind not judged", lambda row: row.kind not in JUDGED)
    return np.asarray(column > 0)


def queue_severities(judgement: Judgement, index: Index[QueueSeries]) -> Severities:
    """Of what is active on each queue or its clients, and of the incidents that concern it."""
    places: dict[tuple[str, str], Severity] = {}
    for one in judgement.conditions:
        note(places, QUEUE(one), severity_of(one))
    addresses: dict[str, Severity] = {}
    for incident in judgement.incidents.told:
        severity = BY_NAME[incident.severity]
        for place in places_of(incident):
            note(places, place, severity)
        note(addresses, incident.object, severity)
    of_broker = places.pop(OF_BROKER, None)
    concerns_all = of_broker is Severity.CRITICAL
    least = Severity.CRITICAL if concerns_all else NOTHING
    severities = np.full(len(index), least, np.int64)
    raise_to(severities, index, "queue", QUEUE, places)
    raise_to(severities, index, "address of queue", lambda row: row.address, addresses)
    return severities


def places_of(incident: Incident) -> Iterable[tuple[str, str]]:
    """Address and name of the queues that it concerns; those of its conditions of the broker itself are none."""
    members = {(key[1], key[2]) for key in incident.members}
    return (members | {*incident.places}) - {OF_BROKER}


def waiting(
    state: "State",
    policy: Policy,
    queues: Table[QueueSeries],
    watched_clients: Sequence[ClientSeries],
) -> Mask:
    """Queues of which something would be a condition if it lasted, or of one of their clients."""
    judgement = state.judgement
    if window_is_young(judgement, policy.constants):
        return np.ones(len(queues), np.bool_)
    waits = waiting_queues(judgement, state.queues.grouping, policy.constants)
    watched = waits.long_enough & waits.not_yet_due
    active = {QUEUE(one) for one in judgement.conditions if one.name in WAITING}
    watched[queues.index.where("queue", QUEUE, active)] = False
    watched[
        queues.index.where("queue", QUEUE, {QUEUE(row) for row in watched_clients})
    ] = True
    return watched


# --- clients


def unknown_among(
    judgement: Judgement, clients: Table[ClientSeries], elsewhere: AbstractSet[Any]
) -> Mask:
    """Clients that were not judged. elsewhere: queues of kinds that are not judged."""
    unknown = young(judgement.warm_up.clients, clients.index)
    if "buffered" not in clients:
        unknown[:] = True
    active = {CLIENT(one) for one in judgement.conditions if one.client}
    unknown[clients.index.where("client", CLIENT, active)] = False
    unknown[clients.index.where("queue of client", QUEUE, elsewhere)] = True
    return unknown


def client_severities(judgement: Judgement, index: Index[ClientSeries]) -> Severities:
    """Of what is active on each client itself, and of the incidents that have it as root or victim."""
    found: dict[tuple[str, str, str], Severity] = {}
    for one in judgement.conditions:
        if one.client:
            note(found, CLIENT(one), severity_of(one))
    for incident in judgement.incidents.told:
        for _, address, queue, client in incident.members:
            if client:
                note(found, (address, queue, client), BY_NAME[incident.severity])
    severities = np.full(len(index), NOTHING, np.int64)
    raise_to(severities, index, "client", CLIENT, found)
    return severities


def holding(judgement: Judgement, clients: Table[ClientSeries], now: float) -> Mask:
    """Clients that hold messages and acknowledge none, and may be stalled soon. now: by the agent's clock."""
    watched = holding_clients(clients, now).long_enough & ~young(
        judgement.warm_up.clients, clients.index
    )
    active = {CLIENT(one) for one in judgement.conditions if one.client}
    watched[clients.index.where("client", CLIENT, active)] = False
    return watched


# --- both


def severity_of(condition: ActiveCondition) -> Severity:
    """As it counts for the state: what an operator has silenced informs."""
    return Severity.INFO if condition.silenced else condition.severity


def note(found: dict[Any, Severity], name: Any, severity: Severity) -> None:
    """The worst under each name."""
    found[name] = max(found.get(name, severity), severity)


def raise_to(
    severities: Severities,
    index: Index[Any],
    named: str,
    name_of: Any,
    found: Mapping[Any, Severity],
) -> None:
    """Raises the severities of the rows whose name is among those found. named: under which the index keeps names."""
    at = index.where(named, name_of, found.keys())
    worst = np.array([found[name_of(row)] for row in index.rows[at]], np.int64)
    severities[at] = np.maximum(severities[at], worst)


def young(seen: SeenPolls, index: Index[Any]) -> Mask:
    """Rows that were seen at too few polls to say anything of them."""
    mask = np.zeros(len(index), np.bool_)
    at = index.positions(seen.keys)
    mask[at[at >= 0]] = True
    return mask


def with_column(table: Table[Any], codes: Codes) -> Table[Any]:
    return Table(table.index, {**table.columns, STATE: codes.astype(np.float64)})


def counted(broker: str, of_objects: Iterable[Codes]) -> Table[KnownObjects]:
    """How many objects are in each state; a row for each that they can be in, so that none comes and goes."""
    total: Column = np.zeros(len(ORDER))
    for codes in of_objects:
        total += np.bincount(codes, minlength=len(ORDER))
    rows = [KnownObjects(broker, str(one)) for one in OF_OBJECTS]
    at = [ORDER.index(one) for one in OF_OBJECTS]
    return Table(Index.of(rows), {"objects": total[at]})


def all_stale(known: Table[KnownObjects]) -> Table[KnownObjects]:
    """The same objects, of a broker that cannot be read now."""
    objects = np.zeros(len(known))
    objects[OF_OBJECTS.index(ObjectState.STALE)] = known["objects"].sum()
    return Table(known.index, {"objects": objects})
