"""What is known of a queue and its clients: conditions with their evidence, what was measured, what the rules say, and
what is not known and why.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from penstock.assessment.assess import State, Tables
from penstock.assessment.object_state import ObjectState
from penstock.assessment.states import OF_BROKER, not_judged, state_at
from penstock.assessment.watching import spans_polls
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition, Scope
from penstock.conditions.evidence import UNITS
from penstock.conditions.unknown import UNKNOWN
from penstock.conditions.wording import action, causes, rule
from penstock.core.errors import Hinted
from penstock.core.table import Column, Index, Table
from penstock.findings.finding import Finding
from penstock.incidents.incident import Incident, key_of
from penstock.incidents.incidents import Incidents
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
from penstock.insight.flow_control import connections_of, flow_of
from penstock.insight.formatting import (
    NAMES,
    amount_text,
    client_name_text,
    counted,
    duration,
)
from penstock.insight.knowledge import Concerning, Failing
from penstock.learned.timeout import FEW, MANY
from penstock.model import BrokerKind, Role, Snapshot
from penstock.observation.activity import FLOW_IN, FLOW_OUT
from penstock.observation.usual import WINDOWS
from penstock.series.labels import CLIENT, ClientSeries, QueueSeries
from penstock.settings.policy import Policy
from penstock.settings.rules import KEYS, Resolved

NEAR = 2000
"""Names among which similar ones are looked for."""
WITH_ACTIONS = 20
"""Conditions of one object that are shown with what to do, the worst."""
MOST_RELATED = 50
"""Things of one kind that are shown with an object, the largest."""
MAX_CLIENTS = 200
"""Clients of one queue that are shown one by one, those with a condition first."""

CLIENT_OF_KEY = itemgetter(1, 2, 3)
"""Of a key of a condition: address, queue and client."""
SOURCES = ("learned by the agent", "from history")

ConditionT = TypeVar("ConditionT", bound=answers.Condition)
QUEUE_NUMBERS, CLIENT_NUMBERS = (
    tuple[str, ...](NAMES["numbers"][kind]) for kind in ("queue", "client")
)


class NotFound(Hinted):
    """There is no such broker, queue or client; `hint` says what there is."""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """All that is known of a broker after a poll."""

    state: State
    tables: Tables
    snapshot: Snapshot
    policy: Policy
    interval: float
    stale: float | UnsetType = UNSET
    """When it was read, where the broker could not be read since."""

    @property
    def kind(self) -> BrokerKind:
        """Artemis while the broker itself has not been read."""
        return (
            BrokerKind.ARTEMIS
            if self.snapshot.broker is None
            else self.snapshot.broker.kind
        )

    @property
    def node_id(self) -> str:
        """That it serves; empty where it is passive, or says none."""
        about = self.snapshot.broker
        return "" if about is None or about.role is Role.PASSIVE else about.node_id

    @property
    def conditions(self) -> tuple[ActiveCondition, ...]:
        return self.state.judgement.conditions

    @property
    def incidents(self) -> Incidents:
        return self.state.judgement.incidents

    def table(self, name: str) -> Table[Any]:
        """Without rows where it could not be made."""
        return self.tables.get(name, Table(Index.empty()))

    def missing(
        self, kind: str, name: str, names: Sequence[str] | None, plural: str = ""
    ) -> "NotFound":
        """The error of a name that is not among these; None: they could not be read."""
        if names is None:
            return NotFound(
                f"the {plural or f'{kind}s'} of broker {self.policy.broker} could not be read",
                "see penstock check",
            )
        return NotFound(
            f"broker {self.policy.broker} has no {kind} {name!r}",
            near(name, names, plural or f"{kind}s"),
        )


# --- parts of it


def state_of_row(view: BrokerView, table: Table[Any], row: int) -> ObjectState:
    """Of a queue or a client, by its row in the table of the view."""
    if view.stale is not UNSET:
        return ObjectState.STALE
    return state_at(table, row) if row < len(table) else ObjectState.UNKNOWN


def summaries(conditions: Sequence[ActiveCondition]) -> list[ConditionSummary]:
    """The worst first."""
    return [summary(one) for one in sorted(conditions, key=lambda one: -one.severity)]


def summary(one: ActiveCondition) -> ConditionSummary:
    return ConditionSummary(
        one.name,
        one.severity.name.lower(),
        one.silenced,
        one.client,
        round(one.since, 3),
    )


def condition_in_full(
    one: ActiveCondition, view: BrokerView, actions: Actions | None = None
) -> answers.Condition:
    about = on(view.kind.name, one.name)
    return answers.Condition(
        **asdict(summary(one)),
        consumers=one.consumers,
        completeness=completeness(one, view),
        evidence=evidence(one.evidence, UNITS),
        rule=rule(about, view.policy.constants),
        causes=causes(about, one),
        advice=one.advice or action(about, one.evidence),
        actions=actions.of(one, about) if actions else [],
    )


def listed(
    one: ActiveCondition, view: BrokerView, actions: Actions | None = None
) -> answers.ListedCondition:
    """With where it is active."""
    full = asdict(condition_in_full(one, view, actions))
    return answers.ListedCondition(
        broker=one.broker,
        address=one.address,
        queue=one.queue,
        stale=view.stale,
        **full,
    )


def in_full(
    view: BrokerView,
    found: Sequence[ActiveCondition],
    make: Callable[[ActiveCondition, BrokerView, Actions | None], ConditionT],
    most: int | None = None,
) -> list[ConditionT]:
    """The worst first, and these with what to do."""
    found = sorted(found, key=lambda one: (-one.severity, one.since))
    actions = Actions(view.snapshot, view.state)
    return [
        make(one, view, actions if i < WITH_ACTIONS else None)
        for i, one in enumerate(found[:most])
    ]


def completeness(one: ActiveCondition, view: BrokerView) -> answers.Completeness:
    state = view.state
    polls, due = state.judgement.warm_up.judged(
        one.since + state.clock.applied, view.interval
    )
    return answers.Completeness(polls, due, json_number(polls / due) if due else 0)


def evidence(
    numbers: Mapping[str, float], units: Mapping[str, str]
) -> dict[str, Evidence]:
    return {
        name: Evidence(json_number(value), units.get(name, ""))
        for name, value in numbers.items()
    }


def json_number(value: float) -> Number | None:
    """As JSON shows it: None where it is not known."""
    if not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else round(float(value), 3)


def numbers_at(table: Table[Any], names: Sequence[str], i: int) -> dict[str, Number]:
    """What is known of the row, by name; a column that is missing as a whole is not made up to be read."""
    found = {
        name: json_number(table.columns[name][i]) for name in names if name in table
    }
    return {name: value for name, value in found.items() if value is not None}


def client_numbers(
    view: BrokerView, table: Table[ClientSeries], names: Sequence[str], i: int
) -> dict[str, Number]:
    """The same of a client; since when it acknowledges nothing only where that lasts from poll to poll."""
    found = numbers_at(table, names, i)
    since = found.get("blocked_since")
    if since is not None and not spans_polls(since, view.snapshot.stamp, view.interval):
        del found["blocked_since"]
    return found


def findings(found: Sequence[Finding]) -> list[answers.Finding]:
    return [
        answers.Finding(
            one.rule.name,
            str(one.scope),
            one.object,
            one.says,
            evidence(one.evidence, one.rule.units),
            one.advice,
        )
        for one in found
    ]


def findings_of(view: BrokerView, series: QueueSeries) -> list[Finding]:
    """Those that concern a queue: its own, its clients', its address's."""
    concerns = {series.address, series.dead_letter_address, series.expiry_address} - {
        ""
    }
    return [
        one
        for one in view.state.findings.found
        if (series.address, series.queue) in ((one.address, one.queue), *one.on)
        or (not one.queue and one.address in concerns)
    ]


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
    from penstock.insight.sheets import sheets_of  # noqa: PLC0415 - which asks for the view and the errors of this

    series, i = find_queue(view, queue, address)
    table: Table[QueueSeries] = view.tables["queue"]
    here = [
        one
        for one in view.conditions
        if (one.address, one.queue) in ((series.address, series.queue), OF_BROKER)
    ]
    if client is not None:
        here = [one for one in here if one.client in ("", client)]
    clients, left_out = clients_of(view, series, client, {one.client for one in here})
    here += unknown_conditions(view, series, [one.client for one in clients])
    flow = {name: json_number(column[i]) for name, column in rates(view).items()}
    incidents = [one for one in view.incidents.told if concerns(one, series, client)]
    if client is None:
        known = knowledge_of_queue(view, i, here, clients, incidents, failing)
    else:
        known = knowledge_of_client(view, series, client, here, clients, failing)
    return answers.Explanation(
        broker=series.broker,
        address=series.address,
        queue=series.queue,
        client=client,
        kind=str(series.kind),
        routing_type=series.routing_type,
        stamp=round(view.snapshot.stamp, 3),
        healthy=known.state == ObjectState.HEALTHY,
        knowledge=known,
        incidents=incidents_in_full(view, incidents),
        conditions=in_full(view, here, condition_in_full),
        numbers=numbers_at(table, QUEUE_NUMBERS, i),
        rate_in=flow.get("rate_in"),
        rate_out=flow.get("rate_out"),
        usual=usual_of(view, i),
        ring=ring_of(view, series, i),
        flow=flow_of(view.state.judgement, view.tables.get("consumer"), series),
        connections=connections_of(view.snapshot, view.policy.rules, series),
        rules=applied_rules(
            view.policy.rules.resolve(series.broker, series.address, series.queue)
        ),
        clients=clients,
        clients_left_out=left_out,
        findings=findings(findings_of(view, series)),
        unknown=[answers.Unknown(what, why) for what, why in unknown(view, series, i)],
        account=sheets_of(view, series.address, series.queue),
        related=dead_letters(table, series.address, series.queue),
    )


def knowledge_of_queue(
    view: BrokerView,
    i: int,
    here: Sequence[ActiveCondition],
    clients: Sequence[QueueClient],
    incidents: Sequence[Incident],
    failing: Failing | None,
) -> answers.Knowledge:
    """Of the queue that is shown as row i. here: what is active on it and its broker; clients, incidents: its own."""
    table: Table[QueueSeries] = view.tables["queue"]
    watched = [*sure.watched_of_clients(clients, here, view.snapshot.stamp)]
    if not watched:
        watched += sure.watched_of_queue(view.state, view.policy, i, here)
    watched += sure.watched_of_broker(view.state, view.policy)
    about = Concerning(
        conditions=[one for one in here if sure.concerns_queue(one)],
        incidents=incidents,
        unknown=next(
            (one.why for one in here if one.name == UNKNOWN.name and not one.client), ""
        ),
        watched=watched,
        judged=sure.judged(
            view.state, view.kind.name, view.interval, Scope.QUEUE, Scope.CLIENT
        ),
    )
    state = sure.unread_as(failing) or state_of_row(view, table, i)
    return sure.knowledge(state, about, failing)


def knowledge_of_client(
    view: BrokerView,
    series: QueueSeries,
    client: str,
    here: Sequence[ActiveCondition],
    clients: Sequence[QueueClient],
    failing: Failing | None,
) -> answers.Knowledge:
    """Of a client of a queue. here, clients: as above."""
    table: Table[ClientSeries] = view.table("client")
    name = (series.address, series.queue, client)
    row = next(
        (i for i, one in enumerate(table.index) if CLIENT(one) == name), len(table)
    )
    watched = [*sure.watched_of_clients(clients, here, view.snapshot.stamp)]
    watched += sure.watched_of_broker(view.state, view.policy)
    about = Concerning(
        conditions=[one for one in here if one.client == client],
        incidents=[
            one
            for one in view.incidents.told
            if any(CLIENT_OF_KEY(key) == name for key in one.members)
        ],
        unknown=next(
            (one.why for one in here if one.name == UNKNOWN.name),
            "it does not consume from the queue now",
        ),
        watched=watched,
        judged=sure.judged(view.state, view.kind.name, view.interval, Scope.CLIENT),
    )
    state = sure.unread_as(failing) or state_of_row(view, table, row)
    return sure.knowledge(state, about, failing)


def incidents_in_full(view: BrokerView, found: Sequence[Incident]) -> list[Incident]:
    """With the causes of the condition that is the root and, of the first, what to do, where nothing else is said."""
    actions = Actions(view.snapshot, view.state)
    roots = {key_of(one): one for one in view.conditions} if found else {}

    def in_full(at: int, one: Incident) -> Incident:
        if (root := roots.get(one.root)) is None:
            return one
        about = on(view.kind.name, root.name)
        members = map(roots.get, one.members)
        advice = one.advice or (
            [*in_short(actions.of(root, about, members))] if at < WITH_ACTIONS else []
        )
        return replace(one, causes=one.causes or causes(about, root), advice=advice)

    return [in_full(at, one) for at, one in enumerate(found)]


def in_short(actions: Sequence[answers.Action]) -> Iterator[str]:
    """Each with what it does to messages; then how to check the first, and what not to do."""
    yield from (f"{action.do}. {action.effect}" for action in actions)
    yield from (f"Check: {action.check}" for action in actions[:1])
    yield from dict.fromkeys(
        f"Avoid: {action.never}" for action in actions if action.never
    )


def concerns(incident: Incident, series: QueueSeries, client: str | None) -> bool:
    """Whether the queue, or this client of it, is the root or a victim."""
    place = (series.address, series.queue)
    here = {key[3] for key in incident.members if key[1:3] == place}
    whole = bool(here) or place in incident.places or incident.object == series.address
    return bool(here & {"", client}) if client is not None else whole


def unknown_conditions(
    view: BrokerView, series: QueueSeries, clients: Sequence[str] = ()
) -> Iterator[ActiveCondition]:
    """Where nothing can be said of the queue, or of these clients of it."""
    return sure.undecided_conditions(view.state, view.snapshot, series, clients)


def find_queue(
    view: BrokerView, queue: str, address: str | None
) -> tuple[QueueSeries, int]:
    table: Table[QueueSeries] | None = view.tables.get("queue")
    broker = view.policy.broker
    if table is None:
        raise view.missing("queue", queue, None)
    rows = table.index.rows.tolist()
    for i, row in enumerate(rows):
        if row.queue == queue and address in (None, row.address):
            return row, i
    unread = [one for one in view.snapshot.observation.left_out if one.what == "queues"]
    if unread:
        raise NotFound(
            f"queue {queue!r} of broker {broker} is not known", f"not read: {unread[0]}"
        )
    raise view.missing("queue", queue, [row.queue for row in rows])


def near(name: str, names: Sequence[str], what: str) -> str:
    """A hint at similar names. Bounded: of many names those that share a part are looked at."""
    names = sorted(set(names))
    if len(names) > NEAR:
        part = name.casefold()[:3]
        names = [one for one in names if part in one.casefold()][:NEAR]
    found = difflib.get_close_matches(name, names, 3, 0.5)
    if found:
        return f"did you mean {' or '.join(found)}?"
    return (
        f"{what}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        if names
        else f"there are no {what}"
    )


def rates(view: BrokerView) -> dict[str, Column]:
    """Messages per second in and out of each queue over the trend window; nothing while it is not known."""
    grouping = view.state.queues.grouping
    trend = view.state.judgement.activity.trend
    if trend.index is not grouping.source:
        return {}
    return {
        "rate_in": grouping.sum(trend.rate(FLOW_IN)),
        "rate_out": grouping.sum(trend.rate(FLOW_OUT)),
    }


def usual_of(view: BrokerView, i: int) -> str:
    """On what it rests what is normal for the queue that is shown as row i."""
    normal = view.state.judgement.normal
    grouping = view.state.queues.grouping
    rows = np.flatnonzero(grouping.member == i)
    if (
        len(rows) != 1
        or normal.index is not grouping.source
        or not normal.expected.weeks[rows[0]] > 0
    ):
        return "not known: this hour of the week was not seen before"
    at = rows[0]
    expected = normal.expected
    service = view.state.judgement.service
    history = int(expected.from_history[at])
    usual = normal.usual(service)
    error = normal.errors[history, at]
    windows = usual.windows[at]
    within = "" if np.isnan(error) else f", mean error {100 * np.expm1(error):.0f} %"
    text = f"{SOURCES[history]} on {expected.weeks[at]:.0f} weeks{within}; longest pause {duration(expected.pause[at])}"
    if not windows >= WINDOWS:
        return text
    source = SOURCES[int(windows > service.windows[at])]
    return f"{text}; {duration(usual.usual_service[at])} a message, {source} on {windows:,.0f} windows with a backlog"


def applied_rules(given: Resolved) -> list[answers.AppliedRule]:
    keys = [key for key in KEYS if key in given.given_by]
    return [
        answers.AppliedRule(key, text_of(getattr(given, key)), given.given_by[key])
        for key in keys
    ]


def text_of(value: object) -> str | bool | Number:
    return getattr(
        value, "text", value if isinstance(value, bool | int | float) else str(value)
    )


# --- what belongs to it


def queues_with(
    table: Table[QueueSeries],
    role: str,
    chosen: Callable[[QueueSeries], bool],
    numbers: Sequence[str],
) -> list[answers.Related]:
    """The largest by the first of the numbers."""
    at = [i for i, row in enumerate(table.index) if chosen(row)]
    read = [name for name in numbers if name in table]
    if read:
        at.sort(key=lambda i: -np.nan_to_num(table[read[0]][i]))
    texts = (
        (table.index.rows[i].queue, numbers_text(table, read, i))
        for i in at[:MOST_RELATED]
    )
    return [answers.Related(role, "queue", *one) for one in texts]


def numbers_text(table: Table[Any], names: Sequence[str], i: int) -> str:
    told = {name: table[name][i] for name in names if name in table}
    return ", ".join(
        f"{name} {amount_text(None if np.isnan(one) else int(one))}"
        for name, one in told.items()
    )


def numbers_of_client(table: Table[Any], names: Sequence[str], i: int) -> str:
    """As "24 buffered; 8 acknowledged, also uncommitted and rolled back"."""
    values = {name: table[name][i] for name in names if name in table}
    amounts = {
        name: amount_text(None if np.isnan(value) else int(value))
        for name, value in values.items()
    }
    return "; ".join(
        f"{amount} {client_name_text(name)}" for name, amount in amounts.items()
    )


def dead_letters(
    table: Table[QueueSeries], address: str, queue: str = ""
) -> list[answers.Related]:
    """Who sends dead letters to the address; and where those of the queue go."""
    found = queues_with(
        table,
        "gets dead letters of",
        lambda row: row.dead_letter_address == address,
        ("killed",),
    )
    for row in table.index:
        if (
            queue
            and (row.address, row.queue) == (address, queue)
            and row.dead_letter_address
        ):
            held = any(one.address == row.dead_letter_address for one in table.index)
            told = "" if held else "it has no queue: dead letters are lost"
            found.append(
                answers.Related(
                    "sends dead letters to", "address", row.dead_letter_address, told
                )
            )
    return found


# --- its clients


def clients_of(
    view: BrokerView, series: QueueSeries, client: str | None, troubled: Collection[str]
) -> tuple[list[QueueClient], int]:
    """At most MAX_CLIENTS of the queue, or the one asked for, the troubled first; and how many are left out."""
    table: Table[ClientSeries] = view.table("client")
    rows: list[ClientSeries] = table.index.rows.tolist()
    at = [
        i
        for i, row in enumerate(rows)
        if (row.address, row.queue) == (series.address, series.queue)
    ]
    if client is not None:
        names = [rows[i].client for i in at]
        at = [i for i in at if rows[i].client == client]
        if not at:
            raise NotFound(
                f"queue {series.queue} has no client {client!r}",
                near(client, names, "clients"),
            )
    at.sort(
        key=lambda i: rows[i].client not in troubled
    )  # cut first: there may be thousands
    return [queue_client(view, table, i) for i in at[:MAX_CLIENTS]], max(
        len(at) - MAX_CLIENTS, 0
    )


def queue_client(view: BrokerView, table: Table[ClientSeries], i: int) -> QueueClient:
    row: ClientSeries = table.index.rows[i]
    given = view.policy.rules.resolve(row.broker, row.address, row.queue, row.client)
    threshold = stall_threshold(view, table, i, given)
    state = state_of_row(view, table, i)
    numbers = client_numbers(view, table, CLIENT_NUMBERS, i)
    return QueueClient(row.client, state, numbers, threshold, applied_rules(given))


def stall_threshold(
    view: BrokerView, table: Table[ClientSeries], i: int, given: Resolved
) -> StallThreshold | None:
    seconds = numbers_at(table, ("patience",), i).get("patience")
    if seconds is None:
        return None
    if given.patience is not None:
        return StallThreshold(
            seconds, "configured", 0, f"rule {given.given_by['patience']}"
        )
    patience = view.state.judgement.patience
    constants = view.policy.constants
    at = patience.index.positions(table.index.keys[i : i + 1])[0]
    weight = float(patience.weight[at]) if at >= 0 else 0.0
    if weight == 0:
        why = f"nothing learned yet: judgement.cold, {duration(constants.cold)}"
        return StallThreshold(seconds, "cold", 0, why)
    longest = float(patience.longest[at])
    q98 = float(patience.q98[at])
    usual = f"{constants.factor:g} times the longest gap of {duration(longest)}"
    if weight >= FEW:
        usual = f"{constants.factor:g} times {duration(q98)}, which 98 % of the gaps stay below"
    least = (
        f", at least judgement.cold, {duration(constants.cold)}"
        if weight < MANY
        else ""
    )
    why = f"{usual}{least}; between {duration(constants.floor_seconds(view.interval))} and {duration(constants.cap)}"
    return StallThreshold(seconds, "learned", round(weight), why)


# --- its ring


def ring_of(view: BrokerView, series: QueueSeries, i: int) -> answers.Ring | None:
    """Size and source of a ring, and its ledger; None where messages are never thrown away to keep a limit."""
    judgement = view.state.judgement
    grouping = view.state.queues.grouping
    books = judgement.account.books
    seen = judgement.seen
    rows = np.flatnonzero(grouping.member == i)
    limit = json_number(view.tables["queue"]["ring_limit"][i])
    if series.summed or len(rows) != 1:
        return None
    row = int(rows[0])
    queues = view.snapshot.queues
    if queues is None or (limit is None and not queues["last_value"][row] > 0):
        return None
    source = str(series.ring_source)
    where = NAMES["ring_sources"][series.ring_source]
    if books.index is not grouping.source or seen.queues.index is not grouping.source:
        return answers.Ring(limit, source, where, None, "not judged yet")
    added, settled, expired, killed, _, messages = (
        int(n) for n in np.nan_to_num(seen.queues.numbers[:, row])
    )
    evicted = json_number(books.evicted[row])
    held = (
        int(np.nan_to_num(queues["delivering"][row]))
        if queues["last_value"][row] > 0
        else 0
    )
    terms = f"{added:,} added - {settled:,} acknowledged - {expired:,} expired - {killed:,} killed - {messages:,} there"
    terms += f" - {held:,} in delivery" if held else ""
    gone = added - settled - expired - killed - messages - held
    lost = "none" if evicted is None else f"{evicted:,}"
    ledger = f"{terms} = {gone:,} missing at this poll, of which {lost} were missing at two polls and are counted"
    return answers.Ring(limit, source, where, evicted, ledger)


# --- what is not known


def unknown(view: BrokerView, series: QueueSeries, i: int) -> Iterator[tuple[str, str]]:
    table = view.tables["queue"]
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
        yield (
            "conditions over a window",
            f"{counted(trend.polls, 'poll')} so far; rates and trends need more",
        )
    if series.summed:
        yield "age, drain time and ring", "the row is a sum of several queues"
        return
    yield from unknown_numbers(table, i)


def unknown_numbers(table: Table[QueueSeries], i: int) -> Iterator[tuple[str, str]]:
    if np.isnan(table["ready"][i]):
        why = "the queue keeps what is acknowledged (non-destructive), and counts what is delivered twice"
        yield "ready messages, and what it evicted", why
    if np.isnan(table["drain"][i]) and table["ready"][i] > 0:
        yield (
            "time to empty",
            "the backlog does not shrink, nothing is taken, or rates are not known yet",
        )
    if np.isnan(table["oldest_message"][i]) and table["messages"][i] > 0:
        why = "messages may leave in any order; its bounds are order of arrival, and when the queue was empty at a poll"
        yield "exact age of the oldest message", why
    if not np.isnan(table["ring_limit"][i]) and np.isnan(table["ring_used_ratio"][i]):
        yield (
            "ring fill",
            "the address is paging: paged messages are not held by the ring",
        )
