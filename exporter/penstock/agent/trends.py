"""The results of the trend job as series: `gauges.json` read again when it has changed. Of a file without pyarrow."""

import logging
import threading
import time
from dataclasses import make_dataclass
from os import stat_result
from pathlib import Path
from stat import S_ISREG
from urllib.parse import urlsplit, urlunsplit

import msgspec
import numpy as np

from penstock.assessment.assess import Tables
from penstock.core.errors import ConfigError, PenstockError, how_to_install
from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE, TABLES
from penstock.exposition.render import BrokerBlocks

log = logging.getLogger(__name__)

FORMAT = 1
MAX_BYTES = 64 * 2**20
STORED_SECONDS = 300.0
NEVER = "never"
SHOWN = [name for name in TABLES if name.startswith("trend_")]
ROWS = {
    name: make_dataclass(name, [(label, str) for label in TABLES[name]], frozen=True)
    for name in SHOWN
}


class GaugeRow(msgspec.Struct):
    table: str
    labels: dict[str, str]
    values: dict[str, float | str]


class Gauges(msgspec.Struct):
    version: int
    rows: list[GaugeRow]


class Trends:
    """Shows `file` (None: nothing) in `blocks`; one that cannot be used is logged once, and what was shown stays."""

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
                log.warning(
                    "%s cannot be shown: %s; run penstock trends run again",
                    self.file,
                    error,
                )


class StoredTrends(Trends):
    """The same of an object store, read every five minutes in a thread of its own: it may take long to answer.

    Raises ConfigError for a URL that cannot be used.
    """

    def __init__(self, url: str) -> None:
        try:
            from penstock.history.store import Store  # noqa: PLC0415 - the core is installed without pyarrow
        except ModuleNotFoundError:
            raise ConfigError(f"history.trends {how_to_install('pyarrow')}") from None
        super().__init__(Path(url))
        self.url = url
        parts = urlsplit(url)
        place, _, self._name = parts.path.rpartition("/")
        self._store = Store(urlunsplit(parts._replace(path=place)))
        self._due = 0.0
        self._content = b""

    def refresh(self) -> None:
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            self._due = time.monotonic() + STORED_SECONDS
            threading.Thread(
                target=self._fetch, name="penstock-trends", daemon=True
            ).start()

    def _fetch(self) -> None:
        try:
            content = self._store.read_bytes(self._name, MAX_BYTES) or b""
            if content != self._content:
                self.blocks.update(tables(decoded(content)) if content else {})
                self._content = content
        except (PenstockError, ValueError) as error:
            log.warning(
                "%s cannot be shown: %s; run penstock trends run again", self.url, error
            )
        finally:
            self._lock.release()


def read(file: Path, stat: stat_result) -> Gauges:
    """Raises ValueError."""
    if not S_ISREG(stat.st_mode):  # to read a pipe would wait for a writer
        raise ValueError("is no file")
    if stat.st_size > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES} bytes")
    return decoded(file.read_bytes())


def decoded(content: bytes) -> Gauges:
    """Raises ValueError."""
    gauges = msgspec.json.decode(content, type=Gauges)
    if gauges.version != FORMAT:
        raise ValueError(f"has format {gauges.version}, this version reads {FORMAT}")
    return gauges


def tables(gauges: Gauges) -> Tables:
    """The rows as tables of the catalogue; rows that it does not know are left out."""
    tables_by_name: dict[str, Table[object]] = {}
    for name in SHOWN:
        rows = {
            tuple(one.labels.get(label, "") for label in TABLES[name]): one
            for one in gauges.rows
            if one.table == name
        }
        columns = [family.column for family in CATALOGUE if family.table == name]
        values = {
            name: np.array([gauge_value(row.values.get(name)) for row in rows.values()])
            for name in columns
        }
        tables_by_name[name] = Table(
            Index.of([ROWS[name](*labels) for labels in rows]), values
        )
    return tables_by_name


def gauge_value(value: float | str | None) -> float:
    return np.nan if value is None else np.inf if value == NEVER else float(value)
