"""Standard output that is closed, full or abandoned, in real processes: as `grep` behaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
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
FULL = "penstock: cannot write to standard output: No space left on device\n"
CLOSED = "penstock: standard output is closed; give it a place, such as > /dev/null\n"
FORKS = """
import json, os, sys, tempfile
from penstock.cli import main
descriptor, commands, results = int(sys.argv[1]), json.loads(sys.argv[2]), []
for words in commands:
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(descriptor, 1)
            os.dup2(errors.fileno(), 2)
            main(words)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        results.append([words, status, errors.read().decode()])
print(json.dumps(results))
"""
"""Each command in a process of its own, with this descriptor as its output; Penstock is imported once."""

pytestmark = pytest.mark.skipif(not FULL_DISK.exists(), reason="this system has no /dev/full")


def filled(words: Sequence[str], folder: Path) -> list[str]:
    """The command, with files of its own."""
    config = folder / "penstock.yaml"
    config.write_text("brokers:\n  - {name: a, kind: artemis, url: 'http://127.0.0.1:1/console/jolokia/'}\n")
    places = {"CONFIG": str(config), "ALERTS": str(folder / "alerts"), "DASHBOARDS": str(folder / "dashboards")}
    return [places.get(word, word) for word in words]


def into(output: int, folder: Path) -> list[tuple[str, int, str]]:
    """Of each command that prints: itself, its exit status, its errors. output: a descriptor."""
    commands = [filled(words, folder) for words in PRINTING]
    driver = [sys.executable, "-c", FORKS, str(output), json.dumps(commands)]
    printed = subprocess.run(driver, check=True, stdout=subprocess.PIPE, pass_fds=[output]).stdout
    return [(" ".join(words), status, errors) for words, status, errors in json.loads(printed)]


def test_a_full_disk_is_one_line_and_status_1(tmp_path: Path) -> None:
    with FULL_DISK.open("wb") as full:
        found = into(full.fileno(), tmp_path)
    assert [one for one in found if one[1:] != (1, FULL)] == []


def test_a_reader_that_has_gone_ends_it_silently_as_a_signal_does(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = into(writing, tmp_path)
    os.close(writing)
    assert [one for one in found if one[1:] != (-signal.SIGPIPE, "")] == []


@pytest.mark.parametrize("words", [["--help"], ["run", "--config.file", "CONFIG"]], ids=" ".join)
def test_an_output_that_is_closed_is_one_line_and_status_1(words: Sequence[str], tmp_path: Path) -> None:
    """Also of commands that print nothing: their sockets and files would get the descriptor of standard output."""
    done = closed([*PENSTOCK, *filled(words, tmp_path)], 1)
    assert (done.returncode, done.stderr) == (1, CLOSED)


def test_a_worker_process_needs_an_output_too(tmp_path: Path) -> None:
    worker = [sys.executable, "-m", "penstock.cli.worker", "error", "logfmt", str(tmp_path), "9"]
    done = closed(worker, 1)
    assert (done.returncode, done.stderr) == (1, CLOSED)


@pytest.mark.parametrize("errors", ["full", "closed", "abandoned"])
def test_errors_that_cannot_be_written_leave_the_exit_status(errors: str) -> None:
    command = [*PENSTOCK, "check", "--config.file", "nowhere.yaml"]
    if errors == "closed":
        assert closed(command, 2).returncode == 2
        return
    reading, pipe = os.pipe()
    os.close(reading)
    with FULL_DISK.open("wb") as full, os.fdopen(pipe, "wb") as abandoned:
        place = full if errors == "full" else abandoned
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=place)
    assert done.returncode == 2


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
    return subprocess.run(shell, check=False, capture_output=True, text=True, timeout=60)
