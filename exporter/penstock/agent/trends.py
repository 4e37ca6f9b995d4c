"""What the trend job said, as series: `gauges.json` read again when it has changed. Needs no pyarrow."""

import logging
import threading
from dataclasses import make_dataclass
from os import stat_result
from pathlib import Path
from stat import S_ISREG
from typing import Any

import msgspec
import numpy as np

from penstock.assessment.assess import Tables
from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE, TABLES
from penstock.exposition.render import BrokerBlocks

log = logging.getLogger(__name__)

FORMAT = 1
MAX_BYTES = 64 * 2**20
NEVER = "never"
SHOWN = [name for name in TABLES if name.startswith("trend_")]
ROWS = {name: make_dataclass(name, [(label, str) for label in TABLES[name]], frozen=True) for name in SHOWN}


class GaugeRow(msgspec.Struct):
    table: str
    labels: dict[str, str]
    values: dict[str, float | str]


class Gauges(msgspec.Struct):
    version: int
    rows: list[GaugeRow]


class Trends:
    """Shows in `blocks` what stands in `file`; a file that cannot be used is told once, and what was shown stays.

    file: None: there is nothing to show.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.blocks = BrokerBlocks()
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Look whether the file is another, and show it then; in any of the worker threads."""
        if self.file is None:
            return
        with self._lock:
            try:
                stat = self.file.stat()
                seen = stat.st_mtime_ns, stat.st_size
                if seen != self._seen:
                    self._seen = seen
                    self.blocks.update(tables(read(self.file, stat)))
            except FileNotFoundError:
                if self._seen is not None:
                    self._seen = None
                    self.blocks.update({})
            except (OSError, ValueError) as error:
                log.warning("%s cannot be shown: %s; run penstock trends run again", self.file, error)


def read(file: Path, stat: stat_result) -> Gauges:
    """Raises ValueError."""
    if not S_ISREG(stat.st_mode):  # to read a pipe would wait for whoever writes
        raise ValueError("is no file")
    if stat.st_size > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES} bytes")
    gauges = msgspec.json.decode(file.read_bytes(), type=Gauges)
    if gauges.version != FORMAT:
        raise ValueError(f"has format {gauges.version}, this version reads {FORMAT}")
    return gauges


def tables(gauges: Gauges) -> Tables:
    """The rows as tables of the catalogue; rows that it does not know are left out."""
    found: dict[str, Table[Any]] = {}
    for name in SHOWN:
        rows = {
            tuple(one.labels.get(label, "") for label in TABLES[name]): one for one in gauges.rows if one.table == name
        }
        columns = [family.column for family in CATALOGUE if family.table == name]
        values = {name: np.array([gauge_value(row.values.get(name)) for row in rows.values()]) for name in columns}
        found[name] = Table(Index.of([ROWS[name](*labels) for labels in rows]), values)
    return found


def gauge_value(value: float | str | None) -> float:
    return np.nan if value is None else np.inf if value == NEVER else float(value)
