"""A pytest session that collects the tests once, and then finds for each mutant a test that fails with it."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from mutants import results
from mutants.changes import Mutant
from mutants.live import Seen, functions, replace, watch
from mutants.processes import GIVEN_UP, Job, each_in_a_process
from mutants.results import Result

FIRST = 12
"""Tests in which a mutant makes a difference that are run at first; all others where none of them kills it."""
CHUNK = 6
"""Tests that a process surveys."""
SURVEY = 300.0
"""Seconds that it may take."""
LEAST = 20.0
TIMES = 5
"""Seconds after which the tests of a mutant do not end, and so many times what they took in the survey."""


class Surveyed(NamedTuple):
    """One test while all mutants were watched. differ, crash: keys of mutants."""

    seconds: float
    passed: bool
    differ: set[str]
    crash: set[str]


class Mutation:
    """The plugin. earlier: the results of earlier runs; new ones are added."""

    def __init__(
        self,
        root: Path,
        mutants: Sequence[Mutant],
        earlier: dict[str, Result],
        processes: int,
    ) -> None:
        self.root = root
        self.mutants = mutants
        self.earlier = earlier
        self.processes = processes
        self.items: list[pytest.Item] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        if session.testsfailed:
            raise session.Interrupted(
                f"{session.testsfailed} errors while the tests were collected"
            )
        self.items = self._in_order(session.items)
        self.live = functions(self.root, {mutant.file for mutant in self.mutants})
        for new_files, mutants in self._by_untried_files().items():
            numbers = [
                number
                for number, item in enumerate(self.items)
                if item.path in new_files
            ]
            self._try(mutants, numbers)
            self._note_tried(mutants, new_files)
        return True

    def _in_order(self, items: Iterable[pytest.Item]) -> list[pytest.Item]:
        """Tests of the mutated modules first: they are the most likely to notice."""
        return sorted(items, key=lambda item: not self._is_own(item))

    def _is_own(self, item: pytest.Item) -> bool:
        """Whether the name of its file begins with that of a mutated module."""
        modules = {Path(mutant.file).stem for mutant in self.mutants}
        return any(item.path.stem.startswith(f"test_{module}") for module in modules)

    def _by_untried_files(self) -> dict[frozenset[Path], list[Mutant]]:
        """The mutants by the files of tests that no earlier run tried on them; without those that have none."""
        files = {item.path for item in self.items}
        of_files: dict[frozenset[Path], list[Mutant]] = defaultdict(list)
        for mutant in self.mutants:
            untried = results.untried(self.earlier.get(mutant.key), files)
            of_files[frozenset(untried)].append(mutant)
        of_files.pop(frozenset(), None)
        return of_files

    def _note_tried(self, mutants: Iterable[Mutant], files: Iterable[Path]) -> None:
        digests = {results.digest(path) for path in files}
        for mutant in mutants:
            result = self.earlier.setdefault(mutant.key, Result())
            if not result.killed_by:
                result.tried = sorted(digests.union(result.tried))
        results.save(self.earlier)

    def _try(self, mutants: Sequence[Mutant], numbers: Sequence[int]) -> None:
        """With the tests of the module itself, then with the others those that are left."""
        own = [number for number in numbers if self._is_own(self.items[number])]
        others = [number for number in numbers if not self._is_own(self.items[number])]
        for tests in filter(None, (own, others)):
            left = [mutant for mutant in mutants if not self._killed(mutant.key)]
            again = self._round(left, tests, FIRST)
            if again:
                self._round(again, tests, len(tests))

    def _round(
        self, mutants: Sequence[Mutant], numbers: Sequence[int], most: int
    ) -> list[Mutant]:
        """The mutants that make a difference in `most` tests without being noticed: further ones may notice."""
        if not mutants:
            return []
        say(f"{len(mutants)} mutants, {len(numbers)} tests")
        surveyed = self._survey(mutants, numbers, most)
        self._note_crashes(surveyed)
        differ = differing(surveyed)
        candidates = [
            mutant
            for mutant in mutants
            if mutant.key in differ and not self._killed(mutant.key)
        ]
        say(f"{len(candidates)} make a difference and do not raise")
        seconds = {number: test.seconds for number, test in surveyed.items()}
        jobs = [
            self._kill_job(mutant, differ[mutant.key], seconds) for mutant in candidates
        ]
        for key, killer in each_in_a_process(jobs, self.processes):
            self._note_killer(key, differ[key], killer)
        results.save(self.earlier)
        survivors = [mutant for mutant in candidates if not self._killed(mutant.key)]
        return [mutant for mutant in survivors if len(differ[mutant.key]) >= most]

    def _note_crashes(self, surveyed: dict[int, Surveyed]) -> None:
        """A mutant that raises where the function gives a result fails the test."""
        for number, test in surveyed.items():
            for key in test.crash:
                self._kill(key, number)

    def _note_killer(
        self, key: str, numbers: Sequence[int], killer: int | str | None
    ) -> None:
        """killer: the number of the test that fails; `GIVEN_UP`: the tests do not end with it."""
        if killer == GIVEN_UP:
            self._kill(key, numbers[0])
        elif isinstance(killer, int):
            self._kill(key, killer)

    def _killed(self, key: str) -> bool:
        return key in self.earlier and bool(self.earlier[key].killed_by)

    def _kill(self, key: str, number: int) -> None:
        item = self.items[number]
        self.earlier[key] = Result(item.nodeid, results.own_digest(item.path))

    def _kill_job(
        self, mutant: Mutant, numbers: Iterable[int], seconds: dict[int, float]
    ) -> Job:
        """Runs the tests in which it makes a difference until one fails, the quickest first."""
        in_order = sorted(numbers, key=lambda number: seconds[number])
        longest = LEAST + TIMES * sum(seconds[number] for number in in_order)

        def work() -> int | None:
            replace(self.live, mutant)
            failing = (number for number in in_order if not passes(self.items[number]))
            return next(failing, None)

        return Job(mutant.key, work, longest)

    def _survey(
        self, mutants: Sequence[Mutant], numbers: Sequence[int], most: int
    ) -> dict[int, Surveyed]:
        """By number the tests that pass; a mutant that differs in `most` of them is left out of those after them."""
        surveyed: dict[int, Surveyed] = {}
        enough: set[str] = set()

        def job(chunk: Sequence[int]) -> Job:
            def work() -> dict[int, Surveyed]:
                left = [mutant for mutant in mutants if mutant.key not in enough]
                return self._watched(left, chunk)

            return Job(tuple(chunk), work, SURVEY)

        starts = range(0, len(numbers), CHUNK)
        chunks = (job(numbers[start : start + CHUNK]) for start in starts)
        for chunk, answer in each_in_a_process(chunks, self.processes):
            if answer == GIVEN_UP:
                self._say_left_out(chunk, "given up, and left out")
                continue
            failing = [number for number, test in answer.items() if not test.passed]
            self._say_left_out(
                failing, "fails while functions are watched, and is left out"
            )
            surveyed |= {number: test for number, test in answer.items() if test.passed}
            enough |= seen_enough(surveyed, most)
        return surveyed

    def _say_left_out(self, numbers: Iterable[int], why: str) -> None:
        for number in numbers:
            say(f"{why}: {self.items[number].nodeid}")

    def _watched(
        self, mutants: Sequence[Mutant], numbers: Iterable[int]
    ) -> dict[int, Surveyed]:
        seen = Seen()
        watch(self.live, mutants, seen)
        surveyed = {}
        for number in numbers:
            seen.begin()
            start = monotonic()
            passed = passes(self.items[number])
            seconds = monotonic() - start
            surveyed[number] = Surveyed(
                seconds, passed, set(seen.differ), set(seen.crash)
            )
        return surveyed


def differing(surveyed: dict[int, Surveyed]) -> dict[str, list[int]]:
    """By the keys of mutants the tests in which they make a difference."""
    differ: dict[str, list[int]] = defaultdict(list)
    for number, test in surveyed.items():
        for key in test.differ:
            differ[key].append(number)
    return differ


def seen_enough(surveyed: dict[int, Surveyed], most: int) -> set[str]:
    """Mutants that raise, or make a difference in `most` tests."""
    crashed = {key for test in surveyed.values() for key in test.crash}
    often = {
        key for key, numbers in differing(surveyed).items() if len(numbers) >= most
    }
    return crashed | often


def passes(item: pytest.Item) -> bool:
    """Runs one test, as the only one of a session."""
    reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def say(text: str) -> None:
    sys.__stderr__.write(text + "\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]


def processors() -> int:
    return len(os.sched_getaffinity(0))
