"""Every condition by name: what it is raised on, what may be behind it, what to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from penstock.model import BrokerKind


class Severity(IntEnum):
    """The value of the metric is the number; an info is a notice."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class Scope(StrEnum):
    QUEUE = "queue"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class OpenmqWords:
    """Causes, and advice where that is another too."""

    causes: tuple[str, ...]
    advice: str = ""


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
    on_openmq: "OpenmqWords | None" = None
    """Where another broker has other causes."""

    def causes_on(self, broker: BrokerKind) -> tuple[str, ...]:
        return self.on_openmq.causes if self.on_openmq and broker is BrokerKind.OPENMQ else self.causes

    def advice_on(self, broker: BrokerKind) -> str:
        own = self.on_openmq.advice if self.on_openmq and broker is BrokerKind.OPENMQ else ""
        return own or self.advice


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
        on_openmq=OpenmqWords(
            (
                "a listener that is blocked",
                "receive() that is not called",
                "CLIENT_ACKNOWLEDGE that never comes, or that a reconnect has made invalid until recover()",
                "a process that is frozen",
                "a STOMP reader that has stopped, acknowledges nothing, or leaves a transaction open",
                "a job longer than any before",
            ),
        ),
    ),
    Kind(
        "open_transaction",
        Scope.CLIENT,
        ("an AMQP, STOMP or XA transaction that is not committed", "Core with acknowledgements sent at once"),
        "has {uncommitted:.0f} messages acknowledged and uncommitted for {age:.0f} s: commit or close it",
        on_openmq=OpenmqWords(
            (
                "a transaction that is not committed",
                "one that has failed: more than imq.transaction.consumer.maxNumMsgs (100) messages in it",
            ),
        ),
    ),
    Kind(
        "orphaned",
        Scope.CLIENT,
        ("its session is gone and the broker has kept the consumer",),
        "holds {held:.0f} messages and its session is gone: close it by the broker's management (closeConsumerWithID),"
        " which returns them{at_risk_text}",
    ),
    Kind(
        "redelivery_loop",
        Scope.QUEUE,
        ("rollback", "recover", "AMQP release", "an exception in the listener"),
        "{returned:.0f} of {delivered:.0f} deliveries came back, {settled:.0f} were settled: set max-delivery-attempts"
        " and a redelivery delay, look at the message in front",
        on_openmq=OpenmqWords(
            (
                "rollback",
                "recover",
                "an exception in the listener",
            ),
            advice="{returned:.0f} of {delivered:.0f} deliveries came back, {settled:.0f} were settled: by default"
            " nothing ends that, look at the message in front and at the client's log",
        ),
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
        on_openmq=OpenmqWords(
            (
                "a selector that matches nothing here",
                "a connection that is not started",
                "prefetch is off (imqConsumerFlowLimitPrefetch) and the application does not call receive()",
                "the flow limit of the connection, filled by another of its consumers",
            ),
            advice="{ready:.0f} messages wait, {consumers:.0f} consumers take none for {age:.0f} s{paused_text}",
        ),
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
        on_openmq=OpenmqWords(
            (
                "the destination is full by count or by bytes and its behaviour is FLOW_CONTROL",
                "an operator closed it to producers",
            ),
            advice="{producers:.0f} producers wait at {ready:.0f} waiting messages, the limit is {limit:.0f}; see the"
            " stalled or absent consumer beside it",
        ),
    ),
    Kind(
        "rejecting",
        Scope.QUEUE,
        ("the address is full and its policy is DROP or FAIL",),
        "the address is full at {limit_percent:.0f} % of its limit; under DROP messages vanish silently",
        on_openmq=OpenmqWords(
            (
                "the destination is full and its behaviour is REJECT_NEWEST",
                "messages are larger than MaxBytesPerMsg",
            ),
            advice="{rejected:.0f} messages were refused since the agent watches, {ready:.0f} wait, the limit is"
            " {limit:.0f}; those that are not persistent vanish silently",
        ),
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
        on_openmq=OpenmqWords(
            ("a consumer prefetched nearly everything while its peers have nothing",),
            advice="one consumer holds {most:.0f} of {held:.0f} messages: a smaller imqConsumerFlowLimit (or"
            " ConsumerFlowLimit of the destination) shares them",
        ),
    ),
    Kind(
        "connection_paused",
        Scope.QUEUE,
        ("a consumer on the same connection uses up the connection's flow limit (imqConnectionFlowLimit)",),
        "{ready:.0f} messages wait while {held:.0f} lie unread with another consumer of the same connection: give that"
        " one a connection of its own, or limit it by imqConsumerFlowLimit",
    ),
    Kind(
        "producer_transaction_open",
        Scope.QUEUE,
        ("a producer has sent in a transaction and does not commit", "its process is frozen"),
        "{uncommitted:.0f} messages were sent {age:.0f} s ago and are not committed; nobody can read them, and the"
        " broker ends the transaction at imq.transaction.producer.maxNumMsgs",
    ),
    Kind(
        "limit_losing",
        Scope.QUEUE,
        ("the destination is full and its limit behaviour removes messages",),
        "{evicted:.0f} messages were thrown away unread since the agent watches, {removed:.0f} in the last poll: raise"
        " the limit, or have producers wait (FLOW_CONTROL)",
    ),
    Kind(
        "removed_unsettled",
        Scope.QUEUE,
        ("messages expire before they are read", "an operator purges", "messages are dead after failed deliveries"),
        "{rate:.2f} messages a second leave unread: hold their time to live against the time to drain",
        info=True,
    ),
    Kind(
        "holder_gone",
        Scope.CLIENT,
        ("its connection died and the broker ended it",),
        "a consumer went away that held {held:.0f} messages for {age:.0f} s; {returned:.0f} went back to the queue",
        info=True,
        event=True,
    ),
    Kind(
        "unknown",
        Scope.QUEUE,
        (),
        "wait for more polls; if it stays, see what is not known of the queue, and `penstock check`",
        info=True,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}


NO_EVIDENCE: Mapping[str, float] = {}


class Condition(NamedTuple):
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
    evidence: Mapping[str, float] = NO_EVIDENCE
    consumers: int = 0
    silenced: bool = False
    """By a rule of the operator: shown when asked for, and not exported."""
    why: str = ""
    """Of `unknown`: what is missing."""

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]
