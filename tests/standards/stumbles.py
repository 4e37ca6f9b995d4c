"""Places at which a reader stumbles: too much at once, or names that say nothing."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
MOST_NAMES = 12
"""Local names that a reader can keep in mind."""
MOST_TERMS = 4
"""Terms of one chain of `&` and `|`."""
MOST_NODES = 60
"""Syntax nodes of one statement."""
EMPTY_WORDS = (
    "at beside came ever found given gone held here known meant of once one ones said shown theirs there those told"
    " went what who whom whose"
)
EMPTY_NAMES = frozenset(EMPTY_WORDS.split())
"""Words that stand for a noun which the name should have."""
SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""What has names of its own."""
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


class Stumble(NamedTuple):
    line: int
    text: str


def stumbles(tree: ast.Module) -> Iterator[Stumble]:
    """Find all of a file."""
    for node in ast.walk(tree):
        for text in texts_of(node):
            yield Stumble(getattr(node, "lineno", 0), text)


def texts_of(node: ast.AST) -> Iterator[str]:
    """Say what is hard to read in this node itself."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from of_names(node)
        case ast.Assign(targets=[ast.Tuple(), *_], value=ast.Tuple()):
            yield "several assignments in one"
        case ast.BinOp() if terms(node) > MOST_TERMS:
            yield f"a chain of {terms(node)} terms: name its parts"
        case ast.IfExp(orelse=ast.IfExp()):
            yield "a conditional expression in another"
    if isinstance(node, STATEMENTS):
        yield from of_size(node)


def of_names(function: FUNCTIONS) -> Iterator[str]:
    names = local_names(function)
    count = len(names)
    if count > MOST_NAMES:
        yield f"{function.name}: {count} names (at most {MOST_NAMES})"
    empty = sorted(names & EMPTY_NAMES)
    listed = ", ".join(empty)
    if empty:
        yield f"{function.name}: names that say nothing: {listed}"


def of_size(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
    nodes = list(ast.walk(statement))
    size = len(nodes)
    if size > MOST_NODES:
        yield f"a statement of {size} nodes: take steps"


def local_names(function: FUNCTIONS) -> set[str]:
    """Return parameters and variables of the function, without those of functions inside it."""
    names = parameters(function)
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
        if not isinstance(node, SCOPES):
            children = ast.iter_child_nodes(node)
            waiting.extend(children)
    return names


def parameters(function: FUNCTIONS) -> set[str]:
    arguments = function.args
    declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    names = {argument.arg for argument in declared}
    return names - {"self", "cls"}


def terms(node: ast.AST) -> int:
    """Count the terms of a chain of `&` and `|`; 1 for all else."""
    match node:
        case ast.BinOp(left=left, right=right, op=ast.BitAnd() | ast.BitOr()):
            return terms(left) + terms(right)
    return 1


def stumbles_in(source: str) -> list[Stumble]:
    """Find all of a file, by line. Raises SyntaxError."""
    return sorted(set(stumbles(ast.parse(source))))
