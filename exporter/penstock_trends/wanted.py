"""What operators say of their brokers and queues, as the report needs it: owners, clocks and holidays, targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.settings.calendar import Calendar
from penstock.settings.policy import Policy

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
        """Team and owner of a queue, address, client or broker, by its names; empty where no rule says it."""
        broker, address, queue, client = (one.get(name) or "" for name in ("broker", "address", "queue", "client"))
        said = policy_of(self.policies, broker).rules.resolve(broker, address, queue, client or None)
        return ", ".join(filter(None, (said.team, said.owner)))

    def key(self) -> list[Any]:
        """What another report follows from."""
        return [
            self.flow_target,
            *(
                [name, repr(policy.rules), policy.calendar.zone, sorted(map(str, policy.calendar.holidays))]
                for name, policy in sorted(self.policies.items())
            ),
        ]
