"""The agent is killed at each change of its files, with any part of a write done: `make test-trust`."""

import random
from pathlib import Path

import pytest

from agent.crashes import Faults, undisturbed
from agent.test_crashes import check

PARTS = (0.0, 0.01, 0.2, 0.5, 0.8, 0.99, 0.9999, 1.0)


@pytest.mark.parametrize("part", PARTS)
def test_at_each(tmp_path: Path, part: float) -> None:
    whole, changes = undisturbed(tmp_path / "whole")
    for at in range(changes):
        check(whole, tmp_path, Faults(at, part))


def test_several_times(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable
    whole, changes = undisturbed(tmp_path / "whole")
    for _ in range(100):
        later = [
            Faults(chance.randrange(12), chance.choice(PARTS))
            for _ in range(chance.randrange(1, 4))
        ]
        check(
            whole,
            tmp_path,
            Faults(chance.randrange(changes // 2), chance.choice(PARTS)),
            *later,
        )
