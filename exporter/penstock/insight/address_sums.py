"""An address, or all addresses, over several brokers; and clusters of brokers.

Brokers are read one after the other, and messages move between them meanwhile: sums of messages have bounds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from msgspec import UNSET

from penstock.assessment.object_state import ObjectState, worst_of
from penstock.insight.answers import (
    Fact,
    Knowledge,
    ListedCondition,
    ObjectView,
    Related,
)
from penstock.insight.broker_view import NotFound, json_number
from penstock.insight.explain import MOST_RELATED

SUMS = (
    "messages",
    "ready",
    "delivering",
    "consumers",
    "added",
    "acknowledged",
    "redistributed",
)
SHOWN_OF_BROKER = SUMS[:4]
COUNTED_ON_EACH_BROKER = ("added", "acknowledged")
"""A message that brokers pass on to each other counts on each of them."""
MOVED = ("messages", "ready", "added")
"""Sums of messages that redistribution moves: one may be on two brokers by numbers of two moments."""
ON_ITS_WAY = "on its way between the brokers, of all addresses"
UNREAD = (ObjectState.DOWN, ObjectState.STALE)


@dataclass(frozen=True, slots=True)
class AddressSum:
    """An address on one broker, or all addresses, and the messages on their way from it to others, which lie in queues
    of links.

    Attributes:
        broker: its name.
        node_id: that it serves, or would serve.
        passive: it serves no client.
        mirror_of: the broker of which it has copies; empty for one that has its own messages.
        links: from it to other brokers.
        stamp: when the poll began.
        read: when the poll had read all.
        before: when the poll before began.
        movable: messages in queues that no consumer reads; 0 where the broker is in no cluster.
        arrived: messages that came since `before`.
        passed_on: messages that went to links since then; 0 where it is in no cluster.
        left: messages that left its links since then; 0 where it is in no cluster.
        on_its_way: messages in its links.
        sums: by `SUMS`; empty where it has no queue of the address.
        conditions: that are active on the address.
        known: its state.
        counts: it has queues of the address, or its queues could not be read.
    """

    broker: str
    node_id: str
    passive: bool
    mirror_of: str
    links: Sequence[Related]
    stamp: float
    read: float
    before: float
    movable: float
    arrived: float
    passed_on: float
    left: float
    on_its_way: float
    sums: Mapping[str, float]
    conditions: Sequence[ListedCondition]
    known: Knowledge
    counts: bool


class SumBounds(NamedTuple):
    """Messages, at least and at most."""

    least: float
    most: float


# --- which brokers belong together


def sum_of_address(
    address: str, parts: Iterable[AddressSum], missing: Mapping[str, str]
) -> ObjectView:
    """An address over the brokers of a cluster. NotFound: none has it.

    Args:
        address: its name.
        parts: of the brokers that are known.
        missing: why nothing is known of a broker, by its name.
    """
    serving_parts = serving(parts)
    if not any(part.sums for part in serving_parts if part.counts):
        reasons = [f"{broker} is not known: {why}" for broker, why in missing.items()]
        raise NotFound(
            f"no broker has queues on an address {address!r}",
            "; ".join(reasons) or "GET /api/v1/queues has all",
        )
    return _summed("address", address, serving_parts, missing)


def clusters(parts: Iterable[AddressSum]) -> list[ObjectView]:
    """Brokers that serve one node id, are linked to each other, or mirror one another, with their sums and links."""
    groups: list[list[AddressSum]] = []
    for part in parts:
        near = [group for group in groups if belongs_to(part, group)]
        others = [group for group in groups if group not in near]
        members = [member for group in near for member in group]
        groups = [*others, [*members, part]]
    return [cluster_view(group) for group in groups if is_cluster(group)]


def belongs_to(part: AddressSum, group: Sequence[AddressSum]) -> bool:
    """Whether the broker is joined with one of the group."""
    return any(joined(part, member) or joined(member, part) for member in group)


def joined(part: AddressSum, other: AddressSum) -> bool:
    """Whether both serve one node id, or the first is linked to the other or mirrors it."""
    if other.node_id and part.node_id == other.node_id:
        return True
    if part.mirror_of and part.mirror_of in (other.broker, other.node_id):
        return True
    return any(leads_to(link, other) for link in part.links)


def leads_to(link: Related, part: AddressSum) -> bool:
    """Whether the link ends at this broker: its name ends with the node id."""
    return bool(part.node_id) and link.name.endswith(part.node_id)


def is_cluster(group: Sequence[AddressSum]) -> bool:
    """Whether it is several brokers, or one with links, and has queues."""
    if not any(part.counts for part in serving(group)):
        return False
    return len(group) > 1 or len(group[0].links) > 0


def serving(parts: Iterable[AddressSum]) -> list[AddressSum]:
    """The brokers that have the messages now.

    Of a pair that is the one that was read last, as its messages have been reloaded there. A mirror has copies.
    """
    by_node: dict[str, AddressSum] = {}
    for part in sorted(parts, key=lambda part: part.stamp):
        if not part.passive:
            by_node[part.node_id or part.broker] = part
    return [part for part in by_node.values() if not part.mirror_of]


def cluster_view(group: Sequence[AddressSum]) -> ObjectView:
    """A cluster with its sums, its brokers and their links."""
    name = ", ".join(part.broker for part in group)
    view = _summed("cluster", name, serving(group), {})
    for part in group:
        view.related.extend(role_in_cluster(part))
        view.related.extend(links_in_cluster(part, group))
    return view


def role_in_cluster(part: AddressSum) -> Iterator[Related]:
    """The broker where it is passive, a mirror or down; nothing for one that the sum names already."""
    down = part.known.why if part.known.state in UNREAD else ""
    if part.mirror_of:
        yield Related("mirrors", "broker", part.broker, down)
    elif part.passive:
        yield Related("has passive", "broker", part.broker, down)
    elif down:
        yield Related("has", "broker", part.broker, down)


def links_in_cluster(
    part: AddressSum, group: Sequence[AddressSum]
) -> Iterator[Related]:
    """The links of a broker, with the names of the brokers at their ends."""
    for link in part.links:
        ends = [member.broker for member in group if leads_to(link, member)]
        end = " or ".join(ends) or link.name
        role = f"links {part.broker} to"
        yield Related(role, link.kind, end, link.told)


# --- their sums


def _summed(
    kind: Literal["address", "cluster"],
    name: str,
    parts: Sequence[AddressSum],
    missing: Mapping[str, str],
) -> ObjectView:
    """An address or a cluster over these brokers. missing: why nothing is known of a broker, by its name."""
    counted = [part for part in parts if part.counts]
    conditions = [condition for part in counted for condition in part.conditions]
    unread = [
        Related("may be on", "broker", broker, f"not known: {why}")
        for broker, why in missing.items()
    ]
    return ObjectView(
        broker="",
        kind=kind,
        name=name,
        stamp=round(min(part.stamp for part in counted), 3),
        knowledge=knowledge_of_sum(counted, missing),
        facts=[*facts_of_sum(counted), fact_on_its_way(parts)],
        conditions=conditions[:MOST_RELATED],
        related=[*map(broker_of_sum, counted), *unread],
        account=[],
    )


def facts_of_sum(parts: Sequence[AddressSum]) -> Iterator[Fact]:
    """The sums over the brokers, by `SUMS`."""
    redistributed = total_of("redistributed", parts)
    for name in SUMS:
        number = total_of(name, parts)
        if name in COUNTED_ON_EACH_BROKER:
            number = max(number - redistributed, 0.0)
        bounds = SumBounds(number, number)
        if name in MOVED:
            bounds = _bounds(name, number, parts)
        yield fact_of(name, bounds)


def total_of(name: str, parts: Sequence[AddressSum]) -> float:
    """The number of this name over all brokers as it was read."""
    return sum(part.sums.get(name, 0.0) for part in parts)


def fact_on_its_way(parts: Sequence[AddressSum]) -> Fact:
    """The messages on their way between the brokers.

    Those that came to another broker after the first one was read are on their way no more.
    """
    on_its_way = sum(part.on_its_way for part in parts)
    came_since = sum(
        min(part.on_its_way, _arrived_after(part, parts)) for part in parts
    )
    return fact_of(ON_ITS_WAY, SumBounds(on_its_way - came_since, on_its_way))


def fact_of(name: str, bounds: SumBounds) -> Fact:
    """A sum with its bounds; as one number where they are equal."""
    least, most = bounds
    bound = UNSET if most == least else json_number(most) or UNSET
    unit = "" if name == "consumers" else "messages"
    return Fact(name, json_number(least), unit, bound)


def broker_of_sum(part: AddressSum) -> Related:
    """A broker with its share of the sums."""
    numbers = [
        f"{name} {part.sums[name]:,.0f}"
        for name in SHOWN_OF_BROKER
        if name in part.sums
    ]
    if not numbers:
        return Related("may be on", "broker", part.broker, part.known.why)
    return Related("is on", "broker", part.broker, ", ".join(numbers))


def knowledge_of_sum(
    parts: Sequence[AddressSum], missing: Mapping[str, str]
) -> Knowledge:
    """The worst state of all brokers, with the reasons of those that are in it.

    Args:
        parts: of the brokers that are known.
        missing: why nothing is known of a broker, by its name.
    """
    by_broker = {part.broker: part.known for part in parts}
    for broker, why in missing.items():
        by_broker[broker] = Knowledge(
            ObjectState.UNKNOWN, f"not known: {why}", None, []
        )
    state = worst_of([ObjectState(known.state) for known in by_broker.values()])
    deciding = {
        broker: known for broker, known in by_broker.items() if known.state == state
    }
    reasons = [f"{broker}: {known.why}" for broker, known in deciding.items()]
    since = [known.since for known in deciding.values() if known.since is not None]
    watched = {
        (each.condition, each.client): each
        for known in deciding.values()
        for each in known.watched
    }
    return Knowledge(
        state=state,
        why="; ".join(reasons),
        since=min(since, default=None),
        watched=list(watched.values()),
    )


def _bounds(name: str, total: float, parts: Sequence[AddressSum]) -> SumBounds:
    """SumBounds of a sum of messages over brokers that were read one after the other.

    Messages that one broker passed on after it was read may count on others that were read later, too. Those that it
    had passed on when it was read may be missing on others that were read before; and those that are still on their way
    have been added nowhere else.

    Args:
        name: of the sum, one of `MOVED`.
        total: the sum of the numbers as they were read.
        parts: the brokers.
    """
    least = total
    most = total
    for part in parts:
        least -= min(part.movable, _arrived_after(part, parts))
        earlier = [
            other for other in parts if other is not part and other.stamp < part.read
        ]
        if earlier:
            passed_on = part.passed_on - part.on_its_way
            least += max(passed_on - _arrived_since(part.before, earlier), 0.0)
            most += part.left
        if name == "added":
            most += min(part.on_its_way, part.sums.get("redistributed", 0.0))
    return SumBounds(max(least, 0.0), max(most, 0.0))


def _arrived_after(part: AddressSum, parts: Sequence[AddressSum]) -> float:
    """Messages that came to the other brokers after this one was read, at most."""
    later = [other for other in parts if other is not part and other.read > part.stamp]
    return _arrived_since(part.stamp, later)


def _arrived_since(moment: float, parts: Sequence[AddressSum]) -> float:
    """Messages that came to these brokers since the moment, at most; infinite where it is before two polls of one."""
    if not all(part.before <= moment for part in parts):
        return np.inf
    return sum(part.arrived for part in parts)
