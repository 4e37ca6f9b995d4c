"""Standard output that is closed, full or abandoned, in real processes: as `grep` behaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FULL_DISK = Path("/dev/full")
PENSTOCK = [sys.executable, "-m", "penstock"]
PRINTING: Sequence[Sequence[str]] = [
    ["--help"],
    ["--version"],
    ["completion", "bash"],
    ["policy"],
    ["run", "--help"],
    ["trends", "report", "--help"],
    ["check", "--offline", "--config.file", "CONFIG"],
    ["runbook", "PenstockNoConsumer"],
    ["alerts", "write", "ALERTS"],
    ["dashboards", "write", "DASHBOARDS"],
]
"""Commands that print and end by themselves."""
REFUSED = ["check", "--config.file", "nowhere.yaml"]
"""A command that ends with status 2 and writes why to its errors."""
FULL = "penstock: cannot write to standard output: No space left on device\n"
CLOSED = "penstock: standard output is closed; give it a place, such as > /dev/null\n"
FORKS = """
import gc, json, os, sys, tempfile
from penstock.cli import main
for name in main.list_commands(None):
    main.get_command(None, name)  # imported once for all
gc.freeze()
results = []
for words, output, errors in json.loads(sys.argv[1]):
    with tempfile.TemporaryFile() as written:
        child = os.fork()
        if child == 0:
            os.dup2(output, 1)
            os.dup2(errors or written.fileno(), 2)
            main(words)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        written.seek(0)
        results.append([status, written.read().decode()])
print(json.dumps(results))
"""
"""Each command in a process of its own, with these descriptors as its output and its errors (0: read by this test)."""

pytestmark = pytest.mark.skipif(
    not FULL_DISK.exists(), reason="this system has no /dev/full"
)


def filled(words: Sequence[str], folder: Path) -> list[str]:
    """The command, with files of its own."""
    config = folder / "penstock.yaml"
    config.write_text(
        "brokers:\n  - {name: a, kind: artemis, url: 'http://127.0.0.1:1/console/jolokia/'}\n"
    )
    places = {
        "CONFIG": str(config),
        "ALERTS": str(folder / "alerts"),
        "DASHBOARDS": str(folder / "dashboards"),
    }
    return [places.get(word, word) for word in words]


Outcome = tuple[str, int, str]
"""A command, its exit status, its errors."""


@dataclass
class Outcomes:
    """Of commands, by where their output or their errors went."""

    full: list[Outcome]
    abandoned: list[Outcome]
    """Of a few commands: it is one mechanism."""
    errors_lost: list[Outcome]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Of all commands that print, by one process that forks for each."""
    folder = tmp_path_factory.mktemp("outcomes")
    commands = [filled(words, folder) for words in PRINTING]
    few = commands[::3]
    reading, writing = os.pipe()
    os.close(reading)
    with FULL_DISK.open("wb") as disk, os.fdopen(writing, "wb") as pipe:
        full = disk.fileno()
        abandoned = pipe.fileno()
        into_full = [(words, full, 0) for words in commands]
        into_abandoned = [(words, abandoned, 0) for words in few]
        errors_lost = [(REFUSED, 2, full), (REFUSED, 2, abandoned)]
        ended = forked([*into_full, *into_abandoned, *errors_lost], [full, abandoned])
    return Outcomes(ended[: len(commands)], ended[len(commands) : -2], ended[-2:])


def forked(
    cases: Sequence[tuple[Sequence[str], int, int]], descriptors: Sequence[int]
) -> list[Outcome]:
    """Of each case: a command, the descriptor of its output, that of its errors (0: they are read)."""
    driver = [sys.executable, "-c", FORKS, json.dumps(cases)]
    printed = subprocess.run(
        driver, check=True, stdout=subprocess.PIPE, pass_fds=descriptors
    ).stdout
    names = [" ".join(words) for words, _, _ in cases]
    return [
        (name, status, errors)
        for name, (status, errors) in zip(names, json.loads(printed), strict=True)
    ]


@pytest.mark.slow  # two seconds: all commands are imported and run
def test_a_full_disk_is_one_line_and_status_1(outcomes: Outcomes) -> None:
    assert [one for one in outcomes.full if one[1:] != (1, FULL)] == []


@pytest.mark.slow  # two seconds: all commands are imported and run
def test_a_reader_that_has_gone_ends_it_silently_as_a_signal_does(
    outcomes: Outcomes,
) -> None:
    assert [one for one in outcomes.abandoned if one[1:] != (-signal.SIGPIPE, "")] == []


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--config.file", "CONFIG"]], ids=" ".join
)
def test_an_output_that_is_closed_is_one_line_and_status_1(
    words: Sequence[str], tmp_path: Path
) -> None:
    """Also of commands that print nothing: their sockets and files would get the descriptor of standard output."""
    done = closed([*PENSTOCK, *filled(words, tmp_path)], 1)
    assert (done.returncode, done.stderr) == (1, CLOSED)


@pytest.mark.slow  # a second: it imports the agent first
def test_a_worker_process_needs_an_output_too(tmp_path: Path) -> None:
    worker = [
        sys.executable,
        "-m",
        "penstock.cli.worker",
        "error",
        "logfmt",
        str(tmp_path),
        "9",
    ]
    done = closed(worker, 1)
    assert (done.returncode, done.stderr) == (1, CLOSED)


@pytest.mark.slow  # two seconds: all commands are imported and run
def test_errors_that_cannot_be_written_leave_the_exit_status(
    outcomes: Outcomes,
) -> None:
    assert [status for _, status, _ in outcomes.errors_lost] == [2, 2]


@pytest.mark.slow  # a second: a process of its own
def test_errors_that_are_closed_leave_the_exit_status() -> None:
    assert closed([*PENSTOCK, *REFUSED], 2).returncode == 2


def test_what_was_begun_is_ended_before(tmp_path: Path) -> None:
    """Also where the reader has gone: a broker that was started, a file that was opened."""
    program = tmp_path / "program.py"
    program.write_text(
        "from penstock.core.standard_streams import standard_streams\n"
        "with standard_streams():\n"
        "    try:\n"
        "        print('x', flush=True)\n"
        "    finally:\n"
        f"        open({str(tmp_path / 'ended')!r}, 'w').close()\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, program], check=False, stdout=writing)
    os.close(writing)
    assert done.returncode == -signal.SIGPIPE
    assert (tmp_path / "ended").exists()


def closed(command: Sequence[str], descriptor: int) -> subprocess.CompletedProcess[str]:
    """The command with this standard stream closed; `stderr` of it is read, unless that is the one."""
    shell = ["sh", "-c", f'exec "$@" {descriptor}>&-', "sh", *command]
    return subprocess.run(
        shell, check=False, capture_output=True, text=True, timeout=60
    )
