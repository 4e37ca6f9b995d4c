"""Functions of the running program whose code is replaced by a mutant's, or watched while the tests run."""

import ast
import gc
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from textwrap import dedent
from types import CodeType, FrameType, FunctionType
from typing import Any

from mutants.changes import Mutant
from mutants.same import same

Place = tuple[str, str, int]
"""Of a function: its file, its qualified name and its first line."""
LONGEST = 2.0
"""Seconds that one call of a mutant may take."""
WATCH = "__watched_by_mutants__"
KEEPING = (".column(", ".by_source(")
"""Calls that keep what they found: called after the function, a mutant would be given what the function found."""


def functions(root: Path, files: Iterable[str]) -> dict[Place, list[FunctionType]]:
    """All functions that exist now and come from these files, also those below decorators and in properties."""
    wanted = {str(root / name): name for name in files}
    gc.unfreeze()  # what is frozen is not among the objects
    by_place: dict[Place, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if not isinstance(thing, FunctionType):
            continue
        code = thing.__code__
        name = wanted.get(code.co_filename)
        if name is not None:
            place = name, code.co_qualname, code.co_firstlineno
            by_place[place].append(thing)
    return by_place


def place_of(mutant: Mutant) -> Place:
    return mutant.file, mutant.function, mutant.function_line


def replace(live: Mapping[Place, list[FunctionType]], mutant: Mutant) -> None:
    """From now on the mutant runs in place of the function; not one that reads other names of a function around it."""
    for function in live[place_of(mutant)]:
        if function.__code__.co_freevars == mutant.code.co_freevars:
            function.__code__ = mutant.code


def is_comparable(mutant: Mutant) -> bool:
    """Whether it can be called after the function, and shows all that it changes in its result."""
    is_kept = any(call in mutant.before for call in KEEPING)
    return not is_kept and is_pure(mutant)


def is_pure(mutant: Mutant) -> bool:
    """Whether it seems to change nothing that it did not make, so that it may be called again, with the same arguments.

    One that makes a value at a time, or waits, is left out.
    """
    try:
        tree = ast.parse(dedent(mutant.function_source)).body[0]
    except (SyntaxError, IndexError):
        return False  # a lambda within something else
    if not isinstance(tree, ast.FunctionDef):
        return False
    arguments = {node.arg for node in ast.walk(tree.args) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, IMPURE):
            return False
        if isinstance(node, ASSIGNMENTS) and not arguments.isdisjoint(
            changed_things(node)
        ):
            return False
    return True


def changed_things(node: ast.Assign | ast.AugAssign) -> Iterator[str]:
    """Names of the things that an assignment changes in place."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        changed: ast.expr = target
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        in_place = changed is not target or isinstance(node, ast.AugAssign)
        if in_place and isinstance(changed, ast.Name):
            yield changed.id


IMPURE = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)
"""What a pure function has not."""
ASSIGNMENTS = (ast.Assign, ast.AugAssign)


class TooLong(BaseException):
    """A mutant does not end."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises `TooLong` after so many seconds; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Watch:
    """Calls of one function, with each of its mutants beside it: which of them make a difference."""

    def __init__(
        self, function: FunctionType, mutants: Iterable[Mutant], seen: "Seen"
    ) -> None:
        self.seen = seen
        self.original = copy_of(function, function.__code__)
        free = function.__code__.co_freevars
        alike = [mutant for mutant in mutants if mutant.code.co_freevars == free]
        comparable = [mutant for mutant in alike if is_comparable(mutant)]
        self.mutants = {
            mutant.key: copy_of(function, mutant.code) for mutant in comparable
        }
        self.others = [
            mutant.key for mutant in mutants if mutant.key not in self.mutants
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.seen.comparing:
            return self.original(*args, **kwargs)
        self.seen.differ.update(self.others)
        result = self.original(*args, **kwargs)
        self.seen.comparing = True
        try:
            for key in (
                self.mutants.keys()
                - self.seen.differ
                - self.seen.crash
                - self.seen.enough
            ):
                self._compare(key, result, args, kwargs)
        finally:
            self.seen.comparing = False
        return result

    def _compare(
        self, key: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        try:
            with bounded(LONGEST):
                alike = same(result, self.mutants[key](*args, **kwargs))
        except (Exception, TooLong):  # noqa: BLE001 whatever a mutant does, it differs
            self.seen.crash.add(key)
            return
        if not alike:
            self.seen.differ.add(key)


class Seen:
    """What the watches found in one test, by keys of mutants.

    crash: raises, or does not end, where the function gives a result. differ: gives another one. enough: need not be
    looked at in this test.
    """

    def __init__(self) -> None:
        self.comparing = False
        self.crash: set[str] = set()
        self.differ: set[str] = set()
        self.enough: set[str] = set()

    def begin(self) -> None:
        self.crash.clear()
        self.differ.clear()


def copy_of(function: FunctionType, code: CodeType) -> FunctionType:
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def watch(
    live: Mapping[Place, list[FunctionType]], mutants: Iterable[Mutant], seen: Seen
) -> None:
    """From now on each function of a mutant says in `seen` what the mutant would change."""
    of_place: dict[Place, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        of_place[place_of(mutant)].append(mutant)
    numbers = count()
    for place, changes in of_place.items():
        for function in live.get(place, []):
            name = f"{WATCH}{next(numbers)}"
            function.__globals__[name] = Watch(function, changes, seen)
            function.__code__ = calling(name, function.__code__.co_freevars)


def calling(name: str, free: tuple[str, ...]) -> CodeType:
    """Code that calls the global of this name; it has the free names that the code before it had."""
    names = ", ".join(free)
    keeps = f"({names},)" if free else "()"
    lines = [
        f"def outer({names}):",
        "    def inner(*args, **kwargs):",
        f"        if 0: {keeps}",
        f"        return {name}(*args, **kwargs)",
        "    return inner",
    ]
    source = "\n".join(lines)
    made: dict[str, Callable[..., FunctionType]] = {}
    exec(source, made)  # noqa: S102 the names are those of this program
    return made["outer"](*free).__code__
