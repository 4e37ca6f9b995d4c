"""What the operator said of a queue or a client wins over what was learned."""

from dataclasses import replace

import pytest

from conditions.things import Numbers
from conditions.world import Judged
from penstock.settings.rules import Match, Rule, Rules, RuleSettings

HOLDER: Numbers = {"T": 10.0, "N": 10.0}
HELD: Numbers = {"A": 10.0, "M": 10.0, "D": 10.0}


def wanted(**said: float) -> Judged:
    judged = Judged()
    rules = Rules((Rule(Match(), RuleSettings(**said)),))  # type: ignore[arg-type]
    judged.policy = replace(judged.policy, rules=rules)
    return judged


def test_a_configured_patience_wins() -> None:
    judged = wanted(patience=60.0)
    for _ in range(4):
        judged.poll({"q": HELD}, {"c": HOLDER})
    assert not judged.names
    judged.poll({"q": HELD}, {"c": HOLDER})
    assert judged.names == {"stalled"}
    assert judged.one("stalled").evidence["patience"] == 60
    assert judged.column("client", "patience") == 60


def test_fewer_consumers_than_expected_while_messages_wait_or_come() -> None:
    judged = wanted(expected_consumers=2)
    for _ in range(3):
        judged.poll(
            {"q": HELD, "full": {"A": 0.0}}, {"c": HOLDER, "d": {"queue": "full"}}
        )
    assert not judged.names
    for n in range(2):
        judged.poll({"q": {**HELD, "A": 11.0 + n}}, {"c": HOLDER})
    assert judged.names == {"too_few_consumers"}
    assert judged.one("too_few_consumers").evidence["expected"] == 2


@pytest.mark.slow  # many polls
def test_an_expected_consumer_that_was_never_seen_is_missed() -> None:
    judged = wanted(expected_consumers=1)
    for _ in range(30):
        judged.poll({"q": {"A": 50.0, "M": 50.0}})
    assert judged.names == {"no_consumer"}
