"""What is told of the conditions of one broker, poll by poll: by the live agent, and by a back-test in its place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.flow.events import ConditionName
from penstock.flow.judge.conditions import Condition

HOUR = 3600

Events = list[tuple[str, Condition]]
"""`enter`, `leave`, `severity` (it became another) or `hold`, and the condition."""


@dataclass(slots=True)
class Told:
    """Conditions as they were last told."""

    hour: int = -1
    standing: dict[ConditionName, Condition] = field(default_factory=dict)

    def follow(self, stamp: float, conditions: Sequence[Condition]) -> Events:
        """What changed with this poll; all that stands at the first poll of an hour, so that it tells alone."""
        hour = int(stamp // HOUR)
        standing = {(c.name, c.address, c.queue, c.client): c for c in conditions if not c.silenced}
        events: Events = []
        for name, condition in standing.items():
            before = self.standing.get(name)
            if before is None:
                events.append(("enter" if self.hour >= 0 else "hold", condition))
            elif before.severity is not condition.severity:
                events.append(("severity", condition))
            elif hour != self.hour:
                events.append(("hold", condition))
        events += [("leave", self.standing[name]) for name in self.standing.keys() - standing.keys()]
        self.hour, self.standing = hour, standing
        return sorted(events, key=lambda one: (one[1].address, one[1].queue, one[1].client, one[1].name, one[0]))
