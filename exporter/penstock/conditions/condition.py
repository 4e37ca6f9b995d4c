"""What a condition is: when it is raised, how bad it is, what it rests on, what may be behind it and what to do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.causes.verdict import Rivals, Verdict, Verdicts
from penstock.core.catalogues import filled, read_toml
from penstock.core.table import Column, Mask, Positions
from penstock.settings.constants import Constants

if TYPE_CHECKING:
    from penstock.learned.churn import Churn
    from penstock.observation.poll import RuleInputs
    from penstock.series.labels import ClientSeries


class Severity(IntEnum):
    """The value of the metric is the number; an info is a notice."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class Scope(StrEnum):
    """What the rows of a rule are: queues, or the consumers of a client; of a broker the one row is itself."""

    BROKER = "broker"
    QUEUE = "queue"
    CLIENT = "client"


class Raised(NamedTuple):
    """The result of a rule at one poll, by the rows of its scope.

    mask: where it is true. since: when it became true, by the broker's clock; NaN, and None of all = at this poll.
    lasting: seconds for which it must have been true before the condition is raised; None = two polls are enough.
    """

    mask: Mask
    since: Column | None = None
    lasting: Column | None = None


class ActiveCondition(NamedTuple):
    """A condition that is active. Times by the agent's clock, seconds since 1970.

    client: empty for one of the queue itself; address and queue, too, for one of the broker. consumers: how many of the
    client's consumers are in it.
    """

    name: str
    broker: str
    address: str
    queue: str
    client: str
    severity: Severity
    since: float
    evidence: Mapping[str, float] = {}
    consumers: int = 0
    silenced: bool = False
    """By a rule of the operator: shown when asked for, and not exported."""
    why: str = ""
    """What is behind it, where that is known: it is shown in place of the causes."""
    verdicts: Mapping[str, Verdict] = {}
    begin: float = float("nan")
    """As `since`, by the broker's clock; NaN of one that was made on request."""
    advice: str = ""
    """What to do, where it follows from `why`: it is shown in place of the catalogue's."""


class Reported(NamedTuple):
    """One active condition that no mask over rows can say. Times by the broker's clock."""

    client: "ClientSeries"
    since: float
    evidence: Mapping[str, float]
    idle_queue: str = ""
    """The queue whose stop makes it critical."""
    counts_consumers: bool = False
    """Whether the client's present consumers are in it."""
    verdicts: Mapping[str, Verdict] = {}


Rule = Callable[["RuleInputs"], Raised]
Evidence = Callable[["RuleInputs", Positions], Mapping[str, Column]]
"""By name the numbers of some rows."""
Notice = Callable[["RuleInputs", Positions], Mask]
"""Of some queues, -1 where one is not known: whether the condition is a notice there."""
Reports = Callable[["Churn", "RuleInputs"], Iterator[Reported]]
Blockers = Callable[["RuleInputs", Positions], tuple[tuple[int, str], ...]]
"""Of queues: connections by key, and the client that uses up each one's limit."""
Why = Callable[["RuleInputs", int], str]
"""What is behind it in a row, in words."""
Decide = Callable[[Any], Verdicts]
"""Of a case, in which it is active: what is known of its causes, by name. Of a condition of clients the case is a
`ConsumerCase`, else a `Case`."""
Window = Callable[[Constants, float], float]
"""Seconds that a rule looks back, by the constants and the seconds between two polls."""


def never(_: "RuleInputs", queues: Positions) -> Mask:
    return np.zeros(len(queues), np.bool_)


def always(_: "RuleInputs", queues: Positions) -> Mask:
    return np.ones(len(queues), np.bool_)


def no_numbers(_: "RuleInputs", __: Positions) -> Mapping[str, Column]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """The Prometheus alert on a condition.

    description: `{table.column}` is that number of the alert's own labels, `{value}` what fires it; see
    `assets.wording`. runbook: the file of docs/runbooks with a section of the alert's name. critical: whether it also
    exists as critical, where the condition may be. dashboard: empty = that of the scope.
    """

    name: str
    description: str
    runbook: str
    critical: bool = True
    dashboard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What differs on one kind of broker; None = as elsewhere. Fields as in `Condition`."""

    rule: Rule | None = None
    when: str | None = None
    causes: Mapping[str, str] | None = None
    rivals: Rivals | None = None
    action: str | None = None
    evidence: Evidence | None = None
    window: Window | None = None
    why: Why | None = None
    decide: Decide | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """title: one sentence, also the summary of the alert. when, quiet_on: for people; `{name}` is a constant of rules.
    causes: what looks like this at the broker, by a name that actions and incidents know. rivals: by cause those that
    would show the same numbers: it is proven only where a number that was read excludes each of them. action: what to
    do, with the names of the evidence in braces.
    """

    name: str
    scope: Scope
    title: str
    when: str
    quiet_on: str
    causes: Mapping[str, str]
    action: str
    rule: Rule | None = None
    """None: it is reported, or looked up on request only."""
    reports: Reports | None = None
    evidence: Evidence = no_numbers
    notice: Notice = never
    may_be_critical: bool = True
    event: bool = False
    """It happened, and is shown for a while: one poll is enough to raise and to clear it."""
    window: Window | None = None
    """Of a rule that looks back: while the agent has seen less since its restart, what was active stays so."""
    stays: Callable[["RuleInputs"], Mask] | None = None
    """Where one that is active stays so, though the rule is no longer true."""
    silenced_by: tuple["Condition", ...] = ()
    why: Why | None = None
    """What is behind it in a row, in words, where that is known; not of clients."""
    decide: Decide | None = None
    rivals: Rivals = field(default_factory=dict)
    by_consumer: bool = False
    """Only the numbers of each consumer can say it."""
    of_address: bool = False
    """Of the whole address, not of one of its queues."""
    blockers: Blockers | None = None
    """Of one that other consumers of a connection cause: which they are."""
    brokers: frozenset[str] | None = None
    """Kinds of broker that have it; None: all."""
    alert: Alert | None = None
    variants: Mapping[str, Variant] = field(default_factory=dict)
    """By kind of broker."""

    def exists_on(self, kind: str) -> bool:
        return self.brokers is None or kind in self.brokers

    def on(self, kind: str) -> "Condition":
        """As it is on this kind of broker; what that kind does not have cannot silence it."""
        variant = self.variants.get(kind, Variant())
        own: dict[str, Any] = {
            one.name: getattr(variant, one.name) for one in fields(Variant)
        }
        given = {name: value for name, value in own.items() if value is not None}
        if "causes" in given:  # what decides elsewhere knows others
            given.setdefault("decide", None)
            given.setdefault("rivals", {})
        silenced_by = tuple(
            other.on(kind) for other in self.silenced_by if other.exists_on(kind)
        )
        return replace(self, silenced_by=silenced_by, **given)


DECLARED = read_toml("penstock.conditions")
"""By the name of a condition what `catalogue.toml` says of it."""
_READ: Mapping[str, Callable[[Any], Any]] = {
    "scope": Scope,
    "brokers": frozenset,
    "alert": lambda one: Alert(**one),
}


def declared(name: str, kind: str = "", **numbers: float) -> dict[str, Any]:
    """Arguments of the condition of this name, or of its variant on a kind of broker. numbers: for ${name} in texts."""
    found = (
        DECLARED[name]["variants"][kind] if kind else DECLARED[name] | {"name": name}
    )
    fields = {
        key: _READ.get(key, lambda one: one)(value)
        for key, value in found.items()
        if key != "variants"
    }
    return filled(fields, numbers, "when", "quiet_on")
