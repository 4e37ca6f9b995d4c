"""A made-up poll and what is known at it: for the rules of roots and what they read."""

from functools import cache
from typing import Any

import numpy as np

from conditions.inputs import inputs_after
from conditions.pairs import NOW
from conditions.world import Judged
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.incidents.incident import key_of
from penstock.incidents.symptoms import Sending, Symptoms
from penstock.model import ProducerRow
from penstock.observation.poll import RuleInputs

START = 5000.0


def producer(
    number: int, *, address: str = "a", client: str = "app", session: str = ""
) -> ProducerRow:
    return ProducerRow(f"p{number}", address, client, session)


@cache
def town() -> RuleInputs:
    """Two queues of one address, one of another one; consumers of two clients."""
    queues = {
        "p": {"M": 5.0, "A": 5.0, "address": "a"},
        "q": {"M": 6.0, "A": 6.0, "address": "a"},
        "r": {"M": 7.0, "A": 7.0},
    }
    consumers = {
        "c": {"queue": "p", "T": 1.0, "N": 1.0, "client": "app", "session": "one"},
        "d": {"queue": "p", "T": 1.0, "N": 1.0, "client": "app", "session": "two"},
        "e": {
            "queue": "q",
            "T": 1.0,
            "N": 1.0,
            "client": "billing",
            "session": "three",
        },
    }
    return inputs_after(
        Judged(), 2, lambda _: {"queues": queues, "consumers": consumers}
    )


def symptoms(poll: RuleInputs, *free: ActiveCondition, **said: Any) -> Symptoms:
    plain: dict[str, Any] = {
        "sending": Sending(),
        "begun": {},
        "changes": (),
        "oldest": np.array([NOW, NOW, NOW]),
    }
    return Symptoms(poll, {key_of(one): one for one in free}, **(plain | said))


def condition(
    name: str, queue: str, client: str = "", address: str = "a"
) -> ActiveCondition:
    return ActiveCondition(name, "b", address, queue, client, Severity.WARNING, NOW)
