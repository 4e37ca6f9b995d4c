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
from penstock_trends.kernel import TIERS
from penstock_trends.raw import rolled
from trust.mutation import fold, unfold

VALUES: tuple[int | None, ...] = (0, -1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, None)
SUBJECTS: Mapping[str, Callable[[], Subject]] = {"artemis": of_artemis, "openmq": of_openmq, "classic": of_classic}
ANSWERS = {"artemis": artemis, "openmq": openmq, "classic": classic}
NUMBERS = (rows.Count, rows.Setting, rows.Wrapping, rows.Ratio, rows.Millis, rows.Code)
"""Types of numbers in answers."""

Choice = Callable[[str, int], Any]
"""The broker's name of a field, and the how-manieth of this name in an answer → a value, or KEEP."""
KEEP = object()


def fields_of(kind: str, *types: Any) -> list[str]:
    """The broker's names of all fields that hold a number, or one of these types."""
    wanted = types or NUMBERS
    structs = [one for one in vars(ANSWERS[kind]).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    found = {
        field.encode_name
        for struct in structs
        if struct.__module__ == ANSWERS[kind].__name__
        for field in msgspec.structs.fields(struct)
        if field.type in wanted and field.encode_name != "timestamp"
    }
    return sorted(found)


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
        return Answer(json.dumps([fold(one) for one in opened]).encode(), answer.stamp, answer.seconds)

    def _odd(self, value: Any, seen: dict[str, int]) -> Any:
        if isinstance(value, list):
            return [self._odd(one, seen) for one in value]
        if not isinstance(value, dict):
            return value
        return {name: self._chosen(name, inner, seen) for name, inner in value.items()}

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
        reader = self.broker.subject.kind.reader(self.broker, ReaderOptions(name="b"), None)
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
            self.history.step(PollRecord("b", snapshot, judgement.conditions, evicted(snapshot, judgement)))

    def shown(self) -> list[str]:
        """The lines of /metrics of the broker."""
        exposition = Exposition(lambda _: b"")
        exposition.set_broker(self.poller.name, self.poller.assessor.blocks)
        body = b"".join(exposition.chunks(Format.TEXT, gzip=False)).decode()
        return [line for line in body.splitlines() if not line.startswith("#")]

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
    tables = [getattr(one, name) for one in snapshots for name in ("addresses", "queues", "consumers", "producers")]
    columns = [(name, one) for table in tables if table is not None for name, one in table.columns.items()]
    counts = [float(np.nanmax(np.abs(one), initial=0.0)) for name, one in columns if name not in SETTINGS]
    return max(counts, default=0.0)


def analysed(store: Store) -> int:
    """All that the trends make of a history without Spark; how many series there were."""
    found = 0
    for kind in TIERS:
        paths = [entry.path for entry in store.files(f"raw/kind={kind}")]
        problems: dict[str, str] = {}
        for table in rolled(store, kind, paths, problems):
            hours = with_increases(kind, columns_of(table.drop_columns(texts_of(table))))
            for sid in np.unique(hours["sid"]).tolist():
                one = {name: column[hours["sid"] == sid] for name, column in hours.items()}
                if kind in FACTS:
                    json.dumps(cleaned(FACTS[kind](one, float(one["start"].max() + 3600))), allow_nan=False)
                found += 1
        assert not [why for why in problems.values() if "cannot be" not in why], problems
    queues = [entry.path for entry in store.files("raw/kind=queue")]
    polls = polls_of(store, queues, store_sids(store, queues))
    for sid in np.unique(polls["sid"]).tolist():
        advice_of({name: column[polls["sid"] == sid] for name, column in polls.items()})
    return found


def texts_of(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]


def with_increases(kind: str, hours: dict[str, Any]) -> dict[str, Any]:
    """As `sql/i1.sql` has them where each row is the first of its series."""
    for name in TIERS[kind].counters:
        hours[name] = hours[f"hi_{name}"] - hours[f"lo_{name}"]
        hours[f"gap_{name}"] = np.zeros(len(hours[name]))
    return hours | {"complete": np.ones(len(hours["sid"]))}


def store_sids(store: Store, paths: Sequence[str]) -> list[int]:
    tables = [pq.read_table(store.path(path), columns=["sid"]) for path in paths]
    return sorted({sid for table in tables for sid in table["sid"].to_pylist()})
