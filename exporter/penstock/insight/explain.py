"""What is known of a queue and its clients: conditions with their evidence, measured numbers, the rules of the
configuration, and what is not known and why.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET
from msgspec.structs import asdict

from penstock.assessment.object_state import ObjectState
from penstock.assessment.states import OF_BROKER, not_judged, state_at
from penstock.assessment.watching import spans_polls
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition, Scope
from penstock.conditions.evidence import UNITS
from penstock.conditions.unknown import UNKNOWN
from penstock.conditions.wording import action, causes, rule
from penstock.core.table import Column, Table
from penstock.findings.finding import Finding
from penstock.incidents.incident import Incident, key_of
from penstock.insight import answers
from penstock.insight import knowledge as sure
from penstock.insight.actions import Actions
from penstock.insight.answers import (
    ConditionSummary,
    Evidence,
    Number,
    QueueClient,
    StallThreshold,
)
from penstock.insight.broker_view import BrokerView, NotFound, json_number, near
from penstock.insight.flow_control import connections_of, flow_of
from penstock.insight.formatting import (
    NAMES,
    amount_text,
    client_name_text,
    counted,
    duration,
)
from penstock.insight.knowledge import Concerning, Failing
from penstock.insight.sheets import sheets_of
from penstock.learned.timeout import FEW, MANY
from penstock.observation.activity import FLOW_IN, FLOW_OUT
from penstock.observation.facts import QUEUE_NUMBERS as QUEUE_NUMBERS_SEEN
from penstock.observation.usual import WINDOWS
from penstock.series.labels import CLIENT, ClientSeries, QueueSeries
from penstock.settings.rules import KEYS, Resolved

__all__ = [
    "MAX_CLIENTS",
    "MOST_RELATED",
    "BrokerView",
    "NotFound",
    "explain",
    "find_queue",
    "findings",
    "findings_of",
    "incidents_in_full",
    "near",
    "stall_threshold",
    "unknown_conditions",
]

WITH_ACTIONS = 20
"""Conditions of one object that are shown with actions, the worst."""
MOST_RELATED = 50
"""Things of one kind that are shown with an object, the largest."""
MAX_CLIENTS = 200
"""Clients of one queue that are shown one by one, those with a condition first."""

CLIENT_OF_KEY = itemgetter(1, 2, 3)
"""Address, queue and client of the key of a condition."""
SOURCES = ("learned by the agent", "from history")
NO_USUAL = "not known: this hour of the week was not seen before"

ConditionT = TypeVar("ConditionT", bound=answers.Condition)
QUEUE_NUMBERS = tuple[str, ...](NAMES["numbers"]["queue"])
CLIENT_NUMBERS = tuple[str, ...](NAMES["numbers"]["client"])


# --- the state of a row


def state_of_row(view: BrokerView, table: Table[object], row: int) -> ObjectState:
    """The state of a queue or a client. row: its position in the table of the view; beyond it: it is not there."""
    if view.stale is not UNSET:
        return ObjectState.STALE
    return state_at(table, row) if row < len(table) else ObjectState.UNKNOWN


# --- conditions and incidents


def summaries(conditions: Iterable[ActiveCondition]) -> list[ConditionSummary]:
    """The conditions in short, the worst first."""
    worst_first = sorted(conditions, key=lambda condition: -condition.severity)
    return [summary(condition) for condition in worst_first]


def summary(condition: ActiveCondition) -> ConditionSummary:
    """A condition in short."""
    return ConditionSummary(
        condition.name,
        condition.severity.name.lower(),
        condition.silenced,
        condition.client,
        round(condition.since, 3),
    )


def condition_in_full(
    condition: ActiveCondition, view: BrokerView, actions: Actions | None = None
) -> answers.Condition:
    """A condition with evidence, causes and advice; with actions where they can be looked up."""
    definition = on(view.kind.name, condition.name)
    return answers.Condition(
        **asdict(summary(condition)),
        consumers=condition.consumers,
        completeness=completeness(condition, view),
        evidence=evidence(condition.evidence, UNITS),
        rule=rule(definition, view.policy.constants),
        causes=causes(definition, condition),
        advice=condition.advice or action(definition, condition.evidence),
        actions=actions.of(condition, definition) if actions else [],
    )


def listed(
    condition: ActiveCondition, view: BrokerView, actions: Actions | None = None
) -> answers.ListedCondition:
    """A condition in full, with where it is active."""
    return answers.ListedCondition(
        broker=condition.broker,
        address=condition.address,
        queue=condition.queue,
        stale=view.stale,
        **asdict(condition_in_full(condition, view, actions)),
    )


def in_full(
    view: BrokerView,
    conditions: Iterable[ActiveCondition],
    make: Callable[[ActiveCondition, BrokerView, Actions | None], ConditionT],
    most: int | None = None,
) -> list[ConditionT]:
    """At most so many of the conditions, the worst first; the first `WITH_ACTIONS` with actions.

    Args:
        view: the broker.
        conditions: that are active on it.
        make: `condition_in_full` or `listed`.
        most: None: all.
    """
    worst_first = sorted(
        conditions, key=lambda condition: (-condition.severity, condition.since)
    )
    actions = Actions(view.snapshot, view.state)
    return [
        make(condition, view, actions if i < WITH_ACTIONS else None)
        for i, condition in enumerate(worst_first[:most])
    ]


def completeness(condition: ActiveCondition, view: BrokerView) -> answers.Completeness:
    """How many of the polls since the condition began were judged."""
    since = condition.since + view.state.clock.applied
    polls, due = view.state.judgement.warm_up.judged(since, view.interval)
    share = json_number(polls / due) if due else 0
    return answers.Completeness(polls, due, share)


def evidence(
    numbers: Mapping[str, float], units: Mapping[str, str]
) -> dict[str, Evidence]:
    """The numbers with their units, by name."""
    return {
        name: Evidence(json_number(value), units.get(name, ""))
        for name, value in numbers.items()
    }


def incidents_in_full(
    view: BrokerView, incidents: Sequence[Incident]
) -> list[Incident]:
    """The incidents with the causes of the condition that is their root; the first `WITH_ACTIONS` with advice.

    Causes and advice that an incident has already stay.
    """
    actions = Actions(view.snapshot, view.state)
    conditions = (
        {key_of(condition): condition for condition in view.conditions}
        if incidents
        else {}
    )

    def with_causes(incident: Incident, *, with_advice: bool) -> Incident:
        root = conditions.get(incident.root)
        if root is None:
            return incident
        definition = on(view.kind.name, root.name)
        advice = incident.advice
        if not advice and with_advice:
            members = map(conditions.get, incident.members)
            advice = [*in_short(actions.of(root, definition, members))]
        return replace(
            incident,
            causes=incident.causes or causes(definition, root),
            advice=advice or [],
        )

    return [
        with_causes(incident, with_advice=i < WITH_ACTIONS)
        for i, incident in enumerate(incidents)
    ]


def in_short(actions: Sequence[answers.Action]) -> Iterator[str]:
    """Each action with its effect on messages; then how to check the first, and what not to do."""
    for each in actions:
        yield f"{each.do}. {each.effect}"
    for first in actions[:1]:
        yield f"Check: {first.check}"
    warnings = [each.never for each in actions if each.never]
    for warning in dict.fromkeys(warnings):
        yield f"Avoid: {warning}"


def concerns(incident: Incident, series: QueueSeries, client: str | None) -> bool:
    """Whether the queue, or this client of it, is the root or a victim."""
    place = (series.address, series.queue)
    clients = {key[3] for key in incident.members if key[1:3] == place}
    if client is not None:
        return bool(clients & {"", client})
    return (
        bool(clients) or place in incident.places or incident.object == series.address
    )


# --- findings


def findings(raised: Iterable[Finding]) -> list[answers.Finding]:
    """The findings as answers."""
    return [
        answers.Finding(
            finding.rule.name,
            str(finding.scope),
            finding.object,
            finding.says,
            evidence(finding.evidence, finding.rule.units),
            finding.advice,
        )
        for finding in raised
    ]


def findings_of(view: BrokerView, series: QueueSeries) -> list[Finding]:
    """The findings that concern a queue: its own, those of its clients and those of its addresses."""
    place = (series.address, series.queue)
    addresses = {series.address, series.dead_letter_address, series.expiry_address}
    addresses.discard("")

    def is_concerned(finding: Finding) -> bool:
        if place == (finding.address, finding.queue) or place in finding.on:
            return True
        return not finding.queue and finding.address in addresses

    return [finding for finding in view.state.findings.found if is_concerned(finding)]


# --- numbers


def numbers_at(table: Table[object], names: Sequence[str], i: int) -> dict[str, Number]:
    """The numbers of the row by name, without those that are not known and those whose column is missing."""
    numbers: dict[str, Number] = {}
    for name in names:
        if name in table:
            value = json_number(table.columns[name][i])
            if value is not None:
                numbers[name] = value
    return numbers


def client_numbers(
    view: BrokerView, table: Table[ClientSeries], names: Sequence[str], i: int
) -> dict[str, Number]:
    """The known numbers of a client; since when it acknowledges nothing only where that lasts from poll to poll."""
    numbers = numbers_at(table, names, i)
    since = numbers.get("blocked_since")
    if since is not None and not spans_polls(since, view.snapshot.stamp, view.interval):
        del numbers["blocked_since"]
    return numbers


def rates(view: BrokerView) -> dict[str, Column]:
    """(rows of the table of queues,) Messages per second in and out over the trend window; empty while not known."""
    grouping = view.state.queues.grouping
    trend = view.state.judgement.activity.trend
    if trend.index is not grouping.source:
        return {}
    return {
        "rate_in": grouping.sum(trend.rate(FLOW_IN)),
        "rate_out": grouping.sum(trend.rate(FLOW_OUT)),
    }


# --- one queue


def explain(
    view: BrokerView,
    queue: str,
    *,
    address: str | None = None,
    client: str | None = None,
    failing: Failing | None = None,
) -> answers.Explanation:
    """All about a queue, or about one of its clients, as of the last poll. NotFound says which names are near."""
    series, row = find_queue(view, queue, address)
    active = conditions_on(view, series, client)
    clients = clients_of(view, series, client, {each.client for each in active})
    active += unknown_conditions(view, series, clients.names)
    incidents = [
        incident
        for incident in view.incidents.told
        if concerns(incident, series, client)
    ]
    knowledge = (
        knowledge_of_queue(
            view, QueueParts(row, active, clients.rows, incidents), failing
        )
        if client is None
        else knowledge_of_client(
            view, (series.address, series.queue, client), active, clients.rows, failing
        )
    )
    flow = rates(view)
    return answers.Explanation(
        broker=series.broker,
        address=series.address,
        queue=series.queue,
        client=client,
        kind=str(series.kind),
        routing_type=series.routing_type,
        stamp=round(view.snapshot.stamp, 3),
        healthy=knowledge.state == ObjectState.HEALTHY,
        knowledge=knowledge,
        incidents=incidents_in_full(view, incidents),
        conditions=in_full(view, active, condition_in_full),
        numbers=numbers_at(view.tables["queue"], QUEUE_NUMBERS, row),
        rate_in=number_of(flow, "rate_in", row),
        rate_out=number_of(flow, "rate_out", row),
        usual=usual_of(view, row),
        ring=ring_of(view, series, row),
        flow=flow_of(view.state.judgement, view.tables.get("consumer"), series),
        connections=connections_of(view.snapshot, view.policy.rules, series),
        rules=applied_rules(
            view.policy.rules.resolve(series.broker, series.address, series.queue)
        ),
        clients=clients.rows,
        clients_left_out=clients.left_out,
        findings=findings(findings_of(view, series)),
        unknown=[answers.Unknown(*why) for why in unknown(view, series, row)],
        account=sheets_of(view, series.address, series.queue),
        related=dead_letters(view.tables["queue"], series.address, series.queue),
    )


def find_queue(
    view: BrokerView, queue: str, address: str | None
) -> tuple[QueueSeries, int]:
    """The queue of this name, and its position in the table of queues. NotFound: there is none.

    Args:
        view: the broker.
        queue: its name.
        address: None: the first queue of that name on any address.
    """
    table: Table[QueueSeries] | None = view.tables.get("queue")
    if table is None:
        raise view.missing("queue", queue, None)
    rows = table.index.rows.tolist()
    for i, row in enumerate(rows):
        if row.queue == queue and address in (None, row.address):
            return row, i
    for left_out in view.snapshot.observation.left_out:
        if left_out.what == "queues":
            broker = view.policy.broker
            raise NotFound(
                f"queue {queue!r} of broker {broker} is not known",
                f"not read: {left_out}",
            )
    raise view.missing("queue", queue, [row.queue for row in rows])


def conditions_on(
    view: BrokerView, series: QueueSeries, client: str | None
) -> list[ActiveCondition]:
    """The active conditions of the queue and of its broker. client: without those of other clients; None: all."""
    places = ((series.address, series.queue), OF_BROKER)
    conditions = [
        condition
        for condition in view.conditions
        if (condition.address, condition.queue) in places
    ]
    if client is None:
        return conditions
    return [condition for condition in conditions if condition.client in ("", client)]


def unknown_conditions(
    view: BrokerView, series: QueueSeries, clients: Sequence[str] = ()
) -> Iterator[ActiveCondition]:
    """The conditions `unknown`: of the queue and of these clients of it, where nothing of them is judged."""
    return sure.undecided_conditions(view.state, view.snapshot, series, clients)


def number_of(columns: Mapping[str, Column], name: str, row: int) -> Number | None:
    """The number in this row of a column; None where there is no such column, or no number in it."""
    return json_number(columns[name][row]) if name in columns else None


def queue_of_row(view: BrokerView, row: int) -> int | None:
    """The position of the queue that is shown as this row; None where the row is a sum of several."""
    queues = np.flatnonzero(view.state.queues.grouping.member == row)
    return int(queues[0]) if len(queues) == 1 else None


def usual_of(view: BrokerView, row: int) -> str:
    """The weeks and windows by which numbers of the queue in this row are expected, in words."""
    queue = queue_of_row(view, row)
    normal = view.state.judgement.normal
    is_current = normal.index is view.state.queues.grouping.source
    if queue is None or not is_current:
        return NO_USUAL
    weeks = normal.expected.weeks[queue]
    if not weeks > 0:
        return NO_USUAL
    history = int(normal.expected.from_history[queue])
    source = SOURCES[history]
    error = normal.errors[history, queue]
    pause = duration(normal.expected.pause[queue])
    parts = [
        f"{source} on {weeks:.0f} weeks{error_text(error)}",
        f"longest pause {pause}",
        usual_service_of(view, queue),
    ]
    return "; ".join(part for part in parts if part)


def error_text(error: float) -> str:
    """The mean error of what was expected. error: mean of the logarithm; NaN where it is not known."""
    if np.isnan(error):
        return ""
    percent = 100 * np.expm1(error)
    return f", mean error {percent:.0f} %"


def usual_service_of(view: BrokerView, queue: int) -> str:
    """How long a message usually takes on the queue, and what that rests on; empty where it is not known."""
    service = view.state.judgement.service
    usual = view.state.judgement.normal.usual(service)
    windows = usual.windows[queue]
    if not windows >= WINDOWS:
        return ""
    is_from_history = windows > service.windows[queue]
    source = SOURCES[int(is_from_history)]
    seconds = duration(usual.usual_service[queue])
    return f"{seconds} a message, {source} on {windows:,.0f} windows with a backlog"


def applied_rules(settings: Resolved) -> list[answers.AppliedRule]:
    """The settings that rules of the configuration give, in the order of their keys."""
    rules = []
    for key in KEYS:
        if key in settings.given_by:
            value = text_of(getattr(settings, key))
            rules.append(answers.AppliedRule(key, value, settings.given_by[key]))
    return rules


def text_of(value: object) -> str | bool | Number:
    """A value of the configuration as answers have it: numbers and flags as they are, else as text."""
    plain = value if isinstance(value, bool | int | float) else str(value)
    return getattr(value, "text", plain)


# --- what is known of it, and how sure


class QueueParts(NamedTuple):
    """What is known of the queue that is shown as a row of the table of queues.

    Attributes:
        row: its position in the table.
        active: conditions on it and on its broker.
        clients: its own.
        incidents: that concern it.
    """

    row: int
    active: Sequence[ActiveCondition]
    clients: Sequence[QueueClient]
    incidents: Sequence[Incident]


def knowledge_of_queue(
    view: BrokerView, queue: QueueParts, failing: Failing | None
) -> answers.Knowledge:
    """The state of a queue and why. failing: why its broker cannot be read, where that is so."""
    active = queue.active
    watched = [*sure.watched_of_clients(queue.clients, active, view.snapshot.stamp)]
    if not watched:
        watched += sure.watched_of_queue(view.state, view.policy, queue.row, active)
    watched += sure.watched_of_broker(view.state, view.policy)
    why_unknown = [
        condition.why
        for condition in active
        if condition.name == UNKNOWN.name and not condition.client
    ]
    scopes = (Scope.QUEUE, Scope.CLIENT)
    about = Concerning(
        conditions=[each for each in active if sure.concerns_queue(each)],
        incidents=queue.incidents,
        unknown=why_unknown[0] if why_unknown else "",
        watched=watched,
        judged=sure.judged(view.state, view.kind.name, view.interval, *scopes),
    )
    row_state = state_of_row(view, view.tables["queue"], queue.row)
    return sure.knowledge(sure.unread_as(failing) or row_state, about, failing)


def knowledge_of_client(
    view: BrokerView,
    name: tuple[str, str, str],
    active: Sequence[ActiveCondition],
    clients: Sequence[QueueClient],
    failing: Failing | None,
) -> answers.Knowledge:
    """The state of one client of a queue and why.

    Args:
        view: the broker.
        name: address, queue and client.
        active: conditions on the client, its queue and its broker.
        clients: that are shown of the queue.
        failing: why the broker cannot be read, where that is so.
    """
    why_unknown = [each.why for each in active if each.name == UNKNOWN.name]
    about = Concerning(
        conditions=[each for each in active if each.client == name[2]],
        incidents=[
            incident
            for incident in view.incidents.told
            if any(CLIENT_OF_KEY(key) == name for key in incident.members)
        ],
        unknown=(
            why_unknown[0] if why_unknown else "it does not consume from the queue now"
        ),
        watched=[
            *sure.watched_of_clients(clients, active, view.snapshot.stamp),
            *sure.watched_of_broker(view.state, view.policy),
        ],
        judged=sure.judged(view.state, view.kind.name, view.interval, Scope.CLIENT),
    )
    row_state = state_of_client(view, name)
    return sure.knowledge(sure.unread_as(failing) or row_state, about, failing)


def state_of_client(view: BrokerView, name: tuple[str, str, str]) -> ObjectState:
    """The state of a client of a queue. name: address, queue and client."""
    table: Table[ClientSeries] = view.table("client")
    for i, row in enumerate(table.index):
        if CLIENT(row) == name:
            return state_of_row(view, table, i)
    return state_of_row(view, table, len(table))


# --- objects that belong to it


def queues_with(
    table: Table[QueueSeries],
    role: str,
    chosen: Callable[[QueueSeries], bool],
    numbers: Sequence[str],
) -> list[answers.Related]:
    """The chosen queues as related objects, with their numbers; the largest by the first of these.

    Args:
        table: of queues.
        role: what the queues are to the object that is explained.
        chosen: whether a queue belongs to it.
        numbers: names of columns.
    """
    rows = [i for i, row in enumerate(table.index) if chosen(row)]
    available = [name for name in numbers if name in table]
    if available:
        sizes = np.nan_to_num(table[available[0]])
        rows.sort(key=lambda i: -sizes[i])
    return [
        answers.Related(
            role,
            "queue",
            table.index.rows[i].queue,
            numbers_text(table, available, i),
        )
        for i in rows[:MOST_RELATED]
    ]


def amounts_of(table: Table[object], names: Sequence[str], i: int) -> dict[str, str]:
    """The numbers of the row as text, by name."""
    values = {name: table[name][i] for name in names if name in table}
    return {
        name: amount_text(None if np.isnan(value) else int(value))
        for name, value in values.items()
    }


def numbers_text(table: Table[object], names: Sequence[str], i: int) -> str:
    """The numbers of the row, as "messages 24, consumers 2"."""
    amounts = amounts_of(table, names, i)
    texts = [f"{name} {amount}" for name, amount in amounts.items()]
    return ", ".join(texts)


def numbers_of_client(table: Table[object], names: Sequence[str], i: int) -> str:
    """The numbers of the row, as "24 buffered; 8 acknowledged, also uncommitted and rolled back"."""
    amounts = amounts_of(table, names, i)
    texts = [f"{amount} {client_name_text(name)}" for name, amount in amounts.items()]
    return "; ".join(texts)


def dead_letters(
    table: Table[QueueSeries], address: str, queue: str = ""
) -> list[answers.Related]:
    """The queues that send dead letters to the address; and where those of its queue `queue` go."""
    related = queues_with(
        table,
        "gets dead letters of",
        lambda row: row.dead_letter_address == address,
        ("killed",),
    )
    if not queue:
        return related
    addresses = {row.address for row in table.index}
    for row in table.index:
        target = row.dead_letter_address
        if target and (row.address, row.queue) == (address, queue):
            has_queue = target in addresses
            text = "" if has_queue else "it has no queue: dead letters are lost"
            related.append(
                answers.Related("sends dead letters to", "address", target, text)
            )
    return related


# --- its clients


class ShownClients(NamedTuple):
    """The clients of a queue that are shown, and how many are left out."""

    rows: list[QueueClient]
    left_out: int

    @property
    def names(self) -> list[str]:
        """The names of the shown clients."""
        return [row.client for row in self.rows]


def clients_of(
    view: BrokerView, series: QueueSeries, client: str | None, troubled: Collection[str]
) -> ShownClients:
    """At most `MAX_CLIENTS` of the queue, or the one that is asked for. NotFound: the queue has no such client.

    Args:
        view: the broker.
        series: the queue.
        client: None: all.
        troubled: names of clients that come first.
    """
    table: Table[ClientSeries] = view.table("client")
    names = client_names(table, series)
    rows = list(names)
    if client is not None:
        rows = [i for i in rows if names[i] == client]
        if not rows:
            raise NotFound(
                f"queue {series.queue} has no client {client!r}",
                near(client, list(names.values()), "clients"),
            )
    rows.sort(key=lambda i: names[i] not in troubled)
    # There may be thousands: only those that are shown are worked out.
    clients = [queue_client(view, table, i) for i in rows[:MAX_CLIENTS]]
    return ShownClients(clients, len(rows) - len(clients))


def client_names(table: Table[ClientSeries], series: QueueSeries) -> dict[int, str]:
    """The names of the queue's clients by their rows of the table."""
    place = (series.address, series.queue)
    rows: list[ClientSeries] = table.index.rows.tolist()
    return {
        i: row.client for i, row in enumerate(rows) if (row.address, row.queue) == place
    }


def queue_client(view: BrokerView, table: Table[ClientSeries], i: int) -> QueueClient:
    """The client in this row of the table of clients."""
    row: ClientSeries = table.index.rows[i]
    rules = view.policy.rules
    settings = rules.resolve(row.broker, row.address, row.queue, row.client)
    return QueueClient(
        row.client,
        state_of_row(view, table, i),
        client_numbers(view, table, CLIENT_NUMBERS, i),
        stall_threshold(view, table, i, settings),
        applied_rules(settings),
    )


def stall_threshold(
    view: BrokerView, table: Table[ClientSeries], i: int, settings: Resolved
) -> StallThreshold | None:
    """The stall threshold of a client, and how it was found; None where the client is not judged.

    Args:
        view: the broker.
        table: of clients.
        i: the client's position in it.
        settings: of the client, by the rules of the configuration.
    """
    seconds = numbers_at(table, ("patience",), i).get("patience")
    if seconds is None:
        return None
    if settings.patience is not None:
        why = f"rule {settings.given_by['patience']}"
        return StallThreshold(seconds, "configured", 0, why)
    learned = view.state.judgement.patience
    keys = table.index.keys[i : i + 1]
    row = learned.index.positions(keys)[0]
    weight = float(learned.weight[row]) if row >= 0 else 0.0
    if weight == 0:
        cold = duration(view.policy.constants.cold)
        why = f"nothing learned yet: judgement.cold, {cold}"
        return StallThreshold(seconds, "cold", 0, why)
    gaps = LearnedGaps(
        weight=weight,
        longest=float(learned.longest[row]),
        q98=float(learned.q98[row]),
    )
    why = learned_threshold_text(view, gaps)
    return StallThreshold(seconds, "learned", round(weight), why)


class LearnedGaps(NamedTuple):
    """The gaps between acknowledgements of a client.

    Attributes:
        weight: how many gaps were learned from; older ones count less.
        longest: seconds.
        q98: seconds that 98 % of the gaps stay below.
    """

    weight: float
    longest: float
    q98: float


def learned_threshold_text(view: BrokerView, gaps: LearnedGaps) -> str:
    """How a stall threshold was learned from gaps, with its bounds."""
    constants = view.policy.constants
    times = f"{constants.factor:g} times"
    if gaps.weight < FEW:
        usual = f"{times} the longest gap of {duration(gaps.longest)}"
    else:
        usual = f"{times} {duration(gaps.q98)}, which 98 % of the gaps stay below"
    least = ""
    if gaps.weight < MANY:
        least = f", at least judgement.cold, {duration(constants.cold)}"
    floor = duration(constants.floor_seconds(view.interval))
    return f"{usual}{least}; between {floor} and {duration(constants.cap)}"


# --- its ring


def ring_of(view: BrokerView, series: QueueSeries, row: int) -> answers.Ring | None:
    """Size and source of a ring, and its ledger; None where no message is evicted to keep a limit, or for a sum.

    Args:
        view: the broker.
        series: the queue.
        row: its position in the table of queues.
    """
    queue = queue_of_row(view, row)
    queues = view.snapshot.queues
    if series.summed or queue is None or queues is None:
        return None
    limit = json_number(view.tables["queue"]["ring_limit"][row])
    keeps_last_values = queues["last_value"][queue] > 0
    if limit is None and not keeps_last_values:
        return None
    evicted = None
    ledger = "not judged yet"
    if is_ring_judged(view):
        books = view.state.judgement.account.books
        evicted = json_number(books.evicted[queue])
        ledger = ring_ledger(ring_numbers(view, queue), evicted)
    return answers.Ring(
        limit=limit,
        source=str(series.ring_source),
        where=NAMES["ring_sources"][series.ring_source],
        evicted=evicted,
        ledger=ledger,
    )


def is_ring_judged(view: BrokerView) -> bool:
    """Whether the account and the numbers of the last poll are of the queues that are shown."""
    judgement = view.state.judgement
    queues = view.state.queues.grouping.source
    return (
        judgement.account.books.index is queues
        and judgement.seen.queues.index is queues
    )


class RingNumbers(NamedTuple):
    """Messages of a ring since the broker's start. there: that it has now.

    in_delivery: of a queue of last values, where they are not among its messages once they are replaced; else 0.
    """

    added: int
    acknowledged: int
    expired: int
    killed: int
    there: int
    in_delivery: int

    @property
    def missing(self) -> int:
        """Messages that were added, are not there, and did not leave in a way that has a counter."""
        left = self.acknowledged + self.expired + self.killed
        return self.added - left - self.there - self.in_delivery


def ring_numbers(view: BrokerView, queue: int) -> RingNumbers:
    """The numbers of a ring at the last poll. queue: its position in the snapshot."""
    seen = view.state.judgement.seen.queues
    numbers = np.nan_to_num(seen.numbers[:, queue]).astype(np.int64)
    by_name = dict(zip(QUEUE_NUMBERS_SEEN, numbers.tolist(), strict=True))
    queues = view.snapshot.queues
    in_delivery = 0
    if queues is not None and queues["last_value"][queue] > 0:
        in_delivery = int(np.nan_to_num(queues["delivering"][queue]))
    return RingNumbers(
        added=by_name["added"],
        acknowledged=by_name["acknowledged"],
        expired=by_name["expired"],
        killed=by_name["killed"],
        there=by_name["messages"],
        in_delivery=in_delivery,
    )


def ring_ledger(ring: RingNumbers, evicted: Number | None) -> str:
    """How the messages that a ring evicted are counted, as a difference. evicted: as the account has it."""
    terms = [
        f"{ring.added:,} added",
        f"{ring.acknowledged:,} acknowledged",
        f"{ring.expired:,} expired",
        f"{ring.killed:,} killed",
        f"{ring.there:,} there",
    ]
    if ring.in_delivery:
        terms.append(f"{ring.in_delivery:,} in delivery")
    proven = "none" if evicted is None else f"{evicted:,}"
    missing = f"{ring.missing:,} missing at this poll"
    return f"{' - '.join(terms)} = {missing}, of which {proven} were missing at two polls and are counted"


# --- what is not known


def unknown(
    view: BrokerView, series: QueueSeries, row: int
) -> Iterator[tuple[str, str]]:
    """What is not known of the queue, and why. row: its position in the table of queues."""
    snapshot = view.snapshot
    for name, collector in snapshot.collectors.items():
        if collector.error:
            yield f"what `{name}` reads", collector.error
    for note in snapshot.notes:
        yield "part of the broker", note
    trend = view.state.judgement.activity.trend
    why = not_judged(view.state.judgement, snapshot)
    if why:
        yield "all conditions", why
    elif trend.seconds < view.policy.constants.window:
        polls = counted(trend.polls, "poll")
        why = f"{polls} so far; rates and trends need more"
        yield "conditions over a window", why
    if series.summed:
        yield "age, drain time and ring", "the row is a sum of several queues"
    else:
        yield from unknown_numbers(view.tables["queue"], row)


def unknown_numbers(table: Table[QueueSeries], row: int) -> Iterator[tuple[str, str]]:
    """Numbers of the queue in this row that are not known, and why."""

    def is_missing(name: str) -> bool:
        return bool(np.isnan(table[name][row]))

    if is_missing("ready"):
        why = "the queue keeps what is acknowledged (non-destructive), and counts what is delivered twice"
        yield "ready messages, and what it evicted", why
    if is_missing("drain") and table["ready"][row] > 0:
        why = (
            "the backlog does not shrink, nothing is taken, or rates are not known yet"
        )
        yield "time to empty", why
    if is_missing("oldest_message") and table["messages"][row] > 0:
        why = "messages may leave in any order; its bounds are order of arrival, and when the queue was empty at a poll"
        yield "exact age of the oldest message", why
    if not is_missing("ring_limit") and is_missing("ring_used_ratio"):
        why = "the address is paging: paged messages are not held by the ring"
        yield "ring fill", why
