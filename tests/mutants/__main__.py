"""`make mutants [ROOM=conditions] [FILE=...] [TESTS=...]`: which small changes to the code no test notices.

Last line: one JSON object with the numbers of each file.
"""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import pytest

from mutants import results
from mutants.changes import Mutant, mutants_of
from mutants.session import Mutation, processors

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "exporter/penstock"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
NEEDED = "not (broker or prometheus or spark or slow or nightly)"
BESIDE = {
    "assessment": ("conditions",),
    "causes": ("conditions",),
    "conditions": ("causes", "assessment", "insight"),
    "findings": ("insight",),
    "observation": ("conditions", "causes", "account"),
    "rule_engine": ("conditions", "assessment"),
}
"""Rooms whose tests also are about the code of a room."""
Counts = dict[str, dict[str, int]]
Change = tuple[str, str, str, str]
"""Its file and function, and the lines before and after."""


@click.command()
@click.option(
    "--room", default="conditions", show_default=True, help="A room of the package."
)
@click.option("--file", "only", default="", help="One file of it, such as stalled.py.")
@click.option("--function", default="", help="The functions whose names begin so.")
@click.option(
    "--tests",
    default="",
    help="Files or folders of tests, by commas; else those of the room and of its kin.",
)
@click.option(
    "--processes",
    default=processors(),
    show_default="processors",
    help="Tests at the same time.",
)
def main(room: str, only: str, function: str, tests: str, processes: int) -> None:
    mutants = chosen(room, only, function)
    folders = tests.split(",") if tests else folders_of(room)
    earlier = results.load()
    alive = [
        mutant for mutant in mutants if not results.is_killed(earlier.get(mutant.key))
    ]
    for mutant in alive:
        forget_killer(earlier.get(mutant.key))
    if alive:
        run(alive, folders, earlier, processes)
    report(mutants, earlier)


def chosen(room: str, only: str, function: str) -> list[Mutant]:
    paths = sorted((PACKAGE / room).rglob(only or "*.py"))
    if not paths:
        missing = only or "*.py"
        raise click.ClickException(
            f"No file {missing} is below {PACKAGE / room}. Name a room, and a file of it."
        )
    mutants: list[Mutant] = []
    for path in paths:
        mutants += mutants_of(path, ROOT)
    return [mutant for mutant in mutants if mutant.function.startswith(function)]


def folders_of(room: str) -> list[str]:
    kin = BESIDE.get(room, ())
    folders = [f"tests/{name}" for name in (room, *kin)]
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def forget_killer(result: results.Result | None) -> None:
    """Of one whose test has changed since."""
    if result is not None:
        result.killed_by = ""


def run(
    mutants: Sequence[Mutant],
    folders: Sequence[str],
    earlier: dict[str, results.Result],
    processes: int,
) -> None:
    arguments = [
        *folders,
        "-m",
        NEEDED,
        "-q",
        "--no-header",
        "--no-summary",
        "--hypothesis-profile=quick",
    ]
    arguments += ["-p", "no:cacheprovider", "-o", "timeout=0", "--hypothesis-seed=0"]
    ended = pytest.main(
        arguments, plugins=[Mutation(ROOT, mutants, earlier, processes)]
    )
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"The tests could not be run: pytest ended with {ended!r}")


def report(mutants: Sequence[Mutant], earlier: Mapping[str, results.Result]) -> None:
    """The survivors with their lines, and the numbers."""
    equivalent = equivalents()
    counts: Counts = {}
    for mutant in mutants:
        outcome = outcome_of(mutant, earlier, equivalent)
        none_yet = Counter(killed=0, survived=0, equivalent=0)
        of_file = counts.setdefault(mutant.file, none_yet)
        of_file[outcome] += 1
        if outcome == "survived":
            print(mutant)
    numbers = {"mutants": counts, "all": total(counts)}
    print(json.dumps(numbers))


def outcome_of(
    mutant: Mutant,
    earlier: Mapping[str, results.Result],
    equivalent: set[tuple[str, str, str, str]],
) -> str:
    if results.is_killed(earlier.get(mutant.key)):
        return "killed"
    change = (mutant.file, mutant.function, mutant.before, mutant.after)
    return "equivalent" if change in equivalent else "survived"


def equivalents() -> set[Change]:
    """The mutants that no test can notice, as the file of them says."""
    read = tomllib.loads(EQUIVALENT.read_text())
    changes = set()
    for noted in read.get("mutant", ()):
        assert noted["reason"], noted
        for after in noted["after"]:
            change = (noted["file"], noted["function"], noted["before"], after)
            changes.add(change)
    return changes


def total(counts: Counts) -> dict[str, float]:
    summed: Counter[str] = Counter()
    for of_file in counts.values():
        summed.update(of_file)
    made = sum(summed.values())
    killed = summed["killed"]
    share = killed / made if made else 1.0
    return {**summed, "killed_share": round(share, 3)}


if __name__ == "__main__":
    main()
