"""What a rule of the findings is, and what it finds."""

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
    """find: the first finding of an object counts. says, advice: with names of the evidence in braces. when,
    arithmetic: when it applies and what it shows, for the documentation. evidence: names of the numbers by unit.
    brokers: kinds on which it can apply, None: all.
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
        return {
            name: unit
            for unit, names in self.evidence.items()
            for name in names.split()
        }


def finding_rule(**numbers: float) -> Callable[[Find], FindingRule]:
    """Makes a rule of the function that finds it, of the same name in `catalogue.toml`. numbers: for ${name} there."""

    def rule(find: Find) -> FindingRule:
        said = filled(CATALOGUE[find.__name__], numbers, "when", "advice", "arithmetic")
        brokers = (
            frozenset(BROKER_KINDS[kind] for kind in said["brokers"])
            if "brokers" in said
            else None
        )
        fields = said | {"scope": FindingScope(said["scope"]), "brokers": brokers}
        return FindingRule(name=find.__name__, find=find, **fields)

    return rule


CATALOGUE = read_toml("penstock.findings")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that applies to an object.

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
        return self.rule.says.format_map(NumbersToTell({**self.evidence, **self.texts}))

    @property
    def advice(self) -> str:
        return self.rule.advice.format_map(
            NumbersToTell({**self.evidence, **self.texts})
        )


Found = Iterator[Finding]
"""What a rule finds."""


# --- from rows of a table to findings about what they name

FEW = 10
"""Messages or consumers: fewer show no pattern."""
Texts = Callable[[int], Mapping[str, str]]
"""Words of says and advice, by the position of a connection."""


def of_queues(
    rule: FindingRule, context: FindingContext, holds: Mask, **evidence: Column
) -> Found:
    for i in np.flatnonzero(holds).tolist():
        row: QueueRow = context.queues.index.rows[i]
        yield Finding(rule, row.name, row.address, row.name, evidence=at(i, evidence))


def of_clients(
    rule: FindingRule, clients: Clients, holds: Mask, **evidence: Column
) -> Found:
    rows = np.flatnonzero(holds)
    for i, protocol in zip(rows.tolist(), clients.protocols(rows), strict=True):
        texts = {"knob": KNOBS.get(protocol, "a smaller window or prefetch")}
        yield of_client(rule, clients.grouping.index.rows[i], at(i, evidence), texts)


def of_client(
    rule: FindingRule,
    row: ClientSeries,
    evidence: Mapping[str, float],
    texts: Mapping[str, str],
) -> Finding:
    return Finding(
        rule,
        f"{row.queue}/{row.client}",
        row.address,
        row.queue,
        row.client,
        finite(evidence),
        texts,
    )


def of_connections(
    rule: FindingRule,
    flow: FlowControl,
    holds: Mask,
    *,
    order: Column,
    texts: Texts = lambda _: {},
    **evidence: Column,
) -> Found:
    """Those with the highest `order` first."""
    evidence = {"consumers": flow.connections.consumers, **evidence}
    for i in np.flatnonzero(holds)[
        np.argsort(-np.nan_to_num(order[holds]), kind="stable")
    ].tolist():
        rows: list[ConsumerRow] = flow.consumers.index.rows[
            flow.connection == flow.connections.keys[i]
        ].tolist()
        yield of_connection(rule, rows, at(i, evidence), texts(i))


def of_connection(
    rule: FindingRule,
    rows: Sequence[ConsumerRow],
    evidence: Mapping[str, float],
    texts: Mapping[str, str],
) -> Finding:
    """By the name of its client, as ids change at reconnects. rows: its consumers."""
    client = rows[0].client
    on = tuple(sorted({(row.address, row.queue) for row in rows}))
    return Finding(
        rule, client, client=client, evidence=finite(evidence), texts=texts, on=on
    )


def at(i: int, evidence: Mapping[str, Column]) -> dict[str, float]:
    return finite({name: float(column[i]) for name, column in evidence.items()})


def finite(evidence: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in evidence.items() if isfinite(value)}
