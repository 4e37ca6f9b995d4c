"""The states of all queues and clients of a broker after a poll, as columns, and how many are in each."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

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
from penstock.core.table import Column, Index, Mask, Positions, RowT, Table
from penstock.incidents.incident import Incident
from penstock.learned.warm_up import POLLS, SeenPolls
from penstock.model import Snapshot
from penstock.observation.facts import JUDGED, NEEDED, time_of
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import CLIENT, QUEUE, ClientSeries, QueueSeries
from penstock.settings.policy import Policy

if TYPE_CHECKING:
    from penstock.assessment.assess import State, Tables

NameT = TypeVar("NameT", bound=Hashable)

STATE = "state"
"""The column of codes in the tables of queues and clients."""
OF_BROKER = ("", "")
"""Address and queue of a condition of the broker itself: it concerns every queue."""
OF_OBJECTS = tuple(state for state in ORDER if state is not ObjectState.DOWN)
"""The states that an object on a broker may have."""
BY_NAME = {severity.name.lower(): severity for severity in Severity}


@dataclass(frozen=True, slots=True)
class KnownObjects:
    """The labels of the number of objects of a broker that are in a state."""

    broker: str
    state: str


def with_states(
    state: "State", snapshot: Snapshot, tables: "Tables", policy: Policy
) -> dict[str, Table[object]]:
    """Return the tables of queues and clients with a column of states, and a table of how many are in each state."""
    if "queue" not in tables:
        return {}
    no_clients: Table[ClientSeries] = Table(Index.empty())
    queues: Table[QueueSeries] = tables["queue"]
    clients: Table[ClientSeries] = tables.get("client", no_clients)
    if not_judged(state.judgement, snapshot):
        # What was active may be over, or worse.
        queue_states = all_unknown(len(queues))
        client_states = all_unknown(len(clients))
    else:
        watched = clients_to_watch(state.judgement, clients, snapshot.stamp)
        queue_states = states_of_queues(
            state, queues, clients.index.rows[watched].tolist(), policy
        )
        client_states = states_of_clients(state, clients, queues, watched, policy)
    with_state = {"queue": with_column(queues, queue_states)}
    if "client" in tables:
        with_state["client"] = with_column(clients, client_states)
    count = counted(policy.broker, (queue_states, client_states))
    return {**with_state, "known": count}


def all_unknown(size: int) -> Codes:
    """(size,) The state of objects that were not judged."""
    return np.full(size, ORDER.index(ObjectState.UNKNOWN))


def state_at(table: Table[object], row: int) -> ObjectState:
    """Return the state of a queue or a client at the last poll of its broker."""
    code = table[STATE][row]
    return ObjectState.UNKNOWN if np.isnan(code) else ORDER[int(code)]


def not_judged(judgement: Judgement, snapshot: Snapshot) -> str:
    """Return in words why nothing is judged; an empty text where one of the last polls was judged."""
    since_judged = time_of(snapshot) - judgement.seen.times.now
    if since_judged <= POLLS * interval_of(judgement):
        return ""
    asked = [name for name in NEEDED if name in snapshot.collectors]
    missing = [name for name in asked if not snapshot.collectors[name].usable]
    parts = " and ".join(missing) or "queues or consumers"
    return f"the last polls could not be judged: {parts} could not be read"


# --- queues


def states_of_queues(
    state: "State",
    queues: Table[QueueSeries],
    watched_clients: Sequence[ClientSeries],
    policy: Policy,
) -> Codes:
    """(queues,) The state of each queue after a poll that was judged.

    watched_clients: The clients that may be stalled soon.
    """
    judgement = state.judgement
    severities = queue_severities(judgement, queues.index)
    unknown = queues_not_judged(judgement, queues.index)
    watched = queues_to_watch(state, policy, queues, watched_clients)
    return object_states(severities, unknown, watched)


def queues_not_judged(judgement: Judgement, queues: Index[QueueSeries]) -> Mask:
    """(queues,) Whether no rule judges the queue, or it was seen at too few polls."""
    return kind_not_judged(queues) | is_young(judgement.warm_up.queues, queues)


def kind_not_judged(queues: Index[QueueSeries]) -> Mask:
    """(queues,) Whether the rules leave out queues of its kind: links, internal and temporary ones."""
    column = queues.column("kind not judged", lambda row: row.kind not in JUDGED)
    return np.asarray(column > 0)


def queue_severities(judgement: Judgement, queues: Index[QueueSeries]) -> Severities:
    """(queues,) The worst severity of the conditions and incidents that concern the queue or its clients.

    An incident whose root is an address concerns all its queues. Of the broker's own conditions only a critical one
    counts: it concerns every queue.
    """
    by_queue = severities_by_queue(judgement)
    of_broker = by_queue.pop(OF_BROKER, None)
    is_broker_critical = of_broker is Severity.CRITICAL
    lowest = Severity.CRITICAL if is_broker_critical else NOTHING
    severities = np.full(len(queues), lowest, np.int64)
    raise_to(severities, queues, "queue", QUEUE, by_queue)
    # The root of an incident may be something else than an address; then no queue has an address of that name.
    by_address: dict[str, Severity] = {}
    for incident in judgement.incidents.told:
        note(by_address, incident.object, BY_NAME[incident.severity])
    raise_to(
        severities, queues, "address of queue", lambda row: row.address, by_address
    )
    return severities


def severities_by_queue(judgement: Judgement) -> dict[tuple[str, str], Severity]:
    """Return the worst severity by address and queue; `OF_BROKER` for conditions of the broker itself."""
    by_queue: dict[tuple[str, str], Severity] = {}
    for condition in judgement.conditions:
        note(by_queue, QUEUE(condition), severity_of(condition))
    for incident in judgement.incidents.told:
        for queue in queues_of(incident):
            note(by_queue, queue, BY_NAME[incident.severity])
    return by_queue


def queues_of(incident: Incident) -> Iterable[tuple[str, str]]:
    """Return address and name of the queues that the incident concerns."""
    of_conditions = {(address, queue) for _, address, queue, _ in incident.members}
    return (of_conditions | {*incident.places}) - {OF_BROKER}


def queues_to_watch(
    state: "State",
    policy: Policy,
    queues: Table[QueueSeries],
    watched_clients: Sequence[ClientSeries],
) -> Mask:
    """(queues,) Whether the queue, or a client of it, would have a condition if its state lasted.

    Such a state is that messages wait, for so long that it is worth showing, but not long enough for a condition. While
    the agent has watched for too short a time to see trends, all queues are watched.

    watched_clients: The clients that may be stalled soon.
    """
    judgement = state.judgement
    if window_is_young(judgement, policy.constants):
        return np.ones(len(queues), np.bool_)
    waits = waiting_queues(judgement, state.queues.grouping, policy.constants)
    watched = waits.long_enough & waits.not_yet_due
    already_reported = {
        QUEUE(condition)
        for condition in judgement.conditions
        if condition.name in WAITING
    }
    of_clients = {QUEUE(client) for client in watched_clients}
    watched[queues.index.where("queue", QUEUE, already_reported)] = False
    watched[queues.index.where("queue", QUEUE, of_clients)] = True
    return watched


# --- clients


def states_of_clients(
    state: "State",
    clients: Table[ClientSeries],
    queues: Table[QueueSeries],
    watched: Mask,
    policy: Policy,
) -> Codes:
    """(clients,) The state of each client after a poll that was judged.

    watched: (clients,) Whether the client may be stalled soon. While the agent has watched for too short a time to see
        trends, all clients are watched.
    """
    judgement = state.judgement
    severities = client_severities(judgement, clients.index)
    unknown = clients_not_judged(judgement, clients, queues.index)
    if window_is_young(judgement, policy.constants):
        watched = np.ones(len(clients), np.bool_)
    return object_states(severities, unknown, watched)


def clients_not_judged(
    judgement: Judgement, clients: Table[ClientSeries], queues: Index[QueueSeries]
) -> Mask:
    """(clients,) Whether the client was not judged, or its queue is of a kind that no rule judges.

    It was not judged if it was seen at too few polls, or if the broker shows no numbers of consumers. One with a
    condition was judged in any case.
    """
    unknown = is_young(judgement.warm_up.clients, clients.index)
    if "buffered" not in clients:
        unknown[:] = True
    unknown[clients_with_condition(judgement, clients)] = False
    never_judged = {QUEUE(queue) for queue in queues.rows[kind_not_judged(queues)]}
    unknown[clients.index.where("queue of client", QUEUE, never_judged)] = True
    return unknown


def clients_with_condition(
    judgement: Judgement, clients: Table[ClientSeries]
) -> Positions:
    """Return the positions of the clients that have an active condition."""
    names = {
        CLIENT(condition) for condition in judgement.conditions if condition.client
    }
    return clients.index.where("client", CLIENT, names)


def client_severities(judgement: Judgement, clients: Index[ClientSeries]) -> Severities:
    """(clients,) The worst severity of the client's conditions, and of the incidents that it belongs to."""
    by_client: dict[tuple[str, str, str], Severity] = {}
    for condition in judgement.conditions:
        if condition.client:
            note(by_client, CLIENT(condition), severity_of(condition))
    for incident in judgement.incidents.told:
        for _, address, queue, client in incident.members:
            if client:
                severity = BY_NAME[incident.severity]
                note(by_client, (address, queue, client), severity)
    severities = np.full(len(clients), NOTHING, np.int64)
    raise_to(severities, clients, "client", CLIENT, by_client)
    return severities


def clients_to_watch(
    judgement: Judgement, clients: Table[ClientSeries], now: float
) -> Mask:
    """(clients,) Whether the client buffers messages, acknowledges none and may be stalled soon.

    now: by the agent's clock.
    """
    young = is_young(judgement.warm_up.clients, clients.index)
    watched = holding_clients(clients, now).long_enough & ~young
    watched[clients_with_condition(judgement, clients)] = False
    return watched


# --- both


def severity_of(condition: ActiveCondition) -> Severity:
    """Return the severity that a condition gives to the state of its object: a silenced condition is a notice."""
    return Severity.INFO if condition.silenced else condition.severity


def note(worst: dict[NameT, Severity], name: NameT, severity: Severity) -> None:
    """Raise the severity under a name in `worst`, if this one is worse."""
    worst[name] = max(worst.get(name, severity), severity)


def raise_to(
    severities: Severities,
    index: Index[RowT],
    column: str,
    name_of: Callable[[RowT], NameT],
    worst: Mapping[NameT, Severity],
) -> None:
    """Raise, in place, the severity of each row whose name has a worse one in `worst`.

    Args:
        severities: (rows,) Changed in place.
        index: The rows.
        column: Under which the index remembers the names.
        name_of: Returns the name of a row.
        worst: The worst severity by name.
    """
    positions = index.where(column, name_of, worst.keys())
    by_row = np.array([worst[name_of(row)] for row in index.rows[positions]], np.int64)
    severities[positions] = np.maximum(severities[positions], by_row)


def is_young(seen: SeenPolls, index: Index[object]) -> Mask:
    """(rows,) Whether the row was seen at too few polls to judge it. seen: the rows that were, by key."""
    mask = np.zeros(len(index), np.bool_)
    positions = index.positions(seen.keys)
    mask[positions[positions >= 0]] = True
    return mask


def with_column(table: Table[object], codes: Codes) -> Table[object]:
    return Table(table.index, {**table.columns, STATE: codes.astype(np.float64)})


def counted(broker: str, codes_by_kind: Iterable[Codes]) -> Table[KnownObjects]:
    """Return how many objects are in each state, with a row for every state, so that no row comes and goes."""
    total: Column = np.zeros(len(ORDER))
    for codes in codes_by_kind:
        total += np.bincount(codes, minlength=len(ORDER))
    rows = [KnownObjects(broker, str(state)) for state in OF_OBJECTS]
    positions = [ORDER.index(state) for state in OF_OBJECTS]
    return Table(Index.of(rows), {"objects": total[positions]})


def all_stale(objects: Table[KnownObjects]) -> Table[KnownObjects]:
    """Return the same objects, all of them stale: their broker cannot be read now."""
    count = np.zeros(len(objects))
    count[OF_OBJECTS.index(ObjectState.STALE)] = objects["objects"].sum()
    return Table(objects.index, {"objects": count})
