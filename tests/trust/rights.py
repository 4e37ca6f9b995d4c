"""The rights that docs/artemis.md names one by one: each operation and attribute that Penstock asks an Artemis for."""

from collections.abc import Iterator

from penstock.brokers.artemis import requests as ask

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
        *("Durable", "Temporary", "InternalQueue", "Exclusive", "LastValue", "GroupRebalance"),
    }
)
"""Attributes that are read by a method `is…`."""
ATTRIBUTES = (
    ask.BROKER_ATTRIBUTES,
    ask.BRIDGE_ATTRIBUTES,
    ask.CONNECTION_ATTRIBUTES,
    ask.ADDRESS_ATTRIBUTES,
    ask.BLOCKED_ATTRIBUTES,
    ask.SIZE_ATTRIBUTES,
    ask.DEAD_LETTER_ATTRIBUTES,
    ask.QUEUE_ATTRIBUTES,
    ask.IN_DOUBT_ATTRIBUTES,
    ask.DIVERT_ATTRIBUTES,
    ask.GROUP_ATTRIBUTES,
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
    lines = [f'  <access method="{method}" roles="amq,exporter"/>' for method in methods()]
    return "\n".join(
        ['<match domain="org.apache.activemq.artemis">', *lines, '  <access method="*" roles="amq"/>', "</match>"]
    )
