"""
A life of the agent's files that is cut at any step: every change of the file system or of the database counts as one.

`Faults` stands in for the system calls and for the statements of SQLite; the one that is due does a part of its work
and raises `Killed`, after which nothing more is done to the files, as when the process is killed. Of a commit, or of a
move of the log into the database, the part is one of the bytes that it writes: first to the log, then to the database.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.test_restart import busy, work_once
from core.things import producer
from penstock.agent import Assessor, PollResult, Result
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.nodes import Nodes
from penstock.agent.saved_events import KEPT
from penstock.agent.state_database import StateDatabase
from penstock.assessment.assess import Tables
from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE
from penstock.insight.events import Change, Event
from penstock.model import ProducerRow, QueueKind, Snapshot

COUNTERS = [
    family
    for family in CATALOGUE
    if family.type == "counter" and family.table not in ("agent", "poll", "broker")
]
SAVED_AT = (4, 9, 10, 16)
POLLS = 22
LAST_KILL = POLLS - 4
"""What was not yet raised needs polls to be."""


class Counted(dict[tuple[Any, ...], float]):
    """By metric and labels."""


class Killed(BaseException):
    """The agent was killed."""


@dataclass
class Faults:
    """
    at: the change of the files at which the agent is killed, counted from 0. part: of what is written that is still
    done; 1.0 also does what can only be done whole. lengths: of each write that was let through, 0 for other changes.
    """

    at: int = 1 << 60
    part: float = 0.0
    lengths: list[int] = field(default_factory=list)

    @contextmanager
    def put_in_place(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("write", "replace", "unlink", "ftruncate", "fsync", "open"):
                patch.setattr(os, name, self._stand_in(name, getattr(os, name)))
            patch.setattr(sqlite3, "connect", self._connect(sqlite3.connect))
            yield

    def _stand_in(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if name == "open" and not given[1] & os.O_CREAT:
                return real(*given, **named)
            due = len(self.lengths) == self.at
            self.lengths.append(len(given[1]) if name == "write" else 0)
            if not due:
                return real(*given, **named)
            if name == "write":
                real(given[0], bytes(given[1])[: round(self.part * len(given[1]))])
            elif self.part == 1.0:
                with suppress(OSError):  # a file to remove that is not there
                    real(*given, **named)
            raise Killed

        return call

    def _connect(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def connect(*given: Any, **named: Any) -> Any:
            connection = real(*given, **named, factory=CutConnection)
            connection.faults = self
            return connection

        return connect


CHANGES = ("INSERT", "REPLACE", "COMMIT", "PRAGMA wal_checkpoint")
"""Statements that change the database; what a transaction did before its commit is in no file yet."""


class CutConnection(sqlite3.Connection):
    """Asks `faults` before each statement that changes a database in a file."""

    faults: Faults

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        if not statement.startswith(CHANGES) or not (path := self._path()):
            return super().execute(statement, *given)
        due = len(self.faults.lengths) == self.faults.at
        self.faults.lengths.append(0)
        if not due:
            return super().execute(statement, *given)
        files = [path.with_name(f"{path.name}-wal"), path]
        before = [content(file) for file in files]
        if self.faults.part:
            super().execute(statement, *given)
        after = [content(file) for file in files]
        self.close()  # which removes the log, as a kill does not
        for file, written in zip(
            files, cut(before, after, self.faults.part), strict=True
        ):
            file.write_bytes(written)
        raise Killed

    def _path(self) -> Path | None:
        """None: it is in memory."""
        (_, _, name) = super().execute("PRAGMA database_list").fetchone()
        return Path(name) if name else None


def content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def cut(before: list[bytes], after: list[bytes], part: float) -> list[bytes]:
    """What the files hold when only that part of the bytes that differ was written, file by file, in their order."""
    if part == 1.0:
        return after
    changed = [differing(*pair) for pair in zip(before, after, strict=True)]
    left = round(part * sum(map(len, changed)))
    found = []
    for old, new, places in zip(before, after, changed, strict=True):
        done = places[:left]
        left = max(left - len(places), 0)
        written = np.zeros(max(len(old), *(done[-1:] + 1), 0), np.uint8)
        written[: len(old)] = np.frombuffer(old, np.uint8)
        written[done] = np.frombuffer(new, np.uint8)[done]
        found.append(written.tobytes())
    return found


def differing(old: bytes, new: bytes) -> np.ndarray[Any, Any]:
    """The places of the bytes of `new` that `old` does not have."""
    common = min(len(old), len(new))
    one = np.frombuffer(old, np.uint8)[:common]
    other = np.frombuffer(new, np.uint8)
    return np.append(np.flatnonzero(one != other[:common]), np.arange(common, len(new)))


class Traffic:
    """A busy broker on which consumers, producers and temporary queues come and go; its numbers rest on polls only."""

    def __init__(self) -> None:
        self.world = busy()
        self.polls = 0
        self.produced: dict[int, float] = {}
        self._producers: Index[ProducerRow] = Index.empty()

    def step(self) -> Snapshot:
        """What happens until the next poll, and what it reads."""
        world = self.world
        n = self.polls
        self.polls += 1
        work_once(world)
        world.now += 15
        temporary = 100 + n // 3
        consumer = 200 + n // 2
        if temporary not in world.queues:
            world.queue(
                temporary,
                f"reply{temporary}",
                {"kind": QueueKind.TEMPORARY, "durable": False},
            )
            world.queues.pop(temporary - 2, None)
        world.queues[temporary]["added"] += 7
        world.queues[temporary]["acknowledged"] += 7
        if consumer not in world.consumers:
            world.consumer(consumer, 1, f"job{n // 2 % 4}")
            world.consumers.pop(
                consumer - 3, None
            )  # it rests a while first: what no poll sees is in no total
        world.consumers[consumer]["delivered"] += 5
        world.consumers[consumer]["acknowledged"] += 5
        if n == 12:  # what was stalled goes on
            world.consumers[10] |= {
                "buffered": 0,
                "acknowledged": 100,
                "last_acknowledgement": world.now - 1,
            }
        self.produced.pop(n // 4 - 2, None)
        self.produced[n // 4] = self.produced.get(n // 4, 0.0) + 11
        keys = [*self.produced]
        self._producers, order = self._producers.advance(
            np.array(keys, np.int64),
            lambda new: [producer(f"p{keys[i]}", "orders", f"c{keys[i]}") for i in new],
        )
        producers = Table(
            self._producers, {"produced": np.array([*self.produced.values()])[order]}
        )
        return replace(world.snapshot(), producers=producers)


@dataclass
class Agent:
    """The part of an agent that knows, shows and keeps; without a loop."""

    directory: Path
    traffic: Traffic
    shown: Counted = field(default_factory=Counted)
    """The counters of the last poll that was shown."""

    def __post_init__(self) -> None:
        self.database = StateDatabase(self.directory)
        self.kept = Checkpoints(self.database, None, lambda _: None)  # type: ignore[arg-type]
        self.kept.load()
        self.journal = self.kept.journal
        policy = self.traffic.world.policy
        nodes = Nodes(self.kept.of_node, lambda: {policy.broker})
        self.assessor = Assessor(policy, 15.0, nodes, on_record=self.kept.record)
        show = self.assessor.blocks.update

        def update(tables: Tables, label_length: int) -> None:
            show(tables, label_length)
            self.shown = counters(tables)

        self.assessor.blocks = type("Blocks", (), {"update": staticmethod(update)})()

    def poll(self) -> None:
        self.assessor.take(self.traffic.step())
        self.assessor.publish(PollResult(Result.OK), {})
        if self.traffic.polls in SAVED_AT:
            self.save()

    def save(self) -> None:
        self.kept.keep_now(self.assessor)
        self.kept.flush()

    def events(self) -> Counter[tuple[Any, ...]]:
        return Counter(told(event) for event in self.journal.last(KEPT))


def told(event: Event) -> tuple[Any, ...]:
    of_incident = event.change in (Change.INCIDENT_BEGIN, Change.INCIDENT_END)
    title = event.detail.rpartition(" (")[0] if of_incident else ""
    return (
        event.change,
        event.queue,
        event.client,
        event.condition,
        event.severity,
        title,
    )


def counters(tables: Tables) -> Counted:
    """All counters that the agent shows, by metric and labels."""
    found = Counted()
    for family in COUNTERS:
        if family.table in tables and family.column in tables[family.table]:
            shown = tables[family.table]
            labels = [
                tuple(getattr(row, name) for name in family.label_names)
                for row in shown.index
            ]
            values = zip(labels, shown[family.column].tolist(), strict=True)
            found.update(
                {
                    (family.name, *one): value
                    for one, value in values
                    if not np.isnan(value)
                }
            )
    return found


def undisturbed(directory: Path) -> tuple[Agent, int]:
    """A whole life, and how many changes of the files it made until shortly before its end."""
    faults = Faults()
    until = 0
    with faults.put_in_place():
        agent = Agent(directory, Traffic())
        while agent.traffic.polls < POLLS:
            agent.poll()
            until = len(faults.lengths) if agent.traffic.polls <= LAST_KILL else until
    return agent, until


def killed_at(directory: Path, *kills: Faults) -> tuple[Agent, list[str]]:
    """The same life in several, the last whole; and what was wrong: counters that fell, events that are gone."""
    traffic = Traffic()
    shown = Counted()
    wrong = []
    events: set[Event] = set()
    for faults in (*kills, Faults()):
        agent = None
        with faults.put_in_place(), suppress(Killed):
            agent = Agent(directory, traffic)
            while traffic.polls < POLLS:
                agent.poll()
                fallen = {name: (value, agent.shown[name]) for name, value in shown.items()
                          if agent.shown.get(name, value) < value}  # fmt: skip
                wrong += [f"poll {traffic.polls}: {fallen}"] if fallen else []
                shown |= agent.shown
        if agent is not None:
            shown |= agent.shown
            wrong += [
                f"lost: {event}" for event in events - set(agent.journal.last(99))
            ]
            events.update(agent.journal.last(99))
    assert agent is not None
    return agent, wrong
