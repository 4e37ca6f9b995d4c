"""The alerts: of each condition a warning, and critical where its queue makes no progress; those of `alerts.yaml`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Final, Literal

import yaml

from penstock.assets.thresholds import BROKERS_OWN
from penstock.assets.thresholds import THRESHOLDS as T
from penstock.assets.wording import described
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Alert as ConditionAlert
from penstock.conditions.condition import Condition, Scope
from penstock.series.labels import OTHER

Severity = Literal["critical", "warning", "info"]

QUEUE = ("broker", "address", "queue")
ADDRESS = ("broker", "address")
BROKER = ("broker",)

_GROUPS: Final = {
    "penstock-clients": "clients",
    "penstock-queues": "queues",
    "penstock-rings": "rings",
    "penstock-brokers": "brokers",
    "penstock-agent": "penstock",
}
"""Group of the rule file → runbook."""
_ENTRIES: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = yaml.safe_load(
    files("penstock.assets").joinpath("alerts.yaml").read_text(encoding="utf-8")
)
_NUMBERS: Final = {**asdict(T), "brokers_own": BROKERS_OWN, "other": OTHER}
_STOPPED = " Nothing is settled meanwhile."
_DASHBOARDS = {Scope.BROKER: "penstock-broker", Scope.QUEUE: "penstock-queue", Scope.CLIENT: "penstock-clients"}


@dataclass(frozen=True, slots=True)
class AlertRule:
    """wait, keep: `for` and `keep_firing_for`. dashboard: uid of the one that shows it; labels: what it is opened with.
    runbook: the file of docs/runbooks with a section of the alert's name.
    """

    name: str
    severity: Severity
    expr: str
    summary: str
    description: str
    dashboard: str
    runbook: str
    labels: tuple[str, ...] = ()
    wait: str = T.judged_for
    keep: str = T.keep_firing


def _of_conditions(runbook: str) -> Iterator[AlertRule]:
    """The alerts of the conditions with this runbook."""
    for condition in CONDITIONS.values():
        if condition.alert is not None and condition.alert.runbook == runbook:
            yield from _of_condition(condition, condition.alert)


def _of_condition(condition: Condition, alert: ConditionAlert) -> Iterator[AlertRule]:
    """A warning, and the same name as critical where the condition can bring its queue to a stop."""
    dashboard, labels = alert.dashboard or _DASHBOARDS[condition.scope], _labels(condition, alert)
    levels: tuple[tuple[Severity, int], ...] = (("warning", T.warning), ("critical", T.critical))
    for severity, level in levels if alert.critical and condition.may_be_critical else levels[:1]:
        yield AlertRule(
            alert.name,
            severity,
            _expression(condition, alert, level),
            condition.title,
            described(alert.description) + (_STOPPED if severity == "critical" else ""),
            dashboard,
            alert.runbook,
            labels,
        )


def _labels(condition: Condition, alert: ConditionAlert) -> tuple[str, ...]:
    """What its dashboard is opened with."""
    if condition.scope is Scope.BROKER:
        return BROKER
    if condition.scope is Scope.CLIENT:
        return (*QUEUE, "client")
    return ADDRESS if alert.runbook == "brokers" else QUEUE


def _expression(condition: Condition, alert: ConditionAlert, level: int) -> str:
    """One alert an address where the condition is the whole address's; how bad a client's is, its queue says."""
    cause = f'{{cause="{condition.name}"}}'
    if condition.scope is Scope.BROKER:
        return f"mq_broker_unhealthy{cause} >= {level}"
    if condition.scope is Scope.CLIENT:
        clients = f"mq_client_unhealthy_consumers{cause} >= 1"
        queue = f"on (job, instance, broker, address, queue, cause) mq_queue_unhealthy >= {level}"
        return clients if level == T.warning else f"{clients} and {queue}"
    if condition.of_address and alert.runbook == "brokers":
        return f"mq_address_unhealthy{cause} >= {level}"
    return f"mq_queue_unhealthy{cause} >= {level}"


def _of_numbers(runbook: str) -> Iterator[AlertRule]:
    """The alerts of `alerts.yaml` with this runbook."""
    for entry in _ENTRIES.get(runbook, ()):
        one: dict[str, Any] = {key: _filled(value) for key, value in entry.items()}
        one |= {key: getattr(T, one[key]) for key in ("wait", "keep") if key in one}
        one["description"] = described(one["description"])
        yield AlertRule(runbook=runbook, **one)


def _filled(value: Any) -> Any:
    """With numbers in place of the names of thresholds."""
    if isinstance(value, list):
        return tuple(value)
    return re.sub(r"\$\{(\w+)\}", lambda found: str(_NUMBERS[found[1]]), value)


def groups() -> dict[str, tuple[AlertRule, ...]]:
    """All alerts, by the group of the rule file."""
    return {group: (*_of_conditions(runbook), *_of_numbers(runbook)) for group, runbook in _GROUPS.items()}
