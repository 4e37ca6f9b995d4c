"""The rules with promtool: each alert fires, stays quiet, keeps to its boundary; its tests notice what is changed."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.mutation import mutants
from assets.situations import alerts, document
from assets.worlds import Rule, Test, of_recording, worlds
from penstock.assets.rule_files import (
    ALERTMANAGER,
    ALERTS,
    RECORDING,
    all_alerts,
    rule_files,
)
from rig.prometheus import tool

pytestmark = pytest.mark.prometheus

FOLDER = Path(__file__).parents[2] / "alerts"
NAMES = sorted({alert.name for alert in all_alerts()})


@cache  # not made at import: each process imports this file, few run its tests
def made() -> Mapping[str, str]:
    """File name → text."""
    return rule_files()


@cache
def rules_in(file: str) -> Sequence[Rule]:
    return [
        rule
        for group in yaml.safe_load(made()[file])["groups"]
        for rule in group["rules"]
    ]


def recordings() -> Sequence[Rule]:
    """Of all brokers; what is recorded of one alone is tested with the alert that reads it."""
    return [
        rule
        for rule in rules_in(RECORDING)
        if rule["record"].startswith("address_queue:")
    ]


def promtool(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [tool("promtool"), *arguments], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def rules_of(name: str) -> Sequence[Rule]:
    """An alert's rules, and those that record what it reads."""
    if name == "recording":
        return recordings()
    alerts = [rule for rule in rules_in(ALERTS) if rule["alert"] == name]
    return [
        *(
            one
            for one in rules_in(RECORDING)
            if any(one["record"] in rule["expr"] for rule in alerts)
        ),
        *alerts,
    ]


def put(
    home: Path, rules: Sequence[Rule], tested: Mapping[str, Any], tests: Sequence[Test]
) -> Path:
    """A folder with these rules alone, which is many times quicker than with all, and the file of their tests."""
    home.mkdir(parents=True)
    (home / "rules.yaml").write_text(
        json.dumps({"groups": [{"name": "tested", "rules": rules}]})
    )  # JSON is YAML
    (home / "test.yaml").write_text(
        json.dumps({**tested, "rule_files": ["rules.yaml"], "tests": tests})
    )
    return home / "test.yaml"


def results(files: Sequence[Path]) -> Mapping[Path, str]:
    """What promtool says of each file of tests."""
    _, output = promtool("test", "rules", *files)
    found = {Path(part.split()[0]): part for part in output.split("Unit Testing:")[1:]}
    assert set(found) == set(files), output
    return found


def silent(rule: Rule) -> Rule:
    """Without texts."""
    return {name: value for name, value in rule.items() if name != "annotations"}


def who_fires(tests: Sequence[Test]) -> list[Test]:
    """The same tests without texts."""
    return [
        {
            **test,
            "alert_rule_test": [
                {
                    **check,
                    "exp_alerts": [
                        {"exp_labels": one["exp_labels"]} for one in check["exp_alerts"]
                    ],
                }
                for check in test["alert_rule_test"]
            ],
        }
        for test in tests
    ]


@pytest.mark.parametrize("name", [RECORDING, ALERTS, ALERTMANAGER])
def test_what_is_committed_is_what_is_made(name: str) -> None:
    assert (FOLDER / name).read_text() == made()[name], (
        "run: penstock alerts write alerts"
    )


def test_promtool_takes_the_rules() -> None:
    status, output = promtool(
        "check", "rules", *(FOLDER / name for name in (RECORDING, ALERTS))
    )
    assert status == 0, output


def test_unit_tests_and_other_worlds(tmp_path: Path) -> None:
    """Those of the files, and the scene in which each alert fires with clusters, agents and pods side by side."""
    files = []
    for name in [*NAMES, "recording"]:
        tested = document(name)
        files.append(put(tmp_path / name, rules_of(name), tested, tested["tests"]))
        if name == "recording":
            files.append(
                put(
                    tmp_path / "nodes",
                    rules_of(name),
                    tested,
                    [*chain(*map(of_recording, recordings()))],
                )
            )
        else:
            beside = list(worlds(tested["tests"], rules_of(name)))
            assert beside, name
            files.append(
                put(
                    tmp_path / name / "worlds",
                    [*map(silent, rules_of(name))],
                    tested,
                    beside,
                )
            )
    assert [part for part in results(files).values() if "SUCCESS" not in part] == []


def test_every_alert_has_its_tests() -> None:
    assert sorted(alerts()) == sorted([*NAMES, "recording"])


@pytest.mark.parametrize("name", NAMES)
def test_kinds_of_tests(name: str) -> None:
    """Fires, goes on firing, stays quiet, boundary; in every severity; and nothing is asked of another alert."""
    tests = document(name)["tests"]
    begins = {test["name"].partition(" ")[0].rstrip(":") for test in tests}
    assert begins == {"fires", "goes", "quiet", "boundary"}
    checks = [check for test in tests for check in test["alert_rule_test"]]
    assert {check["alertname"] for check in checks} == {name}
    fired = {
        alert["exp_labels"]["severity"]
        for check in checks
        for alert in check["exp_alerts"]
    }
    assert fired == {
        rule["labels"]["severity"] for rule in rules_in(ALERTS) if rule["alert"] == name
    }


def test_no_warning_fires_beside_its_critical() -> None:
    """But for the minutes that it is kept after it became critical."""
    for name in NAMES:
        for test in document(name)["tests"]:
            if not test["name"].startswith("goes"):
                for check in test["alert_rule_test"]:
                    who = [
                        {**one["exp_labels"], "severity": ""}
                        for one in check["exp_alerts"]
                    ]
                    assert all(who.count(one) == 1 for one in who), (name, test["name"])


@pytest.mark.nightly  # half a minute of promtool
def test_a_changed_rule_fails_its_tests(tmp_path: Path) -> None:
    """Each fourth comparison, threshold, matcher and duration of every rule; mutation_check.py has all, and more."""
    with ThreadPoolExecutor(2) as workers:
        survivors = workers.map(lambda name: surviving(name, tmp_path / name), NAMES)
        assert [one for found in survivors for one in found] == []


def surviving(
    name: str, folder: Path, *, deep: bool = False, record: str = ""
) -> list[str]:
    """The changes to an alert's rules that its tests do not notice. record: of this recorded series only."""
    rules = [*map(silent, rules_of(name))]
    tested = document(name)
    changed_rules = [one for one in rules if record in ("", one.get("record"))]
    tests = tested["tests"]
    if name != "recording":
        tests = [*who_fires(tests), *worlds(tests, rules, deep=deep)]
    told: dict[Path, str] = {}
    for rule in changed_rules:
        if name == "recording":
            tests = [*of_recording(rule)]
        for what, changed in [*mutants(rule, deep=deep)][:: 1 if deep else 4]:
            file = put(
                folder / str(len(told)),
                [changed if one is rule else one for one in rules],
                tested,
                tests,
            )
            told[file] = (
                f"{name} {rule.get('labels', {}).get('severity', rule.get('record'))}: {what}"
            )
    assert len(told) >= len(changed_rules) * (3 if deep else 1)
    status, output = promtool(
        "check", "rules", *(file.with_name("rules.yaml") for file in told)
    )
    assert status == 0, output  # a change that is no rule would be noticed by any test
    return [told[file] for file, part in results([*told]).items() if "SUCCESS" in part]
