"""From debounced rules to active conditions: severity, evidence, and whose they are."""

from collections.abc import Iterator, Mapping
from math import isfinite

import numpy as np

from penstock.causes.case import Case, ConsumerCase
from penstock.causes.verdict import OnDemand, Verdicts, held_to_rivals
from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import ActiveCondition, Condition, Scope, Severity
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.learned.churn import Churn
from penstock.observation.poll import RuleInputs
from penstock.rule_engine.engine import Debounce
from penstock.series.clock import Clock

SEVERITIES = tuple(Severity)
"""By number."""


def active_conditions(
    debounced: Mapping[str, Debounce], poll: RuleInputs, churn: Churn, clock: Clock
) -> tuple[ActiveCondition, ...]:
    """All that are active, of the broker, of queues and of clients."""
    found: list[ActiveCondition] = []
    critical = without_progress(poll)
    conditions = for_kind(poll.broker.kind.name)
    for name, debounce in debounced.items():
        condition = conditions[name]
        (at, since) = debounce.active()
        if len(at):
            active = of_broker if condition.scope is Scope.BROKER else of_rows
            found += active(condition, at, since, poll, critical, clock)
    for condition in conditions.values():
        if condition.reports is not None:
            found += reported(condition, poll, churn, critical, clock)
    return tuple(found)


def without_progress(poll: RuleInputs) -> Mask:
    """Queues that settled nothing for the longest threshold of their clients, while messages wait or come; one more,
    False, for a queue that is not known.
    """
    found = poll.found
    comes = poll.trend.comes > 0
    waits = (
        (found.ready > 0) | (found.d_added > 0) | (comes & ~np.isnan(poll.timers.ready))
    )  # some expire first
    return np.append(
        waits & longer(poll.timers.stuck, found.now, poll.queue_patience), np.False_
    )


def of_rows(
    condition: Condition,
    at: Positions,
    since: Column,
    poll: RuleInputs,
    critical: Mask,
    clock: Clock,
) -> Iterator[ActiveCondition]:
    """Of queues; or one a client, with the numbers of its consumer that is in it longest."""
    of_clients = condition.scope is Scope.CLIENT
    grouping = poll.groups.clients if of_clients else poll.groups.queues
    if of_clients:
        at, since, count = longest(grouping.member[at], at, since)
    else:
        shown = grouping.member[at] >= 0
        at = at[shown]
        since = since[shown]
        count = np.zeros(np.count_nonzero(shown), np.intp)
    series = grouping.index.rows[grouping.member[at]].tolist()
    severities = severity(
        condition, poll.found.consumer.queue[at] if of_clients else at, poll, critical
    )
    numbers = evidence(condition, poll, at, since)
    whys = (
        [condition.why(poll, i) for i in at.tolist()]
        if condition.why
        else [""] * len(at)
    )
    for row, of, how, begin, found, consumers, why in zip(
        at.tolist(),
        series,
        severities,
        since.tolist(),
        numbers,
        count.tolist(),
        whys,
        strict=True,
    ):
        where = (of.broker, of.address, of.queue, of.client if of_clients else "")
        known = (
            OnDemand(decided, condition, poll, row, begin) if condition.decide else {}
        )
        shown = begin - clock.applied
        yield ActiveCondition(
            condition.name,
            *where,
            how,
            shown,
            found,
            consumers,
            False,
            why,
            known,
            begin,
        )


def decided(condition: Condition, poll: RuleInputs, row: int, since: float) -> Verdicts:
    """What is known of the causes of a condition that is active in a row since then (broker's clock)."""
    if condition.decide is None:
        return {}
    case = (ConsumerCase if condition.scope is Scope.CLIENT else Case)(poll, row, since)
    verdicts = {
        name: one
        for name, one in condition.decide(case).items()
        if name in condition.causes
    }
    return held_to_rivals(verdicts, condition.rivals, condition.causes)


def of_broker(
    condition: Condition,
    _: Positions,
    since: Column,
    poll: RuleInputs,
    __: Mask,
    clock: Clock,
) -> Iterator[ActiveCondition]:
    """At once as bad as it can be: it is of all its queues."""
    how = Severity.CRITICAL if condition.may_be_critical else Severity.WARNING
    began = float(since[0])
    why = condition.why(poll, 0) if condition.why else ""
    numbers = {"age": poll.found.now - began}
    where = (poll.groups.broker, "", "", "")
    yield ActiveCondition(
        condition.name,
        *where,
        how,
        began - clock.applied,
        numbers,
        why=why,
        begin=began,
    )


def longest(
    of: Positions, at: Positions, since: Column
) -> tuple[Positions, Column, Positions]:
    """By group `of` (those at -1 left out): the one of `at` with the earliest beginning, that, and their number."""
    shown = np.flatnonzero(of >= 0)
    order = shown[np.lexsort((since[shown], of[shown]))]
    _, first, count = np.unique(of[order], return_index=True, return_counts=True)
    return at[order[first]], since[order[first]], count


def severity(
    condition: Condition, queues: Positions, poll: RuleInputs, critical: Mask
) -> list[Severity]:
    """Of a condition at these queues, -1 where the queue is not known."""
    level = np.where(
        critical[queues] & condition.may_be_critical,
        Severity.CRITICAL,
        Severity.WARNING,
    )
    level[condition.notice(poll, queues)] = Severity.INFO
    return [SEVERITIES[one] for one in level.tolist()]


def reported(
    condition: Condition, poll: RuleInputs, churn: Churn, critical: Mask, clock: Clock
) -> Iterator[ActiveCondition]:
    """Of a condition that reports clients itself, in place of rows."""
    reports = [] if condition.reports is None else list(condition.reports(churn, poll))
    if not reports:
        return
    clients = poll.groups.clients
    present = clients.count()
    at = (
        {row.name: i for i, row in enumerate(poll.found.queues)}
        if any(one.idle_queue for one in reports)
        else {}
    )
    severities = severity(
        condition,
        np.array([at.get(one.idle_queue, -1) for one in reports]),
        poll,
        critical,
    )
    for one, how in zip(reports, severities, strict=True):
        where = (
            one.client.broker,
            one.client.address,
            one.client.queue,
            one.client.client,
        )
        consumers = (
            int(clients.number_of(one.client, present)) if one.counts_consumers else 0
        )
        shown = one.since - clock.applied
        yield ActiveCondition(
            condition.name,
            *where,
            how,
            shown,
            one.evidence,
            consumers,
            verdicts=one.verdicts,
            begin=one.since,
        )


def evidence(
    condition: Condition, poll: RuleInputs, at: Positions, since: Column
) -> list[dict[str, float]]:
    """The numbers of the rows `at`; what the broker did not say is not there. `since`: of the condition."""
    columns = {"age": poll.found.now - since} | dict(condition.evidence(poll, at))
    values = np.stack([*columns.values()], axis=1)
    rows = [dict(zip(columns, row, strict=True)) for row in values.tolist()]
    for i in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
        rows[i] = {name: value for name, value in rows[i].items() if isfinite(value)}
    return rows
