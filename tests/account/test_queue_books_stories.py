"""The books of one queue: what they say after each poll, story by story."""

import pytest

from account.story import Step, expected, goes
from account.world import Broker, queue
from conditions.things import Numbers

KEEPS = {"q": {"non_destructive": 1.0}}


def idle(**said: float) -> Numbers:
    """A consumer that has nothing in hand."""
    return {"c": {"queue": "q", "client": "idle", "T": 0.0, "N": 0.0, "C": 0.0, **said}}


def holds(number: float, **said: float) -> Numbers:
    """A consumer that holds so many."""
    return idle(T=number, N=number, **said)


STORIES: dict[str, list[Step]] = {
    "a queue that was there before": [
        (lambda b: b.see({"q": queue(500, 119, K=381.0)}),
         "came at_start 119; there ready 119; rest unexplained ?"),
        (lambda b: b.see({"q": queue(800, 73, K=720.0, E=5.0, X=2.0)}),
         ("came at_start 119, added 300; there ready 73; left acknowledged 339, expired 5, dead_lettered "
          "0..2, purged 0..2; rest unexplained ?")),
        (lambda b: b.see({"q": queue(800, 73, K=720.0, E=5.0, X=2.0)}),
         ("came at_start 119, added 300; there ready 73; left acknowledged 339, expired 5, dead_lettered "
          "0..2, purged 0..2")),
        (lambda b: b.see({"q": queue(800, 73, K=720.0, E=5.0, X=2.0)}),
         ("came at_start 119, added 300; there ready 73; left acknowledged 339, expired 5, dead_lettered "
          "0..2, purged 0..2")),
        (lambda b: b.see({"q": queue(900, 100, K=790.0, E=7.0, X=3.0, S=20.0, D=30.0)}, consumers=holds(30.0)),
         ("came at_start 119, added 400; there ready 50, scheduled 20, delivering 30; left acknowledged "
          "409, expired 7, dead_lettered 0..3, purged 0..3; in hand buffered 30")),
    ],
    "a queue that is made while it is watched": [
        (lambda b: b.see({"r": queue(1, 1), "q": queue(0, 0)}),
         "rest unexplained ?"),
        (lambda b: b.made_again("q"),
         "rest unexplained ?"),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(9, 4, K=5.0)}),
         "came added 9; there ready 4; left acknowledged 5; rest unexplained ?"),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(9, 4, K=5.0)}),
         "came added 9; there ready 4; left acknowledged 5; rest unexplained ?"),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(9, 4, K=5.0)}),
         "came added 9; there ready 4; left acknowledged 5"),
    ],
    "counters that are set back": [
        (lambda b: b.see({"q": queue(10, 3, K=7.0)}),
         "came at_start 3; there ready 3; rest unexplained ?"),
        (lambda b: b.see({"q": queue(20, 3, K=17.0)}),
         "came at_start 3, added 10; there ready 3; left acknowledged 10; rest unexplained ?"),
        (lambda b: b.see({"q": queue(0, 3, K=0.0)}),
         ("came at_start 3, added 10; there ready 3; left acknowledged 10..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
        (lambda b: b.see({"q": queue(5, 6, K=2.0)}),
         ("came at_start 3, added 15; there ready 6; left acknowledged 12..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
        (lambda b: b.see({"q": queue(5, 6, K=2.0)}, polls=2),
         ("came at_start 3, added 15; there ready 6; left acknowledged 12..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
        (lambda b: b.see({"q": queue(5, 6, K=1.0)}),
         ("came at_start 3, added 15; there ready 6; left acknowledged 12..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
        (lambda b: b.see({"q": queue(6, 6, K=2.0)}, polls=2),
         ("came at_start 3, added 16; there ready 6; left acknowledged 13..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
    ],
    "a ring that has evicted before": [
        (lambda b: b.see({"q": queue(100, 30, K=20.0, ring=30.0)}, consumers=idle()),
         "came at_start 30; there ready 30; rest unexplained ?"),
        (lambda b: b.see({"q": queue(100, 30, K=20.0, ring=30.0)}, consumers=idle()),
         "came at_start 30; there ready 30; rest unexplained ?"),
        (lambda b: b.see({"q": queue(150, 30, K=25.0, ring=30.0)}, consumers=idle()),
         "came at_start 30, added 50; there ready 30; left acknowledged 5, evicted 0..45"),
        (lambda b: b.see({"q": queue(150, 30, K=25.0, ring=30.0)}, consumers=idle()),
         "came at_start 30, added 50; there ready 30; left acknowledged 5, evicted 45; lost by arrivals 45"),
        (lambda b: b.see({"q": queue(151, 31, K=25.0, ring=30.0)}, consumers=idle()),
         "came at_start 30, added 51; there ready 31; left acknowledged 5, evicted 45; lost by arrivals 45"),
        (lambda b: b.see({"q": queue(151, 30, K=26.0, ring=30.0)}, consumers=idle(), polls=3),
         "came at_start 30, added 51; there ready 30; left acknowledged 6, evicted 45; lost by arrivals 45"),
    ],
    "a ring that is made while it is watched": [
        (lambda b: b.see({"r": queue(1, 1), "q": queue(0, 0)}),
         "rest unexplained ?"),
        (lambda b: b.made_again("q"),
         "rest unexplained ?"),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(8, 3, K=1.0, ring=3.0)}),
         "came added 8; there ready 3; left acknowledged 1, evicted 0..4; rest unexplained ?"),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(8, 3, K=1.0, ring=3.0)}),
         ("came added 8; there ready 3; left acknowledged 1, evicted 4; lost by arrivals 0..4, (not known) "
          "0..4; rest unexplained ?")),
        (lambda b: b.see({"r": queue(1, 1), "q": queue(9, 3, K=1.0, ring=3.0)}, polls=2),
         ("came added 9; there ready 3; left acknowledged 1, evicted 5; lost by arrivals 1..5, (not known) "
          "0..4")),
    ],
    "messages that expire before they are added": [
        (lambda b: b.see({"q": queue(0, 0)}),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(0, 0, E=5.0)}),
         "there ready ?; left expired 5; rest unexplained ?"),
        (lambda b: b.see({"q": queue(0, 0, E=5.0)}, polls=2),
         "came expired_on_arrival 5; left expired 5"),
        (lambda b: b.see({"q": queue(10, 4, K=6.0, E=8.0)}),
         "came added 10, expired_on_arrival 5..6; there ready 4; left acknowledged 6, expired 8"),
        (lambda b: b.see({"q": queue(10, 4, K=6.0, E=8.0)}, polls=3),
         "came added 10, expired_on_arrival 8; there ready 4; left acknowledged 6, expired 8"),
        (lambda b: b.see({"q": queue(10, 2, K=6.0, E=9.0)}, polls=3),
         ("came added 10, expired_on_arrival 8; there ready 2; left acknowledged 6, expired 9; rest "
          "unexplained 1")),
    ],
    "a ring whose messages expire before they are added": [
        (lambda b: b.see({"q": queue(0, 0, ring=3.0)}, consumers=idle(), polls=2),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(0, 0, E=5.0, ring=3.0)}, consumers=idle()),
         "there ready ?; left expired 5"),
        (lambda b: b.see({"q": queue(0, 0, E=5.0, ring=3.0)}, consumers=idle()),
         "came expired_on_arrival 5; left expired 5"),
        (lambda b: b.see({"q": queue(9, 3, E=7.0, ring=3.0)}, consumers=idle()),
         "came added 9, expired_on_arrival 5; there ready 3; left expired 7, evicted 0..4"),
        (lambda b: b.see({"q": queue(9, 3, E=7.0, ring=3.0)}, consumers=idle(), polls=2),
         "came added 9, expired_on_arrival 5; there ready 3; left expired 7, evicted 4; lost by arrivals 4"),
    ],
    "a last value": [
        (lambda b: b.see({"q": queue(0, 0, last_value=1.0)}),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(100, 9, K=10.0, D=3.0, last_value=1.0)}, consumers=holds(3.0)),
         ("came added 100; there ready 9, delivering 3; left acknowledged 10, replaced 0..78; in hand "
          "buffered 3; rest unexplained ?")),
        (lambda b: b.see({"q": queue(100, 9, K=10.0, D=3.0, last_value=1.0)}, consumers=holds(3.0)),
         ("came added 100; there ready 9, delivering 3; left acknowledged 10, replaced 78; in hand buffered "
          "3")),
        (lambda b: b.see({"q": queue(200, 9, K=14.0, X=1.0, last_value=1.0)}, consumers=idle()),
         ("came added 200; there ready 9; left acknowledged 14, dead_lettered 0..1, purged 0..1, replaced "
          "78..176")),
        (lambda b: b.see({"q": queue(200, 9, K=14.0, X=1.0, last_value=1.0)}, consumers=idle(), polls=2),
         ("came added 200; there ready 9; left acknowledged 14, dead_lettered 0..1, purged 0..1, replaced "
          "176")),
    ],
    "a ring of last values": [
        (lambda b: b.see({"q": queue(0, 0, last_value=1.0, ring=5.0)}),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(100, 5, K=10.0, last_value=1.0, ring=5.0)}, consumers=idle()),
         ("came added 100; there ready 5; left acknowledged 10, evicted 0..85, replaced 0..85; rest "
          "unexplained ?")),
        (lambda b: b.see({"q": queue(100, 5, K=10.0, last_value=1.0, ring=5.0)}, consumers=idle(), polls=3),
         ("came added 100; there ready 5; left acknowledged 10, evicted 0..85, replaced 0..85; lost by "
          "arrivals ?")),
    ],
    "a queue that keeps what is acknowledged": [
        (lambda b: b.see({"q": queue(0, 0)}, KEEPS),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(10, 10, K=3.0, D=4.0)}, KEEPS, holds(4.0)),
         ("came added 10; there ready 6, delivering 4; left acknowledged 3; in hand buffered 4; rest "
          "unexplained ?")),
        (lambda b: b.see({"q": queue(10, 10, K=6.0, D=4.0)}, KEEPS, holds(4.0), polls=3),
         ("came added 10; there ready ?, delivering 4; left acknowledged 6; in hand buffered 4; rest "
          "unexplained -6")),
        (lambda b: b.see({"q": queue(12, 8, K=6.0, D=2.0, ring=8.0)}, KEEPS, holds(2.0), polls=3),
         ("came added 12; there ready 6, delivering 2; left acknowledged 6; in hand buffered 2; rest "
          "unexplained -2")),
    ],
    "a broker that loads all again": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}, polls=2),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.see({"q": queue(8, 8)}),
         ("came at_start 8; there ready 8; left acknowledged ?, moved ?, expired ?, dead_lettered ?, purged "
          "?, lost_at_restart ?; rest unexplained ?")),
        (lambda b: b.see({"q": queue(9, 8, K=1.0)}),
         ("came at_start 8, added 1; there ready 8; left acknowledged 1..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?; rest unexplained ?")),
        (lambda b: b.see({"q": queue(9, 8, K=1.0)}, polls=3),
         ("came at_start 8, added 1; there ready 8; left acknowledged 1..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
    ],
    "a broker that loses what is not persistent": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}, polls=2),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.see({"q": queue(5, 5)}),
         ("came at_start 8; there ready 5; left acknowledged ?, moved ?, expired ?, dead_lettered ?, purged "
          "?, lost_at_restart 3..?; rest unexplained ?")),
        (lambda b: b.see({"q": queue(7, 5, K=2.0)}, polls=3),
         ("came at_start 8, added 2; there ready 5; left acknowledged 2..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart 3..?")),
        (lambda b: b.restart(),
         ("came at_start 8, added 2; there ready 5; left acknowledged 2..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart 3..?")),
        (lambda b: b.see({"q": queue(5, 4, K=1.0)}, polls=3),
         ("came at_start 8, added 2; there ready 4; left acknowledged 3..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart 3..?")),
    ],
    "a broker that goes down under its consumers": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=3.0)}, consumers=holds(3.0), polls=2),
         "came at_start 8; there ready 5, delivering 3; in hand buffered 3; rest unexplained ?"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 5, delivering 3; in hand buffered 3; rest unexplained ?"),
        (lambda b: b.see({"q": queue(6, 6)}, consumers=idle()),
         ("came at_start 8, restarts -2; there ready 6; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?; rest unexplained ?")),
        (lambda b: b.see({"q": queue(6, 6)}, consumers=idle(), polls=3),
         ("came at_start 8, restarts -2; there ready 6; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
    ],
    "a broker that loads messages in doubt": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=3.0)}, polls=5),
         "came at_start 8; there ready 5, delivering 3; in hand unheld 3"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 5, delivering 3; in hand unheld 3"),
        (lambda b: b.see({"q": queue(8, 8, K=3.0, D=3.0)}),
         ("came at_start 8; there ready 5, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?; in hand in_doubt ?, unheld 0..3; rest unexplained "
          "?")),
        (lambda b: b.see({"q": queue(8, 8, K=3.0, D=3.0)}, polls=4),
         ("came at_start 8; there ready 5, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?; in hand unheld 3")),
        (lambda b: b.see({"q": queue(8, 5, K=6.0)}, polls=3),
         ("came at_start 8; there ready 5; left acknowledged 3..?, moved ?, expired ?, dead_lettered ?, "
          "purged ?, lost_at_restart ?")),
    ],
    "a ring that a broker loads with messages in doubt": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=3.0, ring=20.0)}, polls=5),
         "came at_start 8; there ready 5, delivering 3; in hand unheld 3"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 5, delivering 3; in hand unheld 3"),
        (lambda b: b.see({"q": queue(8, 8, K=3.0, D=3.0, ring=20.0)}),
         ("came at_start 8; there ready 5, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, evicted ?, lost_at_restart ?; in hand in_doubt ?, unheld 0..3; rest "
          "unexplained ?")),
        (lambda b: b.see({"q": queue(8, 8, K=3.0, D=3.0, ring=20.0)}, polls=4),
         ("came at_start 8; there ready 5, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, evicted ?, lost_at_restart ?; in hand unheld 3")),
        (lambda b: b.restart(),
         ("came at_start 8; there ready 5, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, evicted ?, lost_at_restart ?; in hand unheld 3")),
        (lambda b: b.see({"q": queue(8, 8, K=3.0, D=2.0, ring=20.0)}, polls=3),
         ("came at_start 8; there ready 6, delivering 2; left acknowledged 3..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, evicted ?, lost_at_restart ?; in hand unheld 0..2; rest unexplained "
          "-3")),
    ],
    "a ring over a restart": [
        (lambda b: b.see({"q": queue(0, 0, ring=5.0)}, polls=2),
         "rest unexplained ?"),
        (lambda b: b.see({"q": queue(9, 5, ring=5.0)}, polls=2),
         "came added 9; there ready 5; left evicted 4; lost by arrivals 4"),
        (lambda b: b.restart(),
         "came added 9; there ready 5; left evicted 4; lost by arrivals 4"),
        (lambda b: b.see({"q": queue(5, 5, ring=5.0)}),
         ("came added 9; there ready 5; left acknowledged ?, moved ?, expired ?, dead_lettered ?, purged ?, "
          "evicted 4..?, lost_at_restart ?; lost by arrivals 4; rest unexplained ?")),
        (lambda b: b.see({"q": queue(8, 5, ring=5.0)}, polls=3),
         ("came added 12; there ready 5; left acknowledged ?, moved ?, expired ?, dead_lettered ?, purged "
          "?, evicted 7..?, lost_at_restart ?; lost by arrivals 7")),
    ],
    "a broker that has begun anew": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}, polls=2),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.restart(),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.see({"q": queue(12, 3, K=9.0)}),
         ("came at_start 8, added 4; there ready 3; left acknowledged 9..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?; rest unexplained ?")),
        (lambda b: b.see({"q": queue(12, 3, K=9.0)}, polls=3),
         ("came at_start 8, added 4; there ready 3; left acknowledged 9..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
        (lambda b: b.restart_agent(),
         "no account"),
        (lambda b: b.see({"q": queue(14, 3, K=11.0)}, polls=3),
         ("came at_start 8, added 6; there ready 3; left acknowledged 11..?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, lost_at_restart ?")),
    ],
    "an agent that was away": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0, ring=9.0)}, polls=3),
         "came at_start 8; there ready 8"),
        (lambda b: b.restart_agent(),
         "no account"),
        (lambda b: b.see({"q": queue(30, 9, K=9.0, ring=9.0)}),
         "came at_start 8, added 20; there ready 9; left acknowledged 7, evicted 0..12; rest unexplained ?"),
        (lambda b: b.see({"q": queue(30, 9, K=9.0, ring=9.0)}, polls=3),
         ("came at_start 8, added 20; there ready 9; left acknowledged 7, evicted 12; lost by arrivals "
          "0..12, (not known) 0..12")),
    ],
    "more is there than came": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}, polls=2),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.see({"q": queue(10, 12, K=2.0)}),
         "came at_start 8; there ready ?"),
        (lambda b: b.see({"q": queue(10, 12, K=2.0)}),
         "came at_start 8; there ready ?"),
        (lambda b: b.see({"q": queue(10, 12, K=2.0)}),
         "came at_start 8; there ready ?; rest unexplained -4"),
        (lambda b: b.see({"q": queue(10, 10, K=2.0)}),
         "came at_start 8; there ready 10; rest unexplained -2"),
        (lambda b: b.see({"q": queue(10, 11, K=2.0)}, polls=3),
         "came at_start 8; there ready 11; rest unexplained -3"),
    ],
    "less is there than came": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}, polls=2),
         "came at_start 8; there ready 8; rest unexplained ?"),
        (lambda b: b.see({"q": queue(10, 5, K=2.0)}),
         "came at_start 8; there ready 5"),
        (lambda b: b.see({"q": queue(10, 5, K=2.0)}, polls=2),
         "came at_start 8; there ready 5; rest unexplained 3"),
        (lambda b: b.see({"q": queue(10, 6, K=2.0)}, polls=3),
         "came at_start 8; there ready 6; rest unexplained 2"),
        (lambda b: b.see({"q": queue(10, 8, K=2.0)}),
         "came at_start 8; there ready 8"),
    ],
    "in delivery to no consumer": [
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=5.0)}, consumers=holds(2.0, W=1.0)),
         ("came at_start 8; there ready 3, delivering 5; in hand buffered 2, uncommitted 1, in_doubt ?, "
          "unheld 0..2; rest unexplained ?")),
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=5.0)}, consumers=holds(2.0, W=1.0), polls=3),
         "came at_start 8; there ready 3, delivering 5; in hand buffered 2, uncommitted 1, unheld 2"),
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=4.0)}, consumers=holds(2.0, W=1.0)),
         "came at_start 8; there ready 4, delivering 4; in hand buffered 2, uncommitted 1, unheld 1"),
        (lambda b: b.see({"q": queue(10, 8, K=2.0, D=1.0)}, consumers=holds(2.0)),
         "came at_start 8; there ready 7, delivering 1; in hand buffered 2"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_account_of_a_story(story: list[Step]) -> None:
    assert goes(story, Broker()) == expected(story)
