"""What `pip install .` installs, and the demo's package: built as users build them, from this tree."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # builds two wheels; pip fetches the build backend

ROOT = Path(__file__).parents[2]


def built(source: Path, folder: Path) -> zipfile.ZipFile:
    command = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        folder,
        source,
    )
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_the_wheel_holds_what_the_agent_needs_and_no_more(tmp_path: Path) -> None:
    with built(ROOT, tmp_path) as wheel:
        names = set(wheel.namelist())
        dashboards = {
            name for name in names if name.startswith("penstock/assets/dashboards/")
        }
        assert {Path(name).name for name in dashboards} == {
            file.name for file in (ROOT / "dashboards").glob("*.json")
        }
        assert all(json.loads(wheel.read(name))["panels"] for name in dashboards)
    assert {
        "penstock/brokers/classic/jolokia-policy.xml",
        "penstock/brokers/openmq/jolokia-policy.xml",
        "penstock/server/pages/static/penstock.js",
        "penstock/server/pages/templates/base.html",
        "penstock/transports/jmx-helper.jar",
        "penstock_trends/templates/base.html",
        "penstock_trends/templates/broker.html",
        "penstock_trends/templates/report.html",
        "penstock/py.typed",
    } <= names
    foreign = {
        name
        for name in names
        if not name.startswith(("penstock/", "penstock_trends/", "penstock-"))
    }
    assert foreign == set()


def test_the_wheel_of_the_demo_holds_the_demo(tmp_path: Path) -> None:
    with built(ROOT / "exporter" / "demo", tmp_path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert "penstock_demo/command.py" in names
    assert all(name.startswith("penstock_demo/") for name in names)
