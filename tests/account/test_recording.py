"""A recorded broker against what its clients counted: every message balanced, ring losses named within bounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from account.recorded import Recorded
from penstock.account.account import MessageAccount
from penstock.account.fates import address_fates, queue_fates
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.agent.record import applied, record_of, written_as
from penstock.assessment.assess import State, Tables, assess
from penstock.model import Snapshot
from penstock.observation.facts import or_zero
from penstock.settings.policy import Policy

POLICY = Policy("b")
KILLED = {"g.ring0": 10, "g.ring1": 121}
"""Lost when the clients were killed at the end, and by them not counted: by closes."""

PROTOTYPE = {
    "f.leak": (119, 0, 0, 0, 0, 119), "f.xa": (80, 0, 0, 0, 0, 80), "g.adup": (0, 1166, 0, 0, 0, 1166),
    "g.adupq": (0, 2308, 0, 0, 0, 2308), "g.bridge": (0, 14693, 14693, 0, 0, 0),
    "g.brout": (0, 14693, 14693, 0, 0, 0), "g.crash": (0, 4897, 4897, 0, 0, 0), "g.fb": (0, 19590, 18655, 0, 0, 935),
    "g.fb1": (0, 24488, 24488, 0, 0, 0), "g.leak2": (0, 29379, 29306, 0, 0, 73), "g.nd": (0, 735, 0, 0, 0, 735),
    "g.pollb": (0, 3000, 555, 0, 0, 2445), "g.ring0": (0, 472, 123, 0, 329, 20),
    "g.ring1": (0, 3354, 822, 0, 2512, 20), "g.ringtx": (0, 142, 115, 0, 27, 0), "g.ttl": (0, 956, 559, 11685, 0, 0),
    "g.xaok": (0, 1960, 1950, 0, 0, 10),
    "h.txq": (85, 0, 0, 0, 0, 85),
}  # fmt: skip
"""What the prototype's formulas say: at first, added, acknowledged, expired, evicted, content; of other queues 0."""
BY_CLOSES = {
    "g.ring0": ((222, 258), (183, 306), (156, 329)), "g.ring1": ((1387, 1686), (1214, 2180), (806, 2512)),
    "g.ringtx": ((24, 27), (3, 27), (2, 27)),
}  # fmt: skip
"""What it says rings lost by consumers that went or rolled back, by the seconds between polls."""
SECONDS = (2, 6, 10)


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
        low, high = (
            queue_fates(self.account, self.last.queues) | address_fates(self.account)
        )[fate]
        at = self.at(queue)
        return float(low[at]), float(high[at])

    def at(self, queue: str) -> int:
        return [row.name for row in self.account.books.index].index(queue)

    def shown(self) -> Mapping[tuple[str, str], float]:
        values = zip(
            self.tables["account"].index,
            self.tables["account"]["messages"].tolist(),
            strict=True,
        )
        return {
            (row.queue or row.address, row.fate): value
            for row, value in values
            if not np.isnan(value)
        }


def assessed(
    snapshots: Iterator[Snapshot], state: State | None = None
) -> Iterator[Run]:
    state = state or State()
    for snapshot in snapshots:
        state, tables = assess(state, snapshot, POLICY)
        yield Run(state, tables, snapshot)


@cache
def snapshots(every: int = 1) -> Sequence[Snapshot]:
    return tuple(Recorded().snapshots(every))


@cache
def played(every: int) -> Sequence[Run]:
    """All polls of the recording, of `every` so many; judged once for all tests that only look."""
    return tuple(assessed(iter(snapshots(every))))


each_two_seconds = pytest.mark.slow  # 150 polls of 40 queues


@pytest.fixture(
    params=[
        pytest.param(1, id="each 2 s", marks=each_two_seconds),
        pytest.param(3, id="each 6 s", marks=pytest.mark.slow),
        pytest.param(5, id="each 10 s"),
    ]
)
def runs(request: pytest.FixtureRequest) -> Sequence[Run]:
    return played(request.param)


def test_every_message_is_accounted_for(runs: Sequence[Run]) -> None:
    truth = Recorded().truth
    run = runs[-1]
    books = run.account.books
    assert not books.unexplained.any()
    for name in (
        "g.fb",
        "g.fb1",
        "g.leak2",
        "g.crash",
        "g.ring0",
        "g.ring1",
        "g.ringtx",
        "g.ttl",
        "g.xaok",
        "g.nd",
    ):
        i = run.at(name)
        assert books.came[i] == truth[f"{name}.sent"], name
        if name not in {
            "g.nd",
            "g.fb",
        }:  # which keeps what is settled; whose last batch was under way
            assert books.acknowledged[i] == truth[f"{name}.settled"], name
    assert (books.on_arrival[run.at("g.ttl")], books.expired[run.at("g.ttl")]) == (
        11_288,
        11_685,
    )
    assert books.content[run.at("g.leak2")] == truth["g.leak2.leaked"]
    assert (books.unheld[:, run.at("f.xa")] == 50).all()


def test_what_rings_lost_is_exact_and_by_whom_within_bounds(
    runs: Sequence[Run],
) -> None:
    truth = Recorded().truth
    run = runs[-1]
    by = run.account.ring_losses
    for name in ("g.ring0", "g.ring1", "g.ringtx"):
        i = run.at(name)
        arrivals = truth.get(f"{name}.lostarrival", 0)
        closes = truth[f"{name}.lostclose"] + KILLED.get(name, 0)
        assert run.fate("evicted", name) == (arrivals + closes, arrivals + closes)
        assert by.least[i] <= closes <= by.most[i]
        clients = by.by_client[int(by.index.keys[i])]
        for client, (least, most, _) in clients.items():
            known = truth.get(f"{name}.lostclose.{client}", 0)
            assert known <= most, client
            others = closes - sum(
                truth.get(f"{name}.lostclose.{one}", 0)
                for one in clients
                if one != client
            )
            assert least <= others, client
        assert sum(one.least for one in clients.values()) <= by.least[i]
        least, most = BY_CLOSES[name][
            SECONDS.index(round(runs[1].last.stamp - runs[0].last.stamp))
        ]
        assert least <= by.least[i]
        assert by.most[i] <= most


def test_each_queue_is_as_in_the_prototype(runs: Sequence[Run]) -> None:
    """But for what expired on arrival, which it does not count as come: 11,288 of g.ttl."""
    books = runs[-1].account.books
    columns = (
        books.opening,
        books.added,
        books.acknowledged,
        books.expired,
        or_zero(books.lost),
        books.content,
    )
    told = {
        row.name: tuple(int(column[i]) for column in columns)
        for i, row in enumerate(books.index)
    }
    assert {
        name: numbers for name, numbers in told.items() if any(numbers)
    } == PROTOTYPE


@pytest.mark.parametrize("name", BY_CLOSES)
@pytest.mark.parametrize(
    ("polls", "every"),
    [
        pytest.param(0, 1, marks=each_two_seconds),
        pytest.param(1, 3, marks=pytest.mark.slow),
        (2, 5),
    ],
)
def test_bounds_of_ring_losses_are_no_wider_than_in_the_prototype(
    name: str, polls: int, every: int
) -> None:
    run = played(every)[-1]
    by = run.account.ring_losses
    i = run.at(name)
    least, most = BY_CLOSES[name][polls]
    assert by.most[i] - by.least[i] <= most - least, (by.least[i], by.most[i])


def test_nothing_else_is_lost_and_no_counter_falls(runs: Sequence[Run]) -> None:
    before: Mapping[tuple[str, str], float] = {}
    for run in runs:
        shown = run.shown()
        assert all(shown[name] >= value for name, value in before.items())
        before = shown
    assert {queue for queue, fate in before if fate == "evicted"} == {
        "g.ring0",
        "g.ring1",
        "g.ringtx",
    }
    assert {fate for _, fate in before} == {"acknowledged", "expired", "evicted"}


def test_duplicates_of_producers_without_an_address_are_not_known(
    runs: Sequence[Run],
) -> None:
    assert runs[-1].fate("duplicate", "g.adup") == (0, np.inf)


@each_two_seconds
@pytest.mark.parametrize("restart", [10, 60, 100])
@pytest.mark.parametrize("killed", [False, True])
def test_a_restart_of_the_agent_counts_nothing_twice(
    restart: int, *, killed: bool
) -> None:
    """Killed: its checkpoint is seven polls old, the rest stands in the journal."""
    checkpoint: Checkpoint | None = None
    written = None
    for number, run in enumerate(played(1)[:restart]):
        if (
            checkpoint is None
            or (not killed and number == restart - 1)
            or (killed and number == restart - 8)
        ):
            checkpoint = checkpoint_of(run.state, run.last, POLICY)
            assert checkpoint is not None
            written = written_as(checkpoint, run.state, {}, number)
        else:
            record, written = record_of(
                written, run.state, run.last, POLICY, {}, number
            )
            assert record is not None
            checkpoint = applied(checkpoint, record)
    assert checkpoint is not None
    before = run.shown()
    state = restore(checkpoint, State(), snapshots()[restart + 5], POLICY)
    runs = list(assessed(iter(snapshots()[restart + 5 :]), state))
    assert all(runs[0].shown()[name] >= value for name, value in before.items())
    whole = played(1)[-1]
    either = {
        (name, "acknowledged") for name in ("g.pollb", "g.ring0", "g.ring1")
    }  # no poll lists all its clients
    shown = runs[-1].shown()
    known = whole.shown()
    assert {name: n for name, n in shown.items() if name not in either} == {
        name: n for name, n in known.items() if name not in either
    }
    for name, fate in either:
        assert runs[-1].fate(fate, name)[1] == whole.fate(fate, name)[1]
    assert not runs[-1].account.books.unexplained.any()
    by = runs[-1].account.ring_losses
    for name in ("g.ring0", "g.ring1", "g.ringtx"):
        i = runs[-1].at(name)
        closes = Recorded().truth[f"{name}.lostclose"] + KILLED.get(name, 0)
        assert by.least[i] <= closes <= by.most[i]
