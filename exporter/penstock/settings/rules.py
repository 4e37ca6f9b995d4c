"""What operators say about their queues: rules with patterns, resolved per queue and client. First match wins per key.

Patterns are Artemis' wildcards over words split by ".": `*` one word (or a part of one), `#` any sequence of words,
also none; a plain `*` is anything at all.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any

from penstock.model import QueueKind
from penstock.settings.business_hours import Hours


class RingLoss(StrEnum):
    """What a ring that evicts is: lawful, or worth an alert."""

    EXPECTED = "expected"
    ALERT = "alert"


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over "." + name. Every wildcard but the last is settled at its first fit
    (atomic groups): no name can make the match exponential.
    """
    if pattern == "*":
        return re.compile(r"(?s:.*)\Z")
    runs = [""]
    for word in pattern.split("."):
        if word == "#":
            runs.append("")
        else:
            runs[-1] += _word(word)
    first, *rest = runs
    if not rest:
        return re.compile(rf"{first}\Z")
    *middle, last = rest
    return re.compile(
        first
        + "".join(rf"(?>(?:\.[^.]*)*?{run})" for run in middle)
        + rf"(?:\.[^.]*)*{last}\Z"
    )


def _word(word: str) -> str:
    first, *rest = (re.escape(piece) for piece in word.split("*"))
    if rest:
        *middle, last = rest
        first += "".join(rf"(?>[^.]*?{piece})" for piece in middle) + rf"[^.]*{last}"
    return rf"\.{first}(?=\.|\Z)"


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule matches: one pattern per name."""

    broker: str = "*"
    address: str = "*"
    queue: str = "*"
    client: str = "*"
    _tests: tuple[tuple[int, re.Pattern[str]], ...] = field(
        init=False, repr=False, compare=False
    )
    """Position in `Names` and pattern, of those that are not plain `*`."""

    def __post_init__(self) -> None:
        patterns = (self.broker, self.address, self.queue, self.client)
        tests = tuple(
            (at, compile_pattern(pattern))
            for at, pattern in enumerate(patterns)
            if pattern != "*"
        )
        object.__setattr__(self, "_tests", tests)

    def __call__(self, names: "Names") -> bool:
        """Whether it matches these names; where there is no client only `*` matches."""
        for place, pattern in self._tests:
            name = names[place]
            if name is None or pattern.match(name) is None:
                return False
        return True


Names = tuple[str, str, str, str | None]
"""Broker, address, queue and client as patterns want them, with a dot before each: see `dotted`."""


def dotted(broker: str, address: str, queue: str, client: str | None = None) -> Names:
    """The names of a queue, or of one of its clients."""
    return (
        f".{broker}",
        f".{address}",
        f".{queue}",
        None if client is None else f".{client}",
    )


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The keys of a rule; None = not set. A new key is one field here and its type in the configuration."""

    owner: str | None = None
    team: str | None = None
    kind: QueueKind | None = None
    ignore: bool | None = None
    expected_consumers: int | None = None
    patience: float | None = None
    """Seconds, of clients."""
    ring_loss: RingLoss | None = None
    ring_retention: float | None = None
    """Seconds that a ring should cover."""
    drain_target: float | None = None
    """Seconds in which a backlog should be worked off."""
    client_memory: int | None = None
    """Bytes that messages given ahead on one connection of an OpenMQ client may take."""
    connection_flow_limit: int | None = None
    """Messages, of OpenMQ clients: imqConnectionFlowLimit where that is in force, 0 where it is not."""
    silence: bool | None = None
    hours: Hours | None = None


KEYS = tuple(key.name for key in fields(RuleSettings))


@dataclass(frozen=True, slots=True)
class Rule:
    match: Match
    says: RuleSettings


@dataclass(frozen=True, slots=True)
class Resolved(RuleSettings):
    """What all rules together say about one queue or client."""

    given_by: Mapping[str, int] = field(default_factory=dict)
    """Key → number of the rule that gave it, the first rule being 1; for `explain`."""


@lru_cache(maxsize=1024)
def _resolved(
    values: tuple[tuple[str, Any], ...], given_by: tuple[tuple[str, int], ...]
) -> Resolved:
    """One object for all queues and clients of which the rules say the same: there may be many."""
    return Resolved(**dict(values), given_by=dict(given_by))


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules, in the order of the configuration."""

    rules: tuple[Rule, ...] = ()

    def resolve(
        self, broker: str, address: str, queue: str, client: str | None = None
    ) -> Resolved:
        """The value of each key from the first matching rule that sets it."""
        if not self.rules:
            return _resolved((), ())
        values: dict[str, object] = {}
        given_by: dict[str, int] = {}
        names = dotted(broker, address, queue, client)
        for number, rule in enumerate(self.rules, 1):
            if rule.match(names):
                says = {
                    key: getattr(rule.says, key) for key in KEYS if key not in values
                }
                new = {key: value for key, value in says.items() if value is not None}
                values |= new
                given_by |= dict.fromkeys(new, number)
        return _resolved(tuple(values.items()), tuple(given_by.items()))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which queues of a broker are read: those that an include matches (none given: all) and no exclude does."""

    include: Sequence[Match] = ()
    exclude: Sequence[Match] = ()

    def __call__(self, address: str, queue: str) -> bool:
        names = dotted("", address, queue)
        return (
            not self.include or any(match(names) for match in self.include)
        ) and not any(match(names) for match in self.exclude)
