"""Episodes of conditions: from the rows that say enter, hold, leave to begins, ends and durations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Episode:
    """Times in seconds since 1970. open: it was still there at the end of what is known."""

    broker: str
    address: str
    queue: str
    client: str
    condition: str
    severity: str
    begin: float
    end: float
    open: bool

    @property
    def seconds(self) -> float:
        return max(self.end - self.begin, 0.0)


Name = tuple[str, str, str, str, str]
RANK = {"info": 0, "warning": 1, "critical": 2}


def episodes(rows: Iterable[Mapping[str, Any]], until: float) -> list[Episode]:
    """
    rows: of kind condition, in any order, also twice; stamp and since are datetimes. until: end of what is known.

    An enter without a leave (the agent was killed) ends where the same is entered again, at the latest at `until`.
    """
    by_name: dict[Name, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        name = (row["broker"], row["address"], row["queue"], row["client"], row["condition"])
        by_name[name].append(row)
    found: list[Episode] = []
    for named, told in sorted(by_name.items()):
        found += _of_one(named, sorted(told, key=lambda row: (row["stamp"], row["event"] == "enter")), until)
    return found


def _of_one(name: Name, told: list[Mapping[str, Any]], until: float) -> Iterable[Episode]:
    begin = last = -1.0
    severity = "info"
    for row in told:
        stamp = row["stamp"].timestamp()
        since = row["since"].timestamp() if row["since"] is not None else stamp
        if begin >= 0 and row["event"] == "enter" and since > last:
            yield Episode(*name, severity, begin, last, open=False)
            begin = -1.0
        if begin < 0 and row["event"] != "leave":
            begin, severity = since, row["severity"]
        if begin >= 0:
            severity = max(severity, row["severity"], key=RANK.__getitem__)
            last = stamp
        if row["event"] == "leave" and begin >= 0:
            yield Episode(*name, severity, begin, stamp, open=False)
            begin = -1.0
    if begin >= 0:
        yield Episode(*name, severity, begin, max(until, last), open=True)
