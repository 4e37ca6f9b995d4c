"""One version, in every place; a unit that systemd takes and that exposes little."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from penstock import __version__

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "plain" / "penstock.service"
VERSION = runpy.run_path(str(ROOT / "deploy" / "version.py"))

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)


def test_every_place_names_the_version_of_the_package() -> None:
    assert VERSION["version"]() == __version__
    assert VERSION["wrong"](f"v{__version__}") == []


def test_a_tag_of_another_version_is_refused() -> None:
    assert VERSION["wrong"]("v9.9.9") == ["the tag: 9.9.9"]


def test_the_notes_are_those_of_this_version() -> None:
    assert VERSION["notes"]().startswith("- ")
    assert "\n## " not in VERSION["notes"]()


def test_the_release_runs_what_there_is() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    scripts = "\n".join(step.get("run", "") for step in steps)
    for script in re.findall(r"^(deploy/\S+)", scripts, re.MULTILINE):
        assert os.access(ROOT / script, os.X_OK), script
    stages = set(
        re.findall(
            r"^FROM \S+ AS (\S+)",
            (ROOT / "deploy/image/Dockerfile").read_text(),
            re.MULTILINE,
        )
    )
    made = {
        one["stage"] for one in flow["jobs"]["images"]["strategy"]["matrix"]["include"]
    }
    assert made == stages - {"build", "build-trends", "bare"}
    for job in flow["jobs"].values():  # what may publish says so itself
        assert set(job.get("permissions", {})) <= {"contents", "packages", "id-token"}


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    command = f"{tmp_path}/penstock"
    Path(command).write_text("#!/bin/sh\n")
    Path(command).chmod(0o755)
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", command))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "penstock" in line]
    assert own == []


@needs_systemd
def test_the_unit_exposes_little() -> None:
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        "--threshold=30",
        str(UNIT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]
