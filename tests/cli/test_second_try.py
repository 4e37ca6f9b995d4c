"""`penstock check` polls a broker that could not be read in full once more, and says so."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.agent.factory import open_reader
from penstock.cli import main
from penstock.core.errors import PenstockError, Refused, Unreachable
from penstock.model import Collector, Snapshot

RECORDING = Path(__file__).parent.parent / "recordings" / "artemis-2.44.0.jsonl.gz"
SLOW = Unreachable("http://h: no answer within 0.4 s")
NO_TIME = "no answer within 0.2 s"


class Scripted:
    """In place of a reader of a recording: its first polls fail, or lack the queues; `polls` counts them."""

    def __init__(self, reader: Any, failures: Sequence[PenstockError | str]) -> None:
        self.polls = 0
        self._reader = reader
        self._failures = list(failures)

    async def poll(self, timeout: float) -> Snapshot:
        self.polls += 1
        failure = self._failures.pop(0) if self._failures else ""
        if isinstance(failure, PenstockError):
            raise failure
        snapshot: Snapshot = await self._reader.poll(timeout)
        failed = {"queues": Collector(0.2, snapshot.stamp, failure)} if failure else {}
        return replace(snapshot, collectors={**snapshot.collectors, **failed})

    async def close(self) -> None:
        await self._reader.close()


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, int]]:
    """`penstock check` of a broker whose first polls fail so: exit status, output, and number of polls."""
    config = tmp_path / "penstock.yaml"
    config.write_text(
        f"brokers: [{{name: b, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}]\n"
    )

    def run(*failures: PenstockError | str) -> tuple[int, str, int]:
        readers: list[Scripted] = []

        def scripted(*arguments: Any, **options: Any) -> Scripted:
            readers.append(Scripted(open_reader(*arguments, **options), failures))
            return readers[-1]

        monkeypatch.setattr("penstock.cli.polling.open_reader", scripted)
        done = CliRunner().invoke(main, ["check", "--config.file", str(config)])
        return done.exit_code, done.output, readers[0].polls

    return run


def test_a_broker_that_answers_is_polled_once(
    check: Callable[..., tuple[int, str, int]],
) -> None:
    status, output, polls = check()
    assert (status, polls) == (0, 1)
    assert "second poll" not in output


@pytest.mark.parametrize("failure", [SLOW, NO_TIME], ids=["all", "a part"])
def test_one_that_was_slow_once_is_polled_again(
    check: Callable[..., tuple[int, str, int]], failure: PenstockError | str
) -> None:
    status, output, polls = check(failure)
    assert (status, polls) == (0, 2)
    assert "FAILED" not in output
    (note,) = [line for line in output.splitlines() if "second poll" in line]
    assert note.startswith("  note      only the second poll read all; the first one: ")
    assert str(failure) in note


@pytest.mark.parametrize(
    "failures", [(SLOW, SLOW), (NO_TIME, NO_TIME), (SLOW, NO_TIME)]
)
def test_one_that_is_slow_twice_fails(
    check: Callable[..., tuple[int, str, int]],
    failures: tuple[PenstockError | str, ...],
) -> None:
    status, output, polls = check(*failures)
    assert (status, polls) == (1, 2)
    assert (
        f"FAILED    {'' if failures[1] is SLOW else 'queues: '}{failures[1]}" in output
    )
    assert "second poll" not in output


def test_one_that_refuses_the_login_is_left_alone(
    check: Callable[..., tuple[int, str, int]],
) -> None:
    """More failed logins would lock the account."""
    status, output, polls = check(Refused("check username and password"))
    assert (status, polls) == (1, 1)
    assert "FAILED    check username and password" in output
