"""The frames of a poll: each declared column is filled, with the numbers that `Facts` has."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, inputs_after
from conditions.world import Judged
from core.things import queue
from penstock.columns.spec import Frame, Origin, Unit
from penstock.core.table import Index
from penstock.observation.frames import Consumers, Poll, Queues
from penstock.observation.poll import RuleInputs


@cache
def inputs() -> RuleInputs:
    """What rules read after three polls: a consumer takes messages and settles none."""

    def numbers(poll: int) -> dict[str, Any]:
        return {
            "queues": {"q": {"A": 10.0 * poll, "M": 10.0 * poll, "D": 5.0}},
            "consumers": {"c": {"queue": "q", "T": 5.0, "N": 5.0}},
        }

    return inputs_after(Judged(), 3, numbers)


FRAMES = ("queues", "consumers", "clients", "addresses", "producers", "connections")


def frame_of(name: str) -> Frame[Any]:
    frame: Frame[Any] = getattr(inputs(), name)
    return frame


@pytest.mark.parametrize("name", FRAMES)
def test_only_declared_columns_are_filled(name: str) -> None:
    frame = frame_of(name)
    assert frame.columns.keys() <= frame.specs().keys()


@pytest.mark.parametrize("name", FRAMES)
def test_each_column_that_penstock_keeps_is_filled(name: str) -> None:
    frame = frame_of(name)
    kept = {
        column
        for column, spec in frame.specs().items()
        if spec.origin is Origin.PENSTOCK and spec.compute is None
    }
    assert kept <= frame.columns.keys()


@pytest.mark.parametrize("name", FRAMES)
def test_each_column_is_as_long_as_the_frame_and_of_its_type(name: str) -> None:
    frame = frame_of(name)
    for column, spec in frame.specs().items():
        values = getattr(frame, column)
        is_mask = spec.unit is Unit.FLAG and spec.origin is Origin.PENSTOCK
        assert values.shape == (len(frame),), column
        assert values.dtype == (np.bool_ if is_mask else np.float64), column


def test_a_frame_is_made_once_a_poll() -> None:
    assert inputs().queues is inputs().queues
    assert changed(inputs()).queues is not inputs().queues


def test_rule_inputs_are_a_poll() -> None:
    poll: Poll = inputs()
    facts = inputs().found
    assert poll.now == facts.now
    assert poll.interval == facts.interval
    assert poll.queues.added_delta is facts.d_added
    assert poll.consumers.buffered is facts.consumer.held
    assert poll.clients.buffered.tolist() == [5]
    assert poll.broker is inputs().broker


def test_a_rule_may_be_given_frames_made_by_hand() -> None:
    queues = Queues(
        Index.of([queue("fast"), queue("slow"), queue("idle")]),
        {
            "service_seconds": np.array([1.0, 6.0, np.nan]),
            "usual_service_seconds": np.array([1.0, 2.0, 2.0]),
        },
    )
    np.testing.assert_array_equal(queues.slowdown, [1, 3, np.nan])
    assert Queues.slowdown.meaning.startswith("How many times")


def test_consumers_look_up_the_numbers_of_their_queue() -> None:
    consumers = Consumers(
        Index.empty(),
        {},
        queue=np.array([1, -1, 0]),
        client=np.array([0, 0, 0]),
        connection=np.empty(0, np.int64),
    )
    ready = np.array([7.0, 8.0])
    looked_up = consumers.of_queues(ready, missing=np.nan)
    np.testing.assert_array_equal(looked_up, [8, np.nan, 7])
    assert consumers.connection.tolist() == [-1, -1, -1]
