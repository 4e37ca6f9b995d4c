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
        parts = [
            self.file,
            self.function,
            self.function_source,
            self.before,
            self.after,
        ]
        text = "\0".join(parts)
        digits = sha256(text.encode()).hexdigest()
        return digits[:16]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}\n    - {self.before}\n    + {self.after}"


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """All changes of the functions in a file, in the order of its lines. root: what names of files are relative to."""
    from mutants.sources import sources  # noqa: PLC0415 - libcst takes half a second in each process that collects tests

    source = path.read_text()
    original = compile(source, str(path), "exec", dont_inherit=True)
    lines = source.splitlines()
    mutants: dict[str, Mutant] = {}
    for line, mutated in sources(source):
        changed = compiled(mutated, path)
        difference = first_difference(original, changed) if changed else None
        if difference is None:
            continue
        function, code = difference
        before, after = changed_lines(lines, mutated.splitlines())
        own_lines = lines[function.co_firstlineno - 1 : last_line(function)]
        mutant = Mutant(
            file=str(path.relative_to(root)),
            line=line,
            before=before,
            after=after,
            function=function.co_qualname,
            function_line=function.co_firstlineno,
            code=code,
            function_source="\n".join(own_lines),
        )
        mutants.setdefault(mutant.key, mutant)
    return sorted(mutants.values(), key=lambda mutant: mutant.line)


def compiled(source: str, path: Path) -> CodeType | None:
    """None where it is no Python."""
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError:
        return None


def first_difference(
    before: CodeType, after: CodeType
) -> tuple[CodeType, CodeType] | None:
    """The outermost function that differs, before and after; None where none does, or no function alone."""
    old_codes = list(inner(before))
    new_codes = list(inner(after))
    old_names = [code.co_qualname for code in old_codes]
    new_names = [code.co_qualname for code in new_codes]
    if old_names != new_names:
        return None
    for old, new in zip(old_codes, new_codes, strict=True):
        if meaning(old) == meaning(new):
            continue
        if is_function(old):
            return old, new
        return first_difference(old, new)
    return None


def inner(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def is_function(code: CodeType) -> bool:
    """Whether it has local names in slots, as the body of a class has not."""
    optimized = 0x1
    return bool(code.co_flags & optimized)


def meaning(code: CodeType) -> tuple[Any, ...]:
    """All of it but its lines."""
    constants = tuple(map(meaning_of_constant, code.co_consts))
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def meaning_of_constant(constant: Any) -> tuple[Any, ...]:
    if isinstance(constant, CodeType):
        return meaning(constant)
    return type(constant), repr(constant)


def last_line(code: CodeType) -> int:
    lines = [line for *_, line in code.co_lines() if line is not None]
    lines += [last_line(function) for function in inner(code)]
    return max(lines)


def changed_lines(before: list[str], after: list[str]) -> tuple[str, str]:
    """What is left where the equal lines at the beginning and at the end are taken away."""
    start = 0
    while before[start : start + 1] == after[start : start + 1]:
        start += 1
    end = 0
    while (
        end < min(len(before), len(after)) - start
        and before[-1 - end] == after[-1 - end]
    ):
        end += 1
    old = before[start : len(before) - end]
    new = after[start : len(after) - end]
    return joined(old), joined(new)


def joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)
