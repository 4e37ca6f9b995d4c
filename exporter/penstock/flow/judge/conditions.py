"""Every condition by name: what it is raised on, what may be behind it, what to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Severity(IntEnum):
    """The value of the metric is the number; an info is a notice."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class Scope(StrEnum):
    QUEUE = "queue"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Kind:
    """
    A condition as such.

    causes: what looks like this at the broker; several where it cannot tell them apart. advice: with the names of the
    evidence in braces.
    """

    name: str
    scope: Scope
    causes: tuple[str, ...]
    advice: str
    info: bool = False
    event: bool = False


_KINDS = (
    Kind(
        "stalled",
        Scope.CLIENT,
        (
            "a listener that is blocked",
            "CLIENT_ACKNOWLEDGE or individual acknowledgement that never comes",
            "a Core transaction that is not committed (its acknowledgements stay in the client)",
            "a process that is frozen or cut off, until its connection times out",
            "a job longer than any before",
        ),
        "holds {held:.0f} messages for {age:.0f} s, usual are {patience:.0f} s; closing it returns them{at_risk_text}",
    ),
    Kind(
        "open_transaction",
        Scope.CLIENT,
        ("an AMQP, STOMP or XA transaction that is not committed", "Core with acknowledgements sent at once"),
        "has {uncommitted:.0f} messages acknowledged and uncommitted for {age:.0f} s: commit or close it",
    ),
    Kind(
        "redelivery_loop",
        Scope.QUEUE,
        ("rollback", "recover", "AMQP release", "an exception in the listener"),
        "{returned:.0f} of {delivered:.0f} deliveries came back, {settled:.0f} were settled: set max-delivery-attempts"
        " and a redelivery delay, look at the message in front",
    ),
    Kind(
        "churn_without_progress",
        Scope.CLIENT,
        ("a client that reconnects and fails each time",),
        "{consumers_seen:.0f} consumers came and went in {age:.0f} s, nothing was settled: look at the client's log",
    ),
    Kind(
        "not_dispatching",
        Scope.QUEUE,
        (
            "a selector that matches nothing here",
            "no AMQP credit",
            "a connection that is not started",
            "a large message under way",
            "a socket that cannot be written",
            "message groups owned by another consumer",
        ),
        "{ready:.0f} messages wait, {consumers:.0f} consumers take none for {age:.0f} s{dispatch_text}",
    ),
    Kind(
        "no_consumer",
        Scope.QUEUE,
        ("the consuming application is down", "it listens to another queue", "nobody was meant to read it"),
        "{ready:.0f} messages wait and nobody reads them, {rate:.1f} come each second",
    ),
    Kind(
        "too_few_consumers",
        Scope.QUEUE,
        ("an instance of the application is down",),
        "{consumers:.0f} of {expected:.0f} consumers",
    ),
    Kind(
        "paused",
        Scope.QUEUE,
        ("an operator paused the queue or its address",),
        "{ready:.0f} messages wait: resume it",
    ),
    Kind(
        "depaging_frozen",
        Scope.QUEUE,
        ("one consumer holds more unacknowledged bytes than the queue may read from its pages",),
        "{delivering_bytes:.0f} bytes are unacknowledged, the queue reads pages up to {limit_bytes:.0f}: all its"
        " consumers wait for the one that holds most",
    ),
    Kind(
        "producers_blocked",
        Scope.QUEUE,
        (
            "the address is full and its policy is BLOCK",
            "an operator blocks it",
            "disk or memory of the broker is full",
        ),
        "producers wait; see the stalled or absent consumer beside it",
    ),
    Kind(
        "rejecting",
        Scope.QUEUE,
        ("the address is full and its policy is DROP or FAIL",),
        "the address is full at {limit_percent:.0f} % of its limit; under DROP messages vanish silently",
    ),
    Kind(
        "ring_losing",
        Scope.QUEUE,
        ("more comes than the ring holds until it is read",),
        "{evicted:.0f} messages were thrown away unread, {rate:.1f} each second",
        info=True,
    ),
    Kind(
        "ring_lost_by_consumer",
        Scope.QUEUE,
        ("a consumer closed, lost its connection or rolled back, and what it returned did not fit",),
        "{lost:.0f} messages came back to a full ring and were thrown away: a smaller consumerWindowSize holds fewer",
        event=True,
    ),
    Kind(
        "expiring",
        Scope.QUEUE,
        ("messages outlive their time to live before they are read",),
        "{rate:.2f} messages expire each second",
        info=True,
    ),
    Kind(
        "dead_lettering",
        Scope.QUEUE,
        ("deliveries fail max-delivery-attempts times", "an operator removes messages"),
        "{rate:.2f} messages a second go to the dead letters",
        info=True,
    ),
    Kind(
        "falling_behind",
        Scope.QUEUE,
        ("more comes than the consumers work off",),
        "{rate_in:.1f} come and {rate_out:.1f} go each second: {consumers_needed:.0f} consumers at this pace keep up",
    ),
    Kind(
        "hoarding",
        Scope.QUEUE,
        ("a consumer prefetched nearly everything while its peers have nothing",),
        "one consumer holds {most:.0f} of {held:.0f} messages: a smaller consumerWindowSize (or prefetch) shares them",
    ),
    Kind(
        "holder_gone",
        Scope.CLIENT,
        ("its connection died and the broker ended it",),
        "a consumer went away that held {held:.0f} messages for {age:.0f} s; {returned:.0f} went back to the queue",
        info=True,
        event=True,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True, slots=True)
class Condition:
    """
    A condition that stands. Times by the agent's clock, seconds since 1970.

    client: empty for one of the queue itself. consumers: how many of the client's consumers are in it.
    """

    name: str
    broker: str
    address: str
    queue: str
    client: str
    severity: Severity
    since: float
    evidence: Mapping[str, float] = field(default_factory=dict)
    consumers: int = 0
    silenced: bool = False
    """By a rule of the operator: shown when asked for, and not exported."""

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]
