"""
What this version makes of all recordings and of a made-up broker: one JSON object a poll, for `bench.compare`.

Printed: the conditions that hold, what is known of their causes, what `explain` answers when they change, and every
sample of /metrics. Arguments: the folder of the labelled recordings, then
recordings of `penstock record`.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.compare.said import causes_of, explained
from bench.judge import Scene

from labelled import openmq, recordings
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State, Tables, assess
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.core.errors import SourceError
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock.insight.explain import BrokerView
from penstock.model import Snapshot
from penstock.series.last_good import LastGood, keep_last_good, keep_seconds
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.transports.recording import RecordingTransport

INTERVAL = 5.0
"""Seconds between two polls, as `explain` is given them."""


class Subject:
    """One broker's state, carried over polls."""

    def __init__(self, source: str, policy: Any) -> None:
        self.source = source
        self.policy = policy
        self.state = State()
        self.poll = 0
        self.conditions: list[list[str]] = []
        self.blocks = BrokerBlocks()
        self.exposition = Exposition(lambda _: b"")
        self.exposition.set_broker("", self.blocks)

    def restart(self, snapshot: Snapshot) -> None:
        memory = checkpoint_of(self.state, snapshot, self.policy)
        assert memory is not None
        self.state = restore(memory, State(), snapshot, self.policy)

    def take(self, snapshot: Snapshot) -> None:
        self.poll += 1
        self.state, tables = assess(self.state, snapshot, self.policy)
        self.blocks.update(tables)
        body = b"".join(self.exposition.chunks(Format.TEXT, gzip=False)).decode()
        conditions = self.state.judgement.conditions
        held = [
            [one.name, one.broker, one.address, one.queue, one.client, int(one.severity), one.since, one.consumers,
             one.silenced, one.why, sorted(one.evidence.items())]
            for one in conditions
        ]  # fmt: skip
        samples = sorted(line for line in body.splitlines() if not line.startswith("#"))
        out = {
            "source": self.source,
            "poll": self.poll,
            "conditions": sorted(held),
            "causes": causes_of(conditions),
            "explained": self._explained(snapshot, tables),
            "samples": samples,
        }
        sys.stdout.write(json.dumps(out) + "\n")

    def _explained(self, snapshot: Snapshot, tables: Tables) -> list[list[str]]:
        """Where other conditions hold than at the poll before; nothing else: the answers are long."""
        conditions = self.state.judgement.conditions
        now = sorted(
            [one.name, one.address, one.queue, one.client] for one in conditions
        )
        before = self.conditions
        self.conditions = now
        if now == before:
            return []
        view = BrokerView(self.state, tables, snapshot, self.policy, INTERVAL)
        return explained(view, conditions)


def labelled(root: Path) -> Iterator[tuple[str, Sequence[Snapshot]]]:
    for kind in ("artemis", "openmq"):
        for path in sorted((root / kind).glob("*.jsonl.gz")):
            samples: Any = (
                openmq.Samples() if kind == "openmq" else recordings.Samples()
            )
            lines = recordings.lines(path)
            if kind == "openmq":
                lines = openmq.without_the_run_before(lines)
            yield (
                f"{kind}/{path.name}",
                [
                    samples.snapshot(line)
                    for line in lines
                    if "meta" not in line and "event" not in line
                ],
            )


async def answered(path: Path) -> list[Snapshot]:
    transport = RecordingTransport(path)
    reader = KINDS[transport.header.kind].reader(
        transport, ReaderOptions(name="recorded"), None
    )
    found: list[Snapshot] = []
    kept = LastGood()
    interval = 5.0
    while True:
        try:
            snapshot = await reader.poll(3600.0)
        except SourceError:
            if transport.ended:
                await reader.close()
                return found
            continue
        if found:
            interval = snapshot.stamp - found[-1].stamp
        kept, snapshot = keep_last_good(kept, snapshot, keep_seconds(interval))
        found.append(snapshot)


def main(labelled_in: Path, raw: Sequence[Path]) -> None:
    constants = replace(Constants(), cold=45.0, trend=60.0)
    for source, snapshots in labelled(labelled_in):
        subject = Subject(source, Policy("recorded", constants=constants))
        for snapshot in snapshots:
            subject.take(snapshot)
        again = Subject(f"{source}, restarted", Policy("recorded", constants=constants))
        middle = len(snapshots) // 2
        for number, snapshot in enumerate(snapshots):
            if (
                number == middle
                and snapshot.queues is not None
                and snapshot.consumers is not None
            ):
                again.restart(snapshot)
            again.take(snapshot)
    for path in raw:
        subject = Subject(path.name, Policy("recorded", constants=constants))
        for snapshot in asyncio.run(answered(path)):
            subject.take(snapshot)
    scene = Scene(80, 400)
    subject = Subject("made up", Policy("bench"))
    np.seterr(all="ignore")
    for _ in range(140):
        subject.take(scene.step(0.01, 0.01))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
