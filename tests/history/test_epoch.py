"""Which life of its counters a row belongs to, over restarts of the broker and of the agent."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from core.things import ACTIVE, queue, snapshot, table
from penstock.core.table import Keys
from penstock.history.epoch import CounterEpochs
from penstock.model import Observation, Process, Snapshot

SIDS = np.array([7], np.int64)


def poll(stamp: float, uptime: float, added: float, skew: float = 0.0) -> Snapshot:
    broker = replace(ACTIVE, clock=stamp + skew, uptime=uptime)
    seen = snapshot(stamp, broker, queues=table([queue("q")], added=[added]))
    return replace(seen, observation=Observation(Process("b1", stamp + skew, uptime)))


def life(lives: CounterEpochs, seen: Snapshot) -> Keys:
    assert seen.queues is not None
    lives.begin_poll("b1", seen)
    return lives.of("b1", "queue", seen.queues, SIDS, ("added",), seen.stamp)


def test_a_young_process_that_another_replaces_ends_the_life() -> None:
    """Neither its uptime nor a counter has fallen: what was reloaded is counted as added."""
    lives = CounterEpochs()
    first = life(lives, poll(1000.0, 20.0, added=100))
    assert life(lives, poll(1015.0, 35.0, added=110)) == first
    assert life(lives, poll(1060.0, 40.0, added=120)) != first


@pytest.mark.slow  # writes and reads history
@pytest.mark.parametrize(("uptime", "goes_on"), [(80.0, True), (40.0, False)])
def test_over_a_restart_of_the_agent(
    tmp_path: Path, uptime: float, goes_on: bool
) -> None:
    """The broker's clock is an hour ahead, and has nothing to do with the agent's."""
    before = CounterEpochs()
    after = CounterEpochs()
    first = life(before, poll(1000.0, 20.0, added=100, skew=3600.0))
    before.save(tmp_path / "lives.arrow")
    after.load(tmp_path / "lives.arrow")
    assert (
        bool(life(after, poll(1060.0, uptime, added=120, skew=3600.0)) == first)
        is goes_on
    )


@pytest.mark.slow  # writes and reads history
def test_a_file_that_does_not_say_whose_counters_they_are_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = CounterEpochs()
    after = CounterEpochs()
    first = life(before, poll(1000.0, 20.0, added=100))
    before.save(tmp_path / "lives.arrow")
    table = (
        pa.ipc.open_file(str(tmp_path / "lives.arrow"))
        .read_all()
        .replace_schema_metadata(None)
    )
    with pa.ipc.new_file(str(tmp_path / "lives.arrow"), table.schema) as writer:
        writer.write_table(table)
    after.load(tmp_path / "lives.arrow")
    assert "counters start again" in caplog.text
    assert life(after, poll(1015.0, 35.0, added=120)) != first
