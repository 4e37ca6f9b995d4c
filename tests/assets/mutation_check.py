"""
Every change to every rule is noticed: also ranges, lists of labels, aggregations, sets, and the recording rules.

Run by `make test-alert-mutants`; `make test` has some of the changes of thresholds, matchers and durations.
"""

from pathlib import Path

import pytest

from assets.test_alerts import NAMES, surviving


@pytest.mark.parametrize("name", [*NAMES, "recording"])
def test_every_changed_rule_fails_its_tests(name: str, tmp_path: Path) -> None:
    assert surviving(name, tmp_path / "changed", deep=True) == []
