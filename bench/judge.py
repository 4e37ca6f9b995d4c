"""
`make bench-judge`: CPU time of the judgement of one poll by stage, and the memory of what it carries from poll to poll.

The snapshots are made up in columns, so that nothing but the judgement is measured: queues that work and that rest,
rings that lose, consumers that stall, roll back, come and go. The last line is JSON.
"""

import functools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from bench.harness import NO_LIMITS, facts, medians, print_table
from bench.world import EPOCH, SECONDS_A_POLL
from numpy.typing import NDArray

from penstock.account.account import MessageAccount
from penstock.agent import process
from penstock.assessment import assess as assessing
from penstock.assessment.assess import State, advance
from penstock.core.table import Column, Index, Keys, Table
from penstock.learned import timeout
from penstock.learned.churn import Churn, CrashLoops
from penstock.learned.normal import Normal
from penstock.learned.service import ServiceTime
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Collector,
    ConsumerRow,
    Observation,
    Process,
    QueueKind,
    QueueRow,
    RingSource,
    Role,
    Snapshot,
)
from penstock.observation.activity import Activity
from penstock.observation.buffers import Buffers
from penstock.observation.measures import Measures
from penstock.observation.oldest import Oldest
from penstock.observation.unacked import Unacked
from penstock.rule_engine import judgement as judging
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import Grouping
from penstock.settings.policy import Policy

RING = 1_000.0
STAGES: Mapping[str, tuple[Any, str]] = {
    "facts": (judging, "facts"),
    "holds": (Unacked, "advance"),
    "timers": (timeout, "advance_timers"),
    "patience": (timeout, "advance_patience"),
    "activity": (Activity, "advance"),
    "normal": (Normal, "advance"),
    "service time": (ServiceTime, "advance"),
    "returns": (judging, "returns"),
    "trend": (judging, "trend"),
    "churn": (Churn, "advance"),
    "rules and debounce": (judging, "advance_conditions"),
    "active conditions": (judging, "active_conditions"),
    "measures": (Measures, "advance"),
    "account": (MessageAccount, "advance"),
    "oldest": (Oldest, "advance"),
    "buffers": (Buffers, "advance"),
    "crash loops": (CrashLoops, "advance"),
}
"""What is timed within the judgement: where it is looked up when it is called."""
WHOLE = "whole judgement"


class Scene:
    """
    A broker with `queues` queues, the `consumers` spread over them, each its own client.

    active: share of the queues that work; half of all queues are rings, and a tenth of those that work lose. Of a
    hundred consumers of working queues one holds without settling, and one rolls everything back. Of the queues that
    rest a hundredth has a backlog that nobody takes.
    """

    def __init__(
        self, queues: int, consumers: int, *, active: float = 0.2, seed: int = 1
    ) -> None:
        self._random = random = np.random.default_rng(seed)
        self.polls = 0
        self._next = 10_000_000
        self.queue_keys = np.arange(queues, dtype=np.int64)
        self.works = random.permutation(queues) < round(active * queues)
        self.ring = np.where(np.arange(queues) % 2 == 1, RING, np.nan)
        self.added = random.integers(10_000, 9_000_000, queues).astype(np.float64)
        self.settled = self.added.copy()
        self.left_over = ~self.works & (random.random(queues) < 0.01)
        self.waiting = np.where(self.left_over, 50.0, 0.0)
        self.added += self.waiting
        self.lost = np.zeros(queues)
        self.in_hands: Column = np.zeros(queues)
        self.overflows = (
            self.works & ~np.isnan(self.ring) & (random.random(queues) < 0.1)
        )
        self.queue_of = np.arange(consumers) % max(queues, 1)
        self.busy = self.works[self.queue_of]
        self.ids = np.arange(consumers, dtype=np.int64)
        fate = random.random(consumers)
        self.stalled = self.busy & (fate < 0.01)
        self.returns = self.busy & (fate > 0.99)
        self.held = np.where(self.busy, 10.0, 0.0)
        self.delivered = random.integers(1_000, 900_000, consumers).astype(np.float64)
        self.acknowledged = self.delivered - self.held
        self.settled_at: Column = np.full(consumers, EPOCH - 60.0)
        self._indices: dict[str, Index[Any]] = {
            name: Index.empty() for name in ("queues", "addresses", "consumers")
        }

    @property
    def now(self) -> float:
        return EPOCH + self.polls * SECONDS_A_POLL

    def step(self, churn: float, queue_churn: float) -> Snapshot:
        """The next poll, before which the share `churn` of all consumers reconnected, and `queue_churn` queues were
        deleted and made anew under another name.
        """
        self.polls += 1
        self._reconnect(churn)
        self._make_anew(queue_churn)
        self._work()
        return self._snapshot()

    def _work(self) -> None:
        random = self._random
        size = len(self.queue_keys)
        busy = self.busy & ~self.stalled
        taken = np.where(busy, random.integers(1, 300, len(busy)), 0.0)
        self.delivered += taken
        left = np.where(
            busy, self.held + taken - random.integers(0, 200, len(busy)), 0.0
        )
        left = np.clip(left, 0.0, self.held + taken)
        self.held += taken - left
        self.acknowledged += left
        self.settled_at[busy] = self.now - random.random(int(busy.sum())) * 5
        done = np.bincount(
            self.queue_of, weights=np.where(self.returns, 0.0, left), minlength=size
        )
        self.settled += done
        self.lost += np.where(self.overflows, random.integers(1, 20, size), 0.0)
        self.waiting = np.where(
            self.works, random.integers(0, 500, size).astype(np.float64), self.waiting
        )
        self.in_hands = np.bincount(
            self.queue_of, weights=self.held, minlength=size
        ).astype(np.float64)
        # What makes the sum right, but for what was there and has been taken since.
        self.added = np.maximum(
            self.added, self.settled + self.lost + self.waiting + self.in_hands
        )

    def _reconnect(self, share: float) -> None:
        gone = self._random.permutation(len(self.ids))[: round(share * len(self.ids))]
        self.ids[gone] = self._new(len(gone))
        self.delivered[gone] = self.held[gone] = self.acknowledged[gone] = 0.0
        self.settled_at[gone] = np.nan

    def _make_anew(self, share: float) -> None:
        gone = self._random.permutation(len(self.queue_keys))[
            : round(share * len(self.queue_keys))
        ]
        self.queue_keys[gone] = self._new(len(gone))
        self.added[gone] = self.settled[gone] = self.waiting[gone] = self.lost[gone] = (
            0.0
        )

    def _new(self, count: int) -> NDArray[np.int64]:
        self._next += count
        return np.arange(self._next - count, self._next, dtype=np.int64)

    def _snapshot(self) -> Snapshot:
        names = [
            f"orders.region-{key % 40:02d}.step-{key:08d}"
            for key in self.queue_keys.tolist()
        ]

        def queue(new: list[int]) -> list[QueueRow]:
            return [
                QueueRow(
                    names[n],
                    names[n],
                    "anycast",
                    True,
                    False,
                    "",
                    QueueKind.USER,
                    RingSource.QUEUE,
                    "DLQ",
                    "",
                )
                for n in new
            ]

        def consumer(new: list[int]) -> list[ConsumerRow]:
            return [
                ConsumerRow(
                    str(self.ids[n]), names[self.queue_of[n]], names[self.queue_of[n]], f"worker-{n:06d}", "", "CORE",
                    "app", "10.0.0.1", "",
                )
                for n in new
            ]  # fmt: skip

        zeros = np.zeros(len(names))
        ones = np.ones(len(names))
        queues = self._table("queues", self.queue_keys, queue, {
            "messages": self.waiting + self.in_hands, "delivering": self.in_hands, "scheduled": zeros,
            "bytes": self.waiting * 1_000, "delivering_bytes": self.in_hands * 1_000,
            "consumers": np.bincount(self.queue_of, minlength=len(names)).astype(np.float64), "paused": zeros,
            "added": self.added, "acknowledged": self.settled, "expired": zeros, "killed": zeros,
            "acknowledge_attempts": self.settled, "ring_limit": self.ring, "last_value": zeros, "exclusive": zeros,
            "grouped": zeros, "max_consumers": -ones, "consumers_before_dispatch": zeros,
        })  # fmt: skip
        addresses = self._table("addresses", self.queue_keys, lambda new: [AddressRow(names[n], "page") for n in new], {
            "memory_bytes": self.waiting * 1_500, "limit_percent": zeros, "messages_added": self.added,
            "messages_unrouted": zeros, "paging": zeros, "pages": zeros, "page_read_limit_bytes": 2e7 * ones,
            "page_read_limit_messages": -ones, "paused": zeros, "producers_paused": zeros, "internal": zeros,
            "temporary": zeros,
        })  # fmt: skip
        consumers = self._table("consumers", self.ids, consumer, {
            "buffered": self.held, "buffered_bytes": self.held * 1_000, "delivered": self.delivered,
            "acknowledged": self.acknowledged, "awaiting_commit": np.zeros(len(self.ids)),
            "last_delivery": self.settled_at, "last_acknowledgement": self.settled_at,
        })  # fmt: skip
        order = np.argsort(self.ids)
        uptime = self.now - EPOCH + 3_600
        return Snapshot(
            stamp=self.now,
            broker=Broker(
                BrokerKind.ARTEMIS, "2.44.0", "", "bench", Role.ACTIVE, self.now, uptime
            ),
            observation=Observation(Process("bench", self.now, uptime)),
            addresses=addresses,
            queues=queues,
            consumers=consumers,
            consumer_queue=self.queue_keys[self.queue_of][order],
            consumer_connection=np.full(len(self.ids), -1, np.int64),
            collectors={
                name: Collector(0.1, self.now)
                for name in ("queues", "consumers", "addresses")
            },
        )

    def _table(
        self,
        name: str,
        keys: Keys,
        make: Callable[[list[int]], Any],
        columns: Mapping[str, Column],
    ) -> Table[Any]:
        self._indices[name], order = self._indices[name].advance(keys, make)
        return Table(
            self._indices[name],
            {column: numbers[order] for column, numbers in columns.items()},
        )


@contextmanager
def timed(
    seconds: dict[str, float], stages: Mapping[str, tuple[Any, str]] | None = None
) -> Iterator[None]:
    """Adds the CPU seconds of every stage to `seconds`; those of the judgement by default."""
    with ExitStack() as patched:
        for name, (owner, attribute) in (
            stages or {**STAGES, WHOLE: (assessing, "judge")}
        ).items():
            patched.enter_context(
                patch.object(
                    owner, attribute, _timed(getattr(owner, attribute), name, seconds)
                )
            )
        yield


def _timed(
    inner: Callable[..., Any], name: str, seconds: dict[str, float]
) -> Callable[..., Any]:
    @functools.wraps(inner)
    def call(*args: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return inner(*args, **named)
        finally:
            seconds[name] += time.process_time() - began

    return call


def memory_mb(judgement: Judgement) -> dict[str, float]:
    """MB that each part of the judgement holds; what several parts share counts with the first."""
    seen: set[int] = set()
    return {
        one.name: sum(_sizes(getattr(judgement, one.name), seen)) / 1e6
        for one in fields(judgement)
    }


def _sizes(value: Any, seen: set[int]) -> Iterator[int]:
    """Bytes of an object and of all that it holds, but for indices, which belong to the snapshot and the series."""
    if id(value) in seen or isinstance(value, (Index, Grouping)):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value.nbytes if value.base is None else value.base.nbytes
        return
    yield sys.getsizeof(value)
    parts: list[Any] = []
    if is_dataclass(value):
        parts = [getattr(value, one.name) for one in fields(value)]
    elif isinstance(value, Mapping):
        parts = [*value.values()]
    elif isinstance(value, (list, tuple)):
        parts = [*value]
    for part in parts:
        yield from _sizes(part, seen)


@click.command()
@click.option(
    "--runs", default=15, show_default=True, help="Polls of which the median is taken."
)
@click.option(
    "--warm",
    default=100,
    show_default=True,
    help="Polls before them: all windows are full then.",
)
@click.option("--queues", default=10_000, show_default=True)
@click.option("--consumers", default=50_000, show_default=True)
@click.option(
    "--churn",
    default=1.0,
    show_default=True,
    help="Consumers that reconnect from poll to poll, %.",
)
@click.option(
    "--queue-churn",
    default=0.0,
    show_default=True,
    help="Queues that are made anew from poll to poll, %.",
)
def main(
    *,
    runs: int,
    warm: int,
    queues: int,
    consumers: int,
    churn: float,
    queue_churn: float,
) -> None:
    process.tune()
    scene = Scene(queues, consumers)
    state = State()
    policy = Policy("bench", limits=NO_LIMITS)
    polls: list[dict[str, float]] = []
    for poll in range(warm + runs):
        snapshot = scene.step(churn / 100, queue_churn / 100)
        seconds: dict[str, float] = defaultdict(float)
        with timed(seconds):
            state = advance(state, snapshot, policy)
        if poll >= warm:
            polls.append(seconds)
    typical = medians(polls)
    memory = memory_mb(state.judgement)
    whole = typical.pop(WHOLE)
    rows = {name: [f"{1000 * value:.2f}"] for name, value in typical.items()}
    rows["other"] = [f"{1000 * (whole - sum(typical.values())):.2f}"]
    rows["whole judgement"] = [f"{1000 * whole:.2f}"]
    print_table(rows, ["stage (median of each)", "CPU ms"])
    print_table(
        {name: [f"{mb:.1f}"] for name, mb in memory.items() if mb >= 0.1},
        ["state", "MB"],
    )
    told: dict[str, int] = defaultdict(int)
    for condition in state.judgement.conditions:
        told[condition.name] += 1
    print_table(
        {name: [str(count)] for name, count in sorted(told.items())},
        ["conditions that stand", "number"],
    )
    result = {
        "judge_cpu_ms": round(1000 * whole, 2),
        "judge_cpu_ms_max": round(1000 * max(one[WHOLE] for one in polls), 2),
        "queues": queues,
        "consumers": consumers,
        "churn_pct": churn,
        "queue_churn_pct": queue_churn,
        "conditions": len(state.judgement.conditions),
        "memory_mb": round(sum(memory.values()), 1),
        "runs": runs,
    }
    print(json.dumps({"bench": "judge", **result, **facts()}))


if __name__ == "__main__":
    main()
