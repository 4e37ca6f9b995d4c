"""Eclipse OpenMQ: what to ask, how to read the answers, one Snapshot a poll."""

from penstock.brokers.kind import Kind
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.model import BrokerKind
from penstock.transports.transport import Hint

KIND = Kind(
    about=BrokerKind.OPENMQ,
    reader=OpenMQReader,
    hint=Hint(
        refused="check username and password: those of the Jolokia agent (its options user and password), not of the"
        " broker",
        refused_jmx="OpenMQ lets in administrators only",
        path="the JVM agent serves it at /jolokia/",
    ),
    reuse_connections=False,  # the JVM agent's web server answers 40 ms later on a connection that is kept
    port_mapper=True,
)

__all__ = ["KIND", "OpenMQReader"]
