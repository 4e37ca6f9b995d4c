"""Prometheus rule files: the alerts, and recording rules, one number a queue whatever brokers and agents there are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.assets.alerts import AlertRule, groups
from penstock.assets.wording import link

RECORDING = "recording.yaml"
ALERTS = "alerts.yaml"
_GAUGES = (
    "mq_queue_messages",
    "mq_queue_ready_messages",
    "mq_queue_delivering_messages",
    "mq_queue_scheduled_messages",
    "mq_queue_consumers",
)
_COUNTERS = (
    "mq_queue_messages_added_total",
    "mq_queue_messages_acknowledged_total",
    "mq_queue_messages_removed_total",
    "mq_queue_messages_evicted_total",
)
_HEADER = "# Made by `penstock alerts write`: change thresholds in penstock/assets/thresholds.py, not here.\n"


def over_brokers(value: str) -> str:
    """Sum of a value a queue over the brokers that hold a part of it; a pair, or two names of one, count once."""
    active = 'on (job, instance, broker) group_left (node_id) mq_broker_info{role="active"}'
    return f"sum by (address, queue) (max by (node_id, address, queue) ({value} * {active}))"


def recordings() -> Iterator[dict[str, str]]:
    """All recording rules, in the order of the file."""
    for name in _GAUGES:
        yield {"record": f"address_queue:{name}:sum", "expr": over_brokers(name)}
    for name in _COUNTERS:
        rate = f"rate({name}[5m])"
        if "evicted" in name:
            rate = f"sum without (reason) ({rate})"
        yield {"record": f"address_queue:{name.removesuffix('_total')}:rate5m", "expr": over_brokers(rate)}


@dataclass(frozen=True, slots=True)
class Bases:
    """Where links in annotations lead: the published docs/runbooks, and Grafana."""

    runbooks: str = "https://penstock.example/runbooks"
    grafana: str = "https://grafana.example"


def rule_files(bases: Bases) -> dict[str, str]:
    """File name → text."""
    recording = [{"name": "penstock-recording", "rules": [*recordings()]}]
    alerting = [{"name": name, "rules": [_alert(one, bases) for one in alerts]} for name, alerts in groups().items()]
    return {RECORDING: _text(recording), ALERTS: _text(alerting)}


def all_alerts() -> Iterator[AlertRule]:
    """Every alert; one name may stand for a warning and a critical one."""
    for alerts in groups().values():
        yield from alerts


def _alert(alert: AlertRule, bases: Bases) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "keep_firing_for": alert.keep,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{bases.runbooks}/{alert.runbook}.md#{alert.name.lower()}",
            "dashboard_url": link(bases.grafana, alert.dashboard, alert.labels),
        },
    }


def _text(rule_groups: list[dict[str, Any]]) -> str:
    return _HEADER + yaml.safe_dump({"groups": rule_groups}, sort_keys=False, width=10_000, allow_unicode=True)
