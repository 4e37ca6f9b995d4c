"""Since when a condition is said to be active: a time that stays as it was first said.

A condition begins by the broker's clock and is shown by the agent's. The difference between the two is measured at
each poll, and a broker that was paused makes it jump. The begin of a condition does not change with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.conditions.condition import ActiveCondition
from penstock.incidents.incident import Key, key_of
from penstock.series.clock import JITTER_SECONDS

NEVER = (float("nan"), float("nan"))
"""Of a condition that was not shown."""


@dataclass(frozen=True, slots=True)
class ShownSince:
    """What was shown. Times in seconds since 1970.

    Attributes:
        times: By the condition, its begin by the broker's clock, and since when it was shown by the agent's clock.
        restored: By the condition, since when an earlier agent showed it, which did not keep its begin by the broker's
            clock.
    """

    times: Mapping[Key, tuple[float, float]] = field(default_factory=dict)
    restored: Mapping[Key, float] = field(default_factory=dict)

    def advance(
        self, conditions: Sequence[ActiveCondition]
    ) -> tuple["ShownSince", tuple[ActiveCondition, ...]]:
        """Return the times that are shown after this poll, and the conditions with these times as their `since`."""
        times: dict[Key, tuple[float, float]] = {}
        shown: list[ActiveCondition] = []
        for condition in conditions:
            key = key_of(condition)
            since = self._since(key, condition)
            times[key] = (condition.begin, since)
            # Most have the right time already, and their copies would cost more than all else here.
            shown.append(
                condition
                if since == condition.since
                else condition._replace(since=since)
            )
        return ShownSince(times), tuple(shown)

    def _since(self, key: Key, condition: ActiveCondition) -> float:
        """Return since when the condition is shown: the time that was shown before, as long as it is the same one.

        It is the same where its begin by the broker's clock is the same. Of an earlier agent only the time by the
        agent's clock is known: it is the same where that time differs by no more than the jitter of the clocks.
        """
        begin, since = self.times.get(key, NEVER)
        if begin == condition.begin:
            return since
        earlier = self.restored.get(key)
        if earlier is None:
            return condition.since
        differs = abs(condition.since - earlier)
        return earlier if differs < JITTER_SECONDS else condition.since
