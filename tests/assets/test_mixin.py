"""The mixin gives what the files hold."""

import json
from pathlib import Path

import _jsonnet
import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # all boards and rules
def test_mixin() -> None:
    snippet = "local m = import 'mixin.libsonnet'; [m.prometheusAlerts, m.prometheusRules, m.grafanaDashboards]"
    alerts, rules, dashboards = json.loads(
        _jsonnet.evaluate_snippet(
            "test",
            snippet,
            import_callback=lambda _, name: (name, (ROOT / name).read_bytes()),
        )
    )
    assert alerts == yaml.safe_load((ROOT / "alerts" / "alerts.yaml").read_text())
    assert rules == yaml.safe_load((ROOT / "alerts" / "recording.yaml").read_text())
    files = sorted((ROOT / "dashboards").glob("*.json"))
    assert dashboards == {file.name: json.loads(file.read_text()) for file in files}
