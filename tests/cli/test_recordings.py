"""The commands on recordings of real brokers: what they print, and their exit status."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from penstock.cli import main

RECORDINGS = Path(__file__).parent.parent / "recordings"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def broker(name: str, version: str) -> str:
    return f'  - {{name: {name}, kind: artemis, transport: recording, url: "recording:{recording(version)}"}}\n'


def recording(version: str) -> Path:
    return RECORDINGS / f"artemis-{version}.jsonl.gz"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.yaml"
    path.write_text(
        "interval: 1s\nbrokers:\n" + broker("new", "2.44.0") + broker("old", "2.21.0")
    )
    return path


@pytest.fixture
def down(tmp_path: Path) -> Path:
    """A broker where nobody listens."""
    path = tmp_path / "down.yaml"
    path.write_text(
        "interval: 1s\nbrokers: [{name: gone, kind: artemis, url: 'http://127.0.0.1:1/jolokia/'}]\n"
    )
    return path


def test_once_prints_metrics(config: Path) -> None:
    result = run("once", "--config.file", str(config))
    assert result.exit_code == 0
    families = {family.name: family for family in parse_text(result.stdout)}
    up = {sample.labels["broker"]: sample.value for sample in families["mq_up"].samples}
    assert up == {"new": 1.0, "old": 1.0}
    assert (
        'mq_queue_messages{broker="new",address="orders",queue="orders"} '
        in result.stdout
    )


def test_once_prints_openmetrics(config: Path) -> None:
    result = run("once", "--config.file", str(config), "--format", "openmetrics")
    assert result.exit_code == 0
    assert result.stdout.endswith("# EOF\n")
    assert "mq_up" in {family.name for family in parse_openmetrics(result.stdout)}  # type: ignore[no-untyped-call]


def test_once_prints_a_table_of_one_broker(config: Path) -> None:
    result = run(
        "once", "--config.file", str(config), "--format", "table", "--broker", "new"
    )
    assert result.exit_code == 0
    words = [line.split()[:2] for line in result.stdout.splitlines()]
    assert ["new", "up"] in words
    assert ["billing", "orders"] in words
    assert "old" not in result.stdout


def test_once_of_a_broker_that_is_down(down: Path) -> None:
    result = run("once", "--config.file", str(down))
    assert result.exit_code == 1
    assert 'mq_up{broker="gone"} 0' in result.stdout
    assert (
        "penstock: broker gone: http://127.0.0.1:1/jolokia/: cannot connect"
        in result.stderr
    )


@pytest.mark.parametrize("command", ["once", "record"])
def test_an_unknown_broker(config: Path, command: str) -> None:
    result = run(command, "--config.file", str(config), "--broker", "nope")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "penstock: no broker 'nope' in the configuration; there are new, old\n"
    )


def test_check_tells_what_was_found(config: Path) -> None:
    result = run("check", "--config.file", str(config))
    assert f"{config}: valid, 2 brokers, 0 rules" in result.stdout
    assert "  ok        Apache Artemis 2.44.0, active, node " in result.stdout
    assert "  note      this version shows no numbers per consumer" in result.stdout
    assert ", 2 consumers, 4 connections, 2 producers, 0 links" in result.stdout
    assert result.exit_code == 0


def test_check_offline_asks_nobody(down: Path) -> None:
    result = run("check", "--offline", "--config.file", str(down))
    assert (result.exit_code, result.stdout) == (
        0,
        f"{down}: valid, 1 brokers, 0 rules\n",
    )


def test_check_of_a_broker_that_is_down(down: Path) -> None:
    result = run("check", "--config.file", str(down))
    assert result.exit_code == 1
    assert "  FAILED    http://127.0.0.1:1/jolokia/: cannot connect" in result.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("brokers: [{name: a}]", ":1: brokers[0].kind: is missing"),
        ("brokers: [", "penstock.yaml:"),
        ("intervall: 3s\nbrokers: []", "did you mean interval?"),
    ],
)
@pytest.mark.parametrize("command", ["check", "once", "record", "run"])
def test_a_wrong_configuration_is_status_2(
    tmp_path: Path, command: str, text: str, told: str
) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(text)
    result = run(command, "--config.file", str(path))
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    result = run("check", "--config.file", str(tmp_path / "nope.yaml"))
    assert result.exit_code == 2
    assert "--config.file" in result.stderr


@pytest.mark.slow  # many polls
def test_what_is_recorded_can_be_replayed(config: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl.gz"
    result = run(
        "record",
        "--config.file",
        str(config),
        "--broker",
        "new",
        "--polls",
        "1",
        "--output",
        str(copy),
    )
    assert result.exit_code == 0
    assert "poll 1 of 1: ok" in result.stderr
    again = tmp_path / "again.yaml"
    again.write_text(
        f'brokers: [{{name: new, kind: artemis, transport: recording, url: "recording:{copy}"}}]\ninterval: 1s\n'
    )

    def broker_lines(path: Path) -> list[str]:
        found = run(
            "once", "--config.file", str(path), "--broker", "new"
        ).stdout.splitlines()
        return [line for line in found if line.startswith("mq_")]

    assert broker_lines(again) == broker_lines(config)
    assert len(broker_lines(again)) > 50


def test_a_recording_is_its_owners_only_and_follows_no_link(
    config: Path, tmp_path: Path
) -> None:
    command = (
        "record",
        "--config.file",
        str(config),
        "--broker",
        "new",
        "--polls",
        "1",
        "--output",
    )
    before = os.umask(0)
    try:
        found = run(*command, f"{tmp_path}/r")
    finally:
        os.umask(before)
    assert found.exit_code == 0
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o600
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    found = run(*command, f"{tmp_path}/link")
    assert (found.exit_code, victim.read_text()) == (2, "precious")
    assert (
        found.stderr
        == f"penstock: {tmp_path}/link: cannot be written: it is a link; name another file\n"
    )


@pytest.mark.slow  # many polls
def test_a_recording_that_is_full_ends_with_what_it_has(
    config: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.gz"
    path = tmp_path / "r.gz"
    command = ("record", "--config.file", str(config), "--broker", "new")
    assert run(*command, "--polls", "1", "--output", str(whole)).exit_code == 0
    limit = whole.stat().st_size + 500
    found = run(
        *command, "--polls", "4", "--max-size", str(limit), "--output", str(path)
    )
    assert found.exit_code == 1
    assert "poll 2 of 4" in found.stderr
    assert "poll 3 of 4" not in found.stderr
    said = f"penstock: {path}: the last 3 of 4 polls have no room in {limit}B; what was written can be read"
    assert said in found.stderr
    assert path.stat().st_size <= limit
    again = run("replay", str(path))
    assert (again.exit_code, again.stderr) == (0, "1 polls, 0 changes\n")


def test_record_wants_to_know_which_of_several(config: Path) -> None:
    result = run("record", "--config.file", str(config))
    assert result.exit_code == 2
    assert "give --broker, one of new, old" in result.stderr


def test_a_record_in_which_every_poll_failed_is_status_1(
    down: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jsonl.gz"
    result = run(
        "record", "--config.file", str(down), "--polls", "1", "--output", str(copy)
    )
    assert result.exit_code == 1
    assert (
        "poll 1 of 1: failed http://127.0.0.1:1/jolokia/: cannot connect"
        in result.stderr
    )
    assert copy.exists()


def test_check_as_json(config: Path, down: Path) -> None:
    result = run("check", "--config.file", str(config), "--format", "json")
    assert result.exit_code == 0
    new, old = json.loads(result.stdout)["brokers"]
    assert (new["broker"], new["reached"], new["version"], new["error"]) == (
        "new",
        True,
        "2.44.0",
        "",
    )
    assert new["found"]["consumers"] == 2
    assert new["collectors"]["queues"]["error"] == ""
    assert old["notes"][0].startswith("this version shows no numbers per consumer")
    result = run("check", "--config.file", str(down), "--format", "json")
    assert result.exit_code == 1
    (gone,) = json.loads(result.stdout)["brokers"]
    assert (gone["reached"], "cannot connect" in gone["error"]) == (False, True)


def test_without_the_demo_its_name_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "\n  demo " in run("--help").stdout
    monkeypatch.setattr(
        sys.modules["penstock.cli.main"], "DEMO", "penstock_demo_elsewhere"
    )
    assert "\n  demo " not in run("--help").stdout
    result = run("demo")
    assert (result.exit_code, "pip install ./exporter/demo" in result.output) == (
        2,
        True,
    )


@pytest.mark.slow  # takes a second
@pytest.mark.parametrize(
    ("package", "named", "command"),
    [
        ("pyarrow", "'pyarrow>=18'", ["history", "list"]),
        ("textual", "'textual>=6'", ["top"]),
        (
            "py4j",
            "'pandas<3,>=2.2' 'pyarrow>=18' 'pyspark<5,>=4.0'",
            ["trends", "run", "--history", "none", "--out", "none"],
        ),
    ],
)
def test_what_a_missing_extra_brings_is_named(
    package: str, named: str, command: list[str], tmp_path: Path
) -> None:
    """Never as `penstock[…]`: that name is another project's on PyPI."""
    without = f"""
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Without())
from penstock.cli import main; main()
"""
    done = subprocess.run(
        [sys.executable, "-c", without, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    said = f"penstock: this needs {package}, please: pip install {named}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
