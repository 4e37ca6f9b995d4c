"""From what the rules say at one poll to which conditions are active."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import Condition, Raised, Rule, Scope
from penstock.core.table import Index
from penstock.core.windows import Mask, longer
from penstock.observation.poll import RuleInputs
from penstock.rule_engine.debounce import Debounce


def advance_conditions(before: Mapping[str, Debounce], poll: RuleInputs, resumed_at: float) -> dict[str, Debounce]:
    """
    Every condition of this kind of broker after this poll, by name.

    resumed_at: last poll before the agent's restart, NaN where there was none.
    """
    return {
        condition.name: advance_one(before.get(condition.name, Debounce()), condition, condition.rule, poll, resumed_at)
        for condition in for_kind(poll.broker.kind.name).values()
        if condition.rule is not None and (poll.found.counted or not condition.by_consumer)
    }


THE_BROKER: Index[None] = Index.of([None])
"""The one row of a broker's conditions."""


def rows_of(scope: Scope, queues: Index[Any], consumers: Index[Any]) -> Index[Any]:
    return {Scope.BROKER: THE_BROKER, Scope.QUEUE: queues, Scope.CLIENT: consumers}[scope]


def advance_one(before: Debounce, condition: Condition, rule: Rule, poll: RuleInputs, resumed_at: float) -> Debounce:
    found, raised = poll.found, poll.of(rule)
    debounce = before.advance(rows_of(condition.scope, found.queues, found.consumer.index))
    mask = unsilenced(raised, condition, poll)
    if looks_back_too_far(condition, poll, resumed_at):
        mask = mask.copy()
        mask[debounce.active()[0]] = True
    at = np.flatnonzero(mask)
    since = raised.since[at]
    lasting = None if raised.lasting is None else longer(since, found.now, raised.lasting[at])
    return debounce.judge(at, since, found.now, poll.constants, event=condition.event, for_elapsed=lasting)


def unsilenced(raised: Raised, condition: Condition, poll: RuleInputs) -> Mask:
    """Not where another condition, as its rule says at this poll, explains the same."""
    mask = raised.mask
    for other in condition.silenced_by:
        if other.rule is not None:
            mask = mask & ~poll.of(other.rule).mask
    return mask


def looks_back_too_far(condition: Condition, poll: RuleInputs, resumed_at: float) -> bool:
    """The agent has seen less than its window since a restart: until then what was active stays so."""
    if condition.window is None:
        return False
    interval = poll.found.interval
    return bool(poll.found.now - resumed_at < condition.window(poll.constants, interval) + 2 * interval)


def blockers(debounced: Mapping[str, Debounce], poll: RuleInputs) -> tuple[tuple[int, str], ...]:
    """Connections whose limit one client uses up, by the active conditions that come of it."""
    return tuple(
        pair
        for name, condition in for_kind(poll.broker.kind.name).items()
        if condition.blockers is not None and name in debounced
        for pair in condition.blockers(poll, debounced[name].active()[0])
    )
