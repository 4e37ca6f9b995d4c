"""Every finding by the name of its rule: what it says and what to do, with the numbers it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Scope(StrEnum):
    """What a finding is about; the object of a client is `QUEUE/CLIENT`, of a connection its client."""

    BROKER = "broker"
    ADDRESS = "address"
    QUEUE = "queue"
    CLIENT = "client"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule as such. says, advice: with the names of the evidence in braces."""

    rule: str
    says: str
    advice: str


_KINDS = (
    Kind(
        "ring_on_paging_address",
        "the queue is a ring, and its address pages when it is full: a ring holds no paged messages and cannot push"
        " them out",
        "keep the address in memory, or let its policy be DROP, BLOCK or FAIL: {rings:.0f} rings with"
        " {needed_bytes:.0f} bytes when full, against a limit of {limit_bytes:.0f}",
    ),
    Kind(
        "no_dead_letter_address",
        "a message that fails {max_delivery_attempts:.0f} times is thrown away: the queue has no dead-letter address",
        "set dead-letter-address in its address settings; {killed:.0f} messages were given up since the broker's start",
    ),
    Kind(
        "no_expiry_address",
        "messages expire here and are thrown away: the queue has no expiry address",
        "set expiry-address in its address settings, if they matter; {expired:.0f} expired since the broker's start",
    ),
    Kind(
        "dead_letter_address_unbound",
        "dead letters are sent to an address that has no queue, and vanish",
        "create a queue on it; {sources:.0f} queues send there, which gave up {killed:.0f} messages so far",
    ),
    Kind(
        "expiry_address_unbound",
        "expired messages are sent to an address that has no queue, and vanish",
        "create a queue on it; {sources:.0f} queues send there, in which {expired:.0f} messages expired so far",
    ),
    Kind(
        "unlimited_delivery_attempts",
        "a message that always fails is delivered for ever: max-delivery-attempts is {max_delivery_attempts:.0f}",
        "set max-delivery-attempts in the settings of the address, with a dead-letter address",
    ),
    Kind(
        "window_exceeds_ring",
        "what the consumers hold does not fit into the ring: when they close or roll back, up to {at_risk:.0f} messages"
        " are lost",
        "{knob}: a window of {window:.0f} messages for each of {consumers:.0f} consumers makes {held_most:.0f}, in a"
        " ring of {ring:.0f}; {advised:.0f} messages each fit ({advised_bytes:.0f} bytes)",
    ),
    Kind(
        "slow_consumer_policy",
        "the broker cuts off consumers slower than {slow_rate:.3g} messages a second, and this client lawfully takes"
        " {gap:.1f} s for one",
        "set slow-consumer-policy NOTIFY, or slow-consumer-threshold below {rate:.3g} a second",
    ),
    Kind(
        "consumer_per_message",
        "the client opens a consumer for each message: {new:.0f} came in {seconds:.0f} s, each got {each:.1f} messages",
        "keep the consumer (and its session and connection) open, or use a pool that caches consumers",
    ),
    Kind(
        "prefetch_exceeds_queue",
        "one consumer can take all: it takes {prefetch:.0f} messages ahead, times {consumers:.0f} consumers that is"
        " {taken_most:.0f}, and the queue never held more than {deepest:.0f}",
        "{knob}: at most {advised:.0f} messages each would share what there is",
    ),
    Kind(
        "flow_threshold_extreme",
        "the client asks for more when {resume:.0f} of {limit:.0f} messages are left (imqConsumerFlowThreshold"
        " {threshold:.0f} %): {effect}",
        "without a specific need leave imqConsumerFlowThreshold at 50: it asks for {limit:.0f} - {resume:.0f} ="
        " {batch:.0f} messages at least",
    ),
    Kind(
        "flow_limit_exceeds_memory",
        "the buffers of one connection can take {most_bytes:.0f} bytes, and the client may use {memory:.0f}",
        "set imqConsumerFlowLimit {advised:.0f}: {consumers:.0f} consumers with {limit:.0f} messages of"
        " {mean_bytes:.0f} bytes each are {most_bytes:.0f}; {held_bytes:.0f} are held now",
    ),
    Kind(
        "connection_limit_advised",
        "the connection has {fewest:.0f} to {consumers_most:.0f} consumers, so imqConsumerFlowLimit does not bound its"
        " memory",
        "set imqConnectionFlowLimitEnabled=true and imqConnectionFlowLimit {advised:.0f}: {consumers_most:.0f}"
        " consumers with {limit:.0f} messages of {mean_bytes:.0f} bytes can take {most_bytes:.0f}, the client may use"
        " {memory:.0f} (client_memory of its rule)",
    ),
    Kind(
        "connection_count_advised",
        "imqConnectionFlowCount ({count:.0f} unless it was set) does not suit {why}: {ahead_bytes:.0f} bytes go before"
        " an acknowledgement gets through, at {rate:.3g} messages a second",
        "make it {change}, {advised:.0f}",
    ),
    Kind(
        "session_overloaded",
        "all {consumers:.0f} consumers of one {what} have {held:.0f} messages in hand while {waiting:.0f} more wait, at"
        " {looks:.0f} looks in a row: a session handles one message at a time",
        "spread consumers and producers over more sessions, sessions over more connections{remark}",
    ),
    Kind(
        "management_guard_off",
        "the account that Penstock uses may read messages (FirstMessageAge of a queue)",
        "give Penstock a role of its own; or a -javaagent in the broker's JVM has switched etc/management.xml off, and"
        " then any account may purge too",
    ),
)

KINDS: Mapping[str, Kind] = {kind.rule: kind for kind in _KINDS}

UNITS: Mapping[str, str] = {
    "ring": "messages",
    "rings": "queues",
    "needed_bytes": "bytes",
    "limit_bytes": "bytes",
    "mean_bytes": "bytes",
    "killed": "messages",
    "expired": "messages",
    "sources": "queues",
    "max_delivery_attempts": "deliveries",
    "window": "messages",
    "consumers": "consumers",
    "held_most": "messages",
    "at_risk": "messages",
    "advised": "messages",
    "advised_bytes": "bytes",
    "slow_rate": "messages/second",
    "rate": "messages/second",
    "gap": "seconds",
    "period": "seconds",
    "new": "consumers",
    "seconds": "seconds",
    "each": "messages",
    "prefetch": "messages",
    "taken_most": "messages",
    "deepest": "messages",
    "limit": "messages",
    "resume": "messages",
    "threshold": "percent",
    "batch": "messages",
    "starved": "of the polls",
    "at_limit": "of the polls",
    "most_bytes": "bytes",
    "held_bytes": "bytes",
    "memory": "bytes",
    "fewest": "consumers",
    "consumers_most": "consumers",
    "changes": "looks",
    "count": "messages",
    "ahead_bytes": "bytes",
    "came": "consumers",
    "held": "messages",
    "waiting": "messages",
    "producers": "producers",
    "looks": "looks",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A rule that holds on an object.

    address, queue, client: which ones it concerns, empty where it concerns all. evidence: the numbers, those that are
    known. texts: further words of the advice. on: addresses and queues that a connection's finding concerns.
    """

    rule: str
    scope: Scope
    object: str
    address: str = ""
    queue: str = ""
    client: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    on: tuple[tuple[str, str], ...] = ()

    @property
    def says(self) -> str:
        return KINDS[self.rule].says.format_map(_Known({**self.evidence, **self.texts}))

    @property
    def advice(self) -> str:
        return KINDS[self.rule].advice.format_map(_Known({**self.evidence, **self.texts}))


class _Known(dict[str, object]):
    def __missing__(self, key: str) -> "_Unknown":
        return _Unknown()


class _Unknown:
    """A number that the broker did not give."""

    def __format__(self, spec: str) -> str:
        return "an unknown number of"
