"""What a judgement holds on to."""

import gc

from bench.judge import Scene

from penstock.assessment.assess import State, assess
from penstock.observation.poll import RuleInputs
from penstock.settings.policy import Policy


def test_conditions_hold_on_to_the_inputs_of_their_poll_and_of_no_other() -> None:
    """Causes are worked out on demand, from the inputs of the poll; these must not lead to the conditions before."""
    scene = Scene(200, 1_000)
    state = State()
    polls = []
    for _ in range(12):
        polls.append(scene.step(0.0, 0.0))
        state, _ = assess(state, polls[-1], Policy("bench"))
    of_these = {id(one) for one in polls}
    held = [
        one
        for one in gc.get_objects()
        if isinstance(one, RuleInputs) and id(one.snapshot) in of_these
    ]
    assert any(one.verdicts for one in state.judgement.conditions)
    assert [one.snapshot.stamp for one in held] == [polls[-1].stamp]
