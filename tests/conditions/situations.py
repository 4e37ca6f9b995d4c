"""Numbers and polls of Artemis that tests of several conditions begin with."""

from collections.abc import Mapping

import numpy as np

from conditions.things import Numbers
from conditions.world import START, Consumer, Judged, Queue, World
from penstock.settings.constants import Constants

HOLDER = {"T": 10.0, "N": 10.0, "C": 0.0, "Ld": START}
HELD = {"A": 10.0, "M": 10.0, "D": 10.0}
WAIT = {"A": 50.0, "M": 50.0}
FREE: Numbers = {"T": 0.0, "N": 0.0, "C": 0.0}
FULL = {"limit_percent": 100.0, "paging": 0.0}
PATIENT = Constants(cold=3000.0)


def polls(
    judged: Judged,
    count: int,
    queue: Numbers,
    consumers: Mapping[str, Numbers] | None = None,
    **address: float,
) -> Judged:
    """The same numbers at so many polls."""
    for _ in range(count):
        judged.poll({"q": queue}, consumers, {"q": address})
    return judged


def at_limits(queue: Numbers, address: dict[str, float]) -> set[str]:
    """What is told with a consumer that holds something, for two minutes: nothing else is due."""
    judged = polls(Judged(), 8, {**WAIT, "D": 10, **queue}, {"c": HOLDER}, **address)
    for condition in judged.conditions:
        assert all(np.isfinite(value) for value in condition.evidence.values())
    return judged.names


def leaving(counter: str, at: set[int]) -> Judged:
    """Eight polls; at those of the numbers `at` five messages leave by the counter E or X."""
    judged = Judged()
    gone = 0.0
    for n in range(8):
        gone += 5 if n in at else 0
        judged.poll(
            {"q": {"A": 1000.0, "M": 500.0 - gone, counter: gone}},
            {"c": {**HOLDER, "Ld": judged.now}},
        )
    return judged


def ring(size: float, consumers: int = 0) -> tuple[World, Queue, list[Consumer]]:
    world = World(constants=PATIENT)
    queue = world.queue(ring=size)
    return world, queue, [queue.join(window=np.inf) for _ in range(consumers)]


def quiet(world: World) -> World:
    """Seen twice before anything happens."""
    return world.run(30)
