"""All kinds of brokers, by name, and what the rest of the agent needs of a kind in place of its name."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.classic.reader import ClassicReader
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.core.catalogues import read_toml
from penstock.model import BROKER_KINDS, BrokerKind
from penstock.transports.transport import Hint, Reader, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredKind:
    """A kind of broker. about: its name, and the facts that rules need. reader: makes its reader over a transport.
    hint: the advice when it refuses. reuse_connections: over HTTP. port_mapper: it has OpenMQ's, which URLs may name
    (mq://HOST:PORT). checks_origin: its console refuses a call without the header Origin.
    """

    about: BrokerKind
    reader: Callable[[Transport, ReaderOptions, Executor | None], Reader]
    hint: Hint
    reuse_connections: bool = True
    port_mapper: bool = False
    checks_origin: bool = False


_HINTS = {
    name: Hint(**texts["hint"])
    for name, texts in read_toml("penstock.brokers", "texts.toml").items()
}
ARTEMIS = RegisteredKind(
    about=BrokerKind.ARTEMIS,
    reader=ArtemisReader,
    hint=_HINTS["artemis"],
    checks_origin=True,
)
OPENMQ = RegisteredKind(
    about=BrokerKind.OPENMQ,
    reader=OpenMQReader,
    hint=_HINTS["openmq"],
    reuse_connections=False,  # the JVM agent's web server answers 40 ms later on a connection that is kept
    port_mapper=True,
)
CLASSIC = RegisteredKind(
    about=BrokerKind.CLASSIC,
    reader=ClassicReader,
    hint=_HINTS["classic"],
    checks_origin=True,
)
KINDS: dict[str, RegisteredKind] = {}


def register(kind: RegisteredKind) -> None:
    KINDS[kind.about.name] = kind
    BROKER_KINDS[kind.about.name] = kind.about


register(ARTEMIS)
register(OPENMQ)
register(CLASSIC)
