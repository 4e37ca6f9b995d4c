"""What joining needs is there when the history begins to be written: an agent that runs keeps to its memory."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from history.polls import Clock, recorded, writer
from penstock.history import compact
from penstock.history.schema import KINDS
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, Poll


def test_each_kind_is_joined(tmp_path: Path) -> None:
    compact.rehearse(tmp_path)
    joined = [entry.path for entry in Store(str(tmp_path)).files("raw")]
    assert len(joined) == len(KINDS)
    assert all("/joined-" in path for path in joined)


def started_and_stopped(history: HistoryWriter, poll: Poll) -> None:
    history.start()
    history.offer_poll(poll.broker, poll.interval, poll.snapshot, (), poll.evicted)
    history.stop()


def a_poll() -> Poll:
    return Poll("b1", recorded("healthy")[0])


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    poll = a_poll()
    started_and_stopped(writer(tmp_path, Clock()), poll)
    assert list((tmp_path / "spool").glob("*/")) == []
    day = datetime.fromtimestamp(poll.snapshot.stamp, UTC)
    assert {path.split("/")[2] for path in paths(tmp_path)} == {f"dt={day:%Y-%m-%d}"}, "of the poll and of no other"


def test_what_a_kill_leaves_of_it_is_removed_and_never_published(tmp_path: Path) -> None:
    left = tmp_path / "spool" / "tmp-of-a-rehearsal"
    left.mkdir(parents=True)
    compact.rehearse(left)
    started_and_stopped(writer(tmp_path, Clock()), a_poll())
    assert not left.exists()
    assert len([path for path in paths(tmp_path) if "kind=broker/" in path]) == 1


@pytest.mark.parametrize("error", [OSError("no room"), KeyError("a defect")])
def test_one_that_fails_costs_no_poll(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: Path) -> None:
        raise error

    monkeypatch.setattr("penstock.history.writer.rehearse", fails)
    history = writer(tmp_path, Clock())
    with caplog.at_level(logging.WARNING):
        started_and_stopped(history, a_poll())
    assert "history" in caplog.text
    assert history.numbers()["history_dropped_polls"] == 0
    assert history.numbers()["history_success"] == 1
    assert paths(tmp_path)


def paths(directory: Path) -> list[str]:
    return [entry.path for entry in Store(str(directory / "history")).files("raw")]
