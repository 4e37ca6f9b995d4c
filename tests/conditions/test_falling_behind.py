"""`falling_behind`: a backlog that rises steadily; no spike, no saw-tooth."""

from typing import Any

import pytest

from conditions.normal_world import knowing, steady
from conditions.openmq_world import openmq, openmq_polls
from conditions.world import Judged


def behind(
    depths: list[float],
    *,
    step: float = 15.0,
    each: float = 50.0,
    settled: float = 50.0,
    **said: Any,
) -> bool:
    judged = Judged(step=step)
    for n, depth in enumerate(depths):
        queue = {"A": each * n, "K": settled * n, "M": depth, **said}
        busy = {
            "T": 1.0,
            "N": settled * n,
            "C": settled * n,
            "L": judged.now,
            "Ld": judged.now,
        }
        judged.poll({"q": queue}, {"c": busy})
    return "falling_behind" in judged.names


RISES = [10.0 * n for n in range(24)]


COURSES: list[tuple[list[float], dict[str, Any], bool]] = [
    (RISES, {}, True),
    (RISES[:20], {}, False),
    ([100.0 + depth for depth in RISES], {}, True),
    ([0.5 * n for n in range(24)], {"each": 0.0}, False),
    ([n / 1.4 for n in range(24)], {"each": 0.0}, True),
    (RISES, {"settled": 0.0}, False),
    ([7.0 * n for n in range(24)], {"each": 51.0}, True),
    ([7.0 * n for n in range(24)], {"each": 52.0}, False),
    ([200.0 - depth for depth in RISES], {}, False),
    ([depth if n % 6 else 0.0 for n, depth in enumerate(RISES)], {}, False),
    ([100.0] * 12 + [200.0] * 12, {}, False),
    (RISES, {"ring": 1000.0}, False),
    (RISES, {"S": 500.0}, True),
    (
        [0.1 * n for n in range(14)] + [20.0 * n for n in range(1, 11)],
        {},
        False,
    ),  # a spike
    ([*RISES[:19], 175.0, 170.0, 168.0, 166.0, 164.0], {}, False),  # it has turned
]
"""Depths of a queue poll by poll, what else is said of it and of what comes and is settled, whether it falls behind."""


def test_falling_behind() -> None:
    """Each course on a queue of its own, judged when it has ended."""
    judged = Judged()
    found = {}
    for n in range(len(RISES)):
        queues = {}
        consumers = {}
        for course, (depths, said, _) in enumerate(COURSES):
            more = {
                key: value
                for key, value in said.items()
                if key not in ("each", "settled")
            }
            settled = said.get("settled", 50.0) * n
            depth = depths[min(n, len(depths) - 1)]
            queues[f"{course}"] = {
                "A": said.get("each", 50.0) * n,
                "K": settled,
                "M": depth,
                **more,
            }
            consumers[f"c{course}"] = {
                "queue": f"{course}", "client": f"app {course}", "T": 1.0, "N": settled, "C": settled,
                "L": judged.now, "Ld": judged.now,
            }  # fmt: skip
        judged.poll(queues, consumers)
        for course, (depths, _, _) in enumerate(COURSES):
            if n == len(depths) - 1:
                found[course] = "falling_behind" in judged.names_of(f"{course}")
    assert found == {course: falls for course, (_, _, falls) in enumerate(COURSES)}


@pytest.mark.slow  # many polls
def test_scheduled_messages_are_no_backlog() -> None:
    judged = Judged()
    for n in range(24):
        busy = {
            "T": 1.0,
            "N": 50.0 * n,
            "C": 50.0 * n,
            "L": judged.now,
            "Ld": judged.now,
        }
        judged.poll(
            {"q": {"A": 50.0 * n, "K": 50.0 * n, "M": 10.0 * n, "S": 10.0 * n}},
            {"c": busy},
        )
    assert "falling_behind" not in judged.names


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("due", "usual"), [(0.0, 2.0), (150.0, None)])
def test_the_usual_inflow_is_no_measure_of_scheduled_messages_that_fall_due(
    due: float, usual: float | None
) -> None:
    judged = knowing(q=steady(2.0))
    for n in range(30):
        busy = {
            "T": 1.0,
            "N": 20.0 * n,
            "C": 20.0 * n,
            "L": judged.now,
            "Ld": judged.now,
        }
        later = 9000.0 - due * n
        depth = later + (10.0 + due) * n
        judged.poll(
            {"q": {"A": 9000.0 + 30.0 * n, "K": 20.0 * n, "M": depth, "S": later}},
            {"c": busy},
        )
    evidence = judged.one("falling_behind").evidence
    assert evidence["rate_in"] == pytest.approx(2.0 + due / 15)
    assert evidence.get("usual_high") == (usual and pytest.approx(usual, rel=0.1))


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [30.0, 60.0, 120.0])
def test_falling_behind_is_found_at_any_interval(step: float) -> None:
    assert behind(RISES, step=step)


# --- OpenMQ


def growing(stuck: int) -> set[str]:
    """10 a poll come more than a consumer settles; `stuck` of them go to one that settles nothing."""
    world = openmq()
    openmq_polls(world, 30, lambda i: {
        "queues": {"q": {"A": 1000 + 30 * i, "K": 800 + 20 * i, "M": 200 + 10 * i, "D": 100 + stuck * i}},
        "consumers": {
            "good": {"client": "good", "N": 810 + 20 * i, "T": 10, "L": world.now + 10},
            "stuck": {"client": "stuck", "N": 90 + stuck * i, "T": 90 + stuck * i},
        },
    })  # fmt: skip
    return world.names


@pytest.mark.slow  # many polls
def test_backlog_that_a_stalled_consumer_is_given_is_told_as_that() -> None:
    assert growing(stuck=10) == {"stalled"}


@pytest.mark.slow  # many polls
def test_backlog_beyond_what_a_stalled_consumer_holds_is_falling_behind_too() -> None:
    world = openmq()
    openmq_polls(world, 30, lambda i: {
        "queues": {"q": {"A": 1000 + 60 * i, "K": 800 + 20 * i, "M": 200 + 40 * i, "D": 20}},
        "consumers": {
            "good": {"client": "good", "N": 810 + 20 * i, "T": 10, "L": world.now + 10},
            "stuck": {"client": "stuck", "N": 10, "T": 10},
        },
    })  # fmt: skip
    assert world.names == {"stalled", "falling_behind"}
