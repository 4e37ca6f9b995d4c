"""Apache Artemis and Red Hat AMQ Broker: what to ask, how to read the answers, one Snapshot a poll."""

from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.kind import Kind
from penstock.model import BrokerKind
from penstock.transports.transport import Hint

KIND = Kind(
    about=BrokerKind.ARTEMIS,
    reader=ArtemisReader,
    hint=Hint(
        refused="check username and password, and that one of the user's roles may use the console (HAWTIO_ROLES in"
        " etc/artemis.profile)",
        refused_jmx="check username and password, and that etc/management.xml lets one of the user's roles read",
        path="Artemis serves it at /console/jolokia/",
    ),
    checks_origin=True,
)

__all__ = ["KIND", "ArtemisReader"]
