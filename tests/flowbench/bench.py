"""
FlowBench: labelled situations on real brokers, played by real clients, judged by real agents. `make flowbench`.

Prints a line a scenario, the confusion matrix, the same recordings judged by rules in use today, and a JSON object.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.agent import entry
from flowbench import faults, healthy, learned, rings
from flowbench.advice import ARTEMIS as ADVICE
from flowbench.advice import wrong
from flowbench.core import CoreProcess
from flowbench.observer import Observer
from flowbench.rivals import Alarm, rival_alarms
from flowbench.scene import SCENARIOS, SHORT, Place, Scenario, Scene, Within, stage
from penstock.agent import Poller
from penstock.conditions.condition import Severity
from penstock.settings.constants import Constants
from penstock_demo.artemis import ArtemisBroker
from rig.waiting import eventually

ALL_OF = (faults, healthy, learned, rings)
"""The modules that register scenarios."""
START_SECONDS = 45.0
"""Scenarios start at random times within it."""
PROOF_SECONDS = 45.0
SHORT_SECONDS = 120.0
DEFAULTS = Constants()


@dataclass(frozen=True, slots=True)
class Exported:
    """A condition when it was first told: seconds since 1970, the worst severity, the patience it was held against."""

    at: float
    severity: Severity
    patience: float


@dataclass(slots=True)
class Notes:
    """What was told of each queue, by condition, until `closed`."""

    told: dict[str, dict[str, Exported]] = field(default_factory=dict)
    shown: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a scene's further thing was first to be seen."""
    advised: dict[str, set[str]] = field(default_factory=dict)
    """What was told wrongly of the causes of a scenario, and wrong advice."""
    scenes: list[Scene] = field(default_factory=list)
    polled: dict[str, list[float]] = field(default_factory=dict)
    """When each broker was polled."""
    closed: bool = False

    def regular(self, brokers: int, interval: float) -> bool:
        """Whether all are polled as often as they should be."""
        last = [times[-3:] for times in list(self.polled.values())]
        return len(last) == brokers and all(
            len(times) == 3 and times[2] - times[0] < 2.5 * interval for times in last
        )

    def take(self, poller: Poller) -> None:
        if self.closed:
            return
        now = time.time()
        self.polled.setdefault(poller.name, []).append(now)
        for condition in poller.assessor.state.judgement.conditions:
            of_queue = self.told.setdefault(condition.queue, {})
            known = of_queue.get(condition.name)
            if known is None or condition.severity > known.severity:
                patience = condition.evidence.get("patience", float("nan"))
                first = now if known is None else known.at
                of_queue[condition.name] = Exported(first, condition.severity, patience)
        for scene in self.scenes:
            causes = ADVICE.get(scene.scenario.name, "")
            if causes and scene.broker.name == poller.name:
                said = wrong(
                    poller, scene.scenario.label.need.keys(), scene.queues, causes
                )
                self.advised.setdefault(scene.scenario.name, set()).update(said)
            if scene.each_poll is not None and scene.broker.name == poller.name:
                scene.each_poll(poller)
            for what, seen in list(scene.shows.items()):
                if (
                    (scene.scenario.name, what) not in self.shown
                    and scene.broker.name == poller.name
                    and seen(poller)
                ):
                    self.shown[scene.scenario.name, what] = now


@dataclass(slots=True)
class Result:
    """One scenario that was played: seconds from the begin of the fault to each condition, and how that compares."""

    name: str
    need: tuple[str, ...]
    queues: list[str]
    begin: float
    seconds: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Not in its label."""
    figures: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    """What was told wrongly of its causes, and wrong advice."""
    untrue: list[str] = field(default_factory=list)
    """What its drivers cannot attest: the run does not count."""

    @property
    def counts(self) -> bool:
        return not self.untrue

    @property
    def right(self) -> bool:
        return not (
            self.missing or self.late or self.wrong or self.figures or self.advice
        )

    def line(self) -> str:
        need = ", ".join(self.need) or "healthy"
        told = (
            ", ".join(
                f"{name} {seconds:.0f} s" for name, seconds in self.seconds.items()
            )
            or "nothing"
        )
        problems = [
            *(f"missing {name}" for name in self.missing),
            *(
                f"late {name}: {self.seconds[name]:.0f} s, bound {self.bound[name]:.0f} s"
                for name in self.late
            ),
            *(f"FALSE {name}" for name in self.wrong),
            *(f"notice {name}" for name in self.notices),
            *self.figures,
            *(f"WRONG ADVICE {what}" for what in self.advice),
            *(f"does not count: {what}" for what in self.untrue),
        ]
        return f"| {self.name} | {need} | {told} | {'; '.join(problems) or 'right'} |"


# --- play


@dataclass(frozen=True, slots=True)
class Run:
    """
    seconds: how long everything plays; start: within so many of them all begin. cold: patience before anything is
    learned; trend: that window.
    """

    seed: int
    interval: float
    seconds: float
    cold: float = DEFAULTS.cold
    trend: float = DEFAULTS.trend
    start: float = START_SECONDS

    @classmethod
    def whole(cls, seed: int, interval: float) -> "Run":
        """So long that every bound can be met."""
        return cls(seed, interval, START_SECONDS + DEFAULTS.cold + 8 * interval + 75)


def broker_at(place: Place, folder: Path) -> ArtemisBroker:
    def full(text: str) -> str:
        return (
            text.replace("<max-disk-usage>99<", "<max-disk-usage>1<")
            if place is Place.DISK
            else text
        )

    return ArtemisBroker.create(
        folder / place.value,
        name=place.value,
        read_only_user="exporter",
        edit=full,
        heap_mb=768,
    )


@contextmanager
def brokers(
    places: Iterable[Place], folder: Path
) -> Iterator[dict[Place, ArtemisBroker]]:
    made = {place: broker_at(place, folder) for place in places}
    try:
        starting = [threading.Thread(target=broker.start) for broker in made.values()]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        yield made
    finally:
        for broker in made.values():
            broker.kill()


def configured(run: Run, made: Iterable[ArtemisBroker]) -> dict[str, Any]:
    """What an agent that watches these brokers is configured with."""
    return {
        "brokers": [entry(broker) for broker in made],
        "interval": f"{run.interval:g}s",
        "judgement": {"cold": f"{run.cold:g}s", "trend": f"{run.trend:g}s"},
        "rules": [{"match": {"queue": f"{SHORT}#"}, "patience": f"{SHORT_SECONDS:g}s"}],
    }


def play(
    scenarios: Sequence[Scenario], run: Run, folder: Path, each: Callable[[Poller], None] = lambda _: None,
    **configuration: Any,
) -> list[Result]:  # fmt: skip
    """Play them all at once; recordings stay in `folder`/agent.

    each: called after each poll until the end. configuration: more of the agent's.
    """
    notes = Notes()
    ending = threading.Event()
    dice = random.Random(run.seed)  # noqa: S311 - the same run for the same seed

    def after_poll(poller: Poller) -> None:
        notes.take(poller)
        if not notes.closed:
            each(poller)

    with ExitStack() as stack:
        made = stack.enter_context(brokers({one.place for one in scenarios}, folder))
        core = stack.enter_context(CoreProcess(folder / "core"))
        observer = stack.enter_context(
            Observer(
                folder / "agent",
                checkpoint=lambda name: (
                    learned.memory() if name == Place.LEARNED else None
                ),
                on_poll=after_poll,
                **configured(run, made.values()),
                **configuration,
            )
        )
        for one in scenarios:
            load = stage(made[one.place], core, run.seed, one.name, ending)
            notes.scenes.append(Scene(one, load, observer, run.interval, run.cold))
        # What new JVMs take of the machine is not what is measured.
        eventually(
            lambda: notes.regular(len(made), run.interval), expected=True, timeout=60
        )
        threads = started(notes.scenes, dice, run.start)
        time.sleep(run.seconds)
        notes.closed = True
        ending.set()
        end(threads, notes.scenes)
    return [result_of(scene, notes, run) for scene in notes.scenes]


def started(
    scenes: Sequence[Scene], dice: random.Random, within: float
) -> list[threading.Thread]:
    """A thread for each scene, which begins at some moment within so many seconds."""
    threads = [
        threading.Thread(
            target=_play,
            args=(scene, dice.uniform(0, within)),
            name=scene.scenario.name,
        )
        for scene in scenes
    ]
    for thread in threads:
        thread.start()
    return threads


def end(threads: Sequence[threading.Thread], scenes: Sequence[Scene]) -> None:
    """Wait for the scenes, which were told to end, and close their clients."""
    for thread in threads:
        thread.join(60)
    for scene in scenes:
        _end(scene)


def _play(scene: Scene, first: float) -> None:
    if scene.wait(first):
        scene.play()


def _end(scene: Scene) -> None:
    try:
        scene.load.running.close()
    except Exception as error:  # noqa: BLE001 - its broker may be gone
        _say(f"{scene.scenario.name}: its clients did not end as they should: {error}")


# --- judge


def result_of(scene: Scene, notes: Notes, run: Run) -> Result:
    label = scene.scenario.label
    begins = scene.begins
    begin = begins.get("", float("nan"))
    result = Result(scene.scenario.name, tuple(label.need), scene.queues, begin)
    told = {
        name: (one, queue)
        for queue in scene.queues
        for name, one in notes.told.get(queue, {}).items()
    }
    for name, (one, _) in told.items():
        result.seconds[name] = one.at - begins.get(
            name, begin if label.need else one.at
        )
        lawful = name in label.need or name in label.also
        if one.severity is not Severity.INFO and not lawful:
            result.wrong.append(f"{name} ({one.severity.name.lower()})")
        elif one.severity is Severity.INFO and not lawful and name not in label.notices:
            result.notices.append(name)
    for name, within in label.need.items():
        if (scene.scenario.name, name) in notes.shown:
            result.seconds[name] = notes.shown[scene.scenario.name, name] - begin
        if name not in result.seconds:
            result.missing.append(name)
            continue
        patience = told[name][0].patience if name in told else run.cold
        result.bound[name] = bound(within, patience, run)
        if result.seconds[name] > result.bound[name]:
            result.late.append(name)
    result.figures = [
        f"{what}: told {one:g}, true {other:g}"
        for what, one, other in scene.figures
        if one != other
    ]
    result.advice = sorted(notes.advised.get(scene.scenario.name, ()))
    result.untrue = [what for what, holds in scene.truths if not holds]
    if scene.trouble:
        result.untrue.append(scene.trouble)
    if label.need and not begins:
        result.untrue.append("the fault did not begin")
    return result


def bound(within: Within, patience: float, run: Run) -> float:
    """Seconds from the begin of a fault within which it has to be told, by the clock: its time and two polls."""
    lasts = {
        Within.PATIENCE: patience if patience == patience else run.cold,  # noqa: PLR0124 - NaN: told without one
        Within.BATCH: 2 * (patience if patience == patience else run.cold),  # noqa: PLR0124
        Within.PROOF: PROOF_SECONDS - 2 * run.interval,
        Within.WINDOW: DEFAULTS.window_seconds(run.interval),
        Within.TREND: max(run.trend, DEFAULTS.trend_polls * run.interval),
        Within.LATER: run.seconds,
    }
    return lasts[within] + 2 * run.interval


# --- tell


def confusion(results: Sequence[Result]) -> list[str]:
    """What was there against what was told as the first or as a needed condition."""
    counted = [result for result in results if result.counts]
    cells: Counter[tuple[str, str]] = Counter()
    for result in counted:
        there = " + ".join(result.need) or "healthy"
        hit = [name for name in result.need if name not in result.missing]
        for told in (*hit, *result.wrong) or ("nothing",):
            cells[there, told] += 1
    told_names = sorted(
        {told for _, told in cells}, key=lambda name: (name == "nothing", name)
    )
    rows = sorted(
        {there for there, _ in cells}, key=lambda name: (name == "healthy", name)
    )
    lines = [
        f"| there \\ told | {' | '.join(told_names)} |",
        f"|---|{'---|' * len(told_names)}",
    ]
    return lines + [
        f"| {there} | {' | '.join(str(cells[there, told] or '·') for told in told_names)} |"
        for there in rows
    ]


def beside(
    results: Sequence[Result], alarms: Mapping[str, Sequence[Alarm]]
) -> list[str]:
    """How many faults each rule in use today finds in the same recordings, and on how many healthy ones it alarms."""
    counted = [result for result in results if result.counts]
    faulty = [result for result in counted if result.need]
    sound = [result for result in counted if not result.need]
    lines = ["| rule | faults found | healthy with an alarm |", "|---|---|---|"]
    found = sum(not result.missing for result in faulty)
    false = sum(bool(result.wrong) for result in sound)
    lines.append(
        f"| Penstock, with the cause | {found} of {len(faulty)} | {false} of {len(sound)} |"
    )
    for name, all_of in alarms.items():
        hits = sum(
            any(one.queue in result.queues and one.at >= result.begin for one in all_of)
            for result in faulty
        )
        false = sum(
            any(one.queue in result.queues for one in all_of) for result in sound
        )
        lines.append(
            f"| {name}, without a cause | {hits} of {len(faulty)} | {false} of {len(sound)} |"
        )
    return lines


def summary(results: Sequence[Result], run: Run) -> dict[str, Any]:
    counted = [result for result in results if result.counts]
    return {
        "seed": run.seed,
        "interval": run.interval,
        "seconds": run.seconds,
        "scenarios": len(results),
        "counted": len(counted),
        "right": sum(result.right for result in counted),
        "missing": [result.name for result in counted if result.missing],
        "late": [result.name for result in counted if result.late],
        "false_alarms": [result.name for result in counted if result.wrong],
        "figures_wrong": [result.name for result in counted if result.figures],
        "wrong_advice": [result.name for result in counted if result.advice],
        "not_counted": [result.name for result in results if not result.counts],
    }


def tell(
    results: Sequence[Result], run: Run, recordings: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    say("| scenario | label | told, seconds after the begin | |\n|---|---|---|---|")
    for result in results:
        say(result.line())
    say("")
    for line in confusion(results):
        say(line)
    say("")
    files = sorted(recordings.glob("*.jsonl.gz"))
    for line in beside(results, rival_alarms(files)):
        say(line)
    told = summary(results, run)
    say(json.dumps(told))
    return told


def options(program: str) -> argparse.ArgumentParser:
    """Those that all benches on a real Artemis have."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--interval", type=float, default=5.0, help="seconds between polls"
    )
    parser.add_argument("--only", default="", help="parts of names, by commas")
    return parser


def chosen(pattern: str) -> list[Scenario]:
    return [
        one
        for name, one in SCENARIOS.items()
        if any(part in name for part in pattern.split(","))
    ]


def main() -> int:
    parser = options("flowbench")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        help="of the run; default: as long as bounds need",
    )
    parser.add_argument("--cold", type=float, default=DEFAULTS.cold)
    parser.add_argument(
        "--keep", type=Path, help="a new folder for recordings and logs"
    )
    wanted = parser.parse_args()
    whole = Run.whole(wanted.seed, wanted.interval)
    run = Run(
        wanted.seed, wanted.interval, wanted.seconds or whole.seconds, wanted.cold
    )
    with ExitStack() as stack:
        scratch = wanted.keep or Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="penstock-flowbench-")
            )
        )
        scratch.mkdir(parents=True, exist_ok=True)
        told = tell(
            play(chosen(wanted.only), run, scratch), run, scratch / "agent", _say
        )
    return int(told["right"] != told["scenarios"])


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main())
