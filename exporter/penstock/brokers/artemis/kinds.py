"""The kind of a queue, by its flags and name, as seen on 2.28 to 2.56: the flag `internalQueue` exists since 2.34
and does not cover every internal queue.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from penstock.model import QueueKind, RingSource

_LINK = re.compile(
    r"\$\.artemis\.internal\.sf\..*"  # cluster store-and-forward
    r"|\$ACTIVEMQ_ARTEMIS_MIRROR_.*"
    r"|\$ACTIVEMQ_ARTEMIS_FEDERATION\..*"
    r"|federation\..*\.policy\..*\.node\..*"  # AMQP federation of an address
    r"|federated\..*",  # Core federation of an address
    re.DOTALL,
)
_RETROACTIVE = re.compile(r"\$\.artemis\.internal\..*\.retro", re.DOTALL)
_INTERNAL = re.compile(
    r"\$\.artemis\.internal\..*|\$sys\.mqtt\..*|notif\..*", re.DOTALL
)
_INTERNAL_ADDRESS = re.compile(
    r"activemq\.notifications|ActiveMQ\.Advisory\..*|\$sys\.mqtt\..*", re.DOTALL
)

STORE_AND_FORWARD = "$.artemis.internal.sf."
MIRROR = "$ACTIVEMQ_ARTEMIS_MIRROR_"


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of addresses and queues by the broker's settings; read less often than the numbers."""

    dead_letters: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Queue name → its dead-letter and expiry address, empty where there is none."""
    retroactive: AbstractSet[str] = frozenset()
    """Addresses that are flagged as retroactive resources."""
    ring_defaults: Mapping[str, int] = field(default_factory=dict)
    """Address → default-ring-size of its settings, -1 = none."""

    def dead_letter_addresses(self) -> frozenset[str]:
        return frozenset(dead for dead, _ in self.dead_letters.values() if dead)

    def expiry_addresses(self) -> frozenset[str]:
        return frozenset(expiry for _, expiry in self.dead_letters.values() if expiry)


def queue_kind(
    name: str,
    address: str,
    routing_type: str,
    *,
    temporary: bool,
    internal: bool,
    retroactive: bool,
) -> QueueKind | None:
    """The kind by the queue's own name and flags; None: an ordinary queue, whose kind depends on others' settings."""
    if retroactive or _RETROACTIVE.fullmatch(name):
        return QueueKind.RETROACTIVE
    if _LINK.fullmatch(name):
        return QueueKind.LINK
    if internal or _INTERNAL.fullmatch(name) or _INTERNAL_ADDRESS.fullmatch(address):
        return QueueKind.INTERNAL
    if temporary and routing_type != "multicast":
        return QueueKind.TEMPORARY
    return None


def ordinary_kind(
    address: str, routing_type: str, dead: AbstractSet[str], expiry: AbstractSet[str]
) -> QueueKind:
    """The kind of an ordinary queue; a dead-letter queue may be multicast (auto-created ones are)."""
    if address in dead:
        return QueueKind.DEAD_LETTER
    if address in expiry:
        return QueueKind.EXPIRY
    return QueueKind.SUBSCRIPTION if routing_type == "multicast" else QueueKind.USER


def ring_source(
    ring_size: int, default: int | None, *, auto_created: bool
) -> RingSource:
    """Where a ring size comes from. The same number on both sides is clear only for an auto-created queue."""
    if ring_size < 0:
        return RingSource.NONE
    if default is None or default != ring_size:
        return RingSource.QUEUE
    return RingSource.ADDRESS if auto_created else RingSource.AMBIGUOUS
