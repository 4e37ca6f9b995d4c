"""A condition that ends while the agent is away: its end is told, with when it was last seen."""

import gc
import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from history.episodes import Episode, episodes
from history.polls import Clock, recorded, rows, writer
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.history import told as kept
from penstock.history.exported import Exported
from penstock.history.spool import Spool
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, PollRecord
from penstock.incidents.incident import Incident
from penstock.incidents.incidents import Incidents
from penstock.rule_engine.judgement import Judgement

BEGIN = 1_800_000_000.0
DAY = 86400.0


@pytest.fixture(autouse=True)
def killed() -> Iterator[None]:
    """One that is killed closes no file; Python would say so in whatever test comes later."""
    gc.disable()  # what the test makes stays in the youngest generation, the only one that is quick to look through
    yield
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect(0)
    gc.enable()


def standing(*names: str, since: float = BEGIN) -> list[ActiveCondition]:
    return [
        ActiveCondition(
            name, "b", "a", "q", "c", Severity.CRITICAL, since, {"age": float("nan")}
        )
        for name in names
    ]


class Agents:
    """One after the other, on one spool."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clock = Clock()
        self._snapshot = recorded("healthy")[0]
        self._all: list[HistoryWriter] = []
        self.begin()

    def begin(self) -> None:
        self.history: HistoryWriter = writer(self._directory, self._clock)
        self._all.append(self.history)
        self.history.recall()

    def poll(self, at: float, conditions: Sequence[ActiveCondition]) -> None:
        self._clock.now = BEGIN + at
        self.history.step(
            PollRecord(
                "b",
                replace(self._snapshot, stamp=self._clock.now),
                conditions,
                interval=5.0,
            )
        )

    def told(self) -> list[tuple[str, float, float]]:
        """Event, stamp and when it was last seen, of all that is published."""
        self.history.finish()
        found = rows(Store(str(self._directory / "history")), "condition")
        return sorted(
            (
                str(row["event"]),
                row["stamp"].timestamp() - BEGIN,  # type: ignore[attr-defined]
                row["seen"].timestamp() - BEGIN,  # type: ignore[attr-defined]
            )
            for row in found
        )

    def episodes(self, until: float) -> list[Episode]:
        return episodes(
            rows(Store(str(self._directory / "history")), "condition"), BEGIN + until
        )


@pytest.mark.slow  # writes and reads history
def test_an_incident_is_told_as_a_condition_of_its_root(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    one = Incident(
        "54fe491a",
        "address_full",
        "b",
        "x.reply",
        "critical",
        BEGIN,
        "full",
        victims=["orders"],
        victim_count=1,
        size=2,
    )
    snapshot = replace(recorded("healthy")[0], stamp=BEGIN + 5)
    agents.history.offer_poll(
        "b", 5.0, snapshot, Judgement(incidents=Incidents((one,))), np.empty(0)
    )
    offered = agents.history._polls.get()
    assert offered is not None
    agents.poll(5, offered.conditions)
    agents.poll(10, [])
    agents.history.finish()
    first, last = rows(Store(str(tmp_path / "history")), "condition")
    named = {
        "condition": "incident address_full",
        "address": "x.reply",
        "queue": "",
        "client": "54fe491a",
    }
    assert named.items() <= first.items()
    assert (first["evidence"], last["event"]) == (
        '{"members":2.0,"victims":1.0}',
        "leave",
    )


@pytest.mark.slow  # writes and reads history
def test_what_ended_while_the_agent_was_away_has_an_end_when_it_was_last_seen(
    tmp_path: Path,
) -> None:
    agents = Agents(tmp_path)
    for at in (0.0, 5.0, 10.0, 15.0):
        agents.poll(at, standing("stalled"))
    agents.told()
    agents.begin()
    for at in (40 * DAY, 40 * DAY + 5):
        agents.poll(at, [])
    assert agents.told() == [("hold", 0.0, 0.0), ("leave", 40 * DAY, 15.0)]
    (one,) = agents.episodes(41 * DAY)
    assert (one.begin, one.end, one.open, one.end_known) == (
        BEGIN,
        BEGIN + 15.0,
        False,
        False,
    )


@pytest.mark.slow  # writes and reads history
def test_killed_in_place_of_stopped_it_is_told_too(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    agents.poll(0.0, [])
    agents.poll(5.0, standing("stalled"))
    agents.begin()  # the one before never ended
    agents.poll(2 * DAY, [])
    assert ("leave", 2 * DAY, 5.0) in agents.told()


@pytest.mark.slow  # writes and reads history
def test_a_short_restart_ends_it_when_that_was_seen(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    agents.poll(0.0, standing("stalled"))
    agents.begin()
    agents.poll(60.0, [])
    agents.told()
    (one,) = agents.episodes(DAY)
    assert (one.end, one.end_known) == (BEGIN + 60.0, True)


@pytest.mark.slow  # writes and reads history
def test_what_stands_still_is_one_and_what_began_again_another(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    agents.poll(0.0, standing("stalled", "starved"))
    agents.begin()
    agents.poll(
        2 * DAY, [*standing("stalled"), *standing("starved", since=BEGIN + 1.9 * DAY)]
    )
    agents.poll(2 * DAY + 5, [])
    agents.told()
    found = {
        (one.condition, one.begin - BEGIN, one.end - BEGIN, one.end_known)
        for one in agents.episodes(3 * DAY)
    }
    assert found == {
        ("stalled", 0.0, 2 * DAY + 5, True),
        ("starved", 0.0, 0.0, False),
        ("starved", 1.9 * DAY, 2 * DAY + 5, True),
    }


@pytest.mark.slow  # writes and reads history
def test_a_lost_poll_takes_no_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = Agents(tmp_path)
    agents.poll(0.0, standing("stalled"))
    with monkeypatch.context() as full:

        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(Spool, "append", no_room)
        agents.poll(5.0, [])
    agents.poll(10.0, [])
    assert ("leave", 10.0, 0.0) in agents.told()


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"\x81\xa1b\x01", b"x" * 1000])
def test_a_damaged_file_is_begun_anew(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "told.bin"
    file.write_bytes(content)
    assert kept.load(file) == {}
    assert "cannot be read" in caplog.text


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    one = Exported()
    one.advance(BEGIN, [*standing("stalled"), *standing("starved", since=float("nan"))])
    kept.save({"b": one}, tmp_path / "told.bin")
    again = kept.load(tmp_path / "told.bin")["b"]
    assert again.stamp == BEGIN
    assert [told[:1] + told[2:] for told in again.advance(BEGIN + 5, [])] == [
        ("leave", BEGIN),
        ("leave", BEGIN),
    ]


def test_in_one_run_nothing_is_told_otherwise_than_before() -> None:
    """Each poll of a day at random, by what the words mean."""
    chance, one, before, hour = random.Random(3), Exported(), set[str](), -1.0  # noqa: S311 - repeatable
    for number in range(2000):
        stamp = BEGIN + 45.0 * number
        now = {
            name
            for name in ("stalled", "starved", "growing")
            if chance.random() < 0.7 or name in before
        }
        now -= {name for name in now if chance.random() < 0.05}
        told = {(t.event, t.condition.name) for t in one.advance(stamp, standing(*now))}
        entered = {("enter" if number else "hold", name) for name in now - before}
        held = (
            {("hold", name) for name in now & before}
            if stamp // 3600 != hour
            else set()
        )
        assert told == entered | held | {("leave", name) for name in before - now}
        before = now
        hour = stamp // 3600


def row(event: str, at: float, seen: float, since: float = 100.0) -> dict[str, object]:
    def moment(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    names = {
        "broker": "b",
        "address": "a",
        "queue": "q",
        "client": "c",
        "condition": "stalled",
        "severity": "warning",
    }
    return {
        **names,
        "event": event,
        "stamp": moment(at),
        "since": moment(since),
        "seen": moment(seen),
    }


@pytest.mark.parametrize(
    ("told", "until", "end"),
    [
        # The job agrees with the agent, and alone where none came back.
        ([row("enter", 160, 160), row("hold", 3600, 3600), row("leave", 40 * DAY, 3700)],
         41 * DAY, (3700, False, False)),
        ([row("enter", 160, 160), row("hold", 3600, 3600)], 40 * DAY, (3600, False, False)),
        ([row("enter", 160, 160), row("hold", 3600, 3600)], 7500, (7500, True, True)),
        ([row("enter", 160, 160), row("leave", 40 * DAY, 160)], 41 * DAY, (160, False, False)),
        ([row("enter", 160, 160), row("leave", 300, 160)], 41 * DAY, (300, False, True)),
        # An hour without a poll, and it stood before and after since the same time.
        ([row("enter", 160, 160), row("hold", 9000, 9000), row("leave", 9100, 9000)], DAY, (9100, False, True)),
    ],
)  # fmt: skip
def test_the_end_of_what_nobody_saw(
    told: list[dict[str, object]], until: float, end: tuple[float, bool, bool]
) -> None:
    (one,) = episodes(told, until)
    assert (one.end, one.open, one.end_known) == end
