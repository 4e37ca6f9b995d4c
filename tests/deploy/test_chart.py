"""The chart: its objects against Kubernetes' schemas, its configuration against ours, wrong values."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cli.documented import parse
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
CUSTOM = {
    "ServiceMonitor", "PodMonitor", "PrometheusRule", "AlertmanagerConfig", "GrafanaDashboard",
    "ScheduledSparkApplication", "Route",
}  # fmt: skip

needs_helm = pytest.mark.skipif(
    chart.helm() is None, reason="needs helm; make test-chart brings it"
)


@pytest.mark.slow  # half a second: all objects
def test_schema_and_readme_are_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(chart.TOP / "helm" / "generate.py")
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    assert runpy.run_path(script)["main"]() == 0, capsys.readouterr().err


@pytest.mark.slow  # half a second: all objects
@pytest.mark.parametrize(
    "version", ["newest", pytest.param("1.25", marks=pytest.mark.slow)]
)  # half a second
def test_every_object_is_one_of_kubernetes(version: str) -> None:
    checked = set()
    for _, manifest in chart.every():
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(
                manifest, KUBERNETES[version].rpartition(".")[0], strict=True
            )
            checked.add(manifest["kind"])
    assert {
        "Deployment",
        "StatefulSet",
        "Service",
        "ConfigMap",
        "Secret",
        "CronJob",
        "NetworkPolicy",
    } <= checked


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
    (workload,) = (
        one
        for one in chart.golden(variant)
        if one["kind"] in {"Deployment", "StatefulSet"}
    )
    port = probed_port(workload["spec"]["template"]["spec"]["containers"][0])
    assert port not in (DEFAULT_PORT, None)
    for policy in (
        one for one in chart.golden(variant) if one["kind"] == "NetworkPolicy"
    ):
        assert {
            rule["port"]
            for ingress in policy["spec"]["ingress"]
            for rule in ingress["ports"]
        } == {"http"}


def test_the_rendered_web_configuration_is_valid(tmp_path: Path) -> None:
    text = one("full", "Secret", "-web")["stringData"]["web.yaml"]
    web = yaml.safe_load(text.replace("/etc/penstock/tls/tls.", str(tmp_path / "tls.")))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    assert WebConfig.model_validate(web).tls_server_config is not None


@needs_helm
@pytest.mark.prometheus
def test_the_rules_have_what_the_values_say(tmp_path: Path) -> None:
    made = chart.run_helm(
        "template", "r", str(chart.CHART), "--values", str(chart.values_of("full"))
    )
    (found,) = (
        one
        for one in yaml.safe_load_all(made.stdout)
        if one and one["kind"] == "PrometheusRule"
    )
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": found["spec"]["groups"]}))
    subprocess.run(
        [prometheus.tool("promtool"), "check", "rules", file],
        check=True,
        capture_output=True,
    )
    assert "@" not in file.read_text()
    rules = {
        rule["alert"]: rule
        for group in found["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    expected = {rule["alert"]: rule for rule in shipped() if "alert" in rule}
    assert expected.keys() - rules.keys() == {
        "PenstockHoarding",
        "PenstockNoConsumer",
        "PenstockNoConsumerCritical",
    }
    assert rules["PenstockDeadLettersGrowing"]["expr"].endswith("> 0")
    assert rules["PenstockRejectingCritical"]["for"] == "3m"
    assert rules["PenstockRejectingCritical"]["labels"] == {
        "severity": "page",
        "team": "messaging",
    }
    assert rules["PenstockRejecting"]["labels"] == {
        "severity": "warning",
        "team": "messaging",
    }
    texts = rules["PenstockRejecting"]["annotations"]
    assert (
        texts["runbook_url"]
        == "https://wiki.example/runbooks/brokers.html#penstockrejecting"
    )
    assert not {"dashboard_url", "agent_url"} & texts.keys(), (
        "a link to nowhere is none"
    )
    assert (
        texts["description"]
        == expected["PenstockRejecting"]["annotations"]["description"]
    )


def shipped() -> list[dict[str, Any]]:
    """The rules that the same preset writes."""
    document = yaml.safe_load(
        rule_files(AlertValues(preset="kube-prometheus-stack"))[OBJECT]
    )
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def test_every_pod_is_restricted() -> None:
    pods = [
        manifest["spec"]["template"]
        for _, manifest in chart.every()
        if manifest["kind"] in ("Deployment", "StatefulSet")
    ]
    pods += [
        m["spec"]["jobTemplate"]["spec"]["template"]
        for _, m in chart.every()
        if m["kind"] == "CronJob"
    ]
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
            labels = {
                "app.kubernetes.io/name": "penstock",
                "app.kubernetes.io/instance": "r",
            }
            assert manifest["spec"]["selector"]["matchLabels"] == labels


def agent(variant: str) -> dict[str, Any]:
    (workload,) = (
        one
        for one in chart.golden(variant)
        if one["kind"] in {"Deployment", "StatefulSet"}
    )
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_a_change_of_the_configuration_reaches_the_agent(variant: str) -> None:
    """A file that is mounted by subPath stays as it was, and a checksum in the pod restarts it."""
    container = agent(variant)["containers"][0]
    assert not any("subPath" in mount for mount in container["volumeMounts"])
    (file,) = (
        one.partition("=")[2]
        for one in container["args"]
        if one.startswith("--config.file=")
    )
    assert str(Path(file).parent) in {
        mount["mountPath"] for mount in container["volumeMounts"]
    }
    assert "--config.watch" in container["args"]


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_the_agent_starts_with_options_that_there_are(variant: str) -> None:
    container = agent(variant)["containers"][0]
    words = [word.replace("$(POD_NAME)", "p-0") for word in container["args"]]
    parse(" ".join(["penstock", *words]))


@pytest.mark.parametrize("variant", ["full", "platform"])
def test_the_trend_job_is_a_command_that_there_is(variant: str) -> None:
    job = one(variant, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    parse(" ".join(["penstock", *job["containers"][0]["args"]]))


def test_the_spark_operator_starts_a_file_that_there_is() -> None:
    """As the entry point of the image takes it."""
    template = one("podmonitor", "ScheduledSparkApplication")["spec"]["template"]
    (_, inside) = template["mainApplicationFile"].split("/site-packages/")
    assert (chart.TOP / "exporter" / inside).is_file()
    account = template["driver"]["serviceAccount"]
    binding = one("podmonitor", "RoleBinding")
    assert binding["subjects"][0]["name"] == account
    assert one("podmonitor", "Role")["metadata"]["name"] == binding["roleRef"]["name"]
    assert "automountServiceAccountToken" not in one(
        "podmonitor", "ServiceAccount", account
    )
    pinned = re.search(
        r"^pyspark==(\S+)",
        (chart.TOP / "deploy/image/requirements-trends.txt").read_text(),
        re.MULTILINE,
    )
    assert pinned
    assert template["sparkVersion"] == pinned[1]


def test_names_are_short_enough_for_what_is_made_of_them() -> None:
    longest = one("platform", "Deployment")["metadata"]["name"]
    assert len(longest) == 52
    for _, manifest in chart.every():
        if manifest["kind"] in {
            "CronJob",
            "ScheduledSparkApplication",
            "Deployment",
            "StatefulSet",
        }:
            assert len(manifest["metadata"]["name"]) <= 52


def test_openshift_says_who_a_pod_runs_as() -> None:
    for variant, user in (("platform", None), ("minimal", 10001)):
        assert agent(variant)["securityContext"].get("runAsUser") == user
        assert agent(variant)["securityContext"].get("fsGroup") == user


def test_objects_are_where_others_look_for_them() -> None:
    places = {
        m["kind"]: m["metadata"]["namespace"]
        for m in chart.golden("platform")
        if "namespace" in m["metadata"]
    }
    assert places.pop("PrometheusRule") == "monitoring"
    assert set(places.values()) == {"observability", "grafana"}
    assert all(
        isinstance(value, str)
        for _, m in chart.every()
        for value in m["metadata"].get("labels", {}).values()
    )


def test_the_trend_job_runs_as_the_agent_does_and_its_gauges_come_back() -> None:
    job = one("platform", "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod = agent("platform")
    for key in (
        "tolerations",
        "hostAliases",
        "dnsConfig",
        "dnsPolicy",
        "securityContext",
    ):
        assert job[key] == pod[key]
    assert job["containers"][0]["envFrom"] == pod["containers"][0]["envFrom"]
    assert {"name": "ca", "mountPath": "/ca", "readOnly": True} in job["containers"][0][
        "volumeMounts"
    ]
    assert job["containers"][0]["image"].startswith(
        "registry.example.com/penstock/penstock@sha256:"
    )
    config = yaml.safe_load(
        one("platform", "ConfigMap", one("platform", "Deployment")["metadata"]["name"])[
            "data"
        ]["penstock.yaml"]
    )
    assert config["history"] == {
        "enabled": True,
        "url": "s3://bucket/history",
        "trends": "s3://bucket/trends/gauges.json",
    }


def test_the_agents_of_a_stateful_set_share_the_brokers() -> None:
    pod = one("sharded", "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert "--shard=$(POD_NAME)/3" in pod["args"]
    assert not any(
        "--shard" in argument
        for argument in one("minimal", "Deployment")["spec"]["template"]["spec"][
            "containers"
        ][0]["args"]
    )


def test_each_monitor_selects_a_service_or_pod_of_the_chart() -> None:
    monitor = one("full", "ServiceMonitor")
    service = one("full", "Service")
    assert (
        monitor["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"]["labels"].items()
    )
    assert {port["name"] for port in service["spec"]["ports"]} >= {
        end["port"] for end in monitor["spec"]["endpoints"]
    }
    pod = one("podmonitor", "Deployment")["spec"]["template"]
    assert (
        one("podmonitor", "PodMonitor")["spec"]["selector"]["matchLabels"].items()
        <= pod["metadata"]["labels"].items()
    )


@needs_helm
@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_the_output_is_the_golden_one(variant: str) -> None:
    assert chart.rendered(variant) == chart.golden(variant), (
        "if that is meant: make chart-golden"
    )


@needs_helm
@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_lint(variant: str) -> None:
    made = chart.run_helm(
        "lint", "--strict", str(chart.CHART), "--values", str(chart.values_of(variant))
    )
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
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump(yaml.safe_load(made.stdout)["spec"])
    )
    command = [
        str(prometheus.tool("promtool")),
        "check",
        "rules",
        str(tmp_path / "rules.yaml"),
    ]
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
    "scheme of a Secret": (
        ["web.existingSecret=x", "web.existingSecretHasTls=true", "podMonitor.enabled=true"],
        "podMonitor.scheme: must be https",
    ),
    "users that no scrape names": (
        ["web.config.basic_auth_users.p=$2b$10$Ip3e9TomvyOhjUzY1pCuGO", "serviceMonitor.enabled=true"],
        "serviceMonitor.basicAuth: the web configuration has users, so each scrape would be answered 401",
    ),
    "users of a Secret that no scrape names": (
        ["web.existingSecret=x", "web.existingSecretHasUsers=true", "podMonitor.enabled=true"],
        "podMonitor.basicAuth: the web configuration has users",
    ),
    "a name that no Service may have": (["fullnameOverride=2026x"], 'fullnameOverride: "2026x" begins with no letter'),
    "a link that is a template": (
        ["prometheusRule.grafanaUrl=https://g.example/{{ .x }}"],
        "at '/prometheusRule/grafanaUrl': 'https://g.example/{{ .x }}' does not match pattern",
    ),
    "a section that is null": (["serviceMonitor=null"], "at '': missing property 'serviceMonitor'"),
    "a number that is null": (["service.port=null"], "at '/service': missing property 'port'"),
    "password in the ConfigMap": (["config.brokers[0].password=hunter2"], "config.brokers[0].password: everybody who"),
    "password of a profile": (
        [f"config.discovery.profiles.p.{one}" for one in ("password=hunter2", "url=http://x/", "kind=artemis")],
        "config.discovery.profiles.p.password: everybody",
    ),
    "ingress without a name": (["ingress.enabled=true"], "ingress.host: under which name"),
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


SECTIONS = [
    key
    for key, value in yaml.safe_load((chart.CHART / "values.yaml").read_text()).items()
    if isinstance(value, dict)
]


@needs_helm
def test_each_section_that_is_null_is_named_or_taken_for_none() -> None:
    """In place of a nil pointer in a template."""
    sets = [part for name in SECTIONS for part in ("--set", f"{name}=null")]
    made = chart.run_helm(
        "template",
        "r",
        str(chart.CHART),
        "--values",
        str(chart.values_of("minimal")),
        *sets,
    )
    assert made.returncode != 0
    named = set(re.findall(r"missing property '(\w+)'", made.stderr)) or set(
        re.findall(r"'(\w+)'", made.stderr.partition("missing properties")[2])
    )
    may_be_none = {
        "global",
        "commonLabels",
        "resources",
        "podSecurityContext",
        "securityContext",
        "strategy",
    }
    may_be_none |= {
        "podAnnotations",
        "podLabels",
        "nodeSelector",
        "affinity",
        "dnsConfig",
    }
    assert set(SECTIONS) - named == may_be_none
    nulls = [part for name in may_be_none for part in ("--set", f"{name}=null")]
    made = chart.run_helm(
        "template",
        "r",
        str(chart.CHART),
        "--values",
        str(chart.values_of("minimal")),
        *nulls,
    )
    assert made.returncode == 0, made.stderr


@needs_helm
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_values_are_refused_with_the_key(name: str) -> None:
    values, why = REFUSED[name]
    sets = [part for value in values for part in ("--set", value)]
    made = chart.run_helm(
        "template",
        "r",
        str(chart.CHART),
        "--values",
        str(chart.values_of("minimal")),
        *sets,
    )
    assert made.returncode != 0
    assert why in made.stderr
