"""What a rule of the findings is, and what it finds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.conditions.wording import Known
from penstock.findings.context import FindingContext
from penstock.model import BrokerKind

ARTEMIS = frozenset({BrokerKind.ARTEMIS})
OPENMQ = frozenset({BrokerKind.OPENMQ})


class FindingScope(StrEnum):
    """What a finding is about; the object of a client is `QUEUE/CLIENT`, of a connection its client."""

    BROKER = "broker"
    ADDRESS = "address"
    QUEUE = "queue"
    CLIENT = "client"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FindingRule:
    """
    All that is known of a rule.

    find: the first finding of an object counts. says, advice: with names of the evidence in braces. when, arithmetic:
    when it applies and what it shows, for the documentation. evidence: names of the numbers by unit. brokers: kinds on
    which it can apply, None: all.
    """

    name: str
    scope: FindingScope
    find: Callable[["FindingRule", FindingContext], "Found"]
    says: str
    advice: str
    when: str
    arithmetic: str
    evidence: Mapping[str, tuple[str, ...]]
    brokers: frozenset[BrokerKind] | None = None

    @property
    def units(self) -> Mapping[str, str]:
        return {name: unit for unit, names in self.evidence.items() for name in names}


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A rule that applies to an object.

    address, queue, client: which ones it concerns, empty where it concerns all. evidence: the numbers that are known.
    texts: further words of `says` and `advice`. on: addresses and queues that a connection's finding concerns.
    """

    rule: FindingRule
    object: str
    address: str = ""
    queue: str = ""
    client: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    on: tuple[tuple[str, str], ...] = ()

    @property
    def scope(self) -> FindingScope:
        return self.rule.scope

    @property
    def says(self) -> str:
        return self.rule.says.format_map(Known({**self.evidence, **self.texts}))

    @property
    def advice(self) -> str:
        return self.rule.advice.format_map(Known({**self.evidence, **self.texts}))


Found = Iterator[Finding]
"""What a rule finds."""
