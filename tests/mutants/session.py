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
"""Tests in which a mutant makes a difference that are run at first; one of them kills it, or all others are run, too."""
CHUNK = 6
"""Tests that a process surveys."""
SURVEY = 300.0
"""Seconds that it may take."""


class Surveyed(NamedTuple):
    """One test while all mutants were watched. differ, crash: keys of mutants."""

    seconds: float
    passed: bool
    differ: set[str]
    crash: set[str]


class Mutation:
    """The plugin. known: what earlier runs found; it is added to."""

    def __init__(self, root: Path, mutants: Sequence[Mutant], known: dict[str, Result], processes: int) -> None:
        self.root, self.mutants, self.known, self.processes = root, mutants, known, processes
        self.items: list[pytest.Item] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors while the tests were collected")
        self.items = self._in_order(session.items)
        files = {item.path for item in self.items}
        of_files: dict[frozenset[Path], list[Mutant]] = defaultdict(list)
        for mutant in self.mutants:
            new = results.untried(self.known.get(mutant.key), files)
            if new:
                of_files[frozenset(new)].append(mutant)
        self.live = functions(self.root, {one.file for one in self.mutants})
        for new_files, mutants in of_files.items():
            self._try(mutants, [number for number, item in enumerate(self.items) if item.path in new_files])
            self._note_tried(mutants, new_files)
        return True

    def _in_order(self, items: Iterable[pytest.Item]) -> list[pytest.Item]:
        """Tests of the mutated modules first: they are the most likely to notice."""
        own = {f"test_{Path(one.file).stem}.py" for one in self.mutants}
        return sorted(items, key=lambda item: item.path.name not in own)

    def _note_tried(self, mutants: Iterable[Mutant], files: Iterable[Path]) -> None:
        digests = [results.digest(path) for path in files]
        for mutant in mutants:
            result = self.known.setdefault(mutant.key, Result())
            if not result.killed_by:
                result.tried = sorted({*result.tried, *digests})
        results.save(self.known)

    def _try(self, mutants: Sequence[Mutant], numbers: Sequence[int]) -> None:
        """With a few tests for each mutant, then with all for those that are left."""
        left = self._round(mutants, numbers, FIRST)
        if left:
            self._round(left, numbers, len(numbers))

    def _round(self, mutants: Sequence[Mutant], numbers: Sequence[int], most: int) -> list[Mutant]:
        """The mutants that make a difference in `most` tests without being noticed."""
        say(f"{len(mutants)} mutants, {len(numbers)} tests")
        surveyed = self._survey(mutants, numbers, most)
        differ: dict[str, list[int]] = defaultdict(list)
        for number, one in surveyed.items():
            for key in one.differ:
                differ[key].append(number)
            for key in one.crash if one.passed else ():
                self._kill(key, number)
        seconds = {number: one.seconds for number, one in surveyed.items()}
        open_mutants = [one for one in mutants if one.key in differ and not self._killed(one.key)]
        say(f"{len(open_mutants)} make a difference and do not raise")
        jobs = (self._kill_job(one, self._soonest(differ[one.key], seconds), seconds) for one in open_mutants)
        for key, killer in each_in_a_process(jobs, self.processes):
            if killer == GIVEN_UP:
                self._kill(key, differ[key][0])
            elif killer is not None:
                self._kill(key, killer)
        results.save(self.known)
        return [one for one in open_mutants if len(differ[one.key]) >= most and not self._killed(one.key)]

    def _soonest(self, numbers: Iterable[int], seconds: dict[int, float]) -> list[int]:
        """The tests in the order in which they are tried: of the same file first, then the quickest."""
        first = self.items[0].path.name
        return sorted(numbers, key=lambda number: (self.items[number].path.name != first, seconds[number]))

    def _killed(self, key: str) -> bool:
        return key in self.known and bool(self.known[key].killed_by)

    def _kill(self, key: str, number: int) -> None:
        item = self.items[number]
        self.known[key] = Result(item.nodeid, results.own_digest(item.path))

    def _kill_job(self, mutant: Mutant, numbers: Sequence[int], seconds: dict[int, float]) -> Job:
        def work() -> int | None:
            replace(self.live, mutant)
            return next((number for number in numbers if not passes(self.items[number])), None)

        return Job(mutant.key, work, 20 + 5 * sum(seconds[number] for number in numbers))

    def _survey(self, mutants: Sequence[Mutant], numbers: Sequence[int], most: int) -> dict[int, Surveyed]:
        """By the numbers of the tests; a mutant that differs in `most` tests is left out of those after them."""
        found: dict[int, Surveyed] = {}
        times: dict[str, int] = defaultdict(int)
        enough: set[str] = set()

        def job(chunk: Sequence[int]) -> Job:
            def work() -> dict[int, Surveyed]:
                left = [one for one in mutants if one.key not in enough]
                return self._watched(left, chunk)

            return Job(tuple(chunk), work, SURVEY)

        chunks = (job(numbers[start : start + CHUNK]) for start in range(0, len(numbers), CHUNK))
        for chunk, answer in each_in_a_process(chunks, self.processes):
            if answer == GIVEN_UP:
                say(f"given up: {[self.items[number].nodeid for number in chunk]}")
                continue
            found |= answer
            for number, one in answer.items():
                if not one.passed:
                    say(f"fails while its functions are watched: {self.items[number].nodeid}")
                for key in one.differ:
                    times[key] += 1
                enough |= one.crash if one.passed else set()
            enough |= {key for key, number in times.items() if number >= most}
            if len(enough) == len(mutants):
                break
        return found

    def _watched(self, mutants: Sequence[Mutant], numbers: Iterable[int]) -> dict[int, Surveyed]:
        seen = Seen()
        watch(self.live, mutants, seen)
        found = {}
        for number in numbers:
            seen.begin()
            start = monotonic()
            passed = passes(self.items[number])
            found[number] = Surveyed(monotonic() - start, passed, set(seen.differ), set(seen.crash))
        return found


def passes(item: pytest.Item) -> bool:
    """Runs one test, as the only one of a session."""
    reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def say(text: str) -> None:
    sys.__stderr__.write(text + "\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]


def processors() -> int:
    return len(os.sched_getaffinity(0))
