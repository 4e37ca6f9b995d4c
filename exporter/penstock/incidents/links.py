"""Which condition brings which others on the same queue or address, and which remain as roots of their own.

A condition *brings* another one where the second is its effect: `links.toml` lists the pairs. A *free* condition is one
that no rule for roots has taken.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.core.catalogues import read_toml
from penstock.incidents.incident import Group
from penstock.incidents.symptoms import Symptoms

LINKS = read_toml("penstock.incidents", "links.toml")
SETS = {name: frozenset[str](members) for name, members in LINKS["sets"].items()}
STOPS = SETS["stops"]
LOOPS = SETS["loops"]
BACKLOG = SETS["backlog"]
FAILING = SETS["failing"]


def effects(names: Iterable[str]) -> frozenset[str]:
    """Return the conditions of a list in which some names stand for a whole set."""
    sets = [SETS.get(name, frozenset([name])) for name in names]
    return frozenset[str]().union(*sets)


BRINGS = {name: effects(brought) for name, brought in LINKS["brings"].items()}
"""Conditions that come of a condition, by its name; causes stand before their effects."""
RANK = {name: rank for rank, name in enumerate(BRINGS)}
"""The place of each condition in that list: a cause has a lower one than its effects."""
OF_ADDRESS = {name for name, condition in CONDITIONS.items() if condition.of_address}


def older(
    condition: ActiveCondition, root: ActiveCondition, symptoms: Symptoms
) -> bool:
    """Return whether the condition was there more than two polls before `root`: then it is no effect of it."""
    two_polls = 2 * max(symptoms.poll.found.interval, 0.0)
    return condition.since < root.since - two_polls


def linked(symptoms: Symptoms, groups: Iterable[Group]) -> list[Group]:
    """Add to each group the free conditions that come of it, and return all groups.

    A condition that comes of none becomes the root of a new group.
    """
    links = Links(symptoms, groups)
    for condition in causes_first(symptoms.free.values()):
        links.assign(condition)
    return [*links.groups, *links.alone.values()]


def causes_first(conditions: Iterable[ActiveCondition]) -> list[ActiveCondition]:
    """Return the conditions in such an order that a cause stands before what it brings."""
    last = len(RANK)
    return sorted(
        conditions,
        key=lambda condition: (RANK.get(condition.name, last), condition.since),
    )


class Links:
    """The groups of one poll while free conditions join them."""

    def __init__(self, symptoms: Symptoms, groups: Iterable[Group]) -> None:
        self.symptoms = symptoms
        self.groups = [*groups]
        self.alone = dict[tuple[str, str], Group]()
        """New groups, by kind and by what is the root."""
        self.roots_at = defaultdict[
            tuple[str, str], list[tuple[ActiveCondition, Group]]
        ](list)
        """Conditions that bring others, with their groups, by address and queue; those of any queue of an address are
        also at the empty queue name."""
        self.left_by = clients_that_left(symptoms)
        """By queue without a consumer, the client that left it last."""

        conditions = [*symptoms.free.values()]
        for group in self.groups:
            conditions += group.conditions
        self.conditions_at = Counter(condition.address for condition in conditions)
        """How many conditions each address has."""

        for group in self.groups:
            for condition in group.conditions:
                self.note(condition, group)

    def note(self, condition: ActiveCondition, group: Group) -> None:
        """Remember a condition that may bring others on its queue or address, if any others are on that address."""
        is_alone_there = self.conditions_at[condition.address] == 1
        if condition.name not in BRINGS or is_alone_there:
            return
        root = (condition, group)
        self.roots_at[condition.address, condition.queue].append(root)
        if condition.queue:
            self.roots_at[condition.address, ""].append(root)

    def assign(self, condition: ActiveCondition) -> None:
        """Make the condition a victim of the group that brings it, or else a root; a mere notice becomes none."""
        group = self.cause_of(condition)
        if group is not None:
            group.victims.append(condition)
        elif is_mere_notice(condition):
            return
        else:
            group = self.group_of_root(condition)
            group.own.append(condition)
        self.note(condition, group)

    def cause_of(self, condition: ActiveCondition) -> Group | None:
        """Return the first group that brings the condition."""
        place = (condition.address, queue_of(condition))
        for root, group in self.roots_at.get(place, ()):
            is_brought = condition.name in BRINGS[root.name]
            if is_brought and not older(condition, root, self.symptoms):
                return group
        return None

    def group_of_root(self, condition: ActiveCondition) -> Group:
        """Return the group of all roots of this condition at the same object, made when it is the first.

        The object is the client of the condition, else its queue, its address or the broker. For a queue without a
        consumer it is the client that left, if that is known.
        """
        client = ""
        if condition.name == NO_CONSUMER.name:
            client = self.left_by.get(condition.queue, "")
        queue = queue_of(condition)
        names = (client, condition.client, queue, condition.address)
        root = next(filter(None, names), condition.broker)
        key = (condition.name, root)
        if key not in self.alone:
            facts = {"left": client}
            self.alone[key] = Group(condition.name, root, condition.since, facts=facts)
        return self.alone[key]


def queue_of(condition: ActiveCondition) -> str:
    """Return the queue of the condition, empty if it concerns a whole address."""
    return "" if condition.name in OF_ADDRESS else condition.queue


def is_mere_notice(condition: ActiveCondition) -> bool:
    """Return whether the condition is a notice of a queue that brings nothing: alone this is no incident."""
    if condition.severity is not Severity.INFO or condition.name in BRINGS:
        return False
    return bool(queue_of(condition))


def clients_that_left(symptoms: Symptoms) -> dict[str, str]:
    """Return by queue without a consumer the client that left it last."""
    queues = {
        condition.queue
        for condition in symptoms.free.values()
        if condition.name == NO_CONSUMER.name
    }
    if not queues:
        return {}
    return {
        change.queue: change.client
        for change in symptoms.changes
        if change.went and change.queue in queues
    }
