"""The rights that docs/artemis.md names one by one: each operation and attribute that Penstock asks an Artemis for."""

from collections.abc import Iterator

from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import requests as ask
from penstock.brokers.requests import attributes

FLAGS = frozenset(
    {
        *(
            "Started",
            "Active",
            "Backup",
            "Connected",
            "Paused",
            "Paging",
            "RetroactiveResource",
            "BlockedViaManagement",
        ),
        *(
            "Durable",
            "Temporary",
            "InternalQueue",
            "Exclusive",
            "LastValue",
            "GroupRebalance",
        ),
    }
)
"""Attributes that are read by a method `is…`."""
ATTRIBUTES = (
    attributes(wire.BrokerAttributes),
    attributes(wire.BridgeAttributes),
    attributes(wire.AddressAttributes),
    attributes(wire.AddressBlocked),
    attributes(wire.QueueSizes),
    attributes(wire.QueueDeadLetters),
    attributes(wire.QueueAttributes),
    attributes(wire.QueueInDoubt),
    attributes(wire.DivertAttributes),
    attributes(wire.QueueGroups),
)


def methods() -> Iterator[str]:
    """As management.xml names them, each once."""
    yield from ask.LISTINGS
    yield "getAddressSettingsAsJSON"
    yield "listPreparedTransactions"
    names = dict.fromkeys(name for group in ATTRIBUTES for name in group)
    yield from (f"{'is' if name in FLAGS else 'get'}{name}" for name in names)


def role_access() -> str:
    """The `<match>` that allows these to the role `exporter`, and nothing else."""
    lines = [
        f'  <access method="{method}" roles="amq,exporter"/>' for method in methods()
    ]
    return "\n".join(
        [
            '<match domain="org.apache.activemq.artemis">',
            *lines,
            '  <access method="*" roles="amq"/>',
            "</match>",
        ]
    )
