"""What the rest of the agent asks of a kind of broker, in place of its name."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from penstock.brokers.engine import ReaderOptions
from penstock.model import BrokerKind
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
