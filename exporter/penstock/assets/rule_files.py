"""Prometheus rule files: the alerts, and recording rules, one number a queue whatever brokers and agents there are."""

from collections.abc import Iterator, Mapping
from importlib.resources import files

import yaml

from penstock.assets.alerts import AlertRule, groups
from penstock.assets.runbooks import part, section
from penstock.assets.values import DEFAULT, AlertValues, filled
from penstock.assets.wording import address, command, link, page

RECORDING = "recording.yaml"
ALERTS = "alerts.yaml"
ALERTMANAGER = "alertmanager.yaml"
OBJECT = "prometheusrule.yaml"
OPERATOR: Mapping[str, Mapping[str, str]] = {
    "kube-prometheus-stack": {},
    "openshift": {"openshift.io/prometheus-rule-evaluation-scope": "leaf-prometheus"},
}
"""Presets that want one object for the Prometheus operator, and its labels. Their Alertmanager lets a critical alert
inhibit each warning of its name in the namespace, so the two have different names."""
_RECORDED: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (files("penstock.assets") / RECORDING).read_text("utf-8")
)
"""Group of rules → name → a value a queue, of one broker."""
_HEADER = "# Made by `penstock alerts write`: change it by --values, not here.\n"


def over_brokers(value: str, values: AlertValues = DEFAULT) -> str:
    """Sum of a value a queue over the brokers that hold a part of it.

    The maximum by node id first: two agents on one broker, under one name or two, and both brokers of a failover pair
    count once. The identity stays: one cluster's is never added to another's.
    """
    of_broker = values.labels_of("job", "instance", "broker")
    nodes = f'max by ({of_broker}, node_id) (mq_broker_info{{role="active"}})'
    of_nodes = f"{value} * on ({of_broker}) group_left (node_id) {nodes}"
    by_node = f"max by ({values.labels_of('address', 'queue', 'node_id')}) ({of_nodes})"
    return f"sum by ({values.labels_of('address', 'queue')}) ({by_node})"


def recordings(values: AlertValues = DEFAULT) -> dict[str, list[dict[str, str]]]:
    """Group of rules → its recording rules, in the order of the file."""
    return {
        group: [_recorded(*one, values) for one in named.items()]
        for group, named in _RECORDED.items()
    }


def _recorded(name: str, value: str, values: AlertValues) -> dict[str, str]:
    of_all_brokers = name.startswith("address_queue:")
    of_one = f"max by ({values.labels_of('broker', 'address', 'queue')}) ({value})"
    expression = over_brokers(value, values) if of_all_brokers else of_one
    return {
        text: filled(own, values.names())
        for text, own in (("record", name), ("expr", expression))
    }


def rule_files(values: AlertValues = DEFAULT) -> dict[str, str]:
    """File name → text."""
    recording = [
        {"name": name, "rules": rules} for name, rules in recordings(values).items()
    ]
    of_group = groups(values)
    both = {
        one.name
        for alerts in of_group.values()
        for one in alerts
        if one.severity == "critical"
    } & {
        one.name
        for alerts in of_group.values()
        for one in alerts
        if one.severity != "critical"
    }
    split = both if values.preset in OPERATOR else set()
    alerting = [
        {
            "name": name,
            "rules": [_alert(one, values, renamed=one.name in split) for one in alerts],
        }
        for name, alerts in of_group.items()
    ]
    routing = {ALERTMANAGER: _alertmanager(values)}
    if values.preset in OPERATOR:
        selected_by = {"release": values.release} if values.release else {}
        metadata = {
            "name": "penstock",
            "labels": {**OPERATOR[values.preset], **selected_by},
        }
        made = {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": metadata,
        }
        return {
            OBJECT: _text({**made, "spec": {"groups": recording + alerting}}),
            **routing,
        }
    head = {"namespace": "penstock"} if values.preset == "mimir" else {}
    texts = {
        RECORDING: _text({**head, "groups": recording}),
        ALERTS: _text({**head, "groups": alerting}),
    }
    return texts | routing


def all_alerts(values: AlertValues = DEFAULT) -> Iterator[AlertRule]:
    """Every alert; a warning and a critical one may share a name."""
    for alerts in groups(values).values():
        yield from alerts


def _alert(
    alert: AlertRule, values: AlertValues, *, renamed: bool
) -> dict[str, object]:
    text = section(alert.runbook, alert.name)
    parts = (
        alert.description,
        f"Impact: {part(text, 'Impact')}",
        f"Action: {part(text, 'Do')}",
    )
    return {
        "alert": alert.name
        + ("Critical" if renamed and alert.severity == "critical" else ""),
        "expr": alert.expr,
        "for": alert.wait,
        "keep_firing_for": alert.keep,
        "labels": {
            **values.labels,
            "severity": values.severities.get(alert.severity, alert.severity),
        },
        "annotations": {
            "summary": alert.summary,
            "description": "\n".join([*parts, f"Explain: {command(alert.labels)}"]),
            "runbook_url": f"{address(values.runbooks_url, f'{alert.runbook}.html')}#{alert.name.lower()}",
            "dashboard_url": link(
                values.grafana_url, alert.dashboard, (*values.identity, *alert.labels)
            ),
            "agent_url": page(values.agent_url, alert.labels),
        },
    }


def _alertmanager(values: AlertValues) -> str:
    """Routes and inhibition for Alertmanager, with these labels and severities."""
    text = files("penstock.assets").joinpath(ALERTMANAGER).read_text(encoding="utf-8")
    severities = {
        name: values.severities.get(name, name)
        for name in ("critical", "warning", "info")
    }
    return filled(text, {"across": values.names()["across"], **severities})


def _text(document: dict[str, object]) -> str:
    return _HEADER + yaml.safe_dump(
        document, sort_keys=False, width=10_000, allow_unicode=True
    )
