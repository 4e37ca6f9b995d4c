"""The ceilings of each room, which only fall: `ceilings.toml`."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from standards.measures import Measures, measures_of

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("ceilings.toml")
FOLDERS = ("exporter", "tests", "bench", "dashboards", "docs", "helm")
HEAD = """\
# For each room, at most: nodes of the syntax tree per line, stumbles in 1,000 lines, uses of `Any`, docstrings that
# begin with no subject. The numbers only fall: `python -m standards --lower` writes what a room has reached. A new
# room begins with the standard.
"""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a room may have.

    Attributes:
        nodes_per_line: Syntax nodes per line.
        stumbles: Stumbles in 1,000 lines.
        any_types: Uses of `Any`.
        vague_docstrings: Docstrings that begin with no subject.
    """

    nodes_per_line: float = 5.2
    stumbles: float = 12.0
    any_types: int = 0
    vague_docstrings: int = 0

    def lowered_to(self, reached: "Ceiling") -> "Ceiling":
        """Return the lower one of each number."""
        return Ceiling(
            nodes_per_line=min(self.nodes_per_line, reached.nodes_per_line),
            stumbles=min(self.stumbles, reached.stumbles),
            any_types=min(self.any_types, reached.any_types),
            vague_docstrings=min(self.vague_docstrings, reached.vague_docstrings),
        )


STANDARD = Ceiling()
"""The most that a room may have in the end; below it no ceiling falls."""


def rooms(root: Path = ROOT) -> dict[str, Measures]:
    """Measure each folder with Python files, by its path."""
    measured: dict[str, Measures] = {}
    for file in python_files(root):
        folder = file.parent.relative_to(root)
        room = folder.as_posix()
        source = file.read_text(encoding="utf-8")
        others = measured.get(room, Measures())
        measured[room] = others + measures_of(source)
    return measured


def python_files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (root / folder).rglob("*.py")


def load(file: Path = FILE) -> dict[str, Ceiling]:
    """Read the ceilings by room."""
    text = file.read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return {room: Ceiling(**numbers) for room, numbers in tables.items()}


def reached(measured: Measures) -> Ceiling:
    """Return the lowest ceiling under which the room stands, not below the standard."""
    nodes = rounded_up(measured.nodes_per_line, parts=100)
    stumbles = rounded_up(measured.stumbles_per_1000_lines, parts=10)
    return Ceiling(
        nodes_per_line=max(nodes, STANDARD.nodes_per_line),
        stumbles=max(stumbles, STANDARD.stumbles),
        any_types=measured.any_types,
        vague_docstrings=measured.vague_docstrings,
    )


def rounded_up(number: float, parts: int) -> float:
    whole = math.ceil(number * parts)
    return whole / parts


def above(
    measured: Mapping[str, Measures], ceilings: Mapping[str, Ceiling]
) -> list[str]:
    """Return a sentence for each number of a room that is above its ceiling."""
    sentences: list[str] = []
    for room, measures in measured.items():
        ceiling = ceilings.get(room, STANDARD)
        texts = texts_above(measures, ceiling)
        sentences += [f"{room} has {text}" for text in texts]
    return sentences


def texts_above(measures: Measures, ceiling: Ceiling) -> Iterator[str]:
    """Say which numbers of a room are above its ceiling."""
    nodes = measures.nodes_per_line
    if nodes > ceiling.nodes_per_line:
        yield f"{nodes:.2f} nodes per line, at most {ceiling.nodes_per_line:.2f}"
    stumbles = measures.stumbles_per_1000_lines
    if stumbles > ceiling.stumbles:
        yield f"{stumbles:.1f} stumbles in 1,000 lines, at most {ceiling.stumbles:.1f}"
    if measures.any_types > ceiling.any_types:
        yield f"{measures.any_types} uses of Any, at most {ceiling.any_types}"
    vague = measures.vague_docstrings
    if vague > ceiling.vague_docstrings:
        yield f"{vague} docstrings without a subject, at most {ceiling.vague_docstrings}"


def lowered(
    measured: Mapping[str, Measures], ceilings: Mapping[str, Ceiling]
) -> dict[str, Ceiling]:
    """Return the ceilings of the rooms that are there, none higher than before, without those at the standard."""
    lower: dict[str, Ceiling] = {}
    for room, measures in sorted(measured.items()):
        before = ceilings.get(room, STANDARD)
        ceiling = before.lowered_to(reached(measures))
        if ceiling != STANDARD:
            lower[room] = ceiling
    return lower


def written(ceilings: Mapping[str, Ceiling]) -> str:
    """Return the text of the file."""
    text = HEAD
    for room, ceiling in ceilings.items():
        numbers = [
            f"nodes_per_line = {ceiling.nodes_per_line:.2f}",
            f"stumbles = {ceiling.stumbles:.1f}",
        ]
        if ceiling.any_types:
            numbers.append(f"any_types = {ceiling.any_types}")
        if ceiling.vague_docstrings:
            numbers.append(f"vague_docstrings = {ceiling.vague_docstrings}")
        listed = ", ".join(numbers)
        text += f'"{room}" = {{ {listed} }}\n'
    return text
