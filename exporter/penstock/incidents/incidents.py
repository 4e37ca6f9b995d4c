"""The incidents of a poll, continued from the poll before.

At each poll the rules for roots make groups of the active conditions. A group continues an incident of the last poll
with the same root or with one of its conditions, and keeps its id and its begin. `told` are the incidents that are
reported.
"""

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isnan
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from penstock.causes import surroundings
from penstock.causes.verdict import AGAINST, CauseState
from penstock.conditions.catalogue import CONDITIONS, for_kind
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.too_few_consumers import TOO_FEW_CONSUMERS
from penstock.conditions.wording import RAISE_LIMIT, Cause, causes
from penstock.core.catalogues import read_toml
from penstock.core.table import Column, Index
from penstock.incidents.incident import SHOWN, Group, Incident, Key, key_of, some
from penstock.incidents.links import linked
from penstock.incidents.roots import CLIENTS, RESOURCES
from penstock.incidents.symptoms import RECENT, Noted, Place, Sending, Symptoms, noticed
from penstock.model import ConnectionRow, ConsumerRow
from penstock.observation.poll import RuleInputs
from penstock.series.clock import JITTER_SECONDS

MOST = 50
"""The most incidents that are reported, the worst first."""
MOST_CONDITIONS = 5000
"""The most conditions that are linked, the worst first."""
MOST_CHANGES = 5000
"""The most changes that are remembered, the latest."""
ABSENT = (NO_CONSUMER.name, TOO_FEW_CONSUMERS.name)
"""Roots that a refused login may be behind."""
MISSED = 2
"""Polls for which an incident stays after its root went: the effects of the root go a little later."""
KEPT = 900.0
"""Seconds for which a change is kept."""
TEXTS = read_toml("penstock.incidents", "texts.toml")
NAMES = {severity: severity.name.lower() for severity in Severity}
LEVELS = {name: severity for severity, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Incidents:
    """The incidents after a poll, and what is remembered for the next one."""

    told: tuple[Incident, ...] = ()
    """The worst first."""
    beyond: int = 0
    """Incidents that are too many to report."""
    begun: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """When each root that is no condition was seen first, by its kind and what it is."""
    sending: Sending = field(default_factory=Sending)
    changes: tuple[Noted, ...] = ()
    refused: float = np.nan
    """Logins that the broker has refused."""

    @property
    def rolled_up(self) -> frozenset[Key]:
        """The conditions without an alert of their own: that on their incident, which has several, covers them."""
        return frozenset(
            key
            for incident in self.told
            if incident.size > 1
            for key in incident.members
        )

    def advance(
        self,
        poll: RuleInputs,
        active: Sequence[ActiveCondition],
        oldest: Column,
        consumers: Index[ConsumerRow],
    ) -> "Incidents":
        """Return the incidents after one more poll.

        Args:
            poll: this poll.
            active: conditions that are active at it.
            oldest: (queues,) when the oldest message was added, at the latest; by the broker's clock.
            consumers: consumers of the poll before.
        """
        observed = self._with_changes(poll, consumers)
        if not (
            self.told or may_begin(poll, active)
        ):  # nearly always: saves the search
            return observed
        symptoms = Symptoms(
            poll,
            worst(active),
            observed.sending,
            self._begins(),
            observed.changes,
            oldest,
        )
        groups = [group for rule in RESOURCES for group in rule(symptoms)]
        staying = [*self._staying(symptoms, groups)]
        for rule in CLIENTS:
            groups += rule(symptoms)
        groups = linked(symptoms, groups)
        confirmed = [group for group in groups if is_confirmed(group, symptoms)]
        used = {incident.id for incident in staying}
        incidents: list[Incident | Continued] = [*staying]
        incidents += self._continued(confirmed, used)
        return replace(
            observed,
            told=reported(incidents, symptoms),
            beyond=max(len(incidents) - MOST, 0),
            begun=begins_of_numbers(groups),
        )

    def _with_changes(
        self, poll: RuleInputs, consumers: Index[ConsumerRow]
    ) -> "Incidents":
        """Return the state of this poll without any incident: the changes of the last `KEPT` seconds, and who sends."""
        now = poll.snapshot.stamp
        first_kept = bisect_left(self.changes, now - KEPT, key=attrgetter("time"))
        changes = [
            *self.changes[first_kept:],
            *noticed(poll, consumers, self.sending, self.refused),
        ]
        refused = np.fmax(poll.broker.authentication_failures, self.refused)
        return Incidents(
            sending=self.sending.advance(poll.snapshot.producers, now),
            changes=tuple(changes[-MOST_CHANGES:]),
            refused=float(refused),
        )

    def _begins(self) -> dict[tuple[str, str], float]:
        """Return when each root was seen first, by its kind and what it is."""
        reported_begins = {
            (incident.kind, incident.object): incident.begin for incident in self.told
        }
        return {**self.begun, **reported_begins}

    def _staying(
        self, symptoms: Symptoms, groups: Sequence[Group]
    ) -> Iterator[Incident]:
        """Yield the incidents that stay although their root is gone, and take their conditions out of `free`.

        An incident whose root is still there is in `groups`: the free ones of its conditions join that group.
        """
        by_root = {(group.kind, group.what): group for group in groups}
        taken = {key for group in groups for key in group.members}
        for incident in self.told:
            remaining = [key for key in incident.members if key in symptoms.free]
            group = by_root.get((incident.kind, incident.object))
            if group is not None:
                group.victims += [symptoms.free.pop(key) for key in remaining]
            elif taken.isdisjoint(incident.members) and outlives(incident, remaining):
                for key in remaining:
                    del symptoms.free[key]
                yield replace(incident, missed=incident.missed + 1)

    def _continued(
        self, groups: Sequence[Group], used: set[str]
    ) -> Iterator["Continued"]:
        """Yield the groups with the ids and begins of the incidents that they continue, without mere notices.

        A group continues the incidents with its root, and those with one of its conditions. If these are several, they
        have turned out to be one, which continues the earliest. Each id is used once: groups with the root of an
        incident choose first.

        used: ids that no group may have; those that are chosen are added.
        """
        by_root = {
            (incident.kind, incident.object): incident.id for incident in self.told
        }
        by_member = {
            key: incident.id for incident in self.told for key in incident.members
        }
        begins = {incident.id: incident.begin for incident in self.told}

        def known_roots_first(group: Group) -> tuple[bool, float]:
            return (group.kind, group.what) not in by_root, group.begin

        for group in sorted(groups, key=known_roots_first):
            severity = group.severity
            if severity is Severity.INFO:
                continue
            ids = [by_root.get((group.kind, group.what))]
            ids += [by_member.get(key) for key in group.members]
            unused = [name for name in dict.fromkeys(ids) if name and name not in used]
            used.update(unused)
            earliest = min(unused, key=begins.__getitem__, default="")
            begin = min(begins.get(earliest, group.begin), group.begin)
            yield Continued(group, NAMES[severity], begin, earliest)


class Continued(NamedTuple):
    """A group with the begin and the id of its incident; the id is empty if the incident is new."""

    group: Group
    severity: str
    begin: float
    id: str


def may_begin(poll: RuleInputs, active: Sequence[ActiveCondition]) -> bool:
    """Return whether anything could be a root: a condition, or one of the numbers that measured roots are made of."""
    return (
        any(condition.severity > Severity.INFO for condition in active)
        or bool(surroundings.full_broker(poll.broker))
        or poll.snapshot.observation.takeover is not None
        or has_full_address(poll)
        or has_waiting_bridge(poll)
    )


def has_full_address(poll: RuleInputs) -> bool:
    addresses = poll.snapshot.addresses
    return addresses is not None and bool((addresses["limit_percent"] >= 100).any())


def has_waiting_bridge(poll: RuleInputs) -> bool:
    """Return whether a bridge reads a queue and any bridge has messages to send."""
    links = poll.snapshot.links
    if links is None or not any(row.queue for row in links.index):
        return False
    return bool((links["pending"] > 0).any())


def worst(active: Sequence[ActiveCondition]) -> dict[Key, ActiveCondition]:
    """Return by key the conditions that are not silenced: the most severe, and of these the oldest first."""
    audible = [condition for condition in active if not condition.silenced]
    audible.sort(key=attrgetter("since"))
    audible.sort(key=attrgetter("severity"), reverse=True)
    return {key_of(condition): condition for condition in audible[:MOST_CONDITIONS]}


def outlives(incident: Incident, remaining: Sequence[Key]) -> bool:
    """Return whether the incident stays for `MISSED` polls although no group has its root.

    It stays while effects of the root are active. An incident with a measured root stays in any case: one poll may lack
    its number. If a condition with the name of the root is still active, that one makes a group of its own.

    remaining: the conditions of the incident that are still active and free.
    """
    root_name = incident.root[0]
    root_is_gone = all(name != root_name for name, *_ in remaining)
    is_measured = not root_name
    has_reason = bool(remaining) or is_measured
    return root_is_gone and has_reason and incident.missed < MISSED


def begins_of_numbers(groups: Iterable[Group]) -> dict[tuple[str, str], float]:
    """Return when each root that is no condition began, by its kind and what it is."""
    return {(group.kind, group.what): group.begin for group in groups if group.measured}


def is_confirmed(group: Group, symptoms: Symptoms) -> bool:
    """Return whether two polls agree on the root: a measured one must have been seen before, a condition always was."""
    return not group.measured or (group.kind, group.what) in symptoms.begun


def reported(
    incidents: Sequence[Incident | Continued], symptoms: Symptoms
) -> tuple[Incident, ...]:
    """Return the `MOST` incidents that are reported: the most severe, and of these the oldest first."""

    def most_severe_first(incident: Incident | Continued) -> tuple[int, float, bool]:
        is_new = not incident.id  # of those that began together the reported ones stay
        return -LEVELS[incident.severity], incident.begin, is_new

    first = sorted(incidents, key=most_severe_first)[:MOST]
    # The numbers and changes for their texts are looked up for these groups only.
    symptoms.told = [entry.group for entry in first if isinstance(entry, Continued)]
    return tuple(
        entry if isinstance(entry, Incident) else as_incident(entry, symptoms)
        for entry in first
    )


def as_incident(continued: Continued, symptoms: Symptoms) -> Incident:
    """Return the group with its texts and numbers, as it is reported."""
    group = continued.group
    places = {(condition.address, condition.queue) for condition in group.conditions}
    places |= group.places
    addresses = {address for address, _ in places}
    victims = victims_of(group)
    incident = named(continued, symptoms)
    incident = with_texts(incident, group, symptoms)
    incident = with_numbers(incident, places, symptoms)
    changes = changed(group, incident.begin, symptoms, addresses)
    return replace(
        incident,
        who=involved(group, symptoms),
        victims=victims[:SHOWN],
        victim_count=len(victims),
        changed=changes,
        members=group.members,
        places=sorted(group.places)[:MOST],
        size=size_of(group),
    )


def named(continued: Continued, symptoms: Symptoms) -> Incident:
    """Return the incident with its id, root, severity and begin alone."""
    group = continued.group
    broker = symptoms.broker_name
    identity = (broker, group.kind, group.what, symptoms.stamp)
    new_id = f"{zlib.crc32(repr(identity).encode()):08x}"
    root = first_condition(group)
    return Incident(
        id=continued.id or new_id,
        kind=group.kind,
        broker=broker,
        object=group.what,
        severity=continued.severity,
        begin=continued.begin,
        title="",
        root=key_of(root) if root else ("", "", "", ""),
    )


def first_condition(group: Group) -> ActiveCondition | None:
    """Return the condition that is the root, None if the root is a number."""
    if group.measured:
        return None
    return min(group.own, key=attrgetter("since"))


def with_texts(incident: Incident, group: Group, symptoms: Symptoms) -> Incident:
    """Return the incident with its title, impact, causes and advice."""
    broker = symptoms.poll.broker
    root = first_condition(group)
    condition = for_kind(broker.kind.name)[root.name] if root else None
    facts = facts_of(group)

    texts = TEXTS.get(group.kind, {})
    if condition:
        title = condition.title.rstrip(".")
        texts = {"title": ["{object}: " + title], **texts}
    texts = texts | texts.get(broker.kind.name, {})

    reasons = [*causes_of(texts.get("causes", {}), facts)]
    client_left = "left" in facts
    if condition and root and client_left and broker.authentication_failures > 0:
        reasons = reasons or causes(condition, root)
        reasons = since_it_left(reasons, symptoms, incident.begin)
    return replace(
        incident,
        title=sentences(texts["title"], facts)[0],
        impact=sentences(texts.get("impact", ()), facts),
        causes=reasons,
        advice=sentences(texts.get("advice", ()), facts),
    )


def facts_of(group: Group) -> dict[str, str]:
    """Return the facts of the group for its texts; a fact that is not known is left out, and so is its sentence."""
    queues = some(condition.queue for condition in group.own)
    facts = {"queues": queues, **group.facts}
    facts = {name: text for name, text in facts.items() if text}
    facts["object"] = group.what
    facts["address"] = group.what
    for name in ("queues", "stands", "unread"):
        if name in facts:
            # A queue's name alone may read as an English word.
            word = "queues" if ", " in facts[name] else "queue"
            facts[name] = f"{word} {facts[name]}"
    return facts


def with_numbers(
    incident: Incident, places: AbstractSet[Place], symptoms: Symptoms
) -> Incident:
    """Return the incident with the sums over these queues."""
    queues = [symptoms.queues[place] for place in places if place in symptoms.queues]
    messages = sum((queue.messages for queue in queues), 0.0)
    growth = sum((queue.growth for queue in queues), 0.0)
    interval = max(symptoms.facts.interval, 1e-9)
    ages = [queue.oldest_seconds for queue in queues]
    known_ages = [round(age, 3) for age in ages if not isnan(age)]
    return replace(
        incident,
        messages=messages,
        rate=round(growth / interval, 3),
        oldest=max(known_ages, default=None),
    )


def victims_of(group: Group) -> list[str]:
    """Return the names of those that suffer, a queue or broker with its problem; blocked clients come first."""
    blocked = dict.fromkeys(group.blocked, "")
    problems = {}
    for victim in group.victims:
        name = victim.client or victim.queue or victim.broker
        problems[name] = "" if victim.client else problem_of(victim, group)
    texts = blocked | problems | blocked  # blocked ones come first, and have no problem
    return [name + problem for name, problem in texts.items()]


def problem_of(victim: ActiveCondition, group: Group) -> str:
    """Return the problem of a victim that is no client, in words; empty where the impact names the queue already."""
    if victim.name in ABSENT and "unread" in group.facts:
        return ""
    title = CONDITIONS[victim.name].title.rstrip(".")
    return title and f" ({title[0].lower()}{title[1:]})"


def size_of(group: Group) -> int:
    """Count the conditions, those of an address once, and the clients that suffer without a condition."""
    distinct = {
        (
            condition.name,
            condition.address,
            CONDITIONS[condition.name].of_address or condition.queue,
            condition.client,
        )
        for condition in group.conditions
    }
    clients = {condition.client for condition in group.conditions}
    return len(distinct) + len({*group.blocked} - clients)


def sentences(templates: Iterable[str], facts: Mapping[str, str]) -> list[str]:
    """Fill in the templates, and leave out those of which a fact is not known."""
    texts = []
    for template in templates:
        with suppress(KeyError):
            text = template.replace("{raise_limit}", RAISE_LIMIT)
            texts.append(text.format_map(facts))
    return texts


def causes_of(
    causes: Mapping[str, Sequence[str]], facts: Mapping[str, str]
) -> Iterator[Cause]:
    """Yield the causes all facts of which are known."""
    for name, (state, *templates) in causes.items():
        texts = sentences(templates, facts)
        if len(texts) == len(templates):
            yield Cause(name, CauseState(state), *texts)


def since_it_left(causes: list[Cause], symptoms: Symptoms, begin: float) -> list[Cause]:
    """Return the causes, where "login refused" has the number of refusals since the consumer left, not of all times.

    It comes first if there was a refusal since then, else last. begin: of the incident, when the consumer left.
    """
    earliest = begin - symptoms.facts.interval
    count = sum(change.logins for change in symptoms.changes if change.time >= earliest)
    fact = f"{AGAINST}none was refused since it left"
    if count:
        fact = f"refused logins since it left: {count:.0f}"
    informed = [
        replace(cause, fact=fact) if cause.name == "login_refused" else cause
        for cause in causes
    ]
    was_refused = bool(count)
    return sorted(informed, key=lambda cause: (cause.fact == fact) != was_refused)


def involved(group: Group, symptoms: Symptoms) -> list[Mapping[str, str]]:
    """Return the clients that are the root, then those that are blocked, each with one of its connections."""
    connections = symptoms.poll.snapshot.connections
    if connections is None:
        return []
    keys = symptoms.poll.snapshot.consumer_connection
    consumers = np.asarray(group.consumers, np.intp)
    positions = connections.index.positions(keys[consumers])
    blocked = connections.index.where("client", attrgetter("client"), {*group.blocked})
    rows = connections.index.rows
    by_client: dict[str, ConnectionRow] = {}
    for row in (*rows[positions[positions >= 0]], *rows[blocked]):
        by_client.setdefault(row.client, row)
    return [contact(row) for row in [*by_client.values()][:SHOWN]]


def contact(row: ConnectionRow) -> dict[str, str]:
    """Return what is known of a connection and its client."""
    texts = {
        "client": row.client,
        "host": row.remote_host,
        "connection": row.id,
        "protocol": row.protocol,
        "user": row.user,
    }
    return {name: text for name, text in texts.items() if text}


def changed(
    group: Group, begin: float, symptoms: Symptoms, addresses: set[str]
) -> list[tuple[float, str]]:
    """Return the changes within `RECENT` seconds before the incident began, with their times: those nearest to it.

    Refused logins count only where a consumer is absent. begin: of the incident. addresses: that it concerns.
    """
    # A change that is the begin itself is stamped by another clock.
    latest = begin + JITTER_SECONDS
    changes = [
        (change.time, change.text)
        for change in changes_about(group, symptoms, addresses)
        if begin - RECENT <= change.time <= latest
        and (group.kind in ABSENT or not change.logins)
    ]
    changes.sort(reverse=True)
    nearest = sorted(changes[:SHOWN])
    if len(changes) > SHOWN:
        time, text = nearest[-1]
        nearest[-1] = (time, f"{text} ({SHOWN} of {len(changes)} changes)")
    return nearest


def changes_about(group: Group, symptoms: Symptoms, addresses: set[str]) -> list[Noted]:
    """Return the changes of these addresses, of the clients of the group and of the broker itself."""
    clients = {condition.client for condition in group.conditions if condition.client}
    clients.update(group.blocked)
    by_address, by_client = symptoms.changes_about
    positions = set[int]()
    for address in ("", *addresses):
        positions.update(by_address.get(address, ()))
    for client in clients:
        positions.update(by_client.get(client, ()))
    return [symptoms.changes[position] for position in sorted(positions)]
