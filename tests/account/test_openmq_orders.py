"""Destinations of OpenMQ are read one after the other, in any order: what is booked at least is never too much."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from account.openmq_world import DMQ, SETTINGS, openmq_broker
from account.test_openmq_not_acknowledged import bounds
from penstock.model import QueueKind

Times = NDArray[np.float64]
POLLS = 40
APART = 0.3
"""Polls, a second apart or three; seconds over which the rows of one are read."""
NEVER = np.empty(0)


def lives(random: np.random.Generator) -> dict[str, dict[str, Times]]:
    """By queue when messages came, left, were acknowledged, and became dead letters, at rates and times of its own.

    let_go: when a consumer let go of them, by its own numbers.
    """
    found: dict[str, dict[str, Times]] = {}
    for name in ("fast", "steady", "late", "expiring", "buffered", "full store"):
        begin, end = np.sort(random.uniform(5, POLLS, 2))
        came = np.sort(
            random.uniform(
                begin,
                end,
                random.poisson(random.choice([0.5, 2, 20, 100]) * (end - begin)),
            )
        )
        left = came + random.exponential(
            0.002 if name in ("fast", "steady") else 1.0, len(came)
        )
        lost = random.random(len(came)) < 0.4
        lost &= name in ("expiring", "buffered", "full store")
        handled = left[~lost]
        let_go = left if name == "buffered" else handled
        dead = NEVER if name == "full store" else left[lost]
        found[name] = {
            "came": came,
            "left": left,
            "acknowledged": handled,
            "let_go": let_go,
            "dead": dead,
        }
    came = found["late"]["came"]  # all expire as they come
    found["late"] = {
        "came": came,
        "left": NEVER,
        "acknowledged": NEVER,
        "let_go": NEVER,
        "dead": came,
    }
    return found


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("seed", range(8))
def test_what_is_surely_a_dead_letter_or_acknowledged_was_so(seed: int) -> None:
    random = np.random.default_rng(seed)
    broker = openmq_broker()
    now = 0.0
    queues = lives(random)
    dead = np.sort(np.concatenate([of["dead"] for of in queues.values()]))
    addresses: dict[str, dict[str, Any]] = {
        name: dict(SETTINGS) for name in (*queues, DMQ)
    }
    for _ in range(POLLS):
        now += random.choice([1.0, 1.0, 1.0, 3.0])
        at = {name: now + random.uniform(0, APART) for name in addresses}
        count = {
            name: {what: float((of[what] <= at[name]).sum()) for what in of}
            for name, of in queues.items()
        }
        rows: dict[str, dict[str, Any]] = {
            name: {
                "A": of["came"],
                "K": of["left"],
                "M": of["came"] - of["left"],
                "D": 0.0,
                "uncommitted": 0.0,
            }
            for name, of in count.items()
        }
        rows["late"]["M"] = 0.0
        entered = float((dead <= at[DMQ]).sum())
        rows[DMQ] = {
            "A": entered,
            "K": 0.0,
            "M": entered,
            "D": 0.0,
            "uncommitted": 0.0,
            "kind": QueueKind.DEAD_LETTER,
        }
        later = {
            name: {what: float((of[what] <= now + APART).sum()) for what in of}
            for name, of in queues.items()
        }
        consumers = {
            name: {"queue": name, "N": later[name]["let_go"], "T": 0.0, "L": broker.now}
            for name in queues
            if name != "late"
        }
        broker.poll(rows, consumers, addresses)
        for name, of in count.items():
            assert (
                bounds(broker.left(name).get("acknowledged", 0))[0]
                <= later[name]["acknowledged"]
            ), name
            for fate in ("dead_lettered", "expired"):
                least, _ = bounds(broker.left(name).get(fate, 0))
                assert least <= (
                    of["dead"] if (fate == "expired") == (name == "late") else 0
                ), (name, fate)
