"""
Rules in use today, over the recordings of a run: each alarms on a queue and names no cause.

Written from their descriptions, for this comparison only.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.engine import ReaderOptions
from penstock.cli.replay import TIMEOUT
from penstock.core.errors import SourceError
from penstock.model import Snapshot
from penstock.transports.recording import RecordingTransport

FLAT_SECONDS = 60.0
GROWING_SECONDS = 300.0
WINDOW = 10
"""Samples of Burrow's window."""
SLOW_PER_SECOND = 1.0
"""Threshold of the slow-consumer rule: the broker's own is off until somebody sets one."""


@dataclass(frozen=True, slots=True)
class Alarm:
    queue: str
    at: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What a rule may look at. rates: acknowledgements a second of each consumer since the sample before."""

    at: float
    lag: float
    settled: float
    added: float
    rates: tuple[float, ...]


Rule = Callable[[Sequence[Sample]], bool]
"""Whether the samples of a queue, oldest first, are an alarm at the last of them."""


@dataclass(frozen=True, slots=True)
class Rival:
    name: str
    alarms: Rule


def burrow(samples: Sequence[Sample]) -> bool:
    """Over the last ten samples: never caught up, and offsets stand still, or lag never shrinks while they move."""
    last = samples[-WINDOW:]
    if len(last) < WINDOW or any(sample.lag == 0 for sample in last):
        return False
    shrinks = any(after.lag < before.lag for before, after in pairwise(last))
    return not shrinks


def acks_flat(samples: Sequence[Sample]) -> bool:
    """Messages are there and none is acknowledged for a minute."""
    now = samples[-1]
    since = [sample for sample in samples if sample.at >= now.at - FLAT_SECONDS - 1]
    lasts = now.at - since[0].at >= FLAT_SECONDS - 1
    return (
        lasts
        and since[0].settled == now.settled
        and all(sample.lag > 0 for sample in since)
    )


def slow_consumer(samples: Sequence[Sample]) -> bool:
    """A consumer acknowledges below the threshold though enough comes or lies there for all of them."""
    if len(samples) < 2:
        return False
    before, now = samples[-2:]
    enough = SLOW_PER_SECOND * len(now.rates)
    rate_in = (now.added - before.added) / max(now.at - before.at, 1e-9)
    return (rate_in >= enough or now.lag >= enough) and any(
        rate < SLOW_PER_SECOND for rate in now.rates
    )


def lag_growing(samples: Sequence[Sample]) -> bool:
    """The slope of the backlog over five minutes is above zero, and so it was at every sample of the last minute."""
    now = samples[-1]
    recent = [sample for sample in samples if sample.at >= now.at - FLAT_SECONDS]
    return all(_slope(samples, sample.at) > 0 for sample in recent)


def _slope(samples: Sequence[Sample], until: float) -> float:
    window = [
        sample for sample in samples if until - GROWING_SECONDS <= sample.at <= until
    ]
    if window[-1].at - window[0].at < GROWING_SECONDS - 30:
        return 0.0
    middle = sum(sample.at for sample in window) / len(window)
    return sum((sample.at - middle) * sample.lag for sample in window)


RIVALS = (
    Rival("Burrow's rules", burrow),
    Rival("acknowledgements flat for 60 s", acks_flat),
    Rival("Artemis' slow-consumer rule, 1/s", slow_consumer),
    Rival("backlog growing for 5 min", lag_growing),
)


@dataclass(slots=True)
class Series:
    """The samples of all queues of one broker."""

    samples: dict[str, deque[Sample]] = field(default_factory=dict)
    acknowledged: dict[int, tuple[float, float]] = field(default_factory=dict)

    def take(self, snapshot: Snapshot) -> list[str]:
        """The queues that have a new sample."""
        queues = snapshot.queues
        consumers = snapshot.consumers
        if queues is None or consumers is None:
            return []
        rates: dict[str, list[float]] = {}
        for i, row in enumerate(consumers.index):
            key = int(consumers.index.keys[i])
            acknowledged = float(consumers["acknowledged"][i])
            at, before = self.acknowledged.get(key, (snapshot.stamp, acknowledged))
            rate = (
                (acknowledged - before) / (snapshot.stamp - at)
                if snapshot.stamp > at
                else SLOW_PER_SECOND
            )
            rates.setdefault(row.queue, []).append(rate)
            self.acknowledged[key] = snapshot.stamp, acknowledged
        for i, queue in enumerate(queues.index):
            sample = Sample(
                snapshot.stamp,
                float(queues["messages"][i]),
                float(queues["acknowledged"][i]),
                float(queues["added"][i]),
                tuple(rates.get(queue.name, ())),
            )
            self.samples.setdefault(queue.name, deque(maxlen=200)).append(sample)
        return [queue.name for queue in queues.index]


def rival_alarms(files: Sequence[Path]) -> dict[str, list[Alarm]]:
    """By rule every queue and time at which it alarms, over the recordings of a run."""
    found: dict[str, list[Alarm]] = {rival.name: [] for rival in RIVALS}
    for file in files:
        asyncio.run(_judge(file, found))
    return found


async def _judge(file: Path, found: dict[str, list[Alarm]]) -> None:
    transport = RecordingTransport(file)
    series = Series()
    reader = ArtemisReader(transport, ReaderOptions())
    try:
        while not transport.ended:
            try:
                snapshot = await reader.poll(TIMEOUT)
            except SourceError:
                continue
            for queue in series.take(snapshot):
                samples = list(series.samples[queue])
                for rival in RIVALS:
                    if rival.alarms(samples):
                        found[rival.name].append(Alarm(queue, snapshot.stamp))
    finally:
        await reader.close()
