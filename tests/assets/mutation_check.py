"""
Every change to every rule is noticed: also ranges, lists of labels, aggregations, sets, and the recording rules.

Run by `make test-alert-mutants`; `make test` has some of the changes of thresholds, matchers and durations.
"""

from pathlib import Path

import pytest

from assets.test_alerts import NAMES, rules_of, surviving

RECORDED_SERIES = sorted({rule["record"] for rule in rules_of("recording")})


@pytest.mark.parametrize("name", NAMES)
def test_every_changed_rule_fails_its_tests(name: str, tmp_path: Path) -> None:
    assert surviving(name, tmp_path / "changed", deep=True) == []


@pytest.mark.parametrize("record", RECORDED_SERIES)
def test_every_changed_recording_rule_fails_its_tests(
    record: str, tmp_path: Path
) -> None:
    assert surviving("recording", tmp_path / "changed", deep=True, record=record) == []
