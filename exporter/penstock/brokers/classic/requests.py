"""What ActiveMQ Classic is asked: the only place where requests are made, all of them reads of attributes.

Everything has an MBean below that of its broker: no operation is needed, nor allowed by `jolokia-access.xml`.
"""

from msgspec import Struct

from penstock.brokers.classic import answers as wire
from penstock.brokers.requests import attributes, read
from penstock.transports.transport import Request

DOMAIN = "org.apache.activemq:type=Broker,brokerName"
TOPICS = ("Topic",)
QUEUES = ("Queue", "TempQueue")
ABOUT = (
    read(f"{DOMAIN}=*", attributes(wire.About)),
    {"type": "read", "mbean": "java.lang:type=Runtime", "attribute": list(attributes(wire.Machine))},
)
"""What the broker says of itself; its name is in that of its MBean."""


def connections(broker: str) -> Request:
    view = "connector=clientConnectors,connectorName=*,connectionViewType=clientId,connectionName=*"
    return read(f"{DOMAIN}={broker},{view}", attributes(wire.Connection))


def destinations(broker: str, kind: str, row: type[Struct], name: str = "*") -> Request:
    """All of a kind, or that of this name as it stands in the name of its MBean."""
    return read(f"{DOMAIN}={broker},destinationType={kind},destinationName={name}", attributes(row))


def endpoints(broker: str, kind: str, endpoint: str, row: type[Struct]) -> Request:
    """Consumers, or producers, of all destinations of a kind."""
    of = f"destinationType={kind},destinationName=*,endpoint={endpoint}"
    return read(f"{DOMAIN}={broker},{of},*", attributes(row))


def producers(broker: str) -> list[Request]:
    """Those of one destination each, and those that name one with each message."""
    anonymous = read(f"{DOMAIN}={broker},endpoint=dynamicProducer,*", attributes(wire.Producer))
    return [*(endpoints(broker, kind, "Producer", wire.Producer) for kind in (*QUEUES, *TOPICS)), anonymous]
