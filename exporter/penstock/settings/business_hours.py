"""Business hours: `Mon-Fri 08:00-18:00 Europe/Berlin`."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(DAYS)
_TEXT = re.compile(
    rf"(?P<days>(?:{_DAY})(?:-(?:{_DAY}))?(?:,(?:{_DAY})(?:-(?:{_DAY}))?)*)"
    r" (?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?: (?P<zone>[A-Za-z0-9_+/-]{1,64}))?"
)
ALLOWED = (
    "write days, times and, when not UTC, a zone: Mon-Fri 08:00-18:00 Europe/Berlin"
)


@dataclass(frozen=True, slots=True)
class Hours:
    """Days of the week (0 = Monday), begin and end in minutes of the day, by the wall clock of a zone. An end at or
    before the begin is one of the next day; the days are those of the begin.
    """

    text: str
    days: frozenset[int]
    begin: int
    end: int
    zone: str

    def __call__(self, now: float) -> bool:
        """Whether it is open at `now`, seconds since 1970."""
        local_time = datetime.fromtimestamp(now, time_zone(self.zone))
        minute = local_time.hour * 60 + local_time.minute
        day = local_time.weekday()
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        return (day in self.days and minute >= self.begin) or (
            (day - 1) % 7 in self.days and minute < self.end
        )


@cache
def time_zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - most agents have no hours to keep

    return (
        UTC if name == "UTC" else ZoneInfo(name)
    )  # the one that a machine without a database of zones has


def parse_hours(text: object) -> Hours:
    """ValueError says what is allowed."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"are no business hours; {ALLOWED}")
    try:
        zone = check_zone(match["zone"] or "UTC")
    except ValueError as error:
        raise ValueError(f"{error}; {ALLOWED}") from None
    return Hours(
        match[0],
        _days(match["days"]),
        _minutes(match["begin"]),
        _minutes(match["end"], last=24),
        zone,
    )


def check_zone(zone: str) -> str:
    """The name of a zone, without blanks around it. ValueError: it is none that is known."""
    zone = zone.strip()
    try:
        time_zone(zone)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError("name no time zone that is known here") from None
    except KeyError:
        raise ValueError(
            f"name the zone {zone}, which is not known here (is tzdata installed?)"
        ) from None
    return zone


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin = DAYS.index(first)
        count = (DAYS.index(last or first) - begin) % 7 + 1
        days |= {(begin + i) % 7 for i in range(count)}
    return frozenset(days)


def _minutes(text: str, last: int = 23) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour > last or (hour == 24 and minute):
        raise ValueError(f"hold a time {text} that no day has; {ALLOWED}")
    return hour * 60 + minute
