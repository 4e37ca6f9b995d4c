"""Whether the sum of a sheet closes, before it is shown: what came is there or left."""

from collections.abc import Iterable, Mapping

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
    least, most = missing(came, there, left)
    if least - SKEW <= 0 <= most + SKEW:
        return there, ""
    off = least if least > 0 else most
    other = number_text(counted + off)
    why = f"the broker's message count says {number_text(counted)}, what came and left says {other}"
    return {**there, READY: None}, why


def missing(came: Mapping[str, Amount], there: Mapping[str, Amount], left: Mapping[str, Amount]) -> tuple[float, float]:
    """Messages that came, are not there and did not leave: at least and at most."""
    came_least, came_most = bounds_of(came.values())
    out_least, out_most = bounds_of((*there.values(), *left.values()))
    return came_least - out_most, came_most - out_least


def bounds_of(amounts: Iterable[Amount]) -> tuple[float, float]:
    """Of the sum of amounts; an unknown one may be any."""
    least = most = 0.0
    for amount in amounts:
        low, high = amount if isinstance(amount, tuple) else (amount, amount)
        least += low or 0
        most += float("inf") if high is None else high
    return least, most
