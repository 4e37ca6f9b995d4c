"""From debounced rules to active conditions: the severity, the evidence and the name of each."""

from collections.abc import Iterator, Mapping, Sequence
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
"""The severities by their number."""


def active_conditions(
    debounced: Mapping[str, Debounce], poll: RuleInputs, churn: Churn, clock: Clock
) -> tuple[ActiveCondition, ...]:
    """Return all conditions that are active, of the broker, of queues and of clients."""
    active: list[ActiveCondition] = []
    is_critical = without_progress(poll)
    conditions = for_kind(poll.broker.kind.name)
    for name, debounce in debounced.items():
        condition = conditions[name]
        positions, since = debounce.active()
        if not len(positions):
            continue
        if condition.scope is Scope.BROKER:
            active.append(of_broker(condition, float(since[0]), poll, clock))
        else:
            active += of_rows(condition, positions, since, poll, is_critical, clock)
    for condition in conditions.values():
        if condition.reports is not None:
            active += reported(condition, poll, churn, is_critical, clock)
    return tuple(active)


def without_progress(poll: RuleInputs) -> Mask:
    """(queues + 1,) Whether the queue settled nothing for too long while messages wait or come.

    That is the longest stall threshold of its clients. One more, False, is for a queue that is not known.
    """
    facts = poll.found
    # Some messages expire between two polls: then messages come, and yet no poll sees one in the queue.
    expects_messages = (poll.trend.comes > 0) & ~np.isnan(poll.timers.ready)
    has_work = (facts.ready > 0) | (facts.d_added > 0) | expects_messages
    settles_nothing = longer(poll.timers.stuck, facts.now, poll.queue_patience)
    # An unknown queue has position -1, which is the last element: it must be False.
    return np.append(has_work & settles_nothing, np.False_)


def of_rows(
    condition: Condition,
    positions: Positions,
    since: Column,
    poll: RuleInputs,
    is_critical: Mask,
    clock: Clock,
) -> Iterator[ActiveCondition]:
    """Return one active condition for each queue at which it is active, or for each client.

    A client may have the condition at several consumers. It is reported once, with the numbers of the consumer that
    has it for longest and with the number of these consumers.

    Args:
        condition: The condition.
        positions: The queues or consumers at which it is active.
        since: (positions,) Since when, by the broker's clock.
        poll: What the rules read.
        is_critical: As `without_progress` returns it.
        clock: The difference of the clocks.
    """
    by_client = condition.scope is Scope.CLIENT
    grouping = poll.groups.clients if by_client else poll.groups.queues
    if by_client:
        positions, since, consumers = longest(
            grouping.member[positions], positions, since
        )
        queues = poll.found.consumer.queue[positions]
    else:
        is_shown = grouping.member[positions] >= 0
        positions = positions[is_shown]
        since = since[is_shown]
        consumers = np.zeros(len(positions), np.intp)  # only clients have a number
        queues = positions
    columns = zip(
        positions.tolist(),
        grouping.index.rows[grouping.member[positions]].tolist(),
        severity(condition, queues, poll, is_critical),
        since.tolist(),
        evidence(condition, poll, positions, since),
        consumers.tolist(),
        strict=True,
    )
    for position, series, level, begin, numbers, count in columns:
        yield ActiveCondition(
            name=condition.name,
            broker=series.broker,
            address=series.address,
            queue=series.queue,
            client=series.client if by_client else "",
            severity=level,
            since=begin - clock.applied,
            evidence=numbers,
            consumers=count,
            why=condition.why(poll, position) if condition.why else "",
            verdicts=verdicts_on_demand(condition, poll, position, begin),
            begin=begin,
        )


def verdicts_on_demand(
    condition: Condition, poll: RuleInputs, row: int, begin: float
) -> Verdicts:
    """Return the verdicts on the possible causes, decided only when they are first read: that costs much."""
    if condition.decide is None:
        return {}
    return OnDemand(decided, condition, poll, row, begin)


def decided(condition: Condition, poll: RuleInputs, row: int, since: float) -> Verdicts:
    """Return the verdict on each possible cause of a condition that is active in a row.

    A cause that is proven rules out its rivals. since: when the condition began, by the broker's clock.
    """
    if condition.decide is None:
        return {}
    kind = ConsumerCase if condition.scope is Scope.CLIENT else Case
    verdicts = {
        name: verdict
        for name, verdict in condition.decide(kind(poll, row, since)).items()
        if name in condition.causes
    }
    return held_to_rivals(verdicts, condition.rivals, condition.causes)


def of_broker(
    condition: Condition, begin: float, poll: RuleInputs, clock: Clock
) -> ActiveCondition:
    """Return an active condition of the broker. Its severity is the worst it may have, as it concerns all queues."""
    worst = Severity.CRITICAL if condition.may_be_critical else Severity.WARNING
    return ActiveCondition(
        name=condition.name,
        broker=poll.groups.broker,
        address="",
        queue="",
        client="",
        severity=worst,
        since=begin - clock.applied,
        evidence={"age": poll.found.now - begin},
        why=condition.why(poll, 0) if condition.why else "",
        begin=begin,
    )


def longest(
    groups: Positions, positions: Positions, since: Column
) -> tuple[Positions, Column, Positions]:
    """Return for each group the row that began first.

    Args:
        groups: (rows,) The group of each; rows in group -1 are left out.
        positions: (rows,) The position of each.
        since: (rows,) When each began.

    Returns:
        (groups,) The position of the row that began first, when it began, and how many rows the group has.
    """
    in_group = np.flatnonzero(groups >= 0)
    by_group_and_begin = np.lexsort((since[in_group], groups[in_group]))
    rows = in_group[by_group_and_begin]
    _, first, count = np.unique(groups[rows], return_index=True, return_counts=True)
    earliest = rows[first]
    return positions[earliest], since[earliest], count


def severity(
    condition: Condition, queues: Positions, poll: RuleInputs, is_critical: Mask
) -> list[Severity]:
    """Return the severity of a condition at each of these queues; the position -1 is a queue that is not known.

    It is critical where the queue makes no progress, if this condition may be critical; else a warning; but only a
    notice where the condition itself says so.
    """
    critical = is_critical[queues] & condition.may_be_critical
    level = np.where(critical, Severity.CRITICAL, Severity.WARNING)
    level[condition.notice(poll, queues)] = Severity.INFO
    return [SEVERITIES[number] for number in level.tolist()]


def reported(
    condition: Condition,
    poll: RuleInputs,
    churn: Churn,
    is_critical: Mask,
    clock: Clock,
) -> Iterator[ActiveCondition]:
    """Return the active conditions of clients for a condition that has no rule over rows, but its own reports."""
    reports = list(condition.reports(churn, poll)) if condition.reports else []
    if not reports:
        return
    clients = poll.groups.clients
    consumers_of = clients.count()
    queues = positions_by_name(poll, [report.idle_queue for report in reports])
    severities = severity(condition, queues, poll, is_critical)
    for report, level in zip(reports, severities, strict=True):
        consumers = 0
        if report.counts_consumers:
            consumers = int(clients.number_of(report.client, consumers_of))
        yield ActiveCondition(
            name=condition.name,
            broker=report.client.broker,
            address=report.client.address,
            queue=report.client.queue,
            client=report.client.client,
            severity=level,
            since=report.since - clock.applied,
            evidence=report.evidence,
            consumers=consumers,
            verdicts=report.verdicts,
            begin=report.since,
        )


def positions_by_name(poll: RuleInputs, names: Sequence[str]) -> Positions:
    """(names,) The position of the queue with each name, -1 where there is none or the name is empty."""
    if not any(names):
        return np.full(len(names), -1)
    position_of = {queue.name: row for row, queue in enumerate(poll.found.queues)}
    return np.array([position_of.get(name, -1) for name in names])


def evidence(
    condition: Condition, poll: RuleInputs, positions: Positions, since: Column
) -> list[dict[str, float]]:
    """Return for each row its numbers by name: the age of the condition and those that the condition names.

    A number that the broker does not show is left out.

    since: (positions,) Since when the condition is active, by the broker's clock.
    """
    ages = poll.found.now - since
    columns = {"age": ages, **condition.evidence(poll, positions)}
    values = np.stack([*columns.values()], axis=1)
    rows = [dict(zip(columns, row, strict=True)) for row in values.tolist()]
    has_gaps = ~np.isfinite(values).all(axis=1)
    for row in np.flatnonzero(has_gaps).tolist():
        rows[row] = {
            name: number for name, number in rows[row].items() if isfinite(number)
        }
    return rows
