"""When conditions held on a queue: from what was told when, and what holds now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.flow.events import Change, Event
from penstock.flow.judge.conditions import Condition

Name = tuple[str, str]
"""Condition, client."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A condition in one severity. Times in seconds since 1970; to: None while it holds."""

    condition: str
    client: str
    severity: str
    since: float
    to: float | None


def episodes(events: Iterable[Event], standing: Sequence[Condition], begin: float) -> list[Episode]:
    """
    What held since `begin`, in the order of its beginnings.

    events: of the queue, those since `begin` at least, oldest first. standing: its conditions now. Silenced conditions
    are no events, and are not told here either.
    """
    under_way: dict[Name, tuple[str, float]] = {}
    found: list[Episode] = []
    for event in events:
        name, since = (event.condition, event.client), event.time if event.since is None else event.since
        if event.change is Change.CONDITION_ON:
            under_way[name] = event.severity, since
        elif event.change is Change.CONDITION_OFF:
            severity, since = under_way.pop(name, (event.severity, since))
            found.append(Episode(*name, severity, since, event.time))
        elif event.change is Change.SEVERITY:
            severity, since = under_way.pop(name, (event.detail.partition(" ")[0], since))
            found.append(Episode(*name, severity, since, event.time))
            under_way[name] = event.severity, event.time
    for one in standing:
        if not one.silenced:
            severity, since = under_way.get((one.name, one.client), (one.severity.name.lower(), one.since))
            found.append(Episode(one.name, one.client, severity, round(since, 3), None))
    return sorted((one for one in found if one.to is None or one.to > begin), key=lambda one: one.since)
