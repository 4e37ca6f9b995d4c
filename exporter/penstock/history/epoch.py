"""Which life of its counters a row belongs to.

An increase is summed life by life, so a life ends wherever a counter may start again: the broker's process started
again, the thing was made again, a counter fell. A life that the agent sees begin is named for the moment of its first
poll, in milliseconds since 1970.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.safe_files import replacing
from penstock.core.table import Index, Keys, Table, positions, take_or_fill
from penstock.model import Process, Snapshot

log = logging.getLogger(__name__)

COUNTERS = 4
PROCESSES = b"processes"
"""In the file's metadata: the process of each broker at its last poll."""


@dataclass(frozen=True, slots=True)
class CounterEpoch:
    """Of the rows of one table. counters: (COUNTERS, rows), NaN where missing."""

    index: Index[object]
    sids: Keys
    inc: Keys
    counters: NDArray[np.float64]


@dataclass(slots=True)
class CounterEpochs:
    """The lives of all brokers' rows; queues go on over a restart of the agent by what `save` wrote."""

    _lives: dict[tuple[str, str], CounterEpoch] = field(default_factory=dict)
    _processes: dict[str, Process] = field(default_factory=dict)
    """Of each broker, at its last poll."""
    _saved: dict[str, tuple[Keys, Keys, NDArray[np.float64]]] = field(
        default_factory=dict
    )
    """Broker → sids ascending, inc and counters, as an earlier agent left them."""

    def begin_poll(self, broker: str, snapshot: Snapshot) -> None:
        """Forget the lives of a broker whose process is another."""
        if snapshot.broker is None or np.isnan(snapshot.broker.uptime):
            return
        process = snapshot.observation.process
        if process.replaces(self._processes.get(broker, Process())):
            self._lives = {
                name: life for name, life in self._lives.items() if name[0] != broker
            }
            self._saved.pop(broker, None)
        self._processes[broker] = process

    def of(
        self,
        broker: str,
        kind: str,
        table: Table[object],
        sids: Keys,
        counters: tuple[str, ...],
        stamp: float,
    ) -> Keys:
        now = np.full((COUNTERS, len(table)), np.nan)
        for i, name in enumerate(counters):
            now[i] = table[name]
        before = self._lives.get((broker, kind))
        if before is None:
            at, inc, last = self._as_left(broker, kind, sids)
        else:
            at = table.index.positions_in(before.index)
            inc = before.inc
            last = before.counters
        begun = round(stamp * 1000)
        said = take_or_fill(last, at, np.nan)
        with np.errstate(invalid="ignore"):
            goes_on = (at >= 0) & ~(now < said).any(axis=0)
        found = np.where(goes_on, take_or_fill(inc, at, begun), begun)
        # A counter that was not read at this poll is compared with its last reading at the next.
        kept = np.where(np.isnan(now) & goes_on, said, now)
        self._lives[broker, kind] = CounterEpoch(table.index, sids, found, kept)
        return found

    def _as_left(
        self, broker: str, kind: str, sids: Keys
    ) -> tuple[NDArray[np.intp], Keys, NDArray[np.float64]]:
        saved = self._saved.pop(broker, None) if kind == "queue" else None
        if saved is None:
            return (
                np.full(len(sids), -1, np.intp),
                np.empty(0, np.int64),
                np.empty((COUNTERS, 0)),
            )
        return positions(saved[0], sids), saved[1], saved[2]

    def save(self, file: Path) -> None:
        """Write the lives of the queues beside `file` and rename. Raises OSError."""
        batches = []
        for (broker, kind), life in sorted(self._lives.items(), key=lambda one: one[0]):
            if kind == "queue" and broker in self._processes:
                columns = {
                    "broker": pa.array([broker] * len(life.sids)),
                    "sid": pa.array(life.sids),
                    "inc": pa.array(life.inc),
                    **{f"c{i}": pa.array(life.counters[i]) for i in range(COUNTERS)},
                }
                batches.append(pa.table(columns))
        if batches:
            table = pa.concat_tables(batches)
            table = table.replace_schema_metadata(
                {PROCESSES: msgspec.msgpack.encode(self._processes)}
            )
            with replacing(file) as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)

    def load(self, file: Path) -> None:
        """Take up what an earlier agent left; what cannot be read is logged, and every life starts again."""
        if not file.exists():
            return
        try:
            with pa.OSFile(str(file)) as source:
                table = pa.ipc.open_file(source).read_all()
            processes = (table.schema.metadata or {})[PROCESSES]
            self._processes = msgspec.msgpack.decode(processes, type=dict[str, Process])
            for broker in table["broker"].unique().to_pylist():
                rows = table.filter(pa.compute.equal(table["broker"], broker)).sort_by(
                    "sid"
                )
                last = np.stack([rows[f"c{i}"].to_numpy() for i in range(COUNTERS)])
                self._saved[broker] = (
                    rows["sid"].to_numpy(),
                    rows["inc"].to_numpy(),
                    last,
                )
        except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError) as error:
            log.warning(
                "%s cannot be read, counters start again in the history: %s",
                file,
                error,
            )
