"""Whether the sum of a sheet closes, before it is shown: what came is there or left."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.core.formatting import number_text
from penstock.insight.answers import Amount
from penstock.observation.facts import SKEW

READY = "ready"
"""What of a queue's content follows from its message count."""


def content_that_adds_up(
    came: Mapping[str, Amount], there: dict[str, Amount], left: Mapping[str, Amount]
) -> tuple[dict[str, Amount], str]:
    """`there`, and why its number of ready messages is not known, empty where it is.

    A broker may count the messages of a queue wrongly. Where what came less what left is another number, neither of the
    two is believed.

    Args:
        came: by source, messages of a sheet.
        there: by state.
        left: by fate.
    """
    counted = there.get(READY)
    if not isinstance(counted, int | float):
        return there, ""
    missing = messages_missing(came, there, left)
    if missing.most < -SKEW:
        off = missing.most
    elif missing.least > SKEW:
        off = missing.least
    else:
        return there, ""
    by_count = number_text(counted)
    by_sum = number_text(counted + off)
    why = (
        f"the broker's message count says {by_count}, what came and left says {by_sum}"
    )
    return {**there, READY: None}, why


class Bounds(NamedTuple):
    """Messages, at least and at most."""

    least: float
    most: float


def messages_missing(
    came: Mapping[str, Amount], there: Mapping[str, Amount], left: Mapping[str, Amount]
) -> Bounds:
    """Messages that came, are not there and did not leave; negative: more are there, or left, than came."""
    arrived = sum_of(came.values())
    still_there = sum_of(there.values())
    gone = sum_of(left.values())
    least = arrived.least - still_there.most - gone.most
    most = arrived.most - still_there.least - gone.least
    return Bounds(least, most)


def sum_of(amounts: Iterable[Amount]) -> Bounds:
    """Of all amounts together; an unknown one may be any."""
    least = 0.0
    most = 0.0
    for amount in amounts:
        bounds = bounds_of(amount)
        least += bounds.least
        most += bounds.most
    return Bounds(least, most)


def bounds_of(amount: Amount) -> Bounds:
    """Of one amount."""
    if amount is None:
        return Bounds(0.0, math.inf)
    if not isinstance(amount, tuple):
        return Bounds(amount, amount)
    least, most = amount
    if most is None:
        return Bounds(least, math.inf)
    return Bounds(least, most)
