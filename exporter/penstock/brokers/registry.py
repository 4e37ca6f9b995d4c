"""All kinds of brokers, by name, and what the rest of the agent asks of a kind in place of its name."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.classic.reader import ClassicReader
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.model import BROKER_KINDS, BrokerKind
from penstock.transports.transport import Hint, Reader, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """about: its name, and what rules must know of it. reader: makes its reader over a transport. hint: what to look at
    when it refuses. reuse_connections: over HTTP. port_mapper: it has OpenMQ's, which URLs may name (mq://HOST:PORT).
    checks_origin: its console refuses a call without the header Origin.
    """

    about: BrokerKind
    reader: Callable[[Transport, ReaderOptions, Executor | None], Reader]
    hint: Hint
    reuse_connections: bool = True
    port_mapper: bool = False
    checks_origin: bool = False


ARTEMIS = Kind(
    about=BrokerKind.ARTEMIS,
    reader=ArtemisReader,
    hint=Hint(
        refused="check username and password, and that one of the user's roles may use the console (HAWTIO_ROLES in"
        " etc/artemis.profile)",
        refused_jmx="check username and password, and that etc/management.xml lets one of the user's roles read",
        certificate="is it in etc/cert-users.properties, and its user's role in etc/cert-roles.properties"
        " (docs/artemis.md)?",
        path="Artemis serves it at /console/jolokia/",
    ),
    checks_origin=True,
)
OPENMQ = Kind(
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
CLASSIC = Kind(
    about=BrokerKind.CLASSIC,
    reader=ClassicReader,
    hint=Hint(
        refused="check username and password: those of the console (conf/jetty-realm.properties), not of the broker",
        path="ActiveMQ serves it at /api/jolokia/, its console must be on (jetty.xml in conf/activemq.xml)",
    ),
    checks_origin=True,
)
KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    KINDS[kind.about.name] = kind
    BROKER_KINDS[kind.about.name] = kind.about


register(ARTEMIS)
register(OPENMQ)
register(CLASSIC)
