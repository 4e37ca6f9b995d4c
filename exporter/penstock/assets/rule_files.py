"""Prometheus rule files from the alerts and recording rules."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from penstock.assets.alerts import AlertRule, groups
from penstock.assets.recording import recordings
from penstock.assets.wording import link

RECORDING = "recording.yaml"
ALERTS = "alerts.yaml"
_HEADER = "# Made by `penstock alerts write`: change thresholds in penstock/assets/thresholds.py, not here.\n"


@dataclass(frozen=True, slots=True)
class Bases:
    """Where links in annotations lead: the published docs/runbooks, and Grafana."""

    runbooks: str = "https://penstock.example/runbooks"
    grafana: str = "https://grafana.example"


def rule_files(bases: Bases) -> dict[str, str]:
    """File name → text."""
    recording = [{"name": "penstock-recording", "rules": [asdict(one) for one in recordings()]}]
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
