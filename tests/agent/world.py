"""A small broker to judge, poll by poll: its queues and consumers as plain numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock import model
from penstock.agent.checkpoint import Checkpoint, restore
from penstock.assessment.assess import State, Tables, assess
from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Index, Table
from penstock.settings.policy import Policy

BEGIN = 1_795_219_200.0
"""Saturday, 21 November 2026, 00:00 UTC."""
QUEUE_COLUMNS = (
    "messages",
    "delivering",
    "scheduled",
    "consumers",
    "added",
    "acknowledged",
    "expired",
    "killed",
)
QUEUE_OPTIONAL = (
    "ring_limit",
    "last_value",
    "exclusive",
    "paused",
    "consumers_before_dispatch",
    "delivering_bytes",
)
CONSUMER_COLUMNS = ("buffered", "delivered", "acknowledged", "awaiting_commit")
CONSUMER_TIMES = ("last_delivery", "last_acknowledgement")


def queue_row(name: str, **fields: Any) -> model.QueueRow:
    row = model.QueueRow(
        name,
        name,
        "anycast",
        True,
        False,
        "",
        model.QueueKind.USER,
        model.RingSource.NONE,
        "",
        "",
    )
    return replace(row, **fields)


@dataclass
class World:
    """Queues and consumers by id; `poll` judges what they say at `now`."""

    policy: Policy = field(default_factory=lambda: Policy("b1"))
    now: float = BEGIN
    started: float = BEGIN - 86400
    node_id: str = "node-1"
    role: model.Role = model.Role.ACTIVE
    queues: dict[int, dict[str, float]] = field(default_factory=dict)
    consumers: dict[int, dict[str, float]] = field(default_factory=dict)
    rows: dict[int, model.QueueRow] = field(default_factory=dict)
    consumer_rows: dict[int, tuple[model.ConsumerRow, int]] = field(
        default_factory=dict
    )
    state: State = field(default_factory=State)
    tables: Tables = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    """Of an earlier agent, to be recalled at the first poll."""
    _queues: Index[model.QueueRow] = field(default_factory=Index.empty)
    _consumers: Index[model.ConsumerRow] = field(default_factory=Index.empty)

    def queue(
        self,
        key: int,
        name: str,
        row: Mapping[str, Any] | None = None,
        **numbers: float,
    ) -> None:
        self.rows[key] = queue_row(name, **(row or {}))
        self.queues[key] = dict.fromkeys(QUEUE_COLUMNS, 0.0) | numbers

    def consumer(self, key: int, queue: int, client: str, **numbers: float) -> None:
        name = self.rows[queue].name
        row = model.ConsumerRow(
            str(key), name, name, client, f"s{key}", "CORE", "u", "h", ""
        )
        self.consumer_rows[key] = (row, queue)
        self.consumers[key] = dict.fromkeys(CONSUMER_COLUMNS, 0.0) | numbers
        self.queues[queue]["consumers"] += 1

    def snapshot(self) -> model.Snapshot:
        self._queues, at = self._queues.advance(
            np.array(list(self.queues), np.int64),
            lambda new: [self.rows[list(self.queues)[i]] for i in new],
        )
        queues = Table(
            self._queues, _columns(self.queues, (*QUEUE_COLUMNS, *QUEUE_OPTIONAL), at)
        )
        keys = list(self.consumers)
        self._consumers, at = self._consumers.advance(
            np.array(keys, np.int64),
            lambda new: [self.consumer_rows[keys[i]][0] for i in new],
        )
        names = (*CONSUMER_COLUMNS, *CONSUMER_TIMES)
        consumers = Table(self._consumers, _columns(self.consumers, names, at))
        broker = model.Broker(
            model.BrokerKind.ARTEMIS,
            "2.44.0",
            "",
            self.node_id,
            self.role,
            self.now,
            uptime=self.now - self.started,
        )
        return model.Snapshot(
            stamp=self.now,
            broker=broker,
            observation=model.Observation(model.Process.of(broker)),
            queues=queues,
            consumers=consumers,
            consumer_queue=np.array(
                [self.consumer_rows[int(k)][1] for k in self._consumers.keys], np.int64
            ),
            consumer_connection=np.full(len(consumers), -1, np.int64),
            collectors={
                name: model.Collector(0.1, self.now)
                for name in ("broker", "queues", "consumers")
            },
        )

    def poll(self, seconds: float = 15.0) -> tuple[ActiveCondition, ...]:
        """One poll after `seconds`; the conditions that stand."""
        self.now += seconds
        snapshot = self.snapshot()
        if self.checkpoint is not None:
            self.state = restore(self.checkpoint, self.state, snapshot, self.policy)
            self.checkpoint = None
        self.state, self.tables = assess(self.state, snapshot, self.policy)
        return self.conditions

    def polled(self, polls: int = 1, **observed: Any) -> "World":
        """So many polls; observed: what each says of itself, fields of `model.Observation`."""
        for _ in range(polls):
            self.now += 15
            snapshot = self.snapshot()
            observation = replace(snapshot.observation, **observed)
            self.state, self.tables = assess(
                self.state, replace(snapshot, observation=observation), self.policy
            )
        return self

    @property
    def conditions(self) -> tuple[ActiveCondition, ...]:
        return self.state.judgement.conditions

    def names(self) -> set[str]:
        return {condition.name for condition in self.conditions}

    def condition(self, name: str) -> ActiveCondition:
        (found,) = [
            condition for condition in self.conditions if condition.name == name
        ]
        return found

    @classmethod
    def with_orders(cls) -> "World":
        """A queue with three messages."""
        world = cls()
        world.queue(1, "orders", messages=3)
        return world

    def restarted_agent(self, seconds: float, checkpoint: Checkpoint | None) -> "World":
        """The same broker, `seconds` later, to be polled by an agent that knows nothing but `checkpoint`."""
        return World(
            self.policy,
            self.now + seconds,
            self.started,
            self.node_id,
            self.role,
            {key: dict(numbers) for key, numbers in self.queues.items()},
            {key: dict(numbers) for key, numbers in self.consumers.items()},
            dict(self.rows),
            dict(self.consumer_rows),
            checkpoint=checkpoint,
        )


def _columns(
    by_key: Mapping[int, Mapping[str, float]], names: Sequence[str], order: Any
) -> dict[str, Any]:
    rows = list(by_key.values())
    return {
        name: np.array([row.get(name, np.nan) for row in rows], np.float64)[order]
        for name in names
    }
