"""Whether the sum of a sheet closes, before it is shown: all messages that came are there or left."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.core.formatting import number_text
from penstock.insight.answers import Amount
from penstock.observation.facts import SKEW

READY = "ready"
"""The part of a queue's content that follows from its message count."""


def content_that_adds_up(
    arrived: Mapping[str, Amount],
    content: dict[str, Amount],
    left: Mapping[str, Amount],
) -> tuple[dict[str, Amount], str]:
    """`content`, and why its number of ready messages is not known; empty where it is.

    A broker may count the messages of a queue wrongly. Where the messages that came less those that left are another
    number, neither of the two is believed.

    Args:
        arrived: messages of a sheet by source.
        content: that are there, by state.
        left: by fate.
    """
    ready = content.get(READY)
    if not isinstance(ready, int | float):
        return content, ""
    missing = messages_missing(arrived, content, left)
    if missing.most < -SKEW:
        excess = missing.most
    elif missing.least > SKEW:
        excess = missing.least
    else:
        return content, ""
    by_count = number_text(ready)
    by_sum = number_text(ready + excess)
    why = (
        f"the broker's message count says {by_count}, what came and left says {by_sum}"
    )
    return {**content, READY: None}, why


class Bounds(NamedTuple):
    """Messages, at least and at most."""

    least: float
    most: float


def messages_missing(
    arrived: Mapping[str, Amount],
    content: Mapping[str, Amount],
    left: Mapping[str, Amount],
) -> Bounds:
    """Messages that came, are not there and did not leave; negative: more are there, or left, than came."""
    all_arrived = sum_of(arrived.values())
    all_content = sum_of(content.values())
    all_left = sum_of(left.values())
    least = all_arrived.least - all_content.most - all_left.most
    most = all_arrived.most - all_content.least - all_left.least
    return Bounds(least, most)


def sum_of(amounts: Iterable[Amount]) -> Bounds:
    """The sum of all amounts; an unknown one may be any number."""
    least = 0.0
    most = 0.0
    for amount in amounts:
        bounds = bounds_of(amount)
        least += bounds.least
        most += bounds.most
    return Bounds(least, most)


def bounds_of(amount: Amount) -> Bounds:
    """The bounds of one amount; an unknown one may be any number."""
    if amount is None:
        return Bounds(0.0, math.inf)
    if not isinstance(amount, tuple):
        return Bounds(amount, amount)
    least, most = amount
    if most is None:
        return Bounds(least, math.inf)
    return Bounds(least, most)
