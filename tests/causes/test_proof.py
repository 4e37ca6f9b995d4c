"""Where arithmetic proves a stall it is raised after 15 s of evidence, with nothing learned; healthy look-alikes."""

from dataclasses import replace
from typing import Any

import pytest

from causes.world import Beside
from conditions.openmq_world import OpenmqJudged
from conditions.world import START
from penstock.model import RingSource
from penstock.settings.constants import Constants
from penstock.settings.rules import Match, Rule, Rules
from penstock.settings.rules import RuleSettings as Says

STEP = 5.0


def pool(
    seconds: float,
    *,
    connection: int = 7,
    client: str = "app",
    rate: float = 20.0,
    waits: float = 500.0,
    gap: float = 0.0,
    **queue: Any,
) -> set[str]:
    """
    One of two consumers of a client takes none from 50 s on, both on the connection 7 unless the other says another.

    rate: messages that the other settles a second. gap: a job of so many seconds that the first had before.
    """  # fmt: skip
    world = Beside(constants=Constants(), step=STEP)
    for i in range(int(50 + seconds) // 5 + 1):
        now = START + STEP * (i + 1)
        busy = [n for n in range(min(i, 9) + 1) if not gap or n * STEP >= gap or n == 0]
        hung = START + STEP * (busy[-1] + 1) - 1
        done = 50.0 * len(busy)
        other = rate * STEP * i
        first = {
            "T": 40.0,
            "C": done,
            "N": done + 40,
            "L": hung,
            "Ld": hung,
            "connection": 7,
        }
        second = {
            "T": 5.0,
            "C": other,
            "N": other + 5,
            "L": now - 1,
            "Ld": now - 1,
            "client": client,
        }
        settled = done + other
        numbers = {
            "A": settled + waits + 45,
            "K": settled,
            "M": waits + 45,
            "D": 45.0,
            **queue,
        }
        world.poll(
            {"q": numbers}, {"c": first, "d": {**second, "connection": connection}}
        )
    return world.names


@pytest.mark.slow  # many polls
def test_a_hang_beside_a_sibling_that_works_is_raised_after_fifteen_seconds() -> None:
    assert pool(5) == set()
    assert pool(25) == {"stalled"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "options",
    [
        {"connection": 8},
        {"client": "another"},
        {"rate": 1.0},  # jobs of a second: one of 20 s is no wonder
        {"waits": 0.0},
        {"gap": 30.0},
    ],
)
def test_its_look_alikes_have_their_patience(options: dict[str, Any]) -> None:
    assert pool(45, **options) == set()


def evicting(seconds: float, lost: float = 20.0, ready: float = 100.0) -> set[str]:
    """A consumer that takes none of a full ring from 50 s on, into which more comes."""
    world = Beside(constants=Constants(), step=STEP)
    for i in range(int(50 + seconds) // 5 + 1):
        done = 50.0 * min(i, 9)
        last = START + STEP * (min(i, 9) + 1) - 1
        consumer = {"T": 40.0, "C": done, "N": done + 40, "L": last, "Ld": last}
        ring = {"ring": 100.0, "ring_source": RingSource.QUEUE}
        added = done + ready + 40 + lost * max(i - 9, 0)
        world.poll(
            {"q": {"A": added, "K": done, "M": ready + 40, "D": 40.0, **ring}},
            {"c": consumer},
        )
    return world.names - {"ring_losing"}


def test_a_full_ring_that_loses_what_nobody_takes_proves_a_stall() -> None:
    assert evicting(5) == set()
    assert evicting(25) == {"stalled"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("options", [{"lost": 0.0}, {"lost": 0.0, "ready": 20.0}])
def test_a_ring_that_loses_nothing_proves_none(options: dict[str, float]) -> None:
    assert evicting(45, **options) == set()


def connection(seconds: float, limit: int | None) -> set[str]:
    """OpenMQ: one consumer of a connection buffers 200 and takes no more, another one gets nothing from 50 s on."""
    world = OpenmqJudged(constants=Constants(), step=STEP)
    world.policy = replace(
        world.policy, rules=Rules((Rule(Match(), Says(connection_flow_limit=limit)),))
    )
    for i in range(int(50 + seconds) // 5 + 1):
        done = 10.0 * min(i, 9)
        waits = 10.0 * max(i - 9, 0)
        fed = {"A": done + waits, "K": done, "M": waits}
        world.poll(
            {"hung": {"A": 500, "K": done, "M": 500 - done, "D": 200}, "fed": fed},
            {
                "h": {"queue": "hung", "N": 200 + done, "T": 200.0, "waiting": 40, "connection": 1},
                "v": {"queue": "fed", "N": done, "T": 0.0, "connection": 1},
            },
        )  # fmt: skip
    return world.names


@pytest.mark.slow  # many polls
def test_a_connection_at_the_limit_that_the_operator_gives_starves_others_at_once() -> (
    None
):
    assert connection(5, 200) == set()
    assert connection(30, 200) == {"connection_paused"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("limit", [201, None])
def test_below_its_limit_or_without_one_it_takes_patience(limit: int | None) -> None:
    assert connection(45, limit) == set()
