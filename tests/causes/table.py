"""Tables of cases: a poll with some of its numbers changed, and what is told of the causes there.

A number is changed by its path, as `found.ready`. Also by paths of texts and of windows:
`queue.auto_delete`, `consumer.protocol`, `address.policy`, `broker.disk_used_ratio`,
`trend.4` (a variable of the trend), `acknowledged` (in both halves of it),
`lost.since` (of what consumers had in hand).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conditions.inputs import changed
from conditions.pairs import NOW, with_values
from penstock.causes.case import Case, ConsumerCase
from penstock.causes.verdict import Verdict
from penstock.conditions.catalogue import on
from penstock.conditions.condition import Scope
from penstock.core.table import Index
from penstock.core.windows import Window
from penstock.observation.activity import FLOW_OUT
from penstock.observation.losses import IN_HAND, LINES
from penstock.observation.poll import RuleInputs

Values = Mapping[str, Any]
Facts = dict[str, str]
"""By cause."""
TREND = 6
"""Variables of the trend."""
ROWS = {
    "queue": ("found__queues", "snapshot__queues__index"),
    "consumer": ("found__consumer__index", "snapshot__consumers__index"),
    "address": ("snapshot__addresses__index",),
}
"""Where the texts of each kind of thing are."""


def poll_with(poll: RuleInputs, values: Values) -> RuleInputs:
    """The same poll with these numbers, texts and windows."""
    numbers: dict[str, Any] = {}
    for path, value in values.items():
        first, _, name = path.partition(".")
        if first in ROWS:
            poll = with_texts(poll, first, name, value)
        elif first == "trend" and name.isdigit():
            poll = with_trend(poll, int(name), value)
        elif first == "acknowledged":
            poll = with_halves(poll, value)
        elif first == "lost":
            poll = with_lost(poll, name, value)
        elif first == "broker" or value is None:
            poll = changed(poll, **{path.replace(".", "__"): value})
        else:
            numbers[path] = value
    return with_values(poll, numbers)


def with_texts(poll: RuleInputs, kind: str, name: str, value: Any) -> RuleInputs:
    """value: of all rows, or a list with that of each."""
    for path in ROWS[kind]:
        index = at_path(poll, path)
        texts = value if isinstance(value, list) else [value] * len(index)
        rows = np.empty(len(index), object)
        rows[:] = [
            replace(row, **{name: text}) for row, text in zip(index, texts, strict=True)
        ]
        named: Index[Any] = Index(index.keys, rows, index.origin, None)
        poll = with_index(poll, path, named)
    return poll


def at_path(poll: RuleInputs, path: str) -> Any:
    thing: Any = poll
    for name in path.split("__"):
        thing = getattr(thing, name)
    return thing


def with_index(poll: RuleInputs, path: str, index: Index[Any]) -> RuleInputs:
    table, _, last = path.rpartition("__")
    if last != "index" or "snapshot" not in table:
        return changed(poll, **{path: index})
    return changed(poll, **{table: replace(at_path(poll, table), index=index)})


def with_trend(poll: RuleInputs, variable: int, value: Any) -> RuleInputs:
    """value: the sum over the window, one for all queues or a list."""
    index = poll.found.queues
    totals = np.zeros((TREND, len(index)), np.float32)
    before = poll.activity.trend
    if len(before.samples) == 1:
        totals[:] = before.totals
    totals[variable] = value
    window = Window(index).push(poll.found.now, totals, 1.0, 0.0)
    return changed(poll, activity__trend=window)


def with_halves(poll: RuleInputs, acknowledged: Any) -> RuleInputs:
    """acknowledged: messages of the first queue in the first and in the second half of the trend."""
    index = poll.found.queues
    window = Window(index)
    for half, messages in enumerate(acknowledged):
        changes = np.zeros((TREND, len(index)), np.float32)
        changes[FLOW_OUT, 0] = messages
        window = window.push(poll.found.now - 15 * (1 - half), changes, 60.0, 0.0)
    return changed(poll, activity__trend=window)


def with_lost(poll: RuleInputs, name: str, value: Any) -> RuleInputs:
    """name: a matrix of `Losses`; of what consumers that went had in hand."""
    lines = np.full((LINES, len(poll.found.queues)), np.nan)
    lines[IN_HAND] = value
    return changed(poll, **{f"losses__{name}": lines})


def verdicts_of(
    name: str,
    poll: RuleInputs,
    *,
    kind: str = "artemis",
    row: int = 0,
    seconds: float = 100.0,
) -> Mapping[str, Verdict]:
    """What a condition that has been active for so long knows of its causes."""
    condition = on(kind, name)
    assert condition.decide is not None, name
    make = ConsumerCase if condition.scope is Scope.CLIENT else Case
    return condition.decide(make(poll, row, NOW - seconds))


def told(name: str, poll: RuleInputs, **options: Any) -> Facts:
    """The facts of the same, by cause."""
    return {
        cause: verdict.fact
        for cause, verdict in verdicts_of(name, poll, **options).items()
    }


def judged(name: str, poll: RuleInputs, **options: Any) -> dict[str, str]:
    """By cause its state, with a `*` where it is likely."""
    return {
        cause: verdict.state + "*" * verdict.likely
        for cause, verdict in verdicts_of(name, poll, **options).items()
    }


def with_states(states: Mapping[str, str], differs: str) -> dict[str, str]:
    """These states, but for those that are given: "cause state, cause state"."""
    new = dict(one.split() for one in differs.split(", ") if one)
    assert new.keys() <= states.keys(), differs
    return {**states, **new}
