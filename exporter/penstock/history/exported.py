"""What is exported of the conditions of one broker at each poll: by the live agent, or by a back-test."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.conditions.condition import ActiveCondition, Severity
from penstock.history.schema import INCIDENT, TOLD_EVERY, UNSEEN
from penstock.incidents.incident import Incident, key_of
from penstock.insight.events import ConditionKey


def of_incidents(told: Iterable[Incident]) -> Iterator[ActiveCondition]:
    """Each as a condition `incident KIND` of the object that is its root, with its id in place of a client."""
    for one in told:
        numbers = {"victims": float(one.victim_count), "members": float(one.size)}
        severity = Severity[one.severity.upper()]
        yield ActiveCondition(
            f"{INCIDENT}{one.kind}",
            one.broker,
            one.object,
            "",
            one.id,
            severity,
            one.begin,
            numbers,
        )


class Told(NamedTuple):
    """One row of history. event: `enter`, `leave`, `severity` (it became another) or `hold`.

    seen: when it was last seen active, by the agent's clock: at this poll, or of one that ended at a poll before.
    """

    event: str
    condition: ActiveCondition
    seen: float


@dataclass(slots=True)
class Exported:
    """Conditions as they were last exported. stamp: of the poll at which that was."""

    stamp: float = float("-inf")
    standing: dict[ConditionKey, ActiveCondition] = field(default_factory=dict)

    def advance(
        self, stamp: float, conditions: Sequence[ActiveCondition]
    ) -> list[Told]:
        """What changed with this poll; all that is active at the first poll of an hour, which can be read alone."""
        first = self.stamp < 0
        new_hour = stamp // TOLD_EVERY != self.stamp // TOLD_EVERY
        away = stamp - self.stamp > UNSEEN
        standing = {key_of(c): c for c in conditions if not c.silenced}
        told = []
        gone = dict(self.standing)
        for name, condition in standing.items():
            before = gone.pop(name, None)
            if before is not None and away and condition.since > self.stamp:
                # It ended while no one looked, and began again.
                told.append(Told("leave", before, self.stamp))
                before = None
            if before is None:
                told.append(Told("hold" if first else "enter", condition, stamp))
            elif before.severity is not condition.severity:
                told.append(Told("severity", condition, stamp))
            elif new_hour:
                told.append(Told("hold", condition, stamp))
        told += [Told("leave", ended, self.stamp) for ended in gone.values()]
        self.stamp = stamp
        self.standing = standing
        return sorted(told, key=lambda one: (*_place(one.condition), one.event))


def _place(condition: ActiveCondition) -> tuple[str, ...]:
    return condition.address, condition.queue, condition.client, condition.name
