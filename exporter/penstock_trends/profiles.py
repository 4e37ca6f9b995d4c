"""The profiles of queues, made from their hours: the file that agents read at their start (`normal.profiles`).

A profile says what is normal for a queue by hour of the week (see `normal.py`). So an agent that starts, or a new one,
knows it without weeks of its own polls. Workers know a queue by its sid, a number; the file has names.
"""

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
from penstock_trends.untyped import ArrowBatch, SparkSession

PROFILES: Final = "profiles.parquet"
_NAMES: Final = SCHEMA.names[:3]
"""Columns of the file that name a queue: broker, address and queue."""
_TABLES: Final = SCHEMA.names[3:]
"""Columns of the file with the profile itself."""


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


def write_profiles(session: SparkSession, out: Store, window: Pointers) -> None:
    """Write the file of profiles, made of the last WEEKS weeks of the window; an empty one without any queue.

    One week more is read, as a silence may have begun in it. Spark's view `series` gives
    the names.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    until = max(pointer.start for pointer in window.values())
    earliest = until - 7 * (WEEKS + 1) * DAY
    recent = {
        day: pointer for day, pointer in window.items() if pointer.start > earliest
    }
    # Profiles are by hours of UTC, and need no bins.
    source = Source(out, recent, {"": Calendar()}, bins=False)
    rows = source.rows(session, "queue", None, profiles_of_units, ROWS)
    series = session.table("series").where("kind = 'queue'").select("sid", *_NAMES)
    named = rows.join(series, "sid").drop("sid")
    placed = named.withColumn(FILE, f.lit(PROFILES))
    if not write(placed, out, SCHEMA, _NAMES, mode=FOR_OTHERS):
        out.write_table(PROFILES, SCHEMA.empty_table())


def profile_table(queues: Iterable[tuple[str, QueueName, QueueProfile]]) -> Any:
    """Returns a table of `SCHEMA` with a row for each queue, given as its broker, name and profile."""
    rows = []
    for broker, name, profile in queues:
        # In the order of SCHEMA: each table of hours is a column of bytes, so is the table of days.
        values = (
            broker,
            *name,
            profile.weeks,
            *map(np.ndarray.tobytes, profile.hours),
            profile.days.tobytes(),
            *profile.service,
        )
        rows.append(dict(zip(SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(rows, SCHEMA)


def profiles_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: yields batches of ROWS, a row for each queue of which whole hours were recorded."""
    series = series_of_units(url, kind, calendars, batches)
    profiles = sids_and_profiles(series)
    while pairs := list(islice(profiles, ROWS_AT_ONCE)):
        sids = pa.array([sid for sid, _ in pairs])
        # The driver puts names in place of the sid, see `write_profiles`.
        no_name = ("", "")
        table = profile_table(("", no_name, profile) for _, profile in pairs)
        rows = table.select(_TABLES).add_column(0, "sid", sids)
        yield from rows.cast(ROWS).to_batches()


def sids_and_profiles(
    series: Iterable[tuple[int, tuple[dict[str, Any], float, frozenset[int]]]],
) -> Iterator[tuple[int, QueueProfile]]:
    """Yields sid and profile of each queue of which whole hours were recorded. series: as from `series_of_units`."""
    for sid, (rows, _, _) in series:
        hour, columns = hours_of(rows)
        if len(hour):
            yield sid, profile_of(hour, columns)
