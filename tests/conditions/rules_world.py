"""A broker of which the operator says something: the agent's small world with rules."""

from typing import Any

from agent.world import World
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings

Q = 1


def ruled(*rules: Rule, trend: float = 300.0) -> World:
    return World(
        Policy("b1", rules=Rules(rules), constants=Constants(cold=60.0, trend=trend))
    )


def rule(client: str = "*", **keys: Any) -> Rule:
    return Rule(Match(client=client), RuleSettings(**keys))


def ruled_polls(world: World, count: int, added: float = 0.0) -> None:
    for _ in range(count):
        for numbers in world.queues.values():
            numbers["added"] += added
            if "ring_limit" not in numbers:
                numbers["messages"] += added
        world.poll()


def unread(*rules: Rule) -> World:
    """A queue that nobody ever read, and that holds messages."""
    made = ruled(*rules)
    made.queue(Q, "q", messages=5, added=5)
    return made
