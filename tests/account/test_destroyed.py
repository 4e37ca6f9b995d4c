"""A queue that goes takes its account along: what was in it is told as an event."""

from collections.abc import Sequence
from typing import Any

import pytest

from account.world import Broker, queue
from penstock.insight.events import Change, StatusSummary, changes, summarize
from penstock.model import LeftOut


def told(broker: Broker, before: StatusSummary) -> list[tuple[str, str]]:
    """The queues that were destroyed since, with what is said of them."""
    after = seen(broker, before)
    return [(one.queue, one.detail) for one in changes(before, after, broker.now) if one.change is Change.DESTROYED]


def seen(broker: Broker, before: StatusSummary | None = None) -> StatusSummary:
    return summarize(before or StatusSummary("b"), broker.state, broker.last, up=True)


def both(**said: Any) -> dict[str, dict[str, Any]]:
    return {"q": queue(5, 5), "gone": queue(66, 60, K=6.0, **said)}


def test_what_was_in_it_is_told_once() -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    broker.see({"q": queue(5, 5)})
    assert told(broker, before) == [("gone", "60 messages were in it at the poll before")]
    before = seen(broker, before)
    broker.see({"q": queue(5, 5)})
    assert told(broker, before) == []


def test_an_empty_one_took_nothing_along() -> None:
    broker = Broker().see({"q": queue(5, 5), "gone": queue(66, 0, K=66.0)}, polls=3)
    before = seen(broker)
    assert told(broker.see({"q": queue(5, 5)}), before) == []


@pytest.mark.parametrize("said", [{"durable": False}, {"temporary": True}])
def test_what_is_to_go_with_its_client_is_not_told(said: dict[str, Any]) -> None:
    broker = Broker().see(both(**said), polls=3)
    before = seen(broker)
    assert told(broker.see({"q": queue(5, 5)}), before) == []


@pytest.mark.parametrize("over", [[], [LeftOut("queues", 1, 2)]])
def test_one_out_of_view_or_of_another_process_was_not_destroyed(over: Sequence[LeftOut]) -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    if not over:
        broker.restart()
    broker.see({"q": queue(5, 5)}, left_out=over)
    assert told(broker, before) == []
