"""`purged`, a notice: how many; and what is no purge."""

from typing import Any

import pytest

from account.world import Broker, queue
from conditions.test_producer_rolls_back import raised
from penstock.causes.verdict import CauseState


def killed(
    broker: Broker, purged: float, dead: float = 0.0, polls: int = 1, **settings: Any
) -> None:
    """Of a thousand, so many; the others went to the dead-letter address."""
    gone = {"dead_letter_address": "dlq", "has_dead_letter_address": 1.0, **settings}
    rows = {
        "q": queue(1000, 1000 - purged - dead, X=purged + dead, **gone),
        "dlq": queue(dead, dead),
    }
    broker.see(rows, senders={"p": ("q", 0.0)}, polls=polls)


@pytest.mark.slow  # many polls
def test_a_purge_is_told_for_a_while() -> None:
    broker = Broker(step=10.0)
    killed(broker, 0, polls=4)
    killed(broker, 300, polls=3)
    assert raised(broker) == {"purged"}
    assert broker.one("purged").evidence["lost"] == 300
    assert broker.one("purged").queue == "q"
    killed(broker, 300, polls=62)
    assert not raised(broker)


@pytest.mark.slow  # many polls
def test_a_second_purge_has_the_total_of_the_account() -> None:
    """Two totals of one loss, of which one begins again, are read as two losses."""
    broker = Broker(step=10.0)
    killed(broker, 0, polls=4)
    killed(broker, 300, polls=20)
    killed(broker, 500, polls=3)
    in_account = broker.state.judgement.account.dead_letters.purged
    assert broker.one("purged").evidence["lost"] == in_account.max() == 500


@pytest.mark.slow  # many polls
def test_dead_letters_and_what_was_purged_before_are_none() -> None:
    broker = Broker()
    killed(broker, 300, polls=4)
    for n in range(20):
        killed(broker, 300, dead=float(n))
        assert not raised(broker)


PROVEN = CauseState.PROVEN
POSSIBLE = CauseState.POSSIBLE
EXCLUDED = CauseState.EXCLUDED


@pytest.mark.parametrize(
    ("purges", "deletes", "operator", "by_itself"),
    [
        (False, False, PROVEN, EXCLUDED),
        (True, False, POSSIBLE, POSSIBLE),
        (False, True, POSSIBLE, POSSIBLE),
        (None, False, POSSIBLE, POSSIBLE),
        (False, None, POSSIBLE, POSSIBLE),
    ],
)
def test_an_operator_is_proven_only_where_the_queue_does_not_purge_itself(
    purges: bool | None,
    deletes: bool | None,
    operator: CauseState,
    by_itself: CauseState,
) -> None:
    broker = Broker(step=10.0)
    settings: dict[str, Any] = {"purge_on_no_consumers": purges, "auto_delete": deletes}
    killed(broker, 0, polls=4, **settings)
    killed(broker, 300, polls=3, **settings)
    found = broker.one("purged").verdicts
    assert (found["operator"].state, found["no_consumers"].state) == (
        operator,
        by_itself,
    )
