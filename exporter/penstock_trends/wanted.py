"""The settings of operators for the report: owners, targets, time zones and holidays of brokers and queues."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.settings.calendar import Calendar
from penstock.settings.policy import Policy
from penstock.settings.rules import Resolved

FLOW_TARGET: Final = 0.999
"""Share of the time in which messages of a queue are to flow."""


Policies = Mapping[str, Policy]
"""By broker; "" for any other."""


def policy_of(policies: Policies, broker: str) -> Policy:
    """Returns the policy of a broker: its own, or that of all brokers without one."""
    return policies.get(broker) or replace(policies[""], broker=broker)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of all brokers. flow_target: a share."""

    policies: Policies = field(default_factory=lambda: {"": Policy("")})
    flow_target: float = FLOW_TARGET

    def calendars(self) -> dict[str, Calendar]:
        """Returns the calendars by broker, "" for any other."""
        return {broker: policy.calendar for broker, policy in self.policies.items()}

    def owner(self, names: Mapping[str, Any]) -> str:
        """Returns team and owner of a queue, address, client or broker; empty where no rule sets them.

        names: at least `broker`; `address`, `queue` and `client` where it has these.
        """
        rule = self._rule_for(names)
        return ", ".join(filter(None, (rule.team, rule.owner)))

    def targets(self, queue: Mapping[str, Any]) -> dict[str, float | None]:
        """Returns the seconds that a ring is to cover, and those in which a backlog is to drain.

        None where no rule sets a target.
        """
        rule = self._rule_for(queue)
        return {
            "ring_retention": rule.ring_retention,
            "drain_target": rule.drain_target,
        }

    def _rule_for(self, names: Mapping[str, Any]) -> Resolved:
        """Returns the rule that holds for a queue, address, client or broker. names: see `owner`."""
        broker = names.get("broker") or ""
        rules = policy_of(self.policies, broker).rules
        return rules.resolve(
            broker,
            names.get("address") or "",
            names.get("queue") or "",
            names.get("client") or None,
        )

    def key(self) -> list[Any]:
        """Returns plain values that differ if the settings would give another report."""
        values: list[Any] = [self.flow_target]
        for broker, policy in sorted(self.policies.items()):
            calendar = policy.calendar
            holidays = sorted(map(str, calendar.holidays))
            values.append([broker, repr(policy.rules), calendar.zone, holidays])
        return values
