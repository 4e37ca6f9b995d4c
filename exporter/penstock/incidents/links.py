"""Which condition brings which others on the same queue or address, and what is left as a root of its own."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.core.catalogues import read_toml
from penstock.incidents.incident import Group
from penstock.incidents.symptoms import Symptoms

SAID = read_toml("penstock.incidents", "links.toml")
STOPS, LOOPS, BACKLOG, FAILING = (
    frozenset(SAID["sets"][name]) for name in ("stops", "loops", "backlog", "failing")
)
BRINGS = {
    name: frozenset[str]().union(*(SAID["sets"].get(one, [one]) for one in brought))
    for name, brought in SAID["brings"].items()
}
"""By the name of a condition those that come of it, from causes to their effects."""
RANK = {name: i for i, name in enumerate(BRINGS)}
OF_ADDRESS = {name for name, condition in CONDITIONS.items() if condition.of_address}


def older(one: ActiveCondition, root: ActiveCondition, symptoms: Symptoms) -> bool:
    """Whether it was there before `root`, by two polls."""
    return one.since < root.since - 2 * max(symptoms.poll.found.interval, 0.0)


def linked(symptoms: Symptoms, groups: Iterable[Group]) -> list[Group]:
    """`groups` with what comes of their conditions, and the roots of what is left."""
    near = defaultdict[tuple[str, str], list[tuple[ActiveCondition, Group]]](list)
    found = [*groups]
    alone = dict[tuple[str, str], Group]()
    lonely = {
        one.queue for one in symptoms.free.values() if one.name == NO_CONSUMER.name
    }
    left_queue = {
        one.queue: one.client
        for one in symptoms.changes * bool(lonely)
        if one.went and one.queue in lonely
    }

    conditions = chain(
        symptoms.free.values(), *(group.own + group.victims for group in found)
    )
    there = Counter(one.address for one in conditions)

    def note(one: ActiveCondition, group: Group) -> None:
        if one.name in BRINGS and there[one.address] > 1:
            near[one.address, one.queue].append((one, group))
            if one.queue:
                near[one.address, ""].append((one, group))

    for group in found:
        for one in group.own + group.victims:
            note(one, group)
    for one in sorted(
        symptoms.free.values(),
        key=lambda one: (RANK.get(one.name, len(RANK)), one.since),
    ):
        place = (one.address, "" if one.name in OF_ADDRESS else one.queue)
        for root, group in near.get(place, ()):
            if one.name in BRINGS[root.name] and not older(one, root, symptoms):
                group.victims.append(one)
                break
        else:
            if one.severity is Severity.INFO and one.name not in BRINGS and place[1]:
                continue  # alone a notice is no incident
            left = left_queue.get(one.queue, "") if one.name == NO_CONSUMER.name else ""
            what = left or one.client or place[1] or place[0] or one.broker
            group = alone.get((one.name, what)) or Group(
                one.name, what, one.since, facts={"left": left}
            )
            alone[one.name, what] = group
            group.own.append(one)
        note(one, group)
    return [*found, *alone.values()]
