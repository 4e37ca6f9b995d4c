"""A scenario: its label, the stage it plays on, and what its drivers know of it."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from flowbench.core import CoreClient, CoreProcess
from flowbench.loads import Load
from flowbench.observer import Observer
from penstock.agent import Poller
from penstock_demo.artemis import ArtemisBroker

_TICK = 0.2
SHORT = "short."
"""With what names of queues begin for which the operator gives a short patience: a run lasts little longer than one."""
_WORDS = (
    "orders",
    "stock",
    "claims",
    "audit",
    "mail",
    "rates",
    "trades",
    "parcels",
    "meter",
    "ledger",
    "seats",
)


class Within(StrEnum):
    """How soon a condition has to be told after the fault began; always two polls more."""

    PATIENCE = "patience"
    """What a client or queue may lawfully take, cold or learned."""
    BATCH = "twice the patience"
    """A client may be filling a batch: a Core one that never settled anything."""
    PROOF = "45 s"
    """The broker says it, or arithmetic proves it; 45 s in all."""
    WINDOW = "window"
    TREND = "trend"
    LATER = "until the end"


class Place(StrEnum):
    """Brokers that scenarios share. Those that hurt their broker have it for themselves."""

    FAULTS = "faults"
    HEALTHY = "healthy"
    DISK = "disk"
    """Its disk is full."""
    LEARNED = "learned"
    """Its clients are known from an earlier run."""
    RESTARTED = "restarted"
    """Restarted and killed while clients work."""


@dataclass(frozen=True, slots=True)
class Label:
    """
    What has to be told, and how soon; nothing for healthy ones.

    also: lawful beside, as one fault leads to another. notices: what may be told as an information.
    """

    need: Mapping[str, Within] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    label: Label
    place: Place
    play: Callable[["Scene"], None]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    place: Place = Place.FAULTS,
    *,
    also: tuple[str, ...] = (),
    notices: tuple[str, ...] = (),
    **need: Within,
) -> Callable[[Callable[["Scene"], None]], Callable[["Scene"], None]]:
    """Registers a function as the scenario of its name, with its label."""

    def register(play: Callable[["Scene"], None]) -> Callable[["Scene"], None]:
        name = play.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, Label(need, also, notices), place, play)
        return play

    return register


class NotThere(Exception):
    """The situation did not come about: the run says nothing about it."""


@dataclass(slots=True)
class Scene:
    """
    One scenario that plays.

    interval, cold: seconds between polls, and of patience before anything is learned. begins: when a fault began, by
    condition, the first under an empty name. truths: what the drivers can attest. figures: a number as told, and as
    the drivers know it. shows: further things to be seen in a poller.
    """

    scenario: Scenario
    load: Load
    observer: Observer
    interval: float
    cold: float
    queues: list[str] = field(default_factory=list)
    begins: dict[str, float] = field(default_factory=dict)
    truths: list[tuple[str, bool]] = field(default_factory=list)
    figures: list[tuple[str, float, float]] = field(default_factory=list)
    shows: dict[str, Callable[[Poller], bool]] = field(default_factory=dict)
    each_poll: Callable[[Poller], None] | None = None
    """Called after each poll of its broker."""
    trouble: str = ""

    @property
    def broker(self) -> ArtemisBroker:
        assert isinstance(self.load.broker, ArtemisBroker)
        return self.load.broker

    @property
    def dice(self) -> random.Random:
        return self.load.dice

    @property
    def poller(self) -> Poller:
        return self.observer.pollers[self.broker.name]

    def play(self) -> None:
        """To the end of the run; clients and all are ended after that."""
        try:
            self.scenario.play(self)
            self.rest()
        except Exception as error:  # noqa: BLE001 - told with the result
            self.trouble = f"{type(error).__name__}: {error}"

    # --- what is set up

    def name(self) -> str:
        """A random name of a queue, which is watched from now on."""
        self.queues.append(
            f"{self.dice.choice(_WORDS)}.{self.dice.randrange(1_000_000)}"
        )
        return self.queues[-1]

    def queue(self, *, name: str = "", **options: Any) -> str:
        """A new queue, with a random name unless it is given."""
        if name:
            self.queues.append(name)
        else:
            name = self.name()
        self.broker.manage.create_queue(name, **options)
        return name

    def settings(self, queue: str, **settings: Any) -> None:
        self.broker.manage.add_settings(queue, **settings)

    def open(
        self,
        make: Callable[..., Any],
        queue: str,
        *,
        client: str = "consumer",
        **options: Any,
    ) -> Any:
        """A Python client."""
        return self.load.client(
            queue, make, queue, client_id=f"{queue}.{client}", **options
        )

    def jms(
        self, queue: str, *, process: CoreProcess | None = None, **options: Any
    ) -> CoreClient:
        """A JMS client of the Core protocol; it has no client id, so that a pool has one label."""
        core = process or self.load.core
        return self.load.running.enter_context(
            core.open(self.load.endpoint, queue, **options)
        )

    def own_process(self) -> CoreProcess:
        """A Java process for clients that are frozen or killed."""
        folder = self.observer.folder / f"core-{self.scenario.name}"
        return self.load.running.enter_context(CoreProcess(folder))

    # --- time

    def begin(self, condition: str = "", at: float = 0.0) -> None:
        """The fault begins, now unless `at` is given."""
        self.begins.setdefault(condition, at or time.time())

    def until(
        self, what: str, holds: Callable[[], bool], *, timeout: float = 60
    ) -> None:
        """Wait for what must come about for the scenario to be one."""
        deadline = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > deadline or self.load.ending.wait(_TICK):
                raise NotThere(f"not within {timeout:.0f} s: {what}")

    def wait(self, seconds: float) -> bool:
        """Let time pass; False when the run has ended before."""
        return not self.load.ending.wait(seconds)

    def polls(self, count: float) -> bool:
        return self.wait(count * self.interval)

    def rest(self) -> None:
        self.load.ending.wait()

    # --- what is known

    def count(self, queue: str, attribute: str) -> float:
        return float(self.broker.manage.queue(queue, attribute))

    def attest(self, what: str, holds: bool) -> None:
        """What the drivers themselves saw."""
        self.truths.append((what, bool(holds)))

    def told(self, table: str, column: str, queue: str) -> float:
        """What the agent's metrics say now of a queue; NaN where that is absent."""
        shown = self.poller.assessor.tables.get(table)
        if shown is None or column not in shown.columns:
            return np.nan
        at = [i for i, series in enumerate(shown.index.rows) if series.queue == queue]
        return float(shown[column][at[0]]) if at else np.nan

    def patience(self) -> float:
        """The shortest that the agent shows of a client of this scenario, seconds."""
        table = self.poller.assessor.tables["client"]
        at = [
            i
            for i, series in enumerate(table.index.rows)
            if series.queue in self.queues
        ]
        return float(np.nanmin(table["patience"][at])) if at else np.nan


def stage(
    broker: ArtemisBroker,
    core: CoreProcess,
    seed: int,
    name: str,
    ending: threading.Event,
) -> Load:
    """What a scenario plays on; its random numbers are its own, whatever else plays."""
    dice = random.Random(f"{seed} {name}")  # noqa: S311 - the same play for the same seed
    return Load(broker, core, dice, ExitStack(), ending=ending)
