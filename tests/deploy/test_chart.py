"""The chart: its objects against Kubernetes' schemas, its configuration against ours, wrong values."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy import chart
from deploy.custom import SPECS
from deploy.test_examples import probed_port
from penstock.assets.rule_files import OBJECT, rule_files
from penstock.assets.values import AlertValues
from penstock.config import load
from penstock.config.web import WebConfig
from penstock.server import DEFAULT_PORT
from rig import prometheus

KUBERNETES = {"1.25": "1.25.0", "newest": "1.37.0"}
CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "GrafanaDashboard", "ScheduledSparkApplication"}

needs_helm = pytest.mark.skipif(chart.helm() is None, reason="needs helm; make test-chart brings it")


def test_schema_and_readme_are_up_to_date() -> None:
    made = subprocess.run(
        [sys.executable, str(chart.TOP / "helm" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_one_of_kubernetes(version: str) -> None:
    checked = set()
    for _, manifest in chart.every():
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, KUBERNETES[version].rpartition(".")[0], strict=True)
            checked.add(manifest["kind"])
    assert {"Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "CronJob", "NetworkPolicy"} <= checked


def test_objects_of_operators_hold_only_what_they_know() -> None:
    """Those of the Prometheus operator are tried on a real API server: `make test-cluster`."""
    seen = set()
    for _, manifest in chart.every():
        what = manifest["kind"], manifest["apiVersion"]
        if what in SPECS:
            jsonschema.validate(manifest["spec"], SPECS[what])
            seen.add(what)
    assert seen == SPECS.keys()


def one(variant: str, kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (
        manifest
        for manifest in chart.golden(variant)
        if manifest["kind"] == kind and manifest["metadata"]["name"].endswith(name)
    )
    return found


@pytest.mark.parametrize("variant", ["minimal", "sharded", "full"])
def test_the_rendered_configuration_is_valid(variant: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(one(variant, "ConfigMap", "r-penstock")["data"]["penstock.yaml"])
    config = load(file, {"B1_PASSWORD": "x", "ARTEMIS_PASSWORD": "x"})
    assert config.brokers or config.discovery.dns


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_the_agent_is_probed_where_nothing_else_is_served(variant: str) -> None:
    """Also with TLS and users; and no other pod reaches it where there is a network policy."""
    (workload,) = (one for one in chart.golden(variant) if one["kind"] in {"Deployment", "StatefulSet"})
    port = probed_port(workload["spec"]["template"]["spec"]["containers"][0])
    assert port not in (DEFAULT_PORT, None)
    for policy in (one for one in chart.golden(variant) if one["kind"] == "NetworkPolicy"):
        assert {rule["port"] for ingress in policy["spec"]["ingress"] for rule in ingress["ports"]} == {"http"}


def test_the_rendered_web_configuration_is_valid(tmp_path: Path) -> None:
    text = one("full", "Secret", "-web")["stringData"]["web.yaml"]
    web = yaml.safe_load(text.replace("/etc/penstock/tls/tls.", str(tmp_path / "tls.")))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    assert WebConfig.model_validate(web).tls_server_config is not None


@needs_helm
@pytest.mark.prometheus
def test_the_rules_have_what_the_values_say(tmp_path: Path) -> None:
    made = chart.run_helm("template", "r", str(chart.CHART), "--values", str(chart.values_of("full")))
    (found,) = (one for one in yaml.safe_load_all(made.stdout) if one and one["kind"] == "PrometheusRule")
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": found["spec"]["groups"]}))
    subprocess.run([prometheus.tool("promtool"), "check", "rules", file], check=True, capture_output=True)
    assert "@" not in file.read_text()
    rules = {rule["alert"]: rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule}
    expected = {rule["alert"]: rule for rule in shipped() if "alert" in rule}
    assert expected.keys() - rules.keys() == {"PenstockHoarding", "PenstockNoConsumer", "PenstockNoConsumerCritical"}
    assert rules["PenstockDeadLettersGrowing"]["expr"].endswith("> 0")
    assert rules["PenstockRejectingCritical"]["for"] == "3m"
    assert rules["PenstockRejectingCritical"]["labels"] == {"severity": "page", "team": "messaging"}
    assert rules["PenstockRejecting"]["labels"] == {"severity": "warning", "team": "messaging"}
    texts = rules["PenstockRejecting"]["annotations"]
    assert texts["runbook_url"] == "https://wiki.example/runbooks/brokers.md#penstockrejecting"
    assert not {"dashboard_url", "agent_url"} & texts.keys(), "a link to nowhere is none"
    assert texts["explain"] == expected["PenstockRejecting"]["annotations"]["explain"]


def shipped() -> list[dict[str, Any]]:
    """The rules that the same preset writes."""
    document = yaml.safe_load(rule_files(AlertValues(preset="kube-prometheus-stack"))[OBJECT])
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def test_every_pod_is_restricted() -> None:
    pods = [
        manifest["spec"]["template"]
        for _, manifest in chart.every()
        if manifest["kind"] in ("Deployment", "StatefulSet")
    ]
    pods += [m["spec"]["jobTemplate"]["spec"]["template"] for _, m in chart.every() if m["kind"] == "CronJob"]
    pods += [manifest for _, manifest in chart.every() if manifest["kind"] == "Pod"]
    assert len(pods) >= len(chart.VARIANTS) * 2
    for pod in pods:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec["automountServiceAccountToken"]
        for container in spec["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_selectors_hold_only_what_never_changes() -> None:
    for _, manifest in chart.every():
        if manifest["kind"] in ("Deployment", "StatefulSet"):
            labels = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/instance": "r"}
            assert manifest["spec"]["selector"]["matchLabels"] == labels


def test_the_agents_of_a_stateful_set_share_the_brokers() -> None:
    pod = one("sharded", "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert "--shard=$(POD_NAME)/3" in pod["args"]
    assert not any(
        "--shard" in argument
        for argument in one("minimal", "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    )


def test_each_monitor_selects_a_service_or_pod_of_the_chart() -> None:
    monitor, service = one("full", "ServiceMonitor"), one("full", "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {port["name"] for port in service["spec"]["ports"]} >= {end["port"] for end in monitor["spec"]["endpoints"]}
    pod = one("podmonitor", "Deployment")["spec"]["template"]
    assert (
        one("podmonitor", "PodMonitor")["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    )


@needs_helm
@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_the_output_is_the_golden_one(variant: str) -> None:
    assert chart.rendered(variant) == chart.golden(variant), "if that is meant: make chart-golden"


@needs_helm
@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_lint(variant: str) -> None:
    made = chart.run_helm("lint", "--strict", str(chart.CHART), "--values", str(chart.values_of(variant)))
    assert made.returncode == 0, made.stdout


@needs_helm
@pytest.mark.prometheus
def test_the_rendered_rules_pass_promtool(tmp_path: Path) -> None:
    made = chart.run_helm(
        "template",
        "r",
        str(chart.CHART),
        "--values",
        str(chart.values_of("full")),
        "--show-only",
        "templates/prometheusrule.yaml",
    )
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(made.stdout)["spec"]))
    command = [str(prometheus.tool("promtool")), "check", "rules", str(tmp_path / "rules.yaml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


REFUSED = {
    "no broker": (["config.brokers=null"], "config.brokers: name at least one broker"),
    "unknown key": (["imge.tag=1"], "additional properties 'imge' not allowed"),
    "unknown key of the configuration": (["config.brokers[0].usrname=x"], "'usrname' not allowed"),
    "kind": (["kind=DaemonSet"], "at '/kind': value must be one of 'Deployment', 'StatefulSet'"),
    "type": (["replicas=two"], "at '/replicas': got string, want integer"),
    "replicas of a Deployment": (["replicas=2"], "replicas: several agents need kind: StatefulSet"),
    "two monitors": (["serviceMonitor.enabled=true", "podMonitor.enabled=true"], "podMonitor.enabled: with"),
    "claim": (["kind=StatefulSet", "persistence.existingClaim=x"], "persistence.existingClaim: a StatefulSet makes"),
    "web": (["web.config.rate_limit.burst=2", "web.existingSecret=x"], "web.existingSecret: stands beside"),
    "scheme": (
        ["web.config.tls_server_config.cert_file=x", "serviceMonitor.enabled=true"],
        "serviceMonitor.scheme: must be https",
    ),
    "trends without history": (["trends.mode=cronjob"], "trends.history, trends.out: say where"),
    "trends on nobody's disk": (
        ["trends.mode=cronjob", "trends.history=file:///data/h", "trends.out=file:///data/o"],
        "trends.history: the trend job could not read it",
    ),
    "trends on the disk of each": (
        ["kind=StatefulSet", "trends.mode=cronjob", "trends.history=file:///data/h", "trends.out=file:///data/o"],
        "trends.history: each pod of a StatefulSet has a claim of its own",
    ),
}  # fmt: skip


@needs_helm
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_values_are_refused_with_the_key(name: str) -> None:
    values, why = REFUSED[name]
    sets = [part for value in values for part in ("--set", value)]
    made = chart.run_helm("template", "r", str(chart.CHART), "--values", str(chart.values_of("minimal")), *sets)
    assert made.returncode != 0
    assert why in made.stderr
