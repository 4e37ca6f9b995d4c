"""A recorded broker against what its clients counted: every message balanced, ring losses named within bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from account.recorded import Recorded
from penstock.account.account import MessageAccount
from penstock.account.fates import address_fates, queue_fates
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.agent.record import applied, record_of, written_as
from penstock.assessment.assess import State, Tables, assess
from penstock.model import Snapshot
from penstock.settings.policy import Policy

POLICY = Policy("b")
KILLED = {"g.ring0": 10, "g.ring1": 121}
"""Lost when the clients were killed at the end, and by them not counted: by closes."""

PROTOTYPE = {
    "g.ring0": {2: (222, 258), 6: (183, 306), 10: (156, 329)},
    "g.ring1": {2: (1387, 1686), 6: (1214, 2180), 10: (806, 2512)},
    "g.ringtx": {2: (24, 27), 6: (3, 27), 10: (2, 27)},
}
"""Bounds of what was lost by closes, by the seconds between polls: as narrow they must be."""


@dataclass
class Run:
    state: State
    tables: Tables
    last: Snapshot

    @property
    def account(self) -> MessageAccount:
        return self.state.judgement.account

    def fate(self, fate: str, queue: str) -> tuple[float, float]:
        assert self.last.queues is not None
        low, high = (queue_fates(self.account, self.last.queues) | address_fates(self.account))[fate]
        at = self.at(queue)
        return float(low[at]), float(high[at])

    def at(self, queue: str) -> int:
        return [row.name for row in self.account.books.index].index(queue)

    def shown(self) -> Mapping[tuple[str, str], float]:
        values = zip(self.tables["account"].index, self.tables["account"]["messages"].tolist(), strict=True)
        return {(row.queue or row.address, row.fate): value for row, value in values if not np.isnan(value)}


def assessed(snapshots: Iterator[Snapshot], state: State | None = None) -> Iterator[Run]:
    state = state or State()
    for snapshot in snapshots:
        state, tables = assess(state, snapshot, POLICY)
        yield Run(state, tables, snapshot)


@pytest.fixture(scope="module", params=[1, 3, 5], ids=["each 2 s", "each 6 s", "each 10 s"])
def runs(request: pytest.FixtureRequest) -> list[Run]:
    return list(assessed(Recorded().snapshots(request.param)))


def test_every_message_is_accounted_for(runs: list[Run]) -> None:
    truth, run = Recorded().truth, runs[-1]
    books = run.account.books
    assert not books.unexplained.any()
    for name in ("g.fb", "g.fb1", "g.leak2", "g.crash", "g.ring0", "g.ring1", "g.ringtx", "g.ttl", "g.xaok", "g.nd"):
        i = run.at(name)
        assert books.came[i] == truth[f"{name}.sent"], name
        if name not in {"g.nd", "g.fb"}:  # which keeps what is settled; whose last batch was under way
            assert books.acknowledged[i] == truth[f"{name}.settled"], name
    assert (books.on_arrival[run.at("g.ttl")], books.expired[run.at("g.ttl")]) == (11_288, 11_685)
    assert books.content[run.at("g.leak2")] == truth["g.leak2.leaked"]
    assert (books.unheld[:, run.at("f.xa")] == 50).all()


def test_what_rings_lost_is_exact_and_by_whom_within_bounds(runs: list[Run]) -> None:
    truth, run = Recorded().truth, runs[-1]
    by = run.account.ring_losses
    for name in ("g.ring0", "g.ring1", "g.ringtx"):
        i, arrivals = run.at(name), truth.get(f"{name}.lostarrival", 0)
        closes = truth[f"{name}.lostclose"] + KILLED.get(name, 0)
        assert run.fate("evicted", name) == (arrivals + closes, arrivals + closes)
        assert by.least[i] <= closes <= by.most[i]
        clients = by.by_client[int(by.index.keys[i])]
        for client, (least, most, _) in clients.items():
            known = truth.get(f"{name}.lostclose.{client}", 0)
            assert known <= most, client
            others = closes - sum(truth.get(f"{name}.lostclose.{one}", 0) for one in clients if one != client)
            assert least <= others, client
        assert sum(one.least for one in clients.values()) <= by.least[i]
        least, most = PROTOTYPE[name][round(runs[1].last.stamp - runs[0].last.stamp)]
        assert least <= by.least[i]
        assert by.most[i] <= most


def test_nothing_else_is_lost_and_no_counter_falls(runs: list[Run]) -> None:
    before: Mapping[tuple[str, str], float] = {}
    for run in runs:
        shown = run.shown()
        assert all(shown[name] >= value for name, value in before.items())
        before = shown
    assert {queue for queue, fate in before if fate == "evicted"} == {"g.ring0", "g.ring1", "g.ringtx"}
    assert {fate for _, fate in before} == {"acknowledged", "expired", "evicted"}


def test_duplicates_of_producers_without_an_address_are_not_known(runs: list[Run]) -> None:
    assert runs[-1].fate("duplicate", "g.adup") == (0, np.inf)


@pytest.mark.parametrize("restart", [10, 60, 100])
@pytest.mark.parametrize("killed", [False, True])
def test_a_restart_of_the_agent_counts_nothing_twice(restart: int, *, killed: bool) -> None:
    """Killed: its checkpoint is seven polls old, the rest stands in the journal."""
    snapshots = list(Recorded().snapshots())
    checkpoint: Checkpoint | None = None
    written = None
    for number, run in enumerate(assessed(iter(snapshots[:restart]))):
        if checkpoint is None or (not killed and number == restart - 1) or (killed and number == restart - 8):
            checkpoint = checkpoint_of(run.state, run.last, POLICY)
            assert checkpoint is not None
            written = written_as(checkpoint, run.state, {}, number)
        else:
            record, written = record_of(written, run.state, run.last, POLICY, {}, (), number)
            assert record is not None
            checkpoint = applied(checkpoint, record)
    assert checkpoint is not None
    before = run.shown()
    state = restore(checkpoint, State(), snapshots[restart + 5], POLICY)
    runs = list(assessed(iter(snapshots[restart + 5 :]), state))
    assert all(runs[0].shown()[name] >= value for name, value in before.items())
    (whole,) = list(assessed(Recorded().snapshots()))[-1:]
    either = {("g.pollb", "acknowledged")}  # by clients that no poll lists: it may have been moved
    shown, known = runs[-1].shown(), whole.shown()
    assert {name: n for name, n in shown.items() if name not in either} == {
        name: n for name, n in known.items() if name not in either
    }
    assert runs[-1].fate("acknowledged", "g.pollb")[1] == whole.fate("acknowledged", "g.pollb")[1]
    assert not runs[-1].account.books.unexplained.any()
    by = runs[-1].account.ring_losses
    for name in ("g.ring0", "g.ring1", "g.ringtx"):
        i = runs[-1].at(name)
        closes = Recorded().truth[f"{name}.lostclose"] + KILLED.get(name, 0)
        assert by.least[i] <= closes <= by.most[i]
