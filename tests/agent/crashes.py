"""
A life of the agent's files that is cut at any step: every change of the file system counts as one.

`Faults` stands in for the system calls; the one that is due does a part of its work and raises `Killed`, after which
nothing more is done to the files, as when the process is killed.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.test_restart import busy, work_once
from core.things import producer
from penstock.agent import Assessor, PollResult, Result
from penstock.agent.checkpoints import Checkpoints, _keep, _write
from penstock.agent.journal import FILE, Journal, events_in
from penstock.agent.nodes import Nodes
from penstock.assessment.assess import Tables
from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE
from penstock.insight.events import Change, Event
from penstock.model import ProducerRow, QueueKind, Snapshot

COUNTERS = [
    family for family in CATALOGUE if family.type == "counter" and family.table not in ("agent", "poll", "broker")
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


class Traffic:
    """A busy broker on which consumers, producers and temporary queues come and go; its numbers rest on polls only."""

    def __init__(self) -> None:
        self.world = busy()
        self.polls = 0
        self.produced: dict[int, float] = {}
        self._producers: Index[ProducerRow] = Index.empty()

    def step(self) -> Snapshot:
        """What happens until the next poll, and what it reads."""
        world, n = self.world, self.polls
        self.polls += 1
        work_once(world)
        world.now += 15
        temporary, consumer = 100 + n // 3, 200 + n // 2
        if temporary not in world.queues:
            world.queue(temporary, f"reply{temporary}", {"kind": QueueKind.TEMPORARY, "durable": False})
            world.queues.pop(temporary - 2, None)
        world.queues[temporary]["added"] += 7
        world.queues[temporary]["acknowledged"] += 7
        if consumer not in world.consumers:
            world.consumer(consumer, 1, f"job{n // 2 % 4}")
            world.consumers.pop(consumer - 3, None)  # it rests a while first: what no poll sees is in no total
        world.consumers[consumer]["delivered"] += 5
        world.consumers[consumer]["acknowledged"] += 5
        if n == 12:  # what was stalled goes on
            world.consumers[10] |= {"buffered": 0, "acknowledged": 100, "last_acknowledgement": world.now - 1}
        self.produced.pop(n // 4 - 2, None)
        self.produced[n // 4] = self.produced.get(n // 4, 0.0) + 11
        keys = [*self.produced]
        self._producers, order = self._producers.advance(
            np.array(keys, np.int64), lambda new: [producer(f"p{keys[i]}", "orders", f"c{keys[i]}") for i in new]
        )
        producers = Table(self._producers, {"produced": np.array([*self.produced.values()])[order]})
        return replace(world.snapshot(), producers=producers)


@dataclass
class Agent:
    """The part of an agent that knows, shows and keeps; without a loop."""

    directory: Path
    traffic: Traffic
    shown: Counted = field(default_factory=Counted)
    """The counters of the last poll that was shown."""

    def __post_init__(self) -> None:
        self.kept = Checkpoints(self.directory, None, lambda _: None)  # type: ignore[arg-type]
        self.journal = Journal(self.directory)
        self.journal.load(self.kept.load())
        policy = self.traffic.world.policy
        nodes = Nodes(self.kept.of_node, lambda: {policy.broker})
        self.assessor = Assessor(policy, 15.0, nodes, on_change=self._tell, on_record=self.kept.record)
        show = self.assessor.blocks.update

        def update(tables: Tables, label_length: int) -> None:
            show(tables, label_length)
            self.shown = counters(tables)

        self.assessor.blocks = type("Blocks", (), {"update": staticmethod(update)})()

    def _tell(self, events: Iterable[Event]) -> None:
        self.journal.add(events)

    def poll(self) -> None:
        self.assessor.take(self.traffic.step())
        self.assessor.publish(PollResult(Result.OK), {})
        if self.traffic.polls in SAVED_AT:
            file = self.kept._file
            assert file is not None
            _write(file, [self.assessor], _keep(file, [self.assessor]))

    def events(self) -> Counter[tuple[Any, ...]]:
        return Counter(told(event) for name in (f"{FILE}.1", FILE) if (self.directory / name).exists()
                       for event in events_in(self.directory / name))  # fmt: skip


def told(event: Event) -> tuple[Any, ...]:
    of_incident = event.change in (Change.INCIDENT_BEGIN, Change.INCIDENT_END)
    title = event.detail.rpartition(" (")[0] if of_incident else ""
    return event.change, event.queue, event.client, event.condition, event.severity, title


def counters(tables: Tables) -> Counted:
    """All counters that the agent shows, by metric and labels."""
    found = Counted()
    for family in COUNTERS:
        if family.table in tables and family.column in tables[family.table]:
            shown = tables[family.table]
            labels = [tuple(getattr(row, name) for name in family.label_names) for row in shown.index]
            values = zip(labels, shown[family.column].tolist(), strict=True)
            found.update({(family.name, *one): value for one, value in values if not np.isnan(value)})
    return found


def undisturbed(directory: Path) -> tuple[Agent, int]:
    """A whole life, and how many changes of the files it made until shortly before its end."""
    faults, until = Faults(), 0
    with faults.put_in_place():
        agent = Agent(directory, Traffic())
        while agent.traffic.polls < POLLS:
            agent.poll()
            until = len(faults.lengths) if agent.traffic.polls <= LAST_KILL else until
    return agent, until


def killed_at(directory: Path, *kills: Faults) -> tuple[Agent, list[str]]:
    """The same life in several, the last whole; and what was wrong: counters that fell, events that are gone."""
    traffic, shown, wrong = Traffic(), Counted(), []
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
            wrong += [f"lost: {event}" for event in events - set(agent.journal.last(99))]
            events.update(agent.journal.last(99))
    assert agent is not None
    return agent, wrong
