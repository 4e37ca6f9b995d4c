"""What the operator wants of one broker: which things are shown, under which labels, how many one by one."""

from dataclasses import dataclass, field

from penstock.settings.calendar import Calendar
from penstock.settings.constants import Constants
from penstock.settings.rules import Resolved, Rules, Selection

LABEL_BYTES = 1023
"""Of the value of a label, unless the operator says otherwise: some stores of metrics refuse 1,024."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many are shown one by one."""

    consumers_per_broker: int = 20
    consumers_per_queue: int = 3
    connections: int = 20
    clients: int = 10_000
    """Distinct client names of a broker; further ones are shown together as `(other)`."""
    series: int = 3_750_000
    """Of the whole broker; what is unhealthy or has the largest backlog comes first."""
    label_length: int = LABEL_BYTES
    """Bytes of the value of a label; a longer one is cut, and ends with a hash of the whole."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator wants of one broker."""

    broker: str
    rules: Rules = field(default_factory=Rules)
    selection: Selection = field(default_factory=Selection)
    limits: Limits = field(default_factory=Limits)
    constants: Constants = field(default_factory=Constants)
    calendar: Calendar = field(default_factory=Calendar)
    profiles: str = ""
    """File of what is normal, from history; empty: none."""
    mirror_of: str = ""
    """The broker of which this one has copies of messages: no sum over brokers has them."""
    sum_temporary: bool = True
    """Show temporary and non-durable subscription queues as one sum."""

    def of_queue(self, address: str, queue: str) -> Resolved | None:
        """What the rules say of it; None where it is not shown."""
        resolved = self.rules.resolve(self.broker, address, queue)
        return (
            None if resolved.ignore or not self.selection(address, queue) else resolved
        )
