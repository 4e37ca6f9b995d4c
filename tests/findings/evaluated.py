"""What is found of queue `q` on a broker that is polled a few times, by the name of the rule."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from conditions.openmq_world import OpenmqJudged
from conditions.things import Numbers
from conditions.world import Judged
from penstock.findings.finding import Finding
from penstock.settings.rules import Match, Rule, Rules, RuleSettings

Polls = Callable[[int], tuple[Numbers, Mapping[str, Numbers]]]
"""Of poll n: the numbers of queue `q`, and its consumers."""
SIZE = {"consumer_flow_limit": 1000.0, "messages_added": 10.0, "added_bytes": 20_000.0}
"""Messages of 2,000 bytes."""


def by_rule(judged: Judged) -> dict[str, Finding]:
    """The first finding of each rule."""
    return {one.rule.name: one for one in reversed(judged.state.findings.found)}


def on_artemis(
    queue: Numbers,
    address: Numbers | None = None,
    consumers: Mapping[str, Numbers] | None = None,
    *,
    polls: int = 3,
    others: Mapping[str, Numbers] | None = None,
    **about: float,
) -> dict[str, Finding]:
    """The same numbers at each poll."""
    judged = Judged(about=dict(about))
    for _ in range(polls):
        judged.poll({"q": queue, **(others or {})}, consumers, {"q": address or {}})
    return by_rule(judged)


def openmq(
    play: Polls, polls: int, address: Numbers = SIZE, **configured: Any
) -> OpenmqJudged:
    world = OpenmqJudged()
    world.policy = replace(
        world.policy, rules=Rules((Rule(Match(), RuleSettings(**configured)),))
    )
    for n in range(polls):
        queue, consumers = play(n)
        world.poll({"q": queue}, consumers, {"q": address})
    return world


def on_openmq(
    play: Polls, polls: int, address: Numbers = SIZE, **configured: Any
) -> dict[str, Finding]:
    rules = by_rule(openmq(play, polls, address, **configured))
    for one in rules.values():
        assert one.says
        assert one.advice
        assert "unknown" not in one.says
        assert set(one.evidence) <= set(one.rule.units)
    return rules


# --- polls of several tests


def paused_at(limit: int, resume: int) -> Polls:
    """A consumer that is paused at every poll, a window later each time."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        sent = limit + n * (limit - resume)
        consumer = {
            "N": sent,
            "T": limit,
            "flow_paused": 1.0,
            "L": 1e9 + n,
            "connection": 7,
        }
        return {"A": 1e6, "M": 1e5, "K": sent - limit, "D": limit}, {"c": consumer}

    return play


def idle(*counts: int) -> Polls:
    """At each poll so many consumers of one connection, the last count for ever; they keep their names."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        count = counts[min(n, len(counts) - 1)]
        return {"A": 10, "M": 5, "D": 5}, {
            f"c{i}": {"N": 5, "T": 5, "connection": 7} for i in range(count)
        }

    return play
