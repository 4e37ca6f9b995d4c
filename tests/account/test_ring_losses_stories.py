"""Who made a ring lose messages: what the account says after each poll, story by story."""

from typing import Any

import pytest

from account.story import Step, expected, goes
from account.world import Broker, queue
from penstock.model import LeftOut

OTHER = {"b": {"queue": "r", "client": "b", "T": 2.0, "N": 2.0, "C": 0.0}}
BOTH = {"r": queue(5, 5, D=2.0, ring=3.0)}
LEFT = {"r": queue(5, 3, ring=3.0)}
OVER = [LeftOut("consumers", 2, 3)]


def has(client: str, held: float = 0.0, **said: Any) -> dict[str, Any]:
    """A consumer of this client that holds so many of all that it was given."""
    return {"queue": "q", "client": client, "T": held, "N": held, "C": 0.0, **said}


def ring(a: float, m: float, d: float = 0.0, **said: float) -> dict[str, Any]:
    """A queue of at most three messages that wait."""
    return {"q": queue(a, m, D=d, ring=3.0, **said)}


def made(broker: Broker, sessions: float) -> Broker:
    """The broker says that so many sessions were made."""
    broker.about["sessions_made"] = sessions
    return broker


STORIES: dict[str, list[Step]] = {
    "one of two closes": [
        (lambda b: b.see(ring(0, 0), consumers={"a": has("a"), "b": has("b")}, polls=2),
         "rest unexplained ?"),
        (lambda b: b.see(ring(4, 4, 3.0), consumers={"a": has("a", 3.0), "b": has("b")}),
         "came added 4; there ready 1, delivering 3; in hand buffered 3"),
        (lambda b: b.see(ring(4, 3), consumers={"b": has("b")}),
         "came added 4; there ready 3; left evicted 0..1"),
        (lambda b: b.see(ring(4, 3), consumers={"b": has("b")}),
         "came added 4; there ready 3; left evicted 1; lost by a 1"),
        (lambda b: b.see(ring(6, 3), consumers={"b": has("b")}, polls=2),
         "came added 6; there ready 3; left evicted 3; lost by arrivals 2, a 1"),
    ],
    "two close together": [
        (lambda b: b.see(ring(7, 7, 4.0), consumers={"a": has("a", 2.0), "b": has("b", 2.0)}, polls=2),
         "came at_start 7; there ready 3, delivering 4; in hand buffered 4; rest unexplained ?"),
        (lambda b: b.see(ring(7, 3)),
         "came at_start 7; there ready 3; left evicted 0..4"),
        (lambda b: b.see(ring(7, 3)),
         "came at_start 7; there ready 3; left evicted 4; lost by a 0..4, b 0..4"),
        (lambda b: b.see(ring(9, 3), polls=2),
         "came at_start 7, added 2; there ready 3; left evicted 6; lost by arrivals 2, a 0..4, b 0..4"),
    ],
    "two of one client close": [
        (lambda b: b.see(ring(7, 7, 4.0), consumers={"a": has("a", 2.0), "b": has("a", 2.0)}, polls=2),
         "came at_start 7; there ready 3, delivering 4; in hand buffered 4; rest unexplained ?"),
        (lambda b: b.see(ring(7, 3), polls=2),
         "came at_start 7; there ready 3; left evicted 4; lost by a 4"),
    ],
    "one closes among arrivals": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(8, 3)),
         "came at_start 5, added 3; there ready 3; left evicted 0..5"),
        (lambda b: b.see(ring(8, 3)),
         "came at_start 5, added 3; there ready 3; left evicted 5; lost by arrivals 0..3, a 2..5"),
    ],
    "one closes where there is room": [
        (lambda b: b.see(ring(2, 2, 2.0), consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 2; there delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(2, 2), polls=2),
         "came at_start 2; there ready 2"),
        (lambda b: b.see(ring(3, 3, 1.0), consumers={"a": has("a", 1.0)}, polls=2),
         "came at_start 2, added 1; there ready 2, delivering 1; in hand buffered 1"),
        (lambda b: b.see(ring(5, 3), polls=2),
         "came at_start 2, added 3; there ready 3; left evicted 2; lost by arrivals 0..2, a 0..2"),
    ],
    "one goes and another one takes its messages": [
        (lambda b: b.see(ring(4, 4, 3.0), consumers={"a": has("a", 3.0)}, polls=2),
         "came at_start 4; there ready 1, delivering 3; in hand buffered 3; rest unexplained ?"),
        (lambda b: b.see(ring(4, 4, 3.0), consumers={"b": has("b", 3.0)}, polls=2),
         "came at_start 4; there ready 1, delivering 3; in hand buffered 3"),
        (lambda b: b.see(ring(4, 3), polls=2),
         "came at_start 4; there ready 3; left evicted 1; lost by b 1"),
    ],
    "one rolls back": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0, W=0.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 3), consumers={"a": has("a", 0.0, N=2.0, C=2.0, W=0.0)}),
         "came at_start 5; there ready 3; left evicted 0..2"),
        (lambda b: b.see(ring(5, 3), consumers={"a": has("a", 0.0, N=2.0, C=2.0, W=0.0)}),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
    ],
    "one settles": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0, W=0.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 3, K=2.0), consumers={"a": has("a", 0.0, N=2.0, C=2.0, W=0.0)}),
         "came at_start 5; there ready 3; left acknowledged 2"),
        (lambda b: b.see(ring(7, 3, K=2.0), consumers={"a": has("a", 0.0, N=2.0, C=2.0, W=0.0)}, polls=2),
         "came at_start 5, added 2; there ready 3; left acknowledged 2, evicted 2; lost by arrivals 2"),
    ],
    "one acknowledges and does not commit": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0, W=0.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 0.0, N=2.0, C=2.0, W=2.0)}),
         "came at_start 5; there ready 3, delivering 2; in hand uncommitted 2"),
        (lambda b: b.see(ring(5, 3)),
         "came at_start 5; there ready 3; left evicted 0..2"),
        (lambda b: b.see(ring(5, 3)),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
    ],
    "one came and went between two polls": [
        (lambda b: b.see(ring(3, 3), consumers={"a": has("a")}, polls=2),
         "came at_start 3; there ready 3; rest unexplained ?"),
        (lambda b: b.see(ring(3, 3), consumers={"a": has("a"), "b": has("b")}),
         "came at_start 3; there ready 3"),
        (lambda b: b.see(ring(9, 3), consumers={"a": has("a")}, polls=2),
         "came at_start 3, added 6; there ready 3; left evicted 6; lost by arrivals 0..6, b 0..6"),
    ],
    "only arrivals": [
        (lambda b: b.see(ring(0, 0), consumers={"a": has("a")}, polls=2),
         "rest unexplained ?"),
        (lambda b: b.see(ring(8, 3), consumers={"a": has("a")}),
         "came added 8; there ready 3; left evicted 0..5"),
        (lambda b: b.see(ring(8, 3), consumers={"a": has("a")}),
         "came added 8; there ready 3; left evicted 5; lost by arrivals 5"),
        (lambda b: b.see(ring(9, 3), consumers={"a": has("a")}, polls=2),
         "came added 9; there ready 3; left evicted 6; lost by arrivals 6"),
    ],
    "scheduled messages fall due": [
        (lambda b: b.see(ring(5, 5, S=2.0), consumers={"a": has("a")}, polls=2),
         "came at_start 5; there ready 3, scheduled 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 3), consumers={"a": has("a")}),
         "came at_start 5; there ready 3; left evicted 0..2"),
        (lambda b: b.see(ring(5, 3), consumers={"a": has("a")}),
         "came at_start 5; there ready 3; left evicted 2; lost by arrivals 2"),
    ],
    "some consumers are beyond the budget": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(9, 3), consumers={"a": has("a")}, left_out=OVER),
         "came at_start 5, added 4; there ready 3; left evicted 0..6"),
        (lambda b: b.see(ring(9, 3), consumers={"a": has("a")}, left_out=OVER),
         "came at_start 5, added 4; there ready 3; left evicted 6; lost by arrivals 0..4, (not known) 0..6"),
        (lambda b: b.see(ring(12, 3), consumers={"a": has("a")}, polls=3),
         "came at_start 5, added 7; there ready 3; left evicted 9; lost by arrivals 3..7, (not known) 0..6"),
    ],
    "sessions that no poll lists": [
        (lambda b: made(b, 5.0).see(ring(3, 3), consumers={"a": has("a")}, polls=2),
         "came at_start 3; there ready 3; rest unexplained ?"),
        (lambda b: made(b, 9.0).see(ring(9, 3), consumers={"a": has("a")}),
         "came at_start 3, added 6; there ready 3; left evicted 0..6"),
        (lambda b: b.see(ring(9, 3), consumers={"a": has("a")}),
         "came at_start 3, added 6; there ready 3; left evicted 6; lost by arrivals 0..6, (not known) 0..6"),
        (lambda b: made(b, 10.0).see(ring(12, 3), consumers={"a": has("a"), "b": has("b")}, polls=2),
         "came at_start 3, added 9; there ready 3; left evicted 9; lost by arrivals 0..9, (not known) 0..9"),
    ],
    "another queue": [
        (lambda b: b.see(ring(5, 5, 2.0) | BOTH, consumers={"a": has("a", 2.0)} | OTHER, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 5, 2.0) | LEFT, consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2"),
        (lambda b: b.see(ring(5, 3) | LEFT, polls=2),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
    ],
    "over a restart of the agent": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 3), polls=2),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
        (lambda b: b.restart_agent(),
         "no account"),
        (lambda b: b.see(ring(9, 3), polls=2),
         ("came at_start 5, added 4; there ready 3; left evicted 6; lost by arrivals 0..4, a 2, (not known) "
          "0..4; rest unexplained ?")),
        (lambda b: b.see(ring(10, 3), polls=2),
         ("came at_start 5, added 5; there ready 3; left evicted 7; lost by arrivals 1..5, a 2, (not known) "
          "0..4")),
    ],
    "over a restart of the broker": [
        (lambda b: b.see(ring(5, 5, 2.0), consumers={"a": has("a", 2.0)}, polls=2),
         "came at_start 5; there ready 3, delivering 2; in hand buffered 2; rest unexplained ?"),
        (lambda b: b.see(ring(5, 3), polls=2),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
        (lambda b: b.restart(),
         "came at_start 5; there ready 3; left evicted 2; lost by a 2"),
        (lambda b: b.see(ring(3, 3), consumers={"a": has("a")}),
         ("came at_start 5; there ready 3; left acknowledged ?, moved ?, expired ?, dead_lettered ?, purged "
          "?, evicted 2..?, lost_at_restart ?; lost by a 2; rest unexplained ?")),
        (lambda b: b.see(ring(6, 6, 3.0), consumers={"a": has("a", 3.0)}, polls=2),
         ("came at_start 5, added 3; there ready 3, delivering 3; left acknowledged ?, moved ?, expired ?, "
          "dead_lettered ?, purged ?, evicted 2..?, lost_at_restart ?; lost by a 2; in hand buffered 3")),
        (lambda b: b.see(ring(6, 3), polls=2),
         ("came at_start 5, added 3; there ready 3; left acknowledged ?, moved ?, expired ?, dead_lettered "
          "?, purged ?, evicted 5..?, lost_at_restart ?; lost by a 5")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_account_of_a_story(story: list[Step]) -> None:
    assert goes(story, Broker()) == expected(story)
