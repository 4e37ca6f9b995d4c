"""The alerts with promtool: each fires, stays quiet, keeps to its boundary, and its tests notice what is changed."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.mutation import mutants
from penstock.assets.rule_files import ALERTS, Bases, rule_files
from rig.prometheus import tool

pytestmark = pytest.mark.prometheus

FOLDER = Path(__file__).parents[2] / "alerts"
TESTS = FOLDER / "tests"
RULES: Sequence[Mapping[str, Any]] = [
    rule for group in yaml.safe_load(rule_files(Bases())[ALERTS])["groups"] for rule in group["rules"]
]
NAMES = sorted({rule["alert"] for rule in RULES})


def promtool(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([tool("promtool"), *arguments], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "text"), rule_files(Bases()).items())
def test_what_is_committed_is_what_is_made(name: str, text: str) -> None:
    assert (FOLDER / name).read_text() == text, "run: penstock alerts write alerts"


def test_promtool_takes_the_rules() -> None:
    status, output = promtool("check", "rules", *(FOLDER / name for name in rule_files(Bases())))
    assert status == 0, output


@pytest.mark.parametrize("file", sorted(TESTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_unit_tests(file: Path) -> None:
    status, output = promtool("test", "rules", file)
    assert status == 0, output


def test_every_alert_has_its_tests() -> None:
    assert sorted(file.stem for file in TESTS.glob("*.yaml")) == sorted([*NAMES, "recording"])


@pytest.mark.parametrize("name", NAMES)
def test_kinds_of_tests(name: str) -> None:
    """Fires, goes on firing, stays quiet, boundary; in every severity; and nothing is asked of another alert."""
    document = yaml.safe_load((TESTS / f"{name}.yaml").read_text())
    begins = {test["name"].partition(" ")[0].rstrip(":") for test in document["tests"]}
    assert begins == {"fires", "goes", "quiet", "boundary"}
    checks = [check for test in document["tests"] for check in test["alert_rule_test"]]
    assert {check["alertname"] for check in checks} == {name}
    fired = {alert["exp_labels"]["severity"] for check in checks for alert in check["exp_alerts"]}
    assert fired == {rule["labels"]["severity"] for rule in RULES if rule["alert"] == name}


def test_a_changed_rule_fails_its_tests(tmp_path: Path) -> None:
    """Every comparison, threshold, matcher and duration of every rule."""
    with ThreadPoolExecutor(2) as workers:
        survivors = workers.map(lambda name: surviving(name, tmp_path / name), NAMES)
        assert [one for found in survivors for one in found] == []


def surviving(name: str, folder: Path) -> list[str]:
    """The changes to an alert's rules that its tests do not notice."""
    rules = [rule for rule in RULES if rule["alert"] == name]
    tests = (TESTS / f"{name}.yaml").read_text()
    told: dict[Path, str] = {}
    for rule in rules:
        for what, changed in mutants(rule):
            home = folder / str(len(told))
            home.mkdir(parents=True)
            group = {"name": "mutant", "rules": [changed if one is rule else one for one in rules]}
            (home / "rules.yaml").write_text(json.dumps({"groups": [group]}))  # JSON is YAML
            (home / "test.yaml").write_text(tests.replace("../alerts.yaml", "rules.yaml"))
            told[home / "test.yaml"] = f"{name} {rule['labels']['severity']}: {what}"
    assert len(told) >= 3 * len(rules)
    status, output = promtool("check", "rules", *(file.with_name("rules.yaml") for file in told))
    assert status == 0, output  # a change that is no rule would be noticed by any test
    _, output = promtool("test", "rules", *told)
    results = {Path(part.split()[0]): part for part in output.split("Unit Testing:")[1:]}
    assert set(results) == set(told), output
    return [told[file] for file, part in results.items() if "SUCCESS" in part]
