"""A queue that goes takes its account along: what was in it is told as an event."""

from collections.abc import Sequence
from typing import Any

import pytest

from account.world import Broker, queue
from penstock.insight.events import Change, StatusSummary, changes, summarize
from penstock.model import LeftOut


def told(
    broker: Broker, before: StatusSummary
) -> tuple[list[tuple[str, str]], StatusSummary]:
    """The queues that were destroyed since, with what is said of them; and what is known now."""
    after = seen(broker, before)
    events = [
        one
        for one in changes(before, after, broker.now)
        if one.change is Change.DESTROYED
    ]
    return [(one.queue, one.detail) for one in events], after


def unreachable(broker: Broker, before: StatusSummary) -> StatusSummary:
    """After a poll that did not reach the broker."""
    return summarize(before, broker.state, None, up=False, error="connection refused")


def seen(broker: Broker, before: StatusSummary | None = None) -> StatusSummary:
    return summarize(before or StatusSummary("b"), broker.state, broker.last, up=True)


def twice(broker: Broker, before: StatusSummary, **said: Any) -> list[tuple[str, str]]:
    """What is said at this poll and at the one after it, which shows the same."""
    first, after = told(broker, before)
    broker.see({"q": queue(5, 5)}, **said)
    return first + told(broker, after)[0]


def both(**said: Any) -> dict[str, dict[str, Any]]:
    return {"q": queue(5, 5), "gone": queue(66, 60, K=6.0, **said)}


def test_what_was_in_it_is_told_once_it_is_missing_at_two_polls() -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    first, after = told(broker.see({"q": queue(5, 5)}), before)
    assert first == []
    second, after = told(broker.see({"q": queue(5, 5)}), after)
    assert second == [("gone", "60 messages were in it when it was polled last")]
    third, _ = told(broker.see({"q": queue(5, 5)}), after)
    assert third == []


def test_a_broker_that_goes_down_destroys_nothing() -> None:
    """Its last answer lists fewer queues; then it does not answer, and is another process when it does."""
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    last, after = told(broker.see({"q": queue(5, 5)}), before)
    down = unreachable(broker, after)
    broker.restart()
    again, after = told(broker.see({"q": queue(5, 5)}), down)
    later, _ = told(broker.see({"q": queue(5, 5)}), after)
    assert last + again + later == []


def test_a_queue_that_is_listed_again_was_not_destroyed() -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    first, after = told(broker.see({"q": queue(5, 5)}), before)
    second, after = told(broker.see(both()), after)
    third, _ = told(broker.see(both()), after)
    assert first + second + third == []


def test_a_poll_that_fails_in_between_hides_no_queue_that_was_destroyed() -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    _, after = told(broker.see({"q": queue(5, 5)}), before)
    down = unreachable(broker, after)
    events, _ = told(broker.see({"q": queue(5, 5)}), down)
    assert [name for name, _ in events] == ["gone"]


def test_an_empty_one_took_nothing_along() -> None:
    broker = Broker().see({"q": queue(5, 5), "gone": queue(66, 0, K=66.0)}, polls=3)
    before = seen(broker)
    assert twice(broker.see({"q": queue(5, 5)}), before) == []


@pytest.mark.parametrize("said", [{"durable": False}, {"temporary": True}])
def test_what_is_to_go_with_its_client_is_not_told(said: dict[str, Any]) -> None:
    broker = Broker().see(both(**said), polls=3)
    before = seen(broker)
    assert twice(broker.see({"q": queue(5, 5)}), before) == []


@pytest.mark.parametrize("over", [[], [LeftOut("queues", 1, 2)]])
def test_one_out_of_view_or_of_another_process_was_not_destroyed(
    over: Sequence[LeftOut],
) -> None:
    broker = Broker().see(both(), polls=3)
    before = seen(broker)
    if not over:
        broker.restart()
    broker.see({"q": queue(5, 5)}, left_out=over)
    assert twice(broker, before, left_out=over) == []
