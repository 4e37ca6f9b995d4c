"""`expiring_unusually`: more of what leaves than in 28 days, and habits that are none."""

import numpy as np
import pytest

from conditions.normal_world import BEFORE, Flow, knowing, steady
from conditions.world import Judged

NAME = "expiring_unusually"


@pytest.mark.slow  # many polls
def test_93_percent_are_told_within_two_windows_and_the_notice_gives_way() -> None:
    judged = knowing(q=steady(1.0))
    flow = Flow(judged).run(600, 1.0)
    assert not judged.conditions
    flow.run(300, 1.0, expires=0.93)
    assert judged.names == {NAME}
    assert "expiring" not in judged.notices
    assert judged.one(NAME).evidence["usual_share"] == 0
    flow.run(700, 1.0)
    assert NAME not in judged.names


@pytest.mark.slow  # many polls
def test_a_share_as_on_other_days_is_a_habit() -> None:
    judged = knowing(q={**steady(1.0), "expired": np.full(len(BEFORE), 0.3)})
    Flow(judged).run(600, 1.0).run(600, 1.0, expires=0.33)
    assert NAME not in judged.names


def test_one_poll_is_a_purge() -> None:
    judged = knowing(q=steady(1.0))
    Flow(judged).run(600, 1.0).run(15, 20.0, expires=1.0).run(300, 1.0)
    assert NAME not in judged.names


def test_in_its_first_day_nothing_is_unusual() -> None:
    judged = Judged()
    Flow(judged).run(600, 1.0).run(600, 1.0, expires=0.93)
    assert judged.names == set()
    assert judged.notices == {"expiring"}
