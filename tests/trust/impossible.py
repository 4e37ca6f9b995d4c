"""A recorded broker, any number of which is replaced by one that a Java type can hold and no broker can mean."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokers.test_contract import Answering, Subject, of_artemis, of_classic, of_openmq
from history.polls import Clock, writer
from penstock.agent import Assessor, Poller
from penstock.agent.history import evicted
from penstock.brokers import rows
from penstock.brokers.artemis import answers as artemis
from penstock.brokers.classic import answers as classic
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.openmq import answers as openmq
from penstock.core.table import Table
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, PollRecord
from penstock.model import Snapshot
from penstock.settings.policy import Policy
from penstock.transports.transport import Answer, Request
from penstock_trends.advice import advice_of, polls_of
from penstock_trends.analysis import FACTS, cleaned
from penstock_trends.facts import columns_of
from penstock_trends.kernel import HOUR, TIERS
from penstock_trends.raw import rolled
from trust.mutation import fold, unfold

VALUES: tuple[int | None, ...] = (
    0,
    -1,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**63 - 1,
    None,
)
SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "artemis": of_artemis,
    "openmq": of_openmq,
    "classic": of_classic,
}
ANSWERS = {"artemis": artemis, "openmq": openmq, "classic": classic}
NUMBERS = (rows.Count, rows.Setting, rows.Wrapping, rows.Ratio, rows.Millis, rows.Code)
"""Types of numbers in answers."""

Choice = Callable[[str, int], Any]
"""The broker's name of a field, and the how-manieth of this name in an answer → a value, or KEEP."""
KEEP = object()


def fields_of(kind: str, *types: Any) -> list[str]:
    """The broker's names of all fields that hold a number, or one of these types."""
    wanted = types or NUMBERS
    names: set[str] = set()
    for struct in structs_of(kind):
        for one in msgspec.structs.fields(struct):
            if one.type in wanted:
                names.add(one.encode_name)
    return sorted(names - {"timestamp"})


def structs_of(kind: str) -> list[type[msgspec.Struct]]:
    """The types of the answers that its module declares."""
    module = ANSWERS[kind]
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    return [
        one
        for one in classes
        if issubclass(one, msgspec.Struct) and one.__module__ == module.__name__
    ]


class Odd(Answering):
    """The broker of a subject; `choose` says which of its numbers are others."""

    def __init__(self, kind: str) -> None:
        super().__init__(SUBJECTS[kind]())
        self.fields = frozenset(fields_of(kind))
        self.choose: Choice | None = None

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        answer = await super().ask(requests, timeout)
        if self.choose is None:
            return answer
        opened = [self._odd(unfold(one), {}) for one in json.loads(answer.body)]
        return Answer(
            json.dumps([fold(one) for one in opened]).encode(),
            answer.stamp,
            answer.seconds,
        )

    def _odd(self, value: Any, seen: dict[str, int]) -> Any:
        if isinstance(value, list):
            return [self._odd(one, seen) for one in value]
        if not isinstance(value, dict):
            return value
        chosen = {}
        for name, inner in value.items():
            chosen[name] = self._chosen(name, inner, seen)
        return chosen

    def _chosen(self, name: str, value: Any, seen: dict[str, int]) -> Any:
        if name not in self.fields or isinstance(value, dict | list):
            return self._odd(value, seen)
        assert self.choose is not None
        number = seen[name] = seen.get(name, -1) + 1
        chosen = self.choose(name, number)
        return value if chosen is KEEP else chosen


@dataclass
class Watched:
    """One broker, polled, judged and shown. directory: where its history is kept; None: nowhere."""

    kind: str
    directory: Path | None = None
    seen: list[Snapshot] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    history: HistoryWriter | None = None

    def __post_init__(self) -> None:
        self.broker = Odd(self.kind)
        reader = self.broker.subject.kind.reader(
            self.broker, ReaderOptions(name="b"), None
        )
        self.poller = Poller(reader, Assessor(Policy("b"), 5.0), 4.5)
        self.clock.now = self.broker.now
        if self.directory is not None:
            self.history = writer(self.directory, self.clock)

    async def poll(self, choose: Choice | None = None) -> str:
        """The error of one poll, which is judged, shown and written."""
        self.broker.choose = choose
        result = await self.poller.poll()
        assert "the log has the details" not in result.error, result.error
        view = self.poller.assessor.view
        if view is not None:
            self.seen.append(view.snapshot)
            self._keep(view.snapshot)
        return result.error

    def _keep(self, snapshot: Snapshot) -> None:
        if self.history is not None:
            self.clock.now = snapshot.stamp
            judgement = self.poller.assessor.state.judgement
            self.history.step(
                PollRecord(
                    "b", snapshot, judgement.conditions, evicted(snapshot, judgement)
                )
            )

    def shown(self) -> list[str]:
        """The lines of /metrics of the broker."""
        exposition = Exposition(lambda _: b"")
        exposition.set_broker(self.poller.name, self.poller.assessor.blocks)
        body = b"".join(exposition.chunks(Format.TEXT, gzip=False)).decode()
        return [line for line in body.splitlines() if not line.startswith("#")]

    def close(self) -> None:
        """Close the files of the history."""
        if self.history is not None:
            self.history.finish()

    def store(self) -> Store:
        """What was written, published."""
        assert self.history is not None
        assert self.directory is not None
        self.history.finish()
        assert self.history.failing == ""
        return Store(str(self.directory / "history"))


SETTINGS = frozenset({
    "page_read_limit_bytes", "page_read_limit_messages", "max_consumers", "consumers_before_dispatch",
    "max_delivery_attempts", "expiry_delay", "slow_consumer_rate", "slow_consumer_period", "acknowledge_mode",
})  # fmt: skip
"""Columns that operators set, to "without limit" too."""


@contextmanager
def unflushed() -> Iterator[None]:
    """Nothing is flushed to the disk: no test of what a power cut leaves, and it takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for flush in ("fsync", "fdatasync"):
            patch.setattr(os, flush, lambda _: None)
        yield


def largest(snapshots: Iterable[Snapshot]) -> float:
    """The largest count in any column of what was read."""
    most = 0.0
    for snapshot in snapshots:
        for table in (
            snapshot.addresses,
            snapshot.queues,
            snapshot.consumers,
            snapshot.producers,
        ):
            if table is not None:
                most = max(most, largest_of(table))
    return most


def largest_of(table: Table[Any]) -> float:
    """The largest count in any column of a table."""
    most = 0.0
    for name, column in table.columns.items():
        if name not in SETTINGS:
            most = max(most, float(np.nanmax(np.abs(column), initial=0.0)))
    return most


def analysed(store: Store) -> int:
    """Make of a history all that the trends make without Spark; how many series there were."""
    count = 0
    for kind in TIERS:
        paths = [entry.path for entry in store.files(f"raw/kind={kind}")]
        problems: dict[str, str] = {}
        for table in rolled(store, kind, paths, problems):
            count += analysed_hours(kind, table)
        assert problems == {}
    advised(store)
    return count


def analysed_hours(kind: str, table: pa.Table) -> int:
    """Hourly rows of a kind; how many series they are of."""
    hours = with_increases(kind, columns_of(table.drop_columns(texts_of(table))))
    series = np.unique(hours["sid"]).tolist()
    for sid in series:
        rows = {name: column[hours["sid"] == sid] for name, column in hours.items()}
        end = float(rows["start"].max() + HOUR)
        if kind in FACTS:
            json.dumps(cleaned(FACTS[kind](rows, end)), allow_nan=False)
    return len(series)


def advised(store: Store) -> None:
    """Replay the polls of each queue."""
    paths = [entry.path for entry in store.files("raw/kind=queue")]
    sids = sids_of(store, paths)
    polls = polls_of(store, paths, sids)
    for sid in sids:
        mine = polls["sid"] == sid
        advice_of({name: column[mine] for name, column in polls.items()})


def texts_of(table: pa.Table) -> list[str]:
    return [
        name
        for name in table.column_names
        if pa.types.is_string(table.schema.field(name).type)
    ]


def with_increases(kind: str, hours: dict[str, Any]) -> dict[str, Any]:
    """As `sql/i1.sql` has them where each row is the first of its series."""
    size = len(hours["sid"])
    for name in TIERS[kind].counters:
        hours[name] = hours[f"hi_{name}"] - hours[f"lo_{name}"]
        hours[f"gap_{name}"] = np.zeros(size)
    return hours | {"complete": np.ones(size)}


def sids_of(store: Store, paths: Sequence[str]) -> list[int]:
    """All series of some raw files."""
    sids: set[int] = set()
    for path in paths:
        table = pq.read_table(store.path(path), columns=["sid"])
        sids.update(table["sid"].to_pylist())
    return sorted(sids)
