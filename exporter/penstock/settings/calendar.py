"""The week of a broker: its hours by the wall clock of a zone, holidays, planned maintenance."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from penstock.settings.business_hours import time_zone

HOURS = 168
"""Of a week."""
SUNDAY = 6 * 24
"""Its first hour of the week."""
_MAINTENANCE = "write begin and end by the clock of the broker's zone: 2026-12-24 22:00 / 2026-12-25 02:00"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Planned work, from begin to end, by the wall clock of the broker's zone."""

    text: str
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Calendar:
    """Hours are numbered by the wall clock since the year 1: an hour that the clock skips is never there, one that it
    repeats is one long hour.
    """

    zone: str = "UTC"
    holidays: frozenset[date] = frozenset()
    maintenance: tuple[Maintenance, ...] = ()

    def hour(self, now: float) -> int:
        """The number of the hour; now: seconds since 1970."""
        local_time = datetime.fromtimestamp(now, time_zone(self.zone))
        return (local_time.toordinal() - 1) * 24 + local_time.hour

    def is_holiday(self, hour: int) -> bool:
        return date.fromordinal(hour // 24 + 1) in self.holidays

    def last_holiday(self, now: float) -> float:
        """The end of the last holiday that has begun, seconds since 1970."""
        zone = time_zone(self.zone)
        begun = [
            day
            for day in self.holidays
            if day <= datetime.fromtimestamp(now, zone).date()
        ]
        midnight = (
            datetime.combine(max(begun) + timedelta(1), time(tzinfo=zone))
            if begun
            else None
        )
        return midnight.timestamp() if midnight else float("-inf")

    def in_maintenance(self, now: float) -> bool:
        local_time = datetime.fromtimestamp(now, time_zone(self.zone)).replace(
            tzinfo=None
        )
        return any(
            window.begin <= local_time < window.end for window in self.maintenance
        )


def parse_maintenance(text: object) -> Maintenance:
    """ValueError says what is allowed."""
    try:
        begin, end = (
            datetime.strptime(one.strip(), "%Y-%m-%d %H:%M")  # noqa: DTZ007
            for one in str(text).split("/")
        )
    except ValueError:
        raise ValueError(f"is no time of maintenance; {_MAINTENANCE}") from None
    if end <= begin:
        raise ValueError(f"ends before it begins; {_MAINTENANCE}")
    return Maintenance(str(text).strip(), begin, end)
