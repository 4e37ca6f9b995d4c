"""Polls to write: the labelled recordings of a real broker, judged as the agent judges them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from judging.recordings import HERE, Samples, lines
from penstock.agent.history import evicted
from penstock.flow.assess import State, assess
from penstock.flow.judge.conditions import Condition
from penstock.flow.judge.constants import Constants
from penstock.flow.policy import Policy
from penstock.flow.retention import Kept, retain
from penstock.history.compact import Keep, read
from penstock.history.schema import KINDS
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, Poll, Settings
from penstock.model import Snapshot

POLICY = Policy("recorded", constants=replace(Constants(), cold=45.0, trend=60.0))
NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in (HERE / "artemis").glob("*.jsonl.gz"))


@dataclass(frozen=True, slots=True)
class Judged:
    snapshot: Snapshot
    conditions: tuple[Condition, ...]
    evicted: np.ndarray[tuple[int], np.dtype[np.float64]]


def recorded(name: str) -> list[Snapshot]:
    samples = Samples()
    path = HERE / "artemis" / f"{name}.jsonl.gz"
    return [samples.snapshot(line) for line in lines(path) if "meta" not in line and "event" not in line]


def judged(snapshots: Sequence[Snapshot], policy: Policy = POLICY) -> Iterator[Judged]:
    state, kept = State(), Kept()
    for snapshot in snapshots:
        kept, retained = retain(kept, snapshot, 60.0)
        state, _ = assess(state, retained, policy)
        yield Judged(snapshot, state.judgement.conditions, evicted(snapshot, state.judgement))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def writer(
    directory: Path, clock: Clock, *, url: str = "", publish: float = 300.0, spool: int = 1 << 30
) -> HistoryWriter:
    settings = Settings(directory / "spool", url or str(directory / "history"), publish, spool, Keep(), "a1")
    return HistoryWriter(settings, clock)


def write(
    directory: Path, polls: Sequence[Judged], *, interval: float = 5.0, url: str = "", broker: str = POLICY.broker
) -> Store:
    """All of `polls` written and published, by the thread's own steps."""
    clock = Clock()
    clock.now = polls[0].snapshot.stamp
    history = writer(directory, clock, url=url)
    for poll in polls:
        clock.now = poll.snapshot.stamp
        history.step(Poll(broker, poll.snapshot, poll.conditions, poll.evicted, interval))
    history.finish()
    assert history.failing == ""
    return Store(url or str(directory / "history"))


def rows(store: Store, kind: str) -> list[dict[str, object]]:
    """All published rows of a kind, as they stand in its files."""
    paths = [entry.path for entry in store.files("raw") if f"kind={kind}/" in entry.path]
    found: list[dict[str, object]] = read(store, paths, KINDS[kind]).to_pylist()
    return found
