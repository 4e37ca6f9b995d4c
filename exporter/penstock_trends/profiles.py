"""The profiles of queues, made from their hours: the file that agents read at their start (`normal.profiles`)."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.core.safe_files import FOR_OTHERS
from penstock.history.compact import DAY
from penstock.history.profiles import SCHEMA
from penstock.history.store import Store
from penstock.learned.byte_tables import WEEKS, QueueName
from penstock.learned.profile import QueueProfile
from penstock.settings.calendar import Calendar
from penstock_trends.days import Pointers
from penstock_trends.facts import ROWS_AT_ONCE, Calendars, Source, series_of_units
from penstock_trends.normal import hours_of, profile_of
from penstock_trends.tables import FILE, write

PROFILES: Final = "profiles.parquet"
_TABLES: Final = SCHEMA.names[3:]


def plain_type(name: str) -> Any:
    """Returns the type of a column for Spark, which has no texts of bytes of a fixed length."""
    stored = SCHEMA.field(name).type
    return pa.binary() if pa.types.is_fixed_size_binary(stored) else stored


ROWS: Final = pa.schema(
    [
        ("sid", pa.int64()),
        *((name, plain_type(name)) for name in _TABLES),
    ]
)
"""The rows of workers: `SCHEMA` with a sid in place of the names."""


def write_profiles(session: Any, out: Store, window: Pointers) -> None:
    """Write the file from the last weeks of the window. Reads the view `series`.

    One week more is read: a silence may have begun in it.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    until = max(pointer.start for pointer in window.values())
    earliest = until - 7 * (WEEKS + 1) * DAY
    recent = {
        day: pointer for day, pointer in window.items() if pointer.start > earliest
    }
    source = Source(out, recent, {"": Calendar()}, bins=False)
    rows = source.rows(session, "queue", None, profiles_of_units, ROWS)
    names = SCHEMA.names[:3]
    series = session.table("series").where("kind = 'queue'").select("sid", *names)
    named = rows.join(series, "sid").drop("sid")
    placed = named.withColumn(FILE, f.lit(PROFILES))
    if not write(placed, out, SCHEMA, names, mode=FOR_OTHERS):
        out.write_table(PROFILES, SCHEMA.empty_table())


def profile_table(queues: Iterable[tuple[str, QueueName, QueueProfile]]) -> Any:
    """Returns rows of `SCHEMA`: broker, name and profile of each queue."""
    rows = [
        (
            broker,
            *name,
            profile.weeks,
            *map(np.ndarray.tobytes, profile.hours),
            profile.days.tobytes(),
            *profile.service,
        )
        for broker, name, profile in queues
    ]
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
    )


def profiles_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker: yields a row of ROWS for each queue of which whole hours were recorded."""
    profiles = sids_and_profiles(series_of_units(url, kind, calendars, batches))
    while pairs := list(islice(profiles, ROWS_AT_ONCE)):
        sids = pa.array([sid for sid, _ in pairs])
        no_name = ("", "")
        table = profile_table(("", no_name, profile) for _, profile in pairs)
        rows = table.select(_TABLES).add_column(0, "sid", sids)
        yield from rows.cast(ROWS).to_batches()


def sids_and_profiles(
    series: Iterable[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]],
) -> Iterator[tuple[int, QueueProfile]]:
    """Yields sid and profile of each queue of which whole hours were recorded."""
    for sid, (rows, _, _) in series:
        hours = hours_of(rows)
        if len(hours[0]):
            yield sid, profile_of(*hours)
