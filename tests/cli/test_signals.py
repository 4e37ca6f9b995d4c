"""Signals to the real agent, at each moment of its life, and what it reports to the service manager."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from penstock.agent.service_manager import ServiceManager

RECORDING = Path(__file__).parent.parent / "recordings" / "demo-artemis.jsonl.gz"
SECONDS = 180
"""Generous: the machine may be busy."""
SLOW_IMPORT = """
import builtins, sys
importing = builtins.__import__
def held(name, *more, **named):
    if name == "penstock.agent":
        builtins.__import__ = importing
        print("imports", flush=True)
        sys.stdin.readline()
    return importing(name, *more, **named)
builtins.__import__ = held
from penstock.cli import main
main()
"""
"""The command, held while it imports the agent, until it gets a line."""
WORKER = SLOW_IMPORT.replace(
    "from penstock.cli import main\nmain()",
    'import runpy\nrunpy.run_module("penstock.cli.worker", run_name="__main__")',
)


def configuration(*names: str) -> str:
    brokers = [
        f"{{name: {name}, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}"
        for name in names
    ]
    return f"interval: 1h\nbrokers: [{', '.join(brokers)}]\n"


class Fifo:
    """A configuration file that is read only as fast as this writes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "penstock.yaml"
        os.mkfifo(self.path)

    @contextmanager
    def opened(self) -> Iterator[Callable[[str], int]]:
        """From when the agent opens it; what is given is its whole content."""
        with self.path.open("w") as file:  # waits for the reader
            yield file.write


class Inbox:
    """The socket of a service manager."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(SECONDS)

    def next(self) -> dict[str, str]:
        """The next message, by its variables."""
        lines = self._socket.recv(65536).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    made = Inbox(tmp_path)
    yield made
    made.close()


@contextmanager
def running(
    folder: Path,
    file: Path,
    inbox: Inbox,
    program: str = "from penstock.cli import main; main()",
) -> Iterator[subprocess.Popen[str]]:
    words = [
        "run",
        "--config.file",
        str(file),
        "--web.listen-address",
        "127.0.0.1:0",
        "--storage.path",
        str(folder / "data"),
    ]
    environ = {**os.environ, "NOTIFY_SOCKET": str(inbox.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        text=True,
        env=environ,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    ) as process:
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def until_logged(process: subprocess.Popen[str], text: str) -> None:
    """Until it has logged this; the process is killed when that takes too long."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"{text!r} was not logged: {''.join(lines)}")


def stopped(process: subprocess.Popen[str]) -> str:
    """What it logged, when SIGTERM has ended it in good order."""
    process.terminate()
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    return said


@pytest.mark.slow  # starts the agent: a second or two
def test_a_hangup_while_the_configuration_is_read_is_a_reload_after_the_start(
    tmp_path: Path, inbox: Inbox
) -> None:
    fifo = Fifo(tmp_path)
    with running(tmp_path, fifo.path, inbox) as process:
        with fifo.opened() as write:
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
            write(configuration("one"))
        assert inbox.next() == {
            "READY": "1",
            "STATUS": "The configuration is in force.",
        }
        assert inbox.next().keys() == {"RELOADING", "MONOTONIC_USEC"}
        with fifo.opened() as write:
            write(configuration("one", "two"))
        assert inbox.next() == {
            "READY": "1",
            "STATUS": "The configuration is in force.",
        }
        said = stopped(process)
    assert said.count("2 brokers") == said.count("configuration reloaded") == 1


@pytest.mark.slow  # starts the agent: a second or two
def test_a_hangup_before_the_agent_is_imported_is_a_reload_too(
    tmp_path: Path, inbox: Inbox
) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(configuration("one"))
    with running(tmp_path, file, inbox, SLOW_IMPORT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "imports\n"
        process.send_signal(signal.SIGHUP)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert inbox.next()["READY"] == "1"
        assert inbox.next()["RELOADING"] == "1"
        assert inbox.next()["READY"] == "1"
        assert "configuration reloaded" in stopped(process)
    assert inbox.next() == {"STOPPING": "1"}


@pytest.mark.slow  # starts the agent: a second or two
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_stop_before_the_agent_is_imported_ends_it_in_good_order(
    tmp_path: Path, inbox: Inbox, number: signal.Signals
) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(configuration("one"))
    with running(tmp_path, file, inbox, SLOW_IMPORT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "imports\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (0, "")


@pytest.mark.slow  # starts the agent: a second or two
def test_a_worker_process_ignores_a_hangup_while_it_is_imported(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    words = [
        sys.executable,
        "-c",
        WORKER,
        "info",
        "logfmt",
        str(tmp_path / "worker-1"),
        str(theirs.fileno()),
    ]
    with (
        ours,
        subprocess.Popen(
            words,
            text=True,
            pass_fds=[theirs.fileno()],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        ) as process,
    ):
        theirs.close()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "imports\n"
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        ours.close()  # the agent has ended: so does its worker process, by itself
        process.communicate("go on\n", timeout=SECONDS)
    assert process.returncode == 1


@pytest.mark.slow  # starts the agent: a second or two
def test_a_reload_that_is_refused_is_reported_with_its_reason(
    tmp_path: Path, inbox: Inbox
) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(configuration("one"))
    with running(tmp_path, file, inbox) as process:
        assert inbox.next()["READY"] == "1"
        file.write_text("intervall: 1s\n" + configuration("one"))
        process.send_signal(signal.SIGHUP)
        begun = int(inbox.next()["MONOTONIC_USEC"]) / 1e6
        assert time.monotonic() - SECONDS < begun < time.monotonic()
        status = inbox.next()["STATUS"]
        assert re.search(
            r"was refused, the configuration before it stays in force: .*penstock.yaml:1: intervall",
            status,
        )
        until_logged(process, "the old one stays")
        stopped(process)


def test_without_a_service_manager_nothing_is_sent() -> None:
    manager = ServiceManager()
    manager.ready("The configuration is in force.")
    manager.stopping()


def test_a_socket_that_is_gone_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager(str(tmp_path / "gone")).ready("The configuration is in force.")
    assert "the service manager does not take READY=1" in caplog.text


def test_programs_that_the_agent_starts_do_not_get_the_socket(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(inbox.path))
    ServiceManager.from_environment().ready("line\nsecond")
    assert "NOTIFY_SOCKET" not in os.environ
    assert inbox.next() == {"READY": "1", "STATUS": "line"}


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0penstock-test-" + str(os.getpid()))
        receiver.settimeout(SECONDS)
        ServiceManager(f"@penstock-test-{os.getpid()}").stopping()
        assert receiver.recv(100) == b"STOPPING=1"
