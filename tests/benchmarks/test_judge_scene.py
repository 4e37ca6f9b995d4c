"""The scene of `make bench-judge` makes the judgement work: all that costs time happens in it."""

from collections import defaultdict

import pytest
from bench.harness import NO_LIMITS
from bench.judge import STAGES, WHOLE, Scene, memory_mb, timed

from penstock.assessment.assess import State, assess
from penstock.settings.policy import Policy

POLLS = 60


@pytest.mark.slow  # the benchmark's ten thousand queues
def test_the_scene_has_something_of_everything() -> None:
    scene = Scene(1_000, 5_000)
    state = State()
    policy = Policy("bench", limits=NO_LIMITS)
    seconds: dict[str, float] = defaultdict(float)
    with timed(seconds):
        for _ in range(POLLS):
            state, _ = assess(state, scene.step(churn=0.01, queue_churn=0.01), policy)
    judgement = state.judgement
    assert {one.name for one in judgement.conditions} >= {
        "not_dispatching",
        "redelivery_loop",
        "ring_losing",
        "stalled",
    }
    assert (judgement.patience.weight > POLLS / 2).sum() > 500
    assert seconds.keys() == {*STAGES, WHOLE}
    assert (
        memory_mb(judgement)["patience"]
        > (judgement.patience.weight > 0).sum() * 48 * 4 / 1e6
    )
