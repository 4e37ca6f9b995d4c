# ruff: noqa: INP001 - a script beside the chart, no package
"""`python helm/generate.py [--check]`: schema, README and rules of the chart, from values, config model and alerts."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import json as msgspec_json
from msgspec import structs

from penstock.assets.rule_files import ALERTMANAGER, OBJECT, rule_files
from penstock.assets.thresholds import THRESHOLDS, Thresholds
from penstock.assets.values import URL, AlertValues
from penstock.config import json_schema

CHART = Path(__file__).parent / "penstock"

FREE = {
    "global", "commonLabels", "identity", "imagePullSecrets", "secrets.values", "secrets.existing", "web.config",
    "trends.resources",
    "service.annotations", "service.labels", "service.ipFamilies", "ingress.annotations", "route.annotations",
    "hostAliases", "dnsConfig", "strategy", "initContainers", "extraContainers", "probes.startup",
    "podMonitor.tlsConfig", "podMonitor.basicAuth", "serviceMonitor.labels", "serviceMonitor.tlsConfig",
    "serviceMonitor.basicAuth",
    "serviceMonitor.relabelings", "serviceMonitor.metricRelabelings", "podMonitor.labels", "podMonitor.relabelings",
    "podMonitor.metricRelabelings", "prometheusRule.thresholds", "prometheusRule.labels", "prometheusRule.severities",
    "prometheusRule.alertLabels", "dashboards.labels", "dashboards.instanceSelector",
    "networkPolicy.from", "networkPolicy.egress", "serviceAccount.annotations", "probes.liveness", "probes.readiness",
    "resources", "podSecurityContext", "securityContext", "podAnnotations", "podLabels", "nodeSelector", "tolerations",
    "affinity", "topologySpreadConstraints", "extraArgs", "extraEnv", "extraEnvFrom", "extraVolumes",
    "extraVolumeMounts", "extraManifests", "persistence.accessModes",
}  # fmt: skip
"""Values whose inside is Kubernetes' or the operator's own matter."""

ENUMS = {
    "kind": ["Deployment", "StatefulSet"],
    "logLevel": ["debug", "info", "warning", "error"],
    "logFormat": ["logfmt", "json"],
    "trends.mode": ["disabled", "cronjob", "sparkoperator"],
    "image.pullPolicy": ["Always", "IfNotPresent", "Never"],
    "service.type": ["ClusterIP", "NodePort", "LoadBalancer"],
    "serviceMonitor.scheme": ["http", "https"],
    "podMonitor.scheme": ["http", "https"],
    "service.ipFamilyPolicy": [
        "",
        "SingleStack",
        "PreferDualStack",
        "RequireDualStack",
    ],
    "dnsPolicy": ["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
}

NONE_IF_NULL = {"dashboards.folder", "trends.image.tagSuffix"}
"""Texts that have a default and may be taken away."""

LINKS = {
    "prometheusRule.runbooksUrl",
    "prometheusRule.grafanaUrl",
    "prometheusRule.agentUrl",
}
"""Values that are empty or an address, as of `penstock alerts write`."""

TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}


def schema() -> dict[str, Any]:
    """Of the values: unknown keys are refused, `config` is held to the model of the configuration file."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    config = json_schema()
    definitions = config.pop("$defs")
    config["required"] = []  # existingConfigSecret stands in for it
    made = _schema(values, "")
    made["properties"]["config"] = config
    thresholds = msgspec_json.schema(Thresholds)["$defs"]["Thresholds"]
    made["properties"]["prometheusRule"]["properties"]["thresholds"] = thresholds
    made["properties"]["global"] = {
        "type": "object",
        "description": "Values of a parent chart; others are its own.",
    }
    label = {"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}
    made["properties"]["identity"] |= {"items": label, "uniqueItems": True}
    made["properties"]["secrets"]["properties"]["values"]["additionalProperties"] = {
        "type": "string"
    }
    made["properties"]["podDisruptionBudget"]["properties"]["maxUnavailable"] = {
        "type": ["integer", "string"]
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "$defs": definitions,
    }


def rules() -> str:
    """The groups of the rules with @NAME@ and IDENTITY in place of what the template fills in.

    A critical alert has a name of its own: the Alertmanager of kube-prometheus-stack lets it inhibit, within the
    namespace, all warnings of its name, also those of other queues.
    """
    thresholds = Thresholds(
        **{name: f"@{name}@" for name in Thresholds.__struct_fields__}
    )
    links = {
        "runbooks_url": "runbook_url",
        "grafana_url": "dashboard_url",
        "agent_url": "agent_url",
    }
    urls = {name: f"http://@{link}@/?@{link}_query@" for name, link in links.items()}
    values = AlertValues(
        preset="kube-prometheus-stack",
        identity=("IDENTITY",),
        thresholds=thresholds,
        **urls,
    )
    head = "# Made by `python helm/generate.py`; do not edit.\n"
    spec = yaml.safe_load(rule_files(values)[OBJECT])["spec"]
    text = yaml.safe_dump(spec, sort_keys=False, width=10_000, allow_unicode=True)
    return head + text


def inhibition() -> str:
    """The inhibition of `alertmanager.yaml` in the operator's form, with @NAME@ and IDENTITY as in `rules`."""
    severities: Any = {name: f"@{name}@" for name in ("critical", "warning", "info")}
    text = rule_files(AlertValues(identity=("IDENTITY",), severities=severities))[
        ALERTMANAGER
    ]
    made = [
        {
            "sourceMatch": [*map(_matcher, one["source_matchers"])],
            "targetMatch": [*map(_matcher, one["target_matchers"])],
        }
        | {"equal": one["equal"]}
        for one in yaml.safe_load(text)["inhibit_rules"]
    ]
    head = "# Made by `python helm/generate.py`; do not edit.\n"
    return head + yaml.safe_dump({"inhibitRules": made}, sort_keys=False, width=10_000)


def _matcher(text: str) -> dict[str, str]:
    name, form, value = text.split(maxsplit=2)
    return {"name": name, "matchType": form, "value": value.strip('"')}


def _schema(value: Any, path: str) -> dict[str, Any]:
    if path in ENUMS:
        return {"type": "string", "enum": ENUMS[path]}
    kind = {"type": TYPES[type(value)]}
    if path in LINKS:
        return {**kind, "pattern": f"^$|{URL}"}
    if not isinstance(value, dict) or path in FREE:
        return {**kind, "minimum": 0} if kind["type"] == "integer" else kind
    paths = {key: f"{path}.{key}".lstrip(".") for key in value}
    inside = {key: _schema(one, paths[key]) for key, one in value.items()}
    required = [key for key, one in value.items() if _is_needed(one, paths[key])]
    needed = {"required": required} if required else {}
    return {**kind, "additionalProperties": False, "properties": inside, **needed}


def _is_needed(value: Any, path: str) -> bool:
    """
    Whether a value must not be null, which takes its default away, and a whole section with it.

    What is off or empty by default may be null, and so may what is handed on to Kubernetes, which then decides.
    """
    if isinstance(value, dict):
        return path not in FREE
    if path in NONE_IF_NULL:
        return False
    return bool(value) and not isinstance(value, bool)


def readme() -> str:
    """What the chart is, and a table of its values."""
    rows = "\n".join(
        f"| `{path}` | `{default}` | {text} |" for path, default, text in _rows()
    )
    return f"""\
# The Penstock chart

Generated by `python helm/generate.py`; do not edit.

```bash
helm install penstock helm/penstock --values my-values.yaml
```

No image is published yet: [build it](../../docs/deploy.md#image), push it to your registry and set `image.registry`.

The least that it needs:

```yaml
config:
  brokers:
    - name: b1
      kind: artemis
      url: http://artemis.mq.svc:8161/console/jolokia/
      username: exporter
      password: ${{B1_PASSWORD}}
      origin: http://localhost
secrets:
  existing: [artemis-exporter]   # a Secret with the key B1_PASSWORD
```

Several agents for many brokers: `kind: StatefulSet` and `replicas`. Each broker is watched by exactly one pod; when
that pod is down, its brokers are a visible gap (`mq_up` is absent) until it is back. A change of `replicas` moves
about one broker in N.

## Values

| value | default | meaning |
|---|---|---|
{rows}
"""


def _rows() -> Iterator[tuple[str, str, str]]:
    """Path, default and text of each value, in the order of values.yaml."""
    path: list[str] = []
    text = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if found := re.match(r"\s*# -- (.*)", line):
            text = found[1]
        elif found := re.match(r"( *)([A-Za-z]+):(?: (.*))?$", line):
            path = [*path[: len(found[1]) // 2], found[2]]
            if found[3] is not None or text:
                yield ".".join(path), (found[3] or "…").replace("|", "\\|"), text
            text = ""


def main() -> int:
    made = {
        "values.schema.json": json.dumps(schema(), indent=1) + "\n",
        "README.md": readme(),
        "files/rules.yaml": rules(),
        "files/inhibition.yaml": inhibition(),
        "files/thresholds.yaml": yaml.safe_dump(
            structs.asdict(THRESHOLDS), sort_keys=False
        ),
    }
    stale = [name for name, text in made.items() if not _same(CHART / name, text)]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(  # noqa: T201
                f"{CHART / name} is not up to date; run: python helm/generate.py",
                file=sys.stderr,
            )
        return int(bool(stale))
    for name, text in made.items():
        (CHART / name).write_text(text)
    return 0


def _same(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
