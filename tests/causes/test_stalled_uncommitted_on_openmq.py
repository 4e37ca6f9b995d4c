"""Why a consumer of OpenMQ has acknowledged and uncommitted messages: by the numbers of one poll, and their bounds."""

from functools import cache

import pytest

from causes.table import Facts, Values, judged, poll_with, told, with_states
from conditions.openmq_world import OpenmqJudged
from conditions.pairs import polled
from penstock.model import Collector
from penstock.observation.poll import RuleInputs

QUEUES = {"q": {"A": 90.0, "M": 80.0, "D": 40.0}}
CONSUMERS = {
    "c": {"T": 40.0, "N": 40.0, "connection": "one"},
    "d": {"T": 10.0, "N": 10.0, "connection": "two"},
}
FAILED = "openmq.said.failed"
KEYS = "snapshot.consumer_connection"
READ = "snapshot.collectors"


def read(seconds_ago: float) -> dict[str, Collector]:
    """When the broker's transactions were read; the condition is active for 100 s, and polls come each 15 s."""
    stamp = uncommitted().snapshot.stamp
    return {"transactions": Collector(0.1, stamp - seconds_ago, "")}


@cache
def uncommitted() -> RuleInputs:
    """The broker's transactions were read, and none has failed."""
    world = OpenmqJudged(transactions={"t": {"state": 1.0, "connection": "one"}})
    return poll_with(polled(world, QUEUES, CONSUMERS), {FAILED: False, KEYS: [0, 1]})


WHETHER_A_TRANSACTION_HAS_FAILED = {
    "transaction_failed": "excluded",
}
"""The broker shows none."""


@pytest.mark.parametrize(("values", "differs"), [
    ({FAILED: [True, False]}, "transaction_failed proven"),
    ({FAILED: [False, True]}, ""),
    ({KEYS: -1}, "transaction_failed possible"),
    ({KEYS: [-1, 1]}, "transaction_failed possible"),
    ({KEYS: [0, -1]}, ""),
    ({KEYS: -1, FAILED: [True, False]}, "transaction_failed proven"),
    ({"snapshot.transactions": None}, "transaction_failed possible"),
    ({"snapshot.transactions": None, FAILED: True}, "transaction_failed possible"),
    ({READ: read(115)}, ""),
    ({READ: read(116)}, "transaction_failed possible"),
    ({READ: read(116), FAILED: True}, "transaction_failed possible"),
    ({"openmq": None}, ""),
    ({"openmq.said": None}, ""),
])  # fmt: skip
def test_whether_a_transaction_has_failed(values: Values, differs: str) -> None:
    poll = poll_with(uncommitted(), values)
    assert judged("open_transaction", poll, kind="openmq") == with_states(
        WHETHER_A_TRANSACTION_HAS_FAILED, differs
    )


@pytest.mark.parametrize(("values", "facts"), [
    ({}, {"transaction_failed": "the broker shows none"}),
    ({FAILED: [True, False]}, {"transaction_failed": "the broker says so"}),
    ({KEYS: -1}, {"transaction_failed": "its connection was not read"}),
])  # fmt: skip
def test_whether_a_transaction_has_failed_is_told(values: Values, facts: Facts) -> None:
    poll = poll_with(uncommitted(), values)
    found = told("open_transaction", poll, kind="openmq")
    assert found == found | facts
