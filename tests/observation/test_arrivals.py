"""When a message came, by its number and what had been added at each poll."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.observation.oldest import POINTS, Arrivals

NAN = np.nan


def poll(
    index: Index[str],
    now: float,
    added: Sequence[float],
    known: Sequence[bool] | None = None,
) -> Any:
    """As much of the facts as arrivals look at."""
    there = np.ones(len(index), np.bool_) if known is None else np.array(known)
    return SimpleNamespace(queues=index, read=now, added=np.array(added), known=there)


@pytest.mark.parametrize(
    ("added", "number", "came"),
    [
        ([0.0, 10.0, 20.0, 30.0], 15.0, 20.0),
        ([0.0, 10.0, 20.0, 30.0], 30.0, 30.0),
        ([5.0, 10.0, 20.0, 30.0], 5.0, 0.0),
        ([5.0, 10.0, 20.0, 30.0], 4.0, 0.0),
        ([5.0, 10.0, 20.0, 30.0], -7.0, 0.0),
        ([0.0, 10.0, 20.0, 30.0], 31.0, NAN),
        ([0.0, 10.0, NAN, 30.0], 20.0, 30.0),
        ([0.0, NAN, NAN, 30.0], 10.0, 30.0),
        ([0.0, 10.0, 20.0, NAN], 15.0, 20.0),
        ([NAN, NAN, 20.0, 30.0], 15.0, 20.0),
    ],
)
def test_by_when_a_message_had_come(
    added: list[float], number: float, came: float
) -> None:
    """Polls at 0, 10, 20 and 30 s; one that did not say the number hides nothing."""
    arrivals = Arrivals()
    index = Index.of(["q"])
    for now, one in zip((0.0, 10.0, 20.0, 30.0), added, strict=True):
        arrivals = arrivals.advance(poll(index, now, [one]))
    found = arrivals.came_by(np.array([number]), np.array([0]))
    assert found.tolist() == pytest.approx([came], nan_ok=True)


def told(stamps: list[float], added: list[float], number: float) -> float:
    """The same of one queue in plain Python, all its points at hand: those after the last that was below the number."""
    below = [at for at, one in enumerate(added) if one < number]
    after = [
        at
        for at, one in enumerate(added)
        if one >= number and at > max(below, default=-1)
    ]
    return stamps[after[0]] if after else NAN


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_of_many_polls_is_what_all_of_them_said(seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = np.arange(8)
    index: Index[str] = Index.empty()
    arrivals = Arrivals()
    stamps = []
    points: list[dict[int, float]] = []
    added = dict.fromkeys(keys.tolist(), 0.0)
    for number in range(3 * POINTS):
        if number % 50 == 20:  # one goes, and another comes
            gone = int(keys[3])
            came = int(keys.max()) + 1
            keys = np.append(np.delete(keys, 3), came)
            added = {**added, came: 0.0}
            points = [
                {key: value for key, value in one.items() if key != gone}
                for one in points
            ]
        index, _ = index.advance(keys, lambda new: ["q"] * len(new))
        for key in keys.tolist():
            added[key] += float(random.integers(0, 5)) if random.random() < 0.3 else 0.0
        known = random.random(8) > 0.02
        now = [NAN if random.random() < 0.02 else added[key] for key in keys.tolist()]
        for key in keys[~known].tolist():
            points = [{**one, key: NAN} for one in points]
        arrivals = arrivals.advance(poll(index, 15.0 * number, now, known.tolist()))
        stamps.append(15.0 * number)
        points.append(dict(zip(keys.tolist(), now, strict=True)))
        if len(stamps) > POINTS:
            kept = [
                at for at in range(len(stamps)) if at >= 3 * POINTS // 4 or at % 2 == 0
            ]
            stamps = [stamps[at] for at in kept]
            points = [points[at] for at in kept]
        if number < 2 or number % 7:
            continue
        for back in (1.0, 3.0, 20.0):
            asked = np.array([added[key] - back for key in keys.tolist()])
            expected = [
                told(stamps, [one.get(key, NAN) for one in points], float(wanted))
                for key, wanted in zip(keys.tolist(), asked, strict=True)
            ]
            assert arrivals.came_by(asked, np.arange(8)).tolist() == pytest.approx(
                expected, nan_ok=True
            )


def test_queues_with_nothing_to_do_take_no_place() -> None:
    index: Index[str] = Index.of(["q"] * 10_000)
    arrivals = Arrivals()
    added = np.zeros(10_000)
    for number in range(40):
        added[7] += 1
        arrivals = arrivals.advance(poll(index, 15.0 * number, added.tolist()))
    assert [one.rows.tolist() for one in arrivals.points] == [[7]] * 39
