"""What an operator moved, and what looks like it: after each poll, story by story."""

import pytest

from account.story import Step, expected, goes
from account.world import Broker, queue
from conditions.things import Numbers

LONG = 11


def left(k: float, came: float, **said: float) -> dict[str, Numbers]:
    """A queue of a hundred that so many left, and one that so many came to."""
    return {"q": queue(100, 100 - k, K=k, **said), "to": queue(came, came)}


def sent(number: float) -> dict[str, tuple[str, float]]:
    """By the only producer, to the second one."""
    return {"p": ("to", number)}


def takes(c: float, held: float = 0.0, **said: float) -> Numbers:
    """A consumer of the first one that has settled so many."""
    return {
        "c": {
            "queue": "q",
            "client": "a",
            "T": held,
            "N": c + held,
            "C": c,
            "W": 0.0,
            **said,
        }
    }


STORIES: dict[str, list[Step]] = {
    "a move": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders=sent(0)),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
        (lambda b: b.see(left(10, 10), senders=sent(0)),
         "came at_start 100; there ready 90; left moved 10"),
        (lambda b: b.see(left(10, 10), senders=sent(0)),
         "came at_start 100; there ready 90; left moved 10"),
        (lambda b: b.see(left(30, 30), senders=sent(0), polls=3),
         "came at_start 100; there ready 70; left moved 30"),
    ],
    "a move too early": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=8),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left moved 10"),
    ],
    "nothing came elsewhere": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 0), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left acknowledged 10"),
        (lambda b: b.see(left(10, 25), senders=sent(25), polls=3),
         "came at_start 100; there ready 90; left acknowledged 10"),
        (lambda b: b.see(left(20, 35), senders=sent(35), polls=3),
         "came at_start 100; there ready 80; left acknowledged 20"),
    ],
    "fewer came than left": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 6), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left acknowledged 4..10, moved 0..6"),
        (lambda b: b.see(left(10, 60), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left acknowledged 4..10, moved 0..6"),
    ],
    "more came than left": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 16), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
    ],
    "a producer sent some": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 14), senders=sent(4), polls=3),
         "came at_start 100; there ready 90; left moved 10"),
    ],
    "a producer came two polls before": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(0, 0), senders=sent(0) | {"o": ("to", 0.0)}, polls=3),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders=sent(0) | {"o": ("to", 0.0)}, polls=3),
         "came at_start 100; there ready 90; left moved 10"),
    ],
    "one that names an address with each message": [
        (lambda b: b.see(left(0, 0), senders={"p": ("(anonymous)", 0.0)}, polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders={"p": ("(anonymous)", 10.0)}, polls=3),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
    ],
    "a consumer settles while others come": [
        (lambda b: b.see(left(0, 0, consumers=1.0), consumers=takes(0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(5, 5, consumers=1.0), consumers=takes(5), senders=sent(0)),
         "came at_start 100; there ready 95; left acknowledged 5"),
        (lambda b: b.see(left(9, 9, consumers=1.0), consumers=takes(9), senders=sent(0), polls=4),
         "came at_start 100; there ready 91; left acknowledged 9"),
    ],
    "a consumer settles some of it": [
        (lambda b: b.see(left(0, 0, consumers=1.0), consumers=takes(0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(15, 10, consumers=1.0), consumers=takes(5), senders=sent(0)),
         "came at_start 100; there ready 85; left acknowledged 5..15, moved 0..10"),
        (lambda b: b.see(left(15, 10, consumers=1.0), consumers=takes(5), senders=sent(0), polls=6),
         "came at_start 100; there ready 85; left acknowledged 5, moved 10"),
    ],
    "its row is behind": [
        (lambda b: b.see(left(0, 0, consumers=1.0), consumers=takes(0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(5, 0, consumers=1.0), consumers=takes(2), senders=sent(0)),
         "came at_start 100; there ready 95; left acknowledged 3..5, moved 0..2"),
        (lambda b: b.see(left(5, 0, consumers=1.0), consumers=takes(5), senders=sent(0), polls=4),
         "came at_start 100; there ready 95; left acknowledged 5"),
    ],
    "its row is behind while others come": [
        (lambda b: b.see(left(0, 0, consumers=1.0), consumers=takes(0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(5, 3, consumers=1.0), consumers=takes(2), senders=sent(0)),
         "came at_start 100; there ready 95; left acknowledged 2..5, moved 0..3"),
        (lambda b: b.see(left(5, 3, consumers=1.0), consumers=takes(5), senders=sent(0)),
         "came at_start 100; there ready 95; left acknowledged 5"),
        (lambda b: b.see(left(5, 3, consumers=1.0), consumers=takes(5), senders=sent(0), polls=5),
         "came at_start 100; there ready 95; left acknowledged 5"),
    ],
    "a consumer that is not listed": [
        (lambda b: b.see(left(0, 0, consumers=1.0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10, consumers=1.0), senders=sent(0), polls=4),
         "came at_start 100; there ready 90; left acknowledged 10"),
    ],
    "a consumer went": [
        (lambda b: b.see(left(0, 0, consumers=1.0), consumers=takes(0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=3),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders=sent(0), polls=4),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
        (lambda b: b.see(left(10, 10), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
        (lambda b: b.see(left(30, 30), senders=sent(0), polls=3),
         "came at_start 100; there ready 70; left acknowledged 0..10, moved 20..30"),
    ],
    "producers that were not read": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10)),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
        (lambda b: b.see(left(10, 10), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left acknowledged 0..10, moved 0..10"),
    ],
    "a restart of the broker": [
        (lambda b: b.see(left(0, 0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(10, 10), senders=sent(0), polls=3),
         "came at_start 100; there ready 90; left moved 10"),
        (lambda b: b.restart(),
         "came at_start 100; there ready 90; left moved 10"),
        (lambda b: b.see({"q": queue(90, 90), "to": queue(10, 10)}, senders=sent(0), polls=LONG),
         ("came at_start 100; there ready 90; left acknowledged ?, moved 10..?, expired ?, dead_lettered ?, "
          "purged ?, lost_at_restart ?")),
        (lambda b: b.see({"q": queue(90, 80, K=10.0), "to": queue(20, 20)}, senders=sent(0), polls=3),
         ("came at_start 100; there ready 80; left acknowledged ?, moved 20..?, expired ?, dead_lettered ?, "
          "purged ?, lost_at_restart ?")),
    ],
    "consumers roll back": [
        (lambda b: b.see(left(0, 0, D=10.0, Att=0.0), consumers=takes(0, 10.0), senders=sent(0), polls=LONG),
         "came at_start 100; there ready 90, delivering 10; in hand buffered 10"),
        (lambda b: b.see(left(0, 0, D=0.0, Att=4.0), consumers=takes(10), senders=sent(0)),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(0, 5, D=0.0, Att=4.0), consumers=takes(10), senders=sent(0), polls=3),
         "came at_start 100; there ready 100"),
        (lambda b: b.see(left(6, 11, D=0.0, Att=10.0), consumers=takes(16), senders=sent(0), polls=6),
         "came at_start 100; there ready 94; left acknowledged 0..6, moved 0..6"),
    ],
}  # fmt: skip


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_account_of_a_story(story: list[Step]) -> None:
    assert goes(story, Broker()) == expected(story)
