"""What is normal, made from history: the byte tables of a queue from its hours."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column
from penstock.learned.byte_tables import DAYS, WEEKS, Bytes, QueueName, packed
from penstock.learned.normal import ABSENCES, FLOWS, INFLOW, LONG_ABSENCE, OUTFLOW, PAUSE, Profile
from penstock.observation.usual import BACKLOG, CLOCK, EXPIRED, HIGHS, KILLED, PACE, PEAK, SERVICE
from penstock.settings.calendar import HOURS

COLUMNS = ("inflow", "outflow", "pause", "absence")
"""Of an hour: messages, and the longest seconds for which nothing had come and no consumer had been there."""
HIGHEST = {"peak": PEAK, "backlog": BACKLOG, "service": SERVICE, "pace": PACE, "expired": EXPIRED, "killed": KILLED}
"""Of an hour the highest, as a day has them: see `observation.usual`; shares as 0 to 1."""
SHARES = ("expired", "killed")


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Of one queue. hours: (4, WEEKS, HOURS) by COLUMNS. days: (HIGHS, DAYS). weeks: of how many something is known."""

    hours: Bytes
    days: Bytes
    weeks: int


def profile_of(hour: NDArray[np.int64], columns: Mapping[str, Column]) -> QueueProfile:
    """What is normal by the last four weeks of `hour`: ascending numbers by `Calendar.hour` in UTC.

    columns: those of COLUMNS and HIGHEST that are known, by hour, NaN where an hour is not. A pause that is not given
    is as long as whole hours show it.
    """
    found = np.zeros((len(COLUMNS), WEEKS, HOURS), np.uint8)
    days = np.zeros((HIGHS, DAYS), np.uint8)
    if not len(hour):
        return QueueProfile(found, days, 0)
    last = hour > hour[-1] - WEEKS * HOURS
    hour, columns = hour[last], {name: column[last] for name, column in columns.items()}
    pause = columns["pause"] if "pause" in columns else pauses(hour, columns["inflow"])
    for at, name in enumerate(COLUMNS):
        column = pause if name == "pause" else columns.get(name)
        if column is not None:
            found[at, hour // HOURS % WEEKS, hour % HOURS] = packed(column + (at in (INFLOW, OUTFLOW)))
    day = hour // 24 % DAYS
    of_days = {at: columns[name] for name, at in HIGHEST.items() if name in columns}
    of_days |= {HIGHEST[name]: 1000 * columns[name] + 1 for name in SHARES if name in columns}
    of_days[CLOCK] = missing(hour, columns["inflow"], pause) + 1
    for at, column in of_days.items():
        np.maximum.at(days[at], day, packed(column))
    return QueueProfile(found, days, len({*(hour // HOURS).tolist()}))


def pauses(hour: NDArray[np.int64], inflow: Column) -> Column:
    """Seconds without a message by the end of each hour, as far as whole hours show it."""
    came = np.maximum.accumulate(np.where(inflow > 0, hour, -1))
    known = np.where(came >= 0, (hour - came) * 3600.0, np.nan)
    return np.where(inflow > 0, np.minimum(60.0, 7200.0 / np.maximum(inflow, 1.0)), known)


def missing(hour: NDArray[np.int64], inflow: Column, pause: Column) -> Column:
    """Messages that should have come in the longest pause of each hour, by the least of the hour of the week."""
    least = np.full(HOURS, np.inf)
    np.fmin.at(least, hour % HOURS, inflow)
    least = np.where(np.isinf(least), 0.0, least)
    numbers = np.arange(hour[0] - WEEKS * HOURS, hour[-1] + 1)
    came = np.concatenate([[0.0], np.cumsum(least[numbers % HOURS])])
    end = (hour - numbers[0] + 1).astype(np.float64)
    begin = np.clip(end - np.nan_to_num(pause) / 3600, 0.0, None)
    grid = np.arange(len(came), dtype=np.float64)
    return np.where(np.isnan(pause), np.nan, np.interp(end, grid, came) - np.interp(begin, grid, came))


def by_broker(queues: Iterable[tuple[str, QueueName, QueueProfile]]) -> dict[str, Profile]:
    """broker, name and profile of each."""
    found: dict[str, dict[QueueName, QueueProfile]] = {}
    for broker, name, one in queues:
        found.setdefault(broker, {})[name] = one
    return {broker: together(of) for broker, of in found.items()}


def together(queues: Mapping[QueueName, QueueProfile]) -> Profile:
    names, of = [*queues], queues.values()
    hours, days = (np.stack([getattr(one, table) for one in of], axis=-1) for table in ("hours", "days"))
    flows, away = np.split(hours, [PAUSE + 1])
    absent = np.flatnonzero(away.max(axis=(0, 1, 2)) > packed(LONG_ABSENCE))
    absences = ABSENCES.restored([names[i] for i in absent], away[..., absent], np.empty(0, np.uint8))
    return Profile(FLOWS.restored(names, flows, days), absences, max(one.weeks for one in of))
