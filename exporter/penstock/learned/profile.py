"""What is normal for a queue by its history: the byte tables that the trend job makes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.learned.byte_tables import Bytes, ByteTables, QueueName, packed
from penstock.learned.normal import ABSENCES, FLOWS, LONG_ABSENCE, PAUSE, Profile

COLUMNS = ("inflow", "outflow", "pause", "absence")
"""Kinds of numbers of an hour: messages that came and left, longest pause and longest absence of consumers, seconds."""
UNKNOWN = (np.nan, 0.0)
"""Service time of a queue for which none is known."""


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """What is normal for one queue.

    Attributes:
        hours: (4, WEEKS, HOURS) Numbers by hour, in the order of COLUMNS.
        days: (HIGHS, DAYS) The highest numbers by day.
        weeks: In how many weeks something is known.
        service: The usual seconds of a consumer for a message, and on how many windows with a backlog they rest.
    """

    hours: Bytes
    days: Bytes
    weeks: int
    service: tuple[float, float] = UNKNOWN


def by_broker(
    queues: Iterable[tuple[str, QueueName, QueueProfile]],
) -> dict[str, Profile]:
    """Return the profile of each broker. queues: the broker, the name and the profile of each queue."""
    brokers: dict[str, dict[QueueName, QueueProfile]] = {}
    for broker, name, queue in queues:
        brokers.setdefault(broker, {})[name] = queue
    return {broker: broker_profile(profiles) for broker, profiles in brokers.items()}


def broker_profile(queues: Mapping[QueueName, QueueProfile]) -> Profile:
    """Return the profile of a broker, made of the profiles of its queues: the queues become the columns of tables."""
    names = [*queues]
    profiles = [*queues.values()]
    hours = np.stack([profile.hours for profile in profiles], axis=-1)
    days = np.stack([profile.days for profile in profiles], axis=-1)
    service = np.array([profile.service for profile in profiles], np.float64)
    # Inflow, outflow and pause are one table, the absence is another: see COLUMNS.
    flows, absences = np.split(hours, [PAUSE + 1])
    return Profile(
        flows=FLOWS.restored(names, flows, days),
        absences=absence_tables(names, absences),
        service=service.T,
        weeks=max(profile.weeks for profile in profiles),
    )


def absence_tables(names: Sequence[QueueName], absences: Bytes) -> ByteTables:
    """Return the tables of absences, only with the queues that had a long one.

    absences: (1, WEEKS, HOURS, queues)
    """
    longest = absences.max(axis=(0, 1, 2))
    queues = np.flatnonzero(longest > packed(LONG_ABSENCE))
    return ABSENCES.restored(
        names=[names[queue] for queue in queues.tolist()],
        hours=absences[..., queues],
        days=np.empty(0, np.uint8),
    )
