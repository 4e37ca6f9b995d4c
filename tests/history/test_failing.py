"""A poll that the spool lost is told until one is kept again; that something else was published says nothing of it."""

import errno
from pathlib import Path

import pytest

from history.polls import Clock, recorded, writer
from penstock.history.spool import Spool
from penstock.history.writer import PollRecord


@pytest.mark.slow  # many polls
def test_a_lost_poll_is_told_until_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    poll = PollRecord("b1", recorded("healthy")[0])
    clock.now = poll.snapshot.stamp
    history = writer(tmp_path, clock, publish=0.0)
    history.step(poll)
    with monkeypatch.context() as full:

        def no_room(self: Spool, stamp: float, batches: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(Spool, "append", no_room)
        history.step(poll)
        assert history.dropped == 1
        assert "No space left" in history.failing
    history.step(None)
    assert history.numbers()["history_success"] == 0, (
        "what was published was kept before"
    )
    history.step(poll)
    assert history.numbers()["history_success"] == 1
