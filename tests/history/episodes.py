"""What the rows of conditions say, read one by one: for tests of what the agent writes, without Spark."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.history.schema import UNSEEN
from penstock_trends import backtest


@dataclass(frozen=True, slots=True)
class Episode(backtest.Episode):
    """open: it was still there at the end of what is known. end_known: False where no one
    looked when it ended: `end` is when it was last seen, then.
    """

    end_known: bool = True


Name = tuple[str, str, str, str, str]
RANK = {"info": 0, "warning": 1, "critical": 2}


def episodes(rows: Iterable[Mapping[str, Any]], until: float) -> list[Episode]:
    """rows: of kind condition, in any order, also twice; stamp, since and seen are datetimes or None. until: end of
    what is known.

    What stands is told every hour: where that does not come (the agent was killed, or away), it ended when it was last
    seen, unless it stands later since the same time.
    """
    by_name: dict[Name, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        name = (
            row["broker"],
            row["address"],
            row["queue"],
            row["client"],
            row["condition"],
        )
        by_name[name].append(row)
    found: list[Episode] = []
    for named, told in sorted(by_name.items()):
        found += _of_one(
            named,
            sorted(told, key=lambda row: (row["stamp"], row["event"] == "enter")),
            until,
        )
    return found


def _of_one(
    name: Name, told: list[Mapping[str, Any]], until: float
) -> Iterable[Episode]:
    begin = last = -1.0
    severity = "info"
    for row in told:
        stamp = row["stamp"].timestamp()
        since = _time(row, "since")
        unseen = stamp - last > UNSEEN
        if (
            begin >= 0
            and since > last
            and (row["event"] == "enter" or (unseen and row["event"] != "leave"))
        ):
            yield Episode(*name, severity, begin, last, open=False, end_known=False)
            begin = -1.0
        if begin < 0 and row["event"] != "leave":
            begin = since
            severity = row["severity"]
        if begin >= 0:
            severity = max(severity, row["severity"], key=RANK.__getitem__)
            if row["event"] == "leave":
                seen = max(_time(row, "seen"), last)
                known = stamp - seen <= UNSEEN
                yield Episode(
                    *name,
                    severity,
                    begin,
                    stamp if known else seen,
                    open=False,
                    end_known=known,
                )
                begin = -1.0
            last = stamp
    if begin >= 0:
        stands = until - last <= UNSEEN
        yield Episode(
            *name,
            severity,
            begin,
            max(until, last) if stands else last,
            open=stands,
            end_known=stands,
        )


def _time(row: Mapping[str, Any], name: str) -> float:
    """Of the row itself where it is not known."""
    found: float = (row["stamp"] if row[name] is None else row[name]).timestamp()
    return found
