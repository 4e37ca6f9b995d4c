"""What all dashboards share: variables, links to each other, annotations, identity."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.generate.panels import (
    DATASOURCE,
    FEW_POINTS,
    IDENTITY,
    MANY_POINTS,
    SCHEMA,
    Json,
    Row,
    Scope,
    chosen,
    laid_out,
)

TAG = "penstock"

_SOURCES = {
    "broker": "mq_up",
    "address": "mq_address_messages",
    "queue": "mq_queue_messages",
    "client": "mq_client_consumers",
}
"""Variable → the family whose label of that name it lists."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """
    One dashboard. variables: labels to choose by, beside data source, job and instance; each one narrows the next.

    single: variables of which exactly one value is chosen. since: the range shown at first.
    """

    uid: str
    title: str
    description: str
    variables: tuple[str, ...]
    rows: tuple[Row, ...]
    single: tuple[str, ...] = ()
    since: str = "now-3h"

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.uid}.json"


def document(dashboard: Dashboard) -> Json:
    """The dashboard as Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "id": None,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "liveNow": False,
        "refresh": "30s",
        "time": {"from": dashboard.since, "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "weekStart": "",
        "links": [_other_dashboards()],
        "templating": {"list": _variables(dashboard)},
        "annotations": {"list": _annotations(dashboard.variables)},
        "panels": [
            _without_chosen(panel, dashboard.single)
            for panel in laid_out(
                dashboard.rows,
                MANY_POINTS if "queue" in dashboard.single else FEW_POINTS,
            )
        ],
    }


def _without_chosen(panel: Json, single: Sequence[str]) -> Json:
    """Its legends without what is chosen above: every line would repeat it."""
    for target in panel.get("targets", ()):
        words = target["legendFormat"].split()
        target["legendFormat"] = " ".join(
            word for word in words if word not in {f"{{{{{name}}}}}" for name in single}
        )
    return panel


def _other_dashboards() -> Json:
    return {
        "title": "Penstock",
        "type": "dashboards",
        "tags": [TAG],
        "asDropdown": True,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "The other dashboards, with the same choice and time",
        "url": "",
    }


def _variables(dashboard: Dashboard) -> list[Json]:
    source = {
        "name": "datasource",
        "label": "Data Source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }
    shared = (*IDENTITY, "job", "instance")
    listed = [
        source,
        *(_variable(name, _agents(shared[:i])) for i, name in enumerate(shared)),
    ]
    for i, name in enumerate(dashboard.variables):
        selector = Scope(dashboard.variables[:i])(_SOURCES[name])
        listed.append(_variable(name, selector, single=name in dashboard.single))
    return listed


def _agents(before: Sequence[str]) -> str:
    """Agents, of what the variables before have."""
    matchers = ",".join(map(chosen, before))
    return f"penstock_build_info{{{matchers}}}" if matchers else "penstock_build_info"


def _variable(name: str, selector: str, *, single: bool = False) -> Json:
    query = f"label_values({selector},{name})"
    everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
    # ".*" also chooses series without a cluster or namespace, and spares Prometheus a look at each queue's name
    choice: Json = (
        {"current": {}} if single else {"current": everything, "allValue": ".*"}
    )
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "hide": 0,
        "includeAll": not single,
        "multi": not single,
        "options": [],
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
        **choice,
    }


def _annotations(variables: Sequence[str]) -> list[Json]:
    scope = Scope(tuple(variables))
    # or without the label: what is said of a broker concerns its queues too
    matchers = ",".join(
        chosen(name, or_absent=True)
        for name in (*IDENTITY, "job", "instance", *variables)
    )
    builtin: Json = {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }
    start = scope("mq_broker_start_timestamp_seconds")
    return [
        builtin,
        _annotation(
            "Broker restarts",
            f"{start} - {start} offset 1m > {RESTART_SECONDS}",
            "#56B4E9",
            "Restart of {{broker}}",
            "broker",
        ),
        _annotation(
            "Firing alerts",
            f'ALERTS{{alertstate="firing",alertname=~"Penstock.+",{matchers}}}',
            "#D55E00",
            "{{alertname}} ({{severity}})",
            "broker,address,queue,client",
        ),
    ]


_STEP = "30s"
RESTART_SECONDS = 5
"""The start of one broker as it is told from poll to poll differs by less."""


def _annotation(name: str, expr: str, color: str, title: str, labels: str) -> Json:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        **_asked(expr),
        "titleFormat": title,
        "tagKeys": labels,
        "useValueForTime": False,
    }


def _asked(expr: str) -> Json:
    """The query in the form of Grafana 10, and as later ones take it."""
    target = {
        "refId": "Anno",
        "datasource": DATASOURCE,
        "expr": expr,
        "interval": _STEP,
        "range": True,
    }
    return {"expr": expr, "step": _STEP, "target": target}
