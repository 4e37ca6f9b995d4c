"""All kinds of brokers, by name."""

from penstock.brokers import artemis, openmq
from penstock.brokers.kind import Kind
from penstock.model import BROKER_KINDS

KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    KINDS[kind.about.name] = kind
    BROKER_KINDS[kind.about.name] = kind.about


register(artemis.KIND)
register(openmq.KIND)
