"""
Situations whose true cause is known, on a real Artemis: what is proven, possible and excluded of each condition.

`make test-causes` plays all of them at once and prints the table: a cause that is proven and not true, or true and
excluded, is wrong.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from causes.situations.register import (
    COLD,
    INTERVAL,
    PLAYS,
    SECONDS,
    TREND,
    TRUTHS,
    Truth,
    read_settings_often,
)
from flowbench.advice import wrong
from flowbench.bench import Run, play
from flowbench.scene import Label, Scenario, Scene
from penstock.agent import Poller
from penstock.causes.verdict import CauseState, Verdict


@dataclass(slots=True)
class Found:
    """What was known of the causes, at the last poll at which the condition was active; all that was ever wrong."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    polls: int = 0


def take(found: Found, truth: Truth, poller: Poller, queues: Collection[str]) -> None:
    """What is known of the causes after this poll, and what is advised."""
    for one in poller.assessor.state.judgement.conditions:
        if one.name == truth.condition and one.queue in queues:
            found.verdicts = one.verdicts
            found.polls = found.polls + 1
    found.wrong |= set(
        wrong(poller, (truth.condition,), queues, " ".join(sorted(truth.true)))
    )


def conclude(found: Found, truth: Truth) -> None:
    found.wrong |= {
        f"{one} is not proven"
        for one in truth.proves - {*named(found, CauseState.PROVEN)}
    }
    if not found.polls:
        found.wrong.add(f"{truth.condition} did not come")


def played(only: str, seconds: float, cold: float, folder: Path) -> dict[str, Found]:
    chosen = {
        name: truth
        for name, truth in TRUTHS.items()
        if any(part in name for part in only.split(","))
    }
    known = {name: Found() for name in chosen}

    def scenario(name: str, truth: Truth) -> Scenario:
        def go(scene: Scene) -> None:
            scene.each_poll = lambda poller: take(
                known[name], truth, poller, scene.queues
            )
            PLAYS[name](scene)

        return Scenario(name, Label(), truth.place, go)

    run = Run(1, INTERVAL, seconds, cold, TREND, start=5.0)
    for result in play([scenario(*one) for one in chosen.items()], run, folder):
        known[result.name].wrong |= set(result.untrue)
    for name, truth in chosen.items():
        conclude(known[name], truth)
    return known


def named(found: Found, state: CauseState) -> list[str]:
    return [name for name, one in found.verdicts.items() if one.state is state]


def report(
    known: Mapping[str, Found], truths: Mapping[str, Truth], *, facts: bool
) -> int:
    """Prints the table; facts: also that of each cause. 1 if something is wrong."""
    lines = [
        "| situation | condition | true | proven | possible | excluded | |\n|---|---|---|---|---|---|---|"
    ]
    for name, found in known.items():
        truth = truths[name]
        states = (", ".join(named(found, state)) or "-" for state in CauseState)
        right = "; ".join(sorted(found.wrong)) or "right"
        lines.append(
            f"| {name} | {truth.condition} | {', '.join(sorted(truth.true))} | {' | '.join(states)} | {right} |"
        )
    bad = sum(bool(found.wrong) for found in known.values())
    lines.append(f"\n{len(known) - bad} of {len(known)} situations are right")
    for name, found in known.items() if facts else ():
        lines += [
            f"{name}: {cause}: {one.state}: {one.fact}"
            for cause, one in found.verdicts.items()
        ]
    print("\n".join(lines))  # noqa: T201 - the result
    return int(bad > 0)


def run(
    program: str,
    play_those: Callable[[str, float, Path], dict[str, Found]],
    truths: Mapping[str, Truth],
    most: float,
) -> int:
    """Play what the command line asks for (by default all, for `most` seconds) and print the table."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--only", default="", help="parts of names, by commas")
    parser.add_argument("--seconds", type=float, default=most)
    parser.add_argument(
        "--facts", action="store_true", help="also the fact of each cause"
    )
    wanted = parser.parse_args()
    read_settings_often()
    with tempfile.TemporaryDirectory(prefix="penstock-causes-") as folder:
        known = play_those(wanted.only, wanted.seconds, Path(folder))
    return report(known, truths, facts=wanted.facts)


def main() -> int:
    return run(
        "causes",
        lambda only, seconds, folder: played(only, seconds, COLD, folder),
        TRUTHS,
        SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main())
