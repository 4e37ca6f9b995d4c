"""Pairs of a rule: numbers with which it is true, and for each column that it reads one with which it is false."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from conditions.inputs import changed, inputs_after, with_value
from conditions.openmq_world import OpenmqJudged
from conditions.world import START, Judged
from penstock.conditions.catalogue import on
from penstock.conditions.condition import Raised
from penstock.core.table import Table
from penstock.core.windows import Window
from penstock.observation.poll import RuleInputs
from penstock.settings.rules import Match, Rules, RuleSettings
from penstock.settings.rules import Rule as OperatorRule

Rule = Callable[[RuleInputs], Any]
Values = Mapping[Any, Any]
"""By the path of a column, such as `found.consumer.held`, its new value: one for all rows, or a list.

By a rule: what it says of all rows.
"""


@dataclass(frozen=True)
class Pairs:
    """One entry. of: the name of a condition, `openmq/` before the variant of OpenMQ; or a part of a rule.

    poll: what the values are put into. true: with these values the rule is true for a row. false: each of these alone,
    in place of the one in `true`, makes it false for all rows. only_since: columns that say since when it is true,
    and do not decide whether it is. parts: of the rule, with pairs of their own.
    """

    of: str | Rule
    poll: Callable[[], RuleInputs]
    true: Values
    false: Values
    only_since: Sequence[str] = ()
    parts: Sequence[Rule] = ()

    @property
    def rule(self) -> Rule:
        if not isinstance(self.of, str):
            return self.of
        kind, _, name = self.of.rpartition("/")
        found = on(kind or "artemis", name).rule
        assert found is not None, self.of
        return found

    @property
    def name(self) -> str:
        return (
            self.of
            if isinstance(self.of, str)
            else f"{self.of.__module__}.{self.of.__name__}"
        )


# --- polls

QUEUE = {"A": 20.0, "M": 20.0, "D": 10.0}
HOLDS = {"T": 10.0, "N": 10.0}
FREE = {"T": 0.0, "N": 0.0}


def polled(
    world: Judged, queues: Mapping[str, Any], consumers: Mapping[str, Any], **more: Any
) -> RuleInputs:
    """What the rules read at the third of three polls that are alike."""
    return inputs_after(
        world, 3, lambda _: {"queues": queues, "consumers": consumers, **more}
    )


@cache
def plain() -> RuleInputs:
    """A queue of Artemis with a consumer that holds something; no condition is near."""
    return polled(Judged(), {"q": QUEUE}, {"c": HOLDS})


@cache
def two_consumers() -> RuleInputs:
    """The same with a second consumer, which holds nothing."""
    return polled(Judged(), {"q": QUEUE}, {"c": HOLDS, "d": FREE})


@cache
def two_queues() -> RuleInputs:
    """Of Artemis, with a consumer each."""
    return polled(
        Judged(), {"q": QUEUE, "r": QUEUE}, {"c": HOLDS, "d": HOLDS | {"queue": "r"}}
    )


@cache
def openmq() -> RuleInputs:
    """A queue of OpenMQ with a consumer that holds something; no condition is near."""
    return polled(OpenmqJudged(), {"q": QUEUE}, {"c": HOLDS}, addresses=LIMITED)


@cache
def openmq_two_queues() -> RuleInputs:
    """Of OpenMQ, the first one with a consumer."""
    return polled(OpenmqJudged(), {"q": QUEUE, "r": QUEUE}, {"c": HOLDS})


@cache
def one_connection(limit: int | None = None) -> RuleInputs:
    """A queue of OpenMQ with two consumers of one connection, of which the second holds nothing.

    limit: of the connection, as the operator gives it.
    """
    world = OpenmqJudged()
    given = RuleSettings(connection_flow_limit=limit)
    world.policy = replace(world.policy, rules=Rules((OperatorRule(Match(), given),)))
    consumers = {"c": HOLDS | {"connection": "one"}, "d": FREE | {"connection": "one"}}
    return polled(world, {"q": QUEUE}, consumers, addresses=LIMITED)


LIMITED = {"q": {"limit_messages": 100.0}}
NOW = START + 3 * Judged.step
"""By the broker's clock, as of all these polls."""
LONG_AGO = 0.0
NEVER = np.nan
UNKNOWN = np.nan
LONG = 3e9
"""Seconds: longer than since `LONG_AGO`."""


# --- values


def with_values(poll: RuleInputs, values: Values) -> RuleInputs:
    """The same poll with these values. Nothing that was worked out of the old ones is left."""
    results: dict[Any, Any] = {}
    for path, value in values.items():
        if isinstance(path, str):
            poll = placed(poll, path, value)
        else:
            results[path] = said(path, poll, value)
    if "found.consumer.queue" in values:
        poll = at_their_queues(poll)
    return replace(poll, _results=results)


def at_their_queues(poll: RuleInputs) -> RuleInputs:
    """With the columns that also say of which queue each consumer is."""
    queue = poll.found.consumer.queue
    unplaced = np.flatnonzero(queue < 0)
    return changed(
        poll, found__consumer__place=queue + 1, found__consumer__unplaced=unplaced
    )


def placed(poll: RuleInputs, path: str, value: Any) -> RuleInputs:
    *parents, name = path.split(".")
    part: Any = poll
    for parent in parents:
        part = part[parent] if isinstance(part, Mapping) else getattr(part, parent)
    before = value_of(part, name)
    result: RuleInputs = with_value(poll, path.split("."), like(before, value))
    return result


def value_of(part: Any, name: str) -> Any:
    if isinstance(part, Table):
        return part[name]
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name)


def like(before: Any, value: Any) -> Any:
    """A number for all rows is a column of it; for a function one that always answers so."""
    if isinstance(before, np.ndarray) and not isinstance(value, np.ndarray):
        return np.broadcast_to(np.asarray(value, before.dtype), before.shape).copy()
    if callable(before):
        return lambda asked: np.full(len(asked), value, np.float64)
    return value


def said(rule: Rule, poll: RuleInputs, value: bool) -> Raised:
    return Raised(np.full(len(rule(poll).mask), value))


def recent(
    variables: int, changes: Mapping[int, Sequence[float]], *, step: float = 15.0
) -> Window:
    """The last polls of one queue, ending now. changes: by variable, one for each poll; 0 of all others."""
    polls = max(map(len, changes.values()))
    window = Window(plain().found.queues)
    for poll in range(polls):
        values = np.zeros((variables, 1), np.float32)
        for variable, of_polls in changes.items():
            values[variable] = of_polls[poll]
        window = window.push(NOW - step * (polls - 1 - poll), values, step * polls, 0.0)
    return window


def lines(
    number: int, values: Mapping[int, float]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A matrix of so many lines for one queue: these values, NaN in all others."""
    matrix = np.full((number, 1), np.nan)
    for line, value in values.items():
        matrix[line] = value
    return matrix
