"""What is said to people about the conditions of a poll, as rows that can be compared one by one."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from penstock.conditions.condition import ActiveCondition
from penstock.insight.explain import BrokerView, NotFound, explain

Row = list[str]
EXPLAINED = 3
"""Queues that are explained of one poll: those of the first conditions by name."""


def causes_of(conditions: Iterable[ActiveCondition]) -> list[Row]:
    """Of each condition what is known of each of its causes."""
    rows = []
    for condition in conditions:
        subject = f"{condition.address} {condition.queue} {condition.client}"
        for cause, verdict in condition.verdicts.items():
            likely = "likely" if verdict.likely else ""
            state = str(verdict.state)
            row = [
                "causes",
                condition.name,
                subject,
                cause,
                state,
                verdict.fact,
                likely,
            ]
            rows.append(row)
    return sorted(rows)


def explained(view: BrokerView, conditions: Sequence[ActiveCondition]) -> list[Row]:
    """What `explain` answers about the queues with a condition: a row for each number and text in it."""
    rows = []
    for address, queue in first_queues(conditions):
        said = answer(view, address, queue)
        for path, value in leaves(said):
            row = ["explain", queue, path, value]
            rows.append(row)
    return rows


def first_queues(conditions: Iterable[ActiveCondition]) -> list[tuple[str, str]]:
    """Addresses and names, without what is of the broker itself."""
    by_name = sorted(conditions, key=lambda condition: condition.name)
    places = [
        (condition.address, condition.queue) for condition in by_name if condition.queue
    ]
    each_once = dict.fromkeys(places)
    return list(each_once)[:EXPLAINED]


def answer(view: BrokerView, address: str, queue: str) -> Any:
    try:
        return msgspec.to_builtins(explain(view, queue, address=address))
    except NotFound as error:
        return str(error)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each number and text, with the keys that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{number}")
    else:
        yield path.removeprefix("."), json.dumps(value)
