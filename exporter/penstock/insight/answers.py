"""The answers of the API, which pages, `explain` and `top` show too. OpenAPI is generated from them: docstrings are its
descriptions.

A number that is None is not known; one that is UNSET is not in the answer. Times are seconds since 1970.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field, json
from msgspec.structs import asdict, fields

from penstock.assessment.object_state import ObjectState
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Severity
from penstock.conditions.wording import Cause
from penstock.core.formatting import UNKNOWN, quantity
from penstock.findings.finding import FindingScope
from penstock.incidents.incident import Incident
from penstock.insight.events import Event
from penstock.model import BROKER_KINDS, QueueKind, RingSource


def _one_of(names: Iterable[str]) -> Meta:
    return Meta(extra_json_schema={"enum": list(names)})


CONDITION_NAMES = sorted(CONDITIONS)
SEVERITIES = [one.name.lower() for one in Severity]

Number: TypeAlias = int | float
ColumnValue: TypeAlias = Number | UnsetType | None
"""Of a table; UNSET where the table has no such column."""
Time = Annotated[float, Meta(description="Seconds since 1970 by the agent's clock.")]
Total = Annotated[int, Meta(description="How many there are, beyond the limit too.")]
Numbers = Annotated[
    dict[str, Number],
    Meta(description="By name, in the units of the metrics; only what is known."),
]
ConditionName = Annotated[str, _one_of(CONDITION_NAMES)]
SeverityName = Annotated[
    str,
    _one_of(SEVERITIES),
    Meta(description="`info`: pages and texts call it a notice."),
]


ObjectStateName = Annotated[
    str, _one_of(ObjectState), Meta(description="As in `knowledge.state`.")
]


class Error(Struct, frozen=True):
    """error: what is wrong. hint: what to do, or similar names."""

    error: str
    hint: str


# --- parts


class Evidence(Struct, frozen=True):
    value: Number | None
    unit: str

    def __str__(self) -> str:
        return UNKNOWN if self.value is None else quantity(self.value, self.unit)


class Completeness(Struct, frozen=True):
    """Polls judged since the condition began, in the last five minutes at most. due: there should have been so many."""

    polls: int
    due: int
    share: Number | None


class ConditionSummary(Struct, frozen=True):
    """client: empty for a condition of the queue itself. silenced: by a rule of the configuration, and not exported."""

    condition: ConditionName
    severity: SeverityName
    silenced: bool
    client: str
    since: Time


class ManagementCall(Struct, frozen=True):
    """An operation of Artemis' management, with its types, on an MBean."""

    mbean: str
    operation: str
    arguments: list[str]

    def __str__(self) -> str:
        """The body of a POST to Jolokia."""
        return json.encode({"type": "exec", **asdict(self)}).decode()


class Action(Struct, frozen=True):
    """What an operator can do; Penstock does not. do: an imperative sentence. effect: on messages. check: how it shows.
    never: what not to do in its place. right: that it needs. calls, commands: in this order.
    """

    name: str
    do: str
    effect: str
    check: str
    never: str
    right: str
    calls: list[ManagementCall]
    commands: list[str]


class Condition(ConditionSummary, frozen=True):
    """causes: proven first, excluded last. consumers: how many of the client's are in it. rule: what it means. advice:
    what to do. actions: in the order in which to try them; not in lists.
    """

    consumers: int
    completeness: Completeness
    evidence: dict[str, Evidence]
    rule: str
    causes: list[Cause]
    advice: str
    actions: list[Action]


class ListedCondition(Condition, frozen=True):
    """A condition with where it is active. stale: when it was read last; only where the broker cannot be read now."""

    broker: str
    address: str
    queue: str
    stale: Time | UnsetType = UNSET


class Finding(Struct, frozen=True):
    """A configuration problem. object: what it is about; of a client QUEUE/CLIENT. advice: what to do."""

    rule: str
    scope: Annotated[str, _one_of(FindingScope)]
    object: str
    says: str
    evidence: dict[str, Evidence]
    advice: str


class SeverityEpisode(Struct, frozen=True):
    """A condition in one severity. to: null while it is active."""

    condition: ConditionName
    client: str
    severity: SeverityName
    since: Time
    to: Time | None


Values: TypeAlias = list[Number | None] | UnsetType


class TimeSeries(Struct, frozen=True):
    """The last values, oldest first, `step` seconds apart, the newest read at `end`; null where nothing was read.

    Of a longer step counts and ratios are its highest, rates (messages per second) its mean.
    """

    step: Number
    end: Time
    ready: Values = UNSET
    delivering: Values = UNSET
    buffered: Values = UNSET
    rate_in: Values = UNSET
    rate_out: Values = UNSET
    connections: Values = UNSET
    memory_used_ratio: Values = UNSET


# --- rows of lists


class BrokerState(Struct, frozen=True, kw_only=True):
    """
    state: as the broker's `knowledge` has it; unknown before its first poll. version, role: empty while unknown. up:
    whether the last poll reached it; null before the first. age: of the data in seconds; null while there is none.
    error: why the last poll failed. notes: what this broker cannot give, and why. numbers: sums of its queues, and how
    many conditions are critical or warnings; empty while nothing is known.
    """

    name: str
    state: ObjectStateName
    kind: Annotated[
        str, Meta(description="As in the configuration."), _one_of(BROKER_KINDS)
    ]
    version: str
    role: str
    up: bool | None
    age: float | None
    error: str = ""
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    numbers: Numbers = field(default_factory=dict)


class OnQueue(Struct, frozen=True):
    broker: str
    address: str
    queue: str


class ListedRow(OnQueue, frozen=True, kw_only=True):
    """state: as its `knowledge` has it; of a consumer that of its client. stale: when the row was read last; only where
    the broker cannot be read now.
    """

    state: ObjectStateName
    conditions: list[ConditionSummary]
    stale: Time | UnsetType = UNSET


class Queue(ListedRow, frozen=True, kw_only=True):
    """Rates are messages per second. recent: only when `points` are asked for."""

    kind: Annotated[str, _one_of(QueueKind)]
    owner: str
    team: str
    messages: ColumnValue = UNSET
    ready: ColumnValue = UNSET
    delivering: ColumnValue = UNSET
    consumers: ColumnValue = UNSET
    scheduled: ColumnValue = UNSET
    ring_used_ratio: ColumnValue = UNSET
    oldest_message: ColumnValue = UNSET
    drain: ColumnValue = UNSET
    rate_in: ColumnValue = UNSET
    rate_out: ColumnValue = UNSET
    recent: TimeSeries | UnsetType | None = UNSET


class Client(ListedRow, frozen=True, kw_only=True):
    """A client on one queue. acknowledged: acknowledged, also uncommitted and rolled back: each acknowledgement counts
    when it is made; the queue's own number is true at commit. patience: its stall threshold. recent: only when `points`
    are asked for.
    """

    client: str
    consumers: ColumnValue = UNSET
    buffered: ColumnValue = UNSET
    uncommitted: ColumnValue = UNSET
    delivered: ColumnValue = UNSET
    acknowledged: ColumnValue = UNSET
    blocked_since: ColumnValue = UNSET
    patience: ColumnValue = UNSET
    recent: TimeSeries | UnsetType | None = UNSET


class Consumer(ListedRow, frozen=True, kw_only=True):
    """consumer: the broker's id of it. filter: its selector. acknowledged: acknowledged, also uncommitted and rolled
    back, as of `Client`. conditions: of its client.
    """

    client: str
    consumer: str
    protocol: str
    user: str
    remote_host: str
    session: str
    filter: str
    buffered: ColumnValue = UNSET
    buffered_bytes: ColumnValue = UNSET
    awaiting_commit: ColumnValue = UNSET
    delivered: ColumnValue = UNSET
    acknowledged: ColumnValue = UNSET
    flow_paused: ColumnValue = UNSET
    last_delivery: ColumnValue = UNSET
    last_acknowledgement: ColumnValue = UNSET


@cache
def columns(row: type[Struct]) -> tuple[str, ...]:
    """The names of a row's columns."""
    return tuple(one.name for one in fields(row) if one.type == ColumnValue)


class BrokerList(Struct, frozen=True):
    rows: Sequence[BrokerState] = field(name="brokers")


class QueueList(Struct, frozen=True):
    rows: list[Queue] = field(name="queues")
    total: Total


class ClientList(Struct, frozen=True):
    rows: list[Client] = field(name="clients")
    total: Total


class ConsumerList(Struct, frozen=True):
    rows: list[Consumer] = field(name="consumers")
    total: Total


class ConditionList(Struct, frozen=True):
    rows: list[ListedCondition] = field(name="conditions")
    total: Total


ListPage: TypeAlias = QueueList | ClientList | ConsumerList
LISTS: Mapping[str, type[BrokerList | ListPage]] = {
    "brokers": BrokerList, "queues": QueueList, "clients": ClientList, "consumers": ConsumerList,
}  # fmt: skip


class IncidentList(Struct, frozen=True):
    rows: Sequence[Incident] = field(name="incidents")
    total: Total


class EventList(Struct, frozen=True):
    events: Sequence[Event]


# --- one queue


class AppliedRule(Struct, frozen=True):
    """What a rule of the configuration gives. rule: its number, from 1."""

    key: str
    value: str | bool | Number
    rule: int


class StallThreshold(Struct, frozen=True):
    """seconds: how long a client may acknowledge nothing. gaps: how many it was learned from. why: how, in words."""

    seconds: Number
    origin: Literal["configured", "cold", "learned"]
    gaps: int
    why: str


class QueueClient(Struct, frozen=True):
    """A client of the queue. patience: its stall threshold."""

    client: str
    state: ObjectStateName
    numbers: Numbers
    patience: StallThreshold | None
    rules: list[AppliedRule]


class Ring(Struct, frozen=True):
    """limit: its size in messages. source, where: what sets it. ledger: how the evicted messages were counted."""

    limit: Number | None
    source: Annotated[str, _one_of(RingSource)]
    where: str
    evicted: Number | None
    ledger: str


class ConsumerFlow(Struct, frozen=True):
    """OpenMQ's flow control of one consumer, as measured. batch: messages asked for at once, least and most."""

    client: str
    consumer: str
    held: int | None
    paused: bool
    limit: int | None
    resume: int | None
    batch: tuple[int, int] | None
    told: str


class ConnectionFlow(Struct, frozen=True):
    """What a connection buffers whose connection_flow_limit a rule gives (OpenMQ). client: who buffers most."""

    client: str
    connection: str
    consumers: int
    held: int
    limit: int
    told: str


class Unknown(Struct, frozen=True):
    what: str
    why: str


WINDOW = "window"
"""In place of a condition: what is watched is the broker as a whole."""


class Watched(Struct, frozen=True):
    """What has been so for `seconds`, and becomes a condition when it lasts for `needed` seconds.

    condition: its name; `window`: for how long the agent has read the broker, and how long some conditions look back.
    proves: what it is, and what would end it.
    """

    condition: str
    client: str
    seconds: Number
    needed: Number
    proves: str


class Knowledge(Struct, frozen=True):
    """The state of an object, and why: the conditions that make it so, on what it was judged healthy, or why that
    cannot be said.

    state: critical, warning, notice (the worst that is active), unknown (not judged), watching (nothing so far, and
    something in `watched` may change that), healthy (judged, on fresh data); down of a broker that cannot be read
    since `since`, stale of what is on it and was read before.
    """

    state: ObjectStateName
    why: str
    since: Time | None
    watched: list[Watched]


class Fact(Struct, frozen=True):
    """Something that the broker says of an object. value: null where it does not. most: of a sum over brokers that were
    read at different moments, between which messages may have moved; `value` is the least then.
    """

    name: str
    value: str | Number | None
    unit: str = ""
    most: Number | UnsetType = UNSET

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return self.value
        most = "" if self.most is UNSET else f" to {Evidence(self.most, self.unit)}"
        return f"{Evidence(self.value, '' if most else self.unit)}{most}"


class Related(Struct, frozen=True):
    """Another object. role: what it is to this one, as a verb. told: a sentence about it."""

    role: str
    kind: str
    name: str
    told: str


class Explanation(OnQueue, frozen=True):
    """
    All that is known of a queue. healthy: `knowledge` says so. incidents: of which it is the root or
    a victim. account: its sheet and its address's; empty where there is no account. usual: on what it rests what is
    expected at this hour of the week.
    """

    client: str | None
    kind: Annotated[str, _one_of(QueueKind)]
    routing_type: str
    stamp: Time
    healthy: bool
    knowledge: Knowledge
    incidents: list[Incident]
    conditions: list[Condition]
    numbers: Numbers
    rate_in: Number | None
    rate_out: Number | None
    usual: str
    ring: Ring | None
    flow: list[ConsumerFlow]
    connections: list[ConnectionFlow]
    rules: list[AppliedRule]
    clients: list[QueueClient]
    clients_left_out: int
    findings: list[Finding]
    unknown: list[Unknown]
    account: list["AccountSheet"]
    related: list[Related]


class ObjectView(Struct, frozen=True):
    """All that is known of an object that is no queue. broker: empty for what is on several brokers. conditions: on
    it, the worst first. account: of an address. incidents: of which it is the root or a victim.
    """

    broker: str
    kind: Literal["broker", "address", "connection", "cluster"]
    name: str
    stamp: Time
    knowledge: Knowledge
    facts: list[Fact]
    conditions: list[ListedCondition]
    related: list[Related]
    account: list["AccountSheet"]
    incidents: Sequence[Incident] = ()


class ClusterList(Struct, frozen=True):
    """Brokers that serve one node id, are linked to each other, or mirror one another. Sums count no message twice."""

    rows: Sequence[ObjectView] = field(name="clusters")


class RecentClient(Struct, frozen=True):
    client: str
    course: TimeSeries | None


class Recent(OnQueue, frozen=True):
    """A queue, or where `queue` is empty its broker, from `begin` to `end`. clients: of the last hour. source: memory
    has one hour, and no more where no history is kept. note: what of the history is missing, and why.
    """

    begin: Time
    end: Time
    course: TimeSeries | None
    clients: list[RecentClient]
    clients_left_out: int
    episodes: list[SeverityEpisode]
    source: Literal["memory", "history"] = "memory"
    note: str = ""


# --- the account

Amount: TypeAlias = int | float | tuple[Number, Number | None] | None
"""A number; at least and at most so many, null: no most is known; null: not known, and `reasons` says why."""


class AccountSheet(OnQueue, frozen=True):
    """
    What became of the messages of a queue, or, where `queue` is empty, of those of an address before any queue; where
    `client` is not, of those that this client took, with what it sent. Amounts are messages: a number, [low, high]
    where only bounds are known (high null: at least), or null where nothing is.

    since: when the account began. came: by source. there: where they are now. left: by fate. lost_by: what a ring
    evicted, by `arrivals` and by the clients that went or rolled back. given_back: taken by clients and given back, be
    it several times; null of an address. delivering: of the messages in delivery, those
    that consumers buffer or have not committed, and those of no consumer that is listed (unheld). buffered: by client.
    unexplained: what no reason explains. reasons: why an amount is no exact number. sums: the arithmetic.
    """

    since: Time | None
    came: dict[str, Amount]
    there: dict[str, Amount]
    left: dict[str, Amount]
    lost_by: dict[str, Amount]
    delivering: dict[str, Amount]
    buffered: dict[str, Amount]
    given_back: Amount
    unexplained: Amount
    reasons: dict[str, str]
    sums: str
    client: str = ""
    sent: dict[str, Amount] = {}
    """By a client, to each address."""


class NotKnown(Struct, frozen=True):
    """Messages that may be lost, in so many queues or addresses (`places`), by a `fate`: at most so many, null where
    no most is known. reason: why that is not known.
    """

    fate: str
    places: int
    most: Number | None
    reason: str


class AccountList(Struct, frozen=True):
    """The sheets of the addresses and queues with that name; of all that lost messages, or may have, where no name is
    given. unknown: without a name, what is not known of the others. Only where both are empty, none was lost.
    """

    broker: str
    stamp: Time
    rows: list[AccountSheet] = field(name="accounts")
    total: Total
    unknown: list[NotKnown] = []


# --- one client


class Target(Struct, frozen=True):
    address: str
    produced: Number | None


class ClientConnection(Struct, frozen=True):
    connection: str
    protocol: str
    user: str
    remote_host: str
    sessions: ColumnValue = UNSET
    consumers: ColumnValue = UNSET
    producers: ColumnValue = UNSET
    buffered: ColumnValue = UNSET
    buffered_bytes: ColumnValue = UNSET


class ClientView(Struct, frozen=True):
    """All that is known of a client over all queues."""

    broker: str
    client: str
    stamp: Time
    knowledge: Knowledge
    conditions: list[ListedCondition]
    queues: list[Client]
    queues_left_out: int
    sends_to: list[Target]
    connections: list[ClientConnection]
