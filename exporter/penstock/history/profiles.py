"""The file of profiles: what is normal for each queue, as Parquet; the trend job writes it, the agent reads it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.learned.byte_tables import DAYS, WEEKS, QueueName
from penstock.learned.normal import Profile
from penstock.learned.profile import COLUMNS, QueueProfile, by_broker
from penstock.observation.usual import HIGHS
from penstock.settings.calendar import HOURS

VERSION: Final = b"1"
SCHEMA: Final = pa.schema(
    [("broker", pa.string()), ("address", pa.string()), ("queue", pa.string()), ("weeks", pa.int8())]
    + [(name, pa.binary(WEEKS * HOURS)) for name in COLUMNS]
    + [("highest", pa.binary(HIGHS * DAYS))],
    {b"penstock.profiles": VERSION},
)
MOST_BYTES: Final = 1 << 30


def profile_table(queues: Iterable[tuple[str, QueueName, QueueProfile]]) -> Any:
    """Rows of `SCHEMA`: broker, name and profile of each queue."""
    rows = [
        (broker, *name, one.weeks, *(one.hours[i].tobytes() for i in range(len(COLUMNS))), one.days.tobytes())
        for broker, name, one in queues
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def read_profiles(path: Path) -> dict[str, Profile]:
    """By broker. ValueError says why the file cannot be used; OSError."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError("is larger than any file of profiles")
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"is no Parquet file ({str(error).splitlines()[0]})") from None
    if (table.schema.metadata or {}).get(b"penstock.profiles") != VERSION or table.schema.names != SCHEMA.names:
        raise ValueError("is no file of profiles that this version reads: run `penstock trends` again")
    rows = zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True)
    return by_broker((broker, (address, queue), queue_profile(*of)) for broker, address, queue, *of in rows)


def queue_profile(weeks: int, *tables: bytes) -> QueueProfile:
    *hours, days = (np.frombuffer(one, np.uint8) for one in tables)
    return QueueProfile(np.stack(hours).reshape(len(COLUMNS), WEEKS, HOURS), days.reshape(HIGHS, DAYS), weeks)
