"""`slowed`: several times the usual service time while there is a backlog, also where it lies in the clients."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from conditions.normal_world import BEFORE, Flow, history, knowing, steady
from conditions.world import Judged, Rate, World
from penstock.core.table import Table
from penstock.model import Snapshot

if TYPE_CHECKING:
    from conditions.things import Numbers

NAME = "slowed"


def usual(seconds: float) -> dict[str, np.ndarray]:
    """Of a queue that had backlogs: milliseconds of a consumer for a message, and messages an hour at best."""
    size = len(BEFORE)
    return {
        **steady(5.0),
        "service": np.full(size, 1000 * seconds),
        "pace": np.full(size, 3600 / seconds),
    }


@pytest.mark.slow  # many polls
def test_five_times_as_slow_is_told_within_two_minutes_of_backlog_in_place_of_falling_behind() -> (
    None
):
    """All of the backlog lies in the client: nothing is ready."""
    judged = knowing(q=usual(0.05))
    flow = Flow(judged).run(600, 5.0)
    assert not judged.conditions
    flow.run(180, 5.0, settles=4.0)
    assert judged.names == {NAME}
    one = judged.one(NAME)
    assert abs(one.evidence["service_time"] - 0.25) < 0.03
    assert abs(one.evidence["times"] - 5.0) < 0.6
    flow.run(900, 5.0, settles=4.0)
    assert judged.names == {NAME}
    flow.run(400, 5.0)
    assert NAME not in judged.names


@pytest.mark.slow  # many polls
def test_a_backlog_at_the_usual_pace_is_no_slowness() -> None:
    judged = knowing(q=usual(0.05))
    Flow(judged).run(600, 5.0).run(900, 30.0, settles=20.0)
    assert judged.names == {"falling_behind"}


@pytest.mark.parametrize(
    ("sent", "due", "found"),
    [(0.0, 5.0, {NAME}), pytest.param(9.0, 0.0, set(), marks=pytest.mark.slow)],
)
def test_scheduled_messages_come_when_they_fall_due(
    sent: float, due: float, found: set[str]
) -> None:
    """To a queue that never had a backlog and is five times as slow as at best, with more to do than it does or not."""
    judged = knowing(q={**steady(5.0), "pace": np.full(len(BEFORE), 72_000.0)})
    added = 50_000.0
    scheduled = 40_000.0
    settled = 9_800.0
    depth = 200.0
    for _ in range(32):
        judged.poll({"q": {"A": added, "K": settled, "M": depth + scheduled, "D": depth, "S": scheduled}},
                    {"c": {"T": depth, "N": settled + depth, "C": settled}})  # fmt: skip
        added = added + 15 * sent
        scheduled = scheduled + 15 * (sent - due)
        settled = settled + 15 * 4.0
        depth = max(depth + 15 * (due - 4.0), 200.0)
        added += 60.0 * (due == 0)
    assert judged.names & {NAME} == found


@dataclass
class Older(Judged):
    """Of a version that shows no numbers of each consumer."""

    def snapshot(self, *said: Any) -> Snapshot:
        found = super().snapshot(*said)
        assert found.consumers is not None
        return replace(found, consumers=Table(found.consumers.index, {}))


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("exclusive", "each"), [(1.0, 0.1), (0.0, 0.3)])
def test_of_an_exclusive_queue_one_consumer_counts(
    exclusive: float, each: float
) -> None:
    """Three are there, and ten messages a second are settled, as ever: the history counts them as the agent does."""
    judged = Older()
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(history(q=usual(each)))
    )
    readers: dict[str, Numbers] = {f"c{n}": {} for n in range(3)}
    for n in range(40):
        judged.poll(
            {
                "q": {
                    "A": 5000 + 150 * n,
                    "K": 150 * n,
                    "M": 5000,
                    "exclusive": exclusive,
                }
            },
            readers,
        )
    assert judged.state.judgement.service.now[0] == pytest.approx(each)
    assert NAME not in judged.names


@pytest.mark.slow  # many polls
def test_who_settles_nothing_stalls_and_is_not_slow() -> None:
    judged = knowing(q=usual(0.05))
    Flow(judged).run(600, 5.0).run(300, 5.0, settles=0.0)
    assert NAME not in judged.names


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("patience", [60.0, 600.0])
def test_what_one_consumer_keeps_is_no_backlog_of_the_others(patience: float) -> None:
    """It owns all groups but one: what comes for that, one message in ten, is settled at once by its peer."""
    judged = knowing(step=5.0, q=usual(0.05))
    judged.policy = replace(
        judged.policy, constants=replace(judged.policy.constants, cold=patience)
    )
    Flow(judged).run(120, 4.0)
    added = settled = 2000.0
    for _ in range(40):
        added = added + 20
        settled = settled + 2
        depth = added - settled
        holder = {"queue": "q", "protocol": "AMQP", "T": depth, "N": depth, "C": 0.0}
        peer = {"queue": "q", "T": 0, "N": settled, "C": settled}
        judged.poll(
            {"q": {"A": added, "K": settled, "M": depth, "D": depth}},
            {"h": holder, "p": peer},
        )
    assert judged.names == ({"stalled"} if patience < 100 else set())


@pytest.mark.slow  # many polls
def test_a_leak_is_no_backlog_and_one_whose_credit_it_uses_up_stalls() -> None:
    """As recorded of STOMP, whose window is 10 KiB by default: nothing is ready for three minutes, 22 leak, then all
    waits that comes.
    """
    judged = Judged(step=4.0)
    added = settled = leaked = 0.0
    for n in range(110):
        takes = 37.0 if leaked < 22 else 0.0
        leaked = min(leaked + 0.5, 22.0)
        added = added + 37
        settled = settled + takes - (0.5 if takes else 0)
        held = np.floor(leaked) + 1
        depth = added - np.floor(settled)
        consumer = {
            "queue": "q",
            "protocol": "STOMP",
            "T": held,
            "N": np.floor(settled) + held,
            "C": np.floor(settled),
        }
        judged.poll(
            {"q": {"A": added, "K": np.floor(settled), "M": depth, "D": held}},
            {"c": consumer},
        )
        assert NAME not in judged.names, n
    assert leaked == 22


@pytest.mark.slow  # many polls
def test_the_usual_is_learned_from_windows_with_a_backlog() -> None:
    """Twenty of them: three quarters of an hour at 0.1 s, then 0.6 s."""
    judged = Judged()
    flow = Flow(judged).run(2700, 10.5, settles=10.0)
    assert NAME not in judged.names
    assert abs(judged.state.judgement.service.usual[0] - 0.1) < 0.01
    flow.run(240, 10.5, settles=1.7)
    assert NAME in judged.names


@pytest.mark.slow  # many polls
def test_a_consumer_more_is_no_window() -> None:
    judged = knowing(q=usual(0.05))
    flow = Flow(judged).run(600, 5.0)
    said = {"A": flow.added, "K": flow.settled, "E": 1000.0, "X": 1000.0, "M": 0.0}
    for n in range(1, 12):
        consumers = {
            f"c{i}": {"queue": "q", "T": 50, "N": 60 + n, "C": 10.0 + n}
            for i in range(1 + n % 2)
        }
        numbers = {
            **said,
            "A": flow.added + 75 * n,
            "K": flow.settled + 15 * n,
            "M": 60.0 * n,
            "D": 60.0 * n,
        }
        judged.poll({"q": numbers}, consumers)
        assert NAME not in judged.names


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("pause", [19.8, 20.4])
def test_a_client_that_takes_all_now_and_then_is_not_slow_whenever_it_is_polled(
    pause: float,
) -> None:
    """What it settles at once lies in the polls that end without a backlog."""
    world = World(step=5.0)
    queue = world.queue()
    arrivals = Rate(1.0)
    consumer = queue.join(window=np.inf)
    due = pause

    def live(seconds: float) -> None:
        nonlocal due
        queue.come(arrivals(seconds))
        queue.take(consumer)
        if world.seconds >= due:
            queue.settle(consumer)
            due += pause

    world.run(1200, live, tick=0.2)
    assert NAME not in world.alarms
