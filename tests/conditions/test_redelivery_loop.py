"""`redelivery_loop`: what keeps coming back, and what may."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls, subscription
from conditions.situations import polls
from conditions.things import Numbers
from conditions.world import Judged, World
from penstock.model import AcknowledgeMode, TransactionState

WARNS_AT = {
    "10": set[str](),
    "2": {"redelivery_loop"},
    "-1": {"redelivery_loop"},
    "nan": set[str](),
}
"""Delivery attempts that a queue allows → conditions that warn."""


def test_what_comes_back_is_lawful_as_far_as_it_ends_in_the_dead_letters() -> None:
    """Of a hundred deliveries 20 come back and two are given up: at ten attempts each that is 18 of them."""
    judged = Judged()
    settings = {
        attempts: {"max_delivery_attempts": float(attempts)} for attempts in WARNS_AT
    }
    for n in range(12):
        queue = {
            "A": 1000.0 + 80 * n,
            "K": 78.0 * n,
            "X": 2.0 * n,
            "M": 500.0,
            "Att": 100.0 * n,
        }
        consumer = {
            "T": 10.0,
            "N": 100.0 * n + 10,
            "C": 100.0 * n,
            "L": judged.now + 14,
        }
        consumers = {
            f"c{name}": {**consumer, "queue": name, "client": f"app of {name}"}
            for name in WARNS_AT
        }
        judged.poll(dict.fromkeys(WARNS_AT, queue), consumers, settings)
    assert {name: judged.names_of(name) for name in WARNS_AT} == WARNS_AT
    for name, warns in WARNS_AT.items():
        assert ("redelivery_loop" in judged.notices_of(name)) is not bool(warns), name


@dataclass
class Loop:
    """A consumer of which so many messages come back at each poll, beside those it settles."""

    returned: Sequence[float]
    settled: float = 0.0
    killed: float = 0.0
    delivered: float = 100.0
    said: Mapping[str, float] = field(default_factory=dict)
    queue: dict[str, float] = field(
        default_factory=lambda: {"A": 1000.0, "K": 0.0, "X": 0.0, "M": 20.0, "Att": 1.0}
    )
    consumer: dict[str, float] = field(
        default_factory=lambda: {"N": 0.0, "C": 0.0, "T": 20.0}
    )

    def step(self, poll: int) -> None:
        """Nothing comes back at the first poll, nor after the last that `returned` is for."""
        returned = [0.0, *self.returned]
        back = returned[poll] if poll < len(returned) else 0.0
        self.consumer["N"] += self.delivered
        self.consumer["C"] += max(back, 0.0) + self.settled + self.killed
        self.queue["K"] += self.settled + max(
            0.0, -back
        )  # read later than the consumers: settled, not seen to leave
        self.queue["X"] += self.killed
        self.queue["A"] = 1000 + self.queue["K"] + self.queue["X"]
        self.queue |= self.said


Found = tuple[set[str], set[str]]
"""Conditions that warn, and notices."""


def found_of(loops: Sequence[Loop]) -> list[Found]:
    """What each brings at the last poll that it is for; all on one broker, which is polled as often as for one."""
    judged = Judged()
    found = dict[int, Found]()
    for poll in range(1 + max(len(one.returned) for one in loops)):
        queues = dict[str, Numbers]()
        consumers = dict[str, Numbers]()
        for number, one in enumerate(loops):
            one.step(poll)
            queues[f"q{number}"] = dict(one.queue)
            seen = {
                "L": judged.now,
                "Ld": judged.now,
                "queue": f"q{number}",
                "client": f"app{number}",
            }
            consumers[f"c{number}"] = {**one.consumer, **seen}
        judged.poll(queues, consumers)
        for number, one in enumerate(loops):
            if poll == len(one.returned):
                found[number] = (
                    judged.names_of(f"q{number}"),
                    judged.notices_of(f"q{number}"),
                )
    return [found[number] for number in range(len(loops))]


RETURNED: Sequence[tuple[Sequence[float], bool]] = [
    ([5] * 6, True),
    ([1.5] * 6, True),
    ([1] * 5, True),
    (
        [1] * 4,
        False,
    ),  # at the first of the two polls: 2 beside its largest, below the margin
    ([1000, 0, 0, 0, 0, 0], False),
    ([1000, 0, 0, 1, 0, 0], False),
    ([0, 0, 0, 0, 9, 9], False),
    ([3, 0, 0, 3, 3, 0], True),
    ([40, -10, 40, -10, 40, -10], True),
    ([40, -20, 40, -20, 40, -20], False),
    ([20, -5, 20, -6, 20, 8, 8, 8], True),
    ([20, -5, 20, -11, 20, 8, 8, 8], False),
]


def test_redelivery_is_persistent() -> None:
    found = found_of([Loop(returned) for returned, _ in RETURNED])
    told = [
        (returned, "redelivery_loop" in names)
        for (returned, _), (names, _) in zip(RETURNED, found, strict=True)
    ]
    assert told == RETURNED


def reads_draw_closer_together(
    comes: float, window: int, shrinks: float, polls: int, *, loops: bool
) -> World:
    """As after a start of the agent on a busy machine: its first polls take longest. comes: messages a second."""
    world = World(step=2.0, apart=1.0)
    queue = world.queue()
    consumer = queue.join(window=window)

    def live(seconds: float) -> None:
        queue.come(round(comes * seconds))
        queue.take(consumer)
        queue.settle(consumer, comes * seconds if loops else np.inf)
        if loops:
            queue.roll_back(consumer)

    for _ in range(polls):
        world.run(2, live)
        world.apart = max(0.0, world.apart - shrinks)
    return world


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("shrinks", [0.05, 0.02])
def test_reads_that_draw_closer_together_are_no_returns(shrinks: float) -> None:
    assert not reads_draw_closer_together(1000, 100_000, shrinks, 60, loops=False).first


@pytest.mark.slow  # many polls
def test_a_loop_is_found_while_reads_draw_closer_together() -> None:
    """Three of four deliveries come back."""
    assert (
        "redelivery_loop"
        in reads_draw_closer_together(25, 100, 0.05, 30, loops=True).names
    )


def test_redelivery_needs_deliveries() -> None:
    ((names, _),) = found_of([Loop([5.0] * 6, delivered=0.0)])
    assert "redelivery_loop" not in names


SHARES: Sequence[tuple[Loop, Found]] = [
    (Loop([1.9] * 8, settled=98), (set(), {"redelivery_loop"})),
    (
        Loop([3.6] * 8, settled=98),
        (set(), {"redelivery_loop"}),
    ),  # of few failures: within what varies by chance
    (Loop([3.7] * 8, settled=98), ({"redelivery_loop"}, set())),
    (Loop([1.9] * 8), ({"redelivery_loop"}, set())),
    # Nine of ten returns each end as a dead letter
    (
        Loop([10.0] * 8, settled=89, killed=1),
        (set(), {"redelivery_loop", "dead_lettering"}),
    ),
    (
        Loop([12.6] * 8, settled=87, killed=1),
        (set(), {"redelivery_loop", "dead_lettering"}),
    ),
    (Loop([12.8] * 8, settled=87, killed=1), ({"redelivery_loop"}, {"dead_lettering"})),
]


def test_a_small_share_of_returns_only_informs() -> None:
    assert found_of([loop for loop, _ in SHARES]) == [
        expected for _, expected in SHARES
    ]


ATTEMPTS: Sequence[tuple[Mapping[str, float], bool]] = [
    ({"Att": 0}, False),
    ({"Att": 0, "A": 600.0}, False),
    ({"Att": 0, "A": 599.0}, True),
    ({"Att": 1}, True),
]


def test_redelivery_of_a_non_destructive_queue_is_unknown() -> None:
    """It settles and attempts nothing; a loop would deliver more than was added."""
    found = found_of([Loop([5.0] * 6, said=said) for said, _ in ATTEMPTS])
    assert ["redelivery_loop" in names for names, _ in found] == [
        known for _, known in ATTEMPTS
    ]


def test_a_counter_that_fell_drops_the_window_of_its_queue() -> None:
    judged = Judged()
    loop = Loop([5.0] * 6)
    for poll in range(7):
        loop.step(poll)
        judged.poll(
            {"q": dict(loop.queue)},
            {"c": {**loop.consumer, "L": judged.now, "Ld": judged.now}},
        )
    assert "redelivery_loop" in judged.names
    numbers = {"T": 20.0, "N": 700.0, "C": 30.0, "L": judged.now}
    queue = {"A": 0.0, "K": 0.0, "M": 20.0, "Att": 1.0}
    polls(judged, 2, queue, {"c": numbers})
    assert "redelivery_loop" not in judged.names


@pytest.mark.slow  # many polls
def test_a_loop_is_found_at_polls_of_a_second() -> None:
    """The same loop that polls of 15 s find: the samples of 5 s hold what came back in them."""
    judged = Judged(step=1.0)
    numbers = {"N": 0.0, "C": 0.0}
    for _ in range(90):
        numbers = {"N": numbers["N"] + 3, "C": numbers["C"] + 3}
        holder = {**numbers, "T": 3.0, "L": judged.now, "Ld": judged.now}
        judged.poll({"q": {"A": 9.0, "M": 9.0, "Att": 1.0}}, {"c": holder})
    assert "redelivery_loop" in judged.names


# --- OpenMQ


def rollback_loop(world: OpenmqJudged, **consumer: Any) -> OpenmqJudged:
    return openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 20, "K": 0, "M": 20, "D": 20}},
        "consumers": {"c": {"N": 20 + 5000 * i, "T": 20, "acknowledge_mode": AcknowledgeMode.TRANSACTED, **consumer}},
    })  # fmt: skip


def test_rollback_loop_is_a_loop_and_no_stall() -> None:
    assert rollback_loop(openmq()).names == {"redelivery_loop"}


@pytest.mark.slow  # many polls
def test_rollback_loop_in_a_transaction_is_no_open_one() -> None:
    world = openmq(
        transactions={
            "t": {
                "connection": 7,
                "state": TransactionState.STARTED,
                "acknowledgements": 1,
            }
        }
    )
    assert rollback_loop(world, connection=7).names == {"redelivery_loop"}


@pytest.mark.slow  # many polls
def test_debt_of_a_limit_is_no_return() -> None:
    """Removed from a client's buffer first, settled by it later: one poll each, again and again."""
    world = openmq()
    openmq_polls(world, 20, lambda i: {
        "queues": {"q": {"A": 1000 + 50 * i, "K": 500 + 50 * i, "M": 500, "D": 100}},
        "consumers": {"c": {"N": 600 + 50 * (i // 2 * 2), "T": 100, "L": world.now + 10}},
    })  # fmt: skip
    assert "redelivery_loop" not in world.names


@pytest.mark.slow  # many polls
def test_consumer_of_a_topic_that_gives_back() -> None:
    world = openmq()
    openmq_polls(world, 10, lambda i: {
        "queues": {"s": subscription(M=5, D=5)},
        "consumers": {"c": {"queue": "s", "N": 1000 * (i + 1), "T": 5}},
    })  # fmt: skip
    assert world.names == {"redelivery_loop"}
