"""Since when a condition is said to be active: a time that stays as it was first said.

A condition begins by the broker's clock and is shown by the agent's. The difference between the two is measured at
each poll, and a broker that was paused makes it jump. The begin of a condition does not change with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.conditions.condition import ActiveCondition
from penstock.incidents.incident import Key, key_of
from penstock.series.clock import JITTER_SECONDS


@dataclass(frozen=True, slots=True)
class ShownSince:
    """What was shown. Times by the agent's clock, seconds since 1970.

    by_begin: by the condition and its begin by the broker's clock. restored: by the condition, as an earlier agent
    showed it, which does not say when it began by the broker's clock.
    """

    by_begin: Mapping[tuple[Key, float], float] = field(default_factory=dict)
    restored: Mapping[Key, float] = field(default_factory=dict)

    def applied_to(self, conditions: Sequence[ActiveCondition]) -> tuple[ActiveCondition, ...]:
        """The conditions, those that are known with the time that was shown before."""
        return tuple(one._replace(since=self._of(one)) for one in conditions)

    def _of(self, one: ActiveCondition) -> float:
        key = key_of(one)
        before = self.by_begin.get((key, one.begin))
        if before is not None:
            return before
        earlier = self.restored.get(key)
        if earlier is None:
            return one.since
        differs = abs(one.since - earlier)
        return earlier if differs < JITTER_SECONDS else one.since


def shown_since(conditions: Sequence[ActiveCondition]) -> ShownSince:
    """What these conditions show, for the next poll."""
    return ShownSince({(key_of(one), one.begin): one.since for one in conditions})
