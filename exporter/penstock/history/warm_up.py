"""
Joining done once at the start, on next to nothing.

What pyarrow loads for it, and the threads that it starts, are 4 MB: an agent that runs has them from the beginning, and
not one day an hour later, at the limit of its container.
"""

import shutil
from pathlib import Path

import pyarrow as pa

from penstock.history.compact import HOUR, Keep, tidy
from penstock.history.publish import directory as hour_directory
from penstock.history.schema import CONDITION, ROW_TYPES
from penstock.history.store import Store

NAME = "_rehearsal"
REHEARSED = (ROW_TYPES["consumer"], CONDITION)
"""Rows that stand twice are found in two ways."""


def warm_up(spool: Path) -> None:
    """Join two files of each of REHEARSED in a directory of its own in `spool`. Raises StoreError or OSError."""
    directory = spool / NAME
    shutil.rmtree(directory, ignore_errors=True)  # a kill may have left it
    store = Store(str(directory))
    for kind in REHEARSED:
        row = pa.table([pa.nulls(1, column.type) for column in kind.schema], schema=kind.schema)
        for name in "ab":
            store.write_table(f"{hour_directory(kind.name, 0)}/{name}.parquet", row)
    tidy(store, Keep(), now=2.0 * HOUR)
    shutil.rmtree(directory)
