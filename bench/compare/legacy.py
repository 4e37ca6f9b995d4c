# mypy: ignore-errors
"""What `replayed` prints, of the code at 283a76f: the last version before the rooms were rebuilt."""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.judge import Scene

from judging import openmq, recordings
from penstock.agent.opening import reader_over
from penstock.cli.replay import Recorded
from penstock.errors import SourceError
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock.flow.assess import State, assess
from penstock.flow.judge.constants import Constants
from penstock.flow.memory import recall, remember
from penstock.flow.policy import Policy
from penstock.flow.retention import Kept, keep_seconds, retain
from penstock.model import BrokerKind, Snapshot
from penstock.sources.artemis import ReaderOptions


class Subject:
    """One broker's state, carried over polls."""

    def __init__(self, source: str, policy: Any) -> None:
        self.source = source
        self.policy = policy
        self.state = State()
        self.poll = 0
        self.blocks = BrokerBlocks()
        self.exposition = Exposition(lambda _: b"")
        self.exposition.set_broker("", self.blocks)

    def restart(self, snapshot: Snapshot) -> None:
        memory = remember(self.state, snapshot, self.policy)
        self.state = recall(memory, State(), snapshot, self.policy)

    def take(self, snapshot: Snapshot) -> None:
        self.poll += 1
        self.state, tables = assess(self.state, snapshot, self.policy)
        self.blocks.update(tables)
        body = b"".join(self.exposition.chunks(Format.TEXT, gzip=False)).decode()
        told = [
            [one.name, one.broker, one.address, one.queue, one.client, int(one.severity), one.since, one.consumers,
             one.silenced, one.why, sorted(one.evidence.items())]
            for one in self.state.judgement.conditions
        ]  # fmt: skip
        samples = sorted(line for line in body.splitlines() if not line.startswith("#"))
        out = {
            "source": self.source,
            "poll": self.poll,
            "conditions": sorted(told),
            "samples": samples,
        }
        sys.stdout.write(json.dumps(out) + "\n")


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
    transport = Recorded(path)
    reader = reader_over(
        transport, BrokerKind(transport.header.kind), "recorded", ReaderOptions()
    )
    found = []
    kept = Kept()
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
        kept, snapshot = retain(kept, snapshot, keep_seconds(interval))
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
