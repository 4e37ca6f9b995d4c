"""
State files that version 283a76f wrote, in the midst of a recording, are read: the rest is judged as without a restart.

The name of a file says which recording: its kind, and its name.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.stored import opened
from labelled import openmq, recordings
from penstock.account.account import MessageAccount
from penstock.account.openmq import OpenmqAccount
from penstock.agent.checkpoint import Checkpoint, restore
from penstock.agent.migration import take_in_earlier_files
from penstock.assessment.assess import State, assess
from penstock.core.state import By, declared, row_states
from penstock.learned.absence import Absences
from penstock.learned.normal import Normal
from penstock.learned.service import ServiceTime
from penstock.model import Snapshot
from penstock.observation.facts import time_of
from penstock.rule_engine.judgement import Judgement
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy

FILES = sorted((Path(__file__).parent / "state_files").glob("283a76f-*.bin"))
ACCOUNT = {
    name
    for account in (MessageAccount(), OpenmqAccount())
    for state in row_states(account)
    for one in declared(type(state)).values()
    for name in one.names
}
COUNTED = {"ledger_evicted", "ledger_by_consumers", "ledger_lost_last"}
"""Of the account, under the names that they had: counters go on."""
NORMAL = {
    name
    for kind in (Absences, Normal, ServiceTime)
    for one in declared(kind).values()
    for name in one.names
}
SINCE = (
    (ACCOUNT - COUNTED) | {"oldest_empty_at", "span_expired", "span_present"} | NORMAL
)
"""Columns that came later."""
GONE = {f"ledger_raw_{n}" for n in range(3)} | {
    f"ledger_{name}"
    for name in (
        "grew", "lost_now",
        "usable", "usable_at", "balance", "routed", "returning", "d_added", "d_due", "set_back", "delivering",
        "delivering_before",
    )
} | {
    f"openmq_{name}" for name in ("lost_raw", "lost_shown", "rejected_raw", "rejected_shown", "in_delivery", "messages")
}  # fmt: skip
"""Columns that are no more."""
POLICY = Policy("recorded", constants=replace(Constants(), cold=45.0, trend=60.0))


def polls_of(recording: Path) -> list[Snapshot]:
    of_openmq = recording.parent.name == "openmq"
    samples: openmq.Samples | recordings.Samples = (
        openmq.Samples() if of_openmq else recordings.Samples()
    )
    lines = recordings.lines(recording)
    lines = openmq.without_the_run_before(lines) if of_openmq else lines
    return [
        samples.snapshot(line)
        for line in lines
        if "meta" not in line and "event" not in line
    ]


def checkpoint_in(file: Path, folder: Path) -> Checkpoint:
    shutil.copy(file, folder / "state.bin")
    store = opened(folder)
    take_in_earlier_files(folder, store)
    (checkpoint,) = store.of_node("recorded") or store.of_node("name:recorded")
    return checkpoint


def known(state: State) -> dict[str, Any]:
    """What is compared: conditions, and what is known of each queue and consumer."""
    judgement = state.judgement
    return {
        "conditions": sorted(
            (one.name, one.queue, one.client, one.severity, one.since)
            for one in judgement.conditions
            if one.name
            != "ring_losing"  # of the account, which that version did not have: it begins anew
        ),
        "evicted": judgement.measures.columns["evicted"].tolist(),
        "unacknowledged since": judgement.unacked.unacked_since.tolist(),
        "last settled": judgement.unacked.settled.tolist(),
        "flow windows": [limit.tolist() for limit in judgement.openmq.windows.limits()],
    }


@pytest.mark.slow  # judges a recording
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rest_of_the_recording_is_judged_as_without_a_restart(
    file: Path, tmp_path: Path
) -> None:
    _, kind, name = file.stem.split("-", 2)
    polls = polls_of(recordings.HERE / kind / f"{name}.jsonl.gz")
    checkpoint = checkpoint_in(file, tmp_path)
    whole = State()
    again = None
    for poll in polls:
        whole, _ = assess(whole, poll, POLICY)
        if time_of(poll) <= checkpoint.now:
            continue
        begins = again is None
        again = restore(checkpoint, State(), poll, POLICY) if again is None else again
        again, _ = assess(again, poll, POLICY)
        found = known(again)
        expected = known(whole)
        if (
            begins
        ):  # what was evicted while no agent polled is sure when two polls have seen it
            assert all(
                np.isnan(one) or one >= before
                for one, before in zip(
                    found.pop("evicted"), evicted_in(checkpoint), strict=True
                )
            )
            expected.pop("evicted")
        if kind == "openmq":  # counted by its account now, which begins anew
            found.pop("evicted", None)
            expected.pop("evicted", None)
        np.testing.assert_equal(found, expected)
    assert again is not None


def evicted_in(checkpoint: Checkpoint) -> list[float]:
    """NaN, of which nothing is expected, as 0."""
    return list(np.nan_to_num(checkpoint.queues["ledger_evicted"]))


def test_every_column_of_an_old_file_has_its_place_and_its_name(tmp_path: Path) -> None:
    """Of an OpenMQ: all that outlives the agent. Under another name it would be a column that the file lacks."""
    (file,) = [file for file in FILES if file.stem.endswith("openmq-remove_oldest")]
    checkpoint = checkpoint_in(file, tmp_path)
    assert {*checkpoint.queues} - GONE == names_by(By.QUEUE) - SINCE
    assert {*checkpoint.consumers} == names_by(By.CONSUMER) - {"hold_least"}


def names_by(by: By) -> set[str]:
    return {
        name
        for state in row_states(Judgement())
        if state.BY is by
        for name in state.saved()
    }


def test_there_are_files_of_both_kinds_of_broker() -> None:
    assert {file.stem.split("-")[1] for file in FILES} == {"artemis", "openmq"}
