"""`dead_lettering_unusually`, `expiring_unusually`: more of what leaves than in 28 days, and habits that are none."""

from typing import NamedTuple

import numpy as np
import pytest

from conditions.normal_world import BEFORE, Flow, knowing, steady
from conditions.world import Judged


class Kind(NamedTuple):
    """A condition, the notice that it replaces, how a share leaves in a flow, and the column that says so."""

    condition: str
    notice: str
    leaves: str
    column: str

    def run(self, flow: Flow, seconds: float, rate: float, share: float = 0.0) -> Flow:
        if self.leaves == "expires":
            return flow.run(seconds, rate, expires=share)
        return flow.run(seconds, rate, dies=share)


DEAD = Kind("dead_lettering_unusually", "dead_lettering", "dies", "killed")
EXPIRED = Kind("expiring_unusually", "expiring", "expires", "expired")
BOTH = pytest.mark.parametrize("kind", [DEAD, EXPIRED], ids=lambda kind: kind.notice)


@pytest.mark.slow  # many polls
@BOTH
def test_93_percent_are_told_within_two_windows_and_the_notice_gives_way(
    kind: Kind,
) -> None:
    judged = knowing(q=steady(1.0))
    flow = Flow(judged).run(600, 1.0)
    assert not judged.conditions
    kind.run(flow, 300, 1.0, 0.93)
    assert judged.names == {kind.condition}
    assert kind.notice not in judged.notices
    assert judged.one(kind.condition).evidence["usual_share"] == 0
    flow.run(700, 1.0)
    assert kind.condition not in judged.names


@pytest.mark.slow  # many polls
@BOTH
def test_a_share_as_on_other_days_is_a_habit(kind: Kind) -> None:
    judged = knowing(q={**steady(1.0), kind.column: np.full(len(BEFORE), 0.3)})
    kind.run(Flow(judged).run(600, 1.0), 600, 1.0, 0.33)
    assert kind.condition not in judged.names


@pytest.mark.slow  # many polls
@BOTH
def test_one_poll_is_a_purge(kind: Kind) -> None:
    judged = knowing(q=steady(1.0))
    kind.run(Flow(judged).run(600, 1.0), 15, 20.0, 1.0).run(300, 1.0)
    assert kind.condition not in judged.names


@pytest.mark.slow  # many polls
@BOTH
def test_in_its_first_day_nothing_is_unusual(kind: Kind) -> None:
    judged = Judged()
    kind.run(Flow(judged).run(600, 1.0), 600, 1.0, 0.93)
    assert judged.names == set()
    assert judged.notices == {kind.notice}
