"""The mutants of one source file: what changes, on which line, and the function whose code becomes another."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any

Identity = tuple[str, int]
"""Of a function in its file: its qualified name, and how many of the same name are before it."""


@dataclass(frozen=True)
class Mutant:
    """One change. line: where it begins. before, after: the changed lines of the source. function: whose code changes,
    as it was before: a name and a first line."""

    file: str
    line: int
    before: str
    after: str
    function: str
    function_line: int
    code: CodeType
    function_source: str

    @cached_property
    def key(self) -> str:
        """The same as long as the function and the change are."""
        parts = [self.file, self.function, self.function_source, self.before, self.after]
        said = "\0".join(parts)
        return sha256(said.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}\n    - {self.before}\n    + {self.after}"


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """All changes of the functions in a file, in the order of its lines. root: what names of files are relative to."""
    from mutants.sources import sources  # noqa: PLC0415 - libcst takes half a second in each process that collects tests

    source = path.read_text()
    original = compile(source, str(path), "exec", dont_inherit=True)
    lines = source.splitlines()
    found: dict[str, Mutant] = {}
    for line, mutated in sources(source):
        try:
            changed = compile(mutated, str(path), "exec", dont_inherit=True)
        except SyntaxError:
            continue
        pair = first_difference(original, changed)
        if pair is None:
            continue
        before, after = changed_lines(lines, mutated.splitlines())
        old, new = pair
        mutant = Mutant(
            file=str(path.relative_to(root)),
            line=line,
            before=before,
            after=after,
            function=old.co_qualname,
            function_line=old.co_firstlineno,
            code=new,
            function_source="\n".join(lines[old.co_firstlineno - 1 : last_line(old)]),
        )
        found.setdefault(mutant.key, mutant)
    return sorted(found.values(), key=lambda one: one.line)


def first_difference(before: CodeType, after: CodeType) -> tuple[CodeType, CodeType] | None:
    """The outermost function that differs, before and after; None where none does, or no function alone."""
    old, new = list(inner(before)), list(inner(after))
    if [one.co_qualname for one in old] != [one.co_qualname for one in new]:
        return None
    for one, other in zip(old, new, strict=True):
        if meaning(one) == meaning(other):
            continue
        if is_function(one):
            return one, other
        return first_difference(one, other)
    return None


def inner(code: CodeType) -> Iterator[CodeType]:
    return (one for one in code.co_consts if isinstance(one, CodeType))


def is_function(code: CodeType) -> bool:
    """Whether it has local names in slots, as the body of a class has not."""
    optimized = 0x1
    return bool(code.co_flags & optimized)


def meaning(code: CodeType) -> tuple[Any, ...]:
    """All of it but its lines."""
    constants = tuple(meaning(one) if isinstance(one, CodeType) else (type(one), repr(one)) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def last_line(code: CodeType) -> int:
    own = [line for *_, line in code.co_lines() if line is not None]
    return max([*own, *(last_line(one) for one in inner(code))])


def changed_lines(before: list[str], after: list[str]) -> tuple[str, str]:
    """What is left where the equal lines at the beginning and at the end are taken away."""
    start = 0
    while before[start : start + 1] == after[start : start + 1]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old = before[start : len(before) - end]
    new = after[start : len(after) - end]
    return joined(old), joined(new)


def joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)
