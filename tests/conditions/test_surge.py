"""`surge`: a notice, against the highest of 28 days."""

import pytest

from conditions.normal_world import Flow, knowing, steady
from conditions.world import Judged


def test_twice_the_highest_of_28_days_is_a_notice() -> None:
    judged = knowing(step=40.0, q=steady(5.0))
    flow = Flow(judged).run(600, 5.0)
    assert not judged.conditions
    flow.run(400, 10.0)
    assert (judged.names, judged.notices) == (set(), {"surge"})
    assert abs(judged.one("surge").evidence["usual_high"] - 5) < 0.2


@pytest.mark.slow  # many polls
def test_as_much_as_on_other_days_or_a_new_queue_is_none() -> None:
    judged = knowing(q=steady(5.0))
    Flow(judged).run(600, 1.0).run(600, 6.5)
    assert not judged.conditions
    new = Judged()
    Flow(new).run(600, 1.0).run(600, 50.0)
    assert not new.conditions
