"""Polls between two that are judged, while clients hold more than a ring has room for: only rings learn from them."""

from dataclasses import replace
from typing import Any

import pytest

from account.world import Broker, queue
from penstock.model import Snapshot
from penstock.rule_engine.judgement import glanced

HOLDER = {
    "holder": {
        "queue": "ring",
        "T": 4.0,
        "N": 4.0,
        "client": "holder",
        "protocol": "CORE",
        "session": "s1",
    }
}
BETWEEN = 9
"""Polls each 0.5 s, and the tenth is judged."""


class Polled:
    """A broker that is judged each 5 s; with `between`, polls in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, between: bool) -> None:
        self.broker = Broker(step=5.0)
        self._monkeypatch = monkeypatch
        self._between = between

    def see(
        self, queues: dict[str, Any], consumers: dict[str, Any], polls: int = 1
    ) -> None:
        for _ in range(polls):
            if self._between:
                self._glance(queues, consumers)
            self.broker.step = 0.5 if self._between else 5.0
            self.broker.see(queues, consumers=consumers, senders={})

    def _glance(self, queues: dict[str, Any], consumers: dict[str, Any]) -> None:
        def only_glanced(snapshot: Snapshot) -> None:
            state = self.broker.state
            judgement = glanced(state.judgement, snapshot, self.broker.policy.constants)
            self.broker.state = replace(state, judgement=judgement)

        self.broker.step = 0.5
        with self._monkeypatch.context() as patch:
            patch.setattr(self.broker, "judge", only_glanced)
            for _ in range(BETWEEN):
                self.broker.see(queues, consumers=consumers, senders={})


@pytest.fixture(params=[False, True], ids=["judged", "in between"])
def polled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Polled:
    return Polled(monkeypatch, between=request.param)


def rings(**others: Any) -> dict[str, Any]:
    return {"ring": queue(4, 4, D=4.0, ring=3.0), **others}


@pytest.mark.slow  # many polls
def test_a_loss_counts_once_and_its_condition_ends(polled: Polled) -> None:
    gone = {
        "gone": {
            "queue": "q",
            "T": 4.0,
            "N": 4.0,
            "client": "gone",
            "protocol": "CORE",
            "session": "s2",
        }
    }
    polled.see(rings(q=queue(4, 4, D=4.0, ring=3.0)), {**HOLDER, **gone}, polls=4)
    after = rings(q=queue(4, 3, ring=3.0))
    polled.see(after, HOLDER, polls=4)
    assert polled.broker.left("evicted", "q") == 1
    assert "ring_lost_by_consumer" in polled.broker.names
    polled.see(after, HOLDER, polls=90)
    assert polled.broker.left("evicted", "q") == 1
    assert "ring_lost_by_consumer" not in polled.broker.names


@pytest.mark.slow  # many polls
def test_what_an_operator_moved_is_moved(polled: Polled) -> None:
    polled.see(rings(q=queue(100, 100), to=queue(0, 0)), HOLDER, polls=14)
    polled.see(rings(q=queue(100, 90, K=10.0), to=queue(10, 10)), HOLDER, polls=4)
    assert (
        polled.broker.left("moved", "q"),
        polled.broker.left("acknowledged", "q"),
    ) == (10, 0)


@pytest.mark.slow  # many polls
def test_what_a_killed_client_gave_back_is_not_0(polled: Polled) -> None:
    killed = {
        "killed": {
            "queue": "q",
            "T": 20.0,
            "N": 20.0,
            "client": "k",
            "protocol": "CORE",
            "session": "s2",
        }
    }
    polled.see(rings(q=queue(20, 20, D=20.0, Att=0.0)), {**HOLDER, **killed}, polls=4)
    polled.see(rings(q=queue(20, 20, Att=0.0)), HOLDER, polls=4)
    given_back = polled.broker.sheet("q").given_back
    assert isinstance(given_back, list | tuple)
    assert given_back[0] == 20
