"""What is kept with the records after it says what the state itself says."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.crashes import Agent, Traffic
from agent.stored import full, opened, opened_journal, small_pages  # noqa: F401 - a fixture
from penstock.agent import PollResult, Result
from penstock.agent.checkpoint import Checkpoint, KeptTotals, checkpoint_of
from penstock.agent.packed import checksummed, pack
from penstock.agent.record import Record, TotalsRecord
from penstock.agent.state_store import StateStore
from penstock.model import BrokerKind, Observation, Process, Role, Snapshot


def on_disk(agent: Agent) -> Checkpoint:
    (found,) = opened(agent.directory).of_node("node-1")
    return found


def store_of(agent: Agent) -> StateStore:
    return agent.kept._store


def in_memory(agent: Agent) -> Checkpoint:
    snapshot = agent.assessor.snapshot
    assert snapshot is not None
    found = checkpoint_of(agent.assessor.state, snapshot, agent.assessor.policy)
    assert found is not None
    return found


def sums(kept: KeptTotals) -> dict[Any, tuple[float, ...]]:
    return dict(
        zip(
            map(tuple, kept.names),
            zip(*(column.tolist() for column in kept.sums), strict=True),
            strict=True,
        )
    )


def said(
    kept: KeptTotals, names: dict[int, Any] | None = None
) -> dict[Any, tuple[float, ...]]:
    """By the things' keys, or names where the keys are the agent's own."""
    rows = zip(kept.keys.tolist(), zip(*(np.nan_to_num(column, nan=-1).tolist() for column in kept.last), strict=True),
               strict=True)  # fmt: skip
    return {names[key] if names else key: numbers for key, numbers in rows}


def producers_of(checkpoint: Checkpoint) -> dict[int, Any]:
    return dict(
        zip(
            checkpoint.producer_totals.keys.tolist(),
            map(tuple, checkpoint.producers),
            strict=True,
        )
    )


def counters(checkpoint: Checkpoint) -> dict[str, dict[int, float]]:
    return {
        name: {key: value for key, value in zip(checkpoint.queue_keys.tolist(), column.tolist(), strict=True)
               if not np.isnan(value)}
        for name, column in checkpoint.queues.items()
        if name in ("ledger_evicted", "ledger_by_consumers", "drops_dropped", "openmq_rejected_shown")
    }  # fmt: skip


def poll(agent: Agent, snapshot: Snapshot) -> None:
    agent.assessor.take(snapshot)
    agent.assessor.publish(PollResult(Result.OK), {})


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("kind", [BrokerKind.ARTEMIS, BrokerKind.OPENMQ])
def test_it_says_what_the_state_says(tmp_path: Path, kind: Any) -> None:
    agent = Agent(tmp_path, Traffic())
    for number in range(9):
        snapshot = agent.traffic.step()
        assert snapshot.broker is not None
        poll(agent, replace(snapshot, broker=replace(snapshot.broker, kind=kind)))
        if number == 4:
            agent.save()
        there = on_disk(agent)
        here = in_memory(agent)
        assert sums(there.consumer_totals) == sums(here.consumer_totals)
        assert sums(there.queue_totals) == sums(here.queue_totals)
        assert sums(there.producer_totals) == sums(here.producer_totals)
        assert said(here.consumer_totals).items() <= said(there.consumer_totals).items()
        now = producers_of(here)
        then = producers_of(there)
        assert (
            said(here.producer_totals, now).items()
            <= said(there.producer_totals, then).items()
        )
        for name, values in counters(here).items():
            assert values.items() <= counters(there)[name].items(), name
        if here.queue_names:
            named = dict(zip(there.queue_keys.tolist(), there.queue_names, strict=True))
            assert all(
                tuple(named[key]) == tuple(queue)
                for key, queue in zip(
                    here.queue_keys.tolist(), here.queue_names, strict=True
                )
            )
        assert {tuple(name): how for name, how, _ in there.told} == {
            tuple(name): how for name, how, _ in here.told
        }


def test_another_process_of_the_broker_is_a_new_base(tmp_path: Path) -> None:
    agent = Agent(tmp_path, Traffic())
    for _ in range(3):
        agent.poll()
    snapshot = agent.traffic.step()
    assert snapshot.broker is not None
    young = replace(snapshot.broker, uptime=5.0)
    poll(
        agent,
        replace(snapshot, broker=young, observation=Observation(Process.of(young))),
    )
    assert on_disk(agent).process == in_memory(agent).process == Process.of(young)
    assert sums(on_disk(agent).consumer_totals) == sums(
        in_memory(agent).consumer_totals
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("how", ["down", "passive"])
def test_what_was_recorded_of_a_broker_that_is_gone_is_in_the_next_save(
    tmp_path: Path, how: str
) -> None:
    agent = Agent(tmp_path, Traffic())
    for _ in range(6):
        agent.poll()
    told = in_memory(agent)
    if how == "down":
        agent.assessor.forget()
        agent.assessor.publish(PollResult(Result.FAILED, "no answer"), {})
    else:
        snapshot = agent.traffic.step()
        assert snapshot.broker is not None
        poll(
            agent, Snapshot(snapshot.stamp, replace(snapshot.broker, role=Role.PASSIVE))
        )
    agent.save()
    assert sums(on_disk(agent).consumer_totals) == sums(told.consumer_totals)


def test_records_that_rest_on_nothing_known_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(tmp_path, Traffic())
    for _ in range(3):
        agent.poll()
    before = in_memory(agent)
    store = store_of(agent)
    wrong = Record(
        store.next_sequence(), "node-1 b1", base=store.sequence + 77, told=[]
    )
    assert store.record(wrong, ())
    assert sums(on_disk(agent).consumer_totals) == sums(before.consumer_totals)
    assert len(on_disk(agent).told) == len(before.told)
    assert "does not fit" not in caplog.text


def test_a_record_that_does_not_fit_ends_what_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(tmp_path, Traffic())
    agent.poll()
    store = store_of(agent)
    base = agent.assessor.written
    assert base is not None
    clients = TotalsRecord(
        at=np.array([999_999]), sums=[np.array([1.0])] * 2, last=[np.empty(0)] * 2
    )
    assert store.record(
        Record(store.next_sequence(), "node-1 b1", base=base.base, clients=clients), ()
    )
    on_disk(agent)
    assert "does not fit" in caplog.text


@pytest.mark.slow  # many polls
@pytest.mark.usefixtures("small_pages")
def test_a_full_disk_is_said_once_and_all_is_recorded_after_the_next_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(tmp_path, Traffic())
    for _ in range(3):
        agent.poll()
    written = []
    with caplog.at_level(logging.WARNING), full(agent.database):
        for _ in range(3):
            agent.poll()
        agent.save()
        written.append(agent.kept.success)
    assert caplog.text.count("database or disk is full") == 1
    agent.save()
    agent.poll()
    written.append(agent.kept.success)
    assert written == [False, True]
    assert sums(on_disk(agent).consumer_totals) == sums(
        in_memory(agent).consumer_totals
    )


def test_the_events_of_a_poll_are_written_with_what_it_changed(tmp_path: Path) -> None:
    agent = Agent(tmp_path, Traffic())
    for _ in range(6):
        agent.poll()
    assert agent.journal.last(99)
    assert opened_journal(tmp_path).last(99) == agent.journal.last(99)


def test_a_record_is_small(tmp_path: Path) -> None:
    """Names are written once."""
    agent = Agent(tmp_path, Traffic())
    sizes = []
    for _ in range(4):
        before = store_of(agent).recorded_bytes
        agent.poll()
        sizes.append(store_of(agent).recorded_bytes - before)
    assert sizes[0] > len(checksummed(pack(Record())))
    assert sizes[1] < sizes[0]
