"""What is normal, made from history: the byte tables of a queue; the trend job makes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.learned.byte_tables import Bytes, QueueName, packed
from penstock.learned.normal import ABSENCES, FLOWS, LONG_ABSENCE, PAUSE, Profile

COLUMNS = ("inflow", "outflow", "pause", "absence")
"""Of an hour: messages, and the longest seconds for which nothing had come and no consumer had been there."""
UNKNOWN = (np.nan, 0.0)
"""Service time."""


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Of one queue. hours: (4, WEEKS, HOURS) by COLUMNS. days: (HIGHS, DAYS). weeks: of how many something is known.
    service: the usual seconds of a consumer for a message, and on how many windows with a backlog that rests.
    """

    hours: Bytes
    days: Bytes
    weeks: int
    service: tuple[float, float] = UNKNOWN


def by_broker(
    queues: Iterable[tuple[str, QueueName, QueueProfile]],
) -> dict[str, Profile]:
    """broker, name and profile of each."""
    found: dict[str, dict[QueueName, QueueProfile]] = {}
    for broker, name, one in queues:
        found.setdefault(broker, {})[name] = one
    return {broker: together(of) for broker, of in found.items()}


def together(queues: Mapping[QueueName, QueueProfile]) -> Profile:
    names = [*queues]
    of = queues.values()
    hours, days = (
        np.stack([getattr(one, table) for one in of], axis=-1)
        for table in ("hours", "days")
    )
    flows, away = np.split(hours, [PAUSE + 1])
    absent = np.flatnonzero(away.max(axis=(0, 1, 2)) > packed(LONG_ABSENCE))
    absences = ABSENCES.restored(
        [names[i] for i in absent], away[..., absent], np.empty(0, np.uint8)
    )
    service = np.array([one.service for one in of], np.float64).T
    return Profile(
        FLOWS.restored(names, flows, days),
        absences,
        service,
        max(one.weeks for one in of),
    )
