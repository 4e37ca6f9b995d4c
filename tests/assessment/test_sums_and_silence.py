"""Series that must be one, must go, or must stay: what a sum, a passive broker and a stand-in read do to them."""

import numpy as np

from penstock.assessment.assess import State, assess
from penstock.assessment.health import unhealthy_consumers
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.core.table import Index
from penstock.exposition.catalogue import CATALOGUE
from penstock.model import QueueKind, QueueRow, RingSource, Snapshot
from penstock.series.queues import queue_series
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings


def subscription(name: str, **other: object) -> QueueRow:
    known = {
        "name": name,
        "address": "news",
        "routing_type": "multicast",
        "durable": False,
        "temporary": True,
        "filter": "",
        "kind": QueueKind.SUBSCRIPTION,
        "ring_source": RingSource.NONE,
        "dead_letter_address": "",
        "expiry_address": "",
    }
    return QueueRow(**{**known, **other})  # type: ignore[arg-type]


def test_a_sum_is_one_series_whatever_its_members_differ_in() -> None:
    owned = Rules((Rule(Match(queue="b*"), RuleSettings(owner="someone")),))
    policy = Policy("b1", rules=owned)
    members = [
        subscription("a"),
        subscription("b", dead_letter_address="DLQ", expiry_address="EXP"),
        subscription("c", ring_source=RingSource.QUEUE),
    ]
    assert len({queue_series(member, policy) for member in members}) == 1
    temporary = [
        subscription(
            name,
            address=name,
            routing_type="anycast",
            kind=QueueKind.TEMPORARY,
            ring_source=source,
        )
        for name, source in (("x", RingSource.NONE), ("y", RingSource.ADDRESS))
    ]
    assert len({queue_series(member, policy) for member in temporary}) == 1


def test_silenced_and_informing_conditions_make_no_consumer_unhealthy() -> None:
    series = queue_series(
        subscription("q", durable=True, temporary=False), Policy("b1")
    )
    assert series is not None
    told = [
        ActiveCondition(
            "stalled", "b1", "news", "q", "c", Severity.WARNING, 0.0, consumers=2
        ),
        ActiveCondition(
            "open_transaction",
            "b1",
            "news",
            "q",
            "c",
            Severity.WARNING,
            0.0,
            consumers=3,
            silenced=True,
        ),
        ActiveCondition(
            "holder_gone", "b1", "news", "q", "c", Severity.INFO, 0.0, consumers=4
        ),
    ]
    np.testing.assert_array_equal(unhealthy_consumers(told, Index.of([series])), [2.0])


def test_every_table_that_is_assessed_is_in_the_catalogue() -> None:
    assert assess(State(), _empty(), Policy("b1"))[1].keys() <= {
        family.table for family in CATALOGUE
    }


def _empty() -> Snapshot:
    return Snapshot(0.0, None)
