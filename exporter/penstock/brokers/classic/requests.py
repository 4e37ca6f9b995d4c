"""The requests to ActiveMQ Classic: the only place where requests are made, all of them reads of attributes.

Everything has an MBean below that of its broker: no operation is needed, nor allowed by `jolokia-policy.xml`.
"""

from msgspec import Struct

from penstock.brokers.classic import answers as wire
from penstock.brokers.requests import attributes, read
from penstock.transports.transport import Request

DOMAIN = "org.apache.activemq:type=Broker,brokerName"
QUEUE = "*Queue"
TOPIC = "Topic"
"""Types of destinations; temporary queues are queues, too. Each pattern is compared with all MBeans of the broker."""
ABOUT = (
    read(f"{DOMAIN}=*", attributes(wire.About)),
    {
        "type": "read",
        "mbean": "java.lang:type=Runtime",
        "attribute": list(attributes(wire.Machine)),
    },
)
"""The attributes of the broker itself; its name is in that of its MBean."""


def connections(broker: str) -> Request:
    view = "connector=clientConnectors,connectorName=*,connectionViewType=clientId,connectionName=*"
    return read(f"{DOMAIN}={broker},{view}", attributes(wire.Connection))


def destinations(broker: str, kind: str, row: type[Struct], name: str = "*") -> Request:
    """All destinations of a kind, or the one of this name, as written in the name of its MBean."""
    return read(
        f"{DOMAIN}={broker},destinationType={kind},destinationName={name}",
        attributes(row),
    )


def consumers(broker: str, kind: str, row: type[Struct]) -> Request:
    endpoints = f"destinationType={kind},destinationName=*,endpoint=Consumer"
    return read(f"{DOMAIN}={broker},{endpoints},*", attributes(row))


def producers(broker: str) -> Request:
    """Producers with one destination (Producer), and producers that name one with each message (dynamicProducer)."""
    return read(f"{DOMAIN}={broker},endpoint=*roducer,*", attributes(wire.Producer))
