"""What was killed: dead letters and purges, after each poll, story by story."""

from typing import Any

import pytest

from account.story import Step, expected, goes
from account.world import Broker, queue
from penstock.model import LeftOut


def killed(x: float, dead: float, other: float = 0.0, **said: Any) -> dict[str, Any]:
    """A queue and another one of which so many of a thousand were killed, and so many dead letters of both."""
    letters = {"dead_letter_address": "dlq", "has_dead_letter_address": 1.0}
    rows = {
        "q": queue(1000, 1000 - x, X=x, **letters),
        "r": queue(1000, 1000 - other, X=other, **letters),
    }
    return {name: row | said for name, row in rows.items()} | {
        "dlq": queue(dead, dead, has_dead_letter_address=0.0)
    }


def alone(x: float, **said: Any) -> dict[str, Any]:
    """The same of a queue without a dead-letter address."""
    return {"q": queue(1000, 1000 - x, X=x, has_dead_letter_address=0.0, **said)}


def without_place() -> dict[str, Any]:
    """None were killed yet, and the address of the dead letters has no queue."""
    return {name: row for name, row in killed(0.0, 0.0).items() if name != "dlq"}


PART = [LeftOut("queues", 1, 2)]
READER = {"c": {"queue": "q", "T": 0.0, "N": 0.0, "C": 0.0}}
SENDS = {"p": ("dlq", 0.0)}


STORIES: dict[str, list[Step]] = {
    "all are dead letters": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(9.0, 9.0), senders={}, polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 9"),
    ],
    "all are purged": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 0.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
        (lambda b: b.see(killed(7.0, 0.0), senders={}),
         "came at_start 1000; there ready 993; left purged 7"),
        (lambda b: b.see(killed(9.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 991; left purged 9"),
    ],
    "some of both": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 3..7, purged 0..4"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 3, purged 4"),
        (lambda b: b.see(killed(9.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 5, purged 4"),
    ],
    "dead letters that come one poll late": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 3..7, purged 0..4"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
    ],
    "two queues": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 12.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(7.0, 12.0, 9.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(8.0, 13.0, 9.0), senders={}, polls=2),
         "came at_start 1000; there ready 992; left dead_lettered 8"),
        (lambda b: b.see(killed(12.0, 16.0, 12.0), senders={}, polls=2),
         "came at_start 1000; there ready 988; left dead_lettered 8..11, purged 1..4"),
    ],
    "two queues in one interval": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 10.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 5..7, purged 0..2"),
    ],
    "others send there": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(0.0, 4.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(killed(7.0, 8.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 0..4, purged 3..7"),
        (lambda b: b.see(killed(9.0, 10.0), senders={}, polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 2..6, purged 3..7"),
        (lambda b: b.see(killed(12.0, 10.0), senders={}, polls=2),
         "came at_start 1000; there ready 988; left dead_lettered 2..6, purged 6..10"),
    ],
    "a producer sends there": [
        (lambda b: b.see(killed(0.0, 0.0), senders=SENDS, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 9.0), senders={"p": ("dlq", 2.0)}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(9.0, 12.0), senders={"p": ("dlq", 3.0)}, polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 9"),
    ],
    "killed before it was watched": [
        (lambda b: b.see(killed(7.0, 3.0), senders={}, polls=2),
         "came at_start 993; there ready 993; rest unexplained ?"),
        (lambda b: b.see(killed(9.0, 5.0), senders={}, polls=2),
         "came at_start 993; there ready 991; left dead_lettered 2"),
    ],
    "no dead-letter address, and nobody reads": [
        (lambda b: b.see(alone(0.0, max_delivery_attempts=10.0), polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0)),
         "came at_start 1000; there ready 993; left purged 7"),
        (lambda b: b.see(alone(7.0)),
         "came at_start 1000; there ready 993; left purged 7"),
        (lambda b: b.see(alone(9.0), polls=2),
         "came at_start 1000; there ready 991; left purged 9"),
    ],
    "no dead-letter address, and a consumer": [
        (lambda b: b.see(alone(0.0, consumers=1.0), consumers=READER, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0, consumers=1.0), consumers=READER, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
    ],
    "no dead-letter address, and a consumer that went": [
        (lambda b: b.see(alone(0.0, consumers=1.0), consumers=READER, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0), polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
        (lambda b: b.see(alone(9.0), polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 0..7, purged 2..9"),
    ],
    "no dead-letter address, and some in delivery": [
        (lambda b: b.see(alone(0.0, D=3.0), polls=3),
         "came at_start 1000; there ready 997, delivering 3; in hand unheld 0..3"),
        (lambda b: b.see(alone(7.0, D=3.0), polls=2),
         ("came at_start 1000; there ready 990, delivering 3; left dead_lettered 0..7, purged 0..7; in hand "
          "unheld 3")),
    ],
    "attempts without end": [
        (lambda b: b.see(alone(0.0, consumers=1.0), {"q": {"max_delivery_attempts": -1.0}}, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0, consumers=1.0), {"q": {"max_delivery_attempts": -1.0}}, polls=2),
         "came at_start 1000; there ready 993; left purged 7"),
    ],
    "a restart": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 3, purged 4"),
        (lambda b: b.restart(),
         "came at_start 1000; there ready 993; left dead_lettered 3, purged 4"),
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         ("came at_start 1000, added 7; there ready 1000; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered 3..?, purged 4..?, lost_at_restart ?; rest unexplained ?")),
        (lambda b: b.see(killed(4.0, 4.0), senders={}, polls=2),
         ("came at_start 1000, added 7; there ready 996; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered 7..?, purged 4..?, lost_at_restart ?")),
    ],
    "dead letters that come two polls late": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 0.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 3..7, purged 0..4"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
    ],
    "others send there, and one is killed or more": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(0.0, 4.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(killed(3.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 997; left dead_lettered 0..1, purged 2..3"),
        (lambda b: b.see(killed(5.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 995; left dead_lettered 0..1, purged 4..5"),
        (lambda b: b.see(killed(7.0, 11.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 0..3, purged 4..7"),
    ],
    "a queue that is made with some killed": [
        (lambda b: b.see({"r": queue(1, 1)}, senders={}, polls=2),
         "no account"),
        (lambda b: b.see(killed(7.0, 0.0) | {"r": queue(1, 1)}, senders={}),
         "came added 1000; there ready 993; left dead_lettered 0..7, purged 0..7; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 0.0) | {"r": queue(1, 1)}, senders={}),
         "came added 1000; there ready 993; left purged 7; rest unexplained ?"),
        (lambda b: b.see(killed(9.0, 1.0) | {"r": queue(1, 1)}, senders={}, polls=2),
         "came added 1000; there ready 991; left dead_lettered 1, purged 8"),
    ],
    "a place for dead letters that is made with the first": [
        (lambda b: b.see(without_place(), senders={}, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(7.0, 7.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 7"),
        (lambda b: b.see(killed(9.0, 8.0), senders={}, polls=2),
         "came at_start 1000; there ready 991; left dead_lettered 8, purged 1"),
    ],
    "one attempt, and a consumer": [
        (lambda b: b.see(alone(0.0, consumers=1.0), {"q": {"max_delivery_attempts": 1.0}}, READER, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0, consumers=1.0), {"q": {"max_delivery_attempts": 1.0}}, READER, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
    ],
    "no attempt, and a consumer": [
        (lambda b: b.see(alone(0.0, consumers=1.0), {"q": {"max_delivery_attempts": 0.0}}, READER, polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0, consumers=1.0), {"q": {"max_delivery_attempts": 0.0}}, READER, polls=2),
         "came at_start 1000; there ready 993; left purged 7"),
    ],
    "a consumer that comes": [
        (lambda b: b.see(alone(0.0), polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(7.0, consumers=1.0), consumers=READER),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
        (lambda b: b.see(alone(7.0, consumers=1.0), consumers=READER),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
    ],
    "a part of the broker": [
        (lambda b: b.see(killed(0.0, 0.0), senders={}, polls=2),
         "came at_start 1000; there ready 1000; rest unexplained ?"),
        (lambda b: b.see(killed(7.0, 3.0), senders={}, polls=2),
         "came at_start 1000; there ready 993; left dead_lettered 3, purged 4"),
        (lambda b: b.see(killed(9.0, 4.0), senders={}, left_out=PART),
         "no account"),
        (lambda b: b.see(killed(11.0, 5.0), senders={}, polls=2),
         "came at_start 1000; there ready 989; left dead_lettered 3..7, purged 4..8"),
        (lambda b: b.see(killed(13.0, 6.0), senders={}, polls=2),
         "came at_start 1000; there ready 987; left dead_lettered 4..8, purged 5..9"),
    ],
    "a part of a broker without a dead-letter address": [
        (lambda b: b.see(alone(0.0), polls=3),
         "came at_start 1000; there ready 1000"),
        (lambda b: b.see(alone(0.0), left_out=PART),
         "no account"),
        (lambda b: b.see(alone(7.0)),
         "came at_start 1000; there ready 993; left dead_lettered 0..7, purged 0..7"),
        (lambda b: b.see(alone(9.0)),
         "came at_start 1000; there ready 991; left dead_lettered 0..7, purged 2..9"),
        (lambda b: b.see(alone(12.0), polls=2),
         "came at_start 1000; there ready 988; left dead_lettered 0..7, purged 5..12"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_account_of_a_story(story: list[Step]) -> None:
    assert goes(story, Broker()) == expected(story)
