"""When conditions were active on a queue: from the events, and from what is active now."""

from collections.abc import Iterable, Sequence

from penstock.conditions.condition import ActiveCondition
from penstock.insight.answers import SeverityEpisode
from penstock.insight.events import Change, Event

Name = tuple[str, str]
"""Condition, client."""


def episodes(events: Iterable[Event], active: Sequence[ActiveCondition], begin: float) -> list[SeverityEpisode]:
    """
    What was active since `begin`, in the order of its beginnings.

    events: of the queue, those since `begin` at least, oldest first. active: its conditions now. Silenced conditions
    are no events, and are left out here too.
    """
    under_way: dict[Name, tuple[str, float]] = {}
    found: list[SeverityEpisode] = []
    for event in events:
        name, since = (event.condition, event.client), event.time if event.since is None else event.since
        if event.change is Change.CONDITION_ON:
            under_way[name] = event.severity, since
        elif event.change is Change.CONDITION_OFF:
            severity, since = under_way.pop(name, (event.severity, since))
            found.append(SeverityEpisode(*name, severity, since, event.time))
        elif event.change is Change.SEVERITY:
            severity, since = under_way.pop(name, (event.detail.partition(" ")[0], since))
            found.append(SeverityEpisode(*name, severity, since, event.time))
            under_way[name] = event.severity, event.time
    for one in active:
        if not one.silenced:
            severity, since = under_way.get((one.name, one.client), (one.severity.name.lower(), one.since))
            found.append(SeverityEpisode(one.name, one.client, severity, round(since, 3), None))
    return sorted((one for one in found if one.to is None or one.to > begin), key=lambda one: one.since)
