"""What an operator sets of the alerts: thresholds, selection, severities, labels, links, and who reads them."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from click.testing import CliRunner

from penstock.assets.alerts import INCIDENT
from penstock.assets.rule_files import ALERTS, OBJECT, RECORDING, all_alerts, rule_files
from penstock.assets.values import DEFAULT, AlertValues, read_values
from penstock.assets.wording import command
from penstock.cli.main import main
from penstock.core.errors import PenstockError
from rig.prometheus import tool

Json = dict[str, Any]


def rules_of(text: str) -> list[Json]:
    document = yaml.safe_load(text)
    return [
        rule
        for group in document.get("spec", document)["groups"]
        for rule in group["rules"]
    ]


def read(tmp_path: Path, text: str) -> AlertValues:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    return read_values(file)


@pytest.mark.slow  # all boards or rules
def test_an_empty_file_of_values_changes_nothing(tmp_path: Path) -> None:
    assert rule_files(read(tmp_path, "")) == rule_files()


@pytest.mark.slow  # all boards or rules
def test_values_reach_every_rule(tmp_path: Path) -> None:
    values = read(
        tmp_path,
        """
        identity: [region]
        thresholds: {dead_letters: 77, judged_for: 3m, address_used_ratio: 0.75}
        disabled: [PenstockHoarding]
        severities: {critical: page, info: none}
        labels: {team: messaging}
        runbooks_url: https://wiki.example/rb/
        """,
    )
    files = rule_files(values)
    alerts = {rule["alert"]: rule for rule in rules_of(files[ALERTS])}
    assert "PenstockHoarding" not in alerts
    assert "> 77" in alerts["PenstockDeadLettersGrowing"]["expr"]
    assert "> 0.75" in alerts["PenstockAddressNearFull"]["expr"]
    assert alerts["PenstockNoConsumer"]["for"] == "3m"
    assert {rule["labels"]["severity"] for rule in alerts.values()} == {
        "page",
        "warning",
        "none",
    }
    assert {rule["labels"]["team"] for rule in alerts.values()} == {"messaging"}
    assert all(
        rule["annotations"]["runbook_url"].startswith("https://wiki.example/rb/")
        for rule in alerts.values()
    )
    assert not [name for name, rule in alerts.items() if "cluster" in rule["expr"]]
    assert "by (region, job, instance, broker, node_id)" in files[RECORDING]
    assert not [
        one for one in rules_of(files[RECORDING]) if "namespace" in one["expr"]
    ], "it is no identity here"
    assert 'severity = "page"' in files["alertmanager.yaml"]
    assert "equal: [region, broker]" in files["alertmanager.yaml"]


def test_without_the_incident_its_conditions_fire_themselves() -> None:
    values = AlertValues(disabled=frozenset({INCIDENT}))
    assert not [
        alert.name for alert in all_alerts(values) if "in_incident" in alert.expr
    ]
    assert [alert.name for alert in all_alerts() if "in_incident" in alert.expr]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("treshold: 1", "treshold"),
        ("thresholds: {dead_leters: 1}", "dead_leters"),
        ("thresholds: {dead_letters: many}", "thresholds.dead_letters"),
        ("thresholds: {judged_for: 1 minute}", "thresholds.judged_for"),
        ("identity: [a-b]", "identity"),
        ("preset: grafana", "preset"),
        ("grafana_url: grafana", "grafana_url"),
        ("grafana_url: 'https://g.example/{{ $x }}'", "grafana_url"),
        ("release: a b", "release"),
        ("labels: {team: 7}", "labels"),
        ("a: [", "values.yaml"),
        ("- a", "values.yaml"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PenstockError, match=says):
        read(tmp_path, text)


def test_an_unknown_alert_is_named() -> None:
    with pytest.raises(PenstockError, match="PenstockHording: no such alert"):
        rule_files(AlertValues(disabled=frozenset({"PenstockHording"})))


@pytest.mark.prometheus
@pytest.mark.parametrize(
    "preset", ["prometheus", "mimir", "kube-prometheus-stack", "openshift"]
)
def test_presets(preset: str, tmp_path: Path) -> None:
    """Each is what its reader takes; where a critical inhibits all warnings of its name, the two differ in name."""
    file = tmp_path / "values.yaml"
    file.write_text(f"preset: {preset}\n")
    done = CliRunner().invoke(
        main, ["alerts", "write", str(tmp_path / "out"), "--values", str(file)]
    )
    assert done.exit_code == 0, done.output
    files = {one.name: one.read_text() for one in (tmp_path / "out").iterdir()}
    alerts = rules_of(files.get(ALERTS, files.get(OBJECT, "")))
    names = [rule["alert"] for rule in alerts if "alert" in rule]
    both = [
        rule["alert"] for rule in alerts if rule.get("alert", "").endswith("Critical")
    ]
    if preset in {"prometheus", "mimir"}:
        assert files.keys() == {ALERTS, RECORDING, "alertmanager.yaml"}
        assert yaml.safe_load(files[ALERTS]).get("namespace") == (
            "penstock" if preset == "mimir" else None
        )
        assert both == []
    else:
        assert files.keys() == {OBJECT, "alertmanager.yaml"}
        document = yaml.safe_load(files[OBJECT])
        assert document["kind"] == "PrometheusRule"
        assert bool(document["metadata"]["labels"]) == (preset == "openshift")
        assert len(names) == len(set(names))
        assert {"PenstockIncidentCritical", "PenstockNoConsumerCritical"} <= set(both)
    groups = yaml.safe_load(files.get(ALERTS, files.get(OBJECT, "")))
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": groups.get("spec", groups)["groups"]})
    )
    subprocess.run(
        [tool("promtool"), "check", "rules", tmp_path / "rules.yaml"],
        check=True,
        capture_output=True,
    )


def test_a_queue_named_like_a_command_is_pasted_as_a_name() -> None:
    """The template quotes as a shell does: reReplaceAll stands for what Prometheus makes of it."""
    name = '$(reboot) `x` it\'s; "a"'
    pasted = command(
        ("broker", "address", "queue"), lambda _: "'" + name.replace("'", "'\\''") + "'"
    )
    assert shlex.split(pasted) == ["penstock", "explain", name, name, "--address", name]
    assert "reReplaceAll `'` `'\\''` $labels.queue" in command(("broker", "queue"))


def written(tmp_path: Path, *options: str) -> tuple[int, str, list[Json]]:
    """Exit status, output, and the alerts that `penstock alerts write` makes."""
    done = CliRunner().invoke(
        main, ["alerts", "write", str(tmp_path / "out"), *options]
    )
    files = [
        tmp_path / "out" / name
        for name in (ALERTS, OBJECT)
        if (tmp_path / "out" / name).exists()
    ]
    rules = [rule for file in files for rule in rules_of(file.read_text())]
    return done.exit_code, done.output, [rule for rule in rules if "alert" in rule]


@pytest.mark.slow  # all boards or rules
def test_an_address_with_a_query_keeps_it(tmp_path: Path) -> None:
    """Grafana chooses the organisation by it."""
    urls = (
        "--grafana-url",
        "https://g.example/graf/?orgId=2",
        "--agent-url",
        "https://a.example/?team=mq",
    )
    status, output, alerts = written(
        tmp_path, *urls, "--runbooks-url", "https://w.example/rb?v=3"
    )
    assert status == 0, output
    for alert in alerts:
        links = {
            name: urlsplit(url)
            for name, url in alert["annotations"].items()
            if name.endswith("_url")
        }
        dashboard = links["dashboard_url"]
        assert re.fullmatch(r"/graf/d/penstock-[a-z]+", dashboard.path)
        assert (
            "orgId=2&var-cluster={{ $labels.cluster | urlquery }}&"
            in f"{dashboard.query}&"
        )
        assert links["agent_url"].query.startswith("team=mq")
        assert links["runbook_url"].path.startswith("/rb/")
        assert (links["runbook_url"].query, links["runbook_url"].fragment) == (
            "v=3",
            alert["alert"].lower(),
        )


@pytest.mark.parametrize("option", ["--grafana-url", "--runbooks-url", "--agent-url"])
@pytest.mark.parametrize(
    "url",
    ["grafana", "https://g.example/{{ .x }}", "https://g.example/#a", "https://g e/"],
)
def test_an_option_that_is_no_address_is_named(
    option: str, url: str, tmp_path: Path
) -> None:
    """Prometheus takes braces for a template, and refuses the whole file."""
    status, output, alerts = written(tmp_path, option, url)
    assert status == 2
    assert alerts == []
    assert (
        f"cannot use {option} '{url}': give an address such as https://grafana.example"
        in output
    )


@pytest.mark.slow  # all boards or rules
def test_the_release_is_the_label_by_which_rules_are_selected(tmp_path: Path) -> None:
    status, output, _ = written(
        tmp_path, "--preset", "kube-prometheus-stack", "--release", "monitoring"
    )
    assert status == 0, output
    document = yaml.safe_load((tmp_path / "out" / OBJECT).read_text())
    assert document["metadata"]["labels"] == {"release": "monitoring"}
    assert "--release" not in output


@pytest.mark.slow  # all boards or rules
def test_rules_that_no_release_selects_are_said(tmp_path: Path) -> None:
    status, output, _ = written(tmp_path, "--preset", "kube-prometheus-stack")
    assert status == 0
    assert "add --release NAME" in output
    status, output, _ = written(tmp_path, "--release", "monitoring")
    assert status == 1
    assert "the preset prometheus writes none" in output
    assert (
        written(tmp_path, "--preset", "kube-prometheus-stack", "--release", "a b")[0]
        == 2
    )


def test_identity_has_no_label_of_an_agent() -> None:
    assert not {"job", "instance", "pod"} & set(DEFAULT.identity)
