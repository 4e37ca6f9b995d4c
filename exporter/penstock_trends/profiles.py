"""What is normal for each queue, out of its hours: the file that agents read at their start (`normal.profiles`)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.safe_files import FOR_OTHERS
from penstock.history.compact import DAY
from penstock.history.profiles import SCHEMA, profile_table
from penstock.history.store import Store
from penstock.learned.byte_tables import WEEKS
from penstock.learned.profile import profile_of
from penstock.settings.calendar import Calendar
from penstock_trends.days import Pointers
from penstock_trends.facts import Calendars, Source, series_of_units
from penstock_trends.kernel import HOUR
from penstock_trends.tables import FILE, write

PROFILES: Final = "profiles.parquet"
FEWEST: Final = 10
"""Messages that left in an hour, before a share of them says something."""
INPUTS: Final = ("start", "n", "added", "acknowledged", "expired", "killed", "messages_max", "consumers_sum")
Columns = dict[str, NDArray[np.float64]]
_TABLES: Final = SCHEMA.names[3:]
ROWS: Final = pa.schema([("sid", pa.int64()), ("weeks", pa.int8()), *((name, pa.binary()) for name in _TABLES[1:])])


def write_profiles(session: Any, out: Store, window: Pointers) -> None:
    """The file, of the last four weeks of the window. Reads the view `series`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    until = max(one.start for one in window.values())
    recent = {day: one for day, one in window.items() if until - one.start < 7 * WEEKS * DAY}
    rows = Source(out, recent, {"": Calendar()}).rows(session, "queue", None, profiles_of_units, ROWS)
    names = session.table("series").where("kind = 'queue'").select("sid", *SCHEMA.names[:3])
    named = rows.join(names, "sid").drop("sid").withColumn(FILE, f.lit(PROFILES))
    if not write(named, out, SCHEMA, SCHEMA.names[:3], mode=FOR_OTHERS):
        out.write_table(PROFILES, SCHEMA.empty_table())


def profiles_of_units(url: str, kind: str, calendars: Calendars, batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: a row of each queue of which whole hours were seen."""
    for sid, (rows, _, _) in series_of_units(url, kind, calendars, batches):
        hours, columns = hours_of(rows)
        if len(hours):
            table = profile_table([("", ("", ""), profile_of(hours, columns))]).select(_TABLES)
            table = table.add_column(0, "sid", pa.array([sid])).cast(ROWS)
            yield from table.to_batches()


def hours_of(rows: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], Columns]:
    """Of a queue's rows: the numbers of the hours that were seen, in UTC, and what `profile_of` takes.

    Lives of its counters within an hour are put together. What came in a gap is left out, as its hour is not known.
    """
    seen = rows["complete"] > 0
    rows = {name: rows[name][seen] for name in INPUTS}
    start, at = np.unique(rows["start"], return_inverse=True)

    def together(how: Any, name: str, begin: float) -> NDArray[np.float64]:
        found = np.full(len(start), begin)
        how.at(found, at, rows[name].astype(np.float64))
        return found

    added, settled, expired, killed, polls = (
        together(np.add, name, 0.0) for name in ("added", "acknowledged", "expired", "killed", "n")
    )
    depth, consumers = together(np.fmax, "messages_max", np.nan), together(np.add, "consumers_sum", 0.0)
    left = settled + expired + killed
    enough = np.where(left >= FEWEST, left, np.nan)
    columns = {
        "inflow": added,
        "outflow": settled,
        "pause": longest_pauses(start, added),
        "absence": absences(start, consumers / np.maximum(polls, 1.0), depth),
        "backlog": depth,
        # All of an hour may have gone within five minutes.
        "expired": np.fmin(12 * expired / enough, 1.0),
        "killed": np.fmin(12 * killed / enough, 1.0),
    }
    return start.astype(np.int64) // HOUR + Calendar().hour(0), columns


def longest_pauses(start: NDArray[Any], added: NDArray[np.float64]) -> NDArray[np.float64]:
    """As long as they may have been: within an hour the tiers do not show when messages came."""
    last = np.maximum.accumulate(np.where(added > 0, start, -np.inf))
    before = np.append(-np.inf, last[:-1])
    return np.where(np.isinf(before), HOUR, start - before + HOUR).astype(np.float64)


def absences(start: NDArray[Any], consumers: NDArray[np.float64], depth: NDArray[np.float64]) -> NDArray[np.float64]:
    """For how many seconds, by the end of each hour, messages had waited without a consumer. consumers: the mean."""
    away, found = 0.0, np.empty(len(start))
    for i, (present, most) in enumerate(zip(consumers, depth, strict=True)):
        followed = i > 0 and start[i] - start[i - 1] == HOUR
        before = away if followed else 0.0
        found[i] = max(before + HOUR * max(1.0 - present, 0.0), 1.0) if most > 0 else 1.0
        away = found[i] if present == 0 and most > 0 else 0.0
    return found
