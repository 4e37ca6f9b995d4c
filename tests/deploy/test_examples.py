"""The sidecars, the unit and the compose file: what they say holds."""

import configparser
import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from penstock.agent.factory import origin_of
from penstock.agent.process import limit_mib
from penstock.cli import main
from penstock.config import load
from penstock.server import DEFAULT_PORT
from rig import prometheus
from rig.prometheus import tool

DEPLOY = Path(__file__).parents[2] / "deploy"
SIDECAR = DEPLOY / "sidecar"
AGENT_SERIES = 3_750_000
SIDECAR_SERIES = 750_000
"""What the limits of chart and unit, with a worker process, and of the sidecars hold: 100,000 and 20,000 queues with a
consumer each.
"""
BROKER = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "ex-aao-ss"},
    "spec": {
        "serviceName": "ex-aao-hdls-svc",
        "selector": {"matchLabels": {"app": "broker"}},
        "template": {
            "metadata": {"labels": {"app": "broker"}},
            "spec": {"containers": [{"name": "broker", "image": "broker:1"}]},
        },
    },
}


def patched(patch: dict[str, Any], target: Any = BROKER) -> Any:
    """As a strategic merge does it for what the patches use: maps merge, lists of named things are joined."""
    if not isinstance(target, dict):
        return patch
    made = copy.deepcopy(target)
    for key, value in patch.items():
        if isinstance(value, list):
            made[key] = [*made.get(key, []), *value]
        elif isinstance(value, dict):
            made[key] = patched(value, made.get(key, {}))
        else:
            made[key] = value
    return made


def patch(name: str) -> Any:
    return yaml.safe_load((SIDECAR / name).read_text())


PATCHES = {
    "plain": lambda: patch("statefulset-patch.yaml"),
    "native": lambda: patch("statefulset-native-patch.yaml"),
    "operator": lambda: patch("activemqartemis.yaml")["spec"]["resourceTemplates"][0][
        "patch"
    ],
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_broker_is_a_lawful_object(name: str) -> None:
    made = patched(PATCHES[name]())
    kubernetes_validate.validate(made, "1.37", strict=True)
    assert (
        made["spec"]["template"]["metadata"]["labels"].items()
        >= patch("podmonitor.yaml")["spec"]["selector"]["matchLabels"].items()
    )


def test_the_three_ways_run_the_same_sidecar() -> None:
    plain = PATCHES["plain"]()["spec"]["template"]["spec"]
    native = PATCHES["native"]()["spec"]["template"]["spec"]
    operator = PATCHES["operator"]()["spec"]["template"]["spec"]
    assert native["initContainers"][0].pop("restartPolicy") == "Always"
    (host,) = (
        one for one in operator["containers"][0]["env"] if one["name"] == "BROKER_HOST"
    )
    # As the operator's image says it: the console is bound to what `hostname -f` gives in the pod.
    assert (
        host["value"]
        == "$(POD_NAME).ex-aao-hdls-svc.$(POD_NAMESPACE).svc.cluster.local"
    )
    assert patch("activemqartemis.yaml")["metadata"]["name"] == "ex-aao"
    operator["containers"][0]["env"] = [
        {"name": "BROKER_HOST", "value": "localhost"} if one is host else one
        for one in operator["containers"][0]["env"]
        if one["name"] != "POD_NAMESPACE"
    ]
    assert plain["containers"] == operator["containers"] == native["initContainers"]
    assert plain["volumes"] == operator["volumes"] == native["volumes"]
    assert plain["containers"][0]["ports"][0]["containerPort"] == DEFAULT_PORT


def test_the_sidecars_configuration_takes_its_name_from_the_pod() -> None:
    environ = {
        "POD_NAME": "ex-aao-ss-0",
        "PENSTOCK_PASSWORD": "x",
        "BROKER_HOST": "ex-aao-ss-0.ex-aao-hdls-svc",
    }
    (broker,) = load(SIDECAR / "penstock.yaml", environ).brokers
    assert broker.name == "ex-aao-ss-0"
    assert origin_of(broker) == "http://ex-aao-ss-0.ex-aao-hdls-svc"


@pytest.mark.parametrize("name", PATCHES)
def test_a_sidecar_runs_as_whom_the_platform_says(name: str) -> None:
    """OpenShift gives each namespace its own users."""
    spec = PATCHES[name]()["spec"]["template"]["spec"]
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        assert "runAsUser" not in container["securityContext"]
        assert container["securityContext"]["runAsNonRoot"]


def test_the_plain_configuration_is_valid(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x")
    text = (DEPLOY / "plain" / "penstock.yaml").read_text()
    (tmp_path / "penstock.yaml").write_text(
        text.replace("/run/secrets/broker-password", str(tmp_path / "password"))
    )
    assert load(tmp_path / "penstock.yaml", {}).brokers


def test_the_collector_scrapes_as_a_prometheus_does(tmp_path: Path) -> None:
    """What its receiver is given is a Prometheus configuration; each part of the pipeline is there."""
    found = yaml.safe_load((DEPLOY / "plain" / "otel-collector.yaml").read_text())
    scraped = found["receivers"]["prometheus"]["config"]
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"penstock.example:{DEFAULT_PORT}"]}]
    assert job["honor_labels"], "broker, queue and client are Penstock's own"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(scraped))
    done = subprocess.run(
        [tool("promtool"), "check", "config", tmp_path / "prometheus.yml"], check=False
    )
    assert done.returncode == 0
    for pipeline in found["service"]["pipelines"].values():
        for part, names in pipeline.items():
            assert set(names) <= found[part].keys()
    assert found["processors"]["batch"]["send_batch_max_size"] <= 8192, (
        "a receiver takes 4 MiB in one message"
    )
    named = {
        one["key"]: one["value"]
        for one in found["processors"]["resource"]["attributes"]
    }
    assert named["service.name"] == "penstock"


def test_the_compose_file_mounts_what_the_configuration_names() -> None:
    compose = yaml.safe_load((DEPLOY / "plain" / "compose.yaml").read_text())
    service = compose["services"]["penstock"]
    assert (
        DEPLOY / "plain" / service["build"]["context"] / service["build"]["dockerfile"]
    ).is_file()
    assert service["ports"] == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]
    assert set(service["secrets"]) == set(compose["secrets"])


def test_compose_mounts_what_is_there_and_its_files_are_lawful(tmp_path: Path) -> None:
    """All names lead to services, all files exist, and each is read by its own tool."""
    folder = DEPLOY / "compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    assert services.keys() == {
        "password",
        "broker",
        "penstock",
        "prometheus",
        "alertmanager",
        "grafana",
    }
    for service in services.values():
        assert (
            re.search(r":v?\d+\.\d+\.\d+$", service["image"])
            if "image" in service
            else service["build"]
        )
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (
                (folder / source).exists()
                if source.startswith(".")
                else source in compose["volumes"]
            ), volume
    texts = [
        path.read_text()
        for path in folder.rglob("*.yaml")
        if path.name != "compose.yaml"
    ]
    assert {
        host
        for text in texts
        for host in re.findall(r"(?:http://|\[\")(\w+):\d+", text)
    } <= services.keys()
    text = (folder / "compose.yaml").read_text()
    assert re.findall(r"\$\{\w+:?\?", text) == [], "nothing has to be said"
    made = tmp_path / "password"
    made.write_text("x")
    config = tmp_path / "penstock.yaml"
    config.write_text(
        (folder / "penstock.yaml")
        .read_text()
        .replace("/run/password/broker", str(made))
    )
    (broker,) = load(config, {}).brokers
    assert broker.username == services["broker"]["environment"]["ARTEMIS_USER"]
    (source,) = yaml.safe_load((folder / "grafana/datasources.yaml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((folder / "grafana/dashboards.yaml").read_text())[
        "providers"
    ]
    assert any(
        one.split(":")[1] == provider["options"]["path"]
        for one in services["grafana"]["volumes"]
    )


def test_the_password_of_compose_is_made_once_and_every_service_reads_it(
    tmp_path: Path,
) -> None:
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())[
        "services"
    ]
    (script,) = services["password"]["command"]
    made = []
    for _ in range(2):
        here = script.replace("/run/password", str(tmp_path))
        subprocess.run([*services["password"]["entrypoint"], here], check=True)
        made.append((tmp_path / "broker").read_text())
        (tmp_path / "broker").chmod(0o644)
    assert re.fullmatch("[0-9a-f]{32}", made[0])
    assert made[1] == made[0]
    for name in ("broker", "penstock"):
        assert "password:/run/password:ro" in services[name]["volumes"]
        assert (
            services[name]["depends_on"]["password"]["condition"]
            == "service_completed_successfully"
        )


def test_the_broker_of_compose_gets_the_password_that_was_made(tmp_path: Path) -> None:
    """As the entry point of its image takes it, from the environment."""
    broker = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())[
        "services"
    ]["broker"]
    (tmp_path / "broker").write_text("made")
    image = tmp_path / "docker-run.sh"
    image.write_text('#!/bin/sh\necho "$@ $ARTEMIS_PASSWORD"\n')
    image.chmod(0o755)
    (script,) = broker["command"]
    here = (
        script.replace("$$", "$")
        .replace("/run/password", str(tmp_path))
        .replace("/docker-run.sh", str(image))
    )
    done = subprocess.run(
        [*broker["entrypoint"], here], check=True, capture_output=True, text=True
    )
    assert done.stdout == "run made\n"


@pytest.mark.prometheus
def test_promtool_takes_the_configuration_of_compose(tmp_path: Path) -> None:
    text = (DEPLOY / "compose" / "prometheus.yaml").read_text()
    file = tmp_path / "prometheus.yaml"
    file.write_text(
        text.replace("/etc/prometheus/penstock", str(DEPLOY.parent / "alerts"))
    )
    done = subprocess.run(
        [prometheus.tool("promtool"), "check", "config", file],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def unit() -> configparser.RawConfigParser:
    """The unit of systemd."""
    found = configparser.RawConfigParser(strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(DEPLOY / "plain" / "penstock.service")
    return found


def test_the_unit_outlives_signals_and_reloads_once_it_is_ready(
    unit: configparser.RawConfigParser,
) -> None:
    """A hangup is a good end to systemd, after which `on-failure` starts nothing."""
    service = unit["Service"]
    assert service["Restart"] == "always"
    assert (service["Type"], service["ExecReload"]) == (
        "notify",
        "/bin/kill -HUP $MAINPID",
    )


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="needs systemd-analyze: apt-get install systemd",
)
def test_systemd_understands_the_whole_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "plain" / "penstock.service").read_text()
    there = tmp_path / "penstock.service"
    there.write_text(text.replace("/opt/penstock/bin/penstock", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(there)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "penstock.service" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_the_unit_starts_a_command_that_there_is(
    unit: configparser.RawConfigParser,
) -> None:
    _, command, *options = unit["Service"]["ExecStart"].split()
    parameters = main.get_command(None, command).params  # type: ignore[arg-type,union-attr]
    known = {option for parameter in parameters for option in parameter.opts}
    assert {option.partition("=")[0] for option in options} <= known


def test_a_sidecar_is_probed_where_nothing_else_is_served() -> None:
    (container,) = PATCHES["plain"]()["spec"]["template"]["spec"]["containers"]
    assert probed_port(container) not in (DEFAULT_PORT, None)


def probed_port(container: dict[str, Any]) -> int | None:
    """Where all probes go, if the agent serves them there."""
    probes = [
        container[one]
        for one in ("livenessProbe", "readinessProbe")
        if one in container
    ]
    (name,) = {one["httpGet"]["port"] for one in probes}
    assert not any("scheme" in one["httpGet"] for one in probes), (
        "this address has no TLS"
    )
    port: int = {one["name"]: one["containerPort"] for one in container["ports"]}[name]
    return port if f"--web.probe-listen-address=:{port}" in container["args"] else None


@pytest.mark.parametrize(
    ("file", "series"),
    [
        ("helm/penstock/values.yaml", AGENT_SERIES),
        ("deploy/plain/penstock.service", AGENT_SERIES),
        ("helm/penstock/templates/_sidecar.tpl", SIDECAR_SERIES),
        *((f"deploy/sidecar/{name}", SIDECAR_SERIES) for name in
          ("activemqartemis.yaml", "statefulset-patch.yaml", "statefulset-native-patch.yaml")),
    ],
)  # fmt: skip
def test_memory_is_limited_to_what_so_many_series_need(file: str, series: int) -> None:
    text = (DEPLOY.parent / file).read_text()
    (allowed,) = re.findall(
        r"^ *(?:limits: \{memory: |MemoryMax=)(\d+)Mi?\}?$", text, re.MULTILINE
    )
    assert int(allowed) == limit_mib(
        series, others=int(series == AGENT_SERIES)
    )  # which a worker process has
