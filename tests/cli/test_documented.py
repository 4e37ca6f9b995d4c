"""Every command that a page or a help shows: run on the demo, or at least parsed, with the reason why not run."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.conftest import Desk
from cli.documented import ROOT, inline, leaves, lines, parse
from penstock.cli import main

BIN = Path(sys.executable).parent
SECONDS = 180.0

NOT_RUN: Mapping[str, str] = {
    r"make (?!demo$)": "a target that exists is all that is looked at: some are this test, others take hours",
    r"make demo$": "a line of make around `penstock demo`, which is run",
    r"penstock trends ": "half a minute of Spark each; the tests of trends run the jobs",
    r"penstock history import ": "its own tests give it a Prometheus",
    r"penstock demo --broker openmq": "the tests of OpenMQ start its scenario",
    r"penstock demo --scenario": "it takes minutes; tests/demo plays its chapters",
    r"penstock init ": "it changes a broker's files; tests/setup runs it on real brokers",
    r"penstock top": "tests/cli/test_top.py runs it in a terminal",
}
"""The beginning of a line, as a pattern → why it is only parsed."""
UNHEALTHY = r"penstock explain"
"""Exit status 1 says that it is not healthy."""

LINES = lines()
RUN = [line for line in LINES if not any(re.match(one, line) for one in NOT_RUN)]
PARSED = [line for line in LINES if line not in RUN]


def at(desk: Desk, line: str) -> str:
    """The line with the agent of this test and places within its directory."""
    line = line.replace("http://127.0.0.1:19771", desk.url).replace(
        "127.0.0.1:19771", "127.0.0.1:0"
    )
    return line.replace(" /etc/", " etc/").replace("${fpath[1]}", ".")


def environment(desk: Desk) -> dict[str, str]:
    path = f"{BIN}:{os.environ['PATH']}"
    own = {
        "PATH": path,
        "HOME": str(desk.folder),
        "PENSTOCK_URL": desk.url,
        "PENSTOCK_DEMO_MINUTES": "0.2",
    }
    return {**os.environ, **own}


def test_there_are_some() -> None:
    assert len(RUN) > 25
    assert "make demo" in PARSED
    assert [
        reason
        for reason in NOT_RUN
        if not any(re.match(reason, line) for line in LINES)
    ] == []


@pytest.mark.broker
@pytest.mark.parametrize(
    "line", [line for line in RUN if not re.match(r"penstock (run|demo)\b", line)]
)
def test_it_runs(desk: Desk, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = at(desk, line)
    allowed = (0, 1) if re.match(UNHEALTHY, line) else (0,)
    if command.startswith("curl ") and not shutil.which("curl"):
        pytest.skip("no curl here")
    if line.startswith("penstock ") and not re.search(r"[>|$]", line):
        monkeypatch.chdir(desk.folder)
        result = CliRunner().invoke(
            main, shlex.split(command, comments=True)[1:], env=environment(desk)
        )
        assert (
            result.exit_code in allowed,
            result.stdout != "" or result.stderr != "",
        ) == (True, True), result.output
        return
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=desk.folder,
        env=environment(desk),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in allowed, done.stderr


@pytest.mark.broker
@pytest.mark.parametrize(
    "line", [line for line in RUN if re.match(r"penstock (run|demo)\b", line)]
)
def test_it_serves_until_it_is_ended(desk: Desk, line: str, tmp_path: Path) -> None:
    words = shlex.split(at(desk, line), comments=True)
    if "--web.listen-address" not in words:
        words += ["--web.listen-address", "127.0.0.1:0"]
    log = tmp_path / "log"
    with log.open("w") as file:
        child = subprocess.Popen(
            words, cwd=desk.folder, env=environment(desk), stdout=file, stderr=file
        )
    try:
        deadline = time.monotonic() + SECONDS
        while not re.search(
            r"serving /metrics on|^Open ", log.read_text(), re.MULTILINE
        ):
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        if words[1] == "run":
            child.send_signal(signal.SIGTERM)
        assert child.wait(SECONDS) == 0, log.read_text()
    finally:
        if child.poll() is None:
            child.terminate()  # not killed: the demo ends its broker
            child.wait(SECONDS)


@pytest.mark.parametrize("line", PARSED)
def test_it_is_understood(line: str) -> None:
    if line.startswith("penstock "):
        parse(line)
        return
    words = shlex.split(line, comments=True)
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", *words[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_commands_in_sentences_are_understood() -> None:
    for line in inline():
        parse(re.sub(r"\[--?\w[^\]]*\]|…", "", line))


def test_every_help_has_examples_and_they_stand_in_the_reference() -> None:
    context = click.Context(main, info_name="penstock", **main.context_settings)
    for command in leaves(main, context):
        text = re.sub(r"\s+", " ", command.epilog or "")
        assert "Examples:" in text, command.name
        examples = [line.strip() for line in (command.epilog or "").splitlines()[2:]]
        assert examples
        assert set(examples) <= set(LINES), command.name
