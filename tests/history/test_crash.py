"""Killed at any moment: what was told to be safe is there, once, after the next run."""

import hashlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from history.polls import Clock, judged, recorded, rows, writer
from history.steps import killed_and_started_again
from penstock.history import spool
from penstock.history.compact import Keep, partition, tidy
from penstock.history.publish import publish
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store, StoreError
from penstock.history.writer import HistoryWriter, PollRecord

pytestmark = pytest.mark.slow  # a hundred processes are killed

BEGIN = 1_800_000_000.0


@pytest.mark.nightly  # many processes that are killed; those killed at any step run by day
def test_killed_while_writing_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    safe: list[float] = []
    chance = random.Random(7)  # noqa: S311 - repeatable
    for run in range(4):
        first = BEGIN + run * 100_000
        child = subprocess.Popen(
            [sys.executable, "-m", "history.crash_child", str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert child.stdout
        for _ in range(chance.randint(20, 200)):
            safe += [float(child.stdout.readline())]
        child.send_signal(signal.SIGKILL)
        safe += [float(line) for line in child.stdout.read().split("\n")[:-1]]
        child.wait()
        child.stdout.close()
    clock = Clock()
    clock.now = BEGIN + 1_000_000
    last = writer(tmp_path, clock)
    last.finish()
    store = Store(str(tmp_path / "history"))
    found = [row["agent_clock"] for row in rows(store, "broker")]
    assert len(found) == len(set(found)), "a poll stands twice"
    assert set(safe) <= set(found)
    assert len(found) <= len(safe) + 4, (
        "at most the poll under way is more than what was told"
    )
    assert len(rows(store, "queue")) == len(found)


def with_polls_to_publish(folder: Path) -> HistoryWriter:
    """Its spool has one closed segment."""
    clock = Clock()
    clock.now = BEGIN
    history = writer(folder, clock)
    for poll in judged(recorded("stuck-listener")):
        history._keep(
            PollRecord("b", poll.snapshot, poll.conditions, poll.evicted, 5.0)
        )
    history._spool.rotate()
    return history


@pytest.mark.parametrize("at", range(6))
def test_killed_while_publishing_it_is_published_once(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = with_polls_to_publish(tmp_path)
    store = Store(str(tmp_path / "history"))
    segment = history._spool.closed()[0]
    wanted = {kind: len(spool.read(segment, kind).rows) for kind in ROW_TYPES}
    steps = iter(range(100))

    def killed(*_: object) -> None:
        if next(steps) == at:
            raise KeyboardInterrupt

    def killed_before(real: Callable[..., None]) -> Callable[..., None]:
        def step(*arguments: Any) -> None:
            killed()
            real(*arguments)

        return step

    monkeypatch.setattr(Store, "write_with", killed_before(Store.write_with))
    monkeypatch.setattr(spool, "remove", killed_before(spool.remove))
    with pytest.raises(KeyboardInterrupt):
        publish(segment, store, "a1")
    monkeypatch.undo()
    publish(segment, store, "a1")
    assert {kind: len(rows(store, kind)) for kind in ROW_TYPES} == wanted
    assert not segment.exists()


HOUR = 3600.0
DAY = 86400.0


def hashes(store: Store) -> dict[str, str]:
    """By kind of all its rows."""
    return {
        kind: hashlib.sha256(
            "\n".join(sorted(map(str, rows(store, kind)))).encode()
        ).hexdigest()
        for kind in ROW_TYPES
    }


def tidied(
    directory: Path, now: float, step: int
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "history.tidy_child", str(directory), str(now), str(step)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip


@pytest.mark.nightly  # half a minute; those killed at any step run by day
def test_killed_while_joining_or_removing_the_rows_are_the_same(tmp_path: Path) -> None:
    clock = Clock()
    polls = list(judged(recorded("ring-overflow")))[:12]
    history = writer(tmp_path / "made", clock, publish=1200.0)
    history._tidied = np.inf  # not by itself
    # days with several files an hour, one of them too old to be kept
    for begin in (BEGIN - 40 * DAY, *(BEGIN - n * DAY for n in (6, 5, 1, 0))):
        for number, poll in enumerate(polls):
            clock.now = begin + 900.0 * number
            history.step(
                PollRecord(
                    "b",
                    replace(poll.snapshot, stamp=clock.now),
                    poll.conditions,
                    poll.evicted,
                    900.0,
                )
            )
    history.finish()
    made = Store(str(tmp_path / "made" / "history"))
    wanted_dir = tmp_path / "wanted"
    shutil.copytree(made.root, wanted_dir)
    now = BEGIN + 6 * HOUR
    total = int(tidied(wanted_dir, now, -1).stdout)
    wanted = hashes(Store(str(wanted_dir)))
    files = Store(str(wanted_dir)).files()
    assert total > 60
    assert 0 < len(files) < len(made.files())
    for step in (0, 1, 2, 3, 4, total // 2, total - 1):
        own = Store(str(tmp_path / f"killed-{step}"))
        shutil.copytree(made.root, own.root)
        assert tidied(Path(own.root), now, step).returncode == -signal.SIGKILL
        for kind in ROW_TYPES:
            there = list(map(str, rows(own, kind)))
            assert len(there) == len(set(there)), (
                f"killed at step {step}, a row of {kind} stands twice"
            )
        for _ in range(2):
            tidy(own, Keep(days=30.0), now)
        assert hashes(own) == wanted, f"killed at step {step}"
        # Named by what they were made of, which a kill may change.
        assert list(map(partition, own.files())) == list(map(partition, files))


@pytest.mark.parametrize("step", [40, 131, 240])
def test_killed_at_any_step_the_next_start_is_whole(step: int, tmp_path: Path) -> None:
    """`make test-trust` takes more of them."""
    killed_and_started_again(tmp_path, step)


def test_what_cannot_be_opened_is_not_thrown_away(tmp_path: Path) -> None:
    """Want of descriptors, a disk that stumbles: it is there, and is published when it can be read."""
    history = with_polls_to_publish(tmp_path)
    (segment,) = history._spool.closed()
    stream = segment / "queue.arrows"
    aside = tmp_path / "aside"
    stream.rename(aside)
    stream.mkdir()  # opening it fails, and it is there
    history._publish()
    assert "Is a directory" in history.failing
    stream.rmdir()
    aside.rename(stream)
    history._publish()
    assert history.failing == ""
    assert rows(Store(str(tmp_path / "history")), "queue")


def test_what_cannot_be_published_waits_and_the_oldest_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    clock.now = BEGIN
    history = writer(tmp_path, clock, publish=10.0, spool=300_000)
    poll = next(iter(judged(recorded("ring-overflow"))))

    def down(*_: object) -> None:
        raise StoreError("the bucket: not reachable")

    monkeypatch.setattr(Store, "write_with", down)
    for _ in range(60):
        clock.now += 10.0
        history.step(
            PollRecord("b", poll.snapshot, poll.conditions, poll.evicted, 10.0)
        )
    assert history.dropped_segments > 0
    assert history._spool.bytes() < 400_000
    assert "not reachable" in history.failing
    assert history.numbers()["history_success"] == 0
    monkeypatch.undo()
    kept = len(history._spool.closed())
    history.finish()
    assert history.numbers()["history_success"] == 1
    assert len(Store(str(tmp_path / "history")).files("raw/kind=broker")) >= kept > 0
