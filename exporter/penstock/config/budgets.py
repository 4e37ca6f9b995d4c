"""How much of a broker is read and shown."""

from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, StrictInt

from penstock.brokers.budget import RowBudgets
from penstock.config.section import Section
from penstock.config.values import Size, between, format_size
from penstock.settings.policy import Limits

LIMITS = Limits()
ROWS = RowBudgets()
RowCount = Annotated[StrictInt, Field(ge=1, le=10_000_000)]


class Budgets(Section):
    """How much of a broker is read and shown; what is beyond is left out and counted."""

    queues: RowCount = ROWS.queues
    """Queues read; of more, those with the most messages (OpenMQ: destinations)."""
    addresses: RowCount = ROWS.addresses
    """Addresses read; of more, the largest."""
    consumers: RowCount = ROWS.consumers
    """Consumers read; of more, the oldest, as of all that follow."""
    connections: RowCount = ROWS.connections
    """Connections read."""
    sessions: RowCount = ROWS.sessions
    """Sessions read (Artemis)."""
    producers: RowCount = ROWS.producers
    """Producers read."""
    listing_bytes: Annotated[Size, between(2**20, 2**36, format_size)] = ROWS.listing_bytes
    """Largest listing in all its pages (Artemis); a larger one fails its collector."""
    series: Annotated[StrictInt, Field(ge=1000, le=100_000_000)] = LIMITS.series
    """Series shown in /metrics; of more, those of what is unhealthy, then of the largest backlogs."""
    label_length: Annotated[StrictInt, Field(ge=64, le=65_536)] = LIMITS.label_length
    """Bytes of the value of a label in /metrics; a longer one is cut, and ends with ~ and a hash of the whole."""

    def rows(self) -> RowBudgets:
        return RowBudgets(**{one.name: getattr(self, one.name) for one in fields(RowBudgets)})


class OwnBudgets(Budgets):
    """Of one broker: what is said here, in place of the general budgets."""

    def masked(self) -> dict[str, Any]:
        return {key: value for key, value in super().masked().items() if key in self.model_fields_set}
