"""How dense the code of a file is, and how often a reader stumbles in it."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from standards.stumbles import stumbles


@dataclass(frozen=True, slots=True)
class Measures:
    """Of a file or of several together.

    Attributes:
        nodes: Expressions and statements of the syntax tree, without docstrings.
        lines: Lines on which one of them begins.
        stumbles: Places that are hard to read.
    """

    nodes: int = 0
    lines: int = 0
    stumbles: int = 0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(
            self.nodes + other.nodes,
            self.lines + other.lines,
            self.stumbles + other.stumbles,
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
    all_stumbles = list(stumbles(tree))
    return Measures(nodes=nodes, lines=len(lines), stumbles=len(all_stumbles))


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
