"""When the oldest message came: whatever leaves first, the truth is between the bounds."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from conditions.world import Judged, World
from penstock.insight.explain import BrokerView, explain
from penstock.insight.text import explanation

NAN = np.nan
READ = 0.1
"""Seconds that a poll takes in this world: what is counted at its end may have come meanwhile."""


@dataclass
class Taker:
    """A consumer, by the messages that it has: when each came."""

    buffer: list[float] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0


@dataclass
class Messages:
    """A queue message by message, polled every two seconds."""

    random: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(0)
    )
    judged: Judged = field(default_factory=lambda: Judged(step=0.0))
    ready: list[float] = field(default_factory=list)
    takers: dict[str, Taker] = field(default_factory=dict)
    A: int = 0
    K: int = 0
    E: int = 0
    S: int = 0

    @property
    def there(self) -> list[float]:
        return self.ready + [
            came for one in self.takers.values() for came in one.buffer
        ]

    def passes(self, seconds: float) -> None:
        self.judged.now += seconds
        self.judged.uptime += seconds

    def come(self) -> None:
        self.A += 1
        self.ready.append(self.judged.now)

    def take(self, one: Taker) -> None:
        if self.ready:
            one.buffer.append(self.ready.pop(int(self.random.choice([0, 0, 0, -1]))))
            one.sent += 1

    def settle(self, one: Taker, *, expires: bool = False) -> None:
        if one.buffer:
            one.buffer.pop(int(self.random.integers(len(one.buffer))))
            self.K = self.K + (not expires)
            self.E = self.E + expires
            one.acknowledged += not expires

    def go(self, name: str) -> None:
        self.ready = self.takers.pop(name).buffer + self.ready

    def poll(self, **said: Any) -> tuple[float, float]:
        """The bounds after one more poll."""
        queue = {
            "A": self.A, "K": self.K, "E": self.E, "X": 0, "S": self.S, "M": len(self.there),
            "D": len(self.there) - len(self.ready), **said,
        }  # fmt: skip
        takers = {
            name: {"T": len(one.buffer), "N": one.sent, "C": one.acknowledged}
            for name, one in self.takers.items()
        }
        self.judged.poll({"q": queue}, takers, after=0.0)
        return bounds(self.judged)


def bounds(judged: Judged) -> tuple[float, float]:
    earliest, latest = (
        judged.column("queue", f"oldest_{bound}") for bound in ("earliest", "latest")
    )
    table = judged.tables["oldest"]
    shown = {
        row.bound: value for row, value in zip(table.index, table["at"], strict=True)
    }
    assert [shown["earliest"], shown["latest"]] == pytest.approx(
        [earliest, latest], nan_ok=True
    )
    return earliest, latest


def regime(random: np.random.Generator) -> dict[str, float]:
    """How likely each thing is in a fifth of a second."""
    return {
        "come": random.choice([0.0, 0.2, 0.8]),
        "take": random.choice([0.0, 0.5, 0.9]),
        "settle": random.choice([0.0, 0.3, 0.9]),
        "expire": random.choice([0.0, 0.0, 0.05]),
        "go": random.choice([0.0, 0.0, 0.02]),
    }


def lives(queue: Messages, likely: dict[str, float]) -> None:
    """A fifth of a second."""
    random = queue.random
    queue.passes(0.2)
    if random.random() < likely["come"]:
        queue.come()
    if random.random() < likely["go"]:
        queue.go(next(iter(queue.takers)))
        queue.takers[str(queue.judged.now)] = Taker()
    for one in queue.takers.values():
        if random.random() < likely["take"]:
            queue.take(one)
        if random.random() < likely["settle"]:
            queue.settle(one)
        if random.random() < likely["expire"]:
            queue.settle(one, expires=True)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_between_the_bounds_whatever_leaves_first(seed: int) -> None:
    random = np.random.default_rng(seed)
    queue = Messages(random)
    compared = 0
    both = 0
    far = 0
    queue.takers = {name: Taker() for name in "abc"}
    now = regime(random)
    for _ in range(300):
        if random.random() < 0.05:
            now = regime(random)
        for _ in range(10):
            lives(queue, now)
        earliest, latest = queue.poll()
        if not queue.there:
            assert np.isnan([earliest, latest]).all()
            continue
        oldest = min(queue.there)
        assert oldest <= latest + 1e-6
        assert np.isnan(earliest) or earliest <= oldest + 1e-6
        compared = compared + 1
        both = both + (not np.isnan(earliest))
        far += latest - earliest > 20
    assert compared > 100
    assert both > 50
    assert far > 5  # they are no figure that happens to be right


@pytest.mark.slow  # many polls
def test_one_figure_where_both_bounds_agree() -> None:
    queue = Messages()
    queue.poll()
    queue.passes(2)
    queue.poll()
    queue.passes(1)
    queue.come()
    queue.passes(1)
    for _ in range(20):
        queue.poll()
        queue.passes(2)
    assert bounds(queue.judged) == pytest.approx(
        (queue.judged.now - 42, queue.judged.now - 40 + READ)
    )
    assert queue.judged.column("queue", "oldest_message") == pytest.approx(
        queue.judged.now - 40 + READ
    )
    assert "age of the oldest message 39.9 s" in text(queue.judged)


@pytest.mark.slow  # many polls
def test_a_leak_is_not_as_young_as_the_order_of_arrival_says() -> None:
    """One message stays with its consumer for good, while thousands pass."""
    queue = Messages()
    one = Taker()
    leaks = Taker()
    queue.takers = {"one": one, "leaks": leaks}
    queue.poll()
    queue.passes(2)
    queue.come()
    came = queue.judged.now
    queue.take(leaks)
    for _ in range(100):
        queue.poll()
        queue.passes(2)
        queue.come()
        queue.take(one)
        queue.settle(one)
    earliest, latest = queue.poll()
    assert (earliest, latest) == pytest.approx((came - 2, came + READ))


@pytest.mark.slow  # many polls
def test_without_the_held_row_there_are_two_bounds() -> None:
    """It goes from hand to hand: only that the queue was never empty since is known."""
    queue = Messages()
    queue.poll()
    queue.passes(2)
    queue.come()
    came = queue.judged.now
    for _ in range(100):
        queue.poll()
        queue.passes(2)
        queue.come()
        queue.K += 1
        queue.ready.pop()  # the newest goes first
    earliest, latest = queue.poll()
    assert (earliest, latest) == pytest.approx((came - 2, queue.judged.now + READ))
    assert np.isnan(queue.judged.column("queue", "oldest_message"))
    assert "age of the oldest message between 0 s and 3 min 22 s" in text(queue.judged)


@pytest.mark.slow  # many polls
def test_what_was_there_before_the_agent_is_at_least_as_old_as_that() -> None:
    judged = Judged(step=2.0)
    begin = judged.now + 2
    for _ in range(50):
        judged.poll({"q": {"A": 900, "K": 800, "M": 100}})
    assert bounds(judged) == pytest.approx((NAN, begin + READ), nan_ok=True)
    assert "age of the oldest message at least 1 min 38 s" in text(judged)
    assert "exact age of the oldest message: messages may leave in any order" in text(
        judged
    )


@pytest.mark.parametrize("said", [{"last_value": 1.0}, {"S": 1}])
def test_order_of_arrival_says_nothing_of_last_values_and_scheduled_messages(
    said: dict[str, Any],
) -> None:
    queue = Messages()
    queue.poll(**said, S=0) if "S" not in said else queue.poll(S=0)
    empty = queue.judged.now
    for _ in range(3):
        queue.passes(2)
        queue.come()
        earliest, latest = queue.poll(**said)
    assert (earliest, np.isnan(latest)) == (empty, True)
    assert "age of the oldest message at most 6 s" in text(queue.judged)


def test_a_last_value_queue_whose_values_are_in_hand_is_not_empty() -> None:
    judged = Judged(step=2.0)
    for _ in range(3):
        judged.poll({"q": {"A": 3, "M": 0, "D": 3, "last_value": 1.0}})
    judged.poll({"q": {"A": 4, "M": 1, "D": 3, "last_value": 1.0}})
    assert np.isnan(bounds(judged)).all()


@pytest.mark.slow  # many polls
def test_after_a_restart_of_the_broker_it_is_unknown_until_the_queue_was_empty() -> (
    None
):
    world = World(step=2.0)
    queue = world.queue()
    world.run(4)
    queue.come(5)
    world.run(20)
    assert bounds(world)[0] == world.now - 20
    world.restart()
    world.run(10)
    assert np.isnan(bounds(world)[0])
    queue.K = 5
    queue.waiting = 0
    world.run(2)
    queue.come()
    world.run(4)
    assert bounds(world) == pytest.approx((world.now - 4, world.now - 2 + READ))


def text(judged: Judged) -> str:
    snapshot = judged.snapshot({"q": {}}, {}, {})
    view = BrokerView(judged.state, judged.tables, snapshot, judged.policy, judged.step)
    return "\n".join(explanation(explain(view, "q")))
