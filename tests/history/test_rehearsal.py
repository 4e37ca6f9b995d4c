"""Joining is done once at the start; it leaves nothing, and costs no poll when it fails."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from history.polls import Clock, recorded, writer
from penstock.history.compact import NAME, REHEARSED, warm_up
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, PollRecord
from penstock.rule_engine.judgement import Judgement


def a_poll() -> PollRecord:
    return PollRecord("b1", recorded("healthy")[0])


def started(history: HistoryWriter, poll: PollRecord) -> HistoryWriter:
    history.start()
    history.offer_poll(
        poll.broker, poll.interval, poll.snapshot, Judgement(), poll.evicted
    )
    return history


def wait_until(came: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not came():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def paths(directory: Path) -> list[str]:
    return [entry.path for entry in Store(str(directory / "history")).files("raw")]


def test_each_is_joined_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[str] = []
    write = Store.write_table

    def noted(store: Store, name: str, rows: object) -> None:
        joined.append(name)
        write(store, name, rows)

    monkeypatch.setattr(Store, "write_table", noted)
    warm_up(tmp_path)
    assert [name.split("/")[1] for name in joined if "/joined-" in name] == sorted(
        f"kind={k.name}" for k in REHEARSED
    )
    assert list(tmp_path.iterdir()) == []


def test_a_writer_does_it_beside_its_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Path] = []

    def noted(spool: Path) -> None:
        warm_up(spool)
        done.append(spool)

    monkeypatch.setattr("penstock.history.writer.warm_up", noted)
    poll = a_poll()
    history = started(writer(tmp_path, Clock()), poll)
    wait_until(lambda: done)
    history.stop()
    assert done == [tmp_path / "spool"], "once"
    assert list((tmp_path / "spool").glob("*/")) == []
    day = datetime.fromtimestamp(poll.snapshot.stamp, UTC)
    assert {path.split("/")[2] for path in paths(tmp_path)} == {f"dt={day:%Y-%m-%d}"}, (
        "of the poll and of no other"
    )


def test_what_a_kill_leaves_of_it_is_no_segment(tmp_path: Path) -> None:
    left = tmp_path / "spool" / NAME
    (left / "raw").mkdir(parents=True)
    (left / "raw" / "rest").write_bytes(b"x" * 100)
    history = writer(tmp_path, Clock(), spool=50)
    history.step(None)
    assert "nan" in repr(history.published), "there was nothing to publish"
    assert history.dropped_segments == 0
    warm_up(left.parent)
    assert not left.exists()


@pytest.mark.parametrize("error", [OSError("no room"), KeyError("a defect")])
def test_one_that_fails_is_no_failure_of_the_history(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []

    def fails(spool: Path) -> None:
        tried.append(spool)
        raise error

    monkeypatch.setattr("penstock.history.writer.warm_up", fails)
    history = started(writer(tmp_path, Clock()), a_poll())
    wait_until(lambda: tried)
    assert history.numbers()["history_success"] == 1
    history.stop()
    assert history.numbers()["history_dropped_polls"] == 0
    assert paths(tmp_path)


def test_memory_goes_back_after_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    monkeypatch.setattr("penstock.history.writer.give_back", lambda: given.append(1))
    clock = Clock()
    poll = a_poll()
    clock.now = poll.snapshot.stamp
    history = writer(tmp_path, clock)
    history.step(poll)
    assert not given
    history.finish()
    assert given == [1]
