"""What the benches share: one broker polled as the agent polls it, the time of each stage, facts about the machine."""

import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.world import EPOCH, SECONDS_A_POLL

from penstock.agent import Assessor, Poller, process
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.state_database import StateDatabase
from penstock.agent.workers import Workers
from penstock.brokers.artemis import reader
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.engine import ReaderOptions
from penstock.core.table import Table
from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.exposition.render import BrokerBlocks
from penstock.insight.events import Event
from penstock.model import Snapshot
from penstock.settings.policy import Limits, Policy
from penstock.transports.transport import Answer, Request, Transport

NO_LIMITS = Limits(
    consumers_per_broker=1_000_000, consumers_per_queue=1_000_000, clients=1_000_000
)
"""Every consumer is shown one by one."""


class Stages:
    """CPU seconds of this process by stage; they follow each other, so that each ends where the next begins."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._since = time.process_time()

    def end(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] += now - self._since
        self._since = now

    def restart(self) -> None:
        self.seconds.clear()
        self._since = time.process_time()


class PacedTransport:
    """
    Passes on to another transport, with a clock by which polls are as far apart as an agent's.

    What the reader does not ask at every poll is then asked as often as in earnest, however fast the bench polls.
    """

    def __init__(self, inner: Transport, stages: Stages) -> None:
        self._inner = inner
        self._stages = stages
        self._polls = 0
        self._decoding = "start"
        self.asked: list[Sequence[Request]] = []
        """The bulks of the present poll."""

    async def begin_poll(self) -> None:
        self._polls += 1
        self.asked = []
        self._decoding = "start"
        await self._inner.begin_poll()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        self._stages.end(self._decoding)
        answer = await self._inner.ask(requests, timeout)
        self._stages.end("fetch")
        self.asked.append(requests)
        self._decoding = f"decode {subject(requests[0])}"
        return Answer(answer.body, EPOCH + self._polls * SECONDS_A_POLL, answer.seconds)

    async def close(self) -> None:
        await self._inner.close()

    def end_reading(self) -> None:
        self._stages.end(self._decoding)


def subject(request: Request) -> str:
    """What a request is about, in a word or two."""
    if request["type"] == "exec":
        return str(request["operation"]).partition("(")[0]
    attribute = str(request["attribute"][0])
    return {
        "AcknowledgeAttempts": "sizes",
        "DeadLetterAddress": "roles",
        "Address": "diverts",
        "GroupCount": "groups",
    }.get(attribute, "broker")


class _Reader(ArtemisReader):
    """Says when the last answer is decoded."""

    def __init__(
        self, transport: PacedTransport, page_rows: int, executor: ThreadPoolExecutor
    ) -> None:
        super().__init__(transport, ReaderOptions(page_rows=page_rows), executor)
        self._paced = transport

    async def poll(self, timeout: float) -> Snapshot:
        snapshot = await super().poll(timeout)
        self._paced.end_reading()
        return snapshot


class _Blocks(BrokerBlocks):
    def __init__(self, stages: Stages, families: Iterable[Family]) -> None:
        super().__init__(families)
        self._stages = stages

    def update(
        self, tables: Mapping[str, Table[Any]], label_length: int = 1024
    ) -> None:
        self._stages.end("record")
        super().update(tables, label_length)
        self._stages.end("render + compress")


class Polled:
    """One broker, polled by the agent's own `Poller` whenever `poll` is called."""

    def __init__(
        self,
        transport: Transport,
        *,
        page_rows: int = 5_000,
        families: Iterable[Family] = CATALOGUE,
    ) -> None:
        process.tune()
        self.stages = Stages()
        self.transport = PacedTransport(transport, self.stages)
        self.executor = ThreadPoolExecutor(1)
        self.blocks = _Blocks(self.stages, families)
        reads = _Reader(self.transport, page_rows, self.executor)
        self._storage = TemporaryDirectory(prefix="penstock-bench-")
        self.kept = Checkpoints(
            StateDatabase(Path(self._storage.name)), Workers(), lambda _: None
        )
        self.kept.load()

        def record(assessor: Assessor, events: Sequence[Event]) -> None:
            self.stages.end("assess")
            self.kept.record(assessor, events)

        policy = Policy("bench", limits=NO_LIMITS)
        assessor = Assessor(
            policy, SECONDS_A_POLL, blocks=self.blocks, on_record=record
        )
        self.poller = Poller(reads, assessor, 120.0, self.executor)

    async def poll(self) -> float:
        """CPU seconds of one whole tick; what they went into is in `stages`."""
        self.stages.restart()
        began = time.process_time()
        result = await self.poller.poll()
        seconds = time.process_time() - began
        if result.error:
            raise SystemExit(f"the poll went wrong: {result.error}")
        return seconds

    async def warm_up(self, polls: int = 4) -> list[Sequence[Request]]:
        """
        Polls until everything is known; the bulks that were asked for it.

        The settings of all addresses at once, which else takes a poll for each 500.
        """
        asked = []
        at_once = reader.SETTINGS_AT_ONCE
        reader.SETTINGS_AT_ONCE = 1_000_000
        try:
            for _ in range(polls):
                await self.poll()
                asked += self.transport.asked
        finally:
            reader.SETTINGS_AT_ONCE = at_once
        return asked

    async def close(self) -> None:
        await self.poller.close()
        self.executor.shutdown()
        self.kept.close()
        self._storage.cleanup()


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each stage the median over the runs; a stage that a run did not have took 0 there."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: median(run.get(name, 0.0) for run in runs) for name in names}


def print_table(rows: Mapping[str, Sequence[str]], head: Sequence[str]) -> None:
    """Rows by their name, first column left, others right."""
    lines = [head, *([name, *cells] for name, cells in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *cells in lines:
        print(
            name.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)),
        )
    print()


def facts() -> dict[str, Any]:
    """The machine and the versions that were measured."""
    return {
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{
            name: version(name)
            for name in ("numpy", "msgspec", "orjson", "isal", "prometheus_client")
        },
    }
