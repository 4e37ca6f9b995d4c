"""What is normal for each queue, out of its hours: the file that agents read at their start (`normal.profiles`)."""

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
ROWS: Final = pa.schema(
    [("sid", pa.int64())]
    + [
        (
            name,
            pa.binary()
            if pa.types.is_fixed_size_binary(SCHEMA.field(name).type)
            else SCHEMA.field(name).type,
        )
        for name in _TABLES
    ]
)


def write_profiles(session: Any, out: Store, window: Pointers) -> None:
    """The file, of the last weeks of the window: of one more, in which a silence may have begun. Reads `series`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    until = max(one.start for one in window.values())
    recent = {
        day: one
        for day, one in window.items()
        if until - one.start < 7 * (WEEKS + 1) * DAY
    }
    source = Source(out, recent, {"": Calendar()}, bins=False)
    rows = source.rows(session, "queue", None, profiles_of_units, ROWS)
    names = (
        session.table("series").where("kind = 'queue'").select("sid", *SCHEMA.names[:3])
    )
    named = rows.join(names, "sid").drop("sid").withColumn(FILE, f.lit(PROFILES))
    if not write(named, out, SCHEMA, SCHEMA.names[:3], mode=FOR_OTHERS):
        out.write_table(PROFILES, SCHEMA.empty_table())


def profile_table(queues: Iterable[tuple[str, QueueName, QueueProfile]]) -> Any:
    """Rows of `SCHEMA`: broker, name and profile of each queue."""
    rows = [
        (
            broker,
            *name,
            one.weeks,
            *map(np.ndarray.tobytes, one.hours),
            one.days.tobytes(),
            *one.service,
        )
        for broker, name, one in queues
    ]
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
    )


def profiles_of_units(
    url: str, kind: str, calendars: Calendars, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker: a row of each queue of which whole hours were seen."""
    seen = (
        (sid, hours_of(rows))
        for sid, (rows, _, _) in series_of_units(url, kind, calendars, batches)
    )
    made = ((sid, profile_of(*of)) for sid, of in seen if len(of[0]))
    while some := [*islice(made, ROWS_AT_ONCE)]:
        table = profile_table(("", ("", ""), profile) for _, profile in some).select(
            _TABLES
        )
        yield from (
            table.add_column(0, "sid", pa.array([sid for sid, _ in some]))
            .cast(ROWS)
            .to_batches()
        )
