"""`penstock runbook`: the section of an alert with its names filled in, and the commands that fit."""

import re

import pytest
from click.testing import CliRunner

from penstock.assets.rule_files import all_alerts
from penstock.cli.main import main
from rig.each import of_each

NAMES = sorted({alert.name for alert in all_alerts()})


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["runbook", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow  # all runbooks
@of_each({name: name for name in NAMES})
def test_every_alert_has_one(name: str) -> None:
    text = shown(name)
    for part in (
        "**Means**",
        "**Do**",
        "**Clears**",
        "Evidence",
        "kubectl exec",
        "PENSTOCK_URL=",
    ):
        assert part in text
    assert not re.search(r"\{[a-z_]+\}", re.sub(r"(?s)```.*?```", "", text))


def test_names_are_filled_in_for_a_shell() -> None:
    text = shown("ClientStalled", "prod", "a queue", "it's")
    assert "penstock explain prod 'a queue' 'it'\"'\"'s' --address 'a queue'" in text
    assert "BROKER" not in text
    assert "close connection CONNECTION of it's" in text
    assert "of it's. (artemis, MQTT, MQTT5 only)" in text
    assert 'artemis:broker=\\"NAME\\"' in text, "as the broker names its MBeans"
    assert "imqcmd destroy cxn -n CONNECTION" in text


def test_what_fits_one_proven_cause_only_comes_last_and_says_so() -> None:
    text = shown("ClientStalled", "prod", "q")
    assert text.index("Take two thread dumps") < text.index(
        "(only where `penstock explain` proves blocked_in_send)"
    )


def test_of_an_incident_it_prints_the_steps_of_each_kind() -> None:
    text = shown("Incident", "prod")
    assert "### broker_memory_full" in text
    assert "1. Start the reader of FILLER, or fix it" in text


@pytest.mark.slow  # all runbooks
def test_it_prints_no_targets_of_links_and_does_not_name_itself() -> None:
    for name in NAMES:
        assert not re.search(r"\]\(|\*\*Commands\*\*|<!--", shown(name)), name


def test_an_alert_on_a_number_has_the_actions_that_name_it() -> None:
    assert "Free space on the broker's disk" in shown("DiskNearFull", "prod")


def test_the_name_that_a_preset_gives_a_critical_alert() -> None:
    assert shown("PenstockNoConsumerCritical") == shown("NoConsumer")


def test_an_unknown_alert() -> None:
    done = CliRunner().invoke(main, ["runbook", "Nothing"])
    assert done.exit_code != 0
