"""How dense the code of a file is, and how often a reader stumbles in it."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from standards.stumbles import stumbles

VAGUE_BEGINNINGS = frozenset({"Of", "By", "What", "Those", "With", "Whose"})
"""A docstring that begins so is no sentence: its reader must guess the subject."""
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Measures:
    """Of a file or of several together.

    Attributes:
        nodes: Expressions and statements of the syntax tree, without docstrings.
        lines: Lines on which one of them begins.
        stumbles: Places that are hard to read.
        any_types: Uses of the type `Any`.
        vague_docstrings: Docstrings that begin with no subject and no verb.
    """

    nodes: int = 0
    lines: int = 0
    stumbles: int = 0
    any_types: int = 0
    vague_docstrings: int = 0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(
            nodes=self.nodes + other.nodes,
            lines=self.lines + other.lines,
            stumbles=self.stumbles + other.stumbles,
            any_types=self.any_types + other.any_types,
            vague_docstrings=self.vague_docstrings + other.vague_docstrings,
        )

    @property
    def nodes_per_line(self) -> float:
        return self.nodes / max(self.lines, 1)

    @property
    def stumbles_per_1000_lines(self) -> float:
        return 1000 * self.stumbles / max(self.lines, 1)


def measures_of(source: str) -> Measures:
    """Measure the source of one file. Raises SyntaxError."""
    tree = ast.parse(source)
    ignored = nodes_of_docstrings(tree)
    nodes = 0
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr) and node not in ignored:
            nodes += 1
            lines.add(node.lineno)
    return Measures(
        nodes=nodes,
        lines=len(lines),
        stumbles=len(list(stumbles(tree))),
        any_types=uses_of_any(tree),
        vague_docstrings=vague_docstrings(tree),
    )


def uses_of_any(tree: ast.Module) -> int:
    """Count the places where the type `Any` is used, its imports apart."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return names.count("Any")


def vague_docstrings(tree: ast.Module) -> int:
    """Count the docstrings that begin with one of VAGUE_BEGINNINGS."""
    count = 0
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED):
            continue
        words = (ast.get_docstring(node) or "").split()
        if words and words[0] in VAGUE_BEGINNINGS:
            count += 1
    return count


def nodes_of_docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes of the docstrings of the module, its classes and functions."""
    nodes: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module()
                | ast.ClassDef()
                | ast.FunctionDef()
                | ast.AsyncFunctionDef()
            ):
                docstring = docstring_of(node.body)
                nodes.update(docstring)
    return nodes


def docstring_of(body: Sequence[ast.stmt]) -> Sequence[ast.AST]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())) as statement, *_]:
            return [statement, statement.value]
    return []
