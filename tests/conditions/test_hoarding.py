"""`hoarding`: one holds what idle ones could work on."""

from typing import Any
from unittest import mock

import numpy as np
import pytest

from conditions.openmq_world import openmq, openmq_polls
from conditions.scenarios import FAULTS
from conditions.things import Numbers
from conditions.world import START, Judged, World
from penstock.settings.constants import Constants

POOLS: list[tuple[int, int, float, bool, dict[str, Any], bool]] = [
    (40, 0, 1, True, {}, True),
    (10, 0, 1 / 4, True, {}, True),
    (9, 0, 1 / 5, True, {}, False),
    (40, 10, 1, True, {}, True),
    (40, 11, 1, True, {}, False),
    (40, 0, 2, True, {}, False),
    (40, 0, 0, True, {}, False),
    (40, 1, 1, False, {}, False),
    (40, 0, 1, True, {"M": 60}, False),
    (40, 0, 1, True, {"exclusive": 1}, False),
    (40, 0, 1, True, {"grouped": 1}, False),
    (40, 0, 1, True, {"groups": 3}, False),
    (40, 0, 1, True, {"filter": "x"}, False),
]
"""
What one consumer holds, another one, how many a second the first settles, whether the third is always idle, what else
is said of the queue (`filter`: of the third), and whether the first hoards.
"""


def test_hoarding() -> None:
    """Each pool on a queue of its own."""
    judged = Judged()
    for n in range(5):
        now = judged.now + 15
        queues = {}
        consumers = {}
        for i, (most, other, pace, idle, said, _) in enumerate(POOLS):
            gone = pace * 15 * n
            of_queue = {key: value for key, value in said.items() if key != "filter"}
            queues[f"{i}"] = {
                "A": 1000,
                "K": gone,
                "M": most + other,
                "D": most + other,
                **of_queue,
            }
            selector = {"filter": said["filter"]} if "filter" in said else {}
            last = now if pace else np.nan
            pool: dict[str, Numbers] = {
                "c": {"T": most, "N": most + gone, "C": gone, "L": last, "Ld": now},
                "d": {"T": other, "N": other, "Ld": now},
                "e": {
                    "T": 0.0 if idle or n % 2 else 1.0,
                    "N": n,
                    "Ld": now,
                    **selector,
                },
            }
            for name, numbers in pool.items():
                consumers[f"{i} {name}"] = {
                    "queue": f"{i}",
                    "client": f"app {i}",
                    **numbers,
                }
        judged.poll(queues, consumers)
    assert {i: "hoarding" in judged.names_of(f"{i}") for i in range(len(POOLS))} == {
        i: hoards for i, (*_, hoards) in enumerate(POOLS)
    }


def test_hoarding_outlives_its_consumers_by_a_poll_without_an_error() -> None:
    world = World()
    world.run(60, FAULTS["hoarding"][0](world))
    assert "hoarding" in world.names
    for consumer in [*world.queues["q"].consumers.values()]:
        world.queues["q"].close(consumer)
    world.run(15)
    assert world.one("hoarding").evidence["most"] == 0
    world.run(15)
    assert "hoarding" not in world.names


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("seconds", "found"), [(10, False), (25, True)])
def test_one_that_stalled_has_to_work_for_a_while_before_it_hoards(
    seconds: float, found: bool
) -> None:
    """Its peers have been idle all the time; what it works through in the first seconds says little of its pace."""
    judged = Judged(step=5.0, constants=Constants(cold=20.0, floor=10.0))
    gone = 0.0
    for n in range(30 + int(seconds / 5)):
        works = n >= 30
        gone += (1 if n == 30 else 15) if works else 0
        queue = {"A": 600, "K": gone, "M": 600 - gone, "D": 600 - gone}
        now = judged.now + 5
        pool: dict[str, dict[str, Any]] = {
            "c": {
                "T": 600 - gone,
                "N": 600,
                "C": gone,
                "L": now if works else np.nan,
                "Ld": START,
            },
            "e": {"T": 0, "N": 0},
        }
        judged.poll({"q": queue}, pool)
        if n == 29:
            assert judged.names == {"stalled"}
    assert ("hoarding" in judged.names) is found


# --- OpenMQ


@pytest.mark.slow  # many polls
def test_one_that_gives_back_all_it_buffers_is_no_hoarder() -> None:
    """Hoarding leaves out whom Artemis' rule calls stalled; the one of OpenMQ leaves out consumers that give back."""
    world = openmq()
    openmq_polls(world, 24, lambda i: {
        "queues": {"q": {"A": 30, "K": min(i, 4), "M": 30 - min(i, 4), "D": 30 - min(i, 4), "consumers": 2}},
        "consumers": {
            "c": {"N": 30 + 8 * max(i - 4, 0), "T": 30 - min(i, 4), "L": world.now if i <= 4 else START + 60},
            "idle": {"N": 0, "T": 0},
        },
    })  # fmt: skip
    assert world.names == {"redelivery_loop"}


def test_what_consumers_beyond_the_budget_hold_counts() -> None:
    """Of those that are listed one holds all that they hold; three that are not hold as much each."""
    world = World()
    queue = world.queue()
    busy = queue.join(window=40)
    _ = queue.join(window=40)
    hidden = [queue.join("hidden", window=40) for _ in range(3)]
    every = queue.consumers_said
    queue.come(150)

    def works(_: float) -> None:
        queue.come(4)
        for one in (busy, *hidden):
            queue.take(one)
            queue.settle(one, 1)

    def listed() -> dict[str, Numbers]:
        return {name: one for name, one in every().items() if one["client"] != "hidden"}

    with mock.patch.object(queue, "consumers_said", listed):
        world.run(120, works)
    assert not world.alarms
