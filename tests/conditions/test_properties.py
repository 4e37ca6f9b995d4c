"""Random histories: the same verdicts as the rules in plain Python, and nothing untrue whatever a broker says."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from conditions.reference import Reference, Thing
from conditions.world import START, Consumer, Judged, Queue, World
from penstock.conditions import slowed, stalled
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Severity
from penstock.model import QueueKind
from penstock.settings.constants import Constants
from rig.day_and_night import by_day_and_night

CONSTANTS = Constants(cold=60.0, factor=0.0, after_restart=0.0)
COMPARED = {
    "stalled",
    "open_transaction",
    "no_consumer",
    "not_dispatching",
    "redelivery_loop",
    "falling_behind",
}
FILTERS = ("", "", "", "x = 1")

Regime = Callable[[Random, Queue, list[Consumer]], None]


# --- what a queue may live through, poll by poll


def _nothing(_: Random, __: Queue, ___: list[Consumer]) -> None: ...


def _busy(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(random.randint(0, 40))
    for one in consumers:
        queue.take(one)
        queue.settle(one, random.randint(0, 60))


def _stuck(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(random.randint(0, 3))
    for one in consumers[:1]:
        queue.take(one, random.randint(0, 2))


def _transaction(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(2)
    for one in consumers[:1]:
        queue.take(one)
        queue.acknowledge(one, 1)
        if random.random() < 0.1:
            queue.commit(one)


def _loop(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(random.randint(0, 2))
    for one in consumers:
        queue.take(one, 5)
        queue.settle(one, random.randint(0, 1))
        queue.roll_back(one)


def _growing(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(random.randint(20, 30))
    for one in consumers:
        queue.take(one, 10)
        queue.settle(one, random.randint(3, 8))


def _absent(random: Random, queue: Queue, _: list[Consumer]) -> None:
    queue.consumers = {}
    queue.come(random.randint(0, 2))


def _anything(random: Random, queue: Queue, consumers: list[Consumer]) -> None:
    queue.come(random.randint(0, 10))
    if consumers:
        one = random.choice(consumers)
        random.choice(
            [queue.take, queue.settle, queue.roll_back, queue.close, queue.acknowledge]
        )(one)
    if random.random() < 0.3:
        queue.join(random.choice("ab"), window=20, filter=random.choice(FILTERS))


def _set_back(_: Random, queue: Queue, __: list[Consumer]) -> None:
    queue.K = queue.X = 0


NEVER_NEGATIVE = (
    "ring_at_risk", "ring_scheduled_at_risk", "ring_retention", "ring_overflow", "drain", "imbalance",
    "lost_by_consumer",
)  # fmt: skip

REGIMES: tuple[Regime, ...] = (
    _nothing,
    _busy,
    _stuck,
    _transaction,
    _loop,
    _growing,
    _absent,
    _anything,
)


def history(random: Random, world: World, polls: int) -> Iterator[float]:
    """Steps from poll to poll, while the queues of `world` live."""
    queues = {
        "a": world.queue("a"),
        "ring": world.queue("ring", ring=float(random.randint(1, 30))),
        "exclusive": world.queue("exclusive", exclusive=1.0),
    }
    regime: dict[str, Regime] = dict.fromkeys(queues, _nothing)
    step = random.choice([5.0, 15.0, 15.0, 30.0])
    for _ in range(polls):
        yield step if random.random() < 0.95 else 9 * step
        for name, queue in queues.items():
            if random.random() < 0.06:
                regime[name] = random.choice(REGIMES)
                if regime[name] not in (_absent, _nothing) and not queue.consumers:
                    queue.join(
                        random.choice("ab"), window=50, filter=random.choice(FILTERS)
                    )
            if random.random() < 0.004:
                _set_back(random, queue, [])
            regime[name](random, queue, [*queue.consumers.values()])
            if random.random() < 0.01:
                world.queues.pop(name, None)
            elif random.random() < 0.2:
                world.queues[name] = queue


def said(world: World) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    queues = {name: queue.queue_said() for name, queue in world.queues.items()}
    return queues, {
        key: one
        for queue in world.queues.values()
        for key, one in queue.consumers_said().items()
    }


# --- the same verdicts


def stands(judged: Judged) -> dict[Thing, float]:
    """Standing conditions by queue name or consumer id."""
    found = {}
    for name, standing in judged.state.judgement.debounced.items():
        if name in COMPARED:
            for i, since in zip(
                *(one.tolist() for one in standing.active()), strict=True
            ):
                row = standing.index.rows[i]
                found[name, getattr(row, "id", None) or row.name] = since
    return found


def advance(seed: int, found: Counter[str]) -> None:
    random = Random(seed)  # noqa: S311 - no secret
    world = World(constants=CONSTANTS)
    reference = Reference(CONSTANTS)
    for step in history(random, world, 60):
        queues, consumers = said(world)
        world.poll(queues, consumers, after=step)
        expected = reference.poll(world.now, queues, consumers)
        got = stands(world)
        assert got.keys() == expected.keys(), (seed, world.now - START)
        assert got == pytest.approx(expected), (seed, world.now - START)
        for name in queues:
            evicted = reference.past[name].evicted
            if reference.past[name].set_back:  # it goes on from what was known
                continue
            assert world.evicted(name) == pytest.approx(evicted, nan_ok=True), (
                seed,
                name,
                world.now - START,
            )
            found["evicted"] += evicted > 0
        found.update(name for name, _ in got)


@pytest.mark.slow  # random histories find what no test was written for, seldom what the last change broke
def test_the_same_verdicts_as_the_rules_in_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But for the short way to `stalled` by proof, which tests/causes/test_proof.py has, and what is against normal."""
    monkeypatch.setattr(slowed, "TIMES", np.inf)
    monkeypatch.setattr(slowed, "ABOVE_BOUND", np.inf)
    monkeypatch.setattr(
        stalled,
        "hangs",
        lambda poll: np.zeros(len(poll.found.consumer.queue), np.bool_),
    )
    found: Counter[str] = Counter()
    for seed in range(12):
        advance(seed, found)
    assert all(found[name] > 5 for name in (*COMPARED, "evicted")), found


# --- nothing untrue


def broken(random: Random, numbers: dict[str, Any]) -> dict[str, Any]:
    """Values missing, or jumping, as no honest broker would say."""
    numbers = dict(numbers)
    for name in [*numbers]:
        if (
            name != "ring"
            and isinstance(numbers[name], (int, float))
            and random.random() < 0.04
        ):
            numbers[name] = random.choice(
                [np.nan, 0.0, 1e12, numbers[name] + 1000, max(0, numbers[name] - 50)]
            )
    return numbers


def kind(random: Random) -> QueueKind:
    return random.choice([*QueueKind]) if random.random() < 0.02 else QueueKind.USER


def lacking(
    random: Random, things: dict[str, dict[str, Any]], columns: str
) -> dict[str, dict[str, Any]]:
    """Without a column, in all rows, now and then."""
    gone = {c for c in columns.split() if random.random() < 0.03}
    return {
        name: {k: np.nan if k in gone else v for k, v in one.items()}
        for name, one in things.items()
    }


def check(judged: Judged) -> None:
    for condition in judged.conditions:
        assert condition.name in CONDITIONS
        assert condition.severity in Severity
        assert condition.evidence
        assert all(np.isfinite(value) for value in condition.evidence.values()), (
            condition
        )
        assert condition.since <= judged.now - judged.skew + 1e-6, condition
        assert condition.consumers >= 0
    for name, table in judged.tables.items():
        for column, values in table.columns.items():
            assert len(values) == len(table)
            assert not np.isinf(values).any(), (name, column)
    queue = judged.tables.get("queue")
    if queue is not None:
        for column in NEVER_NEGATIVE:
            assert not (queue[column] < 0).any(), column
    if "eviction" in judged.tables:
        assert (judged.tables["eviction"]["evicted"] >= 0).all()


@pytest.mark.slow  # random answers of a broker, as above
@pytest.mark.parametrize("part", by_day_and_night(range(4)))
def test_whatever_a_broker_says_nothing_untrue_is_told(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        random = Random(seed)  # noqa: S311
        world = World(constants=replace(CONSTANTS, factor=3.0))
        for step in history(random, world, 50):
            queues, consumers = said(world)
            queues = {
                name: {**broken(random, one), "kind": kind(random)}
                for name, one in queues.items()
            }
            consumers = {key: broken(random, one) for key, one in consumers.items()}
            queues = lacking(
                random, queues, "A K E X M D S consumers Att ring paused exclusive"
            )
            consumers = lacking(random, consumers, "T W N C L Ld")
            pages = {
                "paging": 1.0,
                "limit_percent": 100.0,
                "page_read_limit_bytes": 1.0,
                "pages": 0.0,
            }
            addresses = {
                name: broken(random, pages) if random.random() < 0.2 else {}
                for name in queues
            }
            failed = [
                name
                for name in ("queues", "consumers", "addresses")
                if random.random() < 0.04
            ]
            if random.random() < 0.02:
                world.uptime = 0.0
            if random.random() < 0.05:
                queues = {}
                consumers = {}
            world.poll(queues, consumers, addresses, after=step, failed=failed)
            check(world)


def test_a_history_without_any_queue_is_judged() -> None:
    judged = Judged()
    for _ in range(5):
        judged.poll({})
    assert not judged.conditions
