"""What operators say of their brokers and queues, as the report needs it: owners, clocks and holidays, targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.settings.calendar import Calendar
from penstock.settings.policy import Policy
from penstock.settings.rules import Resolved

FLOW_TARGET: Final = 0.999
"""Share of the time in which messages of a queue are to get on."""


Policies = Mapping[str, Policy]
"""By broker; "" for any other."""


def policy_of(policies: Policies, broker: str) -> Policy:
    return policies.get(broker) or replace(policies[""], broker=broker)


@dataclass(frozen=True, slots=True)
class Wanted:
    """flow_target: a share."""

    policies: Policies = field(default_factory=lambda: {"": Policy("")})
    flow_target: float = FLOW_TARGET

    def calendars(self) -> dict[str, Calendar]:
        """By broker, "" for any other."""
        return {name: policy.calendar for name, policy in self.policies.items()}

    def owner(self, one: Mapping[str, Any]) -> str:
        """Team and owner of a queue, address, client or broker, by its names; empty where no rule sets it."""
        said = self._said(one)
        return ", ".join(filter(None, (said.team, said.owner)))

    def targets(self, queue: Mapping[str, Any]) -> dict[str, float | None]:
        """Seconds that a ring is to cover, and in which a backlog is to drain; None where no rule sets it."""
        said = self._said(queue)
        return {
            "ring_retention": said.ring_retention,
            "drain_target": said.drain_target,
        }

    def _said(self, one: Mapping[str, Any]) -> Resolved:
        broker, address, queue, client = (
            one.get(name) or "" for name in ("broker", "address", "queue", "client")
        )
        return policy_of(self.policies, broker).rules.resolve(
            broker, address, queue, client or None
        )

    def key(self) -> list[Any]:
        """What another report follows from."""
        return [
            self.flow_target,
            *(
                [
                    name,
                    repr(policy.rules),
                    policy.calendar.zone,
                    sorted(map(str, policy.calendar.holidays)),
                ]
                for name, policy in sorted(self.policies.items())
            ),
        ]
