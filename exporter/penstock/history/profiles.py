"""The file of profiles: what is normal for each queue, as Parquet; the trend job writes it, the agent reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.schema import fitted
from penstock.learned.byte_tables import DAYS, WEEKS
from penstock.learned.normal import Profile
from penstock.learned.profile import COLUMNS, QueueProfile, by_broker
from penstock.observation.usual import HIGHS
from penstock.settings.calendar import HOURS

VERSION: Final = b"1"
SCHEMA: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("address", pa.string()),
        ("queue", pa.string()),
        ("weeks", pa.int8()),
    ]
    + [(name, pa.binary(WEEKS * HOURS)) for name in COLUMNS]
    + [
        ("highest", pa.binary(HIGHS * DAYS)),
        ("service", pa.float32()),
        ("windows", pa.float32()),
    ],
    {b"penstock.profiles": VERSION},
)
FIRST: Final = SCHEMA.names[:-2]
MOST_BYTES: Final = 1 << 30


def read_profiles(path: Path) -> dict[str, Profile]:
    """By broker. ValueError says why the file cannot be used; OSError."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError("is larger than any file of profiles")
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"is no Parquet file ({str(error).splitlines()[0]})") from None
    known = table.schema.names[: len(FIRST)] == FIRST  # columns are only ever added
    if (table.schema.metadata or {}).get(b"penstock.profiles") != VERSION or not known:
        raise ValueError(
            "is no file of profiles that this version reads: run `penstock trends` again"
        )
    rows = zip(
        *(column.to_pylist() for column in fitted(table, SCHEMA).columns), strict=True
    )
    return by_broker(
        (broker, (address, queue), queue_profile(weeks, levels, (service, windows)))
        for broker, address, queue, weeks, *levels, service, windows in rows
    )


def queue_profile(
    weeks: int, levels: Sequence[bytes], timing: tuple[float, float]
) -> QueueProfile:
    """The profile of a queue. levels: the columns of its hours, and that of its days. timing: the last two columns."""
    *hours, days = (np.frombuffer(column, np.uint8) for column in levels)
    return QueueProfile(
        np.stack(hours).reshape(len(COLUMNS), WEEKS, HOURS),
        days.reshape(HIGHS, DAYS),
        weeks,
        timing,
    )
