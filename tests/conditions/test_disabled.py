"""`disabled`: a queue that is disabled loses what is sent to it."""

import pytest

from conditions.situations import polls
from conditions.world import Judged
from penstock.brokers.artemis.answers import QueueNumbers
from penstock.brokers.artemis.tables import QUEUE_FIELDS
from penstock.conditions.condition import Severity
from penstock.model import QueueKind, QueueRow


def test_it_is_told_at_the_second_poll_whatever_the_queue_does() -> None:
    assert (
        polls(Judged(), 2, {"enabled": 0.0}).one("disabled").severity
        is Severity.WARNING
    )


@pytest.mark.parametrize(
    "queue",
    [
        {"enabled": 1.0},
        {},
        {"enabled": 1.0, "paused": 1.0},
        {"enabled": 0.0, "kind": QueueKind.TEMPORARY},
    ],
)
def test_what_is_enabled_unknown_or_not_judged_is_quiet(
    queue: dict[str, float],
) -> None:
    assert "disabled" not in polls(Judged(), 3, queue).names


def test_the_flag_comes_with_the_listing() -> None:
    assert "enabled" in QueueNumbers.__struct_fields__
    assert "enabled" in QUEUE_FIELDS
    assert "enabled" in QueueRow.COLUMNS
