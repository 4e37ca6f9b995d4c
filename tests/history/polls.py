"""Polls to write: the labelled recordings of a real broker, judged as the agent judges them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from labelled.recordings import HERE, Samples, lines
from penstock.agent.history import evicted
from penstock.assessment.assess import State, advance
from penstock.conditions.condition import ActiveCondition
from penstock.history.compact import Keep, current, read
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store, StoredFile
from penstock.history.writer import HistoryWriter, PollRecord, WriterSettings
from penstock.model import Snapshot
from penstock.series.last_good import LastGood, keep_last_good
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy

POLICY = Policy("recorded", constants=replace(Constants(), cold=45.0, trend=60.0))
NAMES = sorted(
    path.name.removesuffix(".jsonl.gz")
    for path in (HERE / "artemis").glob("*.jsonl.gz")
)


@dataclass(frozen=True, slots=True)
class Judged:
    snapshot: Snapshot
    conditions: tuple[ActiveCondition, ...]
    evicted: np.ndarray[tuple[int], np.dtype[np.float64]]


def recorded(name: str) -> list[Snapshot]:
    samples = Samples()
    path = HERE / "artemis" / f"{name}.jsonl.gz"
    return [
        samples.snapshot(line)
        for line in lines(path)
        if "meta" not in line and "event" not in line
    ]


def judged(snapshots: Sequence[Snapshot], policy: Policy = POLICY) -> Iterator[Judged]:
    state = State()
    kept = LastGood()
    for snapshot in snapshots:
        kept, retained = keep_last_good(kept, snapshot, 60.0)
        state = advance(state, retained, policy)
        yield Judged(
            snapshot, state.judgement.conditions, evicted(snapshot, state.judgement)
        )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def writer(
    directory: Path,
    clock: Clock,
    *,
    url: str = "",
    publish: float = 300.0,
    spool: int = 1 << 30,
) -> HistoryWriter:
    settings = WriterSettings(
        directory / "spool",
        url or str(directory / "history"),
        publish,
        spool,
        Keep(),
        "a1",
    )
    return HistoryWriter(settings, clock)


def write(
    directory: Path,
    polls: Sequence[Judged],
    *,
    interval: float = 5.0,
    url: str = "",
    broker: str = POLICY.broker,
) -> Store:
    """All of `polls` written and published, by the thread's own steps."""
    clock = Clock()
    clock.now = polls[0].snapshot.stamp
    history = writer(directory, clock, url=url)
    for poll in polls:
        clock.now = poll.snapshot.stamp
        history.step(
            PollRecord(broker, poll.snapshot, poll.conditions, poll.evicted, interval)
        )
    history.finish()
    assert history.failing == ""
    return Store(url or str(directory / "history"))


def files(store: Store, kind: str = "") -> list[StoredFile]:
    """The raw files of a kind, or of all, that readers go by."""
    return [entry for entry in current(store) if f"kind={kind}" in entry.path]


def rows(store: Store, kind: str) -> list[dict[str, object]]:
    """All published rows of a kind, as they stand in the files that readers go by."""
    paths = [entry.path for entry in files(store, kind)]
    found: list[dict[str, object]] = read(store, paths, ROW_TYPES[kind]).to_pylist()
    return found
