"""
`make bench-journal`: what it costs to record a poll before it is shown, beside the poll's assessment. Last line: JSON.

The polls are made up, a fifth of the queues works, a hundredth of the consumers reconnects. Times are wall-clock, as
what is recorded is written to a file; `…_cpu_ms` is what the thread itself used.
"""

import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click
from bench.harness import NO_LIMITS, facts
from bench.judge import Scene
from bench.world import SECONDS_A_POLL

from penstock.agent import Assessor, PollResult, Result, process
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.state_database import FILE, StateDatabase
from penstock.agent.workers import Workers
from penstock.settings.policy import Policy

SIZES = ((100, 500), (10_000, 50_000))
"""Queues, consumers."""
WARM_UP = 5


@dataclass(slots=True)
class Stopwatch:
    """Seconds of each lap, by the wall and by the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    _began: tuple[float, float] = (0.0, 0.0)

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        wall_began, cpu_began = self._began
        self.wall.append(time.perf_counter() - wall_began)
        self.cpu.append(time.thread_time() - cpu_began)


@click.command()
@click.option("--polls", default=40, show_default=True)
@click.option(
    "--active", default=0.2, show_default=True, help="Share of the queues that work."
)
def main(polls: int, active: float) -> None:
    process.tune()
    result: dict[str, Any] = {}
    for queues, consumers in SIZES:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            result[f"{queues}_queues"] = measured(
                Path(folder), Scene(queues, consumers, active=active), polls
            )
    print(
        json.dumps(
            {"bench": "journal", "polls": polls, "active": active, **result, **facts()}
        )
    )


def measured(folder: Path, scene: Scene, polls: int) -> dict[str, float]:
    kept = Checkpoints(StateDatabase(folder), Workers(), lambda _: None)
    kept.load()
    store = kept._store  # noqa: SLF001 - how much was recorded is nobody else's concern
    assessor = Assessor(Policy("bench", limits=NO_LIMITS), SECONDS_A_POLL)
    assess = Stopwatch()
    record = Stopwatch()
    first = Stopwatch()
    save = Stopwatch()
    sizes = []
    for number in range(WARM_UP + polls):
        snapshot = scene.step(0.01, 0.0)
        with assess:
            assessor.take(snapshot)
            events = list(assessor.changes(PollResult(Result.OK)))
        before = store.recorded_bytes
        with record if number else first:
            kept.record(assessor, events)
        sizes.append(store.recorded_bytes - before)
    with save:
        kept.keep_now(assessor)
        kept.flush()
    kept.close()
    steady = slice(WARM_UP - 1, None)
    return {
        "assess_ms": milliseconds(median(assess.wall[WARM_UP:])),
        "assess_cpu_ms": milliseconds(median(assess.cpu[WARM_UP:])),
        "record_ms": milliseconds(median(record.wall[steady])),
        "record_cpu_ms": milliseconds(median(record.cpu[steady])),
        "record_most_ms": milliseconds(max(record.wall[steady])),
        "record_kb": kilobytes(median(sizes[WARM_UP:])),
        "first_ms": milliseconds(first.wall[0]),
        "first_kb": kilobytes(sizes[0]),
        "save_ms": milliseconds(save.wall[0]),
        "state_kb": kilobytes((folder / FILE).stat().st_size),
    }


def milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 2)


def kilobytes(size: float) -> float:
    return round(size / 1000, 1)


if __name__ == "__main__":
    main()
