"""The requests to OpenMQ: the only place where requests are made, all of them reads.

Names of MBeans, attributes and operations are those of the broker's JMX interface (4.5 to 6.7). Consumers, producers
and transactions have no MBean: they are listed by operations of their managers.
"""

from collections.abc import Sequence

from penstock.brokers.openmq import answers as wire
from penstock.brokers.requests import attributes, call, quote, read
from penstock.transports.transport import Request

DOMAIN = "com.sun.messaging.jms.server"

# Each of these walks all messages of the destination under its lock.
DEPTH_ATTRIBUTES = attributes(wire.Depth)
# Kept by the broker as running numbers: free of cost, whatever the destination holds.
CHEAP_ATTRIBUTES = attributes(wire.Destination)[len(DEPTH_ATTRIBUTES) :]
# All but Name and Type walk the messages too.
SETTINGS_ATTRIBUTES = attributes(wire.Settings)


def _read(mbean: str, attributes: Sequence[str]) -> Request:
    return read(f"{DOMAIN}:{mbean}", attributes)


def _call(mbean: str, operation: str, *arguments: str) -> Request:
    return call(f"{DOMAIN}:{mbean}", operation, *arguments)


ABOUT = (
    _read("type=Broker,subtype=Monitor", ("Version", "Host", "Port", "ResourceState")),
    {
        "type": "read",
        "mbean": "java.lang:type=Runtime",
        "attribute": ["StartTime", "Uptime"],
    },
    _read("type=JVM,subtype=Monitor", ("TotalMemory", "FreeMemory", "MaxMemory")),
    _read(
        "type=DestinationManager,subtype=Monitor",
        ("NumMsgs", "NumMsgsInDMQ", "TotalMsgBytes"),
    ),
    _read("type=DestinationManager,subtype=Config", ("MaxTotalMsgBytes",)),
    _read("type=ConnectionManager,subtype=Monitor", ("NumConnections",)),
)
"""The attributes of the broker itself."""
CONNECTIONS = _read("type=Connection,subtype=Monitor,*", attributes(wire.Connection))
CONSUMERS = _call("type=ConsumerManager,subtype=Monitor", "getConsumerInfo")
PRODUCERS = _call("type=ProducerManager,subtype=Monitor", "getProducerInfo")
TRANSACTIONS = _call("type=TransactionManager,subtype=Monitor", "getTransactionInfo")
ALL_SETTINGS = _read("type=Destination,subtype=Config,*", SETTINGS_ATTRIBUTES)


def destinations(attributes: Sequence[str]) -> Request:
    """All destinations; attributes that this version lacks are left out of the answer."""
    return _read("type=Destination,subtype=Monitor,*", attributes)


def depth(kind: str, name: str) -> Request:
    """One destination's expensive attributes; `kind` is q or t."""
    return _read(_destination("Monitor", kind, name), DEPTH_ATTRIBUTES)


def settings(kind: str, name: str) -> Request:
    return _read(_destination("Config", kind, name), SETTINGS_ATTRIBUTES)


def _destination(subtype: str, kind: str, name: str) -> str:
    return f"type=Destination,subtype={subtype},desttype={kind},name={quote(name)}"


def consumer(consumer_id: int) -> Request:
    """One consumer; the only way to a member of a durable or shared subscription."""
    return _call(
        "type=ConsumerManager,subtype=Monitor", "getConsumerInfoByID", str(consumer_id)
    )


def consumer_ids(connection_id: int) -> Request:
    return _call(
        f"type=Connection,subtype=Monitor,id={connection_id}", "getConsumerIDs"
    )
