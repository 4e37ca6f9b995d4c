"""The incidents of a poll, continued from the poll before."""

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from penstock.incidents.symptoms import RECENT, Noted, Sending, Symptoms, noticed
from penstock.model import ConsumerRow
from penstock.observation.poll import RuleInputs
from penstock.series.clock import JITTER_SECONDS

MOST = 50
MOST_CONDITIONS = 5000
MOST_CHANGES = 5000
"""Incidents that are reported, conditions that are linked, the worst first; changes."""
ABSENT = (NO_CONSUMER.name, TOO_FEW_CONSUMERS.name)
"""Roots that a refused login may be behind."""
MISSED = 2
"""Polls for which an incident stays whose root is gone: what came of it goes a little later."""
KEPT = 900.0
"""Seconds for which a change is kept."""
TEXTS = read_toml("penstock.incidents", "texts.toml")
NAMES = {one: one.name.lower() for one in Severity}
LEVELS = {name: one for one, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Incidents:
    """told: the worst first. beyond: how many more there are. begun: roots that are no condition, and since when."""

    told: tuple[Incident, ...] = ()
    beyond: int = 0
    begun: Mapping[tuple[str, str], float] = field(default_factory=dict)
    sending: Sending = field(default_factory=Sending)
    changes: tuple[Noted, ...] = ()
    refused: float = np.nan

    @property
    def rolled_up(self) -> frozenset[Key]:
        """The conditions that the alert on their incident says, as it has more than one."""
        return frozenset(
            key for one in self.told if one.size > 1 for key in one.members
        )

    def advance(
        self,
        poll: RuleInputs,
        active: Sequence[ActiveCondition],
        oldest: Column,
        consumers: Index[ConsumerRow],
    ) -> "Incidents":
        """oldest: when each queue's oldest message came at the latest (broker's clock). consumers: of the last poll."""
        now = poll.snapshot.stamp
        news = noticed(poll, consumers, self.sending, self.refused)
        young = bisect_left(self.changes, now - KEPT, key=attrgetter("time"))
        changes = (*self.changes[young:], *news)[-MOST_CHANGES:]
        refused = float(np.fmax(poll.broker.authentication_failures, self.refused))
        known = Incidents(
            (),
            0,
            {},
            self.sending.advance(poll.snapshot.producers, now),
            changes,
            refused,
        )
        if not (self.told or may_begin(poll, active)):
            return known
        shown = sorted(
            (one for one in active if not one.silenced), key=attrgetter("since")
        )
        worst = sorted(shown, key=attrgetter("severity"), reverse=True)[
            :MOST_CONDITIONS
        ]
        begun = {
            **self.begun,
            **{(one.kind, one.object): one.begin for one in self.told},
        }
        free = dict(zip(map(key_of, worst), worst, strict=True))
        symptoms = Symptoms(poll, free, known.sending, begun, changes, oldest)
        groups = [group for rule in RESOURCES for group in rule(symptoms)]
        stays = [*self._kept(symptoms, groups)]
        groups += [group for rule in CLIENTS for group in rule(symptoms)]
        groups = linked(symptoms, groups)
        ripe = [
            one for one in groups if not one.measured or (one.kind, one.what) in begun
        ]
        found: list[Incident | Continued] = [
            *stays,
            *self._continued(ripe, {one.id for one in stays}),
        ]
        # Of those that began together the reported ones stay.
        first = sorted(
            found, key=lambda one: (-LEVELS[one.severity], one.begin, not one.id)
        )[:MOST]
        symptoms.told = [one.group for one in first if isinstance(one, Continued)]
        told = (
            one if isinstance(one, Incident) else incident(one, symptoms)
            for one in first
        )
        measured = {(one.kind, one.what): one.begin for one in groups if one.measured}
        return replace(
            known, told=tuple(told), beyond=max(len(found) - MOST, 0), begun=measured
        )

    def _kept(self, symptoms: Symptoms, groups: Sequence[Group]) -> Iterator[Incident]:
        """What came of a root stays with it while that is there; the incidents whose root is gone, for a while."""
        here = {(one.kind, one.what): one for one in groups}
        taken = {key_of(one) for group in groups for one in group.own + group.victims}
        for one in self.told:
            left = [key for key in one.members if key in symptoms.free]
            group = here.get((one.kind, one.object))
            over = taken.isdisjoint(one.members) and not any(
                key[0] == one.root[0] for key in left
            )
            if group is not None:
                group.victims += [symptoms.free.pop(key) for key in left]
            elif over and one.missed < MISSED and (left or not one.root[0]):
                symptoms.free = {
                    key: of for key, of in symptoms.free.items() if key not in left
                }
                yield replace(one, missed=one.missed + 1)

    def _continued(
        self, groups: Sequence[Group], used: set[str]
    ) -> Iterator["Continued"]:
        """With the id and begin that each had, without notices. Several that turn out to be one go on as
        the earliest.
        """
        by_name = {(one.kind, one.object): one.id for one in self.told}
        by_member = {key: one.id for one in self.told for key in one.members}
        begins = {one.id: one.begin for one in self.told}
        for group in sorted(
            groups, key=lambda one: ((one.kind, one.what) not in by_name, one.begin)
        ):
            if (severity := group.severity) is Severity.INFO:
                continue
            before = dict.fromkeys(
                [
                    by_name.get((group.kind, group.what)),
                    *map(by_member.get, group.members),
                ]
            )
            known = [one for one in before if one and one not in used]
            used.update(known)
            first = min(known, key=begins.__getitem__, default="")
            yield Continued(
                group,
                NAMES[severity],
                min(begins.get(first, group.begin), group.begin),
                first,
            )


class Continued(NamedTuple):
    """A group with the begin and the id of its incident, empty where that is new."""

    group: Group
    severity: str
    begin: float
    id: str


def may_begin(poll: RuleInputs, active: Sequence[ActiveCondition]) -> bool:
    """Whether there is anything to look for."""
    addresses = poll.snapshot.addresses
    links = poll.snapshot.links
    return (
        any(one.severity > Severity.INFO for one in active)
        or bool(surroundings.full_broker(poll.broker))
        or poll.snapshot.observation.takeover is not None
        or (addresses is not None and bool((addresses["limit_percent"] >= 100).any()))
        or (
            links is not None
            and any(row.queue for row in links.index)
            and bool((links["pending"] > 0).any())
        )
    )


def incident(continued: Continued, symptoms: Symptoms) -> Incident:
    """As it is reported."""
    group, severity, begin, name = continued
    poll = symptoms.poll
    found = symptoms.poll.found
    conditions = group.own + group.victims
    new = (poll.groups.broker, group.kind, group.what, poll.snapshot.stamp)
    places = group.places | {(one.address, one.queue) for one in conditions}
    at = [symptoms.queues[place] for place in places if place in symptoms.queues]
    messages, growth, ages = zip(*at, strict=True) if at else ((), (), ())
    suffer = {
        one.client or one.queue or one.broker: "" if one.client else said_of(one, group)
        for one in group.victims
    }
    blocked = dict.fromkeys(group.blocked, "")
    victims = [name + of for name, of in (blocked | suffer | blocked).items()]
    root = None if group.measured else min(group.own, key=lambda one: one.since)
    about = root and for_kind(poll.broker.kind.name)[root.name]
    facts = {"queues": some(one.queue for one in group.own), **group.facts}
    facts = {name: text for name, text in facts.items() if text} | {
        "object": group.what,
        "address": group.what,
    }
    named = {
        "queues",
        "stands",
        "unread",
    } & facts.keys()  # a queue's name alone may read as an English word
    facts |= {
        name: f"queue{'s' * (', ' in facts[name])} {facts[name]}" for name in named
    }
    said = {
        "title": ["{object}: " + about.title.rstrip(".")] if about else [],
        **TEXTS.get(group.kind, {}),
    }
    texts = said | said.get(poll.broker.kind.name, {})
    known = [*causes_of(texts.get("causes", {}), facts)]
    if about and root and "left" in facts and poll.broker.authentication_failures > 0:
        known = since_it_left(known or causes(about, root), symptoms, begin)
    return Incident(
        id=name or f"{zlib.crc32(repr(new).encode()):08x}",
        kind=group.kind,
        broker=poll.groups.broker,
        object=group.what,
        severity=severity,
        begin=begin,
        title=sentences(texts["title"], facts)[0],
        impact=sentences(texts.get("impact", ()), facts),
        messages=sum(messages, 0.0),
        rate=round(sum(growth, 0.0) / max(found.interval, 1e-9), 3),
        oldest=max((round(age, 3) for age in ages if not isnan(age)), default=None),
        who=involved(group, symptoms),
        causes=known,
        advice=sentences(texts.get("advice", ()), facts),
        victims=victims[:SHOWN],
        victim_count=len(victims),
        changed=changed(group, begin, symptoms, {address for address, _ in places}),
        root=key_of(root) if root else ("", "", "", ""),
        members=group.members,
        places=sorted(group.places)[:MOST],
        size=size_of(group),
    )


def said_of(one: ActiveCondition, group: Group) -> str:
    """What is wrong with a victim that is no client, in words, unless the impact says it."""
    title = (
        ""
        if one.name in ABSENT and "unread" in group.facts
        else CONDITIONS[one.name].title.rstrip(".")
    )
    return title and f" ({title[0].lower()}{title[1:]})"


def size_of(group: Group) -> int:
    conditions = group.own + group.victims
    distinct = {
        (
            one.name,
            one.address,
            CONDITIONS[one.name].of_address or one.queue,
            one.client,
        )
        for one in conditions
    }
    return len(distinct) + len({*group.blocked} - {one.client for one in conditions})


def sentences(templates: Iterable[str], facts: Mapping[str, str]) -> list[str]:
    """Those of which all facts are known."""
    found = []
    for template in templates:
        with suppress(KeyError):
            found.append(
                template.replace("{raise_limit}", RAISE_LIMIT).format_map(facts)
            )
    return found


def causes_of(
    texts: Mapping[str, Sequence[str]], facts: Mapping[str, str]
) -> Iterator[Cause]:
    for name, (state, *said) in texts.items():
        if len(told := sentences(said, facts)) == len(said):
            yield Cause(name, CauseState(state), *told)


def since_it_left(known: list[Cause], symptoms: Symptoms, begin: float) -> list[Cause]:
    """Logins refused since a consumer left say more than those since the broker's start."""
    count = sum(
        one.logins
        for one in symptoms.changes
        if one.time >= begin - symptoms.poll.found.interval
    )
    fact = (
        f"refused logins since it left: {count:.0f}"
        if count
        else f"{AGAINST}none was refused since it left"
    )
    told = [
        replace(one, fact=fact) if one.name == "login_refused" else one for one in known
    ]
    return sorted(told, key=lambda one: (one.fact == fact) != bool(count))


def involved(group: Group, symptoms: Symptoms) -> list[Mapping[str, str]]:
    """The clients that are the root, then those that are blocked; of each a connection."""
    connections = symptoms.poll.snapshot.connections
    keys = symptoms.poll.snapshot.consumer_connection
    if connections is None:
        return []
    at = connections.index.positions(keys[np.asarray(group.consumers, np.intp)])
    blocked = connections.index.where("client", attrgetter("client"), {*group.blocked})
    rows = [*connections.index.rows[at[at >= 0]], *connections.index.rows[blocked]]
    first = {row.client: row for row in reversed(rows)}
    told = [first[name] for name in dict.fromkeys(row.client for row in rows)][:SHOWN]
    names = {
        "client": "client",
        "host": "remote_host",
        "connection": "id",
        "protocol": "protocol",
        "user": "user",
    }
    return [
        {name: text for name, field in names.items() if (text := getattr(row, field))}
        for row in told
    ]


def changed(
    group: Group, begin: float, symptoms: Symptoms, addresses: set[str]
) -> list[tuple[float, str]]:
    """What came or went shortly before the incident began, the changes next to its begin. What came after it is no
    reason for it. begin: of the incident. addresses: that it concerns.
    """
    clients = {
        *group.blocked,
        *(one.client for one in group.own + group.victims if one.client),
    }
    by_address, by_client = symptoms.changes_about
    at = {i for name in ("", *addresses) for i in by_address.get(name, ())}
    near = [
        symptoms.changes[i]
        for i in sorted(at.union(*(by_client.get(name, ()) for name in clients)))
    ]
    latest = (
        begin + JITTER_SECONDS
    )  # a change that is the begin is stamped by another clock
    near = [
        one
        for one in near
        if begin - RECENT <= one.time <= latest
        and (group.kind in ABSENT or not one.logins)
    ]
    found = sorted(((one.time, one.text) for one in near), reverse=True)
    shown = sorted(found[:SHOWN])
    cut = f" ({SHOWN} of {len(found)} changes)" * (len(found) > SHOWN)
    return shown[:-1] + [(at, text + cut) for at, text in shown[-1:]]
