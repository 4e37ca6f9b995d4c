"""
Which life of its counters a row belongs to.

An increase is summed life by life, so a life ends wherever a counter may begin anew: the broker's process started
again, the thing was made anew, a counter fell. A life that the agent sees begin is named for the moment of its first
poll, in milliseconds since 1970.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model import Snapshot
from penstock.table import Index, Keys, Table

log = logging.getLogger(__name__)

SAME_START = 2.0
"""Seconds by which the start of one process may seem to differ, read at two moments."""
COUNTERS = 4


@dataclass(frozen=True, slots=True)
class Life:
    """Of the rows of one table. counters: (COUNTERS, rows), NaN where missing."""

    index: Index[Any]
    sids: Keys
    inc: Keys
    counters: NDArray[np.float64]


@dataclass(slots=True)
class Incarnations:
    """The lives of all brokers' rows; queues go on over a restart of the agent by what `save` wrote."""

    _lives: dict[tuple[str, str], Life] = field(default_factory=dict)
    _starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Broker → start of its process by the agent's clock, and its uptime."""
    _saved: dict[str, tuple[float, Keys, Keys, NDArray[np.float64]]] = field(default_factory=dict)
    """Broker → start, sids ascending, inc and counters, as an earlier agent left them."""

    def begin_poll(self, broker: str, snapshot: Snapshot) -> None:
        """Forget the lives of a broker whose process is another."""
        if snapshot.broker is None or np.isnan(snapshot.broker.uptime):
            return
        uptime, start = snapshot.broker.uptime, snapshot.stamp - snapshot.broker.uptime
        before = self._starts.get(broker)
        if before is not None and uptime < before[1]:
            self._lives = {name: life for name, life in self._lives.items() if name[0] != broker}
        self._starts[broker] = start, uptime

    def of(
        self, broker: str, kind: str, table: Table[Any], sids: Keys, counters: tuple[str, ...], stamp: float
    ) -> Keys:
        """Inc of each row."""
        now = np.full((COUNTERS, len(table)), np.nan)
        for i, name in enumerate(counters):
            now[i] = table[name]
        before = self._lives.get((broker, kind))
        if before is None:
            at, inc, last = self._as_left(broker, kind, sids)
        else:
            at, inc, last = table.index.located(before.index), before.inc, before.counters
        goes_on = at >= 0
        if len(inc):
            with np.errstate(invalid="ignore"):
                fell = (now < last[:, at]).any(axis=0)
            goes_on &= ~fell
        begun = round(stamp * 1000)
        found = np.where(goes_on, inc[at] if len(inc) else begun, begun).astype(np.int64)
        # A counter that was not read at this poll is compared with its last reading at the next.
        kept = np.where(np.isnan(now) & goes_on, last[:, at], now) if len(inc) else now
        self._lives[broker, kind] = Life(table.index, sids, found, kept)
        return found

    def _as_left(self, broker: str, kind: str, sids: Keys) -> tuple[NDArray[np.intp], Keys, NDArray[np.float64]]:
        saved = self._saved.pop(broker, None) if kind == "queue" else None
        start = self._starts.get(broker, (np.nan, np.nan))[0]
        if saved is None or not abs(saved[0] - start) <= SAME_START or not len(saved[1]):
            return np.full(len(sids), -1, np.intp), np.empty(0, np.int64), np.empty((COUNTERS, 0))
        at = np.minimum(np.searchsorted(saved[1], sids), len(saved[1]) - 1)
        return np.where(saved[1][at] == sids, at, -1), saved[2], saved[3]

    def save(self, file: Path) -> None:
        """Write the lives of the queues beside `file` and rename. Raises OSError."""
        batches = []
        for (broker, kind), life in sorted(self._lives.items(), key=lambda one: one[0]):
            if kind == "queue" and broker in self._starts:
                columns = {
                    "broker": pa.array([broker] * len(life.sids)),
                    "start": pa.array(np.full(len(life.sids), self._starts[broker][0])),
                    "sid": pa.array(life.sids),
                    "inc": pa.array(life.inc),
                    **{f"c{i}": pa.array(life.counters[i]) for i in range(COUNTERS)},
                }
                batches.append(pa.table(columns))
        if batches:
            beside = file.with_suffix(".new")
            with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as writer:
                writer.write_table(pa.concat_tables(batches))
            beside.replace(file)

    def load(self, file: Path) -> None:
        """Take up what an earlier agent left; what cannot be read is told, and every life begins anew."""
        if not file.exists():
            return
        try:
            with pa.OSFile(str(file)) as source:
                table = pa.ipc.open_file(source).read_all()
            for broker in table["broker"].unique().to_pylist():
                rows = table.filter(pa.compute.equal(table["broker"], broker)).sort_by("sid")
                last = np.stack([rows[f"c{i}"].to_numpy() for i in range(COUNTERS)])
                start = rows["start"][0].as_py()
                self._saved[broker] = start, rows["sid"].to_numpy(), rows["inc"].to_numpy(), last
        except (OSError, pa.ArrowException, KeyError) as error:
            log.warning("%s cannot be read, counters begin anew in the history: %s", file, error)
