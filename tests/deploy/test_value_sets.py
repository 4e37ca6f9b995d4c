"""What the chart makes of the values that platforms give it: lawful objects that fit each other, `make test-chart`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cli.documented import parse
from deploy import chart
from deploy.custom import SPECS
from deploy.test_chart import CUSTOM, needs_helm
from penstock.assets.rule_files import ALERTMANAGER, OBJECT, rule_files
from penstock.assets.values import AlertValues
from penstock.config import load
from rig import prometheus

SETS = chart.value_sets()
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
OF_SERVICES = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
AFTER = {"StatefulSet": 11, "CronJob": 11, "ScheduledSparkApplication": 20}
"""Characters that are added to a name for the label of what is made of the object; all of it may have 63."""


def test_there_are_forty_and_each_is_another() -> None:
    assert len(SETS) >= 40
    assert len({yaml.safe_dump(values) for values in SETS.values()}) == len(SETS)


@needs_helm
@pytest.mark.prometheus
@pytest.mark.parametrize("name", SETS)
def test_its_objects_are_lawful(name: str, tmp_path: Path) -> None:
    check(chart.made_of(SETS[name], tmp_path), tmp_path)


@needs_helm
@pytest.mark.prometheus
@pytest.mark.parametrize("variant", chart.VARIANTS)
@pytest.mark.parametrize("number", ["2026", "0x1f"])
def test_a_release_and_a_namespace_may_be_numbers(
    variant: str, number: str, tmp_path: Path
) -> None:
    """All that names them is a text, and every object is found by what names it."""
    values = yaml.safe_load(chart.values_of(variant).read_text())
    manifests = chart.made_of(values, tmp_path, release=number, namespace=number)
    check(manifests, tmp_path)
    own = [
        one
        for one in manifests
        if "app.kubernetes.io/instance" in one["metadata"].get("labels", {})
    ]
    assert {one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in own} == {
        number
    }


def check(manifests: list[chart.Manifest], folder: Path) -> None:
    """Each object is lawful, no two have one name, and pods name what there is."""
    named = [
        (one["kind"], one["metadata"].get("namespace", "mq"), one["metadata"]["name"])
        for one in manifests
    ]
    assert len(set(named)) == len(named)
    for one in manifests:
        lawful(one, folder)
    held = {(kind, called) for kind, _, called in named}
    for pod in pods(manifests):
        fitting(pod, held)


def lawful(manifest: chart.Manifest, folder: Path) -> None:
    """As Kubernetes' and the operators' own schemas say, and where these do not look."""
    kind = manifest["kind"]
    metadata = manifest["metadata"]
    assert isinstance(metadata.get("namespace", ""), str)
    assert (OF_SERVICES if kind == "Service" else NAME).fullmatch(metadata["name"])
    assert len(metadata["name"]) <= 63 - AFTER.get(kind, 0)
    for label, value in metadata.get("labels", {}).items():
        assert isinstance(value, str), label
        assert LABEL.fullmatch(value), (label, value)
    if kind not in CUSTOM:
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    elif (kind, manifest["apiVersion"]) in SPECS:
        jsonschema.validate(manifest["spec"], SPECS[kind, manifest["apiVersion"]])
    if kind == "PrometheusRule":
        rules = folder / "rules.yaml"
        rules.write_text(yaml.safe_dump(manifest["spec"]))
        subprocess.run(
            [prometheus.tool("promtool"), "check", "rules", rules],
            check=True,
            capture_output=True,
        )
    if kind == "ConfigMap" and "penstock.yaml" in manifest.get("data", {}):
        config = folder / "penstock.yaml"
        text = re.sub(
            r"/(?:etc/penstock/secrets|ca)/(\S+)",
            rf"{folder}/\1",
            manifest["data"]["penstock.yaml"],
        )
        for name in re.findall(rf"{folder}/(\S+)", text):
            (folder / name).write_text("x")
        config.write_text(text)
        load(
            config,
            dict.fromkeys(
                ("ARTEMIS_PASSWORD", "B1_PASSWORD", "O1_PASSWORD", "POD_NAME"), "x"
            ),
        )


def pods(manifests: list[chart.Manifest]) -> Iterator[Any]:
    """The specs of all pods; of the Spark operator's in the same form."""
    for one in manifests:
        if one["kind"] == "ScheduledSparkApplication":
            template = one["spec"]["template"]
            command = ["run", *template["arguments"]]
            for role in ("driver", "executor"):
                mounts = template[role]["volumeMounts"]
                container = {
                    "name": "trends",
                    "args": ["trends", *command],
                    "volumeMounts": mounts,
                }
                yield {"volumes": template["volumes"], "containers": [container]}
        if one["kind"] in {"Deployment", "StatefulSet"}:
            claims = [
                {"name": claim["metadata"]["name"]}
                for claim in one["spec"].get("volumeClaimTemplates", [])
            ]
            pod = one["spec"]["template"]["spec"]
            yield pod | {"volumes": pod["volumes"] + claims}
        if one["kind"] == "CronJob":
            yield one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def fitting(pod: Any, held: set[tuple[str, str]]) -> None:
    """What containers mount is there once, and they are started with options that there are."""
    volumes = [one["name"] for one in pod["volumes"]]
    assert len(set(volumes)) == len(volumes)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        mounts = container.get("volumeMounts", [])
        assert {one["name"] for one in mounts} <= set(volumes)
        places = [one["mountPath"] for one in mounts]
        assert len(set(places)) == len(places)
        if container["name"] in {"penstock", "trends"}:
            parse(
                " ".join(["penstock", *container["args"]]).replace("$(POD_NAME)", "p-0")
            )
            assert "/tmp" in places  # noqa: S108 - the root file system is read-only
    own = {one["name"]: one for one in pod["volumes"]}
    for claim in (
        one["persistentVolumeClaim"]
        for one in own.values()
        if "persistentVolumeClaim" in one
    ):
        assert (
            not claim["claimName"].startswith("r-")
            or ("PersistentVolumeClaim", claim["claimName"]) in held
        )
    for config in (one["configMap"] for one in own.values() if "configMap" in one):
        assert (
            not config["name"].startswith("r-") or ("ConfigMap", config["name"]) in held
        )


@needs_helm
def test_the_chart_inhibits_what_the_example_for_alertmanager_does(
    tmp_path: Path,
) -> None:
    """By the labels and severities of its values."""
    rules = {"enabled": True, "inhibition": True, "severities": {"critical": "page"}}
    values = SETS["one broker"] | {"identity": ["region"], "prometheusRule": rules}
    (made,) = (
        one
        for one in chart.made_of(values, tmp_path)
        if one["kind"] == "AlertmanagerConfig"
    )
    written = rule_files(
        AlertValues(identity=("region",), severities={"critical": "page"})
    )[ALERTMANAGER]
    assert [
        {
            f"{side}_matchers": [
                "".join((one["name"], one["matchType"], one["value"]))
                for one in rule[f"{side}Match"]
            ]
            for side in ("source", "target")
        }
        | {"equal": rule["equal"]}
        for rule in made["spec"]["inhibitRules"]
    ] == [
        {
            key: [one.replace(" ", "").replace('"', "") for one in value]
            for key, value in rule.items()
        }
        for rule in yaml.safe_load(written)["inhibit_rules"]
    ]


IDENTITIES: list[tuple[str, ...]] = [
    ("cluster", "namespace"),
    ("region",),
    ("region", "stage", "cluster"),
    (),
]


@needs_helm
@pytest.mark.parametrize("identity", IDENTITIES)
def test_the_labels_that_tell_brokers_apart_are_those_of_the_values(
    identity: tuple[str, ...], tmp_path: Path
) -> None:
    """Rules as `penstock alerts write --values` writes them, dashboards as they would be generated."""
    url = (
        "https://a.example/below/?orgId=2" if len(identity) % 2 else "https://a.example"
    )
    values = SETS["one broker"] | {
        "identity": list(identity),
        "prometheusRule": {
            "enabled": True,
            **dict.fromkeys(("runbooksUrl", "grafanaUrl", "agentUrl"), url),
        },
        "dashboards": {"enabled": True},
    }
    manifests = chart.made_of(values, tmp_path)
    (rules,) = (
        one["spec"]["groups"] for one in manifests if one["kind"] == "PrometheusRule"
    )
    links = dict.fromkeys(("runbooks_url", "grafana_url", "agent_url"), url)
    alert_values = AlertValues(
        preset="kube-prometheus-stack",
        identity=identity,
        **links,  # type: ignore[arg-type]
    )
    written = rule_files(alert_values)[OBJECT]
    assert rules == yaml.safe_load(written)["spec"]["groups"]
    made = {
        name: json.loads(text)
        for one in manifests
        if one["kind"] == "ConfigMap"
        for name, text in one["data"].items()
        if name.endswith(".json")
    }
    assert made == generated(identity)


def generated(identity: tuple[str, ...]) -> dict[str, Any]:
    """The dashboards for other labels, of a process of its own: these are constants of the generator."""
    program = (
        "import json, sys; from msgspec import structs; from penstock.assets import values;"
        "values.DEFAULT = structs.replace(values.DEFAULT, identity=tuple(json.loads(sys.argv[1])));"
        "from dashboards.generate import DASHBOARDS; from dashboards.generate.frame import document;"
        "print(json.dumps({one.file: document(one) for one in DASHBOARDS}))"
    )
    command = [sys.executable, "-c", program, json.dumps(identity)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=chart.TOP
    )
    made: dict[str, Any] = json.loads(done.stdout)
    return made
