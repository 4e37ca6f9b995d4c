"""A rule of the findings, and a finding; from rows of a table to findings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import TypeAlias

import numpy as np

from penstock.conditions.wording import KNOBS, NumbersToTell
from penstock.core.catalogues import filled, read_toml
from penstock.core.table import Column, Mask
from penstock.findings.usage import Clients, FindingContext, FlowControl
from penstock.model import BROKER_KINDS, BrokerKind, ConsumerRow, QueueRow
from penstock.series.labels import ClientSeries


class FindingScope(StrEnum):
    """What a finding is about; the object of a client is `QUEUE/CLIENT`, of a connection its client."""

    BROKER = "broker"
    ADDRESS = "address"
    QUEUE = "queue"
    CLIENT = "client"
    CONNECTION = "connection"


Find: TypeAlias = Callable[["FindingRule", FindingContext], Iterator["Finding"]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FindingRule:
    """A rule.

    Attributes:
        name: Its name in the catalogue.
        scope: What its findings are about.
        find: Returns its findings; the first one of an object counts.
        says, advice: Texts with names of the evidence in braces.
        when, arithmetic: When it applies and what it computes, for the documentation.
        evidence: The names of its numbers, divided by blanks, by unit.
        brokers: The kinds of broker on which it can apply; None: all.
    """

    name: str
    scope: FindingScope
    find: Find
    says: str
    advice: str
    when: str
    arithmetic: str
    evidence: Mapping[str, str]
    brokers: frozenset[BrokerKind] | None = None

    @property
    def units(self) -> Mapping[str, str]:
        """Return the unit of each number of the evidence."""
        return {
            name: unit
            for unit, names in self.evidence.items()
            for name in names.split()
        }


def finding_rule(**numbers: float) -> Callable[[Find], FindingRule]:
    """Return a decorator that makes a `FindingRule` of a function and of the catalogue's section with its name.

    numbers: for ${name} in the texts of that section.
    """

    def rule(find: Find) -> FindingRule:
        """Return the rule that `find` and the catalogue make."""
        name = find.__name__
        fields = filled(CATALOGUE[name], numbers, "when", "advice", "arithmetic")
        fields["scope"] = FindingScope(fields["scope"])
        if "brokers" in fields:
            fields["brokers"] = frozenset(
                BROKER_KINDS[kind] for kind in fields["brokers"]
            )
        return FindingRule(name=name, find=find, **fields)

    return rule


CATALOGUE = read_toml("penstock.findings")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that applies to an object.

    Attributes:
        rule: The rule.
        object: The name of the object.
        address, queue, client: What it concerns; empty where it concerns all.
        evidence: The numbers that are not missing.
        texts: Further words of `says` and `advice`.
        on: Address and name of each queue that a finding about a connection concerns.
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
        return self.rule.says.format_map(self._words())

    @property
    def advice(self) -> str:
        return self.rule.advice.format_map(self._words())

    def _words(self) -> NumbersToTell:
        """Return the words for the names in braces."""
        return NumbersToTell({**self.evidence, **self.texts})


Found = Iterator[Finding]
"""The findings of a rule."""


# --- from rows of a table to findings about them

FEW = 10
"""Messages or consumers: fewer show no pattern."""
Columns = Mapping[str, Column]
"""The evidence of all rows, by name."""
Numbers = Mapping[str, float]
"""The evidence of one row, by name."""
Texts = Callable[[int], Mapping[str, str]]
"""Returns words of `says` and `advice`, by the position of a connection."""


def of_queues(
    rule: FindingRule, context: FindingContext, applies: Mask, evidence: Columns
) -> Found:
    """Return a finding for each queue to which the rule applies. applies: (queues,)."""
    for row in np.flatnonzero(applies).tolist():
        queue: QueueRow = context.queues.index.rows[row]
        yield Finding(
            rule,
            queue.name,
            address=queue.address,
            queue=queue.name,
            evidence=numbers_of(row, evidence),
        )


def of_clients(
    rule: FindingRule, clients: Clients, applies: Mask, evidence: Columns
) -> Found:
    """Return a finding for each client to which the rule applies. applies: (clients,)."""
    rows = np.flatnonzero(applies)
    for row, protocol in zip(rows.tolist(), clients.protocols(rows), strict=True):
        client: ClientSeries = clients.grouping.index.rows[row]
        # The advice names the setting of the client's protocol.
        texts = {"knob": KNOBS.get(protocol, "a smaller window or prefetch")}
        yield of_client(rule, client, numbers_of(row, evidence), texts)


def of_client(
    rule: FindingRule,
    client: ClientSeries,
    evidence: Numbers,
    texts: Mapping[str, str],
) -> Finding:
    """Return a finding about a client."""
    return Finding(
        rule,
        f"{client.queue}/{client.client}",
        client.address,
        client.queue,
        client.client,
        without_missing(evidence),
        texts,
    )


def no_texts(_: int) -> Mapping[str, str]:
    return {}


def of_connections(
    rule: FindingRule,
    flow: FlowControl,
    applies: Mask,
    evidence: Columns,
    *,
    order: Column,
    texts: Texts = no_texts,
) -> Found:
    """Return a finding for each connection to which the rule applies, those with the highest `order` first.

    applies, order: (connections,).
    """
    connections = flow.connections
    evidence = {"consumers": connections.consumers, **evidence}
    highest_first = np.argsort(-np.nan_to_num(order[applies]), kind="stable")
    for row in np.flatnonzero(applies)[highest_first].tolist():
        on_connection = flow.connection == connections.keys[row]
        consumers: list[ConsumerRow] = flow.consumers.index.rows[on_connection].tolist()
        yield of_connection(rule, consumers, numbers_of(row, evidence), texts(row))


def of_connection(
    rule: FindingRule,
    consumers: Sequence[ConsumerRow],
    evidence: Numbers,
    texts: Mapping[str, str],
) -> Finding:
    """Return a finding about the connection of these consumers.

    Its object is the client's name, not the connection's id, which changes at each reconnect.
    """
    client = consumers[0].client
    queues = sorted({(consumer.address, consumer.queue) for consumer in consumers})
    return Finding(
        rule,
        client,
        client=client,
        evidence=without_missing(evidence),
        texts=texts,
        on=tuple(queues),
    )


def numbers_of(row: int, evidence: Columns) -> dict[str, float]:
    """Return the evidence of one row."""
    return without_missing(
        {name: float(column[row]) for name, column in evidence.items()}
    )


def without_missing(evidence: Numbers) -> dict[str, float]:
    return {name: value for name, value in evidence.items() if isfinite(value)}
