"""The account in the history: what is counted when, whom a ring lost messages to, and what a restart leaves of it."""

from pathlib import Path
from typing import Any

import pytest

from account.openmq_world import openmq_broker
from account.world import Broker, queue
from history.polls import Clock, rows, writer
from penstock.account import openmq
from penstock.account.fates import CAUSES, FATES, LOSSES
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, PollRecord
from penstock.insight.explain import BrokerView, explain
from penstock.insight.text import explanation

TAKER = {"queue": "q", "client": "taker", "T": 3.0, "N": 3.0, "C": 0.0}


class Kept:
    """A broker of plain numbers whose every poll is kept."""

    def __init__(self, directory: Path, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self._directory = directory
        self._clock = Clock()
        self._clock.now = self.broker.now  # it names the files
        self.history: HistoryWriter = writer(directory, self._clock)

    def see(self, *said: object, polls: int = 1, **more: object) -> "Kept":
        for _ in range(polls):
            self.broker.see(*said, **more)  # type: ignore[arg-type]
            self.keep()
        return self

    def keep(self) -> None:
        snapshot = self.broker.last
        assert snapshot is not None
        self._clock.now = snapshot.stamp
        self.history.step(PollRecord("b", snapshot, account=self.broker.account))

    def rows(self) -> list[dict[str, object]]:
        self.history.finish()
        return rows(Store(str(self._directory / "history")), "fate")

    def of(
        self, fate: str, queue: str = "q", client: str = ""
    ) -> list[tuple[object, object, object]]:
        """messages, most, before at each poll."""
        found = [
            row
            for row in self.rows()
            if (row["fate"], row["queue"], row["client"]) == (fate, queue, client)
        ]
        found.sort(key=lambda row: row["stamp"])  # type: ignore[arg-type, return-value]
        return [(row["messages"], row["most"], row["before"]) for row in found]


@pytest.mark.slow  # writes and reads history
def test_what_was_counted_before_the_history_is_not_counted_and_what_comes_first_is_in_full(
    tmp_path: Path,
) -> None:
    broker = Broker().see({"q": queue(0, 0)}).see({"q": queue(9, 4, K=5.0)}, polls=2)
    kept = Kept(tmp_path, broker)
    kept.see({"q": queue(9, 4, K=5.0)}).see({"q": queue(20, 4, K=9.0, E=7.0)})
    assert kept.of("acknowledged") == [(5, 5, 5), (9, 9, 5)]
    assert kept.of("expired") == [(7, 7, 0)]


def test_a_queue_made_since_counts_from_its_first_message(tmp_path: Path) -> None:
    kept = (
        Kept(tmp_path)
        .see({"q": queue(0, 0)})
        .see({"q": queue(0, 0), "new": queue(9, 2, K=5.0, E=2.0)})
    )
    assert kept.of("expired", "new") == [(2, 2, 0)]


@pytest.mark.slow  # writes and reads history
def test_a_loss_stands_beside_the_client_that_it_came_by(tmp_path: Path) -> None:
    kept = Kept(tmp_path).see(
        {"q": queue(0, 0, ring=3.0)},
        consumers={"c": {**TAKER, "T": 0.0, "N": 0.0}},
        polls=2,
    )
    kept.see({"q": queue(4, 4, D=3.0, ring=3.0)}, consumers={"c": TAKER}, polls=2)
    kept.see({"q": queue(4, 3, ring=3.0)}, polls=3)
    assert kept.of("evicted")[-1] == (1, 1, 1)
    assert kept.of("evicted", client="taker")[0] == (1, 1, 0)
    assert kept.of("evicted", client="taker")[-1] == (1, 1, 1)


@pytest.mark.slow  # writes and reads history
def test_what_no_queue_got_is_the_address_once(tmp_path: Path) -> None:
    """Also where the address has several queues, and one of them is new."""
    kept = Kept(tmp_path).see({"q": queue(0, 0)}, {"q": {"R": 0.0, "U": 0.0}}, polls=2)
    kept.see(
        {"q": queue(0, 0)},
        {"q": {"messages_added": 4.0, "messages_unrouted": 4.0}},
        polls=2,
    )
    assert kept.of("unrouted", "") == [(4, 4, 0), (4, 4, 4)]


@pytest.mark.slow  # writes and reads history
def test_no_most_is_null_and_bounds_are_both(tmp_path: Path) -> None:
    kept = Kept(tmp_path).see({"q": queue(900, 900, D=900.0, ring=1000.0)}, polls=2)
    kept.see({"q": queue(900, 100, ring=1000.0)})
    assert kept.of("evicted") == [(0, 800, 0)]


@pytest.mark.slow  # writes and reads history
def test_an_account_that_is_not_there_at_a_poll_begins_no_total_again(
    tmp_path: Path,
) -> None:
    kept = (
        Kept(tmp_path).see({"q": queue(0, 0)}, polls=2).see({"q": queue(20, 4, K=16.0)})
    )
    snapshot = kept.broker.last
    assert snapshot is not None
    kept.history.step(PollRecord("b", snapshot))
    kept.see({"q": queue(30, 4, K=26.0)})
    assert kept.of("acknowledged") == [(16, 16, 0), (26, 26, 16)]


@pytest.mark.slow  # writes and reads history
def test_another_agent_run_goes_on_with_the_same_life(tmp_path: Path) -> None:
    first = (
        Kept(tmp_path).see({"q": queue(0, 0)}, polls=2).see({"q": queue(20, 4, K=16.0)})
    )
    first.rows()
    second = Kept(tmp_path, first.broker)
    second.broker.restart_agent()
    second.see({"q": queue(30, 4, K=26.0)})
    found = [row for row in second.rows() if row["fate"] == "acknowledged"]
    assert len({(row["sid"], row["inc"]) for row in found}) == 1
    assert sorted((row["messages"], row["before"]) for row in found) == [
        (16, 0),
        (26, 26),
    ]


@pytest.mark.slow  # writes and reads history
def test_a_queue_removed_and_made_again_is_another_life(tmp_path: Path) -> None:
    kept = Kept(tmp_path).see({"q": queue(0, 0), "o": queue(0, 0)}, polls=2)
    kept.see({"q": queue(20, 4, K=16.0), "o": queue(0, 0)})
    kept.see({"o": queue(0, 0)}, polls=2)
    kept.broker.made_again("q")
    kept.see({"q": queue(50, 20, K=30.0), "o": queue(0, 0)})
    assert kept.of("acknowledged")[0] == (16, 16, 0)
    assert kept.of("acknowledged")[-1][2] == 0
    assert (
        len({row["inc"] for row in kept.rows() if row["fate"] == "acknowledged"}) == 2
    )


@pytest.mark.slow  # writes and reads history
def test_a_lost_poll_takes_no_first_count_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path).see({"q": queue(0, 0)}, polls=2)
    with monkeypatch.context() as full:

        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr("penstock.history.spool.Spool.append", no_room)
        kept.see({"q": queue(9, 4, E=5.0)})
    kept.see({"q": queue(9, 4, E=5.0)})
    assert kept.of("expired") == [(5, 5, 0)]


def test_every_fate_has_a_cause_but_the_one_that_is_the_aim() -> None:
    assert set(FATES) - CAUSES.keys() == {"acknowledged"}
    assert set(LOSSES) <= CAUSES.keys()


# --- OpenMQ


@pytest.mark.slow  # writes and reads history
def test_the_account_of_openmq_is_kept_the_same_way(tmp_path: Path) -> None:
    limit: dict[str, Any] = {"limit_messages": 100, "policy": "reject_newest"}
    broker = openmq_broker().see(90, 0, 90, polls=4, **limit)
    clock = Clock()
    clock.now = broker.now
    history = writer(tmp_path, clock)

    def keep() -> None:
        assert broker.last is not None
        clock.now = broker.last.stamp
        history.step(
            PollRecord("b", broker.last, account=broker.state.judgement.openmq_account)
        )

    keep()
    for _ in range(3):
        broker.see(150, 0, 100, others={"t": {"topic": 1, "A": 5.0}}, **limit)
        keep()
    history.finish()
    found = [
        row
        for row in rows(Store(str(tmp_path / "history")), "fate")
        if row["queue"] == "q"
    ]
    assert {
        (row["fate"], row["messages"], row["before"])
        for row in found
        if row["messages"]
    } == {
        ("rejected", 50, 0),
        ("rejected", 50, 50),
    }


def test_every_fate_of_openmq_has_a_cause() -> None:
    assert set(openmq.FATES) - CAUSES.keys() == {"acknowledged"}


@pytest.mark.slow  # writes and reads history
def test_a_queue_of_openmq_says_its_account() -> None:
    limit: dict[str, Any] = {"limit_messages": 100, "policy": "reject_newest"}
    broker = (
        openmq_broker()
        .see(90, 0, 90, polls=4, **limit)
        .see(150, 0, 100, polls=3, **limit)
    )
    assert broker.last is not None
    lines = list(
        explanation(
            explain(
                BrokerView(
                    broker.state, broker.tables, broker.last, broker.policy, 2.0
                ),
                "q",
            )
        )
    )
    at = lines.index("Account")
    assert "  rejected, lost  50" in lines[at : at + 4]
