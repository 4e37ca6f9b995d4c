"""The alerts: of each condition a warning, and critical where its queue makes no progress; those of `alerts.yaml`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

import yaml

from penstock.assets.thresholds import THRESHOLDS as T
from penstock.assets.values import DEFAULT, AlertValues, filled
from penstock.assets.wording import described
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Alert as ConditionAlert
from penstock.conditions.condition import Condition, Scope
from penstock.core.errors import ConfigError
from penstock.exposition.catalogue import TABLES

Severity = Literal["critical", "warning", "info"]

QUEUE = ("broker", "address", "queue")
ADDRESS = ("broker", "address")
BROKER = ("broker",)
INCIDENT: Final = "PenstockIncident"
"""The alert that covers the conditions of its incident, which then fire none themselves."""

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
_STOPPED = " Nothing is settled meanwhile."
_OPENED_WITH = {
    "penstock-broker": BROKER,
    "penstock-queue": QUEUE,
    "penstock-rings": QUEUE,
}
_DASHBOARDS = {
    Scope.BROKER: "penstock-broker",
    Scope.QUEUE: "penstock-queue",
    Scope.CLIENT: "penstock-clients",
}


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


def _of_conditions(runbook: str, values: AlertValues) -> Iterator[AlertRule]:
    """The alerts of the conditions with this runbook."""
    for condition in CONDITIONS.values():
        if condition.alert is not None and condition.alert.runbook == runbook:
            yield from _of_condition(condition, condition.alert, values)


def _of_condition(
    condition: Condition, alert: ConditionAlert, values: AlertValues
) -> Iterator[AlertRule]:
    """A warning, and the same name as critical where the condition can bring its queue to a stop; never both."""
    dashboard = alert.dashboard or _DASHBOARDS[condition.scope]
    labels = _labels(condition, alert)
    both = alert.critical and condition.may_be_critical
    levels: tuple[Severity, ...] = ("warning", "critical") if both else ("warning",)
    times = values.thresholds.judged_for, values.thresholds.keep_firing
    for severity in levels:
        expression = _expression(condition, alert, severity if both else "", values)
        text = described(alert.description, values.identity) + (
            _STOPPED if severity == "critical" else ""
        )
        link = dashboard, alert.runbook, labels
        yield AlertRule(
            alert.name, severity, expression, condition.title, text, *link, *times
        )


def _labels(condition: Condition, alert: ConditionAlert) -> tuple[str, ...]:
    """What its dashboard is opened with."""
    if condition.scope is Scope.BROKER:
        return BROKER
    if condition.scope is Scope.CLIENT:
        return (*QUEUE, "client")
    return ADDRESS if alert.runbook == "brokers" else QUEUE


def _expression(
    condition: Condition, alert: ConditionAlert, severity: str, values: AlertValues
) -> str:
    """One alert an address where the condition is the whole address's; how bad a client's is, its queue says.

    severity: empty where it has but one. Two agents on one broker raise one alert, and a new pod goes on with it.
    """

    def seen(scope: str, column: str) -> str:
        labels = values.labels_of(*TABLES[f"{scope}_cause"])
        return f'max by ({labels}) (mq_{scope}_{column}{{cause="{condition.name}"}})'

    level = {"warning": "== 1", "critical": "== 2"}.get(severity, ">= 1")
    if condition.scope is Scope.BROKER:
        return f"{seen('broker', 'unhealthy')} {level}"
    of_address = condition.of_address and alert.runbook == "brokers"
    scope = (
        "client"
        if condition.scope is Scope.CLIENT
        else "address"
        if of_address
        else "queue"
    )
    if scope == "client":
        raised = f"{seen('client', 'unhealthy_consumers')} >= 1"
        if severity:
            raised += f" and ignoring (client) {seen('queue', 'unhealthy')} {level}"
    else:
        raised = f"{seen(scope, 'unhealthy')} {level}"
    return (
        raised
        if INCIDENT in values.disabled
        else f"{raised} unless {seen(scope, 'in_incident')}"
    )


def _of_numbers(runbook: str, values: AlertValues) -> Iterator[AlertRule]:
    """The alerts of `alerts.yaml` with this runbook."""
    names = values.names()
    for entry in _ENTRIES.get(runbook, ()):
        rule: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else filled(value, names)
            for key, value in entry.items()
        }
        for key in ("wait", "keep"):
            rule[key] = getattr(
                values.thresholds,
                rule.get(key, {"wait": "judged_for", "keep": "keep_firing"}[key]),
            )
        identity = (
            (*values.identity, "job", "instance")
            if runbook == "penstock"
            else values.identity
        )
        rule["description"] = described(rule["description"], identity)
        yield AlertRule(
            runbook=runbook,
            **{"labels": _OPENED_WITH.get(rule["dashboard"], ()), **rule},
        )


def groups(values: AlertValues = DEFAULT) -> dict[str, tuple[AlertRule, ...]]:
    """All alerts, by group of rules; apart what is no condition. ConfigError where one that is disabled is none."""
    made = {
        group: (*_of_conditions(runbook, values),) for group, runbook in _GROUPS.items()
    }
    made |= {
        f"{group}-measured": (*_of_numbers(runbook, values),)
        for group, runbook in _GROUPS.items()
    }
    if unknown := values.disabled - {
        alert.name for alerts in made.values() for alert in alerts
    }:
        raise ConfigError(
            f"disabled: {', '.join(sorted(unknown))}: no such alert; docs/runbooks has them all"
        )
    enabled = {
        group: tuple(alert for alert in alerts if alert.name not in values.disabled)
        for group, alerts in made.items()
    }
    return {group: alerts for group, alerts in enabled.items() if alerts}
