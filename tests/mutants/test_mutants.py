"""A change that no test notices survives, one that a test notices is killed; small programs with tests of theirs."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mutants import results
from mutants.changes import Mutant, mutants_of
from mutants.live import Seen, functions, is_comparable, is_pure, replace, watch
from mutants.results import Result
from mutants.same import same
from mutants.session import Mutation

PROGRAM = '''
"""Text of a module is no code: 1 + 1."""

def is_full(messages, limit, paused):
    """Text is no code: 1 + 1."""
    return messages >= limit and not paused

class Queue:
    depth = 3

    @property
    def waits(self):
        return self.depth > 1
'''
TESTS = """
from {program} import is_full

def test_full():
    assert is_full(10, 10, False)

def test_paused():
    is_full(10, 10, True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / f"program_{tmp_path.name}.py"
    path.write_text(PROGRAM)
    yield path
    sys.modules.pop(path.stem, None)


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def by_change(mutants: list[Mutant]) -> dict[str, Mutant]:
    return {one.after: one for one in mutants}


@pytest.mark.slow  # libcst takes half a second
def test_only_code_is_changed_and_each_change_is_said_with_its_line(
    program: Path,
) -> None:
    found = by_change(mutants_of(program, program.parent))
    assert set(found) == {
        "return messages > limit and not paused",
        "return messages >= limit or not paused",
        "return messages >= limit and paused",
        "return self.depth >= 1",
        "return self.depth > 2",
    }
    switched = found["return messages >= limit or not paused"]
    assert (switched.line, switched.function) == (6, "is_full")
    assert switched.before == "return messages >= limit and not paused"


@pytest.mark.slow  # processes of its own, and libcst
def test_a_property_is_replaced_as_well(program: Path) -> None:
    module = imported(program)
    mutant = by_change(mutants_of(program, program.parent))["return self.depth > 2"]
    module.Queue.depth = 2
    assert module.Queue().waits
    replace(functions(program.parent, [program.name]), mutant)
    assert not module.Queue().waits


@pytest.mark.slow  # processes of its own, and libcst
def test_watched_functions_say_which_mutants_make_a_difference(program: Path) -> None:
    module = imported(program)
    mutants = mutants_of(program, program.parent)
    seen = Seen()
    watch(functions(program.parent, [program.name]), mutants, seen)
    assert module.is_full(10, 10, paused=True) is False
    keys = {one.key: one.after for one in mutants}
    assert {keys[key] for key in seen.differ} == {
        "return messages >= limit or not paused",
        "return messages >= limit and paused",
    }


@pytest.mark.slow  # processes of its own, and libcst
def test_what_no_test_notices_survives(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`or` in place of `and` makes a difference in a test that asserts nothing."""
    module = imported(program)
    monkeypatch.setattr(results, "KEPT", program.parent / "build" / "mutants.json")
    tests = program.parent / "test_program.py"
    tests.write_text(TESTS.format(program=program.stem))
    mutants = [
        one for one in mutants_of(program, program.parent) if one.function == "is_full"
    ]
    outcomes: dict[str, Result] = {}
    quiet = [
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        str(program.parent),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
    ]
    pytest.main(
        [str(tests), *quiet], plugins=[Mutation(program.parent, mutants, outcomes, 2)]
    )
    killed = {one.after for one in mutants if outcomes[one.key].killed_by}
    assert killed == {
        "return messages > limit and not paused",
        "return messages >= limit and paused",
    }
    assert module.is_full(10, 10, paused=False)
    assert set(results.load()) == {one.key for one in mutants}


@pytest.mark.slow  # libcst takes half a second
def test_functions_that_change_what_they_are_given_are_not_called_twice(
    program: Path,
) -> None:
    program.write_text(
        "def count(log):\n    log['n'] += 1\n    return 1\n\ndef made():\n    log = {'n': 1}\n    return log\n"
    )
    pure = {one.function: is_pure(one) for one in mutants_of(program, program.parent)}
    assert pure == {"count": False, "made": True}


@pytest.mark.slow  # makes all mutants of a file
def test_what_is_kept_in_the_rows_is_not_compared(program: Path) -> None:
    """The function finds it first, and the mutant would get it."""
    lines = [
        "def judged(index):",
        "    column = index.column('kind', lambda row: row.kind)",
        "    return column > 1",
    ]
    program.write_text("\n".join(lines))
    comparable = {
        one.after: is_comparable(one) for one in mutants_of(program, program.parent)
    }
    assert comparable["return column >= 1"]
    assert not comparable["column = index.column('kind', lambda row: None)"]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array([1.0, 2.0]), np.array([1.0, np.nan]), False),
        (np.array([1.0]), np.array([1]), False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ((1, [float("nan")]), (1, [float("nan")]), True),
        (1, True, False),
        (Seen(), Seen(), False),
        (Result("a"), Result("a"), True),
        (Result("a"), Result("b"), False),
    ],
)
def test_results_are_the_same_where_nobody_could_see_a_difference(
    one: object, other: object, alike: bool
) -> None:
    assert same(one, other) is alike
