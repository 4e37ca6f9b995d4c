"""
Judges recordings of labelled situations and compares what is told with their labels.

A recording is gzip JSON lines: a meta line, then samples of a queue with its address, broker and consumers, and events.
`truth.json` says per file which conditions must come (`need`: of each group one), which may (`also`), and from when the
time counts (`begin`). Any other warning or critical condition is wrong, at any time.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from conditions.things import Things
from labelled import openmq
from penstock.assessment.assess import State, advance
from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import sizes, tables
from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import ListingPage
from penstock.brokers.rows import Rows, lenient, matrix
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.core.table import Table
from penstock.model import (
    Broker,
    BrokerKind,
    ConnectionRow,
    Observation,
    Process,
    Role,
    Snapshot,
)
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy

HERE = Path(__file__).parent.parent / "recordings" / "judged"


class Samples:
    """Samples of one recording → snapshots, decoded by the reader's own tables."""

    def __init__(self) -> None:
        self._consumers = tables.ConsumerBuilder((), numbers=True)
        self._queues = tables.QueueBuilder()
        self._addresses = tables.AddressBuilder()
        self._connections = Things()

    def snapshot(self, sample: dict[str, Any]) -> Snapshot:
        broker = sample["broker"]
        queue = sample["queue"]
        queues = self._queues.table(
            [self._queues.page(_listing([sample["queueRow"]]), refresh=False)],
            Roles(),
            from_attributes=False,
        )
        numbers, _ = lenient(wire.QueueSizes, queue)
        assert numbers is not None
        said = dict(zip(sizes.COLUMNS, matrix([numbers], sizes.COLUMNS), strict=True))
        queues = Table(queues.index, {**queues.columns, **said})
        consumers = self._consumers.table(
            [self._consumers.page(_listing(sample["consumers"]))]
        )
        of_consumer = {row["id"]: row["remoteAddress"] for row in sample["consumers"]}
        connections = self._connection_table(sample["consumers"])
        keys = [self._connections.key(of_consumer[row.id]) for row in consumers.index]
        address, _ = lenient(wire.AddressAttributes, sample["address"])
        assert address is not None
        return Snapshot(
            stamp=sample["t"] / 1000,
            broker=_broker(broker),
            observation=Observation(Process.of(_broker(broker))),
            addresses=self._addresses.table(
                [tables.address_numbers(Rows([address], 1))], {}, None
            ),
            queues=queues,
            consumers=consumers,
            consumer_queue=self._queues.keys_of([row.queue for row in consumers.index]),
            connections=connections,
            consumer_connection=np.array(keys, np.int64),
        )

    def _connection_table(
        self, consumers: list[dict[str, Any]]
    ) -> Table[ConnectionRow]:
        """Those of the consumers: a client's address and port is one connection. Producers were not recorded."""
        rows: dict[str, ConnectionRow] = {}
        numbers: dict[str, dict[str, float]] = {}
        for address in dict.fromkeys(row["remoteAddress"] for row in consumers):
            own = [row for row in consumers if row["remoteAddress"] == address]
            sessions = {row["session"] for row in own}
            first = own[0]
            rows[address] = ConnectionRow(
                address, first["clientID"], first["protocol"], first["user"], address
            )
            numbers[address] = {
                "consumers": float(len(own)),
                "sessions": float(len(sessions)),
            }
        return self._connections.table(rows, numbers, {})


def _listing(rows: list[dict[str, Any]]) -> ListingPage:
    return ListingPage(
        wire.TextReply(200, value=json.dumps({"data": rows, "count": len(rows)}))
    )


def _broker(attributes: dict[str, Any]) -> Broker:
    return Broker(
        kind=BrokerKind.ARTEMIS,
        version="2.44.0",
        product_version="",
        node_id="recorded",
        role=Role.ACTIVE,
        clock=attributes["CurrentTimeMillis"] / 1000,
        uptime=attributes["UptimeMillis"] / 1000,
        memory_used_bytes=attributes["AddressMemoryUsage"],
        memory_limit_bytes=attributes["GlobalMaxSize"],
        disk_used_ratio=attributes["DiskStoreUsage"],
        disk_limit_ratio=attributes["MaxDiskUsage"] / 100,
    )


@dataclass(slots=True)
class Verdict:
    """What was told of one recording: condition → seconds from the begin to its first time; and how that compares."""

    file: str
    first: dict[str, float] = field(default_factory=dict)
    on: dict[str, str] = field(default_factory=dict)
    alarming: set[str] = field(default_factory=set)
    missing: list[list[str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        conditions = [
            {"name": name, "on": self.on[name], "seconds": round(seconds, 1)}
            for name, seconds in self.first.items()
        ]
        return json.dumps(
            {
                "file": self.file,
                "conditions": conditions,
                "missing": self.missing,
                "wrong": self.wrong,
            }
        )


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def judge(path: Path, truth: dict[str, Any], constants: Constants) -> Verdict:
    verdict = Verdict(path.name)
    of_openmq = path.parent.name == "openmq"
    samples: Samples | openmq.Samples = openmq.Samples() if of_openmq else Samples()
    state = State()
    policy = Policy("recorded", constants=constants)
    begin = np.nan
    for line in (
        openmq.without_the_run_before(lines(path)) if of_openmq else lines(path)
    ):
        if "meta" in line:
            continue
        if "event" in line:
            if line["event"] == truth["begin"]:
                begin = line["t"] / 1000
            continue
        snapshot = samples.snapshot(line)
        state = advance(state, snapshot, policy)
        if (
            np.isnan(begin)
            and truth["begin"] in ("first", "settle")
            and snapshot.queues is not None
        ):
            begin = snapshot.stamp if snapshot.queues["messages"].sum() > 0 else begin
        note(verdict, state.judgement.conditions, snapshot.stamp, begin)
    compare(verdict, truth)
    return verdict


def note(
    verdict: Verdict, conditions: tuple[ActiveCondition, ...], now: float, begin: float
) -> None:
    for condition in conditions:
        if condition.severity is not Severity.INFO:
            verdict.alarming.add(condition.name)
        if condition.name not in verdict.first:
            verdict.first[condition.name] = now - begin
            verdict.on[condition.name] = "client" if condition.client else "queue"


def compare(verdict: Verdict, truth: dict[str, Any]) -> None:
    lawful = {name for group in truth["need"] for name in group} | set(truth["also"])
    verdict.missing = [
        group for group in truth["need"] if not set(group) & set(verdict.first)
    ]
    verdict.wrong = sorted(verdict.alarming - lawful)


def main(directory: Path, cold: float, trend: float) -> int:
    truth = json.loads((directory / "truth.json").read_text(encoding="utf-8"))
    constants = replace(Constants(), cold=cold, trend=trend)
    verdicts = [
        judge(directory / kind / f"{name}.jsonl.gz", truth[kind][name], constants)
        for kind in ("artemis", "openmq")
        for name in sorted(truth[kind])
    ]
    for verdict in verdicts:
        print(verdict.line())  # noqa: T201 - the result
    missing = sum(bool(verdict.missing) for verdict in verdicts)
    wrong = sum(bool(verdict.wrong) for verdict in verdicts)
    right = sum(not verdict.missing and not verdict.wrong for verdict in verdicts)
    print(  # noqa: T201
        json.dumps(
            {"files": len(verdicts), "right": right, "missing": missing, "wrong": wrong}
        )
    )
    return int(right != len(verdicts))


if __name__ == "__main__":
    sys.exit(
        main(
            Path(sys.argv[1]) if len(sys.argv) > 1 else HERE,
            float(sys.argv[2]),
            float(sys.argv[3]),
        )
    )
